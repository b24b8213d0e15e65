/* blas.cpp - an emulated cuBLASLt: the functions that the plugin calls, on host memory, queued.
 *
 * It checks everything: an argument that the real library would refuse, or read beyond, ends the
 * program with a sentence. Its heuristics return, best first, an unsupported algorithm, split sums
 * (added in place, then in a separate step) and plain sums, each if the preferences allow it. It
 * has no bias for f64. Every descriptor must be destroyed before the last handle. */
#include <cublasLt.h>

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "core/half.h"
#include "work.h"

#define API __attribute__((visibility("default")))

namespace {

/* The kind of a struct, in its first member. */
enum magic : uint64_t {
    HANDLE = 0x4841,
    DESC = 0x4445,
    LAYOUT = 0x4c41,
    PREF = 0x5052,
    ALGO = 0x414c
};
enum { WORK_ALIGN = 256, SPLIT_TERMS = 512, SPLITS = 4 };

struct handle {
    uint64_t is;
    int      card;
};

struct desc {
    uint64_t            is;
    cublasComputeType_t compute;
    cudaDataType_t      scale;
    int32_t             ta, tb;
    uint32_t            epilogue;
    const void         *bias;
};

struct layout {
    uint64_t       is;
    cudaDataType_t type;
    int32_t        batch;
    int64_t        rows, cols, ld, step;
};

struct pref {
    uint64_t is, limit;
    uint32_t schemes, align[4];
};

/* Fits a cublasLtMatmulAlgo_t; sizes: a number of the shapes it was made for. */
struct algo {
    uint64_t is, work, sizes;
    uint32_t scheme, splits;
    uint32_t align[4];
};
static_assert(sizeof(algo) <= sizeof(cublasLtMatmulAlgo_t), "algo");

struct problem {
    desc        d;
    layout      a, b, c, to;
    algo        how;
    double      alpha, beta;
    const void *at_a, *at_b, *at_c;
    void       *at_to, *work;
};

__attribute__((format(printf, 1, 2), noreturn)) void wrong(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "emulated cuBLASLt: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    abort();
}

/* Handles, and descriptors, that have not been destroyed. */
std::atomic<int> handles, described;

/* The struct behind a library handle. */
template <class T> T *known(const void *p, uint64_t is, const char *what)
{
    T *const t = (T *)p;
    if (!t || t->is != is)
        wrong("%s is none, or was destroyed", what);
    return t;
}

void set(void *to, size_t size, const void *from, size_t n, const char *what)
{
    if (!from || n != size)
        wrong("%s takes %zu bytes, %zu were given", what, size, n);
    memcpy(to, from, size);
}

size_t size_of(cudaDataType_t t)
{
    switch (t) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    case CUDA_R_32F:
        return 4;
    case CUDA_R_64F:
        return 8;
    default:
        wrong("no such type of matrices: %d", (int)t);
    }
}

double load(const void *p, int64_t i, cudaDataType_t t)
{
    switch (t) {
    case CUDA_R_16F:
        return weir_from_f16(((const uint16_t *)p)[i]);
    case CUDA_R_16BF:
        return weir_from_bf16(((const uint16_t *)p)[i]);
    case CUDA_R_32F:
        return ((const float *)p)[i];
    default:
        return ((const double *)p)[i];
    }
}

void store(void *p, int64_t i, cudaDataType_t t, double v)
{
    switch (t) {
    case CUDA_R_16F:
        ((uint16_t *)p)[i] = weir_to_f16((float)v);
        break;
    case CUDA_R_16BF:
        ((uint16_t *)p)[i] = weir_to_bf16((float)v);
        break;
    case CUDA_R_32F:
        ((float *)p)[i] = (float)v;
        break;
    default:
        ((double *)p)[i] = v;
    }
}

/* ---- computing ---- */

/* An f32 as TF32 units read it: 10 bits of fraction. */
double seen(const problem *p, double v)
{
    uint32_t bits;
    float    f = (float)v;
    if (p->d.compute != CUBLAS_COMPUTE_32F_FAST_TF32)
        return v;
    memcpy(&bits, &f, sizeof bits);
    bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Element (i, j) of op(m) in product `of`. */
double element(const problem *p, const layout *m, const void *at, bool turned, int64_t of,
               int64_t i, int64_t j)
{
    const int64_t row = turned ? j : i, col = turned ? i : j;
    return seen(p, load(at, of * m->step + col * m->ld + row, m->type));
}

double sum_of(const problem *p, int64_t of, int64_t i, int64_t j, int64_t from, int64_t to)
{
    const bool wide = p->d.compute == CUBLAS_COMPUTE_64F;
    double     sum = 0;
    for (int64_t k = from; k < to; k++) {
        const double a = element(p, &p->a, p->at_a, p->d.ta == CUBLAS_OP_T, of, i, k);
        const double b = element(p, &p->b, p->at_b, p->d.tb == CUBLAS_OP_T, of, k, j);
        sum = wide ? fma(a, b, sum) : (double)fmaf((float)a, (float)b, (float)sum);
    }
    return sum;
}

int64_t depth(const problem *p)
{
    return p->d.ta == CUBLAS_OP_T ? p->a.rows : p->a.cols;
}

void finish(const problem *p, int64_t of, int64_t i, int64_t j, double sum)
{
    double v = p->alpha * sum;
    if (p->beta != 0)
        v += p->beta * load(p->at_c, of * p->c.step + j * p->c.ld + i, p->c.type);
    if (p->d.epilogue == CUBLASLT_EPILOGUE_BIAS)
        v = p->d.compute == CUBLAS_COMPUTE_64F
                ? v + load(p->d.bias, i, p->to.type)
                : (double)((float)v + (float)load(p->d.bias, i, p->to.type));
    store(p->at_to, of * p->to.step + j * p->to.ld + i, p->to.type, v);
}

/* One result with split sums, which pass through the workspace and are then added. */
double split_sum(const problem *p, int64_t of, int64_t i, int64_t j)
{
    const int64_t k = depth(p), splits = p->how.splits, each = (k + splits - 1) / splits;
    const int64_t at = ((of * p->to.cols + j) * p->to.rows + i) * splits;
    double        sum = 0;

    if (splits <= 1)
        return sum_of(p, of, i, j, 0, k);
    for (int64_t s = 0; s < splits; s++) {
        const int64_t from = s * each, to = from + each < k ? from + each : k;
        store(p->work, at + s, p->d.scale, sum_of(p, of, i, j, from, to));
    }
    for (int64_t s = 0; s < splits; s++)
        sum = p->d.compute == CUBLAS_COMPUTE_64F
                  ? sum + load(p->work, at + s, p->d.scale)
                  : (double)((float)sum + (float)load(p->work, at + s, p->d.scale));
    return sum;
}

void run(const void *arguments)
{
    const problem *const p = (const problem *)arguments;
    for (int64_t of = 0; of < p->to.batch; of++)
        for (int64_t j = 0; j < p->to.cols; j++)
            for (int64_t i = 0; i < p->to.rows; i++)
                finish(p, of, i, j, split_sum(p, of, i, j));
}

/* ---- checks ---- */

void check_layout(const layout *m, const char *what)
{
    if (m->rows <= 0 || m->cols <= 0 || m->rows > INT32_MAX || m->cols > INT32_MAX)
        wrong("%s is %lld x %lld", what, (long long)m->rows, (long long)m->cols);
    if (m->ld < m->rows)
        wrong("columns of %s overlap: %lld rows, %lld apart", what, (long long)m->rows,
              (long long)m->ld);
    if (m->batch < 1)
        wrong("a batch of %d for %s", m->batch, what);
}

/* Checks the shapes; returns a number that identifies all sizes. */
uint64_t check_shapes(const desc *d, const layout *a, const layout *b, const layout *c,
                      const layout *to)
{
    const int64_t m = d->ta ? a->cols : a->rows, k = d->ta ? a->rows : a->cols;
    const int64_t k2 = d->tb ? b->cols : b->rows, n = d->tb ? b->rows : b->cols;
    check_layout(a, "A");
    check_layout(b, "B");
    check_layout(c, "C");
    check_layout(to, "D");
    if (k != k2 || to->rows != m || to->cols != n || c->rows != m || c->cols != n)
        wrong("sizes: op(A) %lld x %lld, op(B) %lld x %lld, D %lld x %lld", (long long)m,
              (long long)k, (long long)k2, (long long)n, (long long)to->rows, (long long)to->cols);
    if (a->batch != b->batch || a->batch != c->batch || a->batch != to->batch)
        wrong("batches of %d, %d, %d and %d", a->batch, b->batch, c->batch, to->batch);
    if (to->batch > 1 && to->step < to->ld * (to->cols - 1) + to->rows)
        wrong("results of the batch overlap");
    if (a->type != b->type || a->type != c->type || a->type != to->type)
        wrong("types %d, %d, %d, %d", a->type, b->type, c->type, to->type);
    const bool wide = a->type == CUDA_R_64F;
    if (wide != (d->compute == CUBLAS_COMPUTE_64F) || wide != (d->scale == CUDA_R_64F))
        wrong("matrices of type %d computed in %d", a->type, d->compute);
    if (d->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a->type != CUDA_R_32F)
        wrong("TF32 is for f32");
    const layout *const all[] = {a, b, c, to};
    uint64_t            sizes = 1469598103934665603u;
    for (int i = 0; i < 4; i++) {
        const int64_t v[] = {all[i]->rows, all[i]->cols, all[i]->ld, all[i]->batch, all[i]->step,
                             all[i]->type, d->ta, d->tb, d->epilogue, d->compute};
        for (int64_t x : v)
            sizes = (sizes ^ (uint64_t)x) * 1099511628211u;
    }
    return sizes;
}

uint32_t align_of(const void *p)
{
    uint32_t align = 256;
    while ((uintptr_t)p % align != 0)
        align /= 2;
    return align;
}

/* The alignment that an address and a layout permit. */
uint32_t align_of(const layout *m, uint32_t at)
{
    const int64_t size = (int64_t)size_of(m->type), ld = m->ld * size, step = m->step * size;
    while (at > 1 && (ld % at != 0 || (m->batch > 1 && step % at != 0)))
        at /= 2;
    return at;
}

void check_address(const void *p, uint32_t align, size_t size, const char *what)
{
    if (!p)
        wrong("%s is NULL", what);
    if (align_of(p) < align || align_of(p) < size)
        wrong("%s is aligned to %u bytes, the algorithm wants %u", what, align_of(p), align);
}

}

/* ---- the library's functions ---- */

extern "C" {

API cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    EMULATE_CALL(cublasStatus_t);
    *out = (cublasLtHandle_t) new handle{HANDLE, emulate_current_in_plugin()};
    handles++;
    emulate_hold_in_plugin(1);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    handle *const p = known<handle>(h, HANDLE, "the handle");
    p->is = 0;
    delete p;
    if (--handles == 0 && described != 0)
        wrong("%d descriptors outlive the last handle", described.load());
    emulate_hold_in_plugin(-1);
    EMULATE_CALL(cublasStatus_t);           /* it is gone all the same */
    return CUBLAS_STATUS_SUCCESS;
}

API const char *cublasLtGetStatusName(cublasStatus_t)
{
    return "CUBLAS_STATUS_EMULATED";
}

API const char *cublasLtGetStatusString(cublasStatus_t)
{
    return "emulated";
}

API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                            cudaDataType_t scale)
{
    EMULATE_CALL(cublasStatus_t);
    *out = (cublasLtMatmulDesc_t) new desc{DESC, compute, scale, 0, 0, CUBLASLT_EPILOGUE_DEFAULT,
                                           NULL};
    described++;
    emulate_hold_in_plugin(1);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    desc *const p = known<desc>(d, DESC, "the descriptor");
    p->is = 0;
    delete p;
    described--;
    emulate_hold_in_plugin(-1);
    EMULATE_CALL(cublasStatus_t);           /* it is gone all the same */
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                                  cublasLtMatmulDescAttributes_t what,
                                                  const void *from, size_t n)
{
    EMULATE_CALL(cublasStatus_t);
    desc *const p = known<desc>(d, DESC, "the descriptor");
    switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        set(&p->ta, sizeof p->ta, from, n, "TRANSA");
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        set(&p->tb, sizeof p->tb, from, n, "TRANSB");
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        set(&p->epilogue, sizeof p->epilogue, from, n, "EPILOGUE");
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        set(&p->bias, sizeof p->bias, from, n, "BIAS_POINTER");
        break;
    default:
        wrong("attribute %d of a descriptor", (int)what);
    }
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                              uint64_t rows, uint64_t cols, int64_t ld)
{
    EMULATE_CALL(cublasStatus_t);
    (void)size_of(type);
    *out = (cublasLtMatrixLayout_t) new layout{LAYOUT,        type, 1, (int64_t)rows,
                                               (int64_t)cols, ld,   0};
    described++;
    emulate_hold_in_plugin(1);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t m)
{
    layout *const p = known<layout>(m, LAYOUT, "the layout");
    p->is = 0;
    delete p;
    described--;
    emulate_hold_in_plugin(-1);
    EMULATE_CALL(cublasStatus_t);           /* it is gone all the same */
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t m,
                                                    cublasLtMatrixLayoutAttribute_t what,
                                                    const void *from, size_t n)
{
    EMULATE_CALL(cublasStatus_t);
    layout *const p = known<layout>(m, LAYOUT, "the layout");
    if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        set(&p->batch, sizeof p->batch, from, n, "BATCH_COUNT");
    else if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        set(&p->step, sizeof p->step, from, n, "STRIDED_BATCH_OFFSET");
    else
        wrong("attribute %d of a layout", (int)what);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    EMULATE_CALL(cublasStatus_t);
    *out = (cublasLtMatmulPreference_t) new pref{PREF, 0, CUBLASLT_REDUCTION_SCHEME_MASK,
                                                 {256, 256, 256, 256}};
    described++;
    emulate_hold_in_plugin(1);
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t f)
{
    pref *const p = known<pref>(f, PREF, "the preference");
    p->is = 0;
    delete p;
    described--;
    emulate_hold_in_plugin(-1);
    EMULATE_CALL(cublasStatus_t);           /* it is gone all the same */
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t f,
                                                        cublasLtMatmulPreferenceAttributes_t what,
                                                        const void *from, size_t n)
{
    EMULATE_CALL(cublasStatus_t);
    pref *const p = known<pref>(f, PREF, "the preference");
    switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        set(&p->limit, sizeof p->limit, from, n, "MAX_WORKSPACE_BYTES");
        break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        set(&p->schemes, sizeof p->schemes, from, n, "REDUCTION_SCHEME_MASK");
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        set(&p->align[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], sizeof *p->align, from, n,
            "MIN_ALIGNMENT");
        break;
    default:
        wrong("attribute %d of a preference", (int)what);
    }
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to, cublasLtMatmulPreference_t f, int most,
    cublasLtMatmulHeuristicResult_t *out, int *n)
{
    EMULATE_CALL(cublasStatus_t);
    known<handle>(h, HANDLE, "the handle");
    const desc *const   of = known<desc>(d, DESC, "the descriptor");
    const pref *const   p = known<pref>(f, PREF, "the preference");
    const layout *const m[] = {known<layout>(a, LAYOUT, "A"), known<layout>(b, LAYOUT, "B"),
                               known<layout>(c, LAYOUT, "C"), known<layout>(to, LAYOUT, "D")};
    const uint64_t      sizes = check_shapes(of, m[0], m[1], m[2], m[3]);
    const int64_t       k = of->ta ? m[0]->rows : m[0]->cols;
    if (most <= 0 || !out || !n)
        wrong("room for %d algorithms", most);
    *n = 0;
    if (of->epilogue != CUBLASLT_EPILOGUE_DEFAULT && of->epilogue != CUBLASLT_EPILOGUE_BIAS)
        wrong("epilogue %u", of->epilogue);
    if (of->epilogue == CUBLASLT_EPILOGUE_BIAS && m[0]->type == CUDA_R_64F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint64_t work = (uint64_t)(m[3]->rows * m[3]->cols * m[3]->batch) * SPLITS *
                          (m[0]->type == CUDA_R_64F ? 8 : 4);
    const struct {
        cublasStatus_t state;
        uint32_t       scheme, splits;
    } kind[] = {
        {CUBLAS_STATUS_NOT_SUPPORTED, CUBLASLT_REDUCTION_SCHEME_NONE, 1},
        {CUBLAS_STATUS_SUCCESS, CUBLASLT_REDUCTION_SCHEME_INPLACE, SPLITS},
        {CUBLAS_STATUS_SUCCESS, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, SPLITS},
        {CUBLAS_STATUS_SUCCESS, CUBLASLT_REDUCTION_SCHEME_NONE, 1},
    };
    for (size_t i = 0; i < sizeof kind / sizeof *kind && *n < most; i++) {
        algo x = {ALGO, kind[i].splits > 1 ? work : 0, sizes, kind[i].scheme, kind[i].splits, {}};
        if (kind[i].splits > 1 &&
            (!(p->schemes & kind[i].scheme) || k < SPLIT_TERMS || work > p->limit))
            continue;
        for (int j = 0; j < 4; j++)
            x.align[j] = align_of(m[j], p->align[j] < 16 ? p->align[j] : 16);
        cublasLtMatmulHeuristicResult_t *const r = &out[(*n)++];
        memset(r, 0, sizeof *r);
        memcpy(&r->algo, &x, sizeof x);
        r->workspaceSize = x.work;
        r->state = kind[i].state;
    }
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *x,
                                                        cublasLtMatmulAlgoConfigAttributes_t what,
                                                        void *to, size_t n, size_t *written)
{
    EMULATE_CALL(cublasStatus_t);
    algo a;
    memcpy(&a, x, sizeof a);
    if (a.is != ALGO || what != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || n != sizeof a.scheme ||
        !written)
        wrong("attribute %d of an algorithm", (int)what);
    memcpy(to, &a.scheme, n);
    *written = n;
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha,
                                  const void *A, cublasLtMatrixLayout_t a, const void *B,
                                  cublasLtMatrixLayout_t b, const void *beta, const void *C,
                                  cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t to,
                                  const cublasLtMatmulAlgo_t *how, void *work, size_t work_bytes,
                                  cudaStream_t stream)
{
    EMULATE_CALL(cublasStatus_t);
    if (known<handle>(h, HANDLE, "the handle")->card != emulate_current_in_plugin())
        wrong("the handle was made on another card than the current one");
    problem p = {*known<desc>(d, DESC, "the descriptor"), *known<layout>(a, LAYOUT, "A"),
                 *known<layout>(b, LAYOUT, "B"), *known<layout>(c, LAYOUT, "C"),
                 *known<layout>(to, LAYOUT, "D"), {}, 0, 0, A, B, C, D, work};
    if (!how || !alpha || !beta)
        wrong("no algorithm, alpha or beta");
    memcpy(&p.how, how, sizeof p.how);
    if (p.how.is != ALGO || p.how.sizes != check_shapes(&p.d, &p.a, &p.b, &p.c, &p.to))
        wrong("the algorithm was made for another product");
    p.alpha = load(alpha, 0, p.d.scale);
    p.beta = load(beta, 0, p.d.scale);
    const size_t size = size_of(p.a.type);
    check_address(A, p.how.align[0], size, "A");
    check_address(B, p.how.align[1], size, "B");
    if (p.beta != 0)
        check_address(C, p.how.align[2], size, "C");
    check_address(D, p.how.align[3], size, "D");
    if (p.d.epilogue == CUBLASLT_EPILOGUE_BIAS)
        check_address(p.d.bias, (uint32_t)size, size, "the bias");
    if (C == D && memcmp(&p.c, &p.to, sizeof p.c) != 0)
        wrong("C is D, but laid out in another way");
    if (work_bytes < p.how.work || (p.how.work > 0 && (!work || align_of(work) < WORK_ALIGN)))
        wrong("a workspace of %zu bytes at %p, the algorithm wants %llu", work_bytes, work,
              (unsigned long long)p.how.work);
    return emulate_work_in_plugin(stream, run, &p, sizeof p) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}

}
