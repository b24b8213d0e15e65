/* nonfinite.c - finds the first operation of a step whose result holds a NaN or an infinity.
 *
 * Instructions run in the order of the plan on one stream, and the results of each are looked at
 * right after it, before a later one may take over their memory. All earlier results are finite
 * then, so an operation has inputs that are not only if it reads a parameter, state or input that
 * was not finite before the run. */
#include "graph/runtime/nonfinite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/half.h"
#include "core/status.h"
#include "graph/ir/format.h"

/* ---- elements ---- */

static double element(const void *at, weir_dtype type, int64_t i)
{
    switch (type) {
    case WEIR_F32: return (double)((const float *)at)[i];
    case WEIR_F64: return ((const double *)at)[i];
    case WEIR_F16: return (double)weir_from_f16(((const uint16_t *)at)[i]);
    case WEIR_BF16: return (double)weir_from_bf16(((const uint16_t *)at)[i]);
    default: return 0;
    }
}

static bool is_bad(const weir_nonfinite_search *s, double v)
{
    return isnan(v) || (isinf(v) && !s->nan_only);
}

/* The first element that is not finite, row-major in the dims of the layout; -1: none. at: element
 * 0. */
static int64_t first_bad(const weir_nonfinite_search *s, const weir_layout *l, const void *at,
                         double *value)
{
    const int64_t n = weir_shape_count(&l->desc);
    int64_t       index[WEIR_MAX_DIMS] = {0}, place = 0;

    for (int64_t i = 0; i < n; i++) {
        *value = element(at, l->desc.dtype, place);
        if (is_bad(s, *value))
            return i;
        for (int k = l->desc.ndim; k-- > 0;) {
            place += l->stride[k];
            if (++index[k] < l->desc.dim[k])
                break;
            place -= l->stride[k] * l->desc.dim[k];
            index[k] = 0;
        }
    }
    return -1;
}

/* ---- before and after the run ---- */

/* The storage of which this one is a copy, or itself. */
static uint32_t original(const weir_graph *g, uint32_t storage)
{
    while (g->storages.at[storage].origin != WEIR_NONE)
        storage = g->storages.at[storage].origin;
    return storage;
}

/* Whether the run overwrites the storage, and with which layout a node first reads it. */
typedef struct access {
    bool               written;
    const weir_layout *read;
    int64_t            offset;
} access;

static void note_access(const weir_graph *g, access *of)
{
    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_node *n = &g->nodes.at[i];
        for (int k = 0; k < n->nin; k++) {
            const weir_value *const v = &g->values.at[n->in[k]];
            access *const           a = &of[original(g, v->storage)];
            a->written |= n->def->mutates >> k & 1;
            if (!(n->def->write_only >> k & 1) && weir_is_any_float(v->layout.desc.dtype) &&
                (!a->read || weir_shape_count(&v->layout.desc) > weir_shape_count(&a->read->desc)))
                *a = (access){a->written, &v->layout, v->offset};
        }
    }
    for (uint32_t i = 0; i < g->storages.n; i++)       /* overwritten through copies */
        of[i].written |= g->storages.at[i].offloaded;
}

/* Copies the elements of a storage that the run reads or overwrites to the host, looks for values
 * that are not finite, and keeps the copy if the run overwrites them. */
static weir_status save(weir_nonfinite_search *s, uint32_t i, const access *a)
{
    weir_storage *const st = &s->g->storages.at[i];
    weir_device *const  d = s->g->dev;
    weir_block *const   b = st->block;
    const bool          offloaded = b->offloaded;
    double              value;

    if (st->bytes == 0 || !b->written)
        return WEIR_OK;
    char *const copy = weir_mem_alloc(st->bytes);
    if (!copy)
        return WEIR_ERR_NOMEM;
    weir_status status = offloaded ? weir_block_touch(b) : WEIR_OK;
    if (status == WEIR_OK)
        status = d->ops->download(d, copy, b->data, st->bytes);
    if (offloaded)
        weir_block_offload_clean(b);
    if (status == WEIR_OK && a->read)
        s->bad[i] = first_bad(s, a->read, copy + (size_t)a->offset *
                              weir_dtype_size(a->read->desc.dtype), &value) >= 0;
    if (status == WEIR_OK && a->written)
        s->saved[i] = copy;
    else
        weir_mem_free(copy);
    return status;
}

weir_status weir_nonfinite_begin(weir_nonfinite_search *s)
{
    const weir_graph *g = s->g;
    access *const     of = weir_mem_zalloc(g->storages.n + 1u, sizeof *of);
    size_t            most = 1;
    weir_status       status = WEIR_OK;

    s->bad = weir_mem_zalloc(g->storages.n + 1u, sizeof *s->bad);
    s->saved = weir_mem_zalloc(g->storages.n + 1u, sizeof *s->saved);
    for (uint32_t i = 0; i < g->storages.n; i++)
        most = g->storages.at[i].bytes > most ? g->storages.at[i].bytes : most;
    if (!g->dev->ops->host)
        s->staging = weir_mem_alloc(most);
    if (!of || !s->bad || !s->saved || (!g->dev->ops->host && !s->staging)) {
        weir_mem_free(of);
        return WEIR_ERR_NOMEM;
    }
    note_access(g, of);
    status = g->dev->ops->sync(g->dev);
    for (uint32_t i = 0; i < g->storages.n && status == WEIR_OK; i++)
        if (g->storages.at[i].external && (of[i].read || of[i].written) && !g->storages.at[i].made)
            status = save(s, i, &of[i]);
    weir_mem_free(of);
    return status;
}

static weir_status restore(const weir_nonfinite_search *s, uint32_t i)
{
    const weir_storage *const st = &s->g->storages.at[i];
    weir_device *const        d = s->g->dev;
    const bool                offloaded = st->block->offloaded;

    WEIR_TRY(weir_block_touch(st->block));
    WEIR_TRY(d->ops->upload(d, st->block->data, s->saved[i], st->bytes));
    return offloaded ? weir_block_offload(st->block) : WEIR_OK;
}

weir_status weir_nonfinite_end(weir_nonfinite_search *s, weir_status status)
{
    if (status == WEIR_OK)
        status = s->status;
    for (uint32_t i = 0; s->saved && i < s->g->storages.n; i++) {
        const weir_status back = s->saved[i] ? restore(s, i) : WEIR_OK;
        status = status == WEIR_OK ? back : status;
        weir_mem_free(s->saved[i]);
    }
    weir_mem_free(s->bad);
    weir_mem_free(s->saved);
    weir_mem_free(s->staging);
    return status;
}

/* ---- during the run ---- */

static void *address(const weir_graph *g, const weir_operand *o)
{
    char *const base = o->external ? g->storages.at[o->storage].block->data : g->dev->arena.at;
    return base + o->offset;
}

/* Fills *found for operand k (inputs, then results) of instruction i. */
static void report(weir_nonfinite_search *s, uint32_t i, int k, int64_t index, double value)
{
    const weir_graph *const g = s->g;
    const weir_instr *const ins = &g->plan->instr[i];
    weir_nonfinite *const   f = s->found;
    weir_string             name = {0}, op = {0};

    *f = (weir_nonfinite){.found = true, .instruction = i, .updates = k < ins->call.nin,
                          .result = k < ins->call.nin ? k : k - ins->call.nin, .index = index,
                          .value = value, .bad_input = -1};
    weir_format_name(&name, g, i);
    weir_format_op(&op, &ins->call, "+");
    snprintf(f->name, sizeof f->name, "%s", name.at ? name.at : op.at ? op.at : "");
    snprintf(f->op, sizeof f->op, "%s", op.at ? op.at : "");
    weir_mem_free(name.at);
    weir_mem_free(op.at);
    for (int j = ins->call.nin; j-- > 0;) {
        const uint32_t storage = original(g, ins->in[j].storage);
        if (s->bad[storage] && !(ins->call.def->write_only >> j & 1)) {
            f->bad_input = j;
            snprintf(f->input, sizeof f->input, "%s", weir_storage_name(g, storage));
        }
    }
}

void weir_nonfinite_look(void *search, uint32_t i)
{
    weir_nonfinite_search *const      s = search;
    const weir_instr *const ins = &s->g->plan->instr[i];
    weir_device *const      d = s->g->dev;

    for (int k = 0; k < ins->call.nin + ins->call.nout; k++) {
        const bool               in = k < ins->call.nin;
        const weir_layout *const l = in ? &ins->call.in[k] : &ins->call.out[k - ins->call.nin];
        double                   value;
        if (s->found->found || s->status != WEIR_OK || !weir_is_any_float(l->desc.dtype) ||
            (in && !(ins->call.def->mutates >> k & 1)) || weir_shape_count(&l->desc) == 0)
            continue;
        const void *at = address(s->g, &ins->in[k]);
        if (s->staging) {
            s->status = d->ops->download(d, s->staging, at, weir_shape_bytes(&l->desc));
            at = s->staging;
        }
        const int64_t index = s->status == WEIR_OK ? first_bad(s, l, at, &value) : -1;
        if (index >= 0)
            report(s, i, k, index, value);
    }
}
