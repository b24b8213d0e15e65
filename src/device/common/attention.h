/* attention.h - the geometry of a call of attention: where heads lie, and who sees whom. */
#ifndef WEIR_DEVICE_COMMON_ATTENTION_H
#define WEIR_DEVICE_COMMON_ATTENTION_H

#include "core/attr.h"
#include "core/op.h"

/* Rows of an operand whose heads lie side by side in a row. In elements: from the operand's first
 * element to head 0 of batch 0, from a batch to the next, from a row to the next. */
typedef struct weir_attention_rows {
    int64_t offset, batch, row;
} weir_attention_rows;

/* b batches of h heads of q, t rows of q; kv heads of k and v, s rows. A head has d columns of q
 * and k, e of v. Head i of q reads head i / (h / kv) of k and v. */
typedef struct weir_attention_geometry {
    int64_t             b, h, kv, t, s, d, e;
    int64_t             causal;             /* WEIR_SIGHT */
    double              scale, dropout;
    bool                packed;             /* q, k, v lie in one operand, their gradients, too */
    int                 mask, lengths, seed;        /* operands; -1: none */
    weir_dtype          mask_type;
    int64_t             mask_dim[4], mask_step[4];  /* to (b,h,t,s); step 0 where it broadcasts */
    int                 dmask;              /* gradient: the output; -1: none */
    int64_t             dmask_step[4];
    weir_attention_rows q, k, v, y, dy, dq, dk, dv;
} weir_attention_geometry;

static inline weir_attention_rows weir_attention_rows_of(const weir_layout *l, int64_t offset)
{
    weir_attention_rows r;
    r.offset = offset;
    r.batch = l->stride[0];
    r.row = l->stride[1];
    return r;
}

/* Steps of a mask along batch, head, row of q and row of k: its axes are the last of these four. */
static inline void weir_attention_mask_steps(const weir_layout *l, int64_t dim[4], int64_t step[4])
{
    for (int i = 0; i < 4; i++) {
        const int axis = i - (4 - l->desc.ndim);
        dim[i] = axis < 0 ? 1 : l->desc.dim[axis];
        step[i] = axis < 0 || dim[i] == 1 ? 0 : l->stride[axis];
    }
}

static inline void weir_attention_extras(const weir_call *c, bool back, weir_attention_geometry *g)
{
    const weir_attention_attr *const a = (const weir_attention_attr *)c->attr;
    int                              next = back ? 6 : 3;
    int64_t                          dim[4];
    g->mask = a->mask ? next++ : -1;
    g->lengths = a->lengths ? next++ : -1;
    g->seed = a->dropout > 0 ? next++ : -1;
    g->dmask = back && a->mask_grad ? (a->packed ? 1 : 3) : -1;
    g->mask_type = WEIR_BOOL;
    if (g->mask >= 0) {
        g->mask_type = c->in[g->mask].desc.dtype;
        weir_attention_mask_steps(&c->in[g->mask], g->mask_dim, g->mask_step);
    }
    if (g->dmask >= 0)
        weir_attention_mask_steps(&c->out[g->dmask], dim, g->dmask_step);
}

/* back: the call is ATTENTION_GRAD. */
static inline weir_attention_geometry weir_attention_geometry_of(const weir_call *c, bool back)
{
    const weir_attention_attr *const a = (const weir_attention_attr *)c->attr;
    const weir_layout *const         in = c->in, *const out = c->out;
    const int64_t                    heads = a->heads + 2 * a->kv_heads;
    weir_attention_geometry          g;
    g.b = in[0].desc.dim[0], g.h = a->heads, g.kv = a->kv_heads;
    g.t = in[0].desc.dim[1], g.s = in[2].desc.dim[1];
    g.d = in[0].desc.dim[2] / (a->packed ? heads : g.h);
    g.e = a->packed ? g.d : in[2].desc.dim[2] / g.kv;
    g.causal = a->causal, g.packed = a->packed != 0;
    g.scale = a->scale, g.dropout = a->dropout;
    const int64_t to_k = g.packed ? g.h * g.d : 0, to_v = g.packed ? (g.h + g.kv) * g.d : 0;
    g.q = weir_attention_rows_of(&in[0], 0);
    g.k = weir_attention_rows_of(&in[1], to_k);
    g.v = weir_attention_rows_of(&in[2], to_v);
    g.y = weir_attention_rows_of(back ? &in[3] : &out[0], 0);
    g.dy = weir_attention_rows_of(&in[back ? 5 : 0], 0);
    g.dq = weir_attention_rows_of(&out[0], 0);
    g.dk = weir_attention_rows_of(&out[back && !g.packed ? 1 : 0], to_k);
    g.dv = weir_attention_rows_of(&out[back && !g.packed ? 2 : 0], to_v);
    weir_attention_extras(c, back, &g);
    return g;
}

/* The key of dropout's random numbers: 64 bits from four uniforms of 24 bits. */
static inline uint64_t weir_attention_key(float a, float b, float c, float d)
{
    const uint64_t low = (uint64_t)(a * 0x1p24f) | ((uint64_t)(b * 0x1p24f) & 255) << 24;
    const uint64_t high = (uint64_t)(c * 0x1p24f) | ((uint64_t)(d * 0x1p24f) & 255) << 24;
    return low | high << 32;
}

/* Philox blocks of a row of scores: the score of key j draws word j % 4 of block j / 4. */
static inline uint64_t weir_attention_blocks(const weir_attention_geometry *g)
{
    return ((uint64_t)g->s + 3) / 4;
}

#endif
