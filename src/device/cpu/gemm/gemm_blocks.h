/* gemm_blocks.h - large products by our own kernels, from packed blocks of the operands. */
#ifndef WEIR_DEVICE_CPU_GEMM_GEMM_BLOCKS_H
#define WEIR_DEVICE_CPU_GEMM_GEMM_BLOCKS_H

#include "device/cpu/gemm/gemm_plan.h"

/* Fills in g for g->shape, whose kernel g->with and g->read_a, read_b, read_bias and
 * narrow are set: blocks, tasks and bytes of scratch. serial: one worker computes all. */
void weir_gemm_blocks_plan(weir_gemm *g, bool serial);

/* g->run of such a plan. If C is of halves, `add` must be false. */
void weir_gemm_blocks_run(const weir_gemm *g, const void *a, const void *b, void *c, bool add,
                          void *work, weir_threads *t);

/* The same; adds the bias, n elements stored as g->read_bias says, to each row of C last. */
void weir_gemm_blocks_run_bias(const weir_gemm *g, const void *a, const void *b, const void *bias,
                               void *c, bool add, void *work, weir_threads *t);

/* True if rows of A of this many bytes may be read where they are: rows whose distance is a
 * multiple of a page push each other out of the L1 cache. */
bool weir_gemm_blocks_read_rows(const weir_gemm_shape *s, size_t size);

#endif
