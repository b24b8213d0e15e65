/* plan.c - which calls of a recorded step are written: those that its outputs need, if all can be.
 */
#include "model/onnx/write/calls.h"

#include <stdio.h>
#include <string.h>

static const char who[] = "graph_save_onnx";

/* The operations that cannot be written, as a list in a sentence. */
typedef struct refusals {
    char   text[600];
    size_t n, calls;
} refusals;

static void refuse(refusals *r, const weir_recording_call *c, const char *why)
{
    char one[200];

    snprintf(one, sizeof one, "%.60s%s%.60s (%.60s)", c->op, *c->path ? " in " : "", c->path, why);
    r->calls++;
    if (strstr(r->text, one) || r->n >= sizeof r->text - 1)
        return;
    r->n += (size_t)snprintf(r->text + r->n, sizeof r->text - r->n, "%s%s", r->n ? ", " : "", one);
}

/* ---- outputs ---- */

static bool listed(const char *names, const char *name)
{
    const size_t n = strlen(name);

    for (const char *p = names; p && *p;) {
        const size_t length = strcspn(p, ",");
        if (length == n && strncmp(p, name, n) == 0)
            return true;
        p += length + (p[length] == ',');
    }
    return false;
}

/* Whether all inputs of a call are made by the forward part or come from outside. */
static bool is_forward(const weir_onnx_writer *w, uint32_t storage)
{
    const uint32_t call = w->r.storage[storage].call;

    return call == WEIR_RECORDING_NONE || w->r.call[call].forward;
}

/* Keeps the outputs that are asked for. */
static weir_status choose_outputs(weir_onnx_writer *w, const char *outputs)
{
    weir_onnx_recording *const r = &w->r;
    uint32_t              n = 0, wanted = 0;

    for (const char *p = outputs; p && *p; p += *p == ',')
        p += strcspn(p, ","), wanted++;
    for (uint32_t i = 0; i < r->outputs; i++) {
        const weir_recording_output o = r->output[i];
        if (outputs ? listed(outputs, o.name)
                    : is_forward(w, r->value[o.value].storage))
            r->output[n++] = o;
    }
    r->outputs = n;
    if (outputs && n != wanted)
        return weir_fail(WEIR_ERR_INVALID, "%s: outputs '%.200s': the graph has %u of them "
                         "(weir_graph_bindings lists its outputs)", who, outputs, n);
    return n ? WEIR_OK : weir_fail(WEIR_ERR_INVALID, "%s: the graph has no output: keep a result "
                                   "of its forward part (weir_keep)", who);
}

/* ---- from the outputs back ---- */

static void need(weir_onnx_writer *w, bool *needed, uint32_t value)
{
    needed[w->r.value[value].storage] = true;
}

static void check(const weir_onnx_writer *w, const weir_onnx_written *c, const bool *needed,
                  refusals *no)
{
    const weir_onnx_way *const way = c->way;
    char                       why[80];

    if (!way) {
        refuse(no, c->call, "no operator of ONNX");
        return;
    }
    if (way->since > w->opset) {
        snprintf(why, sizeof why, "from opset %d on", way->since);
        refuse(no, c->call, why);
    }
    for (uint32_t i = 0; i < c->call->nout; i++)
        if (!(way->results >> i & 1) && needed[w->r.value[c->call->out[i]].storage]) {
            snprintf(why, sizeof why, "its result %u is read", i);
            refuse(no, c->call, why);
        }
    if (way->run == weir_onnx_write_lstm && weir_onnx_lstm_refused(w, c))
        refuse(no, c->call, weir_onnx_lstm_refused(w, c));
    const uint32_t at = (uint32_t)(c - w->call);
    for (uint32_t i = 0; i < c->uses; i++)
        if (w->r.storage[w->r.value[c->in[i]].storage].changed < at)
            refuse(no, c->call, "it reads what the step has changed");
}

static weir_status find_needed(weir_onnx_writer *w, bool *needed)
{
    refusals no = {.n = 0};

    for (uint32_t i = 0; i < w->r.outputs; i++)
        need(w, needed, w->r.output[i].value);
    for (uint32_t i = w->r.calls; i-- > 0;) {
        weir_onnx_written *const c = &w->call[i];
        c->call = &w->r.call[i];
        for (uint32_t k = 0; k < c->call->nout; k++)
            c->needed = c->needed || needed[w->r.value[c->call->out[k]].storage];
        if (!c->needed)
            continue;
        c->way = weir_onnx_way_of(c->call->op);
        c->uses = c->call->nin;
        memcpy(c->in, c->call->in, sizeof c->in);
        weir_onnx_find_norm(w, c);
        check(w, c, needed, &no);
        for (uint32_t k = 0; k < c->uses; k++)
            need(w, needed, c->in[k]);
    }
    if (no.calls == 0)
        return WEIR_OK;
    return weir_fail(WEIR_ERR_INVALID, "%s: %zu operation%s cannot be written to opset %d: %s%s",
                     who, no.calls, no.calls == 1 ? "" : "s", w->opset, no.text,
                     no.n >= sizeof no.text - 1 ? "..." : "");
}

/* ---- names ---- */

/* Results that are outputs as they are have the output's name; others that of the program, or of
 * their call. */
static void name_storages(weir_onnx_writer *w)
{
    const weir_onnx_recording *const r = &w->r;

    for (uint32_t i = 0; i < r->storages; i++)
        if (r->storage[i].call == WEIR_RECORDING_NONE)
            w->storage_name[i] = r->storage[i].name;
    for (uint32_t i = 0; i < r->outputs; i++) {
        const weir_recording_value *const v = &r->value[r->output[i].value];
        if (!w->storage_name[v->storage] && v->offset == 0 &&
            weir_recording_same(&v->layout, &r->storage[v->storage].layout))
            w->storage_name[v->storage] = r->output[i].name;
    }
    for (uint32_t i = 0; i < r->storages; i++) {
        const weir_recording_storage *const s = &r->storage[i];
        char                                base[600];
        if (w->storage_name[i] || !w->needed[i])
            continue;
        const weir_recording_call *const c = &r->call[s->call];
        snprintf(base, sizeof base, "%.400s%s%.60s", *s->name ? s->name : c->path,
                 *s->name || !*c->path ? "" : "/", *s->name ? "" : c->op);
        w->storage_name[i] = weir_onnx_fresh(w, base);
    }
}

/* ---- the nodes ---- */

/* Whether the call has a type that it does not compute in; then the descs of wider operands. */
static bool widen(weir_onnx_writer *w, const weir_onnx_written *c)
{
    bool wide = false;

    for (uint32_t i = 0; i < c->uses + c->call->nout; i++) {
        const uint32_t v = i < c->uses ? c->in[i] : c->call->out[i - c->uses];
        weir_desc     *const d = &w->desc[i < c->uses ? i : WEIR_RECORDING_IN + i - c->uses];
        *d = w->r.value[v].layout.desc;
        const weir_dtype t = weir_onnx_wide_type(d->dtype);
        wide = wide || t != d->dtype;
        d->dtype = t;
    }
    return wide && !c->way->moves;
}

static void write_operators(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *in[WEIR_RECORDING_IN];

    if (!c->way->same) {
        c->way->run(w, c);
        return;
    }
    for (uint32_t k = 0; k < c->uses; k++)
        in[k] = weir_onnx_in(w, c, k);
    weir_put_node(w, c->way->same, c->out[0], c->uses, in, 0, NULL);
}

/* What has no elements needs no operator. */
static bool is_empty(const weir_onnx_writer *w, const weir_onnx_written *c)
{
    return c->call->nout == 1 &&
           weir_recording_count(&w->r.value[c->call->out[0]].layout.desc) == 0;
}

/* Writes a call under the names of its results: a wide call has names of its own for
 * results that are then converted. */
static void write_results(weir_onnx_writer *w, weir_onnx_written *c)
{
    const char *name[WEIR_RECORDING_OUT] = {NULL};

    for (uint32_t k = 0; k < c->call->nout; k++) {
        const weir_recording_value *const v = &w->r.value[c->call->out[k]];
        name[k] = w->storage_name[v->storage];
        c->out[k] = name[k] && w->wide && weir_onnx_wide_type(v->layout.desc.dtype) !=
                                              v->layout.desc.dtype
                        ? weir_onnx_fresh(w, w->node) : name[k];
    }
    if (is_empty(w, c))
        weir_onnx_filled(w, name[0], &w->r.value[c->call->out[0]].layout.desc, 0);
    else
        write_operators(w, c);
    for (uint32_t k = 0; k < c->call->nout && !is_empty(w, c); k++)
        if (c->out[k] != name[k])
            weir_onnx_cast_to(w, name[k], c->out[k],
                              w->r.value[c->call->out[k]].layout.desc.dtype);
}

static void write_call(weir_onnx_writer *w, weir_onnx_written *c)
{
    char              name[600];
    const char *const path = c->call->path;

    snprintf(name, sizeof name, "%.400s%s%.60s_%u", path, *path ? "/" : "", c->call->op,
             c->call->number);
    w->node = name;
    w->nodes_of_call = 0;
    w->wide = widen(w, c);
    write_results(w, c);
    w->wide = false;
    w->node = NULL;
}

/* An output that is a view, comes from outside, or is named twice. */
static void write_outputs(weir_onnx_writer *w)
{
    for (uint32_t i = 0; i < w->r.outputs; i++) {
        const char *const name = weir_onnx_value_name(w, w->r.output[i].value);
        if (name && strcmp(name, w->r.output[i].name) != 0)
            weir_put_node1(w, "Identity", w->r.output[i].name, name);
    }
}

/* ---- the whole ---- */

static weir_status make_tables(weir_onnx_writer *w, bool **needed)
{
    w->call = weir_onnx_pool_get(&w->pool, w->r.calls + 1, sizeof *w->call);
    w->storage_name = weir_onnx_pool_get(&w->pool, w->r.storages + 1, sizeof *w->storage_name);
    w->value_name = weir_onnx_pool_get(&w->pool, w->r.values + 1, sizeof *w->value_name);
    w->needed = *needed = weir_onnx_pool_get(&w->pool, w->r.storages + 1, sizeof **needed);
    return w->call && w->storage_name && w->value_name && *needed ? WEIR_OK : weir_error_status();
}

weir_status weir_onnx_write_graph(weir_onnx_writer *w, weir_graph *g, const char *outputs)
{
    bool *needed;

    WEIR_TRY(weir_recording_read(&w->r, &w->pool, g));
    WEIR_TRY(choose_outputs(w, outputs));
    WEIR_TRY(make_tables(w, &needed));
    WEIR_TRY(find_needed(w, needed));
    name_storages(w);
    for (uint32_t i = 0; i < w->r.calls && !w->failed; i++)
        if (w->call[i].needed)
            write_call(w, &w->call[i]);
    write_outputs(w);
    return w->failed ? WEIR_ERR_NOMEM : WEIR_OK;
}

void weir_onnx_writer_free(weir_onnx_writer *w)
{
    weir_message_free(&w->nodes);
    weir_message_free(&w->constants);
    weir_onnx_pool_free(&w->pool);
}
