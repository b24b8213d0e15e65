/* recording.c - begins, pauses, resumes, ends and frees a recording, and decides what becomes of
 * its handles. */
#include "core/status.h"
#include "graph/autodiff/tape.h"
#include "graph/compile/agreement.h"
#include "graph/compile/compile.h"
#include "graph/compile/waiting.h"
#include "graph/ir/graph.h"
#include "graph/ir/session.h"
#include "graph/memory/budget/budget.h"
#include "graph/memory/budget/replan.h"
#include "graph/memory/budget/shared.h"
#include "graph/plan/plan.h"
#include "graph/report/recorded.h"

static weir_status check_recording(const char *who, const weir_graph *g, weir_graph_state want)
{
    static const char *const why[] = {"being recorded", "paused", "planned already", "broken"};

    if (g->state != want)
        return weir_fail(WEIR_ERR_STATE, "%s: the graph is %s", who, why[g->state]);
    return WEIR_OK;
}

/* Remembers a failed call since recording began or was resumed, which the program may have
 * overlooked. */
static void note_poison(weir_graph *g)
{
    if (g->poisoned_by == WEIR_OK && g->state == WEIR_GRAPH_RECORDING) {
        g->poisoned_by = weir_poisoned_since(&g->poison_mark);
        g->poison_message = g->poisoned_by == WEIR_OK ? NULL : weir_mem_strdup(weir_error());
    }
}

/* Fails if a call of the program failed and is therefore missing from the recording. */
static weir_status check_whole(weir_graph *g)
{
    note_poison(g);
    if (g->poisoned_by == WEIR_OK)
        return WEIR_OK;
    return weir_fail(g->poisoned_by, "weir_graph_end: a call of the step failed: %s",
                     g->poison_message ? g->poison_message : "memory was short");
}

/* Releases the elements that the recording's tape nodes keep, so that the planner may free values
 * that only gradients read. */
static void cut_tapes(weir_graph *g)
{
    while (g->tapes.n > 0) {
        weir_tape *t = g->tapes.at[--g->tapes.n];
        weir_tape_consume(t);
        weir_ref_drop(t);
    }
}

/* ---- handles that a recording leaves behind ---- */

/* Takes over a scope's reference to a handle. If it is the only one, the value belongs to the
 * planner; the graph keeps the handle without its block, so that a later use gets an error that
 * says why the value is gone. */
static void leave_handle(weir_graph *g, weir_tensor *t)
{
    if (t->ref.count > 1) {
        weir_release(t);
        return;
    }
    weir_tensor_leave(t, "was not kept: call weir_keep before weir_graph_end");
    t->next = g->left;
    g->left = t;
}

static void leave_scopes(weir_graph *g)
{
    weir_session *const s = g->session;
    const uint32_t      mark = s->mark.at[g->depth];

    while (s->held.n > mark)
        leave_handle(g, s->held.at[--s->held.n]);
    s->mark.n = g->depth;
}

/* After a failed weir_graph_end, makes later uses of the graph's values fail with that reason. */
static void fail_values(weir_graph *g)
{
    static const char evicted[] = "belonged to a graph whose weir_graph_end failed";

    for (weir_tensor *t = g->left; t; t = t->next)
        t->gone = evicted;
    for (uint32_t i = 0; i < g->storages.n; i++)
        if (g->storages.at[i].made)
            g->storages.at[i].block->never = evicted;
}

static void bury_handles(weir_graph *g)
{
    static const char   evicted[] = "belonged to a graph that was freed";
    weir_session *const s = g->dev->closed ? NULL : g->session;

    while (g->left) {
        weir_tensor *const t = g->left;
        g->left = t->next;
        weir_session_bury(s, t, evicted);
    }
    while (g->kept.n > 0)
        weir_session_bury(s, g->kept.at[--g->kept.n], evicted);
    for (uint32_t i = 0; i < g->storages.n; i++)
        if (g->storages.at[i].made)
            g->storages.at[i].block->never = "belonged to a graph that was freed before it ran";
}

/* Closes the graph's scope. Values that still have a handle become outputs: persistent blocks that
 * the graph references. */
/* The graph is no longer one that the device's switch has paused. */
static void forget_switch(weir_graph *g)
{
    for (weir_graph **p = &g->session->switched_off; *p; p = &(*p)->below)
        if (*p == g) {
            *p = g->below;
            break;
        }
    g->below = NULL;
}

static void close_recording(weir_graph *g)
{
    weir_session *s = g->session;

    forget_switch(g);
    if (s->recording == g) {
        leave_scopes(g);
        s->recording = NULL;
        s->phase = WEIR_FORWARD;
        s->region = 0;
        s->region_depth = 0;
    }
    while (g->parked.n > 0)
        leave_handle(g, g->parked.at[--g->parked.n]);
    cut_tapes(g);
    for (uint32_t i = 0; i < g->storages.n; i++) {
        weir_storage *st = &g->storages.at[i];
        if (st->external || !st->block)
            continue;
        st->external = st->made = true;
        st->kind = WEIR_KIND_OUTPUT;
        st->block->kind = WEIR_KIND_OUTPUT;
        st->block->owner = NULL;
        weir_ref_take(st->block);
    }
}

/* ---- public functions ---- */

/* The device closes: a graph being recorded becomes broken and can only be freed. */
static void close_graphs(weir_session *s)
{
    weir_graph *const g = s->recording;

    if (g) {
        leave_scopes(g);
        g->state = WEIR_GRAPH_BROKEN;
        s->recording = NULL;
    }
    weir_graph_free(s->anonymous);
}

weir_graph *weir_graph_begin(weir_device *d)
{
    WEIR_VISIT(d, "weir_graph_begin", NULL);
    weir_session *s = weir_session_of(d);
    if (!s)
        return NULL;
    if (s->recording)
        return WEIR_FAIL_NULL(WEIR_ERR_STATE,
                              "weir_graph_begin: a graph is being recorded already");
    weir_graph *g = weir_mem_zalloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->depth = s->mark.n;
    if (weir_scope_begin(d) != WEIR_OK) {
        weir_mem_free(g);
        return NULL;
    }
    g->dev = weir_ref_take(d);
    g->session = s;
    g->id = ++s->graphs;
    g->began = weir_now();
    g->poison_mark = weir_poison_mark_now();
    weir_failures_are_old();
    s->recording = g;
    s->close = close_graphs;
    s->phase = WEIR_FORWARD;
    return g;
}

weir_status weir_graph_pause(weir_graph *g)
{
    WEIR_VISIT_OF(g, "weir_graph_pause", "the graph");
    WEIR_TRY(check_recording("weir_graph_pause", g, WEIR_GRAPH_RECORDING));
    weir_session *s = g->session;

    weir_scope_unwind(s, g->depth + 1);
    const uint32_t mark = s->mark.at[g->depth];
    if (!weir_vec_reserve(&g->parked, s->held.n - mark))
        return WEIR_ERR_NOMEM;
    for (uint32_t i = mark; i < s->held.n; i++)
        g->parked.at[g->parked.n++] = s->held.at[i];
    s->held.n = mark;
    s->mark.n = g->depth;
    s->recording = NULL;
    note_poison(g);
    g->state = WEIR_GRAPH_SUSPENDED;
    return WEIR_OK;
}

weir_status weir_graph_resume(weir_graph *g)
{
    WEIR_VISIT_OF(g, "weir_graph_resume", "the graph");
    WEIR_TRY(check_recording("weir_graph_resume", g, WEIR_GRAPH_SUSPENDED));
    weir_session *s = g->session;

    if (s->recording)
        return weir_fail(WEIR_ERR_STATE,
                         "weir_graph_resume: another graph is being recorded already");
    g->depth = s->mark.n;
    if (!weir_vec_reserve(&s->held, s->held.n + g->parked.n))
        return WEIR_ERR_NOMEM;
    WEIR_TRY(weir_scope_begin(g->dev));
    for (uint32_t i = 0; i < g->parked.n; i++)
        s->held.at[s->held.n++] = g->parked.at[i];
    g->parked.n = 0;
    s->recording = g;
    forget_switch(g);
    g->poison_mark = weir_poison_mark_now();
    g->state = WEIR_GRAPH_RECORDING;
    return WEIR_OK;
}

/* Closes the recording, with numbered names; it is broken until it is planned. */
static weir_status close_whole(weir_graph *g, const weir_plan_options *options, uint32_t *passes)
{
    weir_status status = check_whole(g);

    if (status == WEIR_OK)
        status = weir_passes_from(options, passes);
    g->record_ms = (weir_now() - g->began) * 1e3;
    g->recorded = g->nodes.n;
    close_recording(g);
    g->state = WEIR_GRAPH_BROKEN;
    if (status == WEIR_OK)
        status = weir_names_number(&g->names);
    return status == WEIR_OK ? weir_recorded_make(g) : status;
}

static weir_status check_open(const char *who, const weir_graph *g)
{
    if (g->state != WEIR_GRAPH_RECORDING && g->state != WEIR_GRAPH_SUSPENDED)
        return weir_fail(WEIR_ERR_STATE, "%s: the graph is not being recorded%s", who,
                         g->state == WEIR_GRAPH_PLANNED ? ", it has been planned already" : "");
    return WEIR_OK;
}

weir_status weir_graph_end(weir_graph *g, const weir_plan_options *options)
{
    uint32_t passes;

    WEIR_VISIT_OF(g, "weir_graph_end", "the graph");
    WEIR_TRY(check_open("weir_graph_end", g));
    const double now = weir_now();
    weir_status  status = close_whole(g, options, &passes);
    status = weir_agree_recorded(g, status);
    if (status == WEIR_OK)
        status = weir_agree_planned(g, weir_plan_make(g, passes, options));
    if (status == WEIR_OK)
        g->state = WEIR_GRAPH_PLANNED;
    else
        fail_values(g);
    if (status != WEIR_OK)
        g->broken_by = weir_mem_strdup(weir_error());
    g->plan_ms = (weir_now() - now) * 1e3;
    return status;
}

weir_status weir_graph_end_needs(weir_graph *g, const weir_plan_options *options,
                                 weir_graph_needs *needs)
{
    uint32_t passes;

    WEIR_VISIT_OF(g, "weir_graph_end_needs", "the graph");
    if (!needs)
        return weir_fail_null("graph_end_needs", "needs");
    *needs = (weir_graph_needs){0};
    WEIR_TRY(check_open("weir_graph_end_needs", g));
    weir_graph_needs found = {0};
    weir_status      status = close_whole(g, options, &passes);
    if (status == WEIR_OK)
        status = weir_plan_needs(g, passes, options, &found);
    fail_values(g);
    g->broken_by = weir_mem_strdup(status == WEIR_OK ? "it was ended by weir_graph_end_needs"
                                                     : weir_error());
    if (status == WEIR_OK)
        *needs = found;
    return status;
}

void weir_graph_free(weir_graph *g)
{
    if (!g || weir_threads_lost())
        return;
    weir_visit visit __attribute__((cleanup(weir_device_leave))) = {NULL};
    if (!g->dev->closed && weir_device_enter(&visit, g->dev, "weir_graph_free") != WEIR_OK)
        return;
    /* A closed device has no session, and has marked the graph broken. */
    weir_waiting_drop(g);
    if (!g->dev->closed) {
        if (g->session->last_run == g)
            g->session->last_run = NULL;
        if (g->session->anonymous == g)
            g->session->anonymous = NULL;
        if (g->state == WEIR_GRAPH_RECORDING || g->state == WEIR_GRAPH_SUSPENDED)
            close_recording(g);
    }
    while (g->parked.n > 0)
        weir_release(g->parked.at[--g->parked.n]);
    cut_tapes(g);
    weir_recorded_free(g->form);
    bury_handles(g);
    for (uint32_t i = 0; i < g->storages.n; i++) {
        weir_block *b = g->storages.at[i].block;
        weir_release(g->storages.at[i].handle);
        if (b && g->storages.at[i].external)
            weir_ref_drop(b);
        else if (b)
            b->owner = NULL;
        weir_mem_free(g->storages.at[i].name);
    }
    weir_names_free(&g->names);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        weir_mem_free(g->nodes.at[i].attr);
    weir_mem_free(g->poison_message);
    weir_mem_free(g->broken_by);
    weir_replan_free(g);
    weir_shared_budget_leave(g);
    weir_plan_free(g->plan);
    weir_vec_free(&g->storages);
    weir_vec_free(&g->values);
    weir_vec_free(&g->nodes);
    weir_vec_free(&g->kept);
    weir_vec_free(&g->parked);
    weir_vec_free(&g->tapes);
    weir_vec_free(&g->agreed);
    weir_mem_free(g->externals.slot);
    weir_mem_free(g->views.slot);
    weir_ref_drop(g->dev);
    weir_mem_free(g);
}
