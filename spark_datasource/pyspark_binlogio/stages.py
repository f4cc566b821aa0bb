"""The rows of a stage of a table: its changes between changes of its key, all with images of the same columns.

They are computed in one of three ways:

    full after images, key     the last image of each key; an update of the key ends one row and begins another
    no key                     how many times each whole row was added and removed
    otherwise                  a fold: columns that an image lacks keep their value

`state` makes stages of logs, `frame_changes` of data frames.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.types import DoubleType, FloatType, LongType, StructField, StructType

from binlogio.replay import ALWAYS, Layout, Place, RowFold, components
from binlogio.schema.ddl import Default
from binlogio.storage import log_number
from pyspark_binlogio.spark_types import quoted

if TYPE_CHECKING:
    import pyarrow as pa

AT: Final = "_at"
LAYOUT: Final = "layout"
PLACE_DDL: Final = "struct<file: bigint, pos: bigint, row: bigint>"
BITMAPS: Final = ("before_present", "after_present")
CHANGE: Final = ("before", "after", *BITMAPS)
_BEFORE_ALL: Final = Place(-1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Changes of a table while its key stays the same.

    Args:
        changes: `_at` orders them, `layout` maps bits of the present bitmaps to columns, `before` and `after` are
            structs of the same columns or NULL; those of an insert have values in all columns.
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


def place_literal(place: Place) -> Column:
    """Return a place as a constant."""
    return F.struct(*(F.lit(value).cast("bigint").alias(name) for name, value in place._asdict().items()))


def place_column(files: Sequence[str], *, is_numbered: bool) -> Column:
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
    wanted = ordered.select(LAYOUT, *CHANGE, "old", "new")
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
        AT: place_literal(_BEFORE_ALL),
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
        start = base.select(place_literal(_BEFORE_ALL).alias(AT), whole(stage.image).alias("row"))
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
