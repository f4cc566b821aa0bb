"""Rows of events counted by the kernel, against those that are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlogio
from binlogio.columnar.batches.row_counts import RowCounter
from binlogio.constants import ColumnType as T
from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError
from binlogio.events import ROWS_EVENTS
from binlogio.events.base import EventHeader
from binlogio.events.rows import UpdateRowsEvent, WriteRowsEvent
from binlogio.rows.image import decode_rows
from binlogio.rows.plan import TablePlan
from corpus import FIXTURES, Case, cases
from rowimage_cases import column

if TYPE_CHECKING:
    from pathlib import Path

CASES = [case for case in cases() if case.root == FIXTURES]
LOGS = [(case, log) for case in CASES for log in (*case.logs, *case.folder.glob("*.after_recovery"))]
WITHOUT_ROWS = (
    "mysql97/format_statement/binlog.000001",
    "mariadb1011/format_statement/binlog.000001",
    "mariadb118/format_statement/binlog.000001",
    "mysql97/encrypted/binlog.000002",
)
TWO = TablePlan(schema="d", table="t", columns=(column(T.LONG), column(T.VARCHAR, 20, position=1)))


@pytest.mark.parametrize(("case", "log"), LOGS, ids=[f"{case.id}/{log.name}" for case, log in LOGS])
def test_events_of_servers_have_as_many_rows_as_are_decoded(case: Case, log: Path) -> None:
    """Encrypted ones too; only a few have no rows."""
    counts = RowCounter()
    expected, found = [], []
    with binlogio.open(log, keyring=case.keys) as reader:
        for event in reader:
            if isinstance(event, ROWS_EVENTS) and event.images:
                plan = reader.plan(event)
                expected.append(sum(1 for _ in decode_rows(event, plan)))
                found.append(counts.of(event, plan))

    assert found == expected
    assert sum(found) > 0 or f"{case.id}/{log.name}" in WITHOUT_ROWS


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
            RowCounter().of(event, TWO)
    else:
        assert expected == RowCounter().of(event, TWO)
