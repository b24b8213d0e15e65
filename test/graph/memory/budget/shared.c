/* shared.c - one budget for several graphs of a device: two batch sizes in training, validation. */
#include "core/mem.h"
#include "device/cpu/gemm/onednn.h"
#include "graph/fixture.h"
#include "graph/train.h"

#include <stdlib.h>

enum { TURNS = 3, SIZES = 2 };

static const int64_t size[SIZES] = {32, 64};

/* A network with a training graph for each batch size and a validation graph for the larger. */
typedef struct shared {
    train        t;             /* with the smaller batch */
    weir_tensor *x, *y;         /* of the larger batch */
    weir_tensor *loss[SIZES], *logits;
    weir_graph  *train[SIZES], *validate;
    uint64_t     bits;          /* of all results so far */
    size_t       highest;       /* persistent bytes + arena after a run, at most */
} shared;

static bool shared_open(shared *s)
{
    *s = (shared){0};
    return CHECK_OK(train_open(&s->t, TRAIN_DIGITS, size[0], 0, NULL));
}

static void shared_close(shared *s)
{
    for (int i = 0; i < SIZES; i++)
        weir_graph_free(s->train[i]);
    weir_graph_free(s->validate);
    weir_release(s->x);
    weir_release(s->y);
    train_close(&s->t);
}

/* Records the training step for batch i; the tensors of the larger batch are made now. */
static weir_status record_training(shared *s, int i, const weir_plan_options *how)
{
    train t = s->t;

    if (i == 1) {
        t.x = s->x = weir_input(t.d, train_desc(TRAIN_DIGITS, size[1], 0));
        t.y = s->y = weir_input(t.d, weir_1d(WEIR_I32, size[1]));
    }
    s->train[i] = weir_graph_begin(t.d);
    WEIR_TRY(train_record(&t));
    s->loss[i] = t.loss;
    return weir_graph_end(s->train[i], how);
}

static weir_status record_validation(shared *s, const weir_plan_options *how)
{
    s->validate = weir_graph_begin(s->t.d);
    s->logits = weir_keep(weir_apply(s->t.layer, s->x));
    return weir_graph_end(s->validate, how);
}

static weir_status fill(weir_tensor *x, weir_tensor *y, uint64_t seed)
{
    float   images[64 * 8 * 8];
    int32_t labels[64];

    check_random = seed;
    check_floats(images, weir_tensor_bytes(x) / sizeof *images, -1, 1);
    for (int i = 0; i < 64; i++)
        labels[i] = (int32_t)check_int(0, 9);
    WEIR_TRY(weir_write(x, images, weir_tensor_bytes(x)));
    return weir_write(y, labels, weir_tensor_bytes(y));
}

/* Runs a graph and counts what the device holds. */
static weir_status run(shared *s, weir_graph *g, weir_tensor *result)
{
    weir_memory m;

    WEIR_TRY(weir_graph_run(g));
    s->bits = train_hash(s->bits, result);
    weir_device_memory(s->t.d, &m);
    if (m.persistent + m.arena > s->highest)
        s->highest = m.persistent + m.arena;
    return WEIR_OK;
}

/* Trains on both batches and validates in turn; each graph is recorded when it is first needed. */
static weir_status train_in_turn(shared *s, const weir_plan_options *how)
{
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < SIZES; i++) {
            if (!s->train[i])
                WEIR_TRY(record_training(s, i, how));
            WEIR_TRY(fill(i ? s->x : s->t.x, i ? s->y : s->t.y, (uint64_t)(10 * turn + i)));
            WEIR_TRY(run(s, s->train[i], s->loss[i]));
        }
        if (!s->validate)
            WEIR_TRY(record_validation(s, how));
        WEIR_TRY(run(s, s->validate, s->logits));
    }
    s->bits = train_bits(&s->t) ^ s->bits;
    return WEIR_OK;
}

typedef struct peaks {
    size_t planned, measured, refitted;
    size_t highest;     /* measured after any run before */
} peaks;

/* Runs each graph once more. Planned: while a graph runs, the device holds its persistent bytes and
 * the largest arena of all, or its own where the largest does not fit. Each graph is measured to
 * use its arena to the byte; measured is what the device's counters say after each run. */
static peaks peaks_of(const shared *s)
{
    weir_graph *const all[] = {s->train[0], s->train[1], s->validate};
    weir_graph_stats  one[ARRAY_LENGTH(all)];
    weir_memory       m;
    peaks             p = {0};
    size_t            largest = 0, used;

    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        CHECK_OK(weir_graph_measure(all[i], &used));
        CHECK_OK(weir_graph_stats_of(all[i], &one[i]));
        CHECK(used == one[i].arena_bytes);
        CHECK(one[i].budget_bytes == 0 || one[i].planned_peak_bytes <= one[i].budget_bytes);
        weir_device_memory(s->t.d, &m);
        p.measured = m.persistent + m.arena > p.measured ? m.persistent + m.arena : p.measured;
        largest = used > largest ? used : largest;
        p.refitted += one[i].refitted;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        const size_t with = one[i].persistent_bytes + largest;
        const bool   fits = one[i].budget_bytes == 0 || with <= one[i].budget_bytes;
        const size_t held = fits ? with : one[i].planned_peak_bytes;
        p.planned = held > p.planned ? held : p.planned;
    }
    return p;
}

/* The share in percent of what the graphs take without a budget that is tight for all of them:
 * without oneDNN convolutions need more workspace. */
static size_t tight(void)
{
    return weir_onednn_present() ? 60 : 75;
}

/* Trains within the budget: the bits and the peaks. */
static bool train_within(const weir_plan_options *how, uint64_t *bits, peaks *p)
{
    shared s;

    if (!shared_open(&s))
        return false;
    const bool trained = CHECK_OK(train_in_turn(&s, how));
    if (trained) {
        *bits = s.bits;
        *p = peaks_of(&s);
        p->highest = s.highest;
        CHECK(p->planned == p->measured);
    }
    shared_close(&s);
    return trained;
}

CASE(graphs_in_turn_stay_within_one_budget)
{
    uint64_t bits, mine;
    peaks    whole, p;
    size_t   refitted = 0;
    char     text[24];

    CHECK_OR_RETURN(train_within(NULL, &bits, &whole));
    CHECK(whole.refitted == 0);
    for (size_t percent = tight() + 15; percent >= tight(); percent -= 15) {
        const size_t budget = whole.planned * percent / 100;
        snprintf(text, sizeof text, "%zu%%", percent);
        for (int bytes = 0; bytes < 2; bytes++) {
            if (bytes)
                snprintf(text, sizeof text, "%zu", budget);
            const weir_plan_options how = {.budget = text, .shared_budget = true};
            CHECK_OR_RETURN(train_within(&how, &mine, &p));
            CHECK(mine == bits && p.planned <= budget && p.highest <= budget);
            refitted += p.refitted;
        }
    }
    if (weir_onednn_present())          /* at 75 % and more the first plans leave enough */
        CHECK(refitted > 0);
}

/* A tensor that takes memory: an input of `bytes` that has been written. */
static weir_tensor *beside(weir_device *d, size_t bytes)
{
    weir_tensor *const t = weir_input(d, weir_1d(WEIR_F32, (int64_t)(bytes / 4)));
    void        *const zeros = calloc(bytes, 1);

    if (CHECK(t && zeros))
        CHECK_OK(weir_write(t, zeros, weir_tensor_bytes(t)));
    free(zeros);
    return t;
}

/* The first graph fills the budget; what is made for the second leaves it less. */
CASE(a_graph_is_planned_again_within_what_is_left)
{
    shared           s;
    weir_graph_stats before, after;
    size_t           measured;
    char             text[24];

    CHECK_OR_RETURN(shared_open(&s));
    CHECK_OK(fill(s.t.x, s.t.y, 1));
    CHECK_OK(record_training(&s, 0, NULL));
    CHECK_OK(run(&s, s.train[0], s.loss[0]));
    weir_graph_free(s.train[0]);
    snprintf(text, sizeof text, "%zu", s.highest);
    const weir_plan_options how = {.budget = text, .shared_budget = true};
    CHECK_OK(record_training(&s, 0, &how));
    CHECK_OK(weir_graph_stats_of(s.train[0], &before));
    CHECK(before.recomputed == 0 && before.planned_peak_bytes <= s.highest);
    CHECK_OK(run(&s, s.train[0], s.loss[0]));

    weir_tensor *const late = beside(s.t.d, before.arena_bytes / 4);
    CHECK_OK(weir_graph_run(s.train[0]));
    CHECK_OK(weir_graph_stats_of(s.train[0], &after));
    CHECK(after.refitted == 1 && after.arena_bytes < before.arena_bytes);
    CHECK(after.planned_peak_bytes <= s.highest);
    CHECK_OK(weir_graph_measure(s.train[0], &measured));
    CHECK(measured == after.arena_bytes);

    /* Nothing fits beside this one: the graph cannot run until it is gone. */
    weir_tensor *const large = beside(s.t.d, before.arena_bytes);
    CHECK_STATUS(weir_graph_run(s.train[0]), WEIR_ERR_BUDGET);
    CHECK_TEXT(weir_error(), "no longer fits into the budget of ");
    CHECK_TEXT(weir_error(), "bytes of other graphs and tensors");
    CHECK_TEXT(weir_error(), "the smallest that works is ");
    CHECK_OK(weir_graph_stats_of(s.train[0], &after));
    weir_release(large);
    CHECK_OK(run(&s, s.train[0], s.loss[0]));
    CHECK_OK(weir_graph_stats_of(s.train[0], &after));
    CHECK(after.refitted == 3 && after.planned_peak_bytes <= s.highest);
    weir_release(late);
    CHECK_OK(run(&s, s.train[0], s.loss[0]));
    shared_close(&s);
}

/* Records and runs the first graph at its whole size, so that what is made next has it planned
 * again. */
static weir_tensor *crowded(shared *s)
{
    weir_graph_stats st;
    char             text[24];

    CHECK_OK(fill(s->t.x, s->t.y, 1));
    CHECK_OK(record_training(s, 0, NULL));
    CHECK_OK(run(s, s->train[0], s->loss[0]));
    weir_graph_free(s->train[0]);
    snprintf(text, sizeof text, "%zu", s->highest);
    CHECK_OK(record_training(s, 0, &(weir_plan_options){.budget = text, .shared_budget = true}));
    CHECK_OK(run(s, s->train[0], s->loss[0]));
    CHECK_OK(weir_graph_stats_of(s->train[0], &st));
    return beside(s->t.d, st.arena_bytes / 4);
}

/* Allocation n fails, and all later ones if sticky, while a graph is planned again: a status, and
 * the next run does it with the same bits. False once nothing fails any more. */
static bool refit_fails_at(int64_t n, bool sticky, uint64_t *bits)
{
    shared           s;
    weir_graph_stats st;
    size_t           measured;

    if (!shared_open(&s))
        return false;
    weir_tensor *const late = crowded(&s);
    weir_mem_fail_nth(n, sticky);
    const weir_status status = weir_graph_run(s.train[0]);
    const bool        failed = weir_mem_failed();
    weir_mem_fail_nth(-1, false);
    CHECK(status == WEIR_OK || (failed && status == WEIR_ERR_NOMEM));
    if (status != WEIR_OK)
        CHECK_OK(weir_graph_run(s.train[0]));
    CHECK_OK(weir_graph_stats_of(s.train[0], &st));
    CHECK(st.planned_peak_bytes <= s.highest && st.refitted >= 1);
    const uint64_t mine = train_hash(train_bits(&s.t), s.loss[0]);
    CHECK(*bits == 0 || *bits == mine);
    *bits = mine;
    CHECK_OK(weir_graph_measure(s.train[0], &measured));
    CHECK(measured == st.arena_bytes);
    weir_release(late);
    shared_close(&s);
    return failed;
}

/* Planning again makes thousands of allocations: each of the first dozen, then ever fewer. */
CASE(failing_memory_does_not_lose_a_graph_that_is_planned_again)
{
    uint64_t bits = 0;

    for (int sticky = 0; sticky < 2; sticky++) {
        int64_t n = 0;
        while (refit_fails_at(n, sticky, &bits) && n < 1 << 20)
            n += n < 12 ? 1 : check_full() ? n / 2 : n;
        CHECK(n > 12 && n < 1 << 20);
    }
}

/* A budget of the device is shared, too; without it the graphs may take what their plans need. */
CASE(the_budget_of_a_device_is_shared)
{
    uint64_t bits;
    peaks    whole;
    shared   s;
    char     text[24];

    CHECK_OR_RETURN(train_within(NULL, &bits, &whole));
    CHECK_OR_RETURN(shared_open(&s));
    const size_t budget = whole.planned * (tight() + 10) / 100;
    snprintf(text, sizeof text, "%zu", budget);
    CHECK_OK(weir_device_set_budget(s.t.d, text));
    CHECK_OK(train_in_turn(&s, NULL));
    CHECK(s.bits == bits && s.highest <= budget);
    CHECK_OK(weir_device_set_budget(s.t.d, NULL));
    weir_tensor *const large = beside(s.t.d, whole.planned);
    CHECK_OK(weir_graph_run(s.train[0]));
    weir_release(large);
    shared_close(&s);
}
