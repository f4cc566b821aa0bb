"""Logs of any size are read in bounded memory, measured as the peak of a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
import pytest

from binlogio import BinlogWriter, ColumnDefinition, ServerVariables, TableDefinition
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, ChecksumAlgorithm, EventType
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.storage.compression import compress_zstd
from binlogio.writer.batches import BatchChange, BatchSession
from logs import frames

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has the peak memory of one process"),
]
TABLE: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("b", "varbinary(4096)")), ("id",)
)
ROWS: Final = 28_000
VALUE_SIZE: Final = 4096
CRC32: Final = ParseContext(checksum_algorithm=ChecksumAlgorithm.CRC32)
MOST_MB: Final = 100  # without the mapped libraries, of which more or less are in memory
READ: Final = """
import re, sys
from pathlib import Path
import binlogio
rows = sum(batch.num_rows for _, batch in binlogio.read_tables(sys.argv[1]))
status = Path("/proc/self/status").read_text()
peak_kb, file_kb = (int(re.search(name + r":\\s+(\\d+)", status)[1]) for name in ("VmHWM", "RssFile"))
print(rows, (peak_kb - file_kb) // 1024)
"""
SHAPES: Final = {
    "many rows events": ServerVariables(sync_binlog=0),
    "one rows event": ServerVariables(sync_binlog=0, binlog_row_event_max_size=1 << 30),
    "compressed": ServerVariables(sync_binlog=0),
    "one rows event, compressed": ServerVariables(sync_binlog=0, binlog_row_event_max_size=1 << 30),
}


@pytest.fixture(scope="module")
def rows() -> pa.RecordBatch:
    """Zeros with a few random bytes: more than a window once compressed."""
    random = Random(9)
    return pa.record_batch(
        {"id": range(ROWS), "b": [random.randbytes(128).ljust(VALUE_SIZE, b"\0") for _ in range(ROWS)]}
    )


def _compress(path: Path) -> None:
    """Put all after the last GTID event into a payload."""
    data = path.read_bytes()
    events = [(frame.header, data[frame.header.offset : frame.end]) for frame in frames(data)]
    first = 1 + max(i for i, (one, _) in enumerate(events) if one.type_code == EventType.GTID_LOG_EVENT)
    plain = b"".join(_without_checksum(event) for _, event in events[first:])
    head = b"".join((BINLOG_MAGIC, *(event for _, event in events[:first])))
    header = EventHeader(type_code=EventType.TRANSACTION_PAYLOAD_EVENT)
    payload = TransactionPayloadEvent.create(compress_zstd(plain, 1), CompressionType.ZSTD, len(plain), header)
    path.write_bytes(head + Encoder(CRC32).encode_at(payload, len(head)))


def _without_checksum(event: bytes) -> bytes:
    size = len(event) - CHECKSUM_SIZE
    return event[:9] + size.to_bytes(4, "little") + event[13:size]


@pytest.mark.parametrize("shape", SHAPES)
def test_transaction_larger_than_the_memory_that_reading_takes(
    tmp_path: Path, shape: str, rows: pa.RecordBatch
) -> None:
    with BinlogWriter(tmp_path / "binlog", variables=SHAPES[shape]) as log:
        BatchSession(log).write([BatchChange(TABLE, after=rows)])
    if "compressed" in shape:
        _compress(tmp_path / "binlog.000001")
    found = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "binlog.000001")], capture_output=True, text=True, check=True
    )
    row_count, peak_mb = map(int, found.stdout.split())

    assert row_count == ROWS
    assert peak_mb < MOST_MB < ROWS * VALUE_SIZE >> 20
