"""Folding the row changes of real files gives exactly the tables that their servers had, value by value.

`expected.json` is what the server itself said with SELECT; its encodings are in `fixtures/README.md`. The files are
read with nothing but what the log says: where it has no names, signs and character sets in its metadata, they come from
the statements in it.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio.reader
from binlogio.constants import ColumnType
from binlogio.events import ROWS_EVENTS
from binlogio.rows.image import decode_rows
from binlogio.rows.plan import resolve_plan
from corpus import FIXTURES, Case, cases
from expected_values import ALTERED_AFTERWARDS, NOT_AS_THE_SOURCE, expected_row, ours, unlike
from folding import Fold, NotFoldedError, Table
from logs import query

if TYPE_CHECKING:
    from collections.abc import Callable


# Rows that are there change with an ALTER, which the fold does not follow; a replay does, and compares the same tables
# (test_replay_corpus).
NOT_FOLDED: Final = (
    *("mariadb118/alter", "mariadb118/altered", "mysql97/altered"),
    *("mariadb1011/unique_hash", "mariadb118/unique_hash"),
)
WITH_TABLES: Final = [case for case in cases() if case.load("expected.json") is not None]


def _open(case: Case) -> binlogio.reader.BinlogReader:
    options: dict[str, Any] = {"keyring": case.keys} if case.keys is not None else {}
    return binlogio.reader.open(case.logs, **options)


def _fold(case: Case) -> Fold:
    """Fold the logs of a case.

    A case of another corpus may have statements that are not followed, and rows that do not fit without them: it is
    skipped with the first of these. A case of the project has to fold.
    """
    expected = case.load("expected.json")["tables"]
    fold = Fold(engines={name: table["engine"] for name, table in expected.items()})
    try:
        with _open(case) as reader:
            for event in reader:
                if not isinstance(event, ROWS_EVENTS):
                    fold.event(event)
                    continue
                plan = reader.plan(event)
                fold.rows(plan, list(decode_rows(event, plan)))
    except NotFoldedError as exc:
        _skip_unfollowed(case, fold, str(exc))
        raise
    return fold


def _skip_unfollowed(case: Case, fold: Fold, why: str) -> None:
    """Skip a case of another corpus whose statements explain what is wrong."""
    if case.root != FIXTURES and (fold.statements or fold.unfollowed):
        pytest.skip(f"not folded: {why}, after {(fold.statements + fold.unfollowed)[0]!r}")


def _rows_of(table: Table, expected: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    columns = table.plan.columns if table.plan is not None else ()
    return Counter(tuple(ours(*one) for one in zip_longest(row, expected["columns"], columns)) for row in table.all())


@pytest.mark.parametrize("case", [case for case in WITH_TABLES if case.id not in NOT_FOLDED], ids=lambda case: case.id)
def test_rows_events_fold_into_the_tables_of_the_server(
    case: Case, record_property: Callable[[str, object], None]
) -> None:
    """Full images by the whole row, partial ones by what they have."""
    expected = case.load("expected.json")["tables"]
    fold = _fold(case)
    if fold.statements:
        pytest.skip(f"{len(fold.statements)} statements, such as {fold.statements[0]!r}, are no row changes")
    if fold.unfollowed:
        _skip_unfollowed(case, fold, "an ALTER TABLE is not followed")
    compared = 0
    for name, table in expected.items():
        if name in NOT_AS_THE_SOURCE.get(case.id, ()):
            continue
        found = fold.tables.get(name, Table())
        if found.plan is not None and f"{case.folder.name}/{name}" not in ALTERED_AFTERWARDS:
            assert [column.name for column in found.plan.columns] == [column["name"] for column in table["columns"]]
        rows = Counter(expected_row(row, table, found.plan) for row in table["rows"])
        ours = _rows_of(found, table)
        compared += rows.total()
        only_theirs, only_ours = rows - ours, ours - rows

        assert not unlike(only_theirs, only_ours), f"{name}: not in our rows"
        assert only_theirs.total() == only_ours.total() or found.lossy, f"{name}: only in our rows"

    assert compared or not any(table["rows"] for table in expected.values())
    record_property("values", json.dumps({"tables": len(expected), "rows compared": compared, **fold.counts}))


def test_cases_with_rows_are_not_skipped() -> None:
    """Else the test above would be empty: at most the cases in statement format are."""
    own = [case for case in WITH_TABLES if case.root == FIXTURES]
    skipped = {case.id for case in own if not any(isinstance(event, ROWS_EVENTS) for event in _open(case))}

    assert {name for name in skipped if name.partition("/")[2] != "format_statement"} == set()


def test_column_types_cover_what_servers_of_today_have() -> None:
    """The types that no case has are those that no server makes any more, or that never are in a log."""
    seen = set()
    for case in (case for case in WITH_TABLES if case.root == FIXTURES):
        for plan_type in _types(case):
            seen.add(plan_type)
    never = {
        ColumnType.NULL,
        ColumnType.NEWDATE,
        ColumnType.INVALID,
        ColumnType.BOOL,
        ColumnType.TYPED_ARRAY,
        ColumnType.DECIMAL,
    }
    real_types_of_columns = {ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.VAR_STRING}

    assert set(ColumnType) - seen == never | real_types_of_columns


def _types(case: Case) -> set[ColumnType]:
    with _open(case) as reader:
        tables = [reader.table_map(event) for event in reader if isinstance(event, ROWS_EVENTS)]
        context = reader.context
    return {column.type for table in set(tables) for column in resolve_plan(table, context).columns}


def test_change_that_does_not_fit_its_table_is_told_with_what_was_not_followed() -> None:
    """An instant ADD COLUMN, whose rows the log does not have; a row that was changed by a statement.

    A savepoint that is not there.
    """
    wide, narrow = Table(), Table()
    wide.add((1, 2))
    narrow.add((1,))
    fold = Fold()
    fold.event(query("ALTER TABLE t ADD COLUMN c INT DEFAULT 5, ALGORITHM=INSTANT"))

    assert fold.unfollowed == ["ALTER TABLE t ADD COLUMN c INT DEFAULT 5, ALGORITHM=INSTANT"]
    for table, image in ((wide, (1, 3)), (narrow, (1, 5)), (Table(), (1,))):
        with pytest.raises(NotFoldedError):
            table.take(image)
    with pytest.raises(NotFoldedError, match="savepoint"):
        fold.event(query("ROLLBACK TO `a`"))


def test_case_of_another_corpus_that_cannot_be_folded_is_skipped_with_its_reason() -> None:
    """One of the project is not."""
    fold = Fold(unfollowed=["ALTER TABLE t ADD COLUMN c INT"])
    with pytest.raises(pytest.skip.Exception, match="no row, after 'ALTER TABLE t ADD COLUMN c INT'"):
        _skip_unfollowed(Case(FIXTURES, FIXTURES.parent, (), None), fold, "no row")
    _skip_unfollowed(Case(FIXTURES, FIXTURES, (), None), fold, "no row")
    _skip_unfollowed(Case(FIXTURES, FIXTURES.parent, (), None), Fold(), "no row")
