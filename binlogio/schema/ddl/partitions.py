"""Partitions of a table: the rows that a statement removes when it truncates or drops one.

Supports PARTITION BY RANGE and LIST over a column or its year, which need no evaluation of expressions.
The result for all other kinds is None.

    partitions := PARTITION BY (RANGE | LIST) "(" (column | YEAR "(" column ")" | TO_DAYS "(" column ")") ")"
                  "(" partition ("," partition)* ")"
    partition  := PARTITION name
                  VALUES (LESS THAN ("(" number ")" | MAXVALUE) | IN "(" (number | NULL) ("," ...)* ")") option*
    change     := (DROP | TRUNCATE) PARTITION (ALL | name ("," name)*)
                | ADD PARTITION "(" partition ("," partition)* ")"

Source: sql/sql_yacc.yy, rule opt_create_partitioning; sql/partition_info.cc, get_partition_id_range,
get_partition_id_list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.ddl.tokens import Unparsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlogio.schema.ddl.tokens import Name, Words

_REMOVING: Final = ("DROP", "TRUNCATE")
MOVING: Final = ("EXCHANGE", "DISCARD", "IMPORT")
"""The verbs after which the rows of a partition are in another table or file, and those of that in the partition."""

_FUNCTIONS: Final = ("YEAR", "TO_DAYS")
_DATE_SIZE: Final = len("2000-01-01")
_DAY_OF_ORDINAL_ZERO: Final = 365  # TO_DAYS('0001-01-01') is 366, date.toordinal() of it 1
_MOST: Final = 8192  # partitions of a table

Bound = int | None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: of RANGE its one value is the end, None for MAXVALUE.

    Of LIST they are those that it has, None for NULL.
    """

    name: str
    values: tuple[Bound, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The partitions of a table; `function` is YEAR, TO_DAYS, or empty for the column itself."""

    is_range: bool
    column: str
    function: str
    partitions: tuple[Partition, ...]

    def name_of(self, value: Any) -> str | None:
        """Return the partition of a row with this value in the column, as number or in the server's text form.

        None if no partition accepts the value.

        Raises:
            ValueError: the partition cannot be determined.
        """
        number = self._number(value)
        if not self.is_range:
            return next((one.name for one in self.partitions if number in one.values), None)
        for one in self.partitions:
            (end,) = one.values
            if number is None or end is None or number < end:
                return one.name
        return None

    def _number(self, value: Any) -> int | None:
        if value is None:
            return None
        if not self.function:
            if isinstance(value, int):
                return value
            raise ValueError(value)
        year, month, day = (int(part) for part in str(value)[:_DATE_SIZE].split("-"))
        if self.function == "YEAR":
            return year
        from datetime import date  # noqa: PLC0415 - only here

        return date(year, month, day).toordinal() + _DAY_OF_ORDINAL_ZERO

    def renamed(self, names: Mapping[str, str]) -> Partitions:
        """With the column as it is called now; `names` are old names in small letters to new ones."""
        return replace(self, column=names.get(self.column.casefold(), self.column))

    def to_json(self) -> dict[str, Any]:
        """Return the partitions as a JSON object."""
        return {
            "is_range": self.is_range,
            "column": self.column,
            "function": self.function,
            "partitions": [[one.name, one.values] for one in self.partitions],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Partitions:
        """Return the object of `to_json`. Raises KeyError, TypeError or ValueError for anything else."""
        partitions = tuple(Partition(name, tuple(values)) for name, values in value["partitions"])
        return cls(
            is_range=value["is_range"], column=value["column"], function=value["function"], partitions=partitions
        )


@dataclass(frozen=True, slots=True)
class PartitionClause:
    """A clause of ALTER TABLE about partitions.

    `verb` is its first word: PARTITION (BY), REMOVE (PARTITIONING), or that before PARTITION. `names` of DROP and
    TRUNCATE are in small letters, empty for ALL; `added` is empty where it is not known. `table` is that of EXCHANGE.
    """

    verb: str
    names: tuple[str, ...] = ()
    partitions: Partitions | None = None
    is_range: bool = False
    added: tuple[Partition, ...] = ()
    table: Name | None = None
    problem: Unparsed | None = None

    @property
    def drops_rows(self) -> bool:
        """True if rows may go, or others come."""
        return self.verb in (*_REMOVING, *MOVING)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A change of partitions by ALTER TABLE.

    `names` are empty for ALL; `left` is how the table is partitioned then, None if unknown.
    """

    drops_rows: bool
    names: tuple[str, ...]
    left: Partitions | None

    def has(self, name: str) -> bool:
        """Return whether a partition is emptied."""
        return not self.names or name.casefold() in self.names


def read_partitions(words: Words) -> Partitions | None:
    """Return the PARTITION BY after the current token; None without one, or if it is not supported."""
    while not words.ended and not words.sees("PARTITION", "BY"):
        words.take()
    try:
        return _read(words) if words.accept("PARTITION", "BY") else None
    except UnsupportedFeature:
        return None


def read_partition_clause(words: Words) -> PartitionClause:
    """Return the clause of an ALTER TABLE that begins at the place, about partitions; moves to its end or into it."""
    verb = words.take().upper
    words.take()  # PARTITION, or PARTITIONING
    try:
        if verb == "PARTITION":
            words.at -= 2
            return PartitionClause(verb, partitions=read_partitions(words))
        if verb == "ADD":
            is_range, added = _list(words) if words.sees("(") else (False, ())
            return PartitionClause(verb, is_range=is_range, added=added)
        if verb in _REMOVING:
            return PartitionClause(verb, names=_names(words))
        if verb == "EXCHANGE":
            words.name()
            words.expect("WITH", "TABLE")
            return PartitionClause(verb, table=words.table_name())
    except UnsupportedFeature as exc:
        return PartitionClause(verb, problem=Unparsed.of(exc))
    return PartitionClause(verb)


def partition_change(clause: PartitionClause | None, partitions: Partitions | None) -> PartitionChange | None:
    """Return the change that a clause makes to the partitions of a table; None if it changes nothing.

    Raises:
        UnsupportedFeature: rows may be removed, and it is not known which.
    """
    if clause is None:
        return None
    if clause.verb == "ADD":
        left = None
        if clause.added and partitions is not None and partitions.is_range == clause.is_range:
            left = replace(partitions, partitions=(*partitions.partitions, *clause.added))
        return PartitionChange(drops_rows=False, names=(), left=left)
    if clause.problem is not None:
        raise clause.problem.error()
    if clause.verb in _REMOVING:
        return _removed(clause, partitions)
    if clause.verb in ("PARTITION", "REMOVE", "REORGANIZE", "COALESCE"):
        return PartitionChange(drops_rows=False, names=(), left=clause.partitions)
    return None


def _removed(clause: PartitionClause, partitions: Partitions | None) -> PartitionChange:
    if partitions is None and clause.names:
        raise UnsupportedFeature(
            "the statement cannot be followed",
            field="SQL",
            expected="partitions by RANGE or LIST of a column that the log describes",
            found=repr(f"{clause.verb} PARTITION {', '.join(clause.names)}"),
        )
    left = partitions
    if clause.verb == "DROP" and partitions is not None:
        left = replace(
            partitions, partitions=tuple(p for p in partitions.partitions if p.name.casefold() not in clause.names)
        )
    return PartitionChange(drops_rows=True, names=clause.names, left=left)


def _names(words: Words) -> tuple[str, ...]:
    """Return the names of partitions, in small letters; none for ALL."""
    words.accept("IF", "EXISTS")
    if words.accept("ALL"):
        return ()
    names = [words.name().casefold()]
    while words.accept(","):
        names.append(words.name().casefold())
    return tuple(names)


def _read(words: Words) -> Partitions:
    is_range = words.accept_any("RANGE", "LIST") == "RANGE"
    words.expect("(")
    function = words.accept_any(*_FUNCTIONS)
    if function:
        words.expect("(")
    column = words.name()
    if function:
        words.expect(")")
    words.expect(")")
    lists_ranges, partitions = _list(words)
    if lists_ranges != is_range:
        words.refuse("VALUES of the same kind as the partitions")
    return Partitions(is_range=is_range, column=column, function=function, partitions=partitions)


def _list(words: Words) -> tuple[bool, tuple[Partition, ...]]:
    """Return whether the partitions are of RANGE, and the partitions."""
    words.expect("(")
    found: list[Partition] = []
    is_range = None
    while len(found) < _MOST:
        words.expect("PARTITION")
        name = words.name()
        words.expect("VALUES")
        if is_range is None:
            is_range = words.sees("LESS")
        found.append(Partition(name, _end(words) if is_range else _members(words)))
        while not words.ended and words.next.upper not in (",", ")"):
            words.skip_one()
        if not words.accept(","):
            break
    words.expect(")")
    return bool(is_range), tuple(found)


def _end(words: Words) -> tuple[Bound, ...]:
    words.expect("LESS", "THAN")
    if words.accept("MAXVALUE") or words.accept("(", "MAXVALUE", ")"):
        return (None,)
    words.expect("(")
    end = _integer(words)
    words.expect(")")
    return (end,)


def _members(words: Words) -> tuple[Bound, ...]:
    words.expect("IN")
    words.expect("(")
    found: list[Bound] = []
    while True:
        found.append(None if words.accept("NULL") else _integer(words))
        if not words.accept(","):
            break
    words.expect(")")
    return tuple(found)


def _integer(words: Words) -> int:
    sign = -1 if words.accept("-") else 1
    return sign * words.number()
