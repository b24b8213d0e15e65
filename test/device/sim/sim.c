/* sim.c - tests of the simulated device: its numbers, clocks and capacity, what it refuses, and
 * training steps of every network on it. */
#include "device/sim/sim.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "check.h"
#include "core/mem.h"
#include "device/sim/spec.h"
#include "weir.h"

static weir_device *opened(const char *name)
{
    weir_device *d = weir_device_open(name, &(weir_device_options){.threads = 1});
    CHECK(d != NULL);
    return d;
}

/* ---- the machine that a name describes ---- */

CASE(presets_and_numbers)
{
    weir_sim_spec s;
    CHECK_OK(weir_sim_spec_read("v100", &s));
    CHECK(s.rates.flops == 14e12 && s.rates.bytes == 900e9 && s.rates.link_in == 12e9);
    CHECK(s.rates.link_out == 12e9 && s.rates.call == 5e-6 && s.capacity == 16e9);
    CHECK_OK(weir_sim_spec_read(NULL, &s));
    CHECK(s.rates.flops == 10e12 && s.rates.bytes == 600e9);
    CHECK_OK(weir_sim_spec_read("h200,link_in=1GB/s,capacity=0.5GiB,call=0,copy=1e-3", &s));
    CHECK(s.rates.flops == 67e12 && s.rates.link_in == 1e9 && s.rates.link_out == 50e9);
    CHECK(s.capacity == 0x1p29 && s.rates.call == 0 && s.rates.copy == 1e-3);
    CHECK_OK(weir_sim_spec_read("flops=1e12,memory=100GB,link=7e9", &s));
    CHECK(s.rates.flops == 1e12 && s.rates.bytes == 100e9 && s.rates.link_out == 7e9);
    for (const char *const *p = (const char *const[]){"format", "laptop", "p100", "v100",
                                                      "rtx2080ti", "h200", NULL}; *p; p++)
        CHECK_OK(weir_sim_spec_read(*p, &s));
}

CASE(bad_specs)
{
    static const struct { const char *text, *says; } bad[] = {
        {"sim:abacus", "unknown preset or key 'abacus' (expected format"},
        {"sim:v100,p100", "'p100'"},
        {"sim:flop=1e12", "'flop'"},
        {"sim:flops=fast", "flops=fast must be"},
        {"sim:flops=1e12B", "flops=1e12B must be"},
        {"sim:flops=0", "flops=0 must be"},
        {"sim:flops=nan", "flops=nan must be"},
        {"sim:memory=-1", "memory=-1 must be"},
        {"sim:memory=0x10", "memory=0x10 must be"},
        {"sim:memory=", "memory= must be"},
        {"sim:link=3leagues", "link=3leagues must be"},
        {"sim:call=-1e-6", "call=-1e-6 must be seconds"},
        {"sim:copy=inf", "copy=inf must be seconds"},
        {"sim:capacity=1e20", "capacity is 1e+20 bytes"},
        {"sim:capacity=0.5", "capacity=0.5 must be"},
        {"sim:", "empty item"},
        {"sim:v100,", "empty item"},
        {"sim:v100,,call=1", "empty item"},
        {"sim:v100,call=000000000000000000000000000000000000000000000000000000000000000000000000"
         "00000", "too long"},
        {"cpu:fast", "device cpu takes no options"},
        {"si", "unknown device 'si'"},
        {"simulated", "unknown device 'simulated'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(weir_device_open(bad[i].text, NULL) == NULL);
        CHECK_TEXT(weir_error(), bad[i].says);
    }
}

CASE(open_short_of_memory)
{
    weir_device *d = NULL;
    for (int n = 0; n < 50 && !d; n++) {
        const int64_t alive = weir_mem_alive();
        weir_mem_fail_nth(n, true);
        d = weir_device_open("sim:v100", &(weir_device_options){.threads = 1});
        weir_mem_fail_nth(-1, false);
        CHECK(d || (weir_error_status() == WEIR_ERR_NOMEM && weir_mem_alive() == alive));
    }
    CHECK(d != NULL);
    weir_device_close(d);
}

CASE(info)
{
    weir_device *d = opened("sim:p100");
    CHECK_OR_RETURN(d != NULL);
    char *text = weir_info_text(d);
    CHECK_TEXT(text, "device sim");
    CHECK_TEXT(text, "9.3 TFLOP/s, memory 732 GB/s");
    weir_text_free(text);
    weir_device_close(d);
}

/* ---- time ---- */

#define V100_FLOPS 14e12
#define V100_BYTES 900e9
#define V100_LINK  12e9
#define CALL       5e-6
#define COPY       1e-5

/* Seconds that the clock has advanced since *last. */
static double since(const weir_device *d, double *last)
{
    const double now = weir_device_clock(d), gone = now - *last;
    *last = now;
    return gone;
}

static weir_tensor *filled(weir_device *d, weir_desc desc)
{
    weir_tensor *t = weir_input(d, desc);
    CHECK_OK(weir_write_fill(t, 1));
    return t;
}

CASE(clock_of_calls)
{
    enum { N = 1024 };
    weir_device *d = opened("sim:v100");
    CHECK_OR_RETURN(d != NULL);
    CHECK(weir_device_clock(d) == 0 && weir_device_clock(NULL) == 0);
    weir_tensor *a = filled(d, weir_2d(WEIR_F32, N, N)), *b = filled(d, weir_2d(WEIR_F32, N, N));
    double       at = 0;
    CHECK_NEAR(since(d, &at), 2 * (CALL + N * N * 4.0 / V100_BYTES), 1e-12);
    CHECK_OK(weir_scope_begin(d));
    weir_tensor *c = weir_matmul(a, b);
    CHECK_NEAR(since(d, &at), CALL + 2.0 * N * N * N / V100_FLOPS, 1e-12);
    CHECK(weir_relu(c) != NULL);
    CHECK_NEAR(since(d, &at), CALL + 2.0 * N * N * 4 / V100_BYTES, 1e-12);
    CHECK(weir_transpose(c, (const int[]){1, 0}) != NULL);      /* a view */
    CHECK(since(d, &at) == 0);
    CHECK_OK(weir_scope_end(d));
    weir_release(a);
    weir_release(b);
    weir_device_close(d);
}

CASE(clock_of_a_graph)
{
    enum { N = 512 };
    weir_device *d = opened("sim:v100");
    CHECK_OR_RETURN(d != NULL);
    weir_tensor *a = filled(d, weir_2d(WEIR_F32, N, N)), *b = filled(d, weir_2d(WEIR_F32, N, N));
    weir_graph  *g = weir_graph_begin(d);
    double       at = weir_device_clock(d);
    weir_tensor *c = weir_matmul(a, b);
    weir_keep(weir_mul(weir_relu(weir_neg(c)), c));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK(since(d, &at) == 0);          /* recording and planning take no simulated time */
    CHECK_OK(weir_graph_run(g));
    /* The chain of three is one pass over memory: it reads c and writes the result. */
    const double bytes = 2.0 * N * N * 4;
    CHECK_NEAR(since(d, &at), 2 * CALL + 2.0 * N * N * N / V100_FLOPS + bytes / V100_BYTES, 1e-12);
    weir_graph_free(g);
    weir_release(a);
    weir_release(b);
    weir_device_close(d);
}

CASE(clock_of_transfers)
{
    enum { N = 100000 };
    static float values[N];
    weir_device *d = opened("sim:v100");
    CHECK_OR_RETURN(d != NULL);
    weir_tensor *t = weir_input(d, weir_1d(WEIR_F32, N));
    weir_tensor *image = weir_input(d, weir_4d(WEIR_F32, 10, 10, 50, 20));  /* other strides */
    double       at = 0;
    CHECK_OK(weir_write(t, values, sizeof values));
    CHECK_NEAR(since(d, &at), COPY + sizeof values / V100_LINK, 1e-12);
    CHECK_OK(weir_write(image, values, sizeof values));
    CHECK_NEAR(since(d, &at), COPY + sizeof values / V100_LINK, 1e-12);
    for (int i = 0; i < 2; i++) {
        memset(values, 0xff, sizeof values);
        CHECK_OK(weir_read(i ? image : t, values, sizeof values));
        CHECK_NEAR(since(d, &at), COPY + sizeof values / V100_LINK, 1e-12);
        CHECK(values[0] == 0 && values[N - 1] == 0 && values[N / 2] == 0);
    }
    weir_release(t);
    weir_release(image);
    weir_device_close(d);
}

CASE(clock_of_other_devices)
{
    weir_device *d = opened("cpu");
    CHECK_OR_RETURN(d != NULL);
    const double first = weir_device_clock(d), second = weir_device_clock(d);
    CHECK(first >= 0 && second >= first && second < 3600);
    weir_device_close(d);
}

CASE(copies_beside_compute)
{
    weir_device *d = opened("sim:flops=1,memory=1,link_out=10,link_in=5,call=1,copy=2");
    CHECK_OR_RETURN(d != NULL);
    weir_sim *const sim = weir_sim_of(d);
    const double    first = weir_sim_copy_out(d, 30, 0);
    CHECK(first == 5 && sim->compute == 0 && weir_device_clock(d) == 5);
    CHECK(weir_sim_copy_out(d, 10, 0) == 8);            /* queued after the first */
    const double back = weir_sim_copy_in(d, 30, first); /* beside the second, after the first */
    CHECK(back == 13 && sim->in == 13 && sim->out == 8);
    sim->compute = 10;
    CHECK(weir_sim_copy_out(d, 10, 0) == 13);           /* its source exists only then */
    weir_sim_wait(d, 9);
    CHECK(sim->compute == 10 && sim->stalled == 0);
    weir_sim_wait(d, back);
    CHECK(sim->compute == 13 && sim->stalled == 3);
    CHECK(weir_sim_copy_in(d, 5, 0) == 16);
    CHECK_OK(d->ops->sync(d));
    CHECK(sim->compute == 16 && weir_device_clock(d) == 16);
    weir_device_close(d);
}

/* ---- memory ---- */

CASE(capacity)
{
    weir_memory  m;
    weir_device *d = opened("sim:v100,capacity=1MB");
    CHECK_OR_RETURN(d != NULL);
    weir_device_memory(d, &m);
    CHECK(m.total == 1000000);
    weir_tensor *big = weir_input(d, weir_1d(WEIR_F32, 250001));
    weir_tensor *third = weir_input(d, weir_1d(WEIR_F32, 80000));
    CHECK_STATUS(weir_write_fill(big, 0), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "device sim: 1000192 bytes wanted, but of the capacity of 1000000");
    CHECK_OK(weir_write_fill(third, 0));
    for (int i = 0; i < 3; i++) {       /* two results fit beside it, and again once freed */
        CHECK_OK(weir_scope_begin(d));
        CHECK(weir_relu(third) != NULL);
        CHECK(weir_relu(third) != NULL);
        CHECK(weir_relu(third) == NULL);
        CHECK_STATUS(weir_error_status(), WEIR_ERR_NOMEM);
        CHECK_OK(weir_scope_end(d));
    }
    weir_release(big);
    weir_release(third);
    weir_device_close(d);
}

CASE(nobody_reaches_its_memory)
{
    void        *data;
    int64_t      stride[WEIR_MAX_DIMS];
    weir_device *d = opened("sim:v100");
    CHECK_OR_RETURN(d != NULL);
    weir_tensor *t = filled(d, weir_1d(WEIR_F32, 10));
    CHECK_STATUS(weir_tensor_memory(t, &data, stride), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "the host cannot reach memory of device sim");
    weir_release(t);
    weir_device_close(d);
}

CASE(addresses_are_used_up_late)
{
    void        *p, *q;
    weir_device *d = opened("sim:v100,capacity=1000TiB");
    CHECK_OR_RETURN(d != NULL);
    const size_t most = (size_t)900 << 40;
    CHECK_OK(d->ops->alloc(d, 100, false, &q));
    for (int i = 0; i < 28; i++) {
        CHECK_OK(d->ops->alloc(d, most, false, &p));
        CHECK((uintptr_t)p % 256 == 0 && p != q);
        d->ops->free(d, p, most);
    }
    weir_status s = WEIR_OK;
    for (int i = 0; i < 28 && s == WEIR_OK; i++) {
        s = d->ops->alloc(d, most, false, &p);
        if (s == WEIR_OK)
            d->ops->free(d, p, most);
    }
    CHECK_STATUS(s, WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "address space is used up");
    d->ops->free(d, q, 100);
    CHECK_OK(d->ops->alloc(d, most, false, &p));    /* nothing was live: addresses start over */
    d->ops->free(d, p, most);
    weir_device_close(d);
}

CASE(calls_short_of_memory)
{
    weir_device *d = opened("sim:v100");
    CHECK_OR_RETURN(d != NULL);
    weir_tensor *t = filled(d, weir_1d(WEIR_F32, 100)), *y = NULL;
    for (int n = 0; n < 100 && !y; n++) {
        weir_mem_fail_nth(n, true);
        y = weir_exp(t);
        weir_mem_fail_nth(-1, false);
        CHECK(y || weir_error_status() == WEIR_ERR_NOMEM);
    }
    CHECK(y != NULL);
    weir_release(t);
    weir_device_close(d);
}

/* ---- training steps ---- */

typedef struct network {
    const char *name;
    weir_layer *(*make)(weir_model *m);
    weir_desc   x;
    int64_t     labels, classes;
    bool        pixels;                 /* logits (n, classes, h, w) */
} network;

static weir_layer *mlp(weir_model *m)
{
    return weir_mlp_new(m, 3, (const int64_t[]){784, 1024, 10});
}

static weir_layer *lenet(weir_model *m)
{
    return weir_lenet_new(m, 10);
}

static weir_layer *digits(weir_model *m)
{
    return weir_digits_cnn_new(m, 10);
}

static weir_layer *resnet20(weir_model *m)
{
    return weir_resnet_new(m, 18, 10, true);
}

static weir_layer *resnet50(weir_model *m)
{
    return weir_resnet_new(m, 50, 1000, false);
}

static weir_layer *resnet101(weir_model *m)
{
    return weir_resnet_new(m, 101, 1000, false);
}

static weir_layer *vgg16(weir_model *m)
{
    return weir_vgg16_new(m, 1000, 224);
}

static weir_layer *mobilenet(weir_model *m)
{
    return weir_mobilenet_v2_new(m, 1000);
}

static weir_layer *densenet(weir_model *m)
{
    return weir_densenet121_new(m, 1000);
}

static weir_layer *unet(weir_model *m)
{
    return weir_unet_new(m, 3, 2, 64, false);
}

static weir_layer *gpt(weir_model *m)
{
    return weir_gpt_new(m, 256, 64, 128, 2, 4);
}

static weir_layer *lstm(weir_model *m)
{
    return weir_char_lstm_new(m, 128, 64, 2);
}

#define IMAGE(n, px) {WEIR_F32, 4, {n, 3, px, px}}

static const network networks[] = {
    {"mlp", mlp, {WEIR_F32, 2, {8, 784}}, 8, 10, false},
    {"lenet", lenet, {WEIR_F32, 4, {4, 1, 28, 28}}, 4, 10, false},
    {"digits cnn", digits, {WEIR_F32, 4, {4, 1, 8, 8}}, 4, 10, false},
    {"resnet18 for small images", resnet20, IMAGE(2, 32), 2, 10, false},
    {"resnet50", resnet50, IMAGE(2, 224), 2, 1000, false},
    {"resnet101", resnet101, IMAGE(2, 224), 2, 1000, false},
    {"vgg16", vgg16, IMAGE(2, 224), 2, 1000, false},
    {"mobilenet", mobilenet, IMAGE(2, 224), 2, 1000, false},
    {"densenet", densenet, IMAGE(2, 224), 2, 1000, false},
    {"unet", unet, IMAGE(1, 64), 64 * 64, 2, true},
    {"gpt", gpt, {WEIR_I32, 2, {2, 64}}, 128, 256, false},
    {"lstm", lstm, {WEIR_I32, 2, {2, 16}}, 32, 128, false},
};

enum { NETWORKS = sizeof networks / sizeof networks[0] };

typedef struct training {
    const network *net;
    weir_device   *dev;
    weir_model    *model;
    weir_layer    *layer;
    weir_optim    *optim;
    weir_tensor   *x, *y, *loss;
    weir_step     *step;
} training;

static weir_status record(void *ctx)
{
    training *const t = ctx;
    weir_tensor    *z = weir_apply(t->layer, t->x);

    if (t->net->pixels)
        z = weir_reshape(weir_transpose(z, (const int[]){0, 2, 3, 1}), 2,
                         (const int64_t[]){-1, t->net->classes});
    t->loss = weir_keep(weir_cross_entropy(z, t->y));
    return weir_minimize(t->optim, t->loss);
}

/* With `batch` times as many samples as in the table. */
static bool begin(training *t, const network *net, const char *device, int64_t batch,
                  weir_step_options how)
{
    weir_desc x = net->x;

    *t = (training){.net = net, .dev = opened(device)};
    if (!t->dev)
        return false;
    x.dim[0] *= batch;
    t->model = weir_model_new(t->dev);
    t->layer = net->make(t->model);
    t->optim = weir_sgd_new(t->dev, 0.1, &(weir_sgd_options){.momentum = 0.9});
    t->x = weir_input(t->dev, x);
    t->y = weir_input(t->dev, weir_1d(WEIR_I32, net->labels * batch));
    t->step = weir_step_new(t->dev, record, t, &how);
    CHECK_OK(weir_write_fill(t->x, 0));
    CHECK_OK(weir_write_fill(t->y, 0));
    return CHECK(t->layer && t->optim && t->step);
}

static void end(training *t)
{
    weir_step_free(t->step);
    weir_optim_free(t->optim);
    weir_release(t->x);
    weir_release(t->y);
    weir_model_free(t->model);
    weir_device_close(t->dev);
}

/* Simulated seconds of one more step. */
static double step_of(training *t)
{
    const double at = weir_device_clock(t->dev);
    CHECK_OK(weir_step_run(t->step));
    return weir_device_clock(t->dev) - at;
}

CASE(every_network)
{
    for (int i = 0; i < NETWORKS; i++) {
        double off = 0;
        for (int on = 0; on < 2; on++) {
            training t;
            float    loss = 1;
            if (begin(&t, &networks[i], "sim:v100", 1, (weir_step_options){.graph = on})) {
                step_of(&t);
                const double seconds = step_of(&t);
                CHECK(seconds > 0 && (!on || seconds <= off * 1.001));     /* masks are calls too */
                off = seconds;
                CHECK_NEAR(step_of(&t), seconds, 1e-12);
                CHECK_OK(weir_read(t.loss, &loss, sizeof loss));
                CHECK(loss == 0);
            }
            weir_graph *const g = t.step ? weir_step_graph(t.step) : NULL;
            weir_graph_stats  s;
            size_t            peak;
            if (g && CHECK_STATUS(weir_graph_stats_of(g, &s), WEIR_OK)) {
                CHECK(off >= s.flops / V100_FLOPS && off >= s.bytes / V100_BYTES);
                CHECK(off <= (double)s.instructions * CALL + s.flops / V100_FLOPS +
                                 s.bytes / V100_BYTES);
                CHECK_OK(weir_graph_measure(g, &peak));
                CHECK(peak == s.arena_bytes);
            }
            end(&t);
        }
    }
}

/* Twenty times what a card of 16 GB holds, without memory of that size on this machine. */
CASE(larger_than_this_machine)
{
    struct rusage    before, after;
    training         t;
    weir_graph_stats s;
    getrusage(RUSAGE_SELF, &before);
    if (begin(&t, &networks[4], "sim:h200,capacity=400GB", 2048, (weir_step_options){true, {0}})) {
        CHECK(step_of(&t) > 1);
        CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
        CHECK(s.planned_peak_bytes > (size_t)300e9);
    }
    end(&t);
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 100 << 10);      /* kB */
}

CASE(more_than_it_holds)
{
    training t;
    for (int on = 0; on < 2; on++) {
        if (begin(&t, &networks[4], "sim:p100", 256, (weir_step_options){.graph = on})) {
            CHECK_STATUS(weir_step_run(t.step), WEIR_ERR_NOMEM);
            CHECK_TEXT(weir_error(), on ? "no memory for an arena of" : "device sim: ");
            CHECK_TEXT(weir_error(), on ? "the system has 16000000000" : "16000000000 bytes");
        }
        end(&t);
    }
}

CASE(within_a_budget)
{
    training    t;
    double      seconds[2] = {0};
    const char *budget[2] = {NULL, "16GB"};
    for (int i = 0; i < 2; i++) {
        weir_graph_stats s;
        size_t           peak;
        weir_memory      m;
        if (begin(&t, &networks[4], i ? "sim:p100" : "sim:p100,capacity=99GB", 128,
                  (weir_step_options){true, {.budget = budget[i]}})) {
            seconds[i] = step_of(&t);
            CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
            CHECK_OK(weir_graph_measure(weir_step_graph(t.step), &peak));
            weir_device_memory(t.dev, &m);
            CHECK(m.persistent + peak == s.planned_peak_bytes);
            CHECK(i == 0 || (s.planned_peak_bytes <= s.budget_bytes && s.recomputed > 0));
            CHECK_NEAR(seconds[i] - seconds[0], s.extra_ms * 1e-3, 1e-9);
        }
        end(&t);
    }
}

/* Graph, plan, search and clock are the same on every device. */
CASE(deterministic)
{
    char  *text[2] = {NULL};
    double clock[2] = {0};
    for (int i = 0; i < 2; i++) {
        training t;
        if (begin(&t, &networks[3], "sim:laptop", 64,
                  (weir_step_options){true, {.budget = "60%", .measure = true}})) {
            for (int k = 0; k < 3; k++)
                step_of(&t);
            clock[i] = weir_device_clock(t.dev);
            text[i] = weir_graph_text(weir_step_graph(t.step), WEIR_TEXT_PLAN);
        }
        end(&t);
    }
    CHECK(clock[0] > 0 && clock[0] == clock[1]);
    CHECK(text[0] && text[1] && strcmp(text[0], text[1]) == 0);
    weir_text_free(text[0]);
    weir_text_free(text[1]);
}

/* Folding would read what a kernel computed, which is nothing here. */
CASE(constants_stay_calls)
{
    weir_device *d = opened("sim");
    CHECK_OR_RETURN(d != NULL);
    weir_tensor *x = filled(d, weir_1d(WEIR_F32, 1000));
    weir_graph  *g = weir_graph_begin(d);
    weir_keep(weir_matmul(weir_reshape(x, 2, (const int64_t[]){10, 100}),
                          weir_exp(weir_fill(d, weir_2d(WEIR_F32, 100, 10), 1))));
    CHECK_OK(weir_graph_end(g, NULL));
    char *text = weir_graph_text(g, WEIR_TEXT_PLAN);
    CHECK_TEXT(text, " exp");
    CHECK_OK(weir_graph_run(g));
    weir_text_free(text);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

static weir_status never(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    (void)ctx;
    (void)x;
    (void)y;
    return weir_fail(WEIR_ERR_STATE, "called");
}

CASE(callers_are_not_called)
{
    static const weir_callback_def def = {.name = "never", .forward = never};
    weir_device *d = opened("sim:v100");
    CHECK_OR_RETURN(d != NULL);
    weir_tensor *t = filled(d, weir_1d(WEIR_F32, 10)), *y = NULL;
    weir_desc    desc = weir_tensor_desc(t);
    double       at = weir_device_clock(d);
    CHECK_OK(weir_callback(&def, NULL, 1, &t, 1, &desc, &y));
    CHECK_NEAR(since(d, &at), CALL + 80 / V100_BYTES, 1e-12);
    weir_release(t);
    weir_device_close(d);
}
