"""Fold of changes whose images lack columns: applies them in the order of the log, in Python tasks.

Determines from which image each column of a row comes. Only key values become Python objects: a row is a list of
image numbers, one for each column, and the values are gathered at the end.

Rows with different keys are folded in different tasks, unless an update changed one key to the other.

A partial JSON update is in a record as the SQL functions that `JsonDiffs.sql` makes of it where the document itself is
unknown. They are parsed, and applied to the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField, StructType

from binlogio.values import JsonDiffs, JsonDocument
from pyspark_binlogio.state.stage import ALWAYS, AT, LAYOUT, Stage, is_present, whole

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_MOVES: Final = 500_000
"""Changes of keys that the driver follows; with more of them one task folds the whole table."""

_UNKNOWN: Final = -1
_COMPACT_ROWS: Final = 1 << 17
_BATCH_ROWS: Final = 1 << 13
_BASE_LAYOUT: Final = -1

Key = tuple[Any, ...]


def folded(stage: Stage, base: DataFrame | None) -> DataFrame:
    """Return the table's rows after the changes; `base` are those before, with the same columns."""
    changes = stage.changes.select(
        AT,
        LAYOUT,
        "before",
        "after",
        "before_present",
        "after_present",
        F.when(F.col("before").isNotNull(), _key(stage, "before")).alias("old"),
        F.when(F.col("after").isNotNull(), _new_key(stage)).alias("new"),
    )
    apart = _component(changes)
    if base is not None:
        changes = _as_inserts(stage, base).unionByName(changes)
    parts = changes.sparkSession.conf.get("spark.sql.shuffle.partitions") or "1"
    ordered = apart(changes, int(parts)).sortWithinPartitions(AT)
    fold = _Fold(stage).batches
    wanted = ordered.select(LAYOUT, "before", "after", "before_present", "after_present", "old", "new")
    return wanted.mapInArrow(fold, StructType([StructField(f.name, f.dataType) for f in stage.image.fields]))


def _key(stage: Stage, image: str) -> Column:
    return F.struct(*(F.col(image).getField(name).alias(f"k{n}") for n, name in enumerate(stage.key)))


def _new_key(stage: Stage) -> Column:
    """Return the key after a change: columns that the after image lacks come from the before image."""
    parts = []
    for n, name in enumerate(stage.key):
        new, old = F.col("after").getField(name), F.col("before").getField(name)
        present = is_present("after_present", stage.layouts, stage.image.names.index(name))
        parts.append(F.when(F.col("before").isNull() | present, new).otherwise(old).alias(f"k{n}"))
    return F.struct(*parts)


def _as_inserts(stage: Stage, base: DataFrame) -> DataFrame:
    rows = base.select(whole(stage.image).alias("after"))
    nothing = F.lit(None).cast("binary")
    return rows.select(
        F.struct(
            F.lit(-1).cast("bigint").alias("file"),
            F.lit(0).cast("bigint").alias("pos"),
            F.lit(0).cast("bigint").alias("row"),
        ).alias(AT),
        F.lit(_BASE_LAYOUT).alias(LAYOUT),
        F.lit(None).cast(stage.image).alias("before"),
        "after",
        nothing.alias("before_present"),
        nothing.alias("after_present"),
        F.lit(None).cast(stage.changes.select(_key(stage, "before").alias("k")).schema["k"].dataType).alias("old"),
        _key(stage, "after").alias("new"),
    )


def _component(changes: DataFrame) -> Callable[[DataFrame, int], DataFrame]:
    """Return a function that puts all changes of a row into one partition, also if its key changed."""
    key = F.coalesce(F.col("new"), F.col("old"))
    moves = changes.where("old IS NOT NULL AND new IS NOT NULL AND NOT (old <=> new)").select("old", "new").distinct()
    found = moves.limit(MOST_MOVES + 1).collect()
    if not found:
        return lambda frame, parts: frame.repartition(parts, key)
    if len(found) > MOST_MOVES:
        return lambda frame, parts: frame.repartition(1)
    numbers = list(_components((move["old"], move["new"]) for move in found).items())
    kind = moves.schema["old"].dataType
    table = changes.sparkSession.createDataFrame(
        numbers, StructType([StructField("moved", kind), StructField("component", LongType())])
    )

    def apart(frame: DataFrame, parts: int) -> DataFrame:
        joined = frame.join(
            F.broadcast(table), F.coalesce(F.col("new"), F.col("old")).eqNullSafe(F.col("moved")), "left"
        )
        number = F.coalesce(F.col("component"), F.xxhash64(F.coalesce(F.col("new"), F.col("old"))))
        return joined.repartition(parts, number)

    return apart


def _components(moves: Iterable[tuple[Key, Key]]) -> dict[Key, int]:
    """Return a number for each key, the same for keys that are joined by moves."""
    above: dict[Key, Key] = {}

    def root(key: Key) -> Key:
        path = []
        while (parent := above.setdefault(key, key)) != key:
            path.append(key)
            key = parent
        for one in path:
            above[one] = key
        return key

    for old, new in moves:
        above[root(old)] = root(new)
    numbers: dict[Key, int] = {}
    return {key: numbers.setdefault(root(key), len(numbers)) for key in list(above)}


class _Fold:
    """The fold of one partition; Spark pickles it."""

    def __init__(self, stage: Stage) -> None:
        self._bits = tuple(layout.bits for layout in stage.layouts)
        self._names = tuple(stage.image.names)
        self._json = {n: name for n, name in enumerate(stage.image.names) if stage.has_diffs and name in stage.json}

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the changes, which are in order."""
        rows = _Rows(len(self._names))
        for batch in batches:
            self._take(rows, batch)
            if rows.images >= max(_COMPACT_ROWS, 2 * len(rows.by_key)):
                rows.compact()
        for columns in rows.gathered():
            yield pa.RecordBatch.from_arrays(columns, names=list(self._names))

    def _take(self, rows: _Rows, batch: pa.RecordBatch) -> None:
        first = rows.add(batch.column("before").flatten(), batch.column("after").flatten())
        layouts = batch.column(LAYOUT).to_pylist()
        olds, news = (_keys(batch.column(name)) for name in ("old", "new"))
        masks = [_bitmaps(batch.column(f"{side}_present")) for side in ("before", "after")]
        by_key, width = rows.by_key, len(self._names)
        known: dict[tuple[int, int], tuple[int, ...]] = {}
        for n, (layout, old, new, had, has) in enumerate(zip(layouts, olds, news, *masks, strict=True)):
            if new is None:
                by_key.pop(old, None)
                continue
            after = first + batch.num_rows + n
            if old is None:
                by_key[new] = [after] * width
                continue
            row = by_key.pop(old, None)
            if row is None:
                row = [_UNKNOWN] * width
                for column in self._present(known, layout, had):
                    row[column] = first + n
            for column in self._present(known, layout, has):
                name = self._json.get(column)
                row[column] = after if name is None else rows.changed(column, name, row[column], after)
            by_key[new] = row

    def _present(self, known: dict[tuple[int, int], tuple[int, ...]], layout: int, mask: int) -> tuple[int, ...]:
        """Return the columns that an image has."""
        columns = known.get((layout, mask))
        if columns is None:
            bits = self._bits[layout]
            columns = tuple(n for n, bit in enumerate(bits) if bit is not None and (bit == ALWAYS or mask >> bit & 1))
            known[layout, mask] = columns
        return columns


class _Rows:
    """The current rows: for each key and column the number of the image that has the value.

    Numbers below -1 are documents that a change to another document made.
    """

    def __init__(self, width: int) -> None:
        self.by_key: dict[Key, list[int]] = {}
        self.images = 0
        self._width = width
        self._parts: list[tuple[int, list[pa.Array]]] = []
        self._documents: list[str | None] = []

    def add(self, before: list[pa.Array], after: list[pa.Array]) -> int:
        """Add the images of a batch, before images first, and return the number of the first one."""
        first = self.images
        for side in (before, after):
            self._parts.append((self.images, side))
            self.images += len(side[0]) if side else 0
        return first

    def changed(self, column: int, name: str, document: int, image: int) -> int:
        """Return the number of a document after an image: the image itself, or the document with its changes."""
        text = self._text(column, image)
        if text is None or not JsonDiffs.is_sql(text, name):
            return image
        old = self._text(column, document)
        if old is None:
            return _UNKNOWN  # an unknown value cannot be changed
        self._documents.append(JsonDiffs.from_sql(text).apply(JsonDocument.from_text(old)).text)
        return -1 - len(self._documents)

    def _text(self, column: int, number: int) -> str | None:
        if number == _UNKNOWN:
            return None
        if number < 0:
            return self._documents[-2 - number]
        low, high = 0, len(self._parts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._parts[middle][0] <= number else (low, middle)
        begin, arrays = self._parts[low]
        found: str | None = arrays[column][number - begin].as_py()
        return found

    def gathered(self, most: int = _BATCH_ROWS) -> Iterator[list[pa.Array]]:
        """Yield the values of the rows, some rows at a time."""
        rows = list(self.by_key.values())
        columns = self._columns() if rows else []
        for start in range(0, len(rows), most):
            part = rows[start : start + most]
            yield [self._values(column, [row[n] for row in part]) for n, column in enumerate(columns)]

    def compact(self) -> None:
        """Drop the images that no row refers to."""
        columns = next(self.gathered(max(1, len(self.by_key))), None)
        for number, key in enumerate(self.by_key):
            self.by_key[key] = [number] * self._width
        self._parts = [(0, columns)] if columns is not None else []
        self.images = len(self.by_key)
        self._documents = []

    def _columns(self) -> list[pa.ChunkedArray]:
        return [pa.chunked_array([arrays[n] for _, arrays in self._parts]) for n in range(self._width)]

    def _values(self, column: pa.ChunkedArray, numbers: list[int]) -> pa.Array:
        found = column.take(pa.array([None if number < 0 else number for number in numbers], pa.int64()))
        values = found.combine_chunks()
        values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
        if not any(number < _UNKNOWN for number in numbers):
            return values
        texts = [
            self._documents[-2 - number] if number < _UNKNOWN else value
            for number, value in zip(numbers, values.to_pylist(), strict=True)
        ]
        return pa.array(texts, values.type)


def _keys(column: pa.StructArray) -> list[Key | None]:
    parts = [part.to_pylist() for part in column.flatten()]
    valid = column.is_valid().to_pylist()
    return [key if here else None for key, here in zip(zip(*parts, strict=True), valid, strict=True)]


def _bitmaps(column: pa.Array) -> list[int]:
    return [0 if bits is None else int.from_bytes(bits, "little") for bits in column.to_pylist()]
