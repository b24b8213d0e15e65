/* im2col.c - convolution as a patch matrix and a matrix product, for f32 and f64, any shape.
 *
 * For a block of pixels at a time, the patches are copied into a matrix (pixels x patch) of bounded
 * size (Chellapilla, Puri and Simard, 2006). Per group, with W (o/g) x patch:
 *     y = P W^T        dP = dy W, added back to the pixels of each patch        dW += dy^T P
 * A 1 x 1 kernel with stride 1 and no padding needs no copy: its patch matrix is x itself. Blocks,
 * and the order in which they are summed, depend on shapes alone. */
#include "device/cpu/gemm/im2col.h"

#include <string.h>

#include "core/mem.h"
#include "device/cpu/gemm/conv_patch.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/openblas.h"

enum {
    PIXELS_PER_TASK = 64, /* when copying patches */
    SUM_CHUNKS = 64       /* when summing the bias gradient */
};

typedef void (*add_fn)(void *dst, const void *src, int64_t n);
typedef void (*sum_fn)(double *acc, const void *row, int64_t n);

/* State of the kernel. */
typedef struct plan {
    weir_conv c;
    bool      bias, direct;   /* direct: x is the patch matrix */
    size_t    size;           /* bytes of an element */
    int64_t   block, blocks;  /* pixels of a block; number of blocks */
    weir_gemm full, last;     /* the product of a block; that of the last block */
    size_t patches, products; /* bytes of the workspace: patch matrix, scratch of the product */
    add_fn add;
} plan;

/* One block of one group. */
typedef struct job {
    const plan *p;
    char       *x; /* x or dx */
    char       *patches;
    int64_t     first, n; /* pixels */
    int64_t     group;
    int64_t     image; /* image of the first pixel */
} job;

/* ---- copies between x and the patch matrix ---- */

/* Kernel columns kw whose input column iw0 + kw*dilation lies within the image: [*lo, *hi). */
static void inside(const weir_conv *c, int64_t iw0, int64_t *lo, int64_t *hi)
{
    const int64_t d = c->dilation[1];
    *lo = iw0 >= 0 ? 0 : (-iw0 + d - 1) / d;
    *hi = iw0 >= c->w ? 0 : (c->w - iw0 + d - 1) / d;
    *hi = *hi < c->kw ? *hi : c->kw;
    *lo = *lo < *hi ? *lo : *hi;
}

/* Copies one kernel row of a patch: kw runs of cg elements, zeros for those outside the image. With
 * dilation 1 and one group, adjacent runs are adjacent in x too. */
static void copy_row(const plan *p, char *dst, const char *row, int64_t iw0)
{
    const weir_conv *const c = &p->c;
    const size_t           run = (size_t)weir_conv_cg(c) * p->size, step = (size_t)c->c * p->size;
    int64_t                lo, hi;
    inside(c, iw0, &lo, &hi);
    memset(dst, 0, (size_t)lo * run);
    memset(dst + (size_t)hi * run, 0, (size_t)(c->kw - hi) * run);
    if (c->dilation[1] == 1 && c->groups == 1 && hi > lo) {
        memcpy(dst + (size_t)lo * run, row + (size_t)(iw0 + lo) * step, (size_t)(hi - lo) * run);
        return;
    }
    for (int64_t k = lo; k < hi; k++)
        memcpy(dst + (size_t)k * run, row + (size_t)(iw0 + k * c->dilation[1]) * step, run);
}

static void copy_patch(const job *j, int64_t pixel)
{
    const plan *const      p = j->p;
    const weir_conv *const c = &p->c;
    const int64_t ow = pixel % c->ow, oh = pixel / c->ow % c->oh, n = pixel / c->ow / c->oh;
    const size_t  cg = (size_t)weir_conv_cg(c), line = (size_t)c->kw * cg * p->size;
    char         *dst = j->patches + (size_t)((pixel - j->first) * weir_conv_patch(c)) * p->size;
    if (line == 0)                  /* no channels: the tensors may have no address */
        return;
    for (int64_t kh = 0; kh < c->kh; kh++, dst += line) {
        const int64_t ih = oh * c->stride[0] - c->pad[0] + kh * c->dilation[0];
        if (ih < 0 || ih >= c->h) {
            memset(dst, 0, line);
            continue;
        }
        const char *const row =
            j->x + ((size_t)((n * c->h + ih) * c->w * c->c) + (size_t)j->group * cg) * p->size;
        copy_row(p, dst, row, ow * c->stride[1] - c->pad[1]);
    }
}

static void gather_task(void *ctx, int64_t task)
{
    const job *const j = ctx;
    const int64_t    first = j->first + task * PIXELS_PER_TASK, end = j->first + j->n;
    for (int64_t q = first; q < end && q < first + PIXELS_PER_TASK; q++)
        copy_patch(j, q);
}

/* Adds one kernel row of a patch back to its pixels; the reverse of copy_row. */
static void add_row(const plan *p, char *row, const char *src, int64_t iw0)
{
    const weir_conv *const c = &p->c;
    const int64_t          cg = weir_conv_cg(c);
    int64_t                lo, hi;
    inside(c, iw0, &lo, &hi);
    if (c->dilation[1] == 1 && c->groups == 1) {
        if (hi > lo)
            p->add(row + (size_t)((iw0 + lo) * c->c) * p->size, src + (size_t)(lo * cg) * p->size,
                   (hi - lo) * cg);
        return;
    }
    for (int64_t k = lo; k < hi; k++)
        p->add(row + (size_t)((iw0 + k * c->dilation[1]) * c->c) * p->size,
               src + (size_t)(k * cg) * p->size, cg);
}

/* Each row of dx gathers from all pixels of the block whose patch covers it: rows are
 * independent. */
static void scatter_task(void *ctx, int64_t task)
{
    const job *const       j = ctx;
    const plan *const      p = j->p;
    const weir_conv *const c = &p->c;
    const int64_t          n = j->image + task / c->h, ih = task % c->h, cg = weir_conv_cg(c);
    char *const row = j->x + (size_t)((n * c->h + ih) * c->w * c->c + j->group * cg) * p->size;
    for (int64_t kh = 0; kh < c->kh; kh++) {
        const int64_t t = ih + c->pad[0] - kh * c->dilation[0], oh = t / c->stride[0];
        if (t < 0 || t % c->stride[0] != 0 || oh >= c->oh)
            continue;
        const int64_t line = (n * c->oh + oh) * c->ow, end = j->first + j->n;
        const int64_t q0 = line > j->first ? line : j->first;
        const int64_t q1 = line + c->ow < end ? line + c->ow : end;
        for (int64_t q = q0; q < q1; q++)
            add_row(p, row,
                    j->patches +
                        (size_t)((q - j->first) * weir_conv_patch(c) + kh * c->kw * cg) * p->size,
                    (q - line) * c->stride[1] - c->pad[1]);
    }
}

static void gather(job *j, weir_threads *t)
{
    weir_parallel(t, (j->n + PIXELS_PER_TASK - 1) / PIXELS_PER_TASK, gather_task, j);
}

static void scatter(job *j, weir_threads *t)
{
    const int64_t per_image = j->p->c.oh * j->p->c.ow;
    j->image = j->first / per_image;
    const int64_t images = (j->first + j->n - 1) / per_image - j->image + 1;
    weir_parallel(t, images * j->p->c.h, scatter_task, j);
}

static void add_f32(void *dst, const void *src, int64_t n)
{
    float *const       d = dst;
    const float *const s = src;
    for (int64_t i = 0; i < n; i++)
        d[i] += s[i];
}

static void add_f64(void *dst, const void *src, int64_t n)
{
    double *const       d = dst;
    const double *const s = src;
    for (int64_t i = 0; i < n; i++)
        d[i] += s[i];
}

/* ---- the bias gradient: sums of dy over all pixels ---- */

typedef struct sums {
    const weir_conv *c;
    size_t           size;
    const char      *dy;
    double          *partial; /* [chunks][o] */
    int64_t          chunk;   /* pixels */
} sums;

static void sum_f32(double *acc, const void *row, int64_t n)
{
    const float *const s = row;
    for (int64_t i = 0; i < n; i++)
        acc[i] += (double)s[i];
}

static void sum_f64(double *acc, const void *row, int64_t n)
{
    const double *const s = row;
    for (int64_t i = 0; i < n; i++)
        acc[i] += s[i];
}

static void sum_task(void *ctx, int64_t task)
{
    const sums *const s = ctx;
    const sum_fn      sum = s->c->dtype == WEIR_F32 ? sum_f32 : sum_f64;
    const int64_t     o = s->c->o, pixels = weir_conv_pixels(s->c);
    const int64_t     first = task * s->chunk;
    double *const     acc = s->partial + task * o;
    memset(acc, 0, (size_t)o * sizeof *acc);
    for (int64_t q = first; q < pixels && q < first + s->chunk; q++)
        sum(acc, s->dy + (size_t)(q * o) * s->size, o);
}

size_t weir_conv_bias_work(const weir_conv *c)
{
    return (size_t)(SUM_CHUNKS * c->o) * sizeof(double);
}

void weir_conv_bias_grad(const weir_conv *c, const void *dy, void *db, void *work, weir_threads *t)
{
    double *const partial = work;
    sums          s = {.c = c, .size = weir_dtype_size(c->dtype), .dy = dy, .partial = partial};
    s.chunk = weir_conv_pixels(c) / SUM_CHUNKS + 1;
    weir_parallel(t, SUM_CHUNKS, sum_task, &s);
    for (int64_t i = 0; i < c->o; i++) {
        double sum = 0;
        for (int64_t k = 0; k < SUM_CHUNKS; k++)
            sum += partial[k * c->o + i];
        if (c->dtype == WEIR_F32)
            ((float *)db)[i] = (float)sum;
        else
            ((double *)db)[i] = sum;
    }
}

/* ---- the three passes ---- */

/* Element (pixel, first channel of group) of a tensor with `channels` channels in `groups`. */
static void *at_pixel(const plan *p, void *base, int64_t pixel, int64_t group, int64_t channels)
{
    return (char *)base + (size_t)(pixel * channels + group * (channels / p->c.groups)) * p->size;
}

/* Element (first output channel of group, 0, ...) of the weights. */
static void *at_weights(const plan *p, void *base, int64_t group)
{
    return (char *)base + (size_t)(group * weir_conv_og(&p->c) * weir_conv_patch(&p->c)) * p->size;
}

static const weir_gemm *next_block(const plan *p, job *j, int64_t index)
{
    const int64_t left = weir_conv_pixels(&p->c) - index * p->block;
    j->first = index * p->block;
    j->n = left < p->block ? left : p->block;
    return index == p->blocks - 1 ? &p->last : &p->full;
}

static weir_status run_forward(const weir_kargs *k)
{
    const plan *const p = k->state;
    job               j = {.p = p, .x = k->src[0], .patches = k->work};
    void *const       products = (char *)k->work + p->patches;
    if (p->bias)
        weir_gemm_bias(k->dst[0], k->src[2], weir_conv_pixels(&p->c), (size_t)p->c.o * p->size,
                       k->threads);
    for (int64_t b = 0; b < p->blocks; b++) {
        const weir_gemm *const g = next_block(p, &j, b);
        WEIR_TRY(weir_gemm_ready(g, k->threads));
        for (j.group = 0; j.group < p->c.groups; j.group++) {
            if (!p->direct)
                gather(&j, k->threads);
            weir_gemm_run(g, p->direct ? at_pixel(p, j.x, j.first, j.group, p->c.c) : j.patches,
                          at_weights(p, k->src[1], j.group),
                          at_pixel(p, k->dst[0], j.first, j.group, p->c.o), p->bias, products,
                          k->threads);
        }
    }
    return WEIR_OK;
}

static weir_status run_grad_x(const weir_kargs *k)
{
    const plan *const p = k->state;
    job               j = {.p = p, .x = k->dst[0], .patches = k->work};
    void *const       products = (char *)k->work + p->patches;
    if (!p->direct && j.x)          /* NULL: no elements */
        memset(j.x, 0, (size_t)(p->c.n * p->c.h * p->c.w * p->c.c) * p->size);
    for (int64_t b = 0; b < p->blocks; b++) {
        const weir_gemm *const g = next_block(p, &j, b);
        WEIR_TRY(weir_gemm_ready(g, k->threads));
        for (j.group = 0; j.group < p->c.groups; j.group++) {
            weir_gemm_run(g, at_pixel(p, k->src[0], j.first, j.group, p->c.o),
                          at_weights(p, k->src[1], j.group),
                          p->direct ? at_pixel(p, j.x, j.first, j.group, p->c.c) : j.patches, false,
                          products, k->threads);
            if (!p->direct && j.n > 0)
                scatter(&j, k->threads);
        }
    }
    return WEIR_OK;
}

static weir_status run_grad_w(const weir_kargs *k)
{
    const plan *const p = k->state;
    job               j = {.p = p, .x = k->src[0], .patches = k->work};
    void *const       products = (char *)k->work + p->patches;
    for (int64_t b = 0; b < p->blocks; b++) {
        const weir_gemm *const g = next_block(p, &j, b);
        WEIR_TRY(weir_gemm_ready(g, k->threads));
        for (j.group = 0; j.group < p->c.groups; j.group++) {
            if (!p->direct)
                gather(&j, k->threads);
            weir_gemm_run(g, at_pixel(p, k->src[1], j.first, j.group, p->c.o),
                          p->direct ? at_pixel(p, j.x, j.first, j.group, p->c.c) : j.patches,
                          at_weights(p, k->dst[0], j.group), b > 0, products, k->threads);
        }
    }
    if (p->bias)
        weir_conv_bias_grad(&p->c, k->src[1], k->dst[1], (char *)products + p->products,
                            k->threads);
    return WEIR_OK;
}

/* ---- selecting ---- */

/* Shape of the product of `pixels` pixels of a group. */
static weir_gemm_shape product(const plan *p, weir_conv_pass pass, int64_t pixels)
{
    const int64_t   patch = weir_conv_patch(&p->c), og = weir_conv_og(&p->c), o = p->c.o;
    const int64_t   ld = p->direct ? p->c.c : patch;
    weir_gemm_shape s = {.dtype = p->c.dtype};
    if (pass == WEIR_CONV_FORWARD)
        s = (weir_gemm_shape){
            .tb = true, .m = pixels, .n = og, .k = patch, .lda = ld, .ldb = patch, .ldc = o};
    else if (pass == WEIR_CONV_GRAD_X)
        s = (weir_gemm_shape){.m = pixels, .n = patch, .k = og, .lda = o, .ldb = patch, .ldc = ld};
    else
        s = (weir_gemm_shape){
            .ta = true, .m = og, .n = patch, .k = pixels, .lda = o, .ldb = ld, .ldc = patch};
    s.dtype = p->c.dtype;
    return s;
}

/* Divides the pixels into equal blocks, enough that a patch matrix stays within its bound: at
 * least one block (perhaps empty), each of at least one pixel. */
static void plan_blocks(plan *p)
{
    const int64_t pixels = weir_conv_pixels(&p->c);
    const int64_t row = weir_conv_patch(&p->c) * (int64_t)p->size;
    const int64_t bytes = weir_conv_block_bytes(&p->c, p->size);
    const int64_t most = p->direct || row == 0 ? pixels : bytes / row;
    p->block = most > 1 ? most : 1;
    p->blocks = pixels > p->block ? (pixels + p->block - 1) / p->block : 1;
    p->block = (pixels + p->blocks - 1) / p->blocks;
    if (!p->direct)
        p->patches = ((size_t)(p->block * row) + 63) & ~(size_t)63;
}

weir_status weir_conv_by_gemm(const weir_conv *c, weir_conv_pass pass, bool bias,
                              const weir_openblas *blas, weir_gemm_want want, weir_kernel *out)
{
    static weir_status (*const run[])(const weir_kargs *) = {run_forward, run_grad_x, run_grad_w};
    plan *const p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    const bool f32 = c->dtype == WEIR_F32;
    *p = (plan){.c = *c,
                .bias = bias,
                .size = weir_dtype_size(c->dtype),
                .add = f32 ? add_f32 : add_f64};
    p->direct = c->kh == 1 && c->kw == 1 && c->stride[0] == 1 && c->stride[1] == 1 &&
                c->pad[0] == 0 && c->pad[1] == 0 && c->oh == c->h && c->ow == c->w;
    plan_blocks(p);
    const weir_gemm_shape full = product(p, pass, p->block);
    const weir_gemm_shape last = product(p, pass, weir_conv_pixels(c) - (p->blocks - 1) * p->block);
    weir_gemm_plan(&p->full, &full, blas, want);
    weir_gemm_plan(&p->last, &last, blas, want);
    p->products = p->full.work > p->last.work ? p->full.work : p->last.work;
    const size_t sum_bytes =
        bias && pass == WEIR_CONV_GRAD_W ? weir_conv_bias_work(c) : 0;
    *out = (weir_kernel){.run = run[pass],
                         .work = p->patches + p->products + sum_bytes,
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = p->full.impl};
    return WEIR_OK;
}
