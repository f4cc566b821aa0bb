"""The selection of changes that all commands and readers take: event groups, tables, and single rows.

`Selection.compiled` returns the kernel's version of the conditions on groups, `Selection.event_filter` those that are
conditions on single rows events.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from binlogio.errors import ConditionError, UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.options import Position
from binlogio.selection.event_filter import (
    HIGHEST,
    LOWEST,
    OPERATIONS,
    AllExcept,
    EventFilter,
    Range,
    check_values,
    has_gtid,
    like_numbers,
    parse_gtid,
)
from binlogio.selection.table_names import TableNames, matches, named_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio._kernel.event_scanner import GroupFilter
    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.schema.ddl.catalogue import TableName
    from binlogio.selection.event_filter import Gtids, Operation
    from binlogio.selection.row_condition import RowCondition


_SECONDS: Final = "seconds since 1970"
_GLOBS: Final = "a tuple of globs"
_GTIDS: Final = "GtidSet.parse(text) or MariadbGtidSet.parse(text)"
_POSITION: Final = "Position(file, offset)"
_KINDS: Final[tuple[tuple[str, type | tuple[type, ...], str], ...]] = (
    ("start_time", int, _SECONDS),
    ("stop_time", int, _SECONDS),
    ("include_gtids", object, _GTIDS),
    ("exclude_gtids", object, _GTIDS),
    ("after_gtids", object, "GtidSet.parse(text) or MariadbGtidPosition.parse(text)"),
    ("up_to_gtids", object, "GtidSet.parse(text) or MariadbGtidPosition.parse(text)"),
    ("server_ids", (frozenset, AllExcept), "a frozenset of numbers, or AllExcept"),
    ("databases", tuple, _GLOBS),
    ("tables", tuple, _GLOBS),
    ("exclude_tables", tuple, _GLOBS),
    ("start", Position, _POSITION),
    ("stop", Position, _POSITION),
    ("operations", (frozenset, set), "a frozenset of operations"),
    ("condition", object, "RowCondition(text)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Selection of changes; empty tuples and None select everything.

    A group is selected by the time, the server and the GTID of its first event. With `databases`, `tables` or
    `exclude_tables`, one of its changes must be selected as well. A row change belongs to the database of its table. A
    statement belongs to its default database, as in mysqlbinlog, and to the tables that it changes. A statement whose
    tables cannot be determined is selected, unless its text names none of `tables`.

    Args:
        start_time: excludes groups that begin before this time, in seconds since 1970, UTC.
        stop_time: the first group that begins at this time or later ends the selection.
        include_gtids: excludes all other transactions.
        exclude_gtids: excludes these transactions.
        after_gtids: a GTID state of a server; excludes the transactions that it contains.
        up_to_gtids: a GTID state of a server; excludes the transactions that it does not contain.
        server_ids: excludes the groups of all other servers.
        databases: glob patterns of database names.
        tables, exclude_tables: globs as in `selection.table_names`.
        start, stop: positions; excludes groups that begin before `start`, or at or after `stop`. The file is a base
            name; without one the position is in the first log (`start`) or the last one (`stop`).
        operations: excludes row changes of other operations.
        condition: excludes row changes whose values do not match.
    """

    start_time: int | None = None
    stop_time: int | None = None
    include_gtids: Gtids | None = None
    exclude_gtids: Gtids | None = None
    after_gtids: Gtids | None = None
    up_to_gtids: Gtids | None = None
    server_ids: frozenset[int] | AllExcept | None = None
    databases: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    exclude_tables: tuple[str, ...] = ()
    start: Position | None = None
    stop: Position | None = None
    operations: frozenset[Operation] | None = None
    condition: RowCondition | None = None

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UnsupportedFeature: a value of another type, or an unknown operation.
            ConditionError: the stop time is before the start time.
        """
        for name, kinds, expected in _KINDS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, str) or not isinstance(value, kinds)):
                raise UnsupportedFeature("another type is needed", field=name, expected=expected, found=repr(value))
        check_values("operations", self.operations or (), OPERATIONS)
        if self.start_time is not None and self.stop_time is not None and self.stop_time < self.start_time:
            raise ConditionError("the stop time is before the start time")

    def __bool__(self) -> bool:
        """Return True if the selection has a condition."""
        return any(getattr(self, one.name) not in (None, ()) for one in fields(Selection))

    @property
    def of_groups(self) -> Selection:
        """The conditions on groups and tables alone, without positions."""
        conditions = {one.name: getattr(self, one.name) for one in fields(Selection) if one.name not in _NOT_OF_GROUPS}
        return Selection(**conditions)

    @property
    def chooses_rows(self) -> bool:
        """True if single rows are selected, by operation or value."""
        return self.operations is not None or self.condition is not None

    @property
    def start_offset(self) -> int | None:
        """The offset in the first selected log at which reading begins; None: the beginning."""
        return None if self.start is None else self.start.offset

    @property
    def stop_offset(self) -> int | None:
        """The offset in the last selected log before which reading ends; None: the end."""
        return None if self.stop is None else self.stop.offset

    def ranges(self, files: tuple[str, ...]) -> dict[str, Range]:
        """Return the range of positions of the first and last of `files`, by name; in the others all are."""
        found: dict[str, Range] = {}
        if self.start is not None:
            found[files[0]] = Range(start=self.start.offset)
        if self.stop is not None:
            found[files[-1]] = found.get(files[-1], Range()).within(Range(end=self.stop.offset))
        return found

    def event_filter(self) -> EventFilter:
        """Return the conditions on rows events, without positions, tables, and the condition on values.

        Raises:
            ConditionError: two conditions name the GTIDs to include, or to exclude.
        """
        return EventFilter(
            group_time=Range(
                LOWEST if self.start_time is None else self.start_time,
                HIGHEST if self.stop_time is None else self.stop_time,
            ),
            server_ids=self.server_ids,
            ops=self.operations,
            wanted_gtids=_only("include_gtids", self.include_gtids, "up_to_gtids", self.up_to_gtids),
            known_gtids=_only("exclude_gtids", self.exclude_gtids, "after_gtids", self.after_gtids),
        )

    @property
    def looks_inside(self) -> bool:
        """True if the selection depends on the changes of a group, not only on its first event."""
        return bool(self.names)

    def is_over(self, timestamp: int) -> bool:
        """Return whether a group that begins at this time (seconds since 1970, UTC) ends the selection."""
        return self.stop_time is not None and timestamp >= self.stop_time

    def wants_group(self, timestamp: int, gtid: Gtid | MariadbGtid | None, server_id: int) -> bool:
        """Return whether a group is selected by the time, GTID and server of its first event, without `stop_time`."""
        if self.start_time is not None and timestamp < self.start_time:
            return False
        return (self.server_ids is None or server_id in self.server_ids) and self.wants_gtid(gtid)

    def wants_gtid(self, gtid: Gtid | MariadbGtid | None) -> bool:
        """Return whether a GTID matches the conditions on GTIDs; None is a group without a GTID."""
        for gtids in (self.include_gtids, self.up_to_gtids):
            if gtids is not None and not has_gtid(gtids, gtid):
                return False
        for gtids in (self.exclude_gtids, self.after_gtids):
            if gtids is not None and has_gtid(gtids, gtid):
                return False
        return True

    def is_for_later(self, timestamp: int, gtid: Gtid | MariadbGtid | None) -> bool:
        """Return whether a group is left out because other times or GTIDs are selected, as for the first part of logs.

        The other conditions leave out what is not wanted at all: other servers and tables, and GTIDs that are named.
        """
        if self.start_time is not None and timestamp < self.start_time:
            return True
        selected = (self.include_gtids, self.up_to_gtids)
        return any(gtids is not None and not has_gtid(gtids, gtid) for gtids in selected)

    @property
    def names(self) -> TableNames:
        """The selection of tables."""
        return _table_names(self.databases, self.tables, self.exclude_tables)

    def wants_statement(self, database: str, sql: bytes) -> bool:
        """Return whether a statement with this default database is selected."""
        if not self.names.wants_database(database):
            return False
        text = sql.decode("utf-8", "replace")
        if not named_in(self.tables or self.exclude_tables, database, text):
            return not self.tables
        tables = _changed_tables(text, database)
        named = TableNames((), self.tables, self.exclude_tables)
        return not tables or any(named.wants(*name) for name in tables)

    def gtid_answer(self, gtid: str | None) -> tuple[bool, int, int]:
        """Return `wants_gtid` for a GTID as text, and the first and last number for which it has the same result."""
        return self.answer(None if gtid is None else parse_gtid(gtid))

    def answer(self, gtid: Gtid | MariadbGtid | None) -> tuple[bool, int, int]:
        """Return `wants_gtid`, and the first and last number of the GTID's source for which it has the same result."""
        return self.wants_gtid(gtid), *like_numbers(gtid, *self.gtids)

    @property
    def asks_for_gtids(self) -> bool:
        """True if the selection has a condition on GTIDs."""
        return any(gtids is not None for gtids in self.gtids)

    @property
    def gtids(self) -> tuple[Gtids | None, ...]:
        """The conditions on GTIDs."""
        return self.include_gtids, self.exclude_gtids, self.after_gtids, self.up_to_gtids

    def compiled(self) -> GroupFilter:
        """Return the selection as an object of the kernel."""
        from binlogio._kernel.event_scanner import GroupFilter  # noqa: PLC0415 - the kernel may not be installed

        return GroupFilter(
            start=self.start_time,
            stop=self.stop_time,
            server_ids=self.server_ids,
            ask_gtid=self.gtid_answer if self.asks_for_gtids else None,
            ask_table=self.names.wants if self.looks_inside else None,
            ask_statement=self.wants_statement,
        )


EVERY_CHANGE: Final = Selection()
_NOT_OF_GROUPS: Final = ("start", "stop", "operations", "condition")
_table_names: Final = lru_cache(maxsize=16)(TableNames)


def _only(one: str, first: Gtids | None, other: str, second: Gtids | None) -> Gtids | None:
    if first is not None and second is not None:
        raise ConditionError(f"{one} and {other} exclude each other when single rows are read: give only one")
    return second if first is None else first


def globs_of_statement(globs: Iterable[str], database: str, sql: str) -> set[str]:
    """Return the globs of tables that a statement with this default database changes.

    If its tables cannot be determined, those that its words match.
    """
    named = named_in(globs, database, sql)
    tables = _changed_tables(sql, database) if named else ()
    return {glob for glob in named if not tables or any(matches(glob, *name) for name in tables)}


def _changed_tables(sql: str, database: str) -> tuple[TableName, ...]:
    """Return the tables that a statement changes; empty if it changes no table or cannot be parsed."""
    from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL  # noqa: PLC0415 - only for names in statements
    from binlogio.schema.statement_scope import scope_of, statement_words  # noqa: PLC0415

    try:
        return scope_of(statement_words(sql, NEWEST_MYSQL, 0), database).tables
    except UnsupportedFeature:
        return ()
