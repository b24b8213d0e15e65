/* kernel_probe.c - compares kernels of one call. See kernel_probe.h. */
#include "device/kernel_probe.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/shape.h"
#include "core/splitmix.h"

enum { UNIT = 64, SHIFT = WEIR_SEEN_ALIGN };

/* ---- memory ---- */

static size_t whole_units(size_t bytes)
{
    return (bytes + SHIFT + UNIT - 1) / UNIT * UNIT;
}

/* Bytes from the first element to the last. */
static size_t extent(const weir_layout *l)
{
    int64_t last = 0;

    if (weir_shape_count(&l->desc) == 0)
        return 0;
    for (int i = 0; i < l->desc.ndim; i++)
        last += (l->desc.dim[i] - 1) * l->stride[i];
    return ((size_t)last + 1) * weir_dtype_size(l->desc.dtype);
}

/* Takes `bytes` bytes, and room to shift them, from *at on. */
static char *take(char **at, size_t bytes)
{
    char *const taken = *at;

    *at += whole_units(bytes);
    return taken;
}

weir_status weir_probe_open(weir_probe *p, weir_device *d, const weir_call *c, size_t work)
{
    size_t size = whole_units(work);
    void  *memory;

    *p = (weir_probe){.dev = d, .call = c};
    for (int i = 0; i < c->nin; i++) {
        p->bytes[i] = extent(&c->in[i]);
        size += whole_units(p->bytes[i]);
    }
    for (int i = 0; i < c->nout; i++)
        size += 2 * whole_units(weir_shape_bytes(&c->out[i].desc));
    p->size = size;
    WEIR_TRY(d->ops->alloc(d, size, false, &memory));
    char *at = p->memory = memory;
    p->work = take(&at, work);
    for (int i = 0; i < c->nin; i++)
        p->src[i] = take(&at, p->bytes[i]);
    for (int i = 0; i < c->nout; i++) {
        p->dst[i] = take(&at, weir_shape_bytes(&c->out[i].desc));
        p->want[i] = take(&at, weir_shape_bytes(&c->out[i].desc));
    }
    return WEIR_OK;
}

void weir_probe_close(weir_probe *p)
{
    if (p->memory)
        p->dev->ops->free(p->dev, p->memory, p->size);
    p->memory = NULL;
}

/* ---- running ---- */

static bool run(const weir_probe *p, const weir_kernel *k, size_t shift)
{
    void      *src[WEIR_MAX_IN], *dst[WEIR_MAX_OUT];
    weir_kargs args = {.call = p->call, .src = src, .dst = dst,
                       .work = k->work > 0 ? p->work : NULL, .state = k->state,
                       .threads = p->dev->threads, .seed = p->dev->seed, .dev = p->dev};

    for (int i = 0; i < p->call->nin; i++)
        src[i] = p->src[i] + shift;
    for (int i = 0; i < p->call->nout; i++)
        dst[i] = p->dst[i] + shift;
    return k->run(&args) == WEIR_OK;
}

/* Numbers from -1 to 1 with 24 random bits, so that nearly every sum rounds. */
static void draw(const weir_probe *p, size_t shift)
{
    uint64_t state = 1 + shift;

    for (int i = 0; i < p->call->nin; i++) {
        float *const to = (float *)(void *)(p->src[i] + shift);
        for (size_t j = 0; j < p->bytes[i] / sizeof *to; j++)
            to[j] = (float)(int32_t)(weir_splitmix_next(&state) >> 40) * 0x1p-23f - 1;
    }
}

bool weir_probe_equal(weir_probe *p, const weir_kernel *a, const weir_kernel *b)
{
    const weir_call *const c = p->call;

    for (size_t shift = 0; shift <= SHIFT; shift += SHIFT) {
        draw(p, shift);
        if (!run(p, a, shift))
            return false;
        for (int i = 0; i < c->nout; i++) {
            const size_t n = weir_shape_bytes(&c->out[i].desc);
            memcpy(p->want[i], p->dst[i] + shift, n);
            memset(p->dst[i] + shift, 0xff, n);
        }
        if (!run(p, b, shift))
            return false;
        for (int i = 0; i < c->nout; i++)
            if (memcmp(p->want[i], p->dst[i] + shift, weir_shape_bytes(&c->out[i].desc)) != 0)
                return false;
    }
    return true;
}

double weir_probe_seconds(weir_probe *p, const weir_kernel *k)
{
    const double begin = weir_now();

    return run(p, k, 0) ? weir_now() - begin : (double)INFINITY;
}
