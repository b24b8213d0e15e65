/* value_ranges.c - what is known of the values that ops make, and the encoding that follows (an
 * abstract interpretation over intervals of whole numbers: Cousot and Cousot, 1977).
 *
 * A budget is a guarantee, so a compressed form counts only if its size is known before the step
 * runs: for any data, every value has a code that restores exactly that value. This follows from
 * the possible results of an op: the winners of max-pooling are less than the window's cells,
 * comparisons are 0 or 1, casts make values of their source's type. From there the least and
 * largest whole number are followed through ops that move, select, add and multiply them. A float
 * that could be -0 or NaN is not whole. The forms are those of Gist (Jain and others, ISCA 2018)
 * that are lossless and whose size does not depend on the data: bits for signs (relu_sign_bits.c),
 * four bits for winners; Gist's sparse form is not among them. */
#include "graph/memory/budget/value_ranges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"

typedef struct weir_value_range {
    enum { KNOWN_NOTHING, KNOWN_WHOLE, KNOWN_BF16, KNOWN_F16, KNOWN_F32 } what;
    int64_t lo, hi;             /* KNOWN_WHOLE: bounds, both included */
} weir_value_range;

static const weir_value_range nothing = {KNOWN_NOTHING, 0, 0};

/* What the type alone implies. i64 and u64 have no range: sums below stay within an int64. */
static weir_value_range of_type(weir_dtype t)
{
    return weir_is_any_float(t) || weir_dtype_size(t) == 8 || t == WEIR_BOOL
               ? nothing
               : (weir_value_range){KNOWN_WHOLE, weir_integer_least(t), weir_integer_most(t)};
}

/* Whole numbers lo..hi if the type represents them all; what the type implies if values could wrap
 * or be rounded. */
static weir_value_range whole(weir_dtype t, int64_t lo, int64_t hi)
{
    static const int64_t floats[WEIR_DTYPES] = {
        [WEIR_F32] = (int64_t)1 << 24, [WEIR_F64] = (int64_t)1 << 53, [WEIR_F16] = 1 << 11,
        [WEIR_BF16] = 1 << 8};
    const bool    wide = !weir_is_any_float(t) && weir_dtype_size(t) == 8;
    const int64_t most = wide ? (int64_t)1 << 53 : floats[t] ? floats[t] : weir_integer_most(t);
    const int64_t least = wide && !weir_is_unsigned(t) ? -most
                          : floats[t]                  ? -most
                                                       : weir_integer_least(t);

    return lo >= least && hi <= most ? (weir_value_range){KNOWN_WHOLE, lo, hi} : of_type(t);
}

/* One known number; what the type implies for -0 and fractions. */
static weir_value_range number(weir_dtype t, double v)
{
    return fabs(v) <= 0x1p53 && v == floor(v) && !(v == 0 && signbit(v))
               ? whole(t, (int64_t)v, (int64_t)v)
               : of_type(t);
}

/* The union of two ranges. */
static weir_value_range either(weir_value_range a, weir_value_range b)
{
    if (a.what == KNOWN_WHOLE && b.what == KNOWN_WHOLE)
        return (weir_value_range){KNOWN_WHOLE, a.lo < b.lo ? a.lo : b.lo,
                                  a.hi > b.hi ? a.hi : b.hi};
    return a.what == b.what ? a : nothing;
}

/* ---- rules: the range of output o of a call from those of its inputs ---- */

typedef weir_value_range (*weir_rule)(const weir_call *c, const weir_value_range *in, int o);

static weir_dtype type_of(const weir_call *c, int o)
{
    return c->out[o].desc.dtype;
}

static weir_value_range rule_bit(const weir_call *c, const weir_value_range *in, int o)
{
    (void)in;
    return whole(type_of(c, o), 0, 1);
}

static weir_value_range rule_same(const weir_call *c, const weir_value_range *in, int o)
{
    (void)c;
    (void)o;
    return in[0];
}

static weir_value_range rule_any(const weir_call *c, const weir_value_range *in, int o)
{
    weir_value_range k = in[0];

    (void)o;
    for (int i = 1; i < c->nin; i++)
        k = either(k, in[i]);
    return k;
}

static weir_value_range rule_where(const weir_call *c, const weir_value_range *in, int o)
{
    (void)c;
    (void)o;
    return either(in[1], in[2]);
}

static weir_value_range rule_slice_scatter(const weir_call *c, const weir_value_range *in, int o)
{
    const weir_slice_attr *const a = c->attr;
    return either(in[0], number(type_of(c, o), a->value));
}

static weir_value_range rule_fill(const weir_call *c, const weir_value_range *in, int o)
{
    const weir_fill_attr *const a = c->attr;
    (void)in;
    return number(type_of(c, o), a->value);
}

static weir_value_range rule_arange(const weir_call *c, const weir_value_range *in, int o)
{
    const weir_arange_attr *const a = c->attr;
    const double                  last = a->start + (double)(a->count - 1) * a->step;
    const weir_value_range first = number(WEIR_F64, a->start), step = number(WEIR_F64, a->step);

    (void)in;
    if (a->count < 1 || first.what != KNOWN_WHOLE || step.what != KNOWN_WHOLE ||
        fabs(last) > 0x1p52)
        return of_type(type_of(c, o));
    return whole(type_of(c, o), (int64_t)fmin(a->start, last), (int64_t)fmax(a->start, last));
}

/* The result is an index into the reduced axes. */
static weir_value_range rule_arg(const weir_call *c, const weir_value_range *in, int o)
{
    const weir_reduce_attr *const a = c->attr;
    int64_t                       n = 1;

    (void)in;
    for (int i = 0; i < c->in[0].desc.ndim; i++)
        n *= a->dims >> i & 1 ? c->in[0].desc.dim[i] : 1;
    return whole(type_of(c, o), 0, n > 0 ? n - 1 : 0);
}

/* The winner is a cell of the window; the largest value is a value of the input. */
static weir_value_range rule_max_pool2d(const weir_call *c, const weir_value_range *in, int o)
{
    const weir_pool2d_attr *const a = c->attr;
    if (o == 0)
        return in[0].what == KNOWN_WHOLE ? in[0] : nothing;
    return whole(type_of(c, o), 0, a->kernel[0] * a->kernel[1] - 1);
}

static weir_value_range rule_cast(const weir_call *c, const weir_value_range *in, int o)
{
    const weir_dtype from = c->in[0].desc.dtype, to = type_of(c, o);

    if (to == WEIR_BOOL || from == WEIR_BOOL)
        return whole(to, 0, 1);
    if (in[0].what == KNOWN_WHOLE)
        return whole(to, in[0].lo, in[0].hi);
    if (!weir_is_float(to) || !weir_is_any_float(from))
        return of_type(to);
    if (weir_is_half(from))
        return (weir_value_range){from == WEIR_BF16 ? KNOWN_BF16 : KNOWN_F16, 0, 0};
    if (in[0].what == KNOWN_BF16 || in[0].what == KNOWN_F16)
        return in[0];
    return from == WEIR_F32 && to == WEIR_F64 ? (weir_value_range){KNOWN_F32, 0, 0} : nothing;
}

/* Sums of whole numbers are never -0; a product with a negative factor may be. */

static weir_value_range rule_relu(const weir_call *c, const weir_value_range *in, int o)
{
    (void)c;
    (void)o;
    return in[0].what == KNOWN_WHOLE ? (weir_value_range){KNOWN_WHOLE, in[0].lo > 0 ? in[0].lo : 0,
                                                          in[0].hi > 0 ? in[0].hi : 0}
                                     : in[0];
}

static bool both_small(const weir_value_range *in)
{
    const int64_t most = (int64_t)1 << 26;
    return in[0].what == KNOWN_WHOLE && in[1].what == KNOWN_WHOLE && in[0].lo >= -most &&
           in[1].lo >= -most && in[0].hi <= most && in[1].hi <= most;
}

static weir_value_range rule_add(const weir_call *c, const weir_value_range *in, int o)
{
    return both_small(in) ? whole(type_of(c, o), in[0].lo + in[1].lo, in[0].hi + in[1].hi)
                          : of_type(type_of(c, o));
}

static weir_value_range rule_sub(const weir_call *c, const weir_value_range *in, int o)
{
    return both_small(in) ? whole(type_of(c, o), in[0].lo - in[1].hi, in[0].hi - in[1].lo)
                          : of_type(type_of(c, o));
}

static weir_value_range rule_mul(const weir_call *c, const weir_value_range *in, int o)
{
    return both_small(in) && in[0].lo >= 0 && in[1].lo >= 0
               ? whole(type_of(c, o), in[0].lo * in[1].lo, in[0].hi * in[1].hi)
               : of_type(type_of(c, o));
}

/* s * a is -0 only if s <= 0; adding a t other than 0 removes it. */
static weir_value_range rule_affine(const weir_call *c, const weir_value_range *in, int o)
{
    const weir_ew_attr *const a = c->attr;
    const weir_value_range    factor = number(WEIR_F64, a->s), term = number(WEIR_F64, a->t + 0.0);
    const weir_value_range    of[2] = {in[0], factor};

    if (factor.what != KNOWN_WHOLE || term.what != KNOWN_WHOLE || !both_small(of) ||
        llabs(term.lo) > 1 << 26 || (term.lo == 0 && factor.lo <= 0))
        return of_type(type_of(c, o));
    const int64_t x = in[0].lo * factor.lo, y = in[0].hi * factor.lo;
    if (whole(type_of(c, o), x < y ? x : y, x < y ? y : x).what != KNOWN_WHOLE)
        return nothing;             /* the product is rounded before the sum */
    return whole(type_of(c, o), (x < y ? x : y) + term.lo, (x < y ? y : x) + term.lo);
}

static const weir_rule rules[WEIR_OP_COUNT] = {
    [WEIR_OP_EQ] = rule_bit,
    [WEIR_OP_NE] = rule_bit,
    [WEIR_OP_LT] = rule_bit,
    [WEIR_OP_LE] = rule_bit,
    [WEIR_OP_GT] = rule_bit,
    [WEIR_OP_GE] = rule_bit,
    [WEIR_OP_LOGICAL_AND] = rule_bit,
    [WEIR_OP_LOGICAL_OR] = rule_bit,
    [WEIR_OP_LOGICAL_XOR] = rule_bit,
    [WEIR_OP_LOGICAL_NOT] = rule_bit,
    [WEIR_OP_ONE_HOT] = rule_bit,
    [WEIR_OP_BERNOULLI] = rule_bit,
    [WEIR_OP_RESHAPE] = rule_same,
    [WEIR_OP_TRANSPOSE] = rule_same,
    [WEIR_OP_BROADCAST] = rule_same,
    [WEIR_OP_DETACH] = rule_same,
    [WEIR_OP_COPY] = rule_same,
    [WEIR_OP_SLICE] = rule_same,
    [WEIR_OP_CONCAT] = rule_any,
    [WEIR_OP_WHERE] = rule_where,
    [WEIR_OP_SLICE_SCATTER] = rule_slice_scatter,
    [WEIR_OP_FILL] = rule_fill,
    [WEIR_OP_ARANGE] = rule_arange,
    [WEIR_OP_CAST] = rule_cast,
    [WEIR_OP_ARGMAX] = rule_arg,
    [WEIR_OP_ARGMIN] = rule_arg,
    [WEIR_OP_MAX_POOL2D] = rule_max_pool2d,
    [WEIR_OP_RELU] = rule_relu,
    [WEIR_OP_ADD] = rule_add,
    [WEIR_OP_SUB] = rule_sub,
    [WEIR_OP_MUL] = rule_mul,
    [WEIR_OP_AFFINE] = rule_affine,
    [WEIR_OP_MAX] = rule_any,
    [WEIR_OP_MIN] = rule_any,
};

/* Returns the range after a conversion from one layout's type to the other's. */
static weir_value_range converted(weir_value_range k, const weir_layout *from, weir_layout *to)
{
    const weir_call c = {.op = WEIR_OP_CAST, .nin = 1, .nout = 1, .in = from, .out = to};

    return from->desc.dtype == to->desc.dtype ? k : rule_cast(&c, &k, 0);
}

/* Returns the range of f32 values after rounding to a half type. */
static weir_value_range rounded(weir_value_range k, const weir_layout *from, weir_dtype half)
{
    weir_layout to = *from;

    to.desc.dtype = half;
    return converted(k, from, &to);
}

/* Returns the range of output o of a fused group, computed member by member. */
static weir_value_range of_group(const weir_call *c, const weir_value_range *in, int o)
{
    const weir_ew_program *const p = c->attr;
    weir_value_range             made[WEIR_EW_MAX_STEPS], from[WEIR_MAX_IN];
    weir_layout                  computed = c->out[0];

    computed.desc.dtype = (weir_dtype)p->type;
    for (int64_t i = 0; i <= p->out[o]; i++) {
        const weir_ew_step *const s = &p->step[i];
        const weir_ew_attr        attr = {s->s, s->t};
        const weir_call call = {.op = (weir_op)s->op, .nin = weir_row_nin((weir_op)s->op),
                                .out = &computed, .attr = &attr, .attr_bytes = sizeof attr};
        for (int k = 0; k < call.nin; k++)
            from[k] = s->src[k] < p->nin ? converted(in[s->src[k]], &c->in[s->src[k]], &computed)
                                         : made[s->src[k] - p->nin];
        made[i] = rules[s->op] ? rules[s->op](&call, from, 0) : nothing;
        if (weir_is_half((weir_dtype)s->rounds))
            made[i] = rounded(made[i], &computed, (weir_dtype)s->rounds);
    }
    return converted(made[p->out[o]], &computed, &c->out[o]);
}

/* ---- codes ---- */

static int64_t bits_for(uint64_t largest)
{
    int64_t bits = 1;

    while (bits < 64 && largest >> bits != 0)
        bits *= 2;
    return bits;
}

/* Returns the encoding of values in the range; 0 bits if none is shorter than the values. */
static weir_pack_attr pack_for(weir_value_range k, const weir_desc *d)
{
    static const struct { int64_t kind, bits; } floats[] = {
        [KNOWN_BF16] = {WEIR_PACK_BF16, 16}, [KNOWN_F16] = {WEIR_PACK_F16, 16},
        [KNOWN_F32] = {WEIR_PACK_F32, 32}};
    weir_pack_attr a = {.dtype = d->dtype, .count = weir_shape_count(d)};

    if (k.what == KNOWN_WHOLE) {
        a.kind = WEIR_PACK_WHOLE;
        a.base = k.lo;
        a.bits = bits_for((uint64_t)(k.hi - k.lo));
    } else if (k.what != KNOWN_NOTHING) {
        a.kind = floats[k.what].kind;
        a.bits = floats[k.what].bits;
    }
    return (size_t)a.bits < 8 * weir_dtype_size(d->dtype) && !weir_is_stored(d->dtype)
               ? a
               : (weir_pack_attr){0};
}

/* Finds the ranges and encodings of node i's outputs, by storage. */
static void follow(const weir_graph *g, uint32_t i, weir_value_range *known, weir_pack_attr *pack)
{
    const weir_node *n = &g->nodes.at[i];
    weir_layout      in_layout[WEIR_EW_MAX_IN], out_layout[WEIR_MAX_OUT];
    const weir_call  c = weir_node_call(g, n, in_layout, out_layout);
    weir_value_range in[WEIR_EW_MAX_IN] = {{KNOWN_NOTHING, 0, 0}};

    for (int k = 0; k < n->nin; k++)
        in[k] = g->storages.at[weir_storage_of(g, n->in[k])].external
                    ? of_type(in_layout[k].desc.dtype)
                    : known[weir_storage_of(g, n->in[k])];
    for (int o = 0; o < n->nout; o++) {
        const weir_value   *v = &g->values.at[n->out[o]];
        const weir_storage *s = &g->storages.at[v->storage];
        known[v->storage] = n->op == WEIR_OP_FUSED ? of_group(&c, in, o)
                            : rules[n->op]         ? rules[n->op](&c, in, o)
                                                   : of_type(v->layout.desc.dtype);
        if (!s->external && v->offset == 0 && weir_shape_is_dense(&v->layout) &&
            s->bytes == weir_shape_bytes(&v->layout.desc))
            pack[v->storage] = pack_for(known[v->storage], &v->layout.desc);
    }
}

/* Marks tensors that may be rounded: f32, made in the forward pass and read later. Small ones are
 * statistics and sums, and stay exact. */
static void round_waiting(const weir_graph *g, uint8_t *forward, weir_pack_attr *pack)
{
    enum { LEAST = 4 * WEIR_QUANT_GROUP };

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        for (int o = 0; o < n->nout && n->phase == WEIR_FORWARD; o++) {
            const weir_value   *v = &g->values.at[n->out[o]];
            const weir_storage *s = &g->storages.at[v->storage];
            forward[v->storage] = !s->external && v->layout.desc.dtype == WEIR_F32 &&
                                  s->bytes >= LEAST * sizeof(float);
        }
        for (int k = 0; k < n->nin && n->phase != WEIR_FORWARD; k++) {
            const uint32_t s = weir_storage_of(g, n->in[k]);
            if (forward[s] && (pack[s].bits == 0 || pack[s].bits > g->lossy))
                pack[s] = (weir_pack_attr){
                    .kind = WEIR_PACK_GROUPS, .dtype = WEIR_F32, .bits = g->lossy,
                    .count = (int64_t)(g->storages.at[s].bytes / sizeof(float))};
        }
    }
}

weir_status weir_value_ranges_pack(const weir_graph *g, weir_pack_attr **pack)
{
    weir_value_range *const known = weir_mem_zalloc(g->storages.n + 1u, sizeof *known);
    uint8_t *const    forward = weir_mem_zalloc(g->storages.n + 1u, 1);

    *pack = weir_mem_zalloc(g->storages.n + 1u, sizeof **pack);
    for (uint32_t i = 0; i < g->nodes.n && known && *pack; i++)
        follow(g, i, known, *pack);
    const weir_status status = known && *pack && forward ? WEIR_OK : WEIR_ERR_NOMEM;
    if (status == WEIR_OK && g->lossy)
        round_waiting(g, forward, *pack);
    weir_mem_free(known);
    weir_mem_free(forward);
    if (status != WEIR_OK) {
        weir_mem_free(*pack);
        *pack = NULL;
    }
    return status;
}
