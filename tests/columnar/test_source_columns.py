"""Columns of the source of rows (`source_columns`): of the kernel, of construct, and of the events of the reader."""

from __future__ import annotations

import gzip
import io
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.columnar.batches.row_counts import RowCounter
from binlogio.columnar.transaction_records import group_change
from binlogio.constants import EventType
from binlogio.errors import UnsupportedFeature
from binlogio.events.base import ParseContext
from binlogio.events.control import RowsQueryEvent, XidEvent
from binlogio.events.gtid import AnonymousGtidEvent
from binlogio.events.mariadb import AnnotateRowsEvent, MariadbGtidEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.schema import statements
from binlogio.storage.compression import compress_zstd
from both_kernels import KERNELS
from both_records import NAMES, sources, without_ends
from corpus import CorpusFile, files
from logs import header, log, query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlogio.format.groups import EventGroup

LOGS: Final = [file for file in files() if file.path.suffix != ".decrypted"]
NAMED: Final = {"d.t": "CREATE TABLE t (a INT)", "d.u": "CREATE TABLE u (a INT)"}
GTID: Final = AnonymousGtidEvent(header=header(EventType.ANONYMOUS_GTID_LOG_EVENT))
TABLE: Final = TableMapEvent(9, 1, "d", "t", (3,), (0,), (True,))


def rows(*numbers: int, last: bool = True) -> WriteRowsEvent:
    images = b"".join(b"\x00" + number.to_bytes(4, "little") for number in numbers)
    return WriteRowsEvent(9, int(last), b"", 1, b"\xff", images)


def by_events(source: Any, **options: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the same by the events of the reader, whose groups are followed to their ends."""
    with binlogio.open(source, **options) as reader:
        number = 0
        waiting: list[list[Any]] = []
        thread_id = xid = statement = group = None
        place = -1
        outcome, savepoints = "statement", list[tuple[str, int]]()
        for event in reader:
            if reader.group is not group or reader.group is None:
                yield from ((*one[:5], xid, one[-1] or _outcome(group, outcome), *one[5:-1]) for one in waiting)
                waiting, thread_id, xid, statement, group = [], None, None, None, reader.group
                outcome, savepoints = "statement", []
            change = group_change(reader, event, RowCounter())
            outcome = change.outcome or outcome
            _mark_rolled_back(event, waiting, savepoints)
            if isinstance(event, MariadbGtidEvent) or (
                isinstance(event, QueryEvent) and event.sql.startswith((b"BEGIN", b"XA START"))
            ):
                thread_id = event.thread_id
            elif isinstance(event, XidEvent):
                xid = event.xid
            elif isinstance(event, (RowsQueryEvent, AnnotateRowsEvent)):
                statement = event.sql.decode()
            elif isinstance(event, binlogio.events.RowsEvent):
                number = number + 1 if event.header.offset == place else 0
                place = event.header.offset
                assert reader.frame is not None
                first = getattr(group, "first", None)
                gtid = None if group is None or group.gtid is None else str(group.gtid)
                facts = reader.frame.end, thread_id, getattr(first, "immediate_commit_timestamp", None), statement
                for row, _ in enumerate(reader.rows(event), start=number):
                    waiting.append([place, row, gtid, *facts, None])
                    number = row
                if event.ends_statement:
                    statement = None
        yield from ((*one[:5], xid, one[-1] or _outcome(group, outcome), *one[5:-1]) for one in waiting)


def _mark_rolled_back(event: Any, waiting: list[list[Any]], savepoints: list[tuple[str, int]]) -> None:
    """Note a savepoint with the number of rows before it, or mark the rows that ROLLBACK TO rolls back."""
    said = statements.recognize(event.sql) if isinstance(event, QueryEvent) else None
    if isinstance(said, statements.SavepointStatement):
        savepoints.append((said.name, len(waiting)))
    elif isinstance(said, statements.RollbackTo):
        while savepoints[-1][0] != said.name:
            savepoints.pop()
        for one in waiting[savepoints[-1][1] :]:
            one[-1] = "rollback to savepoint"


def _outcome(group: EventGroup | None, outcome: str) -> str | None:
    """Return the outcome of a group; None if its end is not in the log."""
    return None if group is None or group.last is None else outcome


@pytest.mark.parametrize("file", LOGS, ids=lambda file: file.id)
def test_source_columns_of_real_logs(file: CorpusFile) -> None:
    """Of both vendors, compressed, encrypted and damaged ones."""
    is_encrypted = file.encrypted and "mariadb" in str(file.path)
    names = tuple(name for name in NAMES if name not in ("xid", "outcome")) if is_encrypted else NAMES
    expected, error = sources("construct", file.path, names, keyring=file.keys)
    found, said = sources("compiled", file.path, names, keyring=file.keys)

    assert said == error
    assert without_ends(found, error) == without_ends(expected, error)
    if error is None and not is_encrypted:
        assert expected == list(by_events(file.path, keyring=file.keys))


def many_transactions() -> bytes:
    """Return a log of some MiB: most windows end within a transaction, and some events are larger than a window."""
    events: list[Any] = []
    for number in range(12):
        events += [GTID, query("BEGIN"), RowsQueryEvent(b"INSERT %d" % number), TABLE]
        if number % 6 == 5:
            events.append(rows(*range(300_000), last=True))
        else:
            events += [rows(*range(9_000), last=False) for _ in range(9)]
            events.append(rows(1, 2, last=True))
        if number % 4 == 3:
            events.append(query("COMMIT"))
        else:
            events.append(XidEvent(1000 + number))
    return log(*events)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("table", [None, "d.t"])
@pytest.mark.parametrize("threads", [1, 2])
def test_xid_is_found_after_the_window(suffix: str, table: str | None, threads: int, tmp_path: Path) -> None:
    """By reading ahead, twice through a compressed file; null only for COMMIT."""
    path = tmp_path / f"binlog.000001{suffix}"
    data = many_transactions()
    path.write_bytes(gzip.compress(data, 1) if suffix else data)
    found = binlogio.read_rows(
        path, table=table, source_columns=("xid", "statement"), threads=threads, definitions=NAMED
    ).to_table()
    texts = found.select(["xid"]).append_column("statement", found["statement"].cast("string"))
    pairs = texts.group_by(["xid", "statement"], use_threads=False).aggregate([]).to_pylist()

    assert found.num_rows == 10 * (9 * 9_000 + 2) + 2 * 300_000
    assert [tuple(pair.values()) for pair in pairs] == [
        (None if n % 4 == 3 else 1000 + n, f"INSERT {n}") for n in range(12)
    ]


def test_xid_of_a_log_without_an_end_is_null(tmp_path: Path) -> None:
    """A transaction that the server never committed, and one whose end is in no log."""
    path = tmp_path / "binlog.000001"
    open_events = [GTID, query("BEGIN"), TABLE, *[rows(*range(9_000), last=False) for _ in range(60)]]
    path.write_bytes(log(GTID, query("BEGIN"), TABLE, rows(1), XidEvent(7), *open_events, in_use=True))
    found = binlogio.read_rows(path, source_columns=["xid"], definitions=NAMED).to_table()

    assert found.num_rows == 1 + 60 * 9_000
    assert found["xid"].to_pylist()[:2] == [7, None]
    assert found["xid"].null_count == 60 * 9_000


@pytest.mark.parametrize("is_random", [False, True])
def test_xid_of_a_large_compressed_transaction(is_random: bool, tmp_path: Path) -> None:
    """Its payload is opened in parts; if it does not compress, the event too is larger than a window."""
    random = Random(7)
    numbers = [random.getrandbits(32) if is_random else number & 7 for number in range(9_000)]
    inner: list[Any] = [query("BEGIN"), RowsQueryEvent(b"INSERT"), TABLE]
    inner += [rows(*numbers, last=False) for _ in range(35)] if not is_random else []
    inner += [rows(*(random.getrandbits(32) for _ in range(9_000)), last=False) for _ in range(35 * is_random)]
    inner += [rows(1, last=True), XidEvent(77)]
    encoder = Encoder(ParseContext())
    plain = b"".join(encoder.encode(event) for event in inner)
    payload = TransactionPayloadEvent.create(
        compress_zstd(plain, 1), CompressionType.ZSTD, len(plain), header(EventType.TRANSACTION_PAYLOAD_EVENT)
    )
    data = log(GTID, payload, GTID, query("BEGIN"), TABLE, rows(5), XidEvent(78))
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    assert len(plain) > 1 << 20
    assert (len(data) > 1 << 20) is is_random
    found, error = sources("compiled", path)
    plain_begin = len(log(GTID, payload))

    assert error is None
    assert len(found) == 35 * 9_000 + 2
    assert {row[3:] for row in found[:-1]} == {(plain_begin, 7, 77, "commit", None, "INSERT")}
    assert found[-1][4:] == (7, 78, "commit", None, None)


def test_xid_of_a_stream_is_refused_where_it_would_have_to_be_read_ahead() -> None:
    """A transaction whose end was read has its XID."""
    small = log(GTID, query("BEGIN"), TABLE, rows(1), XidEvent(7))
    assert sources("compiled", io.BytesIO(small), ("xid",), definitions=NAMED) == ([(259, 0, None, 7)], None)
    with pytest.raises(UnsupportedFeature, match="a stream cannot be read ahead"):
        binlogio.read_rows(io.BytesIO(many_transactions()), source_columns=["xid"]).to_table()


def test_source_columns_are_in_schemas_and_names_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(GTID, query("BEGIN"), TABLE, rows(1, 2), XidEvent(7)))
    for table in ("d.t", "d.u"):
        read = binlogio.read_rows(path, table=table, source_columns=["statement", "end_pos"], definitions=NAMED)
        assert read.schema.names[-2:] == ["end_pos", "statement"]
        assert read.to_table().schema == read.schema
        assert read.to_pandas()["end_pos"].nunique() == (table == "d.t")
    assert binlogio.read_rows(path).schema.names[-1] == "after_present"
    assert binlogio.read_rows(path, source_columns=["xid"]).schema.names[-1] == "xid"
    with pytest.raises(UnsupportedFeature, match="unknown value"):
        binlogio.read_tables(path, source_columns=["xids"])


def test_statements_that_are_not_utf8_become_escapes(tmp_path: Path) -> None:
    """A statement applies to the rows up to the end of its events, and to none after them."""
    path = tmp_path / "binlog.000001"
    events = [
        GTID,
        query("BEGIN"),
        RowsQueryEvent(b"\xff?"),
        TABLE,
        rows(1, last=False),
        rows(2),
        TABLE,
        rows(3),
        XidEvent(7),
    ]
    path.write_bytes(log(*events))
    for kernel in KERNELS:
        found, _ = sources(kernel, path, ("statement",), definitions=NAMED)

        assert [row[-1] for row in found] == ["\\xff?", "\\xff?", None]
