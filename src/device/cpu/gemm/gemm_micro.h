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
                                                 int64_t ldc, bool add, const T *bias)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            const T sum = block[i * NV * VL + j], all = add ? c[i * ldc + j] + sum : sum;
            c[i * ldc + j] = bias ? all + bias[j] : all;
        }
}

/* Adds the accumulators of a tile to C, or stores them; then adds the bias, if there is one. */
static inline __attribute__((always_inline)) void NAME(store)(const int rows, int cols,
                                                              V acc[MR][NV], T *c, int64_t ldc,
                                                              bool add, const T *bias)
{
    if (cols == NAME(nr)) {
        UNROLL
        for (int i = 0; i < rows; i++)
            UNROLL
        for (int v = 0; v < NV; v++) {
            U *at = (U *)(c + i * ldc + v * VL);
            if (add)
                acc[i][v] += *at;
            if (bias)
                acc[i][v] += *(const U *)(bias + v * VL);
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
    NAME(edge)(rows, cols, block, c, ldc, add, bias);
}

/* One tile; `rows` is a constant at each call, so the accumulators are registers. */
static inline __attribute__((always_inline)) void NAME(tile)(const int rows, int cols, int64_t k,
                                                             const T *a, int64_t rs, int64_t cs,
                                                             const T *b, int64_t ldb, T *c,
                                                             int64_t ldc, bool add, const T *bias)
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
    NAME(store)(rows, cols, acc, c, ldc, add, bias);
}

enum { NAME(triples) = (MR + 2) / 3 };

/* Adds the products of elements q of the rows with a row of B. Three rows share a pointer, since
 * there are fewer registers for addresses than rows. */
static inline __attribute__((always_inline)) void NAME(step)(const int rows, V acc[MR][NV],
                                                             const T *const *at, int64_t lda,
                                                             int q, const T *b)
{
    V bv[NV];
    UNROLL
    for (int v = 0; v < NV; v++)
        bv[v] = *(const U *)(b + v * VL);
    UNROLL
    for (int i = 0; i < rows; i++) {
        const V av = SPLAT(at[i / 3][i % 3 * lda + q]);
        UNROLL
        for (int v = 0; v < NV; v++)
            acc[i][v] = FMA(av, bv[v], acc[i][v]);
    }
}

/* One tile from rows of A as stored and a packed strip. C is fetched while the sums grow. */
static inline __attribute__((always_inline)) void NAME(rows_tile)(const int rows, int cols,
                                                                  int64_t k, const T *a,
                                                                  int64_t lda, const T *b, T *c,
                                                                  int64_t ldc, bool add,
                                                                  const T *bias)
{
    enum { ONCE = 4 };
    V        acc[MR][NV];
    const T *at[NAME(triples)];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int v = 0; v < NV; v++) {
            __builtin_prefetch(c + i * ldc + v * VL, 1);
            acc[i][v] = (V){0};
        }
        at[i / 3] = a + i / 3 * 3 * lda;
    }
    for (; k >= ONCE; k -= ONCE, b += ONCE * NAME(nr)) {
        UNROLL
        for (int q = 0; q < ONCE; q++)
            NAME(step)(rows, acc, at, lda, q, b + q * NAME(nr));
        UNROLL
        for (int i = 0; i < (rows + 2) / 3; i++)
            at[i] += ONCE;
        __asm__ volatile("" : "+r"(at[0]));     /* keeps one pointer for three rows */
    }
    for (; k > 0; k--, b += NAME(nr)) {
        NAME(step)(rows, acc, at, lda, 0, b);
        UNROLL
        for (int i = 0; i < (rows + 2) / 3; i++)
            at[i]++;
    }
    NAME(store)(rows, cols, acc, c, ldc, add, bias);
}

#define DIRECT(r)                                                                                  \
    case r:                                                                                        \
        NAME(tile)(r, cols, k, a, rs, cs, b, ldb, c, ldc, add, NULL);                              \
        break;
#define PACKED(r)                                                                                  \
    case r:                                                                                        \
        NAME(tile)(r, cols, k, a, 1, r, b, NAME(nr), c, ldc, add, bias);                           \
        break;

#define STORED(r)                                                                                  \
    case r:                                                                                        \
        NAME(rows_tile)(r, cols, k, a, lda, b, c, ldc, add, bias);                                 \
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
                         int64_t ldc, bool add, const void *bias)
{
    switch (rows) {
        ROWS(PACKED)
    default:
        break;
    }
}

static void NAME(rows)(int rows, int cols, int64_t k, const void *a, int64_t lda, const void *b,
                       void *c, int64_t ldc, bool add, const void *bias)
{
    switch (rows) {
        ROWS(STORED)
    default:
        break;
    }
}
#undef DIRECT
#undef PACKED
#undef STORED
