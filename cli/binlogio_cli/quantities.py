"""Formats sizes, times and durations for people."""

from __future__ import annotations

import re
from datetime import datetime, timezone, tzinfo
from typing import Final

KIB: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def counted(count: int, what: str) -> str:
    """Format a number of things, such as `row[s] [are|is] left out`: what is in brackets depends on the number."""
    return f"{count} " + re.sub(r"\[([^]|]*)\|?([^]|]*)\]", r"\2" if count == 1 else r"\1", what)


def size_text(size: float) -> str:
    """Format a size in bytes: 1.2 MiB."""
    for unit in _UNITS:
        if abs(size) < KIB or unit == _UNITS[-1]:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= KIB
    raise AssertionError


def moment_text(seconds: float, zone: tzinfo = timezone.utc) -> str:
    """Format seconds since 1970 as a time in a zone."""
    return datetime.fromtimestamp(seconds, zone).strftime("%Y-%m-%d %H:%M:%S")


def zone_text(zone: tzinfo) -> str:
    """Return the name of a time zone; for local time, with its current offset from UTC."""
    name = zone if isinstance(zone, timezone) else getattr(zone, "key", None)
    return str(name) if name else datetime.now(zone).strftime("local time (UTC%z)")


def duration_text(microseconds: int) -> str:
    """Format a duration: 350 ms, 12.3 s, 2 h 05 min, 3 days."""
    if microseconds < 1000:
        return f"{microseconds} us"
    seconds = microseconds / 1e6
    if seconds < 0.9995:
        return f"{microseconds / 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = int(seconds) // 60
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes < 48 * 60 else f"{minutes // 1440:,} days"


def width_text(seconds: int) -> str:
    """Format the width of a time bucket: 10 s, 5 min, 6 h, 7 days."""
    for unit, name in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"
