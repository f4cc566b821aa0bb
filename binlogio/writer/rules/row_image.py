"""Row images: which columns an image has, by the primary key equivalent and the tables of WL#5092.

    binlog_row_image   insert, after                  update and delete, before      update, after
    MINIMAL            given, filled, AUTO_INCREMENT  key                            given, filled
    NOBLOB             these and all but blobs        key and all but blobs          these and all but blobs
    FULL_NODUP         all                            all                            given, filled
    FULL               all                            all                            all

`key` is the primary key equivalent (PKE): the PRIMARY KEY, or the first UNIQUE key whose parts are all NOT NULL and
whole columns, or all columns. `filled` are columns that the server fills: generated ones that depend on a given column
(for an insert all generated ones), and those with CURRENT_TIMESTAMP. MariaDB's rules differ (`ImageRules`), and it has
FULL_NODUP since 11.4. An update made by INSERT ... ON DUPLICATE KEY UPDATE or REPLACE has all columns in its after
image, in MariaDB only with FULL_NODUP. Blobs are the four sizes of BLOB and TEXT; JSON, GEOMETRY and VECTOR are not.

Source: WL#5092; sql/table.cc, TABLE::mark_columns_per_binlog_row_image and mark_generated_columns; measured on 9.7.4,
MariaDB 10.11.18, 11.8.6 and 11.8.9. MariaDB 11.8.9 has no generated columns in the images of updates and deletes; the
release of this change, and other series that have it, are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from binlogio.schema import ColumnDefinition, TableDefinition

_BLOB_TYPES: Final = frozenset(
    ("tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext")
)


class RowOperation(Enum):
    """Operation on a row. UPSERT is an update made by INSERT ... ON DUPLICATE KEY UPDATE or REPLACE."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRules:
    """Rules of row images that differ between servers.

    Args:
        needs_key: rows of tables without a key always have all columns.
        upserts_are_whole: an UPSERT has all columns in its after image.
        fills_all_generated: every generated column is in the after image of an update, whatever it depends on.
        fills_virtual: virtual generated columns are in the after images of inserts and updates too.
        changes_have_generated: generated columns are in the images of updates and deletes; if False, none of them is,
            with any row image, even if it is part of a key.
    """

    needs_key: bool = False
    upserts_are_whole: bool = True
    fills_all_generated: bool = False
    fills_virtual: bool = True
    changes_have_generated: bool = True


MYSQL_IMAGES: Final = ImageRules()
MARIADB_IMAGES: Final = ImageRules(
    needs_key=True, upserts_are_whole=False, fills_all_generated=True, fills_virtual=False
)
MARIADB_11_8_9_IMAGES: Final = replace(MARIADB_IMAGES, changes_have_generated=False)


@dataclass(frozen=True, slots=True)
class ImageColumns:
    """Positions of the columns in the images of a row, in table order; None for an image that does not exist."""

    before: tuple[int, ...] | None
    after: tuple[int, ...] | None


def primary_key_equivalent(table: TableDefinition) -> tuple[int, ...]:
    """Return the positions of the columns by which a replica finds a row."""
    return _key(table) or tuple(range(len(table.columns)))


def _key(table: TableDefinition) -> tuple[int, ...] | None:
    if table.primary_key:
        return _positions(table, table.primary_key)
    for key in table.unique_keys:
        positions = _positions(table, key.columns)
        if not any(key.prefixes) and not any(table.columns[position].nullable for position in positions):
            return positions
    return None


def image_columns(
    table: TableDefinition,
    row_image: str,
    operation: RowOperation,
    given: Iterable[int] = (),
    rules: ImageRules = MYSQL_IMAGES,
) -> ImageColumns:
    """Return the columns of the images with binlog_row_image = `row_image`.

    `given` are the columns to which the statement assigned a value.
    """
    everything = tuple(range(len(table.columns)))
    before = after = everything
    if row_image != "FULL" and (_key(table) is not None or not rules.needs_key):
        is_nodup = row_image == "FULL_NODUP"
        before = everything if is_nodup else _with_what_is_no_blob(table, row_image, primary_key_equivalent(table))
        if is_nodup and operation is not RowOperation.UPDATE:
            after = everything
        elif operation is not RowOperation.UPSERT or not rules.upserts_are_whole:
            written = _written(table, operation, frozenset(given), rules)
            after = _with_what_is_no_blob(table, row_image, written)
    if operation is not RowOperation.INSERT and not rules.changes_have_generated:
        before, after = (
            tuple(i for i in image if table.columns[i].generated_from is None) for image in (before, after)
        )
    return ImageColumns(
        before=None if operation is RowOperation.INSERT else before,
        after=None if operation is RowOperation.DELETE else after,
    )


def _positions(table: TableDefinition, names: Iterable[str]) -> tuple[int, ...]:
    return tuple(sorted(table.column_index(name) for name in names))


def _with_what_is_no_blob(table: TableDefinition, row_image: str, chosen: Iterable[int]) -> tuple[int, ...]:
    taken = set(chosen)
    if row_image == "NOBLOB":
        taken.update(i for i, column in enumerate(table.columns) if column.sql_type.name not in _BLOB_TYPES)
    return tuple(sorted(taken))


def _written(table: TableDefinition, operation: RowOperation, given: frozenset[int], rules: ImageRules) -> set[int]:
    """Return the columns to which the statement assigned a value, and those that the server fills because of it."""
    is_insert = operation is RowOperation.INSERT
    written = set(given)
    written.update(i for i, column in enumerate(table.columns) if _is_filled(column, is_insert=is_insert))
    if is_insert or rules.fills_all_generated:
        written.update(
            i
            for i, column in enumerate(table.columns)
            if column.generated_from is not None and (rules.fills_virtual or not column.virtual)
        )
        return written
    changed = -1
    while changed != len(written):  # a generated column may depend on another one
        changed = len(written)
        for i, column in enumerate(table.columns):
            if column.generated_from and not written.isdisjoint(_positions(table, column.generated_from)):
                written.add(i)
    return written


def _is_filled(column: ColumnDefinition, *, is_insert: bool) -> bool:
    return column.default_now or column.auto_increment if is_insert else column.on_update_now
