"""Random DDL of three tables, drawn without knowledge of them: the server refuses what does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

TABLES: Final = ("t1", "t2", "t3")
COLUMNS: Final = ("a", "b", "c", "d", "e", "f", "g")
KEYS: Final = ("k1", "k2", "u1")
CHARSETS: Final = ("latin1", "utf8mb4", "utf8mb3", "cp1251", "ucs2", "binary", "sjis")
COLLATIONS: Final = ("latin1_bin", "utf8mb4_bin", "utf8mb4_unicode_ci", "cp1251_general_ci", "utf8mb3_bin")
TYPES: Final = (
    *(
        "INT",
        "INT UNSIGNED",
        "TINYINT(1)",
        "SMALLINT UNSIGNED ZEROFILL",
        "MEDIUMINT",
        "BIGINT UNSIGNED",
        "INT8",
        "BOOL",
    ),
    *("DECIMAL", "NUMERIC(8,3)", "FLOAT", "FLOAT(30)", "DOUBLE PRECISION", "REAL", "BIT(9)", "YEAR", "DATE", "TIME(3)"),
    *("DATETIME", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(2) NULL", "JSON", "BLOB", "TINYBLOB", "LONG VARBINARY"),
    *("BINARY(5)", "VARBINARY(20)", "NATIONAL CHAR(4)", "NCHAR VARCHAR(5)", "POINT", "GEOMETRY", "BLOB(300)"),
)
TEXT_TYPES: Final = (
    *("CHAR(5)", "CHAR", "VARCHAR(20)", "CHARACTER VARYING(9)", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "LONG"),
    *("TEXT(70)", "ENUM('x', 'y', 'z')", "SET('p', 'q')", "ENUM('é', 'y')", "VARCHAR(300)"),
)
MARIADB_TYPES: Final = ("INET6", "UUID", "VARCHAR(30) COMPRESSED", "TEXT COMPRESSED")


class DdlGenerator:
    """Draws statements; `is_mariadb` adds clauses of that vendor."""

    def __init__(self, random: Random, *, is_mariadb: bool) -> None:
        self._random = random
        self._is_mariadb = is_mariadb

    def begin(self) -> list[str]:
        """Return the statements that make the first tables."""
        return [f"CREATE TABLE {name} (a INT PRIMARY KEY, b VARCHAR(20), c TEXT, d INT UNSIGNED)" for name in TABLES]

    def statement(self) -> str:
        """Return the next statement."""
        random, table = self._random, self._random.choice(TABLES)
        kind = random.random()
        if kind < 0.72:
            count = random.choice((1, 1, 1, 2, 2, 3, 4))
            return f"ALTER TABLE {table} {', '.join(self._clause() for _ in range(count))}"
        if kind < 0.78:
            head = random.choice(("CREATE INDEX", "CREATE UNIQUE INDEX"))
            return f"{head} {self._if('NOT EXISTS')}{self._key()} ON {table} ({self._part()})"
        if kind < 0.82:
            return f"DROP INDEX {self._if('EXISTS')}{self._key()} ON {table}"
        if kind < 0.86:
            return f"DROP TABLE {random.choice(('', 'IF EXISTS '))}{table}"
        if kind < 0.91:
            other = random.choice(TABLES)
            return random.choice(
                (f"RENAME TABLE {table} TO {other}", f"RENAME TABLE {table} TO x, {other} TO {table}, x TO {other}")
            )
        if kind < 0.93:
            return (
                f"ALTER DATABASE {random.choice(('CHARACTER SET ' + self._charset(), 'COLLATE ' + self._collation()))}"
            )
        if kind < 0.96:
            return f"CREATE TABLE {random.choice(('', 'IF NOT EXISTS '))}{table} LIKE {random.choice(TABLES)}"
        return self._create(table)

    def _create(self, table: str) -> str:
        random = self._random
        names = random.sample(COLUMNS, random.randint(2, len(COLUMNS)))
        parts = [self._definition(name) for name in names]
        if random.random() < 0.5:
            parts.append(f"{random.choice(('PRIMARY KEY', 'UNIQUE', 'KEY', 'UNIQUE k1'))} ({random.choice(names)})")
        options = random.choice(
            ("", f" CHARSET {self._charset()}", f" COLLATE = {self._collation()}", " ENGINE = MyISAM")
        )
        replaces = "OR REPLACE " if self._is_mariadb and random.random() < 0.5 else ""
        exists = "" if replaces else random.choice(("", "IF NOT EXISTS "))
        return f"CREATE {replaces}TABLE {exists}{table} ({', '.join(parts)}){options}"

    def _clause(self) -> str:  # noqa: C901 - one case a clause
        random, column = self._random, self._random.choice(COLUMNS)
        kind = random.random()
        if kind < 0.26:
            return (
                f"ADD {random.choice(('', 'COLUMN '))}{self._if('NOT EXISTS')}{self._definition(column)}{self._place()}"
            )
        if kind < 0.36:
            return f"MODIFY {self._if('EXISTS')}{self._definition(column)}{self._place()}"
        if kind < 0.46:
            return f"CHANGE {self._if('EXISTS')}{column} {self._definition(random.choice(COLUMNS))}{self._place()}"
        if kind < 0.56:
            return f"DROP {random.choice(('', 'COLUMN '))}{self._if('EXISTS')}{column}"
        if kind < 0.66:
            return f"RENAME COLUMN {self._if('EXISTS')}{column} TO {random.choice(COLUMNS)}"
        if kind < 0.72:
            what = random.choice(("KEY", "UNIQUE KEY", "INDEX", "UNIQUE"))
            return f"ADD {what} {self._if('NOT EXISTS')}{self._key()} ({self._part()})"
        if kind < 0.75:
            return f"ADD PRIMARY KEY {self._if('NOT EXISTS')}({self._part()})"
        if kind < 0.78:
            return random.choice(("DROP PRIMARY KEY", f"DROP KEY {self._if('EXISTS')}{self._key()}"))
        if kind < 0.81:
            return f"RENAME INDEX {self._if('EXISTS')}{self._key()} TO {self._key()}"
        if kind < 0.85:
            return random.choice((f"ALTER {column} SET DEFAULT NULL", f"ALTER COLUMN {column} DROP DEFAULT"))
        if kind < 0.90:
            return f"CONVERT TO CHARACTER SET {self._charset()}"
        if kind < 0.94:
            return random.choice((f"DEFAULT CHARSET {self._charset()}", f"COLLATE {self._collation()}"))
        if kind < 0.97:
            return random.choice(
                ("ENGINE = InnoDB", "COMMENT = 'ADD x INT'", "FORCE", f"RENAME TO {random.choice(TABLES)}")
            )
        if self._is_mariadb:
            return random.choice(("ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING", "ADD KEY IF NOT EXISTS k1 (b)"))
        return f"ALTER COLUMN {column} SET {random.choice(('INVISIBLE', 'VISIBLE'))}"

    def _definition(self, name: str) -> str:
        random = self._random
        if random.random() < 0.5:
            kind = random.choice(TEXT_TYPES)
            kind += random.choice(
                ("", "", f" CHARACTER SET {self._charset()}", f" COLLATE {self._collation()}", " BINARY")
            )
        else:
            kind = random.choice((*TYPES, *(MARIADB_TYPES if self._is_mariadb else ())))
        rest = random.choice(
            ("", "", "", " NOT NULL", " NULL", " DEFAULT NULL", " COMMENT 'c, d INT'", " UNIQUE", " INVISIBLE")
        )
        if random.random() < 0.05:
            kind, rest = "INT", random.choice((" AS (1 + 1) VIRTUAL", " AS (2 + 3) STORED", " DEFAULT (1 + 2)"))
        return f"{name} {kind}{rest}"

    def _place(self) -> str:
        return self._random.choice(("", "", "", " FIRST", f" AFTER {self._random.choice(COLUMNS)}"))

    def _part(self) -> str:
        return self._random.choice(COLUMNS) + self._random.choice(("", "", "(3)", " DESC", ", a"))

    def _if(self, what: str) -> str:
        return f"IF {what} " if self._is_mariadb and self._random.random() < 0.3 else ""

    def _key(self) -> str:
        return self._random.choice(KEYS)

    def _charset(self) -> str:
        return self._random.choice(CHARSETS)

    def _collation(self) -> str:
        return self._random.choice(COLLATIONS)
