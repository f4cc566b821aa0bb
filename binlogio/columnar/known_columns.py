"""The columns of a table without rows in the log: from definitions, from the log's DDL, or from a table map of rows that are not selected.

`binlogio.schema.source` interprets definitions and DDL.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from binlogio.columnar.parallel.log_parts import LogPartReader
from binlogio.reader import BinlogReader
from binlogio.schema.source import DefinitionSource

if TYPE_CHECKING:
    from binlogio.columnar.record_types import Selection
    from binlogio.events.base import ParseContext
    from binlogio.events.table_map import TableMapEvent
    from binlogio.rows.plan import TablePlan
    from binlogio.storage.encryption import Keyring
    from binlogio.storage.sources import LogFile


class _MappedTables(DefinitionSource):
    """Definitions that remember the last table map of each wanted table."""

    def __init__(self, selection: Selection) -> None:
        super().__init__(selection.definitions)
        self.plans: dict[str, TablePlan] = {}

    def plan(self, event: TableMapEvent, context: ParseContext) -> TablePlan:
        found = super().plan(event, context)
        self.plans[found.full_name] = found
        return found


def known_plan(name: str, logs: list[LogFile], selection: Selection, keyring: Keyring | None) -> TablePlan | None:
    """Return the plan of a table of which the logs hold no wanted row; None if nothing says what its columns are.

    The logs are read again if no definition was given.

    Raises:
        BinlogError: the bytes are not a binary log.
        UnsupportedFeature: a column of a type without values.
    """
    schema, _, table = name.partition(".")
    if not logs:
        return None
    with BinlogReader(logs[-1:], keyring=keyring) as reader:
        next(iter(reader), None)
        context = reader.context
    source = _MappedTables(selection)
    given = source.unmapped_plan(schema, table, context)
    if given is not None:
        return given
    with closing(LogPartReader(selection, keyring, definitions=source)) as parts:
        for log in logs:
            for _ in parts.read((log, None)):
                pass
    return source.unmapped_plan(schema, table, context) or source.plans.get(name)
