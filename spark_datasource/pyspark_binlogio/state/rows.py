"""The rows of a table after a stage of changes: chooses the method, and implements the two that are Spark SQL.

full after images, key     the last image of each key; an update of the key ends one row and begins another
no key                     how many times each whole row was added and removed
otherwise                  `state.fold`: columns that an image lacks keep their value
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import DoubleType, FloatType

from pyspark_binlogio.state.fold import folded
from pyspark_binlogio.state.stage import AT, Stage, is_present, whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

DELETED: Final = "_deleted"
BEFORE_ALL: Final = "struct(bigint(-1) AS file, bigint(0) AS pos, bigint(0) AS row)"


def state_of(stage: Stage, base: DataFrame | None) -> DataFrame:
    """Return the table's rows after the changes; `base` are those before, with the same columns."""
    if not stage.key:
        return _multiset(stage, base)
    if stage.whole_after and not stage.has_diffs:
        return _rows_of(_last_per_key(stage, base).where("row IS NOT NULL"), stage.image, "row")
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
        kept = state.select(*_named_key(F.col("row"), stage.key), "row")
        last = touched.join(kept, [f"k{n}" for n in range(len(stage.key))], "left")
    columns = []
    for name in stage.image.names:
        value = F.col("row").getField(name)
        value = F.coalesce(value, F.col(f"k{stage.key.index(name)}")) if name in stage.key else value
        columns.append(value.alias(name))
    return last.select(*columns, F.col("row").isNull().alias(DELETED))


def touched_keys(stage: Stage) -> DataFrame:
    """Return the keys of the changed rows, before and after, as k0, k1 ..."""
    sides = F.array(*(F.struct(*_named_key(F.col(side), stage.key)) for side in ("before", "after")))
    here = F.array(F.col("before").isNotNull(), F.col("after").isNotNull())
    pairs = stage.changes.select(F.explode(F.arrays_zip(sides.alias("key"), here.alias("here"))).alias("one"))
    return pairs.where("one.here").select("one.key.*").distinct()


def _named_key(image: Column, key: tuple[str, ...]) -> list[Column]:
    return [image.getField(name).alias(f"k{n}") for n, name in enumerate(key)]


def _rows_of(frame: DataFrame, image: StructType, value: str) -> DataFrame:
    """Return the columns of a struct."""
    return frame.select(*(F.col(value).getField(name).alias(name) for name in image.names))


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
        start = base.select(F.expr(BEFORE_ALL).alias(AT), whole(stage.image).alias("row"))
        keys = (F.col("row").getField(name).alias(f"k{n}") for n, name in enumerate(stage.key))
        keyed = start.select(AT, *keys, "row").unionByName(keyed)
    return keyed.groupBy(*(f"k{n}" for n in range(len(stage.key)))).agg(F.max_by("row", AT).alias("row"))


def _multiset(stage: Stage, base: DataFrame | None) -> DataFrame:
    after = F.col("after")
    if not stage.whole_after:
        after = F.when(F.col("after").isNotNull(), F.struct(*(_overlaid(stage, n) for n in range(len(stage.image)))))
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
    return _rows_of(many, stage.image, "row")


def _overlaid(stage: Stage, column: int) -> Column:
    """Return the value of a column after a change: that of the after image, else that of the before image."""
    name = stage.image.names[column]
    new, old = F.col("after").getField(name), F.col("before").getField(name)
    return (
        F.when(F.col("before").isNull() | is_present("after_present", stage.layouts, column), new)
        .otherwise(old)
        .alias(name)
    )


def _exact(image: StructType) -> Column:
    """Return a row in a form that groups only rows with the same bits: Spark groups -0.0 with 0.0."""
    parts = []
    for field in image.fields:
        value = F.col("row").getField(field.name)
        parts.append(value.cast("string") if isinstance(field.dataType, (FloatType, DoubleType)) else value)
    return F.struct(*(part.alias(f"c{n}") for n, part in enumerate(parts)))
