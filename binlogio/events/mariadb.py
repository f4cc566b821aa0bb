"""MariaDB's own small events: ANNOTATE_ROWS, BINLOG_CHECKPOINT, START_ENCRYPTION. Its GTID events are in `gtid`.

    annotate_rows     := sql: u8[*]
    binlog_checkpoint := file: u32 length, bytes
    start_encryption  := scheme: u8 (1)  key_version: u32  nonce: u8[12]

Source: MariaDB sql/log_event.h, Annotate_rows_log_event, Binlog_checkpoint_log_event, Start_encryption_log_event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from construct import Bytes, GreedyBytes, Int8ul, Int32ul, Prefixed, Struct, Terminated

from binlogio.constants import EventType
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.primitives import Utf8

ANNOTATE_ROWS: Final = Struct("sql" / GreedyBytes)
BINLOG_CHECKPOINT: Final = Struct("file" / Utf8(Prefixed(Int32ul, GreedyBytes)), Terminated)
START_ENCRYPTION: Final = Struct("scheme" / Int8ul, "key_version" / Int32ul, "nonce" / Bytes(12), Terminated)


@dataclass(frozen=True, slots=True)
class AnnotateRowsEvent:
    """The statement after the rows events that follow."""

    sql: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class BinlogCheckpointEvent:
    """The oldest log that crash recovery would need."""

    file: str
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class StartEncryptionEvent:
    """Everything after this event is encrypted, event by event, with this version of the key and this nonce."""

    scheme: int
    key_version: int
    nonce: bytes
    header: EventHeader = NEW_HEADER


CODECS: Final = (
    EventCodec(EventType.ANNOTATE_ROWS_EVENT, ANNOTATE_ROWS, AnnotateRowsEvent),
    EventCodec(EventType.BINLOG_CHECKPOINT_EVENT, BINLOG_CHECKPOINT, BinlogCheckpointEvent),
    EventCodec(EventType.START_ENCRYPTION_EVENT, START_ENCRYPTION, StartEncryptionEvent),
)
