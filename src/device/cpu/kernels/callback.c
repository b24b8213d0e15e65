/* callback.c - CALLBACK and CALLBACK_GRAD: calls the user's functions on row-major operands.
 *
 * An operand whose memory is row-major is passed as it is. Any other (channels-last images, views)
 * is copied to the workspace before the call, or from it afterwards, by the copy kernel. */
#include "device/common/callback.h"

#include "core/mem.h"
#include "device/cpu/kernels.h"

typedef struct callback {
    callback_map     map;
    callback_operand operand[CALLBACK_OPERANDS];    /* inputs, then outputs */
} callback;

/* ---- running ---- */

static weir_status run(const weir_kargs *k,
                       weir_status (*call)(const callback_map *m, void *const *host))
{
    const callback *const s = k->state;
    const int             nin = s->map.nin, all = nin + s->map.nout;
    void                 *host[CALLBACK_OPERANDS];

    for (int i = 0; i < all; i++)
        host[i] = s->operand[i].copy ? (char *)k->work + s->operand[i].at
                  : i < nin          ? k->src[i]
                                     : k->dst[i - nin];
    for (int i = 0; i < nin; i++)
        if (s->operand[i].copy)
            WEIR_TRY(callback_copy(k, &s->operand[i], true, k->src[i], host[i]));
    WEIR_TRY(call(&s->map, host));
    for (int i = nin; i < all; i++)
        if (s->operand[i].copy)
            WEIR_TRY(callback_copy(k, &s->operand[i], false, host[i], k->dst[i - nin]));
    return WEIR_OK;
}

static weir_status forward_run(const weir_kargs *k)
{
    return run(k, callback_forward);
}

static weir_status backward_run(const weir_kargs *k)
{
    return run(k, callback_backward);
}

/* ---- selecting ---- */

static weir_status plan(weir_device *d, const weir_call *c, void *state, size_t *work)
{
    callback *const s = state;

    for (int i = 0; i < c->nin + c->nout; i++)
        WEIR_TRY(callback_plan(d, i < c->nin ? &c->in[i] : &c->out[i - c->nin], i < c->nin,
                               &s->operand[i], work));
    return WEIR_OK;
}

static const callback_back_end back_end = {sizeof(callback), plan, forward_run, backward_run,
                                            weir_mem_free};

weir_status weir_cpu_callback(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return callback_choose(d, c, false, &back_end, out);
}

weir_status weir_cpu_callback_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return callback_choose(d, c, true, &back_end, out);
}
