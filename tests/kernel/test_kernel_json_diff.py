"""JSON diffs applied by the kernel, against `JsonDiffs.apply`: the same text, or left to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio._kernel.json_documents import patched
from binlogio.errors import BinlogFormatError
from binlogio.primitives import lenenc
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio.values.json.diff import PARTIAL_JSON

REPLACE, INSERT, REMOVE = JsonDiffOperation
names = st.sampled_from(["a", "b", "é", "aa", "long name", 'qu"ote', "", "b\\", "1", "z"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
legs = names.map(lambda name: f".{json.dumps(name, ensure_ascii=False)}") | st.integers(0, 4).map(
    lambda index: f"[{index}]"
)


def vector(diffs: JsonDiffs) -> bytes:
    """Return the diffs as they are encoded in a row."""
    data = b""
    for diff in diffs:
        path = diff.path.encode()
        data += bytes([diff.operation]) + lenenc(len(path)) + path
        if diff.value is not None:
            data += lenenc(len(diff.value.binary)) + diff.value.binary
    return data


def expected_text(document: JsonDocument, diffs: JsonDiffs) -> str | None:
    """Return the oracle's text; None if it refuses."""
    try:
        return diffs.apply(document).text
    except BinlogFormatError:
        return None


def diff_of(operation: JsonDiffOperation, path: str, value: Any = None) -> JsonDiff:
    """Return a diff; no value for a removal."""
    return JsonDiff(operation, path, None if operation == REMOVE else JsonDocument.from_python(value))


def paths_of(value: Any, path: str = "$") -> list[str]:
    """Every path of a document."""
    found = [path]
    if isinstance(value, dict):
        for name, inner in value.items():
            found += paths_of(inner, f"{path}.{json.dumps(name, ensure_ascii=False)}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += paths_of(inner, f"{path}[{index}]")
    return found


@given(values, st.data())
def test_diffs_give_the_text_of_the_oracle_or_are_left_to_it(value: Any, data: st.DataObject) -> None:
    document = JsonDocument.from_python(value)
    diffs = []
    for _ in range(data.draw(st.integers(0, 3))):
        path = data.draw(st.sampled_from(paths_of(value))) + data.draw(st.just("") | legs)
        diffs.append(diff_of(data.draw(st.sampled_from([REPLACE, INSERT, REMOVE])), path, data.draw(values)))
    expected = expected_text(document, JsonDiffs(diffs))
    found = patched(document.binary, vector(JsonDiffs(diffs)))

    assert found is None or found.decode() == expected


DOCUMENT = {"age": 25, "tags": ["a", "b"], "address": {"zip": "1", "street": "x"}, "none": {}, "empty": []}


@pytest.mark.parametrize(
    ("operation", "path", "value"),
    [
        (REPLACE, "$", [1]),
        (REPLACE, "$.age", 26),
        (REPLACE, '$."age"', None),
        (REPLACE, "$.address.zip", "a longer one, with } and ]"),
        (REPLACE, "$.tags[1]", {"x": [1, 2]}),
        (INSERT, "$.tags[0]", "first"),
        (INSERT, "$.tags[1]", "middle"),
        (INSERT, "$.tags[2]", "last"),
        (INSERT, "$.tags[9]", "far"),
        (INSERT, "$.empty[0]", 1),
        (INSERT, "$.none.x", 1),
        (INSERT, "$.a", "shortest"),
        (INSERT, "$.empti", "in order"),
        (INSERT, "$.the_longest_of_all", 1.5),
        (REMOVE, "$.age", None),
        (REMOVE, "$.address", None),
        (REMOVE, "$.tags", None),
        (REMOVE, "$.tags[0]", None),
        (REMOVE, "$.tags[1]", None),
        (REMOVE, "$.address.street", None),
    ],
)
def test_plain_diffs_are_applied_by_the_kernel(operation: JsonDiffOperation, path: str, value: Any) -> None:
    document, diffs = JsonDocument.from_python(DOCUMENT), JsonDiffs([diff_of(operation, path, value)])
    found = patched(document.binary, vector(diffs))

    assert found is not None
    assert found.decode() == expected_text(document, diffs)


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        (REPLACE, "$.absent"),
        (REPLACE, "$.tags[2]"),
        (REPLACE, "$.age.x"),
        (REPLACE, "$.age[0]"),
        (INSERT, "$.age"),
        (INSERT, "$.tags.x"),
        (INSERT, "$.address[0]"),
        (INSERT, "$"),
        (REMOVE, "$"),
        (REMOVE, "$.none.x"),
        (REPLACE, "$.tags[*]"),
        (REPLACE, "$**.age"),
        (REPLACE, "age"),
        (REPLACE, "$.tags[99999999999]"),
        (REPLACE, "$."),
    ],
)
def test_diffs_that_do_not_fit_are_left_to_the_oracle(operation: JsonDiffOperation, path: str) -> None:
    document, diffs = JsonDocument.from_python(DOCUMENT), JsonDiffs([diff_of(operation, path, 1)])

    assert expected_text(document, diffs) is None
    assert patched(document.binary, vector(diffs)) is None


@given(st.binary(max_size=40), st.integers(0, 40), st.booleans())
def test_garbage_is_left_to_the_oracle(data: bytes, at: int, in_document: bool) -> None:
    document = JsonDocument.from_python(DOCUMENT).binary
    diffs = vector(JsonDiffs([diff_of(REPLACE, "$.address.zip", "1"), diff_of(REMOVE, "$.tags[0]")]))
    if in_document:
        document = document[:at] + data + document[at + len(data) :]
    else:
        diffs = diffs[:at] + data + diffs[at + len(data) :]
    found = patched(document, diffs)
    if found is None:
        return
    oracle = PARTIAL_JSON.parse(len(diffs).to_bytes(4, "little") + diffs)

    assert found.decode() == oracle.apply(JsonDocument(document)).text


def test_depth_is_what_the_oracle_allows() -> None:
    for depth in (1, 50, 98, 99, 100):
        value: Any = 1
        for _ in range(depth):
            value = [value]
        diffs = JsonDiffs([JsonDiff(INSERT, "$.empty[0]", JsonDocument.from_python(value))])
        document = JsonDocument.from_python(DOCUMENT)
        found = patched(document.binary, vector(diffs))

        assert (None if found is None else found.decode()) == expected_text(document, diffs), depth
