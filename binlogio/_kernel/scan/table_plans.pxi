"""The plans of mapped tables, by table id.

A table map is valid until the end of its statement, and equal bytes have equal plans: Python resolves each different
body once.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from binlogio._kernel.base.cursor cimport little

cdef enum:
    SLOTS = 1024  # slots for table ids; a statement's ids that share a slot are stored in a dict


cdef class TablePlans:
    """All plans so far, and the valid mapping from table ids to plans.

    `resolve_plan` is as in `EventScanner`; `id_size` is the size of a table id in bytes.
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
        """Resolve every table map again, because table definitions have changed."""
        cdef int i
        self.by_body.clear()
        for i in range(SLOTS):
            self.slots[i].size = -1
        return 0

    cdef int renew(self) except -1:
        """As `forget`, but resolve the currently valid table maps at once: a definition changed inside their statement.
        """
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
        """Drop all plans except those of table maps that are valid now.

        Returns the old numbers of the kept plans, in the order of their new numbers.
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
        """Add a plan with the next number."""
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
        """Map a table: the plan is found by id if the bytes have not changed, else by the bytes, else it is resolved.

        Returns False if construct rejects the table map.
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
        """Map a table whose id has no plan for these bytes.

        A separate function, because a function with Python variables acquires the GIL each time it returns.
        """
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
        """Return the plan number for the bytes of a table map; -1 if construct rejects them."""
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
        """End a statement: its table maps become invalid."""
        self.statement += 1
        if self.overflow_count:
            with gil:
                self.overflow.clear()
            self.overflow_count = 0
        return 0

    cdef int32_t plan_of(self, uint64_t table_id) except -2 nogil:
        """Return the plan of a table id in the current statement; NOT_MAPPED if there is none."""
        cdef Slot* slot = self.slots + (table_id & (SLOTS - 1))
        if slot.statement == self.statement and slot.table_id == table_id:
            return slot.plan
        if self.overflow_count == 0:
            return NOT_MAPPED
        with gil:
            return self.overflow.get(table_id, NOT_MAPPED)
