"""Plans: what table maps, their optional metadata and table definitions say of columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import ColumnType as T
from binlogio.constants import OptionalMetadataType as O
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events.base import ParseContext
from binlogio.events.table_map import DefaultCharset, MetadataField
from binlogio.rows.plan import DefinedColumn, resolve_plan
from binlogio.values.column import ColumnPlan
from rowimage_cases import BINARY, LATIN1, MARIADB, UTF8MB4, column, plan, table_map

CHAR, ENUM1, SET8 = (T.STRING, 0xFE0A), (T.STRING, 0xF701), (T.STRING, 0xF808)
INT, YEAR, BIT, JSON, BLOB = (T.LONG, 0), (T.YEAR, 0), (T.BIT, 0x0101), (T.JSON, 4), (T.BLOB, 2)
GEOMETRY, VECTOR, VARCHAR = (T.GEOMETRY, 4), (T.VECTOR, 4), (T.VARCHAR, 80)


@pytest.mark.parametrize(
    ("metadata", "kind", "length", "pack_length"),
    [
        (0xFE00, T.STRING, 0, 1),
        (0xFEFF, T.STRING, 255, 1),
        (0xEE00, T.STRING, 256, 2),
        (0xCEFC, T.STRING, 1020, 2),
        (0xDEFD, T.STRING, 765, 2),
        (0xFDFF, T.STRING, 255, 1),
        (0xF701, T.ENUM, 0, 1),
        (0xF702, T.ENUM, 0, 2),
        (0xF808, T.SET, 0, 8),
        (0x0000, T.STRING, 255, 1),
    ],
)
def test_the_real_type_of_a_string_column_is_in_its_metadata(
    metadata: int, kind: T, length: int, pack_length: int
) -> None:
    """ENUM, SET, and CHAR of over 255 bytes (fixtures mysql97/types_string and types_enum_set_bit)."""
    found = column(T.STRING, metadata)

    assert (kind, length, pack_length) == (found.type, found.length, found.pack_length)


@pytest.mark.parametrize(
    ("kind", "metadata"),
    [
        (T.STRING, 0xF703),
        (T.STRING, 0xF700),
        (T.STRING, 0xF809),
        (T.STRING, 0xF605),
        (T.FLOAT, 8),
        (T.DOUBLE, 4),
        (T.BLOB, 0),
        (T.BLOB, 5),
        (T.BIT, 0),
        (T.BIT, 0x0801),
        (T.BIT, 0x0109),
        (T.NEWDECIMAL, 0x4200),
        (T.NEWDECIMAL, 0x0506),
        (T.TIME2, 7),
        (T.BOOL, 0),
        (T.INVALID, 0),
        (99, 0),
    ],
)
def test_types_and_metadata_that_no_server_has_are_refused(kind: int, metadata: int) -> None:
    """With the table's name."""
    with pytest.raises(BinlogFormatError) as caught:
        resolve_plan(table_map((kind, metadata)))

    assert caught.value.field == "test.t"
    assert caught.value.event_type == "TABLE_MAP_EVENT"


def test_arrays_are_not_supported() -> None:
    """Multi-valued indexes have hidden columns, which no binlog shows."""
    with pytest.raises(UnsupportedFeature):
        plan((T.TYPED_ARRAY, 3))


def _resolve(*columns: tuple[int, int], mariadb: bool = False, **fields: Any) -> tuple[ColumnPlan, ...]:
    optional = tuple(MetadataField(O[name], value) for name, value in fields.items())
    event = table_map(*columns, optional=optional)
    return resolve_plan(event, MARIADB if mariadb else ParseContext(server_version="9.7.4")).columns


def test_year_has_a_bit_in_signedness_and_bit_has_none() -> None:
    """Fixture mysql97/metadata_full; MariaDB 10.11 writes the same."""
    columns = _resolve(INT, YEAR, BIT, CHAR, INT, SIGNEDNESS=(False, True, True, False, False, False, False, False))

    assert [found.unsigned for found in columns] == [False, True, False, False, True]


def test_vector_counts_as_a_character_column_and_json_does_not() -> None:
    """GEOMETRY does so in MariaDB only, and ENUM never."""
    charset = DefaultCharset(UTF8MB4, ((1, BINARY), (2, LATIN1)))
    mysql = _resolve(CHAR, JSON, VECTOR, GEOMETRY, ENUM1, VARCHAR, DEFAULT_CHARSET=charset)
    mariadb = _resolve(CHAR, JSON, BLOB, GEOMETRY, ENUM1, VARCHAR, mariadb=True, DEFAULT_CHARSET=charset)

    assert [found.collation_id for found in mysql] == [UTF8MB4, None, BINARY, None, None, LATIN1]
    assert [found.collation_id for found in mariadb] == [UTF8MB4, None, BINARY, LATIN1, None, UTF8MB4]


def test_compressed_columns_of_mariadb_count_as_character_columns() -> None:
    """The server writes it so; its mysqlbinlog counts otherwise."""
    columns = _resolve(
        (T.VARCHAR_COMPRESSED, 101), INT, (T.BLOB_COMPRESSED, 2), GEOMETRY, mariadb=True, COLUMN_CHARSET=(9, 41, 63)
    )

    assert [found.collation_id for found in columns] == [9, None, 41, 63]


def test_members_are_text_in_the_column_s_own_character_set() -> None:
    """ENUM and SET have their own fields for both. Members that are not text there are unknown."""
    columns = _resolve(
        ENUM1,
        CHAR,
        SET8,
        ENUM1,
        ENUM_AND_SET_COLUMN_CHARSET=(LATIN1, UTF8MB4, UTF8MB4),
        ENUM_STR_VALUE=((b"\xe9",), (b"\xff",)),
        SET_STR_VALUE=((b"\xc3\xa9", b"b"),),
    )

    assert [found.members for found in columns] == [("é",), None, ("é", "b"), None]


def test_all_the_rest_of_full_metadata_reaches_its_column() -> None:
    """Names, visibility, geometry types, dimensions."""
    columns = _resolve(
        INT,
        GEOMETRY,
        VECTOR,
        COLUMN_NAME=("id", "place", "v"),
        COLUMN_VISIBILITY=(True, False, True, False, False, False, False, False),
        GEOMETRY_TYPE=(1,),
        VECTOR_DIMENSIONALITY=(4,),
        ENUM_AND_SET_DEFAULT_CHARSET=DefaultCharset(8),
    )

    assert [found.label for found in columns] == ["id", "place", "v"]
    assert [found.visible for found in columns] == [True, False, True]
    assert (columns[1].geometry_type, columns[2].dimension) == (1, 4)


def test_a_column_without_a_name_is_called_by_its_number() -> None:
    """The same as mysqlbinlog."""
    assert [found.label for found in _resolve(INT, INT)] == ["@1", "@2"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ()),
        ({"SIMPLE_PRIMARY_KEY": (1, 0)}, ((1, 0), (0, 0))),
        ({"PRIMARY_KEY_WITH_PREFIX": ((0, 0), (1, 10))}, ((0, 0), (1, 10))),
    ],
)
def test_the_primary_key_is_positions_and_prefixes(fields: dict[str, Any], expected: Any) -> None:
    """A prefix of 0 is the whole column."""
    optional = tuple(MetadataField(O[name], value) for name, value in fields.items())

    assert expected == resolve_plan(table_map(INT, BLOB, optional=optional)).primary_key


@pytest.mark.parametrize(
    "fields",
    [
        {"SIGNEDNESS": (True,) * 16},
        {"SIGNEDNESS": ()},
        {"DEFAULT_CHARSET": DefaultCharset(8, ((1, 8),))},
        {"COLUMN_CHARSET": (8, 8)},
        {"COLUMN_NAME": ("a",)},
        {"ENUM_STR_VALUE": ((b"a",),)},
        {"GEOMETRY_TYPE": (1,)},
        {"SIMPLE_PRIMARY_KEY": (2,)},
        {"COLUMN_VISIBILITY": (True,)},
    ],
)
def test_optional_metadata_of_another_number_of_columns_is_refused(fields: dict[str, Any]) -> None:
    """Rather than given to the wrong columns."""
    with pytest.raises(BinlogFormatError):
        _resolve(INT, CHAR, **fields)


def test_a_definition_fills_in_what_the_binlog_leaves_out() -> None:
    """And where both speak, the binlog is right."""
    definition = [
        DefinedColumn("a", "int unsigned", unsigned=True),
        DefinedColumn("b", "char(10)", collation_id=LATIN1),
        DefinedColumn("c", "enum('x','y')", members=("x", "y")),
        DefinedColumn("d", "datetime(3)"),
    ]
    event = table_map(INT, CHAR, ENUM1, (T.DATETIME, 0))
    columns = resolve_plan(event, MARIADB, definition).columns
    said = replace(
        event,
        optional_metadata=(
            MetadataField(O.SIGNEDNESS, (False,) * 8),
            MetadataField(O.DEFAULT_CHARSET, DefaultCharset(UTF8MB4)),
            MetadataField(O.COLUMN_NAME, ("w", "x", "y", "z")),
        ),
    )
    told = resolve_plan(said, MARIADB, definition).columns

    assert [(found.name, found.unsigned) for found in columns[:2]] == [("a", True), ("b", False)]
    assert (columns[1].collation_id, columns[2].members, columns[3].fsp) == (LATIN1, ("x", "y"), 3)
    assert (told[0].name, told[0].unsigned, told[1].collation_id) == ("w", False, UTF8MB4)


def test_only_a_definition_tells_mariadb_s_own_types_from_binary() -> None:
    """UUID, INET4 and INET6, where the size agrees."""
    event = table_map((T.STRING, 0xFE10), (T.STRING, 0xFE10), (T.STRING, 0xFE04), (T.STRING, 0xFE10))
    names = ("uuid", "INET6", "inet4", "inet4")
    columns = resolve_plan(event, MARIADB, [DefinedColumn(name, name) for name in names]).columns

    assert [found.native for found in columns] == ["uuid", "inet6", "inet4", None]
    assert [found.native for found in resolve_plan(event, MARIADB).columns] == [None] * 4


def test_old_temporal_columns_of_mariadb_say_that_their_fraction_is_a_guess() -> None:
    """Fixture mariadb1011/types_old_temporal: the width depends on what the binlog does not say."""
    event = table_map((T.TIME, 0))

    assert resolve_plan(event, MARIADB).columns[0].fsp_assumed
    assert not resolve_plan(event).columns[0].fsp_assumed
    assert not resolve_plan(event, MARIADB, [DefinedColumn("t", "time")]).columns[0].fsp_assumed


def test_a_decimal_of_before_5_0_needs_a_definition() -> None:
    """Its width is nowhere in the binlog."""
    event = table_map((T.DECIMAL, 0))

    assert resolve_plan(event, definition=[DefinedColumn("d", "decimal(10,2)")]).columns[0].length == 12
    assert (
        resolve_plan(event, definition=[DefinedColumn("d", "decimal(10) unsigned", unsigned=True)]).columns[0].length
        == 10
    )
    with pytest.raises(UnsupportedFeature):
        resolve_plan(event)


def test_a_table_map_of_the_5_1_alphas_has_types_only() -> None:
    """Enough for numbers and CHAR (public file ver_5_1-wl2325)."""
    event = replace(table_map(INT, CHAR), metadata=(), nullable=())
    columns = resolve_plan(event).columns

    assert [found.type for found in columns] == [T.LONG, T.STRING]
    with pytest.raises(UnsupportedFeature):
        resolve_plan(replace(event, column_types=(T.LONG, T.BLOB)))


@pytest.mark.parametrize(
    ("version", "bits"),
    [
        ("", 0),
        ("9.7.4", 0),
        ("8.0.3-rc", 0),
        ("8.0.2-dmr", 1),
        ("5.7.44-log", 1),
        ("5.1.23", 1),
        ("10.11.18-MariaDB", 1),
    ],
)
def test_spare_null_bits_follow_the_server(version: str, bits: int) -> None:
    """MySQL zeroes them since 8.0.3."""
    assert bits == plan(INT, context=ParseContext(server_version=version)).spare_null_bits


def test_a_definition_of_another_table_is_refused() -> None:
    """Only the number of columns is compared."""
    with pytest.raises(BinlogFormatError):
        resolve_plan(table_map(INT), definition=[DefinedColumn("a"), DefinedColumn("b")])
    with pytest.raises(BinlogFormatError):
        resolve_plan(replace(table_map(INT), nullable=()))


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 0xFFFF)), max_size=6), st.booleans())
def test_any_table_map_is_a_plan_or_an_error_of_ours(columns: list[tuple[int, int]], mariadb: bool) -> None:
    """Types and metadata at random."""
    try:
        found = resolve_plan(table_map(*columns), MARIADB if mariadb else ParseContext())
    except BinlogError:
        return

    assert len(columns) == len(found.columns)
