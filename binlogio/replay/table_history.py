"""Table history: the names and columns of each table of a log over time, and the statements that remove its rows.

`marks_of` extracts all information except row changes from a part of a log (statements, table maps, rollbacks, prepared
groups). `TableHistory` sorts these marks and builds the life of each table from them. The effect of a DDL statement on
rows (create, alter, rename, truncate, drop) is determined here, its effect on columns by `binlogio.schema`. Rows are
not decoded here, so parts of a log can be read in parallel and their marks combined.

    mark    := place what
    what    := Definition (a statement) | Mapped (a table map with new information) | Images
             | Void | Prepared | XaEnd | TextChange | Lost | Cut
    life    := stretch (change stretch)*        since the last CREATE TABLE or TRUNCATE, which removes earlier rows
    stretch := name, first and last place, and columns: a part of a life that contains only row changes

Source: the model of `binlogio.replay.apply.replay`, which applies the same groups one by one, and of
`binlogio.schema.ddl.statements`, which follows the same tree for the definitions alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Union

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binlogio.constants import OptionalMetadataType
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, BinlogFormatError, ReplayError, UnsupportedFeature
from binlogio.events.base import NEW_HEADER, ParseContext
from binlogio.events.control import IncidentEvent, XaPrepareEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, RowsEvent, WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.options import Position
from binlogio.rows.image import decode_rows, present_bitmaps
from binlogio.rows.plan import resolve_plan
from binlogio.schema import statements
from binlogio.schema.ddl.catalogue import Catalogue, KnownTable
from binlogio.schema.ddl.column_history import (
    ColumnChanges,
    at_statement,
    column_changes,
    defaults_after,
    effective_defaults,
)
from binlogio.schema.ddl.column_text import UNKNOWN_DEFAULT, Default
from binlogio.schema.ddl.first_words import may_be_ddl
from binlogio.schema.ddl.logged_ddl import LoggedDdl, text_of
from binlogio.schema.ddl.parsed_table import ParsedTable
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.tokens import Token, Unparsed, tokenize
from binlogio.schema.ddl.tree import (
    AlterTable,
    CreateIndex,
    CreateTable,
    DropDatabase,
    DropIndex,
    DropTables,
    FromSelect,
    Like,
    RenameTables,
    TruncateTable,
    Unreadable,
)
from binlogio.schema.definition import from_table_map
from binlogio.schema.given import Described, GivenDefinitions
from binlogio.schema.identifiers import NamesInAnyCase
from binlogio.schema.source import DefinitionSource
from binlogio.selection.event_filter import has_gtid, parse_gtid, parse_gtid_state
from binlogio.storage.index_file import base_name, log_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlogio.events import BinlogEvent
    from binlogio.reader import BinlogReader
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.ddl.catalogue import TableName
    from binlogio.schema.definition import ColumnDefinition, TableDefinition
    from binlogio.selection.event_filter import Gtids

Numbers = npt.NDArray[np.int64]
END_OF_LOG: Final = 1 << 62
_ALL_TABLES: Final = ("",)
_POS_BITS: Final = 44
_ROW_BITS: Final = 30  # low bits, for the row, of the number that orders the rows of a group; the offset is above
_NAMING_VERBS: Final = frozenset({"insert", "update", "delete", "replace", "load"})


# ------------------------------------------------------------------------------------------------------------- marks


class Place(NamedTuple):
    """A position in the logs: number of the file in this read, offset in bytes, number of the row at this offset."""

    file: int
    pos: int
    row: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """A statement that defines, renames, empties or drops tables."""

    event: QueryEvent
    context: ParseContext


@dataclass(frozen=True, slots=True)
class Mapped:
    """A table map that differs from the previous table map of its table."""

    event: TableMapEvent
    context: ParseContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Properties of the row images of a table.

    `whole_after` and `whole_before` are True if all after or before images have all columns. `has_diffs` is True if a
    partial update, which may have JSON diffs, has an incomplete before image. `before_present` are the distinct bitmaps
    of columns of the before images, as integers.
    """

    schema: str
    table: str
    whole_after: bool = True
    whole_before: bool = True
    has_diffs: bool = False
    before_present: frozenset[int] = frozenset()

    def __or__(self, other: Images) -> Images:
        """Return the properties of the images of both."""
        return replace(
            self,
            whole_after=self.whole_after and other.whole_after,
            whole_before=self.whole_before and other.whole_before,
            has_diffs=self.has_diffs or other.has_diffs,
            before_present=self.before_present | other.before_present,
        )


@dataclass(frozen=True, slots=True)
class Void:
    """Changes up to `end` that were rolled back.

    `by_client` is True for a ROLLBACK statement, which does not undo changes of non-transactional tables.
    """

    end: Place
    by_client: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """Changes up to `end` of a prepared XA transaction, which take effect with XA COMMIT."""

    end: Place
    xid: str


@dataclass(frozen=True, slots=True)
class XaEnd:
    """XA COMMIT or XA ROLLBACK of a transaction that was prepared before."""

    xid: str
    commits: bool


@dataclass(frozen=True, slots=True)
class TextChange:
    """A statement that changed rows and was logged as text."""

    sql: str
    schema: str


@dataclass(frozen=True, slots=True)
class Lost:
    """An incident event: the source reports that changes are missing here."""

    message: str


@dataclass(frozen=True, slots=True)
class Cut:
    """The start of the first group after the end of the replay."""


What = Definition | Mapped | Images | Void | Prepared | XaEnd | TextChange | Lost | Cut


@dataclass(frozen=True, slots=True)
class Mark:
    """An item of information that a replay needs, and its position."""

    place: Place
    what: What


UntilLike = Union[datetime, Position, "tuple[str, int]", str, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """The end of a replay. A group is included as a whole or not at all.

    Args:
        moment: in seconds since 1970; the first group with a later event ends the replay.
        position: the base name of a log, and an offset; groups that end there or before are included.
        gtids: groups with other GTIDs are not included.
    """

    moment: float | None = None
    position: Position | None = None
    gtids: Gtids | None = None

    @classmethod
    def of(cls, given: UntilLike) -> Until:
        """Return the end for a time (UTC if it has no zone), a position, a GTID set as text, or None: all groups.

        Raises:
            BinlogError: the text is not a GTID set.
        """
        if given is None:
            return cls()
        if isinstance(given, datetime):
            aware = given if given.tzinfo is not None else given.replace(tzinfo=timezone.utc)
            return cls(moment=aware.timestamp())
        if isinstance(given, str):
            return cls(gtids=parse_gtid_state(given))
        file, offset = given
        return cls(position=Position(base_name(file), offset))

    def is_before(self, file: str, end: int, timestamp: int) -> bool:
        """Return whether a group comes after the end of the replay.

        Args:
            file: the log of the group.
            end: the offset at which the group ends.
            timestamp: the time of its last event, in seconds since 1970.
        """
        if self.moment is not None:
            return timestamp > self.moment
        if self.position is None:
            return False
        if base_name(file) == self.position.file:
            return end > self.position.offset
        stem, number, _ = log_number(base_name(file))
        last_stem, last, _ = log_number(self.position.file)
        return stem == last_stem and number > last

    def wants_group(self, gtid: str | None) -> bool:
        """Return whether the group with a GTID is selected."""
        return self.gtids is None or (gtid is not None and has_gtid(self.gtids, parse_gtid(gtid)))


def marks_of(reader: BinlogReader, file: int, until: Until) -> Iterator[Mark]:
    """Yield the marks of a part of a log.

    Args:
        reader: the reader of the part, which begins and ends at boundaries of event groups.
        file: the number of the file in this read.
        until: the end of the replay.

    Raises:
        BinlogError: the bytes are not a valid binary log.
    """
    scan = _MarkScan(reader, file, until)
    for event in reader:
        yield from scan.feed(event)
        if scan.is_done:
            return
    yield from scan.finish()


class _MarkScan:
    """Collects the marks of the event groups of a part."""

    def __init__(self, reader: BinlogReader, file: int, until: Until) -> None:
        self.is_done = False
        self._reader = reader
        self._file = file
        self._until = until
        self._maps: dict[tuple[str, str], TableMapEvent] = {}
        self._images: dict[tuple[str, str], tuple[Place, Images]] = {}  # since the last change of the table
        self._earlier_images: list[Mark] = []
        self._group: _MarkedGroup | None = None

    def feed(self, event: BinlogEvent) -> Iterator[Mark]:
        """Process the next event, and yield the marks of the group that ended before it."""
        found = self._reader.group
        if event.header.inner is None:
            yield from self._end_group()
            if self.is_done:
                return
            if found is not None and event is found.first:
                yield from self._abandon(found.begin)
                self._group = _MarkedGroup(Place(self._file, found.begin), found.facts.gtid)
        group = self._group
        if group is None:
            return
        group.timestamp = max(group.timestamp, event.header.timestamp)
        self._take(group, event)
        if event.header.inner is None and (found is None or found.last is event):
            group.end = self._reader.position.offset

    def finish(self) -> Iterator[Mark]:
        """Yield the remaining marks after the last event."""
        yield from self._end_group()
        if not self.is_done:
            yield from self._abandon(END_OF_LOG)
            yield from self._all_images()

    def _end_group(self) -> Iterator[Mark]:
        group = self._group
        if group is None or group.end is None:
            return
        self._group = None
        if self._until.is_before(self._reader.position.file, group.end, group.timestamp):
            self.is_done = True
            yield Mark(group.start, Cut())
            yield from self._all_images()
            return
        if self._until.wants_group(group.gtid):
            yield from group.marks()
            return
        for mark in group.found:
            if isinstance(mark.what, Mapped):
                self._maps.pop((mark.what.event.schema, mark.what.event.table), None)

    def _abandon(self, end: int) -> Iterator[Mark]:
        """Yield the mark of an incomplete group, as a crashed server leaves it: its changes have no effect."""
        if self._group is not None:
            yield Mark(self._group.start, Void(Place(self._file, end), by_client=False))
        self._group = None

    def _take(self, group: _MarkedGroup, event: Any) -> None:
        place = Place(self._file, event.header.offset)
        if isinstance(event, TableMapEvent):
            self._mapped(group, event, place)
        elif isinstance(event, RowsEvent):
            self._rows(group, event, place)
        elif isinstance(event, QueryEvent):
            if group.statement(event, place, self._reader.context):
                self._end_images(*self._images)
        elif isinstance(event, XaPrepareEvent):
            group.xid = statements.xid_key(event.xid_text)
            group.is_prepared = not event.one_phase
        elif isinstance(event, ExecuteLoadQueryEvent):
            group.found.append(Mark(place, TextChange(event.sql.decode("utf-8", "replace"), event.schema)))
        elif isinstance(event, IncidentEvent):
            group.found.append(Mark(place, Lost(str(event.message))))

    def _mapped(self, group: _MarkedGroup, event: TableMapEvent, place: Place) -> None:
        event = replace(event, table_id=0, header=NEW_HEADER)
        name = event.schema, event.table
        if self._maps.get(name) != event:
            self._end_images(name)
            self._maps[name] = event
            group.found.append(Mark(place, Mapped(event, self._reader.context)))

    def _rows(self, group: _MarkedGroup, event: RowsEvent, place: Place) -> None:
        table = self._reader.table_map(event)
        name = table.schema, table.table
        if event.header.inner is not None:
            group.inner_rows.append((event, self._reader.plan(event)))
        images = _images(event, *name)
        first, known = self._images.get(name, (place, images))
        if name not in self._images or known | images != known:
            self._images[name] = first, known | images

    def _end_images(self, *names: tuple[str, str]) -> None:
        """End the marks of the images of tables whose columns or key may change here."""
        self._earlier_images += [Mark(*self._images.pop(name)) for name in names if name in self._images]

    def _all_images(self) -> list[Mark]:
        self._end_images(*self._images)
        return self._earlier_images


class _MarkedGroup:
    """The marks of an event group, up to the current event."""

    def __init__(self, start: Place, gtid: str | None) -> None:
        self.start = start
        self.gtid = gtid
        self.end: int | None = None
        self.timestamp = 0
        self.found: list[Mark] = []
        self.inner_rows: list[tuple[Any, TablePlan]] = []
        self.xid: str | None = None
        self.is_prepared = False
        self._rolls_back = False
        self._savepoints: dict[str, Place] = {}

    def marks(self) -> Iterator[Mark]:
        """Yield the marks of the complete group."""
        after = Place(self.start.file, self.end or 0)
        if self._rolls_back:
            yield Mark(self.start, Void(after, by_client=True))
        elif self.is_prepared and self.xid is not None:
            yield Mark(self.start, Prepared(after, self.xid))
        yield from self.found

    def statement(self, event: QueryEvent, place: Place, context: ParseContext) -> bool:
        """Process a statement, and return whether it may change tables."""
        statement = statements.recognize(event.sql)
        if isinstance(statement, statements.Rollback):
            self._rolls_back = True
        elif isinstance(statement, statements.SavepointStatement):
            self._savepoints[statement.name] = self._here(event, place)
        elif isinstance(statement, statements.RollbackTo):
            since = self._savepoints.get(statement.name, self.start)
            self.found.append(Mark(since, Void(self._here(event, place), by_client=True)))
        elif isinstance(statement, statements.Xa):
            self._xa(statement, place)
        elif isinstance(statement, statements.OtherStatement) and statement.changes_rows:
            self.found.append(Mark(place, TextChange(event.sql.decode("utf-8", "replace"), event.schema)))
        elif may_be_ddl(event.sql):
            self.found.append(Mark(place, Definition(event, context)))
            return True
        return False

    def _xa(self, statement: statements.Xa, place: Place) -> None:
        if statement.step == "START":
            self.xid = statement.xid
        elif statement.step in ("COMMIT", "ROLLBACK") and self.xid is None:
            self.found.append(Mark(place, XaEnd(statement.xid, statement.step == "COMMIT")))

    def _here(self, event: QueryEvent, place: Place) -> Place:
        """Return the place; inside a payload, with the number of rows before it."""
        if event.header.inner is None:
            return place
        rows = sum(sum(1 for _ in decode_rows(rows, plan)) for rows, plan in self.inner_rows)
        return place._replace(row=rows)


def _images(event: RowsEvent, schema: str, table: str) -> Images:
    whole = (1 << event.column_count) - 1
    before, after = (None if bits is None else int.from_bytes(bits, "little") for bits in present_bitmaps(event))
    return Images(
        schema=schema,
        table=table,
        whole_after=isinstance(event, DeleteRowsEvent) or after == whole,
        whole_before=isinstance(event, WriteRowsEvent) or before == whole,
        has_diffs=isinstance(event, PartialUpdateRowsEvent) and before != whole,
        before_present=frozenset() if before is None else frozenset({before}),
    )


# ------------------------------------------------------------------------------------------------------------- lives


BEGIN: Final = Place(-1, 0)
END: Final = Place(END_OF_LOG, 0)
NOTHING: Final = ColumnChanges()


@dataclass(slots=True)
class Stretch:
    """A part of the life of a table in which its columns do not change.

    `then` are the column changes that end it. `defaults` are the defaults of columns, by name in lower case.
    """

    name: TableName
    start: Place
    end: Place = END
    mapped: Mapped | None = None
    definition: TableDefinition | None = None
    is_given: bool = False
    flavor_of: ParseContext | None = None
    defaults: dict[str, Default] = field(default_factory=dict)
    then: ColumnChanges = NOTHING

    @property
    def is_mariadb(self) -> bool:
        """True if the log was written by MariaDB."""
        context = self.flavor_of if self.mapped is None else self.mapped.context
        return context is not None and context.is_mariadb

    def unlogged(self) -> tuple[str, ...]:
        """Return the generated columns in logs of MariaDB, where updates may lack them although their values change."""
        if self.definition is None or not self.is_mariadb:
            return ()
        return tuple(column.name for column in self.definition.columns if column.generated_from is not None)

    def plan(self) -> TablePlan | None:
        """Return the plan of the columns, without hidden hash columns of MariaDB; None if they are unknown.

        Raises:
            BinlogError: a given definition does not fit the table, or a type cannot be decoded.
        """
        if self.mapped is None:
            return self._planned()
        event, context = self.mapped.event, self.mapped.context
        source = DefinitionSource(self.given(), follows_ddl=False)
        try:
            plan = source.plan(event, context)
        except BinlogFormatError:
            if self.is_given:
                raise
            self.definition = None  # statements can be missing from a log
            plan = resolve_plan(event, context)
        return plan.without_row_hashes

    def given(self) -> GivenDefinitions | None:
        """Return the definition in the form that readers accept."""
        return None if self.definition is None else GivenDefinitions({dotted_name(*self.name): self.definition})

    def _planned(self) -> TablePlan | None:
        if self.definition is None:
            return None
        vendor = ServerDefaults.of(self.flavor_of).vendor if self.flavor_of is not None else "mysql"
        event = self.definition.table_map(1, "FULL", vendor)
        context = self.flavor_of if self.flavor_of is not None else ParseContext()
        return resolve_plan(event, context, self.definition.plan_columns(vendor))


@dataclass(frozen=True, slots=True)
class Detour:
    """Changes from `start` up to `end` that take effect at the place `to`, or not at all if `to` is None.

    `spares_untransactional` is True if changes of non-transactional tables take effect at their own place.
    """

    start: Place
    end: Place
    to: Place | None
    spares_untransactional: bool = False


class Detours:
    """The places at which row changes take effect, for many changes at a time. Can be pickled.

    Args:
        detours: the detours of the changes, in the order of the log.
    """

    def __init__(self, detours: Iterable[Detour]) -> None:
        self._void: list[tuple[Place, Place]] = []
        self._late: list[tuple[Place, Place, Place]] = []
        for one in detours:
            if one.to is not None:
                self._late.append((one.start, one.end, one.to))
            elif self._void and one.start <= self._void[-1][1]:
                self._void[-1] = self._void[-1][0], max(one.end, self._void[-1][1])
            else:
                self._void.append((one.start, one.end))

    def __bool__(self) -> bool:
        """Return True if a change may take effect at another place than its own."""
        return bool(self._void or self._late)

    def of(self, file: pa.Array, pos: pa.Array, row: pa.Array) -> pa.StructArray:
        """Return the places at which the changes at these places take effect; null if a change has no effect.

        The arguments are the parts of a `Place`, and so are the fields of the result: arrays of int64.
        """
        columns = [np.asarray(one).copy() for one in (file, pos, row)]
        is_void = np.zeros(len(file), bool)
        for number in np.flatnonzero(self._may_have(columns[0], columns[1])):
            place = self._to(Place(*(int(column[number]) for column in columns)))
            if place is None:
                is_void[number] = True
            else:
                for column, value in zip(columns, place, strict=True):
                    column[number] = value
        arrays = [pa.array(column) for column in columns]
        return pa.StructArray.from_arrays(arrays, names=list(Place._fields), mask=pa.array(is_void))

    def _may_have(self, file: Numbers, pos: Numbers) -> npt.NDArray[np.bool_]:
        """Return which places may be in a detour, by file and offset alone."""
        numbers = _numbers(file, pos)
        found = np.zeros(len(numbers), bool)
        for detours in (self._void, self._late):
            if detours:
                starts, ends = (_numbers(*np.array([one[at][:2] for one in detours]).T) for at in (0, 1))
                at = np.searchsorted(starts, numbers, side="right") - 1
                found |= (at >= 0) & (numbers <= ends[np.maximum(at, 0)])
        return found

    def _to(self, place: Place) -> Place | None:
        at = bisect_right(self._void, place, key=itemgetter(0)) - 1
        if at >= 0 and place < self._void[at][1]:
            return None
        at = bisect_right(self._late, place, key=itemgetter(0)) - 1
        if at < 0 or place >= self._late[at][1]:
            return place
        start, _, to = self._late[at]
        return to._replace(row=(place.pos - start.pos << _ROW_BITS) + place.row)


def _numbers(file: Numbers, pos: Numbers) -> Numbers:
    """Return numbers that sort as the places; offsets above 16 TiB count as one."""
    return (file << _POS_BITS) + np.minimum(pos, (1 << _POS_BITS) - 1)


@dataclass(slots=True)
class Life:
    """The life of a table, up to the current mark."""

    stretches: list[Stretch]
    is_whole: bool  # the table was created, empty, in the log
    problems: list[tuple[Place, ReplayError]] = field(default_factory=list)

    @property
    def now(self) -> Stretch:
        """The last stretch."""
        return self.stretches[-1]

    def change(self, at: Place, then: ColumnChanges, following: Stretch) -> None:
        """End the last stretch at place `at`, and begin the stretch `following`."""
        self.now.end, self.now.then = at, then
        self.stretches.append(following)

    def begin_again(self, at: Place) -> None:
        """Discard the earlier stretches, because the statement at place `at` removed all rows."""
        self.stretches = [replace(self.now, start=at, then=NOTHING)]
        self.is_whole = True
        self.problems.clear()


# ----------------------------------------------------------------------------------------------------------- history


class TableHistory:
    """The lives of all tables of a log.

    Args:
        marks: the marks of the log, in any order.
        given: the definitions of tables at the start of the log.
    """

    def __init__(self, marks: Iterable[Mark], given: Iterable[TableDefinition] = ()) -> None:
        self.cut = END
        self.detours: list[Detour] = []
        self.images: dict[TableName, list[tuple[Place, Images]]] = {}
        self._lives: dict[TableName, Life] = {}
        self._alike = NamesInAnyCase()  # the names of `_lives`
        self._gone: dict[TableName, Place] = {}
        self._catalogue = Catalogue()
        self._prepared: dict[str, tuple[Place, Place]] = {}
        self._first_problems: dict[str, tuple[Place, ReplayError]] = {}  # by names of tables in lower case
        for definition in given:
            name = definition.schema, definition.name
            self._catalogue.put(name, KnownTable(ParsedTable.of(definition)))
            self.begin(name, Life([Stretch(name, BEGIN, definition=definition, is_given=True)], is_whole=False))
        self._follow(sorted(marks, key=_order))

    def life(self, name: TableName) -> Life:
        """Return the life of the table with this name at the end of the log.

        Raises:
            ReplayError: there is no such table.
        """
        life = self._lives.get(name)
        if life is not None:
            return life
        gone = self._gone.get(name)
        raise ReplayError(
            f"there is no table {dotted_name(*name)}",
            found=f"dropped or renamed at offset {gone.pos}" if gone is not None else "no log mentions it",
            expected=", ".join(sorted(dotted_name(*one) for one in self._lives)) or "no table",
        )

    def images_of(self, stretches: Iterable[Stretch]) -> Images:
        """Return the properties of the images in stretches of the life of a table."""
        found = Images(schema="", table="")
        for stretch in stretches:
            for place, images in self.images.get(stretch.name, ()):
                if stretch.start <= place < stretch.end:
                    found |= images
        return found

    def detours_of(self, life: Life) -> Detours:
        """Return the places at which the changes of a table take effect."""
        definition = life.now.definition
        transactional = definition is None or definition.is_transactional
        return Detours(one for one in self.detours if transactional or not one.spares_untransactional)

    # ------------------------------------------------------------------------------------------------------ marks

    def _follow(self, marks: list[Mark]) -> None:
        self.cut = min((mark.place for mark in marks if isinstance(mark.what, Cut)), default=END)
        for mark in marks:
            what = mark.what
            if isinstance(what, Images):
                self.images.setdefault((what.schema, what.table), []).append((mark.place, what))
            elif mark.place >= self.cut:
                continue
            elif isinstance(what, Void):
                self.detours.append(Detour(mark.place, what.end, None, what.by_client))
            elif isinstance(what, Prepared):
                self._prepared[what.xid] = mark.place, what.end
            elif isinstance(what, XaEnd):
                self._end_prepared(what, mark.place)
            elif isinstance(what, Mapped):
                self._map(what, mark.place)
            elif isinstance(what, Definition):
                self._define(what.event, what.context, mark.place)
            elif isinstance(what, TextChange):
                self._text_change(what, mark.place)
            elif isinstance(what, Lost):
                self.note(mark.place, ReplayError(f"the source lost changes here: {what.message}"))
        self.detours += [Detour(start, end, None) for start, end in self._prepared.values()]
        self.detours.sort(key=lambda one: (one.start, one.end))

    def _end_prepared(self, what: XaEnd, place: Place) -> None:
        prepared = self._prepared.pop(what.xid, None)
        if prepared is not None:
            self.detours.append(Detour(*prepared, place if what.commits else None))
        elif what.commits:
            self.note(place, ReplayError(f"XA COMMIT of a transaction that was prepared before the log: {what.xid}"))

    def _map(self, mapped: Mapped, place: Place) -> None:
        event = mapped.event
        name = event.schema, event.table
        life = self._lives.get(name)
        if life is None:
            life = Life([Stretch(name, BEGIN)], is_whole=False, problems=self.problems_of(name))
            self.begin(name, life)
        now = life.now
        if now.mapped is None:
            now.mapped, now.flavor_of = mapped, mapped.context
        elif not _is_alike(now.mapped, mapped):
            following = Stretch(name, place, mapped=mapped, flavor_of=mapped.context)
            if event.optional(OptionalMetadataType.COLUMN_NAME) is None:  # a table map with fewer metadata than before
                following.definition, following.defaults = now.definition, now.defaults
            life.change(place, NOTHING, following)
        if life.now.definition is None and self._catalogue.find(*name) is None:
            self._learn(life.now, mapped)

    def _learn(self, stretch: Stretch, mapped: Mapped) -> None:
        """Add the definition of FULL metadata to the catalogue, so that a later ALTER TABLE can be applied to it."""
        if mapped.event.optional(OptionalMetadataType.COLUMN_NAME) is None:
            return
        try:
            definition = from_table_map(mapped.event, mapped.context)
        except BinlogError:
            return
        self._catalogue.put(stretch.name, KnownTable(ParsedTable.of(definition)))

    def _text_change(self, change: TextChange, place: Place) -> None:
        if any(one.start <= place < one.end for one in self.detours):
            return
        words = _words_of(change.sql)
        is_call = words.isdisjoint(_NAMING_VERBS)  # a call of a function, which may change any table
        self.note(place, _text_problem(change.sql), None if is_call else words)

    # ------------------------------------------------------------------------------------------------- statements

    def _define(self, event: QueryEvent, context: ParseContext, place: Place) -> None:
        logged = LoggedDdl.of(event, context)
        statement = TableStatement(self, logged, context, place)
        try:
            statement.carry_out()
        except UnsupportedFeature as exc:
            self.note(place, _problem(exc), _words_of(text_of(event)))
            statement.follow()

    def note(self, place: Place, problem: ReplayError, words: frozenset[str] | None = None) -> None:
        """Record a problem for all tables, or for the tables whose names are in `words`, also if they appear later."""
        for name, life in self._lives.items():
            if words is None or name[1].casefold() in words:
                life.problems.append((place, problem))
        for word in _ALL_TABLES if words is None else words:
            self._first_problems.setdefault(word, (place, problem))

    def problems_of(self, name: TableName) -> list[tuple[Place, ReplayError]]:
        """Return the first problems of a table that existed before the log."""
        found = (self._first_problems.get(word) for word in (*_ALL_TABLES, name[1].casefold()))
        return sorted((one for one in found if one is not None), key=lambda one: one[0])

    def known(self, name: TableName) -> TableName:
        """Return the known name of a table; servers that ignore case log statements with names in any case."""
        return name if name in self._lives else self._alike.find(name)

    def begin(self, name: TableName, life: Life) -> None:
        """Add a new table with this name."""
        self._lives[name] = life
        self._alike.add(name)
        self._gone.pop(name, None)

    def end(self, name: TableName, place: Place) -> Life | None:
        """Remove the table with this name, and return its life."""
        self._gone[name] = place
        known = self.known(name)
        self._alike.discard(known)
        return self._lives.pop(known, None)

    def current(self, name: TableName) -> Life | None:
        """Return the life of the table that currently has this name; None if there is none."""
        return self._lives.get(self.known(name))

    def names(self) -> list[TableName]:
        """Return the names of the current tables."""
        return list(self._lives)

    @property
    def catalogue(self) -> Catalogue:
        """The definitions of the tables from the statements of the log."""
        return self._catalogue


def _problem(reason: BinlogError) -> ReplayError:
    """Return the ReplayError of a replay that needs a statement which failed with `reason`."""
    problem = ReplayError(
        reason.reason, field=reason.field, expected=reason.expected, found=reason.found, hint=reason.hint
    )
    problem.__cause__ = reason
    return problem


def _text_problem(sql: str) -> ReplayError:
    return ReplayError(f"a statement that changes rows is in the log as text: {sql[:80]!r}")


def _order(mark: Mark) -> tuple[Place, bool]:
    """Return a sort key: by place; Void and Prepared come before other marks at the same place."""
    return mark.place, not isinstance(mark.what, (Void, Prepared))


def _is_alike(one: Mapped, other: Mapped) -> bool:
    same = ("column_types", "metadata", "optional_metadata")
    return all(getattr(one.event, name) == getattr(other.event, name) for name in same)


def _words_of(sql: str) -> frozenset[str]:
    """Return the words of a statement that may be names, in lower case; all words if it cannot be parsed."""
    try:
        tokens: Iterable[Token] = tokenize(sql)
    except UnsupportedFeature:
        return frozenset("".join(one if one.isalnum() or one in "_$" else " " for one in sql).casefold().split())
    return frozenset(token.text.casefold() for token in tokens if token.is_name)


class TableStatement:
    """Applies one DDL statement to the history of the tables."""

    def __init__(self, history: TableHistory, logged: LoggedDdl, context: ParseContext, place: Place) -> None:
        self._history = history
        self._logged = logged
        self._context = context
        self._place = place
        self._is_followed = False

    def carry_out(self) -> None:  # noqa: C901 - one case for each kind of statement
        """Apply the statement.

        Raises:
            UnsupportedFeature: its names cannot be parsed.
        """
        full_name = self._logged.full_name
        match self._logged.statement:
            case TruncateTable(table):
                self._truncate(full_name(table))
            case CreateTable(is_temporary=False) as created:
                self._create(created, full_name(created.table))
            case AlterTable() as altered:
                self._alter(altered, self._history.known(full_name(altered.table)))
            case CreateIndex(table) | DropIndex(table):
                self._index(self._history.known(full_name(table)))
            case RenameTables(renames):
                for old, new in self._logged.base_renames(renames, self._history.catalogue):
                    self._rename(self._history.known(old), new)
            case DropTables(tables, only_temporary=False):
                for table in tables:
                    self._drop(full_name(table))
            case DropDatabase(schema):
                for name in self._history.names():
                    if name[0] == schema:
                        self._history.end(name, self._place)
            case Unreadable(_, problem):
                raise problem.error()
        self.follow()

    def _create(self, statement: CreateTable, name: TableName) -> None:
        """Apply CREATE TABLE: a new, empty table."""
        history = self._history
        exists = history.current(name) is not None or history.catalogue.find(*name) is not None
        self.follow()
        if statement.if_not_exists and exists and not statement.replaces:
            return
        if statement.defaults is None and isinstance(statement.body, Unparsed):
            raise statement.body.error()
        defaults = dict(statement.defaults or {})
        if isinstance(statement.body, Like):
            like = self._logged.full_name(statement.body.table)
            source = None if self._is_temporary(like) else history.current(like)
            defaults = {} if source is None else dict(source.now.defaults)
        stretch = Stretch(name, self._place, flavor_of=self._context)
        stretch.definition = self._definition(name)
        stretch.defaults = (
            defaults if stretch.definition is None else effective_defaults(defaults, stretch.definition.columns)
        )
        is_whole = not statement.if_not_exists or statement.replaces or exists
        life = Life([stretch], is_whole=is_whole, problems=[] if is_whole else history.problems_of(name))
        if isinstance(statement.body, FromSelect):
            life.problems.append((self._place, _text_problem(text_of(self._logged.event))))
        history.begin(name, life)

    def _alter(self, statement: AlterTable, name: TableName) -> None:
        """Apply ALTER TABLE, which may change columns, name or key."""
        history, clauses = self._history, statement.clauses
        life = history.current(name)
        known = history.catalogue.find(*name)
        table = known.table if known is not None else ParsedTable(schema="", name="", columns=(), collation="binary")
        is_temporary = self._is_temporary(name)
        self.follow()
        if is_temporary:
            return
        if isinstance(clauses, Unparsed) or clauses.exchanged is not None:
            others = statement.new_names if isinstance(clauses, Unparsed) else (clauses.exchanged,)
            problem = ReplayError("a statement may move rows between two tables, which row changes do not show")
            history.note(self._place, problem, frozenset(one[1].casefold() for one in others if one is not None))
        if life is None:
            return
        changes = NOTHING
        if isinstance(clauses, Unparsed):
            life.problems.append((self._place, _problem(clauses.error())))
        else:
            changes = column_changes(clauses, table)
            if changes.drops_rows:
                problem = ReplayError("a statement empties or fills a partition, which row changes do not show")
                life.problems.append((self._place, problem))
        new_name = self._logged.full_name(changes.name) if changes.name is not None else name
        self._begin_stretch(life, new_name, changes)
        if new_name != name:
            history.end(name, self._place)
            history.begin(new_name, life)

    def _index(self, name: TableName) -> None:
        """Apply CREATE INDEX or DROP INDEX, which may change the key."""
        life = self._history.current(name)
        self.follow()
        if life is not None:
            self._begin_stretch(life, name, NOTHING)

    def _rename(self, old: TableName, new: TableName) -> None:
        life = self._history.end(old, self._place)
        if life is not None:
            life.change(self._place, NOTHING, replace(life.now, name=new, start=self._place, mapped=None))
            self._history.begin(new, life)

    def _drop(self, name: TableName) -> None:
        if not self._is_temporary(name):
            self._history.end(name, self._place)

    def _truncate(self, name: TableName) -> None:
        life = self._history.current(name)
        if life is not None and not self._is_temporary(name):
            life.begin_again(self._place)

    # ----------------------------------------------------------------------------------------------------- parts

    def _begin_stretch(self, life: Life, name: TableName, changes: ColumnChanges) -> None:
        """Begin the next stretch after an ALTER TABLE, if the statement affects rows."""
        now = life.now
        definition = self._definition(name)
        old = now.definition
        is_same = definition is not None and old is not None and _columns(definition) == _columns(old)
        if name == now.name and is_same and not changes.defaults and _key(definition) == _key(old):
            now.definition = definition
            return
        following = Stretch(name, self._place, definition=definition, is_given=now.is_given, flavor_of=self._context)
        following.defaults = _defaults_after(now.defaults, changes, definition)
        columns = {column.name.casefold(): column for column in (definition.columns if definition is not None else ())}
        computed = {name for name in changes.defaults if name in columns and columns[name].generated_from is not None}
        added = {
            one: at_statement(following.defaults.get(one, UNKNOWN_DEFAULT), columns.get(one), self._logged.event)
            for one in changes.added | computed
        }
        life.change(self._place, replace(changes, added=frozenset(added), defaults=added), following)

    def _definition(self, name: TableName) -> TableDefinition | None:
        known = self._history.catalogue.find(*name)
        if known is None:
            return None
        return replace(Described.of(known.table).without_assumptions(), schema=name[0], name=name[1])

    def _is_temporary(self, name: TableName) -> bool:
        return self._logged.is_temporary(name, self._history.catalogue)

    def follow(self) -> None:
        """Apply the statement to the catalogue, once."""
        if not self._is_followed:
            self._is_followed = True
            self._logged.follow(self._history.catalogue)


def _defaults_after(
    before: Mapping[str, Default], changes: ColumnChanges, definition: TableDefinition | None
) -> dict[str, Default]:
    """Return the defaults after an ALTER TABLE; without a definition, only those of columns named in statements."""
    if definition is not None:
        return defaults_after(before, changes, definition.columns)
    pairs = ((name, changes.former(name)) for name in before)
    kept = {name: before[former] for name, former in pairs if former is not None and former in before}
    return {**kept, **changes.defaults}


def _columns(definition: TableDefinition) -> list[tuple[ColumnDefinition, str]]:
    """Return the columns with their collations, which can be that of the table."""
    return [(column, definition.collation_of(column)) for column in definition.columns]


def _key(definition: TableDefinition | None) -> tuple[str, ...]:
    return () if definition is None else definition.primary_key
