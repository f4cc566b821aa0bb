"""Several readers at once, their results in the order of what they read.

Knows threads, and how far they may be ahead of the consumer; nothing of logs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, Lock
from typing import Final, Generic, Literal, Protocol, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")
Part_contra = TypeVar("Part_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)

MOST_AHEAD: Final = 24 << 20  # bytes of results that wait for the consumer
_AT_ONCE: Final = (
    8 << 20
)  # bytes that are worth waking the consumer for: that stops a thread, and can cost what a result does


class PartReader(Protocol[Part_contra, Result_co]):
    """Reads parts, one after another, in one thread."""

    def read(self, part: Part_contra, /) -> Iterator[Result_co]:
        """The results of one part."""

    def close(self) -> None:
        """Give back what is open."""


class InOrder(Generic[Part, Result]):
    """The results of each part, in order, by threads that take one part after another.

    A thread waits where the results that nobody took are more than `MOST_AHEAD` bytes, unless the consumer waits for its part. An error
    comes where its part's results end; the other threads then stop.

    Args:
        parts: what there is to read.
        open_reader: gives each thread a reader of its own.
        size_of: bytes of a result.
        holds: says of a part, when all before it are done, whether its results are to be taken.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        open_reader: Callable[[], PartReader[Part, Result]],
        size_of: Callable[[Result], int],
        holds: Callable[[Part], bool] = lambda _: True,
    ) -> None:
        self._parts = parts
        self._open_reader = open_reader
        self._size_of = size_of
        self._holds = holds
        self._lock = Lock()
        self._arrival = Condition(self._lock)  # what the consumer waits for
        self._room = Condition(self._lock)  # what threads wait for
        self._blocked = 0  # threads that wait for room
        self._next = 0  # part that no thread has taken
        self._wanted = 0  # part that the consumer is at
        self._ahead = 0  # bytes
        self._due = 0  # bytes of results of the part that the consumer is at, before it is woken; none are too few for the first
        self._results: list[deque[tuple[Result, int]]] = [deque() for _ in parts]
        self._ends: list[BaseException | bool] = [False] * len(parts)  # behind the last result: True, or the error
        self._stopped = False

    def results(self, threads: int) -> Generator[Result, None, int]:
        """All results, computed by `threads` threads while the caller iterates; returns how many parts it gave: up to one that does not hold."""
        with ThreadPoolExecutor(threads, "binlogio-read") as pool:
            try:
                for _ in range(min(threads, len(self._parts))):
                    pool.submit(self._work)
                for number, part in enumerate(self._parts):
                    if not self._holds(part):
                        return number
                    yield from self._take(number)
                return len(self._parts)
            finally:
                with self._lock:
                    self._stopped = True
                    self._room.notify_all()
                pool.shutdown(wait=False, cancel_futures=True)

    def _take(self, number: int) -> Iterator[Result]:
        waiting = self._results[number]
        with self._lock:
            self._wanted = number
            self._room.notify_all()
        while True:
            with self._lock:
                self._arrival.wait_for(self._is_due)
                count = len(waiting)
            if not count:
                break
            self._due = _AT_ONCE
            for _ in range(count):
                with self._lock:
                    result, size = waiting.popleft()
                    self._ahead -= size
                    if self._blocked:
                        self._room.notify_all()
                yield result
        end = self._ends[number]
        if isinstance(end, BaseException):
            raise end

    def _is_due(self) -> bool:
        """Whether the consumer is to go on."""
        waiting = self._results[self._wanted]
        if self._ends[self._wanted] is not False or (waiting and self._blocked):
            return True
        return bool(waiting) and sum(size for _, size in waiting) >= self._due

    def _work(self) -> None:
        try:
            reader = self._open_reader()
        except BaseException as exc:  # noqa: BLE001 - carried to the consumer, who would wait for ever
            if (number := self._next_part()) is not None:
                self._end(number, exc)
            return
        try:
            while (number := self._next_part()) is not None:
                end: BaseException | Literal[True] = True
                try:
                    for result in reader.read(self._parts[number]):
                        if not self._put(number, result):
                            return
                except BaseException as exc:  # noqa: BLE001 - carried to the consumer, who raises it
                    end = exc
                self._end(number, end)
        finally:
            reader.close()

    def _end(self, number: int, end: BaseException | Literal[True]) -> None:
        with self._lock:
            self._ends[number] = end
            if number == self._wanted:
                self._arrival.notify()

    def _next_part(self) -> int | None:
        with self._lock:
            if self._stopped or self._next == len(self._parts):
                return None
            number, self._next = self._next, self._next + 1
            return number

    def _put(self, number: int, result: Result) -> bool:
        size = self._size_of(result)
        waiting = self._results[number]
        with self._lock:
            if not self._has_room(number, size):
                self._blocked += 1
                self._arrival.notify()
                self._room.wait_for(lambda: self._has_room(number, size))
                self._blocked -= 1
            waiting.append((result, size))
            self._ahead += size
            if number == self._wanted and self._is_due():
                self._arrival.notify()
            return not self._stopped

    def _has_room(self, number: int, size: int) -> bool:
        return (
            self._stopped or self._ahead + size <= MOST_AHEAD or (number == self._wanted and not self._results[number])
        )
