"""Batches of rows before a refused event: valid Arrow arrays that hold these rows and nothing of the refused event."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings

import binlogio
from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogError
from binlogio.rows.image import RowChange, RowImage, encode_rows
from binlogio.rows.plan import resolve_plan
from encode_cases import KINDS
from log_cases import LOGGED_COLUMNS, table_map_of
from logs import header, log
from rowimage_cases import UTF8MB4, column

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

GOOD: Final = 5
STRETCH: Final = 70
"""Rows of one operation after another that the kernel decodes on their own."""
REFUSED: Final = 3
MARK: Final = b"REFUSED"
TEXT: Final = column(T.VARCHAR, 800, collation_id=UTF8MB4)


def _event(kind: str, plan: Any, value: Any, texts: list[str]) -> Any:
    """Return a rows event whose rows have one value and these texts."""
    images = [RowImage(plan, (text, value)) for text in texts]
    changes = [RowChange(None if kind == "insert" else image, None if kind == "delete" else image) for image in images]
    return KINDS[kind](7, 0, b"", 2, b"\3", encode_rows(changes, plan, b"\3"), header())


def _log(case: Any, value: Any, damage: bytes) -> bytes:
    """Good inserts of a table, then a delete of which the text of one row is `damage`, then more rows of it."""
    table = table_map_of([TEXT, case])
    plan = resolve_plan(table)
    refused = [MARK.decode()] * STRETCH
    refused[REFUSED] = "x" * len(damage)
    marked = [MARK.decode()] * STRETCH
    stretches = (("insert", ["good"] * GOOD), ("delete", refused), ("insert", marked), ("delete", marked))
    events = [_event(kind, plan, value, texts) for kind, texts in stretches]
    spoilt = bytearray(events[1].images)
    at = spoilt.index(b"x" * len(damage))
    spoilt[at : at + len(damage)] = damage
    events[1] = KINDS["delete"](7, 0, b"", 2, b"\3", bytes(spoilt), header())
    return log(table, *events)


def _batches(read: str, data: bytes) -> Iterator[pa.RecordBatch]:
    if read == "read_tables":
        yield from (batch for _, batch in binlogio.read_tables(io.BytesIO(data), zero_dates="text"))
    elif read == "one table":
        yield from binlogio.read_rows(io.BytesIO(data), table="d.t", zero_dates="text")
    else:
        yield from binlogio.read_rows(io.BytesIO(data))


def _bytes_of(batch: pa.RecordBatch) -> bytes:
    return b"".join(buffer.to_pybytes() for array in batch.columns for buffer in array.buffers() if buffer is not None)


@pytest.mark.parametrize("read", ["read_tables", "one table"])
@pytest.mark.parametrize("number", range(len(LOGGED_COLUMNS)))
def test_batch_before_a_refused_event_holds_nothing_of_it(number: int, read: str) -> None:
    """A column of each type beside a text that is not UTF-8; rows after the damage may be decoded before it is seen."""
    case, values = LOGGED_COLUMNS[number]
    data = _log(case, _example(values), b"\xff\xfe")
    found: list[pa.RecordBatch] = []
    with pytest.raises(BinlogError, match="utf8mb4"):
        found.extend(_batches(read, data))

    assert [batch.num_rows for batch in found] == [GOOD]
    for batch in found:
        batch.validate(full=True)
        assert MARK not in _bytes_of(batch)


def test_json_records_before_a_refused_event_hold_nothing_of_it() -> None:
    """Of all tables, with images as JSON text; invalid UTF-8 is text there, so a document is damaged."""
    table = table_map_of([TEXT, column(T.JSON, 4)])
    plan = resolve_plan(table)
    good, marked = (
        encode_rows([RowChange(None, RowImage(plan, (text, None)))] * GOOD, plan, b"\3")
        for text in ("good", MARK.decode())
    )
    images = marked + b"\0\1\0x\1\0\0\0\x0f"
    events = [KINDS[kind](7, 0, b"", 2, b"\3", rows, header()) for kind, rows in (("insert", good), ("delete", images))]
    found: list[pa.RecordBatch] = []
    with pytest.raises(BinlogError):
        found.extend(_batches("read_rows", log(table, *events)))

    assert [batch.num_rows for batch in found] == [GOOD]
    for batch in found:
        batch.validate(full=True)
        assert MARK not in _bytes_of(batch)


def _example(values: Any) -> Any:
    """Return one value of a strategy, the same one each time."""
    found: list[Any] = []

    @settings(max_examples=5, derandomize=True, database=None)
    @given(values)
    def take(value: Any) -> None:
        found.append(value)

    take()
    return found[-1]
