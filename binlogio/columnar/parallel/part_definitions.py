"""Column names from DDL, for logs whose parts are read in parallel.

A part depends on the DDL of the parts before it. Its reader uses the DDL found so far when it needs the names of a
table, and records the DDL of its own part. When the earlier parts are done, the consumer checks whether this was all of
their DDL; if not, it reads the part and the later parts again. Readers wait for the head of a log, which in most logs
has all DDL. The names are therefore the same as those of one reader of whole logs. This module handles locks and the
order of parts; `binlogio.schema.source` interprets statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Lock, RLock
from typing import TYPE_CHECKING, Final

from binlogio.schema.ddl.first_words import may_define
from binlogio.schema.source import DefinitionSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.events.base import ParseContext
    from binlogio.events.query import QueryEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.schema.catalogue import IsLog
    from binlogio.schema.ddl.catalogue import KnownTable
    from binlogio.schema.ddl.server_defaults import ServerDefaults
    from binlogio.schema.given import Described, GivenDefinitions

LONGEST_WAIT_S: Final = 1.0
_HEAD_SIZE: Final = 1 << 16  # bytes at the start of a log that count as its head


@dataclass(frozen=True, slots=True)
class LogBegin:
    """Fact: a log begins."""

    name: str
    is_log: IsLog | None = field(default=None, compare=False)

    def apply(self, source: DefinitionSource) -> None:
        """Apply the fact to a source."""
        DefinitionSource.begin_log(source, self.name, self.is_log)


@dataclass(frozen=True, slots=True)
class DdlStatement:
    """Fact: a statement that may change a definition."""

    event: QueryEvent
    context: ParseContext = field(compare=False)

    def apply(self, source: DefinitionSource) -> None:
        """Apply the fact to a source."""
        DefinitionSource.follow(source, self.event, self.context)


Fact = LogBegin | DdlStatement


class PartFacts:
    """Facts about tables found so far, by part.

    Args:
        first: the number of the first part.
        before: the definitions before that part.
        read_skipped: reads a skipped part for its facts.
    """

    def __init__(
        self, first: int, before: DefinitionSource, read_skipped: Callable[[PartFacts, int], None] | None = None
    ) -> None:
        self.lock = Lock()
        self._read_skipped = read_skipped
        self._skipped: list[int] = []  # parts that are read only if a later part needs their facts
        self._skipped_lock = RLock()  # reentrant: reading a skipped part may need earlier skipped parts
        self._before = before
        self._begins: dict[int, LogBegin] = {}
        self._heads = {first: Event()}
        self._facts: dict[int, list[Fact]] = {}
        self._taken: dict[int, list[Fact]] = {}  # facts used by each part that needed definitions
        self._applied: list[Fact] | None = None  # facts applied to `_current`
        self._current = before.copy()

    def begin_log(self, number: int, name: str, is_log: IsLog | None = None) -> None:
        """Record that a log, which `is_log` recognizes, begins with part `number`."""
        with self.lock:
            self._begins.setdefault(number, LogBegin(name, is_log))
            self._heads.setdefault(number, Event())

    def skip(self, number: int) -> None:
        """Record that no rows of part `number` are selected."""
        with self._skipped_lock:
            if number not in self._skipped:
                self._skipped.append(number)
        self.pass_head(number)

    def is_skipped(self, number: int) -> bool:
        """Return whether part `number` is skipped and was not read for its facts."""
        with self._skipped_lock:
            return number in self._skipped

    def read_skipped(self, number: int) -> None:
        """Read the skipped parts before part `number` for their facts."""
        with self._skipped_lock:
            for part in sorted(part for part in self._skipped if part < number):
                self._skipped.remove(part)
                if self._read_skipped is not None:
                    self._read_skipped(self, part)

    def pass_head(self, number: int) -> None:
        """Stop waiting for the head of part `number`: it was read, or will not be read."""
        if number in self._heads:
            self._heads[number].set()

    def wait_for_head(self, number: int) -> None:
        """Wait for the facts at the head of the log of part `number`, at most `LONGEST_WAIT_S`.

        Without them the part may have to be read again.
        """
        if number in self._heads:
            return
        with self.lock:
            head = self._heads[max(head for head in self._heads if head < number)]
        head.wait(LONGEST_WAIT_S)

    def note(self, number: int, fact: Fact) -> None:
        """Record a fact of part `number`. The caller holds the lock."""
        self._facts.setdefault(number, []).append(fact)

    def before(self, number: int) -> list[Fact]:
        """Return the facts before the first event of part `number`. The caller holds the lock."""
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
        """Return the facts of part `number`. The caller holds the lock."""
        return self._facts.get(number, [])

    def take(self, number: int, known: list[Fact]) -> None:
        """Record that part `number` uses the facts `known` before it. The caller holds the lock."""
        self._taken[number] = known

    def apply(self, facts: list[Fact], source: DefinitionSource) -> None:
        """Apply facts to a source. The caller holds the lock."""
        if self._applied != facts:
            self._applied = list(facts)
            self._current.adopt(self._before)
            for fact in facts:
                fact.apply(self._current)
        source.adopt(self._current)

    def asked(self, number: int) -> bool:
        """Return whether part `number` needed the definitions of the parts before it."""
        with self.lock:
            return number in self._taken

    def holds(self, number: int) -> bool:
        """Return whether the results of part `number` are valid: it used all facts of the earlier parts, or none."""
        with self.lock:
            return number not in self._taken or self._taken[number] == self.before(number)

    def all_before(self, number: int) -> DefinitionSource:
        """Return the definitions after all parts before `number`. All readers must have stopped."""
        known = self._before.copy()
        self.apply(self._of_parts_before(number), known)
        return known


class PartDefinitions(DefinitionSource):
    """The definition source of one reader of parts, while other readers read other parts."""

    def __init__(self, given: GivenDefinitions | None, facts: PartFacts) -> None:
        super().__init__(given)
        self._facts = facts
        self._number = 0
        self._known: list[Fact] | None = None  # None until the first request

    def begin_part(self, number: int) -> bool:
        """Begin a part, after the head of its log was read.

        Returns True if cached plans may be out of date.
        """
        self._facts.wait_for_head(number)
        if self._known is not None:
            self._facts.read_skipped(number)
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

    def begin_log(self, name: str, is_log: IsLog | None = None, offset: int = 0) -> None:
        """Do nothing: the facts include the beginnings of logs."""

    def pass_to(self, offset: int) -> None:
        """Release the readers that wait for the head of this part, once `offset` is after it."""
        if offset >= _HEAD_SIZE:
            self._facts.pass_head(self._number)

    def end_part(self) -> None:
        """End a part."""
        self._facts.pass_head(self._number)

    def follow(self, event: QueryEvent, context: ParseContext) -> bool:
        """Record a statement, also for later parts. Returns as `DefinitionSource.follow`."""
        if not may_define(event.sql):
            return False
        with self._facts.lock:
            self._note(DdlStatement(event, context))
        return self._known is not None and super().follow(event, context)

    def is_still_known(self, schema: str, table: str, known: KnownTable | None) -> bool:
        """Return whether a definition is still current, as for a reader of whole logs."""
        self._ask()
        return super().is_still_known(schema, table, known)

    def _learned(self, event: TableMapEvent, server: ServerDefaults) -> Described | None:
        self._ask()
        return super()._learned(event, server)

    def _ask(self) -> None:
        """Apply the facts known so far. If earlier parts find more facts later, this part is read again."""
        if self._known is not None:
            return
        self._facts.read_skipped(self._number)
        with self._facts.lock:
            before = self._facts.before(self._number)
            self._facts.take(self._number, before)
            self._known = before + self._facts.of(self._number)
            self._facts.apply(self._known, self)

    def _note(self, fact: Fact) -> None:
        self._facts.note(self._number, fact)
        if self._known is not None:
            self._known.append(fact)
