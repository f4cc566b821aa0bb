"""Publication of several logs by their index: all of them or none, for writers after a crash and for readers."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.storage import find_logs, find_logs_below
from binlogio.storage.log_index import LogIndex, new_name
from binlogio.storage.log_storage import LocalStorage, LogStorage
from binlogio.storage.new_file import rename_new
from corpus import MYSQL
from crashing_storage import Crash, CrashingStorage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG: Final = (MYSQL / "rotated" / "binlog.000001").read_bytes()
NEW: Final = ("binlog.000002", "binlog.000003", "binlog.000004")


def stage(storage: LogStorage, names: tuple[str, ...], data: bytes = b"new") -> None:
    """Write new logs under their temporary names."""
    for name in names:
        storage.create(new_name(name))
        storage.append(new_name(name), data)
        storage.sync(new_name(name))
        storage.close(new_name(name))


def opened(storage: LogStorage, *old: str) -> LogIndex:
    """Return the index of logs with the content "old"."""
    index = LogIndex("binlog", storage)
    index.open()
    for name in old:
        storage.create(name)
        storage.append(name, b"old")
        storage.sync(name)
        storage.close(name)
    if old:
        index.replace(old)
    storage.sync_names()
    return index


def publish(storage: LogStorage, index: LogIndex, names: tuple[str, ...] = NEW, removes: tuple[str, ...] = ()) -> None:
    def place() -> Iterator[str]:
        for name in names:
            yield name
            storage.rename(new_name(name), name)

    index.publish(names, place(), [*(name for name in index.names if name not in removes), *names], removes)


def contents(storage: LogStorage) -> dict[str, bytes]:
    return {name: storage.read(name) for name in sorted(storage.names())}


def steps() -> Iterator[tuple[int, int]]:
    """Yield the number of an operation and a seed, without an end."""
    return ((stop_at, seed) for stop_at in itertools.count(1) for seed in range(4))


def index_of(*names: str) -> bytes:
    return "".join(f"./{name}\n" for name in names).encode()


@pytest.mark.parametrize("old", [(), ("binlog.000001",)], ids=["without an index", "after other logs"])
@pytest.mark.parametrize("is_replacing", [False, True])
def test_crash_leaves_all_new_logs_or_none(old: tuple[str, ...], *, is_replacing: bool) -> None:
    """At any operation, on a disk that forgets what was not synced."""
    removes = old if is_replacing else ()
    kept = tuple(name for name in old if name not in removes)
    before = dict.fromkeys(old, b"old") | ({"binlog.index": index_of(*old)} if old else {})
    after = dict.fromkeys(kept, b"old") | dict.fromkeys(NEW, b"new") | {"binlog.index": index_of(*kept, *NEW)}
    seen = set()
    for stop_at, seed in steps():
        disk = CrashingStorage(Random(seed))
        index = opened(disk, *old)
        stage(disk, NEW)
        disk.sync_names()
        done, disk.stop_at = disk.operations, disk.operations + stop_at
        try:
            publish(disk, index, removes=removes)
        except Crash:
            disk = disk.after_crash(Random(seed))
            LogIndex("binlog", disk).open()
        left = contents(disk)
        seen.add("binlog.000002" in left)

        assert left in (before, after), (stop_at, seed)
        if disk.stop_at is not None and disk.operations < done + stop_at:
            break
    assert seen == {False, True}
    assert stop_at > 10


def test_crash_leaves_all_overwritten_logs_or_none() -> None:
    """At any operation, on a disk that forgets what was not synced; one of the logs is a new one."""
    old = ("binlog.000001", "binlog.000002", "binlog.000003")
    before = dict.fromkeys(old, b"old") | {"binlog.index": index_of(*old)}
    after = {"binlog.000001": b"old"} | dict.fromkeys(NEW, b"new") | {"binlog.index": index_of(*NEW)}
    seen = set()
    for stop_at, seed in steps():
        disk = CrashingStorage(Random(seed))
        index = opened(disk, *old)
        stage(disk, NEW)
        done, disk.stop_at = disk.operations, disk.operations + stop_at
        try:
            index.overwrite(NEW)
        except Crash:
            disk = disk.after_crash(Random(seed))
            LogIndex("binlog", disk).open()
        left = contents(disk)
        seen.add("binlog.000004" in left)

        assert left in (before, after), (stop_at, seed)
        if disk.stop_at is not None and disk.operations < done + stop_at:
            break
    assert seen == {False, True}
    assert stop_at > 10


def test_file_of_another_program_is_kept(tmp_path: Path) -> None:
    """It has the name of a new log; nothing is published, and a later recovery does not remove it."""
    storage = LocalStorage(tmp_path)
    index = opened(storage, "binlog.000001")
    stage(storage, NEW)
    (tmp_path / "binlog.000003").write_bytes(b"other")
    with pytest.raises(FileExistsError, match=r"binlog\.000003"):
        publish(storage, index)
    LogIndex("binlog", storage).open()

    assert contents(storage) == {
        "binlog.000001": b"old",
        "binlog.000003": b"other",
        "binlog.index": index_of("binlog.000001"),
    }


def test_file_that_another_program_makes_meanwhile_is_kept(tmp_path: Path) -> None:
    """It appears after the check of the names; the other new logs are removed, and the register forgets it."""
    storage = LocalStorage(tmp_path)
    index = opened(storage, "binlog.000001")
    stage(storage, NEW)

    def place() -> Iterator[str]:
        for name in NEW:
            yield name
            if name == "binlog.000003":
                (tmp_path / name).write_bytes(b"other")
            rename_new(tmp_path / new_name(name), tmp_path / name)

    with pytest.raises(FileExistsError):
        index.publish(NEW, place(), ["binlog.000001", *NEW])
    LogIndex("binlog", storage).open()

    assert contents(storage) == {
        "binlog.000001": b"old",
        "binlog.000003": b"other",
        "binlog.index": index_of("binlog.000001"),
    }


def test_new_index_that_a_power_failure_has_cut_is_not_taken() -> None:
    """It ends after the first of the logs that are being added, which are removed then."""
    storage = CrashingStorage(Random(0))
    index = LogIndex("binlog", storage)
    index.register(NEW)
    stage(storage, NEW)
    for name in NEW:
        storage.rename(new_name(name), name)
    storage.create("binlog.index_crash_safe")
    storage.append("binlog.index_crash_safe", index_of(NEW[0]))
    LogIndex("binlog", storage).open()

    assert storage.names() == []


def test_an_index_with_a_zero_byte_is_refused() -> None:
    """As a power failure may leave it; no log is opened by such a name."""
    storage = CrashingStorage(Random(0))
    opened(storage, "binlog.000001")
    storage.append("binlog.index", b"\0\0./binlog.000001\0\n")
    with pytest.raises(BinlogFormatError, match=r"binlog.index: at 16: .* zero byte .*repair --index"):
        LogIndex("binlog", storage).open()


def test_second_writer_of_the_logs_is_refused(tmp_path: Path) -> None:
    """The lock of the first one ends with it."""
    index = LogIndex("binlog", LocalStorage(tmp_path))
    index.lock()
    other = LogIndex("binlog", LocalStorage(tmp_path))
    with pytest.raises(WriterStateError, match="another writer has these logs open"):
        other.lock()
    index.unlock()
    other.lock()
    other.unlock()

    assert list(tmp_path.iterdir()) == []


def reading(folder: Path) -> list[str]:
    """Return the names of the logs that readers find in a directory, in a glob, and in a list of its files."""
    ways = [str(folder), f"{folder}/binlog.0*", [str(path) for path in sorted(folder.glob("binlog.0*"))]]
    found = [[log.name.rpartition("/")[2] for log in find_logs(way)] for way in ways]
    assert found == found[:1] * 3
    return found[0]


def filled(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_readers_ignore_logs_that_are_being_added_or_removed(tmp_path: Path) -> None:
    """Those that the register has and the index does not; an incomplete line of the register is ignored, too."""
    logs = dict.fromkeys(("binlog.000001", "binlog.000002", "binlog.000003"), LOG)
    register = {"binlog.~rec~": b"./binlog.000002\n./binlog.000003\n./binl"}
    listed = {"binlog.index": index_of("binlog.000001", "binlog.000002")}

    assert reading(filled(tmp_path / "adding", {**logs, **register})) == ["binlog.000001"]
    assert reading(filled(tmp_path / "removing", {**logs, **register, **listed})) == ["binlog.000001", "binlog.000002"]


def test_readers_ignore_files_of_commands_that_run_or_were_killed(tmp_path: Path) -> None:
    """Their temporary names, also of directories; a directory without other logs is an error that says so."""
    side = ".binlogio-0123456789abcdef.part"
    folder = filled(tmp_path / "logs", {"binlog.000001": LOG, new_name("binlog.000002"): LOG, side: LOG})
    alone = filled(tmp_path / "alone", {new_name("binlog.000002"): LOG})
    below = filled(tmp_path / "below", {"binlog.000001": LOG})
    filled(below / side, {"binlog.000002": LOG})

    assert reading(folder) == ["binlog.000001"]
    assert [log.name for log in find_logs_below(str(below))] == [str(below / "binlog.000001")]
    with pytest.raises(FileNotFoundError, match="is running, or was stopped") as caught:
        find_logs(str(alone))
    assert caught.value.filename == str(alone)


def test_readers_refuse_logs_that_are_being_overwritten(tmp_path: Path) -> None:
    """The new index is complete and the index is gone; the next writer renames the rest."""
    files = {"binlog.000001": LOG, new_name("binlog.000002"): LOG, "binlog.index_crash_safe": index_of("binlog.000001")}
    folder = filled(tmp_path / "logs", files)
    for way in (str(folder), f"{folder}/binlog.0*", [str(folder / "binlog.000001")]):
        with pytest.raises(BinlogFormatError, match="some logs of this directory are old and others new"):
            find_logs(way)
    (folder / "binlog.index_crash_safe").write_bytes(index_of("binlog.000001", "binlog.000002"))
    LogIndex("binlog", LocalStorage(folder)).open()

    assert reading(folder) == ["binlog.000001", "binlog.000002"]
