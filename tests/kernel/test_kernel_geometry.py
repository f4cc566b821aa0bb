"""Geometries as text by the kernel, against `Geometry.wkt`."""

from __future__ import annotations

import math
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from binlogio._kernel.primitives import wkt
from binlogio.errors import BinlogFormatError
from binlogio.values.geometry import Geometry

POINT, LINESTRING, POLYGON, MULTIPOINT, COLLECTION = 1, 2, 3, 4, 7
PARTS = {MULTIPOINT: POINT, 5: LINESTRING, 6: POLYGON}


def expected_text(wkb: bytes) -> bytes | None:
    """Return the oracle's text; None for bytes that are not a geometry, and for infinite coordinates."""
    try:
        text = Geometry(0, wkb).wkt
    except BinlogFormatError:
        return None
    return None if "inf" in text or "nan" in text else text.encode()


def _packed(order: str, shape: int, body: bytes) -> bytes:
    return struct.pack(f"{order}BI", order == "<", shape) + body


def _list(order: str, parts: list[bytes]) -> bytes:
    return struct.pack(f"{order}I", len(parts)) + b"".join(parts)


orders = st.sampled_from("<>")
numbers = st.floats() | st.floats(-180, 180).map(lambda number: round(number, 3))


@st.composite
def geometries(draw: Any, shape: int | None = None, depth: int = 0) -> bytes:
    """WKB of any shape, each part in an order of its own."""
    order = draw(orders)
    shape = shape or draw(st.integers(1, 7 if depth < 3 else 3))

    def points() -> bytes:
        pairs = draw(st.lists(st.tuples(numbers, numbers), max_size=3))
        return _list(order, [struct.pack(f"{order}dd", *pair) for pair in pairs])

    if shape == POINT:
        return _packed(order, shape, struct.pack(f"{order}dd", draw(numbers), draw(numbers)))
    if shape == LINESTRING:
        return _packed(order, shape, points())
    if shape == POLYGON:
        return _packed(order, shape, _list(order, [points() for _ in range(draw(st.integers(0, 2)))]))
    count = draw(st.integers(0, 2))
    parts = [draw(geometries(PARTS.get(shape), depth + 1)) for _ in range(count)]
    return _packed(order, shape, _list(order, parts))


@given(geometries())
def test_geometries_have_the_text_of_the_oracle(wkb: bytes) -> None:
    assert expected_text(wkb) == wkt(wkb)


@given(geometries(), st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_damaged_geometries_end_as_with_the_oracle(wkb: bytes, at: int, byte: int, cut: bool) -> None:
    at %= len(wkb)
    damaged = wkb[:at] if cut else wkb[:at] + bytes([byte]) + wkb[at + 1 :]

    assert expected_text(damaged) == wkt(damaged)


def test_collections_nest_as_deep_as_the_oracle_lets_them() -> None:
    for depth in (99, 100, 101, 5000):
        wkb = _packed("<", COLLECTION, _list("<", [])) if depth < 200 else b""
        for _ in range(depth):
            wkb = _packed("<", COLLECTION, struct.pack("<I", 1)) + wkb

        assert expected_text(wkb) == wkt(wkb), depth


def test_coordinates_that_are_no_numbers_are_left_to_the_oracle() -> None:
    assert wkt(struct.pack("<BIdd", 1, POINT, math.inf, 1.0)) is None
    assert wkt(struct.pack("<BIdd", 1, POINT, 0.5, -1.0)) == b"POINT(0.5 -1)"
