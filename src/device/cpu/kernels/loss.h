/* loss.h - shared by loss.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_LOSS_H
#define WEIR_DEVICE_CPU_KERNELS_LOSS_H

#include <stdint.h>

#define WEIR_LOSS_LANES 16

/* Each handles one row of n contiguous elements. */
typedef struct weir_loss_loops {
    /* log sum exp */
    double (*lse)(const void *x, int64_t n);
    /* sum of t * (lse - x), and of t */
    double (*against)(const void *x, const void *t, int64_t n, double lse);
    double (*total)(const void *t, int64_t n);
    /* dx = softmax(x) * a, less t * b where t is not NULL */
    void (*grad)(const void *x, const void *t, int64_t n, double lse, double a, double b, void *dx);
} weir_loss_loops;

/* Indexed by weir_dtype: f32, f64. */
extern const weir_loss_loops weir_loss_loops_base[2];
extern const weir_loss_loops weir_loss_loops_avx2[2];
extern const weir_loss_loops weir_loss_loops_avx512[2];

#endif
