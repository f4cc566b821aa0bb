"""Small zstd frames that one context decompresses one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from binlogio.errors import BinlogFormatError
from binlogio.storage.compression import ZstdFrames, compress_zstd, decompress_zstd


@pytest.fixture(params=["libzstd", "pyarrow"], autouse=True)
def library(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test with the functions of libzstd, where there are any, and by pyarrow alone."""
    primitives = pytest.importorskip("binlogio._kernel.primitives", reason="the kernel is not compiled")
    found = primitives.use_zstd("pyarrow" if request.param == "pyarrow" else None)
    if found == "pyarrow" != request.param:
        pytest.skip("no libzstd on this machine")
    yield
    primitives.use_zstd()


def _expected(data: bytes, size: int) -> bytes | None:
    """Return what a context of its own makes of the bytes; None if they are damaged or have another size."""
    try:
        plain = b"".join(decompress_zstd(data))
    except BinlogFormatError:
        return None
    return plain if len(plain) == size and size else None


def _plain(random: Random, size: int) -> bytes:
    return random.randbytes(size // 3) * 2 + b"x" * (size - size // 3 * 2)


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_those_that_a_new_context_decompresses(seed: int) -> None:
    """Whole, cut, with flipped bits, with bytes after them, two at once, and with sizes that are not theirs."""
    random, frames = Random(seed), ZstdFrames()
    for _ in range(60):
        plain = _plain(random, random.choice((1, 3, 40, 900, 70_000, 400_000)))
        data, size = compress_zstd(plain, random.choice((1, 3, 9))), len(plain)
        kind = random.randrange(8)
        if kind == 0:
            data = data[: random.randrange(len(data))]
        elif kind == 1:
            at = random.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        elif kind == 2:
            data += random.randbytes(random.randrange(1, 9))
        elif kind == 3:
            data, size = data + data, 2 * size
        elif kind == 4:
            size += random.choice((-1, 1, -size, 1 << 20))

        assert frames.decompress(data, size) == _expected(data, size)


def _stored(data: bytes, window: int) -> bytes:
    """Return a frame of one block that is not compressed, with a window descriptor."""
    return b"\x28\xb5\x2f\xfd\0" + bytes([window]) + (len(data) << 3 | 1).to_bytes(3, "little") + data


@pytest.mark.parametrize("window", [0, 0x88, 0x89, 0x90, 0xFF])
def test_frames_with_a_large_window_are_refused_by_both(window: int) -> None:
    """The size of a window decides how much memory a stream needs: 128 MiB at most."""
    data = _stored(b"a row" * 50, window)

    assert ZstdFrames().decompress(data, 250) == _expected(data, 250) == (b"a row" * 50 if window <= 0x88 else None)


def test_whole_frames_are_decompressed_after_a_damaged_one() -> None:
    frames, data = ZstdFrames(), compress_zstd(b"a row" * 50, 3)

    assert [frames.decompress(one, 250) for one in (data, data[:-3], data, b"", data)] == [
        b"a row" * 50,
        None,
        b"a row" * 50,
        None,
        b"a row" * 50,
    ]
