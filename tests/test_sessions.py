"""Sessions in every format, by the public API: what is refused, what clients are told, and what real servers' files have."""

from __future__ import annotations

import errno
from dataclasses import replace
from itertools import count
from typing import Any, Final

import pytest

from binlogio.errors import CacheLimitExceeded, LoggingError, UnsupportedFeature, WriterStateError
from binlogio.events.control import IncidentEvent
from binlogio.events.load import AppendBlockEvent, BeginLoadQueryEvent, ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import PartialUpdateRowsEvent, UpdateRowsEvent
from binlogio.events.statement_context import UserVarEvent
from binlogio.gtid import Gtid
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.rowimage.json import JsonDocument
from binlogio.rowimage.json_diff import JsonDiff, JsonDiffOperation, JsonDiffs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Delete, Insert, Statement, Update
from binlogio.writer.group import AUTOMATIC
from binlogio.writer.known_objects import table_access
from binlogio.writer.statement import Change, LoadedFile
from binlogio.writer.statement_facts import StatementFacts, StatementKind
from binlogio.writer.xa import XaXid
from corpus import FIXTURES
from memory_storage import MemoryStorage

START: Final = 1_700_000_000_000_000
UUID: Final = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
T: Final = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(10000)")), ("id",)
)
N: Final = replace(T, name="n", engine="MyISAM")
PJ: Final = TableDefinition(
    "corpus",
    "pj",
    (
        ColumnDefinition("id", "int", nullable=False),
        ColumnDefinition("a", "int"),
        ColumnDefinition("j", "json"),
        ColumnDefinition("j2", "json"),
        ColumnDefinition("t", "text"),
    ),
    ("id",),
)
TEMPORARY: Final = replace(T, name="tmp")


def writer(storage: MemoryStorage, **variables: Any) -> BinlogWriter:
    """A writer whose clock goes on by a millisecond with every look."""
    ticks = count(START, 1000)
    settings = {"server_uuid": UUID, "gtid_mode": "OFF", "binlog_format": "STATEMENT", **variables}
    return BinlogWriter("binlog", variables=ServerVariables(**settings), clock=lambda: next(ticks), storage=storage)


def insert(table: TableDefinition, number: int, text: str = "x", **more: Any) -> Statement:
    """INSERT of one row."""
    sql = f"INSERT INTO {table.name} VALUES ({number},'{text}')"
    return Statement(sql, [Insert(table, [(number, text)])], **more)


def temporary(kind: StatementKind, sql: str) -> Statement:
    """CREATE or DROP TEMPORARY TABLE."""
    access = replace(table_access(TEMPORARY, write=True), temporary=True)
    return Statement(sql, facts=StatementFacts(kind=kind, tables=(access,)))


_USER_VARIABLE: Final = UserVarEvent("v", 0, 0, 255, b"v" * 9000, b"")
CREATE_TEMPORARY: Final = temporary(StatementKind.CREATE_TEMPORARY, "CREATE TEMPORARY TABLE tmp (id INT)")
DROP_TEMPORARY: Final = temporary(StatementKind.DROP_TEMPORARY, "DROP TEMPORARY TABLE tmp")


def events_of(storage: MemoryStorage) -> list[Any]:
    """Everything in the logs but the two events that begin a file and the GTIDs."""
    with open_logs(storage.streams()) as reader:
        left_out = ("FormatDescriptionEvent", "PreviousGtidsEvent", "AnonymousGtidEvent", "GtidEvent", "StopEvent")
        return [event for event in reader if type(event).__name__ not in left_out]


def texts(storage: MemoryStorage) -> list[str]:
    """The texts of the statements in the logs, and the kinds of the other events."""
    return [
        event.sql.decode() if isinstance(event, QueryEvent) else type(event).__name__.removesuffix("Event")
        for event in events_of(storage)
    ]


# ------------------------------------------------------------------------------------------------ errors and warnings


def test_a_failed_statement_is_logged_with_its_error_where_rows_stay() -> None:
    """Of a MyISAM table; of an InnoDB table there is nothing."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.execute(insert(T, 1, error=1062))
        session.execute(insert(N, 1, error=1062))
        codes = [warning.errno for warning in session.warnings]
    queries = [event for event in events_of(storage) if isinstance(event, QueryEvent)]

    assert codes == [1196]
    assert [(event.sql, event.error_code) for event in queries] == [
        (b"BEGIN", 0),
        (b"INSERT INTO n VALUES (1,'x')", 1062),
        (b"COMMIT", 0),
    ]


def test_a_late_statement_is_unsafe_and_rolls_back_with_its_transaction() -> None:
    """1592 where it is cached, BEGIN ... ROLLBACK because its rows stay, 1196 for the client."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        session.execute(insert(N, 2))
        late = [warning.errno for warning in session.warnings]
        session.rollback()
        rolled_back = [warning.errno for warning in session.warnings]

    assert late == [6414, 1592]
    assert rolled_back == [1196]
    assert texts(storage) == ["BEGIN", "INSERT INTO t VALUES (1,'x')", "INSERT INTO n VALUES (2,'x')", "ROLLBACK"]


def test_warnings_are_those_of_the_last_statement() -> None:
    """As SHOW WARNINGS."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        session.execute(insert(N, 2))
        session.execute(insert(T, 3))

        assert not session.warnings


def test_a_statement_that_does_not_fit_its_cache_is_undone_alone() -> None:
    """1197; what the transaction has cached before and after it is in its group."""
    storage = MemoryStorage()

    with writer(storage, binlog_cache_size=4096, max_binlog_cache_size=4096) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1, "a" * 7000))
        with pytest.raises(CacheLimitExceeded) as caught:
            session.execute(insert(T, 2, "b" * 7000))
        session.execute(insert(T, 3))
        session.commit()

    assert caught.value.errno == 1197
    assert [text[:26] for text in texts(storage)] == [
        "BEGIN",
        "INSERT INTO t VALUES (1,'a",
        "INSERT INTO t VALUES (3,'x",
        "Xid",
    ]


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "ROW"])
def test_lost_changes_of_a_table_that_keeps_them_are_an_incident_in_a_log_of_its_own(binlog_format: str) -> None:
    """1705, INCIDENT, the next log; never half an event. The session goes on."""
    storage = MemoryStorage()
    many = Statement("INSERT", [Insert(N, [(number, "a" * 5000) for number in range(5)])])
    variables = {"binlog_stmt_cache_size": 4096, "max_binlog_stmt_cache_size": 4096, "binlog_format": binlog_format}

    with writer(storage, **variables) as log, log.session("shop") as session:
        if binlog_format == "STATEMENT":
            many = replace(many, sql="/*" + "x" * 8000 + "*/INSERT INTO n VALUES (1,'y')")
            session.execute(insert(N, 0))
            with pytest.raises(CacheLimitExceeded) as caught:
                session.execute(replace(many, context=(_USER_VARIABLE,)))
        else:
            with pytest.raises(CacheLimitExceeded) as caught:
                session.execute(many)
        session.execute(insert(N, 6))
        files = len(log.names)
    events = events_of(storage)

    assert (caught.value.errno, caught.value.symbol) == (1705, "ER_STMT_CACHE_FULL")
    assert files == 2
    assert [event.message for event in events if isinstance(event, IncidentEvent)] == [
        "Non-transactional changes were not written to the binlog."
    ]


def test_a_full_temporary_folder_undoes_the_statement_and_the_transaction_goes_on() -> None:
    """The error is the system's; the log is as if the statement had not been."""
    storage = MemoryStorage()
    full = ["yes"]

    class Disk:
        """A spill file that cannot be written while `full`."""

        def __init__(self) -> None:
            self.data = bytearray()

        def write(self, offset: int, data: bytes) -> None:
            if full:
                raise OSError(errno.ENOSPC, "no space left")
            self.data[offset : offset + len(data)] = data

        def read(self, offset: int, size: int) -> bytes:
            return bytes(self.data[offset : offset + size])

        def close(self) -> None:
            self.data.clear()

    variables = ServerVariables(server_uuid=UUID, binlog_cache_size=4096)
    with (
        BinlogWriter("binlog", variables=variables, storage=storage, open_spill=Disk) as log,
        log.session("shop") as session,
    ):
        session.begin()
        session.execute(insert(T, 1))
        with pytest.raises(OSError, match="no space left"):
            session.execute(insert(T, 2, "b" * 9000))
        full.clear()
        session.execute(insert(T, 3, "c" * 9000))
        session.commit()
        status = log.status

    assert texts(storage) == ["BEGIN", "TableMap", "WriteRows", "TableMap", "WriteRows", "Xid"]
    assert (status["Binlog_cache_use"], status["Binlog_cache_disk_use"]) == (1, 1)


def test_a_refused_statement_leaves_its_transaction_open() -> None:
    """1785 with gtid_mode=ON; the transaction can be committed."""
    storage = MemoryStorage()

    with writer(storage, gtid_mode="ON") as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        with pytest.raises(LoggingError) as caught:
            session.execute(insert(N, 2))
        warned = [warning.errno for warning in session.warnings]
        session.commit()

    assert (caught.value.errno, warned) == (1785, [6414])
    assert texts(storage) == ["BEGIN", "INSERT INTO t VALUES (1,'x')", "Xid"]


# ---------------------------------------------------------------------------------------------------- other commands


def test_an_unknown_savepoint_is_refused() -> None:
    """1305, for ROLLBACK TO and RELEASE; names do not mind their case."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.begin()
        session.savepoint("One")
        session.rollback_to("oNE")
        session.release("ONE")
        for command in (session.rollback_to, session.release):
            with pytest.raises(LoggingError, match="SAVEPOINT one does not exist") as caught:
                command("one")
            assert caught.value.errno == 1305


def test_xa_commands_out_of_turn_are_refused() -> None:
    """1397, 1399 and 1400, as the server calls them."""
    one, two = XaXid(b"one"), XaXid(b"two")
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        refused = [
            (session.xa_end, one, 1399),
            (session.xa_prepare, one, 1399),
        ]
        for command, xid, number in refused:
            with pytest.raises(LoggingError) as caught:
                command(xid)
            assert caught.value.errno == number
        session.xa_start(one)
        for command, xid, number in [(session.xa_start, two, 1400), (session.xa_end, two, 1397), *refused[1:]]:
            with pytest.raises(LoggingError) as caught:
                command(xid)
            assert caught.value.errno == number
        session.xa_end(one)
        session.xa_rollback(one)
        session.xa_start(two)


def test_an_empty_xa_transaction_leaves_nothing() -> None:
    """XA PREPARE of nothing is not logged; its XA COMMIT is, for all the server knows."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.xa_start(XaXid(b"g", b"b", 7))
        session.xa_end(XaXid(b"g", b"b", 7))
        session.xa_commit(XaXid(b"g", b"b", 7), one_phase=True)

    assert texts(storage) == []


def test_a_gtid_is_used_once() -> None:
    """1837 for the second statement; a GTID that is in the log already makes its statements do nothing."""
    storage = MemoryStorage()
    gtid = Gtid.parse(f"{UUID}:77")

    with writer(storage, gtid_mode="ON") as log, log.session("shop") as session:
        session.set_variables(gtid_next=gtid)
        session.execute(insert(T, 1))
        with pytest.raises(LoggingError, match=str(gtid)) as caught:
            session.execute(insert(T, 2))
        session.set_variables(gtid_next=gtid)
        session.execute(insert(T, 3))
        session.set_variables(gtid_next=AUTOMATIC)
        session.execute(insert(T, 4))
        last = session.last_gtid

    assert caught.value.errno == 1837
    assert str(last) == f"{UUID}:1"
    assert [text for text in texts(storage) if text.startswith("INSERT")] == [
        "INSERT INTO t VALUES (1,'x')",
        "INSERT INTO t VALUES (4,'x')",
    ]


@pytest.mark.parametrize(("binlog_format", "expected"), [("STATEMENT", ["TRUNCATE tmp"]), ("MIXED", []), ("ROW", [])])
def test_ddl_of_a_temporary_table_commits_and_is_logged_in_statement_format_alone(
    binlog_format: str, expected: list[str]
) -> None:
    """What a 9.7.4 server does with TRUNCATE, ALTER TABLE and CREATE INDEX."""
    storage = MemoryStorage()

    with writer(storage, binlog_format=binlog_format) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        session.execute(temporary(StatementKind.DDL, "TRUNCATE tmp"))
        is_open = session.in_transaction
    found = texts(storage)

    assert not is_open
    assert found[found.index("Xid") + 1 :] == expected


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED"])
def test_a_drop_of_both_kinds_has_the_temporary_table_last_in_statement_format_alone(binlog_format: str) -> None:
    storage = MemoryStorage()
    tables = (replace(table_access(TEMPORARY, write=True), temporary=True), table_access(T, write=True))
    facts = StatementFacts(kind=StatementKind.DDL, tables=tables)

    with writer(storage, binlog_format=binlog_format) as log, log.session("shop") as session:
        session.execute(CREATE_TEMPORARY)
        session.execute(Statement("DROP TABLE tmp, t", facts=facts))
    found = texts(storage)

    of_temporary = ["DROP TEMPORARY TABLE `tmp` /* generated by server */"] if binlog_format == "STATEMENT" else []
    assert found[-1 - len(of_temporary) :] == ["DROP TABLE `t` /* generated by server */", *of_temporary]


def test_temporary_tables_go_with_their_session() -> None:
    """In STATEMENT format they are logged, and thrown away when the session ends; the format cannot change meanwhile."""
    storage = MemoryStorage()

    with writer(storage) as log:
        with log.session("shop") as session:
            session.execute(CREATE_TEMPORARY)
            with pytest.raises(LoggingError) as caught:
                session.set_variables(binlog_format="ROW")
        with log.session("shop") as session:
            session.execute(CREATE_TEMPORARY)
            session.execute(DROP_TEMPORARY)
            session.set_variables(binlog_format="ROW")
            session.execute(CREATE_TEMPORARY)

    assert caught.value.errno == 3745
    assert texts(storage) == [
        "CREATE TEMPORARY TABLE tmp (id INT)",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `tmp`",
        "CREATE TEMPORARY TABLE tmp (id INT)",
        "DROP TEMPORARY TABLE `tmp` /* generated by server */",
    ]


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("binlog_format", "ROW", 1679),
        ("sql_log_bin", False, 1694),
        ("binlog_direct_non_transactional_updates", True, 1685),
        ("max_binlog_size", 4096, 1229),
        ("nosuch", 1, 1193),
    ],
)
def test_variables_that_cannot_be_set_now_are_refused(name: str, value: object, number: int) -> None:
    """In a transaction; the session's variables are as before."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.begin()
        before = session.variables
        with pytest.raises(LoggingError) as caught:
            session.set_variables(**{name: value})

        assert caught.value.errno == number
        assert session.variables == before


def test_without_sql_log_bin_nothing_is_logged() -> None:
    """Neither changes nor DDL."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.set_variables(sql_log_bin=False)
        session.execute(insert(T, 1))
        session.execute(insert(N, 1))
        session.ddl("DROP TABLE t")

    assert texts(storage) == []


def test_without_autocommit_statements_wait_for_commit() -> None:
    """SET autocommit=0 begins transactions by itself, and SET autocommit=1 commits."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.set_variables(autocommit=False)
        session.execute(insert(T, 1))
        waiting = texts(storage)
        session.set_variables(autocommit=True)

    assert waiting == []
    assert texts(storage) == ["BEGIN", "INSERT INTO t VALUES (1,'x')", "Xid"]


def test_a_closed_session_takes_no_command() -> None:
    """Whatever it is."""
    with writer(MemoryStorage()) as log:
        session = log.session("shop")
        session.close()
        session.close()
        commands = (session.begin, session.commit, session.rollback, session.flush_logs, session.unlock_tables)
        for command in commands:
            with pytest.raises(WriterStateError, match="closed"):
                command()
        with pytest.raises(WriterStateError, match="closed"):
            session.savepoint("s")


def test_an_unfit_row_leaves_nothing_of_its_statement() -> None:
    """Neither in the transaction cache nor in the statement cache, although rows before it were fine."""
    storage = MemoryStorage()
    both = Statement("", [Insert(N, [(1, "x")]), Insert(T, [(1, "x"), (2, None), ("no number", "x")])])

    with writer(storage, binlog_format="ROW") as log, log.session("shop") as session:
        session.begin()
        with pytest.raises((UnsupportedFeature, Exception), match="column"):
            session.execute(both)
        session.commit()

    assert texts(storage) == []


# --------------------------------------------------------------------------------------------------- as real servers


def _real(case: str) -> list[Any]:
    with open_logs(FIXTURES / f"mysql97/{case}/binlog.000001") as reader:
        return list(reader)


def _same_but_time(event: Any) -> Any:
    header = replace(event.header, timestamp=0, server_id=0, log_pos=0, offset=0)
    more = {"thread_id": 0, "exec_time": 0} if hasattr(event, "thread_id") else {}
    return replace(event, header=header, **more)


@pytest.mark.parametrize(("number", "block_size", "duplicates"), [(0, 128 * 1024, ""), (1, 16384, "REPLACE")])
def test_loaded_files_are_as_a_real_server_writes_them(number: int, block_size: int, duplicates: str) -> None:
    """Blocks of the file, and the statement with the part that a replica replaces."""
    real = [event for event in _real("format_statement") if type(event).__name__ != "AnonymousGtidEvent"]
    begins = [i for i, event in enumerate(real) if isinstance(event, BeginLoadQueryEvent)]
    theirs = real[begins[number] : begins[number] + 2 + number]
    query = theirs[-1]
    data = b"".join(event.block for event in theirs[:-1])
    file = LoadedFile(data, duplicates, block_size, database_collation=45)
    loaded = replace(T, schema="corpus", name="loaded")
    facts = StatementFacts(kind=StatementKind.LOAD_DATA, tables=(table_access(loaded, write=True),))
    storage = MemoryStorage()

    with writer(storage) as log, log.session("corpus") as session:
        if number:
            session.execute(replace(_EMPTY_LOAD, facts=facts))
        session.execute(Statement(query.sql, [Insert(loaded, [(1, "x")])], facts=facts, loaded_file=file))
    ours = [
        event
        for event in events_of(storage)
        if isinstance(event, (BeginLoadQueryEvent, AppendBlockEvent, ExecuteLoadQueryEvent))
    ][2 * number :]

    assert list(map(_same_but_time, ours)) == list(map(_same_but_time, theirs))


_EMPTY_LOAD: Final = Statement("LOAD DATA INFILE 'x' INTO TABLE `loaded`", loaded_file=LoadedFile(b""))


def test_a_loaded_file_in_a_transaction_stands_where_the_server_puts_it() -> None:
    """Its blocks in a group of the statement cache, its statement in the transaction."""
    storage = MemoryStorage()
    facts = StatementFacts(kind=StatementKind.LOAD_DATA, tables=(table_access(N, write=True),))
    load = Statement(
        "LOAD DATA INFILE 'x' INTO TABLE n", [Insert(N, [(2, "x")])], facts=facts, loaded_file=LoadedFile(b"2\tx\n")
    )

    with writer(storage) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        session.execute(load)
        session.commit()

    assert texts(storage) == [
        "BEGIN",
        "BeginLoadQuery",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t VALUES (1,'x')",
        "ExecuteLoadQuery",
        "Xid",
    ]


def test_partial_updates_are_as_a_real_server_writes_them() -> None:
    """Diffs, documents where a diff would be larger or there is none, and empty diffs for documents that stay."""
    theirs, statements = [], []
    with open_logs(FIXTURES / "mysql97/partial_json/binlog.000001") as reader:
        for event in reader:
            if isinstance(event, PartialUpdateRowsEvent):
                rows = [
                    (change.before.values, change.after.values)
                    for change in reader.rows(event)
                    if change.before is not None and change.after is not None
                ]
                theirs.append(event.images)
                statements.append([_unaware(*row) for row in rows])
    storage = MemoryStorage()

    with writer(storage, binlog_format="ROW", binlog_row_value_options="PARTIAL_JSON") as log:
        for updates in statements:
            with log.session("corpus") as session:
                session.execute(Statement("UPDATE", [Update(PJ, updates)]))
    ours = [event.images for event in events_of(storage) if isinstance(event, PartialUpdateRowsEvent)]

    assert len(theirs) > 10
    assert ours == theirs


def _unaware(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, Any]:
    """A change in which documents that stay are given as what they are."""
    pairs = zip(before, after, strict=True)
    return before, tuple(old if isinstance(new, JsonDiffs) and not new else new for old, new in pairs)


def test_diffs_become_documents_where_nobody_wants_them() -> None:
    """Without PARTIAL_JSON an update of a JSON column has the whole document."""
    table = TableDefinition(
        "s", "j", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("j", "json")), ("id",)
    )
    diffs = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text("2"))])
    change = Update(table, [((1, JsonDocument.from_text('{"a": 1}')), {"j": diffs})])
    storage = MemoryStorage()

    with writer(storage, binlog_format="ROW") as log, log.session("s") as session:
        session.execute(Statement("UPDATE", [change]))
        with pytest.raises(UnsupportedFeature, match="need a document"):
            session.execute(Statement("UPDATE", [Update(table, [((1, None), {"j": diffs})])]))
    with open_logs(storage.streams()) as reader:
        after = [next(iter(reader.rows(event))).after for event in reader if isinstance(event, UpdateRowsEvent)]

    assert [image.values[1].text for image in after if image is not None] == ['{"a": 2}']


def test_minimal_images_need_only_what_they_have() -> None:
    """A delete by its key, an update of one column, an insert of some."""
    storage = MemoryStorage()
    changes: list[Change] = [
        Insert(T, [{"id": 1}], columns=("id",)),
        Update(T, [({"id": 1}, {"v": "new"})]),
        Delete(T, [{"id": 1}]),
    ]

    with writer(storage, binlog_format="ROW", binlog_row_image="MINIMAL") as log, log.session("shop") as session:
        for change in changes:
            session.execute(Statement("", [change]))
    with open_logs(storage.streams()) as reader:
        rows = [
            (change.before and change.before.as_dict(), change.after and change.after.as_dict())
            for event in reader
            if type(event).__name__.endswith("RowsEvent")
            for change in reader.rows(event)
        ]

    assert rows == [(None, {"id": 1}), ({"id": 1}, {"v": "new"}), ({"id": 1}, None)]


def test_an_xa_transaction_that_has_changed_nothing_is_not_in_the_log() -> None:
    """Nor is its XA COMMIT or XA ROLLBACK, of whichever session, as a replica would not know it; rows of MyISAM tables are a group of their own."""
    storage = MemoryStorage()
    nothing, n_only, something = XaXid(b"a"), XaXid(b"b"), XaXid(b"c")

    with writer(storage, binlog_format="ROW") as log, log.session("shop") as session, log.session("shop") as other:
        session.xa_start(nothing)
        session.xa_end(nothing)
        session.xa_prepare(nothing)
        other.xa_commit(nothing)
        session.xa_start(n_only)
        session.execute(insert(N, 1))
        session.xa_end(n_only)
        session.xa_prepare(n_only)
        session.xa_rollback(n_only)
        session.xa_start(something)
        session.execute(insert(T, 1))
        session.xa_end(something)
        session.xa_prepare(something)
        other.xa_commit(something)

    assert texts(storage) == [
        *("BEGIN", "TableMap", "WriteRows", "COMMIT"),
        *("XA START X'63',X'',1", "TableMap", "WriteRows", "XA END X'63',X'',1", "XaPrepare", "XA COMMIT X'63',X'',1"),
    ]


# ------------------------------------------------------------------------------------- what a 9.7.0 server answered when asked


@pytest.mark.parametrize(
    ("binlog_format", "statement", "expected"),
    [
        ("ROW", Statement("UPDATE t SET v = 'y' WHERE id = 9", [Update(T, [])]), []),
        ("ROW", Statement("INSERT", [Insert(T, [(1, "x")])], error=1062), ["BEGIN", "SAVEPOINT `s`", "COMMIT"]),
        ("STATEMENT", Statement("INSERT", [Insert(T, [(1, "x")])], error=1062), []),
        ("ROW", Statement("INSERT", [Insert(T, [])], error=1062), []),
        ("ROW", insert(N, 1), ["BEGIN", *("TableMap", "WriteRows"), "COMMIT", "BEGIN", "SAVEPOINT `s`", "COMMIT"]),
    ],
    ids=["no row", "rows undone", "text undone", "no row undone", "group of its own"],
)
def test_a_savepoint_is_in_the_log_once_the_transaction_had_anything_for_it(
    binlog_format: str, statement: Statement, expected: list[str]
) -> None:
    """Whether it is there still or not; that an engine takes part is not enough."""
    storage = MemoryStorage()

    with writer(storage, binlog_format=binlog_format) as log, log.session("shop") as session:
        session.begin()
        session.execute(statement)
        session.savepoint("s")
        session.commit()

    assert texts(storage) == expected


def test_truncation_counts_for_the_cache_of_its_table_s_kind() -> None:
    """Of an InnoDB table it is a transaction."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.execute(Statement.from_sql("TRUNCATE TABLE n", "shop", [T, N]))
        of_n = log.status["Binlog_cache_use"], log.status["Binlog_stmt_cache_use"]
        session.execute(Statement.from_sql("TRUNCATE t", "shop", [T, N]))
        of_both = log.status["Binlog_cache_use"], log.status["Binlog_stmt_cache_use"]

    assert (of_n, of_both) == ((0, 1), (1, 1))


def test_the_format_may_be_set_without_autocommit_until_something_is_executed() -> None:
    """1679 behind a statement that an engine or the log takes part in."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.set_variables(autocommit=False)
        session.set_variables(binlog_format="ROW")
        session.execute(insert(T, 1))
        with pytest.raises(LoggingError) as caught:
            session.set_variables(binlog_format="STATEMENT")

    assert caught.value.errno == 1679


@pytest.mark.parametrize(
    ("commands", "expected"),
    [([], [6414]), (["commit"], []), (["rollback"], []), (["begin"], [6414]), (["begin", "begin"], [])],
    ids=lambda value: " ".join(map(str, value)),
)
def test_a_failed_statement_counts_as_mixed_with_the_next_up_to_the_end_of_a_transaction(
    commands: list[str], expected: list[int]
) -> None:
    """Engines that do not go together; BEGIN ends a transaction only where there is one."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.execute(Statement("INSERT", [Insert(N, [])], error=1062))
        for command in commands:
            getattr(session, command)()
        session.execute(insert(T, 1))

        assert [warning.errno for warning in session.warnings] == expected


def test_create_table_select_without_autocommit_is_committed_at_once() -> None:
    """What comes behind it is another transaction."""
    storage = MemoryStorage()
    facts = StatementFacts(kind=StatementKind.CREATE_SELECT, tables=(table_access(T, write=True),))

    with writer(storage, binlog_format="ROW") as log, log.session("shop") as session:
        session.set_variables(autocommit=False)
        session.execute(Statement("CREATE TABLE t SELECT 1", [Insert(T, [(1, "x")])], facts=facts, locked=[T]))
        session.execute(insert(N, 1))

    found = [text[:12] for text in texts(storage)]
    assert found == [
        "BEGIN",
        "CREATE TABLE",
        "TableMap",
        "WriteRows",
        "Xid",
        "BEGIN",
        "TableMap",
        "WriteRows",
        "COMMIT",
    ]


def test_rows_locked_for_update_violate_gtid_consistency_as_changed_ones_do() -> None:
    """1785 for a MyISAM table behind an InnoDB one."""
    with writer(MemoryStorage(), enforce_gtid_consistency="ON") as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        with pytest.raises(LoggingError) as caught:
            session.execute(Statement.from_sql("SELECT * FROM n FOR UPDATE", "shop", [T, N]))

    assert caught.value.errno == 1785


def test_ddl_and_a_refused_statement_end_what_engines_are_mixed_with() -> None:
    """A failed statement counts, unless one of these comes behind it."""
    both = Statement("UPDATE", [Update(T, []), Update(N, [])])

    with writer(MemoryStorage(), enforce_gtid_consistency="ON") as log, log.session("shop") as session:
        found = []
        for between in (None, "ddl", "refused"):
            session.execute(Statement("INSERT", [Insert(N, [])], error=1062))
            if between == "ddl":
                session.ddl("CREATE TABLE x (id INT)")
            elif between == "refused":
                with pytest.raises(LoggingError):
                    session.execute(both)
            session.execute(insert(T, 1))
            found.append([warning.errno for warning in session.warnings])

    assert found == [[6414], [], []]


@pytest.mark.parametrize(
    ("rows", "expected"), [([], []), ([((1, "x"), (1, "y"))], ["BEGIN", "INSERT", "UPDATE", "ROLLBACK"])]
)
def test_a_late_statement_that_has_changed_no_row_is_rolled_back_as_if_it_were_not_there(
    rows: list[Any], expected: list[str]
) -> None:
    """It was unsafe all the same."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.begin()
        session.execute(Statement("INSERT", [Insert(T, [(1, "x")])]))
        session.execute(Statement("UPDATE", [Update(N, rows)]))
        unsafe = [warning.errno for warning in session.warnings]
        session.rollback()

    assert unsafe == [6414, 1592]
    assert texts(storage) == expected


def test_without_autocommit_a_commit_forgets_savepoints_and_temporary_tables_also_where_nothing_was_logged() -> None:
    """1305, and no warning of what another transaction did."""
    with writer(MemoryStorage(), binlog_format="ROW") as log, log.session("shop") as session:
        session.set_variables(autocommit=False)
        session.execute(CREATE_TEMPORARY)
        session.savepoint("s")
        session.commit()
        with pytest.raises(LoggingError) as caught:
            session.rollback_to("s")
        session.rollback()

        assert (caught.value.errno, list(session.warnings)) == (1305, [])
