"""The documentation site is built without a warning, and has a page for every document and an entry for every name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

import binlogio
from binlogio_cli.main import COMMANDS
from corpus import ROOT

if TYPE_CHECKING:
    from pathlib import Path

REPOSITORY: Final = "https://github.com/owner/name"
OTHERS: Final = {"KERNEL", "BinlogEvent", "RowsEvent", "GroupKind", "__version__"}  # a text, unions and an enumeration


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder],
        env={**os.environ, "BINLOGIO_REPOSITORY": REPOSITORY}, cwd=ROOT, check=True,
    )  # fmt: skip
    return folder


def test_every_document_is_a_page(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")]

    assert [str(page) for page in pages if not (site / page).exists()] == []


def test_pages_load_nothing_from_elsewhere_and_can_be_searched_as_files(site: Path) -> None:
    """Browsers refuse workers, which the search needs, in pages that are files: a script of the site replaces them."""
    text = (site / "recipes" / "managed_servers.html").read_text(encoding="utf-8")
    loaded = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"', text)
    scripts = [path for path in loaded if path.endswith("iframe-worker.js")]

    assert [path for path in loaded if not (site / "recipes" / path).is_file()] == []
    assert len(scripts) == 1
    assert (site / "search" / "search_index.js").read_text(encoding="utf-8").startswith("var __index = ")
    assert f'binlogio {binlogio.__version__} · <a href="{REPOSITORY}">source</a>' in text
    assert 'data-md-component="source"' not in text


def test_every_command_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "commands.html").read_text(encoding="utf-8")

    assert [name for name in COMMANDS if f'id="{name}"' not in text] == []


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")

    assert [name for name in binlogio.__all__ if name not in OTHERS and f'.{name}"' not in text] == []


def test_the_notebook_shows_its_plots_and_is_one_of_jupyter(site: Path) -> None:
    page = (site / "notebook.html").read_text(encoding="utf-8")
    plots = re.findall(r'<img alt="\w+\.svg" src="(\w+\.svg)"', page)
    cells = json.loads((site / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    code = "".join(cell["source"] for cell in cells if cell["cell_type"] == "code")

    assert plots == re.findall(r'savefig\("(\w+\.svg)"\)', code)
    assert len(plots) == 3
    assert all((site / plot).read_text(encoding="utf-8").rstrip().endswith("</svg>") for plot in plots)
    assert not any("```" in cell["source"] for cell in cells)
