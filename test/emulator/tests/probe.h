/* probe.h - small kernels for tests of the emulated card. Each call is one launch. */
#ifndef WEIR_TEST_EMULATOR_TESTS_PROBE_H
#define WEIR_TEST_EMULATOR_TESTS_PROBE_H

#include <cuda_runtime_api.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* p[i] = value, i < n <= 1024: one block. */
cudaError_t probe_set(cudaStream_t s, int *p, int n, int value);
/* to[i] += from[i]. */
cudaError_t probe_add(cudaStream_t s, int *to, const int *from, int n);
/* p[i] = p[i] * by + plus. */
cudaError_t probe_step(cudaStream_t s, int *p, int n, int by, int plus);

/* to[i] = from[n - 1 - i] through shared memory, n threads, with or without a barrier. */
cudaError_t probe_reverse(cudaStream_t s, int *to, const int *from, int n, bool barrier);
/* *to = the sum of n <= 1024 ints, a power of two, by halving: log2 n + 1 barriers. */
cudaError_t probe_sum(cudaStream_t s, int *to, const int *from, int n);
/* Each group of `width` lanes: to[i] = sum of the group's from (butterfly). */
cudaError_t probe_group_sums(cudaStream_t s, int *to, const int *from, int n, int width);
/* The first half of each warp sums from[i] alone, the other half the squares; 64-bit shuffles. */
cudaError_t probe_halves(cudaStream_t s, int64_t *to, const int *from, int n);
/* to[i] = up, down, indexed by i * 7, ballot of from, popc of ballot: 4 ints and a mask a lane. */
cudaError_t probe_lanes(cudaStream_t s, int *to, const int *from, int n);
/* Threads below `stay` pass two barriers, the others end at once; to[i] of the former:
 * __syncthreads_count of from[i] > 0, or, and. */
cudaError_t probe_votes(cudaStream_t s, int *to, const int *from, int n, int stay);
/* Half of the threads wait at a barrier, the others for their warp: a deadlock on a card. */
cudaError_t probe_hang(cudaStream_t s, int n);
/* to[linear thread] = x + 10 y + 100 z + 1000 blockIdx.x + ..., for every shape. */
cudaError_t probe_places(cudaStream_t s, int *to, dim3 grid, dim3 block);
/* *to = number of threads that ran, *largest = largest thread number, by atomics. */
cudaError_t probe_count(cudaStream_t s, unsigned *to, int *largest, dim3 grid, dim3 block);
/* p[i] = misalignment of 16-byte values on the stack of thread i. */
cudaError_t probe_aligned(cudaStream_t s, int *p, int n);
/* Writes to p[at]. */
cudaError_t probe_poke(cudaStream_t s, char *p, int64_t at, char value);

#ifdef __cplusplus
}
#endif

#endif
