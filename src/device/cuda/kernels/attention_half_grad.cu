/* attention_half_grad.cu - the gradient of attention in f16 and bf16 on tensor cores.
 *
 * As in attention.cu, scores are recomputed for each sum, so that it has one owner and one order: a
 * thread block owns rows of q, or of k and v. Probabilities and gradients of scores are f32 until
 * they are rounded to the half type for the product that sums them. */
#include "device/cuda/kernels/attention_half.cuh"

/* What a kernel computes: the gradients of q, of k and v, or of one of these. */
enum { HALF_Q = 1, HALF_K = 2, HALF_V = 4 };

/* Gradients of scores are multiplied by `up`, a power of two, so that small ones do not underflow
 * in f16; values up to `bound` do not overflow. */
struct half_range {
    float up, bound;
};

/* If the matrix has a value beyond the bound: lowers `up` and rescales the sums made with it. */
template <int N>
static __device__ inline void half_widen(half_range *r, const half_sum &x, half_sum (&sum)[N])
{
    float top = 0;
    WEIR_UNROLL
    for (int i = 0; i < half_sum::num_elements; i++)
        top = fabsf(x.x[i]) > top ? fabsf(x.x[i]) : top;
    if (!__any_sync(ALL_LANES, top > r->bound))
        return;
    for (int by = WARP / 2; by > 0; by /= 2) {
        const float other = __shfl_xor_sync(ALL_LANES, top, by);
        top = other > top ? other : top;
    }
    /* top < 2^(1 - e), up = 2^(12 + e): this leaves room for values four times as large. */
    const int   e = (int)half_least(100, 127 - (int64_t)(weir_bits_f32(top) >> 23));
    const float up = weir_from_bits_f32((uint32_t)(127 + 12 + e) << 23);
    half_times(sum, up / r->up);
    *r = {up, 0x1p15f / up};
}

/* Writes a matrix to a column of the warp's part of shared memory. */
template <class C, int W>
static __device__ inline C *half_weigh(half_shared<C, W> &m, const half_sum &x, float up, int col,
                                       const half_places &p)
{
    C (*const area)[SIDE + PAD] = m.weights[threadIdx.x / WARP];
    WEIR_UNROLL
    for (int i = 0; i < half_sum::num_elements; i++)
        half_narrow(&area[p.at[i] / TILE][col + p.at[i] % TILE], x.x[i] * up);
    return &area[0][col];
}

/* Loads the per-row values that the gradient needs for rows of q from `first`. */
template <class C, int W, class T>
static __device__ inline void half_load_stats(half_shared<C, W> &m, const attention_args<T> &g,
                                       int64_t head, int64_t first)
{
    const int i = (int)threadIdx.x;
    if (i >= SIDE)
        return;
    const bool    there = first + i < g.of.t;
    const int64_t at = head * g.of.t + first + i;
    m.low[i] = there ? (float)half_type<T>::LIFT - g.lse[at] * (float)LOG2_E : 0;
    m.delta[i] = there ? g.delta[at] : 0;
}

/* Turns scores s of a tile into probabilities, and dp = dy v^T into their gradients. i0, j0: its
 * first rows of q and k; at: the tile's rows of q in shared memory. */
template <bool BY_ROWS, class C, int W, class T>
static __device__ inline void half_back(const half_shared<C, W> &m, const attention_args<T> &g,
                                        half_sum &s, half_sum &dp, int64_t i0, int64_t j0, int at,
                                        const half_places &p)
{
    const int   rows = (int)half_least(TILE, g.of.t - i0);
    const int   cols = (int)half_least(TILE, g.of.s - j0);
    const int   ahead = g.of.causal ? (int)half_least(TILE, i0 - j0) : TILE;
    const bool  all = rows == TILE && cols == TILE && ahead >= TILE - 1;
    const float scale = g.scale * (float)LOG2_E;
    WEIR_UNROLL
    for (int x = 0; x < half_sum::num_elements; x++) {
        const int  i = BY_ROWS ? p.at[x] / TILE : p.at[x] % TILE;
        const int  j = BY_ROWS ? p.at[x] % TILE : p.at[x] / TILE;
        const bool sees = all || (i < rows && j < cols && j <= i + ahead);
        s.x[x] = sees ? exp2f(weir_fma(s.x[x], scale, m.low[at + i])) : 0;
        dp.x[x] = sees ? s.x[x] * (dp.x[x] - m.delta[at + i]) : 0;
    }
}

/* A block's sums: those weighted by gradients of scores, and those weighted by probabilities. */
template <int N> struct half_sums {
    half_sum   by_score[N], by_share[N];
    half_range range;
};

template <bool BY_ROWS, class C, int W>
static __device__ inline void half_meet_add(half_sum (&sum)[W / TILE], const C *weights,
                                            const C (*b)[W + PAD], int columns, int ahead,
                                            const half_places &p)
{
    if (ahead < TILE - 1)
        half_add_seen<BY_ROWS, C, W>(sum, weights, b, columns, ahead, p);
    else
        half_add<C, W>(sum, weights, b, columns);
}

/* Combines the warp's TILE rows from `mine` with tile c of the other operand's from `other`. */
template <int OF, class T, class C, int W>
static __device__ inline void
half_meet(half_shared<C, W> &m, const attention_args<T> &g, const half_left<C> (&a)[W / TILE],
          const half_left<C> (&b)[W / TILE], int64_t mine, int64_t other, int c,
          half_sums<W / TILE> &sums, half_places p)
{
    half_forget(p);
    constexpr bool BY_ROWS = OF == HALF_Q;
    const int64_t  i0 = BY_ROWS ? mine : other + c * TILE, j0 = BY_ROWS ? other + c * TILE : mine;
    const int      d = (int)g.of.d, e = (int)g.of.e, col = c % 2 * SCORE_COLUMNS;
    const C       *shares = NULL, *scores = NULL;
    half_sum       s, dp;
    if (i0 >= g.of.t || j0 >= g.of.s || (g.of.causal && j0 > i0 + TILE - 1))
        return;
    half_scores<C, W>(s, a, &m.one[c * TILE], d);
    if (OF != HALF_V)
        half_scores<C, W>(dp, b, &m.two[c * TILE], e);
    else
        wmma::fill_fragment(dp, 0.0f);
    half_back<BY_ROWS>(m, g, s, dp, i0, j0, BY_ROWS ? (int)threadIdx.x / WARP * TILE : c * TILE, p);
    if (OF & HALF_V)
        shares = half_weigh(m, s, 1, col, p);
    if (OF != HALF_V) {
        if (half_type<T>::LIFT > 0)
            half_widen(&sums.range, dp, sums.by_score);
        scores = half_weigh(m, dp, sums.range.up, col + TILE, p);
    }
    __syncwarp();
    const bool masked = g.of.causal && i0 - j0 < TILE - 1;
    const int  ahead = masked ? (int)(i0 - j0) : TILE;
    if (OF & HALF_V)
        half_meet_add<BY_ROWS, C, W>(sums.by_share, shares, &m.two[c * TILE], e, ahead, p);
    if (OF != HALF_V)
        half_meet_add<BY_ROWS, C, W>(sums.by_score, scores, &m.one[c * TILE], d, ahead, p);
}

/* to_v: destination of the sums weighted by probabilities. */
template <int OF, class T, class C, int W>
static __device__ inline void half_back_block(half_shared<C, W> &m, const attention_args<T> &g,
                                              T *to_v, const half_places &p, int64_t head,
                                              int64_t i0)
{
    constexpr bool     BY_ROWS = OF == HALF_Q;
    constexpr float    lift = 1.0f / (1 << half_type<T>::LIFT);
    const int64_t      mine = i0 + threadIdx.x / WARP * TILE, t = g.of.t, s = g.of.s;
    const half_rows<C> q = half_rows_of<C>(g.of, (T *)g.q, g.of.q, head, g.of.d, t);
    const half_rows<C> k = half_rows_of<C>(g.of, (T *)g.k, g.of.k, head, g.of.d, s);
    const half_rows<C> v = half_rows_of<C>(g.of, (T *)g.v, g.of.v, head, g.of.e, s);
    const half_rows<C> dy = half_rows_of<C>(g.of, (T *)g.dy, g.of.dy, head, g.of.e, t);
    const int64_t      begin = g.of.causal && !BY_ROWS ? i0 : 0;
    const int64_t      end = !BY_ROWS ? t : g.of.causal ? half_least(s, i0 + SIDE) : s;
    half_left<C>       a[W / TILE], b[W / TILE];
    half_sums<W / TILE> sums;
    sums.range = {1, 0};
    half_clear(sums.by_score);
    half_clear(sums.by_share);
    half_fetch<C, W>(m.one, BY_ROWS ? q : k, i0);
    half_fetch<C, W>(m.two, BY_ROWS ? dy : v, i0);
    if (BY_ROWS)
        half_load_stats(m, g, head, i0);
    __pipeline_wait_prior(0);
    __syncthreads();
    half_hold<C, W>(a, m.one, (int)g.of.d);
    half_hold<C, W>(b, m.two, (int)g.of.e);
    for (int64_t j0 = begin; j0 < end; j0 += SIDE) {
        __syncthreads();
        half_fetch<C, W>(m.one, BY_ROWS ? k : q, j0);
        half_fetch<C, W>(m.two, BY_ROWS ? v : dy, j0);
        if (!BY_ROWS)
            half_load_stats(m, g, head, j0);
        __pipeline_wait_prior(0);
        __syncthreads();
        HALF_UNROLL(1)
        for (int c = 0; c < TILES; c++)
            half_meet<OF>(m, g, a, b, mine, j0, c, sums, p);
    }
    if (OF != HALF_V) {
        half_times(sums.by_score, g.scale * lift / sums.range.up);
        half_write(m, half_rows_of<C>(g.of, g.to, g.to_rows, head, g.of.d, BY_ROWS ? t : s), mine,
                   sums.by_score, p);
    }
    if (OF & HALF_V) {
        half_times(sums.by_share, lift);
        half_write(m, half_rows_of<C>(g.of, to_v, g.of.dv, head, g.of.e, s), mine, sums.by_share,
                   p);
    }
    __syncthreads();
}

template <class T, int W, int OF>
static __global__ void __launch_bounds__(THREADS, OF == HALF_Q ? half_resident(W) : 2)
    half_gradient(const attention_args<T> g, T *to_v)
{
    if constexpr (half_type<T>::HERE) {
        typedef typename half_type<T>::C C;
        __shared__ half_shared<C, W>     m;
        const half_places                p = half_places_of(m);
        const int64_t                    heads = g.of.b * g.of.h;
        for (int64_t n = blockIdx.x; n < g.blocks * heads; n += gridDim.x) {
            const int64_t block = n / heads;
            half_back_block<OF>(m, g, to_v, p, n % heads,
                                (OF == HALF_Q ? g.blocks - 1 - block : block) * SIDE);
        }
    }
}

/* ---- runs ---- */

/* Gradients of k and v are computed together if there are registers for both. */
template <class T, int W>
static weir_status half_grad_launch(const weir_kargs *k, attention_args<T> &g)
{
    constexpr bool together = W == WEIR_ATTENTION_NARROW;
    T *const       to_v = (T *)k->dst[g.of.packed ? 0 : 2];
    g.to = (T *)k->dst[0];
    g.to_rows = g.of.dq;
    WEIR_TRY(weir_launch(k, half_gradient<T, W, HALF_Q>, half_grid(&g, g.of.t), THREADS, g, to_v));
    g.to = (T *)k->dst[g.of.packed ? 0 : 1];
    g.to_rows = g.of.dk;
    const unsigned grid = half_grid(&g, g.of.s);
    if constexpr (!together)
        WEIR_TRY(weir_launch(k, half_gradient<T, W, HALF_K>, grid, THREADS, g, to_v));
    return weir_launch(k, half_gradient<T, W, together ? HALF_K | HALF_V : HALF_V>, grid, THREADS,
                       g, to_v);
}

template <class T> static weir_status half_grad_run(const weir_kargs *k)
{
    attention_args<T> g = {};
    WEIR_TRY(attention_grad_begin(k, &g));
    return half_wide(g.of) ? half_grad_launch<T, WEIR_ATTENTION_MOST>(k, g)
                           : half_grad_launch<T, WEIR_ATTENTION_NARROW>(k, g);
}

weir_status weir_attention_half_grad(const weir_kargs *k)
{
    return k->call->in[0].desc.dtype == WEIR_F16 ? half_grad_run<weir_f16>(k)
                                                 : half_grad_run<weir_bf16>(k);
}
