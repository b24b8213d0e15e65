/* kernel_table.c - chooses kernels by measured time, and keeps the choices in a file.
 *
 * The file: a header, records, a checksum, in the machine's byte order. Nothing in it is trusted:
 * a file with a wrong size, checksum or machine is ignored, and so is a record that names a kernel
 * that the call lacks or whose bits are not those of the first kernel (they are probed again). So
 * an old, broken or forged file may cost time, but changes no result. */
#include "device/kernel_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/env.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/shape.h"
#include "core/status.h"
#include "device/kernel_probe.h"

#define MAGIC 0x626154726e4b5757u

enum {
    MOST = 1 << 16,             /* records of a file */
    FLOPS = 2000000,            /* calls with fewer keep their first kernel */
    ROUNDS = 3,
    KERNELS = 1 + WEIR_KERNEL_OTHERS
};

/* A kernel must be faster by this factor to replace the first one. */
#define GAIN 0.97

typedef struct record {
    uint64_t key[2];
    uint32_t chosen, equal;     /* number of the chosen kernel; bit i: kernel i may be chosen */
} record;

typedef struct header {
    uint64_t magic, machine[2], records;
} header;

struct weir_kernel_table {
    char    *folder, *path;             /* path: of the file; NULL: not looked for yet */
    bool     any, unwritten;            /* unwritten: the file could not be written */
    uint64_t machine[2];
    uint32_t measured, others;          /* calls: timed; with another than the first kernel */
    WEIR_VEC(record) records;
};

/* ---- the file ---- */

/* Hashes what times and bits depend on besides the call: machine, libraries, threads, version. */
static weir_status find_file(weir_device *d, struct weir_kernel_table *t)
{
    weir_string text = {0}, path = {0};

    weir_string_add(&text, "weir %s, %s, %d threads\n", WEIR_VERSION_STRING, d->ops->name,
                    weir_threads_count(d->threads));
    d->ops->info(d, &text);
    char *const about = weir_string_take(&text);
    if (!about)
        return WEIR_ERR_NOMEM;
    for (int i = 0; i < 2; i++)
        t->machine[i] = weir_hash_bytes(i ? ~WEIR_HASH_SEED : WEIR_HASH_SEED, about, strlen(about));
    weir_mem_free(about);
    if (weir_env_get()->mkdir(t->folder, 0700) != 0 && errno != EEXIST)
        t->unwritten = true;
    weir_string_add(&path, "%s/%016llx.kernels", t->folder, (unsigned long long)t->machine[0]);
    t->path = weir_string_take(&path);
    return t->path ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status load(struct weir_kernel_table *t)
{
    enum { SUM = sizeof(uint64_t) };
    header   h;
    uint64_t sum;
    size_t   n;
    bool     memory;
    char *const data = weir_file_load(t->path, sizeof h + SUM,
                                      sizeof h + MOST * sizeof(record) + SUM, &n, &memory);

    if (!data)
        return memory ? WEIR_OK : WEIR_ERR_NOMEM;
    memcpy(&h, data, sizeof h);
    memcpy(&sum, data + n - SUM, SUM);
    bool good = h.magic == MAGIC && h.machine[0] == t->machine[0] &&
                h.machine[1] == t->machine[1] && h.records <= MOST &&
                n == sizeof h + (size_t)h.records * sizeof(record) + SUM &&
                sum == weir_hash_bytes(WEIR_HASH_SEED, data, n - SUM);
    for (uint64_t i = 0; i < h.records && good && memory; i++) {
        record r;
        memcpy(&r, data + sizeof h + (size_t)i * sizeof r, sizeof r);
        good = r.chosen < KERNELS && r.equal < 1u << KERNELS && r.equal & 1u &&
               r.equal >> r.chosen & 1u;
        memory = !good || weir_vec_push(&t->records, r);
    }
    if (!good)
        t->records.n = 0;
    weir_mem_free(data);
    return memory ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* Reads the file, once. */
static weir_status ready(weir_device *d, struct weir_kernel_table *t)
{
    if (t->path)
        return WEIR_OK;
    WEIR_TRY(find_file(d, t));
    return load(t);
}

/* A folder that can't be written to is no failure: the choices hold until the device closes. */
static weir_status save(struct weir_kernel_table *t)
{
    const header h = {MAGIC, {t->machine[0], t->machine[1]}, t->records.n};
    const size_t records = t->records.n * sizeof(record), n = sizeof h + records;
    uint64_t     sum;
    char *const  data = weir_mem_alloc(n + sizeof sum);

    if (!data)
        return WEIR_ERR_NOMEM;
    memcpy(data, &h, sizeof h);
    memcpy(data + sizeof h, t->records.at, records);
    sum = weir_hash_bytes(WEIR_HASH_SEED, data, n);
    memcpy(data + n, &sum, sizeof sum);
    t->unwritten = !weir_file_replace(t->path, data, n + sizeof sum);
    weir_mem_free(data);
    return WEIR_OK;
}

/* ---- the kernels of a call ---- */

typedef struct contest {
    weir_kernel kernel[KERNELS];        /* run is NULL: none; the first is the device's own */
    uint32_t    there;                  /* bit i: kernel i is */
    size_t      work;                   /* most bytes of any */
} contest;

static void drop(weir_kernel *k)
{
    weir_kernel_drop(k);
    *k = (weir_kernel){0};
}

/* Is kernel i another one that computes as many rows at a time? */
static bool is_new(const contest *x, int i)
{
    if (!x->kernel[i].run || x->kernel[i].rows != x->kernel[0].rows)
        return false;
    for (int k = 0; k < i; k++)
        if (x->there >> k & 1 && strcmp(x->kernel[k].impl, x->kernel[i].impl) == 0)
            return false;
    return true;
}

static weir_status gather(weir_device *d, const weir_call *c, contest *x)
{
    x->there = 1;
    x->work = x->kernel[0].work;
    for (int i = 1; i < KERNELS; i++) {
        WEIR_TRY(d->ops->other(d, c, i, &x->kernel[i]));
        if (!is_new(x, i)) {
            drop(&x->kernel[i]);
            continue;
        }
        x->there |= 1u << i;
        x->work = x->kernel[i].work > x->work ? x->kernel[i].work : x->work;
    }
    return WEIR_OK;
}

static uint32_t equal_ones(contest *x, weir_probe *p, uint32_t asked)
{
    uint32_t equal = 1;

    for (int i = 1; i < KERNELS; i++)
        if (asked >> i & 1 && weir_probe_equal(p, &x->kernel[0], &x->kernel[i]))
            equal |= 1u << i;
    return equal;
}

/* The kernel of the mask that is fastest, by the least of a few interleaved times. */
static uint32_t fastest(contest *x, weir_probe *p, uint32_t mask)
{
    double   best[KERNELS];
    uint32_t chosen = 0;

    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < KERNELS; i++)
            if (mask >> i & 1) {
                const double s = weir_probe_seconds(p, &x->kernel[i]);
                best[i] = round == 0 || s < best[i] ? s : best[i];
            }
    for (uint32_t i = 1; i < KERNELS; i++)
        if (mask >> i & 1 && best[i] < best[chosen] * (chosen == 0 ? GAIN : 1))
            chosen = i;
    return chosen;
}

/* ---- choosing ---- */

/* A kernel that is given more workspace than it needs. Its end counts as used, as in every kernel,
 * so that measured peaks are the planned ones. */
typedef struct roomy {
    weir_kernel inner;
    size_t      work;
} roomy;

static weir_status roomy_run(const weir_kargs *k)
{
    enum { END = 64 };
    const roomy *const r = k->state;
    const size_t       end = r->work < END ? r->work : END;
    weir_kargs         own = *k;

    memset((char *)k->work + r->work - end, 0, end);
    own.state = r->inner.state;
    own.work = r->inner.work > 0 ? k->work : NULL;
    return r->inner.run(&own);
}

static void roomy_free(void *state)
{
    roomy *const r = state;

    weir_kernel_drop(&r->inner);
    weir_mem_free(r);
}

static weir_status give_room(weir_kernel *k, size_t work)
{
    if (k->work >= work)
        return WEIR_OK;
    roomy *const r = weir_mem_alloc(sizeof *r);
    if (!r)
        return WEIR_ERR_NOMEM;
    *r = (roomy){*k, work};
    *k = (weir_kernel){.run = roomy_run, .work = work, .state = r, .destroy = roomy_free,
                       .impl = r->inner.impl, .rows = r->inner.rows};
    return WEIR_OK;
}

static record *find(struct weir_kernel_table *t, const uint64_t key[2])
{
    for (size_t i = 0; i < t->records.n; i++)
        if (t->records.at[i].key[0] == key[0] && t->records.at[i].key[1] == key[1])
            return &t->records.at[i];
    return NULL;
}

/* May the record be followed? Kernels with other bits than the first only if any may be chosen. */
static bool holds(const struct weir_kernel_table *t, contest *x, weir_probe *p, const record *r)
{
    if (r->equal & ~x->there)
        return false;
    return t->any || r->chosen == 0 || equal_ones(x, p, 1u << r->chosen) != 1;
}

/* Times the kernels, and keeps the choice. */
static weir_status measure(struct weir_kernel_table *t, contest *x, weir_probe *p, record *old,
                           record *r)
{
    r->equal = t->any ? x->there : equal_ones(x, p, x->there);
    r->chosen = r->equal == 1 ? 0 : fastest(x, p, r->equal);
    t->measured++;
    if (old)
        *old = *r;
    else if (t->records.n < MOST && !weir_vec_push(&t->records, *r))
        return WEIR_ERR_NOMEM;
    return save(t);
}

static weir_status decide(weir_device *d, const weir_call *c, const uint64_t hash[2], contest *x,
                          record *r)
{
    struct weir_kernel_table *const t = d->table;
    weir_probe                      p;

    WEIR_TRY(ready(d, t));
    *r = (record){.equal = 1};
    for (int i = 0; i < 2; i++)
        r->key[i] = weir_hash_bytes(weir_hash_u64(hash[i], t->any), weir_op_name(c->op),
                                    strlen(weir_op_name(c->op)));
    WEIR_TRY(weir_probe_open(&p, d, c, x->work));
    record *const old = find(t, r->key);
    weir_status   status = WEIR_OK;
    if (old && holds(t, x, &p, old))
        *r = *old;
    else
        status = measure(t, x, &p, old, r);
    weir_probe_close(&p);
    t->others += r->chosen != 0;
    return status;
}

/* Only calls in f32 that are worth it: a call of halves may be a product in f32 between casts. If
 * any bits may be chosen, no call that computes some rows of another one
 * (graph/passes/update_rows.c) and no call that it may be a part of: their bits must agree. */
static bool suits(const weir_device *d, const weir_call *c, const weir_kernel *k)
{
    if (!d->table || !d->ops->other || !d->ops->host || !c->def || weir_call_flops(c) < FLOPS)
        return false;
    for (int i = 0; i < c->nin + c->nout; i++) {
        const weir_layout *const l = i < c->nin ? &c->in[i] : &c->out[i - c->nin];
        if (l->desc.dtype != WEIR_F32 || (d->table->any && !weir_shape_is_dense(l)))
            return false;
        for (int axis = 0; axis < l->desc.ndim; axis++)
            if (l->stride[axis] < 0)
                return false;
    }
    return !d->table->any || k->rows == 0;
}

weir_status weir_kernel_table_choose(weir_device *d, const weir_call *c, const uint64_t hash[2],
                                     weir_kernel *k)
{
    contest      x = {.kernel = {*k}};
    record       r = {.equal = 1};
    weir_failure before;
    size_t       work = k->work;

    if (!suits(d, c, k))
        return WEIR_OK;
    weir_failure_get(&before);
    weir_status status = gather(d, c, &x);
    if (status == WEIR_OK && x.there != 1)
        status = decide(d, c, hash, &x, &r);
    if (status != WEIR_OK) {        /* no memory for a probe: the first kernel stays */
        weir_failure_set(&before);
        r = (record){.equal = 1};
    }
    for (uint32_t i = 0; i < KERNELS; i++) {
        if (r.equal >> i & 1)
            work = x.kernel[i].work > work ? x.kernel[i].work : work;
        if (i != r.chosen)
            drop(&x.kernel[i]);
    }
    *k = x.kernel[r.chosen];
    status = give_room(k, work);
    if (status != WEIR_OK)
        drop(k);
    return status;
}

/* ---- the device's table ---- */

/* A line, newline included. */
static void info(weir_device *d, weir_string *s)
{
    struct weir_kernel_table *const t = d->table;
    weir_failure                    before;

    weir_failure_get(&before);
    if (ready(d, t) != WEIR_OK)
        weir_failure_set(&before);
    weir_string_add(s, "kernels chosen by time among %s (WEIR_KERNELS): %u calls known, %u timed "
                       "by this device, %u of its calls not by the first kernel%s\n",
                    t->any ? "all" : "those with equal bits", t->records.n, t->measured, t->others,
                    t->unwritten ? "; the file can't be written" : "");
}

weir_status weir_kernel_table_open(weir_device *d)
{
    const char *const folder = getenv("WEIR_KERNELS"), *const bits = getenv("WEIR_KERNEL_BITS");

    if (!folder || !*folder)
        return WEIR_OK;
    struct weir_kernel_table *const t = weir_mem_zalloc(1, sizeof *t);
    if (!t)
        return WEIR_ERR_NOMEM;
    t->any = bits && strcmp(bits, "any") == 0;
    t->folder = weir_mem_strdup(folder);
    if (!t->folder) {
        weir_mem_free(t);
        return WEIR_ERR_NOMEM;
    }
    d->table = t;
    d->table_info = info;
    return WEIR_OK;
}

void weir_kernel_table_free(weir_device *d)
{
    struct weir_kernel_table *const t = d->table;

    if (!t)
        return;
    weir_mem_free(t->folder);
    weir_mem_free(t->path);
    weir_vec_free(&t->records);
    weir_mem_free(t);
    d->table = NULL;
    d->table_info = NULL;
}
