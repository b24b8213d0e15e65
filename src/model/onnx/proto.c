/* proto.c - reads a model: its graphs, their ports, their nodes and attributes. */
#include "model/onnx/proto.h"

#include <inttypes.h>
#include <string.h>

enum { DEPTH = 16 }; /* of subgraphs inside subgraphs */

/* ---- ports ---- */

static weir_status parse_dim(weir_onnx_proto *p, weir_wire_range r, weir_onnx_port *port)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    if (port->ndim == WEIR_MAX_DIMS)
        return weir_wire_fail(&p->source, "'%.60s' has more than %d axes", port->name,
                              WEIR_MAX_DIMS);
    int64_t *const dim = &port->dim[port->ndim];
    *dim = -1;
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.number == 1 && f.kind == WEIR_WIRE_NUMBER)
            *dim = (int64_t)f.value;
        else if (f.number == 2 && f.kind == WEIR_WIRE_RANGE)
            WEIR_TRY(weir_onnx_text(p, f.range, &port->param[port->ndim], NULL));
    }
    if (*dim < -1)
        return weir_wire_fail(&p->source, "'%.60s' has the size %" PRId64 " in axis %d", port->name,
                              *dim, port->ndim);
    port->ndim++;
    return WEIR_OK;
}

static weir_status parse_shape(weir_onnx_proto *p, weir_wire_range r, weir_onnx_port *port)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    port->shaped = true;
    port->ndim = 0;
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            return WEIR_OK;
        if (f.number == 1 && f.kind == WEIR_WIRE_RANGE)
            WEIR_TRY(parse_dim(p, f.range, port));
    }
}

/* TypeProto, and the TypeProto.Tensor in its field 1. */
static weir_status parse_type(weir_onnx_proto *p, weir_wire_range r, weir_onnx_port *port,
                              bool tensor)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            return WEIR_OK;
        if (!tensor && f.number == 1 && f.kind == WEIR_WIRE_RANGE) {
            port->tensor = true;
            WEIR_TRY(parse_type(p, f.range, port, true));
        } else if (tensor && f.number == 1 && f.kind == WEIR_WIRE_NUMBER) {
            port->type = (int64_t)f.value;
        } else if (tensor && f.number == 2 && f.kind == WEIR_WIRE_RANGE) {
            WEIR_TRY(parse_shape(p, f.range, port));
        }
    }
}

static weir_status parse_port(weir_onnx_proto *p, weir_wire_range r, weir_onnx_port *port)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    weir_wire_range type = {0};
    bool            more;

    port->name = "";
    port->slot = WEIR_ONNX_ABSENT;
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.number == 1 && f.kind == WEIR_WIRE_RANGE)
            WEIR_TRY(weir_onnx_slot(p, f.range, &port->slot, &port->name));
        else if (f.number == 2 && f.kind == WEIR_WIRE_RANGE)
            type = f.range;
    }
    if (port->slot == WEIR_ONNX_ABSENT)
        return weir_wire_fail(&p->source, "has an input or output without a name");
    return parse_type(p, type, port, false);
}

/* ---- nodes ---- */

static weir_status parse_graph(weir_onnx_proto *p, weir_wire_range r, weir_onnx_graph *g,
                               int depth);

/* Adds the numbers of a list field, packed or not; *at is [n] of the pool, or NULL to count. */
static weir_status take_ints(weir_onnx_proto *p, const weir_wire_field *f, int64_t *at, uint64_t *n)
{
    uint64_t v;

    if (f->kind == WEIR_WIRE_NUMBER) {
        if (at)
            at[*n] = (int64_t)f->value;
        ++*n;
        return WEIR_OK;
    }
    if (f->kind != WEIR_WIRE_RANGE)
        return weir_wire_fail(&p->source, "has a list of integers that are none");
    for (weir_wire w = weir_wire_over(&p->source, f->range); w.at < w.end; ++*n) {
        WEIR_TRY(weir_wire_varint(&w, &v));
        if (at)
            at[*n] = (int64_t)v;
    }
    return WEIR_OK;
}

static float as_float(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float          v;

    memcpy(&v, &low, sizeof v);
    return v;
}

static weir_status take_floats(weir_onnx_proto *p, const weir_wire_field *f, float *at, uint64_t *n)
{
    uint64_t v;

    if (f->kind == WEIR_WIRE_FIXED32) {
        if (at)
            at[*n] = as_float(f->value);
        ++*n;
        return WEIR_OK;
    }
    if (f->kind != WEIR_WIRE_RANGE)
        return weir_wire_fail(&p->source, "has a list of floats that are none");
    for (weir_wire w = weir_wire_over(&p->source, f->range); w.at < w.end; ++*n) {
        WEIR_TRY(weir_wire_fixed(&w, 4, &v));
        if (at)
            at[*n] = as_float(v);
    }
    return WEIR_OK;
}

/* The lists of an attribute: counted, then read. */
static weir_status parse_lists(weir_onnx_proto *p, weir_wire_range r, weir_onnx_attr *a, bool fill)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;
    uint64_t        ints = 0, floats = 0, strings = 0;

    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.number == 8)
            WEIR_TRY(take_ints(p, &f, fill ? a->ints : NULL, &ints));
        else if (f.number == 7)
            WEIR_TRY(take_floats(p, &f, fill ? a->floats : NULL, &floats));
        else if (f.number == 9 && f.kind == WEIR_WIRE_RANGE && !fill)
            strings++;
        else if (f.number == 9 && f.kind == WEIR_WIRE_RANGE)
            WEIR_TRY(weir_onnx_text(p, f.range, &a->strings[strings++], NULL));
    }
    a->n_ints = (size_t)ints;
    a->n_floats = (size_t)floats;
    a->n_strings = (size_t)strings;
    if (fill)
        return WEIR_OK;
    a->ints = weir_onnx_pool_get(&p->pool, ints, sizeof *a->ints);
    a->floats = weir_onnx_pool_get(&p->pool, floats, sizeof *a->floats);
    a->strings = weir_onnx_pool_get(&p->pool, strings, sizeof *a->strings);
    return a->ints && a->floats && a->strings ? WEIR_OK : weir_error_status();
}

static weir_status parse_part(weir_onnx_proto *p, const weir_wire_field *f, weir_onnx_attr *a,
                              int depth)
{
    switch (f->number) {
    case 1:
        return weir_onnx_text(p, f->range, &a->name, NULL);
    case 4:
        return weir_onnx_text(p, f->range, &a->s, &a->n_s);
    case 5:
        if (a->t)
            return weir_wire_fail(&p->source, "has an attribute of two tensors");
        a->t = weir_onnx_pool_get(&p->pool, 1, sizeof *a->t);
        return a->t ? weir_onnx_parse_tensor(p, f->range, a->t) : weir_error_status();
    case 6:
        if (a->g)
            return weir_wire_fail(&p->source, "has an attribute of two graphs");
        a->g = weir_onnx_pool_get(&p->pool, 1, sizeof *a->g);
        return a->g ? parse_graph(p, f->range, a->g, depth + 1) : weir_error_status();
    case 21:
        return weir_onnx_text(p, f->range, &a->reference, NULL);
    default:
        return WEIR_OK;
    }
}

static weir_status parse_attr(weir_onnx_proto *p, weir_wire_range r, weir_onnx_attr *a, int depth)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    a->name = "";
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.kind == WEIR_WIRE_RANGE)
            WEIR_TRY(parse_part(p, &f, a, depth));
        else if (f.number == 2 && f.kind == WEIR_WIRE_FIXED32)
            a->f = (double)as_float(f.value);
        else if (f.number == 3 && f.kind == WEIR_WIRE_NUMBER)
            a->i = (int64_t)f.value;
    }
    WEIR_TRY(parse_lists(p, r, a, false));
    return parse_lists(p, r, a, true);
}

static weir_status reserve_node(weir_onnx_proto *p, weir_wire_range r, weir_onnx_node *node)
{
    uint64_t in, out, attr;

    WEIR_TRY(weir_onnx_count(p, r, 1, &in));
    WEIR_TRY(weir_onnx_count(p, r, 2, &out));
    WEIR_TRY(weir_onnx_count(p, r, 5, &attr));
    node->in = weir_onnx_pool_get(&p->pool, in, sizeof *node->in);
    node->out = weir_onnx_pool_get(&p->pool, out, sizeof *node->out);
    node->attr = weir_onnx_pool_get(&p->pool, attr, sizeof *node->attr);
    return node->in && node->out && node->attr ? WEIR_OK : weir_error_status();
}

static weir_status parse_node(weir_onnx_proto *p, weir_wire_range r, weir_onnx_node *node,
                              int depth)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    node->op = node->domain = node->name = "";
    WEIR_TRY(reserve_node(p, r, node));
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            return WEIR_OK;
        if (f.kind != WEIR_WIRE_RANGE)
            continue;
        switch (f.number) {
        case 1:
            WEIR_TRY(weir_onnx_slot(p, f.range, &node->in[node->n_in++], NULL));
            break;
        case 2:
            WEIR_TRY(weir_onnx_slot(p, f.range, &node->out[node->n_out++], NULL));
            break;
        case 3:
            WEIR_TRY(weir_onnx_text(p, f.range, &node->name, NULL));
            break;
        case 4:
            WEIR_TRY(weir_onnx_text(p, f.range, &node->op, NULL));
            break;
        case 5:
            WEIR_TRY(parse_attr(p, f.range, &node->attr[node->n_attr++], depth));
            break;
        case 7:
            WEIR_TRY(weir_onnx_text(p, f.range, &node->domain, NULL));
            break;
        default:
            break;
        }
    }
}

/* ---- graphs ---- */

static weir_status reserve(weir_onnx_proto *p, weir_wire_range r, uint32_t number, size_t size,
                           void **list)
{
    uint64_t n;

    WEIR_TRY(weir_onnx_count(p, r, number, &n));
    *list = weir_onnx_pool_get(&p->pool, n, size);
    return *list ? WEIR_OK : weir_error_status();
}

static weir_status parse_init(weir_onnx_proto *p, weir_wire_range r, weir_onnx_graph *g)
{
    weir_onnx_tensor *const t = &g->init[g->n_init++];

    WEIR_TRY(weir_onnx_parse_tensor(p, r, t));
    if (!*t->name)
        return weir_wire_fail(&p->source, "has an initializer without a name");
    return weir_onnx_names_add(&p->names, t->name, &t->slot);
}

static weir_status parse_graph(weir_onnx_proto *p, weir_wire_range r, weir_onnx_graph *g, int depth)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;
    void           *list;

    if (depth > DEPTH)
        return weir_wire_fail(&p->source, "has more than %d graphs inside each other", DEPTH);
    WEIR_TRY(reserve(p, r, 1, sizeof *g->node, &list));
    g->node = list;
    WEIR_TRY(reserve(p, r, 5, sizeof *g->init, &list));
    g->init = list;
    WEIR_TRY(reserve(p, r, 11, sizeof *g->in, &list));
    g->in = list;
    WEIR_TRY(reserve(p, r, 12, sizeof *g->out, &list));
    g->out = list;
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            return WEIR_OK;
        if (f.kind != WEIR_WIRE_RANGE)
            continue;
        if (f.number == 1)
            WEIR_TRY(parse_node(p, f.range, &g->node[g->n_node++], depth));
        else if (f.number == 5)
            WEIR_TRY(parse_init(p, f.range, g));
        else if (f.number == 11)
            WEIR_TRY(parse_port(p, f.range, &g->in[g->n_in++]));
        else if (f.number == 12)
            WEIR_TRY(parse_port(p, f.range, &g->out[g->n_out++]));
        else if (f.number == 15)
            return weir_wire_fail(&p->source, "has sparse initializers, which Weir lacks");
    }
}

/* ---- the model ---- */

/* OperatorSetIdProto: the version of the default domain. */
static weir_status parse_opset(weir_onnx_proto *p, weir_wire_range r)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;
    const char     *domain = "";
    int64_t         version = 1;

    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.number == 1 && f.kind == WEIR_WIRE_RANGE)
            WEIR_TRY(weir_onnx_text(p, f.range, &domain, NULL));
        else if (f.number == 2 && f.kind == WEIR_WIRE_NUMBER)
            version = (int64_t)f.value;
    }
    if (!*domain || strcmp(domain, "ai.onnx") == 0)
        p->opset = version;
    return WEIR_OK;
}

/* FunctionProto: its name. */
static weir_status parse_function(weir_onnx_proto *p, weir_wire_range r)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    p->n_functions++;
    while (!p->function) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.number == 1 && f.kind == WEIR_WIRE_RANGE)
            WEIR_TRY(weir_onnx_text(p, f.range, &p->function, NULL));
    }
    return WEIR_OK;
}

weir_status weir_onnx_parse(weir_onnx_proto *p)
{
    weir_wire       w = weir_wire_over(&p->source, (weir_wire_range){0, p->source.size});
    weir_wire_field f;
    bool            more, graph = false;

    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.kind != WEIR_WIRE_RANGE)
            continue;
        if (f.number == 8) {
            WEIR_TRY(parse_opset(p, f.range));
        } else if (f.number == 25) {
            WEIR_TRY(parse_function(p, f.range));
        } else if (f.number == 7) {
            if (graph)
                return weir_wire_fail(&p->source, "has two graphs");
            graph = true;
            WEIR_TRY(parse_graph(p, f.range, &p->graph, 0));
        }
    }
    if (!graph)
        return weir_wire_fail(&p->source, "is no ONNX model: it has no graph");
    return WEIR_OK;
}

static void graph_free(weir_onnx_graph *g)
{
    for (size_t i = 0; i < g->n_init; i++)
        weir_host_free(g->init[i].bytes);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i].n_attr; k++) {
            const weir_onnx_attr *const a = &g->node[i].attr[k];
            if (a->t)
                weir_host_free(a->t->bytes);
            if (a->g)
                graph_free(a->g);
        }
}

void weir_onnx_proto_free(weir_onnx_proto *p)
{
    graph_free(&p->graph);
    weir_wire_close(&p->source);
    weir_onnx_names_free(&p->names);
    weir_onnx_pool_free(&p->pool);
}
