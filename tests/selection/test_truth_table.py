"""The same selection selects the same row changes in every command and in Python, and Spark."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import (
    BinlogWriter,
    ColumnDefinition,
    Delete,
    GroupChoice,
    Insert,
    ServerVariables,
    Statement,
    TableDefinition,
    Update,
)
from binlogio.dotted_names import dotted_name
from binlogio.selection.event_filter import EventFilter, Range, parse_gtid_set
from binlogio.selection.table_names import TableNames
from binlogio_cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DRAWS: Final = int(os.environ.get("BINLOGIO_SELECTIONS", "20"))
NAMES: Final = [("shop", "orders"), ("shop", "items"), ("a.b", "c"), ("a", "b.c"), ("audit", "log")]
GLOBS: Final = ["orders", "shop.*", "*o*", "`a.b`.c", "a.`b.c`", "a.b.c", "c", "?udit.l[of]g", "*", "shop.items", "*.c"]
COLUMNS: Final = (ColumnDefinition("id", "int"), ColumnDefinition("total", "int"))
TABLES: Final = {name: TableDefinition(*name, COLUMNS, ("id",)) for name in NAMES}
GTID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
START: Final = 1_795_000_000
OPPOSITE: Final = {"insert": "delete", "delete": "insert", "update": "update"}
SQL: Final = {"INSERT INTO": "insert", "UPDATE": "update", "DELETE FROM": "delete"}

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
        self.databases = tuple(source.sample(["shop", "a*", "a.b", "*"], source.choice([0, 0, 0, 1, 2])))
        self.tables = tuple(source.sample(GLOBS, source.choice([0, 0, 1, 2])))
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


# --------------------------------------------------------------------------------------------------------------- doors

REFUSED: Final = "refused"


def run(*arguments: str) -> str:
    """Run a command, and return its output."""
    done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, (arguments, done.stderr)
    return done.stdout


def of_batches(batches: Any, *, reverse: bool = False) -> Counter[Change]:
    """Return the changes of record batches."""
    found: Counter[Change] = Counter()
    for name, batch in batches:
        for one in batch.select(["op", "before", "after"]).to_pylist():
            op = OPPOSITE[one["op"]] if reverse else one["op"]
            found[name, op, (one["after"] or one["before"])["id"]] += 1
    return found


def dump_json(choice: Choice, _folder: Path) -> Counter[Change]:
    found: Counter[Change] = Counter()
    kinds = {"WRITE": "insert", "UPDATE": "update", "DELETE": "delete"}
    for line in run("dump", "--format", "json", *choice.arguments, *choice.logs.files).splitlines():
        event = json.loads(line)
        for row in event.get("rows", ()):
            op = kinds[event["type"].split("_")[0]]
            found[dotted_name(event["schema"], event["table"]), op, (row.get("after") or row["before"])["id"]] += 1
    return found


def dump_text(choice: Choice, _folder: Path) -> Counter[Change]:
    found: Counter[Change] = Counter()
    text = run("dump", "-s", *choice.arguments, *choice.logs.files)
    for sql, schema, table, key in re.findall(
        r"### (INSERT INTO|UPDATE|DELETE FROM) `([^`]+)`\.`([^`]+)`\n### \w+\n###   `id`=(\d+)", text
    ):
        found[dotted_name(schema, table), SQL[sql], int(key)] += 1
    return found


def undo(choice: Choice, folder: Path) -> Counter[Change]:
    run("undo", "--to-binlog", str(folder / "undo"), "--quiet", *choice.arguments, *choice.logs.files)
    log = folder / "undo"
    return of_batches(binlogio.read_tables(log), reverse=True) if log.exists() else Counter()


def copy(choice: Choice, folder: Path) -> Counter[Change]:
    run("copy", "--output", str(folder / "copy"), "--quiet", *choice.arguments, *choice.logs.files)
    return of_batches(binlogio.read_tables(folder / "copy"))


def export(choice: Choice, folder: Path) -> Counter[Change]:
    to = folder / "export"
    run("export", "--to", str(to), "--format", "parquet", "--quiet", *choice.arguments, *choice.logs.files)
    import pyarrow.parquet as pq  # noqa: PLC0415 - of this door only

    found: Counter[Change] = Counter()
    tables = {change[2]: change[0] for *_, changes in choice.logs.groups for change, *_ in changes}
    for path in to.glob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            key = (row["after"] or row["before"])["id"]
            found[tables[key], row["op"], key] += 1
    return found


def grep(choice: Choice, _folder: Path) -> Counter[Change] | str:
    if choice.ends != [None, None]:
        return REFUSED
    found: Counter[Change] = Counter()
    for line in run("grep", choice.condition or "id >= 0", "--json", *choice.options, *choice.logs.files).splitlines():
        one = json.loads(line)
        found[dotted_name(one["schema"], one["table"]), one["op"], (one["after"] or one["before"])["id"]] += 1
    return found


def history(choice: Choice, _folder: Path) -> Counter[Change] | str:
    """Return the history of the first row of the logs."""
    if choice.ends != [None, None] or choice.condition is not None or choice.databases or choice.tables:
        return REFUSED
    if choice.excluded:
        return REFUSED
    table, _, key = choice.first
    text = run("history", table, str(key), "--json", "--no-statements", *choice.options, *choice.logs.files)
    return Counter((table, one["op"], key) for one in map(json.loads, text.splitlines()))


def opened(choice: Choice, _folder: Path) -> Counter[Change] | str:
    """Return the changes of the groups that a reader passes on, of the selected tables."""
    if choice.ends != [None, None] or choice.condition is not None or choice.ops:
        return REFUSED
    found: Counter[Change] = Counter()
    start, stop = choice.times
    wanted, known = (None if one is None else parse_gtid_set(choice.gtid_text(one)) for one in choice.gtids)
    with binlogio.open(choice.logs.files) as reader:
        reader.choose(
            GroupChoice(
                start_time=start,
                stop_time=stop,
                include_gtids=wanted,
                exclude_gtids=known,
                server_ids=None if choice.server is None else frozenset({choice.server}),
                databases=choice.databases,
                tables=choice.tables,
                exclude_tables=choice.excluded,
            )
        )
        for event in reader:
            if isinstance(event, binlogio.RowsEvent):
                table = reader.table_map(event)
                name = dotted_name(table.schema, table.table)
                for row in reader.rows(event) if choice.names.wants(table.schema, table.table) else ():
                    image: Any = row.after or row.before
                    found[name, event.operation.op, image.as_dict()["id"]] += 1
    return found


def stats(choice: Choice, _folder: Path) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for one in json.loads(run("stats", "--json", "--quiet", *choice.arguments, *choice.logs.files))["tables"]:
        found.update({(one["table"], op): one[f"{op}s"] for op in OPPOSITE if one[f"{op}s"]})
    return found


def replay(choice: Choice, _folder: Path) -> Counter[str]:
    text = run("replay", "--to", "dry-run:", "--quiet", *choice.arguments, *choice.logs.files)
    counts = re.search(r"(\d+) rows inserted, (\d+) updated, (\d+) deleted", text)
    assert counts is not None
    numbers = zip(("insert", "update", "delete"), map(int, counts.groups()), strict=True)
    return Counter({op: number for op, number in numbers if number})


def event_filter(choice: Choice) -> EventFilter:
    """Return the conditions on events."""
    start, stop = choice.times
    wanted, known = (None if one is None else parse_gtid_set(choice.gtid_text(one)) for one in choice.gtids)
    return EventFilter(
        group_time=Range(*(default if one is None else one for one, default in ((start, 0), (stop, 1 << 62)))),
        wanted_gtids=wanted,
        known_gtids=known,
        server_ids=None if choice.server is None else frozenset({choice.server}),
    )


def read_tables(choice: Choice, _folder: Path) -> Counter[Change] | str:
    if choice.ends != [None, None]:
        return REFUSED
    where: list[Any] = [event_filter(choice), *([] if choice.condition is None else [choice.condition])]
    ops: Any = choice.ops or None
    return of_batches(binlogio.read_tables(choice.logs.files, tables=choice.names, where=where, ops=ops))


def read_rows(choice: Choice, _folder: Path) -> Counter[Change] | str:
    if choice.ends != [None, None] or choice.condition is not None:
        return REFUSED
    ops: Any = choice.ops or None
    return of_json(binlogio.read_rows(choice.logs.files, tables=choice.names, where=event_filter(choice), ops=ops))


def spark(choice: Choice, _folder: Path) -> Counter[Change] | str:
    """Return the changes of the tasks of a read, without a session; its other conditions are filters of Spark."""
    others = (choice.databases, choice.excluded, choice.ops, choice.condition, choice.server, *choice.times)
    if any(one not in (None, (), []) for one in others):
        return REFUSED
    pytest.importorskip("pyspark.sql.datasource")
    from spark_frames import tasks  # noqa: PLC0415 - Spark is optional

    positions = [None if one is None else f"{one[0]}:{one[1]}" for one in choice.ends]
    gtids = [None if one is None else choice.gtid_text(one) for one in choice.gtids]
    options = {
        "tables": ",".join(choice.tables) or None,
        "startingPosition": positions[0],
        "endingPosition": positions[1],
        "endingGtids": gtids[0],
        "startingGtids": gtids[1],
    }
    batches = tasks(*choice.logs.files, **{name: one for name, one in options.items() if one is not None})
    return of_json(batches)


def of_json(batches: Any) -> Counter[Change]:
    """Return the changes of record batches whose images are JSON."""
    found: Counter[Change] = Counter()
    for batch in batches:
        for one in batch.to_pylist():
            image = json.loads(one["after"] or one["before"])
            found[dotted_name(one["schema"], one["table"]), one["op"], image["id"]] += 1
    return found


DOORS: Final[dict[str, Callable[[Choice, Path], Any]]] = {
    one.__name__: one
    for one in (
        dump_json,
        dump_text,
        undo,
        copy,
        export,
        grep,
        history,
        opened,
        stats,
        replay,
        read_tables,
        read_rows,
        spark,
    )
}


@pytest.mark.parametrize("seed", range(4))
def test_every_door_selects_the_same_changes(seed: int, tmp_path: Path) -> None:
    logs, source = Logs(write(tmp_path, seed)), random.Random(seed)
    wrong = []
    for number in range(max(1, DRAWS // 4)):
        choice = Choice(logs, source)
        expected = choice.expected()
        by_table: Counter[Any] = Counter()
        by_op: Counter[Any] = Counter()
        for (table, op, _), count in expected.items():
            by_table[table, op] += count
            by_op[op] += count
        one = choice.first
        other = {"history": Counter({one: expected[one]} if expected[one] else {})}
        for name, door in DOORS.items():
            folder = tmp_path / f"{number}-{name}"
            folder.mkdir()
            found = door(choice, folder)
            if found not in (REFUSED, {**other, "stats": by_table, "replay": by_op}.get(name, expected)):
                wrong.append((name, choice.arguments, found, expected))

    assert not wrong, "\n".join(map(repr, wrong))
