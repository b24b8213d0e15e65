/* multiply.c - selects cuBLASLt or our own kernel for a product. */
#include "device/cuda/kernels/multiply.h"

#include "core/status.h"
#include "device/cuda/kernels/gemm.h"
#include "device/cuda/lib/blas.h"

/* Reads WEIR_GEMM; values that are meant for the CPU are ignored. */
static weir_status read_wish(bool *own, bool *must)
{
    static const char *const known[] = {"", "openblas", "onednn", "own", "cublaslt"};
    const char *const        text = getenv("WEIR_GEMM");
    bool                     good = !text;
    *own = text && strcmp(text, "own") == 0;
    *must = text && strcmp(text, "cublaslt") == 0;
    for (size_t i = 0; i < sizeof known / sizeof *known && !good; i++)
        good = strcmp(text, known[i]) == 0;
    return good ? WEIR_OK
                : weir_fail(WEIR_ERR_INVALID, "unknown WEIR_GEMM '%s' (expected own or cublaslt)",
                                              text);
}

weir_status weir_multiply_plan(weir_device *d, const weir_call *c, const weir_product *p,
                               weir_multiply *out)
{
    bool own, must;
    WEIR_TRY(read_wish(&own, &must));
    *out = (weir_multiply){.product = *p};
    weir_product_merge(&out->product);
    if (!own)
        WEIR_TRY(weir_lt_plan(d, c, &out->product, must, &out->lt));
    out->work = out->lt ? weir_lt_work(out->lt) : weir_gemm_work(&out->product);
    out->impl = out->lt ? weir_lt_impl(out->lt) : "cuda";
    return WEIR_OK;
}

void weir_multiply_drop(weir_multiply *m)
{
    weir_lt_free(m->lt);
    m->lt = NULL;
}
/* Our own kernel runs without slices here, since the library's workspace may be too small. */
/* Our own kernel does without the library's workspace, which may be too small for slices. */
weir_status weir_multiply_run(const weir_kargs *k, const weir_multiply *m, const weir_operands *o)
{
    if (m->lt && weir_lt_fits(m->lt, o)) {
        if (weir_lt_adds_to_bias(m->lt))
            WEIR_TRY(weir_gemm_fill_bias(k, &m->product, o->bias, o->to));
        return weir_lt_run(k, m->lt, &m->product, o);
    }
    return weir_gemm_run(k, &m->product, o, m->lt ? 1 : weir_gemm_slices(&m->product));
}
