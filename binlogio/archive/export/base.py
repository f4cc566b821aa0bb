"""The base of a latest state: an earlier export of the latest state, which the logs continue.

base := export with `latest`, as Parquet or Arrow files      its ledger tells up to where it has the logs
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from binlogio.archive.export.ledger import ExportLedger, load_ledger
from binlogio.columnar import EventSelection, read_events
from binlogio.constants import GROUP_STARTS
from binlogio.dotted_names import split_name
from binlogio.errors import ExportError
from binlogio.gtid import GtidSet, MariadbGtidPosition
from binlogio.selection.event_filter import HIGHEST, EventFilter
from binlogio.storage.index_file import log_name, log_number

if TYPE_CHECKING:
    import os

    from binlogio.series.log_head import LogHead
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

BaseRows = Mapping[str, Callable[[], Iterator[pa.RecordBatch]]]
"""The rows of tables: by `schema.table` a function that reads them."""
_GROUP_STARTS: Final = pa.array([code.name for code in GROUP_STARTS])
OF_NO_TABLE: Final = EventSelection(tables=lambda _schema, table: table is None)
"""Selects the events that are not about the rows of a table."""
_BATCH_ROWS: Final = 1 << 16
_READ: Final = ("parquet", "arrow")
_SAME: Final = ("columns", "zero_dates")
_PARTIAL: Final = ("where", "condition", "stop_offset")
_HINT: Final = (
    "make the base with `--latest` of all logs up to then, without conditions; of a dump: `binlogio export --latest"
    " --base DUMP -o DIR LOGS`"
)


@dataclass(frozen=True, slots=True)
class Base:
    """The ledger of a base, and the rows of the selected tables; by default nothing."""

    ledger: ExportLedger | None = None
    rows: BaseRows = field(default_factory=dict)


def open_base(
    place: str | os.PathLike[str], options: Mapping[str, Any], where: EventFilter, wants: Callable[[str, str], bool]
) -> Base:
    """Return the base in a directory.

    Args:
        place: the directory.
        options: those of the export that continues it, as its ledger has them.
        where: its conditions, which may end it by time or GTIDs.
        wants: selects tables by schema and name.

    Raises:
        ExportError: the directory has no latest state that can be continued with these options.
        BinlogFormatError: the ledger is damaged.
        OSError: it cannot be read.
    """
    folder = Path(place)
    ledger = load_ledger(folder) if folder.is_dir() else None
    if ledger is None or ledger.form not in _READ or not ledger.options.get("latest"):
        raise ExportError(
            "the base is no export of the latest state as Parquet or Arrow files", file=str(folder), hint=_HINT
        )
    if ledger.pending:
        raise ExportError("the export of the base did not end", file=str(folder), hint="repeat it with --force")
    found = {name: ledger.options.get(name) for name in (*_PARTIAL, *_SAME)}
    wanted = {**dict.fromkeys(_PARTIAL), **{name: options[name] for name in _SAME}}
    for name, value in found.items():
        if value != wanted[name]:
            raise ExportError(
                "the base was made with another option",
                file=str(folder),
                field=name,
                expected=wanted[name],
                found=value,
                hint=_HINT,
            )
    if ledger.options["tables"] not in ("every table", options["tables"]):
        raise ExportError(
            "the base was made with another selection of tables",
            file=str(folder),
            found=ledger.options["tables"],
            hint="give the options that select tables as for the base, or make a base of every table",
        )
    begins = where.group_time.start or where.timestamp.start or (ledger.logs and options["start_offset"] is not None)
    is_part = not isinstance(where.wanted_gtids, (type(None), GtidSet, MariadbGtidPosition))  # a set leaves others out
    is_part |= bool(ledger.logs) and where.known_gtids is not None
    if begins or is_part or where.server_ids is not None or where.gtids is not None:
        raise ExportError(
            "a base is continued with all transactions after it, up to a stop",
            found=str(where) or "a start position",
            hint="leave out the conditions other than --stop-datetime, --stop-position and the GTIDs of a server",
        )
    paths: dict[str, list[tuple[Path, int]]] = {}
    for one in ledger.files:
        if wants(*split_name(one.table)):
            paths.setdefault(one.table, []).append((folder / one.path, one.rows))
    return Base(ledger, {table: partial(_read, files) for table, files in paths.items()})


def check_stop(
    ledger: ExportLedger,
    logs: Sequence[tuple[LogFile, LogHead | None, int]],
    where: EventFilter,
    stop_offset: int | None,
    keyring: Keyring | None,
) -> None:
    """Check that the base has no transaction after the position, time or GTIDs that end the export which continues it.

    Args:
        ledger: that of the base.
        logs: the logs that continue it, their heads, and the offsets up to which the base has them.
        where: the conditions of the export.
        stop_offset: where it ends in the last log.
        keyring: the keys of encrypted logs.

    Raises:
        ExportError: it has one.
        OSError, BinlogError: a log cannot be read.
    """
    end, wanted, known = min(where.group_time.end, where.timestamp.end), where.wanted_gtids, where.known_gtids
    if end == HIGHEST and wanted is None and stop_offset is None:
        return
    known_logs = [(one.identity.created, log_number(one.file)[1]) for one in ledger.logs if one.identity is not None]
    last = max(known_logs, default=(0, 0))
    created, (log, head, held) = last[0], logs[-1]
    is_later = head is not None and last > (head.created, log_number(log_name(log.name))[1])
    if is_later or (stop_offset is not None and stop_offset < held):
        raise _stops_before(log.name, stop_offset)
    partly = [at for at, (_, _, held) in enumerate(logs) if held]
    first = logs[partly[-1] if partly else 0 :]
    for log, head, _ in first[:1]:
        created = max(created, 0 if head is None else head.created)
        before = None if head is None else head.gtids_before()
        lacks = [] if before is None or isinstance(before, GtidSet) else before.values()
        lacks_set = isinstance(before, GtidSet) and isinstance(wanted, GtidSet) and not before.issubset(wanted)
        if created >= end or lacks_set or any(wanted is not None and one not in wanted for one in lacks):
            raise _stops_before(log.name, None)
    if isinstance(known, GtidSet) and isinstance(wanted, GtidSet) and not known.issubset(wanted):
        raise _stops_before("the dump", None)
    of_known, of_wanted = EventFilter(known_gtids=known), EventFilter(wanted_gtids=wanted)
    for log, _, held in first if known is not None else [one for one in first[:1] if one[2]]:
        for batch in read_events(log, None, OF_NO_TABLE, keyring):
            for one in batch.filter(begins_group(batch)).select(["pos", "gtid", "timestamp"]).to_pylist():
                in_base = one["pos"] < held or not of_known.wants_group(one["gtid"])
                is_wanted = one["gtid"] is None or of_wanted.wants_group(one["gtid"])
                if in_base and not (is_wanted and one["timestamp"].timestamp() < end):
                    raise _stops_before(log.name, one["pos"])
            if known is None and batch.num_rows and batch.column("pos")[-1].as_py() >= held:
                break


def begins_group(events: pa.RecordBatch) -> pa.Array:
    """Return for each event whether it begins an event group: a GTID event, or BEGIN."""
    is_begin = pc.fill_null(pc.equal(events.column("sql"), "BEGIN"), False)  # noqa: FBT003
    return pc.or_(pc.is_in(events.column("type"), _GROUP_STARTS), is_begin)


def _stops_before(file: str, offset: int | None) -> ExportError:
    reason = "the base has transactions after the stop: its state is later than the one that is asked for"
    return ExportError(reason, file=file, offset=offset, hint="begin with an earlier base")


def _read(files: Iterable[tuple[Path, int]]) -> Iterator[pa.RecordBatch]:
    for path, expected in files:
        count = 0
        with path.open("rb") as source:
            try:
                for batch in _batches(path, source):
                    count += batch.num_rows
                    yield batch
            except pa.ArrowInvalid as exc:
                raise ExportError("a file of the base is damaged", file=str(path), found=str(exc)) from exc
        if count != expected:
            raise ExportError(
                "a file of the base was changed", file=str(path), expected=f"{expected} rows", found=count
            )


def _batches(path: Path, source: BinaryIO) -> Iterator[pa.RecordBatch]:
    if path.suffix == ".parquet":
        yield from pq.ParquetFile(source).iter_batches(_BATCH_ROWS)
        return
    with pa.ipc.open_file(source) as file:
        yield from map(file.get_batch, range(file.num_record_batches))
