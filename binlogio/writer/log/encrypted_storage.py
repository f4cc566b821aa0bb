"""Encrypted logs: a storage that encrypts and decrypts the logs of another storage as the servers do.

MySQL (binlog_encryption=ON) encrypts the whole log after an encryption header; offsets are those of the plain log.
MariaDB (encrypt_binlog=ON) encrypts each event after START_ENCRYPTION_EVENT; offsets are those of the file. The index
is plain with both, and so are logs that were written without encryption.

Source: sql/binlog_ostream.cc, Binlog_encryption_ostream; sql/rpl_log_encryption.cc; MariaDB: sql/log_event_server.cc,
Log_event_writer::encrypt_and_write.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from binlogio.constants import ENCRYPTED_MAGIC, EVENT_SIZE_BYTES, HEADER_SIZE
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events.mariadb import StartEncryptionEvent
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.storage.encryption import (
    ENCRYPTION_HEADER_SIZE,
    MARIADB_SCHEME,
    MariadbEncryptor,
    MysqlCipher,
    build_encryption_header,
    mariadb_decryptor,
    open_mysql,
)
from binlogio.storage.keyring import Keyring, MariadbKeys, MysqlKeyring

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.options import ServerVariables
    from binlogio.storage.log_storage import LogStorage

_KEY_NAME: Final = re.compile(r"MySQLReplicationKey_([0-9a-f-]{36})_(\d+)", re.IGNORECASE)
_NONCE_SIZE: Final = 12
_HEAD_SIZE: Final = 4096  # room for a format description and START_ENCRYPTION_EVENT
_KEY_VERSION: Final = 1  # the only key version of file_key_management


def asks_for_encryption(variables: ServerVariables) -> bool:
    """Return whether the logs of a server with these variables are encrypted."""
    return variables.encrypt_binlog if variables.is_mariadb else variables.binlog_encryption


def refuse_encryption(variables: ServerVariables) -> None:
    """Check that encryption is off; called if there is no keyring.

    Raises:
        UnsupportedFeature: binlog_encryption or encrypt_binlog is ON.
    """
    if asks_for_encryption(variables):
        raise UnsupportedFeature(
            "encrypted logs cannot be written without the keys",
            field="encrypt_binlog" if variables.is_mariadb else "binlog_encryption",
            expected="OFF, or a keyring",
            found="ON",
            hint="give the keyring of the server (BinlogWriter(keyring=...), binlogio write --keyring)",
        )


def start_encryption() -> StartEncryptionEvent:
    """Return the event after which MariaDB encrypts all events, with a new nonce."""
    return StartEncryptionEvent(MARIADB_SCHEME, _KEY_VERSION, secrets.token_bytes(_NONCE_SIZE))


class LogCipher(Protocol):
    """Encryption of one file. Offsets are those of the plain log."""

    extra_size: int  # bytes of the file before the encrypted log

    def encrypted(self, offset: int, data: bytes | bytearray | memoryview) -> bytes:
        """Return the encrypted bytes of `data`, which begins at `offset`."""

    def read(self, read: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
        """Return up to `size` plain bytes from `offset`; all of them if `size` is negative. `read` reads the file."""


class _PlainLog:
    extra_size = 0

    def encrypted(self, _offset: int, data: bytes | bytearray | memoryview) -> bytes:
        return bytes(data)

    def read(self, read: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
        return read(offset, size)


class _MysqlLog:
    extra_size = ENCRYPTION_HEADER_SIZE

    def __init__(self, cipher: MysqlCipher) -> None:
        self._cipher = cipher

    def encrypted(self, offset: int, data: bytes | bytearray | memoryview) -> bytes:
        return self._cipher.encrypt(offset, bytes(data))

    def read(self, read: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
        return self._cipher.decrypt(offset, read(ENCRYPTION_HEADER_SIZE + offset, size))


class _MariadbLog:
    """Events from `start` on are encrypted. Only complete events are written."""

    extra_size = 0

    def __init__(self, start: int, event: StartEncryptionEvent, keyring: Keyring, *, uses_ctr: bool = False) -> None:
        self._start = start
        self._encrypt = MariadbEncryptor.of(event, keyring, uses_ctr=uses_ctr)
        self._decrypt = mariadb_decryptor(event, keyring)
        self._cursor = start  # start of an event

    def encrypted(self, offset: int, data: bytes | bytearray | memoryview) -> bytes:
        plain = max(self._start - offset, 0)
        done = bytearray(data[:plain])
        while len(done) < len(data):
            at = len(done)
            size = int.from_bytes(data[at + EVENT_SIZE_BYTES.start : at + EVENT_SIZE_BYTES.stop], "little")
            if not HEADER_SIZE <= size <= len(data) - at:
                raise BinlogFormatError("only whole events can be encrypted", offset=offset + at, found=size)
            done += self._encrypt(offset + at, bytes(data[at : at + size]))
        return bytes(done)

    def read(self, read: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
        if size >= 0 and offset + size <= self._start:
            return read(offset, size)
        wanted = bytearray(read(offset, self._start - offset)) if offset < self._start else bytearray()
        at = self._cursor if self._cursor <= max(offset, self._start) else self._start
        while size < 0 or len(wanted) < size:
            head = read(at, HEADER_SIZE)
            event_size = int.from_bytes(head[EVENT_SIZE_BYTES], "little")
            frame = read(at, event_size) if at + event_size > offset else bytes(event_size)
            is_whole = len(head) == HEADER_SIZE <= event_size and len(frame) == event_size
            if at + event_size > offset or not is_whole:
                part = self._decrypt(at, frame) if is_whole else read(at, -1)
                wanted += part[max(offset - at, 0) :]
            if not is_whole:  # the incomplete last event after a crash
                break
            self._cursor = at
            at += event_size
        return bytes(wanted if size < 0 else wanted[:size])


def mysql_log(keyring: Keyring) -> tuple[LogCipher, bytes]:
    """Return the cipher of a new log of MySQL, with the last key, and the bytes in front of the plain log.

    Raises:
        UnsupportedFeature: the keyring has no key for logs, or the extra `encryption` is not installed.
    """
    cipher = MysqlCipher.create(*_key_of(keyring, "", is_mariadb=False))
    return _MysqlLog(cipher), build_encryption_header(cipher.header)


def mariadb_log(keyring: Keyring, event: StartEncryptionEvent, start: int) -> LogCipher:
    """Return the cipher of a new log of MariaDB; encryption begins at `start`, the end of START_ENCRYPTION_EVENT.

    Raises:
        UnsupportedFeature: as `mysql_log`.
    """
    _key_of(keyring, "", is_mariadb=True)
    return _MariadbLog(start, event, keyring)


class EncryptedStorage:
    """A storage whose logs are encrypted in the underlying storage; other files are unchanged.

    Args:
        storage: the underlying storage.
        keyring: the keys of the server, also for existing logs.
        variables: whether new logs are encrypted, and the vendor.
        server_uuid: selects the key of this server in a MySQL keyring, if there is one; else the last key is used.
        is_log: whether a name is that of a log.

    Raises:
        UnsupportedFeature: the keyring has no key for logs, or the extra `encryption` is not installed.
    """

    def __init__(
        self,
        storage: LogStorage,
        keyring: Keyring,
        variables: ServerVariables,
        server_uuid: str,
        is_log: Callable[[str], bool],
    ) -> None:
        self._storage = storage
        self._keyring = keyring
        self._is_log = is_log
        self._is_mariadb = variables.is_mariadb
        self._uses_ctr = variables.file_key_management_encryption_algorithm == "AES_CTR"
        self._key: tuple[str, bytes] | None = None
        if asks_for_encryption(variables):
            self._key = _key_of(keyring, server_uuid, is_mariadb=self._is_mariadb)
            MysqlCipher.create("", bytes(32))  # raises now, not at the first log, if the extra is missing
        self._ciphers: dict[str, LogCipher] = {}
        self.names = storage.names
        self.modified = storage.modified
        self.sync = storage.sync
        self.close = storage.close
        self.sync_names = storage.sync_names
        self.lock = storage.lock
        self.unlock = storage.unlock
        self.disown = storage.disown

    def size(self, name: str) -> int:
        """Return the size of a file in bytes, excluding the encryption header of a log."""
        size = self._storage.size(name)
        return size - self._cipher(name).extra_size if size else 0

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Return up to `size` plain bytes of a file from `offset`; all of them if `size` is negative."""
        return self._cipher(name).read(lambda start, count: self._storage.read(name, start, count), offset, size)

    def create(self, name: str) -> None:
        """Create an empty file; a log of MySQL gets its encryption header."""
        self._storage.create(name)
        self._ciphers[name] = _PlainLog()
        if self._key is None or self._is_mariadb or not self._is_log(name):
            return
        cipher = MysqlCipher.create(*self._key)
        self._ciphers[name] = _MysqlLog(cipher)
        try:
            self._storage.append(name, build_encryption_header(cipher.header))
        except OSError:
            with suppress(OSError):
                self._storage.remove(name)
            raise

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Append bytes; to an encrypted log of MariaDB only complete events."""
        offset = self.size(name)
        if offset == 0 and self._is_mariadb and self._key is not None and self._is_log(name):
            self._ciphers[name] = _log_of(bytes(data), self._keyring, uses_ctr=self._uses_ctr)
        self._storage.append(name, self._cipher(name).encrypted(offset, data))

    def overwrite(self, name: str, offset: int, data: bytes) -> None:
        """Replace existing bytes; in MariaDB's encrypted logs only those before the encrypted events."""
        cipher = self._cipher(name)
        self._storage.overwrite(name, cipher.extra_size + offset, cipher.encrypted(offset, data))

    def truncate(self, name: str, size: int) -> None:
        """Truncate the file to `size` plain bytes."""
        self._storage.truncate(name, self._cipher(name).extra_size + size)

    def rename(self, name: str, new_name: str) -> None:
        """Rename a file."""
        self._storage.rename(name, new_name)
        self._ciphers.pop(new_name, None)
        if name in self._ciphers:
            self._ciphers[new_name] = self._ciphers.pop(name)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._storage.remove(name)
        self._ciphers.pop(name, None)

    def _cipher(self, name: str) -> LogCipher:
        cipher = self._ciphers.get(name)
        if cipher is None:
            head = self._storage.read(name, 0, _HEAD_SIZE) if self._is_log(name) else b""
            cipher = self._ciphers[name] = (
                _log_of(head, self._keyring, uses_ctr=self._uses_ctr) if head else _PlainLog()
            )
        return cipher


def _log_of(head: bytes, keyring: Keyring, *, uses_ctr: bool) -> LogCipher:
    """Return the cipher of a log with the first bytes `head`; `uses_ctr` is the mode for new events of MariaDB."""
    if head.startswith(ENCRYPTED_MAGIC):
        return _MysqlLog(open_mysql(head, keyring))
    found: list[StartEncryptionEvent] = []

    def note(event: StartEncryptionEvent) -> Callable[[int, bytes], bytes]:
        found.append(event)
        return lambda _, data: data

    framer = EventFramer(verify_checksum=False, decryptor_for=note)
    framer.feed(head)
    with suppress(BinlogError):  # damage of a plain log is reported elsewhere
        for _ in range(2):
            frame = framer.next_frame()
            if found and isinstance(frame, EventFrame):
                return _MariadbLog(frame.end, found[0], keyring, uses_ctr=uses_ctr)
    return _PlainLog()


def _key_of(keyring: Keyring, server_uuid: str, *, is_mariadb: bool) -> tuple[str, bytes]:
    """Return name and value of the key that encrypts logs."""
    if is_mariadb:
        if isinstance(keyring, MariadbKeys) and 1 in keyring.keys:
            return "1", keyring.keys[1]
        raise UnsupportedFeature("the keyring has no key for binary logs", expected="key 1 of a MariaDB key file")
    named = [(_KEY_NAME.fullmatch(name), name) for name in keyring.keys if isinstance(name, str)]
    found = [(match[1].lower() == server_uuid.lower(), int(match[2]), name) for match, name in named if match]
    if not found or not isinstance(keyring, MysqlKeyring):
        raise UnsupportedFeature(
            "the keyring has no key for binary logs", expected="MySQLReplicationKey_<server_uuid>_<number>"
        )
    name = max(found)[2]
    return name, keyring.keys[name]
