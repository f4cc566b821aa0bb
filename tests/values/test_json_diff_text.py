"""Changes to JSON documents as records show them are read back as the diffs that they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogFormatError
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 40), 1 << 40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
PATHS = st.sampled_from(["$", "$.a", "$.a[3]", '$."it\'s \\"quoted\\""', "$[0].b"])


@st.composite
def diffs(draw: st.DrawFn) -> JsonDiffs:
    """Draw changes of all kinds."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        operation = draw(st.sampled_from(JsonDiffOperation))
        value = None if operation == JsonDiffOperation.REMOVE else JsonDocument.from_python(draw(VALUES))
        found.append(JsonDiff(operation, draw(PATHS), value))
    return JsonDiffs(found)


@given(diffs(), st.sampled_from(["doc", "@2", "a, 'b", "JSON_SET("]))
def test_diffs_survive_their_text(changes: JsonDiffs, column: str) -> None:
    """Operations, paths and the text of the values."""
    text = changes.sql(column)
    found = JsonDiffs.from_sql(text)

    assert JsonDiffs.is_sql(text, column)
    assert [(diff.operation, diff.path) for diff in found] == [(diff.operation, diff.path) for diff in changes]
    assert [diff.value and diff.value.text for diff in found] == [diff.value and diff.value.text for diff in changes]


@given(VALUES)
def test_no_document_looks_like_a_change(value: object) -> None:
    assert not JsonDiffs.is_sql(JsonDocument.from_python(value).text, "doc")


@pytest.mark.parametrize(
    "text", ["", "JSON_SET(doc, '$', 1)", "JSON_REPLACE(doc, '$', 1", "JSON_REPLACE(doc)", "JSON_REMOVE(doc, '$.a') "]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(BinlogFormatError, match="invalid text of a partial JSON update"):
        JsonDiffs.from_sql(text)
