# cython: language_level=3
"""What the kernel knows of column values: the table of functions of each kind, and what these functions are given.

The functions of a type family are in one file, `values/<family>.pxd`: to Arrow, to Python, to text, from Arrow, from
Python. `type_of` returns those of a kind.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t

from cpython.object cimport PyObject

from binlogio._kernel.primitives cimport Characters, Memory

# Policies for dates that no calendar has. Numbers as in `column_kinds`.
cdef enum Policy:
    P_ERROR = 0
    P_NULL = 1
    P_TEXT = 2

# Of which blocks of memory a column is made in Arrow. Numbers as in `column_kinds`.
cdef enum Form:
    F_FIXED = 0
    F_TEXT = 1
    F_GEOMETRY = 2
    F_VECTOR = 3
    F_NULL = 4

cdef enum TextForm:
    T_LONG = 0  # may be of any length
    T_SHORT = 1  # a number, a time, or the like
    T_UTF8 = 2  # text after its length
    T_ASCII = 3  # text in a character set that has ASCII

cdef enum Style:
    S_COMPACT = 0
    S_WIDE = 1
    S_SQL = 2

cdef enum:
    MOST_GROUPS = 16
    OTHER_CLASS = 2  # a Python value is not of the class that a function takes

cdef struct Groups:
    # Groups of the digits of a DECIMAL column.
    int count
    bint is_small
    int[MOST_GROUPS] size  # bytes
    uint32_t[MOST_GROUPS] end  # the number that it is below

cdef struct ValueType

cdef struct Value:
    # How the values of a column are read.
    const ValueType* type
    int kind
    int width  # bytes of a fixed-size value, or minus the bytes of its length
    int first, second  # parameters of the kind
    Groups groups  # of a DECIMAL
    const uint8_t* names  # members of an ENUM or SET, or the 256 characters of a single-byte set, as UTF-8
    const uint32_t* name_ends  # where each begins and ends; NULL without names
    int64_t name_count
    bint is_ascii  # the single-byte set has ASCII where ASCII is
    void* characters  # Characters: a multi-byte set
    PyObject* members  # to Python: the values of an ENUM by number
    PyObject* function  # to Python: from the bytes of a value, without those of its length, to the value

cdef struct DiffArrays:
    # The children of a list of JSON diffs; the offsets in `Cell` count these.
    const uint8_t* operations
    const int32_t* path_ends
    const uint8_t* paths
    const uint8_t* validity  # of the values; NULL where each diff has one
    int64_t bit_at
    const int32_t* value_ends
    const uint8_t* values

cdef struct Cell:
    # How the values of a column are encoded, and Arrow's buffers of a batch.
    const ValueType* type
    int kind
    int text  # the kind of what is compressed; else the kind
    int width  # bytes of a fixed-size value, or of the length in front
    int first  # precision, fraction digits, bits, dimensions, bytes
    int second  # scale
    Groups groups  # of a DECIMAL
    int64_t limit  # bytes that a value may have
    bint trim  # cut what the server does not store: trailing spaces
    bint ascii  # all bytes of the values are ASCII
    bint is_text  # all values are good UTF-8
    bint ascii_table  # the character set has ASCII where ASCII is
    int64_t refused  # the first row that was refused before it came here
    int64_t bit_at  # the first row's validity bit
    const uint8_t* validity  # NULL where no row is null
    const uint8_t* data
    const uint8_t* data_end
    int plain  # bytes of a value that is copied as it is; -1 for bytes after their length; 0 for all else
    int64_t day  # of the last DATETIME2, and its bits
    uint64_t day_bits
    const int32_t* offsets
    const uint32_t* srids
    const uint8_t* table  # names, or the bytes of the characters of the basic plane
    const uint32_t* name_offsets
    int64_t name_count
    const int32_t* slots  # a hash table of name numbers from 1
    uint32_t slot_mask
    DiffArrays diffs
    void* builder  # a JsonBuilder
    void* deflater  # a Deflater

cdef class Column

cdef class Texts:
    cdef int style
    cdef bint is_mariadb  # JSON documents are text in SQL
    cdef Memory text, plain, marks  # of the value at hand

ctypedef int64_t (*block_function)(Column, const uint8_t**, int64_t) except -2 nogil

cdef struct ValueType:
    # The functions of a kind, and what Arrow makes of its values. Without a function: NULL, and the value is refused or
    # left to construct.
    int form  # in Arrow
    int arrow_size  # bytes of a fixed-size value there; 0: as in the row image, but four for three
    int item_shift  # offsets count items of 1 << item_shift bytes
    int text_form
    int growth  # an encoded value has at most so many times the bytes of Arrow's, and some; 0: a few bytes
    bint is_date  # what no calendar has is treated as the policy says
    bint opens  # values are decompressed first
    int name_count  # a column has so many names; -1: any number
    bint has_characters  # a column has a multi-byte set
    bint is_told  # values of different bytes have different literals
    bint is_checked  # bytes of the right length may be no value; documents are looked at when they are written
    const uint8_t* missing  # read in place of a value that is missing; NULL: none is read
    # Whether `width` bytes are read of a value with these parameters, and as many written as `arrow_size` says; or as
    # many into a row image.
    bint (*fits)(const Value* value) noexcept nogil
    # To Arrow, a block of values; returns the number of the first that is no value of the type, or -1.
    block_function decode
    # To Arrow, one value of any length; False if it is invalid. For kinds without `decode`.
    bint (*add)(Column column, const uint8_t* p, int64_t size) except -1 nogil
    # To Python.
    object (*make)(const Value* value, const uint8_t* p, int64_t size)
    # To JSON or SQL text of a few bytes; returns the end, NULL where it has no text here.
    uint8_t* (*put)(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil
    # To JSON or SQL text of any length; 0, and nothing appended, where it has no text here.
    int (*append)(Memory out, Texts texts, const Value* value, const uint8_t* p, int64_t size) except -1 nogil
    # To an SQL literal that does not depend on sql_mode, for undo; 0 where it has none here. NULL: as `put`.
    int (*literal)(Memory out, Texts texts, const Value* value, const uint8_t* p, int64_t size) except -1 nogil
    # From Arrow, a value that is not NULL and for which there is room; returns the end, NULL if it is refused.
    uint8_t* (*encode)(Cell* cell, int64_t row, uint8_t* out) noexcept nogil
    # As many bytes as the values of some rows may take, or more; NULL: by `growth`.
    int64_t (*most)(const Cell* cell, int64_t row, int64_t rows) noexcept nogil
    # From Python; 0 if the value is refused, OTHER_CLASS if it is of another class.
    int (*pack)(Cell* cell, object value, Memory out) except -1


cdef class Column:
    cdef Value value
    cdef readonly int kind
    cdef readonly int form
    cdef int value_size  # bytes of a fixed-size value in Arrow
    cdef int policy
    cdef const uint8_t* missing
    cdef block_function decode
    cdef readonly int64_t count
    cdef readonly int64_t null_count
    cdef readonly Memory validity, data, offsets, more
    cdef object keep  # what `value` points to
    cdef Memory plain  # of the compressed value at hand
    cdef int _take_more(self) except -1
    cdef Column like(self)
    cdef bint opens(self) noexcept
    cdef int append(self, const uint8_t** pointers, int64_t count) except -2 nogil
    cdef int append_absent(self, int64_t count) except -1 nogil
    cdef int32_t* new_offsets(self, int64_t count) except NULL nogil
    cdef void nullify(self, int64_t i) noexcept nogil
    cdef int _clear(self, int64_t row, int64_t end) except -1 nogil


cdef class Names:
    cdef Memory text, ends
    cdef int64_t count

cdef const ValueType* type_of(int kind) noexcept nogil
cdef int set_value(Value* value, int kind, int width, int first, int second) except -1
cdef int set_names(Value* value, Names names) except -1
cdef int arrow_size(const ValueType* type, int width) noexcept nogil
