/* geometry.h - launch geometry as a function of sizes alone, so that results never depend on the
 * card. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_GEOMETRY_H
#define WEIR_DEVICE_CUDA_RUNTIME_GEOMETRY_H

#include <stdint.h>

enum { WEIR_CUDA_THREADS = 256, WEIR_CUDA_BLOCKS = 8192 };

/* Blocks of WEIR_CUDA_THREADS for n elements, one thread each, up to WEIR_CUDA_BLOCKS blocks; 0 for
 * no elements. */
static inline unsigned weir_cuda_blocks(int64_t n)
{
    const int64_t blocks = (n + WEIR_CUDA_THREADS - 1) / WEIR_CUDA_THREADS;
    return (unsigned)(blocks < WEIR_CUDA_BLOCKS ? blocks : WEIR_CUDA_BLOCKS);
}

#endif
