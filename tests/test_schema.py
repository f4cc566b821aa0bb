"""Table definitions: JSON, types, collations, the table maps that real servers wrote for them, values from JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import ColumnType, EventType, OptionalMetadataType
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events import EVENT_CODECS
from binlogio.events.base import ParseContext
from binlogio.events.table_map import DefaultCharset, TableMapEvent
from binlogio.rowimage.charset import CHARSET_NAMES
from binlogio.rowimage.geometry import Geometry
from binlogio.rowimage.json import JsonDocument
from binlogio.rowimage.values import EnumValue, SetValue
from binlogio.schema import ColumnDefinition, KeyDefinition, TableDefinition, from_table_map, value_from_json
from binlogio.schema.collations import (
    charset_of_collation,
    collation_id,
    collation_name,
    default_collation,
    max_character_bytes,
)
from binlogio.schema.column_types import binlog_type, member_text, parse_sql_type
from binlogio.schema.definition import NON_TRANSACTIONAL_ENGINES
from column_cases import ALL_TYPES
from corpus import FIXTURES, Case, cases, frames_of

CODEC: Final = EVENT_CODECS[EventType.TABLE_MAP_EVENT]
UTC: Final = timezone.utc

# Tables that the script altered after its last row was logged.
ALTERED: Final = {"compressed/corpus.a", "gtid/corpus.t"}
# temporal columns of before MySQL 5.6, which no definition spells
OLD_TYPES: Final = "types_old_temporal"


# ---------------------------------------------------------------------------------- table maps of real servers


def _definition(name: str, table: dict[str, Any]) -> TableDefinition:
    """The table that `expected.json` describes; keys and visibility are in its CREATE TABLE only."""
    schema, _, table_name = name.partition(".")
    columns = []
    for column in table["columns"]:
        match = re.search(rf"^  `{re.escape(column['name'].replace('`', '``'))}`.*$", table["create"], re.MULTILINE)
        line = match[0] if match else ""
        compressed = " compressed" if "COMPRESSED" in line and "compressed" not in column["type"].lower() else ""
        columns.append(
            ColumnDefinition(
                name=column["name"],
                type=column["type"] + compressed,
                nullable=column["nullable"],
                charset=column.get("charset"),
                collation=column.get("collation"),
                srid=column.get("srs_id"),
                visible="INVISIBLE" not in line,
            )
        )
    key = re.search(r"^  PRIMARY KEY \((.*)\)", table["create"], re.MULTILINE)
    parts = re.findall(r"`((?:[^`]|``)*)`(?:\((\d+)\))?", key[1]) if key else []
    prefixes = tuple(int(prefix or 0) for _, prefix in parts)
    return TableDefinition(
        schema,
        table_name,
        tuple(columns),
        tuple(column.replace("``", "`") for column, _ in parts),
        prefixes if any(prefixes) else (),
        table["engine"] or "InnoDB",
    )


def _cases() -> list[Case]:
    return [
        case
        for case in cases()
        if case.root == FIXTURES and case.keys is None and case.folder.name != OLD_TYPES and case.load("expected.json")
    ]


def _table_maps(case: Case) -> list[TableMapEvent]:
    return [
        CODEC.parse(frame.header, frame.body, frame.context)
        for log in case.logs
        for frame in frames_of(log.read_bytes())
        if frame.header.type_code == EventType.TABLE_MAP_EVENT
    ]


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case.id)
def test_a_definition_gives_the_table_map_that_the_server_wrote(case: Case) -> None:
    """Byte for byte, types, metadata, null bits and optional metadata."""
    expected = case.load("expected.json")
    flavor = "mariadb" if "mariadb" in case.id else "mysql"
    usual = {"mariadb": "NO_LOG", "mysql": "MINIMAL"}[flavor]
    metadata = case.folder.name.removeprefix("metadata_").upper() if "metadata_" in case.id else usual
    tables = {name: _definition(name, table) for name, table in expected["tables"].items()}
    last = {f"{event.schema}.{event.table}": event for event in _table_maps(case)}
    for name, event in last.items():
        if name not in tables or f"{case.folder.name}/{name}" in ALTERED:
            continue
        ours = tables[name].table_map(event.table_id, metadata, flavor, flags=event.flags)  # type: ignore[arg-type]

        assert CODEC.build(ours) == CODEC.build(event), name


def test_the_fixtures_hold_table_maps_of_full_metadata() -> None:
    """Else the test above would compare less than it says."""
    case = next(case for case in _cases() if case.folder.name == "metadata_full")

    assert len(_table_maps(case)) == 9


def test_a_definition_read_from_full_metadata_gives_the_same_table_map() -> None:
    """Nothing of the metadata is lost on the way through a definition."""
    case = next(case for case in _cases() if case.folder.name == "metadata_full")
    for event in _table_maps(case):
        again = from_table_map(event).table_map(event.table_id, flags=event.flags)

        assert CODEC.build(again) == CODEC.build(event)


def test_every_type_survives_the_way_through_its_table_map() -> None:
    """The definition that comes back maps to the same bytes."""
    event = ALL_TYPES.table_map(7)
    again = from_table_map(event)

    assert again.table_map(7) == event
    assert again.primary_key == ("id",)
    assert again.columns[1] == ColumnDefinition("c0", "tinyint")


def test_a_table_map_without_names_gives_no_definition() -> None:
    """MINIMAL metadata does not say what the columns are called."""
    with pytest.raises(UnsupportedFeature, match="name of a column"):
        from_table_map(ALL_TYPES.table_map(7, "MINIMAL"))


MARIADB: Final = ParseContext(server_version="10.11.18-MariaDB-log")
MARIADB_TABLE: Final = TableDefinition(
    "s",
    "t",
    (
        ColumnDefinition("j", "json"),
        ColumnDefinition("v", "varchar(100) compressed"),
        ColumnDefinition("b", "mediumblob compressed"),
        ColumnDefinition("u", "uuid"),
        ColumnDefinition("g", "point"),
        ColumnDefinition("c", "text", collation="utf8mb4_croatian_ci"),
    ),
    collation="utf8mb4_general_ci",
)


def test_mariadb_counts_other_columns_as_text() -> None:
    """As 10.11 writes it: JSON is LONGTEXT, UUID and GEOMETRY are binary text, croatian_ci is its own, no column is invisible."""
    event = MARIADB_TABLE.table_map(1, "FULL", "mariadb")

    assert event.column_types == (ColumnType.BLOB, *(141, 140), ColumnType.STRING, ColumnType.GEOMETRY, ColumnType.BLOB)
    assert event.metadata == (4, 401, 3, 0xFE10, 4, 2)
    assert [(field.kind, field.value) for field in event.optional_metadata] == [
        (OptionalMetadataType.COLUMN_CHARSET, (46, 45, 63, 63, 63, 608)),
        (OptionalMetadataType.GEOMETRY_TYPE, (1,)),
        (OptionalMetadataType.COLUMN_NAME, ("j", "v", "b", "u", "g", "c")),
    ]


def test_mariadbs_table_maps_give_definitions_too() -> None:
    """What looks like another type is that type."""
    types = {
        column.name: (column.type, column.collation)
        for column in from_table_map(MARIADB_TABLE.table_map(1, "FULL", "mariadb"), MARIADB).columns
    }

    assert types == {
        "j": ("longtext", "utf8mb4_bin"),
        "v": ("varchar(100) compressed", "utf8mb4_general_ci"),
        "b": ("mediumblob compressed", None),
        "u": ("binary(16)", None),
        "g": ("point", None),
        "c": ("text", "utf8mb4_croatian_ci"),
    }


def _without(event: TableMapEvent, kind: OptionalMetadataType) -> TableMapEvent:
    return replace(event, optional_metadata=tuple(field for field in event.optional_metadata if field.kind != kind))


@pytest.mark.parametrize(
    ("sql_type", "kind", "reason"),
    [
        ("text", OptionalMetadataType.DEFAULT_CHARSET, "character set"),
        ("varchar(5)", OptionalMetadataType.DEFAULT_CHARSET, "character set"),
        ("enum('a')", OptionalMetadataType.ENUM_STR_VALUE, "members of the ENUM"),
        ("vector(3)", OptionalMetadataType.VECTOR_DIMENSIONALITY, "no SQL type"),
    ],
)
def test_a_table_map_that_says_too_little_gives_no_definition(
    sql_type: str, kind: OptionalMetadataType, reason: str
) -> None:
    """It is not guessed."""
    event = TableDefinition("s", "t", (ColumnDefinition("c", sql_type),)).table_map(1)

    with pytest.raises(UnsupportedFeature, match=reason):
        from_table_map(_without(event, kind))


def test_columns_of_old_types_give_no_definition() -> None:
    """No SQL of today makes them."""
    event = replace(
        TableDefinition("s", "t", (ColumnDefinition("c", "date"),)).table_map(1), column_types=(ColumnType.TIME,)
    )

    with pytest.raises(UnsupportedFeature, match="no SQL type"):
        from_table_map(event)


def test_plans_take_the_columns_of_a_definition() -> None:
    """With ids in the place of names of collations."""
    mysql, mariadb = MARIADB_TABLE.plan_columns(), MARIADB_TABLE.plan_columns("mariadb")

    assert [column.collation_id for column in mysql] == [63, 45, 63, 63, 63, 245]
    assert [column.collation_id for column in mariadb] == [46, 45, 63, 63, 63, 608]
    assert MARIADB_TABLE.full_name == "s.t"


def test_row_metadata_other_than_the_servers_is_refused() -> None:
    """The server has three values for it."""
    with pytest.raises(UnsupportedFeature, match="binlog_row_metadata"):
        ALL_TYPES.table_map(7, "SOME")


@pytest.mark.parametrize(
    ("collations", "kind", "value"),
    [
        (("latin1_bin",) * 3, OptionalMetadataType.DEFAULT_CHARSET, DefaultCharset(47)),
        (("latin1_bin", "utf8mb4_bin"), OptionalMetadataType.COLUMN_CHARSET, (47, 46)),
        (
            ("utf8mb4_bin", "utf8mb4_bin", "latin1_bin"),
            OptionalMetadataType.DEFAULT_CHARSET,
            DefaultCharset(46, ((2, 47),)),
        ),
        (("latin1_bin", "ascii_bin", "latin1_bin", "ascii_bin"), OptionalMetadataType.COLUMN_CHARSET, (47, 65, 47, 65)),
    ],
)
def test_collations_are_listed_in_the_shorter_way(
    collations: tuple[str, ...], kind: OptionalMetadataType, value: object
) -> None:
    """A default and exceptions, or one by one; the default where both are as long."""
    columns = tuple(ColumnDefinition(f"c{i}", "text", collation=name) for i, name in enumerate(collations))
    event = TableDefinition("s", "t", columns).table_map(1, "MINIMAL")

    assert [(field.kind, field.value) for field in event.optional_metadata] == [(kind, value)]


def test_members_that_the_character_set_lacks_are_refused() -> None:
    """They could not be in the table map."""
    table = TableDefinition("s", "t", (ColumnDefinition("e", "enum('漢')", charset="latin1"),))

    with pytest.raises(UnsupportedFeature, match=r"s\.t\.e"):
        table.table_map(1)


# ------------------------------------------------------------------------------------------------ definitions


def test_a_definition_survives_its_json_form() -> None:
    """Whatever is not as usual is in the JSON."""
    table = TableDefinition(
        "s",
        "t",
        (
            ColumnDefinition("a", "int", nullable=False),
            ColumnDefinition("b", "text", charset="latin1"),
            ColumnDefinition("g", "point", srid=4326, visible=False),
            ColumnDefinition("h", "int", generated_from=("a",), auto_increment=True),
            ColumnDefinition("i", "timestamp", default_now=True, on_update_now=True),
        ),
        ("b", "a"),
        (3, 0),
        "MyISAM",
        "latin1_bin",
        (KeyDefinition(("a", "b"), (0, 4)), KeyDefinition(("a",))),
        is_foreign_key_parent=True,
    )

    assert TableDefinition.from_json(json.loads(json.dumps(table.to_json()))) == table
    assert TableDefinition.from_json(json.loads(json.dumps(ALL_TYPES.to_json()))) == ALL_TYPES


COLUMN: Final = {"name": "a", "type": "int"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"schema": "s", "name": "t"},
        {"schema": "s", "name": "t", "columns": []},
        {"schema": "s", "name": "t", "columns": "a"},
        {"schema": "s", "name": "t", "columns": ["a"]},
        {"schema": "s", "name": "t", "columns": [COLUMN], "kolumns": 1},
        {"schema": 1, "name": "t", "columns": [COLUMN]},
        {"schema": "s", "name": "t", "columns": [COLUMN], "unique_keys": [{"columns": ["b"]}]},
        {"schema": "s", "name": "t", "columns": [COLUMN], "unique_keys": [["a"]]},
        {"schema": "s", "name": "t", "columns": [{**COLUMN, "generated_from": ["b"]}]},
        {"schema": "s", "name": "t", "columns": [COLUMN, {**COLUMN, "name": "A"}]},
        {"schema": "s", "name": "t", "columns": [COLUMN], "primary_key": ["b"]},
        {"schema": "s", "name": "t", "columns": [COLUMN], "primary_key": [1]},
        {"schema": "s", "name": "t", "columns": [COLUMN], "primary_key": ["a"], "primary_key_prefixes": [1, 2]},
        {"schema": "s", "name": "t", "columns": [{**COLUMN, "nullable": 1}]},
        {"schema": "s", "name": "t", "columns": [{**COLUMN, "type": "integre"}]},
    ],
)
def test_json_that_is_no_table_is_refused(value: Any) -> None:
    """With what is missing, unknown or of the wrong type."""
    with pytest.raises(UnsupportedFeature):
        TableDefinition.from_json(value)


def test_columns_are_found_by_name_whatever_their_case() -> None:
    """As the server finds them."""
    assert ALL_TYPES.column_index("ID") == 0

    with pytest.raises(UnsupportedFeature, match="no such column"):
        ALL_TYPES.column_index("nope")


@pytest.mark.parametrize(("engine", "transactional"), [("InnoDB", True), ("BLACKHOLE", True), ("myisam", False)])
def test_the_engine_says_whether_rollback_undoes_changes(engine: str, transactional: bool) -> None:
    """BLACKHOLE counts as if it did."""
    assert replace(ALL_TYPES, engine=engine).is_transactional is transactional
    assert (engine.upper() in NON_TRANSACTIONAL_ENGINES) is not transactional


# ------------------------------------------------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("text", "width", "code", "metadata"),
    [
        ("INT(11) UNSIGNED ZEROFILL", 1, ColumnType.LONG, 0),
        ("double precision", 1, ColumnType.DOUBLE, 8),
        ("float(24)", 1, ColumnType.FLOAT, 4),
        ("float(25)", 1, ColumnType.DOUBLE, 8),
        ("float(10,2)", 1, ColumnType.FLOAT, 4),
        ("numeric", 1, ColumnType.NEWDECIMAL, 10 << 8),
        ("decimal(7)", 1, ColumnType.NEWDECIMAL, 7 << 8),
        ("bit", 1, ColumnType.BIT, 1),
        ("bit(64)", 1, ColumnType.BIT, 8 << 8),
        ("datetime(3)", 1, ColumnType.DATETIME2, 3),
        ("char", 4, ColumnType.STRING, 0xFE04),
        ("char(255)", 4, ColumnType.STRING, 0xCEFC),
        ("char(64)", 4, ColumnType.STRING, 0xEE00),
        ("binary(255)", 4, ColumnType.STRING, 0xFEFF),
        ("varchar(20)", 4, ColumnType.VARCHAR, 80),
        ("varbinary(20)", 4, ColumnType.VARCHAR, 20),
        ("tinytext", 4, ColumnType.BLOB, 1),
        ("text(63)", 4, ColumnType.BLOB, 1),
        ("text(64)", 4, ColumnType.BLOB, 2),
        ("blob(65536)", 1, ColumnType.BLOB, 3),
        ("blob(4294967295)", 1, ColumnType.BLOB, 4),
        ("enum('a','b,)''')", 1, ColumnType.STRING, 0xF701),
        ("set('a','b')", 1, ColumnType.STRING, 0xF801),
        ("vector(16383)", 1, ColumnType.VECTOR, 4),
        ("geomcollection", 1, ColumnType.GEOMETRY, 4),
        ("varchar(1000) /*M!100301 COMPRESSED*/", 4, ColumnType.VARCHAR_COMPRESSED, 4001),
        ("mediumtext compressed", 4, ColumnType.BLOB_COMPRESSED, 3),
        ("inet4", 1, ColumnType.STRING, 0xFE04),
    ],
)
def test_a_type_has_the_code_and_metadata_of_the_table_map(text: str, width: int, code: int, metadata: int) -> None:
    """For character sets of one and of four bytes."""
    assert binlog_type(parse_sql_type(text), width) == (code, metadata)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "integre",
        "int unsigned signd",
        "int(a)",
        "varchar",
        "varchar(16384)",
        "char(256)",
        "decimal(66,2)",
        "decimal(5,6)",
        "decimal(1,2,3)",
        "bit(65)",
        "time(7)",
        "vector(16384)",
        "enum()",
        "enum('a'",
        "enum(a)",
        "enum('a' 'b')",
        f"set({','.join(repr(str(i)) for i in range(65))})",
        "varchar(20) character set latin1",
        "int compressed",
    ],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(UnsupportedFeature, match="not a column type"):
        binlog_type(parse_sql_type(text), 4)


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_members_survive_their_spelling(members: list[str]) -> None:
    """Quotes, backslashes, commas and brackets among them."""
    text = f"enum({','.join(map(member_text, members))})"

    assert parse_sql_type(text).members == tuple(members)


@given(st.text(max_size=40))
def test_any_text_is_a_type_or_refused(text: str) -> None:
    """Nothing but a BinlogError comes out."""
    try:
        binlog_type(parse_sql_type(text))
    except BinlogError:
        return


# -------------------------------------------------------------------------------------------------- collations


def test_every_collation_has_a_name_and_the_name_its_id() -> None:
    """For all ids of MySQL 9.7 and MariaDB 10.11."""
    names = {number: collation_name(number) for number in CHARSET_NAMES}

    assert {number: charset_of_collation(name) for number, name in names.items()} == CHARSET_NAMES
    assert all(number in (collation_id(name), collation_id(name, is_mariadb=True)) for number, name in names.items())


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("utf8mb4_0900_ai_ci", 255),
        ("UTF8_general_ci", 33),
        ("binary", 63),
        ("utf8mb4_ja_0900_as_cs_ks", 304),
        ("utf8mb4_uca1400_swedish_nopad_as_cs", 2304 + 64 + 7),
        ("latin1_nopad_bin", 1071),
        ("utf8mb4_croatian_ci", 245),
    ],
)
def test_collations_are_found_by_name(name: str, number: int) -> None:
    """Of both vendors; utf8 is utf8mb3."""
    assert collation_id(name) == number


def test_one_name_means_another_collation_in_mariadb() -> None:
    """croatian_ci came to both servers at the same time."""
    assert collation_id("utf8mb4_croatian_ci", is_mariadb=True) == 608
    assert collation_name(608) == collation_name(245)


def test_unknown_collations_and_character_sets_are_refused() -> None:
    """By name and by id."""
    for call in (
        lambda: collation_id("utf8mb4_klingon_ci"),
        lambda: collation_name(9999),
        lambda: default_collation("x"),
    ):
        with pytest.raises(UnsupportedFeature, match="no server has"):
            call()


def test_character_sets_have_a_default_and_a_width() -> None:
    """As SHOW CHARACTER SET says."""
    assert default_collation("utf8mb4") == "utf8mb4_0900_ai_ci"
    assert default_collation("utf8") == "utf8mb3_general_ci"
    assert [max_character_bytes(name) for name in ("binary", "latin1_bin", "gbk_bin", "ujis_bin", "utf16_bin")] == [
        1,
        1,
        2,
        3,
        4,
    ]


# ------------------------------------------------------------------------------------------- values from JSON


@pytest.mark.parametrize(
    ("sql_type", "given_value", "expected"),
    [
        ("int", None, None),
        ("int", -5, -5),
        ("bigint unsigned", "18446744073709551615", 2**64 - 1),
        ("tinyint(1)", True, 1),
        ("int", 5.0, 5),
        ("year", 2024, 2024),
        ("bit(12)", 5, 5),
        ("bit(12)", "0x0f05", 0x0F05),
        ("double", 1, 1.0),
        ("float", 0.5, 0.5),
        ("decimal(10,2)", "12.30", Decimal("12.30")),
        ("decimal(10,2)", 12.5, Decimal("12.5")),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("date", "2015-00-21", "2015-00-21"),
        ("time(2)", "-01:02:03.40", -timedelta(hours=1, minutes=2, seconds=3, milliseconds=400)),
        ("datetime(3)", "2024-01-02 03:04:05.678", datetime(2024, 1, 2, 3, 4, 5, 678000)),
        ("datetime(3)", "0000-00-00 00:00:00", "0000-00-00 00:00:00.000"),
        ("timestamp", "2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("varchar(9)", "0x61", "0x61"),
        ("text", "é", "é"),
        ("varbinary(9)", "0x6162", b"ab"),
        ("blob", "0x", b""),
        ("uuid", "3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429562"),
        ("enum('a','b')", "b", EnumValue("b", 2)),
        ("enum('a','b')", 1, EnumValue("a", 1)),
        ("enum('a','b')", "", EnumValue("", 0)),
        ("enum('','b')", "", EnumValue("", 1)),
        ("set('a','b','c')", "c,a", SetValue("a,c", 5)),
        ("set('a','b','c')", ["b"], SetValue("b", 2)),
        ("set('a','b','c')", 6, SetValue("b,c", 6)),
        ("set('a','b','c')", "", SetValue("", 0)),
        ("json", {"k": [1, "x"]}, JsonDocument.from_text('{"k": [1, "x"]}')),
        ("json", "text", JsonDocument.from_text('"text"')),
        ("point", "0xe6100000" + "00" * 4, Geometry(4326, bytes(4))),
        ("vector(2)", [1, 0.5], (1.0, 0.5)),
        ("vector(1)", [0.1], (0.10000000149011612,)),
        ("vector(1)", "0x0000803f", (1.0,)),
    ],
)
def test_json_values_become_values_of_the_column(sql_type: str, given_value: Any, expected: Any) -> None:
    """Of the class that rows are decoded to."""
    value = value_from_json(given_value, ColumnDefinition("c", sql_type))

    assert value == expected
    assert type(value) is type(expected)
    assert getattr(value, "index", None) == getattr(expected, "index", None) or not isinstance(value, EnumValue)
    assert getattr(value, "bits", None) == getattr(expected, "bits", None)


def test_well_known_text_takes_the_reference_system_of_its_column() -> None:
    """SRID 0 where the column takes any."""
    column = ColumnDefinition("c", "point", srid=4326)

    assert value_from_json("POINT(1 2)", column) == Geometry.from_wkt("POINT(1 2)", 4326)
    assert value_from_json("POINT(1 2)", replace(column, srid=None)) == Geometry.from_wkt("POINT(1 2)", 0)


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        ("int", "five"),
        ("int", 5.5),
        ("int", [5]),
        ("double", "1.5"),
        ("double", 10**400),
        ("decimal(10,2)", "NaN"),
        ("decimal(10,2)", "1,5"),
        ("decimal(10,2)", {}),
        ("date", "yesterday"),
        ("date", 20240101),
        ("date", "2024-01-01 10:00:00"),
        ("time", "1:2"),
        ("datetime(2)", "2024-01-02 03:04:05.678"),
        ("timestamp", "2024-13-01 00:00:00"),
        ("varchar(9)", 5),
        ("blob", "ab"),
        ("blob", "0x6"),
        ("blob", "0xzz"),
        ("bit(4)", "15"),
        ("enum('a','b')", "c"),
        ("enum('a','b')", 3),
        ("set('a','b')", "a,c"),
        ("set('a','b')", 4),
        ("set('a','b')", {"a": 1}),
        ("point", "0x00"),
        ("point", "POINT(1)"),
        ("point", 5),
        ("vector(2)", [1, "x"]),
        ("vector(2)", [1e300]),
        ("vector(2)", "0x00"),
    ],
)
def test_values_of_another_type_are_refused(sql_type: str, value: Any) -> None:
    """With the column's name."""
    with pytest.raises(BinlogFormatError) as caught:
        value_from_json(value, ColumnDefinition("c", sql_type))

    assert caught.value.field == "c"


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(ALL_TYPES.columns), JSON)
def test_any_json_is_a_value_or_refused(column: ColumnDefinition, value: Any) -> None:
    """Nothing but a BinlogError comes out."""
    try:
        value_from_json(value, column)
    except BinlogError:
        return
