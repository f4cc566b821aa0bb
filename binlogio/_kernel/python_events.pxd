# cython: language_level=3
"""C declarations of `python_events`: dataclass instances without a call of their constructors."""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

cdef extern from "Python.h":
    object PyType_GenericAlloc(type kind, Py_ssize_t count)
    void PyObject_GC_UnTrack(object made)

cdef enum:
    MOST_FIELDS = 16

cdef class Maker:
    cdef type kind
    cdef Py_ssize_t[MOST_FIELDS] offsets
    cdef int count

cdef inline object begin(Maker maker):
    """Return an instance without fields; the caller sets all of them by `put`.

    The garbage collector does not track it, because a frozen instance is in no reference cycle.
    """
    cdef object made = PyType_GenericAlloc(maker.kind, 0)
    PyObject_GC_UnTrack(made)
    return made

cdef inline void put(Maker maker, object made, int number, object value) noexcept:
    Py_INCREF(value)
    (<PyObject**>(<char*><PyObject*>made + maker.offsets[number]))[0] = <PyObject*>value

cdef inline object field(Maker maker, object made, int number):
    return <object>(<PyObject**>(<char*><PyObject*>made + maker.offsets[number]))[0]
