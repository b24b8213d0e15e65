/* ops_shape.c - views, copies, casts, joins, paddings and indexing of random programs. */
#include <limits.h>

#include "programs/ops.h"

/* Operations that need nothing but x. */
enum { TURN, FLAT, COPY, DETACH, SQUEEZE, UNSQUEEZE, EXPAND, REPEAT, TILE, CHANGES };

static bool draw_change(maker *m, op *o)
{
    const int x = pick(m, ANY, 1, 5);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    op_in(o, x);
    o->a[0] = dice_int(&m->r, 0, CHANGES - 1);
    o->a[1] = dice_int(&m->r, -1, d.ndim - 1);
    switch (o->a[0]) {
    case SQUEEZE:
        for (int i = 0; i < d.ndim; i++)
            if (d.dim[i] == 1) {
                o->a[1] = i;
                return true;
            }
        o->a[0] = COPY;
        return true;
    case EXPAND:
        o->a[2] = dice_int(&m->r, 1, 3);
        return d.ndim < 5 && elements(&d) < 2000;
    case REPEAT:
    case TILE:
        o->a[2] = dice_int(&m->r, 1, 2);
        return elements(&d) < 1000;
    case DETACH:
        return dice_chance(&m->r, 30);
    case UNSQUEEZE:
        return d.ndim < 5;
    default: return true;
    }
}

static weir_tensor *expanded(weir_tensor *x, int64_t times)
{
    const weir_desc d = weir_tensor_desc(x);
    int64_t         dim[WEIR_MAX_DIMS] = {times};
    for (int i = 0; i < d.ndim; i++)
        dim[i + 1] = dice_int(&(dice){(uint64_t)i}, 0, 1) ? d.dim[i] : -1;
    return weir_expand(x, d.ndim + 1, dim);
}

static weir_status play_change(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    weir_tensor *const x = in[0];
    const int          axis = (int)o->a[1];
    int64_t            times[WEIR_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    switch (o->a[0]) {
    case TURN:      return one(weir_transpose(x, NULL), out);
    case FLAT:      return one(weir_flatten(x), out);
    case COPY:      return one(weir_copy(x), out);
    case DETACH:    return one(weir_detach(x), out);
    case SQUEEZE:   return one(weir_squeeze(x, axis), out);
    case UNSQUEEZE: return one(weir_unsqueeze(x, axis), out);
    case EXPAND:    return one(expanded(x, o->a[2]), out);
    case REPEAT:    return one(weir_repeat(x, axis, o->a[2]), out);
    default:
        times[axis < 0 ? 0 : axis] = o->a[2];
        return one(weir_tile(x, times), out);
    }
}

static bool draw_transpose(maker *m, op *o)
{
    const int x = pick(m, ANY, 2, 5);
    if (x == INT_MIN)
        return false;
    const int n = desc_of(m, x).ndim;
    for (int i = 0; i < n; i++)
        o->a[i] = i;
    for (int i = n - 1; i > 0; i--) {
        const int     j = (int)dice_int(&m->r, 0, i);
        const int64_t t = o->a[i];
        o->a[i] = o->a[j];
        o->a[j] = t;
    }
    op_in(o, x);
    return true;
}
static weir_status play_transpose(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    int axes[WEIR_MAX_DIMS];
    for (int i = 0; i < WEIR_MAX_DIMS; i++)
        axes[i] = (int)o->a[i];
    return one(weir_transpose(in[0], axes), out);
}

/* Factors of the number of elements, in random order. */
static bool draw_reshape(maker *m, op *o)
{
    const int x = pick(m, ANY, 1, 6);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    int64_t         rest = elements(&d);
    const int       ndim = (int)dice_int(&m->r, 1, 4);
    o->a[0] = ndim;
    for (int i = 1; i < ndim; i++) {
        int64_t f = dice_int(&m->r, 1, 8);
        while (f > 1 && rest % f)
            f--;
        o->a[1 + i] = f;
        rest /= f;
    }
    o->a[1] = dice_chance(&m->r, 30) ? -1 : rest;
    op_in(o, x);
    return rest > 0;
}
static weir_status play_reshape(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(weir_reshape(in[0], (int)o->a[0], o->a + 1), out);
}

static bool draw_cast(maker *m, op *o)
{
    static const weir_dtype real[] = {WEIR_F32, WEIR_F32, WEIR_F16, WEIR_BF16, WEIR_F64};
    const int x = pick(m, ANY, 0, 6);
    if (x == INT_MIN)
        return false;
    o->a[0] = dice_chance(&m->r, 80) || m->p->smooth ? real[dice_int(&m->r, 0, 4)]
                                                     : (weir_dtype)dice_int(&m->r, 0, WEIR_BF16);
    if (m->p->smooth && type_bit((weir_dtype)o->a[0]) == HALF)
        o->a[0] = WEIR_F32;
    op_in(o, x);
    return true;
}
static weir_status play_cast(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(weir_cast(in[0], (weir_dtype)o->a[0]), out);
}

/* ---- parts ---- */

/* Up to three axes cut, each as (begin, end, step). */
static bool draw_slice(maker *m, op *o)
{
    const int x = pick(m, ANY, 1, 3);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    for (int i = 0; i < d.ndim; i++) {
        const int64_t n = d.dim[i], a = dice_int(&m->r, 0, n - 1);
        o->a[3 * i] = a;
        o->a[3 * i + 1] = dice_int(&m->r, a + 1, n);
        o->a[3 * i + 2] = dice_chance(&m->r, 70) ? 1 : 2;
        if (dice_chance(&m->r, 12)) {
            o->a[3 * i] = n - 1;
            o->a[3 * i + 1] = INT64_MIN;
            o->a[3 * i + 2] = -1;
        }
    }
    op_in(o, x);
    return true;
}
static weir_status play_slice(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    int64_t begin[WEIR_MAX_DIMS], end[WEIR_MAX_DIMS], step[WEIR_MAX_DIMS];
    for (int i = 0; i < 3; i++) {
        begin[i] = o->a[3 * i];
        end[i] = o->a[3 * i + 1];
        step[i] = o->a[3 * i + 2];
    }
    return one(weir_slice(in[0], begin, end, step), out);
}

static bool draw_narrow(maker *m, op *o)
{
    const int x = pick(m, ANY, 1, 6);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    o->a[0] = dice_int(&m->r, 0, d.ndim - 1);
    const int64_t n = d.dim[o->a[0]];
    o->a[1] = dice_int(&m->r, 0, n - 1);
    o->a[2] = dice_int(&m->r, 1, n - o->a[1]);
    op_in(o, x);
    return true;
}
static weir_status play_narrow(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(weir_narrow(in[0], (int)o->a[0], o->a[1], o->a[2]), out);
}

static bool draw_split(maker *m, op *o)
{
    const int x = pick(m, ANY, 1, 6);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    o->a[0] = dice_int(&m->r, 0, d.ndim - 1);
    const int64_t n = d.dim[o->a[0]];
    if (n < 2)
        return false;
    o->a[1] = dice_int(&m->r, 1, n - 1);
    o->a[2] = n - o->a[1];
    op_in(o, x);
    o->nout = 2;
    return true;
}
static weir_status play_split(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return weir_split(in[0], (int)o->a[0], 2, o->a + 1, out);
}

/* concat or stack of values of one shape, the same one possibly twice */
static bool draw_join(maker *m, op *o)
{
    const int x = pick(m, ANY, 1, 4);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    const int       n = (int)dice_int(&m->r, 1, 3);
    if (elements(&d) > 2000)
        return false;
    op_in(o, x);
    for (int tries = 0; tries < 12 && o->nin < n; tries++) {
        const int       y = pick(m, type_bit(d.dtype), d.ndim, d.ndim);
        const weir_desc e = desc_of(m, y);
        bool            same = e.dtype == d.dtype;
        for (int i = 0; i < d.ndim; i++)
            same = same && e.dim[i] == d.dim[i];
        if (same)
            op_in(o, y);
    }
    o->a[0] = dice_chance(&m->r, 30);
    o->a[1] = dice_int(&m->r, -1, d.ndim - 1);
    return true;
}
static weir_status play_join(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one((o->a[0] ? weir_stack : weir_concat)(o->nin, in, (int)o->a[1]), out);
}

static bool draw_pad(maker *m, op *o)
{
    const int x = pick(m, ANY, 1, 4);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    o->a[0] = dice_int(&m->r, 0, 2);
    for (int i = 0; i < d.ndim; i++) {
        o->a[1 + i] = d.dim[i] > 1 ? dice_int(&m->r, 0, 1) : 0;
        o->a[5 + i] = d.dim[i] > 1 ? dice_int(&m->r, 0, 1) : 0;
    }
    op_in(o, x);
    return true;
}
static weir_status play_pad(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(weir_pad(in[0], o->a + 1, o->a + 5, (weir_pad_mode)o->a[0], 1), out);
}

static bool draw_pixels(maker *m, op *o)
{
    const int x = pick(m, REAL, 4, 4);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    o->a[0] = dice_int(&m->r, 0, 3);
    o->a[1] = dice_int(&m->r, 1, 2);
    o->a[2] = dice_int(&m->r, 1, 2);
    op_in(o, x);
    if (o->a[0] == 2)
        return d.dim[1] % 4 == 0;
    if (o->a[0] == 3)
        return d.dim[2] % 2 == 0 && d.dim[3] % 2 == 0;
    return elements(&d) < 1500;
}
static weir_status play_pixels(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    switch (o->a[0]) {
    case 0:  return one(weir_upsample(in[0], o->a[1], o->a[2]), out);
    case 1:  return one(weir_upsample_bilinear(in[0], o->a[1], o->a[2]), out);
    case 2:  return one(weir_depth_to_space(in[0], 2), out);
    default: return one(weir_space_to_depth(in[0], 2), out);
    }
}

/* ---- indices ---- */

static int new_indices(maker *m, int64_t below)
{
    weir_desc d = weir_1d(dice_chance(&m->r, 50) ? WEIR_I32 : WEIR_I64, size_draw(m));
    if (dice_chance(&m->r, 30)) {
        d.ndim = 2;
        d.dim[1] = dice_int(&m->r, 1, 4);
    }
    return new_leaf(m, LEAF_INPUT, d, DATA_WHOLE, 0, (double)below - 1);
}

static bool draw_gather(maker *m, op *o)
{
    const int table = dice_chance(&m->r, 60)
                          ? new_param(m, 2, (int64_t[]){dice_int(&m->r, 2, 12), size_draw(m)})
                          : pick(m, ANY, 1, 3);
    if (table == INT_MIN)
        return false;
    op_in(o, table);
    op_in(o, new_indices(m, desc_of(m, table).dim[0]));
    return true;
}
static weir_status play_gather(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s, (void)o;
    return one(weir_gather(in[0], in[1]), out);
}

static bool draw_scatter(maker *m, op *o)
{
    const int x = pick(m, FLOAT | WHOLE, 1, 3);
    if (x == INT_MIN)
        return false;
    const weir_desc d = desc_of(m, x);
    const int       index = new_indices(m, d.dim[0]);
    const weir_desc e = desc_of(m, index);
    weir_desc       u = {d.dtype, 0, {0}};
    for (int i = 0; i < e.ndim; i++)
        u.dim[u.ndim++] = e.dim[i];
    for (int i = 1; i < d.ndim; i++)
        u.dim[u.ndim++] = d.dim[i];
    op_in(o, x);
    op_in(o, index);
    op_in(o, type_bit(d.dtype) == WHOLE ? new_leaf(m, LEAF_INPUT, u, DATA_WHOLE, 0, 9)
             : new_real(m, type_bit(d.dtype) == REAL && dice_chance(&m->r, 50) ? LEAF_PARAM
                                                                               : LEAF_INPUT, u));
    return elements(&u) < 4000;
}
static weir_status play_scatter(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s, (void)o;
    return one(weir_scatter_add(in[0], in[1], in[2]), out);
}

static bool draw_one_hot(maker *m, op *o)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F32, WEIR_F64, WEIR_BOOL, WEIR_U8, WEIR_F16};
    o->a[0] = dice_int(&m->r, 2, 9);
    o->a[1] = types[dice_int(&m->r, 0, 5)];
    op_in(o, new_indices(m, o->a[0]));
    return true;
}
static weir_status play_one_hot(stage *s, const op *o, weir_tensor *const *in, weir_tensor **out)
{
    (void)s;
    return one(weir_one_hot(in[0], o->a[0], (weir_dtype)o->a[1]), out);
}

const op_def ops_shape[] = {
    {"change", 8, draw_change, play_change, VIEW | COPIES},
    {"transpose", 4, draw_transpose, play_transpose, VIEW | COPIES},
    {"reshape", 4, draw_reshape, play_reshape, VIEW | COPIES},
    {"cast", 5, draw_cast, play_cast, VIEW | COPIES},
    {"slice", 4, draw_slice, play_slice, VIEW | COPIES},
    {"narrow", 3, draw_narrow, play_narrow, VIEW | COPIES},
    {"split", 2, draw_split, play_split, VIEW | COPIES},
    {"join", 3, draw_join, play_join, VIEW | COPIES},
    {"pad", 2, draw_pad, play_pad, VIEW | COPIES},
    {"pixels", 4, draw_pixels, play_pixels, VIEW},
    {"gather", 4, draw_gather, play_gather, 0},
    {"scatter", 2, draw_scatter, play_scatter, 0},
    {"one_hot", 1, draw_one_hot, play_one_hot, 0},
};
const int ops_shape_n = sizeof ops_shape / sizeof *ops_shape;
