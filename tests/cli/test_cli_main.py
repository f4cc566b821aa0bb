"""The program: imports, exit codes and error messages."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, Statement, TableDefinition
from binlogio.errors import ChecksumMismatch, Hint, Surface
from binlogio_cli.main import COMMANDS, LazyGroup, cli
from corpus import MYSQL, ROOT

ROWS: Final = MYSQL / "rowimage_full" / "binlog.000001"


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_binlogio_loads_neither_construct_nor_pyarrow() -> None:
    """`import binlogio` is fast, because modules are loaded on first use."""
    loaded = run_python(
        "import sys, binlogio; print(*(sys.modules.keys() & {'construct', 'pyarrow', 'pyspark', 'numpy', 'click'}))"
    )

    assert loaded.split() == []


def test_version_loads_nothing_of_the_library() -> None:
    """`binlogio --version` does not import the library."""
    code = "import sys\nfrom binlogio_cli.main import cli\ntry: cli(['--version'])\nfinally: print(*sys.modules)"
    loaded = set(run_python(code).split())

    assert not loaded & {"construct", "pyarrow", "pyspark", "numpy", "binlogio.reader", "sqlite3"}


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (
            ["dump", "-vv"],
            (
                "binlogio.replay",
                "binlogio.writer",
                "binlogio.columnar",
            ),
        ),
        (
            ["dump", "--format", "json"],
            (
                "binlogio.replay",
                "binlogio.writer",
                "binlogio.columnar",
            ),
        ),
        (
            ["dump", "--format", "sql"],
            (
                "binlogio.schema.ddl.tree",
                "binlogio.writer",
            ),
        ),
        (
            ["undo", "--on-statement", "skip"],
            (
                "binlogio.writer.log",
                "binlogio.writer.session",
            ),
        ),
        (["undo", "--on-statement", "skip", "--to-binlog", "-"], ("binlogio.writer.session",)),
        (
            ["replay", "--to", "dry-run:"],
            (
                "binlogio.writer.session",
                "binlogio.replay.targets.sqlite",
            ),
        ),
    ],
    ids=str,
)
def test_a_command_imports_what_it_needs(arguments: list[str], unwanted: tuple[str, ...]) -> None:
    """Reading a small log imports neither Arrow nor a database, nor the parts that the command does not use."""
    code = f"""
import os, sys
from binlogio_cli.main import cli
sys.stdout = open(os.devnull, "w")
try: cli([{arguments[0]!r}, {str(ROWS)!r}, *{arguments[1:]!r}])
except SystemExit as end: assert not end.code, end.code
finally: sys.stdout = sys.__stdout__
print(*sys.modules)
"""
    loaded = set(run_python(code).split())

    assert not loaded & ({"pyarrow", "numpy", "sqlite3", "pyspark", "pymysql", *unwanted})


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads by /proc")
def test_a_command_starts_no_threads_for_linear_algebra() -> None:
    """The import of numpy starts one for each core, and each spins for a tenth of a second."""
    code = (
        "import os, sys; from binlogio_cli.main import main\n"
        "sys.argv = ['binlogio', '--version']\n"
        "try:\n    main()\nexcept SystemExit:\n    import numpy; print(len(os.listdir('/proc/self/task')))"
    )

    assert run_python(code).splitlines()[-1] == "1"


def test_every_public_name_can_be_had() -> None:
    """Each name of `__all__` is in the module that the table says."""
    missing = [name for name in binlogio.__all__ if not hasattr(binlogio, name)]

    assert missing == []
    assert set(binlogio.__all__) <= set(dir(binlogio))


def test_kernel_is_one_of_two() -> None:
    """The attribute names the implementation."""
    assert binlogio.KERNEL in {"compiled", "construct"}


def test_unknown_name_of_the_package_is_an_attribute_error() -> None:
    """The lazy lookup raises AttributeError for other names."""
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = binlogio.Nonsense  # type: ignore[attr-defined]


def test_version_is_that_of_the_distribution() -> None:
    """The version number is in two files."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r'^version = "(.*)"$', project, re.MULTILINE)

    assert match is not None
    assert match[1] == binlogio.__version__


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_every_command_shows_an_example(name: str) -> None:
    """`--help` lists all commands."""
    result = CliRunner().invoke(cli, [name, "--help"])

    assert result.exit_code == 0
    assert f"binlogio {name} " in result.output
    assert "Example" in result.output


def test_help_lists_the_commands() -> None:
    """The list comes from a table, not from importing them."""
    result = CliRunner().invoke(cli, ["--help"])

    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)


def run_raising(error: BaseException) -> int:
    """Return the exit code of a command that raises `error`."""

    @click.group(cls=LazyGroup, invoke_without_command=True)
    def group() -> None:
        raise error

    return CliRunner().invoke(group, []).exit_code


def test_interrupted_command_exits_as_the_shell_says() -> None:
    """Ctrl-C gives exit code 130."""
    assert run_raising(KeyboardInterrupt()) == 130


def test_library_error_in_a_command_is_damage() -> None:
    """Every error of the library is one sentence."""
    assert run_raising(ChecksumMismatch(offset=4, expected=1, actual=2)) == 1


def test_bug_is_not_hidden_as_an_exit_code() -> None:
    """Other exceptions keep their traceback."""

    @click.group(cls=LazyGroup, invoke_without_command=True)
    def group() -> None:
        raise ZeroDivisionError

    assert isinstance(CliRunner().invoke(group, []).exception, ZeroDivisionError)


def test_reader_that_leaves_early_is_not_an_error(tmp_path: Path) -> None:
    """`binlogio dump ... | head -1` prints nothing on standard error."""
    table = TableDefinition("d", "t", (ColumnDefinition("a", "varchar(200)"),))
    with BinlogWriter(tmp_path / "binlog") as writer, writer.session() as session:
        for _ in range(20):
            session.execute(Statement("INSERT", [Insert(table, [("x" * 200,)] * 100)]))
    log = tmp_path / "binlog.000001"
    program = [sys.executable, "-m", "binlogio_cli", "dump", "-v", str(log)]  # prints more than a pipe holds
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

    assert first.startswith(b"This text is for people")
    assert said == b""
    assert process.returncode == 0


def test_hints_name_options_that_exist_and_no_arguments() -> None:
    """Each hint has a text for the command line.

    An argument of the library is named only as something to use in Python.
    """
    commands = [importlib.import_module(f"binlogio_cli.commands.{name}").command for name in COMMANDS]
    options = {
        name for command in commands for option in command.params for name in (*option.opts, *option.secondary_opts)
    }
    texts = [hint.text(Surface.COMMAND_LINE) for hint in Hint]
    named = {name for text in texts for name in re.findall(r"--[a-z-]+", text)}
    arguments = [text for text in texts if re.search(r"\b\w+=", text) and "in Python with" not in text]

    assert named <= options
    assert arguments == []


def test_unknown_object_store_gets_a_hint_for_the_command_line() -> None:
    """The argument `filesystem=` exists in Python only."""
    result = CliRunner().invoke(cli, ["dump", "foo://bucket/x.000001"])

    assert result.exit_code == 3
    assert "copy the file, or read it in Python with filesystem=" in result.stderr


@pytest.mark.parametrize("command", ["copy", "dump", "export", "info", "repair", "replay", "undo", "verify", "write"])
def test_shells_complete_the_names_of_logs(command: str) -> None:
    """The completion of a command's arguments is that of files."""
    done = subprocess.run(
        [sys.executable, "-m", "binlogio_cli"],
        env={
            **os.environ,
            "_BINLOGIO_COMPLETE": "bash_complete",
            "COMP_WORDS": f"binlogio {command} b",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "file,b\n", done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_help_are_accepted(name: str) -> None:
    """Those of docs/which_command.md too. Files of examples need not exist."""
    command = importlib.import_module(f"binlogio_cli.commands.{name}").command
    lines = [line.strip() for line in (command.epilog or "").splitlines()]
    examples = [re.split(r"\s{3,}", line)[0] for line in lines if line.startswith(f"binlogio {name} ")]
    questions = re.findall(rf"`(binlogio {name} [^`]+)`", (ROOT / "docs" / "which_command.md").read_text("utf-8"))
    for example in [*examples, *questions]:
        words = shlex.split(example)
        with contextlib.suppress(FileNotFoundError):
            command.make_context(name, words[2 : words.index("|") if "|" in words else None])

    assert examples
    assert questions
