"""`fixtures/statement_logs.json` against a running 9.7 server: it logs each statement as recorded."""

from __future__ import annotations

import json
from typing import Final

import pytest

from corpus import FIXTURES
from real_servers import vendor
from record_statement_logs import (
    STATEMENTS,
    STATEMENTS_WITH_MORE,
    record_all,
)
from regenerate import PLAIN_LOG

pytestmark = [pytest.mark.server, pytest.mark.slow]
CASES: Final = json.loads((FIXTURES / "statement_logs.json").read_text("utf-8"))["cases"]


def test_a_server_logs_each_statement_as_it_was_recorded() -> None:
    """Every case, in every format."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in PLAIN_LOG.items()]

    with vendor("mysql").server("sl", *options) as instance:
        found = json.loads(json.dumps(record_all(str(instance.socket), instance.data)))

    assert [case["sql"] for case in CASES] == [*STATEMENTS, *STATEMENTS_WITH_MORE]
    assert [case for case, recorded in zip(found, CASES, strict=True) if case != recorded] == []
