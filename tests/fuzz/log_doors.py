"""The doors that a log goes through, in Python and as commands, and what is true of each of them.

A door takes the path of a log, its bytes and a random generator. An exception that is not expected is a finding, and so
is a wrong result (AssertionError).
"""

from __future__ import annotations

import io
import json
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
from click.testing import CliRunner, Result

import binlogio
from binlogio.archive import verify_logs
from binlogio.archive.verify import DAMAGE
from binlogio.errors import BinlogError
from binlogio.events.table_map import TableMapEvent
from binlogio.replay.undo import BinlogFile, OnStatement, SqlScript, undo
from binlogio.series.gtid_history import NOTE
from binlogio_cli.main import cli
from both_dumps import FORMS, assert_dumped_alike
from both_kernels import KERNELS, Said, error_of_events, records_and_error_by, rows_and_error_by
from both_readers import assert_same, choices, chosen, steps_by_both
from both_records import EVERYTHING, READERS, by_construct, found, log_of, sources, without_ends
from both_transactions import transactions_of
from logs import read_to_end, reading_stops_at
from repaired_logs import repaired, whole_groups

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Door = Callable[[Path, bytes, Random], None]

EXIT_CODES: Final = frozenset({0, 1, 2, 3, 4})  # docs/errors.md, without those of signals
IDENTITY: Final = ("pos", "row", "op")
IMAGES: Final = ("before", "after")


def run(*arguments: object) -> Result:
    """Run a command; its exit code is a documented one, and there is no traceback."""
    result = CliRunner().invoke(cli, [str(one) for one in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in EXIT_CODES, (arguments, result.exit_code, result.stderr)
    assert "Traceback (most recent" not in result.stderr, (arguments, result.stderr)
    assert result.exit_code in {0, 1} or result.stderr, (arguments, "no message")
    return result


def run_process(*arguments: object) -> int:
    """Run a command in a process of its own, with bounded memory."""
    command = [sys.executable, "-m", "binlogio", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert done.returncode in EXIT_CODES, (arguments, done.returncode, done.stderr[-2000:])
    assert b"Traceback (most recent" not in done.stderr, (arguments, done.stderr[-2000:])
    return done.returncode


# ------------------------------------------------------------------------------------------------ kernel and construct


def events_alike(path: Path, data: bytes, random: Random) -> None:
    """Compare events, positions, table maps and errors."""
    assert_same(data, verify_checksum=random.random() < 0.7)
    error_of_events(data)


def chosen_alike(path: Path, data: bytes, random: Random) -> None:
    """Compare `choose` with a filter in Python; damage may only be missed in a group that is passed over."""
    choice = random.choice(choices(data))
    (events, end), (expected, error) = (chosen(data, choice, by_reader=one) for one in (True, False))
    is_damaged = isinstance(error, Said) or choice.stop_time is not None
    is_same = events[: len(expected)] == expected if is_damaged else (events, end) == (expected, error)
    assert is_same or (len(events) >= len(expected) and _has_tables_of_two_shapes(data))


def rows_alike(path: Path, data: bytes, random: Random) -> None:
    """Compare `read_tables` and `read_rows` by both, and with two threads."""
    options: dict[str, Any] = {"zero_dates": random.choice(("error", "null", "text"))}
    (records, end), (wanted, stop) = (records_and_error_by(kernel, data) for kernel in KERNELS)
    (tables, error), (expected, said) = (rows_and_error_by(kernel, data, **options) for kernel in KERNELS)

    assert (end, error) == (stop, said)
    if end is not None and "unsupported post-header size" in end.text:
        return  # the kernel refuses the first event of this type, construct one that it parses
    assert [row[:2] for row in records] == [row[:2] for row in wanted]
    assert sum(map(len, tables.values())) == sum(map(len, expected.values()))
    assert (records, tables) == (wanted, expected) or _has_tables_of_two_shapes(data)
    assert _rows_of_file(path, threads=2) == _rows_of_file(path, threads=1)


def _has_tables_of_two_shapes(data: bytes) -> bool:
    """Return whether a table has other columns without DDL.

    Its definition is dropped when a plan of it is made: by the kernel earlier than by construct, or later.
    """
    shapes: dict[tuple[str, str], set[Any]] = {}
    with suppress(BinlogError), binlogio.open(io.BytesIO(data)) as reader:
        for event in reader:
            if isinstance(event, TableMapEvent):
                shapes.setdefault((event.schema, event.table), set()).add((event.column_types, event.metadata))
    return any(len(one) > 1 for one in shapes.values())


def _rows_of_file(path: Path, **options: Any) -> tuple[list[dict[str, Any]], Said | None]:
    rows, error = [], None
    try:
        for batch in binlogio.read_rows(path, **options):
            rows += batch.select(("pos", "row", "op", "before_present", "after_present")).to_pylist()
    except BinlogError as exc:
        error = Said.of(exc)
    return rows, error


def dumps_alike(path: Path, data: bytes, random: Random) -> None:
    """Compare the output of dump in one format, byte by byte."""
    assert_dumped_alike(data, forms=[random.choice(FORMS)])


def records_alike(path: Path, data: bytes, random: Random) -> None:
    """Compare the records of events and of transactions."""
    selection = replace(EVERYTHING, verify_checksum=random.random() < 0.7)
    for kind in READERS:
        assert found(kind, log_of(path), selection=selection) == by_construct(kind, log_of(path), selection=selection)


def sources_alike(path: Path, data: bytes, random: Random) -> None:
    """Compare the source columns; where a log is damaged, XID and outcome may be found after the damage."""
    expected, error = sources("construct", path)
    rows, said = sources("compiled", path)

    assert said == error
    assert without_ends(rows, error) == without_ends(expected, error)


def groups_alike(path: Path, data: bytes, random: Random) -> None:
    """Compare the groups of the kernel with those of the tracker."""
    for step, expected in steps_by_both(data):
        assert step == expected


def raw_groups_alike(path: Path, data: bytes, random: Random) -> None:
    """Compare the transactions of a replay by raw groups and by typed events."""
    assert transactions_of(path, raw=True)[:2] == transactions_of(path, raw=False)[:2]


# ------------------------------------------------------------------------------------------------------------ commands


def _findings(path: Path) -> set[tuple[str, str]]:
    """Return damage and problems of a log."""
    report, *_ = verify_logs([path])  # the other ones are about several logs
    return {(one.level, one.message) for one in report.findings if one.level != NOTE}


def _assert_as_fine(path: Path, source: Path) -> None:
    """Check that the output of a command that ended with 0 is fine if its source is."""
    found = _findings(path) if not _findings(source) else set()
    assert not found, f"found by verify in {path.name} only: {sorted(found)}"


def undone(path: Path, data: bytes, random: Random) -> None:
    """Undo the row changes; what cannot be undone is refused."""
    form = random.choice((BinlogFile, SqlScript))()
    with (
        suppress(BinlogError),
        binlogio.open(io.BytesIO(data)) as reader,
        undo(reader, form, on_statement=random.choice(tuple(OnStatement))) as ready,
    ):
        for _ in ready.pieces():
            pass


def commanded(path: Path, data: bytes, random: Random) -> None:
    """Run commands that show a log; a sample of them as processes."""
    for arguments in random.sample(_COMMANDS, 3):
        run(*arguments, path)
    out = path.parent / "undo.out"
    form = random.choice((("--format", "sql"), ("--format", "binlog")))
    choice = ("--on-statement", random.choice(("refuse", "stop", "skip")))
    if not run("undo", *form, *choice, "-o", out, path).exit_code and form[1] == "binlog" and out.exists():
        _assert_as_fine(out, path)
    if random.random() < 0.01:
        run_process(*random.choice(_COMMANDS), path)


_COMMANDS: Final = (
    ("dump",), ("dump", "-vv"), ("dump", "--format", "json"), ("dump", "--format", "sql"), ("dump", "-f", "-H"),
    ("dump", "--print-table-metadata", "-s"), ("dump", "--no-verify-checksum"),
    ("dump", "--where", "id > 3"), ("undo", "--preview", "--on-statement", "skip"), ("info",), ("info", "--json"),
    ("stats",), ("stats", "--json"), ("stats", "--format", "html"), ("verify", "--json"), ("verify", "--headers-only"),
    ("grep", "id > 3"), ("grep", "--operation", "update"), ("schema",),
    ("history", "--no-index", "corpus.t", "1"), ("replay", "--to", "dry-run:"),
)  # fmt: skip


def copied(path: Path, data: bytes, random: Random) -> None:
    """Copy the log: what it writes with exit code 0 is fine, and has the rows of the log."""
    out, options = path.parent / "copy.000001", random.choice(_COPIES)
    if run("copy", *options, "-o", out, path).exit_code == 0:
        _assert_as_fine(out, path)
        if "-T" not in options:
            (rows, error), (expected, before) = _values(out), _values(path)
            assert error is None or before is not None
            assert rows == expected[: len(rows)], "rows of the output of copy"


_COPIES: Final = (
    (), ("--checksum", "none"), ("--checksum", "crc32"), ("--compression", "on"), ("--compression", "off"),
    ("-T", "*t*"),
)  # fmt: skip


def _values(path: Path) -> tuple[list[str], Said | None]:
    rows, error = [], None
    try:
        for batch in binlogio.read_rows(path):
            rows += [repr([record[name] for name in ("op", "before", "after", "gtid")]) for record in batch.to_pylist()]
    except BinlogError as exc:
        error = Said.of(exc)
    return rows, error


def _reads_to_end(path: Path) -> bool:
    """Return whether a log can be read to its end, or could be with the definitions of its tables."""
    try:
        read_to_end(path)
    except BinlogError as exc:
        return "definitions=" in str(exc)
    return True


def repaired_whole(path: Path, data: bytes, random: Random) -> None:
    """Repair the log: what is written can be read to its end, and is fine where nothing is lost."""
    target = path.parent / "repaired.000001"
    with suppress(BinlogError):
        report = repaired(target, path, recompute_checksums=random.random() < 0.5)
        assert report.groups == len(whole_groups(target))
    assert not target.exists() or _reads_to_end(target), "a repaired log cannot be read"
    out = path.parent / "repaired.000002"
    if run("repair", "-o", out, path).exit_code == 0:
        assert DAMAGE not in {level for level, _ in _findings(out)}, "damage in a repaired log"
        _assert_as_fine(out, path)


def verified(path: Path, data: bytes, random: Random) -> None:
    """Check that a log without findings can be read to its end, and that verify finds what stops a reader."""
    report, *_ = verify_logs([path])
    places = [one.offset or 0 for one in report.findings if one.level != NOTE]
    stopped_at = None if _reads_to_end(path) else reading_stops_at(path)

    assert stopped_at is None or (places and min(places) <= stopped_at), (stopped_at, places)


def exported(path: Path, data: bytes, random: Random) -> None:
    """Rows of `read_tables`, of exports and of dump: those that end with success have the same ones."""
    folder = path.parent
    codes = {kind: run("export", "-q", "-o", folder / kind, "--format", kind, path) for kind in ("parquet", "jsonl")}
    dumped = run("dump", "--format", "json", path)
    rows: list[dict[str, Any]] = []
    try:
        for _, batch in binlogio.read_tables(path):
            rows += batch.select(_COMPARED).to_pylist()
    except BinlogError:
        assert {one.exit_code for one in codes.values()} != {0}, "an export of a log that cannot be read"
        return
    if codes["parquet"].exit_code == 0 and "incomplete" not in codes["parquet"].stderr:
        files = (pq.read_table(one) for one in (folder / "parquet").glob("*.parquet"))
        written = [row for one in files for row in one.select(_COMPARED).to_pylist()]
        assert sorted(map(_row_text, written)) == sorted(map(_row_text, rows)), "rows of Parquet"
    keys = sorted(tuple(row[name] for name in IDENTITY) for row in rows)
    if codes["jsonl"].exit_code == 0 and "incomplete" not in codes["jsonl"].stderr:
        texts = (one.read_text("utf-8") for one in (folder / "jsonl").glob("*.jsonl"))
        lines = [json.loads(line) for text in texts for line in text.split("\n") if line]
        assert sorted(tuple(line[name] for name in IDENTITY) for line in lines) == keys, "rows of JSON lines"
    if dumped.exit_code == 0:
        assert len(list(_dumped_rows(dumped.stdout))) == len(keys), "rows of dump"


def _row_text(row: dict[str, Any]) -> str:
    """Return a row without NULLs, since a file has the columns of all definitions of its table; DECIMAL as text."""

    def texts(image: dict[str, Any]) -> dict[str, Any]:
        return {key: f"{one:f}" if isinstance(one, Decimal) else one for key, one in image.items() if one is not None}

    return repr({**row, **{name: row[name] and texts(row[name]) for name in IMAGES}})


_COMPARED: Final = ["pos", "row", "op", "before", "after", "before_present", "after_present"]


def _dumped_rows(text: str) -> list[Any]:
    def rows(line: dict[str, Any]) -> list[Any]:
        return [*line.get("rows", ()), *(row for inner in line.get("events", ()) for row in rows(inner))]

    return [row for line in text.split("\n") if line for row in rows(json.loads(line))]


def replayed(path: Path, data: bytes, random: Random) -> None:
    """Replay into SQLite; the same replay again changes nothing."""
    target = path.parent / "replayed.db"
    command = ("replay", "-q", "--to", f"sqlite:///{target}", path)
    if run(*command).exit_code == 0:
        before = _content(target)
        assert run(*command).exit_code == 0, "the same replay again"
        assert _content(target) == before, "rows after the same replay again"


def _content(target: Path) -> list[str]:
    if not target.exists():
        return []
    with closing(sqlite3.connect(target)) as connection:
        connection.text_factory = bytes
        return sorted(repr(line) for line in connection.execute("SELECT name, sql FROM sqlite_master")) + [
            repr(row)
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1"
            ).fetchall()
            if not name.startswith(b"binlogio_")
            for row in connection.execute(
                f'SELECT * FROM "{name.decode().replace(chr(34), chr(34) * 2)}" ORDER BY rowid'
            )
        ]


ALIKE: Final[tuple[Door, ...]] = (
    events_alike, chosen_alike, rows_alike, dumps_alike, records_alike, sources_alike, groups_alike, raw_groups_alike,
)  # fmt: skip
DOORS: Final = (*ALIKE, undone, commanded, copied, repaired_whole, verified, exported, replayed)
