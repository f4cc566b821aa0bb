"""Judges that are not ours: MariaDB's own tools and a replica of it, for what we write as MariaDB would."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio.reader
from binlogio.constants import BINLOG_MAGIC, HeaderFlag
from binlogio.events.base import EventHeader
from binlogio.events.control import RotateEvent
from binlogio.format.encoder import Encoder
from binlogio.options import ServerVariables
from binlogio.storage.index_file import INDEX_SUFFIX
from binlogio.values.json import JsonDiffs, JsonDocument
from binlogio.writer import BinlogWriter, Statement, Update
from binlogio.writer.rules.statement import Change
from mariadb_replay import Recording, Replay, comparable
from memory_storage import MemoryStorage
from real_servers import KINDS, Instance, Vendor, vendor
from relay_logs import FINISHED, place
from shop_transactions import CREATE, TABLES, Shop

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

TRANSACTIONS: Final = 150  # of a session; there are 8
SESSIONS: Final[list[dict[str, Any]]] = [
    {"binlog_format": "STATEMENT"},
    {"binlog_format": "MIXED"},
    {"binlog_format": "MIXED", "binlog_annotate_row_events": False},
    {"binlog_format": "ROW", "binlog_row_image": "FULL"},
    {"binlog_format": "ROW", "binlog_row_image": "MINIMAL"},
    {"binlog_format": "ROW", "binlog_row_image": "NOBLOB", "skip_parallel_replication": True},
    {"binlog_format": "ROW", "binlog_annotate_row_events": False},
    {"binlog_format": "ROW", "binlog_row_image": "MINIMAL"},
]
_SQL_RUNNING: Final = 11  # column of SHOW SLAVE STATUS
OPTIONS: Final = (
    "--server-id=99", "--relay-log=relay", "--skip-slave-start", "--slave-parallel-threads=4",
    "--slave-parallel-mode=conservative",
)  # fmt: skip


class MariadbShop(Shop):
    """The same, where JSON is text."""

    def logged(self, statement: Statement) -> Statement:
        """Return the statement that the session logs."""
        return replace(statement, changes=[_with_text(change) for change in statement.changes])


def _with_text(change: Change) -> Change:
    if isinstance(change, Update):
        return replace(change, rows=[(_row(old), _row(_applied(old, new))) for old, new in change.rows])
    return replace(change, rows=[_row(row) for row in change.rows])


def _applied(old: Any, new: Any) -> Any:
    if isinstance(new, dict) and isinstance(new.get("j"), JsonDiffs):
        return new | {"j": new["j"].apply(old["j"])}
    return new


def _row(row: Any) -> Any:
    if isinstance(row, dict):
        return {name: _text(value) for name, value in row.items()}
    return [_text(value) for value in row]


def _text(value: Any) -> Any:
    return value.text if isinstance(value, JsonDocument) else value


def _feed(server: Instance, text: bytes) -> None:
    """Run what the tool has printed; a statement that failed half-way on the source does so again."""
    done = server.vendor.run(
        "mariadb", "--no-defaults", "-uroot", "--force", "--binary-mode", "-S", f"/run/mysqld/{server.name}.sock",
        stdin=text
    )  # fmt: skip
    errors = re.findall(rb"^ERROR (?!1062)\d+.*", done.stderr, re.MULTILINE)
    assert errors == []


@pytest.fixture(scope="module", params=KINDS[1:])
def mariadb(request: pytest.FixtureRequest) -> Vendor:
    """Provide the programs of 10.11 and of 11.8."""
    return vendor(request.param)


def variables(mariadb: Vendor, **values: Any) -> ServerVariables:
    """Those of a MariaDB server."""
    return ServerVariables(
        server_version=mariadb.version, binlog_row_metadata="NO_LOG", binlog_row_event_max_size=1024,
        max_binlog_size=300_000, **values,
    )  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [{"sync_binlog": 1}, {"binlog_checksum": "NONE", "log_bin_compress": True, "sync_binlog": 0}],
    ids=["crc32", "compressed"],
)
def test_mariadb_fed_through_its_own_tool_has_the_tables_of_eight_sessions(
    mariadb: Vendor, values: dict[str, Any]
) -> None:
    """mariadb-binlog has nothing to complain about, and what it prints leaves the same rows."""
    shop = MariadbShop(has_xa=False)
    with mariadb.folder("shop") as folder, mariadb.server("shop") as server:
        with BinlogWriter(folder / "binlog", variables=variables(mariadb, **values)) as log:
            shop.run(log, SESSIONS, TRANSACTIONS, 1)
        server.sql(f"CREATE DATABASE shop; {CREATE}")
        for name in (folder / f"binlog{INDEX_SUFFIX}").read_text().split():
            printed = mariadb.run(
                "mariadb-binlog", "--no-defaults", "--verify-binlog-checksum", mariadb.inside(folder / name)
            )
            assert (printed.returncode, printed.stderr) == (0, b"")
            _feed(server, printed.stdout)

        assert shop.executed > 5 * TRANSACTIONS
        for name in TABLES:
            assert server.sql(f"SELECT * FROM shop.{name} ORDER BY id") == shop.expected(name)


@pytest.mark.parametrize(
    "values",
    [{"sync_binlog": 1}, {"binlog_checksum": "NONE", "log_bin_compress": True, "sync_binlog": 0}],
    ids=["crc32", "compressed"],
)
def test_a_mariadb_replica_of_four_threads_has_the_tables_of_eight_sessions(
    mariadb: Vendor, values: dict[str, Any]
) -> None:
    """It applies our files from its relay log, in the order that our GTIDs allow."""
    shop = MariadbShop()
    with mariadb.folder("relay") as folder, mariadb.server("relay", *OPTIONS) as server:
        with BinlogWriter(folder / "binlog", variables=variables(mariadb, **values)) as log:
            shop.run(log, SESSIONS, TRANSACTIONS, 2)
        with (
            BinlogWriter(folder / "binlog", variables=variables(mariadb, **values)) as log,
            log.session("shop") as session,
        ):
            session.ddl(FINISHED)
        server.sql(f"SET sql_log_bin=0; CREATE DATABASE shop; {CREATE}")
        names = (folder / f"binlog{INDEX_SUFFIX}").read_text().split()
        place(server, [_first_relay_log(folder / names[0]), *((folder / name).read_bytes() for name in names)])
        server.sql(
            "CHANGE MASTER TO MASTER_HOST='none', MASTER_USE_GTID=no, MASTER_LOG_FILE='binlog.000001', "
            "MASTER_LOG_POS=4,"
            "RELAY_LOG_FILE='relay.000001', RELAY_LOG_POS=4;"
            "START SLAVE SQL_THREAD;"
        )
        _wait_for_the_end(server)

        assert len(names) > 3
        for name in TABLES:
            assert server.sql(f"SELECT * FROM shop.{name} ORDER BY id") == shop.expected(name)


def _first_relay_log(log: Path) -> bytes:
    """Return the start of a relay log: a rotation to the source's log, from which the threads have its name."""
    with binlogio.reader.open(log) as reader:
        description = next(iter(reader))
    encoder, data = Encoder(), BINLOG_MAGIC
    data += encoder.encode_at(description, len(data))
    header = EventHeader(server_id=1, flags=int(HeaderFlag.ARTIFICIAL))
    return data + encoder.encode_at(RotateEvent(len(BINLOG_MAGIC), "binlog.000001", header), len(data))


def _wait_for_the_end(server: Instance) -> None:
    """Wait until the last statement is applied; fail if the threads have stopped."""
    for _ in range(300):
        found = server.sql(
            "SELECT 'finished' FROM information_schema.tables WHERE table_name = 'finished'; DO SLEEP(0.3);"
            "SHOW SLAVE STATUS;"
        )
        if found.startswith("finished"):
            return
        assert found.split("\t")[_SQL_RUNNING] == "Yes", found
    pytest.fail("the replica did not come to the end")


SCRIPT: Final = """
SET binlog_format=ROW;
CREATE DATABASE s;
USE s;
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(50)) ENGINE=InnoDB;
CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(50)) ENGINE=InnoDB;
CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(50)) ENGINE=MyISAM;
INSERT INTO t VALUES (1,'a'),(2,'b'); INSERT INTO m VALUES (1,'a'); INSERT INTO u VALUES (1,'x');
UPDATE t JOIN m USING (id) SET t.v='m1', m.v='m2';
INSERT INTO m VALUES (2,'auto');
BEGIN; INSERT INTO t VALUES (3,'c'); UPDATE m SET v='n2'; COMMIT;
BEGIN; INSERT INTO m VALUES (3,'c'); ROLLBACK;
BEGIN; INSERT INTO m VALUES (4,'c'); ROLLBACK;
BEGIN; INSERT INTO t VALUES (5,'c'); SAVEPOINT a; INSERT INTO m VALUES (5,'c'); INSERT INTO u VALUES (5,'u');
ROLLBACK TO a; COMMIT;
XA START 'one'; INSERT INTO t VALUES (6,'xa'); XA END 'one'; XA COMMIT 'one' ONE PHASE;
XA START 'two','b',7; INSERT INTO t VALUES (7,'xa'); XA END 'two','b',7; XA PREPARE 'two','b',7; XA COMMIT 'two','b',7;
FLUSH BINARY LOGS;
SET binlog_format=STATEMENT;
INSERT INTO t VALUES (13,'c');
UPDATE t SET v='one' WHERE id=13;
UPDATE t JOIN u USING (id) SET t.v='m1', u.v='m2';
UPDATE t JOIN m USING (id) SET t.v='m1', m.v='m2';
INSERT INTO m VALUES (12,'auto');
BEGIN; INSERT INTO t VALUES (23,'c'); INSERT INTO m VALUES (13,'c'); COMMIT;
BEGIN; INSERT INTO m VALUES (14,'c'); INSERT INTO t VALUES (24,'c'); COMMIT;
BEGIN; INSERT INTO t VALUES (25,'c'); INSERT INTO m VALUES (15,'c'); ROLLBACK;
BEGIN; INSERT INTO t VALUES (26,'c'); SAVEPOINT a; INSERT INTO m VALUES (16,'c'); INSERT INTO u VALUES (16,'u');
ROLLBACK TO a; COMMIT;
CREATE TEMPORARY TABLE tt (a INT);
INSERT INTO tt VALUES (1);
INSERT INTO t SELECT a+100, 'x' FROM tt;
DROP TEMPORARY TABLE tt;
BEGIN; CREATE TEMPORARY TABLE t1 (a INT); ROLLBACK; DROP TEMPORARY TABLE t1;
BEGIN; CREATE TEMPORARY TABLE t2 (a INT); COMMIT; DROP TEMPORARY TABLE t2;
CREATE TABLE ct AS SELECT * FROM t;
SET binlog_format=MIXED;
CREATE TEMPORARY TABLE tt (a INT);
INSERT INTO tt VALUES (1);
INSERT INTO t SELECT a+300, 'x' FROM tt;
DROP TEMPORARY TABLE tt;
INSERT INTO u VALUES (301, UUID());
SET binlog_format=ROW;
CREATE TABLE cm ENGINE=MyISAM AS SELECT * FROM t;
CREATE TABLE like_t LIKE t;
ALTER TABLE u ADD COLUMN z INT;
CREATE INDEX i ON u (z);
DROP INDEX i ON u;
TRUNCATE TABLE u;
CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS SELECT 1;
DROP VIEW v;
CREATE USER x@localhost;
DROP USER x@localhost;
ALTER DATABASE s COMMENT 'x';
CREATE DATABASE s2;
DROP TABLE like_t, m;
USE s2;
DROP TABLE s.cm;
DROP DATABASE s2;
USE s;
SET foreign_key_checks=0, unique_checks=0;
INSERT INTO t VALUES (2003,'x');
SET binlog_row_image=MINIMAL;
UPDATE t SET v='y' WHERE id=2003;
CREATE TABLE nk (id INT, v VARCHAR(50));
INSERT INTO nk (v) VALUES ('k');
UPDATE nk SET v='y' WHERE v='k';
INSERT INTO t (id) VALUES (2004);
DELETE FROM t WHERE id=2004;
SET binlog_row_image=NOBLOB;
CREATE TABLE b (id INT PRIMARY KEY, a INT, x TEXT);
INSERT INTO b VALUES (1,1,'text');
UPDATE b SET a=2 WHERE id=1;
UPDATE b SET x='new' WHERE id=1;
DELETE FROM b WHERE id=1;
SET gtid_domain_id=3, server_id=77;
INSERT INTO t VALUES (2006,'x');
SET gtid_seq_no=5000;
INSERT INTO t VALUES (2007,'x');
INSERT INTO t VALUES (2008,'x');
"""


def without_checkpoints(events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the other events, and the checkpoints."""
    checkpoints = [event for event in events if event["type"] == "BinlogCheckpointEvent"]
    return [event for event in events if event not in checkpoints], checkpoints


def test_a_live_server_writes_what_we_write(mariadb: Vendor) -> None:
    """Event by event, in all formats, for both kinds of tables, temporary tables, XA and DDL.

    The place of a BINLOG_CHECKPOINT_EVENT depends on a background thread of the server; it is compared by itself.
    """
    storage = MemoryStorage()
    with mariadb.server("live", "--character-set-server=utf8mb4") as server:
        server.sql("RESET MASTER;" + SCRIPT)
        server.sql("FLUSH BINARY LOGS")
        recording = Recording(sorted(server.data.glob("binlog.0*[0-9]"))[:-1])
    live = ServerVariables(server_version=recording.version, binlog_row_metadata="NO_LOG")
    with BinlogWriter("binlog", variables=live, storage=storage) as log:
        Replay(log, recording, given_columns=True).run(SCRIPT)
    with binlogio.reader.open(storage.streams()) as reader:
        actual, our_checkpoints = without_checkpoints(comparable(list(reader)))
    expected, checkpoints = without_checkpoints(comparable(recording.events))

    assert our_checkpoints == checkpoints
    for number, (one, other) in enumerate(zip(expected, actual, strict=False)):
        assert other == one, number
    assert len(actual) == len(expected)
