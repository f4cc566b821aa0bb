"""Parser of one column of a CREATE TABLE or ALTER TABLE: `name type attribute*`.

Covers the types and attributes of both servers. `resolved_column` resolves what a column inherits from its table and
its server. Tables are elsewhere.

    column    := name type attribute*
    type      := word+ ("(" arguments ")")?
    attribute := UNSIGNED | ZEROFILL | charset | collation | NOT? NULL | DEFAULT expression | generated | key | ...

An unknown word makes the whole column unreadable, so that a definition is never wrong.
Source: sql/sql_yacc.yy, rules field_def, type and column_attribute of both servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.collations import BINARY, charset_of_collation, max_character_bytes
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.tokens import MODE_MAXDB, MODE_ORACLE, MODE_REAL_AS_FLOAT, Unparsed, Words
from binlogio.schema.definition import ColumnDefinition
from binlogio.schema.types import (
    BINARY_TYPES,
    GEOMETRY_TYPES,
    MEMBER_TYPES,
    NAMED_TYPES,
    TEXT_TYPES,
    binlog_type,
    member_text,
    parse_sql_type,
)
from binlogio.values.charsets import charset_named

_NAMES: Final = {
    "INT": "int",
    "INT1": "tinyint",
    "INT2": "smallint",
    "INT3": "mediumint",
    "INT4": "int",
    **{name.upper(): name for name in ("tinyint", "smallint", "mediumint", "bigint")},
    **{name.upper(): name for name in ("float", "double", "decimal", "bit")},
    **{name.upper(): name for name in ("date", "time", "datetime", "timestamp", "year")},
    **{name.upper(): name for name in ("json", "vector", "enum", "set")},
    **{name.upper(): name for name in (*TEXT_TYPES, *BINARY_TYPES, *GEOMETRY_TYPES, *NAMED_TYPES)},
    "INTEGER": "int", "INT8": "bigint", "MIDDLEINT": "mediumint", "BOOL": "tinyint", "BOOLEAN": "tinyint",
    "FLOAT4": "float", "FLOAT8": "double", "DEC": "decimal", "NUMERIC": "decimal", "FIXED": "decimal",
    "CHARACTER": "char", "VARCHARACTER": "varchar", "GEOMCOLLECTION": "geometrycollection", "CLOB": "longtext",
}  # fmt: skip
NOW: Final = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")
"""The spellings of the time of a statement."""
_NATIONAL: Final = "utf8mb3"
_AN_ATTRIBUTE: Final = "an attribute of a column"
# Existing rows get a number each, or a computed value, which is unknown.
_COMPUTED: Final = ("AUTO_INCREMENT", "GENERATED", "AS", "SERIAL")
_BEFORE_DEFAULT: Final = ("SET", "CHARSET", "COLLATE")
_LENGTHS: Final = {"char", "varchar", "binary", "varbinary"}
_FRACTIONS: Final = ("time", "datetime", "timestamp")
_AS_BINARY: Final = dict(zip(TEXT_TYPES, BINARY_TYPES, strict=True))
_MAX_VARCHAR_BYTES: Final = 65535
_MAX_FLOAT_BITS: Final = 24
_TEXT_SIZES: Final = ((0xFF, "tiny"), (0xFFFF, ""), (0xFFFFFF, "medium"), (0xFFFFFFFF, "long"))


@dataclass(frozen=True, slots=True)
class Default:
    """The value that existing rows get in a column.

    `text` is in the server's text form, None for NULL. `is_now` where it is the time of the statement; `is_known` is
    False if it depends on facts that are not in a log.
    """

    text: str | bytes | None = None
    is_now: bool = False
    is_known: bool = True


UNKNOWN_DEFAULT: Final = Default(is_known=False)


@dataclass(frozen=True, slots=True)
class TableSetting:
    """The defaults of a column: those of the server, and the table's default collation.

    `collation_is_assumed` if no statement named that. `converted_to` is the collation of ALTER TABLE ... CONVERT TO,
    which also replaces the character set that a column of the same statement names.
    """

    server: ServerDefaults
    collation: str
    collation_is_assumed: bool = False
    converted_to: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """A column, with the keys that it declares by itself and whether its character set is assumed."""

    column: ColumnDefinition
    is_primary: bool
    is_unique: bool
    is_assumed: bool


@dataclass(slots=True)
class ColumnText:
    """The properties of a column as its definition has them; not changed once it is parsed."""

    name: str
    type: str = ""
    arguments: tuple[int, ...] = ()
    members: tuple[str | bytes, ...] = ()  # bytes: of a hexadecimal or bit literal, in the column's character set
    is_unsigned: bool = False
    is_compressed: bool = False
    nullable: bool | None = None
    charset: str | None = None
    collation: str | None = None
    takes_binary_collation: bool = False
    srid: int | None = None
    visible: bool = True
    is_generated: bool = False
    is_stored: bool = False
    auto_increment: bool = False
    has_default: bool = False
    default_now: bool = False
    on_update_now: bool = False
    is_primary: bool = False
    is_unique: bool = False
    is_versioned: bool = False


def read_column(words: Words) -> ColumnText | Unparsed:
    """Return the column that is defined at the place; stops before `,`, `)`, FIRST, AFTER or the end."""
    try:
        column = ColumnText(words.column_name())
        _type(words, column)
        while not words.ended and not ends_column(words):
            _attribute(words, column)
    except UnsupportedFeature as exc:
        return Unparsed.of(exc)
    return column


def ends_column(words: Words) -> bool:
    """Return True if the next token ends the definition of a column."""
    return words.next.upper in (",", ")", "FIRST", "AFTER") or begins_partitions(words)


def begins_partitions(words: Words) -> bool:
    """Return True at PARTITION BY and REMOVE PARTITIONING."""
    return words.sees("PARTITION", "BY") or words.sees("REMOVE", "PARTITIONING")


# ------------------------------------------------------------------------------------------------------- the type

_TYPES_OF: Final[dict[str, dict[str, str]]] = {
    "MARIADB_SCHEMA": {},
    "ORACLE_SCHEMA": {"DATE": "DATETIME"},
    "MAXDB_SCHEMA": {"TIMESTAMP": "DATETIME"},
}
"""Types of MariaDB by the prefix of the type, or by the sql_mode without one. Source: sql/sql_schema.cc."""
_ORACLE_TYPES: Final = {
    "NUMBER": "DECIMAL",
    "VARCHAR2": "VARCHAR",
    "RAW": "VARBINARY",
    "CLOB": "LONGTEXT",
    "BLOB": "LONGBLOB",
}


def _type(words: Words, column: ColumnText) -> None:
    word = words.take()
    name = word.upper if word.kind == "word" else ""
    is_oracle = bool(words.sql_mode & MODE_ORACLE)
    is_maxdb = bool(words.sql_mode & MODE_MAXDB)
    others = _TYPES_OF["ORACLE_SCHEMA" if is_oracle else "MAXDB_SCHEMA" if is_maxdb else "MARIADB_SCHEMA"]
    if name in _TYPES_OF and words.accept("."):
        others = _TYPES_OF[name]
        name = words.take().upper
    if is_oracle:
        name = "DOUBLE" if name == "NUMBER" and not words.sees("(") else _ORACLE_TYPES.get(name, name)
    name = others.get(name, name)
    if name == "SERIAL":
        column.type, column.is_unsigned, column.nullable, column.is_unique = "bigint", True, False, True
        column.auto_increment = True
        return
    if name in ("NATIONAL", "NCHAR", "NVARCHAR"):
        column.charset = _NATIONAL
        name = _national(words, name)
    elif name == "LONG":
        name = _long(words)
    elif name == "DOUBLE":
        words.accept("PRECISION")
    elif name == "REAL":
        name = "FLOAT" if words.sql_mode & MODE_REAL_AS_FLOAT else "DOUBLE"
    if name in ("CHAR", "CHARACTER") and words.accept_any("VARYING", "VARCHARACTER"):
        name = "VARCHAR"
    if name not in _NAMES:
        words.at -= 1
        words.refuse("a column type")
    column.type = _NAMES[name]
    if words.next.upper == "(" and words.next.kind == "symbol":
        words.take()
        if column.type in MEMBER_TYPES:
            column.members = _members(words)
        else:
            column.arguments = _numbers(words)


def _national(words: Words, name: str) -> str:
    if name == "NATIONAL":
        name = words.take().upper
        if name not in ("CHAR", "CHARACTER", "VARCHAR", "VARCHARACTER"):
            words.refuse("CHAR or VARCHAR after NATIONAL")
    if name == "NCHAR":
        return "VARCHAR" if words.accept_any("VARYING", "VARCHAR", "VARCHARACTER") else "CHAR"
    return "VARCHAR" if name == "NVARCHAR" else name


def _long(words: Words) -> str:
    if words.accept("VARBINARY"):
        return "MEDIUMBLOB"
    if not (words.accept("CHAR", "VARYING") or words.accept("CHARACTER", "VARYING")):  # else it is a character set
        words.accept_any("VARCHAR", "VARCHARACTER")
    return "MEDIUMTEXT"


def _numbers(words: Words) -> tuple[int, ...]:
    numbers = [words.number()]
    while words.accept(","):
        numbers.append(words.number())
    words.expect(")")
    return tuple(numbers)


def _members(words: Words) -> tuple[str | bytes, ...]:
    members = [_member(words)]
    while words.accept(","):
        members.append(_member(words))
    words.expect(")")
    return tuple(members)


def _member(words: Words) -> str | bytes:
    literal = words.literal_bytes()
    return words.text() if literal is None else literal


# ----------------------------------------------------------------------------------------------------- attributes


def _attribute(words: Words, column: ColumnText) -> None:
    if words.next.kind == "quoted":
        _other_attribute(words, column)
    elif words.next.kind != "word":
        words.refuse(_AN_ATTRIBUTE)
    elif _type_attribute(words, column) or _key_attribute(words, column) or _value_attribute(words, column):
        return
    elif words.accept("GENERATED", "ALWAYS", "AS") or words.accept("AS"):
        _generated(words, column)
    elif found := words.accept_any("VISIBLE", "INVISIBLE"):
        column.visible = found == "VISIBLE"
    elif words.accept_any("SRID", "REF_SYSTEM_ID"):
        words.accept("=")
        column.srid = words.number()
    elif found := words.accept_any("VIRTUAL", "STORED", "PERSISTENT"):
        column.is_stored = found != "VIRTUAL"
    else:
        _other_attribute(words, column)


def _value_attribute(words: Words, column: ColumnText) -> bool:
    if words.accept("NOT", "NULL"):
        column.nullable = False
    elif words.accept("AUTO_INCREMENT"):
        column.nullable, column.auto_increment = False, True
    elif words.accept("NULL"):
        column.nullable = True
    elif words.accept("SERIAL", "DEFAULT", "VALUE"):
        column.nullable, column.is_unique, column.auto_increment = False, True, True
    elif words.accept("DEFAULT"):
        column.has_default = True
        column.default_now = words.next.upper in NOW
        skip_value(words)
    elif words.accept("ON", "UPDATE"):
        column.on_update_now = words.next.upper in NOW
        skip_value(words)
    else:
        return False
    return True


def _type_attribute(words: Words, column: ColumnText) -> bool:
    if found := words.accept_any("UNSIGNED", "SIGNED", "ZEROFILL"):
        column.is_unsigned = column.is_unsigned or found != "SIGNED"
    elif words.accept("CHARACTER", "SET") or words.accept("CHAR", "SET") or words.accept("CHARSET"):
        column.charset = _charset(words)
    elif words.accept("COLLATE"):
        column.collation = _charset(words)
    elif words.accept("BYTE"):
        column.charset = BINARY
    elif found := words.accept_any("ASCII", "UNICODE"):
        column.charset = {"ASCII": "latin1", "UNICODE": "ucs2"}[found]
    elif words.accept("BINARY"):
        column.takes_binary_collation = True
    elif words.accept("COMPRESSED"):
        column.is_compressed = True
        if words.accept("="):
            words.take()
    else:
        return False
    return True


def _charset(words: Words) -> str:
    """Return a character set's or collation's name, which may be in quotes."""
    return words.text() if words.next.kind == "text" else words.name()


def _key_attribute(words: Words, column: ColumnText) -> bool:
    if words.accept("PRIMARY", "KEY") or words.accept("PRIMARY") or words.accept("KEY"):
        column.is_primary = True
    elif words.accept("UNIQUE"):
        words.accept("KEY")
        column.is_unique = True
    elif words.accept("REFERENCES"):
        skip_references(words)
    elif words.sees("CONSTRAINT") or words.sees("CHECK"):
        skip_check(words)
    else:
        return False
    return True


def skip_check(words: Words) -> None:
    """Move after a CHECK, with its name if it has one."""
    if words.accept("CONSTRAINT") and not words.sees("CHECK"):
        words.name()
    words.expect("CHECK")
    words.skip_group()
    words.accept("NOT")
    words.accept("ENFORCED")


def skip_references(words: Words) -> None:
    """Move after what follows REFERENCES."""
    words.table_name()
    if words.sees("("):
        words.skip_group()
    if words.accept("MATCH"):
        words.take()
    while words.accept("ON", "DELETE") or words.accept("ON", "UPDATE"):
        if words.accept_any("SET", "NO"):
            words.take()
        elif not words.accept_any("CASCADE", "RESTRICT"):
            words.refuse("an action of a foreign key")


def skip_value(words: Words) -> None:
    """Move past the value of DEFAULT or ON UPDATE: a literal, a function call, or what is in parentheses."""
    words.accept_any("-", "+")
    if words.accept("CASE"):
        _skip_case(words)
        return
    if words.accept("NEXT", "VALUE", "FOR") or words.accept("PREVIOUS", "VALUE", "FOR"):  # MariaDB's sequences
        words.table_name()
        return
    if words.accept("{"):  # {d '2001-01-01'}
        words.name()
        words.text()
        words.expect("}")
        return
    words.accept_any("BINARY", "\\")
    words.skip_one()
    while not words.ended:
        if words.next.kind == "text":  # 'a' 'b', _latin1'a', DATE '2001-01-01'
            words.text()
        elif words.sees("("):
            words.skip_group()
        elif words.accept("."):
            words.name()
        else:
            return


def _skip_case(words: Words) -> None:
    depth = 1
    while depth:
        word = words.next
        words.skip_one()
        depth += {"CASE": 1, "END": -1}.get(word.upper, 0)


def _generated(words: Words, column: ColumnText) -> None:
    column.is_generated = True
    if words.accept("ROW"):  # MariaDB's system versioning
        if not words.accept_any("START", "END"):
            words.refuse("START or END")
        column.nullable, column.is_stored = False, True
    else:
        words.skip_group()


def _other_attribute(words: Words, column: ColumnText) -> None:
    if words.accept("COMMENT"):
        words.text()
    elif words.accept_any("COLUMN_FORMAT", "STORAGE"):
        if words.take().upper == "COMPRESSED":  # Percona's, which the log does not show
            words.refuse("a column format of MySQL or MariaDB")
    elif words.accept_any("ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        words.accept("=")
        words.text()
    elif words.accept("WITH", "SYSTEM", "VERSIONING"):
        column.is_versioned = True
    elif words.accept("WITHOUT", "SYSTEM", "VERSIONING"):
        return
    else:
        words.take()
        if not words.accept("="):  # MariaDB: options of the engine
            words.at -= 1
            words.refuse(_AN_ATTRIBUTE)
        words.take()


# ------------------------------------------------------------------------------------------------------- defaults


def read_default(words: Words) -> Default:
    """Return the default of the column whose type is at the place; moves to its end.

    `Default()` where the statement has none.
    """
    found = Default()
    while not words.ended and (word := words.next.upper) not in (",", ")"):
        if word == "DEFAULT":
            words.take()
            found = read_default_value(words)
        elif word in _BEFORE_DEFAULT:  # of a character set, or of REFERENCES
            words.take()
            words.accept("DEFAULT")
        elif words.accept("ON", "UPDATE"):
            words.skip_one()
        elif word in _COMPUTED:
            words.take()
            found = UNKNOWN_DEFAULT
        else:
            words.skip_one()
    return found


def read_default_value(words: Words) -> Default:
    """Return the value of DEFAULT at the place, and move after it."""
    sign = words.accept_any("-", "+")
    token = words.next
    if token.kind == "text":
        return Default(words.text())
    words.skip_one()
    if token.kind == "number":
        return Default(sign.replace("+", "") + token.text)
    if token.upper == "NULL":
        return Default()
    if token.upper in ("TRUE", "FALSE"):
        return Default("1" if token.upper == "TRUE" else "0")
    if token.upper in NOW:
        return Default(is_now=True)
    if token.upper in ("B", "X") and words.next.kind == "text":
        return _literal(token.upper, words.text())
    if token.upper.startswith("0X"):
        return _literal("X", token.text[2:])
    return UNKNOWN_DEFAULT


def _literal(kind: str, digits: str) -> Default:
    """Return a bit or hexadecimal literal: its bytes."""
    try:
        number = int(digits or "0", 2 if kind == "B" else 16)
    except ValueError:
        return UNKNOWN_DEFAULT
    size = -(-len(digits) // (8 if kind == "B" else 2))
    return Default(number.to_bytes(size, "big"))


# ------------------------------------------------------------------------------------------------------ the result


def with_first_timestamp(
    columns: tuple[ColumnDefinition, ...], texts: Mapping[str, ColumnText | Unparsed], server: ServerDefaults
) -> tuple[ColumnDefinition, ...]:
    """Return the columns of a table after a statement with the definitions `texts`, by names in small letters.

    Without explicit_defaults_for_timestamp, the first TIMESTAMP column gets the time of each statement if it is NOT
    NULL and has no default. Source: sql/sql_table.cc, promote_first_timestamp_column.
    """
    if server.explicit_timestamps:
        return columns
    at = next((i for i, column in enumerate(columns) if column.type.startswith("timestamp")), None)
    if at is None or columns[at].nullable:
        return columns
    text = texts.get(columns[at].name.casefold())
    if not isinstance(text, ColumnText) or text.has_default or text.on_update_now or text.is_generated:
        return columns
    return (*columns[:at], replace(columns[at], default_now=True, on_update_now=True), *columns[at + 1 :])


def resolved_column(column: ColumnText | Unparsed, setting: TableSetting) -> ParsedColumn:
    """Return a column in a table with these defaults.

    Raises:
        UnsupportedFeature: it could not be parsed, or no server would take it.
    """
    if isinstance(column, Unparsed):
        raise column.error()
    server = setting.server
    if column.type in NAMED_TYPES and not server.is_mariadb and server.version[0] < 99:
        raise UnsupportedFeature("MySQL does not have this type", field=column.name, found=column.type)
    if column.type == "json" and server.is_mariadb and setting.converted_to is not None:
        column = replace(column, type="longtext")  # of which JSON is an alias there
    collation = None
    is_assumed = False
    if column.type in (*TEXT_TYPES, *MEMBER_TYPES):
        collation, is_assumed = _collation(column, setting)
    sql_type = _type_text(column, collation, members=_member_texts(column, collation, is_assumed=is_assumed))
    parsed = parse_sql_type(sql_type)
    binlog_type(parsed, max_character_bytes(collation) if collation else 1, server.vendor)
    if parsed.name not in (*TEXT_TYPES, *MEMBER_TYPES):
        collation, is_assumed = None, False
    nullable = column.nullable
    if nullable is None:
        nullable = not column.is_primary and (column.type != "timestamp" or server.explicit_timestamps)
    return ParsedColumn(
        ColumnDefinition(
            column.name,
            sql_type,
            nullable,
            collation=collation,
            srid=column.srid,
            visible=column.visible,
            auto_increment=column.auto_increment,
            generated_from=() if column.is_generated else None,
            virtual=column.is_generated and not column.is_stored,
            default_now=column.default_now,
            on_update_now=column.on_update_now,
        ),
        column.is_primary,
        column.is_unique,
        is_assumed,
    )


def _collation(column: ColumnText, setting: TableSetting) -> tuple[str, bool]:
    """Return the column's collation, and whether it is a default."""
    found, is_assumed = _named_collation(column, setting)
    takes_binary = column.takes_binary_collation
    if setting.converted_to is not None and charset_of_collation(found) != BINARY:
        if column.collation is not None and not _is_full_name(column.collation, charset_of_collation(found)):
            raise UnsupportedFeature(
                "COLLATE of a part of a name together with CONVERT TO CHARACTER SET", field=column.name
            )
        found, is_assumed = setting.converted_to, False
        takes_binary = takes_binary and column.charset is None
    charset = charset_of_collation(found)
    if takes_binary and charset != BINARY:
        found = f"{charset}_bin"
    return found, is_assumed


def _named_collation(column: ColumnText, setting: TableSetting) -> tuple[str, bool]:
    server = setting.server
    names_charset = column.charset is not None and column.charset.upper() != "DEFAULT"
    charset = column.charset if names_charset and column.charset else charset_of_collation(setting.collation)
    is_assumed = setting.collation_is_assumed and not names_charset
    if column.collation is not None and column.collation.upper() == "DEFAULT":
        return server.collation_of_charset(charset), is_assumed
    if column.collation is not None:
        is_partial = server.is_partial_collation(column.collation)
        return server.known_collation(column.collation, charset), is_assumed and is_partial
    if names_charset:
        return server.collation_of_charset(charset), False
    return setting.collation, setting.collation_is_assumed


def _is_full_name(collation: str, charset: str) -> bool:
    return collation.lower() == BINARY or collation.lower().startswith((charset, "utf8_"))


def _member_texts(column: ColumnText, collation: str | None, *, is_assumed: bool) -> tuple[str, ...]:
    """Return the members of ENUM and SET as text: a literal of bytes is in the column's character set."""
    if collation == BINARY and any(isinstance(member, str) and not member.isascii() for member in column.members):
        raise UnsupportedFeature(
            "a member of a binary ENUM or SET whose bytes depend on the client's character set", field=column.name
        )
    if collation is not None and collation != BINARY and not is_assumed:
        for member in column.members:
            _check_member(member, column.name, charset_of_collation(collation))
    return tuple(
        member if isinstance(member, str) else _member_text(member, collation or BINARY, is_assumed=is_assumed)
        for member in column.members
    )


def _check_member(member: str | bytes, name: str, charset: str) -> None:
    """Check that a character set has a member: without strict mode a server stores other characters as "?"."""
    if isinstance(member, bytes) or member.isascii():
        return
    try:
        charset_named(charset).encode(member)
    except UnicodeEncodeError as exc:
        raise UnsupportedFeature(
            "an ENUM or SET member cannot be encoded in the column's character set", field=name, found=repr(member)
        ) from exc


def _member_text(member: bytes, collation: str, *, is_assumed: bool) -> str:
    charset = charset_of_collation(collation)
    try:
        if charset == BINARY:
            return member.decode("utf-8", "surrogateescape")
        if not is_assumed or member.isascii():
            return charset_named(charset).decode(member)
    except UnicodeDecodeError:
        pass
    raise UnsupportedFeature(
        "an ENUM or SET member cannot be encoded in the column's character set", field="SQL", found=repr(member)
    )


def _type_text(column: ColumnText, collation: str | None, *, members: tuple[str, ...]) -> str:
    """Return the type in its canonical form: without what does not matter, with what is a default.

    `members` are those of ENUM and SET.
    """
    name = _AS_BINARY.get(column.type, column.type) if collation == BINARY else column.type
    numbers = column.arguments
    width = max_character_bytes(collation) if collation else 1
    if members:
        stripped = (member if collation == BINARY else member.rstrip(" ") for member in members)
        return f"{name}({','.join(map(member_text, stripped))})"
    if name in ("text", "blob") and numbers and numbers[0]:
        name, numbers = _smallest(numbers[0] * width, name), ()
    elif name in ("varchar", "varbinary") and numbers and numbers[0] * width > _MAX_VARCHAR_BYTES:
        kind = "text" if name == "varchar" else "blob"  # without strict mode the server makes it one that holds as much
        name, numbers = _smallest(numbers[0] * width, kind), ()
    elif name == "float" and len(numbers) == 1 and numbers[0] > _MAX_FLOAT_BITS:
        name = "double"
    elif name == "decimal":
        numbers = (*numbers, *(10, 0)[len(numbers) :])
        numbers = (numbers[0] or 10, *numbers[1:])
    elif name in ("char", "binary", "bit") and not numbers:
        numbers = (1,)
    elif name == "vector" and not numbers:
        numbers = (2048,)
    keeps = name in (*_LENGTHS, "decimal", "bit", "vector") or (name in _FRACTIONS and numbers != (0,))
    text = name + (f"({','.join(map(str, numbers))})" if keeps and numbers else "")
    return text + " unsigned" * column.is_unsigned + " compressed" * column.is_compressed


def _smallest(size: int, kind: str) -> str:
    """TEXT or BLOB of the smallest size that holds so many bytes."""
    for most, prefix in _TEXT_SIZES:
        if size <= most:
            return prefix + kind
    raise UnsupportedFeature("no type can hold this many bytes", field="type", found=size)
