"""Values of every column type in every format of an export, read back by other libraries."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import binlogio
from binlogio.archive.export import ExportFormat, export
from binlogio.archive.export.files import file_name
from binlogio.archive.export.texts import json_lines, json_texts
from binlogio.archive.export.type_map import SQL_TYPES, markdown
from binlogio.arrow.encode import plan_of
from binlogio.arrow.types import column_spec
from binlogio.schema import ColumnDefinition, TableDefinition
from corpus import FIXTURES
from delta_tables import delta_table

DIRECTORIES = sorted(
    str(path.relative_to(FIXTURES)) for server in ("mysql97", "mariadb1011", "mariadb118")
    for path in (FIXTURES / server).glob("types*")
)  # fmt: skip
_EPOCH = timedelta()
_EXAMPLES = [one[1:] for one in SQL_TYPES if not one[1].endswith("()")]  # an ENUM has names in a definition
_US = timedelta(microseconds=1)


def normal(value: Any) -> Any:
    """Return a value in the form in which those of all formats with types are equal."""
    if isinstance(value, dict):
        return {name: normal(one) for name, one in value.items()}
    if isinstance(value, list):
        return [normal(one) for one in value]
    if isinstance(value, timedelta):
        return str(value // _US)
    if isinstance(value, pa.MonthDayNano):
        return str(value.days * 86_400_000_000 + value.nanoseconds // 1000)
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value) if type(value) is int else value


def text(value: Any) -> Any:
    """Return a value as CSV and JSON have it."""
    if isinstance(value, dict):
        return {name: text(one) for name, one in value.items()}
    if isinstance(value, list):
        return [text(one) for one in value]
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, timedelta):
        seconds, micros = divmod(abs(value) // _US, 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
        return f"-{clock}" if value < _EPOCH else clock
    if isinstance(value, datetime):
        return f"{value:%m-%d %H:%M:%S.%f}".join((f"{value.year:04}-", "Z" if value.tzinfo else ""))
    return value.isoformat() if isinstance(value, date) else value


def is_same(found: Any, logged_value: Any) -> bool:
    """Return whether values are equal; the digits of a FLOAT denote a FLOAT."""
    if isinstance(found, dict):
        return found.keys() == logged_value.keys() and all(is_same(found[name], logged_value[name]) for name in found)
    if isinstance(found, list):
        return len(found) == len(logged_value) and all(map(is_same, found, logged_value))
    if isinstance(logged_value, float):
        with np.errstate(over="ignore"):
            return found is not None and (found == logged_value or float(np.float32(found)) == logged_value)
    return bool(found == logged_value)


def read_parquet(to: Path, table: str) -> list[Any]:
    rows: list[Any] = pq.read_table(to / f"{file_name(table)}.parquet").to_pylist()
    return rows


def read_arrow(to: Path, table: str) -> list[Any]:
    rows: list[Any] = pa.ipc.open_file(to / f"{file_name(table)}.arrow").read_all().to_pylist()
    return rows


def read_duckdb(to: Path, table: str) -> list[Any]:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(to), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows: list[Any] = connection.table(table).to_arrow_table().to_pylist()
        return rows


def read_delta(to: Path, table: str) -> list[Any]:
    pytest.importorskip("deltalake")
    rows: list[Any] = delta_table(to / file_name(table)).to_pylist()
    return rows


def read_iceberg(to: Path, table: str) -> list[Any]:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog("binlogio", uri=f"sqlite:///{to / 'catalog.db'}", warehouse=to.as_uri())
    try:
        rows: list[Any] = catalog.load_table(tuple(table.split(".", 1))).scan().to_arrow().to_pylist()
        return rows
    finally:
        catalog.engine.dispose()


TYPED = {
    "parquet": read_parquet,
    "arrow": read_arrow,
    "duckdb": read_duckdb,
    "delta": read_delta,
    "iceberg": read_iceberg,
}


@cache
def logged(directory: str) -> dict[str, list[Any]]:
    """Return the images of each table, in the order of the log."""
    found: dict[str, list[Any]] = {}
    for table, batch in binlogio.read_tables(FIXTURES / directory, zero_dates="null"):
        rows = found.setdefault(table, [])
        rows += batch.select(["pos", "row", "op", "before", "after"]).to_pylist()
    return found


def by_place(rows: list[Any]) -> list[Any]:
    names = ("pos", "row", "op", "before", "after")
    return sorted(
        ({name: one[name] for name in names} for one in rows), key=lambda one: (int(one["pos"]), int(one["row"]))
    )


@pytest.mark.parametrize("form", TYPED)
def test_formats_with_types_hold_the_values_of_the_log(form: str, tmp_path: Path) -> None:
    for directory in DIRECTORIES:
        to = tmp_path / directory.replace("/", "_")

        export(FIXTURES / directory, to, format=form, zero_dates="null")  # type: ignore[arg-type]

        for table, rows in logged(directory).items():
            assert by_place(normal(TYPED[form](to, table))) == by_place(normal(rows)), (directory, table)


def test_json_lines_hold_the_values_of_the_log_as_text(tmp_path: Path) -> None:
    for directory in DIRECTORIES:
        to = tmp_path / directory.replace("/", "_")

        export(FIXTURES / directory, to, format="jsonl", zero_dates="null")

        for table, rows in logged(directory).items():
            lines = (to / f"{file_name(table)}.jsonl").read_text("utf-8").split("\n")[:-1]
            found = by_place([json.loads(line) for line in lines])
            assert is_same(found, by_place(text(rows))), (directory, table)


def json_objects(names: list[str], arrays: list[pa.Array], count: int) -> list[str]:
    """Return the rows of columns as JSON objects, made with Arrow's functions."""
    columns = []
    for name, array in zip(names, arrays, strict=True):
        if pa.types.is_struct(array.type):
            objects = json_objects([one.name for one in array.type], array.flatten(), count)
            texts = [
                one if is_valid else "null" for one, is_valid in zip(objects, array.is_valid().to_pylist(), strict=True)
            ]
        else:
            texts = json_texts(array).to_pylist()
        columns.append([f"{json.dumps(name, ensure_ascii=False)}:{one}" for one in texts])
    rows = zip(*columns, strict=True) if columns else ((),) * count
    return [f"{{{','.join(row)}}}" for row in rows]


def check_lines(batch: pa.RecordBatch) -> None:
    """Check that the kernel and Arrow's functions write the same lines, of a slice of the batch as well."""
    for part in (batch, batch.slice(1), batch.slice(len(batch) // 2, 3), batch.slice(0, 0)):
        found = b"".join(map(bytes, json_lines(part)))

        expected = "".join(f"{line}\n" for line in json_objects(batch.schema.names, part.columns, len(part)))
        assert found.decode() == expected
        assert all(list(json.loads(line)) == batch.schema.names for line in found.decode().split("\n")[:-1])


@pytest.mark.parametrize("server", ["mysql97", "mariadb1011", "mariadb118"])
def test_the_kernel_writes_the_json_lines_of_the_other_implementation(server: str) -> None:
    batches = 0
    for folder in sorted((FIXTURES / server).iterdir()):
        if not (folder / "files.txt").exists() or folder.name in ("crashed", "encrypted"):
            continue
        for zero_dates in ("null", "text"):
            for _, batch in binlogio.read_tables(folder, zero_dates=zero_dates, statement_changes="skip"):
                check_lines(batch)
                batches += 1

    assert batches > 50


def test_extreme_values_are_the_same_json_lines() -> None:
    int64 = (-(2**63), 2**63 - 1, None)
    decimals = [Decimal(one) for one in ("0", "-1E-30", "1E-38", "-0.99999999999999999999999999999999999999")]
    moments = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1969, 12, 31, 23, 59, 59, 1)]
    utc = [one.replace(tzinfo=timezone.utc) for one in moments]
    texts = ["", "".join(map(chr, range(128))), 'a"b\\c\u2028é😀' * 99, None]
    image = pa.struct([pa.field('"n', pa.int8()), pa.field("in", pa.struct([pa.field("s", pa.string())]))])
    columns = {
        "signed": pa.array([*int64, 0], pa.int64()),
        "unsigned": pa.array([0, 2**64 - 1, None, 1], pa.uint64()),
        "small": pa.array([-128, 127, None, 0], pa.int8()),
        "fractions": pa.array(decimals, pa.decimal128(38, 38)),
        "whole": pa.array([10**38 - 1, -(10**38) + 1, None, 0], pa.decimal128(38, 0)),
        "wide": pa.array([Decimal(10) ** 45, None, Decimal(-1), Decimal("1E-30")], pa.decimal256(76, 30)),
        "moment": pa.array([*moments, None], pa.timestamp("us")),
        "utc": pa.array([*utc, None], pa.timestamp("us", "UTC")),
        "second": pa.array([0, -1, None, 1 << 32], pa.int64()).cast(pa.timestamp("s")),
        "date": pa.array([*(one.date() for one in moments), None], pa.date32()),
        "time": pa.array([-1, None, 3_020_399_000_000, -3_020_399_000_000], pa.int64()).cast(pa.duration("us")),
        "text": pa.array(texts, pa.string()),
        "empty": pa.array([""] * 4, pa.string()),
        "names": pa.array(texts, pa.string()).dictionary_encode(),
        "bytes": pa.array([b"", bytes(range(256)), None, b"\0"], pa.binary()),
        "float": pa.array([1e300, -5e-324, None, 0.1], pa.float64()),
        "vector": pa.array([[1.5, -0.0], None, [], [2.0]], pa.list_(pa.float32())),
        "point": pa.array([{"srid": 1, "wkb": b"a"}, None, {"srid": None, "wkb": None}, {"srid": 0, "wkb": b""}]),
        "image": pa.array([{'"n': 1, "in": {"s": '"'}}, {'"n': None, "in": None}, None, {'"n': 2, "in": {}}], image),
        "none": pa.array([{}, None, {}, {}], pa.struct([])),
        "nulls": pa.nulls(4, pa.int32()),
    }

    check_lines(pa.record_batch(columns))


def test_csv_holds_the_values_of_the_log_as_text(tmp_path: Path) -> None:
    for directory in DIRECTORIES:
        to = tmp_path / directory.replace("/", "_")

        export(FIXTURES / directory, to, format="csv", zero_dates="null")

        for table, rows in logged(directory).items():
            path = to / f"{file_name(table)}.csv"
            names = csv.open_csv(path, parse_options=csv.ParseOptions(newlines_in_values=True)).schema.names
            found = csv.read_csv(
                path,
                parse_options=csv.ParseOptions(newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[""],
                ),
            ).to_pylist()
            for cells, row in zip(found, rows, strict=True):
                for side in ("before", "after"):
                    for name, value in (row[side] or {}).items():
                        check_cell(cells, f"{side}.{name}", value)


def check_cell(cells: dict[str, str | None], name: str, value: Any) -> None:
    cell = cells.get(name)
    if isinstance(value, dict):
        for part, inner in value.items():
            check_cell(cells, f"{name}.{part}", inner)
    elif isinstance(value, float):
        assert cell is not None
        assert is_same(float(cell), value)
    elif isinstance(value, list):
        assert cell is not None
        assert is_same(json.loads(cell), value)
    else:
        assert cell == (str(value) if isinstance(value, int) else text(value)), name


@pytest.mark.parametrize(("sql", "arrow"), _EXAMPLES, ids=[one[0] for one in _EXAMPLES])
def test_types_of_the_map_are_those_of_rows(sql: str, arrow: pa.DataType) -> None:
    (column,) = plan_of(TableDefinition("s", "t", (ColumnDefinition("c", sql),), ())).columns

    assert column_spec(column).type == arrow


def test_documentation_has_the_map_of_types() -> None:
    page = Path(__file__).parents[2] / "docs" / "export.md"

    assert markdown() in page.read_text("utf-8")
    assert {one.value for one in ExportFormat} == {*TYPED, "csv", "jsonl"}
