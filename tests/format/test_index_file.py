"""The index file, and the names of logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlogio.errors import BinlogFormatError
from binlogio.storage.index_file import is_index_file, log_number, next_log_name, read_index
from corpus import MYSQL


def test_index_of_a_real_server_is_read_in_its_order() -> None:
    assert read_index(MYSQL / "rotated" / "binlog.index") == [f"./binlog.00000{number}" for number in range(1, 5)]


@pytest.mark.parametrize(
    "names",
    [[], ["./binlog.000001"], ["/var/log/mysql/b.000001", "./b.000002"], ["./b\udce9.000001", "./with space.000001"]],
)
def test_names_are_read_as_they_stand_there(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "binlog.index"
    path.write_bytes("\n".join([*names, "./last.000009"]).encode("utf-8", "surrogateescape"))

    assert read_index(path) == [*names, "./last.000009"]


def test_missing_index_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_index(tmp_path / "binlog.index")


def test_logs_sort_by_number_and_not_by_text() -> None:
    names = ["binlog.1000000", "binlog.000002.gz", "binlog.999999", "b/a.000010", "a.000001", "binlog.000002", "notes"]

    assert sorted(names, key=log_number) == [
        "a.000001",
        "b/a.000010",
        "binlog.000002",
        "binlog.000002.gz",
        "binlog.999999",
        "binlog.1000000",
        "notes",
    ]


@pytest.mark.parametrize(
    ("name", "following"),
    [
        ("binlog.000001", "binlog.000002"),
        ("binlog.999999", "binlog.1000000"),
        ("a.000007.000009", "a.000007.000010"),
        ("dir.000001/b.000001", "dir.000001/b.000002"),
    ],
)
def test_next_log_counts_on(name: str, following: str) -> None:
    assert next_log_name(name) == following


@pytest.mark.parametrize("name", ["binlog", "binlog.", "binlog.x", "binlog.000001.gz", ""])
def test_log_without_a_number_has_no_next_one(name: str) -> None:
    with pytest.raises(BinlogFormatError):
        next_log_name(name)


def test_index_files_are_known_by_their_ending() -> None:
    assert is_index_file(Path("x/binlog.index"))
    assert is_index_file("s3://bucket/binlog.index")
    assert not is_index_file("binlog.000001")
