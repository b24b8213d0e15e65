/* mem_plan.c - a schedule becomes a list of actions: lives that end are freed. */
#include "graph/memory/problem/mem_plan.h"

bool weir_actions_init(weir_actions *a, const weir_problem *p)
{
    *a = (weir_actions){.p = p, .align = 1, .name = "plan", .status = WEIR_ERR_INVALID};
    a->start = weir_mem_zalloc(p->pieces.n + 1u, sizeof *a->start);
    a->home = weir_mem_zalloc(p->pieces.n + 1u, 1);
    return a->start && a->home;
}

void weir_actions_free(weir_actions *a)
{
    weir_vec_free(&a->list);
    weir_vec_free(&a->spots);
    weir_vec_free(&a->masks);
    weir_mem_free(a->start);
    weir_mem_free(a->home);
    a->start = NULL;
    a->home = NULL;
}

/* Is the life there when the step ends, and to stay? */
static bool stays(const weir_schedule *s, const weir_life *l)
{
    return l->last + 1 == s->events.n &&
           (l->before || (l->form == WEIR_PLAIN && s->p->pieces.at[l->piece].output));
}

/* Is it made by a run and dropped behind it? */
static bool scratch(const weir_schedule *s, const weir_life *l)
{
    return !l->before && s->events.at[l->first].act == WEIR_RUN && l->last == l->first &&
           !stays(s, l);
}

/* Does an action end the life? Not so where it is scratch or taken over, or where its copy on the
 * host is what is left of the piece. */
static bool freed(const weir_schedule *s, const weir_life *l)
{
    if (l->form == WEIR_HOST)
        return !weir_piece_resident(s->p, l->piece) && !s->p->pieces.at[l->piece].output;
    return !scratch(s, l) && !stays(s, l);
}

/* The lives that an action ends, sorted by the event they end in (weir_schedule_ends). */
static bool sort_by_end(const weir_schedule *s, uint32_t **first, uint32_t **list)
{
    uint8_t *const skip = weir_mem_zalloc(s->lives.n + 1u, 1);

    *first = weir_mem_zalloc(s->events.n + 2u, sizeof **first);
    *list = weir_mem_alloc((s->lives.n + 1u) * sizeof **list);
    const bool ok = *first && *list && skip;
    for (uint32_t i = 0; ok && i < s->lives.n; i++) {
        const weir_life *v = &s->lives.at[i];
        skip[i] |= s->events.n == 0 || !freed(s, v);
        if (v->over != WEIR_NO_LIFE)
            skip[v->over] = 1;
    }
    if (ok)
        weir_schedule_ends(s, skip, *first, *list);
    weir_mem_free(skip);
    return ok;
}

static bool add_run(weir_actions *a, const weir_schedule *s, const weir_lay *lay, uint32_t e)
{
    uint32_t          nin, nout;
    const weir_event *v = &s->events.at[e];
    const uint32_t   *life = weir_schedule_refs(s, e, &nin, &nout);
    weir_action       x = {.what = v->what, .act = WEIR_RUN, .again = v->again, .work = true,
                           .offset = lay ? lay->work[e] : 0, .spots = a->spots.n,
                           .masks = {a->masks.n, 0}};

    for (uint32_t i = 0; i < nin; i++) {
        const weir_life *l = &s->lives.at[life[i]];
        if (l->form == WEIR_MASK && !weir_vec_push(&a->masks, l->piece))
            return false;
    }
    x.masks.n = a->masks.n - x.masks.first;
    for (uint32_t i = nin; i < nin + nout; i++) {
        const weir_life *l = &s->lives.at[life[i]];
        const weir_spot  spot = {
            .offset = lay ? lay->offset[life[i]] : 0, .scratch = scratch(s, l),
            .over = l->over == WEIR_NO_LIFE ? WEIR_NO_PIECE : s->lives.at[l->over].piece};
        if (!weir_vec_push(&a->spots, spot))
            return false;
    }
    return weir_vec_push(&a->list, x);
}

static bool add_copy(weir_actions *a, const weir_schedule *s, const weir_lay *lay, uint32_t e)
{
    const weir_event *v = &s->events.at[e];
    const uint32_t    made = s->refs.at[s->first.at[e] + 1];

    return weir_vec_push(&a->list, (weir_action){
        .what = v->what, .act = v->act, .form = WEIR_PLAIN,
        .offset = lay && v->act != WEIR_OUT ? lay->offset[made] : 0});
}

static bool add_end(weir_actions *a, const weir_life *l)
{
    const bool host = l->form == WEIR_HOST;
    return weir_vec_push(&a->list, (weir_action){
        .what = l->piece, .act = host ? WEIR_FORGET : WEIR_FREE,
        .form = host ? WEIR_PLAIN : l->form});
}

bool weir_actions_from(const weir_schedule *s, const weir_lay *lay, weir_actions *a)
{
    uint32_t *first, *list;
    bool      ok = weir_actions_init(a, s->p);

    a->addresses = lay != NULL;
    a->room = lay ? lay->height : SIZE_MAX;
    a->ordered = true;
    for (uint32_t i = 0; ok && i < s->lives.n && s->lives.at[i].before; i++) {
        const weir_life *l = &s->lives.at[i];
        a->home[l->piece] = l->form == WEIR_HOST;
        a->start[l->piece] = lay ? lay->offset[i] : 0;
    }
    ok = sort_by_end(s, &first, &list) && ok;
    for (uint32_t e = 0; ok && e < s->events.n; e++) {
        ok = s->events.at[e].act == WEIR_RUN ? add_run(a, s, lay, e) : add_copy(a, s, lay, e);
        for (uint32_t i = first[e]; ok && i < first[e + 1]; i++)
            ok = add_end(a, &s->lives.at[list[i]]);
    }
    weir_mem_free(first);
    weir_mem_free(list);
    return ok;
}
