/* cache.h - a folder in which plans outlive the process: a file for each step, policy and machine.
 */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_CACHE_H
#define WEIR_GRAPH_MEMORY_BUDGET_CACHE_H

#include "graph/memory/budget/frontier.h"

typedef struct weir_cache {
    char          *path; /* of the file; NULL: there is no cache */
    uint64_t       key[2];
    weir_cache_use use;
    double         rates[2]; /* link_out, link_in as measured */
    double        *seconds;  /* [ops] as measured; NULL: none are known */
} weir_cache;

/* What the plans depend on beside the problem. */
typedef struct weir_cache_key {
    const char *policy;             /* with its variant; NULL: auto */
    size_t      align, whole, below;
    uint64_t    moves;
    uint64_t    machine;            /* any hash */
    bool        times;              /* the problem's own times and rates count: they do not vary */
} weir_cache_key;

/* The file in `folder` (NULL: $WEIR_PLAN_CACHE; "", or neither: no cache) for the problem.
 * ERR_NOMEM, or WEIR_OK. */
weir_status weir_cache_open(weir_cache *c, const char *folder, const weir_mem_problem *p,
                            const weir_cache_key *key);

/* Reads the file: measured times, if there are any, and the ladder's plans, which are walked and
 * laid out by f's means (f NULL: times only). A file that is not there, or not as it was written,
 * is none. ERR_NOMEM, or WEIR_OK. */
weir_status weir_cache_read_times(weir_cache *c, const weir_mem_problem *p);
weir_status weir_cache_read(weir_cache *c, const weir_fit *f, weir_frontier *l);

/* With a ladder, after it was read where there is a cache: climbs it; plans by it, or as without a
 * ladder where it has no plan for so little room, and writes the cache. */
weir_status weir_cache_build_frontier(weir_cache *c, weir_frontier *l, const weir_fit *f);
weir_status weir_cache_fit(weir_cache *c, weir_frontier *l, weir_fit *f);

/* Writes ladder and times if the ladder has grown. Failing is noted in c->use only. */
void weir_cache_write(weir_cache *c, const weir_mem_problem *p, weir_frontier *l);

void weir_cache_close(weir_cache *c);

#endif
