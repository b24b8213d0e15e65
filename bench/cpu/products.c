/* products.c - matrix products of a transformer's step by each implementation, as shares of the
 * processor's multiply-add peak.
 *
 * `products [THREADS [ROUNDS [TYPE] [SHAPE...]]]` prints a table. The type is f32, bf16 or f16; a
 * library that has no product of halves computes one in f32, between conversions. A shape is
 * 128x10x784 for m, n, k, with ta or tb behind it where an operand is stored transposed.
 *
 * In each round a loop of multiply-adds in registers and each implementation take turns; a time is
 * the smallest of all rounds, a share is that time's rate over the highest rate of the loop. For
 * bf16 the loop uses the processor's vector units for it, where there are some, else f32. Each
 * product runs on SETS sets of operands in turn, so that they come from memory as in a step, not
 * from the first caches. With one thread the clock is the process's own, which other processes do
 * not advance. Build: `cmake --build build --target products`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peak.h"
#include "weir.h"

enum { SETS = 4, LIBRARIES = 4, SHAPES = 13 };

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
    const double begin = peak_seconds(threads);
    check(weir_graph_run(j->graph));
    j->best = fmin(j->best, (peak_seconds(threads) - begin) / SETS);
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
        top = fmax(top, peak_rate(threads, type == WEIR_BF16));
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
    if (threads < 1 || threads > PEAK_THREADS || rounds < 1) {
        fprintf(stderr, "usage: products [THREADS [ROUNDS [TYPE] [SHAPE...]]]\n");
        return 2;
    }
    printf("%d thread%s, %d rounds, %s; GF/s (share of the peak)\n\n", threads,
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
