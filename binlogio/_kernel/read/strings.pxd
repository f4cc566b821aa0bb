# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Values of any length that go to Arrow a block at a time: bytes after their length, names of ENUMs' and SETs' members.

Callers have checked the bounds, and give a value for each row; only files of the kernel may use these.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t

from binlogio._kernel.base.copying cimport copy_value
from binlogio._kernel.base.cursor cimport little, u16
from binlogio._kernel.primitives cimport MOST_TEXT, Memory, is_ascii, is_utf8


cdef inline int64_t append_strings(Memory data, int32_t* offsets, const uint8_t** pointers, int64_t count, int prefix,
                                   bint is_text) except -2 nogil:
    """Append bytes after `prefix` bytes of length; the copy is checked as a whole, since text is nearly always valid.

    Returns the number of the first invalid one, or -1.
    """
    cdef int64_t i
    cdef int64_t first = data.size
    cdef int64_t end = first
    cdef int64_t at
    cdef uint8_t* out
    cdef bint good
    for i in range(count):
        end += pointers[i][0] if prefix == 1 else u16(pointers[i]) if prefix == 2 else little(pointers[i], prefix)
        if end > MOST_TEXT:
            return i
        offsets[i] = <int32_t>end
    data.grow(end - first)
    out = data.data
    at = first
    for i in range(count):
        copy_value(out + at, pointers[i] + prefix, offsets[i] - at)
        at = offsets[i]
    if not is_text or is_ascii(out + first, end - first):
        return -1
    if is_utf8(out + first, end - first):
        good = True
        at = first
        for i in range(count):  # no value begins within a character
            good &= at == end or out[at] & 0xC0 != 0x80
            at = offsets[i]
        if good:
            return -1
    for i in range(count):
        if not is_utf8(out + first, offsets[i] - first):
            return i
        first = offsets[i]
    return -1


cdef inline int64_t append_names(Memory data, int32_t* offsets, const uint8_t** pointers, int64_t count, int width,
                                 const uint8_t* names, const uint32_t* ends, uint64_t name_count) except -2 nogil:
    """Names of ENUMs' members; 0 is the empty string that the server stores for what was no member.

    Returns as `append_strings`.
    """
    cdef int64_t i, size
    cdef int64_t good = 0
    cdef int64_t end = data.size
    cdef uint64_t index
    cdef uint8_t* out
    while good < count:
        index = pointers[good][0] if width == 1 else little(pointers[good], width)
        if index > name_count:
            break
        size = ends[index] - ends[index - 1] if index else 0
        if end + size > MOST_TEXT:
            break
        end += size
        offsets[good] = <int32_t>end
        good += 1
    out = data.grow(end - data.size)
    for i in range(good):
        index = pointers[i][0] if width == 1 else little(pointers[i], width)
        if index:
            size = ends[index] - ends[index - 1]
            copy_value(out, names + ends[index - 1], size)
            out += size
    return -1 if good == count else good


cdef inline bint append_members(Memory data, uint64_t bits, const uint8_t* names, const uint32_t* ends,
                                int64_t name_count) except -1 nogil:
    """The names of a SET's members, in the order of its definition, with commas between.

    False where it has no such member.
    """
    cdef int64_t i, size
    cdef bint first = True
    if name_count < 64 and bits >> name_count:
        return False
    for i in range(min(name_count, <int64_t>64)):  # a table map may name more members than a SET has bits
        if (bits >> i) & 1:
            if not first:
                data.grow(1)[0] = 44  # a comma
            first = False
            size = ends[i + 1] - ends[i]
            copy_value(data.grow(size), names + ends[i], size)
    return True
