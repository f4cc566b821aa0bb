"""Finds the XID of a transaction ahead of its rows: XID_EVENT is the last event.

A second reader reads ahead of the reader of the dump. In a seekable log it starts at the transaction. Other logs
(compressed or encrypted files) are read at most twice, because the transactions are requested in order. The kernel
finds the XIDs of the groups that it formats itself.
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

_NEAR: Final = 1 << 20  # shorter distances in bytes are read, not skipped


class XidsAhead:
    """Finds the XIDs of the current transactions of `reader`."""

    def __init__(self, reader: BinlogReader) -> None:
        self._reader = reader
        self._group: EventGroup | None = None  # the group of `_xid`
        self._xid: int | None = None
        self._ahead: BinlogReader | None = None

    @property
    def can_read_ahead(self) -> bool:
        """False for a stream, which can be read only once."""
        log = self._reader.log
        return log is not None and log.stream is None

    def xid(self) -> int | None:
        """Return the XID of the reader's transaction; None if it has none, or if there is damage before it."""
        group, log = self._reader.group, self._reader.log
        if group is None or log is None or not self.can_read_ahead:
            return None
        if group is not self._group:
            self._group = group
            try:
                self._xid = self._find(self._reader_ahead(log, group.begin), group.begin)
            except (BinlogError, OSError):  # the main reader reports it later
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
        self._ahead.pass_big_rows()
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
