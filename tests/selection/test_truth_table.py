"""The same selection selects the same row changes in every command and in Python, and Spark."""

from __future__ import annotations

import base64
import json
import os
import random
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.dotted_names import dotted_name
from binlogio_cli.main import cli
from random_selections import Change, Choice, Logs, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DRAWS: Final = int(os.environ.get("BINLOGIO_SELECTIONS", "20"))
OPPOSITE: Final = {"insert": "delete", "delete": "insert", "update": "update"}
SQL: Final = {"INSERT INTO": "insert", "UPDATE": "update", "DELETE FROM": "delete"}

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
            keys = [image["id"] for image in (one["before"], one["after"]) if image is not None]
            found[name, op, keys[0]] += 1  # a MINIMAL image after the change has no key
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


def dump_sql(choice: Choice, folder: Path) -> Counter[Change] | str:
    """Return the changes of the events that a client would send with BINLOG."""
    if choice.ops or choice.condition is not None:
        return REFUSED
    text = run("dump", "--format", "sql", "--quiet", *choice.options, *choice.logs.files)
    log = folder / "sent"
    log.write_bytes(b"\xfebin" + b"".join(base64.b64decode(one) for one in re.findall(r"BINLOG '([^']*)'", text)))
    return of_batches(binlogio.read_tables(log, verify_checksum=False)) if log.stat().st_size > 4 else Counter()


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


def grep(choice: Choice, _folder: Path) -> Counter[Change]:
    found: Counter[Change] = Counter()
    for line in run("grep", choice.condition or "id >= 0", "--json", *choice.options, *choice.logs.files).splitlines():
        one = json.loads(line)
        found[dotted_name(one["schema"], one["table"]), one["op"], (one["after"] or one["before"])["id"]] += 1
    return found


def history(choice: Choice, _folder: Path) -> Counter[Change] | str:
    """Return the history of the first row of the logs."""
    if choice.condition is not None or choice.databases or choice.tables or choice.excluded:
        return REFUSED
    table, _, key = choice.first
    text = run("history", table, str(key), "--json", "--no-statements", *choice.options, *choice.logs.files)
    return Counter((table, one["op"], key) for one in map(json.loads, text.splitlines()))


def opened(choice: Choice, _folder: Path) -> Counter[Change] | str:
    """Return the changes of the groups that a reader passes on, of the selected tables."""
    if choice.ends != [None, None] or choice.condition is not None or choice.ops:
        return REFUSED
    found: Counter[Change] = Counter()
    with binlogio.open(choice.logs.files) as reader:
        reader.choose(choice.selection)
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
    counts = re.search(r"(\d+) rows? inserted, (\d+) updated, (\d+) deleted", text)
    assert counts is not None
    numbers = zip(("insert", "update", "delete"), map(int, counts.groups()), strict=True)
    return Counter({op: number for op, number in numbers if number})


def read_tables(choice: Choice, _folder: Path) -> Counter[Change] | str:
    if choice.ends != [None, None]:
        return REFUSED
    return of_batches(binlogio.read_tables(choice.logs.files, where=choice.of_rows))


def read_rows(choice: Choice, _folder: Path) -> Counter[Change] | str:
    if choice.ends != [None, None] or choice.condition is not None:
        return REFUSED
    return of_json(binlogio.read_rows(choice.logs.files, where=choice.of_rows))


def spark(choice: Choice, _folder: Path) -> Counter[Change] | str:
    """Return the changes of the tasks of a read, without a session; its other conditions are filters of Spark."""
    others = (choice.databases, choice.excluded, choice.ops, choice.condition, choice.server)
    if any(one not in (None, (), []) for one in others):
        return REFUSED
    pytest.importorskip("pyspark.sql.datasource")
    from spark_frames import tasks  # noqa: PLC0415 - Spark is optional

    return of_json(tasks(*choice.logs.files, **choice.spark_options))


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
        dump_sql,
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
