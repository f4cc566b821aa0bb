"""Folding the row changes of real files gives exactly the tables that their servers had, value by value.

`expected.json` is what the server itself said with SELECT; its encodings are in `fixtures/README.md`. The files are read with nothing
but what the log says: where it has no names, signs and character sets in its metadata, they come from the statements in it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio.reader
from binlogio.constants import ColumnType
from binlogio.decoder import ROWS_EVENTS
from binlogio.rowimage.charset import charset_of
from binlogio.rowimage.geometry import Geometry
from binlogio.rowimage.image import decode_rows
from binlogio.rowimage.json import JsonDocument
from binlogio.rowimage.plan import ColumnPlan, TablePlan, resolve_plan
from binlogio.rowimage.text import value_text
from binlogio.rowimage.values import ABSENT, EnumValue, SetValue
from corpus import Case, cases
from folding import Fold, Table

if TYPE_CHECKING:
    from collections.abc import Callable


HASHED: Final = 20_000  # bytes; longer values are in expected.json as SHA-256
# Where the server's own replay of its log gives other rows than the source had (REPLACE of a row that ON DELETE SET NULL refers to).
NOT_AS_THE_SOURCE: Final = {"mysql97/multi_table_stmt": {"corpus.kid2"}}
# Tables that got a column after the last change that is in the log.
ALTERED_AFTERWARDS: Final = {"compressed/corpus.a", "gtid/corpus.t"}
WITH_TABLES: Final = [case for case in cases() if case.load("expected.json") is not None]


def _open(case: Case) -> binlogio.reader.BinlogReader:
    options: dict[str, Any] = {"keyring": case.keys} if case.keys is not None else {}
    return binlogio.reader.open(case.logs, **options)


def _fold(case: Case) -> Fold:
    expected = case.load("expected.json")["tables"]
    fold = Fold(engines={name: table["engine"] for name, table in expected.items()})
    with _open(case) as reader:
        for event in reader:
            if not isinstance(event, ROWS_EVENTS):
                fold.event(event)
                continue
            plan = reader.plan(event)
            fold.rows(plan, list(decode_rows(event, plan)))
    return fold


# ------------------------------------------------------------------------------------------------ expected.json's values


def _expected(value: Any) -> Any:
    """A value of expected.json, so that it can be counted: big ones by their hash, others by what says most."""
    if not isinstance(value, dict):
        return value
    return json.dumps({key: part for key, part in value.items() if key not in ("type", "storage")}, sort_keys=True)


def _ours(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    """A decoded value in the encoding of expected.json."""
    if value is None or value is ABSENT:
        return value
    found = ENCODERS[spec["encoding"]](value, spec, column)
    return json.dumps(found, sort_keys=True) if isinstance(found, dict) else found


def _hash(data: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _int(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    assert type(value) is int
    return value


def _decimal(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    assert isinstance(value, Decimal)
    return format(value, "f")


def _double(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    assert type(value) is float
    return struct.pack("<d", value).hex()


def _temporal(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    assert isinstance(value, (date, timedelta, str))
    return value_text(value, column)


def _text(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    assert isinstance(value, str), value
    return value if len(value.encode()) <= HASHED else _hash(value.encode())


def _text_hex(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    """The text, and the bytes in the column's own character set."""
    charset = charset_of(column.collation_id)
    assert charset is not None
    assert isinstance(value, str), value
    return {"text": value, "hex": charset.encode(value).hex()}


def _hex(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    assert isinstance(value, bytes)
    return {"hex": value.hex()} if len(value) <= HASHED else _hash(value)


def _enum(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    if column.members is None:
        return {"index": value}
    assert isinstance(value, EnumValue)
    return {"text": str(value), "index": value.index}


def _set(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    if column.members is None:
        return {"bits": value}
    assert isinstance(value, SetValue)
    return {"text": str(value), "bits": value.bits}


def _json(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    assert isinstance(value, JsonDocument)
    data = value.text.encode()
    return {"json": value.text} if len(data) <= HASHED else {"json": _hash(data)}


def _geometry(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    assert isinstance(value, Geometry)
    shown = {"hex": (value.srid.to_bytes(4, "little") + value.wkb).hex()}
    return shown if value.srid else {**shown, "wkt": value.wkt}  # the order of axes is in the server's catalogue


def _vector(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    data = struct.pack(f"<{len(value)}f", *value)
    return {"hex": data.hex()} if len(data) <= HASHED else _hash(data)


def _text_bin16(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    return {"text": value}


ENCODERS: Final[dict[str, Callable[[Any, dict[str, Any], ColumnPlan], Any]]] = {
    "int": _int,
    "bit": _int,
    "decimal": _decimal,
    "double": _double,
    "temporal": _temporal,
    "text": _text,
    "text+hex": _text_hex,
    "hex": _hex,
    "enum": _enum,
    "set": _set,
    "json": _json,
    "geometry": _geometry,
    "vector": _vector,
    "text+bin16": _text_bin16,
}


def _row(row: list[Any], table: dict[str, Any], plan: TablePlan | None) -> tuple[Any, ...]:
    values = []
    for number, (value, spec) in enumerate(zip(row, table["columns"], strict=True)):
        members = plan is not None and number < len(plan.columns) and plan.columns[number].members is not None
        values.append(_expected(_comparable(value, spec, members=members)))
    return tuple(values)


def _comparable(value: Any, spec: dict[str, Any], *, members: bool) -> Any:
    """What of an expected value the log can say."""
    if value is None:
        return None
    if spec["encoding"] == "double":
        return struct.pack("<d", float(value)).hex()
    if spec["encoding"] in ("enum", "set") and not members:
        return {key: part for key, part in value.items() if key != "text"}
    if spec["encoding"] == "geometry" and not value["hex"].startswith("00000000"):
        return {"hex": value["hex"]}
    if spec["encoding"] == "text+bin16":
        return {"text": value["text"]}
    return value


def _unlike(theirs: Counter[tuple[Any, ...]], ours: Counter[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of the server that none of ours is like; where an image lacked a column, the log does not say its value."""
    left, unlike = list(ours.elements()), []
    for row in theirs.elements():
        like = (one for one in left if all(new in (old, ABSENT) for old, new in zip(row, one, strict=True)))
        match = next(like, None)
        if match is None:
            unlike.append(row)
        else:
            left.remove(match)
    return unlike


def _rows_of(table: Table, expected: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    columns = table.plan.columns if table.plan is not None else ()
    return Counter(tuple(_ours(*one) for one in zip_longest(row, expected["columns"], columns)) for row in table.all())


@pytest.mark.parametrize("case", WITH_TABLES, ids=lambda case: case.id)
def test_rows_events_fold_into_the_tables_of_the_server(
    case: Case, record_property: Callable[[str, object], None]
) -> None:
    """Full images by the whole row, partial ones by what they have."""
    expected = case.load("expected.json")["tables"]
    fold = _fold(case)
    if fold.statements:
        pytest.skip(f"{len(fold.statements)} statements, such as {fold.statements[0]!r}, are no row changes")
    compared = 0
    for name, table in expected.items():
        if name in NOT_AS_THE_SOURCE.get(case.id, ()):
            continue
        found = fold.tables.get(name, Table())
        if found.plan is not None and f"{case.folder.name}/{name}" not in ALTERED_AFTERWARDS:
            assert [column.name for column in found.plan.columns] == [column["name"] for column in table["columns"]]
        rows = Counter(_row(row, table, found.plan) for row in table["rows"])
        ours = _rows_of(found, table)
        compared += rows.total()
        only_theirs, only_ours = rows - ours, ours - rows

        assert not _unlike(only_theirs, only_ours), f"{name}: not in our rows"
        assert only_theirs.total() == only_ours.total() or found.lossy, f"{name}: only in our rows"

    assert compared or not any(table["rows"] for table in expected.values())
    record_property("values", json.dumps({"tables": len(expected), "rows compared": compared, **fold.counts}))


def test_cases_with_rows_are_not_skipped() -> None:
    """Else the test above would be empty: at most the two cases in statement format are."""
    skipped = {case.id for case in WITH_TABLES if not any(isinstance(event, ROWS_EVENTS) for event in _open(case))}

    assert {name for name in skipped if name.partition("/")[2] != "format_statement"} == set()


def test_column_types_cover_what_servers_of_today_have() -> None:
    """The types that no case has are those that no server makes any more, or that never are in a log."""
    seen = set()
    for case in WITH_TABLES:
        for plan_type in _types(case):
            seen.add(plan_type)
    never = {
        ColumnType.NULL,
        ColumnType.NEWDATE,
        ColumnType.INVALID,
        ColumnType.BOOL,
        ColumnType.TYPED_ARRAY,
        ColumnType.DECIMAL,
    }
    real_types_of_columns = {ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.VAR_STRING}

    assert set(ColumnType) - seen == never | real_types_of_columns


def _types(case: Case) -> set[ColumnType]:
    with _open(case) as reader:
        tables = [reader.table_map(event) for event in reader if isinstance(event, ROWS_EVENTS)]
        context = reader.context
    return {column.type for table in set(tables) for column in resolve_plan(table, context).columns}
