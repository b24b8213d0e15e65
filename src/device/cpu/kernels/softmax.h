/* softmax.h - shared by softmax.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_SOFTMAX_H
#define WEIR_DEVICE_CPU_KERNELS_SOFTMAX_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_SOFTMAX_LANES 16
#define WEIR_SOFTMAX_COLS  256      /* most columns of a task */

/* n elements along the axis: of adjacent rows, or `inner` apart in columns. log: the result is the
 * log of the softmax. */
typedef struct weir_softmax_loops {
    void (*lines)(const void *x, int64_t rows, int64_t n, bool log, void *y);
    void (*lines_grad)(const void *dy, const void *y, int64_t rows, int64_t n, bool log, void *dx);
    void (*columns)(const void *x, int64_t n, int64_t inner, int64_t cols, bool log, void *y);
    void (*columns_grad)(const void *dy, const void *y, int64_t n, int64_t inner, int64_t cols,
                         bool log, void *dx);
} weir_softmax_loops;

/* Indexed by weir_dtype: f32, f64. */
extern const weir_softmax_loops weir_softmax_loops_base[2];
extern const weir_softmax_loops weir_softmax_loops_avx2[2];
extern const weir_softmax_loops weir_softmax_loops_avx512[2];

#endif
