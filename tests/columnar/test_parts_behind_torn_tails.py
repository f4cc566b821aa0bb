"""One reader of several parts of a log, of which a torn one holds rows that are none: what it gives of the next is what another would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio.columnar.parallel.log_parts import LogPartReader
from binlogio.columnar.record_types import RowSelection
from binlogio.columnar.rows_reader import read_split
from binlogio.columnar.windows import WINDOW_SIZE
from binlogio.constants import BINLOG_MAGIC, EventType, HeaderFlag
from binlogio.events.base import ParseContext
from binlogio.events.gtid import GtidEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.format.splits import Split
from binlogio.gtid import Uuid
from binlogio.implementation import is_compiled
from binlogio.storage.compression import compress_zstd
from binlogio.storage.sources import LogFile
from defined_logs import mapped, table
from logs import OFF, description, encode, header, query

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not is_compiled(), reason="construct reads logs in one piece")

MISSING: Final = 2 * WINDOW_SIZE  # bytes
NULL: Final = b"\x04\0"  # a JSON document
NONE: Final = b"\xff\0"


def _group(number: int) -> list[Any]:
    gtid = GtidEvent(uuid=Uuid(bytes(range(16))), gno=number, header=header(EventType.GTID_LOG_EVENT))
    return [gtid, query("BEGIN"), *_insert(NULL), query("COMMIT")]


def _insert(document: bytes) -> list[Any]:
    images = b"\0" + len(document).to_bytes(4, "little") + document
    return [
        mapped(table("json"), "FULL"),
        WriteRowsEvent(9, 1, b"", 1, b"\xff", images, header(EventType.WRITE_ROWS_EVENT)),
    ]


def _torn_log(path: Path) -> tuple[LogFile, int]:
    """Return a payload that is not whole, with a document that is none and more than fits a window.

    Groups where the rest of it should be, and where they begin.
    """
    encoder = Encoder(ParseContext(checksum_algorithm=OFF))
    inner = [query("BEGIN"), *_insert(NULL), *_insert(NONE), query("x" * WINDOW_SIZE)]
    plain = b"".join(encoder.encode(event) for event in inner)
    payload = TransactionPayloadEvent.create(
        compress_zstd(plain, 1) + bytes(MISSING), 0, len(plain), header(EventType.TRANSACTION_PAYLOAD_EVENT)
    )
    first = description(OFF, flags=HeaderFlag.BINLOG_IN_USE)
    torn = (BINLOG_MAGIC + encode([first, _group(1)[0], payload]))[:-MISSING]
    groups = [event for number in range(2, 6) for event in _group(number)]
    data = torn + encode(groups, offset=len(torn), encoder=encoder)
    path.write_bytes(data)
    return LogFile(str(path), len(data)), len(torn)


@pytest.mark.parametrize("mixed", [False, True])
def test_a_part_behind_a_torn_tail_is_read_as_by_another_reader(tmp_path: Path, mixed: bool) -> None:
    """The torn payload gives no row: its size reaches past the end of the log, which is known before any of it is read."""
    log, behind = _torn_log(tmp_path / "binlog.000001")
    wanted = RowSelection(
        wants=lambda _schema, _table: True,
        columns=None,
        zero_dates="error",
        verify_checksum=True,
        batch_rows=100,
        mixed=mixed,
    )
    parts = [Split(0, behind), Split(behind, log.size or 0)]
    reader = LogPartReader(wanted, None)

    together = [[record for _, batch in reader.read((log, part)) for record in batch.to_pylist()] for part in parts]
    reader.close()

    apart = [[record for _, batch in read_split(log, part, wanted) for record in batch.to_pylist()] for part in parts]
    assert together == apart
    assert [len(records) for records in apart] == [0, 4]
