"""Row counters of a server (performance_schema), table by table, for rows events that the server applies itself.

The counters include changes of other clients, and of transactions that were rolled back and retried. They do not say
how rows were found: a row found by its key counts as one found without an index.

Source: storage/perfschema/table_tiws_by_table.cc; sql/log_event.cc, Rows_log_event::do_index_scan_and_update.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from binlogio.errors import ReplayError
from binlogio.replay.targets.mysql.position_table import SCHEMA

if TYPE_CHECKING:
    from binlogio.replay.targets.mysql.server_tables import Ask

KINDS: Final = ("inserted", "updated", "deleted")
_IS_ON: Final = "SELECT @@performance_schema"
_COUNTERS: Final = (
    "SELECT object_schema, object_name, count_insert, count_update, count_delete FROM performance_schema.table_io_waits_summary_by_table"  # noqa: S608
    f" WHERE object_type = 'TABLE' AND count_write > 0 AND object_schema NOT IN ('mysql', 'sys', 'performance_schema', '{SCHEMA}')"
)


def counted_rows(ask: Ask) -> Counter[tuple[str, str]] | None:
    """Return the counters by table and kind of change; None where the server does not count, or does not tell."""
    try:
        if ask(_IS_ON) != [(1,)]:
            return None
        return Counter({(f"{schema}.{table}", kind): int(count) for schema, table, *counts in ask(_COUNTERS) for kind, count in zip(KINDS, counts, strict=True)})  # fmt: skip
    except ReplayError:
        return None


def counted_since(
    before: Counter[tuple[str, str]] | None, now: Counter[tuple[str, str]] | None
) -> Counter[tuple[str, str]]:
    """Return the increase of the counters; a table that was recreated meanwhile counts from zero."""
    if before is None or now is None:
        return Counter()
    is_new = {table for table, kind in before if now[table, kind] < before[table, kind]}
    return +Counter(
        {(table, kind): count - (0 if table in is_new else before[table, kind]) for (table, kind), count in now.items()}
    )
