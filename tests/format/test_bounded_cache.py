"""Caches by table keep a part of their entries when more tables are used in turn than fit."""

from __future__ import annotations

from binlogio.bounded_cache import BoundedBytesCache, BoundedCache

MOST = 100


def test_keys_that_are_used_in_turn_are_found_in_proportion_to_the_size() -> None:
    cache: BoundedCache[int, str] = BoundedCache(MOST)
    found = 0
    for number in range(20 * MOST):
        key = number % (3 * MOST // 2)
        value = cache.get(key)
        found += value is not None
        if value is None:
            value = cache.put(key, str(key))

        assert value == str(key)
        assert len(cache) == min(number + 1, MOST)
    assert found > 20 * MOST // 4


def test_keys_are_replaced_one_by_one_when_they_have_too_many_bytes() -> None:
    """Once such a cache was emptied, so that each look-up missed if more keys than fit were used in turn."""
    cache: BoundedBytesCache[int] = BoundedBytesCache(MOST, 3200)
    found = 0
    for number in range(20 * MOST):
        key = b"%040d" % (number % (3 * MOST // 2))
        found += cache.get(key) is not None
        cache.put(key, number)

        assert sum(map(len, cache)) == min(40 * (number + 1), 3200)
    cache.put(bytes(201), 1)
    assert found > 20 * MOST // 5
    assert bytes(201) not in cache


def test_an_entry_can_be_replaced_and_all_removed() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for value in (1, 2):
        cache.put("a", value)
    cache.put("b", 3)

    assert cache == {"a": 2, "b": 3}
    cache.clear()
    for number in range(9):
        cache.put(str(number), number)
    assert len(cache) == 2
