/* half.c - element-wise calls on every f16 and bf16 pattern, on every instruction set. */
#include "core/half.h"
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

/* Casts between f32 and halves take vectors of elements and a rest: every vector and the rest must
 * have the bits of core/half.h. The numbers of f32 surround every number of the half type and the
 * middle between two of them. */
static void check_bits_of_casts(weir_dtype type, uint16_t (*narrow)(float),
                                float (*widen)(uint16_t))
{
    enum { NEAR = 5, N = PATTERNS * 2 * NEAR - 3 };
    static const uint32_t least[NEAR] = {0, 1, 0xfff, 0x1000, 0x7fff};
    kernel_case           to = {.choose = weir_cpu_cast, .op = WEIR_OP_CAST};
    kernel_case           back = {.choose = weir_cpu_cast, .op = WEIR_OP_CAST};
    float *const          x = kernel_in(&to, kernel_dense(weir_1d(WEIR_F32, N)));
    uint16_t *const       y = kernel_out(&to, weir_1d(type, N));
    uint16_t *const       h = kernel_in(&back, kernel_dense(weir_1d(type, PATTERNS - 3)));
    float *const          w = kernel_out(&back, weir_1d(WEIR_F32, PATTERNS - 3));

    for (int i = 0; i < N; i++) {
        const uint32_t u = (uint32_t)(i / (2 * NEAR)) << 16 | (i % 2 ? 0x8000u : 0u);
        x[i] = weir_half_float(u + least[i / 2 % NEAR]);
    }
    for (int i = 0; i < PATTERNS - 3; i++)
        h[i] = (uint16_t)i;
    kernel_run(&to);
    kernel_run(&back);
    for (int i = 0; i < N && check_failures == 0; i++)
        check_that(y[i] == narrow(x[i]), __FILE__, __LINE__, "%a in %s is %x, not %x", (double)x[i],
                   weir_dtype_name(type), (unsigned)y[i], (unsigned)narrow(x[i]));
    for (int i = 0; i < PATTERNS - 3 && check_failures == 0; i++)
        CHECK(weir_half_bits(w[i]) == weir_half_bits(widen((uint16_t)i)));
    kernel_free(&to);
    kernel_free(&back);
}

CASE(casts_of_halves_have_the_same_bits_in_every_vector)
{
    check_bits_of_casts(WEIR_F16, weir_to_f16, weir_from_f16);
    check_bits_of_casts(WEIR_BF16, weir_to_bf16, weir_from_bf16);
}
