"""Choice of the implementation: by the environment; one warning if the kernel is missing; a test run knows its own."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.columnar import EventSelection, read_events, read_transactions, split_reader
from binlogio.errors import MissingKernel
from binlogio.implementation import COMPILED, CONSTRUCT, VARIABLE, implementation, missing_module
from binlogio.storage.sources import find_logs
from binlogio_cli.main import cli
from corpus import ROOT

if TYPE_CHECKING:
    from pathlib import Path

LOG: Final = ROOT / "fixtures" / "mysql97" / "rowimage_full" / "binlog.000001"
WITHOUT_KERNEL: Final = "\n".join(
    (
        "import sys, warnings",
        f"names = {['binlogio._kernel.' + path.stem for path in (ROOT / 'binlogio' / '_kernel').glob('*.pyx')]!r}",
        "sys.modules.update(dict.fromkeys(names))",  # what import takes for a module that is not there
        "import binlogio",
        "with warnings.catch_warnings(record=True) as caught:",
        "    warnings.simplefilter('always')",
        "    for _ in range(2):",
        f"        with binlogio.open({str(LOG)!r}) as reader:",
        "            rows = sum(len([*reader.rows(one)]) for one in reader if isinstance(one, binlogio.RowsEvent))",
        "print(binlogio.KERNEL, rows, *(f'{one.category.__name__}: {one.message}' for one in caught), sep='|')",
    )
)


def _run(code: str, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE} | more
    # Not in the folder of the sources: they would hide an installed binlogio, whose kernel is compiled.
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, cwd=LOG.parent
    ).stdout.strip()


def test_the_compiled_kernel_is_live() -> None:
    """A run that means to test the kernel must not test its fallback.

    BINLOGIO_KERNEL=construct says that this is meant.
    """
    if os.environ.get(VARIABLE) == CONSTRUCT:
        pytest.skip(f"{VARIABLE}={CONSTRUCT}")

    assert missing_module() is None
    assert implementation() == COMPILED


def test_installation_without_the_kernel_reads_the_same_rows_and_warns_once() -> None:
    """By `binlogio.open`; one warning names what to install."""
    rows = sum(batch.num_rows for _, batch in binlogio.read_tables(LOG, zero_dates="null"))
    kernel, found, *warned = _run(WITHOUT_KERNEL).split("|")

    assert (kernel, int(found)) == (CONSTRUCT, rows)
    assert len(warned) == 1
    assert warned[0].startswith("RuntimeWarning: ")
    assert "C compiler" in warned[0]


def test_record_batches_are_refused_without_the_kernel() -> None:
    """The error names what to install."""
    code = WITHOUT_KERNEL.replace("print(", f"binlogio.read_rows({str(LOG)!r}); print(")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        _run(code)

    assert "MissingKernel: reading rows into Arrow needs the compiled kernel, found import of" in caught.value.stderr
    assert "C compiler" in caught.value.stderr


COMMANDS: Final = {
    "copy": ("copy", "-o", "{}/copy/", "{log}"),
    "export": ("export", "-o", "{}/export", "{log}"),
    "grep": ("grep", "id = 1", "{log}"),
    "history": ("history", "corpus.t", "1", "{log}"),
    "index": ("index", "-o", "{}/index", "{log}"),
    "info": ("info", "{log}"),
    "repair": ("repair", "-o", "{}/repair/", "{log}"),
    "replay": ("replay", "--to", "sqlite:///{}/db", "{log}"),
    "schema": ("schema", "-o", "{}/schema.json", "{log}"),
    "a catalogue of definitions": ("schema", "--save", "{}/catalogue", "{log}"),
    "serve": ("serve", "--socket", "{}/socket", "{log}"),
    "stats": ("stats", "-o", "{}/stats", "{log}"),
    "undo": ("undo", "-o", "{}/undo.sql", "{log}"),
    "verify": ("verify", "{log}"),
}


@pytest.mark.parametrize("what", COMMANDS)
def test_commands_that_need_the_kernel_say_so_and_write_nothing(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, CONSTRUCT)
    result = CliRunner().invoke(cli, [word.format(tmp_path, log=LOG) for word in COMMANDS[what]])

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        f"binlogio: {what} needs the compiled kernel, found {VARIABLE}={CONSTRUCT} (unset {VARIABLE})\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read", [read_events, read_transactions])
def test_readers_of_spark_need_the_kernel(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on an executor: without the kernel, a part of a log would be read as a whole log."""
    monkeypatch.setenv(VARIABLE, CONSTRUCT)
    with pytest.raises(MissingKernel, match="needs the compiled kernel"):
        list(read(find_logs(LOG)[0], None, EventSelection()))
    with pytest.raises(MissingKernel, match="split_reader needs"):
        split_reader(find_logs(LOG)[0], None, EventSelection())


def test_construct_that_was_asked_for_is_no_reason_to_warn() -> None:
    kernel, rows, *warned = _run(WITHOUT_KERNEL, **{VARIABLE: CONSTRUCT}).split("|")

    assert kernel == CONSTRUCT
    assert int(rows) > 0
    assert warned == []


def test_kernel_that_is_asked_for_and_is_not_there_is_an_error() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        _run(WITHOUT_KERNEL, **{VARIABLE: COMPILED})

    assert "UnsupportedFeature: BINLOGIO_KERNEL: the compiled kernel is not installed" in caught.value.stderr


def test_binlogio_in_a_zip_archive_is_refused_by_a_sentence(tmp_path: Path) -> None:
    """What Spark's --py-files makes of it; construct that was asked for works."""
    archive = tmp_path / "binlogio.zip"
    with zipfile.ZipFile(archive, "w") as found:
        for path in (ROOT / "binlogio").rglob("*.py"):
            found.write(path, path.relative_to(ROOT))
    head = "\n".join(
        (
            f"import sys; sys.path.insert(0, {str(archive)!r})",
            # The finder of an editable installation comes before the path.
            "sys.meta_path[:] = [one for one in sys.meta_path if not type(one).__module__.startswith('_editable')]",
            "import binlogio; ",
        )
    )
    opened = f"{head}print(len(list(binlogio.open({str(LOG)!r}))))"
    for code in (opened, f"{head}binlogio.read_rows({str(LOG)!r})"):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            _run(code)

        assert "zip archive" in caught.value.stderr
        assert "--py-files" in caught.value.stderr
    assert int(_run(opened, **{VARIABLE: CONSTRUCT})) > 0


def test_environment_chooses_each_time_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, CONSTRUCT)
    forced = binlogio.KERNEL
    monkeypatch.setenv(VARIABLE, "")

    assert forced == CONSTRUCT
    assert implementation() == (COMPILED if missing_module() is None else CONSTRUCT)


def test_unknown_kernel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "fast")

    with pytest.raises(binlogio.UnsupportedFeature, match="unknown kernel, expected compiled or construct, found fast"):
        implementation()


def test_asking_brings_in_every_module_of_the_kernel() -> None:
    """One that was not compiled cannot stay unseen until it is needed."""
    code = (
        "import sys, binlogio; binlogio.KERNEL; print(*(name for name in sys.modules if "
        "name.startswith('binlogio._kernel.')))"
    )
    loaded = {name.rpartition(".")[2] for name in _run(code).split()}

    assert {path.stem for path in (ROOT / "binlogio" / "_kernel").glob("*.pyx")} <= loaded
