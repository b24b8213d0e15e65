/* play.c - runs a program under one mode: the schedule, what is read after it, and whether the
 * memory is what the plan said. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/ops.h"

enum { BUDGET_TEXT = 32 };

/* Records what is wrong with the memory or the numbers of a plan; only the first fault is kept. */
__attribute__((format(printf, 2, 3))) static void wrong(trace *t, const char *format, ...)
{
    if (t->bad)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(t->error, sizeof t->error, format, args);
    va_end(args);
    t->bad = true;
}

static weir_status failed(trace *t, weir_status s, const char *what, int at)
{
    if (s != WEIR_OK && !*weir_error())
        wrong(t, "%s %d failed with %s and no sentence", what, at, weir_status_text(s));
    else if (s != WEIR_OK)
        wrong(t, "%s %d: %s", what, at, weir_error());
    return s;
}

/* ---- records ---- */

static weir_status add_record(trace *t, const char *label, int a, int b, const weir_tensor *x)
{
    if (t->n == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 64;
        record *const more = realloc(t->at, t->capacity * sizeof *more);
        if (!more)
            return weir_fail(WEIR_ERR_NOMEM, "no memory for records");
        t->at = more;
    }
    record *const r = &t->at[t->n++];
    *r = (record){.desc = weir_tensor_desc(x), .bytes = weir_tensor_bytes(x)};
    snprintf(r->label, sizeof r->label, "%s %d.%d", label, a, b);
    r->data = calloc(1, r->bytes + 1);
    return r->data ? weir_read(x, r->data, r->bytes)
                   : weir_fail(WEIR_ERR_NOMEM, "no memory for %zu bytes", r->bytes);
}

void trace_free(trace *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->at[i].data);
    free(t->at);
    *t = (trace){0};
}

static weir_status read_kept(stage *s, trace *t)
{
    for (int i = 0; i < s->nkept; i++)
        WEIR_TRY(add_record(t, "kept", s->g, i, s->kept[i]));
    return WEIR_OK;
}

/* All parameters and states. */
static weir_status read_all(world *w, trace *t)
{
    const program *p = w->p;
    for (int g = 0; g < p->ngraph; g++)
        if (w->stage[g].runs)
            WEIR_TRY(read_kept(&w->stage[g], t));
    for (int i = 0; i < p->nleaf; i++)
        WEIR_TRY(add_record(t, "leaf", i, 0, w->leaf[i]));
    for (size_t i = 0; i < weir_model_param_count(w->model); i++)
        WEIR_TRY(add_record(t, "model parameter", (int)i, 0, weir_model_param(w->model, i)));
    for (size_t i = 0; i < weir_model_state_count(w->model); i++)
        WEIR_TRY(add_record(t, "model state", (int)i, 0, weir_model_state(w->model, i)));
    for (int o = 0; o < p->noptim; o++) {
        for (size_t i = 0; i < weir_optim_state_count(w->optim[o]); i++)
            WEIR_TRY(add_record(t, "optimiser state", o, (int)i, weir_optim_state(w->optim[o], i)));
        for (size_t i = 0; w->scaler[o] && i < weir_scaler_state_count(w->scaler[o]); i++)
            WEIR_TRY(add_record(t, "scaler state", o, (int)i, weir_scaler_state(w->scaler[o], i)));
    }
    return WEIR_OK;
}

/* ---- planning ---- */

static weir_plan_options options_of(const mode *m, char text[BUDGET_TEXT], size_t bytes)
{
    if (bytes)
        snprintf(text, BUDGET_TEXT, "%zu", bytes);
    else if (m->share == SMALLEST)
        snprintf(text, BUDGET_TEXT, "1");
    else
        snprintf(text, BUDGET_TEXT, "%d%%", m->share);
    return (weir_plan_options){
        .level = m->level, .disable = *m->disable ? m->disable : NULL,
        .budget = m->share ? text : NULL, .policy = *m->policy ? m->policy : NULL,
        .placement = *m->placement ? m->placement : NULL, .measure = m->measure,
        .profile_steps = m->profile_steps};
}

/* Records and plans, and runs too with a weir_step. */
static weir_status first_run(stage *s, const mode *m, size_t bytes)
{
    char                    text[BUDGET_TEXT];
    const weir_plan_options plan = options_of(m, text, bytes);

    if (!m->raw) {
        s->step = weir_step_new(s->w->d, play_graph, s, &(weir_step_options){m->on, plan});
        return s->step ? weir_step_run(s->step) : weir_error_status();
    }
    s->raw = weir_graph_begin(s->w->d);
    if (!s->raw)
        return weir_error_status();
    const weir_status status = play_graph(s);
    const weir_status planned = weir_graph_end(s->raw, &plan);
    WEIR_TRY(status);
    WEIR_TRY(planned);
    return weir_graph_run(s->raw);
}

static void drop_graph(stage *s)
{
    weir_step_free(s->step);
    weir_graph_free(s->raw);
    s->step = NULL;
    s->raw = NULL;
    s->nkept = 0;
}

/* Returns the budget to try after a refusal: the smallest that works, which the message must name,
 * plus the mode's share of the bytes between it and the peak without a budget. (A share of the peak
 * itself often does not hold even the parameters.) 0: the message names no budget. */
static size_t next_budget(const mode *m, const char *sentence)
{
    static const char mark[] = "the smallest that works is ", asked[] = "budget of ";
    const char *const found = strstr(sentence, mark), *const of = strstr(sentence, asked);
    if (!found || !of)
        return 0;
    const size_t smallest = strtoull(found + strlen(mark), NULL, 10);
    if (m->share == SMALLEST)
        return smallest;
    const size_t share = (size_t)m->share;
    const size_t whole = strtoull(of + strlen(asked), NULL, 10) / share * 100;
    return whole > smallest ? smallest + (whole - smallest) / 100 * share : smallest;
}

/* Plans and runs under the mode's budget. If that is refused, tries again with the smallest budget
 * that the message names, or with more: this must work. */
static weir_status plan_and_run(stage *s, const mode *m, trace *t)
{
    const weir_status status = first_run(s, m, 0);

    if (status != WEIR_ERR_BUDGET || !m->share)
        return status;
    const size_t budget = next_budget(m, weir_error());
    if (budget == 0) {
        wrong(t, "a refused budget names no smallest: %s", weir_error());
        return status;
    }
    t->refused = true;
    drop_graph(s);
    const weir_status recomputed = first_run(s, m, budget);
    if (recomputed == WEIR_ERR_BUDGET)
        wrong(t, "a budget of %zu bytes was said to work: %s", budget, weir_error());
    return recomputed;
}

/* ---- runs ---- */

/* Runs the step twice. The first run offloads what lives in the spill file between steps and what
 * the host or another graph has prefetched; the second is measured with canaries: planned peak =
 * measured peak <= budget. */
static weir_status measured_run(stage *s, weir_graph *g, trace *t)
{
    weir_graph_stats st;
    weir_memory      before, m;
    size_t           arena;

    WEIR_TRY(weir_graph_run(g));
    s->runs++;
    weir_device_reset_peak(s->w->d);
    WEIR_TRY(weir_graph_stats_of(g, &st));
    weir_device_memory(s->w->d, &before);
    WEIR_TRY(weir_graph_measure(g, &arena));
    weir_device_memory(s->w->d, &m);
    if (m.core_allocations != before.core_allocations)
        wrong(t, "graph %d: a run allocated %llu times", s->g,
              (unsigned long long)(m.core_allocations - before.core_allocations));
    t->measured++;
    if (arena != st.arena_bytes || m.live_peak + arena != st.planned_peak_bytes)
        wrong(t, "graph %d: planned %zu + %zu, measured %zu + %zu bytes", s->g,
              st.persistent_bytes, st.arena_bytes, m.live_peak, arena);
    if (st.budget_bytes && s->w->p->ngraph == 1 && st.planned_peak_bytes > st.budget_bytes)
        wrong(t, "graph %d: planned %zu bytes in a budget of %zu", s->g, st.planned_peak_bytes,
              st.budget_bytes);
    return WEIR_OK;
}

static void look_at_plan(stage *s, const mode *m, weir_graph *g, trace *t)
{
    weir_graph_stats st;
    if (weir_graph_stats_of(g, &st) != WEIR_OK)
        return;
    t->lossy = t->lossy || st.lossy > 0;
    t->recomputed += st.recomputed;
    t->nodes = st.nodes > t->nodes ? st.nodes : t->nodes;
    if (!m->share != !st.budget_bytes || st.lower_bound_bytes > st.arena_bytes ||
        st.runs != (uint64_t)s->runs || st.workspace_bytes > st.arena_bytes || st.flops < 0 ||
        st.planned_peak_bytes != st.persistent_bytes + st.arena_bytes)
        wrong(t, "graph %d: its numbers make no sense: budget %zu, bound %zu, arena %zu, runs "
              "%llu, workspace %zu", s->g, st.budget_bytes, st.lower_bound_bytes, st.arena_bytes,
              (unsigned long long)st.runs, st.workspace_bytes);
}

/* Graph off without weir_step: a scope for each run, kept results held until the next one. */
static weir_status run_scope(stage *s)
{
    for (int i = 0; i < s->nkept; i++)
        weir_release(s->kept[i]);
    s->nkept = 0;
    WEIR_TRY(weir_scope_begin(s->w->d));
    const weir_status status = play_graph(s);
    for (int i = 0; i < s->nkept; i++)
        weir_retain(s->kept[i]);
    WEIR_TRY(status);
    return weir_scope_end(s->w->d);
}

static weir_status off_run(stage *s)
{
    if (!s->step)
        return first_run(s, s->w->m, 0);
    return weir_step_run(s->step);
}

static weir_status rerun(stage *s, bool last, trace *t)
{
    weir_graph *const g = s->raw ? s->raw : weir_step_graph(s->step);
    if (last)
        return measured_run(s, g, t);
    return s->raw ? weir_graph_run(s->raw) : weir_step_run(s->step);
}

static weir_status run_stage(stage *s, bool last, trace *t)
{
    const mode *const m = s->w->m;
    weir_memory       mem;

    weir_device_reset_peak(s->w->d);
    for (int i = 0; i < (last ? 2 : 1) && !m->on; i++)
        WEIR_TRY(m->raw ? run_scope(s) : off_run(s));
    if (m->on)
        WEIR_TRY(s->runs == 0 ? plan_and_run(s, m, t) : rerun(s, last, t));
    s->runs++;
    weir_device_memory(s->w->d, &mem);
    if (!m->on) {
        if (mem.live_peak > t->live_peak)
            t->live_peak = mem.live_peak;
        if (m->eager && mem.live_peak > m->eager_bytes)
            wrong(t, "graph off: %zu live bytes in a budget of %zu", mem.live_peak,
                  m->eager_bytes);
    } else {
        look_at_plan(s, m, s->raw ? s->raw : weir_step_graph(s->step), t);
    }
    return read_kept(s, t);
}

static weir_status play_act(world *w, const act *a, trace *t)
{
    switch (a->kind) {
    case ACT_RUN:   return run_stage(&w->stage[a->at], a->last, t);
    case ACT_WRITE: return write_leaf(w, a->at, a->seed);
    case ACT_RATE:  return weir_optim_set_lr(w->optim[a->at], 0.0125);
    default:        return weir_device_seed(w->d, a->seed);
    }
}

static weir_status limit(world *w)
{
    char text[BUDGET_TEXT];
    snprintf(text, sizeof text, "%zu", w->m->eager_bytes);
    WEIR_TRY(weir_device_set_policy(w->d, *w->m->evict ? w->m->evict : NULL));
    return weir_device_set_budget(w->d, text);
}

static void close_stages(world *w)
{
    for (int g = 0; g < MAX_GRAPHS; g++) {
        stage *const s = &w->stage[g];
        for (int i = 0; i < s->nkept && !w->m->on && w->m->raw; i++)
            weir_release(s->kept[i]);
        drop_graph(s);
    }
}

void play_program(const program *p, const mode *m, trace *t)
{
    static world w;
    weir_memory  mem;
    *t = (trace){0};
    t->status = failed(t, world_open(&w, p, m), "opening", 0);
    if (t->status == WEIR_OK && m->eager)
        t->status = failed(t, limit(&w), "limit", 0);
    for (int i = 0; i < p->nact && t->status == WEIR_OK && !t->bad; i++)
        t->status = failed(t, play_act(&w, &p->act[i], t), "act", i);
    if (t->status == WEIR_OK && !t->bad)
        t->status = failed(t, read_all(&w, t), "reading", 0);
    if (w.d && m->eager) {
        weir_device_memory(w.d, &mem);
        t->recomputed += mem.recomputed;
    }
    close_stages(&w);
    world_close(&w);
}

/* ---- comparing ---- */

static double number(const record *r, int64_t i)
{
    float    f = 0;
    uint32_t u;
    switch (r->desc.dtype) {
    case WEIR_F32: return ((const float *)r->data)[i];
    case WEIR_F64: return ((const double *)r->data)[i];
    case WEIR_I32: return ((const int32_t *)r->data)[i];
    case WEIR_I64: return (double)((const int64_t *)r->data)[i];
    case WEIR_U8:
    case WEIR_BOOL: return ((const uint8_t *)r->data)[i];
    case WEIR_BF16:
        u = (uint32_t)((const uint16_t *)r->data)[i] << 16;
        memcpy(&f, &u, sizeof f);
        return f;
    default:
        u = ((const uint16_t *)r->data)[i];
        return (u & 0x7c00) == 0x7c00 && (u & 0x3ff) ? (double)NAN : (double)u;
    }
}

/* Index of the first element that differs, -1 if none does. */
static int64_t element_differs(const record *a, const record *b, double tolerance)
{
    const int64_t n = elements(&a->desc);
    const size_t  size = weir_dtype_size(a->desc.dtype);
    double        scale = 1;
    for (int64_t i = 0; i < n && tolerance > 0; i++)
        if (number(a, i) > scale)
            scale = number(a, i);
    for (int64_t i = 0; i < n; i++) {
        const char *const p = (const char *)a->data + (size_t)i * size;
        const char *const q = (const char *)b->data + (size_t)i * size;
        const double      x = number(a, i), y = number(b, i);
        if (memcmp(p, q, size) == 0 || (x != x && y != y))
            continue;
        if (!(tolerance > 0 && x - y <= tolerance * scale && y - x <= tolerance * scale))
            return i;
    }
    return -1;
}

bool trace_differs(const trace *a, const trace *b, double tolerance, char *text, size_t capacity)
{
    if (a->n != b->n) {
        snprintf(text, capacity, "%zu results, not %zu", b->n, a->n);
        return true;
    }
    for (size_t i = 0; i < a->n; i++) {
        const record *x = &a->at[i], *y = &b->at[i];
        if (strcmp(x->label, y->label) != 0 || x->bytes != y->bytes) {
            snprintf(text, capacity, "result %zu is %s of %zu bytes, not %s of %zu", i, y->label,
                     y->bytes, x->label, x->bytes);
            return true;
        }
        const int64_t at = element_differs(x, y, tolerance);
        if (at >= 0) {
            snprintf(text, capacity,
                     "result %zu of %zu, %s (%s): element %lld of %lld is %.9g, not "
                     "%.9g",
                     i, a->n, x->label, weir_dtype_name(x->desc.dtype), (long long)at,
                     (long long)elements(&x->desc), number(y, at), number(x, at));
            return true;
        }
    }
    return false;
}
