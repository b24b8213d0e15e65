/* policies.h - the policies by name, and plans by them, for their tests. */
#ifndef WEIR_TEST_GRAPH_MEMORY_POLICIES_POLICIES_H
#define WEIR_TEST_GRAPH_MEMORY_POLICIES_POLICIES_H

#include "check.h"
#include "core/mem.h"
#include "graph/memory/policies/table.h"

/* asked: does what it is asked for, whatever the room; link: needs one. */
static const struct { const char *name; bool asked, link; } policies[] = {
    {"recycle", false, false},
    {"checkpoint:manual", true, false},
    {"vdnn:conv", true, true},
    {"checkpoint:sequential=3", true, false},
    {"checkpoint:sequential", false, false},
    {"checkpoint", false, false},
    {"checkpoint:memory", false, false},
    {"checkpoint:speed", false, false},
    {"sublinear", false, false},
    {"dtr", false, false},
    {"dtr:eq", false, false},
    {"dtr:local", false, false},
    {"dtr:lru", false, false},
    {"dtr:size", false, false},
    {"dtr:msps", false, false},
    {"dtr_lookahead", false, false},
    {"checkpoint:offload", false, true},
    {"vdnn:all", true, true},
    {"vdnn", false, true},
    {"capuchin", false, true},
    {"capuchin:passive", false, true},
    {"delta", false, true},
    {"autotm", false, true}};

/* Plans with policy `name`; s is to be freed. */
static inline weir_status plan_with(const char *name, const weir_mem_problem *p, size_t limit,
                                    weir_schedule *s)
{
    const weir_policy *policy;
    weir_policy_job    job = {.p = p, .limit = limit, .moves = 300};
    weir_status        status = weir_policy_find(name, &policy, &job.variant);

    if (status == WEIR_OK)
        status = policy->plan(&job);
    *s = job.s;
    weir_mem_free(job.decisions);
    return status;
}

static inline bool same_events(const weir_schedule *a, const weir_schedule *b)
{
    bool same = a->events.n == b->events.n && a->peak == b->peak;

    for (uint32_t e = 0; same && e < a->events.n; e++)
        same = a->events.at[e].what == b->events.at[e].what &&
               a->events.at[e].kind == b->events.at[e].kind &&
               a->events.at[e].recomputed == b->events.at[e].recomputed;
    return same;
}

#endif
