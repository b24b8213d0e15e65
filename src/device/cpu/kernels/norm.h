/* norm.h - shared by norm.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_NORM_H
#define WEIR_DEVICE_CPU_KERNELS_NORM_H

#include <stdint.h>

#include "weir/base.h"

#define WEIR_NORM_TYPES (WEIR_BF16 + 1)
#define WEIR_NORM_COLS 512      /* most channels of a task */
#define WEIR_NORM_ROWS 64       /* rows of a piece, which is read twice while in cache */

/* A piece is rows x cols of a tensor with leading dimension `row`, in elements; rows <=
 * WEIR_NORM_ROWS, cols <= WEIR_NORM_COLS. Results are f64, one per column. */
typedef struct weir_norm_loops {
    /* Combines a piece with the mean and the sum of squared deviations of `done` earlier rows. */
    void (*stats)(const void *x, int64_t rows, int64_t row, int64_t cols, int64_t done,
                  double *mean, double *m2);
    /* ds += sum of dy * (x - mean), db += sum of dy. Indexed by dy's type; mean is f32 beside
     * halves. */
    void (*grads[WEIR_NORM_TYPES])(const void *dy, const void *x, int64_t rows, int64_t row,
                                   int64_t cols, const void *mean, double *ds, double *db);
    /* Combines the statistics of n rows with those of `done` earlier rows. */
    void (*join)(int64_t cols, int64_t done, double *mean, double *m2, int64_t n,
                 const double *mean_n, const double *m2_n);
} weir_norm_loops;

/* Indexed by x's type; NULL for other types than floats. */
extern const weir_norm_loops weir_norm_loops_base[WEIR_NORM_TYPES];
extern const weir_norm_loops weir_norm_loops_avx2[WEIR_NORM_TYPES];
extern const weir_norm_loops weir_norm_loops_avx512[WEIR_NORM_TYPES];

#endif
