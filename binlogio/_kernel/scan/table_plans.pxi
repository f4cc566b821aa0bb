"""The plans of the tables that table maps define, by table id.

A table map is valid up to the end of its statement, and equal bytes make equal plans: Python resolves each different
body once.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from binlogio._kernel.base.cursor cimport little

cdef enum:
    SLOTS = 1024  # of table ids; those of a statement that share one are looked up in a dict


cdef class TablePlans:
    """All plans so far, and which ids have one now.

    `resolve_plan` as in `EventScanner`; `id_size` is that of a table id, in bytes.
    """

    def __cinit__(self, resolve_plan):
        self.resolve_plan = resolve_plan
        self.plans = []
        self.by_body, self.by_plan, self.by_table, self.overflow = {}, {}, {}, {}
        self.statement = 1
        self.id_size = 6
        self.slots = <Slot*>calloc(SLOTS, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError("no memory for the table maps")

    def __dealloc__(self):
        cdef int i
        if self.slots != NULL:
            for i in range(SLOTS):
                free(self.slots[i].body)
        free(self.slots)
        free(self.cores)

    cdef int forget(self) except -1:
        """Resolve every table map again: the tables' definitions have changed."""
        cdef int i
        self.by_body.clear()
        for i in range(SLOTS):
            self.slots[i].size = -1
        return 0

    cdef int renew(self) except -1:
        """As `forget`; table maps that are valid now, before a statement of theirs ends, get their new plans at once."""
        cdef int i
        cdef bytes body
        cdef const uint8_t* start
        self.by_body.clear()
        for i in range(SLOTS):
            if self.slots[i].body == NULL or self.slots[i].size < 0 or self.slots[i].statement != self.statement:
                self.slots[i].size = -1
                continue
            body = self.slots[i].table_id.to_bytes(self.id_size, "little")
            body += (<const char*>self.slots[i].body)[:self.slots[i].size]
            start = body
            number = self._plan_number(start + self.id_size, self.slots[i].size, start)
            if number < 0:
                self.slots[i].size = -1
                self.slots[i].statement = 0
            else:
                self.slots[i].plan = number
        return 0

    cdef list keep_valid(self):
        """Drop all plans but those of table maps that are valid now.

        Returns the old numbers of these, in the order of their new ones.
        """
        cdef int i
        cdef dict kept = {}
        for i in range(SLOTS):
            if self.slots[i].body != NULL and self.slots[i].statement == self.statement:
                self.slots[i].plan = kept.setdefault(self.slots[i].plan, len(kept))
            else:
                self.slots[i].size = -1
        self.overflow = {table_id: kept.setdefault(number, len(kept)) for table_id, number in self.overflow.items()}
        self.by_body.clear()
        self.by_plan.clear()
        self.by_table.clear()
        plans, self.plans = self.plans, []
        for number in kept:
            self._add(plans[number])
        return list(kept)

    cdef int _add(self, plan) except -1:
        """Add a plan, with a number of its own."""
        cdef int32_t number = len(self.plans)
        self.cores = <Plan**>realloc(self.cores, (number + 1) * sizeof(void*))
        if self.cores == NULL:
            raise MemoryError("no memory for another table")
        self.plans.append(plan)
        self.by_plan[plan] = number
        self.cores[number] = &(<ImagePlan?>plan).core
        table = (<ImagePlan>plan).table
        name = None if table is None else (table.schema, table.table)
        self.cores[number].table_number = self.by_table.setdefault(name, len(self.by_table))
        return 0

    cdef bint take(self, const uint8_t* body, const uint8_t* end) except -1 nogil:
        """Find the plan for a table map: by id if the bytes are the same as before, else by the bytes, else a new one.

        False if construct refuses it.
        """
        cdef uint64_t table_id
        cdef Slot* slot
        cdef const uint8_t* rest = body + self.id_size
        cdef int64_t size = end - rest
        if size < 6:
            return False
        table_id = little(body, self.id_size)
        slot = self.slots + (table_id & (SLOTS - 1))
        if slot.body != NULL and slot.table_id == table_id and slot.size == size and memcmp(slot.body, rest, size) == 0:
            slot.statement = self.statement
            return True
        return self._take_new(table_id, rest, size, body)

    cdef bint _take_new(self, uint64_t table_id, const uint8_t* rest, int64_t size,
                        const uint8_t* body) except -1 with gil:
        """Take a table map that was not seen before.

        A function of its own, since one with Python variables takes the lock each time it returns."""
        cdef Slot* slot = self.slots + (table_id & (SLOTS - 1))
        cdef void* copy
        plan = self._plan_number(rest, size, body)
        if plan < 0:
            return False
        if slot.statement == self.statement and slot.table_id != table_id:
            self.overflow[table_id] = plan
            self.overflow_count += 1
            return True
        copy = realloc(slot.body, size)
        if copy == NULL:
            raise MemoryError("no memory for a table map")
        slot.body = <uint8_t*>copy
        memcpy(slot.body, rest, size)
        slot.size = size
        slot.table_id = table_id
        slot.statement = self.statement
        slot.plan = plan
        self.overflow.pop(table_id, None)
        return True

    cdef object _plan_number(self, const uint8_t* rest, int64_t size, const uint8_t* body):
        """Return the plan of a table map's bytes; -1 where construct refuses them, which the caller then tells."""
        key = <bytes>(<const char*>rest)[:size]
        number = self.by_body.get(key)
        if number is None:
            plan = self.resolve_plan(<bytes>(<const char*>body)[:size + (rest - body)])
            if plan is None:
                return -1
            if plan not in self.by_plan:
                self._add(plan)
            number = self.by_body[key] = self.by_plan[plan]
        return number

    cdef int end_statement(self) except -1 nogil:
        """End a statement: its table maps are no longer valid."""
        self.statement += 1
        if self.overflow_count:
            with gil:
                self.overflow.clear()
            self.overflow_count = 0
        return 0

    cdef int32_t plan_of(self, uint64_t table_id) except -2 nogil:
        """Return the plan that a table id has in this statement; NOT_MAPPED where it has none."""
        cdef Slot* slot = self.slots + (table_id & (SLOTS - 1))
        if slot.statement == self.statement and slot.table_id == table_id:
            return slot.plan
        if self.overflow_count == 0:
            return NOT_MAPPED
        with gil:
            return self.overflow.get(table_id, NOT_MAPPED)
