/* softmax_type.h - the loops of softmax_isa.c for one float type: T, M_exp, M_log, and FN(name).
 *
 * A slice is n rows of `inner` adjacent columns, each normalised by itself. A single column is
 * summed in 16 lanes, which are added as a tree; several columns fill a vector. The largest element
 * is subtracted first, so no exponential overflows. */

/* No include guard: included once per type. */

#define LANES WEIR_SOFTMAX_LANES
#define COLS  WEIR_SOFTMAX_COLS
#define BLOCK (32 * LANES)  /* elements whose exponentials are computed together */

static inline T FN(meet)(T lane[LANES])
{
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++)
            lane[j] += lane[j + w];
    return lane[0];
}

/* ---- rows: one column ---- */

/* The maximum, ignoring NaN, which propagates through the sum instead. The last lanes may be read
 * twice. */
static inline T FN(top)(const T *x, int64_t n)
{
    T lane[LANES];
    for (int j = 0; j < LANES; j++)
        lane[j] = (T)-INFINITY;
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    const T *const last = n < LANES ? x : x + n - LANES;
    for (int j = 0; j < (n < LANES ? n : LANES); j++)
        lane[j] = last[j] > lane[j] ? last[j] : lane[j];
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++)
            lane[j] = lane[j + w] > lane[j] ? lane[j + w] : lane[j];
    return lane[0];
}

/* Adds n elements to the lanes, the first to lane 0. */
static inline void FN(add_lanes)(T lane[LANES], const T *x, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j];
    for (int j = 0; i + j < n; j++)
        lane[j] += x[i + j];
}

static inline T FN(sum)(const T *x, int64_t n)
{
    T lane[LANES] = {0};
    FN(add_lanes)(lane, x, n);
    return FN(meet)(lane);
}

/* Rows whose exponentials are computed in one loop, since short loops leave lanes empty. y may be
 * x, here and below. */
static void FN(rows)(const T *x, int64_t rows, int64_t n, T *y)
{
    for (int64_t r = 0; r < rows; r++) {
        const T *const from = x + r * n, top = FN(top)(from, n);
        T *const       to = y + r * n;
        RUN_LOOP
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i] - top;
    }
    RUN_LOOP
    for (int64_t i = 0; i < rows * n; i++)
        y[i] = M_exp(y[i]);
    for (int64_t r = 0; r < rows; r++) {
        T *const to = y + r * n;
        const T  scale = 1 / FN(sum)(to, n);
        RUN_LOOP
        for (int64_t i = 0; i < n; i++)
            to[i] *= scale;
    }
}

static void FN(log_row)(const T *x, int64_t n, T *y)
{
    const T top = FN(top)(x, n);
    T       lane[LANES] = {0}, part[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t some = n - at < BLOCK ? n - at : BLOCK;
        RUN_LOOP
        for (int64_t i = 0; i < some; i++)
            part[i] = M_exp(x[at + i] - top);
        FN(add_lanes)(lane, part, some);
    }
    const T shift = M_log(FN(meet)(lane));
    RUN_LOOP
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] - top - shift;
}

static void FN(lines)(const void *from, int64_t rows, int64_t n, bool log, void *to)
{
    const T      *x = from;
    T            *y = to;
    const int64_t together = log || n >= BLOCK ? 1 : BLOCK / n;
    for (int64_t r = 0; r < rows; r += together)
        if (log)
            FN(log_row)(x + r * n, n, y + r * n);
        else
            FN(rows)(x + r * n, rows - r < together ? rows - r : together, n, y + r * n);
}

/* softmax: dx = y (dy - sum(dy y)); its log: dx = dy - exp(y) sum(dy). */
static void FN(row_grad)(const T *dy, const T *y, int64_t n, bool log, T *dx)
{
    T       lane[LANES] = {0};
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

static void FN(lines_grad)(const void *dys, const void *ys, int64_t rows, int64_t n, bool log,
                           void *to)
{
    const T *dy = dys, *y = ys;
    T       *dx = to;
    for (int64_t r = 0; r < rows; r++)
        FN(row_grad)(dy + r * n, y + r * n, n, log, dx + r * n);
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
#undef BLOCK
#undef T
#undef M_exp
#undef M_log
#undef FN
