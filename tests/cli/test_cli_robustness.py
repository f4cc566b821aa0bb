"""Each command ends with one sentence and the right exit code whatever its input and its output are."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest
from click.testing import CliRunner

from binlogio import BatchChange, BatchSession, BinlogWriter, ColumnDefinition, ServerVariables, TableDefinition
from binlogio_cli.main import cli
from corpus import FIXTURES
from interrupts import InterruptAfter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

LOG: Final = FIXTURES / "mysql97" / "incident" / "binlog.000002"
# Commands that write to standard output, with `LOG` in place of the log and `OUT` in place of a new file or directory.
PRINTING: Final = {
    "dump": ("dump", "LOG"),
    "dump as JSON": ("dump", "--format", "json", "LOG"),
    "dump as SQL": ("dump", "--format", "sql", "LOG"),
    "undo": ("undo", "--on-statement", "skip", "-q", "LOG"),
    "replay": ("replay", "--to", "dry-run:", "-q", "LOG"),
    "history": ("history", "shop.orders", "1002", "LOG"),
    "info": ("info", "LOG"),
    "verify": ("verify", "LOG"),
    "stats": ("stats", "LOG"),
    "grep": ("grep", "total > 990 OR total = 64.25", "LOG"),
    "schema": ("schema", "LOG"),
    "sql": ("sql", "SELECT * FROM orders", "LOG"),
}
COMMANDS: Final = {
    **PRINTING,
    "dump to a file": ("dump", "-o", "OUT", "LOG"),
    "undo to a file": ("undo", "--on-statement", "skip", "-q", "-o", "OUT", "LOG"),
    "undo to a log": ("undo", "--on-statement", "skip", "-q", "--to-binlog", "OUT", "LOG"),
    "copy": ("copy", "-o", "OUT", "LOG"),
    "copy to a directory": ("copy", "--out", "OUT", "LOG"),
    "export": ("export", "--to", "OUT", "LOG"),
    "repair": ("repair", "-o", "OUT", "LOG"),
    "index": ("index", "--index-dir", "OUT", "LOG"),
}
NEW_FILES: Final = ("dump to a file", "undo to a file", "undo to a log", "copy", "repair")
INTERRUPTED: Final = 130
TAKES_FILES: Final = pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)


def arguments(command: tuple[str, ...], log: object, out: object = "out") -> list[str]:
    names = {"LOG": str(log), "OUT": str(out)}
    return [sys.executable, "-m", "binlogio_cli", *(names.get(word, word) for word in command)]


def run(command: tuple[str, ...], log: object, out: object) -> Result:
    return CliRunner().invoke(cli, arguments(command, log, out)[3:])


def check_sentences(said: str, codes: set[int], code: int) -> None:
    lines = said.splitlines()

    assert code in codes, said
    assert lines
    assert len(lines) <= 4, said
    assert all(line.startswith("binlogio: ") for line in lines), said


@pytest.fixture(name="inputs", scope="module")
def wrong_inputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, set[int]]]]:
    """Provide inputs that are no logs, each with the exit codes that are right for it."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "empty").mkdir()
    (folder / "text").write_text("not a log\n")
    (folder / "nothing").write_bytes(b"")
    (folder / "none.index").write_text("")
    (folder / "cut").write_bytes(LOG.read_bytes()[:700] + bytes(30))
    place = str(folder / "socket")
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        yield {
            "a missing file": (str(folder / "missing"), {4}),
            "an index file without logs": (str(folder / "none.index"), {4}),
            "an empty directory": (str(folder / "empty"), {3, 4}),
            "a text": (str(folder / "text"), {3}),
            "an empty file": (str(folder / "nothing"), {1, 3}),
            "a socket": (place, {3, 4}),
            "a named pipe": (str(folder / "pipe"), {3}),
            "an endless device": ("/dev/zero", {3}),
            "damage": (str(folder / "cut"), {1}),
        }


@TAKES_FILES
def test_wrong_inputs_are_answered_in_one_sentence(
    command: tuple[str, ...], inputs: dict[str, tuple[str, set[int]]], tmp_path: Path
) -> None:
    """Nothing is left but what `dump -o` has from before the damage, and a repaired log."""
    for name, (log, codes) in inputs.items():
        done = run(command, log, tmp_path / "out")

        if command[0] in ("info", "verify") and done.stdout:  # they report on each log
            assert "Traceback" not in done.stderr, (name, done.stderr)
            assert done.exit_code == 1
            continue
        check_sentences(done.stderr, codes, done.exit_code)
        if not (command[0] in ("dump", "repair") and name == "damage"):
            assert list(tmp_path.iterdir()) == [], name


@TAKES_FILES
def test_a_log_without_permission_is_an_io_error(command: tuple[str, ...]) -> None:
    """Root may read all, so another user runs the command."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        log = Path(folder) / LOG.name
        log.write_bytes(LOG.read_bytes())
        log.chmod(0)
        run(command, LOG, Path(folder) / "before")  # imports what it needs
        with another_user():
            done = run(command, log, Path(folder) / "out")
        left = [path.name for path in Path(folder).iterdir() if path.name.startswith("out")]

    assert "Permission denied" in f"{done.stdout}{done.stderr}"
    assert done.exit_code in ({1, 4} if command[0] in ("info", "verify") else {4}), done.stderr
    assert left == []


def test_info_as_json_names_a_log_that_cannot_be_opened(inputs: dict[str, tuple[str, set[int]]]) -> None:
    place, _ = inputs["a socket"]
    done = run(("info", "--json", "LOG"), place, "out")

    assert (done.exit_code, done.stderr) == (1, f"binlogio: {place}: No such device or address\n")


@contextlib.contextmanager
def another_user() -> Iterator[None]:
    """Have the rights of a user without any, if this process is root's."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)


@TAKES_FILES
def test_wrong_options_are_wrong_usage(command: tuple[str, ...], tmp_path: Path) -> None:
    done = run((*command, "--no-such-option"), LOG, tmp_path / "out")

    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
    assert "No such option" in done.stderr
    assert list(tmp_path.iterdir()) == []


@TAKES_FILES
def test_standard_input_is_given_once(command: tuple[str, ...], tmp_path: Path) -> None:
    done = run((*command, "-"), "-", tmp_path / "out")

    assert done.exit_code == 2
    assert "standard input, which can be read once" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", PRINTING.values(), ids=PRINTING)
def test_a_full_disk_is_an_io_error(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            arguments(command, LOG), stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )

    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", NEW_FILES)
def test_a_new_file_that_cannot_be_created_is_named(name: str, tmp_path: Path) -> None:
    """The message does not name the temporary file."""
    output = tmp_path / "no" / "out"
    done = run(COMMANDS[name], LOG, output)

    message = f"binlogio: {output}: No such file or directory (make its directory first)\n"
    assert (done.exit_code, done.stderr) == (4, message)


@pytest.mark.parametrize("name", [*NEW_FILES, "write"])
def test_a_new_file_that_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk. The undo has a temporary file, whose folder is named.

    Python would leave incomplete files of bytecode, which later processes cannot load.
    """
    rows = tmp_path / "rows.csv"
    rows.write_text("".join(f"{number}\n" for number in ("id", *range(9000))))
    write = ("write", "--out", "OUT", "--table", "a.t", "--from", str(rows))
    output = tmp_path / "out"
    words = arguments(write if name == "write" else COMMANDS[name], LOG, output)
    shell = ("sh", "-c", 'ulimit -f 1; export PYTHONDONTWRITEBYTECODE=1; exec "$@"', "sh", *words)
    done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=60)
    named = {"write": output / "binlog.000001", "undo to a log": tempfile.gettempdir()}
    file = named.get(name, output)

    assert (done.returncode, done.stderr) == (4, f"binlogio: {file}: File too large\n")
    assert name == "write" or [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


@pytest.mark.parametrize("command", PRINTING.values(), ids=PRINTING)
def test_a_closed_standard_output_is_an_io_error(command: tuple[str, ...]) -> None:
    shell = ("sh", "-c", 'exec "$@" >&-', "sh", *arguments(command, LOG))
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True, check=False, timeout=60)

    assert done.returncode == 4, done.stderr
    assert done.stderr.splitlines()[-1] == "binlogio: Bad file descriptor"


def test_a_closed_standard_error_loses_messages_only() -> None:
    shell = ("sh", "-c", 'exec "$@" 2>&-', "sh", *arguments(COMMANDS["grep"], LOG))
    done = subprocess.run(shell, stdout=subprocess.PIPE, text=True, check=False, timeout=60)

    assert done.returncode == 0
    assert done.stdout


@pytest.mark.parametrize(
    ("command", "code"),
    [(COMMANDS["copy"], 0), (("copy", "-o", "OUT", "missing"), 4), (("copy", "--no-such-option"), 2)],
    ids=["success", "I/O error", "wrong usage"],
)
def test_a_full_standard_error_does_not_change_the_exit_code(
    command: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(arguments(command, LOG, tmp_path / "out"), stderr=full, check=False, timeout=60)

    assert done.returncode == code


@pytest.mark.parametrize("command", PRINTING.values(), ids=PRINTING)
def test_a_closed_pipe_ends_a_command_in_silence(command: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        arguments(command, LOG), stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(write_end)

    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr
    assert "Exception" not in done.stderr
    assert done.returncode == 0


OTHER_INPUTS: Final = {
    "keyring": ("dump", "--keyring", "LOG", str(LOG)),
    "keyring of stats": ("stats", "--keyring", "LOG", str(LOG)),
    "keyring of replay": ("replay", "--to", "dry-run:", "--keyring", "LOG", str(LOG)),
    "definitions": ("dump", "--table-definitions", "LOG", str(LOG)),
    "information schema": ("schema", "--information-schema", "LOG"),
    "script": ("write", "LOG", "--out", "OUT"),
    "data": ("write", "--from", "LOG", "--format", "csv", "--table", "a.t", "--out", "OUT"),
    "keyring of write": ("write", str(FIXTURES / "demo" / "shop.jsonl"), "--keyring", "LOG", "--out", "OUT"),
}
EMPTY_OUTPUTS: Final = {
    name: COMMANDS[name] for name in ("copy", "copy to a directory", "dump to a file", "export", "index", "repair")
}


@pytest.mark.parametrize("command", OTHER_INPUTS.values(), ids=OTHER_INPUTS)
def test_another_input_that_is_missing_is_answered_as_a_missing_log(command: tuple[str, ...], tmp_path: Path) -> None:
    for log, reason in ((tmp_path / "missing", "No such file or directory"), (tmp_path, "Is a directory")):
        done = run(command, log, tmp_path / "out")

        assert (done.exit_code, done.stderr) == (4, f"binlogio: {log}: {reason}\n")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [*COMMANDS.values(), *OTHER_INPUTS.values()], ids=[*COMMANDS, *OTHER_INPUTS])
def test_an_empty_name_of_an_input_is_not_the_current_directory(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a shell variable that is not set."""
    (tmp_path / LOG.name).write_bytes(LOG.read_bytes())
    monkeypatch.chdir(tmp_path)
    done = run(command, "", "out")

    assert (done.exit_code, done.output) == (4, "binlogio: '': No such file or directory\n")
    assert [path.name for path in tmp_path.iterdir()] == [LOG.name]


@pytest.mark.parametrize("command", EMPTY_OUTPUTS.values(), ids=EMPTY_OUTPUTS)
def test_an_empty_name_of_an_output_is_not_the_current_directory(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(command, LOG, "")

    assert (done.exit_code, done.output) == (4, "binlogio: '': No such file or directory\n")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(name="large_log", scope="module")
def large_log_of_inserts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a log of 40 MB, which commands read for some tenths of a second."""
    folder = tmp_path_factory.mktemp("large")
    columns = (
        ColumnDefinition("order_id", "int", nullable=False),
        ColumnDefinition("total", "int"),
        ColumnDefinition("note", "varchar(100)"),
    )
    table = TableDefinition("shop", "orders", columns, primary_key=("order_id",))
    numbers = pa.array(range(1000), pa.int32())
    rows = pa.record_batch({"order_id": numbers, "total": numbers, "note": ["7" * 90] * 1000})
    variables = ServerVariables(binlog_row_metadata="FULL", sync_binlog=0)
    with BinlogWriter(folder / "binlog", variables=variables) as log:
        session = BatchSession(log)
        for _ in range(400):
            session.write([BatchChange(table, after=rows)])
    return folder / "binlog.000001"


def start(command: tuple[str, ...], log: Path, folder: Path) -> subprocess.Popen[str]:
    with (folder / "printed").open("wb") as output:
        return subprocess.Popen(
            arguments(command, log, folder / "out"), stdout=output, stderr=subprocess.PIPE, text=True
        )


def wait_for_the_kernel(process: subprocess.Popen[str]) -> None:
    """Wait until the command is imported; before, Python ends by itself."""
    maps = Path("/proc") / str(process.pid) / "maps"
    while process.poll() is None and "binlogio/_kernel" not in maps.read_text():
        time.sleep(0.005)


def check_nothing_is_left(folder: Path, command: tuple[str, ...], code: int) -> None:
    names = sorted(path.name for path in folder.rglob("*") if path.name not in ("printed", "binlog.000001"))

    assert not [name for name in names if name.startswith(".")], names
    if code and command[0] not in ("dump", "repair"):
        assert [name for name in names if name != "out"] == []


@TAKES_FILES
@pytest.mark.parametrize("seconds", [0.0, 0.2])
def test_an_interrupt_ends_a_command_in_silence(
    command: tuple[str, ...], seconds: float, large_log: Path, tmp_path: Path
) -> None:
    """Whatever it is doing then: importing libraries, reading, or writing; or it has come to its end before."""
    process = start(command, large_log, tmp_path)
    wait_for_the_kernel(process)
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]

    assert process.returncode in (0, INTERRUPTED, -signal.SIGINT), said  # the last two are the same for a shell
    is_done = process.returncode == 0 or bool(said.strip())  # it has said what it did before the interrupt
    assert all(line.startswith("binlogio: ") for line in said.splitlines() if line), said
    check_nothing_is_left(tmp_path, command, 0 if is_done else INTERRUPTED)


@pytest.mark.parametrize("package", ["binlogio", "binlogio_cli"])
@pytest.mark.parametrize("module", ["binlogio_cli.main", "click", "binlogio.errors", "binlogio_cli.messages"])
def test_an_interrupt_while_modules_are_imported_ends_the_process_in_silence(package: str, module: str) -> None:
    """From the first line of the program on: those of the library are imported by the command."""
    script = (
        "import os, runpy, signal, sys;"
        f"sys.addaudithook(lambda event, of: event == 'import' and of[0] == {module!r} and os.kill(os.getpid(), 2));"
        f"sys.argv = ['binlogio', 'verify', {str(LOG)!r}]; runpy.run_module({package!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "")


def test_an_interrupt_after_the_command_ends_the_process_in_silence() -> None:
    """For example while the interpreter waits for threads, where Python would print a traceback."""
    script = (
        "import atexit, os, signal, sys; from binlogio_cli.main import main;"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT));"
        f"sys.argv = ['binlogio', 'verify', {str(LOG)!r}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def there(directory: Path, _: str) -> bool:
    return directory.exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that the interrupt left open
@pytest.mark.parametrize("name", ["copy to a directory", "export", "index", "write"])
def test_an_interrupt_after_a_directory_was_made_removes_it(name: str, tmp_path: Path) -> None:
    """A directory with a finished index, with the lock of a writer, or with all logs of a copy, stays."""
    script = FIXTURES / "demo" / "shop.jsonl"
    command = COMMANDS.get(name, ("write", str(script), "--out", "OUT"))
    for lines in range(25):
        out = tmp_path / "new" / str(lines)
        before = sys.gettrace()
        interrupt = InterruptAfter(partial(there, out), lines)
        sys.settrace(interrupt)
        try:
            done = run(command, LOG, out)
        finally:
            sys.settrace(before)

        assert done.exit_code == INTERRUPTED or interrupt.lines >= 0, done.output
        left = [path.name for path in out.iterdir()] if out.exists() and interrupt.lines < 0 else None
        is_copied = name == "copy to a directory" and left is not None and set(left) == {"binlog.index", LOG.name}
        assert left is None or (left and name in ("index", "write")) or is_copied, (lines, left)


@pytest.mark.parametrize("name", ["dump to a file", "undo to a log", "copy to a directory"])
def test_sigterm_removes_temporary_files(name: str, large_log: Path, tmp_path: Path) -> None:
    process = start(COMMANDS[name], large_log, tmp_path)
    while process.poll() is None and not list(tmp_path.rglob(".binlogio-*.part")):
        time.sleep(0.002)
    process.terminate()
    said = process.communicate(timeout=60)[1]

    assert (process.returncode, said.strip()) == (128 + signal.SIGTERM, "")
    check_nothing_is_left(tmp_path, COMMANDS[name], process.returncode)


@TAKES_FILES
def test_a_log_that_shrinks_is_damage(command: tuple[str, ...], large_log: Path, tmp_path: Path) -> None:
    """It says where, or everything was read before."""
    log = tmp_path / large_log.name
    log.write_bytes(large_log.read_bytes())
    process = start(command, log, tmp_path)
    wait_for_the_kernel(process)
    os.truncate(log, 1_000_001)
    said = process.communicate(timeout=60)[1]

    assert process.returncode in (0, 1), said
    if process.returncode and command[0] not in ("info", "verify"):
        check_sentences(said, {1}, process.returncode)
        assert "the middle of an event" in said or "beyond the end of the log" in said
    check_nothing_is_left(tmp_path, command, process.returncode)
