/* explain.c - a schedule as a table: what is done with each tensor, why, and at what cost.
 *
 * The seconds of a repeated run are charged to those of its outputs that are used afterwards; the
 * seconds that compute waits for a copy, to the copied tensor. What keeping a tensor would have
 * cost is its bytes at the fullest event between its live ranges. */
#include "graph/memory/explain/explain.h"

#include <math.h>
#include <stdlib.h>

#include "graph/memory/problem/event_times.h"
#include "graph/ir/format.h"

/* What is done with a tensor. The sums count it under the first that applies. */
typedef enum weir_fate {
    HOST_RESIDENT,
    OFFLOADED,
    RECOMPUTED,
    COMPRESSED,
    MASKED,
    IN_PLACE,
    KEPT,
    FATES
} weir_fate;

static const char *const fate_name[FATES] = {"on the host", "offloaded", "recomputed",
                                             "compressed", "masked", "in place", "kept"};

typedef struct weir_row {
    uint32_t tensor, runs, outs, ins;
    uint32_t first; /* first event of its first live range */
    uint32_t over;  /* tensor whose memory it takes over in place */
    size_t   bytes;
    size_t   at_peak;           /* bytes of its live ranges at the peak */
    double   recomputed;        /* seconds of repeated runs and of compression */
    double   out_time, in_time; /* seconds: end of its first offload and last prefetch */
    /* seconds for which compute waits for its copies; is slowed by them */
    double   stall, taken;
    bool     fate[FATES];
    bool     for_others; /* recomputed only to recompute other tensors */
} weir_row;

typedef struct weir_table {
    const weir_schedule *s;
    const weir_naming   *n;
    weir_string         *text;
    weir_event_time     *moment;
    weir_row            *row;  /* [tensors] */
    uint32_t             peak; /* event */
} weir_table;

static weir_fate fate_of(const weir_row *r)
{
    weir_fate f = HOST_RESIDENT;

    while (f < KEPT && !r->fate[f])
        f++;
    return f;
}

/* ---- gathering ---- */

uint32_t weir_peak_event(const weir_schedule *s)
{
    uint32_t best = s->events.n;

    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->events.at[e].kind != WEIR_EVENT_PREFETCH &&
            (best == s->events.n || s->live.at[e] > s->live.at[best]))
            best = e;
    return best < s->events.n ? best : 0;
}

static void note_range(weir_table *t, uint32_t i)
{
    const weir_schedule        *s = t->s;
    const weir_live_range      *l = &s->ranges.at[i];
    weir_row *const      r = &t->row[l->tensor];
    const weir_event_kind       by = (weir_event_kind)s->events.at[l->first].kind;

    r->first = l->first < r->first ? l->first : r->first;
    if (l->first <= t->peak && t->peak <= l->last)
        r->at_peak += weir_live_range_bytes(s->p, l);
    r->fate[HOST_RESIDENT] |= l->form == WEIR_FORM_HOST && l->before;
    r->fate[COMPRESSED] |= l->form == WEIR_FORM_COMPRESSED;
    r->fate[MASKED] |= l->form == WEIR_FORM_MASK;
    if (l->over != WEIR_NO_RANGE) {
        r->fate[IN_PLACE] = true;
        r->over = s->ranges.at[l->over].tensor;
    }
    if (!l->before && by == WEIR_EVENT_RUN && s->events.at[l->first].recomputed &&
        l->last > l->first) {
        r->fate[RECOMPUTED] = true;
        r->runs++;
    }
}

/* Charges a repeated run to its outputs that are used; clears for_others of what a first run
 * reads. */
static void note_run(weir_table *t, uint32_t e)
{
    const weir_schedule *s = t->s;
    uint32_t             nin, nout, used = 0;
    const uint32_t      *range = weir_schedule_refs(s, e, &nin, &nout);
    const bool           recomputed = s->events.at[e].recomputed;

    for (uint32_t i = 0; i < nin && !recomputed; i++)
        if (s->events.at[s->ranges.at[range[i]].first].recomputed)
            t->row[s->ranges.at[range[i]].tensor].for_others = false;
    for (uint32_t i = 0; i < nout && recomputed; i++)
        used += s->ranges.at[range[nin + i]].last > e;
    for (uint32_t i = 0; i < nout && recomputed; i++)
        if (s->ranges.at[range[nin + i]].last > e)
            t->row[s->ranges.at[range[nin + i]].tensor].recomputed +=
                weir_event_seconds(s->p, &s->events.at[e]) / used;
}

static void note_event(weir_table *t, uint32_t e)
{
    const weir_event      *v = &t->s->events.at[e];
    const weir_event_time *m = &t->moment[e];

    if (m->waits_for != WEIR_NO_TENSOR)
        t->row[m->waits_for].stall += m->wait;
    if (v->kind == WEIR_EVENT_RUN) {
        note_run(t, e);
        return;
    }
    weir_row *const r = &t->row[v->what];
    const double    seconds = weir_event_seconds(t->s->p, v);
    r->taken += v->kind == WEIR_EVENT_OFFLOAD || v->kind == WEIR_EVENT_PREFETCH
                    ? t->s->p->copy_interference * seconds
                    : 0;
    if (v->kind == WEIR_EVENT_OFFLOAD) {
        r->fate[OFFLOADED] = true;
        r->out_time = r->outs++ ? r->out_time : m->end;
    } else if (v->kind == WEIR_EVENT_PREFETCH) {
        r->fate[OFFLOADED] = true;
        r->ins++;
        r->in_time = m->end;
    } else {
        r->recomputed += seconds;
    }
}

static bool gather(weir_table *t)
{
    const weir_schedule *s = t->s;

    t->peak = weir_peak_event(s);
    t->moment = weir_schedule_event_times(s);
    t->row = weir_mem_zalloc(s->p->tensors.n + 1u, sizeof *t->row);
    if (!t->moment || !t->row)
        return false;
    for (uint32_t k = 0; k < s->p->tensors.n; k++)
        t->row[k] = (weir_row){.tensor = k,
                               .first = UINT32_MAX,
                               .for_others = true,
                               .bytes = s->p->tensors.at[k].bytes};
    for (uint32_t i = 0; i < s->ranges.n && s->events.n; i++)
        note_range(t, i);
    for (uint32_t e = 0; e < s->events.n; e++)
        note_event(t, e);
    return true;
}

/* ---- reasons ---- */

static bool touched_at_peak(const weir_table *t, uint32_t tensor)
{
    uint32_t        nin, nout;
    const uint32_t *range = weir_schedule_refs(t->s, t->peak, &nin, &nout);

    for (uint32_t i = 0; i < nin + nout; i++)
        if (t->s->ranges.at[range[i]].tensor == tensor)
            return true;
    return false;
}

/* Returns the tensor's first use after the peak; WEIR_NO_OP if it has none. */
static uint32_t next_use(const weir_table *t, uint32_t tensor)
{
    const weir_index_range uses = t->s->p->tensors.at[tensor].uses;
    const uint32_t         stage = weir_schedule_first_run(t->s, t->peak);

    for (uint32_t j = 0; j < uses.n; j++)
        if (weir_refs(t->s->p, uses)[j] >= stage)
            return weir_refs(t->s->p, uses)[j];
    return WEIR_NO_OP;
}

static void why_kept(const weir_table *t, const weir_row *r)
{
    const weir_mem_problem *p = t->s->p;
    const weir_mem_tensor  *k = &p->tensors.at[r->tensor];
    const uint32_t          use = next_use(t, r->tensor);

    if (k->producer == WEIR_NO_OP)
        weir_string_add(t->text, ": always there");
    else if (r->at_peak == 0)
        weir_string_add(t->text, ": not there at the peak");
    else if (touched_at_peak(t, r->tensor))
        weir_string_add(t->text, ": the operation at the peak needs it");
    else if (p->ops.at[k->producer].rerun_before == 0)
        weir_string_add(t->text, ": there at the peak; its operation runs once only");
    else if (use != WEIR_NO_OP && p->ops.at[k->producer].rerun_before <= use)
        weir_string_add(t->text, ": there at the peak; by its next use what it is made from is "
                                 "overwritten");
    else if (k->output)
        weir_string_add(t->text, ": there at the peak, a result of the step");
    else
        weir_string_add(t->text, ": there at the peak; to recompute it takes %.4g ms or more",
                        p->ops.at[k->producer].time * 1e3);
}

/* Returns the event with the most live bytes between the tensor's live ranges on the device; the
 * number of events if it has only one range. */
static uint32_t tightest_interval(const weir_table *t, const weir_row *r)
{
    const weir_schedule *s = t->s;
    uint32_t             from = r->first, best = s->events.n;

    for (uint32_t i = 0; i < s->ranges.n; i++) {     /* in the order in which they begin */
        const weir_live_range *l = &s->ranges.at[i];
        if (l->tensor != r->tensor || l->form != WEIR_FORM_PLAIN)
            continue;
        for (uint32_t e = from; e < l->first; e++)
            if (best == s->events.n || s->live.at[e] > s->live.at[best])
                best = e;
        from = l->last + 1 > from ? l->last + 1 : from;
    }
    for (uint32_t e = from; e < s->events.n && t->s->p->tensors.at[r->tensor].output; e++)
        if (best == s->events.n || s->live.at[e] > s->live.at[best])
            best = e;
    return best;
}

/* Adds what keeping the tensor would have cost. */
static void add_gain(const weir_table *t, const weir_row *r)
{
    const uint32_t e = tightest_interval(t, r);

    if (e == t->s->events.n)
        return;
    const uint32_t op = weir_schedule_first_run(t->s, e);
    weir_string_add(t->text, "; kept it would make %zu bytes at %lld ",
                    (size_t)t->s->live.at[e] + t->n->base + r->bytes,
                    t->n->number(t->n->ctx, op));
    t->n->op(t->n->ctx, op, t->text);
}

static void add_times(weir_string *s, uint32_t n)
{
    if (n == 1)
        weir_string_add(s, " once");
    else
        weir_string_add(s, " %u times", n);
}

static void why_offloaded(const weir_table *t, const weir_row *r)
{
    if (r->outs)
        weir_string_add(t->text, ", out by %.4g ms", r->out_time * 1e3);
    if (r->ins)
        weir_string_add(t->text, ", back at %.4g ms", r->in_time * 1e3);
    if (r->outs + r->ins > 2)
        weir_string_add(t->text, " (%u copies)", r->outs + r->ins);
    if (r->stall > 0)
        weir_string_add(t->text, ", compute waits %.4g ms", r->stall * 1e3);
    else
        weir_string_add(t->text, ", hidden");
    if (r->taken > 0)
        weir_string_add(t->text, ", %.4g ms taken from compute", r->taken * 1e3);
}

static void explain_row(const weir_table *t, const weir_row *r)
{
    const weir_mem_tensor *k = &t->s->p->tensors.at[r->tensor];
    bool                   any = false;

    for (weir_fate f = HOST_RESIDENT; f < KEPT; f++) {
        if (!r->fate[f])
            continue;
        weir_string_add(t->text, any ? "; %s" : "%s", fate_name[f]);
        any = true;
        if (f == OFFLOADED)
            why_offloaded(t, r);
        if (f == RECOMPUTED) {
            add_times(t->text, r->runs);
            weir_string_add(t->text, ", %.4g ms%s", r->recomputed * 1e3,
                            r->for_others ? ", for others made from it" : "");
        }
        if (f == COMPRESSED || f == MASKED)
            weir_string_add(t->text, " to %zu bytes", f == COMPRESSED ? k->packed : k->mask);
        if (f == IN_PLACE) {
            weir_string_add(t->text, " of ");
            t->n->tensor(t->n->ctx, r->over, t->text);
        }
    }
    if (!any || fate_of(r) == IN_PLACE) {
        weir_string_add(t->text, any ? "; kept" : "kept");
        why_kept(t, r);
    } else {
        add_gain(t, r);
    }
}

/* ---- the table ---- */

static void add_producer(const weir_table *t, const weir_mem_tensor *k)
{
    if (k->producer == WEIR_NO_OP) {
        weir_string_add(t->text, "-");
        return;
    }
    weir_string_add(t->text, "%lld ", t->n->number(t->n->ctx, k->producer));
    t->n->op(t->n->ctx, k->producer, t->text);
}

static void add_uses(const weir_table *t, const weir_mem_tensor *k)
{
    enum { SHOWN = 4 };
    const uint32_t *use = weir_refs(t->s->p, k->uses);

    for (uint32_t j = 0; j < k->uses.n && j < SHOWN; j++)
        weir_string_add(t->text, "%s%lld", j ? " " : "", t->n->number(t->n->ctx, use[j]));
    if (k->uses.n > SHOWN)
        weir_string_add(t->text, " +%u", k->uses.n - SHOWN);
    if (k->output)
        weir_string_add(t->text, k->uses.n ? " end" : "end");
}

static void add_row(const weir_table *t, const weir_row *r)
{
    enum { TENSOR = 13, NAME = 8, PRODUCER = 30, USES = 22 };
    const weir_mem_tensor *k = &t->s->p->tensors.at[r->tensor];
    const size_t           start = t->text->n;

    weir_string_add(t->text, "%*zu  ", TENSOR, k->bytes);
    t->n->tensor(t->n->ctx, r->tensor, t->text);
    weir_format_pad(t->text, start, TENSOR + 2 + NAME);
    weir_string_add(t->text, " ");
    add_producer(t, k);
    weir_format_pad(t->text, start, TENSOR + 2 + NAME + PRODUCER);
    weir_string_add(t->text, " ");
    add_uses(t, k);
    weir_format_pad(t->text, start, TENSOR + 2 + NAME + PRODUCER + USES);
    weir_string_add(t->text, " ");
    explain_row(t, r);
    weir_string_add(t->text, "\n");
}

/* Orders by bytes, the largest first, then by the order of the step. */
static int by_bytes(const void *a, const void *b)
{
    const weir_row *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void add_sums(const weir_table *t)
{
    const weir_schedule *s = t->s;
    const size_t         live = s->events.n ? (size_t)s->live.at[t->peak] : 0;
    weir_string_add(t->text, "\n%-12s %8s %16s %20s %12s %12s\n", "decision", "tensors", "bytes",
                    "of them at the peak", "runs, ms", "copies, ms");
    for (weir_fate f = HOST_RESIDENT; f < FATES; f++) {
        size_t   bytes = 0, peak = 0;
        uint32_t count = 0;
        double   recomputed = 0, stall = 0;
        for (uint32_t k = 0; k < s->p->tensors.n; k++) {
            const weir_row *r = &t->row[k];
            if (fate_of(r) != f)
                continue;
            count++;
            bytes += s->p->tensors.at[r->tensor].bytes;
            peak += r->at_peak;
            recomputed += r->recomputed;
            stall += r->stall + r->taken;
        }
        if (count)
            weir_string_add(t->text, "%-12s %8u %16zu %20zu %12.4g %12.4g\n", fate_name[f], count,
                            bytes, peak, recomputed * 1e3, stall * 1e3);
    }
    const weir_event *v = &s->events.at[t->peak];
    const size_t work = s->events.n && v->kind == WEIR_EVENT_RUN ? s->p->ops.at[v->what].work : 0;
    if (work)
        weir_string_add(t->text, "%-12s %8s %16s %20zu\n", "workspace", "", "", work);
    if (t->n->base)
        weir_string_add(t->text, "%-12s %8s %16zu %20zu\n", "always there", "", t->n->base,
                        t->n->base);
    weir_string_add(t->text, "%-12s %8s %16s %20zu\n", "live", "", "", live + t->n->base);
}

/* Adds the name of an event, for example "12 conv2d (backward)". */
static void add_event(const weir_table *t, uint32_t e)
{
    static const char *const kind[] = {[WEIR_EVENT_RUN] = "",
                                       [WEIR_EVENT_OFFLOAD] = "the copy to the host before ",
                                       [WEIR_EVENT_PREFETCH] = "the copy to the device before ",
                                       [WEIR_EVENT_COMPRESS] = "the compression before ",
                                       [WEIR_EVENT_MASK] = "the masking before ",
                                       [WEIR_EVENT_DECOMPRESS] = "the decompression before "};
    const weir_event         v = t->s->events.at[e];
    const uint32_t op = v.kind == WEIR_EVENT_RUN ? v.what : weir_schedule_first_run(t->s, e);

    weir_string_add(t->text, "%soperation %lld ", kind[v.kind], t->n->number(t->n->ctx, op));
    t->n->op(t->n->ctx, op, t->text);
    weir_string_add(t->text, " (%s%s)", weir_phase_name[t->s->p->ops.at[op].phase],
                    v.recomputed ? ", recomputed" : "");
}

static void add_head(const weir_table *t)
{
    const weir_schedule *s = t->s;
    const weir_naming   *n = t->n;
    const double         time = s->p->time > 0 ? s->p->time : 1;

    weir_string_add(t->text, "%s: %u tensor%s, %u operation%s\n", n->title, s->p->tensors.n,
                    s->p->tensors.n == 1 ? "" : "s", s->p->ops.n, s->p->ops.n == 1 ? "" : "s");
    weir_string_add(t->text, "  peak   %15zu bytes live",
                    n->base + (s->events.n ? (size_t)s->live.at[t->peak] : 0));
    if (s->events.n) {
        weir_string_add(t->text, " at ");
        add_event(t, t->peak);
    }
    if (n->planned)
        weir_string_add(t->text, "; %zu with gaps between addresses", n->planned);
    if (n->budget)
        weir_string_add(t->text, "\n  budget %15zu bytes", n->budget);
    weir_string_add(t->text, "\n  floor  %15zu bytes: no plan of any kind needs less\n", n->floor);
    weir_string_add(t->text, "  time   %15.4f ms, %.4f ms (%.3f %%) of them extra",
                    (s->p->time + n->extra) * 1e3, n->extra * 1e3, 100 * n->extra / time);
    if (n->budget && isfinite(n->least))
        weir_string_add(t->text, "; no plan within the budget has less than %.4f ms (%.3f %%)",
                        n->least * 1e3, 100 * n->least / time);
    weir_string_add(t->text, "\n\n%13s  %-8s%-30s%-22s %s\n", "bytes", "tensor", " made by",
                    " read by", "decision, reason and cost");
}

/* Gathers the rows and sorts them. */
static bool rows_of(weir_table *t)
{
    if (!gather(t))
        return false;
    qsort(t->row, t->s->p->tensors.n, sizeof *t->row, by_bytes);
    return true;
}

static void table_free(weir_table *t)
{
    weir_mem_free(t->moment);
    weir_mem_free(t->row);
}

void weir_explain(const weir_schedule *s, const weir_naming *n, weir_string *text)
{
    weir_table t = {.s = s, .n = n, .text = text};

    if (!rows_of(&t)) {
        text->failed = true;
    } else {
        add_head(&t);
        for (uint32_t k = 0; k < s->p->tensors.n; k++)
            add_row(&t, &t.row[k]);
        add_sums(&t);
    }
    table_free(&t);
}

bool weir_explain_each(const weir_schedule *s, const weir_naming *n,
                       void (*tell)(void *to, uint32_t tensor, const char *decision,
                                    const char *why), void *to)
{
    weir_string why = {0};
    weir_table  t = {.s = s, .n = n, .text = &why};
    bool        ok = rows_of(&t);

    for (uint32_t k = 0; ok && k < s->p->tensors.n; k++) {
        why.n = 0;
        explain_row(&t, &t.row[k]);
        ok = !why.failed;
        if (ok)
            tell(to, t.row[k].tensor, fate_name[fate_of(&t.row[k])], why.at);
    }
    weir_mem_free(why.at);
    table_free(&t);
    return ok;
}
