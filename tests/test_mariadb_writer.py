"""What our sessions write for MariaDB is what a MariaDB 10.11.18 wrote for the same statements, event by event."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio.constants import QueryStatus
from binlogio.events.control import RotateEvent, StopEvent
from binlogio.events.gtid import MariadbGtidEvent, MariadbGtidListEvent
from binlogio.events.gtid_mariadb import MariadbGtidExtraFlag, MariadbGtidFlag
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.reader import open as open_logs
from binlogio.writer import BinlogWriter
from corpus import MARIADB, Case, cases
from mariadb_replay import Recording, Replay, variables_of
from memory_storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS_OF: Final = {"basic_row": "annotate_rows", "rowimage_minimal": "rowimage_full"}
"""Cases whose rows are those of another one, where they can be told by their statement, or are whole."""

BY_NAME: Final = {case.folder.name: case for case in cases() if case.folder.parent == MARIADB}


def _seen(event: Any, tables: dict[int, str]) -> dict[str, Any]:
    """All of an event but what differs from one run to the next: times, ids of threads, tables and transactions."""
    if isinstance(event, TableMapEvent):
        tables[event.table_id] = f"{event.schema}.{event.table}"
    found = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "header"}
    for name in ("created", "thread_id", "exec_time"):
        found.pop(name, None)
    if type(event).__name__ == "XidEvent":
        found.pop("xid")
    if "table_id" in found:
        found["table_id"] = tables[found["table_id"]]
    if isinstance(event, QueryEvent):
        found["status_vars"] = tuple(
            replace(var, value=0) if var.code == QueryStatus.MARIADB_XID else var for var in event.status_vars
        )
        if event.sql.startswith(b"CREATE TABLE `"):  # of CREATE TABLE ... SELECT: the server makes the text
            found["sql"] = re.findall(rb"`(\w+)`", event.sql)
    if isinstance(event, MariadbGtidEvent) and event.commit_id is not None:  # who waits for whom is chance
        found |= {"commit_id": None, "flags": event.flags & ~MariadbGtidFlag.GROUP_COMMIT_ID}
    if isinstance(event, MariadbGtidListEvent):
        found["gtids"] = frozenset(event.gtids)
    return {"type": type(event).__name__, "code": event.header.type_code, "server": event.header.server_id,
            "flags": event.header.flags, **found}  # fmt: skip


def _comparable(events: list[Any]) -> list[dict[str, Any]]:
    tables: dict[int, str] = {}
    return [_seen(event, tables) for event in _in_one_phase(events) if not isinstance(event, RotateEvent | StopEvent)]


def _in_one_phase(events: list[Any]) -> Iterator[Any]:
    """Without the groups of an ALTER TABLE in two phases (binlog_alter_two_phase), which we do not write."""
    rest = iter(events)
    for event in rest:
        if isinstance(event, MariadbGtidEvent) and event.flags_extra & ~MariadbGtidExtraFlag.MULTI_ENGINE:
            next(rest)
        else:
            yield event


def _written(case: Case, *, use_kernel: bool) -> list[Any]:
    storage = MemoryStorage()
    name = case.folder.name
    rows = Recording(MARIADB / ROWS_OF.get(name, name))
    with BinlogWriter("binlog", variables=variables_of(case), storage=storage, use_kernel=use_kernel) as log:
        replay = Replay(log, rows, given_columns=name.startswith("rowimage"))
        replay.run((case.folder / "source.sql").read_text("utf-8"))
        if name == "group_commit":
            replay.run("USE corpus;" + "".join(f"{text};" for text in rows.left))
    with open_logs(storage.streams(), open_payloads=False) as reader:
        return list(reader)


@pytest.mark.parametrize(
    "name",
    [
        "annotate_rows",
        "basic_row",
        "checksum_none",
        "gtid",
        "compressed",
        "rowimage_full",
        "rowimage_minimal",
        "metadata_minimal",
        "types",
        "types_temporal",
        "group_commit",
    ],
)
@pytest.mark.parametrize("use_kernel", [True, False])
def test_the_log_of_a_server_is_written_again(name: str, *, use_kernel: bool) -> None:
    """Types, flags and fields of all events, in their order."""
    case = BY_NAME[name]
    expected = _comparable(Recording(case.folder).events)
    actual = _comparable(_written(case, use_kernel=use_kernel))

    for number, (one, other) in enumerate(zip(expected, actual, strict=False)):
        assert other == one, number
    assert len(actual) == len(expected)
