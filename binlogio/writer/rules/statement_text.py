"""Statement analysis: finds the kind, the locked tables and the unsafe reasons of a statement, with sqlglot.

Definitions of tables, triggers and functions are given by the caller. Rows, values and the Query event's context do not
follow from the text and are not found here.

    LIMIT, also inside         LIMIT                INSERT IGNORE ... SELECT            INSERT_IGNORE_SELECT
    UPDATE IGNORE              UPDATE_IGNORE        INSERT ... SELECT ... ON DUPLICATE  INSERT_SELECT_UPDATE
    a function not declared    UDF                  REPLACE ... SELECT                  REPLACE_SELECT
    see `statement_words`      SYSTEM_FUNCTION      CREATE ... IGNORE SELECT            CREATE_IGNORE_SELECT
                               SYSTEM_VARIABLE      CREATE ... REPLACE SELECT           CREATE_REPLACE_SELECT
                               SKIP_LOCKED, NOWAIT  CREATE (AUTO_INCREMENT) ... SELECT  CREATE_SELECT_AUTOINC

Reasons that follow from tables are found by `logging_format`. Source: sql/parse_tree_nodes.cc, sql/sql_insert.cc,
sql/sql_update.cc.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL
from binlogio.schema.ddl.tokens import Words
from binlogio.schema.statement_scope import leading_words, scope_of
from binlogio.writer.rules.engines import INNODB, engine_named
from binlogio.writer.rules.known_objects import KnownObjects, Names, uses_of
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind, TableAccess
from binlogio.writer.rules.statement_words import NATIVE_FUNCTIONS, calls_of, read_words
from binlogio.writer.rules.unsafe import UnsafeReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlglot import exp

    from binlogio.schema import TableDefinition
    from binlogio.writer.rules.known_objects import Uses
    from binlogio.writer.rules.statement_words import StatementWords

_DML: Final = frozenset(("INSERT", "REPLACE", "UPDATE", "DELETE"))
_READS: Final = frozenset(
    """SELECT TABLE VALUES DO SET CALL SHOW EXPLAIN DESCRIBE DESC USE HELP HANDLER PREPARE DEALLOCATE KILL CHECKSUM
    SIGNAL RESIGNAL GET""".split()
)
# A 9.7.4 server never logs them; most of them commit.
_NEVER_LOGGED: Final = frozenset("CHECK CACHE RESET CHANGE PURGE STOP INSTALL UNINSTALL".split())
_OTHER: Final = frozenset(
    """ALTER ANALYZE BACKUP BINLOG CLONE CREATE DROP EXECUTE FLUSH GRANT IMPORT LOAD OPTIMIZE RENAME REPAIR RESTART
    REVOKE SHUTDOWN TRUNCATE""".split()
)
_PARSED_READS: Final = frozenset(("SELECT", "TABLE", "DO"))
_WITH_ROWS: Final = ("TABLE", "INDEX")
NOT_STATEMENTS: Final = frozenset("BEGIN START COMMIT ROLLBACK SAVEPOINT RELEASE XA LOCK UNLOCK".split())


def facts_from_sql(
    sql: str, schema: str, tables: Iterable[TableDefinition] = (), *, objects: KnownObjects | None = None
) -> StatementFacts:
    """Return the facts of a statement from its text. Names without a schema are in `schema`.

    Raises:
        UnsupportedFeature: sqlglot cannot parse the text, the statement is not one that a session
            executes (BEGIN and the like are methods), or it refers to an undefined table.
    """
    return analyze_sql(sql, schema, tables, objects=objects)[0]


def analyze_sql(
    sql: str, schema: str, tables: Iterable[TableDefinition] = (), *, objects: KnownObjects | None = None
) -> tuple[StatementFacts, Uses]:
    """Analyze a statement as `facts_from_sql`, and also return what the statement and its views use besides tables.

    Raises:
        UnsupportedFeature: as `facts_from_sql`.
    """
    objects = KnownObjects() if objects is None else objects
    known = Names(schema, tables, objects)
    words = read_words(executed_sql(sql, objects))
    facts = _facts_of_words(words, known)
    uses = uses_of(words)
    for view in known.view_words:
        uses |= uses_of(view)
    return facts, uses


def executed_sql(sql: str, objects: KnownObjects | None) -> str:
    """Return the text of the statement that EXECUTE executes, which a server logs; other texts are returned unchanged.

    Raises:
        UnsupportedFeature: the prepared statement is not declared, or has parameters.
    """
    words = leading_words(sql, NEWEST_MYSQL, 0, 2)
    if not words.accept("EXECUTE"):
        return sql
    name = words.next.text
    prepared = {} if objects is None else {key.casefold(): text for key, text in objects.prepared.items()}
    text = prepared.get(name.casefold())
    if text is None:
        raise UnsupportedFeature(
            "the prepared statement is not declared",
            field="prepared",
            found=name,
            hint="declare its text in `KnownObjects.prepared`, or give the text instead of EXECUTE",
        )
    if "?" in read_words(text).texts:
        raise UnsupportedFeature(
            "the prepared statement has parameters",
            field="prepared",
            found=repr(text[:80]),
            hint="a server logs the text with their values: give that instead of EXECUTE",
        )
    return text


def _facts_of_words(words: StatementWords, known: Names) -> StatementFacts:
    kind = _kind(words)
    if kind in (StatementKind.DDL, StatementKind.ROW_INJECTION):
        return StatementFacts(kind=kind, verb=words.verb, tables=tuple(_tables_of_ddl(words, known)))
    if kind is StatementKind.LOAD_DATA:
        written = _loaded_table(words, known)
        start = max((i for i, word in enumerate(words.words) if word == "SET"), default=len(words.words))
        known.functions |= calls_of(words.words[start:]) - NATIVE_FUNCTIONS
        changed = [(written, _events(words))]
        return known.facts(words, kind, (written,), fired=changed, cascading=changed)
    if kind is StatementKind.SELECT and words.verb not in _PARSED_READS:
        return known.facts(words, kind, ())
    tree = _parse(words)
    if kind in (StatementKind.CREATE_TEMPORARY, StatementKind.DROP_TEMPORARY):
        return StatementFacts(kind=kind, verb=words.verb, tables=tuple(_temporary(tree, kind, known)))
    return _facts_of_tree(words, kind, tree, known)


def _kind(words: StatementWords) -> StatementKind:
    verb = words.verb
    if verb in NOT_STATEMENTS or not verb:
        raise UnsupportedFeature(
            "statements of this kind are not executed as a Statement",
            field="sql",
            found=repr(verb),
            hint="use the method of the session, such as `begin`, `commit` or `ddl`",
        )
    if verb in _NEVER_LOGGED or words.words[:2] == ("LOAD", "INDEX"):
        raise UnsupportedFeature(
            "a server does not log statements of this kind",
            field="sql",
            found=repr(verb),
            hint="leave it out; where it ends a transaction, call `commit`",
        )
    if verb in _DML:
        return StatementKind.DML
    if words.words[:2] == ("SET", "PASSWORD"):
        return StatementKind.DDL
    if verb in _READS:
        return StatementKind.SELECT
    if verb == "CREATE" and "TABLE" in words.words[:3]:
        temporary = words.words[1] == "TEMPORARY"
        if "SELECT" in words.words or words.has("AS", "TABLE") or words.has(")", "TABLE"):
            return StatementKind.CREATE_TEMPORARY_SELECT if temporary else StatementKind.CREATE_SELECT
        return StatementKind.CREATE_TEMPORARY if temporary else StatementKind.DDL
    if words.words[:2] == ("DROP", "TEMPORARY"):
        return StatementKind.DROP_TEMPORARY
    if verb not in _OTHER:
        expected = "the first word of a statement, such as INSERT or CREATE; `ddl` takes any text"
        raise UnsupportedFeature("not a statement", field="sql", expected=expected, found=repr(verb))
    return {"LOAD": StatementKind.LOAD_DATA, "BINLOG": StatementKind.ROW_INJECTION}.get(verb, StatementKind.DDL)


def _parse(words: StatementWords) -> exp.Expr:
    from sqlglot import exp, parse_one  # noqa: PLC0415 - slow to import
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    wanted = {"UPDATE": exp.Update, "DELETE": exp.Delete, "CREATE": exp.Create, "DROP": exp.Drop}
    kind = exp.Insert if words.verb in ("INSERT", "REPLACE") else wanted.get(words.verb, exp.Query)
    try:
        tree = parse_one(words.sql, dialect="mysql")
    except SqlglotError as exc:
        raise _unreadable(words.sql) from exc
    if not isinstance(tree, kind) or (kind is exp.Create and (tree.this is None or tree.this.find(exp.Table) is None)):
        raise _unreadable(words.sql)
    return tree


def _unreadable(sql: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        "sqlglot cannot parse this statement",
        field="sql",
        found=repr(sql[:200]),
        hint="describe the statement with `facts`",
    )


def _events(words: StatementWords, *, updates_on_duplicate: bool = False) -> frozenset[str]:
    """Return the trigger events that the statement causes on the tables that it writes."""
    if words.verb in ("UPDATE", "DELETE"):
        return frozenset((words.verb,))
    more = ("DELETE",) if words.is_replace or "REPLACE" in words.words else ()
    return frozenset(("INSERT", *more, *(("UPDATE",) if updates_on_duplicate else ())))


def _tables_of_ddl(words: StatementWords, known: Names) -> Iterator[TableAccess]:
    """Yield the temporary table that a DDL statement changes, and all tables of DROP TABLE and TRUNCATE.

    Other tables do not affect the log. Unknown tables of DROP TABLE are included, because the server logs them.
    """
    empties = words.verb == "TRUNCATE"
    try:
        at = Words(list(words.tokens), at=1)
        if not empties and (words.verb not in ("ALTER", "CREATE", "DROP") or at.object_kind() not in _WITH_ROWS):
            return
        names = scope_of(at, known.schema).tables
    except UnsupportedFeature:
        return
    drops = words.verb == "DROP" and "INDEX" not in words.words[:3]
    for schema, name in names if drops else names[:1]:
        if known.is_temporary(schema, name) or ((drops or empties) and known.is_defined(schema, name)):
            found = known.access(schema, name, write=True)
            if found is not None:
                yield found
        elif drops:
            yield TableAccess(schema=schema, name=name, write=True, is_missing=True)


def _loaded_table(words: StatementWords, known: Names) -> TableAccess:
    schema, name = scope_of(Words(list(words.tokens)), known.schema).tables[0]
    found = known.access(schema, name, write=True)
    if found is None:
        raise UnsupportedFeature("LOAD DATA loads a table that is not logged", field="sql", found=name)
    return found


def _temporary(tree: exp.Expr, kind: StatementKind, known: Names) -> Iterator[TableAccess]:
    """Yield the tables of CREATE and DROP TEMPORARY TABLE; a DROP yields only existing tables."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    if kind is StatementKind.CREATE_TEMPORARY:
        yield _created(tree, known, temporary=True)
        return
    for table in tree.find_all(exp.Table):
        if known.is_temporary(table.db, table.name):
            found = known.access(table.db, table.name, write=True)
            if found is not None:
                yield found


def _created(tree: exp.Expr, known: Names, *, temporary: bool) -> TableAccess:
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    target = tree.this.find(exp.Table)
    engine = tree.find(exp.EngineProperty)
    return TableAccess(
        schema=target.db or known.schema,
        name=target.name,
        engine=INNODB if engine is None else engine_named(engine.name),
        write=True,
        temporary=temporary,
        auto_increment=tree.this.find(exp.AutoIncrementColumnConstraint) is not None,
    )


def _facts_of_tree(words: StatementWords, kind: StatementKind, tree: exp.Expr, known: Names) -> StatementFacts:
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    known.functions |= _functions(tree)
    creates = kind in (StatementKind.CREATE_SELECT, StatementKind.CREATE_TEMPORARY_SELECT)
    conflict = tree.find(exp.OnConflict) if isinstance(tree, exp.Insert) else None
    created = [_created(tree, known, temporary=kind is not StatementKind.CREATE_SELECT)] if creates else []
    target = tree.this.find(exp.Table) if creates else None
    nodes = [node for node in _table_nodes(tree) if node is not target]
    views = {id(node): view for node in nodes if (view := _view_of(node, known)) is not None}
    targets = [] if creates else _targets(tree, nodes, known, views)
    joined = _own_nodes(nodes) if isinstance(tree, exp.Update) else []
    locked = _locked_nodes(tree)
    tables, fired, changed = list(created), [], []
    unsafe = set(_reasons(words, kind, tree, updates=conflict is not None))
    for node in nodes:
        is_target = any(node is one for one in targets)
        is_joined = any(node is one for one in joined)
        view = views.get(id(node))
        parts = (_ViewTable(node.db, node.name, is_own=True),) if view is None else view.tables
        wanted = {one.full_name for one in parts if one.is_own}
        if view is not None:
            unsafe |= view.unsafe
            if isinstance(tree, exp.Update):
                wanted &= _set_through(view, node, tree, views, known)
        for one in parts:
            is_written = one.full_name in wanted and (is_target or any(node is other for other in locked))
            table = known.access(one.schema, one.name, write=is_written, read=not is_written)
            if table is None:
                continue
            if (is_joined and one.is_own) or words.verb == "DELETE":
                checks = words.verb != "DELETE" and known.has_foreign_keys(table)
                table = replace(table, checks_foreign_keys=checks)
            if is_written and not is_target:
                table = replace(table, only_locked=True)
            tables.append(table)
            if is_written or (is_joined and one.is_own):
                fired.append(table)
            if (is_joined and one.is_own) or (is_target and is_written):
                changed.append(table)  # an UPDATE of several tables locks the children of each table that it joins
    events = _events(words, updates_on_duplicate=conflict is not None)
    return known.facts(
        words,
        kind,
        tables,
        fired=[(table, events) for table in fired],
        cascading=[(table, events) for table in changed],
        unsafe=unsafe,
        updates_on_duplicate=conflict is not None,
        is_skipped=_is_skipped(words, tree, known),
    )


@dataclass(frozen=True, slots=True)
class _ViewTable:
    """A table of a view. `is_own`: rows of the view are rows of this table."""

    schema: str
    name: str
    is_own: bool

    @property
    def full_name(self) -> str:
        return dotted_name(self.schema, self.name)


@dataclass(frozen=True, slots=True)
class _View:
    """The tables of a view in the order of its text, and its unsafe reasons.

    `columns` has the table (`schema.name`) of each column, None for an expression.
    """

    tables: tuple[_ViewTable, ...]
    columns: dict[str, str | None]
    unsafe: frozenset[UnsafeReason]

    @property
    def own(self) -> frozenset[str]:
        """Tables whose rows are rows of the view."""
        return frozenset(table.full_name for table in self.tables if table.is_own)


def _view_of(node: exp.Table, known: Names, schema: str = "", inside: tuple[str, ...] = ()) -> _View | None:
    """Resolve a view to its tables; None if the name is that of a table. `inside` are the enclosing views.

    Raises:
        UnsupportedFeature: its SELECT cannot be parsed, or it contains itself.
    """
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    schema = node.db or schema or known.schema
    text = known.view(schema, node.name)
    if text is None:
        return None
    full_name = dotted_name(schema, node.name)
    if full_name in inside:
        raise UnsupportedFeature("the view contains itself", field="views", found=full_name)
    words = read_words(text)
    known.view_words.append(
        replace(words, calls=words.calls | {f"{schema}.{call}".upper() for call in words.calls if "." not in call})
    )
    tree = _parse(words)
    known.functions |= {name if "." in name else f"{schema}.{name}".upper() for name in _functions(tree)}
    tables: list[_ViewTable] = []
    sources: list[tuple[str, dict[str, str | None]]] = []
    unsafe = set(_reasons(words, StatementKind.SELECT, tree, updates=False))
    for one in _table_nodes(tree):
        is_own = isinstance(tree, exp.Select) and one.find_ancestor(exp.Select) is tree
        inner = _view_of(one, known, schema, (*inside, full_name))
        if inner is None:
            found = _ViewTable(one.db or schema, one.name, is_own=is_own)
            tables.append(found)
            columns: dict[str, str | None] = dict.fromkeys(known.columns(found.schema, found.name), found.full_name)
        else:
            tables += (replace(table, is_own=table.is_own and is_own) for table in inner.tables)
            columns = inner.columns
            unsafe |= inner.unsafe
        if is_own:
            sources.append((one.alias_or_name, columns))
    return _View(tuple(tables), dict(_columns_of(tree, sources)), frozenset(unsafe))


def _columns_of(tree: exp.Expr, sources: list[tuple[str, dict[str, str | None]]]) -> Iterator[tuple[str, str | None]]:
    """Yield the columns of a view, in small letters, with the table of each."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    for one in tree.selects if isinstance(tree, exp.Query) else ():
        column = one.unalias()
        if one.is_star:
            wanted = one.table if isinstance(one, exp.Column) else ""
            for name, columns in sources:
                if not wanted or name == wanted:
                    yield from ((key.casefold(), table) for key, table in columns.items())
            continue
        table = None
        if isinstance(column, exp.Column):
            for name, columns in sources:
                known = {key.casefold(): of for key, of in columns.items()}
                if column.table in ("", name) and column.name.casefold() in known:
                    table = known[column.name.casefold()]
        yield one.alias_or_name.casefold(), table


def _set_through(view: _View, node: exp.Table, tree: exp.Expr, views: dict[int, _View], known: Names) -> frozenset[str]:
    """Return the tables of a view whose columns an UPDATE sets."""
    if len(view.own) == 1:
        return view.own
    names = [assignment.this.name for assignment in tree.expressions if _sets(assignment, node, known, views)]
    return frozenset(table for name in names if (table := view.columns.get(name.casefold())) is not None)


def _functions(tree: exp.Expr) -> set[str]:
    """Return the non-native functions that are called, in capital letters; `SCHEMA.NAME` for those with a schema."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    found = set()
    for call in tree.find_all(exp.Anonymous):
        name, before = call.name.upper(), call.parent
        if isinstance(before, exp.Dot) and before.expression is call:
            found.add(f"{before.this.name.upper()}.{name}")
        elif name not in NATIVE_FUNCTIONS:
            found.add(name)
    return found


def _table_nodes(tree: exp.Expr) -> list[exp.Table]:
    """Return the tables in the order of the text, without names of common table expressions and of locking clauses."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    defined = {cte.alias for cte in tree.find_all(exp.CTE)}
    targets = tree.args.get("tables") or (
        [tree.this] if isinstance(tree, exp.Delete) and tree.args.get("using") else []
    )
    found = [
        node
        for node in tree.find_all(exp.Table)
        if node.name
        and node.name.upper() != "DUAL"
        and not (node.name in defined and not node.db)
        and node.find_ancestor(exp.Lock, exp.Into) is None
        and not any(node is target for target in targets)
    ]
    return sorted(found, key=lambda node: int(node.this.meta.get("start", 0)))


def _targets(tree: exp.Expr, nodes: list[exp.Table], known: Names, views: dict[int, _View]) -> list[exp.Table]:
    """Return the tables whose rows the statement changes."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    if isinstance(tree, exp.Insert):
        target = tree.this.find(exp.Table)
        return [] if target is None else [target]
    if isinstance(tree, exp.Delete):
        names = tree.args.get("tables") or ([tree.this] if tree.args.get("using") else [])
        if not names:
            return [tree.this]
        wanted = {name.name for name in names}
        return [node for node in nodes if node.alias_or_name in wanted and node.find_ancestor(exp.Subquery) is None]
    if not isinstance(tree, exp.Update):
        return []
    own = _own_nodes(nodes)
    if len(own) == 1:
        return own
    return [node for node in own if any(_sets(assignment, node, known, views) for assignment in tree.expressions)]


def _own_nodes(nodes: list[exp.Table]) -> list[exp.Table]:
    """Return the tables that an UPDATE joins, without those of its subqueries."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    return [node for node in nodes if node.find_ancestor(exp.Subquery, exp.Select) is None]


def _sets(assignment: exp.Expr, node: exp.Table, known: Names, views: dict[int, _View]) -> bool:
    """Return whether an assignment of an UPDATE sets a column of a table or view."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    column = assignment.this
    if not isinstance(assignment, exp.EQ) or not isinstance(column, exp.Column):
        raise _unreadable(assignment.sql())
    if column.table:
        return bool(column.table == node.alias_or_name)
    view = views.get(id(node))
    if view is not None:
        return column.name.casefold() in view.columns
    access = known.access(node.db, node.name)
    return access is not None and known.is_column(access, column.name)


def _locked_nodes(tree: exp.Expr) -> list[exp.Table]:
    """Return the tables that SELECT ... FOR UPDATE locks for writing."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    found: list[exp.Table] = []
    for select in tree.find_all(exp.Select):
        for lock in select.args.get("locks") or ():
            if lock.args.get("update"):
                only = {table.name for table in lock.find_all(exp.Table)}
                sources = [select.args.get("from_") or select.args.get("from"), *(select.args.get("joins") or ())]
                found += [
                    table
                    for source in sources
                    if source is not None
                    for table in source.find_all(exp.Table)
                    if not only or table.alias_or_name in only
                ]
    return found


def _reasons(words: StatementWords, kind: StatementKind, tree: exp.Expr, *, updates: bool) -> Iterator[UnsafeReason]:
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    if tree.find(exp.Limit, exp.Offset) is not None:
        yield UnsafeReason.LIMIT
    if words.verb == "UPDATE" and words.is_ignore:
        yield UnsafeReason.UPDATE_IGNORE
    if isinstance(tree, exp.Insert) and isinstance(tree.expression, exp.Query):
        yield from (
            reason
            for reason, holds in (
                (UnsafeReason.REPLACE_SELECT, words.is_replace),
                (UnsafeReason.INSERT_IGNORE_SELECT, words.is_ignore and not words.is_replace),
                (UnsafeReason.INSERT_SELECT_UPDATE, updates),
            )
            if holds
        )
    if kind in (StatementKind.CREATE_SELECT, StatementKind.CREATE_TEMPORARY_SELECT):
        if words.is_ignore:
            yield UnsafeReason.CREATE_IGNORE_SELECT
        if words.is_replace:
            yield UnsafeReason.CREATE_REPLACE_SELECT
        if tree.this.find(exp.AutoIncrementColumnConstraint) is not None:
            yield UnsafeReason.CREATE_SELECT_AUTOINC


def _is_skipped(words: StatementWords, tree: exp.Expr, known: Names) -> bool:
    """Return whether LIMIT 0 ends an UPDATE or DELETE, or an existing table CREATE TABLE IF NOT EXISTS ... SELECT."""
    from sqlglot import exp  # noqa: PLC0415 - slow to import

    if isinstance(tree, exp.Create):
        target = tree.this.find(exp.Table)
        return bool(tree.args.get("exists")) and known.is_defined(target.db, target.name)
    limit = tree.args.get("limit")
    return words.verb in ("UPDATE", "DELETE") and limit is not None and limit.expression.name == "0"
