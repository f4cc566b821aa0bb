# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""DECIMAL in packed form, and the text form of versions before 5.0.3.

    decimal := group+       -- big-endian, nine digits in four bytes, first and last of fewer; the top bit is set if
                               the number is not negative; all bits are inverted if it is negative

`binlogio.values.decimal` has both grammars. Arrow stores two's complement integers. The caller checks bounds and
reserves the space. Internal to the kernel.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from binlogio._kernel.base.cursor cimport big
from binlogio._kernel.base.digits cimport TENS, digit_count, put_digits, put_unsigned
from binlogio._kernel.column_kinds cimport K_DECIMAL128, K_DECIMAL256, K_OLD_DECIMAL
from binlogio._kernel.column_values cimport (
    F_FIXED, F_TEXT, MOST_GROUPS, OTHER_CLASS, S_SQL, Cell, Column, Groups, Texts, Value, ValueType,
)
from binlogio._kernel.primitives cimport Memory
from binlogio._kernel.values.packing cimport pack_fixed
from binlogio._kernel.values.sql_strings cimport append_quote
from binlogio._kernel.values.temporal cimport SIGNED_ZERO

cdef extern from *:
    """
    typedef unsigned __int128 binlogio_u128; static const int binlogio_digit_bytes[10] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
    static const uint32_t binlogio_powers[10] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000,
    1000000000};
    static PyObject* binlogio_decimal_class;
    """
    ctypedef unsigned long long u128 "binlogio_u128"
    const int* DIGIT_BYTES "binlogio_digit_bytes"
    const uint32_t* POWERS "binlogio_powers"
    PyObject* DECIMAL "binlogio_decimal_class"
    uint32_t __builtin_bswap32(uint32_t value) nogil

cdef enum:
    SMALL_DIGITS = 18  # number of digits that fit into 64 bits
    MAX_DIGITS = 38  # number of digits that fit into 128 bits
    GROUP_END = 1000000000  # exclusive upper bound of a group of 9 digits
    DECIMAL_TEXT = 255 + 8 + 3  # precision and scale are one byte each, plus sign, point and a reserve


cdef inline bint set_groups(Groups* groups, int precision, int scale) noexcept:
    """Set the groups of digits; returns False if there are more than any server's DECIMAL has."""
    cdef int left = precision - scale
    cdef int digits
    groups.count = 0
    groups.is_small = precision <= SMALL_DIGITS
    if scale < 0 or left < 0:
        return False
    while left > 0 or scale > 0:
        if groups.count == MOST_GROUPS:
            return False
        if left > 0:
            digits = left % 9
            if digits == 0:
                digits = 9
            left -= digits
        else:
            digits = scale if scale < 9 else 9
            scale -= digits
        groups.size[groups.count] = DIGIT_BYTES[digits]
        groups.end[groups.count] = POWERS[digits]
        groups.count += 1
    return groups.count > 0


cdef inline uint32_t _group(const uint8_t* p, int size, uint32_t turned) noexcept nogil:
    """Read 1 to 4 bytes, big-endian; `turned` has all bits set if the bits of the number are inverted."""
    if size == 4:
        return (<uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]) ^ turned
    if size == 1:
        return (p[0] ^ turned) & 0xFF
    if size == 2:
        return ((<uint32_t>p[0] << 8 | p[1]) ^ turned) & 0xFFFF
    return ((<uint32_t>p[0] << 16 | <uint32_t>p[1] << 8 | p[2]) ^ turned) & 0xFFFFFF


cdef inline bint small_decimal(const uint8_t* p, const Groups* groups, int64_t* out) noexcept nogil:
    """Read a decimal of up to 18 digits; returns False if the value of a group is too large."""
    cdef uint32_t turned = 0 if p[0] & 0x80 else 0xFFFFFFFFU
    cdef int size = groups.size[0]
    cdef uint32_t group = _group(p, size, turned) ^ (<uint32_t>0x80 << (8 * (size - 1)))
    cdef bint good = group < groups.end[0]
    cdef uint64_t value = group
    cdef int i
    for i in range(1, groups.count):
        p += size
        size = groups.size[i]
        group = _group(p, size, turned)
        good &= group < groups.end[i]
        value = value * groups.end[i] + group
    out[0] = <int64_t>((value ^ <uint64_t><int64_t><int32_t>turned) + (turned & 1))
    return good


cdef inline bint big_decimal(const uint8_t* p, const Groups* groups, uint8_t* out, int width) noexcept nogil:
    """Read a decimal as an integer of `width` bytes, 16 or 32; returns False if the value of a group is too large."""
    cdef uint32_t turned = 0 if p[0] & 0x80 else 0xFFFFFFFFU
    cdef uint32_t sign = <uint32_t>0x80 << (8 * (groups.size[0] - 1))
    cdef uint32_t group
    cdef uint64_t[4] limbs
    cdef u128 wide
    cdef u128 value = 0
    cdef int i, k
    memset(limbs, 0, 32)
    for i in range(groups.count):
        group = _group(p, groups.size[i], turned) ^ sign
        sign = 0
        if group >= groups.end[i]:
            return False
        p += groups.size[i]
        if width == 16:
            value = value * groups.end[i] + group
            continue
        wide = group
        for k in range(4):
            wide += <u128>limbs[k] * groups.end[i]
            limbs[k] = <uint64_t>wide
            wide = wide >> 64
    if width == 16:
        if turned:
            value = -value
        memcpy(out, &value, 16)
        return True
    if turned:
        wide = 1
        for i in range(4):
            wide += ~limbs[i]
            limbs[i] = <uint64_t>wide
            wide = wide >> 64
    memcpy(out, limbs, 32)
    return True


cdef inline bint _fits(const Value* value) noexcept nogil:
    cdef int i
    cdef int total = 0
    for i in range(value.groups.count):
        total += value.groups.size[i]
    return (total > 0 and value.width == total
            and value.first <= (MAX_DIGITS if value.kind == K_DECIMAL128 else 2 * MAX_DIGITS))


cdef inline int64_t _decode(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    cdef int64_t i
    cdef int64_t number = 0
    cdef int width = column.value_size
    cdef const Groups* groups = &column.value.groups
    cdef uint8_t* out = column.data.grow(count * width)
    if width == 16 and groups.is_small:
        for i in range(count):
            if not small_decimal(pointers[i], groups, &number):
                return i
            (<int64_t*>out)[2 * i] = number
            (<int64_t*>out)[2 * i + 1] = number >> 63
        return -1
    for i in range(count):
        if not big_decimal(pointers[i], groups, out + i * width, width):
            return i
    return -1


cdef inline bint _old_fits(const Value* value) noexcept nogil:
    return value.width > 0


cdef inline bint _add_old(Column column, const uint8_t* p, int64_t size) except -1 nogil:
    return old_decimal_text(column.data, p, size)


# -------------------------------------------------------------------------------------------------------------- to text


cdef inline uint8_t* put_decimal(uint8_t* to, int precision, int scale, const uint8_t* p, int64_t size) noexcept nogil:
    """Write the packed form of a DECIMAL as text; returns the end, or NULL if the bytes are invalid."""
    cdef int whole = precision - scale
    # If the precision is below the scale, the server stores the (negative) number of digits before the point modulo 9.
    cdef int rest = (whole % 9 + 9) % 9
    cdef int fraction = scale // 9
    cdef int i, digits, width
    cdef uint32_t group, turned, sign
    cdef uint8_t* begin
    whole = whole // 9 if whole > 0 else 0
    if size == 0 or size != 4 * (whole + fraction) + DIGIT_BYTES[rest] + DIGIT_BYTES[scale % 9]:
        return NULL
    turned = 0 if p[0] & 0x80 else 0xFFFFFFFFU
    sign = 0x80
    if turned:
        to[0] = 45
        to += 1
    begin = to
    for i in range(-1, whole + fraction + 1):
        digits = rest if i < 0 else scale % 9 if i == whole + fraction else 9
        if i == whole:
            if to == begin:
                to[0] = 48
                to += 1
            if scale:
                to[0] = 46
                to += 1
        width = DIGIT_BYTES[digits]
        if width == 0:
            continue
        group = ((<uint32_t>big(p, width) ^ (sign << (8 * (width - 1)))) ^ turned) & (0xFFFFFFFFU >> (32 - 8 * width))
        sign = 0
        if group >= POWERS[digits]:
            return NULL
        p += width
        if i < whole and to == begin:  # no leading zeros
            digits = digit_count(group) if group else 0
        to = put_digits(to, group, digits)
    return to


cdef inline uint8_t* put_small_decimal(uint8_t* to, int scale, const uint8_t* p, const Groups* groups) noexcept nogil:
    """As `put_decimal`, for up to 18 digits and bytes of the right size."""
    cdef int64_t value = 0
    cdef uint64_t digits
    if not small_decimal(p, groups, &value):
        return NULL
    digits = <uint64_t>value
    if not p[0] & 0x80:
        digits = 0 - digits
        to[0] = 45
        to += 1
    if scale == 0:
        return put_unsigned(to, digits)
    to = put_unsigned(to, digits // TENS[scale])
    to[0] = 46
    return put_digits(to + 1, digits % TENS[scale], scale)


cdef inline int old_decimal_text(Memory out, const uint8_t* p, int64_t size) except -1 nogil:
    """Append a DECIMAL of a version before 5.0.3, without leading zeros and spaces.

    Returns 0 and appends nothing if it is not a number.
    """
    cdef int64_t i
    cdef int64_t point = -1
    cdef int64_t digits = 0
    cdef bint negative = False
    cdef uint8_t* at
    while size and (p[0] == 32 or p[0] == 0):
        p += 1
        size -= 1
    while size and (p[size - 1] == 32 or p[size - 1] == 0):
        size -= 1
    if size and (p[0] == 43 or p[0] == 45):
        negative = p[0] == 45
        p += 1
        size -= 1
    for i in range(size):
        if p[i] == 46 and point < 0:
            point = i
        elif 48 <= p[i] <= 57:
            digits += 1
        else:
            return 0
    if digits == 0:
        return 0
    if point < 0:
        point = size
    i = 0
    while i < point and p[i] == 48:
        i += 1
    out.reserve(size + 2)
    at = out.data + out.size
    if negative:
        at[0] = 45
        at += 1
    if i == point:
        at[0] = 48
        at += 1
    if point == size - 1:
        size -= 1  # a point without digits after it is removed
    memcpy(at, p + i, size - i)
    out.size = at + (size - i) - out.data
    return 1


cdef inline uint8_t* _put(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil:
    """Write a number; in JSON it is in quotes."""
    if not sql:
        to[0] = 34
        to += 1
    to = (put_small_decimal(to, value.second, p, &value.groups) if value.groups.is_small
          else put_decimal(to, value.first, value.second, p, value.width))
    if to != NULL and not sql:
        to[0] = 34
        to += 1
    return to


cdef inline int _literal_old(Memory out, Texts texts, const Value* value, const uint8_t* p,
                             int64_t size) except -1 nogil:
    return old_decimal_text(out, p, size)


cdef inline int _append_old(Memory out, Texts texts, const Value* value, const uint8_t* p,
                            int64_t size) except -1 nogil:
    cdef int64_t before = out.size
    if texts.style == S_SQL:
        return old_decimal_text(out, p, size)
    append_quote(out, False)
    if old_decimal_text(out, p, size):
        return append_quote(out, False)
    out.size = before
    return 0


# ------------------------------------------------------------------------------------------------------------ to Python


cdef inline object _make(const Value* value, const uint8_t* p, int64_t size):
    """Return a Decimal with all digits of its scale."""
    cdef uint8_t[DECIMAL_TEXT] text
    cdef uint8_t* end = put_decimal(text, value.first, value.second, p, value.width)
    if end == NULL:
        return (<object>value.function)(p[:size])
    return (<object>DECIMAL)((<char*>text)[:end - text].decode("ascii"))


# ----------------------------------------------------------------------------------------------------------- from Arrow


cdef inline void _put_group(uint8_t* out, uint32_t digits, int size) noexcept nogil:
    """Write exactly one to four bytes, big-endian."""
    cdef int i
    if size == 4:
        digits = __builtin_bswap32(digits)
        memcpy(out, &digits, 4)
        return
    for i in range(size):
        out[i] = <uint8_t>(digits >> (8 * (size - 1 - i)))


cdef inline bint _put_groups(const Groups* groups, int count, uint64_t number, uint8_t* at) noexcept nogil:
    """Write a number as the first `count` groups, which end at `at`; returns False if it has more digits."""
    cdef uint64_t rest
    cdef int i
    if count == 0:
        return number == 0
    for i in range(count - 1, 0, -1):
        at -= groups.size[i]
        if groups.end[i] == GROUP_END:
            rest = number // GROUP_END  # division by a constant
            _put_group(at, <uint32_t>(number - rest * GROUP_END), groups.size[i])
        else:
            rest = number // groups.end[i]
            _put_group(at, <uint32_t>(number - rest * groups.end[i]), groups.size[i])
        number = rest
    _put_group(at - groups.size[0], <uint32_t>number, groups.size[0])
    return number < groups.end[0]


cdef inline uint32_t _divide(uint64_t* limbs, int count, uint32_t by) noexcept nogil:
    """Divide a number in place; returns the remainder."""
    cdef u128 rest = 0
    cdef int i
    for i in range(count - 1, -1, -1):
        rest = (rest << 64) | limbs[i]
        limbs[i] = <uint64_t>(rest // by)
        rest = rest % by
    return <uint32_t>rest


cdef inline uint8_t* _encode(const Cell* cell, const uint8_t* data, int count, uint8_t* out) noexcept nogil:
    """Write a two's complement integer as groups of digits; returns NULL if it has more digits than the column."""
    cdef const Groups* groups = &cell.groups
    cdef uint64_t[4] limbs
    cdef u128 carry = 1
    cdef uint8_t mask
    cdef uint8_t* at = out + cell.width
    cdef int i
    cdef int left = groups.count
    memcpy(limbs, data, 8 * count)
    mask = 0xFF if limbs[count - 1] >> 63 else 0
    if mask:
        for i in range(count):
            carry += <uint64_t>~limbs[i]
            limbs[i] = <uint64_t>carry
            carry = carry >> 64
    while count > 1 and limbs[count - 1] == 0:
        count -= 1
    while count > 1 and left:
        left -= 1
        at -= groups.size[left]
        _put_group(at, _divide(limbs, count, groups.end[left]), groups.size[left])
        while count > 1 and limbs[count - 1] == 0:
            count -= 1
    if count > 1 or not _put_groups(groups, left, limbs[0], at):
        return NULL
    if mask:
        for i in range(cell.width):
            out[i] ^= mask
    out[0] ^= 0x80
    return out + cell.width


cdef inline uint8_t* _encode128(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    return _encode(cell, cell.data + 16 * row, 2, out)


cdef inline uint8_t* _encode256(Cell* cell, int64_t row, uint8_t* out) noexcept nogil:
    return _encode(cell, cell.data + 32 * row, 4, out)


# ---------------------------------------------------------------------------------------------------------- from Python


cdef inline bint _parse(const uint8_t* p, Py_ssize_t size, int precision, int scale, uint8_t* out) noexcept nogil:
    """Parse plain digits with sign and point as a 128-bit integer of that scale.

    Returns False for any other text, and for -0.
    """
    cdef const uint8_t* end = p + size
    cdef bint negative = False
    cdef bint point = False
    cdef u128 value = 0
    cdef int digits = 0
    cdef int fraction = 0
    if p < end and p[0] == c"-":
        negative = True
        p += 1
    while p < end:
        if p[0] == c".":
            if point:
                return False
            point = True
        elif c"0" <= p[0] <= c"9":
            if point and fraction == scale:
                if p[0] != c"0":
                    return False
            else:
                if value or p[0] != c"0":
                    digits += 1
                if digits > MAX_DIGITS:
                    return False
                value = value * 10 + (p[0] - c"0")
                fraction += point
        else:
            return False
        p += 1
    while fraction < scale:
        digits += value != 0
        if digits > MAX_DIGITS:
            return False
        value = value * 10
        fraction += 1
    if digits > precision or negative and value == 0:
        return False
    if negative:
        value = -value
    memcpy(out, &value, 16)
    return True


cdef inline int _pack(Cell* cell, object value, Memory out) except -1:
    cdef uint8_t[16] wide
    cdef const char* text
    cdef Py_ssize_t size = 0
    if type(value) is not <object>DECIMAL and type(value) is not int:
        return OTHER_CLASS
    plain = str(value)
    text = PyUnicode_AsUTF8AndSize(plain, &size)
    if not _parse(<const uint8_t*>text, size, cell.first, cell.second, wide):
        return 0
    return pack_fixed(cell, wide, out)


# ----------------------------------------------------------------------------------------------------------------------


cdef inline int set_decimals(ValueType* types) except -1:
    """Set the functions of the kinds of this file."""
    global DECIMAL
    cdef ValueType* found
    cdef int kind
    from decimal import Decimal
    Py_INCREF(Decimal)  # the reference is never released
    DECIMAL = <PyObject*>Decimal
    for kind in (K_DECIMAL128, K_DECIMAL256):
        found = &types[kind]
        found.form, found.arrow_size, found.missing = F_FIXED, 16 if kind == K_DECIMAL128 else 32, SIGNED_ZERO
        found.fits, found.decode, found.make, found.put = _fits, _decode, _make, _put
        found.is_checked = True
        found.encode = _encode128 if kind == K_DECIMAL128 else _encode256
    types[K_DECIMAL128].pack = _pack
    found = &types[K_OLD_DECIMAL]
    found.form, found.fits, found.add, found.append = F_TEXT, _old_fits, _add_old, _append_old
    found.literal, found.is_checked = _literal_old, True
