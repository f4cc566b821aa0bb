"""The writeset of a transaction: hashes of the keys of its rows, by which WRITESET finds independent transactions.

    a row      its PRIMARY KEY and each UNIQUE key without NULL, each one hash; both images of an update
    missing    a row of a table without PRIMARY KEY or UNIQUE key that is NOT NULL
    unusable   statements as text, DDL, parents of foreign keys, keys that cannot be compared here as the server does

The server's XXH64 over sort keys is not in any file, so this module uses another hash of 64 bits. Equal keys must have
equal hashes: text that a collation may compare in ways that are not implemented here makes the whole transaction
unusable, which is safe.
Source: sql/rpl_write_set_handler.cc, add_pke; sql/rpl_transaction_write_set_ctx.cc.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.writer.log.group import WriteSet

if TYPE_CHECKING:
    from binlogio.schema import ColumnDefinition, TableDefinition

_MASK: Final = (1 << 64) - 1
_ODD: Final = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: odd, so that different integers have different hashes
_PLAIN: Final = re.compile(r"[ -~]*")
_INTEGERS: Final = frozenset("tinyint smallint mediumint int bigint serial bool boolean year bit".split())
_TEMPORAL: Final = frozenset("date datetime timestamp time".split())
_TEXT: Final = frozenset("char varchar tinytext text mediumtext longtext".split())
_BYTES: Final = frozenset("binary varbinary tinyblob blob mediumblob longblob".split())
_EQUAL_BYTES: Final = re.compile(r"binary|.*_bin")
# Collations for which two ASCII texts are equal only if their letters are, ignoring case or not.
_EQUAL_LETTERS: Final = re.compile(
    r"(?:utf8mb4_0900|utf8mb4_\w+_0900)_a[is]_c[is]|\w+_general_c[is]|utf8(?:mb[34])?_unicode(?:_520)?_ci|"
    r"latin1_swedish_ci|ascii_general_ci"
)

_Normal = Callable[[Any], Any]
"""Maps equal values to equal objects; raises TypeError, ValueError or ArithmeticError if equality is not known."""


class KeyHasher:
    """Computes the hashes of a table's rows."""

    def __init__(self, definition: TableDefinition) -> None:
        keys = [(definition.primary_key, definition.primary_key_prefixes)] if definition.primary_key else []
        keys += [(key.columns, key.prefixes) for key in definition.unique_keys]
        nullable = {column.name.casefold() for column in definition.columns if column.nullable}
        self.is_usable: Final = not definition.is_foreign_key_parent
        self.has_key: Final = bool(definition.primary_key) or any(
            not nullable & {name.casefold() for name in columns} for columns, _ in keys
        )
        self._parts: list[tuple[int, tuple[tuple[int, _Normal], ...]]] = []
        for number, (columns, prefixes) in enumerate(keys):
            seed = hash((definition.schema, definition.name, number)) & _MASK
            lengths = prefixes or (0,) * len(columns)
            places = [definition.column_index(name) for name in columns]
            parts = tuple(
                (place, _normal(definition.columns[place], definition, length))
                for place, length in zip(places, lengths, strict=True)
            )
            self._parts.append((seed, parts))
        self._integer_key = self._only_integer(definition)

    def hashes(self, values: Sequence[object]) -> tuple[int, ...] | None:
        """Return the hashes of a row, given one value per column; None if its keys cannot be compared."""
        if self._integer_key is not None:
            place, seed = self._integer_key
            value = values[place]
            if type(value) is int:
                return ((value * _ODD + seed) & _MASK,)
        found = []
        try:
            for seed, parts in self._parts:
                key = [None if values[place] is None else normal(values[place]) for place, normal in parts]
                if None not in key:
                    found.append(self._hash(seed, key))
        except (TypeError, ValueError, ArithmeticError, struct.error):
            return None
        return tuple(found)

    @staticmethod
    def _hash(seed: int, key: list[Any]) -> int:
        if len(key) == 1 and type(key[0]) is int:
            return (key[0] * _ODD + seed) & _MASK
        return hash((seed, *map(_distinct, key))) & _MASK

    def _only_integer(self, definition: TableDefinition) -> tuple[int, int] | None:
        """Return position and seed of a single key that is one integer, which is fast to hash; None for other keys."""
        if len(self._parts) != 1 or len(self._parts[0][1]) != 1:
            return None
        seed, ((place, _),) = self._parts[0]
        return (place, seed) if definition.columns[place].sql_type.name in _INTEGERS else None


class WriteSetBuilder:
    """Collects the rows of one transaction. More than `limit` hashes make the writeset unusable."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._hashes: list[int] = []
        self._has_missing_keys = False
        self._is_usable = True

    @property
    def position(self) -> int:
        """The position after the last row, for `truncate`."""
        return len(self._hashes)

    def add(self, hasher: KeyHasher, *images: Sequence[object]) -> None:
        """Add a changed row by its images: one, or both of an update."""
        if not self._is_usable:
            return
        if not hasher.has_key:
            self._has_missing_keys = True
        for values in images:
            found = hasher.hashes(values) if hasher.is_usable else None
            if found is None:
                self.spoil()
                return
            self._hashes += found
        if len(self._hashes) > self._limit:
            self.spoil()

    def spoil(self) -> None:
        """Mark the writeset as unusable, because a change has no known row."""
        self._is_usable = False
        self._hashes = []

    def truncate(self, position: int) -> None:
        """Remove the rows after a position, which a failed statement or ROLLBACK TO has undone."""
        del self._hashes[position:]

    def take(self) -> WriteSet | None:
        """Return the writeset, None if it is unusable, and begin the next transaction."""
        found = None
        if self._is_usable:
            found = WriteSet(tuple(dict.fromkeys(self._hashes)), self._has_missing_keys)
        self.clear()
        return found

    def clear(self) -> None:
        """Begin the next transaction."""
        if self._hashes:
            self._hashes = []
        self._has_missing_keys = False
        self._is_usable = True


def _distinct(value: Any) -> Any:
    """Return integers as text, because Python's hash of -1 equals that of -2."""
    return str(value) if type(value) is int else value


def _normal(column: ColumnDefinition, definition: TableDefinition, length: int) -> _Normal:
    """Return the normalization of a column's values for comparison; `length` of a prefix is in characters, or 0."""
    name = column.sql_type.name
    if name in _INTEGERS:
        return int
    if name == "decimal":
        return lambda value: str(Decimal(value).normalize() + 0)
    if name in ("float", "double"):
        layout = "<f" if name == "float" else "<d"
        return lambda value: struct.pack(layout, value + 0.0)
    if name in _TEMPORAL:
        return _temporal
    if name in _TEXT:
        return _text(definition.collation_of(column), length)
    if name in _BYTES:
        return lambda value: _bytes(value, length)
    return _member if name in ("enum", "set") else _unknown


def _temporal(value: Any) -> Any:
    if isinstance(value, (date, timedelta)):
        return value
    raise TypeError


def _text(collation: str, length: int) -> _Normal:
    if _EQUAL_BYTES.fullmatch(collation):
        return lambda value: _of_length(_checked(value, str), length).rstrip(" ")
    if _EQUAL_LETTERS.fullmatch(collation) is None:
        return _unknown

    def normal(value: object) -> str:
        text = _of_length(_checked(value, str), length)
        if _PLAIN.fullmatch(text) is None:
            raise ValueError
        return text.rstrip(" ").upper()

    return normal


def _bytes(value: Any, length: int) -> bytes:
    data: bytes = _checked(value, bytes)
    return (data[:length] if length else data).rstrip(b"\0")


def _member(value: Any) -> int:
    if isinstance(value, EnumValue):
        return value.index
    if isinstance(value, SetValue):
        return value.bits
    return int(_checked(value, int))


def _unknown(value: Any) -> Any:
    raise TypeError


def _of_length(text: str, length: int) -> str:
    return text[:length] if length else text


def _checked(value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value
