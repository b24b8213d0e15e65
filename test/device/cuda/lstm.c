/* lstm.c - whole sequences of an LSTM and their gradient on the emulated card against the CPU's in
 * f64, in both directions, with both implementations of products. */
#include "direct.h"

typedef struct shape {
    int64_t t, n, w;
} shape;

static weir_desc steps(weir_dtype type, const shape *x, int64_t columns)
{
    return (weir_desc){.dtype = type, .ndim = 3, .dim = {x->t, x->n, columns}};
}

/* A card rounds the gates of halves between its kernels, and the two terms of a cell may cancel:
 * its error is measured by their size then. */
static void near(const shape *x, weir_dtype t, int i, const direct_tensor *got,
                 const direct_tensor *want)
{
    const bool   half = t == WEIR_F16 || t == WEIR_BF16;
    const double error = direct_error(got, want, half ? 0.25 : 1e-3) / direct_epsilon(t);
    check_that(error <= 16, __FILE__, __LINE__,
               "%s, %lld steps of %lld x %lld, result %d: off by %g eps", weir_dtype_name(t),
               (long long)x->t, (long long)x->n, (long long)x->w, i, error);
}

/* Runs the call on both devices and compares all three results; out: the card's. */
static bool same(weir_device *d, weir_device *cpu, const shape *x, weir_op op, int nin,
                 const direct_tensor *in, const weir_lstm_attr *a, direct_tensor out[3])
{
    direct_tensor exact[6], want[3];
    bool          ok = false;
    for (int i = 0; i < nin; i++)
        exact[i] = direct_as(&in[i], WEIR_F64);
    if (CHECK_OK(direct_run(cpu, op, nin, exact, 3, want, a, sizeof *a, NULL)) &&
        CHECK_OK(direct_run(d, op, nin, in, 3, out, a, sizeof *a, NULL))) {
        for (int i = 0; i < 3; i++) {
            near(x, in[0].layout.desc.dtype, i, &out[i], &want[i]);
            direct_free(&want[i]);
        }
        ok = true;
    }
    for (int i = 0; i < nin; i++)
        direct_free(&exact[i]);
    return ok;
}

static void sequence(weir_device *d, weir_device *cpu, const shape *x, weir_dtype t, bool backward)
{
    const weir_lstm_attr a = {.backward = backward};
    direct_tensor        in[] = {direct_random(steps(t, x, 4 * x->w), -2, 2),
                                 direct_random(weir_2d(t, 4 * x->w, x->w), -1, 1),
                                 direct_random(weir_2d(t, x->n, x->w), -1, 1),
                                 direct_random(weir_2d(t, x->n, x->w), -1, 1)};
    direct_tensor        dh = direct_random(steps(t, x, x->w), -1, 1);
    direct_tensor        dc = direct_random(steps(t, x, x->w), -1, 1);
    direct_tensor        out[3], back[3];
    if (same(d, cpu, x, WEIR_OP_LSTM, 4, in, &a, out)) {
        const direct_tensor of[] = {out[0], in[1], out[2], in[3], dh, dc};
        for (int nin = 5; nin <= 6; nin++)
            if (same(d, cpu, x, WEIR_OP_LSTM_GRAD, nin, of, &a, back))
                for (int i = 0; i < 3; i++)
                    direct_free(&back[i]);
        for (int i = 0; i < 3; i++)
            direct_free(&out[i]);
    }
    for (int i = 0; i < 4; i++)
        direct_free(&in[i]);
    direct_free(&dh);
    direct_free(&dc);
}

CASE(sequences_both_ways)
{
    static const shape       shapes[] = {{1, 1, 1}, {3, 2, 3}, {7, 5, 12}, {2, 0, 3}, {4, 40, 20}};
    static const char *const wishes[] = {"own", "cublaslt"};
    static const weir_dtype  types[] = {WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16};
    for (size_t w = 0; w < 2; w++) {
        direct_env("WEIR_GEMM", wishes[w]);
        weir_device *const d = direct_open(), *const cpu = weir_device_open("cpu", NULL);
        CHECK_OR_RETURN(d && cpu);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (size_t k = 0; k < 2 * sizeof types / sizeof *types; k++)
                sequence(d, cpu, &shapes[i], types[k / 2], k % 2 != 0);
        direct_env("WEIR_GEMM", NULL);
        weir_device_close(d);
        weir_device_close(cpu);
    }
}
