/* nets_step.c - training steps of each large network on small images, and of those over text: graph
 * off = on to the bit, an arena near the lower bound. */
#include "check.h"
#include "core/mem.h"

enum { STEPS = 2, TEXT_STEPS = 5, CLASSES = 10 };

#include "model/small_nets.h"

typedef struct job {
    const char *name;
    int64_t     batch, px;
    bool        pixels; /* logits (n,classes,h,w): a class for each pixel */
    bool        text;   /* x is tokens (batch,px), a label for each */
    weir_layer *(*make)(weir_model *m, int64_t px);
} job;

static weir_layer *make_vgg(weir_model *m, int64_t px)
{
    return weir_vgg16_new(m, CLASSES, px);
}

static weir_layer *make_unet(weir_model *m, int64_t px)
{
    (void)px;
    return weir_unet_new(m, 3, CLASSES, 4, false);
}

/* A context longer than the text: positions are a part of their table. */
static weir_layer *make_long_gpt(weir_model *m, int64_t px)
{
    return weir_gpt_new(m, CLASSES, 2 * px + 1, 16, 1, 1);
}

typedef struct train {
    const job   *job;
    weir_device *d;
    weir_model  *m;
    weir_layer  *net;
    weir_optim  *optim;
    weir_tensor *x, *y, *loss;
    weir_step   *step;
} train;

static weir_status record(void *ctx)
{
    train *t = ctx;
    weir_tensor *const logits = rows_of(weir_apply(t->net, t->x), t->job->pixels);
    t->loss = weir_keep(weir_cross_entropy(logits, t->y));
    return weir_minimize(t->optim, t->loss);
}

static void train_open(train *t, const job *j, bool graph)
{
    static int32_t label[1 << 12];
    const int64_t  labels = j->batch * (j->pixels ? j->px * j->px : j->text ? j->px : 1);

    const weir_device_options o = {.threads = 1, .seed = 5};
    *t = (train){.job = j, .d = weir_device_open(check_device(), &o)};
    t->m = weir_model_new(t->d);
    t->net = j->make(t->m, j->px);
    t->x = weir_input(t->d, j->text ? weir_2d(WEIR_I32, j->batch, j->px)
                                    : weir_4d(WEIR_F32, j->batch, 3, j->px, j->px));
    t->y = weir_input(t->d, weir_1d(WEIR_I32, labels));
    t->optim = weir_sgd_new(t->d, 0.01, &(weir_sgd_options){.momentum = 0.9});
    t->step = weir_step_new(t->d, record, t, &(weir_step_options){.graph = graph});
    for (int64_t i = 0; i < labels; i++)
        label[i] = (int32_t)(i * 7 % CLASSES);
    CHECK_OK(j->text ? weir_write(t->x, label, (size_t)labels * sizeof *label)
                     : weir_write_normal(t->x, 0, 1));
    CHECK_OK(weir_write(t->y, label, (size_t)labels * sizeof *label));
}

static void train_close(train *t)
{
    weir_step_free(t->step);
    weir_optim_free(t->optim);
    weir_release(t->x);
    weir_release(t->y);
    weir_model_free(t->m);
    weir_device_close(t->d);
}

static void same_bits(const weir_tensor *a, const weir_tensor *b)
{
    const size_t bytes = weir_tensor_bytes(a);
    char *const  v = weir_host_alloc(2 * bytes);
    if (CHECK(v && weir_tensor_bytes(b) == bytes) && CHECK_OK(weir_read(a, v, bytes)) &&
        CHECK_OK(weir_read(b, v + bytes, bytes)))
        CHECK_BITS(v, v + bytes, bytes);
    weir_host_free(v);
}

static void same_training(const train *off, const train *on)
{
    float loss = NAN;
    CHECK_OK(weir_read(on->loss, &loss, sizeof loss));
    CHECK(isfinite(loss));
    same_bits(off->loss, on->loss);
    for (size_t i = 0; i < weir_model_param_count(off->m); i++)
        same_bits(weir_model_param(off->m, i), weir_model_param(on->m, i));
    for (size_t i = 0; i < weir_model_state_count(off->m); i++)
        same_bits(weir_model_state(off->m, i), weir_model_state(on->m, i));
}

/* Some steps graph off and on; the last one measured. */
static void off_is_on(const job *j)
{
    train            off, on;
    weir_graph_stats s = {0};
    size_t           peak = 0;

    train_open(&off, j, false);
    train_open(&on, j, true);
    const int steps = j->text ? TEXT_STEPS : STEPS;
    for (int i = 0; i < steps; i++)
        CHECK_OK(weir_step_run(off.step));
    for (int i = 0; i + 1 < steps; i++)
        CHECK_OK(weir_step_run(on.step));
    weir_graph *g = weir_step_graph(on.step);
    if (CHECK(g != NULL)) {
        CHECK_OK(weir_graph_measure(g, &peak));
        CHECK_OK(weir_graph_stats_of(g, &s));
        check_that(peak == s.arena_bytes, __FILE__, __LINE__, "%s: measured %zu, planned %zu",
                   j->name, peak, s.arena_bytes);
        check_that(s.streams > 1 || (double)s.arena_bytes <= 1.01 * (double)s.lower_bound_bytes,
                   __FILE__, __LINE__, "%s: arena %zu, lower bound %zu", j->name, s.arena_bytes,
                   s.lower_bound_bytes);
        same_training(&off, &on);
    }
    train_close(&off);
    train_close(&on);
}

CASE(vgg16)
{
    off_is_on(&(job){"vgg16", 2, 32, false, false, make_vgg});
}

CASE(mobilenet_v2)
{
    off_is_on(&(job){"mobilenet_v2", 2, 64, false, false, make_mobilenet});
}

CASE(densenet121)
{
    off_is_on(&(job){"densenet121", 2, 64, false, false, make_densenet});
}

CASE(unet)
{
    off_is_on(&(job){"unet", 2, 32, true, false, make_unet});
}

CASE(unet_upsample)
{
    off_is_on(&(job){"unet upsample", 2, 32, true, false, make_unet_upsample});
}

CASE(gpt)
{
    off_is_on(&(job){"gpt", 3, 16, false, true, make_gpt});
    off_is_on(&(job){"gpt, long context", 2, 7, false, true, make_long_gpt});
}

CASE(char_lstm)
{
    off_is_on(&(job){"char_lstm", 3, 12, false, true, make_lstm});
}

/* Every step-th allocation of a constructor fails: NULL and a model without parameters. */
static void rolls_back(weir_layer *(*make)(weir_model *m, int64_t px), int64_t step)
{
    const weir_device_options o = {.threads = 1, .seed = 5};
    weir_device              *d = weir_device_open(check_device(), &o);
    bool         failed = true;
    int          refused = 0;

    for (int64_t n = 0; failed && n < 400 * step; n += step) {
        weir_model *m = weir_model_new(d);
        weir_mem_fail_nth(n, false);
        const weir_layer *l = make(m, 32);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        if (!l) {
            CHECK(failed && weir_error_status() == WEIR_ERR_NOMEM);
            CHECK(weir_model_param_count(m) == 0 && weir_model_state_count(m) == 0);
            refused++;
        }
        weir_model_free(m);
    }
    CHECK(!failed && refused > 5);
    weir_device_close(d);
}

CASE(constructors_roll_back)
{
    rolls_back(make_mobilenet, 101);
    rolls_back(make_densenet, 211);
    rolls_back(make_unet, 7);
    rolls_back(make_unet_upsample, 7);
    rolls_back(make_gpt, 5);
    rolls_back(make_lstm, 2);
}
