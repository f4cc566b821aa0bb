"""Values from JSON, by the types of their columns."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.schema import ColumnDefinition, value_from_json
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDocument
from column_cases import ALL_TYPES

UTC: Final = timezone.utc


@pytest.mark.parametrize(
    ("sql_type", "given_value", "expected"),
    [
        ("int", None, None),
        ("int", -5, -5),
        ("bigint unsigned", "18446744073709551615", 2**64 - 1),
        ("tinyint(1)", True, 1),
        ("int", 5.0, 5),
        ("year", 2024, 2024),
        ("bit(12)", 5, 5),
        ("bit(12)", "0x0f05", 0x0F05),
        ("double", 1, 1.0),
        ("float", 0.5, 0.5),
        ("decimal(10,2)", "12.30", Decimal("12.30")),
        ("decimal(10,2)", 12.5, Decimal("12.5")),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("date", "2015-00-21", "2015-00-21"),
        ("time(2)", "-01:02:03.40", -timedelta(hours=1, minutes=2, seconds=3, milliseconds=400)),
        ("datetime(3)", "2024-01-02 03:04:05.678", datetime(2024, 1, 2, 3, 4, 5, 678000)),
        ("datetime(3)", "0000-00-00 00:00:00", "0000-00-00 00:00:00.000"),
        ("timestamp", "2024-01-02 03:04:05", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("varchar(9)", "0x61", "0x61"),
        ("text", "é", "é"),
        ("varbinary(9)", "0x6162", b"ab"),
        ("blob", "0x", b""),
        ("uuid", "3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429562"),
        ("enum('a','b')", "b", EnumValue("b", 2)),
        ("enum('a','b')", 1, EnumValue("a", 1)),
        ("enum('a','b')", "", EnumValue("", 0)),
        ("enum('','b')", "", EnumValue("", 1)),
        ("set('a','b','c')", "c,a", SetValue("a,c", 5)),
        ("set('a','b','c')", ["b"], SetValue("b", 2)),
        ("set('a','b','c')", 6, SetValue("b,c", 6)),
        ("set('a','b','c')", "", SetValue("", 0)),
        ("json", {"k": [1, "x"]}, JsonDocument.from_text('{"k": [1, "x"]}')),
        ("json", "text", JsonDocument.from_text('"text"')),
        ("point", "0xe6100000" + "00" * 4, Geometry(4326, bytes(4))),
        ("vector(2)", [1, 0.5], (1.0, 0.5)),
        ("vector(1)", [0.1], (0.10000000149011612,)),
        ("vector(1)", "0x0000803f", (1.0,)),
    ],
)
def test_json_values_become_values_of_the_column(sql_type: str, given_value: Any, expected: Any) -> None:
    """Of the class that rows are decoded to."""
    value = value_from_json(given_value, ColumnDefinition("c", sql_type))

    assert value == expected
    assert type(value) is type(expected)
    assert getattr(value, "index", None) == getattr(expected, "index", None) or not isinstance(value, EnumValue)
    assert getattr(value, "bits", None) == getattr(expected, "bits", None)


def test_well_known_text_takes_the_reference_system_of_its_column() -> None:
    """SRID 0 where the column takes any."""
    column = ColumnDefinition("c", "point", srid=4326)

    assert value_from_json("POINT(1 2)", column) == Geometry.from_wkt("POINT(1 2)", 4326)
    assert value_from_json("POINT(1 2)", replace(column, srid=None)) == Geometry.from_wkt("POINT(1 2)", 0)


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        ("int", "five"),
        ("int", 5.5),
        ("int", [5]),
        ("double", "1.5"),
        ("double", 10**400),
        ("decimal(10,2)", "NaN"),
        ("decimal(10,2)", "1,5"),
        ("decimal(10,2)", {}),
        ("date", "yesterday"),
        ("date", 20240101),
        ("date", "2024-01-01 10:00:00"),
        ("time", "1:2"),
        ("datetime(2)", "2024-01-02 03:04:05.678"),
        ("timestamp", "2024-13-01 00:00:00"),
        ("varchar(9)", 5),
        ("blob", "ab"),
        ("blob", "0x6"),
        ("blob", "0xzz"),
        ("bit(4)", "15"),
        ("enum('a','b')", "c"),
        ("enum('a','b')", 3),
        ("set('a','b')", "a,c"),
        ("set('a','b')", 4),
        ("set('a','b')", {"a": 1}),
        ("point", "0x00"),
        ("point", "POINT(1)"),
        ("point", 5),
        ("vector(2)", [1, "x"]),
        ("vector(2)", [1e300]),
        ("vector(2)", "0x00"),
    ],
)
def test_values_of_another_type_are_refused(sql_type: str, value: Any) -> None:
    """With the column's name."""
    with pytest.raises(BinlogFormatError) as caught:
        value_from_json(value, ColumnDefinition("c", sql_type))

    assert caught.value.field == "c"


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(ALL_TYPES.columns), JSON)
def test_any_json_is_a_value_or_refused(column: ColumnDefinition, value: Any) -> None:
    """Nothing but a BinlogError comes out."""
    try:
        value_from_json(value, column)
    except BinlogError:
        return
