"""GEOMETRY columns: layout, and conversion of WKB to and from well-known text (WKT).

Supports two-dimensional WKB, the only form that MySQL and MariaDB store. Axes are in the order in which they are
stored (x, then y), also for geographic reference systems, for which ST_AsText() swaps them.

    column   := size: u32  geometry
    geometry := srid: u32  wkb
    wkb      := byte_order: u8 (0 big, 1 little)  type: u32  body
    body     := point | count: u32 ...         -- points of a LINESTRING, rings (count: u32 points) of a POLYGON,
                                                  wkb of a collection

Arrow: struct of srid (uint32) and wkb (binary).

Source: sql/spatial.h, Geometry::wkbType; sql/gis/wkb.cc.
"""

from __future__ import annotations

import re
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NoReturn

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.frozen import dataclass
from binlogio.values.column import (
    CodedValue,
    ColumnPlan,
    KindMaker,
    LayoutMaker,
    ShapeMaker,
    SizedBytes,
    of_kind,
    prefixed_shape,
)
from binlogio.values.numbers import double_text
from binlogio.values.strings import as_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from construct import Construct

MAX_DEPTH: Final = 100
SRID_SIZE: Final = 4


class GeometryType(IntEnum):
    """sql/spatial.h, Geometry::wkbType. GEOMETRY is the type of a column that accepts all types."""

    GEOMETRY = 0
    POINT = 1
    LINESTRING = 2
    POLYGON = 3
    MULTIPOINT = 4
    MULTILINESTRING = 5
    MULTIPOLYGON = 6
    GEOMETRYCOLLECTION = 7


_PARTS: Final = {
    GeometryType.MULTIPOINT: GeometryType.POINT,
    GeometryType.MULTILINESTRING: GeometryType.LINESTRING,
    GeometryType.MULTIPOLYGON: GeometryType.POLYGON,
}
"""The type of the parts of each homogeneous collection; WKT does not contain the names of these parts."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """A geometry as it is stored: SRID (the number of its reference system) and WKB."""

    srid: int
    wkb: bytes

    @classmethod
    def from_wkt(cls, wkt: str, srid: int = 0) -> Geometry:
        """Parse well-known text; the WKB of the result is little-endian.

        Raises:
            BinlogFormatError: the text is not valid WKT.
        """
        return cls(srid, _WktReader(wkt).whole())

    @property
    def wkt(self) -> str:
        """The geometry as well-known text, such as POINT(1 -2.5).

        Raises:
            BinlogFormatError: `wkb` is damaged.
        """
        reader = _WkbReader(self.wkb)
        text = reader.geometry(0)
        if reader.at != len(self.wkb):
            _damaged(f"{len(self.wkb) - reader.at} bytes after the geometry")
        return text

    def __str__(self) -> str:
        return self.wkt


def _damaged(found: str) -> NoReturn:
    raise BinlogFormatError("not a geometry", field="WKB", found=found)


class _WkbReader:
    """Converts WKB to WKT."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def geometry(self, depth: int, wanted: GeometryType | None = None) -> str:
        """Return the WKT of the geometry at the current position.

        `wanted` is the type that a collection requires of its parts; the text is then without the name of the type.
        """
        if depth > MAX_DEPTH:
            _damaged(f"collections deeper than {MAX_DEPTH}")
        order = "<" if self._take(1) == b"\1" else ">"
        code = self._uint(order)
        if not GeometryType.POINT <= code <= GeometryType.GEOMETRYCOLLECTION or (wanted and code != wanted):
            _damaged(f"type {code} at {self.at - 4}")
        kind = GeometryType(code)
        body = self._bodies(kind, order, depth)
        return body if wanted else f"{kind.name}{' ' if body == 'EMPTY' else ''}{body}"

    def _bodies(self, kind: GeometryType, order: str, depth: int) -> str:
        if kind == GeometryType.POINT:
            return f"({self._point(order)})"
        if kind == GeometryType.LINESTRING:
            return self._points(order)
        if kind == GeometryType.POLYGON:
            return self._list(order, 4, lambda: self._points(order))
        return self._list(order, 1 + 4, lambda: self.geometry(depth + 1, _PARTS.get(kind)))

    def _points(self, order: str) -> str:
        return self._list(order, 16, lambda: self._point(order))

    def _list(self, order: str, least: int, part: Callable[[], str]) -> str:
        """Return the parts of a list in parentheses; each part has at least `least` bytes."""
        count = self._uint(order)
        if count * least > len(self._data) - self.at:
            _damaged(f"{count} parts in {len(self._data) - self.at} bytes")
        return f"({','.join(part() for _ in range(count))})" if count else "EMPTY"

    def _point(self, order: str) -> str:
        x, y = struct.unpack(f"{order}dd", self._take(16))
        return f"{double_text(x)} {double_text(y)}"

    def _uint(self, order: str) -> int:
        number: int = struct.unpack(f"{order}I", self._take(4))[0]
        return number

    def _take(self, size: int) -> bytes:
        data = self._data[self.at : self.at + size]
        if len(data) != size:
            _damaged(f"{len(data)} of {size} bytes at {self.at}")
        self.at += size
        return data


_TOKEN: Final = re.compile(r"\s*([A-Za-z]+|[(),]|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


class _WktReader:
    """Converts WKT to WKB."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def whole(self) -> bytes:
        """Return the WKB of the whole text."""
        wkb = self._geometry(0)
        if self._at != len(self._tokens):
            self._refuse()
        return wkb

    def _geometry(self, depth: int) -> bytes:
        name = self._next().upper()
        name = "GEOMETRYCOLLECTION" if name == "GEOMCOLLECTION" else name
        if name == "GEOMETRY" or name not in GeometryType.__members__ or depth > MAX_DEPTH:
            self._refuse(-1)
        return self._named(GeometryType[name], depth)

    def _named(self, kind: GeometryType, depth: int) -> bytes:
        return struct.pack("<BI", 1, kind) + self._body(kind, depth)

    def _body(self, kind: GeometryType, depth: int) -> bytes:
        if kind == GeometryType.POINT:
            return self._bracketed(self._point)
        if kind == GeometryType.LINESTRING:
            return self._list(self._point)
        if kind == GeometryType.POLYGON:
            return self._list(lambda: self._list(self._point))
        if kind == GeometryType.MULTIPOINT:
            return self._list(self._part_point)
        part = _PARTS.get(kind)
        return self._list(lambda: self._named(part, depth + 1) if part else self._geometry(depth + 1))

    def _part_point(self) -> bytes:
        """Return the WKB of a point of a MULTIPOINT, whose parentheses are optional."""
        body = self._bracketed(self._point) if self._peek() == "(" else self._point()
        return struct.pack("<BI", 1, GeometryType.POINT) + body

    def _bracketed(self, part: Callable[[], bytes]) -> bytes:
        self._expect("(")
        data = part()
        self._expect(")")
        return data

    def _list(self, part: Callable[[], bytes]) -> bytes:
        if self._peek().upper() == "EMPTY":
            self._at += 1
            return struct.pack("<I", 0)
        self._expect("(")
        parts = [part()]
        while self._peek() == ",":
            self._at += 1
            parts.append(part())
        self._expect(")")
        return struct.pack("<I", len(parts)) + b"".join(parts)

    def _point(self) -> bytes:
        return struct.pack("<dd", self._number(), self._number())

    def _number(self) -> float:
        token = self._next()
        try:
            return float(token)
        except ValueError:
            self._refuse(-1)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if self._next() != token:
            self._refuse(-1)

    def _refuse(self, shift: int = 0) -> NoReturn:
        at = self._at + shift
        found = self._tokens[at] if at < len(self._tokens) else "the end"
        raise BinlogFormatError("not well-known text", field="WKT", found=f"{found!r} as token {at + 1}")


def _tokens(text: str) -> list[str]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise BinlogFormatError("not well-known text", field="WKT", found=repr(text[at : at + 20]))
        tokens.append(match[1])
        at = match.end()
    return tokens


# ------------------------------------------------------------------------------------------------------------- layout


def _layout(column: ColumnPlan) -> Construct:
    def decode(data: bytes) -> Geometry | bytes:
        # After ALTER TABLE adds a NOT NULL column, it is the empty string in the existing rows.
        if len(data) < SRID_SIZE:
            return data
        return Geometry(int.from_bytes(data[:SRID_SIZE], "little"), data[SRID_SIZE:])

    def encode(value: object) -> bytes:
        if not isinstance(value, Geometry):
            return as_bytes(value)
        return value.srid.to_bytes(SRID_SIZE, "little") + value.wkb

    return CodedValue(SizedBytes(column.pack_length, column.length), decode, encode)


SHAPES: Final[dict[ColumnType, ShapeMaker]] = {ColumnType.GEOMETRY: prefixed_shape}
LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {ColumnType.GEOMETRY: _layout}
KINDS: Final[dict[ColumnType, KindMaker]] = {ColumnType.GEOMETRY: of_kind(kinds.GEOMETRY, "geometry")}
