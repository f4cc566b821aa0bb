"""Decodes column values from row images into Arrow buffers, a block of rows at a time.

The functions of the column's kind decode the values. `binlogio.values.layout` is the reference implementation (oracle):
construct decodes a value that is rejected here again, and raises the error.

A pointer of 0 means NULL, 1 means that the image lacks the column; both become null in Arrow.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset

from binlogio._kernel.base.copying cimport mark_values
from binlogio._kernel.base.cursor cimport little
from binlogio._kernel.column_kinds cimport K_NOTHING
from binlogio._kernel.primitives cimport MOST_TEXT, Characters, Memory
from binlogio._kernel.values.temporal cimport decode_date_texts


cdef class Texts:
    """State shared by the functions that append text: the style, and scratch memory for the current value."""

    def __cinit__(self, int style=S_COMPACT):
        self.style = style
        self.text, self.plain, self.marks = Memory(), Memory(), Memory()


cdef class Names:
    """A list of texts: members of an ENUM or SET, or the characters of a single-byte character set."""

    def __cinit__(self, names):
        cdef bytes name
        self.text, self.ends = Memory(), Memory()
        (<uint32_t*>self.ends.grow(4))[0] = 0
        for name in names:
            memcpy(self.text.grow(len(name)), <const char*>name, len(name))
            (<uint32_t*>self.ends.grow(4))[0] = <uint32_t>self.text.size
        self.count = len(names)


cdef int set_names(Value* value, Names names) except -1:
    """Set the names of a value. The caller keeps `names` alive."""
    cdef int i
    value.names, value.name_ends = names.text.data, <const uint32_t*>names.ends.data
    value.name_count = names.count
    value.is_ascii = names.count == 256
    for i in range(128):
        if not value.is_ascii or value.name_ends[i] != i or value.name_ends[i + 1] != i + 1 or value.names[i] != i:
            value.is_ascii = False
            break
    return 0


cdef int set_value(Value* value, int kind, int width, int first, int second) except -1:
    """Set the kind and its parameters, and clear everything else."""
    memset(value, 0, sizeof(Value))
    value.type = type_of(kind)
    value.kind, value.width, value.first, value.second = kind, width, first, second
    if not set_groups(&value.groups, first, second):
        value.groups.count, value.groups.is_small = 0, False
    return 0


cdef bint _is_decoded(const Value* value) noexcept:
    """Return whether the kernel can decode the kind to Arrow with these parameters."""
    cdef const ValueType* type = value.type
    if type.form != F_NULL and type.decode == NULL and type.add == NULL or not type.fits(value):
        return False
    if type.opens:
        type = type_of(value.first)
    if type.name_count and (value.name_ends == NULL or 0 < type.name_count != value.name_count):
        return False
    return value.characters != NULL or not type.has_characters


cdef int arrow_size(const ValueType* type, int width) noexcept nogil:
    """Return the bytes of a fixed-size value in Arrow."""
    return type.arrow_size if type.arrow_size else 4 if width == 3 else width


@cython.no_gc  # it refers to memory only, not to containers
cdef class Column:
    """Arrow buffers of one column on one side (before or after) of a batch.

    Args:
        kind: a number of `column_kinds`.
        width: bytes of a fixed-size value, or minus the bytes of its length prefix.
        first, second: precision and scale, fraction digits, or the padded length; for a compressed column the kind of
            its text and the most bytes of a decompressed value.
        policy: handling of dates that are not in the calendar.
        names: members of an ENUM or SET, or the 256 characters of a single-byte set, as UTF-8.
        characters: a multi-byte character set.

    Raises:
        ValueError: values of this kind do not have this width or these parameters. Space is reserved, and bytes are
            read, according to these alone.
    """

    def __cinit__(self):
        self.kind = K_NOTHING
        self.form = F_NULL
        self.validity, self.data, self.offsets = Memory(), Memory(), Memory()

    def __init__(self, int kind, int width, int first=0, int second=0, int policy=P_ERROR, names=None,
                 Characters characters=None):
        cdef const ValueType* type = type_of(kind)
        cdef Names texts = Names(() if names is None else names)
        self.keep = texts, characters
        set_value(&self.value, kind, width, first, second)
        if names is not None:
            set_names(&self.value, texts)
        if characters is not None:
            self.value.characters = <void*>characters
        if not _is_decoded(&self.value):
            raise ValueError(f"no column of kind {kind} has width {width}, parameters {first} and {second}")
        self.kind, self.policy = kind, policy
        self.form, self.missing, self.decode = type.form, type.missing, type.decode
        if type.decode == NULL:
            self.decode = _decode_each
        if policy == P_TEXT and type.is_date:
            self.form, self.missing, self.decode = F_TEXT, NULL, decode_date_texts
        self.value_size = arrow_size(type, width)
        self._take_more()

    cdef int _take_more(self) except -1:
        """Allocate the memory that only some kinds need."""
        if self.form == F_GEOMETRY:
            self.more = Memory()
        if self.opens():
            self.plain = Memory()
        return 0

    cdef Column like(self):
        """Return an empty column of the same kind, which shares the names and characters."""
        cdef Column made = Column.__new__(Column)
        made.value, made.kind, made.form, made.value_size = self.value, self.kind, self.form, self.value_size
        made.policy, made.missing, made.decode, made.keep = self.policy, self.missing, self.decode, self.keep
        made._take_more()
        return made

    cdef bint opens(self) noexcept:
        """Return whether values are decompressed: a row may then have a thousand times its bytes in the log."""
        return self.value.type != NULL and self.value.type.opens

    cdef int append(self, const uint8_t** pointers, int64_t count) except -2 nogil:
        """Append a block of values; returns the index of the first invalid value, or -1.

        Entries of `pointers` that were 0 or 1 may be changed.
        """
        cdef int64_t bad
        cdef int64_t new_bytes = (self.count + count + 7) // 8 - self.validity.size
        if new_bytes > 0:
            memset(self.validity.grow(new_bytes), 0, new_bytes)
        if self.form == F_NULL:
            self.null_count += count
            self.count += count
            return -1
        self.null_count += count - mark_values(self.validity.data, self.count, pointers, count, self.missing)
        bad = self.decode(self, pointers, count)
        if bad >= 0:
            self._clear(self.count + bad, self.count + count)
        self.count += count
        return <int>bad

    cdef int _clear(self, int64_t row, int64_t end) except -1 nogil:
        """Clear the values of the rows from `row` to `end`."""
        cdef int64_t i, size
        if self.form != F_FIXED:
            for i in range(row, end):
                (<int32_t*>self.offsets.data)[i + 1] = (<int32_t*>self.offsets.data)[row]
            if self.form == F_GEOMETRY and self.more.size < 4 * end:
                size = self.more.size
                memset(self.more.grow(4 * end - size), 0, 4 * end - size)
        else:
            memset(self.data.data + self.value_size * row, 0, self.value_size * (end - row))
        return 0

    cdef int append_absent(self, int64_t count) except -1 nogil:
        """Append `count` null values."""
        cdef int64_t i
        cdef int32_t* ends
        cdef int64_t new_bytes = (self.count + count + 7) // 8 - self.validity.size
        if new_bytes > 0:
            memset(self.validity.grow(new_bytes), 0, new_bytes)
        self.null_count += count
        if self.form == F_FIXED:
            memset(self.data.grow(self.value_size * count), 0, self.value_size * count)
        elif self.form != F_NULL:
            ends = self.new_offsets(count)
            for i in range(count):
                ends[i] = ends[i - 1]
            if self.form == F_GEOMETRY:
                memset(self.more.grow(4 * count), 0, 4 * count)
        self.count += count
        return 0

    cdef void nullify(self, int64_t i) noexcept nogil:
        """Make value `i` of the current block null."""
        cdef int64_t at = self.count + i
        cdef uint8_t bit = <uint8_t>(1 << (at & 7))
        self.validity.data[at >> 3] = self.validity.data[at >> 3] & (255 - bit)
        self.null_count += 1

    cdef int32_t* new_offsets(self, int64_t count) except NULL nogil:
        """Append `count` uninitialised offsets; returns a pointer to the first, preceded by the last previous offset.
        """
        if self.offsets.size == 0:
            (<int32_t*>self.offsets.grow(4))[0] = 0
        return <int32_t*>self.offsets.grow(4 * count)


cdef int64_t _decode_each(Column column, const uint8_t** pointers, int64_t count) except -2 nogil:
    """Decode values of any length one by one."""
    cdef int64_t i, size
    cdef int prefix = -column.value.width if column.value.width < 0 else 0
    cdef int shift = column.value.type.item_shift
    cdef const uint8_t* p
    cdef int32_t* ends = column.new_offsets(count)
    for i in range(count):
        p = pointers[i]
        if <uintptr_t>p > 1:
            if prefix:
                size = little(p, prefix)
                p += prefix
            else:
                size = column.value.width
            if not column.value.type.add(column, p, size):
                return i
        elif column.form == F_GEOMETRY:
            (<uint32_t*>column.more.grow(4))[0] = 0
        if column.data.size > MOST_TEXT:
            return i
        ends[i] = <int32_t>(column.data.size >> shift)
    return -1
