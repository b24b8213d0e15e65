/* reduce.c - tests of all that reduces: the emulated card against the CPU over awkward shapes, the
 * same bits from run to run, and the cuts of work, which are functions of shapes. */
#include <float.h>
#include <stdlib.h>

#include "check.h"
#include "core/attr.h"
#include "core/half.h"
#include "device/cuda/norm_plan.h"
#include "graph/op/op.h"
#include "weir.h"

enum { CPU, CARD, DEVICES, INPUTS = 4, OUTPUTS = 3 };

static weir_device *device[DEVICES];

static bool open_both(void)
{
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    device[CPU] = weir_device_open("cpu", NULL);
    device[CARD] = weir_device_open("cuda", NULL);
    return CHECK(device[CPU] && device[CARD]);
}

static void close_both(void)
{
    weir_device_close(device[CPU]);
    weir_device_close(device[CARD]);
}

/* ---- values ---- */

static int64_t count_of(const weir_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++)
        n *= d->dim[i];
    return n;
}

static void put(void *at, weir_dtype t, int64_t i, double v)
{
    switch (t) {
    case WEIR_F32:  ((float *)at)[i] = (float)v; break;
    case WEIR_F64:  ((double *)at)[i] = v; break;
    case WEIR_I32:  ((int32_t *)at)[i] = (int32_t)v; break;
    case WEIR_I64:  ((int64_t *)at)[i] = (int64_t)v; break;
    case WEIR_U8:   ((uint8_t *)at)[i] = (uint8_t)(int)v; break;
    case WEIR_F16:  ((uint16_t *)at)[i] = weir_to_f16((float)v); break;
    default:        ((uint16_t *)at)[i] = weir_to_bf16((float)v);
    }
}

static double get(const void *at, weir_dtype t, int64_t i)
{
    switch (t) {
    case WEIR_F32:  return (double)((const float *)at)[i];
    case WEIR_F64:  return ((const double *)at)[i];
    case WEIR_I32:  return ((const int32_t *)at)[i];
    case WEIR_I64:  return (double)((const int64_t *)at)[i];
    case WEIR_U8:   return ((const uint8_t *)at)[i];
    case WEIR_F16:  return (double)weir_from_f16(((const uint16_t *)at)[i]);
    default:        return (double)weir_from_bf16(((const uint16_t *)at)[i]);
    }
}

/* Normalised mean square error allowed; integers are exact. */
static double allowed(weir_dtype t)
{
    return t == WEIR_F32 ? 1e-12 : t == WEIR_F64 ? 1e-28 : t == WEIR_F16 ? 1e-7
         : t == WEIR_BF16 ? 1e-5 : 0;
}

static void compare(const char *what, const weir_desc *d, const void *got, const void *want)
{
    const int64_t n = count_of(d);
    double        error = 0, size = 0;
    int64_t       wrong = 0;
    char          text[WEIR_DESC_TEXT];

    for (int64_t i = 0; i < n; i++) {
        const double a = get(got, d->dtype, i), b = get(want, d->dtype, i);
        if (a == b || (isnan(a) && isnan(b)))
            size += isfinite(b) ? b * b : 0;
        else if (!isfinite(a) || !isfinite(b))
            wrong++;
        else {
            error += (a - b) * (a - b);
            size += b * b;
        }
    }
    const double nmse = error > 0 ? error / size : 0;
    check_that(wrong == 0 && nmse <= allowed(d->dtype), __FILE__, __LINE__,
               "%s to %s: NMSE %g, %lld elements infinite or NaN in one only", what,
               weir_desc_text(d, text), nmse, (long long)wrong);
}

/* ---- a call on both devices ---- */

typedef struct trial {
    weir_op     op;
    const char *what;
    int         nin, nout;
    weir_desc   in[INPUTS];
    void       *data[INPUTS];           /* row-major */
    const int  *order;                  /* of axes of input 0, as the op sees it; NULL: as it is */
    const void *attr;
    size_t      attr_bytes;
} trial;

/* Results in row-major order; out[i] must be freed. */
static bool run_on(const trial *t, int on, weir_desc desc[OUTPUTS], void *out[OUTPUTS])
{
    weir_tensor *in[INPUTS], *seen[INPUTS], *y[WEIR_MAX_OUT] = {NULL};
    bool         ok = true;

    weir_scope_begin(device[on]);
    for (int i = 0; i < t->nin; i++) {
        in[i] = seen[i] = weir_input(device[on], t->in[i]);
        ok = ok && weir_write(in[i], t->data[i], weir_tensor_bytes(in[i])) == WEIR_OK;
    }
    if (t->order)
        seen[0] = weir_transpose(in[0], t->order);
    ok = ok && weir_record(t->op, t->nin, seen, t->attr, t->attr_bytes, y) == WEIR_OK;
    for (int i = 0; i < t->nout && ok; i++) {
        desc[i] = weir_tensor_desc(y[i]);
        out[i] = malloc(weir_tensor_bytes(y[i]) + 1);
        ok = weir_read(y[i], out[i], weir_tensor_bytes(y[i])) == WEIR_OK;
    }
    check_that(ok, __FILE__, __LINE__, "%s on device %d: %s", t->what, on, weir_error());
    for (int i = 0; i < t->nin; i++)
        weir_release(in[i]);
    weir_scope_end(device[on]);
    return ok;
}

/* CPU and card agree, and the card with itself. */
static void try_call(const trial *t)
{
    weir_desc desc[OUTPUTS];
    void     *want[OUTPUTS] = {NULL}, *got[OUTPUTS] = {NULL}, *again[OUTPUTS] = {NULL};

    if (run_on(t, CPU, desc, want) && run_on(t, CARD, desc, got) && run_on(t, CARD, desc, again))
        for (int i = 0; i < t->nout; i++) {
            const size_t bytes = (size_t)count_of(&desc[i]) * weir_dtype_size(desc[i].dtype);
            compare(t->what, &desc[i], got[i], want[i]);
            CHECK_BITS(got[i], again[i], bytes);
        }
    for (int i = 0; i < OUTPUTS; i++) {
        free(want[i]);
        free(got[i]);
        free(again[i]);
    }
}

static void *drawn(const weir_desc *d, double lo, double hi)
{
    void *const at = malloc((size_t)count_of(d) * weir_dtype_size(d->dtype) + 1);
    for (int64_t i = 0; i < count_of(d); i++)
        put(at, d->dtype, i, check_real(lo, hi));
    return at;
}

/* ---- one input, axes reduced ---- */

typedef struct family {
    weir_op     op;
    const char *name;
    double      lo, hi;
    unsigned    types;
} family;

enum {
    FLOATS = 1 << WEIR_F32 | 1 << WEIR_F64,
    ANY = FLOATS | 1 << WEIR_F16 | 1 << WEIR_BF16,
    NUMBERS = ANY | 1 << WEIR_I32 | 1 << WEIR_I64 | 1 << WEIR_U8
};

static const family families[] = {
    {WEIR_OP_SUM, "sum", -1, 2, NUMBERS},
    {WEIR_OP_AMAX, "amax", 0, 200, NUMBERS},
    {WEIR_OP_AMIN, "amin", 0, 200, NUMBERS},
    {WEIR_OP_PROD, "prod", 0.999, 1.001, NUMBERS},
    {WEIR_OP_ARGMAX, "argmax", 0, 90, NUMBERS},
    {WEIR_OP_ARGMIN, "argmin", 0, 90, NUMBERS},
    {WEIR_OP_NORM1, "norm1", -1, 2, FLOATS},
    {WEIR_OP_NORM2, "norm2", -1, 2, FLOATS},
};

enum { FAMILIES = sizeof families / sizeof *families };

/* x is drawn once for all families that take the type; few: sums and places alone. */
static void try_reductions(const weir_desc *x, const int *order, uint64_t dims, bool few)
{
    for (int f = 0; f < FAMILIES; f++) {
        const family *const a = &families[f];
        if (!(a->types >> x->dtype & 1) ||
            (few && a->op != WEIR_OP_SUM && a->op != WEIR_OP_ARGMAX))
            continue;
        const weir_reduce_attr attr = {.dims = dims, .keep = f % 2, .scale = 1};
        trial t = {a->op, a->name, 1, 1, {*x}, {drawn(x, a->lo, a->hi)}, order, &attr, sizeof attr};
        try_call(&t);
        free(t.data[0]);
    }
}

static const int64_t sizes[] = {1, 31, 32, 33, 1023, 1025, 70000};
enum { SIZES = sizeof sizes / sizeof *sizes };

CASE(lines_and_all_to_one)
{
    if (open_both())
        for (int i = 0; i < SIZES; i++) {
            const weir_desc line = weir_1d(WEIR_F32, sizes[i]);
            const weir_desc rows = weir_2d(WEIR_F32, 5, sizes[i]);
            try_reductions(&line, NULL, 1, false);
            try_reductions(&rows, NULL, 2, sizes[i] > 2000);
            try_reductions(&rows, NULL, 3, sizes[i] > 2000);
        }
    close_both();
}

CASE(columns)
{
    static const int64_t widths[] = {1, 3, 4, 31, 33, 64, 130, 1025};

    if (open_both())
        for (int i = 0; i < 8; i++) {
            const weir_desc few = weir_2d(WEIR_F32, 7, widths[i]), some = weir_2d(WEIR_F32, 33,
                                                                                  widths[i]);
            const weir_desc many = weir_2d(WEIR_F32, widths[i] > 64 ? 300 : 5000, widths[i]);
            try_reductions(&few, NULL, 1, false);
            try_reductions(&some, NULL, 1, i % 2);
            try_reductions(&many, NULL, 1, true);
        }
    close_both();
}

CASE(many_small_results)
{
    if (open_both()) {
        const weir_desc x = weir_2d(WEIR_F32, 70000, 3), y = weir_3d(WEIR_F32, 300, 40, 5);
        try_reductions(&x, NULL, 2, true);
        try_reductions(&y, NULL, 2, true);
        try_reductions(&y, NULL, 5, true);
    }
    close_both();
}

/* Every order in memory of three axes, every set of them reduced. */
CASE(axes_in_every_order)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1},
                                     {2, 1, 0}};
    if (open_both())
        for (int o = 0; o < 6; o++)
            for (uint64_t dims = 1; dims < 8; dims++) {
                const weir_desc x = weir_3d(o % 2 ? WEIR_F32 : WEIR_I32, 9, 34, 12);
                try_reductions(&x, orders[o], dims, dims % 2);
            }
    close_both();
}

CASE(images)
{
    if (open_both())
        for (uint64_t dims = 1; dims < 16; dims++) {
            const weir_desc x = weir_4d(WEIR_F32, 3, 5, 7, 6), y = weir_4d(WEIR_F64, 2, 8, 9, 11);
            try_reductions(&x, NULL, dims, false);
            try_reductions(&y, (const int[]){3, 1, 0, 2}, dims, true);
        }
    close_both();
}

CASE(element_types)
{
    static const weir_dtype types[] = {WEIR_F64, WEIR_F16, WEIR_BF16, WEIR_I32, WEIR_I64, WEIR_U8};

    if (open_both())
        for (int i = 0; i < 6; i++) {
            const weir_desc x = weir_2d(types[i], 136, 264), odd = weir_2d(types[i], 67, 133);
            for (uint64_t dims = 1; dims < 4; dims++) {
                try_reductions(&x, NULL, dims, false);
                try_reductions(&odd, NULL, dims, false);
            }
        }
    close_both();
}

/* A sum of nothing is 0, a product 1; no results of something are none. */
CASE(empty)
{
    if (open_both()) {
        const weir_desc x = weir_3d(WEIR_F32, 4, 0, 3);
        for (uint64_t dims = 1; dims < 8; dims++) {
            const weir_reduce_attr attr = {.dims = dims, .scale = 1};
            trial sum = {WEIR_OP_SUM, "sum", 1, 1, {x}, {drawn(&x, 0, 1)}, NULL, &attr,
                         sizeof attr};
            try_call(&sum);
            sum.op = WEIR_OP_PROD;
            try_call(&sum);
            free(sum.data[0]);
        }
        try_reductions(&x, NULL, 1, false);
    }
    close_both();
}

/* NaN is the largest and the smallest; of equal ones the first counts. */
CASE(nan_and_ties)
{
    if (open_both())
        for (int64_t n = 1; n <= 3000; n = n * 3 + 1) {
            const weir_desc x = weir_2d(WEIR_F32, n, 6);
            float *const    v = drawn(&x, -1, 1);
            for (int64_t i = 0; i < n * 6; i++)
                v[i] = (float)(int)(v[i] * 2);
            for (int64_t i = n / 2; i < n; i += 1 + n / 3)
                v[i * 6 + 1] = NAN;
            for (int f = 1; f < 6; f++)
                for (uint64_t dims = 1; dims < 4; dims++) {
                    const weir_reduce_attr attr = {.dims = dims, .scale = 1};
                    const trial t = {families[f].op, families[f].name, 1, 1, {x}, {v}, NULL, &attr,
                                     sizeof attr};
                    try_call(&t);
                }
            free(v);
        }
    close_both();
}

/* ---- two inputs, gradients ---- */

CASE(dot_and_dist)
{
    if (open_both())
        for (uint64_t dims = 1; dims < 4; dims++)
            for (int b = 0; b < 3; b++) {
                const weir_desc x = weir_2d(WEIR_F32, 260, 68);
                const weir_desc y = b == 0   ? x
                                    : b == 1 ? weir_2d(WEIR_F32, 1, 68) : weir_2d(WEIR_F32, 260, 1);
                const weir_reduce_attr attr = {.dims = dims, .scale = 0.5};
                trial t = {WEIR_OP_DOT, "dot", 2, 1, {x, y}, {drawn(&x, -1, 1), drawn(&y, -1, 1)},
                           NULL, &attr, sizeof attr};
                try_call(&t);
                t.op = WEIR_OP_DIST;
                try_call(&t);
                free(t.data[0]);
                free(t.data[1]);
            }
    close_both();
}

/* The desc of x reduced over dims, kept. */
static weir_desc kept(weir_desc x, uint64_t dims)
{
    for (int i = 0; i < x.ndim; i++)
        x.dim[i] = dims >> i & 1 ? 1 : x.dim[i];
    return x;
}

static void try_gradients(const weir_desc *x, uint64_t dims)
{
    const weir_desc        y = kept(*x, dims);
    const weir_reduce_attr attr = {.dims = dims, .keep = true, .scale = 1};
    weir_desc              desc[OUTPUTS];
    void                  *top[OUTPUTS] = {NULL}, *const v = drawn(x, -2, 2);

    for (int64_t i = 0; i < count_of(x); i += 7)        /* zeros; and ties */
        put(v, x->dtype, i, (int)get(v, x->dtype, i));
    trial t = {WEIR_OP_AMAX, "amax", 1, 1, {*x}, {v}, NULL, &attr, sizeof attr};
    if (run_on(&t, CPU, desc, top)) {
        t = (trial){WEIR_OP_AMAX_GRAD, "amax_grad", 3, 1, {y, *x, y}, {drawn(&y, -1, 1), v, top[0]},
                    NULL, &attr, sizeof attr};
        try_call(&t);
        t.op = WEIR_OP_PROD_GRAD;
        t.what = "prod_grad";
        t.nin = 2;
        try_call(&t);
        free(t.data[0]);
    }
    free(top[0]);
    free(v);
}

CASE(gradients)
{
    if (open_both()) {
        for (uint64_t dims = 1; dims < 16; dims++) {
            const weir_desc x = weir_4d(WEIR_F32, 3, 5, 4, 2), h = weir_4d(WEIR_F16, 2, 3, 2, 5);
            try_gradients(&x, dims);
            try_gradients(&h, dims);
        }
        const weir_desc x = weir_2d(WEIR_F32, 70, 1025);
        for (uint64_t dims = 1; dims < 4; dims++)
            try_gradients(&x, dims);
    }
    close_both();
}

/* ---- along one axis ---- */

static void try_along(const weir_desc *x)
{
    for (int axis = 0; axis < x->ndim; axis++) {
        const weir_axis_attr attr = {axis};
        void *const          v = drawn(x, -5, 5), *const w = drawn(x, -5, 0.9);
        trial t = {WEIR_OP_SOFTMAX, "softmax", 1, 1, {*x, *x}, {v, w}, NULL, &attr, sizeof attr};
        try_call(&t);
        t.op = WEIR_OP_LOG_SOFTMAX;
        try_call(&t);
        t.nin = 2;
        t.op = WEIR_OP_SOFTMAX_GRAD;
        t.what = "softmax_grad";
        try_call(&t);
        t.op = WEIR_OP_LOG_SOFTMAX_GRAD;
        try_call(&t);
        free(v);
        free(w);
    }
}

CASE(softmax)
{
    static const weir_dtype types[] = {WEIR_F64, WEIR_F16, WEIR_BF16};

    if (open_both()) {
        for (int i = 0; i < SIZES; i++) {
            const weir_desc x = weir_2d(WEIR_F32, sizes[i] > 2000 ? 1 : 3, sizes[i]);
            try_along(&x);
        }
        const weir_desc wide = weir_2d(WEIR_F32, 2, 6000), image = weir_4d(WEIR_F32, 2, 3, 9, 5);
        try_along(&wide);
        try_along(&image);
        for (int i = 0; i < 3; i++) {
            const weir_desc x = weir_3d(types[i], 3, 136, 17);
            try_along(&x);
        }
    }
    close_both();
}

static void try_cumsum(const weir_desc *x)
{
    for (int axis = 0; axis < x->ndim; axis++)
        for (int reverse = 0; reverse < 2; reverse++) {
            const weir_cumsum_attr attr = {{.dims = 1u << axis, .keep = 1, .scale = 1}, reverse};
            const trial            t = {WEIR_OP_CUMSUM, "cumsum", 1, 1, {*x}, {drawn(x, -5, 9)},
                                        NULL, &attr, sizeof attr};
            try_call(&t);
            free(t.data[0]);
        }
}

CASE(cumsum)
{
    static const weir_dtype types[] = {WEIR_F64, WEIR_F16, WEIR_BF16, WEIR_I32, WEIR_I64, WEIR_U8};

    if (open_both()) {
        for (int i = 0; i < SIZES; i++) {
            const weir_desc x = weir_2d(WEIR_F32, 3, sizes[i]);
            try_cumsum(&x);
        }
        const weir_desc tall = weir_2d(WEIR_F32, 3000, 3), image = weir_4d(WEIR_F32, 2, 3, 9, 5);
        try_cumsum(&tall);
        try_cumsum(&image);
        for (int i = 0; i < 6; i++) {
            const weir_desc x = weir_2d(types[i], 35, 1030);
            try_cumsum(&x);
        }
    }
    close_both();
}

/* ---- losses and batch normalisation ---- */

static void try_losses(int64_t n, int64_t classes, weir_dtype type, weir_dtype target)
{
    const weir_desc x = weir_2d(type, n, classes);
    const weir_desc y = target == type ? x : weir_1d(target, n);
    const weir_desc rows = weir_1d(type, n), one = weir_scalar(type);
    trial t = {WEIR_OP_CROSS_ENTROPY, "cross_entropy", 2, 2, {x, y, rows, one},
               {drawn(&x, -9, 9), drawn(&y, 0, target == type ? 1 : (double)classes - 0.01),
                drawn(&rows, 3, 9), drawn(&one, 0.5, 2)}, NULL, NULL, 0};

    if (target != type && n > 4)        /* no class: NaN */
        put(t.data[1], target, 3, (double)classes);
    try_call(&t);
    t.op = WEIR_OP_CROSS_ENTROPY_GRAD;
    t.what = "cross_entropy_grad";
    t.nin = 4;
    t.nout = 1;
    try_call(&t);
    if (target != type) {
        t.op = WEIR_OP_COUNT_CORRECT;
        t.what = "count_correct";
        t.nin = 2;
        try_call(&t);
    }
    for (int i = 0; i < INPUTS; i++)
        free(t.data[i]);
}

CASE(losses)
{
    static const weir_dtype targets[] = {WEIR_I32, WEIR_I64, WEIR_F32};

    if (open_both())
        for (int i = 0; i < 3; i++) {
            try_losses(0, 4, WEIR_F32, targets[i]);
            try_losses(1, 1, WEIR_F32, targets[i]);
            try_losses(70, 10, WEIR_F32, targets[i]);
            try_losses(3, 1025, WEIR_F32, targets[i]);
            try_losses(1500, 33, i == 2 ? WEIR_F64 : WEIR_F32, i == 2 ? WEIR_F64 : targets[i]);
        }
    close_both();
}

/* shift: a mean that is large against the deviations. */
static void try_norm(const weir_desc *x, double shift)
{
    const weir_desc           c = weir_1d(x->dtype, x->dim[1]);
    const weir_bn_attr        stats = {1e-5};
    const weir_bn_update_attr update = {0.1, (double)(count_of(x) / x->dim[1])};
    trial t = {WEIR_OP_BN_STATS, "bn_stats", 1, 3, {*x}, {drawn(x, shift - 1, shift + 1)}, NULL,
               &stats, sizeof stats};
    weir_desc desc[OUTPUTS];
    void     *made[OUTPUTS] = {NULL};

    try_call(&t);
    if (run_on(&t, CPU, desc, made)) {
        const trial g = {WEIR_OP_BN_GRAD_REDUCE, "bn_grad_reduce", 4, 2, {*x, *x, c, c},
                         {drawn(x, -1, 1), t.data[0], made[0], made[2]}, NULL, NULL, 0};
        const trial u = {WEIR_OP_BN_UPDATE, "bn_update", 4, 0, {c, c, c, c},
                         {made[0], made[1], made[0], made[1]}, NULL, &update, sizeof update};
        try_call(&g);
        try_call(&u);
        free(g.data[0]);
    }
    for (int i = 0; i < OUTPUTS; i++)
        free(made[i]);
    free(t.data[0]);
}

CASE(batch_normalisation)
{
    static const int64_t rows[] = {1, 7, 8, 9, 33, 1025}, channels[] = {1, 3, 4, 64, 130};

    if (open_both()) {
        for (int i = 0; i < 6; i++)
            for (int k = 0; k < 5; k++) {
                const weir_desc x = weir_2d(k % 2 ? WEIR_F64 : WEIR_F32, rows[i], channels[k]);
                try_norm(&x, 0.3);
            }
        const weir_desc image = weir_4d(WEIR_F32, 3, 6, 31, 33), tall = weir_2d(WEIR_F32, 70000, 2);
        try_norm(&image, 0);
        try_norm(&tall, 1);
    }
    close_both();
}

/* Deviations of 1 about a mean of 1000: f32 keeps 14 bits of them, and the variance must not lose
 * more. One far number must not spoil those after it. */
CASE(variance_is_robust)
{
    if (open_both()) {
        const weir_desc    x = weir_2d(WEIR_F32, 20000, 3), c = weir_1d(WEIR_F32, 3);
        const weir_bn_attr eps = {1e-5};
        float *const       v = drawn(&x, -1, 1);
        double             mean[3] = {0}, var[3] = {0};
        for (int64_t i = 0; i < 60000; i++)
            v[i] += i % 3 == 0 ? 1000.0f : 0;
        v[1] = 1e6f;
        for (int64_t i = 0; i < 60000; i++)
            mean[i % 3] += (double)v[i] / 20000;
        for (int64_t i = 0; i < 60000; i++)
            var[i % 3] += ((double)v[i] - mean[i % 3]) * ((double)v[i] - mean[i % 3]) / 20000;
        const trial t = {WEIR_OP_BN_STATS, "bn_stats", 1, 3, {x}, {v}, NULL, &eps, sizeof eps};
        weir_desc   desc[OUTPUTS];
        void       *made[OUTPUTS] = {NULL};
        if (run_on(&t, CARD, desc, made))
            for (int i = 0; i < 3; i++) {
                CHECK_NEAR(get(made[0], c.dtype, i), mean[i], 1e-7);
                CHECK_NEAR(get(made[1], c.dtype, i) / var[i], 1, 2e-7);
            }
        for (int i = 0; i < OUTPUTS; i++)
            free(made[i]);
        free(v);
    }
    close_both();
}

/* Thousands of equal f32 added up one by one would stand still or drift. */
CASE(long_sums_keep_their_bits)
{
    if (open_both()) {
        const weir_desc        x = weir_2d(WEIR_F32, 70000, 3);
        float *const           v = drawn(&x, 0.1, 0.1000001);
        const weir_reduce_attr attr = {.dims = 1, .scale = 1};
        const trial            t = {WEIR_OP_SUM, "sum", 1, 1, {x}, {v}, NULL, &attr, sizeof attr};
        weir_desc              desc[OUTPUTS];
        void                  *made[OUTPUTS] = {NULL};
        if (run_on(&t, CARD, desc, made))
            for (int i = 0; i < 3; i++)
                CHECK_NEAR((double)((float *)made[0])[i] / 7000.0, 1, 1e-6);
        free(made[0]);
        free(v);
    }
    close_both();
}

/* ---- how work is cut ---- */

static bool is_power(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static void check_plan(const weir_desc *d, uint64_t dims, int width)
{
    const weir_reduce_attr attr = {.dims = dims, .keep = true, .scale = 1};
    weir_layout            x = {.desc = *d}, y = {.desc = kept(*d, dims)};

    weir_shape_dense(&x);
    weir_shape_dense(&y);
    const weir_cuda_reduce p = weir_cuda_reduce_plan(&x, NULL, &y, &attr, false, width);
    const int64_t          step = p.columns ? p.ty : (int64_t)p.tx * p.vec;
    CHECK(weir_cuda_reduce_results(&p) * p.reduced == count_of(d));
    CHECK(is_power(p.tx) && is_power(p.ty) && p.tx * p.ty <= WEIR_CUDA_THREADS);
    CHECK(p.vec == 1 || p.vec == width);
    CHECK(p.chunk % step == 0 && p.chunks >= 1 && p.chunks <= WEIR_CUDA_REDUCE_CHUNKS);
    CHECK(p.chunk * p.chunks >= p.reduced && p.chunk * (p.chunks - 1) < max64(1, p.reduced));
    CHECK(p.chunks == 1 || p.columns || p.tx == WEIR_CUDA_THREADS);
    CHECK(p.chunks == 1 || weir_cuda_reduce_blocks(&p) * p.chunks <= WEIR_CUDA_REDUCE_BLOCKS);
}

CASE(cuts)
{
    for (int i = 0; i < 300; i++) {
        weir_desc d = {.dtype = WEIR_F32, .ndim = (int)check_int(1, 4)};
        for (int k = 0; k < d.ndim; k++)
            d.dim[k] = check_int(0, 3) ? check_int(1, 40) : 8 * check_int(1, 600);
        check_plan(&d, (uint64_t)check_int(1, (1 << d.ndim) - 1), 4);
    }
    for (int i = 0; i < 300; i++) {
        const int64_t        rows = check_int(1, i % 2 ? 100 : 1000000), c = check_int(1, 600);
        const weir_cuda_norm p = weir_cuda_norm_plan(rows, c, 4);
        CHECK(p.vec == (c % 4 ? 1 : 4) && is_power(p.tx) && is_power(p.ty));
        CHECK(p.tx * p.ty <= WEIR_CUDA_THREADS && p.chunk * p.chunks >= rows);
        CHECK(p.chunk * (p.chunks - 1) < rows);
    }
}

/* The shapes that must be quick take 16 bytes at once and fill a card. */
CASE(cuts_of_large_tensors)
{
    const weir_reduce_attr inner = {.dims = 2, .keep = 1}, outer = {.dims = 1, .keep = 1};
    weir_layout            x = {.desc = weir_2d(WEIR_F32, 1 << 20, 256)}, y = x;
    weir_layout            all = {.desc = weir_1d(WEIR_F32, 1 << 24)}, one = all;

    weir_shape_dense(&x);
    weir_shape_dense(&all);
    y.desc.dim[1] = one.desc.dim[0] = 1;
    const weir_cuda_reduce rows = weir_cuda_reduce_plan(&x, NULL, &y, &inner, false, 4);
    CHECK(!rows.columns && rows.vec == 4 && rows.tx == 32 && rows.chunks == 1);
    y.desc = weir_2d(WEIR_F32, 1, 256);
    const weir_cuda_reduce columns = weir_cuda_reduce_plan(&x, NULL, &y, &outer, false, 4);
    CHECK(columns.columns && columns.vec == 4 && columns.tx == 32 && columns.ty == 8);
    CHECK(weir_cuda_reduce_blocks(&columns) * columns.chunks == WEIR_CUDA_REDUCE_BLOCKS);
    const weir_cuda_reduce total = weir_cuda_reduce_plan(&all, NULL, &one, &outer, false, 4);
    CHECK(total.vec == 4 && total.tx == WEIR_CUDA_THREADS && total.chunks == 1024);
}
