"""Replay of changes in log files: the marks of the logs, and the row changes of a table, stretch by stretch.

Row changes have the shape of the view `rows`.

Runs the tasks that search for marks, and reads a stretch of a table's life with the columns that the table had
there.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from binlogio.columnar import WHOLE, RecordType, split_bounds
from binlogio.constants import EventType
from binlogio.errors import BinlogError
from binlogio.event_filter import EventFilter
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.replay import Mark, Place, marks_of
from binlogio.schema import DefinitionSource
from binlogio.storage import base_name, log_number
from pyspark_binlogio.options import BinlogReadOptions
from pyspark_binlogio.pyspark_api import is_connect
from pyspark_binlogio.scan.damage import option_hints
from pyspark_binlogio.scan.partitions import LogPartition, Piece, partitions
from pyspark_binlogio.scan.request import Request, find_log_files, request_of
from pyspark_binlogio.spark_types import spark_ddl, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from binlogio.replay import Stretch
    from binlogio.rows import TablePlan
    from binlogio.storage import LogFile
    from pyspark_binlogio.state.until import Until

_HEAD: Final = "file string, pos bigint, row int, gtid string"
_PRESENT: Final = "before_present binary, after_present binary"


@dataclass(frozen=True, slots=True)
class ReplayLogs:
    """The logs of a replay in order, and the options for reading them."""

    spark: SparkSession
    names: tuple[str, ...]
    options: dict[str, str]

    @classmethod
    @option_hints()
    def find(cls, spark: SparkSession, paths: Sequence[str], options: dict[str, str]) -> ReplayLogs:
        """Return the logs that the paths name.

        Raises:
            OSError: a path matches no file.
            BinlogOptionError: an unknown option.
        """
        parsed = BinlogReadOptions.parse({**options, "paths": json.dumps(list(paths))})
        names = dict.fromkeys(log.name for log in _listed(spark, parsed))
        return cls(spark, tuple(sorted(names, key=_by_number) if _is_one_series(names) else names), options)

    def marks(self, until: Until) -> list[Mark]:
        """Return the facts of the logs besides row changes, up to the end of the replay.

        Raises:
            PythonException: a file is damaged or not a log; with file and offset.
        """
        options = BinlogReadOptions.parse({**self.options, "paths": json.dumps(list(self.names))})
        request = request_of(options)
        numbers = {name: number for number, name in enumerate(self.names)}
        planned = partitions((Piece(log) for log in _listed(self.spark, options)), options.max_partition_bytes)
        pieces = [part.pieces for part in planned if isinstance(part, LogPartition)]
        if not pieces:
            return []
        scan = _MarkTask(pieces, request, numbers, until)
        found = self.spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(scan, "mark binary").collect()
        return [pickle.loads(row["mark"]) for row in found]  # noqa: S301 - our own tasks made it

    def place(self) -> Column:
        """Return the place of a record."""
        return F.struct(self._number().alias("file"), F.col("pos"), F.col("row").cast("bigint").alias("row"))

    def _number(self) -> Column:
        if len(self.names) == 1:
            return F.lit(0).cast("bigint")
        first = log_number(self.names[0])
        if (
            _is_one_series(self.names)
            and not first[2]
            and log_number(self.names[-1])[1] - first[1] == len(self.names) - 1
        ):
            return F.substring_index("file", ".", -1).cast("bigint") - first[1]
        names = F.array(*(F.lit(name) for name in self.names))
        return (F.array_position(names, F.col("file")) - 1).cast("bigint")

    def rows(self, stretch: Stretch, plan: TablePlan, end: Place) -> DataFrame | None:
        """Return the row changes of a stretch, with places; None if it is in none of the logs."""
        image = self.image(plan)
        ddl = f"{_HEAD}, before {spark_ddl(image)}, after {spark_ddl(image)}, {_PRESENT}"
        options = {**self.options, "table": ".".join(stretch.name)}
        if stretch.definition is not None and "schemaFile" not in options:
            options["schemaFile"] = json.dumps({".".join(stretch.name): stretch.definition.to_json()})
        found: DataFrame | None = None
        for files, more in self._ranges(stretch.start, end):
            part = self.spark.read.format("binlog").schema(ddl).options(**options, **more).load(files)
            found = part if found is None else found.unionByName(part)
        if found is None:
            return None
        placed = found.withColumn("_at", self.place())
        if stretch.start.row:
            placed = placed.where(F.col("_at") >= _literal(stretch.start))
        return placed.where(F.col("_at") < _literal(end)) if end.row else placed

    def image(self, plan: TablePlan) -> pa.DataType:
        """Return the type of an image of the table in Spark."""
        zero_dates = BinlogReadOptions.parse(self.options).zero_dates
        return spark_type(RecordType.of(plan, None, zero_dates=zero_dates).image_type)

    def _ranges(self, start: Place, end: Place) -> Iterator[tuple[list[str], dict[str, str]]]:
        """Yield the files to read, with the options for their first and last position."""
        first, last = max(start.file, 0), min(end.file, len(self.names) - 1)
        if first > last:
            return
        begin = {"startingPosition": _position(self.names[first], start.pos)} if start.file >= 0 and start.pos else {}
        stop = {"endingPosition": _position(self.names[last], end.pos + (end.row > 0))} if end.file == last else {}
        if first == last:
            yield [self.names[first]], {**begin, **stop}
            return
        whole = list(self.names[first + bool(begin) : last + 1 - bool(stop)])
        if begin:
            yield [self.names[first]], begin
        if whole:
            yield whole, {}
        if stop:
            yield [self.names[last]], stop


def _listed(spark: SparkSession, options: BinlogReadOptions) -> list[LogFile]:
    """Return the logs. On Spark Connect a task lists them, since the client may be on another machine."""
    if not is_connect(spark):
        return find_log_files(options)
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(partial(_listed_by_task, options), "logs binary").collect()
    found: list[LogFile] = pickle.loads(row["logs"])  # noqa: S301 - our own task made it
    return found


def _listed_by_task(options: BinlogReadOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"logs": [pickle.dumps(find_log_files(options))]})


class _MarkTask:
    """The function of the tasks that find marks; Spark pickles it."""

    def __init__(
        self, pieces: list[tuple[Piece, ...]], request: Request, numbers: dict[str, int], until: Until
    ) -> None:
        self._pieces = pieces
        self._request = request
        self._numbers = numbers
        self._until = until

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the marks of the parts with these numbers."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for piece in self._pieces[number]:
                    found = [pickle.dumps(mark) for mark in self._marks(piece)]
                    yield pa.RecordBatch.from_arrays([pa.array(found, pa.binary())], names=["mark"])

    def _marks(self, piece: Piece) -> Iterator[Mark]:
        where = EventFilter(wanted_gtids=self._until.gtids)
        with option_hints(), _opened(piece, self._request) as reader:
            if reader is None:
                return
            try:
                yield from marks_of(
                    reader, self._numbers[piece.log.name], self._is_beyond(piece.log.name), where.wants_group
                )
            except BinlogError as exc:
                exc.locate(file=piece.log.name)
                raise

    def _is_beyond(self, name: str) -> Callable[[int, int], bool]:
        until = self._until
        if until.moment is not None:
            moment = until.moment
            return lambda end, timestamp: timestamp > moment
        if until.position is None:
            return lambda end, timestamp: False
        file, offset = until.position
        own = base_name(name)
        if own == file:
            return lambda end, timestamp: end > offset
        stem, number, _ = log_number(own)
        last_stem, last, _ = log_number(file)
        return lambda end, timestamp: stem == last_stem and number > last


@contextmanager
def _opened(piece: Piece, request: Request) -> Iterator[BinlogReader | None]:
    """Provide a reader of the events of a piece; None if no event group begins in it."""
    options = request.options
    bounds = WHOLE if piece.split is None else split_bounds(piece.log, piece.split, request.keyring)
    if bounds is None:
        yield None
        return
    read = ReadOptions(verify_checksum=options.verify_checksum, start_offset=bounds.start, stop_offset=bounds.stop)
    source = DefinitionSource(request.definitions, follows_ddl=False)  # a piece may not have the DDL before it
    reader = _PieceReader([piece.log], read, keyring=request.keyring, definitions=source)
    reader.skips_description = bounds.start is not None
    with reader:
        yield reader


class _PieceReader(BinlogReader):
    """A reader that skips the format description if that belongs to another piece."""

    skips_description = False

    def __next__(self) -> Any:
        event = super().__next__()
        if self.skips_description and event.header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
            self.skips_description = False
            return super().__next__()
        return event


def _literal(place: Place) -> Column:
    return F.struct(
        *(F.lit(value).cast("bigint").alias(name) for name, value in zip(("file", "pos", "row"), place, strict=True))
    )


def _position(name: str, offset: int) -> str:
    return f"{base_name(name)}:{offset}"


def _by_number(name: str) -> tuple[str, int, str]:
    return log_number(name)


def _is_one_series(names: Iterable[str]) -> bool:
    """Return whether the names are those of one server's logs, so that their numbers are their order."""
    found: list[Any] = [log_number(name) for name in names]
    return len({(stem, more) for stem, _, more in found}) == 1 and all(number >= 0 for _, number, _ in found)
