"""Sends the events of the served logs to a client: COM_BINLOG_DUMP and COM_BINLOG_DUMP_GTID.

    dump      := position: u32  flags: u16  server_id: u32  file: u8[*]           -- ends before its first zero byte
    dump_gtid := flags: u16  server_id: u32  file: u32_text  position: u64  gtids: u32_text
    stream    := (rotate format_description event*)*  (heartbeat | event)*  (eof | error)?

Each event is a packet after a byte 0. `rotate` names the log that follows; it is in no log. The format description is
that of the log, without the flag of a log in use; without position and time of creation if the client begins after it.

MySQL skips the transactions of the GTID set of the client. MariaDB skips those of each domain up to the GTID in
@slave_connect_state. A group that is not selected is skipped too; the client then has a gap.

Source: sql/rpl_binlog_sender.cc; sql/sql_repl.cc of MariaDB.
"""

from __future__ import annotations

import select
import socket
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from binlog_server.packets import PacketStream, PayloadReader, ProtocolError
from binlog_server.source_logs import FIRST, SourceLogs, fatal, flat, served_name
from binlogio.archive.copied_gtids import choose_groups
from binlogio.archive.event_batches import BEGINS, ENDS, IS_OUTSIDE, EventBatch, LogEvents
from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE, LOG_POS_BYTES, EventType, HeaderFlag
from binlogio.errors import BinlogError, ChangedLogs, PositionError, TruncatedEvent
from binlogio.events import codec_for
from binlogio.events.base import EventHeader, ParseContext, UnknownEvent
from binlogio.events.control import HEARTBEAT_V2, HEARTBEAT_V2_LOG_NAME, HEARTBEAT_V2_LOG_POSITION
from binlogio.events.mariadb import MariadbGtidListEvent, MariadbGtidListFlag
from binlogio.format.encoder import Encoder
from binlogio.format.event_starts import check_event_start
from binlogio.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidPosition, parse_gtid_set
from binlogio.selection.event_filter import like_numbers, parse_gtid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlogio.storage.log_file import LogFile

NON_BLOCKING: Final = 1  # flags of a dump: end at the end of the logs
ANNOTATED = HEARTBEATS_2 = 2  # MariaDB: send ANNOTATE_ROWS; MySQL: heartbeats whose positions have 64 bits
_CREATED: Final = slice(HEADER_SIZE + 2 + 50, HEADER_SIZE + 2 + 50 + 4)
_FLAGS: Final = slice(HEADER_SIZE - 2, HEADER_SIZE)
_LOW_BITS: Final = 0xFFFFFFFF
_CAPABLE: Final = 4  # MARIA_SLAVE_CAPABILITY_GTID
_NO_WAIT: Final = 86_400.0
_FIRST_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """What a client asks for. `gtids` is None for COM_BINLOG_DUMP."""

    file: str
    position: int
    flags: int
    server_id: int
    gtids: GtidSet | None = None

    @property
    def about(self) -> str:
        """What is asked for, as text."""
        if self.gtids is not None and not self.file:
            return f"what is not in '{flat(self.gtids)[:80]}'"
        return f"what follows {self.file or 'the first log'}:{self.position}"

    @classmethod
    def by_position(cls, payload: bytes) -> DumpRequest:
        """Parse COM_BINLOG_DUMP."""
        reader = PayloadReader(payload)
        position, flags, server_id = reader.number(4), reader.number(2), reader.number(4)
        return cls(reader.text().decode("utf-8", "replace"), position, flags, server_id)

    @classmethod
    def by_gtids(cls, payload: bytes) -> DumpRequest:
        """Parse COM_BINLOG_DUMP_GTID."""
        reader = PayloadReader(payload)
        flags, server_id = reader.number(2), reader.number(4)
        name, _, _ = reader.take(reader.number(4)).partition(b"\0")
        position = reader.number(8)
        try:
            gtids = parse_gtid_set(reader.take(reader.number(4)))
        except BinlogError as exc:
            raise ProtocolError(f"not a GTID set: {exc}") from exc
        return cls(name.decode("utf-8", "replace"), position, flags, server_id, gtids)


class Dump:
    """One stream of events to a client."""

    def __init__(
        self, logs: SourceLogs, packets: PacketStream, session: Mapping[str, str | None], request: DumpRequest
    ) -> None:
        self._logs, self._packets, self._request = logs, packets, request
        checksum, period = (
            session.get(f"@source_{name}") or session.get(f"@master_{name}") or ""
            for name in ("binlog_checksum", "heartbeat_period")
        )
        self._knows_checksums = bool(checksum)
        self._is_summed = checksum.upper() == "CRC32"  # artificial events have a checksum
        self._heartbeat_s = min(float(period) / 1e9, _NO_WAIT) if period.isdecimal() else 0.0
        self._sent_at = time.monotonic()
        self._position, self._until = (self._gtid_position(session, name) for name in ("connect_state", "until_gtid"))
        self._groups = _Groups(
            logs,
            request.gtids,
            self._position,
            None if self._position is None else self._until,
            is_strict=session.get("@slave_gtid_strict_mode") == "1",
        )
        self._is_capable = (session.get("@mariadb_slave_capability") or "0") >= str(_CAPABLE)
        self._skipped_to: int | None = None
        self._wake, self._woken = socket.socketpair()
        self._woken.settimeout(0)

    def _gtid_position(self, session: Mapping[str, str | None], name: str) -> MariadbGtidPosition | None:
        if not self._logs.is_mariadb or (text := session.get(f"@slave_{name}")) is None:
            return None
        try:
            return MariadbGtidPosition.parse(text)
        except BinlogError as exc:
            raise fatal(f"could not parse the GTID position of the slave: {exc}") from exc

    def run(self) -> None:
        """Send events until the client goes, or, if it does not wait, up to the end of the logs.

        Raises:
            ServerError: the client cannot continue with these logs.
            BinlogError: a log is damaged, or was purged.
            OSError, EOFError: the connection was lost.
        """
        with closing(self._wake), closing(self._woken):
            try:
                log, offset = self._start()
                following: LogFile | None = log
                while following is not None:
                    log = following
                    self._rotate(log, offset)
                    following = self._send(log, offset)
                    offset = FIRST
            finally:
                self._logs.forget(self._wake)
        self._packets.eof()

    def _start(self) -> tuple[LogFile, int]:
        logs, request = self._logs, self._request
        if logs.is_mariadb and request.gtids is not None:
            raise fatal("The logs are of MariaDB, and have no GTIDs of MySQL")
        if request.gtids is not None and not logs.has_gtids and len(logs.current()) > 1:
            raise fatal("The replication sender thread cannot start in AUTO_POSITION mode: the logs have no GTIDs")
        if logs.is_mariadb and not self._is_capable:
            raise fatal(f"The logs are of MariaDB: SET @mariadb_slave_capability={_CAPABLE} first, and know its events")
        if self._position is not None:
            log, offset = logs.after_position(self._position)
        elif request.gtids is not None and not request.file:
            log, offset = logs.after_gtids(request.gtids)
        else:
            log, offset = logs.at(request.file, request.position)
        if offset > FIRST:
            try:
                check_event_start(log, offset, logs.options.keyring)
            except PositionError as exc:
                logs.refuse_position(log, offset, str(exc))
        return log, offset

    # ------------------------------------------------------------------------------------------------------------- logs

    def _send(self, log: LogFile, offset: int) -> LogFile | None:
        """Send the events of a log from an offset on, also those that are added; return the log after it.

        None: the logs end here for a client that does not wait.
        """
        waits = not self._request.flags & NON_BLOCKING
        reader = _LogPart(log, offset)
        while True:
            if waits:
                self._logs.wait_on(self._wake)
            following = self._logs.after(log)  # before the read, so that no events are missed
            part_head = _first_bytes(log)
            if not part_head.startswith(reader.head):
                raise ChangedLogs("the log was replaced while it was served", file=log.name, offset=reader.at)
            reader.head = part_head
            try:
                with closing(
                    LogEvents(log, self._logs.options.read, self._logs.options.keyring, in_pieces=True)
                ) as events:
                    self._events(events, reader)
                    if events.is_open and not self._groups.is_over:
                        events.refuse_open_group(reader.at)
            except TruncatedEvent:
                if following is not None or not waits:
                    raise
            if self._groups.is_over:
                following = None
            if self._groups.is_until_reached:
                code = EventType.MARIADB_GTID_LIST_EVENT
                reached = MariadbGtidListEvent(tuple(self._until or ()), MariadbGtidListFlag.UNTIL_REACHED)
                pos = self._groups.until_at or reader.at
                self._artificial(code, codec_for(code).build(reached), log_pos=pos, flags=HeaderFlag.ARTIFICIAL)
                return None
            self._beat_after_skipped(log.name)
            known = self._position if self._request.gtids is None else self._request.gtids
            if following is not None and (known is not None or not reader.is_closed):
                self._logs.check_followed(log, following, known)
            if following is not None or not waits:
                return following
            self._wait(log, reader.at)

    def _events(self, events: LogEvents, part: _LogPart) -> None:
        """Send the whole events of a log that were not sent yet."""
        if not part.is_described:
            self._describe(events, part)
        if self._groups.is_over:
            return
        is_encrypted = (head := self._logs.head_of(events.name)) is None or head.is_encrypted
        if part.at > FIRST + len(events.head) and events.can_seek and not is_encrypted:
            if part.fingerprint not in (None, events.fingerprint(part.at)):
                raise ChangedLogs("the log was replaced while it was served", file=events.name, offset=part.at)
            events.go_to(part.at, part.shift, part.place)
        try:
            for batch in events.batches():
                left = part.rest_of(batch)
                if left is not None:
                    self._batch(left, events)
                    part.pass_to(left, events)
                if self._groups.is_over:
                    return
        except TruncatedEvent:
            part.fingerprint = events.fingerprint(part.at) if events.can_seek and not is_encrypted else None
            raise
        if events.can_seek and not is_encrypted:
            part.fingerprint = events.fingerprint(part.at)

    def _batch(self, batch: EventBatch, events: LogEvents) -> None:
        """Send the chosen events of a batch."""
        from binlogio._kernel.event_scanner import stamp_events  # noqa: PLC0415 - the kernel is optional

        count, chosen = self._groups.choose(batch, events)
        if self._request.gtids is not None:
            for number in np.flatnonzero(batch.codes[:count] == EventType.ANONYMOUS_GTID_LOG_EVENT)[:1].tolist():
                place = f"at file {events.name}, position {batch.offset + int(batch.starts[number])}"
                raise fatal(f"Cannot replicate anonymous transaction when AUTO_POSITION = 1, {place}")
        if self._logs.is_mariadb:
            is_unwanted = batch.codes[:count] == EventType.START_ENCRYPTION_EVENT
            if not self._request.flags & ANNOTATED:
                is_unwanted |= batch.codes[:count] == EventType.ANNOTATE_ROWS_EVENT
                # With log_pos 0, which servers write from 11.4 on, a replica adds sizes, and would lack those left out:
                # MariaDB itself refuses its position when it connects again in the middle of a group.
                if batch.is_placed and batch.body is None:
                    stamp_events(batch.data, batch.offset, checksum=events.context.has_checksum)
            if is_unwanted.any():
                chosen = ~is_unwanted if chosen is None else chosen & ~is_unwanted
        if batch.body is not None and (chosen is None or chosen[0]):
            self._beat_after_skipped(events.name)
            verify = self._logs.options.read.verify_checksum
            self._packets.write_large(_pieces(batch, verify=verify), 1 + int(batch.sizes[0]))
            self._sent_at = time.monotonic()
        elif chosen is None:
            self._run(batch, events.name, 0, count)
        else:
            bounds = np.flatnonzero(np.diff(chosen, prepend=~chosen[:1], append=~chosen[-1:])).tolist() if count else ()
            for first, stop in pairwise(bounds):
                if chosen[first]:
                    self._run(batch, events.name, first, stop)
                elif self._request.gtids is not None:
                    self._skipped_to = batch.offset + int(batch.starts[stop - 1]) + int(batch.sizes[stop - 1])
            self._beat_if_late(events.name, batch.offset)

    def _run(self, batch: EventBatch, name: str, first: int, stop: int) -> None:
        """Send events [first, stop)."""
        if stop > first:
            self._beat_after_skipped(name)
            self._packets.write_events(batch.data, batch.starts[first:stop], batch.sizes[first:stop])
            self._sent_at = time.monotonic()

    def _beat_after_skipped(self, name: str) -> None:
        """Send the position after transactions that a client of MySQL has."""
        if self._skipped_to is not None:
            self._beat(name, self._skipped_to)
            self._skipped_to = None

    # ------------------------------------------------------------------------------------------------ artificial events

    def _rotate(self, log: LogFile, offset: int) -> None:
        body = offset.to_bytes(8, "little") + served_name(log.name).encode()
        self._artificial(EventType.ROTATE_EVENT, body, flags=HeaderFlag.ARTIFICIAL)

    def _describe(self, events: LogEvents, part: _LogPart) -> None:
        """Send the format description of a log.

        Raises:
            ServerError: the client does not know checksums.
        """
        has_checksum = events.context.has_checksum
        if has_checksum and not self._knows_checksums:
            what = "Slave can not handle" if self._logs.is_mariadb else "Replica can not handle"
            who = "master" if self._logs.is_mariadb else "source"
            raise fatal(f"{what} replication events with the checksum that {who} is configured to log")
        self._is_summed = has_checksum
        self._groups.begin_log(events, part.at)
        event = bytearray(events.head)
        event[_FLAGS.start] &= ~HeaderFlag.BINLOG_IN_USE & 0xFF
        is_changed = part.at > FIRST
        if is_changed:
            event[LOG_POS_BYTES] = bytes(4)
        if is_changed or self._groups.skips_first:
            event[_CREATED] = bytes(4)
            if has_checksum:
                event[-CHECKSUM_SIZE:] = zlib.crc32(event[:-CHECKSUM_SIZE]).to_bytes(CHECKSUM_SIZE, "little")
        self._packets.write(b"\0" + bytes(event))
        part.is_described = True
        if part.at == FIRST:
            part.at += len(event)

    def _artificial(self, code: EventType, body: bytes, *, log_pos: int = 0, flags: int = 0) -> None:
        pos = log_pos & _LOW_BITS
        header = EventHeader(type_code=code, server_id=self._logs.server_id, log_pos=pos, flags=flags)
        context = ParseContext(checksum_algorithm=int(self._is_summed))
        self._packets.write(b"\0" + Encoder(context).encode(UnknownEvent(body, header)))
        self._sent_at = time.monotonic()

    def _beat(self, name: str, offset: int) -> None:
        """Send a heartbeat: the client has all events before this offset."""
        log = served_name(name).encode()
        if self._logs.is_mariadb:
            is_far = offset > _LOW_BITS  # a position that does not fit is before the name
            body = offset.to_bytes(8, "little") + log if is_far else log
            self._artificial(EventType.HEARTBEAT_LOG_EVENT, body, log_pos=0 if is_far else offset)
        elif self._request.flags & HEARTBEATS_2:
            fields = (HEARTBEAT_V2_LOG_NAME, log), (HEARTBEAT_V2_LOG_POSITION, offset)
            self._artificial(EventType.HEARTBEAT_LOG_EVENT_V2, HEARTBEAT_V2.build({"fields": fields}))
        else:
            self._artificial(EventType.HEARTBEAT_LOG_EVENT, log, log_pos=offset)

    def _beat_if_late(self, name: str, offset: int) -> None:
        if self._heartbeat_s and time.monotonic() >= self._sent_at + self._heartbeat_s:
            self._beat(name, offset)

    def _wait(self, log: LogFile, offset: int) -> None:
        """Wait until the logs change; send heartbeats meanwhile.

        Raises:
            EOFError: the client has closed the connection, or says something.
        """
        if self._groups.is_over:
            self._logs.forget(self._wake)
        connection = self._packets.connection
        while True:
            late = self._sent_at + self._heartbeat_s - time.monotonic() if self._heartbeat_s else _NO_WAIT
            ready, _, _ = select.select([connection, self._woken], [], [], max(0.0, late))
            if connection in ready:
                raise EOFError
            if self._woken in ready:
                with suppress(BlockingIOError):
                    self._woken.recv(64)
                return
            self._beat_if_late(log.name, offset)


def _first_bytes(log: LogFile) -> bytes:
    """Return the first bytes of a local file, without the flags of the format description."""
    if log.filesystem is not None:
        return b""
    with open(log.name, "rb") as file:  # noqa: PTH123 - names the file in its error
        data = bytearray(file.read(_FIRST_BYTES))
    data[FIRST + _FLAGS.start : FIRST + _FLAGS.stop] = b""
    return bytes(data)


class _LogPart:
    """How far a log was sent."""

    def __init__(self, log: LogFile, at: int) -> None:
        self.log, self.at = log, at
        self.shift = self.place = 0
        self.is_described = self.is_closed = False
        self.fingerprint: str | None = None  # of what was sent
        self.head = b""  # the first bytes of the file, which an encrypted log has for itself

    def rest_of(self, batch: EventBatch) -> EventBatch | None:
        """Return the events of a batch that were not sent; None: all were."""
        if batch.offset >= self.at:
            return batch
        number = int(np.searchsorted(batch.starts + batch.offset, self.at))
        return batch.since(number) if number < len(batch.starts) else None

    def pass_to(self, batch: EventBatch, events: LogEvents) -> None:
        """Note that a batch was sent."""
        size = int(batch.starts[-1]) + int(batch.sizes[-1])
        log_pos = int.from_bytes(batch.data[int(batch.starts[-1]) :][LOG_POS_BYTES], "little")
        self.at = batch.offset + size
        self.is_closed = batch.codes[-1] in (EventType.ROTATE_EVENT, EventType.STOP_EVENT)
        self.place = events.place
        if log_pos:
            self.shift = (log_pos - self.at) & _LOW_BITS


class _Groups:
    """Which groups are sent: those that the client does not have, and that are selected."""

    def __init__(
        self,
        logs: SourceLogs,
        known: GtidSet | None,
        position: MariadbGtidPosition | None,
        until: MariadbGtidPosition | None,
        *,
        is_strict: bool,
    ) -> None:
        self._logs, self._selection = logs, logs.options.selection.of_groups
        self._known = known
        self._skipped = {} if position is None else {gtid.domain_id: gtid for gtid in position}
        # In a domain that is in no log yet, the GTID of the client was not looked up.
        self._absent = self._skipped.keys() - {domain for domain, _ in logs.state()} if self._skipped else set[int]()
        self._until: dict[int, MariadbGtid] | None = None  # the last GTID of domains that are sent
        if until is not None:
            last = {domain: gtid.sequence_number for domain, gtid in self._skipped.items()}
            self._until = {one.domain_id: one for one in until if last.get(one.domain_id, 0) < one.sequence_number}
        self.is_until_reached, self.until_at = self._until == {}, 0
        self._is_strict = is_strict
        self._is_first = True
        self._is_sent = True  # the group that continues in the next batch
        self._looks = False
        self._stop: int | None = None
        self.is_over = False
        self.skips_first = False

    def begin_log(self, events: LogEvents, offset: int) -> None:
        """Begin a log at an offset."""
        head = self._logs.head_of(events.name)
        before = None if head is None else head.gtids_before()
        if self._is_first and isinstance(before, dict):
            latest = {domain: gtid for (domain, _), gtid in before.items()}  # the last one of a domain is listed last
            self._skipped = {one: gtid for one, gtid in self._skipped.items() if latest.get(one) != gtid}
        self._is_first = False
        known = self._known
        if isinstance(known, GtidSet) and isinstance(before, GtidSet) and known.issubset(before):
            known = self._known = None
        self._stop = self._logs.stop_in(events.name)
        self.is_over = self.is_until_reached or (self._stop is not None and offset >= self._stop)
        first = None if head is None or head.first_gtid is None or not known else parse_gtid(head.first_gtid)
        self.skips_first = isinstance(first, Gtid) and known is not None and first in known
        self._asks = bool(self._selection.asks_for_gtids or known or self._skipped or self._until is not None)
        self._looks = self._asks or bool(self._selection) or self._stop is not None

    def choose(self, batch: EventBatch, events: LogEvents) -> tuple[int, NDArray[np.bool_] | None]:
        """Return how many events there are before the end, and which of them are sent; None: all."""
        count = len(batch.codes)
        if not self._looks:
            return count, None
        begins = np.flatnonzero(batch.edges & BEGINS)
        ask = self._ask if self._asks else None
        answers = choose_groups(batch, begins, self._selection, events.context, stop=self._stop, ask=ask)
        if len(answers) < len(begins):
            self.is_over, count = True, int(begins[len(answers)])
        choices = np.array([self._is_sent, *answers])
        self._is_sent = bool(choices[-1])
        group = np.cumsum(batch.edges[:count] & BEGINS != 0)
        if self._until == {} and (not self._is_sent or batch.edges[-1] & (ENDS | IS_OUTSIDE)):
            self.is_over = self.is_until_reached = True
            ends = np.flatnonzero(choices[group] & (batch.edges[:count] & ENDS != 0))
            count = int(ends[-1]) + 1 if len(ends) else 0
            group = group[:count]
            self.until_at = batch.offset + int((batch.starts + batch.sizes)[count - 1]) if count else 0
        if choices.all():
            return count, None
        return count, choices[group] | (batch.edges[:count] & IS_OUTSIDE != 0)

    def _ask(self, gtid: Gtid | MariadbGtid | None) -> tuple[bool, int, int]:
        """Return whether a transaction is sent, and the first and last number of its source with the same answer."""
        first, last = like_numbers(gtid, self._known, *self._selection.gtids)
        start = self._skipped.get(gtid.domain_id) if isinstance(gtid, MariadbGtid) else None
        if isinstance(gtid, MariadbGtid) and start is not None and gtid.server_id == start.server_id:
            last = min(last, max(gtid.sequence_number, start.sequence_number - 1))
        is_new = self._is_new(gtid)
        if self._until is not None and isinstance(gtid, MariadbGtid):
            end = self._until.get(gtid.domain_id)
            if end is not None and end.server_id == gtid.server_id:
                last = min(last, max(gtid.sequence_number, end.sequence_number - 1))
                if gtid.sequence_number >= end.sequence_number:
                    del self._until[gtid.domain_id]
            is_late = end is None or (end.server_id == gtid.server_id and gtid.sequence_number > end.sequence_number)
            is_new &= not is_late
        return is_new and self._selection.wants_gtid(gtid), first, last

    def _is_new(self, gtid: Gtid | MariadbGtid | None) -> bool:
        """Return whether the client does not have a transaction.

        Raises:
            ServerError: the GTID at which the client wants to begin is missing (strict mode of MariaDB).
        """
        if isinstance(gtid, MariadbGtid):
            start = self._skipped.get(gtid.domain_id)
            if start is None or start.server_id != gtid.server_id or gtid.sequence_number < start.sequence_number:
                if start is not None and gtid.domain_id in self._absent:
                    what = f"GTID {start}, which is not in the master's binlog"
                    raise fatal(f"Error: connecting slave requested to start from {what}")
                return start is None
            if self._is_strict and gtid != start:
                raise fatal(
                    f"The binlog on the master is missing the GTID {start} requested by the slave (even though a "
                    "subsequent sequence number does exist), and GTID strict mode is enabled"
                )
            del self._skipped[gtid.domain_id]
            return gtid != start
        return not (isinstance(gtid, Gtid) and self._known is not None and gtid in self._known)


def _pieces(batch: EventBatch, *, verify: bool) -> Iterator[bytes | memoryview]:
    """Yield an event; one with a wrong checksum stays incomplete.

    Raises:
        OSError: the checksum differs. No error can be sent in the middle of a packet.
    """
    yield b"\0" + bytes(batch.data[:HEADER_SIZE])
    if batch.body is not None:
        yield from batch.body
        stored = batch.body.stored
        if verify and stored and int.from_bytes(stored, "little") != batch.body.checksum:
            raise OSError(f"the event at {batch.offset} has a wrong checksum; `binlogio verify` says more")
        yield stored
