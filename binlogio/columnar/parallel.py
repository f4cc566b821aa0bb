"""Several readers at once, their results in the order of what they read.

Knows threads, and how far they may be ahead of the consumer; nothing of logs. The consumer's thread is one of them: it reads a part of its
own where it would have to wait for another's, so that handing over costs nothing that counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Condition, Lock
from typing import Final, Generic, Protocol, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")
Part_contra = TypeVar("Part_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)

MOST_AHEAD: Final = 24 << 20  # bytes of results that wait for the consumer


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
        self._next = 0  # part that no thread has taken
        self._wanted = 0  # part that the consumer is at
        self._ahead = 0  # bytes
        self._results: list[deque[tuple[Result, int]]] = [deque() for _ in parts]
        self._ends: list[BaseException | bool] = [False] * len(parts)  # behind the last result: True, or the error
        self._stopped = False
        self._own: int | None = None  # part that the consumer's thread has begun

    def results(self, threads: int) -> Generator[Result, None, int]:
        """All results, computed by `threads` threads, one of them the caller's; returns how many parts it gave: up to one that does not hold."""
        with ThreadPoolExecutor(max(1, threads - 1), "binlogio-read") as pool, closing(self._read()) as own:
            try:
                for _ in range(min(threads, len(self._parts)) - 1):
                    pool.submit(self._work)
                for number, part in enumerate(self._parts):
                    if not self._holds(part):
                        return number
                    yield from self._take(number, own)
                return len(self._parts)
            finally:
                with self._lock:
                    self._stopped = True
                    self._room.notify_all()
                pool.shutdown(wait=False, cancel_futures=True)

    def _take(self, number: int, own: Iterator[tuple[int, Result]]) -> Iterator[Result]:
        """The results of one part. While there are none, the caller's thread makes some, of this part or of one behind it."""
        waiting = self._results[number]
        with self._lock:
            self._wanted = number
            self._room.notify_all()
        while True:
            ended = self._ends[number] is not False  # before the look at what is there: results come first
            if waiting:
                with self._lock:
                    result, size = waiting.popleft()
                    self._ahead -= size
                    self._room.notify_all()
                yield result
            elif ended:
                break
            elif (made := self._make(own)) is None:
                with self._lock:
                    self._arrival.wait_for(lambda: waiting or self._ends[number] is not False)
            elif made[0] == number:
                yield made[1]
            else:
                self._keep(*made)
        end = self._ends[number]
        if isinstance(end, BaseException):
            raise end

    def _make(self, own: Iterator[tuple[int, Result]]) -> tuple[int, Result] | None:
        """The next result of the consumer's thread; None where there is no part or no room for it."""
        with self._lock:
            if self._own != self._wanted and self._ahead > MOST_AHEAD:
                return None
        made = next(own, None)
        self._own = None if made is None else made[0]
        return made

    def _work(self) -> None:
        with closing(self._read()) as made:
            for number, result in made:
                if not self._keep(number, result, waits=True):
                    return

    def _read(self) -> Generator[tuple[int, Result], None, None]:
        """Results of one part after another that no thread has taken, each with the number of its part."""
        reader: PartReader[Part, Result] | None = None
        try:
            while (number := self._next_part()) is not None:
                end: BaseException | bool = True
                try:
                    reader = reader or self._open_reader()
                    for result in reader.read(self._parts[number]):
                        yield number, result
                except (GeneratorExit, KeyboardInterrupt):
                    raise
                except BaseException as exc:  # noqa: BLE001 - carried to the consumer, who raises it where the part ends
                    end = exc
                with self._lock:
                    self._ends[number] = end
                    if number == self._wanted:
                        self._arrival.notify()
        finally:
            if reader is not None:
                reader.close()

    def _next_part(self) -> int | None:
        with self._lock:
            if self._stopped or self._next == len(self._parts):
                return None
            number, self._next = self._next, self._next + 1
            return number

    def _keep(self, number: int, result: Result, *, waits: bool = False) -> bool:
        """Keep a result until the consumer is there; False where nobody wants it any more."""
        size = self._size_of(result)
        with self._lock:
            if waits:
                self._room.wait_for(lambda: self._has_room(number, size))
            self._results[number].append((result, size))
            self._ahead += size
            if number == self._wanted:
                self._arrival.notify()
            return not self._stopped

    def _has_room(self, number: int, size: int) -> bool:
        return (
            self._stopped or self._ahead + size <= MOST_AHEAD or (number == self._wanted and not self._results[number])
        )
