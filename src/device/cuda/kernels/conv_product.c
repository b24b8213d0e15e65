/* conv_product.c - convolutions with 1 x 1 windows and stride 1 as matrix products.
 *
 * Without padding, channels-last images are already matrices of pixels x channels, and weights one
 * of outputs x channels:
 *     FORWARD y = x w^T + bias    GRAD_X dx = dy w    GRAD_W dw = dy^T x
 * This avoids the copies to another layout that most of cuDNN's f32 engines make. */
#include "device/cuda/kernels/conv_product.h"

#include "core/mem.h"
#include "core/status.h"
#include "device/cuda/kernels/conv_direct.h"
#include "device/cuda/kernels/multiply.h"

typedef struct plan {
    weir_conv      g;
    weir_conv_pass pass;
    weir_multiply       product;
    size_t              bias_at;    /* byte offset of the bias gradient's partial sums */
} plan;

static void plan_free(void *state)
{
    plan *const p = state;

    weir_multiply_drop(&p->product);
    weir_mem_free(p);
}

static weir_status run(const weir_kargs *k)
{
    const plan *const p = k->state;
    const bool        by_w = p->pass == WEIR_CONV_GRAD_W;
    weir_operands     o = {.a = k->src[0], .b = k->src[1], .to = k->dst[0], .work = k->work};

    if (p->product.product.bias)
        o.bias = k->src[2];
    if (by_w) {
        o.a = k->src[1];
        o.b = k->src[0];
    }
    WEIR_TRY(weir_multiply_run(k, &p->product, &o));
    return by_w && k->call->nout == 2
               ? weir_cuda_conv_bias_grad(k, &p->g, k->src[1], k->dst[1],
                                          k->work ? (char *)k->work + p->bias_at : NULL)
               : WEIR_OK;
}

static weir_product product_of(const weir_call *c, const weir_conv *g,
                               weir_conv_pass pass)
{
    const int64_t pixels = weir_conv_pixels(g);

    if (pass == WEIR_CONV_FORWARD)
        return (weir_product){.dtype = g->dtype, .tb = true, .bias = c->nin == 3, .m = pixels,
                              .n = g->o, .k = g->c, .lda = g->c, .ldb = g->c, .ldc = g->o};
    if (pass == WEIR_CONV_GRAD_X)
        return (weir_product){.dtype = g->dtype, .m = pixels, .n = g->c, .k = g->o, .lda = g->o,
                              .ldb = g->c, .ldc = g->c};
    return (weir_product){.dtype = g->dtype, .ta = true, .m = g->o, .n = g->c, .k = pixels,
                          .lda = g->o, .ldb = g->c, .ldc = g->c};
}

weir_status weir_cuda_conv_product(weir_device *d, const weir_call *c, const weir_conv *g,
                                   weir_conv_pass pass, bool *library, weir_kernel *out)
{
    const weir_product product = product_of(c, g, pass);
    plan *const        p = weir_mem_zalloc(1, sizeof *p);

    if (!p)
        return WEIR_ERR_NOMEM;
    p->g = *g;
    p->pass = pass;
    const weir_status s = weir_multiply_plan(d, c, &product, &p->product);
    if (s != WEIR_OK) {
        weir_mem_free(p);
        return s;
    }
    const size_t bias =
        pass == WEIR_CONV_GRAD_W && c->nout == 2 ? weir_cuda_conv_bias_work(g) : 0;
    p->bias_at = (p->product.work + WEIR_CUDA_ALIGN - 1) / WEIR_CUDA_ALIGN * WEIR_CUDA_ALIGN;
    *library = p->product.lt != NULL;
    *out = (weir_kernel){.run = run,
                         .work = bias > 0 ? p->bias_at + bias : p->product.work,
                         .state = p,
                         .destroy = plan_free,
                         .impl = p->product.impl};
    return WEIR_OK;
}
