/* attention_type.h - the loops of attention_isa.c for one float type: T, EXP, LOG and FN(name).
 *
 * A row is summed in LANES partial sums, whatever the vector width, which are then added as a
 * tree. */

/* No include guard: included once per type. */

static int64_t FN(seen_of)(const weir_attention_block *b, int64_t r)
{
    const int64_t n = b->seen + r;
    return n < 0 ? 0 : n < b->cols ? n : b->cols;
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

static void FN(delta)(int64_t rows, const void *dys, const void *ys, int64_t e, int64_t row,
                      void *deltas)
{
    for (int64_t r = 0; r < rows; r++) {
        const T *const dy = (const T *)dys + r * row, *const y = (const T *)ys + r * row;
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
    const T scale = (T)b->scale;
    for (int64_t r = 0; r < b->rows; r++) {
        T *const      s = (T *)scores + r * b->cols, *const dp = (T *)dps + r * b->cols;
        const T       lse = ((const T *)lses)[r], delta = ((const T *)deltas)[r];
        const int64_t n = FN(seen_of)(b, r);
        for (int64_t j = 0; j < n; j++) {
            s[j] = EXP(s[j] * scale - lse);
            dp[j] = s[j] * (dp[j] - delta) * scale;
        }
        for (int64_t j = n; j < b->cols; j++)
            s[j] = dp[j] = 0;
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
                              const void *xs, int64_t columns, int64_t row, void *ys)
{
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t c = 0; c < FN(seen_of)(b, r); c++) {
            const T        s = ((const T *)scores)[r * b->cols + c];
            const T *const x = (const T *)xs + (turned ? r : c) * row;
            T *const       y = (T *)ys + (turned ? c : r) * row;
            for (int64_t j = 0; j < columns; j++)
                if (!(x[j] * 0 == 0))
                    y[j] += s * x[j];
        }
}

#undef T
#undef EXP
#undef LOG
#undef FN
