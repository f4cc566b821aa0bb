"""Replay: computes the rows of a table at a moment from its changes.

Divides the life of a table into stages (stretches with the same key), and converts images of one stretch to the
columns of a later one. `state.rows` computes the rows of a stage.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type

from binlogio.constants import ColumnType
from binlogio.errors import ReplayError
from binlogio.replay import Images, Life, Stretch, TableHistory
from binlogio.schema import TableDefinition
from binlogio.schema.ddl import UNKNOWN_DEFAULT, Default
from pyspark_binlogio.options import BinlogOptionError
from pyspark_binlogio.scan.damage import option_hints
from pyspark_binlogio.spark_types import spark_ddl
from pyspark_binlogio.state.detours import detoured
from pyspark_binlogio.state.frames import frame_stage
from pyspark_binlogio.state.logs import ReplayLogs
from pyspark_binlogio.state.rows import state_of
from pyspark_binlogio.state.stage import ALWAYS, Layout, Stage, is_present, literal, whole
from pyspark_binlogio.state.until import Until, UntilLike

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

    from binlogio.rows import TablePlan

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
        return state_of(*frame_stage(changes, table, base, Until.of(until), key))
    paths = [os.fspath(one) for one in ([changes] if isinstance(changes, (str, os.PathLike)) else changes)]
    given = [table] if isinstance(table, TableDefinition) else []
    log_replay = LogReplay.open(spark, paths, given, until, options)
    return log_replay.state(table if isinstance(table, str) else table.full_name, base, key=key, unfollowed=unfollowed)


@dataclass(frozen=True, slots=True)
class LogReplay:
    """Logs with the history of their tables, each of which can be replayed."""

    logs: ReplayLogs
    history: TableHistory
    until: Until

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        paths: Sequence[str],
        definitions: Sequence[TableDefinition],
        until: UntilLike,
        options: dict[str, str],
    ) -> LogReplay:
        """Read the history of the tables from the logs; errors as those of `pyspark_binlogio.replay`."""
        stop = Until.of(until)
        if stop.gtids is not None:
            options = {**options, "endingGtids": str(stop.gtids)}
        logs = ReplayLogs.find(spark, paths, options)
        return cls(logs, TableHistory(logs.marks(stop), definitions), stop)

    def state(
        self, table: str, base: DataFrame | None = None, *, key: Sequence[str] | None = None, unfollowed: str = "error"
    ) -> DataFrame:
        """Return the rows of a table; arguments and errors as those of `pyspark_binlogio.replay`."""
        schema, _, name = table.partition(".")
        state = None if self.history.life((schema, name)).is_whole else base
        for stage, start in self.stages(table, key, unfollowed):
            state = state_of(stage, None if state is None else start.base(state))
        if state is None:
            raise ReplayError(f"the columns of {table} are unknown", hint="pass a TableDefinition as table")
        return state

    def plan(self, table: str) -> TablePlan:
        """Return the columns that the table has at the end; errors as those of `pyspark_binlogio.replay`."""
        schema, _, name = table.partition(".")
        return _known(self.history.life((schema, name)), table, UNFOLLOWED[1])[-1].plan

    def stages(self, table: str, key: Sequence[str] | None, unfollowed: str) -> list[tuple[Stage, _EarlierRows]]:
        """Return the parts of a table's life with one key, and the conversion of earlier rows to their columns."""
        schema, _, name = table.partition(".")
        life = self.history.life((schema, name))
        if unfollowed == "error" and life.problems:
            place, problem = life.problems[0]
            problem.locate(file=self.logs.names[max(place.file, 0)], offset=place.pos)
            raise problem
        images = self.history.images_of(life)
        stretches = _known(life, table, unfollowed)
        detours = self.history.detours_of(life)
        found = []
        for part, leading in _parts(stretches, key, images):
            last = part[-1]
            image = self.logs.image(last.plan)
            struct = self._struct(image)
            frames = []
            layouts = []
            for number, stretch in enumerate(part):
                columns = _StretchColumns(part[number:], image, unfollowed)
                layouts.append(columns.layout())
                rows = self.logs.rows(stretch.stretch, stretch.plan, min(stretch.stretch.end, self.history.cut))
                if rows is not None:
                    frames.append(columns.shown(rows, number))
            changes = reduce(DataFrame.unionByName, frames) if frames else self._nothing(struct)
            if detours:
                changes = changes.withColumn("_at", detoured(F.col("_at"), detours)).where("_at IS NOT NULL")
            stage = Stage(
                changes=changes,
                image=struct,
                key=leading,
                layouts=tuple(layouts),
                json=frozenset(c.label for c in last.plan.columns if c.type == ColumnType.JSON),
                whole_after=images.whole_after,
                has_diffs=images.has_diffs,
            )
            found.append((stage, _EarlierRows(part, image, unfollowed)))
        for before, following in pairwise(found):
            following[1].follows = before[1].part[-1]
        return found

    def _struct(self, image: pa.DataType) -> StructType:
        return cast("StructType", from_arrow_type(image))

    def _nothing(self, struct: StructType) -> DataFrame:
        place = "struct<file: bigint, pos: bigint, row: bigint>"
        empty = self.logs.spark.range(0)
        return empty.select(
            F.lit(None).cast(place).alias("_at"),
            F.lit(0).alias("_layout"),
            F.lit(None).cast(struct).alias("before"),
            F.lit(None).cast(struct).alias("after"),
            F.lit(None).cast("binary").alias("before_present"),
            F.lit(None).cast("binary").alias("after_present"),
        )


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


def _parts(
    stretches: list[_KnownStretch], key: Sequence[str] | None, images: Images
) -> list[tuple[list[_KnownStretch], tuple[str, ...]]]:
    """Return runs of stretches with the same key, and the names of the key in the last stretch of each."""
    parts: list[tuple[list[_KnownStretch], tuple[str, ...]]] = []
    last_key: tuple[str, ...] | None = None
    for number, known in enumerate(stretches):
        own = tuple(key) if key is not None else _key(known, images)
        former = _former(own, stretches[number - 1].stretch) if number else None
        if number and former == tuple(name.casefold() for name in last_key or ()):
            parts[-1] = [*parts[-1][0], known], own
        else:
            parts.append(([known], own))
        last_key = own
    return parts


def _former(key: tuple[str, ...], before: Stretch) -> tuple[str, ...] | None:
    """Return the former names of the columns of a key; None if one is new."""
    then = before.then
    names = [name.casefold() for name in key]
    if any(name in then.added for name in names):
        return None
    return tuple(then.renamed.get(name, name) for name in names)


def _key(known: _KnownStretch, images: Images) -> tuple[str, ...]:
    """Return the key: that of the definition, of the log's metadata, or the columns that all before images have."""
    definition, labels = known.stretch.definition, [column.label for column in known.plan.columns]
    if definition is not None and definition.primary_key:
        folded = {label.casefold(): label for label in labels}
        if all(name.casefold() in folded for name in definition.primary_key):
            return tuple(folded[name.casefold()] for name in definition.primary_key)
    if known.plan.primary_key:
        return tuple(labels[position] for position, _ in known.plan.primary_key)
    if not images.whole_before and len(images.before_present) == 1:
        (bits,) = images.before_present
        lacking = {label.casefold() for number, label in enumerate(labels) if not bits >> number & 1}
        if known.stretch.is_mariadb and (
            definition is None or lacking <= {name.casefold() for name in known.stretch.unlogged()}
        ):
            raise ReplayError(
                f"the key of {'.'.join(known.stretch.name)} is unknown: MariaDB leaves generated columns out of row "
                "images, so the columns that are there need not be a key",
                hint="pass key, or a TableDefinition as table",
            )
        return tuple(label for number, label in enumerate(labels) if bits >> number & 1)
    if not images.whole_before:
        raise ReplayError(
            f"the key of {'.'.join(known.stretch.name)} is unknown, and its row images are not full",
            hint="pass key, or a TableDefinition as table",
        )
    return ()


class _StretchColumns:
    """The columns of a stretch, converted to those of the last stretch of its part."""

    def __init__(self, stretches: list[_KnownStretch], image: pa.DataType, unfollowed: str) -> None:
        self._first = stretches[0]
        self._image = image
        self._steps = [one.stretch.then for one in stretches[:-1]]
        self._unfollowed = unfollowed
        self._labels = {column.label.casefold(): column.label for column in self._first.plan.columns}
        self._origins = [self._origin(field.name) for field in image]

    def layout(self) -> Layout:
        """Return the places of the columns in the bitmaps of the stretch."""
        numbers = {column.label: number for number, column in enumerate(self._first.plan.columns)}
        unlogged = dict.fromkeys(self._first.stretch.unlogged(), ALWAYS)
        return Layout(tuple({**numbers, **unlogged}[one] if isinstance(one, str) else None for one in self._origins))

    def shown(self, rows: DataFrame, number: int) -> DataFrame:
        """Return the changes of the stretch, with the columns of the last one."""
        return rows.select(
            "_at",
            F.lit(number).alias("_layout"),
            self.image("before").alias("before"),
            self.image("after", number).alias("after"),
            "before_present",
            "after_present",
        )

    def image(self, name: str, number: int | None = None) -> Column:
        """Return an image; an insert gets the defaults of the columns that its image lacks."""
        identical = all(origin == field.name for origin, field in zip(self._origins, self._image, strict=True))
        defaults = self._first.stretch.defaults if number is not None else {}
        own = Layout(tuple(range(len(self._first.plan.columns))))
        parts = []
        for origin, field in zip(self._origins, self._image, strict=True):
            kind = spark_ddl(field.type)
            if not isinstance(origin, str):
                parts.append(self._literal(origin, kind).alias(field.name))
                continue
            value = F.col(name).getField(origin).cast(kind)
            default = defaults.get(origin.casefold())
            if default is not None and default.is_known and default.text is not None:
                identical = False
                column = self._labels_in_order().index(origin)
                lacks = F.col("before").isNull() & ~is_present("after_present", (own,), column)
                value = F.when(lacks, self._literal(default, kind)).otherwise(value)
            parts.append(value.alias(field.name))
        if identical:
            return F.col(name).cast(spark_ddl(self._image))
        return F.when(F.col(name).isNotNull(), F.struct(*parts))

    def _labels_in_order(self) -> list[str]:
        return [column.label for column in self._first.plan.columns]

    def _origin(self, name: str) -> str | Default:
        """Return the name of a column in the stretch; if it was added later, the default of existing rows."""
        now = name.casefold()
        for step in reversed(self._steps):
            if now in step.added:
                return self._checked(step.defaults.get(now, UNKNOWN_DEFAULT), name)
            now = step.renamed.get(now, now)
        label = self._labels.get(now)
        return label if label is not None else self._checked(UNKNOWN_DEFAULT, name)

    def _checked(self, default: Default, name: str) -> Default:
        if not default.is_known and self._unfollowed == "error":
            raise ReplayError(
                "a column was added whose values in existing rows cannot be determined",
                field=f"{'.'.join(self._first.stretch.name)}.{name}",
            )
        return default if default.is_known else Default()

    def _literal(self, default: Default, kind: str) -> Column:
        is_zero = isinstance(default.text, str) and default.text.startswith("0000-00-00")
        if is_zero and kind != "string":
            return F.lit(None).cast(kind)
        return literal(default, kind)


class _EarlierRows:
    """The conversion of the rows before a stage to the columns of the stage."""

    def __init__(self, part: list[_KnownStretch], image: pa.DataType, unfollowed: str) -> None:
        self.part = part
        self.follows: _KnownStretch | None = None
        self._image = image
        self._unfollowed = unfollowed

    def base(self, rows: DataFrame) -> DataFrame:
        """Return the rows with the columns of the stage."""
        stretches = self.part if self.follows is None else [self.follows, *self.part]
        columns = _StretchColumns(stretches, self._image, self._unfollowed)
        one = rows.select(whole(rows.schema).alias("row"))
        return one.select(columns.image("row").alias("row")).select("row.*")
