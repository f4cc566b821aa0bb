"""Loads the table definitions that a caller gives to a reader: a mapping, or a file in JSON or SQL.

`binlogio.schema.given` interprets them.

    json := {"schema.table": table or "CREATE TABLE ..."} | [table...] | table ...      -- table as in `binlogio.schema.definition`, or as in
    sql  := statements such as those of `mysqldump --no-data --databases shop`             scripts of `binlogio write`, one after the other
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Union

from binlogio.errors import UnsupportedFeature
from binlogio.schema.definition import TableDefinition
from binlogio.schema.given import GivenDefinitions

_BEGIN: Final = re.compile(r"\S")
_SCRIPT_KEYS: Final = frozenset({"do", "at", "session"})
Definitions = Union[str, "os.PathLike[str]", Mapping[str, Any], GivenDefinitions]
"""A file, or a mapping from `schema.table` to a `TableDefinition`, a CREATE TABLE text or a JSON object."""


def load_definitions(definitions: Definitions | None) -> GivenDefinitions | None:
    """Load the definitions; None if none were given.

    Raises:
        OSError: the file cannot be read.
        UnsupportedFeature: something in it is not understood, or defines no table.
    """
    if definitions is None or isinstance(definitions, GivenDefinitions):
        return definitions
    if isinstance(definitions, Mapping):
        return GivenDefinitions(definitions)
    path = Path(definitions)
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return (
            GivenDefinitions(_tables(text)) if text.lstrip().startswith(("{", "[")) else GivenDefinitions(script=text)
        )
    except UnsupportedFeature as exc:
        exc.locate(file=str(path))
        raise
    except (ValueError, RecursionError) as exc:
        raise UnsupportedFeature("the file of table definitions is not valid", file=str(path), found=str(exc)) from exc


def _tables(text: str) -> Mapping[str, Any]:
    values = list(_values(text))
    if len(values) == 1 and isinstance(values[0], Mapping) and "columns" not in values[0]:
        return values[0]
    found = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    tables = [TableDefinition.from_json(_without_script_keys(one)) for one in found]
    return {table.full_name: table for table in tables}


def _values(text: str) -> Iterator[Any]:
    """JSON values, one after the other."""
    decoder, begin = json.JSONDecoder(), _BEGIN.search(text)
    while begin is not None:
        value, end = decoder.raw_decode(text, begin.start())
        yield value
        begin = _BEGIN.search(text, end)


def _without_script_keys(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {name: part for name, part in value.items() if name not in _SCRIPT_KEYS}
