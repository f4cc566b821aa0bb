"""Finds row changes in an archive of logs, all of them or those whose values match a condition.

`find_changes` first reads only the columns of the condition in all logs, and then all columns of the matching changes.
`find_statements` finds what the logs have as text.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import datetime, timezone
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlogio.archive.found_rows import MatchReader, RowMatch, SearchOptions, SearchSummary, changes_in, no_note
from binlogio.archive.history import HistoryStatement
from binlogio.archive.row_keys import PRIMARY_KEY
from binlogio.archive.statements import LogStatements
from binlogio.columnar.record_types import column_names
from binlogio.dotted_names import dotted_name
from binlogio.events.query import QueryEvent
from binlogio.format.groups import frames_changes
from binlogio.implementation import require_kernel
from binlogio.selection.row_condition import RowCondition, undecided_text, unnamed_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from binlogio.archive.found_rows import RowVersion
    from binlogio.format.groups import EventGroup
    from binlogio.reader import BinlogReader
    from binlogio.rows.plan import TablePlan
    from binlogio.selection.selection import Selection
    from binlogio.storage.log_file import LogFile


def find_changes(
    logs: Iterable[LogFile],
    condition: str | None,
    options: SearchOptions | None = None,
    *,
    wants: Callable[[str, str], bool] | None = None,
    note: Callable[[str], None] | None = None,
    summary: SearchSummary | None = None,
) -> Iterator[RowVersion]:
    """Yield the row changes with a before or after image that matches a condition, in the order of the logs.

    Tables that lack a column of the condition are skipped.

    Args:
        logs: the logs, in order.
        condition: as in `binlogio.selection.row_condition`; None: every change matches.
        options: options of the search.
        wants: returns whether a table, given by schema and name, is searched; None: all tables are searched.
        note: called with a message for each table that has the columns only in some of the logs, and for each log in
            use that ends in an incomplete transaction.
        summary: counts, updated during the search.

    Raises:
        ConditionError: the text is not a condition, a value does not fit its column, or no table has the columns.
        BinlogError: a log is damaged. Changes found before the damage are yielded first.
        OSError: a log cannot be read.
    """
    require_kernel("grep")
    chosen, counts = options or SearchOptions(), summary or SearchSummary()
    matcher = _ConditionMatcher(None if condition is None else RowCondition(condition), wants, counts)
    reader = MatchReader(matcher, chosen, counts, counts.note_statement_change)
    statements = LogStatements(chosen.definitions, chosen.watch)
    for log in logs:
        counts.logs_read += 1
        counts.bytes_read += log.size or 0
        for one in changes_in(log, reader, matcher, statements, note or no_note):
            yield matcher.with_key(one)
    matcher.finish(note or no_note)


def find_statements(reader: BinlogReader, selection: Selection) -> Iterator[tuple[int, HistoryStatement]]:
    """Yield the selected statements (DDL, and changes logged as text), each with the offset of its event group.

    Raises:
        BinlogError: a log is damaged.
        OSError: a log cannot be read.
    """
    require_kernel("grep")
    reader.choose(selection.of_groups)
    for group in reader.groups():
        for event in group:
            if not isinstance(event, QueryEvent) or frames_changes(event.sql):
                continue
            if selection.wants_statement(event.schema, event.sql):
                yield group.begin, _statement_of(reader.position.file, group, event)


def _statement_of(file: str, group: EventGroup, event: QueryEvent) -> HistoryStatement:
    return HistoryStatement(
        file=file,
        pos=event.header.offset,
        timestamp=datetime.fromtimestamp(event.header.timestamp, timezone.utc),
        server_id=event.header.server_id,
        gtid=None if group.gtid is None else str(group.gtid),
        schema=event.schema or None,
        sql=event.sql.decode("utf-8", "backslashreplace"),
    )


class _ConditionMatcher:
    """Compares the rows of tables with a condition."""

    def __init__(
        self, condition: RowCondition | None, wants: Callable[[str, str], bool] | None, summary: SearchSummary
    ) -> None:
        self.matched: set[tuple[str, str]] = set()
        self._condition = condition
        self._wants = wants
        self._summary = summary
        self._compared: set[tuple[str, str]] = set()
        self._keys: dict[tuple[str, str], tuple[str, ...]] = {}
        self._passed_over: dict[tuple[str, str], tuple[str, ...]] = {}  # columns of tables that lack one
        self._undecided: Counter[tuple[str, str]] = Counter()  # rows by table and column

    def wants(self, schema: str, table: str) -> bool:
        """Return whether a table is searched."""
        return self._wants is None or self._wants(schema, table)

    def columns_of(self, plan: TablePlan) -> Collection[str] | None:
        """Return the columns of the condition; empty if the table lacks one."""
        self._keys[plan.schema, plan.table] = PRIMARY_KEY.of(plan)
        if self._condition is None or not self._condition.columns <= {column.label for column in plan.columns}:
            return ()
        return self._condition.columns

    def matches_in(self, batch: pa.RecordBatch) -> Iterator[RowMatch]:
        """Yield the rows of a batch that match."""
        name = batch.column("schema")[0].as_py(), batch.column("table")[0].as_py()
        if self._condition is not None and not batch.schema.field("before").type.num_fields:
            self._passed_over[name] = column_names(batch)
            return
        self._compared.add(name)
        self._summary.rows_compared += batch.num_rows
        hits = np.arange(batch.num_rows)
        if self._condition is not None:
            positions = {name: number for number, name in enumerate(column_names(batch))}
            found = self._condition.compare(batch, positions)
            if found.lacking:
                self._undecided[dotted_name(*name), found.lacking] += found.undecided.true_count
            hits = np.flatnonzero(found.mask.to_numpy(zero_copy_only=False))
        if not len(hits):
            return
        self.matched.add(name)
        places, rows = (
            batch.column(one).take(pa.array(hits.tolist(), pa.int64())).to_pylist() for one in ("pos", "row")
        )
        yield from map(RowMatch, places, rows, repeat(column_names(batch)))

    def with_key(self, one: RowVersion) -> RowVersion:
        """Return a change with the key of its row: that after the change, if the log has it."""
        images = [json.loads(image) for image in (one.before, one.after) if image is not None]
        values = {name: value for image in images for name, value in image.items()}
        names = self._keys.get((one.schema, one.table), ())
        return replace(one, key={name: str(values[name]) for name in names if name in values})

    def finish(self, note: Callable[[str], None]) -> None:
        """End the search, and report tables with selected rows that lack a column, which other maps of them have.

        Also tables whose columns have no names.

        Raises:
            ConditionError: no table has the columns of the condition.
        """
        if self._condition is None:
            return
        columns = ", ".join(sorted(self._condition.columns))
        unnamed = {name for name, labels in self._passed_over.items() if "@1" in labels}
        if self._passed_over and not (self._compared or unnamed):
            raise self._condition.no_table({dotted_name(*name): labels for name, labels in self._passed_over.items()})
        self._summary.is_complete = not unnamed and not self._undecided
        for (table, column), count in sorted(self._undecided.items()):
            note(undecided_text(table, column, count))
        for name in sorted(unnamed - self._compared):
            note(unnamed_text(dotted_name(*name)))
        for name in sorted(self._compared & self._passed_over.keys()):
            note(
                f"in a part of the logs, whose changes were not compared, {dotted_name(*name)} lacks one of the columns"
                f" {columns}: it has {', '.join(self._passed_over[name])}"
            )
