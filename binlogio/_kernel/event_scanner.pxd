# cython: language_level=3
"""C declarations of `event_scanner`, by file."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memcmp

from binlogio._kernel.base.cursor cimport u16, u24, u32
from binlogio._kernel.primitives cimport Memory, ZstdContext
from binlogio._kernel.scan.cursor cimport Cursor, Frame
from binlogio._kernel.scan.groups cimport GroupState

# ------------------------------------------------------------------------------------------------- scan/row_images.pxi

cdef enum Operation:
    INSERT = 0
    UPDATE = 1
    DELETE = 2
    PARTIAL_UPDATE = 3

cdef enum:
    MAX_BLOCK = 2048  # rows that are located and then decoded together, so that their pointers stay in the CPU cache

cdef struct RowsEvent:
    int64_t pos  # file offset of the event, or of the payload event that contains it
    const uint8_t* images
    int64_t size
    const uint8_t* present
    const uint8_t* present_after
    int64_t next  # index of the next event with the same plan; the event count if there is none (`EventScanner.found`)
    int32_t plan
    int32_t group
    uint32_t timestamp
    uint32_t server_id
    int32_t first_row  # number of its first row among the rows at `pos`
    uint8_t operation
    uint8_t code  # event type code
    int64_t end_pos  # file offset after the event, or after the payload event that contains it
    int32_t statement  # index of its statement text in the scanner; -1 if there is none
    int32_t segment  # number of its part of the group, between savepoints

cdef struct Layout:
    # Columns present in an image, in order; rebuilt when the present bitmap changes.
    int count
    int null_bytes
    int absent_count
    int32_t* absent_slot  # slots of the selected columns that the image lacks
    int32_t* column
    int32_t* width  # bytes of a fixed-size value, or minus the bytes of the length prefix
    int32_t* slot  # slot of the column's pointers; unselected columns use the slot after the last
    uint8_t* present  # present bitmap that the layout was made for
    bint ready

cdef struct Plan:
    # Layout of the row images of a table, from its table map.
    int32_t column_count
    int32_t json_count
    int32_t slot_count
    int32_t bitmap_bytes
    int32_t* width
    int32_t* slot
    uint8_t* is_json
    int32_t* record_bit  # index of each column's bit in a record of 5.1 before GA; -1 if the column is NOT NULL
    int32_t record_bytes  # bytes of the bitmap at the start of such a record
    Layout before
    Layout after
    bint wanted
    int32_t table_number  # the same number for all plans of a table

cdef class ImagePlan:
    cdef Plan core
    cdef readonly object table
    cdef list batch_sizes  # bytes of each memory block of the previous batch, used to reserve space for the next one

cdef inline bint is_bare_row(Layout* layout, RowsEvent* event) noexcept nogil:
    """Return whether an event holds one row of no bytes: INSERT INTO t VALUES () with minimal row images.

    Servers write one such row per event.
    """
    return event.size == 0 and event.operation == INSERT and layout.count == 0

cdef int make_layout(Plan* plan, Layout* layout, const uint8_t* present) noexcept nogil

cdef inline int prepare(Plan* plan, Layout* layout, const uint8_t* present) noexcept nogil:
    """Make `layout` describe the images of bitmap `present`, unless it already does."""
    cdef int32_t i
    if not layout.ready:
        return make_layout(plan, layout, present)
    for i in range(plan.bitmap_bytes):
        if layout.present[i] != present[i]:
            return make_layout(plan, layout, present)
    return 0

cdef int plain_images(Memory out, Plan* plan, RowsEvent* event) except -1 nogil
cdef int64_t count_rows(Plan* plan, RowsEvent* event, int64_t* taken) noexcept nogil
cdef const uint8_t* partial_header(Plan* plan, const uint8_t* at, const uint8_t* end,
                                   const uint8_t** partial_bits) noexcept nogil
cdef void mark_partial(Plan* plan, Layout* layout, const uint8_t** pointers, int64_t stride,
                       const uint8_t* partial_bits) noexcept nogil

cdef inline uint64_t _size_after(const uint8_t* at, int32_t width) noexcept nogil:
    """Return the size of a value including its length prefix, which has `-width` bytes, 1 to 4."""
    if width == -1:
        return 1 + <uint64_t>at[0]
    if width == -2:
        return 2 + <uint64_t>u16(at)
    if width == -3:
        return 3 + <uint64_t>u24(at)
    return 4 + <uint64_t>u32(at)


cdef inline const uint8_t* pass_values(Layout* layout, const uint8_t* at, const uint8_t* end, const uint8_t** pointers,
                                       int64_t stride) noexcept nogil:
    """Skip one image and store the pointers of its values; returns its end, or NULL if the bytes are too short.

    The pointer of slot s is stored at pointers[s * stride], NULL for a NULL value. `pointers` may be NULL. There is one
    slot more than selected columns, for all unselected ones. NULL bits cause no branch, because they are not
    predictable.
    """
    cdef const uint8_t* nulls = at
    cdef int i
    cdef int32_t width
    cdef uint64_t size
    cdef uint64_t kept  # all bits set if there is a value, else 0
    cdef uint8_t any_null = 0
    if end - at < layout.null_bytes:
        return NULL
    for i in range(layout.null_bytes):
        any_null |= at[i]
    at += layout.null_bytes
    # Values of a fixed size may reach past the end: that is checked before the next length prefix, and after the last
    # value
    if any_null == 0 and pointers != NULL:  # fast path for images without NULL values
        for i in range(layout.count):
            width = layout.width[i]
            pointers[layout.slot[i] * stride] = at
            if width >= 0:
                at += width
            elif end - at < -width:
                return NULL
            else:
                at += _size_after(at, width)
        return at if at <= end else NULL
    for i in range(layout.count):
        width = layout.width[i]
        kept = <uint64_t>(nulls[i >> 3] >> (i & 7) & 1) - 1
        if width >= 0:
            size = width
        elif end - at < -width:
            if kept:
                return NULL
            size = 0
        else:
            size = _size_after(at, width)
        if pointers != NULL:
            pointers[layout.slot[i] * stride] = <const uint8_t*>(<uintptr_t>at & kept)
        at += size & kept
    return at if at <= end else NULL

cdef inline const uint8_t* pass_image(Layout* layout, const uint8_t* at, const uint8_t* end, const uint8_t** pointers,
                                      int64_t stride) noexcept nogil:
    """As `pass_values`, and store pointer 1 for selected columns that the image lacks."""
    cdef int i
    if pointers != NULL:
        for i in range(layout.absent_count):
            pointers[layout.absent_slot[i] * stride] = <const uint8_t*>1
    return pass_values(layout, at, end, pointers, stride)

cdef inline const uint8_t* locate_image(Plan* plan, Layout* layout, const uint8_t* at, const uint8_t* end,
                                        const uint8_t** pointers, int64_t stride,
                                        const uint8_t* partial_bits) noexcept nogil:
    """As `pass_image`, and mark values that are JSON diffs; `partial_bits` is NULL without JSON diffs."""
    at = pass_image(layout, at, end, pointers, stride)
    if partial_bits != NULL and at != NULL:
        mark_partial(plan, layout, pointers, stride, partial_bits)
    return at

# ------------------------------------------------------------------------------------------------ scan/gtid_events.pxi

cdef enum:
    GTID_TEXT = 96  # a UUID, a tag, a number of 20 digits, and colons

cdef enum GroupKind:
    NO_GTID = 0
    MYSQL_GTID = 1
    MARIADB_GTID = 2

cdef struct Group:
    uint8_t kind
    uint8_t tag_size
    uint8_t uuid[16]
    char tag[32]
    uint32_t domain_id
    uint32_t server_id
    uint64_t number  # gno, or MariaDB's sequence number
    int64_t last_committed  # -1 if the event does not have it
    int64_t sequence_number
    uint32_t begin_time  # of the first event of the group, in seconds since 1970
    int64_t committed_us  # commit time of the server in microseconds since 1970; -1 if the event does not have it
    # Set only if the scanner keeps sources
    int64_t thread_id  # -1 if the log does not have it
    uint64_t xid
    bint has_xid, is_complete  # is_complete: the last event of the group was scanned, so no XID follows
    uint8_t outcome  # a GroupOutcome
    int32_t segments  # index in the scanner's `segments`; -1 if the group has no savepoint

cdef enum GroupOutcome:  # as binlogio.format.groups.OUTCOMES
    O_UNKNOWN = 0  # the end of the group was not found
    O_COMMIT = 1
    O_ROLLBACK = 2
    O_ROLLBACK_TO_SAVEPOINT = 3
    O_PREPARE = 4
    O_STATEMENT = 5
    O_INCIDENT = 6

cdef struct GtidFields:
    # Fields that are not in `Group`; MariaDB's events have `flags` to `thread_id`.
    uint8_t flags
    bint has_clock, has_immediate, has_original, has_length, has_version, has_original_version, has_ticket
    uint64_t immediate, original, length, ticket, last_non_ignorable
    uint32_t version, original_version
    bint has_commit_id, has_engines, has_start, has_thread
    uint64_t commit_id, start
    uint32_t thread_id
    uint8_t flags_extra, engines

cdef bint read_group(Group* group, uint8_t code, const uint8_t* header, const uint8_t* body,
                     const uint8_t* end) noexcept nogil
cdef bint gtid_fields(GtidFields* fields, uint8_t code, const uint8_t* body, const uint8_t* end) noexcept nogil
cdef int put_gtid(uint8_t* to, const Group* group) noexcept nogil
cdef object gtid_of(const Group* group)

cdef inline bint is_same_source(const Group* one, const Group* other) noexcept nogil:
    """Return whether the GTIDs of two groups differ at most in their numbers."""
    if one.kind != other.kind:
        return False
    if one.kind == MYSQL_GTID:
        return (memcmp(one.uuid, other.uuid, 16) == 0 and one.tag_size == other.tag_size
                and memcmp(one.tag, other.tag, one.tag_size) == 0)
    return one.kind == NO_GTID or one.domain_id == other.domain_id and one.server_id == other.server_id

cdef enum:
    GTID_SOURCES = 64  # number of sources for which a GtidChoice caches the last answer

cdef struct GtidRun:
    # Cached answer, and the range of numbers of a source (`first` to `last`) to which it applies
    Group source
    uint64_t first, last
    bint is_known, wanted

cdef class GtidChoice:
    cdef object ask
    cdef GtidRun[GTID_SOURCES] runs
    cdef bint wants(self, const Group* group) except -1 nogil
    cdef bint _ask(self, GtidRun* run, const Group* group) except -1 with gil

# ----------------------------------------------------------------------------------------------- scan/group_filter.pxi

cdef enum GroupAnswer:
    GROUP_NOT_KNOWN = 0  # malformed event
    GROUP_UNWANTED = 1
    GROUP_WANTED = 2
    GROUP_AFTER_END = 3

cdef class GroupFilter:
    cdef int64_t start, stop
    cdef GtidChoice gtids  # None: any GTID
    cdef object server_ids, ask_table, ask_statement
    cdef dict tables  # answers by the bytes of the names in a table map
    cdef GroupState group  # the group that is being skipped
    cdef uint8_t[256] is_unusual
    cdef readonly uint32_t position_shift  # difference between log_pos and the real end of the last event
    cdef readonly int64_t at  # index of the next event in the buffer
    cdef readonly int64_t good  # file offset after the last skipped group
    cdef int answer(self, uint8_t code, const uint8_t* head, const uint8_t* body, const uint8_t* end) except -1
    cdef bint is_unwanted(self, uint8_t code, const uint8_t* body, const uint8_t* end) except -1

# ------------------------------------------------------------------------------------------------- scan/row_filter.pxi

cdef class RowChoice:
    cdef GtidChoice gtids  # None: any GTID
    cdef bint wants_this_group
    cdef int64_t pos_start, pos_end, time_start, time_end, group_start, group_end
    cdef bint asks_group_time
    cdef uint32_t* server_ids
    cdef int64_t server_id_count
    cdef bint excludes_servers
    cdef uint8_t operations
    cdef int begin_group(self, const Group* group) except -1 nogil
    cdef bint wants(self, const RowsEvent* event) noexcept nogil
    cdef bint wants_at(self, int64_t pos, uint32_t timestamp, uint32_t server_id) noexcept nogil

# ------------------------------------------------------------------------------------------------ scan/rows_events.pxi

cdef bint read_frame(RowsEvent* event, uint8_t code, const uint8_t* at, const uint8_t* end,
                     uint64_t* columns) noexcept nogil
cdef int inflate_images(Memory out, RowsEvent* event, int64_t most) except -1 nogil
cdef int inflate_block(Memory out, const uint8_t* p, int64_t block_size, int64_t most) except -1 nogil

# ------------------------------------------------------------------------------------------------ scan/table_plans.pxi

cdef enum:
    NOT_MAPPED = -1

cdef struct Slot:
    uint64_t table_id
    int64_t statement
    uint8_t* body
    int64_t size
    int32_t plan

@cython.final
cdef class TablePlans:
    cdef object resolve_plan
    cdef Slot* slots
    cdef int64_t statement
    cdef dict overflow
    cdef int64_t overflow_count
    cdef dict by_body
    cdef dict by_plan
    cdef dict by_table  # (schema, table) -> number
    cdef list plans
    cdef Plan** cores
    cdef int id_size
    cdef bint take(self, const uint8_t* body, const uint8_t* end) except -1 nogil
    cdef bint _take_new(self, uint64_t table_id, const uint8_t* rest, int64_t size,
                        const uint8_t* body) except -1 with gil
    cdef object _plan_number(self, const uint8_t* rest, int64_t size, const uint8_t* body)
    cdef int32_t plan_of(self, uint64_t table_id) except -2 nogil
    cdef int end_statement(self) except -1 nogil
    cdef int forget(self) except -1
    cdef int renew(self) except -1
    cdef list keep_valid(self)
    cdef int _add(self, plan) except -1

# ---------------------------------------------------------------------------------------------- scan/event_scanner.pxi

cdef struct SourceText:
    # Text of the statement that rows belong to.
    int64_t begin, size
    int64_t serial  # unique number of the text in this scanner

cdef class EventScanner:
    cdef public bint keeps_sources  # collect threads, XIDs and statements of rows
    cdef public bint keeps_outcomes  # collect outcomes of rows too
    cdef public object open_savepoints  # returns a `binlogio.schema.statements.Savepoints`, for groups with savepoints
    cdef object savepoints, savepoints_ahead  # those of the group, and of the search for its end; None: none yet
    cdef Memory segments  # for each segment of groups with savepoints: whether it was rolled back
    cdef int32_t segment  # number of the current segment of the group
    cdef public bint follows_all  # pass all statements to `follow`, except those that begin or end transactions
    cdef readonly int64_t followed_at  # file offset of the last statement passed to a function, or of its payload event
    cdef object note_change
    cdef bint watches  # pass statements to `note_change`
    cdef public int64_t event_end  # file offset after the event that is passed in parts; -1 if there is none
    cdef bint in_payload  # the event that is passed in parts is a payload event
    cdef GroupState state
    cdef GroupState ahead  # state of the search for the end of the group
    cdef Memory texts, source_texts  # bytes of statements, and a SourceText for each
    cdef int32_t statement  # index of the current text; -1 if there is none
    cdef int64_t last_serial
    cdef bint _pass_extra(self, Frame* frame, uint8_t code) noexcept nogil
    cdef int _follow_source(self, uint8_t code, const uint8_t* body, const uint8_t* end, bint inner) except -1 nogil
    cdef int _note_outcome(self, Group* group, uint8_t code, const uint8_t* body, const uint8_t* end,
                           bint ahead) except -1 nogil
    cdef int _pass_savepoint(self, Group* group, const uint8_t* sql, int64_t size, bint ahead) except -1 with gil
    cdef int _follow_group(self, uint8_t code, const uint8_t* body, const uint8_t* end) except -1 nogil
    cdef void _follow(self, GroupState* state, uint8_t code, const uint8_t* body, const uint8_t* end) noexcept nogil
    cdef int _new_group(self) except -1 nogil
    cdef int _keep_statement(self, const uint8_t* sql, int64_t size) except -1 nogil
    cdef int _keep_escaped(self, const uint8_t* sql, int64_t size) except -1 with gil
    cdef int _end_source(self) noexcept nogil
    cdef void _end_as_statement(self, Group* group) noexcept nogil
    cdef Group* groups
    cdef int64_t group_count, group_capacity
    cdef RowsEvent* events
    cdef int64_t event_count, event_capacity
    cdef uint8_t[256] codes  # maps type codes of the log to those of current servers
    cdef TablePlans maps
    cdef RowChoice choice  # None: all rows events are selected
    cdef uint32_t event_time  # of the last event outside payloads
    cdef list keep
    cdef Memory plain  # plain images of the current compressed event
    cdef Memory opened  # plain bytes of small payloads; does not grow, since events point into it
    cdef ZstdContext zstd
    cdef object open_payload, decompress, follow
    cdef bint checksum, verify, follows
    cdef bint has_positions  # log_pos of events is their end position
    cdef int header_extra  # bytes of event headers after the first 19
    cdef readonly uint32_t position_shift  # difference between log_pos and the real end of the last event
    cdef int64_t opened_size  # most bytes of a decompressed event
    cdef uint8_t[256] post_headers  # post-header bytes, by type code of current servers
    cdef uint8_t[256] unknown_post_header  # whether the post-header size is unknown
    cdef readonly int64_t kept_bytes
    cdef readonly int64_t inner_rows  # rows of the current payload
    # Bytes of the last payload that was decompressed as a whole, up to an event that was rejected
    cdef readonly int64_t payload_stop
    cdef bint ends_statement  # the current event is the last rows event of its statement
    cdef int64_t stop_offset
    cdef bint stops_inside  # at any event, not only before a group
    cdef int64_t group_offset  # file offset of the current group
    cdef int32_t last_plan  # plan of the last rows event
    cdef int32_t next_first_row
    cdef uint32_t stored, actual
    cdef void drop_events(self) noexcept nogil
    cdef int walk(self, const uint8_t* data, int64_t size, int64_t* at, int64_t base, int64_t pos) except -1 nogil
    cdef int _route(self, Cursor* cursor) except -1 nogil
    cdef int _begin_group(self, uint8_t code, const uint8_t* header, const uint8_t* body,
                          const uint8_t* end) except -1 nogil
    cdef int _add_group(self, const Group* group) except -1 nogil
    cdef int _rows(self, uint8_t code, Cursor* cursor) except -1 nogil
    cdef int _open_rows(self, uint8_t code, const uint8_t* body, const uint8_t* end, bint skipped_too,
                        RowsEvent* event) except -1 nogil
    cdef int _make_plain(self, Plan* plan, RowsEvent* event) except -1 nogil
    cdef int _inflate(self, RowsEvent* event) except -1 nogil
    cdef int _payload(self, Cursor* cursor) except -1 nogil
    cdef const uint8_t* _open_small(self, const uint8_t* frame, int64_t length, int64_t size) except? NULL nogil
    cdef bint _is_followed(self, const uint8_t* body, const uint8_t* end) noexcept nogil
    cdef int _define(self, uint8_t code, const uint8_t* body, int64_t size) except -1 with gil
    cdef int _note_change(self, Cursor* cursor, uint8_t code) except -1 nogil

cdef inline uint8_t row_outcome(EventScanner scanner, const Group* group, const RowsEvent* event) noexcept nogil:
    """Return the outcome of the rows of an event of a group."""
    if group.segments >= 0 and scanner.segments.data[group.segments + event.segment]:
        return O_ROLLBACK_TO_SAVEPOINT
    return group.outcome
