"""Partial updates from Arrow: JSON diffs, and documents that stay as they are, by the kernel and by construct alike."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlogio.arrow.types import JSON_DIFFS
from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogFormatError
from binlogio.events.rows import PartialUpdateRowsEvent
from binlogio.rows.image import RowChange, RowImage, decode_rows, encode_partial_rows
from binlogio.rows.plan import TablePlan
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from both_kernels import KERNELS, kernel_set_to
from encode_cases import DOCUMENTS, array_of, bitmaps, encode_rows_events, image_of, rows_events_of, table_of
from rowimage_cases import UTF8MB4, column

JSON = column(T.JSON, 4)
COLUMNS = [
    (column(T.LONG), st.integers(-(2**31), 2**31 - 1)),
    (column(T.VARCHAR, 80, collation_id=UTF8MB4), st.text(st.characters(codec="utf-8"), max_size=20)),
    (JSON, DOCUMENTS),
    (JSON, DOCUMENTS),
    (JSON, DOCUMENTS),
]
PATHS = st.sampled_from(("$", "$.a", '$."é b"', "$[1]", "invalid JSON path", "", "$." + "k" * 300))
DIFFS = st.lists(
    st.builds(JsonDiff, st.sampled_from((JsonDiffOperation.REPLACE, JsonDiffOperation.INSERT)), PATHS, DOCUMENTS)
    | st.builds(JsonDiff, st.just(JsonDiffOperation.REMOVE), PATHS),
    max_size=4,
).map(JsonDiffs)


def diffs_array(values: list[JsonDiffs | None]) -> pa.Array:
    """JSON diffs as Arrow has them."""
    rows = [
        None
        if value is None
        else [
            {"operation": int(one.operation), "path": one.path, "value": None if one.value is None else one.value.text}
            for one in value
        ]
        for value in values
    ]
    return pa.array(rows, JSON_DIFFS)


def batch_of(plan: TablePlan, rows: list[list[Any]], given: set[int]) -> pa.RecordBatch:
    """Rows as a record batch; the columns at `given` have diffs."""
    arrays = []
    for i, one in enumerate(plan.columns):
        values = [row[i] for row in rows]
        arrays.append(diffs_array(values) if i in given else array_of(one, values))
    return pa.RecordBatch.from_arrays(arrays, [one.label for one in plan.columns])


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(chosen=st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=11), spare=st.integers(0, 1), data=st.data())
def test_partial_updates_have_construct_s_bytes(chosen: Any, spare: int, data: st.DataObject) -> None:
    """Generated tables: columns that are absent, NULL, changed, unchanged, or given as diffs."""
    plan = table_of(*(one for one, _ in chosen), spare_null_bits=spare)
    bits = bitmaps(len(chosen))
    present, present_after = data.draw(bits, "present"), data.draw(bits, "present_after")
    json_positions = [i for i, (one, _) in enumerate(chosen) if one.type == T.JSON]
    given_diffs = set(data.draw(st.lists(st.sampled_from(json_positions), unique=True))) if json_positions else set()
    old_rows = data.draw(st.lists(st.tuples(*(st.none() | values for _, values in chosen)).map(list), max_size=5))
    new_rows = [
        [
            data.draw(st.none() | (DIFFS if i in given_diffs else st.just(old[i]) | values))
            for i, (_, values) in enumerate(chosen)
        ]
        for old in old_rows
    ]
    expected = b""
    for old, new in zip(old_rows, new_rows, strict=True):
        before, after = image_of(plan, old, present), image_of(plan, new, present_after)
        stays = [isinstance(value, JsonDocument) and value == before.values[i] for i, value in enumerate(after.values)]
        shorter = [JsonDiffs() if same else value for same, value in zip(stays, after.values, strict=True)]
        change = RowChange(before, RowImage(plan, tuple(shorter)))
        expected += encode_partial_rows([change], plan, present, present_after)
    found = []
    for kernel in KERNELS:
        with kernel_set_to(kernel):
            found.append(
                bytes(
                    encode_rows_events(
                        plan,
                        "update",
                        batch_of(plan, old_rows, set()),
                        batch_of(plan, new_rows, given_diffs),
                        table_id=7,
                        present=present,
                        present_after=present_after,
                        partial_json=True,
                        row_event_max_size=300,
                    )
                )
            )

    events = rows_events_of(found[0])

    assert found[0] == found[1]
    assert b"".join(event.images for event in events) == expected
    assert {(type(event), event.present, event.present_after) for event in events} <= {
        (PartialUpdateRowsEvent, present, present_after)
    }


def test_document_that_stays_is_no_diff_at_all() -> None:
    """Four bytes in its place, and its bit; another one is there as a whole."""
    plan = table_of(column(T.LONG), JSON, JSON)
    one, two = (JsonDocument.from_text(f'{{"a":{number}}}') for number in (1, 2))
    before = batch_of(plan, [[1, one, one], [2, None, one]], set())
    after = batch_of(plan, [[1, one, two], [2, one, two]], set())
    (event,) = rows_events_of(bytes(encode_rows_events(plan, "update", before, after, table_id=7, partial_json=True)))
    changes = list(decode_rows(event, plan))

    assert [change.after.values for change in changes if change.after] == [(1, JsonDiffs(), two), (2, one, two)]
    assert [image.values for change in changes if (image := change.applied())] == [(1, one, two), (2, one, two)]


REFUSED: list[tuple[str, list[Any]]] = [
    ("unknown operation", [{"operation": 3, "path": "$", "value": "1"}]),
    ("a value that goes away", [{"operation": 2, "path": "$.a", "value": "1"}]),
    ("no value", [{"operation": 0, "path": "$.a", "value": None}]),
    ("no JSON", [{"operation": 0, "path": "$.a", "value": "{"}]),
    ("no path", [{"operation": 0, "path": None, "value": "1"}]),
    ("no operation", [{"operation": None, "path": "$", "value": "1"}]),
    ("no diff", [None]),
]


@pytest.mark.parametrize(("what", "diffs"), REFUSED, ids=[what for what, _ in REFUSED])
def test_what_is_no_diff_is_refused_alike(what: str, diffs: list[Any]) -> None:
    """With the row and the column, after a good one."""
    plan = table_of(JSON)
    before = batch_of(plan, [[JsonDocument.from_text("{}")]] * 2, set())
    good = [{"operation": 0, "path": "$", "value": "1"}]
    after = pa.RecordBatch.from_arrays([pa.array([good, diffs], JSON_DIFFS)], ["c0"])
    said = []
    for kernel in KERNELS:
        with kernel_set_to(kernel), pytest.raises(BinlogFormatError) as caught:
            encode_rows_events(plan, "update", before, after, table_id=7, partial_json=True)
        said.append((str(caught.value), caught.value.field))

    assert said[0] == said[1]
    assert str(said[0][1]).startswith("row 1, column c0")


def test_diffs_without_a_partial_update_are_refused() -> None:
    """An event of full updates has no place for them."""
    plan = table_of(JSON)
    before = batch_of(plan, [[JsonDocument.from_text("{}")]], set())
    after = batch_of(plan, [[JsonDiffs()]], {0})
    with pytest.raises(BinlogFormatError):
        encode_rows_events(plan, "update", before, after, table_id=7)


@settings(max_examples=50)
@given(st.lists(st.none() | DIFFS, min_size=1, max_size=6), st.data())
def test_diffs_are_taken_from_any_part_of_an_array(values: list[JsonDiffs | None], data: st.DataObject) -> None:
    """Slices begin anywhere in the buffers of lists, structs and texts."""
    first = data.draw(st.integers(0, len(values) - 1))
    plan = table_of(JSON)
    wanted = values[first:]
    before = batch_of(plan, [[None]] * len(wanted), set())
    sliced = pa.RecordBatch.from_arrays([diffs_array(values).slice(first)], ["c0"])
    whole = batch_of(plan, [[value] for value in wanted], {0})
    found = [
        bytes(encode_rows_events(plan, "update", before, after, table_id=7, partial_json=True))
        for after in (sliced, whole)
    ]

    assert found[0] == found[1]
