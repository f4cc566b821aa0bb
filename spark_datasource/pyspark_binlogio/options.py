"""The options of `format("binlog")`: their names, what they may say, and what they mean.

Knows Spark's conventions (names in lowerCamelCase and any case, `path` and `paths`) and nothing of Spark itself. What is not in
the table below is refused, with the nearest name that is.

    path, paths          a file, glob, directory, .index file or URI; `paths` is a JSON array of these, as load([...]) gives
    view                 rows (one record a row change) | events (one record an event)
    table                one table, as schema.table
    tables               globs for schema.table, separated by commas
    verifyChecksum       true | false
    keyring              the server's keys for encrypted logs: a file on the driver, or its text
    pathGlobFilter       read only the files whose name matches; with {a,b}
    ignoreMissingFiles   true | false: a file that is not there is no error
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Final

VIEW_NAMES: Final = ("rows", "events")


class BinlogOptionError(ValueError):
    """An option of `format("binlog")` is unknown, or its value makes no sense."""


@dataclass(frozen=True, slots=True)
class TableFilter:
    """Which tables a user wants: one by its name, or all that match a glob; all of them where neither is given."""

    table: str | None = None
    globs: tuple[str, ...] = ()

    def __call__(self, schema: str | None, table: str | None) -> bool:
        """True where the table is wanted; False for what belongs to no table."""
        name = f"{schema}.{table}"
        if schema is None or table is None:
            return False
        return name == self.table or any(fnmatchcase(name, glob) for glob in self.globs)

    def __bool__(self) -> bool:
        """True where not every table is wanted."""
        return self.table is not None or bool(self.globs)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogOptions:
    """The options of one read. `paths` are absolute, or URIs; `keyring` may hold keys and is never shown."""

    paths: tuple[str, ...] = ()
    view: str = VIEW_NAMES[0]
    tables: TableFilter = field(default_factory=TableFilter)
    verify_checksum: bool = True
    keyring: str | None = field(default=None, repr=False)
    path_glob_filter: tuple[str, ...] = ()
    ignore_missing_files: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> BinlogOptions:
        """Take the options as Spark gives them; the case of their names does not matter.

        Raises:
            BinlogOptionError: an unknown name, or a value that is none of those allowed.
        """
        given = {_known(name): value for name, value in options.items()}
        values = {name: _PARSERS[name](name, value) for name, value in given.items()}
        if "table" in values and "tables" in values:
            raise BinlogOptionError("binlog: give either table or tables, not both")
        return cls(
            paths=values.get("path", ()) + values.get("paths", ()),
            view=values.get("view", VIEW_NAMES[0]),
            tables=TableFilter(values.get("table"), values.get("tables", ())),
            verify_checksum=values.get("verifyChecksum", True),
            keyring=values.get("keyring"),
            path_glob_filter=values.get("pathGlobFilter", ()),
            ignore_missing_files=values.get("ignoreMissingFiles", False),
        )

    def wants_file(self, name: str) -> bool:
        """True where `pathGlobFilter` lets a file of this name (without its directory) through."""
        return not self.path_glob_filter or any(fnmatchcase(name, glob) for glob in self.path_glob_filter)


def nearest(name: str, known: tuple[str, ...]) -> str:
    """The one of `known` that looks most like `name`."""
    by_lower = {one.lower(): one for one in known}
    return by_lower[get_close_matches(name.lower(), by_lower, n=1, cutoff=0.0)[0]]


def _known(name: str) -> str:
    for known in _PARSERS:
        if known.lower() == name.lower():
            return known
    names = tuple(_PARSERS)
    raise BinlogOptionError(
        f"binlog: there is no option {name!r}; did you mean {nearest(name, names)!r}? There are {', '.join(names)}"
    )


def _refused(name: str, value: str, expected: str) -> BinlogOptionError:
    return BinlogOptionError(f"binlog: option {name}: expected {expected}, found {value!r}")


def _text(name: str, value: str) -> str:
    if not value.strip():
        raise _refused(name, value, "a value")
    return value


def _boolean(name: str, value: str) -> bool:
    try:
        return {"true": True, "false": False}[value.strip().lower()]
    except KeyError:
        raise _refused(name, value, "true or false") from None


def _view(name: str, value: str) -> str:
    view = value.strip().lower()
    if view not in VIEW_NAMES:
        raise _refused(name, value, " or ".join(VIEW_NAMES))
    return view


def _table(name: str, value: str) -> str:
    if not all(value.strip().partition(".")):
        raise _refused(name, value, "schema.table")
    return value.strip()


def _globs(name: str, value: str) -> tuple[str, ...]:
    return tuple(_table(name, glob) for glob in value.split(","))


def _file_globs(name: str, value: str) -> tuple[str, ...]:
    return tuple(_without_braces(_text(name, value)))


def _without_braces(pattern: str) -> list[str]:
    """`binlog.{000001,000002}` as the two globs that it stands for, since Hadoop's globs know braces and ours do not."""
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if braces is None:
        return [pattern]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [glob for choice in braces[1].split(",") for glob in _without_braces(before + choice + after)]


def _path(name: str, value: str) -> tuple[str, ...]:
    return (_absolute(_text(name, value)),)


def _paths(name: str, value: str) -> tuple[str, ...]:
    try:
        paths = json.loads(value)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise _refused(name, value, "a JSON array of paths, as load([...]) gives")
    return tuple(_absolute(_text(name, path)) for path in paths)


def _absolute(path: str) -> str:
    """The path as every task can open it, wherever it runs; `file:` is what Spark's own file sources show."""
    if path.startswith("file:/"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if "://" in path else os.path.abspath(path)


_PARSERS: Final[dict[str, Callable[[str, str], Any]]] = {
    "path": _path,
    "paths": _paths,
    "view": _view,
    "table": _table,
    "tables": _globs,
    "verifyChecksum": _boolean,
    "keyring": _text,
    "pathGlobFilter": _file_globs,
    "ignoreMissingFiles": _boolean,
}
