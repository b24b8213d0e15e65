/* table_attention.c - rows of scaled dot-product attention. */
#include "graph/ops/table.h"

#define HEADS(n)        {.heads = n}
#define QKV             {OP_PARAM, -1, 2}, {OP_PARAM, -1.5, 1}, {OP_PARAM, -1, 1}
#define CAUSAL_HEADS(n) {.heads = n, .causal = true}

static const op_set sets[] = {
    {.in = "(2,3,4)(2,5,4)(2,5,6)", "2 heads", HEADS(2)},
    {.in = "(1,1,1)(1,1,1)(1,1,1)", "one of each", HEADS(1)},
    {.in = "(2,5,6)(2,5,6)(2,5,6)", "causal", CAUSAL_HEADS(3)},
    {.in = "(2,3,4)(2,5,4)(2,5,4)", "causal, more keys", CAUSAL_HEADS(1)},
    {.in = "(2,5,4)(2,3,4)(2,3,4)", "causal, fewer keys", CAUSAL_HEADS(4)},
    {.in = "(0,3,4)(0,5,4)(0,5,4)", "no batches", HEADS(2)},
    {.in = "(2,0,4)(2,5,4)(2,5,4)", "no rows", HEADS(2)},
    {.in = "(2,3,4)(2,0,4)(2,0,4)", "no keys", HEADS(2)},
    {.in = "(2,3,0)(2,5,0)(2,5,4)", "no columns: the mean of v", HEADS(2)},
    {.in = "(2,3,4)(2,5,4)(2,5,0)", "no columns of v", HEADS(2)},
    {.in = "(4,3,2)t(4,5,2)t(4,5,2)", "transposed", HEADS(2)},
    {.in = "(3,3,4)b(3,5,4)l(3,5,4)b", "repeating views", HEADS(1)},
    {.in = "(1,70,8)(1,150,8)(1,150,4)", "several blocks", HEADS(2)},
    {.in = "(1,150,4)(1,150,4)(1,150,4)", "several blocks, causal", CAUSAL_HEADS(1)},
    {.in = "(1,64,6)(1,256,6)(1,256,6)", "whole blocks, causal", CAUSAL_HEADS(2)},
    {.in = "(1,200,4)(1,20,4)(1,20,8)", "causal, few keys", CAUSAL_HEADS(2)},
    {.in = "(1,70,64)(1,66,64)(1,66,20)", "wide heads, causal", CAUSAL_HEADS(1)},
    {.in = "(1,20,256)(1,17,256)(1,17,32)", "wider heads", HEADS(2)},
    {.in = "(1,5,16)(1,6,16)(1,6,130)", "more columns than rows", CAUSAL_HEADS(1)},
    {0},
};

static const op_set wrong[] = {
    {.in = "(2,3,4)(2,5,4)(2,5,4)", "0 heads", HEADS(0), .status = WEIR_ERR_INVALID,
     .says = "heads"},
    {.in = "(2,3,4)(2,5,4)(2,5,4)", "3 heads", HEADS(3), .status = WEIR_ERR_SHAPE,
     .says = "3 heads"},
    {.in = "(2,3,4)(2,5,6)(2,5,4)", "columns", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "q has 4 columns but k 6"},
    {.in = "(2,3,4)(2,5,4)(2,4,4)", "rows", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "k has 5 rows but v 4"},
    {.in = "(2,3,4)(1,5,4)(1,5,4)", "batches", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "batches"},
    {.in = "(3,4)(5,4)(5,4)", "axes", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "q must have 3 axes"},
    {0},
};

/* ---- options ---- */

#define GROUPED(n, kv) {.heads = n, .kv_heads = kv}

static const op_set option_sets[] = {
    {.in = "(2,3,12)(2,5,6)(2,5,4)", "4 heads read 2", GROUPED(4, 2)},
    {.in = "(2,6,12)(2,6,4)(2,6,8)", "3 heads read one, causal",
     {.heads = 3, .kv_heads = 1, .causal = true}},
    {.in = "(2,3,4)(2,5,4)(2,5,6)", "scale", {.heads = 2, .s = 0.3}},
    {.in = "(2,3,4)(2,7,4)(2,7,4)", "last queries", {.heads = 2, .causal_last = true}},
    {.in = "(2,7,4)(2,3,4)(2,3,4)", "more queries than keys", {.heads = 1, .causal_last = true}},
    {.in = "(1,70,8)(1,150,8)(1,150,4)", "last queries, several blocks",
     {.heads = 2, .causal_last = true}},
    {.in = "(1,150,4)(1,70,4)(1,70,4)", "first queries see nothing, several blocks",
     {.heads = 1, .causal_last = true, .s = -0.7}},
    {.in = "(3,130,4)b(3,70,2)b(3,70,2)l", "grouped views, several blocks", GROUPED(2, 1)},
    {0},
};

static const op_set option_wrong[] = {
    {.in = "(2,3,12)(2,5,6)(2,5,4)", "3 kv_heads of 4", GROUPED(4, 3), .status = WEIR_ERR_INVALID,
     .says = "kv_heads is 3 but must divide heads, 4"},
    {.in = "(2,3,12)(2,5,12)(2,5,4)", "widths", GROUPED(4, 2), .status = WEIR_ERR_SHAPE,
     .says = "q has 12 columns in 4 heads but k 12 in 2"},
    {.in = "(2,3,4)(2,5,4)(2,5,4)", "scale", {.heads = 2, .s = INFINITY},
     .status = WEIR_ERR_INVALID, .says = "scale must be finite, not inf"},
    {0},
};

static weir_attention_options options_of(const op_call *c)
{
    const ref_options *const o = c->o;

    return (weir_attention_options){.heads = o->heads,
                                    .kv_heads = o->kv_heads,
                                    .scale = o->s,
                                    .causal = o->causal        ? WEIR_ATTENTION_FROM_FIRST
                                              : o->causal_last ? WEIR_ATTENTION_FROM_LAST
                                                               : WEIR_ATTENTION_ALL};
}

static weir_tensor *with_options(const op_call *c)
{
    const weir_attention_options o = options_of(c);

    return weir_attention_with(c->in[0], c->in[1], c->in[2], &o);
}

/* ---- masks ---- */

static const op_set mask_sets[] = {
    {.in = "(2,3,4)(2,5,4)(2,5,6)(2,2,3,5)", "of each score", HEADS(2)},
    {.in = "(2,3,4)(2,5,4)(2,5,4)(3,5)", "of rows", HEADS(2)},
    {.in = "(2,3,4)(2,5,4)(2,5,4)(2,1,1,5)", "of keys", HEADS(2)},
    {.in = "(2,5,8)(2,5,4)(2,5,4)(4,1,5)", "of heads", {.heads = 4, .kv_heads = 2, .s = 0.4}},
    {.in = "(2,3,4)(2,5,4)(2,5,4)(2,1,3,1)", "of queries", HEADS(2)},
    {.in = "(2,4,4)(2,4,4)(2,4,4)(4,4)t", "transposed, causal", CAUSAL_HEADS(2)},
    {.in = "(2,70,4)(2,150,4)(2,150,4)(2,1,150)", "several blocks", HEADS(2)},
    {.in = "(1,150,4)(1,130,2)(1,130,2)(150,130)", "several blocks, grouped, last queries",
     {.heads = 2, .kv_heads = 1, .causal_last = true}},
    {.in = "(2,3,4)(2,5,4)(2,5,4)(1)", "one for all", HEADS(1)},
    {.in = "(2,0,4)(2,5,4)(2,5,4)(0,5)", "no rows", HEADS(2)},
    {.in = "(0,3,4)(0,5,4)(0,5,4)(3,5)", "no batches", HEADS(2)},
    {0},
};

static const op_set mask_wrong[] = {
    {.in = "(2,3,4)(2,5,4)(2,5,4)(3,4)", "sizes", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "mask does not broadcast to (2,2,3,5)"},
    {.in = "(2,3,4)(2,5,4)(2,5,4)(1,2,2,3,5)", "axes", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "mask does not broadcast"},
    {0},
};

static weir_tensor *with_mask(const op_call *c)
{
    weir_attention_options o = options_of(c);

    o.mask = c->in[3];
    return weir_attention_with(c->in[0], c->in[1], c->in[2], &o);
}

/* ---- lengths: class numbers below the columns of q, some of them more than there are keys ---- */

static const op_set length_sets[] = {
    {.in = "(4,3,8)(4,5,8)(4,5,6)(4)", NULL, HEADS(2)},
    {.in = "(6,5,8)(6,5,8)(6,5,4)(6)", "causal", CAUSAL_HEADS(2)},
    {.in = "(6,3,8)(6,5,4)(6,5,4)(6)", "last queries, grouped",
     {.heads = 2, .kv_heads = 1, .causal_last = true}},
    {.in = "(3,70,200)(3,150,200)(3,150,2)(3)", "several blocks", {.heads = 1, .s = 0.02}},
    {.in = "(3,70,200)(3,150,200)(3,150,2)(3)l", "several blocks, last queries, one length",
     {.heads = 1, .causal_last = true, .s = 0.02}},
    {0},
};

static const op_set length_wrong[] = {
    {.in = "(4,3,8)(4,5,8)(4,5,6)(3)", "batches", HEADS(2), .status = WEIR_ERR_SHAPE,
     .says = "lengths must be"},
    {0},
};

static weir_tensor *with_lengths(const op_call *c)
{
    weir_attention_options o = options_of(c);

    o.lengths = c->in[3];
    return weir_attention_with(c->in[0], c->in[1], c->in[2], &o);
}

/* ---- queries, keys and values side by side ---- */

static const op_set packed_sets[] = {
    {.in = "(2,3,12)", "2 heads", HEADS(2)},
    {.in = "(2,5,12)t", "transposed, causal", CAUSAL_HEADS(2)},
    {.in = "(2,5,16)", "4 heads read 2", GROUPED(4, 2)},
    {.in = "(1,150,12)", "several blocks, causal", CAUSAL_HEADS(2)},
    {.in = "(2,70,24)b", "repeated, several blocks", {.heads = 2, .s = 0.5}},
    {.in = "(2,0,12)", "no rows", HEADS(2)},
    {.in = "(2,3,0)", "no columns", HEADS(2)},
    {0},
};

static const op_set packed_wrong[] = {
    {.in = "(2,3,12)", "columns", HEADS(5), .status = WEIR_ERR_SHAPE,
     .says = "12 columns do not divide into 5 heads of queries and 5 of keys and values"},
    {.in = "(3,12)", "axes", HEADS(2), .status = WEIR_ERR_SHAPE, .says = "must have 3 axes"},
    {.in = "(2,3,12)", "0 heads", HEADS(0), .status = WEIR_ERR_INVALID, .says = "heads"},
    {0},
};

static weir_tensor *packed(const op_call *c)
{
    const weir_attention_options o = options_of(c);

    return weir_attention_packed(c->in[0], &o);
}

static weir_tensor *attention(const op_call *c)
{
    return weir_attention(c->in[0], c->in[1], c->in[2], c->o->heads, c->o->causal);
}

const op_row op_attention[] = {
    {.name = "attention", .build = attention, .reference = ref_attention, .types = OP_ANY_FLOAT,
     .in = {QKV}, .eps = 16, .rms = true,
     .sets = sets, .wrong = wrong},
    {.name = "attention_options", .says = "attention", .build = with_options,
     .reference = ref_attention, .types = OP_ANY_FLOAT, .in = {QKV}, .eps = 16, .rms = true,
     .sets = option_sets, .wrong = option_wrong},
    {.name = "attention_added_mask", .says = "attention", .build = with_mask,
     .reference = ref_attention, .types = OP_ANY_FLOAT, .in = {QKV, {OP_PARAM, -2, 1}},
     .eps = 16, .rms = true, .optional = 8, .sets = mask_sets, .wrong = mask_wrong},
    {.name = "attention_bool_mask", .says = "attention", .build = with_mask,
     .reference = ref_attention, .types = OP_ANY_FLOAT, .in = {QKV, {OP_MASK, 0, 1}},
     .eps = 16, .rms = true, .optional = 8, .sets = mask_sets, .wrong = mask_wrong},
    {.name = "attention_lengths", .says = "attention", .build = with_lengths,
     .reference = ref_attention, .types = OP_ANY_FLOAT, .in = {QKV, {OP_CLASS_I32, 0, 0}},
     .eps = 16, .rms = true, .optional = 8, .sets = length_sets, .wrong = length_wrong},
    {.name = "attention_lengths_i64", .says = "attention", .build = with_lengths,
     .reference = ref_attention, .types = OP_FLOATS, .in = {QKV, {OP_CLASS_I64, 0, 0}},
     .eps = 16, .rms = true, .optional = 8, .sets = length_sets},
    {.name = "attention_packed", .says = "attention", .build = packed,
     .reference = ref_attention, .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 1.5}}, .eps = 16,
     .rms = true, .sets = packed_sets, .wrong = packed_wrong},
    {0},
};
