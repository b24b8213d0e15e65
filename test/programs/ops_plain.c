/* ops_plain.c - element-wise operations, comparisons, reductions and sources of random programs. */
#include <limits.h>

#include "programs/ops.h"

/* ---- one input: with what brings x into the domain, where it is not all numbers ---- */

#define PLAIN(name) {#name, weir_##name, false, REAL | HALF}
#define UNIT(name)                                                                                 \
    static weir_tensor *unit_##name(weir_tensor *x)                                                \
    {                                                                                              \
        return weir_##name(weir_affine(weir_tanh(x), 0.9, 0));                                     \
    }
#define ABOVE(name, shift)                                                                         \
    static weir_tensor *above_##name(weir_tensor *x)                                               \
    {                                                                                              \
        return weir_##name(weir_affine(weir_sigmoid(x), 1, shift));                                \
    }
#define MILD(name)                                                                                 \
    static weir_tensor *mild_##name(weir_tensor *x)                                                \
    {                                                                                              \
        return weir_##name(weir_tanh(x));                                                          \
    }
UNIT(asin) UNIT(acos) UNIT(atanh)
ABOVE(log, 0.1) ABOVE(sqrt, 0.1) ABOVE(rsqrt, 0.1) ABOVE(reciprocal, 0.2) ABOVE(acosh, 1.1)
ABOVE(log1p, 0)
MILD(exp) MILD(tan) MILD(sinh) MILD(cosh) MILD(expm1) MILD(square)

static weir_tensor *twice(weir_tensor *x)
{
    return weir_affine(x, 0.5, -0.25);
}
static weir_tensor *leaky(weir_tensor *x)
{
    return weir_leaky_relu(x, 0.1);
}
static weir_tensor *elu(weir_tensor *x)
{
    return weir_elu(x, 0.75);
}
static weir_tensor *clamp(weir_tensor *x)
{
    return weir_clamp(x, -0.5, 0.75);
}

static weir_tensor *clamp_whole(weir_tensor *x)
{
    return weir_clamp(x, 0, 9);
}

static const struct {
    const char   *name;
    weir_tensor *(*fn)(weir_tensor *x);
    bool          jump;
    int           types;
} unary[] = {
    PLAIN(relu), PLAIN(sigmoid), PLAIN(tanh), PLAIN(relu6), PLAIN(selu), PLAIN(gelu), PLAIN(silu),
    PLAIN(hardsigmoid), PLAIN(hardswish), PLAIN(softplus), PLAIN(softsign), PLAIN(erf), PLAIN(sin),
    PLAIN(cos), PLAIN(atan), PLAIN(asinh),
    {"relu", weir_relu, false, REAL | HALF},
    {"relu", weir_relu, false, REAL | HALF},
    {"asin", unit_asin, false, REAL | HALF}, {"acos", unit_acos, false, REAL | HALF},
    {"atanh", unit_atanh, false, REAL | HALF}, {"log", above_log, false, REAL | HALF},
    {"sqrt", above_sqrt, false, REAL | HALF}, {"rsqrt", above_rsqrt, false, REAL | HALF},
    {"reciprocal", above_reciprocal, false, REAL | HALF},
    {"acosh", above_acosh, false, REAL | HALF}, {"log1p", above_log1p, false, REAL | HALF},
    {"exp", mild_exp, false, REAL | HALF}, {"tan", mild_tan, false, REAL | HALF},
    {"sinh", mild_sinh, false, REAL | HALF}, {"cosh", mild_cosh, false, REAL | HALF},
    {"expm1", mild_expm1, false, REAL | HALF}, {"square", mild_square, false, REAL | HALF},
    {"affine", twice, false, REAL | HALF}, {"leaky_relu", leaky, false, REAL | HALF},
    {"elu", elu, false, REAL | HALF}, {"clamp", clamp, false, REAL | HALF},
    {"neg", weir_neg, false, REAL | HALF | WHOLE}, {"abs", weir_abs, false, REAL | HALF | WHOLE},
    {"sign", weir_sign, true, REAL | HALF | WHOLE}, {"square", weir_square, false, WHOLE},
    {"clamp", clamp_whole, false, WHOLE},
    {"floor", weir_floor, true, REAL | HALF}, {"ceil", weir_ceil, true, REAL | HALF},
    {"round", weir_round, true, REAL | HALF}, {"round_even", weir_round_even, true, REAL | HALF},
};

static bool draw_unary(maker *m, op *o)
{
    const int x = pick(m, REAL | HALF | WHOLE, 0, 8);
    if (x == INT_MIN)
        return false;
    const int bit = type_bit(desc_of(m, x).dtype);
    const int n = sizeof unary / sizeof *unary;
    for (int tries = 0; tries < 20; tries++) {
        o->a[0] = dice_int(&m->r, 0, n - 1);
        if ((unary[o->a[0]].types & bit) && !(unary[o->a[0]].jump && m->p->smooth)) {
            op_in(o, x);
            return true;
        }
    }
    return false;
}

static weir_status play_unary(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(unary[o->a[0]].fn(in[0]), out);
}

static bool draw_tanh(maker *m, op *o)
{
    (void)m;
    return o->nin == 1;
}
static weir_status play_tanh(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(o->a[0] ? weir_affine(in[0], 0.25, 0) : weir_tanh(in[0]), out);
}

static bool draw_prelu(maker *m, op *o)
{
    const int x = pick(m, REAL, 2, 4);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    op_in(o, x);
    op_in(o, new_real(m, LEAF_PARAM, weir_1d(d.dtype, dice_chance(&m->r, 50) ? 1 : d.dim[1])));
    return true;
}
static weir_status play_prelu(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s, (void)o;
    return one(weir_prelu(in[0], in[1]), out);
}

/* ---- two inputs ---- */

static bool meets(const weir_desc *a, const weir_desc *b)
{
    for (int i = 0; i < a->ndim && i < b->ndim; i++) {
        const int64_t x = a->dim[a->ndim - 1 - i], y = b->dim[b->ndim - 1 - i];
        if (x != y && x != 1 && y != 1)
            return false;
    }
    return true;
}

/* A value that broadcasts with x: one there is, or a new leaf of that type. */
static int partner(maker *m, int x, int types, weir_dtype fresh)
{
    weir_desc d = desc_of(m, x);
    for (int tries = 0; tries < 8; tries++) {
        const int b = pick(m, types, 0, 8);
        if (b == INT_MIN || dice_chance(&m->r, 8))
            break;
        const weir_desc e = desc_of(m, b);
        if (meets(&d, &e))
            return b;
    }
    d.dtype = fresh;
    const int drop = dice_chance(&m->r, 25) && d.ndim ? (int)dice_int(&m->r, 1, d.ndim) : 0;
    for (int i = 0; i + drop < d.ndim; i++)
        d.dim[i] = dice_chance(&m->r, 20) ? 1 : d.dim[i + drop];
    d.ndim -= drop;
    if (fresh == WEIR_BOOL)
        return new_leaf(m, LEAF_INPUT, d, DATA_WHOLE, 0, 1);
    if (type_bit(fresh) == WHOLE)
        return new_leaf(m, LEAF_INPUT, d, DATA_WHOLE, 0, 9);
    return new_real(m, type_bit(fresh) == REAL && dice_chance(&m->r, 50) ? LEAF_PARAM : LEAF_INPUT,
                    d);
}

static weir_tensor *div_far(weir_tensor *a, weir_tensor *b)
{
    return weir_div(a, weir_affine(weir_sigmoid(b), 1, 0.5));
}
static weir_tensor *pow_of(weir_tensor *a, weir_tensor *b)
{
    return weir_pow(weir_affine(weir_sigmoid(a), 1, 0.1), weir_tanh(b));
}

static const struct {
    const char   *name;
    weir_tensor *(*fn)(weir_tensor *a, weir_tensor *b);
    int           types;
} binary[] = {
    {"add", weir_add, FLOAT | WHOLE}, {"add", weir_add, FLOAT | WHOLE},
    {"sub", weir_sub, FLOAT | WHOLE}, {"mul", weir_mul, FLOAT | WHOLE},
    {"mul", weir_mul, FLOAT | WHOLE}, {"max", weir_max, FLOAT | WHOLE},
    {"min", weir_min, FLOAT | WHOLE}, {"div", div_far, FLOAT},
    {"pow", pow_of, FLOAT},
};

static bool draw_binary(maker *m, op *o)
{
    const int x = pick(m, FLOAT | WHOLE, 0, 8);
    if (x == INT_MIN)
        return false;
    const int bit = type_bit(desc_of(m, x).dtype);
    const int types = bit == WHOLE ? WHOLE : dice_chance(&m->r, 85) ? FLOAT : FLOAT | WHOLE;
    const int y = partner(m, x, types, desc_of(m, x).dtype);
    if (y == INT_MIN)
        return false;
    const bool whole = (bit | type_bit(desc_of(m, y).dtype)) & WHOLE;
    o->a[0] = dice_int(&m->r, 0, whole ? 6 : (int)(sizeof binary / sizeof *binary) - 1);
    const bool swap = dice_chance(&m->r, 30);
    op_in(o, swap ? y : x);
    op_in(o, swap ? x : y);
    return true;
}
static weir_status play_binary(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(binary[o->a[0]].fn(in[0], in[1]), out);
}

static weir_tensor *(*const compare[])(weir_tensor *, weir_tensor *) = {
    weir_eq, weir_ne, weir_lt, weir_le, weir_gt, weir_ge, weir_logical_and, weir_logical_or,
    weir_logical_xor,
};

static bool draw_compare(maker *m, op *o)
{
    const bool logic = dice_chance(&m->r, 25);
    const int  x = pick(m, logic ? BOOL : FLOAT | WHOLE, 0, 8);
    if (x == INT_MIN)
        return false;
    const int y = partner(m, x, logic ? BOOL : FLOAT | WHOLE,
                          logic ? WEIR_BOOL : desc_of(m, x).dtype);
    if (y == INT_MIN)
        return false;
    o->a[0] = logic ? dice_int(&m->r, 6, 8) : dice_int(&m->r, 0, 5);
    op_in(o, x);
    op_in(o, y);
    return true;
}
static weir_status play_compare(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(compare[o->a[0]](in[0], in[1]), out);
}

static bool draw_not(maker *m, op *o)
{
    const int x = pick(m, BOOL, 0, 8);
    return x != INT_MIN && op_in(o, x);
}
static weir_status play_not(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s, (void)o;
    return one(weir_logical_not(in[0]), out);
}

static bool draw_where(maker *m, op *o)
{
    const int x = pick(m, FLOAT | WHOLE, 0, 8);
    const int y = x == INT_MIN ? x : partner(m, x, type_bit(desc_of(m, x).dtype),
                                             desc_of(m, x).dtype);
    const int c = y == INT_MIN ? y : partner(m, x, BOOL, WEIR_BOOL);
    if (c == INT_MIN)
        return false;
    const weir_desc a = desc_of(m, c), b = desc_of(m, y);
    if (!meets(&a, &b))
        return false;
    op_in(o, c);
    op_in(o, x);
    op_in(o, y);
    return true;
}
static weir_status play_where(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s, (void)o;
    return one(weir_where(in[0], in[1], in[2]), out);
}

/* ---- reductions ---- */

static weir_tensor *reduced(int64_t how, weir_tensor *x, uint32_t dims, bool keep)
{
    switch (how) {
    case 0:  return weir_sum(x, dims, keep);
    case 1:  return weir_mean(x, dims, keep);
    case 2:  return weir_amax(x, dims, keep);
    case 3:  return weir_amin(x, dims, keep);
    case 4:  return weir_prod(x, dims, keep);
    case 5:  return weir_var(x, dims, 0, keep);
    case 6:  return weir_norm(weir_affine(weir_sigmoid(x), 1, 0.1), 2, dims, keep);
    case 7:  return weir_norm(x, 1, dims, keep);
    default: return weir_prod(weir_affine(weir_tanh(x), 0.3, 1), dims, keep);
    }
}

static bool draw_reduce(maker *m, op *o)
{
    const int x = pick(m, ANY, 1, 6);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    const int       bit = type_bit(d.dtype);
    static const int64_t whole[] = {0, 2, 3, 4}, real[] = {0, 0, 1, 1, 2, 3, 5, 6, 7, 8};
    static const int64_t yes[] = {0, 4};
    o->a[0] = bit == BOOL    ? yes[dice_int(&m->r, 0, 1)]
              : bit == WHOLE ? whole[dice_int(&m->r, 0, 3)]
                             : real[dice_int(&m->r, 0, 9)];
    o->a[1] = dice_int(&m->r, 0, (1 << d.ndim) - 1);
    o->a[2] = dice_chance(&m->r, 60);
    op_in(o, x);
    return true;
}
static weir_status play_reduce(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(reduced(o->a[0], in[0], (uint32_t)o->a[1], o->a[2]), out);
}

static bool draw_arg(maker *m, op *o)
{
    const int x = pick(m, FLOAT | WHOLE, 1, 6);
    if (x == INT_MIN)
        return false;
    o->a[0] = dice_int(&m->r, 0, 1);
    o->a[1] = dice_int(&m->r, -1, desc_of(m, x).ndim - 1);
    o->a[2] = dice_chance(&m->r, 50);
    op_in(o, x);
    return true;
}
static weir_status play_arg(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one((o->a[0] ? weir_argmax : weir_argmin)(in[0], (int)o->a[1], o->a[2]), out);
}

static bool draw_scan(maker *m, op *o)
{
    o->a[0] = dice_int(&m->r, 0, 2);
    const int x = pick(m, o->a[0] ? FLOAT : REAL | WHOLE, 1, 6);
    if (x == INT_MIN)
        return false;
    o->a[1] = dice_int(&m->r, -1, desc_of(m, x).ndim - 1);
    o->a[2] = dice_chance(&m->r, 50);
    op_in(o, x);
    return true;
}
static weir_status play_scan(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    const int axis = (int)o->a[1];
    return one(o->a[0] == 0   ? weir_cumsum(in[0], axis, o->a[2])
               : o->a[0] == 1 ? weir_softmax(in[0], axis)
                              : weir_log_softmax(in[0], axis),
               out);
}

/* ---- sources ---- */

static bool draw_source(maker *m, op *o)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16};
    const int x = pick(m, REAL, 0, 5);
    o->a[0] = dice_int(&m->r, 0, 4);
    o->desc[0] = x == INT_MIN ? weir_1d(WEIR_F32, 4) : desc_of(m, x);
    o->desc[0].dtype = dice_chance(&m->r, 60) ? m->p->type : types[dice_int(&m->r, 0, 4)];
    if (o->a[0] == 4)
        o->desc[0] = weir_1d(dice_chance(&m->r, 40) ? WEIR_I32 : o->desc[0].dtype, size_draw(m));
    o->f[0] = dice_real(&m->r, -1, 0);
    return true;
}
static weir_status play_source(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)in;
    weir_device *const d = s->w->d;
    switch (o->a[0]) {
    case 0:  return one(weir_fill(d, o->desc[0], o->f[0]), out);
    case 1:  return one(weir_uniform(d, o->desc[0], o->f[0], 1), out);
    case 2:  return one(weir_normal(d, o->desc[0], o->f[0], 0.5), out);
    case 3:  return one(weir_bernoulli(d, o->desc[0], -o->f[0]), out);
    default: return one(weir_arange(d, o->desc[0].dtype, o->desc[0].dim[0], 0, 1), out);
    }
}

const op_def ops_plain[] = {
    {"unary", 22, draw_unary, play_unary, 0},
    {"calm", 0, draw_tanh, play_tanh, 0},
    {"prelu", 2, draw_prelu, play_prelu, 0},
    {"binary", 18, draw_binary, play_binary, 0},
    {"compare", 3, draw_compare, play_compare, JUMP},
    {"not", 1, draw_not, play_not, JUMP},
    {"where", 3, draw_where, play_where, 0},
    {"reduce", 8, draw_reduce, play_reduce, VIEW},
    {"arg", 2, draw_arg, play_arg, JUMP},
    {"scan", 4, draw_scan, play_scan, 0},
    {"source", 4, draw_source, play_source, 0},
};
const int ops_plain_n = sizeof ops_plain / sizeof *ops_plain;
