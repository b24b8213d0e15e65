/* rtc_kernel.h - how generated kernels read and write: WEIR_WIDTH adjacent elements at a time.
 *
 * The text of this file is part of every kernel compiled at run time, after the definitions of
 * WEIR_WIDTH and the type of positions weir_position. */

#define WEIR_UNROLL _Pragma("unroll")

/* Operands stored in type S: WEIR_WIDTH adjacent elements; functions that read the first `some`,
 * that set all to one element, that write `some`. wide: the address is a multiple of 16 bytes. */
#define WEIR_STORED(S)                                                                             \
    typedef union weir_pack_##S {                                                                  \
        S     e[WEIR_WIDTH];                                                                       \
        uint4 wide[WEIR_WIDTH * sizeof(S) / sizeof(uint4)];                                        \
    } weir_pack_##S;                                                                               \
    static inline void weir_read_##S(weir_pack_##S *x, const S *from, int some, bool wide)         \
    {                                                                                              \
        if (wide && some == WEIR_WIDTH) {                                                          \
            WEIR_UNROLL                                                                            \
            for (int i = 0; i < (int)(sizeof *x / sizeof(uint4)); i++)                             \
                x->wide[i] = ((const uint4 *)from)[i];                                             \
        } else {                                                                                   \
            WEIR_UNROLL                                                                            \
            for (int i = 0; i < WEIR_WIDTH; i++)                                                   \
                x->e[i] = i < some ? from[i] : (S)0;                                               \
        }                                                                                          \
    }                                                                                              \
    static inline void weir_fill_##S(weir_pack_##S *x, S v)                                        \
    {                                                                                              \
        WEIR_UNROLL                                                                                \
        for (int i = 0; i < WEIR_WIDTH; i++)                                                       \
            x->e[i] = v;                                                                           \
    }                                                                                              \
    static inline void weir_write_##S(const weir_pack_##S *x, S *to, int some, bool wide)          \
    {                                                                                              \
        if (wide && some == WEIR_WIDTH) {                                                          \
            WEIR_UNROLL                                                                            \
            for (int i = 0; i < (int)(sizeof *x / sizeof(uint4)); i++)                             \
                ((uint4 *)to)[i] = x->wide[i];                                                     \
        } else {                                                                                   \
            WEIR_UNROLL                                                                            \
            for (int i = 0; i < WEIR_WIDTH; i++)                                                   \
                if (i < some)                                                                      \
                    to[i] = x->e[i];                                                               \
        }                                                                                          \
    }

/* i / dim. Below 2^31: a product with m, which is 2^(31 + shift) / dim rounded up with the shift in
 * its upper half (Granlund and Montgomery, "Division by invariant integers", 1994). */
static inline weir_position weir_quotient(weir_position i, uint64_t dim, uint64_t m)
{
#ifdef WEIR_LARGE
    return i / dim;
#else
    return (weir_position)((uint64_t)i * (m & 0xffffffffu) >> (31 + (int)(m >> 32)));
#endif
}

/* The random words of WEIR_WIDTH positions from `at`, in a draw whose first block is `counter`. */
static inline void weir_draw_words(uint64_t seed, uint64_t counter, int64_t at, uint32_t *word)
{
#pragma unroll
    for (int b = 0; b < WEIR_WIDTH / 4; b++)
        weir_philox(seed, counter + (uint64_t)at / 4 + (uint64_t)b, word + 4 * b);
}
