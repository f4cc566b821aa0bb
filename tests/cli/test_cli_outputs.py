"""Output goes to local files: an object store is refused by name, before anything is read or written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from binlogio import BinlogWriter
from binlogio.archive.export import export
from binlogio.errors import UnsupportedFeature
from binlogio_cli.main import cli
from corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

LOG = FIXTURES / "mysql97" / "incident" / "binlog.000001"
DOORS = {
    "export": ["--to", "TO"],
    "copy": ["--out", "TO"],
    "copy -o": ["-o", "TO"],
    "repair": ["--out", "TO"],
    "dump": ["-r", "TO"],
    "undo": ["-o", "TO"],
    "undo --to-binlog": ["--to-binlog", "TO"],
    "stats": ["--html", "TO"],
    "schema": ["-o", "TO"],
    "schema --save": ["--save", "TO"],
    "write": ["--out", "TO"],
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("place", ["s3://bucket/x", "gs://bucket/x", "file://host/x"])
def test_a_store_is_refused(door: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = str(FIXTURES / "demo" / "shop.jsonl")
    command = [door.partition(" ")[0], *(place if one == "TO" else one for one in DOORS[door])]
    result = CliRunner().invoke(cli, [*command, script if door == "write" else str(LOG)])

    assert result.exit_code == 2
    assert place in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("door", ["export", "copy", "dump", "schema"])
def test_a_file_uri_is_a_path(door: str, tmp_path: Path) -> None:
    place = tmp_path / "a place"
    command = [door, *(place.as_uri() if one == "TO" else one for one in DOORS[door])]

    assert CliRunner().invoke(cli, [*command, str(LOG)]).exit_code == 0
    assert place.exists()


def test_python_refuses_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for door in (lambda: export(LOG, "s3://bucket/x"), lambda: BinlogWriter("s3://bucket/binlog")):
        with pytest.raises(UnsupportedFeature, match="local files only"):
            door()
    assert list(tmp_path.iterdir()) == []
