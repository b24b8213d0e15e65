/* optim.c - optimisers against their formulas in double, and what an optimiser owns. */
#include "check.h"
#include "weir.h"

enum { N = 3, STEPS = 3 };

/* loss = sum(a w^2), so the gradient is 2 a w and moves with w. */
static const double start[N] = {0.5, -1.25, 2.0}, slope[N] = {0.75, 1.5, 0.25};

typedef struct problem {
    weir_device *dev;
    weir_tensor *w, *a;
    weir_optim  *optim;
} problem;

static void write_real(weir_tensor *t, const double *v)
{
    float single[N];
    for (int i = 0; i < N; i++)
        single[i] = (float)v[i];
    if (weir_tensor_desc(t).dtype == WEIR_F64)
        CHECK_OK(weir_write(t, v, N * sizeof *v));
    else
        CHECK_OK(weir_write(t, single, sizeof single));
}

static void read_real(const weir_tensor *t, double *v)
{
    float single[N] = {0};
    if (weir_tensor_desc(t).dtype == WEIR_F64) {
        CHECK_OK(weir_read(t, v, N * sizeof *v));
        return;
    }
    CHECK_OK(weir_read(t, single, sizeof single));
    for (int i = 0; i < N; i++)
        v[i] = (double)single[i];
}

static weir_status step(void *ctx)
{
    problem     *p = ctx;
    weir_tensor *loss = weir_sum(weir_mul(p->a, weir_square(p->w)), 0, false);
    return weir_minimize(p->optim, loss);
}

static double rate_of(int i)
{
    return i < 2 ? 0.1 : 0.03;      /* changes between two runs of the same graph */
}

/* STEPS steps with `optim` (freed here); the parameter afterwards into w. */
static void train(weir_device *d, weir_dtype type, bool graph, weir_optim *optim, double w[N])
{
    problem p = {d, weir_param(d, weir_1d(type, N), "w"), weir_input(d, weir_1d(type, N)), optim};
    weir_step *s = weir_step_new(d, step, &p, &(weir_step_options){.graph = graph});

    write_real(p.w, start);
    write_real(p.a, slope);
    for (int i = 0; i < STEPS; i++) {
        CHECK_OK(weir_optim_set_lr(optim, rate_of(i)));
        CHECK_OK(weir_step_run(s));
    }
    read_real(p.w, w);
    weir_step_free(s);
    weir_optim_free(optim);
    weir_release(p.w);
    weir_release(p.a);
}

typedef weir_optim *(*make_fn)(weir_device *d, const void *options);
typedef void (*reference_fn)(const void *options, double w[N]);

/* Both types, graph off and on: near the reference, and the same bits with the graph on. */
static void agrees(make_fn make, reference_fn reference, const void *options)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F64};
    static const double     tol[] = {2e-6, 1e-13};
    double                  want[N], off[N], on[N];

    memcpy(want, start, sizeof want);
    reference(options, want);
    for (int t = 0; t < 2; t++) {
        weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
        train(d, types[t], false, make(d, options), off);
        train(d, types[t], true, make(d, options), on);
        for (int i = 0; i < N; i++)
            CHECK_NEAR(off[i], want[i], tol[t]);
        CHECK_BITS(off, on, sizeof off);
        weir_device_close(d);
    }
}

/* ---- SGD as PyTorch defines it: the first step is not dampened ---- */

static weir_optim *sgd_make(weir_device *d, const void *options)
{
    return weir_sgd_new(d, 1.0, options);
}

static void sgd_reference(const void *options, double w[N])
{
    const weir_sgd_options *o = options;
    double                  buf[N] = {0};

    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < N; i++) {
            double g = 2 * slope[i] * w[i] + o->weight_decay * w[i];
            buf[i] = s == 0 ? g : o->momentum * buf[i] + (1 - o->dampening) * g;
            if (o->momentum != 0)
                g = o->nesterov ? g + o->momentum * buf[i] : buf[i];
            w[i] -= rate_of(s) * g;
        }
    }
}

CASE(sgd)
{
    static const weir_sgd_options cases[] = {
        {0},
        {.weight_decay = 0.05},
        {.momentum = 0.9},
        {.momentum = 0.9, .weight_decay = 0.05},
        {.momentum = 0.8, .dampening = 0.3},
        {.momentum = 0.9, .nesterov = true},
        {.momentum = 0.9, .weight_decay = 0.05, .nesterov = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        agrees(sgd_make, sgd_reference, &cases[i]);
}

/* ---- Adam, Kingma and Ba 2015, algorithm 1 ---- */

static weir_optim *adam_make(weir_device *d, const void *options)
{
    return weir_adam_new(d, 1.0, options);
}

static void adam_reference(const void *options, double w[N])
{
    const weir_adam_options *o = options;
    const double b1 = o->beta1 != 0 ? o->beta1 : 0.9, b2 = o->beta2 != 0 ? o->beta2 : 0.999;
    const double eps = o->eps != 0 ? o->eps : 1e-8;
    double       m[N] = {0}, v[N] = {0};

    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < N; i++) {
            const double g = 2 * slope[i] * w[i] + o->weight_decay * w[i];
            m[i] = b1 * m[i] + (1 - b1) * g;
            v[i] = b2 * v[i] + (1 - b2) * g * g;
            const double mean = m[i] / (1 - pow(b1, s + 1)), square = v[i] / (1 - pow(b2, s + 1));
            w[i] -= rate_of(s) * mean / (sqrt(square) + eps);
        }
    }
}

CASE(adam)
{
    static const weir_adam_options cases[] = {
        {0},
        {.beta1 = 0.8, .beta2 = 0.99, .eps = 1e-3},
        {.weight_decay = 0.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        agrees(adam_make, adam_reference, &cases[i]);
}

/* ---- AdamW, Adagrad, RMSProp as PyTorch defines them ---- */

static weir_optim *adamw_make(weir_device *d, const void *options)
{
    return weir_adamw_new(d, 1.0, options);
}

static void adamw_reference(const void *options, double w[N])
{
    const double decay = ((const weir_adam_options *)options)->weight_decay;
    double       m[N] = {0}, v[N] = {0};

    for (int s = 0; s < STEPS; s++) {
        for (int i = 0; i < N; i++) {
            const double g = 2 * slope[i] * w[i];
            w[i] -= rate_of(s) * decay * w[i];
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            const double mean = m[i] / (1 - pow(0.9, s + 1));
            w[i] -= rate_of(s) * mean / (sqrt(v[i] / (1 - pow(0.999, s + 1))) + 1e-8);
        }
    }
}

CASE(adamw)
{
    static const weir_adam_options cases[] = {{0}, {.weight_decay = 0.1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        agrees(adamw_make, adamw_reference, &cases[i]);
}

static weir_optim *adagrad_make(weir_device *d, const void *options)
{
    return weir_adagrad_new(d, 1.0, options);
}

static void adagrad_reference(const void *options, double w[N])
{
    const weir_adagrad_options *o = options;
    double                      square[N];

    for (int i = 0; i < N; i++)
        square[i] = o->initial_accumulator;
    for (int s = 0; s < STEPS; s++)
        for (int i = 0; i < N; i++) {
            const double g = 2 * slope[i] * w[i] + o->weight_decay * w[i];
            const double rate = rate_of(s) / (1 + s * o->lr_decay);
            square[i] += g * g;
            const double eps = o->eps != 0 ? o->eps : 1e-10;
            w[i] -= rate * g / (o->eps_inside ? sqrt(square[i] + eps) : sqrt(square[i]) + eps);
        }
}

CASE(adagrad)
{
    static const weir_adagrad_options cases[] = {
        {0}, {.eps = 1e-3, .weight_decay = 0.1}, {.lr_decay = 0.25}, {.initial_accumulator = 0.5},
        {.lr_decay = 0.1, .initial_accumulator = 2, .weight_decay = 0.1},
        {.eps = 0.3, .eps_inside = true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        agrees(adagrad_make, adagrad_reference, &cases[i]);
}

static weir_optim *rmsprop_make(weir_device *d, const void *options)
{
    return weir_rmsprop_new(d, 1.0, options);
}

static void rmsprop_reference(const void *options, double w[N])
{
    const weir_rmsprop_options *o = options;
    const double alpha = o->alpha != 0 ? o->alpha : 0.99, eps = o->eps != 0 ? o->eps : 1e-8;
    double       square[N] = {0}, mean[N] = {0}, buf[N] = {0};

    for (int s = 0; s < STEPS; s++)
        for (int i = 0; i < N; i++) {
            const double g = 2 * slope[i] * w[i] + o->weight_decay * w[i];
            square[i] = alpha * square[i] + (1 - alpha) * g * g;
            mean[i] = o->centered ? alpha * mean[i] + (1 - alpha) * g : 0;
            buf[i] = o->momentum * buf[i] + g / (sqrt(square[i] - mean[i] * mean[i]) + eps);
            w[i] -= rate_of(s) * buf[i];
        }
}

CASE(rmsprop)
{
    static const weir_rmsprop_options cases[] = {
        {0},
        {.alpha = 0.9, .eps = 1e-3, .weight_decay = 0.1},
        {.momentum = 0.9},
        {.centered = true},
        {.alpha = 0.9, .momentum = 0.5, .centered = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        agrees(rmsprop_make, rmsprop_reference, &cases[i]);
}

/* A schedule inside the graph that an optimiser's rate follows. */
/* ---- gradients that the optimiser limits ---- */

typedef struct limits {
    double norm, value;
} limits;

static weir_optim *limited_make(weir_device *d, const void *options)
{
    const limits *const l = options;
    weir_optim *const   o = weir_sgd_new(d, 1.0, NULL);

    CHECK_OK(weir_optim_set_clip_norm(o, l->norm));
    CHECK_OK(weir_optim_set_clip_value(o, l->value));
    return o;
}

static void limited_reference(const void *options, double w[N])
{
    const limits *const l = options;

    for (int s = 0; s < STEPS; s++) {
        double g[N], squares = 0;
        for (int i = 0; i < N; i++) {
            g[i] = 2 * slope[i] * w[i];
            if (l->value != 0)
                g[i] = fmin(fmax(g[i], -l->value), l->value);
            squares += g[i] * g[i];
        }
        const double by = l->norm != 0 ? fmin(1, l->norm / (sqrt(squares) + 1e-6)) : 1;
        for (int i = 0; i < N; i++)
            w[i] -= rate_of(s) * g[i] * by;
    }
}

CASE(limited_gradients)
{
    static const limits cases[] = {{1, 0}, {0, 0.8}, {0.9, 0.8}, {100, 0}, {0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        agrees(limited_make, limited_reference, &cases[i]);
}

/* One loss added up and applied is the loss minimised: the sum is limited as the gradient is. */
CASE(limited_sums)
{
    static const limits l = {0.9, 0.8};
    double              got[2][N];

    for (int sums = 0; sums < 2; sums++) {
        const weir_device_options o = {.threads = 1};
        weir_device *const d = weir_device_open(check_device(), &o);
        problem p = {d, weir_param(d, weir_1d(WEIR_F64, N), "w"),
                     weir_input(d, weir_1d(WEIR_F64, N)), limited_make(d, &l)};
        write_real(p.w, start);
        write_real(p.a, slope);
        for (int i = 0; i < STEPS; i++) {
            CHECK_OK(weir_scope_begin(d));
            weir_tensor *const loss = weir_sum(weir_mul(p.a, weir_square(p.w)), 0, false);
            CHECK_OK(sums ? weir_optim_accumulate(p.optim, loss) : weir_minimize(p.optim, loss));
            CHECK_OK(sums ? weir_optim_apply(p.optim) : WEIR_OK);
            CHECK_OK(weir_scope_end(d));
        }
        read_real(p.w, got[sums]);
        weir_optim_free(p.optim);
        weir_release(p.w);
        weir_release(p.a);
        weir_device_close(d);
    }
    CHECK(got[0][0] != start[0]);
    CHECK_BITS(got[0], got[1], sizeof got[0]);
}

CASE(scheduled_rate)
{
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    weir_tensor *w = weir_param(d, weir_1d(WEIR_F32, N), "w");
    weir_tensor *a = weir_input(d, weir_1d(WEIR_F32, N));
    weir_tensor *n = weir_state(d, weir_scalar(WEIR_F64), "n");
    weir_optim  *sgd = weir_sgd_new(d, 0.5, NULL);
    problem      p = {d, w, a, sgd};
    double       want[N], got[N];

    write_real(w, start);
    write_real(a, slope);
    CHECK_OK(weir_write_fill(n, 0));
    memcpy(want, start, sizeof want);
    weir_graph *g = weir_graph_begin(d);
    CHECK_OK(weir_increment(n, 1));
    CHECK_OK(weir_lr_exponential(weir_optim_lr(sgd, WEIR_F32), n, 0.1, 0.5));
    CHECK_OK(step(&p));
    CHECK_OK(weir_graph_end(g, NULL));
    for (int s = 1; s <= 4; s++) {
        CHECK_OK(weir_graph_run(g));
        for (int i = 0; i < N; i++)
            want[i] -= 0.1 * pow(0.5, s) * 2 * slope[i] * want[i];
    }
    read_real(w, got);
    for (int i = 0; i < N; i++)
        CHECK_NEAR(got[i], want[i], 2e-6);
    CHECK(weir_optim_lr(sgd, WEIR_I32) == NULL);
    CHECK_TEXT(weir_error(), "i32");
    weir_graph_free(g);
    weir_optim_free(sgd);
    weir_release(n);
    weir_release(w);
    weir_release(a);
    weir_device_close(d);
}

/* ---- what an optimiser owns ---- */

/* State is made once per parameter, zero at first, and not at all without momentum. */
CASE(states_are_made_once)
{
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    weir_tensor *w = weir_param(d, weir_1d(WEIR_F32, N), "w");
    weir_tensor *a = weir_input(d, weir_1d(WEIR_F32, N));
    weir_optim  *optims[] = {weir_sgd_new(d, 0.1, NULL),
                             weir_sgd_new(d, 0.1, &(weir_sgd_options){.momentum = 0.9}),
                             weir_adam_new(d, 0.1, NULL)};
    const size_t want[] = {0, 1, 3};

    write_real(w, start);
    write_real(a, slope);
    for (int i = 0; i < 3; i++) {
        problem p = {d, w, a, optims[i]};
        for (int k = 0; k < 3; k++) {
            CHECK_OK(weir_scope_begin(d));
            CHECK_OK(step(&p));
            CHECK_OK(weir_scope_end(d));
        }
        CHECK(weir_optim_state_count(optims[i]) == want[i]);
    }
    CHECK_TEXT(weir_tensor_name(weir_optim_state(optims[1], 0)), "w.momentum");
    CHECK(weir_optim_state(optims[1], 1) == NULL);
    CHECK_TEXT(weir_error(), "index 1");
    double steps = 0;
    CHECK_OK(weir_read(weir_optim_state(optims[2], 0), &steps, sizeof steps));
    CHECK_NEAR(steps, 3, 0);
    for (int i = 0; i < 3; i++)
        weir_optim_free(optims[i]);
    weir_release(w);
    weir_release(a);
    weir_device_close(d);
}

/* A frozen parameter stays as it was, and parameters of two types train together. */
CASE(mixed_types_and_frozen)
{
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    weir_tensor *w32 = weir_param(d, weir_1d(WEIR_F32, N), "w32");
    weir_tensor *w64 = weir_param(d, weir_1d(WEIR_F64, N), "w64");
    weir_tensor *fixed = weir_param(d, weir_1d(WEIR_F64, N), "fixed");
    weir_optim  *o = weir_sgd_new(d, 0.25, NULL);
    double       v[N];

    write_real(w32, start);
    write_real(w64, start);
    write_real(fixed, slope);
    CHECK_OK(weir_tensor_set_needs_grad(fixed, false));
    CHECK_OK(weir_scope_begin(d));
    weir_tensor *both = weir_add(w64, weir_cast(w32, WEIR_F64));
    CHECK_OK(weir_minimize(o, weir_sum(weir_mul(fixed, both), 0, false)));
    CHECK_OK(weir_scope_end(d));
    read_real(w32, v);
    CHECK_NEAR(v[0], start[0] - 0.25 * slope[0], 1e-7);
    read_real(w64, v);
    CHECK_NEAR(v[2], start[2] - 0.25 * slope[2], 1e-15);
    read_real(fixed, v);
    CHECK_BITS(v, slope, sizeof v);
    weir_optim_free(o);
    weir_release(w32);
    weir_release(w64);
    weir_release(fixed);
    weir_device_close(d);
}

CASE(mistakes_are_named)
{
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    weir_optim  *o = weir_sgd_new(d, 0.1, NULL);

    CHECK(weir_sgd_new(d, (double)NAN, NULL) == NULL);
    CHECK_TEXT(weir_error(), "sgd_new");
    CHECK_STATUS(weir_optim_set_lr(o, (double)INFINITY), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_optim_set_clip_norm(o, -1), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "optim_set_clip_norm: the limit is -1");
    CHECK_STATUS(weir_optim_set_clip_value(o, (double)NAN), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_optim_set_clip_value(NULL, 1), WEIR_ERR_INVALID);
    CHECK(weir_minimize(o, NULL) != WEIR_OK);
    CHECK(weir_minimize(NULL, NULL) != WEIR_OK);
    CHECK(weir_adam_new(NULL, 0.1, NULL) == NULL);
    CHECK(!weir_adagrad_new(d, 0.1, &(weir_adagrad_options){.lr_decay = -1}));
    CHECK_TEXT(weir_error(), "lr_decay -1");
    CHECK(!weir_adagrad_new(d, 0.1, &(weir_adagrad_options){.initial_accumulator = (double)NAN}));
    CHECK_TEXT(weir_error(), "initial_accumulator nan");
    CHECK(weir_optim_state_count(NULL) == 0);
    weir_optim_free(NULL);
    weir_optim_free(o);
    weir_device_close(d);
}

/* Model and optimiser may be freed in any order; the device's memory is empty afterwards. */
/* Halves are stored and computed with, not trained: a step in f32 updates, and is cast. */
CASE(half_parameters_are_refused_by_name)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const half = weir_param(d, weir_1d(WEIR_BF16, N), "half");
    weir_tensor *const p = weir_param(d, weir_1d(WEIR_F32, N), "p");
    weir_optim *const  sgd = weir_sgd_new(d, 0.5, NULL);
    float              v[N];

    CHECK_OK(weir_write_fill(half, 1));
    CHECK_OK(weir_write_fill(p, 1));
    CHECK_STATUS(weir_minimize(sgd, weir_sum(weir_square(half), 0, false)), WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "sgd_update: updates f32 or f64, the parameter is bf16");
    weir_tensor *const narrow = weir_cast(p, WEIR_BF16);
    CHECK_OK(weir_minimize(sgd, weir_sum(weir_square(narrow), 0, false)));
    CHECK_OK(weir_read(p, v, sizeof v));
    CHECK(v[0] == 0 && v[N - 1] == 0);
    weir_release(half);
    weir_release(p);
    weir_optim_free(sgd);
    weir_device_close(d);
}

CASE(freed_in_any_order)
{
    for (int order = 0; order < 2; order++) {
        weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
        weir_model  *m = weir_model_new(d);
        weir_layer  *net = weir_mlp_new(m, 2, (const int64_t[]){4, 2});
        weir_optim  *o = weir_adam_new(d, 0.1, NULL);
        weir_tensor *x = weir_input(d, weir_2d(WEIR_F32, 3, 4));
        weir_memory  memory;

        CHECK_OK(weir_write_fill(x, 1));
        CHECK_OK(weir_scope_begin(d));
        CHECK_OK(weir_minimize(o, weir_mean(weir_square(weir_apply(net, x)), 0, false)));
        CHECK_OK(weir_scope_end(d));
        CHECK(weir_optim_state_count(o) == 5);
        if (order == 0)
            weir_model_free(m);
        weir_optim_free(o);
        if (order == 1)
            weir_model_free(m);
        weir_release(x);
        weir_device_memory(d, &memory);
        CHECK(memory.live == 0 && memory.persistent == 0);
        weir_device_close(d);
    }
}
