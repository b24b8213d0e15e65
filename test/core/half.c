/* half.c - tests of f16 and bf16 conversions against their definitions. */
#include "core/half.h"
#include "check.h"
#include "half.h"

static const weir_dtype halves[] = {WEIR_F16, WEIR_BF16};

static float widen(uint16_t h, weir_dtype t)
{
    return t == WEIR_F16 ? weir_from_f16(h) : weir_from_bf16(h);
}

static uint16_t narrow(float x, weir_dtype t)
{
    return t == WEIR_F16 ? weir_to_f16(x) : weir_to_bf16(x);
}

static uint16_t narrow_wide(double x, weir_dtype t)
{
    return t == WEIR_F16 ? weir_to_f16_from_f64(x) : weir_to_bf16_from_f64(x);
}

CASE(every_pattern_there_and_back)
{
    for (int k = 0; k < 2; k++)
        for (uint32_t h = 0; h < 0x10000 && check_failures == 0; h++) {
            const float  x = widen((uint16_t)h, halves[k]);
            const double want = half_decode((uint16_t)h, halves[k]);
            if (isnan(want)) {
                CHECK(isnan(x) && isnan(widen(narrow(x, halves[k]), halves[k])));
                CHECK(isnan(widen(narrow_wide((double)x, halves[k]), halves[k])));
                continue;
            }
            CHECK((double)x == want && (signbit(x) != 0) == (h >> 15 != 0));
            CHECK(narrow(x, halves[k]) == h && narrow_wide((double)x, halves[k]) == h);
        }
}

/* Checks a number and its neighbours in f32 and in f64. */
static void check_around(double middle, weir_dtype t)
{
    const float f = (float)middle;
    const float near[] = {f, nextafterf(f, INFINITY), nextafterf(f, -INFINITY)};
    const double wide[] = {middle, nextafter(middle, (double)INFINITY),
                           nextafter(middle, (double)-INFINITY)};

    for (int i = 0; i < 3; i++) {
        CHECK(narrow(near[i], t) == half_encode((double)near[i], t));
        CHECK(narrow_wide(wide[i], t) == half_encode(wide[i], t));
    }
}

/* Between any two adjacent numbers, and between the largest and the first that overflows. */
CASE(ties_go_to_even)
{
    for (int k = 0; k < 2; k++) {
        const uint32_t infinity = k == 0 ? 0x7c00 : 0x7f80;
        for (uint32_t h = 0; h < infinity && check_failures == 0; h++) {
            const double a = half_decode((uint16_t)h, halves[k]);
            const double below = half_decode((uint16_t)(h > 0 ? h - 1 : 0), halves[k]);
            const double b = h + 1 < infinity ? half_decode((uint16_t)(h + 1), halves[k])
                                              : a + (a - below);
            check_around((a + b) / 2, halves[k]);
            check_around(-(a + b) / 2, halves[k]);
        }
    }
}

CASE(numbers_far_outside)
{
    for (int k = 0; k < 2; k++) {
        const uint16_t infinity = k == 0 ? 0x7c00 : 0x7f80;
        CHECK(narrow_wide(1e300, halves[k]) == infinity);
        CHECK(narrow_wide(-1e300, halves[k]) == (infinity | 0x8000));
        CHECK(narrow_wide(1e-300, halves[k]) == 0 && narrow_wide(-1e-300, halves[k]) == 0x8000);
        CHECK(narrow(0x1.fffffep127f, halves[k]) == infinity);
        CHECK(narrow(0x1p-149f, halves[k]) == 0 && narrow(-0x1p-149f, halves[k]) == 0x8000);
    }
}

/* (2 m + 1) 2^e is halfway between two bf16 numbers of 8 digits; adding or subtracting 1
 * decides. */
CASE(integers_are_rounded_once)
{
    for (int e = 1; e <= 54; e++)
        for (int64_t m = 128; m < 256; m++) {
            const int64_t tie = (2 * m + 1) << e;
            const uint16_t down = half_encode(ldexp((double)m, e + 1), WEIR_BF16);
            for (int sign = -1; sign <= 1; sign += 2) {
                const uint16_t minus = sign < 0 ? 0x8000u : 0u;
                const uint16_t at[] = {weir_to_bf16_from_f64(weir_odd_from_i64(sign * (tie - 1))),
                                       weir_to_bf16_from_f64(weir_odd_from_i64(sign * tie)),
                                       weir_to_bf16_from_f64(weir_odd_from_i64(sign * (tie + 1)))};
                CHECK(at[0] == (down | minus));
                CHECK(at[1] == ((down + m % 2) | minus));
                CHECK(at[2] == ((down + 1) | minus));
            }
        }
    CHECK(weir_odd_from_i64(INT64_MIN) == -0x1p63);
    CHECK(weir_odd_from_i64(INT64_MAX) < 0x1p63 && weir_odd_from_i64(INT64_MAX) > 0x1p62);
}

CASE(sizes_and_names_of_halves)
{
    CHECK(weir_dtype_size(WEIR_F16) == 2 && weir_dtype_size(WEIR_BF16) == 2);
    CHECK_TEXT(weir_dtype_name(WEIR_F16), "f16");
    CHECK_TEXT(weir_dtype_name(WEIR_BF16), "bf16");
    CHECK(weir_dtype_size((weir_dtype)(WEIR_U64 + 1)) == 0);
}
