"""`binlogio.archive.copy`: what is not changed has the bytes of the source, what is changed the rows that are left."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.archive import CopyOptions, NewLogs, copy_logs
from binlogio.archive.group_editor import GroupEditor
from binlogio.constants import BINLOG_MAGIC, HeaderFlag
from binlogio.errors import (
    BinlogError,
    BinlogFormatError,
    ChecksumMismatch,
    ConditionError,
    PositionError,
    ReplayError,
    UnsupportedFeature,
    WriterStateError,
)
from binlogio.events import RowsEvent
from binlogio.events.control import RowsQueryEvent, XidEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent, PreviousGtidsEvent
from binlogio.events.mariadb import MariadbGtidListEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.groups import GTID_EVENTS
from binlogio.options import Position
from binlogio.replay import ReplayFilter
from binlogio.selection.event_filter import parse_gtid_set
from binlogio.selection.row_condition import RowCondition
from binlogio.storage.event_stream import EventStream
from binlogio.storage.keyring import load_keyring
from binlogio.storage.sources import find_logs
from corpus import FIXTURES, MARIADB, MARIADB118, MYSQL, files
from logs import log as log_of
from logs import query

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.archive import CopySummary
    from corpus import CorpusFile

MANY: Final = MYSQL / "group_commit" / "binlog.000001"
ROWS: Final = MYSQL / "rowimage_full" / "binlog.000001"
JOINS: Final = MYSQL / "multi_table_stmt" / "binlog.000001"
TWO_GTIDS: Final = MYSQL / "gtid_on"
INSERTS: Final = ReplayFilter(operations=frozenset({"insert"}))
_IN_USE_AT: Final = len(BINLOG_MAGIC) + 17
_COLUMNS: Final = ("op", "timestamp", "server_id", "gtid", "schema", "table", "before", "after")


def copied(
    sources: Iterable[Path],
    target: Path,
    options: CopyOptions | None = None,
    *,
    keys: Path | None = None,
    repeats: bool = False,
) -> CopySummary:
    """Copy logs into one log, or into a directory if `target` is one; with `repeats`, also one that is given twice."""
    logs = find_logs([str(one) for one in sources])
    new = NewLogs.in_directory(str(target), "binlog.000001") if target.is_dir() else NewLogs.in_file(str(target))
    with new:
        return copy_logs(
            logs,
            new,
            options or CopyOptions(),
            keyring=None if keys is None else load_keyring(str(keys)),
            ignore_missing_logs=repeats,
        )


def rows(*logs: Path, keys: Path | None = None, **more: Any) -> list[dict[str, Any]]:
    """Return the row changes of logs, without what depends on their places."""
    batches = binlogio.read_rows(
        [str(log) for log in logs], keyring=None if keys is None else str(keys), **more, statement_changes="skip"
    )
    return [row for batch in batches for row in batch.select(_COLUMNS).to_pylist()]


def unnamed(row: dict[str, Any]) -> list[object]:
    """Return a row change without the names of columns, which the DDL before a cut has."""
    images = (row.pop("before"), row.pop("after"))
    return [*row.values(), *(list(json.loads(image).values()) for image in images if image is not None)]


def checked(log: Path) -> list[Any]:
    """Return the events of a log, whose positions, checksums and lengths of groups are right."""
    found, starts, lengths = [], [], []
    with binlogio.open(log) as reader:
        for event in reader:
            found.append(event)
            header = event.header
            if header.inner is not None:
                continue
            assert header.log_pos in (0, header.offset + header.event_size)
            group = reader.group
            if group is not None and event is group.first and hasattr(event, "transaction_length"):
                starts.append(header.offset)
                lengths.append(event.transaction_length)
            if group is not None and group.last is event and starts:
                assert lengths[-1] in (None, reader.position.offset - starts[-1])
        assert reader.torn_tail is None
        assert not reader.in_use
    return found


def whole(file: CorpusFile) -> bytes:
    """Return the plain bytes of a log with the flag that a copy clears."""
    path = file.path.with_name(f"{file.path.name}.decrypted") if file.encrypted else file.path
    data = bytearray(path.read_bytes())
    data[_IN_USE_AT] &= ~HeaderFlag.BINLOG_IN_USE & 0xFF
    return bytes(data)


WHOLE: Final = [file for file in files() if not file.damaged and "000" in file.path.name and file.path.suffix != ".zst"]
PLAIN: Final = [file for file in WHOLE if not (file.encrypted and MYSQL not in file.path.parents)]


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_copy_without_changes_has_the_bytes_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_indexed: bool
) -> None:
    """Of every log of the corpus, MySQL's encrypted ones decrypted; also if events are read one by one."""
    if not is_indexed:
        monkeypatch.setattr(EventStream, "has_headers", False)
    tried = 0
    for number, file in enumerate(PLAIN):
        size = file.path.stat().st_size
        if (not is_indexed and size > 20_000) or (file.keys is not None and not file.encrypted):
            continue
        (tmp_path / str(number)).mkdir()
        target = tmp_path / str(number) / file.path.name
        copied([file.path], target, keys=file.keys)

        assert target.read_bytes() == whole(file), file.id
        tried += 1
    assert tried > 15


@pytest.mark.parametrize(
    "options",
    [
        CopyOptions(),
        CopyOptions(max_groups=2),
        CopyOptions(checksum=False),
        CopyOptions(wanted=ReplayFilter(start_time=9)),
    ],
)
def test_events_that_are_read_in_pieces_are_copied_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: CopyOptions
) -> None:
    """Rows events and compressed transactions, at other places and with other checksums too."""
    sources = [file for file in PLAIN if file.path.stat().st_size < 20_000 and file.keys is None]
    monkeypatch.setattr(EventStream, "has_headers", False)  # events are read one by one
    found: list[list[bytes]] = []
    for most in (1 << 23, 0):
        monkeypatch.setattr("binlogio.archive.event_batches._MOST_WHOLE", most)
        found.append([])
        for number, file in enumerate(sources):
            folder = tmp_path / f"{most}-{number}"
            folder.mkdir()
            copied([file.path], folder, options)
            found[-1] += [path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix != ".index"]

    assert found[1] == found[0]
    assert len(found[0]) > 15


def test_damage_in_an_event_that_is_read_in_pieces_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no copy then."""
    monkeypatch.setattr(EventStream, "has_headers", False)
    monkeypatch.setattr("binlogio.archive.event_batches._MOST_WHOLE", 0)
    data = bytearray(ROWS.read_bytes())
    with binlogio.open(ROWS) as reader:
        header = next(event.header for event in reader if isinstance(event, RowsEvent))
    data[header.offset + header.event_size - 5] ^= 1
    (tmp_path / "damaged.000001").write_bytes(data)
    with pytest.raises(ChecksumMismatch) as caught:
        copied([tmp_path / "damaged.000001"], tmp_path / "copy.000001")

    assert caught.value.offset == header.offset
    assert not (tmp_path / "copy.000001").exists()


def test_events_that_mariadb_encrypts_are_copied_as_plain_ones(tmp_path: Path) -> None:
    """START_ENCRYPTION is not in the copy, which no key is needed for."""
    for number, folder in enumerate((MARIADB / "encrypted", MARIADB118 / "encrypted")):
        keys, log = folder / "keys.txt", folder / "binlog.000001"
        copied([log], target := tmp_path / f"plain.{number:06}", keys=keys)

        assert rows(target) == rows(log, keys=keys)
        assert checked(target)


@pytest.mark.parametrize(
    ("log", "keyring"),
    [
        (MYSQL / "gtid_on" / "binlog.000001", MYSQL / "encrypted" / "keyring"),
        (MARIADB / "gtid" / "binlog.000001", MARIADB / "encrypted" / "keys.txt"),
    ],
    ids=["mysql", "mariadb"],
)
def test_a_log_that_is_encrypted_and_decrypted_again_is_the_same(tmp_path: Path, log: Path, keyring: Path) -> None:
    locked, opened = tmp_path / "locked" / log.name, tmp_path / "opened" / log.name
    locked.parent.mkdir()
    opened.parent.mkdir()
    copied([log], locked, CopyOptions(encrypts_with=load_keyring(str(keyring))))
    copied([locked], opened, keys=keyring)

    assert rows(locked, keys=keyring) == rows(log)
    with pytest.raises(UnsupportedFeature, match="encrypted"):
        rows(locked)
    assert b"corpus" not in locked.read_bytes()
    assert opened.read_bytes() == log.read_bytes()


@settings(max_examples=10)
@given(groups=st.integers(1, 200), source=st.sampled_from([MANY, MARIADB / "group_commit" / "binlog.000001"]))
def test_a_log_that_is_split_and_merged_again_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, groups: int, source: Path
) -> None:
    """Byte for byte; the parts have the GTIDs of the parts before them in their heads."""
    folder = tmp_path_factory.mktemp("split")
    copied([source], folder, CopyOptions(max_groups=groups))
    parts = sorted(folder.glob("binlog.0*"))
    again = folder / "again" / source.name
    again.parent.mkdir()
    copied(parts, again)

    assert [line.strip() for line in (folder / "binlog.index").read_text().splitlines()] == [
        f"./{part.name}" for part in parts
    ]
    end = whole(next(file for file in PLAIN if file.path == source))
    assert again.read_bytes()[: again.stat().st_size - 40] == end[: again.stat().st_size - 40]
    assert rows(*parts) == rows(source)


def test_heads_of_the_parts_have_the_gtids_before_them(tmp_path: Path) -> None:
    copied([MANY], tmp_path, CopyOptions(max_groups=100))
    executed: set[Any] = set()
    heads = []
    for part in sorted(tmp_path.glob("binlog.0*")):
        for event in checked(part):
            if isinstance(event, PreviousGtidsEvent):
                heads.append((set(event.gtid_set.gtids()), set(executed)))
            elif isinstance(event, GtidEvent):
                executed.add(event.gtid)

    assert len(heads) == 4
    assert all(found == before for found, before in heads)


def test_heads_of_mariadb_have_the_last_gtid_of_each_domain_and_server(tmp_path: Path) -> None:
    """And name their own log in BINLOG_CHECKPOINT."""
    copied([MARIADB / "gtid" / "binlog.000001"], tmp_path, CopyOptions(max_groups=5))
    state: dict[tuple[int, int], int] = {}
    parts = sorted(tmp_path.glob("binlog.0*"))
    for part in parts:
        for event in checked(part):
            if isinstance(event, MariadbGtidListEvent):
                assert {(one.domain_id, one.server_id): one.sequence_number for one in event.gtids} == state
            elif isinstance(event, GTID_EVENTS):
                gtid: Any = event.gtid
                state[gtid.domain_id, gtid.server_id] = gtid.sequence_number
            elif type(event).__name__ == "BinlogCheckpointEvent":
                assert event.file == part.name
    assert len(parts) == 4


def test_a_cut_has_the_groups_from_its_start_to_its_stop(tmp_path: Path) -> None:
    """The head has the GTIDs before it."""
    with binlogio.open(MANY) as reader:
        places = [group.first.header.offset for group in reader.groups()]
    start, stop = places[50], places[150]
    wanted = ReplayFilter(start=Position(MANY.name, start), stop=Position(MANY.name, stop))
    summary = copied([MANY], target := tmp_path / "cut.000001", CopyOptions(wanted=wanted))
    events = checked(target)

    expected = rows(MANY, where=binlogio.EventFilter(pos=binlogio.Range(start, stop)))
    assert [unnamed(row) for row in rows(target)] == [unnamed(row) for row in expected]
    assert (summary.groups, summary.left_out) == (100, 50)
    assert type(events[-1]).__name__ == "StopEvent"
    previous = next(event for event in events if isinstance(event, PreviousGtidsEvent))
    assert previous.gtid_set.count == 50


def test_a_position_is_in_a_log_given_by_its_path(tmp_path: Path) -> None:
    """A cut over two logs of different series, whose directories do not count."""
    logs = [Path(shutil.copy(MANY, tmp_path / name)) for name in ("b.000007", "a.000003")]
    with binlogio.open(MANY) as reader:
        places = [group.first.header.offset for group in reader.groups()]
    cuts = (
        (Position(str(logs[0]), places[50]), None, (2 * len(places) - 50, 50)),
        (None, Position(str(logs[1]), places[30]), (len(places) + 30, 0)),
        (Position("b.000007", places[50]), Position("a.000003", places[30]), (len(places) - 20, 50)),
        (None, Position(str(logs[0]), places[30]), (30, 0)),
    )
    for number, (start, stop, counts) in enumerate(cuts):
        options = CopyOptions(wanted=ReplayFilter(start=start, stop=stop))
        summary = copied(logs, tmp_path / f"cut.{number:06d}", options, repeats=True)

        assert (summary.groups, summary.left_out) == counts


def test_a_position_in_another_log_is_refused(tmp_path: Path) -> None:
    options = CopyOptions(wanted=ReplayFilter(start=Position("other.000001", 4)))

    with pytest.raises(PositionError, match="none of the given logs"):
        copied([MANY], tmp_path / "x", options)


def test_groups_are_chosen_by_gtid(tmp_path: Path) -> None:
    with binlogio.open(MANY) as reader:
        gtids = [event.gtid for event in reader if isinstance(event, GtidEvent)]
    one = gtids[7]
    include = parse_gtid_set(f"{one.uuid}:8-9:20")
    summary = copied([MANY], target := tmp_path / "x", CopyOptions(wanted=ReplayFilter(include_gtids=include)))

    assert summary.groups == 3
    assert [event.gtid.gno for event in checked(target) if isinstance(event, GtidEvent)] == [8, 9, 20]


@pytest.mark.parametrize("log", [JOINS, MYSQL / "compressed" / "binlog.000001", MARIADB / "gtid" / "binlog.000001"])
def test_rows_of_other_tables_are_left_out(tmp_path: Path, log: Path) -> None:
    """Groups of which nothing is left keep their GTIDs; each statement ends with STMT_END."""
    tables = sorted({f"{row['schema']}.{row['table']}" for row in rows(log)})
    for number, table in enumerate(tables):
        target = tmp_path / f"{number}"
        copied([log], target, CopyOptions(wanted=ReplayFilter(tables=(table,))))
        events = checked(target)
        of_source = checked(log)
        before = {type(event) for event in events}

        assert rows(target) == [row for row in rows(log) if f"{row['schema']}.{row['table']}" == table]
        assert gtids_of(events) == gtids_of(of_source)
        assert TransactionPayloadEvent not in before or log.parent.name == "compressed"
        last: Any = None
        for event in events:
            if last is not None and not isinstance(event, RowsEvent):
                assert last.ends_statement or type(event).__name__ == "TableMapEvent"
            last = event if isinstance(event, RowsEvent) else None


def gtids_of(events: list[Any]) -> list[Any]:
    return [event.gtid for event in events if isinstance(event, GTID_EVENTS) and hasattr(event, "gtid")]


@pytest.mark.parametrize("end", [XidEvent(1), query("COMMIT")], ids=["XID", "COMMIT"])
def test_a_table_map_without_rows_stays_before_the_end_of_its_transaction(tmp_path: Path, end: Any) -> None:
    """Also where the copy is filtered; after the end it would be in no transaction."""
    table = TableMapEvent(9, 1, "d", "t", (3,), (0,), (True,))
    (tmp_path / "source").write_bytes(log_of(query("BEGIN"), RowsQueryEvent(b"DELETE FROM t"), table, end))
    copied([tmp_path / "source"], tmp_path / "copy", CopyOptions(wanted=ReplayFilter(tables=("t",))))

    assert (tmp_path / "copy").read_bytes() == (tmp_path / "source").read_bytes()


def test_empty_groups_are_dropped_on_request(tmp_path: Path) -> None:
    tables = sorted({f"{row['schema']}.{row['table']}" for row in rows(JOINS)})
    wanted = ReplayFilter(tables=tuple(tables[:1]))
    kept = copied([JOINS], tmp_path / "kept", CopyOptions(wanted=wanted))
    dropped = copied([JOINS], tmp_path / "dropped", CopyOptions(wanted=wanted, drops_empty=True))

    assert kept.emptied == dropped.dropped > 0
    assert kept.groups - kept.emptied == dropped.groups
    assert rows(tmp_path / "kept") == rows(tmp_path / "dropped")


def test_a_statement_that_only_partly_concerns_selected_tables_is_refused(tmp_path: Path) -> None:
    """No file is left."""
    log = MYSQL / "format_statement" / "binlog.000001"
    with pytest.raises((ReplayError, UnsupportedFeature)) as caught:
        copied([log], tmp_path / "x", CopyOptions(wanted=INSERTS))

    assert caught.value.offset is not None
    assert list(tmp_path.iterdir()) == []


def test_operations_are_chosen(tmp_path: Path) -> None:
    copied([ROWS], target := tmp_path / "x", CopyOptions(wanted=ReplayFilter(operations=frozenset({"delete"}))))

    assert rows(target) == [row for row in rows(ROWS) if row["op"] == "delete"]
    assert checked(target)


@pytest.mark.parametrize("log", [one / "incident" / "binlog.000001" for one in (MYSQL, MARIADB)])
@pytest.mark.parametrize("text", ["after.total > 20", "id = 1002 OR status = 'paid'"])
def test_rows_are_chosen_by_their_values(tmp_path: Path, log: Path, text: str) -> None:
    """Rows of tables without the columns are left out."""
    options = CopyOptions(wanted=ReplayFilter(condition=(condition := RowCondition(text))))
    batches = binlogio.read_rows(str(log), table="shop.orders")
    expected = [row["op"] for batch in batches for row in batch.filter(condition.mask(batch)).to_pylist()]
    copied([log], target := tmp_path / "x", options)

    assert [row["op"] for row in rows(target)] == expected
    assert 0 < len(expected) < sum(row["table"] == "orders" for row in rows(log))
    assert {row["table"] for row in rows(target)} == {"orders"}
    assert checked(target)


def test_rows_whose_columns_have_no_names_are_not_chosen_by_values(tmp_path: Path) -> None:
    table = TableDefinition("d", "t", (ColumnDefinition("a", "int"),))
    minimal = ServerVariables(binlog_row_metadata="MINIMAL")
    with BinlogWriter(tmp_path / "b", variables=minimal) as log, log.session() as session:
        session.execute(Statement("INSERT", (Insert(table, ({"a": 2},)),)))

    with pytest.raises(ConditionError, match=r"b.000001: at \d+: .*its columns have no names"):
        copied(
            [tmp_path / "b.000001"], tmp_path / "x", CopyOptions(wanted=ReplayFilter(condition=RowCondition("a > 1")))
        )


@pytest.mark.parametrize(
    "log", [ROWS, MYSQL / "checksum_none" / "binlog.000001", MARIADB / "basic_row" / "binlog.000001"]
)
def test_checksums_are_added_and_removed(tmp_path: Path, log: Path) -> None:
    """There and back the bytes are those of a copy."""
    sizes = []
    for name, checksum in ("none", False), ("crc32", True):
        copied([log], target := tmp_path / name, CopyOptions(checksum=checksum))
        assert rows(target) == rows(log)
        sizes.append(target.stat().st_size)
        with binlogio.open(target) as reader:
            next(reader)
            assert reader.context.has_checksum is checksum
        checked(target)
    there, back = tmp_path / "there" / log.name, tmp_path / "back" / log.name
    there.parent.mkdir()
    back.parent.mkdir()
    with binlogio.open(log) as reader:
        next(reader)
        had = reader.context.has_checksum
    copied([log], there, CopyOptions(checksum=not had))
    copied([there], back, CopyOptions(checksum=had))

    assert sizes[0] < sizes[1]
    assert back.read_bytes() == log.read_bytes()


def test_transactions_of_mysql_are_opened_and_compressed(tmp_path: Path) -> None:
    log = MYSQL / "compressed" / "binlog.000001"
    copied([log], tmp_path / "plain", CopyOptions(compression=False))
    copied([tmp_path / "plain"], tmp_path / "packed", CopyOptions(compression=True))
    plain, packed = checked(tmp_path / "plain"), checked(tmp_path / "packed")

    assert not any(isinstance(event, TransactionPayloadEvent) for event in plain)
    assert any(isinstance(event, TransactionPayloadEvent) for event in packed)
    assert rows(tmp_path / "plain") == rows(tmp_path / "packed") == rows(log)
    assert (tmp_path / "packed").stat().st_size < (tmp_path / "plain").stat().st_size


@pytest.mark.parametrize("folder", [MARIADB, MARIADB118])
def test_events_of_mariadb_are_opened_and_compressed(tmp_path: Path, folder: Path) -> None:
    log = folder / "compressed" / "binlog.000001"
    copied([log], tmp_path / "plain", CopyOptions(compression=False))
    copied([tmp_path / "plain"], tmp_path / "packed", CopyOptions(compression=True))
    codes = [
        {event.header.type_code for event in checked(path)} & set(range(165, 172))
        for path in (tmp_path / "plain", tmp_path / "packed")
    ]

    assert not codes[0]
    assert codes[1]
    assert rows(tmp_path / "plain") == rows(tmp_path / "packed") == rows(log)


def test_schemas_are_renamed_in_rows_and_statements(tmp_path: Path) -> None:
    log = MYSQL / "ddl_mix" / "binlog.000001"
    names = {row["schema"] for row in rows(log)}
    wanted = ReplayFilter(rewrite_db={name: f"{name}_restored" for name in names})
    copied([log], target := tmp_path / "x", CopyOptions(wanted=wanted))
    schemas = {event.schema for event in checked(target) if hasattr(event, "sql")}

    assert rows(target) == [{**row, "schema": f"{row['schema']}_restored"} for row in rows(log)]
    assert not schemas & names


def test_logs_that_become_one_have_a_clock_that_does_not_go_back(tmp_path: Path) -> None:
    """A server counts from 1 in each log."""
    sources = sorted(TWO_GTIDS.glob("binlog.0*"))
    copied(sources, target := tmp_path / "x")
    clocks: list[Any] = [
        (event.last_committed, event.sequence_number)
        for event in checked(target)
        if isinstance(event, (GtidEvent, GtidTaggedEvent, AnonymousGtidEvent))
    ]

    assert len(clocks) > 17
    assert [number for _, number in clocks] == list(range(1, len(clocks) + 1))
    assert all(last < number for last, number in clocks)
    assert rows(target) == rows(*sources)


def test_logs_of_two_vendors_do_not_become_one(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match="two server versions"):
        copied([ROWS, MARIADB / "basic_row" / "binlog.000001"], tmp_path / "x")

    assert list(tmp_path.iterdir()) == []


def test_an_incomplete_group_at_the_end_is_not_copied(tmp_path: Path) -> None:
    """Cut at every event of the last groups, in use."""
    data = bytearray(MANY.read_bytes())
    data[_IN_USE_AT] |= HeaderFlag.BINLOG_IN_USE
    with binlogio.open(MANY) as reader:
        ends = [event.header.offset + event.header.event_size for event in reader][-14:-1]
    counts = []
    for end in ends:
        (tmp_path / "cut").write_bytes(data[:end])
        summary = copied([tmp_path / "cut"], target := tmp_path / f"{end}")
        with binlogio.open(target) as reader:
            found = [bool(list(group.events)) and group.last is not None for group in reader.groups()]
        counts.append((len(found), bool(summary.unfinished)))
        assert all(found)
        assert summary.groups == len(found)

    assert {unfinished for _, unfinished in counts} == {False, True}


def test_damage_ends_the_copy_without_a_file(tmp_path: Path) -> None:
    data = bytearray(MANY.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(BinlogFormatError):
        copied([tmp_path / "bad"], tmp_path / "x")

    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_existing_files_and_inputs_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"kept")
    with pytest.raises(WriterStateError, match="exists already"):
        copied([MANY], tmp_path / "x")
    (tmp_path / "binlog.000002").write_bytes(b"kept")
    with pytest.raises(WriterStateError, match="exists already"):
        copied([MANY], tmp_path, CopyOptions(max_groups=200))
    with pytest.raises(WriterStateError, match="not a regular file"):
        NewLogs.in_file(os.devnull, replaces=True)
    source = tmp_path / "source"
    source.write_bytes(MANY.read_bytes())
    with pytest.raises(WriterStateError, match="one of the inputs"):
        NewLogs.in_file(str(source), replaces=True, inputs=[str(source)])

    assert sorted(path.name for path in tmp_path.iterdir()) == ["binlog.000002", "source", "x"]


def test_directory_that_another_program_makes_meanwhile_is_kept(tmp_path: Path) -> None:
    """The new directory gets its name when it is complete."""
    out = tmp_path / "out"
    new = NewLogs.in_directory(str(out), "binlog.000001").__enter__()
    copy_logs(find_logs(str(MANY)), new, CopyOptions())
    out.mkdir()
    (out / "file").write_bytes(b"kept")
    with pytest.raises(OSError, match="not empty") as caught:
        new.__exit__(None)

    assert caught.value.filename == str(out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert [path.name for path in out.iterdir()] == ["file"]


def test_one_file_that_is_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WriterStateError, match="cannot be split"):
        copied([MANY], tmp_path / "x", CopyOptions(max_groups=1))


def test_fixtures_are_used() -> None:
    assert FIXTURES.is_dir()
    assert len(PLAIN) > 40


EDITS: Final = (
    CopyOptions(checksum=True),
    CopyOptions(checksum=False),
    CopyOptions(wanted=ReplayFilter(exclude_tables=("*.a*", "*.*b"))),
    CopyOptions(wanted=ReplayFilter(exclude_tables=("*.t*",), operations=frozenset({"delete"})), drops_empty=True),
    CopyOptions(wanted=INSERTS, checksum=True),
    CopyOptions(wanted=ReplayFilter(rewrite_db={"corpus": "a_longer_name", "shop": "s"}), max_groups=20),
)
LOGS: Final = [
    *(MYSQL / name / "binlog.000001" for name in (
        "multi_table_stmt", "rowimage_full", "gtid_on", "gtid_off", "rows_query", "ddl_mix",
        "checksum_none", "partial_json", "compressed", "format_statement", "incident",
    )),
    *(MARIADB118 / name / "binlog.000001" for name in ("gtid", "rowimage_minimal", "compressed")),
]  # fmt: skip


def edited_by(
    implementation: str, logs: Iterable[Path], folder: Path, options: CopyOptions
) -> tuple[object, list[bytes]]:
    """Return the summary of a copy, or the error, and the new logs; "python": groups are edited event by event."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if implementation == "python":
            patch.setattr(GroupEditor, "whole_groups", lambda *_, **__: None)
            patch.setattr(EventStream, "has_headers", False)
        try:
            return copied(logs, folder, options), [one.read_bytes() for one in sorted(folder.glob("binlog.0*"))]
        except BinlogError as exc:
            return type(exc), []


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.parent.name}-{log.parent.name}")
def test_the_kernel_edits_groups_as_python_does(tmp_path: Path, log: Path) -> None:
    logs = sorted(log.parent.glob("binlog.00000?"))[:2]
    for number, options in enumerate(EDITS):
        kernel, python = (
            edited_by(implementation, logs, tmp_path / f"{number}-{implementation}", options)
            for implementation in ("kernel", "python")
        )
        assert kernel == python, options


@settings(max_examples=60)
@given(data=st.data())
def test_any_change_of_a_log_is_copied_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """In a log without checksums, so that events are damaged inside, or shorter than they may be."""
    folder = tmp_path_factory.mktemp("any")
    log = data.draw(st.sampled_from([MYSQL, MARIADB])) / "checksum_none" / "binlog.000001"
    raw = bytearray(log.read_bytes())
    with binlogio.open(log) as reader:
        headers = [event.header for event in reader][2:]
    header = data.draw(st.sampled_from(headers))
    end, size = header.offset + header.event_size, data.draw(st.integers(19, header.event_size))
    raw[header.offset + 9 : header.offset + 13] = size.to_bytes(4, "little")
    if data.draw(st.booleans()):
        raw[data.draw(st.integers(header.offset + 19, end - 1))] ^= data.draw(st.integers(1, 255))
    del raw[header.offset + size : end]
    (folder / "bad").write_bytes(raw)
    for number, options in enumerate((
        CopyOptions(),
        CopyOptions(checksum=True),
        CopyOptions(wanted=ReplayFilter(exclude_tables=("*.a*",))),
        CopyOptions(wanted=INSERTS, compression=True),
        CopyOptions(wanted=ReplayFilter(rewrite_db={"corpus": "other"})),
    )):  # fmt: skip
        try:
            summary = copied([folder / "bad"], folder / f"{number}", options)
        except BinlogError:
            assert not (folder / f"{number}").exists()
        else:
            assert summary.groups >= 0
    options = data.draw(st.sampled_from(EDITS))
    kernel, python = (
        edited_by(implementation, [folder / "bad"], folder / f"by {implementation}", options)
        for implementation in ("kernel", "python")
    )
    assert kernel == python or python[1] == []  # Python parses more, and may find more
