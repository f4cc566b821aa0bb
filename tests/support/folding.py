"""Applies a log to in-memory tables (multisets of rows), for the final contents that a replica would have.

Supports transactions (with savepoints, XA, and non-transactional engines), full and partial row images, and DDL that
creates, drops and renames tables or changes their columns. Of the DML statements logged as text only those in
`_STATEMENTS` can be applied; the others are recorded in `Fold.statements`. Unsupported ALTER TABLE statements are
recorded in `Fold.unfollowed`; if a row does not match its before image afterwards, NotFoldedError is raised.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import QueryStatus
from binlogio.events.control import XaPrepareEvent, XidEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.query import QueryEvent
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDocument

if TYPE_CHECKING:
    from binlogio.rows.image import RowChange
    from binlogio.rows.plan import TablePlan

_NAME: Final = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_TABLE: Final = rf"(?:{_NAME}\.)?{_NAME}"
MARIADB_COMMIT_ALTER: Final = 4
_COMMENT: Final = re.compile(r"/\*(?![!M]).*?\*/", re.DOTALL)
_DML: Final = re.compile(
    r"(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|SELECT|CALL)\b|CREATE TABLE .*\bSELECT\b", re.IGNORECASE | re.DOTALL
)
_RENAME: Final = re.compile(rf"({_TABLE}) TO ({_TABLE})", re.IGNORECASE)
_XID: Final = re.compile(r"X'([0-9a-f]*)',X'([0-9a-f]*)',(-?\d+)", re.IGNORECASE)


class NotFoldedError(Exception):
    """A change does not match the current tables; the message has the reason."""


@dataclass(slots=True)
class Table:
    """Rows as tuples of values, with duplicates.

    `lossy`: the table lost rows in a way that is not in the log.
    """

    rows: dict[tuple[Any, ...], list[tuple[Any, ...]]] = field(default_factory=dict)
    plan: TablePlan | None = None
    lossy: bool = False

    def all(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return [row for same in self.rows.values() for row in same]

    def add(self, row: tuple[Any, ...]) -> None:
        """Add a row."""
        self.rows.setdefault(_comparable(row), []).append(row)

    def take(self, image: tuple[Any, ...]) -> tuple[Any, ...]:
        """Remove and return the row that matches an image in the columns that both have.

        Values that only the image has are added to the returned row.
        """
        key = _comparable(image)
        if key not in self.rows:
            wanted = [(i, value) for i, value in enumerate(key) if value is not ABSENT]
            found = (key for key in self.rows if all(key[i : i + 1] in ((value,), (ABSENT,)) for i, value in wanted))
            key = next(found, ())
            if not key:
                raise NotFoldedError("no row has the values of a before image")
        if len(key) != len(image):
            raise NotFoldedError(f"a row has {len(key)} columns, and its before image {len(image)}")
        same = self.rows[key]
        row = same.pop()
        if not same:
            del self.rows[key]
        return tuple(new if old is ABSENT else old for old, new in zip(row, image, strict=True))


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with JSON documents as text: after an in-place update their bytes have irrelevant gaps."""
    return tuple(value.text if isinstance(value, JsonDocument) else value for value in row)


Change = tuple[str, "RowChange"]


@dataclass(slots=True)
class Fold:
    """The tables after the events so far. `engines` has the storage engine of each table, for rollback."""

    engines: dict[str, str | None] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    unfollowed: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    renamed: dict[str, str] = field(default_factory=dict)
    _open: list[Change] = field(default_factory=list)
    _in_transaction: bool = False
    _savepoints: dict[str, int] = field(default_factory=dict)
    _prepared: dict[tuple[str, ...], list[Change]] = field(default_factory=dict)

    def rows(self, plan: TablePlan, changes: list[RowChange]) -> None:
        """Apply the changes of a rows event."""
        name = f"{plan.schema}.{plan.table}"
        for change in changes:
            kind = "inserts" if change.before is None else "deletes" if change.after is None else "updates"
            self.counts[kind] += 1
            self._open.append((name, change))
        if not self._in_transaction:
            self._commit()

    def event(self, event: Any) -> None:
        """Apply any other event."""
        if isinstance(event, XidEvent):
            self._commit()
        elif isinstance(event, XaPrepareEvent):
            if event.one_phase:
                self._commit()
            else:
                key = (event.gtrid.hex(), event.bqual.hex(), str(event.format_id))
                self._prepared[key] = self._open
                self._end()
        elif isinstance(event, ExecuteLoadQueryEvent):
            self.statements.append("LOAD DATA")
        elif isinstance(event, MariadbGtidEvent):
            self._in_transaction = not event.standalone
        elif isinstance(event, QueryEvent):
            alter = event.status(QueryStatus.MARIADB_GTID_FLAGS3)
            if alter is not None and not alter.flags & MARIADB_COMMIT_ALTER:
                return  # START ALTER and ROLLBACK ALTER change nothing
            self._query(event.sql.decode("utf-8", "replace"), event.schema)

    # ---------------------------------------------------------------------------------------------------- transactions

    def _commit(self) -> None:
        for name, change in self._open:
            _apply(self.tables.setdefault(name, Table()), change)
        self._end()

    def _end(self) -> None:
        self._open, self._savepoints, self._in_transaction = [], {}, False

    def _stays(self, change: Change) -> bool:
        return self.engines.get(change[0]) not in ("InnoDB", None)

    def _query(self, sql: str, schema: str) -> None:
        text = _COMMENT.sub("", sql).strip()
        word = text.upper()
        if word == "BEGIN" or word.startswith("XA START"):
            self._in_transaction = True
        elif word == "COMMIT":
            self._commit()
        elif word.startswith("XA "):
            self._end_prepared(word)
        elif word.startswith("ROLLBACK TO"):
            name = _unquoted(text.split(None, 2)[2])
            if name not in self._savepoints:
                raise NotFoldedError(f"there is no savepoint {name}")
            mark = self._savepoints[name]
            self._open[mark:] = [change for change in self._open[mark:] if self._stays(change)]
        elif word.startswith("ROLLBACK"):
            self._open = [change for change in self._open if self._stays(change)]
            self._commit()
        elif word.startswith("SAVEPOINT"):
            self._savepoints[_unquoted(text.split(None, 1)[1])] = len(self._open)
        else:
            self._statement(text, schema)

    def _end_prepared(self, word: str) -> None:
        match = _XID.search(word)
        if match is None or not word.startswith(("XA COMMIT", "XA ROLLBACK")):
            return
        key = tuple(part.lower() for part in match.groups())
        changes = self._prepared.pop(key, [])
        if word.startswith("XA COMMIT"):
            self._open = changes
            self._commit()

    # ------------------------------------------------------------------------------------------------------ statements

    def _statement(self, text: str, schema: str) -> None:
        for pattern, change in _STATEMENTS:
            if match := pattern.match(text):
                self._commit()
                change(self.tables.setdefault(f"{schema}.{match[1]}", Table()), match)
                return
        if _DML.match(re.sub(r"`(?:[^`]|``)*`", "``", text)):
            self.statements.append(text)
        else:
            self._ddl(text, schema)

    def _ddl(self, text: str, schema: str) -> None:  # noqa: C901 - a flat list of statements
        if match := re.match(rf"DROP DATABASE (?:IF EXISTS )?({_NAME})", text, re.IGNORECASE):
            self.tables = {
                name: table for name, table in self.tables.items() if not name.startswith(f"{_unquoted(match[1])}.")
            }
        elif match := re.match(rf"DROP TABLE (?:IF EXISTS )?({_TABLE}(?:\s*,\s*{_TABLE})*)", text, re.IGNORECASE):
            for name in re.findall(_TABLE, match[1]):
                self.tables.pop(_full(name, schema), None)
        elif match := re.match(rf"CREATE (?:OR REPLACE )?TABLE (?:IF NOT EXISTS )?({_TABLE})", text, re.IGNORECASE):
            if "IF NOT EXISTS" not in text.upper() or _full(match[1], schema) not in self.tables:
                self.tables[_full(match[1], schema)] = Table()
        elif match := re.match(rf"TRUNCATE (?:TABLE )?({_TABLE})", text, re.IGNORECASE):
            self.tables[_full(match[1], schema)] = Table()
        elif text.upper().startswith("RENAME TABLE"):
            for old, new in _RENAME.findall(text[len("RENAME TABLE") :]):
                self._rename(old, new, schema)
        elif match := re.match(rf"ALTER TABLE ({_TABLE}) RENAME (?:TO )?({_TABLE})", text, re.IGNORECASE):
            self._rename(match[1], match[2], schema)
        elif match := re.match(rf"ALTER TABLE ({_TABLE}) (?:DROP|TRUNCATE) PARTITION", text, re.IGNORECASE):
            self.tables[_full(match[1], schema)].lossy = True
        elif match := re.match(rf"ALTER TABLE ({_TABLE}) ADD COLUMN {_NAME} \w+$", text, re.IGNORECASE):
            table = self.tables.setdefault(_full(match[1], schema), Table())
            rows, table.rows = table.all(), {}
            for row in rows:
                table.add((*row, None))
        elif text.upper().startswith("ALTER TABLE"):
            self.unfollowed.append(text)

    def _rename(self, old: str, new: str, schema: str) -> None:
        self.tables[_full(new, schema)] = self.tables.pop(_full(old, schema), Table())
        self.renamed[_full(old, schema)] = _full(new, schema)


def _unquoted(name: str) -> str:
    name = name.strip()
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _full(name: str, schema: str) -> str:
    parts = re.findall(_NAME, name)
    return ".".join([schema, *map(_unquoted, parts)][-2:])


def _apply(table: Table, change: RowChange) -> None:
    after = change.after
    if after is not None:
        table.plan = after.plan
    if change.before is None and after is not None:
        table.add(after.values)
    elif change.before is not None:
        row = table.take(change.before.values)
        if after is not None:
            full = type(change)(type(after)(after.plan, row), after).applied()
            values = full.values if full is not None else after.values
            table.add(tuple(old if new is ABSENT else new for old, new in zip(row, values, strict=True)))


# DML statements of the cases `compressed` of both vendors, which are not in row format.
def _concat(table: Table, match: re.Match[str]) -> None:
    rows, table.rows = table.all(), {}
    for row in rows:
        table.add((row[0], f"{match[2]}{row[0]}", *row[2:]) if row[0] < int(match[3]) else row)


def _insert(table: Table, match: re.Match[str]) -> None:
    table.add((int(match[2]), match[3], None))


def _copy_id(table: Table, match: re.Match[str]) -> None:
    rows, table.rows = table.all(), {}
    for row in rows:
        table.add((*row[:-1], row[0]))


_STATEMENTS: Final = (
    (re.compile(r"UPDATE (t) SET v=CONCAT\('(statement[^']*)', id\) WHERE id < (\d+)$"), _concat),
    (re.compile(r"INSERT INTO (t) VALUES \((6000),'(short)',NULL\)$"), _insert),
    (re.compile(r"UPDATE (a) SET z=id$"), _copy_id),
)
