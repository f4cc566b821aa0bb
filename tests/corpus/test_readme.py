"""The README's tour, run in its order: every command and every Python block, with the output that is shown.

In ```console blocks, `$ command` is run by a shell and the lines after it are its output; a line `...` matches any
lines. The output of a ```python block is the ```text block after it. Blocks without a language are not run: they need a
server, or install something.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from corpus import ROOT, SUPPORT
from pyspark_binlogio.java import require_java

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = TEXT[TEXT.index("## A tour") : TEXT.index("## Status")]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TOUR, re.MULTILINE | re.DOTALL)


def run_console(block: str) -> str:
    """Return the block with the output that its commands have now."""
    shown = []
    for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - the README's own
        assert done.returncode == 0, done.stderr
        shown.append(f"$ {command}\n{done.stdout}{done.stderr}")
    return "".join(shown)


def run_python(block: str, names: dict[str, Any]) -> str:
    """Run a block and return what it prints; its names stay in `names`."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - these are the project's own examples
    return printed.getvalue()


def outputs(directory: Path) -> list[tuple[str, str]]:
    """Return, for each block that has an output, the shown output and the real one."""
    (directory / "fixtures").symlink_to(ROOT / "fixtures")
    names: dict[str, Any] = {"__name__": "__main__"}
    found: list[tuple[str, str]] = []
    for index, (language, block) in enumerate(BLOCKS):
        if language == "console":
            found.append((block, run_console(block)))
        elif language == "python":
            output = run_python(block, names)
            following = BLOCKS[index + 1] if index + 1 < len(BLOCKS) else ("", "")
            found.append((following[1] if following[0] == "text" else "", output))
    return found


def pattern_of(shown: str) -> str:
    """Return a pattern for what is shown, with `...` for any lines."""
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)]
    return "(?:.*\n)*?".join(parts)


@pytest.mark.spark
@pytest.mark.slow
def test_the_tour_of_the_readme_prints_what_it_shows(tmp_path: Path) -> None:
    """In its order, in an empty folder, by a process of its own, whose Spark finds relative paths there."""
    require_java()
    program, tour, result = tmp_path / "bin" / "binlogio", tmp_path / "tour", tmp_path / "outputs.json"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m binlogio "$@"\n')
    program.chmod(0o755)
    tour.mkdir()
    places = (ROOT, ROOT / "cli", ROOT / "spark_datasource", SUPPORT)
    done = subprocess.run(
        [sys.executable, __file__, str(result)],
        cwd=tour,
        env={
            **os.environ,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "COLUMNS": "120",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(result.read_text(encoding="utf-8"))

    assert len(found) >= 10
    for shown, output in found:
        assert re.fullmatch(pattern_of(shown), output), output


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(outputs(Path.cwd())), encoding="utf-8")
