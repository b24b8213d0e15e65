/* rtc_kernel.h - how generated kernels read and write: WEIR_WIDTH adjacent elements at a time.
 *
 * The text of this file, not the file, is part of every kernel that is compiled at run time, after
 * WEIR_WIDTH, the stored type weir_element and the type of positions weir_position. */

typedef union weir_pack {
    weir_element e[WEIR_WIDTH];
    uint4        wide[WEIR_WIDTH * sizeof(weir_element) / sizeof(uint4)];
} weir_pack;

/* `some` elements of WEIR_WIDTH; wide: the address is a multiple of 16. */
static inline void weir_read(weir_pack *x, const weir_element *from, int some, bool wide)
{
    if (wide && some == WEIR_WIDTH) {
#pragma unroll
        for (int i = 0; i < (int)(sizeof(weir_pack) / sizeof(uint4)); i++)
            x->wide[i] = ((const uint4 *)from)[i];
    } else {
#pragma unroll
        for (int i = 0; i < WEIR_WIDTH; i++)
            x->e[i] = i < some ? from[i] : (weir_element)0;
    }
}

static inline void weir_fill(weir_pack *x, weir_element v)
{
#pragma unroll
    for (int i = 0; i < WEIR_WIDTH; i++)
        x->e[i] = v;
}

static inline void weir_write(const weir_pack *x, weir_element *to, int some, bool wide)
{
    if (wide && some == WEIR_WIDTH) {
#pragma unroll
        for (int i = 0; i < (int)(sizeof(weir_pack) / sizeof(uint4)); i++)
            ((uint4 *)to)[i] = x->wide[i];
    } else {
#pragma unroll
        for (int i = 0; i < WEIR_WIDTH; i++)
            if (i < some)
                to[i] = x->e[i];
    }
}

/* i / dim. Below 2^31 by a product with m, 2^(31 + shift) / dim rounded up, with the shift in its
 * upper half (Granlund and Montgomery 1994, Division by invariant integers). */
static inline weir_position weir_quotient(weir_position i, uint64_t dim, uint64_t m)
{
#ifdef WEIR_LARGE
    return i / dim;
#else
    return (weir_position)((uint64_t)i * (m & 0xffffffffu) >> (31 + (int)(m >> 32)));
#endif
}

/* The words of WEIR_WIDTH positions from `at` on, of a draw whose first block is `counter`. */
static inline void weir_draw_words(uint64_t seed, uint64_t counter, int64_t at, uint32_t *word)
{
#pragma unroll
    for (int b = 0; b < WEIR_WIDTH / 4; b++)
        weir_philox(seed, counter + (uint64_t)at / 4 + (uint64_t)b, word + 4 * b);
}
