"""DECIMAL: the packed form up to 65 digits, and the text form of before 5.0."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogFormatError
from binlogio.values.decimal import (
    check_precision,
    decimal_size,
    decimal_text,
    decode_decimal,
    decode_old_decimal,
    encode_decimal,
    encode_old_decimal,
)


@st.composite
def _columns_and_values(draw: st.DrawFn) -> tuple[int, int, Decimal]:
    precision = draw(st.integers(1, 65))
    scale = draw(st.integers(0, min(precision, 38)))
    number = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    digits = tuple(map(int, str(abs(number))))
    return precision, scale, Decimal((int(number < 0), digits, -scale))


@given(_columns_and_values())
def test_a_decimal_comes_back_with_its_scale(case: tuple[int, int, Decimal]) -> None:
    """Every value of every DECIMAL(p,s) survives, and all digits of its scale."""
    precision, scale, value = case
    packed = encode_decimal(value, precision, scale)
    found = decode_decimal(packed, precision, scale)

    assert decimal_size(precision, scale) == len(packed)
    assert decimal_text(value) == decimal_text(found)


@pytest.mark.parametrize(
    ("value", "precision", "scale", "packed"),
    [
        ("1234567890.1234", 14, 4, "810dfb38d204d2"),
        ("-1234567890.1234", 14, 4, "7ef204c72dfb2d"),
        ("99999999.99", 10, 2, "85f5e0ff63"),
        ("0.00", 10, 2, "8000000000"),
    ],
)
def test_packed_bytes_are_the_server_s(value: str, precision: int, scale: int, packed: str) -> None:
    """strings/decimal.cc has the first two as its example."""
    assert bytes.fromhex(packed) == encode_decimal(Decimal(value), precision, scale)
    assert Decimal(value) == decode_decimal(bytes.fromhex(packed), precision, scale)


@pytest.mark.parametrize(
    ("value", "precision", "scale", "text"),
    [
        ("1", 3, 1, "1.0"),
        ("1e2", 5, 2, "100.00"),
        ("-0.0", 5, 2, "-0.00"),
        ("0e-99", 3, 1, "0.0"),
        ("1.000", 2, 1, "1.0"),
    ],
)
def test_a_value_of_another_scale_is_taken_where_nothing_is_lost(
    value: str, precision: int, scale: int, text: str
) -> None:
    """Zeros may come and go."""
    found = decode_decimal(encode_decimal(Decimal(value), precision, scale), precision, scale)

    assert text == decimal_text(found)


@pytest.mark.parametrize("value", ["1000", "0.55", "nan", "-inf", "1e99999", "1e-99999999", "ten", None, ()])
def test_a_value_that_does_not_fit_is_refused(value: Any) -> None:
    """Nothing is rounded."""
    with pytest.raises(BinlogFormatError):
        encode_decimal(value, 3, 1)


@given(st.integers(1, 65), st.integers(0, 38), st.binary(max_size=40))
def test_any_bytes_are_a_number_or_a_format_error(precision: int, scale: int, data: bytes) -> None:
    """A group that holds more than its digits is found."""
    scale = min(scale, precision)
    try:
        value = decode_decimal(data[: decimal_size(precision, scale)], precision, scale)
    except BinlogFormatError:
        return

    assert data[: decimal_size(precision, scale)] == encode_decimal(value, precision, scale)


@pytest.mark.parametrize(("precision", "scale"), [(0, 0), (66, 0), (65, 39), (5, 6)])
def test_a_precision_that_no_server_has_is_refused(precision: int, scale: int) -> None:
    """MariaDB's (65,38) is the largest."""
    with pytest.raises(BinlogFormatError):
        check_precision(precision, scale)


def test_an_old_decimal_is_text_on_the_right() -> None:
    """DECIMAL of before 5.0.3."""
    assert Decimal("-12.50") == decode_old_decimal(b"   -12.50")
    assert encode_old_decimal(Decimal("-12.50"), 9) == b"   -12.50"


@pytest.mark.parametrize("data", [b"", b"    ", b"1_0", b"1..2", b"\xff"])
def test_an_old_decimal_that_is_no_number_is_refused(data: bytes) -> None:
    """Python takes more for a number than the server."""
    with pytest.raises(BinlogFormatError):
        decode_old_decimal(data)


@pytest.mark.parametrize("value", ["123456", "nan", "1e9999999", "1e-9999999"])
def test_an_old_decimal_that_is_too_wide_is_refused(value: str) -> None:
    """And costs no memory."""
    with pytest.raises(BinlogFormatError):
        encode_old_decimal(Decimal(value), 5)
