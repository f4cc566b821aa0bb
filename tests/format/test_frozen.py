"""Frozen values: classes as the standard decorator makes them, whose methods are made later."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from dataclasses import KW_ONLY, FrozenInstanceError, field, fields, replace
from typing import Any, ClassVar, Final

import pytest

from binlogio import frozen

BOTH: Final = (dataclasses.dataclass, frozen.dataclass)


def classes(dataclass: Any) -> dict[str, type[Any]]:
    """Return classes of all kinds, made by a decorator."""

    @dataclass(frozen=True, slots=True)
    class Empty:
        """Without fields."""

    @dataclass(frozen=True, slots=True)
    class One:
        """One field."""

        x: int = 5

    @dataclass(frozen=True, slots=True, order=True)
    class Pair:
        """Values in order."""

        x: int
        y: str = "a"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        """By name only."""

        x: int
        y: tuple[int, ...] = ()

    @dataclass(frozen=True, slots=True)
    class Mixed:
        """Factories, fields that are not compared, shown or given, and some by name."""

        KIND: ClassVar[int] = 7
        x: int
        many: list[int] = field(default_factory=list)
        _: KW_ONLY
        hidden: int = field(default=1, repr=False)
        place: int = field(default=0, compare=False)
        made: int = field(init=False)
        more: dict[str, int] = field(init=False, default_factory=dict)
        fixed: int = field(init=False, default=9)

        def __post_init__(self) -> None:
            object.__setattr__(self, "made", self.x * 2)

    @dataclass(frozen=True, slots=True)
    class Longer(Pair):
        """More fields than its base."""

        z: int = 3

    @dataclass(frozen=True, slots=True)
    class Own:
        """Methods of its own."""

        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and abs(self.x) == abs(other.x)

        def __hash__(self) -> int:
            return 5

        def __repr__(self) -> str:
            return f"<{self.x}>"

    @dataclass(slots=True)
    class Changing:
        """Not frozen."""

        x: int = 1

    return {one.__name__: one for one in (Empty, One, Pair, Named, Mixed, Longer, Own, Changing)}


CASES: Final[tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...]] = (
    ("Empty", (), {}),
    ("Empty", (1,), {}),
    ("One", (), {}),
    ("One", (6,), {}),
    ("One", (), {"x": 6}),
    ("One", (1, 2), {}),
    ("Pair", (), {}),
    ("Pair", (1,), {}),
    ("Pair", (1, "b"), {}),
    ("Pair", (2,), {"y": "a"}),
    ("Pair", (1,), {"z": 1}),
    ("Named", (), {"x": 1}),
    ("Named", (1,), {}),
    ("Named", (), {"x": 1, "y": (2,)}),
    ("Mixed", (3,), {}),
    ("Mixed", (3, [1]), {"hidden": 2, "place": 5}),
    ("Mixed", (3, [1], 2), {}),
    ("Mixed", (3,), {"made": 1}),
    ("Longer", (1,), {}),
    ("Longer", (1, "b", 4), {}),
    ("Own", (-1,), {}),
    ("Own", (1,), {}),
    ("Changing", (2,), {}),
)


def outcome(work: Any) -> Any:
    """Return what a function returns, or its error."""
    try:
        return work()
    except (TypeError, AttributeError) as exc:
        return type(exc), str(exc)


def described(one: Any) -> Any:
    """Return what is seen of an instance or an error."""
    if isinstance(one, tuple):
        return one
    values = [(item.name, getattr(one, item.name)) for item in fields(one)]
    return (
        repr(one),
        values,
        outcome(lambda: hash(one)) if "Mixed" not in repr(one) else None,
        type(one).__match_args__,
        type(one).__slots__,
        type(one).__doc__,
        type(copy.copy(one)) is type(one) and copy.copy(one) == one,
        values and outcome(lambda: setattr(one, "x", 1)),
        values and outcome(lambda: delattr(one, "x")),
    )


def test_instances_are_those_of_the_standard_decorator() -> None:
    """Arguments, defaults, text, hashes, places of fields, refusals to change, and errors."""
    standard, ours = (
        [described(outcome(lambda: made[name](*args, **kwargs))) for name, args, kwargs in CASES]  # noqa: B023
        for made in map(classes, BOTH)
    )

    assert ours == standard


@pytest.mark.parametrize("operation", ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"])
def test_comparisons_are_those_of_the_standard_decorator(operation: str) -> None:
    """Of equal and other instances of the same class, and of another class."""
    results = []
    for made in map(classes, BOTH):
        some = [outcome(lambda: made[name](*args, **kwargs)) for name, args, kwargs in CASES]  # noqa: B023
        results.append(
            [
                outcome(lambda: getattr(a, operation)(b))  # noqa: B023
                for a in some
                for b in some
                if not isinstance(a, tuple)
            ]
        )

    assert results[0] == results[1]


def test_a_changed_copy_has_the_other_values() -> None:
    made = classes(frozen.dataclass)

    assert replace(made["Longer"](1, "b", 4), x=2) == made["Longer"](2, "b", 4)
    assert replace(made["Mixed"](1, [2]), x=2).made == 4


@frozen.dataclass(frozen=True, slots=True)
class Kept:
    """A class that pickle finds."""

    x: int
    y: list[int] = field(default_factory=list)


def test_values_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept(1, [2]))) == Kept(1, [2])  # noqa: S301


def test_a_field_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        Kept(1).x = 2  # type: ignore[misc]


def test_initializers_are_compiled_at_the_first_instance() -> None:
    """A program pays for the classes that it uses."""
    code = "from binlogio.events.load import LoadEvent; print(LoadEvent.__init__.__code__.co_filename)"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert found.strip().endswith("frozen.py")
