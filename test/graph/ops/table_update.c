/* table_update.c - rows of updates in place: five steps each, state compared after each. */
#include "graph/ops/table.h"

#define SGD(...)  {.sgd = {__VA_ARGS__}}
#define ADAM(...) {.adam = {__VA_ARGS__}}

/* param, grad, lr. */
static const op_set sgd_sets[] = {
    {.in = "(3,5)(3,5)()"},
    {.in = "()()()", "scalars"},
    {.in = "(7)(7)(1)"},
    {.in = "(0,4)(0,4)()", "nothing"},
    {.in = "(3,5)(3,5)t()", "transposed gradient"},
    {.in = "(3,5)(3,5)b()", "repeated gradient"},
    {.in = "(3,5)(3,5)(4)", "numbers"},
    {.in = "(2,3,4,5)(2,3,4,5)()", "filters", SGD(.weight_decay = 0.1)},
    {.in = "(1500)(1500)()", NULL, SGD(.weight_decay = 0.01)},
    {.in = "(191,211)(191,211)()", "several tasks"},
    {0},
};

/* param, grad, lr, momentum buffer. */
static const op_set momentum_sets[] = {
    {.in = "(3,5)(3,5)()(3,5)", "momentum", SGD(.momentum = 0.9)},
    {.in = "()()()()", "scalars", SGD(.momentum = 0.5)},
    {.in = "(7)(7)(1)(7)", "dampening", SGD(.momentum = 0.9, .dampening = 0.3)},
    {.in = "(7)(7)()(7)", "nesterov", SGD(.momentum = 0.9, .nesterov = true)},
    {.in = "(7)(7)(4)(7)", "numbers"},
    {.in = "(7)(7)(4)(7)", "numbers, nesterov", SGD(.momentum = 5, .nesterov = true)},
    {.in = "(0,4)(0,4)()(0,4)", "nothing", SGD(.momentum = 0.9)},
    {.in = "(3,5)(3,5)t()(3,5)", "decay", SGD(.momentum = 0.9, .weight_decay = 0.1)},
    {.in = "(2,3,4,5)(2,3,4,5)()(2,3,4,5)", "nesterov, decay",
     SGD(.momentum = 0.8, .nesterov = true, .weight_decay = 0.1)},
    {.in = "(1500)(1500)()(1500)", "dampening, decay",
     SGD(.momentum = 0.9, .dampening = 0.5, .weight_decay = 0.01)},
    {.in = "(191,211)(191,211)()(191,211)", "several tasks", SGD(.momentum = 0.9)},
    {0},
};

/* param, grad, lr, momentum buffer, step. */
static const op_set counted_sets[] = {
    {.in = "(7)(7)(1)(7)()", "dampening", SGD(.momentum = 0.9, .dampening = 0.3)},
    {.in = "(3,5)(3,5)()(3,5)()", "no dampening", SGD(.momentum = 0.9)},
    {.in = "(7)(7)(4)(7)()", "numbers"},
    {.in = "(3,5)(3,5)t()(3,5)(1)", "dampening, decay",
     SGD(.momentum = 0.9, .dampening = 1, .weight_decay = 0.1)},
    {.in = "(0,4)(0,4)()(0,4)()", "nothing", SGD(.momentum = 0.9, .dampening = 0.3)},
    {.in = "(191,211)(191,211)()(191,211)()", "several tasks",
     SGD(.momentum = 0.9, .dampening = 0.5)},
    {0},
};

static const op_set counted_wrong[] = {
    {.in = "(7)(7)()(7)(2)", NULL, SGD(.momentum = 0.9), .status = WEIR_ERR_SHAPE, .says = "step"},
    {0},
};

static const op_set sgd_wrong[] = {
    {.in = "(3,5)(5,3)()", .status = WEIR_ERR_SHAPE},
    {.in = "(3,5)(5)()", .status = WEIR_ERR_SHAPE},
    {.in = "(3,5)(3,5)(2)", .status = WEIR_ERR_SHAPE, .says = "lr"},
    {.in = "(3,5)(3,5)(5)", .status = WEIR_ERR_SHAPE, .says = "vector of 4"},
    {.in = "(3,5)(3,5)(2,2)", .status = WEIR_ERR_SHAPE, .says = "vector of 4"},
    {0},
};

static const op_set momentum_wrong[] = {
    {.in = "(7)(7)()(7)", "negative momentum", SGD(.momentum = -0.5), .status = WEIR_ERR_INVALID,
     .says = "momentum -0.5"},
    {.in = "(7)(7)()(7)", "nesterov without momentum", SGD(.nesterov = true),
     .status = WEIR_ERR_INVALID, .says = "nesterov"},
    {.in = "(7)(7)()(7)", "nesterov with dampening",
     SGD(.momentum = 0.9, .nesterov = true, .dampening = 0.1), .status = WEIR_ERR_INVALID,
     .says = "nesterov"},
    {.in = "(3,5)(3,5)()(5)", NULL, SGD(.momentum = 0.9), .status = WEIR_ERR_SHAPE},
    {0},
};

/* param, grad, m, v, step, lr. */
static const op_set adam_sets[] = {
    {.in = "(3,5)(3,5)(3,5)(3,5)()()"},
    {.in = "()()()()()()", "scalars"},
    {.in = "(7)(7)(7)(7)(1)(1)", "betas", ADAM(.beta1 = 0.5, .beta2 = 0.9)},
    {.in = "(7)(7)(7)(7)()(5)", "numbers", ADAM(.beta1 = 0.1, .weight_decay = 3)},
    {.in = "(7)(7)(7)(7)()()", "decay", ADAM(.weight_decay = 0.1)},
    {.in = "(0,4)(0,4)(0,4)(0,4)()()", "nothing"},
    {.in = "(3,5)(3,5)t(3,5)(3,5)()()", "transposed gradient"},
    {.in = "(2,3,4,5)(2,3,4,5)(2,3,4,5)(2,3,4,5)()()", "filters", ADAM(.eps = 1e-3)},
    {.in = "(1500)(1500)(1500)(1500)()()", "all options",
     ADAM(.beta1 = 0.8, .beta2 = 0.99, .eps = 1e-5, .weight_decay = 0.01)},
    {.in = "(191,211)(191,211)(191,211)(191,211)()()", "several tasks"},
    {0},
};

static const op_set adam_wrong[] = {
    {.in = "(7)(7)(7)(7)()()", "beta1 1", ADAM(.beta1 = 1), .status = WEIR_ERR_INVALID,
     .says = "beta1 1"},
    {.in = "(7)(7)(7)(7)()()", "beta2 -1", ADAM(.beta2 = -1), .status = WEIR_ERR_INVALID,
     .says = "beta2 -1"},
    {.in = "(7)(7)(7)(7)()()", "eps -1", ADAM(.eps = -1), .status = WEIR_ERR_INVALID,
     .says = "eps -1"},
    {.in = "(3,5)(5,3)(3,5)(3,5)()()", .status = WEIR_ERR_SHAPE},
    {.in = "(3,5)(3,5)(3)(3,5)()()", .status = WEIR_ERR_SHAPE},
    {.in = "(3,5)(3,5)(3,5)(5)()()", .status = WEIR_ERR_SHAPE},
    {.in = "(3,5)(3,5)(3,5)(3,5)(2)()", .status = WEIR_ERR_SHAPE, .says = "step"},
    {.in = "(3,5)(3,5)(3,5)(3,5)()(3)", .status = WEIR_ERR_SHAPE, .says = "lr"},
    {0},
};

/* One tensor and a number. */
static const op_set number_sets[] = {
    {.in = "()", "scalar", {.s = 1}},
    {.in = "(1)", NULL, {.s = -0.5}},
    {.in = "(7)", NULL, {.s = 0}},
    {.in = "(0,4)", "nothing", {.s = 1}},
    {.in = "(3,5)", NULL, {.s = 0.1}},
    {.in = "(2,3,4,5)", "image", {.s = 2}},
    {.in = "(1500)", NULL, {.s = 1e-3}},
    {.in = "(191,211)", "several tasks", {.s = 3}},
    {0},
};

/* buffer, grad. */
static const op_set accumulate_sets[] = {
    {.in = "(3,5)(3,5)"},
    {.in = "()()", "scalars"},
    {.in = "(7)(7)"},
    {.in = "(0,4)(0,4)", "nothing"},
    {.in = "(3,5)(3,5)t", "transposed gradient"},
    {.in = "(3,5)(3,5)b", "repeated gradient"},
    {.in = "(2,3,4,5)(2,3,4,5)", "filters"},
    {.in = "(1500)(1500)"},
    {.in = "(191,211)(191,211)", "several tasks"},
    {0},
};

static const op_set accumulate_wrong[] = {
    {.in = "(3,5)(5,3)", .status = WEIR_ERR_SHAPE},
    {.in = "(3,5)(5)", .status = WEIR_ERR_SHAPE, .says = "like input 0"},
    {0},
};

/* partial sums, gradient, count. */
static const op_set accumulate_tree_sets[] = {
    {.in = "(1,5)(5)()", "one row"},
    {.in = "(2,7)(7)(1)", "two rows"},
    {.in = "(3,0)(0)()", "nothing"},
    {.in = "(3,15)(15)b()", "repeated gradient"},
    {.in = "(3,1500)(1500)()", "three rows"},
    {.in = "(2,40301)(40301)()", "several tasks"},
    {0},
};

static const op_set accumulate_tree_wrong[] = {
    {.in = "(2,5)(7)()", .status = WEIR_ERR_SHAPE, .says = "(levels,n)"},
    {.in = "(5)(5)()", .status = WEIR_ERR_SHAPE},
    {.in = "(0,5)(5)()", .status = WEIR_ERR_SHAPE},
    {.in = "(2,5)(5)(2)", .status = WEIR_ERR_SHAPE, .says = "count"},
    {0},
};

/* to, from. */
static const op_set assign_sets[] = {
    {.in = "(3,5)(3,5)"},
    {.in = "()()", "scalars"},
    {.in = "(7)()", "a scalar everywhere"},
    {.in = "(0,4)(0,4)", "nothing"},
    {.in = "(3,5)(3,5)t", "transposed"},
    {.in = "(3,5)(3,5)b", "a view that repeats"},
    {.in = "(3,5)(5)", "broadcast rows"},
    {.in = "(3,5)(3,1)", "broadcast columns"},
    {.in = "(2,3,4,5)(2,3,4,5)", "filters"},
    {.in = "(2,3,4,5)(2,3,4,5)t", "transposed filters"},
    {.in = "(2,3,4,5)(3,1,1)", "one per channel"},
    {.in = "(191,211)(191,211)t", "several tasks"},
    {.in = "(191,211)(211)", "several tasks, broadcast"},
    {0},
};

static const op_set assign_wrong[] = {
    {.in = "(3,5)(5,3)", .status = WEIR_ERR_SHAPE, .says = "does not broadcast"},
    {.in = "(5)(3,5)", .status = WEIR_ERR_SHAPE, .says = "does not broadcast"},
    {.in = "(5)(1,5)", .status = WEIR_ERR_SHAPE},
    {0},
};

#define ADAGRAD(...) {.adagrad = {__VA_ARGS__}}
#define RMSPROP(...) {.rmsprop = {__VA_ARGS__}}

/* param, grad, lr, square. */
static const op_set adagrad_sets[] = {
    {.in = "(3,5)(3,5)()(3,5)"},
    {.in = "()()()()", "scalars"},
    {.in = "(7)(7)(1)(7)", "decay", ADAGRAD(.weight_decay = 0.1)},
    {.in = "(7)(7)()(7)", "eps inside", ADAGRAD(.eps = 0.25, .eps_inside = true)},
    {.in = "(7)(7)(3)(7)", "numbers", ADAGRAD(.eps = 7, .eps_inside = true)},
    {.in = "(0,4)(0,4)()(0,4)", "nothing"},
    {.in = "(3,5)(3,5)t()(3,5)", "transposed gradient"},
    {.in = "(2,3,4,5)(2,3,4,5)()(2,3,4,5)", "filters", ADAGRAD(.eps = 1e-3)},
    {.in = "(1500)(1500)()(1500)", NULL, ADAGRAD(.eps = 1e-5, .weight_decay = 0.01)},
    {.in = "(191,211)(191,211)()(191,211)", "several tasks"},
    {0},
};

static const op_set square_wrong[] = {
    {.in = "(3,5)(5,3)()(3,5)", .status = WEIR_ERR_SHAPE},
    {.in = "(3,5)(3,5)()(5)", .status = WEIR_ERR_SHAPE},
    {.in = "(3,5)(3,5)(2)(3,5)", .status = WEIR_ERR_SHAPE, .says = "lr"},
    {.in = "(3)(3)()(3)", "eps -1", {.adagrad = {.eps = -1}, .rmsprop = {.eps = -1}},
     .status = WEIR_ERR_INVALID, .says = "eps -1"},
    {0},
};

/* param, grad, lr, square, then momentum buffer, or mean, or both. */
static const op_set rmsprop_sets[] = {
    {.in = "(2,3,4,5)(2,3,4,5)()(2,3,4,5)(2,3,4,5)(2,3,4,5)", "both",
     RMSPROP(.centered = true, .momentum = 0.5, .eps = 1e-3)},
    {.in = "(3,5)(3,5)()(3,5)"},
    {.in = "()()()()", "scalars"},
    {.in = "(7)(7)(1)(7)", "decay", RMSPROP(.weight_decay = 0.1, .alpha = 0.9)},
    {.in = "(7)(7)()(7)", "eps inside", RMSPROP(.eps = 0.25, .eps_inside = true)},
    {.in = "(7)(7)(5)(7)", "numbers", RMSPROP(.alpha = 0.5)},
    {.in = "(7)(7)(5)(7)(7)", "numbers, momentum", RMSPROP(.momentum = 5, .eps_inside = true)},
    {.in = "(0,4)(0,4)()(0,4)(0,4)", "nothing", RMSPROP(.momentum = 0.9)},
    {.in = "(3,5)(3,5)t()(3,5)(3,5)", "momentum", RMSPROP(.momentum = 0.9)},
    {.in = "(3,5)(3,5)()(3,5)(3,5)", "centered", RMSPROP(.centered = true, .eps = 1e-3)},
    {.in = "(1500)(1500)()(1500)(1500)", NULL, RMSPROP(.momentum = 0.9, .weight_decay = 0.01)},
    {.in = "(191,211)(191,211)()(191,211)", "several tasks"},
    {0},
};

/* lr, step. */
#define RATE(kind, base, to, period) {.which = kind, .s = base, .t = to, .groups = period}

static const op_set rate_sets[] = {
    {.in = "()()", "steps", RATE(0, 0.1, 0.5, 2)},
    {.in = "(1)()", "every step", RATE(0, 0.1, 0.9, 1)},
    {.in = "()(1)", "late steps", RATE(0, 0.1, 0.5, 100)},
    {.in = "()()", "exponential", RATE(1, 0.5, 0.9, 1)},
    {.in = "(1,1)()", "growing", RATE(1, 0.001, 1.5, 1)},
    {.in = "()()", "cosine", RATE(2, 0.1, 0.01, 10)},
    {.in = "(1)(1)", "cosine to the end", RATE(2, 0.1, 0, 3)},
    {.in = "()()", "cosine of one step", RATE(2, 1, 0.5, 1)},
    {0},
};

static const op_set rate_wrong[] = {
    {.in = "(2)()", NULL, RATE(0, 0.1, 0.5, 2), .status = WEIR_ERR_SHAPE, .says = "lr"},
    {.in = "()(2)", NULL, RATE(0, 0.1, 0.5, 2), .status = WEIR_ERR_SHAPE, .says = "step"},
    {.in = "()()", "every 0", RATE(0, 0.1, 0.5, 0), .status = WEIR_ERR_INVALID},
    {.in = "()()", "negative", RATE(1, -0.1, 0.5, 1), .status = WEIR_ERR_INVALID, .says = "-0.1"},
    {0},
};

/* The parameter as it is after the update. */
static weir_tensor *after(weir_status status, weir_tensor *param)
{
    return status == WEIR_OK ? weir_copy(param) : NULL;
}

static weir_tensor *sgd_update(const op_call *c)
{
    return after(weir_sgd_update(c->in[0], c->in[1], c->in[3], c->in[2], &c->o->sgd), c->in[0]);
}

/* The same with the number of steps behind the buffer. */
static weir_tensor *sgd_counted(const op_call *c)
{
    weir_sgd_options o = c->o->sgd;

    o.step = c->in[4];
    if (o.step && weir_increment(o.step, 1) != WEIR_OK)
        return NULL;
    return after(weir_sgd_update(c->in[0], c->in[1], c->in[3], c->in[2], &o), c->in[0]);
}

/* The step counts itself first, as a training program does. */
static weir_tensor *adam_update(const op_call *c)
{
    weir_status s = WEIR_OK;
    if (c->in[4])
        s = weir_increment(c->in[4], 1);
    if (s != WEIR_OK)
        return NULL;
    return after(weir_adam_update(c->in[0], c->in[1], c->in[2], c->in[3], c->in[4], c->in[5],
                                  &c->o->adam), c->in[0]);
}

static weir_tensor *adamw_update(const op_call *c)
{
    weir_status s = WEIR_OK;
    if (c->in[4])
        s = weir_increment(c->in[4], 1);
    if (s != WEIR_OK)
        return NULL;
    return after(weir_adamw_update(c->in[0], c->in[1], c->in[2], c->in[3], c->in[4], c->in[5],
                                   &c->o->adam), c->in[0]);
}

static weir_tensor *adagrad_update(const op_call *c)
{
    return after(weir_adagrad_update(c->in[0], c->in[1], c->in[3], c->in[2], &c->o->adagrad),
                 c->in[0]);
}

static weir_tensor *rmsprop_update(const op_call *c)
{
    weir_tensor *const mean = c->in[c->o->rmsprop.momentum != 0 ? 5 : 4];
    return after(weir_rmsprop_update(c->in[0], c->in[1], c->in[3], c->in[4], mean, c->in[2],
                                     &c->o->rmsprop), c->in[0]);
}

static weir_tensor *lr_schedule(const op_call *c)
{
    const ref_options *const o = c->o;
    weir_tensor *const       lr = c->in[0], *const step = c->in[1];
    weir_status              s = WEIR_OK;

    if (step)
        s = weir_increment(step, 1);
    if (s == WEIR_OK)
        s = o->which == 0   ? weir_lr_step(lr, step, o->s, o->t, o->groups)
            : o->which == 1 ? weir_lr_exponential(lr, step, o->s, o->t)
                            : weir_lr_cosine(lr, step, o->s, o->t, o->groups);
    return after(s, lr);
}

static weir_tensor *increment(const op_call *c)
{
    return after(weir_increment(c->in[0], c->o->s), c->in[0]);
}

static weir_tensor *accumulate(const op_call *c)
{
    return after(weir_accumulate(c->in[0], c->in[1]), c->in[0]);
}

/* The gradient is counted afterwards. */
static weir_tensor *accumulate_tree(const op_call *c)
{
    const weir_status s = weir_accumulate_tree(c->in[0], c->in[1], c->in[2]);

    return after(s != WEIR_OK || !c->in[2] ? s : weir_increment(c->in[2], 1), c->in[0]);
}

static weir_tensor *reset(const op_call *c)
{
    return after(weir_reset(c->in[0], c->o->s), c->in[0]);
}

static weir_tensor *assign(const op_call *c)
{
    return after(weir_assign(c->in[0], c->in[1]), c->in[0]);
}

#define PARAM {OP_STATE, -1, 1}
#define GRAD  {OP_DATA, -2, 1}
#define LR    {OP_DATA, 0.05, 0.2}
#define ZEROS {OP_STATE, 0, 0}

const op_row op_update[] = {
    {.name = "sgd_update", .build = sgd_update, .reference = ref_sgd_update, .types = OP_FLOATS,
     .in = {PARAM, GRAD, LR}, .eps = 8, .rms = true, .any_type = 1 << 2, .runs = 5,
     .sets = sgd_sets, .wrong = sgd_wrong},
    {.name = "sgd_update (momentum)", .says = "sgd_update", .build = sgd_update,
     .reference = ref_sgd_update, .types = OP_FLOATS, .in = {PARAM, GRAD, LR, ZEROS}, .eps = 8,
     .rms = true, .any_type = 1 << 2, .runs = 5, .sets = momentum_sets, .wrong = momentum_wrong},
    {.name = "sgd_update (first step whole)", .says = "sgd_update", .build = sgd_counted,
     .reference = ref_sgd_update, .types = OP_FLOATS,
     .in = {PARAM, GRAD, LR, ZEROS, {.kind = OP_COUNTER}}, .eps = 8, .rms = true,
     .optional = 1 << 4, .any_type = 1 << 2, .runs = 5, .sets = counted_sets,
     .wrong = counted_wrong},
    {.name = "adam_update", .build = adam_update, .reference = ref_adam_update, .types = OP_FLOATS,
     .in = {PARAM, GRAD, ZEROS, ZEROS, {.kind = OP_COUNTER}, LR}, .eps = 16, .rms = true,
     .any_type = 1 << 5, .runs = 5, .sets = adam_sets, .wrong = adam_wrong},
    {.name = "adamw_update", .build = adamw_update, .reference = ref_adamw_update,
     .types = OP_FLOATS, .in = {PARAM, GRAD, ZEROS, ZEROS, {.kind = OP_COUNTER}, LR}, .eps = 16,
     .rms = true, .any_type = 1 << 5, .runs = 5, .sets = adam_sets, .wrong = adam_wrong},
    {.name = "adagrad_update", .build = adagrad_update, .reference = ref_adagrad_update,
     .types = OP_FLOATS, .in = {PARAM, GRAD, LR, ZEROS}, .eps = 16, .rms = true,
     .any_type = 1 << 2, .runs = 5, .sets = adagrad_sets, .wrong = square_wrong},
    {.name = "rmsprop_update", .build = rmsprop_update, .reference = ref_rmsprop_update,
     .types = OP_FLOATS, .in = {PARAM, GRAD, LR, ZEROS, ZEROS, ZEROS}, .eps = 64, .rms = true,
     .any_type = 1 << 2, .runs = 5, .sets = rmsprop_sets, .wrong = square_wrong},
    {.name = "lr_schedule", .build = lr_schedule, .reference = ref_lr_schedule,
     .types = OP_FLOATS, .in = {PARAM, {.kind = OP_COUNTER}}, .eps = 4, .rms = true, .runs = 5,
     .sets = rate_sets, .wrong = rate_wrong},
    {.name = "increment", .build = increment, .reference = ref_increment, .types = OP_FLOATS,
     .in = {PARAM}, .eps = 4, .rms = true, .runs = 5, .sets = number_sets},
    {.name = "accumulate", .build = accumulate, .reference = ref_accumulate, .types = OP_FLOATS,
     .in = {PARAM, GRAD}, .eps = 4, .rms = true, .runs = 5, .sets = accumulate_sets,
     .wrong = accumulate_wrong},
    {.name = "accumulate_tree", .build = accumulate_tree, .reference = ref_accumulate_tree,
     .types = OP_FLOATS, .in = {ZEROS, GRAD, {.kind = OP_COUNTER}}, .eps = 4, .rms = true,
     .runs = 5, .sets = accumulate_tree_sets, .wrong = accumulate_tree_wrong},
    {.name = "reset", .build = reset, .reference = ref_reset, .types = OP_FLOATS, .in = {PARAM},
     .eps = 1, .runs = 2, .sets = number_sets},
    {.name = "assign", .build = assign, .reference = ref_assign, .types = OP_ALL,
     .in = {{OP_STATE, 0, 99}, {OP_DATA, 0, 99}}, .eps = 1, .runs = 2, .sets = assign_sets,
     .wrong = assign_wrong, .any_type = 3},
    {0},
};
