/* reduce_type.h - the loops of reduce_isa.c for one element type and one combining operation.
 *
 * Included once per pair, with T the element type as stored, READ(v) its value where that is
 * another (halves), L the type of lanes, A the 8-byte accumulator across pieces, OP(a, b) with its
 * neutral element START, and FN(name). A piece is short, so f32
 * lanes collect few rounding errors; pieces are combined in A (f64). The number of lanes is fixed,
 * whatever the vector width, so the order of additions depends on the shape alone. */

/* No include guard: included once per pair. */

#ifndef READ
#define READ(v) (v)
#endif

static inline L FN(op)(L a, L b)
{
    return OP(a, b);
}

static inline A FN(meet)(A a, A b)
{
    return OP(a, b);
}

/* lane[c] = OP over `rows` rows, eight at a time as a tree, so that lanes are stored rarely. */
static inline __attribute__((always_inline)) void FN(rows)(const T *x, int64_t rows, int64_t row,
                                                           int64_t cols, int64_t col, L *lane)
{
    for (int64_t c = 0; c < cols; c++)
        lane[c] = START;
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8, x += 8 * row)
        for (int64_t c = 0; c < cols; c++) {
            const T *p = x + c * col;
            const L  a = FN(op)((L)READ(p[0]), (L)READ(p[row]));
            const L  b = FN(op)((L)READ(p[2 * row]), (L)READ(p[3 * row]));
            const L  d = FN(op)((L)READ(p[4 * row]), (L)READ(p[5 * row]));
            const L  e = FN(op)((L)READ(p[6 * row]), (L)READ(p[7 * row]));
            lane[c] = FN(op)(lane[c], FN(op)(FN(op)(a, b), FN(op)(d, e)));
        }
    for (; r < rows; r++, x += row)
        for (int64_t c = 0; c < cols; c++)
            lane[c] = FN(op)(lane[c], (L)READ(x[c * col]));
}

/* Narrow contiguous rows are folded: k rows are read as one of k * cols, whose parts are combined
 * at the end. */
static void FN(columns)(const void *at, int64_t rows, int64_t row, int64_t cols, int64_t col,
                        void *to)
{
    const T      *x = at;
    A            *acc = to;
    L             lane[WEIR_REDUCE_COLS];
    const int64_t fold = col == 1 && row == cols ? weir_reduce_fold(cols) : 1;
    const int64_t lines = rows / fold;
    if (col == 1)
        FN(rows)(x, lines, row * fold, cols * fold, 1, lane);
    else
        FN(rows)(x, lines, row, cols, col, lane);
    for (int64_t f = 0; f < fold; f++)
        for (int64_t c = 0; c < cols; c++)
            acc[c] = FN(meet)(acc[c], (A)lane[f * cols + c]);
    for (int64_t r = lines * fold; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            acc[c] = FN(meet)(acc[c], (A)READ(x[r * row + c]));
}

static inline __attribute__((always_inline)) L FN(lanes)(const T *x, int64_t n, int64_t step)
{
    L lane[WEIR_REDUCE_LANES];
    for (int j = 0; j < WEIR_REDUCE_LANES; j++)
        lane[j] = START;
    int64_t i = 0;
    for (; i + WEIR_REDUCE_LANES <= n; i += WEIR_REDUCE_LANES)
        for (int j = 0; j < WEIR_REDUCE_LANES; j++)
            lane[j] = FN(op)(lane[j], (L)READ(x[(i + j) * step]));
    for (int64_t j = 0; i + j < n; j++)
        lane[j] = FN(op)(lane[j], (L)READ(x[(i + j) * step]));
    for (int w = WEIR_REDUCE_LANES / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++)
            lane[j] = FN(op)(lane[j], lane[j + w]);
    return lane[0];
}

static void FN(line)(const void *at, int64_t n, int64_t step, void *to)
{
    const T *x = at;
    A       *acc = to;
    L        sum = START;
    if (n < WEIR_REDUCE_LANES)
        for (int64_t i = 0; i < n; i++)
            sum = FN(op)(sum, (L)READ(x[i * step]));
    else
        sum = step == 1 ? FN(lanes)(x, n, 1) : FN(lanes)(x, n, step);
    *acc = FN(meet)(*acc, (A)sum);
}

#undef T
#undef READ
#undef L
#undef A
#undef OP
#undef START
#undef FN
