"""Man pages of all commands, made from their help by click-man: `make man`."""

from __future__ import annotations

import inspect
import sys
from importlib.metadata import version
from pathlib import Path

import click
from click_man.core import write_man_pages

from binlogio_cli.main import COMMANDS, cli

SUMMARY = "read, write, replay and undo the binary logs of MySQL and MariaDB"


def main(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    context = click.Context(cli)
    loaded = {}
    for name, summary in COMMANDS.items():
        command = cli.get_command(context, name)
        if command is not None:
            command.short_help = summary
            command.help = f"{inspect.cleandoc(command.help or '')}\n\n{command.epilog or ''}"
            loaded[name] = command
    about = f"{cli.help}\n\n{cli.epilog}"
    whole = click.Group("binlogio", commands=loaded, help=about, short_help=SUMMARY, params=cli.params)
    write_man_pages("binlogio", whole, version=version("binlogio"), target_dir=str(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
