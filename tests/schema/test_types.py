"""Column types and collations as definitions spell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import ColumnType
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.schema.collations import (
    charset_of_collation,
    collation_id,
    collation_name,
    default_collation,
    max_character_bytes,
)
from binlogio.schema.types import binlog_type, member_text, parse_sql_type
from binlogio.values.charsets import CHARSET_NAMES


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
        with pytest.raises(UnsupportedFeature, match="unknown"):
            call()


def test_character_sets_have_a_default_and_a_width() -> None:
    """The same as SHOW CHARACTER SET."""
    assert default_collation("utf8mb4") == "utf8mb4_0900_ai_ci"
    assert default_collation("utf8") == "utf8mb3_general_ci"
    assert [max_character_bytes(name) for name in ("binary", "latin1_bin", "gbk_bin", "ujis_bin", "utf16_bin")] == [
        1,
        1,
        2,
        3,
        4,
    ]
