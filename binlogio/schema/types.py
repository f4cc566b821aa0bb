r"""Parses the SQL type of a column, and converts it to type code and metadata of a TABLE_MAP_EVENT.

Supports all types of MySQL 9.7 and MariaDB. Tables are in `binlogio.schema.definition`, values in `binlogio.values`.

    type       := name ("(" (number ("," number)? | text ("," text)*) ")")? attribute*
    attribute  := "unsigned" | "signed" | "zerofill" | "compressed"                  -- "compressed" is MariaDB's
    text       := "'" (character | "''" | "\" character)* "'"                         -- members of ENUM and SET

The text is INFORMATION_SCHEMA.COLUMNS.COLUMN_TYPE, or the type in CREATE TABLE without the character set.
Source: sql/field.cc, Field_*::do_save_field_metadata; sql/create_field.cc, Create_field::init; MariaDB:
sql/field_comp.h.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal

from binlogio.constants import ColumnType
from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass

Vendor = Literal["mysql", "mariadb"]

_TYPE: Final = re.compile(
    r"\s*(?P<name>[A-Za-z][A-Za-z0-9_]*(?:\s+(?i:precision|varying))?)\s*"
    r"(?:\((?P<arguments>(?:[^()']|'(?:[^'\\]|''|\\.)*')*)\))?\s*(?P<attributes>[A-Za-z\s]*)",
    re.DOTALL,
)
_MEMBER: Final = re.compile(r"\s*'((?:[^'\\]|''|\\.)*)'\s*(,|$)", re.DOTALL)
_ESCAPES: Final = {quote: re.compile(rf"{quote}{quote}|\\(.)", re.DOTALL) for quote in "'\""}
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_COMMENT: Final = re.compile(r"/\*M?!\d*\s*(.*?)\*/")
_ATTRIBUTES: Final = ("unsigned", "signed", "zerofill", "compressed")
_ALIASES: Final = {
    "integer": "int",
    "bool": "tinyint",
    "boolean": "tinyint",
    "dec": "decimal",
    "numeric": "decimal",
    "fixed": "decimal",
    "double precision": "double",
    "real": "double",
    "character": "char",
    "character varying": "varchar",
    "geomcollection": "geometrycollection",
}

GEOMETRY_TYPES: Final = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)
"""The geometry types; the index is the number in GEOMETRY_TYPE. Source: sql/spatial.h, Geometry::wkbType."""

NUMBER_TYPES: Final = ("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal")
TEXT_TYPES: Final = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
BINARY_TYPES: Final = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
MEMBER_TYPES: Final = ("enum", "set")
NAMED_TYPES: Final = ("uuid", "inet6", "inet4")
"""MariaDB's types that a table map contains as BINARY."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """A parsed column type: `name` is the canonical name in lower case.

    `arguments` are the numbers in parentheses, `members` the names of an ENUM or SET.
    """

    name: str
    arguments: tuple[int, ...] = ()
    members: tuple[str, ...] = ()
    is_unsigned: bool = False
    is_compressed: bool = False

    @property
    def is_number(self) -> bool:
        """True for the types with a bit in SIGNEDNESS of a table map: also YEAR, but not BIT."""
        return self.name in NUMBER_TYPES or self.name == "year"


_FRACTIONAL_TYPES: Final = ("time", "datetime", "timestamp")
_MAX_FRACTION_DIGITS: Final = 6


@lru_cache(maxsize=4096)
def parse_sql_type(text: str) -> SqlType:
    """Parse an SQL type.

    Raises:
        UnsupportedFeature: the text is not a type of MySQL or MariaDB.
    """
    match = _TYPE.fullmatch(_COMMENT.sub(r"\1", text))
    if match is None:
        raise _refused(text, "a type such as varchar(20) or int unsigned")
    name = " ".join(match["name"].lower().split())
    name = _ALIASES.get(name, name)
    attributes = match["attributes"].lower().split()
    if name not in _BUILDERS or any(word not in _ATTRIBUTES for word in attributes):
        raise _refused(text, "a type of MySQL or MariaDB, with the character set in its own field")
    arguments = match["arguments"] or ""
    numbers = () if name in MEMBER_TYPES else _numbers(arguments, text)
    if name in _FRACTIONAL_TYPES and any(number > _MAX_FRACTION_DIGITS for number in numbers):
        raise _refused(text, f"{name} with 0 to {_MAX_FRACTION_DIGITS} fractional digits")
    return SqlType(
        name=name,
        arguments=numbers,
        members=_members(arguments, text) if name in MEMBER_TYPES else (),
        is_unsigned="unsigned" in attributes or "zerofill" in attributes or name in ("serial", "year"),
        is_compressed="compressed" in attributes,
    )


def binlog_type(sql_type: SqlType, max_character_bytes: int = 1, vendor: Vendor = "mysql") -> tuple[int, int]:
    """Return the type code in a TABLE_MAP_EVENT, and the metadata as one integer (0 if the type has none).

    `max_character_bytes` is the size of the longest character of the column's character set; it applies to text types.

    Raises:
        UnsupportedFeature: the server does not allow the length, or COMPRESSED, for this type.
    """
    code, metadata = _BUILDERS[sql_type.name](sql_type, max_character_bytes)
    if vendor == "mariadb" and code == ColumnType.JSON:
        code, metadata = ColumnType.BLOB, _BLOB_SIZES["longtext"]  # JSON is an alias of LONGTEXT in MariaDB
    if vendor == "mariadb" and code == ColumnType.VECTOR:
        dimension = _one(sql_type, None, 1, _MAX_VARCHAR_BYTES // _FLOAT32_SIZE)
        code, metadata = ColumnType.VARCHAR, dimension * _FLOAT32_SIZE
    if sql_type.is_compressed:
        return _compressed(code, metadata, sql_type)
    return int(code), metadata


def member_text(member: str) -> str:
    """Return a member of an ENUM or SET as the server writes it in a type, in quotes."""
    for name, character in (("\\", "\\"), ("0", "\0"), ("n", "\n"), ("r", "\r")):
        member = member.replace(character, f"\\{name}")
    return "'" + member.replace("'", "''") + "'"


def _numbers(arguments: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in arguments.split(",")) if arguments.strip() else ()
    except ValueError as exc:
        raise _refused(text, "numbers between the parentheses") from exc


def _members(arguments: str, text: str) -> tuple[str, ...]:
    members, at = [], 0
    while match := _MEMBER.match(arguments, at):
        members.append(unescape_text(match[1]))
        at = match.end()
        if not match[2]:
            return tuple(members)
    raise _refused(text, "quoted members, separated by commas")


def unescape_text(text: str, quote: str = "'") -> str:
    """Return the text between the quotes of an SQL string with its escapes resolved."""
    return _ESCAPES[quote].sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    return match[0][0] if match[1] is None else _ESCAPED.get(match[1], match[1])


def _refused(text: str, expected: str) -> UnsupportedFeature:
    return UnsupportedFeature("not a column type", field="type", expected=expected, found=repr(text))


def _one(sql_type: SqlType, default: int | None, low: int, high: int) -> int:
    """Return the only argument of a type, or its default.

    Raises:
        UnsupportedFeature: the argument is missing or not from `low` to `high`, or there are several.
    """
    arguments = sql_type.arguments or (() if default is None else (default,))
    if len(arguments) != 1 or not low <= arguments[0] <= high:
        raise _refused(
            f"{sql_type.name}({', '.join(map(str, arguments))})", f"{sql_type.name}(n) with n from {low} to {high}"
        )
    return arguments[0]


_Builder = Callable[[SqlType, int], tuple[ColumnType, int]]

_BLOB_SIZES: Final = {
    "tinyblob": 1,
    "tinytext": 1,
    "blob": 2,
    "text": 2,
    "mediumblob": 3,
    "mediumtext": 3,
    "longblob": 4,
    "longtext": 4,
}
_MAX_VARCHAR_BYTES: Final = 65535
_FLOAT32_SIZE: Final = 4
_REAL_TYPE_ENUM: Final = ColumnType.ENUM << 8
_REAL_TYPE_SET: Final = ColumnType.SET << 8
_FLOAT_DIGITS: Final = 24  # the largest precision in bits of FLOAT(p); with more, the type is DOUBLE


def _plain(code: ColumnType, metadata: int = 0) -> _Builder:
    return lambda sql_type, width: (code, metadata)


def _fractional(code: ColumnType) -> _Builder:
    return lambda sql_type, width: (code, _one(sql_type, 0, 0, 6))


def _float(sql_type: SqlType, width: int) -> tuple[ColumnType, int]:
    if len(sql_type.arguments) == 1 and sql_type.arguments[0] > _FLOAT_DIGITS:
        return ColumnType.DOUBLE, 8
    return ColumnType.FLOAT, 4


def _decimal(sql_type: SqlType, width: int) -> tuple[ColumnType, int]:
    precision, scale = (*sql_type.arguments, *(10, 0)[len(sql_type.arguments) :])[:2]
    if len(sql_type.arguments) > 2 or not 1 <= precision <= 65 or not 0 <= scale <= min(precision, 38):
        raise _refused(f"decimal{sql_type.arguments}", "decimal(precision to 65, scale to precision)")
    return ColumnType.NEWDECIMAL, precision << 8 | scale


def _bit(sql_type: SqlType, width: int) -> tuple[ColumnType, int]:
    bits = _one(sql_type, 1, 1, 64)
    return ColumnType.BIT, bits % 8 | bits // 8 << 8


def _string(length: int) -> tuple[ColumnType, int]:
    """Return type and metadata of CHAR or BINARY; bits 8 and 9 of the length are stored inverted in the real type."""
    return ColumnType.STRING, (ColumnType.STRING ^ (length & 0x300) >> 4) << 8 | length & 0xFF


def _char(sql_type: SqlType, width: int) -> tuple[ColumnType, int]:
    return _string(_one(sql_type, 1, 0, 255) * (width if sql_type.name == "char" else 1))


def _varchar(sql_type: SqlType, width: int) -> tuple[ColumnType, int]:
    width = width if sql_type.name == "varchar" else 1
    return ColumnType.VARCHAR, _one(sql_type, None, 0, _MAX_VARCHAR_BYTES // width) * width


def _blob(sql_type: SqlType, width: int) -> tuple[ColumnType, int]:
    if not sql_type.arguments:
        return ColumnType.BLOB, _BLOB_SIZES[sql_type.name]
    width = width if sql_type.name == "text" else 1
    size = _one(sql_type, None, 0, (1 << 32) - 1) * width  # BLOB(n) is the smallest BLOB type with n bytes
    return ColumnType.BLOB, max(1, (min(size, (1 << 32) - 1).bit_length() + 7) // 8) if size else 2


def _enum(sql_type: SqlType, width: int) -> tuple[ColumnType, int]:
    _check_members(sql_type, 65535)
    return ColumnType.STRING, _REAL_TYPE_ENUM | (1 if len(sql_type.members) < 256 else 2)


def _set(sql_type: SqlType, width: int) -> tuple[ColumnType, int]:
    _check_members(sql_type, 64)
    size = (len(sql_type.members) + 7) // 8
    return ColumnType.STRING, _REAL_TYPE_SET | (size if size <= 4 else 8)


def _check_members(sql_type: SqlType, most: int) -> None:
    if not 1 <= len(sql_type.members) <= most:
        raise _refused(sql_type.name, f"1 to {most} members")


def _vector(sql_type: SqlType, width: int) -> tuple[ColumnType, int]:
    _one(sql_type, 2048, 1, 16383)
    return ColumnType.VECTOR, 4


def _compressed(code: ColumnType, metadata: int, sql_type: SqlType) -> tuple[int, int]:
    """Return type and metadata of a COMPRESSED column; the length of a VARCHAR includes the header byte."""
    if code == ColumnType.BLOB:
        return int(ColumnType.BLOB_COMPRESSED), metadata
    if code == ColumnType.VARCHAR and metadata < _MAX_VARCHAR_BYTES:
        return int(ColumnType.VARCHAR_COMPRESSED), metadata + 1
    raise _refused(f"{sql_type.name} compressed", "VARCHAR, VARBINARY, TEXT or BLOB")


_BUILDERS: Final[dict[str, _Builder]] = {
    "tinyint": _plain(ColumnType.TINY),
    "smallint": _plain(ColumnType.SHORT),
    "mediumint": _plain(ColumnType.INT24),
    "int": _plain(ColumnType.LONG),
    "bigint": _plain(ColumnType.LONGLONG),
    "float": _float,
    "double": _plain(ColumnType.DOUBLE, 8),
    "decimal": _decimal,
    "bit": _bit,
    "date": _plain(ColumnType.DATE),
    "time": _fractional(ColumnType.TIME2),
    "datetime": _fractional(ColumnType.DATETIME2),
    "timestamp": _fractional(ColumnType.TIMESTAMP2),
    "year": _plain(ColumnType.YEAR),
    "char": _char,
    "binary": _char,
    "varchar": _varchar,
    "varbinary": _varchar,
    **dict.fromkeys(_BLOB_SIZES, _blob),
    "enum": _enum,
    "set": _set,
    "json": _plain(ColumnType.JSON, 4),
    **dict.fromkeys(GEOMETRY_TYPES, _plain(ColumnType.GEOMETRY, 4)),
    "vector": _vector,
    "uuid": lambda sql_type, width: _string(16),
    "inet6": lambda sql_type, width: _string(16),
    "inet4": lambda sql_type, width: _string(4),
}
