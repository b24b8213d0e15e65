/* half.c - element-wise calls on every f16 and bf16 pattern, on every instruction set. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"
#include "device/cpu/kernels/elementwise.h"

enum { PATTERNS = 1 << 16 };

static void check_row(weir_op op, weir_dtype type, double (*want)(double x))
{
    kernel_case     k = {.choose = weir_cpu_elementwise, .op = op};
    uint16_t *const x = kernel_in(&k, kernel_dense(weir_1d(type, PATTERNS)));
    uint16_t *const y = kernel_out(&k, weir_1d(type, PATTERNS));

    for (int i = 0; i < PATTERNS; i++)
        x[i] = (uint16_t)i;
    kernel_run(&k);
    for (int i = 0; i < PATTERNS && check_failures == 0; i++) {
        const double r = want(half_decode((uint16_t)i, type));
        check_that(isnan(r) ? isnan(half_decode(y[i], type)) : y[i] == half_encode(r, type),
                   __FILE__, __LINE__, "%s of pattern %x is %x", weir_dtype_name(type),
                   (unsigned)i, (unsigned)y[i]);
    }
    kernel_free(&k);
}

static double negative(double x)
{
    return -x;
}

/* Exact in f32 until the only rounding. */
static double squared(double x)
{
    return x * x;
}

CASE(every_half_negated_and_squared)
{
    check_row(WEIR_OP_NEG, WEIR_F16, negative);
    check_row(WEIR_OP_NEG, WEIR_BF16, negative);
    check_row(WEIR_OP_SQUARE, WEIR_F16, squared);
}

static void check_cast(weir_dtype type, weir_dtype wide)
{
    kernel_case     k = {.choose = weir_cpu_cast, .op = WEIR_OP_CAST};
    uint16_t *const x = kernel_in(&k, kernel_dense(weir_1d(type, PATTERNS)));

    for (int i = 0; i < PATTERNS; i++)
        x[i] = (uint16_t)i;
    kernel_out(&k, weir_1d(wide, PATTERNS));
    kernel_run(&k);
    for (int i = 0; i < PATTERNS && check_failures == 0; i++) {
        const double got = kernel_get(&k.out[0], k.dst[0], i);
        const double want = half_decode((uint16_t)i, type);
        CHECK(isnan(want) ? isnan(got) : got == want);
    }
    kernel_free(&k);
}

CASE(every_half_widened)
{
    check_cast(WEIR_F16, WEIR_F32);
    check_cast(WEIR_F16, WEIR_F64);
    check_cast(WEIR_BF16, WEIR_F32);
    check_cast(WEIR_BF16, WEIR_F64);
}
