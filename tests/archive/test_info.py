"""`log_infos` and `binlogio info`: heads and tails of real logs, GTIDs of neighbours, and few bytes read."""

from __future__ import annotations

import gzip
import json
from contextlib import ExitStack
from io import BytesIO, FileIO
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.archive import log_infos
from binlogio.constants import CHECKSUM_SIZE
from binlogio.events.gtid import GtidEvent, GtidTaggedEvent
from binlogio.gtid import GtidSet
from binlogio.options import ServerVariables
from binlogio.storage import LogFile, find_logs, load_keyring
from binlogio.writer import BinlogWriter, Statement, StatementFacts
from binlogio.writer.explain import TABLES
from binlogio.writer.rules.known_objects import table_access
from binlogio_cli.main import cli
from corpus import MARIADB118, MYSQL

if TYPE_CHECKING:
    from pathlib import Path

MOST_READ = 1 << 17  # bytes of a log
GIB = 1 << 30


class CountedFile(FileIO):
    """A file that counts the bytes that are read from it."""

    count = 0

    def readinto(self, buffer: Any) -> int:
        """Read into memory."""
        found = super().readinto(buffer)
        self.count += found or 0
        return found

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes."""
        data = super().read(-1 if size is None else size)
        self.count += len(data)
        return data


def test_the_gtids_of_a_log_are_those_that_the_next_one_has_before_it() -> None:
    folder = MYSQL / "gtid_on"
    with binlogio.open(folder / "binlog.000001") as reader:
        events = [event for event in reader if isinstance(event, (GtidEvent, GtidTaggedEvent))]
    logged = GtidSet.from_gtids(event.gtid for event in events)
    first, second = log_infos(find_logs(folder))

    assert (first.gtids, first.gtids_from) == (str(logged).replace("\n", ""), "next log")
    assert (first.ends_with, first.next_log) == ("rotate", "binlog.000002")
    assert second.gtids_before == first.gtids
    assert second.gtids is None  # its first and its last GTID have not the same tag
    assert (second.first_gtid or "").endswith(":10")


def test_gtids_of_mariadb_are_ranges_of_each_domain_and_server() -> None:
    first, second = log_infos(find_logs(MARIADB118 / "gtid"))

    assert first.gtids == "0-1-1..15,7-1-1,4294967295-99-1..18446744073709551000"
    assert (second.gtids, second.gtids_from) == ("0-1-16..17", "first and last group")
    assert (second.vendor, second.checksum) == ("mariadb", "CRC32")


def test_tables_and_all_gtids_need_a_pass() -> None:
    (info,) = log_infos(find_logs(MYSQL / "gtid_on" / "binlog.000002"), tables=True)

    assert info.gtids_from == "all groups"
    assert str(info.gtids).endswith(":10:tag:5")
    assert info.tables is not None
    assert info.groups is not None
    assert all(table.groups <= info.groups for table in info.tables)


@pytest.mark.parametrize(
    ("name", "state"),
    [("in_use/binlog.000001", True), ("crashed/binlog.truncated_body", True), ("stopped/binlog.000001", False)],
)
def test_a_log_in_use_has_a_last_event_too(name: str, state: bool) -> None:
    (info,) = log_infos([LogFile(str(MYSQL / name))])

    assert info.in_use is state
    assert info.last_gtid is not None
    assert info.ends_with == (None if state else "stop")


def cut_log(folder: Path, place: str, *, in_use: bool) -> Path:
    """Write a log that ends in the middle of the last transaction, of an event of it, or in other bytes."""
    source = MYSQL / "multi_table_stmt" / "binlog.000001"
    with binlogio.open(source) as reader:
        *_, (*_, last_event, end) = ([event.header for event in group] for group in reader.groups())
    data = bytearray(source.read_bytes())
    size = int.from_bytes(data[13:17], "little")
    data[21] = int(in_use)
    before = bytes(data[4 : size + 4])
    data[size : size + 4] = crc32(before[:17] + bytes(1) + before[18:-4]).to_bytes(4, "little")
    kept = {"group": data[: end.offset], "event": data[: last_event.offset + 30], "bytes": data + bytes(99)}[place]
    path = folder / "binlog.000001"
    path.write_bytes(kept)
    return path


@pytest.mark.parametrize("in_use", [False, True])
@pytest.mark.parametrize("place", ["group", "event", "bytes"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_is_cut_is_shown_as_verify_shows_it(tmp_path: Path, place: str, in_use: bool, packed: bool) -> None:
    """In a log in use it is no damage; the server writes its end, or will remove it."""
    path = cut_log(tmp_path, place, in_use=in_use)
    if packed:
        path.with_suffix(".000001.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        path = path.with_suffix(".000001.gz")
    verified = CliRunner().invoke(cli, ["verify", str(path)])
    result = CliRunner().invoke(cli, ["info", "--tables", str(path)])

    assert (result.exit_code, verified.exit_code) == (1 - in_use, 1 - in_use) if place != "bytes" else (1, 1)
    assert "closed" not in result.stdout.partition("state")[2] or place == "bytes"
    if place != "bytes":
        assert "incomplete" in result.stdout or "in the middle of an event" in result.stdout


def test_the_end_of_a_transaction_is_known_although_its_begin_is_far_before_it(tmp_path: Path) -> None:
    """A log without GTIDs whose last statement may be one of a transaction is read from its start."""
    variables = ServerVariables(binlog_format="STATEMENT", gtid_mode="OFF")
    facts = StatementFacts(tables=(table_access(TABLES[0], write=True),))
    with BinlogWriter(tmp_path / "binlog", variables=variables) as writer, writer.session("s") as session:
        session.begin()
        for _ in range(1000):
            session.execute(Statement("UPDATE t SET b = b + 1", facts=facts))
        session.commit()
    data = (tmp_path / "binlog.000001").read_bytes()
    (tmp_path / "binlog.000001").write_bytes(data[: data.rindex(b"UPDATE") + 22 + CHECKSUM_SIZE])
    (whole,) = log_infos([LogFile("log", len(data), stream=BytesIO(data))])
    (cut,) = log_infos([LogFile(str(tmp_path / "binlog.000001"))])

    assert len(data) > 1 << 16
    assert (whole.ends_with, whole.error, whole.incomplete) == ("stop", None, None)
    assert (cut.error or "").endswith("the log ends in an incomplete transaction")


def test_an_encrypted_log_is_shown_with_and_without_its_key() -> None:
    folder = MYSQL / "encrypted"
    (locked,) = log_infos([LogFile(str(folder / "binlog.000001"))])
    (opened,) = log_infos([LogFile(str(folder / "binlog.000001"))], load_keyring(folder / "keyring"))
    (events,) = log_infos([LogFile(str(MARIADB118 / "encrypted" / "binlog.000001"))])

    assert (locked.encryption, locked.vendor, locked.error) == ("file", None, None)
    assert (opened.encryption, opened.vendor) == ("file", "mysql")
    assert (events.encryption, events.vendor, events.error) == ("events", "mariadb", None)


def test_the_end_of_a_compressed_log_is_not_read_which_is_said(tmp_path: Path) -> None:
    data = (MYSQL / "rotated" / "binlog.000001").read_bytes()
    (tmp_path / "binlog.000001.gz").write_bytes(gzip.compress(data))
    (tmp_path / "binlog.000002").write_bytes((MYSQL / "rotated" / "binlog.000002").read_bytes())
    packed, plain = log_infos(find_logs(tmp_path))
    lines = CliRunner().invoke(cli, ["info", str(tmp_path)]).stdout.splitlines()

    assert (packed.end_read, plain.end_read) == (False, True)
    assert [line.partition("  state       ")[2] for line in lines if "  state " in line] == [
        "first log after a start of the server; closed (the end of the log was not read)",
        "closed, followed by binlog.000003",
    ]


def test_few_bytes_of_large_logs_are_read(tmp_path: Path) -> None:
    with ExitStack() as files:
        counted = [files.enter_context(CountedFile(_sparse_log(tmp_path, number), "rb")) for number in range(1, 21)]
        found = list(log_infos([LogFile(str(file.name), GIB, stream=file) for file in counted]))

    assert [info.next_log for info in found] == [f"binlog.{number:06d}" for number in range(2, 22)]
    assert {info.gtids_from for info in found[:-1]} == {"next log"}
    assert max(file.count for file in counted) < MOST_READ


def _sparse_log(folder: Path, number: int) -> Path:
    """Write a log of 1 GiB that has a head and a ROTATE at its end, and no bytes between them."""
    path = folder / f"binlog.{number:06d}"
    head = (MYSQL / "gtid_on" / "binlog.000001").read_bytes()[:1000]
    body = (4).to_bytes(8, "little") + f"binlog.{number + 1:06d}".encode()
    size = 19 + len(body) + 4
    header = bytes(4) + b"\x04" + (1).to_bytes(4, "little") + size.to_bytes(4, "little")
    rotate = header + GIB.to_bytes(4, "little") + bytes(2) + body
    with path.open("wb") as file:
        file.write(head)
        file.seek(GIB - size)
        file.write(rotate + crc32(rotate).to_bytes(4, "little"))
    return path


def test_a_file_that_is_no_log_has_an_error_and_the_others_are_shown(tmp_path: Path) -> None:
    (tmp_path / "binlog.000001").write_bytes((MYSQL / "rotated" / "binlog.000001").read_bytes())
    (tmp_path / "binlog.000002").write_bytes(b"")
    result = CliRunner().invoke(cli, ["info", "--json", str(tmp_path)])
    first, second = map(json.loads, result.stdout.splitlines())

    assert result.exit_code == 1
    assert (first["error"], first["vendor"]) == (None, "mysql")
    assert second["error"].endswith("binlog.000002: the log ends before the end of its format description")


def test_text_has_a_block_for_each_log() -> None:
    result = CliRunner().invoke(cli, ["info", "--tables", str(MYSQL / "rotated")])

    assert result.exit_code == 0
    assert result.stdout.count("server      MySQL 9.7") == len(find_logs(MYSQL / "rotated"))
    assert "closed, followed by binlog.000002" in result.stdout
