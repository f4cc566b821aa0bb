"""Walks the logs of an archive with the kernel's survey, decompresses and decrypts events, and skips damage.

The kernel checks the chain of events, checksums and the grammar of groups, and counts. Events of rare types are parsed
in Python. After damage the walk continues at the next verified event: its log_pos agrees with its place, and its
checksum is right or, in a log without checksums, the next headers agree as well. `verify` and `stats` report the
results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from binlogio._kernel.event_scanner import (
    GROUP_FIELDS,
    RUN_FIELDS,
    SURVEY_BAD_CHECKSUM,
    SURVEY_BAD_SIZE,
    SURVEY_DESCRIPTION,
    SURVEY_FULL,
    SURVEY_LOOK,
    SURVEY_NEED_DATA,
    LogSurvey,
)
from binlogio._kernel.primitives import crc32_of
from binlogio.archive.event_batches import likely_headers
from binlogio.archive.observer import Damage, GtidRun, LogEnd
from binlogio.columnar.batches.records import TableRecords
from binlogio.columnar.fallback import ROWS_TYPES
from binlogio.columnar.walk.table_plans import KnownPlan
from binlogio.columnar.windows import Window
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, EVENT_SIZE_BYTES, HEADER_SIZE, EventType
from binlogio.errors import BinlogError, BinlogFormatError, ChecksumMismatch, TruncatedEvent
from binlogio.events import EVENT_CODECS
from binlogio.events.base import EventHeader, event_name, parse_header
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.decoder import Decoder, plain_payload
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.format.groups import frames_changes
from binlogio.gtid.sets import Interval
from binlogio.options import DEFAULT_LIMITS
from binlogio.reader import mariadb_decryptor_for
from binlogio.rows.cut_images import rows_of
from binlogio.schema.source import DefinitionSource, depends_on_definitions
from binlogio.storage.compression import ZstdFrames, decompress_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio._kernel.event_scanner import ImagePlan
    from binlogio.archive.observer import SurveyObserver
    from binlogio.columnar.row_choice import RowChoice
    from binlogio.events import BinlogEvent, RowsEvent
    from binlogio.events.base import ParseContext
    from binlogio.format.framing import Decryptor
    from binlogio.group_choice import GroupChoice
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.given import GivenDefinitions
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

FIELD: Final = {name: number for number, name in enumerate(GROUP_FIELDS)}
"""Group record columns: name -> index."""
IS_ENDED: Final = 1
IS_COMPRESSED: Final = 2

_TAKEN_BY_KERNEL: Final = frozenset(
    {
        EventType.QUERY_EVENT,
        EventType.XID_EVENT,
        EventType.TABLE_MAP_EVENT,
        EventType.INTVAR_EVENT,
        EventType.RAND_EVENT,
        EventType.GTID_LOG_EVENT,
        EventType.ANONYMOUS_GTID_LOG_EVENT,
        EventType.GTID_TAGGED_LOG_EVENT,
        EventType.MARIADB_GTID_EVENT,
        EventType.ROWS_QUERY_LOG_EVENT,
        EventType.ANNOTATE_ROWS_EVENT,
        *range(EventType.PRE_GA_WRITE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT_V1 + 1),
        *range(EventType.WRITE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT + 1),
        EventType.PARTIAL_UPDATE_ROWS_EVENT,
        *range(EventType.WRITE_ROWS_COMPRESSED_EVENT_V1, EventType.DELETE_ROWS_COMPRESSED_EVENT + 1),
    }
)
LOOKED_AT: Final = frozenset(range(256)) - _TAKEN_BY_KERNEL
_MOST_AT_ONCE: Final = 64 << 20  # largest event in bytes held in memory, except compressed transactions
_PART: Final = 1 << 17  # bytes of a larger event that are read at first
_MOST_RESUMED: Final = 1 << 20  # largest event in bytes at which a walk continues after damage
_MOST_SMALL_PAYLOAD: Final = 1 << 22  # uncompressed bytes of a payload that is decompressed in one call
_USUAL_TABLE_MAP: Final = 8  # post-header size in bytes
_MOST_SUMMED: Final = 64 << 20  # bytes of candidate events whose checksums are compared per window
_LOW_BITS: Final = 0xFFFFFFFF
_CHAIN: Final = 3  # headers that must agree in a log without checksums


class UnusualFormatError(Exception):
    """The kernel does not support logs of this format."""


class ArchiveSurvey:
    """A survey of logs, one after the other. Counts accumulate over all logs.

    Args:
        keyring: the keys of encrypted logs.
        counts: count groups and rows, and check that row images fit their tables.
        key_of: see `LogSurvey`.
        definitions: table definitions given by the caller.
        on_read: called with the name of a log and the offset up to which it was read.

    `assumed` has the tables with old temporal columns of MariaDB whose number of fraction digits neither a definition
    nor a statement gives: 0 digits are assumed.
    """

    def __init__(
        self,
        keyring: Keyring | None,
        *,
        counts: bool,
        key_of: Callable[[object], bytes] | None = None,
        definitions: GivenDefinitions | None = None,
        on_read: Callable[[str, int], object] | None = None,
    ) -> None:
        self.on_read: Final = on_read
        self.assumed: Final[dict[str, None]] = {}
        self._keyring = keyring
        self._plans: dict[tuple[bool, str, bytes], tuple[KnownPlan, ImagePlan]] = {}
        self.counts: Final = counts
        self._definitions = DefinitionSource(definitions, follows_ddl=counts)
        self._context: ParseContext | None = None
        self._zstd = ZstdFrames()
        self._groups: GroupChoice | None = None
        self._rows: RowChoice | None = None
        self.kernel: Final = LogSurvey(
            self._resolve,
            LOOKED_AT,
            counts=counts,
            opened_size=DEFAULT_LIMITS.opened_size,
            key_of=key_of,
            follow=self.follow if counts else None,
        )

    def choose(self, groups: GroupChoice, rows: RowChoice | None) -> None:
        """Count only the selected event groups and changes, as `LogSurvey.choose`."""
        self._groups, self._rows = groups, rows
        asks = rows is not None and rows.condition is not None
        self.kernel.choose(
            groups.compiled(),
            operations=None if rows is None else rows.operations,
            ask_rows=self._selected_rows if asks else None,
        )

    def _selected_rows(self, plan: TablePlan, code: int, body: bytes, offset: int) -> tuple[int, int] | None:
        """Return the number of selected rows of an event and their bytes; None: all rows are selected."""
        if self._rows is None or self._context is None:
            return None
        event: RowsEvent = EVENT_CODECS[code].parse(EventHeader(type_code=code, offset=offset), body, self._context)
        found = self._rows.of(event, plan)
        if found is event:
            return None
        return (0, 0) if found is None else (len(rows_of(found, plan)), len(found.images))

    def judge(self, event: BinlogEvent) -> None:
        """Report a selected statement in an event that the kernel does not parse to the kernel."""
        if self._groups is None or self._rows is not None or not isinstance(event, (QueryEvent, ExecuteLoadQueryEvent)):
            return
        if not frames_changes(event.sql) and self._groups.wants_statement(event.schema, event.sql):
            self.kernel.take_change()

    def walk(self, log: LogFile, observer: SurveyObserver) -> LogEnd:
        """Walk a log to its end.

        Raises:
            BadMagic: the file is not a binary log.
            UnsupportedFeature: the log is encrypted, and the key is missing.
            UnusualFormatError: the kernel does not support its format.
            OSError: the log cannot be read.
            BinlogFormatError: its head is damaged.
        """
        opened = log.open(self._keyring)
        self._definitions.begin_log(log.name)
        try:
            return _LogWalk(self, log, opened, observer, self._keyring).run()
        finally:
            opened.close()

    def begin_format(self, context: ParseContext, *, has_positions: bool) -> None:
        """Set the format of the next events."""
        is_other = self._context is None or (
            self._context.is_mariadb != context.is_mariadb or self._context.server_version != context.server_version
        )
        self._context = context
        self.kernel.begin_log(checksum=context.has_checksum, has_positions=has_positions, forgets_tables=is_other)

    def follow(self, code: int, body: bytes) -> bool:
        """Follow a statement that may define a table. Returns True if cached plans may be out of date."""
        return self._context is not None and self._definitions.follow_body(code, body, self._context)

    def resume(self) -> None:
        """Continue after damage, in which statements may have been lost."""
        self._definitions.forget_statements()
        self.kernel.resume()

    def _resolve(self, body: bytes) -> ImagePlan | None:
        """Return the kernel's plan of a table map; None if the table map is invalid."""
        context = self._context
        if context is None:
            return None
        key = context.is_mariadb, context.server_version, body[6:]
        known, images = self._plans.get(key, (None, None))
        if known is not None and known.holds(self._definitions):
            return images
        try:
            found = self._plan(body, context)
        except BinlogError:
            return None
        if known is None or images is None or found.plan != known.plan:
            images = TableRecords.skipped(found.plan)
        self._plans[key] = found, images
        return images

    def _plan(self, body: bytes, context: ParseContext) -> KnownPlan:
        header = EventHeader(type_code=EventType.TABLE_MAP_EVENT)
        event = EVENT_CODECS[EventType.TABLE_MAP_EVENT].parse(header, body, context)
        belied = self._definitions.belied
        plan = self._definitions.plan(event, context)
        if self._definitions.belied > belied:
            self.kernel.forget_tables()
        if any(column.fsp_assumed for column in plan.columns):
            self.assumed[f"{event.schema}.{event.table}"] = None
        by_statements = depends_on_definitions(event, context)
        known = self._definitions.known(event.schema, event.table)
        return KnownPlan(plan, is_wanted=True, by_statements=by_statements, known=known)

    def payload(self, event: TransactionPayloadEvent, context: ParseContext) -> None:
        """Walk the events in a compressed transaction.

        Raises:
            BinlogError: it cannot be decompressed, or its content is not a sequence of whole events.
        """
        size = event.uncompressed_size
        plain = None
        if event.compression_type == 0 and size <= _MOST_SMALL_PAYLOAD:
            plain = self._zstd.decompress(event.payload, size)
        chunks: Iterator[bytes] = iter(()) if plain is None else iter((plain,))
        if plain is None:
            chunks = plain_payload(event, decompress_zstd)
        self.kernel.begin_payload()
        left, total = bytearray(), 0
        try:
            for chunk in chunks:
                left += chunk
                total += len(chunk)
                if total > context.limits.opened_size:
                    raise BinlogFormatError(
                        "the payload opens to more bytes than the limit", offset=event.header.offset
                    )
                del left[: self.kernel.walk_payload(left, event.header.offset)]
        finally:
            self.kernel.end_payload()
        if left or total != size:
            raise BinlogFormatError(
                "the plain bytes of the payload are no whole events",
                offset=event.header.offset,
                event_type=EventType.TRANSACTION_PAYLOAD_EVENT.name,
                expected=size,
                found=total - len(left),
            )


class _LogWalk:
    """The walk over one log."""

    def __init__(
        self, survey: ArchiveSurvey, log: LogFile, opened: OpenedLog, observer: SurveyObserver, keyring: Keyring | None
    ) -> None:
        self._survey = survey
        self._kernel = survey.kernel
        self._log = log
        self._opened = opened
        self._observer = observer
        self._window = Window(opened.read, readinto=opened.readinto)
        self._framer = EventFramer(decryptor_for=mariadb_decryptor_for(keyring))
        self._decoder = Decoder(decompress=None)
        self._context = self._framer.context
        self._in_use = False
        self._is_relay = False
        self._decrypt: Decryptor | None = None
        self._keyring = keyring
        self._torn: tuple[int, int] | None = None  # offset and size of the bytes after the last whole event

    def run(self) -> LogEnd:
        """Walk the log to its end."""
        window = self._window
        try:
            self._head()
            while not self._kernel.is_over:
                if self._decrypt is not None:
                    if not self._next_encrypted(self._decrypt):
                        self._is_at_end()
                        break
                    continue
                status, at = self._kernel.walk(window.view, 0, window.offset)
                self._report(at)
                window.take(at)
                if self._survey.on_read is not None:
                    self._survey.on_read(self._log.name, window.offset)
                if status == SURVEY_NEED_DATA:
                    if not self._more() and self._is_at_end():
                        break
                elif status != SURVEY_FULL:
                    self._stopped(status)
            offset, size = self._torn or (window.offset, 0)
            is_open = self._kernel.in_group and not self._is_relay  # a group may continue in the next relay log
            group = self._kernel.group_begin if is_open else None
            return LogEnd(offset=offset, in_use=self._in_use, torn_size=size, open_group=group)
        finally:
            self._kernel.end_log()
            self._report(0)
            window.close()

    def _head(self) -> None:
        """Read the magic and the format description.

        Raises:
            BinlogError: the file does not begin with them.
        """
        window = self._window
        window.fill(len(BINLOG_MAGIC) + HEADER_SIZE)
        self._framer.feed(bytes(window.view[: len(BINLOG_MAGIC)]))
        if window.held < len(BINLOG_MAGIC) + HEADER_SIZE:
            self._framer.finish()
        self._framer.next_frame()  # checks the magic
        window.take(len(BINLOG_MAGIC))
        size = _event_size(window.view)
        if not HEADER_SIZE <= size <= _MOST_RESUMED or not window.fill(size):
            raise TruncatedEvent("the log ends before the end of its format description", offset=window.offset)
        raw = bytes(window.view[:size])
        self._framer.feed(raw)
        try:
            frame = self._framer.next_frame()
        except ChecksumMismatch as exc:
            self._damaged(window.offset, window.offset + size, f"{exc.event_type}: {exc.reason}")
            self._framer = EventFramer(verify_checksum=False, decryptor_for=mariadb_decryptor_for(self._keyring))
            self._framer.feed(BINLOG_MAGIC + raw)
            frame = self._framer.next_frame()
        if not isinstance(frame, EventFrame):
            raise TruncatedEvent("the log ends before the end of its format description", offset=window.offset)
        self._describe(frame)
        self._observer.format(frame)
        if not self._is_usual:
            raise UnusualFormatError
        self._kernel.walk(raw, 0, window.offset, looked=True)
        window.take(size)

    def _describe(self, frame: EventFrame) -> None:
        self._context = frame.context
        self._in_use = self._framer.in_use
        self._is_relay = self._framer.is_relay_log
        self._survey.begin_format(frame.context, has_positions=not self._is_relay)

    @property
    def _is_usual(self) -> bool:
        """True if the kernel supports the format of the events."""
        context = self._context
        return (
            context.binlog_version == BINLOG_VERSION
            and context.header_size == HEADER_SIZE
            and not context.permutation
            and context.post_header_size(EventType.TABLE_MAP_EVENT, _USUAL_TABLE_MAP) == _USUAL_TABLE_MAP
        )

    def _report(self, at: int) -> None:
        """Pass groups and problems of the events up to byte `at` of the window to the observer."""
        for name, offset, value in self._kernel.take_problems():
            self._observer.problem(name, offset, value)
        ended, runs = self._kernel.take_runs()
        if ended or len(runs):
            sources = self._kernel.sources
            self._observer.gtids(
                ended,
                [
                    GtidRun(sources[source], Interval(first, last + 1), begin)
                    for source, first, last, begin in zip(
                        *[iter(memoryview(runs).cast("Q"))] * len(RUN_FIELDS), strict=True
                    )
                ],
            )
        records = np.frombuffer(memoryview(self._kernel.take_groups()), np.int64).reshape(-1, len(GROUP_FIELDS))
        if len(records):
            self._observer.groups(records, self._window.view[:at], self._window.offset)

    def _more(self) -> bool:
        """Read more of the event at the start of the window, or consume a very large one in parts. False at the end."""
        window = self._window
        size = _event_size(window.view) if window.held >= HEADER_SIZE else HEADER_SIZE
        if size <= _MOST_AT_ONCE or window.view[4] == EventType.TRANSACTION_PAYLOAD_EVENT:
            left = self._left()
            return (left is None or size <= left) and window.fill(max(size, window.held + 1))
        return self._take_in_parts(size)

    def _left(self) -> int | None:
        """Return the number of bytes from the start of the window to the end of the log; None if unknown."""
        if not self._opened.seekable:
            return None
        opened, window = self._opened, self._window
        left = opened.end() - window.offset
        opened.seek(window.offset + window.held)
        return left

    def _take_in_parts(self, size: int) -> bool:
        """Consume an event of `size` bytes without holding it in memory; False if the log ends in it."""
        window = self._window
        left = self._left()
        if (left is not None and left < size) or not window.fill(_PART):
            return False
        begin, head = window.offset, bytes(window.view[:_PART])
        tail = CHECKSUM_SIZE if self._context.has_checksum else 0
        summed, done, last = 0, 0, b""
        while done < size:
            if not window.fill():
                self._damaged(begin, window.offset, "the log ends in a large event")
                return False
            part = window.view[: min(window.held, size - done)]
            plain = part[: max(0, size - tail - done)]
            summed = crc32_of(plain, summed)
            last = (last + bytes(part[len(plain) :]))[-CHECKSUM_SIZE:]
            done += len(part)
            window.take(len(part))
        if tail and summed != int.from_bytes(last, "little"):
            reason = f"checksum of {event_name(head[4])}: expected 0x{int.from_bytes(last, 'little'):08x}"
            self._damaged(begin, begin + size, f"{reason}, found 0x{summed:08x}")
        else:
            self._kernel.take_part(head, begin)
            if self._survey.counts and head[4] in ROWS_TYPES:
                self._observer.problem("large rows", begin, head[4])
        return True

    def _stopped(self, status: int) -> None:
        """Handle the event at the start of the window at which the kernel stopped."""
        window = self._window
        size = _event_size(window.view)
        if status in (SURVEY_DESCRIPTION, SURVEY_LOOK):
            raw = bytes(window.view[:size])
            if self._look(raw):
                self._kernel.walk(raw, 0, window.offset, looked=True)
                self._report(size)
                window.take(size)
            else:
                window.take(size)
        elif status == SURVEY_BAD_CHECKSUM:
            reason = (
                f"checksum of {event_name(window.view[4])}: expected 0x{self._kernel.stored:08x},"
                f" found 0x{self._kernel.actual:08x}"
            )
            if self._header_follows(size):
                self._damaged(window.offset, window.offset + size, reason)
                window.take(size)
            else:
                self._resynchronise(reason)
        elif status == SURVEY_BAD_SIZE:
            self._resynchronise(f"impossible event size {size}")

    def _look(self, raw: bytes) -> bool:
        """Parse an event of a rare type; False if it is damaged."""
        offset = self._window.offset
        try:
            if raw[4] in (EventType.FORMAT_DESCRIPTION_EVENT, EventType.START_EVENT_V3):
                self._framer.feed(raw)
                frame = self._framer.next_frame()
                if isinstance(frame, EventFrame):
                    self._describe(frame)
                return True
            frame = EventFrame.of(parse_header(raw, offset, self._context), raw, self._context)
            (event,) = self._decoder.decode(frame)
            if raw[4] == EventType.START_ENCRYPTION_EVENT:
                self._framer.feed(raw)
                self._framer.next_frame()
                self._decrypt = mariadb_decryptor_for(self._keyring)(event)  # type: ignore[arg-type]
            if raw[4] == EventType.QUERY_COMPRESSED_EVENT:
                self._kernel.define(raw[4], frame.body)
            if isinstance(event, TransactionPayloadEvent):
                self._survey.payload(event, self._context)
        except BinlogFormatError as exc:
            exc.offset = exc.event_type = None
            self._damaged(offset, offset + len(raw), f"{event_name(raw[4])}: {exc}")
            return False
        self._survey.judge(event)
        self._observer.event(event)
        return True

    def _next_encrypted(self, decrypt: Decryptor) -> bool:
        """Take the next event of a log encrypted by MariaDB, where only the event size is plain; False at the end."""
        window = self._window
        if not window.fill(HEADER_SIZE):
            return False
        size = _event_size(window.view)
        if not HEADER_SIZE <= size <= DEFAULT_LIMITS.event_size:
            self._damaged_to_end(f"impossible event size {size} of an encrypted event")
            return False
        if not window.fill(size):
            return False
        offset, stored = window.offset, bytes(window.view[:size])
        raw = decrypt(offset, stored)
        if raw is stored:  # `mariadb-binlog --raw` has decrypted the events
            self._decrypt = None
            return True
        status, at = self._kernel.walk(raw, 0, offset)
        if status in (SURVEY_LOOK, SURVEY_DESCRIPTION) and at == 0:
            if not self._look(raw):
                window.take(size)
                return True
            self._kernel.walk(raw, 0, offset, looked=True)
        elif status in (SURVEY_BAD_CHECKSUM, SURVEY_BAD_SIZE) and at == 0:
            reason = "an encrypted event has a wrong checksum, or the key is wrong"
            self._damaged(offset, offset + size, reason)
        self._report(0)
        window.take(size)
        return True

    def _damaged_to_end(self, reason: str) -> None:
        window = self._window
        begin = window.offset
        while window.fill():
            window.take(window.held)
        self._damaged(begin, window.offset, reason)

    def _damaged(self, begin: int, end: int, reason: str) -> None:
        """Report a damaged range; the walk continues after it."""
        self._observer.damage(Damage(begin=begin, end=end, reason=reason))
        self._survey.resume()

    def _header_follows(self, size: int) -> bool:
        """Return whether a valid header, or the end of the log, is `size` bytes after the start of the window."""
        window = self._window
        if not window.fill(size + HEADER_SIZE):
            return window.held == size
        header = parse_header(bytes(window.view[size : size + HEADER_SIZE]), window.offset + size, self._context)
        if header.event_size < HEADER_SIZE + CHECKSUM_SIZE * self._context.has_checksum:
            return False
        return self._is_relay or header.log_pos in (0, (header.offset + header.event_size) & _LOW_BITS)

    def _resynchronise(self, reason: str) -> None:
        """Move the window to the next verified event, and report the bytes before it as damage."""
        window = self._window
        begin = window.offset
        window.fill(HEADER_SIZE)
        is_empty = self._in_use and not any(window.view)
        is_found = self._search()
        if is_empty and not is_found:
            self._torn = begin, window.offset - begin
            return
        self._damaged(begin, window.offset, reason)

    def _is_at_end(self) -> bool:
        """Handle the bytes after the last whole event; False if another event follows them."""
        window = self._window
        if not window.held:
            return True
        begin, size = window.offset, _event_size(window.view) if window.held >= HEADER_SIZE else 0
        if self._search():
            reason = f"an event of {size} bytes reaches beyond the log"
            self._damaged(begin, window.offset, reason)
            return False
        self._torn = begin, window.offset - begin
        return True

    def _search(self) -> bool:
        """Move the window to the next verified event after its start; False, with the window at the end, if none."""
        can_search = not self._is_relay and self._decrypt is None
        return find_event(self._window, 1, self._context if can_search else None)


def find_event(window: Window, first: int, context: ParseContext | None) -> bool:
    """Move a window to the next verified event at or after its byte `first`.

    Returns False, with the window at the end of the log, if there is none. With `context` None no event is recognised.
    """
    while True:
        window.fill(2 * _MOST_RESUMED)
        found = None if context is None else _next_event(window.view, window.offset, first, context)
        if found is not None:
            window.take(found)
            return True
        if window.held < 2 * _MOST_RESUMED:
            while window.fill():
                window.take(window.held)
            return False
        window.take(window.held - _MOST_RESUMED)
        first = 0


def _event_size(view: memoryview) -> int:
    """Return the event_size of the header at the start of `view`."""
    return int.from_bytes(view[EVENT_SIZE_BYTES], "little")


def _next_event(view: memoryview, base: int, first: int, context: ParseContext) -> int | None:
    """Return the place in `view` of the next verified event from `first` on; `view` begins at offset `base`."""
    smallest = HEADER_SIZE + CHECKSUM_SIZE * context.has_checksum
    left = _MOST_SUMMED
    for place, size, _ in likely_headers(view, base, least=smallest, most=_MOST_RESUMED, takes_zero=False):
        left -= size
        if left < 0:
            return None
        if place >= first and place + size <= len(view) and _is_event(view, place, size, base, context):
            return place
    return None


def _is_event(view: memoryview, place: int, size: int, base: int, context: ParseContext) -> bool:
    """Return whether an event has a right checksum or, in a log without checksums, is followed by valid headers."""
    end = place + size
    if context.has_checksum:
        checksum = int.from_bytes(view[end - CHECKSUM_SIZE : end], "little")
        return crc32_of(view[place : end - CHECKSUM_SIZE]) == checksum
    for _ in range(_CHAIN):
        if end + HEADER_SIZE > len(view):
            return end == len(view)
        header = parse_header(bytes(view[end : end + HEADER_SIZE]), base + end, context)
        after = (header.offset + header.event_size) & _LOW_BITS
        if header.event_size < HEADER_SIZE or header.log_pos not in (0, after):
            return False
        end += header.event_size
    return True
