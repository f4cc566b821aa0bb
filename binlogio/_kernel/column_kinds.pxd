# cython: language_level=3
"""The kinds of columns: how the bytes of a value become an Arrow value, and back.

A test compares the numbers with those of `column_kinds.py`. Kinds below K_BYTES have values of a fixed size. Some
comparisons depend on the order.
"""

cdef enum Kind:
    K_COPY = 1
    K_COPY1 = 2
    K_COPY2 = 3
    K_COPY4 = 4
    K_COPY8 = 5
    K_INT24 = 6
    K_UINT24 = 7
    K_YEAR = 8
    K_BITS = 9
    K_LITTLE64 = 10
    K_LITTLE16 = 11
    K_DECIMAL128 = 12
    K_DECIMAL256 = 13
    K_DATE = 14
    K_DATETIME2 = 15
    K_TIMESTAMP2 = 16
    K_TIME2 = 17
    K_OLD_TIME = 18
    K_OLD_DATETIME = 19
    K_OLD_TIMESTAMP = 20
    K_HIRES_TIME = 21
    K_HIRES_DATETIME = 22
    K_HIRES_TIMESTAMP = 23
    K_BYTES = 24
    K_PADDED = 25
    K_UTF8 = 26
    K_LATIN = 27
    K_ENUM_NAMES = 28
    K_SET_NAMES = 29
    K_GEOMETRY = 30
    K_VECTOR = 31
    K_READY = 32
    K_FLAGGED = 33
    K_TEXT = 34
    K_JSON = 35
    K_OLD_DECIMAL = 36
    K_DIFFS = 37
    K_COMPRESSED = 38
    K_UUID = 39
    K_INET4 = 40
    K_INET6 = 41
    K_NOTHING = 42
