/* kernel.c - the table of selected kernels: open addressing with linear probing. Entries are
 * allocated separately, so they never move; each owns a copy of everything that its key consists
 * of. */
#include "device/kernel.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "device/device.h"
#include "device/kernel_table.h"

typedef struct weir_kernel_entry {
    weir_kernel kernel;
    uint64_t    hash;
    weir_op     op;
    int         nin, nout;
    size_t      attr_bytes;
    weir_layout layout[]; /* [nin + nout], then the attributes */
} entry;

static const weir_layout *operand(const weir_call *c, int i)
{
    return i < c->nin ? &c->in[i] : &c->out[i - c->nin];
}

static unsigned char *attr_of(entry *e)
{
    return (unsigned char *)&e->layout[e->nin + e->nout];
}

static uint64_t hash_layout(uint64_t h, const weir_layout *l)
{
    h = weir_hash_u64(h, (uint64_t)l->desc.dtype << 8 | (uint64_t)l->desc.ndim);
    for (int i = 0; i < l->desc.ndim; i++) {
        h = weir_hash_u64(h, (uint64_t)l->desc.dim[i]);
        h = weir_hash_u64(h, (uint64_t)l->stride[i]);
    }
    return h;
}

static uint64_t hash_call(uint64_t seed, const weir_call *c)
{
    uint64_t h = weir_hash_u64(seed, (uint64_t)c->op << 16 | (uint64_t)c->nin << 8 |
                                         (uint64_t)c->nout);
    for (int i = 0; i < c->nin + c->nout; i++)
        h = hash_layout(h, operand(c, i));
    return weir_hash_bytes(h, c->attr, c->attr_bytes);
}

static bool same_layout(const weir_layout *a, const weir_layout *b)
{
    return weir_desc_equal(&a->desc, &b->desc) &&
           memcmp(a->stride, b->stride, (size_t)a->desc.ndim * sizeof *a->stride) == 0;
}

static bool matches(entry *e, uint64_t hash, const weir_call *c)
{
    if (e->hash != hash || e->op != c->op || e->nin != c->nin || e->nout != c->nout ||
        e->attr_bytes != c->attr_bytes)
        return false;
    for (int i = 0; i < c->nin + c->nout; i++)
        if (!same_layout(&e->layout[i], operand(c, i)))
            return false;
    return c->attr_bytes == 0 || memcmp(attr_of(e), c->attr, c->attr_bytes) == 0;
}

/* Returns the call's entry, or the free slot for it. The table has at least one free slot. */
static entry **find(const weir_kernel_cache *t, uint64_t hash, const weir_call *c)
{
    for (uint32_t i = (uint32_t)hash;; i++) {
        entry **at = &t->slot[i & (t->cap - 1)];
        if (!*at || (c && matches(*at, hash, c)))
            return at;
    }
}

/* Keeps the table at most half full, including one entry more. */
static weir_status reserve(weir_kernel_cache *t)
{
    if ((uint64_t)t->n * 2 + 2 <= t->cap)
        return WEIR_OK;
    weir_kernel_cache larger = {.n = t->n, .cap = t->cap > 0 ? t->cap * 2 : 64};
    larger.slot = weir_mem_zalloc(larger.cap, sizeof(entry *));
    if (!larger.slot)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < t->cap; i++)
        if (t->slot[i])
            *find(&larger, t->slot[i]->hash, NULL) = t->slot[i];
    weir_mem_free(t->slot);
    *t = larger;
    return WEIR_OK;
}

static void entry_free(entry *e)
{
    weir_kernel_drop(&e->kernel);
    weir_mem_free(e);
}

/* Creates an entry with the kernel that the device selects. */
static weir_status entry_new(weir_device *d, const weir_call *c, uint64_t hash, entry **out)
{
    const weir_choose_fn choose = d->ops->kernel[c->op];
    if (!choose)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "device %s has no kernel for it", d->ops->name);
    const size_t n = (size_t)c->nin + (size_t)c->nout;
    entry *e = weir_mem_alloc(sizeof *e + n * sizeof *e->layout + c->attr_bytes);
    if (!e)
        return WEIR_ERR_NOMEM;
    *e = (entry){
        .hash = hash, .op = c->op, .nin = c->nin, .nout = c->nout, .attr_bytes = c->attr_bytes};
    for (int i = 0; i < c->nin + c->nout; i++)
        e->layout[i] = *operand(c, i);
    if (c->attr_bytes > 0)
        memcpy(attr_of(e), c->attr, c->attr_bytes);
    weir_status s = choose(d, c, &e->kernel);
    if (s == WEIR_OK && d->table)
        s = weir_kernel_table_choose(
            d, c, (const uint64_t[]){hash, hash_call(~WEIR_HASH_SEED, c)}, &e->kernel);
    if (s != WEIR_OK) {
        weir_mem_free(e);
        return s;
    }
    *out = e;
    return WEIR_OK;
}

weir_status weir_kernel_of(weir_device *d, const weir_call *c, const weir_kernel **out)
{
    weir_kernel_cache *t = &d->kernels;
    const uint64_t     hash = hash_call(WEIR_HASH_SEED, c);
    entry             *e = t->cap > 0 ? *find(t, hash, c) : NULL;
    if (!e) {
        WEIR_TRY(entry_new(d, c, hash, &e));
        /* Reserved only now: a kernel composed of other kernels has added their entries. */
        const weir_status s = reserve(t);
        if (s != WEIR_OK) {
            entry_free(e);
            return s;
        }
        *find(t, hash, NULL) = e;
        t->n++;
    }
    *out = &e->kernel;
    return WEIR_OK;
}

void weir_kernel_cache_free(weir_kernel_cache *t)
{
    for (uint32_t i = 0; i < t->cap; i++)
        if (t->slot[i])
            entry_free(t->slot[i]);
    weir_mem_free(t->slot);
    *t = (weir_kernel_cache){0};
}
