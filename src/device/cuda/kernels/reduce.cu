/* reduce.cu - sums, products, maxima and minima. */
#include "device/cuda/kernels/reducers.cuh"

template <class F> static weir_status reduce_run(const weir_kargs *k)
{
    const weir_reduce_state *const s = (const weir_reduce_state *)k->state;

    return weir_reduce_launch<F>(k, &s->plan, k->src[0], NULL, NULL, k->work, k->dst[0], s->end);
}

template <class E, int OP> static weir_status choose_as(const weir_call *c, weir_kernel *out)
{
    typedef weir_reducer<E, OP>      F;
    const weir_reduce_attr *const attr = (const weir_reduce_attr *)c->attr;
    const weir_reduce_state         s = {
        .plan = weir_cuda_reduce_plan(&c->in[0], NULL, &c->out[0], attr, false, F::width),
        .end = {.scale = OP == WEIR_REDUCER_SUM ? attr->scale : 1}};

    return weir_reduce_choose(s, weir_reduce_work<F>(&s.plan), reduce_run<F>, out);
}

template <int OP> static weir_status choose(const weir_call *c, weir_kernel *out)
{
    const weir_dtype in = c->in[0].desc.dtype, to = c->out[0].desc.dtype;

    if (to ==
        (weir_is_any_float(in) || OP == WEIR_REDUCER_MAX || OP == WEIR_REDUCER_MIN ? in : WEIR_I64))
        switch (in) {
        case WEIR_F32:  return choose_as<float, OP>(c, out);
        case WEIR_F64:  return choose_as<double, OP>(c, out);
        case WEIR_F16:  return choose_as<weir_f16, OP>(c, out);
        case WEIR_BF16: return choose_as<weir_bf16, OP>(c, out);
        case WEIR_I32:  return choose_as<int32_t, OP>(c, out);
        case WEIR_I64:  return choose_as<int64_t, OP>(c, out);
        case WEIR_U8:   return choose_as<uint8_t, OP>(c, out);
        default:        break;
        }
    return weir_call_fail(WEIR_ERR_NOKERNEL, c, "the CUDA kernels cannot reduce %s to %s",
                          weir_dtype_name(in), weir_dtype_name(to));
}

weir_status weir_cuda_sum(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<WEIR_REDUCER_SUM>(c, out);
}

weir_status weir_cuda_amax(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<WEIR_REDUCER_MAX>(c, out);
}

weir_status weir_cuda_amin(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<WEIR_REDUCER_MIN>(c, out);
}

weir_status weir_cuda_prod(weir_device *, const weir_call *c, weir_kernel *out)
{
    return choose<WEIR_REDUCER_PROD>(c, out);
}
