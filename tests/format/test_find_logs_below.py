"""Logs below a directory: all of them are found, or the search fails."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from binlogio.storage import find_logs_below
from corpus import MYSQL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("missing_ok", [False, True])
def test_a_link_to_a_missing_log_does_not_hide_the_others(tmp_path: Path, missing_ok: bool) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    shutil.copy(MYSQL / "rotated" / "binlog.000001", folder)

    assert [log.name for log in find_logs_below(str(tmp_path))] == [str(folder / "binlog.000001")]
    (folder / "binlog.000002").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="000002"):
        list(find_logs_below(str(tmp_path), missing_ok=missing_ok))


def test_a_missing_directory_is_an_error_unless_it_may_be_missing(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")

    assert list(find_logs_below(missing, missing_ok=True)) == []
    with pytest.raises(FileNotFoundError):
        list(find_logs_below(missing))
