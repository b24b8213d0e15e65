/* record.c - turns a call into a node of the graph being recorded, or runs it immediately.
 *
 * Both share everything but that step: checks, casts, dense copies, shape inference, views, random
 * positions, the tape. With the graph off, the same code thus runs a graph of a single op. */
#include <assert.h>
#include <string.h>

#include "core/dtype.h"
#include "core/rng.h"
#include "core/status.h"
#include "core/tensor.h"
#include "device/call.h"
#include "graph/frontend/autocast.h"
#include "graph/frontend/memory_format.h"
#include "graph/autodiff/checkpoint_function.h"
#include "graph/eager/evict.h"
#include "graph/ir/graph.h"
#include "graph/ops/op.h"
#include "graph/autodiff/tape.h"

typedef struct weir_recording {
    weir_session     *s;
    const weir_opdef *def;
    weir_call         call;
    weir_layout       in_layout[WEIR_MAX_IN], out_layout[WEIR_MAX_OUT];
    weir_tensor      *in[WEIR_MAX_IN];
    weir_tensor      *out[WEIR_MAX_OUT];
    uint64_t          rng;
    uint32_t          name;         /* graph on: the recorded call that names it */
    weir_name_mark    mark;
    bool              scoped;       /* an inner scope is open, which holds casts and copies */
} weir_recording;

/* Fails if a gradient, or the second run of a checkpoint, would read an input that has changed
 * since the forward pass. */
static weir_status check_version(const weir_recording *r, int i)
{
    const weir_tensor *const t = r->in[i];
    const char              *by;
    uint64_t                 when;
    char                     text[WEIR_DESC_TEXT];

    if (r->s->differentiating)
        return weir_tape_check_unchanged(r->s->differentiating, t);
    if (!r->s->recompute || r->def->flags & WEIR_UPDATE)
        return WEIR_OK;
    WEIR_TRY(weir_changed(r->s, t, &when, &by));
    if (when <= r->s->frozen_from || when > r->s->frozen_to)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_STATE, "weir_checkpoint: the function is called again for the "
                     "gradient, and input %d '%s' %s of %s, which it reads, has been changed by %s "
                     "since: take all gradients before the change, or compute the forward again "
                     "after it", i, weir_tensor_name(t), weir_desc_text(&t->layout.desc, text),
                     r->def->name, by);
}

/* Fails unless a call made now may read the input. */
static weir_status check_input(const weir_recording *r, int i)
{
    const weir_tensor *t = r->in[i];
    const weir_block  *b = t->block;
    char               text[WEIR_DESC_TEXT];

    if (!b && t->gone)
        return weir_fail(WEIR_ERR_STATE, "%s: input %d, %s, %s", r->def->name, i,
                         weir_desc_text(&t->layout.desc, text), t->gone);
    if (!b)
        return weir_fail(WEIR_ERR_STATE, "%s: the elements of input %d %s are not kept",
                         r->def->name, i, weir_desc_text(&t->layout.desc, text));
    if (b->owner && b->owner != r->s->recording)
        return weir_fail(
            WEIR_ERR_STATE,
            "%s: input %d %s is recorded in a graph, not computed: run that graph, and "
            "weir_keep the value before weir_graph_end",
            r->def->name, i, weir_desc_text(&t->layout.desc, text));
    if (!b->written && b->never)
        return weir_fail(WEIR_ERR_STATE, "%s: input %d, '%s' %s, %s", r->def->name, i,
                         weir_tensor_name(t), weir_desc_text(&t->layout.desc, text), b->never);
    return check_version(r, i);
}

/* Graph off: is input i read, but without a value? */
static bool lacks_value(const weir_recording *r, int i)
{
    const weir_block *b = r->in[i]->block;

    return !r->s->recording && !b->written && b->bytes > 0 && !(r->def->write_only >> i & 1);
}

/* Fails unless an update may overwrite the input: it must be all of a parameter, state or input,
 * and no other input may view its memory. */
static weir_status check_mutated(const weir_recording *r, int i)
{
    const weir_tensor *t = r->in[i];
    const weir_block  *b = t->block;
    char               text[WEIR_DESC_TEXT];

    if (b->kind > WEIR_KIND_INPUT || b->owner || t->offset != 0 ||
        weir_shape_bytes(&t->layout.desc) != b->bytes || !weir_shape_is_dense(&t->layout))
        return weir_fail(WEIR_ERR_INVALID, "%s: input %d %s is updated in place, so it must be a "
                         "parameter, state or input, not a result or a view", r->def->name, i,
                         weir_desc_text(&t->layout.desc, text));
    for (int k = 0; k < r->call.nin; k++)
        if (k != i && r->in[k]->block == b)
            return weir_fail(WEIR_ERR_INVALID,
                             "%s: inputs %d and %d %s share memory, and input %d is "
                             "updated in place",
                             r->def->name, i, k, weir_desc_text(&t->layout.desc, text), i);
    return WEIR_OK;
}

static weir_status check_inputs(weir_recording *r, weir_device *d)
{
    for (int i = 0; i < r->call.nin; i++) {
        if (r->in[i]->dev == d)
            continue;
        WEIR_TRY(weir_device_check(r->in[i]->dev, r->def->name));
        return weir_fail(WEIR_ERR_DEVICE, "%s: inputs 0 and %d are on different devices",
                         r->def->name, i);
    }
    r->s = weir_session_of(d);
    if (!r->s)
        return WEIR_ERR_NOMEM;
    for (int i = 0; i < r->call.nin; i++) {
        WEIR_TRY(check_input(r, i));
        if (r->def->mutates >> i & 1)
            WEIR_TRY(check_mutated(r, i));
    }
    return WEIR_OK;
}

/* Finds the type to which the inputs are promoted. Returns false if their shapes do not broadcast:
 * the call is then recorded without casts, so that its error names the types as given. */
static bool meeting_type(const weir_recording *r, weir_dtype *type)
{
    weir_desc all = {.dtype = WEIR_BOOL};

    for (int i = 0; i < r->call.nin; i++) {
        const weir_desc so_far = all, *const d = &r->in[i]->layout.desc;
        if (!(r->def->promotes >> i & 1))
            continue;
        if (!weir_shape_broadcast(&so_far, d, &all))
            return false;
        all.dtype = weir_dtype_promote(so_far.dtype, d->dtype);
    }
    const bool whole = !weir_is_any_float(all.dtype) && all.dtype != WEIR_BOOL;
    *type = whole && r->def->flags & WEIR_PROMOTE_FLOAT ? WEIR_F32 : all.dtype;
    return true;
}

/* Graph off: fails if an input has no value. A mistake in shapes or types is reported first, as in
 * a graph, where inputs are written later: they are checked as if the casts had been made. */
static weir_status check_values(weir_recording *r)
{
    weir_dtype type[WEIR_MAX_IN], common;
    char       text[WEIR_DESC_TEXT];
    int        i = 0;

    while (i < r->call.nin && !lacks_value(r, i))
        i++;
    if (i == r->call.nin)
        return WEIR_OK;
    for (int k = 0; k < r->call.nin; k++)
        type[k] = r->in[k]->layout.desc.dtype;
    weir_autocast_types(r->s, r->def, r->call.nin, type);
    const bool meet = r->def->promotes && meeting_type(r, &common);
    for (int k = 0; k < r->call.nin; k++) {
        r->in_layout[k].desc = r->in[k]->layout.desc;
        r->in_layout[k].desc.dtype = meet && r->def->promotes >> k & 1 ? common : type[k];
        weir_shape_dense(&r->in_layout[k]);
    }
    r->call.alias = -1;
    WEIR_TRY(r->def->infer(&r->call));
    return weir_fail(WEIR_ERR_STATE, "%s: input %d '%s' %s has never been written", r->def->name, i,
                     weir_tensor_name(r->in[i]), weir_desc_text(&r->in[i]->layout.desc, text));
}

/* Replaces input i by `by` (NULL: the call that should have made it failed). */
static weir_status replace(weir_recording *r, int i, weir_tensor *by)
{
    r->in[i] = by;
    return by ? WEIR_OK : weir_error_status();
}

static weir_status begin_scope(weir_recording *r)
{
    if (!r->scoped)
        WEIR_TRY(weir_scope_begin(r->s->dev));
    r->scoped = true;
    return WEIR_OK;
}

/* Adds the casts of mixed precision (autocast.h). */
static weir_status autocast(weir_recording *r)
{
    weir_dtype type[WEIR_MAX_IN];

    for (int i = 0; i < r->call.nin; i++)
        type[i] = r->in[i]->layout.desc.dtype;
    weir_autocast_types(r->s, r->def, r->call.nin, type);
    for (int i = 0; i < r->call.nin; i++)
        if (r->in[i]->layout.desc.dtype != type[i]) {
            WEIR_TRY(begin_scope(r));
            WEIR_TRY(replace(r, i, weir_cast(r->in[i], type[i])));
        }
    return WEIR_OK;
}

/* Casts inputs of several types to their common type by recorded calls, through which gradients
 * flow back. */
static weir_status promote(weir_recording *r)
{
    weir_dtype type;

    if (!r->def->promotes || !meeting_type(r, &type))
        return WEIR_OK;
    for (int i = 0; i < r->call.nin; i++)
        if (r->def->promotes >> i & 1 && r->in[i]->layout.desc.dtype != type) {
            WEIR_TRY(begin_scope(r));
            WEIR_TRY(replace(r, i, weir_cast(r->in[i], type)));
        }
    return WEIR_OK;
}

/* Copies strided inputs to dense ones if the op cannot take strides. */
static weir_status make_dense(weir_recording *r)
{
    for (int i = 0; i < r->call.nin; i++) {
        if (!weir_op_takes(r->def, i, &r->in[i]->layout)) {
            WEIR_TRY(begin_scope(r));
            WEIR_TRY(replace(r, i, weir_copy(r->in[i])));
        }
        r->in_layout[i] = r->in[i]->layout;
    }
    return WEIR_OK;
}

/* Records the call with a fifth axis (memory_format.h). */
static weir_status keep_row_major(weir_recording *r, const uint64_t *recompute)
{
    weir_tensor *y = NULL;

    WEIR_TRY(begin_scope(r));
    WEIR_TRY(weir_format_record(r->call.op, r->call.nin, r->in, r->call.attr, r->call.attr_bytes,
                                recompute, &y));
    r->out[0] = weir_retain(y);
    return r->out[0] ? WEIR_OK : weir_error_status();
}

/* Creates the handle of output i over a new block, or, for a view, over the input's block. */
static weir_status make_output(weir_recording *r, int i)
{
    weir_session      *s = r->s;
    const weir_layout *l = &r->out_layout[i];
    weir_block        *b;
    int64_t            offset = 0;

    if (i == 0 && r->call.alias >= 0) {
        b = weir_ref_take(r->in[r->call.alias]->block);
        offset = r->in[r->call.alias]->offset + r->call.alias_offset;
    } else {
        b = weir_block_new(s->dev, weir_shape_bytes(&l->desc),
                           s->phase == WEIR_FORWARD ? WEIR_KIND_ACTIVATION : WEIR_KIND_GRADIENT);
        if (b) {
            b->desc = l->desc;
            b->shaped = true;
        }
    }
    if (!b)
        return WEIR_ERR_NOMEM;
    r->out[i] = weir_tensor_make(s->dev, l, offset, b);
    weir_ref_drop(b);
    return r->out[i] ? WEIR_OK : WEIR_ERR_NOMEM;
}

static void orphaned(weir_block *b)
{
    weir_graph *g = b->owner;
    g->storages.at[b->storage].block = NULL;
    g->storages.at[b->storage].name = b->name;
    b->name = NULL;
}

/* Graph on: finds the call that names this one. A gradient is named by the call that it belongs to,
 * the second run of a checkpoint by the calls of the first. */
static weir_status name_call(weir_recording *r)
{
    weir_session *const s = r->s;
    weir_graph *const   g = s->recording;

    if (s->naming && s->naming->graph == g->id && s->naming->name < g->names.calls.n) {
        r->name = s->naming->name;
        r->mark = WEIR_NAME_GRAD;
        return WEIR_OK;
    }
    r->mark = s->replay ? WEIR_NAME_RECOMPUTE : WEIR_NAME_CALL;
    if (s->replay && s->renames < g->names.calls.n &&
        g->names.calls.at[s->renames].def == r->def) {
        r->name = s->renames++;
        return WEIR_OK;
    }
    return weir_names_call(&g->names, &s->path, g->id, r->def, &r->name);
}

/* Notes a handle of all of an external storage: its name is the storage's. */
static void note_handle(weir_storage *s, weir_tensor *t)
{
    if (s->external && s->kind <= WEIR_KIND_INPUT && !s->handle && !t->tape && t->offset == 0 &&
        weir_shape_is_dense(&t->layout) && weir_shape_bytes(&t->layout.desc) == s->bytes)
        s->handle = weir_retain(t);
}

/* Graph on: appends the call as a node. */
static weir_status append_node(weir_recording *r)
{
    weir_graph *g = r->s->recording;
    weir_node  *n = weir_graph_node_new(g, &r->call);

    if (!n)
        return WEIR_ERR_NOMEM;
    const uint32_t id = g->nodes.n - 1;
    n->phase = r->def->flags & WEIR_UPDATE && g->backward ? WEIR_UPDATES : r->s->phase;
    n->rng = r->rng;
    n->segment = r->s->replay;
    n->half = g->stops ? WEIR_SECOND_HALF : WEIR_NO_HALF;
    bool named;
    n->name = weir_names_use(&g->names, r->name, r->mark, &named);
    n->region = r->s->phase == WEIR_FORWARD ? r->s->region : 0;
    n->dead = true;             /* until complete, since a failure below leaves it in the list */
    if (!named)
        return WEIR_ERR_NOMEM;
    for (int i = 0; i < r->call.nin; i++) {
        if (weir_evict_fix(r->in[i]->block) != WEIR_OK)
            return weir_error_status();
        const uint32_t storage = weir_graph_storage_of(g, r->in[i]->block);
        if (storage == WEIR_NONE)
            return weir_error_status();
        const uint32_t v = weir_graph_value_of(g, storage, &r->in[i]->layout, r->in[i]->offset);
        if (v == WEIR_NONE)
            return WEIR_ERR_NOMEM;
        note_handle(&g->storages.at[storage], r->in[i]);
        if (r->def->mutates >> i & 1) {
            g->storages.at[storage].changed = ++r->s->dev->changes;
            g->storages.at[storage].changed_by = r->def->name;
        }
        n->in[n->nin++] = v;
    }
    for (int i = 0; i < r->call.nout; i++) {
        weir_block    *b = r->out[i]->block;
        const uint32_t storage = weir_graph_storage_new(g, b->bytes, b->kind);
        if (storage == WEIR_NONE)
            return WEIR_ERR_NOMEM;
        g->storages.at[storage].block = b;
        b->owner = g;
        b->storage = storage;
        b->orphan = orphaned;
        const uint32_t v = weir_graph_value_of(g, storage, &r->out_layout[i], 0);
        if (v == WEIR_NONE)
            return WEIR_ERR_NOMEM;
        n = &g->nodes.at[id];
        n->out[n->nout++] = v;
    }
    n->dead = false;
    return WEIR_OK;
}

/* Reserves the call's part of the random stream: relative to the start of a run (graph on), or an
 * absolute position (graph off). */
static void reserve_random(weir_recording *r)
{
    const uint64_t blocks = weir_rng_blocks(weir_shape_count(&r->out_layout[0].desc));

    if (r->s->recording) {
        r->rng = r->s->recording->rng_total;
        r->s->recording->rng_total += blocks;
    } else {
        r->rng = weir_device_draw(r->s->dev, blocks);
    }
}

/* Graph off: runs the call. If it fails, its random numbers are returned to the stream. */
static weir_status run_now(const weir_recording *r, weir_device *d, bool drew)
{
    weir_session *const s = r->s;

    for (int i = 0; i < r->call.nin; i++)
        if (((const weir_block *)r->in[i]->block)->offloaded)
            WEIR_TRY(weir_block_touch(r->in[i]->block));
    for (int i = 0; i < r->call.nin; i++)
        if (r->def->mutates >> i & 1)
            weir_block_changed(r->in[i]->block, r->def->name);
    const weir_status status =
        s->evict ? weir_evict_run(s->evict, &r->call, r->in, r->out, r->rng)
                 : weir_run_once(d, &r->call, r->in, r->out, r->rng);

    if (status != WEIR_OK && drew)
        d->rng = r->rng;
    return status;
}

static bool flows_gradient(const weir_recording *r)
{
    if (r->s->no_grad || !r->def->grad)
        return false;
    for (int i = 0; i < r->call.nin; i++)
        if (r->def->differentiable >> i & 1 && r->in[i]->needs_grad)
            return true;
    return false;
}

/* Detects changes that the user made through addresses of inputs (weir_tensor_memory). */
static void look_at_inputs(const weir_recording *r)
{
    for (int i = 0; i < r->call.nin; i++)
        weir_block_look(r->in[i]->block);
}

/* All steps from checks to handles of results. On failure r->out holds those created so far. */
static weir_status perform(weir_recording *r, weir_device *d, const uint64_t *recompute)
{
    WEIR_TRY(check_inputs(r, d));
    WEIR_TRY(check_values(r));
    /* A call that is wrong is recorded as it is, for the sentence that names its own shapes. */
    if (weir_format_is_row_major(r->def, r->call.op, r->call.nin, r->in, r->call.attr)) {
        const weir_status status = keep_row_major(r, recompute);
        if (status != WEIR_ERR_SHAPE && status != WEIR_ERR_DTYPE)
            return status;
    }
    WEIR_TRY(autocast(r));
    WEIR_TRY(promote(r));
    WEIR_TRY(make_dense(r));
    r->call.alias = -1;
    WEIR_TRY(r->def->infer(&r->call));
    if (r->s->recording)
        WEIR_TRY(name_call(r));
    if (r->s->recompute && r->def->flags & WEIR_UPDATE)
        return WEIR_OK;             /* the first run has performed the update */
    for (int i = 0; i < r->call.nout; i++) {
        WEIR_TRY(weir_shape_check(r->def->name, &r->out_layout[i].desc));
        WEIR_TRY(make_output(r, i));
    }
    if (r->call.alias < 0) {
        const bool draws = !recompute && r->def->flags & WEIR_RANDOM;
        if (recompute)
            r->rng = *recompute;
        else if (draws)
            reserve_random(r);
        WEIR_TRY(r->s->recording ? append_node(r) : run_now(r, d, draws));
    }
    const bool flows = flows_gradient(r);
    if (!r->s->recording && (flows || r->s->segment))
        look_at_inputs(r);
    if (!flows)
        return WEIR_OK;
    if (r->s->segment)
        return weir_segment_note(r->s->segment, &r->call, r->in, r->out);
    return weir_tape_add(r->s, &r->call, r->rng, r->name, r->in, r->out);
}

/* Closes the inner scope and adds the results to the caller's. */
static weir_status hand_over(weir_recording *r, weir_status status, weir_tensor **out)
{
    if (r->scoped)
        weir_scope_unwind(r->s, r->s->mark.n - 1);
    for (int i = 0; i < WEIR_MAX_OUT && r->out[i]; i++) {
        if (status == WEIR_OK)
            status = weir_scope_hold(r->s, r->out[i]);
        else
            weir_release(r->out[i]);
        if (out)
            out[i] = status == WEIR_OK ? r->out[i] : NULL;
    }
    return status;
}

static weir_status record(weir_device *d, weir_op op, int nin, weir_tensor *const *in,
                          const void *attr, size_t attr_bytes, const uint64_t *recompute,
                          weir_tensor **out)
{
    weir_recording r = {.def = weir_opdef_of(op)};

    assert(nin >= r.def->nin_min && nin <= r.def->nin_max);
    for (int i = 0; i < r.def->nout && out; i++)
        out[i] = NULL;
    weir_status status = WEIR_OK;
    for (int i = 0; i < nin; i++) {
        if (!in[i])
            status = weir_fail_null(r.def->name, "an input");
        r.in[i] = in[i];
    }
    r.call = (weir_call){.op = op, .def = r.def, .nin = nin, .nout = r.def->nout,
                         .in = r.in_layout, .out = r.out_layout, .attr = attr,
                         .attr_bytes = attr_bytes};
    weir_visit visit __attribute__((cleanup(weir_device_leave))) = {NULL};
    if (status == WEIR_OK)
        status = weir_device_enter(&visit, d, r.def->name);
    if (status == WEIR_OK) {
        status = perform(&r, d, recompute);
        if (status != WEIR_OK && r.s)
            status = weir_fail_inside(weir_name_path_text(&r.s->path), status);
        status = hand_over(&r, status, out);
    }
    return status != WEIR_OK && r.def->nout == 0 ? weir_poison(status) : status;
}

weir_status weir_record_on(weir_device *d, weir_op op, int nin, weir_tensor *const *in,
                           const void *attr, size_t attr_bytes, weir_tensor **out)
{
    return record(d, op, nin, in, attr, attr_bytes, NULL, out);
}

weir_status weir_record(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                        size_t attr_bytes, weir_tensor **out)
{
    return record(nin > 0 && in[0] ? in[0]->dev : NULL, op, nin, in, attr, attr_bytes, NULL, out);
}

weir_status weir_record_at_rng(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                               size_t attr_bytes, uint64_t rng, weir_tensor **out)
{
    return record(nin > 0 && in[0] ? in[0]->dev : NULL, op, nin, in, attr, attr_bytes, &rng, out);
}
