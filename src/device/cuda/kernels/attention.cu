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
 * support are in attention_half.cu. */
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

/* Rows of a head, summed over its columns, or over its rows if `turned`. */
template <class T>
static __device__ inline weir_panel<T> attention_panel(const attention_sizes &of, const T *base,
                                                       int64_t head, int64_t rows, int64_t columns,
                                                       bool turned)
{
    const int64_t  step = of.h * columns;
    const T *const at = base + head / of.h * rows * step + head % of.h * columns;
    const bool     quads = (uintptr_t)base % alignof(weir_quad<T>) == 0 && columns % WEIR_QUAD == 0;
    return {at, turned ? 1 : step, turned ? step : 1, quads};
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
static __device__ inline attention_mask attention_mask_of(const attention_sizes &of, bool keys,
                                                           int64_t i0, int64_t j0)
{
    constexpr int SIDE = attention_side<T>::N;
    const int64_t ahead = i0 - j0, far = keys ? -ahead : ahead;
    const bool    some = of.causal && far < SIDE - 1;
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

/* Writes the owned rows' columns from c0, row i scaled by share[i]. */
template <class T, int TW>
static __device__ inline void attention_write(const attention_sizes &of, T *base, int64_t head,
                                              int64_t rows, int64_t columns, int64_t i0, int64_t c0,
                                              const real<T> (&sum)[EACH][TW],
                                              const real<T> (&share)[EACH])
{
    constexpr int SIDE = attention_side<T>::N, WIDE = SIDE / EACH * TW;
    const int     x = (int)threadIdx.x % (SIDE / EACH), y = (int)threadIdx.x / (SIDE / EACH);
    T *const      to = base + head / of.h * rows * of.h * columns + head % of.h * columns;
    for (int i = 0; i < EACH; i++) {
        const int64_t row = i0 + y * EACH + i;
        for (int j = 0; j < TW && row < rows; j++) {
            const int64_t col = c0 + weir_tile_at<WIDE, TW>(x, j);
            if (col < columns)
                weir_cuda_offload(&to[row * of.h * columns + col], sum[i][j] * share[i]);
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

/* Row i of a block of scores becomes exp(scale * score - most); most and sum are updated. Returns
 * the factor for sums made with the old maximum. */
template <class T>
static __device__ inline real<T> attention_soften(const attention_args<T> &g, real<T> (&s)[EACH],
                                                  int64_t i, int64_t j0, real<T> *most,
                                                  real<T> *sum)
{
    real<T> now = *most, part = 0;
    for (int j = 0; j < EACH; j++) {
        s[j] *= g.scale;
        now = attention_sees(g.of, i, j0 + j) && s[j] > now ? s[j] : now;
    }
    now = attention_most<T>(now);
    const real<T> fix = weir_exp(*most - now);
    for (int j = 0; j < EACH; j++) {
        s[j] = attention_sees(g.of, i, j0 + j) ? weir_exp(s[j] - now) : (real<T>)0;
        part += s[j];
    }
    *sum = *sum * fix + attention_total<T>(part);
    *most = now;
    return fix;
}

template <class T, int TW>
static __device__ inline void attention_forward_block(attention_shared<T, TW> &m,
                                                      const attention_args<T> &g, int64_t head,
                                                      int64_t i0, int64_t c0)
{
    constexpr int       SIDE = attention_side<T>::N;
    const int           x = (int)threadIdx.x % (SIDE / EACH), y = (int)threadIdx.x / (SIDE / EACH);
    const weir_panel<T> q = attention_panel(g.of, g.q, head, g.of.t, g.of.d, false);
    const weir_panel<T> k = attention_panel(g.of, g.k, head, g.of.s, g.of.d, false);
    const weir_panel<T> v = attention_panel(g.of, g.v, head, g.of.s, g.of.e, true);
    const int64_t       end = g.of.causal && i0 + SIDE < g.of.s ? i0 + SIDE : g.of.s;
    real<T>             out[EACH][TW] = {}, most[EACH], sum[EACH] = {}, share[EACH];
    for (int i = 0; i < EACH; i++)
        most[i] = -(real<T>)INFINITY;
    for (int64_t j0 = 0; j0 < end; j0 += SIDE) {
        real<T> s[EACH][EACH];
        attention_scores(m, s, q, i0, g.of.t, k, j0, g.of.s, g.of.d);
        for (int i = 0; i < EACH; i++) {
            const real<T> fix = attention_soften(g, s[i], i0 + y * EACH + i, j0 + x * EACH,
                                                 &most[i], &sum[i]);
            for (int j = 0; j < TW; j++)
                out[i][j] *= fix;
        }
        attention_add(m, out, s, v, c0, g.of.e, j0, end,
                      attention_mask_of<T>(g.of, false, i0, j0));
    }
    for (int i = 0; i < EACH; i++)
        share[i] = sum[i] == 0 ? 0 : 1 / sum[i];
    attention_write(g.of, g.to, head, g.of.t, g.of.e, i0, c0, out, share);
    for (int i = 0; i < EACH && c0 == 0 && x == 0; i++)
        if (i0 + y * EACH + i < g.of.t)
            g.to_lse[head * g.of.t + i0 + y * EACH + i] = most[i] + weir_log(sum[i]);
}

/* With a causal mask later rows attend to more, so they begin first. */
template <class T, int TW>
static __global__ void
__launch_bounds__(attention_side<T>::THREADS, attention_shared<T, TW>::RESIDENT)
    attention_forward(const attention_args<T> g)
{
    __shared__ attention_shared<T, TW> m;
    const int64_t                      heads = g.of.b * g.of.h;
    for (int64_t n = blockIdx.x; n < g.blocks * heads * g.column_blocks; n += gridDim.x)
        attention_forward_block(m, g, n / g.column_blocks % heads,
                                (g.blocks - 1 - n / g.column_blocks / heads) * m.SIDE,
                                n % g.column_blocks * m.WIDE);
}

/* ---- gradient ---- */

enum attention_of { OF_Q, OF_K, OF_V };

/* Turns scores of owned by other rows into the weights of the gradient's sum: probabilities for v,
 * gradients before the softmax for q and k. i0, j0: first rows of this thread. */
template <class T, attention_of OF>
static __device__ inline void attention_back(const attention_args<T> &g, int64_t head,
                                             real<T> (&s)[EACH][EACH],
                                             const real<T> (&dp)[EACH][EACH], int64_t i0,
                                             int64_t j0)
{
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int64_t row = OF == OF_Q ? i0 + i : j0 + j, col = OF == OF_Q ? j0 + j : i0 + i;
            if (!attention_sees(g.of, row, col)) {
                s[i][j] = 0;
                continue;
            }
            const int64_t at = head * g.of.t + row;
            s[i][j] = weir_exp(s[i][j] * g.scale - g.lse[at]);
            if (OF != OF_V)
                s[i][j] = s[i][j] * (dp[i][j] - g.delta[at]) * g.scale;
        }
}

/* i0: the first owned row, of q or of k and v. */
template <class T, int TW, attention_of OF>
static __device__ inline void attention_back_block(attention_shared<T, TW> &m,
                                                   const attention_args<T> &g, int64_t head,
                                                   int64_t i0, int64_t c0)
{
    constexpr int       SIDE = attention_side<T>::N;
    constexpr bool      BY_ROWS = OF == OF_Q;
    const int           x = (int)threadIdx.x % (SIDE / EACH), y = (int)threadIdx.x / (SIDE / EACH);
    const int64_t       mine = BY_ROWS ? g.of.t : g.of.s, others = BY_ROWS ? g.of.s : g.of.t;
    const int64_t       columns = OF == OF_V ? g.of.e : g.of.d;
    const weir_panel<T> q = attention_panel(g.of, g.q, head, g.of.t, g.of.d, false);
    const weir_panel<T> k = attention_panel(g.of, g.k, head, g.of.s, g.of.d, false);
    const weir_panel<T> v = attention_panel(g.of, g.v, head, g.of.s, g.of.e, false);
    const weir_panel<T> dy = attention_panel(g.of, g.dy, head, g.of.t, g.of.e, false);
    const weir_panel<T> rows = attention_panel(g.of, OF == OF_Q ? g.k : OF == OF_K ? g.q : g.dy,
                                               head, others, columns, true);
    const bool          all = !g.of.causal;
    const int64_t       begin = all || BY_ROWS ? 0 : i0;
    const int64_t       end = all || !BY_ROWS || i0 + SIDE >= others ? others : i0 + SIDE;
    real<T>             sum[EACH][TW] = {}, s[EACH][EACH], dp[EACH][EACH];
    for (int64_t j0 = begin; j0 < end; j0 += SIDE) {
        if (OF != OF_V)
            attention_scores(m, dp, BY_ROWS ? dy : v, i0, mine, BY_ROWS ? v : dy, j0, others,
                             g.of.e);
        attention_scores(m, s, BY_ROWS ? q : k, i0, mine, BY_ROWS ? k : q, j0, others, g.of.d);
        attention_back<T, OF>(g, head, s, dp, i0 + y * EACH, j0 + x * EACH);
        attention_add(m, sum, s, rows, c0, columns, j0, end,
                      attention_mask_of<T>(g.of, !BY_ROWS, i0, j0));
    }
    const real<T> whole[EACH] = {1, 1, 1, 1};
    attention_write(g.of, g.to, head, mine, columns, i0, c0, sum, whole);
}

template <class T, int TW, attention_of OF>
static __global__ void
__launch_bounds__(attention_side<T>::THREADS, attention_shared<T, TW>::RESIDENT)
    attention_gradient(const attention_args<T> g)
{
    __shared__ attention_shared<T, TW> m;
    const int64_t                      heads = g.of.b * g.of.h;
    for (int64_t n = blockIdx.x; n < g.blocks * heads * g.column_blocks; n += gridDim.x) {
        const int64_t block = n / g.column_blocks / heads;
        attention_back_block<T, TW, OF>(m, g, n / g.column_blocks % heads,
                                        (OF == OF_Q ? g.blocks - 1 - block : block) * m.SIDE,
                                        n % g.column_blocks * m.WIDE);
    }
}

/* ---- runs ---- */

/* Wide heads use blocks of twice the columns; f64 has no registers for that. */
template <class T> static constexpr bool attention_wider = sizeof(T) < sizeof(double);

/* Blocks for `rows` owned rows, of which `columns` columns are computed; at least one block of
 * columns, since the rows' sums are also written. */
template <class T, int TW>
static int64_t attention_split(attention_args<T> *g, int64_t rows, int64_t columns)
{
    g->blocks = ceil_div(rows, attention_shared<T, TW>::SIDE);
    g->column_blocks = max64(1, ceil_div(columns, attention_shared<T, TW>::WIDE));
    return g->blocks * g->of.b * g->of.h * g->column_blocks;
}

template <class T, int TW>
static weir_status attention_forward_launch(const weir_kargs *k, attention_args<T> &g)
{
    return weir_launch(k, attention_forward<T, TW>,
                       attention_grid(attention_split<T, TW>(&g, g.of.t, g.of.e)),
                       attention_side<T>::THREADS, g);
}

template <class T> static weir_status attention_run(const weir_kargs *k)
{
    attention_args<T> g = attention_args_of<T>(k);
    g.to = (T *)k->dst[0];
    g.to_lse = (real<T> *)k->dst[1];
    if constexpr (attention_wider<T>)
        if (g.of.e > attention_shared<T, 4>::WIDE)
            return attention_forward_launch<T, 8>(k, g);
    return attention_forward_launch<T, 4>(k, g);
}

template <class T, int TW, attention_of OF>
static weir_status attention_back_launch(const weir_kargs *k, attention_args<T> &g, int64_t columns)
{
    const int64_t n = attention_split<T, TW>(&g, OF == OF_Q ? g.of.t : g.of.s, columns);
    return columns == 0 ? WEIR_OK
                        : weir_launch(k, attention_gradient<T, TW, OF>, attention_grid(n),
                                      attention_side<T>::THREADS, g);
}

template <class T, attention_of OF>
static weir_status attention_back_run(const weir_kargs *k, attention_args<T> &g, void *to)
{
    const int64_t columns = OF == OF_V ? g.of.e : g.of.d;
    g.to = (T *)to;
    if constexpr (attention_wider<T>)
        if (columns > attention_shared<T, 4>::WIDE)
            return attention_back_launch<T, 8, OF>(k, g, columns);
    return attention_back_launch<T, 4, OF>(k, g, columns);
}

template <class T> static weir_status attention_grad_run(const weir_kargs *k)
{
    attention_args<T> g = {};
    WEIR_TRY(attention_grad_begin(k, &g));
    WEIR_TRY((attention_back_run<T, OF_Q>(k, g, k->dst[0])));
    WEIR_TRY((attention_back_run<T, OF_K>(k, g, k->dst[1])));
    return attention_back_run<T, OF_V>(k, g, k->dst[2]);
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

/* The workspace is delta, in the type of computation. */
static weir_status attention_choose(const weir_device *d, const weir_call *c, bool back,
                                    weir_kernel *out)
{
    const weir_attention_attr *const a = (const weir_attention_attr *)c->attr;
    const weir_desc *const           q = &c->in[0].desc, *const v = &c->in[2].desc;
    const size_t                     size = q->dtype == WEIR_F64 ? sizeof(double) : sizeof(float);
    attention_sizes *const           of = (attention_sizes *)weir_mem_zalloc(1, sizeof *of);
    if (!of)
        return WEIR_ERR_NOMEM;
    *of = {q->dim[0], a->heads, q->dim[1], v->dim[1], q->dim[2] / a->heads, v->dim[2] / a->heads,
           a->causal != 0};
    const bool cores = weir_attention_cores(q->dtype, of->d, of->e, attention_code(d));
    *out = {};
    out->run = !cores ? attention_of_type(q->dtype, back)
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
