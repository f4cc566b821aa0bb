"""TIME, DATETIME and TIMESTAMP in the format before MySQL 5.6, and MariaDB's own format with a fraction.

Pure functions on bytes. MariaDB writes this form where mysql56_temporal_format is OFF; the binlog then
does not say how many fraction digits a column has.

    without fraction   time: i24 HHMMSS   datetime: u64 YYYYMMDDHHMMSS   timestamp: u32      little-endian
    hires              the number below, in units of 10 ** -fsp seconds                       big-endian
        time           hours, minutes, seconds counted together, plus 838:59:59 + 1 s so that it is never negative
        datetime       ((((year * 13 + month) * 32 + day) * 24 + hour) * 60 + minute) * 60 + second
        timestamp      u32 seconds, then the fraction alone

Source: MariaDB: sql/field.cc, Field_time_hires, Field_datetime_hires, Field_timestamp_hires; sql/compat56.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError
from binlogio.values.temporal import (
    MAX_FSP,
    Fields,
    datetime_fields,
    datetime_value,
    time_fields,
    time_value,
    timestamp_parts,
    timestamp_value,
)

if TYPE_CHECKING:
    from datetime import datetime, timedelta

HIRES_TIME_SIZE: Final = (3, 4, 4, 5, 5, 5, 6)
HIRES_DATETIME_SIZE: Final = (8, 6, 6, 7, 7, 7, 8)
HIRES_FRACTION_SIZE: Final = (0, 1, 1, 2, 2, 3, 3)
MAX_YEAR: Final = 9999
TIME_ZERO_SECONDS: Final = 838 * 3600 + 59 * 60 + 59 + 1


def old_time_size(fsp: int) -> int:
    """Bytes of a TIME of that many fraction digits; without any it is the form of all servers before 5.6."""
    return HIRES_TIME_SIZE[fsp]


def old_datetime_size(fsp: int) -> int:
    """Bytes of a DATETIME of that many fraction digits."""
    return HIRES_DATETIME_SIZE[fsp]


def old_timestamp_size(fsp: int) -> int:
    """Bytes of a TIMESTAMP of that many fraction digits."""
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
    """Hour (with all days), minute, second and microsecond of a count of microseconds."""
    seconds, microsecond = divmod(packed, 10**MAX_FSP)
    minutes, second = divmod(seconds, 60)
    return minutes // 60, minutes % 60, second, microsecond


def decode_old_time(data: bytes, fsp: int) -> timedelta | str:
    """Return the TIME of `old_time_size(fsp)` bytes."""
    if fsp == 0:
        number = int.from_bytes(data, "little", signed=True)
        digits = abs(number)
        return time_value(Fields(0, 0, 0, digits // 10000, digits // 100 % 100, digits % 100, negative=number < 0), 0)
    packed = int.from_bytes(data, "big") * _unit(fsp) - TIME_ZERO_SECONDS * 10**MAX_FSP
    return time_value(Fields(0, 0, 0, *_clock(abs(packed)), negative=packed < 0), fsp)


def encode_old_time(value: object, fsp: int) -> bytes:
    """Return the bytes of a TIME.

    Raises:
        BinlogFormatError: it does not fit, or is no TIME.
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
    """Return the DATETIME of `old_datetime_size(fsp)` bytes.

    Raises:
        BinlogFormatError: a year of five digits or more.
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
    """Return the bytes of a DATETIME.

    Raises:
        BinlogFormatError: it does not fit, or is no date.
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
    """Return the TIMESTAMP of `old_timestamp_size(fsp)` bytes.

    Raises:
        BinlogFormatError: a fraction of a second or more.
    """
    if fsp == 0:
        return timestamp_value(int.from_bytes(data, "little"), 0, 0)
    microsecond = int.from_bytes(data[4:], "big") * _unit(fsp)
    if microsecond >= 10**MAX_FSP:
        raise BinlogFormatError("fractional seconds out of range", found=microsecond)
    return timestamp_value(int.from_bytes(data[:4], "big"), microsecond, fsp)


def encode_old_timestamp(value: object, fsp: int) -> bytes:
    """Return the bytes of a TIMESTAMP.

    Raises:
        BinlogFormatError: it does not fit, or is no moment.
    """
    seconds, microsecond = timestamp_parts(value)
    fraction = _units(microsecond, fsp)
    if fsp == 0:
        return seconds.to_bytes(4, "little")
    return seconds.to_bytes(4, "big") + fraction.to_bytes(HIRES_FRACTION_SIZE[fsp], "big")
