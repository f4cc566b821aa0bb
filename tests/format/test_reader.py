"""Reading logs: order, offsets, several files, torn tails, and files beyond 4 GiB."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import fs

import binlogio.reader
from binlogio.constants import BINLOG_MAGIC, EventType, HeaderFlag
from binlogio.errors import (
    BadMagic,
    BinlogFormatError,
    ChecksumMismatch,
    MissingTableMap,
    TruncatedEvent,
    UnsupportedFeature,
    WriterStateError,
)
from binlogio.events.control import RotateEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.encoder import Encoder
from binlogio.options import Position
from binlogio.storage.compression import compress_zstd
from corpus import MARIADB, MYSQL, frames_of
from logs import CRC32, OFF, description, encode, header, log, plain, query, rotate, stop, transaction

if TYPE_CHECKING:
    from pathlib import Path

    from binlogio.reader import BinlogReader

TABLE = TableMapEvent(9, 1, "d", "t", (3,), (0,), (True,), header=header(EventType.TABLE_MAP_EVENT))
ROWS = WriteRowsEvent(9, 1, b"", 1, b"\xff", b"\xfe\x01\0\0\0", header(EventType.WRITE_ROWS_EVENT))


def _open(data: bytes, **options: Any) -> BinlogReader:
    return binlogio.reader.open(io.BytesIO(data), **options)


def _offsets(data: bytes) -> list[int]:
    return [frame.header.offset for frame in frames_of(data)]


# --------------------------------------------------------------------------------------------------------------- order


def test_events_come_in_the_order_of_the_file_with_their_offsets() -> None:
    data = log(*transaction(1), stop())
    with _open(data) as reader:
        found = list(reader)

    assert isinstance(found[0], FormatDescriptionEvent)
    assert [plain(event) for event in found[1:]] == [plain(event) for event in [*transaction(1), stop()]]
    assert [event.header.offset for event in found] == _offsets(data)


def test_position_is_behind_the_event_that_was_given() -> None:
    data = log(*transaction(1))
    with _open(data) as reader:
        assert reader.position == Position("<stream>", 0)
        for event in reader:
            assert reader.position == Position("<stream>", event.header.offset + event.header.event_size)
    assert reader.position.offset == len(data)


def test_files_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "b.000001").write_bytes(log(*transaction(1), rotate("b.000002")))
    (tmp_path / "b.000002").write_bytes(log(*transaction(2), stop(), algorithm=OFF))
    with binlogio.reader.open(tmp_path) as reader:
        found = [(reader.position.file.rpartition("/")[2], event) for event in reader]

    assert reader.files == (str(tmp_path / "b.000001"), str(tmp_path / "b.000002"))
    assert [name for name, _ in found] == ["b.000001"] * 5 + ["b.000002"] * 5
    assert [event.xid for _, event in found if isinstance(event, XidEvent)] == [1, 2]


@pytest.mark.parametrize("source", ["directory", "glob", "list", "filesystem"])
def test_a_server_s_logs_are_read_whatever_names_them(source: str) -> None:
    folder = MYSQL / "rotated"
    sources: dict[str, tuple[Any, dict[str, Any]]] = {
        "directory": (folder, {}),
        "glob": (f"{folder}/binlog.0000*", {}),
        "list": ([f"{folder}/binlog.00000{number}" for number in (1, 2, 3)], {}),
        "filesystem": ("", {"filesystem": fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())}),
    }
    named, options = sources[source]
    with binlogio.reader.open(named, **options) as reader:
        found = list(reader)

    assert [event.next_log for event in found if isinstance(event, RotateEvent)] == [
        f"binlog.00000{number}" for number in (2, 3, 4)
    ]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_compressed_files_give_the_same_events(tmp_path: Path, suffix: str) -> None:
    data = (MYSQL / "gtid_on" / "binlog.000001").read_bytes()
    pack: Any = {"": bytes, ".gz": gzip.compress, ".zst": lambda raw: compress_zstd(raw, 3)}[suffix]
    (tmp_path / f"b.000001{suffix}").write_bytes(pack(data))
    with binlogio.reader.open(tmp_path / f"b.000001{suffix}") as reader:
        found = list(reader)

    assert [event.header.offset for event in found] == _offsets(data)
    assert reader.last_good_offset == len(data)


def test_event_larger_than_a_read_is_whole(tmp_path: Path) -> None:
    big = query("INSERT " + "x" * (3 << 20))
    (tmp_path / "b.000001").write_bytes(log(big, stop()))
    with binlogio.reader.open(tmp_path / "b.000001") as reader:
        found = list(reader)

    assert plain(found[1]) == plain(big)


def test_reader_that_was_closed_gives_no_more_events(tmp_path: Path) -> None:
    (tmp_path / "b.000001").write_bytes(log(*transaction(1)))
    reader = binlogio.reader.open(tmp_path / "b.000001")
    next(reader)
    reader.close()

    assert list(reader) == []


def test_format_is_unknown_before_the_first_event() -> None:
    reader = _open(log(in_use=True))
    with pytest.raises(WriterStateError):
        _ = reader.context
    assert not reader.in_use
    next(reader)

    assert reader.context.server_version == "9.7.4"
    assert reader.in_use


# ------------------------------------------------------------------------------------------------------------- offsets


@pytest.mark.parametrize("stored", ["file", "stream", "gzip"])
def test_start_offset_gives_the_description_and_then_what_is_there(tmp_path: Path, stored: str) -> None:
    data = log(*transaction(1), *transaction(2), stop())
    for number, start in enumerate(_offsets(data)[1:], start=1):
        path = tmp_path / f"b.00000{number}"
        path.write_bytes(gzip.compress(data) if stored == "gzip" else data)
        source: Any = io.BytesIO(data) if stored == "stream" else path
        with binlogio.reader.open(source, start_offset=start) as reader:
            found = list(reader)

        assert [event.header.offset for event in found] == [4, *_offsets(data)[number:]]


def test_stop_offset_ends_before_the_first_event_behind_it() -> None:
    data = log(*transaction(1), stop())
    offsets = _offsets(data)
    for stop_at in (offsets[3], offsets[3] - 1, offsets[2] + 1):
        found = list(_open(data, stop_offset=stop_at))

        assert [event.header.offset for event in found] == offsets[:3]
    assert list(_open(data, stop_offset=0)) == []


def test_offsets_hold_for_the_first_and_the_last_file(tmp_path: Path) -> None:
    data = log(*transaction(1), stop())
    for number in (1, 2, 3):
        (tmp_path / f"b.00000{number}").write_bytes(data)
    offsets = _offsets(data)
    with binlogio.reader.open(
        tmp_path, start_offset=offsets[4], stop_offset=offsets[2], ignore_missing_logs=True
    ) as reader:  # the logs are alike
        found = [event.header.offset for event in reader]

    assert found == [4, offsets[4], *offsets, *offsets[:2]]


def test_start_offset_in_a_relay_log_knows_the_second_description(tmp_path: Path) -> None:
    """It says that the source's events have no checksum, unlike the replica's own."""
    own = replace(description(CRC32), header=header(flags=HeaderFlag.RELAY_LOG))
    theirs = replace(description(OFF, version="5.7.44"), header=header(flags=HeaderFlag.ARTIFICIAL))
    data = BINLOG_MAGIC + encode([own, rotate(), theirs, *transaction(1)])
    (tmp_path / "relay.000001").write_bytes(data)
    with binlogio.reader.open(tmp_path / "relay.000001", start_offset=_offsets(data)[3]) as reader:
        found = list(reader)

    assert [plain(event) for event in found[1:]] == [plain(event) for event in transaction(1)]


def test_start_offset_in_an_encrypted_log_of_mariadb_still_asks_for_the_key() -> None:
    with pytest.raises(UnsupportedFeature, match="encrypted"):
        list(binlogio.reader.open(MARIADB / "encrypted" / "binlog.000001", start_offset=500))


def test_start_offset_in_an_encrypted_log_of_mariadb_is_decrypted() -> None:
    pytest.importorskip("cryptography")
    folder = MARIADB / "encrypted"
    with binlogio.reader.open(folder / "binlog.000001", keyring=folder / "keys.txt") as reader:
        every = list(reader)
    with binlogio.reader.open(
        folder / "binlog.000001", keyring=folder / "keys.txt", start_offset=every[5].header.offset
    ) as reader:
        found = list(reader)

    assert found == [every[0], *every[5:]]


# ---------------------------------------------------------------------------------------------------------- over 4 GiB


@pytest.mark.parametrize("algorithm", [OFF, CRC32])
def test_file_over_4_gib_is_read_with_offsets_that_do_not_wrap(tmp_path: Path, algorithm: int) -> None:
    """A sparse file: a description, a hole, and a group after 4 GiB whose log_pos has wrapped."""
    path = tmp_path / "b.000001"
    first = BINLOG_MAGIC + encode([description(algorithm)])
    start = (1 << 32) - 40
    group = encode([*transaction(1), rotate()], offset=start, encoder=Encoder(description(algorithm).context))
    with path.open("wb") as file:
        file.write(first)
        file.seek(start)
        file.write(group)
    with binlogio.reader.open(path, start_offset=start) as reader:
        found = list(reader)

    assert [plain(event) for event in found[1:]] == [plain(event) for event in [*transaction(1), rotate()]]
    assert found[1].header.offset == start
    assert found[-1].header.offset > 1 << 32
    assert found[-1].header.log_pos == reader.position.offset - (1 << 32) == start + len(group) - (1 << 32)
    assert reader.last_good_offset == start + len(group)


# --------------------------------------------------------------------------------------------------- tails and damages


def test_torn_tail_of_a_file_in_use_is_no_error_and_the_last_whole_group_is_known() -> None:
    data = log(*transaction(1), *transaction(2), in_use=True)
    offsets = [*_offsets(data), len(data)]
    ends_of_groups = {offsets[1], offsets[4], offsets[7]}
    for size in range(offsets[1], len(data) + 1):
        with _open(data[:size]) as reader:
            found = list(reader)

        assert len(found) == sum(end <= size for end in offsets[1:])
        assert reader.last_good_offset == max(end for end in ends_of_groups if end <= size)
        assert (reader.torn_tail is None) is (size in offsets)


def test_closed_file_that_is_cut_is_truncated_and_named(tmp_path: Path) -> None:
    path = tmp_path / "b.000001"
    path.write_bytes(log(*transaction(1))[:-1])
    with binlogio.reader.open(path) as reader, pytest.raises(TruncatedEvent) as caught:
        list(reader)

    assert caught.value.file == str(path)
    assert str(path) in str(caught.value)


def test_damage_names_file_and_offset_and_events_before_it_are_given(tmp_path: Path) -> None:
    path = tmp_path / "b.000001"
    data = bytearray(log(*transaction(1), *transaction(2)))
    data[_offsets(bytes(data))[5] + 25] ^= 1
    path.write_bytes(data)
    with binlogio.reader.open(path) as reader:
        found = [next(reader) for _ in range(5)]
        with pytest.raises(ChecksumMismatch) as caught:
            next(reader)

    assert isinstance(found[0], FormatDescriptionEvent)
    assert caught.value.file == str(path)
    assert caught.value.offset == _offsets(log(*transaction(1), *transaction(2)))[5]
    assert reader.last_good_offset == _offsets(log(*transaction(1), *transaction(2)))[4]


def test_checksums_can_be_left_alone() -> None:
    data = bytearray(log(query("SELECT 1")))
    data[-1] ^= 1

    assert len(list(_open(bytes(data), verify_checksum=False))) == 2


def test_broken_payload_leaves_the_group_before_it_as_the_last_good_one() -> None:
    data = (MYSQL / "compressed" / "binlog.000001").read_bytes()
    payload = next(frame for frame in frames_of(data) if frame.header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT)
    spoilt = bytearray(data)
    spoilt[payload.end - 30] ^= 1
    reader = _open(bytes(spoilt), verify_checksum=False)
    with pytest.raises(BinlogFormatError):
        list(reader)

    assert reader.last_good_offset < payload.header.offset


def test_payloads_can_stay_closed() -> None:
    path = MYSQL / "compressed" / "binlog.000001"

    assert all(event.header.inner is None for event in binlogio.reader.open(path, open_payloads=False))
    assert any(event.header.inner is not None for event in binlogio.reader.open(path))


def test_event_that_claims_4_gib_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "b.000001"
    data = bytearray(log(query("SELECT 1"), in_use=True))
    data[_offsets(bytes(data))[1] + 9 : _offsets(bytes(data))[1] + 13] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    with binlogio.reader.open(path) as reader, pytest.raises(BinlogFormatError, match="contradicts"):
        list(reader)


@pytest.mark.parametrize(
    ("data", "error"), [(b"", TruncatedEvent), (b"some text\n", BadMagic), (b"\x1f\x8b nonsense", BinlogFormatError)]
)
def test_what_is_not_a_log_is_refused(data: bytes, error: type[BinlogFormatError]) -> None:
    with pytest.raises(error) as caught:
        list(_open(data))
    assert caught.value.file == "<stream>"


# ---------------------------------------------------------------------------------------------------------------- rows


def test_rows_of_the_event_that_was_just_given() -> None:
    with _open(log(TABLE, ROWS)) as reader:
        changes = [change for event in reader if isinstance(event, WriteRowsEvent) for change in reader.rows(event)]

    assert [change.before for change in changes] == [None]
    assert changes[0].after is not None
    assert changes[0].after.as_dict() == {"@1": 1}


def test_tables_that_look_alike_share_a_plan() -> None:
    with _open(log(TABLE, ROWS, TABLE, ROWS)) as reader:
        plans = [reader.plan(event) for event in reader if isinstance(event, WriteRowsEvent)]

    assert plans[0] is plans[1]


def test_rows_whose_table_was_not_mapped_are_refused() -> None:
    with _open(log(ROWS)) as reader:
        next(reader)
        event = next(reader)
        assert isinstance(event, WriteRowsEvent)
        with pytest.raises(MissingTableMap) as caught:
            list(reader.rows(event))

    assert caught.value.file == "<stream>"
    assert caught.value.offset == event.header.offset


def test_rows_that_do_not_fit_their_table_name_file_and_offset() -> None:
    with _open(log(TABLE, replace(ROWS, images=b"\xfe\x01\0"))) as reader:
        *_, event = reader
        assert isinstance(event, WriteRowsEvent)
        with pytest.raises(BinlogFormatError) as caught:
            list(reader.rows(event))

    assert caught.value.file == "<stream>"
    assert caught.value.offset == event.header.offset
