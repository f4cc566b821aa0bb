"""State of binlogio that is stored as JSON in a file or in a table of a replay target: positions, table definitions.

`read_stored` parses it and raises one error, with a hint, for all kinds of damage. The callers do the I/O and define
the values.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from binlogio.errors import DAMAGES, BinlogFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

_State = TypeVar("_State")


def read_stored(data: str | bytes, build: Callable[[Any], _State], *, place: str, hint: str) -> _State:
    """Parse `data` as JSON and return the result of `build` for the value.

    Args:
        data: JSON as text or UTF-8.
        build: converts the value; may raise an error of `DAMAGES`.
        place: the file, or the table and the column, that contains `data`.
        hint: what the user can do about damage.

    Raises:
        BinlogFormatError: `data` is not JSON, or `build` refuses the value.
    """
    return built(lambda: build(json.loads(data)), place=place, hint=hint)


def built(build: Callable[[], _State], *, place: str, hint: str) -> _State:
    """Return the result of `build`, which parses stored state.

    Raises:
        BinlogFormatError: `build` refuses the value, as in `read_stored`.
    """
    try:
        return build()
    except DAMAGES as exc:
        found = f"no {exc}" if isinstance(exc, KeyError) else str(exc)
        raise BinlogFormatError("the stored state is damaged", file=place, found=found, hint=hint) from exc


def is_list_of(kind: type, value: object) -> bool:
    """Return whether a JSON value is an array of values of type `kind` only."""
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)
