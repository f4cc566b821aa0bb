"""Cases of `decide_logging_format` from recordings of a real MySQL 9.7 server.

The recordings (`fixtures/oracle`) have the steps, the resulting log, and the events of each step. This module tracks
the caches of a session along the steps. Steps for which there is no decision (BEGIN, SET) give no case.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from binlogio.errors import LoggingError
from binlogio.options import ServerVariables
from binlogio.schema import ColumnDefinition, KeyDefinition, TableDefinition
from binlogio.writer.rules.known_objects import KnownObjects, Trigger
from binlogio.writer.rules.logging_format import (
    CacheKind,
    LoggingDecision,
    LoggingFormat,
    SessionState,
    StatementFacts,
    StatementKind,
    decide_logging_format,
)
from binlogio.writer.rules.statement_text import facts_from_sql
from binlogio.writer.session.transaction import NO_ENGINES, EngineMix, mix_engines
from corpus import ROOT

Json = dict[str, Any]
RECORDINGS: Final = ROOT / "fixtures" / "oracle" / "oracle.jsonl.gz"
SCHEMA: Final = "w"
TEXT_LENGTH: Final = 160
OF_THE_DECISION: Final = frozenset((1661, 1662, 1663, 1664, 1665, 1666, 1667, 1785, 1786, 1844, 3748))
_COMMITS: Final = (StatementKind.DDL, StatementKind.CREATE_SELECT)
_CONTROL: Final = frozenset(
    "BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE XA SET LOCK UNLOCK FLUSH BINLOG ANALYZE".split()
)
_TRIGGER: Final = re.compile(r"CREATE TRIGGER \S+ AFTER (\w+) ON (\w+) FOR EACH ROW (.*)", re.DOTALL)
_FUNCTION: Final = re.compile(r"CREATE FUNCTION (\w+)")
_INSERT: Final = re.compile(r"INSERT INTO .*?\)")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A statement, the session state before it, and the behaviour of the server.

    Attributes:
        errno: number of the error with which the server rejected the statement.
        text: the text is in a group written at the end of the statement (`at once`), in a later group (`later`), or
            in no group.
        is_again: a later statement has the same text.
        has_rows: rows were written at the end of the statement.
        failed: the statement failed with any error.
        keeps: the statement failed and left a row in a non-transactional table.
        notes: the beginnings of the warnings 1592.
        combined: the beginnings of the warnings 6414.
        warnings: the numbers of all other warnings of a decision.
    """

    identity: str
    sql: str
    variables: ServerVariables
    facts: StatementFacts
    state: SessionState
    mix: EngineMix
    errno: int | None
    text: str | None
    is_again: bool
    has_rows: bool
    failed: bool
    keeps: bool
    notes: list[str]
    warnings: list[int]
    combined: list[str]

    @property
    def group(self) -> str:
        """The group of the scenario."""
        return self.identity.split("/")[0]

    def decide(self) -> LoggingDecision | LoggingError:
        """Return the decision of `decide_logging_format`, or its error."""
        try:
            return decide_logging_format(self.variables, self.facts, self.state)
        except LoggingError as exc:
            return exc


@dataclass
class _Session:
    """The session state that affects decisions, including the contents of the transaction cache."""

    variables: Json
    autocommit: bool = True
    begun: bool = False
    is_xa: bool = False
    has_assigned_gtid: bool = False
    takes_part: bool = False
    cached: list[str] = field(default_factory=list)
    cannot_be_rolled_back: bool = False
    savepoints: dict[str, int] = field(default_factory=dict)
    temporary: dict[str, TableDefinition] = field(default_factory=dict)
    mix: EngineMix = NO_ENGINES

    @property
    def in_transaction(self) -> bool:
        """Whether statements are part of a multi-statement transaction."""
        return self.begun or not self.autocommit

    @property
    def state(self) -> SessionState:
        """The session state for a decision."""
        return SessionState(
            in_transaction=self.in_transaction,
            is_xa=self.is_xa,
            transaction_cache_is_empty=not self.cached,
            has_temporary_tables=bool(self.temporary),
            has_assigned_gtid=self.has_assigned_gtid,
        )

    def end(self) -> None:
        """Reset the state at the end of a transaction."""
        if self.takes_part:
            self.mix = NO_ENGINES
        self.begun = self.is_xa = self.takes_part = self.cannot_be_rolled_back = False
        self.cached, self.savepoints = [], {}


class Setup:
    """Tables, triggers and functions of a scenario."""

    def __init__(self, scenario: Json, setup: Json) -> None:
        self._tables = [_table_of(name, value) for name, value in setup["tables"].items()]
        self._triggers = []
        for text in (*setup.get("triggers", ()), *setup.get("extra", ())):
            match = _TRIGGER.match(text)
            if match is not None:
                table = f"{SCHEMA}.{match[2]}"
                self._triggers.append(Trigger(table=table, event=match[1], body=self._body(match[3])))
        texts = [str(step["sql"]) for step in scenario["steps"]]
        created = [(_FUNCTION.match(text), text) for text in texts]
        self._routines = {match[1]: self._body(text) for match, text in created if match is not None}

    def facts(self, sql: str, temporary: list[TableDefinition]) -> StatementFacts:
        """Return the facts of a statement's text."""
        objects = KnownObjects(triggers=self._triggers, temporary_tables=temporary, routines=self._routines)
        return facts_from_sql(sql, SCHEMA, self._tables, objects=objects)

    def _body(self, text: str) -> StatementFacts:
        inner = _INSERT.search(text)
        assert inner is not None
        return facts_from_sql(inner[0], SCHEMA, self._tables)


def recorded_cases(path: Path = RECORDINGS) -> Iterator[Case]:
    """Yield all cases of a file of recordings, plain or gzipped."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        scenarios = [json.loads(line) for line in lines]
    standard = next(scenario["setup"] for scenario in scenarios if scenario["id"] == "STD")
    known: dict[str, StatementFacts] = {}
    for scenario in scenarios:
        if scenario["id"] != "STD":
            yield from _cases_of(scenario, standard if scenario["setup"] == "STD" else scenario["setup"], known)


def _table_of(name: str, value: Json) -> TableDefinition:
    # Column types do not affect decisions. The other entries are keys and constraints.
    columns = [
        ColumnDefinition(text.split()[0], "int", "NOT NULL" not in text, auto_increment="AUTO_INCREMENT" in text)
        for text in value["cols"]
        if text.split()[0].upper() not in ("KEY", "UNIQUE", "INDEX", "CONSTRAINT", "FOREIGN", "FULLTEXT")
    ]
    keys = tuple(KeyDefinition(tuple(part.split("(")[0] for part in key)) for key in value["uk"])
    primary = tuple(part.split("(")[0] for part in value["pk"] or ())
    return TableDefinition(SCHEMA, name, tuple(columns), primary, engine=value["engine"], unique_keys=keys)


def _variables_of(scenario: Json) -> Json:
    mode, session = scenario["settings"]["gtid_mode"], scenario["settings"]["session"]
    found: Json = {
        "binlog_format": scenario["format"],
        "gtid_mode": "ON" if mode == "ON" else "OFF",
        "enforce_gtid_consistency": mode,
    }
    if "transaction_isolation" in session:
        found["transaction_isolation"] = session["transaction_isolation"].strip("'")
    if "binlog_direct_non_transactional_updates" in session:
        found["binlog_direct_non_transactional_updates"] = session["binlog_direct_non_transactional_updates"] == "ON"
    return found


def _cases_of(scenario: Json, setup: Json, known: dict[str, StatementFacts]) -> Iterator[Case]:
    """Yield the cases of a scenario.

    `known` caches the facts of a text, because most scenarios are recorded in all formats.
    """
    objects = Setup(scenario, setup)
    name = scenario["id"].rsplit("/", 1)[0]
    sessions: dict[str, _Session] = {}
    for number, step in enumerate(scenario["steps"]):
        session = sessions.setdefault(step["session"], _Session(_variables_of(scenario)))
        sql = step["sql"] or ""
        if not sql or sql.split()[0].upper() in _CONTROL:
            _follow(session, sql, failed=step["error"] is not None)
            continue
        key = f"{name} {','.join(sorted(session.temporary))} {sql}"
        if key not in known:
            known[key] = objects.facts(sql, list(session.temporary.values()))
        facts = known[key]
        if facts.kind in _COMMITS:
            session.end()
        case = Case(
            identity=f"{scenario['id']}#{number}",
            sql=sql,
            variables=ServerVariables(**session.variables),
            facts=facts,
            state=session.state,
            mix=session.mix,
            **_observed(scenario, number, facts),
        )
        yield case
        _apply(session, case, step)


def _observed(scenario: Json, number: int, facts: StatementFacts) -> Json:
    step, binlog = scenario["steps"][number], scenario["binlog"]
    start, end = step["events"]
    is_again = step["sql"] in [later["sql"] for later in scenario["steps"][number + 1 :]]
    others = {table.name for table in facts.all_tables if table.write and not table.engine.transactional}
    conditions = step.get("warning_texts") or []
    text = "at once" if _has_text(binlog[start:end], step["sql"], facts) else None
    if text is None and not is_again and not _is_rewritten(facts) and _has_text(binlog[end:], step["sql"], facts):
        text = "later"
    return {
        "errno": step["error"] if step["error"] in OF_THE_DECISION else None,
        "text": text,
        "is_again": is_again,
        "has_rows": facts.kind not in _COMMITS and any(event["type"].endswith("Rows") for event in binlog[start:end]),
        "failed": step["error"] is not None,
        "keeps": any(change["table"] in others for change in step["changes"]),
        "notes": sorted(message[:TEXT_LENGTH] for _, errno, message in conditions if errno == 1592),
        "warnings": sorted(errno for _, errno, _ in conditions if errno in (1785, 1786, 3748, 1870)),
        "combined": [message[:TEXT_LENGTH] for _, errno, message in conditions if errno == 6414],
    }


def _has_text(events: list[Json], sql: str, facts: StatementFacts) -> bool:
    return any(event["type"] == "Query" and _is_text_of(event["query"], sql, facts) for event in events)


def _is_rewritten(facts: StatementFacts) -> bool:
    return facts.kind in (StatementKind.DDL, StatementKind.DROP_TEMPORARY)


def _is_text_of(query: str, sql: str, facts: StatementFacts) -> bool:
    """Return whether a text of the log is the text of the statement.

    The recordings truncate long texts; the server rewrites some texts.
    """
    if query == sql.strip():
        return True
    if query.endswith("]") and "...[" in query:
        return sql.startswith(query[: query.rindex("...[")])
    if facts.kind is StatementKind.SELECT:
        return query.startswith("SELECT `")
    return _is_rewritten(facts) and query.split(maxsplit=1)[0] == sql.split(maxsplit=1)[0].upper()


def _follow(session: _Session, sql: str, *, failed: bool) -> None:
    """Update the session for a statement without a decision.

    An empty text is the end of the connection.
    """
    words = sql.upper().replace("=", " = ").split()
    if not words:
        session.end()
        session.temporary.clear()
    elif failed:
        return
    elif words[0] == "ROLLBACK" and "TO" in words:
        _roll_back_to(session, sql.rsplit(maxsplit=1)[-1].strip("`"), sql)
    elif words[0] in ("COMMIT", "ROLLBACK", "LOCK", "UNLOCK", "FLUSH", "ANALYZE"):
        session.end()
        session.begun = "CHAIN" in words
    elif words[0] in ("BEGIN", "START"):
        session.end()
        session.begun = True
    elif words[0] == "SAVEPOINT":
        if session.cached or session.takes_part:
            session.cached.append(sql)
        session.savepoints[sql.split(None, 1)[1].strip("`")] = len(session.cached)
    elif words[:2] == ["XA", "START"]:
        session.end()
        session.begun = session.is_xa = True
    elif words[0] == "XA" and words[1] != "END":
        session.end()
    elif words[0] == "SET":
        _set(session, words)


def _roll_back_to(session: _Session, name: str, sql: str) -> None:
    position = session.savepoints.get(name)
    if position is None:
        return
    if not session.cannot_be_rolled_back:
        del session.cached[position:]
    elif session.variables["binlog_format"] != "ROW":
        session.cached.append(sql)


def _set(session: _Session, words: list[str]) -> None:
    name, value = words[-3] if len(words) > 3 else words[1], words[-1]
    if name == "AUTOCOMMIT":
        session.autocommit = value == "1"
    elif name == "SQL_LOG_BIN":
        session.variables["sql_log_bin"] = value == "1"
    elif name == "BINLOG_FORMAT":
        session.variables["binlog_format"] = value
    elif name == "GTID_NEXT":
        session.has_assigned_gtid = value != "'AUTOMATIC'"


def _apply(session: _Session, case: Case, step: Json) -> None:
    """Update the session for a statement with a decision."""
    facts, decision = case.facts, case.decide()
    session.mix, _ = mix_engines(session.mix, case.variables, facts)
    if step["error"] is None:
        _apply_temporary(session, facts)
    if not isinstance(decision, LoggingError):
        own = {t.name for t in facts.all_tables if t.write and t.engine.transactional and not t.temporary}
        is_logged = decision.format is not LoggingFormat.NOT_LOGGED
        session.takes_part |= is_logged or any(t.engine.transactional and t.write for t in facts.all_tables)
        if decision.statement_cache is CacheKind.TRANSACTION and step["error"] in (1197, 1705) and case.keeps:
            session.cached, session.cannot_be_rolled_back = [], False  # discarded; an incident is logged
        elif decision.statement_cache is CacheKind.TRANSACTION and (not case.failed or case.keeps):
            session.cached.append(case.sql)
            session.cannot_be_rolled_back |= decision.cannot_be_rolled_back
        if decision.format is LoggingFormat.ROW and any(change["table"] in own for change in step["changes"]):
            session.cached.append(case.sql)
    if not session.in_transaction:
        session.end()


def _apply_temporary(session: _Session, facts: StatementFacts) -> None:
    if facts.kind in (StatementKind.CREATE_TEMPORARY, StatementKind.CREATE_TEMPORARY_SELECT):
        made = facts.tables[0]
        columns = (ColumnDefinition("a", "int"), ColumnDefinition("b", "varchar(30)"))
        session.temporary[made.name] = TableDefinition(SCHEMA, made.name, columns, engine=made.engine.name)
    elif facts.kind is StatementKind.DROP_TEMPORARY:
        for table in facts.tables:
            session.temporary.pop(table.name, None)
