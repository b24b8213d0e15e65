/* elementwise.c - calls of one number for each element, where no operator means exactly the same.
 */
#include "model/onnx/write/calls.h"

#include <math.h>

/* x of the call and a number of its type. */
static const char *number(weir_onnx_writer *w, const weir_onnx_written *c, double v)
{
    return weir_onnx_scalar_of(w, weir_onnx_in_desc(w, c, 0)->dtype, v);
}

static bool is_float(const weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_dtype t = weir_onnx_in_desc(w, c, 0)->dtype;

    return t == WEIR_F32 || t == WEIR_F64 || t == WEIR_F16 || t == WEIR_BF16;
}

/* One operator with the attribute `name`, if any. */
static void with(weir_onnx_writer *w, const weir_onnx_written *c, const char *op, const char *name,
                 double v)
{
    const char *const x = weir_onnx_in(w, c, 0);

    weir_put_node(w, op, c->out[0], 1, &x, 1, &(weir_onnx_set)WEIR_SET_FLOAT(name, v));
}

/* s x + t; a factor of 1 and a sum of 0 are left out. */
static const char *affine(weir_onnx_writer *w, const char *out, const char *x, const char *s,
                          const char *t)
{
    const char *const y = s ? weir_put_node2(w, "Mul", t ? NULL : out, x, s) : x;

    return t ? weir_put_node2(w, "Add", out, y, t) : y;
}

void weir_onnx_write_affine(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const double s = weir_recording_double(c->call, 0), t = weir_recording_double(c->call, 1);

    affine(w, c->out[0], weir_onnx_in(w, c, 0), s != 1 || t == 0 ? number(w, c, s) : NULL,
           t != 0 ? number(w, c, t) : NULL);
}

/* -(t max(log p, -100) + (1 - t) max(log(1 - p), -100)) */
void weir_onnx_write_bce(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const p = weir_onnx_in(w, c, 0), *const t = weir_onnx_in(w, c, 1);
    const char *const one = number(w, c, 1), *const least = number(w, c, -100);
    const char       *part[2];

    for (int i = 0; i < 2; i++) {
        const char *const of = i ? weir_put_node2(w, "Sub", NULL, one, p) : p;
        const char *const log = weir_put_node2(w, "Max", NULL, weir_put_node1(w, "Log", NULL, of),
                                                least);
        part[i] = weir_put_node2(w, "Mul", NULL, i ? weir_put_node2(w, "Sub", NULL, one, t) : t,
                                  log);
    }
    weir_put_node1(w, "Neg", c->out[0], weir_put_node2(w, "Add", NULL, part[0], part[1]));
}

/* log(1 + exp x) - x t */
void weir_onnx_write_bce_logits(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const x = weir_onnx_in(w, c, 0), *const t = weir_onnx_in(w, c, 1);

    weir_put_node2(w, "Sub", c->out[0], weir_put_node1(w, "Softplus", NULL, x),
                    weir_put_node2(w, "Mul", NULL, x, t));
}

/* The bounds are attributes up to opset 10, where only floats have the operator. */
static void clip(weir_onnx_writer *w, const weir_onnx_written *c, double lo, double hi)
{
    const char *const   x = weir_onnx_in(w, c, 0);
    const weir_onnx_set set[] = {WEIR_SET_FLOAT("min", lo), WEIR_SET_FLOAT("max", hi)};

    if (w->opset < 11)
        weir_put_node(w, "Clip", c->out[0], 1, &x, 2, set);
    else
        weir_put_node(w, "Clip", c->out[0], 3,
                       (const char *const[]){x, number(w, c, lo), number(w, c, hi)}, 0, NULL);
}

/* Bounds of integers that their type lacks bind nothing. */
void weir_onnx_write_clamp(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_dtype t = w->r.value[c->in[0]].layout.desc.dtype;
    const bool       sign = t == WEIR_I8 || t == WEIR_I16 || t == WEIR_I32 || t == WEIR_I64;
    const double     end = exp2(8.0 * (double)weir_dtype_size(t) - sign);
    const double     least = sign ? -end : 0, most = end < 0x1p63 ? end - 1 : nextafter(end, 0);
    const bool       whole = !is_float(w, c);
    const double     lo = weir_recording_double(c->call, 0), hi = weir_recording_double(c->call, 1);

    clip(w, c, whole ? fmin(fmax(lo, least), most) : lo, whole ? fmin(fmax(hi, least), most) : hi);
}

static void shift(weir_onnx_writer *w, const weir_onnx_written *c, const char *direction)
{
    weir_put_node(w, "BitShift", c->out[0], 2,
                  (const char *const[]){weir_onnx_in(w, c, 0), weir_onnx_in(w, c, 1)}, 1,
                  &(weir_onnx_set)WEIR_SET_TEXT("direction", direction));
}

void weir_onnx_write_shift_left(weir_onnx_writer *w, const weir_onnx_written *c)
{
    shift(w, c, "LEFT");
}

void weir_onnx_write_shift_right(weir_onnx_writer *w, const weir_onnx_written *c)
{
    shift(w, c, "RIGHT");
}

/* ONNX has neither of u64: computed as i64, whose bits are the same. */
static const char *signed_in(weir_onnx_writer *w, const weir_onnx_written *c, uint32_t i)
{
    const char *const x = weir_onnx_in(w, c, i);
    const weir_dtype  t = weir_onnx_in_desc(w, c, i)->dtype;

    return t == WEIR_U64 ? weir_onnx_cast_to(w, NULL, x, WEIR_I64) : x;
}

static void write_signed(weir_onnx_writer *w, const weir_onnx_written *c, const char *operator,
                         size_t n)
{
    const bool  same = weir_onnx_out_desc(w, c, 0)->dtype != WEIR_U64;
    const char *in[2] = {signed_in(w, c, 0), n == 2 ? signed_in(w, c, 1) : NULL};
    const char *const y = weir_put_node(w, operator, same ? c->out[0] : NULL, n, in, 0, NULL);

    if (!same)
        weir_onnx_cast_to(w, c->out[0], y, WEIR_U64);
}

void weir_onnx_write_neg(weir_onnx_writer *w, const weir_onnx_written *c)
{
    write_signed(w, c, "Neg", 1);
}

void weir_onnx_write_pow(weir_onnx_writer *w, const weir_onnx_written *c)
{
    write_signed(w, c, "Pow", 2);
}

void weir_onnx_write_relu6(weir_onnx_writer *w, const weir_onnx_written *c)
{
    clip(w, c, 0, 6);
}

/* sign(x) floor(|x| + half) */
static const char *towards_zero(weir_onnx_writer *w, const char *out, const char *x,
                                const char *half)
{
    const char *size = weir_put_node1(w, "Abs", NULL, x);

    size = half ? weir_put_node2(w, "Add", NULL, size, half) : size;
    return weir_put_node2(w, "Mul", out, weir_put_node1(w, "Sign", NULL, x),
                           weir_put_node1(w, "Floor", NULL, size));
}

void weir_onnx_write_round_from_zero(weir_onnx_writer *w, const weir_onnx_written *c)
{
    towards_zero(w, c->out[0], weir_onnx_in(w, c, 0), number(w, c, 0.5));
}

/* What is left of a / b, with the sign of b. */
static const char *remainder_of(weir_onnx_writer *w, const char *out, const char *a, const char *b,
                                const char *zero, bool whole)
{
    const char *const in[] = {a, b};

    if (whole)
        return weir_put_node(w, "Mod", out, 2, in, 0, NULL);
    const char *const r = weir_put_node(w, "Mod", NULL, 2, in, 1,
                                         &(weir_onnx_set)WEIR_SET_INT("fmod", 1));
    const char *const none = weir_put_node2(w, "Equal", NULL, r, zero);
    const char *const differ = weir_put_node2(w, "Xor", NULL,
                                               weir_put_node2(w, "Less", NULL, r, zero),
                                               weir_put_node2(w, "Less", NULL, b, zero));
    const char *const fix = weir_put_node2(w, "And", NULL, differ,
                                            weir_put_node1(w, "Not", NULL, none));
    const char *const other[] = {fix, weir_put_node2(w, "Add", NULL, r, b), r};
    return weir_put_node(w, "Where", out, 3, other, 0, NULL);
}

void weir_onnx_write_remainder(weir_onnx_writer *w, const weir_onnx_written *c)
{
    remainder_of(w, c->out[0], weir_onnx_in(w, c, 0), weir_onnx_in(w, c, 1), number(w, c, 0),
                 !is_float(w, c));
}

void weir_onnx_write_div_floor(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const a = weir_onnx_in(w, c, 0), *const b = weir_onnx_in(w, c, 1);

    if (is_float(w, c)) {
        weir_put_node1(w, "Floor", c->out[0], weir_put_node2(w, "Div", NULL, a, b));
        return;
    }
    const char *const rest = remainder_of(w, NULL, a, b, NULL, true);
    weir_put_node2(w, "Div", c->out[0], weir_put_node2(w, "Sub", NULL, a, rest), b);
}

void weir_onnx_write_div_trunc(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const bool        whole = !is_float(w, c);
    const char *const q = weir_put_node2(w, "Div", whole ? c->out[0] : NULL,
                                          weir_onnx_in(w, c, 0), weir_onnx_in(w, c, 1));

    if (!whole)
        towards_zero(w, c->out[0], q, NULL);
}

/* In inference, which drops nothing. */
void weir_onnx_write_dropout(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const   x = weir_onnx_in(w, c, 0);
    const double        ratio = weir_recording_double(c->call, 0);
    const weir_onnx_set set = WEIR_SET_FLOAT("ratio", ratio);

    if (w->opset < 12)
        weir_put_node(w, "Dropout", c->out[0], 1, &x, 1, &set);
    else
        weir_put_node2(w, "Dropout", c->out[0], x, weir_onnx_scalar_of(w, WEIR_F32, ratio));
}

void weir_onnx_write_elu(weir_onnx_writer *w, const weir_onnx_written *c)
{
    with(w, c, "Elu", "alpha", weir_recording_double(c->call, 0));
}

void weir_onnx_write_leaky_relu(weir_onnx_writer *w, const weir_onnx_written *c)
{
    with(w, c, "LeakyRelu", "alpha", weir_recording_double(c->call, 0));
}

/* s = alpha gamma, t = gamma */
void weir_onnx_write_selu(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const double        s = weir_recording_double(c->call, 0);
    const double        t = weir_recording_double(c->call, 1);
    const char *const   x = weir_onnx_in(w, c, 0);
    const weir_onnx_set set[] = {WEIR_SET_FLOAT("alpha", s / t), WEIR_SET_FLOAT("gamma", t)};

    weir_put_node(w, "Selu", c->out[0], 1, &x, 2, set);
}

void weir_onnx_write_exp2(weir_onnx_writer *w, const weir_onnx_written *c)
{
    weir_put_node2(w, "Pow", c->out[0], number(w, c, 2), weir_onnx_in(w, c, 0));
}

/* plain where |x| >= 1, else near; where the difference d from the limit at 0 vanishes, x. */
static void near_zero(weir_onnx_writer *w, const weir_onnx_written *c, const char *plain,
                      const char *near, const char *d)
{
    const char *const x = weir_onnx_in(w, c, 0);
    const char *const none = weir_put_node2(w, "Equal", NULL, d, number(w, c, 0));
    const char *const small = weir_put_node2(w, "Less", NULL, weir_put_node1(w, "Abs", NULL, x),
                                             number(w, c, 1));
    const char *const y = weir_put_node(w, "Where", NULL, 3, (const char *const[]){none, x, near},
                                        0, NULL);

    weir_put_node(w, "Where", c->out[0], 3, (const char *const[]){small, y, plain}, 0, NULL);
}

/* With u = exp x as rounded, (u - 1) x / log u is exp x - 1 of full precision. Kahan, "Branch cuts
 * for complex elementary functions", 1987. */
void weir_onnx_write_expm1(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const x = weir_onnx_in(w, c, 0), *const u = weir_put_node1(w, "Exp", NULL, x);
    const char *const d = weir_put_node2(w, "Sub", NULL, u, number(w, c, 1));
    const char *const over = weir_put_node2(w, "Div", NULL, x, weir_put_node1(w, "Log", NULL, u));

    near_zero(w, c, d, weir_put_node2(w, "Mul", NULL, d, over), d);
}

/* With u = 1 + x as rounded, log u x / (u - 1) is log(1 + x) of full precision, as above. */
void weir_onnx_write_log1p(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const x = weir_onnx_in(w, c, 0);
    const char *const u = weir_put_node2(w, "Add", NULL, x, number(w, c, 1));
    const char *const log = weir_put_node1(w, "Log", NULL, u);
    const char *const d = weir_put_node2(w, "Sub", NULL, u, number(w, c, 1));
    const char *const over = weir_put_node2(w, "Div", NULL, x, d);

    near_zero(w, c, log, weir_put_node2(w, "Mul", NULL, log, over), d);
}

/* x (1 + erf(x / sqrt 2)) / 2 */
void weir_onnx_write_gelu(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const x = weir_onnx_in(w, c, 0);

    if (w->opset >= 20) {
        weir_put_node1(w, "Gelu", c->out[0], x);
        return;
    }
    const char *const in = weir_put_node2(w, "Mul", NULL, x, number(w, c, sqrt(0.5)));
    const char *const erf = weir_put_node1(w, "Erf", NULL, in);
    const char *const half = weir_put_node2(w, "Mul", NULL, x, number(w, c, 0.5));
    weir_put_node2(w, "Mul", c->out[0], half,
                    weir_put_node2(w, "Add", NULL, erf, number(w, c, 1)));
}

static const char *hard_sigmoid(weir_onnx_writer *w, const char *out, const char *x)
{
    const weir_onnx_set set[] = {WEIR_SET_FLOAT("alpha", 1.0 / 6), WEIR_SET_FLOAT("beta", 0.5)};

    return weir_put_node(w, "HardSigmoid", out, 1, &x, 2, set);
}

void weir_onnx_write_hardsigmoid(weir_onnx_writer *w, const weir_onnx_written *c)
{
    hard_sigmoid(w, c->out[0], weir_onnx_in(w, c, 0));
}

void weir_onnx_write_hardswish(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const x = weir_onnx_in(w, c, 0);

    if (w->opset >= 14)
        weir_put_node1(w, "HardSwish", c->out[0], x);
    else
        weir_put_node2(w, "Mul", c->out[0], x, hard_sigmoid(w, NULL, x));
}

/* -log(1 + exp(-x)) */
void weir_onnx_write_log_sigmoid(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const minus = weir_put_node1(w, "Neg", NULL, weir_onnx_in(w, c, 0));

    weir_put_node1(w, "Neg", c->out[0], weir_put_node1(w, "Softplus", NULL, minus));
}

void weir_onnx_write_ne(weir_onnx_writer *w, const weir_onnx_written *c)
{
    weir_put_node1(w, "Not", c->out[0], weir_put_node2(w, "Equal", NULL, weir_onnx_in(w, c, 0),
                                                         weir_onnx_in(w, c, 1)));
}

void weir_onnx_write_rsqrt(weir_onnx_writer *w, const weir_onnx_written *c)
{
    weir_put_node1(w, "Reciprocal", c->out[0],
                    weir_put_node1(w, "Sqrt", NULL, weir_onnx_in(w, c, 0)));
}

void weir_onnx_write_silu(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const x = weir_onnx_in(w, c, 0);

    if (w->opset >= 24)
        weir_put_node1(w, "Swish", c->out[0], x);
    else
        weir_put_node2(w, "Mul", c->out[0], x, weir_put_node1(w, "Sigmoid", NULL, x));
}

void weir_onnx_write_square(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const x = weir_onnx_in(w, c, 0);

    weir_put_node2(w, "Mul", c->out[0], x, x);
}
