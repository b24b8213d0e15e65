/* widen.c - runs a call through a kernel for other types, between conversions: halves through the
 * f32 kernel; f32 inputs beside halves through the kernel for halves.
 *
 * The workspace holds the kernel's own, then one dense tensor for each converted operand.
 * Conversions are casts by the copy kernel, so operands may have any strides. Where the f32 kernel
 * must read an f32 input as if it had been rounded to the half type (weir_device_ops.narrows), the
 * copy is rounded. */
#include "device/cpu/kernels/widen.h"

#include <string.h>

#include "core/dtype.h"
#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/elementwise.h"

enum {
    UNIT = 64,              /* alignment in bytes of each part of the workspace */
    TASK = 16 << 10         /* elements that one task rounds */
};

/* The weights, and the bias. */
const uint32_t weir_cpu_narrows[WEIR_OP_COUNT] = {
    [WEIR_OP_MATMUL] = 2,        [WEIR_OP_LINEAR] = 6,           [WEIR_OP_CONV2D] = 6,
    [WEIR_OP_CONV2D_GRAD_X] = 2, [WEIR_OP_CONV_TRANSPOSE2D] = 2, [WEIR_OP_LSTM] = 2,
    [WEIR_OP_LSTM_GRAD] = 2,
};

/* An operand: offset of its copy in the workspace; cast.run is NULL if it is not converted. */
typedef struct operand {
    weir_kernel cast;
    size_t      at;
} operand;

typedef struct widened {
    weir_kernel inner;
    weir_call   call; /* in the kernel's types; its attributes are set by each run */
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

/* ---- rounding f32 ---- */

/* State of the copy of a dense f32 operand. */
typedef struct rounding {
    int64_t n;
    void  (*round)(int64_t n, float *x);
} rounding;

static void round_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const rounding *const   r = k->state;
    const int64_t           at = task * TASK, n = min64(TASK, r->n - at);
    float *const            to = (float *)k->dst[0] + at;

    memcpy(to, (const float *)k->src[0] + at, (size_t)n * sizeof *to);
    r->round(n, to);
}

static weir_status round_run(const weir_kargs *k)
{
    const rounding *const r = k->state;
    weir_kargs            own = *k;

    if (r->n > 0)   /* without elements the operand may be null, which memcpy does not allow */
        weir_parallel(k->threads, ceil_div(r->n, TASK), round_task, &own);
    return WEIR_OK;
}

/* ---- selecting ---- */

static size_t whole_units(size_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

/* *to = the dense layout of `from`'s shape in another type. */
static void convert_layout(const weir_layout *from, weir_dtype type, weir_layout *to)
{
    *to = *from;
    if (from->desc.dtype == type)
        return;
    to->desc.dtype = type;
    weir_shape_dense(to);
}

static void add_work(widened *w, const weir_layout *copy, operand *o)
{
    o->at = w->work;
    w->work += whole_units((size_t)weir_shape_bytes(&copy->desc));
}

/* Adds the cast between two layouts, and workspace for `copy`, one of them. */
static weir_status add_cast(weir_device *d, widened *w, const weir_layout *from, weir_layout *to,
                            const weir_layout *copy, operand *o)
{
    const weir_call c = {.op = WEIR_OP_CAST, .nin = 1, .nout = 1, .in = from, .out = to,
                         .alias = -1};

    if (from->desc.dtype == to->desc.dtype)
        return WEIR_OK;
    add_work(w, copy, o);
    return weir_cpu_cast(d, &c, &o->cast);
}

/* Adds a copy of a dense f32 operand that is rounded to the half type. */
static weir_status add_rounding(widened *w, const weir_layout *in, weir_dtype half, operand *o)
{
    static const weir_half_entry *const table[] = WEIR_ISA_TABLE(weir_halves);
    rounding *const                     r = weir_mem_alloc(sizeof *r);

    if (!r)
        return WEIR_ERR_NOMEM;
    *r = (rounding){weir_shape_count(&in->desc), table[weir_cpu_isa()][half].round};
    o->cast = (weir_kernel){.run = round_run, .state = r, .destroy = weir_mem_free, .impl = "c"};
    add_work(w, in, o);
    return WEIR_OK;
}


static void begin(const weir_call *c, widened *w)
{
    w->call = *c;
    w->call.in = w->in_layout;
    w->call.out = w->out_layout;
}

static weir_dtype wide_type(weir_dtype t)
{
    return weir_is_half(t) ? WEIR_F32 : t;
}

static weir_status widen(weir_device *d, const weir_call *c, weir_choose_fn choose, widened *w)
{
    begin(c, w);
    for (int i = 0; i < c->nin; i++)
        convert_layout(&c->in[i], wide_type(c->in[i].desc.dtype), &w->in_layout[i]);
    for (int i = 0; i < c->nout; i++)
        convert_layout(&c->out[i], wide_type(c->out[i].desc.dtype), &w->out_layout[i]);
    WEIR_TRY(choose(d, &w->call, &w->inner));
    w->work = whole_units(w->inner.work);
    for (int i = 0; i < c->nin; i++) {
        weir_layout *const to = &w->in_layout[i];
        WEIR_TRY(weir_cpu_narrows_input(c, i)
                     ? add_rounding(w, to, c->in[0].desc.dtype, &w->in[i])
                     : add_cast(d, w, &c->in[i], to, to, &w->in[i]));
    }
    for (int i = 0; i < c->nout; i++) {
        weir_layout to = c->out[i];
        WEIR_TRY(add_cast(d, w, &w->out_layout[i], &to, &w->out_layout[i], &w->out[i]));
    }
    return WEIR_OK;
}

static weir_status narrow(weir_device *d, const weir_call *c, uint32_t inputs, widened *w)
{
    begin(c, w);
    for (int i = 0; i < c->nin; i++)
        convert_layout(&c->in[i], inputs >> i & 1 ? c->in[0].desc.dtype : c->in[i].desc.dtype,
                       &w->in_layout[i]);
    for (int i = 0; i < c->nout; i++)
        w->out_layout[i] = c->out[i];
    w->work = whole_units(w->inner.work);
    for (int i = 0; i < c->nin; i++)
        WEIR_TRY(add_cast(d, w, &c->in[i], &w->in_layout[i], &w->in_layout[i], &w->in[i]));
    return WEIR_OK;
}

/* Makes *out the kernel of w, or frees w if it could not be made. */
static weir_status finish(widened *w, weir_status made, weir_kernel *out)
{
    if (made != WEIR_OK) {
        widened_free(w);
        return made;
    }
    *out = (weir_kernel){.run = run, .state = w, .destroy = widened_free, .work = w->work,
                         .impl = w->inner.impl};
    return WEIR_OK;
}

weir_status weir_cpu_widened(weir_device *d, const weir_call *c, weir_choose_fn choose,
                             weir_kernel *out)
{
    widened *const w = weir_mem_zalloc(1, sizeof *w);

    return w ? finish(w, widen(d, c, choose, w), out) : WEIR_ERR_NOMEM;
}

weir_status weir_cpu_narrowed(weir_device *d, const weir_call *c, uint32_t inputs,
                              weir_kernel inner, weir_kernel *out)
{
    uint32_t wide = 0;

    for (int i = 0; i < c->nin; i++)
        wide |= weir_cpu_narrows_input(c, i) ? inputs & 1u << i : 0;
    *out = inner;
    if (wide == 0)
        return WEIR_OK;
    widened *const w = weir_mem_zalloc(1, sizeof *w);
    if (!w) {
        weir_kernel_drop(&inner);
        return WEIR_ERR_NOMEM;
    }
    w->inner = inner;
    return finish(w, narrow(d, c, wide, w), out);
}
