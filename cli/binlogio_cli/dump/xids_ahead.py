"""Finds the XID of a transaction before the end of the transaction: XID_EVENT comes after the rows.

A second reader goes through the log ahead of the one that is dumped. It begins at the transaction where the log is
seekable; other logs (compressed or encrypted files) are read twice at most, since transactions come one after the
other. The kernel finds the XIDs of transactions that it writes as a whole by itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogError
from binlogio.events.control import XidEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.reader import BinlogReader

if TYPE_CHECKING:
    from binlogio.format.groups import EventGroup
    from binlogio.storage.log_file import LogFile

_NEAR: Final = 1 << 20  # bytes that are read on rather than skipped


class XidsAhead:
    """The XIDs of the transactions that `reader` is in."""

    def __init__(self, reader: BinlogReader) -> None:
        self._reader = reader
        self._group: EventGroup | None = None  # whose XID is known
        self._xid: int | None = None
        self._ahead: BinlogReader | None = None

    @property
    def can_read_ahead(self) -> bool:
        """False for a stream, which can be read only once."""
        log = self._reader.log
        return log is not None and log.stream is None

    def xid(self) -> int | None:
        """Return the XID of the reader's transaction; None where it has none, or damage is before it."""
        group, log = self._reader.group, self._reader.log
        if group is None or log is None or not self.can_read_ahead:
            return None
        if group is not self._group:
            self._group = group
            try:
                self._xid = self._find(self._reader_ahead(log, group.begin), group.begin)
            except (BinlogError, OSError):  # the reader itself gets there, and reports it
                self._xid = self._ahead = None
        return self._xid

    def _reader_ahead(self, log: LogFile, begin: int) -> BinlogReader:
        ahead = self._ahead
        if ahead is not None and ahead.logs == (log,):
            distance = begin - ahead.position.offset
            if distance >= 0 and (distance <= _NEAR or not self._reader.is_seekable):
                return ahead
        if ahead is not None:
            ahead.close()
        options = replace(self._reader.options, start_offset=begin, stop_offset=None)
        self._ahead = BinlogReader([log], options, keyring=self._reader.keyring)
        return self._ahead

    @staticmethod
    def _find(ahead: BinlogReader, begin: int) -> int | None:
        for event in ahead:
            group = ahead.group
            if group is None or group.begin < begin:
                continue
            if group.begin > begin:
                return None
            if isinstance(event, XidEvent):
                return event.xid
            if group.last is event and not isinstance(event, TransactionPayloadEvent):
                return None
        return None
