"""Random statements on the slots of `random_tables`: their text, the rows that they change, and the resulting rows.

`random_transactions` has the sessions and locks. The effect of a statement depends on the existing rows; a statement
without effect is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from binlogio.events.statement_context import IntvarEvent, IntvarKind, UserVarEvent, UserVarType
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio.writer import Delete, Insert, Update
from binlogio.writer.rules.statement import Change, ContextEvent
from random_tables import MODULUS, NOTE, NULL, SLOTS, Row, Table, V, document, number, text

DUPLICATE_KEY: Final = 1062
BINARY: Final = 63
After = dict[tuple[str, int], list[Row]]


@dataclass(frozen=True, slots=True)
class Made:
    """A statement. `after` has the rows of the changed slots, unless the change is rolled back.

    `fires`: a trigger writes to another table.
    """

    sql: str
    changes: list[Change]
    after: After
    error: int = 0
    context: tuple[ContextEvent, ...] = ()
    fires: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """The slots of a statement: some of one table, and optionally one of another table."""

    table: Table
    slots: tuple[int, ...]
    other: Table | None = None
    other_slot: int = 0

    @property
    def tables(self) -> tuple[Table, ...]:
        """The one or two tables of the step."""
        return (self.table,) if self.other is None else (self.table, self.other)

    @property
    def cells(self) -> tuple[tuple[Table, int], ...]:
        """All slots of the step, each with its table."""
        other = () if self.other is None else ((self.other, self.other_slot),)
        return (*((self.table, slot) for slot in self.slots), *other)


def choose(step: Step, random: Random) -> Made | None:
    """Return a random statement for a step."""
    if step.other is not None and step.other.name == step.table.audit:
        return _insert_audited(step, step.other, random)
    if step.other is not None:
        return random.choice(_OF_TWO)(step, step.other, random)
    if step.table.audit:
        return random.choice(_OF_AUDITED)(step, random)
    if all(step.table.slots.get(slot) for slot in step.slots) and random.random() < 0.8:
        return random.choice(_OF_ROWS)(step, random)
    return random.choice(_ANY)(step, random)


def _values(row: Row, names: Iterable[str] | None = None) -> dict[str, Any]:
    return {name: row[name].value for name in (row if names is None else names)}


def _some(table: Table, random: Random, least: int) -> Row:
    """Return values for at least `least` random columns."""
    chosen = random.sample(table.given, random.randint(least, len(table.given)))
    return {column.name: column.make(random) for column in table.given if column in chosen}


def _listed(rows: list[Row]) -> str:
    return ", ".join(f"({', '.join(value.sql for value in row.values())})" for row in rows)


def _insert(step: Step, random: Random) -> Made | None:
    """Return an INSERT of several rows, which fails at an existing row."""
    table, after = step.table, After()
    given, changes, error = list[Row](), list[dict[str, Any]](), 0
    names = list(_some(table, random, 0))
    for slot in step.slots:
        made = {column.name: column.make(random) for column in table.given if column.name in names}
        given.append(table.key_of(slot) | made)
        rows = table.slots.get(slot, [])
        if rows and table.has_key:
            error = DUPLICATE_KEY
        if not error:
            row = table.new_row(slot, made)
            after[table.name, slot] = [*rows, row]
            changes.append(_values(row))
    if sum(map(len, after.values())) > 3 * len(step.slots):
        return None
    sql = f"INSERT INTO {table.name} ({', '.join(given[0])}) VALUES {_listed(given)}"
    return Made(sql, [Insert(table.definition, changes, columns=list(given[0]))] if changes else [], after, error)


def _insert_automatic(step: Step, random: Random) -> Made | None:
    """Return an INSERT of one or two rows with AUTO_INCREMENT ids."""
    table, first = step.table, min(step.slots)
    slots = [first, first + 1] if first + 1 in step.slots else [first]
    if not table.automatic or any(table.slots.get(slot) for slot in slots):
        return _insert(step, random)
    names = list(_some(table, random, 1))
    given = [{c.name: c.make(random) for c in table.given if c.name in names} for _ in slots]
    rows = [table.new_row(slot, one) for slot, one in zip(slots, given, strict=True)]
    return Made(
        f"INSERT INTO {table.name} ({', '.join(given[0])}) VALUES {_listed(given)}",
        [Insert(table.definition, [_values(row) for row in rows], columns=list(given[0]))],
        {(table.name, slot): [row] for slot, row in zip(slots, rows, strict=True)},
        context=(IntvarEvent(IntvarKind.INSERT_ID_EVENT, first),),
    )


def _replace(step: Step, random: Random) -> Made | None:
    table, slot = step.table, step.slots[0]
    given = _some(table, random, 1)
    row, old = table.new_row(slot, given), table.slots.get(slot, [])
    if len(table.keys) != 1:
        return _insert(step, random)
    keyed = table.key_of(slot) | given
    sql = f"REPLACE INTO {table.name} ({', '.join(keyed)}) VALUES {_listed([keyed])}"
    return Made(
        sql, _changes(table, [(before, row) for before in old] or [(None, row)], keyed), {(table.name, slot): [row]}
    )


def _upsert(step: Step, random: Random) -> Made | None:
    table, slot, addend = step.table, step.slots[0], random.randint(1, 99)
    old = table.slots.get(slot, [])
    if len(table.keys) != 1 or not old:
        return _replace(step, random)
    keyed = table.key_of(slot) | {"v": number(addend)}
    row = table.computed(old[0] | {"v": number(old[0]["v"].value + addend)})
    sql = (
        f"INSERT INTO {table.name} ({', '.join(keyed)}) VALUES {_listed([keyed])} ON DUPLICATE KEY UPDATE v "
        f"= v + {addend}"
    )
    return Made(sql, _changes(table, [(old[0], row)], keyed), {(table.name, slot): [row]})


def _changes(table: Table, rows: list[tuple[Row | None, Row]], given: Iterable[str]) -> list[Change]:
    """Return the changes of an INSERT ... ON DUPLICATE KEY UPDATE."""
    if rows[0][0] is None:
        return [Insert(table.definition, [_values(row) for _, row in rows], columns=list(given))]
    pairs = [(_values(old), _values(new)) for old, new in rows if old is not None and old != new]
    return [Update(table.definition, pairs, columns=list(given), replaces_insert=True)] if pairs else []


def _update(step: Step, random: Random) -> Made | None:
    """Return an UPDATE of some columns with new values."""
    given = _some(step.table, random, 1)
    assignments = ", ".join(f"{name} = {value.sql}" for name, value in given.items())
    return _updated(step, assignments, given, lambda row: row | given)


def _add(step: Step, random: Random) -> Made | None:
    """Return an UPDATE with a value computed from the old one, and sometimes from a user variable."""
    addend, is_variable = random.randint(1, 99), random.random() < 0.2
    variable = UserVarEvent("k", 0, UserVarType.INT_RESULT, BINARY, addend.to_bytes(8, "little"), b"\0")
    return _updated(
        step,
        f"v = (3 * v + {'@k' if is_variable else addend}) % {MODULUS}",
        ("v",),
        lambda row: row if row["v"] is NULL else row | {"v": number((3 * row["v"].value + addend) % MODULUS)},
        (variable,) if is_variable else (),
    )


def _updated(
    step: Step,
    assignments: str,
    names: Iterable[str],
    change: Callable[[Row], Row],
    context: tuple[ContextEvent, ...] = (),
) -> Made:
    table = step.table
    old = {slot: table.slots.get(slot, []) for slot in step.slots}
    new = {slot: [table.computed(change(row)) for row in rows] for slot, rows in old.items()}
    pairs = [
        (_values(before), _values(after))
        for slot in step.slots
        for before, after in zip(old[slot], new[slot], strict=True)
        if before != after
    ]
    return Made(
        f"UPDATE {table.name} SET {assignments} WHERE {table.where(list(step.slots))}",
        [Update(table.definition, pairs, columns=list(names))] if pairs else [],
        {(table.name, slot): rows for slot, rows in new.items()},
        context=context,
    )


def _set_member(step: Step, random: Random) -> Made | None:
    """Return a partial update of a JSON document."""
    table, slot, value = step.table, step.slots[0], random.randint(100, 199)
    rows = table.slots.get(slot, [])
    if not any(column.name == "j" for column in table.columns) or any(row["j"].value is None for row in rows):
        return _update(step, random)
    diffs = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text(str(value)))])
    new = [row | {"j": document(value, len(row["j"].value.to_python()["pad"]))} for row in rows]
    pairs = [(_values(old), {"j": diffs}) for old, changed in zip(rows, new, strict=True) if old != changed]
    return Made(
        f"UPDATE {table.name} SET j = JSON_SET(j, '$.a', {value}) WHERE {table.where([slot])}",
        [Update(table.definition, pairs)] if pairs else [],
        {(table.name, slot): new},
    )


def _delete(step: Step, random: Random) -> Made | None:
    table = step.table
    rows = [_values(row) for slot in step.slots for row in table.slots.get(slot, [])]
    random.shuffle(rows)
    return Made(
        f"DELETE FROM {table.name} WHERE {table.where(list(step.slots))}",
        [Delete(table.definition, rows)] if rows else [],
        {(table.name, slot): [] for slot in step.slots},
    )


def _move(step: Step, random: Random) -> Made | None:
    """Return an UPDATE of the key of a row."""
    table, (slot, *others) = step.table, step.slots
    rows = table.slots.get(slot, [])
    if not others or table.slots.get(others[0]) or len(rows) != 1:
        return _update(step, random)
    keys = table.key_of(others[0])
    new = rows[0] | keys
    assignments = ", ".join(f"{name} = {value.sql}" for name, value in keys.items())
    return Made(
        f"UPDATE {table.name} SET {assignments} WHERE {table.where([slot])}",
        [Update(table.definition, [(_values(rows[0]), _values(new))], columns=list(keys))],
        {(table.name, slot): [], (table.name, others[0]): [new]},
    )


def _two_rows(step: Step, other: Table) -> tuple[Row, Row] | None:
    rows, others = step.table.slots.get(step.slots[0], []), other.slots.get(step.other_slot, [])
    found = [row for row in (*rows, *others) if row["v"] is not NULL]
    return (rows[0], others[0]) if len(rows) == len(others) == 1 and len(found) == 2 else None


def _update_two(step: Step, other: Table, random: Random) -> Made | None:
    """Return a multi-table UPDATE of one row by the value of another row, or of both rows by a constant."""
    table, found = step.table, _two_rows(step, other)
    if found is None:
        return _insert_select(step, other, random)
    (row, other_row), both, addend = found, random.random() < 0.6, random.randint(1, 99)
    read = f"{addend}" if both else f"{other.name}.v"  # the order of two assignments depends on the server
    summand = addend if both else other_row["v"].value
    new = table.computed(row | {"v": number((3 * row["v"].value + summand) % MODULUS)})
    changed = other.computed(other_row | {"v": number((5 * other_row["v"].value + addend) % MODULUS)})
    assignments = f"{table.name}.v = (3 * {table.name}.v + {read}) % {MODULUS}"
    if both:
        assignments += f", {other.name}.v = (5 * {other.name}.v + {addend}) % {MODULUS}"
    pairs = [(table, step.slots[0], row, new), *([(other, step.other_slot, other_row, changed)] if both else [])]
    return Made(
        f"UPDATE {table.name}, {other.name} SET {assignments} "
        f"WHERE {table.where([step.slots[0]])} AND {other.where([step.other_slot])}",
        [Update(one.definition, [(_values(a), _values(b))], columns=["v"]) for one, _, a, b in pairs if a != b],
        {(one.name, slot): [b] for one, slot, _, b in pairs},
    )


def _delete_two(step: Step, other: Table, random: Random) -> Made | None:
    table, found = step.table, _two_rows(step, other)
    if found is None:
        return _update_two(step, other, random)
    return Made(
        f"DELETE {table.name}, {other.name} FROM {table.name}, {other.name} "
        f"WHERE {table.where([step.slots[0]])} AND {other.where([step.other_slot])}",
        [Delete(table.definition, [_values(found[0])]), Delete(other.definition, [_values(found[1])])],
        {(table.name, step.slots[0]): [], (other.name, step.other_slot): []},
    )


def _insert_select(step: Step, other: Table, _random: Random) -> Made | None:
    table, slot = step.table, step.slots[0]
    rows, others = table.slots.get(slot, []), other.slots.get(step.other_slot, [])
    if (
        table.automatic
        or table.audit
        or len(others) != 1
        or others[0]["v"] is NULL
        or (rows and table.has_key)
        or len(rows) > 2
    ):
        return None
    keys = table.key_of(slot)
    row = table.new_row(slot, {"v": others[0]["v"]})
    columns = [*keys, "v"]
    return Made(
        f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT {', '.join(value.sql for value in keys.values())}, v "
        f"FROM {other.name} WHERE {other.where([step.other_slot])}",
        [Insert(table.definition, [_values(row)], columns=columns)],
        {(table.name, slot): [*rows, row]},
    )


def create_select(table: Table, source: Table, random: Random) -> Made:
    """Return a CREATE TABLE ... SELECT from another table."""
    slots = random.sample(SLOTS, 4)
    given = {name: random.choice(texts) for name, texts in {"e": ("Red", "gReen"), "c": ("Ærø", "")}.items()}
    rows = {
        slot: table.new_row(
            slot, {"v": row["v"], "u": number(slot), **{name: text(one) for name, one in given.items()}}
        )
        for slot in slots
        for row in source.slots.get(slot, [])
    }
    more = ", ".join(f"'{one}' AS {name}" for name, one in given.items())
    return Made(
        f"{table.create} SELECT id, v, {more}, id AS u FROM {source.name} WHERE {source.where(slots)}",
        [Insert(table.definition, [_values(row) for row in rows.values()])] if rows else [],
        {(table.name, slot): [row] for slot, row in rows.items()},
    )


def _insert_audited(step: Step, other: Table, random: Random) -> Made | None:
    """Return an INSERT whose trigger inserts into another table; it fails at an existing row."""
    table, after, error = step.table, After(), 0
    given, changes = list[Row](), list[Change]()
    for slot in step.slots:
        given.append(table.key_of(slot) | {"v": V.make(random), "note": NOTE.make(random)})
        error = error or (DUPLICATE_KEY if table.slots.get(slot) else 0)
        if not error:
            row, more = table.new_row(slot, given[-1]), other.new_row(slot, {"v": given[-1]["v"]})
            after[table.name, slot] = [row]
            after[other.name, slot] = [*other.slots.get(slot, []), more]
            changes.append(Insert(table.definition, [_values(row)]))
            changes.append(Insert(other.definition, [_values(more)], columns=["id", "v"]))
    sql = f"INSERT INTO {table.name} (id, v, note) VALUES {_listed(given)}"
    return Made(sql, changes, after, error, fires=True)


_ANY: Final = (_insert, _insert, _insert_automatic, _replace, _update)
_OF_ROWS: Final = (_update, _update, _add, _add, _set_member, _delete, _move, _replace, _upsert, _insert)
_OF_AUDITED: Final = (_update, _add, _set_member, _delete)
_OF_TWO: Final = (_update_two, _update_two, _insert_select, _delete_two)
