"""The logs to measure with, and the table and plot after the benchmarks: pairs measured in turn, in one run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import binlogio
from bench_logs import real_files, write_bulk, write_mariadb, write_oltp
from report import Report

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

REPORT: Final = Report()
WRITERS: Final = {"bulk": write_bulk, "oltp": write_oltp, "mariadb": write_mariadb}


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Provide a figure of the fallback would say nothing."""
    assert binlogio.KERNEL == "compiled"


@pytest.fixture(scope="session")
def report() -> Report:
    """Provide the report of the run."""
    return REPORT


@pytest.fixture(scope="session", params=[*WRITERS, *(str(path) for path in real_files())])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a log to read."""
    write = WRITERS.get(request.param)
    return Path(request.param) if write is None else write(tmp_path_factory.mktemp("logs") / request.param)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print the table, and draw the plot if BINLOGIO_BENCH_PLOT names its file and all benchmarks ran."""
    if not REPORT.lines:
        return
    terminalreporter.section(
        "measured in this run: medians, CPU time of one core; CRC is one zlib.crc32 pass over the log"
    )
    for line in REPORT.table():
        terminalreporter.write_line(line)
    plot = os.environ.get("BINLOGIO_BENCH_PLOT")
    if plot and REPORT.speeds and not config.option.keyword:
        try:
            REPORT.plot(Path(plot))
        except ImportError as exc:
            terminalreporter.write_line(f"no plot: {exc}; pip install 'binlogio[bench]'")
        else:
            terminalreporter.write_line(f"plot: {plot}")
