/* peak.h - the highest rate of f32 multiply-adds of a processor, for shares of it. */
#ifndef BENCH_CPU_PEAK_H
#define BENCH_CPU_PEAK_H

enum { PEAK_THREADS = 64 };     /* the most */

/* A clock in seconds: of one thread the processor time of the process, which other processes do not
 * advance; of several the time of day. */
double peak_seconds(int threads);

/* Multiplications and additions per second of as many threads, from a run of some hundredths of a
 * second; 0 where there is no loop for the processor. */
double peak_rate(int threads);

#endif
