/* reduce_pair.cu - sums over two inputs, and norms; all in f64, so squares of f32 neither overflow
 * nor lose bits. */
#include "device/cuda/kernels/reducers.cuh"

enum { DOT, DIST, ABS, SQUARE };

template <class E, int OP> struct pair {
    typedef E             T, Y;
    typedef double        L, A;
    static constexpr bool two = OP == DOT || OP == DIST, side = false;
    static constexpr int  width = weir_width<E>();
    template <class X> static __device__ X first(void) { return 0; }
    static __device__ double value(E x, E x2, int64_t, E)
    {
        const double a = (double)x, b = (double)x2;
        if constexpr (OP == ABS)
            return fabs(a);
        else if constexpr (OP == DIST)
            return (a - b) * (a - b);
        else
            return a * b;
    }
    static __device__ double meet(double a, double b) { return a + b; }
    static __device__ E last(double sum, const weir_reduce_end &end)
    {
        return weir_sum_end<E>(sum, end);
    }
};

template <class F> static weir_status pair_run(const weir_kargs *k)
{
    const weir_reduce_state *const s = (const weir_reduce_state *)k->state;

    return weir_reduce_launch<F>(k, &s->plan, k->src[0], k->src[k->call->nin - 1], NULL, k->work,
                               k->dst[0], s->end);
}

/* A second input broadcasts to the first. */
template <class E, int OP> static weir_status choose_as(const weir_call *c, weir_kernel *out)
{
    typedef pair<E, OP>           F;
    const weir_reduce_attr *const attr = (const weir_reduce_attr *)c->attr;
    weir_layout                   x2;

    weir_shape_expand(&c->in[c->nin - 1], &c->in[0].desc, &x2);
    const weir_reduce_state s = {
        .plan = weir_cuda_reduce_plan(&c->in[0], F::two ? &x2 : NULL, &c->out[0], attr, F::two,
                                      F::width),
        .end = {.scale = attr->scale, .root = OP == SQUARE}};
    return weir_reduce_choose(s, weir_reduce_work<F>(&s.plan), pair_run<F>, out);
}

template <int OP> static weir_status choose(const weir_call *c, weir_kernel *out)
{
    switch (c->in[0].desc.dtype) {
    case WEIR_F32: return choose_as<float, OP>(c, out);
    case WEIR_F64: return choose_as<double, OP>(c, out);
    default:       break;
    }
    return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CUDA kernel for %s",
                          weir_dtype_name(c->in[0].desc.dtype));
}

weir_status weir_cuda_dot(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<DOT>(c, out);
}

weir_status weir_cuda_dist(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<DIST>(c, out);
}

weir_status weir_cuda_norm1(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<ABS>(c, out);
}

weir_status weir_cuda_norm2(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<SQUARE>(c, out);
}
