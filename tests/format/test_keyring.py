"""Keyrings of both vendors: which is which, what is none, and that no key is ever shown."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.storage.encryption import (
    Keyring,
)
from binlogio.storage.keyring import MariadbKeys, MysqlKeyring, load_keyring
from corpus import FIXTURES

MYSQL = FIXTURES / "mysql97" / "encrypted"
MARIADB = FIXTURES / "mariadb1011" / "encrypted"
KEY_ID = "MySQLReplicationKey_2c5dc166-e51d-11f1-9d2d-02fc00000001_2"
HEX_KEY = "00112233445566778899aabbccddeeff"


def element(**changes: object) -> dict[str, object]:
    return {"user": "", "data_id": "k", "data_type": "AES", "data": HEX_KEY, "extension": []} | changes


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"k": HEX_KEY}, MysqlKeyring({"k": bytes.fromhex(HEX_KEY)})),
        ({"k": b"raw"}, MysqlKeyring({"k": b"raw"})),
        ('{"k": "00ff"}', MysqlKeyring({"k": b"\0\xff"})),
        ({"version": "1.0", "elements": [element()]}, MysqlKeyring({"k": bytes.fromhex(HEX_KEY)})),
        (json.dumps({"elements": [element(data="0a"), element(user="bob")]}), MysqlKeyring({"k": b"\n"})),
        ({1: HEX_KEY}, MariadbKeys({1: bytes.fromhex(HEX_KEY)})),
        ({"1": HEX_KEY}, MariadbKeys({1: bytes.fromhex(HEX_KEY)})),
        (f"1;{HEX_KEY}", MariadbKeys({1: bytes.fromhex(HEX_KEY)})),
        (f"# a comment\n\n \t# another\n 1;{HEX_KEY} and more\r\n", MariadbKeys({1: bytes.fromhex(HEX_KEY)})),
        (f"1;{'00' * 16}\n1;{HEX_KEY.upper()}\n", MariadbKeys({1: bytes.fromhex(HEX_KEY)})),
        (MysqlKeyring({}), MysqlKeyring({})),
        (MariadbKeys({}), MariadbKeys({})),
    ],
)
def test_keyring_of_either_vendor_is_recognised(source: Any, expected: Keyring) -> None:
    assert load_keyring(source) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "not a valid keyring"),
        ("{}", "not a valid keyring"),
        ("{", "not a valid keyring"),
        ('{"k": ' + "[" * 100_000, "not a valid keyring"),
        ({"elements": 7}, "elements: not a valid keyring"),
        ({"elements": [7]}, r"elements\[0\].data_id"),
        ({"elements": [element(), {}]}, r"elements\[1\].data_id"),
        ({"elements": [element(data="0x")]}, "key k: .*not hexadecimal"),
        ({"elements": [element(data=None)]}, "key k: .*not hexadecimal"),
        ({"k": "secret"}, "key k: .*not hexadecimal"),
        ({1: "00"}, "key 1: .*expected 16, 24 or 32 bytes, found 1 bytes"),
        (f"1;{HEX_KEY}0", "line 1: "),
        (f"#\n1;{HEX_KEY}\nx", "line 3: "),
        ("#\n#\n", "not a valid keyring"),
        ("1;", "line 1: "),
    ],
)
def test_what_is_no_keyring_is_refused(source: Any, message: str) -> None:
    with pytest.raises(BinlogFormatError, match=message):
        load_keyring(source)


def test_mariadb_mapping_with_names_is_refused() -> None:
    with pytest.raises(BinlogFormatError, match=r"the key id is not a number.*found k"):
        MariadbKeys.from_mapping({"k": HEX_KEY})


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"\xff\xfe", BinlogFormatError, "not a valid keyring"),
        (b"", BinlogFormatError, "not a valid keyring"),
        (b"#" * ((1 << 24) + 1), BinlogFormatError, "not a valid keyring"),
        (b"\xfebin", BinlogFormatError, "not a valid keyring"),
        (b"Salted__12345678", UnsupportedFeature, "openssl"),
        (b"Keyring file version:2.0EOF", UnsupportedFeature, "mysql_migrate_keyring"),
    ],
)
def test_file_that_is_no_keyring_is_named(tmp_path: Path, data: bytes, error: type[BinlogError], message: str) -> None:
    path = tmp_path / "keyring"
    path.write_bytes(data)

    with pytest.raises(error, match=message) as caught:
        load_keyring(path)
    assert caught.value.file == str(path)


def test_keyring_that_does_not_exist_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_keyring(str(tmp_path / "nothing"))


def test_keyring_of_the_other_vendor_is_refused() -> None:
    assert MysqlKeyring.from_file(MYSQL / "keyring").keys.keys() >= {KEY_ID}
    assert MariadbKeys.from_file(MARIADB / "keys.txt").keys.keys() == {1, 2}
    with pytest.raises(BinlogFormatError, match="found a MariaDB keyring"):
        MysqlKeyring.from_file(MARIADB / "keys.txt")
    with pytest.raises(BinlogFormatError, match="found a MySQL keyring"):
        MariadbKeys.from_file(MYSQL / "keyring")


@pytest.mark.parametrize("keyring", [MysqlKeyring({"k": b"secret"}), MariadbKeys({1: b"secret"})])
def test_keyring_shows_no_key_and_survives_pickling(keyring: Keyring) -> None:
    assert "secret" not in repr(keyring)
    assert pickle.loads(pickle.dumps(keyring)) == keyring  # noqa: S301 - our own bytes


@pytest.mark.parametrize("source", ['{"k": "5e c4 e7"', '{"k": "5ec4e7zz"}', "1;5ec4e7", "1;5ec4e7 5ec4e7\n?"])
def test_error_about_a_keyring_shows_no_key(source: str) -> None:
    with pytest.raises(BinlogFormatError) as caught:
        load_keyring(source)

    chain = [caught.value, caught.value.__cause__]
    assert not any("5ec4e7" in f"{exc} {exc!r} {exc.args} {vars(exc)}" for exc in chain if exc is not None)


@given(st.text())
def test_any_text_is_a_keyring_or_raises_binlog_error(text: str) -> None:
    for source in ("{" + text, "1;" + text, "#\n" + text):
        try:
            keyring = load_keyring(source)
        except BinlogError:
            continue

        assert keyring.keys
