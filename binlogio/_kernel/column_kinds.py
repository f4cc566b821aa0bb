"""How the bytes of a value become an Arrow value, and back: the kinds of columns as numbers, for decoding and encoding.

They are defined here as well as in `column_kinds.pxd`, with which a test compares them, so that they exist where
nothing was compiled.
"""

from __future__ import annotations

from typing import Final

COPY: Final = 1  # decode: little-endian integers and floats of 1, 2, 4, 8 bytes
COPY1: Final = 2  # encode: the same, by their size
COPY2: Final = 3
COPY4: Final = 4
COPY8: Final = 5
INT24: Final = 6  # as int32
UINT24: Final = 7
YEAR: Final = 8  # as int16
BITS: Final = 9  # BIT(n): big-endian, as uint64
LITTLE64: Final = 10  # SET without names: 1 to 8 bytes, as uint64
LITTLE16: Final = 11  # ENUM without names: 1 or 2 bytes, as uint16
DECIMAL128: Final = 12
DECIMAL256: Final = 13
DATE: Final = 14  # as days since 1970; the others as microseconds
DATETIME2: Final = 15
TIMESTAMP2: Final = 16
TIME2: Final = 17
OLD_TIME: Final = 18
OLD_DATETIME: Final = 19
OLD_TIMESTAMP: Final = 20
HIRES_TIME: Final = 21  # encode: MariaDB's with fraction digits, which decode as OLD_*
HIRES_DATETIME: Final = 22
HIRES_TIMESTAMP: Final = 23
BYTES: Final = 24  # after their length
PADDED: Final = 25  # BINARY(n): without trailing zero bytes in the log
UTF8: Final = 26
LATIN: Final = 27  # a single-byte character set, by a table
ENUM_NAMES: Final = 28
SET_NAMES: Final = 29
GEOMETRY: Final = 30  # as SRID and WKB
VECTOR: Final = 31
READY: Final = 32  # encode: the bytes of the column with all that belongs to them
FLAGGED: Final = 33  # decode: binary JSON after a byte that is 1 for diffs, 0 for a document
TEXT: Final = 34  # decode: a multi-byte character set
JSON: Final = 35  # binary JSON, as text; diffs are refused
OLD_DECIMAL: Final = 36  # decode: digits, as text
DIFFS: Final = 37  # encode: JSON diffs
COMPRESSED: Final = 38  # MariaDB's; what it holds is the kind in `first`
UUID: Final = 39  # MariaDB's types, as text
INET4: Final = 40
INET6: Final = 41
NOTHING: Final = 42  # the type NULL, which has no values

# Policies for dates that no calendar has.
DATES_ERROR: Final = 0
DATES_NULL: Final = 1
DATES_TEXT: Final = 2

# Of which blocks of memory a column is made.
FORM_FIXED: Final = 0
FORM_TEXT: Final = 1
FORM_GEOMETRY: Final = 2
FORM_VECTOR: Final = 3
FORM_NULL: Final = 4
