"""One question, one package: sentences about the source that hold for all commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import grimp
import pytest

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = tuple(
    path
    for folder in ("binlogio", "binlog_server", "cli", "spark_datasource")
    for path in sorted((ROOT / folder).rglob("*.py"))
)
COMPARES_LOGS: Final = re.compile(
    r"\b(created|first_gtid)\s*(==|!=|<=|>=|<|>)\s*\w+\.(created|first_gtid)|\bhash_of\(|\blog_number\([^)]*\) == \("
)


def test_only_the_series_compares_two_logs() -> None:
    """Identity, fingerprints and the sequence of numbers are in `binlogio.series`."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in SOURCES
        if "series" not in path.parts
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if COMPARES_LOGS.search(line)
    ]

    assert found == []


MATCHES_NAMES: Final = re.compile(r"\bfnmatch\w*\(")
OPENS_FOR_WRITING: Final = re.compile(
    r"""\bopen\([^)]*["'][wax]b?["']|\bwrite_(bytes|text)\(|\bO_(WR|RDWR|CREAT)|\bmkstemp\(|TemporaryFile\("""
)
WRITERS: Final = {
    "binlogio/archive/group_editor.py": "a temporary file without a name",
    "binlogio/archive/repair.py": "a temporary file of a stream",
    "binlogio/replay/undo/spool.py": "a temporary file without a name",
    "binlogio/replay/targets/sqlite/target.py": "a database, which SQLite then writes",
    "cli/binlogio_cli/dump/sql_output.py": "files of LOAD DATA, in the folder of --local-load",
    "cli/binlogio_cli/main.py": "the null device",
}


def places(pattern: re.Pattern[str], *packages: str) -> set[str]:
    """Return the files outside of some packages with a line that matches."""
    return {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if not {*packages} & {*path.parts}
        for line in path.read_text("utf-8").splitlines()
        if pattern.search(line)
    }


def test_only_the_selection_matches_names_of_tables() -> None:
    """The others match names of files, and the database patterns of GRANT."""
    of_files = {"binlogio/storage/object_store.py", "spark_datasource/pyspark_binlogio/options.py"}

    assert places(MATCHES_NAMES, "selection") == {"binlogio/schema/statement_scope.py", *of_files}


def test_only_the_storage_opens_files_for_writing() -> None:
    """The others write no output, or one that no door publishes."""
    assert places(OPENS_FOR_WRITING, "storage") == {*WRITERS}


READS_FRAMES: Final = re.compile(r"\bcrc32\(0, |\bu32\([^()]* \+ 13\)|\bu32\([^()]* \+ 9\)")
OF_FRAMES: Final = {
    "base/event_bytes.pxd": "writes checksums", "scan/cursor.pxd": "reads frames",
    "write/event_buffer.pxi": "own events", "write/fast_path.pxi": "own events", "scan/group_editor.pxi": "own events",
    "read/windows.pxi": "the size of a window", "read/event_walk.pxi": "a hash", "texts/json.pxi": "fields of texts",
    "texts/text.pxi": "fields of texts", "texts/parts.pxi": "XA PREPARE",
    "read/event_records.pxi": "fields of records", "python_events.pyx": "fields of the header",
    "scan/headers.pxi": "fields of the index",
    "scan/event_types.pxd": "XA PREPARE",
}  # fmt: skip


def kernel_sources() -> dict[str, str]:
    """Return the Cython sources of the kernel by their path in it."""
    kernel = ROOT / "binlogio" / "_kernel"
    files = [path for path in kernel.rglob("*.p*") if path.suffix in (".pxi", ".pxd", ".pyx")]
    return {str(path.relative_to(kernel)): path.read_text("utf-8") for path in files}


def test_loops_of_the_kernel_read_sizes_and_checksums_of_events_by_one_function() -> None:
    """`frame_at` of `scan/cursor.pxd`. The survey and the group filter have no such loads; the others read fields."""
    found = {name for name, text in kernel_sources().items() if READS_FRAMES.search(text)}

    assert found == {*OF_FRAMES}


WITHOUT_CURSOR: Final = {
    "scan/cursor.pxd": "the cursor", "event_texts.pyx": "texts need a part of the next event",
    "scan/event_scanner.pxi": "look_ahead takes parts of events", "scan/log_survey.pxi": "a part of a large event",
    "scan/headers.pxi": "the search for a group at any byte, and events at known places",
}  # fmt: skip


def test_loops_of_the_kernel_walk_with_the_cursor() -> None:
    """`look` and `pass_event`; the others look at one place, or at a part of an event."""
    assert {name for name, text in kernel_sources().items() if "frame_at(" in text} == {*WITHOUT_CURSOR}


@pytest.mark.parametrize("package", ["binlogio.replay", "binlogio.schema.ddl", "binlogio.writer.session"])
def test_package_has_no_circle_of_imports(package: str) -> None:
    """Imports between its modules and subpackages, including those for type annotations and those in functions.

    import-linter ignores imports for annotations in all contracts or in none, and other packages have such circles.
    """
    imports = grimp.build_graph("binlogio", exclude_type_checking_imports=False, cache_dir=None)

    assert imports.nominate_cycle_breakers(package) == set()
