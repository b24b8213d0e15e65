/* cache.c - stores a frontier in a file: header, measured times, each plan (its decisions, and the
 * quick policy that makes it, if one does), a checksum.
 *
 * Words have 8 bytes in the machine's byte order; the file name is the key in hexadecimal. A file
 * is written under a temporary name with mode 0600 and renamed, so readers see only complete files,
 * and the last of two writers wins. Nothing in a file is trusted: sizes must add up, the checksum
 * must be right, every decision must be possible, and plans are made and placed again. So an
 * old, broken or forged file (the hash is not cryptographic) may cost time, but cannot do harm. */
#include "graph/memory/budget/cache.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/env.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/status.h"
#include "core/text.h"
#include "graph/memory/policies/portfolio.h"
#include "graph/memory/problem/decisions.h"
#include "graph/memory/problem/lower.h"

#define MAGIC   0x6e616c5072696557u
#define VERSION 4u

enum { MOST_PLANS = 1024 };

typedef struct weir_cache_head {
    uint64_t magic, version, key[2];
    uint64_t intervals, ops; /* ops: number of times that follow; 0: none */
    uint64_t plans, complete;
    double   rates[2];
} weir_cache_head;

/* The words of a plan: bytes that the policy planned for, bytes of the placement, and the quick
 * plan that makes it again (weir_portfolio_plan); entry 0: its decisions do. */
typedef struct weir_cache_plan {
    uint64_t target, height, entry, limit;
} weir_cache_plan;

/* ---- the key ---- */

static uint64_t hash_range(uint64_t h, const weir_mem_problem *p, weir_index_range r)
{
    return weir_hash_bytes(weir_hash_u64(h, r.n), weir_refs(p, r), r.n * sizeof(uint32_t));
}

static uint64_t hash_double(uint64_t h, double v)
{
    return weir_hash_bytes(h, &v, sizeof v);
}

static uint64_t hash_problem(uint64_t h, const weir_mem_problem *p, bool times)
{
    h = weir_hash_u64(weir_hash_u64(h, p->ops.n), p->tensors.n);
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const weir_mem_op *t = &p->ops.at[i];
        h = weir_hash_u64(weir_hash_u64(h, t->work), t->rerun_before);
        h = weir_hash_u64(h, (uint64_t)t->kind << 8 | t->phase);
        h = weir_hash_u64(h, (uint64_t)t->n_write_only << 32 | t->region);
        h = hash_range(hash_range(h, p, t->in), p, t->out);
        h = hash_range(hash_range(hash_range(h, p, t->pairs), p, t->masked), p, t->changes);
        h = times ? hash_double(h, t->time) : h;
    }
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_mem_tensor *v = &p->tensors.at[k];
        h = weir_hash_u64(weir_hash_u64(weir_hash_u64(h, v->bytes), v->packed), v->mask);
        h = weir_hash_u64(h, (uint64_t)v->producer << 1 | v->output);
    }
    if (times)
        h = hash_double(hash_double(h, p->link_out), p->link_in);
    h = hash_double(hash_double(hash_double(h, p->copy_interference), p->pack_bandwidth),
                    p->copy_latency);
    return weir_hash_u64(h, p->resident);
}

static uint64_t hash_key(uint64_t h, const weir_mem_problem *p, const weir_cache_key *key)
{
    const char *const policy = key->policy ? key->policy : "auto";

    h = weir_hash_bytes(weir_hash_u64(h, VERSION), policy, strlen(policy));
    h = weir_hash_u64(weir_hash_u64(weir_hash_u64(h, key->align), key->whole), key->below);
    h = weir_hash_u64(weir_hash_u64(h, key->moves), key->machine);
    return hash_problem(h, p, key->times);
}

weir_status weir_cache_open(weir_cache *c, const char *folder, const weir_mem_problem *p,
                            const weir_cache_key *key)
{
    weir_string path = {0};

    *c = (weir_cache){0};
    folder = folder ? folder : getenv("WEIR_PLAN_CACHE");
    if (!folder || !*folder)
        return WEIR_OK;
    c->use = WEIR_CACHE_NEW;
    c->key[0] = hash_key(WEIR_HASH_SEED, p, key);
    c->key[1] = hash_key(~WEIR_HASH_SEED, p, key);
    if (weir_env_get()->mkdir(folder, 0700) != 0 && errno != EEXIST)
        c->use = WEIR_CACHE_FAILED;
    weir_string_add(&path, "%s/%016llx%016llx.plan", folder, (unsigned long long)c->key[0],
                    (unsigned long long)c->key[1]);
    c->path = weir_string_take(&path);
    return c->path ? WEIR_OK : WEIR_ERR_NOMEM;
}

void weir_cache_close(weir_cache *c)
{
    weir_mem_free(c->path);
    weir_mem_free(c->seconds);
    *c = (weir_cache){0};
}

/* ---- reading ---- */

/* Returns the bytes of one plan: a weir_cache_plan, then decisions, padded to a multiple of 8. */
static size_t plan_bytes(uint64_t intervals)
{
    return sizeof(weir_cache_plan) + ((size_t)intervals + 7) / 8 * 8;
}

/* Returns the bytes of a file with this header, whose numbers have been checked. */
static size_t file_bytes(const weir_cache_head *h)
{
    return sizeof *h + (size_t)h->ops * sizeof(double) +
           (size_t)h->plans * plan_bytes(h->intervals) + sizeof(uint64_t);
}

/* Returns the bytes of the largest file for the problem. */
static size_t most_bytes(const weir_mem_problem *p)
{
    const weir_cache_head h = {
        .intervals = weir_lower_intervals(p), .ops = p->ops.n, .plans = MOST_PLANS};
    return file_bytes(&h);
}

static bool head_is_right(const weir_cache *c, const weir_mem_problem *p, const weir_cache_head *h)
{
    return h->magic == MAGIC && h->version == VERSION && h->key[0] == c->key[0] &&
           h->key[1] == c->key[1] && h->intervals == weir_lower_intervals(p) &&
           h->plans <= MOST_PLANS && (h->ops == 0 || h->ops == p->ops.n);
}

/* Reads the whole file, which the caller frees. Returns NULL if it is not valid; *memory is false
 * if memory ran out. */
static char *load(const weir_cache *c, const weir_mem_problem *p, bool *memory)
{
    weir_cache_head h;
    uint64_t        sum;
    size_t          n;

    *memory = true;
    char *const file =
        c->path ? weir_file_load(c->path, sizeof h + sizeof sum, most_bytes(p), &n, memory) : NULL;
    if (!file)
        return NULL;
    memcpy(&h, file, sizeof h);
    memcpy(&sum, file + n - sizeof sum, sizeof sum);
    if (head_is_right(c, p, &h) && n == file_bytes(&h) &&
        sum == weir_hash_bytes(WEIR_HASH_SEED, file, n - sizeof sum))
        return file;
    weir_mem_free(file);
    return NULL;
}

static bool is_rate(double v)
{
    return isfinite(v) && v >= 0 && v < 1e18;
}

/* Copies the times from a loaded file. Returns false if memory runs out. */
static bool take_times(weir_cache *c, const char *file)
{
    weir_cache_head h;
    bool            good;

    memcpy(&h, file, sizeof h);
    weir_mem_free(c->seconds);
    c->seconds = NULL;
    if (h.ops == 0)
        return true;
    double *const seconds = weir_mem_alloc((size_t)h.ops * sizeof *seconds);
    if (!seconds)
        return false;
    memcpy(seconds, file + sizeof h, (size_t)h.ops * sizeof *seconds);
    memcpy(c->rates, h.rates, sizeof c->rates);
    good = is_rate(c->rates[0]) && is_rate(c->rates[1]);
    for (uint64_t i = 0; i < h.ops; i++)
        good = good && is_rate(seconds[i]);
    if (good)
        c->seconds = seconds;
    else
        weir_mem_free(seconds);
    return true;
}

weir_status weir_cache_read_times(weir_cache *c, const weir_mem_problem *p)
{
    bool        ok;
    char *const file = load(c, p, &ok);

    if (file)
        ok = take_times(c, file);
    weir_mem_free(file);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_status weir_cache_read(weir_cache *c, const weir_fit *f, weir_frontier *l)
{
    weir_cache_head h;
    bool            ok;
    char *const     file = load(c, f->p, &ok);
    weir_status     status = ok ? WEIR_OK : WEIR_ERR_NOMEM;
    bool            good = file != NULL;

    if (!file)
        return status;
    memcpy(&h, file, sizeof h);
    for (uint64_t i = 0; i < h.plans && good && status == WEIR_OK; i++) {
        const char *const at =
            file + sizeof h + (size_t)h.ops * sizeof(double) + (size_t)i * plan_bytes(h.intervals);
        weir_cache_plan n;
        memcpy(&n, at, sizeof n);
        const uint8_t *const      decisions = (const uint8_t *)at + sizeof n;
        const weir_frontier_point r = {
            .target = (size_t)n.target,
            .height = (size_t)n.height,
            .made_by = {n.entry < UINT32_MAX ? (uint32_t)n.entry : UINT32_MAX, (size_t)n.limit}};
        good = weir_decisions_are_possible(f->p, decisions) &&
               (r.made_by.entry == 0 || weir_portfolio_has(f->p, r.made_by.entry));
        if (good)
            status = weir_frontier_evaluate(l, f, &r, decisions, &good);
    }
    if (good && status == WEIR_OK) {
        l->complete = h.complete == 1;
        c->use = WEIR_CACHE_USED;
    }
    l->grown = !good;
    weir_mem_free(file);
    return status;
}

/* ---- writing ---- */

static char *fill(const weir_cache *c, const weir_mem_problem *p, const weir_frontier *l, size_t *n)
{
    weir_cache_head h = {.magic = MAGIC,
                         .version = VERSION,
                         .key = {c->key[0], c->key[1]},
                         .intervals = weir_lower_intervals(p),
                         .ops = c->seconds ? p->ops.n : 0,
                         .complete = l->complete,
                         .rates = {c->rates[0], c->rates[1]}};

    h.plans = l->points.n < MOST_PLANS ? l->points.n : MOST_PLANS;
    *n = file_bytes(&h);
    char *const file = weir_mem_zalloc(*n, 1), *at = file;
    if (!file)
        return NULL;
    memcpy(at, &h, sizeof h);
    at += sizeof h;
    if (h.ops)
        memcpy(at, c->seconds, (size_t)h.ops * sizeof(double));
    at += (size_t)h.ops * sizeof(double);
    for (uint64_t i = 0; i < h.plans; i++, at += plan_bytes(h.intervals)) {
        const weir_frontier_point *const r = &l->points.at[i];
        const weir_cache_plan plan = {r->target, r->height, r->made_by.entry, r->made_by.limit};
        memcpy(at, &plan, sizeof plan);
        memcpy(at + sizeof plan, r->decisions, (size_t)h.intervals);
    }
    const uint64_t sum = weir_hash_bytes(WEIR_HASH_SEED, file, (size_t)(at - file));
    memcpy(at, &sum, sizeof sum);
    return file;
}

void weir_cache_write(weir_cache *c, const weir_mem_problem *p, weir_frontier *l)
{
    size_t n;

    if (!c->path || !l->grown)
        return;
    char *const file = fill(c, p, l, &n);
    if (!file || !weir_file_replace(c->path, file, n))
        c->use = WEIR_CACHE_FAILED;
    weir_mem_free(file);
    l->grown = false;
}

/* ---- planning ---- */

weir_status weir_cache_build_frontier(weir_cache *c, weir_frontier *l, const weir_fit *f)
{
    if (c->path && !l->complete)
        WEIR_TRY(weir_cache_read(c, f, l));
    return weir_frontier_build(l, f);
}

weir_status weir_cache_fit(weir_cache *c, weir_frontier *l, weir_fit *f)
{
    weir_status status = weir_frontier_fit(l, f);

    if (status == WEIR_OK && !f->fits) {
        status = weir_fit_run(f);
        const weir_frontier_point r = {f->target, f->height, f->s.time - f->p->time, NULL,
                                       f->made_by};
        if (status == WEIR_OK && f->fits && f->decisions &&
            !weir_frontier_add(l, &r, f->decisions, weir_lower_intervals(f->p)))
            status = WEIR_ERR_NOMEM;
    }
    if (status == WEIR_OK)
        weir_cache_write(c, f->p, l);
    return status;
}
