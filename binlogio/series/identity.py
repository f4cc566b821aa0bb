"""Identity of a log: what makes two files the same log, or the same log up to an offset.

Servers number their logs. After RESET, a failover or the restore of a backup, a new log may have the name of an earlier
one; and a repaired, filtered or rewritten copy has the head of its original, but other bytes after it.

    identity       creation time, server id, GTID of the first group: from the head
    fingerprint    hash of up to 4 KiB before an offset at which a group ends. These bytes contain log_pos, times, GTID
                   and XID of the last transactions, which a copy with other groups has at other offsets. No CRC32: the
                   CRC32 of events that end with their own CRC32 depends on their sizes only

Both are of the uncompressed, decrypted file, so they are the same after a rename, compression, encryption by MySQL, and
growth. The first 23 bytes are left out: a server clears the flag IN_USE there when it closes the log.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import BINLOG_MAGIC, HEADER_SIZE
from binlogio.errors import BinlogFormatError
from binlogio.series.log_head import read_head

if TYPE_CHECKING:
    from binlogio.series.log_head import LogHead
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_TAIL_SIZE: Final = 1 << 12
_CHANGING: Final = len(BINLOG_MAGIC) + HEADER_SIZE
_STEP: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIdentity:
    """The identity of a log, from its head.

    `created` is in seconds since 1970. `first_gtid` is None if the log has no GTIDs, or no group yet.
    """

    created: int
    server_id: int
    first_gtid: str | None = None

    @classmethod
    def of(cls, head: LogHead) -> LogIdentity:
        """Return the identity of a log with this head."""
        return cls(created=head.created, server_id=head.server_id, first_gtid=head.first_gtid)

    def is_same_log(self, other: LogIdentity) -> bool:
        """Return False if the identities contradict each other. A first GTID that only one of them has is ignored."""
        return (
            self.created == other.created
            and self.server_id == other.server_id
            and (self.first_gtid is None or other.first_gtid is None or self.first_gtid == other.first_gtid)
        )

    def may_follow(self, other: LogIdentity) -> bool:
        """Return whether this may be a later log of the same server."""
        return self.server_id == other.server_id and self.created >= other.created

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
    head = read_head(log, keyring)
    return None if head is None else LogIdentity.of(head)


def fingerprint(log: LogFile, offset: int, keyring: Keyring | None = None) -> str | None:
    """Return the fingerprint: a hash of up to 4 KiB before `offset`; None if `offset` is in the first event.

    A compressed or encrypted file is read up to `offset`.

    Raises:
        BinlogFormatError: the log ends before `offset`.
        OSError: the file cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
    """
    if offset <= _CHANGING:
        return None
    opened = log.open(keyring)
    try:
        return fingerprint_in(opened, offset, log.name)
    finally:
        opened.close()


def stored_print(log: LogFile, keyring: Keyring | None = None) -> tuple[int, str] | None:
    """Return the size of a compressed or encrypted file as it is stored, and a hash of its last 4 KiB.

    None for other files.

    Raises:
        OSError, UnsupportedFeature: the file cannot be read.
    """
    opened = log.open(keyring)
    try:
        if opened.seekable or log.stream is not None:
            return None
    finally:
        opened.close()
    raw: Any = log.open_raw()
    try:
        raw.seek(0, os.SEEK_END)
        size = raw.tell()
        raw.seek(max(0, size - _TAIL_SIZE))
        return size, hash_of(raw.read(_TAIL_SIZE))
    finally:
        raw.close()


def log_size(log: LogFile, keyring: Keyring | None = None) -> int:
    """Return the size of the uncompressed, decrypted log in bytes; a compressed or encrypted file is read.

    Raises:
        BinlogFormatError: the compressed file is damaged.
        OSError, UnsupportedFeature: the file cannot be read.
    """
    opened = log.open(keyring)
    try:
        if opened.seekable:
            return opened.end()
        size = 0
        while data := opened.read(_STEP):
            size += len(data)
        return size
    finally:
        opened.close()


def fingerprint_in(opened: OpenedLog, offset: int, file: str) -> str:
    """Return the fingerprint of an open log, which is at its start if it cannot seek."""
    start = max(_CHANGING, offset - _TAIL_SIZE)
    if opened.seekable:
        end = opened.end()
        if end >= offset:
            opened.seek(start)
    else:
        end = 0
        while end < start and (data := opened.read(min(_STEP, start - end))):
            end += len(data)
    data = opened.read_up_to(offset - start)
    if len(data) < offset - start:
        raise BinlogFormatError(
            "the offset is beyond the end of the log", file=file, offset=offset, found=f"a log of {end} bytes"
        )
    return hash_of(data)


def hash_of(data: bytes) -> str:
    """Return a hash of bytes of a log as 16 hexadecimal digits."""
    return blake2b(data, digest_size=8).hexdigest()
