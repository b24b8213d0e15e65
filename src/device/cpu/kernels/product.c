/* product.c - runs a matrix product that is planned. */
#include "device/cpu/kernels/product.h"

#include "core/mem.h"
#include "core/status.h"
#include "device/cpu/gemm/gemm.h"

void weir_cpu_product_free(void *product)
{
    weir_cpu_product *const p = product;
    if (p)
        weir_onednn_free(p->lib);
    weir_mem_free(p);
}

static weir_status run(const weir_kargs *k)
{
    const weir_cpu_product *const p = k->state;
    void *const                   a = k->src[p->turned], *const b = k->src[!p->turned];
    void *const                   src[] = {a, b, p->bias ? k->src[2] : NULL};
    if (p->lib)
        return weir_onednn_run(p->lib, src, k->dst, k->work, k->threads);
    WEIR_TRY(weir_gemm_ready(&p->gemm, k->threads));
    if (p->bias)
        weir_gemm_run_bias(&p->gemm, a, b, src[2], k->dst[0], k->work, k->threads);
    else
        weir_gemm_run(&p->gemm, a, b, k->dst[0], false, k->work, k->threads);
    return WEIR_OK;
}

weir_kernel weir_cpu_product_kernel(weir_cpu_product *p)
{
    return (weir_kernel){.run = run,
                         .work = p->lib ? weir_onednn_work(p->lib) : p->gemm.work,
                         .state = p,
                         .destroy = weir_cpu_product_free,
                         .impl = p->lib ? weir_onednn_impl(p->lib) : p->gemm.impl};
}
