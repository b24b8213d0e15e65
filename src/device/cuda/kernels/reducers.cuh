/* reducers.cuh - accumulators of sums, products, maxima and minima for each element type: f32 sums
 * collect a few elements in f32 and those in f64; products, and sums over two inputs, use f64,
 * integers 64 bits, maxima the type itself. NaN counts as the largest and as the smallest. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_REDUCERS_CUH
#define WEIR_DEVICE_CUDA_KERNELS_REDUCERS_CUH

#include "device/cuda/kernels/reduce_block.cuh"

enum { WEIR_REDUCER_SUM, WEIR_REDUCER_MAX, WEIR_REDUCER_MIN, WEIR_REDUCER_PROD };

/* sum: lanes of a sum; wide: accumulators of sums and products; same: of maxima and minima. */
template <class E> struct weir_accumulators;
template <> struct weir_accumulators<float> {
    typedef float sum, same;
    typedef double wide, result;
};
template <> struct weir_accumulators<double> {
    typedef double sum, same, wide, result;
};
template <> struct weir_accumulators<weir_f16> : weir_accumulators<float> {};
template <> struct weir_accumulators<weir_bf16> : weir_accumulators<float> {};
template <> struct weir_accumulators<int64_t> {
    typedef uint64_t sum, wide;         /* wraps */
    typedef int64_t  same, result;
};
template <> struct weir_accumulators<int32_t> {
    typedef uint64_t sum, wide;
    typedef int32_t  same;
    typedef int64_t  result;
};
template <> struct weir_accumulators<uint8_t> : weir_accumulators<int32_t> {};

/* Values below and above all numbers of a type. */
static __device__ inline float   weir_lowest(float)   { return -(float)INFINITY; }
static __device__ inline double  weir_lowest(double)  { return -(double)INFINITY; }
static __device__ inline int32_t weir_lowest(int32_t) { return INT32_MIN; }
static __device__ inline int64_t weir_lowest(int64_t) { return INT64_MIN; }
static __device__ inline float   weir_highest(float)   { return (float)INFINITY; }
static __device__ inline double  weir_highest(double)  { return (double)INFINITY; }
static __device__ inline int32_t weir_highest(int32_t) { return INT32_MAX; }
static __device__ inline int64_t weir_highest(int64_t) { return INT64_MAX; }

/* The element in the type of computation. */
template <class T> static __device__ inline auto weir_number(T v)
{
    return weir_load(&v);
}

/* Results of sums: floats are scaled and rounded once; integers are i64. */
template <class Y> static __device__ inline Y weir_sum_end(double sum, const weir_reduce_end &end)
{
    const double v = sum * end.scale;
    return (Y)(end.root ? sqrt(v) : v);
}

template <class E, int OP> struct weir_reducer;

/* Integers, which are rare, are read one by one. */
template <class E> struct weir_reducer_plain {
    typedef E             T;
    static constexpr bool two = false, side = false;
    static constexpr bool real = weir_same<typename weir_accumulators<E>::wide, double>;
    static constexpr int  width = real ? weir_width<E>() : 1;
};

/* The type to which a float sum is rounded, and the type in which it is stored. */
template <class E> struct weir_sum_result {
    typedef E                           Y;
    typedef typename weir_real<E>::type real;
    static __device__ real of(double sum, const weir_reduce_end &end)
    {
        return weir_sum_end<real>(sum, end);
    }
};
template <> struct weir_sum_result<int64_t> {
    typedef int64_t Y;
    static __device__ int64_t of(uint64_t sum, const weir_reduce_end &)
    {
        return (int64_t)sum;
    }
};
template <> struct weir_sum_result<int32_t> : weir_sum_result<int64_t> {};
template <> struct weir_sum_result<uint8_t> : weir_sum_result<int64_t> {};

template <class E> struct weir_reducer<E, WEIR_REDUCER_SUM> : weir_reducer_plain<E> {
    typedef typename weir_accumulators<E>::sum     L;
    typedef typename weir_accumulators<E>::wide    A;
    typedef typename weir_sum_result<E>::Y Y;
    template <class X> static __device__ X first(void) { return 0; }
    static __device__ L value(E x, E, int64_t, E) { return (L)weir_number(x); }
    template <class X> static __device__ X meet(X a, X b) { return a + b; }
    static __device__ auto last(A a, const weir_reduce_end &end)
    {
        return weir_sum_result<E>::of(a, end);
    }
};

/* A partial product may overflow where the whole does not, so all are f64. */
template <class E> struct weir_reducer<E, WEIR_REDUCER_PROD> : weir_reducer_plain<E> {
    typedef typename weir_accumulators<E>::wide    L, A;
    typedef typename weir_sum_result<E>::Y Y;
    static constexpr int                   width = 1;
    template <class X> static __device__ X first(void) { return 1; }
    static __device__ L value(E x, E, int64_t, E) { return (L)weir_number(x); }
    template <class X> static __device__ X meet(X a, X b) { return a * b; }
    static __device__ auto last(A a, const weir_reduce_end &end)
    {
        return weir_sum_result<E>::of(a, end);
    }
};

template <class E> struct weir_reducer<E, WEIR_REDUCER_MAX> : weir_reducer_plain<E> {
    typedef typename weir_accumulators<E>::same L, A;
    typedef E                           Y;
    template <class X> static __device__ X first(void) { return weir_lowest(X()); }
    static __device__ L value(E x, E, int64_t, E) { return (L)weir_number(x); }
    template <class X> static __device__ X meet(X a, X b) { return b > a || b != b ? b : a; }
    static __device__ auto last(A a, const weir_reduce_end &)
    {
        return (decltype(weir_number(E())))a;
    }
};

template <class E> struct weir_reducer<E, WEIR_REDUCER_MIN> : weir_reducer_plain<E> {
    typedef typename weir_accumulators<E>::same L, A;
    typedef E                           Y;
    template <class X> static __device__ X first(void) { return weir_highest(X()); }
    static __device__ L value(E x, E, int64_t, E) { return (L)weir_number(x); }
    template <class X> static __device__ X meet(X a, X b) { return b < a || b != b ? b : a; }
    static __device__ auto last(A a, const weir_reduce_end &)
    {
        return (decltype(weir_number(E())))a;
    }
};

/* ---- the state of calls that reduce axes of input x to output 0 ---- */

typedef struct weir_reduce_state {
    weir_cuda_reduce plan;
    weir_reduce_end    end;
} weir_reduce_state;

/* Fills *out with a kernel whose state is a copy of s. */
static inline weir_status weir_reduce_choose(const weir_reduce_state &s, size_t work,
                                           weir_status (*run)(const weir_kargs *),
                                           weir_kernel *out)
{
    weir_reduce_state *const own = (weir_reduce_state *)weir_mem_alloc(sizeof *own);

    if (!own)
        return WEIR_ERR_NOMEM;
    *own = s;
    *out = (weir_kernel){.run = run, .work = work, .state = own, .destroy = weir_mem_free,
                         .impl = "cuda"};
    return WEIR_OK;
}

#endif
