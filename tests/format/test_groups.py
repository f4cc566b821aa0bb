"""Event groups: where they begin and end, by tables of events and by what real servers wrote into their GTID events."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.constants import EventType
from binlogio.events.base import ParseContext
from binlogio.events.control import (
    IncidentEvent,
    RotateEvent,
    RowsQueryEvent,
    StopEvent,
    XaPrepareEvent,
    XidEvent,
)
from binlogio.events.gtid import AnonymousGtidEvent, PreviousGtidsEvent
from binlogio.events.load import BeginLoadQueryEvent, ExecuteLoadQueryEvent
from binlogio.events.mariadb import AnnotateRowsEvent, BinlogCheckpointEvent, MariadbGtidEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.statement_context import IntvarEvent, UserVarEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.decoder import Decoder
from binlogio.format.groups import EventGroup, GroupKind, GroupPlace, GroupTracker, ends_transaction, starts_transaction
from both_readers import steps_by_both
from corpus import CorpusFile, files, frames_of
from logs import description, header, log, query, rotate, stop, transaction

GTID = AnonymousGtidEvent(header=header(EventType.ANONYMOUS_GTID_LOG_EVENT))
MARIADB_GTID = MariadbGtidEvent(sequence_number=1, domain_id=0, flags=4)
MARIADB_GTID_OF_ANOTHER_DOMAIN = MariadbGtidEvent(sequence_number=1, domain_id=1 << 24, flags=4)
MARIADB_DDL = MariadbGtidEvent(sequence_number=1, domain_id=0, flags=1 | 32)
TABLE = TableMapEvent(9, 1, "d", "t", (3,), (0,), (True,))
ROWS = WriteRowsEvent(9, 0, b"", 1, b"\xff", b"\x00\x01\0\0\0")
LAST_ROWS = WriteRowsEvent(9, 1, b"", 1, b"\xff", b"\x00\x01\0\0\0")
XID = XidEvent(1)
XA = XaPrepareEvent(0, 1, b"x", b"")
LOAD = ExecuteLoadQueryEvent(1, 0, 0, 1, 0, 0, 0, (), "d", b"LOAD DATA")
PAYLOAD = TransactionPayloadEvent.create(b"", 255, 0)

OUTSIDE, OPEN, TRANSACTION = "outside", "open", "transaction"

# Events of a log, and the state of the group after each; `*` marks the events that begin a group.
LOGS: dict[str, list[tuple[Any, str]]] = {
    "DDL with a GTID": [(GTID, "*open"), (query("CREATE TABLE t (a INT)"), OUTSIDE)],
    "DDL without": [(query("CREATE TABLE t (a INT)"), "*outside"), (query("DROP TABLE t"), "*outside")],
    "a transaction": [
        (GTID, "*open"),
        (query("BEGIN"), TRANSACTION),
        (TABLE, TRANSACTION),
        (ROWS, TRANSACTION),
        (LAST_ROWS, TRANSACTION),
        (XID, OUTSIDE),
    ],
    "a transaction of MyISAM": [(query("BEGIN"), "*transaction"), (LAST_ROWS, TRANSACTION), (query("COMMIT"), OUTSIDE)],
    "savepoints": [
        (query("BEGIN"), "*transaction"),
        (query("SAVEPOINT `a`"), TRANSACTION),
        (query("ROLLBACK TO `a`"), TRANSACTION),
        (query("rollback to savepoint a"), TRANSACTION),
        (query("ROLLBACK"), OUTSIDE),
    ],
    "ROLLBACK of a mixed transaction": [(query("BEGIN"), "*transaction"), (query("ROLLBACK /* xid=1 */"), OUTSIDE)],
    "CREATE TABLE ... SELECT": [
        (GTID, "*open"),
        (query("BEGIN"), TRANSACTION),
        (query("CREATE TABLE t (a INT) START TRANSACTION"), TRANSACTION),
        (TABLE, TRANSACTION),
        (LAST_ROWS, TRANSACTION),
        (XID, OUTSIDE),
    ],
    "XA": [
        (GTID, "*open"),
        (query("XA START X'78',X'',1"), TRANSACTION),
        (TABLE, TRANSACTION),
        (LAST_ROWS, TRANSACTION),
        (query("XA END X'78',X'',1"), TRANSACTION),
        (XA, OUTSIDE),
        (GTID, "*open"),
        (query("XA COMMIT X'78',X'',1"), OUTSIDE),
    ],
    "a statement and what it depends on": [
        (IntvarEvent(2, 1), "*open"),
        (UserVarEvent("a", 1, None, None, None, b""), OPEN),
        (query("INSERT INTO t VALUES (@a)"), OUTSIDE),
    ],
    "rows without a transaction (5.1)": [(TABLE, "*open"), (ROWS, OPEN), (LAST_ROWS, OUTSIDE)],
    "LOAD DATA": [(BeginLoadQueryEvent(1, b"1\n"), "*open"), (LOAD, OUTSIDE)],
    "LOAD DATA in a transaction": [
        (query("BEGIN"), "*transaction"),
        (BeginLoadQueryEvent(1, b"1\n"), TRANSACTION),
        (LOAD, TRANSACTION),
        (XID, OUTSIDE),
    ],
    "a compressed transaction": [(GTID, "*open"), (PAYLOAD, OUTSIDE)],
    "an incident": [(GTID, "*open"), (IncidentEvent(1, ""), OUTSIDE)],
    "an empty transaction": [(GTID, "*open"), (query("BEGIN"), TRANSACTION), (query("COMMIT"), OUTSIDE)],
    "the query after rows, in a transaction": [
        (GTID, "*open"),
        (query("BEGIN"), TRANSACTION),
        (RowsQueryEvent(b"INSERT"), TRANSACTION),
        (XID, OUTSIDE),
    ],
    "MariaDB, DDL": [(MARIADB_DDL, "*open"), (query("CREATE TABLE t (a INT)"), OUTSIDE)],
    "MariaDB, a domain of four bytes": [(MARIADB_GTID_OF_ANOTHER_DOMAIN, "*transaction"), (XID, OUTSIDE)],
    "MariaDB, no BEGIN": [
        (MARIADB_GTID, "*transaction"),
        (AnnotateRowsEvent(b"INSERT"), TRANSACTION),
        (TABLE, TRANSACTION),
        (LAST_ROWS, TRANSACTION),
        (XID, OUTSIDE),
    ],
    "what belongs to the file": [
        (description(), OUTSIDE),
        (PreviousGtidsEvent(), OUTSIDE),
        (BinlogCheckpointEvent("binlog.000001"), OUTSIDE),
        (rotate(), OUTSIDE),
        (stop(), OUTSIDE),
    ],
    "a server that stopped in mid-transaction": [
        (query("BEGIN"), "*transaction"),
        (description(), OUTSIDE),
        *zip(transaction(1), ["*transaction", TRANSACTION, OUTSIDE], strict=True),
    ],
    "two GTIDs in a row": [(GTID, "*open"), (GTID, "*open"), (query("CREATE TABLE t (a INT)"), OUTSIDE)],
}


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_place_behind_every_event(log: list[tuple[Any, str]]) -> None:
    tracker = GroupTracker()
    found = []
    for event, _ in log:
        place = tracker.feed(event)
        assert place is tracker.place
        found.append(("*" if tracker.starts_group else "") + place.value)

    assert found == [expected for _, expected in log]


@pytest.mark.parametrize("events", LOGS.values(), ids=LOGS)
def test_kernel_and_bodies_say_the_same(events: list[tuple[Any, str]]) -> None:
    for found, expected in steps_by_both(log(*(event for event, _ in events))):
        assert found == expected


@pytest.mark.parametrize(("size", "body"), [(6, b"\x09\0\0\0"), (8, b"\x09\0\0\0\0\0"), (10, b"\x09\0\0\0\0\0")])
def test_last_rows_of_a_statement_by_their_body(size: int, body: bytes) -> None:
    """The flags are after the table id, which has four bytes in 5.1.4 and earlier."""
    code = int(EventType.WRITE_ROWS_EVENT)
    context = ParseContext(post_header_sizes=(0,) * (code - 1) + (size,))
    for flags, place in ((1, GroupPlace.OUTSIDE), (0, GroupPlace.OPEN)):
        tracker = GroupTracker()
        tracker.feed(TABLE)

        assert tracker.take_body(code, body + bytes([flags, 0]), context) is place
        for cut in (body, body + b"\1"):
            assert tracker.take_body(code, cut, context) is GroupPlace.OPEN


def test_facts_of_a_group_are_those_of_its_gtid() -> None:
    for event, facts in (
        (MARIADB_GTID, ("0-0-1", None, None)),
        (GTID, (None, GTID.last_committed, GTID.sequence_number)),
        (query("BEGIN"), (None, None, None)),
    ):
        assert EventGroup(event).facts == facts


@pytest.mark.parametrize(
    ("sql", "starts", "ends"),
    [
        (b"BEGIN", True, False),
        (b"BEGINNING", False, False),
        (b"XA START X'78'", True, False),
        (b"COMMIT", False, True),
        (b"COMMIT AND CHAIN", False, False),
        (b"ROLLBACK", False, True),
        (b"rollback", False, True),
        (b"ROLLBACK TO `a`", False, False),
        (b"", False, False),
    ],
)
def test_text_that_starts_or_ends_a_transaction(sql: bytes, starts: bool, ends: bool) -> None:
    assert starts_transaction(sql) is starts
    assert ends_transaction(sql) is ends


GROUPED = [
    file
    for file in files()
    if not file.damaged and not file.encrypted and file.path.suffix not in {".zst", ".decrypted"}
]


@pytest.mark.parametrize("file", GROUPED, ids=lambda file: file.id)
def test_groups_of_a_real_file_are_as_long_as_its_gtid_events_say(file: CorpusFile) -> None:
    """transaction_length is the server's own count of a group's bytes.

    And a file that was closed ends outside of groups.
    """
    tracker, decoder, begun, announced = GroupTracker(), Decoder(), 0, None
    for frame in frames_of(file.path.read_bytes()):
        (event,) = decoder.decode(frame)
        if isinstance(event, (RotateEvent, StopEvent)):
            assert tracker.place is GroupPlace.OUTSIDE
        tracker.feed(event)
        if tracker.starts_group:
            begun, announced = frame.header.offset, getattr(event, "transaction_length", None)
        if tracker.place is GroupPlace.OUTSIDE and announced is not None:
            assert frame.end - begun == announced
            announced = None

    assert announced is None


# ----------------------------------------------------------------------------------------------- groups of the kernel


@pytest.mark.parametrize(
    "file", [file for file in files() if not file.encrypted and file.path.suffix != ".zst"], ids=lambda file: file.id
)
def test_kernel_follows_the_groups_of_a_real_file(file: CorpusFile) -> None:
    for found, expected in steps_by_both(file.path.read_bytes()):
        assert found == expected


@settings(max_examples=120, deadline=None)
@given(st.lists(st.sampled_from([event for log in LOGS.values() for event, _ in log]), max_size=9))
def test_kernel_follows_the_groups_of_any_events(events: list[Any]) -> None:
    """In any order, in which no server writes them."""
    steps = list(steps_by_both(log(*events)))

    assert len(steps) > len(events)
    assert [found for found, _ in steps] == [expected for _, expected in steps]


# --------------------------------------------------------------------------------------------------- groups of a reader


WHOLE_LOGS = [
    file
    for file in files()
    if not file.damaged and file.path.suffix != ".decrypted" and file.path.stat().st_size < 400_000
]


@pytest.mark.parametrize("file", WHOLE_LOGS, ids=lambda file: file.id)
def test_groups_of_a_reader_are_those_of_the_events(file: CorpusFile) -> None:
    """Every event is in its group, once, in order; what a group says is what its events say."""
    with binlogio.open(file.path, keyring=file.keys) as reader:
        expected = [(event, reader.group and (reader.group.begin, reader.group.end)) for event in reader]
    found: list[tuple[Any, Any]] = []
    with binlogio.open(file.path, keyring=file.keys) as reader:
        for group in reader.groups():
            assert group.end is None or group.first is group.last
            events = [(event, reader.group and (reader.group.begin, reader.group.end)) for event in group]
            assert events[0][0] is group.first
            found += events
            if group.last is not None:
                outer = [event for event, _ in events if event.header.inner is None]
                assert outer[-1] is group.last
                assert (group.begin, group.end) == (outer[0].header.offset, position_after(outer[-1]))
                assert group.kind is not None
            assert group.timestamp == events[0][0].header.timestamp
            assert group.gtid == getattr(events[0][0], "gtid", None)
            assert group.sequence_number == getattr(events[0][0], "sequence_number", None) or group.gtid is not None
            assert group.commit_timestamp == getattr(events[0][0], "immediate_commit_timestamp", None)

    assert found == [(event, place) for event, place in expected if place is not None]


def position_after(event: Any) -> int:
    return int(event.header.offset + event.header.event_size)


def test_groups_that_are_not_read_are_passed_over() -> None:
    """An iteration that stops in the middle of a group continues with the next one."""
    data = log(query("BEGIN"), query("INSERT INTO t VALUES (1)"), XidEvent(1), query("CREATE TABLE t (i INT)"))
    with binlogio.open(io.BytesIO(data)) as reader:
        found = [(next(iter(group)), group) for group in reader.groups()]

    assert [first.sql for first, _ in found if isinstance(first, QueryEvent)] == [b"BEGIN", b"CREATE TABLE t (i INT)"]
    assert [group.kind for _, group in found] == [GroupKind.TRANSACTION, GroupKind.STATEMENT]
    assert found[0][1].end == found[1][1].begin


def test_a_group_without_an_end_has_no_kind() -> None:
    """A server that crashed left it; the next file begins with a group of its own."""
    data = log(query("BEGIN"), query("INSERT INTO t VALUES (1)"), in_use=True)
    with binlogio.open(io.BytesIO(data)) as reader:
        (group,) = reader.groups()

    assert (group.end, group.kind, group.last) == (None, None, None)
