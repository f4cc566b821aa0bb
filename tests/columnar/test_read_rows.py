"""Row changes as record batches: both implementations give the rows of the event reader, and its errors."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from datetime import timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlogio
from binlogio._kernel import column_kinds
from binlogio.events import RowsEvent
from binlogio.rows.image import RowImage
from binlogio.values.absent import ABSENT
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDiffs, JsonDocument
from corpus import FIXTURES

FILES = sorted(
    path
    for path in FIXTURES.glob("*/*/binlog.00000?")
    if path.parent.name not in ("encrypted", "types_old_temporal") and path.is_file()
)


def _plain(value: Any) -> Any:
    """Return a value of the event reader, or of Arrow, in a form that both can have."""
    if isinstance(value, Geometry):
        return {"srid": value.srid, "wkb": value.wkb}
    if isinstance(value, JsonDocument):
        return value.text
    if isinstance(value, tuple) and not isinstance(value, JsonDiffs):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, Decimal):
        return str(value), value.as_tuple().exponent
    if isinstance(value, str):
        return str.__str__(value)
    if hasattr(value, "tzinfo") and value.tzinfo is not None:
        return value.astimezone(timezone.utc).replace(tzinfo=None)
    return value


def _image(image: RowImage | None, types: pa.StructType) -> dict[str, Any] | None:
    """Return an image in the form of Arrow: absent columns and impossible dates are null."""
    if image is None:
        return None
    values = {}
    for column, value in zip(image.plan.columns, image.values, strict=True):
        kind = types.field(column.position).type
        impossible = isinstance(value, str) and not (pa.types.is_string(kind))
        values[column.label] = None if value is ABSENT or impossible else _plain(value)
    return values


def _expected(path: Path, schemas: dict[str, pa.Schema]) -> Counter[str]:
    found: Counter[str] = Counter()
    with binlogio.open(path) as reader:
        for event in reader:
            if not isinstance(event, RowsEvent):
                continue
            plan = reader.plan(event)
            types = schemas[f"{plan.full_name}/{[column.label for column in plan.columns]}"].field("after").type
            for change in reader.rows(event):
                before, after = change.before, change.applied()
                record = (plan.full_name, event.header.offset, _image(before, types), _image(after, types))
                found[repr(record)] += 1
    return found


def _actual(path: Path) -> tuple[Counter[str], dict[str, pa.Schema]]:
    found: Counter[str] = Counter()
    schemas = {}
    for table, batch in binlogio.read_tables(path, zero_dates="null", batch_rows=100, statement_changes="skip"):
        batch.validate(full=True)
        types = batch.schema.field("after").type
        schemas[f"{table}/{[field.name for field in types]}"] = batch.schema
        for record in batch.to_pylist():
            images = [
                None if record[side] is None else {name: _plain(value) for name, value in record[side].items()}
                for side in ("before", "after")
            ]
            found[repr((table, record["pos"], *images))] += 1
    return found, schemas


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}/{path.name}")
def test_record_batches_hold_what_the_event_reader_gives(path: Path) -> None:
    actual, schemas = _actual(path)

    assert actual == _expected(path, schemas)


def test_only_wanted_tables_and_columns_are_given() -> None:
    path = FIXTURES / "mysql97/metadata_full/binlog.000001"
    tables = {table: batch.schema.field("after").type for table, batch in binlogio.read_tables(path, zero_dates="null")}
    table, image = next((table, image) for table, image in tables.items() if image.num_fields > 2)
    wanted = [image.field(1).name, image.field(0).name]
    some = list(binlogio.read_tables(path, tables=[table], columns=wanted, zero_dates="null"))

    assert {name for name, _ in some} == {table}
    assert {field.name for field in some[0][1].schema.field("after").type} == set(wanted)


def test_zero_dates_are_an_error_unless_a_policy_is_given() -> None:
    path = FIXTURES / "mysql97/types_temporal/binlog.000001"

    with pytest.raises(binlogio.BinlogFormatError, match="zero_dates"):
        list(binlogio.read_tables(path))
    texts = {
        record["after"]["d"]
        for _, batch in binlogio.read_tables(path, tables=["*.t_date_year"], zero_dates="text")
        for record in batch.to_pylist()
        if record["after"] is not None and record["after"]["d"] is not None
    }

    assert "0000-00-00" in texts


@pytest.mark.parametrize("case", ["mysql97/rowimage_minimal", "mysql97/compressed", "mariadb1011/basic_row"])
def test_records_of_all_tables_have_json_images_without_absent_columns(case: str) -> None:
    path = FIXTURES / case / "binlog.000001"
    table = binlogio.read_rows(path, statement_changes="skip").to_table()
    typed = Counter(
        (
            name,
            record["pos"],
            record["row"],
            record["op"],
            record["gtid"],
            record["before_present"],
            record["after_present"],
        )
        for name, batch in binlogio.read_tables(path, zero_dates="null", statement_changes="skip")
        for record in batch.to_pylist()
    )
    mixed = Counter(
        (f"{r['schema']}.{r['table']}", r["pos"], r["row"], r["op"], r["gtid"], r["before_present"], r["after_present"])
        for r in table.to_pylist()
    )

    assert mixed == typed
    assert all(
        len(json.loads(record[side])) == sum(byte.bit_count() for byte in record[f"{side}_present"])
        for record in table.to_pylist()
        for side in ("before", "after")
        if record[side] is not None
    )


@pytest.mark.parametrize(("folder", "keys"), [("mysql97/encrypted", "keyring"), ("mariadb1011/encrypted", "keys.txt")])
def test_encrypted_logs_give_the_rows_of_the_plain_ones(folder: str, keys: str) -> None:
    path = FIXTURES / folder
    plain: Counter[int] = Counter()
    with binlogio.open(path / "binlog.000001", keyring=path / keys) as reader:
        for event in reader:
            if isinstance(event, RowsEvent):
                plain[event.header.offset] += sum(1 for _ in reader.rows(event))
    found = Counter(
        pos
        for _, batch in binlogio.read_tables(path / "binlog.000001", keyring=path / keys)
        for pos in batch.column("pos").to_pylist()
    )

    assert found == plain
    assert found.total() > 0


def test_encrypted_log_without_a_key_says_so() -> None:
    with pytest.raises(binlogio.UnsupportedFeature, match="keyring"):
        list(binlogio.read_tables(FIXTURES / "mariadb1011/encrypted/binlog.000001"))


def test_kinds_of_columns_are_numbered_alike_in_python_and_in_c() -> None:
    kernel = Path(column_kinds.__file__).parent
    text = "".join((kernel / name).read_text("utf-8") for name in ("column_kinds.pxd", "column_values.pxd"))
    in_c = {name: int(number) for name, number in re.findall(r"^    K_(\w+) = (\d+)", text, re.MULTILINE)}
    policies = {name: int(number) for name, number in re.findall(r"^    P_(\w+) = (\d+)", text, re.MULTILINE)}

    assert in_c == {name: getattr(column_kinds, name) for name in in_c}
    assert policies == {name: getattr(column_kinds, f"DATES_{name}") for name in ("ERROR", "NULL", "TEXT")}
    forms = {name: int(number) for name, number in re.findall(r"^    F_(\w+) = (\d+)", text, re.MULTILINE)}

    assert forms == {name: getattr(column_kinds, f"FORM_{name}") for name in forms}
    assert len(in_c) + len(policies) + len(forms) == sum(name.isupper() for name in vars(column_kinds))
