"""The history of a row: every change of it in an archive of logs, and the statements that name its table.

`row_history` searches a log through its key index (`key_index`) if an up-to-date one exists, and otherwise reads only
the key columns of the log. The changes found are then read with all columns, by their positions. The table is searched
by its name at the time of the change.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from heapq import merge
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlogio.archive.found_rows import (
    MatchReader,
    RowMatch,
    RowVersion,
    SearchOptions,
    SearchSummary,
    no_note,
)
from binlogio.archive.key_index import IndexUnusable, KeyIndex, index_place, learn_statements
from binlogio.archive.row_keys import FoundKeys, KeyChoice, KeyRefused, RowKey, names_table, value_of
from binlogio.archive.statements import LogStatements
from binlogio.columnar import EventSelection, read_events
from binlogio.columnar.record_types import column_names, name_text
from binlogio.dotted_names import dotted_name, split_name
from binlogio.errors import BinlogError
from binlogio.implementation import require_kernel
from binlogio.schema.given import GivenDefinitions
from binlogio.schema.source import DefinitionSource
from binlogio.selection.event_filter import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from binlogio.rows.plan import TablePlan
    from binlogio.storage.log_file import LogFile


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStatement:
    """A statement that names the table: DDL, or a row change logged as a statement."""

    file: str
    pos: int
    timestamp: datetime
    server_id: int
    gtid: str | None
    schema: str | None
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions(SearchOptions):
    """Options of a history.

    Args:
        key_columns: the columns of the key; by default those of the primary key.
        follow_key: where an UPDATE changes the key, continue with the new key.
        statements: also yield the statements that name the table.
        use_indexes: use key indexes.
        index_folder: the directory or URI of the indexes; None: beside the logs.
    """

    key_columns: tuple[str, ...] = ()
    follow_key: bool = False
    statements: bool = True
    use_indexes: bool = True
    index_folder: str | None = None


def row_history(
    logs: Iterable[LogFile],
    table: str,
    key: str,
    options: HistoryOptions | None = None,
    *,
    note: Callable[[str], None] | None = None,
    summary: SearchSummary | None = None,
) -> Iterator[RowVersion | HistoryStatement]:
    """Yield the changes of a row, and the statements that name its table, in the order of the logs.

    Args:
        logs: the logs, in order.
        table: `schema.table`.
        key: the key as text: `42`, `id=42`, `tenant=7,id=42`; see `row_keys`.
        options: options of the search.
        note: called with messages about the search, such as that an index is out of date, or that a log in use ends in
            an incomplete transaction.
        summary: counts, updated during the search.

    Raises:
        KeyRefused: the text is not a key of the table, or `table` is not of the form `schema.table`.
        BinlogError: a log is damaged. Changes found before the damage are yielded first.
        OSError: a log cannot be read.
    """
    require_kernel("history")
    chosen, counts = options or HistoryOptions(), summary or SearchSummary()
    matcher = _KeyMatcher(table, RowKey.parse(key), chosen.key_columns, counts)
    search = _KeySearch(matcher, chosen, note or no_note, counts)
    for log in logs:
        yield from search.log(log)
    search.finish()


@dataclass(slots=True)
class _LogMatches:
    """What the search of a log found: matches, positions of statements, the table's definition, and a late error.

    `before` are the definitions from statements before the log, if the log was read. `rereads` is True if the table's
    definition changes in the log, so that its rows must be read from the start of the log.
    """

    matches: list[RowMatch] = field(default_factory=list)
    statements: array[int] = field(default_factory=lambda: array("q"))
    definitions: GivenDefinitions | None = None
    before: LogStatements | None = None
    rereads: bool = False
    error: BinlogError | None = None


class _KeyMatcher:
    """Compares the rows of a table with a key."""

    def __init__(self, table: str, key: RowKey, names: tuple[str, ...], summary: SearchSummary) -> None:
        self.schema, self.table = split_name(table)
        if not (self.schema and self.table):
            raise KeyRefused(f"{table!r} is not the name of a table: expected schema.table")
        self.name: Final = dotted_name(self.schema, self.table)
        self.key = key
        self.choice: Final = KeyChoice(names or key.names)
        self.misfit: str | None = None  # reason why selected rows of the table were not compared
        self._refusal: str | None = None  # the same of a table map, with or without selected rows
        self._summary = summary
        self._orders: dict[frozenset[str], tuple[str, ...]] = {}  # set of key columns -> key columns in key order
        self._others: dict[frozenset[str], tuple[str, ...]] = {}  # first column of another order -> the other order
        self._compared: set[frozenset[str]] = set()  # sets of key columns with selected rows

    def wants(self, schema: str, table: str) -> bool:
        """Return whether this is the table of the key."""
        return schema == self.schema and table == self.table

    def columns_of(self, plan: TablePlan) -> tuple[str, ...]:
        """Return the key columns of the table; empty if it has no such key.

        If the primary key has its columns in another order than before, and the key does not name them, this is only
        the first column: `matches_in` then refuses the rows, if any is selected.
        """
        found = self.choice.of(plan)
        if found:
            fields = tuple(map(name_text, found))
            known = self._orders.setdefault(frozenset(fields), fields)
            if known != fields and not self.key.names:
                self._others[frozenset(fields[:1])] = fields
                return found[:1]
        else:
            self._refusal = self._reason(column.label for column in plan.columns)
        return found

    def _reason(self, labels: Iterable[str]) -> str:
        """Return why rows of a table with these columns are not compared."""
        if self.choice.names:
            return f"{self.name} has no column {', '.join(self.choice.names)}: it has {', '.join(labels)}"
        return (
            f"the primary key of {self.name} is not known: give KEY as column=value; its columns are "
            f"{', '.join(labels)}"
        )

    @property
    def refusal(self) -> str | None:
        """The reason why no table map has the key; None if one has it, or there is none."""
        return None if self._orders else self._refusal

    def matches_in(self, batch: pa.RecordBatch) -> Iterator[RowMatch]:
        """Yield the rows of a batch that have the key before or after the change.

        Raises:
            KeyRefused: the primary key has its columns in two orders, and the key does not name them.
            _OtherOrderError: the order that was assumed has no selected rows; the log must be read again.
        """
        keys = FoundKeys.of(batch)
        if not keys.columns:
            self.misfit = self._reason(column_names(batch))
            return
        columns = frozenset(keys.columns)
        if columns not in self._orders:
            self._change_order(self._others[columns])
        self._compared.add(columns)
        self._summary.rows_compared += batch.num_rows
        text = self.key.by_column(self._orders[columns], self.name)
        is_old, is_new = keys.has_before, keys.has_after
        for column, old, new in zip(keys.columns, keys.before, keys.after, strict=True):
            value = value_of(text[column], old.type, column)
            is_old, is_new = is_old & _equal(old, value), is_new & _equal(new, value)
        hits = np.flatnonzero(is_old | is_new)
        if not len(hits):
            return
        labels = column_names(batch)
        places, rows = (batch.column(name).to_numpy()[hits].tolist() for name in ("pos", "row"))
        for hit, place, row in zip(hits.tolist(), places, rows, strict=True):
            is_changed = keys.has_before[hit] and keys.has_after[hit] and is_old[hit] != is_new[hit]
            yield RowMatch(
                place,
                row,
                labels,
                text,
                keys.texts(keys.before, hit) if is_changed and is_new[hit] else None,
                keys.texts(keys.after, hit) if is_changed and is_old[hit] else None,
            )

    def _change_order(self, found: tuple[str, ...]) -> NoReturn:
        """Assume another order of the key columns, unless rows with the known order were compared."""
        known = self._orders[frozenset(found)]
        if frozenset(found) in self._compared:
            raise KeyRefused(
                f"the order of the primary key of {self.name} changes from {', '.join(known)} to"
                f" {', '.join(found)}: give KEY as column=value"
            )
        self._orders[frozenset(found)] = found
        self._others.clear()
        raise _OtherOrderError


class _OtherOrderError(Exception):
    """The rows of a log have their key in another order than was assumed: the log must be read again."""


class _KeySearch:
    """Searches logs for a key, one log after the other."""

    def __init__(
        self, matcher: _KeyMatcher, options: HistoryOptions, note: Callable[[str], None], summary: SearchSummary
    ) -> None:
        self._matcher = matcher
        self._reader = MatchReader(matcher, options, summary)
        self._options = options
        self._note = note
        self._summary = summary
        self._statements = LogStatements(options.definitions, options.watch)
        self._passed: list[LogFile] = []  # logs searched by index: their DDL was not read

    def log(self, log: LogFile) -> Iterator[RowVersion | HistoryStatement]:
        """Yield the changes and statements found in a log."""
        found = None
        index, key = self._index_of(log), self._matcher.key
        if index is not None:
            with index:
                try:
                    found = self._ask(log, index)
                except IndexUnusable as exc:
                    self._matcher.key = key  # `_follow` may have changed it before the damage
                    self._note(f"{exc}: {log.name} is read")
        if found is None:
            found = self._read(log)
        start = found.before if found.rereads else None
        versions = self._reader.versions(log, found.matches, found.definitions, start)
        parts: tuple[Iterator[RowVersion | HistoryStatement], ...] = versions, self._texts(log, found)
        yield from merge(*parts, key=lambda one: one.pos)
        if found.error is not None:
            raise found.error

    def finish(self) -> None:
        """End the search.

        Raises:
            KeyRefused: no table map of the table has the key.
        """
        misfit, refusal = self._matcher.misfit, self._matcher.refusal
        if refusal is not None and not self._summary.rows_compared:
            raise KeyRefused(refusal)
        if misfit is not None:
            self._note(f"in a part of the logs, whose changes were not compared, {misfit}")

    def _follow(self, log: LogFile, found: _LogMatches, matches_again: Callable[[], Iterable[RowMatch]]) -> None:
        """After each change of the key, replace the later matches by those of the new key."""
        at = 0
        while self._options.follow_key and at < len(found.matches):
            match = found.matches[at]
            at += 1
            if match.new_key is not None:
                self._matcher.key = RowKey.of(match.new_key)
                self._note(
                    f"{log.name}: at {match.pos}: the key changes to {self._matcher.key.text}, which is followed"
                )
                after = match.pos, match.row
                found.matches[at:] = [one for one in matches_again() if (one.pos, one.row) > after]

    # -------------------------------------------------------------------------------------------------- search by index

    def _index_of(self, log: LogFile) -> KeyIndex | None:
        """Return the index of a log; None if it has no usable index that is up to date."""
        if not self._options.use_indexes or log.stream is not None:
            return None
        try:
            index = KeyIndex(*index_place(log, self._options.index_folder))
        except IndexUnusable as exc:
            if str(exc):
                self._note(f"{exc}: {log.name} is read")
            return None
        reason = index.misfit(log, self._options.keyring)
        if reason is not None:
            index.close()
            self._note(f"{reason}: {log.name} is read")
            return None
        return index

    def _ask(self, log: LogFile, index: KeyIndex) -> _LogMatches:
        """Return the matches and statements found through an index.

        Raises:
            IndexUnusable: the log must be read instead.
        """
        tables = index.table(self._matcher.name)
        if any(one.is_unsure for one in tables):
            raise IndexUnusable(f"{log.name} names the columns of {self._matcher.name} by several statements")
        defined = [one.definition for one in tables if one.definition is not None]
        given = self._options.definitions
        if defined:
            given = GivenDefinitions({self._matcher.name: defined[0]}, passes_over=True)
        statements = index.statements(self._matcher.name) if self._options.statements else array("q")
        found = _LogMatches(self._asked(log, index, given), statements, given)
        self._follow(log, found, lambda: self._asked(log, index, given))
        self._summary.logs_by_index += 1
        if self._options.watch is not None:
            self._options.watch(log.name, log.size or 0)
        self._passed.append(log)
        return found

    def _asked(self, log: LogFile, index: KeyIndex, given: GivenDefinitions | None) -> list[RowMatch]:
        """Return the rows with the key at the candidate positions of an index."""
        places = index.places(
            self._matcher.name, self._matcher.key, self._matcher.choice.names, self._options.where.timestamp
        )
        self._summary.rows_compared += len(index.table(self._matcher.name))
        wanted = set(places)
        source = DefinitionSource(given, follows_ddl=False)
        try:
            return [one for one in self._reader.matches(log, source, places) if one.pos in wanted]
        except _OtherOrderError:
            return self._asked(log, index, given)

    # ---------------------------------------------------------------------------------------- search by reading the log

    def _read(self, log: LogFile) -> _LogMatches:
        """Return the matches and statements found by reading a log."""
        before, misfit = self._statements, self._matcher.misfit
        try:
            found = self._pass(log, before)
        except _OtherOrderError:
            found = self._pass(log, before)
        if self._statements.has_unnamed and self._passed:
            learn_statements(before, self._passed, self._options.keyring, self._options.limits)
            self._matcher.misfit = misfit
            found = self._pass(log, before)
        self._passed.clear()
        self._follow(log, found, lambda: self._reader.matches(log, before.copy()))
        self._summary.logs_read += 1
        self._summary.bytes_read += log.size or 0
        return found

    def _pass(self, log: LogFile, before: LogStatements) -> _LogMatches:
        statements = self._statements = before.copy()
        found = _LogMatches(before=before)

        def note_statement(place: int, sql: bytes) -> None:
            if self._options.statements and names_table(sql, self._matcher.table):
                found.statements.append(place)

        statements.begin_search(note_statement)
        try:
            for match in self._reader.matches(log, statements):
                found.matches.append(match)
            self._reader.note_end(log, self._note)
        except BinlogError as exc:
            found.error = exc
        used = statements.used_definitions(self._matcher.schema, self._matcher.table)
        found.rereads = len(used) > 1
        if len(used) == 1 and used[0] is not None:
            found.definitions = GivenDefinitions({self._matcher.name: used[0]})
        return found

    def _texts(self, log: LogFile, found: _LogMatches) -> Iterator[HistoryStatement]:
        """Yield the statements at the positions found."""
        places = set(found.statements)
        for split, pos in self._reader.ranges(log, found.statements):
            where = self._options.where_in(log, pos)
            where = replace(where, timestamp=where.timestamp.within(where.group_time), group_time=Range(), ops=None)
            selection = EventSelection(where=where, verify_checksum=self._options.verify_checksum)
            for batch in read_events(log, split, selection, self._options.keyring):
                is_found = pc.and_(pc.is_in(batch["pos"], pa.array(places, pa.int64())), batch["sql"].is_valid())
                for one in batch.filter(is_found).to_pylist():
                    sql = one["sql"]
                    if one["schema"] == self._matcher.schema or names_table(sql.encode(), self._matcher.schema):
                        self._summary.statements += 1
                        yield HistoryStatement(file=log.name, **{name: one[name] for name in _OF_EVENT})


_OF_EVENT: Final = ("pos", "timestamp", "server_id", "gtid", "schema", "sql")


def _equal(column: pa.Array, value: pa.Scalar) -> np.ndarray:
    found: np.ndarray = pc.equal(column, value).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return found
