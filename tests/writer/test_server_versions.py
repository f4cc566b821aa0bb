"""Logs of every server version: their first event against real files, the events of a group, and all types."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pytest

from binlogio.errors import LoggingError, UnsupportedFeature
from binlogio.events import RowsEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.query import QueryEvent
from binlogio.gtid import NO_TAG, Gtid, Tag, Uuid
from binlogio.options import LAST_RELEASES, ServerVariables
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Delete, Insert, Session, Statement, Update
from binlogio.writer.batches import BatchChange, BatchSession
from binlogio.writer.log.group import ANONYMOUS, AUTOMATIC, Automatic, NextGtid
from binlogio.writer.server_format import server_format_of
from binlogio.writer.session.transaction import XaXid
from column_cases import ALL_ROWS, ALL_TYPES
from memory_storage import MemoryStorage
from session_logs import T, insert
from written_logs import UUID, events_of

# The sizes of post-headers in files that servers wrote; of 5.6, 8.4, MariaDB 10.0 and 10.1 by the server's source.
REAL: Final = {
    "5.0.16": "380d0008001200040404041200004b00041a",
    "5.1.37": "380d0008001200040404041200005300041a0800000008080802",
    "5.5.27": "380d0008001200040404041200005400041a080000000808080200",
    "5.6.51": "380d0008001200040404041200005c00041a08000000080808020000000a0a0a191900",
    "5.7.25": "380d0008001200040404041200005f00041a08000000080808020000000a0a0a2a2a00123400",
    "8.0.13": "000d0008000000000400040000006000041a08000000080808020000000a0a0a2a2a001234000a",
    "8.0.22": "000d0008000000000400040000006100041a08000000080808020000000a0a0a2a2a001234000a28",
    "8.0.28": "000d0008000000000400040000006200041a08000000080808020000000a0a0a2a2a001234000a2800",
    "8.4.3": "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000",
    "9.0.1": "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000",
    "9.6.0": "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000",
    "5.5.36-MariaDB": "380d000800120004040404120000d900041a0800000008080802" + "00" * (160 - 26),
    "10.0.38-MariaDB": (
        "380d000800120004040404120000dc00041a08000000080808020000000a0a0a" + "00" * (160 - 32) + "041304"
    ),
    "10.1.48-MariaDB": (
        "380d000800120004040404120000dd00041a08000000080808020000000a0a0a" + "00" * (160 - 32) + "04130400"
    ),
    "10.5.15-MariaDB": (
        "380d000800120004040404120000e400041a08000000080808020000000a0a0a"
        + "00" * (160 - 32)
        + "041304000d0808080a0a0a"
    ),
}
MYSQL: Final = [version for version in REAL if "MariaDB" not in version]
MARIADB: Final = [
    "5.5.36-MariaDB",
    "10.0.38-MariaDB",
    "10.1.48-MariaDB",
    "10.2.44-MariaDB",
    "10.5.15-MariaDB",
    "10.6.21-MariaDB",
    "10.11.18-MariaDB",
    "11.4.5-MariaDB",
]
WITH_ROWS: Final = [version for version in (*MYSQL, *MARIADB) if version != "5.0.16"]
_FRACTION: Final = re.compile(r"(?:time|datetime|timestamp)\([1-6]\)")


def writer(storage: MemoryStorage, version: str, *, use_kernel: bool = True, **variables: Any) -> BinlogWriter:
    """Return a writer of logs of a server version, whose clock does not move."""
    settings = ServerVariables(server_version=version, server_uuid=UUID, **variables)
    return BinlogWriter(
        "binlog", variables=settings, clock=lambda: 1_700_000_000_000_000, storage=storage, use_kernel=use_kernel
    )


def types_of(version: str) -> tuple[TableDefinition, list[tuple[Any, ...]]]:
    """Return the table of all types that a server of a version has, and its rows."""
    is_mariadb = "MariaDB" in version
    numbers = (99, 0) if is_mariadb else tuple(int(part) for part in version.split(".")[:2])
    kept = []
    for index, column in enumerate(ALL_TYPES.columns):
        is_missing = (
            (column.type.startswith("vector") and (is_mariadb or numbers < (9, 0)))
            or (column.type == "json" and (is_mariadb or numbers < (5, 7)))
            or (_FRACTION.match(column.type) is not None and numbers < (5, 6))
            or ((column.charset or "").startswith(("utf16le", "utf8mb4")) and numbers < (5, 6))
            or not column.visible
        )
        if not is_missing:
            kept.append(index)
    columns = tuple(ALL_TYPES.columns[index] for index in kept)
    collation = "utf8mb4_general_ci"
    table = TableDefinition("shop", "all_types", columns, ("id",), collation=collation)
    return table, [tuple(row[index] for index in kept) for row in ALL_ROWS]


@pytest.mark.parametrize("version", REAL)
def test_the_format_description_is_that_of_a_real_file(version: str) -> None:
    storage = MemoryStorage()
    with writer(storage, version):
        description = events_of(storage)[0]

    assert bytes(description.post_header_sizes).hex() == REAL[version]
    assert description.server_version == version
    assert (description.checksum_algorithm is None) == (version < "5.6" and "MariaDB" not in version)


# How a log begins, and a transaction of one row in it.
GROUPS: Final = {
    ("5.0.16", "ON"): ["Query BEGIN", "Query INSERT INTO t VALUES (1,'x')", "Xid"],
    ("5.1.37", "ON"): ["Query BEGIN", "TableMap", "WriteRows", "Xid"],
    ("5.5.27", "ON"): ["Query BEGIN", "TableMap", "WriteRows", "Xid"],
    ("5.6.51", "ON"): ["PreviousGtids", "Gtid", "Query BEGIN", "TableMap", "WriteRows", "Xid"],
    ("5.6.51", "OFF"): ["Query BEGIN", "TableMap", "WriteRows", "Xid"],
    ("5.7.25", "OFF"): ["PreviousGtids", "AnonymousGtid", "Query BEGIN", "TableMap", "WriteRows", "Xid"],
    ("8.0.22", "ON_PERMISSIVE"): ["PreviousGtids", "Gtid", "Query BEGIN", "TableMap", "WriteRows", "Xid"],
    ("8.4.3", "OFF_PERMISSIVE"): [
        "PreviousGtids", "AnonymousGtid", "Query BEGIN", "TableMap", "WriteRows", "Xid"
    ],
    ("5.5.36-MariaDB", "ON"): ["Query BEGIN", "AnnotateRows", "TableMap", "WriteRows", "Xid"],
    ("10.2.44-MariaDB", "ON"): [
        "MariadbGtidList", "BinlogCheckpoint", "MariadbGtid", "AnnotateRows", "TableMap", "WriteRows", "Xid"
    ],
}  # fmt: skip


@pytest.mark.parametrize(("version", "gtid_mode"), GROUPS)
def test_a_transaction_consists_of_the_events_of_its_version(version: str, gtid_mode: str) -> None:
    storage = MemoryStorage()
    with writer(storage, version, gtid_mode=gtid_mode) as log, log.session("shop") as session:
        session.execute(insert(T, 1))
        found = [
            type(event).__name__.removesuffix("Event")
            + (f" {event.sql.decode()}" if isinstance(event, QueryEvent) else "")
            for event in events_of(storage)
        ]

    assert found[1:] == GROUPS[version, gtid_mode]


# Type code and flags of the first rows event, flags and number of metadata fields of the table map, size of the GTID.
ROWS_EVENTS: Final = {
    "5.1.37": (23, 1, 0, 0, None),
    "5.5.27": (23, 1, 1, 0, None),
    "5.6.51": (30, 1, 1, 0, 25),
    "5.7.25": (30, 1, 1, 0, 42),
    "8.0.13": (30, 1, 1, 2, 52),
    "8.0.22": (30, 1, 1, 2, 56),
    "8.4.3": (30, 1, 1, 2, 56),
    "9.6.0": (30, 17, 1, 2, 56),
    "5.5.36-MariaDB": (23, 1, 1, 0, None),
    "10.2.44-MariaDB": (23, 1, 1, 0, 19),
    "10.5.15-MariaDB": (23, 1, 1, 2, 19),
}


@pytest.mark.parametrize("version", ROWS_EVENTS)
def test_rows_and_gtids_are_those_of_the_version(version: str) -> None:
    """The GTID event of 5.6 ends before the logical clock, of 5.7 before the time, of 8.0.13 before the version."""
    storage = MemoryStorage()
    with writer(storage, version, binlog_row_metadata="MINIMAL") as log, log.session("shop") as session:
        session.execute(insert(T, 1))
        events = {type(event).__name__: event for event in events_of(storage)}
    rows, table_map = events["WriteRowsEvent"], events["TableMapEvent"]
    gtid = events.get("GtidEvent") or events.get("MariadbGtidEvent")
    checksum = 0 if version < "5.6" and "MariaDB" not in version else 4
    size = None if gtid is None else gtid.header.event_size - 19 - checksum

    assert (rows.header.type_code, rows.flags, table_map.flags) == ROWS_EVENTS[version][:3]
    assert len(table_map.optional_metadata) == ROWS_EVENTS[version][3]
    assert size == ROWS_EVENTS[version][4]


@pytest.mark.parametrize("row_image", ["FULL", "MINIMAL", "NOBLOB"])
@pytest.mark.parametrize("gtid_mode", ["ON", "OFF"])
@pytest.mark.parametrize("version", WITH_ROWS)
def test_every_type_is_read_back(version: str, gtid_mode: str, row_image: str) -> None:
    """With and without the kernel the same bytes, and rows that are those that were written."""
    table, rows = types_of(version)
    updates = list(zip(rows, reversed(rows), strict=True))
    found: dict[bool, list[tuple[Any, Any]]] = {}
    logs = {}
    for use_kernel in (True, False):
        storage = MemoryStorage()
        log = writer(storage, version, use_kernel=use_kernel, gtid_mode=gtid_mode, binlog_row_image=row_image)
        with log, log.session("shop") as session:
            session.ddl("CREATE DATABASE shop")
            session.execute(Statement("INSERT", [Insert(table, rows)]))
            session.execute(Statement("UPDATE", [Update(table, updates)]))
            session.execute(Statement("DELETE", [Delete(table, rows)]))
        with open_logs(storage.streams(), definitions={table.full_name: table}) as reader:
            found[use_kernel] = [
                (row.before, row.after)
                for event in reader
                if isinstance(event, RowsEvent)
                for row in reader.rows(event)
            ]
        logs[use_kernel] = storage.files["binlog.000001"]

    assert logs[True] == logs[False]
    assert found[True] == found[False]
    assert len(found[True]) == 3 * len(rows)
    if row_image == "FULL" or "binlog_row_image" in server_format_of(version).missing:
        assert [after.values for _, after in found[True][: len(rows)]] == rows


def test_mariadb_5_5_joins_the_caches_of_a_statement_in_one_group() -> None:
    """BEGIN comes once, also where the statement fills both caches; the second one too where it has spilled."""
    plain = TableDefinition("shop", "m", T.columns, ("id",), engine="MyISAM")
    large = [(i, "x" * 100) for i in range(200)]
    storage = MemoryStorage()
    with (
        writer(storage, "5.5.36-MariaDB", binlog_cache_size=4096) as log,
        log.session("shop") as session,
    ):
        session.execute(Statement("INSERT", [Insert(plain, [(1, "x")]), Insert(T, large)]))
        events = events_of(storage)
    names = [type(event).__name__ for event in events[1:]]

    assert [event.sql for event in events if isinstance(event, QueryEvent)] == [b"BEGIN"]
    assert names.count("XidEvent") == 1
    assert log.status["Binlog_cache_disk_use"] == 1


@pytest.mark.parametrize(
    ("version", "flags"), [("10.0.38-MariaDB", 4), ("10.1.48-MariaDB", 12), ("10.6.21-MariaDB", 12)]
)
def test_flags_of_gtids_are_those_of_the_version(version: str, flags: int) -> None:
    """MariaDB 10.0 does not say whether a group may be applied beside others, nor that it is DDL."""
    storage = MemoryStorage()
    with writer(storage, version) as log, log.session("shop") as session:
        session.execute(insert(T, 1))
        session.ddl("CREATE TABLE u (id INT)")
        found = [event.flags for event in events_of(storage) if isinstance(event, MariadbGtidEvent)]

    assert found == [flags, flags & 8 | (33 if flags & 8 else 1)]


@pytest.mark.parametrize("gtid_mode", ["OFF_PERMISSIVE", "ON_PERMISSIVE"])
def test_mysql_5_6_has_no_steps_between_gtid_modes(gtid_mode: str) -> None:
    with pytest.raises(UnsupportedFeature, match="no steps between gtid_mode OFF and ON"):
        writer(MemoryStorage(), "5.6.51", gtid_mode=gtid_mode)


def test_old_servers_have_no_fractions_of_seconds() -> None:
    fraction = next(column for column in ALL_TYPES.columns if column.type == "datetime(3)")
    table = TableDefinition("shop", "f", (ALL_TYPES.columns[0], fraction), ("id",))
    with (
        writer(MemoryStorage(), "5.5.27") as log,
        log.session("shop") as session,
        pytest.raises(UnsupportedFeature, match="no fractions of seconds"),
    ):
        session.execute(Statement("INSERT", [Insert(table, [(1, None)])]))


def test_variables_that_a_version_lacks_cannot_be_set() -> None:
    def refused(session: Session, **values: Any) -> None:
        with pytest.raises(LoggingError) as caught:
            session.set_variables(**values)
        assert caught.value.errno == 1193

    with writer(MemoryStorage(), "5.5.27", binlog_row_image="MINIMAL") as log, log.session("shop") as session:
        assert session.variables.binlog_row_image == "FULL"
        assert (log.variables.gtid_mode, log.variables.binlog_checksum) == ("OFF", "NONE")
        refused(session, binlog_row_image="MINIMAL")
        refused(session, binlog_transaction_compression=True)
    with writer(MemoryStorage(), "5.5.36-MariaDB") as log, log.session("shop") as session:
        refused(session, binlog_row_image="MINIMAL")
        refused(session, gtid_domain_id=2)
        session.set_variables(binlog_annotate_row_events=False)
    with writer(MemoryStorage(), "8.0.19") as log, log.session("shop") as session:
        session.set_variables(binlog_row_image="MINIMAL")
        refused(session, binlog_transaction_compression=True)


@pytest.mark.parametrize("version", ["5.6.51", "5.5.36-MariaDB", "10.2.44-MariaDB"])
def test_xa_that_is_logged_at_its_commit_is_refused(version: str) -> None:
    with (
        writer(MemoryStorage(), version) as log,
        log.session("shop") as session,
        pytest.raises(UnsupportedFeature, match="that do not log XA PREPARE"),
    ):
        session.xa_start(XaXid(b"x"))


@pytest.mark.parametrize(("version", "expected"), [("5.7.25", ["DDL", "BEGIN"]), ("8.0.22", ["BEGIN"])])
def test_create_table_select_is_one_transaction_since_8_0_21(version: str, expected: list[str]) -> None:
    storage = MemoryStorage()
    with writer(storage, version, gtid_mode="OFF") as log, log.session("shop") as session:
        made = TableDefinition("shop", "made", T.columns, ("id",))
        statement = Statement.from_sql(
            "CREATE TABLE made SELECT * FROM t", "shop", [T, made], [Insert(made, [(1, "x")])]
        )
        session.execute(statement)
        texts = [event.sql for event in events_of(storage) if isinstance(event, QueryEvent)]

    assert ["DDL" if text.startswith(b"CREATE") else text.decode() for text in texts][: len(expected)] == expected


def test_batches_are_refused_for_servers_before_5_6() -> None:
    with writer(MemoryStorage(), "5.5.27") as log, pytest.raises(UnsupportedFeature, match=r"5\.6 or later"):
        BatchSession(log)


@pytest.mark.parametrize("row_image", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("engine", ["InnoDB", "MyISAM"])
@pytest.mark.parametrize("version", ["5.7.44", "5.5.68-MariaDB", "10.6.21-MariaDB", "11.8.6-MariaDB"])
def test_batches_are_logged_like_the_same_rows_of_a_session(version: str, engine: str, row_image: str) -> None:
    """Byte for byte, with the event types, bitmaps and GTIDs of each version."""
    columns = ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(90)")
    table = TableDefinition("shop", "t", columns, ("id",), engine=engine)
    old: list[dict[str, Any]] = [{"id": number, "v": f"x{number}"} for number in range(5)]
    new = [{**row, "v": "y"} for row in old]
    changes = (Insert(table, old), Update(table, list(zip(old, new, strict=True))), Delete(table, new))
    types = pa.schema([("id", pa.int32()), ("v", pa.string())])
    before, after = (pa.RecordBatch.from_pylist(rows, schema=types) for rows in (old, new))
    batches = (
        BatchChange(table, after=before),
        BatchChange(table, before=before, after=after),
        BatchChange(table, before=after),
    )
    variables = ServerVariables(server_version=version, binlog_row_image=row_image, server_uuid=str(UUID))
    storages = MemoryStorage(), MemoryStorage()
    with BinlogWriter("b", variables=variables, storage=storages[0], clock=lambda: 10**15) as log:
        session = BatchSession(log, "shop")
        for batch in batches:
            session.write([batch])
    with (
        BinlogWriter("b", variables=variables, storage=storages[1], clock=lambda: 10**15) as log,
        log.session("shop") as rows,
    ):
        rows.set_variables(binlog_format="ROW")
        for change in changes:
            rows.execute(Statement("", [change]))

    assert storages[0].files == storages[1].files


@pytest.mark.parametrize(
    ("version", "nearest"),
    [
        ("4.1.22", "5.0.3"),
        ("5.6.3", "5.5.3"),
        ("8.0.4", "5.7.9"),
        ("5.3.12-MariaDB", "5.5.23"),
        ("12.1.2-MariaDB", "11.8.9"),
    ],
)
def test_a_version_that_is_not_known_names_the_nearest(version: str, nearest: str) -> None:
    with pytest.raises(UnsupportedFeature, match=rf"the nearest is {re.escape(nearest)}"):
        server_format_of(version)


# By gtid_mode: what AUTOMATIC, ANONYMOUS, a GTID and AUTOMATIC:tag give, as a 9.7.4 server answered.
GTID_NEXT: Final[dict[str, tuple[str | int, ...]]] = {
    "OFF": ("AnonymousGtidEvent", "AnonymousGtidEvent", 1781, 6039),
    "OFF_PERMISSIVE": ("AnonymousGtidEvent", "AnonymousGtidEvent", "GtidEvent", 6039),
    "ON_PERMISSIVE": ("GtidEvent", "AnonymousGtidEvent", "GtidEvent", "GtidTaggedEvent"),
    "ON": ("GtidEvent", 1782, "GtidEvent", "GtidTaggedEvent"),
}


@pytest.mark.parametrize("gtid_mode", GTID_NEXT)
def test_the_steps_of_gtid_mode_let_sessions_choose(gtid_mode: str) -> None:
    """Between OFF and ON, groups with and without GTIDs follow each other in one log."""
    storage = MemoryStorage()
    choices: list[NextGtid] = [AUTOMATIC, ANONYMOUS, Gtid(Uuid(bytes(16)), NO_TAG, 7), Automatic(Tag("x"))]
    with writer(storage, "9.7.0", gtid_mode=gtid_mode) as log, log.session("shop") as session:
        found: list[str | int] = []
        for number, chosen in enumerate(choices):
            try:
                session.set_variables(gtid_next=chosen)
            except LoggingError as exc:
                found.append(exc.errno)
                continue
            session.execute(insert(T, number))
            kinds = [type(event).__name__ for event in events_of(storage)]
            found += [kind for kind in kinds if kind in ("AnonymousGtidEvent", "GtidEvent", "GtidTaggedEvent")][-1:]

    assert tuple(found) == GTID_NEXT[gtid_mode]


@pytest.mark.parametrize(
    ("line", "version"),
    [("8.0", "8.0.44"), ("9", "9.7.0"), ("9.3", "9.3.0"), ("5.5", "5.5.62"), ("5.5-MariaDB", "5.5.68-MariaDB"),
     ("10.6", "10.6.24-MariaDB"), ("11.8-MariaDB", "11.8.9-MariaDB"), ("10.6.3", "10.6.3-MariaDB"),
     ("8.0.99", "8.0.99"), ("10.11.18-MariaDB-log", "10.11.18-MariaDB-log"), ("soup", "soup")],
)  # fmt: skip
def test_a_line_is_its_last_release(line: str, version: str) -> None:
    assert ServerVariables(server_version=line).server_version == version


@pytest.mark.parametrize("line", LAST_RELEASES)
def test_the_last_release_of_each_line_is_written(line: str) -> None:
    assert server_format_of(ServerVariables(server_version=line).server_version).post_header_sizes
