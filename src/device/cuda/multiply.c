/* multiply.c - who makes a product: cuBLASLt or our own kernel. */
#include "device/cuda/multiply.h"

#include "core/status.h"

weir_status weir_multiply_plan(weir_device *d, const weir_call *c, const weir_product *p,
                               weir_multiply *out)
{
    (void)d;
    (void)c;
    *out = (weir_multiply){.product = *p, .impl = "cuda"};
    weir_product_merge(&out->product);
    out->work = weir_gemm_work(&out->product);
    return WEIR_OK;
}

void weir_multiply_drop(weir_multiply *m)
{
    m->lt = NULL;
}

weir_status weir_multiply_run(const weir_kargs *k, const weir_multiply *m, const weir_operands *o)
{
    return weir_gemm_run(k, &m->product, o, weir_gemm_slices(&m->product));
}
