"""The LOAD DATA events: today's four, and the four that 8.0 no longer has.

No server of ours writes LOAD_EVENT, CREATE_FILE_EVENT, EXEC_LOAD_EVENT or NEW_LOAD_EVENT: their bytes are put together
by hand from the offsets in 4.1's and 5.0's sql/log_event.h.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.constants import EventType, QueryStatus
from binlogio.errors import BinlogFormatError
from binlogio.events.load import (
    AppendBlockEvent,
    BeginLoadQueryEvent,
    CreateFileEvent,
    DeleteFileEvent,
    ExecLoadEvent,
    ExecuteLoadQueryEvent,
    LoadEvent,
    LoadOptions,
)
from binlogio.events.query import SessionCharset, StatusVar
from golden_events import V1, V3, EventCase, check_refused, text

OLD_OPTIONS = LoadOptions(b"\t", b'"', b"\n", b"\0", b"\\", 2, 8)
NEW_OPTIONS = LoadOptions(b"\t", b"", b"\r\n", b">>", b"\\", 4, None)
NEW_OPTIONS_HEX = "0109 00 020d0a 023e3e 015c 04"
HEAD = "0b000000 02000000 01000000 01 04 02000000"  # thread 11, 2 s, 1 line, table of 1, schema of 4, 2 columns
COLUMNS = f"0102 {text('a')}00 {text('bc')}00"
NAMES = f"{text('t')}00 {text('test')}00"

CASES: list[EventCase] = [
    EventCase(
        "3.23",
        EventType.LOAD_EVENT,
        LoadEvent(11, 2, 1, OLD_OPTIONS, ("a", "bc"), "t", "test", b"/tmp/t.txt"),
        f"{HEAD} 09220a005c0208 {COLUMNS} {NAMES} {text('/tmp/t.txt')}",
        V1,
    ),
    EventCase(
        "4.1",
        EventType.NEW_LOAD_EVENT,
        LoadEvent(11, 2, 1, NEW_OPTIONS, ("a", "bc"), "t", "test", b"/tmp/t.txt"),
        f"{HEAD} {NEW_OPTIONS_HEX} {COLUMNS} {NAMES} {text('/tmp/t.txt')}",
        V3,
    ),
    EventCase(
        "4.1, all columns",
        EventType.NEW_LOAD_EVENT,
        LoadEvent(11, 2, 0, NEW_OPTIONS, (), "t", "test", b"f"),
        f"0b000000 02000000 00000000 01 04 00000000 {NEW_OPTIONS_HEX} {NAMES} {text('f')}",
        V3,
    ),
    EventCase(
        "4.1",
        EventType.CREATE_FILE_EVENT,
        CreateFileEvent(11, 2, 1, 5, NEW_OPTIONS, ("a", "bc"), "t", "test", b"t.txt", b"1\t2\r\n"),
        f"{HEAD} 05000000 {NEW_OPTIONS_HEX} {COLUMNS} {NAMES} {text('t.txt')}00 3109320d0a",
        V3,
    ),
    EventCase("4.1", EventType.EXEC_LOAD_EVENT, ExecLoadEvent(5), "05000000", V3),
    EventCase("failed", EventType.DELETE_FILE_EVENT, DeleteFileEvent(5), "05000000"),
    EventCase("second block", EventType.APPEND_BLOCK_EVENT, AppendBlockEvent(2, b"1\t2\n"), "02000000 3109320a"),
    EventCase("no bytes", EventType.APPEND_BLOCK_EVENT, AppendBlockEvent(2, b""), "02000000"),
    EventCase("first block", EventType.BEGIN_LOAD_QUERY_EVENT, BeginLoadQueryEvent(2, b"1\t2\n"), "02000000 3109320a"),
    EventCase(
        "9.7 (format_statement)",
        EventType.EXECUTE_LOAD_QUERY_EVENT,
        ExecuteLoadQueryEvent(
            247,
            95204655,
            0,
            1,
            9,
            60,
            0,
            (
                StatusVar(QueryStatus.FLAGS2, 0),
                StatusVar(QueryStatus.SQL_MODE, 1168113696),
                StatusVar(QueryStatus.CATALOG_NZ, "std"),
                StatusVar(QueryStatus.CHARSET, SessionCharset(255, 255, 255)),
                StatusVar(QueryStatus.CHARSET_DATABASE, 45),
                StatusVar(QueryStatus.UPDATED_DB_NAMES, ("corpus",)),
                StatusVar(QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4, 255),
            ),
            "corpus",
            b"LOAD DATA INFILE '/var/lib/mysql-files/corpus_load.tsv' INTO TABLE `loaded` CHARACTER SET utf8mb4 "
            b"FIELDS TERMINATED BY '\\t' ENCLOSED BY '' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' (`id`, `txt`, `x`)",
        ),
        "f70000002fb5ac05060000290001000000090000003c000000000000000000012000a04500000000060373746404ff00ff00"
        "ff00082d000c01636f727075730012ff00636f72707573004c4f4144204441544120494e46494c4520272f7661722f6c6962"
        "2f6d7973716c2d66696c65732f636f727075735f6c6f61642e7473762720494e544f205441424c4520606c6f616465646020"
        "4348415241435445522053455420757466386d6234204649454c4453205445524d494e4154454420425920275c742720454e"
        "434c4f534544204259202727204553434150454420425920275c5c27204c494e4553205445524d494e415445442042592027"
        "5c6e272028606964602c2060747874602c2060786029",
    ),
]


def test_the_file_name_is_where_the_event_says() -> None:
    """What a replica replaces by the name of its own copy is the quoted name, with its quotes and keyword."""
    event = CASES[-1].event

    assert event.sql[event.file_name_start : event.file_name_end].strip() == (
        b"INFILE '/var/lib/mysql-files/corpus_load.tsv' INTO"
    )


def test_number_of_columns_beyond_the_event_is_refused_before_it_is_believed() -> None:
    body = bytes.fromhex(f"0b000000 02000000 01000000 01 04 ffffffff {NEW_OPTIONS_HEX} {NAMES}")

    with pytest.raises(BinlogFormatError, match="4294967295 bytes expected"):
        CASES[1].parse(body)


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        (CASES[0], {"options": NEW_OPTIONS}),
        (CASES[1], {"columns": ("c" * 256,)}),
        (CASES[1], {"table": "t" * 256}),
        (CASES[3], {"file_id": 1 << 32}),
    ],
    ids=str,
)
def test_value_that_does_not_fit_is_refused(case: EventCase, changed: dict[str, Any]) -> None:
    check_refused(case, replace(case.event, **changed))


@pytest.mark.parametrize("file", [b"a\0b", b"\0"], ids=repr)
def test_zero_byte_in_a_file_name_that_ends_in_one_is_refused(file: bytes) -> None:
    """It would move the rest of the name into the first block."""
    check_refused(CASES[3], replace(CASES[3].event, file=file))
