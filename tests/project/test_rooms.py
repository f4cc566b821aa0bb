"""One question, one package: sentences about the source that hold for all commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import grimp
import pytest

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = tuple(
    path for folder in ("binlogio", "cli", "spark_datasource") for path in sorted((ROOT / folder).rglob("*.py"))
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


@pytest.mark.parametrize("package", ["binlogio.replay", "binlogio.schema.ddl", "binlogio.writer.session"])
def test_package_has_no_circle_of_imports(package: str) -> None:
    """Imports between its modules and subpackages, including those for type annotations and those in functions.

    import-linter ignores imports for annotations in all contracts or in none, and other packages have such circles.
    """
    imports = grimp.build_graph("binlogio", exclude_type_checking_imports=False, cache_dir=None)

    assert imports.nominate_cycle_breakers(package) == set()
