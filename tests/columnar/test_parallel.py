"""Several readers at once give what one gives, in its order, and do not run away from the consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event

import pytest

from binlogio.columnar.parallel.threads import MOST_AHEAD, OrderedResults

RESULT_BYTES = MOST_AHEAD // 4
RESULTS_A_PART = 50


def _at(parts: Sequence[int]) -> Callable[[int], int | None]:
    return lambda number: parts[number] if number < len(parts) else None


class _Counting:
    """Reads numbers; `read_on` says when the second half of the even parts may come."""

    def __init__(self, read_on: Event, made: list[int], open_readers: list[int]) -> None:
        self._read_on, self._made, self._open = read_on, made, open_readers
        open_readers.append(0)

    def read(self, part: int, /) -> Iterator[tuple[int, int]]:
        for number in range(RESULTS_A_PART):
            if number == RESULTS_A_PART // 2 and part % 2 == 0:
                assert self._read_on.wait(10)
            self._made.append(part)
            yield part, number
        if part == 5:
            raise ValueError(part)

    def close(self) -> None:
        self._open.remove(0)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_and_the_error_come_in_the_order_of_the_parts(threads: int) -> None:
    read_on, open_readers = Event(), list[int]()
    read_on.set()
    found = []

    def read_all() -> None:
        for result in OrderedResults(_at(range(9)), lambda: _Counting(read_on, [], open_readers), lambda _: 1).results(
            threads
        ):
            found.append(result)  # noqa: PERF402 - what came before the error counts

    with pytest.raises(ValueError, match="5"):
        read_all()

    assert found == [(part, number) for part in range(6) for number in range(RESULTS_A_PART)]
    assert open_readers == []


def test_readers_wait_for_a_consumer_that_is_slow() -> None:
    """The first part waits for an event, so that the consumer does; the second part must not go on for ever."""
    read_on, made = Event(), list[int]()
    results = OrderedResults(_at(range(4)), lambda: _Counting(read_on, made, []), lambda _: RESULT_BYTES).results(2)
    for _ in range(RESULTS_A_PART // 2):
        next(results)
    ahead = made.count(1)
    read_on.set()
    rest = list(results)

    assert ahead <= MOST_AHEAD // RESULT_BYTES + 1
    assert len(rest) == 4 * RESULTS_A_PART - RESULTS_A_PART // 2


def test_a_reader_that_cannot_be_opened_is_an_error() -> None:
    """Nobody waits for a part that no thread will read."""

    def refuse() -> _Counting:
        raise OSError("no more files")

    with pytest.raises(OSError, match="no more files"):
        list(OrderedResults(_at(range(3)), refuse, lambda _: 1).results(2))


@pytest.mark.parametrize("first_bad", [0, 4, 8])
def test_parts_from_one_that_does_not_hold_on_are_left_out(first_bad: int) -> None:
    """They may be asked for again, by who knows better."""
    parts = [0, 1, 2, 3, 4, 6, 7, 8, 9]
    read_on, open_readers = Event(), list[int]()
    read_on.set()
    in_order = OrderedResults(
        _at(parts),
        lambda: _Counting(read_on, [], open_readers),
        lambda _: 1,
        lambda number: parts[number] < first_bad,
    )
    found = {part for part, _ in in_order.results(3)}

    assert found == {part for part in parts if part < first_bad}
    assert open_readers == []


def test_who_cuts_the_parts_learns_what_came_of_those_that_waited() -> None:
    """The first part waits until some result of a thread's is there."""
    read_on, learned = Event(), dict[int, int]()

    def made(_: tuple[int, int]) -> int:
        read_on.set()
        return 1

    found = list(
        OrderedResults(_at(range(2)), lambda: _Counting(read_on, [], []), made, learn=learned.__setitem__).results(2)
    )

    assert len(found) == 2 * RESULTS_A_PART
    assert learned
    assert set(learned.values()) <= {RESULTS_A_PART}
