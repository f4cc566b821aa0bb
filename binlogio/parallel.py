"""Several readers at once, their results in the order of the readers.

Knows threads and bounded queues; nothing of logs. What is read ahead is bounded: each reader waits when its queue is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from threading import Event
from typing import Final, TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

_AHEAD: Final = 8  # results that a reader may be ahead of the consumer


class _End:
    """Stands behind a reader's last result; `error` is what ended it early."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def in_order(parts: Iterable[Part], read: Callable[[Part], Iterator[Result]], threads: int) -> Iterator[Result]:
    """The results of `read(part)` for each part, in order, computed by `threads` threads.

    An error comes where its part's results end; the other readers then stop.
    """
    stop = Event()
    queues: list[tuple[Part, Queue[Result | _End]]] = [(part, Queue(_AHEAD)) for part in parts]

    def run(part: Part, queue: Queue[Result | _End]) -> None:
        error: BaseException | None = None
        try:
            for result in read(part):
                if stop.is_set():
                    return
                queue.put(result)
        except BaseException as exc:  # noqa: BLE001 - carried to the consumer, who raises it
            error = exc
        queue.put(_End(error))

    with ThreadPoolExecutor(threads, "binlogio-read") as pool:
        try:
            for part, queue in queues:
                pool.submit(run, part, queue)
            for _, queue in queues:
                while not isinstance(result := queue.get(), _End):
                    yield result
                if result.error is not None:
                    raise result.error
        finally:
            stop.set()
            for _, queue in queues:
                queue.maxsize = 0
                with queue.not_full:
                    queue.not_full.notify_all()
            pool.shutdown(wait=False, cancel_futures=True)
