"""The kernel's kind of each column: how the kernel converts its values to and from Arrow, Python and text.

Combines the kinds of the type families. The numbers are in `binlogio._kernel.column_kinds`.
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
    """Return the kernel's kind of a column; None for a type that the kernel does not support."""
    found = kind_without_width(column)
    if found is None:
        return None
    width = wire_width(column)
    return ColumnKind(found.kind, found.arrow, found.first, found.second, found.names, found.charset, width)


def kind_without_width(column: ColumnPlan) -> ColumnKind | None:
    """Return the kernel's kind of a column as `column_kind`, but with `width` 0."""
    make = _KINDS.get(column.type)
    return None if make is None else make(column)


@cache
def characters_of(charset: str) -> Characters:
    """Return the kernel's table of a multi-byte character set, by its name in the server."""
    from binlogio._kernel import primitives  # noqa: PLC0415 - the kernel may not be installed

    found = charset_named(charset)
    return primitives.Characters(charset, found.decode, found.encode)
