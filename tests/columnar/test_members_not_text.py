"""Members and names of columns that are not text in their character set: different values stay different."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import binlogio
from binlogio import read_rows, read_tables
from binlogio.archive.export import export
from binlogio.errors import UnsupportedFeature
from binlogio.events import RowsEvent
from binlogio.schema import ColumnDefinition, TableDefinition, parse_create_table
from logs import log, query
from row_events import group, rows_of

if TYPE_CHECKING:
    from pathlib import Path

CREATE = "CREATE TABLE t (id INT, e ENUM(0xff, 0xfe, 'a') CHARACTER SET binary, s SET(0xff, 0xfe) CHARACTER SET binary)"
ROWS = ((1, 1, 1), (2, 2, 2), (3, 3, 3))


@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_values_are_the_numbers_of_members_that_are_not_text(tmp_path: Path, metadata: str) -> None:
    """As values whose members are unknown, in record batches, events and exports."""
    table = parse_create_table(CREATE, schema="d")
    mapped, rows = rows_of(*((None, row) for row in ROWS), table=table)
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(query(CREATE), *group(table.table_map(mapped.table_id, metadata), rows)))
    (found,) = [batch.column("after").to_pylist() for _, batch in read_tables(path)]
    mixed = [json.loads(one) for batch in read_rows(path) for one in batch.column("after").to_pylist()]
    with binlogio.open(path) as reader:
        changes = [change for one in reader if isinstance(one, RowsEvent) for change in reader.rows(one)]
    export(path, tmp_path / "to", format="jsonl")
    (file,) = (tmp_path / "to").rglob("*.jsonl")
    exported = [json.loads(line)["after"] for line in file.read_text().splitlines()]

    expected = [dict(zip(("id", "e", "s"), row, strict=True)) for row in ROWS]
    assert found == expected
    assert mixed == expected
    assert exported == expected
    assert [one.after and tuple(one.after.values) for one in changes] == list(ROWS)


def test_names_of_columns_that_are_not_text_stay_different(tmp_path: Path) -> None:
    """They are escapes, as the names of tables are; a name that is equal to such an escape is refused."""
    path = tmp_path / "binlog.000001"

    def written(*names: str) -> Path:
        columns = tuple(ColumnDefinition(name, "int") for name in names)
        path.write_bytes(log(*group(rows_of((None, (1, 2)), table=TableDefinition("d", "t", columns)))))
        return path

    ((_, batch),) = list(read_tables(written("\udcff", "\udcfe")))
    assert isinstance(batch, pa.RecordBatch)
    assert batch.column("after").to_pylist() == [{"\\udcff": 1, "\\udcfe": 2}]
    with pytest.raises(UnsupportedFeature, match=r"d\.t"):
        list(read_tables(written("\udcff", "\\udcff")))
