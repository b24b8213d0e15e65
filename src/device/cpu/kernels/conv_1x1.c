/* conv_1x1.c - a convolution with 1 x 1 kernels as one product of the matrices that x, w and y are
 * in channels-last: pixels x channels, with W (o x c)
 *     y = x W^T + bias        dx = dy W        dW = dy^T x
 * Our own code rounds weights in f32 while it packs them. */
#include "device/cpu/kernels/conv_1x1.h"

#include "core/mem.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/gemm_bf16.h"
#include "device/cpu/gemm/onednn.h"

/* State: a product by lib, or by gemm. */
typedef struct product {
    weir_gemm    gemm;
    weir_onednn *lib;    /* owned, or NULL */
    bool         turned; /* the left operand is the call's second */
    bool         bias;
} product;

static void product_free(void *state)
{
    product *const p = state;
    weir_onednn_free(p->lib);
    weir_mem_free(p);
}

static weir_status run(const weir_kargs *k)
{
    const product *const p = k->state;
    void *const          a = k->src[p->turned], *const b = k->src[!p->turned];
    void *const          src[] = {a, b, p->bias ? k->src[2] : NULL};
    if (p->lib)
        return weir_onednn_run(p->lib, src, k->dst, k->work, k->threads);
    if (p->bias)
        weir_gemm_run_bias(&p->gemm, a, b, src[2], k->dst[0], k->work, k->threads);
    else
        weir_gemm_run(&p->gemm, a, b, k->dst[0], false, k->work, k->threads);
    return WEIR_OK;
}

/* ---- selecting ---- */

static bool is_product(const weir_conv *c, weir_conv_pass pass, bool bias)
{
    return c->kh == 1 && c->kw == 1 && c->groups == 1 && c->stride[0] == 1 && c->stride[1] == 1 &&
           c->pad[0] == 0 && c->pad[1] == 0 && c->oh == c->h && c->ow == c->w &&
           !(bias && pass == WEIR_CONV_GRAD_W);
}

static weir_gemm_shape shape_of(const weir_conv *c, weir_conv_pass pass)
{
    const int64_t pixels = weir_conv_pixels(c);
    if (pass == WEIR_CONV_FORWARD)
        return (weir_gemm_shape){.dtype = c->dtype, .tb = true, .m = pixels, .n = c->o, .k = c->c,
                                 .lda = c->c, .ldb = c->c, .ldc = c->o};
    if (pass == WEIR_CONV_GRAD_X)
        return (weir_gemm_shape){.dtype = c->dtype, .m = pixels, .n = c->c, .k = c->o,
                                 .lda = c->o, .ldb = c->c, .ldc = c->c};
    return (weir_gemm_shape){.dtype = c->dtype, .ta = true, .m = c->o, .n = c->c, .k = pixels,
                             .lda = c->o, .ldb = c->c, .ldc = c->c};
}

/* The kernel of one that is planned, of which it keeps a copy; frees it if there is no memory. */
static weir_status use(product *planned, weir_kernel *out)
{
    product *const p = weir_mem_alloc(sizeof *p);
    if (!p) {
        weir_onednn_free(planned->lib);
        return WEIR_ERR_NOMEM;
    }
    *p = *planned;
    *out = (weir_kernel){.run = run,
                         .state = p,
                         .destroy = product_free,
                         .work = p->lib ? weir_onednn_work(p->lib) : p->gemm.work,
                         .impl = p->lib ? weir_onednn_impl(p->lib) : p->gemm.impl};
    return WEIR_OK;
}

weir_status weir_conv_1x1_onednn(weir_device *d, const weir_conv *c, weir_conv_pass pass, bool bias,
                                 weir_kernel *out)
{
    const weir_gemm_shape shape = shape_of(c, pass);
    product               p = {.turned = pass == WEIR_CONV_GRAD_W, .bias = bias};
    *out = (weir_kernel){0};
    if (is_product(c, pass, bias))
        WEIR_TRY(weir_onednn_matmul(d, &shape, bias, &p.lib));
    return p.lib ? use(&p, out) : WEIR_OK;
}

weir_status weir_conv_1x1_own(const weir_call *call, const weir_conv *c, weir_conv_pass pass,
                              bool bias, weir_kernel *out)
{
    const bool            turned = pass == WEIR_CONV_GRAD_W;
    const weir_gemm_shape shape = shape_of(c, pass);
    product               p = {.turned = turned, .bias = bias};
    *out = (weir_kernel){0};
    if (c->dtype != WEIR_BF16 || !is_product(c, pass, bias) || !weir_gemm_bf16())
        return WEIR_OK;
    const weir_gemm_types types = {.a = call->in[turned].desc.dtype,
                                   .b = call->in[!turned].desc.dtype,
                                   .c = call->out[0].desc.dtype, .biased = bias,
                                   .bias = bias ? call->in[2].desc.dtype : c->dtype};
    return weir_gemm_plan_halves(&p.gemm, &shape, &types) ? use(&p, out) : WEIR_OK;
}
