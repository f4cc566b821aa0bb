"""Rows in the JSON of `dump` say where they come from, as the source columns of `read_rows` do."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, Statement, TableDefinition
from binlogio.constants import ColumnType
from binlogio.events import RowsEvent
from binlogio.events.control import XidEvent
from binlogio_cli.main import cli
from binlogio_cli.messages import DAMAGE
from both_kernels import KERNELS, kernel_set_to
from corpus import FIXTURES, files

if TYPE_CHECKING:
    from pathlib import Path

    from binlogio.rows.plan import TablePlan
    from corpus import CorpusFile

COLUMNS = ["thread_id", "commit_timestamp", "xid", "statement"]
LOGS = [one for one in files() if not one.keys and one.path.stat().st_size < 200_000]


@pytest.mark.parametrize("one", LOGS, ids=lambda one: one.id)
def test_rows_have_the_origin_that_the_source_columns_have(one: CorpusFile) -> None:
    """By the kernel; `test_kernel_row_outputs` compares its output with that without it."""
    result = CliRunner().invoke(cli, ["dump", "--format", "json", str(one.path)])
    lines = result.stdout.splitlines()
    try:
        rows = (
            binlogio.read_rows(one.path, source_columns=COLUMNS, json_diffs="operations", statement_changes="skip")
            .to_table()
            .to_pylist()
        )
    except binlogio.BinlogError:
        assert result.exit_code == DAMAGE
        return

    found, statement = [], None
    for event in map(json.loads, lines):
        if "rows" not in event:
            continue
        statement = event["statement"] or statement
        moment = event["commit_timestamp"]
        origin = (event["pos"], event["gtid"], event["thread_id"], moment, event["xid"], statement)
        found += [origin] * len(event["rows"])
        if event["event_flags"] & 1:
            statement = None
    assert found == [
        (
            row["pos"],
            row["gtid"],
            row["thread_id"],
            None if row["commit_timestamp"] is None else round(row["commit_timestamp"].timestamp() * 1e6),
            row["xid"],
            row["statement"],
        )
        for row in rows
    ]


def test_64_bit_integers_are_strings_on_request() -> None:
    """JavaScript and many JSON readers round numbers above 2^53."""
    log = str(FIXTURES / "mysql97" / "types_int" / "binlog.000001")
    numbers, texts = (
        [event for event in map(json.loads, lines) if "rows" in event]
        for lines in (
            CliRunner().invoke(cli, ["dump", "--format", "json", *option, log]).stdout.splitlines()
            for option in ((), ("--json-integers", "string"))
        )
    )

    def as_texts(image: dict[str, object], plan: TablePlan) -> dict[str, object]:
        kinds = {column.label: column.type for column in plan.columns}
        return {k: str(v) if kinds[k] == ColumnType.LONGLONG and v is not None else v for k, v in image.items()}

    with binlogio.open(log) as reader:
        plans = {
            (event.header.offset, event.table_id): reader.plan(event)
            for event in reader
            if isinstance(event, RowsEvent)
        }
    changed = 0
    for one, other in zip(numbers, texts, strict=True):
        plan = plans[one["pos"], one["table_id"]]
        expected = [{side: as_texts(image, plan) for side, image in row.items()} for row in one["rows"]]
        assert other["rows"] == expected
        changed += one["rows"] != expected
    assert changed


def xids(log: str, *options: str, stdin: bytes | None = None) -> tuple[list[int], list[int | None]]:
    """Return the XIDs of the transactions with rows, and those that rows events have."""
    result = CliRunner().invoke(cli, ["dump", "--format", "json", *options, log], input=stdin)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    ends = [event["xid"] for event in events if event["type"] == "XID_EVENT"]
    return ends, [event["xid"] for event in events if "rows" in event]


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_of_large_transactions_have_their_xid(tmp_path: Path, kernel: str) -> None:
    """The kernel writes those of more than 8 MiB statement by statement; their ends are read ahead."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("v", "longtext")), ("id",))
    counts = [1, 10, 2, 9, 1]
    with BinlogWriter(str(tmp_path / "binlog")) as writer, writer.session("d") as session:
        for number, count in enumerate(counts):
            session.begin()
            for one in range(count):
                change = Insert(table, [(number << 8 | one, "x" * (1 << 20))])
                session.execute(Statement("INSERT INTO t VALUES (1, 'x')", [change]))
            session.commit()
    log = tmp_path / "binlog.000001"
    (tmp_path / "log.gz").write_bytes(gzip.compress(log.read_bytes(), 1))

    with kernel_set_to(kernel):
        ends, found = xids(str(log))
        ends_of_compressed, found_in_compressed = xids(str(tmp_path / "log.gz"))
        ends_of_stream, found_in_stream = xids("-", stdin=log.read_bytes())
        _, found_in_some = xids(str(log), "--operation", "insert")

    expected = [xid for xid, count in zip(ends, counts, strict=True) for _ in range(count)]
    assert found == expected == found_in_compressed == found_in_some
    assert ends == ends_of_compressed == ends_of_stream
    assert found_in_stream == [None] * sum(counts)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_before_damage_have_no_xid(tmp_path: Path, kernel: str) -> None:
    """The end of a damaged transaction is not searched for after the damage."""
    source = FIXTURES / "mysql97" / "gtid_on" / "binlog.000001"
    with binlogio.open(source) as reader:
        groups = [[event for event in group if isinstance(event, (RowsEvent, XidEvent))] for group in reader.groups()]
    rows, *_, end = next(events for events in groups if len(events) > 1)
    data = bytearray(source.read_bytes())
    data[end.header.offset + 20] ^= 1
    (tmp_path / "binlog.000001").write_bytes(data)

    with kernel_set_to(kernel):
        result = CliRunner().invoke(cli, ["dump", "--format", "json", str(tmp_path / "binlog.000001")])

    events = {event["pos"]: event for event in map(json.loads, result.stdout.splitlines())}
    assert result.exit_code == DAMAGE
    assert events[rows.header.offset]["xid"] is None
