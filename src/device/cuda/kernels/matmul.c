/* matmul.c - selects the matrix product, single and batched, and the linear layer. */
#include "core/attr.h"
#include "core/mem.h"
#include "core/shape.h"
#include "core/status.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/multiply.h"

static void multiply_free(void *state)
{
    weir_multiply_drop(state);
    weir_mem_free(state);
}

static weir_status run(const weir_kargs *k)
{
    const weir_multiply *const m = k->state;
    const weir_operands        o = {.a = k->src[0],
                                    .b = k->src[1],
                                    .bias = m->product.bias ? k->src[2] : NULL,
                                    .to = k->dst[0],
                                    .work = k->work};
    return weir_multiply_run(k, m, &o);
}

static weir_status choose(weir_device *d, const weir_call *c, const weir_product *p,
                          weir_kernel *out)
{
    weir_multiply *const m = weir_mem_zalloc(1, sizeof *m);
    if (!m)
        return WEIR_ERR_NOMEM;
    const weir_status s = weir_multiply_plan(d, c, p, m);
    if (s != WEIR_OK) {
        weir_mem_free(m);
        return s;
    }
    *out = (weir_kernel){.run = run,
                         .work = m->work,
                         .state = m,
                         .destroy = multiply_free,
                         .impl = m->impl};
    return WEIR_OK;
}

/* The product's sizes, from the last two axes of both operands. */
static weir_product product_of(const weir_call *c)
{
    const weir_matmul_attr *const t = c->attr;
    const weir_desc *const        a = &c->in[0].desc, *const b = &c->in[1].desc;
    const int64_t *const          da = a->dim + a->ndim - 2, *const db = b->dim + b->ndim - 2;
    return (weir_product){.dtype = a->dtype,
                          .ta = t->ta != 0,
                          .tb = t->tb != 0,
                          .m = da[t->ta ? 1 : 0],
                          .k = da[t->ta ? 0 : 1],
                          .n = db[t->tb ? 0 : 1],
                          .lda = da[1],
                          .ldb = db[1],
                          .ldc = db[t->tb ? 0 : 1]};
}

weir_status weir_cuda_matmul(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_product p = product_of(c);
    return choose(d, c, &p, out);
}

weir_status weir_cuda_linear(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_desc *const x = &c->in[0].desc, *const w = &c->in[1].desc;
    const weir_product     p = {.dtype = x->dtype,
                                .tb = true,
                                .bias = c->nin == 3,
                                .m = x->dim[0],
                                .n = w->dim[0],
                                .k = x->dim[1],
                                .lda = x->dim[1],
                                .ldb = x->dim[1],
                                .ldc = w->dim[0]};
    return choose(d, c, &p, out);
}

/* Strides from matrix to matrix of an operand along the result's batch axes. */
static void batch_steps(const weir_call *c, int operand, int64_t step[WEIR_MAX_DIMS])
{
    const weir_desc *const in = &c->in[operand].desc;
    weir_desc              to = c->out[0].desc;
    weir_layout            seen;
    for (int i = 1; i <= 2; i++)
        to.dim[to.ndim - i] = in->dim[in->ndim - i];
    weir_shape_expand(&c->in[operand], &to, &seen);
    memcpy(step, seen.stride, (size_t)(to.ndim - 2) * sizeof *step);
}

weir_status weir_cuda_batch_matmul(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_layout *const y = &c->out[0];
    weir_product             p = product_of(c);
    p.axes = y->desc.ndim - 2;
    memcpy(p.dim, y->desc.dim, (size_t)p.axes * sizeof *p.dim);
    memcpy(p.step_c, y->stride, (size_t)p.axes * sizeof *p.step_c);
    batch_steps(c, 0, p.step_a);
    batch_steps(c, 1, p.step_b);
    return choose(d, c, &p, out);
}
