"""Undo by the kernel: few calls of Python, documents and floating numbers, and rows for several statements."""

from __future__ import annotations

import io
import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio.replay.undo import BinlogFile, SqlScript
from binlogio.schema import TableDefinition
from binlogio.values.json import JsonDocument
from both_undos import UNDO_FORMS, assert_undone_alike, undone_by
from logs import log
from row_events import group
from undo_logs import ONE, TWO, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("binlogio._kernel.row_decoder", reason="the kernel is not compiled")

MOST_CALLS: Final = {SqlScript: 3, BinlogFile: 20}  # of a transaction: a log gets positions and checksums at the end


TYPES: Final = {"id": "int", "doc": "json", "wide": "double", "single": "float"}
NUMBERS: Final = TableDefinition.from_json(
    {
        "schema": "d",
        "name": "t",
        "columns": [{"name": name, "type": kind, "nullable": name != "id"} for name, kind in TYPES.items()],
        "primary_key": ["id"],
    }
)


def python_calls(function: Callable[[], object]) -> Counter[str]:
    """Return the number of calls of Python functions, by name."""
    called: Counter[str] = Counter()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: called.update([frame.f_code.co_name] if event == "call" else []))
    try:
        function()
    finally:
        sys.setprofile(before)
    return called


def test_kernel_compares_documents_and_floating_numbers() -> None:
    """Python writes no statement of a table with such columns."""
    document = JsonDocument.from_text('{"a": [1, 0.5, "x"]}')
    values = (0.0, -0.0, 0.125, -3.5, 1e30)
    data = log(*group(rows_of(*((None, (at, document, one, one)) for at, one in enumerate(values)), table=NUMBERS)))
    assert_undone_alike(data)

    assert python_calls(lambda: undone_by("compiled", io.BytesIO(data)))["reversed_changes"] == 0


@pytest.mark.parametrize("form", UNDO_FORMS)
def test_kernel_reverses_whole_groups(form: type[Any]) -> None:
    """Python does not walk over the events of small transactions: its calls do not depend on their number."""
    events = [*group(rows_of((None, ONE)), rows_of((TWO, None))), *group(rows_of((ONE, TWO)))]
    sources = [io.BytesIO(log(*events * count)) for count in (10, 70)]
    few, many = [python_calls(partial(undone_by, "compiled", source, form)).total() for source in sources]

    assert many - few < 120 * MOST_CALLS[form]


@pytest.mark.parametrize("sizes", [(300_000,) * 5, (10, 700_000, 10, 10), (700_000, 700_000), (262_120, 262_120, 8)])
def test_large_rows_are_inserted_by_several_statements(sizes: tuple[int, ...]) -> None:
    """A statement has at most 1 MiB of rows, or one row."""
    deleted = [((number, "a", JsonDocument.from_text(f'"{"b" * size}"')), None) for number, size in enumerate(sizes)]
    script = assert_undone_alike(log(*group(rows_of(*deleted))))

    assert isinstance(script, bytes)
    assert script.count(b"INSERT INTO") > 1
