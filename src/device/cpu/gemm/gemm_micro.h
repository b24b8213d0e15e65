/* gemm_micro.h - the body of the register-tiled kernels, included by gemm_isa.c once per
 * element type.
 *
 * Expects: T element, V vector of VL elements, U the same unaligned, SPLAT(s), FMA(a, b, c) =
 * a*b + c, MR rows, NV vectors of columns, and NAME(fn). An MR x NV block of C stays in
 * registers for the whole depth (Goto, van de Geijn: Anatomy of High-Performance Matrix
 * Multiplication, 2008). */

enum { NAME(nr) = NV * VL };

/* Writes the first `cols` columns of a computed tile to C. */
static __attribute__((noinline)) void NAME(edge)(int rows, int cols, const T *block, T *c,
                                                 int64_t ldc, bool add)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            c[i * ldc + j] = add ? c[i * ldc + j] + block[i * NV * VL + j] : block[i * NV * VL + j];
}

/* One tile; `rows` is a constant at each call, so the accumulators are registers. */
static inline __attribute__((always_inline)) void NAME(tile)(const int rows, int cols, int64_t k,
                                                             const T *a, int64_t rs, int64_t cs,
                                                             const T *b, int64_t ldb, T *c,
                                                             int64_t ldc, bool add)
{
    V acc[MR][NV];
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
    for (int v = 0; v < NV; v++)
        acc[i][v] = (V){0};
    for (int64_t p = 0; p < k; p++) {
        V bv[NV];
        UNROLL
        for (int v = 0; v < NV; v++)
            bv[v] = *(const U *)(b + p * ldb + v * VL);
        UNROLL
        for (int i = 0; i < rows; i++) {
            const V av = SPLAT(a[i * rs + p * cs]);
            UNROLL
            for (int v = 0; v < NV; v++)
                acc[i][v] = FMA(av, bv[v], acc[i][v]);
        }
    }
    if (cols == NAME(nr)) {
        UNROLL
        for (int i = 0; i < rows; i++)
            UNROLL
        for (int v = 0; v < NV; v++) {
            U *at = (U *)(c + i * ldc + v * VL);
            if (add)
                acc[i][v] += *at;
            *at = acc[i][v];
        }
        return;
    }
    T block[MR * NV * VL];
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
    for (int v = 0; v < NV; v++)
        *(U *)(block + (i * NV + v) * VL) = acc[i][v];
    NAME(edge)(rows, cols, block, c, ldc, add);
}

#define DIRECT(r)                                                                                  \
    case r:                                                                                        \
        NAME(tile)(r, cols, k, a, rs, cs, b, ldb, c, ldc, add);                                    \
        break;
#define PACKED(r)                                                                                  \
    case r:                                                                                        \
        NAME(tile)(r, cols, k, a, 1, r, b, NAME(nr), c, ldc, add);                                 \
        break;

static void NAME(direct)(int rows, int cols, int64_t k, const void *a, int64_t rs, int64_t cs,
                         const void *b, int64_t ldb, void *c, int64_t ldc, bool add)
{
    switch (rows) {
        ROWS(DIRECT)
    default:
        break;
    }
}

static void NAME(packed)(int rows, int cols, int64_t k, const void *a, const void *b, void *c,
                         int64_t ldc, bool add)
{
    switch (rows) {
        ROWS(PACKED)
    default:
        break;
    }
}
#undef DIRECT
#undef PACKED

/* dst[q*width + j] = src[j*ld + q] for four j and four q: a transpose in registers. */
static inline void NAME(transpose4)(T *dst, int width, const T *src, int64_t ld)
{
    typedef T Q __attribute__((vector_size(4 * sizeof(T))));
    typedef T P __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
    const Q   r0 = *(const P *)src, r1 = *(const P *)(src + ld);
    const Q   r2 = *(const P *)(src + 2 * ld), r3 = *(const P *)(src + 3 * ld);
    const Q   lo = SHUFFLE(r0, r1, 0, 4, 1, 5), hi = SHUFFLE(r0, r1, 2, 6, 3, 7);
    const Q   ol = SHUFFLE(r2, r3, 0, 4, 1, 5), oh = SHUFFLE(r2, r3, 2, 6, 3, 7);
    *(P *)dst = SHUFFLE(lo, ol, 0, 1, 4, 5);
    *(P *)(dst + width) = SHUFFLE(lo, ol, 2, 3, 6, 7);
    *(P *)(dst + 2 * width) = SHUFFLE(hi, oh, 0, 1, 4, 5);
    *(P *)(dst + 3 * width) = SHUFFLE(hi, oh, 2, 3, 6, 7);
}

static void NAME(pack_along)(T *dst, int width, int count, int64_t k, const T *src, int64_t ld)
{
    const int     c4 = count & ~3;
    const int64_t k4 = k & ~(int64_t)3;
    for (int j = 0; j < c4; j += 4)
        for (int64_t p = 0; p < k4; p += 4)
            NAME(transpose4)(dst + p * width + j, width, src + j * ld + p, ld);
    for (int64_t p = k4; p < k; p++)
        for (int j = 0; j < c4; j++)
            dst[p * width + j] = src[j * ld + p];
    for (int j = c4; j < width; j++)
        for (int64_t p = 0; p < k; p++)
            dst[p * width + j] = j < count ? src[j * ld + p] : 0;
}

/* Packs rows of 8 to 16 adjacent elements as two overlapping copies of 8. */
static void NAME(pack_rows)(T *dst, int width, int64_t k, const T *src, int64_t ld)
{
    enum { HALF = 8 };
    for (int64_t p = 0; p < k; p++, dst += width, src += ld) {
        memcpy(dst, src, HALF * sizeof(T));
        memcpy(dst + width - HALF, src + width - HALF, HALF * sizeof(T));
    }
}

static void NAME(pack)(void *to, int width, int count, int64_t k, const void *from, int64_t ld,
                       bool along)
{
    T       *dst = to;
    const T *src = from;
    if (along) {
        NAME(pack_along)(dst, width, count, k, src, ld);
    } else if (count == NAME(nr) && width == NAME(nr)) {
        for (int64_t p = 0; p < k; p++)
            memcpy(dst + p * NAME(nr), src + p * ld, NAME(nr) * sizeof(T));
    } else if (count == width && width >= 8 && width <= 16) {
        NAME(pack_rows)(dst, width, k, src, ld);
    } else {
        for (int64_t p = 0; p < k; p++) {
            for (int j = 0; j < count; j++)
                dst[p * width + j] = src[p * ld + j];
            for (int j = count; j < width; j++)
                dst[p * width + j] = 0;
        }
    }
}
