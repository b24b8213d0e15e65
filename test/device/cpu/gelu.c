/* gelu.c - gelu and its slope in f32 over the whole range: small values, those of negative numbers,
 * keep their digits. */
#include "device/cpu/drive.h"
#include "device/cpu/kernels/elementwise.h"

enum { N = 12001 };

static double normal_cdf(double x)
{
    return 0.5 * erfc(-0.70710678118654752440 * x);
}

CASE(exact_over_the_whole_range)
{
    drive              v;
    const weir_desc    d = weir_1d(WEIR_F32, N);
    operand            in[2] = {operand_of(d), operand_of(d)}, y = operand_of(d);
    operand            slope = operand_of(d);
    char               impl[64];
    const weir_ew_attr attr = {0, 0};
    double             worst = 0, worst_slope = 0;

    for (int i = 0; i < N; i++) {
        element_set(WEIR_F32, in[0].data, i, 1);
        element_set(WEIR_F32, in[1].data, i, (double)(i - N / 2) * 1e-3);
    }
    if (drive_open(&v, 2)) {
        CHECK_OK(drive_run(&v, weir_cpu_elementwise, WEIR_OP_GELU, 1, &in[1], 1, &y, &attr,
                           sizeof attr, impl));
        CHECK_OK(drive_run(&v, weir_cpu_elementwise, WEIR_OP_GELU_GRAD, 2, in, 1, &slope, &attr,
                           sizeof attr, impl));
        drive_close(&v);
    }
    for (int i = 0; i < N; i++) {
        const double x = operand_at(&in[1], i), cdf = normal_cdf(x), eps = 0x1p-23;
        const double off = fabs(operand_at(&y, i) - x * cdf);
        worst = fmax(worst, i == N / 2 ? off : off / fabs(x * cdf) / eps);
        worst_slope = fmax(worst_slope, fabs(operand_at(&slope, i) - cdf -
                                             x * exp(-0.5 * x * x) * 0.39894228040143267794) / eps);
    }
    CHECK(worst < 12 && worst_slope < 3);
    operand_free(&in[0]);
    operand_free(&in[1]);
    operand_free(&y);
    operand_free(&slope);
}
