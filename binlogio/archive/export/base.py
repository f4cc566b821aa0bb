"""The base of a latest state: an earlier export of the latest state, which the logs continue.

base := export with `latest`, as Parquet or Arrow files      its ledger tells up to where it has the logs
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from binlogio.archive.export.ledger import ExportLedger, load_ledger
from binlogio.dotted_names import split_name
from binlogio.errors import ExportError

if TYPE_CHECKING:
    import os

    from binlogio.selection.event_filter import EventFilter

BaseRows = Mapping[str, Callable[[], Iterator[pa.RecordBatch]]]
"""The rows of tables: by `schema.table` a function that reads them."""
_BATCH_ROWS: Final = 1 << 16
_READ: Final = ("parquet", "arrow")
_SAME: Final = ("columns", "zero_dates")
_PARTIAL: Final = ("where", "condition", "stop_offset")
_HINT: Final = "make the base with `--latest` of all logs up to then, without conditions"


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
            "the base has other tables",
            file=str(folder),
            expected=options["tables"],
            found=ledger.options["tables"],
            hint=_HINT,
        )
    begins = where.group_time.start or where.timestamp.start or (ledger.logs and options["start_offset"] is not None)
    if begins or where.server_ids is not None or where.gtids is not None:
        raise ExportError(
            "a base is continued with all transactions after it, up to a stop",
            found=str(where) or "a start position",
            hint="leave out the conditions other than --stop-datetime, --stop-position and GTIDs",
        )
    paths: dict[str, list[Path]] = {}
    for one in ledger.files:
        if wants(*split_name(one.table)):
            paths.setdefault(one.table, []).append(folder / one.path)
    return Base(ledger, {table: partial(_read, files) for table, files in paths.items()})


def _read(files: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    for path in files:
        with path.open("rb") as source:
            try:
                if path.suffix == ".parquet":
                    yield from pq.ParquetFile(source).iter_batches(_BATCH_ROWS)
                else:
                    with pa.ipc.open_file(source) as file:
                        yield from map(file.get_batch, range(file.num_record_batches))
            except pa.ArrowInvalid as exc:
                raise ExportError("a file of the base is damaged", file=str(path), found=str(exc)) from exc
