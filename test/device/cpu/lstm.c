/* lstm.c - an LSTM on halves, and its gradient, against the same in f64: tiles of several rows and
 * strips, in both directions, with the same bits for every number of threads. */
#include "device/cpu/drive.h"

enum { STEPS = 5, ROWS = 75, WIDTH = 40, RESULTS = 3 };

typedef struct sequence {
    weir_op        op;
    weir_choose_fn choose;
    int            nin;
    operand        in[6], out[RESULTS];
} sequence;

static operand steps_of(weir_dtype t, int64_t columns)
{
    return operand_of((weir_desc){t, 3, {STEPS, ROWS, columns}});
}

/* Operands in type t: random halves, the same for every type. */
static sequence sequence_of(weir_dtype t, weir_dtype half, bool back)
{
    const weir_desc state = weir_2d(t, ROWS, WIDTH), weights = weir_2d(t, 4 * WIDTH, WIDTH);
    sequence        s = {.op = back ? WEIR_OP_LSTM_GRAD : WEIR_OP_LSTM,
                         .choose = back ? weir_cpu_lstm_grad : weir_cpu_lstm,
                         .nin = back ? 6 : 4,
                         .in = {steps_of(t, 4 * WIDTH), operand_of(weights)}};
    s.in[2] = back ? steps_of(t, WIDTH) : operand_of(state);
    s.in[3] = operand_of(state);
    for (int i = 4; i < s.nin; i++)
        s.in[i] = steps_of(t, WIDTH);
    s.out[0] = steps_of(t, 4 * WIDTH);
    for (int i = 1; i < RESULTS; i++)
        s.out[i] = back ? operand_of(state) : steps_of(t, WIDTH);
    check_random = 7;
    for (int i = 0; i < s.nin; i++)
        for (int64_t k = 0; k < s.in[i].n; k++)
            element_set(t, s.in[i].data, k,
                        half_round(i == 0 && back ? check_real(0, 1) : check_real(-0.5, 0.5),
                                   half));
    return s;
}

static void sequence_free(sequence *s)
{
    for (int i = 0; i < s->nin; i++)
        operand_free(&s->in[i]);
    for (int i = 0; i < RESULTS; i++)
        operand_free(&s->out[i]);
}

static void sequence_run(sequence *s, int threads, bool backward)
{
    const weir_lstm_attr a = {.backward = backward};
    weir_layout          in[6], out[RESULTS];
    void                *src[6], *dst[RESULTS];
    weir_kernel          kernel = {0};
    drive                v;
    for (int i = 0; i < s->nin; i++)
        in[i] = s->in[i].layout, src[i] = s->in[i].data;
    for (int i = 0; i < RESULTS; i++)
        out[i] = s->out[i].layout, dst[i] = s->out[i].data;
    const weir_call c = {.op = s->op, .nin = s->nin, .nout = RESULTS, .in = in, .out = out,
                         .attr = &a, .attr_bytes = sizeof a, .alias = -1};
    if (!drive_open(&v, threads))
        return;
    if (CHECK_OK(s->choose(&v.d, &c, &kernel))) {
        void *const      work = zone_new(kernel.work);
        const weir_kargs k = {.call = &c, .src = src, .dst = dst, .work = work,
                              .state = kernel.state, .threads = v.d.threads};
        memset(work, DRIVE_SCRATCH, kernel.work);
        CHECK_OK(kernel.run(&k));
        zone_check(work, "lstm", "work buffer");
        zone_check_used(work, kernel.work, DRIVE_SCRATCH, "lstm");
        zone_free(work);
    }
    weir_kernel_drop(&kernel);
    drive_close(&v);
}

/* Off by two units of the half type at 1 at most. */
static void check_results(const sequence *got, const sequence *want, weir_dtype half)
{
    const double unit = half == WEIR_F16 ? 0x1p-10 : 0x1p-7;
    for (int i = 0; i < RESULTS; i++)
        for (int64_t k = 0; k < got->out[i].n; k++) {
            const double is = operand_at(&got->out[i], k), be = operand_at(&want->out[i], k);
            if (!check_that(fabs(is - be) <= 2 * unit * fmax(1, fabs(be)), __FILE__, __LINE__,
                            "%s, result %d, element %lld: %g, not %g", weir_dtype_name(half), i,
                            (long long)k, is, be))
                return;
        }
}

static void check_half(weir_dtype half, bool back, bool backward)
{
    sequence exact = sequence_of(WEIR_F64, half, back), one = sequence_of(half, half, back);
    sequence_run(&exact, 1, backward);
    sequence_run(&one, 1, backward);
    check_results(&one, &exact, half);
    for (int threads = 2; threads <= 3; threads++) {
        sequence more = sequence_of(half, half, back);
        sequence_run(&more, threads, backward);
        for (int i = 0; i < RESULTS; i++)
            CHECK_BITS(more.out[i].data, one.out[i].data, one.out[i].bytes);
        sequence_free(&more);
    }
    sequence_free(&exact);
    sequence_free(&one);
}

CASE(halves_are_computed_in_f32)
{
    for (weir_dtype half = WEIR_F16; half <= WEIR_BF16; half++)
        for (int way = 0; way < 4; way++)
            check_half(half, way % 2, way / 2);
}

/* Weights in f32 are read as if they had been rounded. */
CASE(weights_in_f32_are_rounded)
{
    for (int back = 0; back < 2; back++) {
        sequence half = sequence_of(WEIR_BF16, WEIR_BF16, back);
        sequence wide = sequence_of(WEIR_BF16, WEIR_BF16, back);
        operand  w = operand_of(weir_2d(WEIR_F32, 4 * WIDTH, WIDTH));
        for (int64_t k = 0; k < w.n; k++) {
            const float v = (float)check_real(-0.5, 0.5);
            ((float *)w.data)[k] = v;
            element_set(WEIR_BF16, half.in[1].data, k, half_round((double)v, WEIR_BF16));
        }
        operand_free(&wide.in[1]);
        wide.in[1] = w;
        sequence_run(&half, 2, false);
        sequence_run(&wide, 2, false);
        for (int i = 0; i < RESULTS; i++)
            CHECK_BITS(wide.out[i].data, half.out[i].data, half.out[i].bytes);
        sequence_free(&half);
        sequence_free(&wide);
    }
}
