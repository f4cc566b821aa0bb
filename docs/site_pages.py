"""The pages of the documentation site that are made from other files, for `mkdocs.yml`.

README, CONTRIBUTING, CHANGELOG and SECURITY are pages of the site although they are outside docs/; the list of
decisions and the reference of the Python API are made from the files that they list.

The page `notebook.md` is run: its plots come after the blocks that save them. It is made into a Jupyter notebook too.

`FrozenDataclasses` tells griffe, which reads the docstrings, that `binlogio.frozen.dataclass` makes a dataclass.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import griffe
from mkdocs.structure.files import File, Files

from binlogio import __version__
from binlogio_cli.main import COMMANDS, cli

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
OUTSIDE: Final = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
}
NOTEBOOK: Final = "notebook.md"
_BLOCK: Final = re.compile(r"^```(python|text)\n(.*?)^```$\n", re.MULTILINE | re.DOTALL)
_PLOT: Final = re.compile(r'savefig\("(\w+\.svg)"\)')
# The public names, in the order in which a reader of the page wants them.
PYTHON: Final = {
    "Read events": (
        "reader.open",
        "reader.BinlogReader",
        "format.groups.EventGroup",
        "selection.selection.Selection",
    ),
    "Read rows into Arrow": (
        "columnar.rows_reader.read_rows",
        "columnar.rows_reader.read_tables",
        "selection.event_filter.EventFilter",
        "selection.event_filter.Range",
        "selection.row_condition.RowCondition",
    ),
    "Archives": ("archive.scan.scan", "archive.export.run.export"),
    "Write": (
        "writer.BinlogWriter",
        "writer.Session",
        "writer.Statement",
        "writer.Insert",
        "writer.Update",
        "writer.Delete",
        "writer.batches.BatchSession",
        "writer.batches.BatchChange",
        "options.ServerVariables",
    ),
    "Tables": ("schema.TableDefinition", "schema.ColumnDefinition"),
    "GTIDs and positions": ("gtid.Gtid", "gtid.GtidSet", "options.Position", "options.Limits"),
    "Errors": ("errors",),
}


def on_config(config: MkDocsConfig) -> None:
    """Show the version and the source at the end of each page; with `repo_url`, pages would ask its host."""
    repository = os.environ.get("BINLOGIO_REPOSITORY")
    config.copyright = f"binlogio {__version__}" + (f' · <a href="{repository}">source</a>' if repository else "")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    pages = {page: _moved(ROOT / source) for page, source in OUTSIDE.items()}
    pages["reference/commands.md"] = _commands()
    pages["reference/python.md"] = _python()
    pages["decisions.md"] = _decisions()
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    text = (ROOT / "docs" / NOTEBOOK).read_text(encoding="utf-8")
    for name, plot in _plots(text).items():
        files.append(File.generated(config, name, content=plot))
    files.append(File.generated(config, "notebook.ipynb", content=json.dumps(_notebook(text), indent=1)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show the plots of the notebook after the blocks that save them."""
    if page.file.src_uri != NOTEBOOK:
        return markdown
    return _BLOCK.sub(
        lambda block: block[0] + "".join(f"\n![{name}]({name})\n" for name in _PLOT.findall(block[2])), markdown
    )


def _plots(text: str) -> dict[str, str]:
    """Run the blocks of the notebook, and return the plots that they save.

    Raises:
        CalledProcessError: a block fails.
    """
    code = "".join(block[2] for block in _BLOCK.finditer(text) if block[1] == "python")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "fixtures").symlink_to(ROOT / "fixtures")
        command = [sys.executable, "-c", code]
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - our own document
        return {name: (Path(folder) / name).read_text(encoding="utf-8") for name in _PLOT.findall(code)}


def _notebook(text: str) -> dict[str, object]:
    """Return the notebook in the format of Jupyter: cells of text and of code, without outputs."""
    cells: list[dict[str, object]] = []
    for number, part in enumerate(re.split(r"^```python\n(.*?)^```\n", text, flags=re.MULTILINE | re.DOTALL)):
        source = part if number % 2 else _BLOCK.sub("", part)
        cell: dict[str, object] = {"id": str(number), "metadata": {}, "source": source.strip()}
        if number % 2:
            cell |= {"cell_type": "code", "execution_count": None, "outputs": []}
        else:
            cell |= {"cell_type": "markdown"}
        if source.strip():
            cells.append(cell)
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def _moved(source: Path) -> str:
    """Return the text of a file of the project's folder, with the links that it has as a page of the site."""
    text = source.read_text(encoding="utf-8").replace("](docs/", "](")
    for page, other in OUTSIDE.items():
        text = text.replace(f"]({other})", f"]({page})")
    return re.sub(r"\[([^\]]+)\]\(LICENSE\)", r"\1", text)


def _commands() -> str:
    """Return the help of the commands, as it is printed."""
    parts = ["# Commands\n\n", "".join(f"* [{name}](#{name}): {what}\n" for name, what in sorted(COMMANDS.items()))]
    top = click.Context(cli, info_name="binlogio", terminal_width=100, max_content_width=100)
    for name in sorted(COMMANDS):
        command = cli.get_command(top, name)
        context = click.Context(command, info_name=name, parent=top, terminal_width=100, max_content_width=100)
        parts.append(f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "".join(parts)


def _python() -> str:
    parts = ["# Python\n\nThe names of `binlogio`, and the exceptions.\n"]
    for title, names in PYTHON.items():
        parts.append(f"\n## {title}\n")
        parts += [f"\n::: binlogio.{name}\n" for name in names]
    return "".join(parts)


def _decisions() -> str:
    """Return the list of the decisions, by their titles."""
    titles = {path.name: path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for path in _records()}
    return "# Decisions\n\n" + "".join(f"* [{title}](adr/{name})\n" for name, title in titles.items())


def _records() -> list[Path]:
    return sorted((ROOT / "docs" / "adr").glob("*.md"))


class FrozenDataclasses(griffe.Extension):
    """Reads the classes of `binlogio.frozen.dataclass` as dataclasses."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Resolve the name of the decorator to that of the standard library, in each module."""
        for module in (pkg, *pkg.modules.values()):
            decorator = module.members.get("dataclass")
            if isinstance(decorator, griffe.Alias) and decorator.target_path == "binlogio.frozen.dataclass":
                module.imports["dataclass"] = decorator.target_path = "dataclasses.dataclass"
            if module is not pkg:
                self.on_package(pkg=module)
