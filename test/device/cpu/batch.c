/* batch.c - calls on halves that run in parts give the bits of each place by itself. */
#include "device/cpu/drive.h"

enum { PLACES = 11 };

/* A call whose places of the first axis are large enough for several parts. */
typedef struct row {
    weir_op        op;
    weir_choose_fn choose;
    const void    *attr;
    size_t         attr_bytes;
    int            nin, nout;
    int64_t        rows[5];         /* of an operand for a place; inputs first */
    weir_desc      of_row[5];       /* desc without the first axis' size; U8: of small numbers */
} row;

static const weir_axis_attr        axis = {1};
static const weir_pool2d_attr      pool = {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 0};
static const weir_pool2d_grad_attr back = {{{3, 3}, {2, 2}, {1, 1}, {1, 1}, 0}, 40, 42};

#define IMAGE   {WEIR_F32, 4, {1, 32, 40, 42}}
#define POOLED  {WEIR_F32, 4, {1, 32, 20, 21}}
#define WINNERS {WEIR_U8, 2, {1, 32}}
#define LINE    {WEIR_F32, 2, {1, 50000}}
#define COLUMNS {WEIR_F32, 3, {1, 70, 600}}

static const row rows[] = {
    {WEIR_OP_SOFTMAX, weir_cpu_softmax, &axis, sizeof axis, 1, 1, {1, 1}, {LINE, LINE}},
    {WEIR_OP_SOFTMAX_GRAD, weir_cpu_softmax_grad, &axis, sizeof axis, 2, 1, {1, 1, 1},
     {COLUMNS, COLUMNS, COLUMNS}},
    {WEIR_OP_LOG_SOFTMAX, weir_cpu_log_softmax, &axis, sizeof axis, 1, 1, {1, 1},
     {COLUMNS, COLUMNS}},
    {WEIR_OP_MAX_POOL2D, weir_cpu_max_pool2d, &pool, sizeof pool, 1, 2, {1, 1, 20 * 21},
     {IMAGE, POOLED, WINNERS}},
    {WEIR_OP_MAX_POOL2D_GRAD, weir_cpu_max_pool2d_grad, &back, sizeof back, 2, 1, {1, 20 * 21, 1},
     {POOLED, WINNERS, IMAGE}},
    {WEIR_OP_AVG_POOL2D_GRAD, weir_cpu_avg_pool2d_grad, &back, sizeof back, 1, 1, {1, 1},
     {POOLED, IMAGE}},
};

/* The operand for a number of places; f32 stands for the half type t. */
static operand operand_for(const row *r, int i, int64_t places, weir_dtype t)
{
    weir_desc d = r->of_row[i];

    d.dim[0] = r->rows[i] * places;
    d.dtype = d.dtype == WEIR_F32 ? t : d.dtype;
    return operand_of(d);
}

static void fill(operand *x)
{
    for (int64_t i = 0; i < x->n; i++)
        element_set(x->layout.desc.dtype, x->data, i,
                    x->layout.desc.dtype == WEIR_U8 ? (double)check_int(0, 8)
                                                    : (double)check_int(-16, 16) / 8);
}

/* Runs place `at` by itself; its results must be those of the whole call. */
static void check_place(drive *v, const row *r, weir_dtype t, const operand *whole, int64_t at)
{
    operand one[5];

    for (int i = 0; i < r->nin + r->nout; i++) {
        one[i] = operand_for(r, i, 1, t);
        if (i < r->nin)
            memcpy(one[i].data, (const char *)whole[i].data + (size_t)at * one[i].bytes,
                   one[i].bytes);
    }
    CHECK_OK(drive_run(v, r->choose, r->op, r->nin, one, r->nout, one + r->nin, r->attr,
                       r->attr_bytes, NULL));
    for (int i = r->nin; i < r->nin + r->nout; i++)
        CHECK_BITS((const char *)whole[i].data + (size_t)at * one[i].bytes, one[i].data,
                   one[i].bytes);
    for (int i = 0; i < r->nin + r->nout; i++)
        operand_free(&one[i]);
}

static void check_row(drive *v, const row *r, weir_dtype t)
{
    operand whole[5];

    for (int i = 0; i < r->nin + r->nout; i++) {
        whole[i] = operand_for(r, i, PLACES, t);
        if (i < r->nin)
            fill(&whole[i]);
    }
    CHECK_OK(drive_run(v, r->choose, r->op, r->nin, whole, r->nout, whole + r->nin, r->attr,
                       r->attr_bytes, NULL));
    for (int64_t at = 0; at < PLACES; at++)
        check_place(v, r, t, whole, at);
    for (int i = 0; i < r->nin + r->nout; i++)
        operand_free(&whole[i]);
}

CASE(parts_of_a_batch_have_the_bits_of_their_places)
{
    drive v;

    check_random = 11;
    for (int threads = 1; threads <= 3 && drive_open(&v, threads); threads++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            check_row(&v, &rows[i], WEIR_BF16);
            check_row(&v, &rows[i], WEIR_F16);
        }
        drive_close(&v);
    }
}

/* The workspace of a call in parts does not grow with the batch. */
CASE(parts_of_a_batch_share_one_workspace)
{
    drive       v;
    weir_layout x[2] = {{.desc = weir_2d(WEIR_BF16, 8, 50000)},
                        {.desc = weir_2d(WEIR_BF16, 80, 50000)}};
    size_t      work[2] = {0, 0};

    if (!drive_open(&v, 2))
        return;
    for (int i = 0; i < 2; i++) {
        weir_kernel     kernel;
        weir_layout     y;
        const weir_call c = {.op = WEIR_OP_SOFTMAX, .nin = 1, .nout = 1, .in = &x[i], .out = &y,
                             .attr = &axis, .attr_bytes = sizeof axis, .alias = -1};
        weir_shape_dense(&x[i]);
        y = x[i];
        if (CHECK_OK(weir_cpu_softmax(&v.d, &c, &kernel))) {
            work[i] = kernel.work;
            weir_kernel_drop(&kernel);
        }
    }
    CHECK(work[0] > 0 && work[0] == work[1] && work[0] < weir_shape_bytes(&x[1].desc));
    drive_close(&v);
}
