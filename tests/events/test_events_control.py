"""The small events: STOP, ROTATE, XID, XA_PREPARE, INCIDENT, HEARTBEAT, IGNORABLE, ROWS_QUERY, SLAVE; MariaDB's own.

INTVAR, RAND, USER_VAR.

HEARTBEAT, INCIDENT and SLAVE are in no log of ours: put together by hand from control_events.h, codecs/binary.cpp and
4.1's log_event.h.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.constants import EventType
from binlogio.events.control import (
    HeartbeatEvent,
    HeartbeatV2Event,
    IgnorableEvent,
    IncidentEvent,
    RotateEvent,
    RowsQueryEvent,
    SlaveEvent,
    StopEvent,
    XaPrepareEvent,
    XidEvent,
)
from binlogio.events.mariadb import AnnotateRowsEvent, BinlogCheckpointEvent, StartEncryptionEvent
from binlogio.events.statement_context import IntvarEvent, IntvarKind, RandEvent, UserVarEvent, UserVarType
from golden_events import V1, EventCase, check_refused, text

LOG = "binlog.000001"

CASES: list[EventCase] = [
    EventCase("", EventType.STOP_EVENT, StopEvent(), ""),
    EventCase("", EventType.ROTATE_EVENT, RotateEvent(4, "binlog.000002"), "0400000000000000" + text("binlog.000002")),
    EventCase("over 4 GiB", EventType.ROTATE_EVENT, RotateEvent(1 << 40, "b"), "000000000001000062"),
    EventCase("3.23, no position", EventType.ROTATE_EVENT, RotateEvent(None, "b.002"), text("b.002"), V1),
    EventCase("", EventType.XID_EVENT, XidEvent(246), "f600000000000000"),
    EventCase(
        "", EventType.XA_PREPARE_LOG_EVENT, XaPrepareEvent(0, 1, b"x1", b""), "00 01000000 02000000 00000000 7831"
    ),
    EventCase(
        "one phase, no name",
        EventType.XA_PREPARE_LOG_EVENT,
        XaPrepareEvent(1, -1, b"", b"q"),
        "01ffffffff000000000100000071",
    ),
    EventCase("lost events", EventType.INCIDENT_EVENT, IncidentEvent(1, "gap"), "0100 03" + text("gap")),
    EventCase("no message", EventType.INCIDENT_EVENT, IncidentEvent(1, ""), "0100 00"),
    EventCase("", EventType.HEARTBEAT_LOG_EVENT, HeartbeatEvent(LOG), text(LOG)),
    EventCase(
        "beyond 4 GiB",
        EventType.HEARTBEAT_LOG_EVENT_V2,
        HeartbeatV2Event(((1, LOG.encode()), (2, 5_000_000_000))),
        f"01 0d {text(LOG)} 02 09 fe00f2052a01000000 00",
    ),
    EventCase(
        "a field of a later server",
        EventType.HEARTBEAT_LOG_EVENT_V2,
        HeartbeatV2Event(((2, 4), (7, b"new"))),
        f"02 01 04 07 03 {text('new')} 00",
    ),
    EventCase("", EventType.IGNORABLE_LOG_EVENT, IgnorableEvent(b"later"), text("later")),
    EventCase("9.7", EventType.ROWS_QUERY_LOG_EVENT, RowsQueryEvent(b"DELETE FROM t"), "00" + text("DELETE FROM t")),
    EventCase(
        "5.7", EventType.ROWS_QUERY_LOG_EVENT, RowsQueryEvent(b"DELETE FROM t", 13), "0d" + text("DELETE FROM t")
    ),
    EventCase(
        "",
        EventType.SLAVE_EVENT,
        SlaveEvent(79, 3306, "db1", "bin.001"),
        f"4f00000000000000 ea0c {text('db1')}00 {text('bin.001')}",
        V1,
    ),
    EventCase("", EventType.ANNOTATE_ROWS_EVENT, AnnotateRowsEvent(b"UPDATE m SET v='z'"), text("UPDATE m SET v='z'")),
    EventCase("", EventType.BINLOG_CHECKPOINT_EVENT, BinlogCheckpointEvent(LOG), "0d000000" + text(LOG)),
    EventCase(
        "(encrypted)",
        EventType.START_ENCRYPTION_EVENT,
        StartEncryptionEvent(1, 1, bytes.fromhex("05b341a134f6f5c5cbb7d34b")),
        "01 01000000 05b341a134f6f5c5cbb7d34b",
    ),
    EventCase("", EventType.INTVAR_EVENT, IntvarEvent(IntvarKind.INSERT_ID_EVENT, 1), "02 0100000000000000"),
    EventCase(
        "", EventType.INTVAR_EVENT, IntvarEvent(IntvarKind.LAST_INSERT_ID_EVENT, 2**64 - 1), "01 ffffffffffffffff"
    ),
    EventCase("", EventType.RAND_EVENT, RandEvent(11, 22), "0b00000000000000 1600000000000000"),
    EventCase(
        "NULL", EventType.USER_VAR_EVENT, UserVarEvent("nul", 1, None, None, None, b""), f"03000000 {text('nul')} 01"
    ),
    EventCase(
        "latin1, MariaDB",
        EventType.USER_VAR_EVENT,
        UserVarEvent("l1", 0, UserVarType.STRING_RESULT, 8, b"\xe9", b""),
        f"02000000 {text('l1')} 00 00 08000000 01000000 e9",
    ),
    EventCase(
        "unsigned",
        EventType.USER_VAR_EVENT,
        UserVarEvent("u", 0, UserVarType.INT_RESULT, 63, b"\xff" * 8, b"\x01"),
        f"01000000 {text('u')} 00 02 3f000000 08000000 ffffffffffffffff 01",
    ),
    EventCase(
        "double",
        EventType.USER_VAR_EVENT,
        UserVarEvent("d", 0, UserVarType.REAL_RESULT, 63, bytes.fromhex("000000000000f8bf"), b"\x00"),
        f"01000000 {text('d')} 00 01 3f000000 08000000 000000000000f8bf 00",
    ),
]
BY_NAME = {str(case): case for case in CASES}


def test_xid_of_an_xa_transaction_reads_as_sql_writes_it() -> None:
    assert XaPrepareEvent(0, -1, b"x1", b"\xff").xid_text == "X'7831',X'ff',-1"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("USER_VAR_EVENT: unsigned", 2**64 - 1),
        ("USER_VAR_EVENT: double", -1.5),
        ("USER_VAR_EVENT: NULL", None),
        ("USER_VAR_EVENT: latin1, MariaDB", None),
    ],
)
def test_number_of_a_user_variable(name: str, number: float | None) -> None:
    assert BY_NAME[name].event.number == number


def test_signed_user_variable_without_flags_is_signed() -> None:
    """Servers before 5.1.31 wrote no flags."""
    event = replace(BY_NAME["USER_VAR_EVENT: unsigned"].event, tail=b"")

    assert event.number == -1


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("ROTATE_EVENT: ", {"position": None}),
        ("ROTATE_EVENT: 3.23, no position", {"position": 4}),
        ("XID_EVENT: ", {"xid": -1}),
        ("INCIDENT_EVENT: no message", {"message": "m" * 256}),
        ("SLAVE_EVENT: ", {"host": "a\0b"}),
        ("HEARTBEAT_LOG_EVENT_V2: beyond 4 GiB", {"fields": ((0, b""),)}),
        ("START_ENCRYPTION_EVENT: (encrypted)", {"nonce": b"short"}),
        ("USER_VAR_EVENT: NULL", {"value": b"x"}),
        ("USER_VAR_EVENT: double", {"value": None}),
        ("INTVAR_EVENT: ", {"value": 1 << 64}),
    ],
)
def test_value_that_does_not_fit_is_refused(name: str, changed: dict[str, Any]) -> None:
    check_refused(BY_NAME[name], replace(BY_NAME[name].event, **changed))
