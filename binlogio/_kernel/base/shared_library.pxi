"""Functions of shared libraries by address, so that their headers are not needed to build the kernel.

Calls the loader itself: importing ctypes takes 2 ms.
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
    """Return the addresses of functions of a library, None if it lacks one.

    `file` is its path, or None for what the interpreter itself is linked with. The library stays loaded.
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
    """Return the addresses of functions of the zlib that Python has; None where it does not show them."""
    return library_functions(getattr(zlib, "__file__", None), *names)
