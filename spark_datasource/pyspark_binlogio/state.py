"""Replay on Spark: the rows of a table at a moment, from logs or from data frames.

The life of a table (`binlogio.replay.table_history`) is divided into stages (`stages`), stretches with the same key;
images of one stretch are converted to the columns of a later one. From logs, tasks search for the marks of the history
first; then each stretch is read with the columns that the table had there.

The public entry is `pyspark_binlogio.replay`; a module of that name would replace the function.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.pandas.functions import arrow_udf

from binlogio.columnar import EventSelection, RecordType, split_reader
from binlogio.constants import ColumnType
from binlogio.dotted_names import dotted_name, split_name
from binlogio.errors import BinlogError, ReplayError
from binlogio.replay import (
    ALWAYS,
    Images,
    Layout,
    Life,
    Lossy,
    Mark,
    Place,
    Stretch,
    TableHistory,
    Until,
    UntilLike,
    converted_text,
    is_kept,
    marks_of,
)
from binlogio.rows import TablePlan
from binlogio.schema import TableDefinition
from binlogio.schema.ddl import UNKNOWN_DEFAULT, ColumnChanges, Default
from binlogio.storage import base_name, log_number
from pyspark_binlogio.frame_changes import frame_stage, typed
from pyspark_binlogio.options import BinlogOptionError, BinlogReadOptions
from pyspark_binlogio.pyspark_api import is_connect, run_in_tasks, spark_struct
from pyspark_binlogio.scan import (
    LogPartition,
    Piece,
    Request,
    check_holes,
    find_log_files,
    option_hints,
    partitions,
    request_of,
)
from pyspark_binlogio.spark_types import spark_ddl, spark_type
from pyspark_binlogio.stages import (
    AT,
    BITMAPS,
    CHANGE,
    LAYOUT,
    PLACE_DDL,
    Stage,
    is_present,
    literal,
    place_column,
    place_literal,
    state_of,
    whole,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from binlogio.replay import Detours
    from binlogio.storage import LogFile
    from binlogio.values import ColumnPlan


# ------------------------------------------------------------------------------------------------- changes in logs


_HEAD: Final = "file string, pos bigint, row int, gtid string"
_PRESENT: Final = "before_present binary, after_present binary"


def _marks(spark: SparkSession, logs: Sequence[LogFile], options: BinlogReadOptions, until: Until) -> list[Mark]:
    """Return the facts of the logs besides row changes, up to the end of the replay.

    Raises:
        PythonException: a file is damaged or not a log; with file and offset.
    """
    planned = partitions(map(Piece, logs), options.max_partition_bytes)
    pieces = [part.pieces for part in planned if isinstance(part, LogPartition)]
    numbers = {log.name: number for number, log in enumerate(logs)}
    found = run_in_tasks(spark, partial(_marks_of_part, request_of(options), numbers, until), pieces)
    return [mark for marks in found for mark in marks]


def _marks_of_part(request: Request, numbers: dict[str, int], until: Until, part: tuple[Any, ...]) -> list[Mark]:
    """Return the marks of pieces of logs without parts of groups."""
    selection = EventSelection(verify_checksum=request.options.verify_checksum, definitions=request.definitions)
    marks: list[Mark] = []
    for piece in part:
        with option_hints():
            reader = split_reader(piece.log, piece.split, selection, request.keyring)
            if reader is None:
                continue
            try:
                with reader:
                    marks += marks_of(reader, numbers[piece.log.name], until)
            except BinlogError as exc:
                exc.locate(file=piece.log.name)
                raise
    return marks


def _listed(spark: SparkSession, options: BinlogReadOptions) -> list[LogFile]:
    """Return the logs. On Spark Connect a task lists them, since the client may be on another machine."""
    if not is_connect(spark):
        return find_log_files(options)
    return run_in_tasks(spark, find_log_files, [options])[0]


def _is_one_series(names: Iterable[str]) -> bool:
    """Return whether the names are those of one server's logs, whose numbers give their order."""
    found: list[Any] = [log_number(name) for name in names]
    return len({(stem, more) for stem, _, more in found}) == 1 and all(number >= 0 for _, number, _ in found)


# ---------------------------------------------------------------------------------------------------------- replay


UNFOLLOWED: Final = ("error", "ignore")


@option_hints()
def replay_changes(
    spark: SparkSession,
    changes: DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    table: str | TableDefinition,
    base: DataFrame | None,
    until: UntilLike,
    *,
    key: Sequence[str] | None,
    unfollowed: str,
    options: dict[str, str],
) -> DataFrame:
    """Return the rows of a table; arguments and errors as in `pyspark_binlogio.replay`."""
    if unfollowed not in UNFOLLOWED:
        raise BinlogOptionError(f"binlog: unfollowed: expected one of {', '.join(UNFOLLOWED)}, found {unfollowed!r}")
    if isinstance(changes, DataFrame):
        if options:
            raise BinlogOptionError(
                f"binlog: {', '.join(options)}: options apply to paths of logs, but changes is a data frame, "
                "which was read before"
            )
        return state_of(frame_stage(changes, table, Until.of(until), key), base)
    paths = [os.fspath(one) for one in ([changes] if isinstance(changes, (str, os.PathLike)) else changes)]
    given = [table] if isinstance(table, TableDefinition) else []
    log_replay = LogReplay.open(spark, paths, given, until, options)
    return log_replay.state(table if isinstance(table, str) else table.full_name, base, key=key, unfollowed=unfollowed)


@dataclass(frozen=True, slots=True)
class LogReplay:
    """Logs in order with the history of their tables, each of which can be replayed."""

    spark: SparkSession
    names: tuple[str, ...]
    options: dict[str, str]
    parsed: BinlogReadOptions
    history: TableHistory

    @classmethod
    @option_hints()
    def open(
        cls,
        spark: SparkSession,
        paths: Sequence[str],
        definitions: Sequence[TableDefinition],
        until: UntilLike,
        options: dict[str, str],
    ) -> LogReplay:
        """Read the history of the tables from the logs; errors as those of `pyspark_binlogio.replay`.

        Raises:
            MissingLogs: a log is missing between two others, as in a read.
        """
        stop = Until.of(until)
        if stop.gtids is not None:
            options = {**options, "endingGtids": str(stop.gtids)}
        parsed = BinlogReadOptions.parse({**options, "paths": json.dumps(list(paths))})
        found = {log.name: log for log in _listed(spark, parsed)}
        check_holes(list(found.values()), parsed, request_of(parsed).keyring)
        names = tuple(sorted(found, key=log_number) if _is_one_series(found) else found)
        marks = _marks(spark, [found[name] for name in names], parsed, stop)
        return cls(spark, names, options, parsed, TableHistory(marks, definitions))

    def state(
        self, table: str, base: DataFrame | None = None, *, key: Sequence[str] | None = None, unfollowed: str = "error"
    ) -> DataFrame:
        """Return the rows of a table; arguments and errors as those of `pyspark_binlogio.replay`."""
        state = None if self._life(table).is_whole else base
        for stage, carried in self.stages(table, key, unfollowed):
            state = state_of(stage, None if state is None else carried(state))
        if state is None:
            raise ReplayError(f"the columns of {table} are unknown", hint="pass a TableDefinition as table")
        return state

    def plan(self, table: str) -> TablePlan:
        """Return the columns that the table has at the end; errors as those of `pyspark_binlogio.replay`."""
        return _known(self._life(table), table, UNFOLLOWED[1])[-1].plan

    def _life(self, table: str) -> Life:
        return self.history.life(split_name(table))

    def stages(
        self, table: str, key: Sequence[str] | None, unfollowed: str
    ) -> list[tuple[Stage, Callable[[DataFrame], DataFrame]]]:
        """Return the parts of a table's life with one key and type of each column, with the function for the base.

        The function converts the rows before a part to its columns.
        """
        life = self._life(table)
        if unfollowed == "error" and life.problems:
            place, problem = life.problems[0]
            problem.locate(file=self.names[max(place.file, 0)], offset=place.pos)
            raise problem
        detours = self.history.detours_of(life)
        found: list[tuple[Stage, Callable[[DataFrame], DataFrame]]] = []
        earlier: list[_KnownStretch] = []
        for part, leading in self._parts(_known(life, table, unfollowed), key, unfollowed):
            last = part[-1]
            images = self.history.images_of(one.stretch for one in part)
            struct = spark_struct(self._image(last.plan))
            frames = []
            layouts = []
            for number, stretch in enumerate(part):
                columns = self._columns(part[number:], unfollowed)
                layouts.append(columns.layout())
                rows = self._rows(stretch.stretch, stretch.plan, min(stretch.stretch.end, self.history.cut))
                if rows is not None:
                    frames.append(columns.shown(rows, number))
            changes = reduce(DataFrame.unionByName, frames) if frames else self._nothing(struct)
            if detours:
                changes = changes.withColumn(AT, _detoured(F.col(AT), detours)).where(F.col(AT).isNotNull())
            stage = Stage(
                changes=changes,
                image=struct,
                key=leading,
                layouts=tuple(layouts),
                json=frozenset(c.label for c in last.plan.columns if c.type == ColumnType.JSON),
                whole_after=images.whole_after,
                has_diffs=images.has_diffs,
            )
            steps = [[*earlier, part[0]], part] if earlier else [part]
            found.append((stage, partial(_carried, [self._columns(step, unfollowed) for step in steps])))
            earlier = [last]
        return found

    def _parts(
        self, stretches: list[_KnownStretch], key: Sequence[str] | None, unfollowed: str
    ) -> list[tuple[list[_KnownStretch], tuple[str, ...]]]:
        """Return runs of stretches with the same key and types, and the names of the key in the last stretch of each.

        Only the rows that remain at the end of a run are converted to other types, as the server does.
        """
        parts: list[tuple[list[_KnownStretch], tuple[str, ...]]] = []
        last_key: tuple[str, ...] = ()
        for number, known in enumerate(stretches):
            own = tuple(key) if key is not None else _key(known, self.history.images_of([known.stretch]))
            pair = stretches[number - 1 : number + 1]
            is_same = number and _former(own, pair[0].stretch) == tuple(name.casefold() for name in last_key)
            if is_same and not self._columns(pair, unfollowed).converts:
                parts[-1] = [*parts[-1][0], known], own
            else:
                parts.append(([known], own))
            last_key = own
        return parts

    def _columns(self, stretches: list[_KnownStretch], unfollowed: str) -> _StretchColumns:
        return _StretchColumns(stretches, self._image(stretches[-1].plan), unfollowed)

    def _rows(self, stretch: Stretch, plan: TablePlan, end: Place) -> DataFrame | None:
        """Return the row changes of a stretch, with places; None if it is in none of the logs."""
        image = self._image(plan)
        ddl = f"{_HEAD}, before {spark_ddl(image)}, after {spark_ddl(image)}, {_PRESENT}"
        options = {**self.options, "table": dotted_name(*stretch.name)}
        if stretch.definition is not None and "schemaFile" not in options:
            options["schemaFile"] = json.dumps({dotted_name(*stretch.name): stretch.definition.to_json()})
        parts = [
            self.spark.read.format("binlog").schema(ddl).options(**options, **more).load(files)
            for files, more in self._ranges(stretch.start, end)
        ]
        if not parts:
            return None
        stem, first, _ = log_number(self.names[0])
        in_a_row = [(stem, first + number, "") for number in range(len(self.names))]
        place = place_column(self.names, is_numbered=list(map(log_number, self.names)) == in_a_row)
        placed = reduce(DataFrame.unionByName, parts).withColumn(AT, place)
        if stretch.start.row:
            placed = placed.where(F.col(AT) >= place_literal(stretch.start))
        return placed.where(F.col(AT) < place_literal(end)) if end.row else placed

    def _image(self, plan: TablePlan) -> pa.DataType:
        """Return the type of an image of the table in Spark."""
        return spark_type(RecordType.of(plan, None, zero_dates=self.parsed.zero_dates).image_type)

    def _ranges(self, start: Place, end: Place) -> Iterator[tuple[list[str], dict[str, str]]]:
        """Yield the files to read, with the options for their first and last position."""
        last = min(end.file, len(self.names) - 1)
        parts: list[tuple[str, dict[str, str]]] = [(name, {}) for name in self.names[max(start.file, 0) : last + 1]]
        if parts and start.file >= 0 and start.pos:
            parts[0][1]["startingPosition"] = f"{base_name(parts[0][0])}:{start.pos}"
        if parts and end.file == last:
            parts[-1][1]["endingPosition"] = f"{base_name(parts[-1][0])}:{end.pos + (end.row > 0)}"
        for more, same in groupby(parts, itemgetter(1)):
            yield [name for name, _ in same], more

    def _nothing(self, image: StructType) -> DataFrame:
        """Return no changes."""
        kinds: tuple[StructType | str, ...] = (PLACE_DDL, "int", image, image, "binary", "binary")
        columns = zip((AT, LAYOUT, *CHANGE), kinds, strict=True)
        return self.spark.range(0).select(*(F.lit(None).cast(kind).alias(name) for name, kind in columns))


def _detoured(place: Column, detours: Detours) -> Column:
    """Return the place at which a change takes effect; NULL if it has no effect."""

    def moved(file: pa.Array, pos: pa.Array, row: pa.Array) -> pa.Array:  # Spark reads the type hints
        return detours.of(file, pos, row)

    udf = arrow_udf(moved, PLACE_DDL)  # type: ignore[call-overload]
    column: Column = udf(*(place.getField(name) for name in Place._fields))
    return column


@dataclass(frozen=True, slots=True)
class _KnownStretch:
    """A stretch with its columns."""

    stretch: Stretch
    plan: TablePlan


def _known(life: Life, table: str, unfollowed: str) -> list[_KnownStretch]:
    """Return the stretches with known columns. Others have no changes, but the statements at their ends count."""
    found: list[_KnownStretch] = []
    is_now = False
    for stretch in life.stretches:
        plan = stretch.plan()
        is_now = plan is not None
        if plan is not None:
            found.append(_KnownStretch(stretch, plan))
        elif found:
            last = found[-1]
            then = last.stretch.then.followed_by(stretch.then)
            found[-1] = _KnownStretch(replace(last.stretch, then=then), last.plan)
    if not found or (not is_now and unfollowed == "error"):
        raise ReplayError(f"the columns of {table} are unknown", hint="pass a TableDefinition as table")
    return found


def _former(key: tuple[str, ...], before: Stretch) -> tuple[str, ...] | None:
    """Return the former names of the columns of a key; None if one is new."""
    formers = [before.then.former(name.casefold()) for name in key]
    found = tuple(name for name in formers if name is not None)
    return found if len(found) == len(key) else None


def _key(known: _KnownStretch, images: Images) -> tuple[str, ...]:
    """Return the key: that of the definition, of the log's metadata, or the columns that all before images have."""
    definition, labels = known.stretch.definition, [column.label for column in known.plan.columns]
    if definition is not None and definition.primary_key:
        folded = {label.casefold(): label for label in labels}
        if all(name.casefold() in folded for name in definition.primary_key):
            return tuple(folded[name.casefold()] for name in definition.primary_key)
    if known.plan.primary_key:
        return tuple(labels[position] for position, _ in known.plan.primary_key)
    every = (1 << len(labels)) - 1
    if images.before_present and all(bits & every == every for bits in images.before_present):
        return ()  # at most hidden hash columns of MariaDB are missing
    if not images.whole_before and len(images.before_present) == 1:
        (bits,) = images.before_present
        lacking = {label.casefold() for number, label in enumerate(labels) if not bits >> number & 1}
        if known.stretch.is_mariadb and (
            definition is None or lacking <= {name.casefold() for name in known.stretch.unlogged()}
        ):
            raise ReplayError(
                f"the key of {dotted_name(*known.stretch.name)} is unknown: MariaDB leaves generated columns out of "
                "row images, so the columns that are there need not be a key",
                hint="pass key, or a TableDefinition as table",
            )
        return tuple(label for number, label in enumerate(labels) if bits >> number & 1)
    if not images.whole_before:
        raise ReplayError(
            f"the key of {dotted_name(*known.stretch.name)} is unknown, and its row images are not full",
            hint="pass key, or a TableDefinition as table",
        )
    return ()


class _StretchColumns:
    """The columns of the first of some stretches, converted to those of the last one."""

    def __init__(self, stretches: list[_KnownStretch], image: pa.DataType, unfollowed: str) -> None:
        self._first, self._last = stretches[0], stretches[-1]
        self._image = image
        self._changes = reduce(ColumnChanges.followed_by, (one.stretch.then for one in stretches[:-1]), ColumnChanges())
        self._unfollowed = unfollowed
        self._numbers = {column.label: number for number, column in enumerate(self._first.plan.columns)}
        self._labels = {label.casefold(): label for label in self._numbers}
        self._origins = [self._origin(field.name) for field in image]

    @property
    def converts(self) -> bool:
        """True if values of a column are converted to another type."""
        pairs = zip(self._origins, self._last.plan.columns, strict=True)
        return any(isinstance(one, str) and not is_kept(self._plan(one), column) for one, column in pairs)

    def layout(self) -> Layout:
        """Return the places of the columns in the bitmaps of the stretch."""
        bits = {**self._numbers, **dict.fromkeys(self._first.stretch.unlogged(), ALWAYS)}
        return Layout(tuple(bits[one] if isinstance(one, str) else None for one in self._origins))

    def shown(self, rows: DataFrame, number: int) -> DataFrame:
        """Return the changes of the stretch, with the columns of the last one."""
        return rows.select(
            AT,
            F.lit(number).alias(LAYOUT),
            self._converted("before").alias("before"),
            self._converted("after", defaults=self._first.stretch.defaults).alias("after"),
            *BITMAPS,
        )

    def base(self, rows: DataFrame) -> DataFrame:
        """Return rows of the table at the beginning of the first stretch, with the columns of the last one."""
        one = rows.select(whole(rows.schema).alias("row"))
        return one.select(self._converted("row").alias("row")).select("row.*")

    def _converted(self, name: str, *, defaults: Mapping[str, Default] | None = None) -> Column:
        """Return an image; an insert gets the defaults of the columns that its image lacks."""
        identical = self._origins == [field.name for field in self._image] == list(self._numbers) and not self.converts
        own = Layout(tuple(self._numbers.values()))
        parts = []
        for origin, field, column in zip(self._origins, self._image, self._last.plan.columns, strict=True):
            kind = spark_ddl(field.type)
            if not isinstance(origin, str):
                parts.append(literal(origin, kind).alias(field.name))
                continue
            value = self._retyped(F.col(name).getField(origin), self._plan(origin), column, field)
            default = (defaults or {}).get(origin.casefold())
            if default is not None and default.is_known and default.text is not None:
                identical = False
                lacks = F.col("before").isNull() & ~is_present("after_present", (own,), self._numbers[origin])
                value = F.when(lacks, literal(default, kind)).otherwise(value)
            parts.append(value.alias(field.name))
        if identical:
            return F.col(name).cast(spark_ddl(self._image))
        return F.when(F.col(name).isNotNull(), F.struct(*parts))

    def _retyped(self, value: Column, old: ColumnPlan, new: ColumnPlan, field: pa.Field) -> Column:
        """Return the value of a column in the type that ALTER TABLE gave it; a task refuses values that change."""
        if is_kept(old, new):
            return value.cast(spark_ddl(field.type))
        place = f"{dotted_name(*self._last.stretch.name)}.{field.name}"

        def texts(values: pa.Array) -> pa.Array:  # Spark reads the type hints
            return _texts(values, old, new, place if self._unfollowed == "error" else None)

        return typed(arrow_udf(texts, "string")(value), field)  # type: ignore[call-overload]

    def _plan(self, label: str) -> ColumnPlan:
        return self._first.plan.columns[self._numbers[label]]

    def _origin(self, name: str) -> str | Default:
        """Return the name of a column in the stretch; if it was added later, the default of existing rows."""
        now = name.casefold()
        former = self._changes.former(now)
        default = self._changes.defaults.get(now, UNKNOWN_DEFAULT) if former is None else UNKNOWN_DEFAULT
        label = None if former is None else self._labels.get(former)
        if label is not None:
            return label
        if not default.is_known and self._unfollowed == "error":
            raise ReplayError(
                "a column was added whose values in existing rows cannot be determined",
                field=f"{dotted_name(*self._first.stretch.name)}.{name}",
            )
        return default if default.is_known else Default()


def _carried(steps: Sequence[_StretchColumns], rows: DataFrame) -> DataFrame:
    """Return rows of a table, converted from step to step."""
    return reduce(lambda found, columns: columns.base(found), steps, rows)


def _texts(values: pa.Array, old: ColumnPlan, new: ColumnPlan, field: str | None) -> pa.Array:
    """Return the texts of the values of a column whose type changes.

    Raises:
        ReplayError: the server's result for a value is not known; without `field`, the old text is returned.
    """
    found = []
    for value in values.to_pylist():
        try:
            found.append(converted_text(value, old, new))
        except Lossy as exc:
            if field is not None:
                raise ReplayError(
                    "ALTER TABLE converts a value, and the result is not known",
                    field=field,
                    found=str(exc),
                    hint="pass unfollowed='ignore' to convert such values as Spark does, or begin with a copy of the "
                    "table that was made after the statement",
                ) from exc
            found.append(None if value is None else str(value))
    return pa.array(found, pa.string())
