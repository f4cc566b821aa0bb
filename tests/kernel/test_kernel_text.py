"""Text by the kernel: character sets, old decimals, MariaDB's types and compressed columns, each against its oracle."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel import primitives
from binlogio.errors import BinlogFormatError
from binlogio.values.charsets import MULTI_BYTE, charset_named
from binlogio.values.decimal import decimal_text, decode_old_decimal
from binlogio.values.kinds import characters_of
from binlogio.values.native import decode_native
from binlogio.values.strings import MAX_RATIO
from kernel_texts import kernel_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SETS = sorted(MULTI_BYTE)
UNICODE_ONLY = 0x30000
NATIVE = {"uuid": kinds.UUID, "inet4": kinds.INET4, "inet6": kinds.INET6}


def expected_text(name: str, data: bytes) -> bytes | None:
    """Return `data` decoded with the character set, as UTF-8; None if it is invalid."""
    try:
        return charset_named(name).decode(data).encode()
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("name", SETS)
def test_every_pair_of_bytes_is_what_the_character_set_says(name: str) -> None:
    for number in range(1 << 16):
        data = number.to_bytes(2, "big")

        assert expected_text(name, data) == characters_of(name).text(data), data.hex()


@pytest.mark.parametrize("name", SETS)
def test_every_character_of_a_set_reads_back(name: str) -> None:
    charset = charset_named(name)
    for first in range(0, 0x110000, 0x400):
        if not 0xD800 <= first < 0xE000:
            data = _encoded(name, range(first, first + 0x400))

            assert charset.decode(data).encode() == characters_of(name).text(data)


def _encoded(name: str, points: range) -> bytes:
    """Return the characters that the set has; from `UNICODE_ONLY` on it has all of them, or none."""
    with suppress(UnicodeEncodeError):
        return charset_named(name).encode("".join(map(chr, points)))
    return b"".join(_codes(name, points if points.start < UNICODE_ONLY else range(0)))


def _codes(name: str, points: range) -> Iterator[bytes]:
    for point in points:
        with suppress(UnicodeEncodeError):
            yield charset_named(name).encode(chr(point))


@given(
    st.sampled_from(SETS),
    st.binary(max_size=12),
    st.sampled_from([b"", b"\x8f\xa2\xb7", b"\x84\x31\xa4\x39", b"\xd8\x3d"]),
)
def test_garbage_in_a_character_set_ends_as_its_oracle_says(name: str, data: bytes, before: bytes) -> None:
    assert expected_text(name, before + data) == characters_of(name).text(before + data)


@given(st.sampled_from(SETS), st.text(max_size=40))
def test_text_in_a_character_set_reads_back(name: str, text: str) -> None:
    data = b"".join(_codes(name, range(0)))
    for character in text:
        data += b"".join(_codes(name, range(ord(character), ord(character) + 1)))

    assert charset_named(name).decode(data).encode() == characters_of(name).text(data)


@pytest.mark.parametrize("native", ["uuid", "inet4", "inet6"])
def test_types_of_mariadb_have_the_text_of_the_event_reader(native: str) -> None:
    @given(
        st.lists(st.sampled_from([0, 0, 0, 255, 1, 16, 0xC0]), min_size=16, max_size=16)
        | st.binary(min_size=16, max_size=16)
    )
    def check(values: list[int] | bytes) -> None:
        data = bytes(values)[: 4 if native == "inet4" else 16]

        assert f'"{decode_native(data, native)}"'.encode() == kernel_text(NATIVE[native], data, first=len(data))

    check()


@given(st.text(" \0+-.0129x", max_size=9) | st.from_regex(r" {0,3}[-+]?[0-9]{0,4}\.?[0-9]{0,3}", fullmatch=True))
def test_old_decimal_has_the_text_of_the_event_reader(text: str) -> None:
    data = text.encode()
    try:
        expected = decimal_text(decode_old_decimal(data)).encode()
    except BinlogFormatError:
        expected = None

    assert expected == kernel_text(kinds.OLD_DECIMAL, data, sql=True)


def by_python(data: bytes, size: int, *, raw: bool, whole: bool) -> bytes | None:
    """Return `data` inflated by Python's zlib; None if it is damaged or of another size."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
    try:
        plain = stream.decompress(data, size + 1)
    except zlib.error:
        return None
    right = len(plain) == size and not (whole and (not stream.eof or stream.unused_data))
    return plain if right and size <= MAX_RATIO * len(data) else None


@pytest.mark.parametrize("library", ["zlib", "python"])
def test_inflate_takes_and_refuses_what_python_does(library: str) -> None:
    @given(st.binary(max_size=300) | st.just(b"ab" * 500), st.booleans(), st.booleans(), st.integers(-1, 1), st.data())
    def check(plain: bytes, raw: bool, whole: bool, off: int, data: st.DataObject) -> None:
        deflater = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
        stream = bytearray(deflater.compress(plain) + deflater.flush())
        damage = data.draw(st.sampled_from(["none", "cut", "flip", "more"]))
        at = data.draw(st.integers(0, len(stream) - 1))
        if damage == "cut":
            del stream[at:]
        elif damage == "flip":
            stream[at] ^= 1 << at % 8
        elif damage == "more":
            stream += b"x"
        size = max(0, len(plain) + off)
        found = primitives.inflated(bytes(stream), size, raw=raw, whole=whole)

        assert by_python(bytes(stream), size, raw=raw, whole=whole) == found

    try:
        primitives.use_inflate(library)
        check()
    finally:
        primitives.use_inflate()


def test_kernel_inflates_without_the_lock() -> None:
    assert primitives.INFLATE_LIBRARY == "zlib"


def encoded(name: str, texts: Sequence[str | None], *, trims: bool = False) -> tuple[list[bytes | None], int]:
    """Return the texts in a character set, and the first that it does not have."""
    array = pa.array(["skipped", *texts], pa.string()).slice(1)
    validity, offsets, data = array.buffers()
    ends, out, refused = characters_of(name).encoded(
        len(array), offsets=offsets, data=data, validity=validity, first=array.offset, trims=trims
    )
    made = pa.Array.from_buffers(pa.binary(), len(array), [None, pa.py_buffer(ends), pa.py_buffer(out)])
    return made.to_pylist(), refused


@pytest.mark.parametrize("name", SETS)
def test_every_character_is_written_as_the_character_set_says(name: str) -> None:
    charset, expected = charset_named(name), []
    texts: list[str] = []
    for point in [*range(0xD800), *range(0xE000, 0x10400), *range(0x10FC00, 0x110000)]:
        try:
            expected.append(charset.encode(chr(point)))
        except UnicodeEncodeError:
            continue
        texts.append(chr(point))

    assert encoded(name, texts) == (expected, -1)


@given(
    st.sampled_from(SETS),
    st.lists(st.none() | st.text("aé漢ｱ😀\ue000 ", max_size=6), min_size=1, max_size=5),
    st.booleans(),
)
def test_texts_are_written_up_to_the_first_that_a_set_does_not_have(
    name: str, texts: list[str | None], trims: bool
) -> None:
    charset, expected, refused = charset_named(name), [], -1
    for row, text in enumerate(texts):
        try:
            code = charset.encode((text.rstrip(" ") if trims else text) if text is not None else "")
        except UnicodeEncodeError:
            refused = row
            break
        expected.append(code)
    expected += [b""] * (len(texts) - len(expected))

    assert encoded(name, texts, trims=trims) == (expected, refused)


def test_broken_arrays_of_text_are_refused() -> None:
    for ends in ([0, 5], [0, -1], [3, 2], [0]):
        with pytest.raises(ValueError, match=r"offset|short"):
            characters_of("gbk").encoded(1, offsets=struct.pack(f"<{len(ends)}i", *ends), data=b"abc")
