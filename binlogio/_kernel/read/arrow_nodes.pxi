"""Collects the memory blocks of each column of a record batch, for `arrow_arrays`.

Compiled because of the many attribute accesses: a batch has some fifty arrays.
"""

from libc.stdint cimport int64_t

from binlogio._kernel.column_values cimport F_FIXED, F_GEOMETRY, F_NULL, F_TEXT, F_VECTOR, Column
from binlogio._kernel.primitives cimport Memory


def metadata_nodes(MetadataColumns metadata, file, update) -> list:
    """Return the nodes of the metadata columns up to `sequence_number`.

    `update` is a text column of "update" values: all operation names have the same length, so they share its offsets.
    """
    cdef int64_t count = metadata.count
    return [
        file,
        _fixed(metadata.pos, count, None, 0),
        _fixed(metadata.row, count, None, 0),
        text_node(update[2][1], metadata.op, count, None, 0),
        _fixed(metadata.timestamp, count, None, 0),
        _fixed(metadata.server_id, count, None, 0),
        text_node(metadata.gtid_offsets, metadata.gtid, count, metadata.gtid_validity, metadata.gtid_nulls),
        _fixed(metadata.last_committed, count, metadata.clock_validity, metadata.clock_nulls),
        _fixed(metadata.sequence_number, count, metadata.clock_validity, metadata.clock_nulls),
    ]


def presence_node(Presence side, int64_t count) -> tuple:
    """Return the column of present bitmaps of the rows that have the image."""
    return text_node(side.present_offsets, side.present, count, side.validity, count - side.rows)


def repeated_text(bytes text, int64_t count) -> tuple[Memory, Memory]:
    """Return offsets and bytes of `count` repetitions of a text; `text_node` may use fewer of them."""
    cdef Memory offsets = Memory()
    cdef Memory data = Memory()
    (<int32_t*>offsets.grow(4))[0] = 0
    repeat(data, offsets, <const uint8_t*><const char*>text, <int>len(text), count)
    return offsets, data


def image_node(Side side, int64_t count, forms, Memory zeros) -> tuple:
    """Return the struct of the images of one side, whose columns have the layouts `forms`.

    If no row has the image, all columns refer to `zeros`, which must have 32 bytes per row, and 32 more.
    """
    cdef int64_t missing = count - side.rows
    cdef int slot
    cdef list children
    if side.rows:
        children = [column_node(side.columns[slot], forms[slot]) for slot in range(side.slots)]
    else:
        children = [_null_node(forms[slot], count, zeros) for slot in range(side.slots)]
    return count, missing, ((side.validity if side.rows else zeros) if missing else None,), children


cdef tuple _null_node(int form, int64_t count, Memory zeros):
    if form == F_NULL:
        return count, count, (), ()
    if form == F_GEOMETRY:
        return count, count, (zeros,), ((count, 0, (None, zeros), ()), (count, 0, (None, zeros, zeros), ()))
    if form == F_VECTOR:
        return count, count, (zeros, zeros), ((0, 0, (None, zeros), ()),)
    return count, count, (zeros, zeros, zeros) if form == F_TEXT else (zeros, zeros), ()


cpdef tuple text_node(Memory offsets, Memory data, int64_t count, Memory validity=None, int64_t nulls=0):
    """Return the node of a column of text or bytes of any length."""
    return count, nulls, (validity if nulls else None, offsets, data), ()


cpdef tuple column_node(Column column, int form):
    """Return the node of a complete column."""
    cdef int64_t count = column.count
    cdef Memory validity = column.validity if column.null_count else None
    if form == F_FIXED:
        return _fixed(column.data, count, validity, column.null_count)
    if form == F_TEXT:
        return text_node(column.offsets, column.data, count, validity, column.null_count)
    if form == F_GEOMETRY:
        children = _fixed(column.more, count, None, 0), text_node(column.offsets, column.data, count, None, 0)
        return count, column.null_count, (validity,), children
    if form == F_VECTOR:
        return count, column.null_count, (validity,
                                          column.offsets), (_fixed(column.data, column.data.size // 4, None, 0),)
    return count, count, (), ()


cdef tuple _fixed(Memory data, int64_t count, Memory validity, int64_t nulls):
    return count, nulls, (validity if nulls else None, data), ()
