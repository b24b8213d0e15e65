/* peak.c - times multiply-adds in registers: independent chains, as many as hide the latency of
 * one. See peak.h. */
#include "peak.h"

#include <pthread.h>
#include <time.h>

double peak_seconds(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum { CHAINS = 12, TURNS = 400000 };

#if defined(__x86_64__)
#define LOOP(name, target_, bytes, terms, fma)                                                     \
    typedef float vec_##name __attribute__((vector_size(bytes)));                                  \
    static __attribute__((target(target_))) double name(void)                                      \
    {                                                                                              \
        vec_##name a[CHAINS], x = (vec_##name){0} + 0.5f, y = (vec_##name){0} + 0.25f;             \
        for (int i = 0; i < CHAINS; i++)                                                           \
            a[i] = x * (float)i;                                                                   \
        for (int t = 0; t < TURNS; t++)                                                            \
            __asm__ volatile(                                                                      \
                fma("%0") fma("%1") fma("%2") fma("%3") fma("%4") fma("%5") fma("%6") fma("%7")    \
                    fma("%8") fma("%9") fma("%10") fma("%11")                                      \
                : "+v"(a[0]), "+v"(a[1]), "+v"(a[2]), "+v"(a[3]), "+v"(a[4]), "+v"(a[5]),          \
                  "+v"(a[6]), "+v"(a[7]), "+v"(a[8]), "+v"(a[9]), "+v"(a[10]), "+v"(a[11])         \
                : "v"(x), "v"(y));                                                                 \
        return 2.0 * (terms) * CHAINS * TURNS * (bytes) / sizeof(float);                           \
    }
#define FMA(to)   "vfmadd231ps %12, %13, " to "\n\t"
#define PAIRS(to) "vdpbf16ps %12, %13, " to "\n\t"
LOOP(peak_pairs, "avx512f,avx512bf16", 64, 2, PAIRS)
LOOP(peak_avx512, "avx512f", 64, 1, FMA)
LOOP(peak_avx2, "avx2,fma", 32, 1, FMA)

/* Runs the loop; returns its operations. */
static double peak_loop(bool bf16)
{
    __builtin_cpu_init();
    if (bf16 && __builtin_cpu_supports("avx512bf16"))
        return peak_pairs();
    if (__builtin_cpu_supports("avx512f"))
        return peak_avx512();
    return __builtin_cpu_supports("fma") ? peak_avx2() : 0;
}
#else
static double peak_loop(bool bf16)
{
    (void)bf16;
    return 0;
}
#endif

typedef struct job {
    bool   bf16;
    double operations;
} job;

static void *peak_thread(void *ctx)
{
    job *const j = ctx;
    j->operations = peak_loop(j->bf16);
    return NULL;
}

double peak_rate(int threads, bool bf16)
{
    pthread_t    id[PEAK_THREADS];
    job          jobs[PEAK_THREADS];
    double       all = 0;
    const double begin = peak_seconds(threads);
    for (int i = 0; i < threads; i++)
        jobs[i].bf16 = bf16;
    for (int i = 1; i < threads; i++)
        if (pthread_create(&id[i], NULL, peak_thread, &jobs[i]) != 0)
            return 0;
    peak_thread(&jobs[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(id[i], NULL);
    for (int i = 0; i < threads; i++)
        all += jobs[i].operations;
    return all / (peak_seconds(threads) - begin);
}
