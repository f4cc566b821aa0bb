"""Rows in the JSON of `dump` say where they come from, as the source columns of `read_rows` do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.constants import ColumnType
from binlogio.events import RowsEvent
from binlogio_cli.main import cli
from binlogio_cli.messages import DAMAGE
from both_kernels import KERNELS, kernel_set_to
from corpus import FIXTURES, files

if TYPE_CHECKING:
    from binlogio.rows.plan import TablePlan
    from corpus import CorpusFile

COLUMNS = ["thread_id", "commit_timestamp", "statement"]
LOGS = [one for one in files() if not one.keys and one.path.stat().st_size < 200_000]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one", LOGS, ids=lambda one: one.id)
def test_rows_have_the_origin_that_the_source_columns_have(one: CorpusFile, kernel: str) -> None:
    with kernel_set_to(kernel):
        result = CliRunner().invoke(cli, ["dump", "--format", "json", str(one.path)])
    lines = result.stdout.splitlines()
    try:
        rows = binlogio.read_rows(one.path, source_columns=COLUMNS, json_diffs="operations").to_table().to_pylist()
    except binlogio.BinlogError:
        assert result.exit_code == DAMAGE
        return

    found, statement = [], None
    for event in map(json.loads, lines):
        if "rows" not in event:
            continue
        statement = event["statement"] or statement
        moment = event["commit_timestamp"]
        found += [(event["pos"], event["gtid"], event["thread_id"], moment, statement) for _ in event["rows"]]
        if event["event_flags"] & 1:
            statement = None
    assert found == [
        (
            row["pos"],
            row["gtid"],
            row["thread_id"],
            None if row["commit_timestamp"] is None else round(row["commit_timestamp"].timestamp() * 1e6),
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
