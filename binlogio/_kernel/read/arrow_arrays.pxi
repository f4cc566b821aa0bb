"""Exports memory blocks as a whole record batch through the Arrow C data interface, in one step.

Fills in the C structures and frees them; the importer supplies the types. If the arrays of a batch of thirty columns
were exported one by one, the GIL would be acquired and released a hundred times, which stalls the other threads as
often.

    node := (length, null_count, buffers, children)
Source: https://arrow.apache.org/docs/format/CDataInterface.html
"""

from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport calloc, free

from binlogio._kernel.primitives cimport Memory, shown

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept
    void* private_data  # references to the owners of the buffers; NULL for a missing buffer


cdef void _release(ArrowArray* array) noexcept with gil:
    """Release callback: free an array, and the children that the importer has not moved."""
    cdef int64_t i
    for i in range(array.n_children):
        if array.children[i] != NULL:
            if array.children[i].release != NULL:
                array.children[i].release(array.children[i])
            free(array.children[i])
    free(array.children)
    free(array.buffers)
    array.release = NULL
    for i in range(array.n_buffers):
        if (<PyObject**>array.private_data)[i] != NULL:
            Py_DECREF(<object>(<PyObject**>array.private_data)[i])
    free(array.private_data)


cdef int _export(ArrowArray* array, int64_t length, int64_t null_count, tuple buffers, children) except -1:
    """Fill in an array that is all zeros. After an error, its `release` frees what was filled in."""
    cdef int64_t i
    cdef Memory memory
    cdef ArrowArray* child
    cdef PyObject** kept = <PyObject**>_zeros(len(buffers), sizeof(PyObject*))
    array.private_data = kept
    array.release = _release
    array.length = length
    array.null_count = null_count
    array.buffers = <const void**>_zeros(len(buffers), sizeof(void*))
    array.n_buffers = len(buffers)
    for i in range(array.n_buffers):
        memory = buffers[i]
        if memory is not None:
            Py_INCREF(memory)
            kept[i] = <PyObject*>memory
            array.buffers[i] = shown(memory)
    array.children = <ArrowArray**>_zeros(len(children), sizeof(ArrowArray*))
    array.n_children = len(children)
    for i in range(array.n_children):
        child = array.children[i] = <ArrowArray*>_zeros(1, sizeof(ArrowArray))
        node = children[i]
        _export(child, node[0], node[1], node[2], node[3])
    return 0


cdef void* _zeros(int64_t count, int64_t size) except NULL:
    cdef void* block = calloc(count if count else 1, size)
    if block == NULL:
        raise MemoryError(f"no memory for {count} arrays")
    return block


cdef class Exported:
    """Exports a record batch of `length` rows with columns `nodes`; the importer reads it from `address`.

    The memory blocks must not grow any more; the arrays keep references to them.
    """

    cdef ArrowArray root

    def __cinit__(self, int64_t length, nodes):
        _export(&self.root, length, 0, (None,), nodes)

    def __dealloc__(self):
        if self.root.release != NULL:  # not imported
            self.root.release(&self.root)

    @property
    def address(self) -> int:
        """Address of the ArrowArray structure. It is valid while this object exists."""
        return <uintptr_t>&self.root
