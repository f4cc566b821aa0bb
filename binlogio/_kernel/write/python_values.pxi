"""Encodes rows of Python values as row images, a row per call.

`column_values` encodes the values of a column's usual class. `binlogio.rows.image.encode_rows` is the reference
implementation (oracle), and encodes the rows that `RowPacker` rejects.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from binlogio._kernel.column_values cimport OTHER_CLASS, Cell
from binlogio._kernel.primitives cimport Memory

cdef struct Slot:
    Cell* cell  # NULL if no value of the column's usual class is accepted
    Cell* bytes_cell  # for bytes in a column of another type
    Cell* number_cell  # for integers in a column with member names
    bint takes_bytes


cdef class RowPacker:
    """Encodes rows of Python values as row images that have all columns.

    Args:
        columns: for each column whether it accepts bytes, another class that values may have, the attribute of that
            class that holds the value (as bytes or an integer), and Cells or None for values, for bytes, for numbers.
            The packer takes ownership of the Cells.
        spare_null_bits: whether the unused bits of the last null byte are set.
    """

    cdef Slot* slots
    cdef int count
    cdef uint8_t spare
    cdef list _cells
    cdef list _classes
    cdef list _attributes

    def __cinit__(self, columns, bint spare_null_bits=False):
        cdef int i
        cdef Cells cells
        self._cells = []
        self._classes = []
        self._attributes = []
        self.count = <int>len(columns)
        self.slots = <Slot*>calloc(self.count + 1, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError(f"no memory for {self.count} columns")
        if spare_null_bits and self.count % 8:
            self.spare = <uint8_t>(0xFF << (self.count % 8))
        for i, (takes_bytes, other, attribute, *many) in enumerate(columns):
            self._classes.append(other)
            self._attributes.append(attribute)
            self.slots[i].takes_bytes = takes_bytes
            for number, cells in enumerate(many):
                if cells is None:
                    continue
                self._cells.append(cells)
                cells.busy += 1  # no other code may bind them
                cells.core.refused = 1
                if number == 0:
                    self.slots[i].cell = &cells.core
                elif number == 1:
                    self.slots[i].bytes_cell = &cells.core
                else:
                    self.slots[i].number_cell = &cells.core

    def __dealloc__(self):
        free(self.slots)

    def pack(self, values):
        """Return the image of a row; None if a value is rejected.

        `values` is a list or tuple with a value for each column.
        """
        cdef Memory out = Memory()
        return PyBytes_FromStringAndSize(<char*>out.data, out.size) if self.append(values, out) else None

    cdef bint append(self, values, Memory out) except -1:
        """Append the image of a row to memory; returns False if a value is rejected."""
        cdef int64_t start = out.size
        cdef int null_bytes = (self.count + 7) // 8
        cdef int i
        if len(values) != self.count:
            return False
        memset(out.grow(null_bytes), 0, null_bytes)
        try:
            for i in range(self.count):
                value = values[i]
                if value is None:
                    out.data[start + (i >> 3)] |= <uint8_t>(1 << (i & 7))
                elif not self._pack(i, value, out):
                    return False
        except (ArithmeticError, ValueError, TypeError, AttributeError):
            return False
        if self.spare:
            out.data[start + null_bytes - 1] |= self.spare
        return True

    cdef int _pack(self, int i, value, Memory out) except -1:
        """Append the bytes of a value; returns 0 if it is rejected."""
        cdef Slot* slot = self.slots + i
        cdef int taken = OTHER_CLASS
        if slot.cell != NULL and slot.cell.type.pack != NULL:
            taken = slot.cell.type.pack(slot.cell, value, out)
        return taken if taken != OTHER_CLASS else self._pack_other(i, value, out)

    cdef int _pack_other(self, int i, value, Memory out) except -1:
        """Append bytes, or a value of the column's other class, by its attribute of bytes or an integer."""
        cdef Slot* slot = self.slots + i
        cdef Cell* cell = slot.bytes_cell
        if type(value) is self._classes[i]:
            value = getattr(value, self._attributes[i])
        elif type(value) is bytes and not slot.takes_bytes:
            return 0
        if type(value) is int:
            cell = slot.number_cell
        if cell == NULL or cell.type.pack == NULL:
            return 0
        return cell.type.pack(cell, value, out) == 1
