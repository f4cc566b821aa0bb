"""Temporal values: packing in all fractions, both signs, and what Python's classes cannot hold."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogFormatError
from binlogio.values import temporal

FSP = st.integers(0, 6)
MICROSECOND = timedelta(microseconds=1)


def _cut(microseconds: int, fsp: int) -> int:
    unit = int(10 ** (6 - fsp))
    return microseconds // unit * unit


@given(FSP, st.integers(-3020399 * 10**6, 3020399 * 10**6))
def test_a_time_comes_back_in_both_forms(fsp: int, microseconds: int) -> None:
    """TIME2 and MariaDB's old form hold every TIME that the column can show."""
    value = _cut(microseconds, fsp) * MICROSECOND

    assert value == temporal.decode_time2(temporal.encode_time2(value, fsp), fsp)
    assert value == temporal.decode_old_time(temporal.encode_old_time(value, fsp), fsp)


@given(FSP, st.datetimes())
def test_a_datetime_comes_back_in_both_forms(fsp: int, value: datetime) -> None:
    """DATETIME2 and MariaDB's old form hold every datetime of Python's."""
    value = value.replace(microsecond=_cut(value.microsecond, fsp))

    assert value == temporal.decode_datetime2(temporal.encode_datetime2(value, fsp), fsp)
    assert value == temporal.decode_old_datetime(temporal.encode_old_datetime(value, fsp), fsp)


@given(FSP, st.integers(10**6, (2**32 - 1) * 10**6))
def test_a_timestamp_comes_back_in_both_forms(fsp: int, microseconds: int) -> None:
    """TIMESTAMP2 and MariaDB's old form hold every moment of 32 bits."""
    value = temporal.EPOCH + _cut(microseconds, fsp) * MICROSECOND

    assert value == temporal.decode_timestamp2(temporal.encode_timestamp2(value, fsp), fsp)
    assert value == temporal.decode_old_timestamp(temporal.encode_old_timestamp(value, fsp), fsp)


@pytest.mark.parametrize("fsp", range(7))
@pytest.mark.parametrize("text", ["0000-00-00 00:00:00", "2015-00-21 10:00:00", "2015-02-30 23:59:59"])
def test_a_datetime_that_no_calendar_has_is_text_with_the_column_s_digits(text: str, fsp: int) -> None:
    """Zero and impossible dates are kept, in both forms."""
    text += temporal.fraction_text(0, fsp)

    assert text == temporal.decode_datetime2(temporal.encode_datetime2(text, fsp), fsp)
    assert text == temporal.decode_old_datetime(temporal.encode_old_datetime(text, fsp), fsp)


@pytest.mark.parametrize("fsp", range(7))
def test_the_zero_timestamp_is_not_1970(fsp: int) -> None:
    """No seconds at all are the zero timestamp, as text."""
    text = f"0000-00-00 00:00:00{temporal.fraction_text(0, fsp)}"

    assert text == temporal.decode_timestamp2(bytes(4 + temporal.fraction_size(fsp)), fsp)
    assert text == temporal.decode_old_timestamp(bytes(temporal.old_timestamp_size(fsp)), fsp)
    assert bytes(4 + temporal.fraction_size(fsp)) == temporal.encode_timestamp2(text, fsp)


def test_a_time_with_minutes_over_59_is_text() -> None:
    """Fields that no server writes are shown, not normalised."""
    text = temporal.decode_time2(b"\x80\x0f\xff", 0)

    assert text == "00:63:63"
    assert temporal.encode_time2("00:63:63", 0) == b"\x80\x0f\xff"


def test_a_timestamp_may_be_given_in_another_zone_or_as_utc_text() -> None:
    """An aware datetime is a moment, wherever it is."""
    berlin = timezone(timedelta(hours=1))

    assert temporal.timestamp_parts(datetime(1970, 1, 1, 1, 0, 1, tzinfo=berlin)) == (1, 0)
    assert temporal.timestamp_parts("1970-01-01 00:00:01.5") == (1, 500000)


@given(st.integers(0, (1 << 24) - 1))
def test_every_date_s_three_bytes_come_back(number: int) -> None:
    """DATE loses nothing, whatever the bytes."""
    value = temporal.decode_date(number)

    assert number == temporal.encode_date(value)
    assert isinstance(value, date | str)


@given(st.integers(0, 255))
def test_every_year_s_byte_comes_back(number: int) -> None:
    """YEAR 0 is 0."""
    assert number == temporal.encode_year(temporal.decode_year(number))


DECODERS: list[Any] = [
    (temporal.decode_time2, lambda fsp: 3 + temporal.fraction_size(fsp)),
    (temporal.decode_datetime2, lambda fsp: 5 + temporal.fraction_size(fsp)),
    (temporal.decode_timestamp2, lambda fsp: 4 + temporal.fraction_size(fsp)),
    (temporal.decode_old_time, temporal.old_time_size),
    (temporal.decode_old_datetime, temporal.old_datetime_size),
    (temporal.decode_old_timestamp, temporal.old_timestamp_size),
]


@pytest.mark.parametrize(("decode", "size"), DECODERS)
@given(fsp=FSP, data=st.binary(min_size=8, max_size=8))
def test_any_bytes_are_a_value_or_a_format_error(decode: Any, size: Any, fsp: int, data: bytes) -> None:
    """Garbage gives text or BinlogFormatError and nothing else."""
    try:
        value = decode(data[: size(fsp)], fsp)
    except BinlogFormatError:
        return

    assert isinstance(value, datetime | timedelta | str)


@pytest.mark.parametrize(
    ("encode", "value"),
    [
        (lambda v: temporal.encode_time2(v, 3), timedelta(microseconds=1)),
        (lambda v: temporal.encode_time2(v, 0), timedelta(hours=4096)),
        (lambda v: temporal.encode_time2(v, 0), timedelta(hours=2048)),
        (lambda v: temporal.encode_time2(v, 0), "tomorrow"),
        (lambda v: temporal.encode_time2(v, 0), 5),
        (lambda v: temporal.encode_datetime2(v, 0), datetime(2024, 1, 1, tzinfo=timezone.utc)),
        (lambda v: temporal.encode_datetime2(v, 0), "2024-13-01 00:00:00"),
        (lambda v: temporal.encode_datetime2(v, 0), "2024-12-32 00:00:00"),
        (lambda v: temporal.encode_datetime2(v, 0), "11000-01-01 00:00:00"),
        (lambda v: temporal.encode_datetime2(v, 0), None),
        (lambda v: temporal.encode_timestamp2(v, 0), "2024-02-30 00:00:00"),
        (lambda v: temporal.encode_timestamp2(v, 0), "1969-12-31 23:59:59"),
        (lambda v: temporal.encode_timestamp2(v, 0), "2106-02-07 06:28:16"),
        (lambda v: temporal.encode_timestamp2(v, 0), 17),
        (temporal.encode_date, "2024-01-01 10:00:00"),
        (temporal.encode_date, "40000-01-01"),
        (temporal.encode_year, 1900),
        (temporal.encode_year, "2000"),
        (lambda v: temporal.encode_old_time(v, 0), timedelta(hours=9999)),
        (lambda v: temporal.encode_old_time(v, 0), timedelta(microseconds=1)),
        (lambda v: temporal.encode_old_time(v, 2), -timedelta(hours=900)),
        (lambda v: temporal.encode_old_datetime(v, 0), "-2024-01-01 00:00:00"),
        (lambda v: temporal.encode_old_datetime(v, 6), "99999-01-01 00:00:00"),
        (lambda v: temporal.encode_old_timestamp(v, 1), "2024-01-01 00:00:00.12"),
        (temporal.check_fsp, 7),
    ],
)
def test_what_the_column_cannot_hold_is_refused(encode: Any, value: Any) -> None:
    """Nothing is truncated or wrapped."""
    with pytest.raises(BinlogFormatError):
        encode(value)
