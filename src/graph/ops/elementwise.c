/* elementwise.c - definitions of the rows of elementwise.def, their gradients, fused groups.
 *
 * A row's inputs broadcast (NumPy); its output is dense. Name, number of inputs and types come from
 * the row itself; what is added here, one macro DEF_<ROW> each, is flags and gradient; a CURVE says
 * all that itself. A row whose gradient can be taken from its result reads that, so that the input
 * need not be kept. Gradient rows are not differentiated again. The gradient of bn_apply stands in
 * norm.c, those of further functions of one number in activation.c; what these call of the rows is
 * in basic.c. */
#include <float.h>
#include <math.h>

#include "graph/ops/define.h"

/* ---- infer and cost ---- */

enum {
    FLOATS = WEIR_TYPES_ANY_FLOAT,
    NUMBERS = WEIR_TYPES_NUMBER,
    ORDERED = NUMBERS,
    WHOLE = WEIR_TYPES_NUMBER & ~WEIR_TYPES_ANY_FLOAT
};

static const uint32_t row_types[WEIR_OP_COUNT] = {
#define ROW(ID, id, nin, types, ...) [WEIR_OP_##ID] = types,
#include "core/elementwise.def"
#undef ROW
};

static weir_status row_infer(weir_call *c)
{
    weir_desc d;

    WEIR_TRY(weir_check_broadcast(c, &d));
    WEIR_TRY(weir_check_types(c, row_types[c->op]));
    return weir_out_checked(c, 0, &d);
}

/* Random draws have no input: the attributes hold the shape. */
static weir_status draw_infer(weir_call *c)
{
    const weir_draw_attr *const a = c->attr;
    const weir_desc             d = weir_desc_unpack(&a->desc);

    char                        text[WEIR_TYPES_TEXT];

    if (!weir_is_any_float(d.dtype))
        return weir_call_fail(WEIR_ERR_DTYPE, c, "makes %s, not %s",
                              weir_types_text(FLOATS, text), weir_dtype_name(d.dtype));
    return weir_out_checked(c, 0, &d);
}

/* Operations per element of rows that take more than about one. */
static double row_cost(int64_t op)
{
    return op == WEIR_OP_BN_APPLY || op == WEIR_OP_LN_APPLY                ? 5
           : op == WEIR_OP_BN_GRAD_APPLY || op == WEIR_OP_LN_GRAD_APPLY ? 10
                                                                        : 1;
}

static double row_flops(const weir_call *c)
{
    return row_cost(c->op) * (double)weir_shape_count(&c->out[0].desc);
}

/* ---- gradients of one input: from the result where that suffices, else from the input ---- */

static weir_status square_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_row2(WEIR_OP_SQUARE_GRAD, g->dy[0], g->x[0]));
}

static weir_status exp_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_mul(g->dy[0], g->y[0]));
}

static weir_status log_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_div(g->dy[0], g->x[0]));
}

static weir_status neg_grad(weir_grad *g)
{
    return weir_grad_set(g, 0, weir_neg(g->dy[0]));
}

static weir_status affine_grad(weir_grad *g)
{
    const weir_ew_attr *const a = g->attr;

    return weir_grad_set(g, 0, weir_affine(g->dy[0], a->s, 0));
}

/* Draws the same mask again, at the position of the forward call. */
static weir_status dropout_grad(weir_grad *g)
{
    weir_tensor *out[WEIR_MAX_OUT] = {NULL};

    WEIR_TRY(
        weir_record_at_rng(WEIR_OP_DROPOUT, 1, g->dy, g->attr, sizeof(weir_ew_attr), g->rng, out));
    return weir_grad_set(g, 0, out[0]);
}

/* ---- gradients of two inputs, summed over broadcast axes ---- */

static weir_status add_grad(weir_grad *g)
{
    for (int i = 0; i < 2; i++)
        if (weir_wants(g, i))
            WEIR_TRY(weir_grad_set_summed(g, i, g->dy[0]));
    return WEIR_OK;
}

/* Sums before it negates, since the sum is the smaller tensor. */
static weir_status sub_grad(weir_grad *g)
{
    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set_summed(g, 0, g->dy[0]));
    if (weir_wants(g, 1))
        WEIR_TRY(weir_grad_set(g, 1, weir_neg(weir_sum_to(g->dy[0], &g->x[1]->layout.desc))));
    return WEIR_OK;
}

static weir_status mul_grad(weir_grad *g)
{
    for (int i = 0; i < 2; i++)
        if (weir_wants(g, i))
            WEIR_TRY(weir_grad_set_summed(g, i, weir_mul(g->dy[0], g->x[1 - i])));
    return WEIR_OK;
}

/* y = a / b: da = dy / b, db = -dy y / b, which leaves a unread. */
static weir_status div_grad(weir_grad *g)
{
    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set_summed(g, 0, weir_div(g->dy[0], g->x[1])));
    if (weir_wants(g, 1)) {
        weir_tensor *const t = weir_mul(g->dy[0], weir_div(g->y[0], g->x[1]));
        WEIR_TRY(weir_grad_set(g, 1, weir_neg(weir_sum_to(t, &g->x[1]->layout.desc))));
    }
    return WEIR_OK;
}

/* Of rounded quotients, which are step functions: 0 everywhere. */
static weir_status steps_grad(weir_grad *g)
{
    for (int i = 0; i < 2; i++)
        if (weir_wants(g, i))
            WEIR_TRY(weir_grad_set(g, i, weir_fill(g->x[i]->dev, g->x[i]->layout.desc, 0)));
    return WEIR_OK;
}

/* Of a - b floor(a / b), where the gradient of the quotient is 0. */
static weir_status remainder_grad(weir_grad *g)
{
    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set_summed(g, 0, g->dy[0]));
    if (weir_wants(g, 1)) {
        weir_tensor *const t = weir_mul(g->dy[0], weir_div_floor(g->x[0], g->x[1]));
        WEIR_TRY(weir_grad_set(g, 1, weir_neg(weir_sum_to(t, &g->x[1]->layout.desc))));
    }
    return WEIR_OK;
}

/* Of max and min: dy for the input that was chosen, half of it for each at a tie. */
static weir_status chosen_grad(weir_grad *g, weir_op op)
{
    for (int i = 0; i < 2; i++)
        if (weir_wants(g, i))
            WEIR_TRY(weir_grad_set_summed(g, i, weir_row3(op, g->dy[0], g->x[i], g->x[1 - i])));
    return WEIR_OK;
}

static weir_status max_grad(weir_grad *g)
{
    return chosen_grad(g, WEIR_OP_MAX_GRAD);
}

static weir_status min_grad(weir_grad *g)
{
    return chosen_grad(g, WEIR_OP_MIN_GRAD);
}

/* Binary cross entropy is linear in the target, which has the shape of the first input. */
static weir_status bce_logits_grad(weir_grad *g)
{
    weir_tensor *const dy = g->dy[0], *const logit = g->x[0];

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set(g, 0, weir_row3(WEIR_OP_BCE_LOGITS_GRAD, dy, logit, g->x[1])));
    return weir_wants(g, 1) ? weir_grad_set(g, 1, weir_neg(weir_mul(dy, logit))) : WEIR_OK;
}

static weir_status bce_grad(weir_grad *g)
{
    weir_tensor *const dy = g->dy[0], *const p = g->x[0];

    if (weir_wants(g, 0))
        WEIR_TRY(weir_grad_set(g, 0, weir_row3(WEIR_OP_BCE_GRAD, dy, p, g->x[1])));
    return weir_wants(g, 1) ? weir_grad_set(g, 1, weir_row2(WEIR_OP_BCE_GRAD_TARGET, dy, p))
                            : WEIR_OK;
}

/* ---- the definitions ---- */

enum {
    ROW_FLAGS = WEIR_PURE | WEIR_ELEMENTWISE | WEIR_STRIDED,
    ANY_FORMAT = ROW_FLAGS | WEIR_PRESERVE_FORMAT,
    ALL_IN = (1 << WEIR_MAX_IN) - 1     /* bits of inputs that a row does not have are ignored */
};

#define PLAIN     .flags = ANY_FORMAT, .infer = row_infer
#define RANDOM(f) .flags = ANY_FORMAT | WEIR_RANDOM, .infer = f
#define PROMOTED  PLAIN, .promotes = 3
#define AUTOCAST_F32    PLAIN, .autocast_f32 = ALL_IN
#define PROMOTE_FLOAT  .flags = ANY_FORMAT | WEIR_PROMOTE_FLOAT, .infer = row_infer, .promotes = 3
/* Whose gradients know the axes of x. */
#define NORMALISED  .flags = ROW_FLAGS, .infer = row_infer, .autocast_f32 = ALL_IN

/* Gradient f for the inputs `to`, from the elements of inputs `in` and of the output if `out`. */
#define GRAD(f, to, in, out) .grad = f, .differentiable = to, .reads_in = in, .reads_out = out

#define DEF_EXP           AUTOCAST_F32, GRAD(exp_grad, 1, 0, 1)
#define DEF_LOG           AUTOCAST_F32, GRAD(log_grad, 1, 1, 0)
#define DEF_NEG           PLAIN, GRAD(neg_grad, 1, 0, 0)
#define DEF_SQUARE        PLAIN, GRAD(square_grad, 1, 1, 0)
#define DEF_SQUARE_GRAD   PLAIN
#define DEF_AFFINE        PLAIN, GRAD(affine_grad, 1, 0, 0)
#define DEF_ADD           PROMOTED, GRAD(add_grad, 3, 0, 0)
#define DEF_SUB           PROMOTED, GRAD(sub_grad, 3, 0, 0)
#define DEF_MUL           PROMOTED, GRAD(mul_grad, 3, 3, 0)
#define DEF_DIV           PROMOTE_FLOAT, GRAD(div_grad, 3, 2, 1)
#define DEF_DIV_FLOOR     PROMOTED, GRAD(steps_grad, 3, 0, 0)
#define DEF_DIV_TRUNC     DEF_DIV_FLOOR
#define DEF_REMAINDER     PROMOTED, GRAD(remainder_grad, 3, 3, 0)
#define DEF_BITWISE_AND   PROMOTED
#define DEF_BITWISE_OR    PROMOTED
#define DEF_BITWISE_XOR   PROMOTED
#define DEF_SHIFT_LEFT    PLAIN
#define DEF_SHIFT_RIGHT   PLAIN
#define DEF_MAX           PROMOTED, GRAD(max_grad, 3, 3, 0)
#define DEF_MAX_GRAD      PLAIN
#define DEF_MIN           PROMOTED, GRAD(min_grad, 3, 3, 0)
#define DEF_MIN_GRAD      PLAIN
#define DEF_DROPOUT       RANDOM(row_infer), GRAD(dropout_grad, 1, 0, 0)
#define DEF_UNIFORM       RANDOM(draw_infer)
#define DEF_NORMAL        RANDOM(draw_infer)
#define DEF_BERNOULLI     RANDOM(draw_infer)
#define DEF_NORM_GRAD     PLAIN
#define DEF_BCE_LOGITS      AUTOCAST_F32, GRAD(bce_logits_grad, 3, 3, 0)
#define DEF_BCE_LOGITS_GRAD PLAIN
#define DEF_BCE             AUTOCAST_F32, GRAD(bce_grad, 3, 3, 0)
#define DEF_BCE_GRAD        PLAIN
#define DEF_BCE_GRAD_TARGET PLAIN
#define DEF_LN_APPLY        NORMALISED, GRAD(weir_ln_apply_grad, 1 | 1 << 3 | 1 << 4, 15, 0)
#define DEF_LN_XHAT         PLAIN
#define DEF_LN_GRAD_APPLY   PLAIN
#define DEF_RMS_APPLY       NORMALISED, GRAD(weir_rms_apply_grad, 1 | 1 << 2, 7, 0)
#define DEF_RMS_GRAD_APPLY  PLAIN
#define DEF_BN_APPLY      NORMALISED, GRAD(weir_bn_apply_grad, 1 | 1 << 3 | 1 << 4, 15, 0)
#define DEF_BN_GRAD_APPLY PLAIN

#include "graph/ops/activation.h"

/* The output may take over the memory of any input of its size. */
#define OPDEF(id, nin, ...)                                                                        \
    const weir_opdef weir_op_##id = {.name = #id, .nin_min = nin, .nin_max = nin, .nout = 1,       \
                                     .inplace = ALL_IN >> (WEIR_MAX_IN - (nin)),                   \
                                     .flops = row_flops, __VA_ARGS__};

/* The gradient of a CURVE, a row with the attributes of the forward call. (That of relu needs only
 * the sign of the result; the pass relu_sign_bits replaces the result by bits.) */
static weir_status curve_grad(weir_grad *g, weir_op row, weir_tensor *t)
{
    weir_tensor *const in[] = {g->dy[0], t};

    return weir_grad_set(g, 0, weir_record1(row, 2, in, g->attr, sizeof(weir_ew_attr)));
}

enum { READS_x = 1, READS_y = 0 };

#define CURVE_ST(ID, id, from, ...)                                                                \
    static weir_status id##_grad_of(weir_grad *g)                                                  \
    {                                                                                              \
        return curve_grad(g, WEIR_OP_##ID##_GRAD, g->from[0]);                                     \
    }                                                                                              \
    OPDEF(id, 1, PLAIN, GRAD(id##_grad_of, 1, READS_##from, !READS_##from))                        \
    OPDEF(id##_grad, 2, PLAIN)
#define CURVE(ID, id, from, ...)                                                                   \
    CURVE_ST(ID, id, from, )                                                                       \
    weir_tensor *weir_##id(weir_tensor *x)                                                         \
    {                                                                                              \
        return weir_row1(WEIR_OP_##ID, x, 0, 0);                                                   \
    }
#define CURVE_ORDERED    CURVE
#define CURVE_ST_ORDERED CURVE_ST
#define ROW(ID, id, nin, ...) OPDEF(id, nin, DEF_##ID)
#include "core/elementwise.def"
#undef ROW

/* ---- fused groups and packed signs, created by passes only ---- */

/* All outputs have the shape to which the inputs broadcast. Neither the shape of a group without
 * inputs (random draws) nor which outputs are halves follows from the operands: the fuse pass keeps
 * the layouts of the original nodes. */
static weir_status fused_infer(weir_call *c)
{
    const weir_ew_program *const p = c->attr;
    weir_desc                    d;

    WEIR_TRY(weir_check_broadcast(c, &d));
    d.dtype = (weir_dtype)p->type;
    c->nout = (int)p->nout;
    for (int i = 0; i < c->nout; i++)
        WEIR_TRY(weir_out_checked(c, i, &d));
    return WEIR_OK;
}

/* The sum over the steps. */
static double fused_flops(const weir_call *c)
{
    const weir_ew_program *const p = c->attr;
    double                       per_element = 0;

    for (int64_t i = 0; i < p->nstep; i++)
        per_element += row_cost(p->step[i].op);
    return per_element * (double)weir_shape_count(&c->out[0].desc);
}

const weir_opdef weir_op_fused = {
    .name = "fused",
    .flags = WEIR_PURE | WEIR_STRIDED,
    .nin_min = 0,
    .nin_max = WEIR_EW_MAX_IN,
    .nout = 1,
    .inplace = (1u << WEIR_EW_MAX_IN) - 1,
    .infer = fused_infer,
    .flops = fused_flops,
};

/* y -> u8: bit i % 8 of byte i / 8 is !(y[i] <= 0), true for NaN; i counts in memory order. */
static weir_status sign_pack_infer(weir_call *c)
{
    const weir_desc d = weir_1d(WEIR_U8, (weir_shape_count(&c->in[0].desc) + 7) / 8);

    WEIR_TRY(weir_check_floats(c));
    weir_out_dense(c, 0, &d);
    return WEIR_OK;
}

const weir_opdef weir_op_sign_pack = {
    .name = "sign_pack",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = sign_pack_infer,
    .flops = weir_flops_input,
};

/* dy, bits -> dx; the bits follow dy's memory order. */
const weir_opdef weir_op_sign_relu_grad = {
    .name = "sign_relu_grad",
    .flags = WEIR_PURE,
    .nin_min = 2,
    .nin_max = 2,
    .nout = 1,
    .inplace = 1,
    .infer = weir_infer_like,
};

/* ---- public functions ---- */

#define UNARY(ID, id)                                                                              \
    weir_tensor *weir_##id(weir_tensor *x)                                                         \
    {                                                                                              \
        return weir_row1(WEIR_OP_##ID, x, 0, 0);                                                   \
    }
#define BINARY(ID, id)                                                                             \
    weir_tensor *weir_##id(weir_tensor *a, weir_tensor *b)                                         \
    {                                                                                              \
        return weir_row2(WEIR_OP_##ID, a, b);                                                      \
    }

UNARY(EXP, exp)
UNARY(LOG, log)
UNARY(SQUARE, square)
BINARY(DIV_FLOOR, div_floor)
BINARY(DIV_TRUNC, div_trunc)
BINARY(REMAINDER, remainder)
BINARY(BITWISE_AND, bitwise_and)
BINARY(BITWISE_OR, bitwise_or)
BINARY(BITWISE_XOR, bitwise_xor)
BINARY(SHIFT_LEFT, shift_left)
BINARY(SHIFT_RIGHT, shift_right)
BINARY(MAX, max)
BINARY(MIN, min)

weir_tensor *weir_dropout(weir_tensor *x, double p)
{
    if (!x)
        return weir_null("weir_dropout", "x");
    if (!(p >= 0 && p <= 1))
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "dropout: p must be in [0, 1], not %g", p);
    return p == 0 ? x : weir_row1(WEIR_OP_DROPOUT, x, p, p < 1 ? 1 / (1 - p) : 0);
}

static double largest(weir_dtype t)
{
    return t == WEIR_F64 ? DBL_MAX : t == WEIR_F16 ? 65504 : (double)FLT_MAX;
}

weir_status weir_draw_check(const char *who, weir_op op, weir_dtype type, double s, double t)
{
    const double most = largest(type);

    if (op == WEIR_OP_UNIFORM && !(s <= t))
        return weir_fail(WEIR_ERR_INVALID, "%s: the range from %g to %g is reversed", who, s, t);
    if (op == WEIR_OP_UNIFORM && !(s >= -most && t <= most && t - s <= most))
        return weir_fail(WEIR_ERR_INVALID, "%s: from %g to %g does not fit %s, whose largest "
                         "number is %g", who, s, t, weir_dtype_name(type), most);
    if (op == WEIR_OP_NORMAL && !(t >= 0 && t <= most && fabs(s) <= most))
        return weir_fail(WEIR_ERR_INVALID, "%s: the mean is %g, the deviation %g; the deviation "
                         "must not be negative, both finite in %s", who, s, t,
                         weir_dtype_name(type));
    return WEIR_OK;
}

/* A recorded call, unlike weir_write_uniform: a planned step draws new numbers in every run. */
static weir_tensor *draw(weir_device *d, weir_op op, const weir_desc *desc, double s, double t)
{
    weir_draw_attr attr = {.ew = {s, t}};
    weir_tensor   *out[WEIR_MAX_OUT] = {NULL};

    if (!d)
        return weir_null(weir_op_name(op), "device");
    if (weir_desc_pack(weir_op_name(op), desc, &attr.desc) != WEIR_OK)
        return NULL;
    if (weir_is_any_float(desc->dtype) &&
        weir_draw_check(weir_op_name(op), op, desc->dtype, s, t) != WEIR_OK)
        return NULL;
    return weir_record_on(d, op, 0, NULL, &attr, sizeof attr, out) == WEIR_OK ? out[0] : NULL;
}

weir_tensor *weir_uniform(weir_device *d, weir_desc desc, double lo, double hi)
{
    return draw(d, WEIR_OP_UNIFORM, &desc, lo, hi);
}

weir_tensor *weir_normal(weir_device *d, weir_desc desc, double mean, double stddev)
{
    return draw(d, WEIR_OP_NORMAL, &desc, mean, stddev);
}

weir_tensor *weir_bernoulli(weir_device *d, weir_desc desc, double p)
{
    if (!(p >= 0 && p <= 1))
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "bernoulli: p must be in [0, 1], not %g", p);
    return draw(d, WEIR_OP_BERNOULLI, &desc, p, 0);
}
