"""The steps of a logged transaction: what a target applies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import RowsFlag
from binlogio.errors import BinlogError, ReplayError
from binlogio.events.rows import WriteRowsEvent
from binlogio.replay.filters import EVERYTHING, NamedStatement, ReplayFilter
from binlogio.replay.progress import UNKNOWN_LOG, KeptLog
from binlogio.replay.raw_groups import RawGroup
from binlogio.schema.ddl.statements import SEQUENCE_COLUMNS
from binlogio.storage.spill_file import TemporaryFile

if TYPE_CHECKING:
    from binlogio.events import RowsEvent
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.events.load import ExecuteLoadQueryEvent
    from binlogio.events.query import QueryEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.options import Position
    from binlogio.rows.plan import TablePlan
    from binlogio.schema import statements
    from binlogio.schema.ddl.foreign_keys import Cascade
    from binlogio.schema.ddl.logged_ddl import LoggedDdl
    from binlogio.storage.spill_file import SpillFile

SPILLED_HEADER: Final = Struct("<IIIIHq")
"""Timestamp, server_id, event_size, log_pos, flags, inner (-1: None) of a `SpilledEvent`."""
NEEDS_ROW_FORMAT: Final = "the source needs binlog_format=ROW"
_NO_CASCADE: Final = int(RowsFlag.NO_FOREIGN_KEY_CHECKS | RowsFlag.USE_SQL_FOREIGN_KEY)
_SHOWN_TEXT: Final = 80
_SEQUENCE: Final = tuple(column.name for column in SEQUENCE_COLUMNS)


NO_CLOCK: Final = 0
"""What both numbers are where a server wrote none (before 5.7): such a transaction runs alone."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The logical clock of one transaction."""

    last_committed: int
    sequence_number: int


class ImageFile(TemporaryFile):
    """A temporary file for the rows events of a large transaction, deleted with the last step that refers to it."""

    def __del__(self) -> None:
        """Close the file."""
        self.close()


@dataclass(frozen=True, slots=True)
class SpilledEvent:
    """A rows event in a temporary file: `SPILLED_HEADER` and `size` bytes of images at position `start`.

    `head` is the event without images, and with only the type in its header. Many events share one such object, because
    a large transaction may have a hundred thousand events. `offset` is the offset of the event in the log.
    """

    head: Any
    offset: int
    file: SpillFile
    start: int
    size: int

    def read(self) -> Any:
        """Read the event from the file.

        Raises:
            OSError: the temporary file cannot be read.
        """
        data = self.file.read(self.start, SPILLED_HEADER.size)
        timestamp, server_id, event_size, log_pos, flags, inner = SPILLED_HEADER.unpack(data)
        header = replace(
            self.head.header,
            timestamp=timestamp,
            server_id=server_id,
            event_size=event_size,
            log_pos=log_pos,
            flags=flags,
            offset=self.offset,
            inner=None if inner < 0 else inner,
        )
        images = self.file.read(self.start + SPILLED_HEADER.size, self.size)
        return replace(self.head, images=images, header=header)


@dataclass(frozen=True, slots=True)
class RowsStep:
    """The rows of one event. `plan` is None if the log lacks information; `refusal` is then the error.

    `held` is the event, or a `SpilledEvent`. `cascades` are the foreign keys through which these changes changed rows
    of other tables; such changes are not in the log. `path` is the log of the event: that of an XA PREPARE may be
    another one than that of the XA COMMIT.
    """

    held: Any
    table_map: TableMapEvent
    plan: TablePlan | None
    refusal: ReplayError | None = None
    cascades: tuple[Cascade, ...] = ()
    path: str | None = None

    @property
    def event(self) -> Any:
        """The event; for a large transaction, it is read from the temporary file."""
        held = self.held
        return held.read() if type(held) is SpilledEvent else held

    @property
    def head(self) -> Any:
        """The event, possibly without its images and with only the type in its header."""
        held = self.held
        return held.head if type(held) is SpilledEvent else held

    @property
    def offset(self) -> int:
        """The offset of the event."""
        held = self.held
        return int(held.offset if type(held) is SpilledEvent else held.header.offset)

    @property
    def tables(self) -> frozenset[tuple[str, str]]:
        """Schema and name of the table in the target."""
        return frozenset({(self.table_map.schema, self.table_map.table)})

    @property
    def is_of_sequence(self) -> bool:
        """True if the table is a sequence of MariaDB."""
        return self.plan is not None and tuple(column.name for column in self.plan.columns) == _SEQUENCE

    @property
    def ended_statements(self) -> int:
        """The number of statements of the source that end with the event."""
        return int(self.head.ends_statement)

    @property
    def size(self) -> int:
        """The size of the row images in bytes."""
        held = self.held
        return held.size if type(held) is SpilledEvent else len(held.images)


@dataclass(frozen=True, slots=True)
class StatementStep:
    """A statement, with its context events (INTVAR, RAND, USER_VAR).

    The default database of `event` is already renamed for the target. `named` is the text with renamed schemas; None if
    the text of the event needs no change. `ddl` contains the names of the source.
    """

    event: QueryEvent
    statement: statements.Statement
    context: tuple[Any, ...] = ()
    ddl: LoggedDdl | None = None
    wanted: ReplayFilter = EVERYTHING
    named: NamedStatement | None = None

    @property
    def sql(self) -> bytes:
        """The text for the target.

        Raises:
            ReplayError: filters by name cannot be applied to the statement.
        """
        if self.named is None:
            return self.event.sql
        if self.named.refusal is not None:
            raise self.named.refusal
        return self.named.sql

    @property
    def is_wanted(self) -> bool:
        """True if the filters select the tables that the statement changes."""
        return self.named is None or self.named.is_wanted

    @property
    def creates(self) -> bool:
        """True if the statement creates selected objects and changes no existing rows."""
        return self.named is not None and self.named.creates

    @property
    def offset(self) -> int:
        """The offset of the event."""
        return int(self.event.header.offset)


@dataclass(frozen=True, slots=True)
class LoadStep:
    """A LOAD DATA statement with the content of its file, and its context events."""

    event: ExecuteLoadQueryEvent
    data: bytes
    context: tuple[Any, ...] = ()
    refusal: ReplayError | None = None

    @property
    def offset(self) -> int:
        """The offset of the event."""
        return int(self.event.header.offset)


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """An event that cannot be replayed."""

    offset: int
    refusal: ReplayError


Step = RowsStep | StatementStep | LoadStep | RefusedStep | RawGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTransaction:
    """The transaction of one event group.

    `end` is the end of its last event. `outcome` is `commit`, `rollback` or `prepare`; `xid` is the key of an XA
    transaction.

    `commits_itself` is True if one of its statements commits implicitly, as DDL does. `is_filtered` is True if no part
    of it is selected; it still keeps its place in the commit order, unless it `is_for_later` (`Selection`). A
    transaction without steps changes nothing.
    `is_bound` is True if it uses objects of its session, such as temporary tables. `shared_by` is the number of
    transactions of the log that were merged into it (`commit_groups`). `gtid` is a GTID of either vendor, or None.
    `log` distinguishes the log from other logs of the same name.
    """

    path: str
    start: Position
    end: Position
    clock: Clock
    description: FormatDescriptionEvent | None
    starts_file: bool
    steps: tuple[Step, ...]
    outcome: str = "commit"
    xid: str | None = None
    commits_itself: bool = False
    is_filtered: bool = False
    is_for_later: bool = False
    is_bound: bool = False
    shared_by: int = 1
    gtid: Gtid | MariadbGtid | None = None
    log: KeptLog = UNKNOWN_LOG

    @property
    def row_steps(self) -> list[RowsStep | RawGroup]:
        """The steps that change rows."""
        return [step for step in self.steps if isinstance(step, RowsStep | RawGroup)]

    @property
    def tables(self) -> frozenset[tuple[str, str]]:
        """Schema and name of the tables in which rows are changed."""
        return frozenset[tuple[str, str]]().union(*(step.tables for step in self.row_steps))


def may_cascade(event: RowsEvent) -> bool:
    """Return whether an event may have changed rows of other tables through foreign keys without logging them."""
    return type(event) is not WriteRowsEvent and not event.flags & _NO_CASCADE


def locate_step(exc: BinlogError, step: Step) -> None:
    """Set file and offset of an error to those of a step, as far as they are not set."""
    exc.locate(file=step.path if isinstance(step, RowsStep) else None, offset=step.offset)


def shown_text(sql: bytes) -> str:
    """Return the first characters of a statement, for a message."""
    text = sql.decode("utf-8", "replace").strip()
    return text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 3]}..."


def text_refused(what: str) -> ReplayError:
    """Return the error for a statement if only row changes can be replayed."""
    return ReplayError(f"{what} is in the log as SQL text; only row changes can be replayed", hint=NEEDS_ROW_FORMAT)
