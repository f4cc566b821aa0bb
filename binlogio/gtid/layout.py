"""The binary form of UUIDs, tags and GTID sets, in both encodings of the server.

The body of a PREVIOUS_GTIDS_LOG_EVENT is one such set (`binlogio.events.gtid`).

    set       := n: u56  0x00        (uuid: u8[16]  intervals)[n]         -- untagged
               | 0x01  n: u48  0x01  (uuid: u8[16]  tag  intervals)[n]    -- tagged, since 8.3
    tag       := length: varlen  u8[length]
    intervals := n: u64  (start: u64  end: u64)[n]                        -- increasing; `end` is exclusive

A server process of MySQL 9.7 that has seen a tag uses the tagged encoding also for sets without tags (fixture
mysql97/compressed).
Source: sql/rpl_gtid_set.cc, Gtid_set::encode, add_gtid_encoding; libs/mysql/gtid/gtid_format.h.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from construct import (
    Adapter,
    Array,
    Bytes,
    Computed,
    Construct,
    Container,
    GreedyBytes,
    IfThenElse,
    Int64ul,
    Prefixed,
    Rebuild,
    Struct,
    Terminated,
    ValidationError,
    stream_write,
)

from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.gtid.identifiers import GNO_END, GNO_MIN, NO_TAG, UUID_SIZE, Tag, Tsid, Uuid, excerpt
from binlogio.gtid.sets import GtidSet, Interval, Intervals
from binlogio.primitives import BAD_BYTES, VarlenInt, read_exactly

if TYPE_CHECKING:
    from io import BytesIO


class GtidSetEncoding(IntEnum):
    """libs/mysql/gtid/gtid_format.h, enum Gtid_format."""

    UNTAGGED = 0
    TAGGED = 1


class _Intervals(Construct):  # type: ignore[misc]
    """The intervals of one source: their count, then start and exclusive end of each interval."""

    def _parse(self, stream: BytesIO, context: Container, path: str) -> Intervals:
        count = Int64ul._parsereport(stream, context, path)
        intervals = tuple(Interval(*pair) for pair in struct.iter_unpack("<QQ", read_exactly(stream, 16 * count, path)))
        _check(intervals, path)
        return intervals

    def _build(self, obj: Intervals, stream: BytesIO, context: Container, path: str) -> Intervals:
        _check(obj, path)
        data = struct.pack(f"<Q{2 * len(obj)}Q", len(obj), *(number for interval in obj for number in interval))
        stream_write(stream, data, len(data), path)
        return obj


def _check(intervals: Intervals, path: str) -> None:
    if not intervals:
        raise ValidationError("source without intervals", path=path)
    last = GNO_MIN - 1
    for start, end in intervals:
        if not last < start < end <= GNO_END:
            raise ValidationError(f"the interval {start} to {end} does not come after {last}", path=path)
        last = end


class UuidOf(Adapter):  # type: ignore[misc]
    """Converts 16 bytes to a Uuid."""

    def _decode(self, obj: bytes, context: Container, path: str) -> Uuid:
        return Uuid(bytes(obj))

    def _encode(self, obj: Uuid, context: Container, path: str) -> bytes:
        return obj.data


class TagOf(Adapter):  # type: ignore[misc]
    """Converts bytes to a Tag. Capital letters are an error, because no server writes them."""

    def _decode(self, obj: bytes, context: Container, path: str) -> Tag:
        text = bytes(obj).decode("latin-1")
        if text != text.lower():
            raise ValidationError(f"the tag {text[:40]!r} has capital letters", path=path)
        return Tag(text)

    def _encode(self, obj: Tag, context: Container, path: str) -> bytes:
        return str(obj).encode("ascii")


class _Source(Adapter):  # type: ignore[misc]
    """Converts the Struct of a source to a pair of Tsid and intervals."""

    def _decode(self, obj: Container, context: Container, path: str) -> tuple[Tsid, Intervals]:
        return Tsid(obj.uuid, obj.get("tag", NO_TAG)), obj.intervals

    def _encode(self, obj: tuple[Tsid, Intervals], context: Container, path: str) -> dict[str, object]:
        tsid, intervals = obj
        return {"uuid": tsid.uuid, "tag": tsid.tag, "intervals": intervals}


UUID: Final = UuidOf(Bytes(UUID_SIZE))
TAG: Final = TagOf(Prefixed(VarlenInt, GreedyBytes))
_UNTAGGED_SOURCE: Final = _Source(Struct("uuid" / UUID, "intervals" / _Intervals()))
_TAGGED_SOURCE: Final = _Source(Struct("uuid" / UUID, "tag" / TAG, "intervals" / _Intervals()))


def _build_head(ctx: Container) -> int:
    count = len(ctx.gtid_set.sources)
    if ctx.encoding == GtidSetEncoding.TAGGED:
        return 1 << 56 | count << 8 | 1
    if ctx.gtid_set.has_tags:
        raise BinlogFormatError("a GTID set with tags needs the tagged encoding", found=excerpt(str(ctx.gtid_set)))
    return count


def _encoding(ctx: Container) -> GtidSetEncoding:
    encoding = ctx._head >> 56
    if encoding > GtidSetEncoding.TAGGED:
        raise UnsupportedFeature("unknown GTID set format", expected="format 0 or 1", found=f"format {encoding}")
    if encoding and ctx._head & 0xFF != encoding:
        raise BinlogFormatError(
            "the first and the eighth byte of a GTID set name different formats",
            expected=encoding,
            found=ctx._head & 0xFF,
        )
    return GtidSetEncoding(encoding)


def _source_count(ctx: Container) -> int:
    count: int = ctx._head >> 8 & (1 << 48) - 1 if ctx.encoding == GtidSetEncoding.TAGGED else ctx._head
    return count


def _written(ctx: Container) -> list[tuple[Tsid, Intervals]]:
    """Return the sources in the order in which they are written."""
    if not ctx.order:
        return list(ctx.gtid_set.sources)
    sources = dict(ctx.gtid_set.sources)
    if len(ctx.order) != len(sources) or set(ctx.order) != set(sources):
        raise BinlogFormatError("`order` must list each source of the GTID set exactly once")
    return [(tsid, sources[tsid]) for tsid in ctx.order]


def _read_set(ctx: Container) -> GtidSet:
    gtid_set = GtidSet(tuple(sorted(ctx._sources)))
    if len({tsid for tsid, _ in ctx._sources}) != len(ctx._sources):
        raise BinlogFormatError("duplicate source in a GTID set", found=excerpt(str(gtid_set)))
    return gtid_set


def _read_order(ctx: Container) -> tuple[Tsid, ...]:
    order = tuple(tsid for tsid, _ in ctx._sources)
    return () if order == tuple(sorted(order)) else order


GTID_SET: Final = Struct(
    "_head" / Rebuild(Int64ul, _build_head),
    "encoding" / Computed(_encoding),
    "_sources"
    / Rebuild(
        IfThenElse(
            lambda ctx: ctx.encoding == GtidSetEncoding.TAGGED,
            Array(_source_count, _TAGGED_SOURCE),
            Array(_source_count, _UNTAGGED_SOURCE),
        ),
        _written,
    ),
    "gtid_set" / Computed(_read_set),
    "order" / Computed(_read_order),
    Terminated,
)
"""A GTID set. `order` lists the sources in the order of the bytes if they are not sorted, otherwise it is empty.

Servers always sort the sources; other writers may not.
"""


def parse_gtid_set(data: bytes) -> GtidSet:
    """Parse a GTID set in binary form, tagged or untagged; `data` must end with the set.

    Raises:
        BinlogFormatError: the encoding is damaged.
        UnsupportedFeature: the encoding is of an unknown format.
    """
    try:
        gtid_set: GtidSet = GTID_SET.parse(data).gtid_set
    except BAD_BYTES as exc:
        raise BinlogFormatError(f"invalid GTID set: {exc}") from exc
    return gtid_set


def build_gtid_set(gtid_set: GtidSet, encoding: GtidSetEncoding | None = None) -> bytes:
    """Return the binary form of a set; without `encoding`, tagged only if the set has tags.

    Raises:
        BinlogFormatError: the set has tags, and `encoding` is UNTAGGED.
    """
    if encoding is None:
        encoding = GtidSetEncoding.TAGGED if gtid_set.has_tags else GtidSetEncoding.UNTAGGED
    try:
        return bytes(GTID_SET.build({"gtid_set": gtid_set, "encoding": encoding, "order": ()}))
    except BAD_BYTES as exc:
        raise BinlogFormatError(f"the GTID set cannot be built: {exc}") from exc
