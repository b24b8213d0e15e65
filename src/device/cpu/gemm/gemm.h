/* gemm.h - one matrix product, planned once and run many times: C = op(A) op(B), or C += op(A)
 * op(B).
 *
 * All matrices are row-major with a leading dimension. op(A) is m x k, op(B) is k x n. A plan
 * selects the implementation (our own or OpenBLAS) and its scratch size; a run decides and
 * allocates nothing.
 *
 * Bits: each element of C is a sum over k in an order that depends on shapes only. Our own kernels
 * use fused multiply-add where the machine has it (avx2 and avx512 agree to the bit); the baseline
 * build rounds twice. */
#ifndef WEIR_DEVICE_CPU_GEMM_GEMM_H
#define WEIR_DEVICE_CPU_GEMM_GEMM_H

#include "core/thread.h"
#include "device/cpu/gemm/gemm_shape.h"
#include "weir/device.h"

/* The register-tiled kernels of one element type and instruction set, built from gemm_isa.c. Strip:
 * nr columns of op(B), k x nr, row by row, padded with zeros to nr columns. Panel: up to mr rows of
 * op(A), column by column, without padding. */
typedef struct weir_gemm_kernel {
    int mr, nr;
    /* C[rows][cols] (+)= A B for rows <= mr, cols <= nr. Element (i,p) of A is a[i*rs + p*cs];
     * row p of B is b + p*ldb, nr readable elements. add: adds to C instead of overwriting it. */
    void (*direct)(int rows, int cols, int64_t k, const void *a, int64_t rs, int64_t cs,
                   const void *b, int64_t ldb, void *c, int64_t ldc, bool add);
    /* The same for a packed panel (rs = 1, cs = rows) and a packed strip (ldb = nr). bias: cols
     * elements that are added to each row last; or NULL. */
    void (*packed)(int rows, int cols, int64_t k, const void *a, const void *b, void *c,
                   int64_t ldc, bool add, const void *bias);
    /* The same for rows of A as stored (rs = lda, cs = 1) and a packed strip. */
    void (*rows)(int rows, int cols, int64_t k, const void *a, int64_t lda, const void *b, void *c,
                 int64_t ldc, bool add, const void *bias);
    /* dst[p*width + j] = src(j, p), j < count, p < k, zeros for count <= j < width; src(j, p)
     * is src[j*ld + p] if along (k is contiguous), else src[p*ld + j]. Packs panels and strips
     * alike. */
    void (*pack)(void *dst, int width, int count, int64_t k, const void *src, int64_t ld,
                 bool along);
} weir_gemm_kernel;

typedef struct weir_gemm_kernels {
    weir_gemm_kernel f32, f64;
} weir_gemm_kernels;

extern const weir_gemm_kernels weir_gemm_kernels_base, weir_gemm_kernels_avx2,
    weir_gemm_kernels_avx512;

typedef struct weir_gemm {
    weir_gemm_shape shape;
    void (*run)(const struct weir_gemm *g, const void *a, const void *b, void *c, bool add,
                void *work, weir_threads *t);
    const void *with;       /* weir_gemm_kernel or weir_openblas */
    size_t      size, work; /* bytes of an element; bytes of scratch */
    const char *impl;       /* static, or owned by the library: "own avx512", "openblas SkylakeX" */
    int64_t     mb, nb, kb; /* own: rows, columns and depth packed at a time */
    int64_t     mr;         /* rows of a panel */
    bool        panels;     /* own: panels of A are packed; else its rows are read in place */
    bool        serial;     /* own: too small for a second worker */
    int64_t     tm, tn;     /* a task's tile: panels x strips */
} weir_gemm;

struct weir_openblas;

/* Reads the requested library from the environment and loads OpenBLAS unless another is requested;
 * *blas may be NULL afterwards. */
weir_status weir_gemm_libraries(weir_device *d, const char *variable, weir_gemm_want *want,
                                const struct weir_openblas **blas);

/* Plans a product. blas: NULL if OpenBLAS must not be used. */
void weir_gemm_plan(weir_gemm *g, const weir_gemm_shape *shape, const struct weir_openblas *blas,
                    weir_gemm_want want);

/* Plans a product that one task computes alone with our own code: run it with the task's own `work`
 * and without threads. */
void weir_gemm_plan_alone(weir_gemm *g, const weir_gemm_shape *shape);

/* True if oneDNN should be asked for this f32 product before the plan is used. */
bool weir_gemm_asks_onednn(const weir_gemm *g, weir_gemm_want want);

/* Runs the plan and adds the bias, n elements, to each row of c, last. */
void weir_gemm_run_bias(const weir_gemm *g, const void *a, const void *b, const void *bias, void *c,
                        void *work, weir_threads *t);

/* Sets each of the m rows of c to the bias. */
void weir_gemm_bias(void *c, const void *bias, int64_t m, size_t row_bytes, weir_threads *t);

/* Gives the plan's library the threads; to be called before runs with `t` by one call of a kernel.
 * Fails with ERR_NOMEM if they cannot start. */
weir_status weir_gemm_ready(const weir_gemm *g, const weir_threads *t);

/* Runs the plan. work: g->work bytes, 64-byte aligned; may be NULL if that is 0. */
static inline void weir_gemm_run(const weir_gemm *g, const void *a, const void *b, void *c,
                                 bool add, void *work, weir_threads *t)
{
    g->run(g, a, b, c, add, work, t);
}

#endif
