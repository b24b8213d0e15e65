/* gemm.h - one matrix product, planned once and run many times: C = op(A) op(B), or C += op(A)
 * op(B).
 *
 * All matrices are row-major with a leading dimension. op(A) is m x k, op(B) is k x n. A plan
 * names the implementation (our own or OpenBLAS) and its scratch; running it decides and
 * allocates nothing.
 *
 * Bits: each element of C is a sum over k in an order that depends on shapes only. Own kernels
 * round multiply and add at once where the machine has FMA (avx2 and avx512 agree to the bit),
 * twice in the baseline build. */
#ifndef WEIR_DEVICE_CPU_GEMM_GEMM_H
#define WEIR_DEVICE_CPU_GEMM_GEMM_H

#include "core/thread.h"
#include "device/cpu/gemm/gemm_shape.h"
#include "weir/device.h"

/* The register-tiled kernels of one element type and one instruction set, made by gemm_isa.c.
 * "Strip": nr columns of op(B), k x nr, row after row. "Panel": up to mr rows of op(A), column
 * after column. Strips are padded with zeros to nr columns, panels hold exactly their rows. */
typedef struct weir_gemm_kernel {
    int mr, nr;
    /* C[rows][cols] (+)= A B for rows <= mr, cols <= nr. Element (i,p) of A is a[i*rs + p*cs];
     * row p of B is b + p*ldb, nr readable elements. add: C keeps what it holds. */
    void (*direct)(int rows, int cols, int64_t k, const void *a, int64_t rs, int64_t cs,
                   const void *b, int64_t ldb, void *c, int64_t ldc, bool add);
    /* The same for a packed panel (rs = 1, cs = rows) and a packed strip (ldb = nr). */
    void (*packed)(int rows, int cols, int64_t k, const void *a, const void *b, void *c,
                   int64_t ldc, bool add);
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
    size_t      size, work; /* bytes of an element, of scratch */
    const char *impl;       /* static or the library's: "own avx512", "openblas SkylakeX" */
    int64_t     mb, nb, kb; /* own: rows, columns, depth packed at a time */
    int64_t     mr;         /* rows of a panel */
    bool        serial;     /* own: too little for a second worker */
    int64_t     tm, tn;     /* a task's tile: panels x strips */
} weir_gemm;

struct weir_openblas;

/* Reads the wish and loads OpenBLAS unless the wish rules it out; *blas may come back NULL. */
weir_status weir_gemm_libraries(weir_device *d, const char *variable, weir_gemm_want *want,
                                const struct weir_openblas **blas);

/* Plans a product. blas is NULL where OpenBLAS is not to be used. */
void weir_gemm_plan(weir_gemm *g, const weir_gemm_shape *shape, const struct weir_openblas *blas,
                    weir_gemm_want want);

/* Plans a product by our own code that one task does alone: run it with `work` of the task's own
 * and no threads. */
void weir_gemm_plan_alone(weir_gemm *g, const weir_gemm_shape *shape);

/* Whether oneDNN should be asked for this product (f32) before the plan is used. */
bool weir_gemm_asks_onednn(const weir_gemm *g, weir_gemm_want want);

/* Each of the m rows of c becomes the bias. */
void weir_gemm_bias(void *c, const void *bias, int64_t m, size_t row_bytes, weir_threads *t);

/* Runs it. work: g->work bytes, 64-byte aligned, may be NULL if that is 0. */
static inline void weir_gemm_run(const weir_gemm *g, const void *a, const void *b, void *c,
                                 bool add, void *work, weir_threads *t)
{
    g->run(g, a, b, c, add, work, t);
}

#endif
