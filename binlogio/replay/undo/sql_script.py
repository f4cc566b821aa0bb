"""Undo output: an SQL script for the client of the source's vendor.

The SQL of a change is in `mysql.table`, literals are in `mysql.values`: neither depends on sql_mode, and text is ASCII
except names.

    script      := settings  transaction*  settings
    transaction := comment  BEGIN  (INSERT | (UPDATE | DELETE) check?)*  COMMIT
    check       := an error unless exactly one row was changed; the client then leaves, and the server rolls back

An UPDATE or DELETE finds its row by the key, if the row still has the values that the change gave it: what others did
to them later is not overwritten.

Keys are not compared by foreign keys: the changes in the log are reversed, and no cascades follow. A server runs its
triggers, whose changes are in the log as well.
"""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final

from binlogio.bounded_cache import BoundedCache
from binlogio.constants import ColumnType
from binlogio.errors import BinlogError, ReplayError
from binlogio.events.rows import PartialUpdateRowsEvent, UpdateRowsEvent
from binlogio.replay.find_row import Index
from binlogio.replay.steps import locate_step
from binlogio.replay.targets.mysql.statement_context import prepared
from binlogio.replay.targets.mysql.table import LENIENT_MODE, MOST_BYTES, STRICT_MODE, MysqlTable
from binlogio.replay.targets.mysql.values import condition_of, condition_texts
from binlogio.replay.undo.inverse import check_images, reversed_changes
from binlogio.replay.undo.outputs import table_and_kind
from binlogio.replay.undo.spool import PIECE_SIZE
from binlogio.rows.image import PRE_GA_EVENTS
from binlogio.values.absent import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlogio._kernel.row_decoder import InverseRows, InverseSql
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.replay.row_changes import Change, Image
    from binlogio.replay.steps import LoggedTransaction, RowsStep
    from binlogio.replay.undo.outputs import ChangeCounts
    from binlogio.replay.undo.spool import SpooledGroup
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

_VARIABLES: Final = (
    "character_set_client", "character_set_connection", "collation_connection", "character_set_results", "sql_mode",
    "time_zone", "foreign_key_checks", "unique_checks",
)  # fmt: skip
_CHECKS: Final = "check_constraint_checks"  # of MariaDB: a row of before can be one that it does not let in
_SAVE: Final = (
    "SET "
    + ", ".join(f"@binlogio_{name} = @@session.{name}" for name in _VARIABLES)
    + f" /*M!100201 , @binlogio_{_CHECKS} = @@session.{_CHECKS} */"
)
_SETTINGS: Final = (
    f"{STRICT_MODE}, @@session.time_zone = '+00:00', @@session.foreign_key_checks = 0, @@session.unique_checks = 1"
    f" /*M!100201 , @@session.{_CHECKS} = 0 */"
)
_RESTORE: Final = (
    "SET "
    + ", ".join(f"@@session.{name} = @binlogio_{name}" for name in _VARIABLES)
    + f" /*M!100201 , @@session.{_CHECKS} = @binlogio_{_CHECKS} */"
)
_FILLED: Final = (ColumnType.TIMESTAMP, ColumnType.TIMESTAMP2, ColumnType.DATETIME, ColumnType.DATETIME2)
_TWOFOLD: Final = (
    ColumnType.FLOAT,
    ColumnType.DOUBLE,
    ColumnType.NEWDECIMAL,
    ColumnType.DECIMAL,
    ColumnType.ENUM,
    ColumnType.SET,
)  # two values may be equal


class OnChanged(Enum):
    """Treatment of rows that are gone, or that others have changed since: the SQL finds them by a comparison."""

    STOP = "stop"  # an error; the client leaves, and the server rolls the transaction back
    SKIP = "skip"  # they stay as they are, and are counted
    OVERWRITE = "overwrite"  # not compared


_CHECKS_OF: Final = {
    OnChanged.STOP: ("SET @binlogio_row = IF(ROW_COUNT() = 1, 1, (SELECT 1 UNION SELECT 2))",),
    OnChanged.SKIP: ("SET @binlogio_skipped = @binlogio_skipped + (ROW_COUNT() <> 1)",),
    OnChanged.OVERWRITE: (),
}
_BEFORE: Final = {
    OnChanged.STOP: b"-- ERROR 1242, Subquery returns more than 1 row: the row of the statement before is gone, or was "
    b"changed since\n",
    OnChanged.SKIP: b"SET @binlogio_skipped = 0;\n",
    OnChanged.OVERWRITE: b"",
}
_AFTER: Final = {
    OnChanged.STOP: b"",
    OnChanged.SKIP: b"SELECT @binlogio_skipped AS `rows that are gone or were changed since: not reversed`;\n",
    OnChanged.OVERWRITE: b"",
}
_BEGIN: Final = b"BEGIN;\n"
_COMMIT: Final = b"COMMIT;\n"
_NAME: Final = ("utf-8", "surrogateescape")
_MOST_CHECKED: Final = 64


class SqlScript:
    """An `UndoOutput`. `on_changed` says what happens to a row that is not there as the change left it.

    `untold` are the tables with reversed updates and deletes of which neither DDL nor a definition is known, so that
    generated columns are not left out.
    """

    needs_names: ClassVar[bool] = True

    def __init__(self, *, on_changed: OnChanged = OnChanged.STOP) -> None:
        self.untold: set[str] = set()
        self._on_changed = on_changed
        self._check = _CHECKS_OF[on_changed]
        self._tables: BoundedCache[int, _UndoneTable] = BoundedCache()
        self._description: FormatDescriptionEvent | None = None
        self._is_mariadb = False

    def inverse(self, transaction: LoggedTransaction, steps: Sequence[RowsStep], rows: ChangeCounts) -> Iterator[bytes]:
        """Yield the statements of one transaction.

        Raises:
            BinlogError: a change cannot be reversed.
        """
        start, end = transaction.start, transaction.end
        pieces = [self.heading(start.file), f"{start.offset} to {end.offset}\n".encode(), _BEGIN]
        size = 0
        self._follow(transaction.description)
        for step in reversed(steps):
            try:
                undone = self._table(step)
                sql, count = undone.statements(step) or self._by_python(undone, step)
            except BinlogError as exc:
                locate_step(exc, step)
                raise
            if len(sql) >= PIECE_SIZE:
                yield b"".join(pieces)
                yield sql
                pieces, size = [], 0
            else:
                pieces.append(sql)
                size += len(sql)
            del sql
            self.count(step, count, rows)
            if size >= PIECE_SIZE:
                yield b"".join(pieces)
                pieces, size = [], 0
        pieces.append(_COMMIT)
        yield b"".join(pieces)

    def compiled(self, step: RowsStep, description: FormatDescriptionEvent | None) -> InverseRows | None:
        """Return the kernel's inverse of rows events; None if Python has to write some of their statements."""
        from binlogio._kernel.row_decoder import InverseRows  # noqa: PLC0415 - there may be no kernel

        self._follow(description)
        kernel = self._table(step).kernel
        return None if kernel is None else InverseRows(step, kernel, cascades=bool(step.cascades))

    def count(self, step: RowsStep, count: int, rows: ChangeCounts) -> None:
        """Count changes, and note a table whose generated columns are not known."""
        table, kind = table_and_kind(step)
        rows[table, kind] += count
        if kind != "insert" and step.plan is not None and not step.plan.tells_generated:
            self.untold.add(table)

    def heading(self, file: str) -> bytes:
        """Return the beginning of the comment before a transaction."""
        return f"\n-- {_printable(file)}, ".encode()

    def whole(self, groups: Iterable[SpooledGroup]) -> Iterator[bytes]:
        """Yield the script."""
        yield "".join(f"{line};\n" for line in (_SAVE, "SET NAMES utf8mb4", _SETTINGS)).encode()
        yield _BEFORE[self._on_changed]
        waiting: list[bytes] = []
        size = 0
        for group in groups:
            if isinstance(group, bytes):
                waiting.append(group)
                size += len(group)
            if size >= PIECE_SIZE or not isinstance(group, bytes):
                yield b"".join(waiting)
                waiting, size = [], 0
            if not isinstance(group, bytes):
                yield from group
        yield b"".join(waiting)
        yield f"\n{_RESTORE};\n".encode() + _AFTER[self._on_changed]

    def _follow(self, description: FormatDescriptionEvent | None) -> None:
        if description is not self._description:
            self._description = description
            self._is_mariadb = description is not None and description.context.is_mariadb

    def _by_python(self, undone: _UndoneTable, step: RowsStep) -> tuple[bytes, int]:
        """Return what `_UndoneTable.statements` returns."""
        changes = reversed_changes(step, undone.plan)
        statements = self._statements(undone, changes) if changes else []
        return _for_client(statements) if statements else b"", len(changes)

    def _statements(self, undone: _UndoneTable, changes: Sequence[Change]) -> list[str]:
        statements: list[str] = []
        table = undone.table
        if changes[0][0] is None:
            rows = [after for _, after in changes if after is not None]
            is_lenient = any(table.has_invalid_member(row) for row in rows) if table.enums else False
            for sql, _ in table.insert(rows):
                statements += _in_mode((sql,), is_lenient=is_lenient)
            return statements
        for before, after in changes:
            now = before or ()
            if after is None:
                statements.append(table.delete(now)[0] + undone.unchanged(now, range(len(now))))
                statements += self._check
                continue
            changed = undone.changed(now, after)
            kept = undone.filled - changed
            update = table.update(now, after, sorted(changed | kept), kept) if changed else None
            if update is not None:
                is_lenient = table.has_invalid_member(after)
                sql = update[0] + undone.unchanged(now, sorted(changed))
                statements += _in_mode((sql, *self._check), is_lenient=is_lenient)
        return statements

    def _table(self, step: RowsStep) -> _UndoneTable:
        """Return the table of a step, whose images have all that is needed."""
        event, plan = step.head, step.plan
        found = self._tables.get(id(plan))
        if found is None or found.plan is not plan:
            plan = check_images(step)
            compares = self._on_changed is not OnChanged.OVERWRITE
            found = _UndoneTable(plan, self._check, compares=compares, is_mariadb=self._is_mariadb)
            self._tables.put(id(plan), found)
        after = event.present_after if isinstance(event, UpdateRowsEvent | PartialUpdateRowsEvent) else b""
        key = type(event), event.column_count, event.present, after
        if key not in found.checked:
            check_images(step)
            if len(found.checked) >= _MOST_CHECKED:
                found.checked.clear()
            found.checked.add(key)
        return found


class _UndoneTable:
    """A table whose changes are reversed: `table` writes the SQL.

    `checked` are the kinds and bitmaps of rows events that have all that is needed.
    """

    def __init__(self, plan: TablePlan, check: tuple[str, ...], *, compares: bool, is_mariadb: bool) -> None:
        columns = plan.columns
        key = tuple((position, prefix) for position, prefix in plan.primary_key)
        indexes = (Index("PRIMARY", key, is_unique=True, is_primary=True),) if key else ()
        names = [(column.label, column.nullable, column.generated) for column in columns]
        self.plan: Final = plan
        self.table: Final = MysqlTable(plan, names, indexes, is_mariadb=is_mariadb)
        self.checked: Final[set[tuple[type, int, bytes, bytes]]] = set()
        self.filled: Final = frozenset(column.position for column in columns if column.type in _FILLED)
        self._key = frozenset(position for position, _ in key)
        self._compares = compares
        self._is = cache(lambda at: condition_of(columns[at], columns[at].label, is_mariadb=is_mariadb))
        self._twofold = frozenset(column.position for column in columns if column.type in _TWOFOLD)
        self.kernel: Final = self._inverse_sql(check, is_mariadb=is_mariadb) if key else None

    def _inverse_sql(self, check: tuple[str, ...], *, is_mariadb: bool) -> InverseSql | None:
        """Return the kernel's part; None if the table has a column or a name that it does not write."""
        table, plan = self.table, self.plan
        heads = [sql.encode(*_NAME) for sql in table.heads]
        names = [name.encode(*_NAME) for name in table.quoted]
        of_client = any(b"\\" in text or b"\r" in text for text in (*heads, *names))  # which removes them
        if of_client or any(size for _, size in plan.primary_key):
            return None
        from binlogio.rows.texts import SQL, TextForm, image_text  # noqa: PLC0415 - there may be no kernel

        def literal(value: Any, column: ColumnPlan) -> str:
            return table.literals[column.position](value)

        images = image_text(plan, TextForm(style=SQL, label=lambda _: "", literal=str, value=literal))
        if images is None:
            return None
        from binlogio._kernel.row_decoder import InverseSql  # noqa: PLC0415

        texts = [condition_texts(column, column.label, is_mariadb=is_mariadb) for column in plan.columns]
        columns = [
            (
                (name + b" = ", name + b" <=> ", name + b" IS NULL"),
                (found.before.encode(*_NAME), found.after.encode(*_NAME)),
                found.form,
                tuple(one.encode(*_NAME) for one in found.zeros),
                at in table.writable,
                at in self.filled,
                at in self.table.enums,
                not plan.columns[at].nullable,
            )
            for at, (name, found) in enumerate(zip(names, texts, strict=True))
        ]
        end = "".join(f";\n{sql}" for sql in check) + ";\n"
        return InverseSql(
            images,
            columns,
            [at for at, _ in plan.primary_key],
            (heads[0], heads[1], heads[2], end.encode()),
            MOST_BYTES,
            compares=self._compares,
            is_mariadb=is_mariadb,
        )

    def statements(self, step: RowsStep) -> tuple[bytes, int] | None:
        """Return the statements that reverse the rows of a step and how many rows it has; None if Python has to."""
        event = step.event
        if self.kernel is None or event.header.type_code in PRE_GA_EVENTS:
            return None
        after = event.present_after if isinstance(event, UpdateRowsEvent) else event.present
        try:
            return self.kernel.statements(event.operation, event.present, after, event.images)
        except ReplayError:  # of a value that SQL cannot write
            return None

    def unchanged(self, now: Image, columns: Iterable[int]) -> str:
        """Return conditions that columns still have the values of a row, to follow the condition that finds it.

        A table without a key needs none: its rows are found by all values. A document that SQL cannot write is not
        compared.
        """
        conditions = []
        for at in columns if self._compares and self.table.finds_by_key(now) else ():
            if at not in self._key and at in self.table.writable and now[at] is not ABSENT:
                with suppress(ReplayError):
                    conditions.append(f" AND {self._is(at)(now[at])}")
        return "".join(conditions)

    def changed(self, before: Image, after: Image) -> set[int]:
        """Return the columns whose values differ.

        A column has changed if its literal has: 0.0 and -0.0 are two values, and so are members of an ENUM that have
        the same name.
        """
        literals, twofold = self.table.literals, self._twofold
        return {
            at
            for at, old, new in zip(count(), before, after)
            if old is not new
            and new is not ABSENT
            and (old != new or at in twofold)
            and literals[at](old) != literals[at](new)
        }


def _in_mode(statements: tuple[str, ...], *, is_lenient: bool) -> tuple[str, ...]:
    return (LENIENT_MODE, *statements, STRICT_MODE) if is_lenient else statements


def _for_client(statements: Sequence[str]) -> bytes:
    """Return statements for the client, which removes a backslash or carriage return at the end of a line."""
    whole = (";\n".join(statements) + ";\n").encode("utf-8", "surrogateescape")
    if b"\\\n" not in whole and b"\r\n" not in whole:
        return whole
    pieces: list[bytes] = []
    for statement in statements:
        sql = statement.encode("utf-8", "surrogateescape")
        if b"\\\n" in sql or b"\r\n" in sql:
            pieces += [f"{line};\n".encode() for line in prepared(sql)]
        else:
            pieces += (sql, b";\n")
    return b"".join(pieces)


def _printable(name: str) -> str:
    """Return the name of a file, such that it cannot end a comment."""
    return name.encode("unicode_escape").decode("ascii")
