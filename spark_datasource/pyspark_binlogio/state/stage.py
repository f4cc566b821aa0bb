"""A stage: the changes of a table between changes of its key, as data frames with known columns.

All changes have images with the table's columns, in one shape for any origin. `state.rows` and `state.fold` apply
them.

A change is (_at, _layout, before, after, before_present, after_present): `_at` orders changes, `_layout` maps bits
of the present bitmaps to columns. `before` and `after` are structs of the same columns, NULL where there is no such
image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the customary name

from pyspark_binlogio.spark_types import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from binlogio.schema.ddl import Default

AT: Final = "_at"
LAYOUT: Final = "_layout"
ALWAYS: Final = -1


@dataclass(frozen=True, slots=True)
class Layout:
    """The bits of a bitmap: for each column its number in the table at that time, None if it had no such column.

    ALWAYS for a column whose value is not known, and NULL, after an image that lacks it.
    """

    bits: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Changes of a table while its key stays the same.

    Args:
        changes: the changes; those of an insert have values in all columns.
        image: the struct of an image.
        key: names of the columns that identify a row; empty without a key.
        layouts: by the number in `_layout`.
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


def literal(default: Default, kind: str) -> Column:
    """Return a column's default as a value of a Spark type."""
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
        parts = (int(hours), sign * int(minutes), sign * float(seconds))
        return F.expr(f"make_dt_interval(0, {parts[0]}, {parts[1]}, {parts[2]})")
    return F.lit(bytearray(text) if isinstance(text, bytes) else text).cast(kind)
