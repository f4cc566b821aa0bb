"""Undo of logs made to order: what the inverse of each change is, in which order, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlogio
from binlogio.constants import EventType, RowsFlag
from binlogio.errors import BinlogError, BinlogFormatError, ReplayError
from binlogio.events.control import XaPrepareEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import AnonymousGtidEvent, PreviousGtidsEvent
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.replay import ReplayFilter
from binlogio.replay.undo import BinlogFile, OnStatement, SqlScript, Undo, undo
from binlogio.replay.undo.image_ends import cut_images
from binlogio.replay.undo.spool import Spool
from binlogio.rowimage.image import RowChange, RowImage, encode_partial_rows, encode_rows
from binlogio.rowimage.json import JsonDocument
from binlogio.rowimage.json_diff import JsonDiff, JsonDiffOperation, JsonDiffs
from binlogio.rowimage.plan import resolve_plan
from binlogio.rowimage.values import ABSENT
from binlogio.schema import TableDefinition
from corpus import MARIADB, MYSQL
from logs import OFF, POST_HEADER_SIZES, description, encode, header, log, query

if TYPE_CHECKING:
    from pathlib import Path

KEYED: Final = TableDefinition.from_json(
    {
        "schema": "d",
        "name": "t",
        "columns": [
            {"name": "id", "type": "int", "nullable": False},
            {"name": "name", "type": "varchar(20)"},
            {"name": "doc", "type": "json"},
        ],
        "primary_key": ["id"],
    }
)
KEYLESS: Final = replace(KEYED, name="k", primary_key=())
ONE: Final = (1, "one", None)
TWO: Final = (2, "two", None)
THREE: Final = (3, "three", None)
END: Final = XidEvent(1, header(EventType.XID_EVENT))
Row = tuple[Any, ...]
Pair = tuple[Row | None, Row | None]


def rows_of(*pairs: Pair, table: TableDefinition = KEYED, partial: bool = False) -> list[Any]:
    """TABLE_MAP_EVENT and one rows event."""
    plan = resolve_plan(table.table_map(100))
    changes = [RowChange(*(None if row is None else RowImage(plan, row) for row in pair)) for pair in pairs]
    before, after = changes[0].before, changes[0].after
    count, first = len(table.columns), (before or after)
    present = first.present if first is not None else b""
    fields: dict[str, Any] = {"table_id": 100, "flags": 1, "extra": b"", "column_count": count, "present": present}
    if before is not None and after is not None:
        kind: Any = PartialUpdateRowsEvent if partial else UpdateRowsEvent
        write = encode_partial_rows if partial else encode_rows
        images = write(changes, plan, present, after.present)
        code = EventType.PARTIAL_UPDATE_ROWS_EVENT if partial else EventType.UPDATE_ROWS_EVENT
        event = kind(present_after=after.present, images=images, header=header(code), **fields)
    else:
        kind = DeleteRowsEvent if after is None else WriteRowsEvent
        code = EventType.DELETE_ROWS_EVENT if after is None else EventType.WRITE_ROWS_EVENT
        event = kind(images=encode_rows(changes, plan, present), header=header(code), **fields)
    return [table.table_map(100), event]


def transaction(*parts: list[Any]) -> list[Any]:
    return [query("BEGIN"), *(event for part in parts for event in part), END]


def undone(tmp_path: Path, *events: Any, form: Any = SqlScript, **options: Any) -> Undo:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*events))
    with binlogio.open(path) as reader:
        return undo(reader, form(), **options)


def sql_of(ready: Undo) -> list[str]:
    """The statements between the settings, without comments and checks."""
    with ready:
        lines = b"".join(ready.pieces()).decode().splitlines()
    return [line for line in lines if line and not line.startswith(("SET", "--"))]


def checks_in(ready: Undo) -> int:
    with ready:
        return b"".join(ready.pieces()).count(b"ROW_COUNT() = 1")


def changes_of(ready: Undo, path: Path) -> list[tuple[str, Pair]]:
    """Every change of the inverse as a binary log, checksums and positions verified by the reader."""
    with ready:
        path.write_bytes(b"".join(ready.pieces()))
    found = []
    with binlogio.open(path) as reader:
        for event in reader:
            assert event.header.log_pos == reader.position.offset
            if hasattr(event, "images"):
                for row in reader.rows(event):
                    images = (row.before.values if row.before else None, row.after.values if row.after else None)
                    found.append((reader.table_map(event).table, images))
    return found


# ------------------------------------------------------------------------------------------------------------- order


def test_last_change_comes_first(tmp_path: Path) -> None:
    """Transactions, events and rows, all of them backwards."""
    events = [
        *transaction(rows_of((None, ONE), (None, TWO))),
        *transaction(rows_of((ONE, (1, "uno", None))), rows_of((TWO, None))),
    ]
    statements = sql_of(undone(tmp_path, *events))

    assert statements == [
        "BEGIN;",
        "INSERT INTO `d`.`t` (`id`, `name`, `doc`) VALUES (2, _utf8mb4 'two', NULL);",
        "UPDATE `d`.`t` SET `name` = _utf8mb4 'one' WHERE `id` <=> 1;",
        "COMMIT;",
        "BEGIN;",
        "DELETE FROM `d`.`t` WHERE `id` <=> 2;",
        "DELETE FROM `d`.`t` WHERE `id` <=> 1;",
        "COMMIT;",
    ]


def test_binary_log_has_the_inverse_events(tmp_path: Path) -> None:
    """WRITE and DELETE change places, before and after images too."""
    events = transaction(
        rows_of((None, ONE), (None, TWO)), rows_of((ONE, THREE), (TWO, ONE)), rows_of((THREE, None), table=KEYLESS)
    )
    changes = changes_of(undone(tmp_path, *events, form=BinlogFile), tmp_path / "undo")

    assert changes == [
        ("k", (None, THREE)),
        ("t", (ONE, TWO)),
        ("t", (THREE, ONE)),
        ("t", (TWO, None)),
        ("t", (ONE, None)),
    ]


def test_undo_of_an_undo_is_what_was_there(tmp_path: Path) -> None:
    """For every log of rows in the fixtures whose tables are known: image by image, in the order of the source."""
    count = 0
    for path in (MYSQL / "rowimage_full" / "binlog.000001", MARIADB / "rowimage_full" / "binlog.000001"):
        once, twice = tmp_path / "once", tmp_path / "twice"
        originals = []
        with binlogio.open(path) as reader:
            originals = [(event.images, type(event)) for event in reader if hasattr(event, "images")]
        for source, target in ((path, once), (once, twice)):
            with binlogio.open(source) as reader, undo(reader, BinlogFile(), on_statement=OnStatement.SKIP) as ready:
                target.write_bytes(b"".join(ready.pieces()))
        with binlogio.open(twice) as reader:
            found = [(event.images, type(event)) for event in reader if hasattr(event, "images")]
        count += len(found)

        assert found == originals

    assert count > 80


def test_row_without_a_key_is_found_by_all_it_has(tmp_path: Path) -> None:
    """One of those that are the same."""
    events = transaction(rows_of((None, ONE), (None, ONE), table=KEYLESS))
    where = "`id` = 1 AND CAST(CONVERT(`name` USING utf8mb4) AS BINARY) = 'one' AND `doc` IS NULL LIMIT 1;"

    assert sql_of(undone(tmp_path, *events))[1:-1] == [f"DELETE FROM `d`.`k` WHERE {where}"] * 2


def test_script_checks_each_row_that_must_be_there(tmp_path: Path) -> None:
    """Behind UPDATE and DELETE, unless nobody wants it."""
    events = transaction(rows_of((None, ONE)), rows_of((ONE, TWO)), rows_of((TWO, None)))

    assert checks_in(undone(tmp_path, *events)) == 2
    assert checks_in(undone(tmp_path, *events, form=lambda: SqlScript(checks_rows=False))) == 0


def test_update_that_changes_nothing_is_no_statement(tmp_path: Path) -> None:
    """There would be no row that it changes."""
    assert sql_of(undone(tmp_path, *transaction(rows_of((ONE, ONE))))) == ["BEGIN;", "COMMIT;"]


# ----------------------------------------------------------------------------------------------------------- images


@pytest.mark.parametrize("form", [SqlScript, BinlogFile])
@pytest.mark.parametrize(
    ("pair", "table", "missing"),
    [
        (((1, ABSENT, ABSENT), None), KEYED, "name, doc"),
        (((1, ABSENT, ABSENT), (ABSENT, "x", ABSENT)), KEYED, "name"),
        ((None, (1, ABSENT, ABSENT)), KEYLESS, "name, doc"),
        ((None, (ABSENT, "x", ABSENT)), KEYED, "id"),
        (((ABSENT, "x", ABSENT), (ABSENT, "y", ABSENT)), KEYED, "id"),
    ],
)
def test_image_that_lacks_what_is_needed_is_refused(
    tmp_path: Path, pair: Pair, table: TableDefinition, missing: str, form: Any
) -> None:
    """With the place, the table, the columns and the option."""
    with pytest.raises(ReplayError) as caught:
        undone(tmp_path, *transaction(rows_of(pair, table=table)), form=form)

    assert caught.value.file == str(tmp_path / "binlog.000001")
    assert caught.value.offset
    assert caught.value.field == f"d.{table.name}"
    assert caught.value.found == f"nothing of {missing}"
    assert caught.value.hint == "binlog_row_image=FULL on the source would have kept them"


@pytest.mark.parametrize(
    ("pair", "inverse"),
    [
        ((None, (1, ABSENT, ABSENT)), ((1, ABSENT, ABSENT), None)),
        (((1, "one", ABSENT), (ABSENT, "uno", ABSENT)), ((1, "uno", ABSENT), (1, "one", ABSENT))),
        (((1, ABSENT, ABSENT), (2, ABSENT, ABSENT)), ((2, ABSENT, ABSENT), (1, ABSENT, ABSENT))),
        ((ONE, (ABSENT, "uno", ABSENT)), ((1, "uno", None), ONE)),
    ],
)
def test_smaller_image_that_has_what_is_needed_is_taken_back(tmp_path: Path, pair: Pair, inverse: Pair) -> None:
    """An insert whose key is there; an update that has the old value of all it changed."""
    ready = undone(tmp_path, *transaction(rows_of(pair)), form=BinlogFile)

    assert changes_of(ready, tmp_path / "undo") == [("t", inverse)]


DOCUMENT: Final = JsonDocument.from_text('{"a": 1, "b": [1, 2]}')
DIFFS: Final = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text("2"))])


def test_partial_update_becomes_a_whole_one(tmp_path: Path) -> None:
    """The document as it is now comes from the diffs."""
    pair = ((1, "x", DOCUMENT), (1, "x", DIFFS))
    ready = undone(tmp_path, *transaction(rows_of(pair, partial=True)), form=BinlogFile)
    ((_, (before, after)),) = changes_of(ready, tmp_path / "undo")

    assert before is not None
    assert after == (1, "x", DOCUMENT)
    assert before[2].text == '{"a": 2, "b": [1, 2]}'


def test_partial_update_without_its_document_is_refused(tmp_path: Path) -> None:
    """Both options are named."""
    pair = ((1, ABSENT, ABSENT), (ABSENT, ABSENT, DIFFS))
    with pytest.raises(ReplayError, match=r"nothing of doc .*binlog_row_image=FULL and binlog_row_value_options=''"):
        undone(tmp_path, *transaction(rows_of(pair, partial=True)))


@given(st.binary(max_size=40), st.lists(st.integers(-4, 9), max_size=9), st.booleans())
def test_images_of_any_bytes_are_cut_or_refused(images: bytes, widths: list[int], is_update: bool) -> None:
    """What is cut is all of it."""
    kinds = (tuple(widths),) * (1 + is_update)
    try:
        cut = cut_images(images, kinds)
    except BinlogError:
        return

    assert b"".join(cut) == images


@pytest.mark.parametrize("form", [SqlScript, BinlogFile])
def test_event_of_another_number_of_columns_is_damage(tmp_path: Path, form: Any) -> None:
    """Said before anybody looks at its images."""
    table, event = rows_of((None, ONE))
    other = replace(event, column_count=9, present=b"\xff\x01")
    with pytest.raises(BinlogFormatError, match="expected 3, found 9"):
        undone(tmp_path, query("BEGIN"), table, other, END, form=form)


def test_rows_of_5_1_before_its_release_are_no_binary_log(tmp_path: Path) -> None:
    """A sentence, with what can be done."""
    table, event = rows_of((None, ONE))
    old = replace(event, header=header(EventType.PRE_GA_WRITE_ROWS_EVENT))
    path = tmp_path / "binlog.000001"
    sizes = (*POST_HEADER_SIZES[:19], 8, 8, 8, *POST_HEADER_SIZES[22:])
    path.write_bytes(b"\xfebin" + encode([description(sizes=sizes), query("BEGIN"), table, old, END]))
    with binlogio.open(path) as reader, pytest.raises(BinlogError, match=r"read only .*SQL instead"):
        undo(reader, BinlogFile())


UPDATED: Final = ((1, "x", DOCUMENT), (1, "x", DIFFS))
SOUND: Final = log(
    *transaction(
        rows_of((None, ONE), (None, TWO)), rows_of((ONE, None), table=KEYLESS), rows_of(UPDATED, partial=True)
    ),
    algorithm=OFF,
)


@given(
    st.lists(st.tuples(st.integers(4, len(SOUND) - 1), st.integers(0, 255)), min_size=1, max_size=8),
    st.sampled_from([SqlScript, BinlogFile]),
    st.sampled_from(OnStatement),
)
def test_damage_is_an_error_of_ours_or_none(
    damage: list[tuple[int, int]], form: Any, on_statement: OnStatement
) -> None:
    """Nothing but BinlogError comes out, whatever the bytes."""
    data = bytearray(SOUND)
    for at, byte in damage:
        data[at] = byte
    try:
        with binlogio.open(BytesIO(data)) as reader, undo(reader, form(), on_statement=on_statement) as ready:
            output = b"".join(ready.pieces())
            count = ready.summary.transactions
    except BinlogError:
        return

    assert output or not count


# ------------------------------------------------------------------------------------------------------- statements


DDL: Final = query("ALTER TABLE t ADD x INT")
TEXT: Final = [query("BEGIN"), query("INSERT INTO t VALUES (1)"), END]


def test_statement_is_refused_by_default(tmp_path: Path) -> None:
    """With its text and the options."""
    events = [*transaction(rows_of((None, ONE))), DDL]
    with pytest.raises(ReplayError, match=r"ALTER TABLE t ADD x INT .*--on-statement stop") as caught:
        undone(tmp_path, *events)

    assert caught.value.offset
    assert caught.value.file


def test_change_that_is_text_names_the_format_that_it_lacks(tmp_path: Path) -> None:
    """binlog_format=ROW."""
    with pytest.raises(ReplayError, match=r"INSERT INTO t VALUES .*binlog_format=ROW"):
        undone(tmp_path, *TEXT)


def test_undo_stops_at_the_last_statement(tmp_path: Path) -> None:
    """Rows behind it are taken back, and what was wrong before it does not matter."""
    refused = transaction(rows_of(((1, ABSENT, ABSENT), None)))
    events = [*transaction(rows_of((None, ONE))), *refused, DDL, *transaction(rows_of((None, TWO)))]
    ready = undone(tmp_path, *events, on_statement=OnStatement.STOP)
    end = ready.summary.end

    assert sql_of(ready)[1:-1] == ["DELETE FROM `d`.`t` WHERE `id` <=> 2;"]
    assert ready.summary.transactions == 1
    assert ready.summary.rows == {("d.t", "insert"): 1}
    assert end is not None
    assert end.offset == len(log(*events[: events.index(DDL) + 1]))


def test_what_is_refused_behind_the_last_statement_is_refused(tmp_path: Path) -> None:
    """An undo that stops at statements, too."""
    with pytest.raises(ReplayError, match="lack columns"):
        undone(tmp_path, DDL, *transaction(rows_of(((1, ABSENT, ABSENT), None))), on_statement=OnStatement.STOP)


def test_undo_skips_statements(tmp_path: Path) -> None:
    """Rows on both sides are taken back; statements are counted."""
    events = [*transaction(rows_of((None, ONE))), DDL, *TEXT, *transaction(rows_of((None, TWO)))]
    ready = undone(tmp_path, *events, on_statement=OnStatement.SKIP)

    assert len(sql_of(ready)) == 6
    assert ready.summary.statements == 2


# ----------------------------------------------------------------------------------------- savepoints, XA, rollback


def test_rows_that_were_rolled_back_to_a_savepoint_stay_as_they_are(tmp_path: Path) -> None:
    """The source has taken them back."""
    events = transaction(
        rows_of((None, ONE)),
        [query("SAVEPOINT `A`")],
        rows_of((None, TWO)),
        [query("ROLLBACK TO `a`")],
        rows_of((None, THREE)),
    )
    ready = undone(tmp_path, *events)

    assert ready.summary.rolled_back_events == 1
    assert [line[-2] for line in sql_of(ready)[1:-1]] == ["3", "1"]


def test_savepoint_that_nobody_set_is_refused(tmp_path: Path) -> None:
    """Which rows it meant is not in the log."""
    with pytest.raises(ReplayError, match="ROLLBACK TO a savepoint that is not in the log"):
        undone(tmp_path, *transaction(rows_of((None, ONE)), [query("ROLLBACK TO `a`")]))


def test_transaction_that_was_rolled_back_is_not_taken_back(tmp_path: Path) -> None:
    """It is counted."""
    ready = undone(tmp_path, query("BEGIN"), *rows_of((None, ONE)), query("ROLLBACK"))

    assert sql_of(ready) == []
    assert ready.summary.rolled_back_groups == 1


def xa(step: str) -> Any:
    return query(f"XA {step} X'61',X'',1")


def test_xa_transaction_is_taken_back_where_it_was_committed(tmp_path: Path) -> None:
    """Behind what was committed between prepare and commit."""
    prepare = XaPrepareEvent(0, 1, b"a", b"", header(EventType.XA_PREPARE_LOG_EVENT))
    begun = [xa("START"), *rows_of((None, ONE)), xa("END"), prepare]
    events = [*begun, *transaction(rows_of((None, TWO))), xa("COMMIT")]
    ready, waiting = undone(tmp_path, *events), undone(tmp_path, *begun)

    assert [line[-2] for line in sql_of(ready) if "DELETE" in line] == ["1", "2"]
    assert waiting.summary.prepared == 1
    assert sql_of(waiting) == []


def test_xa_commit_without_its_prepare_is_refused(tmp_path: Path) -> None:
    """Its rows are in an earlier log."""
    with pytest.raises(ReplayError, match="begin with the log that has its XA PREPARE"):
        undone(tmp_path, xa("COMMIT"))


# -------------------------------------------------------------------------------------------------------- the file


def test_file_begins_and_ends_as_servers_expect(tmp_path: Path) -> None:
    """No GTIDs, lengths that agree, statements that end."""
    events = [*transaction(rows_of((None, ONE))), *transaction(rows_of((None, TWO)), rows_of((None, THREE)))]
    path = tmp_path / "undo"
    with undone(tmp_path, *events, form=BinlogFile) as ready:
        path.write_bytes(b"".join(ready.pieces()))
    with binlogio.open(path) as reader:
        found = list(reader)
        assert not reader.in_use
    gtids = [at for at, event in enumerate(found) if isinstance(event, AnonymousGtidEvent)]

    assert isinstance(found[0], FormatDescriptionEvent)
    assert isinstance(found[1], PreviousGtidsEvent)
    assert [found[at].sequence_number for at in gtids] == [1, 2]
    assert [found[at].last_committed for at in gtids] == [0, 1]
    for start, end in zip(gtids, (*gtids[1:], len(found)), strict=True):
        assert found[start].transaction_length == sum(event.header.event_size for event in found[start:end])
    assert all(event.flags & RowsFlag.STMT_END for event in found if hasattr(event, "images"))


def test_logs_of_two_versions_do_not_become_one(tmp_path: Path) -> None:
    """The error says which, and what to do."""
    other = description(version="8.0.36")
    first, second = tmp_path / "binlog.000001", tmp_path / "binlog.000002"
    first.write_bytes(log(*transaction(rows_of((None, ONE)))))
    second.write_bytes(b"\xfebin" + encode([other, *transaction(rows_of((None, TWO)))]))
    with binlogio.open([first, second]) as reader, pytest.raises(ReplayError, match=r"expected 9.7.4, found 8.0.36"):
        undo(reader, BinlogFile())
    with binlogio.open([first, second]) as reader:
        assert len(sql_of(undo(reader, SqlScript()))) == 6


def test_generated_columns_are_left_out_of_sql(tmp_path: Path) -> None:
    """As the DDL in the log says, or a definition."""
    ddl = query("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20) AS ('x') STORED, doc JSON) CHARSET utf8mb4")
    events = [ddl, *transaction(rows_of((ONE, None)))]
    columns = [replace(c, generated_from=() if c.name == "name" else None) for c in KEYED.columns]
    told = undone(tmp_path, *events, on_statement=OnStatement.SKIP)
    given_ = undone(tmp_path, *events[1:], tables=[replace(KEYED, columns=tuple(columns))])

    assert sql_of(told)[1:-1] == sql_of(given_)[1:-1] == ["INSERT INTO `d`.`t` (`id`, `doc`) VALUES (1, NULL);"]


def test_part_of_a_log_is_taken_back(tmp_path: Path) -> None:
    """By table; the rest is left as it is."""
    events = transaction(rows_of((None, ONE)), rows_of((None, TWO), table=KEYLESS))
    ready = undone(tmp_path, *events, wanted=ReplayFilter(tables=("d.t",), rewrite_db={"d": "e"}))

    assert sql_of(ready)[1:-1] == ["DELETE FROM `e`.`t` WHERE `id` <=> 1;"]


# ------------------------------------------------------------------------------------------------------------ spool


def test_spool_gives_transactions_backwards_and_whole() -> None:
    """Larger ones in pieces; one that could not be made leaves nothing."""
    parts = [b"a", b"b" * (3 << 20), b"", b"c" * 10]

    def broken() -> Any:
        yield b"x" * (2 << 20)
        raise ReplayError("no")

    spool = Spool()
    for part in parts:
        spool.add(iter([part[:1], part[1:]]))
        with pytest.raises(ReplayError):
            spool.add(broken())
    found = [b"".join(group) for group in spool.newest_first()]
    sizes = [group.size for group in spool.newest_first()]
    spool.clear()
    spool.add(iter([b"new"]))

    assert found == parts[::-1]
    assert sizes == [len(part) for part in parts[::-1]]
    assert [b"".join(group) for group in spool.newest_first()] == [b"new"]
    spool.close()
