/* step.c - a step that runs with the graph on or off, and recording as a switch of the device. */
#include "core/status.h"
#include "core/tensor.h"
#include "graph/ir/graph.h"
#include "graph/ir/session.h"

struct weir_step {
    weir_device      *dev;      /* referenced */
    weir_step_fn      fn;
    void             *ctx;
    weir_step_options options;
    weir_graph       *graph;    /* owned; NULL until the first run with the graph on */
    WEIR_VEC(weir_tensor *) kept;   /* graph off: results of the last run, referenced */
};

weir_step *weir_step_new(weir_device *d, weir_step_fn fn, void *ctx,
                         const weir_step_options *options)
{
    WEIR_VISIT(d, "weir_step_new", NULL);
    if (!fn)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_step_new: the function is NULL");
    weir_step *s = weir_mem_zalloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->dev = weir_ref_take(d);
    s->fn = fn;
    s->ctx = ctx;
    if (options)
        s->options = *options;
    return s;
}

static void drop_kept(weir_step *s)
{
    while (s->kept.n > 0)
        weir_release(s->kept.at[--s->kept.n]);
}

/* Graph off: keeps t until the next run of the step, if a step is running. */
static weir_status keep_in_step(weir_step *s, weir_tensor *t)
{
    if (!s)
        return WEIR_OK;
    if (!weir_vec_push(&s->kept, t))
        return WEIR_ERR_NOMEM;
    weir_retain(t);
    return WEIR_OK;
}

weir_tensor *weir_keep(weir_tensor *t)
{
    if (!t)
        return (void)weir_poison(weir_fail_null("weir_keep", "the tensor")), NULL;
    WEIR_VISIT(t->dev, "weir_keep", NULL);
    weir_session *s = weir_session_of(t->dev);
    if (!s)
        return NULL;
    if (weir_tensor_check_there("weir_keep", t) != WEIR_OK)
        return NULL;
    if (s->recording) {
        if (!weir_vec_push(&s->recording->kept, t))
            return NULL;
        return weir_retain(t);
    }
    return keep_in_step(s->step, t) == WEIR_OK ? t : NULL;
}

/* Graph off: runs the function in a scope; kept values live until the next run. */
static weir_status run_off(weir_step *s)
{
    weir_session *session = weir_session_of(s->dev);

    if (!session)
        return WEIR_ERR_NOMEM;
    if (session->step || session->recording)
        return weir_fail(WEIR_ERR_STATE,
                         "weir_step_run: inside another step or a graph being recorded");
    drop_kept(s);
    WEIR_TRY(weir_scope_begin(s->dev));
    const uint32_t depth = session->mark.n - 1;
    session->step = s;
    const weir_status status = s->fn(s->ctx);
    session->step = NULL;
    weir_scope_unwind(session, depth);
    return status;
}

static weir_status record_on(weir_step *s)
{
    weir_graph *g = weir_graph_begin(s->dev);

    if (!g)
        return weir_error_status();
    weir_status status = s->fn(s->ctx);
    if (status == WEIR_OK)
        status = weir_graph_end(g, &s->options.plan);
    if (status == WEIR_OK)
        s->graph = g;
    else
        weir_graph_free(g);
    return status;
}

weir_status weir_step_run(weir_step *s)
{
    WEIR_VISIT_OF(s, "weir_step_run", "the step");
    if (!s->options.graph)
        return run_off(s);
    if (!s->graph)
        WEIR_TRY(record_on(s));
    return weir_graph_run(s->graph);
}

/* Calls a callback, if there is one, with what the step keeps (`kept`: it has run). */
static weir_status call(const weir_step *s, const weir_step_loop_options *o,
                        weir_step_callback fn, int64_t step, bool kept, bool *stop)
{
    weir_step_event e = {.step = step, .stop = stop};

    if (!fn)
        return WEIR_OK;
    if (kept) {
        e.kept_count = s->graph ? s->graph->kept.n : s->kept.n;
        e.kept = s->graph ? s->graph->kept.at : s->kept.at;
    }
    return fn(o->ctx, &e);
}

weir_status weir_step_loop(weir_step *s, int64_t n, const weir_step_loop_options *options,
                           int64_t *done)
{
    const weir_step_loop_options o = options ? *options : (weir_step_loop_options){0};
    bool                         stop = false;

    if (done)
        *done = 0;
    if (!s)
        return weir_fail_null("weir_step_loop", "the step");
    if (n < 0 || o.first < 0 || o.first > INT64_MAX - n)
        return weir_fail(WEIR_ERR_INVALID, "weir_step_loop: %lld steps from number %lld on",
                         (long long)n, (long long)o.first);
    for (int64_t i = 0; i < n && !stop; i++) {
        WEIR_TRY(call(s, &o, o.before, o.first + i, false, &stop));
        WEIR_TRY(weir_step_run(s));
        if (done)
            *done = i + 1;
        WEIR_TRY(call(s, &o, o.after, o.first + i, true, &stop));
    }
    return WEIR_OK;
}

weir_graph *weir_step_graph(const weir_step *s)
{
    return s ? s->graph : NULL;
}

void weir_step_free(weir_step *s)
{
    if (!s || weir_threads_lost())
        return;
    weir_visit visit __attribute__((cleanup(weir_device_leave))) = {NULL};
    if (!s->dev->closed && weir_device_enter(&visit, s->dev, "weir_step_free") != WEIR_OK)
        return;
    drop_kept(s);
    weir_vec_free(&s->kept);
    weir_graph_free(s->graph);
    weir_ref_drop(s->dev);
    weir_mem_free(s);
}

/* ---- the device switch ---- */

weir_status weir_device_set_buffering(weir_device *d, bool on)
{
    WEIR_VISIT(d, "weir_device_set_buffering", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    weir_graph *g = s->anonymous;
    if (!on && s->recording && s->recording != g) {
        weir_graph *const other = s->recording;
        WEIR_TRY(weir_graph_pause(other));
        other->below = s->switched_off;
        s->switched_off = other;
        return WEIR_OK;
    }
    if (!on)
        return g && g->state == WEIR_GRAPH_RECORDING ? weir_graph_pause(g) : WEIR_OK;
    if (s->recording && s->recording != g && g && g->state == WEIR_GRAPH_SUSPENDED)
        return weir_fail(WEIR_ERR_STATE, "weir_device_set_buffering: a graph is being recorded "
                         "already, which is not the one that the switch has paused");
    if (s->recording)
        return WEIR_OK;
    if (s->switched_off)
        return weir_graph_resume(s->switched_off);
    if (g && g->state == WEIR_GRAPH_SUSPENDED)
        return weir_graph_resume(g);
    weir_graph_free(g);
    s->anonymous = weir_graph_begin(d);
    return s->anonymous ? WEIR_OK : weir_error_status();
}

bool weir_device_buffering(const weir_device *d)
{
    if (weir_device_check(d, "weir_device_buffering") != WEIR_OK || !d->session)
        return false;
    return ((const weir_session *)d->session)->recording != NULL;
}

weir_status weir_device_exec(weir_device *d)
{
    WEIR_VISIT(d, "weir_device_exec", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (!s->anonymous && s->recording)
        return weir_fail(WEIR_ERR_STATE, "weir_device_exec: another graph is being recorded, which "
                         "runs when its recording has ended");
    if (!s->anonymous)
        return weir_fail(WEIR_ERR_STATE,
                         "weir_device_exec: nothing was recorded: switch buffering on "
                         "and call operations first");
    if (s->anonymous->state == WEIR_GRAPH_RECORDING || s->anonymous->state == WEIR_GRAPH_SUSPENDED)
        WEIR_TRY(weir_graph_end(s->anonymous, NULL));
    return weir_graph_run(s->anonymous);
}

weir_status weir_device_reset_graph(weir_device *d)
{
    WEIR_VISIT(d, "weir_device_reset_graph", weir_error_status());
    if (d->session)
        weir_graph_free(((weir_session *)d->session)->anonymous);
    return WEIR_OK;
}
