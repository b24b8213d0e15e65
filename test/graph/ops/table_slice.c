/* table_slice.c - rows of slices, joins, padding, repeats, blocks of pixels. */
#include "graph/ops/table.h"

#define TO(n, ...)   {.ndim = n, .to = {__VA_ARGS__}}
#define TIMES(...)   {.to = {__VA_ARGS__}}
#define ON(a)        {.axis = a}
#define PART(a, b, n) {.axis = a, .from = {b}, .to = {n}}
#define EVENLY(a, n) {.axis = a, .ndim = n, .keep = true}
#define FROM(...)    .from = {__VA_ARGS__}
#define UNTIL(...)   .to = {__VA_ARGS__}
#define BY(...)      .by = {__VA_ARGS__}
#define FAR          INT64_MAX
#define BACK         INT64_MIN

enum { NO_BEGIN = 1, NO_END = 2, NO_STEP = 4 };

static const op_set slice_sets[] = {
    {.in = "(7)", "middle", {FROM(2), UNTIL(5), .dims = NO_STEP}},
    {.in = "(3,4)", "every other column", {BY(1, 2), .dims = NO_BEGIN | NO_END}},
    {.in = "(2,5,4,6)", "image cut", {FROM(0, 1, 1, 2), UNTIL(2, 4, 4, 5), BY(1, 1, 1, 1)}},
    {.in = "()", "scalar", {.dims = NO_BEGIN | NO_END | NO_STEP}},
    {.in = "(7)", "reversed", {BY(-1), .dims = NO_BEGIN | NO_END}},
    {.in = "(3,8)", "from the end", {FROM(-2, -5), UNTIL(FAR, -1), BY(1, 1)}},
    {.in = "(4,9)", "backwards by 2", {FROM(FAR, 7), UNTIL(BACK, 1), BY(-1, -2)}},
    {.in = "(4,9)", "clipped", {FROM(-99, 3), UNTIL(99, 99), BY(3, 4)}},
    {.in = "(5,3)t", "transposed", {FROM(1, 0), UNTIL(5, 2), BY(2, 1)}},
    {.in = "(4,5)b", "repeated", {FROM(1, 1), UNTIL(3, 4), BY(1, 1)}},
    {.in = "(4,5)l", "repeated, backwards", {BY(-1, -1), .dims = NO_BEGIN | NO_END}},
    {.in = "(3,4)", "nothing", {FROM(2, 0), UNTIL(1, 4), BY(1, 1)}},
    {.in = "(0,4)", "of nothing", {FROM(0, 1), UNTIL(5, 3), BY(1, 1)}},
    {.in = "(2,3,6,4)", "one channel", {FROM(0, 1, 0, 0), UNTIL(2, 2, 6, 4), BY(1, 1, 2, 1)}},
    {.in = "(2,3,6,4)", "image reversed", {BY(1, 1, -1, -1), .dims = NO_BEGIN | NO_END}},
    {.in = "(211,191)", "several tasks", {FROM(3, 5), UNTIL(200, 190), BY(1, 3)}},
    {0},
};

static const op_set slice_wrong[] = {
    {.in = "(3,4)", "step 0", {BY(1, 0), .dims = NO_BEGIN | NO_END}, .status = WEIR_ERR_INVALID,
     .says = "axis 1"},
    {.in = "(3,4)", "step far back", {BY(BACK, 1), .dims = NO_BEGIN | NO_END},
     .status = WEIR_ERR_INVALID, .says = "axis 0"},
    {0},
};

static const op_set narrow_sets[] = {
    {.in = "(7)", "first", PART(0, 0, 3)},
    {.in = "(3,5)", "column", PART(1, 2, 1)},
    {.in = "(4,5)", "last", PART(-1, 3, 2)},
    {.in = "(4,5)", "all", PART(0, 0, 4)},
    {.in = "(4,5)", "none", PART(0, 4, 0)},
    {.in = "(0,5)", "nothing", PART(1, 1, 3)},
    {.in = "(2,6,3,4)", "channels", PART(1, 2, 3)},
    {.in = "(5,4)t", "transposed", PART(0, 1, 3)},
    {.in = "(191,211)", "several tasks", PART(1, 100, 111)},
    {0},
};

static const op_set narrow_wrong[] = {
    {.in = "(3,4)", "too many", PART(1, 2, 3), .status = WEIR_ERR_SHAPE, .says = "axis 1"},
    {.in = "(3,4)", "negative", PART(0, -1, 2), .status = WEIR_ERR_SHAPE, .says = "-1"},
    {.in = "(3,4)", "axis 2", PART(2, 0, 1), .status = WEIR_ERR_INVALID, .says = "axis 2"},
    {0},
};

static const op_set split_sets[] = {
    {.in = "(6)", "even", EVENLY(0, 3)},
    {.in = "(3,8)", "columns", EVENLY(1, 4)},
    {.in = "(3,7)", "uneven", {.axis = 1, .ndim = 3, .to = {4, 1, 2}}},
    {.in = "(3,4)", "one part", EVENLY(0, 1)},
    {.in = "(3,4)", "an empty part", {.axis = -1, .ndim = 3, .to = {1, 0, 3}}},
    {.in = "(0,4)", "nothing", EVENLY(0, 2)},
    {.in = "(2,6,3,4)", "channels", EVENLY(1, 3)},
    {.in = "(6,4)t", "transposed", EVENLY(0, 2)},
    {.in = "(190,211)", "several tasks", EVENLY(0, 2)},
    {0},
};

static const op_set split_wrong[] = {
    {.in = "(3,4)", "not even", EVENLY(0, 2), .status = WEIR_ERR_SHAPE, .says = "axis 0"},
    {.in = "(3,4)", "rest", {.axis = 1, .ndim = 2, .to = {1, 2}}, .status = WEIR_ERR_SHAPE},
    {.in = "(3,4)", "too many", {.axis = 1, .ndim = 2, .to = {1, 4}}, .status = WEIR_ERR_SHAPE},
    {.in = "(3,4)", "negative", {.axis = 1, .ndim = 2, .to = {5, -1}}, .status = WEIR_ERR_SHAPE},
    {.in = "(3,4)", "axis -3", EVENLY(-3, 1), .status = WEIR_ERR_INVALID, .says = "-3"},
    {0},
};

static const op_set concat_sets[] = {
    {.in = "(3)(4)", "vectors", ON(0)},
    {.in = "(3,4)(3,2)", "columns", ON(1)},
    {.in = "(2,3,4,5)(2,2,4,5)", "channels", ON(1)},
    {.in = "(3,4)(1,4)(2,4)", "rows", ON(0)},
    {.in = "(3,1)(3,1)(3,1)(3,1)", "single columns", ON(-1)},
    {.in = "(3,4)t(3,2)b", "views", ON(-1)},
    {.in = "(0,4)(3,4)(0,4)", "some empty", ON(0)},
    {.in = "(0,4)(0,3)", "nothing", ON(1)},
    {.in = "(2,1,4,5)(2,1,4,5)", "channels of one", ON(1)},
    {.in = "(2,3,4,5)(2,3,1,5)l", "image rows", ON(2)},
    {.in = "(2,3,2)(2,3,1)t", NULL, ON(2)},
    {.in = "(191,100)(191,111)", "several tasks", ON(1)},
    {0},
};

static const op_set concat_wrong[] = {
    {.in = "(3,4)(2,3)", "columns differ", ON(0), .status = WEIR_ERR_SHAPE, .says = "axis 0"},
    {.in = "(3,4)(3)", "axes differ", ON(0), .status = WEIR_ERR_SHAPE, .says = "input 1"},
    {.in = "(3,4)(3,4)", "axis 2", ON(2), .status = WEIR_ERR_INVALID, .says = "axis 2"},
    {0},
};

static const op_set stack_sets[] = {
    {.in = "(3)(3)", "vectors", ON(0)},
    {.in = "(3,4)(3,4)", "last", ON(-1)},
    {.in = "(3,4)(3,4)(3,4)", "middle", ON(1)},
    {.in = "()()", "scalars", ON(0)},
    {.in = "(0,4)(0,4)", "nothing", ON(0)},
    {.in = "(2,3,4)(2,3,4)", "to an image, channels", ON(1)},
    {.in = "(2,3,4)(2,3,4)", "to an image, last", ON(3)},
    {.in = "(3,4)t(3,4)b", "views", ON(0)},
    {.in = "(191,111)(191,111)", "several tasks", ON(2)},
    {0},
};

static const op_set stack_wrong[] = {
    {.in = "(3,4)(3,2)", "shapes", ON(0), .status = WEIR_ERR_SHAPE, .says = "input 1"},
    {.in = "(3,4)(3,4)", "axis 3", ON(3), .status = WEIR_ERR_INVALID, .says = "axis 3"},
    {0},
};

static const op_set squeeze_sets[] = {
    {.in = "(1)", "to scalar", ON(0)},     {.in = "(3,1)", "last", ON(-1)},
    {.in = "(1,3)", "first", ON(0)},       {.in = "(2,3,1,4)", "image", ON(2)},
    {.in = "(2,1,3,4)", "channel", ON(1)}, {.in = "(0,1)", "nothing", ON(1)},
    {.in = "(3,1,2)t", "transposed", ON(1)}, {.in = "(191,1,211)", "several tasks", ON(1)},
    {0},
};

static const op_set squeeze_wrong[] = {
    {.in = "(3,4)", "size 4", ON(1), .status = WEIR_ERR_SHAPE, .says = "axis 1"},
    {.in = "(3,1)", "axis 2", ON(2), .status = WEIR_ERR_INVALID, .says = "axis 2"},
    {0},
};

static const op_set unsqueeze_sets[] = {
    {.in = "()", "scalar", ON(0)},           {.in = "(3)", "last", ON(-1)},
    {.in = "(3,4)", "first", ON(0)},         {.in = "(2,3,4)", "to an image", ON(1)},
    {.in = "(2,3,4,5)", "of an image", ON(2)}, {.in = "(0,4)", "nothing", ON(2)},
    {.in = "(3,4)t", "transposed", ON(1)},   {.in = "(191,211)", "several tasks", ON(-2)},
    {0},
};

static const op_set unsqueeze_wrong[] = {
    {.in = "(3,4)", "axis 3", ON(3), .status = WEIR_ERR_INVALID, .says = "axis 3"},
    {.in = "(1,1,1,1,1,1,1,2)", "9 axes", ON(0), .status = WEIR_ERR_INVALID},
    {0},
};

static const op_set tile_sets[] = {
    {.in = "(3)", "twice", TIMES(2)},
    {.in = "(3,4)", "both axes", TIMES(2, 3)},
    {.in = "(2,3,2,2)", "image", TIMES(1, 2, 1, 3)},
    {.in = "(3,4)", "rows", TIMES(2, 1)},
    {.in = "(3,4)", "to nothing", TIMES(0, 2)},
    {.in = "(0,4)", "nothing", TIMES(3, 2)},
    {.in = "(3,4)t", "transposed", TIMES(1, 2)},
    {.in = "(4,5)b", "repeated", TIMES(2, 2)},
    {.in = "(2,2,1,2,2,3)", "more new axes than there is room for", TIMES(1, 2, 3, 2, 1, 1)},
    {.in = "(91,111)", "several tasks", TIMES(2, 2)},
    {0},
};

static const op_set tile_wrong[] = {
    {.in = "(3,4)", "negative", TIMES(1, -2), .status = WEIR_ERR_INVALID, .says = "-2"},
    {.in = "(3,4)", "overflow", TIMES(FAR, 1), .status = WEIR_ERR_SHAPE},
    {0},
};

static const op_set repeat_sets[] = {
    {.in = "(3)", "twice", {.axis = 0, UNTIL(2)}},
    {.in = "(3,4)", "columns", {.axis = 1, UNTIL(1, 3)}},
    {.in = "(2,3,2,2)", "image", {.axis = 2, UNTIL(1, 1, 2, 1)}},
    {.in = "(3,4)", "to nothing", {.axis = 0, UNTIL(0, 1)}},
    {.in = "(0,4)", "nothing", {.axis = 1, UNTIL(1, 2)}},
    {.in = "(3,4)t", "transposed", {.axis = 1, UNTIL(1, 2)}},
    {.in = "(4,5)l", "repeated", {.axis = 1, UNTIL(1, 2)}},
    {.in = "(1,2,1,2,1,2,1,3)", "8 axes", {.axis = 5, UNTIL(1, 1, 1, 1, 1, 2, 1, 1)}},
    {.in = "(91,211)", "several tasks", {.axis = 0, UNTIL(2, 1)}},
    {0},
};

static const op_set repeat_wrong[] = {
    {.in = "(3,4)", "negative", {.axis = 1, UNTIL(1, -2)}, .status = WEIR_ERR_INVALID},
    {.in = "(3,4)", "axis 4", {.axis = 4, UNTIL(1, 1, 1, 1, 2)}, .status = WEIR_ERR_INVALID},
    {0},
};

static const op_set upsample_sets[] = {
    {.in = "(1,1,2,2)", NULL, TIMES(1, 1, 2, 2)},
    {.in = "(2,3,4,5)", "height", TIMES(1, 1, 3, 1)},
    {.in = "(2,3,4,5)", "uneven", TIMES(1, 1, 2, 3)},
    {.in = "(2,3,4,5)t", "transposed", TIMES(1, 1, 2, 2)},
    {.in = "(2,3,4,5)b", "repeated", TIMES(1, 1, 2, 2)},
    {.in = "(0,3,4,5)", "nothing", TIMES(1, 1, 2, 2)},
    {.in = "(2,0,4,5)", "no channels", TIMES(1, 1, 2, 2)},
    {.in = "(2,8,30,25)", "several tasks", TIMES(1, 1, 2, 2)},
    {0},
};

static const op_set upsample_wrong[] = {
    {.in = "(3,4)", "no image", TIMES(1, 1, 2, 2), .status = WEIR_ERR_SHAPE, .says = "4 axes"},
    {.in = "(1,1,2,2)", "factor 0", TIMES(1, 1, 0, 2), .status = WEIR_ERR_INVALID, .says = "0"},
    {0},
};

static const op_set deep_sets[] = {
    {.in = "(1,4,1,1)", NULL, TIMES(2)},
    {.in = "(2,12,3,2)", "3 channels", TIMES(2)},
    {.in = "(2,9,2,3)", "by 3", TIMES(3)},
    {.in = "(2,3,2,3)", "by 1", TIMES(1)},
    {.in = "(0,4,2,3)", "nothing", TIMES(2)},
    {.in = "(2,4,0,3)", "no rows", TIMES(2)},
    {.in = "(2,8,3,4)t", "transposed", TIMES(2)},
    {.in = "(2,16,25,45)", "several tasks", TIMES(2)},
    {0},
};

static const op_set deep_wrong[] = {
    {.in = "(2,6,3,4)", "channels", TIMES(2), .status = WEIR_ERR_SHAPE, .says = "2 x 2"},
    {.in = "(2,8,3)", "3 axes", TIMES(2), .status = WEIR_ERR_SHAPE, .says = "4 axes"},
    {.in = "(2,8,3,4)", "block 0", TIMES(0), .status = WEIR_ERR_INVALID},
    {0},
};

static const op_set wide_sets[] = {
    {.in = "(1,1,2,2)", NULL, TIMES(2)},
    {.in = "(2,3,6,4)", "3 channels", TIMES(2)},
    {.in = "(2,1,6,9)", "by 3", TIMES(3)},
    {.in = "(2,3,2,3)", "by 1", TIMES(1)},
    {.in = "(0,4,2,4)", "nothing", TIMES(2)},
    {.in = "(2,0,2,4)", "no channels", TIMES(2)},
    {.in = "(4,3,2,6)t", "transposed", TIMES(2)},
    {.in = "(2,4,50,90)", "several tasks", TIMES(2)},
    {0},
};

static const op_set wide_wrong[] = {
    {.in = "(2,6,3,4)", "rows", TIMES(2), .status = WEIR_ERR_SHAPE, .says = "2 x 2"},
    {.in = "(2,4)", "2 axes", TIMES(2), .status = WEIR_ERR_SHAPE, .says = "4 axes"},
    {0},
};

/* The mode is axis. */
static const op_set pad_sets[] = {
    {.in = "(3)", "constant", {FROM(1), UNTIL(2), .s = 5}},
    {.in = "(3,4)", "reflect", {FROM(2, 1), UNTIL(0, 3), .axis = WEIR_PAD_REFLECT}},
    {.in = "(2,3,4,5)", "edge", {FROM(0, 0, 1, 2), UNTIL(0, 0, 1, 0), .axis = WEIR_PAD_EDGE}},
    {.in = "(2,3,4,5)", "image", {FROM(0, 0, 1, 2), UNTIL(0, 1, 1, 0)}},
    {.in = "(0,4)", "from nothing", {FROM(1, 0), UNTIL(1, 2), .s = 7}},
    {.in = "(3,4)t", "transposed", {FROM(1, 1), UNTIL(1, 1), .s = 1}},
    {.in = "(4,5)b", "repeated", {FROM(1, 1), UNTIL(1, 1), .axis = WEIR_PAD_REFLECT}},
    {.in = "(1,2)", "edge of one", {FROM(3, 0), UNTIL(2, 0), .axis = WEIR_PAD_EDGE}},
    {.in = "(2,3,4,5)", "image, reflect", {FROM(0, 0, 3, 1), UNTIL(0, 0, 2, 4),
                                           .axis = WEIR_PAD_REFLECT}},
    {.in = "(191,200)", "several tasks", {FROM(1, 9), UNTIL(3, 2)}},
    {0},
};

static const op_set pad_wrong[] = {
    {.in = "(3,4)", "negative", {FROM(1, -2)}, .status = WEIR_ERR_INVALID, .says = "axis 1"},
    {.in = "(3,4)", "overflow", {FROM(FAR, 0), UNTIL(FAR, 0)}, .status = WEIR_ERR_INVALID},
    {.in = "(3,4)", "mirrored too far", {FROM(3, 0), .axis = WEIR_PAD_REFLECT},
     .status = WEIR_ERR_SHAPE, .says = "axis 0"},
    {.in = "(0,4)", "edge of nothing", {FROM(1, 0), .axis = WEIR_PAD_EDGE},
     .status = WEIR_ERR_SHAPE, .says = "axis 0"},
    {.in = "(3,4)", "mode 9", {FROM(1, 0), .axis = 9}, .status = WEIR_ERR_INVALID, .says = "9"},
    {0},
};

static const op_set expand_sets[] = {
    {.in = "()", "scalar", TO(2, 3, 4)},
    {.in = "(3,1)", NULL, TO(2, 3, 4)},
    {.in = "(4)", "in front", TO(2, 2, 4)},
    {.in = "(4)", "unchanged", TO(1, 4)},
    {.in = "(1,4)", "to nothing", TO(2, 0, 4)},
    {.in = "(3,1,2)t", "transposed", TO(3, 3, 5, 2)},
    {.in = "(1,3,1,5)", "image", TO(4, 2, 3, 4, 5)},
    {.in = "(211)", "several tasks", TO(2, 191, 211)},
    {0},
};

static const op_set expand_wrong[] = {
    {.in = "(3)", "to (4)", TO(1, 4), .status = WEIR_ERR_SHAPE, .says = "(4)"},
    {.in = "(3)", "-1 in front", TO(2, -1, 3), .status = WEIR_ERR_SHAPE, .says = "-1"},
    {.in = "(3)", "9 axes", TO(9, 1, 1, 1, 1, 1, 1, 1, 1), .status = WEIR_ERR_INVALID, .says = "9"},
    {0},
};

static weir_tensor *slice(const op_call *c)
{
    const ref_options *const o = c->o;
    return weir_slice(c->in[0], o->dims & NO_BEGIN ? NULL : o->from,
                      o->dims & NO_END ? NULL : o->to, o->dims & NO_STEP ? NULL : o->by);
}

static weir_tensor *narrow(const op_call *c)
{
    return weir_narrow(c->in[0], c->o->axis, c->o->from[0], c->o->to[0]);
}

/* The parts come together again in reversed order. */
static weir_tensor *split(const op_call *c)
{
    weir_tensor *part[WEIR_MAX_DIMS], *back[WEIR_MAX_DIMS];
    const int    n = c->o->ndim;

    if (weir_split(c->in[0], c->o->axis, n, c->o->keep ? NULL : c->o->to, part) != WEIR_OK)
        return NULL;
    for (int i = 0; i < n; i++)
        back[i] = part[n - 1 - i];
    return weir_concat(n, back, c->o->axis);
}

/* Inputs that the set has: one that is missing is the mistake under test if another follows. */
static int inputs(const op_call *c)
{
    int n = OP_MAX_IN;
    while (n > 1 && !c->in[n - 1])
        n--;
    return n < 2 ? 2 : n;
}

static weir_tensor *concat(const op_call *c)
{
    return weir_concat(inputs(c), c->in, c->o->axis);
}

static weir_tensor *stack(const op_call *c)
{
    return weir_stack(inputs(c), c->in, c->o->axis);
}

static weir_tensor *squeeze(const op_call *c)
{
    return weir_squeeze(c->in[0], c->o->axis);
}

static weir_tensor *unsqueeze(const op_call *c)
{
    return weir_unsqueeze(c->in[0], c->o->axis);
}

static weir_tensor *tile(const op_call *c)
{
    return weir_tile(c->in[0], c->o->to);
}

static weir_tensor *repeat(const op_call *c)
{
    return weir_repeat(c->in[0], c->o->axis, c->o->to[c->o->axis]);
}

static weir_tensor *upsample(const op_call *c)
{
    return weir_upsample(c->in[0], c->o->to[2], c->o->to[3]);
}

static weir_tensor *depth_to_space(const op_call *c)
{
    return weir_depth_to_space(c->in[0], c->o->to[0]);
}

static weir_tensor *space_to_depth(const op_call *c)
{
    return weir_space_to_depth(c->in[0], c->o->to[0]);
}

static weir_tensor *pad(const op_call *c)
{
    return weir_pad(c->in[0], c->o->from, c->o->to, (weir_pad_mode)c->o->axis, c->o->s);
}

/* Where x's own size is asked for, -1 says it. */
static weir_tensor *expand(const op_call *c)
{
    int64_t   dim[WEIR_MAX_DIMS + 1];
    const int lead = c->o->ndim - c->desc.ndim;

    for (int i = 0; i < c->o->ndim && i < WEIR_MAX_DIMS; i++)
        dim[i] = i >= lead && c->o->to[i] == c->desc.dim[i - lead] ? -1 : c->o->to[i];
    return weir_expand(c->in[0], c->o->ndim, dim);
}

#define ROW(id, ref)                                                                               \
    {.name = #id, .build = id, .reference = ref, .types = OP_ALL, .in = {{OP_PARAM, 0, 99}},       \
     .sets = id##_sets, .wrong = id##_wrong}
#define JOIN(id, ref)                                                                              \
    {.name = #id, .build = id, .reference = ref, .types = OP_ALL,                                  \
     .in = {{OP_PARAM, 0, 99}, {OP_PARAM, 0, 99}, {OP_PARAM, 0, 99}, {OP_PARAM, 0, 99}},           \
     .sets = id##_sets, .wrong = id##_wrong}

static void ref_narrow(ref_call *c)
{
    const ref_array *const x = &c->in[0];
    const int              axis = c->o->axis < 0 ? c->o->axis + x->desc.ndim : c->o->axis;
    ref_options            o = {.axis = c->o->axis};
    const ref_options     *was = c->o;

    for (int k = 0; k < x->desc.ndim; k++) {
        o.from[k] = k == axis ? was->from[0] : 0;
        o.to[k] = k == axis ? was->from[0] + was->to[0] : x->desc.dim[k];
        o.by[k] = 1;
    }
    c->o = &o;
    ref_slice(c);
    c->o = was;
}

const op_row op_slice[] = {
    ROW(slice, ref_slice),
    ROW(narrow, ref_narrow),
    ROW(split, ref_split),
    JOIN(concat, ref_concat),
    JOIN(stack, ref_stack),
    ROW(squeeze, ref_squeeze),
    ROW(unsqueeze, ref_unsqueeze),
    {.name = "expand", .build = expand, .reference = ref_broadcast_to,
     .types = OP_ALL, .in = {{OP_PARAM, 0, 99}}, .sets = expand_sets, .wrong = expand_wrong},
    ROW(tile, ref_tile),
    ROW(repeat, ref_repeat),
    ROW(upsample, ref_repeat),
    {.name = "depth_to_space", .build = depth_to_space, .reference = ref_depth_to_space,
     .types = OP_ALL, .in = {{OP_PARAM, 0, 99}}, .sets = deep_sets, .wrong = deep_wrong},
    {.name = "space_to_depth", .build = space_to_depth, .reference = ref_space_to_depth,
     .types = OP_ALL, .in = {{OP_PARAM, 0, 99}}, .sets = wide_sets, .wrong = wide_wrong},
    ROW(pad, ref_pad),
    {0},
};
