/* norm_type.h - the loops of norm_isa.c for x of X_TYPE and dy of DY_TYPE, which are f64, f32, bf16
 * or f16: grads_<x>_<dy>, and with STATS also stats_<x>.
 *
 * Adds four rows at a time as a tree; a piece has few rows, so lanes collect few rounding errors.
 * Every column is added in the same order whatever the vector width. */

/* No include guard: included once for each pair of types. */

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define X           JOIN(STORED_, X_TYPE)
#define D           JOIN(STORED_, DY_TYPE)
#define T           JOIN(SUM_, X_TYPE)
#define LX          JOIN(READ_, X_TYPE)
#define LD          JOIN(READ_, DY_TYPE)

#ifdef STATS
/* The first pass's mean m is rounded, so the sum of deviations s is not exactly 0; it corrects both
 * the mean and the squared deviations. */
static void JOIN(stats_, X_TYPE)(const void *at, int64_t rows, int64_t row, int64_t cols,
                                 int64_t done, double *restrict mean, double *restrict m2)
{
    const X *x = at, *p = x;
    T        m[WEIR_NORM_COLS], s[WEIR_NORM_COLS], q[WEIR_NORM_COLS];
    double   mean_n[WEIR_NORM_COLS], m2_n[WEIR_NORM_COLS];
    for (int64_t c = 0; c < cols; c++)
        m[c] = s[c] = q[c] = 0;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, p += 4 * row)
        for (int64_t c = 0; c < cols; c++)
            m[c] += (LX(p[c]) + LX(p[c + row])) + (LX(p[c + 2 * row]) + LX(p[c + 3 * row]));
    for (; r < rows; r++, p += row)
        for (int64_t c = 0; c < cols; c++)
            m[c] += LX(p[c]);
    for (int64_t c = 0; c < cols; c++)
        m[c] /= (T)rows;
    for (r = 0, p = x; r + 4 <= rows; r += 4, p += 4 * row) {
        /* This pass reads the cache; meanwhile memory brings the next piece. */
        for (int64_t c = 0; c < cols; c += LINE / (int64_t)sizeof(X))
            for (int64_t i = 0; i < 4; i++)
                __builtin_prefetch(p + (rows + i) * row + c);
        for (int64_t c = 0; c < cols; c++) {
            const T a = LX(p[c]) - m[c], b = LX(p[c + row]) - m[c];
            const T d = LX(p[c + 2 * row]) - m[c], e = LX(p[c + 3 * row]) - m[c];
            s[c] += (a + b) + (d + e);
            q[c] += (a * a + b * b) + (d * d + e * e);
        }
    }
    for (; r < rows; r++, p += row)
        for (int64_t c = 0; c < cols; c++) {
            s[c] += LX(p[c]) - m[c];
            q[c] += (LX(p[c]) - m[c]) * (LX(p[c]) - m[c]);
        }
    for (int64_t c = 0; c < cols; c++) {
        const double off = (double)s[c] / (double)rows;
        mean_n[c] = (double)m[c] + off;
        m2_n[c] = (double)q[c] - (double)s[c] * off;
    }
    join(cols, done, mean, m2, rows, mean_n, m2_n);
}
#endif

static void JOIN(JOIN(grads_, X_TYPE), JOIN(_, DY_TYPE))(
    const void *dys, const void *xs, int64_t rows, int64_t row, int64_t cols, const void *means,
    double *restrict ds, double *restrict db)
{
    const D *dy = dys;
    const X *x = xs;
    const T *mean = means;
    T        m[WEIR_NORM_COLS], s[WEIR_NORM_COLS], b[WEIR_NORM_COLS];
    for (int64_t c = 0; c < cols; c++) {
        m[c] = mean[c];
        s[c] = b[c] = 0;
    }
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, dy += 4 * row, x += 4 * row)
        for (int64_t c = 0; c < cols; c++) {
            const T g0 = LD(dy[c]), g1 = LD(dy[c + row]);
            const T g2 = LD(dy[c + 2 * row]), g3 = LD(dy[c + 3 * row]);
            b[c] += (g0 + g1) + (g2 + g3);
            s[c] += (g0 * (LX(x[c]) - m[c]) + g1 * (LX(x[c + row]) - m[c])) +
                    (g2 * (LX(x[c + 2 * row]) - m[c]) + g3 * (LX(x[c + 3 * row]) - m[c]));
        }
    for (; r < rows; r++, dy += row, x += row)
        for (int64_t c = 0; c < cols; c++) {
            b[c] += LD(dy[c]);
            s[c] += LD(dy[c]) * (LX(x[c]) - m[c]);
        }
    for (int64_t c = 0; c < cols; c++) {
        ds[c] += (double)s[c];
        db[c] += (double)b[c];
    }
}

#undef STATS
#undef X_TYPE
#undef DY_TYPE
#undef JOIN_
#undef JOIN
#undef X
#undef D
#undef T
#undef LX
#undef LD
