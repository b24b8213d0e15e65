/* problems.h - random steps for planners, and a replay of their plans. */
#ifndef WEIR_TEST_GRAPH_MEMORY_PROBLEMS_H
#define WEIR_TEST_GRAPH_MEMORY_PROBLEMS_H

#include "check.h"
#include "graph/memory/problem/schedule.h"

enum { MAX_OPS = 40, MOST_WIDTH = 3 };

static inline uint32_t below(uint32_t n)
{
    return (uint32_t)check_int(0, (int64_t)n - 1);
}

/* A chain with side branches, like a forward and a backward pass: op i reads the last tensor and
 * some earlier ones. `residents` more tensors are resident; some ops read one, the last ones
 * overwrite them. */
static inline void make_problem_with(weir_mem_problem *p, uint32_t n, uint32_t residents)
{
    *p = (weir_mem_problem){0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t in[MOST_WIDTH + 2], nin = 0;
        CHECK(weir_mem_problem_add_tensor(p, 64 * (1 + below(16)), 0, i + 1 == n));
        if (i > 0)
            in[nin++] = i - 1;
        if (i > n / 2)                          /* the mirror image, which a gradient reads */
            in[nin++] = n - 1 - i;
        for (uint32_t k = below(MOST_WIDTH); k > 0 && i > 0 && nin < MOST_WIDTH; k--)
            in[nin++] = below(i);
        uint32_t   rerun_before = below(4) ? n : below(n + 1);
        const bool changes = i + residents >= n;
        if (residents > 0 && (changes || i % 3 == 0)) {     /* resident k is overwritten by */
            /* op n - residents + k */
            const uint32_t k = changes ? i + residents - n : i % residents;
            in[nin++] = n + k;
            rerun_before = changes                            ? 0
                           : n - residents + k < rerun_before ? n - residents + k
                                                              : rerun_before;
        }
        const uint32_t pairs[2] = {i > 0 ? i - 1 : 0, i};
        const bool     pair = i > 0 && below(3) == 0;
        const weir_mem_op_def def = {.time = 1.0 + below(9),
                                     .work = below(2) ? 0 : 64 * below(8),
                                     .rerun_before = rerun_before,
                                     .region = i > n / 2 ? 0 : i * 5 / n,
                                     .phase = i > n / 2 ? WEIR_BACKWARD : WEIR_FORWARD,
                                     .kind = i % 3 ? WEIR_OP_CLASS_OTHER : WEIR_OP_CLASS_CONV,
                                     .nin = nin,
                                     .in = in,
                                     .nout = 1,
                                     .out = &i,
                                     .npairs = pair ? 2 : 0,
                                     .pairs = pairs,
                                     .nchanges = changes,
                                     .changes = &in[nin ? nin - 1 : 0]};
        CHECK(weir_mem_problem_add_op(p, &def));
    }
    for (uint32_t k = 0; k < residents; k++)
        CHECK(weir_mem_problem_add_tensor(p, 64 * (1 + below(4)), 0, false));
    CHECK(weir_mem_problem_end(p));
}

static inline void make_problem(weir_mem_problem *p, uint32_t n)
{
    make_problem_with(p, n, 0);
}

/* A smaller step, without residents, for tests that try every plan: an output may be as large as
 * the input that it takes over, others may be step outputs; bytes (in units of 64) and times are at
 * least `least`. */
static inline void make_small(weir_mem_problem *p, uint32_t n, uint32_t least, bool in_place)
{
    *p = (weir_mem_problem){0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t in[3], nin = 0;
        CHECK(weir_mem_problem_add_tensor(p, 64 * (least + below(12)), 0,
                                          i + 1 == n || below(12) == 0));
        if (i > 0)
            in[nin++] = i - 1;
        if (i > n / 2 && n - 1 - i < i - 1)
            in[nin++] = n - 1 - i;
        if (i > 2 && below(3) == 0)
            in[nin++] = below(i - 1);
        const uint32_t rerun_before = below(4) ? n : below(n + 1);
        const uint32_t pairs[4] = {nin ? in[nin - 1] : 0, i, nin ? in[0] : 0, i};
        const uint32_t npairs = in_place && nin && below(2) ? 2 + 2 * below(2) : 0;
        for (uint32_t k = 0; k < npairs && below(2); k += 2)
            p->tensors.at[i].bytes = p->tensors.at[pairs[k]].bytes;
        CHECK(weir_mem_problem_add_op(p, &(weir_mem_op_def){.time = least + below(8),
                                                            .work = below(2) ? 0 : 64 * below(6),
                                                            .rerun_before = rerun_before,
                                                            .nin = nin,
                                                            .in = in,
                                                            .nout = 1,
                                                            .out = &i,
                                                            .npairs = npairs,
                                                            .pairs = pairs}));
    }
    CHECK(weir_mem_problem_end(p));
}

/* Replays the events of a schedule: everything that is read exists, first runs come once and in
 * order, no op runs again too late, and the peak is not above the sum of the live ranges. */
static inline void replay(const weir_mem_problem *p, const weir_schedule *w, size_t peak)
{
    int64_t  live[MAX_OPS * 8] = {0};
    uint32_t first_runs = 0;

    CHECK_OR_RETURN(w->events.n < MAX_OPS * 8);
    for (uint32_t i = 0; i < w->ranges.n; i++) {
        const weir_live_range l = w->ranges.at[i];
        CHECK(l.first <= l.last && l.last < w->events.n);
        CHECK(l.before ? weir_mem_tensor_is_resident(p, l.tensor)
                       : p->tensors.at[l.tensor].producer == w->events.at[l.first].what);
        for (uint32_t e = l.first; e <= l.last; e++)
            live[e] += (int64_t)p->tensors.at[l.tensor].bytes;
    }
    for (uint32_t e = 0; e < w->events.n; e++) {
        const weir_event   ev = w->events.at[e];
        const weir_mem_op *t = &p->ops.at[ev.what];
        if (ev.recomputed)
            CHECK(ev.what < first_runs && t->rerun_before > first_runs);
        else
            CHECK(ev.what == first_runs++);
        for (uint32_t k = 0; k < t->in.n; k++) {
            const weir_live_range l = w->ranges.at[w->refs.at[w->first.at[e] + k]];
            CHECK(l.tensor == weir_refs(p, t->in)[k] && (l.before || l.first < e) && l.last >= e);
        }
        live[e] += (int64_t)t->work;
        CHECK(w->live.at[e] <= live[e] && (t->pairs.n > 0 || w->live.at[e] == live[e]));
        CHECK(w->live.at[e] <= (int64_t)peak);
    }
    CHECK(first_runs == p->ops.n);
}

#endif
