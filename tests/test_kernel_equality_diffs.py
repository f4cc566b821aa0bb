"""JSON diffs that cannot be applied, beside others and beside damage: both implementations give out the same rows and say the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.constants import ColumnType, EventType
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent
from binlogio.rowimage import RowChange, RowImage, resolve_plan
from binlogio.rowimage.image import encode_partial_rows
from binlogio.rowimage.json import JsonDocument
from binlogio.rowimage.json_diff import JsonDiff, JsonDiffOperation, JsonDiffs
from both_kernels import KERNELS, rows_and_error_by
from log_cases import table_map_of
from logs import header, log
from rowimage_cases import column

TABLE = table_map_of([column(ColumnType.JSON, 4)])
DOCUMENT = JsonDocument.from_text('{"a": 1}')
DIFFS = JsonDiffs((JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text("[2]")),))


def update(*documents: JsonDocument | None) -> list[Any]:
    """One event with the same diffs for each of the documents."""
    plan = resolve_plan(TABLE)
    changes = [RowChange(RowImage(plan, (one,)), RowImage(plan, (DIFFS,))) for one in documents]
    images = encode_partial_rows(changes, plan, b"\1", b"\1")
    event = PartialUpdateRowsEvent(7, 1, b"", 1, b"\1", b"\1", images, header(EventType.PARTIAL_UPDATE_ROWS_EVENT))
    return [TABLE, event]


def cut(events: list[Any]) -> list[Any]:
    table_map, event = events
    return [table_map, replace(event, images=event.images[:-1])]


def delete(document: bytes) -> list[Any]:
    """One row."""
    image = b"\0" + len(document).to_bytes(4, "little") + document
    return [TABLE, DeleteRowsEvent(7, 1, b"", 1, b"\1", image, header(EventType.DELETE_ROWS_EVENT))]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (update(DOCUMENT, None), "JSON diffs need a document"),
        (cut(update(None, DOCUMENT)), "bytes expected"),
        (cut(update(DOCUMENT)), "bytes expected"),
        (delete(b"\xff"), "no known type"),
    ],
    ids=["no document", "no document, and cut", "cut", "before image that is none"],
)
@pytest.mark.parametrize("options", [{}, {"batch_rows": 1}, {"batch_rows": 2}], ids=str)
def test_rows_before_diffs_that_cannot_be_applied_are_given_out(bad: list[Any], reason: str, options: Any) -> None:
    """Those of the events before; of an event that is refused none."""
    data = log(*update(DOCUMENT, DOCUMENT), *update(DOCUMENT), *bad, *update(DOCUMENT))
    compiled, construct = (rows_and_error_by(kernel, data, **options) for kernel in KERNELS)
    rows, said = compiled

    assert compiled == construct
    assert [len(records) for records in rows.values()] == [3]
    assert said is not None
    assert reason in said.text
