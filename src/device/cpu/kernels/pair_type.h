/* pair_type.h - the loops of pair_isa.c for one element type and one value of two elements.
 *
 * Included once per pair, with T the element type, VALUE(a, b) an expression of doubles, and
 * FN(name). All sums are f64: squares of f32 neither overflow nor lose bits. The number of lanes is
 * fixed, so the order of additions depends on the shape alone. */

/* No include guard: included once per pair. */

static inline double FN(value)(T x, T y)
{
    const double a = (double)x, b = (double)y;
    return VALUE(a, b);
}

static inline __attribute__((always_inline)) void FN(rows)(const T *x, const T *y, int64_t rows,
                                                           weir_pair_step s, int64_t cols,
                                                           double *acc)
{
    for (int64_t r = 0; r < rows; r++, x += s.row, y += s.row2)
        for (int64_t c = 0; c < cols; c++)
            acc[c] += FN(value)(x[c * s.col], y[c * s.col2]);
}

static void FN(columns)(const void *xs, const void *ys, int64_t rows, weir_pair_step s,
                        int64_t cols, double *acc)
{
    if (s.col == 1 && s.col2 == 1)
        FN(rows)(xs, ys, rows, (weir_pair_step){s.row, 1, s.row2, 1}, cols, acc);
    else if (s.col == 1 && s.col2 == 0)
        FN(rows)(xs, ys, rows, (weir_pair_step){s.row, 1, s.row2, 0}, cols, acc);
    else
        FN(rows)(xs, ys, rows, s, cols, acc);
}

static inline __attribute__((always_inline)) double FN(lanes)(const T *x, const T *y, int64_t n,
                                                              int64_t step, int64_t step2)
{
    double  lane[WEIR_REDUCE_LANES] = {0};
    int64_t i = 0;
    for (; i + WEIR_REDUCE_LANES <= n; i += WEIR_REDUCE_LANES)
        for (int j = 0; j < WEIR_REDUCE_LANES; j++)
            lane[j] += FN(value)(x[(i + j) * step], y[(i + j) * step2]);
    for (int64_t j = 0; i + j < n; j++)
        lane[j] += FN(value)(x[(i + j) * step], y[(i + j) * step2]);
    for (int w = WEIR_REDUCE_LANES / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++)
            lane[j] += lane[j + w];
    return lane[0];
}

static void FN(line)(const void *x, const void *y, int64_t n, int64_t step, int64_t step2,
                     double *acc)
{
    *acc += step == 1 && step2 == 1   ? FN(lanes)(x, y, n, 1, 1)
            : step == 1 && step2 == 0 ? FN(lanes)(x, y, n, 1, 0)
                                      : FN(lanes)(x, y, n, step, step2);
}

#undef T
#undef VALUE
#undef FN
