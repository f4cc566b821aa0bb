"""Walks the logs of an archive with the kernel's survey, decompresses and decrypts events, and skips damage.

The kernel checks the chain of events, checksums and the grammar of groups, and counts. Events of rare types are parsed
in Python. After damage the walk continues at the next verified event: its log_pos agrees with its place, and its
checksum is right or, in a log without checksums, the next headers agree as well. With a `ReadCheck` all events are also
read; after one that cannot be read, reading continues with the next event group. `verify` and `stats` report the
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
from binlogio.archive.observer import Damage, LogEnd
from binlogio.archive.read_check import unreadable_text
from binlogio.columnar.batches.records import TableRecords
from binlogio.columnar.walk.big_events import IN_PARTS, EventBytes
from binlogio.columnar.walk.log_cursor import is_zero
from binlogio.columnar.walk.table_plans import KnownPlan
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, EVENT_SIZE_BYTES, HEADER_SIZE, TYPE_CODE_AT, EventType
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, BinlogFormatError, ChecksumMismatch, TruncatedEvent
from binlogio.events import EVENT_CODECS, ROWS_TYPES
from binlogio.events.base import EventHeader, event_name, parse_header
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import parse_table_map
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.decoder import Decoder, plain_payload
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.format.groups import frames_changes
from binlogio.gtid.sets import Interval
from binlogio.options import DEFAULT_LIMITS
from binlogio.rows.cut_images import rows_of
from binlogio.schema.source import DefinitionSource, depends_on_definitions
from binlogio.schema.statement_changes import StatementChange, TextChanges
from binlogio.series.gtid_history import GtidRun
from binlogio.series.progress import recognizer
from binlogio.storage.compression import decompress_zstd
from binlogio.storage.log_file import mariadb_decryptor_for
from binlogio.storage.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlogio._kernel.event_scanner import ImagePlan
    from binlogio.archive.observer import SurveyObserver
    from binlogio.archive.read_check import ReadCheck
    from binlogio.columnar.row_choice import RowChoice
    from binlogio.events import BinlogEvent, RowsEvent
    from binlogio.events.base import ParseContext
    from binlogio.format.framing import Decryptor
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.given import GivenDefinitions
    from binlogio.selection.selection import Selection
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
_MOST_DECRYPTED: Final = 1 << 16  # bytes of decrypted events that are read together
_USUAL_TABLE_MAP: Final = 8  # post-header size in bytes
_MOST_SUMMED: Final = 64 << 20  # bytes of candidate events whose checksums are compared per window
_LOW_BITS: Final = 0xFFFFFFFF
_CHAIN: Final = 3  # headers that must agree in a log without checksums
_OF_READING: Final = frozenset({"gtid", "table map", "body", "rows", "no table map"})
"""Problems of which an event that cannot be read may be the reason."""


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
        check: reads all events, too; None: only those of rare types are parsed.

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
        check: ReadCheck | None = None,
    ) -> None:
        self.on_read: Final = on_read
        self.check: Final = check
        self.assumed: Final[dict[str, None]] = {}
        self._keyring = keyring
        self._plans: dict[tuple[bool, str, bytes], tuple[KnownPlan, ImagePlan]] = {}
        self.counts: Final = counts
        self._definitions = DefinitionSource(definitions, follows_ddl=counts)
        self._context: ParseContext | None = None
        self._groups: Selection | None = None
        self._rows: RowChoice | None = None
        self._changes: TextChanges | None = None
        self._text = b""
        self.kernel: Final = LogSurvey(
            self._resolve,
            LOOKED_AT,
            counts=counts,
            opened_size=DEFAULT_LIMITS.opened_size,
            key_of=key_of,
            follow=self.follow if counts else None,
            keeps_bounds=check is not None,
        )

    def choose(self, groups: Selection, rows: RowChoice | None) -> None:
        """Count only the selected event groups and changes, as `LogSurvey.choose`."""
        self._groups, self._rows = groups, rows
        asks = rows is not None and rows.condition is not None
        self.kernel.choose(
            groups.compiled(),
            operations=None if rows is None else rows.operations,
            ask_rows=self._selected_rows if asks else None,
            ask_text=None if rows is None else self._changes_rows,
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

    def _changes_rows(self, schema: str, sql: bytes, thread_id: int) -> bool:
        """Return whether a statement changes rows of selected tables, and keep its text."""
        found = self._changes is not None and self._changes.takes(sql, schema, thread_id)
        self._text = sql if found else self._text
        return found

    def judge(self, event: BinlogEvent) -> None:
        """Report a selected statement in an event that the kernel does not parse to the kernel."""
        if self._groups is None or not isinstance(event, (QueryEvent, ExecuteLoadQueryEvent)):
            return
        if frames_changes(event.sql):
            return
        if self._rows is None and self._groups.wants_statement(event.schema, event.sql):
            self.kernel.take_change()
            return
        is_first = self._rows is not None and self.kernel.text_at < 0
        if is_first and self._changes_rows(event.schema, event.sql, event.thread_id):
            self.kernel.text_at = event.header.offset

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
        self._definitions.begin_log(log.name, recognizer(log, self._keyring))
        self._changes = None if self._groups is None else TextChanges(self._groups.names.wants)
        try:
            return _LogWalk(self, log, opened, observer, self._keyring).run()
        finally:
            opened.close()
            if self._rows is not None and self.kernel.text_at >= 0:
                text = self._text.decode("utf-8", "replace")
                self._rows.statements[log.name] = StatementChange(log.name, self.kernel.text_at, text)
                self.kernel.text_at = -1

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
        event = parse_table_map(header, body, context)
        plan = self._definitions.plan(event, context)
        if any(column.fsp_assumed for column in plan.columns):
            self.assumed[dotted_name(event.schema, event.table)] = None
        by_statements = depends_on_definitions(event, context)
        known = self._definitions.known(event.schema, event.table)
        return KnownPlan(plan, is_wanted=True, by_statements=by_statements, known=known)

    def payload(self, event: TransactionPayloadEvent, context: ParseContext) -> None:
        """Walk the events in a compressed transaction.

        Raises:
            BinlogError: it cannot be decompressed, or its content is not a sequence of whole events.
        """
        chunks, size = plain_payload(event, decompress_zstd), event.uncompressed_size
        self.kernel.begin_payload()
        left, total = bytearray(), 0
        try:
            for chunk in chunks:
                left += chunk
                total += len(chunk)
                del left[: self.kernel.walk_payload(left, event.header.offset)]
                if len(left) > context.limits.opened_size:
                    raise BinlogFormatError(
                        "an event of the payload is larger than the limit", offset=event.header.offset
                    )
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
        self._reading: _Reading | None = None
        self._decrypted = bytearray()  # decrypted events that were walked, and not read and reported yet

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
                self._read(window.view[:at], window.offset)
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
        if self._survey.check is not None:
            self._survey.check.begin_log(self._log.name, BINLOG_MAGIC + raw, recognizer(self._log, self._keyring))
            self._reading = _Reading(self._survey.check, self._kernel, self._observer)

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

    def _read(self, events: bytes | bytearray | memoryview, offset: int) -> None:
        """Read the events that the kernel walked last."""
        if self._reading is not None and events:
            self._reading.take(memoryview(events), offset)

    def _report(self, at: int) -> None:
        """Pass groups and problems of the events up to byte `at` of the window to the observer."""
        reading = self._reading
        for name, offset, value in self._kernel.take_problems():
            if reading is None or offset not in reading.unreadable or name not in _OF_READING:
                self._observer.problem(name, offset, value)
        ended, runs = self._kernel.take_runs()
        if reading is not None:
            ended -= reading.take_counted()
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
        if size > _MOST_AT_ONCE and self._goes_in_parts(window.view[TYPE_CODE_AT], size):
            return self._take_in_parts(size)
        left = self._left()
        return (left is None or size <= left) and window.fill(max(size, window.held + 1))

    def _goes_in_parts(self, code: int, size: int) -> bool:
        """Return whether a large event is consumed in parts. To be read, most types must be in memory as a whole."""
        if self._survey.check is None:
            return code != EventType.TRANSACTION_PAYLOAD_EVENT
        return code in IN_PARTS or size > DEFAULT_LIMITS.event_size

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
        body, rest, last = EventBytes(window, size - tail), EventBytes(window, tail), b""

        def read(count: int) -> bytes:
            nonlocal last
            if not (part := body.read(count)):
                part = rest.read(count)
                last += part
            return part

        error = None if self._reading is None else self._reading.take_large(head, read, begin)
        while read(_PART):
            pass
        if body.left or rest.left:
            self._damaged(begin, window.offset, "the log ends in a large event")
            return False
        if tail and body.checksum != int.from_bytes(last, "little"):
            reason = f"checksum of {event_name(head[4])}: expected 0x{int.from_bytes(last, 'little'):08x}"
            self._damaged(begin, begin + size, f"{reason}, found 0x{body.checksum:08x}")
            return True
        self._kernel.take_part(head, begin)
        if self._survey.counts and head[4] in ROWS_TYPES:
            self._observer.problem("large rows", begin, head[4])
        if self._reading is not None and error is not None:
            self._reading.refuse(error, begin, size)
        return True

    def _stopped(self, status: int) -> None:
        """Handle the event at the start of the window at which the kernel stopped."""
        window = self._window
        size = _event_size(window.view)
        if status in (SURVEY_DESCRIPTION, SURVEY_LOOK):
            raw = bytes(window.view[:size])
            if self._look(raw):
                self._kernel.walk(raw, 0, window.offset, looked=True)
                self._read(raw, window.offset)
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
            if isinstance(event, TransactionPayloadEvent) and self._survey.check is None:
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
            self._report_decrypted()
            return False
        size = _event_size(window.view)
        if not HEADER_SIZE <= size <= DEFAULT_LIMITS.event_size:
            self._report_decrypted()
            self._damaged_to_end(f"impossible event size {size} of an encrypted event")
            return False
        if not window.fill(size):
            self._report_decrypted()
            return False
        offset, stored = window.offset, bytes(window.view[:size])
        raw = decrypt(offset, stored)
        if raw is stored:  # `mariadb-binlog --raw` has decrypted the events
            self._decrypt = None
            return True
        status, at = self._kernel.walk(raw, 0, offset)
        if at == size:
            self._decrypted += raw
            window.take(size)
            if len(self._decrypted) >= _MOST_DECRYPTED:
                self._report_decrypted()
            return True
        self._report_decrypted()
        if status in (SURVEY_LOOK, SURVEY_DESCRIPTION):
            if self._look(raw):
                self._kernel.walk(raw, 0, offset, looked=True)
                self._read(raw, offset)
        else:
            reason = "an encrypted event has a wrong checksum, or the key is wrong"
            self._damaged(offset, offset + size, reason)
        self._report(0)
        window.take(size)
        return True

    def _report_decrypted(self) -> None:
        """Read and report the decrypted events before the window."""
        events, self._decrypted = self._decrypted, bytearray()
        self._read(events, self._window.offset - len(events))
        self._report(0)

    def _damaged_to_end(self, reason: str) -> None:
        window = self._window
        begin = window.offset
        while window.fill():
            window.take(window.held)
        self._damaged(begin, window.offset, reason)

    def _damaged(self, begin: int, end: int, reason: str) -> None:
        """Report a damaged range; the walk continues after it."""
        self._observer.damage(Damage(begin=begin, end=end, reason=reason))
        if self._reading is not None:
            self._reading.stop()
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
        window, begin = self._window, self._window.offset
        if self._in_use and self._ends_in_zeros():
            self._torn = begin, window.offset - begin
            return
        self._search()
        self._damaged(begin, window.offset, reason)

    def _ends_in_zeros(self) -> bool:
        """Consume the rest of the log if it is zero bytes; otherwise only some of the zero bytes at its start."""
        window = self._window
        while window.fill(HEADER_SIZE) and is_zero(window.view):
            window.take(window.held - HEADER_SIZE + 1)  # an event may begin with zero bytes
        is_all = window.held < HEADER_SIZE and is_zero(window.view)
        window.take(window.held * is_all)
        return is_all

    def _is_at_end(self) -> bool:
        """Handle the bytes after the last whole event; False if another event follows them."""
        window = self._window
        if not window.held:
            return True
        begin, head = window.offset, bytes(window.view[:HEADER_SIZE])
        if self._search():
            reason = f"an event of {_event_size(memoryview(head))} bytes reaches beyond the log"
            self._damaged(begin, window.offset, reason)
            return False
        contradiction = self._judge_tail(begin, head, window.offset) if self._in_use else None
        if contradiction is not None:
            self._damaged(begin, window.offset, contradiction)
        else:
            self._torn = begin, window.offset - begin
        return True

    def _judge_tail(self, begin: int, head: bytes, end: int) -> str | None:
        """Return why the bytes at the end of a log are no incomplete event; None: they are one."""
        if self._decrypt is not None:
            return None
        framer = EventFramer(verify_checksum=False, context=self._context, offset=begin)
        framer.in_use, framer.is_relay_log, framer.position_shift = True, self._is_relay, self._kernel.shift
        framer.feed(head)
        framer.finish(skipped=end - begin - len(head))
        try:
            framer.next_frame()
        except BinlogFormatError as exc:
            return unreadable_text(exc)
        return None

    def _search(self) -> bool:
        """Move the window to the next verified event after its start; False, with the window at the end, if none."""
        can_search = not self._is_relay and self._decrypt is None
        return find_event(self._window, 1, self._context if can_search else None)


class _Reading:
    """Reads the events of a log that the kernel has walked, and reports those that cannot be read: one of each group.

    Reading continues with the next event group. A group with an event that cannot be read does not count. `unreadable`
    has the offsets of these events.
    """

    def __init__(self, check: ReadCheck, kernel: LogSurvey, observer: SurveyObserver) -> None:
        self.unreadable: Final[set[int]] = set()
        self._check = check
        self._kernel = kernel
        self._observer = observer
        self._continues = True  # the next events can be read: they follow those that were read last
        self._was_in_group = False  # a group was open before the events walked last
        self._is_spoilt = False  # the open group does not count
        self._counted = 0  # groups that ended in the events walked last, and were reported, or do not count

    def take(self, events: memoryview, offset: int) -> None:
        """Read the events that the kernel walked last."""
        begins, ends = self._bounds()
        can_begin = self._continues or events[TYPE_CODE_AT] == EventType.FORMAT_DESCRIPTION_EVENT
        at = offset if can_begin else _first_after(begins, offset - 1)
        while at is not None:
            try:
                self._check.take(events[at - offset :], at)
                break
            except BinlogError as exc:
                place = at if exc.offset is None else exc.offset
                self._refuse(exc, place, _event_size(events[place - offset :]), begins, ends)
                at = _first_after(begins, place)
        self._continues = at is not None
        self._was_in_group = self._kernel.in_group

    def take_large(self, head: bytes, read: Callable[[int], bytes], offset: int) -> BinlogError | None:
        """Read a large event, before the kernel walks it; return the error if it cannot be read."""
        if not self._continues:
            return None
        try:
            self._check.take_large(head, read, offset)
        except BinlogError as exc:
            self._continues = False
            return exc
        return None

    def refuse(self, exc: BinlogError, offset: int, size: int) -> None:
        """Report the large event that the kernel walked last as one that cannot be read."""
        self._refuse(exc, offset, size, *self._bounds())

    def stop(self) -> None:
        """Stop at damage. Reading continues with the next event group that certainly begins."""
        self._continues = self._was_in_group = self._is_spoilt = False

    def take_counted(self) -> int:
        """Return how many of the groups that ended in the events walked last were reported, or do not count."""
        counted, self._counted = self._counted, 0
        return counted

    def _bounds(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the begins and ends of groups in the events walked last."""
        begins, ends = (np.frombuffer(memoryview(one), np.int64) for one in self._kernel.take_bounds())
        if self._is_spoilt and len(ends):
            self._is_spoilt, self._counted = False, 1
        return begins, ends

    def _refuse(
        self, exc: BinlogError, place: int, size: int, begins: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> None:
        """Report the groups before an event that cannot be read, and the event as damage."""
        before = int(ends.searchsorted(place, side="right"))
        self._observer.gtids(before - self._counted, ())
        self._counted = before
        if self._was_in_group + int(begins.searchsorted(place, side="right")) > before:
            self._is_spoilt = before == len(ends)
            self._counted += not self._is_spoilt
        self._observer.damage(Damage(begin=place, end=place + size, reason=unreadable_text(exc)))
        self.unreadable.add(place)


def _first_after(offsets: NDArray[np.int64], place: int) -> int | None:
    """Return the first of ascending offsets after `place`."""
    number = int(offsets.searchsorted(place, side="right"))
    return int(offsets[number]) if number < len(offsets) else None


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
