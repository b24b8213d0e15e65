/* problem.c - builds a problem op by op. */
#include "graph/memory/problem/problem.h"

#include <string.h>

weir_op_class weir_op_class_of(const char *name)
{
    static const char *const matmuls[] = {"mm", "addmm", "bmm", "baddbmm", "matmul",
                                          "batch_matmul", "linear", "attention"};

    if (strncmp(name, "conv", 4) == 0)
        return WEIR_OP_CLASS_CONV;
    for (size_t i = 0; i < sizeof matmuls / sizeof *matmuls; i++)
        if (strcmp(name, matmuls[i]) == 0)
            return WEIR_OP_CLASS_MATMUL;
    return WEIR_OP_CLASS_OTHER;
}

bool weir_mem_problem_add_tensor(weir_mem_problem *p, size_t bytes, size_t packed, bool output)
{
    return weir_vec_push(&p->tensors, (weir_mem_tensor){.bytes = bytes,
                                                        .packed = packed,
                                                        .producer = WEIR_NO_OP,
                                                        .output = output});
}

/* Appends the numbers to refs; `once` drops duplicates. */
static bool append(weir_mem_problem *p, uint32_t n, const uint32_t *v, bool once,
                   weir_index_range *r)
{
    *r = (weir_index_range){p->refs.n, 0};
    for (uint32_t i = 0; i < n; i++) {
        bool seen = false;
        for (uint32_t k = 0; once && k < i && !seen; k++)
            seen = v[k] == v[i];
        if (!seen && !weir_vec_push(&p->refs, v[i]))
            return false;
    }
    r->n = p->refs.n - r->first;
    return true;
}

bool weir_mem_problem_add_op(weir_mem_problem *p, const weir_mem_op_def *d)
{
    weir_mem_op t = {.time = d->time,
                     .work = d->work,
                     .rerun_before = d->rerun_before,
                     .kind = (uint8_t)d->kind,
                     .phase = (uint8_t)d->phase,
                     .region = d->region,
                     .n_write_only = d->n_write_only};

    if (!append(p, d->nin, d->in, true, &t.in) || !append(p, d->nout, d->out, true, &t.out) ||
        !append(p, d->npairs, d->pairs, false, &t.pairs) ||
        !append(p, d->nmasked, d->masked, true, &t.masked) ||
        !append(p, d->nchanges, d->changes, true, &t.changes))
        return false;
    for (uint32_t i = 0; i < t.out.n; i++)
        p->tensors.at[weir_refs(p, t.out)[i]].producer = p->ops.n;
    for (uint32_t i = 0; i < t.masked.n; i++) {
        weir_mem_tensor *k = &p->tensors.at[weir_refs(p, t.masked)[i]];
        k->mask = weir_mask_bytes(k->bytes);
    }
    return weir_vec_push(&p->ops, t);
}

bool weir_mem_problem_end(weir_mem_problem *p)
{
    uint32_t *const count = weir_mem_zalloc((size_t)p->tensors.n + 1, sizeof *count);

    if (!count)
        return false;
    p->time = 0;
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const weir_mem_op *t = &p->ops.at[i];
        p->time += t->time;
        for (uint32_t k = 0; k < t->in.n; k++)
            count[weir_refs(p, t->in)[k]]++;
    }
    uint32_t at = p->refs.n, total = 0;
    for (uint32_t k = 0; k < p->tensors.n; k++)
        total += count[k];
    const bool ok = weir_vec_reserve(&p->refs, (uint64_t)at + total);
    for (uint32_t k = 0; k < p->tensors.n && ok; k++) {
        p->tensors.at[k].uses = (weir_index_range){at, 0};
        at += count[k];
    }
    for (uint32_t i = 0; i < p->ops.n && ok; i++) {
        const weir_index_range in = p->ops.at[i].in;
        for (uint32_t k = 0; k < in.n; k++) {
            weir_index_range *const uses = &p->tensors.at[p->refs.at[in.first + k]].uses;
            p->refs.at[uses->first + uses->n++] = i;
        }
    }
    p->refs.n = ok ? at : p->refs.n;
    weir_mem_free(count);
    return ok;
}

/* Allocates *v, which the caller frees, with the *n numbers of the range that are below `end`. */
static bool keep_below(const weir_mem_problem *p, weir_index_range r, uint32_t end, uint32_t **v,
                       uint32_t *n)
{
    uint32_t *const kept = weir_mem_alloc((r.n + 1u) * sizeof *kept);

    *v = kept;
    *n = 0;
    for (uint32_t i = 0; kept && i < r.n; i++)
        if (weir_refs(p, r)[i] < end)
            kept[(*n)++] = weir_refs(p, r)[i];
    return kept != NULL;
}

static bool pin_op(const weir_mem_problem *p, const weir_mem_op *t, uint32_t end,
                   weir_mem_problem *settled)
{
    uint32_t     *in, *masked, nin, nmasked;
    bool          ok = keep_below(p, t->in, end, &in, &nin);
    weir_mem_op_def d = {.time = t->time,
                         .work = t->work,
                         .rerun_before = t->rerun_before,
                         .region = t->region,
                         .kind = (weir_op_class)t->kind,
                         .phase = (weir_phase)t->phase,
                         .nin = nin,
                         .in = in,
                         .nout = t->out.n,
                         .out = weir_refs(p, t->out),
                         .npairs = t->pairs.n,
                         .pairs = weir_refs(p, t->pairs)};

    ok = keep_below(p, t->masked, end, &masked, &nmasked) && ok;
    d.nmasked = nmasked;
    d.masked = masked;
    ok = ok && weir_mem_problem_add_op(settled, &d);
    weir_mem_free(in);
    weir_mem_free(masked);
    return ok;
}

bool weir_mem_problem_pin_residents(const weir_mem_problem *p, weir_mem_problem *settled)
{
    uint32_t end = p->tensors.n;
    bool     ok = true;

    *settled = (weir_mem_problem){.resident = p->resident, .pack_bandwidth = p->pack_bandwidth};
    while (end > 0 && weir_mem_tensor_is_resident(p, end - 1))
        settled->resident += p->tensors.at[--end].bytes;
    for (uint32_t k = 0; k < end && ok; k++) {
        const weir_mem_tensor *x = &p->tensors.at[k];
        ok = weir_mem_problem_add_tensor(settled, x->bytes, x->packed, x->output);
    }
    for (uint32_t i = 0; i < p->ops.n && ok; i++)
        ok = pin_op(p, &p->ops.at[i], end, settled);
    ok = ok && weir_mem_problem_end(settled);
    if (!ok)
        weir_mem_problem_free(settled);
    return ok;
}

void weir_mem_problem_free(weir_mem_problem *p)
{
    weir_vec_free(&p->ops);
    weir_vec_free(&p->tensors);
    weir_vec_free(&p->refs);
    *p = (weir_mem_problem){0};
}
