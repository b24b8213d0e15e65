/* outline_plan.c - plans a described step: policy, places, until addresses fit; written as JSON. */
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "core/text.h"
#include "graph/policy/bound.h"
#include "graph/policy/budget.h"
#include "graph/policy/lay.h"
#include "graph/policy/outline.h"
#include "graph/policy/policy.h"

#define MOST_ALIGN ((size_t)1 << 30)    /* so that sums of aligned bytes never overflow */

/* What is written: a schedule with addresses. */
typedef struct weir_writing {
    const weir_outline  *o;
    const weir_schedule *s;
    const weir_lay      *lay;
    weir_string          text;
    size_t               align;
} weir_writing;

/* ---- JSON ---- */

/* Is the life there behind the event that makes it? Else it is scratch. */
static bool lives_on(const weir_schedule *s, const weir_life *l)
{
    return l->last > l->first ||
           (s->p->pieces.at[l->piece].output && l->last + 1 == s->events.n);
}

static const char *const form_suffix[WEIR_FORMS] = {"", "", "#pack", "#mask"};

static void add_name(weir_writing *w, const weir_life *l)
{
    const char *const suffix = form_suffix[l->form], *const quote = *suffix ? "\"" : "";
    weir_string_add(&w->text, "%s%lld%s%s", quote, (long long)w->o->piece_id.at[l->piece], suffix,
                    quote);
}

/* "out" (scratch = false) or "scratch" of a run: its results that live on, or not. */
static void add_results(weir_writing *w, uint32_t e, bool scratch)
{
    uint32_t        nin, nout;
    const uint32_t *life = weir_schedule_refs(w->s, e, &nin, &nout) + nin;
    const char     *gap = scratch ? ",\"scratch\":{" : ",\"out\":{";
    bool            any = false;

    for (uint32_t k = 0; k < nout; k++) {
        const weir_life *l = &w->s->lives.at[life[k]];
        if (lives_on(w->s, l) == scratch)
            continue;
        weir_string_add(&w->text, "%s\"%lld\":%zu", any ? "," : gap,
                        (long long)w->o->piece_id.at[l->piece], w->lay->offset[life[k]]);
        any = true;
    }
    weir_string_add(&w->text, any ? "}" : "");
}

static void add_pairs(weir_writing *w, uint32_t e)
{
    uint32_t        nin, nout;
    const uint32_t *life = weir_schedule_refs(w->s, e, &nin, &nout);
    bool            any = false;

    for (uint32_t k = 0; k < nout; k++) {
        const weir_life *l = &w->s->lives.at[life[nin + k]];
        if (l->over == WEIR_NO_LIFE)
            continue;
        weir_string_add(&w->text, "%s[%lld,%lld]", any ? "," : ",\"inplace\":[",
                        (long long)w->o->piece_id.at[w->s->lives.at[l->over].piece],
                        (long long)w->o->piece_id.at[l->piece]);
        any = true;
    }
    weir_string_add(&w->text, any ? "]" : "");
    any = false;
    for (uint32_t k = 0; k < nin; k++) {
        const weir_life *l = &w->s->lives.at[life[k]];
        if (l->form != WEIR_MASK)
            continue;
        weir_string_add(&w->text, "%s%lld", any ? "," : ",\"use_mask\":[",
                        (long long)w->o->piece_id.at[l->piece]);
        any = true;
    }
    weir_string_add(&w->text, any ? "]" : "");
}

static void add_run(weir_writing *w, uint32_t e)
{
    const uint32_t task = w->s->events.at[e].what;

    weir_string_add(&w->text, "{\"a\":\"compute\",\"op\":%lld",
                    (long long)w->o->task_id.at[task]);
    add_results(w, e, false);
    add_results(w, e, true);
    if (w->s->p->tasks.at[task].work)
        weir_string_add(&w->text, ",\"ws\":%zu", w->lay->work[e]);
    add_pairs(w, e);
    weir_string_add(&w->text, "}");
}

static void add_copy(weir_writing *w, uint32_t e)
{
    static const char *const name[] = {[WEIR_OUT] = "swap_out", [WEIR_IN] = "swap_in",
                                       [WEIR_PACK] = "encode", [WEIR_MARK] = "encode",
                                       [WEIR_UNPACK] = "decode"};
    const uint8_t   act = w->s->events.at[e].act;
    const uint32_t *life = w->s->refs.at + w->s->first.at[e];

    weir_string_add(&w->text, "{\"a\":\"%s\",\"t\":%lld", name[act],
                    (long long)w->o->piece_id.at[w->s->events.at[e].what]);
    if (act != WEIR_OUT && act != WEIR_IN)
        weir_string_add(&w->text, ",\"kind\":\"%s\"", act == WEIR_MARK ? "mask" : "pack");
    if (act == WEIR_IN)                 /* the host's copy stays: it may be good again */
        weir_string_add(&w->text, ",\"drop_host\":false");
    if (act != WEIR_OUT)
        weir_string_add(&w->text, ",\"off\":%zu", w->lay->offset[life[1]]);
    weir_string_add(&w->text, "}");
}

/* Lives that end in event e, unless somebody took them over: freed behind it. ends lists them. */
static void add_frees(weir_writing *w, uint32_t e, const uint32_t *ends, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const weir_life *l = &w->s->lives.at[ends[i]];
        const bool       last = e + 1 == w->s->events.n;
        if (l->form == WEIR_HOST || (last && (w->s->p->pieces.at[l->piece].output || l->before)))
            continue;
        weir_string_add(&w->text, ",\n{\"a\":\"free\",\"t\":");
        add_name(w, l);
        weir_string_add(&w->text, "}");
    }
}

/* Lives sorted by the event they end in: those of e are list[first[e]..first[e + 1]). Lives that
 * are scratch, or taken over, end by themselves. */
static bool sort_by_end(const weir_schedule *s, uint32_t **first, uint32_t **list)
{
    uint32_t *const f = *first = weir_mem_zalloc(s->events.n + 2u, sizeof *f);
    uint32_t *const l = *list = weir_mem_alloc((s->lives.n + 1u) * sizeof *l);
    uint8_t *const  skip = weir_mem_zalloc(s->lives.n + 1u, 1);

    for (uint32_t i = 0; f && l && skip && i < s->lives.n; i++) {
        const weir_life *v = &s->lives.at[i];
        const bool       made = s->events.n && s->events.at[v->first].act == WEIR_RUN && !v->before;
        skip[i] |= made && !lives_on(s, v);
        if (v->over != WEIR_NO_LIFE)
            skip[v->over] = 1;
    }
    for (uint32_t i = 0; f && l && skip && i < s->lives.n; i++)
        if (!skip[i])
            f[s->lives.at[i].last + 2]++;
    for (uint32_t e = 0; f && l && skip && e < s->events.n; e++)
        f[e + 2] += f[e + 1];
    for (uint32_t i = 0; f && l && skip && i < s->lives.n; i++)
        if (!skip[i])
            l[f[s->lives.at[i].last + 1]++] = i;
    weir_mem_free(skip);
    return f && l && skip;
}

static void add_residents(weir_writing *w)
{
    const char *gap = "";

    weir_string_add(&w->text, "\"resident\":{");
    for (uint32_t i = 0; i < w->s->lives.n && w->s->lives.at[i].before; i++)
        if (w->s->lives.at[i].form == WEIR_PLAIN) {
            weir_string_add(&w->text, "%s\"%lld\":%zu", gap,
                            (long long)w->o->piece_id.at[w->s->lives.at[i].piece],
                            w->lay->offset[i]);
            gap = ",";
        }
    /* Without swapping resident tensors are no pieces of the plan: they lie at the bottom. */
    size_t at = 0;
    for (uint32_t k = w->s->p->pieces.n; k < w->o->problem.pieces.n; k++) {
        weir_string_add(&w->text, "%s\"%lld\":%zu", gap, (long long)w->o->piece_id.at[k], at);
        at += (w->o->problem.pieces.at[k].bytes + w->align - 1) & ~(w->align - 1);
        gap = ",";
    }
    weir_string_add(&w->text, "},\"host_resident\":[");
    gap = "";
    for (uint32_t i = 0; i < w->s->lives.n && w->s->lives.at[i].before; i++)
        if (w->s->lives.at[i].form == WEIR_HOST) {
            weir_string_add(&w->text, "%s%lld", gap,
                            (long long)w->o->piece_id.at[w->s->lives.at[i].piece]);
            gap = ",";
        }
    weir_string_add(&w->text, "]");
}

static char *to_json(weir_writing *w, size_t budget)
{
    uint32_t *first = NULL, *list = NULL;

    if (sort_by_end(w->s, &first, &list)) {
        weir_string_add(&w->text, "{\"graph\":\"");
        weir_string_add_json(&w->text, w->o->name);
        weir_string_add(&w->text, "\",\"budget_bytes\":%zu,\"alignment\":%zu,", budget, w->align);
        add_residents(w);
        weir_string_add(&w->text, ",\"actions\":[");
        for (uint32_t e = 0; e < w->s->events.n; e++) {
            weir_string_add(&w->text, e ? ",\n" : "\n");
            if (w->s->events.at[e].act == WEIR_RUN)
                add_run(w, e);
            else
                add_copy(w, e);
            add_frees(w, e, list + first[e], first[e + 1] - first[e]);
        }
        weir_string_add(&w->text, "\n]}\n");
    }
    weir_mem_free(first);
    weir_mem_free(list);
    return weir_string_take(&w->text);
}

/* ---- planning ---- */

typedef struct weir_layouter {
    weir_lay lay;
    size_t   align, base;       /* base: of the pieces, above what always lies below them */
} weir_layouter;

static weir_status lay_out(void *ctx, const weir_schedule *s, size_t *height)
{
    weir_layouter *const l = ctx;
    const weir_status    status = weir_lay_out(s, l->align, &l->lay);
    *height = l->lay.height;
    return status;
}

/* The peak in the given order with everything kept and nothing in place. */
static weir_status whole_of(const weir_problem *p, size_t *bytes)
{
    weir_problem    plain = *p;
    weir_policy_job job = {.p = &plain, .room = SIZE_MAX, .variant = ""};
    bool            ok = true;

    WEIR_VEC(weir_task) tasks = {0};
    for (uint32_t i = 0; i < p->tasks.n && ok; i++) {
        ok = weir_vec_push(&tasks, p->tasks.at[i]);
        if (ok)
            tasks.at[i].pairs.n = 0;
    }
    plain.tasks.at = tasks.at;
    const weir_status status = ok ? weir_policy_recycle(&job) : WEIR_ERR_NOMEM;
    *bytes = p->resident + job.s.peak;
    weir_schedule_free(&job.s);
    weir_vec_free(&tasks);
    return status;
}

static void tell(const weir_problem *p, const weir_fit *f, size_t base,
                 weir_outline_plan_stats *stats)
{
    stats->live_bytes = p->resident + f->s.peak;
    stats->peak_bytes = base + f->height;
    stats->extra_ms = (f->s.time - p->time) * 1e3;
    for (uint32_t e = 0; e < f->s.events.n; e++) {
        const weir_event v = f->s.events.at[e];
        stats->again += v.again;
        stats->out_bytes += v.act == WEIR_OUT ? p->pieces.at[v.what].bytes : 0;
        stats->in_bytes += v.act == WEIR_IN ? p->pieces.at[v.what].bytes : 0;
    }
}

/* Offsets of the pieces are moved above what always lies below them. */
static void lift(weir_lay *l, const weir_schedule *s, size_t base)
{
    for (uint32_t i = 0; i < s->lives.n; i++)
        l->offset[i] += base;
    for (uint32_t e = 0; e < s->events.n; e++)
        l->work[e] += base;
}

static weir_status plan(const weir_outline *o, const weir_outline_options *how,
                        const weir_problem *p, weir_outline_plan_stats *stats, char **text)
{
    weir_layouter l = {.align = how->alignment ? how->alignment : 1};
    weir_fit      f = {.p = p, .moves = how->moves, .align = l.align, .lay = lay_out, .ctx = &l};
    weir_bound    b;

    const weir_levers levers = weir_levers_of(p);

    WEIR_TRY(weir_policy_find(how->policy, &f.policy, &f.variant));
    for (uint32_t k = p->pieces.n; k < o->problem.pieces.n; k++)
        l.base += (o->problem.pieces.at[k].bytes + l.align - 1) & ~(l.align - 1);
    const size_t budget = how->budget ? stats->budget_bytes : SIZE_MAX;
    f.room = budget > l.base ? budget - l.base : 0;
    WEIR_TRY(weir_bound_of(p, f.room, &levers, &b));
    stats->floor_bytes = l.base + b.feasible_bytes;
    stats->least_extra_ms = b.extra_seconds * 1e3;
    weir_status status = weir_fit_run(&f);
    if (status == WEIR_OK) {
        tell(p, &f, l.base, stats);
        stats->proven_extra_ms = f.proven * 1e3;
        if (f.fits && budget >= l.base) {
            weir_writing w = {.o = o, .s = &f.s, .lay = &l.lay, .align = l.align};
            lift(&l.lay, &f.s, l.base);
            *text = to_json(&w, how->budget ? budget : stats->peak_bytes);
        } else {
            status = weir_fail(WEIR_ERR_BUDGET,
                               "%s: no plan found within %zu bytes; the smallest met needs %zu, "
                               "no plan of any kind less than %zu", o->name, budget,
                               stats->peak_bytes, stats->floor_bytes);
        }
    }
    weir_fit_free(&f);
    weir_lay_free(&l.lay);
    return status;
}

/* With a link resident tensors may be moved, else they are always there. */
static weir_status plan_linked(const weir_outline *o, const weir_outline_options *how,
                               weir_outline_plan_stats *stats, char **text)
{
    weir_problem p;
    const bool   linked = how->link_out > 0 && how->link_in > 0;

    WEIR_TRY(whole_of(&o->problem, &stats->whole_bytes));
    if (how->budget)
        WEIR_TRY(weir_budget_parse(how->budget, stats->whole_bytes, &stats->budget_bytes));
    if (linked)
        p = o->problem;
    else if (!weir_problem_settled(&o->problem, &p))
        return WEIR_ERR_NOMEM;
    p.link_out = how->link_out * 1e9;
    p.link_in = how->link_in * 1e9;
    p.codec = (how->memory > 0 ? how->memory : 600) * 1e9;
    const weir_status status = plan(o, how, &p, stats, text);
    if (!linked)
        weir_problem_free(&p);
    return status;
}

static weir_status check_options(const weir_outline_options *how)
{
    const double rate[] = {how->link_out, how->link_in, how->memory};

    if (how->alignment & (how->alignment - 1) || how->alignment > MOST_ALIGN)
        return weir_fail(WEIR_ERR_INVALID, "alignment %zu, must be a power of two up to %zu",
                         how->alignment, MOST_ALIGN);
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        if (!isfinite(rate[i]) || rate[i] < 0)
            return weir_fail(WEIR_ERR_INVALID, "a rate of %g GB/s is none", rate[i]);
    return WEIR_OK;
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
    stats = stats ? stats : &unread;
    *stats = (weir_outline_plan_stats){.tensors = o->problem.pieces.n,
                                       .operations = o->problem.tasks.n,
                                       .step_ms = o->problem.time * 1e3};
    for (uint32_t k = 0; k < o->problem.pieces.n; k++)
        if (weir_piece_resident(&o->problem, k))
            stats->resident_bytes += o->problem.pieces.at[k].bytes;
    if (check_options(how) == WEIR_OK)
        (void)plan_linked(o, how, stats, &text);
    return text;
}
