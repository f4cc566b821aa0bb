"""A stored catalogue gives the right names or none, whatever happens to its logs, and says what it lacks."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.errors import UnsupportedFeature
from binlogio.events.rows import RowsEvent
from binlogio_cli.main import cli

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CREATE: Final = "CREATE TABLE t (a INT PRIMARY KEY, b INT)"
RENAME: Final = "ALTER TABLE t RENAME COLUMN b TO c"
ROW: Final = ""
UNKNOWN: Final = ["@1", "@2"]
BEGIN: Final = 1_700_000_000


def write(folder: Path, *logs: Sequence[str], server_id: int = 1, begin: int = BEGIN) -> list[Path]:
    """Write logs without names of columns: of statements, and rows of a table with two INT columns."""
    columns = (ColumnDefinition("x", "int", nullable=False), ColumnDefinition("y", "int"))
    table, key, now = TableDefinition("shop", "t", columns, ("x",)), 0, [begin * 10**6]
    variables = ServerVariables(server_version="9.7.4", binlog_row_metadata="MINIMAL", server_id=server_id)
    with (
        BinlogWriter(folder / "binlog", variables=variables, clock=lambda: now[0]) as log,
        log.session("shop") as session,
    ):
        for number, statements in enumerate(logs):
            if number:
                now[0] += 100 * 10**6
                log.rotate()
            for one in statements:
                key += 1
                if one:
                    session.ddl(one)
                else:
                    session.execute(Statement("INSERT", [Insert(table, [(key, key)])]))
    return sorted(folder.glob("binlog.0*"))


def save(place: Path, *arguments: object) -> Result:
    return CliRunner().invoke(cli, ["schema", "--save", str(place), *map(str, arguments)])


def names(log: Path, place: Path, start: int | None = None) -> list[list[str]]:
    """Return the names of the columns of each row."""
    with binlogio.open(log, definitions=place, start_offset=start) as reader:
        changes = [change for event in reader if isinstance(event, RowsEvent) for change in reader.rows(event)]
    return [list(change.after.as_dict()) for change in changes if change.after is not None]


def begins(log: Path) -> list[int]:
    """Return the offsets of the groups."""
    with binlogio.open(log) as reader:
        return [group.begin for group in reader.groups()]


def listing(path: Path, **columns: str) -> Path:
    """Return a file of the names and types of the columns of the table, as the query of information_schema."""
    nothing = ("collation_name", "column_default", "extra", "generation_expression", "key_position", "key_prefix")
    usual: dict[str, Any] = {
        **dict.fromkeys(nothing),
        "table_schema": "shop",
        "table_name": "t",
        "engine": "InnoDB",
        "table_collation": "utf8mb4_general_ci",
    }
    lines = [
        {**usual, "column_name": name, "column_type": kind, "is_nullable": "YES"} for name, kind in columns.items()
    ]
    path.write_text(json.dumps(lines))
    return path


@pytest.mark.parametrize(("server_id", "begin"), [(2, BEGIN), (1, BEGIN + 5000)], ids=["other server", "RESET"])
def test_a_log_continues_the_catalogue_only_if_it_is_the_next_one(tmp_path: Path, server_id: int, begin: int) -> None:
    """The log of the next number, of another server or after RESET: no names, before and after it is saved."""
    first, following = write(tmp_path / "logs", [CREATE, ROW], [ROW])
    _, other = write(tmp_path / "other", [CREATE, RENAME, ROW], [ROW], server_id=server_id, begin=begin)
    place = tmp_path / "shop.ddl"
    assert save(place, first).exit_code == 0

    assert names(following, place) == [["a", "b"]]
    with pytest.raises(UnsupportedFeature, match="does not have this log"):
        names(other, place)
    assert save(place, other).exit_code == 2
    saved = save(place, "--ignore-missing-logs", other)
    assert saved.exit_code == 1
    assert "what was defined before is not known" in saved.stderr
    assert names(other, place) == [UNKNOWN]


def test_definitions_of_a_server_are_those_where_its_log_ended(tmp_path: Path) -> None:
    """The log grows by an ALTER after they were taken."""
    log, following = write(tmp_path / "logs", [ROW, RENAME, ROW], [ROW])
    whole, place, (_, alter, row) = log.read_bytes(), tmp_path / "shop.ddl", begins(log)
    log.write_bytes(whole[:alter])
    assert save(place, "--information-schema", listing(tmp_path / "a.json", a="int", b="int"), log).exit_code == 0
    log.write_bytes(whole)
    assert save(place, log, following).exit_code == 0

    assert names(log, place) == [["a", "b"], ["a", "c"]]
    assert names(log, place, start=row) == names(following, place) == [["a", "c"]]


def test_definitions_of_a_server_need_the_logs_before_them(tmp_path: Path) -> None:
    """Without logs they would be those before the first log that is added later."""
    refused = save(tmp_path / "shop.ddl", "--information-schema", listing(tmp_path / "a.json", a="int", c="int"))

    assert refused.exit_code == 2
    assert "give logs" in refused.stderr


def test_line_breaks_of_unicode_in_definitions_are_text(tmp_path: Path) -> None:
    (log,) = write(tmp_path / "logs", [CREATE])
    members = listing(tmp_path / "a.json", a="enum('x\x85y','\u2028')")

    assert save(tmp_path / "shop.ddl", "--information-schema", members, log).exit_code == 0
    assert save(tmp_path / "shop.ddl", log).exit_code == 0


def test_a_damaged_statement_defines_nothing(tmp_path: Path) -> None:
    """Its checksum is wrong: `schema --save` says so, and there are no names from there on."""
    log, following = write(tmp_path / "logs", [CREATE.replace("b INT", "bcd INT"), ROW], [ROW])
    log.write_bytes(log.read_bytes().replace(b"bcd INT", b"bce INT"))
    saved = save(tmp_path / "shop.ddl", "--ignore-missing-logs", log, following)

    assert saved.exit_code == 1
    assert f"{log}: at 235: QUERY_EVENT: the event's checksum is wrong" in saved.stderr
    assert names(following, tmp_path / "shop.ddl") == [UNKNOWN]


def test_damage_that_ends_the_search_for_statements_is_said(tmp_path: Path) -> None:
    """Also in the last log, and for a file that is no log."""
    (log,) = write(tmp_path / "logs", [CREATE, ROW, RENAME, ROW])
    data, at = bytearray(log.read_bytes()), begins(log)[2]
    data[at + 9 : at + 13] = (5).to_bytes(4, "little")  # the size of the event
    log.write_bytes(data)
    text = tmp_path / "text.000001"
    text.write_text("no log")

    for file, message in ((log, f"at {at}: event_size"), (text, "not a binary log")):
        saved = save(tmp_path / "shop.ddl", file)
        assert saved.exit_code == 1
        assert message in saved.stderr


def test_a_log_that_is_compressed_after_it_grew_is_read_to_its_end(tmp_path: Path) -> None:
    """The compressed file is smaller than the part that is known."""
    log, following = write(tmp_path / "logs", [CREATE, *(40 * [ROW]), RENAME], [ROW])
    whole, place, compressed = log.read_bytes(), tmp_path / "shop.ddl", tmp_path / "logs" / "binlog.000001.gz"
    log.write_bytes(whole[: begins(log)[-1]])
    assert save(place, log).exit_code == 0
    compressed.write_bytes(gzip.compress(whole))
    log.unlink()

    assert "2 statements of 1 log (1 new)" in save(place, compressed).stderr
    assert save(place, following).exit_code == 0
    assert names(following, place) == [["a", "c"]]


def test_a_damaged_statement_of_the_file_is_said_where_names_need_it(tmp_path: Path) -> None:
    """Statements are parsed at their first use: a catalogue may have many that are not needed."""
    log, following = write(tmp_path / "logs", [CREATE, ROW], [ROW])
    place = tmp_path / "shop.ddl"
    assert save(place, log, following).exit_code == 0
    head, first, rest = place.read_text().split("\n", 2)
    value = json.loads(first)
    value["ddl"][0][1] = value["ddl"][0][1][:8]
    place.write_text(f"{head}\n{json.dumps(value)}\n{rest}")

    with binlogio.open(following, definitions=place) as reader:
        assert len(list(reader.groups())) == 1
    with pytest.raises(UnsupportedFeature, match="the catalogue of definitions is damaged") as error:
        names(following, place)
    assert error.value.field == "the statement at 235"


@pytest.mark.parametrize(
    ("key", "value"),
    [("file", 1), ("pos", "4"), ("pos", -1), ("log", {"created": "x", "server_id": 1}), ("hash", 5), ("stored", [1])],
)
def test_a_field_of_another_type_is_damage(tmp_path: Path, key: str, value: Any) -> None:
    (log,) = write(tmp_path / "logs", [CREATE, ROW])
    place = tmp_path / "shop.ddl"
    assert save(place, log).exit_code == 0
    head, line = place.read_text().splitlines()
    stored = json.loads(line)
    stored["log"][key] = value
    place.write_text(f"{head}\n{json.dumps(stored)}\n")

    with pytest.raises(UnsupportedFeature, match="line 2"):
        names(log, place)
