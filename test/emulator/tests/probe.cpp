/* probe.cpp - kernels of the tests. See probe.h. */
#include "probe.h"

#include "emulator/emulate.h"

enum { MOST = 1024 };

template <class... P, class... A>
static cudaError_t launch(cudaStream_t s, void (*kernel)(P...), dim3 grid, dim3 block, A... args)
{
    return emulate_launch(grid, block, s, [=]() { kernel(static_cast<P>(args)...); });
}

static __global__ void set(int *p, int value)
{
    p[threadIdx.x] = value;
}

static __global__ void add(int *to, const int *from)
{
    to[threadIdx.x] += from[threadIdx.x];
}

static __global__ void step(int *p, int by, int plus)
{
    p[threadIdx.x] = p[threadIdx.x] * by + plus;
}

static __global__ void reverse(int *to, const int *from, bool barrier)
{
    __shared__ int held[MOST];
    const unsigned t = threadIdx.x, n = blockDim.x;

    held[t] = from[t];
    if (barrier)
        __syncthreads();
    to[t] = held[n - 1 - t];
    __syncthreads();
    held[t] = -1;
}

static __global__ void sum(int *to, const int *from)
{
    __shared__ int held[MOST];
    const unsigned t = threadIdx.x;

    held[t] = from[t];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half)
            held[t] += held[t + half];
        __syncthreads();
    }
    if (t == 0)
        *to = held[0];
}

static __global__ void group_sums(int *to, const int *from, int width)
{
    int v = from[threadIdx.x];

    for (int by = width / 2; by > 0; by /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, by, width);
    to[threadIdx.x] = v;
}

static __global__ void halves(int64_t *to, const int *from)
{
    const unsigned t = threadIdx.x, lane = t % 32;
    int64_t        v = from[t];

    if (lane < 16) {
        for (int by = 8; by > 0; by /= 2)
            v += __shfl_xor_sync(0xffffu, v, by, 16);
    } else {
        v *= v;
        for (int by = 8; by > 0; by /= 2)
            v += __shfl_xor_sync(0xffff0000u, v, by, 16);
    }
    __syncwarp();
    to[t] = v;
}

static __global__ void lanes(int *to, const int *from)
{
    const unsigned t = threadIdx.x;
    const int      v = from[t];
    int *const     at = to + 5 * t;

    at[0] = __shfl_up_sync(0xffffffffu, v, 1);
    at[1] = __shfl_down_sync(0xffffffffu, v, 2);
    at[2] = __shfl_sync(0xffffffffu, v, (int)(t * 7) % 32);
    const unsigned set = __ballot_sync(0xffffffffu, v > 0);
    at[3] = (int)set;
    at[4] = __popc(set) + 100 * __any_sync(0xffffffffu, v > 0) +
            1000 * __all_sync(0xffffffffu, v > 0);
}

static __global__ void votes(int *to, const int *from, int stay)
{
    const int t = (int)threadIdx.x;

    if (t >= stay)
        return;
    const int n = __syncthreads_count(from[t] > 0);
    const int any = __syncthreads_or(from[t] > 0), all = __syncthreads_and(from[t] > 0);
    to[t] = n + 10000 * any + 100000 * all;
}

static __global__ void hang(void)
{
    if (threadIdx.x % 2)
        __syncthreads();
    else
        __syncwarp();
}

static __global__ void places(int *to)
{
    const unsigned block =
        blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned thread =
        threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;

    to[block * threads + thread] = (int)(threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z +
                                         1000 * blockIdx.x + 10000 * blockIdx.y +
                                         100000 * blockIdx.z);
}

static __global__ void count(unsigned *to, int *largest)
{
    atomicAdd(to, 1u);
    atomicMax(largest, (int)(blockIdx.x * blockDim.x + threadIdx.x));
}

struct alignas(16) four {
    int of[4];
};

static __global__ void aligned(int *p)
{
    four here = {{1, 2, 3, 4}};
    four *volatile at = &here;

    p[threadIdx.x] = (int)((uintptr_t)at % 16);
    __syncthreads();
    p[threadIdx.x] += (int)((uintptr_t)at % 16);
}

static __global__ void poke(char *p, int64_t at, char value)
{
    p[at] = value;
}

cudaError_t probe_set(cudaStream_t s, int *p, int n, int value)
{
    return launch(s, set, 1, n, p, value);
}

cudaError_t probe_add(cudaStream_t s, int *to, const int *from, int n)
{
    return launch(s, add, 1, n, to, from);
}

cudaError_t probe_step(cudaStream_t s, int *p, int n, int by, int plus)
{
    return launch(s, step, 1, n, p, by, plus);
}

cudaError_t probe_reverse(cudaStream_t s, int *to, const int *from, int n, bool barrier)
{
    return launch(s, reverse, 1, n, to, from, barrier);
}

cudaError_t probe_sum(cudaStream_t s, int *to, const int *from, int n)
{
    return launch(s, sum, 1, n, to, from);
}

cudaError_t probe_group_sums(cudaStream_t s, int *to, const int *from, int n, int width)
{
    return launch(s, group_sums, 1, n, to, from, width);
}

cudaError_t probe_halves(cudaStream_t s, int64_t *to, const int *from, int n)
{
    return launch(s, halves, 1, n, to, from);
}

cudaError_t probe_lanes(cudaStream_t s, int *to, const int *from, int n)
{
    return launch(s, lanes, 1, n, to, from);
}

cudaError_t probe_votes(cudaStream_t s, int *to, const int *from, int n, int stay)
{
    return launch(s, votes, 1, n, to, from, stay);
}

cudaError_t probe_hang(cudaStream_t s, int n)
{
    return launch(s, hang, 1, n);
}

cudaError_t probe_places(cudaStream_t s, int *to, dim3 grid, dim3 block)
{
    return launch(s, places, grid, block, to);
}

cudaError_t probe_count(cudaStream_t s, unsigned *to, int *largest, dim3 grid, dim3 block)
{
    return launch(s, count, grid, block, to, largest);
}

cudaError_t probe_aligned(cudaStream_t s, int *p, int n)
{
    return launch(s, aligned, 1, n, p);
}

cudaError_t probe_poke(cudaStream_t s, char *p, int64_t at, char value)
{
    return launch(s, poke, 1, 1, p, at, value);
}
