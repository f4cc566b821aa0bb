"""The GTIDs of the event groups of logs, for the head of the next log."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from binlogio.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    SERVER_ID_BYTES,
    TYPE_CODE_AT,
    EventType,
)
from binlogio.errors import BinlogFormatError
from binlogio.events import codec_for
from binlogio.events.base import ParseContext, parse_header
from binlogio.events.gtid import GtidTaggedEvent
from binlogio.gtid import EMPTY_GTID_SET, NO_TAG, Gtid, GtidSet, Interval, MariadbGtid, Tsid, Uuid
from binlogio.selection.event_filter import HIGHEST
from binlogio.series.gtid_history import ServerGtids
from binlogio.writer.log.gtids import DomainState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from binlogio.archive.event_batches import EventBatch
    from binlogio.selection.selection import Selection

_UUID_BYTES: Final = slice(HEADER_SIZE + 1, HEADER_SIZE + 17)
_GNO_BYTES: Final = slice(HEADER_SIZE + 17, HEADER_SIZE + 25)
_WITH_NUMBERS: Final = (EventType.GTID_LOG_EVENT, EventType.MARIADB_GTID_EVENT)
_MARIADB_END: Final = HEADER_SIZE + 8 + 4
_MYSQL_BYTES: Final = np.arange(_UUID_BYTES.start, _GNO_BYTES.stop)
_MARIADB_BYTES: Final = np.array(
    [*range(SERVER_ID_BYTES.start, SERVER_ID_BYTES.stop), *range(HEADER_SIZE, HEADER_SIZE + 12)]
)
_HEAD: Final = np.arange(SERVER_ID_BYTES.stop)
_TIME: Final = slice(4)
Ask = Callable[["Gtid | MariadbGtid | None"], tuple[bool, int, int]]
"""Answers for a GTID, and returns the first and last number of its source with the same answer (`Selection.answer`)."""
_FIELDS: Final[dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]] = {  # bytes of the source, of the number
    EventType.GTID_LOG_EVENT: (_MYSQL_BYTES[:16], _MYSQL_BYTES[16:]),
    EventType.MARIADB_GTID_EVENT: (_MARIADB_BYTES[[0, 1, 2, 3, 12, 13, 14, 15]], _MARIADB_BYTES[4:12]),
}


class CopiedGtids:
    """Accumulates the GTIDs of the groups read so far, for the head of the next new log.

    The GTID of the last group is held back until the group is known to be complete.
    """

    def __init__(self) -> None:
        self._mysql: GtidSet = EMPTY_GTID_SET
        self._runs: dict[Tsid, list[list[int]]] = {}
        self._mariadb = DomainState()
        self._held: tuple[bytes, ParseContext] | None = None
        self._servers = ServerGtids()
        self._of_two = ""  # GTIDs of the log that logs of other servers have
        self._highest: dict[tuple[int, int], int] = {}  # largest sequence number by MariaDB domain and server
        self._repeated = 0

    def begin_log(self, server_id: int) -> None:
        """Begin the log of a server."""
        self._servers.begin_log(server_id)

    def end_log(self) -> str:
        """End the log; return GTIDs of it that logs of other servers have, as text."""
        self._add_runs()
        found, self._of_two = self._of_two, ""
        return found

    @property
    def mysql(self) -> GtidSet:
        """The MySQL GTID set, including the last group."""
        self._add_runs()
        return self._mysql

    def _add_runs(self) -> None:
        self.confirm()
        found = [(source, Interval(first, end)) for source, runs in self._runs.items() for first, end in runs]
        if found:
            before = self._mysql.count
            self._mysql = self._mysql.union(GtidSet.from_intervals(found))
            self._repeated += sum(run.end - run.start for _, run in found) - (self._mysql.count - before)
            for tsid, run in found:
                self._of_two += self._servers.add((tsid.uuid.data, str(tsid.tag)), run)
            self._runs.clear()

    @property
    def mariadb(self) -> tuple[MariadbGtid, ...]:
        """The MariaDB GTID state (last GTID of each domain and server), including the last group."""
        self.confirm()
        return self._mariadb.gtids

    def count_repeated(self) -> int:
        """Return the number of groups whose GTID, or a larger one of the same domain and server, came before."""
        self._add_runs()
        return self._repeated

    def add_mysql(self, gtids: GtidSet) -> None:
        """Add a MySQL GTID set."""
        self._mysql = self.mysql.union(gtids)

    def add_mariadb(self, gtids: Iterable[MariadbGtid]) -> None:
        """Add a MariaDB GTID state."""
        self.confirm()
        for gtid in gtids:
            self._mariadb.add(gtid)
            place = gtid.domain_id, gtid.server_id
            self._highest[place] = max(self._highest.get(place, 0), gtid.sequence_number)

    def later(self, gtids: Iterable[MariadbGtid], unknown: int = -1) -> list[MariadbGtid]:
        """Return the MariaDB GTIDs that are after all of their domain and server; after `unknown` if there is none."""
        self.confirm()
        return [
            gtid
            for gtid in gtids
            if gtid.sequence_number > self._highest.get((gtid.domain_id, gtid.server_id), unknown)
        ]

    def add_groups(self, batch: EventBatch, begins: NDArray[np.int64], context: ParseContext) -> None:
        """Add the groups that begin at these event indexes of a batch; the last one is held back.

        Raises:
            BinlogFormatError: a GTID event is too short.
        """
        if not len(begins):
            return
        self.confirm()
        self._held = batch.event(int(begins[-1])), context
        codes = batch.codes[begins[:-1]]
        short = np.isin(codes, _WITH_NUMBERS) & (batch.sizes[begins[:-1]] < _GNO_BYTES.stop)
        short &= (codes == EventType.GTID_LOG_EVENT) | (batch.sizes[begins[:-1]] < _MARIADB_END)
        if short.any():
            number = int(begins[np.nonzero(short)[0][0]])
            offset = batch.offset + int(batch.starts[number])
            raise BinlogFormatError("a GTID event is too short", offset=offset, found=int(batch.sizes[number]))
        raw = np.frombuffer(batch.data, np.uint8)
        starts = batch.starts[begins[:-1]]
        if (mysql := starts[codes == EventType.GTID_LOG_EVENT]).size:
            self._add_numbers(raw[mysql[:, None] + _MYSQL_BYTES])
        if (mariadb := starts[codes == EventType.MARIADB_GTID_EVENT]).size:
            self._add_domains(raw[mariadb[:, None] + _MARIADB_BYTES])
        for number in begins[:-1][codes == EventType.GTID_TAGGED_LOG_EVENT]:
            self._add(batch.event(int(number)), context)

    def confirm(self) -> None:
        """Add the GTID that is held back."""
        if self._held is not None:
            held, self._held = self._held, None
            self._add(*held)

    def forget(self) -> None:
        """Discard the GTID that is held back."""
        self._held = None

    def _add(self, raw: bytes, context: ParseContext) -> None:
        gtid = gtid_of(raw, context)
        if isinstance(gtid, MariadbGtid):
            self._mariadb.add(gtid)
            self._find_repeated(gtid.domain_id, gtid.server_id, np.array([gtid.sequence_number], np.uint64))
        elif gtid is not None:
            _add_run(self._runs.setdefault(Tsid(gtid.uuid, gtid.tag), []), gtid.gno, gtid.gno + 1)

    def _add_numbers(self, found: NDArray[np.uint8]) -> None:
        """Add MySQL GTIDs: an array of n rows of 24 bytes, UUID and GNO."""
        numbers = found[:, 16:].copy().view("<i8").ravel()
        others = np.flatnonzero((found[1:, :16] != found[:-1, :16]).any(axis=1)) + 1
        for begin, end in pairwise((0, *others.tolist(), len(numbers))):
            runs = self._runs.setdefault(Tsid(Uuid(found[begin, :16].tobytes()), NO_TAG), [])
            part = numbers[begin:end]
            breaks = np.flatnonzero(part[1:] != part[:-1] + 1) + 1
            firsts, lasts = part[np.append(0, breaks)], part[np.append(breaks - 1, -1)]
            for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
                _add_run(runs, first, last + 1)

    def _add_domains(self, found: NDArray[np.uint8]) -> None:
        """Add MariaDB GTIDs: an array of n rows of 16 bytes, server_id, sequence number and domain_id.

        Only the last GTID of each domain and server is kept.
        """
        fields = np.ascontiguousarray(found[:, [*range(12, 16), *range(4)]]).view("<u4")
        numbers = found[:, 4:12].copy().view("<u8").ravel()
        for domain_id, server_id in np.unique(fields, axis=0).tolist():
            self._find_repeated(domain_id, server_id, numbers[(fields == (domain_id, server_id)).all(axis=1)])
        rows = found.tobytes()
        last: dict[bytes, int] = {}
        width = found.shape[1]
        for at in range(0, len(rows), width):
            key = rows[at : at + 4] + rows[at + 12 : at + 16]
            last.pop(key, None)
            last[key] = at
        for at in last.values():
            parts = (rows[at + 12 : at + 16], rows[at : at + 4], rows[at + 4 : at + 12])
            self._mariadb.add(MariadbGtid(*(int.from_bytes(part, "little") for part in parts)))

    def _find_repeated(self, domain_id: int, server_id: int, numbers: NDArray[np.uint64]) -> None:
        """Count the sequence numbers of a domain and server that do not exceed an earlier one."""
        before = np.array([self._highest.get((domain_id, server_id), 0)], np.uint64)
        highest = np.maximum.accumulate(np.concatenate((before, numbers)))
        self._repeated += int(np.count_nonzero(numbers <= highest[:-1]))
        run = Interval(int(numbers.min()), int(numbers.max()) + 1)
        self._of_two += self._servers.add((domain_id, server_id), run)
        self._highest[domain_id, server_id] = int(highest[-1])


def _add_run(runs: list[list[int]], first: int, end: int) -> None:
    """Append the interval [first, end) to the runs of a GTID source."""
    if runs and runs[-1][1] == first:
        runs[-1][1] = end
    else:
        runs.append([first, end])


def choose_groups(
    batch: EventBatch,
    begins: NDArray[np.int64],
    selection: Selection,
    context: ParseContext,
    *,
    stop: int | None = None,
    ask: Ask | None = None,
) -> list[bool]:
    """Return which groups are selected, up to the first one that begins at the offset `stop`, or at the stop time.

    `ask` answers for GTIDs instead of the selection.
    """
    starts = batch.starts[begins]
    heads = np.frombuffer(batch.data, np.uint8)[starts[:, None] + _HEAD]
    times, servers = (np.ascontiguousarray(heads[:, at]).view("<u4").ravel() for at in (_TIME, SERVER_ID_BYTES))
    is_end = starts >= (HIGHEST if stop is None else stop - batch.offset)
    if selection.stop_time is not None:
        is_end |= times >= selection.stop_time
    count = int(is_end.argmax()) if is_end.any() else len(begins)
    if ask is None and selection.asks_for_gtids:
        ask = selection.answer
    choices = [True] * count if ask is None else ask_groups(batch, begins[:count], context, ask)
    if (first := selection.start_time) is not None:
        choices = [one and time >= first for one, time in zip(choices, times.tolist(), strict=False)]
    if (wanted := selection.server_ids) is not None:
        choices = [one and server in wanted for one, server in zip(choices, servers.tolist(), strict=False)]
    return choices


def ask_groups(
    batch: EventBatch,
    begins: NDArray[np.int64],
    context: ParseContext,
    ask: Ask,
) -> list[bool]:
    """Return the answers of `ask` for the GTIDs of the groups that begin at these event indexes of a batch.

    Raises:
        BinlogFormatError: a GTID event is damaged.
    """
    count = len(begins)
    code = int(batch.codes[begins[0]]) if count else 0
    bounds, numbers = [*range(count + 1)], np.zeros(count, np.uint64)
    if code in _FIELDS and (batch.codes[begins] == code).all():
        source, number = _FIELDS[code]
        raw = np.frombuffer(batch.data, np.uint8)
        if int(batch.sizes[begins].min()) > max(source[-1], number[-1]):
            places = batch.starts[begins][:, None]
            numbers, sources = np.ascontiguousarray(raw[places + number]).view("<u8").ravel(), raw[places + source]
            is_new = (sources[1:] != sources[:-1]).any(axis=1) | (numbers[1:] < numbers[:-1])
            bounds = [0, *(np.flatnonzero(is_new) + 1).tolist(), count]
    answers: list[bool] = []
    for first, end in pairwise(bounds):
        while len(answers) < end:
            at = len(answers)
            answer, _, last = ask(gtid_of(batch.event(int(begins[at])), context))
            stop = first + int(np.searchsorted(numbers[first:end], np.uint64(last), "right"))
            answers += [answer] * max(1, stop - at)
    return answers


def gtid_of(raw: bytes, context: ParseContext) -> Gtid | MariadbGtid | None:
    """Return the GTID in the first event of a group; None if the event has none.

    Raises:
        BinlogFormatError: the event is damaged.
    """
    code = raw[TYPE_CODE_AT]
    if code == EventType.GTID_LOG_EVENT and len(raw) >= _GNO_BYTES.stop:
        return Gtid(Uuid(raw[_UUID_BYTES]), NO_TAG, int.from_bytes(raw[_GNO_BYTES], "little"))
    if code == EventType.MARIADB_GTID_EVENT and len(raw) >= HEADER_SIZE + 12:
        fields = (raw[HEADER_SIZE + 8 : HEADER_SIZE + 12], raw[SERVER_ID_BYTES], raw[HEADER_SIZE : HEADER_SIZE + 8])
        return MariadbGtid(*(int.from_bytes(field, "little") for field in fields))
    if code == EventType.GTID_TAGGED_LOG_EVENT:
        header = parse_header(raw, 0, context)
        end = len(raw) - CHECKSUM_SIZE * context.has_checksum
        event: GtidTaggedEvent = codec_for(code).parse(header, raw[HEADER_SIZE:end], context)
        return event.gtid
    return None
