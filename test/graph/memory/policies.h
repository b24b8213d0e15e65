/* policies.h - policies by name, and their plans, for tests. */
#ifndef WEIR_TEST_GRAPH_MEMORY_POLICIES_H
#define WEIR_TEST_GRAPH_MEMORY_POLICIES_H

#include "check.h"
#include "core/mem.h"
#include "graph/memory/policies/table.h"

/* A policy with an optional variant. */
typedef struct policy_case {
    char name[40];
    bool asked;         /* does what the variant says, whatever the limit */
    bool link;          /* needs a link */
    bool idle;          /* does nothing in the trained steps: no regions, or tensors too small */
} policy_case;

enum { MOST_POLICIES = 64 };

static inline bool policy_among(const char *name, const char *names)
{
    const size_t n = strlen(name);
    for (const char *at = strstr(names, name); at; at = strstr(at + n, name))
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

static inline void policy_add(policy_case *to, size_t *n, const weir_policy *row,
                              const char *variant, int length)
{
    policy_case *const c = &to[(*n)++];

    CHECK(*n < MOST_POLICIES);
    snprintf(c->name, sizeof c->name, "%s%s%.*s", row->name, length ? ":" : "", length, variant);
    c->asked = policy_among(c->name,
                            "checkpoint:manual checkpoint:sequential=3 vdnn:conv vdnn:all");
    c->link = row->link || policy_among(c->name, "checkpoint:offload");
    c->idle = policy_among(c->name, "recycle checkpoint:manual vdnn:conv");
}

/* Fills to[MOST_POLICIES] with the policies of the table that plan for a limit by recomputing or
 * offloading, and with their variants except those that equal the default. Returns their number.
 * The search, the solver and compression have tests elsewhere. */
static inline size_t policy_cases(policy_case *to)
{
    size_t                   rows, n = 0;
    const weir_policy *const row = weir_policies(&rows);

    for (size_t i = 0; i < rows; i++) {
        if (policy_among(row[i].name, "auto mincut optimal gist actnn"))
            continue;
        policy_add(to, &n, &row[i], "", 0);
        for (const char *v = row[i].variants; *v; v += strspn(v, " ")) {
            const int length = (int)strcspn(v, " ");
            if (strncmp(v, "dyn", 3) != 0 && strncmp(v, "guided", 6) != 0)
                policy_add(to, &n, &row[i], v, length);
            if (strncmp(v, "sequential", 10) == 0)
                policy_add(to, &n, &row[i], "sequential=3", 12);
            v += length;
        }
    }
    return n;
}

/* Plans with policy `name`; the caller frees s. */
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
