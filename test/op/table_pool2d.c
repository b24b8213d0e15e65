/* table_pool2d.c - rows of pooling, of images and of lines. */
#include "op/table.h"

#define WINDOW(...) {.pool = {__VA_ARGS__}}
#define PAIR(a, b)  {a, b}
#define BOTH(a)     {a, a}

#define COMMON_SETS                                                                                \
    {.in = "(2,3,4,4)", "side by side", WINDOW(.kernel = BOTH(2))},                                \
    {.in = "(1,1,1,1)", "one cell", WINDOW(.kernel = BOTH(1))},                                    \
    {.in = "(7,7,7,7)", "a rim left out", WINDOW(.kernel = BOTH(2))},                              \
    {.in = "(2,3,7,6)", "overlapping, padded",                                                     \
     WINDOW(.kernel = BOTH(3), .stride = BOTH(2), .pad = BOTH(1))},                                \
    {.in = "(2,3,5,5)", "stride 1", WINDOW(.kernel = BOTH(3), .stride = BOTH(1), .pad = BOTH(1))}, \
    {.in = "(2,3,6,7)", "all different per axis",                                                  \
     WINDOW(.kernel = PAIR(2, 3), .stride = PAIR(3, 1), .pad = PAIR(1, 2))},                       \
    {.in = "(2,3,5,5)", "gaps between windows", WINDOW(.kernel = BOTH(1), .stride = BOTH(2))},     \
    {.in = "(1,2,2,3)", "window larger than the image",                                            \
     WINDOW(.kernel = BOTH(4), .pad = BOTH(2))},                                                   \
    {.in = "(2,3,4,5)", "the whole image", WINDOW(.kernel = PAIR(4, 5))},                          \
    {.in = "(0,3,4,4)", "no images", WINDOW(.kernel = BOTH(2))},                                   \
    {.in = "(2,0,4,4)", "no channels", WINDOW(.kernel = BOTH(2))},                                 \
    {.in = "(5,4,3,2)t", "transposed", WINDOW(.kernel = BOTH(2))},                                 \
    {.in = "(4,3,5,4)b", "repeated images", WINDOW(.kernel = BOTH(2), .stride = BOTH(1))},         \
    {.in = "(2,3,7,6)", "padded at the end only",                                                  \
     WINDOW(.kernel = BOTH(3), .stride = BOTH(2), .asymmetric = true, .pad_end = PAIR(2, 1))},     \
    {.in = "(2,3,6,6)", "padded at the start only",                                                \
     WINDOW(.kernel = BOTH(3), .stride = BOTH(1), .pad = PAIR(1, 2), .asymmetric = true)},         \
    {.in = "(2,70,40,9)", "several tasks",                                                         \
     WINDOW(.kernel = BOTH(3), .stride = BOTH(2), .pad = BOTH(1))}

static const op_set max_sets[] = {COMMON_SETS, {0}};

static const op_set avg_sets[] = {
    COMMON_SETS,
    {.in = "(2,3,7,6)", "cells inside the image count",
     WINDOW(.kernel = BOTH(3), .stride = BOTH(2), .pad = BOTH(1), .exclude_pad = true)},
    {.in = "(1,2,2,3)", "window larger than the image, cells inside count",
     WINDOW(.kernel = BOTH(4), .pad = BOTH(2), .exclude_pad = true)},
    {0},
};

#define LINE(...) {.pool1d = {__VA_ARGS__}}

static const op_set line_sets[] = {
    {.in = "(2,3,8)", "side by side", LINE(.kernel = 2)},
    {.in = "(1,1,1)", "one cell", LINE(.kernel = 1)},
    {.in = "(7,7,7)", "a rim left out", LINE(.kernel = 2)},
    {.in = "(2,3,7)", "overlapping, padded", LINE(.kernel = 3, .stride = 2, .pad = 1)},
    {.in = "(2,3,5)", "the whole line", LINE(.kernel = 5)},
    {.in = "(0,3,4)", "no lines", LINE(.kernel = 2)},
    {.in = "(2,0,4)", "no channels", LINE(.kernel = 2)},
    {.in = "(5,4,3)t", "transposed", LINE(.kernel = 2, .stride = 1)},
    {.in = "(2,40,70)", "longer", LINE(.kernel = 3, .stride = 2, .pad = 1, .exclude_pad = true)},
    {0},
};

static const op_set line_wrong[] = {
    {.in = "(2,3,4,4)", NULL, LINE(.kernel = 2), .status = WEIR_ERR_SHAPE,
     .says = "x must have 3 axes"},
    {.in = "(2,3,4)", "no kernel", .status = WEIR_ERR_INVALID, .says = "kernel"},
    {.in = "(2,3,4)", "too large", LINE(.kernel = 5), .status = WEIR_ERR_SHAPE,
     .says = "does not fit"},
    {0},
};

static const op_set global_sets[] = {
    {.in = "(2,3,4,5)"},
    {.in = "(1,1,1,1)", "one cell"},
    {.in = "(7,7,7,7)"},
    {.in = "(0,3,4,4)", "no images"},
    {.in = "(2,0,4,4)", "no channels"},
    {.in = "(2,3,0,4)", "over nothing"},
    {.in = "(5,4,3,2)t", "transposed"},
    {.in = "(4,3,5,4)b", "repeated images"},
    {.in = "(4,3,5,4)l", "repeated columns"},
    {.in = "(1,2,50,30)", "1500 cells"},
    {.in = "(2,70,40,9)", "several tasks"},
    {0},
};

#define COMMON_WRONG                                                                               \
    {.in = "(2,3,4)", NULL, WINDOW(.kernel = BOTH(2)), .status = WEIR_ERR_SHAPE,                   \
     .says = "x must have 4 axes"},                                                                \
    {.in = "(2,3,4,4)", "no kernel", .status = WEIR_ERR_INVALID, .says = "kernel"},                \
    {.in = "(2,3,4,4)", "stride -1", WINDOW(.kernel = BOTH(2), .stride = BOTH(-1)),                \
     .status = WEIR_ERR_INVALID, .says = "stride"},                                                \
    {.in = "(2,3,4,4)", "windows of padding alone", WINDOW(.kernel = BOTH(2), .pad = PAIR(0, 2)),  \
     .status = WEIR_ERR_INVALID, .says = "pad"},                                                   \
    {.in = "(2,3,4,4)", "too large", WINDOW(.kernel = PAIR(5, 1)), .status = WEIR_ERR_SHAPE,       \
     .says = "does not fit"},                                                                      \
    {.in = "(2,3,0,4)", "no cells", WINDOW(.kernel = BOTH(2), .pad = BOTH(1)),                     \
     .status = WEIR_ERR_SHAPE}

static const op_set avg_wrong[] = {COMMON_WRONG, {0}};

static const op_set max_wrong[] = {
    COMMON_WRONG,
    {.in = "(2,3,20,20)", "window of 256 cells", WINDOW(.kernel = BOTH(16)),
     .status = WEIR_ERR_INVALID, .says = "255"},
    {0},
};

static const op_set global_wrong[] = {
    {.in = "(2,3,4)", .status = WEIR_ERR_SHAPE, .says = "(n,c,h,w)"},
    {.in = "()", .status = WEIR_ERR_SHAPE},
    {0},
};

static weir_tensor *max_pool2d(const op_call *c)
{
    return weir_max_pool2d(c->in[0], &c->o->pool);
}

static weir_tensor *avg_pool2d(const op_call *c)
{
    return weir_avg_pool2d(c->in[0], &c->o->pool);
}

static weir_tensor *max_pool1d(const op_call *c)
{
    return weir_max_pool1d(c->in[0], &c->o->pool1d);
}

static weir_tensor *avg_pool1d(const op_call *c)
{
    return weir_avg_pool1d(c->in[0], &c->o->pool1d);
}

static weir_tensor *global_avg_pool2d(const op_call *c)
{
    return weir_global_avg_pool2d(c->in[0]);
}

const op_row op_pool2d[] = {
    {.name = "max_pool2d", .build = max_pool2d, .reference = ref_max_pool2d, .types = OP_FLOATS,
     .in = {{OP_PARAM, -3, 3}}, .eps = 0, .sets = max_sets, .wrong = max_wrong},
    {.name = "avg_pool2d", .build = avg_pool2d, .reference = ref_avg_pool2d, .types = OP_FLOATS,
     .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = avg_sets, .wrong = avg_wrong},
    {.name = "max_pool1d", .build = max_pool1d, .reference = ref_max_pool1d,
     .types = OP_FLOATS, .in = {{OP_PARAM, -3, 3}}, .eps = 0, .sets = line_sets,
     .wrong = line_wrong},
    {.name = "avg_pool1d", .build = avg_pool1d, .reference = ref_avg_pool1d,
     .types = OP_FLOATS, .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = line_sets,
     .wrong = line_wrong},
    {.name = "global_avg_pool2d", .build = global_avg_pool2d, .reference = ref_global_avg_pool2d,
     .types = OP_FLOATS, .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = global_sets,
     .wrong = global_wrong},
    {0},
};
