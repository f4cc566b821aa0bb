"""`ABSENT`, the value of a column that is not in a row image; it is not NULL."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT
"""The value of a column that is not in a row image; it is not NULL."""

AbsentType = Literal[Absent.ABSENT]
