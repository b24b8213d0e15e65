/* update.h - shared by update.c and its loops, which are compiled per instruction set. */
#ifndef WEIR_DEVICE_CPU_KERNELS_UPDATE_H
#define WEIR_DEVICE_CPU_KERNELS_UPDATE_H

#include <stdbool.h>
#include <stdint.h>

/* take: 1 - dampening. momentum is 0 without a buffer. */
typedef struct weir_sgd_args {
    double lr, momentum, weight_decay, take;
    bool   nesterov;
} weir_sgd_args;

/* step: lr / (1 - beta1^t); root: sqrt(1 - beta2^t). keep: the factor by which decoupled weight
 * decay (AdamW) multiplies the parameter first; 1 without. */
typedef struct weir_adam_args {
    double beta1, beta2, eps, weight_decay, step, root, keep;
} weir_adam_args;

/* alpha, momentum: RMSProp only. eps_inside: eps is added under the root. */
typedef struct weir_square_args {
    double lr, alpha, eps, weight_decay, momentum;
    bool   eps_inside;
} weir_square_args;

/* p, m, v, square, buffer and mean are overwritten; m of sgd, buffer and mean may be NULL. Index 0:
 * f32, 1: f64. */
typedef struct weir_update_loops {
    void (*sgd[2])(int64_t n, void *p, const void *g, void *m, const weir_sgd_args *a);
    void (*adam[2])(int64_t n, void *p, const void *g, void *m, void *v, const weir_adam_args *a);
    void (*adagrad[2])(int64_t n, void *p, const void *g, void *square, const weir_square_args *a);
    void (*rmsprop[2])(int64_t n, void *p, const void *g, void *square, void *buffer, void *mean,
                       const weir_square_args *a);
    void (*increment[2])(int64_t n, void *t, double by);
    void (*accumulate[2])(int64_t n, void *t, const void *g);
    void (*reset[2])(int64_t n, void *t, double value);
} weir_update_loops;

extern const weir_update_loops weir_updates_base, weir_updates_avx2, weir_updates_avx512;

#endif
