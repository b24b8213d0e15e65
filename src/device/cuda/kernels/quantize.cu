/* quantize.cu - QUANTIZE and DEQUANTIZE: f32 numbers as 2, 4, 8 or 16 bits within the range of
 * their group, with the bits of the CPU's quantize.c.
 *
 * A block handles a group, a thread one number. Of equal minima (0 and -0) the first is used, as in
 * a sequential search; a NaN is the minimum only if it comes first. */
#include "device/cuda/kernels/code.h"
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/kernels.h"
#include "device/common/packed.h"

enum { GROUP = WEIR_QUANT_GROUP, WARPS = GROUP / 32 };

static_assert((int)GROUP == (int)WEIR_CUDA_THREADS, "a thread for each number of a group");

/* Range of some numbers of a group. */
typedef struct range {
    float lo, hi;
    int   lo_at, hi_at;         /* positions; GROUP: none yet */
    int   bad;                  /* number of infinities and NaNs */
} range;

static __device__ inline range joined(const range &a, const range &b)
{
    const bool none = a.lo_at == GROUP, other = b.lo_at == GROUP;
    const bool lo = other || (!none && (a.lo < b.lo || (a.lo == b.lo && a.lo_at < b.lo_at)));
    const bool hi = other || (!none && (a.hi > b.hi || (a.hi == b.hi && a.hi_at < b.hi_at)));

    return range{lo ? a.lo : b.lo, hi ? a.hi : b.hi, lo ? a.lo_at : b.lo_at,
                 hi ? a.hi_at : b.hi_at, a.bad | b.bad};
}

/* The range over all threads; NaNs count in `bad` only. */
static __device__ inline range range_of(float x, bool there)
{
    __shared__ range of_warp[WARPS];
    const int        t = (int)threadIdx.x;
    const bool       number = there && x == x;
    range            r = {number ? x : 0, number ? x : 0, number ? t : GROUP, number ? t : GROUP,
                          there && !(x - x == 0)};

    for (int by = 16; by > 0; by /= 2) {
        const range other = {__shfl_xor_sync(0xffffffffu, r.lo, by),
                             __shfl_xor_sync(0xffffffffu, r.hi, by),
                             __shfl_xor_sync(0xffffffffu, r.lo_at, by),
                             __shfl_xor_sync(0xffffffffu, r.hi_at, by),
                             __shfl_xor_sync(0xffffffffu, r.bad, by)};
        r = joined(r, other);
    }
    if (t % 32 == 0)
        of_warp[t / 32] = r;
    __syncthreads();
    r = of_warp[0];
    for (int w = 1; w < WARPS; w++)
        r = joined(r, of_warp[w]);
    __syncthreads();
    return r;
}

typedef struct random_at {
    const uint64_t *draw;       /* see weir_kargs */
    uint64_t        seed, rng;
} random_at;

/* The code of number i within the group's range (minimum, step). */
static __device__ inline uint16_t quantized(float x, const float range[2], int bits,
                                            const random_at &random, int64_t i)
{
    const uint64_t seed = random.draw ? random.draw[0] : random.seed;
    const uint64_t rng = random.rng + (random.draw ? random.draw[1] : 0);
    const double   most = (double)((1 << bits) - 1);
    const double   by = range[1] > 0 ? 1.0 / (double)range[1] : 0;
    uint32_t       word[4];

    weir_philox(seed, rng + (uint64_t)i / 4, word);
    const uint32_t low = i % 4 < 2 ? word[0] : word[2], high = i % 4 < 2 ? word[1] : word[3];
    const uint32_t mine = i % 2 == 0 ? low : high;
    const double   v = ((double)x - (double)range[0]) * by + (double)weir_uniform_from(mine);
    return (uint16_t)(v > 0 ? v < most ? v : most : 0);
}

/* Writes the bytes of n codes. */
static __device__ inline void write_codes(uint8_t *to, const uint16_t *code, int n, int bits)
{
    for (int b = (int)threadIdx.x; b < (n * bits + 7) / 8; b += GROUP) {
        uint32_t byte = code[b / 2] >> b % 2 * 8;
        if (bits < 16)
            byte = 0;
        for (int k = 0; bits < 16 && k < 8 / bits; k++)
            byte |= (uint32_t)code[b * (8 / bits) + k] << k * bits;
        to[b] = (uint8_t)byte;
    }
}

static __global__ void quantize(float *ranges, uint8_t *codes, const float *x, int64_t count,
                                int bits, random_at random)
{
    __shared__ uint16_t code[GROUP];
    const int           t = (int)threadIdx.x;

    for (int64_t at = (int64_t)blockIdx.x * GROUP; at < count; at += (int64_t)gridDim.x * GROUP) {
        const int   n = count - at < GROUP ? (int)(count - at) : GROUP;
        const float mine = t < n ? x[at + t] : 0, first = x[at];
        const range r = range_of(mine, t < n);
        const float lo = first == first ? r.lo : first;
        const float step = r.bad ? weir_half_float(0x7fc00000u)
                                 : (float)(((double)r.hi - (double)lo) /
                                           (double)((1 << bits) - 1));
        const float both[2] = {lo, step};
        code[t] = t < n ? quantized(mine, both, bits, random, at + t) : (uint16_t)0;
        __syncthreads();
        write_codes(codes + at * bits / 8, code, n, bits);
        if (t == 0) {
            ranges[at / GROUP * 2] = lo;
            ranges[at / GROUP * 2 + 1] = step;
        }
        __syncthreads();
    }
}

/* A NaN step turns every code into NaN. */
static __global__ void dequantize(float *x, const float *ranges, const uint8_t *codes,
                                  int64_t count, int bits)
{
    WEIR_EACH(i, count) {
        const float lo = ranges[i / GROUP * 2], step = ranges[i / GROUP * 2 + 1];
        const float v = (float)((double)lo + (double)weir_code_at(codes, i, bits) * (double)step);
        x[i] = step == step ? v : step;
    }
}

static weir_status quantize_run(const weir_kargs *k)
{
    const weir_pack_attr *const a = (const weir_pack_attr *)k->call->attr;
    const random_at             random = {k->draw, k->seed, k->rng};

    return weir_launch(k, quantize, weir_cuda_blocks(a->count), WEIR_CUDA_THREADS,
                       (float *)k->dst[0], (uint8_t *)k->dst[0] + weir_quant_ranges(a),
                       (const float *)k->src[0], a->count, (int)a->bits, random);
}

static weir_status dequantize_run(const weir_kargs *k)
{
    const weir_pack_attr *const a = (const weir_pack_attr *)k->call->attr;

    return weir_launch(k, dequantize, weir_cuda_blocks(a->count), WEIR_CUDA_THREADS,
                       (float *)k->dst[0], (const float *)k->src[0],
                       (const uint8_t *)k->src[0] + weir_quant_ranges(a), a->count, (int)a->bits);
}

weir_status weir_cuda_quantize(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    WEIR_TRY(packed_check_groups(c, &c->in[0], &c->out[0]));
    *out = (weir_kernel){.run = quantize_run, .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_dequantize(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    WEIR_TRY(packed_check_groups(c, &c->out[0], &c->in[0]));
    *out = (weir_kernel){.run = dequantize_run, .impl = "cuda"};
    return WEIR_OK;
}
