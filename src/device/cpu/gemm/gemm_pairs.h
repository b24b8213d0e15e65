/* gemm_pairs.h - the body of the packing of operands into pairs of halves, included by gemm_bf16.c
 * once for halves as stored and once for f32.
 *
 * Expects, of the operand `from`, elements counted from its start: PAIRS(at, mask, other, paired),
 * up to sixteen pairs of the elements from `at` and from `other` on; FOUR(at), eight halves;
 * ONE(at), one; and PACK(fn). */

/* Rows of `from` are columns of the depth: pairs lie in a row. Four rows are transposed in
 * registers at a time. */
static void PACK(along)(uint32_t *to, int width, int count, int64_t k, const void *from, int64_t ld)
{
    const int64_t pairs = k / 2, whole = pairs & ~(int64_t)3;
    const int     fours = count & ~3;

    for (int j = 0; j < fours; j += 4)
        for (int64_t p = 0; p < whole; p += 4) {
            const __m128i r0 = FOUR(j * ld + 2 * p), r1 = FOUR((j + 1) * ld + 2 * p);
            const __m128i r2 = FOUR((j + 2) * ld + 2 * p), r3 = FOUR((j + 3) * ld + 2 * p);
            const __m128i lo = _mm_unpacklo_epi32(r0, r1), hi = _mm_unpackhi_epi32(r0, r1);
            const __m128i ol = _mm_unpacklo_epi32(r2, r3), oh = _mm_unpackhi_epi32(r2, r3);
            uint32_t *const at = to + p * width + j;
            _mm_storeu_si128((void *)at, _mm_unpacklo_epi64(lo, ol));
            _mm_storeu_si128((void *)(at + width), _mm_unpackhi_epi64(lo, ol));
            _mm_storeu_si128((void *)(at + 2 * width), _mm_unpacklo_epi64(hi, oh));
            _mm_storeu_si128((void *)(at + 3 * width), _mm_unpackhi_epi64(hi, oh));
        }
    for (int j = 0; j < width; j++)
        for (int64_t p = j < fours ? whole : 0; 2 * p < k; p++) {
            const uint32_t first = j < count ? ONE(j * ld + 2 * p) : 0;
            const uint32_t second = j < count && 2 * p + 1 < k ? ONE(j * ld + 2 * p + 1) : 0;
            to[p * width + j] = first | second << 16;
        }
}

/* Rows of `from` are rows of the depth: two of them are interleaved. */
static void PACK(across)(uint32_t *to, int width, int count, int64_t k, const void *from,
                         int64_t ld)
{
    for (int64_t p = 0; p < k; p += 2, to += width)
        for (int j = 0; j < width; j += WEIR_MASK_LANES) {
            const __mmask16 mask = weir_first_lanes(count - j), both = p + 1 < k ? mask : 0;
            const int64_t   at = p * ld + j;
            _mm512_mask_storeu_epi32(to + j, weir_first_lanes(width - j),
                                     PAIRS(at, mask, both ? at + ld : at, both));
        }
}

static void PACK(pack)(void *to, int width, int count, int64_t k, const void *from, int64_t ld,
                       bool along)
{
    if (along)
        PACK(along)(to, width, count, k, from, ld);
    else
        PACK(across)(to, width, count, k, from, ld);
}
