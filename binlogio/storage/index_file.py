"""The index file of a server, which lists its binary logs in order, one name per line; and numbered log names.

Reads index files; `binlogio.storage.log_index` writes them.

Source: sql/binlog.cc, MYSQL_BIN_LOG::open_index_file.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError

if TYPE_CHECKING:
    from binlogio.options import Position

INDEX_SUFFIX: Final = ".index"
GTID_INDEX_SUFFIX: Final = ".idx"
"""The suffix of MariaDB's GTID index (since 11.4): the offsets of GTIDs in the log of the same name."""
KEY_INDEX_SUFFIX: Final = ".keys.parquet"
"""The suffix of a key index of `binlogio index`: the positions of row keys in the log of the same name."""
AUTO_CNF: Final = "auto.cnf"
"""The file in which a server keeps its UUID, and the end of the name in which `BinlogWriter` keeps that of a series."""
AUTO_CNF_SUFFIX: Final = f".{AUTO_CNF}"
_SERVER_FILES: Final = (INDEX_SUFFIX, "_crash_safe", ".~rec~", ".state", GTID_INDEX_SUFFIX)  # the last two: MariaDB
_BESIDE_LOGS: Final = (*_SERVER_FILES, KEY_INDEX_SUFFIX, AUTO_CNF)
COMPRESSED_SUFFIXES: Final = (".gz", ".zst", ".xz", ".bz2")
_MOST_BYTES: Final = 64 << 20  # the largest index file, which has about a million names
_LOG_NAME: Final = re.compile(r"^(?P<stem>.*)\.(?P<number>\d{1,19})(?P<more>(?:\.[A-Za-z][A-Za-z0-9]*)*)$", re.DOTALL)


def is_index_file(path: str | os.PathLike[str]) -> bool:
    """Return True for a name that ends in `.index`."""
    return os.fspath(path).endswith(INDEX_SUFFIX)


def is_beside_logs(path: str | os.PathLike[str]) -> bool:
    """Return True for a name of a file that is not a log: index, state and temporary files, auto.cnf, a key index."""
    return os.fspath(path).endswith(_BESIDE_LOGS)


@lru_cache(maxsize=1 << 14)  # a streaming query sorts the same names repeatedly
def unescaped_name(text: str) -> str:
    r"""Return the name of a log from the column `file` of records, in which bytes that are not UTF-8 are `\udcff`."""
    return re.sub(r"\\u(dc[89a-f][0-9a-f])", lambda found: chr(int(found[1], 16)), text)


def log_number(name: str) -> tuple[str, int, str]:
    """Return the parts of a log name: stem, number and other suffixes.

    As a sort key, it orders logs by their numbers: 999999 before 1000000. The number is -1 if the name has none.
    """
    match = _LOG_NAME.match(name)
    if match is None:
        return name, -1, ""
    return match["stem"], int(match["number"]), match["more"]


def is_since(name: str, since: str | None) -> bool:
    """Return False for a log of the series of log `since` that has a lower number; their directories do not matter."""
    if since is None:
        return True
    stem, number, _ = log_number(base_name(name))
    first, least, _ = log_number(since)
    return stem != first or number >= least


def is_before(place: Position, other: Position) -> bool:
    """Return whether a position is before another one, in the same file or in an earlier file of the same series."""
    if place.file == other.file:
        return place.offset < other.offset
    number, other_number = log_number(place.file), log_number(other.file)
    return number[0] == other_number[0] and number < other_number


def base_name(file: str) -> str:
    """Return the name of a log file without its directory; `file` is a path or a URI."""
    return file.replace("\\", "/").rstrip("/").rpartition("/")[2]


def plain_name(file: str) -> str:
    """Return the path of a log file without the suffix of its compression."""
    return next((file.removesuffix(suffix) for suffix in COMPRESSED_SUFFIXES if file.endswith(suffix)), file)


def log_name(file: str) -> str:
    """Return the name of a log without its directory and the suffix of its compression; `file` is a path or a URI."""
    return base_name(plain_name(file))


def numbered_name(file: str) -> str | None:
    """Return name and number of a log, without directory and other suffixes; None if the name has no number."""
    stem, number, _ = log_number(base_name(file))
    return f"{stem}.{number:06d}" if number >= 0 else None


def next_log_name(name: str) -> str:
    """Return the name of the log after `name`: `binlog.000002` after `binlog.000001`.

    Raises:
        BinlogFormatError: the name does not end in a number.
    """
    match = _LOG_NAME.match(name)
    if match is None or match["more"]:
        raise BinlogFormatError("the log name does not end in a number", file=name, expected="name.000001")
    return f"{match['stem']}.{int(match['number']) + 1:06d}"


def read_index(path: Path) -> list[str]:
    """Return the names in an index file, unchanged.

    Raises:
        OSError: the file cannot be read.
        BinlogFormatError: the file is too large, or contains a zero byte.
    """
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    return parse_index(data, str(path))


def parse_index(data: bytes, file: str) -> list[str]:
    """Return the names in the bytes of an index file; `file` is its name for errors.

    Raises:
        BinlogFormatError: the file is too large, or contains a zero byte.
    """
    if len(data) > _MOST_BYTES:
        raise BinlogFormatError("the index file is too large", file=file, expected=f"at most {_MOST_BYTES} bytes")
    if b"\0" in data:
        hint = "make it again from the logs: binlogio repair --index"
        raise BinlogFormatError("the index file contains a zero byte", file=file, offset=data.index(b"\0"), hint=hint)
    return [line for line in data.decode("utf-8", "surrogateescape").split("\n") if line]
