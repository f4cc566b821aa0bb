"""Dumps of mysqldump and mariadb-dump: written as a log, and as the base of the latest state."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.writer import XaXid
from binlogio_cli.main import cli

XID: Final = XaXid(b"before")
UUID: Final = "6d1b2c9a-5b0e-11f1-9d5e-0242ac110002"
T: Final = TableDefinition(
    "shop",
    "t",
    (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("c", "varchar(20)")),
    ("id",),
)
DUMP: Final = r"""-- MySQL dump 10.13  Distrib 8.4.3, for Linux (x86_64)
--
-- Host: localhost    Database: shop
-- ------------------------------------------------------
-- Server version	8.4.3

/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET TIME_ZONE='+00:00' */;
SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'GTIDS';
-- CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=POSITION;
DROP TABLE IF EXISTS `t`;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `t` (
  `id` int NOT NULL,
  `c` varchar(20) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
-- Dumping data for table `t`
LOCK TABLES `t` WRITE;
INSERT INTO `t` VALUES (1,'a;\n\'),(\\'),(2,NULL);
INSERT INTO `t` (`c`, `id`) VALUES
('it''s',3),
(_binary 'x',4);
UNLOCK TABLES;
DELIMITER ;;
/*!50003 CREATE*/ /*!50003 TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN
INSERT INTO `t` VALUES (9,'not a row');
END */;;
DELIMITER ;
-- Dump completed on 2026-11-29  9:16:43
"""
ROWS: Final = [(1, "a;\n'),(\\"), (2, None), (3, "it's"), (4, "x")]


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """Write the logs of the server, and return the position and the GTIDs of the dump; an update and a row follow."""
    variables = ServerVariables(server_version="8.4.3", gtid_mode="ON", server_uuid=UUID, binlog_row_metadata="MINIMAL")
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=variables) as log, log.session() as session:
        session.ddl("CREATE DATABASE shop")
        session.execute(Statement("", [Insert(T, [(1, ROWS[0][1]), (2, None), (3, "it's"), (4, "x")])]))
        session.xa_start(XID)
        session.execute(Statement("", [Insert(T, [(5, "prepared")])]))
        session.xa_end(XID)
        session.xa_prepare(XID)
        place = {"POSITION": str((tmp_path / "logs" / "binlog.000001").stat().st_size), "GTIDS": str(log.gtid_executed)}
        session.execute(Statement("", [Update(T, [((2, None), (2, "new"))]), Insert(T, [(6, "six")])]))
        log.rotate()
    return place


def dump(tmp_path: Path, place: dict[str, str], **changes: str) -> str:
    text = DUMP
    for name, value in {**place, **changes}.items():
        assert name in text, name
        text = text.replace(name, value)
    path = tmp_path / "dump.sql"
    path.write_text(text, "utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def state(tmp_path: Path, *arguments: str, logs: str = "logs") -> Any:
    """Return the rows of the table after `export`, or its error."""
    done = run("export", "-q", "--latest", "-o", str(tmp_path / "out"), *arguments, str(tmp_path / logs))
    if done.exit_code:
        assert not (tmp_path / "out").exists()
        return done.exit_code, done.output
    return sorted(tuple(row.values()) for row in pq.read_table(tmp_path / "out" / "shop.t.parquet").to_pylist())


@pytest.mark.parametrize("suffix", [".sql", ".sql.gz"])
def test_write_makes_the_log_of_a_dump(suffix: str, place: dict[str, str], tmp_path: Path) -> None:
    source = Path(dump(tmp_path, place))
    path = tmp_path / f"copy{suffix}"
    path.write_bytes(gzip.compress(source.read_bytes()) if suffix.endswith("gz") else source.read_bytes())

    done = run("write", "--from", str(path), "-o", str(tmp_path / "made"))

    assert "4 rows in 2 transactions" in done.stdout
    rows = binlogio.read_rows(tmp_path / "made", table="shop.t").to_table().column("after").to_pylist()
    assert [tuple(row.values()) for row in rows] == ROWS


def test_the_state_after_a_dump_has_its_rows_with_the_changes_after_it(place: dict[str, str], tmp_path: Path) -> None:
    """The log has no names of columns and no key: they are in the dump."""
    assert state(tmp_path, "--base", dump(tmp_path, place)) == sorted([*ROWS[:1], (2, "new"), *ROWS[2:], (6, "six")])


def test_sql_answers_from_a_dump_and_the_logs_after_it(place: dict[str, str], tmp_path: Path) -> None:
    query = "SELECT c FROM t WHERE id IN (2, 4) ORDER BY id"
    done = run(
        "sql", "-q", "--latest", "--base", dump(tmp_path, place), "--format", "csv", query, str(tmp_path / "logs")
    )

    assert done.stdout == "c\nnew\nx\n", done.output


def test_the_gtids_of_a_dump_without_position_tell_what_follows(place: dict[str, str], tmp_path: Path) -> None:
    path = dump(tmp_path, place, **{"-- CHANGE REPLICATION SOURCE": "-- CHANGED"})

    assert len(state(tmp_path, "--base", path)) == len(ROWS) + 1


def test_logs_that_begin_after_a_dump_are_refused(place: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "logs" / "binlog.000001").rename(tmp_path / "binlog.000001")
    (tmp_path / "logs" / "binlog.index").unlink()
    code, output = state(tmp_path, "--base", dump(tmp_path, place))
    assert (code, "position is in none of the given logs" in output) == (2, True), output

    path = dump(tmp_path, place, **{"-- CHANGE REPLICATION SOURCE": "-- CHANGED"})
    code, output = state(tmp_path, "--base", path)
    assert "binlog.000002" in output
    assert UUID in output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"-- Dump completed": "--"}, "the dump is cut"),
        ({"(_binary 'x',4);\nUNLOCK TABLES;": "(_binary 'x"}, "is not understood"),
        ({"-- Server version": "--"}, "is not a dump"),
        ({"-- MySQL dump": "-- dump"}, "is not a dump"),
        ({"-- CHANGE": "--", "SET @@GLOBAL": "-- SET"}, "no position in the logs: make it with --source-data"),
        ({"NAMES utf8mb4": "NAMES latin1"}, "another character set, expected utf8mb4, found latin1"),
        ({"`c` varchar(20) DEFAULT NULL": "`c` timestamp", "TIME_ZONE": "ZONE"}, "times of an unknown zone"),
        ({"  PRIMARY KEY": "  `g` int GENERATED ALWAYS AS (id) VIRTUAL,\n  PRIMARY KEY", "(`c`, `id`)": "(`id`, `c`)"},
         "t: the rows have other columns"),
        ({"VALUES (1,": "(`id`) VALUES (1);\nINSERT INTO `t` VALUES (1,"}, "lacks the values of columns, .*found c"),
        ({",\n  PRIMARY KEY (`id`)": ""}, "needs the primary key"),
        ({"`id` int": "`id` float"}, "shop.t: a dump has 6 digits of a FLOAT, and the primary key has one"),
        ({"(1,'a": "('one','a"}, "row 1: "),
        ({"POSITION": "77"}, "77"),
        ({"-- Dumping data": "--"}, "lacks the rows of tables, as with --no-data, found shop.t"),
        ({"-- Dumping data for table `t`": "-- Dumping data for table `t`\n--\n-- WHERE:  id < 9"}, "WHERE:  id < 9"),
        ({"INSERT INTO `t` (": 'INSERT INTO "t" ('}, "the rows of an INSERT are not understood"),
        ({"DROP TABLE": 'USE "shop";\nDROP TABLE'}, "the name of a database is not understood"),
        ({"INSERT INTO `t` (": " INSERT INTO `t` ("}, "changes rows is not one of a dump, found b' INSERT INTO"),
        ({"INSERT INTO `t` (": "/*!40000 insert into `t` ("}, "changes rows is not one of a dump"),
        ({"UNLOCK": "DELETE FROM t;\nUNLOCK"}, "changes rows is not one of a dump, found b'DELETE FROM"),
        ({"(2,NULL);": "(2,NULL); INSERT INTO `t` VALUES (5,'x');"}, "more than an INSERT is in a line"),
        ({"9:16:43": "9:16:43\n-- MySQL dump 10.13"}, "the file has more after the end of the dump"),
    ],
)  # fmt: skip
def test_a_dump_that_is_no_base_is_refused(
    changes: dict[str, str], message: str, place: dict[str, str], tmp_path: Path
) -> None:
    code, output = state(tmp_path, "--base", dump(tmp_path, {**place, **changes}))

    assert code in (2, 3), output
    for part in message.split(".*"):
        assert part in output


@pytest.mark.parametrize("damage", ["cut", "changed", "none"])
def test_a_damaged_gzip_file_is_refused(damage: str, place: dict[str, str], tmp_path: Path) -> None:
    data = Path(dump(tmp_path, place)).read_bytes()
    packed = gzip.compress(data)
    path = tmp_path / "dump.sql.gz"
    path.write_bytes({"cut": packed[:-20], "changed": packed[:200] + b"xxxx" + packed[204:], "none": data}[damage])

    code, output = state(tmp_path, "--base", str(path))
    assert (code, "dump.sql.gz: the gzip file is cut or damaged" in output) == (3, True), output


def test_names_without_quotes_are_those_with_quotes(place: dict[str, str], tmp_path: Path) -> None:
    """As of --skip-quote-names, which quotes only those that need it."""
    changes = {"CREATE TABLE `t`": "CREATE TABLE t", "INTO `t`": "INTO t", "table `t`": "table t", "`c`, `id`": "c, id"}

    assert len(state(tmp_path, "--base", dump(tmp_path, place, **changes))) == len(ROWS) + 1


@pytest.mark.parametrize("at_head", [False, True])
def test_the_log_of_another_server_with_that_name_is_refused(
    at_head: bool, place: dict[str, str], tmp_path: Path
) -> None:
    other = ServerVariables(server_version="8.4.3", gtid_mode="ON", server_uuid=UUID.replace("6d", "7d"))
    with BinlogWriter(tmp_path / "other" / "binlog", variables=other) as log, log.session() as session:
        position = (tmp_path / "other" / "binlog.000001").stat().st_size if at_head else 0
        session.ddl("CREATE DATABASE shop")
        position = position or (tmp_path / "other" / "binlog.000001").stat().st_size
        session.execute(Statement("", [Insert(T, [(7, "x")])]))

    code, output = state(tmp_path, "--base", dump(tmp_path, {**place, "POSITION": str(position)}), logs="other")
    assert (code, "the log is not the one of the dump, which has the GTIDs 6d1b2c9a" in output) == (2, True), output


def test_other_columns_before_the_dump_are_no_obstacle(tmp_path: Path) -> None:
    """In the same log, of a table with this name."""
    variables = ServerVariables(server_version="8.4.3", gtid_mode="ON", server_uuid=UUID, binlog_row_metadata="MINIMAL")
    wide = replace(T, columns=(*T.columns, ColumnDefinition("x", "int")))
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=variables) as log, log.session() as session:
        session.ddl("CREATE DATABASE shop")
        session.execute(Statement("", [Insert(wide, [(1, "a", 1)])]))
        place = {"POSITION": str((tmp_path / "logs" / "binlog.000001").stat().st_size), "GTIDS": str(log.gtid_executed)}
        session.execute(Statement("", [Update(T, [((2, None), (2, "new"))])]))

    assert state(tmp_path, "--base", dump(tmp_path, place)) == [*ROWS[:1], (2, "new"), *ROWS[2:]]


def test_a_table_that_the_dump_lacks_is_refused_unless_it_was_made_after_it(
    place: dict[str, str], tmp_path: Path
) -> None:
    """Its rows before the dump are unknown; also with a base that continues the dump."""
    new = replace(T, name="new")
    variables = ServerVariables(server_version="8.4.3", gtid_mode="ON", server_uuid=UUID)
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=variables) as log, log.session("shop") as session:
        session.ddl("CREATE TABLE new (id INT PRIMARY KEY, c VARCHAR(20))")
        session.ddl("CREATE TABLE later (id INT PRIMARY KEY, c VARCHAR(20))")
        session.execute(Statement("", [Insert(new, [(1, "a")])]))
    out = ("-o", str(tmp_path / "base"))
    done = run("export", "-q", "--latest", *out, "--base", dump(tmp_path, place), str(tmp_path / "logs"))
    assert done.exit_code == 0, done.output
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=variables) as log, log.session("shop") as session:
        session.execute(Statement("", [Insert(replace(T, name="later"), [(1, "a")])]))
    assert len(state(tmp_path, "--base", str(tmp_path / "base"))) == len(ROWS) + 1
    shutil.rmtree(tmp_path / "out")
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=variables) as log, log.session("shop") as session:
        session.ddl("CREATE TABLE IF NOT EXISTS old (id INT PRIMARY KEY, c VARCHAR(20))")
        session.execute(Statement("", [Insert(replace(T, name="old"), [(1, "a")])]))

    for base in (tmp_path / "base", tmp_path / "dump.sql"):
        code, output = state(tmp_path, "--base", str(base))
        assert (code, "shop.old: the latest state cannot be known: the base does not have the table" in output) == (
            3,
            True,
        )
    assert len(state(tmp_path, "--base", str(tmp_path / "base"), "--exclude-table", "old")) == len(ROWS) + 1


def test_an_xa_transaction_that_was_prepared_before_the_dump_is_refused(place: dict[str, str], tmp_path: Path) -> None:
    """Its rows are neither in the dump nor in the logs after it; one that is prepared after it is followed."""
    path = dump(tmp_path, place)
    variables = ServerVariables(server_version="8.4.3", gtid_mode="ON", server_uuid=UUID, binlog_row_metadata="MINIMAL")
    with BinlogWriter(tmp_path / "logs" / "binlog", variables=variables) as log, log.session() as session:
        session.xa_commit(XID)

    code, output = state(tmp_path, "--base", path)
    assert code == 3
    assert "an XA transaction is committed that was prepared before" in output


def test_start_positions_and_bases_without_latest_are_refused(place: dict[str, str], tmp_path: Path) -> None:
    path = dump(tmp_path, place)

    assert "leave out --start-position" in state(tmp_path, "--base", path, "-j", "4")[1]
    assert "leave out the GTIDs to exclude" in state(tmp_path, "--base", path, "--exclude-gtids", place["GTIDS"])[1]
    done = run("export", "-q", "-o", str(tmp_path / "out"), "--base", path, str(tmp_path / "logs"))
    assert (done.exit_code, "--base needs --latest" in done.output) == (2, True)
