/* update_rate.h - numbers that updates compute once per run: powers of a step count, learning
 * rates, carries of a binary counter. All devices share these definitions, which use no library
 * functions, so that the bits agree. */
#ifndef WEIR_DEVICE_COMMON_UPDATE_RATE_H
#define WEIR_DEVICE_COMMON_UPDATE_RATE_H

#include <math.h>

#include "core/attr.h"
#include "core/maths.h"

/* x^n: by squaring if n is an integer >= 0, else by pow. */
static inline double weir_count_power(double x, double n)
{
    if (!(n >= 0 && n < 0x1p53 && floor(n) == n))
        return pow(x, n);
    double y = 1;
    for (uint64_t left = (uint64_t)n; left > 0; left >>= 1) {
        if (left & 1u)
            y *= x;
        x *= x;
    }
    return y;
}

/* The learning rate at step n. */
static inline double weir_rate_at(const weir_lr_attr *a, double n)
{
    if (a->kind == WEIR_LR_STEP)
        return a->base * weir_count_power(a->to, floor(n / a->period));
    if (a->kind == WEIR_LR_EXPONENTIAL)
        return a->base * weir_count_power(a->to, n);
    double cosine, sine;
    weir_circle_f64((n < a->period ? n / a->period : 1) * 0.5, &cosine, &sine);
    return a->to + (a->base - a->to) * 0.5 * (1 + cosine);
}

/* The number of rows of partial sums that are full once one more gradient is added to `count`, so
 * that each is added to the row after it; the last one of `rows` never is. */
static inline int weir_carries(double count, int64_t rows)
{
    uint64_t ones = count >= 0 && count < 0x1p53 ? (uint64_t)count : 0;
    int      carries = 0;

    for (; (ones & 1u) && carries < rows - 1; ones >>= 1)
        carries++;
    return carries;
}

#endif
