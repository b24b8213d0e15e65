/* scatter.h - plans additions to rows: pure functions of the numbers of rows and indices.
 *
 * Few indices are searched by each of them. More are sorted by row number, 8 bits at a time from
 * the lowest on, by a stable counting sort, so that equal ones keep their order (LSD radix
 * sort). */
#ifndef WEIR_DEVICE_CUDA_KERNELS_SCATTER_H
#define WEIR_DEVICE_CUDA_KERNELS_SCATTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/common/div.h"

enum {
    WEIR_SCATTER_FEW   = 1024,      /* up to this many indices are not sorted */
    WEIR_SCATTER_CHUNK = 1024,      /* indices that a block sorts */
    WEIR_SCATTER_DIGIT = 8,         /* bits per pass */
    WEIR_SCATTER_VALUES = 1 << WEIR_SCATTER_DIGIT
};

typedef struct weir_scatter_plan {
    bool    sorted;
    int     passes;                 /* one per digit */
    int64_t chunks;
    /* Byte offsets in the workspace: rows and positions of the indices, for odd and for even
     * passes; counts of each digit in each chunk, and in all. */
    size_t  row[2], at[2], count, total;
    size_t  work;
} weir_scatter_plan;

static inline size_t weir_scatter_reserve(weir_scatter_plan *p, int64_t numbers)
{
    const size_t at = p->work;
    p->work += ((size_t)numbers * sizeof(uint32_t) + 255) / 256 * 256;
    return at;
}

/* Plans n indices of v rows. Sorted keys are 32-bit numbers, with v for an invalid row. */
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

/* Adjacent threads for the d elements of a row: a power of two up to 256. */
static inline int weir_scatter_lanes(int64_t d)
{
    int lanes = 1;
    while (lanes < 256 && lanes < d)
        lanes *= 2;
    return lanes;
}

#endif
