"""Random selections over random logs, with their expected changes by a plain loop."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import binlogio
from binlogio import (
    BinlogWriter,
    ColumnDefinition,
    Delete,
    Insert,
    Selection,
    ServerVariables,
    Statement,
    TableDefinition,
    Update,
)
from binlogio.dotted_names import dotted_name
from binlogio.selection.event_filter import OPERATIONS, parse_gtid_set
from binlogio.selection.row_condition import RowCondition
from binlogio.selection.table_names import TableNames

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES: Final = [("shop", "orders"), ("shop", "items"), ("a.b", "c"), ("a", "b.c"), ("audit", "log")]
GLOBS: Final = ["orders", "shop.*", "*o*", "`a.b`.c", "a.`b.c`", "a.b.c", "c", "?udit.l[of]g", "*", "shop.items", "*.c"]
DATABASES: Final = ["shop", "a*", "a.b", "*"]
COLUMNS: Final = (ColumnDefinition("id", "int"), ColumnDefinition("total", "int"))
TABLES: Final = {name: TableDefinition(*name, COLUMNS, ("id",)) for name in NAMES}
GTID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
START: Final = 1_795_000_000

Change = tuple[str, str, int]
"""The table, the operation, and the key of the row."""


class Clock:
    """A clock that each call moves on, so that the events of a transaction have different times."""

    def __init__(self, source: random.Random) -> None:
        self.now, self._source = START, source

    def __call__(self) -> int:
        """Return the time in microseconds."""
        self.now += self._source.randrange(2)
        return self.now * 1_000_000


def write(folder: Path, seed: int) -> tuple[str, ...]:
    """Write two small logs: transactions with changes of one to three tables."""
    source, key = random.Random(seed), 0
    variables = ServerVariables(
        binlog_row_metadata="FULL",
        server_uuid=GTID,
        server_id=7,
        binlog_transaction_compression=seed % 3 == 0,
    )
    with BinlogWriter(folder / "binlog", variables=variables, clock=Clock(source)) as log, log.session() as session:
        for number in range(12):
            if number == 6:
                session.flush_logs()
            session.begin()
            for name in source.sample(NAMES, source.randrange(1, 4)):
                rows = [(key + one, source.randrange(20)) for one in range(source.randrange(1, 4))]
                key += len(rows)
                session.execute(
                    source.choice(
                        [
                            Statement("INSERT", [Insert(TABLES[name], rows)]),
                            Statement("DELETE", [Delete(TABLES[name], rows)]),
                            Statement("UPDATE", [Update(TABLES[name], [((a, b), (a, b + 1)) for a, b in rows])]),
                        ]
                    )
                )
            session.commit()
    return tuple(str(path) for path in sorted(folder.glob("binlog.0*")))


class Logs:
    """Logs with all their changes, by group: the base name of the log, offset, time, GTID, changes and totals."""

    def __init__(self, files: Sequence[str]) -> None:
        self.files = tuple(files)
        self.groups: list[tuple[str, int, int, str, list[tuple[Change, str, str, set[int]]]]] = []
        for file in files:
            with binlogio.open(file, ignore_missing_logs=True) as reader:
                for group in reader.groups():
                    changes: list[tuple[Change, str, str, set[int]]] = []
                    for event in group:
                        if isinstance(event, binlogio.RowsEvent):
                            table = reader.table_map(event)
                            for row in reader.rows(event):
                                found = [one for one in (row.after, row.before) if one is not None]
                                images: list[Any] = [one.as_dict() for one in found]
                                image, totals = images[0], {int(one["total"]) for one in images}
                                name = dotted_name(table.schema, table.table)
                                change = name, event.operation.op, int(image["id"])
                                changes.append((change, table.schema, table.table, totals))
                    if changes:
                        place = Path(file).name, group.begin
                        self.groups.append((*place, group.timestamp, str(group.gtid), changes))

    def where(self, at: tuple[str, int]) -> int:
        """Return the number of the group that begins at a position."""
        return [(file, begin) for file, begin, *_ in self.groups].index(at)


class Choice:
    """A random selection: its options, and its result by a plain loop over the changes."""

    def __init__(self, logs: Logs, source: random.Random) -> None:
        self.logs, self.options = logs, []
        there = {(schema, table) for *_, changes in logs.groups for _, schema, table, _ in changes}
        schemas = [one for one in DATABASES if any(TableNames(databases=(one,)).wants(*name) for name in there)]
        globs = [one for one in GLOBS if any(TableNames(tables=(one,)).wants(*name) for name in there)]
        self.databases = tuple(source.sample(schemas, source.choice([0, 0, 0, 1, 2])))
        self.tables = tuple(source.sample(globs, source.choice([0, 0, 1, 2])))
        self.excluded = tuple(source.sample(GLOBS, source.choice([0, 0, 0, 1])))
        self.ops = source.sample(["insert", "update", "delete"], source.choice([0, 0, 0, 1, 2]))
        self.least = source.choice([None, None, None, 5, 12])
        self.times = [source.choice([None, None, None, one[2]]) for one in sorted(source.sample(logs.groups, 2))]
        ends = sorted(source.sample(range(len(logs.groups)), 2)) if source.random() < 0.2 else [None, None]
        self.ends = [None if one is None else logs.groups[one][:2] for one in ends]
        self.gtids = [source.choice([None, None, None, source.sample(range(1, 13), 6)]) for _ in range(2)]
        self.server = source.choice([None, None, None, None, 7, 8])
        for name, values in (
            ("--database", self.databases),
            ("--table", self.tables),
            ("--exclude-table", self.excluded),
            ("--operation", [",".join(self.ops)] if self.ops else []),
            ("--start-datetime", self.times[:1]),
            ("--stop-datetime", self.times[1:]),
            ("--start-position", [one and f"{one[0]}:{one[1]}" for one in self.ends[:1]]),
            ("--stop-position", [one and f"{one[0]}:{one[1]}" for one in self.ends[1:]]),
            ("--include-gtids", [one and self.gtid_text(one) for one in self.gtids[:1]]),
            ("--exclude-gtids", [one and self.gtid_text(one) for one in self.gtids[1:]]),
            ("--server-id", [self.server]),
        ):
            self.options += [part for value in values if value is not None for part in (name, str(value))]
        self.names = TableNames(self.databases, self.tables, self.excluded)

    @property
    def first(self) -> Change:
        """A change in the middle of the logs."""
        changes: list[Change] = [change for change, *_ in self.logs.groups[len(self.logs.groups) // 2][4]]
        return changes[0]

    @property
    def condition(self) -> str | None:
        """The condition on values."""
        return None if self.least is None else f"total > {self.least}"

    @property
    def arguments(self) -> list[str]:
        """The options of a command, with the condition."""
        return [*self.options, *(["--where", self.condition] if self.condition is not None else [])]

    @property
    def selection(self) -> Selection:
        """The selection in Python, without positions and without single rows."""
        start, stop = self.times
        wanted, known = (None if one is None else parse_gtid_set(self.gtid_text(one)) for one in self.gtids)
        return Selection(
            start_time=start,
            stop_time=stop,
            include_gtids=wanted,
            exclude_gtids=known,
            server_ids=None if self.server is None else frozenset({self.server}),
            databases=self.databases,
            tables=self.tables,
            exclude_tables=self.excluded,
        )

    @property
    def of_rows(self) -> Selection:
        """The same with single rows."""
        return replace(
            self.selection,
            operations=OPERATIONS.intersection(self.ops) or None,
            condition=None if self.condition is None else RowCondition(self.condition),
        )

    @property
    def spark_options(self) -> dict[str, str]:
        """The options of Spark; its other conditions are filters of data frames."""
        start, end = (None if one is None else f"{one[0]}:{one[1]}" for one in self.ends)
        wanted, known = (None if one is None else self.gtid_text(one) for one in self.gtids)
        first, last = (None if one is None else str(one) for one in self.times)
        options = {
            "tables": ",".join(self.tables) or None,
            "startingPosition": start,
            "endingPosition": end,
            "endingGtids": wanted,
            "startingGtids": known,
            "startingTimestamp": first,
            "endingTimestamp": last,
        }
        return {name: value for name, value in options.items() if value is not None}

    @staticmethod
    def gtid_text(numbers: Sequence[int]) -> str:
        """Return a GTID set."""
        return f"{GTID}:" + ":".join(str(one) for one in sorted(numbers))

    def expected(self) -> Counter[Change]:
        """Return the selected changes."""
        found: Counter[Change] = Counter()
        first, last = (None if one is None else self.logs.where(one) for one in self.ends)
        for number, (_, _, timestamp, gtid, changes) in enumerate(self.logs.groups):
            own = int(gtid.rpartition(":")[2])
            wanted = (
                (first is None or number >= first)
                and (last is None or number < last)
                and (self.times[0] is None or timestamp >= self.times[0])
                and (self.times[1] is None or timestamp < self.times[1])
                and (self.gtids[0] is None or own in self.gtids[0])
                and (self.gtids[1] is None or own not in self.gtids[1])
                and self.server in (None, 7)
            )
            for change, schema, table, totals in changes if wanted else ():
                if (
                    self.names.wants(schema, table)
                    and (not self.ops or change[1] in self.ops)
                    and (self.least is None or max(totals) > self.least)
                ):
                    found[change] += 1
        return found
