/* callback.h - CALLBACK and CALLBACK_GRAD on any device: which operand of a call is which of the
 * caller's x, y, dy and dx, and calling their functions with operands that are on the host. */
#ifndef WEIR_DEVICE_COMMON_CALLBACK_H
#define WEIR_DEVICE_COMMON_CALLBACK_H

#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/status.h"
#include "weir/callback.h"

enum { CALLBACK_OPERANDS = WEIR_MAX_IN + WEIR_MAX_OUT, CALLBACK_NONE = -1 };

typedef struct callback_map {
    const weir_callback_def *def;
    void                    *ctx;
    int                      nin, nout;     /* of the call */
    /* The caller's view: descs, and which input or output of the call each one is. */
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

/* Of CALLBACK: inputs are x, outputs y. */
static inline callback_map callback_forward_map(const weir_call *c)
{
    callback_map m = callback_common(c);
    for (int i = 0; i < m.nx; i++)
        m.x_in[i] = i;
    return m;
}

/* Of CALLBACK_GRAD: inputs are x, y (each unless left out) and the dy of float results, in this
 * order; outputs the dx that are wanted. */
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

/* Is an operand of a call, as it lies in memory, what the caller's functions take? Strides of axes
 * of size 1 do not matter, and nothing needs moving where there is nothing. */
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

/* A failure that the function left without a sentence gets one. */
static inline weir_status callback_failed(const callback_map *m, const char *function,
                                          weir_status status)
{
    if (status != WEIR_OK && weir_error_status() != status)
        weir_fail(status, "callback '%s': %s failed", m->def->name ? m->def->name : "", function);
    return status;
}

/* host: the call's inputs, then its outputs, row-major. */
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

#endif
