"""Prints, behind the benchmarks, the ratios that count: pairs measured in turn, in one run, on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import binlogio

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

RATIOS: list[str] = []


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """A figure of the fallback would say nothing."""
    assert binlogio.KERNEL == "compiled"


@pytest.fixture
def ratios() -> list[str]:
    """Lines to print at the end of the run."""
    return RATIOS


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """One line a pair."""
    if RATIOS:
        terminalreporter.section("ratios, each pair measured in turn in this run (CPU time of one core, medians)")
        for line in RATIOS:
            terminalreporter.write_line(line)
