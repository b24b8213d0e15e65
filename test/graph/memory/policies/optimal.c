/* optimal.c - policy optimal against every plan of its kind, and auto against optimal. Skipped if
 * no solver is installed. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/mem.h"
#include "graph/memory/bounds/bound.h"
#include "graph/memory/policies/table.h"
#include "graph/memory/bounds/highs.h"
#include "graph/memory/bounds/milp.h"
#include "graph/memory/problem/copy_streams.h"
#include "graph/memory/problems.h"
#include "weir/plan.h"

static bool have_solver(void)
{
    char       name[128];
    const bool there = weir_highs_version(name, sizeof name);
    if (!there)
        printf("    skipped: %s\n", name);
    return there;
}

/* ---- every plan: states are what is held (a bit per tensor) between two events ---- */

enum { MAX_TENSORS = 10 };

static size_t bytes_of(const weir_mem_problem *p, uint32_t set)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < p->tensors.n; k++)
        bytes += set >> k & 1 ? p->tensors.at[k].bytes : 0;
    return bytes;
}

static uint32_t set_of(const weir_mem_problem *p, weir_index_range r)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < r.n; i++)
        set |= 1u << weir_refs(p, r)[i];
    return set;
}

/* Returns the bytes during the event that turns one set into another: an output may take over an
 * input that ends there, except in the last event. */
static size_t bytes_during(const weir_mem_problem *p, uint32_t i, uint32_t from, uint32_t to)
{
    const weir_mem_op *t = &p->ops.at[i];
    const uint32_t     made = weir_refs(p, t->out)[0];
    size_t             saved = 0;

    for (uint32_t j = 0; j + 1 < t->pairs.n && i + 1 < p->ops.n; j += 2) {
        const uint32_t a = weir_refs(p, t->pairs)[j];
        if (!(to >> a & 1) && to >> made & 1 && !(from >> made & 1) &&
            p->tensors.at[a].bytes == p->tensors.at[made].bytes)
            saved = p->tensors.at[made].bytes;
    }
    return bytes_of(p, from) + p->tensors.at[made].bytes + t->work - saved;
}

/* Runs the op from every state; only what it reads and makes may be dropped. */
static void try_event(const weir_mem_problem *p, uint32_t i, size_t budget, const double *cost,
                      double *next, double seconds)
{
    const weir_mem_op *t = &p->ops.at[i];
    const uint32_t     in = set_of(p, t->in), touched = in | set_of(p, t->out);

    for (uint32_t from = 0; from < 1u << p->tensors.n; from++) {
        if (isinf(cost[from]) || (from & in) != in)
            continue;
        for (uint32_t gone = touched;; gone = (gone - 1) & touched) {
            const uint32_t to = (from | touched) & ~gone;
            if (bytes_during(p, i, from, to) <= budget && cost[from] + seconds < next[to])
                next[to] = cost[from] + seconds;
            if (gone == 0)
                break;
        }
    }
}

/* Returns the least extra seconds of plans whose repeated ops between two first runs ascend. */
static double try_all(const weir_mem_problem *p, size_t budget)
{
    static double  cost[1 << MAX_TENSORS], next[1 << MAX_TENSORS];
    const uint32_t states = 1u << p->tensors.n;
    uint32_t       wanted = 0;
    double         best = INFINITY;

    for (uint32_t k = 0; k < p->tensors.n; k++)
        wanted |= (uint32_t)p->tensors.at[k].output << k;
    for (uint32_t s = 0; s < states; s++)
        cost[s] = s ? INFINITY : 0;
    for (uint32_t stage = 0; stage < p->ops.n; stage++)
        for (uint32_t i = 0; i <= stage; i++) {
            const bool recomputed = i < stage;
            if (recomputed && p->ops.at[i].rerun_before <= stage)
                continue;
            for (uint32_t s = 0; s < states; s++)
                next[s] = recomputed ? cost[s] : (double)INFINITY;
            try_event(p, i, budget, cost, next, recomputed ? p->ops.at[i].time : 0);
            memcpy(cost, next, states * sizeof *cost);
        }
    for (uint32_t s = 0; s < states; s++)
        if ((s & wanted) == wanted && cost[s] < best)
            best = cost[s];
    return best;
}

/* Solves the programme alone, without a start plan or other bounds. Negative: it failed. */
static double solve(const weir_mem_problem *p, size_t budget, size_t *peak, double *proven)
{
    weir_recompute_milp g;
    weir_schedule       s;
    double              extra = INFINITY;

    CHECK_OK(weir_recompute_milp_build(&g, p, budget, p->ops.n / 2));
    if (g.begin < p->ops.n)
        CHECK_OK(weir_milp_solve(&g.m));
    CHECK(weir_schedule_init(&s, p));
    if (g.begin < p->ops.n && g.m.found) {
        CHECK(weir_recompute_milp_schedule(&g, &s) && weir_schedule_end(&s, budget) && s.valid);
        extra = s.recomputed;
        *peak = s.peak;
    } else if (g.begin == p->ops.n) {
        extra = 0;
    }
    *proven = g.m.proven * g.unit;
    weir_schedule_free(&s);
    weir_recompute_milp_free(&g);
    return extra;
}

CASE(no_plan_is_better_than_optimal)
{
    int looked = 0, dearer = 0, none = 0;

    if (!have_solver())
        return;
    for (int round = 0; round < 24; round++) {
        weir_mem_problem p;
        size_t           most = 0;
        make_small(&p, 5 + below(5), 1, round % 3 > 0);
        for (uint32_t k = 0; k < p.tensors.n; k++)
            most += p.tensors.at[k].bytes;
        for (size_t budget = most / 4 / 64 * 64; budget < most * 3 / 4; budget += 128) {
            size_t       peak = 0;
            double       proven;
            const double best = try_all(&p, budget), extra = solve(&p, budget, &peak, &proven);
            CHECK_NEAR(extra, best, 1e-9);
            CHECK_NEAR(proven, best, 1e-3);
            CHECK(isinf(extra) || peak <= budget);
            looked++;
            dearer += best > 0 && isfinite(best);
            none += isinf(best);
        }
        weir_mem_problem_free(&p);
    }
    printf("    %d budgets, %d with something run again, %d impossible\n", looked, dearer, none);
    CHECK(dearer > looked / 10 && none > 0);
}

static double run_policy(const char *name, const weir_mem_problem *p, size_t budget, double *proven)
{
    const weir_policy *policy;
    weir_policy_job    job = {.p = p, .limit = budget};

    CHECK_OK(weir_policy_find(name, &policy, &job.variant));
    CHECK_OK(policy->plan(&job));
    const bool   fits = job.s.valid && job.s.peak <= budget;
    const double extra = fits ? job.s.time - p->time : (double)INFINITY;
    *proven = job.proven;
    weir_schedule_free(&job.s);
    weir_mem_free(job.decisions);
    return extra;
}

/* A chain of layers and its mirror image, like the step of a network. */
static void make_chain(weir_mem_problem *p, uint32_t layers, bool in_place)
{
    *p = (weir_mem_problem){0};
    for (uint32_t i = 0; i < 2 * layers; i++) {
        uint32_t     in[2] = {i - 1, 2 * layers - 1 - i}, nin = i == 0 ? 0 : 1 + (i > layers);
        const size_t bytes = 64 * (1 + below(9));
        const bool   pair = in_place && i > 0 && below(2);
        CHECK(weir_mem_problem_add_tensor(p, pair ? p->tensors.at[i - 1].bytes : bytes, 0,
                                          i + 1 == 2 * layers));
        CHECK(weir_mem_problem_add_op(p, &(weir_mem_op_def){.time = 1 + below(8),
                                                            .rerun_before = 2 * layers,
                                                            .nin = nin,
                                                            .in = in,
                                                            .nout = 1,
                                                            .out = &i,
                                                            .npairs = pair ? 2 : 0,
                                                            .pairs = (uint32_t[]){i - 1, i}}));
    }
    CHECK(weir_mem_problem_end(p));
}

/* Compares auto with the optimum at three budgets. Returns at how many it is within 1 %. */
static int compare(const weir_mem_problem *p, int *looked)
{
    size_t most = 0;
    int    near = 0;

    for (uint32_t k = 0; k < p->tensors.n; k++)
        most += p->tensors.at[k].bytes;
    for (size_t percent = 40; percent <= 60; percent += 10) {
        double       proven, unproven;
        const size_t budget = most * percent / 100;
        const double best = run_policy("optimal", p, budget, &proven);
        const double found = run_policy("auto:recompute", p, budget, &unproven);
        CHECK(best <= found && proven <= best * (1 + 1e-4) + 1e-9 && unproven == 0);
        if (isinf(best) || best <= 0)
            continue;
        ++*looked;
        near += found - proven <= 0.01 * (p->time + proven);
    }
    return near;
}

CASE(auto_is_nearly_optimal)
{
    int chains = 0, chains_near = 0, nets = 0, nets_near = 0;

    if (!have_solver())
        return;
    for (int round = 0; round < 8; round++) {
        weir_mem_problem p;
        make_chain(&p, 4 + below(3), round % 2);
        chains_near += compare(&p, &chains);
        weir_mem_problem_free(&p);
        make_small(&p, 8 + 2 * below(4), 1, round % 2);
        nets_near += compare(&p, &nets);
        weir_mem_problem_free(&p);
    }
    printf("    within 1 %%: auto on %d of %d chains, %d of %d steps at random\n", chains_near,
           chains, nets_near, nets);
    CHECK(chains > 5 && chains_near == chains && nets > 3 && nets_near * 2 > nets);
}

CASE(optimal_names_what_it_needs)
{
    char *const  old = getenv("WEIR_HIGHS") ? weir_mem_strdup(getenv("WEIR_HIGHS")) : NULL;
    weir_mem_problem p;
    char             name[128];

    make_small(&p, 6, 1, false);
    setenv("WEIR_HIGHS", "/nowhere/libhighs.so", 1);
    weir_policy_job job = {.p = &p, .limit = 1 << 20, .variant = ""};
    CHECK_STATUS(weir_policy_optimal(&job), WEIR_ERR_NOKERNEL);
    CHECK_TEXT(weir_error(), "libhighs.so.1");
    CHECK(!weir_highs_version(name, sizeof name));
    job.variant = "nodes=0";
    CHECK_STATUS(weir_policy_optimal(&job), WEIR_ERR_INVALID);
    job.variant = "fast";
    CHECK_STATUS(weir_policy_optimal(&job), WEIR_ERR_INVALID);
    if (old)
        setenv("WEIR_HIGHS", old, 1);
    else
        unsetenv("WEIR_HIGHS");
    weir_mem_free(old);
    weir_mem_problem_free(&p);
}

CASE(any_allocation_of_optimal_may_fail)
{
    weir_mem_problem p;

    if (!have_solver())
        return;
    make_small(&p, 8, 1, true);
    for (int64_t n = 0;; n++) {
        weir_policy_job job = {.p = &p, .limit = 1400, .variant = "", .moves = 20};
        weir_mem_fail_nth(n, true);
        const weir_status status = weir_policy_optimal(&job);
        const bool        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        weir_schedule_free(&job.s);
        weir_mem_free(job.decisions);
        CHECK_STATUS(status, failed ? WEIR_ERR_NOMEM : WEIR_OK);
        if (!failed || status != WEIR_ERR_NOMEM)
            break;
    }
    weir_mem_problem_free(&p);
}
