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

#include "device/cpu/gemm/gemm_plan.h"
#include "weir/device.h"

struct weir_openblas;

/* Reads the requested library from the environment and loads OpenBLAS unless another is requested;
 * *blas may be NULL afterwards. */
weir_status weir_gemm_libraries(weir_device *d, const char *variable, weir_gemm_want *want,
                                const struct weir_openblas **blas);

/* Our own kernels of f32 or f64 for this processor, or as WEIR_ISA asks, and their name. */
const weir_gemm_kernel *weir_gemm_own(weir_dtype dtype, const char **impl);

/* Plans a product. blas: NULL if OpenBLAS must not be used. */
void weir_gemm_plan(weir_gemm *g, const weir_gemm_shape *shape, const struct weir_openblas *blas,
                    weir_gemm_want want);

/* Types of the operands as stored: the half type, or f32, which is rounded to it as it is read. */
typedef struct weir_gemm_types {
    weir_dtype a, b, c; /* c: sums are f32, rounded once */
    bool       biased;  /* the product is run with a bias: */
    weir_dtype bias;
} weir_gemm_types;

/* Plans a product of halves, shape->dtype, by our own kernels, which convert while they pack. False
 * if it is too small or this processor too old for them: then it is for the kernel for f32. */
bool weir_gemm_plan_halves(weir_gemm *g, const weir_gemm_shape *shape,
                           const weir_gemm_types *types);

/* Plans a product that one task computes alone with our own code: run it with the task's own `work`
 * and without threads. */
void weir_gemm_plan_alone(weir_gemm *g, const weir_gemm_shape *shape);

/* Plans a product of bf16, as stored, to f32 that one task computes alone, without scratch, by the
 * processor's units. False if it has none, or the product is empty. */
bool weir_gemm_plan_alone_bf16(weir_gemm *g, const weir_gemm_shape *shape);

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
