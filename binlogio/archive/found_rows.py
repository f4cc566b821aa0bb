"""Searches logs for row changes in two passes.

A `RowMatcher` selects the tables and columns to compare, and the rows of a batch that match. `MatchReader` first reads
only the compared columns of a log, or of parts of it, and then all columns of the matching rows, by their positions.
"""

from __future__ import annotations

from array import array
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from binlogio.archive.row_keys import KeySelection
from binlogio.archive.verify import log_end
from binlogio.columnar import DEFAULT_BATCH_ROWS, RowSelection
from binlogio.columnar.parallel.log_parts import LogPartReader
from binlogio.columnar.splits.split_bounds import KnownGroups, groups_around
from binlogio.errors import BinlogError, ConditionError, UnsupportedFeature
from binlogio.format.splits import Split
from binlogio.options import DEFAULT_LIMITS, Limits
from binlogio.schema.given import GivenDefinitions
from binlogio.schema.source import DefinitionSource
from binlogio.selection.event_filter import EVERY_EVENT, EventFilter, Range

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from binlogio.archive.statements import LogStatements, WatchBytes
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.statement_changes import StatementChange
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_SOURCE_COLUMNS: Final = ("end_pos", "thread_id", "xid", "outcome", "commit_timestamp", "statement")
_MOST_MATCHES: Final = 1 << 15  # matches collected before they are read with all columns
_NEAR: Final = 1 << 16  # largest gap in bytes between positions in one range
_LONGEST: Final = 1 << 22  # bytes after which a new range may begin
_WHOLE: Final = None, Range()


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersion:
    """A change of a row.

    `before` and `after` are row images as JSON text, without columns that the log does not have; None: the change has
    no such image. `outcome` is how its event group ended, as in `binlogio.read_rows`. `columns` are the columns of the
    table at the time of the change. `key` is the key that was searched for, empty in a search by condition. If the
    change modifies the key, `old_key` is the previous key of a row that has the searched key after the change, and
    `new_key` the new key of a row that had it before.
    """

    file: str
    pos: int
    row: int
    op: str
    timestamp: datetime
    commit_timestamp: datetime | None
    server_id: int
    gtid: str | None
    thread_id: int | None
    xid: int | None
    outcome: str | None
    schema: str
    table: str
    before: str | None
    after: str | None
    columns: tuple[str, ...]
    statement: str | None
    key: dict[str, str] = field(default_factory=dict)
    old_key: dict[str, str] | None = None
    new_key: dict[str, str] | None = None


@dataclass(slots=True)
class SearchSummary:
    """Counts of a search: logs read, logs answered by their key index, bytes read, row changes, statements, rows.

    `is_complete` is False if rows could not be compared, because their columns have no names. `statement_changes`
    has the first statement of each log that changes rows as SQL text, without the rows to compare.
    """

    logs_read: int = 0
    logs_by_index: int = 0
    bytes_read: int = 0
    versions: int = 0
    statements: int = 0
    rows_compared: int = 0
    is_complete: bool = True
    statement_changes: dict[str, StatementChange] = field(default_factory=dict)

    def note_statement_change(self, found: StatementChange) -> bool:
        """Keep the first statement of a log that changes rows as SQL text."""
        self.statement_changes.setdefault(found.file, found)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Options of a search.

    Args:
        where: the events to search.
        within: the positions of events in logs to search, by the names of logs; of the others, all.
        definitions: as in `binlogio.open`.
        keyring: the keys of encrypted logs.
        verify_checksum: compare the CRC32 of every event that is read with its bytes.
        limits: the largest sizes that are accepted.
        watch: called with the name of a log and the offset up to which it was read.
    """

    where: EventFilter = EVERY_EVENT
    within: Mapping[str, Range] = field(default_factory=dict)
    definitions: GivenDefinitions | None = None
    keyring: Keyring | None = None
    verify_checksum: bool = True
    limits: Limits = DEFAULT_LIMITS
    watch: WatchBytes | None = None

    def where_in(self, log: LogFile, pos: Range) -> EventFilter:
        """Return the events to search in a range of positions of a log."""
        pos = pos.within(self.within.get(log.name, pos))
        return replace(self.where, pos=pos.within(self.where.pos))


@dataclass(frozen=True, slots=True)
class RowMatch:
    """The position of a matching row change, the columns of its table, and the keys, as in `RowVersion`."""

    pos: int
    row: int
    columns: tuple[str, ...]
    key: dict[str, str] = field(default_factory=dict)
    old_key: dict[str, str] | None = None
    new_key: dict[str, str] | None = None


class RowMatcher(Protocol):
    """Selects and compares the rows of a search."""

    def wants(self, schema: str, table: str) -> bool:
        """Return whether rows of a table are compared."""

    def columns_of(self, plan: TablePlan) -> Collection[str] | None:
        """Return the columns of a table to compare; None: all columns."""

    def matches_in(self, batch: pa.RecordBatch) -> Iterator[RowMatch]:
        """Yield the rows of a batch that match."""


class TablesMatcher(RowMatcher, Protocol):
    """A `RowMatcher` of several tables; `matched` are those of the matching rows, as (schema, table)."""

    matched: set[tuple[str, str]]


class MatchReader:
    """Reads the row changes of logs that a matcher selects."""

    def __init__(
        self,
        matcher: RowMatcher,
        options: SearchOptions,
        summary: SearchSummary,
        note_statement_change: Callable[[StatementChange], bool] | None = None,
    ) -> None:
        self._matcher = matcher
        self._note_statement_change = note_statement_change
        self._options = options
        self._summary = summary
        self._known_groups: Final = KnownGroups()
        self._in_use = False  # the log that was read last is in use

    def ranges(self, log: LogFile, places: Sequence[int]) -> Iterator[tuple[Split | None, Range]]:
        """Yield splits of a log that contain the groups at `places`, each with the range of positions to select in it.

        Splits do not overlap. Positions near each other, or in one group, share a split. The split is None if the log
        cannot be split: it is then read whole.

        Args:
            log: the log.
            places: positions in bytes, in ascending order.
        """
        if not places:
            return
        with groups_around(log, self._options.keyring, self._known_groups) as group_around:
            if group_around is None:
                yield None, Range(places[0], places[-1] + 1)
                return
            first = last = places[0]
            begin = group_around(first, 0) or 0
            for place in places[1:]:
                if place >= last + _NEAR or place >= first + _LONGEST:
                    following = group_around(place, last + 1)
                    if following is not None:
                        yield Split(begin, last + 1), Range(first, last + 1)
                        begin, first = following, place
                last = place
            yield Split(begin, last + 1), Range(first, last + 1)

    def matches(
        self, log: LogFile, definitions: DefinitionSource, places: Sequence[int] | None = None
    ) -> Iterator[RowMatch]:
        """Yield the matching row changes, near given positions of a log (`places`) or in the whole log (None).

        Raises:
            UnsupportedFeature: the log is a stream.
            BinlogError, OSError: the log cannot be read.
        """
        refuse_stream(log)
        plain = self._selection(names_columns=True)
        values = {one.name: getattr(plain, one.name) for one in fields(plain)}
        selection = KeySelection(**values, key_of=self._matcher.columns_of)
        ranges = iter([_WHOLE]) if places is None else self.ranges(log, places)
        for batch in self._batches(log, ranges, selection, definitions):
            yield from self._matcher.matches_in(batch)

    def note_end(self, log: LogFile, note: Callable[[str], None]) -> None:
        """Report an incomplete transaction or event at the end of the log that was read last, if the log is in use."""
        end = log_end(log, self._options.keyring) if self._in_use else None
        if end is not None and end.incomplete is not None:
            note(f"{log.name}: {end.incomplete}, searched up to {end.offset}")

    def versions(
        self,
        log: LogFile,
        matches: Iterable[RowMatch],
        definitions: GivenDefinitions | None,
        statements: DefinitionSource | None = None,
    ) -> Iterator[RowVersion]:
        """Yield the matching changes with all their columns.

        Args:
            log: the log.
            matches: the changes.
            definitions: the columns of their tables, for logs that do not name them.
            statements: definitions from DDL before the log; if given, the log is read from its start and its DDL is
                followed. None: only the groups of the changes are read.

        Raises:
            BinlogError, OSError: the log cannot be read.
        """
        wanted = {(one.pos, one.row): one for one in matches}
        if not wanted:
            return
        places = array("q", sorted({place for place, _ in wanted}))
        selection = self._selection(mixed=True, source_columns=_SOURCE_COLUMNS)
        ranges = self.ranges(log, places)
        source = DefinitionSource(definitions or self._options.definitions, follows_ddl=False)
        if statements is not None:
            ranges, source = iter([(None, Range(places[0], places[-1] + 1))]), statements.copy()
        for batch in self._batches(log, ranges, selection, source):
            yield from self._versions_in(log.name, batch, wanted, np.asarray(places))

    def _batches(
        self,
        log: LogFile,
        ranges: Iterator[tuple[Split | None, Range]],
        selection: RowSelection,
        definitions: DefinitionSource,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in the given ranges of a log."""
        options: dict[str, Any] = {"definitions": definitions, "known_groups": self._known_groups}
        with closing(LogPartReader(selection, self._options.keyring, **options)) as reader:
            for split, pos in ranges:
                reader.choose(self._options.where_in(log, pos))
                for _, batch in reader.read((log, split)):
                    yield batch
            self._in_use = reader.in_use

    def _versions_in(
        self, file: str, batch: pa.RecordBatch, wanted: Mapping[tuple[int, int], RowMatch], places: np.ndarray
    ) -> Iterator[RowVersion]:
        found, rows = batch.column("pos").to_numpy(), batch.column("row").to_numpy()
        near = np.flatnonzero(np.searchsorted(places, found, "right") > np.searchsorted(places, found, "left"))
        columns = {name: batch.column(name) for name in _OF_BATCH} if len(near) else {}
        for one, pos, row in zip(near.tolist(), found[near].tolist(), rows[near].tolist(), strict=True):
            match = wanted.get((pos, row))
            if match is None:
                continue
            values = {name: column[one].as_py() for name, column in columns.items()}
            self._summary.versions += 1
            yield RowVersion(
                file=file,
                **values,
                columns=match.columns,
                key=match.key,
                old_key=match.old_key,
                new_key=match.new_key,
            )

    def _selection(self, **options: Any) -> RowSelection:
        return RowSelection(
            **{
                "wants": self._matcher.wants,
                "columns": None,
                "zero_dates": "text",
                "verify_checksum": self._options.verify_checksum,
                "batch_rows": DEFAULT_BATCH_ROWS,
                "limits": self._options.limits,
                "where": self._options.where,
                "note_statement_change": self._note_statement_change,
                **options,
            }
        )


def changes_in(
    log: LogFile,
    reader: MatchReader,
    matcher: TablesMatcher,
    statements: LogStatements,
    note: Callable[[str], None],
) -> Iterator[RowVersion]:
    """Yield the changes of a log that `matcher`, which `reader` has, selects.

    `statements` has the definitions from DDL before the log, and takes those in it. `note` as in `find_changes`.

    Raises:
        BinlogError: the log is damaged. Changes found before the damage are yielded first.
        OSError: the log cannot be read.
    """
    before = statements.copy()
    matches: list[RowMatch] = []

    def versions() -> Iterator[RowVersion]:
        used = [statements.used_definitions(*name) for name in sorted(matcher.matched)]
        defined = {one.full_name: one for found in used for one in found if one is not None}
        is_unsure = any(len(one) > 1 for one in used)
        yield from reader.versions(
            log, matches, GivenDefinitions(defined) if defined else None, before if is_unsure else None
        )
        matches.clear()

    statements.begin_search()
    try:
        for match in reader.matches(log, statements):
            matches.append(match)
            if len(matches) >= _MOST_MATCHES:
                yield from versions()
    except ConditionError:
        raise
    except BinlogError:
        yield from versions()
        raise
    reader.note_end(log, note)
    yield from versions()


def no_note(_sentence: str) -> None:
    """Ignore a note about a search."""


_OF_BATCH: Final = [
    "pos", "row", "op", "timestamp", "commit_timestamp", "server_id", "gtid", "thread_id", "xid", "outcome",
    "schema", "table", "before", "after", "statement",
]  # fmt: skip


def refuse_stream(log: LogFile) -> None:
    """Raise UnsupportedFeature for a log that is a stream, which a search cannot read twice."""
    if log.stream is not None:
        raise UnsupportedFeature(
            "a search reads a log twice, which a stream does not allow", file=log.name, hint="give the file by name"
        )
