"""Marks: what a replay needs of a log besides row changes (statements, table maps, rollbacks, prepared groups).

Extracts the marks of one piece of a log; `table_history` interprets them.

    mark := place gtid what
    what := Definition (a statement)  Mapped (a table map with new facts)  Images
          | Void  Prepared  XaEnd  TextChange  Lost  Cut

Source: the model of `binlogio.replay.apply.replay`, which applies the same groups one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from binlogio.events import (
    NEW_HEADER,
    DeleteRowsEvent,
    ExecuteLoadQueryEvent,
    IncidentEvent,
    ParseContext,
    PartialUpdateRowsEvent,
    QueryEvent,
    RowsEvent,
    TableMapEvent,
    WriteRowsEvent,
    XaPrepareEvent,
)
from binlogio.replay import statements
from binlogio.rows import decode_rows, present_bitmaps
from binlogio.schema.ddl import may_be_ddl

if TYPE_CHECKING:
    from binlogio.events import BinlogEvent
    from binlogio.reader import BinlogReader
    from binlogio.rows import TablePlan

    IsBeyond = Callable[[int, int], bool]

END_OF_LOG: Final = 1 << 62


class Place(NamedTuple):
    """A position in the logs: number of the file in the read, offset, and number of the row at that offset."""

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
    """A table map that differs from the previous one of its table."""

    event: TableMapEvent
    context: ParseContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The images in the changes of a table: whether all after and all before images are whole, before bitmaps."""

    schema: str
    table: str
    whole_after: bool = True
    whole_before: bool = True
    has_diffs: bool = False
    before_present: frozenset[int] = frozenset()

    def __or__(self, other: Images) -> Images:
        """Return the facts that hold for the changes of both."""
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

    If the client rolled them back, those of engines without transactions remain.
    """

    end: Place
    by_client: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """Changes up to `end` of a distributed transaction, which take effect with its commit."""

    end: Place
    xid: str


@dataclass(frozen=True, slots=True)
class XaEnd:
    """The end of a distributed transaction that was prepared before."""

    xid: str
    commits: bool


@dataclass(frozen=True, slots=True)
class TextChange:
    """A statement that changed rows and is in the log as text."""

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
    """A fact that a replay needs, and its position."""

    place: Place
    what: What


def marks_of(
    reader: BinlogReader, file: int, is_beyond: IsBeyond, wants_group: Callable[[str | None], bool]
) -> Iterator[Mark]:
    """Yield the marks of a piece of a log.

    Args:
        reader: the piece, which begins and ends at event groups.
        file: the number of its file in the read.
        is_beyond: whether a group that ends at this offset and this time (in seconds) is after the end of the replay.
        wants_group: whether the group of this GTID is wanted.

    Raises:
        BinlogError: the bytes are no binary log.
    """
    scan = _MarkScan(reader, file)
    for event in reader:
        yield from scan.feed(event, is_beyond, wants_group)
        if scan.is_done:
            return
    yield from scan.finish(is_beyond, wants_group)


class _MarkScan:
    """Follows the groups of a piece."""

    def __init__(self, reader: BinlogReader, file: int) -> None:
        self.is_done = False
        self._reader = reader
        self._file = file
        self._maps: dict[tuple[str, str], TableMapEvent] = {}
        self._images: dict[tuple[str, str], Images] = {}
        self._first_images: dict[tuple[str, str], Place] = {}
        self._group: _MarkedGroup | None = None

    def feed(
        self, event: BinlogEvent, is_beyond: IsBeyond, wants_group: Callable[[str | None], bool]
    ) -> Iterator[Mark]:
        """Process the next event, and yield the marks of the group that ended before it."""
        found = self._reader.group
        if event.header.inner is None:
            yield from self._end_group(is_beyond, wants_group)
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

    def finish(self, is_beyond: IsBeyond, wants_group: Callable[[str | None], bool]) -> Iterator[Mark]:
        """Yield the remaining marks after the last event."""
        yield from self._end_group(is_beyond, wants_group)
        if not self.is_done:
            yield from self._abandon(END_OF_LOG)
        for name, images in self._images.items():
            yield Mark(self._first_images[name], images)

    def _end_group(self, is_beyond: IsBeyond, wants_group: Callable[[str | None], bool]) -> Iterator[Mark]:
        group = self._group
        if group is None or group.end is None:
            return
        self._group = None
        if is_beyond(group.end, group.timestamp):
            self.is_done = True
            yield Mark(group.start, Cut())
            for name, images in self._images.items():
                yield Mark(self._first_images[name], images)
            return
        if wants_group(group.gtid):
            yield from group.marks()
            return
        for mark in group.found:
            if isinstance(mark.what, Mapped):
                self._maps.pop((mark.what.event.schema, mark.what.event.table), None)

    def _abandon(self, end: int) -> Iterator[Mark]:
        """Yield the mark of a group without an end, as a server that crashed leaves it: none of it takes effect."""
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
            group.statement(event, place, self._reader.context)
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
            self._maps[name] = event
            group.found.append(Mark(place, Mapped(event, self._reader.context)))

    def _rows(self, group: _MarkedGroup, event: RowsEvent, place: Place) -> None:
        table = self._reader.table_map(event)
        name = table.schema, table.table
        if event.header.inner is not None:
            group.inner_rows.append((event, self._reader.plan(event)))
        images = _images(event, *name)
        known = self._images.get(name)
        if known is None:
            self._first_images[name] = place
        if known is None or known | images != known:
            self._images[name] = images if known is None else known | images


class _MarkedGroup:
    """The facts about an event group, up to the current event."""

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
        """Yield the marks of the group, which has ended."""
        after = Place(self.start.file, self.end or 0)
        if self._rolls_back:
            yield Mark(self.start, Void(after, by_client=True))
        elif self.is_prepared and self.xid is not None:
            yield Mark(self.start, Prepared(after, self.xid))
        yield from self.found

    def statement(self, event: QueryEvent, place: Place, context: ParseContext) -> None:
        """Process a statement."""
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

    def _xa(self, statement: statements.Xa, place: Place) -> None:
        if statement.step == "START":
            self.xid = statement.xid
        elif statement.step in ("COMMIT", "ROLLBACK") and self.xid is None:
            self.found.append(Mark(place, XaEnd(statement.xid, statement.step == "COMMIT")))

    def _here(self, event: QueryEvent, place: Place) -> Place:
        """Return the place, and inside a payload the number of rows before it."""
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
