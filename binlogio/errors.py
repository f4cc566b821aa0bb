"""Every exception of binlogio, and nothing else.

Knows how to say where something went wrong, what was expected and what was found. Knows nothing of the format.

    BinlogError
      BinlogFormatError      the bytes are at fault
        BadMagic  TruncatedEvent  ChecksumMismatch  MissingTableMap
      UnsupportedFeature     the bytes are fine, this version (or this call, without a key) cannot read them
      LoggingError           the statement cannot be logged, with the server's error number and symbol
        CacheLimitExceeded
      WriterStateError       the writer was used in an order that makes no sense
        CommitOutcomeUnknown the group may or may not be in the log
      PositionError          a position that the caller gave is not the start of an event
      ReplayError            a change cannot be applied to the target

I/O errors stay `OSError`. All of these can be pickled (Spark carries them between processes).
"""

from __future__ import annotations

from typing import Any


class BinlogError(Exception):
    """What binlogio raises; catch this one to catch all. Never raised itself.

    `reason` says what is wrong. The other facts are None where unknown: `file`, `offset` (bytes from the start of the
    file), `event_type` (the server's name), `field`, `expected`, `found`, and `hint` (what to do).
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
        hint: str | None = None,
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

    def locate(self, *, file: str | None = None, offset: int | None = None, event_type: str | None = None) -> None:
        """Add facts that only an outer layer knows; a fact that is already there stays."""
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
            text += f" ({self.hint})"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.reason, dict(self.__dict__)))


def _show(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def _rebuild(kind: type[BinlogError], reason: str, state: dict[str, Any]) -> BinlogError:
    error = kind.__new__(kind, reason)
    Exception.__init__(error, reason)
    error.__dict__.update(state)
    return error


class BinlogFormatError(BinlogError):
    """The bytes are not what the format says."""


class BadMagic(BinlogFormatError):
    """The file does not begin like a binary log."""


class TruncatedEvent(BinlogFormatError):
    """The file ends in the middle of an event, and nothing says that it is still being written."""


class ChecksumMismatch(BinlogFormatError):
    """The CRC32 stored behind an event is not that of its bytes."""

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
    """A rows event refers to a table id that no TABLE_MAP_EVENT before it has defined."""


class UnsupportedFeature(BinlogError):
    """The bytes may be right, but this version of binlogio, or this call, cannot read or write them."""


class LoggingError(BinlogError):
    """The statement cannot be logged. `errno` and `symbol` are the server's."""

    def __init__(self, reason: str, *, errno: int, symbol: str, hint: str | None = None) -> None:
        super().__init__(reason, hint=hint)
        self.errno = errno
        self.symbol = symbol

    def __str__(self) -> str:
        return f"ERROR {self.errno} ({self.symbol}): {super().__str__()}"


class CacheLimitExceeded(LoggingError):
    """A statement or transaction does not fit max_binlog_cache_size or max_binlog_stmt_cache_size.

    `at_statement_end`: the statement had been executed as a whole.
    """

    at_statement_end: bool = True


class WriterStateError(BinlogError):
    """The writer or a session was used in an order that makes no sense."""


class CommitOutcomeUnknown(WriterStateError):
    """A write to the log failed, or was interrupted, and could not be undone: the group may or may not be in the log.

    The log accepts no more groups. Opening the log again recovers it, and shows which groups it contains.
    """


class PositionError(BinlogError):
    """A position that the caller gave is not the start of an event, or in none of the logs."""


class ReplayError(BinlogError):
    """A change cannot be applied to the target."""
