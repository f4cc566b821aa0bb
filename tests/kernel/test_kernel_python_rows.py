"""Row changes by the kernel and by construct: the same Python values of the same classes, and the same errors."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import binlogio
from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.event_scanner import ImagePlan
from binlogio._kernel.python_rows import RowDecoder
from binlogio.constants import ColumnType as T
from binlogio.constants import EventType
from binlogio.errors import BinlogError
from binlogio.events import RowsEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.format.row_changes import row_changes
from binlogio.rows.image import RowChange, RowImage, decode_rows, encode_rows
from binlogio.rows.plan import TablePlan
from both_kernels import Said
from corpus import CorpusFile, files
from log_cases import Rows, damaged_rows, raw_rows, rows
from logs import header
from rowimage_cases import LATIN1, column

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def changes_or_error(decode: Any, event: Any, plan: Any) -> str | Said:
    """Return the changes as text, in which the class of each value shows, or the error."""
    try:
        return repr(list(decode(event, plan)))
    except BinlogError as exc:
        return Said.of(exc)


def check_log(data: bytes) -> int:
    """Compare the changes of each rows event of a log; returns the number of events."""
    count = 0
    try:
        with binlogio.open(io.BytesIO(data)) as reader:
            for event in reader:
                if isinstance(event, RowsEvent):
                    plan = reader.plan(event)
                    count += 1
                    assert changes_or_error(decode_rows, event, plan) == changes_or_error(row_changes, event, plan)
    except BinlogError:
        pass
    return count


@settings(max_examples=300, suppress_health_check=SLOW)
@given(rows())
def test_changes_of_every_type_are_the_same(case: Rows) -> None:
    """Tables of random columns, in all row images."""
    assert check_log(case.log())


@settings(max_examples=300, suppress_health_check=SLOW)
@given(damaged_rows())
def test_damaged_rows_raise_the_same_errors(case: Rows) -> None:
    """Images that are cut, too long, or that have other bytes."""
    check_log(case.log())


@settings(max_examples=500, suppress_health_check=SLOW)
@given(raw_rows())
def test_values_of_any_bytes_are_the_same(case: Rows) -> None:
    """One column of each type, bytes that no server would write among them."""
    check_log(case.log())


@pytest.mark.parametrize("one", [one for one in files() if not (one.keys or one.damaged)], ids=lambda one: one.id)
def test_changes_of_real_logs_are_the_same(one: CorpusFile) -> None:
    """All logs of the corpus, as they are."""
    with binlogio.open(one.path) as reader:
        for event in reader:
            if isinstance(event, RowsEvent):
                plan = reader.plan(event)

                assert changes_or_error(decode_rows, event, plan) == changes_or_error(row_changes, event, plan)


@pytest.mark.parametrize(
    "value",
    [
        (kinds.SIGNED, 9, 0, 0),
        (kinds.DATE, 4, 0, 0),
        (kinds.UTF8, 3, 0, 0),
        (kinds.UTF8, -5, 0, 0),
        (0, -5, 0, 0),
    ],
)
def test_widths_that_a_kind_does_not_have_are_refused(value: tuple[int, int, int, int]) -> None:
    """As many bytes are read as the kind says."""
    images = ImagePlan(None, [value[1]], [0], [], wanted=True)

    with pytest.raises(ValueError, match="no value of kind"):
        RowDecoder(images, None, [value], [bytes], [None], bytes, RowImage, RowChange, None, ())


def test_threads_that_share_a_table_get_their_own_rows() -> None:
    """Values that a Python function makes let other threads run in the middle of a row."""
    columns = column(T.LONG), column(T.VARCHAR, 40, collation_id=LATIN1), column(T.LONG)
    named = (replace(one, position=at, name="avb"[at]) for at, one in enumerate(columns))
    plan = TablePlan(schema="d", table="t", columns=tuple(named))
    cases = []
    for number, present in enumerate((b"\x07", b"\x06", b"\x03", b"\x02")):
        records = [{"a": number, "v": f"{number} \xe9 {row}", "b": -number} for row in range(2_000)]
        names = [one.label for one in plan.columns if present[0] >> one.position & 1]
        changes = [RowChange(None, RowImage.from_dict(plan, {name: row[name] for name in names})) for row in records]
        images = encode_rows(changes, plan, present)
        cases.append((WriteRowsEvent(1, 0, b"", 3, present, images, header(EventType.WRITE_ROWS_EVENT)), changes))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda case: [list(row_changes(case[0], plan)) for _ in range(5)], cases))
    finally:
        sys.setswitchinterval(before)

    assert [[changes] * 5 for _, changes in cases] == found
