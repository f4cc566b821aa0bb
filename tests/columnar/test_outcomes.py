"""How the group of a row ended (source column `outcome`): rollbacks, savepoints and XA, by the kernel and by construct.

`test_source_columns.py` compares the column of all real logs.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio.columnar.record_types import SOURCE_FIELDS
from binlogio.columnar.rows_reader import SOURCE_COLUMNS
from binlogio.constants import EventType
from binlogio.events.base import ParseContext
from binlogio.events.control import IncidentEvent, XaPrepareEvent, XidEvent
from binlogio.events.gtid import AnonymousGtidEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.storage.compression import compress_zstd
from both_kernels import KERNELS, read_rows_by
from logs import header, log, query

if TYPE_CHECKING:
    from pathlib import Path

NAMED: Final = {"d.t": "CREATE TABLE t (a INT)"}
GTID: Final = AnonymousGtidEvent(header=header(EventType.ANONYMOUS_GTID_LOG_EVENT))
TABLE: Final = TableMapEvent(9, 1, "d", "t", (3,), (0,), (True,))
BEGIN, COMMIT, ROLLBACK = query("BEGIN"), query("COMMIT"), query("ROLLBACK")
XA_START: Final = query("XA START X'61',X'',1")
BACK: Final = "rollback to savepoint"


def rows(*numbers: int, last: bool = True) -> WriteRowsEvent:
    images = b"".join(b"\x00" + number.to_bytes(4, "little") for number in numbers)
    return WriteRowsEvent(9, int(last), b"", 1, b"\xff", images)


def change(number: int, count: int = 1) -> list[Any]:
    return [TABLE, rows(*[number] * count)]


def payload(*events: Any) -> TransactionPayloadEvent:
    encoder = Encoder(ParseContext())
    plain = b"".join(encoder.encode(event) for event in events)
    return TransactionPayloadEvent.create(
        compress_zstd(plain, 1), CompressionType.ZSTD, len(plain), header(EventType.TRANSACTION_PAYLOAD_EVENT)
    )


NESTED: Final = [
    *[BEGIN, *change(1), query("SAVEPOINT `a`"), *change(2), query("SAVEPOINT `b`"), *change(3)],
    *[query("ROLLBACK TO `B`"), *change(4), query("SAVEPOINT `c`"), *change(5), query("ROLLBACK TO `a`"), *change(6)],
    *[query("SAVEPOINT `a`"), *change(7), query("SAVEPOINT `a`"), *change(8), query("ROLLBACK TO `a`"), XidEvent(7)],
]
"""A savepoint stays after ROLLBACK TO, those after it are gone, and SAVEPOINT replaces the one of the same name."""
OF_NESTED: Final = ["commit", BACK, BACK, BACK, BACK, "commit", "commit", BACK]

CASES: Final[dict[str, tuple[list[Any], list[str | None]]]] = {
    "XID": ([GTID, BEGIN, *change(1), XidEvent(7)], ["commit"]),
    "COMMIT": ([GTID, BEGIN, *change(1), COMMIT], ["commit"]),
    "ROLLBACK": ([GTID, BEGIN, *change(1), *change(2), ROLLBACK, GTID, BEGIN, *change(3), COMMIT],
                 ["rollback", "rollback", "commit"]),
    "no BEGIN": ([GTID, *change(1), GTID, BEGIN, *change(2), ROLLBACK], ["statement", "rollback"]),
    "no GTID": ([*change(1), BEGIN, *change(2), ROLLBACK, *change(3)], ["statement", "rollback", "statement"]),
    "XA PREPARE": ([GTID, XA_START, *change(1), query("XA END X'61',X'',1"), XaPrepareEvent(False, 1, b"a", b""),
                    GTID, query("XA COMMIT X'61',X'',1"), GTID, BEGIN, *change(2), COMMIT], ["prepare", "commit"]),
    "XA COMMIT ONE PHASE": ([GTID, XA_START, *change(1), XaPrepareEvent(True, 1, b"a", b"")], ["commit"]),
    "incident": ([GTID, BEGIN, *change(1), IncidentEvent(1, "lost")], ["incident"]),
    "no end": ([GTID, BEGIN, *change(1), GTID, BEGIN, *change(2)], [None, None]),
    "nested savepoints": ([GTID, *NESTED, GTID, BEGIN, *change(9), COMMIT], [*OF_NESTED, "commit"]),
    "savepoints, then ROLLBACK": ([GTID, *NESTED[:-1], ROLLBACK],
                                  [one if one == BACK else "rollback" for one in OF_NESTED]),
    "savepoint before the first change": ([GTID, BEGIN, *change(1), query('ROLLBACK TO "a"'), *change(2), COMMIT],
                                          [BACK, "commit"]),
    "text that no server writes": ([GTID, BEGIN, *change(1), query("ROLLBACK WORK TO `a`")], ["rollback"]),
    "savepoints as the client wrote them": (
        [GTID, BEGIN, query("-- app\nsavepoint /* a */ `S`"), *change(1), query("/* app */ SAVEPOINT\ts2"), *change(2),
         query("/*!50003 ROLLBACK */ WORK TO SAVEPOINT s2"), *change(3), query("ROLLBACK TO /* b */ s"), *change(4),
         COMMIT],
        [BACK, BACK, BACK, "commit"],
    ),
    "savepoints of two groups": ([GTID, BEGIN, query("SAVEPOINT `a`"), *change(1), COMMIT, GTID, BEGIN, *change(2),
                                  query("SAVEPOINT `a`"), *change(3), query("ROLLBACK TO `a`"), COMMIT],
                                 ["commit", "commit", BACK]),
    "payload": ([GTID, payload(BEGIN, *change(1), XidEvent(7)), GTID, payload(*NESTED)], ["commit", *OF_NESTED]),
    "payload, then a group": ([GTID, payload(*NESTED), BEGIN, *change(9), ROLLBACK], [*OF_NESTED, "rollback"]),
}  # fmt: skip


def outcomes(kernel: str, source: Any, **options: Any) -> list[str | None]:
    batches = read_rows_by(kernel, source, source_columns=["outcome"], definitions=NAMED, **options)
    return [one for batch in batches for one in batch["outcome"].to_pylist()]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("table", [None, "d.t"])
@pytest.mark.parametrize("case", CASES)
def test_outcome_is_how_the_group_ended(case: str, table: str | None, kernel: str, tmp_path: Path) -> None:
    """Also of a stream, if the group ends within a window."""
    events, expected = CASES[case]
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*events, in_use=None in expected))

    assert outcomes(kernel, path, table=table) == expected
    if None not in expected:
        assert outcomes(kernel, io.BytesIO(path.read_bytes()), table=table) == expected


FORMS: Final = [
    *("BEGIN", "begin", "BEGIN ", "BEGIN WORK", "/* a */ BEGIN", "START TRANSACTION", "COMMIT", "commit", "COMMIT "),
    *(
        "COMMIT WORK",
        "/* a */ COMMIT",
        "ROLLBACK",
        "rollback",
        "ROLLBACK ",
        "ROLLBACK WORK",
        " ROLLBACK",
        "/**/ROLLBACK",
    ),
    *("ROLLBACK TO a", "rollback to a", "ROLLBACK TO SAVEPOINT a", "ROLLBACK  TO a", "ROLLBACK TO", "ROLLBACK\tTO a"),
    *(
        "/* a */ ROLLBACK TO a",
        "-- a\nROLLBACK WORK TO SAVEPOINT `a`",
        "#a\nROLLBACK TO a",
        '/*!50001 ROLLBACK TO "a" */',
    ),
    *("SAVEPOINT a", "savepoint `a`", "SAVEPOINT", "SAVEPOINTS a", "/*M! SAVEPOINT */ a", "RELEASE SAVEPOINT a"),
    *(
        "XA START X'61',X'',1",
        "xa start 'a'",
        "XA  START 'a'",
        "XA BEGIN 'a'",
        "XA END 'a'",
        "XA COMMIT 'a'",
        "XA RECOVER",
    ),
    *(
        "XA ROLLBACK X'61',X'',1",
        "XA COMMIT 'a' ONE PHASE",
        "",
        " ",
        "/*",
        "`",
        "UPDATE t SET a = 'ROLLBACK'",
        "BEGINNING",
    ),
]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_kernel_knows_the_same_statements(form: str, tmp_path: Path) -> None:
    """Whatever spelling a statement about transactions has, before, in and after a transaction."""
    path = tmp_path / "binlog.000001"
    a, one = query("SAVEPOINT a"), query(form)
    path.write_bytes(log(GTID, BEGIN, *change(1), a, *change(2), one, *change(3), COMMIT, one, *change(4), GTID, one,
                         *change(5), XidEvent(7), *change(6)))  # fmt: skip

    assert outcomes("compiled", path) == outcomes("construct", path)


@pytest.mark.parametrize("count", [9_000, 250_000])
@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_outcome_is_found_ahead_of_the_rows(count: int, is_compressed: bool, threads: int, tmp_path: Path) -> None:
    """In groups larger than a window, and with events larger than a window."""
    big = [event for one in NESTED for event in ([rows(*[1] * count)] if isinstance(one, WriteRowsEvent) else [one])]
    log_events: list[Any] = [GTID, payload(*big) if is_compressed else big, GTID, TABLE, rows(*[1] * count)]
    log_events += [GTID, BEGIN, *[TABLE, *[rows(*[1] * 9_000, last=False) for _ in range(40)]], ROLLBACK]
    path = tmp_path / "binlog.000001"
    flat = [event for one in log_events for event in (one if isinstance(one, list) else [one])]
    path.write_bytes(log(*flat))
    expected = [one for outcome in [*OF_NESTED, "statement"] for one in [outcome] * count] + ["rollback"] * 360_000

    for table in (None, "d.t"):
        assert outcomes("compiled", path, table=table, threads=threads) == expected


def test_names_of_source_columns() -> None:
    assert tuple(one.name for one in SOURCE_FIELDS) == SOURCE_COLUMNS
