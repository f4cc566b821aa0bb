"""Key indexes: one Parquet file for each log, with the positions of the row changes of every key.

`index_log` builds an index, beside the log or in another directory. `KeyIndex` finds the positions of the changes of a
row. `logs_with_key` and `logs_without_row` find the logs that can, or cannot, have changes of a row.

    rows     := table, key, pos, time       sorted by table, key and pos within runs of about 2**21 rows
    table    := number in `tables`, from 1; 0: a statement
    key      := the value of a single integer column, else a hash of the values; for a statement, the hash of a word
    pos      := offset of the rows event, of the payload event around it, or of the statement
    time     := timestamp of the rows event in seconds since 1970; -1 for a statement

The metadata of the file, with its own checksum, has a fingerprint of the log, the columns of each key, and the key
range of each row group. An index is valid for a log with the same head, size and end, also if it was compressed or
renamed: `KeyIndex.misfit` compares them.
Different keys may have the same hash. Positions are therefore candidates: a search compares the rows there with the
key.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from binlogio.archive.row_keys import (
    PRIMARY_KEY,
    FoundKeys,
    KeyChoice,
    KeyRefused,
    KeySelection,
    RowKey,
    key_codes,
    value_of,
    word_codes,
)
from binlogio.archive.statements import LogStatements
from binlogio.columnar import RowSelection
from binlogio.columnar.parallel.log_parts import LogPartReader
from binlogio.columnar.record_types import name_text
from binlogio.dotted_names import dotted_name, split_name
from binlogio.errors import DAMAGES
from binlogio.implementation import require_kernel
from binlogio.options import DEFAULT_LIMITS, Limits
from binlogio.reader import BinlogReader
from binlogio.selection.event_filter import Range
from binlogio.series import LogMatch, LogProgress, log_identity
from binlogio.series.identity import log_size
from binlogio.storage.index_file import KEY_INDEX_SUFFIX, base_name
from binlogio.storage.new_file import local_output, make_directory, missing_folders, new_file, removed_if_empty
from binlogio.storage.object_store import open_uri

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyarrow.fs import FileSystem

    from binlogio.archive.statements import WatchBytes
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.given import GivenDefinitions
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

FORMAT: Final = 3
_META: Final = b"binlogio.keys"
_RUN_ROWS: Final = 1 << 21  # rows sorted together
_GROUP_ROWS: Final = 1 << 15
_STATEMENTS: Final = 0
_NO_TIME: Final = -1
_SCHEMA: Final = pa.schema([("table", pa.int32()), ("key", pa.int64()), ("pos", pa.int64()), ("time", pa.int64())])
_ANY_TIME: Final = Range()
_DELTAS: Final = dict.fromkeys(("key", "pos", "time"), "DELTA_BINARY_PACKED")


def _whole(log: LogFile, keyring: Keyring | None = None) -> LogProgress | None:
    """Return the identity and the fingerprint of a whole log; None for a log without a head, and for a stream.

    Raises:
        OSError, UnsupportedFeature: the log cannot be read.
        BinlogFormatError: the compressed file is damaged.
    """
    identity = None if log.stream is not None else log_identity(log, keyring)
    if identity is None:
        return None
    return LogProgress.at(log, log_size(log, keyring), identity, keyring)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedTable:
    """A table in an index: its key columns with their Arrow types, and its definition if the log does not name them.

    Without columns the table has no key, and its changes are not in the index. `key_order` has the columns in the order
    of the primary key, for keys without names; it is empty if this is not the primary key, or if its order changes in
    the log. `is_unsure` is True if the log defines the table in several versions; a search must then read the log from
    its start.
    """

    schema: str
    table: str
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    key_order: tuple[str, ...] = ()
    definition: dict[str, Any] | None = None
    is_unsure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSummary:
    """The result of indexing a log.

    `log` and `index` are file names; the sizes are in bytes. `places` is the number of index rows, `tables` the number
    of tables with a key. `without_key` names the tables without a key.
    """

    log: str
    index: str
    log_size: int
    index_size: int
    places: int
    tables: int
    without_key: tuple[str, ...] = ()


class IndexRefused(ValueError):
    """A log cannot be indexed although it is not damaged: it is in use, incomplete, a stream, or changes meanwhile."""


class IndexUnusable(Exception):
    """An index cannot answer a search: it is missing or damaged, or lacks the key. The log must be read."""


def index_place(log: LogFile, folder: str | None = None) -> tuple[str, FileSystem | None]:
    """Return the name of the index file of a log, and its file system (None: a local file).

    The file is beside the log, or in `folder`: a local directory, or a URI of one in an object store.

    Raises:
        UnsupportedFeature: pyarrow does not support the scheme of the URI.
    """
    if folder is None:
        return log.name + KEY_INDEX_SUFFIX, log.filesystem
    base = base_name(log.name) + KEY_INDEX_SUFFIX
    if "://" not in folder or folder.startswith("file:///"):
        return str(local_output(folder) / base), None
    filesystem, path = open_uri(folder)
    return f"{path.rstrip('/')}/{base}", filesystem


# ------------------------------------------------------------------------------------------------------------- building


@dataclass(slots=True)
class _PlaceRun:
    """Index rows that are not written yet."""

    tables: list[np.ndarray] = field(default_factory=list)
    keys: list[np.ndarray] = field(default_factory=list)
    places: list[np.ndarray] = field(default_factory=list)
    times: list[np.ndarray] = field(default_factory=list)
    rows: int = 0

    def add(self, table: int, keys: np.ndarray, places: np.ndarray, times: np.ndarray) -> None:
        """Add positions of a table."""
        self.tables.append(np.full(len(keys), table, np.int32))
        self.keys.append(keys)
        self.places.append(places)
        self.times.append(times)
        self.rows += len(keys)

    def sorted(self) -> pa.Table:
        """Return the rows sorted by table, key and position, without duplicates."""
        table, key, place, time = (np.concatenate(parts) for parts in (self.tables, self.keys, self.places, self.times))
        order = np.lexsort((place, key, table))
        table, key, place, time = table[order], key[order], place[order], time[order]
        is_new = np.ones(len(order), dtype=bool)
        is_new[1:] = (table[1:] != table[:-1]) | (key[1:] != key[:-1]) | (place[1:] != place[:-1])
        return pa.table([pa.array(column[is_new]) for column in (table, key, place, time)], schema=_SCHEMA)


def index_log(
    log: LogFile,
    *,
    folder: str | None = None,
    key_columns: Mapping[str, Sequence[str]] | None = None,
    definitions: GivenDefinitions | None = None,
    statements: LogStatements | None = None,
    keyring: Keyring | None = None,
    verify_checksum: bool = True,
    limits: Limits = DEFAULT_LIMITS,
) -> IndexSummary:
    """Build the index of a log. An existing index file is replaced.

    Args:
        log: a complete log, which is not in use.
        folder: where the index is written: a local directory (created if missing) or a URI; None: beside the log.
        key_columns: key columns to use instead of the primary key, by `schema.table`.
        definitions: as in `binlogio.open`.
        statements: definitions from DDL in earlier logs; they are updated with the DDL of this log.
        keyring: the keys of encrypted logs.
        verify_checksum: compare the CRC32 of every event with its bytes.
        limits: the largest sizes that are accepted.

    Raises:
        IndexRefused: the log is in use, has no complete head, is a stream, or changed during the call.
        BinlogError: the log is damaged. No index is written.
        OSError: the log cannot be read, or the index cannot be written.
    """
    with BinlogReader([log], keyring=keyring) as reader:
        next(iter(reader), None)  # raises if the head is damaged
        if reader.in_use:
            raise IndexRefused(f"{log.name}: no index is made of a log in use, which a search reads")
    before = _whole(log, keyring)
    if before is None:
        raise IndexRefused(f"{log.name}: no index is made of a log without a complete head")
    maker = _IndexMaker(key_columns or {}, statements or LogStatements(definitions))
    data = maker.index_of(log, before, verify_checksum=verify_checksum, limits=limits, keyring=keyring)
    if _whole(log, keyring) != before:
        raise IndexRefused(f"{log.name}: no index is made, since the log changed while it was read")
    name, filesystem = index_place(log, folder)
    _write(name, filesystem, data)
    return IndexSummary(
        log=log.name,
        index=name,
        log_size=before.offset,
        index_size=len(data),
        places=maker.places,
        tables=len({(one.schema, one.table) for one in maker.tables if one.columns}),
        without_key=tuple(sorted({dotted_name(one.schema, one.table) for one in maker.tables if not one.columns})),
    )


def index_logs(
    logs: Iterable[LogFile],
    *,
    folder: str | None = None,
    key_columns: Mapping[str, Sequence[str]] | None = None,
    definitions: GivenDefinitions | None = None,
    keyring: Keyring | None = None,
    verify_checksum: bool = True,
    limits: Limits = DEFAULT_LIMITS,
    replace_all: bool = False,
    watch: WatchBytes | None = None,
) -> Iterator[IndexSummary | IndexRefused]:
    """Build the indexes of logs, in order, except of logs that have a valid one by the same keys.

    Yields each result or refusal.

    Args:
        logs: the logs, in order.
        folder: where the indexes are written: a local directory or a URI; None: beside the logs.
        key_columns: key columns to use instead of the primary key, by `schema.table`.
        definitions: as in `binlogio.open`.
        keyring: the keys of encrypted logs.
        verify_checksum: compare the CRC32 of every event with its bytes.
        limits: the largest sizes that are accepted.
        replace_all: build every index, also where a valid one exists.
        watch: called with the name of a log and the offset up to which it was read.

    Raises:
        BinlogError, OSError: as in `index_log`.
    """
    require_kernel("index")
    options: dict[str, Any] = {
        "folder": folder, "key_columns": key_columns, "keyring": keyring, "verify_checksum": verify_checksum,
        "limits": limits,
    }  # fmt: skip
    statements = LogStatements(definitions, watch)
    passed: list[LogFile] = []  # logs that were not read: their DDL is unknown
    for log in logs:
        if not replace_all and _has_index(log, folder, keyring, key_columns or {}):
            passed.append(log)
            continue
        before = statements.copy()
        try:
            summary = index_log(log, statements=statements, **options)
            if statements.has_unnamed and passed:
                learn_statements(before, passed, keyring, limits)
                statements = before
                summary = index_log(log, statements=statements, **options)
        except IndexRefused as exc:
            passed.append(log)
            yield exc
            continue
        passed.clear()
        yield summary


def _has_index(
    log: LogFile, folder: str | None, keyring: Keyring | None, key_columns: Mapping[str, Sequence[str]]
) -> bool:
    """Return whether a log has a valid index by the given key columns."""
    try:
        with KeyIndex(*index_place(log, folder)) as index:
            for one in index.tables:
                wanted = key_columns.get(dotted_name(one.schema, one.table))
                if wanted is not None and sorted(map(str.casefold, wanted)) != sorted(map(str.casefold, one.columns)):
                    return False
            return index.misfit(log, keyring) is None
    except IndexUnusable:
        return False


def learn_statements(
    statements: LogStatements, logs: Iterable[LogFile], keyring: Keyring | None, limits: Limits = DEFAULT_LIMITS
) -> None:
    """Read the DDL in logs into `statements`.

    Raises:
        BinlogError, OSError: a log cannot be read.
    """
    selection = RowSelection(
        wants=_no_table, columns=None, zero_dates="text", verify_checksum=False, batch_rows=1, limits=limits
    )
    statements.begin_search()
    with closing(LogPartReader(selection, keyring, definitions=statements)) as reader:
        for log in logs:
            for _ in reader.read((log, None)):
                pass


def _no_table(_schema: str, _table: str) -> bool:
    return False


class _IndexMaker:
    """Reads a log and writes the positions of its keys as Parquet."""

    def __init__(self, key_columns: Mapping[str, Sequence[str]], statements: LogStatements) -> None:
        self.tables: list[IndexedTable] = []
        self.places = 0
        self._choices = {name: KeyChoice(tuple(columns)) for name, columns in key_columns.items()}
        self._statements = statements
        self._run = _PlaceRun()
        self._groups: list[list[int]] = []
        self._numbers: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], int] = {}
        self._keyless: set[tuple[str, str]] = set()
        self._orders: dict[tuple[str, str, frozenset[str]], set[tuple[str, ...]]] = {}

    def index_of(
        self, log: LogFile, facts: LogProgress, *, verify_checksum: bool, limits: Limits, keyring: Keyring | None
    ) -> bytes:
        """Return the bytes of the index file of a log.

        Raises:
            BinlogError, OSError: the log cannot be read.
        """
        selection = KeySelection(
            wants=lambda _schema, _table: True,
            columns=None,
            zero_dates="text",
            verify_checksum=verify_checksum,
            batch_rows=_GROUP_ROWS,
            limits=limits,
            key_of=self._key_of,
        )
        stream = pa.BufferOutputStream()
        with pq.ParquetWriter(
            stream,
            _SCHEMA,
            compression="zstd",
            use_dictionary=["table"],
            column_encoding=_DELTAS,
            write_page_checksum=True,
            write_statistics=False,
        ) as writer:
            self._statements.begin_search(self._note_statement)
            with closing(LogPartReader(selection, keyring, definitions=self._statements)) as reader:
                for _, batch in reader.read((log, None)):
                    self._note_rows(batch)
                    if self._run.rows >= _RUN_ROWS:
                        self._write_run(writer)
            self._write_run(writer)
            tables = [asdict(self._with_definition(one)) for one in self.tables]
            tables += [asdict(IndexedTable(schema=schema, table=table)) for schema, table in sorted(self._keyless)]
            content = {
                "format": FORMAT,
                "log": base_name(log.name),
                "print": facts.to_json(),
                "tables": tables,
                "groups": self._groups,
            }
            text = json.dumps(content, separators=(",", ":"))
            writer.add_key_value_metadata({_META.decode(): f"{crc32(text.encode()):08x}{text}"})
        data: bytes = stream.getvalue().to_pybytes()
        return data

    def _key_of(self, plan: TablePlan) -> tuple[str, ...]:
        found = self._choices.get(plan.full_name, PRIMARY_KEY).of(plan)
        name = name_text(plan.schema), name_text(plan.table)
        if not found:
            self._keyless.add(name)
        primary = PRIMARY_KEY.of(plan)
        columns = frozenset(map(name_text, found))
        order = tuple(map(name_text, primary)) if set(primary) == set(found) else ()
        self._orders.setdefault((*name, columns), set()).add(order)
        return found

    def _note_statement(self, place: int, sql: bytes) -> None:
        codes = np.fromiter(word_codes(sql), np.int64)
        self._run.add(_STATEMENTS, codes, np.full(len(codes), place), np.full(len(codes), _NO_TIME))

    def _note_rows(self, batch: pa.RecordBatch) -> None:
        found = FoundKeys.of(batch)
        if not found.columns:
            return
        name = batch.column("schema")[0].as_py(), batch.column("table")[0].as_py()
        key = (*name, found.columns, tuple(str(one.type) for one in found.before))
        if key not in self._numbers:
            self.tables.append(IndexedTable(schema=key[0], table=key[1], columns=key[2], types=key[3]))
            self._numbers[key] = len(self.tables)
        places = batch.column("pos").to_numpy()
        times = batch.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
        before, is_before = key_codes(found.before)
        after, is_after = key_codes(found.after)
        is_before &= found.has_before
        is_after &= found.has_after & ~(is_before & (before == after))
        for codes, chosen in ((before, is_before), (after, is_after)):
            self._run.add(self._numbers[key], codes[chosen], places[chosen], times[chosen])

    def _write_run(self, writer: pq.ParquetWriter) -> None:
        if not self._run.rows:
            return
        rows, self._run = self._run.sorted(), _PlaceRun()
        self.places += len(rows)
        for start in range(0, len(rows), _GROUP_ROWS):
            part = rows.slice(start, _GROUP_ROWS)
            writer.write_table(part, row_group_size=_GROUP_ROWS)
            first, last = part.slice(0, 1), part.slice(len(part) - 1)
            self._groups.append([one.column(i)[0].as_py() for one in (first, last) for i in (0, 1)])

    def _with_definition(self, table: IndexedTable) -> IndexedTable:
        """Return the table with its definition, if the log itself does not name the columns."""
        orders = self._orders[table.schema, table.table, frozenset(table.columns)]
        if len(orders) == 1:
            table = replace(table, key_order=next(iter(orders)))
        used = self._statements.used_definitions(table.schema, table.table)
        if len(used) > 1:
            return replace(table, is_unsure=True)
        return replace(table, definition=used[0].to_json()) if used and used[0] is not None else table


def _write(name: str, filesystem: FileSystem | None, data: bytes) -> None:
    """Write a file. A local file is written completely or not at all."""
    if filesystem is not None:
        with filesystem.open_output_stream(name) as stream:
            stream.write(data)
        return
    folder = Path(name).parent
    with removed_if_empty(missing_folders(folder)):
        make_directory(folder)
        with new_file(Path(name), replaces=True) as file:
            file.write(data)


# ------------------------------------------------------------------------------------------------------------ searching


class KeyIndex:
    """An open index file. Reads only the row groups that can have a key.

    Args:
        name: the index file.
        filesystem: its file system; None: a local file.

    Raises:
        IndexUnusable: the file is missing (empty message), damaged, or not an index.
    """

    def __init__(self, name: str, filesystem: FileSystem | None = None) -> None:
        self.name: Final = name
        if filesystem is None and Path(name).is_fifo():
            raise IndexUnusable(f"the index {name} cannot be read: it is a pipe")
        try:
            self._source = filesystem.open_input_file(name) if filesystem is not None else pa.OSFile(os.fsencode(name))
        except FileNotFoundError as exc:
            raise IndexUnusable("") from exc
        except (OSError, pa.ArrowException) as exc:
            raise IndexUnusable(f"the index {name} cannot be read: {exc}") from exc
        try:
            self._file = pq.ParquetFile(self._source, page_checksum_verification=True)
            content = self._content()
            self.log: Final[str] = content["log"]
            self.made_of: Final = LogProgress.from_json(content["print"])
            self.tables: Final = tuple(_table_of(one) for one in content["tables"])
            self._groups: list[tuple[int, int, int, int]] = [tuple(one) for one in content["groups"]]
            if len(self._groups) != self._file.metadata.num_row_groups:
                raise ValueError("row groups are missing")
        except (OSError, pa.ArrowException, *DAMAGES) as exc:
            self._source.close()
            raise IndexUnusable(f"the index {name} is damaged: {exc}") from exc

    def __enter__(self) -> KeyIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _content(self) -> dict[str, Any]:
        stored = (self._file.metadata.metadata or {}).get(_META, b"")
        text = stored[8:]
        if not stored or int(stored[:8], 16) != crc32(text):
            raise ValueError("its checksum is wrong")
        content: dict[str, Any] = json.loads(text)
        if content["format"] != FORMAT:
            raise ValueError(f"it has format {content['format']}, expected {FORMAT}")
        return content

    def misfit(self, log: LogFile, keyring: Keyring | None = None) -> str | None:
        """Return why the index is not valid for the current content of a log; None if it is valid.

        Raises:
            OSError, UnsupportedFeature: the log cannot be read.
        """
        made = self.made_of
        identity = None if log.stream is not None else log_identity(log, keyring)
        match = LogMatch.OTHER if identity is None else made.named(log.name).match(log, identity, keyring)
        if match is LogMatch.OTHER or made.identity != identity:
            return f"the index {self.name} is of another log"
        if made.is_stored_alike(log, keyring):
            return None
        if (size := log_size(log, keyring)) != made.offset:
            return f"the index {self.name} is of a log of {made.offset} bytes, found {size}"
        return None if match is LogMatch.SAME else f"the index {self.name} is of a log with another end"

    def places(self, table: str, key: RowKey, names: Sequence[str] = (), times: Range = _ANY_TIME) -> array[int]:
        """Return the candidate positions of changes of a row, in ascending order.

        Args:
            table: `schema.table`.
            key: the key.
            names: the columns of the key, if it is not the primary key.
            times: only events with timestamps in this range.

        Raises:
            IndexUnusable: the index has no such key of the table, or is damaged; the log must be read.
            KeyRefused: the key does not fit the columns of the table.
        """
        found: set[int] = set()
        for number, one in enumerate(self.tables, 1):
            if dotted_name(one.schema, one.table) != name_text(table):
                continue
            if not one.columns:
                raise IndexUnusable(f"the index {self.name} has no key of {table}")
            wanted = tuple(names) or key.names or one.key_order
            if not wanted:
                raise IndexUnusable(f"the index {self.name} has {table} not by its primary key, or by several orders")
            if {name.casefold() for name in wanted} != {name.casefold() for name in one.columns}:
                raise IndexUnusable(f"the index {self.name} has {table} by {', '.join(one.columns)}")
            values = key.by_column(one.columns if key.names and not names else wanted, table)
            by_name = {name.casefold(): value for name, value in values.items()}
            arrays = [
                pa.array([value_of(by_name[column.casefold()], kind, column)], kind)
                for column, kind in zip(one.columns, map(_type_of, one.types), strict=True)
            ]
            codes, _ = key_codes(arrays)
            found.update(self._find(number, int(codes[0]), times))
        return array("q", sorted(found))

    def statements(self, table: str) -> array[int]:
        """Return the positions, in ascending order, of the statements that may name a table.

        Raises:
            IndexUnusable: the file is damaged.
        """
        codes = word_codes(split_name(table)[1].encode("utf-8", "surrogateescape"))
        return array("q", sorted(self._find(_STATEMENTS, min(codes), _ANY_TIME) if codes else ()))

    def table(self, table: str) -> list[IndexedTable]:
        """Return the entries of a table: one for each version of its key columns and types."""
        return [one for one in self.tables if dotted_name(one.schema, one.table) == name_text(table)]

    def _find(self, table: int, code: int, times: Range) -> Iterator[int]:
        wanted = table, code
        groups = [
            number
            for number, (table_0, key_0, table_1, key_1) in enumerate(self._groups)
            if (table_0, key_0) <= wanted <= (table_1, key_1)
        ]
        if not groups:
            return
        try:
            rows = self._file.read_row_groups(groups, use_threads=False)
        except (OSError, pa.ArrowException) as exc:
            raise IndexUnusable(f"the index {self.name} is damaged: {exc}") from exc
        tables, keys, places, moments = (column.to_numpy() for column in rows.columns)
        is_found = (tables == table) & (keys == code)
        for place, moment in zip(places[is_found].tolist(), moments[is_found].tolist(), strict=True):
            if moment == _NO_TIME or moment in times:
                yield place


def _table_of(value: dict[str, Any]) -> IndexedTable:
    table = IndexedTable(**{**value, **{name: tuple(value[name]) for name in ("columns", "types", "key_order")}})
    for one in table.types:
        _type_of(one)
    return table


def _type_of(name: str) -> pa.DataType:
    """Return the Arrow type with this name.

    Raises:
        ValueError: no type has this name.
    """
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        make = pa.decimal128 if decimal[1] == "128" else pa.decimal256
        return make(int(decimal[2]), int(decimal[3]))
    return _TYPES.get(name) or pa.type_for_alias(name)


_DECIMAL: Final = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")
_TYPES: Final = {
    str(kind): kind
    for kind in (pa.duration("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.float32(), pa.float64())
}


def logs_with_key(
    indexes: Iterable[str], table: str, key: str, *, names: Sequence[str] = (), filesystem: FileSystem | None = None
) -> list[str]:
    """Return those of the given index files whose logs may have a change of a row.

    An index that cannot be used, or has no such key, is included: its log must be read. The function does not check
    whether an index is valid for its log. It ignores changes that are logged as statements.

    Args:
        indexes: names of index files.
        table: `schema.table`.
        key: the key as text, as in `binlogio history`.
        names: the columns of the key, if it is not the primary key.
        filesystem: file system of the index files; None: local files.

    Raises:
        KeyRefused: the key does not fit the columns of the table.
    """
    wanted = RowKey.parse(key)
    found = []
    for name in indexes:
        try:
            with KeyIndex(name, filesystem) as index:
                if index.places(table, wanted, names):
                    found.append(name)
        except IndexUnusable:
            found.append(name)
    return found


def logs_without_row(
    logs: Iterable[LogFile],
    table: str,
    values: Mapping[str, int | str],
    *,
    folder: str | None = None,
    keyring: Keyring | None = None,
) -> list[str]:
    """Return the names of the logs that, by their indexes, have no change of any row with these values.

    A log is not returned if it has no valid index, or if the index cannot decide: the table has no key in the index,
    or the key has other columns than `values`, or columns of other types.

    Args:
        logs: the logs.
        table: `schema.table`.
        values: values by column name. They must include all key columns.
        folder: the directory or URI of the indexes; None: beside the logs.
        keyring: the keys of encrypted logs.

    Raises:
        OSError, UnsupportedFeature: a log cannot be read.
    """
    return [log.name for log in logs if log.stream is None and _has_no_row(log, table, values, folder, keyring)]


def _has_no_row(
    log: LogFile, table: str, values: Mapping[str, int | str], folder: str | None, keyring: Keyring | None
) -> bool:
    try:
        with KeyIndex(*index_place(log, folder)) as index:
            found = index.table(table)
            if any(one.is_unsure or not _tells(one, values) for one in found) or index.misfit(log, keyring) is not None:
                return False
            wanted = {name: str(values[name]) for one in found for name in one.columns}
            return not found or not index.places(table, RowKey.of(wanted))
    except (IndexUnusable, KeyRefused):
        return False


def _tells(table: IndexedTable, values: Mapping[str, int | str]) -> bool:
    """Return whether the index can decide: `values` has a value of the right type for each key column."""
    return bool(table.columns) and all(
        pa.types.is_integer(kind)
        if isinstance(values.get(name), int)
        else pa.types.is_string(kind) and isinstance(values.get(name), str)
        for name, kind in zip(table.columns, map(_type_of, table.types), strict=True)
    )
