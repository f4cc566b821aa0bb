"""Values that SQLite refuses are a ReplayError with the place, and nothing of the transaction stays."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio.constants import OptionalMetadataType
from binlogio.errors import BinlogError, BinlogFormatError, ReplayError
from binlogio.events.statement_context import UserVarType
from binlogio.replay import SqliteTarget
from binlogio.schema import TableDefinition
from binlogio.values.enum_set import EnumValue
from logged_statements import CREATE, ONE, START, TWO, transaction, variable
from logs import query
from sqlite_replays import change as row_change
from sqlite_replays import contents, replayed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def target() -> Iterator[SqliteTarget]:
    """Provide an empty database that takes statements."""
    with closing(SqliteTarget.open(":memory:", translate=True)) as opened:
        yield opened


def refusal(tmp_path: Path, target: SqliteTarget, *events: Any) -> BinlogError:
    """Return the reason for which a transaction is refused, of which nothing stays."""
    sql = "UPDATE t SET v = 'gone'"
    with pytest.raises(BinlogError) as caught:
        replayed(tmp_path, target, query(CREATE), *transaction(START), *transaction(sql, *events))

    assert contents(target) == [ONE, TWO]
    assert caught.value.offset is not None
    return caught.value


NO_TEXT: Final = (
    b"RENAME TABLE t TO o\x80",
    b"RENAME TABLE t TO `o\0`",
    b"DROP TABLE o\x80",
    b"DROP TABLE `o\0`",
    b"SAVEPOINT o\x80",
    b"ROLLBACK TO SAVEPOINT o\x80",
    b"ALTER TABLE t ADD c VARCHAR(9) DEFAULT '\x80'",
)


@pytest.mark.parametrize("sql", NO_TEXT, ids=ascii)
def test_name_or_value_that_is_no_text_is_refused(tmp_path: Path, target: SqliteTarget, sql: bytes) -> None:
    """Bytes that are not UTF-8, and NUL, which no SQL of SQLite can have."""
    error = refusal(tmp_path, target, replace(query(""), sql=sql))

    assert isinstance(error, ReplayError)
    assert error.reason.startswith("SQLite refused: ")


def table(schema: str) -> TableDefinition:
    columns = [{"name": "id", "type": "int", "nullable": False}, {"name": "e", "type": "enum('a')"}]
    return TableDefinition.from_json({"schema": schema, "name": "o", "columns": columns, "primary_key": ["id"]})


@pytest.mark.parametrize("count", [1, 2])
def test_row_with_a_member_that_is_no_text_is_refused(tmp_path: Path, target: SqliteTarget, count: int) -> None:
    """Alone, and among others that are added together."""
    events = []
    for number in range(count):
        table_map, rows = row_change(None, (number, EnumValue("a", 1)), table("d"))
        fields = tuple(
            replace(field, value=((b"\x80",),)) if field.kind == OptionalMetadataType.ENUM_STR_VALUE else field
            for field in table_map.optional_metadata
        )
        events += [replace(table_map, optional_metadata=fields), rows]
    error = refusal(tmp_path, target, *events)

    assert isinstance(error, ReplayError)
    assert (error.field, error.found) == ("d.o", "id=0")
    assert error.reason.startswith("INSERT failed: 'utf-8' codec")


def test_row_of_a_table_whose_name_is_no_text_is_refused(tmp_path: Path, target: SqliteTarget) -> None:
    """The table is named."""
    error = refusal(tmp_path, target, *row_change(None, (1, EnumValue("a", 1)), table("d\udc80")))

    assert isinstance(error, ReplayError)
    assert error.field == "d\udc80.o"


@pytest.mark.parametrize("condition", [" OR ".join(["id"] * 2500), f"id = {'9' * 5000}"], ids=["operators", "digits"])
def test_statement_of_thousands_of_operators_or_digits_is_refused(
    tmp_path: Path, target: SqliteTarget, condition: str
) -> None:
    """More than Python has frames, and more than it reads as a number."""
    error = refusal(tmp_path, target, f"DELETE FROM t WHERE {condition}")

    assert isinstance(error, ReplayError)
    assert error.reason.startswith("the statement 'DELETE FROM t WHERE id")


def test_damaged_value_behind_good_changes_leaves_nothing_of_its_transaction(
    tmp_path: Path, target: SqliteTarget
) -> None:
    """Whatever kind of error it is that ends a transaction."""
    damaged = variable("a", UserVarType.DECIMAL_RESULT, b"\x50\x50\xff")
    error = refusal(tmp_path, target, "UPDATE t SET n = 5e0", damaged, "UPDATE t SET x = @a")

    assert isinstance(error, BinlogFormatError)
