"""Decompression of small zstd frames by libzstd, whose functions are called by address (no header needed).

The library is the one of Python (3.14 and later) or of the system. If there is none, or if a frame is not complete and
small, `binlogio.storage.compression` uses pyarrow, which is the reference implementation; it takes more than twice as
long for a frame of some hundred bytes.

    frame := magic: u32  flags: u8  window: u8?  ...      -- no window if bit 5 of the flags is set

Source: RFC 8878, 3.1.1.1.
"""

import sys

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uintptr_t

cdef enum:
    SINGLE_SEGMENT = 0x20
    LEAST_FRAME = 6  # bytes: magic, flags, and the window descriptor or the content size
    MOST_WINDOW = 27 - 10 << 3  # largest window that a streaming decoder allocates, as a window descriptor
    LONG_FRAME = 1 << 14  # plain size in bytes from which releasing the GIL pays off

ctypedef void* (*zstd_make_function)() noexcept nogil
ctypedef size_t (*zstd_free_function)(void*) noexcept nogil
ctypedef size_t (*zstd_size_function)(const void*, size_t) noexcept nogil
ctypedef size_t (*zstd_decompress_function)(void*, void*, size_t, const void*, size_t) noexcept nogil

cdef zstd_make_function zstd_make = NULL
cdef zstd_free_function zstd_free = NULL
cdef zstd_size_function zstd_size = NULL
cdef zstd_decompress_function zstd_decompress = NULL
cdef object zstd_library = None  # None until `use_zstd` was called


def _zstd_files():
    """Return the files that may contain libzstd."""
    try:
        import _zstd
    except ImportError:
        own = None
    else:
        own = getattr(_zstd, "__file__", None)
    return (*((own,) if own else ()), *(("libzstd.1.dylib",) if sys.platform == "darwin" else ("libzstd.so.1",)))


def use_zstd(name=None):
    """Select the library that has the functions, or pyarrow by name; returns the name of the one in use."""
    global zstd_make, zstd_free, zstd_size, zstd_decompress, zstd_library

    zstd_make, zstd_free, zstd_size, zstd_decompress = NULL, NULL, NULL, NULL
    zstd_library = "pyarrow"
    names = ("ZSTD_createDCtx", "ZSTD_freeDCtx", "ZSTD_findFrameCompressedSize", "ZSTD_decompressDCtx")
    for file in _zstd_files() if name != "pyarrow" else ():
        found = library_functions(file, *names)
        if found is None:
            continue
        zstd_make = <zstd_make_function><uintptr_t>found[0]
        zstd_free = <zstd_free_function><uintptr_t>found[1]
        zstd_size = <zstd_size_function><uintptr_t>found[2]
        zstd_decompress = <zstd_decompress_function><uintptr_t>found[3]
        zstd_library = file
        break
    return zstd_library


cdef class ZstdContext:
    """Decompresses frames one after the other. An instance is used by one thread at a time."""

    def __cinit__(self):
        if zstd_library is None:
            use_zstd()

    def __dealloc__(self):
        if self.context != NULL and zstd_free != NULL:
            zstd_free(self.context)

    cdef bint takes(self, const uint8_t* frame, int64_t length, int64_t size) noexcept nogil:
        """Return whether the bytes are one complete frame with a small window; `size` is the plain size."""
        if self.context == NULL and zstd_make != NULL:
            self.context = zstd_make()
        if self.context == NULL or zstd_decompress == NULL or length < LEAST_FRAME or size <= 0:
            return False
        if not frame[4] & SINGLE_SEGMENT and frame[5] > <int>MOST_WINDOW:
            return False
        return zstd_size(frame, length) == <size_t>length

    cdef bint open(self, uint8_t* to, int64_t size, const uint8_t* frame, int64_t length) noexcept nogil:
        """Write the `size` plain bytes of a frame that `takes` accepts; False if it is damaged or has another size."""
        return zstd_decompress(self.context, to, size, frame, length) == <size_t>size

    def decompress(self, bytes data, int64_t size):
        """Return the `size` plain bytes of the frame `data`; None if pyarrow must decompress it."""
        cdef const uint8_t* frame = data
        cdef int64_t length = len(data)
        cdef bytes plain
        cdef uint8_t* to
        cdef bint is_whole
        if not self.takes(frame, length, size):
            return None
        plain = PyBytes_FromStringAndSize(NULL, size)
        to = plain
        if size >= LONG_FRAME:
            with nogil:
                is_whole = self.open(to, size, frame, length)
        else:
            is_whole = self.open(to, size, frame, length)
        return plain if is_whole else None
