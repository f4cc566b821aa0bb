"""Keys of rows: what a user gives as text, which columns they are of, and their values in record batches.

    key   := value ("," value)*            of the columns of the primary key, in its order
           | name "=" value ("," name "=" value)*
    value := text without comma | "'" text "'"    where '' is a quote

Values are compared by their bytes, whatever the collation of a column is. Bytes are given as hexadecimal digits, times
in UTC as the log has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlogio.columnar import RowSelection

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from binlogio.rows.plan import TablePlan

_PART: Final = re.compile(r"\s*(?:([^=,']+?)\s*=\s*)?(?:'((?:[^']|'')*)'\s*|([^,]*))(,|$)")
_HASH_SIZE: Final = 8
_SEPARATOR: Final = b"\0"


class KeyRefused(ValueError):
    """A key that the caller gave is not one of the table."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """A key as text: pairs of the name of a column, or None, and a value."""

    text: str
    values: tuple[tuple[str | None, str], ...]

    @classmethod
    def parse(cls, text: str) -> RowKey:
        """Parse a key.

        Raises:
            KeyRefused: the text is not one.
        """
        values: list[tuple[str | None, str]] = []
        at, comma = 0, ","
        while comma:
            part = _PART.match(text, at)
            if part is None:
                raise KeyRefused(f"{text!r} is not a key: expected a value, or column=value, and commas between them")
            name, quoted, plain, comma = part.groups()
            values.append((name, plain.strip() if quoted is None else quoted.replace("''", "'")))
            at = part.end()
        if len({name is None for name, _ in values}) > 1:
            raise KeyRefused(f"{text!r} is not a key: name all columns, or none")
        return cls(text, tuple(values))

    @classmethod
    def of(cls, values: Mapping[str, str]) -> RowKey:
        """Return the key of these values by the names of their columns."""
        return cls(",".join(f"{name}={value}" for name, value in values.items()), tuple(values.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; empty if the values have none."""
        return tuple(name for name, _ in self.values if name is not None)

    def by_column(self, columns: Sequence[str], table: str) -> dict[str, str]:
        """Return the values by the names of the columns that a table has.

        Raises:
            KeyRefused: the key has other columns, or another number of values.
        """
        if self.names:
            known = {column.casefold(): column for column in columns}
            unknown = [name for name in self.names if name.casefold() not in known]
            if unknown or len(self.names) != len(columns):
                raise KeyRefused(
                    f"key {self.text!r} of {table}: expected the columns {', '.join(columns)},"
                    f" found {', '.join(self.names)}"
                )
            return {known[name.casefold()]: value for name, value in self.values if name is not None}
        if len(columns) == 1 and len(self.values) > 1:
            return {columns[0]: self.text}  # a text with commas
        if len(self.values) != len(columns):
            raise KeyRefused(
                f"key {self.text!r} of {table}: expected values of {', '.join(columns)}, found {len(self.values)}"
            )
        return {column: value for column, (_, value) in zip(columns, self.values, strict=True)}


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """Which columns are the key of a table: those of these names, by default those of its primary key."""

    names: tuple[str, ...] = ()

    def of(self, plan: TablePlan) -> tuple[str, ...]:
        """Return the columns, in the order of the key; empty if the table has no such key."""
        labels = [column.label for column in plan.columns]
        if not self.names:
            return tuple(labels[position] for position, _ in plan.primary_key)
        known = {label.casefold(): label for label in labels}
        found = tuple(known[name.casefold()] for name in self.names if name.casefold() in known)
        return found if len(found) == len(self.names) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySelection(RowSelection):
    """A selection of rows with the columns of their keys only, as `key_of` chooses them."""

    key_of: Callable[[TablePlan], Collection[str] | None]

    def columns_of(self, plan: TablePlan) -> Collection[str] | None:
        """Return the names of the columns of a table's key; None for all."""
        return self.key_of(plan)


def value_of(text: str, kind: pa.DataType, column: str) -> pa.Scalar:
    """Return a value of a column, given as text.

    Raises:
        KeyRefused: the text is not a value of the column's type.
    """
    try:
        if pa.types.is_integer(kind):
            return pa.scalar(int(text), kind)
        if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
            return pa.scalar(_bytes_of(text), kind)
        if pa.types.is_decimal(kind):
            return pa.scalar(Decimal(text), kind)
        return pa.scalar(text, pa.string()).cast(kind)
    except (ValueError, InvalidOperation, OverflowError, pa.ArrowException) as exc:
        raise KeyRefused(f"{text!r} is not a value of column {column}: expected {kind}") from exc


def _bytes_of(text: str) -> bytes:
    digits = text[2:] if text[:2] in ("0x", "0X") else text[2:-1] if text[:2] in ("x'", "X'") else text
    return bytes.fromhex(digits.replace("-", ""))


def key_codes(columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Return a 64-bit number for the key of each row, and whether a row has all columns of the key.

    The number is the value of a single integer column, else a hash of the values.
    """
    has_key = np.ones(len(columns[0]), dtype=bool)
    for column in columns:
        if column.null_count:
            has_key &= column.is_valid().to_numpy(zero_copy_only=False)
    if len(columns) == 1 and pa.types.is_integer(columns[0].type):
        column = columns[0].fill_null(0) if columns[0].null_count else columns[0]
        return column.to_numpy(zero_copy_only=False).astype(np.int64), has_key
    joined = pc.binary_join_element_wise(*map(_as_bytes, columns), _SEPARATOR, null_handling="replace")
    found = joined.dictionary_encode()
    hashes = np.fromiter((_hash(value) for value in found.dictionary.to_pylist()), np.int64, len(found.dictionary))
    return hashes[found.indices.to_numpy(zero_copy_only=False)], has_key


def _as_bytes(column: pa.Array) -> pa.Array:
    if pa.types.is_fixed_size_binary(column.type) or pa.types.is_binary(column.type):
        return column.cast(pa.binary())
    return column.cast(pa.string()).cast(pa.binary())


def _hash(value: bytes) -> int:
    return int.from_bytes(blake2b(value, digest_size=_HASH_SIZE).digest(), "little", signed=True)


def word_codes(text: bytes) -> set[int]:
    """Return the hashes of the words of a statement, without regard to case; texts in single quotes have none."""
    return {_hash(word) for word in _words(text)}


def _words(text: bytes) -> Iterator[bytes]:
    return (word.lower() for word in _WORD.findall(_QUOTED.sub(b" ", text[:_MOST_TEXT])))


def names_table(text: bytes, table: str) -> bool:
    """Return whether a statement has all words of the name of a table."""
    return set(_words(table.encode("utf-8", "surrogateescape"))) <= set(_words(text))


_WORD: Final = re.compile(rb"[\w$\x80-\xff]+")
_QUOTED: Final = re.compile(rb"'(?:[^'\\]|\\.)*'?", re.DOTALL)
_MOST_TEXT: Final = 1 << 16  # bytes of a statement whose words are looked at


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """The keys of the row changes of a batch: of the rows before and after each change.

    `after` is that of the row before, where the log has no new value of a column.
    """

    columns: tuple[str, ...]
    before: tuple[pa.Array, ...]
    after: tuple[pa.Array, ...]
    has_before: np.ndarray
    has_after: np.ndarray

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> FoundKeys:
        """Return the keys of a batch that was read with a `KeySelection`."""
        images = batch.column("before"), batch.column("after")
        before, after = (image.flatten() for image in images)
        columns = tuple(field.name for field in images[0].type)
        has_before, has_after = (image.is_valid().to_numpy(zero_copy_only=False) for image in images)
        is_update = pc.and_(images[0].is_valid(), images[1].is_valid())
        merged = tuple(
            new if not new.null_count else pc.if_else(is_update, pc.coalesce(new, old), new)
            for old, new in zip(before, after, strict=True)
        )
        return cls(columns, tuple(before), merged, has_before, has_after)

    def texts(self, keys: Sequence[pa.Array], row: int) -> dict[str, str]:
        """Return a key as text that `value_of` reads."""
        values = (key[row].as_py() for key in keys)
        return {
            name: value.hex() if isinstance(value, bytes) else str(value)
            for name, value in zip(self.columns, values, strict=True)
        }
