/* timing.h - what the benchmarks of this folder share: the clock, and medians. */
#ifndef WEIR_BENCH_COMM_TIMING_H
#define WEIR_BENCH_COMM_TIMING_H

#include <stdlib.h>
#include <time.h>

static inline double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static inline int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of n numbers, 1 or more, which are sorted. */
static inline double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

#endif
