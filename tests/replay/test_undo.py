"""Undo of logs made to order: what the inverse of each change is, in which order, and which images are refused."""

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
from binlogio.events import ROWS_EVENTS
from binlogio.replay.undo import BinlogFile, OnChanged, OnStatement, SqlScript, undo
from binlogio.replay.undo.inverse import WholeImages
from binlogio.rows.cut_images import cut_images
from binlogio.schema import TableDefinition
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from corpus import MARIADB, MARIADB118, MYSQL
from logs import OFF, POST_HEADER_SIZES, description, encode, header, log, query
from row_events import END, Pair, group
from undo_logs import KEYED, KEYLESS, ONE, THREE, TWO, changes_of, checks_in, rows_of, sql_of, undone

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "CAST(CONVERT(`name` USING utf8mb4) AS BINARY)"

# ------------------------------------------------------------------------------------------------------------- order


def test_last_change_comes_first(tmp_path: Path) -> None:
    """Transactions, events and rows, all of them backwards."""
    events = [
        *group(rows_of((None, ONE), (None, TWO))),
        *group(rows_of((ONE, (1, "uno", None))), rows_of((TWO, None))),
    ]
    statements = sql_of(undone(tmp_path, *events))

    assert statements == [
        "BEGIN;",
        "INSERT INTO `d`.`t` (`id`, `name`, `doc`) VALUES (2, _utf8mb4 'two', NULL);",
        f"UPDATE `d`.`t` SET `name` = _utf8mb4 'one' WHERE `id` <=> 1 AND {NAME} = 'uno';",
        "COMMIT;",
        "BEGIN;",
        f"DELETE FROM `d`.`t` WHERE `id` <=> 2 AND {NAME} = 'two' AND `doc` IS NULL;",
        f"DELETE FROM `d`.`t` WHERE `id` <=> 1 AND {NAME} = 'one' AND `doc` IS NULL;",
        "COMMIT;",
    ]


def test_binary_log_has_the_inverse_events(tmp_path: Path) -> None:
    """WRITE and DELETE change places, before and after images too."""
    events = group(
        rows_of((None, ONE), (None, TWO)), rows_of((ONE, THREE), (TWO, ONE)), rows_of((THREE, None), table=KEYLESS)
    )
    changes = changes_of(undone(tmp_path, *events, form=BinlogFile), tmp_path / "undo")

    assert changes == [
        ("k", (None, THREE)),
        ("t", (ONE, (2, "two", ABSENT))),
        ("t", (THREE, (1, "one", ABSENT))),
        ("t", (TWO, None)),
        ("t", (ONE, None)),
    ]


def test_delete_that_reverses_an_insert_has_no_foreign_key_actions(tmp_path: Path) -> None:
    """A CASCADE would delete rows that refer to it, which the insert had not made; an update keeps its actions."""
    events = group(rows_of((None, ONE)), rows_of((ONE, THREE)), rows_of((TWO, None)))
    with (
        undone(tmp_path, *events, form=BinlogFile) as ready,
        binlogio.open(BytesIO(b"".join(ready.pieces()))) as reader,
    ):
        flags = [event.flags for event in reader if isinstance(event, ROWS_EVENTS)]

    assert flags == [RowsFlag.STMT_END, RowsFlag.STMT_END, RowsFlag.STMT_END | RowsFlag.NO_FOREIGN_KEY_CHECKS]


def test_binary_log_writes_only_what_an_update_changed(tmp_path: Path) -> None:
    """One event for each run of rows with the same changed columns, in the order of the rows, and one statement."""
    none, some = JsonDocument.from_text("[]"), JsonDocument.from_text("[1]")
    pairs = [
        ((1, "a", none), (1, "b", none)),
        ((2, "a", none), (2, "c", none)),
        ((3, "a", none), (3, "a", some)),
        ((4, "a", none), (4, "a", none)),
        ((5, "a", none), (5, None, some)),
        ((6, None, none), (7, "a", none)),
    ]
    path = tmp_path / "undo"
    changes = changes_of(undone(tmp_path, *group(rows_of(*pairs)), form=BinlogFile), path)
    with binlogio.open(path) as reader:
        events = [event for event in reader if hasattr(event, "images") or hasattr(event, "column_types")]
    flags = [getattr(event, "flags", 0) & 1 for event in events if hasattr(event, "images")]

    assert changes == [
        ("t", ((7, "a", none), (6, None, ABSENT))),
        ("t", ((5, None, some), (ABSENT, "a", none))),
        ("t", ((3, "a", some), (ABSENT, ABSENT, none))),
        ("t", ((2, "c", none), (ABSENT, "a", ABSENT))),
        ("t", ((1, "b", none), (ABSENT, "a", ABSENT))),
    ]
    assert flags == [0, 0, 0, 1]
    assert len(events) == 1 + 4


def test_binary_log_writes_whole_rows_of_a_table_without_a_key(tmp_path: Path) -> None:
    """And the reason: what others changed since is overwritten if the table does have a key."""
    form = BinlogFile()
    events = group(rows_of((ONE, (1, "uno", None)), table=KEYLESS), rows_of((ONE, (1, "uno", None))))
    changes = changes_of(undone(tmp_path, *events, form=lambda: form), tmp_path / "undo")

    assert changes == [("t", ((1, "uno", None), (ABSENT, "one", ABSENT))), ("k", ((1, "uno", None), ONE))]
    assert form.whole_images == {"d.k": WholeImages.UNKNOWN_KEY}


def test_update_that_changes_nothing_has_no_event(tmp_path: Path) -> None:
    """A server would find nothing to change; the transaction stays."""
    assert changes_of(undone(tmp_path, *group(rows_of((ONE, ONE))), form=BinlogFile), tmp_path / "undo") == []


def test_generated_columns_of_mariadb_are_written_with_the_whole_row() -> None:
    """MariaDB 10.11 takes them from the image, 11.8.9 does not log them, and without DDL they are not known."""

    def whole_images(*logs: Path) -> dict[str, WholeImages]:
        form = BinlogFile()
        with binlogio.open(logs) as reader, undo(reader, form, on_statement=OnStatement.SKIP):
            return form.whole_images

    types, generated = MARIADB / "types" / "binlog.000001", MARIADB118 / "generated_columns" / "binlog.000001"
    first, second = sorted((MARIADB / "incident").glob("binlog.0*"))

    assert whole_images(types) == {"corpus.t_gen": WholeImages.GENERATED}
    assert whole_images(generated) == dict.fromkeys(("corpus.in_key", "corpus.keyless"), WholeImages.NO_KEY)
    assert whole_images(first, second) == {}
    assert whole_images(second) == dict.fromkeys(("shop.customers", "shop.orders"), WholeImages.UNDEFINED)


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
    events = group(rows_of((None, ONE), (None, ONE), table=KEYLESS))
    where = "`id` = 1 AND CAST(CONVERT(`name` USING utf8mb4) AS BINARY) = 'one' AND `doc` IS NULL LIMIT 1;"

    assert sql_of(undone(tmp_path, *events))[1:-1] == [f"DELETE FROM `d`.`k` WHERE {where}"] * 2


def test_script_checks_each_row_that_must_be_there(tmp_path: Path) -> None:
    """After UPDATE and DELETE: an error, or counted, or overwritten whatever it is now."""
    events = group(rows_of((None, ONE)), rows_of((ONE, TWO)), rows_of((TWO, None)))

    assert checks_in(undone(tmp_path, *events)) == 2
    assert checks_in(undone(tmp_path, *events, form=lambda: SqlScript(on_changed=OnChanged.SKIP))) == 2
    assert checks_in(undone(tmp_path, *events, form=lambda: SqlScript(on_changed=OnChanged.OVERWRITE))) == 0
    overwrites = sql_of(undone(tmp_path, *events, form=lambda: SqlScript(on_changed=OnChanged.OVERWRITE)))
    assert "DELETE FROM `d`.`t` WHERE `id` <=> 1;" in overwrites


def test_update_that_changes_nothing_is_no_statement(tmp_path: Path) -> None:
    """There would be no row that it changes."""
    assert sql_of(undone(tmp_path, *group(rows_of((ONE, ONE))))) == ["BEGIN;", "COMMIT;"]


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
        undone(tmp_path, *group(rows_of(pair, table=table)), form=form)

    assert caught.value.file == str(tmp_path / "binlog.000001")
    assert caught.value.offset
    assert caught.value.field == f"d.{table.name}"
    assert caught.value.found == f"no value of {missing}"
    assert caught.value.hint == "the source needs binlog_row_image=FULL"


@pytest.mark.parametrize(
    ("pair", "inverse"),
    [
        ((None, (1, ABSENT, ABSENT)), ((1, ABSENT, ABSENT), None)),
        (((1, "one", ABSENT), (ABSENT, "uno", ABSENT)), ((1, "uno", ABSENT), (ABSENT, "one", ABSENT))),
        (((1, ABSENT, ABSENT), (2, ABSENT, ABSENT)), ((2, ABSENT, ABSENT), (1, ABSENT, ABSENT))),
        ((ONE, (ABSENT, "uno", ABSENT)), ((1, "uno", None), (ABSENT, "one", ABSENT))),
    ],
)
def test_smaller_image_that_has_what_is_needed_is_taken_back(tmp_path: Path, pair: Pair, inverse: Pair) -> None:
    """An insert whose key is there; an update that has the old value of all it changed."""
    ready = undone(tmp_path, *group(rows_of(pair)), form=BinlogFile)

    assert changes_of(ready, tmp_path / "undo") == [("t", inverse)]


def test_smaller_image_is_sql_of_what_it_has(tmp_path: Path) -> None:
    """The key of one image, the old value of the other."""
    ready = undone(tmp_path, *group(rows_of(((1, "one", ABSENT), (ABSENT, "uno", ABSENT)))))

    assert sql_of(ready)[1:-1] == [f"UPDATE `d`.`t` SET `name` = _utf8mb4 'one' WHERE `id` <=> 1 AND {NAME} = 'uno';"]


DOCUMENT: Final = JsonDocument.from_text('{"a": 1, "b": [1, 2]}')
DIFFS: Final = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text("2"))])


def test_partial_update_becomes_a_whole_one(tmp_path: Path) -> None:
    """The document as it is now comes from the diffs."""
    pair = ((1, "x", DOCUMENT), (1, "x", DIFFS))
    ready = undone(tmp_path, *group(rows_of(pair, partial=True)), form=BinlogFile)
    ((_, (before, after)),) = changes_of(ready, tmp_path / "undo")

    assert before is not None
    assert after == (ABSENT, ABSENT, DOCUMENT)
    assert before[2].text == '{"a": 2, "b": [1, 2]}'


def test_partial_update_without_its_document_is_refused(tmp_path: Path) -> None:
    """Both options are named."""
    pair = ((1, ABSENT, ABSENT), (ABSENT, ABSENT, DIFFS))
    with pytest.raises(ReplayError, match=r"no value of doc .*binlog_row_image=FULL and binlog_row_value_options=''"):
        undone(tmp_path, *group(rows_of(pair, partial=True)))


@given(st.binary(max_size=40), st.lists(st.integers(-4, 9), max_size=9), st.booleans())
def test_images_of_any_bytes_are_cut_or_refused(images: bytes, widths: list[int], is_update: bool) -> None:
    """The whole output is cut."""
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
    with binlogio.open(path) as reader, pytest.raises(BinlogError, match=r"but not written .*as SQL"):
        undo(reader, BinlogFile())


UPDATED: Final = ((1, "x", DOCUMENT), (1, "x", DIFFS))
SOUND: Final = log(
    *group(rows_of((None, ONE), (None, TWO)), rows_of((ONE, None), table=KEYLESS), rows_of(UPDATED, partial=True)),
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
