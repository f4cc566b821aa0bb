"""`binlogio dump`: filters by database, table, GTID, position and time."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.constants import EventType
from binlogio.events.load import (
    AppendBlockEvent,
    BeginLoadQueryEvent,
    CreateFileEvent,
    ExecLoadEvent,
    ExecuteLoadQueryEvent,
    LoadEvent,
    LoadOptions,
)
from binlogio.events.statement_context import IntvarEvent
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL
from dumped_logs import FULL_METADATA, GTID_ON, ROWS, dump, json_of, text_of, write
from logs import header, transaction

if TYPE_CHECKING:
    from pathlib import Path


UUID: Final = "2f658ac8-e51b-11f1-a314-02fc00000001"


def test_database_filter_keeps_whole_groups_only_where_something_is_left() -> None:
    """Transactions of other databases leave no empty BEGIN and COMMIT."""
    lines = json_of("-d", "dätabase-2", FULL_METADATA)
    types = [line["type"] for line in lines if line["pos"] > 200]

    assert types.count("GTID_LOG_EVENT") == types.count("QUERY_EVENT") == 2  # CREATE DATABASE, the INSERT's BEGIN
    assert types.count("WRITE_ROWS_EVENT") == types.count("XID_EVENT") == types.count("TABLE_MAP_EVENT") == 1


@pytest.mark.parametrize("glob", ["pk2", "corpus.pk2", "*.pk2", "pk[2]"])
def test_table_filter_shows_rows_and_statements_of_the_table(glob: str) -> None:
    """Globs, with and without the database."""
    text = text_of("-s", "-T", glob, ROWS)

    assert "CREATE TABLE pk2 (" in text
    assert set(re.findall(r"^### (?:INSERT INTO|UPDATE|DELETE FROM) (.*)$", text, re.MULTILINE)) == {"`corpus`.`pk2`"}
    assert "CREATE TABLE pk (" not in text


def test_filters_may_be_repeated() -> None:
    """Changes of both tables are shown."""
    text = text_of("-s", "-T", "pk", "-T", "nokey", ROWS)

    assert set(re.findall(r"^### INSERT INTO (.*)$", text, re.MULTILINE)) == {"`corpus`.`pk`", "`corpus`.`nokey`"}


def test_statement_of_another_table_takes_its_text_with_it() -> None:
    """ROWS_QUERY belongs to the rows after it, not to its transaction."""
    lines = json_of(MYSQL / "rows_query" / "binlog.000001")
    tables = {line["table"] for line in lines if line["type"] == "TABLE_MAP_EVENT"}
    table = min(tables)
    kept = json_of("-T", table, MYSQL / "rows_query" / "binlog.000001")
    queries = [line["sql"] for line in kept if line["type"] == "ROWS_QUERY_LOG_EVENT"]

    assert queries
    assert len(queries) <= sum(line["type"].endswith("ROWS_EVENT") for line in kept)


@pytest.mark.parametrize("form", ["text", "json", "sql"])
def test_large_events_of_groups_that_are_not_selected_are_passed(tmp_path: Path, form: str) -> None:
    """They are read event by event, and only statements are looked into."""
    table = TableDefinition("shop", "b", (ColumnDefinition("data", "longblob"),))
    with BinlogWriter(tmp_path / "binlog", variables=ServerVariables(server_id=7)) as log, log.session() as session:
        for size in (10, 300_000, 5_000_000, 10):
            session.begin()
            session.execute(Statement("INSERT", [Insert(table, [{"data": b"x" * size}])]))
            session.commit()
    path = str(tmp_path / "binlog.000001")
    some = CliRunner().invoke(cli, ["dump", "--format", form, "--server-id", "7", path])
    none = CliRunner().invoke(cli, ["dump", "--format", form, "--server-id", "99", path])

    assert (some.exit_code, none.exit_code) == (0, 0), none.exception
    assert len(none.stdout) < 10_000 < len(some.stdout)


def _is_gtid(line: dict[str, Any]) -> bool:
    return "gtid" in line and "rows" not in line


def test_gtid_sets_choose_transactions() -> None:
    """Tagged GTIDs can be selected too."""
    kept = json_of("--include-gtids", f"{UUID}:2-4:tag:1", GTID_ON)
    gtids = [line["gtid"] for line in kept if _is_gtid(line)]

    assert gtids == [f"{UUID}:2", f"{UUID}:3", f"{UUID}:4", f"{UUID}:tag:1"]


ROTATED: Final = [MYSQL / "rotated" / f"binlog.00000{number}" for number in (1, 2, 3)]


def test_sql_of_chosen_gtids_does_not_read_logs_without_them(tmp_path: Path) -> None:
    """The same statements; a log that is damaged after its head is read only where it may have a transaction."""
    damaged = tmp_path / "binlog.000003"
    data = bytearray(ROTATED[2].read_bytes())
    data[-60] ^= 1
    damaged.write_bytes(data)
    logs = [*ROTATED[:2], damaged]
    sql, rows = (text_of("--format", "sql", "--include-gtids", f"{UUID}:4-5", *some) for some in (logs, ROTATED[1:2]))

    assert sql == rows
    assert sql.count("SET @@session.gtid_next = '2f") == 2
    for more in ([], ["--exclude-gtids", f"{UUID}:4"], ["--include-gtids", f"{UUID}:4-6"]):
        with pytest.raises(AssertionError, match="checksum"):
            text_of("--format", "sql", *more, *logs)
    with pytest.raises(AssertionError, match="checksum"):
        text_of("--include-gtids", f"{UUID}:4-5", *logs)


def test_excluded_gtids_are_left_out() -> None:
    """All other transactions are shown."""
    everything = [line["gtid"] for line in json_of(GTID_ON) if _is_gtid(line)]
    rest = [line["gtid"] for line in json_of("--exclude-gtids", f"{UUID}:1-4", GTID_ON) if _is_gtid(line)]

    assert rest == everything[4:]


def _mariadb_numbers(*options: str) -> list[str]:
    return [line["gtid"] for line in json_of(*options, MARIADB / "gtid" / "binlog.000001") if _is_gtid(line)]


def test_gtid_of_mariadb_selects_its_own_transaction_only() -> None:
    """Of this domain and this server; a range has its ends."""
    everything = _mariadb_numbers()

    assert _mariadb_numbers("--include-gtids", "0-1-2") == ["0-1-2"]
    assert _mariadb_numbers("--include-gtids", " 7-1-1, 0-5-3, 0-1-2..4,0-1-4 .. 5") == [
        *("0-1-2", "0-1-3", "0-1-4", "0-1-5"),
        "7-1-1",
    ]
    assert _mariadb_numbers("--exclude-gtids", "0-1-4") == [gtid for gtid in everything if gtid != "0-1-4"]
    assert _mariadb_numbers("--exclude-gtids", "0-1-1..99999") == [
        gtid for gtid in everything if not gtid.startswith("0-")
    ]


def test_start_and_stop_positions_of_gtids_are_those_of_the_tool_of_mariadb() -> None:
    """As in `mariadb-binlog`: after the start, up to the stop. Other domains: all without a stop, none with one."""
    everything = _mariadb_numbers()

    assert _mariadb_numbers("--start-position", "0-1-2") == everything[2:]
    assert _mariadb_numbers("--stop-position", "0-1-2") == everything[:2] == ["0-1-1", "0-1-2"]
    assert _mariadb_numbers("--start-position", "0-5-1", "--stop-position", "0-7-3") == ["0-1-2", "0-1-3"]
    assert _mariadb_numbers("--stop-position", "0-1-1, 7-1-1") == ["0-1-1", "7-1-1"]


def test_refused_position_names_what_is_expected() -> None:
    """Neither an offset nor GTIDs; two of one domain."""
    for text, message in (
        ("binlog.000001:x", "not a position; expected an offset, FILE:OFFSET"),
        ("binlog.000009:4", "the start position is in none of the given logs, found binlog.000009"),
        ("-5", "not a position; expected an offset, FILE:OFFSET"),
        ("0-1-2,0-1-3", "multiple GTIDs of one domain"),
    ):
        result = CliRunner().invoke(cli, ["dump", "--start-position", text, str(GTID_ON)])

        assert result.exit_code == 2
        assert message in result.stderr


def test_positions_cut_between_event_groups() -> None:
    """The format description is there in any case. Inside of a group a position is refused, with the bounds."""
    lines = json_of("--start-position", "349", "--stop-position", "584", GTID_ON)
    places = [line["pos"] for line in lines]

    assert places[:2] == [4, 349]
    assert max(places) < 584
    for option in ("--start-position", "--stop-position"):
        inside = CliRunner().invoke(cli, ["dump", option, "235", str(GTID_ON)])
        assert inside.exit_code == 2
        assert "235 is inside an event group, expected 158, where it begins, or 349, where it ends" in inside.stderr


def test_times_choose_whole_groups(tmp_path: Path) -> None:
    """From the first group that begins in time up to the first that begins too late.

    Their events' own times do not matter.
    """
    events = [*transaction(1), *transaction(2), *transaction(3)]
    timed = [event_at(event, 1000 + 10 * (index // 3) + 100 * (index % 3 == 2)) for index, event in enumerate(events)]
    path = write(tmp_path, *timed)
    lines = json_of("--start-datetime", "1970-01-01 00:16:50", "--stop-datetime", "1970-01-01T00:17:00Z", path)

    assert [line.get("xid", line.get("sql")) for line in lines[1:]] == ["BEGIN", "INSERT INTO t VALUES (2)", 2]


def event_at(event: Any, timestamp: int) -> Any:
    return replace(event, header=replace(event.header, timestamp=timestamp))


def test_load_data_is_kept_together_by_a_filter(tmp_path: Path) -> None:
    """The blocks of the file are shown only with their statement."""
    load = ExecuteLoadQueryEvent(
        7,
        0,
        0,
        1,
        9,
        20,
        0,
        (),
        "wanted",
        b"LOAD DATA INFILE 'x' INTO TABLE t",
        header(EventType.EXECUTE_LOAD_QUERY_EVENT),
    )
    blocks = [
        BeginLoadQueryEvent(1, b"1\n", header(EventType.BEGIN_LOAD_QUERY_EVENT)),
        AppendBlockEvent(1, b"2\n", header(EventType.APPEND_BLOCK_EVENT)),
    ]
    path = write(tmp_path, IntvarEvent(2, 5, header(EventType.INTVAR_EVENT)), *blocks, load, *transaction(1))
    kept = [line["type"] for line in json_of("-d", "wanted", path)][1:]
    dropped = [line["type"] for line in json_of("-d", "d", path)][1:]

    assert kept == ["INTVAR_EVENT", "BEGIN_LOAD_QUERY_EVENT", "APPEND_BLOCK_EVENT", "EXECUTE_LOAD_QUERY_EVENT"]
    assert dropped == ["QUERY_EVENT", "QUERY_EVENT", "XID_EVENT"]


def test_load_data_of_old_servers_is_selected_by_its_table(tmp_path: Path) -> None:
    """It has a table and no statement; its file and EXEC_LOAD_EVENT go with it."""
    options = LoadOptions(b"\t", b"", b"\n", b"", b"\\", 0, None)
    path = write(
        tmp_path,
        CreateFileEvent(7, 0, 0, 1, options, (), "t", "wanted", b"f", b"1\n", header(EventType.CREATE_FILE_EVENT)),
        AppendBlockEvent(1, b"2\n", header(EventType.APPEND_BLOCK_EVENT)),
        ExecLoadEvent(1, header(EventType.EXEC_LOAD_EVENT)),
        LoadEvent(7, 0, 0, options, (), "t", "other", b"f", header(EventType.NEW_LOAD_EVENT)),
    )
    kept = [line["type"] for line in json_of("-d", "wanted", path)][1:]
    other = [line["type"] for line in json_of("-T", "other.t", path)][1:]

    assert kept == ["CREATE_FILE_EVENT", "APPEND_BLOCK_EVENT", "EXEC_LOAD_EVENT"]
    assert other == ["NEW_LOAD_EVENT"]
    assert dump("-T", "u", path).exit_code == 2


OTHERS: Final = (MARIADB / "basic_row" / "binlog.000001", MYSQL / "compressed" / "binlog.000001")


@pytest.mark.parametrize("log", [ROWS, FULL_METADATA, GTID_ON, *OTHERS])
@pytest.mark.parametrize("form", ["text", "json", "sql"])
def test_limit_shows_the_first_event_groups(log: Path, form: str) -> None:
    """The output is the beginning of that without a limit, and ends with a complete group."""
    foot = {"text": "# End of log", "json": "\0", "sql": "DELIMITER ;"}[form]
    resets = "SET @@session.gtid_next = 'AUTOMATIC'\n/*!*/;\n"  # of the foot, after GTIDs of MySQL
    whole = text_of("--format", form, log)
    outputs = [text_of("--format", form, "--limit", str(count), log) for count in (1, 2, 5)]
    cuts = [output.partition(foot)[0].removesuffix(resets) for output in outputs]

    assert all(whole.startswith(cut) for cut in cuts)
    assert len(set(cuts)) == 3


def test_limit_counts_groups_with_a_selected_change() -> None:
    """Groups of other tables are not counted, and a limit above the number of groups shows all."""
    chosen = ("-T", "pk2", ROWS)
    whole = json_of(*chosen)

    first = json_of("--limit", "1", *chosen)
    assert "pk2" in str(first)
    assert first == whole[: len(first)] != whole
    assert json_of("--limit", "1000", *chosen) == whole
