"""Drives sessions through a recorded scenario, by the public API alone, and says what is not as recorded.

Knows how a scenario becomes a writer with sessions, and what is compared: errors and warnings of each statement, which
events were in the log when it ended, every recorded fact of every event, and the four counters of the caches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BytesIO
from itertools import count
from typing import Any, Final

from binlogio.constants import HeaderFlag
from binlogio.errors import LoggingError
from binlogio.gtid import Gtid
from binlogio.options import VARIABLE_NAMES, ServerVariables
from binlogio.reader import open as open_logs
from binlogio.writer import BinlogWriter, Session
from conformance.recorded_form import FILE_EVENTS, Recorder, same_value
from conformance.scenarios import Json, Scenario
from conformance.statements import LOGGING_ERRORS, run_step, variable_value
from conformance.tables import SCHEMA, Tables
from memory_storage import MemoryStorage

EXACT_CLOCK_GROUPS: Final = ("n", "o")
ENGINE_WARNINGS: Final = frozenset((1015, 1048, 1050, 1051, 1062, 1105, 1287, 1406))
"""What engines, the parser and SET say; the log has no part in it."""

SERVER_SHUTDOWN: Final = 1053
"""The error in the log of a statement whose session was killed: nothing told its warnings and its end."""

# Payloads of another build of zstd; and a 9.7.4 server counts four bytes too many in the group of an INCIDENT_EVENT.
_OWN_SIZES: Final = FILE_EVENTS | {"TransactionPayload", "Incident"}
_JOIN: Final = re.compile(r"\bSELECT\b.*\bFROM \w+,\w+")
_CLOCK_START: Final = 1_700_000_000_000_000
_GTID_MODES: Final = {
    "OFF": {"gtid_mode": "OFF", "enforce_gtid_consistency": "OFF"},
    "WARN": {"gtid_mode": "OFF", "enforce_gtid_consistency": "WARN"},
    "ON": {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"},
}


@dataclass(frozen=True, slots=True)
class _StepResult:
    error: int | None
    warnings: tuple[tuple[str, int, str], ...]
    end: tuple[int, int]


def run(scenario: Scenario) -> tuple[str, ...]:
    """Drive a scenario; what differs from the recording.

    Raises:
        NotDrivenError: the driver does not understand it.
    """
    storage = MemoryStorage()
    own = {name: variable_value(name, value) for name, value in scenario.session_variables.items()}
    settings: dict[str, Any] = {
        "binlog_format": scenario.format,
        "binlog_row_metadata": "MINIMAL",
        **_GTID_MODES[scenario.gtid_mode],
        **{name: variable_value(name, value) for name, value in scenario.global_variables.items()},
        **{name: value for name, value in own.items() if name in VARIABLE_NAMES},
    }
    variables = ServerVariables(**settings)
    client = {name: value for name, value in own.items() if name in _CLIENT_VARIABLES}
    ticks = count(_CLOCK_START, 1000)
    tables = Tables(scenario.setup)
    sessions: dict[str, Session] = {}
    results: list[_StepResult] = []
    with BinlogWriter("binlog", variables=variables, storage=storage, clock=lambda: next(ticks)) as log:
        use_gtids(log, scenario)
        start, status_before = len(storage.files[log.names[-1]]), log.status
        for step in scenario.steps:
            session = sessions.get(step.session)
            if session is None:
                session = sessions[step.session] = log.session(SCHEMA)
                session.set_variables(**client)
            error = None
            try:
                run_step(session, step, tables)
            except LoggingError as exc:
                error = exc.errno
            warnings = tuple((one.level, one.errno, one.message) for one in session.warnings)
            results.append(_StepResult(error, warnings, (len(log.names), len(storage.files[log.names[-1]]))))
        status = {name: value - status_before[name] for name, value in log.status.items()}
        names = log.names
        sizes = {name: len(storage.files[name]) for name in names}
    events, ends = _events(storage, names, sizes, start, [result.end for result in results])
    return tuple(_differences(scenario, results, events, ends, status))


def use_gtids(log: BinlogWriter, scenario: Scenario) -> None:
    """Use up the GTIDs that the recording's server had used: a statement under one of them changed nothing."""
    texts = [match[1] for step in scenario.steps if (match := _ASSIGNED.match(step.sql))]
    skipped = any(step.kind == "T" and not step.error and step.affected == 0 for step in scenario.steps)
    if not (texts and skipped):
        return
    with log.session() as session:
        for text in texts:
            session.set_variables(gtid_next=Gtid.parse(text))
            session.begin()
            session.commit()


IN_USE_AT: Final = 21  # the flags of the format description
_ASSIGNED: Final = re.compile(r"SET gtid_next='([^']+:\d+)'")
_CLIENT_VARIABLES: Final = (
    "foreign_key_checks",
    "unique_checks",
    "auto_increment_increment",
    "auto_increment_offset",
)


def _events(
    storage: MemoryStorage, names: tuple[str, ...], sizes: dict[str, int], start: int, ends: list[tuple[int, int]]
) -> tuple[list[Json], list[int]]:
    """Return the events in recorded form, and their number at each of the `ends`, as (files, bytes of the last)."""
    recorder = Recorder()
    recorded: list[Json] = []
    places: list[tuple[int, int]] = []
    for number, name in enumerate(names, start=1):
        data = storage.files[name][: sizes[name]]
        data[IN_USE_AT] |= HeaderFlag.BINLOG_IN_USE  # as it was then, perhaps in a group
        with open_logs([BytesIO(data)], open_payloads=False) as reader:
            for event in reader:
                if number == 1 and event.header.offset < start:
                    continue
                for one in recorder.record(event):
                    recorded.append(one)
                    places.append((number, event.header.offset + event.header.event_size))
    return recorded, [sum(place <= end for place in places) for end in ends]


def _differences(
    scenario: Scenario, results: list[_StepResult], events: list[Json], ends: list[int], status: dict[str, int]
) -> list[str]:
    found = []
    for number, (step, result, end) in enumerate(zip(scenario.steps, results, ends, strict=True)):
        where = f"step {number} {step.sql[:60]!r}"
        error = step.error if step.error in LOGGING_ERRORS else None
        if result.error != error:
            found.append(f"{where}: error {result.error}, recorded {error}")
        recorded = tuple(code for code in step.warnings if code not in ENGINE_WARNINGS)
        ours = tuple(code for _, code, _ in result.warnings if code not in ENGINE_WARNINGS)
        if ours != recorded and step.error != SERVER_SHUTDOWN:
            found.append(f"{where}: warnings {ours}, recorded {recorded}")
        elif step.warning_texts:
            texts = [one for one in step.warning_texts if one[1] not in ENGINE_WARNINGS]
            for theirs, mine in zip(texts, result.warnings, strict=False):
                if theirs[0] != mine[0] or not mine[2].startswith(theirs[2][:160]):
                    found.append(f"{where}: warning {mine!r}, recorded {theirs!r}")
        if end != step.events[1] and step.error != SERVER_SHUTDOWN:
            found.append(f"{where}: {end} events in the log after it, recorded {step.events[1]}")
    exact = scenario.group in EXACT_CLOCK_GROUPS
    unordered = any(_JOIN.search(step.sql) for step in scenario.steps)
    for number, (theirs_, ours_) in enumerate(zip(scenario.binlog, events, strict=False)):
        follows = {event["type"] for event in scenario.binlog[number + 1 : number + 4]}
        how = {"exact": exact, "unordered": unordered, "has_own_size": bool(follows & _OWN_SIZES)}
        theirs_event, ours_event = _compared(theirs_, **how), _compared(ours_, **how)
        if not same_value(theirs_event, ours_event):
            keys = sorted(theirs_event.keys() | ours_event.keys())
            facts = [
                f"{key} {str(ours_event.get(key))[:120]}, recorded {str(theirs_event.get(key))[:120]}"
                for key in keys
                if not same_value(theirs_event.get(key), ours_event.get(key))
            ]
            found.append(f"event {number} {theirs_['type']}: {'; '.join(facts)}")
    if len(events) != len(scenario.binlog):
        kinds = [event["type"] for event in events]
        found.append(f"{len(events)} events, recorded {len(scenario.binlog)}: {kinds}")
    if status != scenario.counters:
        found.append(f"counters {status}, recorded {scenario.counters}")
    return found


def _compared(event: Json, *, exact: bool, unordered: bool, has_own_size: bool) -> Json:
    """Return the facts that are compared: the logical clock only where the recording's file began with the scenario.

    `has_own_size`: the group's size is another one there. `unordered`: rows of a join, whose changes were recorded in
    the order of the table and not in that of execution.
    """
    if event["type"] in FILE_EVENTS:
        return {"type": event["type"]}
    left_out: tuple[str, ...] = () if exact else ("last_committed", "sequence_number")
    if has_own_size:
        left_out += ("transaction_length",)
    compared = {key: value for key, value in event.items() if key not in left_out}
    if unordered and "rows" in event:
        compared["rows"] = sorted(event["rows"], key=str)
    return compared
