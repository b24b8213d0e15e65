/* bound.c - maximum flows against every cut of small graphs; bounds against every plan of small
 * steps. */
#include "check.h"
#include "core/mem.h"
#include "graph/memory/bounds/bound.h"
#include "graph/memory/bounds/bound_branch.h"
#include "graph/memory/policies/mincut.h"
#include "graph/memory/policies/table.h"
#include "graph/memory/search/search.h"
#include "graph/memory/problems.h"

enum { MOST_NODES = 8, MOST_EDGES = 24 };

typedef struct small_graph {
    uint32_t nodes, n, from[MOST_EDGES], to[MOST_EDGES];
    int64_t  capacity[MOST_EDGES];
} small_graph;

static int64_t smallest_cut(const small_graph *g)
{
    int64_t best = INT64_MAX;

    /* one bit per node: 1 if it is on the sink's side */
    for (uint32_t side = 0; side < 1u << g->nodes; side++) {
        int64_t cut = 0;
        if (side & 1 || !(side & 2))
            continue;
        for (uint32_t e = 0; e < g->n; e++)
            if (!(side >> g->from[e] & 1) && side >> g->to[e] & 1)
                cut += g->capacity[e];
        best = cut < best ? cut : best;
    }
    return best;
}

CASE(a_flow_is_as_large_as_the_smallest_cut)
{
    weir_flow f = {0};
    for (int round = 0; round < 400; round++) {
        small_graph g = {.nodes = 2 + below(MOST_NODES - 1), .n = below(MOST_EDGES + 1)};
        int64_t     value = -1, across = 0;
        bool        ok = weir_flow_begin(&f);
        for (uint32_t i = 2; i < g.nodes; i++)
            ok = weir_flow_node(&f) && ok;
        for (uint32_t e = 0; e < g.n; e++) {
            g.from[e] = below(g.nodes);
            g.to[e] = below(g.nodes);
            g.capacity[e] = check_int(0, below(4) ? 20 : INT64_C(1) << 50);
            ok = weir_flow_edge_add(&f, g.from[e], g.to[e], 7) && ok;
        }
        for (uint32_t e = 0; e < g.n; e++)
            weir_flow_set(&f, e, g.capacity[e]);
        CHECK_OR_RETURN(ok && weir_flow_run(&f, &value));
        CHECK(value == smallest_cut(&g) && !weir_flow_far(&f, 0) && weir_flow_far(&f, 1));
        for (uint32_t e = 0; e < g.n; e++)
            if (!weir_flow_far(&f, g.from[e]) && weir_flow_far(&f, g.to[e]))
                across += g.capacity[e];
        CHECK(across == value);
    }
    weir_flow_free(&f);
}

/* A path of many nodes, whose shortest augmenting detours are found one after another. */
CASE(long_paths_need_no_stack)
{
    enum { LONG = 20000 };
    weir_flow f = {0};
    int64_t   value;
    bool      ok = weir_flow_begin(&f);

    for (uint32_t i = 0; i < LONG; i++)
        ok = weir_flow_node(&f) && ok;
    for (uint32_t i = 0; i < LONG; i++)
        ok = weir_flow_edge_add(&f, i ? i + 1 : 0, i + 2, 5) && ok;
    ok = weir_flow_edge_add(&f, LONG + 1, 1, 3) && weir_flow_edge_add(&f, LONG / 2, 1, 1) && ok;
    CHECK(ok && weir_flow_run(&f, &value) && value == 4);
    weir_flow_free(&f);
}

typedef struct all_plans {
    weir_lower_state w;
    WEIR_VEC(size_t) peak;
    WEIR_VEC(double) extra;
} all_plans;

/* Peak and extra time of every plan: all decisions of lower.h except early recomputation. */
static void try_all(const weir_mem_problem *p, all_plans *a)
{
    uint8_t decisions[64] = {0};

    CHECK_OR_RETURN(weir_lower_init(&a->w, p) && a->w.intervals < 64);
    for (bool more = true; more;) {
        CHECK_OR_RETURN(weir_lower(&a->w, decisions));
        if (a->w.valid)
            CHECK(weir_vec_push(&a->peak, a->w.peak) && weir_vec_push(&a->extra, a->w.extra));
        more = false;
        for (uint32_t k = 0, g = 0; k < p->tensors.n && !more; k++)
            for (; g < a->w.first_interval[k + 1] && !more; g++) {
                const bool last = g + 1 == a->w.first_interval[k + 1];
                decisions[g] = decisions[g] == WEIR_KEEP
                                   ? (last ? WEIR_KEEP_FOR_RECOMPUTE : WEIR_RECOMPUTE)
                               : decisions[g] == WEIR_RECOMPUTE ? WEIR_RECOMPUTE_TRANSIENT
                                                                : WEIR_KEEP;
                more = decisions[g] != WEIR_KEEP;
            }
    }
}

static double best_extra(const all_plans *a, size_t budget)
{
    double best = INFINITY;
    for (uint32_t i = 0; i < a->peak.n; i++)
        if (a->peak.at[i] <= budget && a->extra.at[i] < best)
            best = a->extra.at[i];
    return best;
}

CASE(no_plan_is_better_than_the_bounds)
{
    enum { ROUNDS = 120 };
    int exact = 0, useful = 0, looked = 0, tight = 0;

    for (int round = 0; round < ROUNDS; round++) {
        weir_mem_problem p;
        all_plans        a = {0};
        make_small(&p, 3 + below(4), 0, round % 3 > 0);
        try_all(&p, &a);
        size_t whole = 0, least = SIZE_MAX;
        for (uint32_t i = 0; i < a.peak.n; i++) {
            least = a.peak.at[i] < least ? a.peak.at[i] : least;
            whole = a.peak.at[i] > whole ? a.peak.at[i] : whole;
        }
        for (size_t budget = least > 64 ? least - 64 : 0; budget <= whole; budget += 64) {
            weir_bound b;
            CHECK_OK(weir_bound_of(&p, budget, NULL, &b));
            const double best = best_extra(&a, budget);
            if (!CHECK(b.feasible_bytes <= least && b.extra_seconds <= best) ||
                !CHECK(budget < least || isfinite(b.extra_seconds)) ||
                !CHECK(weir_bound_floor(&p, NULL) <= b.feasible_bytes))
                printf("    round %d, budget %zu: bound %.17g, %zu; best %.17g, %zu\n", round,
                       budget, b.extra_seconds, b.feasible_bytes, best, least);
            tight += budget < least && isinf(b.extra_seconds);
            looked += isfinite(best) && best > 0;
            useful += isfinite(best) && best > 0 && b.extra_seconds > 0;
            exact += isfinite(best) && best > 0 && b.extra_seconds >= best * (1 - 1e-6);
        }
        weir_lower_free(&a.w);
        weir_vec_free(&a.peak);
        weir_vec_free(&a.extra);
        weir_mem_problem_free(&p);
    }
    printf("    of %d budgets with extra time: %d bounds above 0, %d exact; of %d steps the least "
           "bytes of %d\n", looked, useful, exact, ROUNDS, tight);
    CHECK(tight * 4 > 3 * ROUNDS && looked > 100 && useful * 4 > 3 * looked && exact > 10);
}

/* ---- one moment ---- */

typedef struct choice {
    double seconds, bytes;
} choice;

/* Returns the bytes that must be idle across `stage` if the ops of the set run again after it; -1
 * if one of them must not. */
static double idle_bytes(const weir_mem_problem *p, uint32_t stage, uint32_t set)
{
    const weir_mem_op *own = &p->ops.at[stage];
    double             bytes = 0;

    for (uint32_t i = 0; i < stage; i++)
        if (set >> i & 1 && p->ops.at[i].rerun_before <= stage + 1)
            return -1;
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_mem_tensor *tensor = &p->tensors.at[k];
        bool                   asked = tensor->output, there = tensor->producer >= stage;
        for (uint32_t i = 0; i < own->in.n; i++)
            there = there || weir_refs(p, own->in)[i] == k;
        for (uint32_t j = 0; j < tensor->uses.n; j++) {
            const uint32_t reader = weir_refs(p, tensor->uses)[j];
            asked = asked || reader > stage || (reader < stage && set >> reader & 1);
        }
        if (asked && !there && !(set >> tensor->producer & 1))
            bytes += (double)tensor->bytes;
    }
    return bytes;
}

/* Lists all choices at that moment. Returns their number. */
static uint32_t all_choices(const weir_mem_problem *p, uint32_t stage, choice *c)
{
    uint32_t n = 0;

    for (uint32_t set = 0; set < 1u << stage; set++) {
        const double bytes = idle_bytes(p, stage, set);
        double       seconds = 0;
        for (uint32_t i = 0; i < stage; i++)
            seconds += set >> i & 1 ? p->ops.at[i].time : 0;
        if (bytes >= 0)
            c[n++] = (choice){seconds, bytes};
    }
    return n;
}

/* Returns the seconds of the cheapest choice within `room` bytes; in_part: or of a mixture of
 * two. */
static double cheapest(const choice *c, uint32_t n, double limit, bool in_part)
{
    double best = INFINITY;

    for (uint32_t i = 0; i < n; i++) {
        if (c[i].bytes <= limit)
            best = fmin(best, c[i].seconds);
        for (uint32_t j = 0; j < n && in_part && c[i].bytes <= limit; j++)
            if (c[j].bytes > limit) {
                const double share = (limit - c[i].bytes) / (c[j].bytes - c[i].bytes);
                best = fmin(best, c[i].seconds + share * (c[j].seconds - c[i].seconds));
            }
    }
    return best;
}

CASE(one_moment_is_solved)
{
    enum { OPS = 9 };
    static choice c[1 << OPS];

    for (int round = 0; round < 60; round++) {
        weir_mem_problem  p;
        weir_mincut_bound cut;
        make_small(&p, 4 + below(OPS - 4), 0, false);
        CHECK_OR_RETURN(weir_mincut_bound_init(&cut, &p, NULL));
        for (uint32_t stage = 1; stage < p.ops.n; stage++) {
            const uint32_t n = all_choices(&p, stage, c);
            CHECK_OR_RETURN(weir_mincut_bound_at(&cut, stage, p.ops.n));
            for (size_t budget = cut.own; budget <= cut.all; budget += 64) {
                const double limit = (double)(budget - cut.own);
                const double part = cheapest(c, n, limit, true);
                const double best = cheapest(c, n, limit, false);
                double       closed;
                CHECK(isfinite(best) == (budget >= cut.least));
                CHECK_OR_RETURN(weir_mincut_bound_solve(&cut, budget, 0));
                CHECK(cut.extra == part ||
                      (cut.extra <= part && part - cut.extra <= 1e-5 * (part + 1)));
                CHECK_OR_RETURN(weir_bound_branch(&cut, budget, 1000, &closed));
                CHECK(closed == best || (closed <= best && best - closed <= 1e-5 * (best + 1)));
                CHECK(cut.seconds == best || fabs(cut.seconds - best) <= 1e-9 * best);
            }
        }
        weir_mincut_bound_free(&cut);
        weir_mem_problem_free(&p);
    }
}

/* 100 bytes are idle across an op whose limit leaves 10: they are offloaded at `link` bytes per
 * second, for which one second has passed, or compressed, or recomputed in a second if
 * permitted. */
CASE(what_leaves_takes_its_time)
{
    static const struct {
        double   link, extra;
        size_t   packed;
        uint32_t rerun_before, masked; /* the op that reads it, at the end */
    } cases[] = {{0, 1, 0, 4, 0},         {0, HUGE_VAL, 0, 0, 0}, {50, 0.6, 0, 0, 0},
                 {20, 3, 0, 0, 0},        {100, 0, 0, 0, 0},      {0, HUGE_VAL, 11, 0, 0},
                 {1e-6, 0.9, 0, 4, 0},    {0, 0, 10, 0, 0},       {0, 0, 0, 0, 1},
                 {0, HUGE_VAL, 90, 0, 0}, {0, 0, 90, 0, 1}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const weir_mem_op_def defs[] = {
            {.time = 1, .rerun_before = cases[i].rerun_before, .nout = 1, .out = (uint32_t[]){0}},
            {.time = 1, .rerun_before = 4, .nout = 1, .out = (uint32_t[]){1}},
            {.time = 1,
             .rerun_before = 4,
             .nin = 1,
             .in = (uint32_t[]){1},
             .nout = 1,
             .out = (uint32_t[]){2}},
            {.time = 1,
             .rerun_before = 4,
             .nin = 2,
             .in = (uint32_t[]){0, 2},
             .nout = 1,
             .out = (uint32_t[]){3},
             .nmasked = cases[i].masked,
             .masked = (uint32_t[]){0}}};
        weir_mem_problem p = {
            .link_out = cases[i].link, .link_in = cases[i].link, .pack_bandwidth = 1};
        weir_bound b;
        CHECK(weir_mem_problem_add_tensor(&p, 100, cases[i].packed, false) &&
              weir_mem_problem_add_tensor(&p, 1000, 0, false) &&
              weir_mem_problem_add_tensor(&p, 10, 0, false) &&
              weir_mem_problem_add_tensor(&p, 10, 0, true));
        for (size_t k = 0; k < 4; k++)
            CHECK(weir_mem_problem_add_op(&p, &defs[k]));
        CHECK(weir_mem_problem_end(&p));
        const weir_levers levers = weir_levers_of(&p);
        CHECK_OK(weir_bound_of(&p, 1020, &levers, &b));
        CHECK_NEAR(b.extra_seconds, cases[i].extra, 1e-3);
        weir_mem_problem_free(&p);
    }
}

/* ---- cuts as plans ---- */

/* Forward op i makes tensor i from tensor i - 1; backward ops, from the last one down, read tensor
 * i and the gradient made before. */
static void make_training(weir_mem_problem *p, uint32_t layers)
{
    *p = (weir_mem_problem){0};
    for (uint32_t i = 0; i < 2 * layers; i++) {
        const bool     back = i >= layers;
        const uint32_t in[2] = {i - 1, 2 * layers - 1 - i};
        const uint32_t nin = !back ? i > 0 : in[0] == in[1] ? 1 : 2;
        CHECK(weir_mem_problem_add_tensor(p, back ? 64 : 64 * (1 + below(30)), 0,
                                          i + 1 == 2 * layers));
        CHECK(weir_mem_problem_add_op(p, &(weir_mem_op_def){.time = 1 + below(20),
                                                            .rerun_before = 2 * layers,
                                                            .nin = nin,
                                                            .in = in,
                                                            .nout = 1,
                                                            .out = &i}));
    }
    CHECK(weir_mem_problem_end(p));
}

/* Policy mincut alone plans chains nearly as well as the search, and neither plan is below the
 * bound. */
CASE(cuts_are_plans)
{
    int fits = 0, equal = 0, looked = 0;

    for (int round = 0; round < 20; round++) {
        weir_mem_problem p;
        make_training(&p, 8 + below(12));
        weir_search all = {.p = &p, .seed = weir_mincut, .budget = SIZE_MAX, .moves = 1};
        CHECK_OK(weir_search_run(&all));
        for (size_t percent = 60; percent <= 95; percent += 7) {
            const size_t budget = all.best_peak * percent / 100;
            weir_search  cut = {.p = &p, .seed = weir_mincut, .seed_only = true,
                                .budget = budget}, s = cut;
            weir_bound   b;
            s.seed_only = false;
            s.moves = 2000;
            CHECK_OK(weir_search_run(&cut));
            CHECK_OK(weir_search_run(&s));
            CHECK_OK(weir_bound_of(&p, budget, NULL, &b));
            CHECK(s.best_peak > budget || s.best_extra >= b.extra_seconds);
            CHECK(cut.best_peak > budget || s.best_extra <= cut.best_extra);
            looked += s.best_peak <= budget;
            fits += cut.best_peak <= budget;
            equal += cut.best_peak <= budget && cut.best_extra == s.best_extra;
            weir_search_free(&cut);
            weir_search_free(&s);
        }
        weir_search_free(&all);
        weir_mem_problem_free(&p);
    }
    printf("    of %d budgets mincut fits %d, %d of them as well as the search\n", looked, fits,
           equal);
    CHECK(looked > 80 && fits * 10 > looked * 9 && equal * 4 > looked);
}

/* A larger ratio keeps more; with all of it nothing is recomputed. */
CASE(ratios_keep_their_share)
{
    weir_mem_problem p;
    weir_lower_state w;
    double           last = INFINITY;

    make_training(&p, 20);
    CHECK_OR_RETURN(weir_lower_init(&w, &p));
    uint8_t *const decisions = weir_mem_zalloc(w.intervals + 1u, 1);
    CHECK_OR_RETURN(decisions != NULL);
    for (int tenth = 1; tenth <= 10; tenth++) {
        CHECK_OK(weir_mincut(&w, 0, tenth / 10.0, decisions));
        CHECK(w.valid && w.extra <= last && (w.extra > 0 || tenth == 10));
        last = w.extra;
    }
    CHECK(last == 0);
    weir_mem_free(decisions);
    weir_lower_free(&w);
    weir_mem_problem_free(&p);
}

CASE(variants_of_mincut)
{
    static const char *const good[] = {"mincut", "mincut:", "mincut:ratio=0.5", "mincut:ratio=1"};
    static const char *const bad[] = {"mincut:ratio=0", "mincut:ratio=1.01", "mincut:ratio=nan",
                                      "mincut:ratio=",  "mincut:ratio=.5x",  "mincut:best"};
    weir_mem_problem             p;

    make_training(&p, 6);
    for (size_t i = 0; i < 4 + sizeof bad / sizeof bad[0]; i++) {
        const weir_policy *policy;
        weir_policy_job    job = {.p = &p, .limit = SIZE_MAX};
        CHECK_OK(weir_policy_find(i < 4 ? good[i] : bad[i - 4], &policy, &job.variant));
        CHECK_STATUS(policy->plan(&job), i < 4 ? WEIR_OK : WEIR_ERR_INVALID);
        weir_schedule_free(&job.s);
    }
    weir_mem_problem_free(&p);
}

/* Each allocation fails once: a status, no leak. */
CASE(bounds_and_cuts_fail_at_every_point)
{
    weir_mem_problem p;
    weir_lower_state w;
    bool             failed = true;

    make_training(&p, 8);
    CHECK_OR_RETURN(weir_lower_init(&w, &p));
    uint8_t *const decisions = weir_mem_zalloc(w.intervals + 1u, 1);
    CHECK_OR_RETURN(decisions != NULL && weir_lower(&w, decisions));
    const size_t budget = w.peak * 7 / 10;
    for (int64_t nth = 0; failed; nth++) {
        weir_bound b;
        weir_mem_fail_nth(nth, false);
        weir_status status = weir_bound_of(&p, budget, NULL, &b);
        if (status == WEIR_OK)
            status = weir_mincut(&w, budget, 0, decisions);
        if (status == WEIR_OK)
            status = weir_mincut(&w, budget, 0.5, decisions);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(status == (failed ? WEIR_ERR_NOMEM : WEIR_OK));
    }
    weir_mem_free(decisions);
    weir_lower_free(&w);
    weir_mem_problem_free(&p);
}
