/* softmax_type.h - the loops of softmax_isa.c for one float type: T, M_exp, M_log, and FN(name).
 *
 * A slice is n rows of `inner` adjacent columns, each normalised by itself. A single column is
 * summed in 16 lanes, which are added as a tree; several columns fill a vector. The largest element
 * is subtracted first, so no exponential overflows. */

/* No include guard: included once per type. */

#define LANES WEIR_SOFTMAX_LANES
#define COLS  WEIR_SOFTMAX_COLS

static inline T FN(meet)(T lane[LANES])
{
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++)
            lane[j] += lane[j + w];
    return lane[0];
}

/* ---- one column ---- */

/* The maximum, ignoring NaN, which propagates through the sum instead. */
static inline T FN(top)(const T *x, int64_t n)
{
    T       lane[LANES], top = (T)-INFINITY;
    int64_t i = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = (T)-INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (int j = 0; i + j < n; j++)
        lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (int j = 0; j < LANES; j++)
        top = lane[j] > top ? lane[j] : top;
    return top;
}

/* Sum of exp(x - top), which are written to y, unless it is NULL. y may be x, here and below. */
static inline T FN(mass)(const T *x, int64_t n, T top, T *y)
{
    T lane[LANES] = {0}, part[LANES];
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t left = n - i < LANES ? n - i : LANES;
        if (left == LANES)
            memcpy(part, x + i, sizeof part);
        else
            for (int j = 0; j < LANES; j++)
                part[j] = j < left ? x[i + j] : (T)-INFINITY;
        for (int j = 0; j < LANES; j++) {
            part[j] = M_exp(part[j] - top);
            lane[j] += part[j];
        }
        if (y)
            memcpy(y + i, part, (size_t)left * sizeof *y);
    }
    return FN(meet)(lane);
}

static void FN(line)(const void *from, int64_t n, bool log, void *to)
{
    const T *x = from, top = FN(top)(x, n);
    T       *y = to;
    if (log) {
        const T shift = M_log(FN(mass)(x, n, top, NULL));
        RUN_LOOP
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] - top - shift;
    } else {
        const T scale = 1 / FN(mass)(x, n, top, y);
        for (int64_t i = 0; i < n; i++)
            y[i] *= scale;
    }
}

/* softmax: dx = y (dy - sum(dy y)); its log: dx = dy - exp(y) sum(dy). */
static void FN(line_grad)(const void *dys, const void *ys, int64_t n, bool log, void *to)
{
    const T *dy = dys, *y = ys;
    T       *dx = to, lane[LANES] = {0};
    int64_t  i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += log ? dy[i + j] : dy[i + j] * y[i + j];
    for (int j = 0; i + j < n; j++)
        lane[j] += log ? dy[i + j] : dy[i + j] * y[i + j];
    const T sum = FN(meet)(lane);
    if (log) {
        RUN_LOOP
        for (i = 0; i < n; i++)
            dx[i] = dy[i] - M_exp(y[i]) * sum;
    } else {
        RUN_LOOP
        for (i = 0; i < n; i++)
            dx[i] = y[i] * (dy[i] - sum);
    }
}

/* ---- several columns ---- */

static void FN(columns)(const void *from, int64_t n, int64_t inner, int64_t cols, bool log,
                        void *to)
{
    const T *x = from;
    T       *y = to, top[COLS], sum[COLS];
    for (int64_t c = 0; c < cols; c++) {
        top[c] = (T)-INFINITY;
        sum[c] = 0;
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < cols; c++)
            top[c] = x[r * inner + c] > top[c] ? x[r * inner + c] : top[c];
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < cols; c++)
            sum[c] += M_exp(x[r * inner + c] - top[c]);
    for (int64_t c = 0; c < cols; c++)
        sum[c] = log ? M_log(sum[c]) : 1 / sum[c];
    for (int64_t r = 0; r < n; r++) {
        const T *from_r = x + r * inner;
        T       *to_r = y + r * inner;
        if (log) {
            RUN_LOOP
            for (int64_t c = 0; c < cols; c++)
                to_r[c] = from_r[c] - top[c] - sum[c];
        } else {
            RUN_LOOP
            for (int64_t c = 0; c < cols; c++)
                to_r[c] = M_exp(from_r[c] - top[c]) * sum[c];
        }
    }
}

static void FN(columns_grad)(const void *dys, const void *ys, int64_t n, int64_t inner,
                             int64_t cols, bool log, void *to)
{
    const T *dy = dys, *y = ys;
    T       *dx = to, sum[COLS];
    for (int64_t c = 0; c < cols; c++)
        sum[c] = 0;
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < cols; c++)
            sum[c] += log ? dy[r * inner + c] : dy[r * inner + c] * y[r * inner + c];
    for (int64_t r = 0; r < n; r++, dy += inner, y += inner, dx += inner) {
        if (log) {
            RUN_LOOP
            for (int64_t c = 0; c < cols; c++)
                dx[c] = dy[c] - M_exp(y[c]) * sum[c];
        } else {
            RUN_LOOP
            for (int64_t c = 0; c < cols; c++)
                dx[c] = y[c] * (dy[c] - sum[c]);
        }
    }
}

#undef LANES
#undef COLS
#undef T
#undef M_exp
#undef M_log
#undef FN
