/* node.c - reads a node and its attributes. */
#include <string.h>

#include "model/onnx/proto.h"

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
    uint64_t        ints = 0, floats = 0;

    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            break;
        if (f.number == 8)
            WEIR_TRY(take_ints(p, &f, fill ? a->ints : NULL, &ints));
        else if (f.number == 7)
            WEIR_TRY(take_floats(p, &f, fill ? a->floats : NULL, &floats));
    }
    a->n_ints = (size_t)ints;
    a->n_floats = (size_t)floats;
    if (fill)
        return WEIR_OK;
    a->ints = weir_onnx_pool_get(&p->pool, ints, sizeof *a->ints);
    a->floats = weir_onnx_pool_get(&p->pool, floats, sizeof *a->floats);
    return a->ints && a->floats ? WEIR_OK : weir_error_status();
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
        return a->g ? weir_onnx_parse_graph(p, f->range, a->g, depth + 1) : weir_error_status();
    case 9:
        a->n_strings++;
        return WEIR_OK;
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

static weir_status reserve(weir_onnx_proto *p, weir_wire_range r, weir_onnx_node *node)
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

weir_status weir_onnx_parse_node(weir_onnx_proto *p, weir_wire_range r, weir_onnx_node *node,
                                 int depth)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    node->op = node->domain = node->name = "";
    WEIR_TRY(reserve(p, r, node));
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
