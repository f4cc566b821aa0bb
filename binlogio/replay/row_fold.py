"""The rows of a table after changes whose images may lack columns (binlog_row_image=MINIMAL, partial JSON updates).

A row is a list of image numbers, one for each column: the image that has the current value of the column. Only keys
become Python objects; values are gathered from the images at the end. Key changes join keys, and keys that are not
joined can be folded separately (`components`).

An Arrow batch of changes of `binlogio.read_rows` has a partial JSON update as SQL functions (`JsonDiffs.sql`), because
the document itself is unknown. They are parsed, and applied to the document.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, TypeAlias

import pyarrow as pa

from binlogio.values.json import JsonDiffs, JsonDocument

ALWAYS: Final = -1
"""The bit of a column whose value is not known, and null, after an image that lacks it."""

_UNKNOWN: Final = -1
_COMPACT_ROWS: Final = 1 << 17
_BATCH_ROWS: Final = 1 << 13

Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The bits of the bitmap of an image: for each column of a fold its bit, None if the table had no such column."""

    bits: tuple[int | None, ...]


def components(moves: Iterable[tuple[Key, Key]]) -> dict[Key, int]:
    """Return a number for each key of some key changes (old, new): the same for keys that are joined by changes."""
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


class RowFold:
    """Applies changes in their order, and returns the rows after them.

    Args:
        names: the columns of an image.
        layouts: the layouts of images, by their number.
        documents: the columns whose after images may have changes to a document instead of the document.
    """

    def __init__(self, names: Sequence[str], layouts: Sequence[Layout], documents: Collection[str] = ()) -> None:
        self._names = list(names)
        self._bits = [layout.bits for layout in layouts]
        self._json = {number: name for number, name in enumerate(names) if name in documents}
        self._by_key: dict[Key, list[int]] = {}  # the numbers of images; below -1: of documents that were changed
        self._parts: list[tuple[int, list[pa.Array]]] = []  # first number and columns of images
        self._images = 0
        self._documents: list[str | None] = []
        self._present: dict[tuple[int, int], tuple[int, ...]] = {}

    def add(self, changes: pa.RecordBatch) -> None:
        """Apply changes.

        Args:
            changes: `before` and `after`, structs of the columns (null: no such image), `before_present` and
                `after_present`, their bitmaps; `layout`, the number of the layout of both; `old` and `new`, structs
                with the key before and after the change.
        """
        images = [changes.column(name).flatten() for name in ("before", "after")]
        keys = [_keys(changes.column(name)) for name in ("old", "new")]
        masks = [_bitmaps(changes.column(name)) for name in ("before_present", "after_present")]
        before, after = (self._add_images(side, changes.num_rows) for side in images)
        rows, width = self._by_key, len(self._names)
        layouts = changes.column("layout").to_pylist()
        for n, (layout, old, new, had, has) in enumerate(zip(layouts, *keys, *masks, strict=True)):
            if new is None:
                rows.pop(old, None)
                continue
            if old is None:
                rows[new] = [after + n] * width
                continue
            row = rows.pop(old, None)
            if row is None:
                row = [_UNKNOWN] * width
                for column in self._columns_of(layout, had):
                    row[column] = before + n
            for column in self._columns_of(layout, has):
                row[column] = self._changed(column, row[column], after + n) if column in self._json else after + n
            rows[new] = row
        if self._images >= max(_COMPACT_ROWS, 2 * len(rows)):
            self._compact()

    def rows(self, most: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows after the changes, at most `most` at a time."""
        rows = list(self._by_key.values())
        columns = range(len(self._names))
        images = [pa.chunked_array([arrays[n] for _, arrays in self._parts]) for n in columns] if rows else []
        for start in range(0, len(rows), most):
            part = rows[start : start + most]
            arrays = [self._values(images[n], [row[n] for row in part]) for n in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _add_images(self, columns: list[pa.Array], count: int) -> int:
        """Add images, and return the number of the first one."""
        first = self._images
        self._parts.append((first, columns))
        self._images += count
        return first

    def _columns_of(self, layout: int, mask: int) -> tuple[int, ...]:
        """Return the columns that an image has."""
        columns = self._present.get((layout, mask))
        if columns is None:
            bits = enumerate(self._bits[layout])
            columns = tuple(n for n, bit in bits if bit is not None and (bit == ALWAYS or mask >> bit & 1))
            self._present[layout, mask] = columns
        return columns

    def _changed(self, column: int, document: int, image: int) -> int:
        """Return the number of a document after an image: the image itself, or the document with its changes."""
        text, name = self._text(column, image), self._json[column]
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
        begin, arrays = self._parts[bisect_right(self._parts, number, key=itemgetter(0)) - 1]
        found: str | None = arrays[column][number - begin].as_py()
        return found

    def _compact(self) -> None:
        """Drop the images that no row refers to."""
        rows = next(self.rows(max(1, len(self._by_key))), None)
        for number, key in enumerate(self._by_key):
            self._by_key[key] = [number] * len(self._names)
        self._parts = [] if rows is None else [(0, rows.columns)]
        self._images = len(self._by_key)
        self._documents = []

    def _values(self, images: pa.ChunkedArray, numbers: list[int]) -> pa.Array:
        found = images.take(pa.array([None if number < 0 else number for number in numbers], pa.int64()))
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
    return [0 if bitmap is None else int.from_bytes(bitmap, "little") for bitmap in column.to_pylist()]
