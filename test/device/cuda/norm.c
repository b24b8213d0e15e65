/* norm.c - tests of ops along axes that stay, of losses, and of batch normalisation: the emulated
 * card against the CPU over awkward shapes. */
#include <stdlib.h>

#include "device/cuda/cpu_vs_gpu.h"

static const int64_t sizes[] = {1, 31, 32, 33, 1023, 1025, 70000};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* ---- along one axis ---- */

static void try_along(const weir_desc *x)
{
    for (int at = 0; at < x->ndim; at++) {
        const weir_axis_attr attr = {at};
        void *const          v = drawn(x, -5, 5), *const w = drawn(x, -5, 0.9);
        op_case t = {WEIR_OP_SOFTMAX, "softmax", 1, 1, {*x, *x}, {v, w}, NULL, &attr, sizeof attr};
        try_call(&t);
        t.op = WEIR_OP_LOG_SOFTMAX;
        try_call(&t);
        t.nin = 2;
        t.op = WEIR_OP_SOFTMAX_GRAD;
        t.what = "softmax_grad";
        try_call_near(&t, 16);      /* f32 sums, for which the CPU uses 16 lanes */
        t.op = WEIR_OP_LOG_SOFTMAX_GRAD;
        try_call_near(&t, 16);
        free(v);
        free(w);
    }
}

CASE(softmax)
{
    static const weir_dtype types[] = {WEIR_F64, WEIR_F16, WEIR_BF16};

    if (open_cpu_gpu()) {
        for (int i = 0; i < SIZES; i++) {
            const weir_desc x = weir_2d(WEIR_F32, sizes[i] > 2000 ? 1 : 3, sizes[i]);
            try_along(&x);
        }
        const weir_desc wide = weir_2d(WEIR_F32, 2, 6000), image = weir_4d(WEIR_F32, 2, 3, 9, 5);
        try_along(&wide);
        try_along(&image);
        for (int i = 0; i < 3; i++) {
            const weir_desc x = three(types[i], 3, 136, 17);
            try_along(&x);
        }
    }
    close_cpu_gpu();
}

static void try_cumsum(const weir_desc *x)
{
    for (int at = 0; at < x->ndim; at++)
        for (int reverse = 0; reverse < 2; reverse++) {
            const weir_cumsum_attr attr = {{.dims = 1u << at, .keep = 1, .scale = 1}, reverse};
            const op_case          t = {WEIR_OP_CUMSUM,    "cumsum", 1,     1,          {*x},
                                        {drawn(x, -5, 9)}, NULL,     &attr, sizeof attr};
            try_call(&t);
            free(t.data[0]);
        }
}

CASE(cumsum)
{
    static const weir_dtype types[] = {WEIR_F64, WEIR_F16, WEIR_BF16, WEIR_I32, WEIR_I64, WEIR_U8};

    if (open_cpu_gpu()) {
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
    close_cpu_gpu();
}

/* ---- losses and batch normalisation ---- */

static void try_losses(int64_t n, int64_t classes, weir_dtype type, weir_dtype target)
{
    const weir_desc x = weir_2d(type, n, classes);
    const weir_desc y = target == type ? x : weir_1d(target, n);
    const weir_desc rows = weir_1d(type, n), one = weir_scalar(type);
    op_case         t = {WEIR_OP_CROSS_ENTROPY,
                         "cross_entropy",
                         2,
                         2,
                         {x, y, rows, one},
                         {drawn(&x, -9, 9),
                          drawn(&y, 0, target == type ? 1 : (double)classes - 0.01),
                          drawn(&rows, 3, 9), drawn(&one, 0.5, 2)},
                         NULL,
                         NULL,
                         0};

    const weir_cross_entropy_attr but = {.ignored = 0};
    t.attr = &but;
    t.attr_bytes = sizeof but;
    if (target != type && n > 4)
        put(t.data[1], target, 3, 0);
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

    if (open_cpu_gpu())
        for (int i = 0; i < 3; i++) {
            try_losses(0, 4, WEIR_F32, targets[i]);
            try_losses(1, 1, WEIR_F32, targets[i]);
            try_losses(70, 10, WEIR_F32, targets[i]);
            try_losses(3, 1025, WEIR_F32, targets[i]);
            try_losses(1500, 33, i == 2 ? WEIR_F64 : WEIR_F32, i == 2 ? WEIR_F64 : targets[i]);
        }
    close_cpu_gpu();
}

/* shift: a mean that is large relative to the deviations. */
static void try_norm(const weir_desc *x, double shift)
{
    const weir_desc           c = weir_1d(x->dtype, x->dim[1]);
    const weir_bn_attr        stats = {1e-5};
    const weir_bn_update_attr update = {0.1, (double)(count_of(x) / x->dim[1])};
    op_case t = {WEIR_OP_BN_STATS, "bn_stats",  1, 3, {*x}, {drawn(x, shift - 1, shift + 1)}, NULL,
                 &stats,           sizeof stats};
    weir_desc desc[OUTPUTS];
    void     *made[OUTPUTS] = {NULL};

    try_call(&t);
    if (run_on(&t, CPU, desc, made)) {
        const op_case g = {WEIR_OP_BN_GRAD_REDUCE,
                           "bn_grad_reduce",
                           4,
                           2,
                           {*x, *x, c, c},
                           {drawn(x, -1, 1), t.data[0], made[0], made[2]},
                           NULL,
                           NULL,
                           0};
        const op_case u = {WEIR_OP_BN_UPDATE,
                           "bn_update",
                           4,
                           0,
                           {c, c, c, c},
                           {made[0], made[1], made[0], made[1]},
                           NULL,
                           &update,
                           sizeof update};
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

    if (open_cpu_gpu()) {
        for (int i = 0; i < 6; i++)
            for (int k = 0; k < 5; k++) {
                const weir_desc x = weir_2d(k % 2 ? WEIR_F64 : WEIR_F32, rows[i], channels[k]);
                try_norm(&x, 0.3);
            }
        const weir_desc image = weir_4d(WEIR_F32, 3, 6, 31, 33), tall = weir_2d(WEIR_F32, 70000, 2);
        try_norm(&image, 0);
        try_norm(&tall, 1);
    }
    close_cpu_gpu();
}

/* And its gradient; the mean is as large as the deviations. */
static void try_layer_norm(weir_dtype t, int64_t rows, int64_t n)
{
    const weir_layer_norm_attr eps = {1e-5};
    const weir_desc x = weir_2d(t, rows, n), scale = weir_1d(t == WEIR_F64 ? t : WEIR_F32, n);
    op_case         c = {WEIR_OP_LAYER_NORM, "layer_norm", 3, 3, {x, scale, scale},
                         {drawn(&x, -1, 3), drawn(&scale, 0.5, 2), drawn(&scale, -1, 1)}, NULL,
                         &eps, sizeof eps};
    weir_desc       desc[OUTPUTS];
    void           *made[OUTPUTS] = {NULL};

    try_call(&c);
    if (run_on(&c, CPU, desc, made)) {
        const op_case g = {WEIR_OP_LAYER_NORM_GRAD, "layer_norm_grad", 5, 3,
                           {x, x, desc[1], desc[2], scale},
                           {drawn(&x, -1, 1), c.data[0], made[1], made[2], c.data[1]}, NULL, NULL,
                           0};
        try_call(&g);
        free(g.data[0]);
    }
    for (int i = 0; i < OUTPUTS; i++)
        free(made[i]);
    for (int i = 0; i < 3; i++)
        free(c.data[i]);
}

CASE(layer_normalisation)
{
    static const int64_t rows[] = {1, 7, 33, 300}, n[] = {1, 3, 200, 1025, 3000};

    if (open_cpu_gpu()) {
        for (int i = 0; i < 4; i++)
            for (int k = 0; k < 5; k++)
                try_layer_norm(k % 2 ? WEIR_F64 : WEIR_F32, rows[i], n[k]);
        try_layer_norm(WEIR_F32, 5000, 7);
    }
    close_cpu_gpu();
}

/* Deviations of 1 about a mean of 1000: f32 keeps 14 bits of them, and the variance must not lose
 * more. One outlier must not affect the numbers after it. */
CASE(variance_is_robust)
{
    if (open_cpu_gpu()) {
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
        const op_case t = {WEIR_OP_BN_STATS, "bn_stats", 1, 3, {x}, {v}, NULL, &eps, sizeof eps};
        weir_desc     desc[OUTPUTS];
        void         *made[OUTPUTS] = {NULL};
        if (run_on(&t, GPU, desc, made))
            for (int i = 0; i < 3; i++) {
                CHECK_NEAR(get(made[0], c.dtype, i), mean[i], 1e-7);
                CHECK_NEAR(get(made[1], c.dtype, i) / var[i], 1, 2e-7);
            }
        for (int i = 0; i < OUTPUTS; i++)
            free(made[i]);
        free(v);
    }
    close_cpu_gpu();
}
