"""Generated logs of one transaction with rows of arbitrary tables, valid or damaged: plain, in a payload, or MariaDB.

Table maps have full metadata. Checksums are always valid; only row images are damaged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from hypothesis import strategies as st

from binlogio.constants import BINLOG_MAGIC, EventType, OptionalMetadataType
from binlogio.constants import ColumnType as T
from binlogio.events.base import ParseContext
from binlogio.events.control import XidEvent
from binlogio.events.gtid import GtidEvent
from binlogio.events.rows import PartialUpdateRowsEvent, WriteRowsEvent
from binlogio.events.table_map import MetadataField, TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.gtid import Uuid
from binlogio.rows.image import RowChange, RowImage, encode_partial_rows, encode_rows
from binlogio.rows.plan import CHARACTER, NUMERIC, resolve_plan
from binlogio.storage.compression import compress_zstd
from binlogio.values.column import ColumnPlan
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio.values.layout import wire_width
from encode_cases import COLUMNS, KINDS, bitmaps, image_of
from logs import OFF, description, encode, header, log, query

# Columns that a log describes completely. The fractional digits of the old temporal types and the types of MariaDB are
# in table definitions only.
LOGGED_COLUMNS: Final = [
    case
    for case in COLUMNS
    if case[0].native is None and not (case[0].type in (T.TIME, T.DATETIME, T.TIMESTAMP) and case[0].fsp)
]
MARIADB: Final = "10.11.18-MariaDB-log"
PARTIAL: Final = "partial"
FORMS: Final = ("plain", "zstd", "stored", "mariadb")
_COMPRESSED: Final = {
    "insert": EventType.WRITE_ROWS_COMPRESSED_EVENT_V1,
    "update": EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1,
    "delete": EventType.DELETE_ROWS_COMPRESSED_EVENT_V1,
}


@dataclass(frozen=True)
class Rows:
    """A rows event of a table, and the form of its log."""

    table_map: TableMapEvent
    event: Any
    form: str

    def with_images(self, images: bytes) -> Rows:
        """Return a copy with other row images."""
        return replace(self, event=replace(self.event, images=images))

    def log(self) -> bytes:
        """Return the bytes of the log."""
        gtid = GtidEvent(uuid=Uuid(bytes(range(16))), gno=7, header=header(EventType.GTID_LOG_EVENT))
        inner = [query("BEGIN"), self.table_map, self.event, XidEvent(1, header(EventType.XID_EVENT))]
        if self.form == "plain":
            return log(gtid, *inner)
        if self.form == "mariadb":
            return _mariadb_log(*inner)
        encoder = Encoder(ParseContext(checksum_algorithm=OFF))
        data = b"".join(encoder.encode(event) for event in inner)
        payload, kind = (compress_zstd(data, 1), 0) if self.form == "zstd" else (data, 255)
        return log(
            gtid, TransactionPayloadEvent.create(payload, kind, len(data), header(EventType.TRANSACTION_PAYLOAD_EVENT))
        )


def _mariadb_log(*events: Any) -> bytes:
    return BINLOG_MAGIC + encode([description(version=MARIADB), *events])


def table_map_of(columns: list[ColumnPlan]) -> TableMapEvent:
    """Return the table map of these columns with FULL metadata.

    It has the members of ENUM and SET columns if all such columns have members.
    """
    kinds = [column.type for column in columns]
    enums = [column for column in columns if column.type == T.ENUM]
    sets = [column for column in columns if column.type == T.SET]
    optional = [MetadataField(OptionalMetadataType.COLUMN_NAME, tuple(f"c{i}" for i in range(len(columns))))]
    signs = [column.unsigned for column in columns if column.type in NUMERIC]
    if signs:
        filled = tuple(signs) + (False,) * (-len(signs) % 8)
        optional.append(MetadataField(OptionalMetadataType.SIGNEDNESS, filled))
    collations = tuple(
        63 if column.type == T.VECTOR else column.collation_id or 0 for column in columns if column.type in CHARACTER
    )
    if collations:
        optional.append(MetadataField(OptionalMetadataType.COLUMN_CHARSET, collations))
    members = len(enums) + len(sets)
    if members:
        optional.append(MetadataField(OptionalMetadataType.ENUM_AND_SET_COLUMN_CHARSET, (255,) * members))
    for field, some in ((OptionalMetadataType.SET_STR_VALUE, sets), (OptionalMetadataType.ENUM_STR_VALUE, enums)):
        if some and all(column.members for column in some):
            names = tuple(tuple(name.encode() for name in column.members or ()) for column in some)
            optional.append(MetadataField(field, names))
    dimensions = tuple(column.dimension or 0 for column in columns if column.type == T.VECTOR)
    if dimensions:
        optional.append(MetadataField(OptionalMetadataType.VECTOR_DIMENSIONALITY, dimensions))
    types = tuple(T.STRING if kind in (T.ENUM, T.SET) else kind for kind in kinds)
    metadata = tuple(column.metadata for column in columns)
    nullable = (True,) * len(columns)
    return TableMapEvent(7, 1, "d", "t", types, metadata, nullable, tuple(optional), header(EventType.TABLE_MAP_EVENT))


def _with_diffs(image: RowImage) -> RowImage:
    """Replace the JSON documents of an image by partial updates of the root."""
    diffs = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$", JsonDocument.from_text('{"a":[1,"é"]}'))])
    return replace(image, values=tuple(diffs if isinstance(one, JsonDocument) else one for one in image.values))


@st.composite
def rows(draw: st.DrawFn, max_columns: int = 6, max_rows: int = 4) -> Rows:
    """Draw a rows event of any type, for a table with any columns, in any form."""
    chosen = draw(st.lists(st.sampled_from(LOGGED_COLUMNS), min_size=1, max_size=max_columns))
    form = draw(st.sampled_from(FORMS))
    operation = draw(st.sampled_from((*KINDS, PARTIAL)))
    if form == "mariadb" and (
        operation == PARTIAL or any(one.type in (T.JSON, T.VECTOR, T.GEOMETRY) for one, _ in chosen)
    ):
        form = "plain"
    table = table_map_of([column for column, _ in chosen])
    context = ParseContext(server_version=MARIADB if form == "mariadb" else "9.7.4")
    plan = resolve_plan(table, context)
    values = st.tuples(*(st.none() | value for _, value in chosen))
    pairs = draw(st.lists(st.tuples(values, values), min_size=1, max_size=max_rows))
    present, present_after = draw(bitmaps(len(chosen))), draw(bitmaps(len(chosen)))
    common: dict[str, Any] = {"table_id": 7, "flags": 1, "extra": b"", "column_count": len(chosen), "present": present}
    if operation == PARTIAL:
        changes = [
            RowChange(image_of(plan, old, present), _with_diffs(image_of(plan, new, present_after)))
            for old, new in pairs
        ]
        images = encode_partial_rows(changes, plan, present, present_after)
        event: Any = PartialUpdateRowsEvent(
            **common, present_after=present_after, images=images, header=header(EventType.PARTIAL_UPDATE_ROWS_EVENT)
        )
        return Rows(table, event, form)
    changes = [
        RowChange(
            None if operation == "insert" else image_of(plan, old, present),
            None if operation == "delete" else image_of(plan, new, present_after if operation == "update" else present),
        )
        for old, new in pairs
    ]
    after = {"present_after": present_after} if operation == "update" else {}
    images = encode_rows(changes, plan, present, *after.values())
    code = _COMPRESSED[operation] if form == "mariadb" else 0
    return Rows(table, KINDS[operation](**common, **after, images=images, header=header(code)), form)


@st.composite
def damaged_rows(draw: st.DrawFn) -> Rows:
    """Draw rows with truncated or modified images."""
    found = draw(rows())
    images = bytearray(found.event.images)
    for _ in range(draw(st.integers(1, 3))):
        if not images:
            break
        at = draw(st.integers(0, len(images) - 1))
        change = draw(st.sampled_from(("flip", "set", "cut", "drop", "add")))
        if change == "flip":
            images[at] ^= 1 << draw(st.integers(0, 7))
        elif change == "set":
            images[at] = draw(st.sampled_from((0, 0x7F, 0x80, 0xFE, 0xFF)) | st.integers(0, 255))
        elif change == "cut":
            del images[at:]
        elif change == "drop":
            del images[at]
        else:
            images.insert(at, draw(st.integers(0, 255)))
    return found.with_images(bytes(images))


@st.composite
def raw_rows(draw: st.DrawFn) -> Rows:
    """Draw rows of one column whose values are arbitrary bytes of the right length."""
    chosen, _ = draw(st.sampled_from([case for case in LOGGED_COLUMNS if case[0].type != T.NULL]))
    table = table_map_of([chosen])
    width = wire_width(resolve_plan(table).columns[0])
    if width > 0:
        values = draw(st.lists(st.binary(min_size=width, max_size=width), min_size=1, max_size=6))
    else:
        some = draw(st.lists(st.binary(max_size=90), min_size=1, max_size=6))
        values = [len(value).to_bytes(-width, "little") + value for value in some]
    images = b"".join(b"\0" + value for value in values)
    event = WriteRowsEvent(7, 1, b"", 1, b"\1", images, header(EventType.WRITE_ROWS_EVENT))
    return Rows(table, event, "plain")
