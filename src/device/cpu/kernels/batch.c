/* batch.c - runs a call on halves in parts along its first axis, one after the other.
 *
 * A kernel for halves that computes in f32 copies its operands (widen.c). Copies of a whole batch
 * go through memory; those of a part stay in the second-level caches, and the workspace is as
 * small. Parts have no effect on bits, so their size may depend on the number of threads. */
#include "device/cpu/kernels/batch.h"

#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/kernels/widen.h"

enum { PART = 64 << 10 };       /* elements of the largest operand for each thread */

/* State of the kernel. */
typedef struct parts {
    weir_kernel each, last;     /* of a part, and of the last one, which is no larger */
    int64_t     count;
    size_t      in[WEIR_MAX_IN], out[WEIR_MAX_OUT];     /* bytes from a part to the next */
} parts;

static void parts_free(void *state)
{
    parts *const p = state;

    weir_kernel_drop(&p->each);
    weir_kernel_drop(&p->last);
    weir_mem_free(p);
}

static weir_status run(const weir_kargs *k)
{
    const parts *const p = k->state;
    void              *src[WEIR_MAX_IN], *dst[WEIR_MAX_OUT];
    weir_kargs         own = *k;

    own.src = src;
    own.dst = dst;
    for (int64_t part = 0; part < p->count; part++) {
        const weir_kernel *const kernel = part + 1 < p->count ? &p->each : &p->last;
        for (int i = 0; i < k->call->nin; i++)
            src[i] = (char *)k->src[i] + (size_t)part * p->in[i];
        for (int i = 0; i < k->call->nout; i++)
            dst[i] = (char *)k->dst[i] + (size_t)part * p->out[i];
        own.state = kernel->state;
        WEIR_TRY(kernel->run(&own));
    }
    return WEIR_OK;
}

/* Places of the first axis in a part; 0 if the call is not divided. */
static int64_t places_of(const weir_device *d, const weir_call *c)
{
    const int64_t n = c->in[0].desc.ndim > 0 ? c->in[0].desc.dim[0] : 0;
    int64_t       most = 1;

    for (int i = 0; i < c->nin + c->nout; i++) {
        const weir_desc *const x = i < c->nin ? &c->in[i].desc : &c->out[i - c->nin].desc;
        if (n < 2 || x->ndim == 0 || x->dim[0] % n != 0)
            return 0;
        most = max64(most, weir_shape_count(x));
    }
    const int64_t places = PART * weir_threads_count(d->threads) / ceil_div(most, n);
    return places < n ? max64(1, places) : 0;
}

/* Rows of the operand's first axis that belong to `places` of n. */
static int64_t rows_of(const weir_layout *x, int64_t places, int64_t n)
{
    return x->desc.dim[0] / n * places;
}

static size_t bytes_of(const weir_layout *x, int64_t places, int64_t n)
{
    return (size_t)(rows_of(x, places, n) * x->stride[0]) * weir_dtype_size(x->desc.dtype);
}

/* Selects the kernel for a part. */
static weir_status choose_part(weir_device *d, const weir_call *c, weir_choose_fn choose,
                               int64_t places, weir_kernel *out)
{
    const int64_t n = c->in[0].desc.dim[0];
    weir_layout   in[WEIR_MAX_IN], to[WEIR_MAX_OUT];
    weir_call     part = *c;

    for (int i = 0; i < c->nin; i++) {
        in[i] = c->in[i];
        in[i].desc.dim[0] = rows_of(&in[i], places, n);
    }
    for (int i = 0; i < c->nout; i++) {
        to[i] = c->out[i];
        to[i].desc.dim[0] = rows_of(&to[i], places, n);
    }
    part.in = in;
    part.out = to;
    return weir_cpu_widened(d, &part, choose, out);
}

static weir_status divide(weir_device *d, const weir_call *c, weir_choose_fn choose, int64_t places,
                          parts *p)
{
    const int64_t n = c->in[0].desc.dim[0];

    p->count = ceil_div(n, places);
    for (int i = 0; i < c->nin; i++)
        p->in[i] = bytes_of(&c->in[i], places, n);
    for (int i = 0; i < c->nout; i++)
        p->out[i] = bytes_of(&c->out[i], places, n);
    WEIR_TRY(choose_part(d, c, choose, places, &p->each));
    return choose_part(d, c, choose, n - (p->count - 1) * places, &p->last);
}

weir_status weir_cpu_widened_by_batch(weir_device *d, const weir_call *c, weir_choose_fn choose,
                                      weir_kernel *out)
{
    const int64_t places = places_of(d, c);

    if (places == 0)
        return weir_cpu_widened(d, c, choose, out);
    parts *const p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    const weir_status made = divide(d, c, choose, places, p);
    if (made != WEIR_OK) {
        parts_free(p);
        return made;
    }
    *out = (weir_kernel){.run = run, .state = p, .destroy = parts_free, .impl = p->each.impl,
                         .work = p->each.work > p->last.work ? p->each.work : p->last.work};
    return WEIR_OK;
}
