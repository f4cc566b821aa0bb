# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Integers, FLOAT, DOUBLE, BIT, numbers of ENUM and SET members, and the type NULL.

`binlogio.values.numbers` and `bit` have the grammar. The caller checks bounds. Internal to the kernel.
"""

from libc.float cimport FLT_MAX
from libc.math cimport isfinite, isinf
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memchr, memcpy

from binlogio._kernel.base.copying cimport copy_values
from binlogio._kernel.base.cursor cimport big, little, u24, u32, u64
from binlogio._kernel.base.digits cimport put_integer, put_unsigned
from binlogio._kernel.base.memory_text cimport append_unsigned, end_of
from binlogio._kernel.base.wide_bytes cimport cell_big, cell_little
from binlogio._kernel.column_kinds cimport (
    K_BITS, K_DOUBLE, K_FLOAT, K_LITTLE16, K_LITTLE64, K_NOTHING, K_SIGNED, K_UNSIGNED,
)
from binlogio._kernel.column_values cimport F_FIXED, F_NULL, OTHER_CLASS, Cell, Column, Texts, Value, ValueType
from binlogio._kernel.primitives cimport DOUBLE_TEXT, Memory, put_json_number, put_server_number
from binlogio._kernel.values.packing cimport pack_fixed, pack_signed, pack_unsigned

cdef extern from *:
    """
    /* Bytes read in place of a missing value, so that loops over values need no check; most kinds decode them as 0.
    */ static const uint8_t binlogio_zeros[256] = {0};
    """
    const uint8_t* ZEROS "binlogio_zeros"


# -------------------------------------------------------------------------------------------------------- row to Arrow


cdef inline bint _fits(const Value* value) noexcept nogil:
    cdef int kind = value.kind
    cdef int width = value.width
    if kind == K_SIGNED or kind == K_UNSIGNED:
        return 1 <= width <= 4 or width == 8
    if kind == K_BITS or kind == K_LITTLE64:
        return 1 <= width <= 8
    if kind == K_LITTLE16:
        return 1 <= width <= 2
    return width == (0 if kind == K_NOTHING else 4 if kind == K_FLOAT else 8)


cdef inline int64_t _decode_copied(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    copy_values(column.data.grow(count * column.value_size), pointers, count, column.value_size)
    return -1


cdef inline int64_t _decode_signed(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    cdef int64_t i
    cdef int32_t* out
    if column.value.width != 3:
        return _decode_copied(column, pointers, count)
    out = <int32_t*>column.data.grow(4 * count)
    for i in range(count):
        out[i] = <int32_t>(u24(pointers[i]) << 8) >> 8
    return -1


cdef inline int64_t _decode_unsigned(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    cdef int64_t i
    cdef int32_t* out
    if column.value.width != 3:
        return _decode_copied(column, pointers, count)
    out = <int32_t*>column.data.grow(4 * count)
    for i in range(count):
        out[i] = <int32_t>u24(pointers[i])
    return -1


cdef inline int64_t _decode_bits(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    cdef int64_t i
    cdef uint64_t* out = <uint64_t*>column.data.grow(8 * count)
    for i in range(count):
        out[i] = big(pointers[i], column.value.width)
    return -1


cdef inline int64_t _decode_little64(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    cdef int64_t i
    cdef uint64_t* out = <uint64_t*>column.data.grow(8 * count)
    for i in range(count):
        out[i] = little(pointers[i], column.value.width)
    return -1


cdef inline int64_t _decode_little16(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    cdef int64_t i
    cdef uint16_t* out = <uint16_t*>column.data.grow(2 * count)
    for i in range(count):
        out[i] = <uint16_t>little(pointers[i], column.value.width)
    return -1


# ------------------------------------------------------------------------------------------------------------ to Python


cdef inline int64_t _signed(const uint8_t* p, int size) noexcept nogil:
    cdef int unused = 64 - 8 * size
    if size == 8:
        return <int64_t>u64(p)
    return <int64_t>(little(p, size) << unused) >> unused


cdef inline object _make_signed(const Value* value, const uint8_t* p, int64_t size):
    return _signed(p, <int>size)


cdef inline object _make_unsigned(const Value* value, const uint8_t* p, int64_t size):
    return little(p, <int>size)


cdef inline object _make_bits(const Value* value, const uint8_t* p, int64_t size):
    return big(p, <int>size)


cdef inline object _make_float(const Value* value, const uint8_t* p, int64_t size):
    cdef float number
    memcpy(&number, p, 4)
    return <double>number


cdef inline object _make_double(const Value* value, const uint8_t* p, int64_t size):
    cdef double number
    memcpy(&number, p, 8)
    return number


cdef inline object _make_none(const Value* value, const uint8_t* p, int64_t size):
    return None


# -------------------------------------------------------------------------------------------------------------- to text


cdef inline uint8_t* _put_signed(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    if value.width == 4:
        return put_integer(to, <int32_t>u32(p))
    return put_integer(to, _signed(p, value.width))


cdef inline uint8_t* _put_unsigned(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    return put_unsigned(to, little(p, value.width))


cdef inline uint8_t* _put_bits(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    return put_unsigned(to, big(p, value.width))


cdef inline uint8_t* _put_float(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    """Write a FLOAT as text; returns NULL if SQL has no such number."""
    cdef float number
    memcpy(&number, p, 4)
    return put_server_number(to, number, True, False) if sql else put_json_number(to, number, True)


cdef inline uint8_t* _put_double(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    cdef double number
    memcpy(&number, p, 8)
    return put_server_number(to, number, False, False) if sql else put_json_number(to, number, False)


cdef inline int _as_double(Memory out, uint8_t* begin, uint8_t* end) except -1 nogil:
    """Append an exponent to the text of a number up to `end` unless it has one, which makes it a DOUBLE in SQL."""
    if end == NULL:
        return 0
    if memchr(begin, 101, end - begin) == NULL:
        memcpy(end, b"e0", 2)
        end += 2
    out.size = end - out.data
    return 1


cdef inline int _literal_float(Memory out, Texts texts, const Value* value, const uint8_t* p,
                               int64_t size) except -1 nogil:
    """Append a FLOAT literal; returns 0 for infinity, NaN, and +-FLT_MAX, which needs more digits."""
    cdef float number
    cdef uint8_t* to = end_of(out, DOUBLE_TEXT + 2)
    memcpy(&number, p, 4)
    return _as_double(out, to, put_server_number(to, number, True, False)) if -FLT_MAX < number < FLT_MAX else 0


cdef inline int literal_double(Memory out, Texts texts, const Value* value, const uint8_t* p,
                                int64_t size) except -1 nogil:
    cdef double number
    cdef uint8_t* to = end_of(out, DOUBLE_TEXT + 2)
    memcpy(&number, p, 8)
    return _as_double(out, to, put_json_number(to, number, False)) if isfinite(number) else 0


cdef inline int literal_number(Memory out, Texts texts, const Value* value, const uint8_t* p,
                               int64_t size) except -1 nogil:
    """Append the number of an ENUM or SET value."""
    return append_unsigned(out, little(p, <int>size))


cdef inline uint8_t* _put_null(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    memcpy(to, b"null", 4)
    return to + 4


# ----------------------------------------------------------------------------------------------------------- from Arrow


cdef inline uint8_t* _encode_copied(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef int width = cell.width
    if width == 4:
        memcpy(out, cell.data + 4 * row, 4)
    elif width == 8:
        memcpy(out, cell.data + 8 * row, 8)
    elif width == 2:
        memcpy(out, cell.data + 2 * row, 2)
    else:
        out[0] = cell.data[row]
    return out + width


cdef inline uint8_t* _encode_signed(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef int64_t number
    if cell.width != 3:
        return _encode_copied(cell, row, out)
    number = (<const int32_t*>cell.data)[row]
    return cell_little(out, <uint64_t>number, 3) if -0x800000 <= number <= 0x7FFFFF else NULL


cdef inline uint8_t* _encode_unsigned(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef uint32_t number
    if cell.width != 3:
        return _encode_copied(cell, row, out)
    number = (<const uint32_t*>cell.data)[row]
    return cell_little(out, number, 3) if number <= 0xFFFFFF else NULL


cdef inline uint8_t* _encode_bits(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef uint64_t bits = (<const uint64_t*>cell.data)[row]
    return NULL if cell.first < 64 and bits >> cell.first else cell_big(out, bits, cell.width)


cdef inline uint8_t* _encode_little64(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef uint64_t bits = (<const uint64_t*>cell.data)[row]
    return NULL if cell.first < 64 and bits >> cell.first else cell_little(out, bits, cell.width)


cdef inline uint8_t* _encode_little16(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    cdef uint64_t number = (<const uint16_t*>cell.data)[row]
    return NULL if number >> (8 * cell.width) else cell_little(out, number, cell.width)


# ---------------------------------------------------------------------------------------------------------- from Python


cdef inline int _pack_signed(Cell* cell, object value, Memory out) except -1:
    return pack_signed(cell, value, out, 32 if cell.width == 3 else 8 * cell.width)


cdef inline int _pack_unsigned(Cell* cell, object value, Memory out) except -1:
    return pack_unsigned(cell, value, out, 32 if cell.width == 3 else 8 * cell.width)


cdef inline int _pack_unsigned64(Cell* cell, object value, Memory out) except -1:
    return pack_unsigned(cell, value, out, 64)


cdef inline int _pack_unsigned16(Cell* cell, object value, Memory out) except -1:
    return pack_unsigned(cell, value, out, 16)


cdef inline int _pack_float(Cell* cell, object value, Memory out) except -1:
    cdef double wide
    cdef float number
    if type(value) is not float:
        return OTHER_CLASS
    wide = value
    number = <float>wide
    if isinf(number) and isfinite(wide):
        return 0
    return pack_fixed(cell, <const uint8_t*>&number, out)


cdef inline int _pack_double(Cell* cell, object value, Memory out) except -1:
    cdef double number
    if type(value) is not float:
        return OTHER_CLASS
    number = value
    return pack_fixed(cell, <const uint8_t*>&number, out)


# ----------------------------------------------------------------------------------------------------------------------


cdef inline void set_numbers(ValueType* types) noexcept:
    """Set the functions of the kinds of this file."""
    cdef ValueType* found
    cdef int kind
    for kind in (K_SIGNED, K_UNSIGNED, K_FLOAT, K_DOUBLE, K_BITS, K_LITTLE64, K_LITTLE16):
        types[kind].form, types[kind].missing, types[kind].fits = F_FIXED, ZEROS, _fits
        types[kind].is_told = kind != K_FLOAT and kind != K_DOUBLE
    found = &types[K_SIGNED]
    found.decode, found.make, found.put = _decode_signed, _make_signed, _put_signed
    found.encode, found.pack = _encode_signed, _pack_signed
    found = &types[K_UNSIGNED]
    found.decode, found.make, found.put = _decode_unsigned, _make_unsigned, _put_unsigned
    found.encode, found.pack = _encode_unsigned, _pack_unsigned
    found = &types[K_FLOAT]
    found.decode, found.make, found.put = _decode_copied, _make_float, _put_float
    found.encode, found.pack, found.literal = _encode_copied, _pack_float, _literal_float
    found = &types[K_DOUBLE]
    found.decode, found.make, found.put = _decode_copied, _make_double, _put_double
    found.encode, found.pack, found.literal = _encode_copied, _pack_double, literal_double
    found = &types[K_BITS]
    found.arrow_size = 8
    found.decode, found.make, found.put = _decode_bits, _make_bits, _put_bits
    found.encode, found.pack = _encode_bits, _pack_unsigned64
    found = &types[K_LITTLE64]
    found.arrow_size = 8
    found.decode, found.make, found.put = _decode_little64, _make_unsigned, _put_unsigned
    found.encode, found.pack = _encode_little64, _pack_unsigned64
    found = &types[K_LITTLE16]
    found.arrow_size = 2
    found.decode, found.make, found.put = _decode_little16, _make_unsigned, _put_unsigned
    found.encode, found.pack = _encode_little16, _pack_unsigned16
    found = &types[K_NOTHING]
    found.form, found.fits, found.make, found.put = F_NULL, _fits, _make_none, _put_null
