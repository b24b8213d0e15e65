/* apply.c - takes inputs, walks the graph, hands out outputs; names and shapes of both. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/onnx/call.h"

/* ---- inputs and outputs by number ---- */

/* Old files list initializers among the inputs, too. */
static bool is_init(const weir_onnx *m, const weir_onnx_port *p)
{
    return m->value[p->slot].kept;
}

static const weir_onnx_port *input_at(const weir_onnx *m, size_t i)
{
    const weir_onnx_graph *const g = &m->proto.graph;

    for (size_t k = 0; k < g->n_in; k++)
        if (!is_init(m, &g->in[k]) && i-- == 0)
            return &g->in[k];
    return NULL;
}

size_t weir_onnx_input_count(const weir_onnx *m)
{
    size_t n = 0;

    for (size_t k = 0; m && k < m->proto.graph.n_in; k++)
        n += !is_init(m, &m->proto.graph.in[k]);
    return n;
}

size_t weir_onnx_output_count(const weir_onnx *m)
{
    return m ? m->n_selected : 0;
}

const char *weir_onnx_input_name(const weir_onnx *m, size_t i)
{
    const weir_onnx_port *const p = m ? input_at(m, i) : NULL;
    return p ? p->name : "";
}

const char *weir_onnx_output_name(const weir_onnx *m, size_t i)
{
    return m && i < m->n_selected ? m->proto.names.name[m->selected[i]] : "";
}

/* The size that "batch=8,seq=128" gives to the name; -1: none. */
static int64_t size_of(const char *dims, const char *name)
{
    const size_t n = name ? strlen(name) : 0;

    for (const char *p = dims; n && p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strncmp(p, name, n) == 0 && p[n] == '=' && strspn(p + n + 1, "0123456789") > 0)
            return strtoll(p + n + 1, NULL, 10);
    return -1;
}

weir_status weir_onnx_input_desc(const weir_onnx *m, size_t i, weir_desc *desc)
{
    const weir_onnx_port *const p = m ? input_at(m, i) : NULL;

    if (!m || !desc)
        return weir_fail_null("onnx_input_desc", m ? "desc" : "model");
    if (!p)
        return weir_fail(WEIR_ERR_INVALID,
                         "onnx_input_desc: index %zu is out of range, there are "
                         "%zu",
                         i, weir_onnx_input_count(m));
    weir_status status = WEIR_OK;
    *desc = (weir_desc){.ndim = p->ndim};
    if (!p->shaped || !weir_onnx_dtype(p->type, &desc->dtype))
        return weir_fail(WEIR_ERR_INVALID, "onnx_input_desc: '%.60s' has the type %s%s", p->name,
                         weir_onnx_type_name(p->type), p->shaped ? "" : " and no shape");
    for (int k = 0; k < p->ndim; k++) {
        desc->dim[k] = p->dim[k] >= 0 ? p->dim[k] : size_of(m->dims, p->param[k]);
        if (desc->dim[k] >= 0)
            continue;
        desc->dim[k] = -1;
        if (status == WEIR_OK)
            status = weir_fail(WEIR_ERR_INVALID,
                               "onnx_input_desc: axis %d of '%.60s' has no size; "
                               "give it by the option dims: \"%.60s=1\"",
                               k, p->name, p->param[k] ? p->param[k] : "?");
    }
    return status;
}

/* ---- applying ---- */

static weir_status check_input(const weir_onnx *m, const weir_onnx_port *p, const weir_tensor *t)
{
    const weir_desc d = weir_tensor_desc(t);
    weir_dtype      type;

    if (p->type != WEIR_ONNX_NONE && (!weir_onnx_dtype(p->type, &type) || type != d.dtype))
        return weir_fail(WEIR_ERR_DTYPE,
                         "onnx_apply: the input '%.60s' is %s, but the model takes "
                         "%s",
                         p->name, weir_dtype_name(d.dtype), weir_onnx_type_name(p->type));
    if (p->shaped && p->ndim != d.ndim)
        return weir_fail(WEIR_ERR_SHAPE,
                         "onnx_apply: the input '%.60s' has %d axes, but the model "
                         "takes %d",
                         p->name, d.ndim, p->ndim);
    for (int i = 0; p->shaped && i < p->ndim; i++) {
        const int64_t want = p->dim[i] >= 0 ? p->dim[i] : size_of(m->dims, p->param[i]);
        if (want >= 0 && want != d.dim[i])
            return weir_fail(WEIR_ERR_SHAPE,
                             "onnx_apply: axis %d of the input '%.60s' has size %" PRId64
                             ", but the model takes %" PRId64,
                             i, p->name, d.dim[i], want);
    }
    return WEIR_OK;
}

static weir_status take_input(weir_onnx *m, const weir_onnx_port *p, weir_tensor *t)
{
    weir_onnx_value *const v = &m->value[p->slot];

    WEIR_TRY(check_input(m, p, t));
    weir_onnx_drop(v); /* two inputs of one name */
    *v = (weir_onnx_value){.t = weir_retain(t), .own_t = true};
    if (!v->t)
        return weir_error_status();
    if (!weir_onnx_listed(m->values, p->name))
        return WEIR_OK;
    v->desc = weir_tensor_desc(t);
    v->own_known = true;
    if (!(v->known = weir_host_alloc(weir_tensor_bytes(t) + 1)))
        return weir_error_status();
    return weir_read(t, v->known, weir_tensor_bytes(t));
}

static weir_status take_inputs(weir_onnx *m, size_t n, weir_tensor *const *in)
{
    const size_t want = weir_onnx_input_count(m);

    if (n > want)
        return weir_fail(WEIR_ERR_INVALID, "onnx_apply: %zu inputs, but the model takes %zu", n,
                         want);
    for (size_t i = 0; i < want; i++) {
        const weir_onnx_port *const p = input_at(m, i);
        if (i >= n || !in[i])
            return weir_fail_null("onnx_apply", p->name);
        WEIR_TRY(take_input(m, p, in[i]));
    }
    return WEIR_OK;
}

/* A handle of its own, in the caller's scope. */
static weir_status give(weir_onnx *m, uint32_t slot, weir_tensor **out)
{
    const weir_onnx_value *const v = &m->value[slot];

    if (!v->t && !v->known)
        return weir_fail(WEIR_ERR_INVALID, "onnx_apply: no node makes the output '%.60s'",
                         m->proto.names.name[slot]);
    weir_tensor *const t =
        v->t ? weir_retain(v->t) : weir_onnx_to_tensor(m->dev, &v->desc, v->known);
    const weir_desc d = weir_tensor_desc(t);
    *out = weir_reshape(t, d.ndim, d.dim);
    weir_release(t);
    return *out ? WEIR_OK : weir_error_status();
}

weir_status weir_onnx_apply(weir_onnx *m, size_t n, weir_tensor *const *in, size_t room,
                            weir_tensor **out)
{
    if (!m || !out || (n && !in))
        return weir_fail_null("onnx_apply", !m ? "model" : !out ? "out" : "in");
    if (room < m->n_selected)
        return weir_fail(WEIR_ERR_INVALID, "onnx_apply: room for %zu outputs, the model has %zu",
                         room, m->n_selected);
    m->turns = 0;
    weir_status s = take_inputs(m, n, in);
    s = s == WEIR_OK ? weir_onnx_run_graph(m, &m->proto.graph, true) : s;
    for (size_t i = 0; i < m->n_selected && s == WEIR_OK; i++)
        s = give(m, m->selected[i], &out[i]);
    for (size_t i = 0; i < m->proto.names.n; i++)
        weir_onnx_drop(&m->value[i]);
    return s;
}
