"""Table definitions: the table maps that real servers wrote for them, and JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Final

import pytest

from binlogio.constants import ColumnType, EventType, OptionalMetadataType
from binlogio.errors import UnsupportedFeature
from binlogio.events import EVENT_CODECS
from binlogio.events.base import DEFAULT_CONTEXT, ParseContext
from binlogio.events.table_map import DefaultCharset, TableMapEvent
from binlogio.schema import ColumnDefinition, KeyDefinition, TableDefinition, from_table_map, parse_create_table
from binlogio.schema.definition import NON_TRANSACTIONAL_ENGINES
from binlogio.schema.given import Described
from binlogio.schema.source import with_hidden_columns
from column_cases import ALL_TYPES
from corpus import FIXTURES, Case, cases, frames_of
from followed_ddl import MARIADB as MARIADB_DEFAULTS

CODEC: Final = EVENT_CODECS[EventType.TABLE_MAP_EVENT]

# Tables that the script altered after its last row was logged.
ALTERED: Final = {"altered/corpus.cols", "compressed/corpus.a", "gtid/corpus.t"}
# temporal columns of before MySQL 5.6, which no definition spells
OLD_TYPES: Final = "types_old_temporal"


# ---------------------------------------------------------------------------------- table maps of real servers


def _definition(name: str, table: dict[str, Any]) -> TableDefinition:
    """Return the table that `expected.json` describes; keys and visibility are in its CREATE TABLE only."""
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
    uses_hash = "USING HASH" in table["create"]
    return TableDefinition(
        schema,
        table_name,
        tuple(columns),
        tuple(column.replace("``", "`") for column, _ in parts),
        prefixes if any(prefixes) else (),
        table["engine"] or "InnoDB",
        hash_columns=parse_create_table(table["create"], server=MARIADB_DEFAULTS).hash_columns if uses_hash else (),
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
    vendor = "mariadb" if "mariadb" in case.id else "mysql"
    usual = {"mariadb": "NO_LOG", "mysql": "MINIMAL"}[vendor]
    given = re.search(r"binlog_row_metadata='?(\w+)", (case.folder / "source.sql").read_text(encoding="utf-8"))
    metadata = given[1] if given else usual
    tables = {name: _definition(name, table) for name, table in expected["tables"].items()}
    last = {f"{event.schema}.{event.table}": event for event in _table_maps(case)}
    as_created = [name for name in last if name in tables and f"{case.folder.name}/{name}" not in ALTERED]

    assert as_created or case.folder.name == "format_statement"
    for name in as_created:
        event = last[name]
        described = with_hidden_columns(Described(tables[name]), event, vendor)  # type: ignore[arg-type]
        ours = described.definition.table_map(event.table_id, metadata, vendor, flags=event.flags)  # type: ignore[arg-type]

        assert CODEC.build(ours) == CODEC.build(event), name


FULL_METADATA: Final = {case.id: case for case in _cases() if case.folder.name == "metadata_full"}


def test_the_fixtures_hold_table_maps_of_full_metadata() -> None:
    """Else the tests would compare less than they say."""
    assert {name: len(_table_maps(case)) for name, case in FULL_METADATA.items()} == {
        "mysql97/metadata_full": 9,
        "mariadb118/metadata_full": 7,
    }


@pytest.mark.parametrize(
    ("name", "vendor", "context"),
    [
        ("mysql97/metadata_full", "mysql", DEFAULT_CONTEXT),
        ("mariadb118/metadata_full", "mariadb", ParseContext(server_version="11.8.6-MariaDB-log")),
    ],
)
def test_a_definition_read_from_full_metadata_gives_the_same_table_map(
    name: str, vendor: Any, context: ParseContext
) -> None:
    """Nothing of the metadata is lost on the way through a definition."""
    for event in _table_maps(FULL_METADATA[name]):
        again = from_table_map(event, context).table_map(event.table_id, "FULL", vendor, flags=event.flags)

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
    """In MariaDB 10.11, JSON is LONGTEXT, UUID and GEOMETRY binary text, croatian_ci its own, all columns visible."""
    event = MARIADB_TABLE.table_map(1, "FULL", "mariadb")

    assert event.column_types == (ColumnType.BLOB, *(141, 140), ColumnType.STRING, ColumnType.GEOMETRY, ColumnType.BLOB)
    assert event.metadata == (4, 401, 3, 0xFE10, 4, 2)
    assert [(field.kind, field.value) for field in event.optional_metadata] == [
        (OptionalMetadataType.COLUMN_CHARSET, (46, 45, 63, 63, 63, 608)),
        (OptionalMetadataType.GEOMETRY_TYPE, (1,)),
        (OptionalMetadataType.COLUMN_NAME, ("j", "v", "b", "u", "g", "c")),
    ]


def test_mariadbs_table_maps_give_definitions_too() -> None:
    """Types that look like another type are that type."""
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
        ("vector(3)", OptionalMetadataType.VECTOR_DIMENSIONALITY, "the SQL type"),
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

    with pytest.raises(UnsupportedFeature, match="the SQL type"):
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


def test_refusal_names_the_columns_that_are_missing() -> None:
    value = {"schema": "s", "name": "t", "columns": [COLUMN], "unique_keys": [{"columns": ["a", "c", "b"]}]}
    with pytest.raises(UnsupportedFeature, match=r"unique_keys and generated_from.*found \['b', 'c'\]"):
        TableDefinition.from_json(value)


def test_columns_are_found_by_name_whatever_their_case() -> None:
    """The server finds them so."""
    assert ALL_TYPES.column_index("ID") == 0

    with pytest.raises(UnsupportedFeature, match="unknown column"):
        ALL_TYPES.column_index("nope")


@pytest.mark.parametrize(("engine", "transactional"), [("InnoDB", True), ("BLACKHOLE", True), ("myisam", False)])
def test_the_engine_says_whether_rollback_undoes_changes(engine: str, transactional: bool) -> None:
    """BLACKHOLE counts as if it did."""
    assert replace(ALL_TYPES, engine=engine).is_transactional is transactional
    assert (engine.upper() in NON_TRANSACTIONAL_ENGINES) is not transactional
