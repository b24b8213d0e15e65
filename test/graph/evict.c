/* evict.c - a budget with the graph off: live bytes stay within it, the bits stay what they were. */
#include "lab.h"
#include "random.h"
#include "train.h"

enum { STEPS = 20 };

static const char *const policies[] = {"dtr",      "dtr:eq",   "dtr:local",
                                       "dtr:lru",  "dtr:size", "dtr:msps"};

/* ---- networks whose activations are most of what they take ---- */

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
    t->d = weir_device_open("cpu", &(weir_device_options){.threads = 2, .seed = 5});
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
    check_floats(x, LAB_COUNT(x), -1, 1);
    for (size_t i = 0; i < LAB_COUNT(y); i++) {
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

/* A training of its own; budget 0: none. */
static outcome run(deep net, size_t budget, const char *policy, int steps)
{
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
        CHECK(!budget || (o.memory.live_peak <= budget && o.memory.pool <= budget));
    }
    if (o.status == WEIR_OK)
        o.bits = train_bits(&j.t);
    train_close(&j.t);
    return o;
}

/* Losses, parameters, running statistics and optimiser state are those of a training without. */
CASE(training_within_a_budget)
{
    for (deep net = 0; net < DEEP_NETS; net++) {
        const outcome plain = run(net, 0, NULL, STEPS);
        CHECK_OR_RETURN(plain.status == WEIR_OK);
        CHECK(plain.memory.evicted == 0 && plain.memory.again == 0);
        for (int percent = 100; percent >= 40; percent -= percent > 60 ? 20 : 10) {
            const size_t  budget = plain.memory.live_peak * (size_t)percent / 100;
            const outcome o = run(net, budget, "dtr", STEPS);
            printf("%s %d%%: %zu of %zu, persistent %zu, evicted %llu again %llu: %s\n",
                   deep_name[net], percent, o.memory.live_peak, plain.memory.live_peak,
                   plain.memory.persistent, (unsigned long long)o.memory.evicted,
                   (unsigned long long)o.memory.again, o.status == WEIR_OK ? "ok" : weir_error());
            CHECK_OK(o.status);
            CHECK(o.bits == plain.bits);
            CHECK((percent == 100) == (o.memory.again == 0));
        }
    }
}

/* Each rule, at a budget that all of them keep; the same values go in every run. */
CASE(one){ const outcome plain = run(0, 0, NULL, 1); run(0, plain.memory.live_peak*6/10, "dtr", 1);}
CASE(every_policy)
{
    const outcome plain = run(DEEP_CNN, 0, NULL, 3);
    uint64_t      again[LAB_COUNT(policies)];

    for (size_t p = 0; p < LAB_COUNT(policies); p++) {
        const size_t  budget = plain.memory.live_peak * 6 / 10;
        const outcome o = run(DEEP_CNN, budget, policies[p], 3);
        CHECK_OK(o.status);
        CHECK(o.bits == plain.bits && o.memory.again > 0);
        CHECK(run(DEEP_CNN, budget, policies[p], 3).memory.again == o.memory.again);
        again[p] = o.memory.again;
        printf("%s: %llu\n", policies[p], (unsigned long long)again[p]);
    }
}
