"""Row images and changes: bitmaps, all kinds of rows events, partial updates, and damage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import ColumnType as T
from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError
from binlogio.events.base import NEW_HEADER, EventHeader
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, RowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.rows.image import PreGaImageLayout, RowChange, RowImage, decode_rows, encode_partial_rows, encode_rows
from binlogio.rows.plan import DefinedColumn, TablePlan, resolve_plan
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from rowimage_cases import MARIADB, plan, table_map

INT, CHAR, JSON = (T.LONG, 0), (T.STRING, 0xFE0A), (T.JSON, 4)
TABLE = plan(INT, CHAR, INT, names="abc")
DOCUMENT = JsonDocument.from_text('{"a":1}')
DIFFS = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text("2"))])


def _image(table: TablePlan, *values: Any) -> RowImage:
    return RowImage(table, values)


def _header(kind: EventType) -> EventHeader:
    return replace(NEW_HEADER, type_code=kind, offset=1234)


def _write(
    images: str, present: str = "07", count: int = 3, kind: EventType = EventType.WRITE_ROWS_EVENT
) -> WriteRowsEvent:
    return WriteRowsEvent(7, 1, b"", count, bytes.fromhex(present), bytes.fromhex(images), _header(kind))


def _update(images: str, present: str, present_after: str) -> UpdateRowsEvent:
    bitmaps = bytes.fromhex(present), bytes.fromhex(present_after)
    return UpdateRowsEvent(7, 1, b"", 3, *bitmaps, bytes.fromhex(images), _header(EventType.UPDATE_ROWS_EVENT))


ROW_1 = _image(TABLE, 1, b"ab", 2)
CASES: list[tuple[str, RowsEvent, list[RowChange]]] = [
    ("one insert", _write("00 01000000 026162 02000000"), [RowChange(None, ROW_1)]),
    (
        "two inserts, one with NULL",
        _write("00 01000000 026162 02000000  02 03000000 ffffffff"),
        [RowChange(None, ROW_1), RowChange(None, _image(TABLE, 3, None, -1))],
    ),
    (
        "an insert of the last column alone",
        _write("00 05000000", present="04"),
        [RowChange(None, _image(TABLE, ABSENT, ABSENT, 5))],
    ),
    (
        "an insert of no column at all",
        _write("", present="00"),
        [RowChange(None, _image(TABLE, ABSENT, ABSENT, ABSENT))],
    ),
    ("no insert", _write(""), []),
    (
        "a delete",
        DeleteRowsEvent(7, 1, b"", 3, b"\1", bytes.fromhex("0001000000"), _header(EventType.DELETE_ROWS_EVENT)),
        [RowChange(_image(TABLE, 1, ABSENT, ABSENT), None)],
    ),
    (
        "updates with different columns before and after; null bits count the columns in the image",
        _update("00 01000000 01 02000000  00 02000000 00 016b 03000000", "01", "06"),
        [
            RowChange(_image(TABLE, 1, ABSENT, ABSENT), _image(TABLE, ABSENT, None, 2)),
            RowChange(_image(TABLE, 2, ABSENT, ABSENT), _image(TABLE, ABSENT, b"k", 3)),
        ],
    ),
]
IDS = [case[0] for case in CASES]


@pytest.mark.parametrize(("note", "event", "changes"), CASES, ids=IDS)
def test_images_are_row_changes(note: str, event: RowsEvent, changes: list[RowChange]) -> None:
    """One table for both directions."""
    after = event.present_after if isinstance(event, UpdateRowsEvent) else None

    assert changes == list(decode_rows(event, TABLE))
    assert event.images == encode_rows(changes, TABLE, event.present, after)


@pytest.mark.parametrize(("note", "event", "changes"), CASES, ids=IDS)
def test_images_cut_inside_a_row_are_refused(note: str, event: RowsEvent, changes: list[RowChange]) -> None:
    """Between two rows they are fewer rows."""
    after = event.present_after if isinstance(event, UpdateRowsEvent) else None
    ends = {len(encode_rows(changes[:count], TABLE, event.present, after)) for count in range(len(changes) + 1)}

    for end in range(len(event.images)):
        if end in ends:
            assert len(list(decode_rows(replace(event, images=event.images[:end]), TABLE))) < len(changes)
        else:
            with pytest.raises(BinlogFormatError):
                list(decode_rows(replace(event, images=event.images[:end]), TABLE))


def test_an_error_says_which_column_and_where() -> None:
    """In the file, and in the row images."""
    with pytest.raises(BinlogFormatError) as caught:
        decode_rows(_write("00 01000000 056162"), TABLE)

    assert (
        str(caught.value)
        == "at 1234: WRITE_ROWS_EVENT: row 0, column b, byte 5 of the row images: 5 bytes expected, 2 left"
    )


def test_an_error_about_a_value_says_which_column() -> None:
    """Encoding is the same."""
    with pytest.raises(BinlogFormatError) as caught:
        encode_rows([RowChange(None, _image(TABLE, 1, "text", 2))], TABLE, b"\7")

    assert caught.value.field == "column b, byte 5 of the row images"


def test_spare_null_bits_are_as_the_server_writes_them() -> None:
    """Set in MariaDB and before MySQL 8.0.3; reading does not care."""
    mariadb = plan(INT, CHAR, INT, names="abc", context=MARIADB)
    changes = [RowChange(None, _image(mariadb, 1, None, 2))]

    assert encode_rows(changes, mariadb, b"\7").hex() == "fa0100000002000000"
    assert changes == list(decode_rows(_write("fa0100000002000000"), mariadb))
    assert changes == list(decode_rows(_write("020100000002000000"), mariadb))


def test_bits_behind_the_last_present_column_mean_nothing() -> None:
    """Servers before 8.0 set them."""
    assert [RowChange(None, ROW_1)] == list(decode_rows(_write("00 01000000 026162 02000000", present="ff"), TABLE))


def test_images_before_5_1_ga_have_the_record_s_null_bits() -> None:
    """A spare bit first, where no column has a variable length; NULL has bytes as well (public file ver_5_1-wl2325)."""
    alpha = resolve_plan(replace(table_map(INT, CHAR), metadata=(), nullable=()))
    event = _write("f9 00000000 03 6f6e65  fb 01000000 03 74776f", "ff", 2, EventType.PRE_GA_WRITE_ROWS_EVENT)

    assert [change.after.values for change in decode_rows(event, alpha) if change.after] == [
        (0, b"one"),
        (None, b"two"),
    ]


def test_images_before_5_1_ga_are_not_written() -> None:
    """They are not decoded again."""
    with pytest.raises(BinlogFormatError):
        PreGaImageLayout(TABLE, b"\7").build(ROW_1)


# ---------------------------------------------------------------------------------------------- partial updates

DOCUMENTS = plan(INT, JSON, INT, JSON, names="ajbk")
BINARY, CHANGES = DOCUMENT.binary.hex(), "09000000 00 03242e61 03050200"
SIZED = f"{len(DOCUMENT.binary):02x}000000 {BINARY}"
PARTIAL: list[tuple[str, str, RowImage, RowImage]] = [
    (
        "diffs in the first document",
        f"00 01000000 {SIZED} 02000000 {SIZED}  01 01  00 01000000 {CHANGES} 02000000 {SIZED}",
        _image(DOCUMENTS, 1, DOCUMENT, 2, DOCUMENT),
        _image(DOCUMENTS, 1, DIFFS, 2, DOCUMENT),
    ),
    (
        "diffs in the second",
        f"02 01000000 02000000 {SIZED}  01 02  02 01000000 02000000 {CHANGES}",
        _image(DOCUMENTS, 1, None, 2, DOCUMENT),
        _image(DOCUMENTS, 1, None, 2, DIFFS),
    ),
    (
        "no diffs at all",
        f"00 01000000 {SIZED} 02000000 {SIZED}  00  00 01000000 {SIZED} 03000000 {SIZED}",
        _image(DOCUMENTS, 1, DOCUMENT, 2, DOCUMENT),
        _image(DOCUMENTS, 1, DOCUMENT, 3, DOCUMENT),
    ),
    (
        "an unchanged document is an empty list of diffs",
        f"00 01000000 {SIZED} 02000000 {SIZED}  01 01  00 01000000 00000000 03000000 {SIZED}",
        _image(DOCUMENTS, 1, DOCUMENT, 2, DOCUMENT),
        _image(DOCUMENTS, 1, JsonDiffs(), 3, DOCUMENT),
    ),
]


def _partial(images: str, present: bytes = b"\x0f", present_after: bytes = b"\x0f") -> PartialUpdateRowsEvent:
    header = _header(EventType.PARTIAL_UPDATE_ROWS_EVENT)
    return PartialUpdateRowsEvent(7, 1, b"", 4, present, present_after, bytes.fromhex(images), header)


@pytest.mark.parametrize(("note", "images", "before", "after"), PARTIAL, ids=[case[0] for case in PARTIAL])
def test_partial_updates_have_diffs_in_the_after_image(
    note: str, images: str, before: RowImage, after: RowImage
) -> None:
    """A bit for each JSON column of the table, in the image or not."""
    change = RowChange(before, after)

    assert [change] == list(decode_rows(_partial(images), DOCUMENTS))
    assert bytes.fromhex(images) == encode_partial_rows([change], DOCUMENTS, b"\x0f", b"\x0f")


def test_a_partial_bit_counts_json_columns_that_are_not_in_the_image() -> None:
    """Minimal images leave the first document out."""
    images = f"00 01000000  01 02  00 {CHANGES}"
    change = RowChange(_image(DOCUMENTS, 1, ABSENT, ABSENT, ABSENT), _image(DOCUMENTS, ABSENT, ABSENT, ABSENT, DIFFS))

    assert [change] == list(decode_rows(_partial(images, b"\1", b"\x08"), DOCUMENTS))
    assert bytes.fromhex(images) == encode_partial_rows([change], DOCUMENTS, b"\1", b"\x08")
    assert change.applied() == change.after


def test_applied_gives_the_document_after_the_diffs() -> None:
    """The before image must have the document."""
    after = RowChange(_image(DOCUMENTS, 1, DOCUMENT, 2, None), _image(DOCUMENTS, 1, DIFFS, 3, None)).applied()

    assert after is not None
    assert {**after.as_dict(), "j": after.get("j").text} == {"a": 1, "j": '{"a": 2}', "b": 3, "k": None}


def test_applied_leaves_inserts_and_deletes_alone() -> None:
    """There is nothing to apply."""
    assert RowChange(None, ROW_1).applied() == ROW_1
    assert RowChange(ROW_1, None).applied() is None


def test_diffs_for_a_null_document_are_refused() -> None:
    """Naming the column."""
    with pytest.raises(BinlogFormatError, match="column j"):
        RowChange(_image(DOCUMENTS, 1, None, 2, None), _image(DOCUMENTS, 1, DIFFS, 2, None)).applied()


@pytest.mark.parametrize(
    "images",
    [
        f"00 01000000 {SIZED} 02000000 {SIZED}  02  00 01000000 {SIZED} 02000000 {SIZED}",
        f"00 01000000 {SIZED} 02000000 {SIZED}  01 01  00 01000000 {SIZED} 02000000 {SIZED}",
        f"00 01000000 {SIZED} 02000000 {SIZED}  01",
    ],
)
def test_damaged_partial_updates_are_refused(images: str) -> None:
    """Unknown options, a document where diffs are announced, nothing where bits are."""
    with pytest.raises(BinlogFormatError):
        decode_rows(_partial(images), DOCUMENTS)


# --------------------------------------------------------------------------------------------------- the classes


def test_an_image_is_asked_by_name() -> None:
    """Absent is not NULL."""
    image = _image(TABLE, 1, None, ABSENT)

    assert [image.get(name) for name in ("a", "b", "c", "nope")] == [1, None, ABSENT, ABSENT]
    assert image.as_dict() == {"a": 1, "b": None}
    assert image.present == b"\3"
    assert not ABSENT
    assert repr(ABSENT) == "ABSENT"


def test_an_image_is_made_of_names_and_values() -> None:
    """Columns that are not named are absent."""
    assert _image(TABLE, 1, ABSENT, 2) == RowImage.from_dict(TABLE, {"c": 2, "a": 1})
    with pytest.raises(BinlogFormatError, match="unknown column"):
        RowImage.from_dict(TABLE, {"d": 1})


@pytest.mark.parametrize(
    ("changes", "present", "present_after"),
    [
        ([RowChange(None, ROW_1)], b"\7", b"\7"),
        ([RowChange(None, ROW_1), RowChange(ROW_1, None)], b"\7", None),
        ([RowChange(ROW_1, ROW_1)], b"\7", None),
        ([RowChange(None, _image(TABLE, 1, ABSENT, 2))], b"\7", None),
        ([RowChange(None, _image(TABLE, "1", b"", 2))], b"\7", None),
        ([RowChange(None, _image(TABLE, 2**31, b"", 2))], b"\7", None),
        ([RowChange(None, ROW_1)], b"\7\0", None),
        ([RowChange(None, _image(TABLE, 1))], b"\7", None),
    ],
)
def test_changes_that_the_bitmaps_do_not_describe_are_refused(
    changes: list[RowChange], present: bytes, present_after: bytes | None
) -> None:
    """Mixed kinds, absent values, values that do not fit, other tables."""
    with pytest.raises(BinlogFormatError):
        encode_rows(changes, TABLE, present, present_after)


@pytest.mark.parametrize(
    "event", [_write("00 01000000", count=2), _write("00", present="0700"), _write("0000", present="00")]
)
def test_events_that_the_plan_does_not_describe_are_refused(event: RowsEvent) -> None:
    """Another number of columns, another size of bitmap, bytes without columns."""
    with pytest.raises(BinlogFormatError) as caught:
        decode_rows(event, TABLE)

    assert caught.value.offset == 1234


def test_a_row_that_only_a_definition_can_explain_says_so() -> None:
    """MariaDB's TIME(6) of mysql56_temporal_format=OFF takes six bytes, and the binlog does not tell."""
    event = table_map(INT, (T.DATETIME, 0), (T.LONG, 0))
    row = "00 01000000 0101010101010101 02000000"
    with pytest.raises(BinlogFormatError, match="give the table's definition"):
        decode_rows(_write(row), resolve_plan(event, MARIADB))
    known = resolve_plan(event, MARIADB, [DefinedColumn("a"), DefinedColumn("b", "datetime(6)"), DefinedColumn("c")])

    assert len(list(decode_rows(_write(row), known))) == 1


@given(st.binary(max_size=80), st.sampled_from([b"\0", b"\1", b"\x05", b"\x0f"]), st.integers(0, 3))
def test_any_bytes_are_row_changes_or_a_format_error(images: bytes, present: bytes, kind: int) -> None:
    """Garbage, in every kind of event."""
    events: list[RowsEvent] = [
        WriteRowsEvent(7, 1, b"", 4, present, images),
        DeleteRowsEvent(7, 1, b"", 4, present, images),
        UpdateRowsEvent(7, 1, b"", 4, present, b"\x0f", images),
        PartialUpdateRowsEvent(7, 1, b"", 4, present, b"\x0f", images),
    ]
    try:
        changes = list(decode_rows(events[kind], DOCUMENTS))
    except BinlogFormatError:
        return

    assert len(changes) <= max(1, len(images))


@pytest.mark.parametrize(("note", "event", "changes"), CASES, ids=IDS)
def test_columns_that_nobody_wants_are_skipped(note: str, event: RowsEvent, changes: list[RowChange]) -> None:
    """They are absent from the images, and the others are as they were."""
    for wanted in ((), (1,), (0, 2)):
        found = list(decode_rows(event, TABLE, wanted))
        images = [(change.before, change.after) for change in changes]

        assert [(change.before is None, change.after is None) for change in found] == [
            (before is None, after is None) for before, after in images
        ]
        for change, pair in zip(found, images, strict=True):
            for image, whole in zip((change.before, change.after), pair, strict=True):
                if image is not None and whole is not None:
                    kept = [value if i in wanted else ABSENT for i, value in enumerate(whole.values)]
                    assert list(image.values) == kept


def test_value_that_nobody_wants_may_be_none() -> None:
    """Only its length counts."""
    table = plan(INT, (T.NEWDECIMAL, 0x0100), names="ab")
    event = _write("00 01000000 ff 00 02000000 ff", "03", 2)
    with pytest.raises(BinlogFormatError, match="row 0, column b, byte 5"):
        decode_rows(event, table)

    assert [change.after.values for change in decode_rows(event, table, (0,)) if change.after] == [
        (1, ABSENT),
        (2, ABSENT),
    ]
    with pytest.raises(BinlogFormatError, match="row 1, column b, byte 11"):
        decode_rows(_write("00 01000000 ff 00 02000000", "03", 2), table, (0,))
