/* cache.h - a folder in which plans outlive the process: one file per step, policy and machine. */
#ifndef WEIR_GRAPH_MEMORY_BUDGET_CACHE_H
#define WEIR_GRAPH_MEMORY_BUDGET_CACHE_H

#include "graph/memory/budget/frontier.h"

typedef struct weir_cache {
    char          *path; /* of the file, owned; NULL: no cache */
    uint64_t       key[2];
    weir_cache_use use;
    double         rates[2]; /* link_out, link_in as measured, in bytes per second */
    double        *seconds;  /* [ops] as measured, owned; NULL: unknown */
} weir_cache;

/* What plans depend on besides the problem. */
typedef struct weir_cache_key {
    const char *policy;             /* with its variant; NULL: auto */
    size_t      align, whole, below;
    uint64_t    moves;
    uint64_t    machine;            /* a hash of the machine and its kernels */
    /* true: times and rates are part of the key, since they are estimates */
    bool        times;
} weir_cache_key;

/* Chooses the file for the problem in `folder`; NULL: $WEIR_PLAN_CACHE; "", or neither: no cache.
 * Creates the folder if needed. Returns WEIR_OK or ERR_NOMEM; the caller calls weir_cache_close in
 * either case. */
weir_status weir_cache_open(weir_cache *c, const char *folder, const weir_mem_problem *p,
                            const weir_cache_key *key);

/* Read measured times; the second function also reads the plans of the frontier, makes them again
 * and places them with f->place. A missing or invalid file counts as empty. Return WEIR_OK,
 * ERR_NOMEM or the placer's error. */
weir_status weir_cache_read_times(weir_cache *c, const weir_mem_problem *p);
weir_status weir_cache_read(weir_cache *c, const weir_fit *f, weir_frontier *l);

/* Build the frontier, after reading what the cache has of it; then plan by it, or, if it has no
 * plan within f->limit, without it, and write the cache. Return as weir_fit_run does. */
weir_status weir_cache_build_frontier(weir_cache *c, weir_frontier *l, const weir_fit *f);
weir_status weir_cache_fit(weir_cache *c, weir_frontier *l, weir_fit *f);

/* Writes frontier and times if the frontier has grown. A failure only sets c->use. */
void weir_cache_write(weir_cache *c, const weir_mem_problem *p, weir_frontier *l);

/* Frees what the cache owns. The file stays. */
void weir_cache_close(weir_cache *c);

#endif
