"""Names of classes are unique in the project, and modules that only one neighbour imports do not multiply."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from corpus import ROOT

if TYPE_CHECKING:
    from pathlib import Path

HOMES: Final = {
    "binlogio": ROOT,
    "binlog_server": ROOT,
    "binlogio_cli": ROOT / "cli",
    "pyspark_binlogio": ROOT / "spark_datasource",
}
# Names that two classes still share. Empty it, never add to it.
SHARED: Final[frozenset[str]] = frozenset()
# Modules with exactly one importer, in the same package. A lower number is an improvement: write it here.
ONE_IMPORTER: Final = 34


def modules() -> dict[str, Path]:
    """Return the Python modules of the three packages, by their full names."""
    found: dict[str, Path] = {}
    for package, home in HOMES.items():
        for path in sorted((home / package).rglob("*.py")):
            parts = path.relative_to(home).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def test_class_names_are_unique() -> None:
    """A name that two classes need gets the difference into it: `LockedTable`, `MappedTable`."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module, path in modules().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    for path in sorted((ROOT / "binlogio").rglob("*.pyx")):
        for name in re.findall(r"^(?:cdef )?class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].append(path.stem)

    assert {name: where for name, where in places.items() if len(where) > 1 and name not in SHARED} == {}


def importers() -> dict[str, set[str]]:
    """Return for each module the modules that import it, type checking included."""
    known = modules()
    found: dict[str, set[str]] = {name: set() for name in known}
    for module, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                if name in found and name != module:
                    found[name].add(module)
    return found


def test_modules_with_one_importer_do_not_multiply() -> None:
    """A module that only a neighbour imports belongs to it, unless it is a concept with a good name."""
    alone = [
        f"{name} <- {next(iter(users))}"
        for name, users in sorted(importers().items())
        if len(users) == 1 and name.rpartition(".")[0] == next(iter(users)).rpartition(".")[0]
    ]

    assert len(alone) <= ONE_IMPORTER, "\n".join(alone)
