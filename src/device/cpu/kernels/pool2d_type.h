/* pool2d_type.h - the loops of pool2d_isa.c for one float type T: I is the integer of its size,
 * FN(name) the suffix.
 *
 * Each pass over the channels takes four cells, so 2 x 2 windows need one pass and 3 x 3 three. */

/* No include guard: included once per type. */

#define BLOCK 256       /* channels whose winners are kept as I */

/* A later cell wins only if it is larger, or NaN (of several NaNs the last, as in PyTorch). */
static inline __attribute__((always_inline)) void FN(take)(T v, I place, T *best, I *winner)
{
    const bool won = v > *best || v != v;
    *best = won ? v : *best;
    *winner = won ? place : *winner;
}

/* If the last group has fewer than four cells, its last cell is repeated, which changes nothing. */
static void FN(max_block)(const weir_pool_cell *cell, int64_t n, int64_t at, int64_t c,
                          T *restrict y, uint8_t *restrict winner)
{
    I place[BLOCK];
    for (int64_t k = 0; k < n; k += 4) {
        const weir_pool_cell *p0 = cell + k, *p1 = k + 1 < n ? p0 + 1 : p0;
        const weir_pool_cell *p2 = k + 2 < n ? p0 + 2 : p1, *p3 = k + 3 < n ? p0 + 3 : p2;
        const T *x0 = (const T *)p0->at + at, *x1 = (const T *)p1->at + at;
        const T *x2 = (const T *)p2->at + at, *x3 = (const T *)p3->at + at;
        const I  i0 = (I)p0->place, i1 = (I)p1->place, i2 = (I)p2->place, i3 = (I)p3->place;
        if (k == 0)
            for (int64_t j = 0; j < c; j++) {
                y[j] = x0[j];
                place[j] = i0;
            }
        for (int64_t j = 0; j < c; j++) {
            T best = y[j];
            I won = place[j];
            FN(take)(x0[j], i0, &best, &won);
            FN(take)(x1[j], i1, &best, &won);
            FN(take)(x2[j], i2, &best, &won);
            FN(take)(x3[j], i3, &best, &won);
            y[j] = best;
            place[j] = won;
        }
    }
    for (int64_t j = 0; j < c; j++)
        winner[j] = (uint8_t)place[j];
}

static void FN(max)(const weir_pool_cell *cell, int64_t n, int64_t c, void *to, uint8_t *winner)
{
    T *y = to;
    for (int64_t at = 0; at < c; at += BLOCK)
        FN(max_block)(cell, n, at, c - at < BLOCK ? c - at : BLOCK, y + at, winner + at);
}

/* y = dy where this cell won, or y += it. */
static void FN(won)(int64_t c, T *restrict y, const T *dy, const uint8_t *winner, int64_t cell,
                    bool first)
{
    const I place = (I)cell;
    if (first)
        for (int64_t j = 0; j < c; j++) {
            const T v = dy[j];
            y[j] = (I)winner[j] == place ? v : 0;
        }
    else
        for (int64_t j = 0; j < c; j++) {
            const T v = dy[j];
            y[j] += (I)winner[j] == place ? v : 0;
        }
}

/* n is 0 for a cell that no window covers. */
static void FN(max_grad)(const weir_pool_cell *cell, int64_t n, int64_t c, void *to, bool first)
{
    T *const y = to;
    for (int64_t j = 0; j < c && n == 0; j++)
        y[j] = 0;
    for (int64_t k = 0; k < n; k++)
        FN(won)(c, y, cell[k].at, cell[k].winner, cell[k].place, k == 0 && first);
}

#ifndef HAS_APART
static void FN(max_grad_apart)(const void *dys, const uint8_t *winner, int64_t windows, int64_t c,
                               int64_t place, int64_t wide, int64_t step, void *to)
{
    const T *dy = dys;
    T       *y = to;
    for (int64_t q = 0; q < windows; q++, dy += c, winner += c, y += step * c) {
        for (int64_t i = 0; i < wide; i++)
            FN(won)(c, y + i * c, dy, winner, place + i, true);
        if (step > wide)
            memset(y + wide * c, 0, (size_t)((step - wide) * c) * sizeof *y);
    }
}
#endif

static void FN(sum)(const weir_pool_cell *cell, int64_t n, int64_t c, void *to, bool first)
{
    T *restrict y = to;
    int64_t     k = 0;
    if (first)
        for (int64_t j = 0; j < c; j++)
            y[j] = 0;
    for (; k + 4 <= n; k += 4) {
        const T *x0 = cell[k].at, *x1 = cell[k + 1].at, *x2 = cell[k + 2].at, *x3 = cell[k + 3].at;
        for (int64_t j = 0; j < c; j++)
            y[j] += (x0[j] + x1[j]) + (x2[j] + x3[j]);
    }
    for (; k < n; k++) {
        const T *x = cell[k].at;
        for (int64_t j = 0; j < c; j++)
            y[j] += x[j];
    }
}

static void FN(scaled)(const weir_pool_cell *cell, int64_t n, int64_t c, void *to, bool first)
{
    T *restrict y = to;
    for (int64_t j = 0; j < c && n == 0; j++)
        y[j] = 0;
    for (int64_t k = 0; k < n; k++) {
        const T *dy = cell[k].at;
        const T  s = (T)cell[k].scale;
        if (k == 0 && first)
            for (int64_t j = 0; j < c; j++)
                y[j] = dy[j] * s;
        else
            for (int64_t j = 0; j < c; j++)
                y[j] += dy[j] * s;
    }
}

static void FN(scale)(void *to, int64_t c, double scale)
{
    T      *y = to;
    const T s = (T)scale;
    for (int64_t j = 0; j < c; j++)
        y[j] *= s;
}

#undef BLOCK
#undef HAS_APART
#undef T
#undef I
#undef FN
