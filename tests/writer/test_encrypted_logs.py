"""Encrypted logs of both vendors: what the writer encrypts, readers decrypt, and a crash does not lose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from binlogio.constants import ENCRYPTED_MAGIC, EventType
from binlogio.errors import UnsupportedFeature
from binlogio.events import RowsEvent
from binlogio.events.mariadb import StartEncryptionEvent
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.storage.encryption import MariadbEncryptor
from binlogio.storage.keyring import Keyring, MariadbKeys, MysqlKeyring, load_keyring
from binlogio.writer import BinlogWriter
from binlogio_cli.main import cli
from corpus import MARIADB, MARIADB118
from memory_storage import MemoryStorage
from session_logs import T, insert
from written_logs import UUID

KEY_NAME: Final = f"MySQLReplicationKey_{UUID}_2"
MYSQL_KEYS: Final = MysqlKeyring({KEY_NAME.replace("_2", "_1"): bytes(32), KEY_NAME: bytes(range(32))})
MARIADB_KEYS: Final = MariadbKeys({1: bytes(range(16)), 2: bytes(32)})
VENDORS: Final[dict[str, tuple[dict[str, Any], Keyring]]] = {
    "9.7.0": ({"binlog_encryption": True}, MYSQL_KEYS),
    "8.0.14": ({"binlog_encryption": True}, MYSQL_KEYS),
    "11.8.6-MariaDB": ({"encrypt_binlog": True}, MARIADB_KEYS),
    "10.2.44-MariaDB": ({"encrypt_binlog": True, "binlog_checksum": "NONE"}, MARIADB_KEYS),
    "10.11.18-MariaDB": (
        {"encrypt_binlog": True, "file_key_management_encryption_algorithm": "AES_CTR"},
        MARIADB_KEYS,
    ),
}


def writer(storage: MemoryStorage, version: str, keyring: Keyring | None, **variables: Any) -> BinlogWriter:
    """Return a writer whose clock does not move."""
    settings = ServerVariables(server_version=version, server_uuid=UUID, **variables)
    return BinlogWriter(
        "binlog", variables=settings, clock=lambda: 1_700_000_000_000_000, storage=storage, keyring=keyring
    )


def fill(log: BinlogWriter, first: int) -> None:
    with log.session("shop") as session:
        for number in range(first, first + 3):
            session.execute(insert(T, number))


def events_of(storage: MemoryStorage, keyring: Keyring | None) -> list[Any]:
    with open_logs(storage.streams(), keyring=keyring) as reader:
        return list(reader)


def without_start(events: list[Any]) -> list[tuple[str, bytes | None]]:
    return [
        (type(event).__name__, getattr(event, "images", getattr(event, "sql", None)))
        for event in events
        if not isinstance(event, StartEncryptionEvent)
    ]


@pytest.mark.parametrize("version", VENDORS)
def test_an_encrypted_log_has_the_events_of_a_plain_one(version: str) -> None:
    """In two logs; the keyring is needed to read them."""
    asked, keyring = VENDORS[version]
    plain, encrypted = MemoryStorage(), MemoryStorage()
    for storage, keys, more in (plain, None, {}), (encrypted, keyring, asked):
        variables = {name: value for name, value in asked.items() if "encrypt" not in name} | more
        with writer(storage, version, keys, **variables) as log:
            fill(log, 1)
            log.rotate()
            fill(log, 4)
    found = events_of(encrypted, keyring)

    assert without_start(found) == without_start(events_of(plain, None))
    assert sum(isinstance(event, StartEncryptionEvent) for event in found) == (2 if "MariaDB" in version else 0)
    assert encrypted.files["binlog.000001"].startswith(ENCRYPTED_MAGIC) == ("MariaDB" not in version)
    assert not any(b"shop" in encrypted.files[name] for name in ("binlog.000001", "binlog.000002"))
    with pytest.raises(UnsupportedFeature, match="encrypted"):
        events_of(encrypted, None)


@pytest.mark.parametrize("lost", [0, 1, 30, 90])
@pytest.mark.parametrize("version", VENDORS)
def test_an_encrypted_log_is_recovered_after_a_crash(version: str, lost: int) -> None:
    """The unfinished group is cut; the GTIDs before it are known."""
    asked, keyring = VENDORS[version]
    storage = MemoryStorage()
    log = writer(storage, version, keyring, **asked)
    log.open()
    fill(log, 1)
    log.crash()
    if lost:
        del storage.files["binlog.000001"][-lost:]
    with writer(storage, version, keyring, **asked) as again:
        fill(again, 4)
    events = events_of(storage, keyring)
    rows = [event for event in events if type(event).__name__ == "WriteRowsEvent"]

    assert len(rows) == 3 - (lost > 0) + 3
    assert sum(type(event).__name__ == "XidEvent" for event in events) == len(rows)


@pytest.mark.parametrize("version", ["9.7.0", "11.8.6-MariaDB"])
def test_encryption_that_is_switched_off_leaves_the_logs_before_it_readable(version: str) -> None:
    asked, keyring = VENDORS[version]
    storage = MemoryStorage()
    for more in asked, {}, asked:
        with writer(storage, version, keyring, **more) as log:
            fill(log, 1)

    assert len(without_start(events_of(storage, keyring))) > 12
    assert b"shop" in storage.files["binlog.000002"]
    assert b"shop" not in storage.files["binlog.000003"]


@pytest.mark.parametrize(
    ("version", "variables", "message"),
    [
        ("9.7.0", {"binlog_encryption": True}, "without the keys"),
        ("11.8.6-MariaDB", {"encrypt_binlog": True}, "without the keys"),
        ("8.0.13", {"binlog_encryption": True}, r"from 8\.0\.14 on"),
        ("5.7.44", {"binlog_encryption": True}, r"from 8\.0\.14 on"),
        ("9.7.0", {"encrypt_binlog": True}, "encrypt_binlog with MariaDB"),
        ("10.0.38-MariaDB", {"encrypt_binlog": True}, r"from 10\.1\.7 on"),
    ],
)
def test_encryption_that_cannot_be_is_refused(version: str, variables: dict[str, Any], message: str) -> None:
    """A log that is plain in silence would be worse."""
    with pytest.raises(UnsupportedFeature, match=message):
        writer(MemoryStorage(), version, None, **variables)


@pytest.mark.parametrize(
    ("version", "keyring"),
    [("9.7.0", MysqlKeyring({"other": bytes(32)})), ("9.7.0", MARIADB_KEYS), ("11.8.6-MariaDB", MYSQL_KEYS)],
)
def test_a_keyring_without_a_key_for_logs_is_refused(version: str, keyring: Keyring) -> None:
    with pytest.raises(UnsupportedFeature, match="no key for binary logs"):
        writer(MemoryStorage(), version, keyring, **VENDORS[version][0])


@pytest.mark.parametrize("folder", [MARIADB / "encrypted", MARIADB118 / "encrypted"], ids=["10.11", "11.8"])
def test_mariadb_events_are_encrypted_as_by_the_server(folder: Any) -> None:
    """The nonce of the recorded file gives its bytes."""
    encrypted = (folder / "binlog.000001").read_bytes()
    plain = (folder / "binlog.000001.decrypted").read_bytes()
    start = 4 + int.from_bytes(encrypted[13:17], "little")
    assert encrypted[start + 4] == EventType.START_ENCRYPTION_EVENT
    at = start + int.from_bytes(encrypted[start + 9 : start + 13], "little")
    event = StartEncryptionEvent(1, 1, encrypted[start + 24 : start + 36])
    encrypt = MariadbEncryptor.of(event, load_keyring(folder / "keys.txt"))
    count = 0
    while at < len(encrypted):
        size = int.from_bytes(plain[at + 9 : at + 13], "little")
        assert encrypt(at, plain[at : at + size]) == encrypted[at : at + size]
        at, count = at + size, count + 1

    assert count > 10


def inserted(number: int) -> dict[str, Any]:
    changes = [{"insert": "s.t", "rows": [{"id": number}]}]
    return {"do": "execute", "schema": "s", "sql": f"INSERT INTO t VALUES ({number})", "changes": changes}


@pytest.mark.parametrize("version", ["9.7.4", "11.8.6-MariaDB"])
def test_scripts_write_encrypted_logs_through_a_crash(version: str, tmp_path: Path) -> None:
    """`after_bytes` counts the bytes of the transaction, not of the file's header."""
    asked, keyring = VENDORS["9.7.0" if version == "9.7.4" else version]
    keys = tmp_path / "keys"
    named = {str(name): key.hex() for name, key in keyring.keys.items()}
    keys.write_text(json.dumps(named) if "MariaDB" not in version else f"1;{named['1']}\n")
    lines: list[dict[str, Any]] = [
        {"do": "variables", "server_version": version, "server_uuid": UUID, **asked},
        {"do": "ddl", "sql": "CREATE TABLE s.t (id INT PRIMARY KEY)"},
        inserted(1),
        {"do": "begin"},
        inserted(2),
        {"do": "crash", "after_bytes": 100},
        inserted(3),
    ]
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(map(json.dumps, lines)))
    done = CliRunner().invoke(cli, ["write", str(script), "--out", str(tmp_path / "logs"), "--keyring", str(keys)])
    with open_logs(sorted((tmp_path / "logs").glob("binlog.0*")), keyring=str(keys)) as reader:
        found = [row.after for event in reader if isinstance(event, RowsEvent) for row in reader.rows(event)]

    assert done.exit_code == 0, done.output
    assert [image.values for image in found if image is not None] == [(1,), (3,)]
