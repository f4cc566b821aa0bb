"""MariaDB's log files: first events, domain state through rotation, restart, crash and error, parallel groups."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio.constants import EventType
from binlogio.errors import BinlogError, LoggingError, UnsupportedFeature
from binlogio.events.base import EventHeader
from binlogio.events.control import IncidentEvent, XidEvent
from binlogio.events.mariadb import (
    AnnotateRowsEvent,
    BinlogCheckpointEvent,
    MariadbGtidEvent,
    MariadbGtidExtraFlag,
    MariadbGtidListEvent,
)
from binlogio.events.query import QueryEvent, StatusVar
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.format.encoder import Encoder
from binlogio.gtid import EMPTY_GTID_SET, MariadbGtid, Uuid
from binlogio.implementation import CONSTRUCT, VARIABLE
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Delete, Insert, Session, Statement, Update, XaXid
from binlogio.writer.log.group import Group, GroupEnd, InDomain
from binlogio.writer.log.group_log import GroupLog, PendingCommit
from binlogio.writer.log.gtids import DomainState
from binlogio.writer.log.log_builder import MAX_SHORT_TEXT, LogBuilder, describe_format
from binlogio.writer.log.log_file import ActiveLog
from binlogio.writer.log.recovery import GtidRuns, examine, skip_plain_groups
from memory_storage import MemoryStorage
from written_logs import events_of

VERSION: Final = "10.11.18-MariaDB"
T: Final = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(9000)")), ("id",)
)
M: Final = replace(T, name="m", engine="MyISAM")
HEADER: Final = EventHeader(timestamp=1_700_000_000, server_id=1)


def variables(**values: Any) -> ServerVariables:
    """Return the variables of a MariaDB server."""
    return ServerVariables(**{"server_version": VERSION, **values})


def writer(storage: MemoryStorage, *, use_kernel: bool = True, **values: Any) -> BinlogWriter:
    """Return a writer whose time is always the same from one run to the next."""
    ticks = count(1_700_000_000_000_000, 1000)
    return BinlogWriter(
        "binlog", variables=variables(**values), clock=lambda: next(ticks), storage=storage, use_kernel=use_kernel
    )


def insert(number: int, table: TableDefinition = T, text: str = "x") -> Statement:
    """Return an insert of one row."""
    return Statement(f"INSERT INTO {table.name} VALUES ({number})", [Insert(table, [(number, text)])])


def gtids_of(storage: MemoryStorage) -> list[str]:
    """Of all groups."""
    return [str(event.gtid) for event in events_of(storage) if isinstance(event, MariadbGtidEvent)]


def work(session: Session) -> None:
    """Execute one statement of each kind that changes rows."""
    session.ddl("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9000))")
    session.execute(insert(1))
    session.execute(insert(1, M))
    session.begin()
    session.execute(insert(2, text="y" * 8000))
    session.execute(insert(3, text="z" * 8000))
    session.execute(insert(2, M))
    session.commit()
    both = [Insert(M, [(4, "n" * 9000)]), Insert(T, [(4, "t" * 9000)])]
    session.execute(Statement("INSERT", both))
    session.execute(Statement("UPDATE", [Update(T, [({"id": 1, "v": "x"}, {"v": "é"})])]))
    session.execute(Statement("DELETE", [Delete(T, [(1, "é")])]))
    session.xa_start(XaXid(b"a"))
    session.execute(insert(9))
    session.xa_end(XaXid(b"a"))
    session.xa_prepare(XaXid(b"a"))
    session.xa_commit(XaXid(b"a"))


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
@pytest.mark.parametrize("cache_size", [4096, 65536])
@pytest.mark.parametrize("log_bin_compress", [False, True])
def test_kernel_and_construct_write_the_same_bytes(checksum: str, cache_size: int, log_bin_compress: bool) -> None:
    """In memory and out of it, compressed and not."""
    found = []
    for use_kernel in (True, False):
        storage = MemoryStorage()
        more: dict[str, Any] = {"binlog_cache_size": cache_size, "binlog_stmt_cache_size": cache_size}
        with (
            writer(
                storage, use_kernel=use_kernel, binlog_checksum=checksum, log_bin_compress=log_bin_compress, **more
            ) as log,
            log.session("shop") as session,
        ):
            work(session)
        found.append(storage.files)

    assert found[0] == found[1]


def test_a_file_says_where_its_domains_are_and_which_logs_a_recovery_needs() -> None:
    """GTID_LIST and BINLOG_CHECKPOINT; after a rotation the log before is in the latter first."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session("shop") as session:
        session.execute(insert(1))
        session.set_variables(gtid_domain_id=7, server_id=9)
        session.execute(insert(2))
        session.flush_logs()
        session.execute(insert(3))

        assert log.gtid_binlog_state == (MariadbGtid(0, 1, 1), MariadbGtid(7, 9, 2))
        assert session.last_gtid == MariadbGtid(7, 9, 2)
    events = events_of(storage)

    assert [event.gtids for event in events if isinstance(event, MariadbGtidListEvent)] == [
        (),
        (MariadbGtid(0, 1, 1), MariadbGtid(7, 9, 1)),
    ]
    assert [event.file for event in events if isinstance(event, BinlogCheckpointEvent)] == [
        "binlog.000001",
        "binlog.000001",
        "binlog.000002",
    ]
    assert {event.header.server_id for event in events if isinstance(event, WriteRowsEvent | XidEvent)} == {1, 9}


def test_a_log_in_use_is_cut_after_its_last_whole_group_and_numbers_continue() -> None:
    """Wherever the crash was."""
    storage = MemoryStorage()
    log = writer(storage).open()
    with log.session("shop") as session:
        for number in (1, 2):
            session.execute(insert(number))
        session.xa_start(XaXid(b"a"))
        session.execute(insert(3))
        session.xa_end(XaXid(b"a"))
        session.xa_prepare(XaXid(b"a"))
    whole, ends = bytes(storage.files["binlog.000001"]), []
    ends += [event.header.offset for event in events_of(storage) if isinstance(event, MariadbGtidEvent)]
    ends.append(len(whole))
    for size in range(ends[0], len(whole)):
        crashed = MemoryStorage(
            files={"binlog.000001": bytearray(whole[:size]), "binlog.index": bytearray(storage.files["binlog.index"])}
        )
        with writer(crashed) as again, again.session("shop") as session:
            session.execute(insert(4))
        kept = sum(end <= size for end in ends[1:])

        assert gtids_of(crashed) == [f"0-1-{number}" for number in range(1, kept + 2)]
        assert len(crashed.files["binlog.000001"]) == ends[kept]


def examined(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch, *, is_slow: bool) -> object:
    """Return what a log contains, or the error and its place."""
    with monkeypatch.context() as patch:
        if is_slow:
            patch.setenv(VARIABLE, CONSTRUCT)
        try:
            return examine(storage, "binlog.000001")
        except BinlogError as exc:
            return exc.reason, exc.offset


@settings(max_examples=60)
@given(
    st.sampled_from(["CRC32", "NONE"]),
    st.integers(0, 400),
    st.none() | st.tuples(st.integers(0, 4000), st.integers(0, 7)),
)
def test_a_log_is_examined_in_bulk_as_event_by_event(checksum: str, cut: int, flip: tuple[int, int] | None) -> None:
    """Groups of all kinds, tails and damage."""
    storage = MemoryStorage()
    log = writer(storage, binlog_checksum=checksum).open()
    with log.session("shop") as session:
        for number in range(5):
            session.execute(insert(number))
            session.execute(insert(number, M))
        session.set_variables(gtid_domain_id=2)
        work(session)
        session.execute(insert(7))
    data = storage.files["binlog.000001"]
    del data[len(data) - cut :]
    if flip is not None:
        data[min(330 + flip[0], len(data) - 1)] ^= 1 << flip[1]
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick, slow = (examined(storage, monkeypatch, is_slow=is_slow) for is_slow in (False, True))

    assert quick == slow


def test_plain_groups_are_passed_over_up_to_ddl() -> None:
    """With their GTIDs; not without a consumer of the GTIDs."""
    storage, state = MemoryStorage(), DomainState()
    with writer(storage) as log, log.session("shop") as session:
        for number in range(3):
            session.execute(insert(number))
            session.execute(insert(number, M))
        end = log.position.offset
        session.ddl("CREATE TABLE u (id INT)")
    start = next(event.header.offset for event in events_of(storage) if isinstance(event, MariadbGtidEvent))

    def read(offset: int, size: int) -> bytes:
        return storage.read("binlog.000001", offset, size)

    assert skip_plain_groups(read, start, GtidRuns(), has_checksum=True) == start
    assert skip_plain_groups(read, start, GtidRuns(), has_checksum=True, domains=state) == end
    assert state.gtids == (MariadbGtid(0, 1, 6),)


def test_numbers_of_groups_that_the_disk_did_not_take_are_given_again() -> None:
    """And the state does not know them."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session("shop") as session:
        session.execute(insert(1))
        storage.fail_append = 0
        with pytest.raises(OSError, match="no space left"):
            session.execute(insert(2))

        assert log.gtid_binlog_state == (MariadbGtid(0, 1, 1),)
        session.execute(insert(3))
    assert gtids_of(storage) == ["0-1-1", "0-1-2"]


def test_a_chosen_number_holds_for_one_group() -> None:
    """The next ones follow the highest."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session("shop") as session:
        session.set_variables(gtid_seq_no=5000)
        session.set_variables(gtid_domain_id=3)
        for number in range(2):
            session.execute(insert(number))
        session.set_variables(gtid_seq_no=100)
        for number in range(2, 4):
            session.execute(insert(number))
        session.begin()
        with pytest.raises(LoggingError, match="1953"):
            session.set_variables(gtid_seq_no=1)

    assert gtids_of(storage) == ["3-1-5000", "3-1-5001", "3-1-100", "3-1-5002"]


def test_groups_that_are_flushed_together_have_a_commit_id_of_their_own() -> None:
    """A group alone has none, nor has DDL."""
    storage = MemoryStorage()
    ticks = count(10**15, 1000)
    own = variables(sync_binlog=0)
    log = GroupLog(
        ActiveLog("binlog", storage, own, lambda: next(ticks)), own, lambda: next(ticks), Uuid(bytes(16)), None
    )
    log.open(EMPTY_GTID_SET)
    frame = Encoder(describe_format(own).context).encode(XidEvent(1, HEADER))
    for ends in (("XID", "COMMIT", "XID"), ("XID",), ("XID", "statement"), ("XID", "XID")):
        log.flush([PendingCommit(Group((frame,), 1, end=GroupEnd(end), assigned_gtid=InDomain())) for end in ends])
    log.close()
    found = [event.commit_id for event in events_of(storage) if isinstance(event, MariadbGtidEvent)]

    assert found == [1, 1, 1, None, None, None, 2, 2]


def test_an_update_of_two_kinds_of_tables_says_so_where_it_commits_the_one() -> None:
    """In a transaction the rows of MyISAM are a group of their own, whose COMMIT has the tables of the UPDATE."""
    storage = MemoryStorage()
    old, new = {"id": 1, "v": "x"}, {"v": "y"}
    both = Statement("UPDATE", [Update(M, [(old, new)]), Update(T, [(old, new)])])
    with writer(storage) as log, log.session("shop") as session:
        session.begin()
        session.execute(both)
        session.commit()
        session.execute(both)
    kinds = [type(event) for event in events_of(storage)][3:-1]
    (commit,) = (event for event in events_of(storage) if isinstance(event, QueryEvent))

    assert StatusVar(9, 3) in commit.status_vars
    assert kinds.count(AnnotateRowsEvent) == 2
    assert kinds.count(MariadbGtidEvent) == 3
    assert kinds.count(UpdateRowsEvent) == 4


def test_an_incident_has_no_gtid_and_ends_the_log() -> None:
    """Rows of MyISAM that do not fit the cache are missing from the log."""
    storage = MemoryStorage()
    with (
        writer(storage, max_binlog_stmt_cache_size=4096, binlog_stmt_cache_size=4096) as log,
        log.session("shop") as session,
    ):
        many = [Insert(M, [(number, "x" * 9000) for number in range(5)])]
        with pytest.raises(LoggingError, match="1705"):
            session.execute(Statement("INSERT", many))
        session.execute(insert(1))

        assert log.names == ("binlog.000001", "binlog.000002")
    assert gtids_of(storage) == ["0-1-1"]
    assert sum(isinstance(event, IncidentEvent) for event in events_of(storage)) == 1


def test_statements_without_text_and_sessions_without_annotation_leave_none() -> None:
    """Rows events are those of version 1."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session("shop") as session:
        session.execute(Statement("", [Insert(T, [(1, "x")])]))
        session.set_variables(binlog_annotate_row_events=False, skip_parallel_replication=True)
        session.execute(Statement("DELETE", [Delete(T, [(1, "x")])]))
    events = events_of(storage)
    rows = [event.header.type_code for event in events if isinstance(event, WriteRowsEvent | DeleteRowsEvent)]

    assert not any(isinstance(event, AnnotateRowsEvent) for event in events)
    assert rows == [EventType.WRITE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT_V1]
    assert [event.flags for event in events if isinstance(event, MariadbGtidEvent)] == [0x0C, 0x04]


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
@pytest.mark.parametrize("size", [0, 1, 300, MAX_SHORT_TEXT, MAX_SHORT_TEXT + 1])
def test_an_annotation_is_what_the_encoder_makes_of_it(size: int, checksum: str) -> None:
    """But for the checksum, which is still to be written."""
    own = variables(binlog_checksum=checksum)
    builder, end = LogBuilder.of(own, None), None if checksum == "NONE" else -4
    event = AnnotateRowsEvent(b"x" * size, HEADER)

    assert (
        builder.annotation(event.sql, HEADER.timestamp, HEADER.server_id)[:end]
        == Encoder(describe_format(own).context).encode(event)[:end]
    )


def test_what_mariadb_does_not_have_is_refused() -> None:
    """MySQL has no NO_LOG."""
    with pytest.raises(UnsupportedFeature, match="binlog_row_metadata"):
        ServerVariables(binlog_row_metadata="NO_LOG")
    with writer(MemoryStorage()) as log, log.session() as session, pytest.raises(LoggingError, match="1229"):
        session.set_variables(binlog_transaction_compression=True)


def test_utf8mb4_without_a_collation_is_what_mariadb_takes_it_for() -> None:
    """Not the one that only MySQL has."""
    storage = MemoryStorage()
    with writer(storage, binlog_row_metadata="FULL") as log, log.session("shop") as session:
        session.execute(insert(1))
    with open_logs(storage.streams()) as reader:
        plans = [reader.plan(event) for event in reader if isinstance(event, WriteRowsEvent)]

    assert plans[0].columns[1].collation_id == 45


@pytest.mark.parametrize("use_kernel", [True, False])
def test_gtid_events_of_11_8_have_the_thread_of_their_session(use_kernel: bool) -> None:
    """Of every kind of group.

    A writer that finds the log finds its groups, and tables have the collation of that version.
    """
    storage = MemoryStorage()
    version = {"server_version": "11.8.6-MariaDB-log", "binlog_row_metadata": "FULL"}
    with (
        writer(storage, use_kernel=use_kernel, **version) as log,
        log.session("shop") as one,
        log.session("shop") as other,
    ):
        threads = {one.thread_id: 0, other.thread_id: 0}
        for session in (one, other, one):
            session.execute(insert(1))
            session.execute(insert(2, M))
            session.ddl("CREATE TABLE u (id INT)")
            threads[session.thread_id] += 3
    found = [event for event in events_of(storage) if isinstance(event, MariadbGtidEvent)]
    with writer(storage, use_kernel=use_kernel, **version) as log:
        state = log.gtid_binlog_state
    with open_logs(storage.streams()) as reader:
        plans = [reader.plan(event) for event in reader if isinstance(event, WriteRowsEvent)]

    assert Counter(event.thread_id for event in found) == threads
    assert all(event.flags_extra & MariadbGtidExtraFlag.THREAD_ID for event in found)
    assert state == (MariadbGtid(0, 1, 9),)
    assert plans[0].columns[1].collation_id == 2304


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 2), st.none() | st.integers(1, 20), st.booleans()), max_size=30
    )
)
def test_the_state_is_that_of_the_groups_that_stayed(steps: list[tuple[int, int, int | None, bool]]) -> None:
    """Whatever was taken and given back between them."""
    state, stayed = DomainState(), DomainState()
    for domain_id, server_id, number, stays in steps:
        gtid = state.take(InDomain(domain_id, server_id, number))
        if stays:
            stayed.add(gtid)
        else:
            state.give_back([gtid])

    assert set(state.gtids) == set(stayed.gtids)
    assert state.take(InDomain(0)) == stayed.take(InDomain(0))
