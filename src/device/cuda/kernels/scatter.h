/* scatter.h - how additions to rows go: pure functions of how many rows and indices there are.
 *
 * Few indices are looked through by each of them. More are sorted by row, 8 bits of its number at a
 * time from the lowest on, by a stable counting sort, so that equal ones keep their order. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_SCATTER_H
#define WEIR_DEVICE_CUDA_KERNELS_SCATTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/common/div.h"

enum {
    WEIR_SCATTER_FEW   = 1024,      /* indices that need no sorting */
    WEIR_SCATTER_CHUNK = 1024,      /* indices that a block sorts */
    WEIR_SCATTER_DIGIT = 8,         /* bits that a pass sorts by */
    WEIR_SCATTER_VALUES = 1 << WEIR_SCATTER_DIGIT
};

typedef struct weir_scatter_plan {
    bool    sorted;
    int     passes;                 /* each of one digit */
    int64_t chunks;
    /* Places in the workspace: rows and positions of the indices, for odd passes and for even
     * ones; how many of each digit each chunk has, and all of them. */
    size_t  row[2], at[2], count, total;
    size_t  work;
} weir_scatter_plan;

static inline size_t weir_scatter_reserve(weir_scatter_plan *p, int64_t numbers)
{
    const size_t at = p->work;
    p->work += ((size_t)numbers * sizeof(uint32_t) + 255) / 256 * 256;
    return at;
}

/* n indices of v rows. Sorted are 32-bit numbers, v standing for no row. */
static inline weir_scatter_plan weir_scatter_plan_of(int64_t v, int64_t n)
{
    weir_scatter_plan p = {0};

    p.sorted = n > WEIR_SCATTER_FEW && n < (int64_t)UINT32_MAX && v < (int64_t)UINT32_MAX;
    if (!p.sorted)
        return p;
    do
        p.passes++;
    while (v >> p.passes * WEIR_SCATTER_DIGIT != 0);
    p.chunks = ceil_div(n, WEIR_SCATTER_CHUNK);
    for (int i = 0; i < 2 && i < p.passes; i++) {
        p.row[i] = weir_scatter_reserve(&p, n);
        p.at[i] = weir_scatter_reserve(&p, n);
    }
    p.count = weir_scatter_reserve(&p, WEIR_SCATTER_VALUES * p.chunks);
    p.total = weir_scatter_reserve(&p, WEIR_SCATTER_VALUES);
    return p;
}

/* Threads side by side on the d elements of a row: a power of two up to 256. */
static inline int weir_scatter_lanes(int64_t d)
{
    int lanes = 1;
    while (lanes < 256 && lanes < d)
        lanes *= 2;
    return lanes;
}

#endif
