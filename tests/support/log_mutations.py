"""Structure-aware mutations of real logs: damage that checksums and sizes do not reveal.

A log is split into events; some are modified, removed, duplicated, moved or inserted from another log; then sizes,
positions and checksums are recomputed. Compressed payloads (MySQL) and compressed events (MariaDB) are decompressed,
modified and compressed again.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from binlogio.constants import (
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    SERVER_VERSION_LENGTH,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BinlogError
from binlogio.events import EVENT_CODECS
from binlogio.events.base import EventHeader
from binlogio.events.format_description import knows_checksum
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.storage.compression import compress_zstd, decompress_zstd
from corpus import files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

_MOST_EVENTS: Final = 60
_EDGES: Final = (0, 1, 2, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_EVERY_TYPE: Final = tuple(
    code for code in EventType if code not in (EventType.START_EVENT_V3, EventType.START_ENCRYPTION_EVENT)
)
_VERSIONS: Final = (
    b"5.0.96-log", b"5.1.73", b"5.5.62", b"5.6.0-log", b"5.7.44", b"8.0.30", b"9.7.4", b"10.11.18-MariaDB-log",
    b"11.8.3-MariaDB", b"5.5.5-10.4.2-MariaDB", b"", b"x" * 50, b"-1.\xff",
)  # fmt: skip
_FLAGS_AT: Final = len(BINLOG_MAGIC) + HEADER_SIZE - 2
_ROWS_BEGIN: Final = 8
_NAME_SIZE: Final = 50


@dataclass(frozen=True, slots=True)
class Seed:
    """A real log as events without checksums. The format description may have one when the other events do not."""

    events: tuple[bytes, ...]
    has_checksum: bool
    first_has_checksum: bool


@lru_cache(maxsize=1)
def seeds() -> tuple[Seed, ...]:
    """Return the logs of the corpus that are neither encrypted nor damaged nor compressed, in binlog format 4."""
    found = []
    for one in files():
        if not one.encrypted and not one.damaged and one.path.suffix not in (".gz", ".zst"):
            seed = split_log(one.path.read_bytes()[: 8 << 20])
            if seed is not None:
                found.append(seed)
    return tuple(found)


def split_log(data: bytes) -> Seed | None:
    """Return the events of a log; None if it does not begin with a format description."""
    if not data.startswith(BINLOG_MAGIC):
        return None
    events, at = [], len(BINLOG_MAGIC)
    while at + HEADER_SIZE <= len(data):
        size = int.from_bytes(data[at : at + HEADER_SIZE][EVENT_SIZE_BYTES], "little")
        if size < HEADER_SIZE or at + size > len(data):
            break
        events.append(data[at : at + size])
        at += size
    if not events or events[0][4] != EventType.FORMAT_DESCRIPTION_EVENT:
        return None
    version = events[0][HEADER_SIZE + 2 : HEADER_SIZE + 2 + SERVER_VERSION_LENGTH].rstrip(b"\0").decode("latin-1")
    has_checksum = len(events) > 1 and events[-1][-CHECKSUM_SIZE:] == _checksum(events[-1][:-CHECKSUM_SIZE])
    has = [knows_checksum(version)] + [has_checksum] * (len(events) - 1)
    plain = tuple(event[:-CHECKSUM_SIZE] if one else event for event, one in zip(events, has, strict=True))
    return Seed(plain, has_checksum, has[0])


def mutate_log(random: Random, data: bytes, codes: frozenset[int] | None = None) -> bytes:
    """Return the log with 1 to 5 mutations, most of them of events with these type codes (default: events with rows).

    A log that is not plain is returned as it is.
    """
    seed = split_log(data)
    if seed is None:
        return data
    events = _some_of(random, seed)
    for _ in range(random.choice((1, 1, 1, 2, 3, 5))):
        _mutate(random, events, _RICH if codes is None else codes)
    has_checksum = seed.has_checksum
    if len(events[0]) > HEADER_SIZE and events[0][-1] in (0, 1) and random.random() < 0.7:
        has_checksum = bool(events[0][-1]) and seed.first_has_checksum
    changed = joined(events, replace(seed, has_checksum=has_checksum))
    return _spoilt(random, changed) if random.random() < 0.05 else changed


def spoil_log(random: Random, data: bytes) -> bytes:
    """Return the log with damage that checksums reveal, as a crash or a copy leaves it.

    Two of three logs are in use. Bytes are changed, removed, inserted or cut off, or zero bytes or others follow.
    """
    changed = bytearray(data)
    if random.random() < 0.67 and len(data) > _FLAGS_AT:
        changed[_FLAGS_AT] |= HeaderFlag.BINLOG_IN_USE
    for _ in range(random.choice((0, 0, 1, 2))):
        at = random.randrange(len(changed) // 2, len(changed) + 1)
        junk, size = random.randbytes(random.choice((0, 1, 40))), random.choice((0, 1, 90))
        changed[at : at + size] = junk
    tail = random.choice((b"", b"", bytes(40), bytes(900) + b"\x07" * 30, random.randbytes(25)))
    return bytes(changed[: len(changed) - random.choice((0, 0, 0, 33, 120))] + tail)


def _some_of(random: Random, seed: Seed) -> list[bytes]:
    """Return all events of a short log; of a long log the first events and a later sequence."""
    if len(seed.events) <= _MOST_EVENTS:
        return list(seed.events)
    head = list(seed.events[:3])
    begin = random.randrange(3, len(seed.events))
    return head + list(seed.events[begin : begin + random.randint(5, _MOST_EVENTS)])


def _mutate(random: Random, events: list[bytes], codes: frozenset[int] | None = None) -> None:
    """Apply one change to a list of events in place."""
    at = random.randrange(len(events))
    if random.random() < 0.7:  # most events do not affect rows
        wanted = [number for number, event in enumerate(events) if event[4] in (codes or _RICH)]
        at = random.choice(wanted) if wanted else at
    kind = random.random()
    if kind < 0.78:
        events[at] = _changed_event(random, events[at], first=at == 0)
    elif at == 0 or kind < 0.82:
        events.insert(at + 1, events[at])
    elif kind < 0.88:
        del events[at]
    elif kind < 0.94:
        other = random.randrange(1, len(events)) if len(events) > 1 else 0
        events[at], events[other] = events[other], events[at]
        if events[0][4] != EventType.FORMAT_DESCRIPTION_EVENT:
            events[at], events[other] = events[other], events[at]
    else:
        other_seed = random.choice(seeds())
        begin = random.randrange(len(other_seed.events))
        events[at:at] = other_seed.events[max(1, begin) : begin + random.randint(1, 4)]


_RICH: Final = frozenset(
    {EventType.TABLE_MAP_EVENT, EventType.TRANSACTION_PAYLOAD_EVENT, EventType.QUERY_COMPRESSED_EVENT,
    EventType.MARIADB_GTID_EVENT}
    | {code for code in EventType if "ROWS" in code.name and "QUERY" not in code.name}
)  # fmt: skip


def _changed_event(random: Random, event: bytes, *, first: bool) -> bytes:
    head, body = event[:HEADER_SIZE], event[HEADER_SIZE:]
    kind = random.random()
    if kind < 0.05 and not first:
        return head[:4] + bytes([random.choice(_EVERY_TYPE)]) + head[5:] + body
    if kind < 0.08:
        at = random.choice((0, 1, 2, 3, 5, 6, 7, 8, 17, 18))  # timestamp, server id, flags
        return head[:at] + bytes([random.choice(_EDGES)]) + head[at + 1 :] + body
    if event[4] == EventType.TRANSACTION_PAYLOAD_EVENT and kind < 0.85:
        return head + _changed_payload(random, head, body)
    if event[4] in _COMPRESSED and kind < 0.7:
        return head + _changed_compressed(random, body)
    if event[4] == EventType.TABLE_MAP_EVENT and kind < 0.7:
        return head + _changed_table_map(random, body)
    if event[4] == EventType.FORMAT_DESCRIPTION_EVENT and kind < 0.8:
        return head + _changed_description(random, body)
    return head + changed_bytes(random, body)


_COMPRESSED: Final = frozenset(code for code in EventType if "COMPRESSED" in code.name)


def changed_bytes(random: Random, data: bytes) -> bytes:
    """Return the bytes with some of them changed, removed, inserted or duplicated, most often at the beginning."""
    if not data:
        return random.randbytes(random.randint(0, 9))
    at = random.randrange(len(data)) if random.random() < 0.6 else random.randrange(min(len(data), 48))
    kind = random.random()
    if kind < 0.25:
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    if kind < 0.45:
        return data[:at] + bytes([random.choice(_EDGES)]) + data[at + 1 :]
    if kind < 0.6:
        width = random.choice((2, 3, 4, 8))
        number = random.choice(
            (0, 1, (1 << 8 * width) - 1, 1 << 8 * width - 1, random.getrandbits(8 * width), len(data))
        )
        return data[:at] + (number & (1 << 8 * width) - 1).to_bytes(width, "little") + data[at + width :]
    if kind < 0.7:
        return data[:at] + data[at + random.randint(1, 8) :]
    if kind < 0.8:
        return data[:at] + random.randbytes(random.randint(1, 8)) + data[at:]
    if kind < 0.88:
        return data[:at]
    if kind < 0.95:
        size = random.randint(1, 64)
        return data[: at + size] + data[at : at + size] * random.choice((1, 1, 2, 40)) + data[at + size :]
    other = random.randrange(len(data))
    size = random.randint(1, 16)
    return data[:at] + data[other : other + size] + data[at + size :]


def _changed_table_map(random: Random, body: bytes) -> bytes:
    """Return a table map with another type or other metadata of a column."""
    at = _ROWS_BEGIN
    for _ in range(2):  # schema and table
        if at >= len(body):
            return changed_bytes(random, body)
        at += body[at] + 2
    if at + 1 >= len(body) or not 0 < body[at] < 0xFB:
        return changed_bytes(random, body)
    count = body[at]
    types = at + 1
    place = types + random.randrange(count) if random.random() < 0.5 else types + count + random.randrange(count + 4)
    if place >= len(body):
        return changed_bytes(random, body)
    value = (
        random.choice((*range(20), *range(242, 256))) if place < types + count else random.choice((*_EDGES, *range(64)))
    )
    return body[:place] + bytes([value]) + body[place + 1 :]


def _changed_description(random: Random, body: bytes) -> bytes:
    """Return a format description with another version, header size, post-header table or checksum algorithm."""
    at = 2 + SERVER_VERSION_LENGTH + 4  # header size; the post-header sizes of the types follow
    if len(body) <= at + 1:  # already cut
        return changed_bytes(random, body)
    changed = bytearray(body)
    kind = random.randrange(6)
    if kind == 0:
        changed[:2] = random.choice((0, 1, 3, 4, 4, 5, 0xFFFF)).to_bytes(2, "little")
    elif kind == 1:
        version = random.choice(_VERSIONS)
        changed[2 : 2 + SERVER_VERSION_LENGTH] = version.ljust(SERVER_VERSION_LENGTH, b"\0")
    elif kind == 2:
        changed[at : at + 1] = bytes([random.choice((0, 13, 18, 19, 20, 27, 255))])
    elif kind == 3:
        place = random.randrange(at + 1, len(changed) + 1)
        changed[place : place + 1] = bytes([random.choice((*_EDGES, 4, 6, 8, 10, 13, 19, 56))])
    elif kind == 4:
        del changed[random.randrange(at, len(changed) + 1) :]
        changed += random.randbytes(random.choice((0, 0, 1, 5, 200)))
    else:
        changed[-1:] = bytes([random.choice((0, 1, 2, 255))])
    return bytes(changed)


def _changed_payload(random: Random, head: bytes, body: bytes) -> bytes:
    """Decompress a payload, change some of its events, and compress it again."""
    codec = EVENT_CODECS[EventType.TRANSACTION_PAYLOAD_EVENT]
    try:
        event = codec.parse(EventHeader(type_code=EventType.TRANSACTION_PAYLOAD_EVENT), body)
        plain = b"".join(decompress_zstd(event.payload))
    except BinlogError:  # already mutated
        return changed_bytes(random, body)
    events = _cut(plain)
    for _ in range(random.choice((1, 1, 2, 3))):
        if events:
            _mutate(random, events)
    plain = b"".join(event[:9] + len(event).to_bytes(4, "little") + event[13:] for event in events)
    if random.random() < 0.1:
        plain = changed_bytes(random, plain)
    size = len(plain) if random.random() < 0.95 else random.choice((0, len(plain) - 1, len(plain) + 1, 1 << 40))
    stored = random.random() < 0.2
    payload = plain if stored else compress_zstd(plain, 1)
    kind = CompressionType.NONE if stored else CompressionType.ZSTD
    return codec.build(TransactionPayloadEvent.create(payload, kind, max(size, 0)))


def _changed_compressed(random: Random, body: bytes) -> bytes:
    """Decompress a compressed event of MariaDB, change its bytes, and compress it again."""
    for at in range(len(body) - 8):
        count = body[at] & 7
        if body[at] & 0xF8 == 0x80 and 1 <= count <= 4 and body[at + 1 + count] == 0x78:
            try:
                plain = zlib.decompress(body[at + 1 + count :])
            except zlib.error:
                continue
            plain = changed_bytes(random, plain)
            size = len(plain) if random.random() < 0.95 else random.choice((0, len(plain) + 1, (1 << 8 * count) - 1))
            return body[: at + 1] + (size & (1 << 8 * count) - 1).to_bytes(count, "big") + zlib.compress(plain)
    return changed_bytes(random, body)


def _cut(plain: bytes) -> list[bytes]:
    events, at = [], 0
    while at + HEADER_SIZE <= len(plain):
        size = max(HEADER_SIZE, int.from_bytes(plain[at : at + HEADER_SIZE][EVENT_SIZE_BYTES], "little"))
        events.append(plain[at : at + size])
        at += size
    return events


def joined(events: Sequence[bytes], seed: Seed) -> bytes:
    """Join events to a file with correct sizes, positions and checksums."""
    data = BINLOG_MAGIC
    for number, event in enumerate(events):
        has_checksum = seed.has_checksum if number else seed.first_has_checksum
        size = len(event) + CHECKSUM_SIZE * has_checksum
        whole = (
            event[:9] + size.to_bytes(4, "little") + (len(data) + size & 0xFFFFFFFF).to_bytes(4, "little") + event[17:]
        )
        data += whole + _checksum(whole) * has_checksum
    return data


def _checksum(event: bytes) -> bytes:
    """Return the CRC32 of an event; for a format description, the in-use flag counts as cleared."""
    if event[4] == EventType.FORMAT_DESCRIPTION_EVENT:
        event = event[:17] + bytes([event[17] & ~HeaderFlag.BINLOG_IN_USE & 0xFF]) + event[18:]
    return zlib.crc32(event).to_bytes(CHECKSUM_SIZE, "little")


def _spoilt(random: Random, data: bytes) -> bytes:
    """Return damaged bytes that checksums reveal: with a flipped bit, or truncated."""
    at = random.randrange(len(BINLOG_MAGIC), len(data))
    if random.random() < 0.5:
        return data[:at]
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
