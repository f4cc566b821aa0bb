"""Events that begin a group: GTID, ANONYMOUS_GTID and tagged GTID of MySQL, GTID of MariaDB.

`read_group` parses the fields that every record has, and validates the rest; `gtid_fields` parses the rest.
`binlogio.events.gtid` has the layouts and is the reference implementation (oracle).
"""

from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from binlogio._kernel.base.cursor cimport lenenc, little, u16, u32, u64, varlen
from binlogio._kernel.base.digits cimport put_unsigned
from binlogio._kernel.base.event_bytes cimport varlen_size
from binlogio._kernel.base.event_codes cimport ANONYMOUS_GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT, MARIADB_GTID_EVENT
from binlogio._kernel.base.hex_digits cimport put_uuid

cdef enum:
    MARIADB_GTID_SIZE = 8 + 4 + 1 + 6  # bytes; the server pads shorter bodies with zeros

cdef uint64_t GNO_END = 0x7FFFFFFFFFFFFFFFULL


cdef bint read_group(Group* group, uint8_t code, const uint8_t* header, const uint8_t* body,
                     const uint8_t* end) noexcept nogil:
    """Set `group` from the body of the event; returns False if it is malformed."""
    group.kind = NO_GTID
    group.tag_size = 0
    group.domain_id = group.server_id = 0
    memset(group.uuid, 0, sizeof(group.uuid))
    group.last_committed = -1
    group.sequence_number = -1
    group.committed_us = -1
    if code == GTID_TAGGED_LOG_EVENT:
        return _tagged(group, body, end)
    if code == MARIADB_GTID_EVENT:
        return _mariadb(group, header, body, end)
    if not _mysql(group, body, end):
        return False
    if code == ANONYMOUS_GTID_LOG_EVENT:
        group.kind = NO_GTID
        return group.number == 0
    return 0 < group.number < GNO_END


cdef int put_gtid(uint8_t* to, const Group* group) noexcept nogil:
    """Write `uuid:n`, `uuid:tag:n`, or MariaDB's `domain-server-n`; `to` must have `GTID_TEXT` bytes.

    Returns the number of bytes, 0 if the group has no GTID.
    """
    cdef uint8_t* at = to
    if group.kind == MYSQL_GTID:
        at = put_uuid(at, group.uuid)
        at[0] = 58
        at += 1
        if group.tag_size:
            memcpy(at, group.tag, group.tag_size)
            at += group.tag_size
            at[0] = 58
            at += 1
        at = put_unsigned(at, group.number)
    elif group.kind == MARIADB_GTID:
        at = put_unsigned(at, group.domain_id)
        at[0] = 45
        at = put_unsigned(at + 1, group.server_id)
        at[0] = 45
        at = put_unsigned(at + 1, group.number)
    return <int>(at - to)


cdef object gtid_of(const Group* group):
    """Return the GTID as text; None if the group has none."""
    cdef uint8_t[GTID_TEXT] text
    cdef int size = put_gtid(text, group)
    return (<const char*>text)[:size].decode("latin-1") if size else None


cdef class GtidChoice:
    """Selects event groups by GTID. Calls `ask` once per range of numbers of a source that have the same answer.

    Args:
        ask: function from a GTID as text, or None, to whether its group is selected, and the first and the last number
            of its source around it that have the same answer.
    """

    def __cinit__(self, ask not None):
        self.ask = ask

    cdef bint wants(self, const Group* group) except -1 nogil:
        cdef GtidRun* run = self.runs + (group.uuid[0] ^ group.uuid[15] ^ group.tag_size ^ group.domain_id
                                         ^ group.server_id) % GTID_SOURCES
        if run.is_known and is_same_source(&run.source, group) and (
                group.kind == NO_GTID or run.first <= group.number <= run.last):
            return run.wanted
        return self._ask(run, group)

    cdef bint _ask(self, GtidRun* run, const Group* group) except -1 with gil:
        wanted, first, last = self.ask(gtid_of(group))
        run.source, run.first, run.last, run.wanted, run.is_known = group[0], first, last, wanted, True
        return run.wanted


cdef bint _mysql(Group* group, const uint8_t* body, const uint8_t* end) noexcept nogil:
    if end - body < 25:
        return False
    if end - body >= 26 and body[25] == 2 and (end - body < 42 or not _clock_fits(body + 42, end)):
        return False
    group.kind = MYSQL_GTID
    memcpy(group.uuid, body + 1, 16)
    group.number = u64(body + 17)
    if end - body >= 42 and body[25] == 2:
        group.last_committed = <int64_t>u64(body + 26)
        group.sequence_number = <int64_t>u64(body + 34)
        if end - body >= 49:
            group.committed_us = <int64_t>(
                u32(body + 42) | <uint64_t>u16(body + 46) << 32 | <uint64_t>(body[48] & 0x7F) << 48)
    return True


cdef bint _tagged(Group* group, const uint8_t* body, const uint8_t* end) noexcept nogil:
    """Parse fields in the order of their ids, each preceded by its id; three of them are optional."""
    cdef const uint8_t* at = body
    cdef const uint8_t* before
    cdef uint64_t value = 0
    cdef uint64_t size = 0
    cdef uint64_t last = 0
    cdef int i, field
    group.kind = MYSQL_GTID
    if not varlen(&at, end, &value) or value != 1 or not varlen(&at, end, &size) or not varlen(&at, end,
                                                                                               &last) or last > 12:
        return False
    if size != <uint64_t>(end - at) + 1 + varlen_size(end - at) + varlen_size(last):
        return False
    for field in range(12):
        before = at
        if at == end or not varlen(&at, end, &value) or value != <uint64_t>field:
            if field == 7 or field >= 10:
                if before != end and at == before:
                    return False
                at = before
                continue
            return False
        if field == 1:
            for i in range(16):
                if not varlen(&at, end, &value) or value > 255:
                    return False
                group.uuid[i] = <uint8_t>value
            continue
        if not varlen(&at, end, &value):
            return False
        if field == 0 and value > 255 or (field == 9 or field == 10) and value >> 32:
            return False
        if field == 2:
            group.number = value >> 1
            if value & 1 or not 0 < group.number < GNO_END:
                return False
        elif field == 3:
            if <uint64_t>(end - at) < value or not _is_tag(at, value):
                return False
            group.tag_size = <uint8_t>value
            memcpy(group.tag, at, value)
            at += value
        elif field == 4:
            group.last_committed = <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
        elif field == 5:
            group.sequence_number = <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
        elif field == 6:
            group.committed_us = <int64_t>value
    if at != end and (not varlen(&at, end, &value) or value <= 11):
        return False
    return True


cdef bint _mariadb(Group* group, const uint8_t* header, const uint8_t* body, const uint8_t* end) noexcept nogil:
    if end - body < MARIADB_GTID_SIZE or not _mariadb_fits(body + 13, end, body[12]):
        return False
    group.kind = MARIADB_GTID
    group.number = u64(body)
    group.domain_id = u32(body + 8)
    group.server_id = u32(header + 5)
    return True


cdef bint _clock_fits(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Return whether the fields after the logical clock are complete; each may be missing together with all after it.
    """
    cdef uint64_t length = 0
    if at == end:
        return True
    if end - at < 7 or at[6] & 0x80 and end - at < 14:
        return False
    at += 14 if at[6] & 0x80 else 7  # immediate and original commit timestamp
    if at == end:
        return True
    if not lenenc(&at, end, &length):
        return False
    if at == end:
        return True
    if end - at < 4 or at[3] & 0x80 and end - at < 8:
        return False
    at += 8 if at[3] & 0x80 else 4  # immediate and original server version
    return at == end or end - at >= 8


cdef bint _is_tag(const uint8_t* at, uint64_t size) noexcept nogil:
    """Return whether it is a valid tag: small letters, digits and underscores, with no digit in front."""
    cdef uint64_t i
    if size > 32:
        return False
    for i in range(size):
        if not (97 <= at[i] <= 122 or at[i] == 95 or 48 <= at[i] <= 57 and i):
            return False
    return True


cdef bint _mariadb_fits(const uint8_t* at, const uint8_t* end, uint8_t flags) noexcept nogil:
    """Return whether the fields announced by the flags of MariaDB's GTID event are complete: commit id, XA name, ..."""
    cdef int64_t size = 0
    cdef uint8_t extra
    if flags & 2:
        size = 8
    if flags & 0xC0:
        if end - at < size + 6:
            return False
        size += 6 + at[size + 4] + at[size + 5]
    if end - at < size:
        return False
    at += size
    if at == end or at[0] == 0:
        return True
    extra = at[0]
    size = 1 + (1 if extra & 1 else 0) + (8 if extra & 0xC else 0) + (4 if extra & 0x10 else 0)
    return end - at >= size


cdef bint gtid_fields(GtidFields* fields, uint8_t code, const uint8_t* body, const uint8_t* end) noexcept nogil:
    """Parse the fields that `read_group` only validates; returns False if there are bytes that belong to no field."""
    memset(fields, 0, sizeof(GtidFields))
    if code == GTID_TAGGED_LOG_EVENT:
        return _tagged_fields(fields, body, end)
    if code == MARIADB_GTID_EVENT:
        return _mariadb_fields(fields, body, end)
    fields.flags = body[0]
    body += 25
    if body == end:
        return True
    if body[0] != 2 or end - body < 17:
        return False
    fields.has_clock = True
    body += 17
    if body == end:
        return True
    if end - body < 7:
        return False
    fields.has_immediate = True
    fields.has_original = body[6] >> 7
    fields.immediate = little(body, 7) & ((<uint64_t>1 << 55) - 1)
    body += 7
    if fields.has_original:
        if end - body < 7:
            return False
        fields.original = little(body, 7)
        body += 7
    if body == end:
        return True
    if not lenenc(&body, end, &fields.length):
        return False
    fields.has_length = True
    if body == end:
        return True
    if end - body < 4:
        return False
    fields.has_version = True
    fields.has_original_version = body[3] >> 7
    fields.version = u32(body) & 0x7FFFFFFF
    body += 4
    if fields.has_original_version:
        if end - body < 4:
            return False
        fields.original_version = u32(body)
        body += 4
    if body == end:
        return True
    if end - body != 8:
        return False
    fields.has_ticket = True
    fields.ticket = u64(body)
    return True


cdef bint _tagged_fields(GtidFields* fields, const uint8_t* at, const uint8_t* end) noexcept nogil:
    cdef const uint8_t* before
    cdef uint64_t value = 0
    cdef int i, field
    fields.has_clock = fields.has_immediate = fields.has_length = fields.has_version = True
    if not (varlen(&at, end, &value) and varlen(&at, end, &value) and varlen(&at, end, &fields.last_non_ignorable)):
        return False
    for field in range(12):
        before = at
        if at == end or not varlen(&at, end, &value) or value != <uint64_t>field:
            at = before
            continue
        if field == 1:
            for i in range(16):
                varlen(&at, end, &value)
            continue
        if not varlen(&at, end, &value):
            return False
        if field == 0:
            fields.flags = <uint8_t>value
        elif field == 3:
            at += value
        elif field == 6:
            fields.immediate = value
        elif field == 7:
            fields.has_original, fields.original = True, value
        elif field == 8:
            fields.length = value
        elif field == 9:
            fields.version = <uint32_t>value
        elif field == 10:
            fields.has_original_version, fields.original_version = True, <uint32_t>value
        elif field == 11:
            fields.has_ticket, fields.ticket = True, value
    return at == end


cdef bint _mariadb_fields(GtidFields* fields, const uint8_t* body, const uint8_t* end) noexcept nogil:
    cdef const uint8_t* at = body + 13
    fields.flags = body[12]
    fields.has_commit_id = fields.flags & 2
    if fields.has_commit_id:
        if end - at < 8:
            return False
        fields.commit_id = u64(at)
        at += 8
    if fields.flags & 0xC0:
        if end - at < 6 or end - at < 6 + at[4] + at[5]:
            return False
        at += 6 + at[4] + at[5]
    fields.flags_extra = 0
    if at < end and at[0]:
        fields.flags_extra = at[0]
        at += 1
    fields.has_engines = fields.flags_extra & 1
    fields.has_start = fields.flags_extra & 0xC
    fields.has_thread = fields.flags_extra & 0x10
    if end - at < (1 if fields.has_engines else 0) + (8 if fields.has_start else 0) + (4 if fields.has_thread else 0):
        return False
    if fields.has_engines:
        fields.engines = at[0]
        at += 1
    if fields.has_start:
        fields.start = u64(at)
        at += 8
    if fields.has_thread:
        fields.thread_id = u32(at)
        at += 4
    if end - body != max(at - body, MARIADB_GTID_SIZE):
        return False
    while at < end:
        if at[0]:
            return False
        at += 1
    return True
