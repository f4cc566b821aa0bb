"""Text of JSON columns whose values may be diffs, which are applied to the documents of the before images."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.json_documents cimport JsonPatcher, append_json
from binlogio._kernel.primitives cimport MOST_TEXT, Memory


def json_texts(Column after, Column before, by_construct):
    """Return the texts of FLAGGED columns, as offsets and bytes; diffs are applied to the documents of `before`.

    `by_construct` converts values that the kernel cannot: from a value and the one before it, both with their flag
    byte, to text.
    """
    cdef JsonPatcher patcher = JsonPatcher()
    cdef Memory offsets = Memory()
    cdef Memory texts = Memory()
    cdef const int32_t* ends = <const int32_t*>after.offsets.data
    cdef const int32_t* old_ends = NULL
    cdef const uint8_t* p
    cdef const uint8_t* old
    cdef int64_t row, size, old_size
    cdef int good
    (<int32_t*>offsets.grow(4))[0] = 0
    if before is not None and before.count >= after.count:
        old_ends = <const int32_t*>before.offsets.data
    with nogil:
        for row in range(after.count):
            p = after.data.data + ends[row]
            size = ends[row + 1] - ends[row]
            old = NULL
            old_size = 0
            if old_ends != NULL:
                old = before.data.data + old_ends[row]
                old_size = old_ends[row + 1] - old_ends[row]
            good = 1
            if size:
                if p[0] == 0:
                    good = append_json(texts, p + 1, size - 1)
                else:
                    good = old_size > 0 and old[0] == 0 and patcher.apply(old + 1, old_size - 1, p + 1, size - 1)
                    if good:
                        memcpy(texts.grow(patcher.text.size), patcher.text.data, patcher.text.size)
            if not good:
                with gil:
                    text = by_construct(
                        <bytes>(<const char*>p)[:size], <bytes>(<const char*>old)[:old_size] if old_size else None
                    ).encode()
                    memcpy(texts.grow(len(text)), <const char*>text, len(text))
            if texts.size > MOST_TEXT:
                with gil:
                    raise OverflowError("the texts of a column are more than 2 GiB")
            (<int32_t*>offsets.grow(4))[0] = <int32_t>texts.size
    return offsets, texts
