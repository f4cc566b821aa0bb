"""Arrow column readers for the row encoder.

Binds the Arrow buffers of a column, batch by batch, and holds what the encoding of values needs: names, character
tables, a compressor; `column_values` encodes the values. Offsets are checked once, when a column is bound: afterwards
each value is within its buffer.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t, uintptr_t
from libc.string cimport memset

from binlogio._kernel.column_values cimport (
    F_FIXED, F_GEOMETRY, F_TEXT, Cell, DiffArrays, Names, Value, arrow_size, set_value, type_of,
)
from binlogio._kernel.json_documents cimport JsonBuilder
from binlogio._kernel.primitives cimport Deflater, Memory, is_ascii, is_utf8
from binlogio._kernel.values.enum_set cimport find_slot

cdef enum:
    CHARACTERS = 65536  # of a single-byte set's table: the basic multilingual plane

cdef const char* NOTHING = b""


cdef class Cells:
    """The values of one column in one of the images, a batch at a time.

    Args:
        kind: one of the kinds that can be encoded.
        width: bytes of a fixed-size value, or of the length prefix.
        first, second: precision and scale, fraction digits, bits, dimensions (-1: any number), the exact bytes of a
            padded value (0: any number up to the limit), or the kind of the compressed value.
        limit: most bytes of a value.
        trim: remove trailing spaces.
        names: members of an ENUM or SET, as UTF-8.
        table: for each character of the basic multilingual plane its byte in a single-byte character set, 0 if missing.
    """

    def __cinit__(self, int kind, int width, int first=0, int second=0, int64_t limit=0, bint trim=False, names=None,
                  table=None):
        cdef Cell* core = &self.core
        cdef Value value
        memset(core, 0, sizeof(Cell))
        set_value(&value, kind, width, first, second)
        core.type, core.groups = value.type, value.groups
        if core.type.growth or core.type.most != NULL:
            value.width = -width
        core.kind, core.width, core.first, core.second, core.trim = kind, width, first, second, trim
        core.text = first if core.type.opens else kind
        if type_of(core.text).encode == NULL or not 0 <= width <= MAX_WIDTH or not core.type.fits(&value):
            raise ValueError(f"no values of kind {kind} have width {width}, parameters {first} and {second}")
        core.limit = limit if width >= 4 else min(limit, ((<int64_t>1) << (8 * width)) - 1)
        if kind == K_JSON or kind == K_DIFFS:
            self._builder = JsonBuilder()
            core.builder = <void*>self._builder
        elif core.type.opens:
            self._deflater = Deflater()
            core.deflater = <void*>self._deflater
        if core.text == K_LATIN:
            self._set_table(bytes(table))
        elif names is not None:
            self._set_names(names)

    @property
    def kind(self) -> int:
        """A number of `column_kinds`."""
        return self.core.kind

    cdef int _set_table(self, bytes table) except -1:
        cdef int i
        if len(table) != CHARACTERS:
            raise ValueError(f"a table of {len(table)} characters")
        self._table = table
        self.core.table = <const uint8_t*>(<const char*>table)
        self.core.ascii_table = True
        for i in range(128):
            if self.core.table[i] != i:
                self.core.ascii_table = False
        return 0

    cdef int _set_names(self, names) except -1:
        """Set the names and a hash table of them; of two equal names the first one is used."""
        cdef Memory slots = Memory()
        cdef Names texts = Names(names)
        cdef uint32_t size = 4
        cdef uint32_t at
        cdef int64_t number
        self._names, self._slots = texts, slots
        self.core.table = texts.text.data
        self.core.name_offsets = <const uint32_t*>texts.ends.data
        self.core.name_count = texts.count
        while size < 2 * self.core.name_count:
            size *= 2
        memset(slots.grow(4 * <int64_t>size), 0, 4 * <int64_t>size)
        self.core.slot_mask = size - 1
        self.core.slots = <const int32_t*>slots.data
        for number in range(self.core.name_count):
            at = find_slot(&self.core, self.core.table + self.core.name_offsets[number],
                           self.core.name_offsets[number + 1] - self.core.name_offsets[number])
            if self.core.slots[at] == 0:
                (<int32_t*>slots.data)[at] = <int32_t>(number + 1)
        return 0

    def bind(self, int64_t length, *, validity=None, int64_t validity_offset=0, data=None, int64_t data_offset=0,
             offsets=None, int64_t offsets_offset=0, srids=None, int64_t srids_offset=0, int64_t refused=-1):
        """Bind the values of a batch of `length` rows: Arrow buffers, and the number of elements to skip in each.

        `refused` is the first row that cannot be encoded, or -1. The buffers are held until `unbind`.

        Raises:
            ValueError: a buffer is missing, too short or misaligned, offsets decrease or exceed the data, a length or
                offset is negative, or the kind is that of JSON diffs (`bind_diffs`).
        """
        cdef Cell* core = &self.core
        cdef int64_t size = 0, skip
        cdef const int32_t* ends
        if length < 0 or validity_offset < 0 or data_offset < 0 or offsets_offset < 0 or srids_offset < 0:
            raise ValueError("a negative length or offset")
        if core.kind == K_DIFFS:
            raise ValueError("JSON diffs have more buffers")
        self.unbind()
        if length == 0:
            return
        core.validity, core.bit_at = self._bits_of(validity, validity_offset, length), validity_offset
        if core.type.form == F_FIXED:
            skip = arrow_size(core.type, core.width)
            core.data = self._bytes_of(data, (data_offset + length) * skip, &size, min(skip, 8)) + data_offset * skip
        else:
            if offsets is None:
                raise ValueError("values of any length need offsets")
            skip = 1 << core.type.item_shift
            if data is not None:
                core.data = self._bytes_of(data, data_offset * skip, &size, 1)
                core.data_end = core.data + size
                core.data += data_offset * skip
            ends = self._ends_of(offsets, offsets_offset, length, size // skip - data_offset)
            if core.data == NULL:
                core.data = core.data_end = <const uint8_t*>NOTHING
            self._bind_ends(ends, length)
        if core.type.form == F_GEOMETRY:
            core.srids = <const uint32_t*>self._bytes_of(srids, (srids_offset + length) * 4, &size, 4) + srids_offset
        core.refused = refused if refused >= 0 else length
        core.plain = self._plain() if refused < 0 else 0
        self.length = length

    cdef int _bind_ends(self, const int32_t* ends, int64_t length) except -1:
        """Set the checked offsets of values of any length."""
        cdef Cell* core = &self.core
        core.offsets = ends
        if core.text == K_UTF8 or core.text == K_LATIN or core.kind == K_JSON:
            core.ascii = is_ascii(core.data + ends[0], ends[length] - ends[0])
            core.is_text = core.ascii or _is_text(core.data, ends, length)
        return 0

    cdef int bind_arrow(self, const ArrowArray* array, int64_t first, int64_t length, owner) except -1:
        """As `bind`, for an array of the Arrow C data interface; its buffers are trusted to fit its length."""
        cdef Cell* core = &self.core
        cdef const uint8_t* bits
        cdef const int32_t* ends
        cdef int64_t size
        self.unbind()
        if length == 0:
            return 0
        if array.length < first + length or array.n_buffers != (2 if core.type.form == F_FIXED else 3):
            raise ValueError("an array of another type, or a shorter one")
        first += array.offset
        bits = <const uint8_t*>array.buffers[0]
        if bits != NULL and array.null_count != 0 and not _all_set(bits, first, length):
            core.validity, core.bit_at = bits, first
        if array.buffers[1] == NULL or <uintptr_t>array.buffers[1] % 8:
            raise ValueError("a buffer that is missing or not aligned")
        if core.type.form == F_FIXED:
            size = arrow_size(core.type, core.width)
            core.data = <const uint8_t*>array.buffers[1] + first * size
        else:
            ends = <const int32_t*>array.buffers[1] + first
            if ends[0] < 0 or not _never_back(ends, length):
                raise ValueError("an offset below the one before it")
            core.data = <const uint8_t*>array.buffers[2]
            if core.data == NULL:
                if ends[length]:
                    raise ValueError("a buffer is missing")
                core.data = <const uint8_t*>NOTHING
            core.data_end = core.data + ends[length]
            self._bind_ends(ends, length)
        core.refused = length
        core.plain = self._plain()
        self.length = length
        self._owner = owner
        return 0

    def bind_diffs(self, int64_t length, *, validity, int64_t validity_offset, offsets, int64_t offsets_offset,
                   int64_t count,
                   operations, int64_t operations_offset, path_offsets, int64_t path_offsets_offset, paths,
                   value_validity, int64_t value_validity_offset, value_offsets, int64_t value_offsets_offset, values,
                   int64_t refused=-1):
        """Bind lists of JSON diffs, `count` in total: an operation, a path, and a value or null for each.

        Raises:
            ValueError: as `bind`.
        """
        cdef Cell* core = &self.core
        cdef DiffArrays* diffs = &core.diffs
        cdef int64_t size = 0
        if core.kind != K_DIFFS:
            raise ValueError(f"kind {core.kind} of JSON diffs")
        if length < 0 or count < 0 or min(validity_offset, offsets_offset, operations_offset, path_offsets_offset,
                                          value_validity_offset, value_offsets_offset) < 0:
            raise ValueError("a negative length or offset")
        self.unbind()
        if length == 0:
            return
        core.validity, core.bit_at = self._bits_of(validity, validity_offset, length), validity_offset
        if count:
            diffs.operations = self._bytes_of(operations, operations_offset + count, &size, 1) + operations_offset
            diffs.paths = self._text_of(paths, &size)
            diffs.path_ends = self._ends_of(path_offsets, path_offsets_offset, count, size)
            diffs.values = self._text_of(values, &size)
            diffs.value_ends = self._ends_of(value_offsets, value_offsets_offset, count, size)
            diffs.validity = self._bits_of(value_validity, value_validity_offset, count)
            diffs.bit_at = value_validity_offset
        core.offsets = self._ends_of(offsets, offsets_offset, length, count)
        core.refused = refused if refused >= 0 else length
        self.length = length

    cdef const uint8_t* _bits_of(self, validity, int64_t at, int64_t count) except? NULL:
        """Return the validity bits of `count` values from bit `at`; NULL if all are set."""
        cdef int64_t size = 0
        cdef const uint8_t* bits
        if validity is None:
            return NULL
        bits = self._bytes_of(validity, (at + count + 7) // 8, &size, 1)
        return NULL if _all_set(bits, at, count) else bits

    cdef const int32_t* _ends_of(self, offsets, int64_t at, int64_t count, int64_t size) except NULL:
        """Return the offsets of `count` values from number `at`, all of them within `size`."""
        cdef int64_t offsets_size = 0
        cdef const int32_t* ends
        ends = <const int32_t*>self._bytes_of(offsets, (at + count + 1) * 4, &offsets_size, 4) + at
        if ends[0] < 0 or not _never_back(ends, count):
            raise ValueError("an offset below the one before it")
        if ends[count] > size:
            raise ValueError(f"offset {ends[count]} in {size} values")
        return ends

    cdef const uint8_t* _text_of(self, text, int64_t* size) except NULL:
        """Return the bytes of a child array, which has no buffer if it is empty."""
        size[0] = 0
        return <const uint8_t*>NOTHING if text is None else self._bytes_of(text, 0, size, 1)

    cdef int _plain(self) noexcept:
        """Return the value of `Cell.plain`."""
        cdef Cell* core = &self.core
        cdef bint is_copied
        if core.type.form == F_FIXED:
            is_copied = core.type.arrow_size == 0 and (core.width == 1 or core.width == 4 or core.width == 8)
            return core.width if is_copied else 0
        if core.trim or core.kind != K_BYTES and not (core.kind == K_UTF8 and core.is_text) and not (
                core.kind == K_LATIN and core.ascii and core.ascii_table):
            return 0
        return -1

    cpdef unbind(self):
        """Release the buffers.

        Raises:
            ValueError: another thread reads the values.
        """
        cdef Cell* core = &self.core
        if self.busy:
            raise ValueError("another thread reads the values")
        self.length = 0
        core.validity, core.data, core.offsets, core.srids = NULL, NULL, NULL, NULL
        memset(&core.diffs, 0, sizeof(DiffArrays))
        self._owner = None
        while self.view_count:
            self.view_count -= 1
            PyBuffer_Release(&self.views[self.view_count])

    cdef const uint8_t* _bytes_of(self, data, int64_t wanted, int64_t* size, int alignment) except? NULL:
        """Return the bytes of a buffer object, at least `wanted`; it is held until `unbind`."""
        cdef Py_buffer* view = &self.views[self.view_count]
        if data is None:
            raise ValueError("a buffer is missing")
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
        self.view_count += 1
        if view.len < wanted:
            raise ValueError(f"a buffer of {view.len} bytes, where {wanted} are needed")
        if <uintptr_t>view.buf % alignment:
            raise ValueError(f"a buffer that is not aligned to {alignment} bytes")
        size[0] = view.len
        return <const uint8_t*>view.buf

    def __dealloc__(self):
        while self.view_count:
            self.view_count -= 1
            PyBuffer_Release(&self.views[self.view_count])


cdef class ArrowColumns:
    """Columns of record batches of one schema: `cells[i]` encodes the column at index `places[i]`.

    Kinds whose Arrow arrays have children are not supported.
    """

    cdef list cells
    cdef list places

    def __cinit__(self, list cells, list places):
        cdef Cells one
        if len(cells) != len(places):
            raise ValueError(f"{len(cells)} columns at {len(places)} places")
        for one, place in zip(cells, places):
            if one.core.type.form > F_TEXT or one.core.kind == K_DIFFS or place < 0:
                raise ValueError(f"kind {one.core.kind} at place {place}")
        self.cells = cells
        self.places = places

    def bind(self, batch) -> None:
        """Bind the columns of a batch: a capsule of the Arrow C data interface, which is held until `unbind`.

        Raises:
            ValueError: an array does not have its column's type, or its offsets decrease.
        """
        cdef const ArrowArray* array = <const ArrowArray*>PyCapsule_GetPointer(batch, "arrow_array")
        cdef Cells cells
        cdef int64_t i, place
        try:
            for i in range(len(self.cells)):
                cells = self.cells[i]
                place = self.places[i]
                if place >= array.n_children:
                    raise ValueError(f"{array.n_children} columns, not {place + 1}")
                cells.bind_arrow(array.children[place], array.offset, array.length, batch)
        except ValueError:
            self.unbind()
            raise

    def unbind(self) -> None:
        """Release the batch."""
        cdef Cells cells
        for cells in self.cells:
            cells.unbind()


cdef bint _never_back(const int32_t* ends, int64_t length) noexcept nogil:
    """Return whether the offsets never decrease. The compiler vectorises the loop."""
    cdef int64_t i
    cdef uint32_t bad = 0
    for i in range(length):
        bad |= <uint32_t>(ends[i + 1] < ends[i])
    return bad == 0


cdef bint _is_text(const uint8_t* data, const int32_t* ends, int64_t length) noexcept nogil:
    """Return whether all values are UTF-8: all bytes together are, and no value begins inside a character."""
    cdef int64_t i
    cdef int32_t last = ends[length]
    if not is_utf8(data + ends[0], last - ends[0]):
        return False
    for i in range(length):
        if ends[i] < last and data[ends[i]] & 0xC0 == 0x80:
            return False
    return True


cdef bint _all_set(const uint8_t* bits, int64_t at, int64_t count) noexcept nogil:
    cdef int64_t end = at + count
    while at < end and at & 7:
        if not (bits[at >> 3] >> (at & 7)) & 1:
            return False
        at += 1
    while end - at >= 8:
        if bits[at >> 3] != 0xFF:
            return False
        at += 8
    while at < end:
        if not (bits[at >> 3] >> (at & 7)) & 1:
            return False
        at += 1
    return True
