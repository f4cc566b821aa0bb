# cython: language_level=3
"""Text in blocks of many bytes: base64 with AVX2, where the processor has it, and the search for a word.

    base64_blocks(to, from, size) -> taken     writes whole blocks of 24 bytes as 32 digits; 0 without AVX2
    has_word(text, size) -> bool               whether "delimiter" is in the text, in capitals or not
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

    /* Three bytes become the 16-bit words (b0 b1) and (b1 b2); the multiplications shift a digit of each to its byte. */
    __attribute__((target("avx2")))
    static int64_t wide_base64(uint8_t *to, const uint8_t *from, int64_t size) {
        const __m256i words = _mm256_setr_epi8(1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10,
                                               1, 0, 2, 1, 4, 3, 5, 4, 7, 6, 8, 7, 10, 9, 11, 10);
        /* What is added to a digit: 'a' - 26 up to 51, '0' - 52, '+' - 62, '/' - 63, and 'A' up to 25. */
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

    /* Return whether "delimiter" begins before the last 32 bytes; `at` is then where the search has to continue. */
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
    #else
    static int64_t base64_blocks(uint8_t *to, const uint8_t *from, int64_t size) {
        (void)to, (void)from, (void)size;
        return 0;
    }
    #endif

    typedef uint8_t sixteen_bytes __attribute__((vector_size(16)));

    /* "li" is looked for first: it is rare in any text. */
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
    bint has_word(const uint8_t* text, int64_t size) noexcept nogil
