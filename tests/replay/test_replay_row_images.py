"""Logs with every row image, written by real servers, replayed into SQLite and into the servers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pymysql
import pytest

import binlogio
from binlogio.replay import SqliteTarget, replay
from binlogio.replay.targets.mysql.target import MysqlTarget
from corpus import FIXTURES
from expected_tables import differences
from real_servers import KINDS, Instance, vendor
from server_tables import expected as tables_of
from target_servers import emptied, rows_of, tables, url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

COMPRESSION: Final = {"mysql": "binlog_transaction_compression", "mariadb": "log_bin_compress"}
# MariaDB leaves virtual columns out of images that are not full; since 11.8.9, all generated columns out of updates.
GENERATED: Final = ("g", "gv")


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """Provide a server that is source and target."""
    options = (
        "--binlog-format=ROW",
        "--character-set-server=utf8mb4",
        "--sync-binlog=0",
        "--innodb-flush-log-at-trx-commit=0",
    )
    with vendor(request.param).server("images", *options) as instance:
        yield instance


def logged(server: Instance, folder: Path, image: str, *, is_compressed: bool) -> tuple[Path, dict[str, Any]]:
    """Return the log of the corpus' statements with that image, and the tables that they leave."""
    emptied(server)
    script = (
        FIXTURES / ("mariadb1011" if server.vendor.is_mariadb else "mysql97") / "rowimage_full" / "source.sql"
    ).read_text("utf-8")
    with closing(pymysql.connect(unix_socket=str(server.socket), user="root", autocommit=True)) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SET GLOBAL binlog_row_image = '{image}'")
        cursor.execute(f"SET GLOBAL {COMPRESSION[server.vendor.client]} = {int(is_compressed)}")
        cursor.execute("FLUSH BINARY LOGS")
        server.sql(script)
        cursor.execute("FLUSH BINARY LOGS")
        log = sorted(server.data.glob("binlog.0*[0-9]"))[-2]
        copy = folder / log.name
        copy.write_bytes(log.read_bytes())
        found = json.loads(tables_of(connection, {}))["tables"]
    return copy, {name: table for name, table in found.items() if name.startswith("corpus.")}


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("image", ["FULL", "MINIMAL", "NOBLOB"])
def test_tables_are_those_of_the_server(server: Instance, tmp_path: Path, image: str, is_compressed: bool) -> None:
    """Keys of all kinds, BLOBs that images leave out, REPLACE and ON DUPLICATE KEY UPDATE.

    1 and 8 workers, by events and by SQL.
    """
    path, expected = logged(server, tmp_path, image, is_compressed=is_compressed)
    wrong: dict[str, Any] = {}
    for workers in (1, 8):
        name = tmp_path / f"{workers}.db"
        with closing(SqliteTarget.open(name)) as target, binlogio.open(path) as reader:
            replay(reader, target, workers=workers)
        with closing(sqlite3.connect(name)) as connection:
            hidden: dict[str, tuple[str, ...]] = {"corpus.autoinc": GENERATED} if server.vendor.is_mariadb else {}
            wrong[f"SQLite, {workers}"] = differences(connection, expected, hidden)
            for column in GENERATED if hidden else ():
                place = [one["name"] for one in expected["corpus.autoinc"]["columns"]].index(column)
                known = {row[0]: row[place] for row in expected["corpus.autoinc"]["rows"]}
                found = dict(connection.execute(f'SELECT id, {column} FROM "corpus.autoinc"').fetchall())
                assert all(value in (None, known[key]) for key, value in found.items())
        for applies_events in (True, False):
            emptied(server)
            with (
                closing(MysqlTarget.open(url(server), applies_events=applies_events)) as other,
                binlogio.open(path) as reader,
            ):
                replay(reader, other, workers=workers, gtids="new")
            found = tables(server)
            wrong[f"server, {workers}, {applies_events}"] = [
                n for n, t in expected.items() if found.get(n) != rows_of(t)
            ]

    assert len(expected) > 5
    assert {how: names for how, names in wrong.items() if names} == {}
