/* attention_loops_type.h - the loops of attention_loops_isa.c for one float type: T, EXP, LOG and
 * FN(name).
 *
 * A row is summed in LANES partial sums, whatever the vector width, which are then added as a
 * tree. */

/* No include guard: included once per type. */

static int64_t FN(seen_of)(const weir_attention_block *b, int64_t r)
{
    const int64_t n = b->seen + r;
    return n < 0 ? 0 : n < b->limit ? n : b->limit;
}

static T FN(add_up)(T *lane)
{
    for (int w = LANES / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            lane[i] += lane[i + w];
    return lane[0];
}

static T FN(largest)(const T *s, int64_t n, T most)
{
    T lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = most;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] = s[j + i] > lane[i] ? s[j + i] : lane[i];
    for (int i = 0; j < n; i++, j++)
        lane[i] = s[j] > lane[i] ? s[j] : lane[i];
    for (int i = 0; i < LANES; i++)
        most = lane[i] > most ? lane[i] : most;
    return most;
}

static T FN(sum_of)(const T *s, int64_t n)
{
    T       lane[LANES] = {0};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int i = 0; i < LANES; i++)
            lane[i] += s[j + i];
    for (int i = 0; j < n; i++, j++)
        lane[i] += s[j];
    return FN(add_up)(lane);
}

static void FN(mask)(const weir_attention_block *b, void *scores, const void *mask, bool truth,
                     int64_t row, int64_t column)
{
    const T scale = (T)b->scale;
    for (int64_t r = 0; r < b->rows; r++) {
        T *const             s = (T *)scores + r * b->cols;
        const int64_t        n = FN(seen_of)(b, r);
        const T *const       add = (const T *)mask + r * row;
        const uint8_t *const seen = (const uint8_t *)mask + r * row;
        if (truth)
            for (int64_t j = 0; j < n; j++)
                s[j] = seen[j * column] ? s[j] * scale : -(T)INFINITY;
        else if (column == 1)
            for (int64_t j = 0; j < n; j++)
                s[j] = s[j] * scale + add[j];
        else
            for (int64_t j = 0; j < n; j++)
                s[j] = s[j] * scale + add[j * column];
    }
}

static void FN(soften)(const weir_attention_block *b, void *scores, void *mosts, void *sums,
                       void *ys, int64_t e, int64_t row)
{
    const T scale = (T)b->scale;
    for (int64_t r = 0; r < b->rows; r++) {
        T *const      s = (T *)scores + r * b->cols, *const y = (T *)ys + r * row;
        T *const      most = (T *)mosts + r, *const sum = (T *)sums + r;
        const int64_t n = FN(seen_of)(b, r);
        for (int64_t j = 0; j < n; j++)
            s[j] *= scale;
        for (int64_t j = n; j < b->cols; j++)
            s[j] = 0;
        if (n == 0)
            continue;
        const T now = FN(largest)(s, n, *most), fix = EXP(*most - now);
        if (now == -(T)INFINITY) {      /* nothing but hidden columns, so far; or NaN */
            for (int64_t j = 0; j < n; j++)
                s[j] = s[j] == now ? 0 : s[j];
            *sum += FN(sum_of)(s, n);
            continue;
        }
        for (int64_t j = 0; j < n; j++)
            s[j] = EXP(s[j] - now);
        *sum = *sum * fix + FN(sum_of)(s, n);
        *most = now;
        for (int64_t j = 0; j < e; j++)
            y[j] *= fix;
    }
}

static void FN(finish)(int64_t rows, const void *mosts, const void *sums, void *ys, int64_t e,
                       int64_t row, void *lses)
{
    for (int64_t r = 0; r < rows; r++) {
        T *const y = (T *)ys + r * row;
        const T  sum = ((const T *)sums)[r], share = sum == 0 ? 0 : 1 / sum;
        for (int64_t j = 0; j < e; j++)
            y[j] *= share;
        ((T *)lses)[r] = ((const T *)mosts)[r] + LOG(sum);
    }
}

static void FN(delta)(int64_t rows, const void *dys, int64_t dy_row, const void *ys, int64_t y_row,
                      int64_t e, void *deltas)
{
    for (int64_t r = 0; r < rows; r++) {
        const T *const dy = (const T *)dys + r * dy_row, *const y = (const T *)ys + r * y_row;
        T              lane[LANES] = {0};
        int64_t        j = 0;
        for (; j + LANES <= e; j += LANES)
            for (int i = 0; i < LANES; i++)
                lane[i] += dy[j + i] * y[j + i];
        for (int i = 0; j < e; i++, j++)
            lane[i] += dy[j] * y[j];
        ((T *)deltas)[r] = FN(add_up)(lane);
    }
}

static void FN(back)(const weir_attention_block *b, void *scores, void *dps, const void *lses,
                     const void *deltas)
{
    const T scale = (T)b->scale, slope = (T)b->slope;
    for (int64_t r = 0; r < b->rows; r++) {
        T *const      s = (T *)scores + r * b->cols, *const dp = (T *)dps + r * b->cols;
        const T       lse = ((const T *)lses)[r], delta = ((const T *)deltas)[r];
        const int64_t n = lse == -(T)INFINITY ? 0 : FN(seen_of)(b, r);
        for (int64_t j = 0; j < n; j++) {
            s[j] = EXP(s[j] * scale - lse);
            dp[j] = s[j] * (dp[j] - delta) * slope;
        }
        for (int64_t j = n; j < b->cols; j++)
            s[j] = dp[j] = 0;
    }
}

static void FN(drop)(const weir_attention_block *b, uint64_t key, uint64_t first, uint64_t step,
                     double p, void *factors)
{
    const T kept = p < 1 ? (T)(1 / (1 - p)) : 0;
    for (int64_t r = 0; r < b->rows; r++) {
        uint32_t word[WEIR_ATTENTION_SIDE];
        T *const f = (T *)factors + r * b->cols;
        draw(key, first + (uint64_t)r * step, b->cols, word);
        for (int64_t j = 0; j < b->cols; j++)
            f[j] = (double)weir_uniform_from(word[j]) >= p ? kept : 0;
    }
}

static void FN(times)(int64_t n, const void *factors, void *x)
{
    for (int64_t j = 0; j < n; j++)
        ((T *)x)[j] *= ((const T *)factors)[j];
}

static void FN(mask_sum)(const weir_attention_block *b, void *dps, double scale, void *mask,
                         int64_t row, int64_t column)
{
    for (int64_t r = 0; r < b->rows; r++) {
        T *const      dp = (T *)dps + r * b->cols, *const to = (T *)mask + r * row;
        const int64_t n = FN(seen_of)(b, r);
        for (int64_t j = 0; j < n; j++)
            to[j * column] += dp[j];
        for (int64_t j = 0; j < n; j++)
            dp[j] *= (T)scale;
    }
}

static bool FN(finite)(int64_t rows, int64_t columns, const void *at, int64_t row)
{
    T lane[LANES] = {0};    /* 0; NaN once an element was not finite */
    for (int64_t r = 0; r < rows; r++) {
        const T *const x = (const T *)at + r * row;
        int64_t        j = 0;
        for (; j + LANES <= columns; j += LANES)
            for (int i = 0; i < LANES; i++)
                lane[i] += x[j + i] * 0;
        for (int i = 0; j < columns; i++, j++)
            lane[i] += x[j] * 0;
    }
    return FN(add_up)(lane) == 0;
}

static void FN(zero_nonfinite)(int64_t rows, int64_t columns, const void *at, int64_t row, void *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++) {
            const T x = ((const T *)at)[r * row + j];
            ((T *)to)[r * columns + j] = x * 0 == 0 ? x : 0;
        }
}

static void FN(add_nonfinite)(const weir_attention_block *b, bool turned, const void *scores,
                              const void *xs, int64_t columns, int64_t row, int64_t y_row,
                              void *ys)
{
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t c = 0; c < FN(seen_of)(b, r); c++) {
            const T        s = ((const T *)scores)[r * b->cols + c];
            const T *const x = (const T *)xs + (turned ? r : c) * row;
            T *const       y = (T *)ys + (turned ? c : r) * y_row;
            for (int64_t j = 0; j < columns; j++)
                if (!(x[j] * 0 == 0))
                    y[j] += s * x[j];
        }
}

#undef T
#undef EXP
#undef LOG
#undef FN
