"""The hidden hash columns of MariaDB, DB_ROW_HASH_n: recognized by DDL and by metadata, and absent from SQL and states.

The fixtures `unique_hash` have the table maps of real servers (`test_ddl_in_logs`), the tables after a replay
(`test_replay_corpus`), and the values.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.errors import BinlogFormatError
from binlogio.schema import from_table_map, parse_create_table
from binlogio.schema.given import Described
from binlogio.schema.source import with_hidden_columns
from binlogio_cli.main import cli
from corpus import FIXTURES
from defined_logs import mapped, table
from followed_ddl import MARIADB, MYSQL

if TYPE_CHECKING:
    from pathlib import Path

LOGS: Final = [FIXTURES / name / "unique_hash" / "binlog.000001" for name in ("mariadb1011", "mariadb118")]


@pytest.fixture(params=LOGS, ids=lambda log: log.parts[-3])
def log(request: pytest.FixtureRequest) -> Path:
    """Return a log of MariaDB 10.11, which does not name the columns, and one of 11.8, which does."""
    found: Path = request.param
    return found


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ("a INT PRIMARY KEY, b BLOB, UNIQUE (b)", (1, 1)),
        ("a INT, b JSON UNIQUE, c TEXT, UNIQUE (c), KEY (b(10))", (2, 2)),
        ("a INT, b TEXT, UNIQUE (a, b(10))", ()),
        ("a INT, b TEXT, UNIQUE (b(1000))", (1, 1)),
        ("a VARCHAR(769) UNIQUE", (1, 1)),
        ("a VARCHAR(768) UNIQUE", (0, 1)),  # the limit of the engine and of its row format
        ("a VARCHAR(191) UNIQUE", ()),
        ("a VARCHAR(769), KEY (a)", ()),
        ("a INT, UNIQUE KEY u (a) USING HASH", (1, 1)),
        ("a INT, UNIQUE KEY u USING HASH (a) COMMENT 'x'", (1, 1)),
        ("a INT, UNIQUE KEY u (a) USING BTREE, KEY v (a) USING HASH", ()),
        ("a INT, PRIMARY KEY (a) USING HASH", ()),
    ],
)
def test_unique_keys_over_long_columns_have_a_hash(elements: str, expected: tuple[int, ...]) -> None:
    sql = f"CREATE TABLE s.t ({elements}) CHARSET utf8mb4"

    assert parse_create_table(sql, server=MARIADB).hash_columns == expected
    assert parse_create_table(sql, server=MYSQL).hash_columns == ()
    assert parse_create_table(f"{sql} ENGINE=MEMORY", server=MARIADB).hash_columns == (
        () if "HASH" in elements else expected
    )


@pytest.mark.parametrize(
    ("added", "count"),
    [(["bigint unsigned"], 1), (["bigint unsigned"] * 2, 2), (["bigint unsigned"] * 3, 0), (["int"], 0), ([], 0)],
)
def test_columns_are_hashes_only_if_unique_keys_need_them(added: list[str], count: int) -> None:
    """Another column that the definition lacks was added by a statement that is not in the log."""
    sql = "CREATE TABLE d.t (x0 INT, x1 TEXT, UNIQUE (x1), y VARCHAR(700) CHARSET utf8mb4, UNIQUE (y))"
    definition = parse_create_table(sql, server=MARIADB)
    event = mapped(table("int", "text", "varchar(700)", *added), vendor="mariadb")
    found = with_hidden_columns(Described(definition), event, "mariadb").definition

    assert definition.hash_columns == (1, 2)
    assert [one.name for one in found.columns[3:]] == [f"DB_ROW_HASH_{number + 1}" for number in range(count)]
    assert with_hidden_columns(Described(definition), event, "mysql").definition is definition


def test_the_definition_of_a_table_map_has_their_number(log: Path) -> None:
    """A column that a user named so is no hash: it is of another type, or not among the last."""
    definitions = {}
    with binlogio.open(log) as reader:
        for event in reader:
            if isinstance(event, binlogio.events.TableMapEvent) and "mariadb118" in str(log):
                definitions[event.table] = from_table_map(event, reader.context)
    for name, (names, count) in {
        "with_that_name": (["DB_ROW_HASH_1", "b"], 1),
        "on_two_keys": (["f", "x", "y"], 2),
        "on_prefix": (["a", "b"], 0),
    }.items():
        if definitions:
            assert [column.name for column in definitions[name].columns] == names
            assert definitions[name].hash_columns == ((count, count) if count else ())


def test_a_given_definition_fits(log: Path) -> None:
    """As CREATE TABLE and as JSON; without the key, its columns are not those of the log."""
    sql = "CREATE TABLE using_hash (a INT, b INT, UNIQUE KEY u (a) USING HASH)"
    as_json = parse_create_table(f"{sql.replace('using_hash', 'hashed.using_hash', 1)}", server=MARIADB).to_json()
    for definition in (sql, json.loads(json.dumps(as_json))):
        options: dict[str, Any] = {"table": "hashed.using_hash", "definitions": {"hashed.using_hash": definition}}
        (images,) = {str(batch.schema.field("after").type) for batch in binlogio.read_rows(log, **options)}

        assert images == "struct<a: int32, b: int32, DB_ROW_HASH_1: uint64>"
    if "mariadb1011" in str(log):
        without = {"hashed.using_hash": "CREATE TABLE using_hash (a INT, b INT)"}
        with pytest.raises(BinlogFormatError, match="2 columns, as the table definition has"):
            list(binlogio.read_rows(log, table="hashed.using_hash", definitions=without))


def test_undo_names_no_hash_column(log: Path) -> None:
    """No server accepts its name, also where the whole image is the condition."""
    result = CliRunner().invoke(cli, ["undo", "--on-statement", "skip", str(log)])
    statements = re.findall(r"^(?:INSERT|UPDATE|DELETE).*", result.stdout, re.MULTILINE)

    assert result.exit_code == 0, result.stderr
    assert "DELETE FROM `hashed`.`using_hash` WHERE `a` = 1 AND `b` = 2 LIMIT 1;" in statements
    assert [one for one in statements if "DB_ROW_HASH" in one and "with_that_name" not in one] == []
    assert not any("DB_ROW_HASH_2" in one for one in statements)


def test_the_latest_state_has_no_hash_column(log: Path, tmp_path: Path) -> None:
    """Updates of MariaDB 11.8.9 lack it."""
    chosen = ["-T", "hashed.using_hash", "--key", "b", "--to", str(tmp_path / "state")]
    result = CliRunner().invoke(cli, ["export", "--latest", "--format", "jsonl", *chosen, str(log)])
    rows = [
        json.loads(line) for path in (tmp_path / "state").rglob("*.jsonl") for line in path.read_text().splitlines()
    ]

    assert result.exit_code == 0, result.stderr
    assert rows == [{"a": 7, "b": 3}]
