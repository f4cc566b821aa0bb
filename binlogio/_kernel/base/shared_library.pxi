"""Looks up functions of shared libraries by address, so that building the kernel needs no headers of them.

The dynamic loader is called directly, because importing ctypes takes 2 ms.
"""

import os
import zlib

from libc.stdint cimport uintptr_t

cdef extern from "dlfcn.h":
    enum:
        RTLD_NOW
        RTLD_LOCAL
    void* dlopen(const char*, int) nogil
    void* dlsym(void*, const char*) nogil


def library_functions(file, *names):
    """Return the addresses of the functions `names` of a library; None if it does not load or lacks one of them.

    `file` is the path of the library; None means the symbols of the interpreter. The library stays loaded.
    """
    cdef bytes path = b"" if file is None else os.fsencode(file)
    cdef bytes symbol
    cdef void* library = dlopen(NULL if file is None else <const char*>path, RTLD_NOW | RTLD_LOCAL)
    cdef void* function
    found = []
    for name in names if library != NULL else ():
        symbol = name.encode()
        function = dlsym(library, symbol)
        if function == NULL:
            break
        found.append(<uintptr_t>function)
    return found if len(found) == len(names) else None


def zlib_functions(*names):
    """Return the addresses of functions of Python's zlib; None if it does not export all of them."""
    return library_functions(getattr(zlib, "__file__", None), *names)
