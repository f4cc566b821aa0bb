"""Values that SQLite refuses are a ReplayError with the place, and nothing of the transaction stays."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.constants import OptionalMetadataType
from binlogio.errors import BinlogError, BinlogFormatError, ReplayError
from binlogio.replay import SqliteTarget, replay
from binlogio.schema import TableDefinition
from binlogio.values.enum_set import EnumValue
from binlogio_cli.main import cli
from logs import log, query
from sqlite_replays import ONE, TWO, contents, replayed
from sqlite_replays import change as row_change

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CREATE: Final = "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(20), document JSON)"
CREATE_WITH_PARTITIONS: Final = "CREATE TABLE o (id INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9))"


def transaction(*events: Any) -> list[Any]:
    """Return the events between BEGIN and COMMIT."""
    return [query("BEGIN"), *events, query("COMMIT")]


START: Final = transaction(*row_change(None, ONE), *row_change(None, TWO))


@pytest.fixture
def target() -> Iterator[SqliteTarget]:
    """Provide an empty database."""
    with closing(SqliteTarget.open(":memory:")) as opened:
        yield opened


def refusal(tmp_path: Path, target: SqliteTarget, *events: Any) -> BinlogError:
    """Return the reason for which a transaction is refused, of which nothing stays."""
    gone = row_change(ONE, (ONE[0], "gone", None))
    with pytest.raises(BinlogError) as caught:
        replayed(tmp_path, target, query(CREATE), *START, *transaction(*gone, *events))

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
def test_row_with_a_member_that_is_no_text_gets_its_number(tmp_path: Path, target: SqliteTarget, count: int) -> None:
    """As if the members were unknown; alone, and among others that are added together."""
    events = []
    for number in range(count):
        table_map, rows = row_change(None, (number, EnumValue("a", 1)), table("d"))
        fields = tuple(
            replace(field, value=((b"\x80",),)) if field.kind == OptionalMetadataType.ENUM_STR_VALUE else field
            for field in table_map.optional_metadata
        )
        events += [replace(table_map, optional_metadata=fields), rows]
    replayed(tmp_path, target, *transaction(*events))

    assert contents(target, "d.o") == [(number, 1) for number in range(count)]


def test_row_of_a_table_whose_name_is_no_text_is_refused(tmp_path: Path, target: SqliteTarget) -> None:
    """The table is named."""
    error = refusal(tmp_path, target, *row_change(None, (1, EnumValue("a", 1)), table("d\udc80")))

    assert isinstance(error, ReplayError)
    assert error.field == "d\udc80.o"


def test_damaged_event_after_good_changes_leaves_nothing_of_its_transaction(
    tmp_path: Path, target: SqliteTarget
) -> None:
    """Whatever kind of error it is that ends a transaction."""
    table_map, rows = row_change(None, (3, "three", None))
    error = refusal(tmp_path, target, table_map, replace(rows, images=rows.images[:-1]))

    assert isinstance(error, BinlogFormatError)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET name = 'x'",
        "INSERT INTO t VALUES (3, 'x', NULL)",
        "REPLACE t VALUES (1)",
        "CALL p()",
        "/* a program */ UPDATE t SET name = 'x'",
        "SET STATEMENT max_statement_time = 1 FOR DELETE FROM t",
    ],
)
def test_statement_that_changes_rows_as_text_is_refused(tmp_path: Path, target: SqliteTarget, sql: str) -> None:
    """With what the source needs, in the library and on the command line."""
    path = tmp_path / "source" / "binlog.000001"
    path.parent.mkdir()
    path.write_bytes(log(query(CREATE), *START, *transaction(query(sql))))
    result = CliRunner().invoke(cli, ["replay", "--to", f"sqlite:///{tmp_path}/x.db", str(path)])
    error = refusal(tmp_path, target, query(sql))

    assert error.hint == "the source needs binlog_format=ROW"
    assert error.reason == "a statement that changes rows is in the log as SQL text; only row changes can be replayed"
    assert result.exit_code != 0
    assert result.stderr.count("the source needs binlog_format=ROW") == 1
    assert "--" not in result.stderr


@given(
    st.sampled_from(
        [
            CREATE,
            CREATE_WITH_PARTITIONS,
            "ALTER TABLE t ADD c INT, DROP name",
            "ALTER TABLE t MODIFY name VARCHAR(20) DEFAULT 'x', RENAME TO o",
            "ALTER TABLE t DROP PARTITION p0",
            "RENAME TABLE t TO o",
            "CREATE INDEX i ON t (name)",
            "DROP TABLE t",
            "UPDATE t SET name = 'x'",
        ]
    ),
    st.lists(
        st.tuples(
            st.integers(0, 80),
            st.integers(0, 6),
            st.binary(max_size=4) | st.sampled_from([b"(", b"'", b"`", b",", b" NULL ", b"\0"]),
        ),
        max_size=4,
    ),
)
@example("RENAME TABLE t TO o", [(19, 0, b"\x80")])
@example("RENAME TABLE t TO o", [(18, 1, b"`\0`")])
@settings(max_examples=150)
def test_any_statement_is_followed_or_refused(sql: str, edits: list[tuple[int, int, bytes]]) -> None:
    """No bytes in a statement raise anything but a BinlogError."""
    text = sql.encode()
    for at, size, data in edits:
        text = text[:at] + data + text[at + size :]
    with (
        closing(SqliteTarget.open(":memory:")) as target,
        binlogio.open(BytesIO(log(query(CREATE), *START, *transaction(replace(query(""), sql=text))))) as reader,
        suppress(BinlogError),
    ):
        replay(reader, target)
