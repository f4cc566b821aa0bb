"""Fixtures of the benchmarks (logs, report), and the output of the result table, the page and the plot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import binlogio
from bench_logs import WRITERS, log_names
from report import Report

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

REPORT: Final = Report()


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Fail if the compiled kernel is not in use: numbers of the Python fallback are not comparable."""
    assert binlogio.KERNEL == "compiled"


@pytest.fixture(scope="session")
def report() -> Report:
    """Provide the report of the run."""
    return REPORT


@pytest.fixture(scope="session", params=log_names())
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a log; tests select logs by indirect parametrization with `log_names`."""
    write = WRITERS.get(request.param)
    return Path(request.param) if write is None else write(tmp_path_factory.mktemp("logs") / request.param)


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print the result table; without `-k`, also write the page and the plot.

    BINLOGIO_BENCH_PAGE and BINLOGIO_BENCH_PLOT are the paths of these files.
    """
    if not (REPORT.lines or REPORT.doors):
        return
    terminalreporter.section(
        "measured in this run: medians, CPU time of one core; CRC is one zlib.crc32 pass over the log"
    )
    for line in REPORT.table():
        terminalreporter.write_line(line)
    page, plot = os.environ.get("BINLOGIO_BENCH_PAGE"), os.environ.get("BINLOGIO_BENCH_PLOT")
    if config.option.keyword:
        return
    if page:
        Path(page).write_text(REPORT.markdown("make bench"))
        terminalreporter.write_line(f"page: {page}")
    if plot and REPORT.speeds:
        try:
            REPORT.plot(Path(plot))
        except ImportError as exc:
            terminalreporter.write_line(f"no plot: {exc}; pip install 'binlogio[bench]'")
        else:
            terminalreporter.write_line(f"plot: {plot}")
