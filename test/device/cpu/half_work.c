/* half_work.c - workspaces of kernels that read and write halves directly hold no copies of whole
 * tensors: they do not grow with the length of a sequence, or with the width of a table's rows. */
#include "device/cpu/drive.h"

/* A call on halves, by its operands' shapes; inputs first. */
typedef struct half_call {
    weir_op        op;
    weir_choose_fn choose;
    const void    *attr;
    size_t         attr_bytes;
    int            nin, nout;
    weir_desc      of[8];           /* F32: the half type */
} half_call;

static size_t work_of(const half_call *h, weir_dtype t)
{
    drive       v;
    weir_layout of[8];
    weir_kernel kernel = {0};
    for (int i = 0; i < h->nin + h->nout; i++) {
        of[i] = (weir_layout){.desc = h->of[i]};
        of[i].desc.dtype = h->of[i].dtype == WEIR_F32 ? t : h->of[i].dtype;
        weir_shape_dense(&of[i]);
    }
    const weir_call c = {.op = h->op, .nin = h->nin, .nout = h->nout, .in = of,
                         .out = of + h->nin, .attr = h->attr, .attr_bytes = h->attr_bytes,
                         .alias = -1};
    if (!drive_open(&v, 2))
        return 0;
    CHECK_OK(h->choose(&v.d, &c, &kernel));
    const size_t work = kernel.work;
    weir_kernel_drop(&kernel);
    drive_close(&v);
    return work;
}

#define STEPS(t, columns) {WEIR_F32, 3, {t, 16, columns}}
#define STATE             {WEIR_F32, 2, {16, 64}}
#define WEIGHTS           {WEIR_F32, 2, {256, 64}}

static half_call lstm_of(int64_t t, bool back)
{
    static const weir_lstm_attr attr = {0};
    if (back)
        return (half_call){WEIR_OP_LSTM_GRAD, weir_cpu_lstm_grad, &attr, sizeof attr, 5, 3,
                           {STEPS(t, 256), WEIGHTS, STEPS(t, 64), STATE, STEPS(t, 64),
                            STEPS(t, 256), STATE, STATE}};
    return (half_call){WEIR_OP_LSTM, weir_cpu_lstm, &attr, sizeof attr, 4, 3,
                       {STEPS(t, 256), WEIGHTS, STATE, STATE, STEPS(t, 256), STEPS(t, 64),
                        STEPS(t, 64)}};
}

/* Beside the packed weights, which f32 has too, only what flows from a step to the next. */
CASE(an_lstm_keeps_one_step)
{
    for (int back = 0; back < 2; back++) {
        const half_call few = lstm_of(3, back), many = lstm_of(50, back);
        const size_t    flow = (size_t)(back ? 9 : 3) * 16 * 64 * sizeof(float);
        for (weir_dtype t = WEIR_F16; t <= WEIR_BF16; t++) {
            CHECK(work_of(&few, t) == work_of(&many, t));
            CHECK(work_of(&many, t) == work_of(&many, WEIR_F32) + flow);
        }
    }
}

/* Rows are added in f32 a part at a time; the workspace has an index for each row and update. */
CASE(additions_to_rows_keep_indices)
{
    static const weir_gather_attr attr = {.rows = 100};
#define TABLE   {WEIR_F32, 2, {100, 300}}
#define UPDATES {WEIR_F32, 2, {40, 300}}
#define INDEX   {WEIR_I32, 1, {40}}
    const half_call calls[] = {
        {WEIR_OP_GATHER_GRAD, weir_cpu_gather_grad, &attr, sizeof attr, 2, 1,
         {INDEX, UPDATES, TABLE}},
        {WEIR_OP_SCATTER_ADD, weir_cpu_scatter_add, NULL, 0, 3, 1,
         {TABLE, INDEX, UPDATES, TABLE}},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (weir_dtype t = WEIR_F16; t <= WEIR_BF16; t++)
            CHECK(work_of(&calls[i], t) == 140 * sizeof(int32_t));
}

/* One element at a time is converted. */
CASE(scans_have_no_workspace)
{
    static const weir_reduce_attr over = {.dims = 2, .keep = 1};
    static const weir_cumsum_attr along = {.reduce = {.dims = 2}};
#define WHOLE {WEIR_F32, 2, {300, 200}}
#define PART  {WEIR_F32, 2, {300, 1}}
#define PLACE {WEIR_I64, 2, {300, 1}}
    const half_call calls[] = {
        {WEIR_OP_ARGMAX, weir_cpu_argmax, &over, sizeof over, 1, 1, {WHOLE, PLACE}},
        {WEIR_OP_ARGMIN, weir_cpu_argmin, &over, sizeof over, 1, 1, {WHOLE, PLACE}},
        {WEIR_OP_AMAX_GRAD, weir_cpu_amax_grad, &over, sizeof over, 3, 1,
         {PART, WHOLE, PART, WHOLE}},
        {WEIR_OP_PROD_GRAD, weir_cpu_prod_grad, &over, sizeof over, 2, 1, {PART, WHOLE, WHOLE}},
        {WEIR_OP_CUMSUM, weir_cpu_cumsum, &along, sizeof along, 1, 1, {WHOLE, WHOLE}},
        {WEIR_OP_CUMPROD, weir_cpu_cumprod, &along, sizeof along, 1, 1, {WHOLE, WHOLE}},
        {WEIR_OP_CUMPROD_GRAD, weir_cpu_cumprod_grad, &along, sizeof along, 3, 1,
         {WHOLE, WHOLE, WHOLE, WHOLE}},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (weir_dtype t = WEIR_F16; t <= WEIR_BF16; t++)
            CHECK(work_of(&calls[i], t) == 0);
}

/* A batch of products needs no more than a few of them. */
CASE(products_share_one_workspace)
{
    static const weir_matmul_attr attr = {0};
    const int64_t                 sides[] = {8, 100};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        const int64_t   s = sides[i];
#define SQUARES(n) {WEIR_F32, 3, {n, s, s}}
        const half_call few = {WEIR_OP_BATCH_MATMUL, weir_cpu_batch_matmul, &attr, sizeof attr,
                               2, 1, {SQUARES(20), SQUARES(20), SQUARES(20)}};
        const half_call many = {WEIR_OP_BATCH_MATMUL, weir_cpu_batch_matmul, &attr, sizeof attr,
                                2, 1, {SQUARES(90), SQUARES(90), SQUARES(90)}};
        for (weir_dtype t = WEIR_F16; t <= WEIR_BF16; t++)
            CHECK(work_of(&few, t) == work_of(&many, t));
    }
}
