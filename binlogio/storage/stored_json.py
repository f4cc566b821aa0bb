"""JSON in which a program of ours keeps what it has to know again: in a file, or in a table of a target.

Knows that anybody may have damaged it meanwhile, and how that is said. Knows neither files nor databases, and nothing
of what is kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from binlogio.errors import BinlogError, BinlogFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

_Kept = TypeVar("_Kept")


def read_stored(data: str | bytes, build: Callable[[Any], _Kept], *, place: str, hint: str) -> _Kept:
    """What `build` makes of the JSON value in `data`.

    Args:
        data: the text, or its UTF-8.
        build: raises what it will where the value is not as it should be.
        place: the file, or the table and the column, in which it was found.
        hint: what to do without it.

    Raises:
        BinlogFormatError: this is not what was kept there.
    """
    try:
        return build(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BinlogError) as exc:
        found = f"no {exc}" if isinstance(exc, KeyError) else str(exc)
        raise BinlogFormatError("what was kept here is damaged", file=place, found=found, hint=hint) from exc


def is_list_of(kind: type, value: object) -> bool:
    """Return whether a JSON value is an array with nothing but `kind` in it."""
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)
