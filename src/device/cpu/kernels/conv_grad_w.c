/* conv_grad_w.c - the gradient of a convolution's weights as products of shifted images, stride 1.
 *
 * Images are packed with as many zeros before each row of x as the kernel reaches over its ends,
 * and rows of dy are padded with zeros to the same length. Then tap (kh,kw) pairs one shift of x
 * with dy, row ends included, and
 *     dW[:,kh,kw,:] += dy^T shift(x)
 * is one long product for the register-tiled kernel, which copies nothing per tap, unlike a patch
 * matrix (after Georganas and others, "Anatomy of high-performance deep learning convolutions on
 * SIMD architectures", 2018). A chunk of rows or of images is packed, then each task computes the
 * taps of one tile of outputs x inputs. The division of work and the order of sums follow from
 * shapes.
 *
 * Where the processor multiplies bf16, packed elements are pairs of neighbours (gemm_bf16.c). A tap
 * that shifts x by an odd number of pixels needs other pairs, so x is packed twice: from the first
 * pixel of a packed row on, and from the second. The zeros before a row are then odd in number and
 * packed rows even, so that each row of x begins a pair of the second copy. Sums are f32 in the
 * workspace and rounded once. */
#include "device/cpu/kernels/conv_grad_w.h"

#include <string.h>

#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/gemm/gemm_bf16.h"
#include "device/cpu/gemm/conv_patch.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/im2col.h"
#include "device/cpu/kernels/elementwise.h"

enum {
    DEPTH = 256,           /* target length of a product */
    FEW_TILES = 8,         /* with fewer tiles, a task has one row of taps only */
    UNIT = 64,             /* bytes that are written after the last chunk */
    ROUNDED = 4096         /* sums that a task rounds */
};

/* State of the kernel. */
typedef struct plan {
    weir_conv               c;
    const weir_gemm_kernel *kernel;
    size_t                  size, stored; /* bytes of an element as packed and as stored */
    int64_t                 k_step;       /* pixels of a packed element; copies of x */
    bool                    bias, split;  /* split: a task has one row of taps */
    int64_t                 mr, panels, strips;
    int64_t                 lead, width;  /* zeros before a row of x; packed length of a row */
    int64_t                 images, rows; /* images of a chunk; rows of y of a chunk */
    int64_t                 run;          /* rows of a product */
    int64_t                 x_image, y_image; /* packed pixels of an image */
    size_t                  y_at, sums_at, work; /* bytes: offsets of panels, sums; total */
    weir_half_fn            narrow;       /* rounds the sums to dW; or NULL */
} plan;

/* The chunk being computed. */
typedef struct chunk {
    const plan *p;
    const char *x, *dy;
    char       *dw, *work;      /* dw: where sums are added */
    void       *halves;         /* dW, if the sums are rounded to it */
    int64_t     image, images, row, rows;
} chunk;

/* ---- packing ---- */

static int64_t halo(const plan *p)
{
    return (p->c.kh - 1) * p->c.dilation[0];
}

/* Pixels behind the last row of a packed image. */
static int64_t tail(const plan *p)
{
    return ceil_div(p->lead, p->k_step) * p->k_step;
}

/* Packed element `pixel` / k_step of copy `copy` of strip s. */
static char *strip_of(const chunk *j, int64_t s, int64_t copy, int64_t pixel)
{
    const plan *const p = j->p;
    const int64_t     each = p->images * p->x_image / p->k_step;
    const int64_t     at = (copy * p->strips + s) * each + pixel / p->k_step;
    return j->work + (size_t)(at * p->kernel->nr) * p->size;
}

static char *panel_of(const chunk *j, int64_t q, int64_t rows, int64_t pixel)
{
    const plan *const p = j->p;
    const int64_t     each = p->images * p->y_image / p->k_step;
    return j->work + p->y_at + (size_t)(q * p->mr * each + pixel / p->k_step * rows) * p->size;
}

/* Packs `n` pixels of a strip from packed pixel `at` on, which begins a packed element. */
static void pack_strip(const chunk *j, int64_t s, int64_t copy, int64_t at, const char *from,
                       int64_t n)
{
    const plan *const p = j->p;
    const int64_t     nr = p->kernel->nr, c = p->c.c;
    p->kernel->pack[WEIR_GEMM_AS_IS](strip_of(j, s, copy, at), (int)nr, (int)min64(nr, c - s * nr),
                                     n, from + (size_t)(s * nr) * p->stored, c, false);
}

/* Packs a row of x in pairs whose first halves are its odd pixels: the first pair has one pixel. */
static void pack_between(const chunk *j, int64_t s, int64_t at, const char *from)
{
    const plan *const p = j->p;
    uint32_t *const   first = (void *)strip_of(j, s, 0, at);
    pack_strip(j, s, 0, at, from, 1);
    for (int i = 0; i < p->kernel->nr; i++)
        first[i] <<= 16;
    pack_strip(j, s, 0, at + 2, from + (size_t)p->c.c * p->stored, p->c.w - 1);
}

static void clear(const chunk *j, int64_t s, int64_t copy, int64_t at, int64_t n)
{
    const plan *const p = j->p;
    memset(strip_of(j, s, copy, at), 0, (size_t)(n / p->k_step * p->kernel->nr) * p->size);
}

/* Packs row `row` of x, counted from the first that the chunk needs; it may lie in the padding. */
static void pack_x(const chunk *j, int64_t image, int64_t row)
{
    const plan *const      p = j->p;
    const weir_conv *const c = &p->c;
    const int64_t          ih = j->row + row - c->pad[0], at = image * p->x_image + row * p->width;
    const int64_t          odd = p->k_step - 1;
    const bool             inside = ih >= 0 && ih < c->h, last = row + 1 == j->rows + halo(p);
    const char *const      from =
        j->x + (size_t)(((j->image + image) * c->h + (inside ? ih : 0)) * c->w * c->c) * p->stored;
    for (int64_t copy = 0; copy < p->k_step; copy++)
        for (int64_t s = 0; s < p->strips; s++) {
            clear(j, s, copy, at, inside ? p->lead - odd : p->width);
            if (inside && p->k_step > 1)
                clear(j, s, copy, at + p->width - p->k_step, p->k_step);
            if (inside && copy == 0 && p->k_step > 1)
                pack_between(j, s, at + p->lead - odd, from);
            else if (inside)
                pack_strip(j, s, copy, at + p->lead - odd, from, c->w);
            if (last)
                clear(j, s, copy, at + p->width, tail(p));
        }
}

static void pack_dy(const chunk *j, int64_t image, int64_t row)
{
    const plan *const      p = j->p;
    const weir_conv *const c = &p->c;
    const int64_t          pixel = ((j->image + image) * c->oh + j->row + row) * c->ow;
    const int64_t          at = image * p->y_image + row * p->width;
    const int64_t          packed = ceil_div(c->ow, p->k_step);
    for (int64_t q = 0; q < p->panels; q++) {
        const int64_t rows = min64(p->mr, c->o - q * p->mr);
        const size_t  bytes = (size_t)rows * p->size;
        char *const   to = panel_of(j, q, rows, at);
        p->kernel->pack[WEIR_GEMM_AS_IS](
            to, (int)rows, (int)rows, c->ow,
            j->dy + (size_t)(pixel * c->o + q * p->mr) * p->stored, c->o, false);
        memset(to + (size_t)packed * bytes, 0, (size_t)(p->width / p->k_step - packed) * bytes);
    }
}

static void pack_task(void *ctx, int64_t task)
{
    const chunk *const j = ctx;
    const int64_t      rows = j->rows + halo(j->p), image = task / rows, row = task % rows;
    pack_x(j, image, row);
    if (row < j->rows)
        pack_dy(j, image, row);
}

/* ---- products ---- */

/* Computes the taps in row kh for panel q and strip s. */
static void taps(const chunk *j, int64_t q, int64_t s, int64_t kh, int64_t image, int64_t row)
{
    const plan *const             p = j->p;
    const weir_conv *const        c = &p->c;
    const weir_gemm_kernel *const k = p->kernel;
    const int64_t rows = min64(p->mr, c->o - q * p->mr), cols = min64(k->nr, c->c - s * k->nr);
    const int64_t lines = min64(p->run, j->rows - row);
    const int64_t depth = lines * p->width - (p->width - c->ow);
    const int64_t first =
        image * p->x_image + (row + kh * c->dilation[0]) * p->width + p->lead - c->pad[1];
    const bool        add = j->image + image > 0 || j->row + row > 0;
    const char *const a = panel_of(j, q, rows, image * p->y_image + row * p->width);
    for (int64_t kw = 0; kw < c->kw; kw++) {
        const int64_t at = first + kw * c->dilation[1];
        k->packed((int)rows, (int)cols, ceil_div(depth, p->k_step), a,
                  strip_of(j, s, at % p->k_step, at),
                  j->dw + (size_t)(q * p->mr * weir_conv_patch(c) + (kh * c->kw + kw) * c->c +
                                   s * k->nr) *
                              p->size,
                  weir_conv_patch(c), add, NULL);
    }
}

static void tile_task(void *ctx, int64_t task)
{
    const chunk *const j = ctx;
    const plan *const  p = j->p;
    const int64_t      lot = p->split ? p->c.kh : 1, tile = task / lot;
    const int64_t      first = p->split ? task % lot : 0, end = p->split ? first + 1 : p->c.kh;
    for (int64_t image = 0; image < j->images; image++)
        for (int64_t row = 0; row < j->rows; row += p->run)
            for (int64_t kh = first; kh < end; kh++)
                taps(j, tile % p->panels, tile / p->panels, kh, image, row);
}

static void round_task(void *ctx, int64_t task)
{
    const chunk *const     j = ctx;
    const weir_conv *const c = &j->p->c;
    const int64_t          at = task * ROUNDED, all = c->o * weir_conv_patch(c);
    j->p->narrow(min64(ROUNDED, all - at), (uint16_t *)j->halves + at,
                 (const float *)(void *)j->dw + at);
}

static weir_status run(const weir_kargs *k)
{
    const plan *const      p = k->state;
    const weir_conv *const c = &p->c;
    chunk j = {.p = p, .x = k->src[0], .dy = k->src[1], .dw = k->dst[0], .work = k->work,
               .halves = k->dst[0]};
    if (p->narrow)
        j.dw = (char *)k->work + p->sums_at;
    memset((char *)k->work + p->work - UNIT, 0, UNIT);
    for (j.image = 0; j.image < c->n; j.image += p->images) {
        j.images = min64(p->images, c->n - j.image);
        for (j.row = 0; j.row < c->oh; j.row += p->rows) {
            j.rows = min64(p->rows, c->oh - j.row);
            weir_parallel(k->threads, j.images * (j.rows + halo(p)), pack_task, &j);
            weir_parallel(k->threads, p->panels * p->strips * (p->split ? c->kh : 1), tile_task,
                          &j);
        }
    }
    if (p->narrow)
        weir_parallel(k->threads, ceil_div(c->o * weir_conv_patch(c), ROUNDED), round_task, &j);
    if (p->bias)
        weir_conv_bias_grad(c, k->src[1], k->dst[1], (char *)k->work + p->sums_at, k->threads);
    return WEIR_OK;
}

/* ---- selecting ---- */

/* Chooses the rows of y and the images of a chunk, at least one row of one image, and their packed
 * bytes. */
static void plan_chunk(plan *p)
{
    const weir_conv *const c = &p->c;
    const int64_t          lanes = p->k_step * p->strips * p->kernel->nr + c->o;
    const int64_t          row = lanes * (p->width / p->k_step) * (int64_t)p->size;
    const int64_t          bytes = weir_conv_block_bytes(c, p->stored);
    const int64_t          most = max64(1, bytes / row - halo(p));
    p->rows = ceil_div(c->oh, ceil_div(c->oh, most));
    const int64_t fit = max64(1, bytes / (row * (c->oh + halo(p))));
    p->images = p->rows < c->oh ? 1 : ceil_div(c->n, ceil_div(c->n, fit));
    p->run = min64(p->rows, max64(1, DEPTH * p->k_step / p->width));
    p->x_image = (p->rows + halo(p)) * p->width + tail(p);
    p->y_image = p->rows * p->width;
}

static size_t in_units(int64_t elements, size_t size)
{
    return ((size_t)elements * size + UNIT - 1) / UNIT * UNIT;
}

bool weir_conv_grad_w_suits(const weir_conv *c, bool bias)
{
    enum { CHANNELS = 16, PIXELS = 64 };
    if (weir_is_half(c->dtype) && (c->dtype != WEIR_BF16 || bias || !weir_gemm_bf16()))
        return false;
    return c->groups == 1 && !c->turned && c->stride[0] == 1 && c->stride[1] == 1 &&
           c->kh * c->kw > 1 && c->c >= CHANNELS && c->o >= CHANNELS && c->oh * c->ow >= PIXELS &&
           c->n > 0 && c->pad[1] <= (c->kw - 1) * c->dilation[1];
}

weir_status weir_conv_grad_w(const weir_conv *c, bool bias, weir_kernel *out)
{
    const char   *impl;
    const bool    half = c->dtype == WEIR_BF16;
    const int64_t reach = c->ow + (c->kw - 1) * c->dilation[1] - c->pad[1] - c->w;
    plan *const   p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    *p = (plan){.c = *c,
                .kernel = half ? weir_gemm_bf16() : weir_gemm_own(c->dtype, &impl),
                .size = half ? sizeof(float) : weir_dtype_size(c->dtype),
                .stored = weir_dtype_size(c->dtype),
                .narrow = half ? weir_cpu_narrow(c->dtype) : NULL,
                .bias = bias,
                .lead = max64(c->pad[1], max64(reach, 0))};
    if (half) {
        impl = WEIR_GEMM_BF16_IMPL;
        p->lead |= 1;
    }
    p->k_step = p->kernel->k_step;
    p->width = ceil_div(p->lead + c->w, p->k_step) * p->k_step;
    p->panels = ceil_div(c->o, p->kernel->mr);
    p->mr = ceil_div(c->o, p->panels);
    p->strips = ceil_div(c->c, p->kernel->nr);
    p->split = p->panels * p->strips < FEW_TILES;
    plan_chunk(p);
    p->y_at = in_units(p->strips * p->kernel->nr * p->images * p->x_image, p->size);
    p->sums_at = p->y_at + in_units(c->o * p->images * p->y_image / p->k_step, p->size);
    p->work = p->sums_at + (bias ? weir_conv_bias_work(c) : 0) +
              (half ? in_units(c->o * weir_conv_patch(c), sizeof(float)) : 0) + UNIT;
    *out = (weir_kernel){.run = run,
                         .work = p->work,
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = impl};
    return WEIR_OK;
}
