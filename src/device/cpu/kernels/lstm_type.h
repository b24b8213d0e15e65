/* lstm_type.h - the loops of lstm_isa.c for one float type: T, EXP, TANH and FN(name). */

/* No include guard: included once per type. */

static void FN(cell_row)(int64_t n, T *restrict i, T *restrict f, T *restrict g, T *restrict o,
                         const T *restrict before, T *restrict c, T *restrict h)
{
    for (int64_t j = 0; j < n; j++) {
        i[j] = 1 / (1 + EXP(-i[j]));
        f[j] = 1 / (1 + EXP(-f[j]));
        g[j] = TANH(g[j]);
        o[j] = 1 / (1 + EXP(-o[j]));
        c[j] = f[j] * before[j] + i[j] * g[j];
        h[j] = o[j] * TANH(c[j]);
    }
}

static void FN(cell)(const weir_lstm_patch *p, void *gates, const void *before, void *c, void *h)
{
    const int64_t w = p->hidden;
    for (int64_t r = 0; r < p->rows; r++) {
        T *const g = (T *)gates + r * 4 * w;
        FN(cell_row)(p->cols, g, g + w, g + 2 * w, g + 3 * w, (const T *)before + r * w,
                     (T *)c + r * w, (T *)h + r * w);
    }
}

/* One row of back. dy and dcell may be NULL, which the constants has_dy and has_dcell say so that
 * the loop has no choices: compilers do not make vectors of conditional loads. */
static inline __attribute__((always_inline)) void FN(back_row)(
    int64_t n, int64_t w, const T *gate, const T *last, const T *cell, const T *dy, bool has_dy,
    const T *dcell, bool has_dcell, const T *from, T *carry, T *to)
{
    RUN_LOOP
    for (int64_t j = 0; j < n; j++) {
        const T i = gate[j], f = gate[w + j], g = gate[2 * w + j], o = gate[3 * w + j];
        const T tanh_c = TANH(cell[j]);
        const T d = has_dy ? from[j] + dy[j] : from[j];
        const T through = carry[j] + d * o * (1 - tanh_c * tanh_c);
        const T sum = has_dcell ? through + dcell[j] : through;
        to[j] = sum * g * i * (1 - i);
        to[w + j] = sum * last[j] * f * (1 - f);
        to[2 * w + j] = sum * i * (1 - g * g);
        to[3 * w + j] = d * tanh_c * o * (1 - o);
        carry[j] = sum * f;
    }
}

/* gates and dgates may share memory: each element is read before it is written. */
static void FN(back)(const weir_lstm_patch *p, const void *gates, const void *before, const void *c,
                     const void *dh, const void *dc, const void *carry_h, void *carry_c,
                     void *dgates)
{
    const int64_t w = p->hidden;
    for (int64_t r = 0; r < p->rows; r++) {
        const T *const gate = (const T *)gates + r * 4 * w, *const cell = (const T *)c + r * w;
        const T *const last = (const T *)before + r * w, *const from = (const T *)carry_h + r * w;
        const T *const dy = dh ? (const T *)dh + r * w : NULL;
        const T *const dcell = dc ? (const T *)dc + r * w : NULL;
        T *const       carry = (T *)carry_c + r * w, *const to = (T *)dgates + r * 4 * w;
#define BACK_ROW(has_dy, has_dcell)                                                                \
    FN(back_row)(p->cols, w, gate, last, cell, dy, has_dy, dcell, has_dcell, from, carry, to)
        if (dy && dcell)
            BACK_ROW(true, true);
        else if (dy)
            BACK_ROW(true, false);
        else if (dcell)
            BACK_ROW(false, true);
        else
            BACK_ROW(false, false);
#undef BACK_ROW
    }
}

#undef T
#undef EXP
#undef TANH
#undef FN
