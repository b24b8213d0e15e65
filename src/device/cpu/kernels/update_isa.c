/* update_isa.c - the loops of optimisers and counters, plain C that the compiler vectorises. */
#include "device/cpu/kernels/update.h"

#include <stddef.h>

#include "device/cpu/isa.h"

/* Formulas and the order of operations are PyTorch's (torch.optim). A weight decay of 0 adds
 * nothing, not even NaN where the parameter is NaN. */
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
        const T    step = (T)a->step, root = (T)a->root, keep = (T)a->keep;                        \
        const bool decays = a->weight_decay != 0, shrinks = a->keep != 1;                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T d = decays ? g[i] + decay * p[i] : g[i];                                       \
            const T q = shrinks ? keep * p[i] : p[i];                                              \
            m[i] = keep1 * m[i] + take1 * d;                                                       \
            v[i] = keep2 * v[i] + take2 * (d * d);                                                 \
            p[i] = q - step * (m[i] / (root_of(v[i]) / root + eps));                               \
        }                                                                                          \
    }                                                                                              \
    static void adagrad_##suffix(int64_t n, void *param, const void *grad, void *square,           \
                                 const weir_square_args *a)                                        \
    {                                                                                              \
        T *restrict const       p = param;                                                         \
        const T *restrict const g = grad;                                                          \
        T *restrict const       s = square;                                                        \
        const T    lr = (T)a->lr, eps = (T)a->eps, decay = (T)a->weight_decay;                     \
        const bool decays = a->weight_decay != 0, inside = a->eps_inside;                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T d = decays ? g[i] + decay * p[i] : g[i];                                       \
            s[i] += d * d;                                                                         \
            p[i] -= lr * (d / (inside ? root_of(s[i] + eps) : root_of(s[i]) + eps));               \
        }                                                                                          \
    }                                                                                              \
    /* Computes the step before the rate; mean and buffer may be NULL. */                          \
    static inline __attribute__((always_inline)) void rms_loop_##suffix(                           \
        int64_t n, T *restrict p, const T *restrict g, T *restrict s, T *restrict buffer,          \
        T *restrict mean, const weir_square_args *a)                                               \
    {                                                                                              \
        const T    lr = (T)a->lr, eps = (T)a->eps, decay = (T)a->weight_decay;                     \
        const T    keep = (T)a->alpha, take = (T)(1 - a->alpha), momentum = (T)a->momentum;        \
        const bool decays = a->weight_decay != 0, inside = a->eps_inside;                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const T d = decays ? g[i] + decay * p[i] : g[i];                                       \
            T       square = s[i] = keep * s[i] + take * (d * d);                                  \
            if (mean) {                                                                            \
                mean[i] = keep * mean[i] + take * d;                                               \
                square -= mean[i] * mean[i];                                                       \
            }                                                                                      \
            T step = d / (inside ? root_of(square + eps) : root_of(square) + eps);                 \
            if (buffer)                                                                            \
                step = buffer[i] = momentum * buffer[i] + step;                                    \
            p[i] -= lr * step;                                                                     \
        }                                                                                          \
    }                                                                                              \
    static void rmsprop_##suffix(int64_t n, void *p, const void *g, void *square, void *buffer,    \
                                 void *mean, const weir_square_args *a)                            \
    {                                                                                              \
        if (buffer && mean)                                                                        \
            rms_loop_##suffix(n, p, g, square, buffer, mean, a);                                   \
        else if (buffer)                                                                           \
            rms_loop_##suffix(n, p, g, square, buffer, NULL, a);                                   \
        else if (mean)                                                                             \
            rms_loop_##suffix(n, p, g, square, NULL, mean, a);                                     \
        else                                                                                       \
            rms_loop_##suffix(n, p, g, square, NULL, NULL, a);                                     \
    }                                                                                              \
    static void increment_##suffix(int64_t n, void *at, double by)                                 \
    {                                                                                              \
        T *const t = at;                                                                           \
        for (int64_t i = 0; i < n; i++)                                                            \
            t[i] += (T)by;                                                                         \
    }                                                                                              \
    static void accumulate_##suffix(int64_t n, void *at, const void *grad)                         \
    {                                                                                              \
        T *restrict const       t = at;                                                            \
        const T *restrict const g = grad;                                                          \
        for (int64_t i = 0; i < n; i++)                                                            \
            t[i] += g[i];                                                                          \
    }                                                                                              \
    static void reset_##suffix(int64_t n, void *at, double value)                                  \
    {                                                                                              \
        T *const t = at;                                                                           \
        for (int64_t i = 0; i < n; i++)                                                            \
            t[i] = (T)value;                                                                       \
    }

LOOPS(float, f32, __builtin_sqrtf)
LOOPS(double, f64, __builtin_sqrt)

const weir_update_loops WEIR_ISA_NAME(weir_updates) = {
    .sgd = {sgd_f32, sgd_f64},
    .adam = {adam_f32, adam_f64},
    .adagrad = {adagrad_f32, adagrad_f64},
    .rmsprop = {rmsprop_f32, rmsprop_f64},
    .increment = {increment_f32, increment_f64},
    .accumulate = {accumulate_f32, accumulate_f64},
    .reset = {reset_f32, reset_f64},
};
