# cython: language_level=3
"""Kinds of columns: each kind has its own conversions between row image bytes, Arrow, Python and text.

The numbers equal those of `column_kinds.py` (a test compares them). `column_values` has the functions of each kind.
"""

cdef enum:
    K_SIGNED = 1
    K_UNSIGNED = 2
    K_FLOAT = 3
    K_DOUBLE = 4
    K_YEAR = 5
    K_BITS = 6
    K_LITTLE64 = 7
    K_LITTLE16 = 8
    K_DECIMAL128 = 9
    K_DECIMAL256 = 10
    K_DATE = 11
    K_DATETIME2 = 12
    K_TIMESTAMP2 = 13
    K_TIME2 = 14
    K_OLD_TIME = 15
    K_OLD_DATETIME = 16
    K_OLD_TIMESTAMP = 17
    K_BYTES = 18
    K_PADDED = 19
    K_UTF8 = 20
    K_LATIN = 21
    K_TEXT = 22
    K_ENUM_NAMES = 23
    K_SET_NAMES = 24
    K_GEOMETRY = 25
    K_VECTOR = 26
    K_READY = 27
    K_FLAGGED = 28
    K_JSON = 29
    K_OLD_DECIMAL = 30
    K_DIFFS = 31
    K_COMPRESSED = 32
    K_UUID = 33
    K_INET4 = 34
    K_INET6 = 35
    K_NOTHING = 36
    KIND_COUNT
