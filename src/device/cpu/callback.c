/* callback.c - CALLBACK and CALLBACK_GRAD: the caller's functions on row-major operands.
 *
 * An operand whose memory is row-major is handed over as it is. Any other (channels-last images,
 * views) is copied into the workspace before the function, or out of it afterwards, by the copy
 * kernel. */
#include <assert.h>
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/cpu/kernels.h"
#include "weir/callback.h"

enum { MAX_OPERANDS = WEIR_MAX_IN + WEIR_MAX_OUT, NONE = -1 };

typedef struct operand {
    weir_layout        memory, host;
    const weir_choice *copy;        /* between the two; NULL: they are equal */
    size_t             at;          /* of the copy in the workspace */
} operand;

typedef struct callback {
    const weir_callback_def *def;
    void                    *ctx;
    int                      nin, nout;
    operand                  operand[MAX_OPERANDS];     /* inputs, then outputs */
    /* The caller's view: descs, and which input or output of the call each one is. */
    int       nx, ny;
    weir_desc x[WEIR_MAX_IN], y[WEIR_MAX_OUT];
    int       x_in[WEIR_MAX_IN], y_in[WEIR_MAX_OUT], dy_in[WEIR_MAX_OUT], dx_out[WEIR_MAX_IN];
} callback;

/* ---- running ---- */

static weir_status move(const weir_kargs *k, const operand *o, bool in, void *src, void *dst)
{
    weir_layout      to = in ? o->host : o->memory;
    const weir_call  c = {.op = WEIR_OP_COPY, .nin = 1, .nout = 1,
                          .in = in ? &o->memory : &o->host, .out = &to, .alias = -1};
    const weir_kargs args = {.call = &c, .src = &src, .dst = &dst, .state = o->copy->state,
                             .threads = k->threads};
    return o->copy->run(&args);
}

static void *host_of(const weir_kargs *k, int i)
{
    const callback *const s = k->state;
    if (s->operand[i].copy)
        return (char *)k->work + s->operand[i].at;
    return i < s->nin ? k->src[i] : k->dst[i - s->nin];
}

static weir_status gather(const weir_kargs *k)
{
    const callback *const s = k->state;
    for (int i = 0; i < s->nin; i++)
        if (s->operand[i].copy)
            WEIR_TRY(move(k, &s->operand[i], true, k->src[i], host_of(k, i)));
    return WEIR_OK;
}

static weir_status scatter(const weir_kargs *k)
{
    const callback *const s = k->state;
    for (int i = 0; i < s->nout; i++)
        if (s->operand[s->nin + i].copy)
            WEIR_TRY(move(k, &s->operand[s->nin + i], false, host_of(k, s->nin + i), k->dst[i]));
    return WEIR_OK;
}

static void views(const weir_kargs *k, int n, const weir_desc *desc, const int *which,
                  weir_host_in *view)
{
    for (int i = 0; i < n; i++)
        view[i] = (weir_host_in){desc[i], which[i] == NONE ? NULL : host_of(k, which[i])};
}

/* A failure that the function left without a sentence gets one. */
static weir_status failed(const callback *s, const char *function, weir_status status)
{
    if (status != WEIR_OK && weir_error_status() != status)
        weir_fail(status, "callback '%s': %s failed", s->def->name ? s->def->name : "", function);
    return status;
}

static weir_status forward_run(const weir_kargs *k)
{
    const callback *const s = k->state;
    weir_host_in          x[WEIR_MAX_IN];
    weir_host_out         y[WEIR_MAX_OUT];

    WEIR_TRY(gather(k));
    views(k, s->nx, s->x, s->x_in, x);
    for (int i = 0; i < s->ny; i++)
        y[i] = (weir_host_out){s->y[i], host_of(k, s->nin + i)};
    WEIR_TRY(failed(s, "forward", s->def->forward(s->ctx, x, y)));
    return scatter(k);
}

static weir_status backward_run(const weir_kargs *k)
{
    const callback *const s = k->state;
    weir_host_in          x[WEIR_MAX_IN], y[WEIR_MAX_OUT], dy[WEIR_MAX_OUT];
    weir_host_out         dx[WEIR_MAX_IN];

    WEIR_TRY(gather(k));
    views(k, s->nx, s->x, s->x_in, x);
    views(k, s->ny, s->y, s->y_in, y);
    views(k, s->ny, s->y, s->dy_in, dy);
    for (int i = 0; i < s->nx; i++)
        dx[i] = (weir_host_out){
            s->x[i], s->dx_out[i] == NONE ? NULL : host_of(k, s->nin + s->dx_out[i])};
    WEIR_TRY(failed(s, "backward", s->def->backward(s->ctx, x, y, dy, dx)));
    return scatter(k);
}

/* ---- choosing ---- */

/* Strides of axes of size 1 do not matter, and nothing needs moving where there is nothing. */
static bool same_memory(const weir_layout *a, const weir_layout *b)
{
    for (int i = 0; i < a->desc.ndim; i++)
        if (a->desc.dim[i] != 1 && a->stride[i] != b->stride[i])
            return weir_shape_count(&a->desc) == 0;
    return true;
}

/* The copy kernel that takes the operand to the host's layout or back. */
static weir_status plan_copy(weir_device *d, operand *o, bool in, size_t *work)
{
    weir_layout     to = in ? o->host : o->memory;
    const weir_call c = {.op = WEIR_OP_COPY, .nin = 1, .nout = 1,
                         .in = in ? &o->memory : &o->host, .out = &to, .alias = -1};

    WEIR_TRY(weir_choice_of(d, &c, &o->copy));
    assert(o->copy->work == 0);
    o->at = *work;
    if (!weir_size_add(*work, weir_shape_bytes(&o->host.desc), work) ||
        !weir_size_align(*work, d->ops->align, work))
        return weir_fail(WEIR_ERR_NOMEM, "callback: the copies of its operands are too large");
    return WEIR_OK;
}

static weir_status plan_operands(weir_device *d, const weir_call *c, callback *s, size_t *work)
{
    *work = 0;
    s->nin = c->nin;
    s->nout = c->nout;
    for (int i = 0; i < c->nin + c->nout; i++) {
        operand *const o = &s->operand[i];
        o->memory = i < c->nin ? c->in[i] : c->out[i - c->nin];
        o->host = (weir_layout){.desc = o->memory.desc};
        weir_shape_row_major(&o->host.desc, o->host.stride);
        if (!same_memory(&o->memory, &o->host))
            WEIR_TRY(plan_copy(d, o, i < c->nin, work));
    }
    return WEIR_OK;
}

static weir_desc unpack(const weir_desc_attr *a)
{
    weir_desc d = {.dtype = (weir_dtype)a->dtype, .ndim = (int)a->ndim};
    memcpy(d.dim, a->dim, sizeof d.dim);
    return d;
}

static weir_status choose(weir_device *d, const weir_call *c,
                          weir_status (*run)(const weir_kargs *), callback **state,
                          weir_choice *out)
{
    const weir_callback_attr *const a = c->attr;
    callback *const                 s = weir_mem_zalloc(1, sizeof *s);
    size_t                          work;

    if (!s)
        return WEIR_ERR_NOMEM;
    s->def = (const weir_callback_def *)(uintptr_t)a->def;
    s->ctx = (void *)(uintptr_t)a->ctx;
    s->nx = (int)a->nx;
    s->ny = (int)a->ny;
    for (int i = 0; i < s->nx; i++)
        s->x[i] = unpack(&a->desc[i]);
    for (int i = 0; i < s->ny; i++)
        s->y[i] = unpack(&a->desc[s->nx + i]);
    const weir_status status = plan_operands(d, c, s, &work);
    if (status != WEIR_OK) {
        weir_mem_free(s);
        return status;
    }
    *out = (weir_choice){
        .run = run, .work = work, .state = s, .destroy = weir_mem_free, .impl = "caller"};
    *state = s;
    return WEIR_OK;
}

weir_status weir_cpu_callback(weir_device *d, const weir_call *c, weir_choice *out)
{
    callback *s;

    WEIR_TRY(choose(d, c, forward_run, &s, out));
    for (int i = 0; i < s->nx; i++)
        s->x_in[i] = i;
    return WEIR_OK;
}

/* Inputs are x, y (each unless left out) and the dy of float results, in this order. */
weir_status weir_cpu_callback_grad(weir_device *d, const weir_call *c, weir_choice *out)
{
    const weir_callback_attr *const a = c->attr;
    callback                       *s;
    int                             n = 0, made = 0;

    WEIR_TRY(choose(d, c, backward_run, &s, out));
    for (int i = 0; i < s->nx; i++)
        s->x_in[i] = s->def->backward_without_x ? NONE : n++;
    for (int i = 0; i < s->ny; i++)
        s->y_in[i] = s->def->backward_without_y ? NONE : n++;
    for (int i = 0; i < s->ny; i++)
        s->dy_in[i] = weir_is_any_float(s->y[i].dtype) ? n++ : NONE;
    for (int i = 0; i < s->nx; i++)
        s->dx_out[i] = (a->want >> i & 1) != 0 ? made++ : NONE;
    return WEIR_OK;
}
