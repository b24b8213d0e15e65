/* sign.c - SIGN_PACK and SIGN_RELU_GRAD: one bit per element instead of a kept activation.
 *
 * Bits have the physical order of the dense tensor they were made from, which its gradient
 * shares. */
#include "device/cpu/kernels/sign.h"

#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"

enum { TASK = 32 << 10 };   /* elements, a multiple of 8 */

typedef struct sign {
    const weir_sign_loops *loops;
    int                    type;        /* 0: f32, 1: f64 */
    size_t                 size;
    int64_t                n;
} sign;

static void pack_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const sign *const       s = k->state;
    const int64_t           at = task * TASK;
    s->loops->pack[s->type](min64(TASK, s->n - at), (uint8_t *)k->dst[0] + at / 8,
                            (const char *)k->src[0] + (size_t)at * s->size);
}

static void relu_grad_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const sign *const       s = k->state;
    const int64_t           at = task * TASK;
    const size_t            offset = (size_t)at * s->size;
    s->loops->relu_grad[s->type](min64(TASK, s->n - at), (char *)k->dst[0] + offset,
                                 (const char *)k->src[0] + offset,
                                 (const uint8_t *)k->src[1] + at / 8);
}

static void over_tasks(const weir_kargs *k, weir_task_fn fn)
{
    const sign *const s = k->state;
    weir_kargs        args = *k;
    if (s->n > 0)
        weir_parallel(k->threads, ceil_div(s->n, TASK), fn, &args);
}

static weir_status pack_run(const weir_kargs *k)
{
    over_tasks(k, pack_task);
    return WEIR_OK;
}

static weir_status relu_grad_run(const weir_kargs *k)
{
    over_tasks(k, relu_grad_task);
    return WEIR_OK;
}

static weir_status choose(const weir_call *c, weir_status (*run)(const weir_kargs *),
                          weir_kernel     *out)
{
    static const weir_sign_loops *const table[] = WEIR_ISA_TABLE(&weir_signs);
    const weir_dtype type = c->in[0].desc.dtype;
    if (type != WEIR_F32 && type != WEIR_F64)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s", weir_dtype_name(type));
    sign *const s = weir_mem_alloc(sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (sign){table[weir_cpu_isa()], type == WEIR_F64, weir_dtype_size(type),
                weir_shape_count(&c->in[0].desc)};
    *out = (weir_kernel){.run = run, .state = s, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

weir_status weir_cpu_sign_pack(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, pack_run, out);
}

weir_status weir_cpu_sign_relu_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, relu_grad_run, out);
}
