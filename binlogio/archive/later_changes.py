"""Finds later changes of rows: which of the rows that some events changed were changed by other events after them.

An undo reverses changes of chosen events. `find_later_changes` reads the key columns of their tables, from the log of
the first chosen event to the last log, and compares the 64-bit codes of the keys (`row_keys`). A table without a known
key is compared by all columns: a later change is one of the row as the chosen change left it.

Memory holds eight bytes for each chosen event, and for each key of a chosen row. Changes that the source rolled back,
which a log may contain, are not told from others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlogio.archive.found_rows import MatchReader, RowMatch, SearchSummary, changes_in, no_note
from binlogio.archive.key_index import learn_statements
from binlogio.archive.row_keys import PRIMARY_KEY, FoundKeys, key_codes
from binlogio.archive.statements import LogStatements
from binlogio.columnar.record_types import column_names, name_text
from binlogio.dotted_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from binlogio.archive.found_rows import RowVersion, SearchOptions
    from binlogio.rows.plan import TablePlan
    from binlogio.selection.row_condition import RowCondition
    from binlogio.storage.log_file import LogFile

MOST_ROWS: Final = 1 << 20
"""The number of chosen row changes up to which a caller should look for later ones."""
_SHOWN_CHANGES: Final = 3
_SHOWN_GTIDS: Final = 3
_NO_CODES: Final = np.empty(0, np.int64)


@dataclass(slots=True)
class TableChanges:
    """The later changes of the rows of a table.

    `rows` is the number of different rows, `changes` that of their changes. `first` and `last` are times of events.
    `gtids` are the first few; `shown` has one change of each of the first events, with values, GTID, thread and
    statement, and `shown_places` their logs and offsets.
    """

    changes: int = 0
    first: datetime | None = None
    last: datetime | None = None
    gtids: list[str] = field(default_factory=list)
    more_gtids: bool = False
    shown: list[RowVersion] = field(default_factory=list)
    shown_places: set[tuple[str, int]] = field(default_factory=set)
    _codes: np.ndarray = field(default_factory=lambda: _NO_CODES)

    @property
    def rows(self) -> int:
        """The number of different rows."""
        return len(self._codes)

    def add(self, batch: pa.RecordBatch, hits: np.ndarray, codes: np.ndarray) -> None:
        """Count the changes at the positions `hits` of a batch; `codes` are the codes of their rows."""
        self._codes = np.union1d(self._codes, codes)
        self.changes += len(hits)
        times = batch.column("timestamp").take(pa.array(hits))
        extremes = pc.min_max(times)
        first, last = extremes["min"].as_py(), extremes["max"].as_py()
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)
        for gtid in pc.unique(batch.column("gtid").take(pa.array(hits))).to_pylist():
            if gtid is None or gtid in self.gtids:
                continue
            if len(self.gtids) < _SHOWN_GTIDS:
                self.gtids.append(gtid)
            else:
                self.more_gtids = True


def find_later_changes(
    logs: Iterable[LogFile],
    chosen: Mapping[str, Sequence[int]],
    wants: Callable[[str, str], bool],
    options: SearchOptions,
    found: dict[str, TableChanges],
    condition: RowCondition | None = None,
    operations: Collection[str] | None = None,
) -> None:
    """Add the later changes of the rows of chosen events to `found`, by `schema.table`.

    Args:
        logs: the logs, in order.
        chosen: the offsets of the chosen rows events, by the name of their log.
        wants: returns whether a table, given by schema and name, has chosen events.
        options: options of the search.
        found: the result, which is filled during the search.
        condition: the rows of the chosen events that are chosen; None: all.
        operations: the operations that are chosen; events of a compressed transaction have one offset. None: all.

    Raises:
        BinlogError: a log is damaged, or a stream. The changes before are in `found`.
        OSError: a log cannot be read.
    """
    summary = SearchSummary()
    matcher = _LaterMatcher(chosen, wants, found, condition, operations)
    reader = MatchReader(matcher, options, summary)
    statements = LogStatements(options.definitions, options.watch)
    has_begun = False
    for log in logs:
        has_begun = has_begun or log.name in chosen
        if not has_begun:
            learn_statements(statements, [log], options.keyring, options.limits)
            continue
        matcher.begin_log(log.name)
        for one in changes_in(log, reader, matcher, statements, no_note):
            found[dotted_name(one.schema, one.table)].shown.append(one)


class _LaterMatcher:
    """Compares the rows of tables with those of the chosen events before them."""

    def __init__(
        self,
        chosen: Mapping[str, Sequence[int]],
        wants: Callable[[str, str], bool],
        found: dict[str, TableChanges],
        condition: RowCondition | None,
        operations: Collection[str] | None,
    ) -> None:
        self.wants: Final = wants
        self._operations = None if operations is None else pa.array(sorted(operations))
        self.matched: set[tuple[str, str]] = set()
        self._chosen = chosen
        self._log = ""
        self._places = _NO_CODES
        self._found = found
        self._condition = condition
        self._keys: dict[tuple[str, str], tuple[str, ...]] = {}
        self._codes: dict[tuple[str, str], np.ndarray] = {}  # of chosen rows, sorted

    def begin_log(self, name: str) -> None:
        """Begin a log."""
        self._log = name
        self._places = np.unique(np.asarray(self._chosen.get(name, ()), np.int64))

    def columns_of(self, plan: TablePlan) -> Collection[str] | None:
        """Return the key columns of a table; None: all columns, for a table without a key and for a condition."""
        key = PRIMARY_KEY.of(plan)
        self._keys[name_text(plan.schema), name_text(plan.table)] = tuple(map(name_text, key))
        return None if not key or self._condition is not None else key

    def matches_in(self, batch: pa.RecordBatch) -> Iterator[RowMatch]:
        """Count the rows of a batch that match, and yield the first ones."""
        name = batch.column("schema")[0].as_py(), batch.column("table")[0].as_py()
        places = batch.column("pos").to_numpy()
        is_chosen = np.isin(places, self._places)
        if self._operations is not None and is_chosen.any():
            is_chosen &= pc.is_in(batch.column("op"), self._operations).to_numpy(zero_copy_only=False)
        if self._condition is not None and is_chosen.any():
            is_chosen &= self._condition.mask(batch).to_numpy(zero_copy_only=False)
        known = self._codes.get(name, _NO_CODES)
        if not len(known) and not is_chosen.any():
            return
        (before, has_before), (after, has_after) = self._row_codes(batch, name)
        has_key = bool(self._keys.get(name))
        rows = np.arange(batch.num_rows)
        added = [(after, is_chosen & has_after), *([(before, is_chosen & has_before)] if has_key else [])]
        codes = np.concatenate([known, *(codes[mask] for codes, mask in added)])
        since = np.concatenate([np.full(len(known), -1), *(rows[mask] for _, mask in added)])
        order = np.lexsort((since, codes))
        known, at = np.unique(codes[order], return_index=True)
        since = since[order][at]  # the first chosen row of each code
        hits: dict[int, int] = {}
        for found, mask in ((before, has_before), *(((after, has_after),) if has_key else ())):
            at = np.minimum(np.searchsorted(known, found), len(known) - 1)
            is_hit = ~is_chosen & mask & (known[at] == found) & (since[at] < rows) if len(known) else mask & False
            hits |= {row: int(found[row]) for row in np.flatnonzero(is_hit).tolist() if row not in hits}
        self._codes[name] = known
        if hits:
            yield from self._matches(batch, name, hits)

    def _matches(self, batch: pa.RecordBatch, name: tuple[str, str], hits: dict[int, int]) -> Iterator[RowMatch]:
        rows = sorted(hits)
        table = self._found.setdefault(dotted_name(*name), TableChanges())
        table.add(batch, np.asarray(rows), np.asarray([hits[row] for row in rows], np.int64))
        self.matched.add(name)
        for row in rows:
            place = batch.column("pos")[row].as_py()
            if len(table.shown_places) >= _SHOWN_CHANGES:
                return
            if (self._log, place) not in table.shown_places:
                table.shown_places.add((self._log, place))
                yield RowMatch(place, batch.column("row")[row].as_py(), column_names(batch))

    def _row_codes(self, batch: pa.RecordBatch, name: tuple[str, str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the codes of the rows before and after the changes, and which rows have them."""
        found, key = FoundKeys.of(batch), self._keys.get(name, ())
        result = []
        for arrays, has_image in ((found.before, found.has_before), (found.after, found.has_after)):
            if key:
                codes, has_key = key_codes([arrays[found.columns.index(one)] for one in key])
                result.append((codes, has_image & has_key))
                continue
            plain = [array for array in arrays if not pa.types.is_nested(array.type)]  # not vectors
            empty = pa.array([None] * batch.num_rows, pa.string())
            result.append((key_codes([*plain, empty])[0], has_image))
        return result
