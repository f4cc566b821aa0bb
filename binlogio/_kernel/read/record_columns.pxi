"""Columns that grow value by value: nullable integers and texts."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from binlogio._kernel.primitives cimport MOST_TEXT, Memory, room


cdef class RecordColumn:
    """A growing column of an Arrow array."""

    cdef Memory data, validity
    cdef int64_t count, null_count

    def __init__(self, *_):
        self.clear(None)

    cdef int clear(self, RecordColumn before) except -1:
        """Begin a new array, with space for about as much as `before`, the previous one."""
        self.count = self.null_count = 0
        self.data, self.validity = Memory(), Memory()
        if before is not None:
            self.data.reserve(before.data.size)
            self.validity.reserve(before.validity.size)
        return 0

    cdef inline int mark(self, bint is_valid) except -1:
        """Count the next value. Validity bits are stored from the first NULL on."""
        if not is_valid or self.null_count:
            self._append_bit(is_valid)
        self.count += 1
        return 0

    cdef int _append_bit(self, bint is_valid) except -1:
        cdef int bit = self.count & 7
        if not self.null_count and self.count:  # all values before are valid
            memset(room(self.validity, (self.count + 7) >> 3), 0xFF, (self.count + 7) >> 3)
            if bit:
                self.validity.data[self.count >> 3] = <uint8_t>((1 << bit) - 1)
        if bit == 0:
            room(self.validity, 1)[0] = 0
        if is_valid:
            self.validity.data[self.count >> 3] |= <uint8_t>(1 << bit)
        else:
            self.null_count += 1
        return 0

    cdef int put(self, value) except -1:
        """Append a Python value."""
        raise NotImplementedError

    cdef object node(self):
        """Return the array, for `Exported`."""
        raise NotImplementedError


cdef class NumberColumn(RecordColumn):
    """Integers of 32 or 64 bits."""

    cdef int width

    def __cinit__(self, int width):
        self.width = width

    cdef inline int add(self, int64_t value, bint is_valid=True) except -1:
        if self.width == 8:
            (<int64_t*>room(self.data, 8))[0] = value
        else:
            (<int32_t*>room(self.data, 4))[0] = <int32_t>value
        return self.mark(is_valid)

    cdef int put(self, value) except -1:
        return self.add(0 if value is None else value, value is not None)

    cdef object node(self):
        return self.count, self.null_count, (self.validity if self.null_count else None, self.data), ()


cdef class FlagColumn(RecordColumn):
    """Booleans without NULL."""

    cdef inline int add(self, bint value) except -1:
        cdef int bit = self.count & 7
        if bit == 0:
            room(self.data, 1)[0] = 0
        if value:
            self.data.data[self.count >> 3] |= <uint8_t>(1 << bit)
        self.count += 1
        return 0

    cdef int put(self, value) except -1:
        return self.add(value)

    cdef object node(self):
        return self.count, 0, (None, self.data), ()


cdef class TextColumn(RecordColumn):
    """UTF-8 text."""

    cdef Memory offsets

    cdef int clear(self, RecordColumn before) except -1:
        self.offsets = Memory()
        if before is not None:
            self.offsets.reserve((<TextColumn>before).offsets.size)
        (<int32_t*>self.offsets.grow(4))[0] = 0
        return RecordColumn.clear(self, before)

    cdef inline int add(self, const uint8_t* text, int64_t size, bint is_valid=True) except -1:
        if size:
            memcpy(room(self.data, size), text, size)
        return self.end(is_valid)

    cdef inline int end(self, bint is_valid=True) except -1:
        """End a text whose bytes were appended to `data`."""
        if self.data.size > MOST_TEXT:
            raise MemoryError(f"{self.data.size} bytes of text in one batch")
        (<int32_t*>room(self.offsets, 4))[0] = <int32_t>self.data.size
        return self.mark(is_valid)

    cdef int put(self, value) except -1:
        """Append a text; characters that UTF-8 cannot encode become escapes."""
        cdef bytes text = b"" if value is None else value.encode("utf-8", "backslashreplace")
        return self.add(text, len(text), value is not None)

    cdef object node(self):
        return self.count, self.null_count, (self.validity if self.null_count else None, self.offsets, self.data), ()


cdef class TextListColumn(RecordColumn):
    """Lists of texts without NULL: `members` has the texts of all lists."""

    cdef TextColumn members

    cdef int clear(self, RecordColumn before) except -1:
        self.members = TextColumn()
        self.members.clear(None if before is None else (<TextListColumn>before).members)
        RecordColumn.clear(self, before)
        (<int32_t*>self.data.grow(4))[0] = 0
        return 0

    cdef inline int end(self) except -1:
        """End a list whose texts were added to `members`."""
        (<int32_t*>room(self.data, 4))[0] = <int32_t>self.members.count
        self.count += 1
        return 0

    cdef int put(self, value) except -1:
        for text in value:
            self.members.put(text)
        return self.end()

    cdef object node(self):
        return self.count, 0, (None, self.data), (self.members.node(),)
