/* memory_speed.c - layer norm and GELU, forward and with their gradients, as multiples of the time
 * in which memory copies as many bytes as they must read and write.
 *
 * `memory_speed [THREADS [ROUNDS [TYPE]]]` prints a table. The type is f32, f64, bf16 or f16.
 *
 * Forward reads x and writes y; with the gradient, dy and x are read and dx is written, too. A copy
 * of n bytes reads and writes n. In each round the copy and each case take turns, each on SETS sets
 * of operands; a time is the smallest of all rounds. With one thread the clock is the process's
 * own, which other processes do not advance. Build: `cmake --build build --target memory_speed`. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weir.h"

enum { SETS = 8, CASES = 4, SHAPES = 3, MOST_THREADS = 64 };

static const int64_t shapes[SHAPES][2] = {{2048, 384}, {4096, 768}, {512, 1024}};

static const struct {
    const char *name;
    bool        norm, gradient;
    double      copies;             /* of x that move as many bytes */
} cases[CASES] = {
    {"layer norm", true, false, 1},
    {"with gradient", true, true, 2.5},
    {"GELU", false, false, 1},
    {"with gradient", false, true, 2.5},
};

static double seconds(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(weir_status s)
{
    if (s != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_error());
        exit(1);
    }
}

/* ---- the copy ---- */

typedef struct copy {
    const char *from;
    char       *to;
    size_t      n;
} copy;

static void *copy_thread(void *c)
{
    const copy *const k = c;
    memcpy(k->to, k->from, k->n);
    return NULL;
}

/* Copies n bytes, a part in each thread. */
static void copy_all(char *to, const char *from, size_t n, int threads)
{
    pthread_t    id[MOST_THREADS];
    copy         part[MOST_THREADS] = {{0}};
    const size_t each = n / (size_t)threads;
    for (int i = 0; i < threads; i++)
        part[i] = (copy){from + each * (size_t)i, to + each * (size_t)i, each};
    for (int i = 1; i < threads; i++)
        if (pthread_create(&id[i], NULL, copy_thread, &part[i]) != 0)
            exit(1);
    copy_thread(&part[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(id[i], NULL);
}

/* ---- the cases ---- */

static weir_tensor *drawn(weir_device *dev, weir_desc d, weir_dtype type, double about)
{
    const int64_t n = d.dim[0] * (d.ndim > 1 ? d.dim[1] : 1);
    float *const  x = malloc((size_t)n * sizeof *x);
    weir_tensor  *t = weir_param(dev, d, NULL);
    if (!t || !x)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(about + (double)(i * 7919 % 2003) * 0.002 - 2);
    check(weir_write(t, x, (size_t)n * sizeof *x));
    free(x);
    if (type == WEIR_F32)
        return t;
    weir_tensor *const cast = weir_retain(weir_cast(weir_detach(t), type));
    check(weir_tensor_set_needs_grad(cast, true));
    weir_release(t);
    return cast;
}

static weir_graph *record(weir_device *dev, int of, const int64_t *shape, weir_dtype type)
{
    weir_tensor *x[SETS], *dy[SETS];
    weir_tensor *scale = drawn(dev, weir_1d(WEIR_F32, shape[1]), WEIR_F32, 1);
    weir_tensor *bias = drawn(dev, weir_1d(WEIR_F32, shape[1]), WEIR_F32, 0);
    for (int i = 0; i < SETS; i++) {
        x[i] = drawn(dev, weir_2d(WEIR_F32, shape[0], shape[1]), type, 0);
        dy[i] = drawn(dev, weir_2d(WEIR_F32, shape[0], shape[1]), type, 0.1);
    }
    weir_graph *const g = weir_graph_begin(dev);
    for (int i = 0; i < SETS; i++) {
        weir_tensor *const y = cases[of].norm ? weir_layer_norm(x[i], scale, bias, 0)
                                              : weir_gelu(x[i]);
        weir_tensor *const wrt[] = {x[i], scale, bias};
        weir_tensor       *made[3] = {NULL};
        weir_keep(y);
        if (cases[of].gradient)
            check(weir_gradients_from(y, dy[i], cases[of].norm ? 3 : 1, wrt, made));
        for (int k = 0; k < 3 && made[k]; k++)
            weir_keep(made[k]);
    }
    check(weir_graph_end(g, NULL));
    check(weir_graph_run(g));
    return g;
}

/* Prints a line: the copy's rate, and each case as a multiple of it. */
static void row(const int64_t *shape, weir_dtype type, int threads, int rounds)
{
    weir_device *dev[CASES];
    weir_graph  *g[CASES];
    const size_t bytes = (size_t)(shape[0] * shape[1]) * weir_dtype_size(type);
    char *const  from = malloc(bytes * SETS), *const to = malloc(bytes * SETS);
    double       best[CASES], copied = INFINITY;
    if (!from || !to)
        exit(1);
    memset(from, 1, bytes * SETS);
    memset(to, 1, bytes * SETS);
    for (int i = 0; i < CASES; i++) {
        dev[i] = weir_device_open("cpu", &(weir_device_options){.threads = threads});
        g[i] = record(dev[i], i, shape, type);
        best[i] = INFINITY;
    }
    for (int r = 0; r < rounds; r++) {
        const double begin = seconds(threads);
        copy_all(to, from, bytes * SETS, threads);
        copied = fmin(copied, seconds(threads) - begin);
        for (int i = 0; i < CASES; i++) {
            const double start = seconds(threads);
            check(weir_graph_run(g[i]));
            best[i] = fmin(best[i], seconds(threads) - start);
        }
    }
    printf("| %lldx%lld | %.1f |", (long long)shape[0], (long long)shape[1],
           2 * (double)bytes * SETS / copied * 1e-9);
    for (int i = 0; i < CASES; i++) {
        printf(" %.2f |", best[i] / (copied * cases[i].copies));
        weir_graph_free(g[i]);
        weir_device_close(dev[i]);
    }
    printf("\n");
    fflush(stdout);
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_BF16, WEIR_F16};
    const int  threads = argc > 1 ? atoi(argv[1]) : 1, rounds = argc > 2 ? atoi(argv[2]) : 10;
    weir_dtype type = WEIR_F32;
    for (int i = 0; i < 4 && argc > 3; i++)
        if (strcmp(argv[3], weir_dtype_name(types[i])) == 0)
            type = types[i];
    if (threads < 1 || threads > MOST_THREADS || rounds < 1) {
        fprintf(stderr, "usage: memory_speed [THREADS [ROUNDS [TYPE]]]\n");
        return 2;
    }
    printf("%d thread%s, %d rounds, %s; time / time of a copy of the same bytes\n\n", threads,
           threads > 1 ? "s" : "", rounds, weir_dtype_name(type));
    printf("| rows x width | copy, GB/s |");
    for (int i = 0; i < CASES; i++)
        printf(" %s |", cases[i].name);
    printf("\n|---|---:|---:|---:|---:|---:|\n");
    for (int i = 0; i < SHAPES; i++)
        row(shapes[i], type, threads, rounds);
    return 0;
}
