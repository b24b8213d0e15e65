/* compare.c - what the op table cannot draw: equal floats, NaN, mixed types, special powers and
 * quotients, integers at their limits. */
#include "check.h"
#include "weir.h"

enum { N = 8 };

static weir_tensor *given(weir_device *d, weir_dtype type, const double *v)
{
    weir_tensor *const wide = weir_input(d, weir_1d(WEIR_F64, N));
    CHECK_OK(weir_write(wide, v, N * sizeof *v));
    weir_tensor *const t = weir_cast(wide, type);
    weir_release(wide);
    return t;
}

/* t is `want`, as doubles; NaN equals NaN. */
static void is(weir_tensor *t, const double *want, int line)
{
    double got[N] = {0};

    CHECK_OK(weir_read(weir_cast(t, WEIR_F64), got, sizeof got));
    for (int i = 0; i < N; i++)
        check_that(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])), __FILE__, line,
                   "element %d is %g, not %g", i, got[i], want[i]);
}

#define IS(t, ...) is(t, (const double[N]){__VA_ARGS__}, __LINE__)

static void compare_floats(weir_device *d, weir_dtype type)
{
    const double       nan = (double)NAN, inf = (double)INFINITY;
    weir_tensor *const a = given(d, type, (double[N]){1, 2, 0.0, nan, nan, inf, -inf, 3});
    weir_tensor *const b = given(d, type, (double[N]){1, 3, -0.0, 1, nan, inf, inf, 2});

    IS(weir_eq(a, b), 1, 0, 1, 0, 0, 1, 0, 0);
    IS(weir_ne(a, b), 0, 1, 0, 1, 1, 0, 1, 1);
    IS(weir_lt(a, b), 0, 1, 0, 0, 0, 0, 1, 0);
    IS(weir_le(a, b), 1, 1, 1, 0, 0, 1, 1, 0);
    IS(weir_gt(a, b), 0, 0, 0, 0, 0, 0, 0, 1);
    IS(weir_ge(a, b), 1, 0, 1, 0, 0, 1, 0, 1);
    IS(weir_where(weir_ge(a, b), a, b), 1, 3, 0, 1, nan, inf, inf, 3);
}

CASE(comparisons_follow_ieee_754)
{
    weir_device *const d = weir_device_open(check_device(), NULL);

    compare_floats(d, WEIR_F32);
    compare_floats(d, WEIR_F64);
    weir_device_close(d);
}

CASE(element_types_of_comparisons_are_checked)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const f = given(d, WEIR_F32, (double[N]){0}), *const b = weir_cast(f, WEIR_BOOL);
    weir_tensor *const u = weir_cast(f, WEIR_U8), *const g = weir_cast(f, WEIR_F64);

    CHECK(weir_eq(f, weir_fill(d, weir_1d(WEIR_F64, 3), 0)) == NULL);
    CHECK_TEXT(weir_error(), "(inputs f32(8), f64(3))");
    CHECK(weir_where(u, f, g) == NULL);
    CHECK_TEXT(weir_error(), "the condition must be bool, not u8");
    CHECK(weir_logical_and(b, u) == NULL);
    CHECK(weir_logical_not(u) == NULL);
    CHECK_TEXT(weir_error(), "input 0 is u8 but must be bool");
    CHECK(weir_lt(b, b) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "must be f32, f64, i32, i64, u8, f16, bf16, i8, ");
    weir_device_close(d);
}

static void special_powers(weir_device *d, weir_dtype type)
{
    const double       nan = (double)NAN, inf = (double)INFINITY;
    weir_tensor *const a = given(d, type, (double[N]){-2, -2, 0, 0, nan, -1, -0.0, -8});
    weir_tensor *const b = given(d, type, (double[N]){3, -2, 0, -1, 0, inf, -3, 0.5});

    IS(weir_pow(a, b), -8, 0.25, 1, inf, 1, 1, -inf, nan);
}

CASE(powers_of_special_numbers)
{
    weir_device *const d = weir_device_open(check_device(), NULL);

    special_powers(d, WEIR_F32);
    special_powers(d, WEIR_F64);
    weir_device_close(d);
}

/* Bases 0 and below, as PyTorch has them. */
CASE(slopes_of_powers_at_zero_and_below)
{
    const double       nan = (double)NAN, inf = (double)INFINITY;
    const double       base[N] = {0, 0, 0, -2, -2, 2, 0, -1};
    const double       exponent[N] = {0, 2, 1, 3, 0, 3, -1, 2};
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor       *wrt[2], *slope[2];

    for (int i = 0; i < 2; i++) {
        wrt[i] = weir_param(d, weir_1d(WEIR_F64, N), "p");
        CHECK_OK(weir_write(wrt[i], i ? exponent : base, sizeof base));
    }
    CHECK_OK(weir_gradients(weir_sum(weir_pow(wrt[0], wrt[1]), 0, false), 2, wrt, slope));
    IS(slope[0], 0, 0, 1, 12, 0, 12, -inf, -2);
    IS(slope[1], 0, 0, 0, nan, nan, 8 * log(2), -inf, nan);
    weir_release(wrt[0]);
    weir_release(wrt[1]);
    weir_device_close(d);
}

static void edges(weir_device *d, weir_dtype type)
{
    const double       nan = (double)NAN, inf = (double)INFINITY;
    weir_tensor *const x = given(d, type, (double[N]){0.5, -0.5, 1.5, 2.5, -2.5, nan, -inf, 0});

    IS(weir_round(x), 1, -1, 2, 3, -3, nan, -inf, 0);
    IS(weir_round_even(x), 0, 0, 2, 2, -2, nan, -inf, 0);
    IS(weir_floor(x), 0, -1, 1, 2, -3, nan, -inf, 0);
    IS(weir_ceil(x), 1, 0, 2, 3, -2, nan, -inf, 0);
    IS(weir_sign(x), 1, -1, 1, 1, -1, nan, -1, 0);
    IS(weir_clamp(x, -1, 1), 0.5, -0.5, 1, 1, -1, nan, -1, 0);
}

CASE(steps_at_their_edges)
{
    weir_device *const d = weir_device_open(check_device(), NULL);

    edges(d, WEIR_F32);
    edges(d, WEIR_F64);
    weir_device_close(d);
}

static void special_quotients(weir_device *d, weir_dtype type)
{
    const double       nan = (double)NAN, inf = (double)INFINITY;
    weir_tensor *const a = given(d, type, (double[N]){5, -5, 5, -5, 1, -1, 0, inf});
    weir_tensor *const b = given(d, type, (double[N]){inf, inf, -3, 3, 0, 0, 0, 2});

    IS(weir_div_floor(a, b), 0, -1, -2, -2, inf, -inf, nan, nan);
    IS(weir_div_trunc(a, b), 0, 0, -1, -1, inf, -inf, nan, inf);
    IS(weir_remainder(a, b), 5, inf, -1, 1, nan, nan, nan, nan);
}

/* 1.0 / 0.1 rounds to 10, but 0.1 is above a tenth. */
CASE(quotients_of_special_numbers)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    const double       ten[N] = {1, 0.3, 0.6, 0.7, 0.8, -1, 2, 3}, tenth[N] = {
        0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};

    special_quotients(d, WEIR_F32);
    special_quotients(d, WEIR_F64);
    IS(weir_div_floor(given(d, WEIR_F64, ten), given(d, WEIR_F64, tenth)),
       9, 2, 5, 6, 8, -10, 19, 29);
    weir_device_close(d);
}

CASE(integers_divide_and_wrap_at_their_limits)
{
    const double       least = INT32_MIN;
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const a = given(d, WEIR_I32, (double[N]){least, least, 7, -7, 7, -7, 5, 0});
    weir_tensor *const b = given(d, WEIR_I32, (double[N]){-1, 0, 2, 2, -2, -2, 0, 3});

    IS(weir_div_floor(a, b), least, 0, 3, -4, -4, 3, 0, 0);
    IS(weir_div_trunc(a, b), least, 0, 3, -3, -3, 3, 0, 0);
    IS(weir_remainder(a, b), 0, 0, 1, 1, -1, -1, 0, 0);
    IS(weir_pow(a, b), 0, 1, 49, 49, 0, 0, 1, 0);
    IS(weir_pow(given(d, WEIR_I32, (double[N]){-1, -1, 1, 3, 2, 2, -2, 65536}),
                given(d, WEIR_I32, (double[N]){-1, -2, -5, 20, 31, 32, 31, 2})),
       -1, 1, 1, -808182895, least, 0, least, 0);
    weir_device_close(d);
}

/* Numbers that f64 lacks are filled in and compared exactly. */
CASE(integers_are_filled_in_exactly)
{
    const int64_t      odd = (INT64_C(1) << 53) + 1;
    const int64_t      all[] = {odd, -odd, INT64_MAX, INT64_MIN, 0, -1, odd - 1, 1 - odd};
    weir_device *const d = weir_device_open(check_device(), NULL);

    for (int i = 0; i < N; i++) {
        weir_tensor *const t = weir_fill_int(d, weir_1d(WEIR_I64, 1), all[i]);
        int64_t            got = 7;
        CHECK_OK(weir_read(t, &got, sizeof got));
        CHECK(got == all[i]);
        uint8_t same[2];
        CHECK_OK(weir_read(weir_eq(t, weir_fill_int(d, weir_1d(WEIR_I64, 2), odd)), same, 2));
        CHECK(same[0] == (all[i] == odd) && same[1] == same[0]);
    }
    CHECK(weir_fill_int(d, weir_1d(WEIR_U8, 1), -1) == NULL);
    CHECK_TEXT(weir_error(), "u8 has no -1");
    CHECK(weir_fill_int(d, weir_1d(WEIR_I32, 1), INT64_C(1) << 31) == NULL);
    CHECK(weir_fill_int(d, weir_1d(WEIR_F32, 1), 3) != NULL);
    weir_device_close(d);
}
