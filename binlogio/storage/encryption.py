"""Encryption and decryption of binary logs of MySQL and MariaDB; no I/O.

Uses AES of the optional dependency `encryption`, which is imported at its first use. `binlogio.storage.keyring` loads
keys. Error messages and `repr` never contain a key.

    mysql           := header: u8[512]  AES-256-CTR(file)                     -- the file begins with 0xfe "bin"
    header          := 0xfd "bin"  version: u8 (1)  field*  0x00*
    field           := 1  len: u8  key_id: u8[len]  |  2  encrypted_password: u8[32]  |  3  iv: u8[16]
    mariadb         := 0xfe "bin"  FORMAT_DESCRIPTION_EVENT  START_ENCRYPTION_EVENT  (encrypted_event* | event*)
    encrypted_event := u8[4] (encrypted, moved from offset 9)  AES(u8[5])  event_size: u32  AES(u8[*])

Source: sql/rpl_log_encryption.{h,cc}, sql/stream_cipher.cc; MariaDB sql/rpl_constants.h, Binlog_crypt_data;
sql/log_event.cc, encrypt_event; mysys_ssl/my_crypt.cc, MyCTX_nopad; sql/sql_repl.cc, send_format_descriptor_event: it
sends START_ENCRYPTION_EVENT before events that it has decrypted, and `mariadb-binlog --raw` writes such logs.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from construct import Bytes, Const, Error, Int8ul, Padded, Pass, RepeatUntil, Struct, Switch, this

from binlogio.constants import (
    BINLOG_MAGIC,
    ENCRYPTED_MAGIC,
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    TIMESTAMP_BYTES,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BadMagic, BinlogFormatError, Hint, MissingPackage, TruncatedEvent, UnsupportedFeature
from binlogio.events.base import has_right_checksum, parse_header
from binlogio.events.mariadb import StartEncryptionEvent
from binlogio.frozen import dataclass
from binlogio.primitives import BAD_BYTES, Bytes8, Utf8
from binlogio.storage.keyring import Keyring, MariadbKeys, MysqlKeyring, load_keyring

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher

__all__ = [
    "EncryptionHeader",
    "Keyring",
    "MariadbEncryptor",
    "MariadbKeys",
    "MysqlCipher",
    "MysqlKeyring",
    "build_encryption_header",
    "events_after_start",
    "is_plain_event",
    "load_keyring",
    "mariadb_decryptor",
    "open_mysql",
    "parse_encryption_header",
]

ENCRYPTION_HEADER_SIZE: Final = 512
ENCRYPTION_VERSION: Final = 1
MARIADB_SCHEME: Final = 1
MARIADB_BINLOG_KEY_ID: Final = 1  # MariaDB include/mysql/plugin_encryption.h, ENCRYPTION_KEY_SYSTEM_DATA

_BLOCK_SIZE: Final = 16
_MASTER_KEY_SIZE: Final = 32
_PASSWORD_SIZE: Final = 32
_KNOWN_FLAGS: Final = sum(HeaderFlag)
_IS_EVENT: Final = 2  # `_sense` of bytes that are an event

_KEY_ID, _PASSWORD, _IV = 1, 2, 3  # sql/rpl_log_encryption.h, Rpl_encryption_header_v1::Field_type
_FIELD_VALUES: Final = {0: Pass, _KEY_ID: Utf8(Bytes8), _PASSWORD: Bytes(_PASSWORD_SIZE), _IV: Bytes(_BLOCK_SIZE)}
_FIELD: Final = Struct("type" / Int8ul, "value" / Switch(this.type, _FIELD_VALUES, default=Error))
ENCRYPTION_HEADER: Final = Padded(
    ENCRYPTION_HEADER_SIZE,
    Struct(
        "magic" / Const(ENCRYPTED_MAGIC),
        "version" / Const(ENCRYPTION_VERSION, Int8ul),
        "fields" / RepeatUntil(lambda obj, lst, ctx: obj["type"] == 0, _FIELD),
    ),
)


@dataclass(frozen=True, slots=True)
class EncryptionHeader:
    """The encryption header of a file: its password, encrypted with the server's key `key_id` and the IV `iv`."""

    key_id: str
    encrypted_password: bytes
    iv: bytes


def parse_encryption_header(header: bytes) -> EncryptionHeader:
    """Parse the encryption header: the first 512 bytes of a log of MySQL with binlog_encryption=ON.

    Raises:
        BadMagic: the file is not an encrypted log.
        TruncatedEvent: `header` has fewer than 512 bytes.
        UnsupportedFeature: the version is not 1.
        BinlogFormatError: a field is unknown or missing.
    """
    if not header.startswith(ENCRYPTED_MAGIC):
        raise BadMagic(
            "the file does not begin with the magic number of an encrypted log",
            offset=0,
            expected=ENCRYPTED_MAGIC,
            found=header[: len(ENCRYPTED_MAGIC)],
        )
    if len(header) < ENCRYPTION_HEADER_SIZE:
        raise TruncatedEvent(
            "the file is truncated in its encryption header",
            offset=0,
            expected=f"{ENCRYPTION_HEADER_SIZE} bytes",
            found=len(header),
        )
    version = header[len(ENCRYPTED_MAGIC)]
    if version != ENCRYPTION_VERSION:
        raise UnsupportedFeature(
            "unsupported encryption version", offset=len(ENCRYPTED_MAGIC), expected=ENCRYPTION_VERSION, found=version
        )
    try:
        fields = {one.type: one.value for one in ENCRYPTION_HEADER.parse(header[:ENCRYPTION_HEADER_SIZE]).fields}
    except BAD_BYTES as exc:
        raise BinlogFormatError("the encryption header is damaged", offset=0) from exc
    for number, name in ((_KEY_ID, "key_id"), (_PASSWORD, "encrypted_password"), (_IV, "iv")):
        if not fields.get(number):
            raise BinlogFormatError("a field is missing in the encryption header", offset=0, field=name)
    return EncryptionHeader(fields[_KEY_ID], fields[_PASSWORD], fields[_IV])


def build_encryption_header(header: EncryptionHeader) -> bytes:
    """Return the 512 bytes of an encryption header; the inverse of `parse_encryption_header`.

    Raises:
        BinlogFormatError: a value does not fit its field.
    """
    values = ((_KEY_ID, header.key_id), (_PASSWORD, header.encrypted_password), (_IV, header.iv), (0, None))
    try:
        return bytes(
            ENCRYPTION_HEADER.build({"fields": [{"type": number, "value": value} for number, value in values]})
        )
    except BAD_BYTES as exc:
        raise BinlogFormatError("a value does not fit the encryption header") from exc


@dataclass(frozen=True, slots=True)
class MysqlCipher:
    """Decrypts and encrypts one file, from any offset on.

    Offsets are in bytes from the start of the decrypted file: 0 is the magic number 0xfe "bin".
    """

    header: EncryptionHeader
    file_key: bytes = field(repr=False)
    nonce: bytes = field(repr=False)

    @classmethod
    def create(
        cls, key_id: str, master_key: bytes, *, password: bytes | None = None, iv: bytes | None = None
    ) -> MysqlCipher:
        """Return a cipher for a new file; `master_key` is the server's key with the id `key_id`.

        Password and IV are random unless given.

        Raises:
            MissingPackage: the package cryptography is not installed.
            BinlogFormatError: `master_key` has the wrong size.
        """
        password = secrets.token_bytes(_PASSWORD_SIZE) if password is None else password
        iv = secrets.token_bytes(_BLOCK_SIZE) if iv is None else iv
        encryptor = _cbc(_check_master_key(master_key, key_id), iv).encryptor()
        return cls.from_password(EncryptionHeader(key_id, encryptor.update(password), iv), password)

    @classmethod
    def from_password(cls, header: EncryptionHeader, password: bytes) -> MysqlCipher:
        """Return the cipher for a decrypted password; the key is EVP_BytesToKey with SHA-512, no salt, one round."""
        digest = hashlib.sha512(password).digest()
        return cls(header, digest[:32], digest[32 : 32 + _BLOCK_SIZE // 2])

    def decrypt(self, inner_offset: int, data: bytes) -> bytes:
        """Decrypt `data`, which begins at `inner_offset`.

        Raises:
            UnsupportedFeature: the bytes at offset 0 are not the magic number, because the key is wrong.
        """
        plain = self.encrypt(inner_offset, data)
        size = min(len(plain), len(BINLOG_MAGIC))
        if inner_offset == 0 and plain[:size] != BINLOG_MAGIC[:size]:
            raise UnsupportedFeature(
                f"key {self.header.key_id!r} of the keyring does not decrypt the file",
                offset=ENCRYPTION_HEADER_SIZE,
                hint="give the keyring of the server that wrote it",
            )
        return plain

    def encrypt(self, inner_offset: int, data: bytes) -> bytes:
        """Encrypt `data`, which begins at `inner_offset`. The counter of CTR is the number of the block."""
        block, skip = divmod(inner_offset, _BLOCK_SIZE)
        cipher = _ctr(self.file_key, self.nonce + block.to_bytes(_BLOCK_SIZE // 2, "big")).encryptor()
        cipher.update(bytes(skip))
        return cipher.update(data)


def open_mysql(header: bytes, keyring: Keyring) -> MysqlCipher:
    """Return the cipher of a file that begins with `header` (512 bytes or more).

    Raises:
        UnsupportedFeature: the keyring lacks the key, the package cryptography is not installed, or the
            version of the header is unknown.
        BinlogFormatError: the header is invalid, as in `parse_encryption_header`, or the key has the wrong size.
    """
    parsed = parse_encryption_header(header)
    key = keyring.keys.get(parsed.key_id) if isinstance(keyring, MysqlKeyring) else None
    if key is None:
        found = f"keys {sorted(keyring.keys)}" if isinstance(keyring, MysqlKeyring) else "a MariaDB keyring"
        raise UnsupportedFeature(
            f"the file is encrypted (binlog_encryption=ON) with key {parsed.key_id!r}, which is not in the keyring",
            offset=0,
            found=found,
            hint="give the keyring of the server that wrote it",
        )
    decryptor = _cbc(_check_master_key(key, parsed.key_id), parsed.iv).decryptor()
    return MysqlCipher.from_password(parsed, decryptor.update(parsed.encrypted_password))


def _check_master_key(key: bytes, key_id: str) -> bytes:
    if len(key) != _MASTER_KEY_SIZE:
        raise BinlogFormatError(
            f"key {key_id!r} has the wrong size for AES-256",
            expected=f"{_MASTER_KEY_SIZE} bytes",
            found=f"{len(key)} bytes",
        )
    return key


def mariadb_decryptor(event: StartEncryptionEvent, keyring: Keyring) -> Callable[[int, bytes], bytes]:
    """Return the function that decrypts the events after `event`.

    Its arguments are the offset of an event in the file and its encrypted bytes; it returns the plain bytes.

    Raises:
        UnsupportedFeature: the keyring lacks key 1, or the scheme is unknown. The returned function raises it if the
            key is wrong.
    """
    return _MariadbDecryptor(event, _mariadb_key(event, keyring))


def events_after_start(event: StartEncryptionEvent, keyring: Keyring | None) -> Callable[[int, bytes], bytes]:
    """Return the function that makes the events after `event` plain; the first one tells whether they are encrypted.

    It takes an offset (in the file) and the bytes of an event, and returns plain bytes.

    Raises:
        UnsupportedFeature: by the function, at the first event, if it is encrypted and there is no keyring; or as
            `mariadb_decryptor`.
    """
    chosen: Callable[[int, bytes], bytes] | None = None

    def plain(offset: int, data: bytes) -> bytes:
        nonlocal chosen
        if chosen is None:
            chosen = _plain_or_decrypted(event, keyring, offset, data)
        return chosen(offset, data)

    return plain


def _plain_or_decrypted(
    event: StartEncryptionEvent, keyring: Keyring | None, offset: int, data: bytes
) -> Callable[[int, bytes], bytes]:
    if is_plain_event(data, offset):
        return lambda _, data: data
    if keyring is None:
        raise UnsupportedFeature(
            "the events from this offset on are encrypted (MariaDB encrypt_binlog=ON)",
            offset=event.header.offset,
            event_type=EventType.START_ENCRYPTION_EVENT.name,
            hint=Hint.KEY_VERSION.about(event.key_version),
        )
    return mariadb_decryptor(event, keyring)


def is_plain_event(data: bytes, offset: int) -> bool:
    """Return whether the bytes of the first event after START_ENCRYPTION_EVENT are not encrypted."""
    return len(data) >= HEADER_SIZE and _sense(data, offset) == _IS_EVENT


def _mariadb_key(event: StartEncryptionEvent, keyring: Keyring) -> bytes:
    if event.scheme != MARIADB_SCHEME:
        raise UnsupportedFeature(
            "unsupported encryption scheme", field="scheme", expected=MARIADB_SCHEME, found=event.scheme
        )
    key = keyring.keys.get(MARIADB_BINLOG_KEY_ID) if isinstance(keyring, MariadbKeys) else None
    if key is None:
        found = f"keys {sorted(keyring.keys)}" if isinstance(keyring, MariadbKeys) else "a MySQL keyring"
        raise UnsupportedFeature(
            f"the events are encrypted (encrypt_binlog=ON) with key {_key_name(event)}, which is not in the keyring",
            found=found,
            hint="give the key file of the server that wrote it",
        )
    return key


class _MariadbDecryptor:
    """Decrypts single events.

    The log does not contain the mode, CBC or CTR (the server's file_key_management_encryption_algorithm). The mode is
    detected from the first event: only one of the two gives a valid event.
    """

    def __init__(self, event: StartEncryptionEvent, key: bytes) -> None:
        self._event = event
        self._key = key
        self._decrypt: Callable[[bytes, bytes, bytes], bytes] | None = None

    def __call__(self, offset: int, data: bytes) -> bytes:
        if len(data) < HEADER_SIZE:
            raise BinlogFormatError(
                "the encrypted event is shorter than an event header",
                offset=offset,
                expected=f"at least {HEADER_SIZE} bytes",
                found=f"{len(data)} bytes",
            )
        if self._decrypt is not None:
            return self._decrypt_event(self._decrypt, offset, data)
        tries = [(mode, self._decrypt_event(mode, offset, data)) for mode in (_decrypt_cbc, _ctr_bytes)]
        sense, mode, plain = max(
            ((_sense(plain, offset), mode, plain) for mode, plain in tries), key=lambda one: one[0]
        )
        if not sense:
            raise UnsupportedFeature(
                f"key {_key_name(self._event)} of the keyring does not decrypt the event",
                offset=offset,
                hint="give the key file of the server that wrote it",
            )
        self._decrypt = mode
        return plain

    def _decrypt_event(self, mode: Callable[[bytes, bytes, bytes], bytes], offset: int, data: bytes) -> bytes:
        """Decrypt an event.

        To encrypt an event, the server moves the timestamp to the place of the size, encrypts all bytes after the first
        four, moves four encrypted bytes to the front, and restores the size.
        """
        iv = self._event.nonce + (offset & 0xFFFFFFFF).to_bytes(4, "little")
        between = data[TIMESTAMP_BYTES.stop : EVENT_SIZE_BYTES.start]
        plain = mode(self._key, iv, between + data[TIMESTAMP_BYTES] + data[EVENT_SIZE_BYTES.stop :])
        moved = len(between)
        return plain[moved : moved + 4] + plain[:moved] + data[EVENT_SIZE_BYTES] + plain[moved + 4 :]


class MariadbEncryptor:
    """Encrypts single events, in CBC or CTR."""

    def __init__(self, event: StartEncryptionEvent, key: bytes, *, uses_ctr: bool) -> None:
        self._nonce = event.nonce
        self._key = key
        self._encrypt = _ctr_bytes if uses_ctr else _encrypt_cbc

    @classmethod
    def of(cls, event: StartEncryptionEvent, keyring: Keyring, *, uses_ctr: bool = False) -> MariadbEncryptor:
        """Return the encryptor of the events after `event`. Raises the errors of `mariadb_decryptor`."""
        return cls(event, _mariadb_key(event, keyring), uses_ctr=uses_ctr)

    def __call__(self, offset: int, data: bytes) -> bytes:
        """Encrypt an event at `offset` of the file."""
        iv = self._nonce + (offset & 0xFFFFFFFF).to_bytes(4, "little")
        between = data[TIMESTAMP_BYTES.stop : EVENT_SIZE_BYTES.start]
        moved = len(between)
        done = self._encrypt(self._key, iv, between + data[TIMESTAMP_BYTES] + data[EVENT_SIZE_BYTES.stop :])
        return done[moved : moved + 4] + done[:moved] + data[EVENT_SIZE_BYTES] + done[moved + 4 :]


def _sense(plain: bytes, offset: int) -> int:
    """Return 2 for a valid event, 1 for a possible event (of a relay log without checksums), 0 for random bytes."""
    header = parse_header(plain, offset)
    end = (offset + len(plain)) & 0xFFFFFFFF
    if header.log_pos == end or has_right_checksum(plain):
        return _IS_EVENT
    return int(isinstance(header.event_type, EventType) and not header.flags & ~_KNOWN_FLAGS)


def _decrypt_cbc(key: bytes, iv: bytes, data: bytes) -> bytes:
    """Decrypt with CBC, without padding.

    The last block, if incomplete, is combined with the encrypted IV, as the first block of CTR is.
    """
    whole = len(data) - len(data) % _BLOCK_SIZE
    plain = _cbc(key, iv).decryptor().update(data[:whole])
    return plain + _ctr_bytes(key, iv, data[whole:])


def _encrypt_cbc(key: bytes, iv: bytes, data: bytes) -> bytes:
    whole = len(data) - len(data) % _BLOCK_SIZE
    return _cbc(key, iv).encryptor().update(data[:whole]) + _ctr_bytes(key, iv, data[whole:])


def _ctr_bytes(key: bytes, iv: bytes, data: bytes) -> bytes:
    """Encrypt or decrypt with CTR; both are the same operation."""
    return _ctr(key, iv).decryptor().update(data)


def _key_name(event: StartEncryptionEvent) -> str:
    return f"{MARIADB_BINLOG_KEY_ID} version {event.key_version}"


def _cbc(key: bytes, iv: bytes) -> Cipher[Any]:
    return _aes(key, "CBC", iv)


def _ctr(key: bytes, iv: bytes) -> Cipher[Any]:
    return _aes(key, "CTR", iv)


def _aes(key: bytes, mode: str, iv: bytes) -> Cipher[Any]:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415 - an optional dependency
    except ImportError as exc:
        raise MissingPackage("encrypted logs need the package cryptography", extra="encryption") from exc
    return Cipher(algorithms.AES(key), {"CBC": modes.CBC, "CTR": modes.CTR}[mode](iv))
