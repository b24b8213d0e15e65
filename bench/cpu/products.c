/* products.c - matrix products of a transformer's step by each implementation, as shares of the
 * processor's multiply-add peak.
 *
 * `products [THREADS [ROUNDS [TYPE] [SHAPE...]]]` prints a table. The type is f32, bf16 or f16; a
 * library that has no product of halves computes one in f32, between conversions. A shape is
 * 128x10x784 for m, n, k, with ta or tb behind it where an operand is stored transposed.
 *
 * In each round a loop of multiply-adds in registers and each implementation take turns; a time is
 * the smallest of all rounds, a share is that time's rate over the highest rate of the loop. Each
 * product runs on SETS sets of operands in turn, so that they come from memory as in a step, not
 * from the first caches. With one thread the clock is the process's own, which other processes do
 * not advance. Build: `cmake --build build --target products`. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weir.h"

enum { SETS = 4, LIBRARIES = 4, SHAPES = 13, MOST_THREADS = 64 };

typedef struct shape {
    int64_t m, n, k;
    bool    ta, tb;
} shape;

/* Forward (linear: the weight is stored n x k), gradient of x (dy w), gradient of w (dy^T x). */
static const shape shapes[SHAPES] = {
    {2048, 384, 384, false, true},   {2048, 1152, 384, false, true},
    {2048, 1536, 384, false, true},  {2048, 384, 1536, false, true},
    {2048, 384, 384, false, false},  {2048, 384, 1152, false, false},
    {2048, 384, 1536, false, false}, {2048, 1536, 384, false, false},
    {384, 384, 2048, true, false},   {1152, 384, 2048, true, false},
    {1536, 384, 2048, true, false},  {384, 1536, 2048, true, false},
    {2048, 256, 384, false, true},
};

static const char *const libraries[LIBRARIES] = {"", "own", "openblas", "onednn"};

static double seconds(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the peak: independent multiply-adds in registers ---- */

enum { CHAINS = 12, TURNS = 400000 };

#if defined(__x86_64__)
#define LOOP(name, target_, bytes, fma)                                                            \
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
        return 2.0 * CHAINS * TURNS * (bytes) / sizeof(float);                                     \
    }
#define FMA(to) "vfmadd231ps %12, %13, " to "\n\t"
LOOP(peak_avx512, "avx512f", 64, FMA)
LOOP(peak_avx2, "avx2,fma", 32, FMA)

/* Runs the loop; returns its operations. */
static double peak_loop(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return peak_avx512();
    return __builtin_cpu_supports("fma") ? peak_avx2() : 0;
}
#else
static double peak_loop(void)
{
    return 0;
}
#endif

static void *peak_thread(void *operations)
{
    *(double *)operations = peak_loop();
    return NULL;
}

/* Operations per second of all threads; 0 if this processor has no loop. */
static double peak(int threads)
{
    pthread_t    id[MOST_THREADS];
    double       done[MOST_THREADS], all = 0;
    const double begin = seconds(threads);
    for (int i = 1; i < threads; i++)
        if (pthread_create(&id[i], NULL, peak_thread, &done[i]) != 0)
            return 0;
    peak_thread(&done[0]);
    all += done[0];
    for (int i = 1; i < threads; i++) {
        pthread_join(id[i], NULL);
        all += done[i];
    }
    return all / (seconds(threads) - begin);
}

/* ---- the products ---- */

typedef struct job {
    weir_device *dev;
    weir_graph  *graph;
    weir_tensor *a[SETS], *b[SETS], *c[SETS];
    double       best; /* seconds of one product */
} job;

static void check(weir_status s)
{
    if (s != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error());
        exit(1);
    }
}

static weir_tensor *operand(job *j, weir_dtype type, int64_t rows, int64_t cols)
{
    weir_tensor *const t = weir_input(j->dev, weir_2d(WEIR_F32, rows, cols));
    float *const       x = malloc((size_t)(rows * cols) * sizeof *x);
    if (!t || !x)
        exit(1);
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = (float)(i * 7919 % 2003) * 0.001f - 1;
    check(weir_write(t, x, (size_t)(rows * cols) * sizeof *x));
    free(x);
    if (type == WEIR_F32)
        return t;
    weir_tensor *const half = weir_retain(weir_cast(t, type));
    weir_release(t);
    return half;
}

/* False if the library is missing. */
static bool prepare(job *j, const shape *s, weir_dtype type, const char *library, int threads)
{
    *j = (job){.best = INFINITY};
    setenv("WEIR_GEMM", library, 1);
    j->dev = weir_device_open("cpu", &(weir_device_options){.threads = threads});
    for (int i = 0; i < SETS; i++) {
        j->a[i] = s->ta ? operand(j, type, s->k, s->m) : operand(j, type, s->m, s->k);
        j->b[i] = s->tb ? operand(j, type, s->n, s->k) : operand(j, type, s->k, s->n);
    }
    j->graph = weir_graph_begin(j->dev);
    for (int i = 0; i < SETS; i++)
        j->c[i] = weir_keep(weir_matmul_t(j->a[i], j->b[i], s->ta, s->tb));
    if (weir_graph_end(j->graph, NULL) == WEIR_OK && weir_graph_run(j->graph) == WEIR_OK)
        return true;
    j->best = NAN;
    return false;
}

static void measure(job *j, int threads)
{
    const double begin = seconds(threads);
    check(weir_graph_run(j->graph));
    j->best = fmin(j->best, (seconds(threads) - begin) / SETS);
}

static void finish(job *j)
{
    weir_graph_free(j->graph);
    for (int i = 0; i < SETS; i++) {
        weir_release(j->a[i]);
        weir_release(j->b[i]);
    }
    weir_device_close(j->dev);
}

/* Measures a shape; adds each library's time, weighted equally, to total. */
static void row(const shape *s, weir_dtype type, int threads, int rounds,
                double total[LIBRARIES + 1])
{
    const double operations = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    job          jobs[LIBRARIES];
    double       top = 0;
    for (int i = 0; i < LIBRARIES; i++)
        prepare(&jobs[i], s, type, libraries[i], threads);
    for (int r = 0; r < rounds; r++) {
        top = fmax(top, peak(threads));
        for (int i = 0; i < LIBRARIES; i++)
            if (!isnan(jobs[i].best))
                measure(&jobs[i], threads);
    }
    printf("| %lldx%lldx%lld%s%s | %.0f |", (long long)s->m, (long long)s->n, (long long)s->k,
           s->ta ? " A^T" : "", s->tb ? " B^T" : "", top * 1e-9);
    for (int i = 0; i < LIBRARIES; i++) {
        const double rate = operations / jobs[i].best;
        printf(" %.0f (%.2f) |", rate * 1e-9, rate / top);
        total[i] += jobs[i].best;
        finish(&jobs[i]);
    }
    total[LIBRARIES] += operations / top;
    printf("\n");
    fflush(stdout);
}

static bool parse(const char *text, shape *s)
{
    long long m, n, k;
    int       end = 0;
    if (sscanf(text, "%lldx%lldx%lld%n", &m, &n, &k, &end) != 3 || m < 1 || n < 1 || k < 1)
        return false;
    *s = (shape){m, n, k, strstr(text + end, "ta") != NULL, strstr(text + end, "tb") != NULL};
    return true;
}

static bool parse_type(const char *text, weir_dtype *type)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_BF16, WEIR_F16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(text, weir_dtype_name(types[i])) == 0) {
            *type = types[i];
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    const int  threads = argc > 1 ? atoi(argv[1]) : 1, rounds = argc > 2 ? atoi(argv[2]) : 10;
    weir_dtype type = WEIR_F32;
    const int  first = argc > 3 && parse_type(argv[3], &type) ? 4 : 3;
    double     total[LIBRARIES + 1] = {0};
    if (threads < 1 || threads > MOST_THREADS || rounds < 1) {
        fprintf(stderr, "usage: products [THREADS [ROUNDS [TYPE] [SHAPE...]]]\n");
        return 2;
    }
    printf("%d thread%s, %d rounds, %s; GF/s (share of the peak of f32)\n\n", threads,
           threads > 1 ? "s" : "", rounds, weir_dtype_name(type));
    printf("| m x n x k | peak | chosen | own | OpenBLAS | oneDNN |\n");
    printf("|---|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < (argc > first ? argc - first : SHAPES); i++) {
        shape own;
        if (argc > first && !parse(argv[first + i], &own)) {
            fprintf(stderr, "%s is no shape\n", argv[first + i]);
            return 2;
        }
        row(argc > first ? &own : &shapes[i], type, threads, rounds, total);
    }
    printf("| all: share of the peak | |");
    for (int i = 0; i < LIBRARIES; i++)
        printf(" %.2f |", total[LIBRARIES] / total[i]);
    printf("\n");
    return 0;
}
