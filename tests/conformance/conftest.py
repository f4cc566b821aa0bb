"""Shows the counts of the conformance run after the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.report import REPORT
from conformance.scenarios import oracle_path

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Write the table where any scenario was driven."""
    lines = REPORT.lines()
    if lines:
        terminalreporter.section(f"conformance: {oracle_path().name}")
        for line in lines:
            terminalreporter.write_line(line)
