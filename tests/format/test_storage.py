"""What users name becomes files in order, and files become plain bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import fs

import binlogio
from binlogio.constants import BINLOG_MAGIC
from binlogio.errors import BadMagic, BinlogFormatError, UnsupportedFeature
from binlogio.storage import LaterLogs, base_name
from binlogio.storage.compression import compress_zstd
from binlogio.storage.log_file import LogFile
from binlogio.storage.sources import find_logs
from logs import log, stop, transaction

if TYPE_CHECKING:
    from binlogio.storage.sources import Source

DATA = log(*transaction(1), stop())
PACKED: dict[str, Any] = {
    "gzip": gzip.compress,
    "zstd": lambda data: compress_zstd(data, 3),
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with logs of a server, its index file, and a file that is not a log."""
    for name in ("binlog.000002", "binlog.000001", "binlog.000010"):
        (tmp_path / name).write_bytes(DATA)
    (tmp_path / "binlog.000003.gz").write_bytes(gzip.compress(DATA))
    (tmp_path / "binlog.000004.zst").write_bytes(compress_zstd(DATA, 3))
    (tmp_path / "binlog.000005.xz").write_bytes(lzma.compress(DATA))
    (tmp_path / "binlog.000006.bz2").write_bytes(bz2.compress(DATA))
    (tmp_path / "binlog.index").write_text("./binlog.000002\n./binlog.000010\n")
    (tmp_path / "notes.txt").write_text("not a log")
    (tmp_path / "mysqld.log.1.gz").write_bytes(gzip.compress(b"2026-11-22 ready for connections\n"))
    (tmp_path / "mysqld.log.2.xz").write_bytes(lzma.compress(b""))
    (tmp_path / "slow.log.bz2").write_bytes(bz2.compress(b"# Time: 2026-11-22\n"))
    (tmp_path / "binlog.state").write_text("0-1-2\n")
    (tmp_path / "binlog.000001.idx").write_bytes(b"\xfe\xfe\x0c\x01" + bytes(60))
    (tmp_path / "binlog.~rec~").touch()
    (tmp_path / "archive.000001").mkdir()
    return tmp_path


def _names(logs: list[LogFile]) -> list[str]:
    return [log.name.rpartition("/")[2] for log in logs]


ALL = [
    *("binlog.000001", "binlog.000002", "binlog.000003.gz", "binlog.000004.zst"),
    *("binlog.000005.xz", "binlog.000006.bz2", "binlog.000010"),
]


def _read(source: Source, **options: Any) -> bytes:
    (found,) = find_logs(source, **options)
    return _content(found)


def _content(found: LogFile) -> bytes:
    opened = found.open()
    try:
        data = b""
        while piece := opened.read(100):
            data += piece
        return data
    finally:
        opened.close()


@pytest.mark.parametrize("encoding", PACKED)
def test_no_bytes_can_be_read_from_a_compressed_log(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(PACKED[encoding](DATA))
    (found,) = find_logs(path)
    opened = found.open()

    read = [opened.read(size) for size in (10, 0, len(DATA), 0)]
    opened.close()
    assert read == [DATA[:10], b"", DATA[10:], b""]


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


def test_member_of_a_directory_is_a_log_by_its_content_whatever_its_name(tmp_path: Path) -> None:
    """Compressed or not; a compressed file that is broken may be one, so it is not passed over."""
    for name, content in (
        ("archive", DATA),
        ("no-suffix", gzip.compress(DATA)),
        ("wrong.gz", bz2.compress(DATA)),
        ("encrypted.zst", compress_zstd(b"\xfdbin" + bytes(600), 3)),
        ("broken.gz", gzip.compress(DATA)[:12]),
    ):
        (tmp_path / name).write_bytes(content)

    assert sorted(_names(find_logs(tmp_path))) == ["archive", "broken.gz", "encrypted.zst", "no-suffix", "wrong.gz"]


@pytest.mark.parametrize("name", ["binlog.000007", "binlog.000007.gz"])
@pytest.mark.parametrize("content", [b"", b"\xfe", bytes(4096), b"some text"])
def test_member_of_a_series_of_logs_is_never_passed_over(folder: Path, name: str, content: bytes) -> None:
    """A log that lost its content is an error when it is read, and no gap."""
    (folder / name).write_bytes(content)
    found = find_logs(folder)

    assert _names(found) == [*ALL[:-1], name, ALL[-1]]


def test_index_file_gives_its_own_order(folder: Path) -> None:
    assert _names(find_logs(folder / "binlog.index")) == ["binlog.000002", "binlog.000010"]


def test_logs_of_an_index_file_that_a_list_names_too_are_there_once(folder: Path) -> None:
    """A shell's `binlog.*` names the logs and the index file: everything was read twice."""
    named = [folder / "binlog.000001", folder / "binlog.000002"]

    assert _names(find_logs([*named, folder / "binlog.index"])) == ["binlog.000001", "binlog.000002", "binlog.000010"]
    assert _names(find_logs([folder / "binlog.index", *named])) == ["binlog.000010", "binlog.000001", "binlog.000002"]


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


PURGER = """
import sys
import time
from itertools import count
from pathlib import Path

folder = Path(sys.argv[1])

def write_index(names):
    (folder / "new").write_text("".join(f"./{name}\\n" for name in names))
    (folder / "new").rename(folder / "purged.index")

for start in count():
    names = [f"purged.{start * 500 + number:06d}" for number in range(500)]
    for name in names:
        (folder / name).write_bytes(b"\\xfebin")
    write_index([*names, "binlog.000010"])
    if not start:
        print("ready", flush=True)
    time.sleep(0.005)
    write_index(["binlog.000010"])
    for name in reversed(names):
        (folder / name).unlink()
"""


def _purge_while_it_is_read(folder: Path, source: Path | str) -> None:
    """Another process purges as a server does: a new index first, then the files are removed."""
    with subprocess.Popen([sys.executable, "-c", PURGER, str(folder)], stdout=subprocess.PIPE) as purger:
        try:
            assert purger.stdout is not None
            assert purger.stdout.readline() == b"ready\n"
            for _ in range(300):
                assert _names(find_logs(source))[-1] == "binlog.000010"
        finally:
            purger.kill()


def test_log_that_is_purged_while_its_index_is_read_is_left_out(folder: Path) -> None:
    """The server takes its name out of the index before it removes the file."""
    _purge_while_it_is_read(folder, folder / "purged.index")


def test_an_index_without_logs_is_an_error_unless_other_logs_are_given(folder: Path) -> None:
    empty = folder / "empty.index"
    empty.write_text("\n")
    for source in (empty, [str(empty)]):
        with pytest.raises(FileNotFoundError, match="the index file lists no log") as caught:
            find_logs(source)

        assert caught.value.filename == str(empty)
    assert len(find_logs([empty, folder / "binlog.000010"])) == 1


def test_missing_log_of_an_index_names_the_log_and_the_index(folder: Path) -> None:
    """The index still names it, so it was not purged."""
    (folder / "binlog.000010").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        find_logs(folder / "binlog.index")

    assert caught.value.filename == str(folder / "binlog.000010")
    assert str(folder / "binlog.index") in str(caught.value)


def test_index_file_may_name_logs_outside_its_folder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """As a server opens them."""
    other = tmp_path_factory.mktemp("other")
    (other / "binlog.000077").write_bytes(DATA)
    (folder / "other.index").write_text(f"../{other.name}/binlog.000077\n{other}/binlog.000077\n")

    assert [_content(found) for found in find_logs(folder / "other.index")] == [DATA, DATA]


@pytest.mark.parametrize("entry", ["pipe", "archive.000001", "."])
def test_index_entry_that_is_not_a_file_is_refused(folder: Path, entry: str) -> None:
    """To open a pipe would wait for ever."""
    os.mkfifo(folder / "pipe")
    (folder / "binlog.index").write_text(f"./binlog.000002\n./{entry}\n")
    with pytest.raises(BinlogFormatError, match="is not a regular file"):
        find_logs(folder / "binlog.index")


@pytest.mark.parametrize("content", [b"./binlog\0.000002\n", bytes(100), b"binlog.000002" * (6 << 20)])
def test_index_file_that_cannot_be_one_is_refused(folder: Path, content: bytes) -> None:
    (folder / "binlog.index").write_bytes(content)
    with pytest.raises((BinlogFormatError, OSError)):
        find_logs(folder / "binlog.index")


@pytest.mark.parametrize("pack", [bytes, *PACKED.values()], ids=["plain", *PACKED])
def test_error_shows_no_bytes_of_a_file_that_is_no_log(folder: Path, pack: Any) -> None:
    """An index may name any file that the reader may open."""
    (folder / "secret").write_bytes(pack(b"sh4dow:$6$salt$hash:20000:0:99999:7:::\n" * 20))
    (folder / "binlog.index").write_text("../../../../../../.." + str(folder / "secret") + "\n")
    for read in (
        lambda: list(binlogio.open(folder / "binlog.index")),
        lambda: list(binlogio.read_tables(folder / "binlog.index")),
    ):
        with pytest.raises(BadMagic) as caught:
            read()

        assert caught.value.found == "text"
        assert "sh4dow" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------ file contents


@pytest.mark.parametrize("name", ALL)
def test_plain_bytes_come_out_however_the_file_is_stored(folder: Path, name: str) -> None:
    assert _read(folder / name) == DATA


def test_compression_is_told_by_content_and_not_by_name(folder: Path) -> None:
    (folder / "binlog.000020").write_bytes(gzip.compress(DATA[:50]) + gzip.compress(DATA[50:]))
    (folder / "binlog.000021.gz").write_bytes(DATA)

    assert _read(folder / "binlog.000020") == DATA
    assert _read(folder / "binlog.000021.gz") == DATA


@pytest.mark.parametrize("pack", [bytes, *PACKED.values()], ids=["plain", *PACKED])
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


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_file_of_several_compressed_streams_is_one_log(folder: Path, pack: Any) -> None:
    """As `cat` or a parallel compressor makes it."""
    (folder / "parts.000001").write_bytes(pack(DATA[:50]) + pack(DATA[50:60]) + pack(b"") + pack(DATA[60:]))

    assert _read(folder / "parts.000001") == DATA


def test_padding_after_an_xz_stream_is_no_data(folder: Path) -> None:
    (folder / "padded.000001").write_bytes(
        lzma.compress(DATA[:50]) + bytes(8) + lzma.compress(DATA[50:]) + bytes(1 << 20)
    )

    assert _read(folder / "padded.000001") == DATA


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress], ids=["xz", "bzip2"])
def test_other_bytes_after_a_compressed_stream_are_refused(folder: Path, pack: Any) -> None:
    """They may be the rest of the log."""
    (folder / "parts.000001").write_bytes(pack(DATA[:50]) + b"other bytes")

    with pytest.raises(BinlogFormatError, match="compressed"):
        _read(folder / "parts.000001")


def test_xz_file_that_needs_too_much_memory_is_refused(folder: Path) -> None:
    """A header may ask for a dictionary of up to 4 GiB; `xz -9` has one of 64 MiB."""
    (folder / "best.000001").write_bytes(lzma.compress(DATA, preset=9))
    packed = bytearray(lzma.compress(DATA, preset=9))
    at = packed.index(b"\x21\x01\x1c")  # LZMA2, one byte of properties: 64 MiB
    packed[at + 2] = 0x28  # 4 GiB
    head = packed[12 : 12 + (packed[12] + 1) * 4 - 4]
    packed[12 + len(head) : 16 + len(head)] = zlib.crc32(head).to_bytes(4, "little")
    (folder / "huge.000001").write_bytes(packed)

    assert _read(folder / "best.000001") == DATA
    with pytest.raises(BinlogFormatError, match="Memory usage limit"):
        _read(folder / "huge.000001")


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_compressed_file_that_ends_early_is_refused(folder: Path, pack: Any) -> None:
    packed = pack(DATA)
    for size in range(12, len(packed), 7):
        (folder / "cut.000001").write_bytes(packed[:size])
        with pytest.raises(BinlogFormatError, match=r"compressed|binary log"):
            _read(folder / "cut.000001")


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
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
    """Provide a filesystem that is not the machine's, with the same files."""
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


def test_index_on_another_filesystem_with_a_missing_log_is_an_os_error(store: fs.FileSystem) -> None:
    store.delete_file("bucket/logs/binlog.000010")
    with pytest.raises(FileNotFoundError) as caught:
        find_logs("bucket/logs/binlog.index", filesystem=store)

    assert caught.value.filename == "bucket/logs/binlog.000010"


def test_log_that_is_purged_while_its_index_is_read_elsewhere_is_left_out(folder: Path) -> None:
    _purge_while_it_is_read(folder, f"file://{folder}/purged.index")


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
    with pytest.raises(UnsupportedFeature, match="filesystem="):
        find_logs("nosuch://bucket/binlog.000001")


def test_error_of_the_store_is_an_os_error(store: fs.FileSystem) -> None:
    (found,) = find_logs("bucket/logs/binlog.000001", filesystem=store)
    store.delete_file("bucket/logs/binlog.000001")

    with pytest.raises((OSError, pa.ArrowException)):
        found.open()


def test_list_passes_over_the_gtid_index_of_a_log_in_it(folder: Path) -> None:
    """A shell makes it of `binlog.0*`. The index of a log that is not in the list was asked for."""
    first, second = str(folder / "binlog.000001"), folder / "binlog.000002"

    assert _names(find_logs([first, folder / "binlog.000001.idx", second])) == ["binlog.000001", "binlog.000002"]
    assert _names(find_logs([folder / "binlog.000001.idx", second])) == ["binlog.000001.idx", "binlog.000002"]


def test_an_empty_name_is_not_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "binlog.000001").write_bytes(log(stop()))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(FileNotFoundError, match="No such file or directory: ''"):
        find_logs("")


def test_a_symbolic_link_to_another_log_of_the_directory_is_not_a_second_log(tmp_path: Path) -> None:
    """A link to a log in another directory is one; a link of a series to a missing file is an error."""
    (tmp_path / "other").mkdir()
    for name in ("binlog.000001", "other/binlog.000002"):
        (tmp_path / name).write_bytes(log(stop()))
    (tmp_path / "current").symlink_to("binlog.000001")
    (tmp_path / "binlog.000002").symlink_to("other/binlog.000002")
    found = [Path(one.name).name for one in find_logs(tmp_path)]
    (tmp_path / "binlog.000003").symlink_to("other/binlog.000003")

    assert found == ["binlog.000001", "binlog.000002"]
    with pytest.raises(FileNotFoundError, match=r"binlog\.000003"):
        find_logs(tmp_path)


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["directory", "filesystem of pyarrow"])
def test_later_logs_are_those_of_a_new_listing(scheme: str, tmp_path: Path) -> None:
    """A log that grew, the next log, a log of another series, and one that was purged."""
    folder = tmp_path / "logs"
    folder.mkdir()
    later = LaterLogs(f"{scheme}{folder}")
    seen: list[list[tuple[str, int | None]]] = []
    for names in ("a.000001 a.000002 a.000003", "a.000003", "a.000004", "b.000001", ""):
        for name in names.split():
            with (folder / name).open("ab") as file:
                file.write(BINLOG_MAGIC)
        if not names:
            (folder / "a.000003").unlink()
        os.utime(folder, (1_700_000_000, 1_700_000_000 + len(seen)))
        for _ in range(2):
            found = [(base_name(log.name), log.size) for log in later.since("a.000003")]
            seen.append(found)

    third, fourth, other = ("a.000003", 8), ("a.000004", 4), ("b.000001", 4)
    once = [[("a.000003", 4)], [third], [third, fourth], [third, fourth, other], [fourth, other]]
    assert seen == [found for found in once for _ in range(2)]
