"""Row keys: parsing of keys given as text, choice of key columns, and key values in record batches.

    key   := value ("," value)*            values of the primary key columns, in key order
           | name "=" value ("," name "=" value)*
    value := text without comma | "'" text "'"    '' inside is a quote

Values are compared by their bytes; collations are ignored. Binary values are given as hexadecimal digits, and times in
UTC, as in the log.
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
    """A key given by the caller is malformed, or does not fit the table."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """A key as text: pairs of a column name (or None) and a value."""

    text: str
    values: tuple[tuple[str | None, str], ...]

    @classmethod
    def parse(cls, text: str) -> RowKey:
        """Parse a key.

        Raises:
            KeyRefused: the text is not a key.
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
        """Return the key with these values by column name."""
        return cls(",".join(f"{name}={value}" for name, value in values.items()), tuple(values.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """The column names; empty if the key has only values."""
        return tuple(name for name, _ in self.values if name is not None)

    def by_column(self, columns: Sequence[str], table: str) -> dict[str, str]:
        """Return the values by the column names of a table, which may differ in case from those of the key.

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
            return {columns[0]: self.text}  # a single text value with commas
        if len(self.values) != len(columns):
            raise KeyRefused(
                f"key {self.text!r} of {table}: expected values of {', '.join(columns)}, found {len(self.values)}"
            )
        return {column: value for column, (_, value) in zip(columns, self.values, strict=True)}


@dataclass(frozen=True, slots=True)
class KeyChoice:
    """The choice of key columns: the columns with these names, or by default the primary key."""

    names: tuple[str, ...] = ()

    def of(self, plan: TablePlan) -> tuple[str, ...]:
        """Return the key columns of a table, in key order; empty if the table has no such key."""
        labels = [column.label for column in plan.columns]
        if not self.names:
            return tuple(labels[position] for position, _ in plan.primary_key)
        known = {label.casefold(): label for label in labels}
        found = tuple(known[name.casefold()] for name in self.names if name.casefold() in known)
        return found if len(found) == len(self.names) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySelection(RowSelection):
    """A row selection that decodes key columns only, as chosen by `key_of`."""

    key_of: Callable[[TablePlan], Collection[str] | None]

    def columns_of(self, plan: TablePlan) -> Collection[str] | None:
        """Return the names of the key columns of a table; None: all columns."""
        return self.key_of(plan)


PRIMARY_KEY: Final = KeyChoice()
"""The primary key of each table."""


def value_of(text: str, kind: pa.DataType, column: str) -> pa.Scalar:
    """Convert text to a value of a column's type.

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
    """Return for each row a 64-bit code of its key (int64), and whether it has all key columns (bool).

    The code is the value of a single integer column, else a hash of the values.
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
    """Return the hashes of the words of a statement, in lower case; words in single quotes are skipped."""
    return {_hash(word) for word in _words(text)}


def _words(text: bytes) -> Iterator[bytes]:
    return (word.lower() for word in _WORD.findall(_QUOTED.sub(b" ", text[:_MOST_TEXT])))


def names_table(text: bytes, table: str) -> bool:
    """Return whether a statement contains every word of a table name."""
    return set(_words(table.encode("utf-8", "surrogateescape"))) <= set(_words(text))


_WORD: Final = re.compile(rb"[\w$\x80-\xff]+")
_QUOTED: Final = re.compile(rb"'(?:[^'\\]|\\.)*'?", re.DOTALL)
_MOST_TEXT: Final = 1 << 16  # bytes at the start of a statement that are searched for words


@dataclass(frozen=True, slots=True)
class FoundKeys:
    """The keys of the row changes of a batch, before and after each change.

    `before` and `after` have one array for each column. Where an update does not log the new value of a column, `after`
    has the value of the before-image.
    """

    columns: tuple[str, ...]
    before: tuple[pa.Array, ...]
    after: tuple[pa.Array, ...]
    has_before: np.ndarray
    has_after: np.ndarray

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> FoundKeys:
        """Return the keys of a batch read with a `KeySelection`."""
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
        """Return the key of a row as texts by column name, which `value_of` accepts."""
        values = (key[row].as_py() for key in keys)
        return {
            name: value.hex() if isinstance(value, bytes) else str(value)
            for name, value in zip(self.columns, values, strict=True)
        }
