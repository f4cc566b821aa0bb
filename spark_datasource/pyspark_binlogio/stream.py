"""The stream reader: offsets between event groups, and the event groups between two offsets.

Implements Spark's streaming interface, and determines how far each log may be read. A batch is planned from its two
offsets alone, so a batch that runs again after a crash is the same batch.

    offset := {"file": name, "pos": int, ...}      the progress of a consumer (`binlogio.series.progress`)
            | {..., "named": text, "executed": ...}    names of columns; transactions (`columnar.splits.executed`)

If a query reads the columns of one table, a batch ends before a statement that may change them. Its changes have the
same columns, so that a query which ends with an error at the next batch can be started again with the new columns.

An offset covers the file up to `pos`, and all files before it; the end of a finished file is position 0 of the next
one. `file` has no directory, so the logs may be moved. The identity of the log and the fingerprint of the bytes before
`pos` are compared with the file of that name before the stream continues from an offset. Offsets of earlier versions
have neither, and have a directory in `file`. With other logs (failover, RESET), the stream continues after the last
transaction before the offset, if these logs have exactly the same transactions before it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn
from zlib import crc32

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from binlogio.columnar import (
    EventSelection,
    Executed,
    definitions_at,
    executed_before,
    group_behind,
    has_statements,
    is_one_piece,
    last_group_end,
    place_after,
    read_catalogue,
    read_transactions,
)
from binlogio.dotted_names import canonical_name, split_name
from binlogio.errors import BinlogError, BinlogFormatError, ChangedLogs, Hint, MissingLogs, UnsupportedFeature, hints
from binlogio.format import Split, check_event_start
from binlogio.schema import DefinitionCatalogue
from binlogio.selection.event_filter import HIGHEST, Range
from binlogio.series import LogMatch, LogProgress, check_numbers, known_heads, log_identity, recognizer
from binlogio.storage import LaterLogs, base_name, built, log_number
from pyspark_binlogio.pyspark_api import WITH_READ_LIMITS, has_pyspark, require_pyspark
from pyspark_binlogio.read import BinlogBatchReader
from pyspark_binlogio.scan import (
    LogPartition,
    Piece,
    check_holes,
    find_log_files,
    follows_ddl,
    known_statements,
    option_hints,
    scan_statements,
)

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ModuleNotFoundError:  # PySpark 4.1, which calls `getDefaultReadLimit` never

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Takes the place of the mixin."""


if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from binlogio.series import LogHead
    from binlogio.storage import Keyring, LogFile
    from pyspark_binlogio.options import BinlogReadOptions

Offset = dict[str, Any]
_LOGGER: Final = logging.getLogger("pyspark_binlogio")
_LISTINGS: Final = 3
_MARK_SIZE: Final = 8  # characters
_KEPT: Final[tuple[str, ...]] = ("named", "executed")  # by an offset in the logs of another server
_NOTHING: Final[Offset] = {"file": "", "pos": 0}
_DAMAGED_OFFSET: Final = "restore the checkpoint, or start a new query with another checkpointLocation"
_OTHER_LOG: Final = (
    "start a new query with another checkpointLocation, and set startingGtids to the transactions that were read; "
    "or set option changedLogs to restart, which continues with the first existing log"
)


class BinlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows one series of logs: new logs are added to it, and old ones may be purged."""

    def __init__(
        self,
        options: BinlogReadOptions,
        schema: StructType,
        *,
        has_every_column: bool = False,
        statements: DefinitionCatalogue | None = None,
    ) -> None:
        if options.max_files_per_trigger is not None or options.max_bytes_per_trigger is not None:
            require_pyspark(
                WITH_READ_LIMITS, "a limit for the batches of a stream (maxFilesPerTrigger, maxBytesPerTrigger)"
            )
        self._options = options
        self._batches = BinlogBatchReader(options, schema, has_every_column=has_every_column, follows_logs=False)
        self._later = [] if options.recursive_file_lookup else [LaterLogs(path) for path in options.paths]
        self._statements = statements
        self._follows_ddl: bool | None = None
        self._has_names = False  # those of the checkpoint are known
        self._marked: tuple[tuple[str, int], set[str]] = (("", 0), set())
        self._target: Offset | None = None
        self._ends: dict[str, tuple[int | None, int]] = {}  # by the name of the last log: its size, and that offset
        is_typed = options.table is not None and options.view in ("rows", "changes")
        is_cut = is_typed and options.schema_changes in ("error", "addColumns") and has_pyspark(WITH_READ_LIMITS)
        self._altered = _Altered(str(options.table)) if is_cut else None
        self._planned: Offset = dict(_NOTHING)  # the end of the last batch, for the lag
        self._reached: Offset = dict(_NOTHING)  # for PySpark 4.1, which does not pass the start of a batch

    @option_hints()
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset before the first log, or the one of `startingPosition`.

        Raises:
            MissingLogs: the log of `startingPosition` is missing.
            PositionError: no event begins there.
        """
        position = self._options.starting_position
        logs = self._logs() if position is not None else []
        if position is not None and logs:
            start = {"file": position[0], "pos": position[1]}
            log = next((one for one in logs if _base(one) == position[0]), None)
            if log is None:
                self._refuse_gap(start, logs)
            else:
                check_event_start(log, position[1], self._batches.keyring)
            self._reached = start
        return dict(self._reached)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of `maxFilesPerTrigger` or `maxBytesPerTrigger`."""
        if self._options.max_files_per_trigger is not None:
            return ReadMaxFiles(self._options.max_files_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    @option_hints()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query: it reads the logs up to their current ends."""
        self._target = self._latest(dict(_NOTHING), None, self._logs())

    @option_hints()
    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:  # noqa: N802
        """Return the end of the next batch: the end of a complete group, within the limit unless one group exceeds it.

        PySpark 4.1 calls it without arguments, newer ones with both.

        Raises:
            MissingLogs: the log of `start` is missing, or one after it, and `ignoreMissingLogs` is not set.
            ChangedLogs: the file of that name is another log, ends before `start`, or has other bytes there, and
                `changedLogs` is not `restart`.
            PositionError: no event begins at `start`, which an earlier version stored.
            OSError: a log cannot be read.
        """
        given = self._reached if start is None else start
        resolved, logs = self._continued(given)
        if not (self._options.path_glob_filter or self._options.ignore_missing_logs):
            check_numbers((log.name for log in _from(resolved, logs)), in_order=False)
        latest = self._latest(resolved, limit, logs)
        if self._target is not None:
            latest = min(latest, self._target, key=_place)
        self._check_named(resolved, logs)
        if self._altered is not None and _place(latest) != _place(resolved):
            latest = self._before_altered(self._altered, resolved, latest, logs)
        if _place(latest) == _place(resolved):
            self._planned = given
        else:
            self._planned = self._with_executed(resolved, self._with_named(resolved, latest, logs), logs)
        return self._planned

    @option_hints()
    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the end of the logs regardless of limits, with the bytes up to there from the end of the last batch.

        Spark shows it as `latestOffset` in the progress of a query, and does not use it otherwise.
        """
        logs = self._logs(self._planned)
        latest = self._latest(dict(_NOTHING), None, logs)
        if not latest["file"]:
            return None
        ranges = _ranges(self._planned, logs, latest)
        lag = sum(max(0, (one.end if one.end != HIGHEST else log.size or 0) - one.start) for log, one in ranges)
        return {**latest, "lag_bytes": lag}

    @option_hints()
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the groups between two offsets, cut and packed as those of a batch read.

        Raises:
            MissingLogs: a log between the two, or the end of one, is missing, and `ignoreMissingLogs` is not set.
            ChangedLogs: one of the two is of another log, as in `latestOffset`.
        """
        self._reached = end
        if start == end:
            return []
        _progress_of(end)
        if not _name(end):
            self._refuse_other_log(start, "no log")
        first, logs = self._continued(start)
        if self._resolved(end, logs) == _NOTHING:
            return []  # with changedLogs=restart, the logs of the batch no longer exist
        if _place(first) > _place(end):
            self._refuse_other_log(end, f"an offset before {_name(first)}:{first['pos']}, from which the batch begins")
        heads = check_holes(_from(first, logs, end), self._options, self._batches.keyring)
        self._check_named(first, logs)
        ranges = [(log, self._without_open_group(log, one, heads)) for log, one in _ranges(first, logs, end)]
        pieces = [Piece(log, None, one) for log, one in ranges if one.start < one.end]
        return self._with_statements(self._batches.plan(pieces, heads), end)

    def _with_statements(self, planned: list[InputPartition], end: Offset) -> list[InputPartition]:
        """Add the DDL in the logs up to the end of a batch to its partitions."""
        if self._scan(end):
            for partition in planned:
                if isinstance(partition, LogPartition):
                    partition.statements = self._statements
        return planned

    def _scan(self, end: Offset) -> bool:
        """Find the DDL in the logs up to an offset, if the stream follows it; known logs are not scanned again."""
        if self._options.follow_ddl == "false":
            return False
        keyring, known = self._batches.keyring, self._statements
        options = replace(self._options, starting_position=None)
        last = known.logs[-1].name if known and self._follows_ddl is not None else ""
        logs = _from({"file": last, "pos": 0}, find_log_files(options, self._later if last else (), last), end)
        if self._follows_ddl is None:
            self._statements = known_statements(self._options, logs, keyring, self._statements)
            self._follows_ddl = bool(self._statements) or follows_ddl(self._options, logs, keyring)
        if self._follows_ddl and self._statements is not None and logs:
            stop = end["pos"] if _base(logs[-1]) == _name(end) else None
            scan_statements(self._statements, self._options, logs, keyring, stop)
        return self._follows_ddl

    def _named(self, offset: Offset, logs: list[LogFile]) -> set[str]:
        """Return marks of the tables whose columns the DDL before an offset names."""
        log, pos = next((one for one in logs if _base(one) == _name(offset)), None), offset["pos"]
        if log is None:
            log, pos = next(iter(_from(offset, logs)), None), 0
        if log is None or self._statements is None:
            return set()
        key = log.name, len(self._statements)
        if key != self._marked[0]:
            options = self._options
            source = definitions_at(self._statements, log, pos, self._batches.keyring)
            names = [name for name in source.all_logged() if not options.selects_tables or options.wants_table(*name)]
            self._marked = key, {f"{crc32(repr(name).encode()):0{_MARK_SIZE}x}" for name in names}
        return self._marked[1]

    def _with_named(self, start: Offset, offset: Offset, logs: list[LogFile]) -> Offset:
        """Return an offset with the marks of the tables that have names, for the next start of the query."""
        if not offset["file"] or not self._scan(offset) or self._statements is None:
            return offset
        for last, first in self._statements.holes():
            if start.get("named") and _key(start["file"]) < _key(first) <= _key(offset["file"]):
                raise UnsupportedFeature(
                    "the stream had names of columns from DDL, and logs that may have more of it are missing",
                    file=first,
                    expected="the log after " + last,
                    hint=Hint.MISSING_DDL,
                )
        return {**offset, "named": "".join(sorted(self._named(offset, logs)))}

    def _check_named(self, offset: Offset, logs: list[LogFile]) -> None:
        """Refuse to go on without the names of columns that the stream had before it was restarted."""
        options, marks = self._options, offset.get("named")
        is_given = options.schema_file is not None and options.definitions_location is None
        if not marks or is_given or options.follow_ddl == "false" or self._has_names:
            return
        self._follows_ddl = None if self._follows_ddl is False else self._follows_ddl
        found = self._named(offset, logs) if self._scan(offset) else set()
        wanted = {marks[at : at + _MARK_SIZE] for at in range(0, len(marks), _MARK_SIZE)}
        if not wanted <= found:
            raise UnsupportedFeature(
                "the stream had names of columns from DDL, and the logs with this DDL are gone",
                expected=f"the definitions of {len(wanted)} tables at {_name(offset)}:{offset['pos']}",
                found=f"those of {len(wanted & found)}",
                hint=Hint.MISSING_DDL,
            )
        self._has_names = True

    def _with_executed(self, start: Offset, offset: Offset, logs: list[LogFile]) -> Offset:
        """Return an offset with the transactions before it, for a failover, if the logs say them."""
        keyring, pos = self._batches.keyring, offset["pos"]
        number = next((number for number, log in enumerate(logs) if _base(log) == _name(offset)), 0)
        if not pos and number:
            number, pos = number - 1, HIGHEST
        known = None
        if _base(logs[number]) == _name(start) and start.get("executed") is not None:
            known = start["pos"], Executed.from_json(start["executed"])
        with suppress(BinlogError):  # of damage, which the tasks report
            found = executed_before(logs[number], pos, keyring, known)
            if found is not None:
                return {**offset, "executed": found.to_json()}
        return offset

    def _moved(self, offset: Offset, error: BinlogError) -> Offset:
        """Return the place of an offset of other logs in these logs, by its transactions.

        Raises:
            ChangedLogs, MissingLogs: `error`, since the GTIDs prove no place.
        """
        keyring, logs = self._batches.keyring, self._logs()
        log, progress = next((one for one in logs if _base(one) == _name(offset)), None), _progress_of(offset)
        is_same = log is not None and progress.match(log, log_identity(log, keyring), keyring) is not LogMatch.OTHER
        if is_same or offset.get("executed") is None or not logs:
            raise error
        executed = built(
            lambda: Executed.from_json(offset["executed"]), place="offset of the stream", hint=_DAMAGED_OFFSET
        )
        found = place_after(executed, logs, keyring)
        identity = None if isinstance(found, str) else log_identity(logs[-1], keyring)
        if identity is not None and progress.identity and identity.server_id == progress.identity.server_id:
            found = f"it is the server of the offset, and may use GTIDs again; it has {executed.last}"
        if isinstance(found, str):
            error.hint = (f"{found}. The transactions read are {executed.text}", *hints(error.hint))
            raise error
        self._forget_logs()
        _LOGGER.info("binlog: the stream continues in %s:%d, after %s", found[0].name, found[1], executed.last)
        return {**self._offset(*found), **{name: offset[name] for name in _KEPT if name in offset}}

    def _forget_logs(self) -> None:
        self._ends = {}
        self._statements, self._follows_ddl = None, None
        self._altered = self._altered and _Altered(self._altered.table)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of one partition; errors as in a batch read."""
        return self._batches.read(partition)

    def _logs(self, start: Offset = _NOTHING) -> list[LogFile]:
        """Return the logs in order, from that of an offset on if it exists; maybe none yet.

        Raises:
            BinlogFormatError: their basenames differ.
        """
        logs: list[LogFile] = []
        since, later = _name(start), self._later if start["file"] else []
        for _ in range(_LISTINGS):
            with suppress(FileNotFoundError):  # no log yet; or one was purged while an index was read
                logs = find_log_files(self._options, later, since)
                if not later or any(_base(log) == since for log in logs):
                    break
            later = []
        stems = {log_number(log.name)[0] for log in logs}
        if len(stems) > 1:
            raise BinlogFormatError(
                "a stream follows the logs of one server, in the order of their numbers",
                expected="one basename",
                found=", ".join(sorted(stems)),
                hint="use a stream for each",
            )
        return logs

    def _latest(self, start: Offset, limit: ReadLimit | None, logs: list[LogFile]) -> Offset:
        """Return the end of the batch that begins at `start`, which is resolved."""
        logs = _from(start, logs)
        while logs and _base(logs[-1]) != _name(start) and log_identity(logs[-1], self._batches.keyring) is None:
            logs.pop()  # a log without a head could not be recognized later: wait for it
        files = getattr(limit, "max_files", len(logs))
        room = getattr(limit, "max_bytes", HIGHEST)
        found: tuple[LogFile, int] | None = None
        for number, log in enumerate(logs[:files]):
            begin = start["pos"] if _base(log) == _name(start) else 0
            following = logs[number + 1] if number + 1 < len(logs) else None
            end = (log.size or 0) if following is not None else self._growing_end(log, begin)
            if end - begin > room and not is_one_piece(log, self._batches.keyring):
                cut = group_behind(log, begin + max(1, room), self._batches.keyring)
                if cut is not None and cut < end:
                    return self._offset(log, cut)
            found = (following, 0) if following is not None else (log, end)
            room -= end - begin
            if room <= 0:
                break
        is_end = found is None or (_base(found[0]), found[1]) == (_name(start), start["pos"])
        return start if is_end or found is None else self._offset(*found)

    def _before_altered(self, altered: _Altered, start: Offset, end: Offset, logs: list[LogFile]) -> Offset:
        """Return the first place after `start` where the columns of the table may change; `end` if it comes first."""
        catalogue = self._statements if self._scan(end) else None
        for log, one in _ranges(start, logs, end):
            stop = min(one.end, log.size or 0)
            for pos in altered.between(log, one.start, stop, self._batches.keyring, catalogue):
                return self._offset(log, pos)
        return end

    def _offset(self, log: LogFile, pos: int) -> Offset:
        """Return the offset with the identity of its log."""
        keyring = self._batches.keyring
        return LogProgress.at(log, pos, log_identity(log, keyring), keyring).to_json()

    def _growing_end(self, log: LogFile, begin: int) -> int:
        """Return the offset up to which the last log may be read; a log that has not grown is not read again."""
        if is_one_piece(log, self._batches.keyring):
            return begin  # its groups cannot be found by position: it is read as a whole when it is finished
        size, known = self._ends.get(log.name, (None, 0))
        if size is None or size != log.size or known < begin:
            known = last_group_end(log, max(begin, known), self._batches.keyring)
            self._ends = {log.name: (log.size, known)}
        return known

    def _continued(self, offset: Offset) -> tuple[Offset, list[LogFile]]:
        """Return where the stream continues, as `_resolved`, and the logs from there on."""
        _progress_of(offset)
        logs = self._logs(offset)
        resolved = self._resolved(offset, logs)
        return resolved, logs if resolved is offset else self._logs(resolved)

    def _without_open_group(self, log: LogFile, one: Range, heads: dict[str, LogHead | None] | None) -> Range:
        """Return a range of a log without the incomplete group at its end, if its server left it in use and went on."""
        if one.end != HIGHEST:
            return one
        head = known_heads([log], self._batches.keyring)[0] if heads is None else heads[log.name]
        if head is None or not head.in_use:
            return one
        return Range(one.start, last_group_end(log, one.start, self._batches.keyring))

    def _resolved(self, offset: Offset, logs: list[LogFile]) -> Offset:
        """Return where the stream continues: `offset` itself if its log exists, else as the options say.

        Raises:
            MissingLogs, ChangedLogs: its log is missing, or the file of that name is another log, and no option allows
                that.
        """
        if not _name(offset):
            return offset
        if not logs:
            self._refuse_gap(offset, logs)
            return offset
        try:
            self._check_place(offset, logs)
        except (ChangedLogs, MissingLogs) as exc:
            if isinstance(exc, ChangedLogs) and self._options.changed_logs == "restart":
                self._forget_logs()
                self._has_names = True
                return dict(_NOTHING)
            return self._moved(offset, exc)
        return offset

    def _check_place(self, offset: Offset, logs: list[LogFile]) -> None:
        """Refuse an offset that is not a position in these logs."""
        name = _name(offset)
        stem, number, _ = log_number(name)
        log = next((one for one in logs if _base(one) == name), None)
        if log is not None:
            self._check_log(offset, log)
        elif log_number(_base(logs[0]))[0] != stem:
            self._refuse_other_log(offset, f"logs of another name: {_base(logs[0])}")
        elif log_number(_base(logs[-1]))[1] < number:
            self._refuse_other_log(offset, f"only logs of lower numbers, up to {_base(logs[-1])}")
        elif not self._is_finished(offset, logs):
            self._refuse_gap(offset, logs)

    def _is_finished(self, offset: Offset, logs: list[LogFile]) -> bool:
        """Return whether a log that is gone was read to its end, by the catalogue, and the first one is the next."""
        place, keyring = self._options.definitions_location, self._batches.keyring
        known = read_catalogue(place) if self._statements is None and place is not None else self._statements
        identity = recognizer(logs[0], keyring).stored_identity
        return known is not None and any(
            one.progress.get("log") == offset.get("log")
            and (one.name, one.end) == (_name(offset), offset["pos"])
            and one.is_followed_by(_base(logs[0]), identity)
            for one in known.logs
        )

    def _check_log(self, offset: Offset, log: LogFile) -> None:
        """Refuse an offset of another log of the same name, and one at which no event begins."""
        keyring = self._batches.keyring
        known = _progress_of(offset)
        found = log_identity(log, keyring)
        match = known.match(log, found, keyring)
        if match is LogMatch.OTHER:
            self._refuse_other_log(
                offset, "an empty log" if found is None else str(found), expected=str(known.identity)
            )
        elif match is LogMatch.CHANGED:
            self._refuse_other_log(
                offset,
                "a shorter log, or other bytes before the offset",
                expected="the transactions that the stream has read",
            )
        elif offset["pos"] and known.fingerprint is None:
            check_event_start(log, offset["pos"], keyring)

    def _refuse_other_log(
        self, offset: Offset, found: str, *, expected: str = "the log that the stream has read"
    ) -> NoReturn:
        raise ChangedLogs(
            "the logs are not those that the stream has read: the server started a new series (RESET), or they come "
            "from another server or from a restored backup",
            file=_name(offset),
            offset=offset["pos"],
            expected=expected,
            found=found,
            hint=_OTHER_LOG,
        )

    def _refuse_gap(self, offset: Offset, logs: list[LogFile]) -> None:
        if self._options.ignore_missing_logs:
            return
        raise MissingLogs(
            "the log at which the stream continues is missing: transactions may be lost",
            file=_name(offset),
            offset=offset["pos"],
            found=_base(logs[0]) if logs else "no log",
            hint=Hint.IGNORE_MISSING_LOGS,
        )


class _Altered:
    """The statements that may change the columns of a table, in the logs as far as they were searched.

    Headers are scanned once. A part of a log is read only if it has statements that may define tables.
    """

    def __init__(self, table: str) -> None:
        self.table = canonical_name(table)
        self._name = re.compile(rf"(?<![\w$]){re.escape(split_name(table)[1])}(?![\w$])", re.IGNORECASE)
        self._catalogue = DefinitionCatalogue()
        self._found: dict[str, tuple[int, list[int]]] = {}  # by the name of a log: its searched end, and the offsets
        self._has_rows: bool | None = None  # whether the table may have changes since the last such statement

    def between(
        self, log: LogFile, start: int, end: int, keyring: Keyring | None, catalogue: DefinitionCatalogue | None
    ) -> Iterator[int]:
        """Yield the offsets after `start` and before `end` of groups with such a statement, after changes of the table.

        None of a log that is one piece, since a batch cannot end in it. `catalogue` has the statements if the stream
        follows them.
        """
        if self._has_rows is None:
            self._has_rows = start > 0
        known, offsets = self._found.get(log.name, (start, []))
        if known < end and not is_one_piece(log, keyring):
            if has_statements(catalogue or self._catalogue, log, Split(known, end), keyring):
                offsets = [*offsets, *self._read(log, Split(known, end), keyring)]
            else:
                self._has_rows = True
            self._found[log.name] = end, offsets
        yield from (offset for offset in offsets if start < offset < end)

    def _read(self, log: LogFile, within: Split, keyring: Keyring | None) -> Iterator[int]:
        for batch in read_transactions(log, within, EventSelection(verify_checksum=False), keyring):
            for group in batch.select(["pos", "outcome", "tables", "statements"]).to_pylist():
                if group["outcome"] != "statement":
                    self._has_rows = self._has_rows or self.table in group["tables"]
                elif self._has_rows and any(map(self._name.search, group["statements"])):
                    self._has_rows = False
                    yield group["pos"]


def _progress_of(offset: Offset) -> LogProgress:
    """Parse an offset, which a checkpoint stores.

    Raises:
        BinlogFormatError: it is damaged.
    """
    return built(lambda: LogProgress.from_json(offset), place="offset of the stream", hint=_DAMAGED_OFFSET)


def _name(offset: Offset) -> str:
    """Return the log's name without its directory, which offsets of earlier versions have."""
    return base_name(offset["file"])


def _base(log: LogFile) -> str:
    return base_name(log.name)


def _place(offset: Offset) -> tuple[tuple[int, str], int]:
    """Return a key that sorts offsets of one series."""
    return _key(offset["file"]), offset["pos"]


def _from(start: Offset, logs: list[LogFile], end: Offset | None = None) -> list[LogFile]:
    """Return the logs from that of one offset on, up to that of another one."""
    first, last = _key(start["file"]), (HIGHEST, "") if end is None else _key(end["file"])
    return [log for log in logs if first <= _key(log.name) <= last]


def _ranges(start: Offset, logs: list[LogFile], end: Offset) -> Iterator[tuple[LogFile, Range]]:
    """Yield the logs between two offsets, each with the positions between them."""
    for log in _from(start, logs, end):
        begin = start["pos"] if _base(log) == _name(start) else 0
        yield log, Range(begin, end["pos"] if _base(log) == _name(end) else HIGHEST)


@lru_cache(maxsize=1 << 14)  # a stream compares the same names again and again
def _key(file: str) -> tuple[int, str]:
    """Return a key that sorts the logs of one series; an empty name sorts first."""
    name = base_name(file)
    return (log_number(name)[1], name) if name else (-2, "")
