"""The source of column definitions: metadata, the user, the DDL in the log, or none.

And that all readers agree on it.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.columnar.parallel import log_cuts
from binlogio.columnar.parallel.log_parts import LogPartReader
from binlogio.columnar.record_types import RowSelection
from binlogio.constants import TableMapFlag
from binlogio.format.splits import Split
from binlogio.schema.given import GivenDefinitions
from binlogio.schema.source import DefinitionSource
from binlogio.storage.log_file import LogFile
from binlogio.values.charsets import UNKNOWN_COLLATION
from corpus import MARIADB, MARIADB118, MYSQL
from defined_logs import CONTEXT, CREATE, INTS, MARIADB_CONTEXT, everywhere, insert, mapped, save, table
from logs import query

if TYPE_CHECKING:
    from pathlib import Path


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


def test_ddl_that_leaves_a_table_as_it_is_does_not_end_its_batch(tmp_path: Path) -> None:
    """Neither that of other tables nor what says the same again.

    A batch ends where the table changes, and only there.
    """
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


MARIADB_TYPES = {
    "uuid": ("UUID", "native", "uuid"),
    "inet6": ("INET6", "native", "inet6"),
    "inet4": ("INET4", "native", "inet4"),
    "vector(3)": ("VECTOR(3)", "dimension", 3),
}


def followed(level: str, sql_type: str, *statements: str) -> Any:
    """Return column x0 by the DDL of the log, beside an INT, if the table map has this much metadata."""
    source = DefinitionSource()
    for statement in statements:
        source.follow(query(statement), MARIADB_CONTEXT)
    return source.plan(mapped(table(sql_type, "int"), level, "mariadb"), MARIADB_CONTEXT).columns[0]


@pytest.mark.parametrize("level", ["NO_LOG", "MINIMAL", "FULL"])
@pytest.mark.parametrize("sql_type", MARIADB_TYPES)
def test_the_ddl_in_the_log_tells_types_that_look_like_others(sql_type: str, level: str) -> None:
    """Also where the table map names the columns; what no longer is of the type, or of other names, has its bytes."""
    declared, field, expected = MARIADB_TYPES[sql_type]
    usual = getattr(followed(level, sql_type), field)
    create = f"CREATE TABLE t (x0 {declared}, x1 INT)"
    other = f"CREATE TABLE t (x0 {'VARBINARY(12)' if field == 'dimension' else 'BINARY(16)'}, x1 INT)"

    assert usual is None
    assert getattr(followed(level, sql_type, create), field) == expected
    assert getattr(followed(level, sql_type, other, f"ALTER TABLE t MODIFY x0 {declared}"), field) == expected
    assert getattr(followed(level, sql_type, create, "ALTER TABLE t MODIFY x0 VARBINARY(12)"), field) is None
    assert getattr(followed(level, sql_type, create, "ALTER TABLE t ADD x2 INT"), field) is None
    assert getattr(followed(level, sql_type, create, "DROP TABLE t"), field) is None


def test_ddl_that_full_metadata_contradicts_is_not_used_and_gives_no_warning() -> None:
    """Another statement is missing from the log: the names are those of the table map, the bytes are left alone."""
    source = DefinitionSource()
    source.follow(query("CREATE TABLE t (x0 UUID, other INT)"), MARIADB_CONTEXT)
    plan = source.plan(mapped(table("uuid", "int"), "FULL", "mariadb"), MARIADB_CONTEXT)

    assert [(column.name, column.native) for column in plan.columns] == [("x0", None), ("x1", None)]
    assert source.unnamed == {}
    assert source.logged("d", "t") is None


def test_table_that_may_have_been_there_is_believed_where_all_metadata_agree() -> None:
    """CREATE TABLE IF NOT EXISTS, with FULL metadata."""
    create = "CREATE TABLE IF NOT EXISTS t (x0 UUID, x1 INT{})"

    assert followed("FULL", "uuid", create.format("")).native == "uuid"
    assert followed("FULL", "uuid", create.format(", PRIMARY KEY (x1)")).native is None


@pytest.mark.parametrize("threads", [1, 4])
def test_full_metadata_of_a_real_log_has_the_types_of_its_ddl(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """UUID, INET and VECTOR as the server shows them, by threads that read parts of the log as well."""
    monkeypatch.setattr(log_cuts, "SMALLEST_PART", 512)
    log = MARIADB118 / "metadata_full" / "binlog.000001"
    ((_, batch),) = binlogio.read_tables(log, tables=["corpus.m4"], threads=threads)
    types = batch.schema.field("after").type
    after = [row["after"] for row in binlogio.read_rows(log, table="corpus.m1", threads=threads).to_table().to_pylist()]

    assert {row and (row["u"], row["i6"], row["i4"], tuple(row["v"] or ())) for row in after} == {
        ("123e4567-e89b-12d3-a456-426655440000", "2001:db8::1", "192.0.2.1", (1.0, 2.0, 3.0)),
        ("00000000-0000-0000-0000-000000000000", "::", "0.0.0.0", ()),  # noqa: S104
        (None, None, None, ()),
        (None, "::ffff:192.0.2.9", "10.0.0.0", ()),
        None,
    }
    assert {field.name: str(field.type) for field in types} == {
        "uu": "string",
        "b4": "string",
        "c16": "string",
        "c4": "string",
        "i4": "binary",
        "b16": "binary",
    }


UTF8: Final = (45, 45)


@pytest.mark.parametrize(
    ("types", "collation", "charset", "expected"),
    [
        (("varchar(10)", "text"), "utf8mb4_general_ci", None, UTF8),
        (("char(10)", "text"), "utf8mb3_general_ci", None, (33, 33)),
        (("varchar(10)", "text"), "latin1_swedish_ci", None, (UNKNOWN_COLLATION,) * 2),
        (("varchar(10)", "text"), "gbk_chinese_ci", None, (UNKNOWN_COLLATION,) * 2),
        (("text", "tinytext"), "utf8mb4_general_ci", None, (UNKNOWN_COLLATION,) * 2),
        (("varchar(10)", "text"), "latin1_swedish_ci", "cp1251", (51, 51)),
        (("varchar(10)", "text"), "latin1_swedish_ci", "utf8mb4", (UNKNOWN_COLLATION,) * 2),
        (("text", "tinytext"), "utf8mb4_general_ci", "utf8mb4", UTF8),
    ],
)
def test_the_default_character_set_is_proven_by_widths_or_given(
    types: tuple[str, str], collation: str, charset: str | None, expected: tuple[int, int]
) -> None:
    """A CHAR or VARCHAR of 4 or 3 bytes proves it for its neighbours; one that is given must have these widths."""
    sql = f"CREATE TABLE t (a {types[0]}, b {types[1]}, c TEXT CHARACTER SET cp1251)"
    given = {"d.t": sql} | ({} if charset is None else {"d": charset})
    source = DefinitionSource(GivenDefinitions(given))
    event = mapped(table(*types, "text", collation=collation), "NO_LOG", "mariadb")

    assert tuple(column.collation_id for column in source.plan(event, MARIADB_CONTEXT).columns) == (*expected, 51)


def test_the_key_that_the_server_generates_is_put_before_the_columns() -> None:
    """sql_generate_invisible_primary_key: the statement does not name it, the table map has it."""
    source = DefinitionSource(GivenDefinitions({"d.t": "CREATE TABLE t (a INT)"}))
    event = mapped(table("bigint unsigned", "int"))
    plan = source.plan(replace(event, flags=event.flags | TableMapFlag.GENERATED_INVISIBLE_PK), CONTEXT)

    assert [column.label for column in plan.columns] == ["my_row_id", "a"]
    assert plan.primary_key == ((0, 0),)


# --------------------------------------------------------------------------------------------------- logs and parts


def test_definitions_live_on_in_the_next_log_of_the_series_only(tmp_path: Path) -> None:
    """The statements in between are unknown."""
    save(tmp_path / "a.000001", query(CREATE), *insert(1, 2))
    save(tmp_path / "a.000002", *insert(3, 4))
    save(tmp_path / "a.000004", *insert(5, 6))

    found = everywhere(str(tmp_path / "a.*"), ignore_missing_logs=True)

    assert found == [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"@1": 5, "@2": 6}]


def test_threads_give_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a part of the log, and what the statements of the parts before say."""
    monkeypatch.setattr(log_cuts, "SMALLEST_PART", 4096)
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
    selection = RowSelection(
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
        for _, batch in binlogio.read_tables(path, statement_changes="skip")
        for field in batch.schema.field("after").type
    }

    assert names
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
