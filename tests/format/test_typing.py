"""The public interface as a type checker sees it: wrong names, keywords and values are errors before a program runs."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from subprocess import run

import pytest

import binlogio

ROOT = Path(binlogio.__file__).parent.parent


@pytest.mark.slow
def test_a_type_checker_refuses_wrong_names_keywords_and_values(tmp_path: Path) -> None:
    """Lines 4 to 8 of the program are correct; each line from 10 on contains one mistake."""
    program = """\
    import binlogio
    from binlogio.columnar.rows_reader import MixedBatches, RowBatches

    rows: RowBatches = binlogio.read_rows("binlog.*", table="shop.orders", columns=["id"], zero_dates="null", threads=4)
    mixed: MixedBatches = binlogio.read_rows("binlog.*", tables=["shop.*"], where=binlogio.EventFilter(tables=None))
    names: list[str] = [name for name, batch in binlogio.read_tables("binlog.*", tables=["shop.*"])]
    batches: type[binlogio.BatchSession] = binlogio.BatchSession
    kernel: str = binlogio.KERNEL

    binlogio.read_tabels("binlog.*")
    binlogio.read_rows("binlog.*", table="shop.orders", colums=["id"])  # codespell:ignore
    binlogio.read_rows("binlog.*", colums=["id"])  # codespell:ignore
    binlogio.read_rows("binlog.*", table="shop.orders", tables=["shop.*"])
    binlogio.read_tables("binlog.*", colums=["id"])  # codespell:ignore
    binlogio.read_tables("binlog.*", zero_dates="nul")
    binlogio.open("binlog.000001", start_offset="4")
    """
    path = tmp_path / "uses.py"
    path.write_text(textwrap.dedent(program), "utf-8")
    options = ("--strict", "--follow-imports=silent", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *options, str(path)]

    checked = run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    errors = {
        int(line): code
        for line, code in re.findall(r"uses\.py:(\d+): error: .*\[([a-z-]+)\]$", checked.stdout, re.MULTILINE)
    }
    assert not checked.stderr
    assert errors == {
        10: "attr-defined",
        11: "call-overload",
        12: "call-overload",
        13: "call-overload",
        14: "call-arg",
        15: "arg-type",
        16: "arg-type",
    }


def test_read_rows_refuses_table_and_tables_together() -> None:
    with pytest.raises(TypeError, match="table= or tables="):
        binlogio.read_rows("binlog.*", table="shop.orders", tables=["shop.*"])  # type: ignore[call-overload]
