"""The view `cdf`: the changes of one table in the shape of Delta's change data feed, with the commit of each change.

    cdf := column* _change_type _commit_version _commit_timestamp _commit_gtid
           _change_order _change_file _change_pos _change_row
    _change_type    := insert | delete | update_preimage update_postimage
    _commit_version := number of the log, and offset in it at which the transaction begins; increases from transaction
                       to transaction
    _change_order   := number of the record among those of its transaction in this view
    _change_file _change_pos _change_row := file, pos and row of the view `rows`

Record batches of row changes have the position of their event only. The first events of the groups of the same
piece are scanned alongside, a little ahead of the batches; in logs without GTID events, in relay logs and in
encrypted logs of MariaDB the events are read one by one.

    commit time := immediate_commit_timestamp of the GTID event (MySQL 8.0), in microseconds
                 | time of the first event of the group, in whole seconds            -- servers that log no commit time
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binlogio.columnar import GROUP_STARTS, HEAD_EVENTS, WHOLE, WINDOW_SIZE, Window, head_frames, split_bounds
from binlogio.constants import BINLOG_MAGIC, EVENT_SIZE_BYTES, HEADER_SIZE, EventType, HeaderFlag
from binlogio.errors import BinlogError
from binlogio.implementation import is_compiled
from binlogio.storage import log_number
from pyspark_binlogio.option_values import BinlogOptionError
from pyspark_binlogio.views.batches import ARROW_TYPES, opened
from pyspark_binlogio.views.table_changes import image_type, row_batches

if TYPE_CHECKING:
    from binlogio.storage import Keyring, LogFile, OpenedLog
    from pyspark_binlogio.scan.partitions import Piece
    from pyspark_binlogio.scan.request import Request

CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"
COMMIT_GTID: Final = "_commit_gtid"
CHANGE_ORDER: Final = "_change_order"
CHANGE_FILE: Final = "_change_file"
CHANGE_POS: Final = "_change_pos"
CHANGE_ROW: Final = "_change_row"
CDF_FILTERS: Final = {CHANGE_FILE: "files", COMMIT_GTID: "gtids"}
"""Filters that select whole transactions: a filter within one would change _change_order."""

CDF_COLUMNS: Final = {
    CHANGE_TYPE: pa.string(),
    COMMIT_VERSION: pa.int64(),
    COMMIT_TIMESTAMP: ARROW_TYPES["timestamp"],
    COMMIT_GTID: pa.string(),
    CHANGE_ORDER: pa.int64(),
    CHANGE_FILE: pa.string(),
    CHANGE_POS: pa.int64(),
    CHANGE_ROW: pa.int32(),
}
"""The columns of the view besides those of the table."""

VERSION_BITS: Final = 40
"""The bits of the offset in _commit_version; a log may have a terabyte."""

Numbers = npt.NDArray[np.int64]
_US_PER_S: Final = 1_000_000
_CHUNK_SIZE: Final = 4096  # groups


def cdf_columns(request: Request, logs: list[LogFile]) -> Mapping[str, pa.DataType]:
    """Return the columns of the table, and those of the feed.

    Raises:
        BinlogOptionError: the table has a column of the same name as the feed.
    """
    image = image_type(request, logs)
    _refuse_own_names(image)
    return {
        **{field.name: field.type for field in image},
        **CDF_COLUMNS,
    }


def cdf_batches(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
    """Yield the row changes of a piece of a log, an update as two records.

    Raises:
        BinlogError: the bytes are not a binary log; with file and offset.
    """
    number = max(0, log_number(piece.log.name)[1])
    commits = Commits(piece, request)
    last_version, records = -1, 0
    for batch in row_batches(piece, request):
        found = _feed_batch(batch, number, commits, last_version, records)
        versions = np.asarray(found.column(COMMIT_VERSION))
        if len(versions):
            last_version, records = int(versions[-1]), int(found.column(CHANGE_ORDER)[-1].as_py()) + 1
        yield found


def _feed_batch(
    batch: pa.RecordBatch, file_number: int, commits: Commits, last_version: int, records: int
) -> pa.RecordBatch:
    """Return the records of a batch; the last batch ended with `records` records of the transaction `last_version`."""
    before, after = batch.column("before"), batch.column("after")
    has_before, has_after = (np.asarray(side.is_valid()) for side in (before, after))
    count = has_before.astype(np.int64) + has_after
    record = np.repeat(np.arange(batch.num_rows), count)
    is_second = np.concatenate(([False], record[1:] == record[:-1])) if len(record) else np.zeros(0, bool)
    is_after = is_second | ~has_before[record]
    images = pa.concat_arrays([before, after]).take(pa.array(record + is_after * batch.num_rows))
    _refuse_own_names(images.type)
    is_update = (has_before & has_after)[record]
    kind = is_update * (1 + is_second) + ~is_update * ~is_after * 3
    kinds = pa.array(["insert", "update_preimage", "update_postimage", "delete"])
    seconds = np.asarray(batch.column("timestamp").cast(pa.timestamp("s", "UTC")).cast(pa.int64()))
    starts, times = commits.of(np.asarray(batch.column("pos")), seconds)
    versions = ((file_number << VERSION_BITS) | starts)[record]
    rows = pa.array(record)
    columns = {
        **dict(zip((field.name for field in images.type), images.flatten(), strict=True)),
        CHANGE_TYPE: kinds.take(pa.array(kind)),
        COMMIT_VERSION: pa.array(versions, pa.int64()),
        COMMIT_TIMESTAMP: pa.array(times[record], pa.int64()).cast(CDF_COLUMNS[COMMIT_TIMESTAMP]),
        COMMIT_GTID: batch.column("gtid").take(rows),
        CHANGE_ORDER: pa.array(_order(versions, last_version, records), pa.int64()),
        CHANGE_FILE: batch.column("file").take(rows),
        CHANGE_POS: batch.column("pos").take(rows),
        CHANGE_ROW: batch.column("row").take(rows),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _order(versions: Numbers, last_version: int, records: int) -> Numbers:
    """Return the number of each record in its transaction, whose records are adjacent."""
    index = np.arange(len(versions))
    is_first = np.concatenate(([True], versions[1:] != versions[:-1])) if len(versions) else np.zeros(0, bool)
    order = index - np.maximum.accumulate(np.where(is_first, index, 0))
    return order + np.where(versions == last_version, records, 0)


def _refuse_own_names(image: pa.DataType) -> None:
    own = [field.name for field in image if field.name in CDF_COLUMNS]
    if own:
        raise BinlogOptionError(
            f"binlog: view cdf: the table has a column {own[0]}, which is also a column of the view itself; "
            "use view rows"
        )


class _GroupCommits(NamedTuple):
    """Groups in the order of the log: offsets of their first events, commit times in microseconds since 1970."""

    starts: Numbers
    times: Numbers


class Commits:
    """The groups of one piece of a log; `of` takes positions in the order of the log."""

    def __init__(self, piece: Piece, request: Request) -> None:
        has_checksum = _scannable(piece.log, request.keyring)
        self._groups = (
            _read(piece, request) if has_checksum is None else _scanned(piece, request, has_checksum=has_checksum)
        )
        none = np.zeros(0, np.int64)
        self._known = _GroupCommits(none, none)
        self._at_end = False

    def of(self, positions: Numbers, seconds: Numbers) -> tuple[Numbers, Numbers]:
        """Return the start and the commit time of the groups that contain `positions`.

        A position before the first group, as in a log that begins in the middle of a transaction, is a group of its
        own, with the time in `seconds`.
        """
        last = int(positions[-1]) if len(positions) else 0
        while not self._at_end and (not len(self._known.starts) or self._known.starts[-1] <= last):
            more = next(self._groups, None)
            self._at_end = more is None
            if more is not None:
                self._known = _GroupCommits(*(np.concatenate(pair) for pair in zip(self._known, more, strict=True)))
        index = np.searchsorted(self._known.starts, positions, side="right") - 1
        first = max(0, int(index.min())) if len(index) else 0
        self._known = _GroupCommits(*(column[first:] for column in self._known))
        index -= first
        if not len(self._known.starts):
            return positions, seconds * _US_PER_S
        is_known = index >= 0
        starts = np.where(is_known, self._known.starts[index], positions)
        return starts, np.where(is_known, self._known.times[index], seconds * _US_PER_S)


def _scannable(log: LogFile, keyring: Keyring | None) -> bool | None:
    """Return whether the events of a log have checksums; None for a log in which the kernel cannot scan for groups."""
    if not is_compiled():
        return None
    opened_log = log.open(keyring)
    has_checksum: bool | None = None
    try:
        for frame in head_frames(opened_log, keyring):
            code = frame.header.type_code
            has_checksum = frame.context.has_checksum
            if code in GROUP_STARTS:
                return has_checksum
            if (
                code not in HEAD_EVENTS
                or code == EventType.START_ENCRYPTION_EVENT
                or frame.header.flags & HeaderFlag.RELAY_LOG
                or frame.context.header_size != HEADER_SIZE
            ):
                return None
    except BinlogError:
        return None
    finally:
        opened_log.close()
    return has_checksum


def _scanned(piece: Piece, request: Request, *, has_checksum: bool) -> Iterator[_GroupCommits]:
    """Yield the groups that the kernel scans. Damage ends the scan; the reader of the rows reports it."""
    from binlogio._kernel.event_scanner import scan_groups  # noqa: PLC0415 - optional

    bounds = WHOLE if piece.split is None else split_bounds(piece.log, piece.split, request.keyring)
    if bounds is None:
        return
    log = piece.log.open(request.keyring)
    window = Window(log.read, readinto=log.readinto)
    try:
        _skip(window, log, bounds.start or len(BINLOG_MAGIC))
        while (bounds.stop is None or window.offset < bounds.stop) and window.fill(HEADER_SIZE):
            index = scan_groups(window.view, window.offset, checksum=has_checksum)
            if index.end == window.offset:
                size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little")
                if size < HEADER_SIZE or (size <= WINDOW_SIZE and not window.fill(size)):
                    return
                if size > WINDOW_SIZE and not _skip(window, log, size):
                    return
                continue
            window.take(index.end - window.offset)
            seconds = np.frombuffer(memoryview(index.timestamp), np.uint32).astype(np.int64)
            committed = np.frombuffer(memoryview(index.committed_us), np.int64)
            starts = np.frombuffer(memoryview(index.offset), np.int64)
            yield _GroupCommits(starts, np.where(committed >= 0, committed, seconds * _US_PER_S))
    except BinlogError:
        return
    finally:
        window.close()
        log.close()


def _skip(window: Window, log: OpenedLog, size: int) -> bool:
    """Skip `size` bytes, without reading them if the log is seekable. Return False if the log ends before."""
    if log.seekable and size > window.held:
        window.go_to(window.offset + size, log)
        return True
    while size and window.fill():
        taken = min(size, window.held)
        window.take(taken)
        size -= taken
    return not size


def _read(piece: Piece, request: Request) -> Iterator[_GroupCommits]:
    """Yield the groups by the reader of events."""
    starts: list[int] = []
    times: list[int] = []
    with opened(piece, request) as reader:
        if reader is None:
            return
        try:
            for group in reader.groups():
                committed = group.commit_timestamp
                starts.append(group.begin)
                times.append(group.timestamp * _US_PER_S if committed is None else committed)
                if len(starts) == _CHUNK_SIZE:
                    yield _groups(starts, times)
                    starts, times = [], []
        except BinlogError:
            pass
    if starts:
        yield _groups(starts, times)


def _groups(starts: list[int], times: list[int]) -> _GroupCommits:
    return _GroupCommits(np.array(starts, np.int64), np.array(times, np.int64))
