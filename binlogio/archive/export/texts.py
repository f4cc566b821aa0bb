"""Converts Arrow arrays to text, for CSV and JSON lines.

Bytes are `0x` and hexadecimal digits, as in `dump --format json`. Only FLOAT and DOUBLE may use scientific notation.
DECIMAL is a string in JSON, because JSON readers may round numbers. TIME is text as in SQL, with six fraction digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlogio.arrow.conversion import decimal_texts

if TYPE_CHECKING:
    from binlogio._kernel.primitives import Memory

_NEEDS_ESCAPE: Final = '["\\\\\\x00-\\x1f]'
_FORMULA: Final = r"\A([=+\-@\t\r])"  # a spreadsheet executes a cell that begins so
_US_PER_S: Final = 1_000_000
_PART_SIZE: Final = 4 << 20
_TEXT_BUFFERS: Final = 2  # offsets and bytes
_DAYS: Final = (-719_162, 2_932_897)  # the years 1 to 9999, in days since 1970
_MICROS: Final = (_DAYS[0] * 86_400 * _US_PER_S, _DAYS[1] * 86_400 * _US_PER_S)
_LineColumn = tuple[str, bytes, int, int, int, int, pa.Buffer | None, pa.Buffer | bytes | None, pa.Buffer | None]


def hex_texts(array: pa.Array) -> pa.Array:
    """Return bytes as `0x` and hexadecimal digits."""
    array = pc.fill_null(array, b"") if array.null_count else array
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    data = array.buffers()[2]
    begin, end = (int(offsets[0]), int(offsets[-1])) if len(array) else (0, 0)
    digits = b"" if data is None else memoryview(data)[begin:end].hex().encode()
    moved = (offsets.astype(np.int64) - begin) * 2
    texts = pa.LargeStringArray.from_buffers(len(array), pa.py_buffer(moved), pa.py_buffer(digits))
    return pc.binary_join_element_wise(pa.scalar("0x", pa.large_string()), texts, pa.scalar("", pa.large_string()))


def time_texts(array: pa.Array) -> pa.Array:
    """Return durations in the form of a SQL TIME: `-838:59:59.000000`."""
    micros = np.asarray(pc.fill_null(array.cast(pa.int64()), 0))
    size = np.abs(micros)
    seconds, rest = np.divmod(size, _US_PER_S)
    parts = (seconds // 3600, seconds // 60 % 60, seconds % 60)
    hours, minutes, whole = (pc.utf8_lpad(pa.array(one).cast(pa.string()), 2, "0") for one in parts)
    fraction = pc.utf8_lpad(pa.array(rest).cast(pa.string()), 6, "0")
    sign = pc.if_else(pa.array(micros < 0), "-", "")
    clock = pc.binary_join_element_wise(hours, minutes, whole, ":")
    return pc.binary_join_element_wise(sign, clock, pc.binary_join_element_wise("", fraction, "."), "")


def moment_texts(array: pa.Array) -> pa.Array:
    """Return timestamps as text, those with a time zone in UTC with a Z at the end. Arrow's cast is slow for these."""
    if array.type.tz is None:
        return array.cast(pa.string())
    return pc.binary_join_element_wise(array.cast(pa.timestamp(array.type.unit)).cast(pa.string()), "Z", "")


def csv_texts(array: pa.Array) -> pa.Array:
    """Return an array in the types that are written to CSV; nulls are kept."""
    kind = array.type
    if pa.types.is_decimal(kind):
        return decimal_texts(array)
    if pa.types.is_binary(kind):
        return _with_nulls(array, hex_texts(array))
    if pa.types.is_duration(kind):
        return _with_nulls(array, time_texts(array))
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return moment_texts(array)
    if pa.types.is_list(kind):
        return _with_nulls(array, json_texts(array))
    if pa.types.is_dictionary(kind):
        return array.cast(kind.value_type)
    return array


def flat_columns(batch: pa.RecordBatch, *, is_safe: bool = False) -> pa.RecordBatch:
    """Return a batch with structs flattened to columns (`before.id`), and values as `csv_texts`.

    With `is_safe`, names and text that a spreadsheet would execute begin with an apostrophe; numbers stay numbers.
    """
    columns: list[tuple[str, pa.Array]] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        _flatten(name, column, columns, is_safe=is_safe)
    return pa.RecordBatch.from_arrays([texts for _, texts in columns], names=[name for name, _ in columns])


def _flatten(name: str, array: pa.Array, columns: list[tuple[str, pa.Array]], *, is_safe: bool) -> None:
    if pa.types.is_struct(array.type):
        for field, child in zip(array.type, array.flatten(), strict=True):
            _flatten(f"{name}.{field.name}", child, columns, is_safe=is_safe)
        return
    texts = csv_texts(array)
    if is_safe and (pa.types.is_string(array.type) or pa.types.is_dictionary(array.type)):
        texts = pc.replace_substring_regex(texts, _FORMULA, r"'\1")
    columns.append((re.sub(_FORMULA, r"'\1", name) if is_safe else name, texts))


def json_texts(array: pa.Array) -> pa.Array:
    """Return each value as JSON text; a null is the text `null`."""
    if len(array) == array.null_count:
        return pa.array(["null"] * len(array), pa.large_string())
    found = _json(array).cast(pa.large_string())
    return pc.if_else(array.is_null(), "null", found) if array.null_count else found


def _json(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _json(array.cast(kind.value_type))
    if pa.types.is_list(kind):
        texts = json_texts(array.values).to_pylist()
        offsets = array.offsets.to_pylist()
        found = [f"[{','.join(texts[a:b])}]" for a, b in pairwise(offsets)]
        return pa.array(found, pa.large_string())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        texts = array.cast(pa.string())
        if pa.types.is_floating(kind):  # readers of JSON take -0 for an integer, which has no sign
            texts = pc.if_else(pc.equal(texts, "-0"), "-0.0", texts)
        return pc.fill_null(texts, "null")
    if (bare := _bare_strings(array)) is not None:
        return _in_quotes(bare)
    escaped = [None if one is None else json.dumps(one, ensure_ascii=False) for one in array.to_pylist()]
    return pc.fill_null(pa.array(escaped, pa.large_string()), "null")


def _bare_strings(array: pa.Array) -> pa.Array | None:
    """Return values that are JSON strings, without quotes; None for other types, or if a value needs escapes."""
    kind = array.type
    if pa.types.is_string(kind):
        return None if pc.any(pc.match_substring_regex(array, _NEEDS_ESCAPE)).as_py() else array
    if pa.types.is_decimal(kind):
        return decimal_texts(array)
    if pa.types.is_binary(kind):
        return hex_texts(array)
    if pa.types.is_duration(kind):
        return time_texts(array)
    if pa.types.is_timestamp(kind):
        return moment_texts(array)
    return array.cast(pa.string()) if pa.types.is_date(kind) else None


def _in_quotes(texts: pa.Array) -> pa.Array:
    texts = pc.fill_null(texts.cast(pa.large_string()), "")
    quote = pa.scalar('"', pa.large_string())
    return pc.binary_join_element_wise(quote, texts, quote, pa.scalar("", pa.large_string()))


def _with_nulls(array: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(array.is_null(), pa.scalar(None, texts.type), texts) if array.null_count else texts


def json_lines(batch: pa.RecordBatch) -> Iterator[bytes | Memory]:
    """Yield a batch as JSON lines, in parts of whole lines."""
    from binlogio._kernel.json_documents import JsonLines  # noqa: PLC0415 - the kernel is optional

    lines = JsonLines(_line_columns(batch.schema.names, batch.columns), batch.num_rows)
    while len(part := lines.part(_PART_SIZE)):
        yield part


def _line_columns(names: list[str], arrays: list[pa.Array]) -> list[_LineColumn]:
    """Return the fields of an object as columns of the kernel, with those of structs; END numbers count from here."""
    columns: list[_LineColumn] = []
    for number, (name, array) in enumerate(zip(names, arrays, strict=True)):
        label = f"{',' if number else ''}{json.dumps(name, ensure_ascii=False)}:".encode()
        if not pa.types.is_struct(array.type):
            columns.append(_line_column(label, array, len(columns)))
            continue
        begin = len(columns) + 1
        fields = _line_columns([one.name for one in array.type], [array.field(i) for i in range(len(array.type))])
        end = begin + len(fields)
        columns.append(("STRUCT", label, 0, 0, end, array.offset, array.buffers()[0], None, None))
        columns += ((*one[:4], one[4] + begin, *one[5:]) for one in fields)
        columns.append(("END", b"", 0, 0, end, 0, None, None, None))
    return columns


def _line_column(label: bytes, array: pa.Array, number: int) -> _LineColumn:
    """Return a column of the kernel; values that it does not convert are converted to text here."""
    kind = array.type
    form, scale = "QUOTED", 0
    if array.null_count == len(array):
        return "NULL", label, 0, 0, number, 0, None, None, None
    if pa.types.is_integer(kind):
        form = "SIGNED" if pa.types.is_signed_integer(kind) else "UNSIGNED"
    elif pa.types.is_decimal128(kind):
        form, scale = "DECIMAL", kind.scale
    elif pa.types.is_date32(kind) and _is_in(array, _DAYS):
        form = "DATE"
    elif pa.types.is_timestamp(kind) and kind.unit == "us" and _is_in(array, _MICROS):
        form = "MOMENT" if kind.tz is None else "UTC_MOMENT"
    elif pa.types.is_string(kind):
        form = "STRING"
    elif pa.types.is_binary(kind):
        form = "HEX"
    elif pa.types.is_dictionary(kind):
        return _line_column(label, array.cast(kind.value_type), number)
    elif (bare := _bare_strings(array)) is not None:
        array = _with_nulls(array, bare)
    else:
        form, array = "RAW", json_texts(array)
    validity, *buffers = array.buffers()
    is_text = len(buffers) == _TEXT_BUFFERS
    width = (8 if pa.types.is_large_string(array.type) else 4) if is_text else array.type.bit_width // 8
    offsets, values = buffers if is_text else (None, buffers[0])
    return form, label, width, scale, number, array.offset, validity, b"" if values is None else values, offsets


def _is_in(array: pa.Array, bounds: tuple[int, int]) -> bool:
    """Return whether the numbers of all dates or times are in a range."""
    found = pc.min_max(array.cast(pa.int32() if pa.types.is_date32(array.type) else pa.int64())).as_py()
    return bool(bounds[0] <= found["min"] and found["max"] < bounds[1])
