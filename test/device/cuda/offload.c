/* offload.c - tests of values that leave the card, to pinned memory, to the file, or to both: the
 * bits are those without offloading, planned peak = measured peak, in every captured run. */
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "core/mem.h"
#include "device/cuda/card.h"
#include "check.h"
#include "graph/plan/plan.h"
#include "device/offload/spill.h"
#include "device/offload/spill_slots.h"

enum { ROWS = 32, WIDTH = 64, STEPS = 6 };

static bool hasty;      /* nothing is read: the device is closed while it works */

typedef struct outcome {
    float        loss[STEPS];
    float        weights[WIDTH * WIDTH];    /* of the first layer, after training */
    uint32_t     swaps;
    size_t       planned, measured;
    long         replays;
    bool         file;
} outcome;

static uint32_t swaps_of(const weir_graph *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->plan->n; i++)
        n += g->plan->instr[i].call.op == WEIR_OP_SPILL_OUT;
    return n;
}

static void write_data(weir_tensor *x, weir_tensor *y)
{
    float   at[ROWS * WIDTH];
    int32_t label[ROWS];

    check_floats(at, ROWS * WIDTH, -1, 1);
    for (int i = 0; i < ROWS; i++)
        label[i] = (int32_t)check_int(0, 9);
    CHECK_OK(weir_write(x, at, sizeof at));
    CHECK_OK(weir_write(y, label, sizeof label));
}

/* Trains an MLP with the options; pinned: value of WEIR_PINNED, or NULL. */
static outcome train(const weir_plan_options *options, const char *pinned)
{
    static const int64_t sizes[] = {WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, 10};
    outcome              o = {.planned = 0};

    if (pinned)
        setenv("WEIR_PINNED", pinned, 1);
    else
        unsetenv("WEIR_PINNED");
    weir_device *const d = card_open();
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  net = weir_mlp_new(m, 6, sizes);
    weir_optim *const  sgd = weir_sgd_new(d, 0.1, &(weir_sgd_options){.momentum = 0.9});
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_F32, ROWS, WIDTH));
    weir_tensor *const y = weir_input(d, weir_1d(WEIR_I32, ROWS));
    check_random = 11;
    write_data(x, y);
    weir_graph *const  g = weir_graph_begin(d);
    weir_tensor *const loss = weir_keep(weir_cross_entropy(weir_apply(net, x), y));
    CHECK_OK(weir_minimize(sgd, loss));
    if (CHECK_OK(weir_graph_end(g, options))) {
        o.swaps = swaps_of(g);
        o.planned = g->plan->arena;
        const long before = card_calls("cudaGraphLaunch");
        for (int i = 0; i < (hasty ? 1 : STEPS); i++) {
            write_data(x, y);
            CHECK_OK(weir_graph_run(g));
            if (!hasty)
                CHECK_OK(weir_read(loss, &o.loss[i], sizeof(float)));
        }
        o.replays = card_calls("cudaGraphLaunch") - before;
        o.file = d->spill != NULL;
        if (!hasty) {
            CHECK_OK(weir_read(weir_model_param(m, 0), o.weights, sizeof o.weights));
            CHECK_OK(weir_graph_measure(g, &o.measured));
        }
    }
    if (hasty)
        weir_device_close(d);
    weir_graph_free(g);
    weir_optim_free(sgd);
    weir_model_free(m);
    weir_release(x);
    weir_release(y);
    if (!hasty)
        weir_device_close(d);
    unsetenv("WEIR_PINNED");
    return o;
}

static void check_same(const outcome *a, const outcome *b)
{
    CHECK_BITS(a->loss, b->loss, sizeof a->loss);
    CHECK_BITS(a->weights, b->weights, sizeof a->weights);
}

CASE(pinned_memory_and_file)
{
    static const weir_plan_options swapping = {.budget = "95%", .policy = "capuchin:passive"};
    static const struct {
        const char *pinned;
        bool        file;
    } directions[] = {{NULL, false}, {"0", true}, {"65536", true}};

    const outcome plain = train(NULL, NULL);
    CHECK(plain.swaps == 0 && plain.replays == STEPS - 1 && !plain.file);
    CHECK(plain.measured == plain.planned);
    for (size_t i = 0; i < sizeof directions / sizeof *directions; i++) {
        const outcome o = train(&swapping, directions[i].pinned);
        CHECK(o.swaps > 1 && o.replays == STEPS - 1);
        CHECK(o.file == directions[i].file);
        CHECK(o.measured == o.planned && o.planned < plain.planned);
        check_same(&o, &plain);
    }
}

/* Parameters and momenta are offloaded too, if the budget requires it. */
CASE(budgets_down_to_the_smallest)
{
    const outcome plain = train(NULL, NULL);

    for (int percent = 90; percent >= 60; percent -= 10) {
        char text[16];
        snprintf(text, sizeof text, "%d%%", percent);
        const outcome o = train(&(weir_plan_options){.budget = text, .policy = "auto"}, NULL);
        CHECK(o.measured == o.planned);
        check_same(&o, &plain);
    }
}

/* Closing waits for copies to the file that are still running. */
CASE(closed_while_copies_go_on)
{
    static const weir_plan_options swapping = {.budget = "95%", .policy = "capuchin:passive"};

    hasty = true;
    const outcome o = train(&swapping, "0");
    hasty = false;
    CHECK(o.swaps > 1 && o.file);
}

CASE(speed_of_the_link)
{
    weir_device *const d = card_open();
    double             out = 0, in = 0;

    CHECK_OK(weir_device_spill_speed(d, &out, &in));
    CHECK(out > 0 && in > 0);
    weir_device_close(d);
}

/* ---- the file, while a transfer takes long ---- */

enum { SMALL = 1 << 16, LARGE = 9 << 20 };      /* bytes; LARGE: three chunks */

/* A file whose first write at `held` begins and then waits until the gate opens. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t  moved;
    off_t           held;           /* -1: no write waits */
    bool            begun, open;
    bool            in_vain;        /* the write waited, but the gate never opened */
    int             refused;        /* errno of every write; 0: none */
} gate;

/* Waits until *flag is set; a test that would hang fails after 20 seconds instead. */
static bool await(gate *g, const bool *flag)
{
    struct timespec end;
    int             error = 0;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    while (!*flag && error == 0)
        error = pthread_cond_timedwait(&g->moved, &g->lock, &end);
    return *flag;
}

static void set(gate *g, bool *flag)
{
    pthread_mutex_lock(&g->lock);
    *flag = true;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

static ssize_t gated_write(void *ctx, int fd, const void *p, size_t n, off_t at)
{
    gate *const g = ctx;

    if (g->refused) {
        errno = g->refused;
        return -1;
    }
    if (at == g->held) {
        set(g, &g->begun);
        pthread_mutex_lock(&g->lock);
        g->in_vain = !await(g, &g->open);
        pthread_mutex_unlock(&g->lock);
    }
    return pwrite(fd, p, n, at);
}

/* A card whose values all go to a file behind the gate. */
static weir_device *gated_card(gate *g)
{
    setenv("WEIR_PINNED", "0", 1);
    weir_device *const d = card_open();
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->moved, NULL);
    if (!CHECK(d != NULL))
        return NULL;
    const weir_spill_system system = {.ctx = g, .write = gated_write};
    CHECK_OK(weir_spill_new(&(weir_spill_options){.system = &system}, &d->spill));
    CHECK_OK(d->ops->swap_reserve(d, 2 * (size_t)LARGE, 2));
    return d;
}

static void gated_close(weir_device *d, gate *g)
{
    weir_device_close(d);
    pthread_cond_destroy(&g->moved);
    pthread_mutex_destroy(&g->lock);
    unsetenv("WEIR_PINNED");
}

/* Reads a byte again and again: while it waits, the other streams of the emulated card go on. */
static weir_status let_streams_go_on(weir_device *d, const void *at)
{
    enum { ROUNDS = 200 };
    char byte;

    for (int i = 0; i < ROUNDS; i++)
        WEIR_TRY(d->ops->download(d, &byte, at, 1));
    return WEIR_OK;
}

typedef struct other_thread {
    pthread_t    thread;
    weir_device *d;
    const void  *at;
    weir_status  status;
} other_thread;

static void *other_main(void *argument)
{
    other_thread *const t = argument;
    t->status = let_streams_go_on(t->d, t->at);
    return NULL;
}

/* Queues a copy out whose write at `held` waits, in a thread that runs the card's streams. */
static bool hold(other_thread *t, gate *g, const weir_swap *w, off_t held)
{
    g->held = held;
    if (!CHECK_OK(t->d->ops->swap(t->d, w)) ||
        !CHECK(!pthread_create(&t->thread, NULL, other_main, t)))
        return false;
    pthread_mutex_lock(&g->lock);
    CHECK(await(g, &g->begun));
    pthread_mutex_unlock(&g->lock);
    return true;
}

static void let_go(other_thread *t, gate *g)
{
    set(g, &g->open);
    CHECK(pthread_join(t->thread, NULL) == 0);
    CHECK(!g->in_vain);
    CHECK_OK(t->status);
    CHECK_OK(t->d->ops->swap_settle(t->d, WEIR_OK));
    CHECK_OK(t->d->ops->sync(t->d));
}

/* A value comes back from the file between the beginning and the end of another one's write. */
CASE(reads_pass_a_slow_write)
{
    static char  value[SMALL], back[SMALL];
    gate         g = {.held = -1};
    void        *at = NULL;
    weir_device *const d = gated_card(&g);

    CHECK_OR_RETURN(d != NULL && d->ops->alloc(d, SMALL, false, &at) == WEIR_OK);
    memset(value, 7, sizeof value);
    weir_swap w = {.bytes = SMALL, .at = at, .ticket = WEIR_SWAP_NOW};
    CHECK_OK(d->ops->upload(d, at, value, SMALL));
    CHECK_OK(d->ops->swap(d, &w));
    w.slot = LARGE;
    w.ticket = 0;
    other_thread other = {.d = d, .at = at};
    if (hold(&other, &g, &w, LARGE)) {
        const weir_swap in = {.in = true, .bytes = SMALL, .at = at, .ticket = WEIR_SWAP_NOW};
        CHECK_OK(d->ops->swap(d, &in));
        let_go(&other, &g);
    }
    CHECK_OK(d->ops->download(d, back, at, SMALL));
    CHECK_BITS(back, value, sizeof back);
    d->ops->free(d, at, SMALL);
    gated_close(d, &g);
}

/* The card has copied the second chunk into a buffer before the first one is in the file: what is
 * written over the second chunk meanwhile does not reach the file. */
CASE(card_fills_a_buffer_during_a_write)
{
    enum { SECOND = 5 << 20 };
    gate         g = {.held = -1};
    void        *at = NULL;
    char         mark = -1;
    char *const  value = malloc(LARGE), *const back = malloc(LARGE);
    weir_device *const d = gated_card(&g);

    CHECK_OR_RETURN(d != NULL && value && back && d->ops->alloc(d, LARGE, false, &at) == WEIR_OK);
    for (int i = 0; i < LARGE; i++)
        value[i] = (char)(i % 101);
    CHECK_OK(d->ops->upload(d, at, value, LARGE));
    const weir_swap out = {.bytes = LARGE, .at = at};
    other_thread    other = {.d = d, .at = at};
    if (hold(&other, &g, &out, 0)) {
        CHECK_OK(let_streams_go_on(d, at));
        CHECK_OK(d->ops->upload(d, (char *)at + SECOND, &mark, 1));
        let_go(&other, &g);
    }
    const weir_swap in = {.in = true, .bytes = LARGE, .at = at, .ticket = WEIR_SWAP_NOW};
    CHECK_OK(d->ops->swap(d, &in));
    CHECK_OK(d->ops->download(d, back, at, LARGE));
    CHECK(memcmp(back, value, LARGE) == 0);
    d->ops->free(d, at, LARGE);
    gated_close(d, &g);
    free(value);
    free(back);
}

/* The sentence of the first failed transfer reaches the thread that waits. */
CASE(late_failures_say_why)
{
    gate         g = {.held = -1};
    void        *at = NULL;
    weir_device *const d = gated_card(&g);

    CHECK_OR_RETURN(d != NULL && d->ops->alloc(d, SMALL, false, &at) == WEIR_OK);
    g.refused = ENOSPC;
    CHECK_OK(d->ops->swap(d, &(weir_swap){.bytes = SMALL, .at = at}));
    CHECK_OK(d->ops->swap_settle(d, WEIR_OK));
    CHECK(d->ops->sync(d) == WEIR_ERR_IO);
    CHECK(strstr(weir_error(), "writing 65536 bytes at 0: No space left on device") != NULL);
    CHECK_OK(d->ops->sync(d));
    d->ops->free(d, at, SMALL);
    gated_close(d, &g);
}
