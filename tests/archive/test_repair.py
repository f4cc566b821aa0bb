"""`binlogio.archive.repair`: what is whole is kept, what is damaged is left out group by group and reported."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import binlogio
from binlogio._kernel.event_scanner import stamp_events
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, EventType
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.format.groups import GTID_EVENTS
from binlogio.selection.event_filter import parse_gtid_set
from binlogio.storage.index_file import read_index
from binlogio.storage.keyring import load_keyring
from binlogio.writer import Insert, Statement
from binlogio_cli.main import cli
from corpus import MARIADB, MARIADB118, MYSQL, files
from gtid_cases import TODAY
from logs import (
    POST_HEADER_SIZES,
    description,
    encode,
    header,
    log,
    query,
    raw_events,
    read_to_end,
    spoilt_event,
    with_checksum,
)
from memory_storage import MemoryStorage
from repaired_logs import repaired, whole_groups
from series_faults import write_series
from written_logs import BLOBS, writer

MANY: Final = MYSQL / "group_commit" / "binlog.000001"
MANY_MARIADB: Final = MARIADB / "group_commit" / "binlog.000001"
NO_GTIDS: Final = MYSQL / "gtid_off" / "binlog.000001"


IN_USE: Final = MYSQL / "in_use" / "binlog.000001"
WITH_GTIDS: Final = [MANY, MANY_MARIADB, MARIADB118 / "gtid" / "binlog.000001", IN_USE]


@pytest.mark.parametrize("log", WITH_GTIDS, ids=lambda log: f"{log.parts[-3]} {log.parts[-2]}")
@pytest.mark.parametrize("in_event", [False, True])
def test_the_gtid_of_a_cut_last_transaction_is_named(tmp_path: Path, log: Path, in_event: bool) -> None:
    """Its first event is whole. The server of a log in use logs the GTID again, so that it is not missing."""
    *_, (start, _, gtid) = places(log)
    with binlogio.open(log, open_payloads=False, start_offset=start) as reader:
        second = next(event.header.offset for event in reader if event.header.offset > start)
    cut = tmp_path / "binlog.000001"
    cut.write_bytes(log.read_bytes()[: second + 25 * in_event])
    report = repaired(tmp_path / "new.000001", cut)

    if log == IN_USE:
        assert report.lost[-1].reason.endswith(f", in the transaction {gtid}")
    else:
        assert str(report.missing_gtids) == str(parse_gtid_set(str(gtid)))


@pytest.mark.parametrize("log", [MYSQL / "rotated" / "binlog.000001", MYSQL / "stopped" / "binlog.000001"])
def test_only_the_end_of_a_log_is_cut(tmp_path: Path, log: Path) -> None:
    """All transactions are there, and there is nothing to look for."""
    cut = tmp_path / "binlog.000001"
    cut.write_bytes(log.read_bytes()[:-5])
    result = CliRunner().invoke(cli, ["repair", str(cut), "-o", str(tmp_path / "new.000001")])

    assert result.exit_code == 1
    assert "no transaction is lost" in result.stderr
    assert "look for what is missing" not in result.stderr


def places(log: Path) -> list[tuple[int, int, Any]]:
    """Return start, end and GTID of the groups of a log."""
    found = []
    with binlogio.open(log, open_payloads=False) as reader:
        for group in reader.groups():
            for event in group.events:
                end = event.header.offset + event.header.event_size
            gtid = group.first.gtid if isinstance(group.first, GTID_EVENTS) else None
            found.append((group.first.header.offset, end, gtid))
    return found


@pytest.mark.parametrize("log", [MANY, MANY_MARIADB, MARIADB118 / "group_commit" / "binlog.000001"])
def test_a_damaged_group_is_left_out_whole(tmp_path: Path, log: Path) -> None:
    """Wherever a bit of it is wrong; its GTID is missing, its bytes are lost, and all other groups are there."""
    data, groups, expected = log.read_bytes(), places(log), whole_groups(log)
    number = len(groups) // 2
    start, end, gtid = groups[number]
    for at in range(start, end, 37):
        bad = tmp_path / f"{at}"
        bad.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        report = repaired(target := tmp_path / f"{at}.new", bad)

        assert [(one.start, one.end) for one in report.lost] == [(start, end)]
        assert start <= report.lost[0].damaged_at < end
        assert str(report.missing_gtids) in (str(gtid), f"{gtid}..{getattr(gtid, 'sequence_number', 0)}")
        assert whole_groups(target) == expected[:number] + expected[number + 1 :]


@pytest.mark.parametrize("log", [MANY, MANY_MARIADB, MARIADB118 / "group_commit" / "binlog.000001"])
def test_groups_after_missing_or_inserted_bytes_are_kept(tmp_path: Path, log: Path) -> None:
    """A hole in a group, bytes too many in it, and whole groups that are not there."""
    data, groups, expected = log.read_bytes(), places(log), whole_groups(log)
    number = len(groups) // 2
    (start, end, _), (_, later, _) = groups[number], groups[number + 1]
    for name, raw, lost, missing in (
        ("hole", data[: start + 90] + data[start + 110 :], (start, end - 20), 1),
        ("more", data[: start + 90] + b"more" + data[start + 90 :], (start, end + 4), 1),
        ("none", data[:start] + data[later:], (start, start), 2),
    ):
        (tmp_path / name).write_bytes(raw)
        report = repaired(target := tmp_path / f"{name}.new", tmp_path / name)

        assert [(one.start, one.end) for one in report.lost] == [lost]
        assert report.missing_gtids is not None
        assert groups[number][2] in report.missing_gtids
        assert (groups[number + 1][2] in report.missing_gtids) is (missing == 2)
        assert whole_groups(target) == expected[:number] + expected[number + missing :]


def test_groups_after_two_damages_are_kept(tmp_path: Path) -> None:
    """A group that cannot be read, and later one of which only the GTID is left: all others are there."""
    expected = whole_groups(MANY)
    events = [event for _, event in raw_events(MANY.read_bytes())]
    starts = [number for number, event in enumerate(events) if event[4] == EventType.GTID_LOG_EVENT]
    del events[starts[6] + 1 : starts[7]]
    maps = [number for number in range(starts[4], starts[5]) if events[number][4] == EventType.TABLE_MAP_EVENT]
    del events[maps[0]]
    data = bytearray(b"".join(events))
    stamp_events(data, 4, checksum=True)
    (tmp_path / "bad").write_bytes(BINLOG_MAGIC + data)
    report = repaired(target := tmp_path / "new", tmp_path / "bad")

    assert len(report.lost) == 2
    assert whole_groups(target) == expected[:4] + expected[5:6] + expected[7:]


@settings(max_examples=40)
@given(data=st.data())
def test_any_damage_is_left_out_and_what_is_left_can_be_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Overwritten, cut out, inserted or cut off bytes: every group of the new log is one of the source."""
    log = data.draw(st.sampled_from([MANY, MANY_MARIADB, NO_GTIDS, MYSQL / "compressed" / "binlog.000001"]))
    raw = bytearray(log.read_bytes())
    first = places(log)[0][0]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(first, len(raw)))
        junk, size = data.draw(st.binary(max_size=60)), data.draw(st.integers(0, 400))
        raw[at : at + size] = junk
    folder = tmp_path_factory.mktemp("damage")
    (folder / "bad").write_bytes(raw)
    report = repaired(folder / "new", folder / "bad")
    expected, found = whole_groups(log), whole_groups(folder / "new")

    assert all(one in expected for one in found)
    assert report.groups == len(found)
    assert report.lost or found == expected[: len(found)]
    assert all(one.start <= one.damaged_at <= one.end for one in report.lost)


@pytest.mark.parametrize(
    ("log", "code"),
    [
        (MYSQL / "compressed", EventType.TRANSACTION_PAYLOAD_EVENT),
        (MARIADB / "compressed", EventType.WRITE_ROWS_COMPRESSED_EVENT_V1),
        (MYSQL / "types_json", EventType.WRITE_ROWS_EVENT),
        (NO_GTIDS.parent, EventType.QUERY_EVENT),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_group_that_cannot_be_read_is_left_out(tmp_path: Path, log: Path, code: EventType) -> None:
    """Although its checksums are right: it is lost like a damaged one, and all other groups are there."""
    good = log / "binlog.000001"
    groups, expected = places(good), whole_groups(good)
    data, begin, _ = spoilt_event(good, code)
    number = next(number for number, (_, end, _) in enumerate(groups) if begin < end)
    (tmp_path / "bad").write_bytes(data)
    report = repaired(target := tmp_path / "new", tmp_path / "bad")
    gtid = groups[number][2]

    assert [(one.start, one.end, one.damaged_at) for one in report.lost] == [(*groups[number][:2], begin)]
    if gtid is None:
        assert report.missing_gtids is None
    else:
        assert report.missing_gtids is not None
        assert gtid in report.missing_gtids
    assert whole_groups(target) == expected[:number] + expected[number + 1 :]
    read_to_end(target)


def test_events_of_an_unknown_layout_are_lost(tmp_path: Path) -> None:
    """The repair ends, although the reason is in the format description (it did not)."""
    sizes = list(POST_HEADER_SIZES)
    sizes[EventType.QUERY_EVENT - 1] = 12
    gtid = replace(TODAY, header=header(EventType.GTID_LOG_EVENT))
    head = BINLOG_MAGIC + encode([description(sizes=tuple(sizes))])
    data = head + log(gtid, query("CREATE TABLE t (a INT)"))[len(head) :]
    (tmp_path / "bad").write_bytes(data)
    report = repaired(tmp_path / "new", tmp_path / "bad")

    assert report.groups == 0
    assert [(one.end, "unsupported post-header size" in one.reason) for one in report.lost] == [(len(data), True)]


@pytest.mark.parametrize("log_of", [MYSQL / "rowimage_full", MARIADB / "basic_row"], ids=lambda path: path.parent.name)
def test_nothing_after_a_second_format_description_is_written(log_of: Path, tmp_path: Path) -> None:
    """The events after it may have another format; `copy` wrote the second one as well where it was the first event."""
    data = (log_of / "binlog.000001").read_bytes()
    head = data[4 : 4 + int.from_bytes(data[13:17], "little")]
    (tmp_path / "bad").write_bytes(BINLOG_MAGIC + head + data[4:])
    report = repaired(tmp_path / "new", tmp_path / "bad")
    copied = CliRunner().invoke(cli, ["copy", "-o", str(tmp_path / "copy"), str(tmp_path / "bad")])

    assert report.groups == 0
    assert [(one.start, one.end) for one in report.lost] == [(4 + len(head), len(data) + len(head))]
    assert copied.exit_code == 1
    assert "a format description in the middle of a log" in copied.stderr


def test_a_large_group_that_cannot_be_read_to_its_end_is_left_out(tmp_path: Path) -> None:
    """Its first megabytes, which could be read, were written already."""
    storage = MemoryStorage()
    with writer(storage) as log:
        session = log.session()
        for count in (1, 60, 1):
            session.execute(Statement("", [Insert(BLOBS, [{"data": bytes(60_000)}] * count)]))
    data = bytearray(storage.streams()[0].read())
    (tmp_path / "good").write_bytes(data)
    start, end, gtid = places(tmp_path / "good")[1]
    at, event = [(at, event) for at, event in raw_events(data) if at < end and event[4] == EventType.WRITE_ROWS_EVENT][
        -1
    ]
    data[at : at + len(event)] = with_checksum(event[:-CHECKSUM_SIZE] + b"\x01" + event[-CHECKSUM_SIZE:])[: len(event)]
    (tmp_path / "bad").write_bytes(data)
    report = repaired(tmp_path / "new", tmp_path / "bad")

    assert [(one.start, one.end, one.damaged_at) for one in report.lost] == [(start, end, at)]
    assert str(report.missing_gtids) == str(gtid)
    assert len(whole_groups(tmp_path / "new")) == report.groups == 2
    read_to_end(tmp_path / "new")


def test_an_undamaged_log_is_the_same(tmp_path: Path) -> None:
    """Every log of the corpus, encrypted ones too; incomplete ends are those of logs in use."""
    tried = 0
    for number, file in enumerate(files()):
        if file.damaged or (file.keys is not None) is not file.encrypted:
            continue
        keyring = None if file.keys is None else load_keyring(str(file.keys))
        try:
            report = repaired(target := tmp_path / f"{number}", file.path, keyring=keyring)
        except UnsupportedFeature:  # a relay log, or a log of a server before 5.0
            continue
        assert (report.lost, report.missing_gtids) == ((), None), file.id
        if not file.encrypted and not report.was_in_use:
            assert whole_groups(target) == whole_groups(file.path)[: report.groups]
        tried += 1
    assert tried > 50


def test_wrong_checksums_are_accepted_on_request(tmp_path: Path) -> None:
    """The bytes are taken as they are, and get a right checksum."""
    data, (start, end, _) = bytearray(MANY.read_bytes()), places(MANY)[10]
    data[end - 1] ^= 1
    (tmp_path / "bad").write_bytes(data)
    report = repaired(tmp_path / "new", tmp_path / "bad", recompute_checksums=True)

    assert report.lost == ()
    assert whole_groups(tmp_path / "new") == whole_groups(MANY)
    assert repaired(tmp_path / "other", tmp_path / "bad").lost[0].start == start


def test_a_torn_tail_is_cut_to_the_last_complete_group(tmp_path: Path) -> None:
    log = MYSQL / "crashed" / "binlog.000001"
    data, groups = log.read_bytes(), places(log)
    start, end, _ = groups[-1]
    for size in (start + 5, start + 90, end - 1):
        (tmp_path / "torn").write_bytes(data[:size])
        report = repaired(target := tmp_path / f"{size}", tmp_path / "torn")

        assert [(one.start, one.end, one.is_tail) for one in report.lost] == [(start, size, True)]
        assert report.was_in_use == (str(tmp_path / "torn"),)
        assert len(whole_groups(target)) == len(groups) - 1


def test_zero_bytes_at_the_end_are_no_loss(tmp_path: Path) -> None:
    log = MYSQL / "crashed" / "binlog.000001"
    (tmp_path / "zeros").write_bytes(log.read_bytes() + bytes(5000))
    report = repaired(tmp_path / "new", tmp_path / "zeros")

    assert report.lost == ()
    assert whole_groups(tmp_path / "new") == whole_groups_of_crashed(log)


def whole_groups_of_crashed(log: Path) -> list[bytes]:
    copy = log.with_name("binlog.000001.after_recovery")
    return whole_groups(copy)


def test_gtids_at_the_end_of_a_log_are_missing_by_the_head_of_the_next(tmp_path: Path) -> None:
    source = MYSQL / "gtid_on"
    first, second = sorted(source.glob("binlog.0*"))[:2]
    groups = places(first)
    (tmp_path / first.name).write_bytes(first.read_bytes()[: groups[-2][0]])
    (tmp_path / "out").mkdir()
    report = repaired(tmp_path / "out", tmp_path / first.name, second)

    assert str(report.missing_gtids) == str(parse_gtid_set(",".join(str(one[2]) for one in groups[-2:] if one[2])))
    assert read_index(tmp_path / "out" / "binlog.index") == [f"./{first.name}", f"./{second.name}"]


def test_compressed_files_are_repaired_as_far_as_they_can_be_opened(tmp_path: Path) -> None:
    packed = gzip.compress(MANY.read_bytes())
    (tmp_path / "binlog.000001.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "out").mkdir()
    report = repaired(tmp_path / "out", tmp_path / "binlog.000001.gz")
    found = whole_groups(tmp_path / "out" / "binlog.000001")

    assert found == whole_groups(MANY)[: len(found)]
    assert len(found) > 50
    assert any("truncated" in one.reason for one in report.lost)


def test_a_damaged_format_description_is_an_error(tmp_path: Path) -> None:
    data = bytearray(MANY.read_bytes())
    data[30] ^= 1
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(BinlogFormatError) as caught:
        repaired(tmp_path / "new", tmp_path / "bad")

    assert caught.value.file == str(tmp_path / "bad")
    assert not (tmp_path / "new").exists()


def test_a_log_without_a_head_is_lost_and_the_others_are_repaired(tmp_path: Path) -> None:
    """As a full disk leaves one. The index file has the order of a server, whatever that of the arguments is."""
    source = tmp_path / "source"
    source.mkdir()
    for number in (1, 3):
        (source / f"binlog.{number:06d}").write_bytes((MYSQL / "rotated" / f"binlog.{number:06d}").read_bytes())
    (source / "binlog.000002").touch()
    (source / "other.000001").write_bytes(MANY.read_bytes())
    to = tmp_path / "to"
    to.mkdir()
    names = ("other.000001", "binlog.000003", "binlog.000002", "binlog.000001")
    report = repaired(to, *(source / name for name in names))

    assert [(Path(one.file).name, one.size, one.reason) for one in report.lost] == [
        ("binlog.000002", 0, "the log is empty")
    ]
    assert read_index(to / "binlog.index") == ["./binlog.000001", "./binlog.000003"]
    assert read_index(to / "other.index") == ["./other.000001"]
    with pytest.raises(BinlogFormatError, match="the log is empty"):
        repaired(tmp_path / "none", source / "binlog.000002")
    assert not (tmp_path / "none").exists()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["repair", *map(str, arguments)])


def test_the_command_reports_and_exits_with_1_if_something_is_lost(tmp_path: Path) -> None:
    data, (start, end, gtid) = bytearray(MANY.read_bytes()), places(MANY)[10]
    data[start + 30] ^= 1
    bad = tmp_path / "binlog.000001"
    bad.write_bytes(data)
    whole, lossy = run("--out", tmp_path / "a", MANY), run("--out", tmp_path / "b", bad)
    shown = run("--json", "-o", tmp_path / "c", bad)

    assert (whole.exit_code, lossy.exit_code, shown.exit_code) == (0, 1, 1)
    assert whole.stderr.endswith(
        f"nothing is lost\nbinlogio: next: `binlogio verify {tmp_path / 'a'}`, then replay or export the new logs\n"
    )
    assert f"bytes {start} to {end} ({end - start}): lost" in lossy.stderr
    assert f"missing GTIDs: {gtid}" in lossy.stderr
    assert lossy.stderr.endswith(
        "next: look for what is missing in the logs of a replica or in another copy of the archive; "
        f"`binlogio verify {tmp_path / 'b'}`, then replay or export the new logs\n"
    )
    assert json.loads(shown.stdout)["missing_gtids"] == str(gtid)
    assert run("-o", tmp_path / "c", bad).exit_code == 2
    assert run("-o", bad, "--force", bad).exit_code == 2
    assert bad.read_bytes() == data


def test_a_missing_log_is_lost(tmp_path: Path) -> None:
    write_series(tmp_path, "anonymous", logs=4)[2].unlink()
    (tmp_path / "binlog.index").unlink()
    result = run("--out", tmp_path / "out", tmp_path / "binlog.000004", *tmp_path.glob("binlog.00000[12]"))
    shown = run("--json", "--out", tmp_path / "other", tmp_path)
    missing = f"{tmp_path / 'binlog.000004'}: logs are missing before this one: number 3"

    assert (result.exit_code, shown.exit_code) == (1, 1)
    assert f"binlogio: {missing}\nbinlogio: next: look for what is missing in the logs of a replica" in result.stderr
    assert "nothing is lost" not in result.stderr
    assert json.loads(shown.stdout)["missing_logs"] == [missing]


@pytest.mark.parametrize("name", ["orders", "binlog.000001.orig"])
def test_a_log_without_a_number_is_not_repaired_into_a_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(MANY.read_bytes())
    result = run("--out", tmp_path / "out", MANY, tmp_path / name)

    assert result.exit_code == 2
    assert result.stderr == (
        f"binlogio: {tmp_path / name}: the name does not end in a number, so that an index file cannot list it, "
        "expected a name such as binlog.000001 (give --output a file for this log)\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_truncated_compressed_log_without_any_event_is_named_so(tmp_path: Path) -> None:
    packed = gzip.compress(MANY.read_bytes()[:2000])
    (tmp_path / "binlog.000001.gz").write_bytes(packed[:100])
    result = run("-o", tmp_path / "new", tmp_path / "binlog.000001.gz")

    assert (result.exit_code, "the compressed file is truncated" in result.stderr) == (1, True)


def test_the_index_file_is_rebuilt(tmp_path: Path) -> None:
    for name in ("binlog.000002", "binlog.000010", "binlog.000001"):
        (tmp_path / name).write_bytes(MANY.read_bytes())
    result = run("--index", tmp_path / "binlog.index", *tmp_path.glob("binlog.0*"))

    assert result.exit_code == 0
    assert read_index(tmp_path / "binlog.index") == ["./binlog.000001", "./binlog.000002", "./binlog.000010"]
    assert run("--index", tmp_path / "binlog.index", *tmp_path.glob("binlog.0*")).exit_code == 2
