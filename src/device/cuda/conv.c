/* conv.c - chooses who runs a convolution or one of its gradients. */
#include "device/cuda/conv.h"
#include "device/cuda/kernels.h"

/* w: (kh,kw); x: (c,h,w); y is the desc of the output, or what is shaped so. */
static weir_cuda_conv geometry(const weir_conv2d_attr *a, const weir_desc *y, int64_t c, int64_t h,
                               int64_t w, int64_t kh, int64_t kw)
{
    return (weir_cuda_conv){.dtype = y->dtype,
                            .n = y->dim[0],
                            .c = c,
                            .h = h,
                            .w = w,
                            .o = y->dim[1],
                            .kh = kh,
                            .kw = kw,
                            .groups = a->groups,
                            .oh = y->dim[2],
                            .ow = y->dim[3],
                            .stride = {a->stride[0], a->stride[1]},
                            .pad = {a->pad[0], a->pad[1]},
                            .dilation = {a->dilation[0], a->dilation[1]}};
}

weir_status weir_cuda_conv2d(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    const int64_t *const x = c->in[0].desc.dim, *const w = c->in[1].desc.dim;
    const weir_cuda_conv g =
        geometry(c->attr, &c->out[0].desc, x[1], x[2], x[3], w[2], w[3]);
    return weir_cuda_conv_own(c, &g, WEIR_CUDA_CONV_FORWARD, c->nin == 3, out);
}

weir_status weir_cuda_conv2d_grad_x(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    const weir_conv2d_grad_attr *const a = c->attr;
    const int64_t *const               w = c->in[1].desc.dim;
    const weir_cuda_conv               g = geometry(&a->conv, &c->in[0].desc,
                                                    w[1] * a->conv.groups, a->h, a->w, w[2], w[3]);
    return weir_cuda_conv_own(c, &g, WEIR_CUDA_CONV_GRAD_X, false, out);
}

weir_status weir_cuda_conv2d_grad_w(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    const weir_conv2d_gradw_attr *const a = c->attr;
    const int64_t *const                x = c->in[0].desc.dim;
    const weir_cuda_conv                g =
        geometry(&a->conv, &c->in[1].desc, x[1], x[2], x[3], a->kh, a->kw);
    return weir_cuda_conv_own(c, &g, WEIR_CUDA_CONV_GRAD_W, a->bias != 0, out);
}
