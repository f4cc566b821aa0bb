"""Logs whose event headers have more than 19 bytes: real logs of which every header is made longer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.columnar import SOURCE_COLUMNS
from binlogio.columnar.splits.skipped_events import skipped_events
from binlogio.columnar.splits.split_bounds import is_one_piece
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, HEADER_SIZE, TYPE_CODE_AT, EventType
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events.base import event_name
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.format.encoder import Encoder
from binlogio.storage.sources import find_logs
from binlogio.writer import BinlogWriter
from binlogio_cli.main import cli
from both_kernels import KERNELS, rows_and_error_by, tables_by
from corpus import MARIADB, MYSQL
from dumped_logs import json_of, text_of
from logs import IN_USE_AT, raw_events, with_checksum
from memory_storage import MemoryStorage

if TYPE_CHECKING:
    from pathlib import Path

SIZES: Final = (23, 27, 31)
LOGS: Final = [
    MYSQL / "rowimage_full",
    MYSQL / "metadata_full",
    MYSQL / "checksum_none",
    MYSQL / "rotated",
    MARIADB / "rowimage_full",
    MARIADB / "compressed",
    MARIADB / "checksum_none",
    MARIADB / "gtid",
]
HEADER_SIZE_AT: Final = HEADER_SIZE + 2 + 50 + 4  # of the first event
FOLLOWING: Final = 6
"""How many events are compared from each start: all of them would be quadratic."""
FIXED: Final = (EventType.FORMAT_DESCRIPTION_EVENT, EventType.ROTATE_EVENT)


def lengthened(data: bytes, size: int) -> tuple[bytes, dict[int, int]]:
    """Return the log with headers of `size` bytes, and where each event is now; positions and checksums are right."""
    made, moved = bytearray(BINLOG_MAGIC), {}
    has_checksum = True
    for offset, event in raw_events(data):
        code = event[TYPE_CODE_AT]
        new = bytearray(event)
        if code == EventType.FORMAT_DESCRIPTION_EVENT:
            new[HEADER_SIZE_AT] = size
            has_checksum = event[-CHECKSUM_SIZE - 1] == 1
        elif code not in FIXED:
            new[HEADER_SIZE:HEADER_SIZE] = bytes((offset + i) % 255 + 1 for i in range(size - HEADER_SIZE))
        new[9:13] = len(new).to_bytes(4, "little")
        new[13:17] = (len(made) + len(new)).to_bytes(4, "little")
        moved[offset] = len(made)
        made += with_checksum(new) if has_checksum or code == EventType.FORMAT_DESCRIPTION_EVENT else new
    return bytes(made), moved


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> int:
    """Return the header size in bytes."""
    return int(request.param)


@pytest.fixture(params=LOGS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def original(request: pytest.FixtureRequest) -> Path:
    """Provide a log of a real server."""
    return request.param / "binlog.000001"  # type: ignore[no-any-return]


@pytest.fixture
def longer(original: Path, size: int, tmp_path: Path) -> Path:
    """Provide the same log with longer headers, and the name that it had."""
    path = tmp_path / original.name
    path.write_bytes(lengthened(original.read_bytes(), size)[0])
    return path


def _events(path: Path) -> list[Any]:
    found = []
    with binlogio.open(path) as reader:
        for event in reader:
            changed: dict[str, Any] = {"header": replace(event.header, offset=0, log_pos=0, event_size=0, extra=b"")}
            if isinstance(event, FormatDescriptionEvent):
                changed["header_size"] = HEADER_SIZE
            found.append(replace(event, **changed))
    return found


def test_events_are_those_of_the_same_log_with_short_headers(original: Path, longer: Path) -> None:
    events = _events(longer)

    assert len(events) > 10
    assert events == _events(original)


def test_log_with_long_headers_is_written_back_byte_for_byte(longer: Path, size: int) -> None:
    made, encoder = bytearray(BINLOG_MAGIC), Encoder()
    extras = set()
    with binlogio.open(longer, open_payloads=False) as reader:
        for event in reader:
            assert event.header.offset == len(made)
            assert encoder.encode_at(event, len(made)) == encoder.encode(event)
            raw = longer.read_bytes()[len(made) : len(made) + event.header.event_size]
            again = encoder.encode(event)
            # zlib of other versions makes other bytes of the compressed events of MariaDB
            made += again if "COMPRESSED" not in event_name(event.header.type_code) else raw
            extras.add(len(event.header.extra))

    assert bytes(made) == longer.read_bytes()
    assert extras == {0, size - HEADER_SIZE}


def _tables(path: Path, moved: dict[int, int], **options: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, batch in binlogio.read_tables(path, **options, statement_changes="skip"):
        columns = batch.to_pydict() | {"file": None}
        columns["pos"] = [moved.get(pos, pos) for pos in columns["pos"]]
        found.setdefault(name, []).extend(repr(row) for row in zip(*[v for v in columns.values() if v], strict=True))
    return found


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_of_tables_are_the_same_at_other_positions(original: Path, longer: Path, size: int, threads: int) -> None:
    moved = lengthened(original.read_bytes(), size)[1]

    assert _tables(longer, {}, threads=threads) == _tables(original, moved)


def test_rows_as_json_are_the_same_at_other_positions(original: Path, longer: Path, size: int) -> None:
    moved = lengthened(original.read_bytes(), size)[1]
    expected = binlogio.read_rows(original, statement_changes="skip").to_table().to_pydict()
    found = binlogio.read_rows(longer, statement_changes="skip").to_table().to_pydict()

    assert found.pop("pos") == [moved[pos] for pos in expected.pop("pos")]
    assert found | {"file": 0} == expected | {"file": 0}


def test_source_columns_are_those_of_construct(longer: Path) -> None:
    data = longer.read_bytes()
    compiled, construct = (tables_by(kernel, data, source_columns=SOURCE_COLUMNS) for kernel in KERNELS)

    assert compiled == construct
    assert compiled


@pytest.mark.parametrize("is_compressed", [False, True])
def test_events_larger_than_a_window_are_those_of_construct(*, is_compressed: bool, size: int) -> None:
    """They are read as a whole; the payload of a compressed transaction is larger than the window."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("b", "longblob")))
    storage = MemoryStorage()
    variables = ServerVariables(binlog_transaction_compression=is_compressed)
    with BinlogWriter("binlog", storage=storage, variables=variables) as made, made.session() as session:
        for count in (1, 40):
            rows = [(number, bytes([number]) * (1 << 17)) for number in range(count)]
            session.execute(Statement("INSERT", (Insert(table, rows),)))
    data = lengthened(storage.streams()[0].read(), size)[0]
    compiled, construct = (rows_and_error_by(kernel, data, source_columns=["end_pos"]) for kernel in KERNELS)

    assert compiled == construct
    assert is_compressed or (compiled[1] is None and sum(map(len, compiled[0].values())) == 41)


def test_dump_shows_the_same_events_and_rows(original: Path, longer: Path, size: int) -> None:
    moved = lengthened(original.read_bytes(), size)[1]
    expected, found = json_of(original), json_of(longer)

    assert len(found) == len(expected) > 10
    for one, other in zip(found, expected, strict=True):
        assert one.pop("pos") == moved[other.pop("pos")]
        for name in ("file", "end", "log_pos", "checksum", "header_size"):
            one.pop(name, None), other.pop(name, None)
        assert one == other


def test_reading_begins_at_every_event_and_at_no_other_place(longer: Path) -> None:
    with binlogio.open(longer, open_payloads=False) as reader:
        offsets = [event.header.offset for event in reader]
    for number, offset in enumerate(offsets[1:], 1):
        with binlogio.open(longer, start_offset=offset, open_payloads=False) as reader:
            found = [event.header.offset for event in islice(reader, FOLLOWING)]
        assert found == [4, *offsets[number:]][:FOLLOWING]
    with (
        binlogio.open(longer, start_offset=offsets[2] + 4) as reader,
        pytest.raises(BinlogError, match="is not the start"),
    ):
        list(reader)


def test_log_with_long_headers_is_not_cut(longer: Path) -> None:
    """Groups are searched for by headers of 19 bytes."""
    assert is_one_piece(find_logs(longer)[0])


def test_statements_of_a_part_that_is_not_read_are_found(original: Path, longer: Path, size: int) -> None:
    moved = lengthened(original.read_bytes(), size)[1]
    expected = [(one.type_code, moved[one.offset], one.frame.body) for one in skipped_events(find_logs(original)[0])]

    assert [(one.type_code, one.offset, one.frame.body) for one in skipped_events(find_logs(longer)[0])] == expected
    assert expected


def test_undo_writes_the_same_log_with_short_headers(size: int, tmp_path: Path) -> None:
    """Servers of today read headers of 19 bytes only."""
    source = MYSQL / "metadata_full" / "binlog.000001"
    path = tmp_path / source.name
    path.write_bytes(lengthened(source.read_bytes(), size)[0])
    results = [
        CliRunner().invoke(
            cli,
            [
                "undo",
                "--no-progress",
                "--on-statement",
                "skip",
                "--to-binlog",
                str(tmp_path / f"{number}.000001"),
                str(log),
            ],
        )
        for number, log in enumerate((source, path))
    ]

    assert [result.exit_code for result in results] == [0, 0], results[1].output
    assert (tmp_path / "1.000001").read_bytes() == (tmp_path / "0.000001").read_bytes()


def test_rows_are_replayed_into_sqlite(size: int, tmp_path: Path) -> None:
    source = MYSQL / "metadata_full" / "binlog.000001"
    path = tmp_path / source.name
    path.write_bytes(lengthened(source.read_bytes(), size)[0])
    dumps = []
    for number, log in enumerate((source, path)):
        target = tmp_path / f"{number}.db"
        result = CliRunner().invoke(cli, ["replay", "--to", f"sqlite:///{target}", str(log)])
        assert result.exit_code == 0, result.output
        with closing(sqlite3.connect(target)) as database:
            dumps.append([line for line in database.iterdump() if "binlogio" not in line])

    assert dumps[0] == dumps[1]
    assert len(dumps[0]) > 5


def test_statements_for_a_server_have_short_headers(size: int, tmp_path: Path) -> None:
    source = MARIADB / "rowimage_full" / "binlog.000001"
    path = tmp_path / source.name
    path.write_bytes(lengthened(source.read_bytes(), size)[0])
    found, expected = (
        [line for line in text_of("--format", "sql", log).splitlines() if line.startswith("BINLOG")]
        for log in (path, source)
    )

    assert len(found) == len(expected) > 1
    for one, other in zip(found[1:], expected[1:], strict=True):
        assert len(one) == len(other)


def test_writer_does_not_go_on_in_such_a_log(size: int, tmp_path: Path) -> None:
    source = (MYSQL / "rowimage_full" / "binlog.000001").read_bytes()
    path = tmp_path / "binlog.000001"
    data = bytearray(lengthened(source, size)[0])
    data[IN_USE_AT] |= 1
    path.write_bytes(data)
    (tmp_path / "binlog.index").write_text("./binlog.000001\n")

    with pytest.raises(UnsupportedFeature, match="cannot be added to a log"), BinlogWriter(tmp_path / "binlog"):
        pass
    assert path.read_bytes() == data


@pytest.mark.parametrize("cut", [1, 5, 20, 25])
def test_log_that_ends_within_an_event_is_refused(size: int, tmp_path: Path, cut: int) -> None:
    data, moved = lengthened((MYSQL / "rowimage_full" / "binlog.000001").read_bytes(), size)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data[: max(moved.values()) + cut])

    with pytest.raises(BinlogFormatError) as caught:
        list(binlogio.read_tables(path))
    assert caught.value.offset == max(moved.values())


def test_wrong_checksum_is_found(size: int, tmp_path: Path) -> None:
    data, moved = lengthened((MYSQL / "rowimage_full" / "binlog.000001").read_bytes(), size)
    damaged = bytearray(data)
    last = max(moved.values())
    damaged[last + HEADER_SIZE + 1] ^= 1  # in what is not known
    path = tmp_path / "binlog.000001"
    path.write_bytes(damaged)

    with pytest.raises(BinlogError, match="checksum") as caught:
        list(binlogio.read_tables(path))
    assert caught.value.offset == last


def test_event_shorter_than_its_header_is_refused(size: int, tmp_path: Path) -> None:
    data, moved = lengthened((MYSQL / "checksum_none" / "binlog.000001").read_bytes(), size)
    at = sorted(moved.values())[2]
    short = data[at : at + 9] + (20).to_bytes(4, "little") + (at + 20).to_bytes(4, "little") + data[at + 17 : at + 20]
    path = tmp_path / "binlog.000001"
    path.write_bytes(data[:at] + short)

    with pytest.raises(BinlogFormatError, match="too short for its header") as caught:
        list(binlogio.read_tables(path))
    assert caught.value.offset == at


def test_size_that_changes_in_a_relay_log_holds_from_there_on(size: int, tmp_path: Path) -> None:
    """A relay log has a format description of the replica's, and after it one of the source's."""
    source = MYSQL / "rowimage_full" / "binlog.000001"
    first = bytearray(next(raw_events(source.read_bytes()))[1])
    first[17] |= 0x40  # RELAY_LOG
    log = lengthened(source.read_bytes(), size)[0]
    path = tmp_path / "relay.000001"
    path.write_bytes(BINLOG_MAGIC + with_checksum(first) + log[4:])

    found, expected = _tables(path, {}), _tables(source, {})
    assert {name: len(rows) for name, rows in found.items()} == {name: len(rows) for name, rows in expected.items()}
    assert found


def test_size_that_changes_in_another_log_is_refused(size: int, tmp_path: Path) -> None:
    source = (MYSQL / "rowimage_full" / "binlog.000001").read_bytes()
    first = next(raw_events(source))[1]
    path = tmp_path / "binlog.000001"
    path.write_bytes(BINLOG_MAGIC + first + lengthened(source, size)[0][4:])

    with pytest.raises(UnsupportedFeature, match="changes in the middle") as caught:
        list(binlogio.read_tables(path))
    assert caught.value.field == "header_size"
