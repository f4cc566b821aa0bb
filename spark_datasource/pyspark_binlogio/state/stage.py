"""The state of a table after changes, in Spark: which engine does it, and the two of them that are SQL.

Knows changes whose images have the table's columns, in one shape whatever they came from. Knows neither logs nor statements.

    whole after images, key    the last image of each key; a key that changes ends one row and begins another
    no key                     how often each whole row was added and taken away
    otherwise                  `state.fold`: what an image lacks is what the row had before

A change is (_at, _layout, before, after, before_present, after_present): `_at` puts changes in order, `_layout` tells which bit of the bitmaps
is which column. `before` and `after` are structs of the same columns, null where there is no such image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import DoubleType, FloatType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from binlogio.schema.column_history import Default

AT: Final = "_at"
LAYOUT: Final = "_layout"
DELETED: Final = "_deleted"
BEFORE_ALL: Final = "struct(bigint(-1) AS file, bigint(0) AS pos, bigint(0) AS row)"


@dataclass(frozen=True, slots=True)
class Layout:
    """The bits of a bitmap: for each column its number in the table then, None where it had no such column."""

    bits: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Changes of a table while its key stays the same.

    Args:
        changes: the changes; those of an insert have values in all columns.
        image: the struct of an image.
        key: names of the columns that tell rows apart; empty where there are none.
        layouts: by the number in `_layout`.
        json: columns that hold JSON documents.
        whole_after: every after image has all columns.
        has_diffs: some after images have changes to a document in the place of the document.
    """

    changes: DataFrame
    image: StructType
    key: tuple[str, ...]
    layouts: tuple[Layout, ...]
    json: frozenset[str] = frozenset()
    whole_after: bool = True
    has_diffs: bool = False


def state_of(stage: Stage, base: DataFrame | None) -> DataFrame:
    """The table's rows after the changes; `base` are those before, with the same columns."""
    if not stage.key:
        return _multiset(stage, base)
    if stage.whole_after and not stage.has_diffs:
        return rows_of(_last_per_key(stage, base).where("row IS NOT NULL"), stage.image, "row")
    from pyspark_binlogio.state.fold import folded  # noqa: PLC0415 - it comes back for what is above

    return folded(stage, base)


def changed_rows(stage: Stage, target: DataFrame | None) -> DataFrame:
    """What has to be done to a table: the rows that changed, and of those that are gone the key, with `_deleted`.

    `target` is what the table holds; without it, images must be whole.
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
    """The keys of the rows that the changes are about, before and after, as k0, k1 ..."""
    sides = F.array(*(F.struct(*_named_key(F.col(side), stage.key)) for side in ("before", "after")))
    here = F.array(F.col("before").isNotNull(), F.col("after").isNotNull())
    pairs = stage.changes.select(F.explode(F.arrays_zip(sides.alias("key"), here.alias("here"))).alias("one"))
    return pairs.where("one.here").select("one.key.*").distinct()


def _named_key(image: Column, key: tuple[str, ...]) -> list[Column]:
    return [image.getField(name).alias(f"k{n}") for n, name in enumerate(key)]


def whole(image: StructType) -> Column:
    """All columns of a frame as one struct."""
    return F.struct(*(F.col(f"`{name.replace('`', '``')}`") for name in image.names))


def is_present(bitmap: str, layouts: tuple[Layout, ...], column: int) -> Column:
    """Whether an image has a column, by its bitmap; False where the table had no such column."""
    found: Column = F.expr("false")
    for number, layout in enumerate(layouts):
        bit = layout.bits[column]
        if bit is None:
            continue
        byte = F.conv(F.hex(F.substring(bitmap, bit // 8 + 1, 1)), 16, 10).cast("int")
        here = byte.bitwiseAND(1 << bit % 8) != 0
        found = here if len(layouts) == 1 else F.when(F.col(LAYOUT) == number, here).otherwise(found)
    return found


def rows_of(frame: DataFrame, image: StructType, value: str) -> DataFrame:
    """The columns of a struct."""
    return frame.select(*(F.col(value).getField(name).alias(name) for name in image.names))


def _last_per_key(stage: Stage, base: DataFrame | None) -> DataFrame:
    """The last image of each key, null where it is gone; the key's columns are k0, k1 ..."""
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
    return rows_of(many, stage.image, "row")


def _overlaid(stage: Stage, column: int) -> Column:
    """What a row has in a column after a change: what the after image has, else what the before image had."""
    name = stage.image.names[column]
    new, old = F.col("after").getField(name), F.col("before").getField(name)
    return (
        F.when(F.col("before").isNull() | is_present("after_present", stage.layouts, column), new)
        .otherwise(old)
        .alias(name)
    )


def _exact(image: StructType) -> Column:
    """A row, so that rows are grouped only where they are the same to the bit: Spark takes -0.0 for 0.0."""
    parts = []
    for field in image.fields:
        value = F.col("row").getField(field.name)
        parts.append(value.cast("string") if isinstance(field.dataType, (FloatType, DoubleType)) else value)
    return F.struct(*(part.alias(f"c{n}") for n, part in enumerate(parts)))


def literal(default: Default, kind: str) -> Column:
    """A column's default as a value of a Spark type."""
    text = default.text
    if isinstance(text, bytes) and kind != "binary":
        text = text.decode("latin-1") if kind == "string" else str(int.from_bytes(text, "big"))
    if isinstance(text, str) and kind == "binary":
        text = text.encode()
    if text is None:
        return F.lit(None).cast(kind)
    if kind.startswith("interval"):
        hours, minutes, seconds = str(text).split(":")
        sign = -1 if hours.startswith("-") else 1
        parts = (int(hours) * 1, sign * int(minutes), sign * float(seconds))
        return F.expr(f"make_dt_interval(0, {parts[0]}, {parts[1]}, {parts[2]})")
    return F.lit(bytearray(text) if isinstance(text, bytes) else text).cast(kind)
