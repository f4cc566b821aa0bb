"""FORMAT_DESCRIPTION_EVENT and START_EVENT_V3: the first event of a file, which defines the format of the others.

    start_v3           := binlog_version: u16  server_version: u8[50]  created: u32
    format_description := binlog_version: u16  server_version: u8[50]  created: u32  header_size: u8
                          post_header_sizes: u8[*]  (checksum_algorithm: u8)?

Servers from 5.6.1 on (MariaDB 5.3.0) write the checksum algorithm. A CRC32 of four bytes follows, whatever the
algorithm is. It is computed with the flag BINLOG_IN_USE clear, because the server clears this flag in place when it
closes the file.
Source: libs/mysql/binlog/event/control_events.h and .cpp, Format_description_event.
"""

from __future__ import annotations

import re
from typing import Any, Final

from construct import (
    Adapter,
    Bytes,
    Construct,
    Container,
    Int8ul,
    Int16ul,
    Int32ul,
    Struct,
    Terminated,
    ValidationError,
)

from binlogio.constants import (
    CHECKSUM_SINCE,
    CHECKSUM_SINCE_MARIADB,
    HEADER_SIZE,
    HEADER_SIZE_V1,
    SERVER_VERSION_LENGTH,
    ChecksumAlgorithm,
    EventType,
)
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader, ParseContext
from binlogio.events.optional_fields import Announced
from binlogio.frozen import dataclass

BINLOG_VERSION: Final = 4
# The alphas 5.1.1 to 5.1.5 "-a_drop5", 5.1.4 "-a_drop6" and 5.2.0 to 5.2.2 "-a_drop6" have 22 event types, with other
# type codes.
_PERMUTED_VERSIONS: Final = r"5\.1\.[1-5]-a_drop5|5\.1\.4-a_drop6|5\.2\.[0-2]-a_drop6"
_PERMUTED_COUNT: Final = 22
PERMUTATION: Final = (
    *range(16),  # the type codes up to FORMAT_DESCRIPTION_EVENT are the standard ones
    EventType.TABLE_MAP_EVENT,
    EventType.PRE_GA_WRITE_ROWS_EVENT,
    EventType.PRE_GA_UPDATE_ROWS_EVENT,
    EventType.PRE_GA_DELETE_ROWS_EVENT,
    EventType.XID_EVENT,
    EventType.BEGIN_LOAD_QUERY_EVENT,
    EventType.EXECUTE_LOAD_QUERY_EVENT,
)
_MOST_TYPES_WITHOUT_CHECKSUM: Final = 35  # 5.5 has 27; a file with more types and no checksum algorithm is damaged

# Post-header sizes of servers that do not write a format description, in the order of the type codes. Source:
# sql/log_event.h of 4.0.
POST_HEADER_SIZES_V3: Final = (2 + 50 + 4, 11, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0)
POST_HEADER_SIZES_V1: Final = (2 + 50 + 4, 11, 0, 0, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0)


class _ServerVersion(Adapter):  # type: ignore[misc]
    """Text padded with zero bytes to 50 bytes. Bytes after an inner zero byte are kept."""

    def _decode(self, obj: bytes, context: Container, path: str) -> str:
        return obj.rstrip(b"\0").decode("utf-8", "surrogateescape")

    def _encode(self, obj: str, context: Container, path: str) -> bytes:
        return obj.encode("utf-8", "surrogateescape").ljust(SERVER_VERSION_LENGTH, b"\0")


class _PostHeaderSizes(Construct):  # type: ignore[misc]
    """One byte per type, up to the checksum algorithm if the server version has one, otherwise up to the end."""

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[int, ...]:
        at = stream.tell()
        sizes: bytes = stream.read()
        if knows_checksum(context.server_version):
            sizes = sizes[:-1]
            stream.seek(at + len(sizes))
        elif len(sizes) > _MOST_TYPES_WITHOUT_CHECKSUM:
            raise ValidationError(
                f"server {context.server_version!r} does not have {len(sizes)} event types", path=path
            )
        return tuple(sizes)

    def _build(self, obj: tuple[int, ...], stream: Any, context: Container, path: str) -> tuple[int, ...]:
        stream.write(bytes(obj))
        return obj


def server_version_numbers(server_version: str) -> tuple[int, int, int]:
    """Return `9.7.4-2` as (9, 7, 4); (0, 0, 0) if the text does not begin with three numbers."""
    match = re.match(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})", server_version)
    if match is None:
        return 0, 0, 0
    major, minor, patch = (int(part) for part in match.groups())
    return major, minor, patch


def knows_checksum(server_version: str) -> bool:
    """Return True if format descriptions of this server version have a checksum algorithm and a checksum.

    They have both even if the other events of the log have no checksums.
    """
    since = CHECKSUM_SINCE_MARIADB if "MariaDB" in server_version else CHECKSUM_SINCE
    return server_version_numbers(server_version) >= since


START_V3: Final = Struct(
    "binlog_version" / Int16ul,
    "server_version" / _ServerVersion(Bytes(SERVER_VERSION_LENGTH)),
    "created" / Int32ul,
    Terminated,
)
FORMAT_DESCRIPTION: Final = Struct(
    "binlog_version" / Int16ul,
    "server_version" / _ServerVersion(Bytes(SERVER_VERSION_LENGTH)),
    "created" / Int32ul,
    "header_size" / Int8ul,
    "post_header_sizes" / _PostHeaderSizes(),
    "checksum_algorithm" / Announced(lambda ctx: knows_checksum(ctx.server_version), Int8ul),
    Terminated,
)


@dataclass(frozen=True, slots=True)
class StartV3Event:
    """The first event of a file of 3.23 (binlog version 1) or 4.x (version 3).

    `created` is in seconds since 1970, UTC.
    """

    binlog_version: int
    server_version: str
    created: int
    header: EventHeader = NEW_HEADER

    @property
    def context(self) -> ParseContext:
        """The format of the events that follow."""
        old = self.binlog_version == 1
        return ParseContext(
            binlog_version=1 if old else 3,
            server_version=self.server_version,
            header_size=HEADER_SIZE_V1 if old else HEADER_SIZE,
            post_header_sizes=POST_HEADER_SIZES_V1 if old else POST_HEADER_SIZES_V3,
        )


@dataclass(frozen=True, slots=True)
class FormatDescriptionEvent:
    """The first event of a file since 5.0.

    `created` is the start time of the server in seconds since 1970, UTC, in the first file after a start; 0 in others.
    `post_header_sizes[type_code - 1]` is in bytes. `checksum_algorithm` is None in logs of servers without checksums.
    """

    binlog_version: int
    server_version: str
    created: int
    header_size: int
    post_header_sizes: tuple[int, ...]
    checksum_algorithm: int | None
    header: EventHeader = NEW_HEADER

    @property
    def context(self) -> ParseContext:
        """The format of the events that follow.

        Raises:
            BinlogFormatError: the binlog version is not 4.
            UnsupportedFeature: headers have less than 19 bytes, or the checksum algorithm is unknown.
        """
        if self.binlog_version != BINLOG_VERSION:
            raise BinlogFormatError(
                "impossible value",
                field="binlog_version",
                expected=4,
                found=self.binlog_version,
                offset=self.header.offset,
                event_type=EventType.FORMAT_DESCRIPTION_EVENT.name,
            )
        if self.header_size < HEADER_SIZE:
            raise UnsupportedFeature(
                "event headers that are too short for the fields of binlog version 4",
                field="header_size",
                expected="at least 19",
                found=f"{self.header_size}",
                offset=self.header.offset,
                event_type=EventType.FORMAT_DESCRIPTION_EVENT.name,
            )
        algorithm = ChecksumAlgorithm.OFF if self.checksum_algorithm is None else self.checksum_algorithm
        if algorithm not in (ChecksumAlgorithm.OFF, ChecksumAlgorithm.CRC32):
            raise UnsupportedFeature(
                "unknown checksum algorithm",
                field="checksum_algorithm",
                expected="0 (none) or 1 (CRC32)",
                found=f"{algorithm}",
                offset=self.header.offset,
                event_type=EventType.FORMAT_DESCRIPTION_EVENT.name,
            )
        is_alpha = re.match(_PERMUTED_VERSIONS, self.server_version) is not None
        permuted = len(self.post_header_sizes) == _PERMUTED_COUNT and is_alpha
        return ParseContext(
            binlog_version=self.binlog_version,
            server_version=self.server_version,
            header_size=self.header_size,
            post_header_sizes=self.post_header_sizes,
            checksum_algorithm=algorithm,
            permutation=PERMUTATION if permuted else (),
        )


CODECS: Final = (
    EventCodec(EventType.START_EVENT_V3, START_V3, StartV3Event),
    EventCodec(EventType.FORMAT_DESCRIPTION_EVENT, FORMAT_DESCRIPTION, FormatDescriptionEvent),
)
