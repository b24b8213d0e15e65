/* lower.c - lowering in two parts. */
#include "check.h"
#include "core/mem.h"
#include "graph/memory/problem/lower.h"
#include "graph/memory/problems.h"

static unsigned stopped;

/* Random decisions to keep, recompute or offload temporary tensors. */
static void decide(const weir_lower_state *w, uint8_t *decisions)
{
    static const uint8_t ways[] = {WEIR_KEEP, WEIR_KEEP, WEIR_RECOMPUTE, WEIR_OFFLOAD};

    memset(decisions, WEIR_KEEP, w->intervals);
    for (uint32_t k = 0; k < w->p->tensors.n; k++)
        for (uint32_t j = 0; j < w->p->tensors.at[k].uses.n; j++)
            if (!weir_mem_tensor_is_resident(w->p, k))
                decisions[w->first_interval[k] + j] = ways[below(4)];
}

/* A limit of extra time that the plan keeps changes nothing; one that it exceeds may stop the
 * timing of copies, which nothing else does. Counts those stopped. */
static void stop_early(weir_lower_state *w, const uint8_t *decisions, double least, size_t peak,
                       double extra)
{
    CHECK(weir_lower_runs(w, decisions) && weir_lower_copies(w, extra + 1e-9));
    CHECK(w->peak == peak && memcmp(&w->extra, &extra, sizeof extra) == 0);
    CHECK(weir_lower_runs(w, decisions) && weir_lower_copies(w, (least + extra) / 2));
    stopped += isinf(w->extra) ? 1 : 0;
    CHECK(isinf(w->extra) || memcmp(&w->extra, &extra, sizeof extra) == 0);
}

/* Returns whether the first part gave no more than the whole, at this budget. */
static void compare(weir_lower_state *w, const uint8_t *decisions, size_t budget)
{
    w->budget = budget;
    CHECK(weir_lower_runs(w, decisions));
    const bool   valid = w->valid;
    const size_t least_peak = w->peak;
    const double least_extra = w->extra;
    CHECK(weir_lower_copies(w, INFINITY));
    CHECK(w->valid == valid && least_peak <= w->peak && (!valid || least_extra <= w->extra + 1e-9));
    const size_t peak = w->peak;
    const double extra = w->extra;
    CHECK(weir_lower(w, decisions));
    CHECK(w->valid == valid && w->peak == peak);
    CHECK(!valid || memcmp(&w->extra, &extra, sizeof extra) == 0);
    if (valid)
        stop_early(w, decisions, least_extra, peak, extra);
}

/* Runs alone take no more than runs and copies do, in time and in bytes. */
CASE(runs_are_a_lower_bound)
{
    for (int round = 0; round < 300; round++) {
        weir_mem_problem p;
        weir_lower_state w;
        make_problem_with(&p, 4 + below(MAX_OPS - 4), below(4));
        p.link_out = p.link_in = 64.0 * (1 + below(20));
        CHECK(weir_lower_init(&w, &p));
        uint8_t *decisions = weir_mem_alloc(w.intervals + 1u);
        if (CHECK(decisions != NULL)) {
            decide(&w, decisions);
            compare(&w, decisions, SIZE_MAX);
            compare(&w, decisions, 64 * (1 + below(100)));
        }
        weir_mem_free(decisions);
        weir_lower_free(&w);
        weir_mem_problem_free(&p);
    }
    CHECK(stopped > 0);
}
