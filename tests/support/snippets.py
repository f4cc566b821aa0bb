"""Runs the code blocks of a document, and compares their outputs; with the standard library alone.

python tests/support/snippets.py README.md              the blocks that do not need Spark, with the installed binlogio
python tests/support/snippets.py README.md duckdb isal  the same for each of these packages, as if not installed
python tests/support/snippets.py README.md duckdb,isal  the same without both
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
README: Final = "README.md"
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


def outputs(document: str, without: str | None = None) -> list[tuple[str, str]]:
    """Return the shown output and the real output of each block that is run, in the current folder, which is new.

    A block that contains the word `without` is not run.
    """
    if not Path("fixtures").exists():
        Path("fixtures").symlink_to(ROOT / "fixtures")
    if document != README and not Path("data").exists():
        run_shell(WRITE_THE_LOGS)
    blocks = blocks_of(document)
    names: dict[str, Any] = {"__name__": "__main__"}
    found: list[tuple[str, str]] = []
    for (language, block, _), following in zip(blocks, [*blocks[1:], ("", "", False)], strict=True):
        if without is not None and without in block.lower():
            continue
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


def hide(packages: str, folder: str) -> None:
    """Let the imports of packages fail, in this process and in those that it starts."""
    code = f"import sys; sys.modules.update(dict.fromkeys({packages.split(',')!r}))"
    exec(code, {})  # noqa: S102
    (Path(folder) / "sitecustomize.py").write_text(code, encoding="utf-8")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))


def main(document: str, hidden: str | None = None) -> bool:
    """Run a document in a new folder; return True if a block has another output."""
    os.environ["COLUMNS"] = "120"
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as site:
        if hidden is not None:
            hide(hidden, site)
        os.chdir(folder)
        found = outputs(document, without="spark")
        wrong = [output for shown, output in found if not re.fullmatch(pattern_of(shown), output)]
        os.chdir(ROOT)
    counted = f"{len(found) - len(wrong)} of {len(found)} blocks have the output that is shown"
    counted += f" without {hidden}" if hidden else ""
    sys.stdout.write("\n".join([f"{document}: {counted}", *wrong, ""]))
    return bool(wrong)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(main(*sys.argv[1:]))
    sys.exit(max(subprocess.call([sys.executable, *sys.argv[:2], package]) for package in sys.argv[2:]))
