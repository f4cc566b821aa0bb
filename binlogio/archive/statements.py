"""A definition source for searches: follows the statements of logs and reports them to the search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError
from binlogio.events import codec_for
from binlogio.events.base import EventHeader
from binlogio.events.query import sql_of_body
from binlogio.schema.ddl.first_words import body_may_define
from binlogio.schema.given import Described
from binlogio.schema.source import DefinitionSource, depends_on_definitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.events.base import ParseContext
    from binlogio.events.query import QueryEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.ddl.catalogue import TableName
    from binlogio.schema.definition import TableDefinition
    from binlogio.schema.given import GivenDefinitions

    NoteStatement = Callable[[int, bytes], None]
    WatchBytes = Callable[[str, int], None]

_UNNAMED: Final = "@1"


class LogStatements(DefinitionSource):
    """A definition source that reports each statement, and records which definitions are used.

    Args:
        given: table definitions given by the user.
        watch: called with the name of a log and the offset up to which it was read.
    """

    follows_all = True

    def __init__(self, given: GivenDefinitions | None = None, watch: WatchBytes | None = None) -> None:
        super().__init__(given)
        self._watch = watch
        self._note: NoteStatement = _ignore
        self._used: dict[TableName, list[TableDefinition | None]] = {}
        self.has_unnamed = False

    def begin_search(self, note: NoteStatement | None = None) -> None:
        """Begin a log. `note` is called with offset and text of each statement except BEGIN and COMMIT."""
        self._note = note or _ignore
        self._used.clear()
        self.has_unnamed = False

    def copy(self) -> LogStatements:
        """Return a new object with the same definitions."""
        other = LogStatements(self._given, self._watch)
        other.adopt(self)
        return other

    def pass_to(self, offset: int) -> None:
        """Report that the log was read up to `offset`."""
        if self._watch is not None and self._log is not None:
            self._watch(self._log, offset)

    def follow_body(self, code: int, body: bytes, context: ParseContext) -> bool:
        """Report the statement in an event, and apply it if it may change a definition. Returns as `follow`."""
        if code == EventType.QUERY_EVENT and not body_may_define(body):  # parsing an event takes some 100 us
            self._note(self.statement_at, sql_of_body(body))
            return False
        try:
            event: QueryEvent = codec_for(code).parse(EventHeader(type_code=code), body, context)
        except BinlogFormatError:
            return super().follow_body(code, body, context)
        self._note(self.statement_at, event.sql)
        return self.follow(event, context)

    def plan(self, event: TableMapEvent, context: ParseContext) -> TablePlan:
        """Return the plan of a table map, and record the definition used. Raises as the base class."""
        found = super().plan(event, context)
        name = event.schema, event.table
        definition = None
        is_unnamed = bool(found.columns) and found.columns[0].label == _UNNAMED
        self.has_unnamed = self.has_unnamed or is_unnamed
        if not is_unnamed and depends_on_definitions(event, context):
            definition = self.given(*name, context)
            if definition is None:
                known = self.logged(*name)
                definition = None if known is None else Described.of(known.table).without_assumptions()
        used = self._used.setdefault(name, [])
        if definition not in used:
            used.append(definition)
        return found

    def used_definitions(self, schema: str, table: str) -> list[TableDefinition | None]:
        """Return the definitions used for a table in this log; None in the list: its table maps were sufficient."""
        return self._used.get((schema, table), [])


def _ignore(_place: int, _sql: bytes) -> None:
    """Ignore a statement."""
