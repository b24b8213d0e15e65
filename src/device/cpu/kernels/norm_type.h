/* norm_type.h - the loops of norm_isa.c for one float type T, with FN(name).
 *
 * x has elements of type X, read by LX, and dy of type D, read by LD. Without STATS only the sums
 * for the gradient are defined.
 *
 * Adds four rows at a time as a tree; a piece has few rows, so lanes of T collect few rounding
 * errors. Every column is added in the same order whatever the vector width. */

/* No include guard: included once for each pair of types. */

#ifdef STATS
/* The first pass's mean m is rounded, so the sum of deviations s is not exactly 0; it corrects both
 * the mean and the squared deviations. */
static void FN(stats)(const void *at, int64_t rows, int64_t row, int64_t cols, int64_t done,
                      double *restrict mean, double *restrict m2)
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
    for (r = 0, p = x; r + 4 <= rows; r += 4, p += 4 * row)
        for (int64_t c = 0; c < cols; c++) {
            const T a = LX(p[c]) - m[c], b = LX(p[c + row]) - m[c];
            const T d = LX(p[c + 2 * row]) - m[c], e = LX(p[c + 3 * row]) - m[c];
            s[c] += (a + b) + (d + e);
            q[c] += (a * a + b * b) + (d * d + e * e);
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

static void FN(grads)(const void *dys, const void *xs, int64_t rows, int64_t row, int64_t cols,
                      const void *means, double *restrict ds, double *restrict db)
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
#undef T
#undef X
#undef D
#undef LX
#undef LD
#undef FN
