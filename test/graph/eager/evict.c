/* evict.c - a budget with the graph off: live bytes stay within it, bits stay what they were. */
#include "core/status.h"
#include "graph/memory/search/dtr_score.h"
#include "graph/fixture.h"
#include "graph/random.h"
#include "graph/train.h"

enum { STEPS = 20 };

static const char *const policies[] = {"dtr",      "dtr:eq",   "dtr:local",
                                       "dtr:lru",  "dtr:size", "dtr:msps"};

/* ---- networks whose memory is mostly activations ---- */

enum { UNITS = 8, CHANNELS = 8, VOCABULARY = 24 };

typedef enum deep { DEEP_MLP, DEEP_CNN, DEEP_LSTM, DEEP_NETS } deep;

static const char *const deep_name[DEEP_NETS] = {"mlp", "cnn", "char lstm"};

typedef struct job {
    train       t;                  /* for its fingerprint: model, optimiser, input, labels */
    deep        net;
    weir_layer *conv[UNITS], *norm[UNITS], *drop, *net_layer, *head;
} job;

static weir_tensor *cnn_logits(const job *j)
{
    weir_tensor *h = j->t.x;

    for (int i = 0; i < UNITS; i++)
        h = weir_apply(j->drop, weir_relu(weir_apply(j->norm[i], weir_apply(j->conv[i], h))));
    return weir_apply(j->head, weir_mean(h, 1u << 2 | 1u << 3, false));
}

static weir_status job_record(void *ctx)
{
    job         *j = ctx;
    weir_tensor *logits = j->net == DEEP_CNN ? cnn_logits(j) : weir_apply(j->net_layer, j->t.x);

    j->t.loss = weir_keep(weir_cross_entropy(logits, j->t.y));
    return j->t.loss ? weir_minimize(j->t.o, j->t.loss) : weir_error_status();
}

static bool make_layers(job *j)
{
    weir_model *const m = j->t.m;
    int64_t           widths[16];

    if (j->net == DEEP_MLP) {
        for (int i = 0; i < 16; i++)
            widths[i] = i == 15 ? 10 : 16;
        return (j->net_layer = weir_mlp_new(m, 16, widths)) != NULL;
    }
    if (j->net == DEEP_LSTM)
        return (j->net_layer = weir_char_lstm_new(m, VOCABULARY, 16, 6)) != NULL;
    j->drop = weir_dropout_new(m, 0.2);
    j->head = weir_linear_new(m, "head", CHANNELS, 10, true);
    bool ok = j->drop && j->head;
    for (int i = 0; i < UNITS && ok; i++) {
        j->conv[i] = weir_conv2d_new(m, "conv", i ? CHANNELS : 3, CHANNELS, 3,
                                     &(weir_conv2d_options){.pad = {1, 1}}, false);
        j->norm[i] = j->conv[i] ? weir_batch_norm_new(m, "norm", CHANNELS) : NULL;
        ok = j->norm[i] != NULL;
    }
    return ok;
}

static weir_desc input_of(deep net)
{
    return net == DEEP_MLP   ? weir_2d(WEIR_F32, 640, 16)
           : net == DEEP_CNN ? weir_4d(WEIR_F32, 4, 3, 12, 12)
                             : weir_2d(WEIR_I32, 16, 24);
}

static weir_status job_open(job *j, deep net)
{
    train *const t = &j->t;

    *j = (job){.net = net};
    t->d = weir_device_open(check_device(), &(weir_device_options){.threads = 2, .seed = 5});
    t->m = weir_model_new(t->d);
    if (t->m && make_layers(j))
        t->o = net == DEEP_CNN
                   ? weir_sgd_new(t->d, 0.01, &(weir_sgd_options){.momentum = 0.9,
                                                                  .weight_decay = 1e-4})
                   : weir_adam_new(t->d, 0.01, NULL);
    if (t->o)
        t->x = weir_input(t->d, input_of(net));
    const weir_desc x = input_of(net);
    if (t->x)
        t->y = weir_input(t->d, weir_1d(WEIR_I32, net == DEEP_LSTM ? x.dim[0] * x.dim[1]
                                                                    : x.dim[0]));
    if (t->y)
        t->step = weir_step_new(t->d, job_record, j, NULL);
    if (t->step)
        return WEIR_OK;
    train_close(t);
    return weir_error_status();
}

/* New data, one step; the loss goes into the fingerprint. */
static weir_status job_step(job *j, int number)
{
    train *const t = &j->t;
    float        x[640 * 16];
    int32_t      y[640], chars[640];
    float        loss;
    const size_t n = weir_tensor_bytes(t->x) / sizeof *x;

    check_random = 500 + (uint64_t)number;
    check_floats(x, ARRAY_LENGTH(x), -1, 1);
    for (size_t i = 0; i < ARRAY_LENGTH(y); i++) {
        y[i] = (int32_t)check_int(0, 9);
        chars[i] = (int32_t)check_int(0, VOCABULARY - 1);
    }
    const void *const data = j->net == DEEP_LSTM ? (const void *)chars : x;
    WEIR_TRY(weir_write(t->x, data, n * sizeof *x));
    WEIR_TRY(weir_write(t->y, y, weir_tensor_bytes(t->y)));
    WEIR_TRY(weir_step_run(t->step));
    WEIR_TRY(weir_read(t->loss, &loss, sizeof loss));
    t->fingerprint = weir_hash_bytes(t->fingerprint, &loss, sizeof loss);
    return WEIR_OK;
}

static bool set_budget(weir_device *d, size_t bytes)
{
    char text[32];

    snprintf(text, sizeof text, "%zu", bytes);
    return CHECK_OK(weir_device_set_budget(d, text));
}

typedef struct outcome {
    weir_status status;
    uint64_t    bits;
    weir_memory memory;
} outcome;

/* Trains a fresh network; budget 0: none. Fragmentation lets the pool hold a quarter more than the
 * budget, and a block that fits no gap: workspaces of Weir's own kernels are that large. */
static outcome run(deep net, size_t budget, const char *policy, int steps)
{
    enum { WORK = 128 << 10 };
    outcome o = {.status = WEIR_ERR_NOMEM};
    job     j;

    if (!CHECK_OK(job_open(&j, net)))
        return o;
    if (budget && (!CHECK_OK(weir_device_set_policy(j.t.d, policy)) || !set_budget(j.t.d, budget)))
        return o;
    weir_device_reset_peak(j.t.d);
    o.status = WEIR_OK;
    for (int k = 0; k < steps && o.status == WEIR_OK; k++) {
        o.status = job_step(&j, k);
        weir_device_memory(j.t.d, &o.memory);
        CHECK(!budget || o.memory.live_peak <= budget);
        /* Zones make small blocks many times larger. */
        check_that(!budget || j.t.d->guard || o.memory.pool <= budget + budget / 4 + WORK, __FILE__,
                   __LINE__, "%zu bytes are held under a budget of %zu", o.memory.pool, budget);
    }
    if (o.status == WEIR_OK)
        o.bits = train_bits(&j.t);
    train_close(&j.t);
    return o;
}

/* With a large budget nothing is evicted; with a smaller one values are evicted, and with a much
 * smaller one some are recomputed. At four fifths of the peak it may be enough to drop values that
 * no later call reads. */
static bool went_as_wanted(int percent, const weir_memory *m)
{
    if (percent > 100)
        return m->evicted == 0 && m->recomputed == 0;
    return m->evicted > 0 && (percent > 60 || m->recomputed > 0);
}

/* Losses, parameters, running statistics and optimiser state equal those without a budget. */
CASE(training_within_a_budget)
{
    for (deep net = 0; net < DEEP_NETS; net++) {
        const outcome plain = run(net, 0, NULL, STEPS);
        CHECK_OR_RETURN(plain.status == WEIR_OK);
        CHECK(plain.memory.evicted == 0 && plain.memory.recomputed == 0);
        static const int shares[] = {200, 80, 60, 50, 40};
        for (size_t k = 0; k < ARRAY_LENGTH(shares); k++) {
            const int     percent = shares[k];
            const size_t  budget = plain.memory.live_peak * (size_t)percent / 100;
            const outcome o = run(net, budget, "dtr", STEPS);
            if (!CHECK_OK(o.status) || !CHECK(o.bits == plain.bits) ||
                (check_on_cpu() && !CHECK(went_as_wanted(percent, &o.memory))))
                printf("    %s at %d%%\n", deep_name[net], percent);
        }
    }
}

/* Each eviction rule, at a budget that all of them can keep; every run evicts the same values. */
CASE(every_policy)
{
    const outcome plain = run(DEEP_CNN, 0, NULL, 3);

    for (size_t p = 0; p < ARRAY_LENGTH(policies); p++) {
        const size_t  budget = plain.memory.live_peak * 6 / 10;
        const outcome o = run(DEEP_CNN, budget, policies[p], 3);
        CHECK_OK(o.status);
        CHECK(o.bits == plain.bits && o.memory.recomputed > 0);
        CHECK(run(DEEP_CNN, budget, policies[p], 3).memory.recomputed == o.memory.recomputed);
    }
}

/* ---- random programs ---- */

/* Runs what a random program does next; where the budget is too small, once more without it: the
 * call that failed has done nothing. */
static weir_status retried(random_program *p, size_t budget, weir_status (*act)(random_program *))
{
    const uint64_t    random = check_random;
    const weir_status status = act(p);

    if (status != WEIR_ERR_BUDGET)
        return status;
    CHECK(budget > 0);
    CHECK_OK(weir_device_set_budget(p->d, NULL));
    check_random = random;
    const weir_status recomputed = act(p);
    set_budget(p->d, budget);
    return recomputed;
}

static weir_status act_call(random_program *p)
{
    weir_tensor *const t = random_call(p);

    if (!t)
        return weir_error_status();
    p->value[p->n++] = t;
    return WEIR_OK;
}

static weir_status act_update(random_program *p)
{
    weir_tensor *const s = p->state[check_int(0, RANDOM_STATES - 1)];

    switch (check_int(0, 2)) {
    case 0:  return weir_increment(s, 0.125);
    case 1:  return weir_assign(s, weir_tanh(random_value(p)));
    default: return weir_sgd_update(s, weir_tanh(weir_copy(random_value(p))), NULL, p->lr, NULL);
    }
}

/* The host writes, a scope of unused results ends. */
static weir_status act_host(random_program *p)
{
    float v[RANDOM_ROWS * RANDOM_COLS];

    check_floats(v, ARRAY_LENGTH(v), -1, 1);
    return weir_write(p->state[check_int(0, RANDOM_STATES - 1)], v, sizeof v);
}

static weir_status act_lost(random_program *p)
{
    const int   n = p->n;
    weir_status status = weir_scope_begin(p->d);

    for (int i = 0; i < 4 && status == WEIR_OK; i++)
        status = act_call(p);
    if (status == WEIR_OK)
        p->value[n] = weir_escape(p->value[n + 3]);     /* one of four is kept */
    weir_scope_end(p->d);
    p->n = n + (status == WEIR_OK);
    return status;
}

/* A fingerprint of every value that is held and of the states, read in a random order. */
static uint64_t random_bits(const random_program *p)
{
    uint64_t h = 0;

    for (int i = 0; i < p->n + RANDOM_STATES; i++)
        h = train_hash(h, p->value[check_int(0, p->n - 1)]);
    for (int i = 0; i < RANDOM_STATES; i++)
        h = train_hash(h, p->state[i]);
    return h;
}

static uint64_t random_run(uint64_t seed, size_t budget, const char *policy, weir_memory *m)
{
    weir_status (*const acts[])(random_program *) = {act_call, act_call, act_call, act_call,
                                                     act_lost, act_lost, act_update, act_host};
    random_program p;
    uint64_t       bits = 0;

    check_random = seed;
    random_open(&p);
    CHECK_OK(weir_device_set_policy(p.d, policy));
    if (budget)
        set_budget(p.d, budget);
    weir_device_reset_peak(p.d);
    CHECK_OK(weir_scope_begin(p.d));
    p.n = 0;
    for (int i = 0; i < RANDOM_STATES; i++)
        p.value[p.n++] = p.state[i];
    bool ok = true;
    for (int i = 0; i < 60 && ok; i++)
        ok = CHECK_OK(retried(&p, budget, acts[check_int(0, ARRAY_LENGTH(acts) - 1)]));
    CHECK_OK(weir_device_set_budget(p.d, NULL));
    weir_device_memory(p.d, m);
    if (ok)
        bits = random_bits(&p);
    CHECK_OK(weir_scope_end(p.d));
    random_close(&p);
    return bits;
}

CASE(random_programs)
{
    uint64_t    recomputed = 0;
    weir_memory m;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        const uint64_t want = random_run(seed, 0, NULL, &m);
        for (size_t share = 9; share >= 3; share -= 3) {
            const size_t budget = m.live_peak * share / 10;
            weir_memory  held;
            if (!CHECK(random_run(seed, budget, policies[seed % ARRAY_LENGTH(policies)], &held) ==
                       want))
                printf("    seed %llu, %zu bytes\n", (unsigned long long)seed, budget);
            recomputed += held.recomputed;
        }
    }
    CHECK(recomputed > 1000);
}

/* ---- failures ---- */

/* Each allocation of a step fails once: a status, nothing leaks, and the next step works. */
CASE(fails_at_every_point)
{
    const size_t   budget = run(DEEP_CNN, 0, NULL, 2).memory.live_peak / 2;
    const uint64_t bits = run(DEEP_CNN, budget, "dtr:eq", 2).bits;

    for (int64_t nth = 0;; nth += 1 + nth / 8) {
        job j;
        CHECK_OR_RETURN(job_open(&j, DEEP_CNN) == WEIR_OK);
        CHECK_OK(weir_device_set_policy(j.t.d, "dtr:eq"));
        CHECK_OK(job_step(&j, 0));
        set_budget(j.t.d, budget);
        weir_mem_fail_nth(nth, nth % 2);
        const weir_status status = job_step(&j, 1);
        const bool        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(status == WEIR_OK ? train_bits(&j.t) == bits : status == WEIR_ERR_NOMEM);
        CHECK_OK(job_step(&j, 2));
        train_close(&j.t);
        if (!failed)
            break;
    }
}

CASE(one_call_that_does_not_fit)
{
    if (!check_on_cpu())        /* its sizes are those of the CPU's alignment */
        return;
    weir_device *d = fixture_open();
    const float  first = fixture_value(weir_uniform(d, weir_1d(WEIR_F32, 1), 0, 1));
    weir_device_close(d);
    d = fixture_open_unguarded();
    weir_tensor *x = fixture_input(d, 1000, NULL);
    weir_memory  before, after;

    set_budget(d, 9000);
    weir_tensor *y = weir_exp(x);
    CHECK_OR_RETURN(y != NULL);
    weir_device_memory(d, &before);
    CHECK(weir_add(x, y) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_BUDGET);
    CHECK_TEXT(weir_error(), "add: 4032 bytes do not fit into the budget of 9000: 4032 are taken "
               "by parameters, states, inputs and outputs, 4032 by values in use, 0 by values "
               "that cannot be recomputed");
    weir_device_memory(d, &after);
    CHECK(after.live == before.live);
    CHECK(weir_uniform(d, weir_1d(WEIR_F32, 2000), 0, 1) == NULL);
    set_budget(d, 12100);
    CHECK(fixture_value(weir_uniform(d, weir_1d(WEIR_F32, 1), 0, 1)) == first); /* nothing drawn */
    CHECK(weir_add(x, y) != NULL);
    CHECK_OK(weir_device_set_budget(d, "10"));          /* too small for what is there already */
    CHECK_STATUS(weir_write_fill(x, 1), WEIR_ERR_BUDGET);
    weir_release(x);
    weir_device_close(d);
}

CASE(names_of_policies)
{
    weir_device *d = fixture_open();

    for (size_t p = 0; p < ARRAY_LENGTH(policies); p++)
        CHECK_OK(weir_device_set_policy(d, policies[p]));
    CHECK_OK(weir_device_set_policy(d, NULL));
    CHECK_STATUS(weir_device_set_policy(d, "dtr:magic"), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "dtr:magic");
    CHECK_STATUS(weir_device_set_policy(NULL, "dtr"), WEIR_ERR_INVALID);
    weir_device_close(d);
}

/* The scores by hand. */
CASE(scores)
{
    const weir_dtr_item i = {.cost = 6, .nearby = 2, .bytes = 4, .idle = 0.5};
    const double        want[] = {4, 4, 3, 2, 0.25, 2};
    weir_dtr_rule       rule;

    for (size_t p = 0; p < ARRAY_LENGTH(policies); p++) {
        CHECK(weir_dtr_rule_named(policies[p], &rule) && strcmp(weir_dtr_rule_name(rule),
                                                                policies[p]) == 0);
        weir_dtr_item one = i;
        if (weir_dtr_reach_of(rule) == WEIR_DTR_ALONE)
            one.nearby = 0;
        CHECK_NEAR(weir_dtr_score(rule, &one), want[p], 1e-12);
    }
    CHECK(!weir_dtr_rule_named("dtr:", &rule));
}
