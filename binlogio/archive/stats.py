"""Statistics of an archive: changes by table, time and transaction.

One pass of the kernel's survey counts rows and bytes without decoding values. Each estimate states its method. The
saving by transaction compression is measured on a sample. The saving by `binlog_row_image=MINIMAL` is computed from the
rows of one rows event in sixteen.
"""

from __future__ import annotations

import heapq
import uuid
import zlib
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timezone, tzinfo
from typing import TYPE_CHECKING, Final

import numpy as np

from binlogio.archive.observer import Damage
from binlogio.columnar.splits.group_scan import check_bounds
from binlogio.constants import HEADER_SIZE, TYPE_CODE_AT, EventType
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events.base import event_name
from binlogio.implementation import require_kernel
from binlogio.rows.plan import TablePlan
from binlogio.selection.selection import EVERY_CHANGE
from binlogio.series.gtid_history import GtidHistories
from binlogio.storage.compression import compress_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from binlogio.archive.observer import LogEnd
    from binlogio.archive.survey import ArchiveSurvey
    from binlogio.columnar.row_choice import RowChoice
    from binlogio.events import BinlogEvent
    from binlogio.format.framing import EventFrame
    from binlogio.schema.given import GivenDefinitions
    from binlogio.selection.selection import Selection
    from binlogio.series.gtid_history import GtidRun
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_US_PER_S: Final = 1_000_000
_WIDTHS: Final = (1, 10, 60, 300, 900, 3600, 6 * 3600, 86400, 7 * 86400, 28 * 86400)
_LEAST_LOCAL: Final = 6 * 3600
_OFFSET_UNIT: Final = 900  # seconds; offsets of time zones are multiples of it
_MOST_BUCKETS: Final = 120
_MOST_KEPT_BUCKETS: Final = 1 << 13
_MOST_THREADS: Final = 1 << 16
_SAMPLES: Final = 16
_SAMPLE_SIZE: Final = 1 << 16
_COMPRESSED_BY_MARIADB: Final = (
    EventType.QUERY_EVENT,
    EventType.WRITE_ROWS_EVENT_V1,
    EventType.UPDATE_ROWS_EVENT_V1,
    EventType.DELETE_ROWS_EVENT_V1,
)
_LEAST_COMPRESSED: Final = 256  # bytes; default of log_bin_compress_min_len
_LEVEL: Final = 3  # zstd level; the default of binlog_transaction_compression_level_zstd


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStats:
    """Changes of a table. Bytes are those of row images; `transactions` counts the event groups that change it."""

    table: str
    inserts: int
    updates: int
    deletes: int
    insert_bytes: int
    update_bytes: int
    delete_bytes: int
    rows_events: int
    transactions: int

    @property
    def rows(self) -> int:
        """The number of rows inserted, updated and deleted."""
        return self.inserts + self.updates + self.deletes

    @property
    def bytes(self) -> int:
        """The bytes of all row images."""
        return self.insert_bytes + self.update_bytes + self.delete_bytes


@dataclass(frozen=True, slots=True)
class TypeStats:
    """Count and bytes of the events of a type; `inner` events are in compressed transactions (uncompressed bytes)."""

    type: str
    events: int
    bytes: int
    inner_events: int
    inner_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStats:
    """An event group; `time` is the timestamp of its last event, in seconds since 1970.

    `duration_us` is the time from its first event, which has a resolution of one second, to the commit on the original
    server.
    """

    file: str
    begin: int
    end: int
    gtid: str | None
    time: int
    rows: int
    duration_us: int
    thread_id: int | None

    @property
    def bytes(self) -> int:
        """The size in the log, in bytes."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class TimeStats:
    """Commits in the time bucket that begins at `begin`, in seconds since 1970, UTC."""

    begin: int
    transactions: int
    inserts: int
    updates: int
    deletes: int
    bytes: int
    most_lag_us: int


@dataclass(frozen=True, slots=True)
class LagStats:
    """Replication lag: time from the commit on the original server to that on the log's server.

    The quantiles are upper bounds.
    """

    transactions: int
    mean_us: int
    median_us: int
    p95_us: int
    most_us: int


@dataclass(frozen=True, slots=True)
class ThreadStats:
    """Commits of a session, by thread id."""

    thread_id: int
    transactions: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Saving:
    """Estimated bytes that a setting would save, `ratio` of the bytes it applies to, and the method of estimation."""

    setting: str
    bytes: int
    ratio: float
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStats:
    """Statistics of logs.

    `first_time` and `last_time` are those of the first and the last commit, in seconds since 1970.
    `incomplete` names the logs in use that end in an incomplete transaction, which is not counted.
    """

    logs: int
    bytes: int
    transactions: int
    first_time: int | None
    last_time: int | None
    tables: tuple[TableStats, ...]
    types: tuple[TypeStats, ...]
    bucket_s: int
    buckets: tuple[TimeStats, ...]
    biggest: tuple[TransactionStats, ...]
    most_rows: tuple[TransactionStats, ...]
    longest: tuple[TransactionStats, ...]
    lag: LagStats | None
    threads: tuple[ThreadStats, ...]
    gaps: tuple[str, ...]
    savings: tuple[Saving, ...]
    warnings: tuple[str, ...]
    incomplete: tuple[str, ...]


def archive_stats(
    logs: Sequence[LogFile],
    keyring: Keyring | None = None,
    *,
    top: int = 10,
    definitions: GivenDefinitions | None = None,
    on_read: Callable[[str, int], object] | None = None,
    selection: Selection = EVERY_CHANGE,
    rows: RowChoice | None = None,
    zone: tzinfo = timezone.utc,
) -> ArchiveStats:
    """Return statistics of logs. Damaged ranges are skipped and reported in `warnings`.

    An incomplete transaction at the end of a log is not counted. It is reported in `incomplete` if the log is in use,
    else in `warnings`.

    With a selection, only event groups with a selected change count: events and bytes of whole groups, and the
    selected rows. `gaps` always covers all groups.

    Args:
        logs: the logs, in order.
        keyring: the keys of encrypted logs.
        top: the number of transactions and threads listed.
        definitions: table definitions, for logs with old temporal columns whose width the log does not say.
        on_read: called with the name of a log and the offset up to which it was read.
        selection: the changes to count; its positions are offsets in the first and last log.
        rows: the selection of its single rows, if any.
        zone: the time zone in which intervals of six hours and more begin; other intervals begin at multiples of UTC.

    Raises:
        ConditionError: a value in the condition of `rows` does not fit its column.
        UnsupportedFeature: a log has event headers or table maps of an unusual size, as those before MySQL 5.0.
        BinlogError: the only log has no readable head.
        OSError: a log cannot be read.
    """
    require_kernel("stats")
    from binlogio.archive.survey import ArchiveSurvey, UnusualFormatError  # noqa: PLC0415 - needs the kernel

    survey = ArchiveSurvey(keyring, counts=True, key_of=_Keys().of, definitions=definitions, on_read=on_read)
    check_bounds(logs, selection.start_offset, selection.stop_offset, keyring)
    is_partial, start_offset, stop_offset = bool(selection), selection.start_offset, selection.stop_offset
    if is_partial:
        survey.choose(selection, rows)
    counter = _Counter(survey, sum(log.size or 0 for log in logs), top, zone, is_partial=is_partial)
    for number, log in enumerate(logs):
        if number == 0 and start_offset is not None:
            survey.kernel.first_offset = start_offset
        elif number == 1:
            survey.kernel.first_offset = 0
        if number + 1 == len(logs) and stop_offset is not None:
            survey.kernel.stop_offset = stop_offset
        if survey.kernel.is_over:
            break
        counter.begin(log)
        try:
            end = survey.walk(log, counter)
        except UnusualFormatError as exc:
            raise UnsupportedFeature(
                "statistics of a log with headers of an unusual size (MySQL before 5.0, alphas of 5.1, some forks)",
                file=log.name,
            ) from exc
        except BinlogError as exc:
            if isinstance(exc, BinlogFormatError) and len(logs) > 1:
                counter.damage(Damage(begin=0, end=log.size or 0, reason=exc.reason))
                continue
            exc.locate(file=log.name)
            raise
        counter.end(end)
    counter.warn_of_assumptions()
    return counter.result(len(logs))


class _Keys:
    """Bitmaps of key columns, cached by plan identity."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[object, bytes]] = {}

    def of(self, table: object) -> bytes:
        """Return the bitmap of the primary key columns of a table; of all columns if it has no primary key."""
        found = self._found.get(id(table))
        if found is None:
            if not isinstance(table, TablePlan):
                return b""
            bits = bytearray((len(table.columns) + 7) // 8)
            for position in [position for position, _ in table.primary_key] or range(len(table.columns)):
                bits[position >> 3] |= 1 << (position & 7)
            found = self._found[id(table)] = table, bytes(bits)
        return found[1]


class _Counter:
    """Aggregates group records; an observer of the survey."""

    def __init__(self, survey: ArchiveSurvey, total: int, top: int, zone: tzinfo, *, is_partial: bool) -> None:
        from binlogio.archive.survey import FIELD, IS_COMPRESSED  # noqa: PLC0415 - needs the kernel

        self.bytes = 0
        self._is_partial = is_partial
        self._field = FIELD
        self._compressed = IS_COMPRESSED
        self._survey = survey
        self._top = top
        self._zone = zone
        self._file = ""
        self._histories = GtidHistories()
        self._transactions = 0
        self._group_bytes = 0
        self._biggest: list[tuple[int, int, TransactionStats]] = []
        self._most_rows: list[tuple[int, int, TransactionStats]] = []
        self._longest: list[tuple[int, int, TransactionStats]] = []
        self._width = 0  # index in _WIDTHS
        self._buckets: dict[int, NDArray[np.int64]] = {}
        self._times: list[int] = []  # the first and the last time
        self._lags = np.zeros(65, np.int64)  # count by bit length of the lag in us
        self._lag_sum = 0
        self._most_lag = 0
        self._threads: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._warnings: list[str] = []
        self._incomplete: list[str] = []
        self._sample_every = max(1 << 20, total // _SAMPLES)
        self._sample_at = 0
        self._read = 0
        self._plain = self._packed = 0
        self._is_mariadb = False

    def begin(self, log: LogFile) -> None:
        """Begin a log."""
        self._file = log.name

    def end(self, end: LogEnd) -> None:
        """End a log. Its end is not read if a selection ends before."""
        self.bytes += end.offset
        if end.damage is not None:
            self.damage(end.damage)
        if end.incomplete is not None and not self._survey.kernel.is_over:
            text = f"{self._file}: {end.incomplete}, not counted"
            if end.in_use:
                self._incomplete.append(text)
            else:
                self._warn(text)

    def format(self, frame: EventFrame) -> None:
        """Take the format description."""
        self._is_mariadb = frame.context.is_mariadb

    def event(self, event: BinlogEvent) -> None:
        """Take an event of a rare type."""

    def damage(self, found: Damage) -> None:
        """Take a damaged range."""
        self._warn(f"{self._file}: {found.begin} to {found.end}: {found.reason}; not counted")

    def problem(self, name: str, offset: int, value: int) -> None:
        """Report rows that cannot be counted; other problems do not affect the counts."""
        if name == "rows":
            kind = event_name(value & 0xFF)
            self._warn(f"{self._file}: at {offset}: the rows of a {kind} do not fit their table; not counted")
        elif name == "large rows":
            kind = event_name(value)
            self._warn(f"{self._file}: at {offset}: the rows of a {kind} of more than 64 MiB are not counted")

    def warn_of_assumptions(self) -> None:
        """Warn of tables whose row counts may be wrong."""
        for table in self._survey.assumed:
            self._warn(
                f"{table}: rows are counted as if TIME, DATETIME and TIMESTAMP had no fraction digits, which no"
                " statement in the logs before them says (give the table's definition)"
            )

    def _warn(self, text: str) -> None:
        if len(self._warnings) < 100:
            self._warnings.append(text)

    def gtids(self, ended: int, runs: Sequence[GtidRun]) -> None:
        """Add GTIDs."""
        for run in runs:
            for _ in self._histories.of(self._file).add(run.source, run.numbers):
                pass

    def groups(self, records: NDArray[np.int64], window: memoryview, begin: int) -> None:
        """Aggregate records of groups."""
        field = self._field
        columns = np.ascontiguousarray(records.T)
        sizes = columns[field["end"]] - columns[field["begin"]]
        rows = columns[field["inserts"]] + columns[field["updates"]] + columns[field["deletes"]]
        first, last = columns[field["first_time"]], columns[field["last_time"]]
        commit, original = columns[field["commit_us"]], columns[field["original_us"]]
        committed = np.where(original > 0, original, last * _US_PER_S)
        durations = np.where(first > 0, np.maximum(committed - first * _US_PER_S, 0), 0)
        self._group_bytes += int(sizes.sum())
        for best, values in ((self._biggest, sizes), (self._most_rows, rows), (self._longest, durations)):
            self._keep(best, values, records, durations)
        lags = np.where((commit > 0) & (original > 0), np.maximum(commit - original, 0), -1)
        self._add_lags(lags)
        self._add_times(last, columns, sizes, lags)
        self._add_threads(columns[field["thread_id"]], rows, sizes)
        self._sample(records, window, begin)
        self._transactions += len(records)

    def _keep(
        self,
        best: list[tuple[int, int, TransactionStats]],
        values: NDArray[np.int64],
        records: NDArray[np.int64],
        durations: NDArray[np.int64],
    ) -> None:
        """Keep the `top` records with the largest values."""
        least = best[0][0] if len(best) == self._top else 0
        candidates = np.flatnonzero(values > least)
        if len(candidates) > self._top:
            candidates = candidates[np.argpartition(values[candidates], -self._top)[-self._top :]]
        for number in candidates.tolist():
            entry = (
                int(values[number]),
                -self._transactions - number,
                self._transaction(records[number], durations[number]),
            )
            if len(best) < self._top:
                heapq.heappush(best, entry)
            elif entry[0] > best[0][0]:
                heapq.heapreplace(best, entry)

    def _transaction(self, record: NDArray[np.int64], duration: np.int64) -> TransactionStats:
        value = dict(zip(self._field, record.tolist(), strict=True))
        return TransactionStats(
            file=self._file,
            begin=value["begin"],
            end=value["end"],
            gtid=self._gtid(value["source"], value["number"]),
            time=value["last_time"],
            rows=value["inserts"] + value["updates"] + value["deletes"],
            duration_us=int(duration),
            thread_id=None if value["thread_id"] < 0 else value["thread_id"],
        )

    def _gtid(self, source: int, number: int) -> str | None:
        if source < 0:
            return None
        known = self._survey.kernel.sources[source]
        gno = number & (1 << 64) - 1
        if isinstance(known[0], bytes):
            return f"{uuid.UUID(bytes=known[0])}:{known[1]}{':' if known[1] else ''}{gno}"
        return f"{known[0]}-{known[1]}-{gno}"

    def _add_lags(self, lags: NDArray[np.int64]) -> None:
        known = lags[lags >= 0]
        if len(known):
            bits = np.zeros(len(known), np.int64)
            above = known > 0
            bits[above] = np.floor(np.log2(known[above])).astype(np.int64) + 1
            self._lags += np.bincount(bits, minlength=65)
            self._lag_sum += int(known.sum())
            self._most_lag = max(self._most_lag, int(known.max()))

    def _add_times(
        self, times: NDArray[np.int64], columns: NDArray[np.int64], sizes: NDArray[np.int64], lags: NDArray[np.int64]
    ) -> None:
        """Add transactions, rows, bytes and the largest lag to each time bucket."""
        field = self._field
        if len(times):
            known = (*self._times, int(times.min()), int(times.max()))
            self._times = [min(known), max(known)]
        keys, places = np.unique(self._bucket_keys(times), return_inverse=True)
        sums = [np.bincount(places, minlength=len(keys))]
        added = (columns[field["inserts"]], columns[field["updates"]], columns[field["deletes"]], sizes)
        sums += [np.bincount(places, values, len(keys)).astype(np.int64) for values in added]
        most = np.zeros(len(keys), np.int64)
        np.maximum.at(most, places, lags)
        for key, *counts in zip(keys.tolist(), *sums, most, strict=True):
            self._add_bucket(key, np.array(counts, np.int64))
        while len(self._buckets) > _MOST_KEPT_BUCKETS and self._width + 1 < len(_WIDTHS):
            self._widen()

    def _add_bucket(self, key: int, counts: NDArray[np.int64]) -> None:
        known = self._buckets.get(key)
        if known is None:
            self._buckets[key] = counts
        else:
            known[:-1] += counts[:-1]
            known[-1] = max(known[-1], counts[-1])

    def _bucket_keys(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the buckets of times: those of local times, if the buckets are wide."""
        width = _WIDTHS[self._width]
        if width < _LEAST_LOCAL:
            return times // width
        parts, places = np.unique(times // _OFFSET_UNIT, return_inverse=True)
        offsets = [_offset(int(part) * _OFFSET_UNIT, self._zone) for part in parts]
        found: NDArray[np.int64] = (times + np.array(offsets, np.int64)[places]) // width
        return found

    def _begin_of(self, key: int) -> int:
        """Return the begin of a bucket in seconds since 1970, UTC."""
        begin = key * _WIDTHS[self._width]
        if _WIDTHS[self._width] < _LEAST_LOCAL:
            return begin
        local = datetime.fromtimestamp(begin, timezone.utc).replace(tzinfo=self._zone)
        return round(local.timestamp())

    def _widen(self) -> None:
        """Merge the buckets into buckets of the next width."""
        old, self._buckets = self._buckets, {}
        width = _WIDTHS[self._width]
        self._width += 1
        begins = np.array([key * width for key in old], np.int64)
        wide = begins // _WIDTHS[self._width] if width >= _LEAST_LOCAL else self._bucket_keys(begins)
        for key, counts in zip(wide.tolist(), old.values(), strict=True):
            self._add_bucket(key, counts)

    def _add_threads(self, threads: NDArray[np.int64], rows: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        keys, places = np.unique(threads, return_inverse=True)
        counts = np.bincount(places, minlength=len(keys))
        changed, written = np.bincount(places, rows, len(keys)), np.bincount(places, sizes, len(keys))
        for key, count, row, size in zip(
            keys.tolist(), counts.tolist(), changed.tolist(), written.tolist(), strict=True
        ):
            if key >= 0 and (key in self._threads or len(self._threads) < _MOST_THREADS):
                known = self._threads[key]
                known[0] += count
                known[1] += int(row)
                known[2] += int(size)

    def _sample(self, records: NDArray[np.int64], window: memoryview, begin: int) -> None:
        """Compress a sample of groups as the server would: each group separately, without its GTID event."""
        self._read += len(window)
        if self._read < self._sample_at or not len(window):
            return
        self._sample_at = self._read + self._sample_every
        left = _SAMPLE_SIZE
        field = self._field
        is_sampled = False
        for group in records.tolist():
            start, end = group[field["begin"]] - begin, group[field["end"]] - begin
            if start < 0 or end > len(window) or group[field["flags"]] & self._compressed:
                continue
            start += int.from_bytes(window[start + 9 : start + 13], "little")
            if start < end:
                is_sampled = True
                self._compress(bytes(window[start : min(end, start + left)]))
                left -= end - start
            if left <= 0:
                break
        if not is_sampled and not records[-1][field["flags"]] & self._compressed:
            self._compress(bytes(window[:_SAMPLE_SIZE]))

    def _compress(self, data: bytes) -> None:
        self._plain += len(data)
        self._packed += self._packed_events(data) if self._is_mariadb else len(compress_zstd(data, _LEVEL))

    def _packed_events(self, data: bytes) -> int:
        """Return the size of events of which MariaDB compresses each long one by itself, without its header."""
        at, packed = 0, 0
        while at + HEADER_SIZE <= len(data):
            event = data[at : at + max(HEADER_SIZE, int.from_bytes(data[at + 9 : at + 13], "little"))]
            is_long = event[TYPE_CODE_AT] in _COMPRESSED_BY_MARIADB and len(event) >= _LEAST_COMPRESSED
            packed += min(len(event), HEADER_SIZE + len(zlib.compress(event[HEADER_SIZE:]))) if is_long else len(event)
            at += len(event)
        return packed + len(data) - at

    def result(self, logs: int) -> ArchiveStats:
        """Return the statistics."""
        kernel = self._survey.kernel
        tables = sorted(map(_table_stats, kernel.table_counts()), key=lambda one: (-one.bytes, one.table))
        types = [TypeStats(event_name(code), *counts) for code, *counts in kernel.type_counts()]
        while (
            self._buckets
            and self._width + 1 < len(_WIDTHS)
            and (max(self._buckets) - min(self._buckets) >= _MOST_BUCKETS)
        ):
            self._widen()
        width = _WIDTHS[self._width]
        return ArchiveStats(
            logs=logs,
            bytes=self._group_bytes if self._is_partial else self.bytes,
            transactions=self._transactions,
            first_time=self._times[0] if self._times else None,
            last_time=self._times[-1] if self._times else None,
            tables=tuple(tables),
            types=tuple(sorted(types, key=lambda one: -one.bytes - one.inner_bytes)),
            bucket_s=width,
            buckets=tuple(
                TimeStats(self._begin_of(key), *map(int, counts)) for key, counts in sorted(self._buckets.items())
            ),
            biggest=_best(self._biggest),
            most_rows=_best(self._most_rows),
            longest=_best(self._longest),
            lag=self._lag(),
            threads=tuple(
                ThreadStats(thread, *counts)
                for thread, counts in heapq.nlargest(self._top, self._threads.items(), key=lambda item: item[1][2])
            ),
            gaps=tuple(text for _, text in self._histories.gaps()),
            savings=tuple(self._savings(tables)),
            warnings=tuple(self._warnings),
            incomplete=tuple(self._incomplete),
        )

    def _lag(self) -> LagStats | None:
        count = int(self._lags.sum())
        if not count or not self._most_lag:
            return None
        sums = np.cumsum(self._lags)
        median, p95 = (min(1 << int(np.searchsorted(sums, count * part)), self._most_lag) for part in (0.5, 0.95))
        return LagStats(count, self._lag_sum // count, median, p95, self._most_lag)

    def _savings(self, tables: Sequence[TableStats]) -> list[Saving]:
        found = []
        if self._plain:
            ratio = 1 - self._packed / self._plain
            packing = "zlib" if self._is_mariadb else f"zstd level {_LEVEL}"
            method = f"{packing} on {self._plain:,} bytes of transactions across the logs"
            setting = "log_bin_compress=ON" if self._is_mariadb else "binlog_transaction_compression=ON"
            found.append(Saving(setting, round(ratio * self._group_bytes), ratio, method))
        rows, full, minimal = self._survey.kernel.minimal_image
        if full:
            ratio = 1 - minimal / full
            applied = sum(table.update_bytes + table.delete_bytes for table in tables)
            method = f"images of {rows:,} updated and deleted rows, by the primary key in the log (all columns without)"
            found.append(Saving("binlog_row_image=MINIMAL", round(ratio * applied), ratio, method))
        return found


def _offset(seconds: int, zone: tzinfo) -> int:
    offset = datetime.fromtimestamp(seconds, zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def _best(found: list[tuple[int, int, TransactionStats]]) -> tuple[TransactionStats, ...]:
    return tuple(one for _, _, one in sorted(found, key=lambda entry: (-entry[0], -entry[1])))


def _table_stats(counts: tuple[tuple[str, str], list[int], list[int], int, int]) -> TableStats:
    (schema, table), rows, sizes, events, groups = counts
    return TableStats(
        table=dotted_name(schema, table),
        inserts=rows[0],
        updates=rows[1],
        deletes=rows[2],
        insert_bytes=sizes[0],
        update_bytes=sizes[1],
        delete_bytes=sizes[2],
        rows_events=events,
        transactions=groups,
    )
