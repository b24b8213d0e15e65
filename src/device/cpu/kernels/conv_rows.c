/* conv_rows.c - a convolution as matrix products whose rows are the image itself.
 *
 * In channels-last the taps of one kernel row that a pixel needs, kw x c numbers, lie side by side
 * in x, and those of the next pixel begin stride x c numbers later. So for each kernel row
 *     y[pixels of a row] += x[rows that overlap] W[kh]
 * is a product whose left side is read where it is stored, with rows closer together than they are
 * long (no patch matrix, as in Dukhan, "The indirect convolution algorithm", 2019). W is packed
 * into strips once per run. Pixels at the left and right end, which lack some taps, are computed
 * down their columns, with the taps that they have; kernel rows outside the image are left out.
 * Each sum runs over kernel rows, then along them; the division of work follows from shapes. */
#include "device/cpu/kernels/conv_rows.h"

#include <string.h>

#include "core/dtype.h"
#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/gemm/conv_patch.h"
#include "device/cpu/gemm/gemm.h"

enum {
    DEPTH_BYTES = 2048,        /* of a row of one product, at most */
    BLOCK_BYTES = 1024 * 1024, /* of packed strips, unless one strip is larger */
    GROUP = 4,                 /* tiles for which a part of a strip stays in L1 */
    LINE = 64                  /* bytes between strips, so that they lie in different sets */
};

/* State of the kernel. */
typedef struct plan {
    weir_conv               c;
    const weir_gemm_kernel *kernel;
    size_t                  size;       /* bytes of an element */
    bool                    bias;
    int64_t                 lo, hi;     /* pixels of a row that have all their taps: lo .. hi-1 */
    int64_t                 mr;         /* pixels of a tile */
    int64_t                 strips;     /* packed at a time */
    size_t                  stride;     /* bytes from strip to strip */
} plan;

/* The output channels being computed. */
typedef struct block {
    const plan *p;
    const char *x, *w, *bias;           /* bias: or NULL */
    char       *y, *packed;
    int64_t     first, strips;          /* first channel */
} block;

/* Some taps of one kernel row: kw .. end - 1; kw < end. */
typedef struct taps {
    int64_t kh, kw, end;
} taps;

/* ---- packing ---- */

/* Packs the strip's weights of one kernel row. */
static void pack_task(void *ctx, int64_t task)
{
    const block *const     b = ctx;
    const plan *const      p = b->p;
    const weir_conv *const c = &p->c;
    const int64_t          nr = p->kernel->nr, s = task / c->kh, kh = task % c->kh;
    const int64_t          j = b->first + s * nr, row = c->kw * c->c, all = c->kh * row;
    const int              cols = (int)min64(nr, c->o - j);
    char *const to = b->packed + (size_t)s * p->stride + (size_t)(kh * row * nr) * p->size;

    if (!c->turned) {
        p->kernel->pack[WEIR_GEMM_AS_IS](to, (int)nr, cols, row,
                                         b->w + (size_t)(j * all + kh * row) * p->size, all, true);
        return;
    }
    for (int64_t kw = 0; kw < c->kw; kw++) {
        const int64_t tap = (c->kh - 1 - kh) * c->kw + c->kw - 1 - kw;
        p->kernel->pack[WEIR_GEMM_AS_IS](to + (size_t)(kw * c->c * nr) * p->size, (int)nr, cols,
                                         c->c, b->w + (size_t)(tap * c->o + j) * p->size,
                                         c->kh * c->kw * c->o, false);
    }
}

/* ---- products ---- */

/* Kernel rows that lie inside the image for output row oh: *lo .. *hi - 1. */
static void rows_inside(const weir_conv *c, int64_t oh, int64_t *lo, int64_t *hi)
{
    const int64_t ih = oh * c->stride[0] - c->pad[0];

    *lo = max64(0, -ih);
    *hi = min64(c->kh, c->h - ih);
}

/* Tiles of `rows` pixels each (the last has `rest`). x: the first pixel's first tap; lda and ldc:
 * elements from pixel to pixel. */
typedef struct product {
    const char *x;
    char       *y;
    int64_t     lda, ldc, rows, rest, tiles;
    bool        add, last;      /* last: adds the bias */
} product;

/* Multiplies the tiles by the weights of the taps, for all strips. */
static void multiply(const block *b, const taps *t, const product *m)
{
    const plan *const  p = b->p;
    const int64_t      nr = p->kernel->nr, c = p->c.c, size = (int64_t)p->size;
    const int64_t      depth = (t->end - t->kw) * c, most = DEPTH_BYTES / size;
    const int64_t      each = ceil_div(depth, ceil_div(depth, most));
    const char *const  strip = b->packed + (t->kh * p->c.kw + t->kw) * c * nr * size;

    for (int64_t q = 0; q < depth; q += each) {
        const int64_t k = min64(each, depth - q);
        const bool    end = m->last && q + k == depth;
        for (int64_t s = 0; s < b->strips; s++) {
            const int64_t     j = b->first + s * nr;
            const int         cols = (int)min64(nr, p->c.o - j);
            const char *const bias = end && b->bias ? b->bias + j * size : NULL;
            for (int64_t i = 0; i < m->tiles; i++)
                p->kernel->rows((int)(i + 1 < m->tiles ? m->rows : m->rest), cols, k,
                                m->x + (i * m->rows * m->lda + q) * size, m->lda,
                                strip + (int64_t)(s * (int64_t)p->stride) + q * nr * size,
                                m->y + (i * m->rows * m->ldc + j) * size, m->ldc,
                                m->add || q > 0, bias);
        }
    }
}

/* The pixels with all taps in output row `task` of the batch. */
static void row_task(void *ctx, int64_t task)
{
    const block *const     b = ctx;
    const plan *const      p = b->p;
    const weir_conv *const c = &p->c;
    const int64_t          image = task / c->oh, oh = task % c->oh, step = p->mr * GROUP;
    int64_t                lo, hi;

    rows_inside(c, oh, &lo, &hi);
    for (int64_t ow = p->lo; ow < p->hi; ow += step) {
        const int64_t pixels = min64(step, p->hi - ow), tiles = ceil_div(pixels, p->mr);
        product m = {.y = b->y + (size_t)((task * c->ow + ow) * c->o) * p->size,
                     .lda = c->stride[1] * c->c, .ldc = c->o, .rows = p->mr,
                     .rest = pixels - (tiles - 1) * p->mr, .tiles = tiles};
        for (int64_t kh = lo; kh < hi; kh++) {
            const int64_t ih = oh * c->stride[0] - c->pad[0] + kh;
            const int64_t iw = ow * c->stride[1] - c->pad[1];
            m.x = b->x + (size_t)(((image * c->h + ih) * c->w + iw) * c->c) * p->size;
            m.add = kh > lo;
            m.last = kh + 1 == hi;
            multiply(b, &(taps){kh, 0, c->kw}, &m);
        }
    }
}

/* Output rows for which kernel row kh lies inside the image: *lo .. *hi - 1. */
static void lines_inside(const weir_conv *c, int64_t kh, int64_t *lo, int64_t *hi)
{
    const int64_t before = c->pad[0] - kh, s = c->stride[0];

    *lo = before > 0 ? ceil_div(before, s) : 0;
    *hi = min64(c->oh, (c->h - 1 + before) / s + 1);
}

/* Column `task` of those at the ends of all images' rows. */
static void column_task(void *ctx, int64_t task)
{
    const block *const     b = ctx;
    const plan *const      p = b->p;
    const weir_conv *const c = &p->c;
    const int64_t          ends = p->lo + c->ow - p->hi, image = task / ends, e = task % ends;
    const int64_t          ow = e < p->lo ? e : p->hi + e - p->lo;
    const int64_t          iw = ow * c->stride[1] - c->pad[1];
    const int64_t          kw = max64(0, -iw), end = min64(c->kw, c->w - iw);
    const int64_t          n = min64(b->strips * p->kernel->nr, c->o - b->first);
    char *const y = b->y + (size_t)((image * c->oh * c->ow + ow) * c->o) * p->size;

    for (int64_t oh = 0; oh < c->oh; oh++)
        if (b->bias)
            memcpy(y + (size_t)(oh * c->ow * c->o + b->first) * p->size,
                   b->bias + (size_t)b->first * p->size, (size_t)n * p->size);
        else
            memset(y + (size_t)(oh * c->ow * c->o + b->first) * p->size, 0, (size_t)n * p->size);
    for (int64_t kh = 0; kh < c->kh; kh++) {
        int64_t lo, hi;
        lines_inside(c, kh, &lo, &hi);
        const int64_t tiles = ceil_div(hi - lo, p->kernel->mr);
        const int64_t rows = tiles > 0 ? ceil_div(hi - lo, tiles) : 0;
        const int64_t ih = lo * c->stride[0] - c->pad[0] + kh;
        const product m = {
            .x = b->x + (size_t)(((image * c->h + ih) * c->w + iw + kw) * c->c) * p->size,
            .y = y + (size_t)(lo * c->ow * c->o) * p->size, .lda = c->stride[0] * c->w * c->c,
            .ldc = c->ow * c->o, .rows = rows, .rest = hi - lo - (tiles - 1) * rows,
            .tiles = tiles, .add = true};
        if (tiles > 0)
            multiply(b, &(taps){kh, kw, end}, &m);
    }
}

static weir_status run(const weir_kargs *k)
{
    const plan *const      p = k->state;
    const weir_conv *const c = &p->c;
    const int64_t          nr = p->kernel->nr, all = ceil_div(c->o, nr);
    block b = {.p = p, .x = k->src[0], .w = k->src[1], .bias = p->bias ? k->src[2] : NULL,
               .y = k->dst[0], .packed = k->work};

    for (int64_t s = 0; s < all; s += p->strips) {
        b.first = s * nr;
        b.strips = min64(p->strips, all - s);
        weir_parallel(k->threads, b.strips * c->kh, pack_task, &b);
        weir_parallel(k->threads, c->n * c->oh, row_task, &b);
        weir_parallel(k->threads, c->n * (p->lo + c->ow - p->hi), column_task, &b);
    }
    return WEIR_OK;
}

/* ---- selecting ---- */

/* Pixels of a row with all taps inside: lo .. hi - 1; none if lo >= hi. */
static void pixels_inside(const weir_conv *c, int64_t *lo, int64_t *hi)
{
    const int64_t room = c->w - c->kw + c->pad[1];

    *lo = ceil_div(c->pad[1], c->stride[1]);
    *hi = room < 0 ? 0 : min64(c->ow, room / c->stride[1] + 1);
}

/* Does each output pixel have a tap inside the image? */
static bool is_covered(const weir_conv *c)
{
    return c->pad[0] < c->kh && c->pad[1] < c->kw &&
           (c->oh - 1) * c->stride[0] - c->pad[0] < c->h &&
           (c->ow - 1) * c->stride[1] - c->pad[1] < c->w;
}

bool weir_conv_rows_suits(const weir_conv *c)
{
    enum { CHANNELS = 16, LEAST = 4 };
    int64_t lo, hi;

    if (c->groups != 1 || c->dilation[0] != 1 || c->dilation[1] != 1 || c->kh * c->kw == 1 ||
        c->c < CHANNELS || c->o < CHANNELS || weir_conv_pixels(c) == 0 || c->h == 0 ||
        !is_covered(c))
        return false;
    pixels_inside(c, &lo, &hi);
    return hi - lo >= LEAST;
}

weir_status weir_conv_rows(const weir_conv *c, bool bias, weir_kernel *out)
{
    const int64_t patch = c->kh * c->kw * c->c;
    const char   *impl;
    plan *const   p = weir_mem_zalloc(1, sizeof *p);

    if (!p)
        return WEIR_ERR_NOMEM;
    *p = (plan){.c = *c,
                .kernel = weir_gemm_own(c->dtype, &impl),
                .size = weir_dtype_size(c->dtype),
                .bias = bias};
    const int64_t nr = p->kernel->nr, all = ceil_div(c->o, nr);
    pixels_inside(c, &p->lo, &p->hi);
    p->mr = ceil_div(p->hi - p->lo, ceil_div(p->hi - p->lo, p->kernel->mr));
    p->stride = (size_t)(patch * nr) * p->size + LINE;
    const int64_t most = max64(1, BLOCK_BYTES / (int64_t)p->stride);
    p->strips = ceil_div(all, ceil_div(all, most));
    *out = (weir_kernel){.run = run,
                         .work = (size_t)p->strips * p->stride - LINE,
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = impl};
    return WEIR_OK;
}
