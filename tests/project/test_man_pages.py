"""Man pages say what `--help` says: a page for each command, with all of its options."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click

from binlogio_cli.main import COMMANDS, cli
from corpus import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def test_each_command_has_a_man_page_with_its_options(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "docs" / "man_pages.py", tmp_path], check=True, timeout=120)

    context = click.Context(cli)
    for name, summary in COMMANDS.items():
        page = (tmp_path / f"binlogio-{name}.1").read_text(encoding="utf-8").replace("\\", "")
        command = cli.get_command(context, name)
        assert command is not None
        shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        assert [one.opts[-1] for one in shown if one.opts[-1] not in page] == []
        assert summary in page
        assert "Example" in page
    assert "130" in (tmp_path / "binlogio.1").read_text(encoding="utf-8")  # the exit codes
