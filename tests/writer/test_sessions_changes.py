"""Changes of a session: loaded files and partial updates as a real server logs them, diffs, rows of some columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from binlogio.errors import UnsupportedFeature
from binlogio.events import RowsEvent
from binlogio.events.load import AppendBlockEvent, BeginLoadQueryEvent, ExecuteLoadQueryEvent
from binlogio.events.rows import PartialUpdateRowsEvent, UpdateRowsEvent
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio.writer import Delete, Insert, Statement, Update
from binlogio.writer.rules.known_objects import table_access
from binlogio.writer.rules.statement import Change, LoadedFile
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind
from corpus import FIXTURES
from memory_storage import MemoryStorage
from session_logs import N, T, events_of, insert, texts, writer

PJ: Final = TableDefinition(
    "corpus",
    "pj",
    (
        ColumnDefinition("id", "int", nullable=False),
        ColumnDefinition("a", "int"),
        ColumnDefinition("j", "json"),
        ColumnDefinition("j2", "json"),
        ColumnDefinition("t", "text"),
    ),
    ("id",),
)
_EMPTY_LOAD: Final = Statement("LOAD DATA INFILE 'x' INTO TABLE `loaded`", loaded_file=LoadedFile(b""))


def _real(case: str) -> list[Any]:
    with open_logs(FIXTURES / f"mysql97/{case}/binlog.000001") as reader:
        return list(reader)


def _same_but_time(event: Any) -> Any:
    header = replace(event.header, timestamp=0, server_id=0, log_pos=0, offset=0)
    more = {"thread_id": 0, "exec_time": 0} if hasattr(event, "thread_id") else {}
    return replace(event, header=header, **more)


@pytest.mark.parametrize(("number", "block_size", "duplicates"), [(0, 128 * 1024, ""), (1, 16384, "REPLACE")])
def test_loaded_files_are_as_a_real_server_writes_them(number: int, block_size: int, duplicates: str) -> None:
    """Blocks of the file, and the statement with the part that a replica replaces."""
    real = [event for event in _real("format_statement") if type(event).__name__ != "AnonymousGtidEvent"]
    begins = [i for i, event in enumerate(real) if isinstance(event, BeginLoadQueryEvent)]
    theirs = real[begins[number] : begins[number] + 2 + number]
    query = theirs[-1]
    data = b"".join(event.block for event in theirs[:-1])
    file = LoadedFile(data, duplicates, block_size, database_collation=45)
    loaded = replace(T, schema="corpus", name="loaded")
    facts = StatementFacts(kind=StatementKind.LOAD_DATA, tables=(table_access(loaded, write=True),))
    storage = MemoryStorage()

    with writer(storage) as log, log.session("corpus") as session:
        if number:
            session.execute(replace(_EMPTY_LOAD, facts=facts))
        session.execute(Statement(query.sql, [Insert(loaded, [(1, "x")])], facts=facts, loaded_file=file))
    ours = [
        event
        for event in events_of(storage)
        if isinstance(event, (BeginLoadQueryEvent, AppendBlockEvent, ExecuteLoadQueryEvent))
    ][2 * number :]

    assert list(map(_same_but_time, ours)) == list(map(_same_but_time, theirs))


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("/* \u00e4 */ LOAD DATA INFILE '\u00e4\\'INTO' REPLACE INTO TABLE n", " INFILE '\u00e4\\'INTO' REPLACE INTO"),
        ('-- why\nload/**/data local infile "x" into table n', ' local infile "x" into'),
        ("INSERT INTO n VALUES (1)", None),
        ("LOAD DATA INFILE 'x", None),
    ],
)
def test_replica_replaces_the_name_of_the_file_alone(sql: str, place: str | None) -> None:
    """Comments may precede the statement; other statements are refused, and nothing of the file is logged."""
    storage = MemoryStorage()
    facts = StatementFacts(kind=StatementKind.LOAD_DATA, tables=(table_access(N, write=True),))
    load = Statement(sql, [Insert(N, [(2, "x")])], facts=facts, loaded_file=LoadedFile(b"2\tx\n"))

    with writer(storage) as log, log.session("shop") as session:
        if place is None:
            with pytest.raises(UnsupportedFeature):
                session.execute(load)
        else:
            session.execute(load)
    found: list[Any] = [
        one for one in events_of(storage) if isinstance(one, (BeginLoadQueryEvent, ExecuteLoadQueryEvent))
    ]

    assert [one.sql[one.file_name_start : one.file_name_end].decode() for one in found[1:]] == [place][: len(found[1:])]
    assert len(found) == (0 if place is None else 2)


def test_a_loaded_file_in_a_transaction_is_where_the_server_puts_it() -> None:
    """Its blocks in a group of the statement cache, its statement in the transaction."""
    storage = MemoryStorage()
    facts = StatementFacts(kind=StatementKind.LOAD_DATA, tables=(table_access(N, write=True),))
    load = Statement(
        "LOAD DATA INFILE 'x' INTO TABLE n", [Insert(N, [(2, "x")])], facts=facts, loaded_file=LoadedFile(b"2\tx\n")
    )

    with writer(storage) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        session.execute(load)
        session.commit()

    assert texts(storage) == [
        "BEGIN",
        "BeginLoadQuery",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t VALUES (1,'x')",
        "ExecuteLoadQuery",
        "Xid",
    ]


def test_partial_updates_are_as_a_real_server_writes_them() -> None:
    """Diffs, documents where a diff would be larger or there is none, and empty diffs for documents that stay."""
    theirs, statements = [], []
    with open_logs(FIXTURES / "mysql97/partial_json/binlog.000001") as reader:
        for event in reader:
            if isinstance(event, PartialUpdateRowsEvent):
                rows = [
                    (change.before.values, change.after.values)
                    for change in reader.rows(event)
                    if change.before is not None and change.after is not None
                ]
                theirs.append(event.images)
                statements.append([_unaware(*row) for row in rows])
    storage = MemoryStorage()

    with writer(storage, binlog_format="ROW", binlog_row_value_options="PARTIAL_JSON") as log:
        for updates in statements:
            with log.session("corpus") as session:
                session.execute(Statement("UPDATE", [Update(PJ, updates)]))
    ours = [event.images for event in events_of(storage) if isinstance(event, PartialUpdateRowsEvent)]

    assert len(theirs) > 10
    assert ours == theirs


def _unaware(before: tuple[Any, ...], after: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return a change in which documents that stay are given as what they are."""
    pairs = zip(before, after, strict=True)
    return before, tuple(old if isinstance(new, JsonDiffs) and not new else new for old, new in pairs)


def test_diffs_become_documents_without_partial_json() -> None:
    """Without PARTIAL_JSON an update of a JSON column has the whole document."""
    table = TableDefinition(
        "s", "j", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("j", "json")), ("id",)
    )
    diffs = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text("2"))])
    change = Update(table, [((1, JsonDocument.from_text('{"a": 1}')), {"j": diffs})])
    storage = MemoryStorage()

    with writer(storage, binlog_format="ROW") as log, log.session("s") as session:
        session.execute(Statement("UPDATE", [change]))
        with pytest.raises(UnsupportedFeature, match="need a document"):
            session.execute(Statement("UPDATE", [Update(table, [((1, None), {"j": diffs})])]))
    with open_logs(storage.streams()) as reader:
        after = [next(iter(reader.rows(event))).after for event in reader if isinstance(event, UpdateRowsEvent)]

    assert [image.values[1].text for image in after if image is not None] == ['{"a": 2}']


def test_minimal_images_need_only_what_they_have() -> None:
    """A delete by its key, an update of one column, an insert of some."""
    storage = MemoryStorage()
    changes: list[Change] = [
        Insert(T, [{"id": 1}], columns=("id",)),
        Update(T, [({"id": 1}, {"v": "new"})]),
        Delete(T, [{"id": 1}]),
    ]

    with writer(storage, binlog_format="ROW", binlog_row_image="MINIMAL") as log, log.session("shop") as session:
        for change in changes:
            session.execute(Statement("", [change]))
    with open_logs(storage.streams()) as reader:
        rows = [
            (change.before and change.before.as_dict(), change.after and change.after.as_dict())
            for event in reader
            if isinstance(event, RowsEvent)
            for change in reader.rows(event)
        ]

    assert rows == [(None, {"id": 1}), ({"id": 1}, {"v": "new"}), ({"id": 1}, None)]
