"""Frames to typed events: table maps, and what is inside compressed transactions, however it lies about itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import EventType
from binlogio.errors import BinlogError, BinlogFormatError, MissingTableMap, UnsupportedFeature
from binlogio.events.base import UnknownEvent
from binlogio.events.control import XidEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.decoder import Decoder
from binlogio.format.encoder import Encoder
from binlogio.format.framing import EventFramer, Framing
from binlogio.storage.compression import compress_zstd, decompress_zstd
from corpus import MYSQL, frames_of
from logs import CRC32, OFF, encode, header, log, plain, query, stop, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.events.base import ParseContext

PAYLOAD = header(EventType.TRANSACTION_PAYLOAD_EVENT)
TABLE = TableMapEvent(9, 1, "d", "t", (3,), (0,), (True,), header=header(EventType.TABLE_MAP_EVENT))
ROWS = WriteRowsEvent(9, 0, b"", 1, b"\xff", b"\x00\x01\0\0\0", header(EventType.WRITE_ROWS_EVENT))
LAST_ROWS = replace(ROWS, flags=1)


def _context(algorithm: int = CRC32) -> ParseContext:
    context: ParseContext = next(iter(frames_of(log(algorithm=algorithm)))).context
    return context


def _inside(events: list[Any]) -> bytes:
    """Return the bytes of events inside a payload: no checksum, log_pos 0."""
    encoder = Encoder(_context(OFF))
    return b"".join(encoder.encode(replace(event, header=replace(event.header, log_pos=0))) for event in events)


def _payload(
    inside: bytes, *, size: int | None = None, compression: int = CompressionType.ZSTD
) -> TransactionPayloadEvent:
    packed = compress_zstd(inside, 3) if compression == CompressionType.ZSTD else inside
    return TransactionPayloadEvent.create(packed, compression, len(inside) if size is None else size, PAYLOAD)


def _decode(data: bytes, *, decompress: Any = decompress_zstd) -> list[Any]:
    decoder = Decoder(decompress=decompress)
    return [event for frame in frames_of(data) for event in decoder.decode(frame)]


def _counting(opened: list[int]) -> Any:
    """Return a decompression that records the size of every piece that it yields."""

    def pieces(data: bytes, size: int) -> Iterator[bytes]:
        for chunk in decompress_zstd(data, size):
            opened.append(len(chunk))
            yield chunk

    return pieces


# ---------------------------------------------------------------------------------------------------------- table maps


def _table_map(decoder: Decoder, table_id: int) -> TableMapEvent:
    return decoder.table_map(replace(ROWS, table_id=table_id))


def test_table_map_holds_until_the_statement_ends() -> None:
    """The last rows event itself still has it; the next event does not."""
    decoder = Decoder()
    found: list[str | None] = []
    for frame in frames_of(log(TABLE, ROWS, LAST_ROWS, query("SELECT 1"))):
        list(decoder.decode(frame))
        try:
            found.append(_table_map(decoder, 9).table)
        except MissingTableMap:
            found.append(None)

    assert found == [None, "t", "t", "t", None]


def test_several_tables_are_mapped_before_the_first_row() -> None:
    decoder = Decoder()
    for frame in frames_of(log(TABLE, replace(TABLE, table_id=10, table="u"), ROWS)):
        list(decoder.decode(frame))

    assert _table_map(decoder, 9).table == "t"
    assert _table_map(decoder, 10).table == "u"


def test_rows_without_a_table_map_say_what_to_do() -> None:
    with pytest.raises(MissingTableMap, match="beginning of an event group") as caught:
        Decoder().table_map(replace(ROWS, header=replace(ROWS.header, offset=4711)))

    assert caught.value.offset == 4711
    assert caught.value.event_type == "WRITE_ROWS_EVENT"


# ------------------------------------------------------------------------------------------------------------ payloads


@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.NONE])
def test_events_inside_a_payload_follow_it_and_have_its_offset(compression: int) -> None:
    inside = transaction(1)
    found = _decode(log(query("SELECT 1"), _payload(_inside(inside), compression=compression), stop()))
    outer = found[2]

    assert [plain(event) for event in found[3:6]] == [
        replace(plain(event), header=replace(plain(event).header, inner=number)) for number, event in enumerate(inside)
    ]
    assert [event.header.offset for event in found[3:6]] == [outer.header.offset] * 3
    assert [event.header.inner for event in found] == [None, None, None, 0, 1, 2, None]


def test_payload_stays_closed_where_nobody_can_open_it() -> None:
    found = _decode(log(_payload(_inside(transaction(1)))), decompress=None)

    assert len(found) == 2
    assert isinstance(found[1], TransactionPayloadEvent)


def test_payload_of_a_real_server_opens() -> None:
    data = (MYSQL / "compressed" / "binlog.000001").read_bytes()
    inner = [event for event in _decode(data) if event.header.inner is not None]

    assert len(inner) == 146
    assert not any(isinstance(event, UnknownEvent) for event in inner)
    assert {event.header.log_pos for event in inner} == {0}
    assert sum(isinstance(event, XidEvent) for event in inner) == 11


def test_large_payload_is_opened_in_pieces() -> None:
    """Neither the payload nor its events are in memory as a whole: the first events come before all of it is open."""
    inside = _inside([query("INSERT " + 10_000 * "x") for _ in range(500)])
    opened: list[int] = []
    decoder = Decoder(decompress=_counting(opened))
    events = (event for frame in frames_of(log(_payload(inside))) for event in decoder.decode(frame))
    for _ in range(3):
        next(events)

    assert len(opened) == 1
    assert sum(1 for _ in events) == 499
    assert sum(opened) == len(inside)
    assert max(opened) <= 1 << 20


@pytest.mark.parametrize("size", [0, 1, 50, 10_000, 1 << 40, (1 << 64) - 1])
@pytest.mark.parametrize("compression", [CompressionType.ZSTD, CompressionType.NONE])
def test_payload_that_lies_about_its_size_is_refused(size: int, compression: int) -> None:
    inside = _inside(transaction(1))

    with pytest.raises(BinlogFormatError) as caught:
        _decode(log(_payload(inside, size=size, compression=compression)))
    assert caught.value.event_type == "TRANSACTION_PAYLOAD_EVENT"
    assert caught.value.offset is not None


def test_bomb_is_refused_when_the_promised_size_is_reached() -> None:
    """64 MiB after a promise of 100 bytes: no more than one piece is ever opened."""
    opened: list[int] = []
    with pytest.raises(BinlogFormatError, match="does not have the size"):
        _decode(log(_payload(bytes(1 << 26), size=100)), decompress=_counting(opened))
    assert sum(opened) <= 1 << 20


def test_event_that_reaches_beyond_its_payload_is_refused_at_once() -> None:
    """An event that claims 4 GiB in a payload of 64 MiB of zeros: refused at once."""
    opened: list[int] = []
    inside = bytearray(_inside([query("SELECT 1")]) + bytes(1 << 26))
    inside[9:13] = b"\xff\xff\xff\xff"
    with pytest.raises(BinlogFormatError, match=r"middle of an event|contradicts") as caught:
        _decode(log(_payload(bytes(inside))), decompress=_counting(opened))

    assert sum(opened) <= 1 << 20
    assert caught.value.offset is not None
    assert "into the decompressed payload" in str(caught.value.hint)


def test_unknown_compression_is_unsupported() -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        _decode(log(TransactionPayloadEvent.create(b"x", 7, 1, PAYLOAD)))
    assert caught.value.field == "compression_type"
    assert caught.value.found == 7


def test_payload_inside_a_payload_is_refused() -> None:
    """No server writes it; opening it would let 100 bytes grow without bound, and skipping it would lose its rows."""
    inner = _payload(_inside(transaction(1)))

    with pytest.raises(BinlogFormatError, match="inside another one") as caught:
        _decode(log(_payload(_inside([inner]))))

    assert caught.value.field == "payload"


@given(st.integers(0, 400), st.integers(0, 7))
def test_flipped_bit_in_a_payload_is_an_error_or_other_events(at: int, bit: int) -> None:
    """Without a checksum only the layouts can detect it."""
    packed = bytearray(compress_zstd(_inside(transaction(1)), 3))
    packed[at % len(packed)] ^= 1 << bit
    event = TransactionPayloadEvent.create(bytes(packed), CompressionType.ZSTD, len(_inside(transaction(1))), PAYLOAD)
    try:
        found = _decode(log(event, algorithm=OFF))
    except BinlogError:
        return
    assert found


@given(st.binary(max_size=300))
def test_garbage_in_a_payload_is_an_error_or_events(garbage: bytes) -> None:
    for inside in (garbage, _inside([query("BEGIN")]) + garbage):
        try:
            _decode(log(_payload(inside)))
        except BinlogError:
            continue


# --------------------------------------------------------------------------------------------------------- zstd itself


@given(st.binary(max_size=5000), st.integers(1, 10))
def test_what_is_compressed_opens_to_the_same(data: bytes, level: int) -> None:
    assert b"".join(decompress_zstd(compress_zstd(data, level))) == data


def test_zstd_stream_that_ends_early_is_refused() -> None:
    packed = compress_zstd(bytes(range(256)) * 100, 3)
    for size in range(1, len(packed)):
        with pytest.raises(BinlogFormatError):
            b"".join(decompress_zstd(packed[:size]))


def test_frames_and_events_of_a_stream_fed_byte_by_byte_are_those_of_the_whole() -> None:
    data = log(TABLE, LAST_ROWS, _payload(_inside(transaction(1))), stop())
    framer, decoder = EventFramer(), Decoder(decompress=decompress_zstd)
    found: list[Any] = []
    for at in range(len(data)):
        framer.feed(data[at : at + 1])
        while not isinstance(frame := framer.next_frame(), Framing):
            found += decoder.decode(frame)

    assert found == _decode(data)
    assert encode([event for event in found if event.header.inner is None]) == data[4:]
