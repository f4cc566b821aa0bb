"""zlib's deflate without the GIL, for compressed columns of MariaDB.

`binlogio.values.strings` defines the format and is the reference implementation. The kernel calls the same zlib as
Python (`inflate.pxi`), so that the output is identical. If Python does not export the symbols, its `zlib` module is
called with the GIL held.
"""

from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset

cdef enum:
    Z_NO_FLUSH = 0
    Z_FINISH = 4
    Z_DEFAULT_COMPRESSION = -1
    Z_DEFLATED = 8
    MEMORY_LEVEL = 8
    THRESHOLD = 100  # column_compression_threshold of the server: shorter values are stored uncompressed

ctypedef int (*deflate_init_function)(Stream*, int, int, int, int, int, const char*, int) noexcept nogil
ctypedef int (*deflate_step_function)(Stream*, int) noexcept nogil
ctypedef int (*deflate_whole_function)(Stream*) noexcept nogil

cdef deflate_init_function deflate_init = NULL
cdef deflate_step_function deflate_step = NULL
cdef deflate_whole_function deflate_reset = NULL
cdef deflate_whole_function deflate_end = NULL


def use_deflate(name=None):
    """Select zlib's functions, or Python's `zlib` module by the name "python"; returns the name of the one in use."""
    global deflate_init, deflate_step, deflate_reset, deflate_end
    found = None if name == "python" else zlib_functions("deflateInit2_", "deflate", "deflateReset", "deflateEnd")
    if found is None:
        deflate_init = NULL
        return "python"
    deflate_step = <deflate_step_function><uintptr_t>found[1]
    deflate_reset = <deflate_whole_function><uintptr_t>found[2]
    deflate_end = <deflate_whole_function><uintptr_t>found[3]
    deflate_init = <deflate_init_function><uintptr_t>found[0]
    sample = b"binlogio" * THRESHOLD
    if inflated(deflated(sample)[3:], len(sample), raw=True, whole=True) == sample:
        return "zlib"
    return use_deflate("python")


cdef class Deflater:
    """Compresses values one after another. An instance is used by one thread at a time."""

    def __dealloc__(self):
        if self.is_ready:
            deflate_end(&self.stream)

    cdef int64_t column(self, const uint8_t* p, int64_t size, uint8_t* out) noexcept nogil:
        """Write a value that is not empty in the format of a compressed column, in at most `size` + 1 bytes.

        Returns the number of bytes written, or -1 if there is no memory.
        """
        cdef int size_bytes = 1
        cdef int i
        cdef int64_t packed = 0
        while size_bytes < 4 and size >> (8 * size_bytes):
            size_bytes += 1
        if size >= THRESHOLD:
            packed = self._deflate(p, size, out + 1 + size_bytes, size - 1 - size_bytes)
        if packed <= 0:
            out[0] = 0
            memcpy(out + 1, p, size)
            return size + 1 if packed == 0 else packed
        out[0] = <uint8_t>(ZLIB | RAW | size_bytes)
        for i in range(size_bytes):
            out[1 + i] = <uint8_t>(size >> (8 * (size_bytes - 1 - i)))
        return 1 + size_bytes + packed

    cdef int64_t _deflate(self, const uint8_t* p, int64_t size, uint8_t* out, int64_t room) noexcept nogil:
        """Write a raw deflate stream. Returns its size in bytes, 0 if it exceeds `room`, -1 if there is no memory."""
        cdef int status
        if deflate_init == NULL:
            return _deflate_by_python(p, size, out, room)
        if not self.is_ready:
            memset(&self.stream, 0, sizeof(Stream))
            if deflate_init(&self.stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WINDOW_BITS, MEMORY_LEVEL, 0, b"1",
                         sizeof(Stream)) != Z_OK:
                return -1
            self.is_ready = True
        elif deflate_reset(&self.stream) != Z_OK:
            return -1
        self.stream.next_in = p
        self.stream.avail_in = <unsigned int>size
        self.stream.next_out = out
        self.stream.avail_out = <unsigned int>room
        deflate_step(&self.stream, Z_NO_FLUSH)
        status = deflate_step(&self.stream, Z_FINISH)
        return room - self.stream.avail_out if status == Z_STREAM_END else 0


cdef int64_t _deflate_by_python(const uint8_t* p, int64_t size, uint8_t* out, int64_t room) noexcept with gil:
    stream = zlib.compressobj(Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WINDOW_BITS)
    packed = stream.compress(<bytes>(<const char*>p)[:size]) + stream.flush()
    if len(packed) > room:
        return 0
    memcpy(out, <const char*>packed, len(packed))
    return len(packed)


def deflated(const uint8_t[::1] data) -> bytes:
    """Return a value that is not empty in the format of a compressed column."""
    cdef Memory out = Memory()
    cdef int64_t size
    out.reserve(data.shape[0] + 1)
    size = Deflater().column(&data[0], data.shape[0], out.data)
    if size < 0:
        raise MemoryError("no memory to deflate")
    out.size = size
    return bytes(out)


DEFLATE_LIBRARY = use_deflate()
