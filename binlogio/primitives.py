"""Elements of all layouts: lengths, names, bitmaps, records.

Based on construct, independent of events. A layout made of these parses and builds with one definition; what construct
raises on bad bytes is translated by the codec that owns the layout (`binlogio.events.base`).

    lenenc := u8 < 251 | 0xfc u16 | 0xfd u24 | 0xfe u64         -- mysys/pack.cc, net_field_length_ll
    varlen := low bits of the first byte, ones then a zero, count the bytes that follow   -- mysql::serialization
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Final

from construct import (
    Adapter,
    Bytes,
    BytesInteger,
    Construct,
    ConstructError,
    Container,
    ExprAdapter,
    FormatFieldError,
    GreedyBytes,
    Int8ul,
    Int16ul,
    Int24ul,
    Int64ul,
    ListContainer,
    NullTerminated,
    StreamError,
    Struct,
    Tell,
    ValidationError,
    stream_read,
    stream_write,
)

if TYPE_CHECKING:
    from io import BytesIO

Int48ul: Final = BytesInteger(6, swapped=True)
Int56ul: Final = BytesInteger(7, swapped=True)

BAD_BYTES: Final = (
    ConstructError,
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AttributeError,
    MemoryError,
)
"""What construct and the adapters raise on bytes (or values) that do not fit.

Codecs turn these into BinlogFormatError.
"""


class _LenencInt(Construct):  # type: ignore[misc]
    """A length-encoded integer, 1 to 9 bytes."""

    _WIDER: ClassVar = {0xFC: Int16ul, 0xFD: Int24ul, 0xFE: Int64ul}

    def _parse(self, stream: BytesIO, context: Container, path: str) -> int:
        first: int = stream_read(stream, 1, path)[0]
        if first < 251:
            return first
        wider = self._WIDER.get(first)
        if wider is None:
            raise ValidationError(f"0x{first:02x} is not a valid first byte of a length-encoded integer", path=path)
        return int(wider._parsereport(stream, context, path))

    def _build(self, obj: int, stream: BytesIO, context: Container, path: str) -> int:
        stream_write(stream, lenenc(obj), len(lenenc(obj)), path)
        return obj


def lenenc(value: int) -> bytes:
    """Return `value` as a length-encoded integer, in the shortest form."""
    if not 0 <= value < 1 << 64:
        raise ValidationError(f"{value} does not fit a length-encoded integer")
    if value < 251:
        return bytes([value])
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")


class _VarlenInt(Construct):  # type: ignore[misc]
    """An unsigned integer of mysql::serialization: 1 to 9 bytes, the first says how many.

    n low one-bits and a zero in the first byte announce n more bytes; the value is in the bits above,
    little-endian.
    Source: libs/mysql/serialization/variable_length_integers.h.
    """

    def _parse(self, stream: BytesIO, context: Container, path: str) -> int:
        first: int = stream_read(stream, 1, path)[0]
        more = 0
        while more < 8 and first >> more & 1:
            more += 1
        if more == 0:
            return first >> 1
        rest = int.from_bytes(stream_read(stream, more, path), "little")
        if more >= 7:
            return rest
        return (first >> (more + 1)) | rest << (7 - more)

    def _build(self, obj: int, stream: BytesIO, context: Container, path: str) -> int:
        if not 0 <= obj < 1 << 64:
            raise FormatFieldError(f"{obj} does not fit 64 bits", path=path)
        size = min(9, max(1, -(-obj.bit_length() // 7)))
        if size == 9:
            data = b"\xff" + obj.to_bytes(8, "little")
        else:
            data = (obj << size | (1 << (size - 1)) - 1).to_bytes(size, "little")
        stream_write(stream, data, len(data), path)
        return obj


LenencInt: Final = _LenencInt()
VarlenInt: Final = _VarlenInt()
VarlenSignedInt: Final = ExprAdapter(
    VarlenInt,
    lambda obj, ctx: obj >> 1 if not obj & 1 else ~(obj >> 1),
    lambda obj, ctx: obj << 1 if obj >= 0 else ~obj << 1 | 1,
)


class _Prefixed(Construct):  # type: ignore[misc]
    """Bytes after their length; read by slices, so a length beyond the data costs no memory."""

    def __init__(self, length: Construct) -> None:
        super().__init__()
        self.length = length

    def _parse(self, stream: BytesIO, context: Container, path: str) -> bytes:
        size = self.length._parsereport(stream, context, path)
        return read_exactly(stream, size, path)

    def _build(self, obj: bytes, stream: BytesIO, context: Container, path: str) -> bytes:
        self.length._build(len(obj), stream, context, path)
        stream_write(stream, obj, len(obj), path)
        return obj


def read_exactly(stream: BytesIO, size: int, path: str = "") -> bytes:
    """Read `size` bytes from an in-memory stream; fewer is a StreamError, before anything of that size is allocated."""
    data = stream.read(size)
    if len(data) != size:
        raise StreamError(f"{size} bytes expected, {len(data)} left", path=path)
    return data


LenencBytes: Final = _Prefixed(LenencInt)
Bytes8: Final = _Prefixed(Int8ul)
Bytes16: Final = _Prefixed(Int16ul)


class _ZeroEnded(Adapter):  # type: ignore[misc]
    """Bytes up to a zero byte, which therefore cannot hold one."""

    def _decode(self, obj: bytes, context: Container, path: str) -> bytes:
        return obj

    def _encode(self, obj: bytes, context: Container, path: str) -> bytes:
        if b"\0" in obj:
            raise ValidationError(f"{obj!r} contains a zero byte, which is the terminator", path=path)
        return obj


ZeroEnded: Final = _ZeroEnded(NullTerminated(GreedyBytes))


class Utf8(Adapter):  # type: ignore[misc]
    """An identifier. The server stores them in UTF-8; invalid bytes are kept as surrogates, so nothing is lost."""

    def _decode(self, obj: bytes, context: Container, path: str) -> str:
        return bytes(obj).decode("utf-8", "surrogateescape")

    def _encode(self, obj: str, context: Container, path: str) -> bytes:
        return obj.encode("utf-8", "surrogateescape")


class TupleOf(Adapter):  # type: ignore[misc]
    """A list layout whose value is a tuple, so that it fits a frozen dataclass."""

    def _decode(self, obj: ListContainer, context: Container, path: str) -> tuple[Any, ...]:
        return tuple(obj)

    def _encode(self, obj: tuple[Any, ...], context: Container, path: str) -> list[Any]:
        return list(obj)


class Many(Construct):  # type: ignore[misc]
    """One `layout` after the other up to the end of the stream, as a tuple.

    A broken one is an error, unlike in GreedyRange.
    """

    def __init__(self, layout: Construct) -> None:
        super().__init__()
        self.layout = layout

    def _parse(self, stream: BytesIO, context: Container, path: str) -> tuple[Any, ...]:
        values = []
        at = stream.tell()
        while stream.read(1):
            stream.seek(at)
            values.append(self.layout._parsereport(stream, context, path))
            if stream.tell() == at:
                raise ValidationError("a repeated element has no bytes", path=path)
            at = stream.tell()
        return tuple(values)

    def _build(self, obj: tuple[Any, ...], stream: BytesIO, context: Container, path: str) -> tuple[Any, ...]:
        for value in obj:
            self.layout._build(value, stream, context, path)
        return obj


class Record(Adapter):  # type: ignore[misc]
    """A Struct whose value is a dataclass with the same public names."""

    def __init__(self, kind: type, layout: Construct) -> None:
        super().__init__(layout)
        self.kind = kind
        self.names = tuple(f.name for f in fields(kind) if f.init)

    def _decode(self, obj: Container, context: Container, path: str) -> Any:
        return self.kind(**{name: obj[name] for name in self.names})

    def _encode(self, obj: Any, context: Container, path: str) -> dict[str, Any]:
        return {name: getattr(obj, name) for name in self.names}


class Whole(Adapter):  # type: ignore[misc]
    """Bytes that `layout` must fill completely: remaining bytes are an error, in parsing and in building."""

    def __init__(self, source: Construct, layout: Construct) -> None:
        super().__init__(source)
        self.layout = layout

    def _decode(self, obj: bytes, context: Container, path: str) -> Any:
        try:
            value, used = parse_prefix(self.layout, bytes(obj), **context._params)
        except ConstructError as exc:  # its path begins inside; ours says where that is
            inner, _, detail = str(exc).partition("\n")
            raise ValidationError(
                detail or inner, path=path + inner.removeprefix("Error in path (parsing) -> value")
            ) from exc
        if used != len(obj):
            raise ValidationError(f"{len(obj) - used} unexpected trailing bytes", path=path)
        return value

    def _encode(self, obj: Any, context: Container, path: str) -> bytes:
        return bytes(self.layout.build(obj, **context._params))


def parse_prefix(layout: Construct, data: bytes, **params: Any) -> tuple[Any, int]:
    """Parse `layout` from the start of `data`; return its value and how many bytes it used."""
    both = Struct("value" / layout, "end" / Tell).parse(data, **params)
    return both.value, both.end


def utf8_size(name: str) -> int:
    """Return the size of an identifier in the file, in bytes."""
    return len(name.encode("utf-8", "surrogateescape"))


def bitmap_size(bits: int) -> int:
    """Return the number of bytes that `bits` bits fill."""
    return (bits + 7) // 8


def bitmap(count: Callable[[Container], int]) -> Construct:
    """Return the bytes of a bitmap of `count(context)` bits, lowest bit first."""
    return Bytes(lambda ctx: bitmap_size(count(ctx)))


class _Bits(Adapter):  # type: ignore[misc]
    """Bits highest first, as booleans: how optional metadata writes them. The tuple is a multiple of eight long."""

    def _decode(self, obj: bytes, context: Container, path: str) -> tuple[bool, ...]:
        return tuple(bool(byte >> 7 - i & 1) for byte in obj for i in range(8))

    def _encode(self, obj: tuple[bool, ...], context: Container, path: str) -> bytes:
        padded = (*obj, *(False,) * (-len(obj) % 8))
        return bytes(sum(bit << 7 - i for i, bit in enumerate(padded[at : at + 8])) for at in range(0, len(padded), 8))


BitsMsbFirst: Final = _Bits(GreedyBytes)
