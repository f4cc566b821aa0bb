"""Table history: builds the life of each table (names, columns, stretches of the log) from the marks of the logs.

Orders marks, and applies them. The effect of a DDL statement (create, alter, rename, truncate, drop) on rows is
determined here, its effect on columns by `binlogio.schema`.

Source: the model of `binlogio.schema.ddl.statements`, which follows the same tree for the definitions alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from binlogio.constants import OptionalMetadataType
from binlogio.errors import BinlogError, ReplayError, UnsupportedFeature
from binlogio.events import ParseContext, QueryEvent
from binlogio.schema import TableDefinition, from_table_map
from binlogio.schema.ddl import (
    PRIMARY,
    UNKNOWN_DEFAULT,
    AlterTable,
    Catalogue,
    ColumnChanges,
    CreateIndex,
    CreateTable,
    Default,
    DropDatabase,
    DropIndex,
    DropTables,
    FromSelect,
    Key,
    KnownTable,
    Like,
    LoggedDdl,
    ParsedTable,
    RenameTables,
    TableName,
    Token,
    TruncateTable,
    Unparsed,
    Unreadable,
    column_changes,
    defaults_after,
    effective_defaults,
    text_of,
    tokenize,
)
from pyspark_binlogio.history.log_marks import (
    Cut,
    Definition,
    Images,
    Lost,
    Mapped,
    Mark,
    Place,
    Prepared,
    TextChange,
    Void,
    XaEnd,
)
from pyspark_binlogio.history.table_life import BEGIN, END, NOTHING, Detour, Life, Stretch

if TYPE_CHECKING:
    from collections.abc import Mapping


_ALL_TABLES: Final = ("",)
_NAMING_VERBS: Final = frozenset({"insert", "update", "delete", "replace", "load"})


class TableHistory:
    """The lives of all tables of a log.

    Args:
        marks: the facts of the log besides row changes, in any order.
        given: definitions of tables as they were when the log began.
    """

    def __init__(self, marks: Iterable[Mark], given: Iterable[TableDefinition] = ()) -> None:
        self.cut = END
        self.detours: list[Detour] = []
        self.images: dict[TableName, list[tuple[Place, Images]]] = {}
        self._lives: dict[TableName, Life] = {}
        self._gone: dict[TableName, Place] = {}
        self._catalogue = Catalogue()
        self._prepared: dict[str, tuple[Place, Place]] = {}
        self._first_problems: dict[str, tuple[Place, ReplayError]] = {}  # by names of tables in lower case
        for definition in given:
            name = definition.schema, definition.name
            self._catalogue.put(name, KnownTable(_parsed(definition)))
            self._lives[name] = Life([Stretch(name, BEGIN, definition=definition, is_given=True)], is_whole=False)
        self._follow(sorted(marks, key=_order))

    def life(self, name: TableName) -> Life:
        """Return the life of the table that has this name at the end.

        Raises:
            ReplayError: no table has it.
        """
        life = self._lives.get(name)
        if life is not None:
            return life
        gone = self._gone.get(name)
        raise ReplayError(
            f"there is no table {'.'.join(name)}",
            found=f"dropped or renamed at offset {gone.pos}" if gone is not None else "no log mentions it",
            expected=", ".join(sorted(".".join(one) for one in self._lives)) or "no table",
        )

    def images_of(self, life: Life) -> Images:
        """Return the kinds of images in the changes of the table."""
        found = Images(schema="", table="")
        for stretch in life.stretches:
            for place, images in self.images.get(stretch.name, ()):
                if place < stretch.end:
                    found |= images
        return found

    def detours_of(self, life: Life) -> list[Detour]:
        """Return the changes that do not take effect at their own position, in the order of the log."""
        definition = life.now.definition
        transactional = definition is None or definition.is_transactional
        return [one for one in self.detours if transactional or not one.spares_untransactional]

    # ------------------------------------------------------------------------------------------------------ marks

    def _follow(self, marks: list[Mark]) -> None:
        self.cut = min((mark.place for mark in marks if isinstance(mark.what, Cut)), default=END)
        for mark in marks:
            what = mark.what
            if isinstance(what, Images):
                self.images.setdefault((what.schema, what.table), []).append((mark.place, what))
            elif mark.place >= self.cut:
                continue
            elif isinstance(what, Void):
                self.detours.append(Detour(mark.place, what.end, None, what.by_client))
            elif isinstance(what, Prepared):
                self._prepared[what.xid] = mark.place, what.end
            elif isinstance(what, XaEnd):
                self._end_prepared(what, mark.place)
            elif isinstance(what, Mapped):
                self._map(what, mark.place)
            elif isinstance(what, Definition):
                self._define(what.event, what.context, mark.place)
            elif isinstance(what, TextChange):
                self._text_change(what, mark.place)
            elif isinstance(what, Lost):
                self.note(mark.place, ReplayError(f"the source lost changes here: {what.message}"))
        self.detours += [Detour(start, end, None) for start, end in self._prepared.values()]
        self.detours.sort(key=lambda one: (one.start, one.end))

    def _end_prepared(self, what: XaEnd, place: Place) -> None:
        prepared = self._prepared.pop(what.xid, None)
        if prepared is not None:
            self.detours.append(Detour(*prepared, place if what.commits else None))
        elif what.commits:
            self.note(place, ReplayError(f"XA COMMIT of a transaction that was prepared before the log: {what.xid}"))

    def _map(self, mapped: Mapped, place: Place) -> None:
        event = mapped.event
        name = event.schema, event.table
        life = self._lives.get(name)
        if life is None:
            life = self._lives[name] = Life([Stretch(name, BEGIN)], is_whole=False, problems=self.problems_of(name))
        now = life.now
        if now.mapped is None:
            now.mapped, now.flavor_of = mapped, mapped.context
        elif not _is_alike(now.mapped, mapped):
            life.change(place, NOTHING, Stretch(name, place, mapped=mapped, flavor_of=mapped.context))
        if life.now.definition is None and self._catalogue.find(*name) is None:
            self._learn(life.now, mapped)

    def _learn(self, stretch: Stretch, mapped: Mapped) -> None:
        """Take the definition from FULL metadata, so that an ALTER TABLE can be followed."""
        if mapped.event.optional(OptionalMetadataType.COLUMN_NAME) is None:
            return
        try:
            definition = from_table_map(mapped.event, mapped.context)
        except BinlogError:
            return
        self._catalogue.put(stretch.name, KnownTable(_parsed(definition)))

    def _text_change(self, change: TextChange, place: Place) -> None:
        if any(one.start <= place < one.end for one in self.detours):
            return
        words = _words_of(change.sql)
        is_call = words.isdisjoint(_NAMING_VERBS)  # of a function, which may change any table
        self.note(place, _text_problem(change.sql), None if is_call else words)

    # ------------------------------------------------------------------------------------------------- statements

    def _define(self, event: QueryEvent, context: ParseContext, place: Place) -> None:
        logged = LoggedDdl.of(event, context)
        statement = TableStatement(self, logged, context, place)
        try:
            statement.carry_out()
        except UnsupportedFeature as exc:
            self.note(place, _problem(exc), _words_of(text_of(event)))
            statement.follow()

    def note(self, place: Place, problem: ReplayError, words: frozenset[str] | None = None) -> None:
        """Note a problem of all tables, or of those whose names are among the words, which the log may show later."""
        for name, life in self._lives.items():
            if words is None or name[1].casefold() in words:
                life.problems.append((place, problem))
        for word in _ALL_TABLES if words is None else words:
            self._first_problems.setdefault(word, (place, problem))

    def problems_of(self, name: TableName) -> list[tuple[Place, ReplayError]]:
        """Return the first problems of a table that was there before the log."""
        found = (self._first_problems.get(word) for word in (*_ALL_TABLES, name[1].casefold()))
        return sorted((one for one in found if one is not None), key=lambda one: one[0])

    def known(self, name: TableName) -> TableName:
        """Return the name under which a table is known: servers that fold case log a statement as it was typed."""
        if name in self._lives:
            return name
        alike = [one for one in self._lives if _folded(one) == _folded(name)]
        return alike[0] if len(alike) == 1 else name

    def begin(self, name: TableName, life: Life) -> None:
        """Register a new table of this name."""
        self._lives[name] = life
        self._gone.pop(name, None)

    def end(self, name: TableName, place: Place) -> Life | None:
        """Remove the table of this name, and return its life."""
        self._gone[name] = place
        return self._lives.pop(self.known(name), None)

    def current(self, name: TableName) -> Life | None:
        """Return the life of the table that has this name now."""
        return self._lives.get(self.known(name))

    def names(self) -> list[TableName]:
        """Return the tables that there are now."""
        return list(self._lives)

    @property
    def catalogue(self) -> Catalogue:
        """The definitions of the tables by the statements of the log."""
        return self._catalogue


def _problem(reason: BinlogError) -> ReplayError:
    """Return the error of a replay that needs the statement, with the facts of the reason."""
    problem = ReplayError(
        reason.reason, field=reason.field, expected=reason.expected, found=reason.found, hint=reason.hint
    )
    problem.__cause__ = reason
    return problem


def _text_problem(sql: str) -> ReplayError:
    return ReplayError(f"a statement that changes rows is in the log as text: {sql[:80]!r}")


def _order(mark: Mark) -> tuple[Place, bool]:
    """Return a sort key: by place; a group that is rolled back comes before its contents."""
    return mark.place, not isinstance(mark.what, (Void, Prepared))


def _is_alike(one: Mapped, other: Mapped) -> bool:
    same = ("column_types", "metadata", "optional_metadata")
    return all(getattr(one.event, name) == getattr(other.event, name) for name in same)


def _folded(name: TableName) -> TableName:
    return name[0].casefold(), name[1].casefold()


def _words_of(sql: str) -> frozenset[str]:
    """Return the words of a statement that may be names, in lower case; all words if it cannot be parsed."""
    try:
        tokens: Iterable[Token] = tokenize(sql)
    except UnsupportedFeature:
        return frozenset("".join(one if one.isalnum() or one in "_$" else " " for one in sql).casefold().split())
    return frozenset(token.text.casefold() for token in tokens if token.is_name)


def _parsed(definition: TableDefinition) -> ParsedTable:
    """Return a definition in the form that statements can change."""
    columns = tuple(
        replace(column, collation=found) if (found := definition.collation_of(column)) != "binary" else column
        for column in definition.columns
    )
    prefixes = definition.primary_key_prefixes or (0,) * len(definition.primary_key)
    table = ParsedTable(
        schema=definition.schema,
        name=definition.name,
        columns=columns,
        engine=definition.engine,
        collation=definition.collation,
    )
    if definition.primary_key:
        table = table.with_key(Key(PRIMARY, tuple(zip(definition.primary_key, prefixes, strict=True)), is_unique=True))
    for key in definition.unique_keys:
        sizes = key.prefixes or (0,) * len(key.columns)
        table = table.with_key(Key("", tuple(zip(key.columns, sizes, strict=True)), is_unique=True))
    return table


class TableStatement:
    """A DDL statement, applied to the history of the tables."""

    def __init__(self, history: TableHistory, logged: LoggedDdl, context: ParseContext, place: Place) -> None:
        self._history = history
        self._logged = logged
        self._context = context
        self._place = place
        self._is_followed = False

    def carry_out(self) -> None:  # noqa: C901 - one case a kind of statement
        """Apply the statement.

        Raises:
            UnsupportedFeature: the names in it cannot be read.
        """
        full_name = self._logged.full_name
        match self._logged.statement:
            case TruncateTable(table):
                self._truncate(full_name(table))
            case CreateTable(is_temporary=False) as created:
                self._create(created, full_name(created.table))
            case AlterTable() as altered:
                self._alter(altered, self._history.known(full_name(altered.table)))
            case CreateIndex(table) | DropIndex(table):
                self._index(self._history.known(full_name(table)))
            case RenameTables(renames):
                for old, new in renames:
                    self._rename(self._history.known(full_name(old)), full_name(new))
            case DropTables(tables, only_temporary=False):
                for table in tables:
                    self._drop(full_name(table))
            case DropDatabase(schema):
                for name in self._history.names():
                    if name[0] == schema:
                        self._history.end(name, self._place)
            case Unreadable(_, problem):
                raise problem.error()
        self.follow()

    def _create(self, statement: CreateTable, name: TableName) -> None:
        """Apply CREATE TABLE: a new, empty table."""
        history = self._history
        exists = history.current(name) is not None or history.catalogue.find(*name) is not None
        self.follow()
        if statement.if_not_exists and exists and not statement.replaces:
            return
        if statement.defaults is None and isinstance(statement.body, Unparsed):
            raise statement.body.error()
        defaults = dict(statement.defaults or {})
        if isinstance(statement.body, Like):
            source = history.current(self._logged.full_name(statement.body.table))
            defaults = {} if source is None else dict(source.now.defaults)
        stretch = Stretch(name, self._place, flavor_of=self._context)
        stretch.definition = self._definition(name)
        stretch.defaults = (
            defaults if stretch.definition is None else effective_defaults(defaults, stretch.definition.columns)
        )
        is_whole = not statement.if_not_exists or statement.replaces or exists
        life = Life([stretch], is_whole=is_whole, problems=[] if is_whole else history.problems_of(name))
        if isinstance(statement.body, FromSelect):
            life.problems.append((self._place, _text_problem(text_of(self._logged.event))))
        history.begin(name, life)

    def _alter(self, statement: AlterTable, name: TableName) -> None:
        """Apply ALTER TABLE: columns, name or key change."""
        history, clauses = self._history, statement.clauses
        life = history.current(name)
        known = history.catalogue.find(*name)
        table = known.table if known is not None else ParsedTable(schema="", name="", columns=(), collation="binary")
        self.follow()
        if self._is_temporary(name):
            return
        if isinstance(clauses, Unparsed) or clauses.exchanged is not None:
            others = statement.new_names if isinstance(clauses, Unparsed) else (clauses.exchanged,)
            problem = ReplayError("a statement may move rows between two tables, which row changes do not tell")
            history.note(self._place, problem, frozenset(one[1].casefold() for one in others if one is not None))
        if life is None:
            return
        changes = NOTHING
        if isinstance(clauses, Unparsed):
            life.problems.append((self._place, _problem(clauses.error())))
        else:
            changes = column_changes(clauses, table)
            if changes.drops_rows:
                problem = ReplayError("a statement empties or fills a partition, which row changes do not tell")
                life.problems.append((self._place, problem))
        new_name = self._logged.full_name(changes.name) if changes.name is not None else name
        self._begin_stretch(life, new_name, changes)
        if new_name != name:
            history.end(name, self._place)
            history.begin(new_name, life)

    def _index(self, name: TableName) -> None:
        """Apply CREATE INDEX or DROP INDEX: the key may change."""
        life = self._history.current(name)
        self.follow()
        if life is not None:
            self._begin_stretch(life, name, NOTHING)

    def _rename(self, old: TableName, new: TableName) -> None:
        life = self._history.end(old, self._place)
        if life is not None:
            life.change(self._place, NOTHING, replace(life.now, name=new, start=self._place, mapped=None))
            self._history.begin(new, life)

    def _drop(self, name: TableName) -> None:
        if not self._is_temporary(name):
            self._history.end(name, self._place)

    def _truncate(self, name: TableName) -> None:
        life = self._history.current(name)
        if life is not None and not self._is_temporary(name):
            life.begin_again(self._place)

    # ----------------------------------------------------------------------------------------------------- parts

    def _begin_stretch(self, life: Life, name: TableName, changes: ColumnChanges) -> None:
        """Begin the next stretch after an ALTER TABLE, if the statement affects rows."""
        now = life.now
        definition = self._definition(name)
        old = now.definition
        is_same = definition is not None and old is not None and definition.columns == old.columns
        if name == now.name and is_same and not changes.defaults and _key(definition) == _key(old):
            now.definition = definition
            return
        following = Stretch(name, self._place, definition=definition, is_given=now.is_given, flavor_of=self._context)
        following.defaults = _defaults_after(now.defaults, changes, definition)
        added = {
            one: self._timed(following.defaults.get(one, UNKNOWN_DEFAULT), one, definition) for one in changes.added
        }
        life.change(self._place, replace(changes, defaults=added), following)

    def _timed(self, default: Default, name: str, definition: TableDefinition | None) -> Default:
        """Return the default that existing rows get.

        CURRENT_TIMESTAMP is the time of the statement, if the value does not depend on the session's time zone.
        """
        if not default.is_now:
            return default
        columns = definition.columns if definition is not None else ()
        kind = next((column.sql_type.name for column in columns if column.name.casefold() == name), "")
        if kind != "timestamp":
            return UNKNOWN_DEFAULT
        moment = datetime.fromtimestamp(self._logged.event.header.timestamp, timezone.utc)
        return Default(moment.strftime("%Y-%m-%d %H:%M:%S"))

    def _definition(self, name: TableName) -> TableDefinition | None:
        known = self._history.catalogue.find(*name)
        return None if known is None else replace(known.table.definition(), schema=name[0], name=name[1])

    def _is_temporary(self, name: TableName) -> bool:
        return self._logged.is_temporary(name, self._history.catalogue)

    def follow(self) -> None:
        """Apply the statement to the catalogue, once."""
        if not self._is_followed:
            self._is_followed = True
            self._logged.follow(self._history.catalogue)


def _defaults_after(
    before: Mapping[str, Default], changes: ColumnChanges, definition: TableDefinition | None
) -> dict[str, Default]:
    """Return the defaults after an ALTER TABLE; without a definition, those of the columns that statements named."""
    if definition is not None:
        return defaults_after(before, changes, definition.columns)
    formers = {name: changes.renamed.get(name, name) for name in before}
    return {**{name: before[former] for name, former in formers.items() if former in before}, **changes.defaults}


def _key(definition: TableDefinition | None) -> tuple[str, ...]:
    return () if definition is None else definition.primary_key
