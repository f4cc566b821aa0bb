"""Values as text and in JSON."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogError
from binlogio.primitives import BAD_BYTES
from binlogio.values.column import ColumnPlan
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio.values.layout import column_layout
from binlogio.values.text import json_value, value_text
from rowimage_cases import VALUES, column

BERLIN = timezone(timedelta(hours=1))
DIFFS = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$.age", JsonDocument.from_text("26"))])
INT, CHAR, FLOAT, DOUBLE, VECTOR = (
    column(kind, size) for kind, size in ((T.LONG, 0), (T.STRING, 0xFE0A), (T.FLOAT, 4), (T.DOUBLE, 8), (T.VECTOR, 4))
)

# Column, value, text, JSON (None: the same as the text).
CASES: list[tuple[ColumnPlan, Any, str, Any]] = [
    (INT, 18446744073709551615, "18446744073709551615", 18446744073709551615),
    (column(T.NEWDECIMAL, 0x0A02), Decimal("-0.50"), "-0.50", None),
    (FLOAT, 1.100000023841858, "1.1", 1.1),
    (DOUBLE, 1.100000023841858, "1.100000023841858", 1.100000023841858),
    (DOUBLE, 1e15, "1e15", 1e15),
    (CHAR, "é", "é", None),
    (CHAR, b"\0\xff", "0x00ff", None),
    (column(T.DATE), date(1, 2, 3), "0001-02-03", None),
    (column(T.DATE), "2015-00-21", "2015-00-21", None),
    (column(T.DATETIME2, 3), datetime(2024, 2, 29, 1, 2, 3, 120000), "2024-02-29 01:02:03.120", None),
    (column(T.DATETIME2, 0), datetime(2024, 2, 29), "2024-02-29 00:00:00", None),
    (column(T.TIMESTAMP2, 1), datetime(1970, 1, 1, 1, tzinfo=BERLIN), "1970-01-01 00:00:00.0", None),
    (column(T.TIME2, 2), -timedelta(hours=838, milliseconds=120), "-838:00:00.12", None),
    (column(T.TIME2, 0), timedelta(seconds=5), "00:00:05", None),
    (column(T.ENUM, 0xF701), EnumValue("b", 2), "b", None),
    (column(T.SET, 0xF801), SetValue("a,c", 5), "a,c", None),
    (column(T.JSON, 4), JsonDocument.from_text('{"a":1.0}'), '{"a": 1.0}', None),
    (column(T.JSON, 4, position=1), DIFFS, "JSON_REPLACE(@2, '$.age', 26)", None),
    (column(T.GEOMETRY, 4), Geometry.from_wkt("POINT(1 2)"), "POINT(1 2)", None),
    (column(T.GEOMETRY, 4), Geometry.from_wkt("POINT(1 2)", 4326), "SRID=4326;POINT(1 2)", None),
    (VECTOR, (-6.5, 0.10000000149011612), "[-6.5,0.1]", [-6.5, 0.1]),
]


@pytest.mark.parametrize(("plan", "value", "text", "in_json"), CASES)
def test_a_value_has_the_server_s_text(plan: ColumnPlan, value: Any, text: str, in_json: Any) -> None:
    """And a form that JSON can hold."""
    assert text == value_text(value, plan)
    assert (text if in_json is None else in_json) == json_value(value, plan)


def test_null_is_null() -> None:
    """In both forms."""
    assert value_text(None, INT) == "NULL"
    assert json_value(None, INT) is None


def test_members_are_plain_text() -> None:
    """So that any JSON library takes them."""
    assert type(json_value(EnumValue("b", 2), INT)) is str
    assert type(value_text(SetValue("b", 2), INT)) is str


@given(st.sampled_from([case[1] for case in VALUES]), st.binary(max_size=64))
def test_whatever_decodes_has_a_text(plan: ColumnPlan, data: bytes) -> None:
    """Unless a document or a geometry is damaged."""
    try:
        value = column_layout(plan).parse(data)
        text = value_text(value, plan)
    except (*BAD_BYTES, BinlogError):
        return

    assert isinstance(text, str)
    assert json.dumps(json_value(value, plan))
