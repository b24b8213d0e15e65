/* bound.c - flows against every cut of small graphs, bounds against every plan of small steps. */
#include "check.h"
#include "core/mem.h"
#include "graph/policy/bound.h"
#include "graph/policy/walk.h"

static uint32_t below(uint32_t n)
{
    return (uint32_t)check_int(0, (int64_t)n - 1);
}

enum { MOST_NODES = 8, MOST_EDGES = 24 };

typedef struct small_graph {
    uint32_t nodes, n, from[MOST_EDGES], to[MOST_EDGES];
    int64_t  capacity[MOST_EDGES];
} small_graph;

static int64_t smallest_cut(const small_graph *g)
{
    int64_t best = INT64_MAX;

    for (uint32_t side = 0; side < 1u << g->nodes; side++) {    /* a bit per node: far */
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

/* A path of many nodes, whose shortest detours are found one after the other. */
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

/* Steps as in policy.c, small: a chain with side branches and a mirror image. */
static void make_problem(weir_problem *p, uint32_t n)
{
    *p = (weir_problem){0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t in[4], nin = 0;
        CHECK(weir_problem_piece(p, 64 * below(12), i + 1 == n || below(12) == 0));
        if (i > 0)
            in[nin++] = i - 1;
        if (i > n / 2 && n - 1 - i < i - 1)
            in[nin++] = n - 1 - i;
        if (i > 2 && below(3) == 0)
            in[nin++] = below(i - 1);
        const uint32_t until = below(4) ? n : below(n + 1);
        const uint32_t pairs[4] = {nin ? in[nin - 1] : 0, i, nin ? in[0] : 0, i};
        const uint32_t npairs = nin && below(2) ? 2 + 2 * below(2) : 0;
        for (uint32_t k = 0; k < npairs && below(2); k += 2)
            p->pieces.at[i].bytes = p->pieces.at[pairs[k]].bytes;
        CHECK(weir_problem_task(p, below(8), below(2) ? 0 : 64 * below(6), until, nin, in, 1, &i,
                                npairs, pairs));
    }
    CHECK(weir_problem_end(p));
}

typedef struct all_plans {
    weir_walk_room w;
    WEIR_VEC(size_t) peak;
    WEIR_VEC(double) extra;
} all_plans;

/* Peak and extra time of every plan: all decisions of walk.h but those that make pieces early. */
static void try_all(const weir_problem *p, all_plans *a)
{
    uint8_t gap[64] = {0};

    CHECK_OR_RETURN(weir_walk_init(&a->w, p) && a->w.gaps < 64);
    for (bool more = true; more;) {
        CHECK_OR_RETURN(weir_walk(&a->w, gap));
        if (a->w.valid)
            CHECK(weir_vec_push(&a->peak, a->w.peak) && weir_vec_push(&a->extra, a->w.extra));
        more = false;
        for (uint32_t k = 0, g = 0; k < p->pieces.n && !more; k++)
            for (; g < a->w.first_gap[k + 1] && !more; g++) {
                const bool last = g + 1 == a->w.first_gap[k + 1];
                gap[g] = gap[g] == WEIR_KEEP ? (last ? WEIR_TAIL : WEIR_DROP)
                         : gap[g] == WEIR_DROP ? WEIR_DROP_AGAIN : WEIR_KEEP;
                more = gap[g] != WEIR_KEEP;
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
        weir_problem p;
        all_plans    a = {0};
        make_problem(&p, 3 + below(4));
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
        weir_walk_free(&a.w);
        weir_vec_free(&a.peak);
        weir_vec_free(&a.extra);
        weir_problem_free(&p);
    }
    printf("    of %d budgets with extra time: %d bounds above 0, %d exact; of %d steps the least "
           "bytes of %d\n", looked, useful, exact, ROUNDS, tight);
    CHECK(tight * 4 > 3 * ROUNDS && looked > 100 && useful * 4 > 3 * looked && exact > 10);
}
