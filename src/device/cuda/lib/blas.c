/* blas.c - the only file that calls cuBLASLt: descriptors of a product and the algorithm to run.
 *
 * The algorithm is the first of the library's heuristics whose workspace is within the limit and
 * whose sums have one order: split sums are combined in a separate step, in the type they were
 * computed in, never in place. It is kept while the device is open. Matrices are assumed to be
 * aligned to what their leading dimensions are multiples of; callers with others must not use the
 * plan (weir_lt_fits). The bias is the epilogue's or, if the library has none for the type, the
 * matrix that the product is added to (weir_lt_adds_to_bias). */
#include "device/cuda/lib/blas.h"

#include "core/mem.h"
#include "core/status.h"
#include "device/cuda/runtime/libs.h"

typedef struct weir_cuda_blas {
    const weir_cuda_lib_blas *lib;      /* NULL: not found */
    cublasLtHandle_t          handle;
    size_t                    limit;    /* most bytes of a workspace */
} weir_cuda_blas;

enum { TRIED = 8 };

struct weir_lt {
    weir_cuda_blas        *blas;
    weir_lt_shape          shape;
    cublasLtMatmulDesc_t   desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t   algo;
    size_t                 work;
    int64_t                align_a, align_b, align_c;
    bool                   bias_in_c; /* the bias is written to C before the product */
    const char            *impl;
};

/* ---- failures ---- */

static weir_status status_of(const weir_cuda_lib_blas *lib, cublasStatus_t s, const weir_call *c,
                             const char *what)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return WEIR_OK;
    return weir_call_fail(s == CUBLAS_STATUS_ALLOC_FAILED ? WEIR_ERR_NOMEM : WEIR_ERR_DEVICE, c,
                          "%s: %s (%s)", what, lib->cublasLtGetStatusString(s),
                          lib->cublasLtGetStatusName(s));
}

/* TRY(c, lib, cublasLtMatmul, arguments...) */
#define TRY(c, lib, function, ...)                                                                 \
    WEIR_TRY(status_of((lib), (lib)->function(__VA_ARGS__), (c), #function))

/* ---- the library ---- */

static weir_status open_blas(weir_device *d, const weir_call *c, weir_cuda_blas *b)
{
    const weir_status         before = weir_error_status();
    const weir_cuda_lib_blas *lib;
    if (weir_cuda_open_blas(&lib) != WEIR_OK) {
        if (before == WEIR_OK)
            (void)weir_fail(WEIR_OK, "%s", "");     /* a missing library is no failure */
        return WEIR_OK;
    }
    TRY(c, lib, cublasLtCreate, &b->handle);
    b->lib = lib;
    b->limit = weir_lt_limit(weir_cuda_context_of(d)->gpu.major, getenv("WEIR_CUBLAS_WORKSPACE"));
    return WEIR_OK;
}

static weir_status blas_of(weir_device *d, const weir_call *c, weir_cuda_blas **out)
{
    weir_cuda_context *const u = weir_cuda_context_of(d);
    if (!u->blas) {
        weir_cuda_blas *const b = weir_mem_zalloc(1, sizeof *b);
        if (!b)
            return WEIR_ERR_NOMEM;
        const weir_status s = open_blas(d, c, b);
        if (s != WEIR_OK) {
            weir_mem_free(b);
            return s;
        }
        u->blas = b;
    }
    *out = u->blas;
    return WEIR_OK;
}

void weir_cuda_blas_close(weir_cuda_context *u)
{
    if (u->blas && u->blas->lib)
        (void)u->blas->lib->cublasLtDestroy(u->blas->handle);
    weir_mem_free(u->blas);
    u->blas = NULL;
}

/* ---- descriptors ---- */

static cudaDataType_t type_of(weir_dtype t)
{
    return t == WEIR_F64 ? CUDA_R_64F : t == WEIR_F16 ? CUDA_R_16F
         : t == WEIR_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static weir_status make_matrix(const weir_lt *lt, const weir_call *c, weir_dtype t,
                               const weir_lt_matrix *m, cublasLtMatrixLayout_t *out)
{
    const weir_cuda_lib_blas *const lib = lt->blas->lib;
    const int32_t                   batch = (int32_t)lt->shape.batch;
    TRY(c, lib, cublasLtMatrixLayoutCreate, out, type_of(t), (uint64_t)m->rows, (uint64_t)m->cols,
        m->ld);
    if (batch == 1)
        return WEIR_OK;
    TRY(c, lib, cublasLtMatrixLayoutSetAttribute, *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
        sizeof batch);
    TRY(c, lib, cublasLtMatrixLayoutSetAttribute, *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
        &m->step, sizeof m->step);
    return WEIR_OK;
}

static weir_status make_desc(weir_lt *lt, const weir_call *c, weir_dtype t, bool tf32)
{
    const weir_cuda_lib_blas *const lib = lt->blas->lib;
    const bool                      wide = t == WEIR_F64;
    const cublasComputeType_t       compute = wide   ? CUBLAS_COMPUTE_64F
                                            : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                   : CUBLAS_COMPUTE_32F;
    const int32_t ta = lt->shape.ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t tb = lt->shape.tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    TRY(c, lib, cublasLtMatmulDescCreate, &lt->desc, compute, wide ? CUDA_R_64F : CUDA_R_32F);
    TRY(c, lib, cublasLtMatmulDescSetAttribute, lt->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta,
        sizeof ta);
    TRY(c, lib, cublasLtMatmulDescSetAttribute, lt->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb,
        sizeof tb);
    return WEIR_OK;
}

/* The heuristics take the alignment of this address into account. */
static weir_status set_bias(const weir_lt *lt, const weir_call *c, const void *bias)
{
    TRY(c, lt->blas->lib, cublasLtMatmulDescSetAttribute, lt->desc,
        CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    return WEIR_OK;
}

static weir_status set_epilogue(const weir_lt *lt, const weir_call *c, bool bias)
{
    const uint32_t epilogue = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    TRY(c, lt->blas->lib, cublasLtMatmulDescSetAttribute, lt->desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
        &epilogue, sizeof epilogue);
    return set_bias(lt, c, bias ? (const void *)(uintptr_t)WEIR_SEEN_ALIGN : NULL);
}

/* ---- the algorithm ---- */

static weir_status set_preference(const weir_lt *lt, const weir_call *c,
                                  cublasLtMatmulPreference_t pref)
{
    const weir_cuda_lib_blas *const lib = lt->blas->lib;
    const uint64_t                  limit = lt->blas->limit;
    const uint32_t                  schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t align[] = {(uint32_t)lt->align_a, (uint32_t)lt->align_b, (uint32_t)lt->align_c,
                              (uint32_t)lt->align_c};
    static const cublasLtMatmulPreferenceAttributes_t of[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    TRY(c, lib, cublasLtMatmulPreferenceSetAttribute, pref,
        CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit);
    TRY(c, lib, cublasLtMatmulPreferenceSetAttribute, pref,
        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    for (int i = 0; i < 4; i++)
        TRY(c, lib, cublasLtMatmulPreferenceSetAttribute, pref, of[i], &align[i], sizeof align[i]);
    return WEIR_OK;
}

/* True if the algorithm's sums have one order and its workspace is within the limit. */
static bool acceptable(const weir_lt *lt, const cublasLtMatmulHeuristicResult_t *r)
{
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    size_t   written = 0;
    return r->state == CUBLAS_STATUS_SUCCESS && r->workspaceSize <= lt->blas->limit &&
           lt->blas->lib->cublasLtMatmulAlgoConfigGetAttribute(
               &r->algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof scheme, &written) ==
               CUBLAS_STATUS_SUCCESS &&
           (scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
            scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
}

/* Finds an acceptable algorithm; false without one. */
static bool find(weir_lt *lt, cublasLtMatmulPreference_t pref)
{
    cublasLtMatmulHeuristicResult_t found[TRIED];
    int                             n = 0;
    if (lt->blas->lib->cublasLtMatmulAlgoGetHeuristic(lt->blas->handle, lt->desc, lt->a, lt->b,
                                                      lt->c, lt->c, pref, TRIED, found, &n) !=
        CUBLAS_STATUS_SUCCESS)
        return false;
    for (int i = 0; i < n; i++)
        if (acceptable(lt, &found[i])) {
            lt->algo = found[i].algo;
            lt->work = found[i].workspaceSize;
            return true;
        }
    return false;
}

static weir_status search(weir_lt *lt, const weir_call *c, const weir_product *p,
                          cublasLtMatmulPreference_t pref, bool *found)
{
    WEIR_TRY(set_preference(lt, c, pref));
    WEIR_TRY(set_epilogue(lt, c, p->bias));
    *found = find(lt, pref);
    if (*found || !p->bias || p->add)
        return WEIR_OK;
    WEIR_TRY(set_epilogue(lt, c, false));
    *found = lt->bias_in_c = find(lt, pref);
    return WEIR_OK;
}

static weir_status describe(weir_lt *lt, const weir_call *c, const weir_product *p, bool tf32,
                            bool *found)
{
    cublasLtMatmulPreference_t      pref;
    const weir_cuda_lib_blas *const lib = lt->blas->lib;
    WEIR_TRY(make_desc(lt, c, p->dtype, tf32));
    WEIR_TRY(make_matrix(lt, c, p->dtype, &lt->shape.a, &lt->a));
    WEIR_TRY(make_matrix(lt, c, p->dtype, &lt->shape.b, &lt->b));
    WEIR_TRY(make_matrix(lt, c, p->dtype, &lt->shape.c, &lt->c));
    TRY(c, lib, cublasLtMatmulPreferenceCreate, &pref);
    const weir_status s = search(lt, c, p, pref, found);
    (void)lib->cublasLtMatmulPreferenceDestroy(pref);
    return s;
}

static weir_status plan(weir_cuda_blas *b, const weir_call *c, const weir_product *p, bool tf32,
                        weir_lt **out)
{
    bool           found = false;
    weir_lt *const lt = weir_mem_zalloc(1, sizeof *lt);
    if (!lt)
        return WEIR_ERR_NOMEM;
    lt->blas = b;
    lt->shape = weir_product_lt(p);
    lt->align_a = weir_product_align(p, p->ldb, p->step_b, WEIR_SEEN_ALIGN);
    lt->align_b = weir_product_align(p, p->lda, p->step_a, WEIR_SEEN_ALIGN);
    lt->align_c = weir_product_align(p, p->ldc, p->step_c, WEIR_SEEN_ALIGN);
    lt->impl = tf32 ? "cublaslt tf32" : "cublaslt";
    const weir_status s = describe(lt, c, p, tf32, &found);
    if (s != WEIR_OK || !found)
        weir_lt_free(lt);
    else
        *out = lt;
    return s;
}

/* ---- the functions of blas.h ---- */

weir_status weir_lt_plan(weir_device *d, const weir_call *c, const weir_product *p, bool must,
                         weir_lt **out)
{
    const weir_lt_shape       s = weir_product_lt(p);
    const weir_cuda_lib_blas *lib;
    weir_cuda_blas           *b;
    *out = NULL;
    if (!weir_lt_takes(&s))
        return WEIR_OK;
    WEIR_TRY(blas_of(d, c, &b));
    if (!b->lib)
        return must ? weir_cuda_open_blas(&lib) : WEIR_OK;
    return plan(b, c, p, p->dtype == WEIR_F32 && weir_cuda_context_of(d)->tf32, out);
}

void weir_lt_free(weir_lt *lt)
{
    if (!lt)
        return;
    const weir_cuda_lib_blas *const lib = lt->blas->lib;
    cublasLtMatrixLayout_t const    matrix[] = {lt->a, lt->b, lt->c};
    for (int i = 0; i < 3; i++)
        if (matrix[i])
            (void)lib->cublasLtMatrixLayoutDestroy(matrix[i]);
    if (lt->desc)
        (void)lib->cublasLtMatmulDescDestroy(lt->desc);
    weir_mem_free(lt);
}

size_t weir_lt_work(const weir_lt *lt)
{
    return lt->work;
}

const char *weir_lt_impl(const weir_lt *lt)
{
    return lt->impl;
}

bool weir_lt_adds_to_bias(const weir_lt *lt)
{
    return lt->bias_in_c;
}

static bool aligned(const void *p, int64_t align)
{
    return (uintptr_t)p % (uintptr_t)align == 0;
}

bool weir_lt_fits(const weir_lt *lt, const weir_operands *o)
{
    return aligned(o->a, lt->align_b) && aligned(o->b, lt->align_a) &&
           aligned(o->to, lt->align_c) && aligned(o->add, lt->align_c) &&
           (lt->bias_in_c || aligned(o->bias, WEIR_SEEN_ALIGN));
}

/* The address of a matrix of the batch: `base` plus elements. */
static const void *moved(const void *base, const weir_product *p, int64_t elements)
{
    return (const char *)base + elements * (int64_t)weir_dtype_size(p->dtype);
}

/* Runs one of the calls that cover the batch. */
static weir_status call(const weir_kargs *k, const weir_lt *lt, const weir_product *p,
                        const weir_operands *o, int64_t a, int64_t b, int64_t c)
{
    static const float  zero_f32 = 0, one_f32 = 1;
    static const double zero_f64 = 0, one_f64 = 1;
    const bool          wide = p->dtype == WEIR_F64, add = p->add || lt->bias_in_c;
    const void *const   one = wide ? (const void *)&one_f64 : (const void *)&one_f32;
    const void *const   zero = wide ? (const void *)&zero_f64 : (const void *)&zero_f32;
    void *const         to = (char *)o->to + c * (int64_t)weir_dtype_size(p->dtype);
    TRY(k->call, lt->blas->lib, cublasLtMatmul, lt->blas->handle, lt->desc, one,
        moved(o->b, p, b), lt->a, moved(o->a, p, a), lt->b, add ? one : zero,
        p->add ? moved(o->add, p, c) : to, lt->c, to, lt->c, &lt->algo, o->work, lt->work,
        weir_cuda_stream(k));
    return WEIR_OK;
}

weir_status weir_lt_run(const weir_kargs *k, const weir_lt *lt, const weir_product *p,
                        const weir_operands *o)
{
    weir_product others = *p;       /* the axes over which calls are repeated */
    others.axes = 0;
    for (int i = 0; i < p->axes; i++)
        if (i != lt->shape.along)
            weir_product_move(&others, others.axes++, i);
    if (p->bias && !lt->bias_in_c)
        WEIR_TRY(set_bias(lt, k->call, o->bias));
    for (int64_t i = 0; i < lt->shape.calls; i++) {
        int64_t a, b, c;
        weir_product_at(&others, i, &a, &b, &c);
        WEIR_TRY(call(k, lt, p, o, a, b, c));
    }
    return WEIR_OK;
}
