/* sign.h - shared by sign.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_SIGN_H
#define WEIR_DEVICE_CPU_KERNELS_SIGN_H

#include <stdint.h>

/* Bit i % 8 of bits[i / 8] is y[i] > 0; unused bits of the last byte are 0. [0] f32, [1] f64. */
typedef struct weir_sign_loops {
    void (*pack[2])(int64_t n, uint8_t *bits, const void *y);
    /* dx[i] = bit i ? dy[i] : 0; dx may be dy. */
    void (*relu_grad[2])(int64_t n, void *dx, const void *dy, const uint8_t *bits);
} weir_sign_loops;

extern const weir_sign_loops weir_signs_base, weir_signs_avx2, weir_signs_avx512;

#endif
