"""The head of a log: format, creation, GTIDs before it, and its first GTID. Only the head is read.

    head := format_description start_encryption? (previous_gtids | gtid_list binlog_checkpoint*)? gtid?

PREVIOUS_GTIDS (MySQL) has the GTIDs logged before the log. GTID_LIST (MariaDB) has the last GTID of each domain and
server before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from binlogio.constants import GROUP_STARTS, LOG_ENDS, EventType, HeaderFlag
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.events import codec_for
from binlogio.events.gtid import PreviousGtidsEvent
from binlogio.events.mariadb import MariadbGtidListEvent
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.gtid import GtidSet, MariadbGtid
from binlogio.storage.log_file import mariadb_decryptor_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlogio.events.base import ParseContext
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_CHUNK_SIZE: Final = 1 << 12
_MAX_HEAD: Final = 1 << 24  # bytes searched for the first GTID; PREVIOUS_GTIDS may be long
_FEW_LOGS: Final = 8
_READERS: Final = 16  # threads, for stores with high latency
HEAD_EVENTS: Final = (
    EventType.FORMAT_DESCRIPTION_EVENT,
    EventType.START_EVENT_V3,
    EventType.START_ENCRYPTION_EVENT,
    EventType.PREVIOUS_GTIDS_LOG_EVENT,
    EventType.MARIADB_GTID_LIST_EVENT,
    EventType.BINLOG_CHECKPOINT_EVENT,
)
_GTID_HEADS: Final = (EventType.PREVIOUS_GTIDS_LOG_EVENT, EventType.MARIADB_GTID_LIST_EVENT)
_Result = TypeVar("_Result")
LastGtids = dict[tuple[int, int], MariadbGtid]
"""The last MariaDB GTID of each domain and server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """The head of a log.

    `created` is the time of the format description in seconds since 1970. `first_gtid` is None if the first group has
    no GTID, or if there is no group yet. `has_groups` is True if a group follows the head. `is_encrypted` is True for
    MariaDB's encrypt_binlog.
    """

    created: int
    server_id: int
    context: ParseContext
    is_relay_log: bool
    in_use: bool
    is_encrypted: bool = False
    first_gtid: str | None = None
    has_groups: bool = False
    gtid_frame: EventFrame | None = None

    def gtids_before(self) -> GtidSet | LastGtids | None:
        """Return the GTIDs logged before the log: a set (MySQL), the last GTIDs (MariaDB).

        None: the head does not say it, or is damaged.
        """
        if self.gtid_frame is None:
            return None
        frame = self.gtid_frame
        try:
            event: Any = codec_for(frame.header.type_code).parse(frame.header, frame.body, frame.context)
        except BinlogFormatError:
            return None
        return before_of(event)


def before_of(event: PreviousGtidsEvent | MariadbGtidListEvent) -> GtidSet | LastGtids:
    """Return the GTIDs that were logged before a log, from the event at its head."""
    if isinstance(event, PreviousGtidsEvent):
        return event.gtid_set
    return {(gtid.domain_id, gtid.server_id): gtid for gtid in event.gtids}


def read_head(log: LogFile, keyring: Keyring | None = None, *, verify_checksum: bool = False) -> LogHead | None:
    """Return the head of a log, up to the first damaged event; None if its first event is incomplete or damaged.

    Raises:
        OSError: the file cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
    """
    opened = log.open(keyring)
    try:
        return head_of(opened, keyring, verify_checksum=verify_checksum)
    except BinlogError as exc:
        exc.locate(file=log.name)
        raise
    finally:
        opened.close()


def head_of(opened: OpenedLog, keyring: Keyring | None = None, *, verify_checksum: bool = False) -> LogHead | None:
    """Return the head of a newly opened log, as `read_head`."""
    found: LogHead | None = None
    try:
        for frame in head_frames(opened, keyring, verify_checksum=verify_checksum):
            header = frame.header
            if found is None:
                found = LogHead(
                    created=header.timestamp,
                    server_id=header.server_id,
                    context=frame.context,
                    is_relay_log=bool(header.flags & (HeaderFlag.RELAY_LOG | HeaderFlag.ARTIFICIAL)),
                    in_use=bool(header.flags & HeaderFlag.BINLOG_IN_USE),
                )
            elif header.type_code in GROUP_STARTS:
                event: Any = codec_for(header.type_code).parse(header, frame.body, frame.context)
                return replace(found, first_gtid=None if event.gtid is None else str(event.gtid), has_groups=True)
            elif header.type_code not in HEAD_EVENTS:
                return replace(found, has_groups=header.type_code not in LOG_ENDS)
            elif header.type_code in _GTID_HEADS:
                found = replace(found, gtid_frame=frame)
            elif header.type_code == EventType.START_ENCRYPTION_EVENT:
                found = replace(found, is_encrypted=True)
    except BinlogFormatError:
        return found
    return found


def known_heads(logs: Sequence[LogFile], keyring: Keyring | None = None) -> list[LogHead | None]:
    """Return the heads of logs; None for a stream, a relay log, and a log whose head cannot be read or is damaged.

    Heads in object stores are read by several threads.
    """
    return of_each(lambda log: _known_head(log, keyring), logs)


def of_each(read: Callable[[LogFile], _Result], logs: Sequence[LogFile]) -> list[_Result]:
    """Return the results of a function that reads a little of a log, for each log; in object stores by several threads.

    Raises:
        BaseException: that of the function.
    """
    if len(logs) < _FEW_LOGS or logs[0].filesystem is None:
        return [read(log) for log in logs]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - for stores with high latency only

    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(read, logs))


def _known_head(log: LogFile, keyring: Keyring | None) -> LogHead | None:
    if log.stream is not None:
        return None
    try:
        head = read_head(log, keyring, verify_checksum=True)
    except (OSError, BinlogError):
        return None
    return None if head is None or head.is_relay_log else head


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
