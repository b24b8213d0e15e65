/* mem_plan.c - turns a schedule into a plan: the end of each live range becomes a free step. */
#include "graph/memory/problem/mem_plan.h"

bool weir_mem_plan_init(weir_mem_plan *a, const weir_mem_problem *p)
{
    *a = (weir_mem_plan){.p = p, .align = 1, .name = "plan", .status = WEIR_ERR_INVALID};
    a->start = weir_mem_zalloc(p->tensors.n + 1u, sizeof *a->start);
    a->offloaded = weir_mem_zalloc(p->tensors.n + 1u, 1);
    return a->start && a->offloaded;
}

void weir_mem_plan_free(weir_mem_plan *a)
{
    weir_vec_free(&a->list);
    weir_vec_free(&a->slots);
    weir_vec_free(&a->masks);
    weir_mem_free(a->start);
    weir_mem_free(a->offloaded);
    a->start = NULL;
    a->offloaded = NULL;
}

/* Returns whether the live range outlasts the step. */
static bool stays(const weir_schedule *s, const weir_live_range *l)
{
    return l->last + 1 == s->events.n &&
           (l->before || (l->form == WEIR_FORM_PLAIN && s->p->tensors.at[l->tensor].output));
}

/* Returns whether a run makes it and nothing ever reads it. */
static bool scratch(const weir_schedule *s, const weir_live_range *l)
{
    return !l->before && s->events.at[l->first].kind == WEIR_EVENT_RUN && l->last == l->first &&
           !stays(s, l);
}

/* Returns whether a step must free the live range: not scratch, not what outlasts the step, and no
 * host copy of a resident tensor or step output. (sort_by_end leaves out what is taken over.) */
static bool freed(const weir_schedule *s, const weir_live_range *l)
{
    if (l->form == WEIR_FORM_HOST)
        return !weir_mem_tensor_is_resident(s->p, l->tensor) && !s->p->tensors.at[l->tensor].output;
    return !scratch(s, l) && !stays(s, l);
}

/* Sorts the live ranges that a step frees by their last event, as weir_schedule_ends does. */
static bool sort_by_end(const weir_schedule *s, uint32_t **first, uint32_t **list)
{
    uint8_t *const skip = weir_mem_zalloc(s->ranges.n + 1u, 1);

    *first = weir_mem_zalloc(s->events.n + 2u, sizeof **first);
    *list = weir_mem_alloc((s->ranges.n + 1u) * sizeof **list);
    const bool ok = *first && *list && skip;
    for (uint32_t i = 0; ok && i < s->ranges.n; i++) {
        const weir_live_range *v = &s->ranges.at[i];
        skip[i] |= s->events.n == 0 || !freed(s, v);
        if (v->over != WEIR_NO_RANGE)
            skip[v->over] = 1;
    }
    if (ok)
        weir_schedule_ends(s, skip, *first, *list);
    weir_mem_free(skip);
    return ok;
}

static bool add_run(weir_mem_plan *a, const weir_schedule *s, const weir_offsets *offsets,
                    uint32_t e)
{
    uint32_t          nin, nout;
    const weir_event *v = &s->events.at[e];
    const uint32_t   *range = weir_schedule_refs(s, e, &nin, &nout);
    weir_mem_step     x = {.what = v->what,
                           .kind = WEIR_EVENT_RUN,
                           .recomputed = v->recomputed,
                           .work = true,
                           .offset = offsets ? offsets->work[e] : 0,
                           .slots = a->slots.n,
                           .masks = {a->masks.n, 0}};

    for (uint32_t i = 0; i < nin; i++) {
        const weir_live_range *l = &s->ranges.at[range[i]];
        if (l->form == WEIR_FORM_MASK && !weir_vec_push(&a->masks, l->tensor))
            return false;
    }
    x.masks.n = a->masks.n - x.masks.first;
    for (uint32_t i = nin; i < nin + nout; i++) {
        const weir_live_range *l = &s->ranges.at[range[i]];
        const weir_output_slot slot = {
            .offset = offsets ? offsets->offset[range[i]] : 0,
            .scratch = scratch(s, l),
            .over = l->over == WEIR_NO_RANGE ? WEIR_NO_TENSOR : s->ranges.at[l->over].tensor};
        if (!weir_vec_push(&a->slots, slot))
            return false;
    }
    return weir_vec_push(&a->list, x);
}

static bool add_copy(weir_mem_plan *a, const weir_schedule *s, const weir_offsets *offsets,
                     uint32_t e)
{
    const weir_event *v = &s->events.at[e];
    const uint32_t    made = s->refs.at[s->first.at[e] + 1];

    return weir_vec_push(&a->list,
                         (weir_mem_step){.what = v->what,
                                         .kind = v->kind,
                                         .form = WEIR_FORM_PLAIN,
                                         .offset = offsets && v->kind != WEIR_EVENT_OFFLOAD
                                                       ? offsets->offset[made]
                                                       : 0});
}

static bool add_end(weir_mem_plan *a, const weir_live_range *l)
{
    const bool host = l->form == WEIR_FORM_HOST;
    return weir_vec_push(&a->list,
                         (weir_mem_step){.what = l->tensor,
                                         .kind = host ? WEIR_EVENT_FREE_HOST : WEIR_EVENT_FREE,
                                         .form = host ? WEIR_FORM_PLAIN : l->form});
}

bool weir_mem_plan_from_schedule(const weir_schedule *s, const weir_offsets *offsets,
                                 weir_mem_plan *a)
{
    uint32_t *first, *list;
    bool      ok = weir_mem_plan_init(a, s->p);

    a->addresses = offsets != NULL;
    a->limit = offsets ? offsets->height : SIZE_MAX;
    a->ordered = true;
    for (uint32_t i = 0; ok && i < s->ranges.n && s->ranges.at[i].before; i++) {
        const weir_live_range *l = &s->ranges.at[i];
        a->offloaded[l->tensor] = l->form == WEIR_FORM_HOST;
        a->start[l->tensor] = offsets ? offsets->offset[i] : 0;
    }
    ok = sort_by_end(s, &first, &list) && ok;
    for (uint32_t e = 0; ok && e < s->events.n; e++) {
        ok = s->events.at[e].kind == WEIR_EVENT_RUN ? add_run(a, s, offsets, e)
                                                    : add_copy(a, s, offsets, e);
        for (uint32_t i = first[e]; ok && i < first[e + 1]; i++)
            ok = add_end(a, &s->ranges.at[list[i]]);
    }
    weir_mem_free(first);
    weir_mem_free(list);
    return ok;
}
