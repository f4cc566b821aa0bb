"""Parsers of option values, one function for each kind of value.

Errors name the option, the expected form and the text that was found. The options are in `options`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import datetime, timezone
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_INTERVAL: Final = re.compile(r"(\d+)\s*(s|m|h|d|seconds?|minutes?|hours?|days?)", re.IGNORECASE)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class BinlogOptionError(ValueError):
    """An unknown option of `format("binlog")`, or an invalid value of one."""


def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return the one of `known` that looks most like `name`."""
    by_lower = {one.lower(): one for one in known}
    return by_lower[get_close_matches(name.lower(), by_lower, n=1, cutoff=0.0)[0]]


def refused(name: str, value: str, expected: str) -> BinlogOptionError:
    """Return the error for an invalid value."""
    return BinlogOptionError(f"binlog: option {name}: expected {expected}, found {value!r}")


def text(name: str, value: str) -> str:
    """Return a text that is not empty."""
    if not value.strip():
        raise refused(name, value, "a value")
    return value


def boolean(name: str, value: str) -> bool:
    """Return True or false, as Spark writes them."""
    try:
        return {"true": True, "false": False}[value.strip().lower()]
    except KeyError:
        raise refused(name, value, "true or false") from None


def choice(*allowed: str) -> Callable[[str, str], str]:
    """Return the parser of one of some words, in any case."""

    def parse(name: str, value: str) -> str:
        for word in allowed:
            if value.strip().lower() == word.lower():
                return word
        raise refused(name, value, f"{', '.join(allowed[:-1])} or {allowed[-1]}")

    return parse


def count(name: str, value: str) -> int:
    """Return a number above zero."""
    if not value.strip().isdigit() or int(value) == 0:
        raise refused(name, value, "a whole number above 0")
    return int(value)


def number(name: str, value: str) -> int:
    """Return a number of 0 or more."""
    if not value.strip().isdigit():
        raise refused(name, value, "a whole number")
    return int(value)


def file_name(name: str, value: str) -> str:
    """Return the name of a file without a directory."""
    if not value.strip() or "/" in value:
        raise refused(name, value, "a name without a directory")
    return value.strip()


def size(name: str, value: str) -> int:
    """Return a number of bytes, written as Spark's own sizes: 1048576, 128m, 1g, 64MB."""
    match = _SIZE.fullmatch(value.strip())
    if match is None or int(match[1]) == 0:
        raise refused(name, value, "a size in bytes, such as 134217728 or 128m")
    return int(match[1]) * _FACTORS[match[2].lower()]


def interval(name: str, value: str) -> int:
    """Return a number of seconds: 90s, 15m, 1h, 2 days."""
    match = _INTERVAL.fullmatch(value.strip())
    if match is None:
        raise refused(name, value, "a number of seconds, minutes, hours or days, such as 90s, 15m, 1h or 2d")
    return int(match[1]) * _SECONDS[match[2][0].lower()]


def table(name: str, value: str) -> str:
    """Return a table with its schema."""
    if not all(value.strip().partition(".")):
        raise refused(name, value, "schema.table")
    return value.strip()


def table_globs(name: str, value: str) -> tuple[str, ...]:
    """Return globs of table names."""
    return tuple(table(name, glob) for glob in value.split(","))


def names(name: str, value: str) -> tuple[str, ...]:
    """Return names that are separated by commas."""
    found = tuple(one.strip() for one in value.split(","))
    if not all(found):
        raise refused(name, value, "names separated by commas")
    return found


def moment(name: str, value: str) -> int:
    """Return a time in seconds since 1970: ISO 8601, in UTC if it has no zone, or that number."""
    if value.strip().isdigit():
        return int(value)
    try:
        found = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        raise refused(name, value, "a time such as 2026-11-20 10:00:00 (UTC) or 2026-11-20T10:00:00+01:00") from None
    found = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
    return -(-int(found.timestamp() * 1_000_000) // 1_000_000)


def position(name: str, value: str) -> tuple[str, int]:
    """Return a log and an offset in it: `binlog.000003:154`."""
    file, colon, offset = value.strip().rpartition(":")
    if not colon or not file or not offset.isdigit():
        raise refused(name, value, "file:offset, such as binlog.000003:154")
    return Path(file).name, int(offset)


def gtid_set(name: str, value: str) -> str:
    """Return the text of a valid GTID set of MySQL or position of MariaDB."""
    from binlogio.errors import BinlogError  # noqa: PLC0415 - options are parsed where nothing is read
    from binlogio.event_filter import parse_gtid_state  # noqa: PLC0415

    try:
        return str(parse_gtid_state(value.strip()))
    except BinlogError as exc:
        raise refused(
            name, value, f"a GTID set, or domain-server-number for each domain of MariaDB ({exc.reason})"
        ) from exc


def file_globs(name: str, value: str) -> tuple[str, ...]:
    """Return globs of file names."""
    return tuple(_without_braces(text(name, value)))


def _without_braces(pattern: str) -> list[str]:
    """Expand `binlog.{000001,000002}` to two globs: Hadoop's globs have braces, fnmatch has none."""
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if braces is None:
        return [pattern]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [glob for one in braces[1].split(",") for glob in _without_braces(before + one + after)]


def path(name: str, value: str) -> tuple[str, ...]:
    """Return the path, absolute."""
    return (_absolute(text(name, value)),)


def paths(name: str, value: str) -> tuple[str, ...]:
    """Return the paths of a JSON array, absolute."""
    try:
        found: Any = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise refused(name, value, "a JSON array of paths, as load([...]) gives")
    return tuple(_absolute(text(name, one)) for one in found)


def _absolute(path: str) -> str:
    """Return the path as every task can open it, wherever it runs; Spark's own file sources show paths with `file:`."""
    if path.startswith("file:/"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - keep the name of a link
