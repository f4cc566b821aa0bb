"""MariaDB servers read the encrypted logs that the writer writes with their key."""

from __future__ import annotations

import shutil

import pytest

import binlogio
from binlogio import ServerVariables
from binlogio.events.mariadb import StartEncryptionEvent
from judged_types import READABLE, write_types
from real_servers import KINDS, vendor

pytestmark = [pytest.mark.server, pytest.mark.slow]
KEY = "1;000102030405060708090a0b0c0d0e0f\n"


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize(("checksum", "algorithm"), [("CRC32", "AES_CBC"), ("NONE", "AES_CBC"), ("CRC32", "AES_CTR")])
def test_mariadb_lists_the_events_of_our_encrypted_log(kind: str, checksum: str, algorithm: str) -> None:
    """In the place of a log of its own, which it has closed."""
    mariadb = vendor(kind)
    if not (mariadb.root / "usr/lib/mysql/plugin/file_key_management.so").exists():
        pytest.skip("the server has no file_key_management.so")
    types = tuple(typed for typed in READABLE if not typed.only_mysql)
    variables = ServerVariables(
        server_version="10.11.18-MariaDB",
        encrypt_binlog=True,
        binlog_checksum=checksum,
        file_key_management_encryption_algorithm=algorithm,
    )
    with mariadb.folder("encrypted") as folder:
        keys = folder / "keys.txt"
        keys.write_text(KEY)
        keys.chmod(0o644)
        options = (
            "--plugin-load-add=file_key_management", f"--file-key-management-filename={mariadb.inside(keys)}",
            "--encrypt-binlog=ON", f"--file-key-management-encryption-algorithm={algorithm.lower()}",
        )  # fmt: skip
        with mariadb.server("encrypted", *options) as server:
            server.sql("FLUSH BINARY LOGS")
            log = write_types(folder / "binlog", variables, types, mariadb=True, keyring=KEY)
            shutil.copyfile(log, server.data / "binlog.000001")
            listed = server.sql("SHOW BINLOG EVENTS IN 'binlog.000001'").splitlines()
        with binlogio.open(log, keyring=KEY) as reader:
            events = list(reader)

    assert sum(isinstance(event, StartEncryptionEvent) for event in events) == 1
    assert [int(line.split("\t")[1]) for line in listed] == [event.header.offset for event in events]
