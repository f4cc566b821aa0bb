"""Conditions of `read_rows`, `read_tables` and `export`, and selections of names that the logs do not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from click import Context, Option
from click.testing import CliRunner

import binlogio
from binlogio import (
    BinlogWriter,
    ColumnDefinition,
    EventFilter,
    Insert,
    Range,
    ServerVariables,
    Statement,
    TableDefinition,
)
from binlogio.archive.export import export
from binlogio.errors import BinlogFormatError, ConditionError, UnsupportedFeature
from binlogio.selection.event_filter import AllExcept, parse_gtid_set
from binlogio_cli.main import cli
from binlogio_cli.selection import selection_options
from corpus import FIXTURES
from logs import log as log_of
from logs import query

LOGS: Final = [str(FIXTURES / "mysql97" / "incident" / f"binlog.00000{number}") for number in (1, 2)]
ORDERS: Final = "shop.orders"


def ids(**options: Any) -> list[int]:
    """Return the ids of the selected changes of orders."""
    rows = binlogio.read_rows(LOGS, table=ORDERS, **options).to_table().to_pylist()
    return sorted((row["after"] or row["before"])["id"] for row in rows)


def test_conditions_on_values_and_operations_are_texts() -> None:
    assert ids(ops="delete") == [1002, 1003, 1005, 1006]
    assert ids(where="total > 50", ops=["delete"]) == [1006]
    assert ids(where=[EventFilter(ops=frozenset({"delete"})), "total > 50", "id < 1000 OR id > 1"]) == [1006]
    assert ids(where=[EventFilter(ops=frozenset({"insert"}))], ops="delete") == []
    assert ids(where="id = 1003", columns=["id"]) == [1003] * 3


def test_condition_reads_columns_that_the_result_does_not_have() -> None:
    batch = next(iter(binlogio.read_rows(LOGS, table=ORDERS, where="total > 50", columns=["id"])))

    assert [field.name for field in batch.schema.field("after").type] == ["id"]
    assert [name for name, _ in binlogio.read_tables(LOGS, where="total > 50")] == [ORDERS] * 2  # of each log


def test_wrong_conditions_are_refused_with_what_is_near(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"ops": "inserts"}, UnsupportedFeature, "did you mean insert?"),
        ({"zero_dates": "nul"}, UnsupportedFeature, "did you mean null?"),
        ({"columns": "id"}, UnsupportedFeature, "['id']"),
        ({"tables": "shop.*"}, UnsupportedFeature, "['shop.*']"),
        ({"where": "total >"}, ConditionError, ""),
        ({"where": ["id > 1) OR (id < 1"]}, ConditionError, ""),
    ]
    for options, kind, text in cases:
        with pytest.raises(kind) as found:
            binlogio.read_tables(LOGS, **options)
        assert text in str(found.value)
    with pytest.raises(ConditionError, match="totl"):
        list(binlogio.read_rows(LOGS, table=ORDERS, where="totl > 1"))
    with pytest.raises(BinlogFormatError, match="totl"):
        list(binlogio.read_rows(LOGS, table=ORDERS, where="total > 1", columns=["totl"]))
    with pytest.raises(UnsupportedFeature, match="typed images"):
        list(binlogio.read_rows(LOGS, where="total > 1"))
    with pytest.raises(UnsupportedFeature, match="did you mean delete"):
        export(LOGS, tmp_path / "to", ops="deletes")  # type: ignore[arg-type]
    assert not (tmp_path / "to").exists()


def test_two_filters_select_what_both_select() -> None:
    first = EventFilter(pos=Range(4, 90), server_ids=AllExcept({1, 2}), ops=frozenset({"insert", "delete"}))
    second = EventFilter(pos=Range(50), server_ids=frozenset({1, 5}), ops=frozenset({"insert"}))
    gtids = [EventFilter(known_gtids=parse_gtid_set(f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{n}")) for n in (1, 2)]

    both = EventFilter(pos=Range(50, 90), server_ids=frozenset({5}), ops=frozenset({"insert"}))
    assert first.both(second) == second.both(first) == both
    assert first.both(EventFilter(server_ids=AllExcept({7}))).server_ids == AllExcept({1, 2, 7})
    assert gtids[0].both(first).known_gtids == gtids[0].known_gtids
    with pytest.raises(UnsupportedFeature, match="known_gtids"):
        gtids[0].both(gtids[1])


@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_export_leaves_out_tables_that_lack_a_column_of_the_condition(metadata: str, tmp_path: Path) -> None:
    tables = [
        TableDefinition("d", name, (ColumnDefinition("id", "int"), ColumnDefinition(column, "int")), ("id",))
        for name, column in (("a", "total"), ("b", "other"))
    ]
    variables = binlogio.ServerVariables(binlog_row_metadata=metadata)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        for table in tables:
            columns = ", ".join(f"{one.name} int" for one in table.columns)
            session.ddl(f"CREATE TABLE d.{table.name} ({columns}, PRIMARY KEY (id))")
            session.execute(Statement("INSERT", [Insert(table, [(1, 5), (2, 50)])]))
    summary = export(tmp_path / "binlog.000001", tmp_path / "to", where="total > 10")

    assert summary.rows == {"d.a": 1}


DOORS: Final = {
    "dump": [], "undo": [], "replay": ["--to", "dry-run:"], "copy": ["--output", "OUT"],
    "export": ["--to", "OUT"], "stats": [], "grep": ["id > 0"],
}  # fmt: skip


def test_names_that_no_log_has_end_every_command_alike(tmp_path: Path) -> None:
    """Exit code 2, near names, and nothing is left; a name that only a statement has is known."""
    out, made = str(tmp_path / "out"), tmp_path / "binlog.000001"
    made.write_bytes(log_of(query("TRUNCATE a", "prod"), query("DROP TABLE prod.b")))
    for command, arguments in DOORS.items():
        given = [command, *(out if one == "OUT" else one for one in arguments)]
        for options, text in (
            (["-T", "shop.order"], "--table shop.order: no event of the logs matches this table, found shop.orders"),
            (["-T", "ordrs"], "--table ordrs: no event of the logs matches this table, found shop.orders"),
            (["-T", "orders", "-T", "x"], "--table x: no event of the logs matches this table"),
            (["-d", "shops"], "--database shops: no event of the logs matches this database, found shop "),
        ):
            done = CliRunner().invoke(cli, [*given, *options, *LOGS])
            assert (done.exit_code, done.stdout) == (2, ""), (command, options, done.output)
            assert text in done.stderr, (command, done.stderr)
        assert not Path(out).exists()
        for number, options in enumerate(
            (["-T", "prod.a"], ["-T", "b"], ["-d", "prod"], ["-T", "prod.*"], ["--exclude-table", "x"])
        ):
            others = [f"{one}-{command}{number}" if one == out else one for one in given]
            done = CliRunner().invoke(cli, [*others, *options, str(made)])
            is_said = "no event of the logs matches" in done.stderr
            assert is_said == (options == ["--exclude-table", "x"]), (command, options)
    history = CliRunner().invoke(cli, ["history", "shop.order", "1", "-o", out, *LOGS])
    assert history.exit_code == 2
    assert "found shop.orders" in history.stderr
    assert not Path(out).exists()


VALUES: Final = {
    "-d": "shop", "-T": "orders", "--exclude-table": "customers", "--operation": "insert", "--where": "id > 1",
    "--start-datetime": "2020-01-01", "--stop-datetime": "2040-01-01", "--start-position": "4",
    "--stop-position": "200", "--include-gtids": "acb68dd1-e6e6-11f1-a4d2-02fc00000001:1-99",
    "--exclude-gtids": "acb68dd1-e6e6-11f1-a4d2-02fc00000001:1", "--server-id": "1", "--ignore-server-ids": "9",
}  # fmt: skip


def test_table_of_options_in_the_documentation_is_true(tmp_path: Path) -> None:
    """A cell that begins with "no" is refused with exit code 2; each other one selects."""
    page = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
    lines = page.partition("## What an option selects")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    seen = set()
    for options, _, others, grep, history, *_ in rows:
        for option in (one.strip(" `") for one in options.split(",")):
            seen.add(option)
            if "domain" in option:  # of MariaDB
                continue
            for command, cell in (
                ("grep", grep),
                ("history", history),
                *((one, others) for one in DOORS if one != "grep"),
            ):
                out = str(tmp_path / f"{command}{option}")
                given = ["shop.orders", "1002"] if command == "history" else DOORS.get(command, [])
                given = [] if (command, option) == ("grep", "--where") else given
                given = [command, *(out if one == "OUT" else one for one in given), option, VALUES[option]]
                more = ["--on-statement", "skip"] if command == "undo" else []
                done = CliRunner().invoke(cli, [*given, *more, LOGS[0]])
                is_refused = done.exit_code == 2 and "no event of" not in done.stderr and "start of" not in done.stderr
                assert is_refused == (cell.startswith("no") and command in ("grep", "history")), (given, done.stderr)
    assert seen == {*VALUES, "--do-domain-ids", "--ignore-domain-ids"}


def test_table_of_options_in_the_documentation_is_that_of_the_help() -> None:
    """Each option that selects is in the table, and in the help of those commands for which the table says yes."""
    page = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()
    lines = page.partition("## What an option selects")[2].partition("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    commands = [[one.strip(" `") for one in cell.split(",")] for cell in cells[0][2:5]]
    expected: dict[str, set[str]] = {name: set() for names in commands for name in names}
    for options, _, *answers in cells[2:]:
        for names, answer in zip(commands, answers, strict=False):
            for name in names if answer.startswith("yes") else ():
                expected[name].update(one.strip(" `") for one in options.split(","))
    selecting = set.union(*expected.values())
    found: dict[str, set[str]] = {}
    for name in expected:
        command = cli.get_command(Context(cli), name)
        assert command is not None
        found[name] = {opt for one in command.params if not getattr(one, "hidden", False) for opt in one.opts}
    params: list[Option] = getattr(selection_options(lambda: None), "__click_params__")  # noqa: B009 - of click

    assert {name: options & selecting for name, options in found.items()} == expected
    assert [one.name for one in params if selecting.isdisjoint(one.opts)] == ["zone"]


def test_rows_whose_columns_have_no_names_are_not_passed_over_in_silence(tmp_path: Path) -> None:
    """Commands that write refuse; those that show say so, and end with 1. With definitions the rows are compared."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("total", "int")), ("id",))
    named = TableDefinition("d", "u", table.columns, ("id",))
    variables = ServerVariables(binlog_row_metadata="MINIMAL")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as writer, writer.session("d") as session:
        session.execute(Statement("INSERT INTO t VALUES (1, 20)", changes=[Insert(table, [(1, 20)])]))
        session.execute(Statement("INSERT INTO u VALUES (2, 30)", changes=[Insert(named, [(2, 30)])]))
    log = str(tmp_path / "binlog.000001")
    of_one, of_all = tmp_path / "one.sql", tmp_path / "all.sql"
    of_one.write_text("CREATE TABLE d.u (id INT PRIMARY KEY, total INT);")
    of_all.write_text(of_one.read_text() + "CREATE TABLE d.t LIKE d.u;")
    where, skip = ("--where", "total > 10"), ("--on-statement", "skip")
    doors = {
        "dump": (1, ["dump", *where]),
        "json": (1, ["dump", "--format", "json", *where]),
        "stats": (1, ["stats", *where]),
        "grep": (1, ["grep", "total > 10"]),
        "copy": (2, ["copy", "-o", f"{tmp_path}/copy/", *where]),
        "undo": (2, ["undo", *skip, "--format", "binlog", "-o", f"{tmp_path}/undo.000001", *where]),
        "export": (2, ["export", "--format", "jsonl", "-o", f"{tmp_path}/export", *where]),
        "columns": (2, ["export", "--format", "jsonl", "-o", f"{tmp_path}/columns", "--columns", "total,other"]),
    }
    found = {}
    for name, (_, arguments) in doors.items():
        result = CliRunner().invoke(cli, [*arguments, "--table-definitions", str(of_one), log])
        found[name] = result.exit_code
        assert "d.t" in result.stderr, (name, result.output)
        assert "no names" in result.stderr
        other = [one.replace("total", "other") for one in arguments]
        lacking = CliRunner().invoke(cli, [*other, "--table-definitions", str(of_one), log])
        assert "no names" in lacking.stderr, (name, lacking.output)
        assert "no table" not in lacking.stderr
    assert found == {name: code for name, (code, _) in doors.items()}
    for name in ("dump", "stats", "grep", "export"):
        result = CliRunner().invoke(cli, [*doors[name][1], "--table-definitions", str(of_all), log])
        assert result.exit_code == 0, (name, result.stderr)
    with pytest.raises(ConditionError, match="have no names"):
        list(binlogio.read_tables(log, where="total > 10", definitions=of_one))
    assert len(list(binlogio.read_tables(log, where="total > 10", definitions=of_all))) == 2
