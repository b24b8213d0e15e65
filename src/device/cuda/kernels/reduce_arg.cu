/* reduce_arg.cu - positions of maxima and minima, the gradients of a maximum and of a product, and
 * counts of correct answers.
 *
 * A position is the row-major index among the reduced axes. Of equal elements the first counts; NaN
 * counts as the largest and as the smallest, as in AMAX and AMIN. */
#include "device/cuda/kernels/reducers.cuh"

/* Strides of such positions: 0 along kept axes. */
static weir_layout places_of(const weir_layout *x, const weir_reduce_attr *attr)
{
    weir_layout l = {.desc = x->desc};
    int64_t     step = 1;

    for (int i = x->desc.ndim - 1; i >= 0; i--)
        if (attr->dims >> i & 1) {
            l.stride[i] = step;
            step *= x->desc.dim[i];
        }
    return l;
}

/* ---- argmax, argmin ---- */

template <class R> struct best {
    int64_t place;          /* -1: none yet */
    R       value;
};

template <class R>
static __device__ inline best<R> weir_shuffle_down(best<R> a, int by, int width)
{
    return {weir_shuffle_down(a.place, by, width), weir_shuffle_down(a.value, by, width)};
}

template <class E, bool MAX> struct arg {
    typedef E                               T;
    typedef best<typename weir_accumulators<E>::same> L, A;
    typedef int64_t                         Y;
    static constexpr bool                   two = false, side = false;
    static constexpr int                    width = 1;
    template <class X> static __device__ X first(void) { return {-1, 0}; }
    static __device__ L value(E x, E, int64_t place, E)
    {
        return {place, weir_number(x)};
    }
    static __device__ L meet(L a, L b)
    {
        if (a.place < 0 || b.place < 0)
            return a.place < 0 ? b : a;
        const bool better = MAX ? b.value > a.value : b.value < a.value;
        const bool nan = b.value != b.value, had = a.value != a.value;
        const bool same = a.value == b.value || (nan && had);
        return (better || (nan && !had) || (same && b.place < a.place)) ? b : a;
    }
    static __device__ int64_t last(A a, const weir_reduce_end &) { return a.place; }
};

template <class F> static weir_status arg_run(const weir_kargs *k)
{
    const weir_reduce_state *const s = (const weir_reduce_state *)k->state;

    return weir_reduce_launch<F>(k, &s->plan, k->src[0], NULL, NULL, k->work, k->dst[0], s->end);
}

template <class E, bool MAX> static weir_status arg_as(const weir_call *c, weir_kernel *out)
{
    typedef arg<E, MAX>           F;
    const weir_reduce_attr *const attr = (const weir_reduce_attr *)c->attr;
    const weir_layout             places = places_of(&c->in[0], attr);
    const weir_reduce_state         s = {
        .plan = weir_cuda_reduce_plan(&c->in[0], &places, &c->out[0], attr, false, F::width)};

    return weir_reduce_choose(s, weir_reduce_work<F>(&s.plan), arg_run<F>, out);
}

template <bool MAX> static weir_status arg_choose(const weir_call *c, weir_kernel *out)
{
    switch (c->in[0].desc.dtype) {
    case WEIR_F32:  return arg_as<float, MAX>(c, out);
    case WEIR_F64:  return arg_as<double, MAX>(c, out);
    case WEIR_F16:  return arg_as<weir_f16, MAX>(c, out);
    case WEIR_BF16: return arg_as<weir_bf16, MAX>(c, out);
    case WEIR_I32:  return arg_as<int32_t, MAX>(c, out);
    case WEIR_I64:  return arg_as<int64_t, MAX>(c, out);
    case WEIR_U8:   return arg_as<uint8_t, MAX>(c, out);
    default:        break;
    }
    return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s",
                          weir_dtype_name(c->in[0].desc.dtype));
}

weir_status weir_cuda_argmax(weir_device *, const weir_call *c, weir_kernel *out)
{
    return arg_choose<true>(c, out);
}

weir_status weir_cuda_argmin(weir_device *, const weir_call *c, weir_kernel *out)
{
    return arg_choose<false>(c, out);
}

/* ---- gradients: a first kernel reduces to the workspace, a second writes dx ---- */

/* state.plan reduces x to a dense tensor like y and dy; results first, then accumulators. */
typedef struct grad_state {
    weir_cuda_reduce plan;
    axes             way;           /* amax: reduced axes in logical order; prod: all, sorted */
    int64_t          count;         /* elements of x */
    size_t           accumulators;  /* their byte offset in the workspace */
} grad_state;

template <class F>
static weir_status grad_choose(const weir_call *c, const axes &way,
                               weir_status (*run)(const weir_kargs *), weir_kernel *out)
{
    const weir_reduce_attr *const attr = (const weir_reduce_attr *)c->attr;
    const weir_layout             places = places_of(&c->in[1], attr);
    grad_state *const             s = (grad_state *)weir_mem_alloc(sizeof *s);

    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (grad_state){.plan = weir_cuda_reduce_plan(&c->in[1], &places, &c->in[0], attr, false,
                                                    F::width),
                      .way = way,
                      .count = weir_shape_count(&c->in[1].desc)};
    const size_t results = (size_t)weir_shape_count(&c->in[0].desc) * sizeof(typename F::Y);
    s->accumulators = (results + WEIR_CUDA_ALIGN - 1) / WEIR_CUDA_ALIGN * WEIR_CUDA_ALIGN;
    *out = (weir_kernel){.run = run,
                         .work = s->accumulators + weir_reduce_work<F>(&s->plan),
                         .state = s,
                         .destroy = weir_mem_free,
                         .impl = "cuda"};
    return WEIR_OK;
}

static weir_status grad_type_fails(const weir_call *c)
{
    return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s",
                          weir_dtype_name(c->in[1].desc.dtype));
}

/* ---- amax_grad: dy, x, y -> dx; dy goes to the first element equal to y ---- */

template <class E> struct equal_first {
    typedef E             T;
    typedef int64_t       L, A, Y;
    static constexpr bool two = false, side = true;
    static constexpr int  width = 1;
    template <class X> static __device__ X first(void) { return INT64_MAX; }
    static __device__ int64_t value(E element, E, int64_t place, E side)
    {
        const auto x = weir_number(element), y = weir_number(side);
        return x == y || (x != x && y != y) ? place : INT64_MAX;
    }
    static __device__ int64_t meet(int64_t a, int64_t b) { return b < a ? b : a; }
    static __device__ int64_t last(int64_t a, const weir_reduce_end &) { return a; }
};

template <class E>
static __global__ void amax_scatter(const __grid_constant__ grad_state s, const E *dy,
                                    const int64_t *first, E *dx)
{
    const int64_t results = s.plan.outs * s.plan.cols;

    WEIR_EACH(i, results) {
        const int64_t    o = weir_quotient(i, s.plan.cols), col = i - o * s.plan.cols;
        const axes_place at = weir_place_at(&s.plan.keep, o);
        const int64_t    out = at.out + col * s.plan.col.out, place = first[out];
        if (place != INT64_MAX)
            dx[at.in + col * s.plan.col.in + weir_place_at(&s.way, place).in] = dy[out];
    }
}

template <class E> static weir_status amax_grad_run(const weir_kargs *k)
{
    typedef equal_first<E>  F;
    const grad_state *const s = (const grad_state *)k->state;
    const weir_reduce_end     end = {.scale = 1};

    if (s->count == 0)
        return WEIR_OK;
    WEIR_TRY(weir_reduce_launch<F>(k, &s->plan, k->src[1], NULL, k->src[2],
                                 (char *)k->work + s->accumulators, k->work, end));
    WEIR_CUDA_TRY(k->call, cudaMemsetAsync(k->dst[0], 0, (size_t)s->count * sizeof(E),
                                           weir_cuda_stream(k)));
    return weir_launch(k, amax_scatter<E>, weir_cuda_blocks(weir_cuda_reduce_results(&s->plan)),
                       WEIR_CUDA_THREADS, *s, (const E *)k->src[0], (const int64_t *)k->work,
                       (E *)k->dst[0]);
}

template <class E> static weir_status amax_grad_as(const weir_call *c, weir_kernel *out)
{
    const weir_reduce_attr *const attr = (const weir_reduce_attr *)c->attr;
    const axes                    listed = axes_of(&c->in[1], NULL, &c->in[2], attr, false);
    axes                          over = {0};

    for (int i = 0; i < listed.n; i++)
        if (listed.at[i].reduced)
            over.at[over.n++] = listed.at[i];
    axes_merge(&over);
    return grad_choose<equal_first<E>>(c, over, amax_grad_run<E>, out);
}

weir_status weir_cuda_amax_grad(weir_device *, const weir_call *c, weir_kernel *out)
{
    switch (c->in[1].desc.dtype) {
    case WEIR_F32:  return amax_grad_as<float>(c, out);
    case WEIR_F64:  return amax_grad_as<double>(c, out);
    case WEIR_F16:  return amax_grad_as<weir_f16>(c, out);
    case WEIR_BF16: return amax_grad_as<weir_bf16>(c, out);
    default:        return grad_type_fails(c);
    }
}

/* ---- prod_grad: dy, x -> dx, dy times the product of all others ---- */

/* The product of the factors that are neither 0, infinite (only their sign counts) nor NaN, and the
 * numbers of the others in `odd`, each capped at 2: when one is removed, at least one remains. */
enum { ODD_ZERO = 1, ODD_INFINITE = 1 << 4, ODD_NAN = 1 << 8, ODD_MOST = 2 };

struct factors {
    double  prod;
    int64_t odd;
};

static __device__ inline int64_t odd_of(double v)
{
    return v == 0 ? ODD_ZERO : v != v ? ODD_NAN : fabs(v) == INFINITY ? ODD_INFINITE : 0;
}

static __device__ inline double plain_factor(double v)
{
    const int64_t odd = odd_of(v);
    return odd == 0 ? v : odd == ODD_INFINITE ? copysign(1.0, v) : 1.0;
}

/* Adds the capped numbers of both. */
static __device__ inline int64_t odd_meet(int64_t a, int64_t b)
{
    int64_t both = 0;
    for (int64_t unit = ODD_ZERO; unit <= ODD_NAN; unit <<= 4) {
        const int64_t n = a / unit % 16 + b / unit % 16;
        both += unit * (n < ODD_MOST ? n : ODD_MOST);
    }
    return both;
}

/* The product of all factors except v. */
static __device__ inline double factors_without(factors f, double v)
{
    const double  rest = f.prod / plain_factor(v);
    const int64_t left = f.odd - odd_of(v);
    const bool    zero = left / ODD_ZERO % 16 > 0, infinite = left / ODD_INFINITE % 16 > 0;

    return left / ODD_NAN > 0 || (zero && infinite) ? (double)NAN
           : zero                                   ? 0
           : infinite                               ? copysign((double)INFINITY, rest)
                                                    : rest;
}

static __device__ inline factors weir_shuffle_down(factors a, int by, int width)
{
    return {weir_shuffle_down(a.prod, by, width), weir_shuffle_down(a.odd, by, width)};
}

static __device__ inline void weir_cuda_offload(factors *to, factors f)
{
    *to = f;
}

template <class E> struct factored {
    typedef E             T;
    typedef factors       L, A, Y;
    static constexpr bool two = false, side = false;
    static constexpr int  width = 1;
    template <class X> static __device__ X first(void) { return {1, 0}; }
    static __device__ factors value(E element, E, int64_t, E)
    {
        const double v = (double)weir_number(element);
        return {plain_factor(v), odd_of(v)};
    }
    static __device__ factors meet(factors a, factors b)
    {
        return {a.prod * b.prod, odd_meet(a.odd, b.odd)};
    }
    static __device__ factors last(factors a, const weir_reduce_end &) { return a; }
};

/* dx may be x itself. */
template <class E>
static __global__ void prod_spread(const __grid_constant__ grad_state s, const E *dy, const E *x,
                                   const factors *of, E *dx)
{
    typedef typename weir_real<E>::type real;

    WEIR_EACH(i, s.count) {
        const axes_place at = weir_place_at(&s.way, i);
        const factors    f = of[at.out];
        const double     v = (double)weir_load(x + at.in), g = (double)weir_load(dy + at.out);
        weir_cuda_offload(dx + at.in, (real)(g * factors_without(f, v)));
    }
}

template <class E> static weir_status prod_grad_run(const weir_kargs *k)
{
    const grad_state *const s = (const grad_state *)k->state;
    const weir_reduce_end     end = {.scale = 1};

    if (s->count == 0)
        return WEIR_OK;
    WEIR_TRY(weir_reduce_launch<factored<E>>(k, &s->plan, k->src[1], NULL, NULL,
                                           (char *)k->work + s->accumulators, k->work, end));
    return weir_launch(k, prod_spread<E>, weir_cuda_blocks(s->count), WEIR_CUDA_THREADS, *s,
                       (const E *)k->src[0], (const E *)k->src[1], (const factors *)k->work,
                       (E *)k->dst[0]);
}

template <class E> static weir_status prod_grad_as(const weir_call *c, weir_kernel *out)
{
    axes all = axes_of(&c->in[1], NULL, &c->in[0], (const weir_reduce_attr *)c->attr, true);

    axes_merge(&all);
    return grad_choose<factored<E>>(c, all, prod_grad_run<E>, out);
}

weir_status weir_cuda_prod_grad(weir_device *, const weir_call *c, weir_kernel *out)
{
    switch (c->in[1].desc.dtype) {
    case WEIR_F32:  return prod_grad_as<float>(c, out);
    case WEIR_F64:  return prod_grad_as<double>(c, out);
    case WEIR_F16:  return prod_grad_as<weir_f16>(c, out);
    case WEIR_BF16: return prod_grad_as<weir_bf16>(c, out);
    default:        return grad_type_fails(c);
    }
}

/* ---- COUNT_CORRECT: rows whose first largest entry is at the target ---- */

template <class E, class I>
static __global__ void count_rows(const E *x, const I *target, int64_t rows, int64_t n,
                                  unsigned long long *right)
{
    typedef arg<E, true> F;

    for (int64_t first = (int64_t)blockIdx.x * blockDim.y; first < rows;
         first += (int64_t)gridDim.x * blockDim.y) {
        const int64_t row = first + threadIdx.y;
        typename F::A a = F::template first<typename F::A>();
        if (row < rows)
            for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
                a = F::meet(a, F::value(x[row * n + i], x[0], i, x[0]));
        a = weir_line_meet<F>(a, (int)blockDim.x);
        if (threadIdx.x == 0 && row < rows && a.place >= 0 && a.place == (int64_t)target[row])
            atomicAdd(right, 1ULL);
    }
}

/* Threads that share a row of n elements. */
static int row_threads(int64_t n)
{
    return n > 2048 ? WEIR_CUDA_THREADS : weir_cuda_power(ceil_div(n, 2), 32);
}

/* Counts are integers, so any order of additions gives the same sum. */
template <class E, class I> static weir_status count_run(const weir_kargs *k)
{
    const weir_desc *const x = &k->call->in[0].desc;
    const int64_t          rows = x->dim[0], n = x->dim[1];
    const int              tx = row_threads(n), ty = WEIR_CUDA_THREADS / tx;

    WEIR_CUDA_TRY(k->call, cudaMemsetAsync(k->dst[0], 0, sizeof(int64_t), weir_cuda_stream(k)));
    return weir_launch(k, count_rows<E, I>,
                       dim3((unsigned)min64(ceil_div(rows, ty), WEIR_CUDA_BLOCKS)),
                       dim3((unsigned)tx, (unsigned)ty), (const E *)k->src[0],
                       (const I *)k->src[1], rows, n, (unsigned long long *)k->dst[0]);
}

weir_status weir_cuda_count_correct(weir_device *, const weir_call *c, weir_kernel *out)
{
    const weir_dtype type = c->in[0].desc.dtype, index = c->in[1].desc.dtype;

    if (!weir_is_float(type) || (index != WEIR_I32 && index != WEIR_I64))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s logits and %s targets",
                              weir_dtype_name(type), weir_dtype_name(index));
    out->run = type == WEIR_F32 ? (index == WEIR_I32 ? count_run<float, int32_t>
                                                     : count_run<float, int64_t>)
                                : (index == WEIR_I32 ? count_run<double, int32_t>
                                                     : count_run<double, int64_t>);
    *out = (weir_kernel){.run = out->run, .impl = "cuda"};
    return WEIR_OK;
}
