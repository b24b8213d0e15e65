/* simplify.c - tests the removal of dead code, equal calls, constants and copies, bit for bit. */
#include "graph/fixture.h"
#include "graph/pass_list.h"

/* A small program that reads in[] and stores its results, kept, in out[]. Returns their number. */
typedef int (*program)(weir_device *d, weir_tensor *const *in, weir_tensor **out);

enum { N = 37, MAX_OUT = 8 };

/* Runs the program at once and planned with each set of options; all bits must agree. Returns how
 * many instructions of the fully planned graph are `op`. */
static uint32_t agree(program run, weir_op op)
{
    weir_plan_options how[PASSES_MAX + 3] = {
        {.level = 0}, {.level = WEIR_LEVEL_RECORDED}, {.disable = "fuse,inplace"}};
    pass_name    passes[PASSES_MAX];
    const size_t n_passes = pass_list(passes);
    float        want[MAX_OUT][N], got[N];
    uint32_t     count = 0;

    for (size_t i = 0; i < n_passes; i++)
        how[3 + i].disable = passes[i];
    for (size_t i = 0; i <= 3 + n_passes; i++) {
        weir_device *d = fixture_open();
        float        v[2][N];
        check_random = 11;
        check_floats(v[0], N, -2, 2);
        check_floats(v[1], N, 0.5, 2);
        v[0][0] = -0.0f;
        v[0][1] = 0.0f;
        v[0][2] = INFINITY;
        weir_tensor *in[] = {fixture_input(d, N, v[0]), fixture_state(d, N, v[1])}, *out[MAX_OUT];
        weir_graph  *g = i > 0 ? weir_graph_begin(d) : NULL;
        const int    n = run(d, in, out);
        for (int k = 0; k < n && g; k++)
            CHECK(weir_keep(out[k]) != NULL);
        if (g)
            fixture_finish(g, &how[i - 1]);
        for (int k = 0; k < n; k++) {
            const size_t bytes = weir_tensor_bytes(out[k]);
            CHECK(bytes <= sizeof got);
            CHECK_OK(weir_read(out[k], g ? got : want[k], bytes));
            if (g && !CHECK_BITS(got, want[k], bytes))
                printf("    output %d without %s\n", k,
                       how[i - 1].disable ? how[i - 1].disable : "-");
        }
        if (i == 1)
            count = fixture_count(g, op);
        weir_graph_free(g);
        weir_release(in[0]);
        weir_release(in[1]);
        weir_device_close(d);
    }
    return count;
}

/* ---- dead code ---- */

static int nobody_reads(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    weir_exp(weir_exp(in[0]));
    weir_uniform(d, weir_1d(WEIR_F32, 5), 0, 1);
    out[0] = weir_relu(in[0]);
    out[1] = weir_uniform(d, weir_1d(WEIR_F32, 5), 0, 1);   /* draws what it draws without a plan */
    CHECK_OK(weir_increment(in[1], 1));
    out[2] = weir_copy(in[1]);
    return 3;
}

CASE(dead_code_goes)
{
    CHECK(agree(nobody_reads, WEIR_OP_EXP) == 0);
    CHECK(agree(nobody_reads, WEIR_OP_INCREMENT) == 1);
}

/* ---- equal calls ---- */

static int equal_calls(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *a = weir_sum(weir_exp(in[0]), 0, false), *b = weir_sum(weir_exp(in[0]), 0, false);
    out[0] = weir_add(a, b);
    out[1] = weir_sum(weir_exp(in[1]), 0, false);
    return 2;
}

static int equal_over_an_update(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *a = weir_sum(weir_square(in[1]), 0, false);
    CHECK_OK(weir_increment(in[1], 1));
    weir_tensor *b = weir_sum(weir_square(in[1]), 0, false);
    weir_tensor *c = weir_sum(weir_square(in[1]), 0, false);
    out[0] = weir_sub(b, a);
    out[1] = weir_sub(c, a);
    return 2;
}

static int equal_dropouts(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    out[0] = weir_sub(weir_dropout(in[1], 0.5), weir_dropout(in[1], 0.5));
    out[1] = weir_mul(weir_dropout(in[1], 0.5), weir_exp(weir_dropout(in[1], 0.5)));
    return 2;
}

static int equal_outputs(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    for (int i = 0; i < 3; i++)
        out[i] = weir_amax(in[0], 0, true);
    out[3] = weir_affine(weir_amax(in[0], 0, true), 2, 0);
    out[4] = weir_affine(weir_amax(in[0], 0, true), 2, 1);  /* attributes differ */
    return 5;
}

/* The same storage seen as another shape or from another side is another input. */
static int unequal_views(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *x = weir_add(weir_broadcast_to(in[0], weir_2d(WEIR_F32, N, N)),
                              weir_fill(d, weir_scalar(WEIR_F32), 1));
    out[0] = weir_sum(x, 1, false);
    out[1] = weir_sum(weir_transpose(x, NULL), 1, false);
    out[2] = weir_sum(x, 1, true);
    return 3;
}

CASE(equal_calls_become_one)
{
    CHECK(agree(equal_calls, WEIR_OP_SUM) == 2);
}

CASE(an_update_between_keeps_calls_apart)
{
    CHECK(agree(equal_over_an_update, WEIR_OP_SUM) == 2);
}

CASE(random_calls_are_never_merged)
{
    agree(equal_dropouts, WEIR_OP_DROPOUT);
}

CASE(outputs_keep_memory_of_their_own)
{
    CHECK(agree(equal_outputs, WEIR_OP_AMAX) == 4);
}

CASE(views_are_told_apart)
{
    CHECK(agree(unequal_views, WEIR_OP_SUM) == 3);
}

/* ---- constants ---- */

static int constants(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *a = weir_fill(d, weir_1d(WEIR_F32, N), 0.1);
    weir_tensor *b = weir_fill(d, weir_scalar(WEIR_F32), 3);
    weir_tensor *c = weir_div(weir_exp(weir_affine(a, 1.1, 0.3)), weir_tanh(b));
    out[0] = weir_mul(in[0], weir_sqrt(c));
    out[1] = weir_log(c);                                   /* a constant output */
    out[2] = weir_sum(weir_cast(weir_cast(c, WEIR_F64), WEIR_F32), 0, false);
    out[3] = weir_matmul(weir_reshape(c, 2, (int64_t[]){1, N}),
                         weir_reshape(in[1], 2, (int64_t[]){N, 1}));
    out[4] = weir_add(weir_transpose(weir_reshape(c, 2, (int64_t[]){N, 1}), NULL), in[1]);
    return 5;
}

static int odd_constants(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *inf = weir_fill(d, weir_scalar(WEIR_F32), INFINITY);
    weir_tensor *big = weir_fill(d, weir_scalar(WEIR_F32), 1e300);      /* inf in f32 */
    out[0] = weir_add(in[0], weir_neg(inf));
    out[1] = weir_mul(in[1], weir_affine(big, 0, 1));
    out[2] = weir_add(in[1], weir_fill(d, weir_scalar(WEIR_F32), 0.1));
    out[3] = weir_mul(in[1], weir_square(weir_fill(d, weir_scalar(WEIR_F32), 1e-30)));
    return 4;
}

static int typed_constants(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)in;
    weir_tensor *i = weir_fill(d, weir_1d(WEIR_I64, 4), (double)(INT64_C(1) << 60));
    weir_tensor *one = weir_fill(d, weir_1d(WEIR_I64, 4), 1);
    out[0] = weir_add(weir_add(i, one), weir_mul(one, one));
    out[1] = weir_cast(weir_fill(d, weir_1d(WEIR_F32, 4), 2.75), WEIR_I32);
    out[2] = weir_cast(weir_fill(d, weir_1d(WEIR_I32, 4), 7.9), WEIR_F32);
    out[3] = weir_fill(d, weir_1d(WEIR_U8, 5), 200);
    out[4] = weir_affine(weir_fill(d, weir_1d(WEIR_F64, 4), 0.1), 3, 0.1);
    return 5;
}

CASE(constants_fold_to_the_same_bits)
{
    CHECK(agree(constants, WEIR_OP_EXP) == 0);
    agree(odd_constants, WEIR_OP_ADD);
    agree(typed_constants, WEIR_OP_ADD);
}

/* A constant that only element-wise calls read takes one element. */
CASE(constants_take_no_room)
{
    weir_device *d = fixture_open();
    weir_tensor *x = weir_input(d, weir_1d(WEIR_F32, 1 << 16));
    weir_graph  *g = weir_graph_begin(d);

    CHECK_OK(weir_write_fill(x, 2));
    weir_tensor *six = weir_affine(weir_fill(d, weir_1d(WEIR_F32, 1 << 16), 3), 2, 0);
    weir_tensor *y = weir_keep(weir_mul(x, six));
    CHECK(fixture_finish(g, NULL));
    CHECK(g->plan->arena <= fixture_bytes_taken(g->dev, 1));
    float *v = weir_host_alloc(sizeof *v << 16);
    CHECK_OK(weir_read(y, v, sizeof *v << 16));
    CHECK(v[0] == 12 && v[65535] == 12);
    weir_host_free(v);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* ---- copies and identities ---- */

static weir_tensor *constant(weir_device *d, double v)
{
    return weir_fill(d, weir_scalar(WEIR_F32), v);
}

/* in[0] holds -0: x + 0 and x - (-0) turn it into +0, so they are not identities. */
static int identities(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    out[0] = weir_rsqrt(weir_mul(in[0], constant(d, 1)));
    out[1] = weir_rsqrt(weir_div(weir_mul(constant(d, 1), in[0]), constant(d, 1)));
    out[2] = weir_rsqrt(weir_sub(in[0], constant(d, 0)));
    out[3] = weir_rsqrt(weir_copy(weir_copy(in[0])));
    return 4;
}

static int not_identities(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *x = weir_affine(in[0], 1, -0.0);   /* may give up its memory */
    out[0] = weir_div(constant(d, 1), weir_add(in[0], constant(d, 0)));
    out[1] = weir_div(constant(d, 1), weir_sub(in[0], constant(d, -0.0)));
    out[2] = weir_div(constant(d, 1), weir_sub(x, constant(d, -0.0)));
    out[3] = weir_div(constant(d, 1), weir_sub(constant(d, 0), in[0]));
    out[4] = weir_mul(in[1], weir_fill(d, weir_2d(WEIR_F32, 1, 1), 1));      /* another shape */
    return 5;
}

static int copies(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = weir_amax(weir_broadcast_to(in[1], weir_2d(WEIR_F32, 3, N)), 1, false);
    out[0] = weir_copy(h);                              /* both outputs: two pieces of memory */
    out[1] = weir_copy(h);
    weir_tensor *before = weir_copy(in[1]);             /* must be taken before the update */
    CHECK_OK(weir_increment(in[1], 1));
    out[2] = weir_sub(in[1], before);
    out[3] = weir_sum(weir_copy(weir_reshape(weir_copy(h), 2, (int64_t[]){1, N})), 2, false);
    return 4;
}

/* Rows of N floats: one of them begins where a library may see that it is no whole storage. */
static int copies_of_rows(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = weir_broadcast_to(in[1], weir_2d(WEIR_F32, 9, N));
    h = weir_tanh(h);
    for (int i = 0; i < 3; i++) {
        const int64_t row = i == 1 ? 1 : 4 * i;             /* N * 4 bytes: no multiple of 16 */
        out[i] = weir_sum(weir_copy(weir_narrow(h, 0, row, 1)), 0, false);
    }
    return 3;
}

CASE(copies_that_align_stay)
{
    CHECK(N % 4 != 0);
    CHECK(agree(copies_of_rows, WEIR_OP_COPY) == 1);
}

CASE(identities_go)
{
    CHECK(agree(identities, WEIR_OP_MUL) == 0);
    CHECK(agree(identities, WEIR_OP_SUB) == 0);
    CHECK(agree(identities, WEIR_OP_COPY) == 0);
}

CASE(what_only_looks_like_an_identity_stays)
{
    agree(not_identities, WEIR_OP_SUB);
}

CASE(copies_that_matter_stay)
{
    CHECK(agree(copies, WEIR_OP_COPY) == 3);
}

/* ---- functions applied to their own results ---- */

static weir_tensor *middle(weir_tensor *x)
{
    return weir_amax(weir_broadcast_to(x, weir_2d(WEIR_F32, 3, N)), 1, false);
}

static int repeated(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    out[0] = weir_sum(weir_relu(weir_relu(middle(in[0]))), 0, true);
    out[1] = weir_sum(weir_round(weir_round(middle(in[1]))), 0, true);
    out[2] = weir_sum(weir_clamp(weir_clamp(middle(in[0]), -1, 1), -1, 1), 0, true);
    return 3;
}

static int repeated_otherwise(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    out[0] = weir_sum(weir_clamp(weir_clamp(middle(in[0]), -1, 1), 0, 1), 0, true);
    out[1] = weir_sum(weir_ceil(weir_floor(middle(in[1]))), 0, true);
    out[2] = weir_relu(middle(in[0]));      /* two outputs: memory of its own for each */
    out[3] = weir_relu(out[2]);
    return 4;
}

CASE(functions_applied_twice_become_once)
{
    CHECK(agree(repeated, WEIR_OP_FUSED) == 0);
    CHECK(agree(repeated, WEIR_OP_RELU) == 1);
}

CASE(other_functions_of_a_result_stay)
{
    CHECK(agree(repeated_otherwise, WEIR_OP_FUSED) == 3);
}
