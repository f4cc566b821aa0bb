"""Which tables: globs of databases, of tables, and of excluded tables; the only place where a name meets a glob.

    glob := part                 a table of this name, in any database
          | part "." part        database and table
    part := glob of `fnmatch` (* ? [...]), or a name in backticks, in which dots and glob characters are literal, and
            a backtick is written twice; so the names of `dotted_names` select their tables

A glob with several dots, for names that contain dots, is tried with each of them between database and table.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from glob import escape
from typing import TYPE_CHECKING, Final

from binlogio.dotted_names import possible_names
from binlogio.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

_CHARACTER: Final = re.compile(r".", re.DOTALL)
_QUOTED: Final = re.compile(r"`(?:[^`]|``)*`|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TableNames:
    """A selection of tables; empty tuples select everything.

    A table is selected if its database matches one of `databases`, its name one of `tables`, and neither matches one of
    `excluded`.
    """

    databases: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def of(cls, tables: Iterable[str] | None) -> TableNames:
        """Return the selection of tables by globs; none of them: no table; None: every table."""
        return cls() if tables is None else cls(tables=tuple(tables) or ("",))

    def __bool__(self) -> bool:
        """Return True if not every table is selected."""
        return bool(self.databases or self.tables or self.excluded)

    def __str__(self) -> str:
        """Return the selection as text: equal texts select the same tables."""
        tables = ", ".join(self.tables) or "every table"
        of = f" of {', '.join(self.databases)}" if self.databases else ""
        return f"{tables}{of} without {', '.join(self.excluded)}" if self.excluded else tables + of

    @property
    def globs(self) -> tuple[str, ...]:
        """Each glob once; that of a database as `database.*`."""
        return tuple(dict.fromkeys((*(f"{one}.*" for one in self.databases), *self.tables, *self.excluded)))

    @property
    def is_open(self) -> bool:
        """True if only `excluded` restricts the tables."""
        return not (self.databases or self.tables)

    def wants_database(self, database: str) -> bool:
        """Return whether a database matches `databases`."""
        return not self.databases or any(fnmatchcase(database, glob) for glob in self.databases)

    def wants(self, database: str, table: str) -> bool:
        """Return whether a table is selected."""
        return (
            self.wants_database(database)
            and (not self.tables or any(matches(glob, database, table) for glob in self.tables))
            and not any(matches(glob, database, table) for glob in self.excluded)
        )

    def wants_some(self, database: str) -> bool:
        """Return whether tables of a database may be selected."""
        has_some = not self.tables or any(fnmatchcase(database, one) for one, _ in _all_parts(self.tables))
        return self.wants_database(database) and has_some and not _has_all(self.excluded, database)

    def wants_all(self, database: str) -> bool:
        """Return whether all tables of a database are selected."""
        has_some = any(fnmatchcase(database, one) for one, _ in _all_parts(self.excluded))
        return self.wants_database(database) and (not self.tables or _has_all(self.tables, database)) and not has_some

    def is_certain(self, database: str, table: str) -> bool:
        """Return whether the result for a table is the same if the server ignores the case of names."""
        return all(
            matches(glob, database, table) == matches(glob.casefold(), database.casefold(), table.casefold())
            for glob in self.globs
        )


def matches(glob: str, database: str, table: str) -> bool:
    """Return whether a glob matches a table."""
    return any(fnmatchcase(database, one) and fnmatchcase(table, other) for one, other in _parts(glob))


def named_in(globs: Iterable[str], database: str, sql: str) -> set[str]:
    """Return the globs of which a statement with this default database has words that match database and table.

    The statement is not parsed: words in comments and values count as well.
    """
    tables = possible_names(sql)
    schemas = {*tables, database}
    return {
        glob
        for glob in globs
        if any(_has_match(other, tables) and _has_match(one, schemas) for one, other in _parts(glob))
    }


def unnamed_schemas(globs: Iterable[str], database: str, sql: str) -> list[str]:
    """Return the globs of databases that match neither a default database nor a word of a statement."""
    names = {*possible_names(sql), database} if globs else ()
    return [glob for glob in globs if not _has_match(glob, names)]


def _has_match(glob: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in names)


@lru_cache(maxsize=1 << 10)
def _parts(glob: str) -> tuple[tuple[str, str], ...]:
    """Return the globs of database and table that a glob stands for."""
    pieces: list[str] = [""]
    has_pairs = glob.count("`") % 2 == 0
    for found in (_QUOTED if has_pairs else _CHARACTER).finditer(glob):
        text = found[0]
        if text == ".":
            pieces.append("")
        else:
            is_quoted = has_pairs and text[0] == "`"
            pieces[-1] += escape(text[1:-1].replace("``", "`")) if is_quoted else text
    if len(pieces) == 1:
        return (("*", pieces[0]),)
    return tuple((".".join(pieces[:at]), ".".join(pieces[at:])) for at in range(1, len(pieces)))


def _all_parts(globs: Iterable[str]) -> Iterable[tuple[str, str]]:
    return (parts for glob in globs for parts in _parts(glob) if parts[1])


def _has_all(globs: Iterable[str], database: str) -> bool:
    return any(not other.strip("*") and fnmatchcase(database, one) for one, other in _all_parts(globs))
