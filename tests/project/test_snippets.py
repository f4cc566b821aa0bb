"""The snippets of README and docs: each document is run from top to bottom, and its outputs are compared.

    ```console   `$ command` is run by a shell; the lines after it are its output
    ```python    is run; the ```text block that follows at once is its output
    ```sh        is not run: it needs a server, installs something, or takes minutes. These blocks are counted
    other        tables, grammars and SQL, which are not run

A line `...` in an output matches any lines. A document runs in a folder with `fixtures/` and, except for README, which
writes them itself, with the logs of the demo in `data/`.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

from corpus import ROOT, SUPPORT
from pyspark_binlogio.java import require_java

README: Final = "README.md"
DOCUMENTS: Final = (
    README,
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")),
)
RUN: Final = ("console", "python")
# Blocks that are not run, by document. A new one has to be counted here.
# Those of recipes are run by the tests with servers (test_recipes_servers.py).
NOT_RUN: Final = {
    "README.md": 4,
    "CONTRIBUTING.md": 2,
    "docs/command_line.md": 1,
    "docs/spark_clusters.md": 2,
    "docs/undo.md": 1,
    "docs/recipes/columns_without_names.md": 2,
    "docs/recipes/mariadb_to_mysql.md": 1,
    "docs/recipes/point_in_time_recovery.md": 4,
    "docs/recipes/who_deleted_rows.md": 1,
}
WRITE_THE_LOGS: Final = "binlogio write fixtures/demo/shop.jsonl -o data"


def blocks_of(document: str) -> list[tuple[str, str, bool]]:
    """Return language and text of the fenced blocks, and whether the block before ends directly above."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found: list[tuple[str, str, bool]] = []
    end = -1
    for match in re.finditer(r"^```([^\n]*)\n(.*?)^```$\n*", text, re.MULTILINE | re.DOTALL):
        found.append((match[1], match[2], match.start() == end))
        end = match.end()
    return found


BLOCKS: Final = {document: blocks_of(document) for document in DOCUMENTS}
RUNNABLE: Final = [name for name, blocks in BLOCKS.items() if any(language in RUN for language, _, _ in blocks)]
WITH_SPARK: Final = [
    name for name in RUNNABLE if any(language in RUN and "spark" in block for language, block, _ in BLOCKS[name])
]


def run_shell(command: str) -> str:
    """Return what a command prints, on standard output and then on standard error."""
    # The commands are from our own documents.
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout + done.stderr


def run_console(block: str) -> str:
    """Return the block with the output that its commands have now."""
    commands = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
    return "".join(f"$ {command}\n{run_shell(command)}" for command in commands)


def run_python(block: str, names: dict[str, Any], document: str) -> str:
    """Return what a block prints; its names stay in `names`."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block, document, "exec"), names)  # noqa: S102 - our own documents
    return printed.getvalue()


def outputs(document: str) -> list[tuple[str, str]]:
    """Return the shown output and the real output of each block that is run."""
    Path("fixtures").symlink_to(ROOT / "fixtures")
    if document != README:
        run_shell(WRITE_THE_LOGS)
    blocks = BLOCKS[document]
    names: dict[str, Any] = {"__name__": "__main__"}
    found: list[tuple[str, str]] = []
    for (language, block, _), following in zip(blocks, [*blocks[1:], ("", "", False)], strict=True):
        if language == "console":
            found.append((block, run_console(block)))
        elif language == "python":
            shown = following[1] if following[0] == "text" and following[2] else ""
            found.append((shown, run_python(block, names, document)))
    return found


def pattern_of(shown: str) -> str:
    """Return a pattern for an output, in which `...` is any lines."""
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)]
    return "(?:.*\n)*?".join(parts)


def test_every_block_has_a_language_and_those_that_are_not_run_are_counted() -> None:
    """A block without a language would neither be run nor counted."""
    unnamed = [(name, block) for name, blocks in BLOCKS.items() for language, block, _ in blocks if not language]
    not_run = Counter(name for name, blocks in BLOCKS.items() for language, _, _ in blocks if language == "sh")

    assert unnamed == []
    assert not_run == NOT_RUN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "zone"),
    [
        # Each starts a Spark of its own, so it need not wait for the tests that share one.
        pytest.param(name, zone, marks=(pytest.mark.spark, pytest.mark.xdist_group(name)) if name in WITH_SPARK else ())
        for name in RUNNABLE
        for zone in (("UTC", "America/New_York") if name == README else ("America/New_York",))
    ],
)
def test_snippets_print_what_the_document_shows(document: str, zone: str, tmp_path: Path) -> None:
    """In a process of its own, in whose folder Spark finds relative paths; in any time zone."""
    if document in WITH_SPARK:
        require_java()
    program, folder, result = tmp_path / "bin" / "binlogio", tmp_path / "run", tmp_path / "outputs.json"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m binlogio "$@"\n')
    program.chmod(0o755)
    folder.mkdir()
    places = (ROOT, ROOT / "cli", ROOT / "spark_datasource", SUPPORT)
    done = subprocess.run(
        [sys.executable, __file__, document, str(result)],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "COLUMNS": "120",
            "TZ": zone,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text(encoding="utf-8"))

    assert len(found) == sum(language in RUN for language, _, _ in BLOCKS[document])
    for shown, output in found:
        assert re.fullmatch(pattern_of(shown), output), output


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(outputs(sys.argv[1])), encoding="utf-8")
