"""The writer: what sessions do, and the bytes that are in the logs afterwards, read back by the reader."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from binlogio.constants import ChecksumAlgorithm, EventType, HeaderFlag, QueryStatus, RowsFlag
from binlogio.encoder import Encoder
from binlogio.errors import BinlogFormatError, LoggingError, UnsupportedFeature, WriterStateError
from binlogio.events import codec_for
from binlogio.events.control import RotateEvent, RowsQueryEvent, StopEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidFlag, PreviousGtidsEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.gtid import GtidSet
from binlogio.options import ServerVariables
from binlogio.reader import BinlogReader
from binlogio.reader import open as open_logs
from binlogio.rowimage.values import EnumValue, SetValue
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Delete, Insert, Session, Statement, Update
from binlogio.writer.ddl_events import ddl_event
from binlogio.writer.query_events import QueryContext
from column_cases import ALL_ROWS, ALL_TYPES
from corpus import FIXTURES, frames_of
from memory_storage import MemoryStorage

UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
START: Final = 1_700_000_000_000_000
ROWS: Final = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)

T: Final = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(50)")), ("id",)
)
T2: Final = replace(T, name="t2")
N: Final = replace(T, name="n", engine="MyISAM")
BLOBS: Final = TableDefinition("shop", "b", (ColumnDefinition("data", "blob"),))


def writer(storage: MemoryStorage | None = None, **variables: Any) -> BinlogWriter:
    """A writer whose clock goes on by a millisecond with every look."""
    ticks = count(START, 1000)
    settings = ServerVariables(**{"server_version": "9.7.4", "server_uuid": UUID, **variables})
    return BinlogWriter(
        "binlog", variables=settings, clock=lambda: next(ticks), storage=MemoryStorage() if storage is None else storage
    )


def insert(*ids: int, table: TableDefinition = T, sql: str = "INSERT") -> Statement:
    """A statement that inserts rows."""
    return Statement(sql, [Insert(table, [{"id": number, "v": f"row {number}"} for number in ids])])


def events_of(storage: MemoryStorage) -> list[Any]:
    """Everything in the logs."""
    with open_logs(storage.streams()) as reader:
        return list(reader)


def shape(events: list[Any]) -> list[str]:
    """What stands in the logs behind the two events that begin a file, without the GTIDs."""
    words = []
    for event in events:
        if isinstance(event, (FormatDescriptionEvent, PreviousGtidsEvent, GtidEvent, AnonymousGtidEvent)):
            continue
        if isinstance(event, QueryEvent):
            words.append(event.sql.decode())
        elif isinstance(event, TableMapEvent):
            words.append(f"map {event.table}")
        else:
            words.append(type(event).__name__.removesuffix("Event"))
    return words


def changes(reader: BinlogReader) -> list[tuple[str, Any, Any]]:
    """Table, before and after of each row change."""
    found = []
    for event in reader:
        if isinstance(event, ROWS):
            found += [
                (
                    reader.table_map(event).table,
                    row.before and row.before.values,
                    row.after and row.after.values,
                )
                for row in reader.rows(event)
            ]
    return found


def logged(storage: MemoryStorage) -> list[tuple[str, Any, Any]]:
    """The row changes in the logs."""
    with open_logs(storage.streams()) as reader:
        return changes(reader)


# ------------------------------------------------------------------------------------------------- whole files


def test_a_file_is_as_a_server_begins_and_ends_it() -> None:
    """Format description, previous GTIDs, a group, STOP; closed files are no longer in use."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session("shop") as session:
        in_use = storage.files["binlog.000001"][4 + 17]
        session.execute(insert(1))
    events = events_of(storage)

    assert in_use == HeaderFlag.BINLOG_IN_USE
    assert [type(event) for event in events] == [
        FormatDescriptionEvent,
        PreviousGtidsEvent,
        GtidEvent,
        QueryEvent,
        TableMapEvent,
        WriteRowsEvent,
        XidEvent,
        StopEvent,
    ]
    assert storage.files["binlog.000001"][4 + 17] == 0
    assert storage.indexes == {"binlog.index": ["./binlog.000001"]}
    assert storage.synced["binlog.000001"] == storage.files["binlog.000001"]


def test_the_first_events_are_those_of_a_real_server() -> None:
    """Byte for byte, up to the time and the state of being in use."""
    real = (FIXTURES / "mysql97/gtid_on/binlog.000001").read_bytes()
    created = int.from_bytes(real[4:8], "little")
    storage = MemoryStorage()
    log = BinlogWriter(
        "binlog",
        variables=ServerVariables(server_version="9.7.4-2", server_uuid=UUID),
        clock=lambda: created * 1_000_000,
        storage=storage,
    )
    with log:
        pass

    assert bytes(storage.files["binlog.000001"][:158]) == real[:158]


def test_a_transaction_is_as_a_real_server_writes_it() -> None:
    """The same events of the same sizes, flags and status variables; ids and times are the session's own."""
    frames = list(frames_of((FIXTURES / "mysql97/gtid_on/binlog.000001").read_bytes()))
    real = [codec_for(frame.header.type_code).parse(frame.header, frame.body, frame.context) for frame in frames]
    at = next(i for i, event in enumerate(real) if isinstance(event, TableMapEvent)) - 2
    table = TableDefinition(
        "corpus", "g", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(100)")), ("id",)
    )
    storage = MemoryStorage()
    with writer(storage, binlog_row_metadata="MINIMAL") as log, log.session("corpus") as session:
        value = real[at + 3].images[1 + 4 + 2 :].decode()  # behind null bits, id and the length
        session.execute(Statement("INSERT", [Insert(table, [(1, value)])]))
    ours = events_of(storage)[2:7]
    theirs = real[at : at + 5]

    assert [(type(event), event.header.event_size, event.header.flags) for event in ours] == [
        (type(event), event.header.event_size, event.header.flags) for event in theirs
    ]
    assert (ours[0].flags, ours[0].transaction_length) == (theirs[0].flags, theirs[0].transaction_length)
    assert (ours[1].status_vars, ours[1].sql, ours[1].schema) == (theirs[1].status_vars, b"BEGIN", "corpus")
    assert replace(ours[2], table_id=0, header=ours[1].header) == replace(theirs[2], table_id=0, header=ours[1].header)
    assert (ours[3].flags, ours[3].present, ours[3].images) == (theirs[3].flags, theirs[3].present, theirs[3].images)


# What the server knows and the text does not say: a table that exists, one in an engine without transactions, one that does not.
KNOWN_TO_THE_SERVER: Final = (
    b"CREATE TABLE IF NOT EXISTS t (z INT)",
    b"ALTER TABLE part TRUNCATE PARTITION p1",
    b"ALTER TABLE m ENGINE=InnoDB",
    b"DROP TABLE IF EXISTS `weird``tick`,`nonexistent1`,`nonexistent2` /* generated by server */",
)


def test_ddl_has_the_status_variables_of_a_real_server() -> None:
    """For every statement of the fixture that does not depend on accounts, time zones or what exists."""
    compared = 0
    for frame in frames_of((FIXTURES / "mysql97/ddl_mix/binlog.000001").read_bytes()):
        if frame.header.type_code != EventType.QUERY_EVENT:
            continue
        real = codec_for(EventType.QUERY_EVENT).parse(frame.header, frame.body, frame.context)
        session_dependent = (QueryStatus.INVOKER, QueryStatus.TIME_ZONE, QueryStatus.MICROSECONDS)
        skipped = any(real.status(code) is not None for code in session_dependent)
        accounts = real.status(QueryStatus.UPDATED_DB_NAMES) == ("mysql",)
        if skipped or accounts or real.sql in (b"BEGIN", b"COMMIT", *KNOWN_TO_THE_SERVER):
            continue
        context = QueryContext(
            thread_id=real.thread_id,
            schema="corpus",
            timestamp=real.header.timestamp,
            server_id=1,
            sql_mode=real.status(QueryStatus.SQL_MODE),
        )
        ours = ddl_event(context, real.sql, real.status(QueryStatus.DDL_LOGGED_WITH_XID) or 0)
        compared += 1

        assert ours.status_vars == real.status_vars, real.sql
        assert (ours.schema, ours.header.flags) == (real.schema, real.header.flags), real.sql
    assert compared >= 25


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
@pytest.mark.parametrize("gtid_mode", ["ON", "OFF"])
def test_checksums_and_gtids_follow_the_variables(checksum: str, gtid_mode: str) -> None:
    """Four combinations, all readable, all rebuilt by the encoder to the same bytes."""
    storage = MemoryStorage()
    with writer(storage, binlog_checksum=checksum, gtid_mode=gtid_mode) as log, log.session() as session:
        session.execute(insert(1))
    events = events_of(storage)
    algorithm = ChecksumAlgorithm[{"NONE": "OFF"}.get(checksum, checksum)]
    encoder = Encoder()
    rebuilt = b"\xfebin" + b"".join(encoder.encode(event) for event in events)

    assert events[0].checksum_algorithm == algorithm
    assert type(events[2]).__name__ == {"ON": "GtidEvent", "OFF": "AnonymousGtidEvent"}[gtid_mode]
    assert rebuilt == storage.files["binlog.000001"]


def test_gtid_events_count_groups_and_bytes() -> None:
    """Numbers, logical clock, length of the group with its GTID event, time and version."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session("shop") as session:
        session.ddl("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(50))")
        session.execute(insert(*range(1000)))
    events = events_of(storage)
    gtids = [event for event in events if isinstance(event, GtidEvent)]
    ends = [gtids[1].header.offset, events[-1].header.offset]

    assert [str(event.gtid) for event in gtids] == [f"{UUID}:1", f"{UUID}:2"]
    assert [(event.last_committed, event.sequence_number) for event in gtids] == [(0, 1), (1, 2)]
    assert [event.transaction_length for event in gtids] == [
        end - event.header.offset for event, end in zip(gtids, ends, strict=True)
    ]
    assert [event.flags for event in gtids] == [GtidFlag.MAY_HAVE_SBR, 0]
    assert {event.immediate_server_version for event in gtids} == {90704}
    assert all((event.immediate_commit_timestamp or 0) >= START for event in gtids)
    assert str(log.gtid_executed) == f"{UUID}:1-2"


# ------------------------------------------------------------------------------------------------------ values


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
def test_every_type_is_read_back_as_it_was_written(checksum: str) -> None:
    """Inserts, updates and deletes of a table with all types."""
    storage = MemoryStorage()
    with writer(storage, binlog_checksum=checksum) as log, log.session("shop") as session:
        session.execute(Statement("", [Insert(ALL_TYPES, ALL_ROWS)]))
        session.execute(Statement("", [Update(ALL_TYPES, list(zip(ALL_ROWS, reversed(ALL_ROWS), strict=True)))]))
        session.execute(Statement("", [Delete(ALL_TYPES, ALL_ROWS)]))
    found = [(before, after) for _, before, after in logged(storage)]

    assert found == [
        *((None, row) for row in ALL_ROWS),
        *zip(ALL_ROWS, reversed(ALL_ROWS), strict=True),
        *((row, None) for row in ALL_ROWS),
    ]
    for (_, after), row in zip(found, ALL_ROWS, strict=False):
        assert [type(value) for value in after] == [type(value) for value in row]


def _number(value: object) -> object:
    if isinstance(value, EnumValue):
        return value.index
    return value.bits if isinstance(value, SetValue) else value


def test_minimal_metadata_leaves_members_as_numbers() -> None:
    """The rows are the same; only the table map says less."""
    storage = MemoryStorage()
    with writer(storage, binlog_row_metadata="MINIMAL") as log, log.session("shop") as session:
        session.execute(Statement("", [Insert(ALL_TYPES, ALL_ROWS)]))
    expected = [tuple(_number(value) for value in row) for row in ALL_ROWS]

    assert [after for _, _, after in logged(storage)] == expected


# ------------------------------------------------------------------------------------------------- row changes


def test_rows_take_names_in_any_case_and_leave_out_what_is_null() -> None:
    """An insert may leave out nullable columns, the after image of an update what stays."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(Statement("", [Insert(T, [{"ID": 1}])]))
        session.execute(Statement("", [Update(T, [({"id": 1, "v": None}, {"v": "new"})])]))

    assert logged(storage) == [("t", None, (1, None)), ("t", (1, None), (1, "new"))]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Insert(T, [{"v": "x"}]), "no value for some columns"),
        (Insert(T, [{"id": 1, "w": 2}]), "no such column"),
        (Insert(T, [(1,)]), "another number of values"),
        (Insert(T, [(None, "x")]), "cannot be NULL"),
        (Delete(T, [{"id": 1}]), "no value for some columns"),
        (Update(T, [({"id": 1}, {"v": "x"})]), "no value for some columns"),
    ],
)
def test_rows_that_do_not_fit_their_table_are_refused(change: Any, reason: str) -> None:
    """And nothing of their statement is logged."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session, pytest.raises(UnsupportedFeature, match=reason):
        session.execute(Statement("", [Insert(T, [(1, "x")]), change]))

    assert logged(storage) == []


@pytest.mark.parametrize("row", [(2**31, "x"), (1, "x" * 201), ("one", "x"), (1, 5)])
def test_values_that_do_not_fit_their_column_are_refused(row: Any) -> None:
    """Nothing is cut off, and nothing of the statement is logged."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.begin()
        session.execute(insert(1))
        with pytest.raises(BinlogFormatError):
            session.execute(Statement("", [Insert(T, [(2, "x"), row])]))
        session.commit()

    assert logged(storage) == [("t", None, (1, "row 1"))]


def test_an_update_that_changes_nothing_is_not_logged() -> None:
    """A statement of such rows leaves no group at all."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(Statement("", [Update(T, [((1, "same"), (1, "same"))])]))
        session.execute(Statement("", [Update(T, [((1, "same"), {"v": "same"}), ((2, "a"), (2, "b"))])]))

    assert logged(storage) == [("t", (2, "a"), (2, "b"))]


def image_of(size: int) -> tuple[bytes]:
    """A row of `BLOBS` whose image has that many bytes: one of null bits, two of length, the data."""
    return (b"x" * (size - 3),)


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [
        ((4090, 4090), [2]),
        ((4090, 4091), [1, 1]),
        ((9000, 10), [1, 1]),
        ((10, 9000, 10, 10), [1, 1, 2]),
        ((100,) * 200, [81, 81, 38]),
    ],
)
def test_rows_events_are_split_where_the_server_splits_them(sizes: tuple[int, ...], rows: list[int]) -> None:
    """10 bytes of post-header, the column count, the bitmap and the rows stay within 8192 bytes; a larger row is alone."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(Statement("", [Insert(BLOBS, [image_of(size) for size in sizes])]))
    with open_logs(storage.streams()) as reader:
        found = [(len(list(reader.rows(event))), event.flags) for event in reader if isinstance(event, ROWS)]

    assert [count for count, _ in found] == rows
    assert [flags & RowsFlag.STMT_END for _, flags in found] == [0] * (len(rows) - 1) + [1]
    assert all(flags & RowsFlag.USE_SQL_FOREIGN_KEY for _, flags in found)


def test_another_table_or_kind_of_change_begins_another_rows_event() -> None:
    """All tables are mapped before the first row; only the last event ends the statement."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(
            Statement(
                "",
                [
                    Insert(T, [(1, "a")]),
                    Insert(T2, [(1, "a")]),
                    Insert(T, [(2, "a")]),
                    Delete(T, [(1, "a")]),
                    Delete(T, [(2, "a")]),
                ],
            )
        )
    events = events_of(storage)

    assert shape(events)[1:-2] == ["map t", "map t2", "WriteRows", "WriteRows", "WriteRows", "DeleteRows"]
    assert [event.ends_statement for event in events if isinstance(event, ROWS)] == [False, False, False, True]


def test_table_ids_stay_up_to_the_next_ddl() -> None:
    """One id a definition; DDL gives new ones."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        for statement in (insert(1), insert(1, table=T2), insert(2)):
            session.execute(statement)
        session.ddl("ALTER TABLE t COMMENT 'x'")
        session.execute(insert(3))
    ids = [event.table_id for event in events_of(storage) if isinstance(event, TableMapEvent)]

    assert ids[0] == ids[2]
    assert len(set(ids)) == 3


def test_the_statement_goes_before_its_table_maps_where_asked() -> None:
    """binlog_rows_query_log_events=ON; a statement without text has none."""
    storage = MemoryStorage()
    with writer(storage, binlog_rows_query_log_events=True) as log, log.session() as session:
        session.execute(insert(1, sql="INSERT INTO t VALUES (1, 'é')"))
        session.execute(insert(2, sql=""))
    events = events_of(storage)
    queries = [event for event in events if isinstance(event, RowsQueryEvent)]

    assert shape(events) == [
        "BEGIN",
        "RowsQuery",
        "map t",
        "WriteRows",
        "Xid",
        "BEGIN",
        "map t",
        "WriteRows",
        "Xid",
        "Stop",
    ]
    assert [event.sql.decode() for event in queries] == ["INSERT INTO t VALUES (1, 'é')"]
    assert [event.header.flags for event in queries] == [HeaderFlag.IGNORABLE]


def test_an_update_says_in_begin_which_tables_it_changes() -> None:
    """The status variable TABLE_MAP_FOR_UPDATE, for updates alone."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(insert(1))
        session.execute(Statement("", [Update(T, [((1, "a"), (1, "b"))]), Insert(T2, [(1, "log")])]))
        session.execute(Statement("", [Update(T, [((1, "b"), (1, "c"))]), Update(T2, [((1, "a"), (1, "b"))])]))
    begins = [event for event in events_of(storage) if isinstance(event, QueryEvent)]

    assert [event.status(QueryStatus.TABLE_MAP_FOR_UPDATE) for event in begins] == [None, 1, 3]


# ----------------------------------------------------------------------------------- transactions and caches


def run(session: Session, steps: str) -> None:
    """B, C, R: begin, commit, rollback; T, N: a row for a table of that kind; M: one statement for both; D: DDL."""
    both = Statement("", [Insert(T, [(3, "m")]), Insert(N, [(3, "m")])])
    actions: dict[str, Any] = {
        "B": session.begin,
        "C": session.commit,
        "R": session.rollback,
        "T": lambda: session.execute(insert(1)),
        "N": lambda: session.execute(insert(2, table=N)),
        "M": lambda: session.execute(both),
        "D": lambda: session.ddl("DROP TABLE x"),
        "E": lambda: session.execute(Statement("", [Insert(replace(T, name="e", engine="BLACKHOLE"), [(1, "x")])])),
        "U": lambda: session.execute(Statement("", [Update(T, [((1, "a"), (1, "a"))]), Insert(N, [(3, "m")])])),
    }
    for step in steps.split():
        actions[step]()


TRX: Final = ["BEGIN", "map t", "WriteRows", "Xid"]
STMT: Final = ["BEGIN", "map n", "WriteRows", "COMMIT"]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("T", TRX),
        ("N", STMT),
        ("M", [*STMT, *TRX]),
        ("B T T C", ["BEGIN", "map t", "WriteRows", "map t", "WriteRows", "Xid"]),
        ("B T R", []),
        ("B T", []),
        ("B N R", STMT),
        ("B N T C", [*STMT, *TRX]),
        ("B T N C", [*STMT, *TRX]),
        ("B T N R", STMT),
        ("B M T C", [*STMT, "BEGIN", "map t", "WriteRows", "map t", "WriteRows", "Xid"]),
        ("B T B T C", [*TRX, *TRX]),
        ("B T D R", [*TRX, "DROP TABLE x"]),
        ("B C R C", []),
        ("T R", TRX),
        ("E", ["BEGIN", "map e", "WriteRows", "COMMIT"]),
        ("U", [*STMT, "BEGIN", "map t", "COMMIT"]),
    ],
)
def test_each_cache_becomes_a_group_when_its_time_comes(steps: str, expected: list[str]) -> None:
    """Non-transactional changes at the end of their statement, transactional ones at COMMIT, never after ROLLBACK."""
    storage = MemoryStorage()
    with writer(storage, gtid_mode="OFF") as log, log.session() as session:
        run(session, steps)

    assert shape(events_of(storage)) == [*expected, "Stop"]


@pytest.mark.parametrize(("steps", "refused", "expected"), [("B N T", "", STMT), ("B T", "N", []), ("", "M", [])])
def test_changes_that_one_gtid_cannot_name_are_refused(steps: str, refused: str, expected: list[str]) -> None:
    """With the server's error, and the transaction goes on."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        run(session, steps)
        if refused:
            with pytest.raises(LoggingError, match="1785") as caught:
                run(session, refused)
            assert caught.value.symbol == "ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE"
        in_transaction = session.in_transaction
        session.commit()

    assert in_transaction is ("B" in steps)
    assert shape(events_of(storage)) == [*expected, *(TRX if "T" in steps else []), "Stop"]


def test_a_closed_session_or_writer_takes_nothing() -> None:
    """Nobody may believe that something was logged."""
    log = writer()
    with pytest.raises(WriterStateError, match="not open"):
        log.session().execute(insert(1))
    with log:
        session = log.session()
        other = log.session()
        session.close()
        for call in (session.begin, session.commit, session.rollback, lambda: session.execute(insert(1))):
            with pytest.raises(WriterStateError, match="session is closed"):
                call()
    with pytest.raises(WriterStateError, match="not open"):
        other.execute(insert(1))
    with pytest.raises(WriterStateError, match="not open"):
        log.rotate()
    log.close()


def test_sessions_of_several_threads_write_whole_groups() -> None:
    """Every transaction once, its events together, GTIDs without a gap."""
    storage = MemoryStorage()
    threads, transactions = 4, 25

    def work(log: BinlogWriter, number: int) -> None:
        with log.session("shop") as session:
            for index in range(transactions):
                session.begin()
                session.execute(insert(number * 1000 + index))
                session.execute(insert(number * 1000 + index, table=T2))
                session.commit()

    with writer(storage, max_binlog_size=4096) as log:
        workers = [Thread(target=work, args=(log, number)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        executed = log.gtid_executed
    found = logged(storage)

    assert executed == GtidSet.parse(f"{UUID}:1-{threads * transactions}")
    assert len(found) == 2 * threads * transactions
    assert [after for _, _, after in found[::2]] == [after for _, _, after in found[1::2]]
    assert {after[0] for _, _, after in found} == {
        number * 1000 + index for number in range(threads) for index in range(transactions)
    }


# ---------------------------------------------------------------------------------- rotation, index, reopening


def test_logs_rotate_between_groups_when_they_are_full() -> None:
    """Each names the next; the clock begins anew, the GTIDs go on; a group larger than a log stays whole."""
    storage = MemoryStorage()
    with writer(storage, max_binlog_size=4096) as log, log.session() as session:
        for number in range(30):
            session.execute(insert(number))
        session.execute(insert(*range(1000)))
        names = log.names
        in_use = [bool(storage.files[name][4 + 17]) for name in names]
    files = {name: list(frames_of(bytes(storage.files[name]))) for name in names}
    events = {
        name: [codec_for(frame.header.type_code).parse(frame.header, frame.body, frame.context) for frame in frames]
        for name, frames in files.items()
    }
    firsts = [next(event for event in found if isinstance(event, GtidEvent)) for found in list(events.values())[:-1]]

    assert len(names) >= 4
    assert storage.indexes["binlog.index"] == [f"./{name}" for name in names]
    assert [found[-1].next_log for found in events.values() if isinstance(found[-1], RotateEvent)] == list(names[1:])
    assert [type(found[-1]) for found in events.values()] == [RotateEvent] * (len(names) - 1) + [StopEvent]
    assert in_use == [False] * (len(names) - 1) + [True]
    assert [(event.last_committed, event.sequence_number) for event in firsts] == [(0, 1)] * len(firsts)
    assert [found[1].gtid_set.count + 1 for found in events.values()] == [
        *(event.gno for event in firsts),
        31 + 1,
    ]
    assert [found[0].created != 0 for found in events.values()] == [True] + [False] * (len(names) - 1)
    assert all(len(storage.files[name]) >= 4096 for name in names[:-1])


def test_a_log_is_rotated_by_hand() -> None:
    """FLUSH BINARY LOGS."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(insert(1))
        log.rotate()
        session.execute(insert(2))

    assert log.names == ("binlog.000001", "binlog.000002")
    assert shape(events_of(storage)) == [*TRX, "Rotate", *TRX, "Stop"]


def test_a_new_writer_begins_behind_the_logs_that_are_there() -> None:
    """With the next number, and with the GTIDs that they hold."""
    storage = MemoryStorage()
    for _ in range(2):
        with writer(storage) as log, log.session() as session:
            session.execute(insert(1))
    events = events_of(storage)
    previous = [str(event.gtid_set) for event in events if isinstance(event, PreviousGtidsEvent)]
    gtids = [str(event.gtid) for event in events if isinstance(event, GtidEvent)]

    assert storage.indexes["binlog.index"] == ["./binlog.000001", "./binlog.000002"]
    assert previous == ["", f"{UUID}:1"]
    assert gtids == [f"{UUID}:1", f"{UUID}:2"]


def test_logs_of_other_names_are_not_mine() -> None:
    """Numbers count for files of the writer's own name, in the index or not."""
    storage = MemoryStorage()
    for name in ("other.000009", "binlog", "binlog.index", "binlog.000041.gz"):
        storage.create(name)
    with writer(storage):
        pass
    with writer(storage) as log:
        names = log.names

    assert names == ("binlog.000001", "binlog.000002")


def test_an_unfinished_group_of_a_crashed_log_has_no_gtid() -> None:
    """Its number is given again; the torn tail is no obstacle."""
    storage = MemoryStorage()
    log = writer(storage).open()
    session = log.session()
    session.execute(insert(1))
    session.execute(insert(2))
    del storage.files["binlog.000001"][-40:]  # no STOP, still in use, the last XID and a bit more gone
    with writer(storage) as second:
        executed = str(second.gtid_executed)

    assert executed == f"{UUID}:1"


def test_a_damaged_log_is_not_continued() -> None:
    """Nobody would know which GTIDs are used."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(insert(1))
    storage.files["binlog.000001"][200] ^= 1

    with pytest.raises(BinlogFormatError, match=r"binlog\.000001"):
        writer(storage).open()


def test_a_server_uuid_is_made_where_none_is_given() -> None:
    """By the function that was injected."""
    made = uuid.UUID("00000000-0000-0000-0000-00000000002a")
    log = BinlogWriter("binlog", storage=MemoryStorage(), new_uuid=lambda: made)

    assert str(log.server_uuid) == str(made)


@pytest.mark.parametrize(
    "version", ["5.6.10", "5.7.25", "8.0.36", "8.4.0", "10.0.0", "10.4.3-MariaDB", "11.4.2-MariaDB", "x"]
)
def test_versions_whose_logs_look_otherwise_are_refused(version: str) -> None:
    """Their format descriptions, GTIDs and flags are not these."""
    with pytest.raises(UnsupportedFeature, match="server_version"):
        writer(server_version=version)


# ------------------------------------------------------------------------------------------- syncs and errors


@pytest.mark.parametrize(("sync_binlog", "expected"), [(0, 0), (1, 6), (4, 1)])
def test_groups_are_synced_as_often_as_asked(sync_binlog: int, expected: int) -> None:
    """Never, after each, after every fourth; opening and closing sync on their own."""
    storage = MemoryStorage()
    with writer(storage, sync_binlog=sync_binlog) as log, log.session() as session:
        before = storage.sync_count
        for number in range(6):
            session.execute(insert(number))
        syncs = storage.sync_count - before

    assert syncs == expected


def test_a_group_that_the_disk_does_not_take_is_not_there() -> None:
    """The half that was written is gone, its GTID is free, the log goes on."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(insert(1))
        storage.fail_append = 0
        session.begin()
        session.execute(insert(2))
        with pytest.raises(OSError, match="no space left"):
            session.commit()
        session.commit()
        session.execute(insert(3))
        executed = str(log.gtid_executed)

    assert [after for _, _, after in logged(storage)] == [(1, "row 1"), (3, "row 3")]
    assert executed == f"{UUID}:1-2"


def test_a_statement_whose_first_group_fails_leaves_nothing_for_the_second() -> None:
    """The transactional half of a statement goes with the other half."""
    storage = MemoryStorage()
    with writer(storage, gtid_mode="OFF") as log, log.session() as session:
        session.begin()
        session.execute(insert(1))
        storage.fail_append = 0
        with pytest.raises(OSError, match="no space left"):
            run(session, "M")
        session.commit()

    assert logged(storage) == [("t", None, (1, "row 1"))]


def test_a_log_that_cannot_be_mended_takes_nothing_more() -> None:
    """What was written before is still there, and a reader stops before the broken group."""
    storage = MemoryStorage(fail_truncate=True)
    log = writer(storage).open()
    session = log.session()
    session.execute(insert(1))
    storage.fail_append = 0
    with pytest.raises(OSError, match="disk is gone"):
        session.execute(insert(2))
    with pytest.raises(WriterStateError, match="could not be undone"):
        session.execute(insert(3))
    log.close()
    with open_logs(storage.streams()) as reader:
        found = changes(reader)
        torn = reader.torn_tail

    assert found == [("t", None, (1, "row 1"))]
    assert torn is not None


# ------------------------------------------------------------------------------------------------ local files


def test_logs_on_disk_are_found_through_their_index(tmp_path: Path) -> None:
    """The directory is made; a second writer goes on; the reader follows the index."""
    for number in range(2):
        with BinlogWriter(tmp_path / "data/binlog") as log, log.session() as session:
            session.execute(insert(number))
            log.rotate()
    with open_logs(tmp_path / "data/binlog.index") as reader:
        found = changes(reader)

    assert found == [("t", None, (0, "row 0")), ("t", None, (1, "row 1"))]
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "binlog.000001",
        "binlog.000002",
        "binlog.000003",
        "binlog.000004",
        "binlog.index",
    ]


def test_a_log_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    """Not even where the index does not know it."""
    (tmp_path / "binlog.000007").write_bytes(b"not a log")

    with pytest.raises(BinlogFormatError):
        BinlogWriter(tmp_path / "binlog").open()
    assert (tmp_path / "binlog.000007").read_bytes() == b"not a log"
