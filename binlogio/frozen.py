"""The decorator `dataclass`: creates frozen classes with slots in a tenth of the time of `dataclasses.dataclass`.

The standard decorator compiles six methods for each class, which takes half a millisecond. A program that reads a small
log imports a hundred such classes, uses half of them, and creates few instances of most. Here, `__init__` is compiled
only after several instances were created, and the other methods are closures over the field names. Otherwise classes
and instances behave as with the standard decorator. Classes that are not both frozen and with slots are passed to the
standard decorator.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool = False, order: bool = False, **options: bool) -> Any:
        """Return the class decorator; arguments as of `dataclasses.dataclass`."""
        if not (frozen and slots) or options.keys() - {"kw_only"}:
            return dataclasses.dataclass(frozen=frozen, slots=slots, order=order, **options)
        return lambda cls: _frozen(cls, order=order, **options)


__all__ = ["dataclass"]

_Key: TypeAlias = "Callable[[Any], tuple[Any, ...]]"
_FACTORY: Final = object()
_UNCOMPILED_CALLS: Final = 16  # calls of `__init__` before it is compiled, which takes as long as a hundred calls


def _frozen(cls: type[Any], *, order: bool, kw_only: bool = False) -> type[Any]:
    given = dict(cls.__dict__)
    cls = _with_slots(cls, kw_only=kw_only)
    params: Any = vars(cls)["__dataclass_params__"]
    params.frozen = params.init = params.repr = params.eq = True
    params.order = order
    fields = dataclasses.fields(cls)
    methods = {
        "__init__": _first_init(cls, fields),
        "__repr__": _repr(tuple(field.name for field in fields if field.repr)),
        **_comparisons(_key(tuple(field.name for field in fields if field.compare)), order=order),
        **_refusals(cls, frozenset(field.name for field in fields)),
        "__getstate__": _getstate,
        "__setstate__": _setstate,
    }
    for name, method in methods.items():
        if given.get(name) is None:  # a class with `__eq__` has None as `__hash__`
            setattr(cls, name, method)
    return cls


def _with_slots(cls: type[Any], *, kw_only: bool) -> type[Any]:
    """Return the class with slots and fields, and without generated methods.

    The standard decorator creates it as a class that is not frozen. Its bases are marked as not frozen during the call,
    because the standard decorator refuses other bases.
    """
    known = (vars(base).get("__dataclass_params__") for base in cls.__mro__[1:])
    bases = [params for params in known if params is not None and params.frozen]
    for params in bases:
        params.frozen = False
    try:
        return dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(cls)
    finally:
        for params in bases:
            params.frozen = True


def _first_init(cls: type[Any], fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    """Return an uncompiled `__init__`, which loops over the fields.

    It replaces itself by the compiled one (`_init`) after `_UNCOMPILED_CALLS` calls, or at a call with wrong arguments.
    """
    by_place = tuple(field.name for field in fields if field.init and not field.kw_only)
    settable = frozenset(field.name for field in fields if field.init)
    needed = frozenset(field.name for field in fields if field.init and _default_of(field) is None)
    setters = [(field.name, getattr(cls, field.name).__set__, _default_of(field)) for field in fields]
    calls = 0

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        nonlocal calls
        calls += 1
        given = {**dict(zip(by_place, args, strict=False)), **kwargs}
        is_right = len(given) == len(args) + len(kwargs) and needed <= given.keys() <= settable
        if calls > _UNCOMPILED_CALLS or not is_right:
            made = _init(cls, fields)
            cls.__init__ = made
            made(self, *args, **kwargs)
            return
        for name, setter, default in setters:
            if name in given:
                setter(self, given[name])
            elif default is not None:
                setter(self, default())
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    return __init__


def _default_of(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return None if field.default is dataclasses.MISSING else lambda: field.default


def _init(cls: type[Any], fields: tuple[dataclasses.Field[Any], ...]) -> Callable[..., None]:
    """Compile an `__init__` that sets the fields through the descriptors of their slots."""
    names: dict[str, Any] = {"_FACTORY": _FACTORY}
    by_place: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for field in fields:
        name, value = field.name, field.name
        names[f"_set_{name}"] = getattr(cls, name).__set__
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"], names[f"_default_{name}"] = field.default_factory, _FACTORY
            value = f"_make_{name}() if {name} is _FACTORY else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            value = name if field.init else f"_default_{name}"
        elif not field.init:
            continue
        if field.init:
            parameter = f"{name}=_default_{name}" if f"_default_{name}" in names else name
            (by_name if field.kw_only else by_place).append(parameter)
        lines.append(f" _set_{name}(self, {value})\n")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()\n")
    parameters = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({parameters}):\n{''.join(lines) or ' pass'}", names)  # noqa: S102 - contains only field names
    made: Callable[..., None] = names["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return made


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({values})"

    return __repr__


def _key(names: tuple[str, ...]) -> _Key:
    """Return a function that returns the compared values of an instance as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _comparisons(key: _Key, *, order: bool) -> dict[str, Callable[..., Any]]:
    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(key(self))

    def __lt__(self: Any, other: object) -> Any:  # noqa: N807
        return key(self) < key(other) if other.__class__ is self.__class__ else NotImplemented

    def __le__(self: Any, other: object) -> Any:  # noqa: N807
        return key(self) <= key(other) if other.__class__ is self.__class__ else NotImplemented

    def __gt__(self: Any, other: object) -> Any:  # noqa: N807
        return key(self) > key(other) if other.__class__ is self.__class__ else NotImplemented

    def __ge__(self: Any, other: object) -> Any:  # noqa: N807
        return key(self) >= key(other) if other.__class__ is self.__class__ else NotImplemented

    return {one.__name__: one for one in (__eq__, __hash__, *((__lt__, __le__, __gt__, __ge__) if order else ()))}


def _refusals(cls: type[Any], names: frozenset[str]) -> dict[str, Callable[..., None]]:
    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {one.__name__: one for one in (__setattr__, __delattr__)}


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
