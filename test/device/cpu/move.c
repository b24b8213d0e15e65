/* move.c - tests of copies between any two layouts, reshapes, casts and fills. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

/* Dims whose product stays below about 120,000. */
static weir_desc random_desc(weir_dtype type, int ndim)
{
    weir_desc d = {.dtype = type, .ndim = ndim};
    int64_t   n = 1;
    for (int i = 0; i < ndim; i++) {
        d.dim[i] = check_int(0, 4) == 0 ? check_int(1, 300) : check_int(1, 9);
        if (n * d.dim[i] > 120000)
            d.dim[i] = 1;
        n *= d.dim[i];
    }
    return d;
}

/* Strides of the axes in random order, with or without gaps, some axes repeated. */
static weir_layout random_layout(const weir_desc *d)
{
    weir_layout l = kernel_dense(*d);
    if (check_int(0, 2) == 0)
        return l;
    int64_t stride = check_int(0, 3) == 0 ? 2 : 1;
    bool    done[WEIR_MAX_DIMS] = {false};
    for (int i = 0; i < d->ndim; i++) {
        int axis = (int)check_int(0, d->ndim - 1);
        while (done[axis])
            axis = (axis + 1) % d->ndim;
        done[axis] = true;
        const bool repeat = check_int(0, 9) == 0;
        l.stride[axis] = repeat ? 0 : stride;
        stride *= repeat ? 1 : d->dim[axis];
    }
    return l;
}

static void check_move(weir_choose_fn choose, weir_op op, weir_layout from, weir_desc to)
{
    kernel_case   k = {.choose = choose, .op = op};
    const int64_t n = weir_shape_count(&to);
    int64_t       bad = 0;

    kernel_in(&k, from);
    kernel_out(&k, to);
    kernel_fill(&k, 0, 0, from.desc.dtype == WEIR_BOOL ? 2 : 250);
    kernel_run(&k);
    for (int64_t i = 0; i < n; i++) {
        const double x = kernel_get(&k.in[0], k.src[0], i), y = kernel_get(&k.out[0], k.dst[0], i);
        const double cast = to.dtype == WEIR_BOOL && from.desc.dtype != WEIR_BOOL ? (double)(x != 0)
                            : to.dtype == WEIR_F16 || to.dtype == WEIR_BF16
                                ? half_round(x, to.dtype)
                            : to.dtype == WEIR_F32 || to.dtype == WEIR_F64 ? x
                                                                           : trunc(x);
        bad += fabs(y - cast) > 1e-5 * fabs(cast);
    }
    char a[WEIR_DESC_TEXT], b[WEIR_DESC_TEXT];
    check_that(bad == 0, __FILE__, __LINE__, "%s to %s: %lld of %lld wrong",
               weir_desc_text(&from.desc, a), weir_desc_text(&to, b), (long long)bad, (long long)n);
    kernel_free(&k);
}

CASE(copies_of_any_strides)
{
    const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_I32, WEIR_U8, WEIR_BF16};
    for (int round = 0; round < 200 && check_failures == 0; round++) {
        const weir_desc d = random_desc(types[round % 5], (int)check_int(0, 6));
        check_move(weir_cpu_copy, WEIR_OP_COPY, random_layout(&d), d);
    }
}

static void check_reshape(weir_dtype type, int nfrom, const int64_t *from, int nto,
                          const int64_t *to)
{
    weir_desc a = {.dtype = type, .ndim = nfrom}, b = {.dtype = type, .ndim = nto};
    memcpy(a.dim, from, (size_t)nfrom * sizeof *from);
    memcpy(b.dim, to, (size_t)nto * sizeof *to);
    check_move(weir_cpu_copy, WEIR_OP_RESHAPE, kernel_dense(a), b);
    check_move(weir_cpu_copy, WEIR_OP_RESHAPE, kernel_dense(b), a);
}

#define DIMS(...) sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__}

CASE(channels_last_to_rows_and_back)
{
    check_reshape(WEIR_F32, DIMS(2, 3, 4, 5), DIMS(2, 60));
    check_reshape(WEIR_F32, DIMS(3, 70, 33, 35), DIMS(3, 70 * 33 * 35));
    check_reshape(WEIR_F64, DIMS(2, 64, 1, 40), DIMS(128, 40));
    check_reshape(WEIR_F32, DIMS(1, 512, 1, 1), DIMS(1, 512));
    check_reshape(WEIR_F32, DIMS(4, 6, 5, 5), DIMS(24, 5, 5));
    check_reshape(WEIR_I32, DIMS(4, 6, 5, 5), DIMS(8, 75));
}

CASE(reshape_without_common_factors)
{
    check_reshape(WEIR_F32, DIMS(1, 4, 3, 3), DIMS(1, 6, 2, 3));
    check_reshape(WEIR_F64, DIMS(5, 4, 30, 33), DIMS(5, 6, 20, 33));
    check_reshape(WEIR_F32, DIMS(2, 6, 4, 1), DIMS(2, 4, 3, 2));
}

/* A cast may change the memory order of images, since only floats are channels-last. */
CASE(casts_of_all_pairs)
{
    for (int from = WEIR_F32; from <= WEIR_BF16; from++)
        for (int to = WEIR_F32; to <= WEIR_BF16; to++)
            for (int round = 0; round < 4; round++) {
                weir_desc         d = random_desc((weir_dtype)from, round);
                const weir_layout l = random_layout(&d);
                d.dtype = (weir_dtype)to;
                check_move(weir_cpu_cast, WEIR_OP_CAST, l, d);
            }
    weir_desc image = weir_4d(WEIR_F32, 3, 5, 40, 41);
    for (int to = WEIR_F32; to <= WEIR_BF16; to++) {
        weir_desc d = image;
        d.dtype = (weir_dtype)to;
        check_move(weir_cpu_cast, WEIR_OP_CAST, kernel_dense(image), d);
        check_move(weir_cpu_cast, WEIR_OP_CAST, kernel_dense(d), image);
    }
}

static void check_special(double x, weir_dtype to, double want)
{
    for (weir_dtype from = WEIR_F32; from <= WEIR_F64; from++) {
        kernel_case k = {.choose = weir_cpu_cast, .op = WEIR_OP_CAST};
        kernel_in(&k, kernel_dense(weir_1d(from, 9)));
        kernel_out(&k, weir_1d(to, 9));
        for (int64_t i = 0; i < 9; i++)
            kernel_set(&k.in[0], k.src[0], i, x);
        kernel_run(&k);
        for (int64_t i = 0; i < 9; i++)
            CHECK_NEAR(kernel_get(&k.out[0], k.dst[0], i), want, 0);
        kernel_free(&k);
    }
}

CASE(casts_out_of_range)
{
    const weir_dtype ints[] = {WEIR_I32, WEIR_I64, WEIR_U8};
    for (int i = 0; i < 3; i++) {
        check_special((double)NAN, ints[i], 0);
        check_special(HUGE_VAL, ints[i], 0);
        check_special(-HUGE_VAL, ints[i], 0);
        check_special(0x1p63, ints[i], 0);
        check_special(-0.75, ints[i], 0);
        check_special(17.9375, ints[i], 17);
    }
    check_special(-0x1p31, WEIR_I32, -0x1p31);
    check_special(0x1p31, WEIR_I32, 0);
    check_special(-0x1p63, WEIR_I64, -0x1p63);
    check_special(255.5, WEIR_U8, 255);
    check_special(256, WEIR_U8, 0);
    check_special(-1, WEIR_U8, 0);
    check_special((double)NAN, WEIR_BOOL, 1);
    check_special(0.25, WEIR_BOOL, 1);
    check_special(-0.0, WEIR_BOOL, 0);
}

CASE(casts_of_integers_wrap)
{
    kernel_case k = {.choose = weir_cpu_cast, .op = WEIR_OP_CAST};
    int64_t    *x = kernel_in(&k, kernel_dense(weir_1d(WEIR_I64, 3)));
    int32_t    *y = kernel_out(&k, weir_1d(WEIR_I32, 3));
    x[0] = (1ll << 32) + 5;
    x[1] = -1;
    x[2] = 1ll << 31;
    kernel_run(&k);
    CHECK(y[0] == 5 && y[1] == -1 && y[2] == INT32_MIN);
    kernel_free(&k);
}

CASE(fills_every_type)
{
    const double value[] = {1.75, 1.75, 1, 1, 1, 1, 1.75, 1.75};
    for (int type = WEIR_F32; type <= WEIR_BF16; type++)
        for (int64_t n = 0; n <= 70000; n = n * 7 + 1) {
            const weir_fill_attr attr = {.value = 1.75};
            kernel_case          k = {.choose = weir_cpu_fill, .op = WEIR_OP_FILL, .attr = &attr,
                                      .attr_bytes = sizeof attr};
            kernel_out(&k, weir_1d((weir_dtype)type, n));
            kernel_run(&k);
            int64_t bad = 0;
            for (int64_t i = 0; i < n; i++)
                bad += kernel_get(&k.out[0], k.dst[0], i) != value[type];
            CHECK(bad == 0);
            kernel_free(&k);
        }
}

CASE(moves_of_nothing)
{
    check_move(weir_cpu_copy, WEIR_OP_COPY, kernel_dense(weir_2d(WEIR_F32, 0, 4)),
               weir_2d(WEIR_F32, 0, 4));
    check_move(weir_cpu_copy, WEIR_OP_RESHAPE, kernel_dense(weir_4d(WEIR_F32, 2, 0, 3, 3)),
               weir_2d(WEIR_F32, 2, 0));
    check_move(weir_cpu_cast, WEIR_OP_CAST, kernel_dense(weir_2d(WEIR_I32, 3, 0)),
               weir_2d(WEIR_U8, 3, 0));
}

CASE(moves_short_of_memory)
{
    const weir_layout l = kernel_dense(weir_4d(WEIR_F32, 1, 4, 3, 3));
    weir_layout       out[1] = {kernel_dense(weir_4d(WEIR_F32, 1, 6, 2, 3))};
    weir_call         c = {.op = WEIR_OP_COPY, .nin = 1, .nout = 1, .in = &l, .out = out};
    weir_kernel       kernel = {0};

    weir_mem_fail_nth(0, true);
    CHECK_STATUS(weir_cpu_copy(NULL, &c, &kernel), WEIR_ERR_NOMEM);
    out[0] = l;
    CHECK_STATUS(weir_cpu_copy(NULL, &c, &kernel), WEIR_ERR_NOMEM);
    CHECK_STATUS(weir_cpu_cast(NULL, &c, &kernel), WEIR_ERR_NOMEM);
    c.attr = &(weir_fill_attr){.value = 1};
    CHECK_STATUS(weir_cpu_fill(NULL, &c, &kernel), WEIR_ERR_NOMEM);
}
