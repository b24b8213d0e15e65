/* attention_half.cu - attention in f16 and bf16 on tensor cores.
 *
 * The algorithm of attention.cu, divided among warps as in Dao, "FlashAttention-2" (2023). Scores
 * and sums are f32; probabilities are rounded to the half type for the second product, but
 * normalised by the sum of the unrounded ones. Each warp computes the softmax of its own rows. */
#include "device/cuda/kernels/attention_half.cuh"

/* A row's running maximum of scores times `scale`, and its sum of 2^(scale * score - most + LIFT);
 * two lanes of the row's warp hold them. scale: the softmax's, to base 2. */
struct half_row {
    float scale, most, sum;
};

/* Turns a warp's scores into probabilities in its part of shared memory; `seen` columns of each row
 * are not masked. Returns the factor for sums made with the old maximum. */
template <class C, int W>
static __device__ inline float half_soften(half_shared<C, W> &m, const half_sum (&s)[TILES],
                                           int seen, float lift, half_row *r)
{
    constexpr int EACH = SCORE_COLUMNS / 2;
    const int     warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int     row = lane / 2, first = lane % 2 * EACH;
    float         v[SIDE / SCORE_COLUMNS][EACH], top = -INFINITY, part = 0;
    WEIR_UNROLL
    for (int n = 0; n < SIDE / SCORE_COLUMNS; n++) {
        float *const to = &m.scores[warp][0][0];
        __syncwarp();
        wmma::store_matrix_sync(to, s[2 * n], SCORE_STEP, wmma::mem_row_major);
        wmma::store_matrix_sync(to + TILE, s[2 * n + 1], SCORE_STEP, wmma::mem_row_major);
        __syncwarp();
        WEIR_UNROLL
        for (int x = 0; x < EACH; x += WEIR_QUAD) {
            const weir_quad<float> four =
                *(const weir_quad<float> *)&m.scores[warp][row][first + x];
            WEIR_UNROLL
            for (int y = 0; y < WEIR_QUAD; y++) {
                v[n][x + y] = n * SCORE_COLUMNS + first + x + y < seen ? four.at[y] : -INFINITY;
                top = v[n][x + y] > top ? v[n][x + y] : top;
            }
        }
    }
    const float other = __shfl_xor_sync(ALL_LANES, top, 1);
    top = (other > top ? other : top) * r->scale;
    const float now = top > r->most ? top : r->most, fix = exp2f(r->most - now);
    __syncwarp();
    WEIR_UNROLL
    for (int n = 0; n < SIDE / SCORE_COLUMNS; n++)
        WEIR_UNROLL
        for (int x = 0; x < EACH; x += EIGHT) {
            half_eight<C> eight;
            WEIR_UNROLL
            for (int y = 0; y < EIGHT; y++) {
                const float p = exp2f(weir_fma(v[n][x + y], r->scale, lift - now));
                half_narrow(&eight.at[y], p);
                part += p;
            }
            *(half_eight<C> *)&m.weights[warp][row][n * SCORE_COLUMNS + first + x] = eight;
        }
    r->sum = r->sum * fix + (part + __shfl_xor_sync(ALL_LANES, part, 1));
    r->most = now;
    return fix;
}

/* Rescales the sums of the block's values to the new maximum, then adds to them. ahead: as in
 * half_add_wild, for the first tile. */
template <class C, int W>
static __device__ inline void half_gather(half_shared<C, W> &m, half_sum (&out)[W / TILE],
                                          float fix, int tiles, int columns, int ahead,
                                          const half_places &p)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    if (lane % 2 == 0)
        m.low[warp * TILE + lane / 2] = fix;
    if (__any_sync(ALL_LANES, fix != 1)) {
        __syncwarp();
        half_times_rows(out, &m.low[warp * TILE], p);
    }
    WEIR_UNROLL
    for (int c = 0; c < TILES; c++)
        if (c < tiles && ahead - c * TILE < TILE - 1)
            half_add_seen<true, C, W>(out, &m.weights[warp][0][c * TILE], &m.two[c * TILE],
                                      columns, ahead - c * TILE, p);
        else if (c < tiles)
            half_add<C, W>(out, &m.weights[warp][0][c * TILE], &m.two[c * TILE], columns);
}

/* Normalises the sums, writes the rows, and the rows' lse. */
template <class C, int W, class T>
static __device__ inline void half_finish(half_shared<C, W> &m, const attention_args<T> &g,
                                          int64_t head, int64_t first, half_sum (&out)[W / TILE],
                                          const half_row &r, const half_places &p)
{
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int64_t row = first + lane / 2;
    __syncwarp();
    if (lane % 2 == 0)
        m.low[warp * TILE + lane / 2] = r.sum == 0 ? 0 : 1 / r.sum;
    __syncwarp();
    half_times_rows(out, &m.low[warp * TILE], p);
    half_write(m, half_rows_of<C>(g.of, g.to, g.of.y, head, g.of.e, g.of.t), first, out, p);
    if (lane % 2 == 0 && row < g.of.t)
        g.to_lse[head * g.of.t + row] =
            (r.most - (float)half_type<T>::LIFT) * (float)LN_2 + weir_log(r.sum);
}

/* Rows of k and v are loaded while others are processed. */
template <class T, class C, int W>
static __device__ inline void half_forward_block(half_shared<C, W> &m, const attention_args<T> &g,
                                                 const half_places &p, int64_t head, int64_t i0)
{
    const int          warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int          d = (int)g.of.d, e = (int)g.of.e;
    const int64_t      end = g.of.causal ? half_least(g.of.s, i0 + SIDE) : g.of.s;
    const int64_t      first = i0 + warp * TILE, row = first + lane / 2;
    const half_rows<C> k = half_rows_of<C>(g.of, (T *)g.k, g.of.k, head, d, end);
    const half_rows<C> v = half_rows_of<C>(g.of, (T *)g.v, g.of.v, head, e, end);
    const float        lift = half_type<T>::LIFT;
    half_left<C>       q[W / TILE];
    half_sum           out[W / TILE];
    half_row           r = {g.scale * (float)LOG2_E, -INFINITY, 0};
    half_clear(out);
    half_fetch<C, W>(m.one, half_rows_of<C>(g.of, (T *)g.q, g.of.q, head, d, g.of.t), i0);
    __pipeline_wait_prior(0);
    __syncthreads();
    half_hold<C, W>(q, m.one, d);
    __syncthreads();
    half_fetch<C, W>(m.one, k, 0);
    half_fetch<C, W>(m.two, v, 0);
    for (int64_t j0 = 0; j0 < end; j0 += SIDE) {
        const int64_t seen = g.of.causal ? half_least(end, row + 1) : end;
        const int64_t last = g.of.causal ? half_least(end, first + TILE) : end;
        const int64_t left = first < g.of.t ? last - j0 : 0;
        const int     tiles = (int)half_least(TILES, (left + TILE - 1) / TILE);
        const int     ahead = g.of.causal ? (int)half_least(2 * SIDE, first - j0) : 2 * SIDE;
        half_sum      s[TILES];
        __pipeline_wait_prior(1);
        __syncthreads();
        WEIR_UNROLL
        for (int c = 0; c < TILES; c++)
            if (c < tiles)
                half_scores<C, W>(s[c], q, &m.one[c * TILE], d);
            else
                wmma::fill_fragment(s[c], 0.0f);
        __syncthreads();
        half_fetch<C, W>(m.one, k, j0 + SIDE);
        float fix = 1;
        if (tiles > 0)
            fix = half_soften(m, s, (int)half_least(SIDE, seen - j0), lift, &r);
        __pipeline_wait_prior(1);
        __syncthreads();
        half_gather(m, out, fix, tiles, e, ahead, p);
        __syncthreads();
        half_fetch<C, W>(m.two, v, j0 + SIDE);
    }
    __pipeline_wait_prior(0);
    half_finish(m, g, head, first, out, r, p);
    __syncthreads();
}

/* With a causal mask later rows attend to more, so they begin first. */
template <class T, int W>
static __global__ void __launch_bounds__(THREADS, half_resident(W))
    half_forward(const attention_args<T> g)
{
    if constexpr (half_type<T>::HERE) {
        typedef typename half_type<T>::C C;
        __shared__ half_shared<C, W>     m;
        const half_places                p = half_places_of(m);
        const int64_t                    heads = g.of.b * g.of.h;
        for (int64_t n = blockIdx.x; n < g.blocks * heads; n += gridDim.x)
            half_forward_block(m, g, p, n % heads, (g.blocks - 1 - n / heads) * SIDE);
    }
}

/* ---- runs ---- */

template <class T> static weir_status half_run(const weir_kargs *k)
{
    attention_args<T> g = attention_args_of<T>(k);
    g.to = (T *)k->dst[0];
    g.to_lse = (float *)k->dst[1];
    const unsigned grid = half_grid(&g, g.of.t);
    return half_wide(g.of) ? weir_launch(k, half_forward<T, WEIR_ATTENTION_MOST>, grid, THREADS, g)
                           : weir_launch(k, half_forward<T, WEIR_ATTENTION_NARROW>, grid, THREADS,
                                         g);
}

weir_status weir_attention_half(const weir_kargs *k)
{
    return k->call->in[0].desc.dtype == WEIR_F16 ? half_run<weir_f16>(k) : half_run<weir_bf16>(k);
}
