"""Rows by the kernel in each form of output, against construct, Python and the event reader: the same, or one error.

Forms: record batches of each table and of all tables, Python values, the four formats of `dump`, undo as SQL and as a
binary log.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.constants import OptionalMetadataType
from binlogio.errors import BinlogError
from binlogio.events import RowsEvent
from binlogio.events.table_map import MetadataField
from binlogio.format.row_changes import row_changes
from binlogio.rows.image import decode_rows
from both_dumps import assert_dumped_alike
from both_kernels import KERNELS, Said, error_of_events, records_by, tables_by
from both_undos import assert_undone_alike
from corpus import CorpusFile, files
from log_cases import Rows, damaged_rows, raw_rows, rows

ZERO_DATES: Final = st.sampled_from(("error", "null", "text"))
SLOW: Final = [HealthCheck.too_slow, HealthCheck.data_too_large]


@st.composite
def keyed(draw: st.DrawFn, cases: st.SearchStrategy[Rows]) -> Rows:
    """Give the table a primary key, of columns that its images have."""
    found = draw(cases)
    event = found.event
    present = [at for at in range(event.column_count) if event.present[at >> 3] >> (at & 7) & 1]
    key = tuple(draw(st.lists(st.sampled_from(present), min_size=1, max_size=3, unique=True))) if present else ()
    field = MetadataField(OptionalMetadataType.SIMPLE_PRIMARY_KEY, key)
    table = replace(found.table_map, optional_metadata=(*found.table_map.optional_metadata, field))
    return replace(
        found, table_map=replace(table, nullable=draw(st.sampled_from((table.nullable, (False,) * event.column_count))))
    )


def assert_changes_alike(source: Any) -> int:
    """Compare the Python values of each rows event of a log, and their classes; return the number of events."""
    count = 0
    try:
        with binlogio.open(source) as reader:
            for event in reader:
                if isinstance(event, RowsEvent):
                    plan = reader.plan(event)
                    count += 1
                    assert _changes_or_error(decode_rows, event, plan) == _changes_or_error(row_changes, event, plan)
    except BinlogError:
        pass
    return count


def _changes_or_error(decode: Any, event: Any, plan: Any) -> str | Said:
    try:
        return repr(list(decode(event, plan)))
    except BinlogError as exc:
        return Said.of(exc)


def _assert_outputs_alike(case: Rows, zero_dates: str, *, good: bool = False) -> None:
    data = case.log()
    compiled, construct = (tables_by(kernel, data, zero_dates=zero_dates) for kernel in KERNELS)
    events = error_of_events(data)

    assert compiled == construct
    assert events is None or (events == construct and not good)
    assert records_by(KERNELS[0], data) == records_by(KERNELS[1], data)
    assert assert_changes_alike(io.BytesIO(data)) or not good
    assert_dumped_alike(data)
    assert_undone_alike(data)


@settings(max_examples=150, suppress_health_check=SLOW)
@given(keyed(rows()), ZERO_DATES)
def test_rows_of_every_type_are_the_same(case: Rows, zero_dates: str) -> None:
    """Tables of random columns, in all row images: values, types, bitmaps, numbers."""
    _assert_outputs_alike(case, zero_dates, good=True)


@settings(max_examples=300, suppress_health_check=SLOW)
@given(keyed(damaged_rows()), ZERO_DATES)
def test_damaged_rows_are_refused_alike(case: Rows, zero_dates: str) -> None:
    """Images that are cut, too long, or that have other bytes: class, text, offset and field of the error."""
    _assert_outputs_alike(case, zero_dates)


@settings(max_examples=500, suppress_health_check=SLOW)
@given(keyed(raw_rows()), ZERO_DATES)
def test_values_of_any_bytes_are_read_or_refused_alike(case: Rows, zero_dates: str) -> None:
    """One column of each type, bytes that no server would write among them."""
    _assert_outputs_alike(case, zero_dates)


@pytest.mark.parametrize("one", [one for one in files() if not one.keys], ids=lambda one: one.id)
def test_rows_of_real_logs_are_the_same(one: CorpusFile) -> None:
    """All logs of the corpus, those that were damaged on purpose among them."""
    assert_changes_alike(one.path)
    assert_dumped_alike(one.path)
    assert_undone_alike(one.path)
