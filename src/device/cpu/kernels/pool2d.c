/* pool2d.c - maximum and average pooling of channels-last images, bilinear upsampling, and their
 * gradients.
 *
 * Every output cell, of an image or of its gradient, gathers from the cells that contribute to it;
 * nothing is scattered, so rows of outputs run in parallel, and sums have the order of the windows.
 * Padding is never read: it counts as -inf for a maximum and as 0 for an average. */
#include "device/cpu/kernels/pool2d.h"

#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/real.h"
#include "device/cpu/kernels/batch.h"

typedef struct plan {
    weir_pool_loops  loops;
    weir_pool2d_attr a;
    int64_t          size;              /* bytes of an element */
    int64_t          n, c, image[2], pooled[2];
    int64_t          rows, group;       /* rows of the output (n * height); rows per task */
} plan;

typedef struct span {
    int64_t first, last;                /* last is exclusive */
} span;

/* The cells of the image under window `o` along axis k. */
static span cells_of(const plan *p, int k, int64_t o)
{
    const int64_t from = o * p->a.stride[k] - p->a.pad[k];
    return (span){max64(0, from), min64(p->image[k], from + p->a.kernel[k])};
}

/* The windows over cell `i` of the image along axis k. */
static span windows_of(const plan *p, int k, int64_t i)
{
    const int64_t at = i + p->a.pad[k], stride = p->a.stride[k];
    const int64_t first = at < p->a.kernel[k] ? 0 : (at - p->a.kernel[k]) / stride + 1;
    return (span){first, min64(p->pooled[k], at / stride + 1)};
}

/* The number within window (o, q) of cell (i, j). */
static int64_t place_in(const plan *p, int64_t i, int64_t o, int64_t j, int64_t q)
{
    return (i + p->a.pad[0] - o * p->a.stride[0]) * p->a.kernel[1] +
           (j + p->a.pad[1] - q * p->a.stride[1]);
}

/* 1 / number of cells that the average of a window divides by. */
static double share_of(const plan *p, span high, span wide)
{
    const int64_t inside = (high.last - high.first) * (wide.last - wide.first);
    return 1 / (double)(p->a.exclude_pad ? inside : p->a.kernel[0] * p->a.kernel[1]);
}

/* A row of outputs: cells (row, 0..) of the image or of the pooled data with number `image`. */
typedef struct place {
    int64_t image, row;
} place;

typedef void (*row_fn)(const plan *p, const weir_kargs *k, place at);

/* Index of the cell at (y, x) in data of h x w cells per image. */
static int64_t cell_at(const int64_t size[2], int64_t image, int64_t y, int64_t x)
{
    return (image * size[0] + y) * size[1] + x;
}

static void max_row(const plan *p, const weir_kargs *k, place at)
{
    const span     high = cells_of(p, 0, at.row);
    const int64_t  bytes = p->c * p->size;
    weir_pool_cell cell[WEIR_POOL_CELLS];
    for (int64_t q = 0; q < p->pooled[1]; q++) {
        const span    wide = cells_of(p, 1, q);
        const int64_t out = cell_at(p->pooled, at.image, at.row, q);
        int64_t       n = 0;
        for (int64_t i = high.first; i < high.last; i++)
            for (int64_t j = wide.first; j < wide.last; j++) {
                const int64_t in = cell_at(p->image, at.image, i, j);
                cell[n++] = (weir_pool_cell){.at = (const char *)k->src[0] + in * bytes,
                                             .place = place_in(p, i, at.row, j, q)};
            }
        p->loops.max(cell, n, p->c, (char *)k->dst[0] + out * bytes,
                     (uint8_t *)k->dst[1] + out * p->c);
    }
}

/* Collects cells and adds them whenever the list is full. */
typedef struct list {
    weir_pool_cell cell[WEIR_POOL_CELLS];
    int64_t        n, c;
    char          *y;
    bool           first;
    void (*add)(const weir_pool_cell *cell, int64_t n, int64_t c, void *y, bool first);
} list;

static void list_flush(list *l)
{
    if (l->n > 0 || l->first)
        l->add(l->cell, l->n, l->c, l->y, l->first);
    l->first = false;
    l->n = 0;
}

static void list_begin(list *l, char *y)
{
    l->y = y;
    l->first = true;
    l->n = 0;
}

static void list_add(list *l, weir_pool_cell cell)
{
    if (l->n == WEIR_POOL_CELLS)
        list_flush(l);
    l->cell[l->n++] = cell;
}

static void average_row(const plan *p, const weir_kargs *k, place at)
{
    const span    high = cells_of(p, 0, at.row);
    const int64_t bytes = p->c * p->size;
    list          l;
    l.c = p->c;
    l.add = p->loops.sum;
    for (int64_t q = 0; q < p->pooled[1]; q++) {
        const span wide = cells_of(p, 1, q);
        list_begin(&l, (char *)k->dst[0] + cell_at(p->pooled, at.image, at.row, q) * bytes);
        for (int64_t i = high.first; i < high.last; i++)
            for (int64_t j = wide.first; j < wide.last; j++) {
                const int64_t in = cell_at(p->image, at.image, i, j);
                list_add(&l, (weir_pool_cell){.at = (const char *)k->src[0] + in * bytes});
            }
        list_flush(&l);
        p->loops.scale(l.y, p->c, share_of(p, high, wide));
    }
}

/* Both gradients: gathers from the windows that cover each cell of the row. */
static void gradient_row(const plan *p, const weir_kargs *k, place at, bool max)
{
    const span    high = windows_of(p, 0, at.row);
    const int64_t bytes = p->c * p->size;
    list          l;
    l.c = p->c;
    l.add = max ? p->loops.max_grad : p->loops.scaled;
    for (int64_t j = 0; j < p->image[1]; j++) {
        const span wide = windows_of(p, 1, j);
        list_begin(&l, (char *)k->dst[0] + cell_at(p->image, at.image, at.row, j) * bytes);
        for (int64_t o = high.first; o < high.last; o++)
            for (int64_t q = wide.first; q < wide.last; q++) {
                const int64_t  in = cell_at(p->pooled, at.image, o, q);
                weir_pool_cell cell = {.at = (const char *)k->src[0] + in * bytes};
                if (max) {
                    cell.winner = (const uint8_t *)k->src[1] + in * p->c;
                    cell.place = place_in(p, at.row, o, j, q);
                } else {
                    cell.scale = share_of(p, cells_of(p, 0, o), cells_of(p, 1, q));
                }
                list_add(&l, cell);
            }
        list_flush(&l);
    }
}

/* Do the windows leave each other and the padding alone, and have all their cells? */
static bool are_apart(const plan *p)
{
    bool apart = true;
    for (int i = 0; i < 2; i++)
        apart &= p->a.pad[i] == 0 && p->a.stride[i] >= p->a.kernel[i] &&
                 p->pooled[i] * p->a.stride[i] <= p->image[i];
    return apart;
}

/* max_grad_row for such windows. */
static void max_grad_row_apart(const plan *p, const weir_kargs *k, place at)
{
    const int64_t bytes = p->c * p->size, o = at.row / p->a.stride[0];
    const int64_t high = at.row - o * p->a.stride[0], in = cell_at(p->pooled, at.image, o, 0);
    const int64_t covered = o < p->pooled[0] && high < p->a.kernel[0] ? p->pooled[1] : 0;
    const int64_t done = covered * p->a.stride[1];
    char *const   y = (char *)k->dst[0] + cell_at(p->image, at.image, at.row, 0) * bytes;
    if (covered > 0)
        p->loops.max_grad_apart((const char *)k->src[0] + in * bytes,
                                (const uint8_t *)k->src[1] + in * p->c, covered, p->c,
                                high * p->a.kernel[1], p->a.kernel[1], p->a.stride[1], y);
    memset(y + done * bytes, 0, (size_t)((p->image[1] - done) * bytes));
}

static void max_grad_row(const plan *p, const weir_kargs *k, place at)
{
    gradient_row(p, k, at, true);
}

static void average_grad_row(const plan *p, const weir_kargs *k, place at)
{
    gradient_row(p, k, at, false);
}

/* ---- bilinear upsampling: `pooled` is the larger image, `stride` the factor ---- */

/* The two cells between which pixel o lies along axis k: `first` and its successor, whose weight is
 * `next` (0 at the last cell). */
typedef struct between {
    int64_t first;
    double  next;
} between;

static between between_of(const plan *p, int k, int64_t o)
{
    const double  at = ((double)o + 0.5) / (double)p->a.stride[k] - 0.5;
    const int64_t first = at > 0 ? (int64_t)at : 0;
    const bool    inside = at > 0 && first + 1 < p->image[k];
    return (between){first, inside ? at - (double)first : 0};
}

static double weight_of(between b, int64_t i)
{
    return i == b.first ? 1 - b.next : i == b.first + 1 ? b.next : 0;
}

static void bilinear_row(const plan *p, const weir_kargs *k, place at)
{
    const between high = between_of(p, 0, at.row);
    const int64_t bytes = p->c * p->size;
    list          l;
    l.c = p->c;
    l.add = p->loops.scaled;
    for (int64_t q = 0; q < p->pooled[1]; q++) {
        const between wide = between_of(p, 1, q);
        list_begin(&l, (char *)k->dst[0] + cell_at(p->pooled, at.image, at.row, q) * bytes);
        for (int64_t i = high.first; i <= high.first + (high.next != 0); i++)
            for (int64_t j = wide.first; j <= wide.first + (wide.next != 0); j++) {
                const int64_t in = cell_at(p->image, at.image, i, j);
                list_add(&l, (weir_pool_cell){.at = (const char *)k->src[0] + in * bytes,
                                              .scale = weight_of(high, i) * weight_of(wide, j)});
            }
        list_flush(&l);
    }
}

/* The pixels in which cell i may have a weight along axis k: those with (o + 1/2) / f - 1/2 between
 * i - 1 and i + 1, or beyond the outermost cells. */
static span pixels_of(const plan *p, int k, int64_t i)
{
    const int64_t f = p->a.stride[k];
    return (span){max64(0, (2 * f * i - f) / 2), min64(p->pooled[k], (2 * f * i + 3 * f + 1) / 2)};
}

static void bilinear_grad_row(const plan *p, const weir_kargs *k, place at)
{
    const span    high = pixels_of(p, 0, at.row);
    const int64_t bytes = p->c * p->size;
    list          l;
    l.c = p->c;
    l.add = p->loops.scaled;
    for (int64_t j = 0; j < p->image[1]; j++) {
        const span wide = pixels_of(p, 1, j);
        list_begin(&l, (char *)k->dst[0] + cell_at(p->image, at.image, at.row, j) * bytes);
        for (int64_t o = high.first; o < high.last; o++)
            for (int64_t q = wide.first; q < wide.last; q++) {
                const int64_t in = cell_at(p->pooled, at.image, o, q);
                const double  weight = weight_of(between_of(p, 0, o), at.row) *
                                      weight_of(between_of(p, 1, q), j);
                if (weight != 0)
                    list_add(&l, (weir_pool_cell){.at = (const char *)k->src[0] + in * bytes,
                                                  .scale = weight});
            }
        list_flush(&l);
    }
}

/* ---- tasks ---- */

typedef struct job {
    const plan       *p;
    const weir_kargs *k;
    row_fn            row;
    int64_t           height;       /* rows of an output image */
} job;

static void rows_task(void *ctx, int64_t task)
{
    const job  *j = ctx;
    const plan *p = j->p;
    for (int64_t r = task * p->group; r < min64(p->rows, (task + 1) * p->group); r++)
        j->row(p, j->k, (place){r / j->height, r % j->height});
}

static weir_status run_rows(const weir_kargs *k, row_fn row, bool gradient)
{
    const plan *p = k->state;
    job         j = {p, k, row, gradient ? p->image[0] : p->pooled[0]};
    weir_parallel(k->threads, ceil_div(p->rows, p->group), rows_task, &j);
    return WEIR_OK;
}

static weir_status max_run(const weir_kargs *k)
{
    return run_rows(k, max_row, false);
}

static weir_status max_grad_run(const weir_kargs *k)
{
    return run_rows(k, are_apart(k->state) ? max_grad_row_apart : max_grad_row, true);
}

static weir_status average_run(const weir_kargs *k)
{
    return run_rows(k, average_row, false);
}

static weir_status average_grad_run(const weir_kargs *k)
{
    return run_rows(k, average_grad_row, true);
}

static weir_status bilinear_run(const weir_kargs *k)
{
    return run_rows(k, bilinear_row, false);
}

static weir_status bilinear_grad_run(const weir_kargs *k)
{
    return run_rows(k, bilinear_grad_row, true);
}

/* ---- selecting ---- */

/* image, pooled: the descriptions of both; out: that of the output. */
static weir_status choose(const weir_call *c, const weir_pool2d_attr *a, const weir_desc *image,
                          const weir_desc *pooled, weir_status (*run)(const weir_kargs *),
                          weir_kernel     *out)
{
    static const weir_pool_loops *const table[] = WEIR_ISA_TABLE(weir_pool_loops);
    if (!real_type(image->dtype))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s",
                              weir_dtype_name(image->dtype));
    plan *p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    const weir_desc *to = &c->out[0].desc;
    *p = (plan){.loops = table[weir_cpu_isa()][image->dtype],
                .a = *a,
                .size = (int64_t)weir_dtype_size(image->dtype),
                .n = image->dim[0],
                .c = image->dim[1],
                .image = {image->dim[2], image->dim[3]},
                .pooled = {pooled->dim[2], pooled->dim[3]},
                .rows = weir_shape_count(to) > 0 ? to->dim[0] * to->dim[2] : 0};
    const int64_t reads = max64(image->dim[2] * image->dim[3], pooled->dim[2] * pooled->dim[3]);
    p->group = rows_per_task(p->c * reads / max64(1, to->dim[2]));
    *out = (weir_kernel){.run = run, .state = p, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

weir_status weir_cpu_max_pool2d(weir_device *d, const weir_call *c, weir_kernel *out)
{
    if (weir_is_half(c->in[0].desc.dtype))
        return weir_cpu_widened_by_batch(d, c, weir_cpu_max_pool2d, out);
    return choose(c, c->attr, &c->in[0].desc, &c->out[0].desc, max_run, out);
}

weir_status weir_cpu_avg_pool2d(weir_device *d, const weir_call *c, weir_kernel *out)
{
    if (weir_is_half(c->in[0].desc.dtype))
        return weir_cpu_widened_by_batch(d, c, weir_cpu_avg_pool2d, out);
    return choose(c, c->attr, &c->in[0].desc, &c->out[0].desc, average_run, out);
}

weir_status weir_cpu_max_pool2d_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    if (weir_is_half(c->in[0].desc.dtype))
        return weir_cpu_widened_by_batch(d, c, weir_cpu_max_pool2d_grad, out);
    const weir_pool2d_grad_attr *a = c->attr;
    return choose(c, &a->pool, &c->out[0].desc, &c->in[0].desc, max_grad_run, out);
}

weir_status weir_cpu_avg_pool2d_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    if (weir_is_half(c->in[0].desc.dtype))
        return weir_cpu_widened_by_batch(d, c, weir_cpu_avg_pool2d_grad, out);
    const weir_pool2d_grad_attr *a = c->attr;
    return choose(c, &a->pool, &c->out[0].desc, &c->in[0].desc, average_grad_run, out);
}

weir_status weir_cpu_upsample_bilinear(weir_device *d, const weir_call *c, weir_kernel *out)
{
    if (weir_is_half(c->in[0].desc.dtype))
        return weir_cpu_widened_by_batch(d, c, weir_cpu_upsample_bilinear, out);
    const weir_upsample_attr *a = c->attr;
    const weir_pool2d_attr    by = {.stride = {a->factor[0], a->factor[1]}};
    return choose(c, &by, &c->in[0].desc, &c->out[0].desc, bilinear_run, out);
}

weir_status weir_cpu_upsample_bilinear_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    if (weir_is_half(c->in[0].desc.dtype))
        return weir_cpu_widened_by_batch(d, c, weir_cpu_upsample_bilinear_grad, out);
    const weir_upsample_attr *a = c->attr;
    const weir_pool2d_attr    by = {.stride = {a->factor[0], a->factor[1]}};
    return choose(c, &by, &c->out[0].desc, &c->in[0].desc, bilinear_grad_run, out);
}
