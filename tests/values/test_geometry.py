"""GEOMETRY: WKB and WKT of every type."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogFormatError
from binlogio.values.geometry import Geometry

POINT = "0101000000000000000000f03f00000000000004c0"
WKT = [
    "POINT(1 -2.5)",
    "LINESTRING(0 0,1 1,2 3)",
    "POLYGON((0 0,10 0,10 10,0 10,0 0),(2 2,3 2,3 3,2 3,2 2))",
    "MULTIPOINT((0 0),(1 1))",
    "MULTILINESTRING((0 0,1 1),(2 2,3 3,4 5))",
    "MULTIPOLYGON(((0 0,1 0,1 1,0 0)),((5 5,6 5,6 6,5 5)))",
    "GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1),GEOMETRYCOLLECTION EMPTY)",
    "GEOMETRYCOLLECTION EMPTY",
    "MULTIPOINT EMPTY",
    "POINT(1e300 -1e-300)",
]


@pytest.mark.parametrize("wkt", WKT)
def test_well_known_text_comes_back(wkt: str) -> None:
    """All types, nested and empty collections."""
    assert wkt == Geometry.from_wkt(wkt, 4326).wkt == str(Geometry.from_wkt(wkt))


def test_a_point_is_the_server_s_bytes() -> None:
    """Fixture mysql97/types_geometry_vector."""
    assert Geometry(4326, bytes.fromhex(POINT)) == Geometry.from_wkt("POINT(1 -2.5)", 4326)


def test_big_endian_wkb_is_read() -> None:
    """Each geometry says its own order."""
    assert Geometry(0, struct.pack(">BIdd", 0, 1, 1, 2)).wkt == "POINT(1 2)"


def test_other_spellings_are_taken() -> None:
    """ST_GeomFromText() accepts it as well."""
    assert Geometry.from_wkt(" multipoint ( 0 0 , 1 1 ) ").wkt == "MULTIPOINT((0 0),(1 1))"
    assert Geometry.from_wkt("GEOMCOLLECTION(POINT(+1 .5))").wkt == "GEOMETRYCOLLECTION(POINT(1 0.5))"


@pytest.mark.parametrize(
    "wkt",
    [
        "",
        "POINT",
        "POINT(1)",
        "POINT(1 2",
        "POINT(1 2))",
        "POINT(a b)",
        "CIRCLE(1 2)",
        "GEOMETRY(1 2)",
        "LINESTRING(1 2;3 4)",
        "GEOMETRYCOLLECTION(" * 150,
    ],
)
def test_text_that_is_no_geometry_is_refused(wkt: str) -> None:
    """Deep nesting too."""
    with pytest.raises(BinlogFormatError):
        Geometry.from_wkt(wkt)


@pytest.mark.parametrize("wkt", WKT)
def test_wkb_cut_anywhere_is_refused(wkt: str) -> None:
    """Every byte counts."""
    wkb = Geometry.from_wkt(wkt).wkb

    for end in range(len(wkb)):
        with pytest.raises(BinlogFormatError):
            _ = Geometry(0, wkb[:end]).wkt


@pytest.mark.parametrize(
    "wkb",
    [
        POINT + "00",
        "0109000000",
        "0100000000",
        "0102000000ffffffff",
        "0104000000010000000102000000" + "00000000",
        "010700000001000000" * 200,
    ],
)
def test_damaged_wkb_is_refused(wkb: str) -> None:
    """Trailing bytes, unknown types, counts beyond the data, a line in a MULTIPOINT, endless nesting."""
    with pytest.raises(BinlogFormatError):
        _ = Geometry(0, bytes.fromhex(wkb)).wkt


@given(st.binary(max_size=80))
def test_any_bytes_are_a_geometry_or_a_format_error(data: bytes) -> None:
    """Garbage."""
    try:
        wkt = Geometry(0, data).wkt
    except BinlogFormatError:
        return

    assert wkt
