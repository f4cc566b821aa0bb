"""Rows of events counted by the kernel, against those that are decoded."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlogio
from binlogio.columnar.row_counts import RowCounts
from binlogio.constants import ColumnType as T
from binlogio.constants import EventType
from binlogio.decoder import ROWS_EVENTS
from binlogio.errors import BinlogFormatError
from binlogio.events.base import EventHeader
from binlogio.events.rows import UpdateRowsEvent, WriteRowsEvent
from binlogio.rowimage import TablePlan, decode_rows
from rowimage_cases import column

FIXTURES = Path(__file__).parents[1] / "fixtures"
LOGS = sorted(path for path in FIXTURES.rglob("*binlog.0*") if not path.is_dir())
TWO = TablePlan(schema="d", table="t", columns=(column(T.LONG), column(T.VARCHAR, 20, position=1)))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_events_of_servers_have_as_many_rows_as_are_decoded(log: Path) -> None:
    counts = RowCounts()
    try:
        with binlogio.open(log) as reader:
            for event in reader:
                if isinstance(event, ROWS_EVENTS) and event.images:
                    plan = reader.plan(event)

                    assert sum(1 for _ in decode_rows(event, plan)) == counts.of(event, plan)
    except binlogio.BinlogError:
        pytest.skip("a log that is not to be read as it is")


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_have_as_many_rows_as_are_decoded_or_are_refused(data: bytes, is_update: bool) -> None:
    header = EventHeader(type_code=EventType.UPDATE_ROWS_EVENT if is_update else EventType.WRITE_ROWS_EVENT)
    event = (
        UpdateRowsEvent(7, 0, b"", 2, b"\3", b"\2", data, header)
        if is_update
        else WriteRowsEvent(7, 0, b"", 2, b"\3", data, header)
    )
    try:
        expected = sum(1 for _ in decode_rows(event, TWO, ()))
    except BinlogFormatError:
        with pytest.raises(BinlogFormatError):
            RowCounts().of(event, TWO)
    else:
        assert expected == RowCounts().of(event, TWO)
