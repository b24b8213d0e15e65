/* outline_plan.c - plans a described step: search, place, until addresses fit; written as JSON. */
#include <string.h>

#include "core/status.h"
#include "core/text.h"
#include "graph/plan.h"
#include "graph/policy/bound.h"
#include "graph/policy/budget.h"
#include "graph/policy/outline.h"
#include "graph/policy/search.h"

#define MOST_ALIGN ((size_t)1 << 30)    /* so that sums of aligned bytes never overflow */

typedef struct weir_layouter {
    const weir_outline         *o;
    size_t                      align;
    weir_plan                   plan;   /* items of all lives, then of workspaces */
    uint32_t                   *item;   /* [lives] its own, or that of the life it took over */
    uint32_t                   *work;   /* [events] item of the workspace, WEIR_NONE: none */
    uint32_t                   *from;   /* [lives] life it took over, WEIR_NONE: none */
    size_t                      base;   /* of the pieces: above what is resident */
} weir_layouter;

static bool add_item(weir_layouter *l, size_t bytes, uint32_t first, uint32_t last, bool workspace)
{
    weir_item it = {.first = first, .last = last, .store = workspace ? WEIR_NONE : 0,
                    .kind = workspace ? WEIR_KIND_WORKSPACE : WEIR_KIND_ACTIVATION};
    return weir_size_align(bytes, l->align, &it.bytes) && weir_vec_push(&l->plan.items, it);
}

/* Results of event e take over inputs that die in it: the first permitted pair of each. */
static void take_over(weir_layouter *l, const weir_walk_room *w, uint32_t e)
{
    const weir_problem *p = w->p;
    const weir_task    *t = &p->tasks.at[w->events.at[e].task];
    const uint32_t     *pair = weir_refs(p, t->pairs), *life = w->life_of.at + w->life_first.at[e];
    const uint32_t     *in = weir_refs(p, t->in), *out = weir_refs(p, t->out);

    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2) {
        uint32_t a = 0, b = 0;
        while (in[a] != pair[i])
            a++;
        while (out[b] != pair[i + 1])
            b++;
        const uint32_t x = life[a], y = life[t->in.n + b];
        bool           free = w->lives.at[x].last == e && w->lives.at[x].first != e &&
                    l->from[y] == WEIR_NONE && w->lives.at[y].last > e &&
                    p->pieces.at[pair[i]].bytes == p->pieces.at[pair[i + 1]].bytes;
        for (uint32_t k = 0; k < t->out.n; k++)
            free = free && l->from[life[t->in.n + k]] != x;
        if (!free)
            continue;
        l->from[y] = x;
    }
}

/* An item of its own, or a longer life of the one it took over. */
static bool add_life(weir_layouter *l, const weir_walk_room *w, uint32_t life)
{
    const weir_life v = w->lives.at[life];

    if (l->from[life] != WEIR_NONE) {
        l->item[life] = l->item[l->from[life]];
        l->plan.items.at[l->item[life]].last = v.last;
        return true;
    }
    l->item[life] = l->plan.items.n;
    return add_item(l, w->p->pieces.at[v.piece].bytes, v.first, v.last, false);
}

/* Items for the walk's lives and workspaces, with offsets. */
static weir_status lay_out(weir_layouter *l, const weir_walk_room *w)
{
    l->plan.items.n = 0;
    l->plan.n = w->events.n;
    weir_mem_free(l->item);
    weir_mem_free(l->from);
    weir_mem_free(l->work);
    l->item = weir_mem_alloc((w->lives.n + 1u) * sizeof *l->item);
    l->from = weir_mem_alloc((w->lives.n + 1u) * sizeof *l->from);
    l->work = weir_mem_alloc((w->events.n + 1u) * sizeof *l->work);
    if (!l->item || !l->from || !l->work)
        return WEIR_ERR_NOMEM;
    memset(l->from, 0xff, w->lives.n * sizeof *l->from);
    for (uint32_t e = 0, life = 0; e < w->events.n; e++) {
        const size_t work = w->p->tasks.at[w->events.at[e].task].work;
        take_over(l, w, e);
        for (; life < w->lives.n && w->lives.at[life].first == e; life++)
            if (!add_life(l, w, life))
                return WEIR_ERR_NOMEM;
        l->work[e] = work ? l->plan.items.n : WEIR_NONE;
        if (work && !add_item(l, work, e, e, true))
            return WEIR_ERR_NOMEM;
    }
    return weir_place(&l->plan);
}

/* ---- JSON ---- */

static size_t offset_of(const weir_layouter *l, uint32_t item)
{
    return l->base + l->plan.items.at[item].offset;
}

/* "out" (which = false) or "scratch" of an event: its results that live on, or not. */
static void add_results(const weir_layouter *l, const weir_walk_room *w, uint32_t e, bool scratch,
                        weir_string *s)
{
    const weir_task *t = &w->p->tasks.at[w->events.at[e].task];
    const char      *gap = scratch ? ",\"scratch\":{" : ",\"out\":{";
    bool             any = false;

    for (uint32_t k = 0; k < t->out.n; k++) {
        const uint32_t  y = w->life_of.at[w->life_first.at[e] + t->in.n + k];
        const weir_life v = w->lives.at[y];
        const bool      stays = v.last > e || w->p->pieces.at[v.piece].output;
        if (stays == scratch)
            continue;
        weir_string_add(s, "%s\"%lld\":%zu", any ? "," : gap,
                        (long long)l->o->piece_id.at[v.piece], offset_of(l, l->item[y]));
        any = true;
    }
    weir_string_add(s, any ? "}" : "");
}

static void add_event(const weir_layouter *l, const weir_walk_room *w, uint32_t e, weir_string *s)
{
    const weir_task *t = &w->p->tasks.at[w->events.at[e].task];
    bool             any = false;

    weir_string_add(s, "%s\n{\"a\":\"compute\",\"op\":%lld", e ? "," : "",
                    (long long)l->o->task_id.at[w->events.at[e].task]);
    add_results(l, w, e, false, s);
    add_results(l, w, e, true, s);
    if (l->work[e] != WEIR_NONE)
        weir_string_add(s, ",\"ws\":%zu", offset_of(l, l->work[e]));
    for (uint32_t k = 0; k < t->out.n; k++) {
        const uint32_t y = w->life_of.at[w->life_first.at[e] + t->in.n + k];
        if (l->from[y] == WEIR_NONE)
            continue;
        weir_string_add(s, "%s[%lld,%lld]", any ? "," : ",\"inplace\":[",
                        (long long)l->o->piece_id.at[w->lives.at[l->from[y]].piece],
                        (long long)l->o->piece_id.at[w->lives.at[y].piece]);
        any = true;
    }
    weir_string_add(s, any ? "]}" : "}");
}

/* Lives that end in event e and were not taken over: freed behind it. */
static void add_frees(const weir_layouter *l, const weir_walk_room *w, uint32_t e, weir_string *s)
{
    const weir_task *t = &w->p->tasks.at[w->events.at[e].task];

    for (uint32_t k = 0; k < t->in.n; k++) {
        const uint32_t x = w->life_of.at[w->life_first.at[e] + k];
        bool           goes = w->lives.at[x].last == e;
        for (uint32_t j = 0; j < t->out.n; j++)
            goes = goes && l->from[w->life_of.at[w->life_first.at[e] + t->in.n + j]] != x;
        if (goes && !(w->p->pieces.at[w->lives.at[x].piece].output && e + 1 == w->events.n))
            weir_string_add(s, ",\n{\"a\":\"free\",\"t\":%lld}",
                            (long long)l->o->piece_id.at[w->lives.at[x].piece]);
    }
}

static char *to_json(const weir_layouter *l, const weir_walk_room *w, size_t budget)
{
    weir_string s = {0};
    size_t      at = 0;

    weir_string_add(&s, "{\"graph\":\"");
    weir_string_add_json(&s, l->o->name);
    weir_string_add(&s, "\",\"budget_bytes\":%zu,\"alignment\":%zu,\"resident\":{", budget,
                    l->align);
    for (uint32_t i = 0; i < l->o->resident_id.n; i++) {
        weir_string_add(&s, "%s\"%lld\":%zu", i ? "," : "", (long long)l->o->resident_id.at[i], at);
        at += (l->o->resident_bytes.at[i] + l->align - 1) & ~(l->align - 1);
    }
    weir_string_add(&s, "},\"host_resident\":[],\"actions\":[");
    for (uint32_t e = 0; e < w->events.n; e++) {
        add_event(l, w, e, &s);
        add_frees(l, w, e, &s);
    }
    weir_string_add(&s, "\n]}\n");
    return weir_string_take(&s);
}

/* ---- fitting ---- */

enum { MOST_TRIES = 8 };

/* Searches for ever fewer live bytes until the addresses are within `room`; false: they are not. */
static weir_status fit(weir_layouter *l, weir_search *s, size_t room, bool *fits)
{
    size_t target = room;

    *fits = false;
    for (int i = 0; i < MOST_TRIES && !*fits; i++) {
        weir_search_free(s);
        s->budget = target;
        WEIR_TRY(weir_search_run(s));
        WEIR_TRY(lay_out(l, &s->room));
        *fits = l->plan.arena <= room;
        if (s->best_peak > target || target == 0)
            break;
        const size_t over = *fits ? 0 : l->plan.arena - room;
        target = s->best_peak > over ? s->best_peak - over : 0;
    }
    return WEIR_OK;
}

/* The peak in the given order with everything kept and nothing in place. */
static weir_status whole_of(const weir_problem *p, size_t *bytes)
{
    weir_problem   plain = *p;
    weir_walk_room w;
    uint8_t       *gap = NULL;
    bool           ok = true;

    WEIR_VEC(weir_task) tasks = {0};
    for (uint32_t i = 0; i < p->tasks.n && ok; i++) {
        ok = weir_vec_push(&tasks, p->tasks.at[i]);
        if (ok)
            tasks.at[i].pairs.n = 0;
    }
    plain.tasks.at = tasks.at;
    ok = weir_walk_init(&w, &plain) && ok && (gap = weir_mem_zalloc(w.gaps + 1u, 1)) != NULL &&
         weir_walk(&w, gap);
    *bytes = ok ? p->resident + w.peak : 0;
    weir_walk_free(&w);
    weir_mem_free(gap);
    weir_vec_free(&tasks);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

static void tell(const weir_outline *o, const weir_layouter *l, const weir_search *s,
                 weir_outline_plan_stats *stats)
{
    stats->live_bytes = o->problem.resident + s->best_peak;
    stats->peak_bytes = l->base + l->plan.arena;
    stats->again = s->room.events.n - o->problem.tasks.n;
    stats->extra_ms = s->best_extra * 1e3;
}

static weir_status plan(const weir_outline *o, const weir_outline_options *how, weir_layouter *l,
                        weir_outline_plan_stats *stats, char **text)
{
    weir_search s = {.p = &o->problem, .moves = how->moves ? how->moves
                                                           : weir_budget_moves(o->problem.tasks.n),
                     .policy = how->policy};
    weir_bound  b;
    bool        fits = false;

    WEIR_TRY(whole_of(&o->problem, &stats->whole_bytes));
    if (how->budget)
        WEIR_TRY(weir_budget_parse(how->budget, stats->whole_bytes, &stats->budget_bytes));
    for (uint32_t i = 0; i < o->resident_bytes.n; i++)
        l->base += (o->resident_bytes.at[i] + l->align - 1) & ~(l->align - 1);
    const size_t budget = how->budget ? stats->budget_bytes : SIZE_MAX;
    WEIR_TRY(weir_bound_of(&o->problem, budget > l->base ? budget - l->base : 0, NULL, &b));
    stats->floor_bytes = l->base + b.feasible_bytes;
    stats->least_extra_ms = b.extra_seconds * 1e3;
    weir_status  status = fit(l, &s, budget > l->base ? budget - l->base : 0, &fits);
    if (status == WEIR_OK) {
        tell(o, l, &s, stats);
        if (fits)
            *text = to_json(l, &s.room, how->budget ? budget : stats->peak_bytes);
        else
            status = weir_fail(WEIR_ERR_BUDGET,
                               "%s: no plan found within %zu bytes; the smallest met needs %zu, "
                               "no plan of any kind less than %zu", o->name, budget,
                               stats->peak_bytes, stats->floor_bytes);
    }
    weir_search_free(&s);
    return status;
}

char *weir_outline_plan(const weir_outline *o, const weir_outline_options *options,
                        weir_outline_plan_stats *stats)
{
    static const weir_outline_options none;
    weir_outline_plan_stats           unread;
    char                             *text = NULL;

    if (!o) {
        (void)weir_fail_null("weir_outline_plan", "the outline");
        return NULL;
    }
    const weir_outline_options *how = options ? options : &none;
    weir_layouter               l = {.o = o, .align = how->alignment ? how->alignment : 1};
    stats = stats ? stats : &unread;
    *stats = (weir_outline_plan_stats){.tensors = o->tensors, .operations = o->problem.tasks.n,
                                       .resident_bytes = o->problem.resident,
                                       .step_ms = o->problem.time * 1e3};
    if (l.align & (l.align - 1) || l.align > MOST_ALIGN)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "alignment %zu, must be a power of two up to %zu",
                              l.align, MOST_ALIGN);
    if (weir_budget_policy(how->policy) == WEIR_OK)
        (void)plan(o, how, &l, stats, &text);
    weir_vec_free(&l.plan.items);
    weir_mem_free(l.item);
    weir_mem_free(l.from);
    weir_mem_free(l.work);
    return text;
}
