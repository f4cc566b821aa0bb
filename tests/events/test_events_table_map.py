"""TABLE_MAP_EVENT: metadata of every column type, every optional metadata field, the short forms of the 5.1 alphas."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binlogio.constants import ColumnType, EventType, OptionalMetadataType, TableMapFlag
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.events import EVENT_CODECS
from binlogio.events.base import DEFAULT_CONTEXT, EventHeader, ParseContext
from binlogio.events.table_map import DefaultCharset, MetadataField, TableMapEvent, parse_plain_table_map
from corpus import MARIADB, MYSQL, frames_of
from golden_events import EventCase, check_refused, text

TABLE_MAP = EventType.TABLE_MAP_EVENT
HEADER = EventHeader(type_code=TABLE_MAP)
LOGS = sorted(path for folder in (MYSQL, MARIADB) for path in folder.glob("*/*.0*") if "encrypted" not in str(path))
ALPHA = ParseContext(server_version="5.1.2-alpha", post_header_sizes=(0,) * 18 + (6,))  # table ids of four bytes
V5_1_17 = ParseContext(server_version="5.1.17-beta-log", post_header_sizes=(0,) * 18 + (8,))
ALL_SIGNED = MetadataField(OptionalMetadataType.SIGNEDNESS, (False,) * 8)
T, F = True, False


def _table(
    types: tuple[int, ...], metadata: tuple[int, ...], optional: tuple[MetadataField, ...] = ()
) -> TableMapEvent:
    return TableMapEvent(1, 1, "d", "t", types, metadata, (True,) * len(types), optional)


def _with_metadata(name: str, column_type: int, metadata: int, metadata_hex: str) -> EventCase:
    size = len(bytes.fromhex(metadata_hex))
    return EventCase(
        name,
        TABLE_MAP,
        _table((column_type,), (metadata,)),
        f"010000000000 0100 01 64 00 01 74 00 01 {column_type:02x} {size:02x} {metadata_hex} 01",
    )


def _with_field(name: str, kind: int, value: Any, value_hex: str) -> EventCase:
    size = len(bytes.fromhex(value_hex))
    return EventCase(
        name,
        TABLE_MAP,
        _table((ColumnType.LONG,), (0,), (MetadataField(kind, value),)),
        f"010000000000 0100 01 64 00 01 74 00 01 03 00 01 {kind:02x} {size:02x} {value_hex}",
    )


COLUMNS: list[EventCase] = [
    _with_metadata("FLOAT", ColumnType.FLOAT, 4, "04"),
    _with_metadata("DOUBLE", ColumnType.DOUBLE, 8, "08"),
    _with_metadata("TIMESTAMP(6)", ColumnType.TIMESTAMP2, 6, "06"),
    _with_metadata("DATETIME(3)", ColumnType.DATETIME2, 3, "03"),
    _with_metadata("TIME", ColumnType.TIME2, 0, "00"),
    _with_metadata("LONGTEXT", ColumnType.BLOB, 4, "04"),
    _with_metadata("TINYBLOB of the old kind", ColumnType.TINY_BLOB, 1, "01"),
    _with_metadata("MEDIUMBLOB of the old kind", ColumnType.MEDIUM_BLOB, 3, "03"),
    _with_metadata("LONGBLOB of the old kind", ColumnType.LONG_BLOB, 4, "04"),
    _with_metadata("JSON", ColumnType.JSON, 4, "04"),
    _with_metadata("GEOMETRY", ColumnType.GEOMETRY, 4, "04"),
    _with_metadata("VECTOR", ColumnType.VECTOR, 4, "04"),
    _with_metadata("VARCHAR(16000) utf8mb4", ColumnType.VARCHAR, 64000, "00fa"),
    _with_metadata("BIT(13)", ColumnType.BIT, 5 | 1 << 8, "0501"),
    _with_metadata("DECIMAL(65,30)", ColumnType.NEWDECIMAL, 65 << 8 | 30, "411e"),
    _with_metadata("CHAR(5) latin1", ColumnType.STRING, 0xFE05, "fe05"),
    _with_metadata("CHAR(255) utf8mb4 (types_string)", ColumnType.STRING, 0xCEFC, "cefc"),
    _with_metadata("CHAR(64) utf8mb4 (types_string)", ColumnType.STRING, 0xEE00, "ee00"),
    _with_metadata("ENUM of 256 members", ColumnType.STRING, 0xF702, "f702"),
    _with_metadata("SET of 33 members", ColumnType.STRING, 0xF808, "f808"),
    _with_metadata("ENUM of 5.0", ColumnType.ENUM, 0xF701, "f701"),
    _with_metadata("SET of 5.0", ColumnType.SET, 0xF801, "f801"),
    _with_metadata("VARCHAR of 4.1", ColumnType.VAR_STRING, 0xFD0A, "fd0a"),
    _with_metadata("VARCHAR(4000) COMPRESSED", ColumnType.VARCHAR_COMPRESSED, 4001, "a10f"),
    _with_metadata("BLOB COMPRESSED", ColumnType.BLOB_COMPRESSED, 2, "02"),
    _with_metadata("array of BIGINT", ColumnType.TYPED_ARRAY, ColumnType.LONGLONG, "08"),
    _with_metadata("array of DECIMAL(10,2)", ColumnType.TYPED_ARRAY, 246 | 0x0A02 << 8, "f60a02"),
    _with_metadata("array of VARCHAR", ColumnType.TYPED_ARRAY, 15 | 0x012345 << 8, "0f452301"),
    *(
        _with_metadata(kind.name, kind, 0, "")
        for kind in (
            *(
                ColumnType.DECIMAL,
                ColumnType.TINY,
                ColumnType.SHORT,
                ColumnType.LONG,
                ColumnType.NULL,
                ColumnType.TIMESTAMP,
            ),
            *(
                ColumnType.LONGLONG,
                ColumnType.INT24,
                ColumnType.DATE,
                ColumnType.TIME,
                ColumnType.DATETIME,
                ColumnType.YEAR,
            ),
            *(ColumnType.NEWDATE, ColumnType.INVALID, ColumnType.BOOL),
        )
    ),
]
FIELDS: list[EventCase] = [
    _with_field("SIGNEDNESS", 1, (T, F, T, F, F, F, F, F, T, F, F, F, F, F, F, F), "a080"),
    _with_field("SIGNEDNESS of no numeric column", 1, (), ""),
    _with_field("DEFAULT_CHARSET", 2, DefaultCharset(255), "fcff00"),
    _with_field("DEFAULT_CHARSET, two others", 2, DefaultCharset(45, ((1, 8), (300, 63))), "2d 0108 fc2c013f"),
    _with_field("COLUMN_CHARSET", 3, (63, 255), "3ffcff00"),
    _with_field("COLUMN_NAME", 4, ("id", "näme"), f"02{text('id')}05{text('näme')}"),
    _with_field("SET_STR_VALUE", 5, ((b"p", b"q"), (b"k",)), "02 0170 0171 01 016b"),
    _with_field("ENUM_STR_VALUE", 6, ((b"a", b"\xc3\xa9", b""),), "03 0161 02c3a9 00"),
    _with_field("GEOMETRY_TYPE", 7, (1, 7), "0107"),
    _with_field("SIMPLE_PRIMARY_KEY", 8, (0, 251), "00fcfb00"),
    _with_field("PRIMARY_KEY_WITH_PREFIX", 9, ((1, 7), (0, 0)), "01070000"),
    _with_field("ENUM_AND_SET_DEFAULT_CHARSET", 10, DefaultCharset(8, ((0, 255),)), "0800fcff00"),
    _with_field("ENUM_AND_SET_COLUMN_CHARSET", 11, (255, 8), "fcff0008"),
    _with_field("COLUMN_VISIBILITY", 12, (T, T, F, F, F, F, F, F), "c0"),
    _with_field("VECTOR_DIMENSIONALITY", 13, (1, 2048, 16383), "01fc0008fcff3f"),
    _with_field("a field of a later server", 99, b"\x01\x02", "0102"),
]
WHOLE: list[EventCase] = [
    EventCase(
        "9.7 (metadata_full)",
        TABLE_MAP,
        TableMapEvent(
            272,
            1,
            "corpus",
            "m6",
            (3, 3, 3),
            (0, 0, 0),
            (False, True, True),
            (
                ALL_SIGNED,
                MetadataField(OptionalMetadataType.COLUMN_NAME, ("id", "a", "b")),
                MetadataField(OptionalMetadataType.SIMPLE_PRIMARY_KEY, (0,)),
                MetadataField(OptionalMetadataType.COLUMN_VISIBILITY, (T, T, T, F, F, F, F, F)),
            ),
        ),
        "100100000000010006636f7270757300026d36000303030300060101000407026964016101620801000c01e0",
    ),
    EventCase(
        "a generated key (types_generated_invisible)",
        TABLE_MAP,
        replace(_table((3,), (0,)), flags=TableMapFlag.BIT_LEN_EXACT | TableMapFlag.GENERATED_INVISIBLE_PK),
        "010000000000 0500 01 64 00 01 74 00 01 03 00 01",
    ),
    EventCase(
        "the dummy table id",
        TABLE_MAP,
        TableMapEvent((1 << 48) - 1, 0, "", "", (), (), ()),
        "ffffffffffff 0000 00 00 00 00 00 00",
    ),
    EventCase(
        "300 columns",
        TABLE_MAP,
        TableMapEvent(1, 1, "d", "t", (3,) * 300, (0,) * 300, (True,) * 300),
        f"010000000000 0100 01 64 00 01 74 00 fc2c01 {'03' * 300} 00 {'ff' * 37} 0f",
    ),
    EventCase(
        "5.1.4, short table id",
        TABLE_MAP,
        TableMapEvent(7, 0, "d", "t", (3, 15), (0, 40), (True, False)),
        "07000000 0000 01 64 00 01 74 00 02 030f 02 2800 01",
        ALPHA,
    ),
    EventCase(
        "before 5.1.4, no metadata (ver_5_1-wl2325)",
        TABLE_MAP,
        TableMapEvent(7, 0, "d", "t", (3, 15), (), ()),
        "07000000 0000 01 64 00 01 74 00 02 030f",
        ALPHA,
    ),
    EventCase(
        "5.1.17, no metadata",
        TABLE_MAP,
        TableMapEvent(7, 0, "d", "t", (3, 15), (), ()),
        "070000000000 0000 01 64 00 01 74 00 02 030f",
        V5_1_17,
    ),
    EventCase(
        "5.1.17, metadata of two columns",
        TABLE_MAP,
        TableMapEvent(7, 0, "d", "t", (3, 15), (0, 40), (True, False)),
        "070000000000 0000 01 64 00 01 74 00 02 030f 02 2800 01",
        V5_1_17,
    ),
    EventCase(
        "5.1.17, no column",
        TABLE_MAP,
        TableMapEvent(7, 0, "d", "t", (), (), ()),
        "070000000000 0000 01 64 00 01 74 00 00 00",
        V5_1_17,
    ),
]
CASES = COLUMNS + FIELDS + WHOLE


def test_every_column_type_and_every_field_is_in_the_table() -> None:
    assert {case.event.column_types[0] for case in COLUMNS} == set(ColumnType)
    assert {case.event.optional_metadata[0].kind for case in FIELDS} >= set(OptionalMetadataType)


def test_field_of_the_optional_metadata_is_found_by_its_kind() -> None:
    event = WHOLE[0].event

    assert event.optional(OptionalMetadataType.COLUMN_NAME) == ("id", "a", "b")
    assert event.optional(OptionalMetadataType.GEOMETRY_TYPE) is None


@pytest.mark.parametrize("version", ["5.0.96", "5.1.18-beta", "5.5.62", "9.7.4", "10.11.18-MariaDB", ""])
def test_table_map_without_metadata_is_damaged_where_the_server_wrote_it(version: str) -> None:
    context = ParseContext(server_version=version, post_header_sizes=(0,) * 18 + (8,))

    with pytest.raises(BinlogFormatError):
        EventCase("", TABLE_MAP, None, "", context).parse(bytes.fromhex("070000000000 0000 01 64 00 01 74 00 02 030f"))


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("more metadata than the columns have", "010000000000 0100 01 64 00 01 74 00 01 03 01 00 01"),
        ("less metadata than the columns need", "010000000000 0100 01 64 00 01 74 00 01 0f 01 28 01"),
        ("a null bit past the last column", "010000000000 0100 01 64 00 01 74 00 01 03 00 03"),
        ("a name that does not end in zero", "010000000000 0100 01 64 01 01 74 00 01 03 00 01"),
        ("an invalid length", "010000000000 0100 01 64 00 01 74 00 ff 03 00 01"),
        ("columns beyond the event", "010000000000 0100 01 64 00 01 74 00 fe ffffffffffffff7f 03 00 01"),
        ("members beyond the field", "010000000000 0100 01 64 00 01 74 00 01 03 00 01 06 09 fe ffffffffffffff7f"),
        ("bytes after the field's value", "010000000000 0100 01 64 00 01 74 00 01 03 00 01 0a 02 08 00"),
    ],
    ids=lambda value: value if " " in value and not value[0].isdigit() else "",
)
def test_damaged_body_is_refused(what: str, body: str) -> None:
    with pytest.raises(BinlogFormatError):
        EventCase(what, TABLE_MAP, None, body, DEFAULT_CONTEXT).parse(bytes.fromhex(body))


@pytest.mark.parametrize(
    "changed",
    [
        {"table_id": 1 << 48},
        {"schema": "d" * 256},
        {"metadata": (0, 0)},
        {"metadata": ()},
        {"nullable": (True,)},
        {"column_types": (3, 3, 256)},
        {"column_types": (3, 3, 15), "metadata": (0, 0, 1 << 16)},
        {"optional_metadata": (MetadataField(OptionalMetadataType.COLUMN_NAME, (1,)),)},
        {"optional_metadata": (MetadataField(256, b""),)},
    ],
    ids=str,
)
def test_value_that_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    check_refused(WHOLE[0], replace(WHOLE[0].event, **changed))


# ------------------------------------------------------------------------------------- usual table maps, by hand


def _by_construct(body: bytes, context: ParseContext = DEFAULT_CONTEXT) -> TableMapEvent | None:
    try:
        event = EVENT_CODECS[TABLE_MAP].parse(HEADER, body, context)
    except (BinlogFormatError, UnsupportedFeature):
        return None
    assert isinstance(event, TableMapEvent)
    return event


def _check_plain(body: bytes) -> bool:
    """Check that the body is parsed as by construct, or left to construct. Return whether it was parsed."""
    plain = parse_plain_table_map(HEADER, body)

    assert plain is None or plain == _by_construct(body)
    return plain is not None


@pytest.mark.parametrize("case", [case for case in CASES if case.context is not ALPHA], ids=str)
def test_plain_table_map_is_that_of_construct(case: EventCase) -> None:
    """Also cut at every byte, and with every bit flipped."""
    body = case.body
    is_usual = bool(case.event.metadata) and ColumnType.TYPED_ARRAY not in case.event.column_types

    assert _check_plain(body) or not is_usual
    for end in range(len(body)):
        _check_plain(body[:end])
    for bit in range(8 * len(body)):
        damaged = bytearray(body)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        _check_plain(bytes(damaged))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}-{path.name}")
def test_plain_table_map_of_a_server_is_that_of_construct(path: Path) -> None:
    bodies = {frame.body for frame in frames_of(path.read_bytes()) if frame.header.type_code == TABLE_MAP}

    assert all(_check_plain(bytes(body)) for body in bodies)


def test_table_of_many_columns_is_parsed_as_by_construct() -> None:
    """Lengths of more than one byte, members of an ENUM, collations above 250, and names that are not UTF-8."""
    columns = (ColumnType.VARCHAR,) * 300 + (ColumnType.STRING,)
    fields = (
        MetadataField(OptionalMetadataType.DEFAULT_CHARSET, DefaultCharset(255, ((0, 63), (299, 70000)))),
        MetadataField(OptionalMetadataType.COLUMN_NAME, tuple(f"\udcff{i}" for i in range(301))),
        MetadataField(OptionalMetadataType.ENUM_STR_VALUE, ((b"a", b"\xff" * 300),)),
        MetadataField(200, b"unknown"),
    )
    event = replace(_table(columns, (40,) * 300 + (0xF701,), fields), header=HEADER)
    body = EVENT_CODECS[TABLE_MAP].build(event)

    assert parse_plain_table_map(HEADER, body) == _by_construct(body) == event
