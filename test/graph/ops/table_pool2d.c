/* table_pool2d.c - rows of pooling and of bilinear upsampling. */
#include <math.h>

#include "graph/ops/table.h"

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

static weir_tensor *upsample_bilinear(const op_call *c)
{
    return weir_upsample_bilinear(c->in[0], c->o->to[0], c->o->to[1]);
}

/* What lies at `at` (y, x) of channel k of image n, between pixels; outside are the outermost. */
static double between(const ref_array *a, int64_t n, int64_t k, const double at[2])
{
    double sum = 0;

    for (int i = 0; i < 4; i++) {
        double  weight = 1;
        int64_t index[4] = {n, k};
        for (int axis = 0; axis < 2; axis++) {
            const int64_t last = a->desc.dim[2 + axis] - 1;
            const double  low = floor(at[axis]), place = low + (i >> axis & 1);
            weight *= i >> axis & 1 ? at[axis] - low : 1 - (at[axis] - low);
            index[2 + axis] = place < 0 ? 0 : place > (double)last ? last : (int64_t)place;
        }
        sum += weight != 0 ? weight * a->at[ref_ravel(&a->desc, index)] : 0;
    }
    return sum;
}

static void ref_upsample_bilinear(ref_call *c)
{
    const int64_t *const f = c->o->to;
    weir_desc            d = c->in[0].desc;

    d.dim[2] *= f[0];
    d.dim[3] *= f[1];
    c->out = ref_new(d);
    for (int64_t i = 0; i < ref_count(&d); i++) {
        int64_t to[4];
        ref_unravel(&d, i, to);
        const double at[2] = {((double)to[2] + 0.5) / (double)f[0] - 0.5,
                              ((double)to[3] + 0.5) / (double)f[1] - 0.5};
        c->out.at[i] = between(&c->in[0], to[0], to[1], at);
    }
}

#define TIMES(h, w) {.to = {h, w}}

static const op_set upsample_sets[] = {
    {.in = "(1,1,2,2)", NULL, TIMES(2, 2)},
    {.in = "(2,3,4,5)", "height", TIMES(3, 1)},
    {.in = "(2,3,4,5)", "uneven", TIMES(2, 3)},
    {.in = "(2,3,4,5)", "as it is", TIMES(1, 1)},
    {.in = "(1,2,1,1)", "one pixel", TIMES(4, 4)},
    {.in = "(1,2,1,3)", "one row", TIMES(5, 2)},
    {.in = "(2,3,4,5)t", "transposed", TIMES(2, 2)},
    {.in = "(2,3,4,5)b", "repeated", TIMES(2, 2)},
    {.in = "(0,3,4,5)", "no images", TIMES(2, 2)},
    {.in = "(2,0,4,5)", "no channels", TIMES(2, 2)},
    {.in = "(2,3,0,5)", "no rows", TIMES(2, 2)},
    {.in = "(1,1,2,2)", "more pixels than a list holds", TIMES(40, 20)},
    {.in = "(2,8,30,25)", "several tasks", TIMES(2, 2)},
    {0},
};

static const op_set upsample_wrong[] = {
    {.in = "(3,4)", "no image", TIMES(2, 2), .status = WEIR_ERR_SHAPE, .says = "4 axes"},
    {.in = "(1,1,2,2)", "factor 0", TIMES(0, 2), .status = WEIR_ERR_INVALID, .says = "0 and 2"},
    {.in = "(1,1,2,2)", "too large", TIMES(INT64_MAX, 2), .status = WEIR_ERR_SHAPE,
     .says = "too large"},
    {0},
};

const op_row op_pool2d[] = {
    {.name = "max_pool2d", .build = max_pool2d, .reference = ref_max_pool2d, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -3, 3}}, .eps = 0, .sets = max_sets, .wrong = max_wrong},
    {.name = "avg_pool2d", .build = avg_pool2d, .reference = ref_avg_pool2d, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = avg_sets, .wrong = avg_wrong},
    {.name = "max_pool1d", .build = max_pool1d, .reference = ref_max_pool1d,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -3, 3}}, .eps = 0, .sets = line_sets,
     .wrong = line_wrong},
    {.name = "avg_pool1d", .build = avg_pool1d, .reference = ref_avg_pool1d,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = line_sets,
     .wrong = line_wrong},
    {.name = "global_avg_pool2d", .build = global_avg_pool2d, .reference = ref_global_avg_pool2d,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = global_sets,
     .wrong = global_wrong},
    {.name = "upsample_bilinear", .build = upsample_bilinear, .reference = ref_upsample_bilinear,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = upsample_sets,
     .wrong = upsample_wrong},
    {0},
};
