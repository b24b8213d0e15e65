/* attention_plan.h - the plan of a call of attention: its blocks, tasks, products and scratch. */
#ifndef WEIR_DEVICE_CPU_KERNELS_ATTENTION_PLAN_H
#define WEIR_DEVICE_CPU_KERNELS_ATTENTION_PLAN_H

#include "device/common/attention.h"
#include "device/cpu/gemm/gemm_plan.h"
#include "device/cpu/kernels/attention_loops.h"
#include "device/cpu/kernels/elementwise.h"

enum { WEIR_ATTENTION_UNIT = 64 };      /* alignment in bytes of each part of the scratch */

/* A product of blocks: [full or last block of rows][full or last block of columns]. */
typedef struct weir_attention_products {
    weir_gemm of[2][2];
} weir_attention_products;

/* Where a worker's scratch has rows that are widened, or summed in f32; bytes from its begin. */
typedef struct weir_attention_wide {
    size_t q, k, v, y, dy, dq, dk, dv, mask;
    size_t scores, dp;                          /* units: rounded to halves */
    size_t right, zeroed;                       /* units: an operand with numbers not finite */
} weir_attention_wide;

/* State of the kernel: allocated by weir_attention_plan_new. */
typedef struct weir_attention_plan {
    weir_attention_loops    loops;
    weir_attention_geometry g;
    int64_t                 side, row_blocks;   /* rows of q, and of k, in a block */
    int64_t                 batches, heads;     /* gradient: batches, heads of k in a task */
    weir_half_fn            widen, narrow;      /* of halves; else NULL */
    bool                    units;              /* products multiply halves as stored */
    size_t                  size, stored;       /* bytes of an element: in f32 or f64; as stored */
    weir_attention_wide     wide;               /* halves */
    weir_attention_products score, value;       /* q k^T; forward: p v, gradient: dy v^T */
    weir_attention_products dq, dk, dv;         /* ds k, ds^T q, p^T dy */
    size_t                  block, vector, gemm; /* scratch: scores, a row each, products */
    size_t                  scratch, work;      /* bytes per worker; for all, and mask_sums */
    int64_t                 mask_sums;          /* elements of a half mask's gradient, in f32 */
} weir_attention_plan;

/* back: of the gradient. Plans scratch for a number of threads; NULL without memory. */
weir_attention_plan *weir_attention_plan_new(const weir_call *c, bool back, int threads);

#endif
