"""Runs several readers in threads and returns their results in the order of the parts.

Limits how far threads run ahead of the consumer. The consumer's thread also reads parts, instead of waiting for results
of other threads.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Condition, Lock
from typing import Final, Generic, Protocol, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")
Part_contra = TypeVar("Part_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)

MOST_AHEAD: Final = 24 << 20  # bytes of queued results


class PartReader(Protocol[Part_contra, Result_co]):
    """Reads parts, one after the other, in one thread."""

    def read(self, part: Part_contra, /) -> Iterator[Result_co]:
        """Yield the results of one part."""

    def close(self) -> None:
        """Close open files."""


class OrderedResults(Generic[Part, Result]):
    """The results of parts, in order, computed by threads that take one part after the other.

    A thread waits while the queued results exceed `MOST_AHEAD` bytes, unless the consumer waits for its part. An error
    is raised after the results of its part; the other threads then stop.

    Args:
        part_at: returns a part by number, None after the last; called by one thread at a time, repeatedly.
        open_reader: returns a reader for a thread.
        size_of: returns the size of a result in bytes.
        holds: called with the number of a part when all earlier parts are done; returns whether its results are valid.
        learn: called, like `part_at`, with a part and the bytes of its results, if all of them were queued.
        first: the number of the first part.
    """

    def __init__(
        self,
        part_at: Callable[[int], Part | None],
        open_reader: Callable[[], PartReader[Part, Result]],
        size_of: Callable[[Result], int],
        holds: Callable[[int], bool] = lambda _: True,
        learn: Callable[[Part, int], None] = lambda *_: None,
        first: int = 0,
    ) -> None:
        self._part_at = part_at
        self._open_reader = open_reader
        self._size_of = size_of
        self._holds = holds
        self._learn = learn
        self._lock = Lock()
        self._arrival = Condition(self._lock)  # the consumer waits for results
        self._room = Condition(self._lock)  # threads wait for room in the queue
        self._next = first  # number of the next part for a thread
        self._wanted = first  # number of the part that the consumer needs
        self._ahead = 0  # bytes of queued results
        self._kept: Counter[int] = Counter()  # bytes of results queued by pool threads, by part
        self._results: defaultdict[int, deque[tuple[Result, int]]] = defaultdict(deque)
        self._ends: dict[int, BaseException | None] = {}  # finished parts: the final error, or None
        self._stopped = False
        self._own: int | None = None  # number of the part that the consumer's thread reads

    def results(self, threads: int) -> Generator[Result, None, int]:
        """Yield all results, computed by `threads` threads including the caller's.

        Returns the number of the first part that is not valid, or the number after the last part.
        """
        with ThreadPoolExecutor(max(1, threads - 1), "binlogio-read") as pool, closing(self._read()) as own:
            try:
                for another in range(self._next + 1, self._next + threads):
                    if self._exists(another):
                        pool.submit(self._work)
                while self._exists(self._wanted) and self._holds(self._wanted):
                    yield from self._take(self._wanted, own)
                    with self._lock:
                        del self._results[self._wanted], self._ends[self._wanted]
                        self._wanted += 1
                        self._room.notify_all()
                return self._wanted
            finally:
                with self._lock:
                    self._stopped = True
                    self._room.notify_all()
                pool.shutdown(wait=False, cancel_futures=True)

    def _take(self, number: int, own: Iterator[tuple[int, Result]]) -> Iterator[Result]:
        """Yield the results of one part.

        While no result is ready, the caller's thread computes results of this part or of a later one.
        """
        with self._lock:
            waiting = self._results[number]
        while True:
            ended = number in self._ends  # read before the queue, since results come before the end
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
                    self._arrival.wait_for(lambda: waiting or number in self._ends)
            elif made[0] == number:
                yield made[1]
            else:
                self._keep(*made)
        if (error := self._ends[number]) is not None:
            raise error

    def _make(self, own: Iterator[tuple[int, Result]]) -> tuple[int, Result] | None:
        """Return the next result of the consumer's thread; None if there is no part left or no room in the queue."""
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
        """Yield part numbers and results, of parts that no other thread has taken."""
        reader: PartReader[Part, Result] | None = None
        try:
            while (taken := self._next_part()) is not None:
                number, part = taken
                end: BaseException | None = None
                try:
                    reader = reader or self._open_reader()
                    for result in reader.read(part):
                        yield number, result
                except (GeneratorExit, KeyboardInterrupt):
                    raise
                except BaseException as exc:  # noqa: BLE001 - the consumer raises it at the end of the part
                    end = exc
                with self._lock:
                    self._ends[number] = end
                    if size := self._kept.pop(number, 0):
                        self._learn(part, size)
                    if number == self._wanted:
                        self._arrival.notify()
        finally:
            if reader is not None:
                reader.close()

    def _exists(self, number: int) -> bool:
        with self._lock:
            return number < self._next or self._part_at(number) is not None

    def _next_part(self) -> tuple[int, Part] | None:
        with self._lock:
            part = None if self._stopped else self._part_at(self._next)
            if part is None:
                return None
            self._next += 1
            return self._next - 1, part

    def _keep(self, number: int, result: Result, *, waits: bool = False) -> bool:
        """Queue a result. Returns False if the consumer has stopped."""
        size = self._size_of(result)
        with self._lock:
            if waits:
                self._room.wait_for(lambda: self._has_room(number, size))
            self._results[number].append((result, size))
            self._ahead += size
            if waits:
                self._kept[number] += size
            if number == self._wanted:
                self._arrival.notify()
            return not self._stopped

    def _has_room(self, number: int, size: int) -> bool:
        return (
            self._stopped or self._ahead + size <= MOST_AHEAD or (number == self._wanted and not self._results[number])
        )
