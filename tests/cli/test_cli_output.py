"""Output files: inputs are never overwritten, other files only with --force, and files are complete or absent."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.replay import SqliteTarget
from binlogio.storage.new_file import new_file
from binlogio_cli.main import cli
from binlogio_cli.quantities import counted
from corpus import MYSQL
from logs import log, query, stop, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

ROWS: Final = MYSQL / "rowimage_full" / "binlog.000001"
OUTPUTS: Final = {
    "dump": ("dump", "-r"),
    "dump as JSON": ("dump", "--format", "json", "--result-file"),
    "dump as SQL": ("dump", "--format", "sql", "-r"),
    "undo": ("undo", "--no-progress", "--on-statement", "skip", "--output"),
    "undo to a log": ("undo", "--no-progress", "--on-statement", "skip", "--to-binlog"),
}
EACH_OUTPUT: Final = pytest.mark.parametrize("options", OUTPUTS.values(), ids=OUTPUTS)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture(name="source")
def log_to_read(tmp_path: Path) -> Path:
    """Provide a copy of a server's log, in a folder of its own."""
    folder = tmp_path / "logs"
    folder.mkdir()
    return Path(shutil.copy(ROWS, folder / "binlog.000001"))


def _refused(result: Result, sentence: str) -> None:
    assert (result.exit_code, sentence in result.stderr) == (2, True), result.output


@EACH_OUTPUT
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
def test_output_that_is_an_input_is_refused(source: Path, options: tuple[str, ...], force: tuple[str, ...]) -> None:
    """The output is refused under any name of the input, with --force too."""
    (source.parent / "binlog.index").write_text("./binlog.000001\n")
    (source.parent / "link").symlink_to(source)
    os.link(source, source.parent / "hard")
    content = source.read_bytes()
    for inputs, output in (
        ((source,), source),
        ((source,), source.parent / "." / source.name),
        ((source,), source.parent / "link"),
        ((source,), source.parent / "hard"),
        ((source.parent / "link",), source),
        ((source.parent,), source),
        ((source.parent / "binlog.0*",), source),
        ((source.parent / "binlog.index",), source),
        ((source.parent / "binlog.index",), source.parent / "binlog.index"),
    ):
        _refused(run(*options, output, *force, *inputs), "the output must be another file")
        assert source.read_bytes() == content


@EACH_OUTPUT
def test_output_over_another_file_that_the_command_reads_is_refused(source: Path, options: tuple[str, ...]) -> None:
    """Table definitions and keyrings are inputs too."""
    definitions = source.parent / "schema.sql"
    definitions.write_text("CREATE TABLE d.t (id INT)")
    keyring = MYSQL / "encrypted" / "keyring"
    pytest.importorskip("cryptography")
    keys = Path(shutil.copy(keyring, source.parent / "keyring"))
    for option, file in (("--table-definitions", definitions), ("--keyring", keys)):
        content = file.read_bytes()
        _refused(run(*options, file, "--force", option, file, source), "the output must be another file")
        assert file.read_bytes() == content


@EACH_OUTPUT
def test_existing_output_needs_force(source: Path, options: tuple[str, ...]) -> None:
    """Files and symbolic links, also broken ones; the link stays."""
    folder = source.parent
    (folder / "there").write_text("precious")
    (folder / "link").symlink_to("there")
    (folder / "dangling").symlink_to("nowhere")
    for name in ("there", "link", "dangling"):
        _refused(run(*options, folder / name, source), "exists: give --force to replace it")
        assert (folder / "there").read_text() == "precious"
        assert not (folder / "nowhere").exists()
    assert run(*options, folder / "new", source).exit_code == 0
    for name in ("link", "dangling"):
        assert run(*options, folder / name, "--force", source).exit_code == 0
        assert (folder / name).is_symlink()

    assert (folder / "there").read_bytes() == (folder / "nowhere").read_bytes() == (folder / "new").read_bytes() != b""
    assert sorted(path.name for path in folder.iterdir()) == [
        *("binlog.000001", "dangling", "link", "new", "nowhere", "there")
    ]


@pytest.mark.parametrize("options", [("dump",), ("dump", "--format", "json"), ("undo", "--on-statement", "skip")])
def test_standard_output_that_is_an_input_is_refused(source: Path, options: tuple[str, ...]) -> None:
    """`>>` to the log that is read would make it grow for ever."""
    content = source.read_bytes()
    command = [sys.executable, "-m", "binlogio_cli", *options]
    with source.open("ab") as end:
        named = subprocess.run([*command, str(source)], stdout=end, stderr=subprocess.PIPE, check=False)
    with source.open("ab") as end, source.open("rb") as start:
        piped = subprocess.run([*command, "-"], stdin=start, stdout=end, stderr=subprocess.PIPE, check=False)

    assert (named.returncode, piped.returncode) == (2, 2), named.stderr + piped.stderr
    assert b"standard output is the input" in named.stderr
    assert source.read_bytes() == content


def test_device_as_output_stays_a_device(source: Path) -> None:
    """The pipe is written to, not replaced."""
    fifo = source.parent / "pipe"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "binlogio_cli", "dump", "-r", str(fifo), str(source)]
    with subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE) as reader:
        try:
            dump = subprocess.run(command, timeout=60, check=False)
            data, _ = reader.communicate(timeout=60)
        finally:
            reader.kill()
    assert run("dump", "-r", "/dev/null", source).exit_code == 0

    assert dump.returncode == 0
    assert data == run("dump", source).stdout.encode()
    assert fifo.is_fifo()
    assert Path("/dev/null").is_char_device()


def test_name_of_standard_output_is_no_file(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source.parent)

    assert run("dump", "-r", "-", source).stdout == run("dump", source).stdout
    assert "BEGIN;" in run("undo", "--on-statement", "skip", "--output", "-", source).stdout
    assert list(source.parent.iterdir()) == [source]


def test_dump_of_a_damaged_log_keeps_what_was_before_the_damage(tmp_path: Path) -> None:
    """The file has the output before the damage, as standard output would; the exit code is 1."""
    data = bytearray(log(*transaction(1), query("damaged"), stop()))
    data[data.index(b"damaged")] ^= 1
    (tmp_path / "binlog.000001").write_bytes(data)
    result = run("dump", "-r", tmp_path / "out.sql", tmp_path / "binlog.000001")

    assert result.exit_code == 1
    assert (tmp_path / "out.sql").read_text() == run("dump", tmp_path / "binlog.000001").stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["binlog.000001", "out.sql"]


@pytest.mark.parametrize("options", [("dump", "-r"), ("undo", "--on-statement", "skip", "--output")])
def test_output_is_seen_only_when_it_is_whole(source: Path, options: tuple[str, ...]) -> None:
    """A pipe as input stops the command in the middle, when the temporary file exists; its name is random."""
    folder = source.parent
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "binlogio_cli", *options[:-1], options[-1], str(folder / "out"), "-"]
    with subprocess.Popen(command, stdin=read_end, stderr=subprocess.PIPE) as process:
        os.close(read_end)
        os.write(write_end, source.read_bytes()[:1000])
        assert not (folder / "out").exists()
        os.write(write_end, source.read_bytes()[1000:])
        os.close(write_end)
        process.communicate()

    assert process.returncode == 0
    assert sorted(path.name for path in folder.iterdir()) == ["binlog.000001", "out"]


def test_interrupted_dump_leaves_no_file(source: Path) -> None:
    """There is no file, neither under its name nor under a temporary one.

    The temporary name is random, and the file the user's alone to write.
    """
    folder = source.parent
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "binlogio_cli", "dump", "-r", str(folder / "out"), "-"]
    with subprocess.Popen(command, stdin=read_end, stderr=subprocess.PIPE) as process:
        os.close(read_end)
        os.write(write_end, source.read_bytes()[:1000])
        while not (parts := [path for path in folder.iterdir() if path != source]):
            assert process.poll() is None, process.communicate()
        mode = stat.S_IMODE(parts[0].stat().st_mode)
        process.send_signal(2)
        process.communicate()
        os.close(write_end)

    assert process.returncode == 130
    assert re.fullmatch(r"\.binlogio-[0-9a-f]{16}\.part", parts[0].name)
    assert mode & 0o137 == 0
    assert list(folder.iterdir()) == [source]


@contextmanager
def _umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize(("mask", "expected"), [(0o022, 0o640), (0o077, 0o600), (0, 0o640)])
def test_new_files_cannot_be_read_by_others(source: Path, tmp_path: Path, mask: int, expected: int) -> None:
    """Dumps, undo output, logs with their index, and databases hold rows; a server's logs have the mode 0640."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"),))
    script = tmp_path / "script.jsonl"
    script.write_text('{"session": "a", "do": "ddl", "sql": "CREATE DATABASE d"}\n')
    out = tmp_path / "out"
    with _umask(mask):
        out.mkdir()
        for name, options in OUTPUTS.items():
            assert run(*options, out / name.replace(" ", "-"), source).exit_code == 0
        assert run("write", script, "--out", out, "--basename", "script").exit_code == 0
        variables = ServerVariables(max_binlog_size=4096)
        with BinlogWriter(out / "api", variables=variables) as writer, writer.session() as session:
            for number in range(40):
                session.execute(Statement("insert", [Insert(table, [(number,)])]))
        with closing(SqliteTarget.open(out / "replay.db")):
            wanted = {path.name: stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()}

    assert {"api.000002", "api.index", "script.000001", "replay.db", "undo", "dump"} <= set(wanted)
    assert wanted == dict.fromkeys(wanted, expected)


def test_text_has_colours_on_a_terminal(tmp_path: Path) -> None:
    """Not with NO_COLOR, and not in a pipe; without them it is the same text."""
    log = str(MYSQL / "incident" / "binlog.000002")
    plain = CliRunner().invoke(cli, ["dump", log]).stdout
    always = CliRunner().invoke(cli, ["dump", "--color", "always", log]).stdout
    assert "\x1b" not in plain
    assert "\x1b[31m### DELETE FROM `shop`.`orders`\x1b[0m\n" in always
    assert re.sub("\x1b\\[[0-9]+m", "", always) == plain
    for more, is_coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        master, end = os.openpty()
        command = [sys.executable, "-m", "binlogio_cli", "dump", "--start-position", "3307", log]
        environment = {**os.environ, "TERM": "xterm", **more}
        subprocess.run(command, stdout=end, env=environment, check=True, timeout=60)
        os.close(end)
        assert (b"\x1b[2m# at 3307" in os.read(master, 1 << 16)) is is_coloured
        os.close(master)


@EACH_OUTPUT
def test_name_of_a_new_file_is_synced_after_its_content(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Otherwise a power failure could take the file away after the command has succeeded."""
    synced: list[tuple[bool, bool]] = []
    sync, output = os.fsync, tmp_path / "out"

    def watched(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), output.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    done = run(*options, output, source)

    assert done.exit_code == 0
    assert (synced[0], synced[-1]) == ((False, False), (True, True))


@pytest.mark.parametrize("replaces", [False, True])
def test_existing_file_is_kept_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, replaces: bool
) -> None:
    """A file that another program makes in the meantime is replaced on request only."""

    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with new_file(tmp_path / "first", replaces=False) as file:
        file.write(b"1")
    with (
        pytest.raises(FileExistsError) if not replaces else nullcontext(),
        new_file(tmp_path / "second", replaces=replaces) as file,
    ):
        file.write(b"2")
        (tmp_path / "second").write_bytes(b"other")

    assert (tmp_path / "first").read_bytes() == b"1"
    assert (tmp_path / "second").read_bytes() == (b"2" if replaces else b"other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_numbers_of_things_have_their_singular(count: int) -> None:
    text = counted(count, "event group[s] [were|was] left out (DDL and similar)")

    assert text == f"{count} {'event group was' if count == 1 else 'event groups were'} left out (DDL and similar)"


def test_conditions_are_quoted_in_messages(source: Path) -> None:
    assert "found '~ 3'" in run("dump", "--where", "id ~ 3", source).stderr
    assert "'id > 3': there is no such file; after a condition, name the logs" in run("grep", "id > 3").stderr
