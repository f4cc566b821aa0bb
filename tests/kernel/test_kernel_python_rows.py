"""Row changes as Python values by the kernel: widths that it refuses, and threads that share a table."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.event_scanner import ImagePlan
from binlogio._kernel.python_rows import RowDecoder
from binlogio.constants import ColumnType as T
from binlogio.constants import EventType
from binlogio.events.rows import WriteRowsEvent
from binlogio.format.row_changes import row_changes
from binlogio.rows.image import RowChange, RowImage, encode_rows
from binlogio.rows.plan import TablePlan
from logs import header
from rowimage_cases import LATIN1, column


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
