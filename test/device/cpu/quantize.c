/* quantize.c - tests of QUANTIZE and DEQUANTIZE: error bounds, no bias, special numbers. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

enum { GROUP = WEIR_QUANT_GROUP };

static weir_pack_attr attr_of(int64_t n, int64_t bits)
{
    return (weir_pack_attr){.kind = WEIR_PACK_GROUPS, .dtype = WEIR_F32, .count = n, .bits = bits};
}

/* Quantises and restores x in every way; the result is in y. */
static void round_trip(int64_t n, int64_t bits, const float *x, float *y)
{
    const weir_pack_attr a = attr_of(n, bits);
    const weir_desc      plain = weir_1d(WEIR_F32, n);
    const weir_desc      code = weir_1d(WEIR_U8, (int64_t)weir_pack_bytes(&a));
    kernel_case to = {.choose = weir_cpu_quantize, .op = WEIR_OP_QUANTIZE, .attr = &a,
                      .attr_bytes = sizeof a};
    kernel_case from = {.choose = weir_cpu_dequantize, .op = WEIR_OP_DEQUANTIZE, .attr = &a,
                        .attr_bytes = sizeof a};

    memcpy(kernel_in(&to, kernel_dense(plain)), x, (size_t)n * sizeof *x);
    const void *const codes = kernel_out(&to, code);
    kernel_run(&to);
    memcpy(kernel_in(&from, kernel_dense(code)), codes, weir_pack_bytes(&a));
    kernel_out(&from, plain);
    kernel_run(&from);
    memcpy(y, from.dst[0], (size_t)n * sizeof *y);
    kernel_free(&to);
    kernel_free(&from);
}

/* No error exceeds the step of its group. */
CASE(errors_are_below_a_step)
{
    static float         x[70001], y[70001];
    static const int64_t counts[] = {1, 3, 255, 256, 257, 16384, 16385, 70001};

    for (int64_t bits = 2; bits <= 16; bits *= 2)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const int64_t n = counts[c];
            int64_t       bad = 0;
            check_floats(x, (size_t)n, -3, 5);
            round_trip(n, bits, x, y);
            for (int64_t i = 0; i < n; i++) {
                const int64_t g = i / GROUP * GROUP;
                float         lo = x[g], hi = x[g];
                for (int64_t k = g; k < n && k < g + GROUP; k++) {
                    lo = fminf(lo, x[k]);
                    hi = fmaxf(hi, x[k]);
                }
                bad += !(fabsf(y[i] - x[i]) <= 1.0001f * (hi - lo) / (float)((1 << bits) - 1) +
                                                   1e-6f);
            }
            check_that(bad == 0, __FILE__, __LINE__, "%lld of %lld at %d bits", (long long)bad,
                       (long long)n, (int)bits);
        }
}

CASE(awkward_numbers)
{
    float x[3 * GROUP] = {0}, y[3 * GROUP];

    for (int i = 0; i < GROUP; i++)
        x[i] = 0.1f;                    /* all equal: exact */
    x[GROUP + 5] = (float)NAN;
    x[2 * GROUP] = 3e38f;               /* the range overflows f32 */
    x[2 * GROUP + 1] = -3e38f;
    round_trip(3 * GROUP, 8, x, y);
    for (int i = 0; i < GROUP; i++)
        CHECK(y[i] == x[i] && isnan(y[GROUP + i]) && isfinite(y[2 * GROUP + i]));
    CHECK(fabsf(y[2 * GROUP] - 3e38f) <= 3e36f);
    x[GROUP + 5] = (float)INFINITY;
    round_trip(3 * GROUP, 2, x, y);
    CHECK(isnan(y[GROUP]));
}

/* The mean of many roundings is the number, within five standard errors of half a step. */
CASE(rounding_is_right_on_average)
{
    enum { DRAWS = 4000 };
    const weir_pack_attr a = attr_of(GROUP, 2);
    const weir_layout    plain = kernel_dense(weir_1d(WEIR_F32, GROUP));
    weir_layout          code = kernel_dense(weir_1d(WEIR_U8, (int64_t)weir_pack_bytes(&a)));
    weir_layout          back = plain;
    float                x[GROUP], y[GROUP];
    double               sum[GROUP] = {0};
    uint64_t             codes[GROUP];
    const weir_call to = {.op = WEIR_OP_QUANTIZE, .nin = 1, .nout = 1, .in = &plain, .out = &code,
                          .attr = &a, .attr_bytes = sizeof a};
    const weir_call from = {.op = WEIR_OP_DEQUANTIZE, .nin = 1, .nout = 1, .in = &code,
                            .out = &back, .attr = &a, .attr_bytes = sizeof a};
    weir_kernel          quantize, dequantize;
    weir_threads *const  t = weir_threads_new(1);

    check_floats(x, GROUP, -1, 2);
    x[0] = -1;
    x[1] = 2;
    CHECK_OK(weir_cpu_quantize(NULL, &to, &quantize));
    CHECK_OK(weir_cpu_dequantize(NULL, &from, &dequantize));
    for (uint64_t k = 0; k < DRAWS; k++) {
        CHECK_OK(quantize.run(&(weir_kargs){.call = &to, .src = (void *[]){x}, .seed = 3,
                                            .rng = k * GROUP, .dst = (void *[]){codes},
                                            .threads = t}));
        CHECK_OK(dequantize.run(&(weir_kargs){.call = &from, .src = (void *[]){codes},
                                              .dst = (void *[]){y}, .threads = t}));
        for (int i = 0; i < GROUP; i++)
            sum[i] += (double)y[i];
    }
    for (int i = 0; i < GROUP; i++)     /* a step is 1 */
        CHECK(fabs(sum[i] / DRAWS - (double)x[i]) < 5 * 0.5 / sqrt(DRAWS));
    weir_threads_free(t);
}
