"""Replay on Spark: the rows of a table at a moment, from logs or from data frames.

The life of a table (`binlogio.replay.table_history`) is divided into stages, stretches with the same key; images of one
stretch are converted to the columns of a later one. The rows of a stage are computed in one of three ways:

    full after images, key     the last image of each key; an update of the key ends one row and begins another
    no key                     how many times each whole row was added and removed
    otherwise                  a fold: columns that an image lacks keep their value

From logs, tasks search for the marks of the history first; then each stretch is read with the columns that the table
had there. A data frame has no statements and no rollbacks, so all of its changes take effect. Its JSON images become
structs of the columns of a given table definition: values are parsed from their text (`binlogio.values.text`; bytes
are 0x and hexadecimal digits). Dates that are not in the calendar become NULL. Images with other columns than those of
the definition are refused: a value would be lost, or assigned to another column.

The public entry is `pyspark_binlogio.replay`; a module of that name would replace the function.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DoubleType, FloatType, LongType, StringType, StructField, StructType

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
    RowFold,
    Stretch,
    TableHistory,
    Until,
    UntilLike,
    components,
    converted_text,
    is_kept,
    marks_of,
)
from binlogio.rows import TablePlan, resolve_plan
from binlogio.schema import TableDefinition
from binlogio.schema.ddl import UNKNOWN_DEFAULT, ColumnChanges, Default
from binlogio.storage import base_name, log_number
from pyspark_binlogio.options import BinlogOptionError, BinlogReadOptions
from pyspark_binlogio.pyspark_api import is_connect, spark_struct
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
from pyspark_binlogio.spark_types import quoted, spark_ddl, spark_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from binlogio.replay import Detours
    from binlogio.storage import LogFile
    from binlogio.values import ColumnPlan


# ---------------------------------------------------------------------------------------------------------- stages

# A stage has the changes of a table between changes of its key, all with images of the same columns. A change is
# (_at, layout, before, after, before_present, after_present): `_at` orders changes, `layout` maps bits of the present
# bitmaps to columns. `before` and `after` are structs of the same columns, NULL where there is no such image.


AT: Final = "_at"
LAYOUT: Final = "layout"
_PLACE_DDL: Final = "struct<file: bigint, pos: bigint, row: bigint>"
_BITMAPS: Final = ("before_present", "after_present")
_CHANGE: Final = ("before", "after", *_BITMAPS)
_BEFORE_ALL: Final = Place(-1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Changes of a table while its key stays the same.

    Args:
        changes: the changes; those of an insert have values in all columns.
        image: the struct of an image.
        key: names of the columns that identify a row; empty without a key.
        layouts: by the number in `layout`.
        json: columns that hold JSON documents.
        whole_after: every after image has all columns.
        has_diffs: some after images have changes to a document instead of the document.
    """

    changes: DataFrame
    image: StructType
    key: tuple[str, ...]
    layouts: tuple[Layout, ...]
    json: frozenset[str] = frozenset()
    whole_after: bool = True
    has_diffs: bool = False


def whole(image: StructType) -> Column:
    """Return all columns of a frame as one struct."""
    return F.struct(*(F.col(quoted(name)) for name in image.names))


def _key_of(stage: Stage, image: str) -> list[Column]:
    """Return the key's columns of an image, as k0, k1 ..."""
    return [F.col(image).getField(name).alias(f"k{n}") for n, name in enumerate(stage.key)]


def _value_after(stage: Stage, name: str) -> Column:
    """Return the value of a column after a change: that of the after image, else that of the before image."""
    new, old = F.col("after").getField(name), F.col("before").getField(name)
    present = is_present("after_present", stage.layouts, stage.image.names.index(name))
    return F.when(F.col("before").isNull() | present, new).otherwise(old)


def _literal(place: Place) -> Column:
    return F.struct(*(F.lit(value).cast("bigint").alias(name) for name, value in place._asdict().items()))


def _place(files: Sequence[str], *, is_numbered: bool) -> Column:
    """Return the place of a record; files count from the first one, by the numbers in their names or by `files`."""
    if len(files) <= 1:
        number = F.lit(0)
    elif is_numbered:
        number = F.substring_index("file", ".", -1).cast("bigint") - log_number(files[0])[1]
    else:
        number = F.array_position(F.array(*(F.lit(file) for file in files)), F.col("file")) - 1
    return F.struct(number.cast("bigint").alias("file"), F.col("pos"), F.col("row").cast("bigint").alias("row"))


def is_present(bitmap: str, layouts: tuple[Layout, ...], column: int) -> Column:
    """Return whether an image has a column, by its bitmap; False if the table had no such column."""
    found: Column = F.expr("false")
    for number, layout in enumerate(layouts):
        bit = layout.bits[column]
        if bit is None:
            continue
        byte = F.conv(F.hex(F.substring(bitmap, bit // 8 + 1, 1)), 16, 10).cast("int")
        here = F.expr("true") if bit == ALWAYS else byte.bitwiseAND(1 << bit % 8) != 0
        found = here if len(layouts) == 1 else F.when(F.col(LAYOUT) == number, here).otherwise(found)
    return found


_TIME: Final = r"^(-?)(\d+):(\d+):(\d+(?:\.\d+)?)$"


def interval(text: Column) -> Column:
    """Return the interval for a TIME in text."""
    sign = F.when(F.regexp_extract(text, _TIME, 1) == "-", -1).otherwise(1)
    hours, minutes = (F.regexp_extract(text, _TIME, n).cast("int") * sign for n in (2, 3))
    seconds = F.regexp_extract(text, _TIME, 4).cast("decimal(18,6)") * sign
    return F.when(text.isNotNull(), F.make_dt_interval(F.lit(0), hours, minutes, seconds))


def literal(default: Default, kind: str) -> Column:
    """Return a column's default as a value of a Spark type; a date of zeros is NULL unless the type is string."""
    text = default.text
    if isinstance(text, bytes) and kind != "binary":
        text = text.decode("latin-1") if kind == "string" else str(int.from_bytes(text, "big"))
    if isinstance(text, str) and kind == "binary":
        text = text.encode()
    is_zero_date = isinstance(text, str) and text.startswith("0000-00-00") and kind != "string"
    if text is None or is_zero_date:
        return F.lit(None).cast(kind)
    if kind.startswith("interval"):
        return interval(F.lit(text))
    return F.lit(bytearray(text) if isinstance(text, bytes) else text).cast(kind)


# -------------------------------------------------------------------------------- fold of images that lack columns

# Python tasks apply the changes in the order of the log, by `binlogio.replay.row_fold`. Rows with different keys are
# folded in different tasks, unless an update changed one key to the other.


MOST_MOVES: Final = 500_000
"""The most key changes that the driver follows; if there are more, one task folds the whole table."""


def folded(stage: Stage, base: DataFrame | None) -> DataFrame:
    """Return the table's rows after the changes; `base` are those before, with the same columns."""
    new_key = F.struct(*(_value_after(stage, name).alias(f"k{n}") for n, name in enumerate(stage.key)))
    changes = stage.changes.withColumns(
        {
            "old": F.when(F.col("before").isNotNull(), F.struct(*_key_of(stage, "before"))),
            "new": F.when(F.col("after").isNotNull(), new_key),
        }
    )
    apart = _component(changes)
    if base is not None:
        changes = _as_inserts(stage, base, changes.schema).unionByName(changes)
    parts = changes.sparkSession.conf.get("spark.sql.shuffle.partitions") or "1"
    ordered = apart(changes, int(parts)).sortWithinPartitions(AT)
    wanted = ordered.select(LAYOUT, *_CHANGE, "old", "new")
    fold = partial(_fold, stage.image.names, stage.layouts, stage.json if stage.has_diffs else ())
    return wanted.mapInArrow(fold, StructType([StructField(f.name, f.dataType) for f in stage.image]))


def _fold(
    names: list[str], layouts: tuple[Layout, ...], documents: Collection[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows after the changes of a partition."""
    rows = RowFold(names, layouts, documents)
    for batch in batches:
        rows.add(batch)
    yield from rows.rows()


def _as_inserts(stage: Stage, base: DataFrame, schema: StructType) -> DataFrame:
    """Return rows as inserts before all changes, with the columns of the changes."""
    values = {
        AT: _literal(_BEFORE_ALL),
        LAYOUT: F.lit(0),
        "after": F.col("after"),
        "new": F.struct(*_key_of(stage, "after")),
    }
    rows = base.select(whole(stage.image).alias("after"))
    return rows.select(*(values.get(one.name, F.lit(None).cast(one.dataType)).alias(one.name) for one in schema))


def _component(changes: DataFrame) -> Callable[[DataFrame, int], DataFrame]:
    """Return a function that puts all changes of a row into one partition, also if its key changed."""
    key = F.coalesce(F.col("new"), F.col("old"))
    moves = changes.where("old IS NOT NULL AND new IS NOT NULL AND NOT (old <=> new)").select("old", "new").distinct()
    found = moves.limit(MOST_MOVES + 1).collect()
    if not found:
        return lambda frame, parts: frame.repartition(parts, key)
    if len(found) > MOST_MOVES:
        return lambda frame, parts: frame.repartition(1)
    numbers = list(components((move["old"], move["new"]) for move in found).items())
    kind = moves.schema["old"].dataType
    table = changes.sparkSession.createDataFrame(
        numbers, StructType([StructField("moved", kind), StructField("component", LongType())])
    )

    def apart(frame: DataFrame, parts: int) -> DataFrame:
        joined = frame.join(F.broadcast(table), key.eqNullSafe(F.col("moved")), "left")
        return joined.repartition(parts, F.coalesce(F.col("component"), F.xxhash64(key)))

    return apart


# ------------------------------------------------------------------------------------------------- rows of a stage


DELETED: Final = "_deleted"


def state_of(stage: Stage, base: DataFrame | None) -> DataFrame:
    """Return the table's rows after the changes; `base` are those before, with the same columns."""
    if not stage.key:
        return _multiset(stage, base)
    if stage.whole_after and not stage.has_diffs:
        return _last_per_key(stage, base).where("row IS NOT NULL").select("row.*")
    return folded(stage, base)


def changed_rows(stage: Stage, target: DataFrame | None) -> DataFrame:
    """Return the changes to a table: the rows that changed, and the keys of deleted rows, with `_deleted`.

    `target` has the current rows of the table; without it, images must be whole.
    """
    if stage.whole_after and not stage.has_diffs:
        last = _last_per_key(stage, None)
    else:
        touched = touched_keys(stage)
        base = None
        if target is not None:
            same = [target[name].eqNullSafe(touched[f"k{n}"]) for n, name in enumerate(stage.key)]
            base = target.join(touched, same, "left_semi")
        state = state_of(stage, base).select(whole(stage.image).alias("row"))
        kept = state.select(*_key_of(stage, "row"), "row")
        last = touched.join(kept, [f"k{n}" for n in range(len(stage.key))], "left")
    columns = []
    for name in stage.image.names:
        value = F.col("row").getField(name)
        value = F.coalesce(value, F.col(f"k{stage.key.index(name)}")) if name in stage.key else value
        columns.append(value.alias(name))
    return last.select(*columns, F.col("row").isNull().alias(DELETED))


def touched_keys(stage: Stage) -> DataFrame:
    """Return the keys of the changed rows, before and after, as k0, k1 ..."""
    sides = F.array(*(F.struct(*_key_of(stage, side)) for side in ("before", "after")))
    here = F.array(F.col("before").isNotNull(), F.col("after").isNotNull())
    pairs = stage.changes.select(F.explode(F.arrays_zip(sides.alias("key"), here.alias("here"))).alias("one"))
    return pairs.where("one.here").select("one.key.*").distinct()


def _last_per_key(stage: Stage, base: DataFrame | None) -> DataFrame:
    """Return the last image of each key, null if the row was deleted; the key's columns are k0, k1 ..."""
    before = [F.col("before").getField(name) for name in stage.key]
    after = [F.col("after").getField(name) for name in stage.key]
    same = reduce(lambda one, other: one & other, map(Column.eqNullSafe, before, after))
    moved = F.col("before").isNotNull() & F.col("after").isNotNull() & ~same
    both, one = F.array(F.expr("true"), F.expr("false")), F.array(F.expr("false"))
    sides = F.explode(F.when(moved, both).otherwise(one)).alias("is_old")
    ends = F.col("after").isNull() | F.col("is_old")
    keyed = stage.changes.select(AT, "before", "after", sides).select(
        F.col(AT),
        *(
            F.when(ends, old).otherwise(new).alias(f"k{n}")
            for n, (old, new) in enumerate(zip(before, after, strict=True))
        ),
        F.when(~ends, F.col("after")).alias("row"),
    )
    if base is not None:
        start = base.select(_literal(_BEFORE_ALL).alias(AT), whole(stage.image).alias("row"))
        keyed = start.select(AT, *_key_of(stage, "row"), "row").unionByName(keyed)
    return keyed.groupBy(*(f"k{n}" for n in range(len(stage.key)))).agg(F.max_by("row", AT).alias("row"))


def _multiset(stage: Stage, base: DataFrame | None) -> DataFrame:
    after = F.col("after")
    if not stage.whole_after:
        values = (_value_after(stage, name).alias(name) for name in stage.image.names)
        after = F.when(F.col("after").isNotNull(), F.struct(*values))
    sides = F.array(
        F.struct(F.lit(-1).alias("count"), F.col("before").alias("row")),
        F.struct(F.lit(1).alias("count"), after.alias("row")),
    )
    counted = stage.changes.select(F.inline(sides)).where("row IS NOT NULL")
    if base is not None:
        counted = counted.unionByName(base.select(F.lit(1).alias("count"), whole(stage.image).alias("row")))
    total = counted.groupBy(_exact(stage.image).alias("as")).agg(
        F.sum("count").alias("count"), F.first("row").alias("row")
    )
    many = total.where("count > 0").select(F.explode(F.expr("array_repeat(row, int(count))")).alias("row"))
    return many.select("row.*")


def _exact(image: StructType) -> Column:
    """Return a row in a form that groups only rows with the same bits: Spark groups -0.0 with 0.0."""
    parts = []
    for field in image.fields:
        value = F.col("row").getField(field.name)
        parts.append(value.cast("string") if isinstance(field.dataType, (FloatType, DoubleType)) else value)
    return F.struct(*(part.alias(f"c{n}") for n, part in enumerate(parts)))


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
    if not pieces:
        return []
    numbers = {log.name: number for number, log in enumerate(logs)}
    scan = partial(_marks_by_task, pieces, request_of(options), numbers, until)
    found = spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(scan, "mark binary").collect()
    return [pickle.loads(row["mark"]) for row in found]  # noqa: S301 - pickled by our own tasks


def _marks_by_task(
    pieces: list[tuple[Piece, ...]],
    request: Request,
    numbers: dict[str, int],
    until: Until,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the marks of the parts with the numbers in `batches`."""
    selection = EventSelection(verify_checksum=request.options.verify_checksum, definitions=request.definitions)
    for batch in batches:
        for piece in (piece for number in batch.column(0).to_pylist() for piece in pieces[number]):
            with option_hints():
                reader = split_reader(piece.log, piece.split, selection, request.keyring)
                if reader is None:
                    continue
                try:
                    with reader:
                        marks = [pickle.dumps(mark) for mark in marks_of(reader, numbers[piece.log.name], until)]
                except BinlogError as exc:
                    exc.locate(file=piece.log.name)
                    raise
            yield pa.RecordBatch.from_arrays([pa.array(marks, pa.binary())], names=["mark"])


def _listed(spark: SparkSession, options: BinlogReadOptions) -> list[LogFile]:
    """Return the logs. On Spark Connect a task lists them, since the client may be on another machine."""
    if not is_connect(spark):
        return find_log_files(options)
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(partial(_listed_by_task, options), "logs binary").collect()
    found: list[LogFile] = pickle.loads(row["logs"])  # noqa: S301 - pickled by our own task
    return found


def _listed_by_task(options: BinlogReadOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"logs": [pickle.dumps(find_log_files(options))]})


def _is_one_series(names: Iterable[str]) -> bool:
    """Return whether the names are those of one server's logs, whose numbers give their order."""
    found: list[Any] = [log_number(name) for name in names]
    return len({(stem, more) for stem, _, more in found}) == 1 and all(number >= 0 for _, number, _ in found)


# ------------------------------------------------------------------------------------------ changes in data frames


_NEEDED: Final = ("file", "pos", "row", "before", "after")
_IMAGES: Final = {"before": "before_present", "after": "after_present"}
_ENDS: Final = (("least", F.min), ("most", F.max))


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts from one pass over all changes: the files, the bitmaps, and the columns of JSON images.

    `columns` has names of columns with the bitmap of their image; None for an image that is no JSON object.
    """

    files: tuple[str, ...]
    before: frozenset[int]
    after: frozenset[int]
    columns: frozenset[tuple[tuple[str, ...] | None, int | None]] = frozenset()


def frame_stage(changes: DataFrame, table: str | TableDefinition, until: Until, key: Sequence[str] | None) -> Stage:
    """Return the changes of a table.

    Raises:
        BinlogOptionError: the frame is not in the shape of the view `rows`, or a column of the key is not in it.
    """
    definition = table if isinstance(table, TableDefinition) else None
    name = definition.full_name if definition is not None else str(table)
    missing = [column for column in _NEEDED if column not in changes.columns]
    if missing:
        raise BinlogOptionError(f"binlog: the changes lack the columns {', '.join(missing)} of the view rows")
    own = _of_table(changes, name)
    for bitmap in _BITMAPS:
        if bitmap not in own.columns:
            own = own.withColumn(bitmap, F.lit(None).cast("binary"))
    if isinstance(own.schema["after"].dataType, StringType):
        if definition is None:
            raise BinlogOptionError(
                f"binlog: the images are JSON text; give the definition of {name}, "
                "or load the changes with option table"
            )
        facts = _facts(own, has_json=True)
        _check_columns(facts.columns, definition)
        own = typed_images(own, definition)
    else:
        facts = _facts(own)
        own = own if definition is None else _named(own, definition)
    image = own.schema["after"].dataType
    if not isinstance(image, StructType):
        raise BinlogOptionError(f"binlog: after: expected a struct or a string, found {image.simpleString()}")
    names = tuple(key) if key is not None else definition.primary_key if definition is not None else ()
    lacking = [one for one in names if one not in image.names]
    if lacking:
        raise BinlogOptionError(
            f"binlog: key: {name} has no column {', '.join(lacking)}; it has {', '.join(image.names)}"
        )
    place = _place(facts.files, is_numbered=_is_numbered(facts.files))
    return _stage(_until(own.withColumn(AT, place), until), image, names, facts, definition)


def _named(changes: DataFrame, definition: TableDefinition) -> DataFrame:
    """Return the changes with the definition's names instead of @1, @2 ... (columns without names in the log)."""
    image = changes.schema["after"].dataType
    numbered = [f"@{number + 1}" for number in range(len(definition.columns))]
    if not isinstance(image, StructType) or image.names != numbered:
        return changes
    pairs = zip(definition.columns, image.fields, strict=True)
    named = StructType([StructField(column.name, field.dataType) for column, field in pairs])
    return changes.withColumns({name: F.col(name).cast(named) for name in ("before", "after")})


def _of_table(changes: DataFrame, name: str) -> DataFrame:
    if "schema" not in changes.columns or "table" not in changes.columns:
        return changes
    schema, table = split_name(name)
    return changes.where((F.col("schema") == schema) & (F.col("table") == table))


def _facts(changes: DataFrame, *, has_json: bool = False) -> _Facts:
    """Return the facts of the changes; all files and bitmaps are collected only if minimum and maximum differ."""
    names = ("file", *_BITMAPS)
    ends = [end(name).alias(f"{which}_{name}") for name in names for which, end in _ENDS]
    images = [_columns(*pair).alias(pair[0]) for pair in _IMAGES.items()] if has_json else []
    bounds = changes.agg(*ends, *images).first()
    least, most = ([None if bounds is None else bounds[f"{which}_{name}"] for name in names] for which, _ in _ENDS)
    columns = frozenset(
        (
            None if one.names is None else tuple(one.names),
            None if one.bitmap is None else int.from_bytes(one.bitmap, "little"),
        )
        for image in (_IMAGES if has_json else ())
        for one in (bounds[image] if bounds is not None else ())
    )
    files = tuple(dict.fromkeys(file for file in (least[0], most[0]) if file is not None))
    if least[1:] == most[1:] and (len(files) < 2 or _is_numbered(files)):
        before, after = (frozenset({int.from_bytes(one, "little")} if one is not None else ()) for one in least[1:])
        return _Facts(files, before, after, columns)
    seen = changes.groupBy(*names).count().collect()
    before, after = (
        frozenset(int.from_bytes(row[name], "little") for row in seen if row[name] is not None) for name in _BITMAPS
    )
    return _Facts(tuple(sorted({row["file"] for row in seen}, key=log_number)), before, after, columns)


def _columns(image: str, bitmap: str) -> Column:
    """Return the sets of columns that JSON images have, each with its bitmap."""
    found = F.struct(F.json_object_keys(image).alias("names"), F.col(bitmap).alias("bitmap"))
    return F.collect_set(F.when(F.col(image).isNotNull(), found))


def _check_columns(columns: frozenset[tuple[tuple[str, ...] | None, int | None]], table: TableDefinition) -> None:
    """Refuse JSON images whose columns are not those of the definition, by name and by place in the bitmap.

    Raises:
        BinlogOptionError: there is such an image, or one that is no JSON object.
    """
    places = {name: number for number, column in enumerate(table.columns) for name in (column.name, f"@{number + 1}")}
    for names, bits in sorted(columns, key=str):
        if names is None:
            raise BinlogOptionError(f"binlog: an image of {table.full_name} is not a JSON object")
        found = [places.get(name) for name in names]
        if None in found or (bits is not None and bits != sum(1 << place for place in found if place is not None)):
            raise BinlogOptionError(
                f"binlog: the definition of {table.full_name} does not fit the JSON images of the changes: expected "
                f"columns {', '.join(column.name for column in table.columns)}, found {', '.join(names)}; give the "
                "definition that the table has in the logs, or load the changes with option table"
            )


def _is_numbered(files: tuple[str, ...]) -> bool:
    """Return whether two names differ in their last number alone; all names between them then do too."""
    found: list[Any] = [log_number(file) for file in files]
    widths = {len(file) for file in files}
    return len({stem for stem, _, _ in found}) == 1 and len(widths) == 1 and not any(more for _, _, more in found)


def _stage(
    changes: DataFrame, image: StructType, key: tuple[str, ...], facts: _Facts, definition: TableDefinition | None
) -> Stage:
    width = len(definition.columns) if definition is not None else len(image)
    width = max([width, *(bits.bit_length() for bits in facts.before | facts.after)])
    every = (1 << width) - 1
    whole_before, whole_after = facts.before <= {every}, facts.after <= {every}
    numbers = {column.name: n for n, column in enumerate(definition.columns)} if definition is not None else {}
    if not numbers and width == len(image):
        numbers = {name: n for n, name in enumerate(image.names)}
    if not whole_after and not all(name in numbers for name in image.names):
        raise BinlogOptionError(
            "binlog: some images lack columns, and the data does not say which; give the table's definition"
        )
    return Stage(
        changes=changes.select(AT, F.lit(0).alias(LAYOUT), *_CHANGE),
        image=image,
        key=key,
        layouts=(Layout(tuple(numbers.get(name) for name in image.names)),),
        json=frozenset(_documents(image, definition)),
        whole_after=whole_after,
        has_diffs=bool(key) and not whole_before,
    )


def _documents(image: StructType, definition: TableDefinition | None) -> list[str]:
    """Return the columns that may hold JSON documents."""
    if definition is not None:
        return [column.name for column in definition.columns if column.sql_type.name == "json"]
    return [field.name for field in image.fields if isinstance(field.dataType, StringType)]


def _until(changes: DataFrame, until: Until) -> DataFrame:
    if until.gtids is not None:
        # A lambda, since the type hints of the method would select another kind of UDF.
        is_wanted = F.udf(lambda gtid: until.wants_group(gtid), "boolean", useArrow=False)  # noqa: PLW0108
        return changes.where(is_wanted(F.col("gtid")))
    if until.position is not None:
        file, offset = until.position
        stem, number, _ = log_number(file)
        own = F.substring_index("file", "/", -1)
        later = F.substring_index("file", ".", -1).try_cast("bigint") > number
        later = later & (F.substring(own, 1, len(stem)) == stem) & (own != file)
        return changes.where(~((own == file) & (F.col("pos") >= offset)) & ~F.coalesce(later, F.expr("false")))
    if until.moment is None:
        return changes
    late = F.col("timestamp").cast("double") > until.moment
    first = changes.where(late).agg(F.min(F.struct(AT, "file", "gtid", "sequence_number")).alias("first")).first()
    if first is None or first["first"] is None:
        return changes
    cut = first["first"]
    found = changes.where(F.col(AT) < _literal(Place(*cut[AT])))
    if cut["gtid"] is not None:
        found = found.where(~F.col("gtid").eqNullSafe(F.lit(cut["gtid"])))
    if cut["sequence_number"]:
        same = (F.col("file") == cut["file"]) & F.col("sequence_number").eqNullSafe(F.lit(cut["sequence_number"]))
        found = found.where(~same)
    return found


def typed_images(changes: DataFrame, definition: TableDefinition) -> DataFrame:
    """Return the changes, with structs for `before` and `after`.

    Raises:
        BinlogOptionError: a column whose values cannot be parsed from their text.
    """
    plan = resolve_plan(definition.table_map(1), definition=definition.plan_columns())
    image = spark_type(RecordType.of(plan, None, zero_dates="null").image_type)
    names = [*(field.name for field in image), *(f"@{number + 1}" for number in range(len(image)))]
    texts = ", ".join(f"{quoted(name)} string" for name in names)
    for name in ("before", "after"):
        parsed = F.from_json(F.col(name), texts)
        texts_or_numbers = ((parsed.getField(field.name), parsed.getField(f"@{n}")) for n, field in enumerate(image, 1))
        columns = zip((F.coalesce(*pair) for pair in texts_or_numbers), image, strict=True)
        values = F.struct(*(_typed(text, field).alias(field.name) for text, field in columns))
        changes = changes.withColumn(name, F.when(F.col(name).isNotNull(), values))
    return changes


def _typed(text: Column, field: pa.Field) -> Column:
    kind = field.type
    if pa.types.is_struct(kind):
        raise BinlogOptionError(
            f"binlog: column {field.name}: a geometry cannot be parsed from its text; "
            "load the changes with option table"
        )
    if pa.types.is_binary(kind):
        return F.unhex(F.substring(text, 3, 1 << 30))
    if pa.types.is_list(kind):
        return F.from_json(text, spark_ddl(kind))
    if pa.types.is_duration(kind):
        return interval(text)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return F.try_to_timestamp(F.concat(text, F.lit("+00:00")))
    return text.cast("string") if pa.types.is_string(kind) else text.try_cast(spark_ddl(kind))


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
        place = _place(self.names, is_numbered=list(map(log_number, self.names)) == in_a_row)
        placed = reduce(DataFrame.unionByName, parts).withColumn(AT, place)
        if stretch.start.row:
            placed = placed.where(F.col(AT) >= _literal(stretch.start))
        return placed.where(F.col(AT) < _literal(end)) if end.row else placed

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
        kinds: tuple[StructType | str, ...] = (_PLACE_DDL, "int", image, image, "binary", "binary")
        columns = zip((AT, LAYOUT, *_CHANGE), kinds, strict=True)
        return self.spark.range(0).select(*(F.lit(None).cast(kind).alias(name) for name, kind in columns))


def _detoured(place: Column, detours: Detours) -> Column:
    """Return the place at which a change takes effect; NULL if it has no effect."""

    def moved(file: pa.Array, pos: pa.Array, row: pa.Array) -> pa.Array:  # Spark reads the type hints
        return detours.of(file, pos, row)

    udf = arrow_udf(moved, _PLACE_DDL)  # type: ignore[call-overload]
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
            *_BITMAPS,
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

        return _typed(arrow_udf(texts, "string")(value), field)  # type: ignore[call-overload]

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
