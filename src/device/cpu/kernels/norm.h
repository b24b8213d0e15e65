/* norm.h - what norm.c and its loops, compiled per instruction set, agree on. */
#ifndef WEIR_DEVICE_CPU_KERNELS_NORM_H
#define WEIR_DEVICE_CPU_KERNELS_NORM_H

#include <stdint.h>

#define WEIR_NORM_COLS 512      /* channels of a task, at most */
#define WEIR_NORM_ROWS 64       /* of a piece: read twice while it is in cache */

/* A piece is rows x cols of a tensor, columns side by side, `row` elements from row to row;
 * rows <= WEIR_NORM_ROWS, cols <= WEIR_NORM_COLS. Results are f64, one per column. */
typedef struct weir_norm_loops {
    /* Adds a piece to the mean and the sum of squared deviations of the `done` rows before it. */
    void (*stats)(const void *x, int64_t rows, int64_t row, int64_t cols, int64_t done,
                  double *mean, double *m2);
    /* ds += sum of dy * (x - mean), db += sum of dy; mean is of x's type. */
    void (*grads)(const void *dy, const void *x, int64_t rows, int64_t row, int64_t cols,
                  const void *mean, double *ds, double *db);
    /* Joins the statistics of n rows to those of the `done` rows before them. */
    void (*join)(int64_t cols, int64_t done, double *mean, double *m2, int64_t n,
                 const double *mean_n, const double *m2_n);
} weir_norm_loops;

/* Indexed by weir_dtype: f32, f64. */
extern const weir_norm_loops weir_norm_loops_base[2];
extern const weir_norm_loops weir_norm_loops_avx2[2];
extern const weir_norm_loops weir_norm_loops_avx512[2];

#endif
