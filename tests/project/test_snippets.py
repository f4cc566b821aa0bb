"""The snippets of README and docs: each document is run from top to bottom, and its outputs are compared.

    ```console   `$ command` is run by a shell; the lines after it are its output
    ```python    is run; the ```text block that follows at once is its output
    ```sh        is not run: it needs a server, installs something, or takes minutes. These blocks are counted
    other        tables, grammars and SQL, which are not run

A line `...` in an output matches any lines. A document runs in a folder with `fixtures/` and, except for README, which
writes them itself, with the logs of the demo in `data/`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from corpus import ROOT, SUPPORT
from pyspark_binlogio.java import require_java
from snippets import README, blocks_of, outputs, pattern_of

DOCUMENTS: Final = (
    README,
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")),
)
RUN: Final = ("console", "python")
PACKAGES: Final = ("pyspark", "deltalake", "pyiceberg", "polars", "fsspec", "aiohttp", "duckdb", "cryptography", "isal")
# Blocks that are not run, by document. A new one has to be counted here.
# Those of recipes are run by the tests with servers (test_recipes_servers.py).
NOT_RUN: Final = {
    "README.md": 5,
    "CONTRIBUTING.md": 2,
    "docs/command_line.md": 1,
    "docs/export.md": 1,
    "docs/serve.md": 1,
    "docs/spark_clusters.md": 2,
    "docs/undo.md": 1,
    "docs/recipes/columns_without_names.md": 2,
    "docs/recipes/managed_servers.md": 1,
    "docs/recipes/mariadb_to_mysql.md": 1,
    "docs/recipes/point_in_time_recovery.md": 4,
    "docs/recipes/who_deleted_rows.md": 1,
}


BLOCKS: Final = {document: blocks_of(document) for document in DOCUMENTS}
RUNNABLE: Final = [name for name, blocks in BLOCKS.items() if any(language in RUN for language, _, _ in blocks)]
WITH_SPARK: Final = [
    name for name in RUNNABLE if any(language in RUN and "spark" in block for language, block, _ in BLOCKS[name])
]


def test_every_block_has_a_language_and_those_that_are_not_run_are_counted() -> None:
    """A block without a language would neither be run nor counted."""
    unnamed = [(name, block) for name, blocks in BLOCKS.items() for language, block, _ in blocks if not language]
    not_run = Counter(name for name, blocks in BLOCKS.items() for language, _, _ in blocks if language == "sh")

    assert unnamed == []
    assert not_run == NOT_RUN


def environment(folder: Path, zone: str) -> dict[str, str]:
    """Return the environment of a document, with a program `binlogio` of this interpreter, which it writes."""
    program = folder / "bin" / "binlogio"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m binlogio "$@"\n')
    program.chmod(0o755)
    places = (ROOT, ROOT / "cli", ROOT / "spark_datasource", SUPPORT)
    return {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "COLUMNS": "120",
        "TZ": zone,
    }


@pytest.mark.slow
def test_the_tour_needs_no_optional_package(tmp_path: Path) -> None:
    """README, without its Spark, in an install that lacks them all; the workflows leave out one at a time."""
    done = subprocess.run(
        [sys.executable, SUPPORT / "snippets.py", README, ",".join(PACKAGES)],
        env=environment(tmp_path, "UTC"), stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "documents",
    [
        # One Spark for all that need it; it need not wait for the tests that share another one.
        pytest.param(WITH_SPARK, marks=(pytest.mark.spark, pytest.mark.xdist_group("snippets")), id="with Spark"),
        *(pytest.param([name], id=name) for name in RUNNABLE if name not in WITH_SPARK),
    ],
)
def test_snippets_print_what_the_document_shows(documents: list[str], tmp_path: Path) -> None:
    """In a process of its own, in whose folder Spark finds relative paths; the tour above is in another time zone."""
    if documents == WITH_SPARK:
        require_java()
    folder, result = tmp_path / "run", tmp_path / "outputs.json"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, __file__, str(result), *documents],
        cwd=folder,
        env=environment(tmp_path, "America/New_York"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text(encoding="utf-8"))

    assert len(found) == sum(language in RUN for one in documents for language, _, _ in BLOCKS[one])
    for shown, output in found:
        assert re.fullmatch(pattern_of(shown), output), output


if __name__ == "__main__":
    every = [one for document in sys.argv[2:] for one in outputs(document)]
    Path(sys.argv[1]).write_text(json.dumps(every), encoding="utf-8")
