/* gemm_pack.h - the body of the packing of operands, included by gemm_isa.c once for each way of
 * reading an operand (weir_gemm_read).
 *
 * Expects: T element as packed, S element as stored, READ(dst, src, n) converts n elements, n a
 * constant of 4 or 8, READ_ONE(x) converts one, and NAME(fn). */

/* dst[q*width + j] = src[j*ld + q] for four j and four q: a transpose in registers. */
static inline void NAME(transpose4)(T *dst, int width, const S *src, int64_t ld)
{
    typedef T Q __attribute__((vector_size(4 * sizeof(T))));
    typedef T P __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
    Q         r[4];
    UNROLL
    for (int j = 0; j < 4; j++)
        READ((T *)&r[j], src + j * ld, 4);
    const Q lo = SHUFFLE(r[0], r[1], 0, 4, 1, 5), hi = SHUFFLE(r[0], r[1], 2, 6, 3, 7);
    const Q ol = SHUFFLE(r[2], r[3], 0, 4, 1, 5), oh = SHUFFLE(r[2], r[3], 2, 6, 3, 7);
    *(P *)dst = SHUFFLE(lo, ol, 0, 1, 4, 5);
    *(P *)(dst + width) = SHUFFLE(lo, ol, 2, 3, 6, 7);
    *(P *)(dst + 2 * width) = SHUFFLE(hi, oh, 0, 1, 4, 5);
    *(P *)(dst + 3 * width) = SHUFFLE(hi, oh, 2, 3, 6, 7);
}

static void NAME(along)(T *dst, int width, int count, int64_t k, const S *src, int64_t ld)
{
    const int     c4 = count & ~3;
    const int64_t k4 = k & ~(int64_t)3;
    for (int j = 0; j < c4; j += 4)
        for (int64_t p = 0; p < k4; p += 4)
            NAME(transpose4)(dst + p * width + j, width, src + j * ld + p, ld);
    for (int64_t p = k4; p < k; p++)
        for (int j = 0; j < c4; j++)
            dst[p * width + j] = READ_ONE(src[j * ld + p]);
    for (int j = c4; j < width; j++)
        for (int64_t p = 0; p < k; p++)
            dst[p * width + j] = j < count ? READ_ONE(src[j * ld + p]) : 0;
}

/* Packs rows of `width` adjacent elements, at least `step` of them (4 or 8), `step` at a time; the
 * last `step` overlap those before. */
static inline __attribute__((always_inline)) void NAME(rows)(T *dst, int width, int64_t k,
                                                             const S *src, int64_t ld,
                                                             const int step)
{
    const int last = width - step;
    for (int64_t p = 0; p < k; p++, dst += width, src += ld) {
        for (int j = 0; j < last; j += step)
            READ(dst + j, src + j, step);
        READ(dst + last, src + last, step);
    }
}

static void NAME(pack)(void *to, int width, int count, int64_t k, const void *from, int64_t ld,
                       bool along)
{
    T       *dst = to;
    const S *src = from;
    if (along) {
        NAME(along)(dst, width, count, k, src, ld);
    } else if (count == width && width == STRIP && STRIP >= 8) {
        NAME(rows)(dst, STRIP, k, src, ld, 8);
    } else if (count == width && width >= 8) {
        NAME(rows)(dst, width, k, src, ld, 8);
    } else if (count == width && width >= 4) {
        NAME(rows)(dst, width, k, src, ld, 4);
    } else {
        for (int64_t p = 0; p < k; p++) {
            for (int j = 0; j < count; j++)
                dst[p * width + j] = READ_ONE(src[p * ld + j]);
            for (int j = count; j < width; j++)
                dst[p * width + j] = 0;
        }
    }
}
