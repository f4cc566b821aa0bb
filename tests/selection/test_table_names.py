"""`TableNames` and `Selection`: answers about tables, databases, groups and statements, without a log."""

from __future__ import annotations

import pytest

from binlogio.gtid import GtidSet
from binlogio.options import Position
from binlogio.selection.event_filter import Range, parse_gtid
from binlogio.selection.selection import Selection
from binlogio.selection.table_names import TableNames

EVERY = TableNames()


@pytest.mark.parametrize(
    ("names", "database", "some", "every"),
    [
        (EVERY, "shop", True, True),
        (TableNames(databases=("shop",)), "shop", True, True),
        (TableNames(databases=("shop",)), "other", False, False),
        (TableNames(tables=("shop.orders",)), "shop", True, False),
        (TableNames(tables=("shop.orders",)), "other", False, False),
        (TableNames(tables=("orders",)), "other", True, False),
        (TableNames(tables=("shop.*",)), "shop", True, True),
        (TableNames(tables=("shop.*",), databases=("other",)), "shop", False, False),
        (TableNames(excluded=("shop.*",)), "shop", False, False),
        (TableNames(excluded=("shop.orders",)), "shop", True, False),
        (TableNames(excluded=("shop.orders",)), "other", True, True),
        (TableNames(tables=("shop.*",), excluded=("shop.*",)), "shop", False, False),
        (TableNames.of(()), "shop", False, False),
    ],
)
def test_tables_of_a_database(names: TableNames, database: str, some: bool, every: bool) -> None:
    """Whether some of its tables may be selected, and whether all of them are."""
    assert (names.wants_some(database), names.wants_all(database)) == (some, every)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (EVERY, "every table"),
        (TableNames(tables=("a", "b")), "a, b"),
        (TableNames(databases=("d",)), "every table of d"),
        (TableNames(databases=("d",), excluded=("x", "y")), "every table of d without x, y"),
    ],
)
def test_selections_as_text(names: TableNames, text: str) -> None:
    assert str(names) == text


@pytest.mark.parametrize(
    ("glob", "name", "is_certain"),
    [
        ("shop.orders", ("shop", "orders"), True),
        ("shop.orders", ("shop", "Orders"), False),
        ("shop.Orders", ("shop", "orders"), False),
        ("shop.Orders", ("SHOP", "other"), True),
        ("`a``b.c`.d", ("a`b.c", "d"), True),
    ],
)
def test_names_that_differ_in_case_only(glob: str, name: tuple[str, str], is_certain: bool) -> None:
    """A server may take them for one name."""
    assert TableNames(tables=(glob,)).is_certain(*name) is is_certain


def test_quotes_without_their_end_are_characters() -> None:
    """A name in backticks has dots and globs of its own."""
    assert TableNames(tables=("a`.t",)).wants("a`", "t")
    assert TableNames(tables=("`a.*`.t",)).wants("a.*", "t")
    assert not TableNames(tables=("`a.*`.t",)).wants("a.b", "t")


def test_positions_are_those_of_the_first_and_the_last_log() -> None:
    start, stop = Position("b.1", 10), Position("b.3", 90)

    assert Selection(start=start, stop=stop).ranges(("b.1", "b.2", "b.3")) == {
        "b.1": Range(start=10),
        "b.3": Range(end=90),
    }
    assert Selection(start=start, stop=stop).ranges(("b.1",)) == {"b.1": Range(start=10, end=90)}
    assert Selection(stop=stop).ranges(("b.2", "b.3")) == {"b.3": Range(end=90)}


def test_groups_that_a_later_part_has() -> None:
    """Times and GTIDs select parts of logs; other conditions leave out what is not wanted at all."""
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    first, last = parse_gtid(f"{uuid}:1"), parse_gtid(f"{uuid}:9")
    some = GtidSet.parse(f"{uuid}:1-5")

    assert not Selection().is_for_later(7, first)
    assert [Selection(start_time=7).is_for_later(time, None) for time in (6, 7, 8)] == [True, False, False]
    for selection in (Selection(include_gtids=some), Selection(up_to_gtids=some)):
        assert [selection.is_for_later(7, one) for one in (first, last, None)] == [False, True, True]
    assert not Selection(exclude_gtids=some).is_for_later(7, first)


@pytest.mark.parametrize(
    ("selection", "sql", "is_wanted"),
    [
        (Selection(), "INSERT INTO t VALUES (1)", True),
        (Selection(databases=("other",)), "INSERT INTO t VALUES (1)", False),
        (Selection(tables=("s.t",)), "INSERT INTO t VALUES (1)", True),
        (Selection(tables=("s.u",)), "INSERT INTO t SELECT * FROM u", False),
        (Selection(tables=("s.t",)), "GRANT ALL ON t TO x", True),
        (Selection(tables=("s.t",)), "FLUSH TABLES", False),
        (Selection(exclude_tables=("s.t",)), "DROP TABLE t", False),
        (Selection(exclude_tables=("s.t",)), "DROP TABLE u", True),
        (Selection(exclude_tables=("s.t",)), "DROP TABLE t, u", True),
    ],
)
def test_statements_by_the_tables_that_they_change(selection: Selection, sql: str, is_wanted: bool) -> None:
    """One whose tables are unknown is selected by the words in it."""
    assert selection.wants_statement("s", sql.encode()) is is_wanted
