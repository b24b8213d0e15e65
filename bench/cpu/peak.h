/* peak.h - the highest rate of multiply-adds of a processor, in f32 or of pairs of bf16 that its
 * vector units add to f32, for shares of it. */
#ifndef BENCH_CPU_PEAK_H
#define BENCH_CPU_PEAK_H

#include <stdbool.h>

enum { PEAK_THREADS = 64 };     /* the most */

/* A clock in seconds: of one thread the processor time of the process, which other processes do not
 * advance; of several the time of day. */
double peak_seconds(int threads);

/* Multiplications and additions per second of as many threads, from a run of some hundredths of a
 * second. bf16: of pairs, where the processor has AVX512_BF16, else of f32. 0 where there is no
 * loop for the processor. */
double peak_rate(int threads, bool bf16);

#endif
