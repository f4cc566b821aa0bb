"""Who says what the columns of a table are: metadata, the user, the DDL in the log, nobody; and that all readers agree on it."""

from __future__ import annotations

import io
import json
import pickle
import struct
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.columnar import rows_reader
from binlogio.columnar.log_parts import LogPartReader
from binlogio.columnar.record_types import Selection
from binlogio.constants import ColumnType, EventType, TableMapFlag
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.events.base import ParseContext
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.implementation import is_compiled
from binlogio.reader import BinlogReader
from binlogio.schema import ColumnDefinition, TableDefinition, definition_source, from_table_map
from binlogio.schema.definition_source import DefinitionSource
from binlogio.schema.given import GivenDefinitions
from binlogio.schema.server_defaults import ServerDefaults
from binlogio.splits import Split
from binlogio.storage import LogFile
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL
from logs import header, log, query

if TYPE_CHECKING:
    from pathlib import Path

    from binlogio.schema.column_types import Flavor

CONTEXT: Final = ParseContext(server_version="9.7.4")
MARIADB_CONTEXT: Final = ParseContext(server_version="10.11.18-MariaDB-log")
INTS: Final = TableDefinition("d", "t", (ColumnDefinition("a", "int"), ColumnDefinition("b", "int")))
CREATE: Final = "CREATE TABLE t (a INT PRIMARY KEY, b INT)"


def table(*types: str, name: str = "t", collation: str = "utf8mb4_0900_ai_ci", **options: Any) -> TableDefinition:
    """A table with columns x0, x1 ..., which is what no test expects."""
    columns = tuple(ColumnDefinition(f"x{i}", one) for i, one in enumerate(types))
    return TableDefinition("d", name, columns, collation=collation, **options)


def mapped(definition: TableDefinition, level: str = "MINIMAL", flavor: Flavor = "mysql") -> TableMapEvent:
    event = definition.table_map(9, level, flavor)
    return replace(event, header=header(EventType.TABLE_MAP_EVENT))


def rows(*values: int) -> WriteRowsEvent:
    """A row of INTs for table id 9."""
    image = b"\0" * ((len(values) + 7) // 8) + struct.pack(f"<{len(values)}i", *values)
    return WriteRowsEvent(9, 1, b"", len(values), b"\xff", image, header(EventType.WRITE_ROWS_EVENT))


def insert(*values: int, level: str = "MINIMAL") -> list[Any]:
    return [query("BEGIN"), mapped(table(*["int"] * len(values)), level), rows(*values), query("COMMIT")]


def save(path: Path, *events: Any) -> Path:
    path.write_bytes(log(*events))
    return path


def by_events(source: Any, **options: Any) -> list[dict[str, Any]]:
    """The rows as the reader of events gives them."""
    with binlogio.open(source, **options) as reader:
        return [
            {column.label: value for column, value in zip(change.after.plan.columns, change.after.values, strict=True)}
            for event in reader
            if isinstance(event, WriteRowsEvent)
            for change in reader.rows(event)
            if change.after is not None
        ]


def everywhere(source: Any, **options: Any) -> list[dict[str, Any]]:
    """The rows by every reader, which must agree."""
    found = by_events(source, **options)
    batches = binlogio.read_tables(source, **options)
    typed = [record["after"] for _, batch in batches for record in batch.to_pylist()]
    mixed = [json.loads(text) for text in binlogio.read_rows(source, **options).to_table()["after"].to_pylist()]

    assert typed == found
    assert mixed == found
    return found


# -------------------------------------------------------------------------------------------------------- the order


def test_full_metadata_needs_nobody(tmp_path: Path) -> None:
    """Not even where others say something else."""
    path = save(tmp_path / "a.000001", query(CREATE), *insert(1, 2, level="FULL"))

    assert everywhere(path, definitions={"d.t": INTS}) == [{"x0": 1, "x1": 2}]


def test_a_given_definition_comes_before_the_ddl_in_the_log(tmp_path: Path) -> None:
    path = save(tmp_path / "a.000001", query(CREATE), *insert(1, 2))

    assert everywhere(path, definitions={"d.t": "CREATE TABLE t (mine INT, yours INT)"}) == [{"mine": 1, "yours": 2}]
    assert everywhere(path, definitions={"d.other": INTS}) == [{"a": 1, "b": 2}]
    assert everywhere(path) == [{"a": 1, "b": 2}]


def test_without_anything_columns_have_numbers(tmp_path: Path) -> None:
    assert everywhere(save(tmp_path / "a.000001", *insert(1, 2))) == [{"@1": 1, "@2": 2}]


@pytest.mark.parametrize(
    ("alter", "values", "expected"),
    [
        ("ADD c INT FIRST", (3, 1, 2), {"c": 3, "a": 1, "b": 2}),
        ("DROP a", (2,), {"b": 2}),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", (1, 2), {"b": 1, "a": 2}),
        ("MODIFY a INT UNSIGNED AFTER b", (2, 1), {"b": 2, "a": 1}),
        ("CHANGE b z INT", (1, 2), {"a": 1, "z": 2}),
    ],
)
def test_an_alter_table_in_the_middle_is_right_before_and_after(
    tmp_path: Path, alter: str, values: tuple[int, ...], expected: dict[str, int]
) -> None:
    """Also where the table maps before and after it have the same bytes."""
    path = save(tmp_path / "a.000001", query(CREATE), *insert(1, 2), query(f"ALTER TABLE t {alter}"), *insert(*values))

    assert everywhere(path) == [{"a": 1, "b": 2}, expected]


@pytest.mark.skipif(not is_compiled(), reason="batches over several statements are the kernel's")
def test_ddl_that_leaves_a_table_as_it_is_does_not_end_its_batch(tmp_path: Path) -> None:
    """Neither that of other tables nor what says the same again; a batch ends where the table changes, and only there."""
    again = [query("CREATE TABLE u (x INT)"), *insert(1, 2), query("DROP TABLE u"), *insert(3, 4)]
    same = [query("DROP TABLE t"), query(CREATE), *insert(5, 6)]
    path = save(
        tmp_path / "a.000001", query(CREATE), *again, *same, query("ALTER TABLE t RENAME COLUMN b TO c"), *insert(7, 8)
    )
    found = [batch["after"].to_pylist() for _, batch in binlogio.read_tables(path)]

    assert found == [[{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}], [{"a": 7, "c": 8}]]


def test_the_types_of_a_definition_count_where_the_log_has_none(tmp_path: Path) -> None:
    """Signs, keys, members and visibility."""
    sql = "CREATE TABLE d.t (a BIGINT UNSIGNED INVISIBLE KEY, e ENUM('x','y'), s SET('p','q') CHARSET latin1)"
    source = DefinitionSource(GivenDefinitions({"d.t": sql}))
    plan = source.plan(mapped(table("bigint", "enum('1','2')", "set('1','2')"), "NO_LOG"), CONTEXT)

    assert [column.name for column in plan.columns] == ["a", "e", "s"]
    assert plan.columns[0].unsigned
    assert [column.visible for column in plan.columns] == [False, True, True]
    assert [column.members for column in plan.columns] == [None, ("x", "y"), ("p", "q")]
    assert plan.primary_key == ((0, 0),)


def test_what_the_log_says_is_right_where_both_speak() -> None:
    source = DefinitionSource(GivenDefinitions({"d.t": "CREATE TABLE t (a INT, b VARCHAR(3) CHARSET latin1)"}))
    plan = source.plan(mapped(table("int unsigned", "varchar(9)")), CONTEXT)

    assert plan.columns[0].unsigned
    assert (plan.columns[1].collation_id, plan.columns[1].length) == (255, 36)


def test_mariadb_tells_uuid_from_binary_by_a_definition_only() -> None:
    """Even with FULL metadata; a definition of other columns is left alone there."""
    event = mapped(table("uuid", "int"), "FULL", "mariadb")
    right = DefinitionSource(GivenDefinitions({"d.t": "CREATE TABLE t (x0 UUID, x1 INT)"}))
    wrong = DefinitionSource(GivenDefinitions({"d.t": "CREATE TABLE t (x0 UUID)"}))

    assert right.plan(event, MARIADB_CONTEXT).columns[0].native == "uuid"
    assert wrong.plan(event, MARIADB_CONTEXT).columns[0].native is None


def test_an_assumed_character_set_is_believed_where_the_widths_agree() -> None:
    """CHAR and VARCHAR show by their bytes how wide a character is; a TEXT beside them shows nothing."""
    sql = "CREATE TABLE t (a VARCHAR(10), b TEXT, c TEXT CHARACTER SET cp1251)"
    types = ("varchar(10)", "text", "text")
    plans = {}
    for collation in ("latin1_swedish_ci", "utf8mb4_general_ci"):
        source = DefinitionSource(GivenDefinitions({"d.t": sql}))
        event = mapped(table(*types, collation=collation), "NO_LOG", "mariadb")
        plans[collation] = [column.collation_id for column in source.plan(event, MARIADB_CONTEXT).columns]

    assert plans == {"latin1_swedish_ci": [8, 8, 51], "utf8mb4_general_ci": [None, None, 51]}


def test_the_key_that_the_server_generates_is_put_before_the_columns() -> None:
    """sql_generate_invisible_primary_key: the statement does not name it, the table map has it."""
    source = DefinitionSource(GivenDefinitions({"d.t": "CREATE TABLE t (a INT)"}))
    event = mapped(table("bigint unsigned", "int"))
    plan = source.plan(replace(event, flags=event.flags | TableMapFlag.GENERATED_INVISIBLE_PK), CONTEXT)

    assert [column.label for column in plan.columns] == ["my_row_id", "a"]
    assert plan.primary_key == ((0, 0),)


# -------------------------------------------------------------------------------------------------------- misfits


def _misfit(path: Path, definition: Any) -> list[BinlogFormatError]:
    """The errors of all readers."""
    options: dict[str, Any] = {"definitions": {"d.t": definition}}
    errors = []
    for read in (
        lambda: by_events(path, **options),
        lambda: list(binlogio.read_tables(path, **options)),
        lambda: list(binlogio.read_rows(path, table="d.t", **options)),
        lambda: list(binlogio.read_rows(path, **options)),
    ):
        with pytest.raises(BinlogFormatError) as caught:
            read()
        errors.append(caught.value)
    return errors


@pytest.mark.parametrize(
    ("definition", "field", "expected", "found"),
    [
        ("CREATE TABLE t (a INT)", "d.t", "1 columns, as the table definition has", "2 columns in the table map"),
        (
            "CREATE TABLE t (a INT, b VARCHAR(3))",
            "d.t.b",
            "varchar(3), as the table definition has",
            "LONG in the table map",
        ),
        (table("int", "bigint"), "d.t.x1", "bigint, as the table definition has", "LONG in the table map"),
    ],
)
def test_a_given_definition_of_other_columns_is_an_error_that_names_both(
    tmp_path: Path, definition: Any, field: str, expected: str, found: str
) -> None:
    path = save(tmp_path / "a.000001", *insert(1, 2))
    with binlogio.open(path) as reader:
        offset = next(event.header.offset for event in reader if isinstance(event, TableMapEvent))
    for error in _misfit(path, definition):
        assert (error.file, error.offset, error.event_type) == (str(path), offset, "TABLE_MAP_EVENT")
        assert (error.field, error.expected, error.found) == (field, expected, found)
        assert "definition" in str(error.hint)


def test_a_misfit_of_a_table_that_nobody_wants_is_no_error(tmp_path: Path) -> None:
    path = save(tmp_path / "a.000001", *insert(1, 2))

    assert not list(binlogio.read_tables(path, tables=["d.other"], definitions={"d.t": table("int")}))


def test_ddl_that_does_not_fit_is_dropped_with_a_reason(tmp_path: Path) -> None:
    """Statements can be missing from a log; its rows are read all the same."""
    path = save(tmp_path / "a.000001", query(CREATE), *insert(1, 2, 3), query("ALTER TABLE t DROP a"), *insert(2, 3))
    source = DefinitionSource()
    with BinlogReader([LogFile(str(path), path.stat().st_size)], definitions=source) as reader:
        for event in reader:
            if isinstance(event, WriteRowsEvent):
                list(reader.rows(event))

    assert everywhere(path) == [{"@1": 1, "@2": 2, "@3": 3}, {"@1": 2, "@2": 3}]
    assert "2 columns, as the table definition has, found 3 columns in the table map" in source.unnamed["d", "t"]


def test_who_dumps_a_log_is_told_why_columns_have_no_names(tmp_path: Path) -> None:
    path = save(tmp_path / "a.000001", query(CREATE), query("ALTER TABLE t ADD c NOSUCHTYPE"), *insert(1, 2, 3))
    result = CliRunner().invoke(cli, ["dump", str(path)])

    assert "###   @1=1\n###   @2=2\n###   @3=3\n" in result.stdout
    assert "d.t: columns have numbers, not names: SQL: the statement is not understood" in result.stderr


def test_who_wants_columns_by_name_is_told_what_is_missing(tmp_path: Path) -> None:
    path = save(tmp_path / "a.000001", *insert(1, 2))

    with pytest.raises(BinlogFormatError, match="give definitions of the tables"):
        list(binlogio.read_rows(path, table="d.t", columns=["b"]))
    assert binlogio.read_rows(path, table="d.t", columns=["b"], definitions={"d.t": INTS}).to_table().num_rows == 1


def test_create_if_not_exists_counts_where_the_table_map_proves_it(tmp_path: Path) -> None:
    """Another table may have been there: one with a NOT NULL column was."""
    sql = "CREATE TABLE IF NOT EXISTS t (a INT, b INT)"
    right = save(tmp_path / "a.000001", query(sql), *insert(1, 2))
    wrong = save(tmp_path / "b.000001", query(sql.replace("b INT", "b INT NOT NULL")), *insert(1, 2))

    assert everywhere(right) == [{"a": 1, "b": 2}]
    assert everywhere(wrong) == [{"@1": 1, "@2": 2}]


# ------------------------------------------------------------------------------------------------- logs and parts


def test_definitions_live_on_in_the_next_log_of_the_series_only(tmp_path: Path) -> None:
    """What happened in between nobody knows."""
    save(tmp_path / "a.000001", query(CREATE), *insert(1, 2))
    save(tmp_path / "a.000002", *insert(3, 4))
    save(tmp_path / "a.000004", *insert(5, 6))

    assert everywhere(str(tmp_path / "a.*")) == [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"@1": 5, "@2": 6}]


def test_threads_give_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a part of the log, and what the statements of the parts before say."""
    monkeypatch.setattr(rows_reader, "_SMALLEST_SPLIT", 4096)
    path = MYSQL / "group_commit" / "binlog.000001"
    alone = [(name, batch.schema) for name, batch in binlogio.read_tables(path)]
    together = [(name, batch.schema) for name, batch in binlogio.read_tables(path, threads=3)]

    assert dict(together) == dict(alone)
    assert len(together) > len(alone)
    assert all("@1" not in schema.field("after").type.names for _, schema in alone)


def test_who_reads_a_part_of_a_log_does_not_follow_its_statements() -> None:
    """All parts must have the same columns."""
    path = MYSQL / "ddl_mix" / "binlog.000001"
    file = LogFile(str(path), path.stat().st_size)
    selection = Selection(
        wants=lambda schema, name: name == "t", columns=None, zero_dates="null", verify_checksum=True, batch_rows=100
    )
    points = [0, path.stat().st_size // 2, path.stat().st_size]
    with closing(LogPartReader(selection, None)) as reader:
        batches = [batch for start, end in pairwise(points) for _, batch in reader.read((file, Split(start, end)))]

    assert batches
    assert all(batch.schema.field("after").type[0].name == "@1" for batch in batches)


def test_statements_in_compressed_events_count(tmp_path: Path) -> None:
    """MariaDB's QUERY_COMPRESSED_EVENT, and a CREATE TABLE inside a compressed transaction."""
    names = {
        field.name
        for path in (MARIADB / "compressed" / "binlog.000001", MYSQL / "compressed" / "binlog.000001")
        for _, batch in binlogio.read_tables(path)
        for field in batch.schema.field("after").type
    }

    assert not [name for name in names if name.startswith("@")]


def test_old_temporal_columns_can_be_read_once_their_fraction_digits_are_known() -> None:
    """mysql56_temporal_format=OFF: the log says nothing of them, its DDL does."""
    path = MARIADB / "types_old_temporal" / "binlog.000001"
    texts = [
        record["after"]
        for _, batch in binlogio.read_tables(path, tables=["*.t_datetime"], zero_dates="text")
        for record in batch.to_pylist()
        if record["after"] is not None
    ]

    assert any(str(value).endswith(".123456") for record in texts for value in record.values())


# --------------------------------------------------------------------------------------------- what a user can give

SCHEMA_DUMP: Final = """-- MySQL dump
/*!40101 SET @saved_cs_client = @@character_set_client */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `d` /*!40100 DEFAULT CHARACTER SET latin1 */;
USE `d`;
DROP TABLE IF EXISTS `t`;
CREATE TABLE `t` (
  `a` int unsigned NOT NULL COMMENT 'a; b',
  `b` int DEFAULT NULL /*!80023 INVISIBLE */
) ENGINE=InnoDB;
ALTER TABLE `t` RENAME COLUMN `b` TO `c`;
CREATE VIEW v AS SELECT 1;
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.sql", SCHEMA_DUMP, ["a", "c"]),
        ("a.sql", "\ufeffCREATE TABLE d.t (p INT, q INT)", ["p", "q"]),
        ("a.json", json.dumps(INTS.to_json()), ["a", "b"]),
        ("a.json", json.dumps([INTS.to_json(), {**INTS.to_json(), "name": "u"}]), ["a", "b"]),
        ("a.json", json.dumps({"d.t": "CREATE TABLE x (p INT, q INT)"}), ["p", "q"]),
        ("a.json", json.dumps({"d.t": {"columns": INTS.to_json()["columns"]}}), ["a", "b"]),
    ],
)
def test_definitions_come_from_files_too(tmp_path: Path, name: str, text: str, expected: list[str]) -> None:
    path = save(tmp_path / "a.000001", *insert(1, 2))
    (tmp_path / name).write_text(text, "utf-8")
    result = CliRunner().invoke(cli, ["dump", "--table-definitions", str(tmp_path / name), str(path)])

    assert everywhere(path, definitions=tmp_path / name) == [dict(zip(expected, (1, 2), strict=True))]
    assert f"###   `{expected[0]}`=1\n###   `{expected[1]}`=2\n" in result.stdout


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ({}, "nothing here defines a table"),
        ({"t": INTS}, "not the name of a table"),
        ({"d.t": 7}, "not a table definition"),
        ({"d.t": "CREATE TABLE t (a NOSUCHTYPE)"}, "d.t: SQL: the statement is not understood"),
        ({"d.t": "CREATE TABLE t LIKE u"}, "does not list the table's columns"),
        ({"d.t": "{not json"}, "not JSON"),
        ({"d.t": {"columns": []}}, "the table cannot be"),
        ({"d.t": {"column": []}}, "unknown or missing keys"),
    ],
)
def test_what_is_no_definition_is_refused_at_once(definitions: Any, message: str) -> None:
    with pytest.raises(UnsupportedFeature, match=message):
        binlogio.open(io.BytesIO(), definitions=definitions)


def test_who_gives_all_that_is_asked_for_reads_with_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement needs to be followed then."""
    monkeypatch.setattr(rows_reader, "_SMALLEST_SPLIT", 4096)
    create = "CREATE TABLE hot (mine INT PRIMARY KEY, yours INT)"
    found = binlogio.read_rows(
        MYSQL / "group_commit" / "binlog.000001", table="corpus.hot", threads=2, definitions={"corpus.hot": create}
    ).to_table()

    assert [field.name for field in found.schema.field("after").type] == ["mine", "yours"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.sql", b"CREATE TABLE d.t (a NOSUCHTYPE);", "d.t: the definition of a table is not understood"),
        ("a.sql", b"CREATE TABLE t (a INT);", "put USE schema; before it"),
        ("a.sql", b"SELECT 1;", "nothing here defines a table"),
        ("a.sql", b"CREATE TABLE d.t (a INT COMMENT 'no end", "a quote that does not end"),
        ("a.sql", b"\xff\xfe", "cannot be read"),
        ("a.json", b"[", "cannot be read"),
        ("a.json", b"[7]", "not a JSON object"),
    ],
)
def test_files_without_definitions_are_refused_by_name(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UnsupportedFeature, match=message) as caught:
        binlogio.read_tables(tmp_path, definitions=path)

    assert caught.value.file == str(path)


def test_statements_that_nobody_asks_about_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are carried out once they are many bytes."""
    monkeypatch.setattr(definition_source, "_MOST_PENDING", 100)
    source = DefinitionSource()
    for number in range(10):
        source.follow(query(f"CREATE TABLE t{number} (a INT, b INT)"), CONTEXT)
    plan = source.plan(mapped(table("int", "int", name="t3")), CONTEXT)

    assert len(source._pending) < 4
    assert [column.name for column in plan.columns] == ["a", "b"]


@pytest.mark.parametrize("compressed", [False, True])
def test_statements_that_cannot_be_read_are_passed_over(*, compressed: bool) -> None:
    """As all events that do not matter to rows are."""
    code = EventType.QUERY_COMPRESSED_EVENT if compressed else EventType.QUERY_EVENT
    body = bytes(11) + b"\xff\x00" + bytes(256) + b"CREATE TABLE t (a INT)"

    assert not DefinitionSource().follow_body(code, body, CONTEXT)


def test_statements_that_make_no_table_of_theirs_are_forgotten() -> None:
    """Two columns of one name are no table."""
    source = DefinitionSource()
    source.follow(query("CREATE TABLE t (a INT, a INT)"), CONTEXT)
    plan = source.plan(mapped(table("int", "int")), CONTEXT)

    assert [column.label for column in plan.columns] == ["@1", "@2"]
    assert source.unnamed["d", "t"]


@pytest.mark.parametrize(
    ("sql_type", "code", "metadata"),
    [
        ("varchar(9)", ColumnType.VAR_STRING, ColumnType.VAR_STRING << 8 | 9),
        ("char(9)", ColumnType.VAR_STRING, ColumnType.VAR_STRING << 8 | 9),
        ("datetime(3)", ColumnType.DATETIME, 0),
        ("mediumtext", ColumnType.BLOB, 4),
    ],
)
def test_a_log_may_show_the_types_of_another_age(sql_type: str, code: int, metadata: int) -> None:
    """Tables keep their columns as they were created."""
    source = DefinitionSource(GivenDefinitions({"d.t": f"CREATE TABLE t (c {sql_type})"}))
    event = replace(mapped(table("int"), "NO_LOG"), column_types=(code,), metadata=(metadata,))

    assert source.plan(event, CONTEXT).columns[0].name == "c"


def test_a_type_that_no_server_has_is_told_as_ever() -> None:
    source = DefinitionSource(GivenDefinitions({"d.t": "CREATE TABLE t (c INT)"}))
    event = replace(mapped(table("int"), "NO_LOG"), column_types=(99,))

    with pytest.raises(BinlogFormatError, match="a column type that no server has"):
        source.plan(event, CONTEXT)


def test_definitions_travel_between_processes() -> None:
    """Spark pickles them."""
    given = pickle.loads(pickle.dumps(GivenDefinitions({"d.t": INTS, "d.u": CREATE})))  # noqa: S301 - our own
    found = given.find("d", "u", ServerDefaults.of(CONTEXT))

    assert found is not None
    assert [column.name for column in found.definition.columns] == ["a", "b"]


def test_a_definition_from_full_metadata_can_be_given_back(tmp_path: Path) -> None:
    """`from_table_map` of one log names the columns of another."""
    full = mapped(table("int", "int"), "FULL")
    path = save(tmp_path / "a.000001", *insert(1, 2))

    assert everywhere(path, definitions={"d.t": from_table_map(full)}) == [{"x0": 1, "x1": 2}]
