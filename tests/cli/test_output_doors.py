"""Every option that writes files, at every kind of place: exit code, permissions, and what is left.

The table of `docs/reliability.md` has the expected exit codes.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from binlogio import BinlogWriter
from binlogio.archive import NewLogs
from binlogio.archive.export import export
from binlogio.errors import UnsupportedFeature
from binlogio.storage.new_file import locked_side
from binlogio_cli.main import cli
from corpus import FIXTURES, MYSQL, ROOT, SUPPORT
from delta_tables import delta_table
from interrupts import InterruptAfter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from click.testing import Result

LOG: Final = str(MYSQL / "incident" / "binlog.000001")
SCRIPT: Final = str(FIXTURES / "demo" / "shop.jsonl")
UNDO: Final = ("undo", "-q", "--on-statement", "skip")
FILES: Final = {
    "`dump -o`": ("dump", "-o", "OUT", LOG),
    "`undo -o`": (*UNDO, "-o", "OUT", LOG),
    "`undo --format binlog -o`": (*UNDO, "--format", "binlog", "-o", "OUT", LOG),
    "`copy -o FILE`": ("copy", "-q", "-o", "OUT", LOG),
    "`repair -o FILE`": ("repair", "-q", "-o", "OUT", LOG),
    "`stats -o`": ("stats", "-q", "--format", "html", "-o", "OUT", LOG),
    "`schema -o`": ("schema", "-q", "-o", "OUT", LOG),
    "`grep -o`": ("grep", "-q", "id > 0", "-T", "shop.orders", "-o", "OUT", LOG),
    "`history -o`": ("history", "-q", "shop.orders", "1004", "-o", "OUT", LOG),
    "`sql -o`": ("sql", "-q", "--format", "csv", "-o", "OUT", "SELECT op, after FROM shop.orders", LOG),
    "`export -o`, DuckDB": ("export", "-q", "--format", "duckdb", "-o", "OUT", LOG),
    "`schema --save`": ("schema", "-q", "--save", "OUT", LOG),
}


@pytest.mark.parametrize("source", ["", "binlog.index", "binlog.000002"], ids=["folder", "index", "log"])
@pytest.mark.parametrize("name", ["binlog.index", "binlog.000001", "other.txt"])
@pytest.mark.parametrize(
    "command", [*FILES.values(), ("export", "-q", "-o", "OUT/", LOG)], ids=lambda one: " ".join(one[:3])
)
def test_no_file_of_the_input_directory_that_the_logs_need_is_replaced(
    command: tuple[str, ...], name: str, source: str, tmp_path: Path
) -> None:
    """Neither with --force: not the index either, which no input names."""
    for log in (MYSQL / "incident").glob("binlog.0*"):
        shutil.copy(log, tmp_path)
    (tmp_path / "binlog.index").write_text("./binlog.000001\n./binlog.000002\n")
    (tmp_path / "other.txt").write_text("x")
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    words = [word.replace("OUT", str(tmp_path / name)).replace(LOG, str(tmp_path / source)) for word in command]
    result = CliRunner().invoke(cli, [words[0], "--force", *words[1:]])
    is_needed = name != "other.txt" and not (source == "binlog.000002" and name == "binlog.000001")

    assert result.exit_code != 0 or not is_needed
    if is_needed:
        assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["`dump -o`", "`undo -o`", "`stats -o`", "`schema -o`", "`grep -o`", "`history -o`"])
def test_a_full_device_is_named(name: str, tmp_path: Path) -> None:
    """The file is not replaced: it is one of the test, not that of the machine."""
    device = tmp_path / "full"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("only root makes devices")
    result = CliRunner().invoke(cli, [word.replace("OUT", str(device)) for word in FILES[name]])

    assert result.exit_code == 4
    assert f"binlogio: {device}: No space left on device\n" in result.stderr
    assert stat.S_ISCHR(device.stat().st_mode)


FOLDERS: Final = {
    "`copy -o DIR/`": ("copy", "-q", "-o", "OUT/", LOG),
    "`repair -o DIR/`": ("repair", "-q", "-o", "OUT/", LOG),
    "`export -o`, Parquet": ("export", "-q", "-o", "OUT", LOG),
    "`export -o`, Arrow": ("export", "-q", "--format", "arrow", "-o", "OUT", LOG),
    "`export -o`, CSV": ("export", "-q", "--format", "csv", "-o", "OUT", LOG),
    "`export -o`, JSON lines": ("export", "-q", "--format", "jsonl", "--partition-by", "day", "-o", "OUT", LOG),
    "`export -o`, Delta": ("export", "-q", "--format", "delta", "-o", "OUT", LOG),
    "`export -o`, Iceberg": ("export", "-q", "--format", "iceberg", "-o", "OUT", LOG),
    "`write -o`": ("write", "-o", "OUT", SCRIPT),
    "`index -o`": ("index", "-q", "-o", "OUT", LOG),
}
DOORS: Final = {**FILES, **FOLDERS}
PLACES: Final = ("new", "exists", "`--force`", "no directory", "a file as directory", "full disk", "in use", "`s3://`")
CANNOT_FORCE: Final = ("`write -o`",)  # it continues the logs that are there
KILLS: Final = int(os.environ.get("BINLOGIO_KILLS", "4"))
FORCED: Final = ", an old file"
KILLED: Final = (*DOORS, *(f"{door}{FORCED}" for door in FILES if "export" not in door))
NO_ROWS: Final = (".json", ".avro", "catalog.db", "catalog.db-journal")
INTERRUPTED: Final = (  # each way of publishing
    "`dump -o`",
    "`copy -o FILE`",
    "`export -o`, DuckDB",
    "`schema --save`",
    "`copy -o DIR/`",
    "`export -o`, Parquet",
    "`export -o`, JSON lines",
    "`index -o`",
)
ALSO_STORES: Final = ("`index -o`",)  # its target can be an object store


def run(door: str, out: object, *more: str) -> Result:
    command = [one.replace("OUT", str(out)) for one in DOORS[door]]
    return CliRunner().invoke(cli, [command[0], *more, *command[1:]])


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return mode and content of everything below a directory; a directory has no content."""
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.stat().st_mode),
            b"" if path.is_dir() else path.read_bytes(),
        )
        for path in folder.rglob("*")
    }


@contextmanager
def full_disk() -> Iterator[None]:
    """Limit the size of files that this process writes; bytecode would be incomplete, and break later processes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def in_use(door: str, out: Path) -> Iterator[None]:
    """Hold the lock that another writer of the output would hold."""
    if door in FILES:
        with locked_side(out):
            yield
        return
    out.mkdir()
    if door == "`write -o`":
        with BinlogWriter(out / "binlog"):
            yield
    elif "DIR/" in door:
        with NewLogs.in_directory(str(out), "binlog.000001"):
            yield
    elif door == "`index -o`":
        with locked_side(out / "binlog.000001.keys.parquet"):
            yield
    else:
        lock = os.open(out, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        os.close(lock)


def table() -> dict[str, list[str]]:
    """Return the exit codes in the documentation, by output."""
    lines = (ROOT / "docs" / "reliability.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    start = rows.index(["output", *PLACES])
    return {row[0]: row[1:] for row in rows[start + 2 : start + 2 + len(DOORS)]}


@pytest.mark.parametrize("door", DOORS)
def test_outcome_at_every_place(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that fails changes nothing; files have the mode 0640, and directories 0750."""
    monkeypatch.chdir(tmp_path)
    mask = os.umask(0o022)
    folder, out = tmp_path / "folder", tmp_path / "folder" / "out"
    folder.mkdir()
    try:
        codes = [run(door, out).exit_code]
        new = contents(folder)
        wrong = [name for name, (mode, _) in new.items() if mode != (0o750 if (folder / name).is_dir() else 0o640)]
        codes.append(run(door, out).exit_code)
        assert codes[1] == 0 or contents(folder) == new
        codes.append(0)
        if door not in CANNOT_FORCE:
            codes[-1] = run(door, out, "--force").exit_code
            assert set(contents(folder)) == set(new) or "Delta" in door or "Iceberg" in door
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "file").write_text("precious")
        before = contents(folder)
        codes.append(run(door, folder / "none" / "out").exit_code)
        assert (folder / "none").exists() == (codes[-1] == 0)
        shutil.rmtree(folder / "none", ignore_errors=True)
        codes.append(run(door, folder / "file" / "out").exit_code)
        with full_disk():
            codes.append(run(door, out).exit_code)
        assert contents(folder) == before
        with in_use(door, out):
            during = contents(folder)
            codes.append(run(door, out).exit_code)
            assert contents(folder) == during
    finally:
        os.umask(mask)
    codes.append(2 if door in ALSO_STORES else run(door, "s3://bucket/x").exit_code)
    if door not in ALSO_STORES:
        assert run(door, "gs://bucket/x").exit_code == run(door, "file://host/x").exit_code == codes[-1]
    assert run(door, (tmp_path / "a place").as_uri()).exit_code == 0

    assert wrong == []
    assert not [name for name in new if ".part" in name]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a place", "folder"]
    assert ["" if door in ALSO_STORES and i == 7 else str(code) for i, code in enumerate(codes)] == table()[door]


READ_FIRST: Final = {  # what is at the place of an output that a command reads, or of a text that it reads whole
    "--save": ("schema", "-q", "--save", "OUT", LOG),
    "--save --force": ("schema", "-q", "--force", "--save", "OUT", LOG),
    "binlogio-export.json": ("export", "-q", "--append", "-o", "FOLDER", LOG),
    "binlog.000001.keys.parquet": ("index", "-q", "-o", "FOLDER", LOG),
    "--information-schema": ("schema", "--information-schema", "OUT"),
    "--ddl": ("write", "--from", "OUT", "--format", "csv", "--table", "a.b", "--ddl", "OUT", "-o", "FOLDER/new"),
}


@pytest.mark.parametrize("name", READ_FIRST)
@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR], ids=["pipe", "zeros"])
def test_a_device_is_not_read_to_its_end_nor_replaced(name: str, kind: int, tmp_path: Path) -> None:
    """A pipe without a writer would block, and zeros would fill the memory."""
    if kind == stat.S_IFIFO and name in ("--information-schema", "--ddl"):
        pytest.skip("a pipe is a file to read")
    place = tmp_path / name
    try:
        os.mknod(place, kind | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")
    arguments = (one.replace("OUT", str(place)).replace("FOLDER", str(tmp_path)) for one in READ_FIRST[name])
    result = subprocess.run(
        [sys.executable, "-m", "binlogio", *arguments],
        check=False,
        capture_output=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)),
    )

    assert result.returncode == 2, result.stderr
    assert str(place).encode() in result.stderr
    assert stat.S_IFMT(place.stat().st_mode) == kind
    assert [one.name for one in tmp_path.iterdir()] == [name]


RUN_ANOTHER_FIRST: Final = """
import subprocess, sys
from binlogio_cli.main import main

def before_the_lock(event, _, begun=[]):
    if event == "fcntl.flock" and not begun:
        begun.append(True)
        subprocess.run([sys.executable, "-m", "binlogio", *sys.argv[1:]], check=True)

sys.addaudithook(before_the_lock)
main()
"""


def test_an_export_knows_what_another_has_added_before_it_had_the_lock(tmp_path: Path) -> None:
    """The ledger is read with the lock: what it lists is neither written again nor left out of the next ledger."""
    command = ["export", "-q", "--append", "--format", "csv", "-o", str(tmp_path / "out")]
    assert CliRunner().invoke(cli, [*command, LOG]).exit_code == 0
    second = [*command, LOG, str(MYSQL / "incident" / "binlog.000002")]
    result = subprocess.run([sys.executable, "-c", RUN_ANOTHER_FIRST, *second], check=False, capture_output=True)
    assert CliRunner().invoke(cli, [*command[:-1], str(tmp_path / "one"), *second[-2:]]).exit_code == 0

    assert result.returncode == 0, result.stderr
    lines = [sorted(b"".join(rows(tmp_path / name).values()).splitlines()) for name in ("out", "one")]
    assert set(lines[0]) == set(lines[1])
    assert len(lines[0]) == len(lines[1]) + 2  # two more headers


def stopped(
    tmp_path: Path,
    doors: Collection[str],
    numbers: Iterable[int | str],
    most: int,
    moments: int = 0,
    **environment: str,
) -> None:
    """Run each command in `tmp_path / NUMBER / DOOR / N`, with that signal or fault of `killed_commands`; not run 0."""
    (tmp_path / "new").mkdir()
    (tmp_path / "exists").mkdir()
    (tmp_path / "exists" / "out").write_text("precious")
    lines = []
    for number, (i, door) in product(map(str, numbers), enumerate(doors)):
        command = [one.replace("OUT", "@/out") for one in DOORS[door.removesuffix(FORCED)]]
        template, more = ("exists", ["--force"]) if door.endswith(FORCED) else ("new", [])
        places = [str(tmp_path / number / str(i)), str(tmp_path / template)]
        lines.append(json.dumps([number, *places, command[0], *more, *command[1:]]))
    subprocess.run(
        [sys.executable, str(SUPPORT / "killed_commands.py"), str(most), str(moments)],
        input="\n".join(lines).encode(),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )


def rows(folder: Path) -> dict[str, bytes]:
    """Return the files below a directory that have rows, and the rows of the tables that Delta and Iceberg know."""
    found = finished(folder)
    for log in folder.rglob("_delta_log"):
        pytest.importorskip("deltalake")
        found[str(log.relative_to(folder))] = repr(delta_table(log.parent).to_pylist()).encode()
    for database in folder.rglob("catalog.db"):
        catalog = pytest.importorskip("pyiceberg.catalog.sql").SqlCatalog("binlogio", uri=f"sqlite:///{database}")
        for name in (name for space in catalog.list_namespaces() for name in catalog.list_tables(space)):
            found[".".join(name)] = repr(catalog.load_table(name).scan().to_arrow().to_pylist()).encode()
        catalog.engine.dispose()
    return found


def finished(folder: Path) -> dict[str, bytes]:
    """Return the files below a directory that have rows and a final name; of a DuckDB file its rows."""
    return {
        name: _duckdb_rows(folder / name) if data[8:12] == b"DUCK" else data
        for name, (_, data) in contents(folder).items()
        if data and ".part" not in name and not name.endswith(NO_ROWS)
    }


def _duckdb_rows(file: Path) -> bytes:
    with pytest.importorskip("duckdb").connect(str(file), read_only=True) as database:
        names = database.sql("SELECT schema_name, table_name FROM duckdb_tables()").fetchall()
        tables = {name: database.sql('FROM "{}"."{}"'.format(*name)).fetchall() for name in sorted(names)}
    return repr({name: rows for name, rows in tables.items() if name[0] != "binlogio_export"}).encode()


def test_killed_commands_can_be_repeated(tmp_path: Path) -> None:
    """A file is complete, or as it was before; the next command completes the output and removes what is left."""
    stopped(tmp_path, KILLED, [int(signal.SIGKILL)], KILLS, max(1, KILLS // 2))
    tmp_path, count = tmp_path / str(int(signal.SIGKILL)), 0
    for i, name in enumerate(KILLED):
        door, old = name.removesuffix(FORCED), {"out": b"precious"} if name.endswith(FORCED) else {}
        whole = rows(tmp_path / str(i) / "0")
        assert whole not in ({}, old), name
        for folder in (path for path in (tmp_path / str(i)).iterdir() if path.is_dir() and path.name != "0"):
            where = (name, folder.name)
            count += Path(f"{folder}.code").read_text() == "-9"
            if door == "`write -o`":  # it writes logs under their names, and the next command continues them
                assert run(door, folder / "out").exit_code == 0, where
                assert CliRunner().invoke(cli, ["verify", "-q", str(folder / "out")]).exit_code == 0, where
                continue
            left = finished(folder)
            assert left in (old, whole) if door in FILES else left.items() <= whole.items(), where
            code = 2 if old else run(door, folder / "out").exit_code
            if code == 2 and "export" in door:
                code = run(door, folder / "out", "--append").exit_code
                assert code == 0, where
            assert code in (0, 2), where
            if code == 2:
                assert run(door, folder / "out", "--force").exit_code == 0, where
            assert rows(folder) == whole, where
            assert not [one for one in contents(folder) if ".part" in one], where

    assert count > len(KILLED) * KILLS // 2


def test_storage_that_fails_at_one_call(tmp_path: Path) -> None:
    """The output is complete, or there is an error, and it can be repeated; what only interrupts changes nothing."""
    doors = DOORS if KILLS > 4 else (*INTERRUPTED, "`write -o`", "`export -o`, Delta")
    faults, library = ("EIO", "ENOSPC", "EINTR", "SHORT"), tmp_path / "faults.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, SUPPORT / "faults.c", "-ldl"], check=True)
    stopped(tmp_path, doors, faults, KILLS, LD_PRELOAD=str(library), INPUT=LOG)
    for fault in faults:
        check_failed(tmp_path / fault, doors, fault)


def check_failed(tmp_path: Path, doors: Collection[str], fault: str) -> None:
    """Check the outputs of commands whose storage had a fault."""
    failed = 0
    for i, door in enumerate(doors):
        whole = rows(tmp_path / str(i) / "0")
        assert whole, door
        for folder in (path for path in (tmp_path / str(i)).iterdir() if path.is_dir() and path.name != "0"):
            code, _, call = Path(f"{folder}.code").read_text().partition(" ")
            message = Path(f"{folder}.err").read_text()
            where = door, folder.name, code, call, message
            assert call, where
            fails = fault in ("EIO", "ENOSPC") or ("DuckDB" in door or "Delta" in door)  # which do not try again
            assert code == "0" or (code == "4" and fails), where
            assert "Traceback" not in message, where
            failed += code == "4"
            if door == "`write -o`":
                assert run(door, folder / "out").exit_code == 0, where
                assert CliRunner().invoke(cli, ["verify", "-q", str(folder / "out")]).exit_code == 0, where
                continue
            if code == "4":
                assert message.startswith("binlogio: "), where
                assert finished(folder).items() <= whole.items(), where
                if run(door, folder / "out").exit_code:
                    more = "--append" if "export" in door else "--force"
                    assert run(door, folder / "out", more).exit_code == 0, where
            found = rows(folder)
            if code == "0":  # after the commit, the register of new logs, or a temporary file of deltalake, may be left
                left = [name for name in found if re.search(r"~rec~$|_delta_log/.*#\d+$", name)]
                found = {name: data for name, data in found.items() if name not in left}
            assert found == whole, where
            assert not [one for one in contents(folder) if ".part" in one] or code == "0", where

    assert failed > len(doors) if fault in ("EIO", "ENOSPC") else failed <= 2 * KILLS


def test_interrupted_commands_leave_nothing(tmp_path: Path) -> None:
    """The output is complete, or there is no file at all."""
    codes = {int(signal.SIGINT): "130", int(signal.SIGTERM): "143"}
    stopped(tmp_path, INTERRUPTED, codes, 3)
    found = Counter[str]()
    for number, (i, door) in product(codes, enumerate(INTERRUPTED)):
        place = tmp_path / str(number) / str(i)
        whole = rows(place / "0")
        for folder in (path for path in place.iterdir() if path.is_dir() and path.name != "0"):
            found[Path(f"{folder}.code").read_text()] += 1
            assert rows(folder) in ({}, whole), (number, door, folder.name)
            assert not [name for name in contents(folder) if ".part" in name], (number, door, folder.name)

    assert min(found[code] for code in codes.values()) > 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that the interrupt left open
@pytest.mark.parametrize("door", DOORS)
def test_an_interrupt_after_a_temporary_file_was_created(door: str, tmp_path: Path) -> None:
    """No temporary file is left, at whichever line the command is."""

    def is_there(source: str) -> bool:
        return source.endswith("new_file.py") and next(folder.rglob(".binlogio-*"), None) is not None

    interrupted = 0
    for lines in (*range(12), *(12 * 2**power for power in range(8))):
        folder = tmp_path / str(lines)
        folder.mkdir()
        interrupt = InterruptAfter(is_there, lines)
        before = sys.gettrace()
        sys.settrace(interrupt)
        try:
            with suppress(KeyboardInterrupt):
                run(door, folder / "out")
        finally:
            sys.settrace(before)
        interrupted += interrupt.lines < 0
        assert not [name for name in contents(folder) if ".part" in name], (lines, list(contents(folder)))

    assert interrupted > 5 or door == "`write -o`"  # that writes logs under their names


def test_python_refuses_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for door in (lambda: export(LOG, "s3://bucket/x"), lambda: BinlogWriter("s3://bucket/binlog")):
        with pytest.raises(UnsupportedFeature, match="local files only"):
            door()
    assert list(tmp_path.iterdir()) == []


def test_old_names_of_options_are_taken(tmp_path: Path) -> None:
    """They are not in the help, and write the same bytes."""
    old: dict[str, list[tuple[str, ...]]] = {
        "dump": [("dump", "-o"), ("dump", "-r"), ("dump", "--result-file"), ("dump", "--output")],
        "copy": [("copy", "-o"), ("copy", "-r")],
        "undo": [(*UNDO, "--format", "binlog", "-o"), (*UNDO, "--to-binlog")],
        "stats": [("stats", "--format", "html", "-o"), ("stats", "--html")],
        "export": [("export", "--format", "csv", "-o"), ("export", "--format", "csv", "--to")],
    }
    for name, forms in old.items():
        written: list[object] = []
        for number, options in enumerate(forms):
            out = tmp_path / f"{name}{number}"
            assert CliRunner().invoke(cli, [*options, str(out), LOG]).exit_code == 0
            written.append(rows(out) if out.is_dir() else out.read_bytes())
        if name != "stats":
            assert written.count(written[0]) == len(written)
        shown = CliRunner().invoke(cli, [name, "--help"]).stdout
        assert not [one for one in ("--result-file", "--to-binlog", "--html", "--to ") if one in shown]
    for name in ("dump", "stats", "info", "verify", "grep"):
        more = ["id > 0"] if name == "grep" else []
        texts = [CliRunner().invoke(cli, [name, *one, *more, LOG]).stdout for one in (["--json"], ["--format", "json"])]
        assert texts[0] == texts[1]
        assert isinstance(json.loads(texts[0] if name == "stats" else texts[0].splitlines()[0]), dict)
