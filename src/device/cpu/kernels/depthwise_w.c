/* depthwise_w.c - the gradient of the weights of a depthwise convolution.
 *
 * dw[c,kh,kw] is the sum over all pixels of dy times x, shifted by the tap: no product of matrices,
 * so a patch matrix has one row for each tap and moves kh kw times the bytes. Here a task has the
 * taps of some channels, which lie side by side, over some images; parts are added in the order of
 * images. All divisions follow from the shape. */
#include "device/cpu/kernels/depthwise_w.h"

#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/gemm/im2col.h"
#include "device/cpu/isa.h"

enum { WIDE = WEIR_DEPTHWISE_CHANNELS, TASKS = 64 };

/* State of the kernel. */
typedef struct plan {
    weir_conv           c;
    weir_depthwise_loop loop;
    bool                bias;
    int64_t             blocks, taps;       /* of channels; of the kernel */
    int64_t             images, parts;      /* images of a part */
    size_t              bias_at;            /* bytes */
} plan;

/* The sums of a block of channels over the images of a part. */
static double *sums_of(const plan *p, void *work, int64_t part, int64_t block)
{
    return (double *)work + (part * p->blocks + block) * p->taps * WIDE;
}

static int64_t channels_of(const plan *p, int64_t block)
{
    return min64(WIDE, p->c.c - block * WIDE);
}

static void sum_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const plan *const       p = k->state;
    const int64_t           block = task % p->blocks, part = task / p->blocks;
    const int64_t           first = part * p->images;
    double *const           sums = sums_of(p, k->work, part, block);

    for (int64_t i = 0; i < p->taps * WIDE; i++)
        sums[i] = 0;
    p->loop(&p->c, (const float *)k->src[0] + block * WIDE, (const float *)k->src[1] + block * WIDE,
            first, min64(p->c.n, first + p->images), channels_of(p, block), sums);
}

/* Adds up the parts of a block of channels. */
static void meet_task(void *ctx, int64_t block)
{
    const weir_kargs *const k = ctx;
    const plan *const       p = k->state;
    float *const            dw = (float *)k->dst[0] + block * WIDE * p->taps;

    for (int64_t tap = 0; tap < p->taps; tap++)
        for (int64_t i = 0; i < channels_of(p, block); i++) {
            double sum = 0;
            for (int64_t part = 0; part < p->parts; part++)
                sum += sums_of(p, k->work, part, block)[tap * WIDE + i];
            dw[i * p->taps + tap] = (float)sum;
        }
}

static weir_status run(const weir_kargs *k)
{
    const plan *const p = k->state;
    weir_kargs        own = *k;

    weir_parallel(k->threads, p->blocks * p->parts, sum_task, &own);
    weir_parallel(k->threads, p->blocks, meet_task, &own);
    if (p->bias)
        weir_conv_bias_grad(&p->c, k->src[1], k->dst[1], (char *)k->work + p->bias_at, k->threads);
    return WEIR_OK;
}

bool weir_depthwise_w_suits(const weir_conv *c)
{
    enum { CHANNELS = 8 };
    return c->dtype == WEIR_F32 && c->groups == c->c && c->o == c->c && !c->turned &&
           c->c >= CHANNELS && c->kh * c->kw <= WEIR_DEPTHWISE_TAPS && weir_conv_pixels(c) > 0 &&
           c->h * c->w > 0;
}

weir_status weir_depthwise_w(const weir_conv *c, bool bias, weir_kernel *out)
{
    static const weir_depthwise_loop *const table[] = WEIR_ISA_TABLE(weir_depthwise_loops);
    static const char *const                name[] = {"own base", "own avx2", "own avx512"};
    const weir_isa                          isa = weir_cpu_isa();
    plan *const                             p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    *p = (plan){.c = *c,
                .loop = table[isa][0],
                .bias = bias,
                .blocks = ceil_div(c->c, WIDE),
                .taps = c->kh * c->kw};
    p->images = ceil_div(c->n, min64(c->n, ceil_div(TASKS, p->blocks)));
    p->parts = ceil_div(c->n, p->images);
    p->bias_at = (size_t)(p->parts * p->blocks * p->taps * WIDE) * sizeof(double);
    *out = (weir_kernel){.run = run,
                         .work = p->bias_at + (bias ? weir_conv_bias_work(c) : 0),
                         .state = p,
                         .destroy = weir_mem_free,
                         .impl = name[isa]};
    return WEIR_OK;
}
