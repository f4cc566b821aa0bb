# cython: language_level=3
"""C declarations of `row_decoder`, by file."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t

from binlogio._kernel.column_values cimport Column, Texts, Value
from cpython.object cimport PyObject

from binlogio._kernel.event_scanner cimport (
    GTID_TEXT, EventScanner, Group, GroupFilter, ImagePlan, Layout, Operation, Plan, RowsEvent, SourceText,
)
from binlogio._kernel.json_documents cimport JsonPatcher
from binlogio._kernel.primitives cimport Memory
from binlogio._kernel.scan.cursor cimport Frame
from binlogio._kernel.scan.groups cimport GroupState

# ------------------------------------------------------------------------------------------- read/metadata_columns.pxi

cdef class Presence:
    cdef readonly Memory present, present_offsets, validity
    cdef readonly int64_t rows  # rows that have the image
    cdef list own_memories(self)
    cdef int add(self, const uint8_t* present, Plan* plan, int64_t row, int64_t run) except -1 nogil
    cdef int _add_short(self, const uint8_t* present, Plan* plan, int64_t run) except -1 nogil


cdef class MetadataColumns:
    cdef readonly int64_t count
    cdef readonly Memory pos, row, timestamp, server_id, op, gtid_offsets, gtid, gtid_validity
    cdef readonly Memory last_committed, sequence_number, clock_validity
    cdef readonly int64_t gtid_nulls, clock_nulls
    cdef uint8_t[GTID_TEXT] gtid_text
    cdef int gtid_size
    cdef int64_t gtid_group
    cdef readonly SourceColumns source  # None until rows of a scanner that keeps sources are added
    cdef list own_memories(self)
    cdef int begin(self) except -1 nogil
    cdef int add(self, EventScanner scanner, RowsEvent* event, int64_t row, int64_t run, Plan* plan, Presence before,
                 Presence after) except -1 nogil
    cdef int _make_source(self) except -1 with gil


cdef class SourceNumbers:
    cdef readonly Memory values, validity
    cdef int add(self, int64_t value, bint is_there, int64_t count, int64_t run) except -1 nogil


cdef class SourceColumns:
    cdef readonly SourceNumbers end_pos, thread_id, xid, outcome, commit_timestamp, statement
    cdef readonly list statements
    cdef int64_t last_serial, statement_count, text_bytes
    cdef int add(self, EventScanner scanner, const RowsEvent* event, int64_t count, int64_t run) except -1 nogil
    cdef int _statement(self, EventScanner scanner, const SourceText* text) except -1 with gil

cdef int repeat(Memory data, Memory offsets, const uint8_t* value, int size, int64_t run) except -1 nogil

# ------------------------------------------------------------------------------------------------ read/table_batch.pxi

cdef struct Run:
    # Rows of a block that come from one event.
    int64_t event
    int64_t at  # offset in bytes of the first row in the event's images
    int32_t event_row  # index of the first row in the event
    int32_t row  # index of the first row in the block
    int32_t end


cdef class Side(Presence):
    cdef list kinds  # an empty column for each slot
    cdef readonly list columns  # empty until there is a row
    cdef void** refs
    cdef int64_t pending  # rows without the image that are not yet appended to the columns
    cdef const uint8_t** pointers
    cdef int slots
    cdef int no_image(self, int64_t row, int64_t end) noexcept nogil
    cdef int mark_absent(self, Layout* layout, int64_t row, int64_t end) noexcept nogil
    cdef int make(self, list sizes) except -1
    cdef list memories(self)


cdef class Batch(MetadataColumns):
    cdef ImagePlan plan
    cdef readonly Side before, after
    cdef readonly int64_t failed_event  # index of the rows event that does not fit, or -1
    cdef readonly int64_t failed_row, failed_at  # the failed row's number in that event, and the offset of its image
    cdef readonly bint failed_in_images  # the images do not fit the plan; else a value is invalid
    cdef readonly bint failed_partial  # the failed event is a partial update
    cdef readonly bint stopped_at_partial  # the next event is a partial update, which this batch does not accept
    cdef readonly bint has_diffs  # JSON values may be diffs
    cdef bint takes_partial
    cdef int64_t block_rows  # most rows that are decoded at once
    cdef int64_t event  # event at which the next fill continues
    cdef const uint8_t* at
    cdef int64_t event_row
    cdef Run* runs  # runs of the current block
    cdef int run_count
    cdef int64_t scratch_size(self) noexcept
    cdef int begin_fill(self, EventScanner scanner, uint8_t* scratch, int64_t event, int64_t event_row,
                        int64_t event_at) except -1 nogil
    cdef int take_rows(self, EventScanner scanner, int64_t max_rows, int64_t max_bytes) except -1 nogil
    cdef bint took_all(self, EventScanner scanner) noexcept nogil
    cdef tuple place(self, EventScanner scanner)
    cdef list _memories(self)
    cdef int _make(self, Side side) except -1 with gil
    cdef int _catch_up(self, Side side) except -1
    cdef int64_t byte_count(self) noexcept nogil
    cdef int64_t _side_bytes(self, Side side) noexcept nogil
    cdef int64_t _block(self, EventScanner scanner, int64_t most) except -1 nogil
    cdef int64_t _locate(self, RowsEvent* event, int64_t row, int64_t most) noexcept nogil
    cdef int _images(self, EventScanner scanner, Side side, Operation without, int64_t count) except -1 nogil
    cdef int _materialise(self, Side side, int64_t row, int64_t end) except -1 nogil
    cdef int _run_of(self, int64_t row) noexcept nogil
    cdef int _records(self, EventScanner scanner) except -1 nogil

# ------------------------------------------------------------------------------------------------- read/image_text.pxi

cdef enum:
    GO_ON = 0
    REFUSED = 1

cdef enum:  # texts around images; 0 to 2 precede the images of INSERT, UPDATE and DELETE
    BETWEEN = 3
    ROW_END = 4
    SEPARATOR = 5
    PIECES = 6

cdef struct Piece:
    int64_t begin, size

cdef struct TextValue:
    Value value
    int form  # a TextForm
    int64_t room  # bytes that suffice for the label, and for the value if it is short
    int64_t label, label_size  # text before a value, in `labels`; in JSON a comma, the name and a colon
    int64_t end, end_size  # text after a value
    int64_t null_end, null_end_size  # text after NULL


cdef class ImageText:
    cdef readonly ImagePlan plan
    cdef object by_construct
    cdef Memory schema, table
    cdef TextValue* values
    cdef Texts texts
    cdef const uint8_t** pointers
    cdef const uint8_t** old
    cdef Memory labels, out
    cdef int style
    cdef bint has_ends
    cdef object write  # takes long text in pieces; None: the text is returned
    cdef bint writes
    cdef int skipped  # bytes of its label that the first column of an image omits
    cdef Piece[PIECES] pieces
    cdef JsonPatcher patcher
    cdef list keep
    cdef tuple _keep_label(self, bytes text)
    cdef int64_t append_rows(self, Memory out, int operation, const uint8_t* present, const uint8_t* present_after,
                             const uint8_t* data, int64_t size, int64_t* begin, int64_t most) except -2 nogil
    cdef int _piece(self, Memory out, int number) except -1 nogil
    cdef int append_image(self, Memory out, Layout* layout, bint has_old) except -1 nogil
    cdef int _diffs(self, Memory out, int32_t column, const uint8_t* p, bint has_old) except -1 nogil
    cdef int _slowly(self, Memory out, int32_t column, const uint8_t* p, const uint8_t* old, int diffs) except -1 nogil
    cdef bytes _bytes(self, int32_t column, const uint8_t* p)
    cdef int _long(self, Memory out, const Value* value, const uint8_t* p) except -1 nogil
    cdef int _drain(self, Memory out, int64_t least) except -1 nogil
    cdef int _parts(self, Memory out, const uint8_t* p, int64_t size, int kind) except -1 nogil
    cdef int _in_pieces(self, Memory out, const uint8_t* p, int64_t size, bint is_text) except -1 nogil

# ------------------------------------------------------------------------------------------------ read/inverse_sql.pxi

cdef enum ConditionForm:  # as binlogio.replay.targets.mysql.values.ConditionForm
    C_LITERAL = 0
    C_TEXT = 1
    C_FLOAT = 2
    C_DOCUMENT = 3

cdef struct InverseColumn:
    Piece assignment, condition  # the text before a value in SET, and in WHERE of a column of the key
    Piece is_null, before, after  # conditions that a column has a value: NULL; the texts around another
    int form  # a ConditionForm
    Piece[2] zeros  # conditions that a column has the value 0.0 or -0.0
    bint is_key
    bint is_written  # a column of INSERT and UPDATE
    bint is_filled  # set by each UPDATE, because the server may fill it
    bint is_enum
    bint has_default  # the default value that a row gets for NULL
    bint is_told  # values of different bytes have different literals
    bint is_checked  # bytes may be invalid for the type


cdef class InverseSql:
    cdef ImageText images
    cdef Texts scratch
    cdef InverseColumn* columns
    cdef int32_t column_count
    cdef int32_t* key
    cdef int32_t key_count
    cdef int64_t most
    cdef bint compares
    cdef const uint8_t** then  # values of the row before the change
    cdef const uint8_t** now
    cdef uint8_t* changed
    cdef Piece insert, update, remove, end
    cdef Memory texts, own, out, row, starts  # `out` is `own` unless a group is reversed
    cdef Piece _keep(self, bytes text)
    cdef int _piece(self, Memory out, Piece* piece) except -1 nogil
    cdef int64_t _rows(self, int operation, const uint8_t* present, const uint8_t* present_after, const uint8_t* data,
                       int64_t size) except -2 nogil
    cdef int _insert_row(self, int64_t* size) except -1 nogil
    cdef int _update_row(self) except -1 nogil
    cdef int _where(self, bint all_columns) except -1 nogil
    cdef int _is_unchanged(self, int32_t column) except -1 nogil
    cdef int _float(self, InverseColumn* found, const uint8_t* p, int width) except -1 nogil
    cdef int _differs(self, int32_t column) except -1 nogil
    cdef int _are_values(self, const uint8_t** pointers) except -1 nogil
    cdef bint _has_invalid_member(self) noexcept nogil
    cdef int _literal(self, Memory out, int32_t column, const uint8_t* p) except -1 nogil

# --------------------------------------------------------------------------------------------- read/inverse_groups.pxi

cdef struct GroupChange:
    # A rows event of the current group.
    RowsEvent rows
    const uint8_t* head
    const uint8_t* map_head  # its table map
    PyObject* inverse  # its InverseRows
    int64_t count  # rows, after it was reversed

cdef struct StatementMap:
    # A table map of the current statement.
    uint64_t table_id
    const uint8_t* head
    PyObject* table  # its InverseTable


cdef class InverseRows:
    cdef readonly object step
    cdef readonly int64_t rows, events  # in the last text
    cdef InverseSql sql
    cdef bint cascades, is_minimal, spare_bits
    cdef ImagePlan plan
    cdef bytes begin, table_map, head, xid
    cdef int flags, footer
    cdef int32_t columns
    cdef Memory pointers, changed


cdef class InverseGroups:
    cdef object resolve, accepts
    cdef Memory out, changes, starts, sizes, places
    cdef dict begins
    cdef object tables
    cdef list slots
    cdef StatementMap[64] maps
    cdef int map_count
    cdef Group last  # the group with the last GTID
    cdef bint last_wanted
    cdef uint8_t[256] taken
    cdef readonly list gtids  # source, first number, end, and whether the groups are selected
    cdef readonly list found  # each InverseRows with events in the last text
    cdef readonly int64_t filtered  # groups that are not selected
    cdef public bytes prefix  # in SQL: the comment before the offsets of a group
    cdef public int64_t first, end
    cdef public GroupFilter chosen
    cdef public bint inside
    cdef readonly uint32_t position_shift
    cdef readonly int64_t at
    cdef readonly bint needs_data
    cdef bint _begins(self, const Frame* frame, Group* group) except -1
    cdef int _keep_gtid(self, const Group* group, bint wanted) except -1
    cdef bint _take(self, const Frame* frame, int64_t offset, const GroupState* state, bint wanted) except -1
    cdef bint _accepts(self, const uint8_t* context, int64_t size) except -1
    cdef bint _map(self, const Frame* frame) except -1
    cdef bint _change(self, const Frame* frame, int64_t offset) except -1
    cdef bint _reverse(self, int64_t start, int64_t end) except -1
    cdef int64_t _sql(self, InverseRows inverse, GroupChange* change) except -2
    cdef int _frame(self, bytes frame, const uint8_t* head) except -1
    cdef int64_t _frames(self, InverseRows inverse, GroupChange* change) except -2
    cdef int64_t _begin_event(self, InverseRows inverse, GroupChange* change) except -1
    cdef int _end_event(self, InverseRows inverse, GroupChange* change, int64_t at, const uint8_t* changed,
                        bint is_last) except -1
    cdef int _minimal(self, InverseRows inverse, const uint8_t** then, const uint8_t* changed) except -1
