"""The selection of commands that write changes: it is applied to statements as well; renaming of schemas.

A transaction that is filtered out keeps its place in the commit order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from binlogio.constants import QueryStatus
from binlogio.dotted_names import dotted_name
from binlogio.errors import Hint, ReplayError, UnsupportedFeature
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.schema.ddl.logged_ddl import bytes_of, server_of, session_of, text_of
from binlogio.schema.statement_scope import (
    DATABASE,
    ROUTINE,
    SERVER,
    TABLES,
    StatementScope,
    renamed_statement,
    scope_of,
    statement_words,
)
from binlogio.selection.selection import Selection

if TYPE_CHECKING:
    from binlogio.columnar.row_choice import RowChoice
    from binlogio.events.base import ParseContext
    from binlogio.events.query import QueryEvent

_EventT = TypeVar("_EventT", bound="QueryEvent | ExecuteLoadQueryEvent")


@dataclass(frozen=True, slots=True)
class NamedStatement:
    """The text of a statement for the target.

    `is_wanted` is True if the statement is selected; `creates` is that of `StatementScope`. `refusal` is the error if
    filters by name cannot be applied to the statement, otherwise None.
    """

    sql: bytes
    is_wanted: bool = True
    creates: bool = False
    refusal: ReplayError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayFilter(Selection):
    """Selection of groups, tables, rows and statements; the default selects everything.

    Statements that change rows are refused if single rows are selected.

    Args:
        rewrite_db: maps names of schemas in the log to their names in the target.
    """

    rewrite_db: Mapping[str, str] = field(default_factory=dict)
    rows: RowChoice | None = field(default=None, compare=False, repr=False)
    """Selects single rows, and remembers the columns that it has found; None: all rows. A copy has the same object."""

    def __post_init__(self) -> None:
        """Check the operations, and set `rows`.

        Raises:
            UnsupportedFeature: one is not an operation.
        """
        Selection.__post_init__(self)
        if self.chooses_rows and self.rows is None:
            from binlogio.columnar.row_choice import RowChoice  # noqa: PLC0415 - imports pyarrow

            object.__setattr__(self, "rows", RowChoice(self, refuses_unknown=True))

    def wants_table(self, schema: str, table: str) -> bool:
        """Return whether a table is selected."""
        return self.names.wants(schema, table)

    @property
    def is_by_name(self) -> bool:
        """True if tables are selected or schemas renamed, so that the names in statements matter."""
        return bool(self.names or self.rewrite_db)

    @property
    def is_partial(self) -> bool:
        """True if only parts of a transaction may be selected, or its changes may be renamed."""
        return self.is_by_name or self.rows is not None

    def wants_scope(self, scope: StatementScope) -> bool:
        """Return whether the tables that a statement changes are selected.

        Raises:
            UnsupportedFeature: only some of the tables are selected.
        """
        if scope.kind == SERVER:
            return self.names.is_open
        if scope.kind == TABLES:
            found = {self._wants_named_table(*name) for name in scope.tables}
        else:
            found = {self._wants_schema(schema, scope) for schema in scope.schemas}
        if len(found) > 1:
            raise UnsupportedFeature("only some of the tables that it changes are selected")
        return found.pop()

    def _wants_named_table(self, schema: str, table: str) -> bool:
        """Return `wants_table` for a table name in a statement.

        Raises:
            UnsupportedFeature: the result depends on whether the server ignores the case of table names.
        """
        if not self.names.is_certain(schema, table):
            found = dotted_name(schema, table)
            raise UnsupportedFeature("a table name that differs only in case from a selected one", found=found)
        return self.wants_table(schema, table)

    def _wants_schema(self, schema: str, scope: StatementScope) -> bool:
        has_all = self.names.wants_all(schema)
        if has_all or not self.names.wants_some(schema):
            return has_all
        if scope.kind == DATABASE and (scope.creates or not scope.drops):
            return True
        if scope.kind == ROUTINE:
            return self.names.is_open
        raise UnsupportedFeature("only some tables of the schema are selected", found=schema)

    def statement(self, event: QueryEvent | ExecuteLoadQueryEvent, context: ParseContext) -> NamedStatement:
        """Return a statement of the log for the target: selected or not, with renamed schemas, or refused."""
        named = self._statement(event, context)
        if isinstance(event, ExecuteLoadQueryEvent) and named.is_wanted and named.refusal is None:
            end = event.file_name_end
            if named.sql[:end] != event.sql[:end]:
                return replace(named, refusal=ReplayError("LOAD DATA: a name before the file name cannot be changed"))
        return named

    def _statement(self, event: QueryEvent | ExecuteLoadQueryEvent, context: ParseContext) -> NamedStatement:
        if not self.is_by_name:
            return NamedStatement(event.sql)
        is_wanted, creates = True, False
        try:
            text = text_of(event)
            server, sql_mode = server_of(event, context), session_of(event).sql_mode
            words = statement_words(text, server, sql_mode)
            if self.names:
                scope = scope_of(words, event.schema)
                creates = scope.creates
                named = self._without_unwanted(text, scope)
                if named != text:
                    text, words = named, statement_words(named, server, sql_mode)
                else:
                    is_wanted = self.wants_scope(scope)
            if is_wanted and self.rewrite_db:
                text = renamed_statement(text, words, self.rewrite_db, event.schema)
            return NamedStatement(bytes_of(event, text), is_wanted=is_wanted, creates=creates)
        except UnsupportedFeature as exc:
            refusal = ReplayError(
                f"the table filter or the schema renames cannot be applied to a statement: {exc}",
                hint=Hint.ALL_TABLES,
            )
            return NamedStatement(event.sql, creates=creates, refusal=refusal)

    def _without_unwanted(self, text: str, scope: StatementScope) -> str:
        """Return a DROP TABLE without the tables that are not selected; other statements are returned unchanged."""
        wanted = [self._wants_named_table(*name) for name in scope.tables] if scope.names else []
        if all(wanted) or not any(wanted):
            return text
        names = [text[start:end] for (start, end), is_wanted in zip(scope.names, wanted, strict=True) if is_wanted]
        return text[: scope.names[0][0]] + ", ".join(names) + text[scope.names[-1][1] :]

    def schema(self, name: str) -> str:
        """Return the name of a schema in the target."""
        return self.rewrite_db.get(name, name)

    def with_schemas(self, event: _EventT) -> _EventT:
        """Return a statement event in which the default schema and the status variable UPDATED_DB_NAMES are renamed."""
        if not self.rewrite_db:
            return event
        variables = tuple(
            replace(one, value=tuple(map(self.schema, one.value)))
            if one.code == QueryStatus.UPDATED_DB_NAMES and one.value
            else one
            for one in event.status_vars
        )
        return replace(event, schema=self.schema(event.schema), status_vars=variables)


EVERYTHING = ReplayFilter()
