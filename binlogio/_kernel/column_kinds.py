"""The kinds of columns as numbers: how the bytes of a value become an Arrow value, a Python value or text, and back.

They are defined here as well as in `column_kinds.pxd`, with which a test compares them, so that they exist where
nothing was compiled. `binlogio.values.kinds` says of which kind a column is.
"""

from __future__ import annotations

from typing import Final

SIGNED: Final = 1  # little-endian integers of 1, 2, 3, 4, 8 bytes
UNSIGNED: Final = 2
FLOAT: Final = 3
DOUBLE: Final = 4
YEAR: Final = 5  # as int16
BITS: Final = 6  # BIT(n): big-endian, as uint64
LITTLE64: Final = 7  # SET without names: 1 to 8 bytes, as uint64
LITTLE16: Final = 8  # ENUM without names: 1 or 2 bytes, as uint16
DECIMAL128: Final = 9
DECIMAL256: Final = 10
DATE: Final = 11  # as days since 1970; the others as microseconds
DATETIME2: Final = 12
TIMESTAMP2: Final = 13
TIME2: Final = 14
OLD_TIME: Final = 15  # with fraction digits MariaDB's
OLD_DATETIME: Final = 16
OLD_TIMESTAMP: Final = 17
BYTES: Final = 18  # after their length
PADDED: Final = 19  # BINARY(n): without trailing zero bytes in the log
UTF8: Final = 20
LATIN: Final = 21  # a single-byte character set, by a table
TEXT: Final = 22  # decode: a multi-byte character set
ENUM_NAMES: Final = 23
SET_NAMES: Final = 24
GEOMETRY: Final = 25  # as SRID and WKB
VECTOR: Final = 26
READY: Final = 27  # encode: the bytes of the column with all that belongs to them
FLAGGED: Final = 28  # decode: binary JSON after a byte that is 1 for diffs, 0 for a document
JSON: Final = 29  # binary JSON, as text; diffs are refused
OLD_DECIMAL: Final = 30  # decode: digits, as text
DIFFS: Final = 31  # encode: JSON diffs
COMPRESSED: Final = 32  # MariaDB's; what it holds is the kind in `first`
UUID: Final = 33  # MariaDB's types, as text
INET4: Final = 34
INET6: Final = 35
NOTHING: Final = 36  # the type NULL, which has no values

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
