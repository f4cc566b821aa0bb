"""`read_rows` and `read_tables`: row changes of logs as Arrow record batches.

Checks the arguments. `row_batches` has the results as tables, data frames and Arrow streams;
`binlogio.columnar.batches.table_batches` builds the batches; `binlogio.columnar.parallel` distributes parts of logs to
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, overload

from binlogio.columnar.parallel.log_cuts import LogCuts
from binlogio.columnar.parallel.log_parts import LogPartReader, NumberedReader
from binlogio.columnar.parallel.part_definitions import PartFacts
from binlogio.columnar.parallel.threads import OrderedResults
from binlogio.columnar.row_batches import MixedBatches, RowBatches
from binlogio.columnar.splits.group_parts import LargeGroups
from binlogio.columnar.splits.skipped_logs import logs_without
from binlogio.columnar.splits.split_bounds import KnownGroups, group_around
from binlogio.columnar.walk.table_plans import KnownPlans
from binlogio.dotted_names import dotted_name, split_name
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.format.splits import GroupPart, Split
from binlogio.implementation import require_kernel
from binlogio.options import DEFAULT_LIMITS, Limits
from binlogio.reader import BinlogReader
from binlogio.schema.given import load_definitions
from binlogio.schema.source import DefinitionSource
from binlogio.selection.event_filter import EVERY_EVENT, EventFilter, Range, check_values
from binlogio.selection.selection import Selection
from binlogio.selection.table_names import TableNames
from binlogio.series.continuity import check_series
from binlogio.series.progress import recognizer
from binlogio.storage.sources import Source, find_logs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from typing_extensions import Unpack

    from binlogio.columnar.parallel.log_cuts import LogPart
    from binlogio.columnar.record_types import RowSelection
    from binlogio.events.base import ParseContext
    from binlogio.events.table_map import TableMapEvent
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.given import Definitions, GivenDefinitions
    from binlogio.schema.statement_changes import StatementChange
    from binlogio.selection.event_filter import Names, Operation
    from binlogio.selection.row_condition import RowCondition
    from binlogio.storage.keyring import Keyring, KeyringSource
    from binlogio.storage.log_file import LogFile

Where: TypeAlias = "Selection | EventFilter | str | RowCondition | list[Selection | EventFilter | str | RowCondition]"
"""Conditions on groups, events and the values of rows."""
_ZERO_DATES: Final = ("error", "null", "text")
_JSON_DIFFS: Final = ("operations", "error")
SOURCE_COLUMNS: Final = ("end_pos", "thread_id", "xid", "outcome", "commit_timestamp", "statement")
"""The names of `source_columns`. `record_types.SOURCE_FIELDS` has their types."""
DEFAULT_BATCH_ROWS: Final = 1 << 16
_SMALL_RANGE: Final = 1 << 24  # bytes of a log whose batches may be held in memory together


class SelectionOptions(TypedDict):
    """Fields of `RowSelection` that `read_tables` sets from its arguments."""

    columns: tuple[str, ...] | None
    zero_dates: str
    json_diffs: str
    verify_checksum: bool
    batch_rows: int
    where: EventFilter
    definitions: GivenDefinitions | None
    limits: Limits
    source_columns: tuple[str, ...]
    statement_changes: str


class TableBatches:
    """Pairs of `schema.table` and record batch for every selected table, in one pass over the logs.

    If the rows are of one table only, the object is also an Arrow stream (`schema`, `__arrow_c_stream__`).
    """

    def __init__(
        self,
        logs: list[LogFile],
        tables: TableNames,
        options: SelectionOptions,
        keyring: Keyring | None,
        threads: int,
        condition: RowCondition | None = None,
        chosen: tuple[str, ...] | None = None,
    ) -> None:
        self._condition = condition
        self._chosen = chosen  # columns of the result; for a condition all columns are read
        self._threads = threads
        self._logs = logs
        self._tables = tables
        self._options = options
        self._keyring = keyring

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.description}>"

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The names of the requested source columns."""
        return self._options["source_columns"]

    @property
    def logs(self) -> list[LogFile]:
        """The logs, in order."""
        return list(self._logs)

    @property
    def names(self) -> str:
        """The selection of tables as text, for messages and to compare it with that of an export."""
        return str(self._tables)

    def wants_table(self, schema: str, table: str) -> bool:
        """Return whether a table is selected."""
        if not self._options["where"].wants_table(schema, table):
            return False
        return self._tables.wants(schema, table)

    @property
    def description(self) -> str:
        """Tables, columns and logs, for messages."""
        logs = [log.name for log in self._logs]
        columns = self._options["columns"] if self._condition is None else self._chosen
        return (
            self.names
            + (f" ({', '.join(columns)})" if columns is not None else "")
            + (f" in {logs[0]}" if logs else " in no log")
            + (f" to {logs[-1]}, {len(logs)} logs" if len(logs) > 1 else "")
        )

    @property
    def schema(self) -> pa.Schema:
        """The schema as of `RowBatches.schema`, if the logs have rows of only one table."""
        return RowBatches(self).schema

    def __arrow_c_schema__(self) -> object:
        return RowBatches(self).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return RowBatches(self).__arrow_c_stream__(requested_schema)

    def known_schema(self) -> pa.Schema:
        """Return the schema of the only selected table, for logs without a row of it.

        Raises:
            BinlogFormatError: neither the given definitions nor the logs define its columns.
        """
        from binlogio.columnar.record_types import RecordType, with_source_fields  # noqa: PLC0415

        if len(self._tables.tables) == 1:
            selection = self._selection(statement_changes="skip")
            plan = _known_plan(self._tables.tables[0], self._logs, selection, self._keyring)
            if plan is not None:
                kind = RecordType.of(plan, selection.columns, zero_dates=selection.zero_dates)
                return with_source_fields(kind.schema, selection.source_columns)
        raise BinlogFormatError(
            "the logs contain no row of the table, and its columns are unknown",
            field=self.names,
            found=", ".join(log.name for log in self._logs[:3]) + (" ..." if len(self._logs) > 3 else "") or "no log",
            hint="check the name; with definitions= the columns are known, and the result is empty",
        )

    @property
    def where(self) -> EventFilter:
        """The conditions on events."""
        return self._options["where"]

    @property
    def condition(self) -> RowCondition | None:
        """The condition on values."""
        return self._condition

    def __iter__(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        return self._matching(self._batches(self._selection()), may_lack_columns=False)

    def of_logs(
        self,
        logs: list[LogFile],
        *,
        skipped: Collection[LogFile] = (),
        may_lack_columns: bool = False,
        note_plan: Callable[[TablePlan], None] | None = None,
        note_statement_change: Callable[[StatementChange], bool] | None = None,
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the batches of some of the logs.

        Rows of the logs in `skipped` are omitted; such a log is read only if later logs need its DDL for column names.
        The other arguments are as in `RowSelection`.
        """
        chosen = TableBatches(logs, self._tables, self._options, self._keyring, self._threads)
        selection = self._selection(
            may_lack_columns=may_lack_columns, note_plan=note_plan, note_statement_change=note_statement_change
        )
        if skipped:
            batches = chosen._side_by_side(selection, chosen._logs, {id(log) for log in skipped})
        else:
            batches = chosen._batches(selection)
        return self._matching(batches, may_lack_columns=may_lack_columns)

    def _selection(self, **more: Any) -> RowSelection:
        from binlogio.columnar.record_types import RowSelection  # noqa: PLC0415 - imports pyarrow

        return RowSelection(**{"wants": self.wants_table, **self._options, **more})

    def __getstate__(self) -> dict[str, object]:
        """Return the state for another process, which gets its parts of logs by `of_part`."""
        return {**self.__dict__, "_logs": []}

    def of_part(
        self, log: LogFile, split: Split | GroupPart | None, within: Range, definitions: DefinitionSource | None
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield batches at the positions `within`, as `read_split`; tables may lack selected columns."""
        selection = self._selection(may_lack_columns=True)
        selection = replace(selection, where=replace(self.where, pos=self.where.pos.within(within)))
        found = read_split(log, split, selection, self._keyring, definitions=definitions)
        return self._matching(found, may_lack_columns=True)

    def _matching(
        self, batches: Iterator[tuple[str, pa.RecordBatch]], *, may_lack_columns: bool
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows that match the condition on values, with the columns of the result.

        Raises:
            ConditionError: a value does not fit its column, or there were rows, and no table has the columns.
            BinlogFormatError: a table lacks a column of the result.
        """
        condition = self._condition
        if condition is None:
            yield from batches
            return
        found, lacking = False, {}
        for table, batch in batches:
            names = [one.name for one in batch.schema.field("before").type]
            if not condition.is_about(table, names):
                lacking[table] = names
                continue
            found, missing = True, [name for name in self._chosen or () if name not in names]
            if missing and not may_lack_columns:
                raise BinlogFormatError(
                    "unknown column", field=table, expected=", ".join(names), found=", ".join(missing)
                )
            kept = batch.filter(condition.mask(batch))
            if kept.num_rows:
                yield table, _with_columns(kept, self._chosen)
        if lacking and not found:
            raise condition.no_table(lacking)

    def mixed(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield batches of all tables, with JSON images, in the order of the log.

        Raises:
            UnsupportedFeature: there is a condition on values.
        """
        if self._condition is not None:
            raise UnsupportedFeature(
                "a condition on values needs typed images", hint="give table=, or use read_tables()"
            )
        return self._batches(self._selection(mixed=True))

    def _batches(self, selection: RowSelection) -> Iterator[tuple[str, pa.RecordBatch]]:
        found = self._at_positions(selection)
        if found is not None:
            yield from found
            return
        skipped = logs_without(self._logs, selection.where, self._keyring) if selection.where else frozenset()
        logs = self._logs
        if skipped and self._is_catalogued(selection, skipped):
            logs, skipped = [log for number, log in enumerate(logs) if number not in skipped], frozenset()
        if self._threads > 1 or skipped:
            yield from self._side_by_side(selection, logs, {id(logs[number]) for number in skipped})
            return
        definitions = DefinitionSource(selection.definitions)
        with closing(LogPartReader(selection, self._keyring, definitions=definitions)) as reader:
            for log in logs:
                yield from reader.read((log, None))

    def _is_catalogued(self, selection: RowSelection, skipped: Collection[int]) -> bool:
        """Return whether a catalogue has the definitions at the beginning of each log after a skipped one."""
        catalogue = None if selection.definitions is None else selection.definitions.catalogue
        first = [log for n, log in enumerate(self._logs) if n not in skipped and n - 1 in skipped]
        return catalogue is not None and all(
            catalogue.before(log.name, recognizer(log, self._keyring)) is not None for log in first
        )

    def _at_positions(self, selection: RowSelection) -> Iterator[tuple[str, pa.RecordBatch]] | None:
        """Return the batches of a small range of positions in one log, reading little more than that range.

        None: the range is not small, event groups cannot be found by position, or column names depend on DDL before it.
        """
        pos = selection.where.pos
        if len(self._logs) != 1 or pos.end - pos.start > _SMALL_RANGE or self._logs[0].stream is not None:
            return None
        (log,) = self._logs
        begin = group_around(log, pos.start, self._keyring)
        if begin is None:
            return None
        batches: list[tuple[str, pa.RecordBatch]] = []
        facts, error = PartFacts(1, DefinitionSource(selection.definitions)), None
        with closing(NumberedReader(selection, self._keyring, facts, KnownGroups(), KnownPlans())) as reader:
            try:
                batches.extend(reader.read((1, (log, Split(begin, pos.end)))))
            except BinlogError as exc:
                error = exc
        return None if begin and facts.asked(1) else _then_raise(batches, error)

    def _side_by_side(
        self, selection: RowSelection, logs: Sequence[LogFile], skipped: Collection[int]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield batches read by several threads; logs whose `id()` is in `skipped` yield none.

        If a part was read without DDL of an earlier part that it needed, reading is repeated from there. A skipped log
        is read for its DDL if the columns of a later log need it.
        """
        known = DefinitionSource(selection.definitions)
        for_ddl = replace(selection, statement_changes="skip", note_statement_change=None)
        done, known_groups, known_plans = 0, KnownGroups(), KnownPlans()

        def read_skipped(facts: PartFacts, number: int) -> None:
            part = cuts.part(number)
            if part is not None:
                with closing(NumberedReader(for_ddl, self._keyring, facts, known_groups, known_plans)) as reader:
                    for _ in reader.read((number, part)):
                        pass

        with closing(LargeGroups(self._keyring, known_groups)) as large:
            cuts = LogCuts(logs, self._threads, large)
            while cuts.part(done) is not None:
                facts = PartFacts(done, known, read_skipped)
                in_order = OrderedResults(
                    partial(_part_at, cuts, facts, skipped, self._keyring),
                    partial(NumberedReader, selection, self._keyring, facts, known_groups, known_plans),
                    _batch_size,
                    facts.holds,
                    lambda part, size: cuts.learn(part[1], size),
                    done,
                )
                done = yield from in_order.results(self._threads)
                if cuts.part(done) is not None:
                    facts.read_skipped(done)
                    known = facts.all_before(done)


def _with_columns(batch: pa.RecordBatch, columns: Collection[str] | None) -> pa.RecordBatch:
    """Return a batch with only these columns in its images; None: all."""
    if columns is None:
        return batch
    import pyarrow as pa  # noqa: PLC0415

    for name in ("before", "after"):
        image = batch.column(name)
        fields = [one for one in image.type if one.name in columns]
        parts = [image.field(one.name) for one in fields]
        pruned = pa.StructArray.from_arrays(parts, fields=fields, mask=image.is_null())
        batch = batch.set_column(batch.schema.get_field_index(name), name, pruned)
    return batch


def _then_raise(
    batches: list[tuple[str, pa.RecordBatch]], error: BinlogError | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    yield from batches
    if error is not None:
        raise error


def read_split(
    log: LogFile,
    split: Split | GroupPart | None,
    selection: RowSelection,
    keyring: Keyring | None = None,
    *,
    definitions: DefinitionSource | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (table, record batch) pairs of the event groups that begin in a byte range of a log.

    If `split` is None, the whole log is read. Groups that begin in the range are read to their ends. A log that cannot
    be split (relay, encrypted or compressed logs) belongs to the range that begins at 0.
    `definitions` are the definitions at the beginning of the range. Without them, only those of the selection are used,
    and DDL in the log is ignored.

    Raises:
        BinlogError: the log is damaged, or is not a binary log.
        OSError: the file cannot be read.
    """
    require_kernel("read_split")
    with closing(LogPartReader(selection, keyring, definitions=definitions)) as reader:
        yield from reader.read((log, split))


def _part_at(
    cuts: LogCuts, facts: PartFacts, skipped: Collection[int], keyring: Keyring | None, number: int
) -> tuple[int, LogPart] | None:
    part = cuts.part(number)
    if part is None:
        return None
    log, split = part
    if split is None or split.start == 0:
        facts.begin_log(number, log.name, recognizer(log, keyring))
    if id(log) in skipped:
        facts.skip(number)
    return number, part


def _batch_size(result: tuple[str, pa.RecordBatch]) -> int:
    size: int = result[1].get_total_buffer_size()  # ten times faster than `nbytes`
    return size


def read_tables(
    source: Source | Iterable[Source],
    *,
    tables: Names | TableNames | None = None,
    columns: Names | None = None,
    zero_dates: Literal["error", "null", "text"] = "error",
    json_diffs: Literal["operations", "error"] = "operations",
    verify_checksum: bool = True,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    threads: int = 1,
    keyring: KeyringSource | None = None,
    filesystem: FileSystem | None = None,
    where: Where = EVERY_EVENT,
    ops: Operation | Collection[Operation] | None = None,
    definitions: Definitions | None = None,
    limits: Limits = DEFAULT_LIMITS,
    source_columns: Collection[str] = (),
    ignore_missing_logs: bool = False,
    statement_changes: Literal["error", "skip"] = "error",
) -> TableBatches:
    """Return the row changes of every table as pairs of name (`schema.table`) and record batch, typed by that table.

    Args:
        source: as in `binlogio.open`.
        tables: globs as in `binlogio.selection.table_names`, such as `shop.*` or `orders`; None: all tables. Rows of
            other tables are skipped without being decoded.
        columns: names of the columns in `before` and `after`; None: all columns.
        zero_dates: conversion of zero and invalid dates: "error", "null", or "text", which converts all dates to text.
        json_diffs: conversion of partial updates of JSON columns (binlog_row_value_options=PARTIAL_JSON) whose before
            image lacks the column: "operations" returns the diffs as text, `[{"op":"replace","path":"$.a","value":1}]`
            (a document has a space after the colon: `[{"op": "replace"`); "error" raises. If the before image has the
            document, `after` is the document with the diffs applied.
        verify_checksum: compare the CRC32 of every event with its bytes.
        batch_rows: the maximum number of rows of a batch. A batch also ends at a few MiB, at the end of a log or of a
            part read by a thread, and where its table changes.
        threads: the number of threads that read. Logs are cut into byte ranges of event groups, and large groups into
            parts; batches are still returned in the order of the log. Only logs with GTID or ANONYMOUS_GTID events can
            be cut.
        keyring: as in `binlogio.open`.
        filesystem: as in `binlogio.open`.
        where: a condition on the values of rows as text or `RowCondition` (`"total > 10"`), a `Selection` as of the
            commands (without positions), an `EventFilter` (position, time, server, GTID, operation), or a list of them,
            all of which must hold. Rows of other events are skipped without being decoded. For a condition on values,
            all columns are decoded, and tables that lack one of its columns have no selected rows. A log is skipped if
            its head and that of the next log (PREVIOUS_GTIDS, GTID_LIST) prove that it has no selected GTID, or if it
            ends before the first selected position. Damage in a skipped log is not detected. A skipped log is still
            read for its DDL if later logs do not name their columns. Times skip no log, because sessions can set them.
        ops: the operations: "insert", "update", "delete", or several of them; None: all.
        limits: as in `binlogio.open`.
        source_columns: additional columns of each record, after the others: `end_pos` (offset after the rows event, or
            after the payload event around it), `thread_id` (of the session, from BEGIN or MariaDB's GTID event), `xid`
            (of the storage engine transaction), `outcome` (how the event group ended), `commit_timestamp`
            (microseconds, from MySQL's GTID event), and `statement` (ROWS_QUERY, ANNOTATE_ROWS). A column is null if
            the log does not contain the value. XID and outcome follow the rows in the log: the log is read ahead, from
            the end of a window to the end of its last transaction. `xid` is null for transactions that end without one
            (COMMIT of other engines, XA PREPARE), or whose end is not in the log. `outcome` is null if the end of the
            group is not in the log (the server writes it, or crashed and rolled it back), and else one of:

            - `commit`: XID, COMMIT, XA COMMIT ... ONE PHASE.
            - `rollback`: ROLLBACK. Tables with transactions (InnoDB) do not have these changes; others (MyISAM, Aria)
              keep them. The log does not name the engine of a table.
            - `rollback to savepoint`: the group continues after a ROLLBACK TO, which rolls back these changes as
              `rollback`.
            - `prepare`: XA PREPARE. The XA COMMIT or XA ROLLBACK, which decides, is a group of its own, in this log or
              in a later one, or there is none yet.
            - `statement`: the group is a statement without BEGIN, which cannot be rolled back.
            - `incident`: INCIDENT_EVENT.
        definitions: as in `binlogio.open`. Columns that are named neither by definitions nor by metadata in the log get
            their names from DDL in the logs.
        ignore_missing_logs: as in `binlogio.open`.
        statement_changes: changes of selected tables that the log has as SQL text, without the rows
            (binlog_format=STATEMENT or MIXED): "error" raises at the end of the log, "skip" passes over them.

    Raises:
        OSError: a file does not exist or cannot be opened.
        MissingLogs: as in `binlogio.open`.
        ConditionError: a condition on values is invalid; or, while iterating, a value does not fit its column, or no
            table has its columns.
        UnsupportedFeature: an argument or a definition is not supported; or, while iterating, the log has changes as
            SQL text (`statement_changes`), or `xid` or `outcome` is requested for a stream that cannot be read twice,
            or for a log with MariaDB's encrypt_binlog.
        BinlogError: while iterating: a log is damaged, or is not a binary log, or a definition has other columns than
            the table.
    """
    require_kernel("reading rows into Arrow")
    check_values("zero_dates", (zero_dates,), _ZERO_DATES)
    check_values("json_diffs", (json_diffs,), _JSON_DIFFS)
    check_values("statement_changes", (statement_changes,), ("error", "skip"))
    check_values("source_columns", source_columns, SOURCE_COLUMNS)
    for name, given in (("tables", tables), ("columns", columns)):
        if isinstance(given, str):
            raise UnsupportedFeature(
                "a list of names is needed", field=name, expected=f"[{given!r}]", found=repr(given)
            )
    events, condition, names = _conditions(where, ops)
    if names and tables is not None:
        raise UnsupportedFeature("tables are selected by both `tables` and `where`", hint="give them once")
    options: SelectionOptions = {
        "json_diffs": json_diffs,
        "columns": None if columns is None or condition is not None else tuple(columns),
        "zero_dates": zero_dates,
        "verify_checksum": verify_checksum,
        "batch_rows": batch_rows,
        "where": events,
        "definitions": load_definitions(definitions),
        "limits": limits,
        "source_columns": tuple(source_columns),
        "statement_changes": statement_changes,
    }
    ring = None
    if keyring is not None:
        from binlogio.storage.encryption import load_keyring  # noqa: PLC0415 - needs an extra

        ring = load_keyring(keyring)
    wanted = names or (tables if isinstance(tables, TableNames) else TableNames.of(tables))
    logs = find_logs(source, filesystem=filesystem)
    if not ignore_missing_logs:
        check_series(logs, ring, in_order=False)
    chosen = None if condition is None or columns is None else tuple(columns)
    return TableBatches(logs, wanted, options, ring, threads, condition, chosen)


def _conditions(
    where: Where, ops: Operation | Collection[Operation] | None
) -> tuple[EventFilter, RowCondition | None, TableNames]:
    """Return the conditions on events, on values and on tables.

    Raises:
        ConditionError: a text is not a condition.
        UnsupportedFeature: an unknown operation, or a condition of a selection that does not apply to single rows.
    """
    found = (where,) if isinstance(where, str) or not isinstance(where, (list, tuple)) else where
    events = EVERY_EVENT if ops is None else EventFilter(ops=frozenset((ops,) if isinstance(ops, str) else ops))
    names, texts = TableNames(), []
    for one in found:
        if isinstance(one, Selection):
            if names and one.names:
                raise UnsupportedFeature("tables are selected twice", hint="give them in one selection")
            if one.start is not None or one.stop is not None:
                raise UnsupportedFeature(
                    "positions of a selection are those of several logs", hint="give EventFilter(pos=) with one log"
                )
            events, names = events.both(one.event_filter()), names or one.names
            texts += [] if one.condition is None else [one.condition.text]
        elif isinstance(one, EventFilter):
            events = events.both(one)
        elif isinstance(one, str) or hasattr(one, "text"):
            texts.append(one if isinstance(one, str) else one.text)
        else:
            raise UnsupportedFeature("not a condition", field="where", expected="a text, 'total > 10'", found=repr(one))
    if not texts:
        return events, None, names
    from binlogio.selection.row_condition import RowCondition  # noqa: PLC0415 - imports pyarrow

    for text in texts:
        RowCondition(text)  # each one is complete: it cannot end the parentheses of the other
    return events, RowCondition(texts[0] if len(texts) == 1 else " AND ".join(f"({one})" for one in texts)), names


class _RowOptions(TypedDict, total=False):
    """The arguments of `read_rows` that do not determine the type of its result."""

    columns: Names | None
    zero_dates: Literal["error", "null", "text"]
    json_diffs: Literal["operations", "error"]
    verify_checksum: bool
    batch_rows: int
    threads: int
    keyring: KeyringSource | None
    filesystem: FileSystem | None
    where: Where
    ops: Operation | Collection[Operation] | None
    definitions: Definitions | None
    limits: Limits
    source_columns: Collection[str]
    ignore_missing_logs: bool
    statement_changes: Literal["error", "skip"]


@overload
def read_rows(source: Source | Iterable[Source], *, table: str, **options: Unpack[_RowOptions]) -> RowBatches: ...


@overload
def read_rows(
    source: Source | Iterable[Source],
    *,
    table: None = ...,
    tables: Names | TableNames | None = ...,
    **options: Unpack[_RowOptions],
) -> MixedBatches: ...


def read_rows(
    source: Source | Iterable[Source],
    *,
    table: str | None = None,
    tables: Names | TableNames | None = None,
    columns: Names | None = None,
    zero_dates: Literal["error", "null", "text"] = "error",
    json_diffs: Literal["operations", "error"] = "operations",
    verify_checksum: bool = True,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    threads: int = 1,
    keyring: KeyringSource | None = None,
    filesystem: FileSystem | None = None,
    where: Where = EVERY_EVENT,
    ops: Operation | Collection[Operation] | None = None,
    definitions: Definitions | None = None,
    limits: Limits = DEFAULT_LIMITS,
    source_columns: Collection[str] = (),
    ignore_missing_logs: bool = False,
    statement_changes: Literal["error", "skip"] = "error",
) -> RowBatches | MixedBatches:
    """Read the row changes of one table as typed columns, or of all tables with JSON images.

    `table` is `schema.table`, or another glob that matches one table.

    Iteration yields `pyarrow.RecordBatch`es with one record per row change: its position, its operation, and `before`
    and `after` as structs of the table's columns, null if the change has no such image. `before_present` and
    `after_present` are bitmaps of the columns in an image: a column that the log omits is null, and its bit is 0.

    Without `table`, `before` and `after` are JSON text without absent columns, and the records of all tables come in
    the order of the log; `tables` then selects tables. The other arguments and the errors are those of `read_tables`.
    """
    if table is not None and tables is not None:
        raise TypeError("read_rows() accepts table= or tables=, not both")
    selected = read_tables(
        source,
        tables=tables if table is None else (table,),
        columns=columns,
        zero_dates=zero_dates,
        json_diffs=json_diffs,
        verify_checksum=verify_checksum,
        batch_rows=batch_rows,
        threads=threads,
        keyring=keyring,
        filesystem=filesystem,
        where=where,
        ops=ops,
        definitions=definitions,
        limits=limits,
        source_columns=source_columns,
        ignore_missing_logs=ignore_missing_logs,
        statement_changes=statement_changes,
    )
    return MixedBatches(selected) if table is None else RowBatches(selected)


class _MappedTables(DefinitionSource):
    """A definition source that keeps the plan of the last table map of each selected table."""

    def __init__(self, selection: RowSelection) -> None:
        super().__init__(selection.definitions)
        self.plans: dict[str, TablePlan] = {}

    def plan(self, event: TableMapEvent, context: ParseContext) -> TablePlan:
        found = super().plan(event, context)
        self.plans[found.full_name] = found
        return found


def _known_plan(name: str, logs: list[LogFile], selection: RowSelection, keyring: Keyring | None) -> TablePlan | None:
    """Return the plan of a table without selected rows in the logs; None if its columns are not defined.

    The logs are read again if no definition was given.

    Raises:
        BinlogError: a log is damaged, or is not a binary log.
        UnsupportedFeature: a column has a type without values.
    """
    schema, table = split_name(name)
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
    return source.unmapped_plan(schema, table, context) or source.plans.get(dotted_name(schema, table))
