/* problem.c - builds a problem task by task. */
#include "graph/memory/problem/problem.h"

#include <string.h>

weir_work weir_work_of(const char *name)
{
    static const char *const matmuls[] = {"mm", "addmm", "bmm", "baddbmm", "matmul",
                                          "batch_matmul", "linear", "attention"};

    if (strncmp(name, "conv", 4) == 0)
        return WEIR_WORK_CONV;
    for (size_t i = 0; i < sizeof matmuls / sizeof *matmuls; i++)
        if (strcmp(name, matmuls[i]) == 0)
            return WEIR_WORK_MATMUL;
    return WEIR_WORK_OTHER;
}

bool weir_problem_piece(weir_problem *p, size_t bytes, size_t packed, bool output)
{
    return weir_vec_push(&p->pieces, (weir_piece){.bytes = bytes, .packed = packed,
                                                  .maker = WEIR_NO_TASK, .output = output});
}

/* Appends the numbers, each once. */
static bool append(weir_problem *p, uint32_t n, const uint32_t *v, bool once, weir_range *r)
{
    *r = (weir_range){p->refs.n, 0};
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

bool weir_problem_task(weir_problem *p, const weir_task_def *d)
{
    weir_task t = {.time = d->time, .work = d->work, .until = d->until, .kind = (uint8_t)d->kind,
                   .phase = (uint8_t)d->phase, .region = d->region, .only = d->only};

    if (!append(p, d->nin, d->in, true, &t.in) || !append(p, d->nout, d->out, true, &t.out) ||
        !append(p, d->npairs, d->pairs, false, &t.pairs) ||
        !append(p, d->nmasked, d->masked, true, &t.masked) ||
        !append(p, d->nchanges, d->changes, true, &t.changes))
        return false;
    for (uint32_t i = 0; i < t.out.n; i++)
        p->pieces.at[weir_refs(p, t.out)[i]].maker = p->tasks.n;
    for (uint32_t i = 0; i < t.masked.n; i++) {
        weir_piece *k = &p->pieces.at[weir_refs(p, t.masked)[i]];
        k->mask = weir_mask_bytes(k->bytes);
    }
    return weir_vec_push(&p->tasks, t);
}

bool weir_problem_end(weir_problem *p)
{
    uint32_t *const count = weir_mem_zalloc((size_t)p->pieces.n + 1, sizeof *count);

    if (!count)
        return false;
    p->time = 0;
    for (uint32_t i = 0; i < p->tasks.n; i++) {
        const weir_task *t = &p->tasks.at[i];
        p->time += t->time;
        for (uint32_t k = 0; k < t->in.n; k++)
            count[weir_refs(p, t->in)[k]]++;
    }
    uint32_t at = p->refs.n, total = 0;
    for (uint32_t k = 0; k < p->pieces.n; k++)
        total += count[k];
    const bool ok = weir_vec_reserve(&p->refs, (uint64_t)at + total);
    for (uint32_t k = 0; k < p->pieces.n && ok; k++) {
        p->pieces.at[k].uses = (weir_range){at, 0};
        at += count[k];
    }
    for (uint32_t i = 0; i < p->tasks.n && ok; i++) {
        const weir_range in = p->tasks.at[i].in;
        for (uint32_t k = 0; k < in.n; k++) {
            weir_range *const uses = &p->pieces.at[p->refs.at[in.first + k]].uses;
            p->refs.at[uses->first + uses->n++] = i;
        }
    }
    p->refs.n = ok ? at : p->refs.n;
    weir_mem_free(count);
    return ok;
}

/* The numbers of a range that are below `end`, appended to v. */
static bool keep_below(const weir_problem *p, weir_range r, uint32_t end, uint32_t **v,
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

static bool settle_task(const weir_problem *p, const weir_task *t, uint32_t end,
                        weir_problem *settled)
{
    uint32_t     *in, *masked, nin, nmasked;
    bool          ok = keep_below(p, t->in, end, &in, &nin);
    weir_task_def d = {.time = t->time, .work = t->work, .until = t->until,
                       .region = t->region, .kind = (weir_work)t->kind,
                       .phase = (weir_phase)t->phase, .nin = nin, .in = in,
                       .nout = t->out.n, .out = weir_refs(p, t->out),
                       .npairs = t->pairs.n, .pairs = weir_refs(p, t->pairs)};

    ok = keep_below(p, t->masked, end, &masked, &nmasked) && ok;
    d.nmasked = nmasked;
    d.masked = masked;
    ok = ok && weir_problem_task(settled, &d);
    weir_mem_free(in);
    weir_mem_free(masked);
    return ok;
}

bool weir_problem_settled(const weir_problem *p, weir_problem *settled)
{
    uint32_t end = p->pieces.n;
    bool     ok = true;

    *settled = (weir_problem){.resident = p->resident, .codec = p->codec};
    while (end > 0 && weir_piece_resident(p, end - 1))
        settled->resident += p->pieces.at[--end].bytes;
    for (uint32_t k = 0; k < end && ok; k++) {
        const weir_piece *x = &p->pieces.at[k];
        ok = weir_problem_piece(settled, x->bytes, x->packed, x->output);
    }
    for (uint32_t i = 0; i < p->tasks.n && ok; i++)
        ok = settle_task(p, &p->tasks.at[i], end, settled);
    ok = ok && weir_problem_end(settled);
    if (!ok)
        weir_problem_free(settled);
    return ok;
}

void weir_problem_free(weir_problem *p)
{
    weir_vec_free(&p->tasks);
    weir_vec_free(&p->pieces);
    weir_vec_free(&p->refs);
    *p = (weir_problem){0};
}
