"""DDL in QUERY_EVENTs: the facts of the event, besides its statement, that a catalogue needs.

Reads the status variables that a definition depends on: character sets, sql_mode, the phases of MariaDB's ALTER TABLE.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.constants import QueryStatus
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.collations import charset_of_collation, collation_name
from binlogio.schema.ddl.first_words import may_define
from binlogio.schema.ddl.parser import parse_ddl
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.statements import SessionFacts, follow_ddl
from binlogio.schema.ddl.tree import NotDdl
from binlogio.values.charsets import charset_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.events.base import ParseContext
    from binlogio.events.load import ExecuteLoadQueryEvent
    from binlogio.events.query import QueryEvent
    from binlogio.schema.ddl.catalogue import Catalogue, TableName
    from binlogio.schema.ddl.tokens import Name
    from binlogio.schema.ddl.tree import Ddl

# MariaDB's sql/sql_priv.h, OPTION_EXPLICIT_DEF_TIMESTAMP: a bit of the status variable FLAGS2.
_EXPLICIT_TIMESTAMPS: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class LoggedDdl:
    """A DDL statement of a log, parsed, and its context. `failed` is why it was carried out in part only."""

    event: QueryEvent
    statement: Ddl
    server: ServerDefaults
    session: SessionFacts
    failed: str | None = None

    @classmethod
    def of(cls, event: QueryEvent, context: ParseContext) -> LoggedDdl:
        """Parse the statement of an event; a first phase of MariaDB's ALTER TABLE, or its rollback, changes nothing."""
        failed = f"a statement failed half-way with error {event.error_code}" if event.error_code else None
        server, session = server_of(event, context), session_of(event)
        if event.is_unfinished_alter:
            return cls(event, NotDdl(), server, session)
        return cls(event, parse_ddl(text_of(event), server, session.sql_mode), server, session, failed)

    def follow(self, catalogue: Catalogue) -> None:
        """Carry out the statement on what is known of its tables."""
        follow_ddl(catalogue, self.statement, self.event.schema, self.server, self.session, failed=self.failed)

    def full_name(self, name: Name) -> TableName:
        """Return schema and name; the schema is that of the session if missing."""
        return (self.event.schema if name[0] is None else name[0], name[1])

    def is_temporary(self, name: TableName, catalogue: Catalogue) -> bool:
        """Return whether the session has a temporary table of that name."""
        return catalogue.temporary.has(self.event.thread_id, name)

    def base_renames(
        self, renames: Iterable[tuple[Name, Name]], catalogue: Catalogue
    ) -> list[tuple[TableName, TableName]]:
        """Return old and new names of the base tables that a RENAME TABLE renames; others are temporary tables."""
        pairs = ((self.full_name(old), self.full_name(new)) for old, new in renames)
        return list(catalogue.temporary.base_renames(self.event.thread_id, pairs, self.server))


def follow_event(catalogue: Catalogue, event: QueryEvent, context: ParseContext) -> None:
    """Carry out a statement of the log on what is known of its tables."""
    if may_define(event.sql):
        LoggedDdl.of(event, context).follow(catalogue)


def server_of(event: QueryEvent | ExecuteLoadQueryEvent, context: ParseContext) -> ServerDefaults:
    """Return the server that wrote the log, with the collations that the statement's session had."""
    server = ServerDefaults.of(context)
    utf8mb4 = event.status(QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4)
    pairs = [("utf8mb4", _collation(utf8mb4))]
    for number, used in event.status(QueryStatus.MARIADB_CHARACTER_SET_COLLATIONS) or ():
        usual = _collation(number)
        pairs += [(charset_of_collation(usual), _collation(used))] if usual is not None else []
    known = tuple((name, collation) for name, collation in pairs if collation is not None)
    explicit = _explicit_timestamps(event, server)
    return replace(server, charset_collations=known, sets_explicit_timestamps=explicit)


def _explicit_timestamps(event: QueryEvent | ExecuteLoadQueryEvent, server: ServerDefaults) -> bool | None:
    """Return the session's explicit_defaults_for_timestamp; None if it is not in the log."""
    if not server.is_mariadb:
        found = event.status(QueryStatus.EXPLICIT_DEFAULTS_FOR_TIMESTAMP)
        return None if found is None else bool(found)
    flags = event.status(QueryStatus.FLAGS2)
    return None if flags is None or not server.logs_explicit_timestamps else bool(flags & _EXPLICIT_TIMESTAMPS)


def session_of(event: QueryEvent | ExecuteLoadQueryEvent) -> SessionFacts:
    """Return what the statement depends on beside its text."""
    charset = event.status(QueryStatus.CHARSET)
    return SessionFacts(
        thread_id=event.thread_id,
        sql_mode=event.status(QueryStatus.SQL_MODE) or 0,
        server_collation=_collation(charset.server) if charset is not None else None,
        database_collation=_collation(event.status(QueryStatus.CHARSET_DATABASE)),
        is_atomic=event.status(QueryStatus.DDL_LOGGED_WITH_XID) is not None,
    )


def _collation(number: int | None) -> str | None:
    """Return a collation's name; None for an id that no server has."""
    if number is None:
        return None
    try:
        return collation_name(number)
    except UnsupportedFeature:
        return None


def text_of(event: QueryEvent | ExecuteLoadQueryEvent) -> str:
    """Return the statement, in the client's character set where the event says which."""
    session = event.status(QueryStatus.CHARSET)
    charset = charset_of(session.client) if session is not None else None
    try:
        return charset.decode(event.sql) if charset is not None else event.sql.decode()
    except UnicodeDecodeError:
        return event.sql.decode("utf-8", "surrogateescape")


def bytes_of(event: QueryEvent | ExecuteLoadQueryEvent, text: str) -> bytes:
    """`text_of` backwards: a text in the place of the event's own, in the client's character set.

    Raises:
        UnsupportedFeature: the character set does not have it.
    """
    own = text_of(event)
    if text == own:
        return event.sql
    session = event.status(QueryStatus.CHARSET)
    charset = charset_of(session.client) if session is not None else None
    for encode in (charset.encode if charset is not None else str.encode, _with_stray_bytes):
        with suppress(UnicodeError, BinlogError):
            if encode(own) == event.sql:
                return encode(text)
    raise UnsupportedFeature("the renamed statement cannot be encoded in its character set", field="SQL")


def _with_stray_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
