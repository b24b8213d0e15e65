/* reduce.h - shared by reduce.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_REDUCE_H
#define WEIR_DEVICE_CPU_KERNELS_REDUCE_H

#include <stdint.h>

#include "weir/base.h"

#define WEIR_REDUCE_COLS  512       /* most columns of a task */
#define WEIR_REDUCE_ROWS  64        /* rows of a piece, if rows are wide */
#define WEIR_REDUCE_LINE  4096      /* elements of a piece of a line */
#define WEIR_REDUCE_LANES 32

enum { WEIR_REDUCE_SUM, WEIR_REDUCE_MAX, WEIR_REDUCE_MIN, WEIR_REDUCE_PROD, WEIR_REDUCE_OPS };

/* Both combine a piece into 8-byte accumulators: f64 for floats, 64-bit integers for integers.
 * Steps in elements. */
typedef struct weir_reduce_loops {
    /* acc[c] over rows, c < cols <= WEIR_REDUCE_COLS */
    void (*columns)(const void *x, int64_t rows, int64_t row, int64_t cols, int64_t col, void *acc);
    /* acc[0] over n elements */
    void (*line)(const void *x, int64_t n, int64_t step, void *acc);
} weir_reduce_loops;

/* Number of contiguous rows of `cols` elements that are read as one row. */
static inline int64_t weir_reduce_fold(int64_t cols)
{
    return cols <= 32 ? 64 / cols : 1;
}

#define WEIR_REDUCE_TYPES (WEIR_BF16 + 1)

/* Indexed by operation and by weir_dtype; NULL for types that are not reduced. */
extern const weir_reduce_loops weir_reduce_loops_base[WEIR_REDUCE_OPS][WEIR_REDUCE_TYPES];
extern const weir_reduce_loops weir_reduce_loops_avx2[WEIR_REDUCE_OPS][WEIR_REDUCE_TYPES];
extern const weir_reduce_loops weir_reduce_loops_avx512[WEIR_REDUCE_OPS][WEIR_REDUCE_TYPES];

/* ---- sums over two inputs a, b: of a b, (a - b)^2, |a| ---- */

enum { WEIR_PAIR_DOT, WEIR_PAIR_DIST, WEIR_PAIR_ABS, WEIR_PAIR_OPS };

typedef struct weir_pair_step {
    int64_t row, col, row2, col2;       /* of a, of b */
} weir_pair_step;

/* Like weir_reduce_loops; accumulators are f64. */
typedef struct weir_pair_loops {
    void (*columns)(const void *a, const void *b, int64_t rows, weir_pair_step s, int64_t cols,
                    double *acc);
    void (*line)(const void *a, const void *b, int64_t n, int64_t step, int64_t step2, double *acc);
} weir_pair_loops;

/* Indexed by operation and by weir_dtype (f32, f64). */
extern const weir_pair_loops weir_pair_loops_base[WEIR_PAIR_OPS][2];
extern const weir_pair_loops weir_pair_loops_avx2[WEIR_PAIR_OPS][2];
extern const weir_pair_loops weir_pair_loops_avx512[WEIR_PAIR_OPS][2];

#endif
