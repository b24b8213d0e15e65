/* norm.h - divides rows of channels among thread blocks: a pure function of sizes.
 *
 * tx threads lie along the channels, each with vec of them; ty threads of a block share a chunk of
 * rows. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_NORM_H
#define WEIR_DEVICE_CUDA_KERNELS_NORM_H

#include "device/cuda/kernels/reduce_plan.h"

enum { WEIR_CUDA_NORM_ROWS = 8 };      /* rows that a thread holds in registers */

typedef struct weir_cuda_norm {
    int64_t rows, channels;
    int64_t chunk, chunks;              /* of rows */
    int     vec, tx, ty;
} weir_cuda_norm;

/* width: channels that are read at once if possible. */
static inline weir_cuda_norm weir_cuda_norm_plan(int64_t rows, int64_t channels, int width)
{
    weir_cuda_norm p = {rows, channels, 1, 1, channels % width == 0 ? width : 1, 1, 1};
    const int64_t  units = ceil_div(channels, p.vec);

    p.tx = weir_cuda_power(units, 32);
    p.ty = weir_cuda_power(ceil_div(rows, WEIR_CUDA_NORM_ROWS), WEIR_CUDA_THREADS / p.tx);
    const int64_t blocks = max64(1, ceil_div(units, p.tx));
    const int64_t step = (int64_t)p.ty * WEIR_CUDA_NORM_ROWS;
    const int64_t most = min64(WEIR_CUDA_REDUCE_BLOCKS / blocks, rows / (2 * step));
    p.chunk = max64(1, ceil_div(ceil_div(rows, max64(1, most)), step)) * step;
    p.chunks = max64(1, ceil_div(rows, p.chunk));
    return p;
}

#endif
