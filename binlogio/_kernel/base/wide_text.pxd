# cython: language_level=3
"""Vector code for text: base64 encoding and UTF-8 validation with AVX2 if available, and the search for a word.

    base64_blocks(to, from, size) -> taken     encodes whole blocks of 24 bytes as 32 characters; 0 without AVX2
    utf8_answer(text, size) -> int             1 for well-formed UTF-8, 0 for any other; -1 without AVX2
    has_word(text, size) -> bool               whether the text contains "delimiter", in any case

UTF-8 is validated as in J. Keiser and D. Lemire, "Validating UTF-8 in less than one instruction per byte" (2021): every
error except a missing third or fourth byte is visible in three of the four hexadecimal digits of two adjacent bytes.
"""

from libc.stdint cimport int64_t, uint8_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static int is_word_around(const uint8_t *text, int64_t size, int64_t at) {
        const char *word = "delimiter";
        int i;
        if (at < 2 || size - at < 7)
            return 0;
        for (i = 0; i < 9; i++)
            if ((text[at - 2 + i] | 0x20) != word[i])
                return 0;
        return 1;
    }

    #if defined(__x86_64__)
    #include <immintrin.h>

    /* Three bytes become the 16-bit words (b0 b1) and (b1 b2); multiplications shift each 6-bit digit to its byte. */
    __attribute__((target("avx2")))
    static int64_t wide_base64(uint8_t *to, const uint8_t *from, int64_t size) {
        const __m256i words = _mm256_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10,
                                               1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
        /* Offsets added to a digit: 'a' - 26 up to 51, '0' - 52, '+' - 62, '/' - 63, and 'A' up to 25. */
        const __m256i shifts = _mm256_setr_epi8(71, -4, -4, -4, -4, -4, -4, -4, -4, -4, -4, -19, -16, 65, 0, 0,
                                                71, -4, -4, -4, -4, -4, -4, -4, -4, -4, -4, -19, -16, 65, 0, 0);
        int64_t at = 0;
        while (size - at >= 28) {
            __m256i in = _mm256_inserti128_si256(
                _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(from + at))),
                _mm_loadu_si128((const __m128i *)(from + at + 12)), 1);
            __m256i digits, place;
            in = _mm256_shuffle_epi8(in, words);
            digits = _mm256_or_si256(
                _mm256_mulhi_epu16(_mm256_and_si256(in, _mm256_set1_epi32(0x0FC0FC00)), _mm256_set1_epi32(0x04000040)),
                _mm256_mullo_epi16(_mm256_and_si256(in, _mm256_set1_epi32(0x003F03F0)), _mm256_set1_epi32(0x01000010)));
            place = _mm256_or_si256(
                _mm256_subs_epu8(digits, _mm256_set1_epi8(51)),
                _mm256_and_si256(_mm256_cmpgt_epi8(_mm256_set1_epi8(26), digits), _mm256_set1_epi8(13)));
            _mm256_storeu_si256((__m256i *)to, _mm256_add_epi8(digits, _mm256_shuffle_epi8(shifts, place)));
            to += 32;
            at += 24;
        }
        return at;
    }

    /* Return whether "delimiter" begins before the last 32 bytes; `at` is where the search continues. */
    __attribute__((target("avx2")))
    static int wide_has_word(const uint8_t *text, int64_t size, int64_t *at) {
        const __m256i small = _mm256_set1_epi8(0x20);
        while (size - *at >= 33) {
            __m256i one = _mm256_or_si256(_mm256_loadu_si256((const __m256i *)(text + *at)), small);
            __m256i two = _mm256_or_si256(_mm256_loadu_si256((const __m256i *)(text + *at + 1)), small);
            uint32_t found = (uint32_t)_mm256_movemask_epi8(_mm256_and_si256(
                _mm256_cmpeq_epi8(one, _mm256_set1_epi8('l')), _mm256_cmpeq_epi8(two, _mm256_set1_epi8('i'))));
            for (; found; found &= found - 1)
                if (is_word_around(text, size, *at + __builtin_ctz(found)))
                    return 1;
            *at += 32;
        }
        return 0;
    }

    static int64_t base64_blocks(uint8_t *to, const uint8_t *from, int64_t size) {
        return __builtin_cpu_supports("avx2") ? wide_base64(to, from, size) : 0;
    }

    enum {  /* errors in two adjacent bytes */
        UTF8_SHORT = 1,  /* no continuation byte after a lead byte */
        UTF8_LONG = 2,  /* a continuation byte after ASCII */
        UTF8_LONGER_3 = 4,  /* overlong: E0 and less than A0 */
        UTF8_LARGE = 8,  /* above U+10FFFF: F4 and 90 or more, or F5 and more */
        UTF8_SURROGATE = 16,  /* surrogate: ED and A0 or more */
        UTF8_LONGER_2 = 32,  /* overlong: C0 and C1 */
        UTF8_LONGER_4 = 64,  /* overlong: F0 and less than 90; F5 and more, with the same second bytes */
        UTF8_TWO = 128,  /* two continuation bytes, valid in a character of three or four bytes */
        UTF8_ANY = UTF8_SHORT | UTF8_LONG | UTF8_TWO,
        UTF8_OVER = UTF8_ANY | UTF8_LARGE | UTF8_LONGER_4,
        UTF8_LATER = UTF8_LONG | UTF8_LONGER_2 | UTF8_TWO
    };

    #define UTF8_TABLE(...) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const uint8_t[16]){__VA_ARGS__}))

    __attribute__((target("avx2")))
    static int wide_utf8(const uint8_t *text, int64_t size) {
        const __m256i by_first_digit = UTF8_TABLE(  /* high digit of the previous byte */
            UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG, UTF8_LONG,
            UTF8_TWO, UTF8_TWO, UTF8_TWO, UTF8_TWO, UTF8_SHORT | UTF8_LONGER_2, UTF8_SHORT,
            UTF8_SHORT | UTF8_LONGER_3 | UTF8_SURROGATE, UTF8_SHORT | UTF8_LARGE | UTF8_LONGER_4);
        const __m256i by_second_digit = UTF8_TABLE(  /* low digit of the previous byte */
            UTF8_ANY | UTF8_LONGER_2 | UTF8_LONGER_3 | UTF8_LONGER_4, UTF8_ANY | UTF8_LONGER_2, UTF8_ANY, UTF8_ANY,
            UTF8_ANY | UTF8_LARGE, UTF8_OVER, UTF8_OVER, UTF8_OVER, UTF8_OVER, UTF8_OVER, UTF8_OVER, UTF8_OVER,
            UTF8_OVER, UTF8_OVER | UTF8_SURROGATE, UTF8_OVER, UTF8_OVER);
        const __m256i by_next_digit = UTF8_TABLE(  /* high digit of the current byte */
            UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT,
            UTF8_LATER | UTF8_LONGER_3 | UTF8_LONGER_4, UTF8_LATER | UTF8_LONGER_3 | UTF8_LARGE,
            UTF8_LATER | UTF8_SURROGATE | UTF8_LARGE, UTF8_LATER | UTF8_SURROGATE | UTF8_LARGE,
            UTF8_SHORT, UTF8_SHORT, UTF8_SHORT, UTF8_SHORT);
        const __m256i digit = _mm256_set1_epi8(15);
        __m256i before = _mm256_setzero_si256(), faults = before;
        uint8_t rest[32] = {0};
        int64_t at = 0;
        for (; at <= size; at += 32) {  /* the last block ends with a zero, which reveals an incomplete character */
            __m256i in, shifted, one, two, three, pairs, later;
            if (size - at < 32) {
                memcpy(rest, text + at, size - at);
                in = _mm256_loadu_si256((const __m256i *)rest);
            } else
                in = _mm256_loadu_si256((const __m256i *)(text + at));
            if (_mm256_testz_si256(_mm256_or_si256(in, before), _mm256_set1_epi8(-128))) {
                before = in;
                continue;
            }
            shifted = _mm256_permute2x128_si256(before, in, 0x21);
            one = _mm256_alignr_epi8(in, shifted, 15);
            two = _mm256_alignr_epi8(in, shifted, 14);
            three = _mm256_alignr_epi8(in, shifted, 13);
            pairs = _mm256_and_si256(
                _mm256_and_si256(
                    _mm256_shuffle_epi8(by_first_digit, _mm256_and_si256(_mm256_srli_epi16(one, 4), digit)),
                    _mm256_shuffle_epi8(by_second_digit, _mm256_and_si256(one, digit))),
                _mm256_shuffle_epi8(by_next_digit, _mm256_and_si256(_mm256_srli_epi16(in, 4), digit)));
            /* The top bit of each byte that must be the third or fourth byte of a character. */
            later = _mm256_or_si256(_mm256_subs_epu8(two, _mm256_set1_epi8(0xE0 - 0x80)),
                                    _mm256_subs_epu8(three, _mm256_set1_epi8(0xF0 - 0x80)));
            later = _mm256_and_si256(later, _mm256_set1_epi8(-128));
            faults = _mm256_or_si256(faults, _mm256_xor_si256(later, pairs));
            before = in;
        }
        return _mm256_testz_si256(faults, faults);
    }

    static int utf8_answer(const uint8_t *text, int64_t size) {
        return __builtin_cpu_supports("avx2") ? wide_utf8(text, size) : -1;
    }
    #else
    static int utf8_answer(const uint8_t *text, int64_t size) {
        (void)text, (void)size;
        return -1;
    }

    static int64_t base64_blocks(uint8_t *to, const uint8_t *from, int64_t size) {
        (void)to, (void)from, (void)size;
        return 0;
    }
    #endif

    typedef uint8_t sixteen_bytes __attribute__((vector_size(16)));

    /* Searches for "li" first, which is rare in text. */
    static int has_word(const uint8_t *text, int64_t size) {
        sixteen_bytes small, first, second, one, two;
        uint64_t found[2];
        int64_t at = 0, i;
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2") && wide_has_word(text, size, &at))
            return 1;
    #endif
        memset(&small, 0x20, 16);
        memset(&first, 'l', 16);
        memset(&second, 'i', 16);
        while (size - at >= 17) {
            memcpy(&one, text + at, 16);
            memcpy(&two, text + at + 1, 16);
            one = (sixteen_bytes)((one | small) == first) & (sixteen_bytes)((two | small) == second);
            memcpy(found, &one, 16);
            if (found[0] | found[1])
                for (i = at; i < at + 16; i++)
                    if (is_word_around(text, size, i))
                        return 1;
            at += 16;
        }
        for (; at < size; at++)
            if (is_word_around(text, size, at))
                return 1;
        return 0;
    }
    """
    int64_t base64_blocks(uint8_t* to, const uint8_t* start, int64_t size) noexcept nogil
    int utf8_answer(const uint8_t* text, int64_t size) noexcept nogil
    bint has_word(const uint8_t* text, int64_t size) noexcept nogil
