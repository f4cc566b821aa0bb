"""Events whose size is damaged, and events that are large: only rows of the log, linear time, bounded memory."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any, Final

import pytest

import binlogio
from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogError, BinlogFormatError, ChecksumMismatch
from binlogio.events.base import ParseContext
from binlogio.events.query import QueryEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.storage.compression import compress_zstd
from both_kernels import KERNELS, error_of_events, records_and_error_by, records_of, rows_and_error_by
from corpus import MARIADB, MARIADB118, MYSQL
from log_cases import MARIADB as MARIADB_VERSION
from log_cases import table_map_of
from logs import OFF, description, encode, header, log, query, raw_events, stop, transaction, with_checksum
from rowimage_cases import column

MIB: Final = 1 << 20
MOST: Final = 24  # events of a log whose size is changed: each bit twice
FILES: Final = [
    MYSQL / "gtid_on" / "binlog.000002",
    MYSQL / "rowimage_full" / "binlog.000001",
    MYSQL / "checksum_none" / "binlog.000001",
    MARIADB / "gtid" / "binlog.000002",
    MARIADB / "checksum_none" / "binlog.000001",
]
NO_LOG_POS: Final = [
    MARIADB118 / "gtid" / "binlog.000001",
    MARIADB118 / "group_commit" / "binlog.000001",
    MARIADB118 / "rowimage_full_nodup" / "binlog.000001",
    MARIADB118 / "compressed" / "binlog.000001",
]
"""MariaDB 11.4 and later: the events of a transaction have log_pos 0, which contradicts no size."""
TABLE: Final = table_map_of([column(T.LONG), column(T.LONG_BLOB, 4, collation_id=63)])
READS: Final[dict[str, Any]] = {
    "read_tables": binlogio.read_tables,
    "read_rows": lambda source, **options: (("", batch) for batch in binlogio.read_rows(source, **options)),
}


def _rows(source: Any, read: str = "read_tables", **options: Any) -> tuple[list[Any], BinlogError | None]:
    """Return the records that come before the end or the error."""
    found: list[Any] = []
    try:
        for _, batch in READS[read](source, statement_changes="skip", **options):
            found += records_of(batch)
    except BinlogError as exc:
        return sorted(found), exc
    return sorted(found), None


def big_insert(size: int, rows: int = 1) -> WriteRowsEvent:
    """Return an insert of rows with a LONGBLOB of so many bytes."""
    images = b"".join(
        b"\0" + number.to_bytes(4, "little") + size.to_bytes(4, "little") + bytes(size) for number in range(rows)
    )
    return WriteRowsEvent(7, 1, b"", 2, b"\3", images, header(EventType.WRITE_ROWS_EVENT))


def with_size(data: bytes, at: int, size: int) -> bytes:
    """Return the log with another size in the header of the event at `at`."""
    return data[: at + 9] + size.to_bytes(4, "little") + data[at + 13 :]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_flipped_bit_of_a_size_gives_no_rows_that_are_not_in_the_log(tmp_path: Path, path: Path, read: str) -> None:
    """Of rows events: the bits that make them larger than what is read at a time.

    Also if two MiB follow them in the log.
    """
    data = path.read_bytes()
    events = [(at, event) for at, event in raw_events(data) if event[4] in {23, 24, 25, 30, 31, 32}]
    whole, _ = _rows(path, read, zero_dates="null")
    for number, (at, event) in enumerate(events[:: -(-len(events) // MOST)]):
        bit = 20 + number % 12
        spoilt = with_size(data, at, len(event) ^ 1 << bit) + bytes(2 * MIB)
        target = tmp_path / "binlog.000001"
        target.write_bytes(spoilt)
        for source in (target, io.BytesIO(spoilt)):
            found, error = _rows(source, read, zero_dates="null")

            assert error is not None, (at, bit)
            assert [record[:2] for record in found] == [record[:2] for record in whole if record[0] < at], (at, bit)
            assert error.offset == at


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("path", NO_LOG_POS, ids=lambda path: path.parent.name)
def test_flipped_bit_of_a_size_without_log_pos_gives_no_rows_that_are_not_in_the_log(
    tmp_path: Path, path: Path, read: str
) -> None:
    """The end of the file and the checksum are compared before the first row; also with bytes to fill the size."""
    data = path.read_bytes()
    events = [(at, event) for at, event in raw_events(data) if event[4] in {23, 24, 25, *range(166, 169)}]
    assert any(event[13:17] == bytes(4) for _, event in events)
    target = tmp_path / "binlog.000001"
    whole, _ = _rows(path, read, zero_dates="null")
    for number, (at, event) in enumerate(events[:: -(-len(events) // MOST)]):
        bit = 20 + number % 12
        for room in (0, 2 * MIB):
            spoilt = with_size(data, at, len(event) ^ 1 << bit) + bytes(room)
            target.write_bytes(spoilt)
            for source in (target, io.BytesIO(spoilt)):
                found, error = _rows(source, read, zero_dates="null")

                assert error is not None, (at, bit)
                assert [one[:2] for one in found] == [one[:2] for one in whole if one[0] < at], (at, bit)
                assert error.offset == at


class CountedBytes(io.BytesIO):
    """Bytes that count how many of them were read."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """As any; counted."""
        data = super().read(size)
        self.taken += len(data)
        return data


@pytest.mark.parametrize(
    "event_type", [EventType.QUERY_EVENT, EventType.XID_EVENT, EventType.TABLE_MAP_EVENT, EventType.WRITE_ROWS_EVENT]
)
def test_flipped_size_does_not_read_the_rest_of_the_log(event_type: int) -> None:
    """Its position contradicts the size before more is read than a little."""
    data = log(query("BEGIN"), TABLE, big_insert(100), *transaction(1)) + bytes(64 * MIB)
    at = next(at for at, event in raw_events(data[: len(data) - 64 * MIB]) if event[4] == event_type)
    spoilt = with_size(data, at, 60 * MIB)
    for read in (*READS.values(), lambda source: [("", event) for event in binlogio.open(source)]):
        source = CountedBytes(spoilt)
        with pytest.raises(BinlogFormatError, match="contradicts its log_pos") as caught:
            for _ in read(source):
                pass

        assert caught.value.offset == at
        assert source.taken <= 4 * MIB


@pytest.mark.parametrize("position", ["its own", "none"])
@pytest.mark.parametrize("read", READS)
def test_big_event_with_a_wrong_checksum_gives_no_rows_of_a_file(tmp_path: Path, read: str, position: str) -> None:
    """The checksum is compared before the first row is given out.

    In a stream, which cannot be read twice, afterwards.
    """
    data = bytearray(log(query("BEGIN"), TABLE, big_insert(MIB // 2, 7), *transaction(1)))
    at, event = next((at, event) for at, event in raw_events(data) if event[4] == EventType.WRITE_ROWS_EVENT)
    if position == "none":  # as MariaDB 11.4 writes it
        data[at + 13 : at + 17] = bytes(4)
        data[at : at + len(event)] = with_checksum(data[at : at + len(event)])
    assert len(_rows(io.BytesIO(data), read)[0]) == 7
    data[at + len(event) - 9] ^= 1
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    found, error = _rows(path, read)

    assert isinstance(error, ChecksumMismatch)
    assert error.offset == at
    assert found == []
    assert isinstance(_rows(io.BytesIO(data), read)[1], ChecksumMismatch)


@pytest.mark.parametrize("in_use", [False, True])
@pytest.mark.parametrize("read", READS)
def test_big_event_that_the_file_cuts_off_gives_no_rows(tmp_path: Path, read: str, in_use: bool) -> None:
    """The end of a file is known before its last event is read."""
    data = log(query("BEGIN"), TABLE, big_insert(MIB // 2, 7), in_use=in_use)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data[:-5])
    found, error = _rows(path, read)

    assert found == []
    assert (error is None) is in_use


def test_big_event_of_a_log_whose_positions_are_all_off_is_read() -> None:
    """As `mysqlbinlog --raw --start-position` leaves logs: every position is of another file, and off by the same."""
    whole = log(query("x" * 500), *transaction(1), query("BEGIN"), TABLE, big_insert(MIB // 2, 7), stop())
    events = list(raw_events(whole))
    first = events[0][1]
    data = whole[:4] + first + b"".join(event for _, event in events[2:])
    found, error = _rows(io.BytesIO(data))
    with binlogio.open(io.BytesIO(data)) as reader:
        count = sum(1 for _ in reader)

    assert error is None
    assert len(found) == 7
    assert count == len(events) - 1


@pytest.mark.parametrize("algorithm", [None, OFF])
def test_event_of_more_than_the_limit_is_refused_before_it_is_read(algorithm: int | None) -> None:
    """Of a log without positions, where nothing else contradicts the size."""
    data = bytearray(log(query("BEGIN"), query("x"), *transaction(1), algorithm=algorithm or OFF) + bytes(2 * MIB))
    at = next(at for at, event in raw_events(data) if event[4] == EventType.QUERY_EVENT)
    data[at + 9 : at + 17] = (3 << 30).to_bytes(4, "little") + bytes(4)
    for read in (*READS.values(), lambda source: [("", event) for event in binlogio.open(source)]):
        source = CountedBytes(bytes(data))
        with pytest.raises(BinlogFormatError, match="larger than the limit") as caught:
            for _ in read(source):
                pass

        assert caught.value.offset == at
        assert source.taken <= 2 * MIB


READ_ONE_ROW: Final = """
import re, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
import binlogio
rows = sum(batch.num_rows for _, batch in binlogio.read_tables(sys.argv[1]))
print(rows, int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has the peak memory of one process")
def test_row_of_many_windows_is_read_in_linear_time(tmp_path: Path) -> None:
    """A LONGBLOB of 128 MiB, which took 26 s when each MiB was looked at again with all before it.

    The limit of 20 s is a guard.
    """
    data = log(TABLE, big_insert(128 * MIB))
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    found = subprocess.run([sys.executable, "-c", READ_ONE_ROW, str(path)], capture_output=True, text=True, check=True)
    rows, peak_mb = map(int, found.stdout.split())

    assert rows == 1
    assert peak_mb < 128 * 4


READ_BOMB: Final = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (6, 6))
import binlogio
for read in (binlogio.read_tables, lambda path: (("", batch) for batch in binlogio.read_rows(path))):
    try:
        for _ in read(sys.argv[1]):
            pass
    except binlogio.BinlogError as exc:
        print(exc.field)
"""


def test_compressed_event_of_millions_of_rows_is_refused_without_all_of_them(tmp_path: Path) -> None:
    """8 KB of 8 MiB of rows of a byte or two, of which the last one is cut; once construct read them all in 12 s."""
    table = table_map_of([column(T.TINY)])
    images = bytes(8 * MIB) + b"\0"
    event = WriteRowsEvent(7, 1, b"", 1, b"\1", images, header(EventType.WRITE_ROWS_COMPRESSED_EVENT_V1))
    data = BINLOG_MAGIC + encode([description(version=MARIADB_VERSION), query("BEGIN"), table, event])
    assert len(data) < 64 << 10
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    found = subprocess.run([sys.executable, "-c", READ_BOMB, str(path)], capture_output=True, text=True, check=True)

    fields = [f"{name}byte {8 * MIB + 1} of the row images" for name in ("column c0, ", "column c0, ")]
    assert found.stdout.splitlines() == [f"row {4 * MIB}, {field}" for field in fields]


READ_PAYLOAD: Final = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (6, 6))
import binlogio
def read_mixed(source, **options):
    return (("", batch) for batch in binlogio.read_rows(source, **options))

for read in (binlogio.read_tables, read_mixed):
    for tables in (["d.t"], ["d.none"]):
        for source in (sys.argv[1], open(sys.argv[1], "rb")):
            rows = 0
            try:
                for _, batch in read(source, tables=tables):
                    rows += batch.num_rows
            except binlogio.BinlogError as exc:
                print(rows, exc.offset, exc.event_type, exc.field)
"""


def _payload_bomb(events: int, rows: int) -> bytes:
    """Return a compressed transaction of so many inserts of so many rows of zeros.

    The last row of the last insert is cut.
    """
    table = table_map_of([column(T.TINY)])
    encoder = Encoder(ParseContext(checksum_algorithm=OFF))
    row = header(EventType.WRITE_ROWS_EVENT)
    whole = encoder.encode(WriteRowsEvent(7, 0, b"", 1, b"\1", bytes(2 * rows), row))
    cut = encoder.encode(WriteRowsEvent(7, 1, b"", 1, b"\1", bytes(2 * rows + 1), row))
    plain = b"".join([encoder.encode(query("BEGIN")), encoder.encode(table), *[whole] * (events - 1), cut])
    payload = compress_zstd(plain, 1)
    return log(
        TransactionPayloadEvent.create(payload, 0, len(plain), header(EventType.TRANSACTION_PAYLOAD_EVENT)),
        algorithm=OFF,
    )


@pytest.mark.parametrize(("events", "rows"), [(16, 256 << 10), (125_000, 1), (1, 4 << 20), (1, 500_000)], ids=str)
def test_compressed_transaction_of_millions_of_rows_is_refused_without_all_of_them(
    tmp_path: Path, events: int, rows: int
) -> None:
    """Construct reads the rows that the kernel refuses, in tables that are wanted and others.

    Of an event of a window or less no row is given.
    """
    path = tmp_path / "binlog.000001"
    path.write_bytes(_payload_bomb(events, rows))
    found = subprocess.run([sys.executable, "-c", READ_PAYLOAD, str(path)], capture_output=True, text=True, check=True)
    good = events * rows if 2 * rows >= MIB else (events - 1) * rows
    error = f"{_payload_offset(path)} WRITE_ROWS_EVENT row {rows}, column c0, byte {2 * rows + 1} of the row images"

    assert found.stdout.splitlines() == [f"{good} {error}"] * 2 + [f"0 {error}"] * 2 + (
        [f"{good} {error}"] * 2 + [f"0 {error}"] * 2
    )


def _payload_offset(path: Path) -> int:
    return next(at for at, event in raw_events(path.read_bytes()) if event[4] == EventType.TRANSACTION_PAYLOAD_EVENT)


@pytest.mark.parametrize("events", [1, 3])
def test_cut_row_of_a_compressed_transaction_is_refused_as_by_construct(tmp_path: Path, events: int) -> None:
    """The same rows before the error, and the same words, whatever table is asked for."""
    data = _payload_bomb(events, 3)
    for read in (rows_and_error_by, records_and_error_by):
        for tables in (["d.t"], ["d.none"]):
            compiled, construct = (read(kernel, data, tables=tables) for kernel in KERNELS)

            assert compiled == construct
            assert f"row 3, column c0, byte {7} of the row images" in str(compiled[1])


def test_compressed_statement_over_the_limit_is_refused_before_it_is_opened() -> None:
    """`read_tables` does not open statements of this size: they are no DDL."""
    sql = QueryEvent(7, 0, 0, (), "d", b"x" * (2 * MIB), header(EventType.QUERY_COMPRESSED_EVENT))
    data = BINLOG_MAGIC + encode([description(version=MARIADB_VERSION), sql, TABLE, big_insert(10)])
    limits = binlogio.Limits(opened_size=MIB)
    assert len(_rows(io.BytesIO(data), limits=limits)[0]) == 1
    with pytest.raises(BinlogFormatError, match="larger than the limit of 1048576"):
        list(binlogio.open(io.BytesIO(data), limits=limits))
    assert len(list(binlogio.open(io.BytesIO(data)))) == 4


def _compressed_values(opened_sizes: list[int], kind: T, collation: int) -> bytes:
    """Return a MariaDB log of an insert of a row for each size; a compressed column has so many zeros."""
    table = table_map_of(
        [column(T.LONG), column(kind, 4 if kind == T.BLOB_COMPRESSED else 60000, collation_id=collation)]
    )
    width = 4 if kind == T.BLOB_COMPRESSED else 2
    images = b""
    for number, size in enumerate(opened_sizes):
        value = b"\x84" + size.to_bytes(4, "big") + zlib.compress(bytes(size), 9)
        images += b"\0" + number.to_bytes(4, "little") + len(value).to_bytes(width, "little") + value
    event = WriteRowsEvent(7, 1, b"", 2, b"\3", images, header(EventType.WRITE_ROWS_EVENT))
    return BINLOG_MAGIC + encode([description(version=MARIADB_VERSION), table, event])


@pytest.mark.parametrize("collation", [63, 46, 8, 54], ids=["binary", "utf8mb4", "latin1", "utf16"])
@pytest.mark.parametrize("kind", [T.BLOB_COMPRESSED, T.VARCHAR_COMPRESSED])
def test_value_of_a_compressed_column_over_the_limit_is_refused(kind: T, collation: int) -> None:
    """A value may open to exactly the limit; the error of a larger one says where it is and which limit that was."""
    limits = binlogio.Limits(opened_size=MIB)
    good = _compressed_values([MIB, 0, MIB], kind, collation)
    bomb = _compressed_values([MIB, MIB + 2], kind, collation)
    at = last_event_at(bomb)
    for read in READS:
        assert [error for _, error in [_rows(io.BytesIO(good), read, limits=limits)]] == [None]
        assert [error for _, error in [_rows(io.BytesIO(bomb), read)]] == [None]

        _, error = _rows(io.BytesIO(bomb), read, limits=limits)

        assert isinstance(error, BinlogFormatError)
        assert "larger than the limit of 1048576 (Limits.opened_size" in str(error)
        assert error.offset == at
        assert str(error.field).startswith("row 1, column c1, byte ")
    error_found = error_of_events(bomb, limits=limits)

    assert error_found is not None
    assert (error_found.offset, "1048578" in error_found.text) == (at, True)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has the peak memory of one process")
def test_compressed_values_are_not_all_opened_at_once(tmp_path: Path) -> None:
    """40 rows of 32 MiB each, in an event of a megabyte: a row at a time is opened and given out."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(_compressed_values([32 * MIB] * 40, T.BLOB_COMPRESSED, 63))
    found = subprocess.run([sys.executable, "-c", READ_ONE_ROW, str(path)], capture_output=True, text=True, check=True)
    rows, peak_mb = map(int, found.stdout.split())

    assert rows == 40
    assert peak_mb < 40 * 32 / 2


class _Pipe(io.BytesIO):
    """A stream that cannot seek."""

    def seekable(self) -> bool:
        """Return False."""
        return False

    def seek(self, *_: Any) -> int:
        """Raise, as a pipe does."""
        raise io.UnsupportedOperation


@pytest.mark.parametrize("read", READS)
def test_checksum_of_a_big_event_is_compared_first_in_every_source_that_can_be_read_twice(
    tmp_path: Path, read: str
) -> None:
    """A path, a file object, one in the middle of other bytes; streams that cannot seek end with the same error."""
    data = log(TABLE, big_insert(MIB, 3))
    spoilt = bytearray(data)
    spoilt[-1] ^= 1
    path = tmp_path / "binlog.000001"
    path.write_bytes(spoilt)
    inside = io.BytesIO(b"other bytes" + spoilt)
    inside.seek(len(b"other bytes"))
    with path.open("rb") as buffered, path.open("rb", buffering=0) as raw:
        for source in (path, io.BytesIO(spoilt), inside, buffered, raw):
            found, error = _rows(source, read)

            assert found == []
            assert isinstance(error, ChecksumMismatch)
            assert error.offset == last_event_at(spoilt)
        for stream in (_Pipe(spoilt), gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(spoilt)))):
            assert isinstance(_rows(stream, read)[1], ChecksumMismatch)
        for whole in (io.BytesIO(data), _Pipe(data), gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data)))):
            assert len(_rows(whole, read)[0]) == 3


def last_event_at(data: bytes | bytearray) -> int:
    """Return the offset of the last event of a log."""
    return max(at for at, _ in raw_events(data))
