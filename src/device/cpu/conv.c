/* conv.c - chooses the implementation of a convolution and of its gradients.
 *
 * f32: oneDNN where it has code for the shape, else patch matrix and product. f64: the latter. */
#include "device/cpu/conv.h"

#include "core/attr.h"
#include "core/status.h"
#include "device/cpu/gemm.h"
#include "device/cpu/kernels.h"
#include "device/cpu/onednn.h"
#include "device/cpu/openblas.h"

static weir_status run_onednn(const weir_kargs *k)
{
    return weir_onednn_run(k->state, k->src, k->dst, k->work, k->threads);
}

/* Whether oneDNN is asked. Not for nothing at all; and its gradient by x fills vectors with
 * channels: with a few of them (images) patch matrix and product take half the time. */
static bool onednn_suits(const weir_conv *c, weir_conv_pass pass, weir_gemm_want want)
{
    enum { FEW = 4 };
    if (c->dtype != WEIR_F32 || weir_conv_pixels(c) == 0 || c->h * c->w == 0 ||
        c->o * weir_conv_patch(c) == 0)
        return false;
    if (want == WEIR_GEMM_ANY)
        return pass != WEIR_CONV_GRAD_X || c->groups > 1 || c->c > FEW;
    return want == WEIR_GEMM_ONEDNN;
}

static weir_status choose(weir_device *d, const weir_conv *c, weir_conv_pass pass, bool bias,
                          weir_choice *out)
{
    weir_gemm_want       want;
    const weir_openblas *blas;
    weir_onednn         *lib = NULL;
    WEIR_TRY(weir_gemm_libraries(d, "WEIR_CONV", &want, &blas));
    if (onednn_suits(c, pass, want))
        WEIR_TRY(weir_onednn_conv(d, c, pass, bias, &lib));
    if (!lib)
        return weir_conv_by_gemm(c, pass, bias, blas, want, out);
    *out = (weir_choice){.run = run_onednn,
                         .work = weir_onednn_work(lib),
                         .state = lib,
                         .destroy = weir_onednn_free,
                         .impl = weir_onednn_impl(lib)};
    return WEIR_OK;
}

/* The geometry: y tells batch, output channels and size; x's channels and size and the kernel's
 * size come from wherever the call has them. */
static weir_conv geometry(const weir_conv2d_attr *a, const weir_desc *y, int64_t c, int64_t h,
                          int64_t w, int64_t kh, int64_t kw)
{
    weir_conv g = {.dtype = y->dtype,
                   .n = y->dim[0],
                   .c = c,
                   .h = h,
                   .w = w,
                   .o = y->dim[1],
                   .kh = kh,
                   .kw = kw,
                   .groups = a->groups,
                   .oh = y->dim[2],
                   .ow = y->dim[3]};
    for (int i = 0; i < 2; i++) {
        g.stride[i] = a->stride[i];
        g.pad[i] = a->pad[i];
        g.dilation[i] = a->dilation[i];
    }
    return g;
}

weir_status weir_cpu_conv2d(weir_device *d, const weir_call *c, weir_choice *out)
{
    const int64_t *const x = c->in[0].desc.dim, *const w = c->in[1].desc.dim;
    const weir_conv g = geometry(c->attr, &c->out[0].desc, x[1], x[2], x[3], w[2], w[3]);
    return choose(d, &g, WEIR_CONV_FORWARD, c->nin == 3, out);
}

weir_status weir_cpu_conv2d_grad_x(weir_device *d, const weir_call *c, weir_choice *out)
{
    const weir_conv2d_grad_attr *const a = c->attr;
    const int64_t *const               w = c->in[1].desc.dim;
    const weir_conv                    g =
        geometry(&a->conv, &c->in[0].desc, w[1] * a->conv.groups, a->h, a->w, w[2], w[3]);
    return choose(d, &g, WEIR_CONV_GRAD_X, false, out);
}

weir_status weir_cpu_conv2d_grad_w(weir_device *d, const weir_call *c, weir_choice *out)
{
    const weir_conv2d_gradw_attr *const a = c->attr;
    const int64_t *const                x = c->in[0].desc.dim;
    const weir_conv g = geometry(&a->conv, &c->in[1].desc, x[1], x[2], x[3], a->kh, a->kw);
    return choose(d, &g, WEIR_CONV_GRAD_W, a->bias != 0, out);
}
