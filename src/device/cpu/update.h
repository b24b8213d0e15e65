/* update.h - what the update kernels and the loops of their three instruction sets agree on. */
#ifndef WEIR_DEVICE_CPU_UPDATE_H
#define WEIR_DEVICE_CPU_UPDATE_H

#include <stdbool.h>
#include <stdint.h>

/* take: 1 - dampening. momentum is 0 where there is no buffer. */
typedef struct weir_sgd_args {
    double lr, momentum, weight_decay, take;
    bool   nesterov;
} weir_sgd_args;

/* step: lr / (1 - beta1^t); root: sqrt(1 - beta2^t). */
typedef struct weir_adam_args {
    double beta1, beta2, eps, weight_decay, step, root;
} weir_adam_args;

/* p, m, v are overwritten; m of sgd may be NULL. [0] f32, [1] f64. */
typedef struct weir_update_loops {
    void (*sgd[2])(int64_t n, void *p, const void *g, void *m, const weir_sgd_args *a);
    void (*adam[2])(int64_t n, void *p, const void *g, void *m, void *v, const weir_adam_args *a);
    void (*increment[2])(int64_t n, void *t, double by);
} weir_update_loops;

extern const weir_update_loops weir_updates_base, weir_updates_avx2, weir_updates_avx512;

#endif
