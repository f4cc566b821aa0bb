"""Injection statements for real servers, as the bytes that a client would send.

Names and values consist of quotes, backslashes, comments, NUL, control characters, client commands, and bytes that are
part of a multi-byte character in another character set.
"""

from __future__ import annotations

from typing import Final

SCHEMAS: Final = ("s'`\\\"; --", "h€表\\\n*/ # `", "cr\r\x1b[31m")
TABLES: Final = (
    "t`'; DROP TABLE victim; --",
    "*/ DROP TABLE victim; /*",
    "new\nDROP TABLE victim;\r\n\\",
    "€`",
    "delimiter ;",
    "system x",
)
# Characters whose last byte is 0x5c (backslash).
HALF_BACKSLASHES: Final = {"gbk": b"\x95\x5c", "sjis": b"\x83\x5c", "big5": b"\xa5\x5c"}
TEXTS: Final = (
    "'; DROP TABLE victim; -- ", '"quoted"', "back\\slash\\'", "\\", "'", "''", "`tick`", "/* comment */",
    "*/;\n/*!*/;\n", "nul\0byte",
    "\x1a\r\n\b\t", "%s %d {}", "ünï 🙂 \u202e",
    "x\nsystem touch /hacked\n\\! touch /hacked\ndelimiter ;\nDROP TABLE victim;\n", "",
)  # fmt: skip
BYTES: Final = (b"\xff\xfe'\\\x00", b"\x80\x81", b"\xbf\x27 OR 1=1", b"\x83\x5c'", bytes(range(256)))


def quoted(name: str) -> str:
    """Return an identifier in backticks."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str | bytes) -> str:
    """Return a string literal in hexadecimal."""
    return f"_binary x'{text.hex()}'" if isinstance(text, bytes) else f"_utf8mb4 x'{text.encode().hex()}'"


def escaped(text: str) -> str:
    """Return a quoted string literal with the minimal escapes of a client library."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0") + "'"


def tables() -> list[bytes]:
    """Return DDL of schemas and tables with hostile names, columns, members and defaults."""
    column, other = quoted("\nc'\\`\"/*"), quoted("b\r\n--`")
    members = ", ".join(escaped(text) for text in ("it's", "back\\slash", '"', "`", "*/", "-- "))
    found = []
    for schema in SCHEMAS:
        found.append(f"CREATE DATABASE {quoted(schema)}")
        found.append(f"CREATE TABLE {quoted(schema)}.victim (id INT PRIMARY KEY)")
        found += [
            f"CREATE TABLE {quoted(schema)}.{quoted(table)} (id INT AUTO_INCREMENT PRIMARY KEY, {column} "
            "VARCHAR(500) CHARACTER SET utf8mb4"
            f" DEFAULT {escaped(TEXTS[0])} COMMENT {escaped(TEXTS[2])}, {other} VARBINARY(500), e "
            f"ENUM({members}), s SET({members}),"
            " g VARCHAR(50) CHARACTER SET gbk, j VARCHAR(50) CHARACTER SET sjis, b5 CHAR(50) CHARACTER "
            "SET big5, l TEXT CHARACTER SET latin1,"
            " u VARCHAR(50) CHARACTER SET utf16, d JSON, bi BINARY(5), bl BLOB)"
            for table in TABLES
        ]
    return [statement.encode() for statement in found]


def rows() -> list[bytes]:
    """Return inserts, updates and deletes of all hostile texts and bytes, in every table."""
    column, other = quoted("\nc'\\`\"/*"), quoted("b\r\n--`")
    found: list[bytes] = []
    for number, (schema, table) in enumerate((schema, table) for schema in SCHEMAS for table in TABLES):
        name = f"{quoted(schema)}.{quoted(table)}"
        for at, text in enumerate(TEXTS):
            value = literal(text) if (at + number) % 2 else escaped(text)
            found.append(f"INSERT INTO {name} ({column}, u) VALUES ({value}, LEFT({value}, 50))".encode())
        found += [
            f"INSERT INTO {name} ({other}, bl) VALUES ({literal(data)}, {literal(data)})".encode() for data in BYTES
        ]
        found += [
            f"INSERT INTO {name} (g, j, b5, l) VALUES (_gbk x'955c27', _sjis x'835c27', _big5 x'a55c27', "
            "_latin1 x'e95c27')".encode(),
            f"INSERT INTO {name} (e, s, d) VALUES ('it\\'s', 'back\\\\slash,\"', "
            "JSON_OBJECT('k\\'\\\"\\\\', 'v\\'\\n*/'))".encode(),
            f"UPDATE {name} SET {column} = CONCAT({column}, {escaped(TEXTS[2])}), e = 2, bi = x'0027' "
            f"WHERE {column} IN ({escaped(TEXTS[0])}, {escaped(TEXTS[9])})".encode(),
            f"DELETE FROM {name} WHERE {column} = {escaped(TEXTS[1])}".encode(),
        ]
    return found


def statements() -> list[bytes]:
    """Return statements with SQL modes, client character sets, comments, variables and routines."""
    name = f"{quoted(SCHEMAS[0])}.plain"
    found: list[bytes] = [
        (
            f"CREATE TABLE {name} (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(2000) CHARACTER SET utf8mb4, "
            "b VARBINARY(2000), r DOUBLE)"
        ).encode(),
        f"INSERT INTO {name} (v) /* it's */ VALUES ('/* no comment */') -- don't \\! touch /hacked\n".encode(),
        f"INSERT INTO {name} (v) # \"one`\n VALUES (5--3), ('a' 'b'), (\"it's\")".encode(),
        f"INSERT INTO {name} (v) VALUES /*!50000 ('*') */ -- last".encode(),
        f"INSERT INTO {name} (v) VALUES ('\0\r\n\x1a\b\x1b'), ('\\0\\r\\n\\Z\\'\\\"')".encode(),
        f"INSERT INTO {name} (v) VALUES ('\nsystem touch /hacked\n'), ('\nDELIMITER //\n'), ('/*!*/;\n')".encode(),
        f"INSERT INTO {name}\nSELECT NULL, 'x', b, r FROM {name}\nUSE INDEX (PRIMARY) WHERE id < 2".encode(),
        b"SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
        f"INSERT INTO {name} (v) VALUES ('\\'), ('back\\slash'), (''';\\')".encode(),
        b"SET SESSION sql_mode = 'ANSI_QUOTES'",
        f'INSERT INTO {name} ("v") VALUES (\'a"\\\'b\')'.encode(),
        f'CREATE TABLE {quoted(SCHEMAS[0])}."a\\" ("c\\""" INT)'.encode(),
        f'INSERT INTO {quoted(SCHEMAS[0])}."a\\" VALUES (1)'.encode(),
        b"SET SESSION sql_mode = DEFAULT",
        (
            b"SET @`v'\\``; --\n*/ \xe2\x82\xac` = 'it''s', @`\r\nn` = 0.1e0, @d = -7.50, @u = "
            b"CAST(18446744073709551615 AS UNSIGNED), @g = _gbk x'955c', @x = NULL"
        ),
        (
            f"INSERT INTO {name} (v, b, r) VALUES (@`v'\\``; --\n*/ €`, HEX(@g), @`\r\nn`), (@d, @u, @x), "
            "(CONCAT(@g), @g, RAND())"
        ).encode(),
    ]  # fmt: skip
    for charset, half in HALF_BACKSLASHES.items():
        found += [
            f"SET character_set_client = {charset}, collation_connection = utf8mb4_bin".encode(),
            b"INSERT INTO %s (v, b) VALUES ('%s', '%s\\'; -- '), ('a', _binary'%s')"
            % (name.encode(), half, half, half),
            b"CREATE TABLE `s'``\\\"; --`.`%s%s` (`%s` INT)" % (charset.encode(), half, half),
            b"INSERT INTO `s'``\\\"; --`.`%s%s` (`%s`) VALUES (1)" % (charset.encode(), half, half),
            b"SET NAMES utf8mb4",
        ]
    found += [
        b"SET character_set_client = latin1",
        b"INSERT INTO %s (v) VALUES ('\xe9'''), ('\xa7\\\\')" % name.encode(),
        b"SET NAMES utf8mb4",
        b"BEGIN",
        f"INSERT INTO {name} (v) VALUES ('stays')".encode(),
        "SAVEPOINT `s'\\``;\n€`".encode(),
        f"INSERT INTO {name} (v) VALUES ('goes')".encode(),
        "ROLLBACK TO `s'\\``;\n€`".encode(),
        b"COMMIT",
        (
            f"CREATE PROCEDURE {quoted(SCHEMAS[0])}.{quoted('p`;')}()\nCOMMENT 'it''s'\nBEGIN\n  -- don't\n  "
            "SELECT '/* ', \"\\\\\";\n  # \"\n  SELECT 1/* */;\nEND"
        ).encode(),
        f"CREATE PROCEDURE {quoted(SCHEMAS[0])}.windows()\r\nBEGIN\r\n  SELECT 1;\r\nEND".encode(),
        f"CREATE VIEW {quoted(SCHEMAS[0])}.{quoted('v`*/')} AS SELECT 'it''s \\\\ \\0 */' AS {quoted('x`')}".encode(),
        (
            f"CREATE TRIGGER {quoted(SCHEMAS[0])}.{quoted('tr`')} BEFORE INSERT ON "
            f"{quoted(SCHEMAS[0])}.victim FOR EACH ROW SET @z = '; -- \\''"
        ).encode(),
    ]  # fmt: skip
    return found
