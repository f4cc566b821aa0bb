"""JSON diffs: bytes, text as mysqlbinlog prints it, and what they do to a document."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogFormatError
from binlogio.primitives import BAD_BYTES
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio.values.json.diff import PARTIAL_JSON, parse_path

REPLACE, INSERT, REMOVE = JsonDiffOperation
LINE = "\n###      "


def _diffs(*changes: tuple[JsonDiffOperation, str, str | None]) -> JsonDiffs:
    return JsonDiffs(
        JsonDiff(operation, path, JsonDocument.from_text(value) if value is not None else None)
        for operation, path, value in changes
    )


# Changes, document before, document after, text: mysqlbinlog 9.7 -v on fixture mysql97/partial_json and on a run made
# for this.
CASES = [
    (_diffs((REPLACE, "$.a", "2")), '{"a":1}', '{"a": 2}', "JSON_REPLACE(@3, '$.a', 2)"),
    (
        _diffs((INSERT, "$.new", '{"n": 1}')),
        '{"a":1}',
        '{"a": 1, "new": {"n": 1}}',
        "JSON_INSERT(@3, '$.new', CAST('{\"n\": 1}' AS JSON))",
    ),
    (
        _diffs((REPLACE, "$.n", "2"), (REPLACE, "$.arr[2]", '"three"')),
        '{"n":1,"arr":[1,2,3]}',
        '{"n": 2, "arr": [1, 2, "three"]}',
        f"JSON_REPLACE(@3, '$.n', 2,{LINE}'$.arr[2]', 'three')",
    ),
    (
        _diffs((REMOVE, "$.n", None), (REMOVE, "$.arr[1]", None)),
        '{"n":1,"arr":[1,2,3]}',
        '{"arr": [1, 3]}',
        f"JSON_REMOVE(@3, '$.n',{LINE}'$.arr[1]')",
    ),
    (
        _diffs((INSERT, "$[20]", '"appended"')),
        "[1]",
        '[1, "appended"]',
        "JSON_ARRAY_INSERT(@3, '$[20]', 'appended')",
    ),
    (
        _diffs((REPLACE, "$[0]", "[]"), (REPLACE, "$[1]", "null"), (REPLACE, "$[2]", "true")),
        "[1,2,3]",
        "[[], null, true]",
        f"JSON_REPLACE(@3, '$[0]', CAST('[]' AS JSON),{LINE}'$[1]', null,{LINE}'$[2]', true)",
    ),
    (
        _diffs((INSERT, "$.z", "3"), (REMOVE, "$.a", None)),
        '{"a":1}',
        '{"z": 3}',
        f"JSON_REMOVE({LINE}JSON_INSERT(@3, '$.z', 3),{LINE}'$.a')",
    ),
    (
        _diffs((REPLACE, "$.b[0]", '"it\'s \\"x\\"\\n\\\\y"')),
        '{"b":[1]}',
        '{"b": ["it\'s \\"x\\"\\n\\\\y"]}',
        "JSON_REPLACE(@3, '$.b[0]', 'it\\'s \"x\"\\n\\\\y')",
    ),
    (
        _diffs((INSERT, '$."key with space"', "1"), (INSERT, '$."a\\"q"', "2")),
        "{}",
        '{"a\\"q": 2, "key with space": 1}',
        f'JSON_INSERT(@3, \'$."key with space"\', 1,{LINE}\'$."a\\\\"q"\', 2)',
    ),
    (_diffs((REPLACE, "$", "1")), "{}", "1", "JSON_REPLACE(@3, '$', 1)"),
    (_diffs(), "[1]", "[1]", "@3"),
]


@pytest.mark.parametrize(("diffs", "before", "after", "text"), CASES)
def test_diffs_change_a_document_and_print_as_in_mysqlbinlog(
    diffs: JsonDiffs, before: str, after: str, text: str
) -> None:
    """One table for both."""
    assert after == diffs.apply(JsonDocument.from_text(before)).text
    assert text == diffs.sql("@3", LINE)
    assert text.replace(f"({LINE}", "(").replace(LINE, " ") == diffs.sql("@3")


@pytest.mark.parametrize(("diffs", "before", "after", "text"), CASES)
def test_diffs_come_back(diffs: JsonDiffs, before: str, after: str, text: str) -> None:
    """Through their bytes."""
    found = PARTIAL_JSON.parse(PARTIAL_JSON.build(diffs))

    assert diffs == found
    assert isinstance(found, JsonDiffs)


def test_diffs_are_the_server_s_bytes() -> None:
    """u32 length, operation, path, value; fixture mysql97/partial_json."""
    assert PARTIAL_JSON.build(_diffs((REPLACE, "$.a", "2"))).hex() == "09000000" + "00" + "03242e61" + "03050200"


@pytest.mark.parametrize(("diffs", "before", "after", "text"), CASES[:-1])
def test_diffs_cut_anywhere_are_refused(diffs: JsonDiffs, before: str, after: str, text: str) -> None:
    """Whatever the length says."""
    data = PARTIAL_JSON.build(diffs)

    for end in range(len(data)):
        with pytest.raises(BAD_BYTES):
            PARTIAL_JSON.parse(data[:end])
    first = 4 + 1 + 1 + len(diffs[0].path.encode()) + (1 + len(diffs[0].value.binary) if diffs[0].value else 0)
    for end in set(range(1, len(data) - 4)) - {first - 4}:
        if len(diffs) == 1:
            with pytest.raises(BAD_BYTES):
                PARTIAL_JSON.parse(end.to_bytes(4, "little") + data[4 : 4 + end])


@pytest.mark.parametrize(
    ("diffs", "before"),
    [
        (_diffs((REPLACE, "$.nope", "1")), "{}"),
        (_diffs((REPLACE, "$[1]", "1")), "[1]"),
        (_diffs((REMOVE, "$.a.b", None)), '{"a":1}'),
        (_diffs((REMOVE, "$", None)), "{}"),
        (_diffs((INSERT, "$.a", "1")), '{"a":1}'),
        (_diffs((INSERT, "$[0]", "1")), "{}"),
        (_diffs((INSERT, "$", "1")), "{}"),
    ],
)
def test_diffs_that_do_not_fit_the_document_are_refused(diffs: JsonDiffs, before: str) -> None:
    """The server stops there as well."""
    with pytest.raises(BinlogFormatError, match="cannot be applied"):
        diffs.apply(JsonDocument.from_text(before))


@pytest.mark.parametrize(
    ("path", "legs"),
    [
        ("$", ()),
        ("$.a[3].b", ("a", 3, "b")),
        ('$."a.b"[0]', ("a.b", 0)),
        ('$.""', ("",)),
        ('$."a\\"q\\\\b"', ('a"q\\b',)),
        ("$.é._u.$", ("é", "_u", "$")),
        ("$.a\u00a0b", ("a\u00a0b",)),
    ],
)
def test_a_path_is_names_and_indexes(path: str, legs: tuple[str | int, ...]) -> None:
    """The server writes paths so."""
    assert legs == parse_path(path)


@pytest.mark.parametrize(
    "path", ["", "a", "$.", "$a", "$[x]", "$.*", "$[*]", "$**.a", '$."a', "$.a b", "$[0", "$..a", '$."\\q"']
)
def test_what_is_no_path_is_refused(path: str) -> None:
    """Wildcards too, which no diff has."""
    with pytest.raises(BinlogFormatError):
        parse_path(path)


def test_a_diff_without_the_value_that_it_needs_is_refused() -> None:
    """Only removal has none."""
    with pytest.raises(BinlogFormatError):
        PARTIAL_JSON.build(JsonDiffs([JsonDiff(REPLACE, "$.a")]))


@given(st.binary(max_size=60))
def test_any_bytes_are_diffs_or_an_error_that_is_translated(data: bytes) -> None:
    """Nothing but what `decode_rows` makes a format error of, or one already."""
    try:
        diffs = PARTIAL_JSON.parse(len(data).to_bytes(4, "little") + data)
    except (*BAD_BYTES, BinlogFormatError):
        return

    assert isinstance(diffs, JsonDiffs)
