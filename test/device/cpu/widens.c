/* widens.c - kernels in f32 that read halves give the bits of widened copies, and those that write
 * halves the rounded bits of their results. */
#include "device/cpu/cpu.h"
#include "device/kernel_case.h"

/* An operation that widens, and its arguments. */
typedef struct row {
    weir_op     op;
    int         nin, nout;
    uint32_t    mutates;
    const void *attr;
    size_t      attr_bytes;
} row;

static const weir_bn_attr         bn = {.eps = 1e-5};
static const weir_layer_norm_attr layer = {.eps = 1e-5};
static const weir_sgd_attr        sgd = {.momentum = 0.5, .weight_decay = 0.25};
static const weir_adam_attr       adam = {0.9, 0.99, 1e-8, 0.125};
static const weir_adagrad_attr    adagrad = {.eps = 1e-8};
static const weir_rmsprop_attr    rmsprop = {.alpha = 0.9, .eps = 1e-8};

static const row rows[] = {
    {WEIR_OP_BN_STATS, 1, 3, 0, &bn, sizeof bn},
    {WEIR_OP_BN_GRAD_REDUCE, 4, 2, 0, NULL, 0},
    {WEIR_OP_SGD_UPDATE, 4, 0, 9, &sgd, sizeof sgd},
    {WEIR_OP_ADAM_UPDATE, 6, 0, 13, &adam, sizeof adam},
    {WEIR_OP_ADAMW_UPDATE, 6, 0, 13, &adam, sizeof adam},
    {WEIR_OP_ADAGRAD_UPDATE, 4, 0, 9, &adagrad, sizeof adagrad},
    {WEIR_OP_RMSPROP_UPDATE, 4, 0, 9, &rmsprop, sizeof rmsprop},
    {WEIR_OP_ACCUMULATE, 2, 0, 1, NULL, 0},
    {WEIR_OP_LAYER_NORM, 3, 3, 0, &layer, sizeof layer},
    {WEIR_OP_LAYER_NORM_GRAD, 5, 3, 0, NULL, 0},
};

enum { CHANNELS = 70, ELEMENTS = 40001, ROWS = 37, WIDTH = 1100 };

static bool is_layer(weir_op op)
{
    return op == WEIR_OP_LAYER_NORM || op == WEIR_OP_LAYER_NORM_GRAD;
}

/* The desc of input i in f32. */
static weir_desc desc_of(weir_op op, int i)
{
    const bool adam_like = op == WEIR_OP_ADAM_UPDATE || op == WEIR_OP_ADAMW_UPDATE;

    if (op == WEIR_OP_BN_STATS || op == WEIR_OP_BN_GRAD_REDUCE)
        return i < 2 ? weir_4d(WEIR_F32, 3, CHANNELS, 9, 11) : weir_1d(WEIR_F32, CHANNELS);
    if (is_layer(op) && (i == 0 || (i == 1 && op == WEIR_OP_LAYER_NORM_GRAD)))
        return weir_2d(WEIR_F32, ROWS, WIDTH);
    if (op == WEIR_OP_LAYER_NORM_GRAD && i < 4)
        return weir_2d(WEIR_F32, ROWS, 1);
    if (is_layer(op))
        return weir_1d(WEIR_F32, WIDTH);
    if (adam_like && i >= 4)
        return weir_scalar(i == 4 ? WEIR_F64 : WEIR_F32);
    if (!adam_like && op != WEIR_OP_ACCUMULATE && i == 2)
        return weir_scalar(WEIR_F32);
    return weir_1d(WEIR_F32, ELEMENTS);
}

/* The desc of output i in f32. */
static weir_desc result_of(weir_op op, int i)
{
    if (!is_layer(op))
        return weir_1d(WEIR_F32, CHANNELS);
    if (i == 0)
        return weir_2d(WEIR_F32, ROWS, WIDTH);
    return op == WEIR_OP_LAYER_NORM ? weir_2d(WEIR_F32, ROWS, 1) : weir_1d(WEIR_F32, WIDTH);
}

/* The case with numbers that the half type has in the inputs of the mask `half`, which have that
 * type or, in the same numbers, f32. */
static kernel_case case_of(const row *r, weir_dtype t, uint32_t half, bool narrow)
{
    kernel_case k = {.choose = weir_device_cpu.kernel[r->op], .op = r->op, .mutates = r->mutates,
                     .attr = r->attr, .attr_bytes = r->attr_bytes};

    check_random = 7;
    for (int i = 0; i < r->nin; i++) {
        weir_desc  d = desc_of(r->op, i);
        const bool rounded = half >> i & 1;
        if (rounded && narrow)
            d.dtype = t;
        kernel_in(&k, kernel_dense(d));
        for (int64_t j = 0; j < weir_shape_count(&d); j++) {
            const double v = check_real(0.25, 1) * (check_int(0, 1) ? 1 : rounded ? -1 : 0.5);
            kernel_set(&k.in[i], k.src[i], j, rounded ? half_round(v, t) : v);
        }
    }
    for (int i = 0; i < r->nout; i++)
        kernel_out(&k, result_of(r->op, i));
    return k;
}

/* Output 0 as a half of type t. */
static void check_rounded(const row *r, weir_dtype t)
{
    kernel_case     wide = case_of(r, t, 0, false), narrow = case_of(r, t, 0, false);
    weir_desc *const d = &narrow.out[0].desc;

    d->dtype = t;
    kernel_run(&wide);
    kernel_run(&narrow);
    for (int64_t i = 0; i < weir_shape_count(d); i++)
        CHECK(kernel_get(&narrow.out[0], narrow.dst[0], i) ==
              half_round(kernel_get(&wide.out[0], wide.dst[0], i), t));
    for (int i = 1; i < r->nout; i++)
        CHECK_BITS(wide.dst[i], narrow.dst[i], weir_shape_bytes(&wide.out[i].desc));
    kernel_free(&wide);
    kernel_free(&narrow);
}

CASE(results_are_rounded_once)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (weir_dtype t = WEIR_F16; t <= WEIR_BF16; t++)
            if (weir_device_cpu.rounds[rows[i].op])
                check_rounded(&rows[i], t);
}

static void check_same(const row *r, weir_dtype t, uint32_t half)
{
    kernel_case  a = case_of(r, t, half, true), b = case_of(r, t, half, false);
    const double first = kernel_get(&a.in[0], a.src[0], 0);

    kernel_run(&a);
    kernel_run(&b);
    for (int i = 0; i < r->nout; i++)
        CHECK_BITS(a.dst[i], b.dst[i], weir_shape_bytes(&a.out[i].desc));
    for (int i = 0; i < r->nin; i++)
        if (r->mutates >> i & 1)
            CHECK_BITS(a.src[i], b.src[i], weir_shape_bytes(&a.in[i].desc));
    CHECK(!r->mutates || kernel_get(&a.in[0], a.src[0], 0) != first);
    kernel_free(&a);
    kernel_free(&b);
}

CASE(halves_beside_f32_give_the_bits_of_their_copies)
{
    const uint32_t *const widens = weir_device_cpu.widens;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint32_t half = 1; half <= widens[rows[i].op]; half++)
            for (weir_dtype t = WEIR_F16; t <= WEIR_BF16; t++)
                if ((half & ~widens[rows[i].op]) == 0)
                    check_same(&rows[i], t, half);
}

/* An operation that widens but has no row here is not tested. */
CASE(every_operation_that_widens_has_a_row)
{
    for (int op = 0; op < WEIR_OP_COUNT; op++) {
        size_t i = 0;
        while (i < sizeof rows / sizeof *rows && rows[i].op != (weir_op)op)
            i++;
        check_that(weir_device_cpu.widens[op] == 0 || i < sizeof rows / sizeof *rows, __FILE__,
                   __LINE__, "%s has no row", weir_op_name((weir_op)op));
    }
}
