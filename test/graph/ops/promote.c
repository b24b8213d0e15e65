/* promote.c - what operands of two types become: every pair, and gradients back through the casts;
 * integers at their limits; a step whose middle is bf16. */
#include "check.h"
#include "weir.h"

enum { N = 4, TYPES = 8 };

/* PyTorch's table for tensors, in the order of weir_dtype. */
#define F32  WEIR_F32
#define F64  WEIR_F64
#define I32  WEIR_I32
#define I64  WEIR_I64
#define U8   WEIR_U8
#define BOOL WEIR_BOOL
#define F16  WEIR_F16
#define BF16 WEIR_BF16
static const weir_dtype meet[TYPES][TYPES] = {
    /*           f32  f64  i32  i64  u8    bool  f16  bf16 */
    /* f32 */  {F32, F64, F32, F32, F32, F32, F32, F32},
    /* f64 */  {F64, F64, F64, F64, F64, F64, F64, F64},
    /* i32 */  {F32, F64, I32, I64, I32, I32, F16, BF16},
    /* i64 */  {F32, F64, I64, I64, I64, I64, F16, BF16},
    /* u8 */   {F32, F64, I32, I64, U8, U8, F16, BF16},
    /* bool */ {F32, F64, I32, I64, U8, BOOL, F16, BF16},
    /* f16 */  {F32, F64, F16, F16, F16, F16, F16, F32},
    /* bf16 */ {F32, F64, BF16, BF16, BF16, BF16, F32, BF16},
};

static weir_tensor *given(weir_device *d, weir_dtype type, const double *v)
{
    weir_tensor *const wide = weir_input(d, weir_1d(WEIR_F64, N));
    CHECK_OK(weir_write(wide, v, N * sizeof *v));
    weir_tensor *const t = weir_cast(wide, type);
    weir_release(wide);
    return t;
}

static weir_tensor *chosen(weir_tensor *a, weir_tensor *b)
{
    return weir_where(weir_cast(a, WEIR_BOOL), a, b);
}

/* r holds the values `want` in `type`. */
static void holds(weir_tensor *r, weir_dtype type, const double *want, const char *what)
{
    double got[N] = {0};

    if (!check_that(r != NULL, __FILE__, __LINE__, "%s: %s", what, weir_error()))
        return;
    check_that(weir_tensor_desc(r).dtype == type, __FILE__, __LINE__, "%s makes %s, not %s", what,
               weir_dtype_name(weir_tensor_desc(r).dtype), weir_dtype_name(type));
    CHECK_OK(weir_read(weir_cast(r, WEIR_F64), got, sizeof got));
    for (int i = 0; i < N; i++)
        check_that(got[i] == want[i], __FILE__, __LINE__, "%s: element %d is %g, not %g", what, i,
                   got[i], want[i]);
}

typedef struct binary {
    const char   *name;
    weir_tensor *(*call)(weir_tensor *a, weir_tensor *b);
    double        want[N];                  /* of numbers; of bools what numbers 0 and 1 make */
    bool          takes_bools, is_bool;
} binary;

/* Of two integers the narrowest type that holds the values of both. */
CASE(integers_meet_in_the_narrowest_type_that_holds_both)
{
    static const struct {
        weir_dtype a, b, both;
    } of[] = {
        {WEIR_I8, BOOL, WEIR_I8}, {WEIR_I8, U8, WEIR_I16}, {WEIR_I8, WEIR_I16, WEIR_I16},
        {WEIR_I16, U8, WEIR_I16}, {WEIR_I16, WEIR_U16, I32}, {WEIR_U16, U8, WEIR_U16},
        {I32, WEIR_U16, I32}, {I32, WEIR_U32, I64}, {WEIR_U32, WEIR_U16, WEIR_U32},
        {I64, WEIR_U32, I64}, {I64, WEIR_U64, F64}, {WEIR_U64, WEIR_U32, WEIR_U64},
        {WEIR_I8, WEIR_U64, F64}, {WEIR_I8, F16, F16}, {WEIR_U64, F32, F32},
        {WEIR_U64, BOOL, WEIR_U64}, {WEIR_U16, BF16, BF16}, {WEIR_I16, F64, F64},
    };

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        check_that(weir_dtype_promote(of[i].a, of[i].b) == of[i].both, __FILE__, __LINE__,
                   "%s with %s", weir_dtype_name(of[i].a), weir_dtype_name(of[i].b));
        CHECK(weir_dtype_promote(of[i].b, of[i].a) == of[i].both);
    }
}

/* Numbers that every type holds: a = 3, 0, 1, 2 and b = 1, 2, 0, 2; as bools 1, 0, 1, 1 and
 * 1, 1, 0, 1. */
static void check_pair(weir_device *d, const binary *f, weir_dtype ta, weir_dtype tb)
{
    weir_tensor *const a = given(d, ta, (double[N]){3, 0, 1, 2});
    weir_tensor *const b = given(d, tb, (double[N]){1, 2, 0, 2});
    weir_tensor       *wide[2] = {weir_cast(a, meet[ta][tb]), weir_cast(b, meet[ta][tb])};
    double             want[N];
    char               what[64];

    snprintf(what, sizeof what, "%s of %s and %s", f->name, weir_dtype_name(ta),
             weir_dtype_name(tb));
    weir_tensor *const r = f->call(a, b);
    if (ta == BOOL && tb == BOOL && !f->takes_bools) {
        CHECK(r == NULL);
        CHECK_STATUS(weir_error_status(), WEIR_ERR_DTYPE);
        CHECK_TEXT(weir_error(), f->name);
        CHECK_TEXT(weir_error(), "bool");
        return;
    }
    CHECK_OK(weir_read(weir_cast(f->call(wide[0], wide[1]), WEIR_F64), want, sizeof want));
    if (ta != BOOL && tb != BOOL)
        for (int i = 0; i < N; i++)
            CHECK(want[i] == f->want[i]);
    holds(r, f->is_bool ? BOOL : meet[ta][tb], want, what);
}

static const binary binaries[] = {
    {"add", weir_add, {4, 2, 1, 4}, false, false},
    {"mul", weir_mul, {3, 0, 0, 4}, false, false},
    {"max", weir_max, {3, 2, 1, 2}, false, false},
    {"lt", weir_lt, {0, 1, 0, 0}, false, true},
    {"where", chosen, {3, 2, 1, 2}, true, false},
};

CASE(all_pairs_of_types)
{
    weir_device *const d = weir_device_open(check_device(), NULL);

    for (int a = 0; a < TYPES; a++)
        for (int b = 0; b < TYPES; b++) {
            CHECK(weir_dtype_promote((weir_dtype)a, (weir_dtype)b) == meet[a][b]);
            for (size_t f = 0; f < sizeof binaries / sizeof *binaries; f++) {
                CHECK_OK(weir_scope_begin(d));
                check_pair(d, &binaries[f], (weir_dtype)a, (weir_dtype)b);
                CHECK_OK(weir_scope_end(d));
            }
        }
    weir_device_close(d);
}

/* As PyTorch's: integers divide to f32, a float stays what it is. */
CASE(division_is_true_division)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    const double       half[N] = {-3.5, 0.5, -0.25, 2};

    weir_tensor *const a = given(d, I32, (double[N]){-7, 1, -1, 8});

    holds(weir_div(a, given(d, I64, (double[N]){2, 2, 4, 4})), F32, half, "i32 / i64");
    holds(weir_div(a, given(d, F16, (double[N]){2, 2, 4, 4})), F16, half, "i32 / f16");
    CHECK(weir_div(given(d, BOOL, half), given(d, BOOL, half)) == NULL);
    CHECK_TEXT(weir_error(), "div: input 0 is bool");
    weir_device_close(d);
}

/* As PyTorch: products do not promote. The sentence says what helps. */
CASE(products_of_two_types_are_refused)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    const double       v[N] = {1, 2, 3, 4};
    weir_tensor *const a = weir_reshape(given(d, F32, v), 2, (int64_t[]){2, 2});
    weir_tensor *const b = weir_reshape(given(d, F16, v), 2, (int64_t[]){2, 2});

    CHECK(weir_matmul(a, b) == NULL && weir_error_status() == WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "input 0 is f32 but input 1 is f16: convert one of them (weir_cast)");
    CHECK(weir_concat(2, (weir_tensor *[]){a, b}, 0) == NULL);
    CHECK_TEXT(weir_error(), "convert one of them (weir_cast)");
    weir_device_close(d);
}

/* Recorded and immediate calls give the same result, and the casts are not leaves. */
CASE(gradients_return_to_the_type_they_came_from)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const p = weir_param(d, weir_1d(F32, N), "p");
    weir_tensor *const q = weir_input(d, weir_1d(F64, N));
    const float        v[N] = {1, -2, 3, 0.5f};
    const double       w[N] = {2, 0.5, -1, 4};

    CHECK_OK(weir_write(p, v, sizeof v));
    CHECK_OK(weir_write(q, w, sizeof w));
    for (int on = 0; on < 2; on++) {
        weir_graph *const  g = on ? weir_graph_begin(d) : NULL;
        weir_tensor       *slope = NULL;
        weir_tensor *const y = weir_mul(p, q);
        CHECK(weir_tensor_desc(y).dtype == F64);
        CHECK_OK(weir_gradients(weir_sum(y, 0, false), 1, &p, &slope));
        weir_keep(slope);
        if (on)
            CHECK_OK(weir_graph_end(g, NULL));
        if (on)
            CHECK_OK(weir_graph_run(g));
        holds(slope, F32, w, on ? "slope, graph on" : "slope, graph off");
        weir_graph_free(g);
    }
    weir_release(p);
    weir_release(q);
    weir_device_close(d);
}

/* The message names the given types, not those after casts. */
CASE(shapes_that_do_not_fit_keep_their_types)
{
    weir_device *const d = weir_device_open(check_device(), NULL);

    CHECK(weir_add(weir_fill(d, weir_1d(I32, 3), 1), weir_fill(d, weir_1d(F64, 4), 1)) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "(inputs i32(3), f64(4))");
    weir_device_close(d);
}

/* ---- integers ---- */

#define MAKE(d, type, T, ...) made(d, type, (const T[N]){__VA_ARGS__}, N * sizeof(T))

static weir_tensor *made(weir_device *d, weir_dtype type, const void *v, size_t bytes)
{
    weir_tensor *const t = weir_input(d, weir_1d(type, N));
    CHECK_OK(weir_write(t, v, bytes));
    weir_tensor *const own = weir_copy(t);
    weir_release(t);
    return own;
}

#define IS(t, T, ...)                                                                              \
    do {                                                                                           \
        const T want[N] = {__VA_ARGS__};                                                           \
        T       got[N];                                                                            \
        CHECK_OK(weir_read(t, got, sizeof got));                                                   \
        CHECK_BITS(got, want, sizeof want);                                                        \
    } while (0)

CASE(integers_wrap_around)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const i = MAKE(d, I32, int32_t, INT32_MAX, INT32_MIN, -3, 65536);
    weir_tensor *const j = MAKE(d, I32, int32_t, 1, -1, 5, 65536);
    weir_tensor *const l = MAKE(d, I64, int64_t, INT64_MAX, INT64_MIN, -3, INT64_C(1) << 32);
    weir_tensor *const u = MAKE(d, U8, uint8_t, 255, 0, 200, 16);
    weir_tensor *const v = MAKE(d, U8, uint8_t, 1, 1, 100, 16);

    IS(weir_add(i, j), int32_t, INT32_MIN, INT32_MAX, 2, 131072);
    IS(weir_mul(i, j), int32_t, INT32_MAX, INT32_MIN, -15, 0);
    IS(weir_neg(i), int32_t, -INT32_MAX, INT32_MIN, 3, -65536);
    IS(weir_abs(i), int32_t, INT32_MAX, INT32_MIN, 3, 65536);
    IS(weir_sign(i), int32_t, 1, -1, -1, 1);
    IS(weir_square(l), int64_t, 1, 0, 9, 0);
    IS(weir_abs(l), int64_t, INT64_MAX, INT64_MIN, 3, INT64_C(1) << 32);
    IS(weir_clamp(l, -1e30, 1e30), int64_t, INT64_MAX, INT64_MIN, -3, INT64_C(1) << 32);
    IS(weir_clamp(i, -3.5, 4.5), int32_t, 4, -3, -3, 4);
    IS(weir_clamp(u, -5, 99.5), uint8_t, 99, 0, 99, 16);
    IS(weir_add(u, v), uint8_t, 0, 1, 44, 32);
    IS(weir_sub(v, u), uint8_t, 2, 1, 156, 0);
    IS(weir_mul(u, v), uint8_t, 255, 0, 32, 0);
    IS(weir_neg(u), uint8_t, 1, 0, 56, 240);
    IS(weir_max(u, v), uint8_t, 255, 1, 200, 16);
    weir_device_close(d);
}

CASE(sums_and_products_of_integers_are_i64)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const i = MAKE(d, I32, int32_t, INT32_MAX, INT32_MAX, INT32_MAX, -1);
    weir_tensor *const u = MAKE(d, U8, uint8_t, 255, 255, 255, 2);
    const int64_t      want[] = {3 * (int64_t)INT32_MAX - 1, 767, INT64_C(2) * 255 * 255 * 255, 3};
    weir_tensor *const got[] = {weir_sum(i, 0, false), weir_sum(u, 0, false),
                                weir_prod(u, 0, false),
                                weir_sum(weir_gt(i, weir_fill(d, weir_scalar(U8), 0)), 0, false)};
    int64_t            value = 0;
    uint8_t            most = 0;

    for (int k = 0; k < 4; k++) {
        CHECK(weir_tensor_desc(got[k]).dtype == I64);
        CHECK_OK(weir_read(got[k], &value, sizeof value));
        CHECK(value == want[k]);
    }
    CHECK_OK(weir_read(weir_amin(u, 0, false), &most, 1));
    CHECK(most == 2);
    CHECK(weir_mean(i, 0, false) == NULL);
    CHECK_TEXT(weir_error(), "mean: x must be f32, f64, f16 or bf16, not i32(4)");
    weir_device_close(d);
}

/* ---- a step with a bf16 product in its middle ---- */

enum { ROWS = 5, INNER = 33, COLS = 7 };

/* loss = sum((a b as bf16)^2 w); slopes of a and b in f32. */
static void mixed_step(weir_device *d, bool on, weir_tensor *const p[2], weir_tensor *w,
                       float *loss, float *da, float *db)
{
    weir_graph *const  g = on ? weir_graph_begin(d) : NULL;
    weir_tensor *const y = weir_matmul(weir_cast(p[0], BF16), weir_cast(p[1], BF16));
    weir_tensor *const l = weir_sum(weir_mul(weir_square(weir_cast(y, F32)), w), 0, false);
    weir_tensor       *slope[2] = {NULL, NULL};

    CHECK(weir_tensor_desc(y).dtype == BF16);
    CHECK_OK(weir_gradients(l, 2, p, slope));
    weir_keep(l);
    weir_keep(slope[0]);
    weir_keep(slope[1]);
    if (on)
        CHECK_OK(weir_graph_end(g, NULL));
    for (int run = 0; run < 2 && on; run++)
        CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_read(l, loss, sizeof *loss));
    CHECK_OK(weir_read(slope[0], da, ROWS * INNER * sizeof *da));
    CHECK_OK(weir_read(slope[1], db, INNER * COLS * sizeof *db));
    weir_graph_free(g);
}

/* Root mean square error of the slopes against sums in doubles, relative. */
static double slope_error(const float *a, const float *b, const float *w, const float *da)
{
    double error = 0, size = 0;

    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < INNER; k++) {
            double exact = 0;
            for (int j = 0; j < COLS; j++) {
                double y = 0;
                for (int m = 0; m < INNER; m++)
                    y += (double)a[i * INNER + m] * (double)b[m * COLS + j];
                exact += 2 * y * (double)w[i * COLS + j] * (double)b[k * COLS + j];
            }
            error += ((double)da[i * INNER + k] - exact) * ((double)da[i * INNER + k] - exact);
            size += exact * exact;
        }
    return sqrt(error / size);
}

CASE(bf16_product_within_an_f32_step)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const p[2] = {weir_param(d, weir_2d(F32, ROWS, INNER), "a"),
                               weir_param(d, weir_2d(F32, INNER, COLS), "b")};
    weir_tensor *const w = weir_input(d, weir_2d(F32, ROWS, COLS));
    float a[ROWS * INNER], b[INNER * COLS], v[ROWS * COLS];
    float loss[2], da[2][ROWS * INNER], db[2][INNER * COLS];

    check_floats(a, ROWS * INNER, -1, 1);
    check_floats(b, INNER * COLS, -1, 1);
    check_floats(v, ROWS * COLS, 0.5, 1);
    CHECK_OK(weir_write(p[0], a, sizeof a));
    CHECK_OK(weir_write(p[1], b, sizeof b));
    CHECK_OK(weir_write(w, v, sizeof v));
    for (int on = 0; on < 2; on++)
        mixed_step(d, on != 0, p, w, &loss[on], da[on], db[on]);
    CHECK_BITS(&loss[0], &loss[1], sizeof *loss);
    CHECK_BITS(da[0], da[1], sizeof *da);
    CHECK_BITS(db[0], db[1], sizeof *db);
    const double error = slope_error(a, b, v, da[0]);
    CHECK(error > 0x1p-16 && error < 0x1p-6);       /* rounded to bf16, and no worse */
    weir_release(p[0]);
    weir_release(p[1]);
    weir_release(w);
    weir_device_close(d);
}
