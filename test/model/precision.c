/* precision.c - mixed precision: models in half with f32 parameters, scaled losses, steps that are
 * skipped. */
#include "check.h"
#include "core/hash.h"
#include "weir.h"

enum { BATCH = 32, CLASSES = 10 };

typedef struct training {
    weir_device *d;
    weir_model  *m;
    weir_layer  *net;
    weir_optim  *o;
    weir_scaler *scaler;
    weir_tensor *x, *y, *loss;
    weir_step   *step;
} training;

typedef struct plan {
    weir_dtype                 half;
    const weir_scaler_options *scaler;      /* NULL: none */
    bool                       adam, graph;
    const char                *budget, *disable;
} plan;

static weir_status record(void *ctx)
{
    training *const t = ctx;
    t->loss = weir_keep(weir_cross_entropy(weir_apply(t->net, t->x), t->y));
    return t->loss ? weir_minimize(t->o, t->loss) : weir_error_status();
}

/* A digits CNN: convolutions, batch norm, pooling, dropout, linear layers. */
static bool open_training(training *t, const plan *p)
{
    static float   x[BATCH * 64];
    static int32_t y[BATCH];
    const weir_device_options seed = {.threads = 1, .seed = 7};

    *t = (training){.d = weir_device_open(check_device(), &seed)};
    t->m = weir_model_new(t->d);
    t->net = weir_digits_cnn_new(t->m, CLASSES);
    t->o = p->adam ? weir_adam_new(t->d, 2e-3, NULL)
                   : weir_sgd_new(t->d, 0.02, &(weir_sgd_options){.momentum = 0.9});
    CHECK_OK(weir_model_set_precision(t->m, p->half));
    if (p->scaler) {
        t->scaler = weir_scaler_new(t->d, p->scaler);
        CHECK_OK(weir_optim_set_scaler(t->o, t->scaler));
    }
    for (int i = 0; i < BATCH * 64; i++)
        x[i] = (float)((i * 37 + i / 64 * 11) % 101) / 101 + (float)(i / 64 % CLASSES == i % 10);
    for (int i = 0; i < BATCH; i++)
        y[i] = i % CLASSES;
    t->x = weir_input(t->d, weir_4d(WEIR_F32, BATCH, 1, 8, 8));
    t->y = weir_input(t->d, weir_1d(WEIR_I32, BATCH));
    t->step = weir_step_new(t->d, record, t,
                            &(weir_step_options){.graph = p->graph,
                                                 .plan = {.budget = p->budget,
                                                          .disable = p->disable}});
    return CHECK(t->step != NULL) && CHECK_OK(weir_write(t->x, x, sizeof x)) &&
           CHECK_OK(weir_write(t->y, y, sizeof y));
}

static void close_training(training *t)
{
    weir_step_free(t->step);
    weir_optim_free(t->o);
    weir_scaler_free(t->scaler);
    weir_model_free(t->m);
    weir_release(t->x);
    weir_release(t->y);
    weir_device_close(t->d);
}

static double scalar_of(const weir_tensor *t)
{
    double d = NAN;
    float  f = NAN;
    const bool wide = weir_tensor_desc(t).dtype == WEIR_F64;
    CHECK_OK(wide ? weir_read(t, &d, sizeof d) : weir_read(t, &f, sizeof f));
    return wide ? d : (double)f;
}

static double scale_of(const training *t)   { return scalar_of(weir_scaler_state(t->scaler, 0)); }
static double good_of(const training *t)    { return scalar_of(weir_scaler_state(t->scaler, 1)); }
static double skipped_of(const training *t) { return scalar_of(weir_scaler_state(t->scaler, 2)); }

/* The loss of the last of n steps. */
static double steps(training *t, int n)
{
    for (int i = 0; i < n; i++)
        if (!CHECK_OK(weir_step_run(t->step)))
            return NAN;
    return scalar_of(t->loss);
}

static uint64_t hash_of(uint64_t h, const weir_tensor *t)
{
    static char  buffer[1 << 20];
    const size_t bytes = weir_tensor_bytes(t);
    CHECK(bytes <= sizeof buffer && weir_read(t, buffer, bytes) == WEIR_OK);
    return weir_hash_bytes(h, buffer, bytes);
}

/* Parameters and the optimiser's states; with everything, running statistics and the scaler's. */
static uint64_t fingerprint(const training *t, bool everything)
{
    uint64_t h = 1;
    for (size_t i = 0; i < weir_model_param_count(t->m); i++)
        h = hash_of(h, weir_model_param(t->m, i));
    for (size_t i = 0; i < weir_optim_state_count(t->o); i++)
        h = hash_of(h, weir_optim_state(t->o, i));
    for (size_t i = 0; everything && i < weir_model_state_count(t->m); i++)
        h = hash_of(h, weir_model_state(t->m, i));
    for (size_t i = 0; everything && i < weir_scaler_state_count(t->scaler); i++)
        h = hash_of(h, weir_scaler_state(t->scaler, i));
    return h;
}

/* ---- training ---- */

CASE(half_trains_like_f32)
{
    static const weir_scaler_options found = {0};
    static const struct {
        weir_dtype half;
        double     tolerance;       /* relative difference of the loss */
    } kinds[] = {{WEIR_BF16, 0.1}, {WEIR_F16, 0.03}};

    for (int adam = 0; adam < 2; adam++) {
        training exact;
        if (!open_training(&exact, &(plan){.adam = adam, .graph = true}))
            return;
        const double first = steps(&exact, 1), last = steps(&exact, 40);
        CHECK(last < 0.5 * first);
        for (int i = 0; i < 2; i++) {
            const plan p = {.half = kinds[i].half, .adam = adam, .graph = true,
                            .scaler = kinds[i].half == WEIR_F16 ? &found : NULL};
            training   t;
            if (!open_training(&t, &p))
                return;
            CHECK_NEAR(steps(&t, 1), first, kinds[i].tolerance);
            CHECK_NEAR(steps(&t, 40) / last, 1, kinds[i].tolerance);
            for (size_t k = 0; k < weir_model_param_count(t.m); k++)
                CHECK(weir_tensor_desc(weir_model_param(t.m, k)).dtype == WEIR_F32);
            CHECK(!t.scaler || skipped_of(&t) == 0);
            close_training(&t);
        }
        close_training(&exact);
    }
}

CASE(f16_without_a_scale_loses_what_a_scale_keeps)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const w = weir_param(d, weir_2d(WEIR_F32, 1, 1), "w");
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, 1, 1));
    weir_scaler *const s = weir_scaler_new(d, NULL);
    const float        one = 1;
    double             gradient[2];

    CHECK_OK(weir_write(w, &one, sizeof one));
    CHECK_OK(weir_write(x, &one, sizeof one));
    for (int scaled = 0; scaled < 2; scaled++) {
        CHECK_OK(weir_autocast_begin(d, WEIR_F16));
        weir_tensor *const y = weir_linear(x, w, NULL);
        CHECK_OK(weir_autocast_end(d));
        weir_tensor *const loss = weir_affine(weir_sum(weir_cast(y, WEIR_F32), 0, false), 1e-9, 0);
        weir_pair         *pair = &(weir_pair){.param = w};
        weir_tensor       *finite;
        CHECK_OK(weir_gradients(scaled ? weir_scaler_scale(s, loss) : loss, 1, &w, &pair->grad));
        if (scaled)
            CHECK_OK(weir_scaler_unscale(s, pair, 1, pair, &finite));
        gradient[scaled] = scalar_of(pair->grad);
    }
    CHECK(gradient[0] == 0);
    CHECK_NEAR(gradient[1] / 1e-9, 1, 1e-3);
    weir_scaler_free(s);
    weir_release(w);
    weir_release(x);
    weir_device_close(d);
}

/* Updates of less than half a unit of bf16 add up. */
CASE(small_updates_reach_the_master_weights)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  l = weir_linear_new(m, "l", 1, 1, false);
    weir_tensor *const w = weir_model_param(m, 0);
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, 1, 1));
    weir_optim *const  o = weir_sgd_new(d, 0x1p-12, NULL);
    const float        one = 1;

    CHECK_OK(weir_model_set_precision(m, WEIR_BF16));
    CHECK(weir_model_precision(m) == WEIR_BF16);
    CHECK_OK(weir_write(w, &one, sizeof one));
    CHECK_OK(weir_write(x, &one, sizeof one));
    for (int i = 0; i < 64; i++) {
        CHECK_OK(weir_scope_begin(d));
        CHECK_OK(weir_minimize(o, weir_sum(weir_apply(l, x), 0, false)));
        CHECK_OK(weir_scope_end(d));
    }
    CHECK(scalar_of(w) == 1 - 64 * 0x1p-12);
    weir_optim_free(o);
    weir_model_free(m);
    weir_release(x);
    weir_device_close(d);
}

/* ---- the scale ---- */

CASE(an_overflow_skips_the_step_and_halves_the_scale)
{
    static const weir_scaler_options high = {.scale = 0x1p40};

    for (int adam = 0; adam < 2; adam++)
        for (int graph = 0; graph < 2; graph++) {
            training t;
            if (!open_training(&t, &(plan){.half = WEIR_F16, .scaler = &high, .adam = adam,
                                           .graph = graph}))
                return;
            steps(&t, 1);                           /* makes the optimiser's states */
            const uint64_t before = fingerprint(&t, false);
            CHECK(scale_of(&t) == 0x1p39 && skipped_of(&t) == 1 && good_of(&t) == 0);
            steps(&t, 1);
            CHECK(fingerprint(&t, false) == before);
            CHECK(scale_of(&t) == 0x1p38 && skipped_of(&t) == 2);
            CHECK(!adam || scalar_of(weir_optim_state(t.o, 0)) == 0);       /* the steps counted */
            steps(&t, 40);
            const double skipped = skipped_of(&t);
            CHECK(skipped > 10 && skipped < 40);
            CHECK(scale_of(&t) == ldexp(1, 40 - (int)skipped));
            CHECK(good_of(&t) == 42 - skipped);
            CHECK(!adam || scalar_of(weir_optim_state(t.o, 0)) == 42 - skipped);
            CHECK(fingerprint(&t, false) != before);
            close_training(&t);
        }
}

CASE(the_scale_grows_after_an_interval)
{
    static const weir_scaler_options quick = {.scale = 8, .interval = 3, .growth = 4},
                                     fixed = {.scale = 8, .interval = 3, .fixed = true},
                                     fixed_high = {.scale = 0x1p60, .fixed = true};
    training t;

    if (!open_training(&t, &(plan){.half = WEIR_F16, .scaler = &quick, .graph = true}))
        return;
    steps(&t, 2);
    CHECK(scale_of(&t) == 8 && good_of(&t) == 2);
    steps(&t, 1);
    CHECK(scale_of(&t) == 32 && good_of(&t) == 0);
    steps(&t, 4);
    CHECK(scale_of(&t) == 128 && good_of(&t) == 1);
    CHECK(skipped_of(&t) == 0);
    close_training(&t);

    if (!open_training(&t, &(plan){.half = WEIR_F16, .scaler = &fixed, .graph = true}))
        return;
    steps(&t, 4);
    CHECK(scale_of(&t) == 8 && skipped_of(&t) == 0);
    close_training(&t);

    if (!open_training(&t, &(plan){.half = WEIR_F16, .scaler = &fixed_high}))
        return;
    steps(&t, 1);
    const uint64_t before = fingerprint(&t, false);
    steps(&t, 2);
    CHECK(fingerprint(&t, false) == before && scale_of(&t) == 0x1p60 && skipped_of(&t) == 3);
    close_training(&t);
}

/* A scale that is a power of two changes no bit unless something overflows. */
CASE(a_scale_changes_no_bit_of_f32)
{
    static const weir_scaler_options some = {.scale = 1024};
    uint64_t                         bits[2];

    for (int scaled = 0; scaled < 2; scaled++) {
        training t;
        if (!open_training(&t, &(plan){.scaler = scaled ? &some : NULL, .adam = true}))
            return;
        steps(&t, 4);
        bits[scaled] = fingerprint(&t, false);
        close_training(&t);
    }
    CHECK(bits[0] == bits[1]);
}

/* ---- bits ---- */

CASE(graph_off_on_and_every_budget_have_the_same_bits)
{
    static const weir_scaler_options high = {.scale = 0x1p28, .interval = 5};
    const plan                       plans[] = {
        {.graph = false},
        {.graph = true},
        {.graph = true, .disable = weir_pass_names()},
        {.graph = true, .budget = "85%"},
        {.graph = true, .budget = "80%"},
    };

    for (int half = 0; half < 2; half++) {
        uint64_t bits = 0;
        for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
            plan     p = plans[i];
            training t;
            if (p.budget && !half)
                continue;
            p.half = half ? WEIR_F16 : WEIR_BF16;
            p.scaler = half ? &high : NULL;
            p.adam = true;
            if (!open_training(&t, &p))
                return;
            steps(&t, 20);
            const uint64_t now = fingerprint(&t, true);
            bits = i == 0 ? now : bits;
            CHECK(now == bits);
            CHECK(!half || (skipped_of(&t) > 5 && skipped_of(&t) < 18));
            close_training(&t);
        }
    }
}

/* ---- micro-batches, conditions ---- */

CASE(an_overflow_in_one_micro_batch_skips_the_sum)
{
    static const weir_scaler_options some = {.scale = 4};
    training                         t;

    if (!open_training(&t, &(plan){.half = WEIR_F16, .scaler = &some}))
        return;
    weir_tensor *const w = weir_model_param(t.m, 0);
    for (int overflow = 0; overflow < 2; overflow++) {
        const uint64_t before = hash_of(1, w);
        for (int i = 0; i < 2; i++) {
            weir_tensor *const loss = weir_cross_entropy(weir_apply(t.net, t.x), t.y);
            const double       by = overflow && i == 0 ? HUGE_VAL : 0.5;
            CHECK_OK(weir_optim_accumulate(t.o, weir_affine(loss, by, 0)));
        }
        CHECK_OK(weir_optim_apply(t.o));
        CHECK((hash_of(1, w) == before) == (overflow == 1));
    }
    CHECK(scale_of(&t) == 2 && skipped_of(&t) == 1);
    close_training(&t);
}

/* The optimiser number i, or NULL. */
static weir_optim *optim_of(weir_device *d, int i)
{
    switch (i) {
    case 0: return weir_sgd_new(d, 0.1, NULL);
    case 1: return weir_sgd_new(d, 0.1, &(weir_sgd_options){.momentum = 0.9, .weight_decay = 0.1});
    case 2: return weir_adam_new(d, 0.1, NULL);
    case 3: return weir_adamw_new(d, 0.1, &(weir_adam_options){.weight_decay = 0.1});
    case 4: return weir_adagrad_new(d, 0.1, &(weir_adagrad_options){.lr_decay = 0.1});
    case 5: return weir_rmsprop_new(d, 0.1, &(weir_rmsprop_options){.momentum = 0.9,
                                                                    .centered = true});
    default: return NULL;
    }
}

CASE(an_update_under_a_condition_is_all_or_nothing)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    const float        grad[] = {NAN, 1, INFINITY, 2}, fine[] = {1, 2, 3, 4};

    for (int i = 0; i < 6; i++)
        for (int wide = 0; wide < 2; wide++) {
            const weir_desc    desc = weir_1d(wide ? WEIR_F64 : WEIR_F32, 4);
            weir_optim *const  o = optim_of(d, i), *const twin = optim_of(d, i);
            weir_tensor *const p = weir_param(d, desc, "p"), *const q = weir_param(d, desc, "q");
            weir_tensor *const g = weir_input(d, weir_1d(WEIR_F32, 4));
            uint64_t           states[2] = {1, 1};
            CHECK_OK(weir_write_fill(p, 2));
            CHECK_OK(weir_write_fill(q, 2));
            for (int step = 0; step < 3; step++) {
                const bool yes = step != 1;
                CHECK_OK(weir_write(g, yes ? fine : grad, sizeof fine));
                weir_tensor *const condition = weir_cast(
                    weir_fill(d, weir_scalar(WEIR_F32), yes), WEIR_BOOL);
                weir_tensor *const own = weir_cast(g, desc.dtype);
                CHECK_OK(weir_optim_update_if(o, condition, &(weir_pair){p, own}, 1));
                if (yes)
                    CHECK_OK(weir_optim_update(twin, &(weir_pair){q, own}, 1));
            }
            CHECK(hash_of(1, p) == hash_of(1, q));
            for (size_t k = 0; k < weir_optim_state_count(o); k++) {
                states[0] = hash_of(states[0], weir_optim_state(o, k));
                states[1] = hash_of(states[1], weir_optim_state(twin, k));
            }
            CHECK(states[0] == states[1]);
            weir_release(p);
            weir_release(q);
            weir_release(g);
            weir_optim_free(o);
            weir_optim_free(twin);
        }
    weir_device_close(d);
}

CASE(mistakes_are_told)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_model *const  m = weir_model_new(d);
    weir_optim *const  o = weir_sgd_new(d, 0.1, NULL);
    weir_scaler *const s = weir_scaler_new(d, NULL);
    weir_tensor *const p = weir_param(d, weir_1d(WEIR_F32, 2), "p");
    weir_tensor       *finite;

    CHECK_STATUS(weir_model_set_precision(m, WEIR_F64), WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "not in f64");
    CHECK(weir_model_set_precision(NULL, WEIR_F16) != WEIR_OK);
    CHECK(!weir_scaler_new(NULL, NULL));
    CHECK(!weir_scaler_new(d, &(weir_scaler_options){.scale = -1}));
    CHECK_TEXT(weir_error(), "-1");
    CHECK(!weir_scaler_new(d, &(weir_scaler_options){.scale = NAN}));
    CHECK(!weir_scaler_new(d, &(weir_scaler_options){.growth = 0.5}));
    CHECK(!weir_scaler_new(d, &(weir_scaler_options){.backoff = 1}));
    CHECK(!weir_scaler_new(d, &(weir_scaler_options){.interval = -3}));
    CHECK_TEXT(weir_error(), "-3");
    CHECK(!weir_scaler_state(s, 3) && weir_scaler_state_count(s) == 3);
    CHECK(!weir_scaler_scale(s, NULL) && !weir_scaler_scale(NULL, p));
    CHECK(weir_optim_set_scaler(NULL, s) != WEIR_OK);
    CHECK_OK(weir_write_fill(p, 1));
    CHECK_STATUS(weir_unscale(NULL, 0, p, NULL, &finite), WEIR_ERR_SHAPE);
    CHECK(weir_unscale(NULL, 1, weir_scaler_state(s, 0), NULL, &finite) != WEIR_OK);
    CHECK_STATUS(weir_optim_update_if(o, p, &(weir_pair){p, p}, 1), WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "scalar bool");
    CHECK(weir_optim_update_if(o, NULL, NULL, 0) != WEIR_OK);
    weir_release(p);
    weir_optim_free(o);
    weir_scaler_free(s);
    weir_model_free(m);
    weir_device_close(d);
}

/* ---- every network ---- */

typedef struct network {
    weir_layer *(*make)(weir_model *m);
    weir_desc     x;
    int           vocab;        /* 0: x is images */
} network;

static weir_layer *lenet(weir_model *m)     { return weir_lenet_new(m, 4); }
static weir_layer *resnet(weir_model *m)    { return weir_resnet_cifar_new(m, 8, 4); }
static weir_layer *mobilenet(weir_model *m) { return weir_mobilenet_v2_new(m, 4); }
static weir_layer *gpt(weir_model *m)       { return weir_gpt_new(m, 4, 8, 16, 2, 2); }
static weir_layer *lstm(weir_model *m)      { return weir_char_lstm_new(m, 4, 8, 2); }
static weir_layer *tree(weir_model *m)
{
    return weir_tree_lstm_new(m, 4, 8, 4, 4, WEIR_TREE_BALANCED);
}

static const network networks[] = {
    {lenet, {WEIR_F32, 4, {2, 1, 28, 28}}, 0}, {resnet, {WEIR_F32, 4, {2, 3, 16, 16}}, 0},
    {mobilenet, {WEIR_F32, 4, {4, 3, 64, 64}}, 0}, {gpt, {WEIR_I32, 2, {2, 8}}, 4},
    {lstm, {WEIR_I32, 2, {2, 6}}, 4}, {tree, {WEIR_I32, 2, {2, 4}}, 4},
};

/* Returns the mean square of the logits of one training step. */
static double square_of(const network *n, weir_dtype half)
{
    static int32_t            tokens[64];
    const weir_device_options seed = {.threads = 1, .seed = 3};
    weir_device *const        d = weir_device_open(check_device(), &seed);
    weir_model *const         m = weir_model_new(d);
    weir_layer *const         net = n->make(m);
    weir_optim *const         o = weir_sgd_new(d, 0.01, NULL);
    weir_tensor *const        x = weir_input(d, n->x);
    double                    value = NAN;

    for (int i = 0; i < 64; i++)
        tokens[i] = i * 7 % 4;
    CHECK_OK(n->vocab ? weir_write(x, tokens, weir_tensor_bytes(x)) : weir_write_normal(x, 0, 1));
    CHECK_OK(weir_model_set_precision(m, half));
    weir_tensor *const y = weir_apply(net, x);
    if (CHECK(y != NULL) && CHECK(weir_tensor_desc(y).dtype == WEIR_F32)) {
        weir_tensor *const loss = weir_mean(weir_square(y), 0, false);
        CHECK_OK(weir_minimize(o, loss));
        value = scalar_of(loss);
    }
    weir_release(x);
    weir_optim_free(o);
    weir_model_free(m);
    weir_device_close(d);
    return value;
}

CASE(every_network_works_in_half)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        const double exact = square_of(&networks[i], WEIR_F32);
        CHECK_NEAR(square_of(&networks[i], WEIR_BF16) / exact, 1, 0.06);
        CHECK_NEAR(square_of(&networks[i], WEIR_F16) / exact, 1, 0.04);
    }
}
