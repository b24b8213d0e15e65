/* pack.cu - PACK and UNPACK, SIGN_PACK and SIGN_RELU_GRAD: elements as codes of 1 to 32 bits.
 *
 * Codes become bits, lowest first. All conversions are exact and NaNs keep their bits, so values
 * are restored exactly, and the bytes equal the CPU's. */
#include "device/cuda/kernels/code.h"
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/index.h"
#include "device/common/packed.h"

/* ---- elements to codes and back ---- */

/* Whole numbers from `base` on. */
struct whole {
    template <class T> static __device__ inline uint32_t code(T x, int64_t base)
    {
        return (uint32_t)((uint64_t)(int64_t)weir_value(x) - (uint64_t)base);
    }
    template <class T> static __device__ inline void element(T *to, uint32_t code, int64_t base)
    {
        const int64_t v = (int64_t)((uint64_t)code + (uint64_t)base);
        typedef typename weir_real<T>::type real;
        weir_cuda_offload(to, (real)v);
    }
};

static __device__ inline float narrow_of(float x)  { return x; }
static __device__ inline float narrow_of(double x) { return weir_narrow(x); }

/* Floats that are exactly representable in bf16, f16 or f32. */
struct as_bf16 {
    template <class T> static __device__ inline uint32_t code(T x, int64_t)
    {
        return weir_half_bits(narrow_of(x)) >> 16;
    }
    template <class T> static __device__ inline void element(T *to, uint32_t code, int64_t)
    {
        weir_put(to, weir_half_float(code << 16));
    }
};
struct as_f16 {
    template <class T> static __device__ inline uint32_t code(T x, int64_t)
    {
        return weir_to_f16(narrow_of(x));
    }
    template <class T> static __device__ inline void element(T *to, uint32_t code, int64_t)
    {
        weir_put(to, weir_from_f16((uint16_t)code));
    }
};
struct as_f32 {
    template <class T> static __device__ inline uint32_t code(T x, int64_t)
    {
        return weir_half_bits(narrow_of(x));
    }
    template <class T> static __device__ inline void element(T *to, uint32_t code, int64_t)
    {
        weir_put(to, weir_half_float(code));
    }
};

/* ---- packing ---- */

enum { TILE = 4 * WEIR_CUDA_THREADS };      /* elements whose codes a block packs */

/* Codes of 8, 16 or 32 bits. */
template <class K, class T, class Code>
static __global__ void pack_bytes(Code *to, const T *from, int64_t n, int64_t base)
{
    WEIR_EACH(i, n) to[i] = (Code)K::code(from[i], base);
}

/* Codes of 1, 2 or 4 bits, 8 / bits per byte. */
template <class K, class T>
static __global__ void pack_bits(uint8_t *to, const T *from, int64_t n, int bits, int64_t base)
{
    __shared__ uint8_t code[TILE];
    const int          per = 8 / bits, t = (int)threadIdx.x;
    const int64_t      bytes = (n + per - 1) / per;

    for (int64_t at = (int64_t)blockIdx.x * TILE; at < n; at += (int64_t)gridDim.x * TILE) {
        for (int e = t; e < TILE; e += WEIR_CUDA_THREADS)
            code[e] = at + e < n ? (uint8_t)K::code(from[at + e], base) : (uint8_t)0;
        __syncthreads();
        for (int b = t; b < TILE / per && at / per + b < bytes; b += WEIR_CUDA_THREADS) {
            uint32_t byte = 0;
            for (int k = 0; k < per; k++)
                byte |= (uint32_t)code[b * per + k] << k * bits;
            to[at / per + b] = (uint8_t)byte;
        }
        __syncthreads();
    }
}

template <class K, class T> static weir_status pack_by(const weir_kargs *k)
{
    const weir_pack_attr *const a = (const weir_pack_attr *)k->call->attr;
    const T *const              from = (const T *)k->src[0];
    const int64_t               n = a->count;
    const unsigned              blocks = weir_cuda_blocks(n);

    switch (a->bits) {
    case 8: return weir_launch(k, pack_bytes<K, T, uint8_t>, blocks, WEIR_CUDA_THREADS,
                               (uint8_t *)k->dst[0], from, n, a->base);
    case 16: return weir_launch(k, pack_bytes<K, T, uint16_t>, blocks, WEIR_CUDA_THREADS,
                                (uint16_t *)k->dst[0], from, n, a->base);
    case 32: return weir_launch(k, pack_bytes<K, T, uint32_t>, blocks, WEIR_CUDA_THREADS,
                                (uint32_t *)k->dst[0], from, n, a->base);
    default: return weir_launch(k, pack_bits<K, T>, weir_cuda_blocks(ceil_div(n, 4)),
                                WEIR_CUDA_THREADS, (uint8_t *)k->dst[0], from, n, (int)a->bits,
                                a->base);
    }
}

/* ---- unpacking ---- */

template <class K, class T>
static __global__ void unpack(T *to, const uint8_t *from, int64_t n, int bits, int64_t base)
{
    WEIR_EACH(i, n) K::element(&to[i], weir_code_at(from, i, bits), base);
}

template <class K, class T> static weir_status unpack_by(const weir_kargs *k)
{
    const weir_pack_attr *const a = (const weir_pack_attr *)k->call->attr;

    return weir_launch(k, unpack<K, T>, weir_cuda_blocks(a->count), WEIR_CUDA_THREADS,
                       (T *)k->dst[0], (const uint8_t *)k->src[0], a->count, (int)a->bits,
                       a->base);
}

/* ---- selecting ---- */

typedef weir_status (*run_fn)(const weir_kargs *k);

/* The kinds that packed_kind accepts, in the order of weir_dtype. */
#define RUNS(by)                                                                                   \
    {                                                                                              \
        {by<whole, float>, by<whole, double>, by<whole, int32_t>, by<whole, int64_t>,              \
         by<whole, uint8_t>, by<whole, uint8_t>, by<whole, weir_f16>, by<whole, weir_bf16>},       \
        {by<as_bf16, float>, by<as_bf16, double>},                                                 \
        {by<as_f16, float>, by<as_f16, double>},                                                   \
        {NULL, by<as_f32, double>}                                                                 \
    }

static const run_fn packs[WEIR_PACK_KINDS][WEIR_BF16 + 1] = RUNS(pack_by);
static const run_fn unpacks[WEIR_PACK_KINDS][WEIR_BF16 + 1] = RUNS(unpack_by);

static weir_status choose(const weir_call *c, const weir_layout *plain, const weir_layout *packed,
                          const run_fn run[WEIR_PACK_KINDS][WEIR_BF16 + 1], weir_kernel *out)
{
    WEIR_TRY(packed_check(c, plain, packed));
    const weir_pack_attr *const a = (const weir_pack_attr *)c->attr;
    *out = (weir_kernel){.run = run[a->kind][a->dtype], .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_pack(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, &c->in[0], &c->out[0], packs, out);
}

weir_status weir_cuda_unpack(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose(c, &c->out[0], &c->in[0], unpacks, out);
}

/* ---- signs ---- */

enum { ROUNDS = 8, SIGNS = ROUNDS * 32 };   /* SIGNS: elements per warp, a byte for each lane */

/* Lane l writes byte l of its warp: bit e % 8 of byte e / 8 is !(element e <= 0), so 1 for NaN. */
template <class T> static __global__ void sign_pack(uint8_t *to, const T *y, int64_t n)
{
    const int     lane = (int)threadIdx.x % 32;
    const int64_t warps = (int64_t)gridDim.x * blockDim.x / 32;
    int64_t       w = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;

    for (; w * SIGNS < n; w += warps) {
        bool     positive[ROUNDS];
        uint32_t mine = 0;
        for (int r = 0; r < ROUNDS; r++) {
            const int64_t i = w * SIGNS + r * 32 + lane;
            positive[r] = i < n && !(y[i] <= 0);
        }
        for (int r = 0; r < ROUNDS; r++) {
            const uint32_t word = __ballot_sync(0xffffffffu, positive[r]);
            mine = r == lane / 4 ? word : mine;
        }
        if ((w * (SIGNS / 8) + lane) * 8 < n)
            to[w * (SIGNS / 8) + lane] = (uint8_t)(mine >> lane % 4 * 8);
    }
}

template <class T>
static __global__ void sign_relu_grad(T *dx, const T *dy, const uint8_t *sign, int64_t n)
{
    WEIR_EACH(i, n) dx[i] = (sign[i / 8] >> i % 8 & 1) != 0 ? dy[i] : 0;
}

/* Four at a time, the remainder one by one. */
template <class T>
static __global__ void sign_relu_grad_four(T *dx, const T *dy, const uint8_t *sign, int64_t n)
{
    WEIR_EACH(i, n / 4) {
        weir_lot<T, 4> v = ((const weir_lot<T, 4> *)dy)[i];
        const int      four = sign[i / 2] >> i % 2 * 4;
        for (int e = 0; e < 4; e++)
            v.at[e] = (four >> e & 1) != 0 ? v.at[e] : 0;
        ((weir_lot<T, 4> *)dx)[i] = v;
    }
    const int64_t rest = n / 4 * 4 + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (rest < n)
        dx[rest] = (sign[rest / 8] >> rest % 8 & 1) != 0 ? dy[rest] : 0;
}

template <class T> static weir_status sign_pack_run(const weir_kargs *k)
{
    const int64_t n = weir_shape_count(&k->call->in[0].desc);

    return weir_launch(k, sign_pack<T>, weir_cuda_blocks(ceil_div(n, ROUNDS)), WEIR_CUDA_THREADS,
                       (uint8_t *)k->dst[0], (const T *)k->src[0], n);
}

template <class T> static weir_status sign_relu_grad_run(const weir_kargs *k)
{
    const int64_t  n = weir_shape_count(&k->call->in[0].desc);
    const bool     fours = ((uintptr_t)k->src[0] | (uintptr_t)k->dst[0]) % (4 * sizeof(T)) == 0;
    const unsigned blocks = weir_cuda_blocks(fours ? ceil_div(n, 4) : n);

    return weir_launch(k, fours ? sign_relu_grad_four<T> : sign_relu_grad<T>, blocks,
                       WEIR_CUDA_THREADS, (T *)k->dst[0], (const T *)k->src[0],
                       (const uint8_t *)k->src[1], n);
}

static weir_status choose_sign(const weir_call *c, run_fn f32, run_fn f64, weir_kernel *out)
{
    const weir_dtype type = c->in[0].desc.dtype;

    if (type != WEIR_F32 && type != WEIR_F64)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s", weir_dtype_name(type));
    *out = (weir_kernel){.run = type == WEIR_F32 ? f32 : f64, .impl = "cuda"};
    return WEIR_OK;
}

weir_status weir_cuda_sign_pack(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose_sign(c, sign_pack_run<float>, sign_pack_run<double>, out);
}

weir_status weir_cuda_sign_relu_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    return choose_sign(c, sign_relu_grad_run<float>, sign_relu_grad_run<double>, out);
}
