/* problem.c - builds a problem task by task. */
#include "graph/policy/problem.h"

#include <string.h>

bool weir_problem_piece(weir_problem *p, size_t bytes, bool output)
{
    return weir_vec_push(&p->pieces, (weir_piece){.bytes = bytes, .maker = WEIR_NO_PIECE,
                                                  .output = output});
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

bool weir_problem_task(weir_problem *p, double time, size_t work, uint32_t until, uint32_t nin,
                       const uint32_t *in, uint32_t nout, const uint32_t *out, uint32_t npairs,
                       const uint32_t *pairs)
{
    weir_task t = {.time = time, .work = work, .until = until};

    if (!append(p, nin, in, true, &t.in) || !append(p, nout, out, true, &t.out) ||
        !append(p, npairs, pairs, false, &t.pairs))
        return false;
    for (uint32_t i = 0; i < t.out.n; i++)
        p->pieces.at[weir_refs(p, t.out)[i]].maker = p->tasks.n;
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

void weir_problem_free(weir_problem *p)
{
    weir_vec_free(&p->tasks);
    weir_vec_free(&p->pieces);
    weir_vec_free(&p->refs);
    *p = (weir_problem){0};
}
