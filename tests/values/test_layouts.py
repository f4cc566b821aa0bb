"""The layout of every column type: golden values both ways, what does not fit, and damage."""

from __future__ import annotations

import pickle
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogFormatError
from binlogio.primitives import BAD_BYTES
from binlogio.values.column import ColumnPlan
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.layout import COLUMN_LAYOUTS, COLUMN_SHAPES, column_layout
from rowimage_cases import BINARY, LATIN1, UTF8MB4, VALUES, column

REFUSED = (*BAD_BYTES, BinlogFormatError)
MANY = [(note, plan, value, data) for note, plan, value, data in VALUES if data]


@pytest.mark.parametrize(("note", "plan", "value", "data"), VALUES, ids=[case[0] for case in VALUES])
def test_a_value_is_its_bytes(note: str, plan: ColumnPlan, value: Any, data: str) -> None:
    """One table for both directions."""
    layout = column_layout(plan)
    found = layout.parse(bytes.fromhex(data))

    assert bytes.fromhex(data) == layout.build(value)
    assert value == found
    assert type(value) is type(found)


@pytest.mark.parametrize(("note", "plan", "value", "data"), MANY, ids=[case[0] for case in MANY])
def test_bytes_cut_anywhere_are_refused(note: str, plan: ColumnPlan, value: Any, data: str) -> None:
    """No value reads less than it needs."""
    whole = bytes.fromhex(data)

    for end in range(len(whole)):
        with pytest.raises(REFUSED):
            column_layout(plan).parse(whole[:end])


@given(st.sampled_from([case[1] for case in VALUES]), st.binary(max_size=64))
def test_any_bytes_are_a_value_or_an_error_that_is_translated(plan: ColumnPlan, data: bytes) -> None:
    """Garbage, for each type of the table."""
    try:
        value = column_layout(plan).parse(data)
    except REFUSED:
        return

    assert value is not None or plan.type == T.NULL


def test_every_type_has_a_layout() -> None:
    """`VALUES` has a value of each."""
    real = {
        column(kind, 0xFE01 if kind in (T.STRING, T.VAR_STRING) else 1).type
        for kind in COLUMN_SHAPES
        if kind not in _FUSSY
    }

    assert real | _FUSSY.keys() - {T.VAR_STRING} == set(COLUMN_LAYOUTS)
    assert set(COLUMN_LAYOUTS) - {T.NEWDATE, T.TINY_BLOB, T.MEDIUM_BLOB, T.LONG_BLOB} == {
        case[1].type for case in VALUES
    }


_FUSSY: dict[int, int] = {T.FLOAT: 4, T.DOUBLE: 8, T.NEWDECIMAL: 0x0A02}


@pytest.mark.parametrize(
    ("length", "pack_length"),
    [(250, 1), (251, 1), (255, 1), (256, 2), (65535, 2), (65536, 3), (16777215, 3), (16777216, 4)],
)
def test_lengths_around_each_prefix_come_back(length: int, pack_length: int) -> None:
    """There are no length-encoded integers in row images."""
    plan = column(T.BLOB, pack_length, collation_id=BINARY)
    data = column_layout(plan).build(b"x" * length)

    assert length.to_bytes(pack_length, "little") == data[:pack_length]
    assert b"x" * length == column_layout(plan).parse(data)


@pytest.mark.parametrize(
    ("plan", "value"),
    [
        (column(T.TINY), 128),
        (column(T.TINY, unsigned=True), -1),
        (column(T.INT24), 2**23),
        (column(T.LONGLONG), 2**63),
        (column(T.LONG), "1"),
        (column(T.FLOAT, 4), 1e300),
        (column(T.DOUBLE, 8), "1"),
        (column(T.BIT, 5), 32),
        (column(T.BIT, 5), -1),
        (column(T.STRING, 0xFE02, collation_id=LATIN1), "abc"),
        (column(T.STRING, 0xFE02, collation_id=LATIN1), "\u6f22"),
        (column(T.STRING, 0xFE02, collation_id=LATIN1), 5),
        (column(T.STRING, 0xFE02), "ab"),
        (column(T.STRING, 0xFE02, collation_id=BINARY), "ab"),
        (column(T.VARCHAR, 2, collation_id=UTF8MB4), "abc"),
        (column(T.BLOB, 1), b"x" * 256),
        (column(T.VARCHAR, 2, collation_id=UTF8MB4), "\ud800"),
        (column(T.JSON, 4), "{}"),
        (column(T.GEOMETRY, 4), "POINT(1 1)"),
        (column(T.GEOMETRY, 4), Geometry(-1, b"")),
        (column(T.VECTOR, 4, dimension=1), (1.0, 2.0)),
        (column(T.VECTOR, 4), (1e300,)),
        (column(T.VECTOR, 4), ("1",)),
        (column(T.VECTOR, 4), 1.0),
        (column(T.ENUM, 0xF701, members=("a",)), "b"),
        (column(T.ENUM, 0xF701), "b"),
        (column(T.ENUM, 0xF701), 256),
        (column(T.ENUM, 0xF701), 1.0),
        (column(T.SET, 0xF801, members=("a",)), "a,b"),
        (column(T.SET, 0xF801), "a"),
        (column(T.SET, 0xF801), 256),
        (column(T.STRING, 0xFE10, native="uuid"), "not a uuid"),
        (column(T.STRING, 0xFE10, native="inet6"), "192.0.2.1"),
        (column(T.STRING, 0xFE04, native="inet4"), 5.5),
        (column(T.STRING, 0xFE04, native="inet4"), b"\1\2\3"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(plan: ColumnPlan, value: Any) -> None:
    """Nothing is cut, wrapped or guessed."""
    with pytest.raises(REFUSED):
        column_layout(plan).build(value)


def test_names_stand_for_members() -> None:
    """Besides the values that decoding gives, and plain numbers."""
    enum, members = column(T.ENUM, 0xF701, members=("a", "b")), column(T.SET, 0xF801, members=("a", "b", "c"))

    assert [column_layout(enum).build(value) for value in ("b", 2, "")] == [b"\2", b"\2", b"\0"]
    assert [column_layout(members).build(value) for value in ("c,a", 5, "")] == [b"\5", b"\5", b"\0"]


def test_members_that_the_definition_does_not_have_are_numbers() -> None:
    """Damage, or a definition of another time."""
    assert column_layout(column(T.ENUM, 0xF701, members=("a",))).parse(b"\2") == 2
    assert column_layout(column(T.SET, 0xF801, members=("a",))).parse(b"\2") == 2


def test_members_know_their_number() -> None:
    """And are text for all else."""
    enum = column_layout(column(T.ENUM, 0xF701, members=("a", "b"))).parse(b"\2")
    members = column_layout(column(T.SET, 0xF801, members=("a", "b", "c"))).parse(b"\5")

    assert (enum, enum.index, repr(enum)) == ("b", 2, "EnumValue('b', 2)")
    assert (members, members.bits, repr(members)) == ("a,c", 5, "SetValue('a,c', 0x5)")
    assert isinstance(enum, EnumValue)
    assert isinstance(members, SetValue)


def test_members_can_be_pickled() -> None:
    """They travel between processes."""
    enum, members = pickle.loads(pickle.dumps((EnumValue("b", 2), SetValue("a,c", 5))))  # noqa: S301 - our own bytes

    assert (enum, enum.index, members, members.bits) == ("b", 2, "a,c", 5)


def test_a_vector_of_a_broken_number_of_bytes_is_refused() -> None:
    """Floats have four."""
    with pytest.raises(BinlogFormatError):
        column_layout(column(T.VECTOR, 4)).parse(b"\3\0\0\0abc")


def test_trailing_spaces_of_char_and_zeros_of_binary_are_not_written() -> None:
    """The server packs them so."""
    assert column_layout(column(T.STRING, 0xFE0A, collation_id=LATIN1)).build("ab  ") == b"\2ab"
    assert column_layout(column(T.STRING, 0xFE0A, collation_id=BINARY)).build(b"ab\0 \0\0") == b"\4ab\0 "
    assert column_layout(column(T.VARCHAR, 10, collation_id=LATIN1)).build("ab  ") == b"\4ab  "


@pytest.mark.parametrize("size", [0, 1, 99, 100, 255, 256, 65535, 65536, 100000])
def test_compressed_columns_of_any_length_come_back(size: int) -> None:
    """MariaDB's COMPRESSED; what does not get shorter stays as it is."""
    plan = column(T.BLOB_COMPRESSED, 4, collation_id=BINARY)
    noise = zlib.compress(bytes(range(256)))[:size]

    assert b"a" * size == column_layout(plan).parse(column_layout(plan).build(b"a" * size))
    assert noise == column_layout(plan).parse(column_layout(plan).build(noise))


def test_a_compressed_column_with_zlib_s_header_is_read() -> None:
    """column_compression_zlib_wrap=ON."""
    data = b"\x81\xc8" + zlib.compress(b"a" * 200)
    plan = column(T.BLOB_COMPRESSED, 1, collation_id=BINARY)

    assert column_layout(plan).parse(bytes([len(data)]) + data) == b"a" * 200


@pytest.mark.parametrize("data", ["01", "80", "88", "8f01", "8901", "89c800", "8901ffff", "8cffffffff0300", "9901"])
def test_damaged_compressed_columns_are_refused(data: str) -> None:
    """Sizes that cannot be cost no memory."""
    raw = bytes.fromhex(data)
    with pytest.raises(REFUSED):
        column_layout(column(T.BLOB_COMPRESSED, 1)).parse(bytes([len(raw)]) + raw)


# Text and what `CAST(... AS INET6)` gives for it on MariaDB 10.11.18.
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::1", "::1"),
        ("1::", "1::"),
        ("2001:db8:0:1:1:1:1:1", "2001:db8::1:1:1:1:1"),
        ("::1.2.3.4", "::1.2.3.4"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
        ("0:0:0:0:0:0:1:0", "::0.1.0.0"),
        ("1:0:0:2:0:0:3:4", "1::2:0:0:3:4"),
        ("1:2:3:4:5:6:7:0", "1:2:3:4:5:6:7::"),
        ("::ffff:ffff:1.2.3.4", "::ffff:ffff:102:304"),
        ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
    ],
)
def test_an_inet6_is_shown_as_mariadb_shows_it(text: str, shown: str) -> None:
    """Not as RFC 5952 would."""
    layout = column_layout(column(T.STRING, 0xFE10, native="inet6"))

    assert shown == layout.parse(layout.build(text))


@pytest.mark.parametrize("native", ["uuid", "inet6", "inet4"])
def test_native_value_longer_than_its_type_is_refused(native: str) -> None:
    """No server writes one; cutting it would lose bytes."""
    layout = column_layout(column(T.STRING, 0xFE04 if native == "inet4" else 0xFE10, native=native))

    with pytest.raises(ValueError, match=r"bytes|16-char|IPv4|permitted"):
        layout.parse(b"\x11" + bytes(range(17)))
