/* update_isa.c - the loops of SGD, Adam and increments, plain C for the compiler to vectorise. */
#include "device/cpu/update.h"

#include <stddef.h>

#include "device/cpu/isa.h"

/* Formulas and their order are PyTorch's (torch.optim.SGD and Adam). A weight decay of 0 adds
 * nothing, not even a NaN of the parameter's. */
#define LOOPS(T, suffix, root_of)                                                                  \
    static void sgd_##suffix(int64_t n, void *param, const void *grad, void *buffer,               \
                             const weir_sgd_args *a)                                               \
    {                                                                                              \
        T *restrict const       p = param;                                                         \
        const T *restrict const g = grad;                                                          \
        T *restrict const       m = buffer;                                                        \
        const T    lr = (T)a->lr, decay = (T)a->weight_decay;                                      \
        const T    momentum = (T)a->momentum, take = (T)a->take;                                   \
        const bool decays = a->weight_decay != 0, nesterov = a->nesterov;                          \
        if (!m) {                                                                                  \
            for (int64_t i = 0; i < n; i++)                                                        \
                p[i] -= lr * (decays ? g[i] + decay * p[i] : g[i]);                                \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T d = decays ? g[i] + decay * p[i] : g[i];                                       \
            m[i] = momentum * m[i] + take * d;                                                     \
            p[i] -= lr * (nesterov ? d + momentum * m[i] : m[i]);                                  \
        }                                                                                          \
    }                                                                                              \
    static void adam_##suffix(int64_t n, void *param, const void *grad, void *mean, void *square,  \
                              const weir_adam_args *a)                                             \
    {                                                                                              \
        T *restrict const       p = param;                                                         \
        const T *restrict const g = grad;                                                          \
        T *restrict const       m = mean;                                                          \
        T *restrict const       v = square;                                                        \
        const T    keep1 = (T)a->beta1, take1 = (T)(1 - a->beta1);                                 \
        const T    keep2 = (T)a->beta2, take2 = (T)(1 - a->beta2);                                 \
        const T    eps = (T)a->eps, decay = (T)a->weight_decay;                                    \
        const T    step = (T)a->step, root = (T)a->root;                                           \
        const bool decays = a->weight_decay != 0;                                                  \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T d = decays ? g[i] + decay * p[i] : g[i];                                       \
            m[i] = keep1 * m[i] + take1 * d;                                                       \
            v[i] = keep2 * v[i] + take2 * (d * d);                                                 \
            p[i] -= step * (m[i] / (root_of(v[i]) / root + eps));                                  \
        }                                                                                          \
    }                                                                                              \
    static void increment_##suffix(int64_t n, void *at, double by)                                 \
    {                                                                                              \
        T *const t = at;                                                                           \
        for (int64_t i = 0; i < n; i++)                                                            \
            t[i] += (T)by;                                                                         \
    }

LOOPS(float, f32, __builtin_sqrtf)
LOOPS(double, f64, __builtin_sqrt)

const weir_update_loops WEIR_ISA_NAME(weir_updates) = {
    .sgd = {sgd_f32, sgd_f64},
    .adam = {adam_f32, adam_f64},
    .increment = {increment_f32, increment_f64},
};
