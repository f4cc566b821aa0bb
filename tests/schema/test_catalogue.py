"""A stored catalogue gives the definitions at each position of logs, in every command, also without older logs."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.columnar import catalogue_logs, is_changed, read_catalogue, write_catalogue
from binlogio.errors import MissingLogs, UnsupportedFeature
from binlogio.events.rows import RowsEvent
from binlogio.schema import DefinitionCatalogue
from binlogio.selection.event_filter import EventFilter, parse_gtid_state
from binlogio.storage import LogFile, find_logs
from binlogio_cli.main import cli
from spark_frames import records_of
from spark_streams import Stream

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS: Final = {
    "id": ColumnDefinition("id", "int", nullable=False),
    "name": ColumnDefinition("name", "varchar(10)", charset="utf8mb4"),
    "st": ColumnDefinition("st", "enum('new','paid')", charset="utf8mb4"),
    "u": ColumnDefinition("u", "bigint unsigned"),
    "w": ColumnDefinition("w", "int"),
}
CREATE: Final = (
    "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(10), st ENUM('new','paid'), u BIGINT UNSIGNED) CHARSET utf8mb4"
)
VALUES: Final[dict[str, Any]] = {"id": 1, "name": "Zoë", "st": "paid", "u": 18446744073709551613, "w": 7}
LOGS: Final = (
    (CREATE, "id name st u"),
    ("ALTER TABLE t DROP COLUMN name", "id st u"),
    ("", "id st u"),
    ("ALTER TABLE t ADD COLUMN w INT FIRST", "w id st u"),
)
"""The statement and then the columns of each log."""
VERSIONS: Final = {"MySQL": "9.7.4", "MariaDB": "10.11.18-MariaDB-log"}


@pytest.fixture(params=VERSIONS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return logs without metadata of columns, with a row of the table in each."""
    metadata = "NO_LOG" if request.param == "MariaDB" else "MINIMAL"
    variables = ServerVariables(server_version=VERSIONS[request.param], binlog_row_metadata=metadata)
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=variables) as log, log.session("shop") as session:
        for number, (ddl, names) in enumerate(LOGS):
            if number:
                log.rotate()
            if ddl:
                session.ddl(ddl)
            columns = tuple(COLUMNS[name] for name in names.split())
            table = TableDefinition("shop", "t", columns, ("id",), collation="utf8mb4_general_ci")
            session.execute(Statement("INSERT", [Insert(table, [tuple(VALUES[name] for name in names.split())])]))
    return tmp_path / "logs"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def expected(*numbers: int) -> list[dict[str, Any]]:
    return [{name: VALUES[name] for name in LOGS[number - 1][1].split()} for number in numbers]


def rows(*logs: Path, catalogue: Path, start: int | None = None) -> list[Any]:
    with binlogio.open(list(logs), definitions=catalogue, start_offset=start) as reader:
        changes = (change for event in reader if isinstance(event, RowsEvent) for change in reader.rows(event))
        images = [change.after for change in changes]
    return [image.as_dict() for image in images if image is not None]


def saved(folder: Path, *numbers: int) -> Path:
    """Return the catalogue of some logs, which are then purged; they are added in two calls."""
    place = folder.parent / "shop.ddl"
    for number in numbers:
        assert run("schema", "--save", place, folder / f"binlog.{number:06}").exit_code in (0, 1)
    return place


@pytest.mark.parametrize("read", [4, 3, 2])
def test_logs_are_read_with_the_definitions_before_them(folder: Path, read: int) -> None:
    """Logs before are not read: the catalogue has their statements, or those of all logs."""
    log = folder / f"binlog.{read:06}"
    for numbers in (range(1, 5), range(1, read)):
        place = saved(folder, *numbers)

        assert rows(log, catalogue=place) == expected(read)
        tables = [row for _, batch in binlogio.read_tables(log, definitions=place) for row in batch.to_pylist()]
        assert [row["after"] for row in tables] == expected(read)
        for threads in (1, 2):
            found = binlogio.read_tables(
                sorted(folder.glob("binlog.0*"))[read - 1 :], definitions=place, threads=threads
            )
            assert [row["after"] for _, batch in found for row in batch.to_pylist()] == expected(*range(read, 5))
        place.unlink()


@pytest.mark.parametrize("command", ["dump", "undo", "stats", "grep", "export", "index", "verify", "replay"])
def test_commands_take_the_definitions_from_it(folder: Path, tmp_path: Path, command: str) -> None:
    """The same output as with the definition itself."""
    place, log = saved(folder, 1, 2, 3, 4), folder / "binlog.000003"
    script = tmp_path / "t.sql"
    script.write_text(
        "USE shop; CREATE TABLE t (id INT PRIMARY KEY, st ENUM('new','paid'), u BIGINT UNSIGNED) CHARSET utf8mb4;"
    )
    outputs = []
    for number, definitions in enumerate((place, script)):
        out = tmp_path / f"out{number}"
        options: dict[str, list[object]] = {
            "dump": ["-vv"],
            "undo": [],
            "stats": ["--json"],
            "grep": ["u = 18446744073709551613"],
            "export": ["--to", out, "--format", "jsonl"],
            "index": ["--key", "shop.t=id", "--index-dir", out],
            "verify": [],
            "replay": ["--to", f"sqlite:///{out}"],
        }
        result = run(command, *options[command], log, "--table-definitions", definitions)
        outputs.append(result.stdout.replace(str(out), "OUT"))
        if command == "export":
            outputs[-1] += next(out.rglob("*.jsonl")).read_text()

        assert result.exit_code == 0, result.output
    assert outputs[0] == outputs[1]


def test_a_position_in_a_log_has_the_definitions_before_it(folder: Path) -> None:
    """`start_offset` after the ALTER of the log, and Spark, which reads parts."""
    place, log = saved(folder, 1, 2), folder / "binlog.000002"
    with binlogio.open(log) as reader:
        offset = next(group.begin for group in list(reader.groups())[1:])

    assert rows(log, catalogue=place, start=offset) == expected(2)
    found = records_of(log, definitionsLocation=str(place), table="shop.t", maxPartitionBytes="200")
    assert [row["after"] for row in found] == expected(2)


def test_definitions_of_a_server_are_valid_until_a_statement_changes_them(folder: Path, tmp_path: Path) -> None:
    """Taken after log 3: they are those of log 3, and of log 2 after its ALTER, but not before it."""
    listing, place = tmp_path / "listing.json", tmp_path / "shop.ddl"
    lines: list[dict[str, Any]] = [
        {"column_name": "id", "column_type": "int", "is_nullable": "NO", "key_position": 1},
        {"column_name": "st", "column_type": "enum('new','paid')", "collation_name": "utf8mb4_general_ci"},
        {"column_name": "u", "column_type": "bigint unsigned"},
    ]
    names = ("collation_name", "column_default", "extra", "generation_expression", "key_position", "key_prefix")
    same = {"table_schema": "shop", "table_name": "t", "is_nullable": "YES", "engine": "InnoDB"}
    usual: dict[str, Any] = {**dict.fromkeys(names), **same, "table_collation": "utf8mb4_general_ci"}
    listing.write_text(json.dumps([{**usual, **line} for line in lines]))
    logs = [folder / f"binlog.{number:06}" for number in (2, 3, 4)]

    assert run("schema", "--save", place, "--information-schema", listing, *logs[:2]).exit_code == 0
    assert run("schema", "--save", place, logs[2]).exit_code == 0
    assert rows(*logs[1:], catalogue=place) == expected(3, 4)
    with binlogio.open(logs[0]) as reader:
        after_alter = list(reader.groups())[1].begin
    assert rows(logs[0], catalogue=place, start=after_alter) == expected(2)
    assert list(rows(logs[0], catalogue=place)[0]) == ["@1", "@2", "@3"]


def test_a_log_that_is_missing_in_the_catalogue_makes_definitions_unknown(folder: Path) -> None:
    """Statements may be missing: columns have no names, and `schema --save` says so."""
    place = saved(folder, 1)
    stored = place.read_text()
    refused = run("schema", "--save", place, folder / "binlog.000003")
    assert refused.exit_code == 2
    assert "binlog.000001, and then binlog.000003" in refused.stderr
    assert place.read_text() == stored
    with pytest.raises(UnsupportedFeature, match="does not have this log"):
        rows(folder / "binlog.000003", catalogue=place)

    result = run("schema", "--save", place, "--ignore-missing-logs", folder / "binlog.000003")
    assert result.exit_code == 1
    assert run("schema", "--ignore-missing-logs", folder / "binlog.000003").exit_code == 2  # nothing is saved
    assert list(rows(folder / "binlog.000003", catalogue=place)[0]) == ["@1", "@2", "@3"]
    older = run("schema", "--save", place, folder / "binlog.000002")
    assert older.exit_code != 0
    assert "older" in older.stderr


def test_another_log_of_the_name_is_not_that_of_the_catalogue(folder: Path, tmp_path: Path) -> None:
    """RESET, or another server: no definitions. A repaired or filtered copy begins as its original."""
    place, log = saved(folder, 1, 2, 3), folder / "binlog.000003"
    copy = tmp_path / "copy"
    assert run("copy", "--out", copy, "-T", "shop.t", log).exit_code == 0
    assert rows(copy / "binlog.000003", catalogue=place) == expected(3)
    other = tmp_path / "other"
    run("copy", "--out", other, "--exclude-table", "shop.t", log)
    refused = run("schema", "--save", place, other)
    assert refused.exit_code != 0
    assert "made of other logs" in refused.stderr

    data = bytearray(log.read_bytes())
    data[4:8] = (1).to_bytes(4, "little")  # the time of its format description
    log.write_bytes(data)
    with binlogio.open(log, definitions=place, verify_checksum=False) as reader:
        rows_event = next(event for event in reader if isinstance(event, RowsEvent))
        with pytest.raises(UnsupportedFeature, match="does not have this log"):
            list(reader.rows(rows_event))


def test_the_stored_form_is_read_again(folder: Path, tmp_path: Path) -> None:
    """Also where a log grows, is compressed and added again; a damaged file is an error that names the line."""
    place = saved(folder, 1, 2, 3, 4)
    catalogue = read_catalogue(str(place))
    assert catalogue is not None
    assert (len(catalogue), len(catalogue.logs)) == (3, 4)
    assert run("copy", "--out", tmp_path / "gz", *sorted(folder.glob("binlog.0*"))).exit_code == 0
    assert not is_changed(catalogue, find_logs(folder))
    catalogue_logs(catalogue, find_logs(folder))
    assert (len(catalogue), len(catalogue.logs)) == (3, 4)
    again = tmp_path / "again"
    write_catalogue(again.as_uri(), catalogue)
    assert again.read_text() == place.read_text()
    assert "".join(DefinitionCatalogue.parse(place.read_text()).lines()) == place.read_text()

    lines = place.read_text().splitlines()
    for damaged, text in (
        ([lines[0], lines[1].replace('"pos"', '"p"')], "line 2"),
        ([lines[0], "[]"], "line 2"),
        ([lines[0], lines[1].replace('"ddl": [[', '"ddl": [[Infinity, ""], [')], "line 2"),
        ([lines[0], lines[1].replace('"rotated": ', '"rotated": "", "_": ')], "line 2"),
        ([lines[0], lines[1].replace('"server_id": ', '"server_id": 99999999999')], "line 2"),
        ([lines[0], lines[1].replace('"first_gtid": "', '"first_gtid": 1, "_": "')], "line 2"),
        (['{"binlogio_catalogue": 2}'], "another version"),
    ):
        place.write_text("\n".join(damaged))
        with pytest.raises(UnsupportedFeature, match=text) as error:
            binlogio.open(folder, definitions=place)
        assert error.value.file == str(place)
    shutil.rmtree(folder)


def test_if_not_exists_of_old_servers_is_accepted_on_demand(tmp_path: Path) -> None:
    """MySQL 5.7 logs the statement although it found a table: the columns are unknown, unless the user knows."""
    variables = ServerVariables(server_version="5.7.44-log", gtid_mode="OFF")
    columns = (COLUMNS["id"], COLUMNS["w"])
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session("shop") as session:
        session.ddl("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, w INT)")
        session.execute(Statement("INSERT", [Insert(TableDefinition("shop", "t", columns, ("id",)), [(1, 2)])]))
    log_file = tmp_path / "binlog.000001"
    unknown, known = run("dump", "-v", log_file), run("dump", "-v", "--trust-ddl", log_file)

    assert "@1=1" in unknown.stdout
    assert "before 8.0" in unknown.stderr
    assert "`w`=2" in known.stdout
    assert [row["after"] for row in records_of(log_file, trustDdl="true")] == ['{"id":1,"w":2}']


def restarted(folder: Path, purged: int, **options: str) -> list[Any]:
    """Return the images of a stream that read log 1, and was restarted after `purged` logs were purged."""
    options = {"maxFilesPerTrigger": "1", **options}
    before = Stream(folder, **options)
    assert before.images() == expected(1)
    before.batch()
    for number in range(1, purged + 1):
        (folder / f"binlog.{number:06}").unlink()
    after = Stream(folder, before.offset, **options)
    return [*after.images(), *after.images()]


@pytest.mark.parametrize("purged", [0, 1, 2])
def test_a_stream_that_restarts_has_the_names_that_it_had_or_is_refused(folder: Path, purged: int) -> None:
    """The log with CREATE TABLE was purged: the same with a stored catalogue, else an error."""
    if not purged:
        assert restarted(folder, 0) == expected(3, 4)
        return
    with pytest.raises(UnsupportedFeature, match="the logs with this DDL are gone") as error:
        restarted(folder, purged)
    assert "definitionsLocation" in str(error.value)


@pytest.mark.parametrize("purged", [0, 1, 2])
def test_a_stream_keeps_its_definitions_at_a_location(folder: Path, tmp_path: Path, purged: int) -> None:
    place = tmp_path / "stream.ddl"

    assert restarted(folder, purged, definitionsLocation=str(place)) == expected(3, 4)
    assert len(DefinitionCatalogue.parse(place.read_text())) == 3


def test_a_stream_without_its_names_goes_on_with_definitions_or_without_ddl(folder: Path) -> None:
    options = {"maxFilesPerTrigger": "1"}
    before = Stream(folder, **options)
    before.batches()
    offset = json.loads(before.offset) | {"file": "binlog.000003", "pos": 0, "log": None, "hash": None}
    for number in (1, 2):
        (folder / f"binlog.{number:06}").unlink()
    given = "{\"shop.t\": \"CREATE TABLE t (id INT PRIMARY KEY, st ENUM('new','paid'), u BIGINT UNSIGNED)\"}"

    assert Stream(folder, json.dumps(offset), schemaFile=given, **options).images() == expected(3)
    unnamed = Stream(folder, json.dumps(offset), followDdl="false", **options).images()
    assert [list(image) for image in unnamed] == [["@1", "@2", "@3"]]


def test_follow_ddl_needs_a_create_table(folder: Path) -> None:
    """An error, not columns without names; `auto` shows them."""
    log = folder / "binlog.000003"
    with pytest.raises(UnsupportedFeature, match="have no names") as error:
        records_of(log, followDdl="true")
    assert error.value.field == "shop.t"
    assert [list(json.loads(row["after"])) for row in records_of(log)] == [["@1", "@2", "@3"]]
    assert records_of(folder, followDdl="true")


@pytest.mark.parametrize("form", ["jsonl", "parquet", "csv", "arrow", "duckdb", "delta", "iceberg"])
def test_an_export_is_not_continued_without_the_names_that_it_has(folder: Path, tmp_path: Path, form: str) -> None:
    """The log with CREATE TABLE was purged: refused, unless a catalogue has it."""
    place, target = saved(folder, 1, 2), tmp_path / "target"
    first, then = [folder / f"binlog.{number:06}" for number in (1, 2)], folder / "binlog.000003"
    assert run("export", "--to", target, "--format", form, *first).exit_code == 0
    refused = run("export", "--append", "--to", target, "--format", form, then)

    assert refused.exit_code == 3
    assert "shop.t" in refused.stderr
    assert "--table-definitions" in refused.stderr
    options = ["--format", form, "--table-definitions", place]
    assert run("export", "--append", "--to", target, *options, then).exit_code == 0


@pytest.mark.parametrize("folder", ["MySQL"], indirect=True)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_skipped_log_is_not_read_for_its_ddl(folder: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of one transaction of the last log: of the others, their heads are read."""
    place = saved(folder, 1, 2, 3, 4)
    with binlogio.open(folder / "binlog.000004") as reader:
        gtid = [group.facts.gtid for group in reader.groups()][-1]
    where = EventFilter(wanted_gtids=parse_gtid_state(str(gtid)))
    opened: list[str] = []

    def opens(log: LogFile) -> Any:
        opened.append(log.name)
        return open(log.name, "rb")  # noqa: PTH123 - as open_raw

    monkeypatch.setattr(LogFile, "open_raw", opens)
    counts = []
    for definitions in (None, place):
        opened.clear()
        found = binlogio.read_tables(folder, where=where, definitions=definitions, threads=threads)
        assert [row["after"] for _, batch in found for row in batch.to_pylist()] == expected(4)
        counts.append(Counter(opened))
    first = str(folder / "binlog.000001")
    assert counts[1][first] < counts[0][first]


def test_the_log_after_the_last_one_continues_it_only_if_that_is_complete(folder: Path) -> None:
    """A log without its end (ROTATE, STOP) may have had more statements, whatever its flag IN_USE says."""
    whole, log, last = folder / "binlog.000002", folder / "binlog.000003", folder / "binlog.000002.whole"
    shutil.copy(whole, last)
    with binlogio.open(whole) as reader:
        end = [event.header.offset for event in reader][-1]
    whole.write_bytes(last.read_bytes()[:end])
    place = saved(folder, 1, 2)

    with pytest.raises(UnsupportedFeature, match="does not have this log"):
        rows(log, catalogue=place)
    whole.write_bytes(last.read_bytes())
    assert saved(folder, 2) == place
    assert rows(log, catalogue=place) == expected(3)


@pytest.mark.parametrize("view", ["rows", "changes"])
def test_a_typed_stream_is_refused_or_has_its_columns(folder: Path, tmp_path: Path, view: str) -> None:
    """With a stored catalogue the values after the purge are those of the columns before it."""
    stored = {"definitionsLocation": str(tmp_path / "stream.ddl")}
    options = {"maxFilesPerTrigger": "1", "table": "shop.t", "view": view, "schemaChanges": "ignore"}
    offsets = []
    for more in ({}, stored):
        stream = Stream(folder, **options, **more)
        stream.columns = []
        for _ in range(2):
            stream.batch()
        offsets.append(stream.offset)
    for number in (1, 2):
        (folder / f"binlog.{number:06}").unlink()
    with pytest.raises(UnsupportedFeature, match="the logs with this DDL are gone"):
        Stream(folder, offsets[0], **options).batch()
    stream = Stream(folder, offsets[1], **options, **stored)
    stream.columns = ["after"] if view == "rows" else ["st", "u"]
    (row,) = stream.batch()
    found = row["after"] if view == "rows" else row
    assert (found["st"], found["u"]) == (VALUES["st"], VALUES["u"])


@pytest.mark.parametrize("more", [{}, {"table": "shop.t", "schemaChanges": "ignore"}])
def test_a_stream_goes_on_after_a_purge_of_what_it_has_read(folder: Path, tmp_path: Path, more: dict[str, str]) -> None:
    """The catalogue shows that the purged log was read to its end; without one, transactions may be lost."""
    for stored in ({"definitionsLocation": str(tmp_path / "stream.ddl")}, {}):
        logs = tmp_path / f"logs{len(stored)}"
        shutil.copytree(folder, logs)
        options = {**more, **stored}
        for number in (3, 4):
            (logs / f"binlog.{number:06}").unlink()
        stream = Stream(logs, **options)
        stream.columns = []
        stream.batches()
        for number in (3, 4):
            shutil.copy(folder / f"binlog.{number:06}", logs)
            (logs / f"binlog.{number - 2:06}").unlink()
        restarted = Stream(logs, stream.offset, **options)
        restarted.columns = ["after"]
        if stored:
            assert len(restarted.rest()) == 2
        else:
            with pytest.raises(MissingLogs):
                restarted.batch()


def test_a_stream_is_refused_when_statements_between_its_logs_may_be_missing(folder: Path) -> None:
    """With ignoreMissingLogs, too: the columns that it had would lose their names."""
    stream = Stream(folder, maxFilesPerTrigger="1", ignoreMissingLogs="true")
    assert stream.images() == expected(1)
    (folder / "binlog.000003").unlink()
    with pytest.raises(UnsupportedFeature, match="may have more of it are missing") as error:
        stream.rest()
    assert error.value.file == "binlog.000004"
