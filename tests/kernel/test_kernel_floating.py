"""Text of doubles in the kernel: the digits and notation of `rowimage.floating`, whose digits are those of Python."""

from __future__ import annotations

import math
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.values.numbers import double_text, json_double_text

pytest.importorskip("binlogio._kernel.primitives", reason="the kernel is not compiled")

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.json_documents import json_text
from kernel_texts import kernel_text


def check(value: float) -> None:
    """Compare both notations."""
    data = struct.pack("<d", value)

    assert json_text(b"\x0b" + data) == json_double_text(value).encode()
    assert kernel_text(kinds.DOUBLE, data, width=8, sql=True) == double_text(value).encode()


def test_powers_and_their_neighbours_agree() -> None:
    """Powers of two are where the midpoints are not as far on both sides, those of ten where the digits change."""
    powers = [math.ldexp(1, e) for e in range(-1074, 1024)] + [float(f"1e{e}") for e in range(-323, 309)]
    for power in powers:
        for value in (power, math.nextafter(power, 0), math.nextafter(power, math.inf)):
            if math.isfinite(value):
                check(value)
                check(-value)


def test_every_exponent_with_a_few_fractions_agrees() -> None:
    rng = random.Random(1)
    for exponent in range(2047):
        for fraction in (1, 2, (1 << 52) - 1, 1 << 51, rng.getrandbits(52), rng.getrandbits(52)):
            check(struct.unpack("<d", struct.pack("<Q", exponent << 52 | fraction))[0])


def test_the_smallest_denormals_agree() -> None:
    for bits in range(1000):
        check(struct.unpack("<d", struct.pack("<Q", bits))[0])


def test_short_decimals_agree() -> None:
    rng = random.Random(2)
    for _ in range(20_000):
        check(rng.randrange(10 ** rng.randrange(1, 18)) / 10 ** rng.randrange(12))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_double_agrees(value: float) -> None:
    check(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_double_that_is_no_number_is_refused(value: float) -> None:
    assert kernel_text(kinds.DOUBLE, struct.pack("<d", value), width=8, sql=True) is None
