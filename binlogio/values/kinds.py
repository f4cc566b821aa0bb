"""The kernel's kind of a column: how the bytes of its values become Arrow values, Python values or text, and back.

Collects the kinds of the type families. The numbers are in `binlogio._kernel.column_kinds`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from binlogio.values.charsets import charset_named
from binlogio.values.column import ColumnKind
from binlogio.values.layout import FAMILIES, wire_width

if TYPE_CHECKING:
    from binlogio._kernel.primitives import Characters
    from binlogio.constants import ColumnType
    from binlogio.values.column import ColumnPlan, KindMaker

_KINDS: Final[dict[ColumnType, KindMaker]] = {
    type_: kind for family in FAMILIES for type_, kind in family.KINDS.items()
}


def column_kind(column: ColumnPlan) -> ColumnKind | None:
    """Return how the kernel reads and writes a column; None for a type without values."""
    found = kind_without_width(column)
    if found is None:
        return None
    width = wire_width(column)
    return ColumnKind(found.kind, found.arrow, found.first, found.second, found.names, found.charset, width)


def kind_without_width(column: ColumnPlan) -> ColumnKind | None:
    """Return the same, without the attribute `width`."""
    make = _KINDS.get(column.type)
    return None if make is None else make(column)


@cache
def characters_of(charset: str) -> Characters:
    """Return the kernel's table of a multi-byte character set, by the server's name for it."""
    from binlogio._kernel import primitives  # noqa: PLC0415 - there may be no kernel

    found = charset_named(charset)
    return primitives.Characters(charset, found.decode, found.encode)
