/* callback.h - CALLBACK and CALLBACK_GRAD on any device: maps the operands of a call to the x, y,
 * dy and dx of the user's functions, and calls these with operands in host memory. */
#ifndef WEIR_DEVICE_COMMON_CALLBACK_H
#define WEIR_DEVICE_COMMON_CALLBACK_H

#include <assert.h>
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/kernel.h"
#include "weir/callback.h"

enum { CALLBACK_OPERANDS = WEIR_MAX_IN + WEIR_MAX_OUT, CALLBACK_NONE = -1 };

typedef struct callback_map {
    const weir_callback_def *def;
    void                    *ctx;
    int                      nin, nout;     /* of the call */
    /* The user's view: descriptions, and the input or output of the call that each one is. */
    int       nx, ny;
    weir_desc x[WEIR_MAX_IN], y[WEIR_MAX_OUT];
    int       x_in[WEIR_MAX_IN], y_in[WEIR_MAX_OUT], dy_in[WEIR_MAX_OUT], dx_out[WEIR_MAX_IN];
} callback_map;

static inline weir_desc callback_desc(const weir_desc_attr *a)
{
    weir_desc d = {.dtype = (weir_dtype)a->dtype, .ndim = (int)a->ndim};
    memcpy(d.dim, a->dim, sizeof d.dim);
    return d;
}

static inline callback_map callback_common(const weir_call *c)
{
    const weir_callback_attr *const a = c->attr;
    callback_map m = {.def = (const weir_callback_def *)(uintptr_t)a->def,
                      .ctx = (void *)(uintptr_t)a->ctx, .nin = c->nin, .nout = c->nout,
                      .nx = (int)a->nx, .ny = (int)a->ny};

    for (int i = 0; i < m.nx; i++)
        m.x[i] = callback_desc(&a->desc[i]);
    for (int i = 0; i < m.ny; i++)
        m.y[i] = callback_desc(&a->desc[m.nx + i]);
    return m;
}

/* Map of CALLBACK: the inputs are x, the outputs y. */
static inline callback_map callback_forward_map(const weir_call *c)
{
    callback_map m = callback_common(c);
    for (int i = 0; i < m.nx; i++)
        m.x_in[i] = i;
    return m;
}

/* Map of CALLBACK_GRAD: the inputs are x and y (each may be omitted) and the dy of float results,
 * in this order; the outputs are the dx that are wanted. */
static inline callback_map callback_backward_map(const weir_call *c)
{
    const weir_callback_attr *const a = c->attr;
    callback_map                    m = callback_common(c);
    int                             n = 0, made = 0;

    for (int i = 0; i < m.nx; i++)
        m.x_in[i] = m.def->backward_without_x ? CALLBACK_NONE : n++;
    for (int i = 0; i < m.ny; i++)
        m.y_in[i] = m.def->backward_without_y ? CALLBACK_NONE : n++;
    for (int i = 0; i < m.ny; i++)
        m.dy_in[i] = weir_is_any_float(m.y[i].dtype) ? n++ : CALLBACK_NONE;
    for (int i = 0; i < m.nx; i++)
        m.dx_out[i] = (a->want >> i & 1) != 0 ? made++ : CALLBACK_NONE;
    return m;
}

/* True if an operand's memory already has the order that the user's functions expect. Strides of
 * axes of size 1 do not matter, and an empty tensor needs no move. */
static inline bool callback_row_major(const weir_layout *memory, const weir_layout *host)
{
    for (int i = 0; i < memory->desc.ndim; i++)
        if (memory->desc.dim[i] != 1 && memory->stride[i] != host->stride[i])
            return weir_shape_count(&memory->desc) == 0;
    return true;
}

static inline void callback_views(void *const *host, int n, const weir_desc *desc,
                                  const int *which, weir_host_in *view)
{
    for (int i = 0; i < n; i++)
        view[i] = (weir_host_in){desc[i], which[i] == CALLBACK_NONE ? NULL : host[which[i]]};
}

/* Adds a sentence to a failure for which the user's function has left none. */
static inline weir_status callback_failed(const callback_map *m, const char *function,
                                          weir_status status)
{
    if (status != WEIR_OK && weir_error_status() != status)
        weir_fail(status, "callback '%s': %s failed", m->def->name ? m->def->name : "", function);
    return status;
}

/* host: the call's inputs, then its outputs, all row-major. */
static inline weir_status callback_forward(const callback_map *m, void *const *host)
{
    weir_host_in  x[WEIR_MAX_IN];
    weir_host_out y[WEIR_MAX_OUT];

    callback_views(host, m->nx, m->x, m->x_in, x);
    for (int i = 0; i < m->ny; i++)
        y[i] = (weir_host_out){m->y[i], host[m->nin + i]};
    return callback_failed(m, "forward", m->def->forward(m->ctx, x, y));
}

static inline weir_status callback_backward(const callback_map *m, void *const *host)
{
    weir_host_in  x[WEIR_MAX_IN], y[WEIR_MAX_OUT], dy[WEIR_MAX_OUT];
    weir_host_out dx[WEIR_MAX_IN];

    callback_views(host, m->nx, m->x, m->x_in, x);
    callback_views(host, m->ny, m->y, m->y_in, y);
    callback_views(host, m->ny, m->y, m->dy_in, dy);
    for (int i = 0; i < m->nx; i++)
        dx[i] = (weir_host_out){
            m->x[i], m->dx_out[i] == CALLBACK_NONE ? NULL : host[m->nin + m->dx_out[i]]};
    return callback_failed(m, "backward", m->def->backward(m->ctx, x, y, dy, dx));
}

/* ---- operands whose memory has another order than the user's functions expect ---- */

typedef struct callback_operand {
    weir_layout        memory, host;
    const weir_kernel *copy;    /* between the two orders, on the device; NULL: they are equal */
    size_t             at;      /* offset of the reordered copy in the workspace */
} callback_operand;

static inline weir_call callback_copy_call(const callback_operand *o, bool in, weir_layout *to)
{
    *to = in ? o->host : o->memory;
    return (weir_call){.op = WEIR_OP_COPY, .nin = 1, .nout = 1,
                       .in = in ? &o->memory : &o->host, .out = to, .alias = -1};
}

/* Runs the copy; in: from the operand's memory order to row-major. */
static inline weir_status callback_copy(const weir_kargs *k, const callback_operand *o, bool in,
                                        void *src, void *dst)
{
    weir_layout     to;
    const weir_call c = callback_copy_call(o, in, &to);
    weir_kargs      args = *k;

    args.call = &c;
    args.src = &src;
    args.dst = &dst;
    args.state = o->copy->state;
    return o->copy->run(&args);
}

/* Describes an operand and, if it needs a copy, selects its kernel and adds its bytes to *work. */
static inline weir_status callback_plan(weir_device *d, const weir_layout *l, bool in,
                                        callback_operand *o, size_t *work)
{
    weir_layout to;

    o->memory = *l;
    o->host = (weir_layout){.desc = l->desc};
    weir_shape_row_major(&o->host.desc, o->host.stride);
    if (callback_row_major(&o->memory, &o->host))
        return WEIR_OK;
    const weir_call c = callback_copy_call(o, in, &to);
    WEIR_TRY(weir_kernel_of(d, &c, &o->copy));
    assert(o->copy->work == 0);
    o->at = *work;
    if (!weir_size_add(*work, weir_shape_bytes(&o->host.desc), work) ||
        !weir_size_align(*work, d->ops->align, work))
        return weir_fail(WEIR_ERR_NOMEM, "callback: the copies of its operands are too large");
    return WEIR_OK;
}

/* ---- selecting kernels ---- */

/* What differs between back ends. The state of their kernels begins with a callback_map. */
typedef struct callback_back_end {
    size_t        state;            /* bytes, zeroed before `plan` */
    weir_status (*plan)(weir_device *d, const weir_call *c, void *state, size_t *work);
    weir_status (*forward)(const weir_kargs *k);
    weir_status (*backward)(const weir_kargs *k);
    void        (*destroy)(void *state);
} callback_back_end;

static inline weir_status callback_choose(weir_device *d, const weir_call *c, bool backward,
                                          const callback_back_end *b, weir_kernel *out)
{
    callback_map *const s = weir_mem_zalloc(1, b->state);
    size_t              work = 0;

    if (!s)
        return WEIR_ERR_NOMEM;
    *s = backward ? callback_backward_map(c) : callback_forward_map(c);
    const weir_status status = b->plan(d, c, s, &work);
    if (status != WEIR_OK) {
        b->destroy(s);
        return status;
    }
    *out = (weir_kernel){.run = backward ? b->backward : b->forward, .work = work, .state = s,
                         .destroy = b->destroy, .impl = "caller"};
    return WEIR_OK;
}

#endif
