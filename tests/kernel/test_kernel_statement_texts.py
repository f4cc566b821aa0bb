"""Statements in `dump` by the kernel and by Python: the same bytes, for any text, session and filter."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.constants import BINLOG_MAGIC, ColumnType, EventType, HeaderFlag, QueryStatus
from binlogio.events.control import XaPrepareEvent, XidEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidTaggedEvent
from binlogio.events.mariadb import MariadbGtidEvent, MariadbXid
from binlogio.events.query import AutoIncrement, Invoker, QueryEvent, SessionCharset, StatusVar
from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.gtid import Tag, Uuid
from binlogio.rows.plan import TablePlan
from binlogio.selection.selection import Selection
from binlogio.storage.compression import compress_zstd
from binlogio_cli.dump.filters import FilteredDump
from binlogio_cli.dump.text_output import TextStyle
from both_dumps import ALL, SeenDump, assert_dumped_alike, dumped_by
from both_kernels import KERNELS
from kernel_rows import rows_event
from log_cases import table_map_of
from logs import OFF, POST_HEADERS_OF_MARIADB, description, encode, header, query
from rowimage_cases import column

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
TAGGED = GtidTaggedEvent(
    uuid=Uuid(bytes(16)), tag=Tag("t"), gno=3, last_committed=0, sequence_number=1, immediate_commit_timestamp=5,
    transaction_length=9, immediate_server_version=90_704, header=header(EventType.GTID_TAGGED_LOG_EVENT),
)  # fmt: skip
UTF8, LATIN1, SJIS, UTF16, UNKNOWN = 45, 8, 13, 54, 9_999

SESSIONS = st.builds(
    lambda *variables: tuple(one for one in variables if one is not None),
    st.sampled_from([None, StatusVar(QueryStatus.FLAGS2, 0), StatusVar(QueryStatus.FLAGS2, 1 << 26)]),
    st.sampled_from([None, *(StatusVar(QueryStatus.SQL_MODE, mode) for mode in (0, 4, 1 << 20, 0x1A00))]),
    st.sampled_from([None, StatusVar(QueryStatus.CATALOG_NZ, "std")]),
    st.sampled_from([None, StatusVar(QueryStatus.AUTO_INCREMENT, AutoIncrement(2, 1))]),
    st.sampled_from([None, *(StatusVar(QueryStatus.CHARSET, SessionCharset(one, UTF8, UTF8))
                             for one in (UTF8, LATIN1, SJIS, UTF16, UNKNOWN))]),
    st.sampled_from([None, StatusVar(QueryStatus.TIME_ZONE, "SYSTEM"), StatusVar(QueryStatus.TIME_ZONE, "+01:00")]),
    st.sampled_from([None, StatusVar(QueryStatus.INVOKER, Invoker("root", "localhost"))]),
    st.sampled_from([None, *(StatusVar(QueryStatus.UPDATED_DB_NAMES, names) for names in (None, (), ("d", "e`")))]),
    st.sampled_from([None, *(StatusVar(code, value) for code in (QueryStatus.MICROSECONDS, QueryStatus.MARIADB_HRNOW)
                             for value in (0, 12, 999_999, 16_777_215))]),
    st.sampled_from([None, StatusVar(QueryStatus.DDL_LOGGED_WITH_XID, 7), StatusVar(QueryStatus.MARIADB_XID, 7)]),
    st.sampled_from([None, StatusVar(QueryStatus.MARIADB_HRNOW, 3)]),
)  # fmt: skip
WORDS = st.sampled_from([
    "'", '"', "`", "\\", "\\'", "''", "--", "-- ", "#", "/*", "*/", "/*!", ";", "/*!*/;", "\n", "\r\n", "\n\n", "\t",
    " ", "\0", "\x1a", "\x7f", "\x85", "é", "漢", "😀", "\u202e", "“", "delimiter", "DELIMITER", "\nuse ", "\nexit",
    "\n?", "go", "source x", "t", "u", "1", "INSERT INTO t VALUES (1)", "a_b", "user",
])  # fmt: skip
TEXTS = st.lists(WORDS, max_size=6).map("".join)
STATEMENTS = st.one_of(
    TEXTS.map(lambda text: f"INSERT INTO t VALUES ('{text}')"),
    TEXTS.map(lambda text: f"UPDATE t SET a=1{text}"),
    st.builds("".join, st.tuples(st.sampled_from(
        ["", "  ", "BEGIN", "SAVEPOINT a", "savepoint", "ROLLBACK TO a", "ROLLBACK TO `t`", "ROLLBACK", "XA END X'31'",
         "XA START X'31'", "COMMIT", "SET @a=1", "use", "DELETE FROM u", "TRUNCATE t", "CREATE TABLE u (a INT)"]
    ), st.sampled_from(["", " ", ";", "\n"]))),
)  # fmt: skip


@st.composite
def groups(draw: st.DrawFn, *, of_mariadb: bool) -> list[Any]:
    """Return the events of a group, as servers write them and in other orders."""
    sessions = draw(st.lists(SESSIONS, min_size=1, max_size=3))

    def statement(sql: str) -> QueryEvent:
        code = EventType.QUERY_EVENT
        if of_mariadb and draw(st.booleans()):
            code = EventType.QUERY_COMPRESSED_EVENT
        flags = draw(st.sampled_from([0, 0, HeaderFlag.SUPPRESS_USE]))
        return QueryEvent(
            draw(st.integers(1, 2)), 0, 0, draw(st.sampled_from(sessions)), draw(st.sampled_from(["", "d", "e`", "é"])),
            sql.encode("utf-8", "surrogateescape"), header(code, flags=flags, timestamp=draw(st.integers(1, 3))),
        )  # fmt: skip

    events: list[Any] = []
    if of_mariadb:
        flags = draw(st.sampled_from([0, 0, 1, 8, 0x40, 0x80]))
        xid = MariadbXid(draw(st.sampled_from([1, 0xFFFFFFFF])), b"x\xff", draw(st.sampled_from([b"", b"y"])))
        extra = draw(st.sampled_from([0, 1, 4, 0x10, 0x1D]))
        events.append(
            MariadbGtidEvent(
                sequence_number=5,
                domain_id=0,
                flags=flags,
                xid=xid if flags & 0xC0 else None,
                flags_extra=extra,
                extra_engines=3 if extra & 1 else None,
                sa_seq_no=9 if extra & 4 else None,
                thread_id=8 if extra & 16 else None,
                header=header(EventType.MARIADB_GTID_EVENT),
            )
        )
    elif draw(st.booleans()):
        uuid = Uuid(bytes(16))
        events.append(draw(st.sampled_from([
            AnonymousGtidEvent(uuid=uuid, gno=0, last_committed=0, sequence_number=1, header=header(34)),
            TAGGED,
        ])))  # fmt: skip
    if draw(st.integers(0, 3)):
        events.append(replace(statement("BEGIN"), header=header(EventType.QUERY_EVENT)))
    for sql in draw(st.lists(STATEMENTS, max_size=4)):
        events += draw(st.lists(st.sampled_from([
            IntvarEvent(1, 5, header(EventType.INTVAR_EVENT)), IntvarEvent(2, 6, header(EventType.INTVAR_EVENT)),
            IntvarEvent(9, 7, header(EventType.INTVAR_EVENT)), RandEvent(1, 2, header(EventType.RAND_EVENT)),
            UserVarEvent("v", 1, None, None, None, b"", header(EventType.USER_VAR_EVENT)),
            UserVarEvent("w`", 0, 0, UTF8, b"it's", b"", header(EventType.USER_VAR_EVENT)),
            UserVarEvent("x", 0, 4, UTF8, b"\xff", b"", header(EventType.USER_VAR_EVENT)),
        ]), max_size=2))  # fmt: skip
        events.append(statement(sql))
    end = draw(st.integers(0, 3))
    if end == 0:
        format_id = draw(st.integers(-1, 1))
        events.append(
            XaPrepareEvent(draw(st.integers(0, 2)), format_id, b"g", b"", header(EventType.XA_PREPARE_LOG_EVENT))
        )
    elif end == 1:
        events.append(replace(statement("COMMIT"), header=header(EventType.QUERY_EVENT)))
    else:
        events.append(XidEvent(7, header(EventType.XID_EVENT)))
    is_payload = not of_mariadb and isinstance(events[0], AnonymousGtidEvent | GtidTaggedEvent) and draw(st.booleans())
    return [events[0], payload(events[1:])] if is_payload else events


def payload(events: list[Any]) -> TransactionPayloadEvent:
    """Return the events of a transaction as a compressed one."""
    data = b"".join(map(Encoder().encode, events))
    return TransactionPayloadEvent.create(
        compress_zstd(data, 3), CompressionType.ZSTD, len(data), header(EventType.TRANSACTION_PAYLOAD_EVENT)
    )


def statement_log(groups_of_log: list[list[Any]], *, of_mariadb: bool) -> bytes:
    """Return a log of these groups, twice: what the first half has is known to the kernel in the second one."""
    version = {"version": "10.11.6-MariaDB-log", "sizes": POST_HEADERS_OF_MARIADB} if of_mariadb else {}
    events = [event for group in (*groups_of_log, *groups_of_log) for event in group]
    return BINLOG_MAGIC + encode([description(**version), *events])  # type: ignore[arg-type]


@pytest.mark.parametrize("of_mariadb", [False, True])
@settings(max_examples=60, suppress_health_check=SLOW, deadline=None)
@given(data=st.data())
def test_statements_are_written_alike(*, of_mariadb: bool, data: st.DataObject) -> None:
    """All statements, and those that a filter chooses."""
    written = statement_log(data.draw(st.lists(groups(of_mariadb=of_mariadb), max_size=4)), of_mariadb=of_mariadb)
    chosen = data.draw(st.sampled_from([
        ALL, ALL, Selection(tables=("t",)), Selection(databases=("d",)), Selection(start_time=2),
        Selection(stop_time=3),
    ]))  # fmt: skip

    assert_dumped_alike(written, chosen)


@pytest.mark.parametrize("kind_of_log", ["mysql", "compressed", "mariadb"])
def test_statements_of_many_sessions_are_written_by_the_kernel(kind_of_log: str) -> None:
    """Sessions with other schemas, modes and clocks in turn; text that is not ASCII; all parts of a statement."""
    of_mariadb = kind_of_log == "mariadb"
    variables = [
        (StatusVar(QueryStatus.SQL_MODE, mode), StatusVar(QueryStatus.CHARSET, SessionCharset(UTF8, UTF8, UTF8)))
        for mode in (0, 4)
    ]
    kind = QueryStatus.MARIADB_HRNOW if of_mariadb else QueryStatus.MICROSECONDS
    repeated: list[list[Any]] = []
    for number in range(40):
        settings_of_one = (*variables[number % 2], StatusVar(kind, number))

        def statement(sql: str, code: int = EventType.QUERY_EVENT, status: Any = settings_of_one) -> QueryEvent:
            return QueryEvent(len(status), 0, 0, status, "de"[number % 2], sql.encode(), header(code))  # noqa: B023

        code = EventType.QUERY_COMPRESSED_EVENT if of_mariadb and number % 3 else EventType.QUERY_EVENT
        repeated.append([
            MariadbGtidEvent(sequence_number=5, domain_id=0, header=header(EventType.MARIADB_GTID_EVENT)) if of_mariadb
            else TAGGED,
            *([] if of_mariadb else [statement("BEGIN")]),
            IntvarEvent(2, number, header(EventType.INTVAR_EVENT)),
            UserVarEvent("w", 0, 0, UTF8, b"it's", b"", header(EventType.USER_VAR_EVENT)),
            statement(f"INSERT INTO t VALUES ({number}, 'é')", code),
            statement("SAVEPOINT `s`"),
            statement("COMMIT") if number % 4 else XidEvent(7, header(EventType.XID_EVENT)),
        ])  # fmt: skip
    if kind_of_log == "compressed":
        repeated = [[group[0], payload(group[1:])] for group in repeated]
    written = statement_log(repeated, of_mariadb=of_mariadb)
    with binlogio.open(io.BytesIO(written)) as reader:
        dump = SeenDump(reader, TextStyle())
        list(FilteredDump(reader, ALL, dump, dump.writer(ALL)).choose())

    assert_dumped_alike(written)
    assert len(dump.seen) < 30


@pytest.mark.parametrize("tables", [(), ("u",)])
def test_more_values_of_a_variable_than_are_known(tables: tuple[str, ...]) -> None:
    """Each of them is written once, before the statement that needs it; some statements are filtered out."""
    data = BINLOG_MAGIC + encode([description(OFF)])
    group = [
        Encoder().encode(QueryEvent(1, 0, 0, (StatusVar(QueryStatus.TIME_ZONE, "zone 0000"),), "d", sql, header(2)))
        for sql in (b"BEGIN", b"INSERT INTO t VALUES (1)", b"DELETE FROM u", b"COMMIT")
    ]
    for number in range(10_000):
        events = (group[0], group[1 + (number % 3 == 0)], group[3])
        data += b"".join(events).replace(b"zone 0000", b"zone %04d" % (number // 2))
    by_kernel, by_construct = (
        dumped_by(kernel, io.BytesIO(data), "text", Selection(tables=tables)) for kernel in KERNELS
    )

    assert by_kernel == by_construct
    assert tables or by_kernel[0].count(b"SET @@session.time_zone=") == 5_000


@pytest.mark.parametrize("is_payload", [False, True])
def test_definitions_that_are_filtered_out_are_followed(*, is_payload: bool) -> None:
    """The names of columns come from a CREATE TABLE that is not shown, which may be in a compressed transaction."""
    columns = [column(ColumnType.LONG)]
    head = header(EventType.TABLE_MAP_EVENT, timestamp=9)
    table = replace(table_map_of(columns), schema="d", table="t", optional_metadata=(), header=head)
    rows = rows_event(TablePlan(schema="d", table="t", columns=tuple(columns)), b"\0" + bytes(4))
    rows = replace(rows, table_id=table.table_id, header=replace(rows.header, timestamp=9))
    begin = replace(query("BEGIN"), header=header(EventType.QUERY_EVENT, timestamp=9))
    gtid = replace(TAGGED, header=replace(TAGGED.header, timestamp=1))
    xid = XidEvent(7, header(EventType.XID_EVENT))
    create = query("CREATE TABLE t (a INT NOT NULL)")
    hidden = [gtid, payload([query("BEGIN"), create, xid]) if is_payload else create]
    shown = [replace(gtid, header=replace(gtid.header, timestamp=9)), begin, table, rows, xid]
    data = BINLOG_MAGIC + encode([description(), *shown, *hidden, *shown])

    assert assert_dumped_alike(data, Selection(start_time=5)).count(b"###   `a`=0") == 1
