/* session.c - scopes, which hold the results of operations, and the tape switch. */
#include "graph/ir/session.h"

#include <assert.h>

#include "core/status.h"
#include "core/tensor.h"
#include "graph/ir/graph.h"

static void session_destroy(weir_ref *self)
{
    weir_mem_free(self);
}

static void release_down_to(weir_session *s, uint32_t n)
{
    while (s->held.n > n)
        weir_release(s->held.at[--s->held.n]);
}

/* ---- handles of graphs that were freed ---- */

/* Handles kept so that a later use gets an error that says why the value is gone; a few hundred
 * bytes each. */
enum { MOST_FREED = 1024 };

static void drop_freed(weir_session *s)
{
    weir_tensor *const t = s->freed;

    s->freed = t->next;
    s->nfreed--;
    weir_release(t);
}

void weir_session_bury(weir_session *s, weir_tensor *t, const char *gone)
{
    const bool shared = t->ref.count > 1;

    if (!shared || !t->block)
        weir_tensor_leave(t, gone);
    if (shared || !s) {
        weir_release(t);
        return;
    }
    t->next = NULL;
    *(s->freed ? &s->last_freed->next : &s->freed) = t;
    s->last_freed = t;
    if (++s->nfreed > MOST_FREED)
        drop_freed(s);
}

/* ---- the end of a session ---- */

/* Frees what the session holds when the device closes. The struct itself is freed with the last
 * tape node. */
static void session_free(void *session)
{
    weir_session *s = session;

    if (s->close)
        s->close(s);
    weir_scope_unwind(s, 0);
    release_down_to(s, 0);
    while (s->freed)
        drop_freed(s);
    if (s->evict)
        s->evict_free(s->evict);
    s->evict = NULL;
    weir_name_path_free(&s->path);
    weir_vec_free(&s->pairs);
    weir_vec_free(&s->outer_casts);
    weir_vec_free(&s->held);
    weir_vec_free(&s->mark);
    weir_ref_drop(s);
}

weir_session *weir_session_of(weir_device *d)
{
    if (!d->session) {
        weir_session *s = weir_mem_zalloc(1, sizeof *s);
        if (!s)
            return NULL;
        s->ref = (weir_ref){1, session_destroy};
        s->dev = d;
        s->skip = 5;
        d->session = s;
        d->session_free = session_free;
    }
    return d->session;
}

weir_dtype weir_autocast_type(weir_device *d)
{
    const weir_session *const s = d && !d->closed ? d->session : NULL;
    return s ? s->autocast : WEIR_F32;
}

weir_status weir_scope_hold(weir_session *s, weir_tensor *t)
{
    if (weir_vec_push(&s->held, t))
        return WEIR_OK;
    weir_release(t);
    return WEIR_ERR_NOMEM;
}

void weir_scope_unwind(weir_session *s, uint32_t depth)
{
    while (s->mark.n > depth)
        release_down_to(s, s->mark.at[--s->mark.n]);
}

weir_status weir_scope_begin(weir_device *d)
{
    WEIR_VISIT(d, "weir_scope_begin", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s || !weir_vec_push(&s->mark, s->held.n))
        return WEIR_ERR_NOMEM;
    return WEIR_OK;
}

weir_status weir_scope_end(weir_device *d)
{
    WEIR_VISIT(d, "weir_scope_end", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    const uint32_t floor = s->recording ? s->recording->depth + 1 : 0;
    if (s->mark.n <= floor)
        return weir_fail(WEIR_ERR_STATE, "weir_scope_end: no scope is open%s",
                         s->recording ? " inside the graph being recorded" : "");
    weir_scope_unwind(s, s->mark.n - 1);
    return WEIR_OK;
}

weir_status weir_scope_clear(weir_device *d)
{
    WEIR_VISIT(d, "weir_scope_clear", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    release_down_to(s, s->mark.n > 0 ? s->mark.at[s->mark.n - 1] : 0);
    return WEIR_OK;
}

/* Swaps the handle to the beginning of the innermost scope and moves that scope's mark past it: the
 * enclosing scope now holds the reference. */
weir_tensor *weir_escape(weir_tensor *t)
{
    if (!t)
        return NULL;
    WEIR_VISIT(t->dev, "weir_escape", NULL);
    weir_session *s = weir_session_of(t->dev);
    if (!s || s->mark.n == 0)
        return t;
    uint32_t *mark = &s->mark.at[s->mark.n - 1];
    for (uint32_t i = s->held.n; i-- > *mark;) {
        if (s->held.at[i] == t) {
            s->held.at[i] = s->held.at[*mark];
            s->held.at[(*mark)++] = t;
            break;
        }
    }
    return t;
}

weir_status weir_name_scope_begin(weir_device *d, const char *name)
{
    WEIR_VISIT(d, "weir_name_scope_begin", weir_error_status());
    weir_session *const s = weir_session_of(d);

    return s ? weir_name_path_enter(&s->path, name) : WEIR_ERR_NOMEM;
}

weir_status weir_name_scope_end(weir_device *d)
{
    WEIR_VISIT(d, "weir_name_scope_end", weir_error_status());
    weir_session *const s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (s->path.mark.n == 0)
        return weir_fail(WEIR_ERR_STATE, "weir_name_scope_end: no name scope is open");
    weir_name_path_unwind(&s->path, s->path.mark.n - 1);
    return WEIR_OK;
}

const char *weir_name_scope(weir_device *d)
{
    if (weir_device_check(d, "weir_name_scope") != WEIR_OK)
        return "";
    const weir_session *const s = weir_session_of(d);
    return s ? weir_name_path_text(&s->path) : "";
}

weir_status weir_no_grad_begin(weir_device *d)
{
    WEIR_VISIT(d, "weir_no_grad_begin", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    s->no_grad++;
    return WEIR_OK;
}

weir_status weir_region_begin(weir_device *d)
{
    WEIR_VISIT(d, "weir_region_begin", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (!s->recording)
        return weir_fail(WEIR_ERR_STATE, "weir_region_begin: no graph is being recorded; with the "
                         "graph off a checkpoint is a function: weir_checkpoint");
    if (s->region_depth++ == 0)
        s->region = ++s->regions;
    return WEIR_OK;
}

weir_status weir_region_end(weir_device *d)
{
    WEIR_VISIT(d, "weir_region_end", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (s->region_depth == 0)
        return weir_fail(WEIR_ERR_STATE, "weir_region_end: without a weir_region_begin");
    if (--s->region_depth == 0)
        s->region = 0;
    return WEIR_OK;
}

weir_status weir_no_grad_end(weir_device *d)
{
    WEIR_VISIT(d, "weir_no_grad_end", weir_error_status());
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (s->no_grad == 0)
        return weir_fail(WEIR_ERR_STATE, "weir_no_grad_end: without a weir_no_grad_begin");
    s->no_grad--;
    return WEIR_OK;
}

weir_status weir_retain_begin(weir_device *d)
{
    WEIR_TRY(weir_device_check(d, "weir_retain_begin"));
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    s->retain++;
    return WEIR_OK;
}

weir_status weir_retain_end(weir_device *d)
{
    WEIR_TRY(weir_device_check(d, "weir_retain_end"));
    weir_session *s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (s->retain == 0)
        return weir_fail(WEIR_ERR_STATE, "weir_retain_end: without a weir_retain_begin");
    s->retain--;
    return WEIR_OK;
}
