/* table_reduce.c - rows of reductions over axes, of softmax, and of counting correct answers. */
#include "graph/ops/table.h"

#define AXIS(i) (1u << (i))

#define COMMON_SETS                                                                                \
    {.in = "()", "scalar"}, {.in = "(1)"}, {.in = "(7)"},                                          \
    {.in = "(3,5)", "axis 0", {.dims = AXIS(0)}},                                                  \
    {.in = "(3,5)", "axis 1 kept", {.dims = AXIS(1), .keep = true}},                               \
    {.in = "(1,5)", "axis of size 1", {.dims = AXIS(0)}},                                          \
    {.in = "(0,4)", "no rows", {.dims = AXIS(1)}},                                                 \
    {.in = "(2,3,4)t", "transposed, axis 1", {.dims = AXIS(1)}},                                   \
    {.in = "(2,3,4)t", "transposed, axes 0 and 2", {.dims = AXIS(0) | AXIS(2), .keep = true}},     \
    {.in = "(4,5)b", "repeated, all", {.dims = 0}},                                                \
    {.in = "(4,5)l", "repeated, axis 0", {.dims = AXIS(0)}},                                       \
    {.in = "(2,3,4,5)", "image, all but channels", {.dims = AXIS(0) | AXIS(2) | AXIS(3)}},         \
    {.in = "(2,3,4,5)", "image, height and width", {.dims = AXIS(2) | AXIS(3), .keep = true}},     \
    {.in = "(2,3,4,5)t", "image transposed, axes 0 and 1", {.dims = AXIS(0) | AXIS(1)}},           \
    {.in = "(2,3,4,5)", "image, channels", {.dims = AXIS(1)}},                                     \
    {.in = "(2,3,2,3,2)", "axes 1 and 3", {.dims = AXIS(1) | AXIS(3)}},                            \
    {.in = "(1500)"},                                                                              \
    {.in = "(3,1500)", "long axis 1", {.dims = AXIS(1)}},                                          \
    {.in = "(1500,3)", "long axis 0", {.dims = AXIS(0)}},                                          \
    {.in = "(191,211)", "several tasks, all"},                                                     \
    {.in = "(191,211)", "several tasks, axis 0", {.dims = AXIS(0)}},                               \
    {.in = "(191,211)", "several tasks, axis 1", {.dims = AXIS(1), .keep = true}}

/* A sum over nothing is 0, a mean NaN; a maximum does not exist. */
static const op_set sum_sets[] = {
    COMMON_SETS,
    {.in = "(0,4)", "over nothing", {.dims = AXIS(0)}},
    {.in = "(2,3,0,5)", "over nothing", {.dims = AXIS(2) | AXIS(3), .keep = true}},
    {0},
};

static const op_set amax_sets[] = {COMMON_SETS, {0}};

static const op_set wrong_axes[] = {
    {.in = "(3,4)", "no axis 2", {.dims = AXIS(2)}, .status = WEIR_ERR_INVALID, .says = "axes"},
    {.in = "()", "no axis 0", {.dims = AXIS(0)}, .status = WEIR_ERR_INVALID},
    {0},
};

static const op_set amax_wrong[] = {
    {.in = "(3,4)", "no axis 5", {.dims = AXIS(5)}, .status = WEIR_ERR_INVALID, .says = "axes"},
    {.in = "(0,4)", "over nothing", {.dims = AXIS(0)}, .status = WEIR_ERR_SHAPE},
    {.in = "(0)", "of nothing", .status = WEIR_ERR_SHAPE},
    {0},
};

static const op_set count_sets[] = {
    {.in = "(3,4)(3)"},
    {.in = "(1,1)(1)"},
    {.in = "(7,7)(7)"},
    {.in = "(0,4)(0)", "no rows"},
    {.in = "(5,3)t(5)", "transposed"},
    {.in = "(5,3)b(5)", "repeated rows"},
    {.in = "(6,4)(6)b", "repeated class"},
    {.in = "(1500,2)(1500)"},
    {.in = "(3,1500)(3)"},
    {.in = "(191,211)(191)", "several tasks"},
    {0},
};

static const op_set count_wrong[] = {
    {.in = "(3,4)(4)", .status = WEIR_ERR_SHAPE, .says = "target"},
    {.in = "(3)(3)", .status = WEIR_ERR_SHAPE, .says = "logits"},
    {.in = "(3,4)(3,1)", .status = WEIR_ERR_SHAPE, .says = "target"},
    {0},
};

static const op_set small_sets[] = {
    {.in = "()", "scalar"}, {.in = "(1)"}, {.in = "(7)"},
    {.in = "(3,5)", "axis 0", {.dims = AXIS(0)}},
    {.in = "(3,5)", "axis 1 kept", {.dims = AXIS(1), .keep = true}},
    {.in = "(0,4)", "over nothing", {.dims = AXIS(0)}},
    {.in = "(2,3,4)t", "transposed, axis 1", {.dims = AXIS(1)}},
    {.in = "(4,5)b", "repeated, axis 0", {.dims = AXIS(0)}},
    {.in = "(2,3,2,2)", "image, channels", {.dims = AXIS(1)}},
    {0},
};

#define ALONG(i) {.axis = i}

#define AXIS_SETS                                                                                  \
    {.in = "(1)", "one number", ALONG(0)}, {.in = "(7)", NULL, ALONG(-1)},                         \
    {.in = "(3,5)", "axis 0", ALONG(0)}, {.in = "(3,5)", "axis -1", ALONG(-1)},                    \
    {.in = "(0,4)", "no rows", ALONG(1)}, {.in = "(2,3,4)t", "transposed, axis 1", ALONG(1)},      \
    {.in = "(4,5)b", "repeated, axis 0", ALONG(0)}, {.in = "(4,5)l", "repeated, axis 0", ALONG(0)},\
    {.in = "(2,3,4,5)", "image, axis 0", ALONG(0)}, {.in = "(2,3,4,5)", "channels", ALONG(1)},     \
    {.in = "(2,3,4,5)", "image, height", ALONG(2)}, {.in = "(2,3,4,5)", "width", ALONG(3)},        \
    {.in = "(2,3,4,5)t", "image transposed, channels", ALONG(1)},                                  \
    {.in = "(2,3,2,3,2)", "axis -3", ALONG(-3)}, {.in = "(1500)", NULL, ALONG(0)},                 \
    {.in = "(3,1500)", "long axis 1", ALONG(1)}, {.in = "(1500,3)", "long axis 0", ALONG(0)},      \
    {.in = "(191,311)", "several tasks, axis 0", ALONG(0)},                                        \
    {.in = "(191,211)", "several tasks, axis 1", ALONG(1)}

static const op_set arg_sets[] = {
    AXIS_SETS, {.in = "(3,5)", "kept", {.axis = 1, .keep = true}}, {0},
};

static const op_set softmax_sets[] = {AXIS_SETS, {.in = "(4,0)", "of nothing", ALONG(1)}, {0}};

static const op_set softmax_wrong[] = {
    {.in = "(3,4)", "no axis 2", ALONG(2), .status = WEIR_ERR_INVALID, .says = "axis 2"},
    {.in = "(3,4)", "no axis -3", ALONG(-3), .status = WEIR_ERR_INVALID, .says = "axis -3"},
    {.in = "()", "no axis 0", ALONG(0), .status = WEIR_ERR_INVALID},
    {0},
};

static const op_set cumsum_sets[] = {
    AXIS_SETS,
    {.in = "(4,0)", "of nothing", ALONG(1)},
    {.in = "(7)", "from the end", {.axis = -1, .keep = true}},
    {.in = "(2,3,4,5)", "image, channels from the end", {.axis = 1, .keep = true}},
    {.in = "(2,3,4)t", "transposed, from the end", {.axis = 0, .keep = true}},
    {.in = "(191,211)", "several tasks, from the end", {.axis = 0, .keep = true}},
    {0},
};

/* Of numbers from -2.37 to 2.63 the third of five is 0. */
static const op_set zero_sets[] = {
    {.in = "(5)", NULL, ALONG(0)},
    {.in = "(5)", "from the end", {.axis = 0, .keep = true}},
    {.in = "(5,1)", "rows", ALONG(0)},
    {0},
};

static const op_set arg_wrong[] = {
    {.in = "(3,4)", "no axis 2", ALONG(2), .status = WEIR_ERR_INVALID, .says = "axis 2"},
    {.in = "(0,4)", "over nothing", ALONG(0), .status = WEIR_ERR_SHAPE},
    {0},
};

#define UNBIASED(...) {.which = 1, __VA_ARGS__}

static const op_set unbiased_sets[] = {
    {.in = "(7)", NULL, UNBIASED(.dims = 0)},
    {.in = "(3,5)", "axis 0", UNBIASED(.dims = AXIS(0))},
    {.in = "(3,5)", "axis 1 kept", UNBIASED(.dims = AXIS(1), .keep = true)},
    {.in = "(0,4)", "no rows", UNBIASED(.dims = AXIS(1))},
    {.in = "(2,3,4)t", "transposed, axis 1", UNBIASED(.dims = AXIS(1))},
    {.in = "(2,3,4,5)", "all but channels", UNBIASED(.dims = AXIS(0) | AXIS(2) | AXIS(3))},
    {.in = "(2,3,4,5)", "image, channels", UNBIASED(.dims = AXIS(1), .keep = true)},
    {.in = "(191,211)", "several tasks", UNBIASED(.dims = AXIS(0))},
    {0},
};

static const op_set norm2_wrong[] = {
    {.in = "(3,4)", "no axis 2", {.which = 2, .dims = AXIS(2)}, .status = WEIR_ERR_INVALID,
     .says = "axes"},
    {.in = "(3,4)", "p 3", {.which = 3}, .status = WEIR_ERR_INVALID, .says = "p must be 1 or 2"},
    {0},
};

static weir_tensor *amin(const op_call *c)
{
    return weir_amin(c->in[0], c->o->dims, c->o->keep);
}

static weir_tensor *prod(const op_call *c)
{
    return weir_prod(c->in[0], c->o->dims, c->o->keep);
}

static weir_tensor *argmax(const op_call *c)
{
    return weir_argmax(c->in[0], c->o->axis, c->o->keep);
}

static weir_tensor *argmin(const op_call *c)
{
    return weir_argmin(c->in[0], c->o->axis, c->o->keep);
}

static weir_tensor *var(const op_call *c)
{
    return weir_var(c->in[0], c->o->dims, c->o->which, c->o->keep);
}

/* Which norm it is, is not the shape set's matter: sets are shared. */
static weir_tensor *norm1(const op_call *c)
{
    return weir_norm(c->in[0], 1, c->o->dims, c->o->keep);
}

static weir_tensor *norm2(const op_call *c)
{
    return weir_norm(c->in[0], c->o->which == 3 ? 3 : 2, c->o->dims, c->o->keep);
}

static void ref_norm_of(ref_call *c, int p)
{
    const ref_options *const given = c->o;
    ref_options              o = *given;

    o.which = p;
    c->o = &o;
    ref_norm(c);
    c->o = given;
}

static void ref_norm1(ref_call *c)
{
    ref_norm_of(c, 1);
}

static void ref_norm2(ref_call *c)
{
    ref_norm_of(c, 2);
}

static weir_tensor *softmax(const op_call *c)
{
    return weir_softmax(c->in[0], c->o->axis);
}

static weir_tensor *log_softmax(const op_call *c)
{
    return weir_log_softmax(c->in[0], c->o->axis);
}

/* keep: from the end. */
static weir_tensor *cumsum(const op_call *c)
{
    return weir_cumsum(c->in[0], c->o->axis, c->o->keep);
}

static void ref_cumsum(ref_call *c)
{
    const weir_desc *const d = &c->in[0].desc;
    const int              axis = c->o->axis < 0 ? c->o->axis + d->ndim : c->o->axis;

    c->out = ref_new(*d);
    for (int64_t i = 0; i < ref_count(d); i++) {
        int64_t at[WEIR_MAX_DIMS];
        ref_unravel(d, i, at);
        const int64_t first = c->o->keep ? at[axis] : 0;
        const int64_t last = c->o->keep ? d->dim[axis] - 1 : at[axis];
        for (at[axis] = first; at[axis] <= last; at[axis]++)
            c->out.at[i] += c->in[0].at[ref_ravel(d, at)];
    }
}

static weir_tensor *cumprod(const op_call *c)
{
    return weir_cumprod(c->in[0], c->o->axis, c->o->keep);
}

static void ref_cumprod(ref_call *c)
{
    const weir_desc *const d = &c->in[0].desc;
    const int              axis = c->o->axis < 0 ? c->o->axis + d->ndim : c->o->axis;

    c->out = ref_new(*d);
    for (int64_t i = 0; i < ref_count(d); i++) {
        int64_t at[WEIR_MAX_DIMS];
        ref_unravel(d, i, at);
        const int64_t first = c->o->keep ? at[axis] : 0;
        const int64_t last = c->o->keep ? d->dim[axis] - 1 : at[axis];
        c->out.at[i] = 1;
        for (at[axis] = first; at[axis] <= last; at[axis]++)
            c->out.at[i] *= c->in[0].at[ref_ravel(d, at)];
    }
}

static weir_tensor *sum(const op_call *c)
{
    return weir_sum(c->in[0], c->o->dims, c->o->keep);
}

static weir_tensor *mean(const op_call *c)
{
    return weir_mean(c->in[0], c->o->dims, c->o->keep);
}

static weir_tensor *amax(const op_call *c)
{
    return weir_amax(c->in[0], c->o->dims, c->o->keep);
}

static weir_tensor *count_correct(const op_call *c)
{
    return weir_count_correct(c->in[0], c->in[1]);
}

const op_row op_reduce[] = {
    {.name = "sum", .build = sum, .reference = ref_sum, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = sum_sets, .wrong = wrong_axes},
    {.name = "sum (integers)", .says = "sum", .build = sum, .reference = ref_sum,
     .types = OP_INTEGERS | OP_BOOL, .in = {{OP_DATA, -50, 99}}, .sets = sum_sets,
     .wrong = wrong_axes},
    {.name = "mean", .build = mean, .reference = ref_mean, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 2}}, .eps = 4, .rms = true, .sets = sum_sets, .wrong = wrong_axes},
    {.name = "amax", .build = amax, .reference = ref_amax, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -3, 3}}, .eps = 0, .sets = amax_sets, .wrong = amax_wrong},
    {.name = "amax (integers)", .says = "amax", .build = amax, .reference = ref_amax,
     .types = OP_INTEGERS, .in = {{OP_DATA, -50, 99}}, .sets = amax_sets, .wrong = amax_wrong},
    {.name = "count_correct", .build = count_correct, .reference = ref_count_correct,
     .types = OP_ANY_FLOAT, .in = {{OP_DATA, -3, 3}, {.kind = OP_CLASS_I32}}, .sets = count_sets,
     .wrong = count_wrong},
    {.name = "count_correct (i64)", .says = "count_correct", .build = count_correct,
     .reference = ref_count_correct, .types = OP_ANY_FLOAT,
     .in = {{OP_DATA, -3, 3}, {.kind = OP_CLASS_I64}}, .sets = count_sets, .wrong = count_wrong},
    {.name = "amin", .build = amin, .reference = ref_amin, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -3, 3}}, .eps = 0, .sets = amax_sets, .wrong = amax_wrong},
    {.name = "amin (integers)", .says = "amin", .build = amin, .reference = ref_amin,
     .types = OP_INTEGERS, .in = {{OP_DATA, -50, 99}}, .sets = amax_sets, .wrong = amax_wrong},
    {.name = "prod", .build = prod, .reference = ref_prod, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, 0.9, 1.1}}, .eps = 64, .rms = true, .sets = sum_sets, .wrong = wrong_axes},
    {.name = "prod (integers)", .says = "prod", .build = prod, .reference = ref_prod,
     .types = OP_INTEGERS | OP_BOOL, .in = {{OP_DATA, -3, 3}}, .sets = small_sets,
     .wrong = wrong_axes},
    {.name = "argmax", .build = argmax, .reference = ref_argmax, .types = OP_NUMBERS,
     .in = {{OP_DATA, -400, 400}}, .sets = arg_sets, .wrong = arg_wrong},
    {.name = "argmin", .build = argmin, .reference = ref_argmin, .types = OP_NUMBERS,
     .in = {{OP_DATA, -400, 400}}, .sets = arg_sets, .wrong = arg_wrong},
    {.name = "var", .build = var, .reference = ref_var, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 2}}, .eps = 8, .rms = true, .sets = sum_sets, .wrong = wrong_axes},
    {.name = "var (unbiased)", .says = "var", .build = var, .reference = ref_var,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -1, 2}}, .eps = 8, .rms = true,
     .sets = unbiased_sets},
    {.name = "norm1", .says = "norm", .build = norm1, .reference = ref_norm1, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 2}}, .eps = 8, .rms = true, .sets = sum_sets, .wrong = wrong_axes},
    {.name = "norm2", .says = "norm", .build = norm2, .reference = ref_norm2, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 2}}, .eps = 8, .rms = true, .sets = sum_sets, .wrong = norm2_wrong},
    {.name = "softmax", .build = softmax, .reference = ref_softmax, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -3, 3}}, .eps = 8, .rms = true, .sets = softmax_sets,
     .wrong = softmax_wrong},
    {.name = "softmax (wide)", .says = "softmax", .build = softmax, .reference = ref_softmax,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -900, 700}}, .eps = 8, .rms = true,
     .sets = softmax_sets, .wrong = softmax_wrong},
    {.name = "log_softmax", .build = log_softmax, .reference = ref_log_softmax,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -3, 3}}, .eps = 8, .rms = true, .sets = softmax_sets,
     .wrong = softmax_wrong},
    {.name = "log_softmax (wide)", .says = "log_softmax", .build = log_softmax,
     .reference = ref_log_softmax, .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -900, 700}}, .eps = 8,
     .rms = true, .sets = softmax_sets, .wrong = softmax_wrong},
    {.name = "cumsum", .build = cumsum, .reference = ref_cumsum, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, -1, 2}}, .eps = 8, .rms = true, .sets = cumsum_sets,
     .wrong = softmax_wrong},
    {.name = "cumsum (integers)", .says = "cumsum", .build = cumsum, .reference = ref_cumsum,
     .types = OP_INTEGERS, .in = {{OP_DATA, -50, 99}}, .sets = cumsum_sets,
     .wrong = softmax_wrong},
    {.name = "cumprod", .build = cumprod, .reference = ref_cumprod, .types = OP_ANY_FLOAT,
     .in = {{OP_PARAM, 0.9, 1.1}}, .eps = 64, .rms = true, .sets = cumsum_sets,
     .wrong = softmax_wrong},
    {.name = "cumprod (zeros)", .says = "cumprod", .build = cumprod, .reference = ref_cumprod,
     .types = OP_ANY_FLOAT, .in = {{OP_PARAM, -2.37, 2.63}}, .eps = 8, .rms = true,
     .sets = zero_sets},
    {.name = "cumprod (integers)", .says = "cumprod", .build = cumprod, .reference = ref_cumprod,
     .types = OP_INTEGERS, .in = {{OP_DATA, -3, 3}}, .sets = zero_sets, .wrong = softmax_wrong},
    {0},
};
