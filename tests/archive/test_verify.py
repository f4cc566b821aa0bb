"""`verify_logs` and `binlogio verify`: real archives are fine, and each kind of damage and gap is found and passed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.archive import verify_logs
from binlogio.archive.observer import Damage
from binlogio.archive.survey import FIELD, IS_ENDED, ArchiveSurvey
from binlogio.archive.verify import DAMAGE, FineRange
from binlogio.columnar import EventSelection, read_transactions
from binlogio.constants import EventType
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.options import Limits
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.storage import LogFile, load_keyring
from binlogio.writer import Insert, Statement
from binlogio_cli.main import cli
from corpus import MARIADB, MARIADB118, MYSQL
from gtid_cases import TODAY
from logs import IN_USE_AT, header, log, query, raw_events, reading_stops_at, spoilt_event, with_checksum
from memory_storage import MemoryStorage
from written_logs import writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from binlogio.archive import LogReport
    from binlogio.events import BinlogEvent
    from binlogio.format.framing import EventFrame
    from binlogio.series.gtid_history import GtidRun

_DAMAGED = ("crashed", "encrypted")
FINE = sorted(
    log
    for server in (MYSQL, MARIADB, MARIADB118)
    for log in server.glob("*/binlog.00000?")
    if log.parent.name not in _DAMAGED
)
ROTATED = MYSQL / "rotated"
GTIDS = MYSQL / "gtid_on"


def archive(folder: Path, source: Path) -> Path:
    """Copy the logs of a case without their index."""
    for one in source.glob("binlog.00000?"):
        shutil.copy(one, folder)
    return folder


def messages(reports: Iterator[LogReport] | list[LogReport], level: str) -> list[str]:
    return [found.message for report in reports for found in report.findings if found.level == level]


class Groups:
    """Keeps the records of groups."""

    def __init__(self) -> None:
        self.found: list[NDArray[np.int64]] = []

    def format(self, frame: EventFrame) -> None:
        """Take the format description."""

    def event(self, event: BinlogEvent) -> None:
        """Take an event."""

    def damage(self, found: Damage) -> None:
        """Fail."""
        raise AssertionError(found)

    def problem(self, name: str, offset: int, value: int) -> None:
        """Fail."""
        raise AssertionError((name, offset, value))

    def gtids(self, ended: int, runs: Sequence[GtidRun]) -> None:
        """Pass over the GTIDs."""

    def groups(self, records: NDArray[np.int64], window: memoryview, begin: int) -> None:
        """Keep the records."""
        self.found.append(records.copy())


@pytest.mark.parametrize(
    "log",
    [log for log in FINE if log.parent.name != "types_old_temporal"],  # its rows need table definitions
    ids=lambda log: f"{log.parents[1].name}/{log.parent.name}/{log.name}",
)
def test_groups_of_the_survey_are_those_of_the_transaction_records(log: Path) -> None:
    groups = Groups()
    ArchiveSurvey(None, counts=True).walk(LogFile(str(log)), groups)
    records = np.concatenate(groups.found or [np.empty((0, len(FIELD)), np.int64)])
    expected = [
        (row["pos"], row["end_pos"], row["outcome"] != "unfinished", row["inserts"], row["updates"], row["deletes"])
        for batch in read_transactions(LogFile(str(log)), None, EventSelection())
        for row in batch.to_pylist()
    ]
    columns = [records[:, FIELD[name]].tolist() for name in ("begin", "end", "inserts", "updates", "deletes")]
    ended = (records[:, FIELD["flags"]] & IS_ENDED != 0).tolist()

    assert list(zip(columns[0], columns[1], ended, *columns[2:], strict=True)) == expected


@pytest.mark.parametrize("log", FINE, ids=lambda log: f"{log.parents[1].name}/{log.parent.name}/{log.name}")
def test_a_log_of_a_server_is_fine(log: Path) -> None:
    report, *_ = verify_logs([log])  # without the next log, some GTIDs are missing

    assert [found for found in report.findings if found.level != "note"] == []
    assert report.fine[0].begin == 0
    assert report.size == log.stat().st_size


@pytest.mark.parametrize(("server", "keys"), [(MYSQL, "keyring"), (MARIADB118, "keys.txt")])
def test_encrypted_logs_are_checked_with_their_keys(server: Path, keys: str) -> None:
    folder = server / "encrypted"
    logs = sorted(folder.glob("binlog.00000?"))
    locked, opened = list(verify_logs(logs)), list(verify_logs(logs, load_keyring(folder / keys)))

    assert messages(opened, "damage") == []
    assert sum(report.groups for report in opened) > 0
    assert "encrypted" in messages(locked, "problem")[0]
    assert messages(locked, "damage") == []


@settings(max_examples=40)
@given(st.data())
def test_a_changed_byte_is_found_and_the_rest_is_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = GTIDS / "binlog.000001"
    plain = log.read_bytes()
    at = data.draw(st.integers(150, len(plain) - 1))
    path = tmp_path_factory.mktemp("changed") / log.name
    path.write_bytes(plain[:at] + bytes([plain[at] ^ data.draw(st.integers(1, 255))]) + plain[at + 1 :])
    (report, *_) = verify_logs([path])
    damages = [found for found in report.findings if found.level == "damage"]
    with binlogio.open(log) as reader:
        begin, end = next(
            (event.header.offset, event.header.offset + event.header.event_size)
            for event in reader
            if event.header.offset <= at < event.header.offset + event.header.event_size
        )

    assert [(found.offset, found.end) for found in damages] == [(begin, end)]
    assert sum(one.end - one.begin for one in report.fine) == len(plain) - (end - begin)


@settings(max_examples=40)
@given(st.binary(max_size=300), st.integers(130, 5000), st.integers(0, 400))
def test_any_bytes_are_passed(tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int, lost: int) -> None:
    plain = (GTIDS / "binlog.000001").read_bytes()
    path = tmp_path_factory.mktemp("junk") / "binlog.000001"
    path.write_bytes(plain[:at] + junk + plain[at + lost :])
    (report, *_) = verify_logs([path])

    ranges = sorted(
        [(one.begin, one.end) for one in report.fine]
        + [(found.offset or 0, found.end) for found in report.findings if found.end is not None]
    )
    assert ranges[0][0] == 0
    assert ranges[-1][1] == path.stat().st_size


def test_a_log_without_checksums_continues_after_damage(tmp_path: Path) -> None:
    plain = (MYSQL / "checksum_none" / "binlog.000001").read_bytes()
    with binlogio.open(MYSQL / "checksum_none") as reader:
        offsets = [event.header.offset for event in reader]
    begin, end = offsets[4], offsets[6]
    (tmp_path / "binlog.000001").write_bytes(plain[:begin] + b"\x07" * (end - begin) + plain[end:])
    (report, *_) = verify_logs([tmp_path])

    assert [(found.offset, found.end) for found in report.findings if found.end] == [(begin, end)]
    assert report.fine[-1].groups > 0


def test_a_missing_log_is_found_by_its_number_by_rotate_and_by_gtids(tmp_path: Path) -> None:
    (archive(tmp_path, ROTATED) / "binlog.000002").unlink()
    (tmp_path / "binlog.index").write_text("./binlog.000001\n./binlog.000002\n./binlog.000003\n")
    found = messages(verify_logs([tmp_path]), "problem")

    assert found[0] == "the index file lists binlog.000002, which is not there"
    assert found[1] == "logs are missing before this one: number 2"
    assert found[2].startswith("PREVIOUS_GTIDS has GTIDs that no log before has: ")
    assert found[2].endswith(":4-5")


def test_a_log_of_another_server_among_them_is_found(tmp_path: Path) -> None:
    archive(tmp_path, ROTATED)
    shutil.copy(ROTATED / "binlog.000001", tmp_path / "binlog.000002")
    found = messages(verify_logs([tmp_path]), "problem")

    assert any(message.startswith("PREVIOUS_GTIDS lacks GTIDs that logs before have: ") for message in found)
    assert any(message.startswith("GTIDs are logged twice: ") for message in found)


def test_a_log_of_the_other_vendor_among_them_is_found(tmp_path: Path) -> None:
    archive(tmp_path, MYSQL / "rowimage_full")
    shutil.copy(MARIADB118 / "group_commit" / "binlog.000001", tmp_path / "binlog.000002")
    found = messages(verify_logs([tmp_path]), "problem")

    assert any(message.startswith("the log is of a server 11.8.") for message in found)


def test_gtid_lists_of_mariadb_are_compared(tmp_path: Path) -> None:
    archive(tmp_path, MARIADB118 / "gtid")
    assert messages(verify_logs([tmp_path]), "problem") == []

    log = tmp_path / "binlog.000001"
    plain = log.read_bytes()
    with binlogio.open(log) as reader:
        begins = [group.begin for group in reader.groups()]
    log.write_bytes(_without(plain, begins[-1], plain.rindex(b"binlog.000002") - 27))
    (message,) = messages(verify_logs([tmp_path]), "problem")

    assert message.startswith("GTID_LIST has ")


def _move(data: bytearray, at: int) -> None:
    """Give the event at `at` the log_pos and the checksum of its place."""
    size = int.from_bytes(data[at + 9 : at + 13], "little")
    data[at + 13 : at + 17] = (at + size).to_bytes(4, "little")
    data[at + size - 4 : at + size] = crc32(data[at : at + size - 4]).to_bytes(4, "little")


def _without(plain: bytes, begin: int, end: int) -> bytes:
    """Return a log without some of its events, in which all other events are right."""
    data = bytearray(plain[:begin] + plain[end:])
    _move_all(data, begin)
    return bytes(data)


def _move_all(data: bytearray, at: int) -> None:
    """Give all events from `at` on the log_pos and the checksum of their places."""
    while at < len(data):
        _move(data, at)
        at += int.from_bytes(data[at + 9 : at + 13], "little")


@pytest.mark.parametrize(
    ("type_name", "message"),
    [
        ("TABLE_MAP_EVENT", "no table map defines table id"),
        ("XID_EVENT", "has ended"),
        ("GTID_LOG_EVENT", "PREVIOUS_GTIDS has GTIDs that no log before has"),
    ],
)
def test_an_event_that_is_left_out_breaks_the_grammar(tmp_path: Path, type_name: str, message: str) -> None:
    archive(tmp_path, ROTATED)
    log = tmp_path / "binlog.000001"
    with binlogio.open(log) as reader:
        events = [event.header for event in reader]
    header = next(one for one in events if getattr(one.event_type, "name", "") == type_name)
    log.write_bytes(_without(log.read_bytes(), header.offset, header.offset + header.event_size))
    reports = list(verify_logs([tmp_path]))

    assert any(message in one for level in ("damage", "problem") for one in messages(reports, level))


@pytest.mark.parametrize(
    ("source", "in_use", "level"), [(GTIDS, False, "problem"), (GTIDS, True, "note"), (MARIADB / "gtid", False, "note")]
)
def test_gtids_that_no_log_has_are_a_problem_in_a_closed_log_of_mysql(
    tmp_path: Path, source: Path, in_use: bool, level: str
) -> None:
    """Servers of MariaDB leave numbers out, and the GTIDs may follow in a log in use."""
    log = tmp_path / "binlog.000001"
    plain = (source / log.name).read_bytes()
    with binlogio.open(source / log.name) as reader:
        (begin, gtid), (end, _) = [(group.begin, group.gtid) for group in reader.groups()][1:3]
    data = bytearray(_without(plain, begin, end))
    data[IN_USE_AT] |= in_use
    log.write_bytes(data)
    *_, report = verify_logs([log], headers_only=True)
    result = CliRunner().invoke(cli, ["verify", str(log)])

    assert any(str(gtid) in found.message for found in report.findings if found.level == level)
    assert (result.exit_code, "1 of 1 fine" in result.stdout) == (int(level == "problem"), True)


def test_gtids_that_the_head_of_a_later_log_lacks_are_a_note() -> None:
    """The server has skipped them."""
    *_, report = verify_logs([GTIDS])

    assert [(found.level, found.message) for found in report.findings] == [
        ("note", "GTIDs that no log has: 11111111-2222-3333-4444-555555555555:11")
    ]
    assert report.is_fine


@pytest.mark.parametrize("headers_only", [False, True])
@pytest.mark.parametrize("flip", [False, True])
def test_an_event_larger_than_memory_allows_is_checked_in_parts(tmp_path: Path, flip: bool, headers_only: bool) -> None:
    log = ROTATED / "binlog.000001"
    plain = log.read_bytes()
    with binlogio.open(log) as reader:
        at = next(event.header.offset for event in reader if isinstance(event, TableMapEvent))
    size = 65 << 20
    header = bytes(4) + bytes([EventType.ROWS_QUERY_LOG_EVENT, 1, 0, 0, 0]) + size.to_bytes(4, "little") + bytes(6)
    data = bytearray(plain[:at] + header + bytes(size - len(header)) + plain[at:])
    _move_all(data, at)
    data[at + (size >> 1)] ^= flip
    path = tmp_path / log.name
    path.write_bytes(data)
    (report,) = verify_logs([path], headers_only=headers_only)

    assert [(found.offset, found.end) for found in report.findings] == ([(at, at + size)] if flip else [])
    assert report.size == len(data)


def test_the_rows_of_a_large_event_are_read_in_parts(tmp_path: Path) -> None:
    """If its value is a byte longer than the event, its group does not count, and the group after it is read."""
    storage, size = MemoryStorage(), 65 << 20
    table = TableDefinition("shop", "b", (ColumnDefinition("data", "longblob"),))
    with writer(storage) as log:
        session = log.session()
        for data in (b"", bytes(size), b""):
            session.execute(Statement("", [Insert(table, [{"data": data}])]))
    path = tmp_path / "binlog.000001"
    plain = bytearray(storage.streams()[0].read())
    path.write_bytes(plain)
    (good,) = verify_logs([path])
    begin, event = next((at, event) for at, event in raw_events(plain) if len(event) > size)
    end = begin + len(event)
    plain[begin:end] = with_checksum(event.replace(size.to_bytes(4, "little"), (size + 1).to_bytes(4, "little"), 1))
    path.write_bytes(plain)
    (bad,) = verify_logs([path])

    assert (good.findings, good.fine) == ((), (FineRange(0, len(plain), 3),))
    assert [(found.offset, found.end) for found in bad.findings] == [(begin, end)]
    assert bad.fine == (FineRange(0, begin, 1), FineRange(end, len(plain), 1))


def test_a_compressed_transaction_may_open_to_more_than_the_limit_of_an_event() -> None:
    with binlogio.open(MYSQL / "compressed") as reader:
        event = next(event for event in reader if isinstance(event, TransactionPayloadEvent))
        survey, limits = ArchiveSurvey(None, counts=False), Limits(opened_size=event.uncompressed_size - 1)
        survey.begin_format(reader.context, has_positions=True)
        survey.payload(event, replace(reader.context, limits=limits))

    assert survey.kernel.take_problems() == []


UNREADABLE = [
    (MYSQL / "compressed", EventType.TRANSACTION_PAYLOAD_EVENT),
    (MARIADB / "compressed", EventType.WRITE_ROWS_COMPRESSED_EVENT_V1),
    (MYSQL / "types_json", EventType.WRITE_ROWS_EVENT),
    (MARIADB118 / "format_statement", EventType.QUERY_EVENT),
]


@pytest.mark.parametrize(("folder", "code"), UNREADABLE, ids=lambda value: getattr(value, "name", None))
def test_an_event_that_cannot_be_read_is_damage(folder: Path, code: EventType, tmp_path: Path) -> None:
    """Its checksum is right. What comes before it is fine, and the groups after its own, too."""
    data, begin, end = spoilt_event(folder / "binlog.000001", code)
    (tmp_path / "binlog.000001").write_bytes(data)
    (good, *_), (bad, *_) = verify_logs([folder / "binlog.000001"]), verify_logs([tmp_path / "binlog.000001"])
    (found,) = (one for one in bad.findings if one.level == DAMAGE)

    assert good.is_fine
    assert found.offset == begin
    assert bad.fine[0].end == begin
    assert found.end == end
    assert bad.groups == good.groups - 1
    assert (bad.fine[-1].begin, bad.fine[-1].end) == (end, len(data))


def test_a_gtid_event_with_fields_of_a_later_server_is_fine(tmp_path: Path) -> None:
    """As for the reader, which keeps the bytes after the fields that it knows."""
    event = replace(TODAY, commit_group_ticket=3, trailing=b"new", header=header(EventType.GTID_LOG_EVENT))
    (tmp_path / "binlog.000001").write_bytes(log(event, query("CREATE TABLE t (a INT)")))
    (report, *_) = verify_logs([tmp_path / "binlog.000001"])

    assert report.is_fine
    assert report.groups == 1


def test_row_images_are_not_read_if_only_headers_are_checked(tmp_path: Path) -> None:
    data, *_ = spoilt_event(MYSQL / "types_json" / "binlog.000001", EventType.WRITE_ROWS_EVENT)
    log = tmp_path / "binlog.000001"
    log.write_bytes(data)
    (report,) = verify_logs([log], headers_only=True)
    text = CliRunner().invoke(cli, ["verify", "--headers-only", str(log)])
    line = CliRunner().invoke(cli, ["verify", "--headers-only", "--json", str(log)])

    assert report.is_fine
    assert report.unchecked == ("row images",)
    assert (text.exit_code, text.stdout.splitlines()[-1]) == (0, "row images were not checked")
    assert json.loads(line.stdout)["unchecked"] == ["row images"]
    assert CliRunner().invoke(cli, ["verify", str(log)]).exit_code == 1


def test_zero_bytes_at_the_end_of_a_log_in_use_are_a_note(tmp_path: Path) -> None:
    """Any number of them, as a crash leaves them; not if others follow, at which readers stop, too."""
    data = (MYSQL / "crashed" / "binlog.000001").read_bytes()
    for name, tail in (("few", bytes(40)), ("many", bytes(3 << 20)), ("junk", bytes(3 << 20) + b"\x07")):
        (tmp_path / name).write_bytes(data + tail)
        (report,) = verify_logs([tmp_path / name])

        assert report.is_fine is (name != "junk")
        assert reading_stops_at(tmp_path / name) == (None if report.is_fine else len(data))


def test_an_empty_file_is_damage(tmp_path: Path) -> None:
    (tmp_path / "binlog.000001").write_bytes(b"")

    assert messages(verify_logs([tmp_path / "binlog.000001"]), "damage")[0].endswith("found 0 bytes")


def test_the_torn_tail_of_a_log_in_use_is_a_note() -> None:
    (report, *_) = verify_logs([MYSQL / "crashed" / "binlog.truncated_body"])

    assert report.is_fine
    assert {found.level for found in report.findings} == {"note"}
    assert any("incomplete event" in found.message for found in report.findings)


def test_the_command_prints_what_is_fine_around_damage() -> None:
    result = CliRunner().invoke(cli, ["verify", str(MYSQL / "crashed" / "binlog.bitflip")])
    lines = json.loads(CliRunner().invoke(cli, ["verify", "--json", str(MYSQL / "crashed" / "binlog.bitflip")]).stdout)

    assert result.exit_code == 1
    assert (
        "  fine     0 to 61059: 125 event groups\n  damage   61059 to 61233: checksum of UPDATE_ROWS" in result.stdout
    )
    assert result.stdout.endswith("0 of 1 fine, 61,264 bytes\n")
    assert lines["is_fine"] is False
    assert CliRunner().invoke(cli, ["verify", "--problems", str(GTIDS)]).stdout == ""


@pytest.mark.parametrize("server", [MARIADB, MARIADB118], ids=lambda folder: folder.name)
@pytest.mark.parametrize("at", [9, 25], ids=["size", "body"])
def test_damage_in_a_decrypted_log_of_mariadb_is_that_of_a_plain_log(server: Path, at: int, tmp_path: Path) -> None:
    """`mariadb-binlog --raw` has decrypted the events after START_ENCRYPTION. The check continues after the damage."""
    data = (server / "encrypted" / "binlog.000001.decrypted").read_bytes()
    log = tmp_path / "binlog.000001"
    for offset, event in list(raw_events(data))[3:-1]:
        damaged = bytearray(data)
        damaged[offset + at] ^= 0x40
        log.write_bytes(damaged)
        report = next(verify_logs([str(log)]))
        (found,) = (one for one in report.findings if one.level == DAMAGE)

        assert (found.offset, found.end) == (offset, offset + len(event))
        assert "encrypted" not in found.message
        assert [(one.begin, one.end) for one in report.fine] == [(0, offset), (offset + len(event), len(data))]
