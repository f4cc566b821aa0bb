"""Recorded scenarios: statements, answers and the log of a 9.7.4 server (`fixtures/oracle`, or BINLOGIO_ORACLE).

Those of `more.jsonl.gz` were recorded by `fixtures/record_oracle.py`.

Knows the file's format. A driver must not look at `binlog`, `counters` and `Step.events` before it compares.
"""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from corpus import FIXTURES

Json = dict[str, Any]
ORACLE: Final = FIXTURES / "oracle"


class NotDrivenError(Exception):
    """The driver does not understand a scenario; says what."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line of the file that is no scenario of this form, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One statement of one session.

    `changes` are row operations in the order of execution where these were recorded.
    """

    session: str
    sql: str
    kind: str
    error: int | None
    warnings: tuple[int, ...]
    warning_texts: tuple[tuple[str, int, str], ...]
    tables: tuple[Json, ...]
    changes: tuple[Json, ...]
    are_attempts: bool
    events: tuple[int, int]
    columns: dict[str, list[str]]
    context: tuple[Json, ...]
    operation: str
    savepoint: str
    affected: int | None
    info: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of some statements in one format."""

    name: str
    group: str
    format: str
    session_variables: Json
    global_variables: Json
    gtid_mode: str
    setup: Json
    steps: tuple[Step, ...]
    binlog: tuple[Json, ...] = field(repr=False)
    counters: dict[str, int]


def oracle_path() -> Path:
    """Return the file of scenarios, or the folder of the files of the project."""
    return Path(os.environ.get("BINLOGIO_ORACLE") or ORACLE)


@cache
def scenarios() -> tuple[Scenario, ...]:
    """All scenarios of the file that have the form."""
    return tuple(one for one in _lines() if isinstance(one, Scenario))


def unreadable() -> tuple[Unreadable, ...]:
    """Return the lines of the file that do not have the form."""
    return tuple(one for one in _lines() if isinstance(one, Unreadable))


@cache
def _lines() -> tuple[Scenario | Unreadable, ...]:
    path = oracle_path()
    return tuple(one for file in (sorted(path.iterdir()) if path.is_dir() else [path]) for one in parsed(_data(file)))


def _data(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def parsed(data: bytes) -> tuple[Scenario | Unreadable, ...]:
    """Each line as a scenario, or why it is none."""
    lines: list[tuple[str, Any]] = []
    for number, text in enumerate(data.splitlines(), start=1):
        if not text.strip():
            continue
        try:
            line = _expanded(json.loads(text))
        except ValueError as exc:
            lines.append((f"line {number}", exc))
        else:
            name = line.get("id") if isinstance(line, dict) else None
            lines.append((str(name or f"line {number}"), line))
    tables = [line for _, line in lines if isinstance(line, dict) and line.get("group") == "std-tables"]
    setups = {line["id"]: line["setup"] for line in tables if line.keys() >= {"id", "setup"}}
    return tuple(_scenario_or_reason(name, line, setups) for name, line in lines if line not in tables)


def _scenario_or_reason(name: str, line: Any, setups: dict[str, Json]) -> Scenario | Unreadable:
    if not isinstance(line, dict):
        return Unreadable(name, f"not a JSON object: {line}" if isinstance(line, ValueError) else "not a JSON object")
    try:
        return _scenario(line, setups)
    except KeyError as exc:
        return Unreadable(name, f"there is no {exc}")
    except (TypeError, ValueError, IndexError) as exc:
        return Unreadable(name, f"a value has another form: {exc}")


def _scenario(line: Json, setups: dict[str, Json]) -> Scenario:
    settings = line["settings"]
    setup = line["setup"]
    return Scenario(
        name=line["id"],
        group=line["group"],
        format=line["format"],
        session_variables=settings["session"],
        global_variables=settings["global"],
        gtid_mode=settings["gtid_mode"],
        setup=setups[setup] if isinstance(setup, str) else setup,
        steps=tuple(_step(step) for step in line["steps"]),
        binlog=tuple(line["binlog"]),
        counters=line["counters"],
    )


def _step(step: Json) -> Step:
    return Step(
        session=step["session"],
        sql=step["sql"],
        kind=step["kind"],
        error=step["error"],
        warnings=tuple(step["warnings"]),
        warning_texts=tuple((level, number, text) for level, number, text in step.get("warning_texts", ())),
        tables=tuple(step["tables"]),
        changes=tuple(step["attempted"] if "attempted" in step else step["changes"]),
        are_attempts="attempted" in step,
        events=(step["events"][0], step["events"][1]),
        columns=step.get("cols", {}),
        context=tuple(step.get("context", ())),
        operation=step.get("op", ""),
        savepoint=step.get("savepoint", ""),
        affected=step["affected"],
        info=step.get("info", ""),
    )


def _expanded(value: Any) -> Any:
    """Long strings as they were."""
    if isinstance(value, dict):
        if value.keys() in ({"repeat", "n"}, {"repeat", "n", "prefix"}):
            return value.get("prefix", "") + value["repeat"] * value["n"]
        return {key: _expanded(inner) for key, inner in value.items()}
    return [_expanded(inner) for inner in value] if isinstance(value, list) else value
