"""A start offset that is not the start of an event is refused, with the offset of the next event."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.constants import BINLOG_MAGIC, EventType, HeaderFlag
from binlogio.errors import BinlogFormatError, ChecksumMismatch, PositionError
from binlogio.format.encoder import Encoder
from binlogio.format.event_starts import check_event_start
from binlogio.storage.compression import compress_zstd
from binlogio.storage.sources import find_logs
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL, frames_of
from logs import CRC32, OFF, description, encode, header, log, query, rotate, stop, transaction

if TYPE_CHECKING:
    from pathlib import Path

GTID_ON: Final = MYSQL / "gtid_on" / "binlog.000001"
PACKED: Final[dict[str, Any]] = {
    "file": bytes,
    "gzip": gzip.compress,
    "zstd": lambda data: compress_zstd(data, 3),
    "stream": io.BytesIO,
}


def _source(tmp_path: Path, data: bytes, stored: str) -> Any:
    packed = PACKED[stored](data)
    if stored == "stream":
        return packed
    path = tmp_path / "b.000001"
    path.write_bytes(packed)
    return path


def _relay_log() -> bytes:
    """Return a log whose events have the positions of the source's file."""
    own = replace(description(CRC32), header=header(flags=HeaderFlag.RELAY_LOG))
    theirs = replace(description(CRC32), header=header(flags=HeaderFlag.ARTIFICIAL))
    return (
        BINLOG_MAGIC
        + encode([own, rotate(), theirs])
        + encode(transaction(1), offset=77777, encoder=Encoder(theirs.context))
    )


def _without_log_pos() -> bytes:
    """Return a log whose events have a log_pos of zero, as in MariaDB's group cache."""
    data = bytearray(log(*transaction(1), stop(), algorithm=OFF))
    for frame in list(frames_of(bytes(data)))[1:]:
        data[frame.header.offset + 13 : frame.header.offset + 17] = bytes(4)
    return bytes(data)


LOGS: Final[dict[str, bytes]] = {
    "checksums": log(*transaction(1), query("x" * 100_000), *transaction(2), stop()),
    "no checksums": log(*transaction(1), stop(), algorithm=OFF),
    "event over 1 MiB": log(query("y" * (3 << 20)), *transaction(2)),
    "torn tail": log(*transaction(1), *transaction(2), in_use=True)[:-11],
    "relay": _relay_log(),
    "log_pos zero": _without_log_pos(),
    "MySQL 9.7": GTID_ON.read_bytes(),
    "MariaDB 10.11": (MARIADB / "gtid" / "binlog.000001").read_bytes(),
}


def _starts(data: bytes) -> list[int]:
    return [frame.header.offset for frame in frames_of(data)]


def _whole_end(data: bytes) -> int:
    *_, last = frames_of(data)
    return int(last.end)


@pytest.mark.parametrize("stored", PACKED)
@pytest.mark.parametrize("kind", LOGS)
def test_offset_inside_an_event_is_refused_with_the_next_event(tmp_path: Path, kind: str, stored: str) -> None:
    """Next to each start, and in the middle; never as damage of the log."""
    data = LOGS[kind]
    starts = _starts(data)[:12]
    for start, following in zip([0, *starts], [*starts, starts[-1]], strict=True):
        for offset in {start + 1, (start + following) // 2, following - 1} - {start, following}:
            if not start < offset < following:
                continue
            with pytest.raises(PositionError) as caught:
                list(binlogio.open(_source(tmp_path, data, stored), start_offset=offset))
            assert caught.value.reason == f"{offset} is not the start of an event; the next event starts at {following}"


@pytest.mark.parametrize("stored", PACKED)
@pytest.mark.parametrize("kind", LOGS)
def test_offset_beyond_the_end_is_refused_and_the_end_itself_is_not(tmp_path: Path, kind: str, stored: str) -> None:
    data = LOGS[kind]
    end = _whole_end(data)
    for offset in (end + 1, len(data) + 1, len(data) + 100, 1 << 40):
        with pytest.raises(PositionError) as caught:
            list(binlogio.open(_source(tmp_path, data, stored), start_offset=offset))
        assert caught.value.reason == f"{offset} is not the start of an event; the last whole event ends at {end}"

    with binlogio.open(_source(tmp_path, data, stored), start_offset=end) as reader:
        assert [event.header.offset for event in reader][:1] == [4]


@pytest.mark.parametrize("stored", ["file", "gzip", "zstd"])
@pytest.mark.parametrize("kind", LOGS)
def test_check_without_reading_gives_the_same_answers(tmp_path: Path, kind: str, stored: str) -> None:
    """What commands that begin with a change to a target ask first."""
    data = LOGS[kind]
    starts, end = _starts(data), _whole_end(data)
    _source(tmp_path, data, stored)
    (found,) = find_logs(tmp_path / "b.000001")
    for start in (0, *starts[:5], starts[-1], end):
        check_event_start(found, start)
    for offset in (1, starts[1] - 1, starts[-1] + 1, end + 1, 1 << 40):
        with pytest.raises(PositionError, match=f"{offset} is not the start of an event"):
            check_event_start(found, offset)


def test_bytes_of_another_log_inside_a_value_are_no_event(tmp_path: Path) -> None:
    """Even without checksums: their positions are those of the log that they were copied from."""
    inner = encode([query("SELECT 1"), query("SELECT 2")], offset=4711, encoder=Encoder(description(OFF).context))
    outer = replace(query(""), sql=inner + bytes(40))
    data = log(outer, stop(), algorithm=OFF)
    path = tmp_path / "b.000001"
    path.write_bytes(data)

    with pytest.raises(PositionError, match=f"the next event starts at {_starts(data)[2]}"):
        list(binlogio.open(path, start_offset=data.index(inner)))


@pytest.mark.parametrize("at", [9, 13, 25, -1], ids=["size", "log_pos", "body", "checksum"])
def test_damage_at_the_start_offset_is_still_damage(tmp_path: Path, at: int) -> None:
    """An event starts there, though it is damaged."""
    data = bytearray(log(*transaction(1), *transaction(2), stop()))
    starts = [*_starts(bytes(data)), len(data)]
    data[(starts[3] if at >= 0 else starts[4]) + at] ^= 1
    path = tmp_path / "b.000001"
    path.write_bytes(data)

    with pytest.raises((ChecksumMismatch, BinlogFormatError)) as caught:
        list(binlogio.open(path, start_offset=starts[3]))
    assert caught.value.offset == starts[3]


def test_offset_after_damage_is_accepted(tmp_path: Path) -> None:
    """Reading on after damage is what a start offset is for."""
    data = bytearray(log(*transaction(1), *transaction(2), stop()))
    starts = _starts(bytes(data))
    data[starts[2] + 9 : starts[2] + 13] = bytes(4)
    path = tmp_path / "b.000001"
    path.write_bytes(data)
    with binlogio.open(path, start_offset=starts[4]) as reader:
        assert [event.header.offset for event in reader] == [4, *starts[4:]]

    with pytest.raises(PositionError, match=f"the log is damaged before it, at {starts[2]}"):
        list(binlogio.open(path, start_offset=starts[4] + 1))


@pytest.mark.parametrize(
    ("offset", "sentence"),
    [
        (200, "200 is not the start of an event; the next event starts at 235"),
        (10_000_000, "10000000 is not the start of an event; the last whole event ends at"),
    ],
)
def test_commands_report_it_as_wrong_usage(offset: int, sentence: str) -> None:
    """Exit code 2, with the file and both offsets."""
    for arguments in (
        ["dump", "-j", str(offset), str(GTID_ON)],
        ["dump", "--format", "json", "--start-position", str(offset), str(GTID_ON)],
        ["undo", "--start-position", f"binlog.000001:{offset}", str(GTID_ON)],
    ):
        result = CliRunner().invoke(cli, arguments)

        assert (result.exit_code, sentence in result.stderr) == (2, True), (arguments, result.output)
        assert str(GTID_ON) in result.stderr


def test_undo_from_a_log_that_was_not_given_is_refused() -> None:
    result = CliRunner().invoke(cli, ["undo", "--start-position", "binlog.000009:4", str(GTID_ON)])

    assert result.exit_code == 2
    assert "the start position is in none of the given logs, found binlog.000009" in result.stderr


def test_query_event_is_named_by_its_start() -> None:
    """The fixture's offsets, so that the sentence above is about a real event."""
    assert 235 in _starts(GTID_ON.read_bytes())
    assert next(frames_of(GTID_ON.read_bytes())).header.type_code == EventType.FORMAT_DESCRIPTION_EVENT
