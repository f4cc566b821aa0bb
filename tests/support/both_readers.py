"""Events, groups of events and selections by the kernel and by construct, in comparable form."""

from __future__ import annotations

import io
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import binlogio
from binlogio._kernel.event_scanner import group_step
from binlogio.errors import BinlogError
from binlogio.events.base import UnknownEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.decoder import Decoder
from binlogio.format.framing import EventFrame, EventFramer, Framing
from binlogio.format.groups import GroupPlace, GroupTracker, frames_changes
from binlogio.gtid import GtidSet, MariadbGtidPosition
from binlogio.selection.selection import Selection
from both_kernels import Said, kernel_set_to

if TYPE_CHECKING:
    from collections.abc import Iterator


def steps(source: Any, **options: Any) -> Iterator[Any]:
    """Yield each event with what the reader says when it is at hand; last, the error or the torn tail."""
    try:
        with binlogio.open(source, **options) as reader:
            for event in reader:
                yield event, type(event), reader.position, reader.frame, reader.last_good_offset
                if isinstance(event, binlogio.events.RowsEvent):
                    yield table_of(reader, event)
            yield reader.torn_tail, reader.last_good_offset, reader.position
    except BinlogError as exc:
        yield Said.of(exc)


def table_of(reader: binlogio.BinlogReader, event: binlogio.events.RowsEvent) -> Any:
    try:
        return reader.table_map(event)
    except BinlogError as exc:
        return Said.of(exc)


def assert_same(data: bytes, **options: Any) -> int:
    """Compare all steps through a log; returns how many there are."""
    with kernel_set_to("construct"):
        expected = list(steps(io.BytesIO(data), **options))
    with kernel_set_to("compiled"):
        found = list(steps(io.BytesIO(data), **options))
    assert found == expected
    return len(found)


def wanted_by(choice: Selection, found: list[Any]) -> list[Any]:
    """Return of the steps of a log those of the groups that are wanted, by time and GTID."""
    wanted, is_wanted = [], True
    for step in found:
        group = step[0]
        if group is None:
            is_wanted = True
        elif step[1] is group.first:
            if choice.is_over(group.timestamp):
                break
            is_wanted = choice.wants_group(group.timestamp, group.gtid, step[1].header.server_id)
        if is_wanted:
            wanted.append(step)
    return wanted


def must_be_given(choice: Selection, steps: list[Any]) -> bool:
    """Return whether a group may have a wanted change, so that it must not be left out."""
    return not choice.looks_inside or any(
        (isinstance(event, TableMapEvent) and choice.names.wants(event.schema, event.table))
        or (isinstance(event, QueryEvent) and not frames_changes(event.sql)
            and choice.wants_statement(event.schema, event.sql))
        or isinstance(event, (TransactionPayloadEvent, ExecuteLoadQueryEvent, UnknownEvent))
        for _, event, *_ in steps
    )  # fmt: skip


def needed(choice: Selection, found: list[Any]) -> list[Any]:
    """Return the steps without those of groups that have no wanted change, as comparable values."""
    kept = []
    for _, steps_of_group in groupby(found, lambda step: id(step[0])):
        steps = list(steps_of_group)
        if steps[0][0] is None or must_be_given(choice, steps):
            kept += [(*step[1:], step[0] and step[0].begin) for step in steps]
    return kept


def chosen(data: bytes, choice: Selection, *, by_reader: bool) -> tuple[list[Any], Any]:
    """Return the events of the wanted groups, and how the log ends."""
    found: list[Any] = []
    end: Any
    try:
        with binlogio.open(io.BytesIO(data)) as reader:
            reader.choose(choice if by_reader else None)
            for event in reader:
                found.append((reader.group, event, reader.position, columns_of_group(reader, event)))  # noqa: PERF401 - what was found before an error counts
            end = reader.torn_tail, reader.in_use
    except BinlogError as exc:
        end = Said.of(exc)
    return needed(choice, found if by_reader else wanted_by(choice, found)), end


def columns_of_group(reader: binlogio.BinlogReader, event: Any) -> Any:
    """Return `columns_of` an event whose table map is in its group; in a damaged log it may be in an earlier one."""
    if not isinstance(event, binlogio.events.RowsEvent) or reader.group is None:
        return None
    try:
        begins_before = reader.table_map(event).header.offset < reader.group.begin
    except BinlogError:
        return None
    return None if begins_before else columns_of(reader, event)


def columns_of(reader: binlogio.BinlogReader, event: Any) -> Any:
    """Return the names of the columns of a rows event, which may be those of an earlier CREATE TABLE."""
    if not isinstance(event, binlogio.events.RowsEvent):
        return None
    try:
        return tuple(column.name for column in reader.plan(event).columns)
    except BinlogError as exc:
        return Said.of(exc)


def choices(data: bytes) -> list[Selection]:
    """Return selections by what the log has: times and GTIDs in the middle of it, one table, and none."""
    times, gtids = {1}, []
    try:
        with binlogio.open(io.BytesIO(data)) as reader:
            for event in reader:
                times.add(event.header.timestamp)
                gtids += [] if (gtid := getattr(event, "gtid", None)) is None else [gtid]
    except BinlogError:
        pass
    middle = sorted(times)[len(times) // 2]
    found = [Selection(start_time=middle), Selection(stop_time=middle), Selection(start_time=1 << 40)]
    found += [Selection(tables=names) for names in (("no.table",), ("t", "t1", "ti"))]
    for gtid in gtids[len(gtids) // 2 :][:1]:
        one: Any = MariadbGtidPosition.of([gtid]) if hasattr(gtid, "domain_id") else GtidSet.parse(str(gtid))
        found += [Selection(include_gtids=one), Selection(exclude_gtids=one)]
    return found


PLACES: Final = list(GroupPlace)


def steps_by_both(data: bytes) -> Iterator[tuple[Any, Any]]:
    """Yield what the kernel and the tracker make of each event, up to an error of construct.

    The tracker gives the same by the body of an event.
    """
    framer, decoder, tracker = EventFramer(verify_checksum=False), Decoder(decompress=None), GroupTracker()
    by_body = GroupTracker()
    framer.feed(data)
    framer.finish()
    try:
        while (frame := framer.next_frame()) is not Framing.END:
            assert isinstance(frame, EventFrame)
            (event,) = decoder.decode(frame)
            before = PLACES.index(tracker.place)
            tracker.feed(event)
            group = tracker.group
            is_last = group is not None and group.last is event
            steps = tracker.place, tracker.starts_group, is_last, group is None
            by_body.take_body(frame.header.type_code, frame.body, frame.context)
            assert (by_body.place, by_body.starts_group, by_body.ends_group, by_body.is_outside) == steps
            yield group_step(before, frame.header.type_code, frame.body), (PLACES.index(tracker.place), *steps[1:])
    except BinlogError:
        return
