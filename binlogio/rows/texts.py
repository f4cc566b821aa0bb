"""Describes the columns of a table for the kernel's conversion of row images to JSON and SQL text.

`binlogio.values.text` defines the text of each value. Values that the kernel cannot convert (JSON diffs, numbers that
the server does not store) are converted by the function `TextForm.value`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel import event_scanner
from binlogio._kernel import row_decoder as kernel
from binlogio.errors import BinlogFormatError
from binlogio.frozen import dataclass
from binlogio.primitives import BAD_BYTES
from binlogio.rows.image import RowChange, RowImage
from binlogio.values.absent import ABSENT
from binlogio.values.json.diff import PARTIAL_JSON
from binlogio.values.kinds import characters_of, column_kind
from binlogio.values.layout import column_layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio._kernel.row_decoder import Value
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnKind, ColumnPlan

COMPACT: Final = kernel.COMPACT
WIDE: Final = kernel.WIDE
SQL: Final = kernel.SQL
_SURROGATE: Final = "[\ud800-\udfff]"  # bytes of a name that are not valid UTF-8
_BY_CONSTRUCT: Final = 0  # the kind of a column whose values the kernel does not convert
_IN_BEFORE_IMAGE: Final = 1  # the value of `diffs` if the before image has the column


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """The text format of the images of a table.

    Args:
        style: a constant of this module, as in the kernel's `ImageText`.
        label: returns the text before each value of a column.
        literal: returns the text of a string.
        value: returns the text of any value.
        by_value: returns whether `value` is used for all values of a column; None means False.
        ends: returns the text after a value and the text after NULL.
        pieces: returns the six texts around the images of a table.
    """

    style: int
    label: Callable[[ColumnPlan], str]
    literal: Callable[[str], str]
    value: Callable[[Any, ColumnPlan], str]
    by_value: Callable[[ColumnPlan], bool] | None = None
    ends: Callable[[ColumnPlan], tuple[str, str]] | None = None
    pieces: Callable[[TablePlan], tuple[str, ...]] | None = None


def image_text(plan: TablePlan, form: TextForm) -> kernel.ImageText | None:
    """Return the kernel's converter for the images of a table; None if a column has a type that it does not support."""
    found = [column_kind(column) for column in plan.columns]
    known = [kind for kind in found if kind is not None and not (form.style == SQL and kind.kind == kinds.NOTHING)]
    if len(known) != len(found):
        return None
    widths = [kind.width for kind in known]
    pieces = form.pieces(plan) if form.pieces is not None else ("",) * 6
    return kernel.ImageText(
        event_scanner.ImagePlan(plan, widths, list(range(len(widths))), list(plan.json_positions), wanted=True),
        _utf8(plan.schema),
        _utf8(plan.table),
        [_value(column, kind, form) for column, kind in zip(plan.columns, known, strict=True)],
        _ByConstruct(plan, form),
        style=form.style,
        ends=None if form.ends is None else [_both(form.ends(column)) for column in plan.columns],
        pieces=tuple(_utf8(piece) for piece in pieces),  # type: ignore[arg-type]
    )


def _both(texts: tuple[str, str]) -> tuple[bytes, bytes]:
    return _utf8(texts[0]), _utf8(texts[1])


def _value(column: ColumnPlan, found: ColumnKind, form: TextForm) -> Value:
    kind, names = found.kind, found.names
    if form.by_value is not None and form.by_value(column):
        kind = _BY_CONSTRUCT
    if kind in (kinds.ENUM_NAMES, kinds.SET_NAMES):
        is_literal = kind == kinds.ENUM_NAMES or form.style != SQL
        names = tuple(_utf8(form.literal(name) if is_literal else name) for name in column.members or ())
        if not is_literal and re.search(_SURROGATE, "".join(column.members or ())):
            kind = _BY_CONSTRUCT
    characters = None if found.charset is None else characters_of(found.charset)
    return _utf8(form.label(column)), kind, found.width, found.first, found.second, names, characters


def _utf8(text: str) -> bytes:
    r"""Encode text as UTF-8; surrogates are written as escapes such as \udcff, as in JSON."""
    return text.encode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class _ByConstruct:
    """Converts the values that the kernel cannot convert."""

    plan: TablePlan
    form: TextForm

    def __call__(self, position: int, data: bytes, before: bytes | None, diffs: int, /) -> bytes | None:
        """Return the text of a value; None if it is invalid: decoding the whole event then raises the error.

        Args:
            position: the position of the column.
            data: the bytes of the value in the image.
            before: the bytes of the value in the before image; None if it is NULL or absent.
            diffs: 0 if `data` is a value, 1 if it is JSON diffs, 2 if it is JSON diffs and the before image lacks the
                column.
        """
        column = self.plan.columns[position]
        try:
            value = (PARTIAL_JSON if diffs else column_layout(column)).parse(data)
            if diffs and self.form.style == COMPACT:
                alone = replace(self.plan, columns=(column,))
                old: Any = ABSENT if diffs != _IN_BEFORE_IMAGE else None
                old = old if before is None else column_layout(column).parse(before)
                applied = RowChange(RowImage(alone, (old,)), RowImage(alone, (value,))).applied()
                value = applied.values[0] if applied is not None else value
            return _utf8(self.form.value(value, column))
        except (BinlogFormatError, *BAD_BYTES):
            return None
