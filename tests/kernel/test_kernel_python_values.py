"""Rows of Python values by the kernel, against construct: the same image, or left to it."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogError
from binlogio.rows.image import RowChange, RowImage, encode_rows
from binlogio.rows.packing import row_packer
from binlogio.values.column import ColumnPlan
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.json import JsonDocument
from encode_cases import ROW_TABLES, table_of
from rowimage_cases import LATIN1, UTF8MB4, VALUES, column


def image_of(plan: Any, values: Any) -> bytes | None:
    """Return the image by construct; None where it is refused."""
    present = b"\xff" * ((len(values) + 7) // 8)
    try:
        return encode_rows([RowChange(None, RowImage(plan, tuple(values)))], plan, present)
    except BinlogError:
        return None


def _is_rare(plan: ColumnPlan) -> bool:
    return plan.type in (T.DECIMAL, T.GEOMETRY, T.VECTOR) or plan.precision > 18 or plan.collation_id == 54


@settings(max_examples=120)
@given(ROW_TABLES, st.integers(0, 1))
def test_rows_are_packed_as_construct_encodes_them(case: Any, spare: int) -> None:
    """Generated rows of every type: the same image; only what is rare may be left to construct."""
    columns, rows = case
    plan = table_of(*columns, spare_null_bits=spare)
    packer = row_packer(plan)
    may_be_left = any(map(_is_rare, columns))
    for row in rows:
        packed = packer.pack(row)

        assert packed == image_of(plan, row) or (packed is None and may_be_left)


@pytest.mark.parametrize(("plan", "value", "golden"), [pytest.param(*case[1:], id=case[0]) for case in VALUES])
def test_values_of_real_servers_are_packed_as_their_bytes(plan: Any, value: Any, golden: str) -> None:
    """The golden bytes; only what is rare is left to construct."""
    packed = row_packer(table_of(plan)).pack((value,))
    if packed is None:
        assert _is_rare(plan) or str(value).startswith(("0000", "2015-00"))
    else:
        assert packed[1:] == bytes.fromhex(golden)


ODD: list[Any] = [
    *(
        True,
        1,
        -1,
        2**31,
        2**63,
        2**64,
        -(2**63),
        1.5,
        1e300,
        float("nan"),
        float("inf"),
        Decimal("1.5"),
        Decimal("-0"),
        Decimal("1e3"),
    ),
    *(
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("0.001"),
        Decimal("1.0000"),
        "",
        "a",
        "é",
        "日",
        "x" * 300,
        "\ud800",
        b"",
        b"a\0",
        b"x" * 300,
    ),
    *(
        bytearray(b"a"),
        date(2024, 2, 3),
        datetime(2024, 2, 3, 4, 5, 6, 789000),
        datetime(2024, 2, 3, tzinfo=timezone.utc),
    ),
    *(
        datetime(2024, 2, 3, tzinfo=timezone(timedelta(hours=2))),
        datetime(1969, 1, 1, tzinfo=timezone.utc),
        timedelta(hours=5, microseconds=1),
    ),
    *(
        timedelta(days=999_999_999),
        timedelta(hours=-838),
        EnumValue("a", 1),
        EnumValue("", 0),
        EnumValue("z", 300),
        SetValue("a,b", 3),
    ),
    *(
        SetValue("", 1 << 60),
        "a,b",
        "b,a",
        ",",
        "2024-02-03",
        "12:00:00",
        JsonDocument(b"\4\0"),
        (1.0, 2.0),
        [1.0],
        object(),
        {"a": 1},
    ),
]
ODD_COLUMNS = [
    *(
        column(kind, unsigned=unsigned)
        for kind in (T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG)
        for unsigned in (False, True)
    ),
    *(
        column(T.FLOAT, 4),
        column(T.DOUBLE, 8),
        column(T.NEWDECIMAL, 0x0502),
        column(T.YEAR),
        column(T.BIT, 5),
        column(T.DATE),
    ),
    *(
        column(T.TIME2, 3),
        column(T.DATETIME2, 3),
        column(T.TIMESTAMP2, 3),
        column(T.TIME),
        column(T.DATETIME),
        column(T.TIMESTAMP),
    ),
    *(column(T.STRING, 0xFE04, collation_id=number) for number in (UTF8MB4, LATIN1, 54, 63, None)),
    *(column(T.VARCHAR, 80, collation_id=number) for number in (UTF8MB4, LATIN1, 63, None)),
    *(column(T.STRING, 0xF701, members=members) for members in (None, ("a", "b"))),
    *(column(T.STRING, 0xF801, members=members) for members in (None, ("a", "b"))),
    *(column(T.JSON, 4), column(T.GEOMETRY, 4), column(T.VECTOR, 4), column(T.VARCHAR_COMPRESSED, 80), column(T.NULL)),
]


@pytest.mark.parametrize(
    "plan", ODD_COLUMNS, ids=lambda plan: f"{plan.type.name}-{plan.metadata:x}-{plan.collation_id}"
)
def test_a_value_of_another_class_is_packed_as_construct_encodes_it_or_left_to_it(plan: Any) -> None:
    """Every odd value in every column."""
    table = table_of(plan)
    packer = row_packer(table)
    for value in ODD:
        packed = packer.pack([value])

        assert packed is None or packed == image_of(table, [value])


def test_a_row_of_another_number_of_values_is_left_to_construct() -> None:
    """None, and no reading beyond the row."""
    packer = row_packer(table_of(column(T.LONG), column(T.LONG)))

    assert [packer.pack(row) for row in ((), (1,), (1, 2, 3))] == [None] * 3
