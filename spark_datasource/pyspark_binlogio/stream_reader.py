"""Reads logs as they grow: offsets at the ends of event groups, and the groups between two offsets.

Knows Spark's streaming interface, and how far each log may be read. What is in a batch is planned from its two offsets alone, so a batch
that is run again after a crash is the same batch.

    offset := {"file": name, "pos": int}       -- up to pos in that file, and all files before it; a finished file ends at the next one's 0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from binlogio.columnar.growing_log import last_group_end
from binlogio.columnar.split_bounds import group_behind, is_one_piece
from binlogio.errors import BinlogFormatError
from binlogio.event_filter import HIGHEST, Range
from binlogio.index_file import log_number
from pyspark_binlogio.batch_reader import BinlogBatchReader
from pyspark_binlogio.log_files import find_log_files
from pyspark_binlogio.partitions import Piece

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from binlogio.storage import LogFile
    from pyspark_binlogio.options import BinlogOptions

Offset = dict[str, Any]
_LISTINGS: Final = 3
_NOTHING: Final[Offset] = {"file": "", "pos": 0}


class BinlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows one series of logs, of which new ones come and old ones may go."""

    def __init__(self, options: BinlogOptions, schema: StructType) -> None:
        self._options = options
        self._batches = BinlogBatchReader(options, schema)
        self._target: Offset | None = None
        self._ends: dict[str, int] = {}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Before the first log, or where `startingPosition` says."""
        position = self._options.starting_position
        if position is None:
            return dict(_NOTHING)
        logs = self._logs()
        name = next((log.name for log in logs if log.name.endswith(position[0])), None)
        return dict(_NOTHING) if name is None else {"file": name, "pos": position[1]}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `maxFilesPerTrigger` or `maxBytesPerTrigger` says."""
        if self._options.max_files_per_trigger is not None:
            return ReadMaxFiles(self._options.max_files_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is all that the query will read."""
        self._target = self._latest(dict(_NOTHING), ReadAllAvailable())

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """How far the next batch goes: to the end of a group that is whole, and no further than the limit but for one group.

        Raises:
            BinlogFormatError: the log of `start` is gone, or one behind it, and `ignoreMissingFiles` is not set.
            OSError: a log cannot be read.
        """
        latest = self._latest(start, limit)
        return self._earlier(latest, self._target) if self._target is not None else latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The groups between two offsets, cut and packed as those of a batch read.

        Raises:
            BinlogFormatError: a log between the two is gone, and `ignoreMissingFiles` is not set.
        """
        if start == end:
            return []
        logs = self._logs()
        names = [log.name for log in logs]
        if end["file"] not in names or (start["file"] and start["file"] not in names):
            self._refuse_gap(start if start["file"] not in names else end, logs)
        pieces = []
        logs = [log for log in logs if _key(start["file"]) <= _key(log.name) <= _key(end["file"])]
        self._refuse_holes(logs)
        for log in logs:
            first = start["pos"] if log.name == start["file"] else 0
            last = end["pos"] if log.name == end["file"] else HIGHEST
            if first < last:
                pieces.append(Piece(log, None, Range(first, last)))
        return self._batches.plan(pieces)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one partition; errors as in a batch read."""
        return self._batches.read(partition)

    def _logs(self) -> list[LogFile]:
        """The logs in order; there may be none yet.

        Raises:
            BinlogFormatError: they are of several series.
        """
        logs: list[LogFile] = []
        for _ in range(_LISTINGS):
            with suppress(FileNotFoundError):  # there is none yet; or one went while an index was read
                logs = find_log_files(self._options)
                break
        stems = {log_number(log.name)[0] for log in logs}
        if len(stems) > 1:
            raise BinlogFormatError(
                "a stream follows the logs of one server, in the order of their numbers",
                expected="one basename",
                found=", ".join(sorted(stems)),
                hint="use a stream for each",
            )
        return logs

    def _latest(self, start: Offset, limit: ReadLimit) -> Offset:
        logs = [log for log in self._logs() if _key(log.name) >= _key(start["file"])]
        if start["file"] and (not logs or logs[0].name != start["file"]):
            self._refuse_gap(start, logs)
        self._refuse_holes(logs)
        files = limit.max_files if isinstance(limit, ReadMaxFiles) else len(logs)
        room = limit.max_bytes if isinstance(limit, ReadMaxBytes) else HIGHEST
        found = start
        for number, log in enumerate(logs[:files]):
            begin = start["pos"] if log.name == start["file"] else 0
            following = logs[number + 1].name if number + 1 < len(logs) else None
            end = (log.size or 0) if following is not None else self._growing_end(log, begin)
            if end - begin > room and not is_one_piece(log, self._batches.keyring):
                cut = group_behind(log, begin + max(1, room), self._batches.keyring)
                if cut is not None and cut < end:
                    return {"file": log.name, "pos": cut}
            found = {"file": following, "pos": 0} if following is not None else {"file": log.name, "pos": end}
            room -= end - begin
            if room <= 0:
                break
        return found

    def _growing_end(self, log: LogFile, begin: int) -> int:
        """How far the last log may be read."""
        if is_one_piece(log, self._batches.keyring):
            return begin  # its groups cannot be told apart by their places: it comes as a whole once it is finished
        known = max(begin, self._ends.get(log.name, 0))
        end = last_group_end(log, known, self._batches.keyring)
        self._ends = {log.name: end}
        return end

    def _earlier(self, one: Offset, other: Offset) -> Offset:
        return min(one, other, key=lambda offset: (_key(offset["file"]), offset["pos"]))

    def _refuse_gap(self, offset: Offset, logs: list[LogFile]) -> None:
        if self._options.ignore_missing_files:
            return
        raise BinlogFormatError(
            "the log from which the stream was to go on is not there any more: transactions may be lost",
            file=offset["file"],
            offset=offset["pos"],
            found=logs[0].name if logs else "no log at all",
            hint="set ignoreMissingFiles to go on with what is there",
        )

    def _refuse_holes(self, logs: list[LogFile]) -> None:
        """Servers number their logs one by one: where one is missing between two others, so are its transactions."""
        if self._options.ignore_missing_files or self._options.path_glob_filter:
            return
        for one, other in pairwise(logs):
            number, next_number = log_number(one.name)[1], log_number(other.name)[1]
            if next_number > number + 1:
                raise BinlogFormatError(
                    "a log between two others is not there: transactions may be lost",
                    file=other.name,
                    expected=f"number {number + 1} behind {one.name}",
                    found=f"number {next_number}",
                    hint="set ignoreMissingFiles to go on with what is there",
                )


def _key(name: str) -> tuple[str, int, str]:
    return log_number(name) if name else ("", -1, "")
