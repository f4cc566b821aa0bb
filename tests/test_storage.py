"""What users name becomes files in order, and files become plain bytes."""

from __future__ import annotations

import gzip
import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import fs

from binlogio.compression import compress_zstd
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.storage import LogFile, find_logs
from logs import log, stop, transaction

if TYPE_CHECKING:
    from binlogio.storage import Source

DATA = log(*transaction(1), stop())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Logs of a server beside its index file and a file that is no log."""
    for name in ("binlog.000002", "binlog.000001", "binlog.000010"):
        (tmp_path / name).write_bytes(DATA)
    (tmp_path / "binlog.000003.gz").write_bytes(gzip.compress(DATA))
    (tmp_path / "binlog.000004.zst").write_bytes(compress_zstd(DATA, 3))
    (tmp_path / "binlog.index").write_text("./binlog.000002\n./binlog.000010\n")
    (tmp_path / "notes.txt").write_text("not a log")
    (tmp_path / "archive.000001").mkdir()
    return tmp_path


def _names(logs: list[LogFile]) -> list[str]:
    return [log.name.rpartition("/")[2] for log in logs]


ALL = ["binlog.000001", "binlog.000002", "binlog.000003.gz", "binlog.000004.zst", "binlog.000010"]


def _read(source: Source, **options: Any) -> bytes:
    (found,) = find_logs(source, **options)
    opened = found.open()
    try:
        data = b""
        while piece := opened.read(100):
            data += piece
        return data
    finally:
        opened.close()


# -------------------------------------------------------------------------------------------------------- local names


def test_log_that_is_purged_while_a_directory_is_listed_is_left_out(tmp_path: Path) -> None:
    """Old logs come and go all the time; the one that stays is always found, and no listing fails."""
    (tmp_path / "binlog.000500").write_bytes(DATA)
    ends = Event()

    def purge() -> None:
        while not ends.is_set():
            for number in range(1, 60):
                (tmp_path / f"binlog.{number:06d}").write_bytes(DATA)
            for number in range(1, 60):
                (tmp_path / f"binlog.{number:06d}").unlink()

    with ThreadPoolExecutor(1) as pool:
        purged = pool.submit(purge)
        try:
            for source in [tmp_path, tmp_path / "binlog.*"] * 100:
                assert _names(find_logs(source))[-1] == "binlog.000500"
        finally:
            ends.set()
        purged.result()


def test_directory_gives_its_logs_in_the_order_of_their_numbers(folder: Path) -> None:
    assert _names(find_logs(folder)) == ALL
    assert _names(find_logs(str(folder))) == ALL


def test_glob_gives_what_it_matches_in_the_order_of_numbers_without_the_index(folder: Path) -> None:
    assert _names(find_logs(f"{folder}/binlog.*")) == ALL
    assert _names(find_logs(f"{folder}/binlog.00000[12]")) == ALL[:2]


def test_index_file_gives_its_own_order(folder: Path) -> None:
    assert _names(find_logs(folder / "binlog.index")) == ["binlog.000002", "binlog.000010"]


def test_index_file_may_name_absolute_paths(folder: Path) -> None:
    (folder / "other.index").write_text(f"{folder}/binlog.000010\n{folder}/binlog.000001\n")

    assert _names(find_logs(folder / "other.index")) == ["binlog.000010", "binlog.000001"]


def test_list_is_taken_as_it_stands(folder: Path) -> None:
    found = find_logs([folder / "binlog.000010", f"{folder}/binlog.00000[12]", io.BytesIO(DATA)])

    assert _names(found) == ["binlog.000010", "binlog.000001", "binlog.000002", "<stream>"]


def test_sizes_are_those_of_the_stored_files(folder: Path) -> None:
    assert {found.name.rpartition(".")[2]: found.size for found in find_logs(folder / "binlog.000001")} == {
        "000001": len(DATA)
    }


def test_name_with_wildcards_in_it_is_a_name_where_such_a_file_exists(folder: Path) -> None:
    (folder / "odd[1].000001").write_bytes(DATA)

    assert _names(find_logs(folder / "odd[1].000001")) == ["odd[1].000001"]


@pytest.mark.parametrize("name", ["binlog.000099", "nothing.*", "archive.000001", "missing.index"])
def test_name_of_nothing_is_an_os_error(folder: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        find_logs(folder / name)


def test_log_that_the_index_names_and_that_is_gone_is_an_os_error(folder: Path) -> None:
    (folder / "binlog.000010").unlink()

    with pytest.raises(FileNotFoundError):
        find_logs(folder / "binlog.index")


# ------------------------------------------------------------------------------------------------------ file contents


@pytest.mark.parametrize("name", ALL)
def test_plain_bytes_come_out_however_the_file_is_stored(folder: Path, name: str) -> None:
    assert _read(folder / name) == DATA


def test_compression_is_told_by_content_and_not_by_name(folder: Path) -> None:
    (folder / "binlog.000020").write_bytes(gzip.compress(DATA[:50]) + gzip.compress(DATA[50:]))
    (folder / "binlog.000021.gz").write_bytes(DATA)

    assert _read(folder / "binlog.000020") == DATA
    assert _read(folder / "binlog.000021.gz") == DATA


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress, lambda data: compress_zstd(data, 3)])
def test_file_object_is_read_and_stays_open(pack: Any) -> None:
    stream = io.BytesIO(pack(DATA))

    assert _read(stream) == DATA
    assert not stream.closed


def test_pipe_needs_no_seek() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as writer:
        writer.write(DATA)
    with os.fdopen(read_end, "rb") as reader:
        assert _read(reader) == DATA


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: compress_zstd(data, 3)], ids=["gzip", "zstd"])
def test_compressed_file_that_ends_early_is_refused(folder: Path, pack: Any) -> None:
    packed = pack(DATA)
    for size in range(4, len(packed), 7):
        (folder / "cut.000001").write_bytes(packed[:size])
        with pytest.raises(BinlogFormatError, match=r"compressed|binary log"):
            _read(folder / "cut.000001")


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: compress_zstd(data, 3)], ids=["gzip", "zstd"])
def test_compressed_file_with_a_flipped_bit_is_refused_or_gives_bytes(folder: Path, pack: Any) -> None:
    """What the compression does not find, the events' own checksums do."""
    packed = pack(DATA)
    refused = 0
    for at in range(4, len(packed)):
        spoilt = bytearray(packed)
        spoilt[at] ^= 0x10
        (folder / "spoilt.000001").write_bytes(spoilt)
        try:
            _read(folder / "spoilt.000001")
        except BinlogFormatError:
            refused += 1
    assert refused > 0


def test_binary_log_inside_innodb_is_refused_by_content(folder: Path) -> None:
    (folder / "binlog-000000.ibb").write_bytes((0x010DFEFE).to_bytes(4, "little") + bytes(16384))

    with pytest.raises(UnsupportedFeature, match="InnoDB"):
        _read(folder / "binlog-000000.ibb")


def test_encrypted_file_without_a_key_says_what_it_needs(folder: Path) -> None:
    (folder / "encrypted.000001").write_bytes(b"\xfdbin\x01" + bytes(600))

    with pytest.raises(UnsupportedFeature, match="keyring=") as caught:
        _read(folder / "encrypted.000001")
    assert caught.value.file == str(folder / "encrypted.000001")


def test_empty_file_is_an_empty_stream(folder: Path) -> None:
    (folder / "empty.000001").touch()

    assert _read(folder / "empty.000001") == b""


# -------------------------------------------------------------------------------------------------- any other storage


@pytest.fixture
def store(folder: Path) -> fs.FileSystem:
    """A filesystem that is not the machine's, with the same files."""
    mock = fs._MockFileSystem()
    mock.create_dir("bucket/logs")
    for path in folder.iterdir():
        if path.is_file():
            with mock.open_output_stream(f"bucket/logs/{path.name}", compression=None) as stream:
                stream.write(path.read_bytes())
    return mock


@pytest.mark.parametrize("name", ALL)
def test_file_of_another_filesystem_is_read(store: fs.FileSystem, name: str) -> None:
    assert _read(f"bucket/logs/{name}", filesystem=store) == DATA


def test_names_on_another_filesystem_mean_what_they_mean_locally(store: fs.FileSystem) -> None:
    for name in ("bucket/logs", "bucket/logs/", "bucket/logs/binlog.*"):
        assert _names(find_logs(name, filesystem=store)) == ALL
    found = find_logs("bucket/logs/binlog.index", filesystem=store)
    assert _names(found) == ["binlog.000002", "binlog.000010"]
    assert [one.size for one in found] == [len(DATA)] * 2


@pytest.mark.parametrize("name", ["bucket/logs/binlog.000099", "bucket/logs/nothing.*", "bucket/nothing"])
def test_name_of_nothing_on_another_filesystem_is_an_os_error(store: fs.FileSystem, name: str) -> None:
    with pytest.raises(FileNotFoundError):
        find_logs(name, filesystem=store)


def test_local_filesystem_and_subtree_of_pyarrow(folder: Path) -> None:
    local = fs.LocalFileSystem()

    assert _names(find_logs(str(folder), filesystem=local)) == ALL
    assert _read("binlog.000003.gz", filesystem=fs.SubTreeFileSystem(str(folder), local)) == DATA


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ALL),
        ("/binlog.*", ALL),
        ("/binlog.00000?", ALL[:2]),
        ("/binlog.00000[12]", ALL[:2]),
        ("/binlog.000001", ALL[:1]),
    ],
)
def test_uri_names_files_and_wildcards(folder: Path, name: str, expected: list[str]) -> None:
    assert _names(find_logs(f"file://{folder}{name}")) == expected


def test_options_of_a_uri_are_no_wildcards() -> None:
    """`?region=` belongs to the store. Nothing is connected to."""
    with pytest.raises(UnsupportedFeature, match="unknown"):
        find_logs("unknown://bucket/binlog.000001?region=eu-west-1")


def test_uri_of_an_unknown_kind_says_what_to_do() -> None:
    with pytest.raises(UnsupportedFeature, match="pass filesystem="):
        find_logs("nosuch://bucket/binlog.000001")


def test_error_of_the_store_is_an_os_error(store: fs.FileSystem) -> None:
    (found,) = find_logs("bucket/logs/binlog.000001", filesystem=store)
    store.delete_file("bucket/logs/binlog.000001")

    with pytest.raises((OSError, pa.ArrowException)):
        found.open()
