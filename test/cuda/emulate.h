/* emulate.h - CUDA C++ on the host, so that kernels run and are tested without a card.
 *
 * Kernel files are compiled by the host's compiler with this header instead of <cuda_runtime.h>.
 * Blocks run one after the other; the threads of a block are fibers that change at barriers and
 * warp operations only, in the order of their numbers. A barrier that some threads never reach is
 * reported and ends the program. Shared memory is static: what a block leaves there the next one
 * finds, as on a card, where it may not rely on it. */
#ifndef WEIR_TEST_CUDA_EMULATE_H
#define WEIR_TEST_CUDA_EMULATE_H

#include <cuda_runtime_api.h>

#include <stdint.h>
#include <string.h>

#include <functional>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __forceinline__
#undef __grid_constant__
#undef __launch_bounds__
#undef __restrict__
#define __global__
#define __device__
#define __host__
#define __shared__        static
#define __constant__      static const
#define __forceinline__   inline
#define __restrict__
#define __grid_constant__
#define __launch_bounds__(...)

typedef struct emulate_place {
    uint3 thread, block;
    dim3  threads, blocks;
} emulate_place;

extern emulate_place emulate_at;        /* of the fiber that runs */

#define threadIdx emulate_at.thread
#define blockIdx  emulate_at.block
#define blockDim  emulate_at.threads
#define gridDim   emulate_at.blocks
#define warpSize  32

/* Queues the work of one launch on the stream. */
cudaError_t emulate_launch(dim3 grid, dim3 block, cudaStream_t stream,
                           const std::function<void()> &thread);

void  emulate_block_barrier(void);
void  emulate_warp_barrier(void);
char *emulate_warp_slot(int lane);      /* 8 bytes of the lane in the running fiber's warp */
int   emulate_lane(void);

static inline void __syncthreads(void)
{
    emulate_block_barrier();
}

static inline void __syncwarp(unsigned = 0xffffffffu)
{
    emulate_warp_barrier();
}

static inline void __threadfence(void)
{
}

/* The value that lane `from` has; the lane's own where there is no such lane in its group. */
template <class T> static inline T emulate_shuffle(T v, int from, int width)
{
    const int lane = emulate_lane(), group = lane / width * width;
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    memcpy(emulate_warp_slot(lane), &v, sizeof v);
    emulate_warp_barrier();
    T r = v;
    if (from >= group && from < group + width)
        memcpy(&r, emulate_warp_slot(from), sizeof r);
    emulate_warp_barrier();
    return r;
}

template <class T> static inline T __shfl_sync(unsigned, T v, int lane, int width = 32)
{
    return emulate_shuffle(v, emulate_lane() / width * width + lane % width, width);
}
template <class T> static inline T __shfl_xor_sync(unsigned, T v, int mask, int width = 32)
{
    return emulate_shuffle(v, emulate_lane() ^ mask, width);
}
template <class T> static inline T __shfl_down_sync(unsigned, T v, unsigned by, int width = 32)
{
    return emulate_shuffle(v, emulate_lane() + (int)by, width);
}
template <class T> static inline T __shfl_up_sync(unsigned, T v, unsigned by, int width = 32)
{
    return emulate_shuffle(v, emulate_lane() - (int)by, width);
}

static inline unsigned __ballot_sync(unsigned, int predicate)
{
    unsigned set = 0;
    for (int lane = 0; lane < 32; lane++)
        set |= (unsigned)(emulate_shuffle(predicate != 0, lane, 32)) << lane;
    return set;
}

template <class T> static inline T emulate_swap(T *at, T value)
{
    const T old = *at;
    *at = value;
    return old;
}
#define EMULATE_ATOMICS(T)                                                                         \
    static inline T atomicAdd(T *at, T v) { return emulate_swap(at, (T)(*at + v)); }               \
    static inline T atomicMax(T *at, T v) { return emulate_swap(at, *at > v ? *at : v); }          \
    static inline T atomicMin(T *at, T v) { return emulate_swap(at, *at < v ? *at : v); }          \
    static inline T atomicExch(T *at, T v) { return emulate_swap(at, v); }                         \
    static inline T atomicCAS(T *at, T is, T v) { return emulate_swap(at, *at == is ? v : *at); }
EMULATE_ATOMICS(int)
EMULATE_ATOMICS(unsigned)
EMULATE_ATOMICS(unsigned long long)
static inline unsigned atomicOr(unsigned *at, unsigned v)
{
    return emulate_swap(at, *at | v);
}

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}

static inline int __popc(unsigned v)
{
    return __builtin_popcount(v);
}

static inline unsigned __float_as_uint(float v)
{
    unsigned u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static inline float __uint_as_float(unsigned u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

#endif
