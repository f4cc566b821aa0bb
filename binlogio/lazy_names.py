"""Lazy imports: public names of a package are imported at their first use (PEP 562), so unused names cost no time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    `homes` maps a module to its public names, separated by spaces. The name of the module is relative to the package,
    unless it begins with `binlogio.`. The returned function raises AttributeError for any other name.
    """
    modules = {
        name: module if module.startswith("binlogio.") else f"{package}.{module}"
        for module, names in homes.items()
        for name in names.split()
    }

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
