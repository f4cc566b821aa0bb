"""Builds MySQL's binary JSON from JSON text, identical to what the server builds from that text.

`binlogio.values.json.text.node_from_text` and `build_json` are the reference implementation (oracle). Text that this
module rejects is left to them: invalid JSON, and rare cases (deep nesting, unpaired surrogates, numbers out of range).

Members of an object are sorted by the length of their names, then by bytes; of several members with the same name the
last one is kept.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy

from binlogio._kernel.base.event_bytes cimport put_little
from binlogio._kernel.base.utf8 cimport put_utf8
from binlogio._kernel.json.strings cimport escape_bits, trailing_zeros
from binlogio._kernel.json.tokens cimport json_escaped, json_hex4, json_number

cdef enum:
    MAX_SMALL = 0xFFFF
    MAX_KEY = 0xFFFF


cdef bint _room(void** block, int64_t* room, int64_t wanted, int64_t item) noexcept nogil:
    """Make room for `wanted` items; returns False if there is no memory."""
    cdef int64_t more
    cdef void* moved
    if wanted <= room[0]:
        return True
    more = max(wanted, 2 * room[0], <int64_t>64)
    moved = PyMem_RawRealloc(block[0], more * item)
    if moved == NULL:
        return False
    block[0] = moved
    room[0] = more
    return True


cdef inline int _inline_size(uint8_t kind) noexcept nogil:
    """Return the size of a value that can be inlined in its entry; 9 if it cannot."""
    if kind == LITERAL or kind == INT16:
        return 2
    return 4 if kind == INT32 else 9


cdef inline uint8_t* _put(uint8_t* out, uint64_t value, int width) noexcept nogil:
    """Write 2 or 4 bytes; there must be room for 4."""
    memcpy(out, &value, 4)
    return out + width


cdef inline void _skip_space(const uint8_t** at, const uint8_t* end) noexcept nogil:
    cdef const uint8_t* p = at[0]
    while p < end and p[0] <= 0x20 and (p[0] == 0x20 or p[0] == 0x0A or p[0] == 0x0D or p[0] == 0x09):
        p += 1
    at[0] = p


cdef class JsonBuilder:
    """Builds documents one after the other and reuses its memory. It is used by one thread at a time."""

    def __dealloc__(self):
        PyMem_RawFree(self.nodes)
        PyMem_RawFree(self.order)
        PyMem_RawFree(self.open)
        PyMem_RawFree(self.spare)
        PyMem_RawFree(self.plain)

    cdef uint8_t* build(self, const uint8_t* text, int64_t size, uint8_t* out) noexcept nogil:
        """Write the document of a text, which must be valid UTF-8; there must be room for `4 * size + 64` bytes.

        Returns the end, or NULL if the text is rejected.
        """
        cdef int64_t root
        self.node_count = self.order_count = self.open_count = self.plain_size = 0
        self.at, self.end = text, text + size
        if not _room(<void**>&self.plain, &self.plain_room, size + 1, 1):
            return NULL
        root = self._value(0)
        if root < 0:
            return NULL
        _skip_space(&self.at, self.end)
        if self.at != self.end:
            return NULL
        out[0] = self.nodes[root].kind
        return self._write(root, out + 1)

    cdef int64_t _new_node(self) noexcept nogil:
        if not _room(<void**>&self.nodes, &self.node_room, self.node_count + 1, sizeof(Node)):
            return -1
        self.node_count += 1
        return self.node_count - 1

    cdef int64_t _value(self, int depth) noexcept nogil:
        """Read a value; returns the index of its node, or -1 if it is rejected."""
        cdef int64_t number
        cdef Node* node
        cdef int64_t size
        _skip_space(&self.at, self.end)
        if self.at >= self.end:
            return -1
        if self.at[0] == c"{":
            return self._container(depth, True)
        if self.at[0] == c"[":
            return self._container(depth, False)
        number = self._new_node()
        if number < 0:
            return -1
        node = self.nodes + number
        if self.at[0] == c'"':
            if not self._string(&node.text, &node.text_size):
                return -1
            node.kind = STRING
            node.size = 1 + node.text_size
            size = node.text_size
            while size > 0x7F:
                node.size += 1
                size >>= 7
            return number
        if self.at[0] == c"-" or c"0" <= self.at[0] <= c"9":
            return number if json_number(node, &self.at, self.end) else -1
        return number if self._literal(node) else -1

    cdef bint _literal(self, Node* node) noexcept nogil:
        cdef int64_t left = self.end - self.at
        node.kind = LITERAL
        node.size = 1
        if left >= 4 and memcmp(self.at, b"null", 4) == 0:
            node.number = 0
            self.at += 4
        elif left >= 4 and memcmp(self.at, b"true", 4) == 0:
            node.number = 1
            self.at += 4
        elif left >= 5 and memcmp(self.at, b"false", 5) == 0:
            node.number = 2
            self.at += 5
        else:
            return False
        return True

    cdef bint _string(self, const uint8_t** text, int64_t* size) noexcept nogil:
        """Read a string; it is copied only if it has escapes."""
        cdef const uint8_t* p = self.at + 1
        cdef const uint8_t* start = p
        cdef uint8_t* out
        cdef int64_t code, second
        cdef uint64_t word
        while self.end - p >= 8:
            memcpy(&word, p, 8)
            word = escape_bits(word)
            if word:
                p += trailing_zeros(word) >> 3
                break
            p += 8
        while p < self.end and p[0] != c'"' and p[0] != c"\\":
            if p[0] < 0x20:
                return False
            p += 1
        if p >= self.end:
            return False
        if p[0] == c'"':
            text[0] = start
            size[0] = p - start
            self.at = p + 1
            return True
        text[0] = self.plain + self.plain_size
        out = self.plain + self.plain_size
        memcpy(out, start, p - start)
        out += p - start
        while p < self.end and p[0] != c'"':
            if p[0] < 0x20:
                return False
            if p[0] != c"\\":
                out[0] = p[0]
                out += 1
                p += 1
                continue
            if self.end - p < 2:
                return False
            if p[1] == c"u":
                code = json_hex4(p + 2, self.end)
                p += 6
                if 0xD800 <= code < 0xDC00 and self.end - p >= 6 and p[0] == c"\\" and p[1] == c"u":
                    second = json_hex4(p + 2, self.end)
                    if not 0xDC00 <= second < 0xE000:
                        return False
                    code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00)
                    p += 6
                if code < 0 or 0xD800 <= code < 0xE000:
                    return False
                out = put_utf8(out, <uint32_t>code)
                continue
            out[0] = json_escaped(p[1])
            if out[0] == 0:
                return False
            out += 1
            p += 2
        if p >= self.end:
            return False
        self.at = p + 1
        size[0] = out - text[0]
        self.plain_size += size[0]
        return True

    cdef int64_t _container(self, int depth, bint has_keys) noexcept nogil:
        cdef int64_t number = self._new_node()
        cdef int64_t first = self.open_count
        cdef int64_t member
        cdef const uint8_t* key = NULL
        cdef int64_t key_size = 0
        cdef uint8_t closing = c"}" if has_keys else c"]"
        if number < 0 or depth >= MAX_DEPTH:
            return -1
        self.at += 1
        _skip_space(&self.at, self.end)
        if self.at < self.end and self.at[0] == closing:
            self.at += 1
            return number if self._close(self.nodes + number, first, has_keys) else -1
        while True:
            if has_keys:
                _skip_space(&self.at, self.end)
                if self.at >= self.end or self.at[0] != c'"' or not self._string(&key, &key_size) or key_size > MAX_KEY:
                    return -1
                _skip_space(&self.at, self.end)
                if self.at >= self.end or self.at[0] != c":":
                    return -1
                self.at += 1
            member = self._value(depth + 1)
            if member < 0 or not _room(<void**>&self.open, &self.open_room, self.open_count + 1, 8):
                return -1
            self.nodes[member].key = key
            self.nodes[member].key_size = key_size
            self.open[self.open_count] = member
            self.open_count += 1
            _skip_space(&self.at, self.end)
            if self.at >= self.end:
                return -1
            if self.at[0] == closing:
                self.at += 1
                return number if self._close(self.nodes + number, first, has_keys) else -1
            if self.at[0] != c",":
                return -1
            self.at += 1

    cdef bint _close(self, Node* node, int64_t first, bint has_keys) noexcept nogil:
        """Sort the members of a complete container and compute its size; False if memory or the size limit is exceeded.
        """
        cdef int64_t count = self.open_count - first
        cdef int64_t* numbers = self.open + first
        cdef int64_t i, kept, names = 0, small_rest = 0, large_rest = 0
        cdef Node* member
        if has_keys and count > 1:
            if not self._sort(numbers, count):
                return False
            kept = 0
            for i in range(count):
                if i + 1 < count and _compare_keys(self.nodes + numbers[i], self.nodes + numbers[i + 1]) == 0:
                    continue
                numbers[kept] = numbers[i]
                kept += 1
            count = kept
        if not _room(<void**>&self.order, &self.order_room, self.order_count + count, 8):
            return False
        for i in range(count):
            member = self.nodes + numbers[i]
            self.order[self.order_count + i] = numbers[i]
            names += member.key_size if has_keys else 0
            if _inline_size(member.kind) > 2:
                small_rest += member.size
            if _inline_size(member.kind) > 4:
                large_rest += member.size
        node.members = self.order_count
        node.count = count
        self.order_count += count
        self.open_count = first
        node.size = 4 + 3 * count + (4 * count if has_keys else 0) + names + small_rest
        node.kind = SMALL_OBJECT if has_keys else SMALL_ARRAY
        if node.size > MAX_SMALL:
            node.size = 8 + 5 * count + (6 * count if has_keys else 0) + names + large_rest
            node.kind = LARGE_OBJECT if has_keys else LARGE_ARRAY
        return node.size <= 0xFFFFFFFFLL

    cdef bint _sort(self, int64_t* numbers, int64_t count) noexcept nogil:
        """Sort members by their keys, stably: insertion sort for up to 16, else merge sort."""
        cdef int64_t i, j, number, width, left, middle, right, end, out
        cdef int64_t* source
        cdef int64_t* target
        cdef int64_t* swap
        if count <= 16:
            for i in range(1, count):
                number = numbers[i]
                j = i
                while j > 0 and _compare_keys(self.nodes + numbers[j - 1], self.nodes + number) > 0:
                    numbers[j] = numbers[j - 1]
                    j -= 1
                numbers[j] = number
            return True
        if not _room(<void**>&self.spare, &self.spare_room, count, 8):
            return False
        source, target = numbers, self.spare
        width = 1
        while width < count:
            left = 0
            while left < count:
                middle = min(left + width, count)
                end = min(left + 2 * width, count)
                right, i = middle, left
                for out in range(left, end):
                    if i < middle and (right >= end or _compare_keys(
                            self.nodes + source[i], self.nodes + source[right]) <= 0):
                        target[out] = source[i]
                        i += 1
                    else:
                        target[out] = source[right]
                        right += 1
                left = end
            swap = source
            source = target
            target = swap
            width *= 2
        if source != numbers:
            memcpy(numbers, source, 8 * count)
        return True

    cdef uint8_t* _write(self, int64_t number, uint8_t* out) noexcept nogil:
        """Write the bytes of a value without its type byte; returns the end."""
        cdef Node* node = self.nodes + number
        cdef Node* member
        cdef int width
        cdef bint has_keys
        cdef int64_t i, offset, size
        if node.kind == STRING:
            size = node.text_size
            while size > 0x7F:
                out[0] = <uint8_t>(size & 0x7F | 0x80)
                size >>= 7
                out += 1
            out[0] = <uint8_t>size
            memcpy(out + 1, node.text, node.text_size)
            return out + 1 + node.text_size
        if node.kind >= LITERAL:
            return put_little(out, node.number, <int>node.size)
        width = 2 if node.kind == SMALL_OBJECT or node.kind == SMALL_ARRAY else 4
        has_keys = node.kind == SMALL_OBJECT or node.kind == LARGE_OBJECT
        out = _put(_put(out, node.count, width), node.size, width)
        offset = 2 * width + (1 + width) * node.count
        if has_keys:
            offset += (width + 2) * node.count
            for i in range(node.count):
                member = self.nodes + self.order[node.members + i]
                out = _put(_put(out, offset, width), member.key_size, 2)
                offset += member.key_size
        for i in range(node.count):
            member = self.nodes + self.order[node.members + i]
            out[0] = member.kind
            if _inline_size(member.kind) <= width:
                out = _put(out + 1, member.number, width)
            else:
                out = _put(out + 1, offset, width)
                offset += member.size
        if has_keys:
            for i in range(node.count):
                member = self.nodes + self.order[node.members + i]
                memcpy(out, member.key, member.key_size)
                out += member.key_size
        for i in range(node.count):
            member = self.nodes + self.order[node.members + i]
            if _inline_size(member.kind) > width:
                out = self._write(self.order[node.members + i], out)
        return out


cdef int _compare_keys(const Node* a, const Node* b) noexcept nogil:
    if a.key_size != b.key_size:
        return -1 if a.key_size < b.key_size else 1
    return memcmp(a.key, b.key, a.key_size)
