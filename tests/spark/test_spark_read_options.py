"""What each option of a read leaves out or changes, against the records without it."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.errors import ConditionError, MissingLogs, PositionError, UnsupportedFeature
from binlogio.gtid import MariadbGtid
from corpus import MYSQL
from pyspark_binlogio.options import BinlogOptionError, BinlogReadOptions
from spark_frames import GTID_ON, MARIADB_GTID, ROTATED, TYPES_INT, records_of, tasks
from spark_writes import definitions

pytest.importorskip("pyspark.sql.datasource")

Row = dict[str, Any]
FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)
T = TableDefinition("shop", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "varchar(9)")))


def place(row: Row) -> tuple[str, int]:
    """Where a record is, as positions name it."""
    return Path(row["file"]).name, row["pos"]


@pytest.fixture(name="clocked", scope="module")
def log_of_a_minute(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty transactions in several files, a second between each of them."""
    folder = tmp_path_factory.mktemp("clocked")
    seconds = iter(range(10_000))

    def clock() -> int:
        return int((FIRST + timedelta(seconds=now[0])).timestamp() * 1_000_000)

    now = [0]
    variables = ServerVariables(max_binlog_size=4096)
    with BinlogWriter(folder / "binlog", variables=variables, clock=clock) as log, log.session() as session:
        for number in range(60):
            now[0] = next(seconds)
            session.execute(Statement("insert", [Insert(T, [(number, "v")])]))
    return folder


@pytest.mark.parametrize("view", ["rows", "events", "transactions"])
def test_times_leave_out_what_is_before_and_from_the_other_on(clocked: Path, view: str) -> None:
    """In any of the forms that a time may have; the end does not belong to it."""
    everything = records_of(clocked, view=view)
    start, end = (FIRST + timedelta(seconds=s) for s in (20, 40))
    wanted = [row for row in everything if start <= row["timestamp"] < end]

    assert len({row["file"] for row in everything}) > 1
    assert 0 < len(wanted) < len(everything)
    for first, last in (
        (start.isoformat(), end.isoformat()),
        ("2026-01-01 00:00:19.5", "2026-01-01 01:00:40+01:00"),
        (str(int(start.timestamp())), str(int(end.timestamp()))),
    ):
        assert records_of(clocked, view=view, startingTimestamp=first, endingTimestamp=last) == wanted
    assert records_of(clocked, view=view, startingTimestamp="2026-01-01 00:01:00") == []


@pytest.mark.parametrize("view", ["rows", "events", "transactions"])
def test_positions_leave_out_earlier_and_later_files_and_transactions(view: str) -> None:
    """By the name of a log without its folder; the ending position is where the first one begins that is not wanted."""
    everything = records_of(ROTATED, view=view)
    names = sorted({place(row)[0] for row in everything})
    middle = [row for row in everything if place(row)[0] == names[1]]
    start, end = place(middle[len(middle) // 3]), place(middle[2 * len(middle) // 3])

    assert start < end
    after, before = {"startingPosition": f"{start[0]}:{start[1]}"}, {"endingPosition": f"/elsewhere/{end[0]}:{end[1]}"}
    assert records_of(ROTATED, view=view, **after) == [row for row in everything if start <= place(row)]
    assert records_of(ROTATED, view=view, **before) == [row for row in everything if place(row) < end]
    assert records_of(ROTATED, view=view, **after, **before) == [row for row in everything if start <= place(row) < end]


@pytest.mark.parametrize("view", ["rows", "events", "transactions"])
@pytest.mark.parametrize("offset", [200, 1 << 40])
def test_starting_position_that_is_no_event_is_refused(view: str, offset: int) -> None:
    """By the driver, before any task runs."""
    with pytest.raises(PositionError, match=f"{offset} is not the start of an event"):
        tasks(GTID_ON, view=view, startingPosition=f"binlog.000001:{offset}")


def test_gtid_sets_leave_out_what_is_known_and_what_is_not_wanted() -> None:
    """As a replica that has executed the one set, and stops with the other."""
    everything = records_of(GTID_ON)
    gtids = sorted({row["gtid"] for row in everything})
    some = set(gtids[::2])
    text = ",".join(some)

    assert records_of(GTID_ON, startingGtids=text) == [row for row in everything if row["gtid"] not in some]
    assert records_of(GTID_ON, endingGtids=text) == [row for row in everything if row["gtid"] in some]
    assert records_of(GTID_ON, startingGtids=text, endingGtids=text) == []


def test_position_of_mariadb_means_all_before_it_in_its_domain() -> None:
    """Other domains are not known, and not wanted."""
    everything = records_of(MARIADB_GTID)
    gtids = [MariadbGtid.parse(row["gtid"]) for row in everything]
    middle = gtids[len(gtids) // 2]
    upto = [one.domain_id == middle.domain_id and one.sequence_number <= middle.sequence_number for one in gtids]

    assert True in upto
    assert False in upto
    assert records_of(MARIADB_GTID, startingGtids=str(middle)) == [
        row for row, is_known in zip(everything, upto, strict=True) if not is_known
    ]
    assert records_of(MARIADB_GTID, endingGtids=str(middle)) == [
        row for row, is_wanted in zip(everything, upto, strict=True) if is_wanted
    ]
    with pytest.raises(ConditionError, match="of the other vendor"):
        records_of(GTID_ON, startingGtids=str(middle))


@pytest.mark.parametrize(
    ("images", "left"),
    [
        ("both", ["before", "after", "before_present", "after_present"]),
        ("before", ["before", "before_present"]),
        ("after", ["after", "after_present"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("table", [{}, {"table": "corpus.t_int"}])
def test_images_leave_out_the_other_one(images: str, left: list[str], table: dict[str, str]) -> None:
    """With its bitmap; whether they are text or structs."""
    found = pa.Table.from_batches(tasks(TYPES_INT, images=images, **table))
    everything = pa.Table.from_batches(tasks(TYPES_INT, **table))

    assert [name for name in found.column_names if "before" in name or "after" in name] == left
    assert found.equals(everything.select(found.column_names))


def test_columns_choose_those_of_the_table() -> None:
    """In the table's order; one that it does not have is refused with those that it has."""
    source = MYSQL / "metadata_full"
    whole = records_of(source, table="corpus.m1")
    found = records_of(source, table="corpus.m1", columns="u8, id")

    assert next([*row["after"]] for row in found if row["after"]) == ["id", "u8"]
    assert [row["after"] for row in found] == [
        row["after"] and {name: row["after"][name] for name in ("id", "u8")} for row in whole
    ]
    with pytest.raises(binlogio.BinlogError, match=r"corpus\.m1: unknown column, expected id, .*found idd"):
        tasks(source, table="corpus.m1", columns="idd")


def test_schema_file_gives_names_and_types() -> None:
    """Where the log has neither; a file and its text are the same."""
    case = TYPES_INT.parent
    named = records_of(TYPES_INT, table="corpus.t_int", schemaFile=definitions(case))
    unnamed = records_of(TYPES_INT, table="corpus.t_int", followDdl="false")

    def image(row: Row) -> list[Any]:
        return [*(row["after"] or {}).values()]

    assert [*named[0]["after"]][:2] == ["id", "tinyint_s"]
    assert [*unnamed[0]["after"]][:2] == ["@1", "@2"]
    assert [image(row) for row in named] == [image(row) for row in unnamed]


@pytest.mark.parametrize(("policy", "kind"), [("null", pa.timestamp("us")), ("text", pa.string())])
def test_zero_dates_are_null_or_text(policy: str, kind: pa.DataType) -> None:
    """The default is an error, which `test_spark_damage` shows; nothing else changes."""
    table = pa.Table.from_batches(tasks(MYSQL / "types_temporal", table="corpus.t_datetime", zeroDates=policy))
    texts = binlogio.read_rows(MYSQL / "types_temporal", table="corpus.t_datetime", zero_dates="text").to_table()
    found, text = (one.column("after").combine_chunks().field(1).to_pylist() for one in (table, texts))

    assert table.schema.field("after").type.field(1).type == kind
    assert any(one and one.startswith("0000") for one in text)
    for value, written in zip(found, text, strict=True):
        if policy == "text" or written is None:
            assert value == written
        else:
            assert (value is None) == (written[:4] == "0000" or "-00" in written[:10])


def test_recursive_lookup_goes_into_folders(tmp_path: Path) -> None:
    """One folder after the other; without it a folder is what is in it. Copies of a log are refused."""
    for folder in ("a", "a/b", "c"):
        (tmp_path / folder).mkdir()
        shutil.copy(TYPES_INT, tmp_path / folder)
    with pytest.raises(MissingLogs, match="the log is given twice"):
        tasks(tmp_path, recursiveFileLookup="true")
    found = records_of(tmp_path, recursiveFileLookup="true", ignoreMissingLogs="true")

    assert list(dict.fromkeys(row["file"] for row in found)) == [
        str(tmp_path / folder / TYPES_INT.name) for folder in ("a", "a/b", "c")
    ]
    assert {row["file"] for row in records_of(tmp_path / "a")} == {str(tmp_path / "a" / TYPES_INT.name)}
    assert records_of(TYPES_INT, recursiveFileLookup="true") == records_of(TYPES_INT)
    with pytest.raises(FileNotFoundError, match="no binary log in this directory"):
        tasks(tmp_path)
    assert records_of(tmp_path, ignoreMissingFiles="true") == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"view": "events", "images": "after"}, "option images applies to view rows only"),
        ({"view": "transactions", "images": "before"}, "option images applies to view rows only"),
        ({"startingGtids": "0-1-5,0-2-6"}, "expected a GTID set, or domain-server-number for each domain of MariaDB"),
    ],
)
def test_options_that_say_nothing_of_a_view_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(BinlogOptionError, match=sentence):
        BinlogReadOptions.parse(options)


@pytest.mark.parametrize("view", ["rows", "transactions", "events"])
def test_a_batch_read_refuses_a_hole(view: str, tmp_path: Path) -> None:
    """By the numbers of the logs; unless the option, or a glob, leaves logs out."""
    for number in (1, 3):
        shutil.copy(ROTATED / f"binlog.00000{number}", tmp_path)
    with pytest.raises(MissingLogs, match=r"binlog\.000003: logs are missing before this one: number 2"):
        records_of(tmp_path, view=view)
    for options in ({"ignoreMissingLogs": "true"}, {"ignoreMissingFiles": "true"}, {"pathGlobFilter": "*.00000{1,3}"}):
        assert records_of(tmp_path, view=view, **options)


def test_changes_that_are_logged_as_text_are_errors() -> None:
    """The log does not have their rows; the views of events and transactions have the statements."""
    log = MYSQL / "format_statement" / "binlog.000001"

    with pytest.raises(UnsupportedFeature, match="the log has a change as SQL text"):
        records_of(log)
    assert records_of(log, statementChanges="skip") == []
    assert records_of(log, view="transactions")
    with pytest.raises(UnsupportedFeature, match="go on without: option statementChanges=skip"):
        records_of(log, mode="DROPMALFORMED")


def test_a_table_with_changes_as_text_only_is_no_unknown_one() -> None:
    """Its columns are not asked for: the log does not have its rows."""
    log = MYSQL / "format_statement" / "binlog.000001"

    with pytest.raises(UnsupportedFeature, match="the log has a change as SQL text"):
        records_of(log, table="corpus.ti")
    with pytest.raises(BinlogOptionError, match="no log has a change of table"):
        records_of(log, table="corpus.ti", statementChanges="skip")
