"""How failures of tests arrive: a report goes to another process when tests run in several."""

from __future__ import annotations

import pytest


def test_report_with_text_that_cannot_be_encoded_is_escaped(request: pytest.FixtureRequest) -> None:
    """Names in the log that are not UTF-8 get into error messages, and into examples of Hypothesis."""
    report = pytest.TestReport(
        "test", ("file", 1, "test"), {}, "failed", "d.o\udc80", "call", sections=[("Hypothesis", "\ud800")]
    )
    data = request.config.hook.pytest_report_to_serializable(config=request.config, report=report)

    assert data["longrepr"] == r"d.o\udc80"
    assert data["sections"] == [("Hypothesis", r"\ud800")]
