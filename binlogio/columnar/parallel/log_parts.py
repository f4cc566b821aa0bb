"""Reads parts of logs one after another in one thread, and keeps the open file and its table plans between parts.

If other threads read other parts, parts are numbered, and `part_definitions` passes table definitions from a part to
later parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlogio.columnar.parallel.part_definitions import PartDefinitions
from binlogio.columnar.splits.split_bounds import KnownGroups
from binlogio.columnar.walk.table_plans import KnownPlans
from binlogio.schema.source import DefinitionSource
from binlogio.series.progress import recognizer
from binlogio.storage.log_file import mariadb_decryptor_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlogio.columnar.parallel.part_definitions import PartFacts
    from binlogio.columnar.record_types import RowSelection
    from binlogio.columnar.walk.log_walk import LogWalk
    from binlogio.format.splits import GroupPart, Split
    from binlogio.selection.event_filter import EventFilter
    from binlogio.storage.encryption import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

    TableBatch = tuple[str, pa.RecordBatch]


class LogPartReader:
    """Reads splits of logs, or whole logs, as (table, batch) pairs.

    Args:
        selection: selects rows and columns.
        keyring: the keys of encrypted logs.
        definitions: the columns of tables; None: DDL in the logs is ignored.
        known_groups: cache of event groups, shared by the readers of the logs.
        known_plans: cache of table plans, shared by the readers of the logs.
    """

    def __init__(
        self,
        selection: RowSelection,
        keyring: Keyring | None,
        *,
        definitions: DefinitionSource | None = None,
        known_groups: KnownGroups | None = None,
        known_plans: KnownPlans | None = None,
    ) -> None:
        self._known_groups = known_groups or KnownGroups()
        self._known_plans = known_plans or KnownPlans()
        self._selection = selection
        self._keyring = keyring
        self._definitions = definitions or DefinitionSource(selection.definitions, follows_ddl=False)
        self._log: LogFile | None = None
        self._opened: OpenedLog | None = None
        self._walk: LogWalk | None = None

    def read(self, part: tuple[LogFile, Split | GroupPart | None], /) -> Iterator[TableBatch]:
        """Yield the row changes of a part.

        Raises:
            OSError: the file cannot be opened.
            BinlogError: while iterating: the log is damaged, or is not a binary log.
        """
        log, split = part
        if self._walk is None or self._opened is None or self._log is not log:
            self.close()
            self._log, self._opened = log, log.open(self._keyring)
            self._definitions.begin_log(log.name, recognizer(log, self._keyring))
            self._walk = self._walk_of(log, self._opened)
        if split is None or self._opened.seekable:
            yield from self._walk.read(split)
            self._walk.check_end()
        elif split.start == 0:
            yield from self._walk.read(None)
        else:
            return
        self._walk.check_statements()

    def _walk_of(self, log: LogFile, opened: OpenedLog) -> LogWalk:
        from binlogio.columnar.batches.mixed_batches import MixedBatcher  # noqa: PLC0415 - imports pyarrow
        from binlogio.columnar.batches.table_batches import TableBatcher  # noqa: PLC0415
        from binlogio.columnar.walk.log_walk import LogWalk  # noqa: PLC0415

        return LogWalk(
            log,
            opened,
            self._selection,
            MixedBatcher if self._selection.mixed else TableBatcher,
            decryptor_for=mariadb_decryptor_for(self._keyring),
            definitions=self._definitions,
            known_groups=self._known_groups,
            known_plans=self._known_plans,
            open_again=None if log.stream is not None else lambda: log.open(self._keyring),
        )

    @property
    def in_use(self) -> bool:
        """True if the flag BINLOG_IN_USE of the open log is set; known after its first event was read."""
        return self._walk is not None and self._walk.in_use

    def choose(self, where: EventFilter) -> None:
        """Set another event filter, from the next part on."""
        self._selection = replace(self._selection, where=where)
        if self._walk is not None:
            self._walk.choose(where)

    def forget_plans(self) -> None:
        """Drop cached plans, because the definitions have changed."""
        if self._walk is not None:
            self._walk.forget_plans()

    def close(self) -> None:
        """Close the open file."""
        if self._opened is not None:
            self._opened.close()
        if self._walk is not None:
            self._walk.close()
        self._log = self._opened = self._walk = None


class NumberedReader:
    """Reads numbered parts of logs in one thread, while other threads read other parts."""

    def __init__(
        self,
        selection: RowSelection,
        keyring: Keyring | None,
        facts: PartFacts,
        known_groups: KnownGroups,
        known_plans: KnownPlans,
    ) -> None:
        self._facts = facts
        self._definitions = PartDefinitions(selection.definitions, facts)
        self._reader = LogPartReader(
            selection, keyring, definitions=self._definitions, known_groups=known_groups, known_plans=known_plans
        )

    def read(self, part: tuple[int, tuple[LogFile, Split | GroupPart | None]], /) -> Iterator[TableBatch]:
        """Yield the row changes of a part.

        Raises:
            OSError, BinlogError: as in `LogPartReader.read`.
        """
        number, place = part
        if self._facts.is_skipped(number):
            return
        if self._definitions.begin_part(number):
            self._reader.forget_plans()
        try:
            yield from self._reader.read(place)
        finally:
            self._definitions.end_part()

    def close(self) -> None:
        """Close the open file."""
        self._reader.close()
