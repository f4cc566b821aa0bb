"""Names from the DDL in logs whose parts are read at the same time.

A part needs what the parts before it say. Its reader takes what they have said by the time that a table without names
is met, and notes what its own part says. When the parts before are done, the consumer sees whether that was all; if
not, the part and those after it are read again. Most logs have no DDL but at their head, which is waited for. So names
are those that one reader of whole logs gives. This module handles locks and the order of parts;
`binlogio.schema.source` interprets statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING, Final

from binlogio.schema.ddl.logged_ddl import may_define
from binlogio.schema.source import DefinitionSource

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.events.query import QueryEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.schema.ddl.catalogue import KnownTable, TableName
    from binlogio.schema.ddl.server_defaults import ServerDefaults
    from binlogio.schema.given import Described, GivenDefinitions

_LONGEST_WAIT_S: Final = 1.0
_HEAD_SIZE: Final = 1 << 16  # bytes of a log that are its head


@dataclass(frozen=True, slots=True)
class LogBegin:
    """A log begins."""

    name: str

    def tell(self, source: DefinitionSource) -> None:
        """Have a source know it."""
        DefinitionSource.begin_log(source, self.name)


@dataclass(frozen=True, slots=True)
class DdlStatement:
    """A statement that could change a definition."""

    event: QueryEvent
    context: ParseContext = field(compare=False)

    def tell(self, source: DefinitionSource) -> None:
        """Have a source know it."""
        DefinitionSource.follow(source, self.event, self.context)


@dataclass(frozen=True, slots=True)
class Belied:
    """A table map that belies what statements said of the table."""

    name: TableName
    reason: str

    def tell(self, source: DefinitionSource) -> None:
        """Have a source know it."""
        source.forget(self.name, self.reason)


Fact = LogBegin | DdlStatement | Belied


class PartFacts:
    """What each of some parts says of tables, as far as it was read.

    Args:
        first: number of the first part.
        before: knows what was said before that.
    """

    def __init__(self, first: int, before: DefinitionSource) -> None:
        self.lock = Lock()
        self._before = before
        self._begins: dict[int, LogBegin] = {}
        self._heads = {first: Event()}
        self._facts: dict[int, list[Fact]] = {}
        self._taken: dict[int, list[Fact]] = {}  # of the parts that needed it: what was known when they did
        self._told: list[Fact] | None = None  # what `_knowing` was told
        self._knowing = DefinitionSource()

    def begin_log(self, number: int, name: str) -> None:
        """A log begins with part `number`, if that was not recorded yet."""
        with self.lock:
            self._begins.setdefault(number, LogBegin(name))
            self._heads.setdefault(number, Event())

    def pass_head(self, number: int) -> None:
        """The head of part `number` was read, or will not be read."""
        if number in self._heads:
            self._heads[number].set()

    def wait_for_head(self, number: int) -> None:
        """Wait for the facts at the head of the log that part `number` is of; without them it may be read in vain."""
        if number in self._heads:
            return
        with self.lock:
            head = self._heads[max(head for head in self._heads if head < number)]
        head.wait(_LONGEST_WAIT_S)

    def note(self, number: int, fact: Fact) -> None:
        """Take note of a fact of part `number`. The caller has the lock."""
        self._facts.setdefault(number, []).append(fact)

    def before(self, number: int) -> list[Fact]:
        """What is known before the first event of part `number`. The caller has the lock."""
        begin = self._begins.get(number)
        return self._of_parts_before(number) + ([] if begin is None else [begin])

    def _of_parts_before(self, number: int) -> list[Fact]:
        found: list[Fact] = []
        for part in sorted({*self._facts, *self._begins}):
            if part < number:
                found += [self._begins[part]] if part in self._begins else []
                found += self._facts.get(part, [])
        return found

    def of(self, number: int) -> list[Fact]:
        """What part `number` has said. The caller has the lock."""
        return self._facts.get(number, [])

    def take(self, number: int, known: list[Fact]) -> None:
        """Part `number` needs what is known before it. The caller has the lock."""
        self._taken[number] = known

    def tell(self, facts: list[Fact], source: DefinitionSource) -> None:
        """Have a source know these facts. The caller has the lock."""
        if self._told != facts:
            self._told = list(facts)
            self._knowing.adopt(self._before)
            for fact in facts:
                fact.tell(self._knowing)
        source.adopt(self._knowing)

    def holds(self, number: int) -> bool:
        """Return whether part `number` knew, if it had to, all that the parts before it have said, which are done."""
        with self.lock:
            return number not in self._taken or self._taken[number] == self.before(number)

    def all_before(self, number: int) -> DefinitionSource:
        """What the parts before number `number` say, after all readers have stopped."""
        known = DefinitionSource()
        self.tell(self._of_parts_before(number), known)
        return known


class PartDefinitions(DefinitionSource):
    """The definitions for one part after another, which others are read beside."""

    def __init__(self, given: GivenDefinitions | None, facts: PartFacts) -> None:
        super().__init__(given)
        self._facts = facts
        self._number = 0
        self._known: list[Fact] | None = None  # None until the first request

    def begin_part(self, number: int) -> bool:
        """Go on with a part, once its log's head is known.

        True where plans that were made before may no longer be right.
        """
        self._facts.wait_for_head(number)
        with self._facts.lock:
            self._number = number
            if self._known is None:
                return False
            known = self._facts.before(number)
            if known == self._known:
                self._facts.take(number, known)
                self._known = list(known)
                return False
            self._known = None
            return True

    def begin_log(self, name: str) -> None:
        """Nothing: the facts tell where logs begin."""

    def pass_to(self, offset: int) -> None:
        """Those who wait for the head of this part need not wait any more after it."""
        if offset >= _HEAD_SIZE:
            self._facts.pass_head(self._number)

    def end_part(self) -> None:
        """The part was read to its end."""
        self._facts.pass_head(self._number)

    def follow(self, event: QueryEvent, context: ParseContext) -> bool:
        """Take note of a statement, for the parts after this one too."""
        if not may_define(event.sql):
            return False
        with self._facts.lock:
            self._note(DdlStatement(event, context))
        return self._known is not None and super().follow(event, context)

    def is_still_known(self, schema: str, table: str, known: KnownTable | None) -> bool:
        """As in a reader of whole logs."""
        self._ask()
        return super().is_still_known(schema, table, known)

    def _learned(self, event: TableMapEvent, server: ServerDefaults) -> Described | None:
        self._ask()
        return super()._learned(event, server)

    def _belie(self, name: TableName, reason: str) -> None:
        super()._belie(name, reason)
        with self._facts.lock:
            self._note(Belied(name, reason))

    def _ask(self) -> None:
        """Know what was said up to here, which from now on must have been all."""
        if self._known is not None:
            return
        with self._facts.lock:
            before = self._facts.before(self._number)
            self._facts.take(self._number, before)
            self._known = before + self._facts.of(self._number)
            self._facts.tell(self._known, self)

    def _note(self, fact: Fact) -> None:
        self._facts.note(self._number, fact)
        if self._known is not None:
            self._known.append(fact)
