"""Missing, changed and repeated logs, replayed to real servers: by position, and by the GTIDs of the source."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

from real_servers import Instance, vendor
from series.test_missing_logs import COMPLETE
from series_faults import FAULTS, PER_LOG, ids_of, replicating, run
from target_servers import connect, emptied, url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result

pytestmark = pytest.mark.server

# With kept GTIDs the target has a set of transactions: copies and other series are no faults.
BY_GTIDS: Final = (*COMPLETE, "repaired copy", "filtered copy", "failover", "renamed")

# New transactions with GTIDs that the target has are skipped, as a replica of the server skips them.
AS_A_REPLICA: Final = ("RESET", "truncated and regrown")


@pytest.fixture(scope="module")
def mysql() -> Iterator[Instance]:
    """MySQL with gtid_mode=ON."""
    with vendor("mysql").server("series", "--gtid-mode=ON", "--enforce-gtid-consistency=ON") as instance:
        yield instance


@pytest.fixture(scope="module")
def mariadb() -> Iterator[Instance]:
    """MariaDB with gtid_strict_mode=ON, and a server_id that no log has."""
    with vendor("mariadb").server("series", "--log-bin", "--gtid-strict-mode=ON", "--server-id=77") as instance:
        yield instance


class ServerConsumer:
    """`replay` to a server, which has empty tables."""

    def __init__(self, server: Instance, reset: str, *options: str) -> None:
        self._server = server
        self._options = options
        emptied(server)
        server.sql(
            "CREATE DATABASE shop; CREATE TABLE shop.a (id INT PRIMARY KEY, v INT); CREATE TABLE shop.b LIKE shop.a"
        )
        server.sql(reset)

    def give(self, logs: list[Path]) -> Result:
        """Replay logs."""
        return run("replay", "-q", "--to", url(self._server), *self._options, *logs)

    def ids(self) -> Counter[int]:
        """Return the ids in the tables."""
        with closing(connect(self._server)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM shop.a UNION ALL SELECT id FROM shop.b")
            return Counter(number for (number,) in cursor.fetchall())


@pytest.mark.parametrize("workers", ["1", "4"])
@pytest.mark.parametrize("fault", FAULTS)
def test_replay_that_keeps_gtids(mysql: Instance, fault: str, workers: str, tmp_path: Path) -> None:
    """A hole in `gtid_executed` is refused before the first change.

    A copy of the middle of a log changes nothing, and the exit code is 1: older logs, or a new series after RESET.
    """
    target = ServerConsumer(mysql, "RESET BINARY LOGS AND GTIDS", "--workers", workers)
    calls = FAULTS[fault](tmp_path, "GTIDs")
    codes = [target.give(logs).exit_code for logs in (calls.first, calls.then) if logs]

    assert (codes[-1] == 0) == (fault in BY_GTIDS or fault in AS_A_REPLICA)
    if fault in BY_GTIDS:
        assert sorted(target.ids()) == sorted(calls.ids)


@pytest.mark.parametrize("workers", ["1", "4"])
@pytest.mark.parametrize(("kind", "log"), [("mysql", "GTIDs"), ("mysql", "anonymous"), ("mariadb", "MariaDB")])
@pytest.mark.parametrize("fault", FAULTS)
def test_replay_by_position(
    request: pytest.FixtureRequest, fault: str, kind: str, log: str, workers: str, tmp_path: Path
) -> None:
    """As into SQLite."""
    reset = "RESET BINARY LOGS AND GTIDS" if kind == "mysql" else "RESET MASTER"
    target = ServerConsumer(request.getfixturevalue(kind), reset, "--workers", workers, "--gtids", "new")
    calls = FAULTS[fault](tmp_path, log)
    codes = [target.give(logs).exit_code for logs in (calls.first, calls.then) if logs]

    assert (codes[-1] == 0) == (fault in COMPLETE)
    if codes[-1] == 0:
        assert sorted(target.ids()) == sorted(calls.ids)


@pytest.mark.parametrize("fault", ["missing inside", "missing between", "rest of a log missing", "purged"])
def test_replay_that_keeps_gtids_of_mariadb(mariadb: Instance, fault: str, tmp_path: Path) -> None:
    """GTID_LIST at the head of a log names the last GTIDs before it."""
    target = ServerConsumer(mariadb, "RESET MASTER", "--gtids", "keep")
    calls = FAULTS[fault](tmp_path, "MariaDB")
    codes = [target.give(logs).exit_code for logs in (calls.first, calls.then) if logs]

    assert (codes[-1] == 0) == (fault in COMPLETE)
    if codes[-1] == 0:
        assert sorted(target.ids()) == sorted(calls.ids)


@pytest.mark.parametrize("workers", ["1", "4"])
def test_logs_of_servers_that_replicate_from_each_other(mysql: Instance, workers: str, tmp_path: Path) -> None:
    """A target that keeps GTIDs skips those that it has."""
    target = ServerConsumer(mysql, "RESET BINARY LOGS AND GTIDS", "--workers", workers)
    a, b = replicating(tmp_path, "GTIDs")
    assert target.give([*a, *b]).exit_code == 0
    assert sorted(target.ids()) == [*ids_of(2), *range(100, 100 + 2 * PER_LOG)]
