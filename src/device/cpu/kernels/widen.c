/* widen.c - runs a call on f16 or bf16 through its f32 kernel, between conversions.
 *
 * The workspace holds the kernel's own, then one dense f32 tensor for each half operand.
 * Conversions are casts by the copy kernel, so operands may have any strides. */
#include "device/cpu/kernels/widen.h"

#include "core/dtype.h"
#include "core/mem.h"
#include "device/cpu/kernels.h"

enum { UNIT = 64 };         /* alignment in bytes of each part of the workspace */

/* An operand: offset of its f32 copy in the workspace; cast.run is NULL if it is not widened. */
typedef struct operand {
    weir_kernel cast;
    size_t      at;
} operand;

typedef struct widened {
    weir_kernel inner;
    weir_call   call; /* in f32; its attributes are set by each run */
    weir_layout in_layout[WEIR_MAX_IN], out_layout[WEIR_MAX_OUT];
    operand     in[WEIR_MAX_IN], out[WEIR_MAX_OUT];
    size_t      work;
} widened;

static void widened_free(void *state)
{
    widened *const w = state;
    weir_kernel_drop(&w->inner);
    for (int i = 0; i < WEIR_MAX_IN; i++)
        weir_kernel_drop(&w->in[i].cast);
    for (int i = 0; i < WEIR_MAX_OUT; i++)
        weir_kernel_drop(&w->out[i].cast);
    weir_mem_free(w);
}

/* ---- run ---- */

static weir_status convert(const weir_kargs *k, const operand *o, void *src, void *dst)
{
    weir_kargs own = *k;

    own.state = o->cast.state;
    own.src = &src;
    own.dst = &dst;
    return o->cast.run(&own);
}

static weir_status run(const weir_kargs *k)
{
    const widened *const w = k->state;
    char *const          work = k->work;
    weir_call            call = w->call;
    void                *src[WEIR_MAX_IN], *dst[WEIR_MAX_OUT];
    weir_kargs           own = *k;

    for (int i = 0; i < call.nin; i++) {
        src[i] = w->in[i].cast.run ? work + w->in[i].at : k->src[i];
        if (w->in[i].cast.run)
            WEIR_TRY(convert(k, &w->in[i], k->src[i], src[i]));
    }
    for (int i = 0; i < call.nout; i++)
        dst[i] = w->out[i].cast.run ? work + w->out[i].at : k->dst[i];
    call.attr = k->call->attr;
    own.call = &call;
    own.src = src;
    own.dst = dst;
    own.state = w->inner.state;
    own.work = w->inner.work > 0 ? work : NULL;
    WEIR_TRY(w->inner.run(&own));
    for (int i = 0; i < call.nout; i++)
        if (w->out[i].cast.run)
            WEIR_TRY(convert(k, &w->out[i], dst[i], k->dst[i]));
    return WEIR_OK;
}

/* ---- selecting ---- */

static size_t whole_units(size_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

/* *wide = the dense f32 layout of `half`'s shape. */
static void widen_layout(const weir_layout *half, weir_layout *wide)
{
    *wide = *half;
    if (!weir_is_half(half->desc.dtype))
        return;
    wide->desc.dtype = WEIR_F32;
    weir_shape_dense(wide);
}

/* Adds the cast between two layouts, and workspace for the f32 one. */
static weir_status add_cast(weir_device *d, widened *w, const weir_layout *from, weir_layout *to,
                            operand *o)
{
    const weir_call c = {.op = WEIR_OP_CAST, .nin = 1, .nout = 1, .in = from, .out = to,
                         .alias = -1};

    if (from->desc.dtype == to->desc.dtype)
        return WEIR_OK;
    o->at = w->work;
    w->work += whole_units((size_t)weir_shape_count(&to->desc) * sizeof(float));
    return weir_cpu_cast(d, &c, &o->cast);
}

static weir_status plan(weir_device *d, const weir_call *c, weir_choose_fn choose, widened *w)
{
    w->call = *c;
    w->call.in = w->in_layout;
    w->call.out = w->out_layout;
    for (int i = 0; i < c->nin; i++)
        widen_layout(&c->in[i], &w->in_layout[i]);
    for (int i = 0; i < c->nout; i++)
        widen_layout(&c->out[i], &w->out_layout[i]);
    WEIR_TRY(choose(d, &w->call, &w->inner));
    w->work = whole_units(w->inner.work);
    for (int i = 0; i < c->nin; i++)
        WEIR_TRY(add_cast(d, w, &c->in[i], &w->in_layout[i], &w->in[i]));
    for (int i = 0; i < c->nout; i++) {
        weir_layout to = c->out[i];
        WEIR_TRY(add_cast(d, w, &w->out_layout[i], &to, &w->out[i]));
    }
    return WEIR_OK;
}

weir_status weir_cpu_widened(weir_device *d, const weir_call *c, weir_choose_fn choose,
                             weir_kernel *out)
{
    widened *const w = weir_mem_zalloc(1, sizeof *w);

    if (!w)
        return WEIR_ERR_NOMEM;
    const weir_status status = plan(d, c, choose, w);
    if (status != WEIR_OK) {
        widened_free(w);
        return status;
    }
    *out = (weir_kernel){.run = run, .state = w, .destroy = widened_free, .work = w->work,
                         .impl = w->inner.impl};
    return WEIR_OK;
}
