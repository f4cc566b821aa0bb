"""`binlogio dump --format sql`: the output for the server's client, checked without a client.

With one, see `test_hostile_servers.py`.
"""

from __future__ import annotations

import base64
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

import binlogio
from binlogio import ColumnDefinition, TableDefinition
from binlogio.constants import BINLOG_MAGIC, ColumnType, EventType, HeaderFlag, QueryStatus
from binlogio.events import BinlogEvent
from binlogio.events.control import IncidentEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.load import (
    AppendBlockEvent,
    BeginLoadQueryEvent,
    DeleteFileEvent,
    ExecLoadEvent,
    ExecuteLoadQueryEvent,
)
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.query import StatusVar
from binlogio.events.rows import RowsEvent, WriteRowsEvent
from binlogio.events.statement_context import IntvarEvent
from binlogio.events.table_map import TableMapEvent
from binlogio_cli.dump import sql_output
from both_kernels import KERNELS, kernel_set_to
from corpus import MARIADB, MARIADB118, MYSQL
from dumped_logs import ROWS, dump, text_of, write
from logs import POST_HEADER_SIZES, POST_HEADERS_OF_MARIADB, description, encode, header, query, transaction
from row_events import group, rows_of

if TYPE_CHECKING:
    from pathlib import Path

SQL_WITH_BACKSLASH: Final = b"SELECT '\xff\\'"


def sql_of(*arguments: object) -> str:
    """Return the output, byte for byte."""
    result = dump("--format", "sql", *arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout_bytes.decode("utf-8", "surrogateescape")


def statements(text: str) -> list[str]:
    """Return the statements that the client sends."""
    return [one.strip() for one in text.split("/*!*/;\n") if one.strip()]


def test_statements_have_their_context_and_their_end(tmp_path: Path) -> None:
    """They come in the order in which a server needs them."""
    path = write(tmp_path, query("BEGIN"), IntvarEvent(2, 5, header(EventType.INTVAR_EVENT)), *transaction(1)[1:])
    found = statements(sql_of(path))

    assert found[0] == "DELIMITER"
    assert found[1] == "/*!\\C utf8mb4 */"
    assert found[2].startswith("BINLOG '")
    assert found[4] == "/**/ USE `d`"
    assert found[6:8] == ["BEGIN", "SET INSERT_ID=5"]
    assert found[-3:] == ["INSERT INTO t VALUES (1)", "COMMIT", "DELIMITER ;"]


def test_statement_in_unknown_bytes_comes_out_as_it_went_in(tmp_path: Path) -> None:
    """Statements that the client would split differently are hexadecimal digits."""
    path = write(tmp_path, replace(query(""), sql=b"SELECT '\xff\xfe'"), replace(query(""), sql=SQL_WITH_BACKSLASH))
    text = sql_of(path).encode("utf-8", "surrogateescape")

    assert b"\nSELECT '\xff\xfe'\n/*!*/;\n" in text
    assert f"SET @binlogio = x'{SQL_WITH_BACKSLASH.hex()}'/*!*/;\n".encode() in text
    assert b"\nPREPARE binlogio FROM @binlogio/*!*/;\n" in text


@pytest.mark.parametrize(("mode", "is_plain"), [(0, True), (1 << 2, False), (1 << 20, False), (None, False)])
def test_backslash_is_left_where_the_mode_says_what_it_is(tmp_path: Path, mode: int | None, is_plain: bool) -> None:
    """ANSI_QUOTES and NO_BACKSLASH_ESCAPES change its meaning; without sql_mode the meaning is unknown."""
    variables = () if mode is None else (StatusVar(QueryStatus.SQL_MODE, mode),)
    path = write(tmp_path, replace(query("SELECT 'a\\'b'"), status_vars=variables))

    assert ("\nSELECT 'a\\'b'\n" in sql_of(path)) == is_plain


def test_database_that_a_statement_makes_is_not_used_before(tmp_path: Path) -> None:
    """The event has a flag for it."""
    made = query("CREATE DATABASE new", schema="new")
    flagged = replace(made, header=replace(made.header, flags=HeaderFlag.SUPPRESS_USE))

    assert "USE" not in sql_of(write(tmp_path, flagged))
    assert "/**/ USE `new`" in sql_of(write(tmp_path, made))


def test_rows_are_for_the_servers_own_applier() -> None:
    """Each is one BINLOG statement; gtid_next is reset after the format description."""
    text = sql_of(ROWS)
    shown = text_of("-s", ROWS)

    assert text.count("\nBINLOG '") == 1 + len(re.findall(r"table id \d+", text_of(ROWS)))
    assert "/*!50700 SET @@session.gtid_next = 'AUTOMATIC' */" in text
    assert shown.count("### ") > 0
    assert "### " not in text


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_of_mysql_5_5_are_sent_in_the_current_version(kernel: str, tmp_path: Path) -> None:
    """Its own version is refused by MySQL 9.7; the format description has the sizes of the current one."""
    old = description(None, version="5.5.27-log", sizes=POST_HEADER_SIZES[:27])
    table, current = rows_of((None, (7,)), table=TableDefinition("d", "t", (ColumnDefinition("id", "int"),)))
    rows = replace(current, header=header(EventType.WRITE_ROWS_EVENT_V1))
    (path := tmp_path / "binlog.000001").write_bytes(BINLOG_MAGIC + encode([old, *group(table, rows)]))
    with kernel_set_to(kernel):
        sent = [base64.b64decode(one) for one in re.findall(r"BINLOG '(.*?)'", sql_of(path), re.DOTALL)]
    described, _, found = binlogio.open(io.BytesIO(BINLOG_MAGIC + b"".join(sent)))

    assert isinstance(described, FormatDescriptionEvent)
    assert isinstance(found, WriteRowsEvent)
    assert described.post_header_sizes == (*POST_HEADER_SIZES[:27], 0, 0, 10, 10, 10)
    assert (found.header.type_code, found.images) == (EventType.WRITE_ROWS_EVENT, rows.images)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_have_all_table_maps_of_their_statement(kernel: str) -> None:
    """Without that of a child table MySQL 9.7 logs what a foreign key changes in it without a table map."""
    log = MYSQL / "multi_table_stmt" / "binlog.000001"
    expected: list[list[str]] = []
    tables: list[str] = []
    for event in binlogio.open(log):
        if isinstance(event, TableMapEvent):
            tables.append(event.table)
        elif isinstance(event, RowsEvent):
            expected.append(tables)
            tables = [] if event.ends_statement else tables
    with kernel_set_to(kernel):
        described, *sent = [base64.b64decode(one) for one in re.findall(r"BINLOG '(.*?)'", sql_of(log), re.DOTALL)]
    found = [
        [
            event.table
            for event in binlogio.open(io.BytesIO(BINLOG_MAGIC + described + one))
            if type(event) is TableMapEvent
        ]
        for one in sent
    ]

    assert max(map(len, expected)) == 3
    assert found == expected


@pytest.mark.parametrize("kernel", KERNELS)
def test_settings_of_mariadb_are_written_where_they_change(kernel: str, tmp_path: Path) -> None:
    """In digits, for clients that remove comments; the settings of a group that is not written are taken back."""
    usual, without_checks = 1 << 24, 1 << 24 | 1 << 15

    def insert(flags: int, table: str) -> list[BinlogEvent]:
        begin = MariadbGtidEvent(sequence_number=1, domain_id=0, header=header(EventType.MARIADB_GTID_EVENT))
        change = replace(query(f"INSERT INTO {table} VALUES (1)"), status_vars=(StatusVar(QueryStatus.FLAGS2, flags),))
        return [begin, change, *transaction(1)[-1:]]

    order = ((usual, "t"), (usual, "t"), (without_checks, "u"), *[(without_checks, "t")] * 2, (usual, "t"))
    first = description(version="10.11.6-MariaDB", sizes=POST_HEADERS_OF_MARIADB)
    events = [event for flags, table in order for event in insert(flags, table)]
    (path := tmp_path / "binlog.000001").write_bytes(BINLOG_MAGIC + encode([first, *events]))
    with kernel_set_to(kernel):
        whole, chosen = sql_of(path), sql_of("--table", "d.t", path)
    lines = re.findall("x'([0-9a-f]+)'|(?m:^)INSERT INTO (.)", whole)
    found = [bytes.fromhex(digits).decode() if digits else table for digits, table in lines]
    setting = "SET @@session.timestamp = DEFAULT /*M!100201 , @@session.check_constraint_checks={} */"

    assert [one[: len(setting) - 1] for one in found] == [
        *(setting.format(1), "t", "t", setting.format(0), "u", "t", "t", setting.format(1), "t")
    ]
    assert chosen.count("EXECUTE binlogio") == 3


@pytest.mark.parametrize("kernel", KERNELS)
def test_settings_of_mariadb_that_were_forgotten_are_written_again(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory for them is bounded, and no statement runs with the settings of another one."""
    monkeypatch.setattr(sql_output, "_MOST_NUMBERS", 2)
    flags = [0, 1 << 15, 1 << 28, 1 << 30, 1 << 15, 0, 0, 1 << 28]
    first = description(version="10.11.6-MariaDB", sizes=POST_HEADERS_OF_MARIADB)
    changes = [
        replace(query(f"INSERT INTO t VALUES ({one})"), status_vars=(StatusVar(QueryStatus.FLAGS2, one),))
        for one in flags
    ]
    begin = MariadbGtidEvent(sequence_number=1, domain_id=0, header=header(EventType.MARIADB_GTID_EVENT))
    events = [event for change in changes for event in (begin, change, *transaction(1)[-1:])]
    (path := tmp_path / "binlog.000001").write_bytes(BINLOG_MAGIC + encode([first, *events]))
    with kernel_set_to(kernel):
        text = sql_of(path)
    found = [
        (bytes.fromhex(digits).decode(), sql)
        for digits, sql in re.findall(r"x'([0-9a-f]+)'|INSERT INTO t VALUES \((\d+)\)", text)
    ]
    checked, names = "", ("check_constraint_checks=0", "sql_if_exists=1", "insert_history=1")
    for setting, number in found:
        checked = setting or checked
        if number:
            expected = [int(number) == 1 << bit for bit in (15, 28, 30)]
            assert [name in checked for name in names] == expected

    assert len([one for one, _ in found if one]) == 7


@pytest.mark.parametrize("kernel", KERNELS)
def test_tagged_gtids_are_left_out_at_the_begin_of_a_log(kernel: str) -> None:
    with kernel_set_to(kernel):
        with_gtids, without = (
            statements(sql_of(*options, MYSQL / "gtid_on" / "binlog.000002")) for options in ((), ("--skip-gtids",))
        )

    assert any(":tag" in sql for sql in with_gtids)
    assert without == [sql for sql in with_gtids if "gtid_next = '" not in sql or "AUTOMATIC' */" in sql]


def test_transactions_have_their_gtids_unless_these_are_skipped() -> None:
    """GTIDs of MySQL and of MariaDB are set."""
    mysql, mariadb = MYSQL / "gtid_on" / "binlog.000001", MARIADB / "gtid" / "binlog.000001"

    assert re.search(r"SET @@session\.gtid_next = '[0-9a-f-]{36}:1'\n", sql_of(mysql))
    assert sql_of(mysql).endswith("SET @@session.gtid_next = 'AUTOMATIC'\n/*!*/;\nDELIMITER ;\n")
    assert not re.search("gtid_next = '[0-9a-f]{8}-", sql_of("--skip-gtids", mysql))
    assert re.search(
        r"@@session\.gtid_domain_id = \d+, @@session\.server_id = \d+, @@session\.gtid_seq_no = ", sql_of(mariadb)
    )
    assert "gtid_seq_no" not in sql_of("--skip-gtids", mariadb)
    assert "\nSTART TRANSACTION\n" in sql_of("--skip-gtids", mariadb)


def test_filters_choose_rows_and_statements() -> None:
    """Filters select the same events as in text output."""
    path = ROWS

    assert sql_of("-T", "pk2", path).count("\nBINLOG '") < sql_of(path).count("\nBINLOG '")
    assert "CREATE TABLE pk2 (" in sql_of("-T", "pk2", path)
    assert "CREATE TABLE pk (" not in sql_of("-T", "pk2", path)


def test_what_has_no_sql_is_refused(tmp_path: Path) -> None:
    """LOAD DATA without a directory for its file, that of old servers, and incidents are refused."""
    load = ExecuteLoadQueryEvent(
        7, 0, 0, 1, 9, 20, 0, (), "d", b"LOAD DATA INFILE 'x' INTO TABLE t", header(EventType.EXECUTE_LOAD_QUERY_EVENT)
    )
    refused = [
        dump("--format", "sql", write(tmp_path, event))
        for event in (
            load,
            IncidentEvent(1, "gap", header(EventType.INCIDENT_EVENT)),
            ExecLoadEvent(1, header(EventType.EXEC_LOAD_EVENT)),
        )
    ]

    assert [result.exit_code for result in refused] == [1, 1, 1]
    assert re.search(
        r"at \d+: EXECUTE_LOAD_QUERY_EVENT: LOAD DATA needs its file beside the SQL \(give --local-load DIR",
        refused[0].stderr,
    )
    assert re.search(r"at \d+: INCIDENT_EVENT: incident: the source lost changes here: gap", refused[1].stderr)
    assert re.search(r"at \d+: EXEC_LOAD_EVENT: LOAD DATA of a server before 5.0.3", refused[2].stderr)


def test_files_of_load_data_are_written(tmp_path: Path) -> None:
    """Under new names; those without a LOAD DATA are removed."""
    (tmp_path / "SQL_LOAD_MB-1-0").write_bytes(b"of another program")

    def block(number: int, text: bytes) -> BeginLoadQueryEvent:
        return BeginLoadQueryEvent(number, text, header(EventType.BEGIN_LOAD_QUERY_EVENT))

    def load(number: int, duplicates: int) -> ExecuteLoadQueryEvent:
        sql = b"LOAD DATA INFILE 'x' INTO TABLE t"
        kind = header(EventType.EXECUTE_LOAD_QUERY_EVENT)
        return ExecuteLoadQueryEvent(7, 0, 0, number, 9, 25, duplicates, (), "d", sql, kind)

    path = write(
        tmp_path,
        block(1, b"1\n"),
        AppendBlockEvent(1, b"2\n", header(EventType.APPEND_BLOCK_EVENT)),
        block(2, b"3\n"),
        load(1, 2),
        DeleteFileEvent(2, header(EventType.DELETE_FILE_EVENT)),
        block(3, b"4\n"),
        DeleteFileEvent(3, header(EventType.DELETE_FILE_EVENT)),
    )
    done = dump("--format", "sql", "--local-load", tmp_path, path)

    assert done.exit_code == 0, done.stderr
    assert f"LOAD DATA LOCAL INFILE '{tmp_path}/SQL_LOAD_MB-1-1' REPLACE INTO TABLE t\n" in done.stdout
    found = {file.name: file.read_bytes() for file in tmp_path.glob("SQL*")}
    assert found == {"SQL_LOAD_MB-1-0": b"of another program", "SQL_LOAD_MB-1-1": b"1\n2\n"}

    refused = dump("--format", "sql", "--local-load", tmp_path, write(tmp_path, load(9, 0)))
    assert "the file of a LOAD DATA (file_id 9) is not in what is dumped" in refused.stderr


def test_files_of_statements_that_are_not_written_do_not_stay(tmp_path: Path) -> None:
    """Because a filter leaves the statement out, or because of damage before it, with and without --force-read."""
    block = BeginLoadQueryEvent(1, b"1\n", header(EventType.BEGIN_LOAD_QUERY_EVENT))
    kind = header(EventType.EXECUTE_LOAD_QUERY_EVENT)
    load = ExecuteLoadQueryEvent(7, 0, 0, 1, 9, 25, 0, (), "d", b"LOAD DATA INFILE 'x' INTO TABLE t", kind)
    path = write(tmp_path, block, load, *transaction(1))
    into = ("--format", "sql", "--local-load", tmp_path)
    filtered = dump(*into, "--exclude-table", "d.t", path)
    left = [file.name for file in tmp_path.glob("SQL*")]
    wanted = dump(*into, "-d", "d", path)
    done = [file.name for file in tmp_path.glob("SQL*")]
    data = bytearray(path.read_bytes())
    data[data.index(b"LOAD DATA")] ^= 1
    path.write_bytes(data)
    refused, continued = dump(*into, path), dump(*into, "--force-read", path)

    assert (filtered.exit_code, wanted.exit_code, refused.exit_code, continued.exit_code) == (0, 0, 1, 1)
    assert left == []
    assert done == ["SQL_LOAD_MB-1-0"]
    assert [file.name for file in tmp_path.glob("SQL*")] == done
    assert "are left out" in continued.stderr


def test_xa_and_alter_in_two_phases_of_mariadb() -> None:
    """The GTID event replaces XA START, and a START ALTER changes nothing."""
    xa = dump("--format", "sql", MARIADB118 / "gtid" / "binlog.000001").stdout
    alter = dump("--format", "sql", MARIADB118 / "alter" / "binlog.000001").stdout

    assert xa.count("XA START X'7831',X'62',5\n") == 1
    assert xa.index("XA START X'7831',X'62',5") < xa.index("XA END X'7831',X'62',5")
    assert alter.count("MODIFY b BIGINT UNSIGNED NOT NULL DEFAULT 5") == 1


def test_xa_transaction_ends_as_in_the_log_if_its_tables_are_selected(kernel: str) -> None:
    """XA COMMIT is a group of its own, without tables: it belongs to the rows of its XA PREPARE."""
    log = MARIADB118 / "gtid" / "binlog.000001"
    whole, some = (dump("--format", "sql", *more, log).stdout for more in ((), ("--exclude-table", "corpus.m")))
    none = dump("--format", "sql", "--table", "corpus.m", log).stdout

    assert re.findall("^XA .*", some, re.MULTILINE) == re.findall("^XA .*", whole, re.MULTILINE)
    assert some.count("XA COMMIT") == some.count("XA ROLLBACK") == 1
    assert "XA " not in none


def test_it_is_not_for_a_terminal(tmp_path: Path) -> None:
    """Text of a log could act on the terminal."""
    path = write(tmp_path, *transaction(1))
    terminal, end = os.openpty()
    command = [sys.executable, "-m", "binlogio_cli", "dump", "--format", "sql", str(path)]
    refused = subprocess.run(command, stdout=end, stderr=subprocess.PIPE, check=False)
    filed = subprocess.run([*command, "-r", str(tmp_path / "out.sql")], stdout=end, check=False)
    os.close(terminal)
    os.close(end)

    assert refused.returncode == 2
    assert b"needs a pipe or --output" in refused.stderr
    assert filed.returncode == 0
    assert (tmp_path / "out.sql").read_text().endswith("DELIMITER ;\n")


@pytest.mark.parametrize("form", ["text", "json", "sql"])
def test_changes_as_text_are_refused_where_rows_are_required(form: str) -> None:
    required = ("--format", form, "--require-row-format")
    for folder in (MYSQL, MARIADB):
        refused = dump(*required, folder / "format_statement" / "binlog.000001")
        assert refused.exit_code == 1
        assert re.search(r"at \d+: \w+_EVENT: .* is in the log as SQL text; only row changes", refused.stderr)
        rows = folder / "rowimage_full" / "binlog.000001"
        shown = dump(*required, rows)
        assert shown.exit_code == 0, shown.stderr
        setting = "/*!80019 SET @@session.require_row_format = 1 */\n/*!*/;\n" * (form == "sql" and folder is MYSQL)
        assert shown.stdout.replace(setting, "", 1 if setting else 0) == text_of("--format", form, rows)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("version", "is_guarded"), [("5.7.44", True), ("10.11.18-MariaDB", False)])
def test_rows_that_mysql_9_misreads_have_a_guard(tmp_path: Path, kernel: str, version: str, is_guarded: bool) -> None:
    """It takes DATETIME of servers before 5.6 for the present type; other servers skip the comment."""
    table = TableDefinition("d", "t", (ColumnDefinition("a", "datetime"),))
    old = replace(table.table_map(7), column_types=(ColumnType.DATETIME,), metadata=(0,), optional_metadata=())
    rows = WriteRowsEvent(7, 1, b"", 1, b"\1", b"\0" * 9, header(EventType.WRITE_ROWS_EVENT))
    sizes = POST_HEADERS_OF_MARIADB if "MariaDB" in version else POST_HEADER_SIZES
    with kernel_set_to(kernel):
        path = write(tmp_path, description(version=version, sizes=sizes), *group(old, rows), *group(old, rows))
        sent = statements(sql_of(path))
    guards = [number for number, sql in enumerate(sent) if sql.startswith("/*!90000 SIGNAL")]

    assert all(sent[number + 1].startswith("BINLOG '") for number in guards)
    assert len(guards) == (2 if is_guarded else 0)
