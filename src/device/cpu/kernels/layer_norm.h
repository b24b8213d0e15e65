/* layer_norm.h - shared by layer_norm.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_LAYER_NORM_H
#define WEIR_DEVICE_CPU_KERNELS_LAYER_NORM_H

#include <stdint.h>

#include "weir/base.h"

#define WEIR_LAYER_NORM_SEGMENT 1024      /* most elements of a row per call of a loop */
#define WEIR_LAYER_NORM_ROWS  4         /* rows whose gradients are added together */

/* The same segment of a row of each tensor, and the row's numbers. dx may be dy or x. */
typedef struct weir_layer_norm_row {
    const void *dy, *x;
    void       *dx;
    double      mean, rstd;
    double      g, g_xhat;      /* means over the row of g = dy scale and of g xhat */
} weir_layer_norm_row;

/* Loops over n <= WEIR_LAYER_NORM_SEGMENT adjacent elements of one type. Numbers of a row are
 * values of that type. */
typedef struct weir_layer_norm_loops {
    double (*sum)(int64_t n, const void *x);
    /* Adds to sum[0] and sum[1] x - mean and its square. */
    void (*deviations)(int64_t n, const void *x, double mean, double *sum);
    /* y = (x - mean) rstd scale + bias; y may be x. */
    void (*apply)(int64_t n, const void *x, double mean, double rstd, const void *scale,
                  const void *bias, void *y);
    /* Adds to sum[0] and sum[1] g and g xhat. */
    void (*grad_sums)(int64_t n, const weir_layer_norm_row *r, const void *scale, double *sum);
    /* Writes the dx of `rows` <= WEIR_LAYER_NORM_ROWS rows; adds dy xhat and dy, first over the
     * rows, then to dscale and dbias. */
    void (*grad)(int64_t n, int rows, const weir_layer_norm_row *r, const void *scale,
                 double *dscale, double *dbias);
} weir_layer_norm_loops;

/* Indexed by weir_dtype: f32, f64. */
extern const weir_layer_norm_loops weir_layer_norm_loops_base[2];
extern const weir_layer_norm_loops weir_layer_norm_loops_avx2[2];
extern const weir_layer_norm_loops weir_layer_norm_loops_avx512[2];

#endif
