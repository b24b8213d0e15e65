/* relower.c - incremental lowering says what a whole lowering says, after each of thousands of
 * random changes and reversals. */
#include "check.h"
#include "core/hash.h"
#include "core/mem.h"
#include "graph/memory/problem/peak_tree.h"
#include "graph/memory/problem/relower.h"
#include "graph/memory/random_problem.h"

typedef struct pair {
    weir_lower_state w;
    weir_relower     r;
    uint8_t         *decisions;
    bool             offloads;
    uint32_t         valid, invalid;    /* plans compared */
    uint32_t         copies;            /* offloads and prefetches of valid ones */
    uint64_t         schedule;          /* hash of the last valid plan's */
    uint32_t         same;              /* plans whose changes had no effect */
} pair;

/* Resident tensors are kept or offloaded; a temporary one may be offloaded after its last use, for
 * recomputations. */
static uint8_t draw_decision(const pair *x, uint32_t tensor, uint32_t j)
{
    const weir_mem_problem *const p = x->w.p;

    if (x->offloads && (weir_mem_tensor_is_resident(p, tensor) ? below(2) : below(4) == 0))
        return WEIR_OFFLOAD;
    if (weir_mem_tensor_is_resident(p, tensor))
        return WEIR_KEEP;
    if (j == p->tensors.at[tensor].uses.n)
        return below(2) ? WEIR_KEEP : WEIR_KEEP_FOR_RECOMPUTE;
    switch (below(5)) {
    case 0:
        return WEIR_RECOMPUTE;
    case 1:
        return WEIR_RECOMPUTE_TRANSIENT;
    case 2:
        return (uint8_t)(WEIR_RECOMPUTE_EARLY + below(5));
    default:
        return WEIR_KEEP;
    }
}

/* Changes one interval; *interval and the returned decision undo it. */
static uint8_t change(pair *x, uint32_t *interval)
{
    const weir_mem_problem *p = x->w.p;
    uint32_t                k = below(p->tensors.n);

    while (weir_mem_tensor_is_resident(p, k) && !x->offloads)
        k = below(p->tensors.n);
    const uint32_t j = below(p->tensors.at[k].uses.n + 1);
    *interval = x->w.first_interval[k] + j;
    const uint8_t was = x->decisions[*interval];
    x->decisions[*interval] = draw_decision(x, k, j);
    CHECK(weir_relower_set(&x->r, *interval, x->decisions[*interval]));
    return was;
}

/* Hashes the events and the device bytes during each. */
static uint64_t hash_schedule(const weir_schedule *s)
{
    uint64_t h = weir_hash_bytes(WEIR_HASH_SEED, s->live.at, s->live.n * sizeof *s->live.at);

    for (uint32_t e = 0; e < s->events.n; e++) {
        const uint32_t event[] = {s->events.at[e].what, s->events.at[e].kind,
                                  s->events.at[e].recomputed};
        h = weir_hash_bytes(h, event, sizeof event);
    }
    return h;
}

static void compare(pair *x)
{
    CHECK_OR_RETURN(weir_relower_run(&x->r) && weir_lower_runs(&x->w, x->decisions));
    CHECK(x->r.valid == x->w.valid);
    x->valid += x->w.valid;
    x->invalid += !x->w.valid;
    if (!x->w.valid || !x->r.valid)
        return;
    const uint64_t schedule = hash_schedule(&x->w.s);
    CHECK(x->r.changed || schedule == x->schedule);
    x->same += !x->r.changed;
    x->schedule = schedule;
    x->r.changed = false;
    x->copies += x->w.s.copies;
    CHECK(x->r.events == x->w.s.events.n);
    CHECK_NEAR(x->r.extra, x->w.extra, 1e-9);
    CHECK(x->r.peak == x->w.peak);
    CHECK(x->r.peak_stage == weir_schedule_first_run(&x->w.s, x->w.peak_event));
}

static void change_and_compare(const weir_mem_problem *p, int moves, pair *x)
{
    uint32_t interval[3];
    uint8_t  was[3];

    CHECK_OR_RETURN(weir_lower_init(&x->w, p));
    x->decisions = weir_mem_zalloc(x->w.intervals + 1u, 1);
    CHECK_OR_RETURN(x->decisions && weir_relower_init(&x->r, &x->w));
    CHECK(weir_relower_all(&x->r, x->decisions));
    x->r.changed = true;                /* another problem */
    compare(x);
    for (int m = 0; m < moves; m++) {
        const uint32_t n = 1 + below(3);
        for (uint32_t i = 0; i < n; i++)
            was[i] = change(x, &interval[i]);
        compare(x);
        if (x->w.valid && below(3))
            continue;
        for (uint32_t i = n; i-- > 0;) {
            x->decisions[interval[i]] = was[i];
            CHECK(weir_relower_set(&x->r, interval[i], was[i]));
        }
        compare(x);
    }
    weir_relower_free(&x->r);
    weir_lower_free(&x->w);
    weir_mem_free(x->decisions);
}

static void make_and_change(pair *x, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        weir_mem_problem p;
        if (round % 3 == 0)
            problem_make(&p, 4 + below(61));
        else if (round % 3 == 1)
            make_small(&p, 4 + below(30), 1, true);
        else
            make_problem_with(&p, 8 + below(MAX_OPS - 8), below(3));
        change_and_compare(&p, 200, x);
        weir_mem_problem_free(&p);
    }
}

CASE(changes_and_reversals_equal_whole_lowerings)
{
    pair x = {0};

    make_and_change(&x, 90);
    CHECK(x.valid > 5000 && x.invalid > 500 && x.same > 500 && x.copies == 0);
}

/* Peak and time are those before copies are timed. */
CASE(changes_that_offload_equal_whole_lowerings)
{
    pair x = {.offloads = true};

    make_and_change(&x, 90);
    CHECK(x.valid > 5000 && x.invalid > 500 && x.same > 500 && x.copies > x.valid);
}

/* A plan lowered at once equals the same plan reached by single changes. */
CASE(whole_plans_equal_changed_ones)
{
    weir_mem_problem p;
    pair             x = {0};

    problem_make(&p, 60);
    change_and_compare(&p, 0, &x);
    for (int round = 0; round < 20; round++) {
        x = (pair){0};
        CHECK_OR_RETURN(weir_lower_init(&x.w, &p));
        x.decisions = weir_mem_zalloc(x.w.intervals + 1u, 1);
        CHECK_OR_RETURN(x.decisions && weir_relower_init(&x.r, &x.w));
        for (uint32_t k = 0; k < p.tensors.n; k++) {
            const uint32_t uses = p.tensors.at[k].uses.n;
            for (uint32_t j = 0; j <= uses && !weir_mem_tensor_is_resident(&p, k); j++)
                x.decisions[x.w.first_interval[k] + j] =
                    below(4) ? (uint8_t)WEIR_KEEP : draw_decision(&x, k, j);
        }
        CHECK(weir_relower_all(&x.r, x.decisions));
        compare(&x);
        weir_relower_free(&x.r);
        weir_lower_free(&x.w);
        weir_mem_free(x.decisions);
    }
    weir_mem_problem_free(&p);
}

CASE(peak_tree_equals_sums)
{
    enum { N = 37 };
    weir_peak_tree t;
    int64_t        sum[N] = {0};

    CHECK_OR_RETURN(weir_peak_tree_init(&t, N));
    for (int round = 0; round < 500; round++) {
        const uint32_t from = below(N), to = from + below(N + 1 - from);
        const int64_t  bytes = check_int(-50, 50);
        int64_t        most = INT64_MIN;
        weir_peak_tree_add(&t, from, to, bytes);
        for (uint32_t i = 0; i < N; i++) {
            sum[i] += i >= from && i < to ? bytes : 0;
            most = sum[i] > most ? sum[i] : most;
        }
        CHECK(weir_peak_tree_most(&t) == most && sum[weir_peak_tree_where(&t)] == most);
    }
    weir_peak_tree_free(&t);
}
