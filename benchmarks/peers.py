"""What others decode the same logs with: the servers' own tools, and python-mysql-replication fed from a file.

Each says why where it is not there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

TOOLS: Final = {"mysqlbinlog": "mysql", "mariadb-binlog": "mariadb"}  # and the servers of tests/servers that have them
_CHROOTS: Final = Path(os.environ.get("BINLOGIO_SERVERS", "/var/cache/binlogio-servers"))
_ROWS_EVENTS: Final = ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent")


@contextmanager
def tool_command(tool: str, log: Path) -> Iterator[list[str]]:
    """Provide the command that makes a tool print the log's rows as SQL.

    The tool is what BINLOGIO_MYSQLBINLOG or BINLOGIO_MARIADB_BINLOG names, else that on PATH, else that of the servers
    that the tests have built.

    Raises:
        FileNotFoundError: none of these.
    """
    variable = f"BINLOGIO_{tool.replace('-', '_').upper()}"
    options = ["--no-defaults", "-vv", "--base64-output=decode-rows"]
    program = os.environ.get(variable) or shutil.which(tool)
    if program:
        yield [*program.split(), *options, str(log)]
        return
    root = _CHROOTS / TOOLS[tool]
    if not (root / ".ready").exists() or os.geteuid() != 0:
        raise FileNotFoundError(
            f"not installed; {variable} can name it, `tests/support/servers build {TOOLS[tool]}` brings it"
        )
    inside = root / "tmp" / f"binlogio-bench-{os.getpid()}"
    shutil.copyfile(log, inside)
    try:
        yield ["chroot", str(root), tool, *options, f"/tmp/{inside.name}"]  # noqa: S108 - a name within the chroot
    finally:
        inside.unlink()


class _Connection:
    """As much of a connection to a server as python-mysql-replication's events ask for."""

    charset = "utf8mb4"

    def _get_dbms(self) -> str:
        return "mysql"


def replication_events(data: bytes) -> Iterator[Any]:
    """Yield the rows events of a log of MySQL, decoded by python-mysql-replication.

    It gets each event as the packet that a server would send. With its defaults checksums are not verified, and
    optional metadata is not read.
    """
    from pymysql.connections import MysqlPacket  # noqa: PLC0415 - of the extra `bench`
    from pymysqlreplication import row_event  # noqa: PLC0415
    from pymysqlreplication.packet import BinLogPacketWrapper  # noqa: PLC0415

    settings = {
        **dict.fromkeys(("only_tables", "ignored_tables", "only_schemas", "ignored_schemas")),
        **dict.fromkeys(
            ("freeze_schema", "ignore_decode_errors", "verify_checksum", "optional_meta_data", "enable_logging"), False
        ),
        "ctl_connection": _Connection(),
        "mysql_version": (8, 0, 0),
        "use_checksum": True,
        "allowed_events": frozenset((row_event.TableMapEvent, *(getattr(row_event, name) for name in _ROWS_EVENTS))),
    }
    tables: dict[int, Any] = {}
    at = 4
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        event = BinLogPacketWrapper(MysqlPacket(b"\0" + data[at : at + size], "utf8"), tables, **settings).event
        at += size
        if isinstance(event, row_event.TableMapEvent):
            tables[event.table_id] = event.get_table()
        elif event is not None:
            yield event


def replication_rows(data: bytes) -> int:
    """How many rows it decodes."""
    return sum(len(event.rows) for event in replication_events(data))


def replication_images(data: bytes) -> Iterator[tuple[list[Any] | None, list[Any] | None]]:
    """Before and after image of each row, as lists of values."""
    for event in replication_events(data):
        kind = type(event).__name__
        for row in event.rows:
            if kind == "UpdateRowsEvent":
                yield list(row["before_values"].values()), list(row["after_values"].values())
            elif kind == "WriteRowsEvent":
                yield None, list(row["values"].values())
            else:
                yield list(row["values"].values()), None
