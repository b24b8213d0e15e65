/* layer_norm_type.h - the loops of layer_norm_isa.c for elements of type T, named FN(name).
 *
 * A segment is short, so LANES sums of type T collect few rounding errors. Their number is fixed
 * whatever the vector width, so the order of additions depends on the shape alone. */

/* No include guard: included once per type. */

/* Copies zeros: compilers fill an array with a string instruction, which takes longer. */
static inline __attribute__((always_inline)) void FN(clear)(T *lane)
{
    static const T zeros[LANES];
    memcpy(lane, zeros, sizeof zeros);
}

static inline __attribute__((always_inline)) void FN(halve)(T *lane, int w)
{
    for (int j = 0; j < w; j++)
        lane[j] += lane[j + w];
}

/* Steps of constant widths compile to a few vector additions. */
static inline __attribute__((always_inline)) double FN(meet)(T *lane)
{
    FN(halve)(lane, LANES / 2);
    FN(halve)(lane, LANES / 4);
    FN(halve)(lane, LANES / 8);
    FN(halve)(lane, LANES / 16);
    FN(halve)(lane, LANES / 32);
    return (double)lane[0];
}

static double FN(sum)(int64_t n, const void *at)
{
    const T *x = at;
    T        s[LANES];
    int64_t  i = 0;

    FN(clear)(s);
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            s[j] += x[i + j];
    for (int j = 0; i + j < n; j++)
        s[j] += x[i + j];
    return FN(meet)(s);
}

static void FN(deviations)(int64_t n, const void *at, double of, double *sum)
{
    const T *x = at;
    const T  mean = (T)of;
    T        s[LANES], q[LANES];
    int64_t  i = 0;

    FN(clear)(s);
    FN(clear)(q);
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            const T d = x[i + j] - mean;
            s[j] += d;
            q[j] += d * d;
        }
    for (int j = 0; i + j < n; j++) {
        const T d = x[i + j] - mean;
        s[j] += d;
        q[j] += d * d;
    }
    sum[0] += FN(meet)(s);
    sum[1] += FN(meet)(q);
}

static void FN(apply)(int64_t n, const void *at, double of, double by, const void *scales,
                      const void *biases, void *to)
{
    const T *x = at, *scale = scales, *bias = biases;
    const T  mean = (T)of, rstd = (T)by;
    T       *y = to;

    RUN_LOOP
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * rstd * scale[i] + bias[i];
}

static void FN(grad_sums)(int64_t n, const weir_layer_norm_row *r, const void *scales, double *sum)
{
    const T *dy = r->dy, *x = r->x, *scale = scales;
    const T  mean = (T)r->mean, rstd = (T)r->rstd;
    T        s[LANES], q[LANES];
    int64_t  i = 0;

    FN(clear)(s);
    FN(clear)(q);
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            const T g = dy[i + j] * scale[i + j];
            s[j] += g;
            q[j] += g * ((x[i + j] - mean) * rstd);
        }
    for (int j = 0; i + j < n; j++) {
        const T g = dy[i + j] * scale[i + j];
        s[j] += g;
        q[j] += g * ((x[i + j] - mean) * rstd);
    }
    sum[0] += FN(meet)(s);
    sum[1] += FN(meet)(q);
}

/* dx of element i of a row. */
static inline __attribute__((always_inline)) T FN(dx)(T dy, T xhat, T scale,
                                                      const weir_layer_norm_row *r)
{
    return (T)r->rstd * (dy * scale - (T)r->g - xhat * (T)r->g_xhat);
}

static void FN(grad_of_one)(int64_t n, const weir_layer_norm_row *r, const T *scale, double *dscale,
                            double *dbias)
{
    const T *dy = r->dy, *x = r->x;
    const T  mean = (T)r->mean, rstd = (T)r->rstd;
    T       *dx = r->dx;

    RUN_LOOP
    for (int64_t i = 0; i < n; i++) {
        const T g = dy[i], xhat = (x[i] - mean) * rstd;
        dx[i] = FN(dx)(g, xhat, scale[i], r);
        dscale[i] += (double)(g * xhat);
        dbias[i] += (double)g;
    }
}

static void FN(grad)(int64_t n, int rows, const weir_layer_norm_row *r, const void *scales,
                     double *dscale, double *dbias)
{
    const T                  *scale = scales;
    const weir_layer_norm_row a = r[0], b = r[1], c = r[2], d = r[3];

    if (rows < WEIR_LAYER_NORM_ROWS) {
        for (int k = 0; k < rows; k++)
            FN(grad_of_one)(n, &r[k], scale, dscale, dbias);
        return;
    }
    const T *xa = a.x, *xb = b.x, *xc = c.x, *xd = d.x;
    const T *ga = a.dy, *gb = b.dy, *gc = c.dy, *gd = d.dy;
    T       *da = a.dx, *db = b.dx, *dc = c.dx, *dd = d.dx;
    RUN_LOOP
    for (int64_t i = 0; i < n; i++) {
        const T g0 = ga[i], g1 = gb[i], g2 = gc[i], g3 = gd[i];
        const T h0 = (xa[i] - (T)a.mean) * (T)a.rstd, h1 = (xb[i] - (T)b.mean) * (T)b.rstd;
        const T h2 = (xc[i] - (T)c.mean) * (T)c.rstd, h3 = (xd[i] - (T)d.mean) * (T)d.rstd;
        da[i] = FN(dx)(g0, h0, scale[i], &a);
        db[i] = FN(dx)(g1, h1, scale[i], &b);
        dc[i] = FN(dx)(g2, h2, scale[i], &c);
        dd[i] = FN(dx)(g3, h3, scale[i], &d);
        dscale[i] += (double)((g0 * h0 + g1 * h1) + (g2 * h2 + g3 * h3));
        dbias[i] += (double)((g0 + g1) + (g2 + g3));
    }
}

#undef T
#undef FN
