"""Applies JSON diffs to a document without a tree: values are cut out of, and inserted into, the document's text.

`binlogio.values.json.diff` has the grammar and is the reference implementation (oracle). Rare cases are left to it
(names with escapes, objects that are not in the server's order, paths that do not fit), and so are errors.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t
from libc.string cimport memchr, memcmp, memcpy, memmove

from binlogio._kernel.base.cursor cimport lenenc
from binlogio._kernel.primitives cimport MOST_TEXT, Memory, is_utf8

cdef enum:
    MAX_KEY_BYTES = 0xFFFF
    MAX_INDEX_DIGITS = 10
    NAME = -1  # a path leg that is a name, not an index
    NO_LEG = -2  # invalid or unsupported path leg


cdef class JsonPatcher:
    """Applies diffs to documents, and reuses its memory from one document to the next."""

    def __cinit__(self):
        self.text, self.next_text, self.value = Memory(), Memory(), Memory()

    cdef int apply(self, const uint8_t* document, int64_t size, const uint8_t* diffs,
                   int64_t diffs_size) except -1 nogil:
        """Set `text` to the text of the document after the diffs; 0 if the reference implementation must decide."""
        cdef const uint8_t* end = diffs + diffs_size
        cdef const uint8_t* path
        cdef uint64_t path_size = 0
        cdef uint64_t value_size = 0
        cdef int operation
        self.text.size = 0
        if diffs_size == 0:
            return append_json(self.text, document, size)
        if size == 0 or not append_sorted_json(self.text, document, size):
            return 0
        while diffs < end:
            operation = diffs[0]
            diffs += 1
            if operation > REMOVE or not lenenc(&diffs, end, &path_size) or path_size > <uint64_t>(end - diffs):
                return 0
            path = diffs
            diffs += path_size
            self.value.size = 0
            if operation != REMOVE:
                if not lenenc(&diffs, end, &value_size) or value_size == 0 or value_size > <uint64_t>(end - diffs):
                    return 0
                if not append_sorted_json(self.value, diffs, <int64_t>value_size):
                    return 0
                diffs += value_size
            if not self._apply_one(operation, path, <int64_t>path_size):
                return 0
        return 1

    cdef int _apply_one(self, int operation, const uint8_t* path, int64_t size) except -1 nogil:
        cdef const uint8_t* end = path + size
        cdef const uint8_t* at = self.text.data
        cdef const uint8_t* container = NULL
        cdef const uint8_t* name = NULL
        cdef const uint8_t* found
        cdef const uint8_t* tail
        cdef int64_t name_size = 0
        cdef int64_t leg
        cdef int depth = _brackets(self.value)
        if size == 0 or path[0] != 36 or not is_utf8(path, size):
            return 0
        path += 1
        if path == end:
            return operation == REPLACE and self._splice(at, self.text.data + self.text.size, False, False)
        while True:
            leg = _leg(&path, end, &name, &name_size)
            depth += 1
            if leg == NO_LEG or depth > MAX_DEPTH:
                return 0
            container = at
            found = _diffed_member(container, name, name_size) if leg == NAME else _element(container, leg)
            if path == end:
                break
            if found == NULL:
                return 0
            at = found
        if operation == INSERT:
            if found != NULL and leg == NAME:
                return 0
            return self._insert(container, name, name_size, leg)
        if found == NULL:
            return 0
        tail = _behind_value(found)
        if operation == REPLACE:
            return self._splice(found, tail, False, False)
        if leg == NAME:
            found -= name_size + 4  # the name in quotes, a colon and a space
        if tail[0] == 44:
            tail += 2  # the next member takes its place
        elif (found - 1)[0] == 32:
            found -= 2
        return self._splice(found, tail, False, False)

    cdef int _insert(self, const uint8_t* container, const uint8_t* name, int64_t size, int64_t index) except -1 nogil:
        """Insert the value into an array before element `index`, or into an object at the sorted position of its name.
        """
        cdef const uint8_t* at = container + 1
        cdef const uint8_t* key_end
        cdef int64_t key_size
        if index != NAME:
            if container[0] != 91:
                return 0
            if at[0] == 93:
                return self._splice(at, at, False, False)
            while index:
                at = _behind_value(at)
                if at[0] != 44:
                    return self._splice(at, at, True, False)
                at += 2
                index -= 1
            return self._splice(at, at, False, True)
        if container[0] != 123 or size > MAX_KEY_BYTES:
            return 0
        if at[0] == 125:
            return self._put_member(at, name, size, True, True)
        while True:
            key_end = _behind_string(at) - 1
            key_size = key_end - at - 1
            if memchr(at + 1, 92, key_size) != NULL:
                return 0
            if key_size > size or (key_size == size and memcmp(at + 1, name, size) > 0):
                return self._put_member(at, name, size, True, False)
            at = _behind_value(key_end + 3)
            if at[0] != 44:
                return self._put_member(at, name, size, False, True)
            at += 2

    cdef int _put_member(self, const uint8_t* at, const uint8_t* name, int64_t size, bint is_first,
                         bint is_last) except -1 nogil:
        """Insert a name and the value at `at` in an object.

        A comma is written before the member unless `is_first`, and after it unless `is_last`.
        """
        cdef int64_t value_size = self.value.size
        cdef int64_t head = size + 4
        cdef uint8_t* to
        self.value.grow(head)
        to = self.value.data
        memmove(to + head, to, value_size)
        to[0] = 34
        memcpy(to + 1, name, size)
        memcpy(to + 1 + size, b'": ', 3)
        return self._splice(at, at, not is_first, not is_last)

    cdef int _splice(self, const uint8_t* begin, const uint8_t* end, bint comma_before,
                     bint comma_after) except -1 nogil:
        """Replace the text from `begin` to `end` by the value, with a comma before or after it."""
        cdef int64_t head = begin - self.text.data
        cdef int64_t tail = self.text.data + self.text.size - end
        cdef uint8_t* to
        self.next_text.size = 0
        to = self.next_text.grow(head + self.value.size + tail + 4)
        memcpy(to, self.text.data, head)
        to += head
        if comma_before:
            memcpy(to, b", ", 2)
            to += 2
        if self.value.size:
            memcpy(to, self.value.data, self.value.size)
            to += self.value.size
        if comma_after:
            memcpy(to, b", ", 2)
            to += 2
        memcpy(to, end, tail)
        self.next_text.size = to + tail - self.next_text.data
        _swap(self.text, self.next_text)
        return 1


cdef void _swap(Memory one, Memory other) noexcept nogil:
    cdef uint8_t* data = one.data
    cdef int64_t size = one.size
    cdef int64_t capacity = one.capacity
    one.data, one.size, one.capacity = other.data, other.size, other.capacity
    other.data, other.size, other.capacity = data, size, capacity


cdef int _brackets(Memory text) noexcept nogil:
    """Return an upper bound of the nesting depth of a text: its opening brackets, including those in strings.

    Stops counting above the nesting limit.
    """
    cdef int64_t i
    cdef int count = 0
    for i in range(text.size):
        if text.data[i] == 123 or text.data[i] == 91:
            count += 1
            if count > MAX_DEPTH:
                break
    return count


cdef int64_t _leg(const uint8_t** path, const uint8_t* end, const uint8_t** name, int64_t* size) noexcept nogil:
    """Parse the next leg of a path. Returns its index, NAME for a name, NO_LEG if it is invalid or unsupported."""
    cdef const uint8_t* at = path[0]
    cdef int64_t index = 0
    cdef int digits = 0
    if at[0] == 91:
        at += 1
        while at < end and 48 <= at[0] <= 57:
            index = index * 10 + at[0] - 48
            digits += 1
            if digits > MAX_INDEX_DIGITS:
                return NO_LEG
            at += 1
        if digits == 0 or at == end or at[0] != 93:
            return NO_LEG
        path[0] = at + 1
        return index
    if at[0] != 46 or end - at < 2:
        return NO_LEG
    at += 1
    if at[0] == 34:
        at += 1
        name[0] = at
        while at < end and at[0] != 34:
            if at[0] == 92 or at[0] < 32:
                return NO_LEG
            at += 1
        if at == end:
            return NO_LEG
        size[0] = at - name[0]
        path[0] = at + 1
        return NAME
    name[0] = at
    while at < end and at[0] != 46 and at[0] != 91:
        if at[0] == 92 or at[0] <= 32 or at[0] == 34 or at[0] == 93 or at[0] == 42:
            return NO_LEG
        at += 1
    size[0] = at - name[0]
    path[0] = at
    return NAME if size[0] else NO_LEG


cdef const uint8_t* _behind_string(const uint8_t* at) noexcept nogil:
    """Return the end of a string in text that the kernel wrote."""
    at += 1
    while at[0] != 34:
        at += 2 if at[0] == 92 else 1
    return at + 1


cdef const uint8_t* _behind_value(const uint8_t* at) noexcept nogil:
    """Return the end of a container's value in text that the kernel wrote."""
    cdef int64_t depth = 0
    while True:
        if at[0] == 34:
            at = _behind_string(at)
            if depth == 0:
                return at
            continue
        if at[0] == 123 or at[0] == 91:
            depth += 1
        elif at[0] == 125 or at[0] == 93:
            if depth == 0:
                return at
            depth -= 1
            if depth == 0:
                return at + 1
        elif at[0] == 44 and depth == 0:
            return at
        at += 1


cdef const uint8_t* _diffed_member(const uint8_t* container, const uint8_t* name, int64_t size) noexcept nogil:
    """Return the value of a member; NULL if `container` is not an object or has no such member."""
    cdef const uint8_t* at = container + 1
    cdef const uint8_t* key_end
    if container[0] != 123 or at[0] == 125:
        return NULL
    while True:
        key_end = _behind_string(at) - 1
        if key_end - at - 1 == size and memcmp(at + 1, name, size) == 0:
            return key_end + 3
        at = _behind_value(key_end + 3)
        if at[0] != 44:
            return NULL
        at += 2


cdef const uint8_t* _element(const uint8_t* container, int64_t index) noexcept nogil:
    """Return the element at `index`; NULL if `container` is not an array or has no such element."""
    cdef const uint8_t* at = container + 1
    if container[0] != 91 or at[0] == 93:
        return NULL
    while index:
        at = _behind_value(at)
        if at[0] != 44:
            return NULL
        at += 2
        index -= 1
    return at


def patched(const uint8_t[::1] document, const uint8_t[::1] diffs) -> bytes | None:
    """Return the text of a document after diffs; None if the reference implementation must decide."""
    cdef JsonPatcher patcher = JsonPatcher()
    cdef int64_t size = document.shape[0]
    cdef int64_t diffs_size = diffs.shape[0]
    if not patcher.apply(&document[0] if size else NULL, size, &diffs[0] if diffs_size else NULL, diffs_size):
        return None
    return bytes(patcher.text)
