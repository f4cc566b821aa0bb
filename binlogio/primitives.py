"""Construct elements that the layouts of all events share: lengths, names, bitmaps, records.

A layout of these elements both parses and builds. The codec of an event (`binlogio.events.base`) translates the
exceptions of construct.

    lenenc := u8 < 251 | 0xfc u16 | 0xfd u24 | 0xfe u64         -- mysys/pack.cc, net_field_length_ll
    varlen := first: u8  more: u8[n]    n is the number of low one-bits of `first`        -- mysql::serialization
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
"""Exceptions of construct and of the adapters for invalid bytes or values; codecs raise BinlogFormatError instead."""


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
    """Return `value` as a length-encoded integer, in the shortest form.

    Raises:
        ValidationError: the value is negative or does not fit 64 bits.
    """
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
    """A variable-length unsigned integer of mysql::serialization, 1 to 9 bytes.

    The number of low one-bits in the first byte is the number of bytes that follow. The value is in the bits above the
    next zero bit and in the following bytes, little-endian.
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
    """A length, then as many bytes. A length beyond the end of the data does not allocate memory."""

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
    """Read `size` bytes from an in-memory stream.

    Raises:
        StreamError: the stream has fewer bytes; no memory of that size is allocated.
    """
    data = stream.read(size)
    if len(data) != size:
        raise StreamError(f"{size} bytes expected, {len(data)} left", path=path)
    return data


LenencBytes: Final = _Prefixed(LenencInt)
Bytes8: Final = _Prefixed(Int8ul)
Bytes16: Final = _Prefixed(Int16ul)


class _ZeroEnded(Adapter):  # type: ignore[misc]
    """Bytes up to a terminating zero byte; building refuses bytes that contain a zero byte."""

    def _decode(self, obj: bytes, context: Container, path: str) -> bytes:
        return obj

    def _encode(self, obj: bytes, context: Container, path: str) -> bytes:
        if b"\0" in obj:
            raise ValidationError(f"{obj!r} contains a zero byte, which is the terminator", path=path)
        return obj


ZeroEnded: Final = _ZeroEnded(NullTerminated(GreedyBytes))


class Utf8(Adapter):  # type: ignore[misc]
    """An identifier in UTF-8. Invalid bytes become surrogates (`surrogateescape`), so they can be written back."""

    def _decode(self, obj: bytes, context: Container, path: str) -> str:
        return bytes(obj).decode("utf-8", "surrogateescape")

    def _encode(self, obj: str, context: Container, path: str) -> bytes:
        return obj.encode("utf-8", "surrogateescape")


class TupleOf(Adapter):  # type: ignore[misc]
    """Converts the list of a layout to a tuple, as fields of a frozen dataclass need it."""

    def _decode(self, obj: ListContainer, context: Container, path: str) -> tuple[Any, ...]:
        return tuple(obj)

    def _encode(self, obj: tuple[Any, ...], context: Container, path: str) -> list[Any]:
        return list(obj)


class Many(Construct):  # type: ignore[misc]
    """A repeated `layout` up to the end of the stream, as a tuple.

    An invalid element is an error; construct's GreedyRange would stop before it.
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
    """Converts the value of a Struct to the dataclass `kind`, whose fields have the same names."""

    def __init__(self, kind: type, layout: Construct) -> None:
        super().__init__(layout)
        self.kind = kind
        self.names = tuple(f.name for f in fields(kind) if f.init)

    def _decode(self, obj: Container, context: Container, path: str) -> Any:
        return self.kind(**{name: obj[name] for name in self.names})

    def _encode(self, obj: Any, context: Container, path: str) -> dict[str, Any]:
        return {name: getattr(obj, name) for name in self.names}


class Whole(Adapter):  # type: ignore[misc]
    """The bytes of `source`, parsed by `layout`, which must consume all of them."""

    def __init__(self, source: Construct, layout: Construct) -> None:
        super().__init__(source)
        self.layout = layout

    def _decode(self, obj: bytes, context: Container, path: str) -> Any:
        try:
            value, used = parse_prefix(self.layout, bytes(obj), **context._params)
        except ConstructError as exc:  # prepend our path to the path of the inner layout
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
    """Parse `layout` from the start of `data`; return its value and its size in bytes.

    Raises:
        ConstructError: the bytes do not fit the layout.
    """
    both = Struct("value" / layout, "end" / Tell).parse(data, **params)
    return both.value, both.end


def utf8_size(name: str) -> int:
    """Return the size of an identifier in bytes, as stored by `Utf8`."""
    return len(name.encode("utf-8", "surrogateescape"))


def bitmap_size(bits: int) -> int:
    """Return the number of bytes of a bitmap with `bits` bits."""
    return (bits + 7) // 8


def bitmap(count: Callable[[Container], int]) -> Construct:
    """Return a layout for the bytes of a bitmap with `count(context)` bits, lowest bit first."""
    return Bytes(lambda ctx: bitmap_size(count(ctx)))


class _Bits(Adapter):  # type: ignore[misc]
    """Bits of the optional metadata, highest bit of a byte first, as booleans; parsing returns a multiple of 8."""

    def _decode(self, obj: bytes, context: Container, path: str) -> tuple[bool, ...]:
        return tuple(bool(byte >> 7 - i & 1) for byte in obj for i in range(8))

    def _encode(self, obj: tuple[bool, ...], context: Container, path: str) -> bytes:
        padded = (*obj, *(False,) * (-len(obj) % 8))
        return bytes(sum(bit << 7 - i for i, bit in enumerate(padded[at : at + 8])) for at in range(0, len(padded), 8))


BitsMsbFirst: Final = _Bits(GreedyBytes)
