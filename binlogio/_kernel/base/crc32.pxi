"""CRC32 without the GIL, by a function of ISA-L or zlib that is called by address.

ISA-L (package `isal`) is used if it is installed: 7 ns for an event of 130 bytes, against 98 ns for zlib. Otherwise the
zlib of Python is used. If Python does not export the symbol, `zlib.crc32` is called with the GIL held.

ISA-L leaves the upper halves of the vector registers dirty on processors with AVX-512. The next SSE instruction then
stalls for some 80 ns, ten times as long as the checksum of a small event. `end_avx` clears the registers.
"""

from libc.stdint cimport uint32_t, uint64_t, uint8_t, uintptr_t

cdef extern from *:
    """
    #if defined(__GNUC__) && defined(__x86_64__)
    static int has_avx = -1;
    static inline void end_avx(void) {
        if (has_avx < 0) { __builtin_cpu_init(); has_avx = __builtin_cpu_supports("avx") != 0; }
        if (has_avx)
            __asm__ volatile("vzeroupper" ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                             "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    }
    #else
    static inline void end_avx(void) {}
    #endif
    """
    void end_avx() noexcept nogil

cdef crc32_function crc32_pointer = NULL
cdef object python_crc32 = zlib.crc32


def _addresses():
    """Yield (name, address) of each available CRC32 function, the fastest first."""
    try:
        from isal import isal_zlib
    except ImportError:
        pass
    else:
        yield isal_zlib.__name__, *(library_functions(isal_zlib.__file__, "crc32_gzip_refl") or (0,))
    yield zlib.__name__, *(zlib_functions("crc32") or (0,))


def use_crc32(name=None):
    """Select the CRC32 library by module name, or the fastest one by default; returns the name of the one in use."""
    global crc32_pointer
    crc32_pointer = NULL
    for found, address in _addresses() if name != "python" else ():
        if address and name in (None, found):
            crc32_pointer = <crc32_function><uintptr_t>address
            if crc32_of(b"123456789") == 0xCBF43926:  # the check value of CRC-32/ISO-HDLC
                return found
            crc32_pointer = NULL
    return "python"


cdef uint32_t crc32(uint32_t before, const uint8_t* data, size_t size) noexcept nogil:
    cdef size_t at = 0
    cdef size_t step
    cdef uint64_t value = before
    if crc32_pointer == NULL:
        with gil:
            return <uint32_t>python_crc32(<const uint8_t[:size]>data, before) if size else before
    while at < size:
        step = size - at
        if step > 1 << 30:
            step = 1 << 30
        value = <uint32_t>crc32_pointer(value, data + at, step)
        at += step
    end_avx()
    return <uint32_t>value


def crc32_of(const uint8_t[::1] data, uint32_t before=0) -> int:
    """Return the CRC32 of `data`, continued from the checksum `before`."""
    if data.shape[0] == 0:
        return before
    return crc32(before, &data[0], data.shape[0])


CRC32_LIBRARY = use_crc32()
