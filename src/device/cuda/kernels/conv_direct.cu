/* conv_direct.cu - convolution and its gradients by our own kernels.
 *
 * Groups of many channels are matrix products whose operands are read in place; patch matrices
 * exist as indices only (implicit GEMM, after Chetlur and others, "cuDNN: efficient primitives for
 * deep learning", 2014):
 *     FORWARD  y[pixel, o]     = sum over (tap, c) of x[tap of pixel, c] w[o, tap, c]
 *     GRAD_X   dx[place, c]    = sum over (tap, o) of dy[pixel with the tap there, o] w[o, tap, c]
 *     GRAD_W   dw[o, (tap, c)] = sum over pixels of dy[pixel, o] x[tap of pixel, c]
 * Groups of few channels, above all depthwise convolutions, use one thread per result. Sums over
 * pixels are divided into slices by sizes alone; slices are added in order. */
#include "device/cuda/kernels/conv_direct.h"
#include "device/cuda/kernels/conv_suits.h"
#include "device/cuda/runtime/launch.h"
#include "device/cuda/kernels/maths.h"

enum {
    TILE = 64,          /* rows and columns of a block's product */
    DEPTH = 16,         /* terms per step */
    SIDE = 16,          /* threads along a tile; each computes EACH x EACH results */
    EACH = TILE / SIDE,
    LANES = 32,         /* channels, and */
    LINES = 8,          /* pixels that a block of a sum over pixels reads at once */
    FEW = 8             /* groups of fewer channels do not fill a tile */
};

typedef enum weir_conv_pass pass;

/* weir_conv in 32 bits, and the division of the work. */
typedef struct conv {
    int32_t n, c, h, w, o, kh, kw, oh, ow, stride[2], pad[2], dilation[2];
    int32_t cg, og, groups, pixels, places, taps;       /* places: pixels of x */
    int32_t rows, columns;                              /* blocks of a group's product */
    int32_t slices, slice;                              /* of pixels; pixels per slice */
} conv;

typedef struct plan {
    weir_conv g;
    conv           c;
    bool           slices;
    size_t         bias_at;     /* byte offset of the bias gradient's partial sums */
} plan;

/* A pixel of an image, possibly in the padding. */
typedef struct spot {
    int32_t image, y, x;
} spot;

/* A tap of a patch, or of the window that covers a place. */
typedef struct tap {
    int32_t number, y, x, channel;
} tap;

template <class T> static __device__ T fused(T a, T b, T c)
{
    return fma(a, b, c);
}
template <> __device__ float fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}

static __device__ spot spot_of(uint32_t i, uint32_t height, uint32_t width)
{
    const uint32_t line = i / width, image = line / height;
    return {(int32_t)image, (int32_t)(line - image * height), (int32_t)(i - line * width)};
}

/* The pixel under the first tap of output pixel i. */
static __device__ spot corner_of(const conv &g, uint32_t i)
{
    const spot p = spot_of(i, (uint32_t)g.oh, (uint32_t)g.ow);
    return {p.image, p.y * g.stride[0] - g.pad[0], p.x * g.stride[1] - g.pad[1]};
}

static __device__ tap tap_of(const conv &g, uint32_t i, uint32_t channels)
{
    const uint32_t number = i / channels, y = number / (uint32_t)g.kw;
    return {(int32_t)number, (int32_t)y * g.dilation[0],
            (int32_t)(number - y * (uint32_t)g.kw) * g.dilation[1],
            (int32_t)(i - number * channels)};
}

/* x at a tap relative to a corner; 0 in the padding. */
template <class T>
static __device__ typename weir_real<T>::type pixel_of(const conv &g, const T *x, const spot &p,
                                                       const tap &t, int32_t channel)
{
    const int32_t i = p.y + t.y, j = p.x + t.x;
    if (i < 0 || i >= g.h || j < 0 || j >= g.w)
        return 0;
    return weir_load(x + (((int64_t)p.image * g.h + i) * g.w + j) * g.c + channel);
}

/* dy of the window whose tap covers the padded place p; 0 without such a window. */
template <class T>
static __device__ typename weir_real<T>::type window_of(const conv &g, const T *dy, const spot &p,
                                                        const tap &t, int32_t channel)
{
    int32_t i = p.y - t.y, j = p.x - t.x;
    if (i < 0 || j < 0)
        return 0;
    if (g.stride[0] != 1 || g.stride[1] != 1) {
        const int32_t y = i / g.stride[0], x = j / g.stride[1];
        if (y * g.stride[0] != i || x * g.stride[1] != j)
            return 0;
        i = y, j = x;
    }
    if (i >= g.oh || j >= g.ow)
        return 0;
    return weir_load(dy + (((int64_t)p.image * g.oh + i) * g.ow + j) * g.o + channel);
}

/* Place i of x in padded coordinates. */
static __device__ spot padded_of(const conv &g, uint32_t i)
{
    const spot p = spot_of(i, (uint32_t)g.h, (uint32_t)g.w);
    return {p.image, p.y + g.pad[0], p.x + g.pad[1]};
}

/* ---- products ---- */

/* The tile that a block computes. */
typedef struct tile {
    int32_t group, slice, row, column;
} tile;

static __device__ tile tile_of(const conv &g)
{
    const uint32_t rows = (uint32_t)g.rows, columns = (uint32_t)g.columns;
    const uint32_t b = blockIdx.x, column = b / rows, slice = column / columns;
    const uint32_t group = slice / (uint32_t)g.slices;
    return {(int32_t)group, (int32_t)(slice - group * (uint32_t)g.slices),
            (int32_t)(b - column * rows) * TILE, (int32_t)(column - slice * columns) * TILE};
}

/* A step's operands: a[DEPTH][TILE] by rows of the result, b[DEPTH][TILE] by columns. Lines are one
 * element longer, so that writing a column uses all banks. */
template <class R> struct panels {
    R a[DEPTH][TILE + 1], b[DEPTH][TILE + 1];
};

/* FORWARD: rows are pixels; GRAD_X: places. Adjacent threads read adjacent channels. */
template <class T, pass P, class R>
static __device__ void load_image(const conv &g, const tile &at, const T *from, const spot *row,
                                  int32_t depth, int32_t step, R (&to)[DEPTH][TILE + 1])
{
    const int32_t thread = (int32_t)threadIdx.x, k = thread % DEPTH, i = step + k;
    const int32_t channels = P == WEIR_CONV_FORWARD ? g.cg : g.og;
    const int32_t all = P == WEIR_CONV_FORWARD ? g.pixels : g.places;
    const tap     t = tap_of(g, (uint32_t)i, (uint32_t)channels);
    const int32_t channel = at.group * channels + t.channel;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int32_t m = thread / DEPTH + e * SIDE;
        const bool    there = i < depth && at.row + m < all;
        if constexpr (P == WEIR_CONV_FORWARD)
            to[k][m] = there ? pixel_of(g, from, row[e], t, channel) : 0;
        else
            to[k][m] = there ? window_of(g, from, row[e], t, channel) : 0;
    }
}

template <class T, pass P, class R>
static __device__ void load_weights(const conv &g, const tile &at, const T *w, int32_t depth,
                                    int32_t step, R (&to)[DEPTH][TILE + 1])
{
    const int32_t thread = (int32_t)threadIdx.x, patch = g.taps * g.cg;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        if constexpr (P == WEIR_CONV_FORWARD) {
            const int32_t k = thread % DEPTH, n = thread / DEPTH + e * SIDE, o = at.column + n;
            const bool    there = step + k < depth && o < g.og;
            to[k][n] =
                there ? weir_load(w + (int64_t)(at.group * g.og + o) * patch + step + k) : (R)0;
        } else {
            const int32_t k = thread / TILE + e * (TILE / SIDE), n = thread % TILE;
            const bool    there = step + k < depth && at.column + n < g.cg;
            const tap     t = tap_of(g, (uint32_t)(step + k), (uint32_t)g.og);
            to[k][n] = there ? weir_load(w + (int64_t)(at.group * g.og + t.channel) * patch +
                                         t.number * g.cg + at.column + n)
                             : (R)0;
        }
    }
}

/* GRAD_W: rows are the outputs of dy, columns the patch of x, at pixels step.. */
template <class T, class R>
static __device__ void load_pixels(const conv &g, const tile &at, const T *x, const T *dy,
                                   const tap &t, int32_t end, int32_t step, panels<R> *to)
{
    const int32_t thread = (int32_t)threadIdx.x, m = thread % TILE;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int32_t k = thread / TILE + e * (TILE / SIDE), pixel = step + k;
        const bool    there = pixel < end;
        to->a[k][m] = there && at.row + m < g.og
                          ? weir_load(dy + (int64_t)pixel * g.o + at.group * g.og + at.row + m)
                          : (R)0;
        to->b[k][m] = there && at.column + m < g.taps * g.cg
                          ? pixel_of(g, x, corner_of(g, (uint32_t)pixel), t,
                                     at.group * g.cg + t.channel)
                          : (R)0;
    }
}

template <class R> static __device__ void multiply(const panels<R> *p, R (&sum)[EACH][EACH])
{
    const int x = (int)threadIdx.x % SIDE, y = (int)threadIdx.x / SIDE;
#pragma unroll
    for (int k = 0; k < DEPTH; k++)
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
                sum[i][j] = fused(p->a[k][y + i * SIDE], p->b[k][x + j * SIDE], sum[i][j]);
}

/* a: x or dy; w: the weights. */
template <class T, pass P>
static __global__ void __launch_bounds__(SIDE *SIDE)
    product(conv g, const T *a, const T *w, const T *bias, T *to)
{
    typedef typename weir_real<T>::type R;
    __shared__ panels<R> p;
    constexpr bool FORWARD = P == WEIR_CONV_FORWARD;
    const tile     at = tile_of(g);
    const int32_t  depth = g.taps * (FORWARD ? g.cg : g.og);
    const int32_t  rows = FORWARD ? g.pixels : g.places, columns = FORWARD ? g.og : g.cg;
    const int32_t  all = FORWARD ? g.o : g.c;
    R              sum[EACH][EACH] = {};
    spot           row[EACH];
    for (int e = 0; e < EACH; e++) {
        const uint32_t m = (uint32_t)(at.row + (int32_t)threadIdx.x / DEPTH + e * SIDE);
        row[e] = FORWARD ? corner_of(g, m) : padded_of(g, m);
    }
    for (int32_t step = 0; step < depth; step += DEPTH) {
        load_image<T, P>(g, at, a, row, depth, step, p.a);
        load_weights<T, P>(g, at, w, depth, step, p.b);
        __syncthreads();
        multiply(&p, sum);
        __syncthreads();
    }
    const int32_t x = (int32_t)threadIdx.x % SIDE, y = (int32_t)threadIdx.x / SIDE;
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int32_t m = at.row + y + i * SIDE, n = at.column + x + j * SIDE;
            if (m >= rows || n >= columns)
                continue;
            const R more = bias ? weir_load(bias + at.group * columns + n) : (R)0;
            weir_cuda_offload(to + (int64_t)m * all + at.group * columns + n, sum[i][j] + more);
        }
}

/* To: dw if there is one slice, else partial sums [slice][dw], in the type of accumulation. */
template <class T, class To>
static __global__ void __launch_bounds__(SIDE *SIDE)
    product_w(conv g, const T *x, const T *dy, To *to)
{
    typedef typename weir_real<T>::type R;
    __shared__ panels<R> p;
    const tile    at = tile_of(g);
    const int32_t patch = g.taps * g.cg, begin = at.slice * g.slice;
    const int32_t end = g.pixels - begin < g.slice ? g.pixels : begin + g.slice;
    const tap     t = tap_of(g, (uint32_t)(at.column + (int32_t)threadIdx.x % TILE),
                             (uint32_t)g.cg);
    R             sum[EACH][EACH] = {};
    for (int32_t step = begin; step < end; step += DEPTH) {
        load_pixels(g, at, x, dy, t, end, step, &p);
        __syncthreads();
        multiply(&p, sum);
        __syncthreads();
    }
    to += (int64_t)at.slice * g.o * patch;
    const int32_t column = (int32_t)threadIdx.x % SIDE, row = (int32_t)threadIdx.x / SIDE;
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            const int32_t m = at.row + row + i * SIDE, n = at.column + column + j * SIDE;
            if (m < g.og && n < patch)
                weir_cuda_offload(to + (int64_t)(at.group * g.og + m) * patch + n, sum[i][j]);
        }
}

/* ---- groups of few channels ---- */

/* Padding is skipped. */
template <class T>
static __global__ void direct(conv g, const T *x, const T *w, const T *bias, T *y)
{
    typedef typename weir_real<T>::type R;
    WEIR_EACH(at, (int64_t)g.pixels * g.o) {
        const int64_t pixel = at / g.o;
        const int32_t o = (int32_t)(at - pixel * g.o), first = o / g.og * g.cg;
        const spot    p = corner_of(g, (uint32_t)pixel);
        R             sum = 0;
        for (int32_t a = 0; a < g.kh; a++) {
            const int32_t i = p.y + a * g.dilation[0];
            for (int32_t b = 0; b < g.kw && i >= 0 && i < g.h; b++) {
                const int32_t j = p.x + b * g.dilation[1];
                const T      *weight = w + ((int64_t)(o * g.kh + a) * g.kw + b) * g.cg;
                const T *const pixels =
                    x + (((int64_t)p.image * g.h + i) * g.w + j) * g.c + first;
                for (int32_t c = 0; c < g.cg && j >= 0 && j < g.w; c++)
                    sum = fused((R)weir_load(pixels + c), (R)weir_load(weight + c), sum);
            }
        }
        weir_cuda_offload(y + at, bias ? sum + weir_load(bias + o) : sum);
    }
}

/* Gathers from the windows that have a tap on the padded place p. */
template <class T> static __global__ void direct_x(conv g, const T *dy, const T *w, T *dx)
{
    typedef typename weir_real<T>::type R;
    const int64_t patch = (int64_t)g.taps * g.cg;
    WEIR_EACH(at, (int64_t)g.places * g.c) {
        const int64_t place = at / g.c;
        const int32_t c = (int32_t)(at - place * g.c), group = c / g.cg, first = group * g.og;
        const spot    p = padded_of(g, (uint32_t)place);
        R             sum = 0;
        for (int32_t a = 0; a < g.kh; a++) {
            const int32_t i = p.y - a * g.dilation[0], y = i / g.stride[0];
            const bool    high = i >= 0 && y * g.stride[0] == i && y < g.oh;
            for (int32_t b = 0; b < g.kw && high; b++) {
                const int32_t j = p.x - b * g.dilation[1], v = j / g.stride[1];
                if (j < 0 || v * g.stride[1] != j || v >= g.ow)
                    continue;
                const T *const from = dy + (((int64_t)p.image * g.oh + y) * g.ow + v) * g.o;
                const T *const weight = w + (a * g.kw + b) * g.cg + (c - group * g.cg);
                for (int32_t o = first; o < first + g.og; o++)
                    sum = fused((R)weir_load(from + o), (R)weir_load(weight + o * patch), sum);
            }
        }
        weir_cuda_offload(dx + at, sum);
    }
}

/* Adds the values of a channel's LINES threads in order; the first thread gets the sum. */
template <class R> static __device__ R sum_lines(R mine)
{
    __shared__ R lines[LINES][LANES];
    lines[threadIdx.y][threadIdx.x] = mine;
    __syncthreads();
    R sum = lines[0][threadIdx.x];
    for (int i = 1; i < LINES; i++)
        sum += lines[i][threadIdx.x];
    return sum;
}

/* Grid: (32 of o * cg elements, taps, slices). */
template <class T, class To>
static __global__ void direct_w(conv g, const T *x, const T *dy, To *to)
{
    typedef typename weir_real<T>::type R;
    const int32_t blocks = (g.o * g.cg + LANES - 1) / LANES;
    const int32_t number = (int32_t)blockIdx.x / blocks, lane = (int32_t)threadIdx.x;
    const int32_t at = ((int32_t)blockIdx.x - number * blocks) * LANES + lane;
    const int32_t o = at / g.cg, c = at - o * g.cg, channel = o / g.og * g.cg + c;
    const int32_t slice = (int32_t)blockIdx.y, begin = slice * g.slice;
    const int32_t end = g.pixels - begin < g.slice ? g.pixels : begin + g.slice;
    const tap     t = {number, number / g.kw * g.dilation[0], number % g.kw * g.dilation[1], c};
    R             sum = 0;
    for (int32_t i = begin + (int32_t)threadIdx.y; i < end && o < g.o; i += LINES)
        sum = fused((R)weir_load(dy + (int64_t)i * g.o + o),
                    pixel_of(g, x, corner_of(g, (uint32_t)i), t, channel), sum);
    sum = sum_lines(sum);
    if (threadIdx.y == 0 && o < g.o)
        weir_cuda_offload(to + (((int64_t)slice * g.o + o) * g.taps + number) * g.cg + c, sum);
}

/* ---- sums ---- */

/* to[i] = from[0][i] + from[1][i] + ... */
template <class R, class T>
static __global__ void add_slices(const R *from, int32_t slices, int64_t n, T *to)
{
    WEIR_EACH(i, n) {
        R sum = from[i];
        for (int32_t s = 1; s < slices; s++)
            sum += from[s * n + i];
        weir_cuda_offload(to + i, sum);
    }
}

template <class T> static __global__ void add_bias(const T *bias, int32_t o, int64_t n, T *y)
{
    WEIR_EACH(i, n) weir_cuda_offload(y + i, weir_load(y + i) + weir_load(bias + i % o));
}

/* Grid: (32 channels, slices). */
template <class T, class To>
static __global__ void sum_pixels(const T *dy, int32_t o, int64_t pixels, int64_t each, To *to)
{
    typedef typename weir_real<T>::type R;
    const int32_t channel = (int32_t)(blockIdx.x * LANES + threadIdx.x);
    const int64_t begin = blockIdx.y * each;
    const int64_t end = pixels - begin < each ? pixels : begin + each;
    R             sum = 0;
    for (int64_t i = begin + threadIdx.y; i < end && channel < o; i += LINES)
        sum += weir_load(dy + i * o + channel);
    sum = sum_lines(sum);
    if (threadIdx.y == 0 && channel < o)
        weir_cuda_offload(to + (int64_t)blockIdx.y * o + channel, sum);
}

/* ---- runs ---- */

template <class T> static weir_status bias_grad(const weir_kargs *k, const weir_conv *g,
                                                const void *dy, void *db, void *work)
{
    typedef typename weir_real<T>::type R;
    const int64_t pixels = weir_conv_pixels(g), blocks = ceil_div(g->o, LANES);
    const int64_t slices = work ? weir_cuda_conv_slices(blocks, pixels) : 1;
    const int64_t each = ceil_div(pixels, slices);
    const dim3    grid((unsigned)blocks, (unsigned)slices), block(LANES, LINES);
    if (slices == 1)
        return weir_launch(k, sum_pixels<T, T>, grid, block, (const T *)dy, g->o, pixels, each,
                           (T *)db);
    WEIR_TRY(weir_launch(k, sum_pixels<T, R>, grid, block, (const T *)dy, g->o, pixels, each,
                         (R *)work));
    return weir_launch(k, add_slices<R, T>, weir_cuda_blocks(g->o), WEIR_CUDA_THREADS,
                       (const R *)work, slices, g->o, (T *)db);
}

template <class T> static weir_status bias_add(const weir_kargs *k, const weir_conv *g,
                                               const void *bias, void *y)
{
    const int64_t n = weir_conv_pixels(g) * g->o;
    return weir_launch(k, add_bias<T>, weir_cuda_blocks(n), WEIR_CUDA_THREADS, (const T *)bias,
                       g->o, n, (T *)y);
}

/* True if each group fills tiles. */
static bool by_product(const conv *c)
{
    return c->groups == 1 || (c->cg >= FEW && c->og >= FEW);
}

/* Of a product; at most INT32_MAX, the most that a launch may have. */
static int64_t blocks_of(const conv *c)
{
    return (int64_t)c->rows * c->columns * c->groups * c->slices;
}

template <class T> static weir_status forward_run(const weir_kargs *k)
{
    const conv    c = ((const plan *)k->state)->c;
    const T *const bias = (const T *)(k->call->nin == 3 ? k->src[2] : NULL);
    if (!by_product(&c))
        return weir_launch(k, direct<T>, weir_cuda_blocks((int64_t)c.pixels * c.o),
                           WEIR_CUDA_THREADS, c, (const T *)k->src[0], (const T *)k->src[1], bias,
                           (T *)k->dst[0]);
    return weir_launch(k, product<T, WEIR_CONV_FORWARD>,
                       (unsigned)blocks_of(&c), SIDE * SIDE, c,
                       (const T *)k->src[0], (const T *)k->src[1], bias, (T *)k->dst[0]);
}

template <class T> static weir_status grad_x_run(const weir_kargs *k)
{
    const conv c = ((const plan *)k->state)->c;
    if (!by_product(&c))
        return weir_launch(k, direct_x<T>, weir_cuda_blocks((int64_t)c.places * c.c),
                           WEIR_CUDA_THREADS, c, (const T *)k->src[0], (const T *)k->src[1],
                           (T *)k->dst[0]);
    return weir_launch(k, product<T, WEIR_CONV_GRAD_X>,
                       (unsigned)blocks_of(&c), SIDE * SIDE, c,
                       (const T *)k->src[0], (const T *)k->src[1], (const T *)NULL,
                       (T *)k->dst[0]);
}

/* Queues the kernel that computes dw or its slices. */
template <class T, class To>
static weir_status slices_run(const weir_kargs *k, const conv &c, To *to)
{
    const T *const x = (const T *)k->src[0], *const dy = (const T *)k->src[1];
    const int64_t  blocks = ceil_div(c.o * c.cg, LANES) * c.taps;
    if (!by_product(&c))
        return weir_launch(k, direct_w<T, To>, dim3((unsigned)blocks, (unsigned)c.slices),
                           dim3(LANES, LINES), c, x, dy, to);
    return weir_launch(k, product_w<T, To>,
                       (unsigned)blocks_of(&c), SIDE * SIDE, c, x, dy, to);
}

template <class T> static weir_status grad_w_run(const weir_kargs *k)
{
    typedef typename weir_real<T>::type R;
    const plan *const s = (const plan *)k->state;
    const conv       &c = s->c;
    const int64_t     n = (int64_t)c.o * c.taps * c.cg;
    if (c.slices == 1) {
        WEIR_TRY(slices_run<T>(k, c, (T *)k->dst[0]));
    } else {
        WEIR_TRY(slices_run<T>(k, c, (R *)k->work));
        WEIR_TRY(weir_launch(k, add_slices<R, T>, weir_cuda_blocks(n), WEIR_CUDA_THREADS,
                             (const R *)k->work, c.slices, n, (T *)k->dst[0]));
    }
    void *const work = s->slices && k->work ? (char *)k->work + s->bias_at : NULL;
    return k->call->nout == 2 ? bias_grad<T>(k, &s->g, k->src[1], k->dst[1], work) : WEIR_OK;
}

/* ---- selecting ---- */

static conv conv_of(const weir_conv *g, pass p, bool slices)
{
    conv c = {};
    c.n = (int32_t)g->n, c.c = (int32_t)g->c, c.h = (int32_t)g->h, c.w = (int32_t)g->w;
    c.o = (int32_t)g->o, c.kh = (int32_t)g->kh, c.kw = (int32_t)g->kw;
    c.oh = (int32_t)g->oh, c.ow = (int32_t)g->ow;
    for (int i = 0; i < 2; i++) {
        c.stride[i] = (int32_t)g->stride[i];
        c.pad[i] = (int32_t)g->pad[i];
        c.dilation[i] = (int32_t)g->dilation[i];
    }
    c.groups = (int32_t)g->groups;
    c.cg = c.c / c.groups;
    c.og = c.o / c.groups;
    c.taps = c.kh * c.kw;
    c.pixels = (int32_t)weir_conv_pixels(g);
    c.places = c.n * c.h * c.w;
    const bool    w = p == WEIR_CONV_GRAD_W, x = p == WEIR_CONV_GRAD_X;
    c.rows = (int32_t)ceil_div(w ? c.og : x ? c.places : c.pixels, TILE);
    c.columns = (int32_t)ceil_div(w ? c.taps * c.cg : x ? c.cg : c.og, TILE);
    c.slices = 1;
    const int64_t blocks = by_product(&c) ? blocks_of(&c)
                                          : ceil_div((int64_t)c.o * c.cg, LANES) * c.taps;
    if (w && slices)
        c.slices = (int32_t)weir_cuda_conv_slices(blocks, c.pixels);
    c.slice = (int32_t)ceil_div(c.pixels, c.slices);
    return c;
}

typedef weir_status (*run_fn)(const weir_kargs *k);

template <class T> static run_fn run_of(pass p)
{
    return p == WEIR_CONV_FORWARD ? forward_run<T>
           : p == WEIR_CONV_GRAD_X ? grad_x_run<T> : grad_w_run<T>;
}

weir_status weir_cuda_conv_own(const weir_call *c, const weir_conv *g, pass p, bool slices,
                               weir_kernel *out)
{
    const run_fn run = g->dtype == WEIR_F32    ? run_of<float>(p)
                       : g->dtype == WEIR_F64  ? run_of<double>(p)
                       : g->dtype == WEIR_F16  ? run_of<weir_f16>(p)
                       : g->dtype == WEIR_BF16 ? run_of<weir_bf16>(p) : NULL;
    if (!run)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s",
                              weir_dtype_name(g->dtype));
    if (!weir_cuda_conv_fits(g))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "the CUDA kernels index pixels and channels "
                              "with 30 bits");
    const conv how = conv_of(g, p, slices);
    if (by_product(&how) && blocks_of(&how) > INT32_MAX)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "the CUDA kernel would need %lld blocks, a "
                              "launch has at most %d", (long long)blocks_of(&how), INT32_MAX);
    plan *const s = (plan *)weir_mem_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    s->g = *g;
    s->c = how;
    s->slices = slices;
    *out = (weir_kernel){.run = run, .state = s, .destroy = weir_mem_free, .impl = "cuda"};
    if (p == WEIR_CONV_GRAD_W && slices) {
        const size_t sum = g->dtype == WEIR_F64 ? sizeof(double) : sizeof(float);
        const size_t one = (size_t)s->c.o * (size_t)s->c.taps * (size_t)s->c.cg * sum;
        const size_t all = s->c.slices > 1 ? one * (size_t)s->c.slices : 0;
        s->bias_at = (all + WEIR_CUDA_ALIGN - 1) / WEIR_CUDA_ALIGN * WEIR_CUDA_ALIGN;
        out->work = c->nout == 2 ? s->bias_at + weir_cuda_conv_bias_work(g) : all;
    }
    return WEIR_OK;
}

size_t weir_cuda_conv_bias_work(const weir_conv *g)
{
    const int64_t slices =
        weir_cuda_conv_slices(ceil_div(g->o, LANES), weir_conv_pixels(g));
    const size_t sum = g->dtype == WEIR_F64 ? sizeof(double) : sizeof(float);
    return slices > 1 ? (size_t)(slices * g->o) * sum : 0;
}

weir_status weir_cuda_conv_bias_grad(const weir_kargs *k, const weir_conv *g, const void *dy,
                                     void *dbias, void *work)
{
    return g->dtype == WEIR_F32   ? bias_grad<float>(k, g, dy, dbias, work)
           : g->dtype == WEIR_F64 ? bias_grad<double>(k, g, dy, dbias, work)
           : g->dtype == WEIR_F16 ? bias_grad<weir_f16>(k, g, dy, dbias, work)
                                  : bias_grad<weir_bf16>(k, g, dy, dbias, work);
}

weir_status weir_cuda_conv_add_bias(const weir_kargs *k, const weir_conv *g, const void *bias,
                                    void *y)
{
    return g->dtype == WEIR_F32   ? bias_add<float>(k, g, bias, y)
           : g->dtype == WEIR_F64 ? bias_add<double>(k, g, bias, y)
           : g->dtype == WEIR_F16 ? bias_add<weir_f16>(k, g, bias, y)
                                  : bias_add<weir_bf16>(k, g, bias, y);
}
