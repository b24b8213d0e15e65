/* gemm.cu - our own matrix product, for cards without cuBLASLt and for what it does not support.
 *
 * A thread block computes a square tile of one matrix (tile.h). If there are too few tiles to fill
 * a card and the sums are long, sums are divided into slices: each tile is computed once per slice,
 * into the workspace, and a second kernel adds the slices in order. Accumulation is in f32, for f64
 * in f64; the bias and the added matrix come last. Sizes determine the division, and so the
 * bits. */
#include "device/cuda/kernels/gemm.h"
#include "device/cuda/kernels/tile.h"

enum { MOST_BLOCKS = 1 << 20 };     /* most blocks of a launch; they loop over the rest */

/* Arguments of a launch. T: elements; A: accumulators. */
template <class T, class A> struct gemm_args {
    weir_panel<T> a, b;
    const T      *bias, *add;       /* NULL: none */
    T            *to;
    A            *partials;            /* [slice][product][m][n]; NULL: one slice */
    weir_product  p;
    int64_t       across, down, count;      /* tiles of a matrix; matrices */
    int64_t       slices, slice;
};

template <class T, class A>
static __device__ inline void gemm_store(const gemm_args<T, A> &g, int64_t c, int64_t i, int64_t j,
                                         A sum)
{
    const int64_t at = c + i * g.p.ldc + j;
    if (g.bias)
        sum += weir_load(g.bias + j);
    if (g.add)
        sum += weir_load(g.add + at);
    weir_cuda_offload(g.to + at, sum);
}

/* Computes tile `tile`, counted over slices, matrices, and tiles of a matrix. */
template <class T, class A, int SIDE, int DEPTH, int EACH>
static __device__ inline void gemm_one(weir_tiles<A, SIDE, SIDE, DEPTH> &tiles,
                                       const gemm_args<T, A> &g, int64_t tile)
{
    const int64_t each = g.across * g.down, slice = tile / each % g.slices;
    const int64_t product = tile / each / g.slices;
    const int64_t i0 = tile % each / g.across * SIDE, j0 = tile % each % g.across * SIDE;
    const int64_t p0 = slice * g.slice;
    const int64_t p1 = g.p.k - p0 < g.slice ? g.p.k : p0 + g.slice;
    const int     x = (int)threadIdx.x % (SIDE / EACH), y = (int)threadIdx.x / (SIDE / EACH);
    int64_t       to_a, to_b, to_c;
    A             acc[EACH][EACH] = {};
    weir_panel<T> a = g.a, b = g.b;
    weir_product_at(&g.p, product, &to_a, &to_b, &to_c);
    a.at += to_a;
    b.at += to_b;
    weir_tile_product<T, A, SIDE, SIDE, DEPTH, EACH, EACH>(tiles, acc, a, i0, g.p.m, b, j0, g.p.n,
                                                           p0, p1);
    A *const partials =
        g.partials ? g.partials + (slice * g.count + product) * g.p.m * g.p.n : NULL;
    WEIR_UNROLL
    for (int r = 0; r < EACH; r++) {
        const int64_t i = i0 + weir_tile_at<SIDE, EACH>(y, r);
        WEIR_UNROLL
        for (int s = 0; s < EACH; s++) {
            const int64_t j = j0 + weir_tile_at<SIDE, EACH>(x, s);
            if (i >= g.p.m || j >= g.p.n)
                continue;
            if (partials)
                partials[i * g.p.n + j] = acc[r][s];
            else
                gemm_store(g, to_c, i, j, acc[r][s]);
        }
    }
}

template <class T, class A, int SIDE, int DEPTH, int EACH>
static __global__ void
__launch_bounds__(SIDE / EACH * (SIDE / EACH), SIDE == WEIR_GEMM_LARGE ? 2 : 1)
    gemm_tiles(const gemm_args<T, A> g)
{
    __shared__ weir_tiles<A, SIDE, SIDE, DEPTH> tiles;
    const int64_t                               n = g.across * g.down * g.slices * g.count;
    for (int64_t tile = blockIdx.x; tile < n; tile += gridDim.x)
        gemm_one<T, A, SIDE, DEPTH, EACH>(tiles, g, tile);
}

template <class T, class A> static __global__ void gemm_join(const gemm_args<T, A> g)
{
    const int64_t each = g.p.m * g.p.n, n = g.count * each;
    WEIR_EACH(at, n)
    {
        const int64_t product = at / each, i = at % each / g.p.n, j = at % each % g.p.n;
        int64_t       to_a, to_b, to_c;
        A             sum = g.partials[at];
        for (int64_t s = 1; s < g.slices; s++)
            sum += g.partials[s * n + at];
        weir_product_at(&g.p, product, &to_a, &to_b, &to_c);
        gemm_store(g, to_c, i, j, sum);
    }
}

template <class T, class A, int SIDE, int DEPTH, int EACH>
static weir_status gemm_launch(const weir_kargs *k, gemm_args<T, A> &g)
{
    g.across = ceil_div(g.p.n, SIDE);
    g.down = ceil_div(g.p.m, SIDE);
    const int64_t tiles = g.across * g.down * g.slices * g.count;
    WEIR_TRY(weir_launch(k, gemm_tiles<T, A, SIDE, DEPTH, EACH>,
                         (unsigned)min64(tiles, MOST_BLOCKS), SIDE / EACH * (SIDE / EACH), g));
    if (!g.partials)
        return WEIR_OK;
    return weir_launch(k, gemm_join<T, A>, weir_cuda_blocks(g.count * g.p.m * g.p.n),
                       WEIR_CUDA_THREADS, g);
}

/* True if quads may be read in every matrix of the batch, given that they may in the first. */
static bool gemm_steps(const weir_product *p, const int64_t *step)
{
    for (int i = 0; i < p->axes; i++)
        if (step[i] % WEIR_QUAD != 0)
            return false;
    return true;
}

/* The small tile has longer steps, since it has few threads. */
template <class T, class A>
static weir_status gemm_typed(const weir_kargs *k, const weir_product *p, const weir_operands *o,
                              int64_t slices)
{
    gemm_args<T, A> g = {
        .a = {(const T *)o->a, p->ta ? 1 : p->lda, p->ta ? p->lda : 1,
              weir_quads<T>(o->a, p->lda) && gemm_steps(p, p->step_a)},
        .b = {(const T *)o->b, p->tb ? p->ldb : 1, p->tb ? 1 : p->ldb,
              weir_quads<T>(o->b, p->ldb) && gemm_steps(p, p->step_b)},
        .bias = p->bias ? (const T *)o->bias : NULL,
        .add = p->add ? (const T *)o->add : NULL,
        .to = (T *)o->to,
        .partials = slices > 1 ? (A *)o->work : NULL,
        .p = *p,
        .count = weir_product_count(p),
        .slices = slices,
        .slice = slices > 1 ? weir_gemm_slice(p) : max64(1, p->k),
    };
    switch (weir_gemm_tile_of(p)) {
    case WEIR_GEMM_LARGE:
        if constexpr (sizeof(A) == sizeof(float))
            return gemm_launch<T, A, WEIR_GEMM_LARGE, 8, 8>(k, g);
        break;
    case WEIR_GEMM_MEDIUM:
        return gemm_launch<T, A, WEIR_GEMM_MEDIUM, 16, 4>(k, g);
    case WEIR_GEMM_SMALL:
        break;
    }
    return gemm_launch<T, A, WEIR_GEMM_SMALL, 16, 4>(k, g);
}

weir_status weir_gemm_run(const weir_kargs *k, const weir_product *p, const weir_operands *o,
                          int64_t slices)
{
    if (p->m == 0 || p->n == 0 || weir_product_count(p) == 0)
        return WEIR_OK;
    switch (p->dtype) {
    case WEIR_F64:
        return gemm_typed<double, double>(k, p, o, slices);
    case WEIR_F16:
        return gemm_typed<weir_f16, float>(k, p, o, slices);
    case WEIR_BF16:
        return gemm_typed<weir_bf16, float>(k, p, o, slices);
    default:
        return gemm_typed<float, float>(k, p, o, slices);
    }
}

/* ---- bias rows ---- */

template <class T>
static __global__ void gemm_rows(const T *bias, T *to, int64_t n, int64_t count)
{
    WEIR_EACH(i, count) to[i] = bias[i % n];
}

weir_status weir_gemm_fill_bias(const weir_kargs *k, const weir_product *p, const void *bias,
                                void *to)
{
    const int64_t  n = weir_product_count(p) * p->m * p->n;
    const unsigned blocks = weir_cuda_blocks(n);
    switch (weir_dtype_size(p->dtype)) {
    case sizeof(double):
        return weir_launch(k, gemm_rows<double>, blocks, WEIR_CUDA_THREADS, (const double *)bias,
                           (double *)to, p->n, n);
    case sizeof(float):
        return weir_launch(k, gemm_rows<float>, blocks, WEIR_CUDA_THREADS, (const float *)bias,
                           (float *)to, p->n, n);
    default:
        return weir_launch(k, gemm_rows<uint16_t>, blocks, WEIR_CUDA_THREADS,
                           (const uint16_t *)bias, (uint16_t *)to, p->n, n);
    }
}
