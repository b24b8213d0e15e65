/* two_cards.c - programs on one card while another is the thread's current one: whatever the plugin
 * creates, it creates on its own card. The emulated runtime refuses, as the real one does, events,
 * streams, launches and library handles of the wrong card. */
#include <pthread.h>

#include "core/mem.h"
#include "device/cuda/card_fixture.h"
#include "device/cuda/card_work.h"

/* ---- a table of functions that begin with the wrong card ---- */

static const weir_device_ops *real;     /* the plugin's */
static weir_device           *other;    /* on card 1 */

/* Makes card 1 current, as any use of it does. */
static void wander(void)
{
    (void)real->space(other);
}

#define WRAP(type, in, name, parameters, ...)                                                      \
    static type wrapped_##name parameters                                                          \
    {                                                                                              \
        wander();                                                                                  \
        return real->in name(__VA_ARGS__);                                                         \
    }

#define OP(type, name, parameters, ...) WRAP(type, , name, parameters, __VA_ARGS__)
#define STREAM(type, name, parameters, ...) WRAP(type, streams->, name, parameters, __VA_ARGS__)

/* The same for functions without a result. */
#define WRAP_VOID(in, name, parameters, ...)                                                       \
    static void wrapped_##name parameters                                                          \
    {                                                                                              \
        wander();                                                                                  \
        real->in name(__VA_ARGS__);                                                                \
    }

OP(weir_status, alloc, (weir_device *d, size_t n, bool huge, void **p), d, n, huge, p)
WRAP_VOID(, free, (weir_device *d, void *p, size_t n), d, p, n)
OP(weir_memory_limits, space, (const weir_device *d), d)
OP(weir_status, fill, (weir_device *d, void *p, int byte, size_t n), d, p, byte, n)
OP(weir_status, upload, (weir_device *d, void *to, const void *from, size_t n), d, to, from, n)
OP(weir_status, download, (weir_device *d, void *to, const void *from, size_t n), d, to, from, n)
OP(weir_status, sync, (weir_device *d), d)
OP(weir_status, paint, (weir_device *d, void *p, size_t n), d, p, n)
OP(weir_status, painted, (weir_device *d, const void *p, size_t n, size_t *end), d, p, n, end)
OP(double, clock, (const weir_device *d), d)
OP(weir_status, swap_reserve, (weir_device *d, size_t n, uint32_t tickets), d, n, tickets)
OP(weir_status, swap, (weir_device *d, const weir_swap *copy), d, copy)
OP(weir_status, swap_wait, (weir_device *d, weir_stream *s, uint32_t ticket), d, s, ticket)
OP(weir_status, swap_settle, (weir_device *d, weir_status so_far), d, so_far)
OP(weir_status, swap_speed, (weir_device *d, double *out, double *in), d, out, in)
WRAP_VOID(, close, (weir_device *d), d)
STREAM(weir_status, events, (weir_device *d, uint32_t n), d, n)
STREAM(weir_status, signal, (weir_device *d, weir_stream *s, uint32_t event), d, s, event)
STREAM(weir_status, await, (weir_device *d, weir_stream *s, uint32_t event), d, s, event)
WRAP_VOID(streams->, drain, (weir_device *d), d)
STREAM(weir_status, draws, (weir_device *d, uint64_t base, const uint64_t **at), d, base, at)
STREAM(weir_status, record, (weir_device *d), d)
STREAM(weir_status, recorded, (weir_device *d, weir_status so_far, weir_replay **r), d, so_far, r)
STREAM(weir_status, replay, (weir_device *d, weir_replay *r), d, r)
WRAP_VOID(streams->, replay_free, (weir_device *d, weir_replay *r), d, r)

static weir_status choose(weir_device *d, const weir_call *c, weir_kernel *out)
{
    wander();
    return real->kernel[c->op](d, c, out);
}

static weir_device_ops     wandering;
static weir_device_streams wandering_streams;
static weir_choose_fn      wandering_kernels[WEIR_OP_COUNT];

#define SET(name) wandering.name = wrapped_##name
#define SET_STREAM(name) wandering_streams.name = wrapped_##name

static void make_table(void)
{
    wandering = *real;
    SET(alloc), SET(free), SET(space), SET(fill), SET(upload), SET(download), SET(sync);
    SET(paint), SET(painted), SET(clock), SET(swap_reserve), SET(swap), SET(swap_wait);
    SET(swap_settle), SET(swap_speed), SET(close);
    wandering_streams = *real->streams;
    SET_STREAM(events), SET_STREAM(signal), SET_STREAM(await), SET_STREAM(drain);
    SET_STREAM(draws), SET_STREAM(record), SET_STREAM(recorded), SET_STREAM(replay);
    SET_STREAM(replay_free);
    for (int i = 0; i < WEIR_OP_COUNT; i++)
        wandering_kernels[i] = real->kernel[i] ? choose : NULL;
    wandering.streams = &wandering_streams;
    wandering.kernel = wandering_kernels;
}

/* Opens a second card and the table; false (and a failed check) if that does not work. */
static bool open_cards(void)
{
    card_fixture card;

    setenv("WEIR_EMULATED_CARDS", "2", 1);
    if (card_fixture_of(&card) && CHECK((other = weir_device_open("cuda:1", NULL)) != NULL)) {
        real = other->ops;
        make_table();
        return true;
    }
    unsetenv("WEIR_EMULATED_CARDS");
    return false;
}

static void close_cards(void)
{
    weir_device_close(other);
    unsetenv("WEIR_EMULATED_CARDS");
}

/* ---- the programs ---- */

static const struct {
    const char *name;
    work_fn     work;
} programs[] = {
    {"products", products}, {"compiling", compiling}, {"convolution", convolution},
    {"autotuned", autotuned}, {"training", training}, {"offloading", offloading},
    {"swapping", swapping}, {"spilling", spilling},
};

/* The same numbers, and nothing on the other card. */
CASE(the_other_card_is_current)
{
    if (!open_cards())
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(programs); i++) {
        float want[STEPS], got[STEPS];
        bench b;
        check_that(use_card(programs[i].work, false, &b, want) == WEIR_OK, __FILE__, __LINE__,
                   "%s alone: %s", programs[i].name, b.said);
        const size_t free_before = real->space(other).unused;
        bench        c = {.d = weir_device_open("cuda:0", NULL)};
        if (!CHECK(c.d != NULL))
            continue;
        c.d->ops = &wandering;
        const weir_status s = programs[i].work(&c, got);
        check_that(s == WEIR_OK, __FILE__, __LINE__, "%s: %s", programs[i].name, weir_error());
        if (s == WEIR_OK)
            CHECK_BITS(got, want, sizeof got);
        check_that(real->space(other).unused == free_before, __FILE__, __LINE__,
                   "%s: memory of the other card is used", programs[i].name);
        close_bench(&c);
    }
    close_cards();
}

/* ---- in turn ---- */

/* A step of each of two cards in turn, then of a longer graph of each. */
CASE(two_cards_in_turn)
{
    if (!open_cards())
        return;
    bench two[2] = {{.d = weir_device_open("cuda:0", NULL)},
                    {.d = weir_device_open("cuda:1", NULL)}};
    for (int round = 0; round < 2; round++) {
        weir_tensor *y[2] = {NULL};
        float        out[2] = {0};
        for (int i = 0; i < 2; i++)
            CHECK_OK(round ? offload_graph(&two[i], &y[i]) : open_bench(&two[i]));
        for (int i = 0; i < 2 && !round; i++)
            CHECK_OK(product_graph(&two[i], &y[i]));
        for (int run = 0; run < 4; run++) {
            for (int i = 0; i < 2; i++)
                CHECK_OK(weir_graph_run(two[i].step));
            for (int i = 0; i < 2; i++)
                CHECK_OK(weir_read(y[i], &out[i], sizeof out[i]));
            CHECK_BITS(&out[0], &out[1], sizeof out[0]);
        }
    }
    for (int i = 0; i < 2; i++)
        close_bench(&two[i]);
    close_cards();
}

/* ---- a device handed to another thread, whose current card is 0 ---- */

static void *run_elsewhere(void *argument)
{
    bench *const b = argument;
    float        out[STEPS];

    CHECK_OK(training(b, out));
    return NULL;
}

CASE(a_second_thread)
{
    if (!open_cards())
        return;
    bench     b = {.d = weir_device_open("cuda:1", NULL)};
    pthread_t thread;
    if (CHECK(b.d != NULL) && CHECK(pthread_create(&thread, NULL, run_elsewhere, &b) == 0))
        pthread_join(thread, NULL);
    close_bench(&b);
    close_cards();
}
