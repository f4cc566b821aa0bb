"""Logs that Spark wrote: the same records, and files as a server writes them."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.events import RowsEvent
from binlogio.events.control import RotateEvent, StopEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import GtidEvent, PreviousGtidsEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.gtid import GtidSet
from corpus import MARIADB, MYSQL
from spark_frames import TYPES_INT, load, spark_errors
from spark_writes import UUID, cut, definitions, events, kept, logs, numbered, records, write

pytest.importorskip("pyspark.sql.datasource")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CASES = (
    "gtid_on", "metadata_full", "rowimage_full", "rowimage_minimal", "types_blob", "types_decimal",
    "types_enum_set_bit",
    "types_geometry_vector", "types_int", "types_json", "types_string", "types_temporal", "wide_table",
    "gtid_off", "multi_table_stmt", "rotated",
)  # fmt: skip


def seen(table: pa.Table) -> list[dict[str, Any]]:
    """Return the parts of the records that a write keeps; JSON documents by value: 1.50 and 1.5 differ as text."""
    return [{name: _seen(value) for name, value in row.items()} for row in kept(table)]


def _seen(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _seen(one) for name, one in value.items()}
    try:
        return _seen(json.loads(value)) if isinstance(value, str) else value
    except ValueError:
        return value


@pytest.mark.parametrize("name", CASES)
def test_records_are_the_same_when_they_are_read_again(name: str, tmp_path: Path) -> None:
    """Images as JSON text: all columns of a record but its place and the logical clock, which are the file's own."""
    case = MYSQL / name
    given = definitions(case)
    source = records(case, schemaFile=given)
    write(cut(source, 3), tmp_path, schemaFile=given)

    found = records(tmp_path)

    assert len(logs(tmp_path)) <= 4
    assert seen(found) == seen(source)


@pytest.mark.parametrize("name", CASES)
def test_typed_records_are_the_same_when_they_are_read_again(name: str, tmp_path: Path) -> None:
    """Images as structs, one table at a time, with the definitions of the tables."""
    case = MYSQL / name
    given = definitions(case)
    tables = Counter(
        zip(*(records(case, schemaFile=given).column(part).to_pylist() for part in ("schema", "table")), strict=True)
    )
    for number, (schema, table) in enumerate(tables):
        folder = tmp_path / str(number)
        options = {"table": f"{schema}.{table}", "schemaFile": given, "zeroDates": "text"}
        source = records(case, **options)
        write(cut(source, 2), folder, schemaFile=given)

        assert seen(records(folder, **options)) == seen(source), table


def test_files_are_as_a_server_writes_them(tmp_path: Path) -> None:
    """Heads name the GTIDs before, clocks restart, all but the last file name the next, no transaction is split."""
    write(cut(numbered(range(1, 161)), 4), tmp_path, maxBinlogSize="4096")
    previous = GtidSet()
    paths = logs(tmp_path)
    for path, following in itertools.zip_longest(paths, paths[1:]):
        head, before, *groups, end = events(path)
        gtids = [event for event in groups if isinstance(event, GtidEvent)]

        assert isinstance(head, FormatDescriptionEvent)
        assert (head.created != 0) == (path == paths[0])
        assert isinstance(before, PreviousGtidsEvent)
        assert before.gtid_set == previous
        assert [event.sequence_number for event in gtids] == list(range(1, len(gtids) + 1))
        assert [event.last_committed for event in gtids] == list(range(len(gtids)))
        assert len([event for event in groups if isinstance(event, XidEvent)]) == len(gtids)
        assert all(event.header.server_id == 7 for event in groups)
        assert end.next_log == following.name if following else isinstance(end, StopEvent)
        assert following is None or isinstance(end, RotateEvent)
        for event in gtids:
            previous = previous.add(event.gtid)
    assert len(paths) > 4
    assert str(previous) == f"{UUID}:1-160"


def test_records_without_server_id_have_that_of_the_existing_logs(tmp_path: Path) -> None:
    """1 without logs, as a new server."""
    for folder, first in ((tmp_path / "new", 0), (tmp_path / "old", 1)):
        if first:
            write([numbered(range(1, 3))], folder)
        write([numbered(range(3, 5)).drop_columns("server_id")], folder)

        assert {event.header.server_id for event in events(logs(folder)[-1])} == {7 if first else 1}


def test_append_continues_after_the_existing_logs(tmp_path: Path) -> None:
    """Numbers continue, and the head names the transactions before; the same transactions again are refused."""
    write([numbered(range(1, 4))], tmp_path)
    write([numbered(range(4, 6)), numbered(range(6, 8))], tmp_path)
    third = events(tmp_path / "binlog.000003")

    assert [path.name for path in logs(tmp_path)] == ["binlog.000001", "binlog.000002", "binlog.000003"]
    assert str(third[1].gtid_set) == f"{UUID}:1-5"
    assert records(tmp_path).column("gtid").to_pylist()[::2] == [f"{UUID}:{number}" for number in range(1, 8)]
    with pytest.raises(
        BinlogFormatError, match=f"already contain transactions with these GTIDs, or later ones, found {UUID}:5-7"
    ):
        write([numbered(range(5, 9))], tmp_path)
    assert len(list(tmp_path.glob("binlog.0*"))) == 3


def test_heads_that_need_other_room_move_what_follows(tmp_path: Path) -> None:
    """A task guesses that all numbers before its own are in the logs before.

    Where they are not, positions and checksums are made again.
    """
    write([numbered(range(1, 3)), numbered(range(10, 12)), numbered(range(20, 22))], tmp_path)

    assert [str(events(path)[1].gtid_set) for path in logs(tmp_path)] == ["", f"{UUID}:1-2", f"{UUID}:1-2:10-11"]
    assert len(records(tmp_path, verifyChecksum="true")) == 12
    for path in logs(tmp_path):
        assert all(event.header.log_pos == event.header.offset + event.header.event_size for event in events(path))


def test_overwrite_replaces_the_logs_and_their_index(tmp_path: Path) -> None:
    """New logs have new numbers: who reads by the index has the old ones or the new ones, never some of both."""
    write(cut(numbered(range(1, 4)), 3), tmp_path)
    write([numbered(range(2, 6))], tmp_path, overwrite=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["binlog.000004", "binlog.index"]
    assert [path.name for path in logs(tmp_path)] == ["binlog.000004"]
    assert str(events(tmp_path / "binlog.000004")[1].gtid_set) == ""
    assert len(records(tmp_path)) == 8


def test_options_say_what_the_logs_are_like(tmp_path: Path) -> None:
    """The name, the server's version and the checksum."""
    write([numbered(range(1, 3))], tmp_path, basename="mysql-bin", serverVersion="8.0.22", binlogChecksum="NONE")
    head = events(tmp_path / "mysql-bin.000001")[0]

    assert head.server_version == "8.0.22"
    assert head.checksum_algorithm == 0
    assert (tmp_path / "mysql-bin.index").read_text() == "./mysql-bin.000001\n"
    assert len(records(tmp_path)) == 4


@pytest.mark.parametrize(
    ("version", "gtid_size", "collation"), [("5.6.51", 25, 8), ("5.7.44", 42, 8), ("8.4.3", 56, 255)]
)
def test_logs_of_older_servers_are_as_they_write_them(
    version: str, gtid_size: int, collation: int, tmp_path: Path
) -> None:
    write([numbered(range(1, 3))], tmp_path, serverVersion=version, binlogChecksum="NONE")
    found = {type(event).__name__: event for event in events(tmp_path / "binlog.000001")}

    assert found["GtidEvent"].header.event_size - 19 == gtid_size
    assert found["WriteRowsEvent"].flags == 1
    assert bool(found["TableMapEvent"].optional_metadata) == (version > "8")
    assert found["QueryEvent"].status_vars[-1].code == (4 if version < "8" else 18)
    assert [var.value.server for var in found["QueryEvent"].status_vars if var.code == 4] == [collation]
    assert len(records(tmp_path)) == 4


def in_domains(table: pa.Table) -> pa.Table:
    """Return the records with GTIDs of MariaDB, of two domains."""
    numbers = [int(gtid.rpartition(":")[2]) for gtid in table.column("gtid").to_pylist()]
    gtids = pa.array([f"{number % 2}-7-{number}" for number in numbers])
    return table.set_column(table.schema.get_field_index("gtid"), "gtid", gtids)


@pytest.mark.parametrize("version", ["10.1.48-MariaDB", "10.11.6-MariaDB-log", "11.8.2-MariaDB"])
def test_logs_of_mariadb_are_as_a_server_writes_them(version: str, tmp_path: Path) -> None:
    """Heads have the last GTIDs of each domain and server, and checkpoints; GTID events replace BEGIN."""
    write(cut(in_domains(numbered(range(1, 9))), 3), tmp_path, serverVersion=version)
    write([in_domains(numbered(range(9, 11)))], tmp_path, serverVersion=version)
    paths = logs(tmp_path)
    known: list[str] = []
    for path in paths:
        head, before, checkpoint, *groups, _ = events(path)
        gtids = [event for event in groups if isinstance(event, MariadbGtidEvent)]

        assert head.server_version == version
        assert sorted(map(str, before.gtids)) == known
        assert checkpoint.file == path.name
        assert Counter(type(event).__name__ for event in groups) == dict.fromkeys(
            ("MariadbGtidEvent", "TableMapEvent", "WriteRowsEvent", "XidEvent"), len(gtids)
        )
        assert {event.header.type_code for event in groups if isinstance(event, RowsEvent)} == {23}
        last = [event.gtid for event in gtids][-2:]
        known = sorted(map(str, last))
    assert len(paths) == 4
    assert records(tmp_path).column("gtid").to_pylist()[::2] == [f"{number % 2}-7-{number}" for number in range(1, 11)]


def test_appended_logs_of_mariadb_continue_its_gtids(tmp_path: Path) -> None:
    """The same transactions, or earlier ones, are refused, and so are those of the other vendor."""
    write([in_domains(numbered(range(1, 6)))], tmp_path, serverVersion="10.11.6-MariaDB")
    with pytest.raises(BinlogFormatError, match=r"already contain transactions with these GTIDs, or later ones.*0-7-4"):
        write([in_domains(numbered(range(4, 9)))], tmp_path, serverVersion="10.11.6-MariaDB")
    with pytest.raises(WriterStateError, match=r"one of the other vendor.*set option serverVersion"):
        write([numbered(range(1, 3))], tmp_path)

    assert [path.name for path in logs(tmp_path)] == ["binlog.000001"]


@pytest.mark.parametrize("name", ["basic_row", "rowimage_minimal", "types", "types_temporal", "group_commit"])
def test_records_of_mariadb_are_the_same_when_they_are_read_again(name: str, tmp_path: Path) -> None:
    """Images of all tables as JSON text, and of one table after the other as structs."""
    case, version = MARIADB / name, "10.11.6-MariaDB"
    given = definitions(case)
    source = records(case, schemaFile=given, tables=",".join(json.loads(given)))
    write(cut(source, 3), tmp_path / "text", schemaFile=given, serverVersion=version)

    assert seen(records(tmp_path / "text", schemaFile=given)) == seen(source)
    for table in sorted(set(source.column("table").to_pylist())):
        options = {"table": f"corpus.{table}", "schemaFile": given, "zeroDates": "text"}
        typed = records(case, **options)
        write(cut(typed, 2), tmp_path / table, schemaFile=given, serverVersion=version)
        assert seen(records(tmp_path / table, **options)) == seen(typed), table


def test_types_are_taken_from_spark_without_a_definition_of_the_table(tmp_path: Path) -> None:
    """Each of Spark's types that has an obvious one in MySQL comes back as what it was."""
    typed = records(TYPES_INT, table="corpus.t_serial", schemaFile=definitions(TYPES_INT.parent))
    typed = typed.drop_columns(["before_present", "after_present"])
    write([typed], tmp_path)
    found = records(tmp_path, table="corpus.t_serial")

    assert found.schema.field("after").type == typed.schema.field("after").type
    assert found.schema.field("after").type == pa.struct({"s": pa.decimal128(20, 0), "v": pa.int8()})
    assert found.column("after").to_pylist() == typed.column("after").to_pylist()


def test_tasks_may_come_in_any_order(tmp_path: Path) -> None:
    """Spark numbers them as it likes; empty ones are nothing."""
    parts = cut(numbered(range(1, 10)), 4)
    write([parts[2], parts[0].slice(0, 0), *parts[3:], parts[0], parts[1]], tmp_path)

    assert records(tmp_path).column("gtid").to_pylist() == numbered(range(1, 10)).column("gtid").to_pylist()


@pytest.mark.spark
def test_spark_writes_what_it_has_read(spark: SparkSession, tmp_path: Path) -> None:
    """A frame in any order, put in order by the helper; from two logs, into as many as there are ranges."""
    from pyspark_binlogio import in_transaction_order  # noqa: PLC0415

    case = MYSQL / "gtid_on"
    given = definitions(case)
    frame = load(spark, case, schemaFile=given)
    shuffled = frame.repartition(3, "pos")
    in_transaction_order(shuffled, 2).write.format("binlog").mode("append").option("schemaFile", given).save(
        str(tmp_path)
    )

    assert len(logs(tmp_path)) == 2
    assert kept(records(tmp_path)) == kept(records(case, schemaFile=given))
    with pytest.raises(spark_errors(), match="in_transaction_order"):
        shuffled.write.format("binlog").mode("overwrite").option("schemaFile", given).save(str(tmp_path))
    assert len(records(tmp_path)) == frame.count()
