"""Selects rows events by position, time, server, operation and the GTID of the group.

`binlogio.selection.event_filter` is the reference implementation (oracle).
"""

from libc.stdint cimport UINT32_MAX, int64_t, uint32_t
from libc.stdlib cimport free, malloc


cdef class RowChoice:
    """Criteria of a selection.

    Args:
        pos, timestamp, group_time: (start, end), end exclusive; `group_time` is the time of the first event of a group.
        server_ids: a frozenset of selected server ids, or `AllExcept` of one; None for any.
        operations: numbers of the selected operations.
        ask_gtid: predicate as in `GtidChoice`; None for any group.
    """

    def __cinit__(self, pos, timestamp, group_time, server_ids, operations, ask_gtid):
        cdef int64_t i
        self.pos_start, self.pos_end = pos
        self.time_start, self.time_end = timestamp
        self.group_start, self.group_end = group_time
        self.asks_group_time = self.group_start > 0 or self.group_end <= UINT32_MAX
        self.gtids = None if ask_gtid is None else GtidChoice(ask_gtid)
        self.wants_this_group = True
        for operation in operations:
            self.operations |= 1 << <int>operation
        self.server_id_count = -1
        if server_ids is not None:
            self.excludes_servers = not isinstance(server_ids, frozenset)
            if self.excludes_servers:
                server_ids = server_ids.numbers
            self.server_id_count = len(server_ids)
            self.server_ids = <uint32_t*>malloc((self.server_id_count + 1) * sizeof(uint32_t))
            if self.server_ids == NULL:
                raise MemoryError("no memory for server ids")
            for i, number in enumerate(server_ids):
                self.server_ids[i] = number

    def __dealloc__(self):
        free(self.server_ids)

    cdef int begin_group(self, const Group* group) except -1 nogil:
        """Begin the next group."""
        self.wants_this_group = self.group_start <= <int64_t>group.begin_time < self.group_end
        if self.wants_this_group and self.gtids is not None:
            self.wants_this_group = self.gtids.wants(group)
        return 0

    cdef bint wants(self, const RowsEvent* event) noexcept nogil:
        """Return whether an event of the current group is selected."""
        return self.operations >> event.operation & 1 and self.wants_at(event.pos, event.timestamp, event.server_id)

    cdef bint wants_at(self, int64_t pos, uint32_t timestamp, uint32_t server_id) noexcept nogil:
        """As `wants`, for any operation."""
        cdef int64_t i
        if not self.wants_this_group or not self.pos_start <= pos < self.pos_end or (
                not self.time_start <= <int64_t>timestamp < self.time_end):
            return False
        for i in range(self.server_id_count):
            if self.server_ids[i] == server_id:
                return not self.excludes_servers
        return self.excludes_servers or self.server_id_count < 0
