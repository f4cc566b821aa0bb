"""The kinds of columns as numbers: how the bytes of a value become an Arrow value.

Knows the numbers by which Python and the compiled `columns` speak of kinds; here all the same where nothing was
compiled. A test compares them with those in `columns.pyx`.
"""

from __future__ import annotations

from typing import Final

COPY: Final = 1  # little-endian integers and floats of 1, 2, 4, 8 bytes
INT24: Final = 2
UINT24: Final = 3
YEAR: Final = 4
BITS: Final = 5  # BIT(n): big-endian -> uint64
LITTLE64: Final = 6  # SET without names: 1 to 8 bytes -> uint64
LITTLE16: Final = 7  # ENUM without names: 1 or 2 bytes -> uint16
DECIMAL128: Final = 8
DECIMAL256: Final = 9
DATE: Final = 10
DATETIME2: Final = 11
TIMESTAMP2: Final = 12
TIME2: Final = 13
OLD_TIME: Final = 14
OLD_DATETIME: Final = 15
OLD_TIMESTAMP: Final = 16
BYTES: Final = 17  # after their length
PADDED: Final = 18  # BINARY(n)
UTF8: Final = 19
LATIN: Final = 20  # a single-byte character set, by a table
ENUM_NAMES: Final = 21
SET_NAMES: Final = 22
GEOMETRY: Final = 23  # -> SRID and WKB
VECTOR: Final = 24
FLAGGED: Final = 25  # binary JSON after a byte that is 1 for diffs, 0 for a document
TEXT: Final = 26  # a multi-byte character set
UUID: Final = 27
INET4: Final = 28
JSON: Final = 29  # binary JSON -> text; diffs are refused
INET6: Final = 30
OLD_DECIMAL: Final = 31  # digits -> text
COMPRESSED: Final = 32  # MariaDB's; what it holds is the kind in `first`
NOTHING: Final = 33  # the type NULL, which has no values

# What becomes of dates that no calendar has.
DATES_ERROR: Final = 0
DATES_NULL: Final = 1
DATES_TEXT: Final = 2

# Of which blocks of memory a column is made.
FORM_FIXED: Final = 0
FORM_TEXT: Final = 1
FORM_GEOMETRY: Final = 2
FORM_VECTOR: Final = 3
FORM_NULL: Final = 4
