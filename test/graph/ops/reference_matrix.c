/* reference_matrix.c - the reference of products in batches and of attention. */
#include <math.h>
#include <string.h>

#include "graph/ops/reference.h"

/* ---- products: (...,m,k) (...,k,n), leading axes broadcast, vectors as rows and columns ---- */

/* A vector gets the axis it lacks. */
static weir_desc as_matrix(const weir_desc *d, bool column)
{
    if (d->ndim > 1)
        return *d;
    return column ? weir_2d(d->dtype, d->dim[0], 1) : weir_2d(d->dtype, 1, d->dim[0]);
}

/* Axis i of d counted from the last (0), 1 beyond the first. */
static int64_t from_last(const weir_desc *d, int i)
{
    return i < d->ndim ? d->dim[d->ndim - 1 - i] : 1;
}

/* The element of a at the batch of index `at` (of a result with ndim axes), row r, column s. */
static double element(const ref_array *a, const weir_desc *d, const int64_t *at, int ndim,
                      int64_t r, int64_t s)
{
    int64_t index[WEIR_MAX_DIMS];

    for (int i = 0; i < d->ndim - 2; i++)
        index[i] = d->dim[i] == 1 ? 0 : at[ndim - d->ndim + i];
    index[d->ndim - 2] = r;
    index[d->ndim - 1] = s;
    return a->at[ref_ravel(d, index)];
}

/* The product with the axes that vectors were given. */
static ref_array whole_product(const ref_call *c, const weir_desc *a, const weir_desc *b)
{
    const bool    ta = c->o->ta, tb = c->o->tb;
    const int64_t inner = from_last(a, ta);
    weir_desc     d = {.dtype = c->type, .ndim = a->ndim > b->ndim ? a->ndim : b->ndim};

    for (int i = 2; i < d.ndim; i++)
        d.dim[d.ndim - 1 - i] = from_last(a, i) == 1 ? from_last(b, i) : from_last(a, i);
    d.dim[d.ndim - 2] = from_last(a, !ta);
    d.dim[d.ndim - 1] = from_last(b, tb);

    const ref_array out = ref_new(d);
    for (int64_t i = 0; i < ref_count(&d); i++) {
        int64_t     at[WEIR_MAX_DIMS];
        long double sum = 0;
        ref_unravel(&d, i, at);
        const int64_t row = at[d.ndim - 2], col = at[d.ndim - 1];
        for (int64_t k = 0; k < inner; k++)
            sum += (long double)element(&c->in[0], a, at, d.ndim, ta ? k : row, ta ? row : k) *
                   (long double)element(&c->in[1], b, at, d.ndim, tb ? col : k, tb ? k : col);
        out.at[i] = (double)sum;
    }
    return out;
}

void ref_batch_matmul(ref_call *c)
{
    const weir_desc a = as_matrix(&c->in[0].desc, false), b = as_matrix(&c->in[1].desc, true);
    weir_desc       d;

    c->out = whole_product(c, &a, &b);
    d = c->out.desc;
    c->out.desc.ndim = 0;
    for (int i = 0; i < d.ndim; i++)
        if (!(i == d.ndim - 2 && c->in[0].desc.ndim == 1) &&
            !(i == d.ndim - 1 && c->in[1].desc.ndim == 1))
            c->out.desc.dim[c->out.desc.ndim++] = d.dim[i];
}

/* s a b + t c. */
void ref_gemm(ref_call *c)
{
    ref_batch_matmul(c);
    for (int64_t i = 0; i < ref_count(&c->out.desc); i++) {
        c->out.at[i] *= c->o->s;
        if (c->nin < 3)
            continue;

        const weir_desc *const d = &c->in[2].desc;
        int64_t                at[WEIR_MAX_DIMS], place = 0;
        ref_unravel(&c->out.desc, i, at);
        for (int k = 0; k < d->ndim; k++) {
            const int64_t index = at[c->out.desc.ndim - d->ndim + k];
            place = place * d->dim[k] + (d->dim[k] == 1 ? 0 : index);
        }
        c->out.at[i] += c->o->t * c->in[2].at[place];
    }
}

/* ---- einsum: one loop per letter ---- */

/* Position in array k of `a` at the values of all letters, as its term of the equation says. */
static int64_t at_letters(const weir_desc *d, const char *term, const int64_t *value)
{
    int64_t place = 0;
    for (int i = 0; i < d->ndim; i++)
        place = place * d->dim[i] + value[term[i] - 'a'];
    return place;
}

void ref_einsum(ref_call *c)
{
    const char *const comma = strchr(c->o->equation, ',');
    const char *const term[] = {c->o->equation, comma ? comma + 1 : NULL};
    const char *const result = strstr(c->o->equation, "->") + 2;
    int64_t           size[26], value[26], loops = 1;
    weir_desc         d = {.dtype = c->type, .ndim = (int)strlen(result)};

    for (int l = 0; l < 26; l++)
        size[l] = 1;
    for (int k = 0; k < c->nin; k++)
        for (int i = 0; i < c->in[k].desc.ndim; i++)
            size[term[k][i] - 'a'] = c->in[k].desc.dim[i];
    for (int i = 0; i < d.ndim; i++)
        d.dim[i] = size[result[i] - 'a'];
    for (int l = 0; l < 26; l++)
        loops *= size[l];
    c->out = ref_new(d);
    for (int64_t n = 0; n < loops; n++) {
        int64_t rest = n;
        double  product = 1;
        for (int l = 0; l < 26; l++) {
            value[l] = rest % size[l];
            rest /= size[l];
        }
        for (int k = 0; k < c->nin; k++)
            product *= c->in[k].at[at_letters(&c->in[k].desc, term[k], value)];
        c->out.at[at_letters(&d, result, value)] += product;
    }
}

/* ---- attention: q (b,t,h*d), k (b,s,kv*d), v (b,s,kv*e), then a mask or lengths; or q, k and v
 * side by side ---- */

typedef struct heads {
    const ref_call  *c;
    const ref_array *q, *k, *v, *mask, *lengths;
    int64_t          h, kv, d, e, t, s, b;
    int64_t          to_k, to_v;        /* columns before k and v */
} heads;

static heads heads_of(const ref_call *c)
{
    const ref_array *const last = &c->in[c->nin - 1], *const more = c->nin > 3 ? last : NULL;
    const bool             packed = c->nin == 1;
    heads x = {.c = c, .q = &c->in[0], .k = &c->in[packed ? 0 : 1], .v = &c->in[packed ? 0 : 2]};
    const bool lengths = more && (more->desc.dtype == WEIR_I32 || more->desc.dtype == WEIR_I64);

    *(lengths ? &x.lengths : &x.mask) = more;
    x.h = c->o->heads;
    x.kv = c->o->kv_heads ? c->o->kv_heads : x.h;
    x.b = x.q->desc.dim[0];
    x.t = x.q->desc.dim[1];
    x.s = x.k->desc.dim[1];
    x.d = x.q->desc.dim[2] / (packed ? x.h + 2 * x.kv : x.h);
    x.e = packed ? x.d : x.v->desc.dim[2] / x.kv;
    x.to_k = packed ? x.h * x.d : 0;
    x.to_v = packed ? (x.h + x.kv) * x.d : 0;
    return x;
}

static long double column(const ref_array *a, int64_t b, int64_t r, int64_t k)
{
    return (long double)a->at[ref_ravel(&a->desc, (int64_t[]){b, r, k})];
}

/* Does row r of q see row j of k? */
static bool sees(const heads *x, int64_t b, int64_t r, int64_t j)
{
    const ref_options *const o = x->c->o;
    int64_t                  n = x->lengths ? (int64_t)x->lengths->at[b] : x->s;

    n = n > x->s ? x->s : n;
    return j < n && !(o->causal && j > r) && !(o->causal_last && j > r + n - x->t);
}

/* exp of the score of row r and key j, 0 if it is hidden. The maximum need not be subtracted first:
 * the tests' scores are small. */
static long double weight(const heads *x, int64_t b, int64_t h, int64_t r, int64_t j)
{
    const int64_t    from = h / (x->h / x->kv), at[] = {b, h, r, j};
    const double     s = x->c->o->s;
    long double      sum = 0, add = 0;

    for (int64_t k = 0; k < x->d; k++)
        sum += column(x->q, b, r, h * x->d + k) * column(x->k, b, j, x->to_k + from * x->d + k);
    sum *= s != 0 ? (long double)s : x->d > 0 ? 1 / sqrtl((long double)x->d) : 1;
    if (x->mask) {
        const weir_desc *const m = &x->mask->desc;
        int64_t                i[4];
        for (int axis = 0; axis < m->ndim; axis++)
            i[axis] = m->dim[axis] == 1 ? 0 : at[4 - m->ndim + axis];
        add = (long double)x->mask->at[ref_ravel(m, i)];
        if (m->dtype == WEIR_BOOL)
            add = add != 0 ? 0 : -(long double)INFINITY;
    }
    return sees(x, b, r, j) ? expl(sum + add) : 0;
}

void ref_attention(ref_call *c)
{
    const heads   x = heads_of(c);
    const int64_t columns = x.h * x.e;

    c->out = ref_new((weir_desc){c->type, 3, {x.b, x.t, columns}});
    for (int64_t i = 0; i < x.b * x.t * x.h; i++) {
        const int64_t h = i % x.h, r = i / x.h % x.t, b = i / x.h / x.t;
        double *const y = c->out.at + (b * x.t + r) * columns + h * x.e;
        long double   total = 0;
        for (int64_t j = 0; j < x.s; j++)
            total += weight(&x, b, h, r, j);
        for (int64_t j = 0; j < x.s && total > 0; j++) {
            const long double p = weight(&x, b, h, r, j) / total;
            for (int64_t k = 0; k < x.e; k++)
                y[k] += (double)(p * column(x.v, b, j, x.to_v + h / (x.h / x.kv) * x.e + k));
        }
    }
}
