"""docs/format.md: it names every event type and column type, and its examples are what binlogio decodes."""

from __future__ import annotations

from typing import Any

import pytest

from binlogio.constants import ColumnType, EventType, OptionalMetadataType, QueryStatus
from binlogio.events import EVENT_CODECS
from binlogio.events.base import DEFAULT_CONTEXT, UNKNOWN, EventHeader, ParseContext, parse_header
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, RowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.events.table_map import METADATA, DefaultCharset, MetadataField
from binlogio.gtid.layout import GtidSetEncoding, build_gtid_set, parse_gtid_set
from binlogio.primitives import bitmap_size
from binlogio.rows.image import RowImage, decode_rows
from binlogio.rows.plan import resolve_plan
from binlogio.values.absent import ABSENT
from binlogio.values.column import ColumnPlan
from binlogio.values.json import JsonDocument
from binlogio.values.json.diff import PARTIAL_JSON
from binlogio.values.layout import COLUMN_LAYOUTS, column_layout
from binlogio.values.text import value_text
from corpus import ROOT
from rowimage_cases import MARIADB, UTF8MB4, column, table_map

TEXT = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")


def examples(language: str) -> list[tuple[str, ...]]:
    """Return the rows of the fenced table with that language, without its head."""
    block = TEXT.split(f"\n```{language}\n")[1].split("\n```")[0]
    return [tuple(cell.strip() for cell in row.split(" | ")) for row in block.splitlines()[1:]]


def unquoted(text: str) -> str:
    """Return a cell without the quotes that keep spaces at its end."""
    return text[1:-1] if text.startswith("'") and text.endswith("'") else text


# --------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("event_type", list(EventType), ids=lambda kind: kind.name)
def test_an_event_type_has_its_row(event_type: EventType) -> None:
    """With its code, its class and its module."""
    event_class = EVENT_CODECS.get(event_type, UNKNOWN).event_class
    module = event_class.__module__.rpartition(".")[2]
    rows = [line.split(" | ") for line in TEXT.splitlines() if line.startswith(f"| {int(event_type)} | `")]

    assert [[row[1], row[3], row[4]] for row in rows] == [
        [f"`{event_type.name}`", f"`{event_class.__name__}`", f"`{module}` |"]
    ]


@pytest.mark.parametrize("column_type", list(ColumnType), ids=lambda kind: kind.name)
def test_a_column_type_is_named_with_its_code(column_type: ColumnType) -> None:
    """In the table of the table map's metadata."""
    assert f"`{column_type.name}` {int(column_type)}" in TEXT


@pytest.mark.parametrize("column_type", list(COLUMN_LAYOUTS), ids=lambda kind: kind.name)
def test_a_column_type_with_a_layout_has_its_bytes_described(column_type: ColumnType) -> None:
    """In the table of column values, so a new type cannot be forgotten there."""
    section = TEXT.split("\n## Column values\n")[1].split("\n```values\n")[0]

    assert f"`{column_type.name}`" in section


@pytest.mark.parametrize("kind", [*OptionalMetadataType, *QueryStatus], ids=lambda kind: kind.name)
def test_a_numbered_field_has_its_row(kind: OptionalMetadataType | QueryStatus) -> None:
    """Optional metadata and status variables."""
    row = (
        f"| {int(kind)} | {kind.name} |" if isinstance(kind, OptionalMetadataType) else f"\n{int(kind):3} {kind.name} "
    )

    assert row in TEXT


# ------------------------------------------------------------------------------------------------ column values


def plan_of(kind: str, metadata: str, more: str) -> ColumnPlan:
    """Return the plan of a column as a row of the table describes it."""
    number = 0 if metadata == "-" else int(METADATA[ColumnType[kind]].parse(bytes.fromhex(metadata)))
    facts: dict[str, Any] = {}
    for fact in () if more == "-" else more.split():
        name, _, value = fact.partition("=")
        if name == "members":
            facts[name] = tuple(value.split(","))
        elif name == "native":
            facts[name] = value
        else:
            facts["collation_id" if name == "collation" else name] = int(value) if value else True
    return column(ColumnType[kind], number, **facts)


@pytest.mark.parametrize("row", examples("values"), ids=lambda row: f"{row[0]} {row[4]}")
def test_an_example_of_a_column_decodes_to_its_value(row: tuple[str, ...]) -> None:
    """And its value, encoded, is a value that reads back the same."""
    _, kind, metadata, more, data, text = row
    plan = plan_of(kind, metadata, more)
    layout = column_layout(plan)
    raw = b"" if data == "-" else bytes.fromhex(data)
    value = layout.parse(raw)
    rebuilt = layout.build(value)

    assert unquoted(text) == value_text(value, plan)
    # compressed bytes differ between versions of zlib
    assert (value if "COMPRESSED" in kind else raw) == (layout.parse(rebuilt) if "COMPRESSED" in kind else rebuilt)


@pytest.mark.parametrize(("data", "text"), examples("json-binary"))
def test_an_example_of_json_is_its_text(data: str, text: str) -> None:
    """The document's text as the server prints it."""
    assert text == JsonDocument(bytes.fromhex(data)).text


@pytest.mark.parametrize(("data", "text"), examples("json-diffs"))
def test_an_example_of_diffs_is_its_functions(data: str, text: str) -> None:
    """And builds back."""
    diffs = PARTIAL_JSON.parse(bytes.fromhex(data))

    assert text == diffs.sql("@1")
    assert bytes.fromhex(data) == PARTIAL_JSON.build(diffs)


# --------------------------------------------------------------------------------------------- events and images


def field_text(value: Any) -> str:
    """Return a field of an event as the table shows it."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value).replace(" ", "")


@pytest.mark.parametrize(("name", "data", "fields"), examples("events"))
def test_an_example_of_an_event_has_its_fields(name: str, data: str, fields: str) -> None:
    """Bodies round-trip as well."""
    raw = bytes.fromhex(data)
    wanted = dict(field.split("=", 1) for field in fields.split())
    if name == "header":
        found: Any = parse_header(raw, 0)
    else:
        codec = EVENT_CODECS[EventType[name]]
        found = codec.parse(EventHeader(type_code=EventType[name]), raw)

        assert raw == codec.build(found)

    assert wanted == {field: field_text(getattr(found, field)) for field in wanted}


@pytest.mark.parametrize(("encoding", "data", "text"), examples("gtid-sets"))
def test_an_example_of_a_gtid_set_is_its_text(encoding: str, data: str, text: str) -> None:
    """In both encodings, both ways."""
    gtids = parse_gtid_set(bytes.fromhex(data))

    assert unquoted(text) == str(gtids)
    assert bytes.fromhex(data) == build_gtid_set(gtids, GtidSetEncoding[encoding.upper()])


def rows_event(name: str, present: str, after: str, images: str, column_count: int) -> RowsEvent:
    """Return the rows event of an example."""
    header = EventHeader(type_code=EventType[name])
    before, data = bytes.fromhex(present), bytes.fromhex(images)
    if name.startswith("WRITE"):
        return WriteRowsEvent(7, 1, b"", column_count, before, data, header)
    if name.startswith("DELETE"):
        return DeleteRowsEvent(7, 1, b"", column_count, before, data, header)
    kind = PartialUpdateRowsEvent if name.startswith("PARTIAL") else UpdateRowsEvent
    return kind(7, 1, b"", column_count, before, bytes.fromhex(after), data, header)


def image_text(image: RowImage) -> str:
    """`(1, ab, NULL)`, with a dash for an absent value."""
    pairs = zip(image.values, image.plan.columns, strict=True)
    return f"({', '.join('-' if value is ABSENT else value_text(value, plan) for value, plan in pairs)})"


@pytest.mark.parametrize(("name", "server", "present", "after", "images", "text"), examples("images"))
def test_an_example_of_row_images_is_its_row(
    name: str, server: str, present: str, after: str, images: str, text: str
) -> None:
    """Of the tables that the text before the examples describes."""
    partial = name.startswith("PARTIAL")
    columns: tuple[tuple[int, int], ...] = (
        ((ColumnType.LONG, 0), (ColumnType.JSON, 4))
        if partial
        else ((ColumnType.LONG, 0), (ColumnType.VARCHAR, 80), (ColumnType.TINY, 0))
    )
    context: ParseContext = MARIADB if server == "MariaDB" else DEFAULT_CONTEXT
    charset = () if partial else (MetadataField(2, DefaultCharset(UTF8MB4)),)
    plan = resolve_plan(table_map(*columns, optional=charset), context)
    changes = list(decode_rows(rows_event(name, present, after, images, len(columns)), plan))
    both = [image_text(image) for image in (changes[0].before, changes[0].after) if image is not None]

    assert len(bytes.fromhex(present)) == bitmap_size(len(columns))
    assert [text] == [" -> ".join(both)] * len(changes)
