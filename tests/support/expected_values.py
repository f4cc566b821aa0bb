"""Values of `expected.json`, printed by a server, and decoded values, in one comparable form.

The key "encodings" of the file lists the encodings; `fixtures/README.md` explains them. Large values are stored as
SHA-256 only.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from binlogio.values.absent import ABSENT
from binlogio.values.charsets import charset_of
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDocument
from binlogio.values.text import value_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

HASHED: Final = 20_000  # bytes; longer values are in expected.json as SHA-256
# Tables for which the server's own replay of the log differs from the source (REPLACE of a row that an ON DELETE SET
# NULL foreign key references). FULL_NODUP omits a virtual column from the after image even if an update changed it;
# 11.8.9 omits all generated columns from all updates.
NOT_AS_THE_SOURCE: Final = {
    "mysql97/multi_table_stmt": {"corpus.kid2"},
    "mariadb118/rowimage_full_nodup": {"corpus.autoinc"},
    "mariadb118/generated_columns": {"corpus.computed", "corpus.in_key", "corpus.keyless"},
}
# Tables that have a column which was added after the last change in the log.
ALTERED_AFTERWARDS: Final = {"compressed/corpus.a", "gtid/corpus.t"}


def _expected(value: Any) -> Any:
    """Return a hashable form of a value of expected.json, without type and storage size."""
    if not isinstance(value, dict):
        return value
    return json.dumps({key: part for key, part in value.items() if key not in ("type", "storage")}, sort_keys=True)


def ours(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    """Convert a decoded value to the encoding of expected.json."""
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
    """Return the text, and its bytes in the character set of the column."""
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
    return shown_document(value.text)


def shown_document(text: str) -> dict[str, Any]:
    """Return a JSON document in the form of expected.json."""
    data = text.encode()
    return {"json": text} if len(data) <= HASHED else {"json": _hash(data)}


def _geometry(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    assert isinstance(value, Geometry)
    shown = {"hex": (value.srid.to_bytes(4, "little") + value.wkb).hex()}
    return shown if value.srid else {**shown, "wkt": value.wkt}  # the axis order is in the server's catalogue


def _vector(value: Any, spec: dict[str, Any], column: ColumnPlan) -> Any:
    """Return a vector as hexadecimal; MariaDB vectors are bytes, because its logs have them as VARBINARY."""
    data = value if isinstance(value, bytes) else struct.pack(f"<{len(value)}f", *value)
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


def expected_row(row: list[Any], table: dict[str, Any], plan: TablePlan | None) -> tuple[Any, ...]:
    values = []
    for number, (value, spec) in enumerate(zip(row, table["columns"], strict=True)):
        members = plan is not None and number < len(plan.columns) and plan.columns[number].members is not None
        values.append(_expected(_comparable(value, spec, members=members)))
    return tuple(values)


def _comparable(value: Any, spec: dict[str, Any], *, members: bool) -> Any:
    """Return the part of an expected value that is in a log."""
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


def unlike(theirs: Counter[tuple[Any, ...]], ours: Counter[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the server rows without a matching row of ours; an ABSENT value matches any value."""
    left, unlike = list(ours.elements()), []
    for row in theirs.elements():
        like = (one for one in left if all(new in (old, ABSENT) for old, new in zip(row, one, strict=True)))
        match = next(like, None)
        if match is None:
            unlike.append(row)
        else:
            left.remove(match)
    return unlike
