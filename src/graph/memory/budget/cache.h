/* cache.h - a folder of plans that outlive the process: one file for each step, policy and
 * machine. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_CACHE_H
#define WEIR_GRAPH_MEMORY_BUDGET_CACHE_H

#include "graph/memory/budget/frontier.h"

typedef struct weir_cache {
    char          *path; /* of the file, owned; NULL: no cache */
    uint64_t       key[2];
    weir_cache_use use;
    double         rates[2]; /* link_out, link_in as measured */
    double        *seconds;  /* [ops] as measured; NULL: unknown */
} weir_cache;

/* What plans depend on besides the problem. */
typedef struct weir_cache_key {
    const char *policy;             /* with its variant; NULL: auto */
    size_t      align, whole, below;
    uint64_t    moves;
    uint64_t    machine;            /* a hash of the machine */
    bool        times;              /* hash the problem's times and rates, which do not vary */
} weir_cache_key;

/* Opens the file for the problem in `folder` (NULL: $WEIR_PLAN_CACHE; "", or neither: no cache).
 * ERR_NOMEM or WEIR_OK. */
weir_status weir_cache_open(weir_cache *c, const char *folder, const weir_mem_problem *p,
                            const weir_cache_key *key);

/* Reads the measured times, if there are any; weir_cache_read also reads the frontier's plans,
 * which are lowered and placed by f's means. A file that is missing or invalid counts as empty.
 * ERR_NOMEM or WEIR_OK. */
weir_status weir_cache_read_times(weir_cache *c, const weir_mem_problem *p);
weir_status weir_cache_read(weir_cache *c, const weir_fit *f, weir_frontier *l);

/* Build the frontier, after reading it where there is a cache; then plan by it, or without it if it
 * has no plan within so small a limit, and write the cache. */
weir_status weir_cache_build_frontier(weir_cache *c, weir_frontier *l, const weir_fit *f);
weir_status weir_cache_fit(weir_cache *c, weir_frontier *l, weir_fit *f);

/* Writes frontier and times if the frontier has grown. A failure is noted in c->use only. */
void weir_cache_write(weir_cache *c, const weir_mem_problem *p, weir_frontier *l);

void weir_cache_close(weir_cache *c);

#endif
