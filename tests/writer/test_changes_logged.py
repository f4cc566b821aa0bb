"""Row changes that a session is given with a statement are logged or refused, whatever the statement is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.events import RowsEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import Delete, Insert, Statement, Update
from binlogio.writer.batches import BatchChange, BatchSession
from binlogio.writer.rules.known_objects import KnownObjects, table_access
from binlogio.writer.rules.statement import Change, LoadedFile
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind
from memory_storage import MemoryStorage
from session_logs import CREATE_TEMPORARY, TEMPORARY, N, T, texts, writer

if TYPE_CHECKING:
    from collections.abc import Callable


U: Final = replace(T, name="u")
UN: Final = replace(T, name="un", engine="MyISAM")
TABLES: Final = (T, N, U, UN)
OBJECTS: Final = KnownObjects(
    temporary_tables=(TEMPORARY,),
    routines={"known": StatementFacts(tables=(table_access(U, write=True),)), "reads": StatementFacts()},
)
# Where a text is in the log, it means its rows: a replica executes them.
CHANGING: Final = (
    "INSERT INTO t VALUES (1,'x')",
    "REPLACE INTO n VALUES (1,'x')",
    "INSERT INTO t SELECT * FROM n",
    "UPDATE t SET v = 'y'",
    "UPDATE t, n SET t.v = 'y', n.v = 'z'",
    "DELETE FROM n WHERE id = 1",
    "UPDATE t SET v = 'y' LIMIT 0",
    "DELETE FROM t LIMIT 0",
    "SELECT unknown(1)",
    "SELECT known(1)",
    "SELECT reads(1)",
    "SELECT * FROM t",
    "SELECT * FROM t FOR UPDATE",
    "DO unknown(1)",
    "SET @a = unknown(1)",
    "VALUES ROW(unknown(1))",
    "TABLE t",
    "LOAD DATA INFILE 'x' INTO TABLE t",
    "CREATE TABLE made (id INT) SELECT id FROM t",
    "CREATE TABLE IF NOT EXISTS t SELECT * FROM n",
    "CREATE TEMPORARY TABLE tmp2 SELECT * FROM t",
    "INSERT INTO tmp VALUES (1,'x')",
    "INSERT INTO tmp SELECT unknown(1), 'x'",
    "INSERT INTO mysql.general_log SELECT * FROM t",
    "WITH d AS (SELECT 1) SELECT * FROM d",
)
OTHERS: Final = (
    "CALL p()",
    "EXPLAIN INSERT INTO t VALUES (1,'x')",
    "DESCRIBE t",
    "SHOW TABLES",
    "USE shop",
    "HELP 'x'",
    "EXECUTE prepared",
    "BINLOG 'AAAA'",
    "TRUNCATE TABLE t",
    "DROP TABLE t",
    "ALTER TABLE t ADD w INT",
    "CREATE TABLE made (id INT)",
    "CREATE TEMPORARY TABLE tmp2 (id INT)",
    "DROP TEMPORARY TABLE tmp",
    "FLUSH LOCAL TABLES",
    "GRANT SELECT ON *.* TO u",
)
ROW: Final = (1, "x")
Rows = Counter[tuple[str, Any, Any]]


def rows_of(changes: tuple[Change, ...]) -> Rows:
    """Return the rows of a log with these changes, as (table, before, after); the temporary table is never logged."""
    found: Rows = Counter()
    for change in changes:
        for row in change.rows:
            if isinstance(change, Update):
                before, after = row
            else:
                before, after = (None, row) if isinstance(change, Insert) else (row, None)
            if change.table is not TEMPORARY and before != after:
                found[change.table.name, before, after] += 1
    return found


def logged(storage: MemoryStorage) -> tuple[Rows, list[bytes]]:
    """Return the rows in the logs, and the texts of their statements."""
    rows: Rows = Counter()
    found: list[bytes] = []
    with open_logs(storage.streams()) as reader:
        for event in reader:
            if isinstance(event, (QueryEvent, ExecuteLoadQueryEvent)):
                found.append(event.sql)
            elif isinstance(event, RowsEvent):
                for change in reader.rows(event):
                    before, after = (one and tuple(one.values) for one in (change.before, change.after))
                    rows[reader.table_map(event).table, before, after] += 1
    return rows, found


def some_changes(draw: Callable[[Any], Any]) -> tuple[Change, ...]:
    """Return changes of tables that the statement names or not."""
    made: list[Change] = []
    for _ in range(draw(st.integers(1, 3))):
        table = draw(st.sampled_from((*TABLES, TEMPORARY)))
        number = draw(st.integers(0, 2))
        rows = [(one, "x") for one in range(number)]
        made.append(
            draw(
                st.sampled_from(
                    [
                        Insert(table, rows),
                        Delete(table, rows),
                        Update(table, [((one, "x"), (one, "y")) for one in range(number)]),
                    ]
                )
            )
        )
    return tuple(made)


@settings(max_examples=500)
@given(st.data())
def test_changes_of_any_statement_are_logged_or_refused(data: st.DataObject) -> None:
    """As rows, or by the text of a statement that changes rows.

    In all formats, in a transaction or not, by text, by facts, or without.
    """
    sql = data.draw(st.sampled_from(CHANGING + OTHERS))
    changes = some_changes(data.draw)
    kind = data.draw(st.sampled_from([None, "sql", *StatementKind]))
    in_transaction = data.draw(st.booleans())
    storage = MemoryStorage()
    refused = False

    with (
        writer(storage, binlog_format=data.draw(st.sampled_from(["STATEMENT", "ROW", "MIXED"]))) as log,
        log.session("shop") as session,
    ):
        session.execute(CREATE_TEMPORARY)
        if in_transaction:
            session.begin()
        try:
            if kind == "sql":
                statement = Statement.from_sql(sql, "shop", TABLES, changes, objects=OBJECTS)
            elif kind is None:
                statement = Statement(sql, changes)
            else:
                named = data.draw(st.lists(st.sampled_from(TABLES), max_size=2))
                facts = StatementFacts(
                    kind=kind,
                    tables=tuple(table_access(one, write=data.draw(st.booleans())) for one in named),
                    is_skipped=data.draw(st.booleans()),
                )
                statement = Statement(sql, changes, facts=facts, locked=[T])
                statement = replace(statement, table_exists=data.draw(st.booleans()))
            if data.draw(st.booleans()):
                statement = replace(statement, loaded_file=LoadedFile(b"1\tx\n"))
            session.execute(statement)
        except BinlogError:
            refused = True
        session.commit()
    rows, found = logged(storage)

    expected = rows_of(changes)
    stands_for_rows = sql.encode() in found and (kind not in ("sql", StatementKind.DDL) or sql in CHANGING)
    assert refused or not expected or rows == expected or stands_for_rows, (sql, kind, rows, expected, found)


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "ROW", "MIXED"])
@pytest.mark.parametrize("sql", ["SELECT f(1)", "DO f(1)", "SET @a = f(1)"])
def test_a_function_that_is_not_declared_is_logged_with_the_rows_that_it_changed(sql: str, binlog_format: str) -> None:
    """Its text in STATEMENT format; rows in MIXED, since what makes the body unsafe is not known."""
    storage = MemoryStorage()

    with writer(storage, binlog_format=binlog_format) as log, log.session("shop") as session:
        session.execute(Statement.from_sql(sql, "shop", [T], [Insert(T, [ROW])]))

    middle = [sql] if binlog_format == "STATEMENT" else ["TableMap", "WriteRows"]
    assert texts(storage) == ["BEGIN", *middle, "Xid"]


def test_a_trigger_that_is_not_declared_decides_what_rollback_leaves() -> None:
    """Its rows of a MyISAM table stay, so that the text stays in the log."""
    storage = MemoryStorage()
    changes = [Insert(T, [ROW]), Insert(N, [ROW])]

    with writer(storage) as log, log.session("shop") as session:
        session.begin()
        session.execute(Statement.from_sql("INSERT INTO t VALUES (1,'x')", "shop", [T], changes))
        session.rollback()

    assert texts(storage) == ["BEGIN", "INSERT INTO t VALUES (1,'x')", "ROLLBACK"]


def test_a_call_is_logged_as_the_statements_of_the_procedure() -> None:
    """Each is a transaction where the client has begun none; the warnings are those of all."""
    storage = MemoryStorage()
    statements = [
        Statement.from_sql("INSERT INTO t VALUES (1,'x')", "shop", [T], [Insert(T, [ROW])]),
        Statement(
            "CALL inner()", statements=[Statement.from_sql("DELETE FROM n LIMIT 1", "shop", [N], [Delete(N, [ROW])])]
        ),
    ]

    with writer(storage, binlog_format="STATEMENT") as log, log.session("shop") as session:
        session.execute(Statement.from_sql("CALL p()", "shop", [T, N]))
        session.execute(Statement("CALL p()", statements=statements))
        warnings = [warning.errno for warning in session.warnings]

    assert texts(storage) == [
        "BEGIN",
        "INSERT INTO t VALUES (1,'x')",
        "Xid",
        "BEGIN",
        "DELETE FROM n LIMIT 1",
        "COMMIT",
    ]
    assert warnings == [1592]


def test_changes_of_a_call_beside_its_statements_are_refused() -> None:
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session, pytest.raises(UnsupportedFeature, match="of its own"):
        session.execute(Statement("CALL p()", [Insert(T, [ROW])], statements=[Statement("DELETE FROM t")]))

    assert texts(storage) == []


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "ROW", "MIXED"])
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CALL p()", "each statement of a procedure"),
        ("EXPLAIN DELETE FROM t", "changes no rows"),
        ("DELETE FROM t LIMIT 0", "changes no rows"),
        ("TRUNCATE TABLE t", "logged as text"),
        ("ALTER TABLE t ADD w INT", "logged as text"),
        ("CREATE TEMPORARY TABLE tmp2 (id INT)", "changes no rows"),
        ("CREATE TABLE IF NOT EXISTS t SELECT * FROM n", "changes no rows"),
    ],
)
def test_what_a_statement_cannot_have_changed_is_refused(sql: str, reason: str, binlog_format: str) -> None:
    """The message names the table and how many rows; nothing is logged, and the transaction continues."""
    storage = MemoryStorage()

    with writer(storage, binlog_format=binlog_format) as log, log.session("shop") as session:
        session.begin()
        session.execute(Statement("INSERT", [Insert(T, [(2, "kept")])]))
        with pytest.raises(UnsupportedFeature, match=reason) as caught:
            session.execute(Statement.from_sql(sql, "shop", [T, N], [Insert(T, [ROW])]))
        session.commit()

    assert "1 row of shop.t" in str(caught.value)
    assert texts(storage)[0] == "BEGIN"
    assert texts(storage)[-1] == "Xid"


def test_a_file_is_needed_for_load_data_as_text() -> None:
    """A replica that gets the text alone has no rows."""
    load = Statement.from_sql("LOAD DATA INFILE 'x' INTO TABLE t", "shop", [T], [Insert(T, [ROW])])

    with writer(MemoryStorage()) as log, log.session("shop") as session:
        with pytest.raises(UnsupportedFeature, match="loaded_file"):
            session.execute(load)
        session.execute(replace(load, loaded_file=LoadedFile(b"1\tx\n")))


def test_an_update_of_a_column_that_it_does_not_name_is_refused() -> None:
    """A minimal image would leave the new value out."""
    table = TableDefinition(
        "shop",
        "w",
        (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("a", "int"), ColumnDefinition("b", "int")),
        ("id",),
    )  # fmt: skip
    update = Update(table, [((1, 1, 1), (1, 2, 2))], columns=("a",))

    with (
        writer(MemoryStorage(), binlog_format="ROW", binlog_row_image="MINIMAL") as log,
        log.session() as session,
        pytest.raises(UnsupportedFeature, match=r"shop\.w.*: the row has a new value.*found b"),
    ):
        session.execute(Statement("UPDATE", [update]))


def test_a_batch_with_another_number_of_rows_before_and_after_is_refused() -> None:
    """Whichever has none."""
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([("id", pa.int32()), ("v", pa.string())])
    none, one = (pa.RecordBatch.from_pylist(rows, schema=schema) for rows in ([], [{"id": 1, "v": "x"}]))

    with writer(MemoryStorage(), gtid_mode="ON") as log:
        session = BatchSession(log)
        for before, after in ((none, one), (one, none)):
            with pytest.raises(BinlogError, match="rows"):
                session.write([BatchChange(T, before, after)])
