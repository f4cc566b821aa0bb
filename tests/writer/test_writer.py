"""The writer: what sessions do, and the bytes that are in the logs afterwards, read back by the reader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from binlogio.constants import ChecksumAlgorithm, EventType, HeaderFlag, QueryStatus, RowsFlag
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.events import codec_for
from binlogio.events.control import RowsQueryEvent, StopEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import GtidEvent, GtidFlag, PreviousGtidsEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.encoder import Encoder
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.writer import BinlogWriter, Delete, Insert, Statement, Update
from binlogio.writer.query_events import QueryContext, statement_event
from binlogio.writer.session.ddl import ddl_event
from column_cases import ALL_ROWS, ALL_TYPES
from corpus import FIXTURES, frames_of
from logs import IN_USE_AT
from memory_storage import MemoryStorage
from written_logs import (
    BLOBS,
    ROWS,
    START,
    T2,
    UUID,
    T,
    events_of,
    insert,
    logged,
    shape,
    writer,
)

# ------------------------------------------------------------------------------------------------- whole files


def test_a_file_is_as_a_server_begins_and_ends_it() -> None:
    """Format description, previous GTIDs, a group, STOP; closed files are no longer in use."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session("shop") as session:
        in_use = storage.files["binlog.000001"][IN_USE_AT]
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
    assert storage.files["binlog.000001"][IN_USE_AT] == 0
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
        value = real[at + 3].images[1 + 4 + 2 :].decode()  # after null bits, id and the length
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


# What the server knows and the text does not say: a table that exists, one in an engine without transactions, one that
# does not.
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


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO t VALUES (1)", True),
        ("/* app */ -- why\n#\nINSERT IGNORE INTO `a`.`b` (c) SET d = 1", True),
        ("/* app */\nDELETE FROM t", True),
        ("INSERT/**/LOW_PRIORITY/*a*//*b*/INTO/**/a/**/./**/b/**/PARTITION (p)/**/(c)/**/VALUES (1)", True),
        ("INSERT" + "/**/" * 5_000, False),  # in no time
        ("INSERT a" + "-- \n" * 5_000 + "x", False),
        ("INSERT INTO t SELECT 1", False),
        ("/* UPDATE */ SELECT f()", False),
    ],
)
def test_statement_that_changes_rows_itself_has_its_variable(sql: str, expected: bool) -> None:
    """Also after a comment."""
    context = QueryContext(thread_id=1, schema="d", timestamp=0, server_id=1)

    assert (statement_event(context, sql.encode()).status(QueryStatus.UNNAMED_21) is not None) is expected


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
        (Insert(T, [{"id": 1, "w": 2}]), "unknown column"),
        (Insert(T, [(1,)]), "the number of values differs"),
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
    """Return a row of `BLOBS` whose image has that many bytes: one of null bits, two of length, the data."""
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
    """10 bytes of post-header, the column count, the bitmap and the rows stay within 8192 bytes.

    A larger row is alone.
    """
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


def test_an_update_names_in_begin_the_tables_that_it_changes() -> None:
    """The status variable TABLE_MAP_FOR_UPDATE, for updates alone."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(insert(1))
        session.execute(Statement("", [Update(T, [((1, "a"), (1, "b"))]), Insert(T2, [(1, "log")])]))
        session.execute(Statement("", [Update(T, [((1, "b"), (1, "c"))]), Update(T2, [((1, "a"), (1, "b"))])]))
    begins = [event for event in events_of(storage) if isinstance(event, QueryEvent)]

    assert [event.status(QueryStatus.TABLE_MAP_FOR_UPDATE) for event in begins] == [None, 1, 3]
