/* walk.c - calls the functions of a graph's nodes in order, on tensors or on what is known. */
#include <stdio.h>
#include <string.h>

#include "model/onnx/call.h"

enum {
    FOLDED = 256, /* MB that computing ahead may take */
    TURNS = 20000 /* of all subgraphs that one call of a model may record */
};

/* The node in front of the sentence. */
static weir_status explain(const weir_onnx_node *node, weir_status s)
{
    char said[500];

    snprintf(said, sizeof said, "%s", weir_error());
    return weir_fail(s, "onnx: node '%.60s' (%.40s): %s", node->name, node->op, said);
}

static weir_device *folder(struct weir_onnx *m)
{
    if (!m->folder) {
        m->folder = weir_device_open("cpu", &(weir_device_options){.threads = 1});
        char text[24];
        snprintf(text, sizeof text, "%dMB", FOLDED);
        if (m->folder && weir_device_set_budget(m->folder, text) != WEIR_OK) {
            weir_device_close(m->folder);
            m->folder = NULL;
        }
    }
    return m->folder;
}

/* Of CastLike's second input the type alone is asked for. */
static bool all_known(const weir_onnx_call *c)
{
    const size_t n = strcmp(c->node->op, "CastLike") == 0 ? 1 : c->node->n_in;

    for (size_t i = 0; i < n; i++)
        if (weir_onnx_has(c, i) && !c->m->value[c->node->in[i]].known)
            return false;
    return !c->node->row->draws && !c->node->row->body;
}

static weir_status check_inputs(const weir_onnx_call *c)
{
    for (size_t i = 0; i < c->node->n_in; i++)
        if (weir_onnx_has(c, i)) {
            const weir_onnx_value *const v = &c->m->value[c->node->in[i]];
            if (!v->t && !v->known)
                return weir_onnx_refuse(c, "reads '%.60s', which nothing before it makes",
                                        c->m->proto.names.name[c->node->in[i]]);
        }
    return WEIR_OK;
}

/* Takes the results into the values: tensors, or what they hold. */
static weir_status take(weir_onnx_call *c)
{
    for (size_t i = 0; i < c->node->n_out; i++) {
        weir_tensor *const t = c->m->out[i];
        if (!weir_onnx_wants(c, i) || (c->told && i == 0))
            continue;
        if (!t)
            return weir_onnx_refuse(c, "Weir does not compute output %zu", i);
        weir_onnx_value *const v = &c->m->value[c->node->out[i]];
        WEIR_TRY(weir_onnx_free_slot(c, c->node->out[i]));
        if (!c->fold) {
            weir_tensor *const own = weir_retain(t); /* t may be the input of this name */
            weir_onnx_drop(v);
            *v = (weir_onnx_value){.t = own, .own_t = true};
            if (!own)
                return weir_error_status();
            continue;
        }
        weir_onnx_drop(v);
        v->desc = weir_tensor_desc(t);
        v->known = weir_host_alloc(weir_tensor_bytes(t) + 1);
        v->own_known = true;
        if (!v->known)
            return weir_error_status();
        WEIR_TRY(weir_read(t, v->known, weir_tensor_bytes(t)));
    }
    return WEIR_OK;
}

static weir_status run_node(struct weir_onnx *m, const weir_onnx_node *node)
{
    weir_onnx_call c = {.m = m, .node = node, .dev = m->dev, .opset = m->proto.opset};

    memset((void *)m->out, 0, (node->n_out + 1) * sizeof *m->out);
    memset((void *)m->temp, 0, (node->n_in + 1) * sizeof *m->temp);
    weir_status s = check_inputs(&c);
    if (s == WEIR_OK && (c.fold = all_known(&c))) {
        c.dev = folder(m);
        s = c.dev ? WEIR_OK : weir_error_status();
    }
    if (s != WEIR_OK)
        return explain(node, s);
    WEIR_TRY(weir_scope_begin(c.dev));
    s = node->row->run(&c);
    s = s == WEIR_OK && !node->row->body ? take(&c) : s;
    s = s == WEIR_OK ? s : explain(node, s);
    for (size_t i = 0; i < node->n_in; i++)
        weir_release(m->temp[i]);
    const weir_status end = weir_scope_end(c.dev);
    return s == WEIR_OK ? end : s;
}

/* Nodes inside use the same lists of inputs and results. */
weir_status weir_onnx_run_body(weir_onnx_call *c, const weir_onnx_graph *g)
{
    if (c->m->turns++ >= TURNS)
        return weir_onnx_refuse(c, "more than %d turns of all subgraphs", TURNS);
    const weir_status s = c->m->run_graph(c->m, g, false);

    memset((void *)c->m->out, 0, (c->node->n_out + 1) * sizeof *c->m->out);
    memset((void *)c->m->temp, 0, (c->node->n_in + 1) * sizeof *c->m->temp);
    return s;
}

weir_status weir_onnx_set(weir_onnx_call *c, uint32_t to, weir_tensor *t)
{
    weir_tensor *const own = t ? weir_retain(t) : NULL;

    if (!own)
        return weir_error_status();
    const weir_status s = weir_onnx_free_slot(c, to);
    if (s != WEIR_OK) {
        weir_release(own);
        return s;
    }
    weir_onnx_drop(&c->m->value[to]);
    c->m->value[to] = (weir_onnx_value){.t = own, .own_t = true};
    return WEIR_OK;
}

weir_status weir_onnx_assign(weir_onnx_call *c, uint32_t to, uint32_t from)
{
    if (from == WEIR_ONNX_ABSENT)
        return weir_onnx_refuse(c, "an input of a subgraph is left out");
    const weir_onnx_value *const v = &c->m->value[from];
    weir_onnx_value              copy = {.desc = v->desc};

    if (!v->t && !v->known)
        return weir_onnx_refuse(c, "a subgraph does not make '%.60s'",
                                c->m->proto.names.name[from]);
    if (to == from || to == WEIR_ONNX_ABSENT)
        return WEIR_OK;
    WEIR_TRY(weir_onnx_free_slot(c, to));
    if (v->known) {
        const size_t bytes = weir_onnx_elements(&v->desc) * weir_dtype_size(v->desc.dtype);
        copy.own_known = true;
        if (!(copy.known = weir_host_alloc(bytes + 1)))
            return weir_error_status();
        memcpy(copy.known, v->known, bytes);
        weir_onnx_drop(&c->m->value[to]);
        c->m->value[to] = copy;
        return WEIR_OK;
    }
    return weir_onnx_set(c, to, v->t);
}

weir_status weir_onnx_run_graph(struct weir_onnx *m, const weir_onnx_graph *g, bool top)
{
    for (size_t k = 0; k < g->n_node; k++) {
        const weir_onnx_node *const node = &g->node[k];
        if (top && !m->needed[k])
            continue;
        WEIR_TRY(run_node(m, node));
        for (size_t i = 0; top && i < node->n_in; i++)
            if (node->in[i] != WEIR_ONNX_ABSENT && m->last[node->in[i]] == k + 1)
                weir_onnx_drop(&m->value[node->in[i]]);
        for (size_t i = 0; top && i < node->n_out; i++)
            if (node->out[i] != WEIR_ONNX_ABSENT && m->last[node->out[i]] == 0)
                weir_onnx_drop(&m->value[node->out[i]]);
    }
    return WEIR_OK;
}
