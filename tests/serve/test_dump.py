"""What a client gets: the events of the logs, from where it begins, with those that are added meanwhile."""

from __future__ import annotations

import gzip
import shutil
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest

from binlog_server.server import BinlogServer
from binlog_server.source_logs import ServeOptions, SourceLogs
from binlogio.constants import EventType
from binlogio.errors import ConditionError, MissingLogs
from binlogio.events.control import HEARTBEAT_V2
from binlogio.gtid import GtidSet
from binlogio.options import Position, ServerVariables
from binlogio.selection.selection import Selection
from binlogio.storage import load_keyring
from binlogio.writer import BinlogWriter
from corpus import FIXTURES, MARIADB, MARIADB118, MYSQL, CorpusFile, files
from dump_client import ANNOTATED, CHECKSUM, NON_BLOCKING, UUID, DumpClient, client, of_log, serving, until, written
from logs import log, query, raw_events
from s3_bucket import s3_bucket
from written_logs import insert

XID: Final = EventType.XID_EVENT
PLAIN: Final = [
    file for file in files()
    if not (file.damaged or file.encrypted or file.path.suffix == ".zst" or "legacy" in file.id or "5.0" in file.id)
    and file.path.suffix[1:].isdigit() and file.root == FIXTURES and not file.id.startswith("demo")
]  # fmt: skip


def stored(path: Path) -> list[bytes]:
    """Return the events of a file as a server sends them: without the flag of a log in use."""
    first, *others = [event for _, event in raw_events(path.read_bytes())]
    return [first[:17] + bytes([first[17] & ~1]) + first[18:], *others]


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.id)
def test_dump_of_a_log_has_its_events(file: CorpusFile) -> None:
    """The artificial ROTATE comes first; the packets of a large dump are numbered correctly, or PyMySQL fails."""
    with serving(file.path) as server:
        events = list(client(server).by_position(file.path.name))

    assert events[0][19:].removesuffix(events[0][-4:])[8:].startswith(b"binlog.0")
    assert of_log(events[1:]) == [event for event in stored(file.path) if not event[17] & 0x20]


@pytest.mark.parametrize("folder", [MYSQL / "encrypted", MARIADB / "encrypted"], ids=["mysql", "mariadb"])
def test_encrypted_logs_are_served_plain(folder: Path) -> None:
    keys = load_keyring(str(folder / ("keyring" if folder.is_relative_to(MYSQL) else "keys.txt")))
    with serving(folder / "binlog.000001", keyring=keys) as server:
        events = of_log(list(client(server).by_position("binlog.000001")))

    plain = [
        event for event in stored(folder / "binlog.000001.decrypted") if event[4] != EventType.START_ENCRYPTION_EVENT
    ]
    assert [event[19:-4] for event in events[1:]] == [event[19:-4] for event in plain[1:]]


def test_compressed_log_is_served_plain_from_any_event(tmp_path: Path) -> None:
    log = MYSQL / "rotated" / "binlog.000001"
    (tmp_path / "binlog.000001.gz").write_bytes(gzip.compress(log.read_bytes()))
    offsets = [offset for offset, _ in raw_events(log.read_bytes())]
    with serving(tmp_path) as server:
        events = list(client(server).by_position("binlog.000001", offsets[5]))

    assert of_log(events)[1:] == stored(log)[5:]
    assert of_log(events)[0][13:17] == bytes(4)  # the position of a format description that is not read there


def test_events_above_16_mib_continue_in_more_packets(tmp_path: Path) -> None:
    """Also those whose size is a multiple of the largest packet."""
    texts = ["x" * size for size in (1, (1 << 24) - 100, (1 << 24) + 5, 2 * ((1 << 24) - 1) - 1 - 19 - 13 - 2 - 4, 7)]
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*(query(text) for text in texts)))
    with serving(path) as server:
        events = list(client(server).by_position(path.name))

    assert of_log(events) == stored(path)


def test_client_gets_what_is_written_while_it_waits(tmp_path: Path) -> None:
    """Over rotations too; the file with the next number follows."""
    with written(tmp_path) as (logs, add):
        add(1)
        with serving(tmp_path) as server:
            events = client(server).by_gtids(GtidSet(), flags=0)
            found = until(events, 1)
            for key in range(2, 40):
                if key % 10 == 0:
                    logs.rotate()
                add(key)
                found += until(events, 1)

    expected = [event for path in sorted(tmp_path.glob("binlog.0*")) for event in stored(path)]
    assert of_log(found) == expected[: len(of_log(found))]
    assert sum(event[4] == XID for event in found) == 39


def test_waiting_client_gets_heartbeats(tmp_path: Path) -> None:
    with written(tmp_path) as (_, add):
        add(1)
        with serving(tmp_path) as server:
            events = client(server, "SET @source_heartbeat_period = 20000000").by_position("", flags=0)
            until(events, 1)
            beats = list(islice(events, 3))
            size = (tmp_path / "binlog.000001").stat().st_size

            with_64_bits = client(server, "SET @source_heartbeat_period = 20000000").by_position("", flags=ANNOTATED)
            until(with_64_bits, 1)
            beat = next(with_64_bits)

    assert {(event[4], int.from_bytes(event[13:17], "little"), event[19:-4]) for event in beats} == {
        (27, size, b"binlog.000001")
    }
    assert HEARTBEAT_V2.parse(beat[19:-4]).fields == ((1, b"binlog.000001"), (2, size))


def gtids_of(events: list[bytes]) -> list[int]:
    """Return the numbers of the GTIDs."""
    at = {33: slice(19 + 17, 19 + 25), 162: slice(19, 27)}
    return [int.from_bytes(event[at[event[4]]], "little") for event in events if event[4] in at]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Return a folder of logs with transactions 1 to 30, five in each."""
    with written(tmp_path) as (logs, add):
        for key in range(1, 31):
            add(key)
            if key % 5 == 0:
                logs.rotate()
    return tmp_path


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ("", range(1, 31)),
        ("1-12", range(13, 31)),
        ("1-30", ()),
        ("2-3:7:11-20", (1, 4, 5, 6, 8, 9, 10, *range(21, 31))),
        ("1-28,4e11fa47-71ca-11e1-9e33-c80aa9429562:1-50", (29, 30)),  # those of another server do not matter
    ],
)
def test_mysql_client_gets_the_transactions_that_it_does_not_have(many: Path, known: str, expected: Any) -> None:
    with serving(many) as server:
        events = list(client(server).by_gtids(GtidSet.parse(f"{UUID}:{known}") if known else GtidSet()))

    assert gtids_of(events) == [*expected]


def test_purged_transactions_and_unknown_ones_of_the_source_are_errors(many: Path) -> None:
    for name in ("binlog.000001", "binlog.000002"):
        (many / name).unlink()
    with serving(many) as server:
        ask = client(server)
        with pytest.raises(pymysql.err.MySQLError, match=rf"purged required.*missing transactions are '{UUID}:3:6-10'"):
            list(ask.by_gtids(GtidSet.parse(f"{UUID}:1-2:4-5")))
        with pytest.raises(pymysql.err.MySQLError, match="Replica has more GTIDs than the source"):
            list(ask.by_gtids(GtidSet.parse(f"{UUID}:1-31")))
        assert gtids_of(list(ask.by_gtids(GtidSet.parse(f"{UUID}:1-10")))) == [*range(11, 31)]


@pytest.mark.parametrize(
    ("file", "position", "expected"),
    [
        ("binlog.000099", 4, "Could not find first log file name in binary log index file"),
        ("binlog.000002", 3, "position < 4"),
        ("binlog.000002", 1 << 30, "position > file size"),
        ("binlog.000002", 130, "impossible position 130.*not the start of an event"),
    ],
)
def test_place_that_is_not_in_the_logs_is_an_error(many: Path, file: str, position: int, expected: str) -> None:
    with serving(many) as server, pytest.raises(pymysql.err.MySQLError, match=expected) as caught:
        list(client(server).by_position(file, position))

    assert caught.value.args[0] == 1236


def test_client_that_does_not_know_checksums_is_refused(many: Path) -> None:
    with serving(many) as server, pytest.raises(pymysql.err.MySQLError, match="can not handle replication events"):
        list(DumpClient(server.port).by_position(""))


# ------------------------------------------------------------------------------------------------------------- MariaDB


def mariadb_gtids(events: list[bytes]) -> list[str]:
    places = (slice(27, 31), slice(5, 9), slice(19, 27))
    found = [[int.from_bytes(event[at], "little") for at in places] for event in events if event[4] == 162]
    return ["-".join(map(str, one)) for one in found]


@pytest.mark.parametrize("folder", [MARIADB / "gtid", MARIADB118 / "gtid"], ids=["10.11", "11.8"])
def test_mariadb_client_continues_after_its_gtid_in_each_domain(folder: Path) -> None:
    """A domain that it does not name is sent from the start."""
    paths = sorted(folder.glob("binlog.0*[0-9]"))
    gtids = [gtid for path in paths for gtid in mariadb_gtids(stored(path))]
    with serving(*paths) as server:
        for number, gtid in enumerate(gtids):
            domain, _, _ = gtid.split("-")
            expected = [one for at, one in enumerate(gtids) if at > number or not one.startswith(f"{domain}-")]
            events = list(client(server, f"SET @slave_connect_state = '{gtid}'").by_position(""))

            assert [one.split("-")[2] for one in expected] == [str(one) for one in gtids_of(events)]


@pytest.mark.parametrize("folder", [MARIADB / "gtid", MARIADB118 / "gtid"], ids=["10.11", "11.8"])
def test_mariadb_client_gets_transactions_until_gtids(folder: Path) -> None:
    """Those of other domains are left out, and a GTID_LIST with a flag is the end, also of a client that waits."""
    paths = sorted(folder.glob("binlog.0*[0-9]"))
    gtids = [gtid for path in paths for gtid in mariadb_gtids(stored(path))]
    with serving(*paths) as server:
        for number, gtid in enumerate(gtids):
            domain = gtid[: gtid.index("-") + 1]
            for state, until in (("", gtid), (gtid, gtid), ("", f"{gtid.rpartition('-')[0]}-{(1 << 64) - 1}")):
                asked = (f"SET @slave_connect_state = '{state}'", f"SET @slave_until_gtid = '{until}'")
                events = client(server, *asked).by_position("", flags=0 if until == gtid else NON_BLOCKING)
                found = list(events)
                end = len(gtids) if until != gtid else number + 1
                expected = [one for one in gtids[:end] if one.startswith(domain)] if not state else []

                assert mariadb_gtids(found) == expected
                is_end = found[-1][4] == EventType.MARIADB_GTID_LIST_EVENT and found[-1][22] >> 4 == 1
                assert is_end == (until == gtid)


def test_mariadb_client_without_the_capability_or_beyond_the_logs_is_refused() -> None:
    folder = MARIADB / "gtid"
    with serving(folder) as server:
        with pytest.raises(pymysql.err.MySQLError, match="SET @mariadb_slave_capability=4"):
            list(DumpClient(server.port, CHECKSUM).by_position(""))
        with pytest.raises(pymysql.err.MySQLError, match="GTID 0-1-99999, which is not in the master's binlog"):
            list(client(server, "SET @slave_connect_state = '0-1-99999'").by_position(""))
        with pytest.raises(pymysql.err.MySQLError, match="could not parse the GTID position"):
            list(client(server, "SET @slave_connect_state = ''", "SET @slave_until_gtid = '0-1'").by_position(""))


def test_mariadb_client_with_a_gtid_of_a_domain_that_appears_later_is_refused(tmp_path: Path) -> None:
    """The transactions up to its GTID are not skipped: its GTID never was in the logs."""

    def add(domain_id: int) -> None:
        version = ServerVariables(server_version="10.11.6-MariaDB", gtid_domain_id=domain_id)
        with BinlogWriter(str(tmp_path / "binlog"), variables=version) as logs, logs.session("shop") as session:
            session.execute(insert(domain_id))

    add(0)
    with serving(tmp_path) as server:
        events = client(server, "SET @slave_connect_state = '7-1-100'").by_position("", flags=0)
        until(events, 1)
        add(7)
        with pytest.raises(pymysql.err.MySQLError, match="GTID 7-1-100, which is not in the master's binlog"):
            until(events, 1)


def test_annotations_are_sent_to_clients_that_ask_for_them() -> None:
    path = MARIADB / "annotate_rows" / "binlog.000001"
    with serving(path) as server:
        codes = [
            [event[4] for event in client(server).by_position("", flags=flags)]
            for flags in (NON_BLOCKING, NON_BLOCKING | ANNOTATED)
        ]

    assert codes[0] == [code for code in codes[1] if code != EventType.ANNOTATE_ROWS_EVENT]
    assert EventType.ANNOTATE_ROWS_EVENT in codes[1]


# ----------------------------------------------------------------------------------------------------- ends and choices


def numbers(folder: Path, **options: Any) -> list[int]:
    with serving(folder, **options) as server:
        return gtids_of(list(client(server).by_gtids(GtidSet())))


def test_logs_end_before_a_transaction_a_position_or_a_time(many: Path) -> None:
    starts = [offset for offset, event in raw_events((many / "binlog.000003").read_bytes()) if event[4] == 33]

    assert numbers(many, until=GtidSet.parse(f"{UUID}:13-99")) == [*range(1, 13)]
    assert numbers(many, selection=Selection(stop=Position("binlog.000003", starts[2]))) == [*range(1, 13)]
    assert numbers(many, selection=Selection(stop_time=1)) == []
    assert numbers(many, selection=Selection(stop_time=1 << 31)) == [*range(1, 31)]
    assert numbers(many, selection=Selection(exclude_gtids=GtidSet.parse(f"{UUID}:3-29"))) == [1, 2, 30]
    with pytest.raises(ConditionError, match="no event group of the logs has such a GTID"):
        SourceLogs([str(many)], ServeOptions(until=GtidSet.parse(f"{UUID}:99")))


def test_state_of_logs_with_an_end_is_that_of_the_end(many: Path) -> None:
    with serving(many, selection=Selection(stop_time=1)) as server:
        assert client(server).query("SELECT @@GLOBAL.gtid_executed") == [("",)]
        with pytest.raises(pymysql.err.MySQLError, match="Could not find first log"):
            list(client(server).by_position("binlog.000004"))
    with serving(many, until=GtidSet.parse(f"{UUID}:13")) as server:
        ask = client(server)

        assert ask.query("SELECT @@GLOBAL.gtid_executed") == [(f"{UUID}:1-12",)]
        assert ask.query("SHOW BINARY LOG STATUS")[0][0] == "binlog.000003"
        with pytest.raises(pymysql.err.MySQLError, match="Replica has more GTIDs"):
            list(ask.by_gtids(GtidSet.parse(f"{UUID}:1-20")))
        with pytest.raises(pymysql.err.MySQLError, match="Could not find first log"):
            list(ask.by_position("binlog.000004"))


def test_missing_log_and_logs_of_two_servers_are_refused(many: Path, tmp_path: Path) -> None:
    (many / "binlog.000003").unlink()
    with pytest.raises(MissingLogs):
        SourceLogs([str(many)], ServeOptions())
    with pytest.raises(ConditionError, match="logs of several servers"):
        SourceLogs([str(many / "binlog.000001"), str(MARIADB / "gtid")], ServeOptions())


def test_damaged_log_ends_the_dump_with_an_error(many: Path) -> None:
    """The events before the damage were sent."""
    path = many / "binlog.000002"
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(data)
    with serving(many) as server:
        events = client(server).by_position("")
        found = [next(events) for _ in range(40)]
        with pytest.raises(pymysql.err.MySQLError, match=r"binlog\.000002.*checksum"):
            found.extend(events)

    assert gtids_of(found)[-1] in (9, 10)


def test_log_that_was_purged_while_it_is_read_is_an_error(many: Path) -> None:
    with serving(many) as server:
        events = client(server).by_position("binlog.000006", flags=0)
        until(events, 5)
        shutil.rmtree(many)
        with pytest.raises(pymysql.err.MySQLError, match=r"purged|not there"):
            list(events)


def test_logs_whose_end_was_purged_are_not_served_beyond_it(many: Path) -> None:
    with serving(many, until=GtidSet.parse(f"{UUID}:13")) as server:
        for number in (1, 2, 3):
            (many / f"binlog.00000{number}").unlink()
        with pytest.raises(pymysql.err.MySQLError, match=r"binlog\.000003: the log in which the served logs end"):
            list(client(server).by_position("binlog.000004"))


@pytest.mark.parametrize("count", [5, 2])
def test_log_that_is_replaced_while_it_is_served_is_an_error(
    count: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """RESET, also if an event of the new log starts where the old log ended."""
    other = tmp_path_factory.mktemp("other")
    with written(tmp_path) as (_, add), written(other) as (_, add_other):
        for key in range(1, 4):
            add(key)
        for key in range(1, count + 1):
            add_other(key + 100)
        with serving(tmp_path) as server:
            events = client(server).by_position("", flags=0)
            until(events, 3)
            (other / "binlog.000001").replace(tmp_path / "binlog.000001")
            with pytest.raises(pymysql.err.MySQLError, match="the log was replaced while it was served"):
                until(events, 1)


@pytest.mark.parametrize(("name", "before"), [("binlog.000002", 0), ("binlog.000006", 0), ("binlog.000006", 5)])
def test_closed_log_that_ends_in_a_transaction_is_an_error(many: Path, name: str, before: int) -> None:
    """For a client that does not wait, the end of the last log too is an error, not the end of the logs."""
    (many / "binlog.000007").unlink()
    path = many / name
    data = path.read_bytes()
    path.write_bytes(data[: [at for at, event in raw_events(data) if event[4] == XID][2] - before])
    with serving(many) as server, pytest.raises(pymysql.err.MySQLError, match=rf"{name}.*in the middle of an event"):
        list(client(server).by_position(""))


@pytest.mark.parametrize("is_mariadb", [False, True], ids=["mysql", "mariadb"])
def test_closed_log_that_lacks_its_last_transactions_is_an_error(is_mariadb: bool, tmp_path: Path) -> None:
    """The head of the next log shows it. For a client that has them, nothing is missing."""
    more: dict[str, Any] = {"server_version": "10.11.6-MariaDB", "server_id": 1} if is_mariadb else {}
    with written(tmp_path, **more) as (logs, add):
        for key in range(1, 7):
            add(key)
            if key == 3:
                logs.rotate()
    path = tmp_path / "binlog.000001"
    data = path.read_bytes()
    path.write_bytes(data[: next(at + len(event) for at, event in raw_events(data) if event[4] == XID)])
    lost = "0-1-3" if is_mariadb else f"{UUID}:2-3"
    said = rf"binlog\.000002: transactions are missing before this log: {lost}, which its head lists"
    with serving(tmp_path) as server, pytest.raises(pymysql.err.MySQLError, match=said) as caught:
        list(client(server).by_position(""))
    assert caught.value.args[0] == 1236
    with serving(tmp_path) as server:
        if is_mariadb:
            found = client(server, "SET @slave_connect_state = '0-1-3'").by_position("")
        else:
            found = client(server).by_gtids(GtidSet.parse(f"{UUID}:2-3"))
        assert gtids_of(list(found)) == ([4, 5, 6] if is_mariadb else [1, 4, 5, 6])
    with serving(tmp_path, ignore_missing_logs=True) as server:
        assert gtids_of(list(client(server).by_position(""))) == [1, 4, 5, 6]


def test_transactions_that_no_log_has_are_refused_to_clients_without_them(many: Path) -> None:
    """After `SET GLOBAL gtid_purged` in a restored server, the head of the next log has GTIDs that are in no log."""
    path = many / "binlog.000002"
    events = [event for _, event in raw_events(path.read_bytes())]
    groups = [number for number, event in enumerate(events) if event[4] == EventType.GTID_LOG_EVENT]
    path.write_bytes(b"\xfebin" + b"".join([*events[: groups[0]], *events[groups[3] :]]))
    with serving(many) as server:
        with pytest.raises(pymysql.err.MySQLError, match=f"transactions are missing before this log: {UUID}:6-8"):
            list(client(server).by_gtids(GtidSet.parse(f"{UUID}:1-2")))
        found = gtids_of(list(client(server).by_gtids(GtidSet.parse(f"{UUID}:3-8"))))

    assert found == [1, 2, *range(9, 31)]


def test_anonymous_transactions_are_refused_to_clients_that_ask_by_gtid(tmp_path: Path) -> None:
    """They were skipped with the earlier logs, or sent again to each client that connects."""
    with written(tmp_path, gtid_mode="OFF") as (logs, add):
        add(1)
        with serving(tmp_path) as server, pytest.raises(pymysql.err.MySQLError, match=r"anonymous.*position \d"):
            list(client(server).by_gtids(GtidSet()))
        logs.rotate()
        add(2)
    with serving(tmp_path) as server, pytest.raises(pymysql.err.MySQLError, match="the logs have no GTIDs"):
        list(client(server).by_gtids(GtidSet()))


def test_large_event_with_a_wrong_checksum_stays_incomplete(tmp_path: Path) -> None:
    """It is not verified before it is sent."""
    path = tmp_path / "binlog.000001"
    data = bytearray(log(query("x" * (9 << 20))))
    (at, _) = [*raw_events(bytes(data))][-1]
    data[at + 4] = EventType.WRITE_ROWS_EVENT
    path.write_bytes(data)
    with serving(path) as server:
        found = client(server).by_position("")
        with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
            list(found)


def test_logs_in_an_object_store_are_served(many: Path) -> None:
    """Heads are read once; the packets are those of the files."""
    with s3_bucket() as bucket:
        for path in many.glob("binlog.0*"):
            bucket.put(f"archive/{path.name}", path.read_bytes())
        with BinlogServer(SourceLogs([bucket.uri("archive/")], ServeOptions())) as server:
            ask = client(server)

            assert gtids_of(list(ask.by_gtids(GtidSet.parse(f"{UUID}:1-12")))) == [*range(13, 31)]
            assert ask.query("SHOW BINARY LOGS")[0] == ("binlog.000001", (many / "binlog.000001").stat().st_size)


def test_events_have_their_positions_where_annotations_are_left_out() -> None:
    """MariaDB 11.8 writes 0 inside groups; a replica would add the sizes of the events that it gets."""
    path = MARIADB118 / "types" / "binlog.000001"
    with serving(path) as server:
        events = of_log(list(client(server).by_position("", flags=NON_BLOCKING)))

    expected = [offset + len(event) for offset, event in raw_events(path.read_bytes()) if event[4] != 160]
    assert len(expected) < len(stored(path))
    assert [int.from_bytes(event[13:17], "little") for event in events] == expected
