/* conv.c - selects the implementation of a convolution and of its gradients.
 *
 * f32: our own code where it is faster (conv_rows.h, conv_grad_w.h, depthwise_w.h), oneDNN where it
 * has code for the shape, else patch matrix and product. f64: our own code, or patch matrix and
 * product. Halves: oneDNN where the processor multiplies them, else our own code where that does,
 * else widened (widen.h).
 *
 * With stride 1 the gradient by x is itself a convolution, of dy with the kernels rotated by 180
 * degrees and input and output channels exchanged. oneDNN 2.6's forward code for AVX-512 is up to
 * twice as fast as its gradient (28 x 28 pixels, 512 channels), and slower with 1 x 1 kernels
 * only. */
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/conv_geometry.h"
#include "device/common/div.h"
#include "device/cpu/gemm/conv_patch.h"
#include "device/cpu/gemm/gemm.h"
#include "device/cpu/gemm/im2col.h"
#include "device/cpu/gemm/onednn.h"
#include "device/cpu/gemm/openblas.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/conv_1x1.h"
#include "device/cpu/kernels/conv_grad_w.h"
#include "device/cpu/kernels/conv_rows.h"
#include "device/cpu/kernels/depthwise_w.h"
#include "device/cpu/kernels/widen.h"

static bool is_empty(const weir_conv *c)
{
    return weir_conv_pixels(c) == 0 || c->h * c->w == 0 || c->o * weir_conv_patch(c) == 0;
}

/* FEW: channels of images. WIDE: pixels of a row from which on our own code is ahead, or the patch
 * matrix of an image. SMALL: pixels of a row up to which oneDNN's vectors are not full. */
enum { FEW = 4, WIDE = 40, SMALL = 7 };

/* Where our own code, or patch matrix and product, are faster than oneDNN 2.6's code for AVX2 in
 * channels-last, as measured on Zen 3. Its gradient by the weights takes two to four times as long:
 * 14 to 50 GF/s where forward has 50 to 80. With 1 x 1 kernels it takes 1.4 times as long as
 * OpenBLAS's product on images of 7 and 14 pixels, and as long on those of 56. On images of 4
 * pixels forward and the gradient by x have 56 to 74 GF/s, products of patches 76 to 105. */
static bool is_slow_in_onednn(const weir_conv *c, weir_conv_pass pass, const weir_openblas *blas)
{
    if (weir_cpu_isa() != WEIR_ISA_AVX2 || c->groups > 1)
        return false;
    if (c->kh * c->kw == 1)
        return pass == WEIR_CONV_GRAD_W && blas && c->ow < WIDE;
    return pass == WEIR_CONV_GRAD_W ? c->c > FEW || c->ow >= WIDE : c->c > FEW && c->ow <= SMALL;
}

/* Where oneDNN 2.6's product is faster than its convolution with 1 x 1 kernels and AVX-512, as
 * measured on Zen 5: on images of 7 pixels by 10 to 40 % in all passes. In f32 also by 10 to 20 %
 * in the gradient by the weights with at least as many outputs as inputs, and by 0 to 25 % in the
 * gradient by x. */
static bool product_leads(const weir_conv *c, weir_conv_pass pass)
{
    if (weir_cpu_isa() != WEIR_ISA_AVX512)
        return false;
    return c->ow <= SMALL || (c->dtype == WEIR_F32 && (pass == WEIR_CONV_GRAD_X ||
                                                       (pass == WEIR_CONV_GRAD_W && c->o >= c->c)));
}

/* True if oneDNN should be asked. Not for empty tensors; and its gradient by x vectorises over
 * channels, so with few of them patch matrix and product take half the time. */
static bool onednn_suits(const weir_conv *c, weir_conv_pass pass, weir_gemm_want want,
                         const weir_openblas *blas)
{
    if (c->dtype != WEIR_F32 || is_empty(c))
        return false;
    if (want == WEIR_GEMM_ANY)
        return (pass != WEIR_CONV_GRAD_X || c->groups > 1 || c->c > FEW) &&
               !is_slow_in_onednn(c, pass, blas);
    return want == WEIR_GEMM_ONEDNN;
}

typedef weir_status (*own_fn)(const weir_conv *c, bool bias, weir_kernel *out);

/* Our own gradient by the weights where it is wanted or faster; else NULL. Measured on Zen 4 with
 * AVX-512: by 20-40 % than oneDNN 2.6 on images of 56 pixels and more; on smaller ones the zeros
 * between rows cost too much. That of depthwise convolutions is faster on all. */
static own_fn own_grad_w(const weir_conv *c, bool bias, weir_gemm_want want)
{
    if (want != WEIR_GEMM_ANY && want != WEIR_GEMM_OWN)
        return NULL;
    if (weir_depthwise_w_suits(c))
        return weir_depthwise_w;
    const bool fast =
        c->dtype == WEIR_F32 && ((weir_cpu_isa() == WEIR_ISA_AVX512 && c->ow >= WIDE) ||
                                 is_slow_in_onednn(c, WEIR_CONV_GRAD_W, NULL));
    const bool wanted = want == WEIR_GEMM_OWN || !weir_onednn_present() || fast;
    return wanted && weir_conv_grad_w_suits(c, bias) ? weir_conv_grad_w : NULL;
}

/* ---- the gradient by x as a convolution ---- */

/* State: weights (o, taps, c), whose taps are rotated into the workspace after the library's
 * part. */
typedef struct turned {
    weir_onednn *lib; /* owned */
    int64_t      o, taps, c;
    size_t       at;
} turned;

typedef struct turning {
    const turned *t;
    const float  *from;
    float        *to;
    int64_t       each; /* output channels per task */
} turning;

static void turned_free(void *state)
{
    turned *const t = state;
    weir_onednn_free(t->lib);
    weir_mem_free(t);
}

static void turn_task(void *ctx, int64_t task)
{
    const turning *const j = ctx;
    const turned *const  t = j->t;
    for (int64_t o = task * j->each; o < min64(t->o, (task + 1) * j->each); o++)
        for (int64_t i = 0; i < t->taps; i++)
            memcpy(j->to + (o * t->taps + t->taps - 1 - i) * t->c,
                   j->from + (o * t->taps + i) * t->c, (size_t)t->c * sizeof(float));
}

static weir_status run_turned(const weir_kargs *k)
{
    const turned *const t = k->state;
    void               *src[] = {k->src[0], k->src[1]};
    turning             j = {.t = t, .from = k->src[1], .each = rows_per_task(t->taps * t->c)};
    src[1] = j.to = (float *)(void *)((char *)k->work + t->at);
    weir_parallel(k->threads, ceil_div(t->o, j.each), turn_task, &j);
    return weir_onednn_run(t->lib, src, k->dst, k->work, k->threads);
}

/* Writes the gradient as a convolution. False if that is impossible. */
static bool turn(const weir_conv *c, weir_conv *out)
{
    *out = *c;
    out->turned = true;
    out->c = c->o, out->h = c->oh, out->w = c->ow;
    out->o = c->c, out->oh = c->h, out->ow = c->w;
    out->pad[0] = c->dilation[0] * (c->kh - 1) - c->pad[0];
    out->pad[1] = c->dilation[1] * (c->kw - 1) - c->pad[1];
    return c->groups == 1 && c->stride[0] == 1 && c->stride[1] == 1 && out->pad[0] >= 0 &&
           out->pad[1] >= 0;
}

/* Is oneDNN's convolution faster than its gradient? With few channels or pixels the gradient is as
 * fast and needs less scratch. */
static bool gains_by_turning(const weir_conv *c)
{
    enum { CHANNELS = 128 * 128, PIXELS = 100 };
    return weir_cpu_isa_best() == WEIR_ISA_AVX512 && c->kh * c->kw > 1 &&
           c->c * c->o >= CHANNELS && c->h * c->w >= PIXELS;
}

/* Leaves *out unchanged if the library has no implementation. */
static weir_status choose_turned(weir_device *d, const weir_conv *c, weir_kernel *out)
{
    turned *const t = weir_mem_zalloc(1, sizeof *t);
    if (!t)
        return WEIR_ERR_NOMEM;
    *t = (turned){.o = c->c, .taps = c->kh * c->kw, .c = c->o};
    const weir_status s = weir_onednn_conv(d, c, WEIR_CONV_FORWARD, false, &t->lib);
    if (s != WEIR_OK || !t->lib) {
        turned_free(t);
        return s;
    }
    t->at = weir_onednn_work(t->lib);
    *out = (weir_kernel){.run = run_turned,
                         .work = t->at + (size_t)(t->o * t->taps * t->c) * sizeof(float),
                         .state = t,
                         .destroy = turned_free,
                         .impl = weir_onednn_impl(t->lib)};
    return WEIR_OK;
}

/* ---- selecting ---- */

/* Is our own code without patches wanted for this convolution, or this gradient by x as one? On Zen
 * 3 it has 82 to 134 GF/s with AVX2 where oneDNN 2.6 has 52 to 95. Without oneDNN it replaces the
 * patch matrix, unless only OpenBLAS has code for the processor's vectors. */
static bool wants_rows(const weir_conv *c, weir_gemm_want want, const weir_openblas *blas)
{
    const bool onednn = weir_onednn_present() && c->dtype == WEIR_F32;
    const bool fast = weir_cpu_isa() == WEIR_ISA_AVX2 ||
                      (!onednn && (weir_cpu_isa() == WEIR_ISA_AVX512 || !blas));
    return (want == WEIR_GEMM_OWN || (want == WEIR_GEMM_ANY && fast)) && weir_conv_rows_suits(c);
}

static weir_status choose(weir_device *d, const weir_conv *c, weir_conv_pass pass, bool bias,
                          weir_kernel *out)
{
    weir_gemm_want       want;
    const weir_openblas *blas;
    weir_onednn         *lib = NULL;
    weir_conv            forward;
    WEIR_TRY(weir_gemm_libraries(d, "WEIR_CONV", &want, &blas));
    const bool suits = onednn_suits(c, pass, want, blas);
    const own_fn own = pass == WEIR_CONV_GRAD_W ? own_grad_w(c, bias, want) : NULL;
    const bool turns = pass == WEIR_CONV_GRAD_X && turn(c, &forward);
    if (own)
        return own(c, bias, out);
    if ((pass == WEIR_CONV_FORWARD || turns) && wants_rows(turns ? &forward : c, want, blas))
        return weir_conv_rows(turns ? &forward : c, bias, out);
    out->run = NULL;
    if (suits && want == WEIR_GEMM_ANY && product_leads(c, pass))
        WEIR_TRY(weir_conv_1x1_onednn(d, c, pass, bias, out));
    if (out->run)
        return WEIR_OK;
    if (suits && turns && gains_by_turning(c))
        WEIR_TRY(choose_turned(d, &forward, out));
    if (out->run)
        return WEIR_OK;
    if (suits)
        WEIR_TRY(weir_onednn_conv(d, c, pass, bias, &lib));
    if (!lib)
        return weir_conv_by_gemm(c, pass, bias, blas, want, out);
    *out = weir_onednn_kernel(lib);
    return WEIR_OK;
}

/* Our own code for bf16; out->run is NULL where it does not serve the call. */
static weir_status choose_own_half(const weir_call *call, const weir_conv *c, weir_conv_pass pass,
                                   bool bias, weir_kernel *out)
{
    WEIR_TRY(weir_conv_1x1_own(call, c, pass, bias, out));
    return !out->run && pass == WEIR_CONV_GRAD_W && weir_conv_grad_w_suits(c, bias)
               ? weir_conv_grad_w(c, bias, out)
               : WEIR_OK;
}

/* Leaves out->run NULL if oneDNN does not multiply the type. */
static weir_status choose_half_onednn(weir_device *d, const weir_call *call, const weir_conv *c,
                                      weir_conv_pass pass, bool bias, weir_gemm_want want,
                                      weir_kernel *out)
{
    enum { BIAS = 4 };   /* it rounds the weights while it reorders them, but no bias, */
    weir_onednn *lib = NULL;
    weir_conv    half = *c;
    half.wide = pass != WEIR_CONV_GRAD_W && weir_cpu_narrows_input(call, 1);
    if (want == WEIR_GEMM_ANY && product_leads(c, pass))
        WEIR_TRY(weir_conv_1x1_onednn(d, c, pass, bias, out));
    if (out->run)        /* ... nor those of a product */
        return weir_cpu_narrowed(d, call, UINT32_MAX, *out, out);
    WEIR_TRY(weir_onednn_conv(d, &half, pass, bias, &lib));
    return lib ? weir_cpu_narrowed(d, call, BIAS, weir_onednn_kernel(lib), out) : WEIR_OK;
}

/* f16 or bf16: `wide` selects the pass for f32. */
static weir_status choose_half(weir_device *d, const weir_call *call, const weir_conv *c,
                               weir_conv_pass pass, bool bias, weir_choose_fn wide,
                               weir_kernel *out)
{
    weir_gemm_want       want;
    const weir_openblas *blas;
    WEIR_TRY(weir_gemm_libraries(d, "WEIR_CONV", &want, &blas));
    *out = (weir_kernel){0};
    if ((want == WEIR_GEMM_ANY || want == WEIR_GEMM_ONEDNN) && !is_empty(c))
        WEIR_TRY(choose_half_onednn(d, call, c, pass, bias, want, out));
    if ((want == WEIR_GEMM_ANY || want == WEIR_GEMM_OWN) && !is_empty(c) && !out->run)
        WEIR_TRY(choose_own_half(call, c, pass, bias, out));
    return out->run ? WEIR_OK : weir_cpu_widened(d, call, wide, out);
}

weir_status weir_cpu_conv2d(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_conv g = weir_conv_forward_of(c);
    if (weir_is_half(g.dtype))
        return choose_half(d, c, &g, WEIR_CONV_FORWARD, c->nin == 3, weir_cpu_conv2d, out);
    return choose(d, &g, WEIR_CONV_FORWARD, c->nin == 3, out);
}

weir_status weir_cpu_conv2d_grad_x(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_conv g = weir_conv_grad_x_of(c);
    if (weir_is_half(g.dtype))
        return choose_half(d, c, &g, WEIR_CONV_GRAD_X, false, weir_cpu_conv2d_grad_x, out);
    return choose(d, &g, WEIR_CONV_GRAD_X, false, out);
}

weir_status weir_cpu_conv2d_grad_w(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_conv2d_gradw_attr *const a = c->attr;
    const weir_conv                     g = weir_conv_grad_w_of(c);
    if (weir_is_half(g.dtype))
        return choose_half(d, c, &g, WEIR_CONV_GRAD_W, a->bias != 0, weir_cpu_conv2d_grad_w, out);
    return choose(d, &g, WEIR_CONV_GRAD_W, a->bias != 0, out);
}
