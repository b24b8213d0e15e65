/* loss_type.h - the loops of loss_isa.c for one float type: T, M_exp, M_log, and FN(name).
 *
 * Sums run in 16 lanes, which are added as a tree; a short last group of exponentials is padded
 * with elements that add 0. */

/* No include guard: included once per type. */

#define LANES WEIR_LOSS_LANES

static inline T FN(meet)(T lane[LANES])
{
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int j = 0; j < w; j++)
            lane[j] += lane[j + w];
    return lane[0];
}

static inline void FN(load)(T to[LANES], const T *from, int64_t n, T pad)
{
    for (int j = 0; j < LANES; j++)
        to[j] = j < n ? from[j] : pad;
}

/* The maximum, ignoring NaN, which propagates through the sum instead. */
static inline T FN(top)(const T *x, int64_t n)
{
    T lane[LANES], last[LANES];
    FN(load)(lane, x, n, (T)-INFINITY);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    FN(load)(last, x + i, n - i, (T)-INFINITY);
    T top = (T)-INFINITY;
    for (int j = 0; j < LANES; j++) {
        const T v = last[j] > lane[j] ? last[j] : lane[j];
        top = v > top ? v : top;
    }
    return top;
}

static double FN(lse)(const void *at, int64_t n)
{
    const T *x = at;
    const T  top = FN(top)(x, n);
    T        lane[LANES] = {0}, last[LANES];
    int64_t  i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += M_exp(x[i + j] - top);
    FN(load)(last, x + i, n - i, (T)-INFINITY);
    for (int j = 0; j < LANES; j++)
        lane[j] += M_exp(last[j] - top);
    return (double)(top + M_log(FN(meet)(lane)));
}

static double FN(against)(const void *xs, const void *ts, int64_t n, double lse)
{
    const T *x = xs, *t = ts, l = (T)lse;
    T        lane[LANES] = {0};
    int64_t  i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += t[i + j] * (l - x[i + j]);
    for (int64_t j = 0; i + j < n; j++)
        lane[j] += t[i + j] * (l - x[i + j]);
    return (double)FN(meet)(lane);
}

static double FN(total)(const void *ts, int64_t n)
{
    const T *t = ts;
    T        lane[LANES] = {0};
    int64_t  i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += t[i + j];
    for (int64_t j = 0; i + j < n; j++)
        lane[j] += t[i + j];
    return (double)FN(meet)(lane);
}

static void FN(grad)(const void *xs, const void *ts, int64_t n, double lse, double a, double b,
                     void *to)
{
    const T *x = xs, *t = ts, l = (T)lse, p = (T)a, q = (T)b;
    T       *dx = to;
    if (t)
        for (int64_t i = 0; i < n; i++)
            dx[i] = M_exp(x[i] - l) * p - t[i] * q;
    else
        for (int64_t i = 0; i < n; i++)
            dx[i] = M_exp(x[i] - l) * p;
}

#undef LANES
#undef T
#undef M_exp
#undef M_log
#undef FN
