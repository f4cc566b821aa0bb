"""Value classes that the standard library lacks: members of ENUM and SET, and the absence of a value."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal


class EnumValue(str):
    """A member of an ENUM column: its name, and its `index` from 1. Index 0 is the empty string of an invalid value."""

    __slots__ = ("index",)
    index: int  # type: ignore[assignment]  # str.index is of no use on a member's name

    def __new__(cls, name: str, index: int) -> EnumValue:
        """Return the member called `name`, number `index`."""
        value = super().__new__(cls, name)
        value.index = index
        return value

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return str(self), self.index

    def __repr__(self) -> str:
        return f"EnumValue({str(self)!r}, {self.index})"


class SetValue(str):
    """The members of a SET column, with commas between them in the order of the definition, and their `bits`."""

    __slots__ = ("bits",)
    bits: int

    def __new__(cls, names: str, bits: int) -> SetValue:
        """Return the members in `names`, which are the ones in `bits`, lowest first."""
        value = super().__new__(cls, names)
        value.bits = bits
        return value

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return str(self), self.bits

    def __repr__(self) -> str:
        return f"SetValue({str(self)!r}, 0x{self.bits:x})"


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""Stands where a row image does not have a column at all, which is not NULL."""

AbsentType = Literal[Absent.ABSENT]
