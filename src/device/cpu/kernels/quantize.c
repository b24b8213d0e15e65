/* quantize.c - QUANTIZE and DEQUANTIZE: f32 numbers as 2, 4, 8 or 16 bits within the range of their
 * group (per-group quantisation with stochastic rounding: Chen and others, "ActNN", ICML 2021).
 *
 * The minimum and the step of each group come first, then the codes, lowest bits first. A number x
 * becomes floor((x - minimum) / step + u), u uniform in [0,1), which is unbiased. Element i draws
 * word i % 4 of block i / 4, so the threads do not matter. A group that contains an infinity or NaN
 * is restored as NaNs. */
#include <math.h>
#include <string.h>

#include "core/attr.h"
#include "core/rng.h"
#include "device/common/div.h"
#include "device/common/packed.h"
#include "device/cpu/kernels.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "16-bit codes are copied as they lie");

enum { GROUP = WEIR_QUANT_GROUP, TASK_GROUPS = 64 };

/* Groups [*first, result) of a task. */
static int64_t groups_of(const weir_pack_attr *a, int64_t task, int64_t *first)
{
    *first = task * TASK_GROUPS;
    return min64(ceil_div(a->count, GROUP), *first + TASK_GROUPS);
}

/* Minimum and step of n numbers; the step is NaN if one of them is not finite. */
static void range_of(const float *x, int64_t n, int64_t bits, float range[2])
{
    float lo = x[0], hi = x[0], finite = 0;

    for (int64_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
        finite += x[i] * 0;             /* NaN if x[i] is not finite */
    }
    range[0] = lo;
    range[1] = finite == 0 ? (float)(((double)hi - (double)lo) / (double)((1 << bits) - 1)) : NAN;
}

static void quantize_group(const weir_kargs *k, const weir_pack_attr *a, int64_t group)
{
    const int64_t      at = group * GROUP, n = min64(GROUP, a->count - at), per = 8 / a->bits;
    const float *const x = (const float *)k->src[0] + at;
    float *const       range = (float *)k->dst[0] + 2 * group;
    uint8_t *const     to = (uint8_t *)k->dst[0] + weir_quant_ranges(a) + at * a->bits / 8;
    uint16_t           code[GROUP] = {0};
    uint32_t           word[4];
    const double       most = (double)((1 << a->bits) - 1);

    range_of(x, n, a->bits, range);
    const double by = range[1] > 0 ? 1.0 / (double)range[1] : 0;
    for (int64_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            weir_philox(k->seed, k->rng + (uint64_t)(at + i) / 4, word);
        const double v = ((double)x[i] - (double)range[0]) * by +
                         (double)weir_uniform_from(word[i % 4]);
        code[i] = (uint16_t)(v > 0 ? v < most ? v : most : 0);
    }
    if (a->bits == 16)
        memcpy(to, code, (size_t)n * sizeof *code);
    for (int64_t i = 0; a->bits < 16 && i < ceil_div(n, per); i++) {
        uint32_t byte = 0;
        for (int64_t j = 0; j < per; j++)
            byte |= (uint32_t)code[i * per + j] << j * a->bits;
        to[i] = (uint8_t)byte;
    }
}

static void dequantize_group(const weir_kargs *k, const weir_pack_attr *a, int64_t group)
{
    const int64_t        at = group * GROUP, n = min64(GROUP, a->count - at), per = 8 / a->bits;
    float *const         x = (float *)k->dst[0] + at;
    const float *const   range = (const float *)k->src[0] + 2 * group;
    const uint8_t *const from = (const uint8_t *)k->src[0] + weir_quant_ranges(a) +
                                at * a->bits / 8;
    const uint32_t       mask = (1u << a->bits) - 1;

    for (int64_t i = 0; i < n; i++) {
        const uint32_t code = a->bits == 16 ? (uint32_t)from[2 * i] | (uint32_t)from[2 * i + 1] << 8
                                            : (uint32_t)from[i / per] >> i % per * a->bits & mask;
        x[i] = (float)((double)range[0] + (double)code * (double)range[1]);
    }
}

static void quantize_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    int64_t                 group;

    for (int64_t end = groups_of(k->call->attr, task, &group); group < end; group++)
        quantize_group(k, k->call->attr, group);
}

static void dequantize_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    int64_t                 group;

    for (int64_t end = groups_of(k->call->attr, task, &group); group < end; group++)
        dequantize_group(k, k->call->attr, group);
}

static weir_status over_tasks(const weir_kargs *k, weir_task_fn fn)
{
    const weir_pack_attr *const a = k->call->attr;
    weir_kargs                  args = *k;

    if (a->count > 0)
        weir_parallel(k->threads, ceil_div(a->count, (int64_t)GROUP * TASK_GROUPS), fn, &args);
    return WEIR_OK;
}

static weir_status quantize_run(const weir_kargs *k)
{
    return over_tasks(k, quantize_task);
}

static weir_status dequantize_run(const weir_kargs *k)
{
    return over_tasks(k, dequantize_task);
}

static weir_status choose(const weir_call *c, const weir_layout *plain, const weir_layout *codes,
                          weir_status (*run)(const weir_kargs *), weir_kernel *out)
{
    WEIR_TRY(packed_check_groups(c, plain, codes));
    *out = (weir_kernel){.run = run, .impl = "c"};
    return WEIR_OK;
}

weir_status weir_cpu_quantize(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, &c->in[0], &c->out[0], quantize_run, out);
}

weir_status weir_cpu_dequantize(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, &c->out[0], &c->in[0], dequantize_run, out);
}
