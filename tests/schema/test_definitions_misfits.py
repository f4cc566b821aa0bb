"""Definitions that do not fit the table map: those of the user are errors, those of the log are dropped."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.constants import BINLOG_MAGIC, ColumnType, EventType, QueryStatus
from binlogio.errors import BinlogFormatError
from binlogio.events.query import StatusVar
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.reader import BinlogReader
from binlogio.schema import source as definition_source
from binlogio.schema.given import GivenDefinitions
from binlogio.schema.source import DefinitionSource
from binlogio.selection.event_filter import EventFilter, Range
from binlogio.storage.log_file import LogFile
from binlogio_cli.main import cli
from defined_logs import CONTEXT, CREATE, INTS, by_events, everywhere, insert, mapped, save, table
from logs import description, encode, query

if TYPE_CHECKING:
    from pathlib import Path


def _misfit(path: Path, definition: Any) -> list[BinlogFormatError]:
    """Return the errors of all readers."""
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


@pytest.mark.parametrize("threads", [1, 2])
def test_names_do_not_depend_on_the_rows_that_were_read_before(threads: int, tmp_path: Path) -> None:
    """A map of other columns, which a filter or a position skips, says nothing about the maps after it."""
    path = save(tmp_path / "a.000001", query(CREATE), *insert(1, 2), *insert(1, 2, 3), *insert(4, 5))
    named, last = {"a": 1, "b": 2}, {"a": 4, "b": 5}
    with binlogio.open(path) as reader:
        places = [event.header.offset for event in reader if isinstance(event, WriteRowsEvent)]
    with binlogio.open(path) as reader:
        one = next(event for event in reader if event.header.offset == places[-1])
        assert isinstance(one, WriteRowsEvent)
        (change,) = reader.rows(one)
        assert change.after is not None
        assert [column.label for column in change.after.plan.columns] == ["a", "b"]
    where = EventFilter(pos=Range(places[-1], places[-1] + 1))
    (found,) = binlogio.read_rows(path, where=where, threads=threads).to_table().to_pylist()

    assert json.loads(found["after"]) == last
    assert everywhere(path) == [named, {"@1": 1, "@2": 2, "@3": 3}, last]


def test_who_dumps_a_log_is_told_why_columns_have_no_names(tmp_path: Path) -> None:
    path = save(tmp_path / "a.000001", query(CREATE), query("ALTER TABLE t ADD c NOSUCHTYPE"), *insert(1, 2, 3))
    result = CliRunner().invoke(cli, ["dump", str(path)])

    assert "###   @1=1\n###   @2=2\n###   @3=3\n" in result.stdout
    assert "d.t: the columns have numbers instead of names: SQL: the statement cannot be parsed" in result.stderr


def test_who_wants_columns_by_name_is_told_what_is_missing(tmp_path: Path) -> None:
    path = save(tmp_path / "a.000001", *insert(1, 2))

    with pytest.raises(BinlogFormatError, match="give definitions of the tables"):
        list(binlogio.read_rows(path, table="d.t", columns=["b"]))
    assert binlogio.read_rows(path, table="d.t", columns=["b"], definitions={"d.t": INTS}).to_table().num_rows == 1


def test_create_if_not_exists_of_mysql_5_proves_nothing(tmp_path: Path) -> None:
    """Another table may have been there, also where the types fit. MariaDB logs the statement only if it made it."""
    sql = query("CREATE TABLE IF NOT EXISTS t (a INT, b INT)")
    for version, expected in (("5.7.44", {"@1": 1, "@2": 2}), ("10.11.18-MariaDB", {"a": 1, "b": 2})):
        path = tmp_path / f"{version}.000001"
        path.write_bytes(BINLOG_MAGIC + encode([description(version=version), sql, *insert(1, 2)]))
        assert everywhere(path) == [expected]


def test_create_if_not_exists_of_mysql_8_counts_if_it_was_carried_out(tmp_path: Path) -> None:
    """MySQL 8 logs the statement also if it found a table of other columns; only a table that it made has an XID."""
    found = query("CREATE TABLE IF NOT EXISTS t (a INT, b INT)")
    made = replace(found, status_vars=(StatusVar(QueryStatus.DDL_LOGGED_WITH_XID, 7),))

    assert everywhere(save(tmp_path / "a.000001", made, *insert(1, 2))) == [{"a": 1, "b": 2}]
    assert everywhere(save(tmp_path / "b.000001", found, *insert(1, 2))) == [{"@1": 1, "@2": 2}]


@pytest.mark.parametrize("compressed", [False, True])
def test_statements_that_cannot_be_read_are_passed_over(*, compressed: bool) -> None:
    """The same as for other events that do not matter to rows."""
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


def test_an_unknown_type_is_reported_as_without_a_definition() -> None:
    source = DefinitionSource(GivenDefinitions({"d.t": "CREATE TABLE t (c INT)"}))
    event = replace(mapped(table("int"), "NO_LOG"), column_types=(99,))

    with pytest.raises(BinlogFormatError, match="unknown column type"):
        source.plan(event, CONTEXT)


def test_pending_statements_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are carried out when they are many bytes, before a table asks for them."""
    monkeypatch.setattr(definition_source, "MAX_PENDING_BYTES", 100)
    source = DefinitionSource()
    for number in range(10):
        source.follow(query(f"CREATE TABLE t{number} (a INT, b INT)"), CONTEXT)
    plan = source.plan(mapped(table("int", "int", name="t3")), CONTEXT)

    assert source.pending_bytes <= 100
    assert [column.name for column in plan.columns] == ["a", "b"]
