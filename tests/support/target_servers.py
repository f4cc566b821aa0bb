"""Real servers as replay targets: start options, removal of databases, table contents, and the cases of each vendor."""

from __future__ import annotations

import json
from contextlib import closing
from subprocess import CompletedProcess
from typing import Any, Final

import pymysql

from binlogio.replay.targets.mysql.position_table import SCHEMA
from binlogio.schema.identifiers import backticked
from corpus import Case, cases
from real_servers import Instance
from server_tables import expected as tables_of

OPTIONS: Final = {
    "mysql": (
        "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--max-allowed-packet=1G", "--gtid-mode=OFF",
        "--enforce-gtid-consistency=OFF",
    ),
    "mariadb": ("--innodb-flush-log-at-trx-commit=0",),
    "mariadb118": ("--innodb-flush-log-at-trx-commit=0",),
}  # fmt: skip
SYSTEM: Final = ("mysql", "sys", "information_schema", "performance_schema")
FOLDERS: Final = {"mysql97": "mysql", "mariadb1011": "mariadb", "mariadb118": "mariadb118"}


def cases_of(kind: str) -> list[Case]:
    """Return the cases of a vendor, each once; a case in `fixtures/` overrides the same case in `BINLOGIO_CORPUS`."""
    found = {case.id: case for case in reversed(cases()) if case.load("expected.json")}
    return [found[name] for name in sorted(found) if FOLDERS.get(name.split("/")[0]) == kind]


def connect(server: Instance) -> Any:
    return pymysql.connect(unix_socket=str(server.socket), user="root", charset="utf8mb4", autocommit=True)


def url(server: Instance) -> str:
    return f"mysql://root@/?unix_socket={server.socket}"


def emptied(server: Instance) -> None:
    """Drop all databases except the system databases."""
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        for (name,) in cursor.fetchall():
            if name not in SYSTEM:
                cursor.execute(f"DROP DATABASE {backticked(name)}")


def reset(server: Instance) -> None:
    """Drop all databases except the system databases, and prepared transactions, and remove all logs."""
    for row in server.sql("XA RECOVER").splitlines():
        number, first, _, name = row.split("\t")
        server.sql(f"XA ROLLBACK '{name[: int(first)]}', '{name[int(first) :]}', {number}")
    emptied(server)
    server.sql("RESET BINARY LOGS AND GTIDS" if server.vendor.kind == "mysql" else "RESET MASTER")


def place(server: Instance) -> str:
    """Return the end of a server's log, as an option value."""
    status = "SHOW BINARY LOG STATUS" if server.vendor.kind == "mysql" else "SHOW MASTER STATUS"
    return ":".join(server.sql(status).split()[:2])


def fed(server: Instance, sql: bytes, *options: str) -> CompletedProcess[bytes]:
    """Run SQL with the vendor's own client, as a pipe does."""
    fixed = ("--no-defaults", "-uroot", "--binary-mode", "-S", f"/run/mysqld/{server.name}.sock")
    return server.vendor.run(server.vendor.client, *fixed, *options, stdin=sql)


def tables(server: Instance) -> dict[str, Any]:
    with closing(connect(server)) as connection:
        found = json.loads(tables_of(connection, {}))["tables"]
    return {name: rows_of(table) for name, table in found.items() if not name.startswith(f"{SCHEMA}.")}


def rows_of(table: dict[str, Any]) -> list[Any]:
    """Return the rows, with FLOAT and DOUBLE as numbers, because clients print them differently."""
    columns = table["columns"]
    return [
        [float(v) if c["encoding"] == "double" and v is not None else v for v, c in zip(row, columns, strict=True)]
        for row in table["rows"]
    ]
