"""Planning of a read: its request, log files and partitions, and the handling of damaged logs.

Readers, views and replays use the same planning. No rows are decoded here.

Partitions: large logs are cut into byte ranges, and small logs packed into one partition, by file sizes only, so that a
thousand files of a gigabyte are planned fast on any storage; only a function `Cut` reads the files. A file that cannot
be cut (relay log, encrypted, compressed) is detected by the task of its first range, which reads all of it; the tasks
of the other ranges read nothing. Compressed files are recognized by their names, and are never cut.

    partition := piece+          the pieces of a partition have at most maxPartitionBytes together, except for a
                                 larger single piece
    piece     := file range?     range: the event groups that begin in it; none: the whole file

If only a range of positions is wanted, the bytes outside of it are in no piece, except that of the group in which the
range begins: its task searches backwards for the beginning (`is_before`).

Damage is handled by Spark's three modes:

    FAILFAST        the error ends the query
    PERMISSIVE      records before the damage, a record with the error text, then records from the next event group on
    DROPMALFORMED   the same without the record of the error

The event group that contains the damage is lost. Where event groups cannot be found by position (relay, encrypted
and compressed logs) the rest of the log is lost. Every piece of a log reads its header; damage in the header is
reported by the first piece only. Files that cannot be opened are errors in every mode, as with Spark's own sources.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from binlogio.errors import BinlogError, BinlogFormatError, ChangedLogs, Surface
from binlogio.format import GroupPart, Split, cut
from binlogio.implementation import require_kernel
from binlogio.schema import GivenDefinitions, load_definitions
from binlogio.selection.event_filter import EVERY_EVENT, HIGHEST, LOWEST, EventFilter, Range, parse_gtid_state
from binlogio.series import check_series, known_heads, of_each
from binlogio.storage import COMPRESSED_SUFFIXES, base_name, find_logs, find_logs_below, log_number
from pyspark_binlogio.options import refused

if TYPE_CHECKING:
    from binlogio.schema import DefinitionCatalogue
    from binlogio.series import LogHead
    from binlogio.storage import Keyring, LaterLogs, LogFile
    from pyspark_binlogio.options import BinlogReadOptions


# --------------------------------------------------------------------------------------------------------- request


_LOGGER: Final = logging.getLogger("pyspark_binlogio")
_PROBED_LOGS: Final = 8
_MUCH: Final = 1 << 34  # bytes of logs: a scan takes some seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a read, the same for all its tasks. `columns` selects columns of the table; None selects all.

    `statements` are the DDL in the logs, if the read follows it. `names` are all columns of the read, if known.
    """

    options: BinlogReadOptions
    where: EventFilter = EVERY_EVENT
    keyring: Keyring | None = field(default=None, repr=False)
    definitions: GivenDefinitions | None = None
    statements: DefinitionCatalogue | None = field(default=None, repr=False)
    columns: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None

    def has_column(self, name: str) -> bool:
        """Return True if the read has a column of this name."""
        return self.names is None or name in self.names


def request_of(options: BinlogReadOptions) -> Request:
    """Return the request of a read by its options.

    Raises:
        BinlogOptionError: `schemaFile` looks like JSON, and is invalid.
        BinlogError: the keyring is invalid, or a definition is not supported.
        OSError: one of their files cannot be read.
    """
    require_kernel("a read by Spark")
    keyring = None
    if options.keyring is not None:
        from binlogio.storage import load_keyring  # noqa: PLC0415 - seldom needed

        keyring = load_keyring(options.keyring)
    known, wanted = (
        None if text is None else parse_gtid_state(text) for text in (options.starting_gtids, options.ending_gtids)
    )
    start, end = options.starting_timestamp, options.ending_timestamp
    times = Range(LOWEST if start is None else start, HIGHEST if end is None else end)
    where = EventFilter(known_gtids=known, wanted_gtids=wanted)
    where = replace(where, timestamp=times) if options.view == "events" else replace(where, group_time=times)
    definitions = given_definitions(options.schema_file)
    if options.database_charset or options.trust_ddl:
        settings = GivenDefinitions(dict(options.database_charset), trusts_ddl=options.trust_ddl)
        definitions = settings if definitions is None else definitions.with_settings_of(settings)
    return Request(options=options, where=where, keyring=keyring, definitions=definitions)


def given_definitions(schema_file: str | None) -> GivenDefinitions | None:
    """Return the definitions of option `schemaFile`: a file, or JSON itself.

    JSON definitions that do not fit a table are ignored.

    Raises:
        BinlogOptionError: it looks like JSON, and is invalid.
        UnsupportedFeature: a statement in it is not supported, or defines no table.
        OSError: the file cannot be read.
    """
    if schema_file is None or not schema_file.lstrip().startswith("{"):
        given = load_definitions(schema_file)
        if given is not None and given.catalogue is not None:
            raise refused("schemaFile", str(schema_file), "definitions; give a catalogue as definitionsLocation")
        return given
    try:
        tables = json.loads(schema_file)
    except (ValueError, RecursionError) as exc:
        raise refused("schemaFile", schema_file, f"a file, or JSON ({exc})") from exc
    return GivenDefinitions(tables, passes_over=True)


def follows_ddl(options: BinlogReadOptions, logs: list[LogFile], keyring: Keyring | None) -> bool:
    """Return whether a read needs the DDL in the logs.

    Raises:
        OSError, UnsupportedFeature: a log cannot be read.
    """
    from binlogio.columnar import lacks_names  # noqa: PLC0415 - options are parsed where nothing is read

    if options.view not in ("rows", "changes"):
        return False
    if options.follow_ddl != "auto" or options.schema_file is not None or options.definitions_location is not None:
        return options.follow_ddl == "true" or options.definitions_location is not None
    found = None
    for log in (*logs[:1], *reversed(logs[-_PROBED_LOGS:])):
        found = lacks_names(log, keyring)
        if found is not None:
            break
    size = sum(log.size or 0 for log in logs)
    if found is not False and size > _MUCH:
        _LOGGER.warning(
            "binlog: the driver scans %d bytes of logs for DDL; with option definitionsLocation it does so once", size
        )
    return found is not False


def statements_of(
    options: BinlogReadOptions,
    keyring: Keyring | None,
    known: DefinitionCatalogue | None = None,
    last: LogFile | None = None,
) -> DefinitionCatalogue | None:
    """Return the DDL in the logs of a read, and in those before its first position; None if the read needs none.

    The logs are scanned from where those of `known` end, if they are still the same logs, and none after `last`.

    Raises:
        OSError, BinlogError: a log cannot be read.
    """
    if options.follow_ddl == "false" or not options.paths:
        return None
    logs = find_log_files(replace(options, starting_position=None))
    if last is not None:
        logs = logs[: 1 + next((number for number, log in enumerate(logs) if log.name == last.name), len(logs))]
    catalogue = known_statements(options, logs, keyring, known)
    if not catalogue and not follows_ddl(options, logs, keyring):
        return None
    scan_statements(catalogue, options, logs, keyring)
    return catalogue


def known_statements(
    options: BinlogReadOptions, logs: list[LogFile], keyring: Keyring | None, known: DefinitionCatalogue | None = None
) -> DefinitionCatalogue:
    """Return `known`, or the catalogue of `definitionsLocation`; an empty one if the logs are not those it was made of.

    Raises:
        OSError, BinlogError: the catalogue cannot be read, or it is of other logs.
    """
    from binlogio.columnar import is_changed, read_catalogue  # noqa: PLC0415
    from binlogio.schema import DefinitionCatalogue  # noqa: PLC0415

    place = options.definitions_location
    if known is None and place is not None:
        known = read_catalogue(place)
    if known is None or not is_changed(known, logs, keyring):
        return known or DefinitionCatalogue()
    if place is not None:
        raise ChangedLogs(
            "the catalogue of definitions is of other logs", file=place, hint="give another definitionsLocation"
        )
    return DefinitionCatalogue()


def scan_statements(
    catalogue: DefinitionCatalogue,
    options: BinlogReadOptions,
    logs: list[LogFile],
    keyring: Keyring | None,
    end: int | None = None,
) -> None:
    """Add the DDL in logs, of the last one up to offset `end`, and store it at `definitionsLocation` if there is more.

    Raises:
        OSError, BinlogError: a log cannot be read, or the file cannot be written.
    """
    from binlogio.columnar import catalogue_logs, write_catalogue  # noqa: PLC0415

    before, holes = (len(catalogue), len(catalogue.logs)), len(catalogue.holes())
    catalogue_logs(catalogue, logs, keyring, end)
    is_longer = before != (len(catalogue), len(catalogue.logs)) and len(catalogue.holes()) == holes
    if options.definitions_location is not None and is_longer:  # a log that is missing may be added later
        write_catalogue(options.definitions_location, catalogue)


def find_log_files(options: BinlogReadOptions, later: Sequence[LaterLogs] = (), since: str = "") -> list[LogFile]:
    """Return the logs, in the order in which they were written; those of `later`, if given, from log `since` on.

    Raises:
        OSError: a path matches no file, and `ignoreMissingLogs` is not set.
        BinlogError: a URI that cannot be opened.
    """
    start, end = options.starting_position, options.ending_position
    found = []
    for number, path in enumerate(options.paths):
        for log in later[number].since(since) if later else _find(path, options):
            name = base_name(log.name)
            is_between = (start is None or _side(name, start) >= 0) and (end is None or _side(name, end) <= 0)
            if is_between and options.wants_file(name):
                found.append(log)
    return found


def check_holes(
    logs: Sequence[LogFile], options: BinlogReadOptions, keyring: Keyring | None
) -> dict[str, LogHead | None] | None:
    """Check that no log is missing between two others; return the heads that it read, by the names of the logs.

    None, if the options leave logs out: then nothing is checked.

    Raises:
        MissingLogs: one is missing, or its end; or it is there twice.
    """
    if options.path_glob_filter or options.ignore_missing_logs:
        return None
    heads = known_heads(logs, keyring)
    check_series(logs, keyring, heads=heads, in_order=False)
    return dict(zip((log.name for log in logs), heads, strict=True))


def _side(name: str, position: tuple[str, int]) -> int:
    """Return -1 for a log before that of a position, 1 for one after it, else 0 (also for logs of another series)."""
    stem, number, _ = log_number(name)
    its_stem, its_number, _ = log_number(position[0])
    return 0 if stem != its_stem else (number > its_number) - (number < its_number)


def _find(path: str, options: BinlogReadOptions) -> Iterable[LogFile]:
    if options.recursive_file_lookup and ("://" in path or Path(path).is_dir()):
        return find_logs_below(path, missing_ok=options.ignore_missing_logs)
    return find_logs(path, missing_ok=options.ignore_missing_logs)


# ------------------------------------------------------------------------------------------------------ partitions


Cut = Callable[["LogFile", Split, int], Iterable["Split | GroupPart"]]
"""A function that cuts a range of a log into pieces of about a number of bytes."""

OPEN_COST_BYTES: Final = 4 << 20
"""The cost of opening a file when files are packed, as Spark's spark.sql.files.openCostInBytes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A log, or the event groups of it that begin in a range of bytes.

    `within` restricts positions: the range of a batch of a stream, which begins and ends between groups, or the wanted
    one of a read. `is_before`: only groups near the end of `split` have events in the wanted range.
    """

    log: LogFile
    split: Split | GroupPart | None = None
    within: Range | None = None
    is_before: bool = False

    @property
    def extent(self) -> Split:
        """The bytes that the piece covers; none if only the end of them is read."""
        size = self.log.size or 0
        if self.is_before:
            return Split(0, 0)
        if self.split is not None:
            return Split(self.split.start, self.split.end)
        return Split(0, size) if self.within is None else Split(self.within.start, min(size, self.within.end))

    @property
    def size(self) -> int:
        """The number of these bytes."""
        return self.extent.end - self.extent.start


class LogPartition(InputPartition):
    """The input of one task: pieces of logs, in order, and for a batch of a stream the DDL before them."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        super().__init__(None)
        self.pieces = pieces
        self.statements: DefinitionCatalogue | None = None


def wanted_pieces(log: LogFile, wanted: Range) -> Iterator[Piece]:
    """Yield the pieces of a log that may have events at the wanted positions, without reading it."""
    if wanted == Range() or not log.size or log.name.endswith(COMPRESSED_SUFFIXES):
        yield Piece(log)
        return
    if wanted.start > 0:
        yield Piece(log, Split(0, wanted.start), wanted, is_before=True)
    if wanted.start < min(log.size, wanted.end):
        yield Piece(log, None, wanted)


def evenly(log: LogFile, within: Split, max_bytes: int) -> Iterator[Split]:
    """Yield pieces of the same size, regardless of event groups."""
    size = within.end - within.start
    for split in cut(size, max(1, -(-size // max_bytes))):
        yield Split(within.start + split.start, within.start + split.end)


def partitions(wholes: Iterable[Piece], max_bytes: int | None, cut_up: Cut = evenly) -> list[InputPartition]:
    """Return partitions of at most about `max_bytes` that cover the pieces in order; one a piece if it is None."""
    if max_bytes is None:
        return [LogPartition((piece,)) for piece in wholes]
    planned: list[InputPartition] = []
    pieces: list[Piece] = []
    size = 0
    for piece, piece_size in _pieces(wholes, max_bytes, cut_up):
        if pieces and size + piece_size > max_bytes:
            planned.append(LogPartition(tuple(pieces)))
            pieces, size = [], 0
        pieces.append(piece)
        size += piece_size + OPEN_COST_BYTES
    if pieces:
        planned.append(LogPartition(tuple(pieces)))
    return planned


def _pieces(wholes: Iterable[Piece], max_bytes: int, cut_up: Cut) -> Iterator[tuple[Piece, int]]:
    every = list(wholes)
    divided = [whole for whole in every if _is_divided(whole, max_bytes)]
    extents = {id(whole.log): whole.extent for whole in divided}
    found = iter(of_each(lambda log: [*cut_up(log, extents[id(log)], max_bytes)], [whole.log for whole in divided]))
    for whole in every:
        if not _is_divided(whole, max_bytes):
            yield whole, 0 if whole.is_before else whole.size
            continue
        for split in next(found):
            yield replace(whole, split=split), split.end - split.start


def _is_divided(whole: Piece, max_bytes: int) -> bool:
    """Return whether a piece is a part of a log, or too large for a task."""
    is_small = whole.size <= max_bytes and whole.extent == (0, whole.log.size or 0)
    return not (whole.is_before or is_small or whole.log.name.endswith(COMPRESSED_SUFFIXES))


# ---------------------------------------------------------------------------------------------------------- damage


@contextmanager
def option_hints() -> Iterator[None]:
    """Let the hints of errors name the options of the data source; also usable as a decorator."""
    try:
        yield
    except BinlogError as exc:
        exc.surface = Surface.SPARK
        raise


def tolerant(
    read: Callable[[Piece], Iterator[pa.RecordBatch]], piece: Piece, options: BinlogReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a piece, and of the part after the damage.

    Raises:
        BinlogError: the log is damaged, and the mode is FAILFAST; or it cannot be read for another reason.
    """
    rest: Piece | None = piece
    while rest is not None:
        try:
            yield from read(rest)
        except BinlogError as exc:
            exc.surface = Surface.SPARK
            if options.mode == "FAILFAST" or not isinstance(exc, BinlogFormatError):
                raise
            if options.mode == "PERMISSIVE" and _is_of(rest, exc.offset):
                yield corrupt_record(piece.log.name, exc, options.column_name_of_corrupt_record)
            rest = _after(rest, exc.offset)
        else:
            rest = None


def _is_of(piece: Piece, offset: int | None) -> bool:
    return offset is None or piece.split is None or piece.split.start <= offset


def _after(piece: Piece, offset: int | None) -> Piece | None:
    """Return the part of a piece after the damage."""
    if offset is None or piece.log.size is None:
        return None
    start, end = (0, piece.log.size) if piece.split is None else (piece.split.start, piece.split.end)
    if offset + 1 <= start:  # damage before the piece: in the head that every piece reads
        return None
    return Piece(piece.log, Split(offset + 1, end)) if offset + 1 < end else None


def corrupt_record(file: str, exc: BinlogFormatError, column: str) -> pa.RecordBatch:
    """Return one record that has only the position and the error text."""
    columns = {"file": pa.array([file]), "_file": pa.array([file]), column: pa.array([str(exc)])}
    if exc.offset is not None:
        columns["pos"] = columns["_pos"] = pa.array([exc.offset], pa.int64())
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
