"""The kernel's text of a single value, from a row image with one column."""

from __future__ import annotations

from functools import cache

from binlogio._kernel.event_scanner import ImagePlan
from binlogio._kernel.row_decoder import COMPACT, SQL, ImageText


def kernel_text(kind: int, data: bytes, *, width: int = -1, first: int = 0, sql: bool = False) -> bytes | None:
    """Return a value as JSON or SQL text, strings with their quotes; None if the kernel rejects it."""
    size = len(data).to_bytes(-width, "little") if width < 0 else b""
    rows = _images(kind, width, first, sql).rows(0, b"\1", b"\1", b"\0" + size + data, 0, 1 << 20)
    if rows is None or sql:
        return None if rows is None else rows[0]
    return rows[0][len(b'{"a":') : -len(b"}")]


@cache
def _images(kind: int, width: int, first: int, sql: bool) -> ImageText:
    plan = ImagePlan(None, [width], [0], [], wanted=True)
    value = b"" if sql else b'"a"', kind, width, first, 0, None, None
    return ImageText(plan, b"d", b"t", [value], lambda *_: None, style=SQL if sql else COMPACT)
