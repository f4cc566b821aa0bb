"""Numbers of the kinds of columns; each kind has its own conversions between row image bytes, Arrow, Python and text.

They are also defined in `column_kinds.pxd` (a test compares the two), so that they exist without a compiled kernel.
`binlogio.values.kinds` maps a column to its kind.
"""

from __future__ import annotations

from typing import Final

SIGNED: Final = 1  # little-endian integers of 1, 2, 3, 4, 8 bytes
UNSIGNED: Final = 2
FLOAT: Final = 3
DOUBLE: Final = 4
YEAR: Final = 5  # decoded as int16
BITS: Final = 6  # BIT(n): big-endian, as uint64
LITTLE64: Final = 7  # SET without names: 1 to 8 bytes, as uint64
LITTLE16: Final = 8  # ENUM without names: 1 or 2 bytes, as uint16
DECIMAL128: Final = 9
DECIMAL256: Final = 10
DATE: Final = 11  # as days since 1970-01-01; the kinds up to OLD_TIMESTAMP as microseconds
DATETIME2: Final = 12
TIMESTAMP2: Final = 13
TIME2: Final = 14
OLD_TIME: Final = 15  # fraction digits only in MariaDB's format
OLD_DATETIME: Final = 16
OLD_TIMESTAMP: Final = 17
BYTES: Final = 18  # bytes with a length prefix
PADDED: Final = 19  # BINARY(n): the log omits trailing zero bytes
UTF8: Final = 20
LATIN: Final = 21  # a single-byte character set, decoded by a table
TEXT: Final = 22  # decode only: a multi-byte character set
ENUM_NAMES: Final = 23
SET_NAMES: Final = 24
GEOMETRY: Final = 25  # SRID and WKB
VECTOR: Final = 26
READY: Final = 27  # encode only: complete column bytes, including the length prefix
FLAGGED: Final = 28  # decode only: binary JSON after a flag byte, 1 for diffs, 0 for a document
JSON: Final = 29  # binary JSON, as text; diffs are rejected
OLD_DECIMAL: Final = 30  # decode only: digits, as text
DIFFS: Final = 31  # encode only: JSON diffs
COMPRESSED: Final = 32  # MariaDB's compressed columns; `first` is the kind of the decompressed value
UUID: Final = 33  # UUID, INET4, INET6: MariaDB's types, as text
INET4: Final = 34
INET6: Final = 35
NOTHING: Final = 36  # the type NULL, which has no values

# Policies for dates that are not in the calendar.
DATES_ERROR: Final = 0
DATES_NULL: Final = 1
DATES_TEXT: Final = 2

# Arrow layouts of a column.
FORM_FIXED: Final = 0
FORM_TEXT: Final = 1
FORM_GEOMETRY: Final = 2
FORM_VECTOR: Final = 3
FORM_NULL: Final = 4
