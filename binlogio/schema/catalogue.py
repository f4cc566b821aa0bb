"""The catalogue of definitions: the DDL of logs by position, and definitions that a server gave between two logs.

It gives the definitions before any position in the logs, without reading the logs before it. It can be stored, and
extended by later logs; its logs can be purged meanwhile. It has the statements themselves, so what they mean is
decided by `schema.ddl` when they are used.

    file     := {"binlogio_catalogue": 1} log*                             JSON, one value a line, in order
    log      := {"log": progress, "format": format, "ddl": [[offset, event | tables]...], "rotated": time?}
    progress := as in `series.progress`: the log, and the offset up to which it was read
    format   := fields of `ParseContext` that are not the default
    event    := base64 of the body of a QUERY_EVENT
    tables   := [table...]                        as in `schema.definition`; those of the server at the offset
    time     := that of the ROTATE at the end of the log, in seconds since 1970
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

from binlogio.constants import EventType
from binlogio.errors import DAMAGES, BinlogError, UnsupportedFeature
from binlogio.events import codec_for
from binlogio.events.base import DEFAULT_CONTEXT, EventHeader, ParseContext
from binlogio.schema.ddl.catalogue import Catalogue, KnownTable
from binlogio.schema.definition import TableDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.events.query import QueryEvent
    from binlogio.schema.ddl.catalogue import TableName

Follow = Callable[[Catalogue], Catalogue]
"""Returns the definitions at another position, with the settings and the foreign keys of those that it gets."""
_FORMAT_KEY: Final = "binlogio_catalogue"
_FORMAT: Final = 1
_FILE_NUMBER: Final = re.compile(r"(.*?)\.(\d{6,})(?:\D.*)?$", re.DOTALL)
_MOST_ROTATION_S: Final = 10  # seconds between the ROTATE at the end of a log and the head of the next log
_FIELDS: Final = ("binlog_version", "server_version", "header_size", "post_header_sizes", "permutation")
_QUERY: Final = codec_for(EventType.QUERY_EVENT)
_HEADER: Final = EventHeader(type_code=EventType.QUERY_EVENT)
_HINT: Final = "make it again with `binlogio schema --save`"


class IsLog(Protocol):
    """Tells whether a stored progress is of the log in question (`series.progress.recognizer`)."""

    def __call__(self, stored: Any, *, exactly: bool) -> bool:
        """Return whether a stored progress is of the log."""
        ...

    @property
    def stored_identity(self) -> dict[str, Any] | None:
        """The identity of the log in the form of a stored progress; None if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class PlacedStatement:
    """A statement that may define a table: the body of a QUERY_EVENT, and its offset in the log."""

    offset: int
    body: bytes

    @classmethod
    def of(cls, offset: int, event: QueryEvent, context: ParseContext) -> PlacedStatement:
        """Return the statement of an event."""
        return cls(offset, _QUERY.build(event, context))

    def event(self, context: ParseContext) -> QueryEvent:
        """Return the event.

        Raises:
            UnsupportedFeature: the body is damaged.
        """
        try:
            event: QueryEvent = _QUERY.parse(_HEADER, self.body, context)
        except BinlogError as exc:
            raise _damaged(f"the statement at {self.offset}", exc) from exc
        return event

    def to_json(self) -> Any:
        """Return the stored form."""
        return b64encode(self.body).decode()

    def is_before(self, offset: int) -> bool:
        """Return whether a reader that begins at an offset needs it."""
        return self.offset < offset

    def follow(self, state: Catalogue, context: ParseContext) -> None:
        """Carry out the statement."""
        from binlogio.schema.ddl.logged_ddl import follow_event  # noqa: PLC0415 - the parser is seldom needed

        follow_event(state, self.event(context), context)


@dataclass(frozen=True, slots=True)
class PlacedTables:
    """Definitions that a server had at an offset of the log."""

    offset: int
    tables: tuple[TableDefinition, ...]

    def to_json(self) -> Any:
        """Return the stored form."""
        return [table.to_json() for table in self.tables]

    def is_before(self, offset: int) -> bool:
        """Return whether they are those of a reader that begins at an offset."""
        return self.offset <= offset

    def follow(self, state: Catalogue, _context: ParseContext) -> None:
        """Take the definitions."""
        for table in self.tables:
            _put(state, table)


@dataclass(slots=True)
class CataloguedLog:
    """The statements of a log up to an offset.

    `progress` is the log and this offset, as `series.progress` stores it. `is_complete` is True if the server had
    closed the log, and all of it was read. `rotated` is the time of the ROTATE at its end, in seconds since 1970; None
    if it has none.
    """

    progress: dict[str, Any]
    context: ParseContext
    statements: list[PlacedStatement | PlacedTables] = field(default_factory=list)
    rotated: int | None = None

    @property
    def name(self) -> str:
        """The name of the log without its directory."""
        return str(self.progress["file"])

    @property
    def end(self) -> int:
        """The offset up to which the log was read."""
        return int(self.progress["pos"])

    @property
    def is_complete(self) -> bool:
        """Whether the server had closed the log, and all of it was read."""
        return self.progress.get("complete") is True

    def is_followed_by(self, name: str, identity: dict[str, Any] | None) -> bool:
        """Return whether all statements before a log are known if those before this one are: it is the next one.

        After RESET, or on another server, another log has the name of the next one.
        """
        own, other = self.progress.get("log") or {}, identity or {}
        if not (self.is_complete and follows(self.name, name) and own.get("server_id") == other.get("server_id")):
            return False
        return self.rotated is None or not other or abs(other["created"] - self.rotated) <= _MOST_ROTATION_S

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        found = {name: getattr(self.context, name) for name in _FIELDS}
        return {
            "log": self.progress,
            "format": {name: value for name, value in found.items() if value != getattr(DEFAULT_CONTEXT, name)},
            "ddl": [[one.offset, one.to_json()] for one in self.statements],
            **({} if self.rotated is None else {"rotated": self.rotated}),
        }

    @classmethod
    def from_json(cls, value: Any) -> CataloguedLog:
        """Parse what `to_json` returned.

        Raises:
            ValueError, KeyError, TypeError, OverflowError, BinlogError: it is something else.
        """
        given: Any = {
            name: tuple(part) if isinstance(part, list) else part
            for name, part in value["format"].items()
            if name in _FIELDS
        }
        context = ParseContext(**given)
        log = cls(value["log"], context, rotated=value.get("rotated"))
        identity, stored = log.progress.get("log"), log.progress.get("stored")
        gtid = None if identity is None else identity.get("first_gtid")
        numbers = [log.progress["pos"], *([] if log.rotated is None else [log.rotated])]
        words = [] if identity is None else [identity["created"], identity["server_id"]]
        texts = [log.progress["file"], context.server_version]
        texts += [one for one in (log.progress.get("hash"), log.progress.get("last_gtid"), gtid) if one is not None]
        if (
            not all(type(one) is int and one >= 0 for one in (*numbers, *words))
            or any(one >> 32 for one in words)
            or not all(isinstance(one, str) for one in texts)
            or (stored is not None and [*map(type, stored)] != [int, str])
        ):
            raise ValueError("a field of the log has another type")
        for offset, one in value["ddl"]:
            if isinstance(one, list):
                log.statements.append(PlacedTables(int(offset), tuple(map(TableDefinition.from_json, one))))
            else:
                log.statements.append(PlacedStatement(int(offset), b64decode(one, validate=True)))
        return log


class DefinitionCatalogue:
    """The definitions of tables at each position of the logs of one server. Can be pickled.

    If `is_exhaustive`, no definition is known in a log that it does not reach.
    """

    is_exhaustive = True

    def __init__(self) -> None:
        self.logs: Final[list[CataloguedLog]] = []  # in order
        self._numbers: dict[str, list[int]] = {}  # of the logs, by name

    def find(self, name: str, is_log: IsLog, *, exactly: bool = False) -> CataloguedLog | None:
        """Return the log of this name that `is_log` recognizes, the last one if there are several; None if it has none.

        A repaired or filtered copy is recognized, too, unless `exactly` is set.
        """
        number = self._number(name, is_log, exactly=exactly)
        return None if number is None else self.logs[number]

    def _number(self, name: str, is_log: IsLog, *, exactly: bool) -> int | None:
        for number in reversed(self._numbers.get(_series_name(name), ())):
            if is_log(self.logs[number].progress, exactly=exactly):
                return number
        return None

    def holes(self) -> list[tuple[str, str]]:
        """Return the logs, each with the next one, between which statements may be missing."""
        return [(last.name, log.name) for last, log in pairwise(self.logs) if not _continues(last, log)]

    def add(self, log: CataloguedLog) -> None:
        """Add the next log."""
        self._numbers.setdefault(_series_name(log.name), []).append(len(self.logs))
        self.logs.append(log)

    def add_tables(self, tables: Iterable[TableDefinition]) -> None:
        """Add the definitions that a server has where the last log was read to; there has to be a log."""
        self.logs[-1].statements.append(PlacedTables(self.logs[-1].end, tuple(tables)))

    def before(self, name: str, is_log: IsLog, offset: int = 0, *, is_compared: bool = False) -> Follow | None:
        """Return a function for the definitions before an offset of a log; None if the catalogue does not reach it.

        At the beginning of a log it is sufficient that the catalogue has all of the log before it. `is_compared`: the
        bytes of the log were compared before.
        """
        number = self._number(name, is_log, exactly=offset > 0 and not is_compared)
        if number is not None:
            return partial(self._at, number, offset) if offset <= self.logs[number].end else None
        last = self.logs[-1] if self.logs and not offset else None
        if last is None or not last.is_followed_by(_base_name(name), is_log.stored_identity):
            return None
        return partial(self._at, len(self.logs), 0)

    def _at(self, number: int, offset: int, state: Catalogue) -> Catalogue:
        """Return the definitions before an offset of log `number`."""
        last: CataloguedLog | None = None
        state = state.forgotten()
        for index, log in enumerate(self.logs[: number + 1]):
            if last is not None and not _continues(last, log):
                state = state.forgotten()
            elif last is not None:
                state.begin_log()
            for one in log.statements:
                if index == number and not one.is_before(offset):
                    break
                one.follow(state, log.context)
            last = log
        if number == len(self.logs):
            state.begin_log()
        self._take_later(state, number, offset)
        return state

    def _take_later(self, state: Catalogue, number: int, offset: int) -> None:
        """Add the tables that a server had later, and that no statement has touched meanwhile."""
        later = self.logs[number:]
        if not any(isinstance(one, PlacedTables) for log in later for one in log.statements):
            return
        touched = _Touched()
        last: CataloguedLog | None = None
        for log in later:
            if last is not None and not _continues(last, log):
                return
            for one in log.statements:
                if last is None and one.is_before(offset):
                    continue
                if isinstance(one, PlacedStatement):
                    touched.take(one.event(log.context), log.context)
                    continue
                for table in one.tables:
                    name = table.schema, table.name
                    if state.find(*name) is None and not touched.has(name):
                        _put(state, table)
            last = log

    # -------------------------------------------------------------------------------------------------- stored form

    def lines(self) -> Iterator[str]:
        """Yield the lines of the stored form."""
        yield json.dumps({_FORMAT_KEY: _FORMAT}) + "\n"
        for log in self.logs:
            yield json.dumps(log.to_json(), ensure_ascii=False) + "\n"

    @staticmethod
    def is_stored(text: str) -> bool:
        """Return whether a text begins like the stored form."""
        return text.startswith(f'{{"{_FORMAT_KEY}"')

    @classmethod
    def parse(cls, text: str) -> DefinitionCatalogue:
        """Parse the stored form.

        Raises:
            UnsupportedFeature: the text is something else, or of a later version.
        """
        catalogue, line_number = cls(), 1
        try:
            head, *rest = text.rstrip("\n").split("\n")
            version = json.loads(head)[_FORMAT_KEY]
            if version != _FORMAT:
                raise UnsupportedFeature(
                    "the catalogue of definitions is of another version", expected=_FORMAT, found=version, hint=_HINT
                )
            for line in rest:
                line_number += 1
                catalogue.add(CataloguedLog.from_json(json.loads(line)))
        except UnsupportedFeature:
            raise
        except DAMAGES as exc:
            raise _damaged(f"line {line_number}", exc) from exc
        return catalogue

    def __bool__(self) -> bool:
        """Return True if logs were added, with statements or without."""
        return bool(self.logs)

    def __len__(self) -> int:
        """Return the number of statements."""
        return sum(isinstance(one, PlacedStatement) for log in self.logs for one in log.statements)


def _damaged(field: str, found: Exception) -> UnsupportedFeature:
    return UnsupportedFeature("the catalogue of definitions is damaged", field=field, found=str(found), hint=_HINT)


class _Touched:
    """The tables that statements can have changed."""

    def __init__(self) -> None:
        self._names: set[TableName] = set()
        self._databases: set[str] = set()
        self._is_all = False

    def take(self, event: QueryEvent, context: ParseContext) -> None:
        """Add the tables of a statement."""
        from binlogio.schema.ddl import tree  # noqa: PLC0415 - the parser is seldom needed
        from binlogio.schema.ddl.logged_ddl import LoggedDdl  # noqa: PLC0415
        from binlogio.schema.ddl.statements import names_in  # noqa: PLC0415

        logged = LoggedDdl.of(event, context)
        match logged.statement:
            case tree.Unreadable():
                self._is_all = True
            case tree.CreateDatabase() | tree.DropDatabase():
                self._databases.add((logged.statement.schema or event.schema).casefold())
            case tree.TruncateTable():
                pass
            case statement:
                for name in map(logged.full_name, names_in(statement)):
                    self._names.add((name[0].casefold(), name[1].casefold()))

    def has(self, name: TableName) -> bool:
        """Return whether a statement can have changed the table."""
        folded = name[0].casefold(), name[1].casefold()
        return self._is_all or folded[0] in self._databases or folded in self._names


def _base_name(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]


def _series_name(name: str) -> str:
    """Return the name of a log without its directory and what follows its number."""
    base = _base_name(name)
    found = _FILE_NUMBER.match(base)
    return base if found is None else f"{found[1]}.{int(found[2])}"


def _put(state: Catalogue, table: TableDefinition) -> None:
    from binlogio.schema.ddl.parsed_table import ParsedTable  # noqa: PLC0415

    state.put((table.schema, table.name), KnownTable(ParsedTable.of(table)))


def _continues(last: CataloguedLog, log: CataloguedLog) -> bool:
    return last.is_followed_by(log.name, log.progress.get("log"))


def follows(last: str, name: str) -> bool:
    """Return whether log `name` is the next of the series of log `last`, by the numbers in their names."""
    before, after = _FILE_NUMBER.match(last), _FILE_NUMBER.match(name)
    if before is None or after is None:
        return False
    return before[1] == after[1] and int(after[2]) == int(before[2]) + 1
