# cython: language_level=3
"""Table of conversion functions by column kind, and the structures that these functions take.

Each type family has one file, `values/<family>.pxd`: to Arrow, to Python, to text, from Arrow, from Python. `type_of`
returns the functions of a kind.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t

from cpython.object cimport PyObject

from binlogio._kernel.primitives cimport Characters, Memory

# Policies for dates that are not in the calendar. Numbers as in `column_kinds`.
cdef enum Policy:
    P_ERROR = 0
    P_NULL = 1
    P_TEXT = 2

# Arrow layouts of a column. Numbers as in `column_kinds`.
cdef enum Form:
    F_FIXED = 0
    F_TEXT = 1
    F_GEOMETRY = 2
    F_VECTOR = 3
    F_NULL = 4

cdef enum TextForm:
    T_LONG = 0  # of any length
    T_SHORT = 1  # a number, a time, or another short value
    T_UTF8 = 2  # UTF-8 with a length prefix
    T_ASCII = 3  # text with a length prefix, in a character set that contains ASCII

cdef enum Style:
    S_COMPACT = 0
    S_WIDE = 1
    S_SQL = 2

cdef enum:
    MOST_GROUPS = 16
    OTHER_CLASS = 2  # returned if a Python value is not of the class that a function handles

cdef struct Groups:
    # Groups of digits of a DECIMAL column.
    int count
    bint is_small
    int[MOST_GROUPS] size  # bytes of each group
    uint32_t[MOST_GROUPS] end  # exclusive upper bound of the value of each group

cdef struct ValueType

cdef struct Value:
    # Parameters for decoding the values of a column.
    const ValueType* type
    int kind
    int width  # bytes of a fixed-size value, or minus the bytes of its length prefix
    int first, second  # parameters of the kind
    Groups groups  # digit groups of a DECIMAL
    const uint8_t* names  # members of an ENUM or SET, or the 256 characters of a single-byte set, as UTF-8
    const uint32_t* name_ends  # offsets of the names (name_count + 1); NULL without names
    int64_t name_count
    bint is_ascii  # the lower half of the single-byte set is ASCII
    void* characters  # a Characters object: a multi-byte set
    PyObject* members  # for Python: list of the values of an ENUM by number
    PyObject* function  # for Python: function from the bytes of a value, without its length prefix, to the value

cdef struct DiffArrays:
    # Child arrays of a list of JSON diffs; the offsets in `Cell` refer to them.
    const uint8_t* operations
    const int32_t* path_ends
    const uint8_t* paths
    const uint8_t* validity  # validity bits of the values; NULL if each diff has one
    int64_t bit_at
    const int32_t* value_ends
    const uint8_t* values

cdef struct Cell:
    # Parameters for encoding the values of a column, and the Arrow buffers of a batch.
    const ValueType* type
    int kind
    int text  # the kind of the decompressed text; else equal to `kind`
    int width  # bytes of a fixed-size value, or of the length prefix
    int first  # precision, fraction digits, bits, dimensions or bytes, by kind
    int second  # scale of a DECIMAL
    Groups groups  # digit groups of a DECIMAL
    int64_t limit  # most bytes that a value may have
    bint trim  # remove trailing spaces, which the server does not store
    bint ascii  # all bytes of the values are ASCII
    bint is_text  # all values are known to be valid UTF-8
    bint ascii_table  # the lower half of the character set is ASCII
    int64_t refused  # first row that was rejected before encoding
    int64_t bit_at  # index of the first row's validity bit
    const uint8_t* validity  # NULL if no row is NULL
    const uint8_t* data
    const uint8_t* data_end
    int plain  # bytes of a value that is copied unchanged; -1: copied after its length prefix; 0: converted
    int64_t day  # day of the last DATETIME2, and its encoded bits
    uint64_t day_bits
    const int32_t* offsets
    const uint32_t* srids
    const uint8_t* table  # names, or the bytes of the characters of the basic multilingual plane
    const uint32_t* name_offsets
    int64_t name_count
    const int32_t* slots  # hash table of name numbers, from 1
    uint32_t slot_mask
    DiffArrays diffs
    void* builder  # a JsonBuilder
    void* deflater  # a Deflater

cdef class Column

cdef class Texts:
    cdef int style
    cdef bint is_mariadb  # JSON documents are text literals in SQL
    cdef Memory text, plain, marks  # scratch memory for the current value

ctypedef int64_t (*block_function)(Column, const uint8_t**, int64_t) except -2 nogil

cdef struct ValueType:
    # Functions and Arrow layout of a kind. A function is NULL if the kernel cannot do the conversion; the value is then
    # rejected or converted by construct.
    int form  # Arrow layout (Form)
    int arrow_size  # bytes of a fixed-size value in Arrow; 0: as in the row image, but 4 for 3
    int item_shift  # offsets count items of 1 << item_shift bytes
    int text_form
    int growth  # bound of encoded bytes per Arrow byte, plus a constant; 0: a few bytes
    bint is_date  # values that are not in the calendar are subject to the policy
    bint opens  # values are compressed
    int name_count  # required number of names; -1: any number
    bint has_characters  # requires a multi-byte character set
    bint is_told  # values of different bytes have different SQL literals
    bint is_checked  # bytes of the right length may be invalid; documents are validated when they are written
    const uint8_t* missing  # bytes read in place of a missing value; NULL: none are read
    # Whether the parameters are valid, so that decoding reads `width` bytes and writes as many as `arrow_size` states,
    # and encoding writes `width` bytes.
    bint (*fits)(const Value* value) noexcept nogil
    # Row image to Arrow, a block of values; returns the index of the first invalid value, or -1.
    block_function decode
    # Row image to Arrow, one value of any length; False if it is invalid. For kinds without `decode`.
    bint (*add)(Column column, const uint8_t* p, int64_t size) except -1 nogil
    # Row image to Python.
    object (*make)(const Value* value, const uint8_t* p, int64_t size)
    # Row image to short JSON or SQL text; returns the end, or NULL if the kernel cannot convert the value.
    uint8_t* (*put)(uint8_t* to, const Value* value, const uint8_t* p, bint sql) noexcept nogil
    # Row image to JSON or SQL text of any length; returns 0 and appends nothing if the kernel cannot convert the value.
    int (*append)(Memory out, Texts texts, const Value* value, const uint8_t* p, int64_t size) except -1 nogil
    # Row image to an SQL literal that does not depend on sql_mode, for flashback; 0 if there is none. NULL: use `put`.
    int (*literal)(Memory out, Texts texts, const Value* value, const uint8_t* p, int64_t size) except -1 nogil
    # Arrow to row image, a value that is not NULL; returns the end, NULL if it is rejected. The caller reserves the
    # space.
    uint8_t* (*encode)(Cell* cell, int64_t row, uint8_t* out) noexcept nogil
    # Upper bound of the encoded bytes of some rows; NULL: computed from `growth`.
    int64_t (*most)(const Cell* cell, int64_t row, int64_t rows) noexcept nogil
    # Python to row image; returns 0 if the value is rejected, OTHER_CLASS if it is of another class.
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
    cdef object keep  # owners of the memory that `value` refers to
    cdef Memory plain  # decompressed bytes of the current value
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
