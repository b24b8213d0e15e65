/* matmul.c - chooses and runs the matrix product and the linear layer.
 *
 * Small products are our own: libraries take longer to begin. Larger ones go to the library
 * that was faster on this kind of processor. f64 never goes to oneDNN. */
#include <string.h>

#include "core/attr.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/cpu/gemm.h"
#include "device/cpu/kernels.h"
#include "device/cpu/onednn.h"
#include "device/cpu/openblas.h"

/* State of a choice: a product by lib, or by gemm with the bias laid down first. */
typedef struct product {
    weir_gemm    gemm;
    weir_onednn *lib; /* owned, or NULL */
    bool         bias;
} product;

static void product_free(void *state)
{
    product *const p = state;
    weir_onednn_free(p->lib);
    weir_mem_free(p);
}

/* ---- run ---- */

static weir_status run(const weir_kargs *k)
{
    const product *const         p = k->state;
    const weir_gemm_shape *const s = &p->gemm.shape;
    if (p->lib)
        return weir_onednn_run(p->lib, k->src, k->dst, k->work, k->threads);
    if (p->bias)
        weir_gemm_bias(k->dst[0], k->src[2], s->m, (size_t)s->n * p->gemm.size, k->threads);
    weir_gemm_run(&p->gemm, k->src[0], k->src[1], k->dst[0], p->bias, k->work, k->threads);
    return WEIR_OK;
}

/* ---- choose ---- */

static weir_status plan(weir_device *d, const weir_gemm_shape *s, product *p)
{
    weir_gemm_want       want;
    const weir_openblas *blas;
    WEIR_TRY(weir_gemm_libraries(d, "WEIR_GEMM", &want, &blas));
    weir_gemm_plan(&p->gemm, s, blas, want);
    if (s->dtype == WEIR_F32 && weir_gemm_asks_onednn(&p->gemm, want))
        return weir_onednn_matmul(d, s, p->bias, &p->lib);
    return WEIR_OK;
}

static weir_status choose(weir_device *d, const weir_gemm_shape *s, bool bias, weir_choice *out)
{
    product *const p = weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->bias = bias;
    const weir_status status = plan(d, s, p);
    if (status != WEIR_OK) {
        product_free(p);
        return status;
    }
    *out = (weir_choice){.run = run,
                         .state = p,
                         .destroy = product_free,
                         .work = p->lib ? weir_onednn_work(p->lib) : p->gemm.work,
                         .impl = p->lib ? weir_onednn_impl(p->lib) : p->gemm.impl};
    return WEIR_OK;
}

weir_status weir_cpu_matmul(weir_device *d, const weir_call *c, weir_choice *out)
{
    const weir_matmul_attr *const t = c->attr;
    const weir_desc *const a = &c->in[0].desc, *const b = &c->in[1].desc;
    const weir_gemm_shape s = {.dtype = a->dtype,
                               .ta = t->ta != 0,
                               .tb = t->tb != 0,
                               .m = a->dim[t->ta ? 1 : 0],
                               .k = a->dim[t->ta ? 0 : 1],
                               .n = b->dim[t->tb ? 0 : 1],
                               .lda = a->dim[1],
                               .ldb = b->dim[1],
                               .ldc = b->dim[t->tb ? 0 : 1]};
    return choose(d, &s, false, out);
}

weir_status weir_cpu_linear(weir_device *d, const weir_call *c, weir_choice *out)
{
    const weir_desc *const x = &c->in[0].desc, *const w = &c->in[1].desc;
    const weir_gemm_shape s = {.dtype = x->dtype,
                               .tb = true,
                               .m = x->dim[0],
                               .n = w->dim[0],
                               .k = x->dim[1],
                               .lda = x->dim[1],
                               .ldb = x->dim[1],
                               .ldc = w->dim[0]};
    return choose(d, &s, c->nin == 3, out);
}
