"""JSON diffs that cannot be applied, next to others and next to damage: the same rows and errors from both kernels."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

import binlogio
from binlogio.constants import ColumnType, EventType
from binlogio.errors import UnsupportedFeature
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent
from binlogio.rows.image import RowChange, RowImage, encode_partial_rows
from binlogio.rows.plan import resolve_plan
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio.values.json.diff import is_operations
from both_kernels import KERNELS, read_tables_by, rows_and_error_by
from log_cases import table_map_of
from logs import header, log, raw_events
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
        (delete(b"\xff"), "unknown JSON value type"),
    ],
    ids=["no document", "no document, and cut", "cut", "invalid before image"],
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


@pytest.mark.parametrize("damage", ["cut", "no document"])
@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_damaged_document_before_another_damaged_event_is_the_error(damage: str, batch_rows: int) -> None:
    """The first damage is reported, and its row is not given out with an empty text."""
    damaged = JsonDocument(DOCUMENT.binary[:-1])
    later = cut(update(DOCUMENT)) if damage == "cut" else update(DOCUMENT, None)
    data = log(*update(DOCUMENT), *update(DOCUMENT, damaged), *later)
    compiled, construct = (rows_and_error_by(kernel, data, batch_rows=batch_rows) for kernel in KERNELS)
    rows, said = compiled

    assert compiled == construct
    assert [len(records) for records in rows.values()] == [1]
    assert said is not None
    assert said.offset == _offset_of_update(data, 1)


def _offset_of_update(data: bytes, number: int) -> int:
    starts = [at for at, event in raw_events(data) if event[4] == EventType.PARTIAL_UPDATE_ROWS_EVENT]
    return starts[number]


EMPTY, REMOVES = JsonDiffs(), JsonDiffs((*DIFFS, JsonDiff(JsonDiffOperation.REMOVE, '$."b\\"é"')))
OPERATIONS = {
    DIFFS: '[{"op":"replace","path":"$.a","value":[2]}]',
    REMOVES: '[{"op":"replace","path":"$.a","value":[2]},{"op":"remove","path":"$.\\"b\\\\\\"é\\""}]',
    EMPTY: "[ ]",
}


def minimal(*diffs: JsonDiffs | JsonDocument) -> list[Any]:
    """One event whose before images lack the column."""
    plan = resolve_plan(TABLE)
    changes = [RowChange(RowImage(plan, (ABSENT,)), RowImage(plan, (one,))) for one in diffs]
    images = encode_partial_rows(changes, plan, b"\0", b"\1")
    event = PartialUpdateRowsEvent(7, 1, b"", 1, b"\0", b"\1", images, header(EventType.PARTIAL_UPDATE_ROWS_EVENT))
    return [TABLE, event]


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_diffs_without_a_document_are_the_text_of_their_operations(batch_rows: int) -> None:
    """Which no document has, not even one that looks like operations.

    Beside documents that the diffs are applied to.
    """
    alike = JsonDocument.from_text('[{"op": "replace", "path": "$.a", "value": [2]}]'), JsonDocument.from_text("[]")
    data = log(*minimal(*OPERATIONS), *update(DOCUMENT), *minimal(*alike), *minimal(*OPERATIONS))
    compiled, construct = ([*rows_of_tables(kernel, data, batch_rows=batch_rows)] for kernel in KERNELS)

    assert compiled == construct
    assert compiled == [
        *OPERATIONS.values(),
        '{"a": [2]}',
        '[{"op": "replace", "path": "$.a", "value": [2]}]',
        "[]",
        *OPERATIONS.values(),
    ]
    assert [is_operations(text) for text in compiled] == [True] * 3 + [False] * 3 + [True] * 3


def rows_of_tables(kernel: str, data: bytes, **options: Any) -> list[str]:
    """Return the documents that `read_tables` reads, in the order of the log."""
    batches = [batch for _, batch in read_tables_by(kernel, io.BytesIO(data), **options)]
    return [text for batch in batches for image in batch["after"].to_pylist() for text in image.values()]


@pytest.mark.parametrize("bad", [update(None), minimal(JsonDiffs((*DIFFS, *DIFFS)))[:1] + cut(minimal(DIFFS))[1:]])
def test_diffs_that_are_refused_are_refused_after_operations_too(bad: list[Any]) -> None:
    """A NULL in the before image is no document, and no column that is absent; a cut value is damage."""
    data = log(*minimal(DIFFS), *bad, *minimal(DIFFS))
    compiled, construct = (rows_and_error_by(kernel, data) for kernel in KERNELS)
    rows, said = compiled

    assert compiled == construct
    assert sum(map(len, rows.values())) == 1
    assert OPERATIONS[DIFFS] in repr(rows)
    assert said is not None


def test_diffs_without_a_document_are_an_error_where_that_is_chosen() -> None:
    """And no other choice there is."""
    data = log(*minimal(DIFFS))
    compiled, construct = (rows_and_error_by(kernel, data, json_diffs="error") for kernel in KERNELS)

    assert compiled == construct
    assert compiled[1] is not None
    assert "no document to which the JSON diffs apply" in compiled[1].text
    assert 'json_diffs="operations"' in compiled[1].text
    with pytest.raises(UnsupportedFeature, match="json_diffs"):
        binlogio.read_tables(io.BytesIO(data), json_diffs="sql")  # type: ignore[arg-type]
