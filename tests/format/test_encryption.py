"""Encrypted binary logs: what the servers encrypted, decrypted; and what is said where a key is missing or wrong."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

import binlogio
from binlogio.constants import BINLOG_MAGIC, ENCRYPTED_MAGIC, EventType
from binlogio.errors import BadMagic, BinlogError, BinlogFormatError, TruncatedEvent, UnsupportedFeature
from binlogio.events.control import XidEvent
from binlogio.events.mariadb import StartEncryptionEvent
from binlogio.events.rows import RowsEvent
from binlogio.format.framing import END, EventFrame, EventFramer
from binlogio.storage.encryption import (
    ENCRYPTION_HEADER_SIZE,
    EncryptionHeader,
    Keyring,
    MysqlCipher,
    build_encryption_header,
    mariadb_decryptor,
    open_mysql,
    parse_encryption_header,
)
from binlogio.storage.keyring import MariadbKeys, MysqlKeyring, load_keyring
from binlogio_cli.main import cli
from corpus import FIXTURES
from logs import raw_events

if TYPE_CHECKING:
    from pathlib import Path

MYSQL = FIXTURES / "mysql97" / "encrypted"
MARIADB = FIXTURES / "mariadb1011" / "encrypted"
MYSQL_LOGS = ("binlog.000001", "binlog.000002", "binlog.000003")
KEY_ID = "MySQLReplicationKey_2c5dc166-e51d-11f1-9d2d-02fc00000001_2"

HEX_KEY = "00112233445566778899aabbccddeeff"
EVENT = StartEncryptionEvent(1, 1, bytes(range(12)))
PLAIN_SIZES = (19, 20, 21, 27, 35, 36, 37, 52, 100)


# ---------------------------------------------------------------------------------------------------------------- MySQL


@pytest.mark.parametrize("name", MYSQL_LOGS)
def test_mysql_file_decrypts_to_what_the_server_sent(name: str) -> None:
    """The keyring was kept after a rotation of the master key, which encrypted the headers of all files again."""
    encrypted = (MYSQL / name).read_bytes()
    cipher = open_mysql(encrypted[:ENCRYPTION_HEADER_SIZE], load_keyring(MYSQL / "keyring"))

    assert cipher.decrypt(0, encrypted[ENCRYPTION_HEADER_SIZE:]) == (MYSQL / f"{name}.decrypted").read_bytes()


def test_mysql_file_decrypts_from_any_offset_on() -> None:
    encrypted = (MYSQL / "binlog.000003").read_bytes()
    plain = (MYSQL / "binlog.000003.decrypted").read_bytes()
    cipher = open_mysql(encrypted, load_keyring(MYSQL / "keyring"))

    for at in range(len(plain) + 1):
        assert cipher.decrypt(at, encrypted[ENCRYPTION_HEADER_SIZE + at :][:40]) == plain[at : at + 40]


@pytest.mark.parametrize("name", MYSQL_LOGS)
def test_encryption_header_rebuilds_byte_for_byte(name: str) -> None:
    header = (MYSQL / name).read_bytes()[:ENCRYPTION_HEADER_SIZE]
    parsed = parse_encryption_header(header)

    assert parsed.key_id == KEY_ID
    assert build_encryption_header(parsed) == header


@given(st.binary(max_size=200), st.integers(0, 1 << 40))
def test_mysql_cipher_decrypts_what_it_encrypted(data: bytes, offset: int) -> None:
    cipher = MysqlCipher.create("key", bytes(range(32)))
    again = open_mysql(build_encryption_header(cipher.header), MysqlKeyring({"key": bytes(range(32))}))

    assert again.decrypt(0, cipher.encrypt(0, BINLOG_MAGIC + data)) == BINLOG_MAGIC + data
    assert again.decrypt(offset + 1, cipher.encrypt(offset + 1, data)) == data


def test_mysql_cipher_with_given_password_and_iv_writes_the_servers_file() -> None:
    """With the password of a real file the header and the bytes after it come out as the server wrote them."""
    encrypted = (MYSQL / "binlog.000002").read_bytes()
    keyring = MysqlKeyring.from_file(MYSQL / "keyring")
    parsed = parse_encryption_header(encrypted)
    aes = Cipher(algorithms.AES(keyring.keys[KEY_ID]), modes.CBC(parsed.iv)).decryptor()
    password = aes.update(parsed.encrypted_password)
    cipher = MysqlCipher.create(KEY_ID, keyring.keys[KEY_ID], password=password, iv=parsed.iv)
    plain = (MYSQL / "binlog.000002.decrypted").read_bytes()

    assert build_encryption_header(cipher.header) + cipher.encrypt(0, plain) == encrypted


@pytest.mark.parametrize("size", [0, 1, 3, 4])
def test_mysql_first_bytes_may_come_in_pieces(size: int) -> None:
    cipher = MysqlCipher.create("key", bytes(32))

    assert cipher.decrypt(0, cipher.encrypt(0, BINLOG_MAGIC)[:size]) == BINLOG_MAGIC[:size]


def test_mysql_key_that_the_keyring_lacks_is_named() -> None:
    header = (MYSQL / "binlog.000001").read_bytes()

    with pytest.raises(UnsupportedFeature, match=f"{KEY_ID}.*found keys \\['other'\\]"):
        open_mysql(header, MysqlKeyring({"other": bytes(32)}))
    with pytest.raises(UnsupportedFeature, match=f"{KEY_ID}.*found a MariaDB keyring"):
        open_mysql(header, MariadbKeys({1: bytes(32)}))


def test_mysql_wrong_key_is_named_at_the_first_bytes() -> None:
    encrypted = (MYSQL / "binlog.000001").read_bytes()
    cipher = open_mysql(encrypted, MysqlKeyring({KEY_ID: bytes(32)}))

    with pytest.raises(UnsupportedFeature, match=f"{KEY_ID}.*does not decrypt"):
        cipher.decrypt(0, encrypted[ENCRYPTION_HEADER_SIZE:])


def test_mysql_key_of_another_size_is_refused() -> None:
    header = (MYSQL / "binlog.000001").read_bytes()

    with pytest.raises(BinlogFormatError, match="expected 32 bytes, found 16 bytes"):
        open_mysql(header, MysqlKeyring({KEY_ID: bytes(16)}))


def test_encryption_header_cut_anywhere_is_refused() -> None:
    header = (MYSQL / "binlog.000001").read_bytes()[:ENCRYPTION_HEADER_SIZE]

    for size in range(ENCRYPTION_HEADER_SIZE):
        with pytest.raises(BadMagic if size < len(ENCRYPTED_MAGIC) else TruncatedEvent):
            parse_encryption_header(header[:size])


def test_encryption_header_of_another_version_is_unsupported() -> None:
    header = bytearray((MYSQL / "binlog.000001").read_bytes())
    header[4] = 2

    with pytest.raises(UnsupportedFeature, match="unsupported encryption version"):
        parse_encryption_header(bytes(header))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (b"\4", "damaged"),
        (b"\1\xff" + bytes(255) + (b"\2" + bytes(32)) * 8, "damaged"),
        (b"", "a field is missing"),
        (b"\1\0\2" + b"p" * 32 + b"\3" + b"i" * 16, "key_id: .*a field is missing"),
        (b"\1\1k\3" + b"i" * 16, "encrypted_password: .*a field is missing"),
        (b"\1\1k\2" + b"p" * 32, "iv: .*a field is missing"),
    ],
)
def test_damaged_encryption_header_is_refused(fields: bytes, message: str) -> None:
    header = (ENCRYPTED_MAGIC + b"\1" + fields).ljust(ENCRYPTION_HEADER_SIZE, b"\0")[:ENCRYPTION_HEADER_SIZE]

    with pytest.raises(BinlogFormatError, match=message):
        parse_encryption_header(header)


@pytest.mark.parametrize(
    "header", [EncryptionHeader("k" * 256, bytes(32), bytes(16)), EncryptionHeader("k", bytes(31), bytes(16))]
)
def test_encryption_header_that_does_not_fit_is_not_written(header: EncryptionHeader) -> None:
    with pytest.raises(BinlogFormatError, match="does not fit"):
        build_encryption_header(header)


@given(st.binary(max_size=ENCRYPTION_HEADER_SIZE))
def test_any_encryption_header_parses_or_raises_binlog_error(fields: bytes) -> None:
    header = (ENCRYPTED_MAGIC + b"\1" + fields).ljust(ENCRYPTION_HEADER_SIZE, b"\0")
    try:
        parsed = parse_encryption_header(header)
    except BinlogError:
        return

    assert parse_encryption_header(build_encryption_header(parsed)) == parsed


# -------------------------------------------------------------------------------------------------------------- MariaDB


def frames(data: bytes, keyring: Keyring) -> list[EventFrame]:
    framer = EventFramer(decryptor_for=lambda event: mariadb_decryptor(event, keyring))
    framer.feed(data)
    framer.finish()
    found = []
    while (frame := framer.next_frame()) is not END:
        assert isinstance(frame, EventFrame)
        found.append(frame)
    return found


def block(key: bytes, data: bytes) -> bytes:
    """Encrypt one block of AES."""
    # The other modes are built from ECB.
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(data)  # noqa: S305


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def encrypt_cbc(key: bytes, iv: bytes, data: bytes) -> bytes:
    """Encrypt with CBC, block by block; the last partial block is combined with the encrypted IV."""
    done, last = b"", iv
    whole = len(data) - len(data) % 16
    for at in range(0, whole, 16):
        last = block(key, xor(data[at : at + 16], last))
        done += last
    return done + xor(data[whole:], block(key, iv))


def encrypt_ctr(key: bytes, iv: bytes, data: bytes) -> bytes:
    """Encrypt with a counter of 128 bits, which begins at the IV."""
    first = int.from_bytes(iv, "big")
    stream = b"".join(block(key, ((first + n) % (1 << 128)).to_bytes(16, "big")) for n in range(len(data) // 16 + 1))
    return xor(data, stream)


MODES = {"cbc": encrypt_cbc, "ctr": encrypt_ctr}


def encrypt_event(mode: str, key: bytes, offset: int, plain: bytes) -> bytes:
    """Encrypt an event in the server's order: move the timestamp, encrypt from byte 4 on, move back, put the size."""
    event = bytearray(plain)
    event[9:13] = event[:4]
    iv = EVENT.nonce + (offset % (1 << 32)).to_bytes(4, "little")
    event[4:] = MODES[mode](key, iv, bytes(event[4:]))
    event[:4] = event[9:13]
    event[9:13] = len(plain).to_bytes(4, "little")
    return bytes(event)


def plain_event(offset: int, size: int, *, log_pos: int | None = None, flags: int = 0) -> bytes:
    end = (offset + size) % (1 << 32) if log_pos is None else log_pos
    header = (
        b"time" + bytes([EventType.XID_EVENT]) + b"\1\0\0\0" + size.to_bytes(4, "little") + end.to_bytes(4, "little")
    )
    return (header + flags.to_bytes(2, "little")).ljust(size, b"\xab")


def test_mariadb_events_decrypt_to_what_the_server_sent() -> None:
    """The server sent START_ENCRYPTION_EVENT, which is plain in both, with one more flag."""
    keyring = load_keyring(MARIADB / "keys.txt")
    encrypted = list(raw_events((MARIADB / "binlog.000001").read_bytes()))
    expected = list(raw_events((MARIADB / "binlog.000001.decrypted").read_bytes()))
    start = encrypted[1][1]
    decrypt = mariadb_decryptor(
        StartEncryptionEvent(start[19], int.from_bytes(start[20:24], "little"), start[24:36]), keyring
    )
    actual = [(offset, decrypt(offset, event)) for offset, event in encrypted[2:]]

    assert start[4] == EventType.START_ENCRYPTION_EVENT
    assert encrypted[0] == expected[0]
    assert actual == expected[2:]
    assert len(actual) == 17


@pytest.mark.parametrize("has_keys", [False, True])
@pytest.mark.parametrize("folder", [MARIADB, FIXTURES / "mariadb118" / "encrypted"], ids=["10.11", "11.8"])
def test_a_log_that_mariadb_binlog_has_decrypted_reads_without_keys(folder: Path, has_keys: bool) -> None:
    """`mariadb-binlog --raw` writes START_ENCRYPTION_EVENT, and then plain events; keys change nothing."""
    decrypted, keys = folder / "binlog.000001.decrypted", folder / "keys.txt"
    expected = binlogio.read_rows(folder / "binlog.000001", keyring=keys)
    with binlogio.open(decrypted, keyring=keys if has_keys else None) as reader:
        types = [event.header.type_code for event in reader]
    actual = binlogio.read_rows(decrypted, keyring=keys if has_keys else None)
    left_out = ["file"]

    assert types[:3] == [15, EventType.START_ENCRYPTION_EVENT, EventType.MARIADB_GTID_LIST_EVENT]
    assert types[-1] == EventType.ROTATE_EVENT
    assert pa.table(actual).drop_columns(left_out) == pa.table(expected).drop_columns(left_out)


def test_xids_of_rows_in_a_log_that_mariadb_binlog_has_decrypted_are_found() -> None:
    """The XID comes after the rows: the walk reads ahead, which it cannot do where events are encrypted."""
    log = MARIADB / "binlog.000001.decrypted"
    expected, xids = [], []
    for event in binlogio.open(log):
        if isinstance(event, RowsEvent):
            xids.append(event.header.offset)
        elif isinstance(event, XidEvent):
            expected += [(offset, event.xid) for offset in xids]
            xids = []
    rows = pa.table(binlogio.read_rows(log, source_columns=("xid",))).to_pylist()

    assert expected
    assert {(row["pos"], row["xid"]) for row in rows if row["xid"] is not None} == set(expected)


@pytest.mark.parametrize(
    "command",
    ["dump", "dump --format json", "dump --format sql", "info", "verify", "stats", "copy -o OUT", "repair -o OUT"],
)
def test_every_command_reads_a_log_that_mariadb_binlog_has_decrypted(command: str, tmp_path: Path) -> None:
    log = shutil.copy(MARIADB / "binlog.000001.decrypted", tmp_path / "binlog.000001")
    words = [str(tmp_path / "new.000001") if word == "OUT" else word for word in command.split()]
    done = CliRunner().invoke(cli, [*words, str(log)])

    assert (done.exit_code, "encrypted" in done.stdout) == (0, False), done.output


@pytest.mark.parametrize("size", [20, 300])
def test_rows_of_a_mariadb_log_in_use_end_in_a_torn_event(size: int, tmp_path: Path) -> None:
    """The first encrypted event is incomplete, or a later one: its header, which is encrypted, is not looked at."""
    data = bytearray((MARIADB / "binlog.000001").read_bytes())
    data[len(BINLOG_MAGIC) + 17] |= 1
    start = next(at + len(event) for at, event in raw_events(data) if event[4] == EventType.START_ENCRYPTION_EVENT)
    (tmp_path / "binlog.000001").write_bytes(data[: start + size])
    reader = binlogio.open(tmp_path / "binlog.000001", keyring=MARIADB / "keys.txt")

    assert list(binlogio.read_tables(tmp_path / "binlog.000001", keyring=MARIADB / "keys.txt")) == []
    assert list(reader)[-1].header.offset <= start + size
    assert reader.torn_tail is not None


def test_mariadb_file_reads_as_events_with_right_checksums() -> None:
    listed = json.loads((MARIADB / "events.json").read_text())["binlog.000001"]
    found = frames((MARIADB / "binlog.000001").read_bytes(), load_keyring(MARIADB / "keys.txt"))

    assert [(f.header.offset, f.end) for f in found] == [(one["pos"], one["end_pos"]) for one in listed]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("key_size", [16, 24, 32])
@pytest.mark.parametrize("offset", [256, (1 << 32) - 10, (1 << 33) + 7])
def test_mariadb_event_of_any_size_decrypts_in_either_mode(mode: str, key_size: int, offset: int) -> None:
    key = bytes(range(key_size))
    for size in PLAIN_SIZES:
        decrypt = mariadb_decryptor(EVENT, MariadbKeys({1: key}))
        plain = plain_event(offset, size)

        assert decrypt(offset, encrypt_event(mode, key, offset, plain)) == plain
        assert decrypt(offset, encrypt_event(mode, key, offset, plain)) == plain


@pytest.mark.parametrize("mode", MODES)
def test_mariadb_relay_log_without_checksums_decrypts(mode: str) -> None:
    """Its log_pos is that of another file, so only the type and the flags tell the key from another."""
    key = bytes.fromhex(HEX_KEY)
    plain = plain_event(300, 50, log_pos=77)

    assert mariadb_decryptor(EVENT, MariadbKeys({1: key}))(300, encrypt_event(mode, key, 300, plain)) == plain


def test_mariadb_key_that_the_keyring_lacks_is_named() -> None:
    event = StartEncryptionEvent(1, 7, bytes(12))

    with pytest.raises(UnsupportedFeature, match=r"key 1 version 7.*found keys \[2\]"):
        mariadb_decryptor(event, MariadbKeys({2: bytes(16)}))
    with pytest.raises(UnsupportedFeature, match=r"key 1 version 7.*found a MySQL keyring"):
        mariadb_decryptor(event, MysqlKeyring({"1": bytes(16)}))


def test_mariadb_wrong_key_is_named_at_the_first_event() -> None:
    with pytest.raises(UnsupportedFeature, match="at 296: key 1 version 1 of the keyring does not decrypt") as caught:
        frames((MARIADB / "binlog.000001").read_bytes(), MariadbKeys({1: bytes(16)}))

    assert caught.value.offset == 296


def test_mariadb_unknown_scheme_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeature, match="scheme"):
        mariadb_decryptor(StartEncryptionEvent(2, 1, bytes(12)), MariadbKeys({1: bytes(16)}))


@given(st.integers(0, 1 << 40), st.binary(max_size=80))
def test_any_encrypted_event_gives_bytes_of_its_size_or_binlog_error(offset: int, data: bytes) -> None:
    try:
        plain = mariadb_decryptor(EVENT, MariadbKeys({1: bytes(16)}))(offset, data)
    except BinlogError:
        return

    assert len(plain) == len(data)


# ------------------------------------------------------------------------------------------------- messages and secrets


def test_cipher_shows_no_key() -> None:
    cipher = MysqlCipher.create("key", bytes(32))

    assert "file_key" not in repr(cipher)
    assert "nonce" not in repr(cipher)
