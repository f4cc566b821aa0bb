"""FLOAT and DOUBLE as text, in the server's notation."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.values.numbers import double_text, float_text, json_double_text

# From `SELECT d` and `SELECT CAST(JSON_ARRAY(d) AS CHAR)` on MySQL 9.7.4.
DOUBLES = [
    (1.0, "1", "1.0"),
    (-0.0, "-0", "-0.0"),
    (0.1, "0.1", "0.1"),
    (100000000000000.0, "100000000000000", "100000000000000.0"),
    (1e15, "1e15", "1e15"),
    (1e-5, "0.00001", "0.00001"),
    (1e-15, "0.000000000000001", "0.000000000000001"),
    (1e-16, "1e-16", "1e-16"),
    (1.2345678901234567e-10, "0.00000000012345678901234568", "0.00000000012345678901234568"),
    (-123456789012345.67, "-123456789012345.67", "-123456789012345.67"),
    (-1.2345678901234567e19, "-1.2345678901234567e19", "-1.2345678901234567e19"),
    (1234567890123456.7, "1234567890123456.8", "1234567890123456.8"),
    (1.7976931348623157e308, "1.7976931348623157e308", "1.7976931348623157e308"),
    (5e-324, "5e-324", "5e-324"),
    (-1574702000000.0, "-1574702000000", "-1574702000000.0"),
]


@pytest.mark.parametrize(("value", "column", "json"), DOUBLES)
def test_a_double_is_text_as_the_server_prints_it(value: float, column: str, json: str) -> None:
    """Fixed within fifteen places of the point, else with an exponent."""
    assert column == double_text(value)
    assert json == json_double_text(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_s_text_reads_back_as_the_same_double(value: float) -> None:
    """No digit is missing."""
    assert struct.pack("<d", value) == struct.pack("<d", float(double_text(value)))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_s_text_reads_back_as_the_same_float(value: float) -> None:
    """No digit is missing for 32 bits."""
    assert struct.pack("<f", value) == struct.pack("<f", float(float_text(value)))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.1, "1.1"),
        (16777216.0, "16777216"),
        (3.4028234663852886e38, "3.4028235e38"),
        (2**-149, "1e-45"),
        (-0.014192454516887665, "-0.0141924545"),
    ],
)
def test_a_float_has_the_fewest_digits_that_tell_it(value: float, text: str) -> None:
    """Not the digits of the double that it widens to."""
    assert text == float_text(struct.unpack("<f", struct.pack("<f", value))[0])


def test_a_number_that_no_32_bit_float_holds_has_a_text_all_the_same() -> None:
    """It may have been given for a FLOAT column."""
    assert float_text(1e300) == "1e300"


def test_what_no_server_stores_has_a_text_all_the_same() -> None:
    """A damaged file may hold any bits."""
    assert [double_text(float(name)) for name in ("inf", "-inf", "nan")] == ["inf", "-inf", "nan"]
    assert float_text(float("-inf")) == "-inf"
