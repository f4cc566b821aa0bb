"""Decisions that a session remembers are those that it would make again; reused frames are the encoder's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio.constants import EventType
from binlogio.errors import BinlogError
from binlogio.events import EVENT_CODECS
from binlogio.events.base import EventHeader
from binlogio.events.control import XidEvent
from binlogio.format.encoder import Encoder
from binlogio.gtid import Gtid
from binlogio.options import ServerVariables
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Delete, Insert, Statement, StatementFacts, StatementKind, Update, Uses
from binlogio.writer.log.group import Group
from binlogio.writer.log.log_builder import LogBuilder, RowsHead, describe_format, frames_of, with_xid, writer_kernel
from memory_storage import MemoryStorage

_COLUMNS = ColumnDefinition("id", "int"), ColumnDefinition("note", "varchar(20)")
TABLES = [
    TableDefinition("shop", "keyed", _COLUMNS, ("id",)),
    TableDefinition("shop", "plain", _COLUMNS),
    TableDefinition("shop", "parent", _COLUMNS, ("id",), is_foreign_key_parent=True),
    TableDefinition("other", "files", _COLUMNS, engine="MyISAM"),
    TableDefinition("shop", "hole", _COLUMNS, engine="BLACKHOLE"),
    TableDefinition("mysql", "gtid_executed", _COLUMNS),
]
ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", None])), max_size=2)


@st.composite
def changes(draw: st.DrawFn) -> Any:
    """Return a change of one of the tables, which may have no rows."""
    table, rows = draw(st.sampled_from(TABLES)), draw(ROWS)
    if draw(st.booleans()):
        return Insert(table, rows)
    if draw(st.booleans()):
        return Delete(table, rows, is_cascade=draw(st.integers(0, 5)) == 0)
    return Update(table, [(row, draw(st.sampled_from([row, (9, "z")]))) for row in rows])


STATEMENTS = st.builds(
    Statement,
    sql=st.sampled_from(["INSERT INTO keyed VALUES (1)", "UPDATE plain SET id = 1", "REPLACE INTO files VALUES (1)"]),
    changes=st.lists(changes(), max_size=3),
    facts=st.sampled_from([None, None, StatementFacts(), StatementFacts(kind=StatementKind.SELECT, verb="SELECT")]),
    error=st.sampled_from([0, 0, 0, 1062]),
    uses=st.sampled_from([Uses.NOTHING, Uses.NOTHING, Uses.THREAD_ID, Uses.MICROSECONDS | Uses.ANY_SCHEMA]),
    modifies_engine=st.sampled_from([None, None, True, False]),
    updated_tables=st.sampled_from([None, None, 1]),
    updated_schemas=st.sampled_from([None, None, ("shop",)]),
)
COMMANDS = ["begin", "begin", "commit", "rollback", "savepoint", "rollback_to"]
STEPS = st.lists(STATEMENTS, min_size=1, max_size=3).flatmap(
    lambda few: st.lists(st.sampled_from([*few, *few, *COMMANDS]), max_size=16)
)


def _logged(steps: list[Any], variables: ServerVariables, *, forgets: bool) -> tuple[dict[str, bytes], list[Any]]:
    """Return the logs and what the session has said; where it `forgets`, SET SESSION precedes each statement."""
    storage = MemoryStorage()
    said: list[Any] = []
    log = BinlogWriter("log", variables=variables, clock=lambda: 10**15, storage=storage)
    with log, log.session("shop") as session:
        for step in steps * 2:
            if forgets:
                session.set_variables()
            try:
                if isinstance(step, Statement):
                    session.execute(step)
                elif step in ("savepoint", "rollback_to"):
                    getattr(session, step)("s")
                else:
                    getattr(session, step)()
            except BinlogError as exc:
                said.append(str(exc))
            said.append([*session.warnings])
    return {name: bytes(data) for name, data in storage.files.items()}, said


@settings(max_examples=120, deadline=None)
@given(
    steps=STEPS,
    binlog_format=st.sampled_from(["ROW", "MIXED", "STATEMENT"]),
    server_version=st.sampled_from(["9.7.4", "8.0.22", "10.11.18-MariaDB"]),
)
def test_a_session_that_remembers_decides_as_one_that_forgets(
    steps: list[Any], binlog_format: Any, server_version: str
) -> None:
    """The same bytes, errors and warnings."""
    variables = ServerVariables(
        server_version=server_version,
        server_uuid="3e11fa47-71ca-11e1-9e33-c80aa9429562",
        binlog_format=binlog_format,
        enforce_gtid_consistency="OFF",
        gtid_mode="OFF",
    )

    assert _logged(steps, variables, forgets=False) == _logged(steps, variables, forgets=True)


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
@given(
    images=st.binary(max_size=300),
    type_code=st.sampled_from(
        [
            EventType.WRITE_ROWS_EVENT,
            EventType.UPDATE_ROWS_EVENT,
            EventType.DELETE_ROWS_EVENT,
            EventType.WRITE_ROWS_EVENT_V1,
            EventType.UPDATE_ROWS_EVENT_V1,
            EventType.DELETE_ROWS_COMPRESSED_EVENT_V1,
        ]
    ),
    table_id=st.integers(0, (1 << 48) - 1),
    flags=st.integers(0, 0xFFFF),
    columns=st.sampled_from([1, 8, 9, 250, 251, 4096]),
    numbers=st.tuples(st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF)),
)
def test_frames_of_rows_are_those_of_the_encoder(
    checksum: str, images: bytes, type_code: int, table_id: int, flags: int, columns: int, numbers: tuple[int, int]
) -> None:
    """But for the checksum, which is still to be written; the second frame is made from the first one's parts."""
    variables = ServerVariables(server_version="10.11.18-MariaDB", binlog_checksum=checksum)
    builder, encoder = LogBuilder.of(variables, writer_kernel()), Encoder(describe_format(variables).context)
    end = None if checksum == "NONE" else -4
    bitmap = bytes((columns + 7) // 8)
    after = bitmap if "UPDATE" in EventType(type_code).name else b""
    bitmaps = {"present": bitmap, **({"present_after": after} if after else {})}
    event = EVENT_CODECS[type_code].event_class(
        table_id=table_id,
        flags=flags,
        extra=b"",
        column_count=columns,
        images=images,
        header=EventHeader(timestamp=numbers[0], type_code=type_code, server_id=numbers[1]),
        **bitmaps,
    )
    head = RowsHead(type_code, table_id, flags, columns, bitmap, after)
    builder.rows(b"", head, 0, 0)

    assert builder.rows(images, head, *numbers)[:end] == encoder.encode(event)[:end]


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
def test_frames_of_xid_are_those_of_the_encoder(checksum: str) -> None:
    variables = ServerVariables(binlog_checksum=checksum)
    builder, end = LogBuilder.of(variables, None), None if checksum == "NONE" else -4
    event = XidEvent(xid=(1 << 64) - 2, header=EventHeader(timestamp=5, server_id=7))
    expected = Encoder(describe_format(variables).context).encode(event)[:end]

    assert builder.xid(event.xid, 5, 7)[:end] == expected
    assert with_xid(builder.xid(0, 5, 7), event.xid)[:end] == expected


@given(st.lists(st.binary(max_size=60), max_size=8), st.integers(1, 30))
def test_frames_are_found_in_pieces_of_any_size(bodies: list[bytes], size: int) -> None:
    builder = LogBuilder.of(ServerVariables(binlog_checksum="NONE"), None)
    frames = [builder.rows(body, RowsHead(30, 1, 0, 1, b"\1"), 0, 0) for body in bodies]
    data = b"".join(frames)

    assert list(frames_of(data[at : at + size] for at in range(0, len(data), size))) == frames


@pytest.mark.parametrize("tag", [None, "", "tag:"])
def test_the_length_of_a_group_is_the_shortest_that_fits(tag: str | None) -> None:
    """Two lengths fit where the shorter one is below a limit of their encoding, and the longer one above it."""
    gtid = None if tag is None else Gtid.parse(f"3e11fa47-71ca-11e1-9e33-c80aa9429562:{tag}5")
    builders = [LogBuilder.of(ServerVariables(), kernel) for kernel in (writer_kernel(), None)]
    for size in (*range(50, 180), *range(65_290, 65_430)):
        group = Group((builders[0].rows(bytes(size), RowsHead(30, 1, 0, 1, b"\1"), 0, 0),), 10**9)
        found = {builder.group(group, 4, gtid, (1, 2), 10**15, 1) for builder in builders}
        found |= {b"".join(builder.pieces(group, 4, gtid, (1, 2), 10**15, 1)) for builder in builders}

        assert len(found) == 1
