/* intervals.c - a segment tree over byte ranges that stores when each part becomes free. */
#include "graph/memory/problem/intervals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_size(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static bool add(weir_intervals *s, size_t offset, size_t bytes)
{
    size_t end;
    return bytes == 0 || !weir_size_add(offset, bytes, &end) ||
           (weir_vec_push(&s->ends, offset) && weir_vec_push(&s->ends, end));
}

static bool add_step(weir_intervals *s, const weir_mem_plan *a, const weir_mem_step *x)
{
    const weir_mem_problem *p = a->p;
    bool                    ok = true;

    if (x->kind == WEIR_EVENT_OFFLOAD || x->kind >= WEIR_EVENT_FREE)
        return true;
    if (x->kind != WEIR_EVENT_RUN)
        return add(s, x->offset, weir_form_bytes(p, x->what, weir_mem_step_writes(x)));
    const weir_mem_op *t = &p->ops.at[x->what];
    for (uint32_t i = 0; i < t->out.n && ok; i++)
        ok = add(s, a->slots.at[x->slots + i].offset, p->tensors.at[weir_refs(p, t->out)[i]].bytes);
    return ok && add(s, x->offset, t->work);
}

bool weir_intervals_init(weir_intervals *s, const weir_mem_plan *a)
{
    uint32_t n = 0;
    bool     ok = true;

    *s = (weir_intervals){0};
    for (uint32_t k = 0; k < a->p->tensors.n && ok; k++)
        if (weir_mem_tensor_is_resident(a->p, k) && !a->offloaded[k])
            ok = add(s, a->start[k], a->p->tensors.at[k].bytes);
    for (uint32_t i = 0; i < a->list.n && ok; i++)
        ok = add_step(s, a, &a->list.at[i]);
    if (ok && s->ends.n)
        qsort(s->ends.at, s->ends.n, sizeof *s->ends.at, by_size);
    for (uint32_t i = 0; ok && i < s->ends.n; i++)
        if (n == 0 || s->ends.at[n - 1] != s->ends.at[i])
            s->ends.at[n++] = s->ends.at[i];
    s->ends.n = n;
    s->most = ok ? weir_mem_zalloc(4 * ((size_t)n + 1), sizeof *s->most) : NULL;
    s->same = ok ? weir_mem_alloc(4 * ((size_t)n + 1)) : NULL;
    if (s->same)
        memset(s->same, 1, 4 * ((size_t)n + 1));
    return s->most && s->same;
}

void weir_intervals_free(weir_intervals *s)
{
    weir_vec_free(&s->ends);
    weir_mem_free(s->most);
    weir_mem_free(s->same);
    s->most = NULL;
    s->same = NULL;
}

/* Returns the number of the part that begins at byte `end`, by binary search. */
static uint32_t part_of(const weir_intervals *s, size_t end)
{
    uint32_t lo = 0, hi = s->ends.n;

    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (s->ends.at[mid] < end)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Returns the latest free time among the parts [from, to); tree node i covers parts [lo, hi). */
static double latest(const weir_intervals *s, uint64_t i, uint32_t lo, uint32_t hi, uint32_t from,
                     uint32_t to)
{
    const uint32_t mid = lo + (hi - lo) / 2;

    if (to <= lo || hi <= from)
        return 0;
    if (s->same[i] || (from <= lo && hi <= to))
        return s->most[i];
    return fmax(latest(s, 2 * i + 1, lo, mid, from, to), latest(s, 2 * i + 2, mid, hi, from, to));
}

static void assign(weir_intervals *s, uint64_t i, uint32_t lo, uint32_t hi, uint32_t from,
                   uint32_t to, double time)
{
    const uint32_t mid = lo + (hi - lo) / 2;

    if (to <= lo || hi <= from)
        return;
    if (from <= lo && hi <= to) {
        s->most[i] = time;
        s->same[i] = 1;
        return;
    }
    if (s->same[i]) {
        s->most[2 * i + 1] = s->most[2 * i + 2] = s->most[i];
        s->same[2 * i + 1] = s->same[2 * i + 2] = 1;
        s->same[i] = 0;
    }
    assign(s, 2 * i + 1, lo, mid, from, to, time);
    assign(s, 2 * i + 2, mid, hi, from, to, time);
    s->most[i] = fmax(s->most[2 * i + 1], s->most[2 * i + 2]);
}

void weir_intervals_release(weir_intervals *s, size_t offset, size_t bytes, double time)
{
    if (bytes > 0)
        assign(s, 0, 0, s->ends.n - 1, part_of(s, offset), part_of(s, offset + bytes), time);
}

double weir_intervals_acquire(weir_intervals *s, size_t offset, size_t bytes)
{
    if (bytes == 0)
        return 0;
    const double time = latest(s, 0, 0, s->ends.n - 1, part_of(s, offset),
                               part_of(s, offset + bytes));
    if (isfinite(time))
        weir_intervals_release(s, offset, bytes, INFINITY);
    return time;
}
