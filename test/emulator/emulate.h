/* emulate.h - CUDA C++ on the host, so that kernels run and are tested without a card.
 *
 * Kernel files are compiled by the host's compiler with this header instead of <cuda_runtime.h>.
 * Blocks run one after another; the threads of a block are fibers that switch only at barriers and
 * warp operations, in an order that differs from launch to launch. A barrier that some threads
 * never reach ends the program with a message. Shared memory is static: a block finds what an
 * earlier one left, as may happen on a card. */
#ifndef WEIR_TEST_EMULATOR_EMULATE_H
#define WEIR_TEST_EMULATOR_EMULATE_H

#include <cuda_runtime_api.h>

#include <stdint.h>
#include <string.h>

#include <type_traits>

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

#pragma GCC visibility push(hidden)

extern emulate_place emulate_at;        /* of the running fiber */

#define threadIdx emulate_at.thread
#define blockIdx  emulate_at.block
#define blockDim  emulate_at.threads
#define gridDim   emulate_at.blocks
static const int warpSize = 32;

/* Queues a kernel: thread(arguments) is called for each thread, with a copy of the arguments. */
cudaError_t emulate_queue_kernel(dim3 grid, dim3 block, cudaStream_t stream,
                                 void (*thread)(const void *), const void *arguments, size_t bytes);

/* Block barrier; returns the sum of the predicates of all threads. */
unsigned    emulate_block_barrier(unsigned predicate);
/* Warp barrier: when the lanes of the mask have arrived, each may read the 8 bytes that another has
 * provided; 0 from lanes that have ended. */
void        emulate_warp_barrier(unsigned mask);
char       *emulate_warp_given(void);
const char *emulate_warp_taken(int lane);
int         emulate_lane(void);

#pragma GCC visibility pop

/* Queues one launch on the stream. */
template <class F> static inline cudaError_t emulate_launch(dim3 grid, dim3 block,
                                                            cudaStream_t stream, const F &thread)
{
    static_assert(std::is_trivially_copyable<F>::value && alignof(F) <= 16,
                  "arguments of kernels are plain values");
    return emulate_queue_kernel(
        grid, block, stream, [](const void *f) { (*(const F *)f)(); }, &thread, sizeof thread);
}

static inline void __syncthreads(void)
{
    emulate_block_barrier(0);
}

static inline int __syncthreads_count(int predicate)
{
    return (int)emulate_block_barrier(predicate != 0);
}

static inline int __syncthreads_or(int predicate)
{
    return emulate_block_barrier(predicate != 0) != 0;
}

static inline int __syncthreads_and(int predicate)
{
    return emulate_block_barrier(predicate == 0) == 0;
}

static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    emulate_warp_barrier(mask);
}

static inline void __threadfence(void)
{
}

/* The value of lane `from`; the lane's own value if its group has no such lane. */
template <class T> static inline T emulate_shuffle(unsigned mask, T v, int from, int width)
{
    const int lane = emulate_lane(), group = lane / width * width;
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    memcpy(emulate_warp_given(), &v, sizeof v);
    emulate_warp_barrier(mask);
    if (from >= group && from < group + width)
        memcpy(&v, emulate_warp_taken(from), sizeof v);
    return v;
}

template <class T> static inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32)
{
    return emulate_shuffle(mask, v, emulate_lane() / width * width + lane % width, width);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32)
{
    return emulate_shuffle(mask, v, emulate_lane() ^ by, width);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32)
{
    return emulate_shuffle(mask, v, emulate_lane() + (int)by, width);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32)
{
    return emulate_shuffle(mask, v, emulate_lane() - (int)by, width);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    const int vote = predicate != 0;
    unsigned  set = 0;
    memcpy(emulate_warp_given(), &vote, sizeof vote);
    emulate_warp_barrier(mask);
    for (int lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) {
            int theirs;
            memcpy(&theirs, emulate_warp_taken(lane), sizeof theirs);
            set |= (unsigned)theirs << lane;
        }
    return set;
}

static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}

static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, !predicate) == 0;
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
