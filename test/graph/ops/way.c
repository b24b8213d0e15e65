/* way.c - the ways of checking what an operation computes: values, gradients, graph, threads. */
#include "graph/ops/way.h"

#include <float.h>
#include <stdlib.h>

#include "graph/pass_list.h"

/* ---- shape ---- */

static bool same_desc(const weir_desc *a, const weir_desc *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

void op_way_desc(const op_check *c)
{
    for (weir_dtype type = 0; weir_dtype_size(type) > 0; type++) {
        op_fixture t;
        if (!(c->row->types >> type & 1))
            continue;
        if (op_open(&t, c->row, c->set, type, 1)) {
            weir_graph *const  g = weir_graph_begin(t.dev);
            const weir_tensor *on = op_apply(&t);
            const weir_desc    recorded = weir_tensor_desc(on);
            weir_graph_free(g);
            const weir_tensor *off = op_apply(&t);
            const weir_desc    computed = weir_tensor_desc(off);
            ref_array          want = op_expect(&t, NULL);
            check_that(on && off, __FILE__, __LINE__, "no result: %s", weir_error());
            CHECK(same_desc(&recorded, &want.desc));
            CHECK(same_desc(&computed, &want.desc));
            ref_free(&want);
        }
        op_close(&t);
    }
}

/* ---- values ---- */

static double epsilon(weir_dtype type)
{
    return type == WEIR_F32    ? (double)FLT_EPSILON
         : type == WEIR_F64  ? DBL_EPSILON
         : type == WEIR_F16  ? 0x1p-10
         : type == WEIR_BF16 ? 0x1p-7 : 0;
}

/* Below this a number's unit does not become smaller with it. */
static double least_normal(weir_dtype type)
{
    return type == WEIR_F16 ? 0x1p-14 : 0;
}

/* 0 where both are equal, NaNs included; infinite where only one is a number. */
static double gap(double got, double want)
{
    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    return isfinite(got) && isfinite(want) ? fabs(got - want) : HUGE_VAL;
}

static double worst_relative(const double *got, const double *want, int64_t n, double least)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        if (gap(got[i], want[i]) > 0)
            worst = fmax(worst, gap(got[i], want[i]) / fmax(fabs(want[i]), least));
    return worst;
}

static double rms_relative(const double *got, const double *want, int64_t n)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += gap(got[i], want[i]) * gap(got[i], want[i]);
        size += isfinite(want[i]) ? want[i] * want[i] : 0;
    }
    return error > 0 ? sqrt(error / size) : 0;
}

/* Error of the n values in units of the type's epsilon; integers are exact. */
static void compare(const op_check *c, const char *what, weir_dtype type, const double *got,
                    const double *want, int64_t n)
{
    const bool   rms = c->row->rms;
    const bool   half = (OP_HALVES >> type & 1) != 0;
    const double relative = rms ? rms_relative(got, want, n)
                                : worst_relative(got, want, n, least_normal(type));
    const double error = relative > 0 ? relative / epsilon(type) : 0;
    const double allowed = half ? fmax(1, c->row->half_eps) : c->row->eps;
    double      *worst = half               ? &c->score->worst_half
                       : type == WEIR_F64 ? &c->score->worst_f64 : &c->score->worst_f32;

    *worst = fmax(*worst, error);
    check_that(error <= allowed, __FILE__, __LINE__, "%s off by %g eps, allowed %g", what, error,
               allowed);
}

static void compare_states(const op_check *c, const op_fixture *t)
{
    for (int i = 0; i < t->nin; i++) {
        if (!op_is_state(t, i))
            continue;
        const ref_array *const want = &t->leaf[i];
        double *const          got = op_read(t->tensor[i]);
        char                   what[32];
        snprintf(what, sizeof what, "state, input %d,", i);
        if (got)
            compare(c, what, want->desc.dtype, got, want->at, ref_count(&want->desc));
        free(got);
    }
}

static void values_once(const op_check *c, op_fixture *t)
{
    const weir_tensor *const y = op_apply(t);
    if (!check_that(y != NULL, __FILE__, __LINE__, "no result: %s", weir_error()))
        return;
    double *const got = op_read(y);
    if (!got)
        return;
    ref_array       want = op_expect(t, got);
    const weir_desc d = weir_tensor_desc(y);
    if (CHECK(same_desc(&d, &want.desc)))
        compare(c, "values", want.desc.dtype, got, want.at, ref_count(&want.desc));
    compare_states(c, t);
    ref_free(&want);
    free(got);
}

void op_way_values(const op_check *c)
{
    op_fixture t;
    const int  runs = c->row->runs ? c->row->runs : 1;

    bool ok = op_open(&t, c->row, c->set, c->type, 1);
    for (int i = 0; i < runs && ok; i++) {
        CHECK_OK(weir_scope_begin(t.dev));
        values_once(c, &t);
        CHECK_OK(weir_scope_end(t.dev));
        ok = op_draw(&t, false);
    }
    op_close(&t);
    c->score->values++;
}

/* Values of floats that comparisons and sums are most easily wrong about; no two of them make a sum
 * that depends on the order. */
static const double special[] = {(double)NAN, 1, (double)INFINITY, -1, 0.5, -0.0, 2,
                                 -(double)INFINITY, 0.0, 3, -3, 1.5, -2.5};

enum { SPECIALS = sizeof special / sizeof *special };

static void draw_special(op_fixture *t, int start)
{
    for (int i = 0; i < t->nin; i++) {
        const op_kind kind = t->row->in[i].kind;
        if (kind != OP_PARAM && kind != OP_DATA)
            continue;
        for (int64_t k = 0; k < ref_count(&t->leaf[i].desc); k++)
            t->leaf[i].at[k] = special[(k * (i + 1) + (i + 1) * start) % SPECIALS];
        op_write(t, i);
    }
}

void op_way_special(const op_check *c)
{
    op_fixture t;

    bool ok = op_open(&t, c->row, c->set, c->type, 1);
    for (int start = 0; start < SPECIALS && ok; start++) {
        CHECK_OK(weir_scope_begin(t.dev));
        draw_special(&t, start);
        values_once(c, &t);
        CHECK_OK(weir_scope_end(t.dev));
    }
    op_close(&t);
    c->score->values++;
}

/* ---- gradients ---- */

/* Central differences as PyTorch's gradcheck takes them. */
static const double step = 1e-6, absolute = 1e-5, relative = 1e-3;

enum { EACH_UP_TO = 48, DIRECTIONS = 3 };

/* The loss for the values of the leaves as they are written. */
static double loss_now(op_fixture *t)
{
    double value = (double)NAN;

    CHECK_OK(weir_device_seed(t->dev, 5));      /* the same draws every time */
    CHECK_OK(weir_scope_begin(t->dev));
    const weir_tensor *const loss = weir_sum(weir_mul(op_apply(t), t->weights), 0, false);
    if (CHECK(loss != NULL))
        CHECK_OK(weir_read(loss, &value, sizeof value));
    CHECK_OK(weir_scope_end(t->dev));
    return value;
}

/* (loss(x + step u) - loss(x - step u)) / 2 step for leaf i; u NULL is the unit vector at k. */
static double slope(op_fixture *t, int i, const double *u, int64_t k)
{
    ref_array *const a = &t->leaf[i];
    const int64_t    n = ref_count(&a->desc);
    double *const    x = a->at;
    double           loss[2];

    a->at = calloc((size_t)n + 1, sizeof *x);
    for (int side = 0; side < 2; side++) {
        for (int64_t j = 0; j < n; j++)
            a->at[j] = x[j] + (side ? -step : step) * (u ? u[j] : j == k);
        op_write(t, i);
        loss[side] = loss_now(t);
    }
    free(a->at);
    a->at = x;
    op_write(t, i);
    return (loss[0] - loss[1]) / (2 * step);
}

static void near_slope(const op_check *c, int i, int64_t at, double gradient, double numeric)
{
    const double allowed = absolute + relative * fabs(numeric);
    const double error = gap(gradient, numeric) / allowed;

    c->score->worst_gradient = fmax(c->score->worst_gradient, error);
    check_that(error <= 1, __FILE__, __LINE__, "gradient of input %d %s %lld is %.9g, not %.9g", i,
               at < 0 ? "in direction" : "at", (long long)(at < 0 ? -at : at), gradient, numeric);
}

static void check_direction(const op_check *c, op_fixture *t, int i, const double *gradient,
                            int64_t n, int number)
{
    double *const u = calloc((size_t)n, sizeof *u);
    double        along = 0;

    for (int64_t k = 0; k < n; k++) {
        u[k] = check_real(-1, 1);
        along += u[k] * gradient[k];
    }
    near_slope(c, i, -1 - number, along, slope(t, i, u, 0));
    free(u);
}

/* Each element of a small leaf, a few elements and random directions of a large one. */
static void check_gradient(const op_check *c, op_fixture *t, int i, const double *gradient)
{
    const int64_t n = ref_count(&t->leaf[i].desc);

    for (int64_t k = 0; k < n; k += n <= EACH_UP_TO ? 1 : n / 4)
        near_slope(c, i, k, gradient[k], slope(t, i, NULL, k));
    for (int k = 0; k < DIRECTIONS && n > EACH_UP_TO; k++)
        check_direction(c, t, i, gradient, n, k);
}

void op_way_gradient(const op_check *c)
{
    op_fixture t;
    op_result  r;
    double    *gradient[OP_MAX_IN] = {NULL};

    if (op_open(&t, c->row, c->set, WEIR_F64, 1)) {
        CHECK_OK(weir_device_seed(t.dev, 5));
        CHECK_OK(weir_scope_begin(t.dev));
        CHECK_OK(op_record(&t, true, &r));
        for (int i = 0; i < t.nin; i++) {
            const weir_desc d = r.grad[i] ? weir_tensor_desc(r.grad[i]) : (weir_desc){0};
            if (op_is_wrt(&t, i) && CHECK(r.grad[i]) && CHECK(same_desc(&d, &t.leaf[i].desc)))
                gradient[i] = op_read(r.grad[i]);
        }
        CHECK_OK(weir_scope_end(t.dev));
        for (int i = 0; i < t.nin; i++)
            if (gradient[i])
                check_gradient(c, &t, i, gradient[i]);
    }
    for (int i = 0; i < OP_MAX_IN; i++)
        free(gradient[i]);
    op_close(&t);
    c->score->gradients++;
}

/* In units of epsilon of f16 and bf16, root mean square: a gradient is a chain of a few calls, each
 * of which rounds. */
static const double half_gradient = 8;

/* Relative to the larger of the answer and 0.1: terms of a sum that cancel leave their errors. */
static double half_error(const double *got, const double *want, int64_t n)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += gap(got[i], want[i]) * gap(got[i], want[i]);
        size += isfinite(want[i]) ? want[i] * want[i] : 0;
    }
    return error > 0 ? sqrt(error / fmax(size, 0.01 * (double)n)) : 0;
}

/* Gradients in f16 or bf16 against those in f64 at the same values. */
void op_way_half_gradient(const op_check *c)
{
    const double allowed = c->row->half_gradient > 0 ? c->row->half_gradient : half_gradient;
    op_fixture   half, wide;
    op_result    r, exact;

    if (op_open(&half, c->row, c->set, c->type, 1) && op_open(&wide, c->row, c->set, WEIR_F64, 1) &&
        op_write_like(&wide, &half) && CHECK_OK(op_record(&half, true, &r)) &&
        CHECK_OK(op_record(&wide, true, &exact)))
        for (int i = 0; i < half.nin; i++) {
            if (!op_is_wrt(&half, i) || !CHECK(r.grad[i] && exact.grad[i]))
                continue;
            const weir_desc d = weir_tensor_desc(r.grad[i]);
            double *const   got = op_read(r.grad[i]), *const want = op_read(exact.grad[i]);
            CHECK(same_desc(&d, &half.leaf[i].desc));
            const double error = half_error(got, want, ref_count(&d)) / epsilon(c->type);
            check_that(error <= allowed, __FILE__, __LINE__, "gradient of input %d off by %g eps, "
                       "allowed %g", i, error, allowed);
            free(got);
            free(want);
        }
    op_close(&half);
    op_close(&wide);
}

/* Returns the gradients as doubles. Trainable: all inputs, or only input `alone`. */
static void gradients_of(op_fixture *t, int alone, double *gradient[OP_MAX_IN])
{
    op_result r;

    for (int i = 0; i < t->nin; i++)
        if (op_is_wrt(t, i))
            CHECK_OK(weir_tensor_set_needs_grad(t->tensor[i], alone < 0 || i == alone));
    CHECK_OK(weir_device_seed(t->dev, 5));
    CHECK_OK(weir_scope_begin(t->dev));
    CHECK_OK(op_record(t, true, &r));
    for (int i = 0; i < t->nin; i++)
        gradient[i] = r.grad[i] ? op_read(r.grad[i]) : NULL;
    CHECK_OK(weir_scope_end(t->dev));
}

/* Allows for another order of summing. */
static void check_same_gradient(const op_fixture *t, int i, const double *a, const double *b)
{
    const int64_t n = ref_count(&t->leaf[i].desc);

    if (CHECK(a) && CHECK(b))
        check_that(rms_relative(a, b, n) <= 1e-12, __FILE__, __LINE__,
                   "gradient of input %d alone differs by %g", i, rms_relative(a, b, n));
}

void op_way_frozen(const op_check *c)
{
    op_fixture t;
    double    *all[OP_MAX_IN] = {NULL}, *one[OP_MAX_IN] = {NULL};

    if (op_open(&t, c->row, c->set, WEIR_F64, 1)) {
        gradients_of(&t, -1, all);
        for (int alone = 0; alone < t.nin; alone++) {
            if (!op_is_wrt(&t, alone))
                continue;
            gradients_of(&t, alone, one);
            check_same_gradient(&t, alone, one[alone], all[alone]);
            for (int i = 0; i < t.nin; i++) {
                CHECK(i == alone || !one[i]);
                free(one[i]);
            }
        }
    }
    for (int i = 0; i < OP_MAX_IN; i++)
        free(all[i]);
    op_close(&t);
}

/* ---- graph on and off, thread counts: the same program, the same bits ---- */

enum { ROUNDS = 2 };    /* runs, with new input values in between */

static bool compute(op_fixture *t, bool keep_y, op_bytes *out)
{
    bool ok = true;
    for (int round = 0; round < ROUNDS && ok; round++) {
        op_result r;
        ok = (round == 0 || op_draw(t, false)) && CHECK_OK(weir_scope_begin(t->dev)) &&
             CHECK_OK(op_record(t, keep_y, &r)) && op_read_all(t, &r, out) &&
             CHECK_OK(weir_scope_end(t->dev));
    }
    return ok;
}

/* The graph's text makes a graph with the same text: every attribute is written and read. */
static void comes_back(weir_graph *g, weir_device *d)
{
    char *const       text = weir_graph_recorded(g);
    weir_graph *const again = text ? weir_graph_parse(d, text, strlen(text), NULL) : NULL;
    char *const       same = again ? weir_graph_recorded(again) : NULL;

    if (check_that(same != NULL, __FILE__, __LINE__, "not read again: %s\n%s", weir_error(),
                   text ? text : ""))
        check_that(strcmp(text, same) == 0, __FILE__, __LINE__, "%s\n-> %s", text, same);
    weir_graph_free(again);
    weir_text_free(same);
    weir_text_free(text);
}

static bool record(op_fixture *t, bool keep_y, const weir_plan_options *o, op_bytes *out)
{
    op_result         r;
    weir_graph *const g = weir_graph_begin(t->dev);
    bool ok = CHECK(g) && CHECK_OK(op_record(t, keep_y, &r)) && CHECK_OK(weir_graph_end(g, o));

    if (ok && o->level == 0)
        comes_back(g, t->dev);
    for (int round = 0; round < ROUNDS && ok; round++)
        ok = (round == 0 || op_draw(t, false)) && CHECK_OK(weir_graph_run(g)) &&
             op_read_all(t, &r, out);
    weir_graph_free(g);
    return ok;
}

/* Returns the bytes of both rounds on a fresh device; graph on if `plan` is given; seed: of the
 * values. */
static bool bits(const op_check *c, uint64_t seed, bool keep_y, const weir_plan_options *plan,
                 int threads, op_bytes *out)
{
    op_fixture t;

    check_random = seed;
    const bool ok = op_open(&t, c->row, c->set, c->type, threads) &&
                    (plan ? record(&t, keep_y, plan, out) : compute(&t, keep_y, out));
    op_close(&t);
    return ok;
}

static void same_bits(const op_bytes *a, const op_bytes *b, const char *what)
{
    if (!CHECK(a->n == b->n) || !CHECK_BITS(a->at, b->at, a->n))
        check_that(false, __FILE__, __LINE__, "bits differ: %s", what);
}

void op_way_graph(const op_check *c)
{
    const uint64_t seed = check_random;
    const int      threads = c->type == WEIR_F32 ? 2 : 1;
    op_bytes       off = {NULL, 0}, on = {NULL, 0};

    if (bits(c, seed, true, NULL, threads, &off) &&
        bits(c, seed, true, &(weir_plan_options){0}, threads, &on))
        same_bits(&off, &on, "graph off, graph on");
    op_bytes_free(&off);
    op_bytes_free(&on);
}

/* The result is not kept here, which leaves the passes more freedom. */
void op_way_plans(const op_check *c)
{
    pass_name      passes[PASSES_MAX];
    const size_t   n = pass_list(passes);
    const uint64_t seed = check_random;
    op_bytes       off = {NULL, 0}, on = {NULL, 0};

    bool ok = bits(c, seed, false, NULL, 1, &off);
    for (size_t i = 0; i < n + 2 && ok; i++) {
        const weir_plan_options plan = {.level = i == n ? WEIR_LEVEL_RECORDED : 1,
                                        .disable = i < n ? passes[i] : NULL};
        ok = bits(c, seed, false, &plan, 1, &on);
        if (ok)
            same_bits(&off, &on, plan.disable ? plan.disable : "level");
        op_bytes_free(&on);
    }
    op_bytes_free(&off);
}

/* Rounds with 1 to `most` threads against those with `least`. */
static void same_for_threads(const op_check *c, int least, int most, const char *what)
{
    const uint64_t seed = check_random;
    op_bytes       first = {NULL, 0}, more = {NULL, 0};

    bool ok = bits(c, seed, true, NULL, least, &first);
    for (int threads = least == most ? most : least + 1; threads <= most && ok; threads++) {
        ok = bits(c, seed, true, NULL, threads, &more);
        if (ok)
            same_bits(&first, &more, what);
        op_bytes_free(&more);
    }
    op_bytes_free(&first);
    check_random = seed;
}

/* Library kernels promise the same bits for one number of threads only; our own for all. */
void op_way_threads(const op_check *c)
{
    static const char *const variable[] = {"WEIR_GEMM", "WEIR_CONV"};
    char                    *was[2] = {NULL};

    if (!c->row->library) {
        same_for_threads(c, 1, 3, "1, 2, 3 threads");
        return;
    }
    same_for_threads(c, 2, 2, "run to run");
    for (int i = 0; i < 2; i++) {
        was[i] = getenv(variable[i]) ? strdup(getenv(variable[i])) : NULL;
        setenv(variable[i], "own", 1);
    }
    same_for_threads(c, 1, 3, "own kernels, 1, 2, 3 threads");
    for (int i = 0; i < 2; i++) {
        if (was[i])
            setenv(variable[i], was[i], 1);
        else
            unsetenv(variable[i]);
        free(was[i]);
    }
}
