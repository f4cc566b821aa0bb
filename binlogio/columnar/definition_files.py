"""Table definitions as a user gives them to a reader: in memory, or in a file.

Knows files: `.json` and everything else, which is SQL. What is in them is `binlogio.schema.given`'s business.

    json := {"schema.table": table or "CREATE TABLE ..."} | table | [table...]          -- table as in `binlogio.schema.definition`
    sql  := statements such as those of `mysqldump --no-data --databases shop`
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from binlogio.errors import UnsupportedFeature
from binlogio.schema.definition import TableDefinition
from binlogio.schema.given import GivenDefinitions

Definitions = Union[str, "os.PathLike[str]", Mapping[str, Any], GivenDefinitions]
"""A file, or a mapping from `schema.table` to a `TableDefinition`, a CREATE TABLE text or a JSON object."""


def load_definitions(definitions: Definitions | None) -> GivenDefinitions | None:
    """The definitions; None where none were given.

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
        return GivenDefinitions(_tables(json.loads(text))) if path.suffix == ".json" else GivenDefinitions(script=text)
    except UnsupportedFeature as exc:
        exc.locate(file=str(path))
        raise
    except ValueError as exc:
        raise UnsupportedFeature("the table definitions cannot be read", file=str(path), found=str(exc)) from exc


def _tables(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping) and "columns" not in value:
        return value
    tables = [TableDefinition.from_json(one) for one in (value if isinstance(value, list) else [value])]
    return {table.full_name: table for table in tables}
