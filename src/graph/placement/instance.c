/* instance.c - finds the sections of a step in one sweep: a section ends wherever an end follows a
 * start. */
#include "graph/placement/instance.h"

#include <stdlib.h>

#include "core/status.h"

static int by_section(const void *a, const void *b)
{
    const weir_place_span *x = a, *y = b;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    if (x->b != y->b)
        return x->b > y->b ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

enum { STARTS = 1, ENDS = 2 };

/* Sets at[t] to the number of sections completed before step t, and returns the number of all. A
 * section is complete when an item ends and another has started since the last section. */
static uint32_t number_steps(const weir_placer *p, uint8_t *event, uint32_t *at)
{
    uint32_t n = 0;
    bool     open = false;

    for (uint32_t i = 0; i < p->n; i++)
        if (p->item[i].bytes > 0) {
            event[p->item[i].first] |= STARTS;
            event[p->item[i].last] |= ENDS;
        }
    for (uint32_t t = 0; t < p->steps; t++) {
        at[t] = n;
        open = open || (event[t] & STARTS);
        if (open && (event[t] & ENDS)) {
            open = false;
            n++;
        }
    }
    at[p->steps] = n;
    return n;
}

static void fill(weir_place_instance *s, const weir_placer *p, const uint32_t *at)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const weir_item *it = &p->item[i];
        if (it->bytes > 0)
            s->span[s->spans++] = (weir_place_span){.item = i, .a = at[it->first],
                                              .b = at[it->last + 1], .bytes = (int64_t)it->bytes};
    }
    qsort(s->span, s->spans, sizeof *s->span, by_section);
    for (uint32_t i = 0, k = 0; i <= s->n; i++) {
        while (k < s->spans && s->span[k].a < i)
            k++;
        s->from[i] = k;
    }
    for (uint32_t i = 1; i < s->spans; i++) {
        const weir_place_span *x = &s->span[i - 1];
        weir_place_span       *y = &s->span[i];
        y->kind = x->kind + (x->a != y->a || x->b != y->b || x->bytes != y->bytes);
    }
}

weir_status weir_place_instance_of(const weir_placer *p, weir_place_instance *s)
{
    uint8_t  *event = weir_mem_zalloc(p->steps + 1u, 1);
    uint32_t *at = weir_mem_alloc((p->steps + 1u) * sizeof *at);

    *s = (weir_place_instance){.span = weir_mem_alloc((p->n + 1u) * sizeof *s->span)};
    if (event && at)
        s->n = number_steps(p, event, at);
    s->from = weir_mem_alloc((s->n + 1u) * sizeof *s->from);
    const bool ok = event && at && s->span && s->from;
    if (ok)
        fill(s, p, at);
    weir_mem_free(event);
    weir_mem_free(at);
    if (!ok)
        weir_place_instance_free(s);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

void weir_place_instance_free(weir_place_instance *s)
{
    weir_mem_free(s->span);
    weir_mem_free(s->from);
    *s = (weir_place_instance){0};
}
