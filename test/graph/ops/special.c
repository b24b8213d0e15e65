/* special.c - what NaN, infinities, signed zeros and subnormals become: answers written out.
 *
 * An element stands at each place of vectors with and without a tail, graph off and on, alone and
 * in a chain that is fused; all other elements are ordinary. The other way of checking these values
 * is the op table's "special", against the references. */
#include <math.h>

#include "check.h"
#include "half.h"
#include "weir.h"

#define NONE  ((double)NAN)
#define INF   ((double)INFINITY)
#define SMALL 0x1p-140              /* subnormal in f32 and bf16 */

typedef weir_tensor *(*unary)(weir_tensor *x);
typedef weir_tensor *(*binary)(weir_tensor *a, weir_tensor *b);

/* y and the gradient for a gradient of 1: NaN means NaN, and a zero of y its sign. */
typedef struct one_answer {
    unary  fn;
    double x, y, dx;
} one_answer;

static weir_tensor *clamp(weir_tensor *x)
{
    return weir_clamp(x, -1, 2);
}

static weir_tensor *leaky(weir_tensor *x)
{
    return weir_leaky_relu(x, 0.25);
}

static const one_answer one[] = {
    {weir_relu, NONE, NONE, 1},          {weir_relu, -0.0, -0.0, 0},
    {weir_relu, SMALL, SMALL, 1},        {weir_relu, -SMALL, 0, 0},
    {weir_relu, -INF, 0, 0},             {weir_relu, INF, INF, 1},
    {weir_relu6, NONE, NONE, 1},         {weir_relu6, -0.0, -0.0, 0},
    {weir_relu6, INF, 6, 0},             {weir_relu6, 6, 6, 0},
    {weir_abs, NONE, NONE, 0},           {weir_abs, -0.0, 0, 0},
    {weir_abs, -INF, INF, -1},           {weir_neg, 0, -0.0, -1},
    {weir_neg, SMALL, -SMALL, -1},       {weir_sqrt, -0.0, -0.0, -INF},
    {weir_sqrt, -1, NONE, NONE},         {clamp, NONE, NONE, 0},
    {clamp, -0.0, -0.0, 1},              {clamp, 2, 2, 1},
    {clamp, INF, 2, 0},                  {leaky, NONE, NONE, 0.25},
    {leaky, -0.0, -0.0, 0.25},           {leaky, -INF, -INF, 0.25},
    {weir_hardsigmoid, NONE, NONE, 0},   {weir_hardsigmoid, -3, 0, 0},
    {weir_hardswish, NONE, NONE, NONE},  {weir_hardswish, -INF, 0, 0},
    {weir_hardswish, 3, 3, 1},           {weir_hardswish, INF, INF, 1},
    {weir_selu, NONE, NONE, NONE},       {weir_gelu, NONE, NONE, NONE},
    {weir_gelu, INF, INF, NONE},         {weir_silu, NONE, NONE, NONE},
    {weir_softplus, NONE, NONE, NONE},   {weir_softplus, INF, INF, 1},
    {weir_softplus, -INF, 0, 0},         {weir_softsign, INF, NONE, 0},
    {weir_exp, -INF, 0, 0},              {weir_log, 0, -INF, INF},
    {weir_log, -0.0, -INF, -INF},        {weir_tanh, INF, 1, 0},
    {weir_expm1, -INF, -1, 0},           {weir_expm1, -0.0, -0.0, 1},
    {weir_log1p, -1, -INF, INF},         {weir_reciprocal, -0.0, -INF, -INF},
    {weir_round_even, 0.5, 0, 0},        {weir_round_even, -0.5, -0.0, 0},
    {weir_round_even, 2.5, 2, 0},        {weir_round, -0.5, -1, 0},
    {weir_sign, NONE, NONE, 0},          {weir_sign, -0.0, -0.0, 0},
};

/* da, db: for a gradient of 1. */
typedef struct two_answer {
    binary fn;
    double a, b, y, da, db;
} two_answer;

static const two_answer two[] = {
    {weir_max, NONE, 1, NONE, 1, 1},     {weir_max, 1, NONE, NONE, 1, 1},
    {weir_max, NONE, INF, NONE, 1, 1},   {weir_max, INF, NONE, NONE, 1, 1},
    {weir_max, NONE, NONE, NONE, 1, 1},  {weir_max, -0.0, 0, 0, 0.5, 0.5},
    {weir_max, 0, -0.0, -0.0, 0.5, 0.5}, {weir_max, 1, -INF, 1, 1, 0},
    {weir_min, NONE, 1, NONE, 1, 1},     {weir_min, 1, NONE, NONE, 1, 1},
    {weir_min, NONE, -INF, NONE, 1, 1},  {weir_min, -INF, NONE, NONE, 1, 1},
    {weir_min, -0.0, 0, 0, 0.5, 0.5},    {weir_min, SMALL, 1, SMALL, 1, 0},
    {weir_add, -0.0, -0.0, -0.0, 1, 1},  {weir_add, -0.0, 0, 0, 1, 1},
    {weir_add, SMALL, 0, SMALL, 1, 1},   {weir_sub, INF, INF, NONE, 1, -1},
    {weir_mul, INF, 0, NONE, 0, INF},    {weir_div, 1, -0.0, -INF, -INF, -INF},
    {weir_pow, 0, 0, 1, 0, 0},           {weir_pow, NONE, 0, 1, 0, NONE},
    {weir_pow, -2, 3, -8, 12, NONE},     {weir_pow, -8, 0.5, NONE, NONE, NONE},
};

enum { LONGEST = 33 };

static const int64_t sizes[] = {1, 7, 16, LONGEST};

/* Two rows that change nothing, fused with what stands beside them. */
static weir_tensor *through(weir_tensor *t, bool chain)
{
    return chain ? weir_neg(weir_neg(t)) : t;
}

static void write_at(weir_tensor *t, weir_dtype type, int64_t n, int64_t at, double v)
{
    float  narrow[LONGEST];
    double wide[LONGEST];

    for (int64_t i = 0; i < n; i++) {
        wide[i] = i == at ? v : 0.75;
        narrow[i] = (float)wide[i];
    }
    if (type == WEIR_F32)
        CHECK_OK(weir_write(t, narrow, (size_t)n * sizeof *narrow));
    else
        CHECK_OK(weir_write(t, wide, (size_t)n * sizeof *wide));
}

static double read_at(const weir_tensor *t, weir_dtype type, int64_t n, int64_t at)
{
    float  narrow[LONGEST];
    double wide[LONGEST];

    if (type == WEIR_F64) {
        CHECK_OK(weir_read(t, wide, (size_t)n * sizeof *wide));
        return wide[at];
    }
    CHECK_OK(weir_read(t, narrow, (size_t)n * sizeof *narrow));
    return (double)narrow[at];
}

static bool is(double got, double want, bool sign)
{
    return isnan(want) ? isnan(got)
                       : got == want && (!sign || want != 0 || signbit(got) == signbit(want));
}

/* Where a place is tried: graph off or on, in a chain or alone. */
typedef struct spot {
    weir_dtype type;
    int64_t    n, at;
    int        mode;                /* 0 off, 1 on, 2 on and chained */
} spot;

/* Results of fn for a (and b, if there are two) at a spot: y, gradients. */
static void compute(weir_device *d, spot s, unary f, binary g, const double *v, double got[3])
{
    weir_tensor *x[2], *dx[2] = {NULL, NULL};
    const int    n = g ? 2 : 1;

    for (int i = 0; i < n; i++) {
        x[i] = weir_param(d, weir_1d(s.type, s.n), NULL);
        write_at(x[i], s.type, s.n, s.at, v[i]);
    }
    CHECK_OK(weir_scope_begin(d));
    weir_graph *const graph = s.mode > 0 ? weir_graph_begin(d) : NULL;
    const bool        chain = s.mode == 2;
    weir_tensor *const a = through(x[0], chain), *const b = g ? through(x[1], chain) : NULL;
    weir_tensor *const y = weir_keep(through(g ? g(a, b) : f(a), chain));
    CHECK_OK(weir_gradients_from(y, NULL, (size_t)n, x, dx));
    for (int i = 0; i < n; i++)
        if (dx[i])
            weir_keep(dx[i]);
    if (graph) {
        CHECK_OK(weir_graph_end(graph, NULL));
        CHECK_OK(weir_graph_run(graph));
    }
    got[0] = read_at(y, s.type, s.n, s.at);
    for (int i = 0; i < n; i++)
        got[i + 1] = dx[i] ? read_at(dx[i], s.type, s.n, s.at) : 0;
    weir_graph_free(graph);
    CHECK_OK(weir_scope_end(d));
    for (int i = 0; i < n; i++)
        weir_release(x[i]);
}

static void check_one(weir_device *d, spot s, size_t k)
{
    const one_answer *const a = &one[k];
    double                  got[3];

    compute(d, s, a->fn, NULL, &a->x, got);
    check_that(is(got[0], a->y, true) && is(got[1], a->dx, false), __FILE__, __LINE__,
               "answer %zu of one, %s, %lld of %lld, mode %d: of %g %g by %g, not %g by %g", k,
               weir_dtype_name(s.type), (long long)s.at, (long long)s.n, s.mode, a->x, got[0],
               got[1], a->y, a->dx);
}

static void check_two(weir_device *d, spot s, size_t k)
{
    const two_answer *const a = &two[k];
    double                  got[3];

    compute(d, s, NULL, a->fn, (const double[]){a->a, a->b}, got);
    check_that(is(got[0], a->y, true) && is(got[1], a->da, false) && is(got[2], a->db, false),
               __FILE__, __LINE__, "answer %zu of two, %s, %lld of %lld, mode %d: of %g, %g %g by "
               "%g, %g, not %g by %g, %g", k, weir_dtype_name(s.type), (long long)s.at,
               (long long)s.n, s.mode, a->a, a->b, got[0], got[1], got[2], a->y, a->da, a->db);
}

static void at_all_spots(void (*check)(weir_device *d, spot s, size_t k), size_t answers)
{
    weir_device *const d = weir_device_open(check_device(), NULL);

    for (int type = WEIR_F32; type <= WEIR_F64 && CHECK(d); type++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int mode = 0; mode < 3; mode++)
                for (size_t k = 0; k < answers; k++)
                    check(d, (spot){(weir_dtype)type, sizes[i], (int64_t)k % sizes[i], mode}, k);
    weir_device_close(d);
}

CASE(functions_of_one)
{
    at_all_spots(check_one, sizeof one / sizeof *one);
}

CASE(functions_of_two)
{
    at_all_spots(check_two, sizeof two / sizeof *two);
}

/* relu keeps one bit for its gradient where nothing else reads its result in the backward: the
 * graph's gradient lets NaN through as that without the pass does. */
CASE(relu_by_its_bit)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    const double       want[4] = {0, 3, 0, 3};
    const float        x[4] = {-1, NAN, 0, 2};

    for (int off = 0; off < 2 && CHECK(d); off++) {
        weir_tensor *const p = weir_param(d, weir_1d(WEIR_F32, 4), NULL);
        weir_tensor       *g = NULL;
        float              got[4];
        CHECK_OK(weir_write(p, x, sizeof x));
        weir_graph *const  graph = weir_graph_begin(d);
        weir_tensor *const y = weir_affine(weir_relu(weir_affine(p, 1, 0)), 3, 0);
        weir_tensor *const loss = weir_keep(weir_sum(y, 0, false));
        CHECK_OK(weir_gradients(loss, 1, &p, &g));
        weir_keep(g);
        CHECK_OK(weir_graph_end(
            graph, &(weir_plan_options){.disable = off ? "relu_sign_bits" : "fuse"}));
        CHECK_OK(weir_graph_run(graph));
        CHECK_OK(weir_read(g, got, sizeof got));
        for (int i = 0; i < 4; i++)
            CHECK((double)got[i] == want[i]);
        weir_graph_free(graph);
        weir_release(p);
    }
    weir_device_close(d);
}
