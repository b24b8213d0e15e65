/* conv_1x1.c - a convolution with 1 x 1 kernels as one product of the matrices that x, w and y are
 * in channels-last: pixels x channels, with W (o x c)
 *     y = x W^T + bias        dx = dy W        dW = dy^T x
 * Our own code rounds weights in f32 while it packs them. */
#include "device/cpu/kernels/conv_1x1.h"

#include "core/mem.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/gemm_bf16.h"
#include "device/cpu/kernels/product.h"

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
static weir_status use(const weir_cpu_product *planned, weir_kernel *out)
{
    weir_cpu_product *const p = weir_mem_alloc(sizeof *p);
    if (!p) {
        weir_onednn_free(planned->lib);
        return WEIR_ERR_NOMEM;
    }
    *p = *planned;
    *out = weir_cpu_product_kernel(p);
    return WEIR_OK;
}

weir_status weir_conv_1x1_onednn(weir_device *d, const weir_conv *c, weir_conv_pass pass, bool bias,
                                 weir_kernel *out)
{
    const weir_gemm_shape shape = shape_of(c, pass);
    weir_cpu_product      p = {.turned = pass == WEIR_CONV_GRAD_W, .bias = bias};
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
    weir_cpu_product      p = {.turned = turned, .bias = bias};
    *out = (weir_kernel){0};
    if (c->dtype != WEIR_BF16 || !is_product(c, pass, bias) || !weir_gemm_bf16())
        return WEIR_OK;
    const weir_gemm_types types = {.a = call->in[turned].desc.dtype,
                                   .b = call->in[!turned].desc.dtype,
                                   .c = call->out[0].desc.dtype, .biased = bias,
                                   .bias = bias ? call->in[2].desc.dtype : c->dtype};
    return weir_gemm_plan_halves(&p.gemm, &shape, &types) ? use(&p, out) : WEIR_OK;
}
