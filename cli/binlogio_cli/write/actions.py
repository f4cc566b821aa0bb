"""Actions of scripts: the decorator that declares them, the JSON Schema of script lines, and the validation of a line.

The decorator `action` attaches the schema of an action to the method that runs it. `script_schema` combines the
schemas. `check` validates a value; it supports the JSON Schema keywords that are used here: type, const, enum, minimum,
maximum, properties, required, additionalProperties, items, minItems, maxItems, anyOf, $ref.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, TypeVar

from binlogio.options import VARIABLE_CHOICES, VARIABLE_RANGES, ServerVariables
from binlogio.schema import ColumnDefinition, ForeignKeyDefinition, KeyDefinition, TableDefinition
from binlogio.writer.rules.statement_facts import StatementKind
from binlogio.writer.rules.unsafe import UnsafeReason
from binlogio.writer.session.connection import ClientVariables

Json = Mapping[str, Any]
Schema = dict[str, Any]
_Method = TypeVar("_Method", bound=Callable[..., None])

_SHOWN: Final = 80
MOST_LINE: Final = 1 << 26  # characters or bytes of a line of a script or a data file; others are refused
_UINT64_MAX: Final = (1 << 64) - 1


def value_of(kind: str | list[str], description: str, **more: Any) -> Schema:
    """Return the schema of a value of a JSON type."""
    return {"description": description, "type": kind, **more}


def text(description: str, **more: Any) -> Schema:
    """Return the schema of a string."""
    return value_of("string", description, **more)


def flag(description: str) -> Schema:
    """Return the schema of a boolean."""
    return value_of("boolean", description)


def unsigned(description: str, *, most: int = _UINT64_MAX) -> Schema:
    """Return the schema of an integer from 0 to `most`."""
    return value_of("integer", description, minimum=0, maximum=most)


def list_of(items: Schema, description: str) -> Schema:
    """Return the schema of a list."""
    return value_of("array", description, items=items)


def object_of(description: str, required: Iterable[str] = (), **properties: Schema) -> Schema:
    """Return the schema of an object with exactly these possible keys."""
    found = value_of("object", description, properties=properties, additionalProperties=False)
    return {**found, "required": list(required)} if required else found


def defined(name: str) -> Schema:
    """Return a reference to one of the definitions of `script_schema`."""
    return {"$ref": f"#/$defs/{name}"}


@dataclass(frozen=True, slots=True)
class Action:
    """An action: the method that runs it, and its keys in addition to the common keys of all lines."""

    run: Callable[..., None]
    required: tuple[str, ...]
    properties: Mapping[str, Schema]

    @property
    def schema(self) -> Schema:
        """The JSON Schema of lines with this action."""
        name, doc = self.run.__name__, self.run.__doc__ or ""
        properties = {"do": {"const": name}, **_COMMON, **self.properties}
        return object_of(" ".join(doc.partition("\n\nRaises:")[0].split()), ("do", *self.required), **properties)


ACTIONS: Final[dict[str, Action]] = {}
"""The actions by name; `action` adds each decorated method."""


def action(*required: str, **properties: Schema) -> Callable[[_Method], _Method]:
    """Declare a method as an action with its name; its docstring is the description."""

    def declare(method: _Method) -> _Method:
        ACTIONS[method.__name__] = Action(method, required, properties)
        return method

    return declare


# --------------------------------------------------------------------------------------------------------------- schema

_FIELD_TYPES: Final[dict[str, Schema]] = {
    "str": {"type": "string"},
    "str | None": {"type": ["string", "null"]},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "int | None": {"type": ["integer", "null"]},
    "tuple[str, ...]": {"type": "array", "items": {"type": "string"}},
    "tuple[int, ...]": {"type": "array", "items": {"type": "integer"}},
    "tuple[str, ...] | None": {"type": ["array", "null"], "items": {"type": "string"}},
    "tuple[ColumnDefinition, ...]": {"type": "array", "items": defined("column")},
    "tuple[KeyDefinition, ...]": {"type": "array", "items": defined("key")},
    "tuple[ForeignKeyDefinition, ...]": {"type": "array", "items": defined("foreign_key")},
}


def fields_of(kind: type) -> dict[str, Schema]:
    """Return the schemas of the fields of a dataclass."""
    found = {}
    for field in fields(kind):
        found[field.name] = schema = dict(_FIELD_TYPES[str(field.type)])
        if field.default is not MISSING:
            schema["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
        if kind is ServerVariables and field.name in VARIABLE_RANGES:
            schema["minimum"], schema["maximum"] = VARIABLE_RANGES[field.name]
        if kind is ServerVariables and field.name in VARIABLE_CHOICES:
            schema["examples"] = list(VARIABLE_CHOICES[field.name])  # case-insensitive
    return found


def _record(kind: type) -> Schema:
    required = [field.name for field in fields(kind) if field.default is MISSING]
    return object_of((kind.__doc__ or "").partition("\n")[0], required, **fields_of(kind))


_COMMON: Final = {name: defined(name) for name in ("session", "at", "schema", "refused", "warnings")}
TABLE_NAME: Final = text("A table, as schema.name; a part with a dot in backticks.")
_ROWS: Final = list_of(
    {"type": "object"}, "Rows: objects with the names of columns. Columns that are missing are NULL."
)
_COLUMNS: Final = list_of({"type": "string"}, "The columns that the statement gave a value (for minimal row images).")
_CASCADE: Final = flag("True if a foreign key changed the rows.")
EXECUTED: Final = {
    "sql": text("The statement, as the client sent it."),
    "changes": list_of(defined("change"), "The rows that it changed, those of triggers and foreign keys too."),
    "error": unsigned("The error with which it ended, such as 1062, or 1317 if it was killed.", most=1 << 16),
    "facts": defined("facts"),
    "last_insert_id": unsigned("The value of LAST_INSERT_ID() in it."),
    "insert_id": unsigned("The first value of its AUTO_INCREMENT column."),
    "rand_seeds": value_of(
        "array", "The two seeds of RAND() in it.", items=unsigned("A seed."), minItems=2, maxItems=2
    ),
    "user_variables": value_of(
        "object", "The user variables that it reads, by name.", additionalProperties=defined("user_variable")
    ),
    "file": object_of(
        "The file of a LOAD DATA, by one of `path`, `text` and `bytes`.",
        path=text("Its name, relative to the folder of the script."),
        text=text("Its contents."),
        bytes=defined("bytes"),
        on_duplicate=text("What happens to rows whose key exists already.", enum=["", "IGNORE", "REPLACE"]),
        block_size=value_of("integer", "The size of its blocks in the log, in bytes.", minimum=1, maximum=1 << 30),
        database_collation=text("The collation of the database, if the statement depends on it."),
    ),
    "table_exists": flag("True if the table of CREATE TABLE IF NOT EXISTS exists already."),
    "modifies_engine": flag("True if an engine with two-phase commit has changes. Default: decided by the changes."),
    "updated_schemas": list_of({"type": "string"}, "The databases for the scheduler of replicas."),
    "statements": value_of(
        "array",
        "The statements that a CALL executed, in order. Each is logged separately; the CALL is not logged.",
        items=defined("statement"),
        minItems=1,
    ),
}
"""The keys of `execute`, and of statements in a procedure."""

_DEFINITIONS: Final[dict[str, Schema]] = {
    "statement": object_of("A statement of a procedure.", ("sql",), **EXECUTED),
    "session": text("The session, by any name. Default: the session without a name."),
    "at": text("The time from this line on, in ISO 8601. Default: the current time."),
    "schema": text("The default database of the session from this line on (USE)."),
    "refused": unsigned("The error that the line is expected to cause. The script continues.", most=1 << 16),
    "warnings": list_of(
        {"type": "integer"}, "The numbers of all warnings and notes that the line is expected to cause."
    ),
    "column": _record(ColumnDefinition),
    "key": _record(KeyDefinition),
    "foreign_key": _record(ForeignKeyDefinition),
    "change": {
        "anyOf": [
            object_of("Inserted rows.", ("insert", "rows"), insert=TABLE_NAME, rows=_ROWS, columns=_COLUMNS),
            object_of(
                "Updated rows. A column that is missing in `after` has the value of `before`.",
                ("update", "before", "after"),
                update=TABLE_NAME,
                before=_ROWS,
                after=list_of({"type": "object"}, "The rows after the change, in the order of `before`."),
                columns=_COLUMNS,
                cascade=_CASCADE,
                json_diffs=value_of(
                    "object",
                    "The diffs of JSON columns (binlog_row_value_options=PARTIAL_JSON): for each column a list of diffs"
                    " for each row.",
                    additionalProperties=list_of(list_of(defined("json_diff"), "The diffs of a row."), "The rows."),
                ),
            ),
            object_of("Deleted rows.", ("delete", "rows"), delete=TABLE_NAME, rows=_ROWS, cascade=_CASCADE),
        ]
    },
    "facts": object_of(
        "Facts about a statement whose text cannot be parsed.",
        kind=text("The kind of the statement. Default: DML.", enum=[kind.name for kind in StatementKind]),
        writes=list_of(TABLE_NAME, "The tables that it locks for writing, in the order of the locks."),
        reads=list_of(TABLE_NAME, "The tables that it reads."),
        unsafe=list_of({"enum": [reason.name for reason in UnsafeReason]}, "Why it is unsafe in STATEMENT format."),
        statements=list_of(defined("facts"), "The statements of its triggers and functions."),
    ),
    "json_diff": object_of(
        "A change to a JSON document.",
        ("op", "path"),
        op=text("What it does.", enum=["replace", "insert", "remove"]),
        path=text("The JSON path, such as $.a[0]."),
        value={"description": "The new value; none for `remove`."},
    ),
    "bytes": text('Text as UTF-8, or bytes: "0x" and hexadecimal digits.'),
    "xid": {
        "anyOf": [
            defined("bytes"),
            object_of(
                "The name of an XA transaction.",
                ("gtrid",),
                gtrid=defined("bytes"),
                bqual=defined("bytes"),
                format_id=unsigned("The number of the format. Default: 1.", most=(1 << 31) - 1),
            ),
        ]
    },
    "user_variable": {
        "anyOf": [
            value_of(["null", "integer", "number", "string"], "NULL, BIGINT, DOUBLE, or text."),
            object_of("A DECIMAL.", ("decimal",), decimal=text("Its digits.")),
            object_of(
                "Text or bytes with a collation.",
                ("value",),
                value=defined("bytes"),
                collation=text("The name of the collation. Default: binary."),
            ),
        ]
    },
}


def session_variables() -> Schema:
    """Return the schema of the variables of the action `set`."""
    properties = {**fields_of(ServerVariables), **fields_of(ClientVariables)}
    properties["sql_mode"] |= {
        "type": ["integer", "string"],
        "description": "The number, or names as in SET sql_mode, except ANSI and TRADITIONAL.",
    }
    return object_of("Variables of the session, by the server's names.", **properties)


def table_properties() -> dict[str, Schema]:
    """Return the schemas of the keys of a table definition."""
    return fields_of(TableDefinition)


_VARIABLES: Final = object_of(
    "The server variables, by their names. Only in the first line of the first script.",
    ("do",),
    do={"const": "variables"},
    **fields_of(ServerVariables),
)


def script_schema() -> Schema:
    """Return the JSON Schema of a line of a script."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of a script of `binlogio write`",
        "type": "object",
        "required": ["do"],
        "oneOf": [_VARIABLES, *(one.schema for one in ACTIONS.values())],
        "$defs": _DEFINITIONS,
    }


# ---------------------------------------------------------------------------------------------------------------- check


def check_line(line: Json) -> Iterator[str]:
    """Yield the errors in the form of a line."""
    do = line.get("do")
    if do == "variables":
        yield "variables come first: in the first line of the first script"
        return
    found = ACTIONS.get(do) if isinstance(do, str) else None
    if found is None:
        yield f'"do" is {do!r}; it can be {", ".join(ACTIONS)}, and variables on the first line{_nearest(do, ACTIONS)}'
    else:
        yield from check(line, found.schema, "")


def check_variables(line: Json) -> Iterator[str]:
    """Yield the errors in the form of the line with the variables."""
    yield from check(line, _VARIABLES, "")


def check(value: Any, schema: Schema, path: str) -> Iterator[str]:
    """Yield the schema violations of a value at `path`."""
    if "$ref" in schema:
        schema = _DEFINITIONS[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        yield from _check_alternatives(value, schema["anyOf"], path)
        return
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_IS[kind](value) for kind in kinds):
        yield f'"{path}" is {_shown(value)}, not {" or ".join(_WORDS[kind] for kind in kinds)}'
    elif "enum" in schema and value not in schema["enum"]:
        yield f'"{path}" is {_shown(value)}; it can be {", ".join(schema["enum"])}{_nearest(value, schema["enum"])}'
    elif "minimum" in schema and value is not None and not schema["minimum"] <= value <= schema["maximum"]:
        yield f'"{path}" is {value}, not a number from {schema["minimum"]} to {schema["maximum"]}'
    elif isinstance(value, dict) and "properties" in schema:
        yield from _check_object(value, schema, path)
    elif isinstance(value, dict) and "additionalProperties" in schema:
        for name, part in value.items():
            yield from check(part, schema["additionalProperties"], f"{path}.{name}")
    elif isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f'"{path}" has {len(value)} values; expected {schema["minItems"]}'
    elif isinstance(value, list) and "items" in schema:
        for position, item in enumerate(value):
            yield from check(item, schema["items"], f"{path}[{position}]")


def _check_object(value: Json, schema: Schema, path: str) -> Iterator[str]:
    properties = schema["properties"]
    what = path or str(value.get("do"))
    for name in value:
        if name not in properties:
            hint = _nearest(name, properties) or f"; expected {', '.join(properties)}"
            yield f"{what} with {name!r}{hint}"
    for name in schema.get("required", ()):
        if name not in value:
            yield f'{what} without "{name}"'
    for name, part in value.items():
        if name in properties:
            yield from check(part, properties[name], f"{path}.{name}" if path else name)


def _check_alternatives(value: Any, alternatives: list[Schema], path: str) -> Iterator[str]:
    """Yield the errors for the alternative whose first required key the value has, or else list the alternatives."""
    whole = [_DEFINITIONS[one["$ref"].rpartition("/")[2]] if "$ref" in one else one for one in alternatives]
    if any(not list(check(value, one, path)) for one in whole):
        return
    keys = [one["required"][0] for one in whole if "required" in one]
    named = [one for one in whole if isinstance(value, dict) and one.get("required", [None])[0] in value]
    if len(named) == 1:
        yield from check(value, named[0], path)
        return
    kinds = [_WORDS[kind] for one in whole if "required" not in one for kind in _as_list(one["type"])]
    expected = [*kinds, f"an object with one of {', '.join(keys)}"]
    yield f'"{path}" is {_shown(value)}, not {" or ".join(expected)}{_nearest_of(value, keys)}'


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _shown(value: Any) -> str:
    return json.dumps(value)[:_SHOWN]


def _nearest(name: Any, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, known, 1) if isinstance(name, str) else []
    return f"; did you mean {found[0]!r}?" if found else ""


def _nearest_of(value: Any, known: list[str]) -> str:
    return next((hint for name in value if (hint := _nearest(name, known))), "") if isinstance(value, dict) else ""


_WORDS: Final = {
    "string": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_IS: Final[dict[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
