"""Replay into a real MySQL server with the GTIDs of the source: `gtid_executed` says what is there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio.errors import ReplayError
from binlogio.events.gtid import GtidEvent, GtidTaggedEvent
from binlogio.gtid import GtidSet
from binlogio.options import Position
from binlogio.replay import ReplayFilter, ReplaySummary, replay
from binlogio.replay.targets.mysql.target import MysqlTarget
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL
from real_servers import Instance, vendor
from replay.test_replay_start import after_prepare, xa_log
from servers.test_replay_servers import NOT_COMPARED, wanted_of
from target_servers import cases_of, connect, emptied, tables, url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from corpus import Case

pytestmark = [pytest.mark.server, pytest.mark.slow]
GROUP_COMMIT: Final = MYSQL / "group_commit" / "binlog.000001"


@pytest.fixture(scope="module")
def server() -> Iterator[Instance]:
    """MySQL with gtid_mode=ON."""
    options = (
        "--innodb-flush-log-at-trx-commit=0",
        "--sync-binlog=0",
        "--max-allowed-packet=1G",
        "--character-set-server=utf8mb4",
    )
    more = (
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
        "--log-bin-trust-function-creators=1",
        "--local-infile=1",
    )
    with vendor("mysql").server("gtids", *options, *more) as instance:
        yield instance


@pytest.fixture
def empty(server: Instance) -> Instance:
    """Provide the server without databases, and without a GTID."""
    emptied(server)
    server.sql("RESET BINARY LOGS AND GTIDS")
    return server


def executed(server: Instance) -> GtidSet:
    return GtidSet.parse(server.sql("SELECT REPLACE(@@global.gtid_executed, '\\n', '')").strip())


def gtids_of(logs: Sequence[Path], **options: Any) -> list[Any]:
    with binlogio.open(logs, **options) as reader:
        return [event.gtid for event in reader if isinstance(event, (GtidEvent, GtidTaggedEvent))]


def replayed(server: Instance, logs: Sequence[Path], *, keys: Any = None, **options: Any) -> ReplaySummary:
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(logs, keyring=keys) as reader:
        return replay(reader, target, **options)


def databases(server: Instance) -> set[str]:
    return set(server.sql("SHOW DATABASES").split())


def gtid_cases() -> list[Case]:
    return [case for case in cases_of("mysql") if gtids_of(case.logs, keyring=case.keys)]


@pytest.mark.parametrize("workers", [1, 8])
def test_each_group_has_the_gtid_of_the_source(empty: Instance, workers: int) -> None:
    """388 groups are 388 GTIDs, in as many transactions of the server's own log, and no others.

    There is no table of positions.
    """
    summary = replayed(empty, [GROUP_COMMIT], workers=workers)
    wanted = gtids_of([GROUP_COMMIT])
    with binlogio.open(sorted(empty.data.glob("binlog.0*"))) as reader:
        logged = [event.gtid for event in reader if isinstance(event, GtidEvent)]

    assert len(wanted) == 388
    assert logged == wanted
    assert executed(empty) == GtidSet.from_gtids(wanted)
    assert (summary.groups, summary.skipped_groups) == (388, 0)
    assert "binlogio_replay" not in databases(empty)
    assert replayed(empty, [GROUP_COMMIT], workers=workers).skipped_groups == 388


@pytest.mark.parametrize("workers", [1, 8])
def test_every_log_with_gtids_ends_in_its_tables_and_its_gtids(server: Instance, workers: int) -> None:
    """DDL, XA, tables without transactions, temporary tables, CREATE TABLE ... SELECT, statements as text."""
    wrong: dict[str, Any] = {}
    for case in gtid_cases():
        emptied(server)
        server.sql("RESET BINARY LOGS AND GTIDS")
        try:
            replayed(server, case.logs, keys=case.keys, workers=workers)
        except ReplayError as exc:
            wrong[case.id] = str(exc)
            continue
        found, wanted = tables(server), wanted_of(case)
        different = [name for name in wanted if name not in NOT_COMPARED and found.get(name) != wanted[name]]
        gtids = GtidSet.from_gtids(gtids_of(case.logs, keyring=case.keys))
        if different or executed(server) != gtids:
            wrong[case.id] = different, str(executed(server)), str(gtids)

    assert len(gtid_cases()) > 20
    assert wrong == {}


@pytest.mark.parametrize("workers", [1, 8])
def test_parts_one_after_the_other_are_the_whole(empty: Instance, workers: int) -> None:
    """Transactions that are there are known by their GTIDs; a part that was left out is applied later."""
    wanted = gtids_of([GROUP_COMMIT])
    hole = GtidSet.from_gtids(wanted[100:120])
    with binlogio.open(GROUP_COMMIT) as reader:
        starts = [event.header.offset for event in reader if isinstance(event, GtidEvent)]
    stop = ReplayFilter(stop=Position(GROUP_COMMIT.name, starts[200]))
    tables_before = ReplayFilter(stop=Position(GROUP_COMMIT.name, starts[20]))
    assert replayed(empty, [GROUP_COMMIT], workers=workers, wanted=tables_before).groups == 20
    first = replayed(empty, [GROUP_COMMIT], workers=workers, wanted=stop)
    rest = replayed(empty, [GROUP_COMMIT], workers=workers)

    assert (first.groups, rest.groups, rest.skipped_groups) == (180, 188, 200)
    assert executed(empty) == GtidSet.from_gtids(wanted)
    assert hole.issubset(executed(empty))


def test_xa_transaction_has_the_gtids_of_its_prepare_and_its_commit(empty: Instance, tmp_path: Path) -> None:
    """The rows come with the commit.

    A replay that begins between the two looks for the prepare, whose GTID is not the target's then.
    """
    logs = xa_log(tmp_path, gtid_mode="ON", rotates=True)
    wanted = gtids_of(logs)
    replayed(empty, logs[:1])
    assert executed(empty) == GtidSet.from_gtids(wanted[:4])
    replayed(empty, logs)
    assert executed(empty) == GtidSet.from_gtids(wanted)
    assert empty.sql("SELECT GROUP_CONCAT(id ORDER BY id) FROM d.t").strip() == "1,2,3,10,11"

    emptied(empty)
    empty.sql(
        "RESET BINARY LOGS AND GTIDS; CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT);"
        " RESET BINARY LOGS AND GTIDS"
    )
    replayed(empty, logs, wanted=ReplayFilter(start=after_prepare(logs)))
    assert executed(empty) == GtidSet.from_gtids(wanted[4:])
    assert empty.sql("SELECT GROUP_CONCAT(id ORDER BY id) FROM d.t").strip() == "2,3,10,11"


def run(server: Instance, *options: str, log: Path = GROUP_COMMIT) -> Result:
    return CliRunner().invoke(cli, ["replay", "--no-progress", "--to", url(server), *options, str(log)])


@pytest.mark.parametrize("workers", ["1", "8"])
def test_new_gtids_are_the_servers_own(empty: Instance, workers: str) -> None:
    """By the option; and by default with a table filter, or after a replay that stored a position."""
    assert run(empty, "--gtids", "new", "--workers", workers).exit_code == 0
    assert executed(empty).isdisjoint(GtidSet.from_gtids(gtids_of([GROUP_COMMIT])))
    assert "binlogio_replay" in databases(empty)
    again = run(empty, "--workers", workers)
    assert again.exit_code == 0
    assert again.stdout.startswith("replayed 0 event groups")

    emptied(empty)
    empty.sql("RESET BINARY LOGS AND GTIDS")
    assert run(empty, "--table", "corpus.gc", "--workers", workers).exit_code == 0
    assert executed(empty).isdisjoint(GtidSet.from_gtids(gtids_of([GROUP_COMMIT])))


def test_groups_that_are_executed_already_are_named(empty: Instance) -> None:
    """A replay into the source itself changes nothing by default, and says so."""
    assert run(empty).exit_code == 0
    result = run(empty)

    assert "388 event groups were skipped" in result.stdout
    assert "the server has executed the GTIDs of all event groups" in result.stderr
    assert "--gtids new" in result.stderr


def test_what_cannot_be_kept_is_refused(empty: Instance) -> None:
    """Before anything is changed, with the option that decides."""
    anonymous = MYSQL / "gtid_off" / "binlog.000001"
    result = run(empty, "--gtids", "keep", log=anonymous)
    assert result.exit_code == 1
    assert "the transaction has no MySQL GTID to keep" in result.stderr
    assert "--gtids new" in result.stderr
    assert not executed(empty)
    assert run(empty, "--gtids", "keep", log=MARIADB / "gtid" / "binlog.000001").exit_code == 1
    assert run(empty, log=anonymous).exit_code == 0
    sqlite = CliRunner().invoke(cli, ["replay", "--to", "sqlite:///:memory:", "--gtids", "keep", str(GROUP_COMMIT)])
    assert "a SQLite target cannot keep GTIDs" in sqlite.stderr


def test_a_killed_replay_goes_on_with_its_gtids(empty: Instance) -> None:
    """A group that fails leaves those before it, and its own number is free for the next replay."""
    with closing(connect(empty)) as connection, binlogio.open(GROUP_COMMIT) as reader:
        starts = [event.header.offset for event in reader if isinstance(event, GtidEvent)]
        replayed(empty, [GROUP_COMMIT], wanted=ReplayFilter(stop=Position(GROUP_COMMIT.name, starts[10])))
        connection.query("SET sql_log_bin = 0; ")
        connection.query("RENAME TABLE corpus.gc TO corpus.away")
        with pytest.raises(ReplayError):
            replayed(empty, [GROUP_COMMIT], workers=8)
        before = executed(empty)
        connection.query("RENAME TABLE corpus.away TO corpus.gc")
    replayed(empty, [GROUP_COMMIT], workers=8)
    wanted = gtids_of([GROUP_COMMIT])

    assert before == GtidSet.from_gtids(wanted[: before.count])
    assert executed(empty) == GtidSet.from_gtids(wanted)
