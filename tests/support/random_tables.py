"""Tables with many types and keys for random transactions: their DDL, and their rows as a client prints them.

Every value has three forms: for the writer, as SQL, and as a client prints it. Rows are stored in slots. A slot of a
table with a key has at most one row; without a key it may have several equal rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any, Final

from binlogio.schema import KeyDefinition, TableDefinition, parse_create_table
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDocument

SCHEMA: Final = "random"
SLOTS: Final = range(1, 13)
MODULUS: Final = 1_000_000_007


@dataclass(frozen=True, slots=True)
class Value:
    """A value in its three forms."""

    value: Any
    sql: str
    shown: str


NULL: Final = Value(None, "NULL", "NULL")
Row = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `shown` is the SELECT expression; `of_row` computes the value of a generated column."""

    name: str
    type: str
    make: Callable[[Random], Value]
    shown: str = "{}"
    of_row: Callable[[Row], Value] | None = None


def number(value: int) -> Value:
    """Return an integer."""
    return Value(value, str(value), str(value))


def text(value: str) -> Value:
    """Return a string, which must not have characters that SQL or the client escapes."""
    return Value(value, f"'{value}'", value)


def document(a: int, pad: int) -> Value:
    """Return a JSON document with two members."""
    found = json.dumps({"a": a, "pad": "p" * pad})
    return Value(JsonDocument.from_text(found), f"'{found}'", found)


def _nullable(make: Callable[[Random], Value]) -> Callable[[Random], Value]:
    return lambda random: NULL if random.random() < 0.1 else make(random)


def _quarter(random: Random) -> Value:
    value = random.randint(-99, 99) / 4
    return Value(value, f"{value:g}", f"{value:g}")


def _decimal(random: Random) -> Value:
    found = f"{random.randint(-99999999, 99999999) / 10000:.4f}"
    value = Decimal(found)
    return Value(value, str(value), str(value))


def _day(random: Random) -> Value:
    value = date(1970, 1, 1) + timedelta(days=random.randint(0, 20000))
    return Value(value, f"'{value}'", str(value))


def _moment(random: Random) -> Value:
    value = datetime(1990, 1, 1) + timedelta(milliseconds=random.randint(0, 10**12))
    found = value.isoformat(" ", "milliseconds")
    return Value(value, f"'{found}'", found)


def _stamp(random: Random) -> Value:
    value = datetime(2001, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=random.randint(0, 10**9))
    found = value.strftime("%Y-%m-%d %H:%M:%S")
    return Value(value, f"'{found}'", found)


def _duration(random: Random) -> Value:
    hundredths = random.randint(0, 9_000_000)
    found = f"{hundredths // 360000:02}:{hundredths // 6000 % 60:02}:{hundredths // 100 % 60:02}.{hundredths % 100:02}"
    return Value(timedelta(milliseconds=hundredths * 10), f"'{found}'", found)


def _bytes(random: Random, size: int) -> Value:
    value = random.randbytes(random.randint(0, size))
    return Value(value, f"x'{value.hex()}'", value.hex().upper())


def _point(random: Random) -> Value:
    wkt = f"POINT({random.randint(-9, 9)} {random.randint(-9, 9)})"
    return Value(Geometry.from_wkt(wkt), f"ST_GeomFromText('{wkt}')", wkt)


def _note(random: Random) -> Value:
    return text(f"naïve 🙂 {random.randint(0, 99)} " * random.choice([1, 1, 1, 8, 150]))


def _choice(*values: str) -> Callable[[Random], Value]:
    return lambda random: text(random.choice(values))


V: Final = Column("v", "BIGINT NOT NULL DEFAULT 0", lambda random: number(random.randint(0, 999)))
NOTE: Final = Column("note", "TEXT", _nullable(_note))
DOCUMENT: Final = Column("j", "JSON", lambda random: document(random.randint(0, 99), random.choice([10, 50, 600])))
BLOB: Final = Column(
    "b", "MEDIUMBLOB", _nullable(lambda random: _bytes(random, random.choice([9, 90, 900]))), "HEX({})"
)
NUMBERS: Final = (
    Column("i8", "TINYINT UNSIGNED", _nullable(lambda random: number(random.randint(0, 255)))),
    Column("i24", "MEDIUMINT", _nullable(lambda random: number(random.randint(-(1 << 23), (1 << 23) - 1)))),
    Column("u64", "BIGINT UNSIGNED", _nullable(lambda random: number(random.getrandbits(64)))),
    Column("n", "DECIMAL(12,4)", _nullable(_decimal)),
    Column("f", "FLOAT", _nullable(_quarter)),
    Column("d", "DOUBLE", _nullable(_quarter)),
    Column("bits", "BIT(11)", _nullable(lambda random: number(random.getrandbits(11))), "{}+0"),
)
TIMES: Final = (
    Column("y", "YEAR", _nullable(lambda random: number(random.randint(1901, 2155)))),
    Column("day", "DATE", _nullable(_day)),
    Column("at", "DATETIME(3)", _nullable(_moment)),
    Column("ts", "TIMESTAMP NULL", _nullable(_stamp)),
    Column("t", "TIME(2)", _nullable(_duration)),
)
TEXTS: Final = (
    Column("e", "ENUM('red','green','blue')", _nullable(_choice("red", "green", "blue"))),
    Column("s", "SET('a','b','c')", _nullable(_choice("", "a", "a,c", "a,b,c"))),
    Column("c", "CHAR(10) CHARACTER SET latin1", _nullable(_choice("", "Ærø", "latin"))),
    Column("vc", "VARCHAR(300)", _nullable(_choice("", "日本", "x" * 260))),
    Column("vb", "VARBINARY(20)", _nullable(lambda random: _bytes(random, 20)), "HEX({})"),
)
POINT: Final = Column("g", "GEOMETRY", _nullable(_point), "ST_AsText({})")
GENERATED: Final = (
    Column("w", "INT AS (v % 100) STORED", lambda _: NULL, of_row=lambda row: number(row["v"].value % 100)),
    Column("x2", "BIGINT AS (v * 2) VIRTUAL", lambda _: NULL, of_row=lambda row: number(row["v"].value * 2)),
)
ADDED: Final = Column("added", "INT DEFAULT 42", _nullable(lambda random: number(random.randint(0, 9))))
"""The column that ALTER TABLE adds and drops."""
DEFAULTS: Final = {"v": number(0), "added": number(42)}


@dataclass(slots=True)
class Table:
    """The current state of a table. `keys` has the key definitions; `key` is the column of WHERE conditions.

    If `audit` is set, a trigger inserts each inserted row into that table as well. CREATE TABLE ... SELECT reads the
    table `source`.
    """

    name: str
    engine: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ("PRIMARY KEY (id)",)
    key: str = "id"
    automatic: bool = False
    audit: str = ""
    source: str = ""
    definition: TableDefinition = field(init=False)
    slots: dict[int, list[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Build the table definition."""
        self._define()

    @property
    def is_transactional(self) -> bool:
        """Whether ROLLBACK undoes its changes."""
        return self.engine == "InnoDB"

    @property
    def has_key(self) -> bool:
        """Whether a slot has at most one row."""
        return bool(self.keys)

    @property
    def create(self) -> str:
        """The CREATE TABLE statement."""
        more = " AUTO_INCREMENT" if self.automatic else ""
        columns = [f"id INT NOT NULL{more}", *(f"{column.name} {column.type}" for column in self._all_columns)]
        return f"CREATE TABLE {self.name} ({', '.join((*columns, *self.keys))}) ENGINE={self.engine}"

    @property
    def creates(self) -> list[str]:
        """The statements that create the table and its trigger."""
        if not self.audit:
            return [self.create]
        trigger = (
            f"CREATE DEFINER=`root`@`localhost` TRIGGER {self.name}_audit AFTER INSERT ON {self.name} FOR EACH ROW "
            f"INSERT INTO {self.audit} (id, v) VALUES (NEW.id, NEW.v)"
        )
        return [self.create, trigger]

    @property
    def given(self) -> tuple[Column, ...]:
        """The non-key columns to which a statement may assign values."""
        return tuple(column for column in self.columns if column.of_row is None)

    @property
    def _all_columns(self) -> tuple[Column, ...]:
        code = (Column("code", "VARCHAR(12) NOT NULL", lambda _: NULL),) if self.key == "code" else ()
        return (*code, *self.columns)

    def key_of(self, slot: int) -> Row:
        """Return the values of the key columns of a slot."""
        found = {"id": number(slot)}
        return found | {"code": text(f"k{slot}")} if self.key == "code" else found

    def where(self, slots: list[int]) -> str:
        """Return the WHERE condition for the rows of slots."""
        keys = [self.key_of(slot)[self.key].sql for slot in slots]
        name = f"{self.name}.{self.key}"
        return f"{name} = {keys[0]}" if len(keys) == 1 else f"{name} IN ({', '.join(keys)})"

    def new_row(self, slot: int, given: Row) -> Row:
        """Return a new row with the `given` values, in column order."""
        row = self.key_of(slot)
        for column in self.columns:
            default = DEFAULTS[column.name] if "DEFAULT" in column.type else NULL
            row[column.name] = given.get(column.name, default)
        return self.computed(row)

    def computed(self, row: Row) -> Row:
        """Return the row with computed generated columns."""
        return row | {column.name: column.of_row(row) for column in self.columns if column.of_row is not None}

    def alter(self) -> str:
        """Add the column `ADDED`, or drop it if it exists; return the statement."""
        drops = self.columns[-1] is ADDED
        self.columns = self.columns[:-1] if drops else (*self.columns, ADDED)
        more = {} if drops else {ADDED.name: DEFAULTS[ADDED.name]}
        for rows in self.slots.values():
            rows[:] = [{name: value for name, value in row.items() if name != ADDED.name} | more for row in rows]
        how = f"DROP COLUMN {ADDED.name}" if drops else f"ADD COLUMN {ADDED.name} {ADDED.type}"
        self._define()
        return f"ALTER TABLE {self.name} {how}"

    @property
    def select(self) -> str:
        """The SELECT statement for all rows."""
        names = ["id", *(column.shown.format(column.name) for column in self._all_columns)]
        return f"SELECT {', '.join(names)} FROM {SCHEMA}.{self.name}"

    def expected(self) -> list[str]:
        """Return the rows as a client prints them, sorted."""
        names = ["id", *(column.name for column in self._all_columns)]
        return sorted("\t".join(row[name].shown for name in names) for rows in self.slots.values() for row in rows)

    def _define(self) -> None:
        found = parse_create_table(self.create, schema=SCHEMA)
        generated = {column.name for column in self.columns if column.of_row is not None}
        columns = [
            replace(
                column,
                generated_from=("v",) if column.name in generated else None,
                auto_increment=self.automatic and column.name == "id",
            )
            for column in found.columns
        ]
        self.definition = replace(found, columns=tuple(columns))
        if self.source:
            self.definition = replace(self.definition, unique_keys=(KeyDefinition(("u",)),))
        if self.key == "code":  # the server uses the second of these keys
            unique = (KeyDefinition(("i8", "id")), KeyDefinition(("code", "id")))
            self.definition = replace(self.definition, primary_key=(), unique_keys=unique)


COPIED: Final = (
    replace(V, type="BIGINT"),
    Column("e", "ENUM('Red','gReen')", _nullable(_choice("Red", "gReen"))),
    TEXTS[2],
    Column("u", "INT UNSIGNED", lambda _: NULL),
)


def tables() -> list[Table]:
    """Return the tables; names of InnoDB tables begin with t, names of MyISAM tables with n."""
    unique = ("UNIQUE KEY maybe (i8, id)", "UNIQUE KEY (code, id)")
    made = [
        Table("t1", "InnoDB", (V, *NUMBERS, *GENERATED, *TEXTS)),
        Table("t2", "InnoDB", (V, NOTE, DOCUMENT, *TIMES, POINT)),
        Table("t3", "InnoDB", (V, BLOB, NUMBERS[0], NOTE, *TEXTS), unique, "code"),
        Table("t4", "InnoDB", (V, NOTE, BLOB, DOCUMENT, *NUMBERS[:4]), ()),
        Table("t5", "InnoDB", (V, NOTE, DOCUMENT), automatic=True),
        Table("t6", "InnoDB", (V, NOTE), audit="n3"),
        Table("t7", "InnoDB", COPIED, ("PRIMARY KEY (id)", "UNIQUE KEY (u)"), source="n1"),
        Table("n6", "MyISAM", COPIED, ("PRIMARY KEY (id)", "UNIQUE KEY (u)"), source="t1"),
        Table("n1", "MyISAM", (V, *NUMBERS, *GENERATED, NOTE, DOCUMENT)),
        Table("n2", "MyISAM", (V, BLOB, NUMBERS[0], *TIMES, *TEXTS), unique, "code"),
        Table("n3", "MyISAM", (V, NOTE, DOCUMENT, *TEXTS), ()),
        Table("n4", "MyISAM", (V, BLOB, POINT), automatic=True),
        Table("n5", "MyISAM", (V, NOTE), audit="t4"),
    ]
    return sorted(made, key=lambda table: table.name)
