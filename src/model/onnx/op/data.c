/* data.c - operators whose results are as large as elements say: Compress, NonZero, Unique,
 * NonMaxSuppression. A recorded graph has fixed shapes, so these elements must be known; all but
 * Compress are then computed on the host. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/onnx/op/ops.h"

/* A list of indices as a tensor. Frees it. */
static weir_tensor *indices(weir_onnx_call *c, int64_t *list, int64_t rows, int64_t columns)
{
    const weir_desc    d = rows < 0 ? weir_1d(WEIR_I64, columns) : weir_2d(WEIR_I64, rows, columns);
    weir_tensor *const t = list ? weir_onnx_constant(c, d, list) : NULL;

    weir_host_free(list);
    return t;
}

static bool is_set(const weir_desc *d, const void *at, size_t i)
{
    const double v = weir_onnx_element(d->dtype, at, i);
    return !(v == 0);
}

/* The elements of an axis, or of x as one axis, where the condition is true. */
weir_status weir_onnx_compress(weir_onnx_call *c)
{
    weir_tensor      *x = weir_onnx_x(c, 0);
    weir_desc         on;
    const bool *const at = weir_onnx_known(c, 1, &on);
    const bool        flat = !weir_onnx_attr_of(c, "axis");
    int               axis = 0;
    int64_t           n = 0;

    if (!x || !at)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    if (!flat)
        WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", 0), d.ndim, &axis));
    const int64_t all = flat ? weir_onnx_product(&d, 0, d.ndim) : d.dim[axis];
    if (on.ndim != 1 || on.dtype != WEIR_BOOL)
        return weir_onnx_refuse(c, "a condition of %s with %d axes", weir_dtype_name(on.dtype),
                                on.ndim);
    int64_t *const list = weir_host_alloc((size_t)on.dim[0] * sizeof *list + 1);
    for (int64_t i = 0; list && i < on.dim[0] && i < all; i++)
        if (is_set(&on, at, (size_t)i))
            list[n++] = i;
    weir_tensor *const index = indices(c, list, -1, n);
    x = flat ? weir_reshape(x, 1, &all) : x;
    return weir_onnx_give(c, 0, index ? weir_onnx_gather_axis(x, index, axis) : NULL);
}

/* The places of elements other than 0, a column each. */
weir_status weir_onnx_non_zero(weir_onnx_call *c)
{
    weir_desc         d;
    const void *const at = weir_onnx_known(c, 0, &d);
    int64_t           n = 0, k = 0;

    if (!at)
        return weir_error_status();
    const size_t all = weir_onnx_elements(&d);
    for (size_t i = 0; i < all; i++)
        n += is_set(&d, at, i);
    int64_t *const list = weir_host_alloc((size_t)(n * d.ndim) * sizeof *list + 1);
    for (size_t i = 0; list && i < all; i++) {
        if (!is_set(&d, at, i))
            continue;
        int64_t rest = (int64_t)i;
        for (int axis = d.ndim; axis-- > 0; rest /= d.dim[axis])
            list[axis * n + k] = rest % d.dim[axis];
        k++;
    }
    return weir_onnx_give(c, 0, indices(c, list, d.ndim, n));
}

/* ---- Unique: slices along an axis, in order of their elements ---- */

typedef struct slices {
    const void *at;
    weir_desc   d;
    int         axis;
    int64_t     count, outer, inner; /* slices; elements in front of the axis and behind it */
} slices;

typedef struct slice {
    const slices *of;
    int64_t       i;
} slice;

static size_t place_in(const slices *s, int64_t i, int64_t element)
{
    const int64_t outer = element / s->inner, inner = element % s->inner;
    return (size_t)((outer * s->count + i) * s->inner + inner);
}

/* -1, 0 or 1; NaN stands behind all numbers. */
static int compare_elements(const slices *s, size_t a, size_t b)
{
    const weir_dtype t = s->d.dtype;

    if (t == WEIR_F32 || t == WEIR_F64 || t == WEIR_F16 || t == WEIR_BF16) {
        const double x = weir_onnx_element(t, s->at, a), y = weir_onnx_element(t, s->at, b);
        return x != x || y != y ? (x != x) - (y != y) : (x > y) - (x < y);
    }
    const int64_t x = weir_onnx_integer(t, s->at, a), y = weir_onnx_integer(t, s->at, b);
    if (t == WEIR_U64)
        return ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y);
    return (x > y) - (x < y);
}

static int compare_slices(const slices *s, int64_t a, int64_t b)
{
    for (int64_t k = 0; k < s->outer * s->inner; k++) {
        const int order = compare_elements(s, place_in(s, a, k), place_in(s, b, k));
        if (order != 0)
            return order;
    }
    return 0;
}

/* For qsort: equal slices in their own order. */
static int by_elements(const void *a, const void *b)
{
    const slice *const x = a, *const y = b;
    const int          order = compare_slices(x->of, x->i, y->i);
    return order ? order : (x->i > y->i) - (x->i < y->i);
}

static int by_place(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Of each different slice: its first place, how often it is there; of each slice: its number. */
typedef struct found {
    int64_t *first, *inverse, *times;
    int64_t  n;
} found;

/* Numbers by first place instead of by order: `inverse` has first places for a while. */
static void number_by_place(const slices *s, found *f)
{
    for (int64_t i = 0; i < s->count; i++)
        f->inverse[i] = f->first[f->inverse[i]];
    qsort(f->first, (size_t)f->n, sizeof *f->first, by_place);
    memset(f->times, 0, (size_t)f->n * sizeof *f->times);
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t *const at = bsearch(&f->inverse[i], f->first, (size_t)f->n,
                                          sizeof *f->first, by_place);
        f->inverse[i] = at - f->first;
        f->times[f->inverse[i]]++;
    }
}

static void find_unique(const slices *s, slice *order, found *f, bool sorted)
{
    for (int64_t i = 0; i < s->count; i++)
        order[i] = (slice){s, i};
    qsort(order, (size_t)s->count, sizeof *order, by_elements);
    for (int64_t k = 0; k < s->count; k++) {
        const int64_t i = order[k].i;
        if (k == 0 || compare_slices(s, order[k - 1].i, i) != 0)
            f->first[f->n++] = i;
        f->inverse[i] = f->n - 1;
        f->times[f->n - 1]++;
    }
    if (!sorted)
        number_by_place(s, f);
}

/* The different slices, one after the other along the axis. */
static weir_tensor *slices_at(weir_onnx_call *c, const slices *s, const found *f)
{
    const size_t  size = weir_dtype_size(s->d.dtype);
    weir_desc     d = s->d;
    const slices  to = {.count = f->n, .inner = s->inner};
    const int64_t each = s->outer * s->inner;
    char *const   v = weir_host_alloc((size_t)(each * f->n) * size + 1);

    for (int64_t k = 0; v && k < f->n; k++)
        for (int64_t e = 0; e < each; e++)
            memcpy(v + place_in(&to, k, e) * size,
                   (const char *)s->at + place_in(s, f->first[k], e) * size, size);
    d.dim[s->axis] = f->n;
    weir_tensor *const t = v ? weir_onnx_constant(c, d, v) : NULL;
    weir_host_free(v);
    return t;
}

weir_status weir_onnx_unique(weir_onnx_call *c)
{
    slices s = {.outer = 1, .inner = 1};
    found  f = {0};

    if (!(s.at = weir_onnx_known(c, 0, &s.d)))
        return weir_error_status();
    if (!weir_onnx_attr_of(c, "axis"))
        s.d = weir_1d(s.d.dtype, weir_onnx_product(&s.d, 0, s.d.ndim));
    else
        WEIR_TRY(weir_onnx_axis(c, weir_onnx_int(c, "axis", 0), s.d.ndim, &s.axis));
    s.count = s.d.dim[s.axis];
    s.outer = weir_onnx_product(&s.d, 0, s.axis);
    s.inner = weir_onnx_product(&s.d, s.axis + 1, s.d.ndim);
    const size_t bytes = (size_t)s.count * sizeof *f.first + 1;
    slice *const order = weir_host_alloc((size_t)s.count * sizeof *order + 1);
    f.first = weir_host_alloc(bytes);
    f.inverse = weir_host_alloc(bytes);
    f.times = weir_host_alloc(bytes);
    const bool   there = order && f.first && f.inverse && f.times;
    weir_tensor *y = NULL;
    if (there) {
        find_unique(&s, order, &f, weir_onnx_int(c, "sorted", 1) != 0);
        y = slices_at(c, &s, &f);
    }
    weir_host_free(order);
    weir_status status = weir_onnx_give(c, 0, y);
    int64_t    *list[] = {f.first, f.inverse, f.times};
    for (size_t i = 0; i < 3; i++) {
        if (status == WEIR_OK && weir_onnx_wants(c, i + 1))
            status = weir_onnx_give(c, i + 1, indices(c, list[i], -1, i == 1 ? s.count : f.n));
        else
            weir_host_free(list[i]);
    }
    return status;
}

/* ---- NonMaxSuppression ---- */

typedef struct box {
    double  low[2], high[2], score;
    int64_t i;
} box;

typedef struct suppression {
    weir_desc   boxes, scores;
    const void *box, *score;
    double      most, overlap, least; /* boxes of a class; the shared part; the score, NaN: any */
    bool        centred;              /* boxes are centre and size, not two corners */
} suppression;

static box box_at(const suppression *s, int64_t image, int64_t class, int64_t i)
{
    const size_t  at = (size_t)((image * s->boxes.dim[1] + i) * 4);
    const int64_t score = (image * s->scores.dim[1] + class) * s->scores.dim[2] + i;
    box           b = {.i = i};

    for (size_t k = 0; k < 2; k++) {
        const double x = weir_onnx_element(s->boxes.dtype, s->box, at + k);
        const double y = weir_onnx_element(s->boxes.dtype, s->box, at + 2 + k);
        b.low[k] = s->centred ? x - y / 2 : x < y ? x : y;
        b.high[k] = s->centred ? x + y / 2 : x < y ? y : x;
    }
    b.score = weir_onnx_element(s->scores.dtype, s->score, (size_t)score);
    return b;
}

static double area(const box *b)
{
    return (b->high[0] - b->low[0]) * (b->high[1] - b->low[1]);
}

/* Whether the shared part of two boxes is more than `most` of what they cover together. */
static bool overlap(const box *a, const box *b, double most)
{
    double shared = 1;

    for (int k = 0; k < 2; k++) {
        const double low = a->low[k] > b->low[k] ? a->low[k] : b->low[k];
        const double high = a->high[k] < b->high[k] ? a->high[k] : b->high[k];
        if (!(high > low))
            return false;
        shared *= high - low;
    }
    const double both = area(a) + area(b) - shared;
    return area(a) > 0 && area(b) > 0 && both > 0 && shared / both > most;
}

static int by_score(const void *a, const void *b)
{
    const box *const x = a, *const y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

/* The boxes of a class that stay are moved to the front of `list`. Returns their number. */
static int64_t keep_best(const suppression *s, int64_t image, int64_t class, box *list)
{
    int64_t n = 0, kept = 0;

    for (int64_t i = 0; i < s->boxes.dim[1]; i++) {
        list[n] = box_at(s, image, class, i);
        n += !(list[n].score <= s->least) && list[n].score == list[n].score;
    }
    qsort(list, (size_t)n, sizeof *list, by_score);
    for (int64_t i = 0; i < n && (double)kept < s->most; i++) {
        bool free = true;
        for (int64_t k = 0; k < kept && free; k++)
            free = !overlap(&list[k], &list[i], s->overlap);
        if (free)
            list[kept++] = list[i];
    }
    return kept;
}

static weir_status read_suppression(weir_onnx_call *c, suppression *s)
{
    *s = (suppression){.centred = weir_onnx_int(c, "center_point_box", 0) != 0,
                       .least = -(double)__builtin_inff()};
    double *const number[] = {&s->most, &s->overlap, &s->least};

    if (!(s->box = weir_onnx_known(c, 0, &s->boxes)) ||
        !(s->score = weir_onnx_known(c, 1, &s->scores)))
        return weir_error_status();
    for (size_t i = 0; i < 3; i++)
        if (weir_onnx_has(c, i + 2))
            WEIR_TRY(weir_onnx_number(c, i + 2, number[i]));
    const int64_t *const b = s->boxes.dim, *const p = s->scores.dim;
    if (s->boxes.ndim != 3 || s->scores.ndim != 3 || b[2] != 4 || b[0] != p[0] || b[1] != p[2])
        return weir_onnx_refuse(c, "%d axes of boxes, %d of scores", s->boxes.ndim,
                                s->scores.ndim);
    return WEIR_OK;
}

weir_status weir_onnx_suppress(weir_onnx_call *c)
{
    suppression s;
    int64_t     n = 0;

    WEIR_TRY(read_suppression(c, &s));
    const int64_t  images = s.scores.dim[0], classes = s.scores.dim[1], each = s.boxes.dim[1];
    const size_t   most = (size_t)(images * classes * each);
    box *const     list = weir_host_alloc((size_t)(each + 1) * sizeof *list);
    int64_t *const out = weir_host_alloc(most * 3 * sizeof *out + 1);
    for (int64_t i = 0; list && out && i < images * classes; i++) {
        const int64_t kept = keep_best(&s, i / classes, i % classes, list);
        for (int64_t k = 0; k < kept; k++) {
            out[n++] = i / classes;
            out[n++] = i % classes;
            out[n++] = list[k].i;
        }
    }
    const bool there = list != NULL;
    weir_host_free(list);
    weir_tensor *const y = indices(c, out, n / 3, 3);
    return weir_onnx_give(c, 0, there ? y : NULL);
}
