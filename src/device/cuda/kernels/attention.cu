/* attention.cu - scaled dot-product attention and its gradient, one block of scores at a time.
 *
 * Dao and others, "FlashAttention" (2022): a block of rows of q is combined with the blocks of k
 * and v in turn; scores exist in registers and shared memory only. The softmax is computed block by
 * block (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The gradient
 * recomputes the scores once for each of q, k and v, so that every sum has one owner and one order.
 *
 * In all four kernels a thread block owns SIDE rows of one operand of a head and iterates over the
 * other operand's; it computes WIDE columns of the result, so a head of more columns takes several
 * blocks. Heads may have any number of columns. Halves are computed in f32; those that tensor cores
 * support are in attention_half.cu. MORE: kernels for masks, lengths and dropout, which take more
 * registers. */
#include "device/cuda/kernels/attention.cuh"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/tile.h"

enum { DEPTH = 16, EACH = 4 };

/* Sides of a block of scores; each thread computes 4 x 4 of it. */
template <class T> struct attention_side {
    static constexpr int N = sizeof(real<T>) == 8 ? 32 : 64;
    static constexpr int THREADS = N / EACH * (N / EACH);
};

/* RESIDENT: blocks per multiprocessor that the registers are budgeted for. */
template <class T, int TW> struct alignas(16) attention_shared {
    static constexpr int SIDE = attention_side<T>::N, WIDE = SIDE / EACH * TW;
    static constexpr int RESIDENT = TW == EACH && sizeof(real<T>) == 4 ? 2 : 1;
    weir_tiles<real<T>, SIDE, SIDE, DEPTH> tiles;
    real<T>                                scores[SIDE][SIDE + WEIR_QUAD];   /* [other][owned] */
    real<T>                                rows[DEPTH][WIDE + WEIR_QUAD];
};

/* Rows of head h of batch n, summed over its columns, or over its rows if `turned`. */
template <class T>
static __device__ inline weir_panel<T> attention_panel(const T *base, const weir_attention_rows &r,
                                                       int64_t n, int64_t h, int64_t columns,
                                                       bool turned)
{
    const T *const at = attention_row(base, r, n, h, columns, 0);
    const bool     quads = (uintptr_t)(base + r.offset) % alignof(weir_quad<T>) == 0 &&
                       columns % WEIR_QUAD == 0 && r.row % WEIR_QUAD == 0 &&
                       r.batch % WEIR_QUAD == 0;
    return {at, turned ? 1 : r.row, turned ? r.row : 1, quads};
}

/* s = owned rows * (other rows)^T, summed over a head's columns. */
template <class T, int TW>
static __device__ inline void
attention_scores(attention_shared<T, TW> &m, real<T> (&s)[EACH][EACH], const weir_panel<T> &owned,
                 int64_t i0, int64_t i1, const weir_panel<T> &other, int64_t j0, int64_t j1,
                 int64_t columns)
{
    constexpr int SIDE = attention_side<T>::N;
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            s[i][j] = 0;
    weir_tile_product<T, real<T>, SIDE, SIDE, DEPTH, EACH, EACH>(m.tiles, s, owned, i0, i1, other,
                                                                 j0, j1, 0, columns);
}

/* How the causal mask cuts a block of scores: owned row i does not attend to other row j if
 * j > i + ahead or, if the owned rows are those of k and v, if j < i + ahead. */
struct attention_mask {
    bool some, keys;        /* the block has masked pairs; the owned rows are k's */
    int  ahead;
};

template <class T>
static __device__ inline attention_mask attention_mask_of(const attention_sight &to, bool keys,
                                                          int64_t i0, int64_t j0)
{
    constexpr int SIDE = attention_side<T>::N;
    const int64_t ahead = i0 - j0 + (keys ? -to.ahead : to.ahead), far = keys ? -ahead : ahead;
    const bool    some = to.causal && far < SIDE - 1;
    return {some, keys, some ? (int)ahead : 0};
}

/* True if the thread holds an element that is not finite. */
template <class A, int WIDE, int DEPTH, int THREADS>
static __device__ inline bool attention_wild(const weir_held<A, WIDE, DEPTH, THREADS> &held)
{
    A none = 0;
    WEIR_UNROLL
    for (int r = 0; r < held.QUADS; r++)
        WEIR_UNROLL
        for (int v = 0; v < WEIR_QUAD; v++)
            none += held.at[r].at[v] * 0;
    return !(none == 0);
}

/* weir_tile_step without masked pairs, because 0 times NaN is NaN. p0: the first other row of the
 * step. */
template <class A, int SIDE, int WIDE, int TW>
static __device__ inline void attention_step(A (&sum)[EACH][TW], const A (*a)[SIDE + WEIR_QUAD],
                                             const A (*b)[WIDE + WEIR_QUAD],
                                             const attention_mask &mask, int p0)
{
    const int x = (int)threadIdx.x % (SIDE / EACH), y = (int)threadIdx.x / (SIDE / EACH);
    for (int p = 0; p < DEPTH; p++)
        WEIR_UNROLL
        for (int i = 0; i < EACH; i++) {
            const int over = p0 + p - (y * EACH + i + mask.ahead);
            if (mask.keys ? over < 0 : over > 0)
                continue;
            WEIR_UNROLL
            for (int j = 0; j < TW; j++)
                sum[i][j] = weir_fma(a[p][y * EACH + i], b[p][weir_tile_at<WIDE, TW>(x, j)],
                                     sum[i][j]);
        }
}

/* sum += scores (owned by other) * the other rows from j0, `across` columns from c0. Scores of
 * masked pairs are 0 and add nothing, whatever the rows contain. */
template <class T, int TW>
static __device__ inline void attention_add(attention_shared<T, TW> &m, real<T> (&sum)[EACH][TW],
                                            const real<T> (&s)[EACH][EACH],
                                            const weir_panel<T> &rows, int64_t c0, int64_t columns,
                                            int64_t j0, int64_t j1, const attention_mask &mask)
{
    constexpr int SIDE = attention_side<T>::N, WIDE = SIDE / EACH * TW;
    constexpr int THREADS = attention_side<T>::THREADS;
    const int     x = (int)threadIdx.x % (SIDE / EACH), y = (int)threadIdx.x / (SIDE / EACH);
    for (int j = 0; j < EACH; j++) {
        weir_quad<real<T>> four;
        for (int i = 0; i < EACH; i++)
            four.at[i] = s[i][j];
        *(weir_quad<real<T>> *)&m.scores[x * EACH + j][y * EACH] = four;
    }
    weir_held<real<T>, WIDE, DEPTH, THREADS> held;
    weir_fetch(held, rows, c0, columns, j0, j1);
    for (int p = 0; p < SIDE && j0 + p < j1; p += DEPTH) {
        bool wild = false;
        weir_put<real<T>, WIDE, DEPTH, THREADS>(m.rows, held, rows.col == 1);
        if (mask.some)
            wild = __syncthreads_or(attention_wild(held));
        else
            __syncthreads();
        weir_fetch(held, rows, c0, columns, j0 + p + DEPTH, j1);
        if (wild)
            attention_step<real<T>, SIDE, WIDE>(sum, m.scores + p, m.rows, mask, p);
        else
            weir_tile_step<real<T>, SIDE, WIDE, DEPTH>(sum, m.scores + p, m.rows);
        __syncthreads();
    }
}

/* Writes the owned rows' columns from c0, row i scaled by share[i]. to: row 0 of the head. */
template <class T, int TW>
static __device__ inline void attention_write(T *to, int64_t step, int64_t rows, int64_t columns,
                                              int64_t i0, int64_t c0,
                                              const real<T> (&sum)[EACH][TW],
                                              const real<T> (&share)[EACH])
{
    constexpr int SIDE = attention_side<T>::N, WIDE = SIDE / EACH * TW;
    const int     x = (int)threadIdx.x % (SIDE / EACH), y = (int)threadIdx.x / (SIDE / EACH);
    for (int i = 0; i < EACH; i++) {
        const int64_t row = i0 + y * EACH + i;
        for (int j = 0; j < TW && row < rows; j++) {
            const int64_t col = c0 + weir_tile_at<WIDE, TW>(x, j);
            if (col < columns)
                weir_cuda_offload(&to[row * step + col], sum[i][j] * share[i]);
        }
    }
}

/* ---- forward ---- */

/* The maximum, and the sum, over the threads of a row. */
template <class T> static __device__ inline real<T> attention_most(real<T> v)
{
    constexpr int ACROSS = attention_side<T>::N / EACH;
    for (int by = ACROSS / 2; by > 0; by /= 2) {
        const real<T> other = __shfl_xor_sync(0xffffffffu, v, by, ACROSS);
        v = other > v ? other : v;
    }
    return v;
}
template <class T> static __device__ inline real<T> attention_total(real<T> v)
{
    constexpr int ACROSS = attention_side<T>::N / EACH;
    for (int by = ACROSS / 2; by > 0; by /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, by, ACROSS);
    return v;
}

/* Row i of a block of scores becomes exp(scaled score - most), times dropout's factor; most and sum
 * are updated. Returns the factor for sums made with the old maximum. */
template <bool MORE, class T>
static __device__ inline real<T> attention_soften(const attention_args<T> &g,
                                                  const attention_sight &to, int64_t head,
                                                  real<T> (&s)[EACH], int64_t i, int64_t j0,
                                                  real<T> *most, real<T> *sum)
{
    const int64_t n = head / g.of.h, h = head % g.of.h;
    real<T>       now = *most, part = 0;
    for (int j = 0; j < EACH; j++) {
        const bool sees = attention_sees(g.of, to, i, j0 + j);
        s[j] = sees ? attention_scaled<MORE>(g, n, h, i, j0 + j, s[j]) : -(real<T>)INFINITY;
        now = s[j] > now ? s[j] : now;
    }
    now = attention_most<T>(now);
    const bool    none = now == -(real<T>)INFINITY; /* nothing but hidden keys, so far; or NaN */
    const real<T> fix = none ? (real<T>)1 : weir_exp(*most - now);
    for (int j = 0; j < EACH; j++) {
        const bool sees = attention_sees(g.of, to, i, j0 + j) && !(none && s[j] == now);
        s[j] = !sees ? (real<T>)0 : none ? s[j] : weir_exp(s[j] - now);
        part += s[j];
    }
    *sum = *sum * fix + attention_total<T>(part);
    *most = now;
    if (MORE && g.key) {
        real<T> kept[EACH];
        attention_kept(g, head, i, j0, kept);
        for (int j = 0; j < EACH; j++)
            s[j] *= kept[j];
    }
    return fix;
}

template <bool MORE, class T, int TW>
static __device__ inline void attention_forward_block(attention_shared<T, TW> &m,
                                                      const attention_args<T> &g, int64_t head,
                                                      int64_t i0, int64_t c0)
{
    constexpr int         SIDE = attention_side<T>::N, ACROSS = SIDE / EACH;
    const int             x = (int)threadIdx.x % ACROSS, y = (int)threadIdx.x / ACROSS;
    const int64_t         n = head / g.of.h, h = head % g.of.h, from = h / (g.of.h / g.of.kv);
    const attention_sight to = attention_sight_of(g, n);
    const weir_panel<T>   q = attention_panel(g.q, g.of.q, n, h, g.of.d, false);
    const weir_panel<T>   k = attention_panel(g.k, g.of.k, n, from, g.of.d, false);
    const weir_panel<T>   v = attention_panel(g.v, g.of.v, n, from, g.of.e, true);
    const int64_t         last = i0 + SIDE + to.ahead;
    const int64_t         end = to.causal && last < to.keys ? last : to.keys;
    real<T>               out[EACH][TW] = {}, most[EACH], sum[EACH] = {}, share[EACH];
    for (int i = 0; i < EACH; i++)
        most[i] = -(real<T>)INFINITY;
    for (int64_t j0 = 0; j0 < end; j0 += SIDE) {
        real<T> s[EACH][EACH];
        attention_scores(m, s, q, i0, g.of.t, k, j0, g.of.s, g.of.d);
        for (int i = 0; i < EACH; i++) {
            const real<T> fix = attention_soften<MORE>(g, to, head, s[i], i0 + y * EACH + i,
                                                       j0 + x * EACH, &most[i], &sum[i]);
            for (int j = 0; j < TW; j++)
                out[i][j] *= fix;
        }
        attention_add(m, out, s, v, c0, g.of.e, j0, end, attention_mask_of<T>(to, false, i0, j0));
    }
    for (int i = 0; i < EACH; i++)
        share[i] = sum[i] == 0 ? 0 : 1 / sum[i];
    attention_write(attention_row(g.to, g.to_rows, n, h, g.of.e, 0), g.to_rows.row, g.of.t, g.of.e,
                    i0, c0, out, share);
    for (int i = 0; i < EACH && c0 == 0 && x == 0; i++)
        if (i0 + y * EACH + i < g.of.t)
            g.to_lse[head * g.of.t + i0 + y * EACH + i] = most[i] + weir_log(sum[i]);
}

/* With a causal mask later rows attend to more, so they begin first. */
template <class T, int TW, bool MORE>
static __global__ void
__launch_bounds__(attention_side<T>::THREADS, attention_shared<T, TW>::RESIDENT)
    attention_forward(const attention_args<T> g)
{
    __shared__ attention_shared<T, TW> m;
    const int64_t                      heads = g.of.b * g.of.h;
    for (int64_t n = blockIdx.x; n < g.blocks * heads * g.column_blocks; n += gridDim.x)
        attention_forward_block<MORE>(m, g, n / g.column_blocks % heads,
                                      (g.blocks - 1 - n / g.column_blocks / heads) * m.SIDE,
                                      n % g.column_blocks * m.WIDE);
}

/* ---- gradient ---- */

enum attention_of { OF_Q, OF_K, OF_V };

/* Turns scores of owned by other rows into the weights of the gradient's sum: probabilities for v,
 * gradients before the softmax for q and k. i0, j0: first rows of this thread; head: of q. */
template <class T, attention_of OF, bool MORE>
static __device__ inline void attention_back(const attention_args<T> &g, const attention_sight &to,
                                             int64_t head, real<T> (&s)[EACH][EACH],
                                             const real<T> (&dp)[EACH][EACH], int64_t i0,
                                             int64_t j0)
{
    const int64_t n = head / g.of.h, h = head % g.of.h;
    real<T>       kept[EACH][EACH]; /* by row of q, then by key */
    if (MORE && g.key)
        for (int r = 0; r < EACH; r++)
            attention_kept(g, head, (OF == OF_Q ? i0 : j0) + r, OF == OF_Q ? j0 : i0, kept[r]);
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int64_t row = OF == OF_Q ? i0 + i : j0 + j, col = OF == OF_Q ? j0 + j : i0 + i;
            const int64_t at = head * g.of.t + row;
            if (!attention_sees(g.of, to, row, col) || g.lse[at] == -(real<T>)INFINITY) {
                s[i][j] = 0;
                continue;
            }
            const real<T> factor = !MORE || !g.key ? (real<T>)1
                                   : OF == OF_Q    ? kept[i][j] : kept[j][i];
            s[i][j] = weir_exp(attention_scaled<MORE>(g, n, h, row, col, s[i][j]) - g.lse[at]);
            s[i][j] = OF == OF_V ? s[i][j] * factor
                                 : s[i][j] * (dp[i][j] * factor - g.delta[at]) * g.scale;
        }
}

/* Adds what head h of q contributes. i0: the first owned row, of q or of k and v. */
template <bool MORE, attention_of OF, class T, int TW>
static __device__ inline void attention_back_head(attention_shared<T, TW> &m,
                                                  const attention_args<T> &g,
                                                  const attention_sight &to, int64_t n, int64_t h,
                                                  int64_t i0, int64_t c0,
                                                  real<T> (&sum)[EACH][TW])
{
    constexpr int       SIDE = attention_side<T>::N;
    constexpr bool      BY_ROWS = OF == OF_Q;
    const int           x = (int)threadIdx.x % (SIDE / EACH), y = (int)threadIdx.x / (SIDE / EACH);
    const int64_t       mine = BY_ROWS ? g.of.t : g.of.s, others = BY_ROWS ? g.of.s : g.of.t;
    const int64_t       columns = OF == OF_V ? g.of.e : g.of.d, from = h / (g.of.h / g.of.kv);
    const weir_panel<T> q = attention_panel(g.q, g.of.q, n, h, g.of.d, false);
    const weir_panel<T> k = attention_panel(g.k, g.of.k, n, from, g.of.d, false);
    const weir_panel<T> v = attention_panel(g.v, g.of.v, n, from, g.of.e, false);
    const weir_panel<T> dy = attention_panel(g.dy, g.of.dy, n, h, g.of.e, false);
    const weir_panel<T> rows = OF == OF_Q   ? attention_panel(g.k, g.of.k, n, from, columns, true)
                               : OF == OF_K ? attention_panel(g.q, g.of.q, n, h, columns, true)
                                            : attention_panel(g.dy, g.of.dy, n, h, columns, true);
    const int64_t       last = i0 + SIDE + to.ahead, first = i0 - to.ahead;
    const int64_t       begin = BY_ROWS || !to.causal || first < 0 ? 0 : first;
    const int64_t       end = !BY_ROWS ? others : to.causal && last < to.keys ? last : to.keys;
    real<T>             s[EACH][EACH], dp[EACH][EACH];
    for (int64_t j0 = begin; j0 < end; j0 += SIDE) {
        if (OF != OF_V)
            attention_scores(m, dp, BY_ROWS ? dy : v, i0, mine, BY_ROWS ? v : dy, j0, others,
                             g.of.e);
        attention_scores(m, s, BY_ROWS ? q : k, i0, mine, BY_ROWS ? k : q, j0, others, g.of.d);
        attention_back<T, OF, MORE>(g, to, n * g.of.h + h, s, dp, i0 + y * EACH, j0 + x * EACH);
        attention_add(m, sum, s, rows, c0, columns, j0, end,
                      attention_mask_of<T>(to, !BY_ROWS, i0, j0));
    }
}

/* head: of q, or of k and v, which sum over the heads of q that read them. */
template <bool MORE, attention_of OF, class T, int TW>
static __device__ inline void attention_back_block(attention_shared<T, TW> &m,
                                                   const attention_args<T> &g, int64_t head,
                                                   int64_t i0, int64_t c0)
{
    constexpr int         SIDE = attention_side<T>::N;
    constexpr bool        BY_ROWS = OF == OF_Q;
    const int             y = (int)threadIdx.x / (SIDE / EACH);
    const int64_t         heads = BY_ROWS ? g.of.h : g.of.kv, n = head / heads, own = head % heads;
    const int64_t         each = BY_ROWS ? 1 : g.of.h / g.of.kv;
    const int64_t         columns = OF == OF_V ? g.of.e : g.of.d;
    const attention_sight to = attention_sight_of(g, n);
    real<T>               sum[EACH][TW] = {};
    for (int64_t h = own * each; h < (own + 1) * each; h++)
        attention_back_head<MORE, OF>(m, g, to, n, h, i0, c0, sum);
    if (MORE && !BY_ROWS)
        for (int i = 0; i < EACH; i++)
            for (int j = 0; j < TW && i0 + y * EACH + i >= to.keys; j++)
                sum[i][j] = 0;      /* even where 0 times dy or q is NaN */
    const real<T> whole[EACH] = {1, 1, 1, 1};
    attention_write(attention_row(g.to, g.to_rows, n, own, columns, 0), g.to_rows.row,
                    BY_ROWS ? g.of.t : g.of.s, columns, i0, c0, sum, whole);
}

template <class T, int TW, attention_of OF, bool MORE>
static __global__ void
__launch_bounds__(attention_side<T>::THREADS, attention_shared<T, TW>::RESIDENT)
    attention_gradient(const attention_args<T> g)
{
    __shared__ attention_shared<T, TW> m;
    const int64_t                      heads = g.of.b * (OF == OF_Q ? g.of.h : g.of.kv);
    for (int64_t n = blockIdx.x; n < g.blocks * heads * g.column_blocks; n += gridDim.x) {
        const int64_t block = n / g.column_blocks / heads;
        attention_back_block<MORE, OF>(m, g, n / g.column_blocks % heads,
                                       (OF == OF_Q ? g.blocks - 1 - block : block) * m.SIDE,
                                       n % g.column_blocks * m.WIDE);
    }
}

/* ---- runs ---- */

/* Wide heads use blocks of twice the columns; f64 has no registers for that. */
template <class T> static constexpr bool attention_wider = sizeof(T) < sizeof(double);

/* Blocks for `rows` owned rows of each of `heads` heads, of which `columns` columns are computed;
 * at least one block of columns, since the rows' sums are also written. */
template <class T, int TW>
static int64_t attention_split(attention_args<T> *g, int64_t heads, int64_t rows, int64_t columns)
{
    g->blocks = ceil_div(rows, attention_shared<T, TW>::SIDE);
    g->column_blocks = max64(1, ceil_div(columns, attention_shared<T, TW>::WIDE));
    return g->blocks * g->of.b * heads * g->column_blocks;
}

template <class T> static bool attention_more(const attention_args<T> &g)
{
    return g.masks != NO_MASK || g.lengths || g.key;
}

template <class T, int TW>
static weir_status attention_forward_launch(const weir_kargs *k, attention_args<T> &g)
{
    const unsigned grid = attention_grid(attention_split<T, TW>(&g, g.of.h, g.of.t, g.of.e));
    const int      threads = attention_side<T>::THREADS;
    return attention_more(g) ? weir_launch(k, attention_forward<T, TW, true>, grid, threads, g)
                             : weir_launch(k, attention_forward<T, TW, false>, grid, threads, g);
}

template <class T> static weir_status attention_run(const weir_kargs *k)
{
    attention_args<T> g = attention_args_of<T>(k);
    g.to = (T *)k->dst[0];
    g.to_rows = g.of.y;
    g.to_lse = (real<T> *)k->dst[1];
    if constexpr (attention_wider<T>)
        if (g.of.e > attention_shared<T, 4>::WIDE)
            return attention_forward_launch<T, 8>(k, g);
    return attention_forward_launch<T, 4>(k, g);
}

template <class T, int TW, attention_of OF>
static weir_status attention_back_launch(const weir_kargs *k, attention_args<T> &g, int64_t columns)
{
    const int64_t  n = attention_split<T, TW>(&g, OF == OF_Q ? g.of.h : g.of.kv,
                                             OF == OF_Q ? g.of.t : g.of.s, columns);
    const unsigned grid = attention_grid(n);
    const int      threads = attention_side<T>::THREADS;
    if (columns == 0)
        return WEIR_OK;
    return attention_more(g)
               ? weir_launch(k, attention_gradient<T, TW, OF, true>, grid, threads, g)
               : weir_launch(k, attention_gradient<T, TW, OF, false>, grid, threads, g);
}

template <class T, attention_of OF>
static weir_status attention_back_run(const weir_kargs *k, attention_args<T> &g)
{
    const int64_t columns = OF == OF_V ? g.of.e : g.of.d;
    g.to = (T *)k->dst[g.of.packed ? 0 : (int)OF];
    g.to_rows = OF == OF_Q ? g.of.dq : OF == OF_K ? g.of.dk : g.of.dv;
    if constexpr (attention_wider<T>)
        if (columns > attention_shared<T, 4>::WIDE)
            return attention_back_launch<T, 8, OF>(k, g, columns);
    return attention_back_launch<T, 4, OF>(k, g, columns);
}

template <class T> static weir_status attention_grad_run(const weir_kargs *k)
{
    attention_args<T> g = {};
    WEIR_TRY(attention_grad_begin(k, &g));
    WEIR_TRY((attention_back_run<T, OF_Q>(k, g)));
    WEIR_TRY((attention_back_run<T, OF_K>(k, g)));
    WEIR_TRY((attention_back_run<T, OF_V>(k, g)));
    return g.of.dmask < 0 ? WEIR_OK : weir_attention_mask_grad(k);
}

/* ---- selecting ---- */

typedef weir_status (*attention_fn)(const weir_kargs *k);

template <class T> static attention_fn attention_either(bool back)
{
    return back ? attention_grad_run<T> : attention_run<T>;
}

static attention_fn attention_of_type(weir_dtype t, bool back)
{
    return t == WEIR_F64   ? attention_either<double>(back)
           : t == WEIR_F16 ? attention_either<weir_f16>(back)
           : t == WEIR_BF16 ? attention_either<weir_bf16>(back) : attention_either<float>(back);
}

/* The compute capability to select for: the card's, or the highest that was compiled for. */
static int attention_code(const weir_device *d)
{
    const weir_cuda_context *const u = weir_cuda_context_of(d);
    const int                      card = u->gpu.major * 10 + u->gpu.minor;
#ifdef __CUDA_ARCH_LIST__
    const int archs[] = {__CUDA_ARCH_LIST__};
    const int highest = archs[sizeof archs / sizeof *archs - 1] / 10;
    return highest < card ? highest : card;
#else
    return card;
#endif
}

/* True if tensor cores' kernels compute the call: they know no options but the scale. */
static bool attention_cores(const weir_attention_geometry *of, weir_dtype type, int code)
{
    return of->mask < 0 && of->lengths < 0 && of->seed < 0 && of->h == of->kv &&
           of->causal != WEIR_SIGHT_FROM_LAST && weir_attention_cores(type, of->d, of->e, code);
}

/* The workspace is delta, in the type of computation. */
static weir_status attention_choose(const weir_device *d, const weir_call *c, bool back,
                                    weir_kernel *out)
{
    const weir_dtype               type = c->in[0].desc.dtype;
    const size_t                   size = type == WEIR_F64 ? sizeof(double) : sizeof(float);
    weir_attention_geometry *const of = (weir_attention_geometry *)weir_mem_zalloc(1, sizeof *of);
    if (!of)
        return WEIR_ERR_NOMEM;
    *of = weir_attention_geometry_of(c, back);
    const bool cores = attention_cores(of, type, attention_code(d));
    *out = {};
    out->run = !cores ? attention_of_type(type, back)
               : back ? weir_attention_half_grad : weir_attention_half;
    out->work = back ? (size_t)(of->b * of->h * of->t) * size : 0;
    out->state = of;
    out->destroy = weir_mem_free;
    out->impl = cores ? "cuda tensor cores" : "cuda";
    return WEIR_OK;
}

weir_status weir_cuda_attention(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return attention_choose(d, c, false, out);
}

weir_status weir_cuda_attention_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return attention_choose(d, c, true, out);
}
