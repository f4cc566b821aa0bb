"""The index file: the names of a server's binary logs, one a line, in order.

Knows how the file is read, and how logs are numbered; `binlogio.writer.log_index` writes it. Source: sql/binlog.cc, MYSQL_BIN_LOG::open_index_file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from binlogio.errors import BinlogFormatError

INDEX_SUFFIX: Final = ".index"
_LOG_NAME: Final = re.compile(r"^(?P<stem>.*)\.(?P<number>\d{1,19})(?P<more>(?:\.[A-Za-z][A-Za-z0-9]*)*)$", re.DOTALL)


def is_index_file(path: str | os.PathLike[str]) -> bool:
    """True for names that end in `.index`."""
    return os.fspath(path).endswith(INDEX_SUFFIX)


def log_number(name: str) -> tuple[str, int, str]:
    """A key that sorts logs in the order of their numbers: 999999 before 1000000."""
    match = _LOG_NAME.match(name)
    if match is None:
        return name, -1, ""
    return match["stem"], int(match["number"]), match["more"]


def next_log_name(name: str) -> str:
    """`binlog.000001` gives `binlog.000002`.

    Raises:
        BinlogFormatError: the name does not end in a number.
    """
    match = _LOG_NAME.match(name)
    if match is None or match["more"]:
        raise BinlogFormatError("the log's name does not end in a number", file=name, expected="name.000001")
    return f"{match['stem']}.{int(match['number']) + 1:06d}"


def read_index(path: Path) -> list[str]:
    """The names in the index file, as they stand there.

    Raises:
        OSError: the file cannot be read.
    """
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    return [line for line in text.split("\n") if line]
