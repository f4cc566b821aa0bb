"""Row lookup (find_row of WL#5092): finds the row of a before image in a table that may have other indexes and columns.

The result is a search plan, which the targets execute. The first of these methods that is possible is used:

    primary key, or unique key without NULLs    the row with this key; other columns of the image are not compared
    another key                                 rows with this key, then record compare with the whole image
    table scan                                  all rows, then record compare

A key can be used if the image has all its columns. If several rows are equal, the first one is used. An image without
any column of the target is refused.

The server maps columns by position; additional columns of either side are ignored (R1 to R4 of the worklog). Keys are
compared by their collations, records byte by byte: 'a' and 'A' are one key but two records, as are 0.0 and -0.0.

Source: WL#5092; sql/log_event.cc, Rows_log_event::decide_row_lookup_algorithm_and_key, search_key_in_table,
record_compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import ReplayError
from binlogio.values.absent import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlogio.rows.plan import TablePlan

ER_KEY_NOT_FOUND: Final = 1032
ER_DUP_ENTRY: Final = 1062


class Algorithm(Enum):
    """Row search algorithms, named as in slave_rows_search_algorithms."""

    INDEX_SCAN = "INDEX_SCAN"
    TABLE_SCAN = "TABLE_SCAN"


@dataclass(frozen=True, slots=True)
class Index:
    """An index of the target. `parts` are pairs (position, prefix length in characters; 0 for the whole column)."""

    name: str
    parts: tuple[tuple[int, int], ...]
    is_unique: bool = False
    is_primary: bool = False

    def is_key(self, target: TablePlan) -> bool:
        """Return True if a key value identifies at most one row: a primary key, or unique without nullable columns."""
        return self.is_primary or (
            self.is_unique and not any(target.columns[position].nullable for position, _ in self.parts)
        )


@dataclass(frozen=True, slots=True)
class RowSearch:
    """The condition for the row of a before image; the first row that fulfils it is used.

    `key` are the values of the index, compared by its collations; it is empty for a table scan. `same` are values to
    compare byte by byte; it is empty if the key alone identifies the row. Both are (position, value) pairs.
    """

    algorithm: Algorithm
    index: Index | None
    key: tuple[tuple[int, Any], ...]
    same: tuple[tuple[int, Any], ...]


class RowConflict(ReplayError):
    """A row change conflicts with the rows of the target: the key exists already, or the row does not exist."""


class RowNotFound(RowConflict):
    """No row matches the before image."""


@dataclass(frozen=True, slots=True)
class RowLookup:
    """The search plan for all before images with the same columns.

    The same as `RowSearch`, but `key` and `same` contain only column positions.
    """

    algorithm: Algorithm
    index: Index | None
    key: tuple[int, ...]
    same: tuple[int, ...]


def find_row(before: Sequence[Any], source: TablePlan, target: TablePlan, indexes: Iterable[Index]) -> RowSearch:
    """Return the search plan for the row of a before image in the target. Raises the errors of `lookup_of`.

    Args:
        before: a value for each column of the table in the log; `ABSENT` if the image does not have the column.
        source: the table in the log.
        target: the table in the target.
        indexes: the indexes of the table in the target, in its order.
    """
    found = lookup_of(tuple(at for at, value in enumerate(before) if value is not ABSENT), source, target, indexes)
    return RowSearch(
        found.algorithm,
        found.index,
        tuple((position, before[position]) for position in found.key),
        tuple((position, before[position]) for position in found.same),
    )


def lookup_of(present: Iterable[int], source: TablePlan, target: TablePlan, indexes: Iterable[Index]) -> RowLookup:
    """Return the search plan for the rows of before images with the columns `present`.

    Args:
        present: the positions of the columns of the images, in order.
        source: the table in the log.
        target: the table in the target; columns correspond by position.
        indexes: the indexes of the table in the target, in its order.

    Raises:
        RowNotFound: the image has no column of the target.
    """
    shared = min(len(source.columns), len(target.columns))
    image = tuple(at for at in present if at < shared and not source.columns[at].is_row_hash)
    if not image:
        raise RowNotFound(
            f"ERROR {ER_KEY_NOT_FOUND}: the before image has no column that the target has",
            field=dotted_name(target.schema, target.table),
        )
    index = search_key_for_bi(set(image), target, indexes)
    if index is None:
        return RowLookup(Algorithm.TABLE_SCAN, None, (), image)
    key = tuple(position for position, _ in index.parts)
    return RowLookup(Algorithm.INDEX_SCAN, index, key, () if index.is_key(target) else image)


def search_key_for_bi(present: set[int], target: TablePlan, indexes: Iterable[Index]) -> Index | None:
    """Return the index to use: the primary key, else a unique key without NULLs, else any other index, else None.

    All columns of the index must be in the image.
    """
    usable = [index for index in indexes if all(position in present for position, _ in index.parts)]
    ranks = (
        lambda index: index.is_primary,
        lambda index: index.is_key(target),
        lambda index: True,
    )
    return next((index for rank in ranks for index in usable if rank(index)), None)
