"""Identifies the log in a file, to distinguish it from another log of the same name.

Servers number their logs. After RESET, a failover or the restore of a backup, a new log may have the name of an earlier
one. The head of a log contains its creation time (timestamp of the format description), the server id and, with GTIDs,
the GTID of the first group. Two logs with the same head may differ later (a restored backup): the bytes before an
offset are identified by a CRC32.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from binlogio.columnar.splits.split_bounds import GROUP_STARTS
from binlogio.constants import BINLOG_MAGIC, HEADER_SIZE, EventType
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.format.decoder import Decoder
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.reader import mariadb_decryptor_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_CHUNK_SIZE: Final = 1 << 12
_MAX_HEAD: Final = 1 << 24  # bytes searched for the first GTID; PREVIOUS_GTIDS may be long
_TAIL_SIZE: Final = 1 << 12
_CHANGING: Final = (
    len(BINLOG_MAGIC) + HEADER_SIZE
)  # the server clears the in-use flag of the first event when it closes the log
HEAD_EVENTS: Final = (
    EventType.FORMAT_DESCRIPTION_EVENT,
    EventType.START_EVENT_V3,
    EventType.START_ENCRYPTION_EVENT,
    EventType.PREVIOUS_GTIDS_LOG_EVENT,
    EventType.MARIADB_GTID_LIST_EVENT,
    EventType.BINLOG_CHECKPOINT_EVENT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIdentity:
    """The identity of a log, from its head.

    `created` is in seconds since 1970. `first_gtid` is None if the log has no GTIDs, or no group yet.
    """

    created: int
    server_id: int
    first_gtid: str | None = None

    def is_same_log(self, other: LogIdentity) -> bool:
        """Return False if the identities contradict each other. A first GTID that only one of them has is ignored."""
        return (
            self.created == other.created
            and self.server_id == other.server_id
            and (self.first_gtid is None or other.first_gtid is None or self.first_gtid == other.first_gtid)
        )

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.created, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        first = "" if self.first_gtid is None else f", whose first GTID is {self.first_gtid}"
        return f"a log of {moment} by the server with id {self.server_id}{first}"


def log_identity(log: LogFile, keyring: Keyring | None = None) -> LogIdentity | None:
    """Return the identity of a log; None if its first event is incomplete or damaged.

    Raises:
        OSError: the file cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
    """
    opened = log.open(keyring)
    found: LogIdentity | None = None
    try:
        for frame in head_frames(opened, keyring):
            header = frame.header
            if found is None:
                found = LogIdentity(created=header.timestamp, server_id=header.server_id)
            elif header.type_code in GROUP_STARTS:
                event: Any = next(iter(Decoder().decode(frame)))
                gtid = None if event.gtid is None else str(event.gtid)
                return LogIdentity(created=found.created, server_id=found.server_id, first_gtid=gtid)
            elif header.type_code not in HEAD_EVENTS:
                break
    except BinlogFormatError:
        return found
    except BinlogError as exc:
        exc.locate(file=log.name)
        raise
    finally:
        opened.close()
    return found


def head_frames(opened: OpenedLog, keyring: Keyring | None, *, verify_checksum: bool = False) -> Iterator[EventFrame]:
    """Yield the first complete events of a newly opened log.

    Raises:
        BinlogFormatError: an event is damaged.
    """
    framer = EventFramer(verify_checksum=verify_checksum, decryptor_for=mariadb_decryptor_for(keyring))
    size = 0
    while size < _MAX_HEAD:
        frame = framer.next_frame()
        if isinstance(frame, EventFrame):
            yield frame
            continue
        data = opened.read(min(max(_CHUNK_SIZE, framer.needed), _MAX_HEAD))
        if not data:
            return
        size += len(data)
        framer.feed(data)


def tail_checksum(log: LogFile, offset: int, keyring: Keyring | None = None) -> int | None:
    """Return the CRC32 of up to 4 KiB before `offset`.

    None: `offset` is in the head of the log, or the log is not seekable.

    Raises:
        BinlogFormatError: the log ends before `offset`.
        OSError, UnsupportedFeature: as in `log_identity`.
    """
    start = max(_CHANGING, offset - _TAIL_SIZE)
    if start >= offset:
        return None
    opened = log.open(keyring)
    try:
        if not opened.seekable:
            return None
        end = opened.end()
        if end < offset:
            raise BinlogFormatError(
                "the offset is beyond the end of the log", file=log.name, offset=offset, found=f"a log of {end} bytes"
            )
        opened.seek(start)
        data = b""
        while len(data) < offset - start and (more := opened.read(offset - start - len(data))):
            data += more
        return crc32(data)
    finally:
        opened.close()
