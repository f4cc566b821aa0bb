"""zlib's inflate without the GIL, for compressed columns and compressed rows events of MariaDB.

The functions of Python's zlib are called by address. If Python does not export the symbols, its `zlib` module is called
with the GIL held.
"""

from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset

from binlogio._kernel.base.cursor cimport big

cdef enum:
    Z_SYNC_FLUSH = 2
    Z_BUF_ERROR = -5
    MAX_RATIO = 1032  # largest compression ratio of deflate
    METHOD = 0xF0  # bits of the first byte of a compressed column
    SIZE_BYTES = 0x07

ctypedef int (*inflate_init_function)(Stream*, int, const char*, int) noexcept nogil
ctypedef int (*inflate_step_function)(Stream*, int) noexcept nogil
ctypedef int (*inflate_end_function)(Stream*) noexcept nogil

cdef inflate_init_function inflate_init = NULL
cdef inflate_step_function inflate_step = NULL
cdef inflate_end_function inflate_end = NULL


def use_inflate(name=None):
    """Select zlib's functions, or Python's `zlib` module by the name "python"; returns the name of the one in use."""
    global inflate_init, inflate_step, inflate_end

    inflate_init, inflate_step, inflate_end = NULL, NULL, NULL
    found = None if name == "python" else zlib_functions("inflateInit2_", "inflate", "inflateEnd")
    if found is None:
        return "python"
    inflate_init = <inflate_init_function><uintptr_t>found[0]
    inflate_step = <inflate_step_function><uintptr_t>found[1]
    inflate_end = <inflate_end_function><uintptr_t>found[2]
    if inflated(zlib.compress(b"binlogio"), 8) == b"binlogio":
        return "zlib"
    return use_inflate("python")


cdef int inflate(Memory out, const uint8_t* data, int64_t size, int64_t expected, bint raw, bint whole) except -1 nogil:
    """Decompress `data` and append exactly `expected` bytes to `out`; returns 1.

    Returns 0 and appends nothing if the data is invalid or has another size. `raw` streams have no zlib header. With
    `whole`, the stream must end at the end of `data`.
    """
    cdef Stream stream
    cdef int status = Z_OK
    cdef int64_t before = out.size
    if expected < 0 or expected > MAX_RATIO * size or size > 0x7FFFFFFF or expected >= 0x7FFFFFFF:
        return 0
    if inflate_init == NULL:
        with gil:
            return _inflate_by_python(out, <bytes>(<const char*>data)[:size], expected, raw, whole)
    memset(&stream, 0, sizeof(Stream))
    stream.next_in = data
    stream.avail_in = <unsigned int>size
    if inflate_init(&stream, -MAX_WINDOW_BITS if raw else MAX_WINDOW_BITS, b"1", sizeof(Stream)) != Z_OK:
        with gil:
            raise MemoryError("no memory to inflate")
    try:
        stream.next_out = out.grow(expected + 1)
        stream.avail_out = <unsigned int>(expected + 1)
        while status == Z_OK and stream.avail_out and (stream.avail_in or size == 0):
            status = inflate_step(&stream, Z_SYNC_FLUSH)
    finally:
        inflate_end(&stream)
        out.size = before
    if status != Z_OK and status != Z_STREAM_END and status != Z_BUF_ERROR or stream.avail_out != 1:
        return 0
    if whole and (status != Z_STREAM_END or stream.avail_in):
        return 0
    out.size += expected
    return 1


cdef int inflate_column(Memory out, const uint8_t* p, int64_t size, int64_t most) except -1 nogil:
    """Append the decompressed value of a COMPRESSED column.

    Returns 0 if the value is invalid or its decompressed size exceeds `most` bytes. `binlogio.values.strings` defines
    the format.
    """
    cdef int size_bytes
    cdef int64_t opened_size
    if size == 0 or p[0] == 0:
        if size > 1:
            memcpy(out.grow(size - 1), p + 1, size - 1)
        return 1
    size_bytes = p[0] & SIZE_BYTES
    if p[0] & METHOD != ZLIB or not 1 <= size_bytes <= 4 or size < 1 + size_bytes:
        return 0
    opened_size = <int64_t>big(p + 1, size_bytes)
    if opened_size > most:
        return 0
    return inflate(out, p + 1 + size_bytes, size - 1 - size_bytes, opened_size, (p[0] & RAW) != 0, False)


cdef int _inflate_by_python(Memory out, bytes data, int64_t expected, bint raw, bint whole) except -1:
    stream = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
    try:
        plain = stream.decompress(data, expected + 1)
    except zlib.error:
        return 0
    if len(plain) != expected or whole and (not stream.eof or stream.unused_data):
        return 0
    memcpy(out.grow(expected), <const char*>plain, expected)
    return 1


def inflated(const uint8_t[::1] data, int64_t expected, *, bint raw=False, bint whole=False) -> bytes | None:
    """Return the `expected` decompressed bytes of `data`; None if it is invalid or has another size."""
    cdef Memory out = Memory()
    cdef int64_t size = data.shape[0]
    return bytes(out) if inflate(out, &data[0] if size else NULL, size, expected, raw, whole) else None


INFLATE_LIBRARY = use_inflate()
