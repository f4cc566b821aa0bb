# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Memory buffers, CRC32, compression, and text of values: the base of the other kernel modules.

    base/memory.pxi       growable memory that needs no GIL and is passed to Arrow without a copy
    base/shared_library.pxi: functions of libraries, by address
    base/crc32.pxi        checksums; base/inflate.pxi and base/deflate.pxi: zlib; base/zstd.pxi: zstd
    values/utf8.pxi       validation of text; values/charsets.pxi: character sets
    values/floating.pxi   floating-point numbers as text; values/geometry.pxi: WKB as WKT
"""

include "base/memory.pxi"
include "base/shared_library.pxi"
include "base/crc32.pxi"
include "base/inflate.pxi"
include "base/deflate.pxi"
include "base/zstd.pxi"
include "values/utf8.pxi"
include "values/charsets.pxi"
include "values/floating.pxi"
include "values/geometry.pxi"
