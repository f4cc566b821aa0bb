"""Rows in `dump` by the kernel: long values in pieces, literals, and golden values."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlogio
from binlogio.constants import BINLOG_MAGIC
from binlogio.constants import ColumnType as T
from binlogio.rows.image import decode_rows
from binlogio.rows.plan import TablePlan
from binlogio.rows.texts import SQL, TextForm, image_text
from binlogio.values.charsets import CHARSET_NAMES
from binlogio_cli.dump.json_output import JsonDump
from binlogio_cli.dump.row_texts import RowTexts
from binlogio_cli.dump.text_output import plain_form, row_lines, typed_form
from binlogio_cli.quoting import string_literal
from kernel_rows import one_value, rows_event
from rowimage_cases import VALUES, column

UTF8MB4 = next(number for number, name in CHARSET_NAMES.items() if name == "utf8mb4")


LONG = {
    "plain": b"some text " * 60_000,
    "quotes": b"it's " * 100_000,
    "escapes": b'a "word"\\\n\x01' * 50_000,
    "wide": "\u00e9\u20ac\U0001f600\x7f".encode() * 60_000,
    "direction": "\u202eabc".encode() * 90_000,
    "comments": b"*" * ((1 << 18) - 1) + b"*/" * 200_000 + b"\\",
    "ends": b"\\" + b"*" * (1 << 18) + b"/" + b"*" * 300_000 + b"/",
    "bytes": bytes(range(256)) * 3000,
}


@pytest.mark.parametrize("text", LONG)
@pytest.mark.parametrize("collation", [UTF8MB4, 63])
def test_long_values_are_written_in_pieces(text: str, collation: int) -> None:
    """In each style the same text as in one piece; pieces end anywhere between characters."""
    plan = TablePlan(schema="d", table="t", columns=(column(T.BLOB, 4, collation_id=collation), column(T.LONG)))
    images = b"\0" + len(LONG[text]).to_bytes(4, "little") + LONG[text] + bytes(4)
    for form in (typed_form(), json_form()):
        made, pieces = image_text(plan, form), list[bytes]()
        assert made is not None
        whole = made.rows(0, b"\3", b"\3", images, 0, 1 << 62)
        rest = made.rows(0, b"\3", b"\3", images, 0, 1 << 62, pieces.append)

        assert whole is not None
        assert rest is not None
        assert b"".join(pieces) + rest[0] == whole[0]
        assert rest[1:] == whole[1:]
        assert len(pieces) > 1
        assert max(map(len, pieces)) < 3 << 20


def json_form() -> TextForm:
    """Return the form of the rows of `dump --format json`."""
    with binlogio.open(io.BytesIO(BINLOG_MAGIC)) as reader:
        return JsonDump(reader, timezone.utc)._form()


def literal(text: bytes) -> str:
    """Return the SQL literal of a text by the kernel."""
    plan = TablePlan(schema="d", table="t", columns=(column(T.BLOB, 4, collation_id=UTF8MB4),))
    form = TextForm(style=SQL, label=lambda column: "", literal=str, value=lambda value, column: "by Python")
    table = image_text(plan, form)
    event = rows_event(plan, one_value(plan.columns[0], len(text).to_bytes(4, "little") + text))
    assert table is not None
    found = table.rows(0, event.present, event.present, event.images, 0, 1 << 40)
    assert found is not None
    return found[0].decode()


SPECIAL = "' \\ \x00 \x1f \x7f \x85 é \u061c \u200e \u2028 \u202e \u202f \u2066 \u2069 \u206a \U0001f600 */".split(" ")


@pytest.mark.parametrize("character", SPECIAL)
@pytest.mark.parametrize("size", [*range(36), 4094, 4095, 4096, 4097])
def test_literals_of_any_length_are_those_of_python(character: str, size: int) -> None:
    """What is special is found at every place."""
    for at in sorted({0, size // 2, max(size - 1, 0), size}):
        text = "a" * at + character + "b" * (size - at)

        assert literal(text.encode()) == string_literal(text)


@given(st.text(max_size=100))
def test_any_literal_is_that_of_python(text: str) -> None:
    """Characters of all planes."""
    assert literal(text.encode("utf-8")) == string_literal(text)


WRITTEN = [case for case in VALUES if case[1].type not in (T.NULL, T.VECTOR)]


@pytest.mark.parametrize("case", WRITTEN, ids=[case[0] for case in WRITTEN])
def test_golden_values_need_no_python(case: Any) -> None:
    """Values of real servers are written by the kernel."""
    name, plan, _, data = case[:4]
    table = TablePlan(schema="d", table="t", columns=(plan,))
    form = replace(plain_form(), value=lambda *value: "by Python")
    encoder = image_text(table, form)
    event = rows_event(table, one_value(plan, bytes.fromhex(data)))
    assert encoder is not None
    found = encoder.rows(0, event.present, event.present, event.images, 0, 1 << 40)

    assert found is not None
    assert b"by Python" not in found[0], name


def test_large_events_are_written_in_parts() -> None:
    """More than 1 MiB of images: the same text."""
    plan = TablePlan(schema="d", table="t", columns=(column(T.BLOB, 4, collation_id=UTF8MB4),))
    value = (100_000).to_bytes(4, "little") + b"\\" * 100_000
    event = rows_event(plan, one_value(plan.columns[0], value) * 60)
    texts = RowTexts(plain_form)

    parts = list(texts.parts(event, plan))

    assert len(parts) > 1
    assert sum(rows for _, rows, _ in parts) == 60
    lines = "".join(f"{line}\n" for line in row_lines(plan, decode_rows(event, plan), types=False))
    assert b"".join(text for text, _, _ in parts).decode() == lines
