"""The identity of the server of existing logs, which a writer keeps: server_uuid, server_id, gtid_domain_id."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pytest

from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.gtid import Gtid, GtidSet
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.storage import find_logs
from binlogio.storage.keyring import Keyring, MariadbKeys, MysqlKeyring
from binlogio.writer import BinlogWriter
from corpus import MARIADB, MYSQL
from memory_storage import MemoryStorage
from written_logs import UUID, insert

if TYPE_CHECKING:
    from pathlib import Path

OWN: Final = "binlog.auto.cnf"
OTHER: Final = "6d1b2c9a-5b0e-11f1-9d5e-0242ac110002"
MARIADB_VERSION: Final = "11.8.6-MariaDB"


def writer(storage: MemoryStorage, keyring: Keyring | None = None, **variables: Any) -> BinlogWriter:
    return BinlogWriter("binlog", variables=ServerVariables(**variables), storage=storage, keyring=keyring)


def write(storage: MemoryStorage, *, count: int = 1, gtid: str = "", **variables: Any) -> BinlogWriter:
    """Write transactions with GTIDs of the writer, then one with `gtid`; return the closed writer."""
    with writer(storage, **variables) as log, log.session() as session:
        for number in range(count):
            session.execute(insert(number))
        if gtid:
            session.set_variables(gtid_next=Gtid.parse(gtid))
            session.execute(insert(1000))
    return log


def uuids(log: BinlogWriter) -> list[str]:
    return sorted({str(tsid.uuid) for tsid, _ in log.gtid_executed})


def of_server(name: str) -> MemoryStorage:
    """Return the log of a real server, without files beside it."""
    log = MYSQL / name / "binlog.000001"
    files = {"binlog.index": b"./binlog.000001\n", "binlog.000001": log.read_bytes()}
    return MemoryStorage({key: bytearray(data) for key, data in files.items()})


def head_ids(storage: MemoryStorage) -> list[int]:
    """Return the server_id in the format description of each log."""
    found = []
    for stream in storage.streams():
        with open_logs(stream) as reader:
            found.append(next(iter(reader)).header.server_id)
    return found


@pytest.mark.parametrize("removed", [(), (OWN,)], ids=["file", "last log"])
def test_second_writer_has_the_uuid_and_the_id_of_the_first(removed: tuple[str, ...]) -> None:
    """A replica sees one source, whose GTIDs continue."""
    storage = MemoryStorage()
    first = write(storage, server_id=7)
    for name in removed:
        storage.remove(name)
    second = write(storage)

    assert second.server_uuid == first.server_uuid
    assert second.gtid_executed == GtidSet.parse(f"{first.server_uuid}:1-2")
    assert (second.variables.server_id, head_ids(storage)) == (7, [7, 7])
    assert storage.files[OWN] == f"[auto]\nserver-uuid={first.server_uuid}\nserver-id=7\n".encode()


@pytest.mark.parametrize("removed", [(), (OWN,)], ids=["file", "last log"])
def test_second_writer_of_mariadb_has_the_id_and_the_domain_of_the_first(removed: tuple[str, ...]) -> None:
    """MariaDB has no UUID; the domain of a session is not that of the server, if the file says so."""
    storage = MemoryStorage()
    with (
        writer(storage, server_version=MARIADB_VERSION, server_id=7, gtid_domain_id=3) as log,
        log.session() as session,
    ):
        session.execute(insert(1))
    for name in removed:
        storage.remove(name)
    second = write(storage, server_version=MARIADB_VERSION)

    assert [str(gtid) for gtid in second.gtid_binlog_state] == ["3-7-2"]
    assert storage.files[OWN] == b"[auto]\nserver-id=7\ngtid-domain-id=3\n"


@pytest.mark.parametrize(("first", "second"), [(MARIADB_VERSION, None), (None, MARIADB_VERSION)])
def test_logs_of_the_other_vendor_are_not_continued(first: str | None, second: str | None) -> None:
    """No file is changed."""
    versions: list[dict[str, Any]] = [
        {} if version is None else {"server_version": version} for version in (first, second)
    ]
    storage = MemoryStorage()
    write(storage, **versions[0])
    before = {name: bytes(data) for name, data in storage.files.items()}
    with pytest.raises(WriterStateError, match="the last log is one of the other vendor"):
        write(storage, **versions[1])

    assert {name: bytes(data) for name, data in storage.files.items()} == before


def test_domain_of_a_session_does_not_become_that_of_the_server() -> None:
    """The last transaction is of another domain than the server."""
    storage = MemoryStorage()
    with writer(storage, server_version=MARIADB_VERSION) as log, log.session() as session:
        session.set_variables(gtid_domain_id=9)
        session.execute(insert(1))
    second = write(storage, server_version=MARIADB_VERSION)

    assert [str(gtid) for gtid in second.gtid_binlog_state] == ["9-1-1", "0-1-1"]


def test_gtid_that_a_session_has_set_does_not_become_the_identity() -> None:
    """The last transaction has the server_id of this writer and the UUID of another server."""
    storage = MemoryStorage()
    first = write(storage, gtid=f"{OTHER}:77")
    second = write(storage)

    assert second.server_uuid == first.server_uuid
    assert second.gtid_executed == GtidSet.parse(f"{first.server_uuid}:1-2,{OTHER}:77")


def test_variables_that_are_given_replace_the_stored_identity() -> None:
    """As a server with new settings; the next writer has the new ones."""
    storage = MemoryStorage()
    first = write(storage, server_uuid=UUID, server_id=7)
    second = write(storage, server_uuid=OTHER, server_id=1)
    third = write(storage)

    assert second.identity.changes(second.stored_identity) == [
        f"server_uuid {OTHER} instead of {UUID}",
        "server_id 1 instead of 7",
    ]
    assert first.identity.changes(first.stored_identity) == third.identity.changes(third.stored_identity) == []
    assert [str(log.server_uuid) for log in (first, second, third)] == [UUID, OTHER, OTHER]
    assert head_ids(storage) == [7, 1, 1]


def test_logs_without_gtids_keep_the_uuid() -> None:
    """A later writer with GTIDs has it too."""
    storage = MemoryStorage()
    first = write(storage, gtid_mode="OFF")
    second = write(storage)

    assert uuids(second) == [str(first.server_uuid)]


def test_logs_of_two_basenames_have_an_identity_each() -> None:
    """Their GTIDs both begin at 1, so that one UUID for both would give two transactions the same GTID."""
    storage = MemoryStorage()
    first = write(storage)
    with BinlogWriter("other", storage=storage) as second, second.session() as session:
        session.execute(insert(1))

    assert first.server_uuid != second.server_uuid
    assert {OWN, "other.auto.cnf"} < set(storage.names())


@pytest.mark.parametrize("name", ["rotated", "compressed", "group_commit"])
def test_logs_of_a_server_are_continued_as_those_of_the_server(name: str) -> None:
    """Without its auto.cnf: UUID and id of its last transaction."""
    storage = of_server(name)
    with open_logs(storage.streams()) as reader:
        ids = {event.header.server_id for event in reader}
    before = write(storage, count=0)
    second = write(storage)

    assert len(uuids(before)) == 1
    assert uuids(second) == uuids(before)
    assert second.variables.server_id in ids


def test_auto_cnf_of_a_server_has_its_uuid() -> None:
    """It is an option file: comments, spaces and underscores are allowed. The file stays unchanged."""
    text = f"# a comment\n[mysqld]\nport=1\n[auto]\nserver_uuid = {OTHER}\n"
    storage = of_server("rotated")
    storage.files["auto.cnf"] = bytearray(text.encode())
    first = write(storage)
    alone = MemoryStorage({"auto.cnf": bytearray(text.encode())})

    assert str(first.server_uuid) == OTHER
    assert storage.files["auto.cnf"] == text.encode()
    assert str(write(alone).server_uuid) == OTHER


def test_auto_cnf_beside_logs_of_another_basename_does_not_count() -> None:
    """It is the identity of those logs, which have its first GTIDs."""
    storage = of_server("rotated")
    storage.files["auto.cnf"] = bytearray(f"[auto]\nserver-uuid={OTHER}\n".encode())

    assert str(BinlogWriter("other", storage=storage).server_uuid) != OTHER


def test_log_without_transactions_says_the_only_uuid_before_it() -> None:
    """All logs but the last one are purged, and no file says it."""
    storage = MemoryStorage()
    first = write(storage)
    with writer(storage) as log:
        log.purge(to=log.names[-1])
    storage.remove(OWN)

    assert writer(storage).server_uuid == first.server_uuid


def test_log_without_transactions_is_passed_over_for_the_one_before_it() -> None:
    """PREVIOUS_GTIDS has two UUIDs; the log before has a transaction of the writer after that of another server."""
    storage = MemoryStorage()
    first = write(storage, gtid=f"{OTHER}:77")
    write(storage)
    write(storage, count=0)
    storage.remove(OWN)

    assert writer(storage).server_uuid == first.server_uuid


def test_log_of_a_replica_does_not_say_its_uuid() -> None:
    """It only has transactions of its source, whose UUID would be that of a second server then."""
    storage = MemoryStorage()
    source = write(storage, server_id=7)
    storage.remove(OWN)
    log = storage.files["binlog.000001"]
    start, end = 4, 4 + int.from_bytes(log[13:17], "little")
    log[start + 5] = 8  # the server_id of the format description, not of the transaction
    log[end - 4 : end] = crc32(log[start : end - 4]).to_bytes(4, "little")

    assert writer(storage).server_uuid != source.server_uuid
    assert writer(storage).variables.server_id == 8


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("server-uuid", "no section headers"),
        ("[auto]\nserver-uuid=x\n", "found 'x'"),
        ("[auto]\nserver-uuid\n", "found ''"),
        (f"[auto]\nserver-uuid={UUID}\nserver-id=4294967296\n", "found '4294967296'"),
        (f"[auto]\nserver-uuid={UUID}\nserver-id=x\n", "found 'x'"),
        ("[auto]\nserver-uuid=\xff\n", "invalid start byte"),
    ],
)
@pytest.mark.parametrize("name", [OWN, "auto.cnf"])
def test_damaged_file_is_refused_with_what_to_do(text: str, found: str, name: str) -> None:
    """A new UUID would be a second server."""
    storage = MemoryStorage()
    write(storage)
    storage.remove(OWN)
    storage.files[name] = bytearray(text.encode("latin-1"))

    with pytest.raises(BinlogFormatError, match="identity of the server is damaged") as caught:
        writer(storage)
    assert caught.value.file == name
    assert found in str(caught.value)
    assert "remove it: the identity is then that of the last log" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[auto]\n", f"[auto]\nserver-uuid={OTHER}\n"])
def test_what_the_file_does_not_say_is_read_from_the_last_log(text: str) -> None:
    """As a server with an empty auto.cnf would make a new UUID."""
    storage = MemoryStorage()
    first = write(storage, server_id=7)
    storage.files[OWN] = bytearray(text.encode())
    log = writer(storage)

    assert str(log.server_uuid) == (OTHER if text.endswith(f"{OTHER}\n") else str(first.server_uuid))
    assert log.variables.server_id == 7


@pytest.mark.parametrize(
    ("variables", "keyring"),
    [
        ({"binlog_encryption": True}, MysqlKeyring({f"MySQLReplicationKey_{OTHER}_1": bytes(32)})),
        ({"encrypt_binlog": True, "server_version": MARIADB_VERSION}, MariadbKeys({1: bytes(16)})),
    ],
    ids=["mysql", "mariadb"],
)
def test_encrypted_logs_say_the_identity_too(variables: dict[str, Any], keyring: Keyring) -> None:
    """Without the file it is read with the keys."""
    storage = MemoryStorage()
    with writer(storage, keyring, server_id=7, **variables) as first, first.session() as session:
        session.execute(insert(1))
    storage.remove(OWN)
    second = writer(storage, keyring, **variables)

    assert second.identity == first.identity


def test_writer_that_was_created_before_another_one_wrote_is_refused() -> None:
    """Its new UUID would be a second server."""
    storage = MemoryStorage()
    late = writer(storage)
    write(storage)

    with pytest.raises(WriterStateError, match="create the writer again"):
        late.open()
    assert storage.locks == {}


def test_incomplete_file_of_a_crash_is_removed() -> None:
    """The file itself is replaced as a whole."""
    storage = MemoryStorage()
    write(storage)
    storage.files[f"{OWN}_crash_safe"] = bytearray(b"[au")
    write(storage)

    assert f"{OWN}_crash_safe" not in storage.files


def test_file_is_no_log_for_readers(tmp_path: Path) -> None:
    """In a directory, a glob, and a list from the shell's pattern `binlog.*`."""
    with BinlogWriter(tmp_path / "binlog"):
        pass
    shutil.copy(MARIADB / "format_row" / "binlog.000001", tmp_path / "other.000001")
    log = str(tmp_path / "binlog.000001")

    assert [one.name for one in find_logs(f"{tmp_path}/binlog.*")] == [log]
    assert [one.name for one in find_logs(sorted(map(str, tmp_path.glob("binlog.*"))))] == [log]
    assert [one.name for one in find_logs(str(tmp_path))] == [log, str(tmp_path / "other.000001")]
    assert (tmp_path / OWN).stat().st_mode & 0o137 == 0
