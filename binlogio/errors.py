"""Exceptions of binlogio, and their hints: what the user can do about an error.

A message names the file, the position, the field, the expected value and the value found. A hint that names a Python
argument, a command-line option or a Spark option is a `Hint`, which has a text for each of these three interfaces.

    BinlogError
      BinlogFormatError      the bytes are invalid
        BadMagic  TruncatedEvent  ChecksumMismatch  MissingTableMap
      UnsupportedFeature     this version of binlogio cannot read or write this, or an argument such as a key is missing
        MissingPackage       an optional package is not installed
        UndecidedRows        rows lack a column without which they cannot be compared with a condition
      LoggingError           the statement cannot be logged, with the server's error number and symbol
        CacheLimitExceeded
      WriterStateError       methods of the writer were called in an invalid order
        CommitOutcomeUnknown the group may or may not be in the log
      ExportError            an export cannot be made with these arguments, or into this target
      PositionError          a position given by the caller is not the start of an event
      ConditionError         a condition on rows cannot be parsed, or does not fit the table
      ReplayError            a change cannot be applied to the target
      MissingLogs            logs are missing between others, or between them and what a consumer has
      ChangedLogs            logs are not those that a consumer has read

I/O errors are raised as `OSError`. All exceptions can be pickled, because Spark passes them between processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final


class Surface(Enum):
    """The user interface whose arguments or options the hints name."""

    PYTHON = 0
    COMMAND_LINE = 1
    SPARK = 2


class Hint(Enum):
    """What to do about an error: one text for each `Surface` (Python, command line, Spark).

    If the text for a surface is missing, the text for Python is used. `about` replaces `{}` by a value, such as a GTID.
    """

    KEYRING = (
        "give the server's keyring as keyring=",
        "give the server's keyring with --keyring",
        "give the server's keyring in option keyring",
    )
    KEY_VERSION = (
        "give the key of version {} as keyring=",
        "give the key of version {} with --keyring",
        "give the key of version {} in option keyring",
    )
    TABLE_DEFINITION = (
        "give the table's definition as definitions=",
        "give the table's definition with --table-definitions",
        "give the table's definition in option schemaFile",
    )
    DATABASE_CHARSET = (
        'give the character set of the database: definitions={"shop": "utf8mb4"}',
        "give the character set of the database with --database-charset",
        "give the character set of the database: option databaseCharset, such as shop=utf8mb4",
    )
    UNNAMED_COLUMNS = (
        "the log does not name the columns; give definitions of the tables as definitions=",
        "the log does not name the columns; give definitions of the tables with --table-definitions",
        "the log does not name the columns; give definitions of the tables in option schemaFile",
    )
    LACKING_COLUMN = (
        "set binlog_row_image to FULL at the source; or compare only keys and, with `after.`, changed columns",
    )
    MISSING_DDL = (
        "give the definitions of the tables as definitions=, or a catalogue of the logs that are gone",
        "give the definitions of the tables, or a catalogue of `binlogio schema --save`, with --table-definitions",
        "give a catalogue of the logs that are gone in option definitionsLocation, or definitions in option schemaFile",
    )
    ZERO_DATES = (
        'zero_dates="null" or zero_dates="text"',
        "binlogio dump prints such dates as they are",
        "set option zeroDates to null or text",
    )
    EVENT_SIZE = (
        "if the log is not damaged, raise the limit: limits=binlogio.Limits(event_size=...)",
        "if the log is not damaged, raise the limit with --max-event-size",
        "if the log is not damaged, read it in Python with limits=binlogio.Limits(event_size=...)",
    )
    FILESYSTEM = (
        "for an object store that PyArrow does not know, pass filesystem=",
        "for an object store that PyArrow does not know, copy the file, or read it in Python with filesystem=",
        "for an object store that PyArrow does not know, copy the file, or read it in Python with filesystem=",
    )
    IGNORE_MISSING_LOGS = (
        "give them too, or go on without them: ignore_missing_logs=True",
        "give them too, or go on without them: --ignore-missing-logs",
        "give them too, or go on without them: option ignoreMissingLogs",
    )
    STATEMENT_CHANGES = (
        'set binlog_format to ROW; a replay into a server has these rows; go on without: statement_changes="skip"',
        "set binlog_format to ROW; a replay into a server has these rows",
        "set binlog_format to ROW; a replay into a server has these rows; go on without: option statementChanges=skip",
    )
    RESUME = (
        "resumes=True continues at the target's position",
        "--resume continues at the target's position",
    )
    NO_RESUME = (
        "resumes=False ignores the target's position",
        "--no-resume ignores the target's position",
    )
    NEW_SOURCE = (
        "logs of one more source: resumes=False starts with the first one, and a start position there",
        "logs of one more source: --no-resume starts with the first one, and --start-position there",
    )
    NO_RESUME_AT = (
        "to leave the transaction out, start at {} with resumes=False",
        "to leave the transaction out: --start-position {} --no-resume",
    )
    EXCLUDE_GTIDS = (
        "exclude_gtids={} leaves the transaction out",
        "--exclude-gtids {} leaves the transaction out",
    )
    IDEMPOTENT = (
        "idempotent=True replaces an existing row and ignores a missing one",
        "--idempotent replaces an existing row and ignores a missing one",
    )
    NEW_GTIDS = (
        'gtids="new" lets the target assign new GTIDs',
        "--gtids new lets the target assign new GTIDs",
    )
    NO_KEPT_GTIDS = (
        'leave out gtids="keep"',
        "leave out --gtids keep",
    )
    EXPORT_KEY = (
        "give its columns as key=, or the table's definition as definitions=; columns= must have them; or leave it out",
        "give its columns with --key, or a definition with --table-definitions; or leave it out with --exclude-table",
    )
    LATEST_ALONE = (
        "leave out append=, partition_by=, condition=, and operations in where=",
        "leave out --append, --partition-by, and conditions on operations and values",
    )
    REPLACE_EXPORT = (
        "replace=True replaces the export",
        "--force instead of --append replaces the export",
    )
    EXPORT_DIRECTORY = (
        'a / at the end makes a directory of this name; format="duckdb" writes one file',
        "a / at the end makes a directory of this name; --format duckdb writes one file",
    )
    EXPORT_EXISTS = (
        "append=True continues it, replace=True replaces it",
        "--append continues it, --force replaces it",
    )
    APPLY_EVENTS = (
        "apply row events instead of SQL: applies_events=True",
        "apply row events instead of SQL: --apply events",
    )
    APPLY_SQL = (
        "compare the columns of {} in log and target; rows as SQL are converted if they fit: applies_events=False",
        "compare the columns of {} in log and target; rows as SQL are converted if they fit: --apply sql",
    )
    ROWS_AS_SQL = ("send rows as SQL: applies_events=False", "send rows as SQL: --apply sql")
    ON_LOSSY = (
        'change the column of the target, or let the server change values: on_lossy="warn"',
        "change the column of the target, or let the server change values: --on-lossy warn",
    )
    IGNORE_CASCADES = (
        "apply the log to a server that has the foreign keys, or set ignore_cascades=True and correct these rows",
        "apply the log to a server that has the foreign keys, or give --ignore-cascades and correct these rows",
    )
    ON_STATEMENT = (
        (
            'on_statement="stop" undoes only what follows the last such statement,'
            ' on_statement="skip" leaves statements as they are'
        ),
        (
            "--on-statement stop undoes only what follows the last such statement,"
            " --on-statement skip leaves statements as they are"
        ),
    )
    UNDO_AS_BINLOG = (
        "write the undo as a binary log (BinlogFile): a server applies the row events themselves",
        "write the undo as a binary log (--format binlog): a server applies the row events themselves",
    )
    UNDO_AS_SQL = (
        "write the undo as SQL (SqlScript)",
        "write the undo as SQL: leave out --format binlog",
    )
    ALL_TABLES = (
        (
            "select all tables of the statement or none, or leave its transaction out"
            " (exclude_gtids=, or stop before it and start after it)"
        ),
        (
            "select all tables of the statement or none, or leave its transaction out"
            " (--exclude-gtids, or stop before it and start after it)"
        ),
    )
    RECORD_ORDER = (
        "sort the records by file, pos and row, and give each task whole transactions",
        "sort the records by file, pos and row",
        "write pyspark_binlogio.in_transaction_order(df, n), which puts the records in order",
    )
    SERVER_VERSION = (
        "set server_version to a version of the other vendor",
        "give a version of the other vendor as server_version",
        "set option serverVersion to a version of the other vendor",
    )
    OVERWRITE = (
        "overwrite=True replaces the logs",
        "write to another directory",
        "mode overwrite replaces the logs",
    )

    def about(self, value: object) -> HintAbout:
        """Return the hint with the value for the `{}` in its text."""
        return HintAbout(self, str(value))

    def text(self, surface: Surface) -> str:
        """Return the text for a surface."""
        texts: tuple[str, ...] = self.value
        return texts[surface.value if surface.value < len(texts) else Surface.PYTHON.value]


@dataclass(frozen=True, slots=True)
class HintAbout:
    """A hint with the value for the `{}` in its text."""

    hint: Hint
    value: str

    def text(self, surface: Surface) -> str:
        """Return the text for a surface, with the value."""
        return self.hint.text(surface).format(self.value)


HintPart = str | Hint | HintAbout
Hints = HintPart | tuple[HintPart, ...]


def hints(hint: Hints | None) -> tuple[HintPart, ...]:
    """Return the parts of a hint."""
    if hint is None:
        return ()
    return hint if isinstance(hint, tuple) else (hint,)


def hint_text(hint: Hints, surface: Surface = Surface.PYTHON) -> str:
    """Return a hint as text; the parts of a tuple are joined by `; `."""
    return "; ".join(part if isinstance(part, str) else part.text(surface) for part in hints(hint))


class BinlogError(Exception):
    """The base class of all exceptions of binlogio; only subclasses are raised.

    `reason` describes the error. The other attributes are None if unknown: `file`, `offset` (bytes from the start of
    the file), `event_type` (the server's name), `field`, `expected`, `found`, and `hint` (what to do). The message
    contains the text of the hint for `surface`, which the command line and Spark set.
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str | None = None,
        offset: int | None = None,
        event_type: str | None = None,
        field: str | None = None,
        expected: object = None,
        found: object = None,
        hint: Hints | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = file
        self.offset = offset
        self.event_type = event_type
        self.field = field
        self.expected = expected
        self.found = found
        self.hint = hint
        self.surface = Surface.PYTHON

    def locate(self, *, file: str | None = None, offset: int | None = None, event_type: str | None = None) -> None:
        """Set attributes that only the caller knows; an attribute that is already set is not changed."""
        self.file = self.file if self.file is not None else file
        self.offset = self.offset if self.offset is not None else offset
        self.event_type = self.event_type if self.event_type is not None else event_type

    def __str__(self) -> str:
        where = " ".join(
            part
            for part in (
                f"{self.file}:" if self.file else "",
                f"at {self.offset}:" if self.offset is not None else "",
                f"{self.event_type}:" if self.event_type else "",
                f"{self.field}:" if self.field else "",
            )
            if part
        )
        text = f"{where} {self.reason}" if where else self.reason
        if self.expected is not None:
            text += f", expected {_show(self.expected)}"
        if self.found is not None:
            text += f", found {_show(self.found)}"
        if self.hint is not None:
            text += f" ({hint_text(self.hint, self.surface)})"
        return text

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.reason, dict(self.__dict__)))


def _show(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _rebuild(kind: type[BinlogError], reason: str, state: dict[str, Any]) -> BinlogError:
    error = kind.__new__(kind, reason)
    Exception.__init__(error, reason)
    error.__dict__.update(state)
    return error


class BinlogFormatError(BinlogError):
    """The bytes are not valid in the binary log format."""


class BadMagic(BinlogFormatError):
    """The file does not begin with the magic number of a binary log."""


class TruncatedEvent(BinlogFormatError):
    """The file ends in the middle of an event or an event group, although it is not being written."""


class ChecksumMismatch(BinlogFormatError):
    """The CRC32 stored at the end of an event differs from the CRC32 of the event's bytes."""

    def __init__(self, *, offset: int, expected: int, actual: int, event_type: str | None = None) -> None:
        super().__init__(
            "the event's checksum is wrong: the bytes were changed after the server wrote them",
            offset=offset,
            event_type=event_type,
            expected=f"0x{expected:08x}",
            found=f"0x{actual:08x}",
        )
        self.actual = actual


class MissingTableMap(BinlogFormatError):
    """A rows event refers to a table id that no earlier TABLE_MAP_EVENT defines."""


class UnsupportedFeature(BinlogError):
    """The input may be valid, but this version of binlogio, or this call with its arguments, does not support it."""


class MissingPackage(UnsupportedFeature):
    """An optional package is not installed. `extra` is the extra of binlogio that installs it."""

    def __init__(self, reason: str, *, extra: str) -> None:
        super().__init__(reason, hint=f"pip install 'binlogio[{extra}]'")


class MissingKernel(UnsupportedFeature):
    """The call needs the compiled kernel, which is not installed or is turned off."""


class UndecidedRows(UnsupportedFeature):
    """Rows cannot be compared with a condition, because the log does not have the column."""


class LoggingError(BinlogError):
    """The statement cannot be logged. `errno` and `symbol` are the server's error number and error symbol."""

    def __init__(self, reason: str, *, errno: int, symbol: str, hint: Hints | None = None) -> None:
        super().__init__(reason, hint=hint)
        self.errno = errno
        self.symbol = symbol

    def __str__(self) -> str:
        return f"ERROR {self.errno} ({self.symbol}): {super().__str__()}"


class CacheLimitExceeded(LoggingError):
    """A statement or transaction does not fit max_binlog_cache_size or max_binlog_stmt_cache_size.

    `at_statement_end` is True if the whole statement was executed before the error.
    """

    at_statement_end: bool = True


class WriterStateError(BinlogError):
    """Methods of the writer or of a session were called in an invalid order."""


class CommitOutcomeUnknown(WriterStateError):
    """A write to the log failed or was interrupted, and could not be rolled back.

    The group may or may not be in the log. The log accepts no more groups. Opening the log again runs crash recovery;
    reading it afterwards shows which groups it contains.
    """


class PositionError(BinlogError):
    """A position given by the caller is not the start of an event, or is in none of the logs."""


class ExportError(BinlogError):
    """An export cannot be made with these arguments, or into this target."""


class ConditionError(BinlogError):
    """A condition cannot be parsed, names a missing column, or compares with a value that the logs cannot have."""


class ReplayError(BinlogError):
    """A change cannot be applied to the target."""


class MissingLogs(BinlogError):
    """Logs or GTIDs are missing between the given logs, or between them and what a consumer already has."""


class ChangedLogs(BinlogError):
    """Logs are not those that a consumer has read: a new series (RESET), another server, or a changed copy."""


DAMAGES: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, BinlogError)
"""What the parser of a stored state may raise: the state is damaged."""
