"""Catalogues after DDL statements, and table definitions as one line of text.

Has the server defaults of each vendor, and the table of most statements.
"""

from __future__ import annotations

from typing import Any, Final

from binlogio.schema.ddl.catalogue import Catalogue
from binlogio.schema.ddl.parser import parse_ddl
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.statements import DEFAULT_SESSION, SessionFacts, follow_ddl

MYSQL: Final = ServerDefaults(is_mariadb=False, version=(9, 7, 0))
MARIADB: Final = ServerDefaults(is_mariadb=True, version=(10, 11, 18))
START: Final = "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10), c TEXT) CHARSET latin1"


def follow_statement(
    catalogue: Catalogue,
    sql: str,
    schema: str,
    server: ServerDefaults,
    session: SessionFacts = DEFAULT_SESSION,
    **options: Any,
) -> None:
    """Parse a statement and apply it with `follow_ddl`."""
    follow_ddl(catalogue, parse_ddl(sql, server, session.sql_mode), schema, server, session, **options)


def after(*statements: str, server: ServerDefaults = MYSQL) -> Catalogue:
    """Return a catalogue after `CREATE DATABASE s` and the statements, executed in `s`."""
    catalogue = Catalogue()
    for sql in ("CREATE DATABASE s CHARACTER SET latin1", *statements):
        follow_statement(catalogue, sql, "s", server)
    return catalogue


def shape(catalogue: Catalogue, name: str = "t", schema: str = "s") -> str | None:
    """Return the columns of a table as text; None if it is unknown."""
    known = catalogue.find(schema, name)
    return None if known is None else ", ".join(f"{one.name} {one.type}" for one in known.table.columns)
