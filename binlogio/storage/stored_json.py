"""State that binlogio stores as JSON, in a file or in a table of a replay target: positions, table definitions.

The JSON may be damaged when it is read back; `read_stored` turns every such damage into one error that says what to do.
Reading files and databases, and the meaning of the values, belong to the callers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from binlogio.errors import BinlogError, BinlogFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

_State = TypeVar("_State")


def read_stored(data: str | bytes, build: Callable[[Any], _State], *, place: str, hint: str) -> _State:
    """Parse `data` as JSON and return what `build` makes of the value.

    Args:
        data: the text, or its UTF-8.
        build: converts the value; raises any error for a value of another form.
        place: the file, or the table and the column, that holds it.
        hint: what the user can do about damage.

    Raises:
        BinlogFormatError: `data` is not JSON, or `build` refuses the value.
    """
    try:
        return build(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BinlogError) as exc:
        found = f"no {exc}" if isinstance(exc, KeyError) else str(exc)
        raise BinlogFormatError("the stored state is damaged", file=place, found=found, hint=hint) from exc


def is_list_of(kind: type, value: object) -> bool:
    """Return whether a JSON value is an array with nothing but `kind` in it."""
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)
