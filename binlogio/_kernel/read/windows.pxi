"""Scans windows of a log and fills the open batches of its tables, as long as no call into Python is needed.

Assigns events to tables and reads the file; `table_batch` decodes the rows.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memmove, memset
from posix.unistd cimport read

from binlogio._kernel.base.cursor cimport u32
from binlogio._kernel.base.event_codes cimport HEADER_SIZE
from binlogio._kernel.event_scanner cimport EventScanner, RowsEvent
from binlogio._kernel.primitives cimport Memory


def fill_all(EventScanner scanner, batches, first_events, int64_t max_rows, int64_t max_bytes):
    """Fill each batch from its first event, without the GIL.

    Acquiring the GIL for each table would cost more than decoding its rows.
    """
    cdef list filled = list(batches)
    cdef Memory scratch = Memory()
    cdef Memory refs = Memory()
    cdef int64_t count = len(filled)
    cdef int64_t scratch_size = 0
    cdef int64_t i
    cdef void** batch_at = <void**>refs.grow(sizeof(void*) * count)
    for i in range(count):
        scratch_size = max(scratch_size, (<Batch?>filled[i]).scratch_size())
        batch_at[i] = <void*>filled[i]
    scratch.grow(scratch_size)
    for i, first_event in zip(range(count), first_events, strict=True):
        (<Batch>filled[i]).begin_fill(scanner, scratch.data, first_event, 0, 0)
    with nogil:
        for i in range(count):
            (<Batch>batch_at[i]).take_rows(scanner, max_rows, max_bytes)
    return [(<Batch>filled[i]).place(scanner) for i in range(count)]


cdef struct Stretch:
    # Consecutive windows of a file, and the batches that take their rows.
    int descriptor
    uint8_t* buffer
    # Size of the buffer; begin and end of the bytes in it, and the file offset of the begin
    int64_t size, begin, end, offset
    int64_t read_to, step
    int64_t plan_count
    void** batches  # by the number of the plan; NULL if there is no batch
    int32_t* plans  # plans that have events in the window, in order of their first events
    int64_t* first_events
    int64_t* last_events
    int32_t found_count
    uint8_t* scratch
    int64_t max_rows, max_bytes, most_open
    int64_t at
    bint is_filled


def fill_windows(EventScanner scanner, batches, int descriptor, uint8_t[::1] buffer, int64_t begin, int64_t end,
                 int64_t offset,
                 int64_t read_to, int64_t step, int64_t max_rows, int64_t max_bytes, int64_t most_open):
    """Scan window after window of a file and fill the open batches without the GIL, while each takes all its rows.

    `batches` has the open batch or None by the number of the plan; all of them together may have up to `most_open`
    bytes of values. `buffer[begin:end]` holds the bytes of the file from `offset` on; the file is read up to the offset
    `read_to`, and after it in steps of `step` bytes.

    Returns (status, scan position, begin, end, offset, places): the first two as `EventScanner.scan` does; `places` has
    by plan the place at which its batch stopped. It is None if a plan of the last window has no batch, so that the rows
    of that window are still to be added. At the end of the file and after a read error all work so far is complete: the
    caller finds the same condition when it continues to read.
    """
    cdef list filled = list(batches)
    cdef Memory memory = Memory()
    cdef Memory scratch = Memory()
    cdef Stretch stretch
    cdef int64_t count = len(filled)
    cdef int64_t scratch_size = 0
    cdef int64_t i
    cdef int status
    stretch.descriptor, stretch.buffer, stretch.size = descriptor, &buffer[0], buffer.shape[0]
    stretch.begin, stretch.end, stretch.offset, stretch.read_to, stretch.step = begin, end, offset, read_to, step
    stretch.max_rows, stretch.max_bytes, stretch.most_open, stretch.plan_count = max_rows, max_bytes, most_open, count
    stretch.batches = <void**>memory.grow(32 * count)
    stretch.first_events = <int64_t*>(stretch.batches + count)
    stretch.last_events = stretch.first_events + count
    stretch.plans = <int32_t*>(stretch.last_events + count)
    for i in range(count):
        stretch.batches[i] = NULL
        if filled[i] is not None:
            scratch_size = max(scratch_size, (<Batch?>filled[i]).scratch_size())
            stretch.batches[i] = <void*>filled[i]
    stretch.scratch = scratch.grow(scratch_size)
    with nogil:
        status = _fill_windows(scanner, &stretch)
    places = [(stretch.plans[i],
               (<Batch>stretch.batches[stretch.plans[i]]).place(scanner)) for i in range(stretch.found_count)]
    return status, stretch.at, stretch.begin, stretch.end, stretch.offset, places if stretch.is_filled else None


cdef int _fill_windows(EventScanner scanner, Stretch* stretch) except -1 nogil:
    cdef int status
    while True:
        stretch.at = 0
        stretch.is_filled = True
        stretch.found_count = 0
        status = scanner.walk(stretch.buffer + stretch.begin, stretch.end - stretch.begin, &stretch.at, stretch.offset,
                              -1)
        if not _find_batches(scanner, stretch):
            stretch.is_filled = False
            stretch.found_count = 0
            return status
        if not _fill_found(scanner, stretch) or status != 0 or scanner.kept_bytes:
            return status
        scanner.drop_events()
        stretch.found_count = 0
        stretch.begin += stretch.at
        stretch.offset += stretch.at
        stretch.at = 0
        if _open_bytes(stretch) > stretch.most_open or not _refill(stretch):
            return status


cdef bint _find_batches(EventScanner scanner, Stretch* stretch) noexcept nogil:
    """Link each event to the next one of its plan; returns False if a plan has no open batch."""
    cdef int64_t number
    cdef RowsEvent* event
    memset(stretch.last_events, 0xFF, 8 * stretch.plan_count)
    for number in range(scanner.event_count):
        event = scanner.events + number
        if event.plan >= stretch.plan_count or stretch.batches[event.plan] == NULL:
            return False
        event.next = scanner.event_count
        if stretch.last_events[event.plan] < 0:
            stretch.plans[stretch.found_count] = event.plan
            stretch.found_count += 1
            stretch.first_events[event.plan] = number
        else:
            scanner.events[stretch.last_events[event.plan]].next = number
        stretch.last_events[event.plan] = number
    return True


cdef int _fill_found(EventScanner scanner, Stretch* stretch) except -1 nogil:
    """Fill the batches that were found; returns whether all of them took all their rows."""
    cdef bint are_done = True
    cdef int32_t i, number
    for i in range(stretch.found_count):
        number = stretch.plans[i]
        (<Batch>stretch.batches[number]).begin_fill(scanner, stretch.scratch, stretch.first_events[number], 0, 0)
        (<Batch>stretch.batches[number]).take_rows(scanner, stretch.max_rows, stretch.max_bytes)
        if not (<Batch>stretch.batches[number]).took_all(scanner):
            are_done = False
    return are_done


cdef int64_t _open_bytes(Stretch* stretch) noexcept nogil:
    cdef int64_t total = 0
    cdef int64_t i
    for i in range(stretch.plan_count):
        if stretch.batches[i] != NULL:
            total += (<Batch>stretch.batches[i]).byte_count()
    return total


cdef bint _refill(Stretch* stretch) noexcept nogil:
    """Read on until the event at the start of the window is complete.

    Returns False if it is larger than the buffer, or the file ends.
    """
    cdef int64_t held = stretch.end - stretch.begin
    cdef int64_t ahead = stretch.read_to - stretch.offset
    cdef int64_t least = HEADER_SIZE
    cdef int64_t room
    cdef Py_ssize_t count
    if held >= HEADER_SIZE:
        least = u32(stretch.buffer + stretch.begin + 9)
        if least > stretch.size:
            return False
    memmove(stretch.buffer, stretch.buffer + stretch.begin, held)
    stretch.begin = 0
    stretch.end = held
    room = min(stretch.size, max(least, ahead if ahead > held else held + stretch.step))
    while stretch.end < room:
        count = read(stretch.descriptor, stretch.buffer + stretch.end, room - stretch.end)
        if count <= 0:
            break
        stretch.end += count
    return stretch.end >= least
