"""The log that is being written, and the way on to the next one.

Knows headers, flags and ends of a file, positions and checksums. Knows nothing of transactions: a group is bytes that stay together.

    file := magic format_description(IN_USE) previous_gtids group* (rotate | stop)?

IN_USE is cleared in place when the file is closed; the checksum does not see it. Groups are written whole, a rotation comes between
two. Source: sql/binlog.cc, MYSQL_BIN_LOG::open_binlog, new_file_impl, close; fixtures mysql97/rotated, stopped.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, HEADER_SIZE, ChecksumAlgorithm, HeaderFlag
from binlogio.encoder import Encoder
from binlogio.errors import WriterStateError
from binlogio.events.base import EventHeader
from binlogio.events.control import RotateEvent, StopEvent
from binlogio.events.format_description import BINLOG_VERSION, FormatDescriptionEvent
from binlogio.events.gtid import PreviousGtidsEvent
from binlogio.gtid import GtidSet, GtidSetEncoding
from binlogio.index_file import INDEX_SUFFIX, log_number, next_log_name

if TYPE_CHECKING:
    from binlogio.options import ServerVariables
    from binlogio.writer.log_storage import LogStorage

Clock = Callable[[], int]
"""Gives the time in microseconds since 1970, UTC."""

# libs/mysql/binlog/event/control_events.cpp, Format_description_event: what 9.7.4 writes, types 1 to 42.
POST_HEADER_SIZES: Final = tuple(
    bytes.fromhex("000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000")
)
MICROSECONDS_PER_SECOND: Final = 1_000_000
_FLAGS_OFFSET: Final = len(BINLOG_MAGIC) + HEADER_SIZE - 2
_LOG_POS: Final = slice(HEADER_SIZE - 2 - 4, HEADER_SIZE - 2)
_POSITION_BITS: Final = 0xFFFFFFFF


def describe_format(variables: ServerVariables, created: int = 0) -> FormatDescriptionEvent:
    """The format of the logs that a server with these variables writes. `created` in seconds since 1970, 0 but after a start."""
    crc32 = variables.binlog_checksum == "CRC32"
    return FormatDescriptionEvent(
        binlog_version=BINLOG_VERSION,
        server_version=variables.server_version,
        created=created,
        header_size=HEADER_SIZE,
        post_header_sizes=POST_HEADER_SIZES,
        checksum_algorithm=ChecksumAlgorithm.CRC32 if crc32 else ChecksumAlgorithm.OFF,
    )


class ActiveLog:
    """The last log of an index. Not for several threads at once.

    After an error of the storage nothing half-written is left where the storage can still truncate; where it cannot, every further
    call is refused.
    """

    def __init__(self, stem: str, storage: LogStorage, variables: ServerVariables, clock: Clock) -> None:
        self._stem = stem
        self._storage = storage
        self._variables = variables
        self._clock = clock
        self._has_checksum = variables.binlog_checksum == "CRC32"
        self._index: list[str] = []
        self._broken = False
        self.name = ""
        self.size = 0

    @property
    def index_name(self) -> str:
        """The name of the index file."""
        return self._stem + INDEX_SUFFIX

    @property
    def names(self) -> tuple[str, ...]:
        """The logs of the index, the active one last."""
        return tuple(line.removeprefix("./") for line in self._index)

    def existing(self) -> list[str]:
        """The logs that are there before this one, by the index and by the files, in the order of their numbers."""
        listed = [line.removeprefix("./") for line in self._storage.read_index(self.index_name)]
        found = [name for name in self._storage.names() if self._is_log(name)]
        return sorted({*listed, *found}, key=log_number)

    def open(self, previous: GtidSet) -> None:
        """Begin the log behind the existing ones, as a server does when it starts. `previous` are all GTIDs before it.

        Raises:
            OSError: the storage cannot.
        """
        existing = self.existing()
        self._index = list(self._storage.read_index(self.index_name))
        name = next_log_name(existing[-1]) if existing else f"{self._stem}.000001"
        self._begin(name, previous, created=self._clock() // MICROSECONDS_PER_SECOND)

    def append_group(self, frames: Iterable[bytes]) -> None:
        """Write the events of a group, which are complete but for their positions. Raises what `append` does."""
        self.append(self._stamped(frames))

    def append(self, data: bytes | memoryview) -> None:
        """Write a group as it stands at `size`.

        Raises:
            OSError: the storage cannot; the log is then as before.
            WriterStateError: an earlier error left the log in a state that nobody knows.
        """
        self._check()
        try:
            self._append(data)
        except OSError:
            self._broken = True
            self._storage.truncate(self.name, self.size)
            self._broken = False
            raise

    def sync(self) -> None:
        """Make what was written last."""
        self._storage.sync(self.name)

    def rotate(self, previous: GtidSet) -> None:
        """End this log and begin the next one."""
        self._check()
        self._broken = True  # up to the end: an error between two logs leaves neither to write to
        name = next_log_name(self.name)
        self._end(RotateEvent(position=len(BINLOG_MAGIC), next_log=name, header=self._header()))
        self._begin(name, previous)
        self._broken = False

    def close(self) -> None:
        """End this log, as a server does when it stops; a broken one stays as it is, in use."""
        if self._broken:
            self._storage.close(self.name)
        else:
            self._end(StopEvent(header=self._header()))

    def _is_log(self, name: str) -> bool:
        stem, number, more = log_number(name)
        return stem == self._stem and number >= 0 and not more

    def _check(self) -> None:
        if self._broken:
            raise WriterStateError("a write failed and could not be undone", file=self.name, hint="open the log anew")

    def _begin(self, name: str, previous: GtidSet, created: int = 0) -> None:
        encoder = Encoder()
        description = describe_format(self._variables, created)
        events: tuple[Any, ...] = (
            self._with_header(description, HeaderFlag.BINLOG_IN_USE),
            PreviousGtidsEvent(
                gtid_set=previous,
                encoding=GtidSetEncoding.TAGGED if previous.has_tags else GtidSetEncoding.UNTAGGED,
                header=self._header(HeaderFlag.IGNORABLE),
            ),
        )
        data = BINLOG_MAGIC
        for event in events:
            data += encoder.encode_at(event, len(data))
        self._storage.create(name)
        self.name, self.size = name, 0
        self._append(data)
        self._storage.sync(name)
        self._index.append(f"./{name}")
        self._storage.write_index(self.index_name, self._index)

    def _end(self, event: Any) -> None:
        encoder = Encoder(describe_format(self._variables).context)
        self._append(encoder.encode_at(event, self.size))
        self._storage.sync(self.name)
        self._storage.overwrite(self.name, _FLAGS_OFFSET, b"\0\0")
        self._storage.sync(self.name)
        self._storage.close(self.name)

    def _append(self, data: bytes | memoryview) -> None:
        self._storage.append(self.name, data)
        self.size += len(data)

    def _stamped(self, frames: Iterable[bytes]) -> bytes:
        """The events with the positions that they get here, and checksums that agree."""
        data = bytearray()
        for frame in frames:
            event = bytearray(frame)
            event[_LOG_POS] = (self.size + len(data) + len(event) & _POSITION_BITS).to_bytes(4, "little")
            if self._has_checksum:
                event[-CHECKSUM_SIZE:] = zlib.crc32(event[:-CHECKSUM_SIZE]).to_bytes(CHECKSUM_SIZE, "little")
            data += event
        return bytes(data)

    def _header(self, flags: int = 0) -> EventHeader:
        timestamp = self._clock() // MICROSECONDS_PER_SECOND
        return EventHeader(timestamp=timestamp, server_id=self._variables.server_id, flags=flags)

    def _with_header(self, event: FormatDescriptionEvent, flags: int) -> FormatDescriptionEvent:
        return replace(event, header=self._header(flags))
