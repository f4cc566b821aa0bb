"""Which columns are in the images of a row: the tables of WL#5092, and the rules that it lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from binlogio.schema import ColumnDefinition, KeyDefinition, TableDefinition
from binlogio.writer.rules.row_image import MARIADB_11_8_9_IMAGES, RowOperation, image_columns, primary_key_equivalent

INSERT: Final = RowOperation.INSERT
UPDATE: Final = RowOperation.UPDATE
UPSERT: Final = RowOperation.UPSERT
DELETE: Final = RowOperation.DELETE
COLUMNS: Final = (
    ColumnDefinition("id", "int", nullable=False),
    ColumnDefinition("a", "int", nullable=False),
    ColumnDefinition("v", "varchar(20)"),
    ColumnDefinition("bl", "text"),
)
T: Final = TableDefinition("s", "t", COLUMNS, ("id",))
KEYLESS: Final = replace(T, primary_key=())
ALL: Final = (0, 1, 2, 3)
ID: Final = KeyDefinition(("id",))
A: Final = KeyDefinition(("a",))
V: Final = KeyDefinition(("v",))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (T, (0,)),
        (replace(T, primary_key=("a", "id")), (0, 1)),
        (replace(T, primary_key=("bl",), primary_key_prefixes=(8,)), (3,)),
        (KEYLESS, ALL),
        (replace(KEYLESS, unique_keys=(A, ID)), (1,)),
        (replace(KEYLESS, unique_keys=(V, ID)), (0,)),
        (replace(KEYLESS, unique_keys=(V,)), ALL),
        (replace(KEYLESS, unique_keys=(KeyDefinition(("a",), (4,)), ID)), (0,)),
        (replace(KEYLESS, unique_keys=(KeyDefinition(("id", "v")), KeyDefinition(("id", "a")))), (0, 1)),
        (replace(T, unique_keys=(A,)), (0,)),
    ],
)
def test_the_key_is_the_first_that_finds_one_row(table: TableDefinition, expected: tuple[int, ...]) -> None:
    """PRIMARY KEY, else the first UNIQUE key of whole columns that cannot be NULL, else everything."""
    assert primary_key_equivalent(table) == expected


@pytest.mark.parametrize(
    ("row_image", "operation", "given", "before", "after"),
    [
        ("MINIMAL", INSERT, (0, 2), None, (0, 2)),
        ("MINIMAL", INSERT, (), None, ()),
        ("NOBLOB", INSERT, (0, 3), None, (0, 1, 2, 3)),
        ("NOBLOB", INSERT, (0,), None, (0, 1, 2)),
        ("FULL", INSERT, (0,), None, ALL),
        ("MINIMAL", UPDATE, (2,), (0,), (2,)),
        ("MINIMAL", UPDATE, (0,), (0,), (0,)),
        ("NOBLOB", UPDATE, (2,), (0, 1, 2), (0, 1, 2)),
        ("NOBLOB", UPDATE, (3,), (0, 1, 2), ALL),
        ("FULL", UPDATE, (2,), ALL, ALL),
        ("MINIMAL", UPSERT, (2,), (0,), ALL),
        ("NOBLOB", UPSERT, (2,), (0, 1, 2), ALL),
        ("MINIMAL", DELETE, (), (0,), None),
        ("NOBLOB", DELETE, (), (0, 1, 2), None),
        ("FULL", DELETE, (), ALL, None),
    ],
)
def test_images_have_the_columns_of_the_worklog(
    row_image: str,
    operation: RowOperation,
    given: tuple[int, ...],
    before: tuple[int, ...] | None,
    after: tuple[int, ...] | None,
) -> None:
    """With a primary key, and a blob that is not in it."""
    found = image_columns(T, row_image, operation, given)

    assert (found.before, found.after) == (before, after)


def test_without_a_key_the_before_image_is_whole() -> None:
    """Even its blobs, in every mode; the after image is as with a key."""
    minimal = image_columns(KEYLESS, "MINIMAL", UPDATE, (2,))
    noblob = image_columns(KEYLESS, "NOBLOB", UPDATE, (2,))

    assert (minimal.before, minimal.after) == (ALL, (2,))
    assert (noblob.before, noblob.after) == (ALL, (0, 1, 2))


def test_a_blob_in_the_key_is_in_every_before_image() -> None:
    """The whole blob, though the key has a prefix of it."""
    table = replace(T, primary_key=("bl",), primary_key_prefixes=(8,))

    assert image_columns(table, "NOBLOB", DELETE).before == ALL
    assert image_columns(table, "MINIMAL", DELETE).before == (3,)


@pytest.mark.parametrize("kind", ["json", "point", "vector(3)", "varbinary(20)"])
def test_only_blob_and_text_are_blobs(kind: str) -> None:
    """JSON, GEOMETRY and VECTOR are large too, and yet in NOBLOB images."""
    table = replace(T, columns=(*COLUMNS[:3], ColumnDefinition("bl", kind)))

    assert image_columns(table, "NOBLOB", DELETE).before == ALL


def test_columns_that_the_server_fills_are_in_minimal_images() -> None:
    """AUTO_INCREMENT and DEFAULT CURRENT_TIMESTAMP of an insert, ON UPDATE of an update; constant defaults are not."""
    table = replace(
        T,
        columns=(
            replace(COLUMNS[0], auto_increment=True),
            *COLUMNS[1:],
            ColumnDefinition("created", "timestamp", default_now=True),
            ColumnDefinition("changed", "timestamp", on_update_now=True),
        ),
    )

    assert image_columns(table, "MINIMAL", INSERT, ()).after == (0, 4)
    assert image_columns(table, "MINIMAL", UPDATE, (2,)).after == (2, 5)
    assert image_columns(table, "MINIMAL", DELETE).before == (0,)


def test_generated_columns_follow_what_they_depend_on() -> None:
    """All of them in an insert; in an update those of the assigned columns, and those of these."""
    table = replace(
        T,
        columns=(
            *COLUMNS,
            ColumnDefinition("g", "int", generated_from=("a",)),
            ColumnDefinition("h", "int", generated_from=("g",)),
            ColumnDefinition("c", "int", generated_from=()),
        ),
    )

    assert image_columns(table, "MINIMAL", INSERT, (0,)).after == (0, 4, 5, 6)
    assert image_columns(table, "MINIMAL", UPDATE, (1,)).after == (1, 4, 5)
    assert image_columns(table, "MINIMAL", UPDATE, (2,)).after == (2,)


@pytest.mark.parametrize(
    ("row_image", "operation", "given", "before", "after"),
    [
        ("FULL", INSERT, (0, 1, 2), None, (0, 1, 2, 3, 4)),
        ("FULL", UPDATE, (1,), (0, 1, 2), (0, 1, 2)),
        ("FULL", DELETE, (), (0, 1, 2), None),
        ("MINIMAL", INSERT, (0, 1, 2), None, (0, 1, 2, 3)),
        ("MINIMAL", UPDATE, (2,), (0,), (2,)),
        ("MINIMAL", UPSERT, (0, 1), (0,), (0, 1)),
        ("NOBLOB", INSERT, (0, 1, 2), None, (0, 1, 2, 3, 4)),
        ("NOBLOB", UPDATE, (2,), (0, 1), (0, 1, 2)),
        ("NOBLOB", DELETE, (), (0, 1), None),
        ("FULL_NODUP", UPDATE, (1,), (0, 1, 2), (1,)),
        ("FULL_NODUP", UPSERT, (0, 1), (0, 1, 2), (0, 1, 2)),
    ],
)
def test_changes_of_mariadb_11_8_9_lack_generated_columns(
    row_image: str, operation: RowOperation, given: tuple[int, ...], before: Any, after: Any
) -> None:
    """As a server logged them: of a table with a stored and a virtual column, and a key on the stored one."""
    table = TableDefinition(
        "s",
        "k",
        (
            ColumnDefinition("id", "int", nullable=False),
            ColumnDefinition("a", "int"),
            ColumnDefinition("t", "text"),
            ColumnDefinition("s", "int", generated_from=("a",)),
            ColumnDefinition("v", "int", generated_from=("a",), virtual=True),
        ),
        ("id",),
    )
    found = image_columns(table, row_image, operation, given, MARIADB_11_8_9_IMAGES)

    assert (found.before, found.after) == (before, after)
