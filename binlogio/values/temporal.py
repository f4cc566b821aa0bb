"""DATE, TIME, DATETIME, TIMESTAMP and YEAR: layout, Python classes and the server's text.

Values that the Python classes cannot represent (zero dates, invalid dates, a TIME with 63 minutes) are text in the
server's form. Encoding accepts Python objects and text.

    date       := u24: year << 9 | month << 5 | day                                           little-endian
    year       := u8, from 1900; 0 is the year 0000
    time2      := u24 + 0x800000: hour << 12 | minute << 6 | second, fraction                 big-endian
    datetime2  := u40 + 0x8000000000: (year * 13 + month) << 22 | day << 17 | time, fraction  big-endian
    timestamp2 := u32: seconds since 1970 UTC, fraction                                       big-endian
    fraction   := no byte for fsp 0, one for 1 and 2 (hundredths), two for 3 and 4, three for 5 and 6

fsp is the number of fraction digits. A negative value is stored as the negated number, including its fraction.

TIME, DATETIME and TIMESTAMP have other formats before MySQL 5.6. MariaDB extended these formats with a fraction
(`hires`) and writes them if mysql56_temporal_format is OFF; the log then does not contain the fsp of a column.

    without fraction   time: i24 HHMMSS   datetime: u64 YYYYMMDDHHMMSS   timestamp: u32       little-endian
    hires              the number below, in units of 10 ** -fsp seconds                       big-endian
        time           the time in seconds, plus 838:59:59 + 1 s, so that the number is never negative
        datetime       ((((year * 13 + month) * 32 + day) * 24 + hour) * 60 + minute) * 60 + second
        timestamp      u32 seconds, then the fraction as a separate number

Arrow: date32, duration (us), timestamp (us) without a zone and with UTC; YEAR: int16.

Source: mysys/my_time.cc, my_*_packed_from_binary; MariaDB: sql/field.cc, Field_time_hires, Field_datetime_hires,
Field_timestamp_hires; sql/compat56.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

from construct import Bytes, Construct, Int8ul, Int24ul

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.frozen import dataclass
from binlogio.values.column import (
    NEW_TEMPORAL,
    OLD_TEMPORAL,
    CodedValue,
    ColumnKind,
    ColumnPlan,
    KindMaker,
    LayoutMaker,
    Shape,
    ShapeMaker,
    of_kind,
    plain_shape,
)

MAX_FSP: Final = 6
EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND: Final = timedelta(microseconds=1)
_DATETIME: Final = re.compile(r"(-?)(\d{4,5})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")
_TIME: Final = re.compile(r"(-?)(\d{2,4}):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class Fields:
    """The parts of a date and time, or of a time span; the date may be invalid."""

    year: int = 0
    month: int = 0
    day: int = 0
    hour: int = 0
    minute: int = 0
    second: int = 0
    microsecond: int = 0
    negative: bool = False

    def datetime_text(self, fsp: int) -> str:
        """Return the text YYYY-MM-DD HH:MM:SS[.ffffff] with `fsp` fraction digits."""
        return f"{'-' * self.negative}{self.date_text()} {self._clock(fsp)}"

    def date_text(self) -> str:
        """Return the text YYYY-MM-DD."""
        return f"{self.year:04}-{self.month:02}-{self.day:02}"

    def time_text(self, fsp: int) -> str:
        """Return the text [-]HH:MM:SS[.ffffff] with `fsp` fraction digits; hours have two or more digits."""
        return f"{'-' * self.negative}{self._clock(fsp)}"

    def _clock(self, fsp: int) -> str:
        return f"{self.hour:02}:{self.minute:02}:{self.second:02}{fraction_text(self.microsecond, fsp)}"


def fraction_text(microsecond: int, fsp: int) -> str:
    """Return the point and `fsp` fraction digits; an empty string for fsp 0."""
    return f".{microsecond:06}"[: fsp + 1] if fsp else ""


def check_fsp(fsp: int) -> int:
    """Return `fsp`, the number of fraction digits.

    Raises:
        BinlogFormatError: `fsp` is not 0 to 6.
    """
    if not 0 <= fsp <= MAX_FSP:
        raise BinlogFormatError("fraction digits out of range", expected="0 to 6", found=fsp)
    return fsp


def fraction_size(fsp: int) -> int:
    """Return the size in bytes of the fraction of TIME2, DATETIME2 and TIMESTAMP2."""
    return (fsp + 1) // 2


def _fraction_unit(fsp: int) -> int:
    """Return the number of microseconds in one unit of the stored fraction, which has an even number of digits."""
    return int(10 ** (MAX_FSP - 2 * fraction_size(fsp)))


def _to_microsecond(fraction: int, unit: int) -> int:
    if fraction * unit >= 10**MAX_FSP:
        raise BinlogFormatError("fractional seconds out of range", found=fraction)
    return fraction * unit


def _to_fraction(microsecond: int, fsp: int, unit: int) -> int:
    if microsecond % 10 ** (MAX_FSP - fsp):
        raise BinlogFormatError(
            f"the value has more fractional digits than the {fsp} of the column", found=f"{microsecond} microseconds"
        )
    return microsecond // unit


# --------------------------------------------------------------------------------------- values and their parts


def datetime_value(fields: Fields, fsp: int) -> datetime | str:
    """Return `fields` as a naive datetime, or as text if the date or the time of day is invalid."""
    if fields.negative:
        return fields.datetime_text(fsp)
    days = fields.year, fields.month, fields.day
    clock = fields.hour, fields.minute, fields.second, fields.microsecond
    try:
        return datetime(*days, *clock)  # noqa: DTZ001 -- a DATETIME has no time zone
    except ValueError:
        return fields.datetime_text(fsp)


def time_value(fields: Fields, fsp: int) -> timedelta | str:
    """Return `fields` as a timedelta, or as text if minutes or seconds are greater than 59."""
    if fields.minute > 59 or fields.second > 59:
        return fields.time_text(fsp)
    span = timedelta(hours=fields.hour, minutes=fields.minute, seconds=fields.second, microseconds=fields.microsecond)
    return -span if fields.negative else span


def datetime_fields(value: object) -> Fields:
    """Return the parts of a date, a datetime, or the server's text of one.

    Raises:
        BinlogFormatError: `value` is none of these.
    """
    if isinstance(value, datetime):
        days = value.year, value.month, value.day
        return Fields(*days, value.hour, value.minute, value.second, value.microsecond)
    if isinstance(value, date):
        return Fields(value.year, value.month, value.day)
    match = _DATETIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise BinlogFormatError("not a date or time in the server's form", found=repr(value))
    sign, year, month, day, hour, minute, second, fraction = match.groups(default="0")
    clock = int(hour), int(minute), int(second), int(fraction.ljust(MAX_FSP, "0"))
    return Fields(int(year), int(month), int(day), *clock, negative=sign == "-")


def time_fields(value: object) -> Fields:
    """Return the parts of a timedelta, or of the server's text of a TIME.

    Raises:
        BinlogFormatError: `value` is neither.
    """
    if isinstance(value, timedelta):
        rest, microsecond = divmod(abs(value) // MICROSECOND, 10**MAX_FSP)
        minutes, second = divmod(rest, 60)
        clock = minutes // 60, minutes % 60, second, microsecond
        return Fields(0, 0, 0, *clock, negative=value < timedelta(0))
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise BinlogFormatError("not a TIME in the server's form", found=repr(value))
    sign, hour, minute, second_, fraction = match.groups(default="0")
    clock = int(hour), int(minute), int(second_), int(fraction.ljust(MAX_FSP, "0"))
    return Fields(0, 0, 0, *clock, negative=sign == "-")


def _fit(number: int, bits: int, what: str) -> int:
    if not 0 <= number < 1 << bits:
        raise BinlogFormatError(f"{what} does not fit its {bits} bits", found=number)
    return number


# --------------------------------------------------------------------------------------------- DATE and YEAR


def decode_date(number: int) -> date | str:
    """Decode the 24-bit number of a DATE; an invalid date is returned as text."""
    fields = Fields(year=number >> 9, month=number >> 5 & 15, day=number & 31)
    try:
        return date(fields.year, fields.month, fields.day)
    except ValueError:
        return fields.date_text()


def encode_date(value: object) -> int:
    """Encode a DATE as a 24-bit number.

    Raises:
        BinlogFormatError: `value` is not a date, has a time of day, or is out of range.
    """
    fields = datetime_fields(value)
    if (fields.hour, fields.minute, fields.second, fields.microsecond) != (0, 0, 0, 0) or fields.negative:
        raise BinlogFormatError("a DATE value cannot have a time of day", found=repr(value))
    return _fit(fields.year, 15, "year") << 9 | _fit(fields.month, 4, "month") << 5 | _fit(fields.day, 5, "day")


def decode_year(number: int) -> int:
    """Decode the byte of a YEAR; 0 is the year 0000, not 1900."""
    return number + 1900 if number else 0


def encode_year(value: object) -> int:
    """Encode a YEAR as a byte.

    Raises:
        BinlogFormatError: `value` is neither 0 nor 1901 to 2155.
    """
    if not isinstance(value, int) or (value and not 1901 <= value <= 2155):
        raise BinlogFormatError("invalid YEAR", expected="0 or 1901 to 2155", found=repr(value))
    return value - 1900 if value else 0


# ------------------------------------------------------------------------------- TIME2, DATETIME2, TIMESTAMP2


def _unpack(data: bytes, fsp: int) -> tuple[bool, int, int]:
    """Return sign (True if negative), integer part and microseconds of a stored TIME2 or DATETIME2."""
    size, bits = fraction_size(fsp), 8 * len(data)
    number = int.from_bytes(data, "big") - (1 << bits - 1)
    whole, fraction = divmod(abs(number), 1 << 8 * size)
    return number < 0, whole, _to_microsecond(fraction, _fraction_unit(fsp))


def _pack(negative: bool, whole: int, microsecond: int, size: int, fsp: int) -> bytes:  # noqa: FBT001 -- a sign
    fraction = _to_fraction(microsecond, fsp, _fraction_unit(fsp))
    number = whole << 8 * fraction_size(fsp) | fraction
    bits = 8 * (size + fraction_size(fsp))
    return _fit((1 << bits - 1) + (-number if negative else number), bits, "the value").to_bytes(bits // 8, "big")


def decode_time2(data: bytes, fsp: int) -> timedelta | str:
    """Decode a TIME2 of 3 to 6 bytes."""
    negative, whole, microsecond = _unpack(data, fsp)
    fields = Fields(0, 0, 0, whole >> 12, whole >> 6 & 63, whole & 63, microsecond, negative)
    return time_value(fields, fsp)


def encode_time2(value: object, fsp: int) -> bytes:
    """Encode a TIME2.

    Raises:
        BinlogFormatError: `value` is not a TIME, is out of range, or has more fraction digits than the column.
    """
    fields = time_fields(value)
    hour = _fit(fields.hour, 12, "hour")
    whole = hour << 12 | _fit(fields.minute, 6, "minute") << 6 | _fit(fields.second, 6, "second")
    return _pack(fields.negative, whole, fields.microsecond, 3, fsp)


def unpack_datetime(whole: int, *, negative: bool = False, microsecond: int = 0) -> Fields:
    """Return the parts of the integer part of a DATETIME2, which opaque temporal values in JSON use as well."""
    days, clock = whole >> 17, whole & 0x1FFFF
    year, month = divmod(days >> 5, 13)
    return Fields(year, month, days & 31, clock >> 12, clock >> 6 & 63, clock & 63, microsecond, negative)


def pack_datetime(fields: Fields) -> int:
    """Return the 39-bit integer part of a DATETIME2.

    Raises:
        BinlogFormatError: a part does not fit its bits.
    """
    if fields.month > 12:
        raise BinlogFormatError("month out of range", found=fields.month)
    months = _fit(fields.year * 13 + fields.month, 17, "year")
    clock = (
        _fit(fields.hour, 5, "hour") << 12 | _fit(fields.minute, 6, "minute") << 6 | _fit(fields.second, 6, "second")
    )
    return (months << 5 | _fit(fields.day, 5, "day")) << 17 | clock


def decode_datetime2(data: bytes, fsp: int) -> datetime | str:
    """Decode a DATETIME2 of 5 to 8 bytes."""
    negative, whole, microsecond = _unpack(data, fsp)
    return datetime_value(unpack_datetime(whole, negative=negative, microsecond=microsecond), fsp)


def encode_datetime2(value: object, fsp: int) -> bytes:
    """Encode a DATETIME2.

    Raises:
        BinlogFormatError: `value` is not a date or datetime, is out of range, has a time zone, or has more fraction
            digits than the column.
    """
    fields = datetime_fields(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise BinlogFormatError("a DATETIME value cannot have a time zone", found=repr(value))
    return _pack(fields.negative, pack_datetime(fields), fields.microsecond, 5, fsp)


def timestamp_value(seconds: int, microsecond: int, fsp: int) -> datetime | str:
    """Return the UTC datetime for the seconds since 1970; 0 without a fraction is the text of the zero timestamp."""
    if seconds == 0 and microsecond == 0:
        return Fields().datetime_text(fsp)
    return EPOCH + timedelta(seconds=seconds, microseconds=microsecond)


def timestamp_parts(value: object) -> tuple[int, int]:
    """Return seconds since 1970 and microseconds of an aware datetime, or of a naive datetime or text in UTC.

    Raises:
        BinlogFormatError: `value` is not a datetime, or its seconds do not fit 32 bits.
    """
    if isinstance(value, str):
        fields = datetime_fields(value)
        if fields == Fields():
            return 0, 0
        moment = datetime_value(fields, MAX_FSP)
        if isinstance(moment, str):
            raise BinlogFormatError("a TIMESTAMP value must have a time zone, or be zero", found=value)
        value = moment
    if not isinstance(value, datetime):
        raise BinlogFormatError("invalid TIMESTAMP", found=repr(value))
    aware = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
    seconds, microsecond = divmod((aware - EPOCH) // MICROSECOND, 10**MAX_FSP)
    return _fit(seconds, 32, "a TIMESTAMP's seconds"), microsecond


def decode_timestamp2(data: bytes, fsp: int) -> datetime | str:
    """Decode a TIMESTAMP2 of 4 to 7 bytes."""
    fraction = _to_microsecond(int.from_bytes(data[4:], "big"), _fraction_unit(fsp))
    return timestamp_value(int.from_bytes(data[:4], "big"), fraction, fsp)


def encode_timestamp2(value: object, fsp: int) -> bytes:
    """Encode a TIMESTAMP2.

    Raises:
        BinlogFormatError: `value` is not a datetime, is not from 1970 to 2106, or has more fraction digits than the
            column.
    """
    seconds, microsecond = timestamp_parts(value)
    fraction = _to_fraction(microsecond, fsp, _fraction_unit(fsp))
    return seconds.to_bytes(4, "big") + fraction.to_bytes(fraction_size(fsp), "big")


# -------------------------------------------------------------------------------- formats before MySQL 5.6, and hires

HIRES_TIME_SIZE: Final = (3, 4, 4, 5, 5, 5, 6)
HIRES_DATETIME_SIZE: Final = (8, 6, 6, 7, 7, 7, 8)
HIRES_FRACTION_SIZE: Final = (0, 1, 1, 2, 2, 3, 3)
MAX_YEAR: Final = 9999
TIME_ZERO_SECONDS: Final = 838 * 3600 + 59 * 60 + 59 + 1


def old_time_size(fsp: int) -> int:
    """Return the size in bytes of an old TIME with `fsp` fraction digits; MySQL before 5.6 has only fsp 0."""
    return HIRES_TIME_SIZE[fsp]


def old_datetime_size(fsp: int) -> int:
    """Return the size in bytes of an old DATETIME with `fsp` fraction digits."""
    return HIRES_DATETIME_SIZE[fsp]


def old_timestamp_size(fsp: int) -> int:
    """Return the size in bytes of an old TIMESTAMP with `fsp` fraction digits."""
    return 4 + HIRES_FRACTION_SIZE[fsp]


def _unit(fsp: int) -> int:
    return int(10 ** (MAX_FSP - fsp))


def _units(microseconds: int, fsp: int) -> int:
    units, rest = divmod(microseconds, _unit(fsp))
    if rest:
        raise BinlogFormatError(
            f"the value has more fractional digits than the {fsp} of the column", found=microseconds
        )
    return units


def _bytes(number: int, size: int, what: str) -> bytes:
    if not 0 <= number < 1 << 8 * size:
        raise BinlogFormatError(f"the value does not fit {what}", found=number)
    return number.to_bytes(size, "big")


def _clock(packed: int) -> tuple[int, int, int, int]:
    """Convert microseconds to hours (including days), minutes, seconds and microseconds."""
    seconds, microsecond = divmod(packed, 10**MAX_FSP)
    minutes, second = divmod(seconds, 60)
    return minutes // 60, minutes % 60, second, microsecond


def decode_old_time(data: bytes, fsp: int) -> timedelta | str:
    """Decode an old TIME of `old_time_size(fsp)` bytes."""
    if fsp == 0:
        number = int.from_bytes(data, "little", signed=True)
        digits = abs(number)
        return time_value(Fields(0, 0, 0, digits // 10000, digits // 100 % 100, digits % 100, negative=number < 0), 0)
    packed = int.from_bytes(data, "big") * _unit(fsp) - TIME_ZERO_SECONDS * 10**MAX_FSP
    return time_value(Fields(0, 0, 0, *_clock(abs(packed)), negative=packed < 0), fsp)


def encode_old_time(value: object, fsp: int) -> bytes:
    """Encode an old TIME.

    Raises:
        BinlogFormatError: `value` is not a TIME, or does not fit the column.
    """
    fields = time_fields(value)
    sign = -1 if fields.negative else 1
    if fsp == 0:
        number = (fields.hour * 100 + fields.minute) * 100 + fields.second
        if number >= 1 << 23 or fields.microsecond:
            raise BinlogFormatError("the value does not fit TIME(0)", found=fields.time_text(MAX_FSP))
        return (sign * number).to_bytes(3, "little", signed=True)
    seconds = (fields.hour * 60 + fields.minute) * 60 + fields.second
    packed = sign * (seconds * 10**MAX_FSP + fields.microsecond) + TIME_ZERO_SECONDS * 10**MAX_FSP
    return _bytes(_units(packed, fsp), old_time_size(fsp), f"TIME({fsp})")


def decode_old_datetime(data: bytes, fsp: int) -> datetime | str:
    """Decode an old DATETIME of `old_datetime_size(fsp)` bytes.

    Raises:
        BinlogFormatError: the year has more than four digits.
    """
    if fsp == 0:
        number = int.from_bytes(data, "little")
        month, day, hour, minute, second = (number // 100**power % 100 for power in (4, 3, 2, 1, 0))
        fields = Fields(number // 100**5, month, day, hour, minute, second)
    else:
        hours, minute, second, microsecond = _clock(int.from_bytes(data, "big") * _unit(fsp))
        days, hour = divmod(hours, 24)
        months, day = divmod(days, 32)
        fields = Fields(months // 13, months % 13, day, hour, minute, second, microsecond)
    if fields.year > MAX_YEAR:
        raise BinlogFormatError("DATETIME year out of range", found=fields.year)
    return datetime_value(fields, fsp)


def encode_old_datetime(value: object, fsp: int) -> bytes:
    """Encode an old DATETIME.

    Raises:
        BinlogFormatError: `value` is not a date or datetime, or does not fit the column.
    """
    fields = datetime_fields(value)
    if fields.negative or fields.year > MAX_YEAR or (fsp == 0 and fields.microsecond):
        raise BinlogFormatError(f"the value does not fit DATETIME({fsp})", found=fields.datetime_text(MAX_FSP))
    if fsp == 0:
        number = 0
        for part in (fields.year, fields.month, fields.day, fields.hour, fields.minute, fields.second):
            number = number * 100 + part
        return number.to_bytes(8, "little")
    days = (fields.year * 13 + fields.month) * 32 + fields.day
    seconds = ((days * 24 + fields.hour) * 60 + fields.minute) * 60 + fields.second
    return _bytes(_units(seconds * 10**MAX_FSP + fields.microsecond, fsp), old_datetime_size(fsp), f"DATETIME({fsp})")


def decode_old_timestamp(data: bytes, fsp: int) -> datetime | str:
    """Decode an old TIMESTAMP of `old_timestamp_size(fsp)` bytes.

    Raises:
        BinlogFormatError: the fraction is a second or more.
    """
    if fsp == 0:
        return timestamp_value(int.from_bytes(data, "little"), 0, 0)
    microsecond = int.from_bytes(data[4:], "big") * _unit(fsp)
    if microsecond >= 10**MAX_FSP:
        raise BinlogFormatError("fractional seconds out of range", found=microsecond)
    return timestamp_value(int.from_bytes(data[:4], "big"), microsecond, fsp)


def encode_old_timestamp(value: object, fsp: int) -> bytes:
    """Encode an old TIMESTAMP.

    Raises:
        BinlogFormatError: `value` is not a datetime, or does not fit the column.
    """
    seconds, microsecond = timestamp_parts(value)
    fraction = _units(microsecond, fsp)
    if fsp == 0:
        return seconds.to_bytes(4, "little")
    return seconds.to_bytes(4, "big") + fraction.to_bytes(HIRES_FRACTION_SIZE[fsp], "big")


# ------------------------------------------------------------------------------------------------------------ layouts


def _shape(kind: ColumnType, metadata: int) -> Shape:
    return Shape(kind, fsp=check_fsp(metadata))


_Codec = tuple[Callable[[int], int], Callable[[bytes, int], Any], Callable[[Any, int], bytes]]
_TEMPORAL: Final[dict[ColumnType, _Codec]] = {
    ColumnType.TIME2: (lambda fsp: 3 + fraction_size(fsp), decode_time2, encode_time2),
    ColumnType.DATETIME2: (
        lambda fsp: 5 + fraction_size(fsp),
        decode_datetime2,
        encode_datetime2,
    ),
    ColumnType.TIMESTAMP2: (
        lambda fsp: 4 + fraction_size(fsp),
        decode_timestamp2,
        encode_timestamp2,
    ),
    ColumnType.TIME: (old_time_size, decode_old_time, encode_old_time),
    ColumnType.DATETIME: (
        old_datetime_size,
        decode_old_datetime,
        encode_old_datetime,
    ),
    ColumnType.TIMESTAMP: (
        old_timestamp_size,
        decode_old_timestamp,
        encode_old_timestamp,
    ),
}
"""For each type: functions for the size in bytes by fsp, for decoding and for encoding."""


def _layout(column: ColumnPlan) -> Construct:
    size, decode, encode = _TEMPORAL[column.type]
    fsp = column.fsp
    return CodedValue(Bytes(size(fsp)), lambda data: decode(data, fsp), lambda value: encode(value, fsp))


_DATE: Final = CodedValue(Int24ul, decode_date, encode_date)
_YEAR: Final = CodedValue(Int8ul, decode_year, encode_year)

SHAPES: Final[dict[ColumnType, ShapeMaker]] = {
    **dict.fromkeys((ColumnType.DATE, ColumnType.NEWDATE, ColumnType.YEAR, *OLD_TEMPORAL), plain_shape),
    **dict.fromkeys(NEW_TEMPORAL, _shape),
}
LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {
    ColumnType.YEAR: lambda column: _YEAR,
    ColumnType.DATE: lambda column: _DATE,
    ColumnType.NEWDATE: lambda column: _DATE,
    **dict.fromkeys(_TEMPORAL, _layout),
}
_KINDS: Final = {
    ColumnType.DATETIME2: (kinds.DATETIME2, "timestamp"),
    ColumnType.TIMESTAMP2: (kinds.TIMESTAMP2, "timestamp UTC"),
    ColumnType.TIME2: (kinds.TIME2, "duration"),
    ColumnType.DATETIME: (kinds.OLD_DATETIME, "timestamp"),
    ColumnType.TIMESTAMP: (kinds.OLD_TIMESTAMP, "timestamp UTC"),
    ColumnType.TIME: (kinds.OLD_TIME, "duration"),
}
KINDS: Final[dict[ColumnType, KindMaker]] = {
    ColumnType.YEAR: of_kind(kinds.YEAR, "int16"),
    **dict.fromkeys((ColumnType.DATE, ColumnType.NEWDATE), of_kind(kinds.DATE, "date32")),
    **dict.fromkeys(_KINDS, lambda column: ColumnKind(*_KINDS[column.type], first=column.fsp)),
}
