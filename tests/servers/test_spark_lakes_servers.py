"""docs/spark_lakes.md: its recipes, by the real connectors of Iceberg and Delta, make what servers answered to SELECT.

Spark takes the connectors from the Maven repositories that it is configured with.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

from corpus import FIXTURES, ROOT, SUPPORT
from pyspark_environments import UNREACHABLE, run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

PYSPARK: Final = "4.1"
PAGE: Final = ROOT / "docs" / "spark_lakes.md"
CASES: Final = (
    ("mysql97/rowimage_full", "corpus.pk", ["id"]),
    ("mysql97/rowimage_full", "corpus.pk2", ["id2", "id1"]),
    ("mysql97/group_commit", "corpus.hot", ["id"]),
    ("mariadb1011/incident", "shop.orders", ["id"]),
    ("mariadb118/group_commit", "corpus.hot", ["id"]),
)


def answered(case: str, table: str) -> list[dict[str, str | None]]:
    """Return the rows of a table as its server answered them, as texts."""
    found: dict[str, Any] = json.loads((FIXTURES / case / "expected.json").read_text("utf-8"))["tables"][table]
    names = [column["name"] for column in found["columns"]]
    return in_order(dict(zip(names, map(text, row), strict=True)) for row in found["rows"])


def text(value: Any) -> str | None:
    """Return the text of a value of the fixtures or of a table."""
    if isinstance(value, dict):
        value = value["text"] if "text" in value else value["hex"]
    return None if value is None else str(value)


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, str | None]]:
    """Return rows as texts, sorted."""
    return sorted(({name: text(value) for name, value in row.items()} for row in rows), key=str)


@pytest.mark.parametrize("connector", ["Iceberg", "Delta"])
def test_tables_of_a_connector_are_those_of_the_server(tmp_path: Path, connector: str) -> None:
    """The blocks of the page in their order; then tables whose keys change, by batches and by streams."""
    incident = FIXTURES / "mysql97" / "incident"
    (tmp_path / "archive").mkdir()
    for log in incident.glob("binlog.0*"):
        shutil.copy(log, tmp_path / "archive")
    cases = [
        {"name": f"case{number}", "logs": sorted(map(str, (FIXTURES / case).glob("*.0*"))), "table": table, "key": key}
        for number, (case, table, key) in enumerate(CASES)
    ]
    done = run(PYSPARK, str(SUPPORT / "lakes_driver.py"), str(PAGE), connector, json.dumps(cases), cwd=tmp_path)
    if unreachable := UNREACHABLE.search(done.stderr):
        pytest.skip(f"the connector cannot be had: {unreachable[0].strip()}")

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    orders = answered("mysql97/incident", "shop.orders")
    assert orders
    assert in_order(found["batch of the page"]) == in_order(found["stream of the page"]) == orders
    for number, (case, table, _) in enumerate(CASES):
        expected = answered(case, table)
        assert expected
        assert in_order(found[f"case{number}"]["batch"]) == expected, (case, table, "batch")
        assert in_order(found[f"case{number}"]["stream"]) == expected, (case, table, "stream")
