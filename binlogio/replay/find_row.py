"""Row lookup (find_row of WL#5092): how the row of a before image is found in a table with other indexes and columns.

The result is a plan of the search; the targets execute it.

    invalid image                                     refused: nothing in it concerns the target's columns
    primary key -> unique key without NULLs           the row of that key; nothing else of the image is compared
    -> other key, each if the image has its columns   rows of that key, then record compare with the whole image
    -> scan                                           all rows, then record compare
    of the rows that are the same, the first is the one

The server maps columns by position; columns that either side has more take no part (R1 to R4 of the worklog). Keys
compare as their collations do, record compare goes byte by byte: 'a' and 'A' are one key and two records, as are 0.0
and -0.0.

Source: WL#5092; sql/log_event.cc, Rows_log_event::decide_row_lookup_algorithm_and_key, search_key_in_table,
record_compare.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

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
    """An index of the target. `parts` are (position, prefix length in characters; 0 for the whole column)."""

    name: str
    parts: tuple[tuple[int, int], ...]
    is_unique: bool = False
    is_primary: bool = False

    def is_key(self, target: TablePlan) -> bool:
        """Return True if a key value identifies at most one row: primary, or unique without nullable columns."""
        return self.is_primary or (
            self.is_unique and not any(target.columns[position].nullable for position, _ in self.parts)
        )


@dataclass(frozen=True, slots=True)
class RowSearch:
    """Condition for the row: the first that has `key` by the index's collations, and `same` byte by byte.

    Both are (position, value). `key` is empty for a scan, `same` if the key alone identifies the row.
    """

    algorithm: Algorithm
    index: Index | None
    key: tuple[tuple[int, Any], ...]
    same: tuple[tuple[int, Any], ...]


class RowConflict(ReplayError):
    """A row change does not fit the rows of the target: its key exists already, or the row does not exist."""


class RowNotFound(RowConflict):
    """No row matches the before image."""


@dataclass(frozen=True, slots=True)
class RowLookup:
    """How to find rows whose before images have the same columns. Columns by position; else as `RowSearch`."""

    algorithm: Algorithm
    index: Index | None
    key: tuple[int, ...]
    same: tuple[int, ...]


def find_row(before: Sequence[Any], source: TablePlan, target: TablePlan, indexes: Iterable[Index]) -> RowSearch:
    """Return how to find the row of a before image in the target; arguments and errors as `lookup_of`.

    Args:
        before: a value for each column of the source's table, `ABSENT` where the image does not have it.
        source: the table in the log.
        target: the table that is changed.
        indexes: those of the target.
    """
    found = lookup_of(tuple(at for at, value in enumerate(before) if value is not ABSENT), source, target, indexes)
    return RowSearch(
        found.algorithm,
        found.index,
        tuple((position, before[position]) for position in found.key),
        tuple((position, before[position]) for position in found.same),
    )


def lookup_of(present: Iterable[int], source: TablePlan, target: TablePlan, indexes: Iterable[Index]) -> RowLookup:
    """Return how to find the rows of before images that have certain columns.

    Args:
        present: the columns of the images, in order.
        source: the table in the log.
        target: the table that is changed; columns correspond by position.
        indexes: those of the target, in its order.

    Raises:
        RowNotFound: the image has nothing that concerns the target.
    """
    shared = min(len(source.columns), len(target.columns))
    image = tuple(position for position in present if position < shared)
    if not image:
        raise RowNotFound(
            f"ERROR {ER_KEY_NOT_FOUND}: the before image has no column that the target has",
            field=f"{target.schema}.{target.table}",
        )
    index = search_key_for_bi(set(image), target, indexes)
    if index is None:
        return RowLookup(Algorithm.TABLE_SCAN, None, (), image)
    key = tuple(position for position, _ in index.parts)
    return RowLookup(Algorithm.INDEX_SCAN, index, key, () if index.is_key(target) else image)


def search_key_for_bi(present: set[int], target: TablePlan, indexes: Iterable[Index]) -> Index | None:
    """Return the index to look in: primary, then unique without NULLs, then any other.

    Only one whose columns are all in the image.
    """
    usable = [index for index in indexes if all(position in present for position, _ in index.parts)]
    ranks = (
        lambda index: index.is_primary,
        lambda index: index.is_key(target),
        lambda index: True,
    )
    return next((index for rank in ranks for index in usable if rank(index)), None)
