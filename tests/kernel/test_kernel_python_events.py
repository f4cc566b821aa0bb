"""Events by the kernel and by construct: the same objects, positions, frames, and the same errors."""

from __future__ import annotations

import gc
import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, ColumnType, EventType
from binlogio.errors import BinlogError, TruncatedEvent
from binlogio.events import EVENT_CODECS, EventHeader
from binlogio.events.base import ParseContext
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.format.decoder import Decoder
from binlogio.format.framing import EventFrame, EventFramer, Framing
from binlogio.gtid import Uuid
from binlogio.schema.ddl.first_words import may_define
from binlogio.selection.selection import Selection
from both_readers import assert_same, choices, chosen
from corpus import CorpusFile, files
from log_cases import table_map_of
from logs import description, encode, header, log, query, raw_events, transaction, with_checksum
from rowimage_cases import column

if TYPE_CHECKING:
    from collections.abc import Iterator

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
LOGS = [file for file in files() if not file.encrypted and file.path.stat().st_size < 400_000]
SAMPLES = [
    file.path.read_bytes()
    for file in LOGS
    if file.path.read_bytes()[:4] == BINLOG_MAGIC and file.path.stat().st_size < 6_000
]


@pytest.mark.parametrize("file", LOGS, ids=lambda file: file.id)
def test_events_of_real_logs_are_the_same(file: CorpusFile) -> None:
    """In every file, with positions, frames, table maps, and the error that ends a damaged one."""
    assert assert_same(file.path.read_bytes()) > 1


@settings(max_examples=150, suppress_health_check=SLOW, deadline=None)
@given(st.data())
def test_events_of_damaged_logs_are_the_same(data: st.DataObject) -> None:
    """A byte is another one, bytes are missing or too many; with the checksums that these events have."""
    sample = data.draw(st.sampled_from(SAMPLES))
    events = [bytearray(event) for _, event in raw_events(sample)]
    for _ in range(data.draw(st.integers(1, 3))):
        event = data.draw(st.sampled_from(events))
        at = data.draw(st.integers(0, len(event) - 1))
        how = data.draw(st.sampled_from(["change", "cut", "insert"]))
        if how == "change":
            event[at] = data.draw(st.integers(0, 255))
        elif how == "cut":
            del event[at : at + data.draw(st.integers(1, 9))]
        else:
            event[at:at] = data.draw(st.binary(min_size=1, max_size=9))
        if at > 12 and data.draw(st.booleans()):
            event[9:13] = len(event).to_bytes(4, "little")
    sums = data.draw(st.booleans())
    body = b"".join(with_checksum(event) if sums and len(event) > CHECKSUM_SIZE else bytes(event) for event in events)

    assert_same(BINLOG_MAGIC + body, verify_checksum=data.draw(st.booleans()))


@settings(max_examples=120, suppress_health_check=SLOW, deadline=None)
@given(st.data())
def test_logs_read_from_any_offset_to_any_other_are_the_same(data: st.DataObject) -> None:
    """The offsets are those of events, or not."""
    sample = data.draw(st.sampled_from(SAMPLES))
    places = [at for at, _ in raw_events(sample)]
    place = st.sampled_from(places) | st.integers(0, len(sample) + 9)

    assert_same(
        sample,
        start_offset=data.draw(st.none() | place),
        stop_offset=data.draw(st.none() | place),
    )


GTIDS = (GtidEvent, AnonymousGtidEvent, GtidTaggedEvent, MariadbGtidEvent)
GTID_CODES = (EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT, EventType.MARIADB_GTID_EVENT)


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_gtid_events_of_any_body_are_those_of_their_codecs(data: st.DataObject) -> None:
    """Each optional part of the body is there or not, whole or not."""
    code = data.draw(st.sampled_from(GTID_CODES))
    numbers = st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF])
    if code == EventType.MARIADB_GTID_EVENT:
        body = bytes(12) + bytes([data.draw(st.integers(0, 255))]) + bytes(data.draw(st.lists(numbers, max_size=30)))
    else:
        gno = data.draw(st.sampled_from([0, 1, 77, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]))
        body = b"\1" + bytes(range(16)) + gno.to_bytes(8, "little")
        if data.draw(st.booleans()):
            body += b"\2" + bytes(16)
        body += bytes(data.draw(st.lists(numbers, max_size=34)))

    assert by_kernel(code, body) in (by_codec(code, body), None)


@given(st.sampled_from(GTID_CODES), st.integers(0, 60))
def test_usual_gtid_events_are_made_by_the_kernel(code: EventType, size: int) -> None:
    """Those that the encoder writes, so that the test above compares something."""
    kind = EVENT_CODECS[code].event_class
    if code == EventType.MARIADB_GTID_EVENT:
        event = kind(sequence_number=size, domain_id=3, flags=2, commit_id=size, header=header(code))
    else:
        event = kind(
            **({"uuid": Uuid(bytes(range(16))), "gno": size + 1} if code == EventType.GTID_LOG_EVENT else {}),
            last_committed=size,
            sequence_number=size + 1,
            immediate_commit_timestamp=1 << size % 55,
            original_commit_timestamp=7 if size % 2 else None,
            transaction_length=1 << size % 40,
            immediate_server_version=90_704,
            original_server_version=80_034 if size % 3 else None,
            commit_group_ticket=size if size % 5 else None,
            header=header(code),
        )
    body = EVENT_CODECS[code].build(event)

    assert by_kernel(code, body) == by_codec(code, body) is not None


def by_codec(code: int, body: bytes) -> Any:
    try:
        return EVENT_CODECS[code].parse(EventHeader(timestamp=5, type_code=code, event_size=19 + len(body)), body)
    except BinlogError:
        return None


def by_kernel(code: int, body: bytes) -> Any:
    """Return the event that the kernel makes of a body; None where it leaves it to the codec."""
    framer = EventFramer(context=description(0).context)
    framer.feed(b"\5\0\0\0" + bytes([code]) + bytes(4) + (19 + len(body)).to_bytes(4, "little") + bytes(6) + body)
    events = Decoder().cut(framer)
    return events[0] if events else None


def test_known_bodies_mean_something_else_in_another_format() -> None:
    """The second format description of a file may have other post-headers."""
    first = log(*transaction(1), *transaction(2))
    sizes = (*description().post_header_sizes[:1], 11, *description().post_header_sizes[2:])
    second = encode([description(sizes=sizes), *transaction(3)], offset=len(first))

    assert assert_same(first + second) > 6


def test_most_events_are_made_by_the_kernel() -> None:
    """Of a log of one kind of transaction, all but the first one's."""
    data = log(*(event for number in range(500) for event in transaction(number)))
    made, framer, decoder = 0, EventFramer(), Decoder()
    framer.feed(data)
    framer.finish()
    while isinstance(frame := framer.next_frame(), EventFrame):
        list(decoder.decode(frame))
        while events := decoder.cut(framer):
            made += len(events)

    assert made >= 1_498


def test_bodies_are_forgotten_where_they_become_too_many() -> None:
    """A log of statements in always other schemas is read as before."""
    queries = [query("BEGIN", schema=f"{'s' * 60}{number}") for number in range(5_000)]

    assert assert_same(log(*queries, *queries[-10:])) > 5_000


def test_an_event_over_one_mebibyte_is_left_to_the_framer() -> None:
    """Its size is compared with its position first."""
    big = query("x" * (1 << 20))

    assert assert_same(log(*transaction(1), big, *transaction(2))) > 7


def test_a_header_extension_is_left_to_the_framer() -> None:
    """A format description may announce a header of more than 19 bytes."""
    context: ParseContext = replace(description().context, header_size=21)
    framer = EventFramer(context=context)
    framer.feed(encode(transaction(1)))

    assert Decoder().cut(framer) == []


def rows_of_many_tables(size: int) -> Iterator[Any]:
    """Yield the table map of each of 100 tables, and an event with a row of a BLOB of this size."""
    table = table_map_of([column(ColumnType.BLOB, 3, collation_id=63)])
    image = b"\0" + size.to_bytes(3, "little") + bytes(size)
    for number in range(100):
        yield replace(table, table_id=number)
        yield WriteRowsEvent(number, 1, b"", 1, b"\1", image, header(EventType.WRITE_ROWS_EVENT))


def test_images_of_events_that_were_read_are_not_kept() -> None:
    """The heads of rows events are kept to find them again, without the images."""
    size = 1 << 18
    with binlogio.open(io.BytesIO(log(*rows_of_many_tables(size)))) as reader:
        count = sum(isinstance(event, WriteRowsEvent) for event in reader)
        gc.collect()
        kept = sum(len(one.images) for one in gc.get_objects() if type(one) is WriteRowsEvent)

    assert count == 100
    assert kept < 10 * size


# ----------------------------------------------------------------------------------------------------- groups to choose


@pytest.mark.parametrize("file", LOGS, ids=lambda file: file.id)
def test_groups_that_are_passed_over_are_not_wanted(file: CorpusFile) -> None:
    """Nothing that is wanted is missing, nothing else is given; names from DDL that was passed over are known."""
    data = file.path.read_bytes()
    for choice in choices(data):
        found, expected = chosen(data, choice, by_reader=True), chosen(data, choice, by_reader=False)

        assert found[0] == expected[0], choice
        assert choice.stop_time is not None or found[1] == expected[1]


def _has_checksums(data: bytes) -> bool:
    with binlogio.open(io.BytesIO(data)) as reader:
        next(reader)
        return reader.context.has_checksum


@settings(max_examples=120, suppress_health_check=SLOW, deadline=None)
@given(st.data())
def test_damage_in_groups_that_are_passed_over_is_found(data: st.DataObject) -> None:
    """A flipped byte is a wrong checksum, at the same place; a cut log is one all the same."""
    sample = bytearray(data.draw(st.sampled_from(SAMPLES)))
    choice = data.draw(st.sampled_from([one for one in choices(bytes(sample)) if one.stop_time is None]))
    if _has_checksums(bytes(sample)) and data.draw(st.booleans()):
        sample[data.draw(st.integers(4, len(sample) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del sample[data.draw(st.integers(4, len(sample) - 1)) :]

    found, expected = (chosen(bytes(sample), choice, by_reader=one) for one in (True, False))

    assert found[1] == expected[1]


def test_a_group_that_is_larger_than_a_window_is_passed_over() -> None:
    """It is not wanted by its GTID event; the statements after it are."""
    gtid = AnonymousGtidEvent(header=header(EventType.ANONYMOUS_GTID_LOG_EVENT, timestamp=1))
    rows = [query("x" * 300_000) for _ in range(12)]
    last = replace(gtid, header=replace(gtid.header, timestamp=2))
    data = log(gtid, query("BEGIN"), *rows, query("COMMIT"), last, query("CREATE TABLE t (i INT)"))
    with binlogio.open(io.BytesIO(data)) as reader:
        reader.choose(Selection(start_time=2))
        found = [event for event in reader if not isinstance(event, FormatDescriptionEvent)]

    assert [type(event) for event in found] == [AnonymousGtidEvent, QueryEvent]


@pytest.mark.parametrize("size", [3, 300_000], ids=["in a window", "larger than a window"])
@pytest.mark.parametrize("in_use", [False, True])
def test_a_cut_group_that_is_passed_over_is_named_by_its_begin(size: int, *, in_use: bool) -> None:
    """As if it was read: in the error of a closed log, and where a log in use is read on."""
    first = AnonymousGtidEvent(header=header(EventType.ANONYMOUS_GTID_LOG_EVENT, timestamp=1))
    whole = log(first, query("CREATE TABLE t (i INT)"), in_use=in_use)
    data = log(first, query("CREATE TABLE t (i INT)"), first, query("BEGIN"), *[query("x" * size)] * 12, in_use=in_use)
    for wanted in (Selection(), Selection(start_time=2)):
        with binlogio.open(io.BytesIO(data)) as reader:
            reader.choose(wanted)
            caught = None
            try:
                for _ in reader:
                    pass
            except TruncatedEvent as exc:
                caught = exc.offset
            found = [caught, *(position.offset for position, _ in reader.torn_tails)]
        assert found == ([None, len(whole)] if in_use else [len(whole)]), wanted


STATEMENTS = (
    "CREATE TABLE t (i INT)", "create table t (i INT)", " \n\tALTER TABLE t ADD j INT", "RENAME TABLE t TO u",
    "DROP TABLE t", "/* a */ ALTER TABLE t ADD j INT", "-- a\nDROP TABLE t", "# a\nDROP TABLE t", "DRO", "CREAT",
    "SET STATEMENT sql_mode='' FOR DROP TABLE t", "INSERT INTO t VALUES (1)", "TRUNCATE t", "UPDATE t SET i = 1",
)  # fmt: skip


@pytest.mark.parametrize("sql", STATEMENTS)
def test_statements_that_may_define_tables_are_followed_where_they_are_passed_over(sql: str) -> None:
    """By the same first words in the kernel and in Python."""
    gtid = AnonymousGtidEvent(header=header(EventType.ANONYMOUS_GTID_LOG_EVENT))
    framer, decoder, followed = EventFramer(), Decoder(), []
    framer.feed(log(gtid, query(sql)))
    framer.finish()
    framer.next_frame()
    nothing = Selection(start_time=1 << 40).compiled()
    decoder.skip(framer, None, nothing, lambda code, body: followed.append(body), inside=False)

    assert framer.next_frame() is Framing.END
    assert [body.endswith(sql.encode()) for body in followed] == [True] * may_define(sql.encode())
