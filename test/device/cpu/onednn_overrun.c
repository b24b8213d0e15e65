/* onednn_overrun.c - finds calls of oneDNN that access memory outside their operands.
 *
 *     cc -std=gnu11 -O1 -fopenmp test/device/cpu/onednn_overrun.c -ldnnl -lm -o onednn_overrun
 *     ./onednn_overrun case PASS N CI CO H K STRIDE THREADS   PASS: forward grad_x grad_w matmul
 *     ./onednn_overrun sweep [COUNT [SEED]]                   COUNT drawn shapes of each pass
 *
 * The program does not use Weir. Operands (f32, channels-last, h x h pixels, padding k/2) lie next
 * to inaccessible pages. Each call is made in three child processes: with the data at the end of
 * its pages; with the data at their beginning (both with a user scratchpad of the size that the
 * library states); and with the library's own scratchpad, whose allocation also ends at such a
 * page. A run is bad if it faults (the program prints the region, read or write, and the distance),
 * changes the slack before the page, differs between repeats, or is far from plain loops in double.
 * For matmul CI, CO and H stand for k, n and m.
 *
 * A sweep ends with a table by implementation: how many calls were bad, separately for shapes of
 * the kind that docs/internals/onednn-1x1-weights.md describes. Builds with oneDNN 2.x and 3.x. */
#define _GNU_SOURCE /* for the kind of a fault */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "onednn_overrun.h"

typedef enum place { AT_END, AT_BEGIN, LIBRARY, PLACES } place;

static const char *const pass_name[] = {"forward", "grad_x", "grad_w", "matmul"};
static const char *const place_name[] = {"user scratchpad, data before a page",
                                         "user scratchpad, data after a page",
                                         "library scratchpad"};

enum { PAGE = 4096, REPEATS = 12, REGIONS = 512, SLACK = 0x5a, SECONDS = 10 };

/* ---- memory next to inaccessible pages ---- */

typedef struct region {
    const char    *name;
    unsigned char *base, *data; /* base: the first accessible page */
    size_t         capacity, bytes;
} region;

static region regions[REGIONS];
static int    nregions;
static bool   guarding; /* the library's allocations are guarded as well */

static region *guarded(const char *name, size_t bytes, place at)
{
    /* The library's threads allocate concurrently. */
    region *const r = &regions[__atomic_fetch_add(&nregions, 1, __ATOMIC_SEQ_CST)];
    r->name = name;
    r->bytes = bytes;
    r->capacity = (bytes + PAGE - 1) / PAGE * PAGE;
    unsigned char *const all =
        mmap(NULL, r->capacity + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || nregions == REGIONS - 1 ||
        (r->capacity && mprotect(all + PAGE, r->capacity, PROT_READ | PROT_WRITE) != 0)) {
        fprintf(stderr, "no memory for %s\n", name);
        _exit(3);
    }
    r->base = all + PAGE;
    memset(r->base, SLACK, r->capacity);
    r->data = r->base + (at == AT_BEGIN ? 0 : (r->capacity - bytes) & ~(size_t)63);
    return r;
}

static bool slack_changed(const region *r)
{
    for (size_t i = 0; i < r->capacity; i++) {
        unsigned char *const p = r->base + i;
        if ((p < r->data || p >= r->data + r->bytes) && *p != SLACK)
            return true;
    }
    return false;
}

/* The library allocates its own scratchpad with posix_memalign: these two override libc's. */
extern void *__libc_memalign(size_t align, size_t bytes);
extern void  __libc_free(void *p);

int posix_memalign(void **p, size_t align, size_t bytes)
{
    if (guarding && bytes > 0 && nregions < REGIONS - 8) {
        *p = guarded("library", bytes, AT_END)->data;
        return 0;
    }
    *p = __libc_memalign(align, bytes);
    return *p ? 0 : ENOMEM;
}

void free(void *p)
{
    for (int i = 0; i < nregions; i++)
        if (p && regions[i].data == p)
            return;
    __libc_free(p);
}

/* ---- the result of a call ---- */

typedef enum fate { CLEAN, NOTHING, FAULT, SLACK_CHANGED, DIFFERS, WRONG, HANGS, DIED } fate;

static const char *const fate_name[] = {"clean",   "none",  "FAULT", "SLACK",
                                        "DIFFERS", "WRONG", "HANGS", "DIED"};

typedef struct report {
    fate fate;
    char impl[48], text[96];
} report;

static report current; /* the child's */
static int    answer;  /* the child's pipe */

static void finish(fate f)
{
    current.fate = f;
    if (write(answer, &current, sizeof current) < 0)
        _exit(4);
    _exit(0);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    const ucontext_t    *u = context;
    const unsigned char *at = info->si_addr;
    const char *const    what = (u->uc_mcontext.gregs[REG_ERR] & 2) ? "write" : "read";
    snprintf(current.text, sizeof current.text, "%s elsewhere", what);
    for (int i = 0; i < nregions; i++) {
        const region *const r = &regions[i];
        if (at >= r->base - PAGE && at < r->base)
            snprintf(current.text, sizeof current.text, "%s %ld bytes before the %s", what,
                     (long)(r->data - at), r->name);
        else if (at >= r->base + r->capacity && at < r->base + r->capacity + PAGE)
            snprintf(current.text, sizeof current.text, "%s %ld bytes behind the %s of %zu", what,
                     (long)(at - r->data - (long)r->bytes), r->name, r->bytes);
    }
    finish(FAULT);
}

/* ---- one call, in the child ---- */

/* Operands in the order of `ids`; out: the one that the call writes. */
typedef struct call {
    dnnl_primitive_desc_t pd;
    int                   ids[4], n, out;
    desc                  d[4];
    region               *r[4];
} call;

static desc image(int n, int c, int h)
{
    return strided(4, (dnnl_dims_t){n, c, h, h}, (dnnl_dims_t){(int64_t)h * h * c, 1, h * c, c});
}

static desc matrix(int rows, int cols)
{
    return strided(2, (dnnl_dims_t){rows, cols}, (dnnl_dims_t){cols, 1});
}

static void describe(call *c, const shape *s)
{
    static const int ids[PASSES][4] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD},
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD}};
    static const int out[PASSES] = {2, 0, 1, 2};
    memcpy(c->ids, ids[s->p], sizeof c->ids);
    c->out = out[s->p];
    c->n = 3;
    if (s->p == MATMUL) {
        c->d[0] = matrix(s->h, s->ci), c->d[1] = matrix(s->ci, s->co);
        c->d[2] = matrix(s->h, s->co);
        c->pd = matmul_pd(SEE(c->d[0]), SEE(c->d[1]), SEE(c->d[2]));
        return;
    }
    c->d[0] = image(s->n, s->ci, s->h), c->d[2] = image(s->n, s->co, s->oh);
    c->d[1] = any(4, (dnnl_dims_t){s->co, s->ci, s->k, s->k});
    c->pd = conv_pd(s, SEE(c->d[0]), SEE(c->d[1]), SEE(c->d[2]));
}

/* The value of element i of operand `which`: small multiples of 1/8. */
static float value(int which, size_t i)
{
    uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)which * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 29)) * 0x94d049bb133111ebu;
    return (float)((int)(z >> 59) - 16) / 8;
}

static size_t count_of(const shape *s, int which)
{
    const size_t n = (size_t)s->n, ci = (size_t)s->ci, co = (size_t)s->co, h = (size_t)s->h;
    if (s->p == MATMUL)
        return which == 0 ? h * ci : which == 1 ? ci * co : h * co;
    return which == 0   ? n * ci * h * h
           : which == 1 ? ci * co * (size_t)s->k * (size_t)s->k
                        : n * co * (size_t)s->oh * (size_t)s->oh;
}

/* The expected result in plain order: matrices by rows, images (n,h,w,c), weights (o,i,kh,kw). */
static void expect_matmul(const shape *s, double *out)
{
    for (int i = 0; i < s->h; i++)
        for (int j = 0; j < s->co; j++)
            for (int k = 0; k < s->ci; k++)
                out[i * s->co + j] += (double)value(0, (size_t)(i * s->ci + k)) *
                                      (double)value(1, (size_t)(k * s->co + j));
}

static void expect_pixel(const shape *s, size_t pixel, int ih, int iw, int kh, int kw, double *out)
{
    const size_t n = pixel / (size_t)(s->oh * s->oh);
    for (int o = 0; o < s->co; o++)
        for (int c = 0; c < s->ci; c++) {
            const size_t x =
                ((n * (size_t)s->h + (size_t)ih) * (size_t)s->h + (size_t)iw) * (size_t)s->ci +
                (size_t)c;
            const size_t w = (size_t)(((o * s->ci + c) * s->k + kh) * s->k + kw);
            const size_t y = pixel * (size_t)s->co + (size_t)o;
            if (s->p == FORWARD)
                out[y] += (double)value(0, x) * (double)value(1, w);
            else if (s->p == GRAD_X)
                out[x] += (double)value(2, y) * (double)value(1, w);
            else
                out[w] += (double)value(2, y) * (double)value(0, x);
        }
}

static void expect(const shape *s, double *out)
{
    if (s->p == MATMUL) {
        expect_matmul(s, out);
        return;
    }
    const size_t pixels = (size_t)s->n * (size_t)(s->oh * s->oh);
    for (size_t i = 0; i < pixels; i++)
        for (int kh = 0; kh < s->k; kh++)
            for (int kw = 0; kw < s->k; kw++) {
                const int ih = (int)(i / (size_t)s->oh) % s->oh * s->stride - s->pad + kh;
                const int iw = (int)(i % (size_t)s->oh) * s->stride - s->pad + kw;
                if (ih >= 0 && ih < s->h && iw >= 0 && iw < s->h)
                    expect_pixel(s, i, ih, iw, kh, kw, out);
            }
}

/* Reorders weights from plain order to the library's, or back. */
static void reorder(seen from, void *a, seen to, void *b)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t      p = NULL;
    dnnl_memory_t         ma = NULL, mb = NULL;
    dnnl_memory_create(&ma, from, engine, a);
    dnnl_memory_create(&mb, to, engine, b);
    dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL);
    dnnl_primitive_create(&p, pd);
    dnnl_primitive_execute(p, stream, 2,
                           (dnnl_exec_arg_t[]){{DNNL_ARG_FROM, ma}, {DNNL_ARG_TO, mb}});
    dnnl_stream_wait(stream);
}

static desc plain_weights(const shape *s)
{
    const int k = s->k;
    return strided(4, (dnnl_dims_t){s->co, s->ci, k, k},
                   (dnnl_dims_t){(int64_t)s->ci * k * k, k * k, k, 1});
}

static void fill(const shape *s, int which, const call *c)
{
    const size_t n = count_of(s, which);
    float *const plain = malloc(n * sizeof *plain);
    for (size_t i = 0; i < n; i++)
        plain[i] = value(which, i);
    if (which == 1 && s->p != MATMUL) {
        const desc d = plain_weights(s);
        reorder(SEE(d), plain, dnnl_primitive_desc_query_md(c->pd, dnnl_query_weights_md, 0),
                c->r[1]->data);
    } else {
        memcpy(c->r[which]->data, plain, n * sizeof *plain);
    }
    free(plain);
}

static bool right(const shape *s, const call *c)
{
    const size_t  n = count_of(s, c->out);
    double *const want = calloc(n, sizeof *want);
    float        *got = (float *)(void *)c->r[c->out]->data;
    bool          good = true;
    if (s->p == GRAD_W) {
        const desc d = plain_weights(s);
        got = malloc(n * sizeof *got);
        reorder(dnnl_primitive_desc_query_md(c->pd, dnnl_query_diff_weights_md, 0), c->r[1]->data,
                SEE(d), got);
    }
    expect(s, want);
    for (size_t i = 0; i < n && good; i++) {
        good = fabs((double)got[i] - want[i]) <= 1e-4 * fmax(4, fabs(want[i]));
        if (!good)
            snprintf(current.text, sizeof current.text, "element %zu is %.6g, not %.6g", i,
                     (double)got[i], want[i]);
    }
    return good;
}

/* Places the operands in guarded memory; regions are mapped before the library runs. */
static void lay_out(call *c, const shape *s, place at)
{
    static const char *const names[4] = {"source", "weights", "destination", "scratchpad"};
    for (int i = 0; i < 3; i++) {
        seen d = SEE(c->d[i]);
        if (i == 1 && s->p != MATMUL)
            d = dnnl_primitive_desc_query_md(
                c->pd, s->p == GRAD_W ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
        c->r[i] = guarded(names[i], dnnl_memory_desc_get_size(d), at);
    }
    const seen   pad = dnnl_primitive_desc_query_md(c->pd, dnnl_query_scratchpad_md, 0);
    const size_t bytes = pad ? dnnl_memory_desc_get_size(pad) : 0;
    if (at != LIBRARY && bytes > 0)
        c->r[c->n++] = guarded(names[3], bytes, at);
    for (int i = 0; i < 3; i++)
        if (i != c->out)
            fill(s, i, c);
}

static void execute(call *c, dnnl_primitive_t p, const shape *s)
{
    dnnl_exec_arg_t args[4];
    for (int i = 0; i < c->n; i++) {
        const seen d =
            i == 3 ? dnnl_primitive_desc_query_md(c->pd, dnnl_query_scratchpad_md, 0)
            : i == 1 && s->p != MATMUL
                ? dnnl_primitive_desc_query_md(
                      c->pd, s->p == GRAD_W ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0)
                : SEE(c->d[i]);
        args[i].arg = c->ids[i];
        dnnl_memory_create(&args[i].memory, d, engine, c->r[i]->data);
    }
    const size_t         bytes = c->r[c->out]->bytes;
    unsigned char *const first = malloc(bytes);
    for (int i = 0; i < REPEATS; i++) {
        memset(c->r[c->out]->data, 0x7f, bytes);
        if (dnnl_primitive_execute(p, stream, c->n, args) != dnnl_success)
            finish(DIED);
        dnnl_stream_wait(stream);
        if (i == 0)
            memcpy(first, c->r[c->out]->data, bytes);
        if (memcmp(first, c->r[c->out]->data, bytes) != 0)
            finish(DIFFERS);
        for (int k = 0; k < nregions; k++)
            if (slack_changed(&regions[k])) {
                snprintf(current.text, sizeof current.text, "beside the %s", regions[k].name);
                finish(SLACK_CHANGED);
            }
        if (i == 0 && !right(s, c))
            finish(WRONG);
    }
}

static void child(const shape *s, place at)
{
    const struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
    alarm(SECONDS);
    omp_set_num_threads(s->threads);
    dnnl_engine_create(&engine, dnnl_cpu, 0);
    dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    dnnl_primitive_attr_create(&attr);
    dnnl_primitive_attr_set_scratchpad_mode(attr, at == LIBRARY ? dnnl_scratchpad_mode_library
                                                                : dnnl_scratchpad_mode_user);
    call             c = {0};
    dnnl_primitive_t p = NULL;
    const char      *impl = "none";
    describe(&c, s);
    if (!c.pd)
        finish(NOTHING);
    dnnl_primitive_desc_query(c.pd, dnnl_query_impl_info_str, 0, &impl);
    snprintf(current.impl, sizeof current.impl, "%s", impl);
    if (strstr(impl, "ref"))
        finish(NOTHING);
    lay_out(&c, s, at);
    guarding = at == LIBRARY;
    if (dnnl_primitive_create(&p, c.pd) != dnnl_success)
        finish(NOTHING);
    execute(&c, p, s);
    finish(CLEAN);
}

/* ---- the parent ---- */

static report run(const shape *s, place at)
{
    report r = {.fate = DIED};
    int    ends[2];
    if (pipe(ends) != 0)
        exit(3);
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        answer = ends[1];
        child(s, at);
    }
    close(ends[1]);
    const bool told = read(ends[0], &r, sizeof r) == (ssize_t)sizeof r;
    int        status = 0;
    close(ends[0]);
    waitpid(pid, &status, 0);
    if (!told)
        r.fate = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? HANGS : DIED;
    return r;
}

/* True for the kind of call that docs/internals/onednn-1x1-weights.md names. */
static bool known(const shape *s, const char *impl)
{
    const int block = strstr(impl, "avx512") ? 16 : 8;
    return s->p == GRAD_W && strstr(impl, "jit_1x1") && s->k == 1 && s->stride > 1 &&
           s->h % s->stride == 0 && s->ci < block;
}

static void print_shape(const shape *s)
{
    printf("%-8s n %2d ci %3d co %3d h %3d k %d stride %d threads %d", pass_name[s->p], s->n, s->ci,
           s->co, s->h, s->k, s->stride, s->threads);
}

/* Makes the call with all three kinds of memory; true if one was bad. impl: the implementation that
 * ran, "" if none did. */
static bool examine(shape *s, bool all, char impl[48])
{
    bool bad = false;
    s->pad = s->k / 2;
    s->oh = s->p == MATMUL ? 1 : (s->h + 2 * s->pad - s->k) / s->stride + 1;
    impl[0] = 0;
    for (int at = 0; at < PLACES; at++) {
        const report r = run(s, (place)at);
        const bool   worse = r.fate != CLEAN && r.fate != NOTHING;
        if (r.fate != NOTHING && r.impl[0])
            memcpy(impl, r.impl, sizeof r.impl);
        bad |= worse;
        if (!worse && !all)
            continue;
        print_shape(s);
        printf("  %s: %s: %s %s\n", r.impl, place_name[at], fate_name[r.fate], r.text);
        fflush(stdout);
    }
    return bad;
}

typedef struct row {
    char label[64];
    int  bad[2], clean[2]; /* [known] */
} row;

static row rows[128];
static int nrows;

static void count(const shape *s, const char *impl, bool bad)
{
    char label[64];
    int  i = 0;
    snprintf(label, sizeof label, "%-8s %s", pass_name[s->p], impl);
    while (i < nrows && strcmp(rows[i].label, label) != 0)
        i++;
    if (i == nrows && nrows < 127)
        memcpy(rows[nrows++].label, label, sizeof label);
    (bad ? rows[i].bad : rows[i].clean)[known(s, impl)]++;
}

static uint64_t seed;

static int pick(const int *from, size_t n)
{
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return from[(z >> 33) % n];
}

#define PICK(...) pick((const int[]){__VA_ARGS__}, sizeof(const int[]){__VA_ARGS__} / sizeof(int))

static shape draw(pass p)
{
    shape s = {.p = p,
               .n = PICK(1, 2, 3, 4, 5, 7, 8),
               .ci = PICK(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64),
               .co = PICK(1, 2, 5, 8, 15, 16, 17, 32, 40, 64),
               .h = PICK(2, 4, 6, 9, 12, 14, 16, 18, 28, 30, 32, 56, 64),
               .k = PICK(1, 1, 1, 1, 1, 3),
               .stride = PICK(1, 2, 2, 2, 3),
               .threads = PICK(1, 2, 2, 3, 4)};
    if (p == MATMUL)
        s.n = s.k = s.stride = 1;
    return s;
}

static void sweep(int shapes)
{
    for (int i = 0; i < shapes; i++)
        for (int p = 0; p < PASSES; p++) {
            shape      s = draw((pass)p);
            char       impl[48];
            const bool bad = examine(&s, false, impl);
            if (impl[0])
                count(&s, impl, bad);
        }
    printf("\n%-40s %8s %8s %8s %8s\n", "", "known", "", "other", "");
    printf("%-40s %8s %8s %8s %8s\n", "pass, implementation", "bad", "clean", "bad", "clean");
    for (int i = 0; i < nrows; i++)
        printf("%-40s %8d %8d %8d %8d\n", rows[i].label, rows[i].bad[1], rows[i].clean[1],
               rows[i].bad[0], rows[i].clean[0]);
}

int main(int argc, char **argv)
{
    const dnnl_version_t *const v = dnnl_version();
    printf("oneDNN %d.%d.%d (%s)\n", v->major, v->minor, v->patch, v->hash);
    fflush(stdout);
    if (argc == 10 && strcmp(argv[1], "case") == 0) {
        shape s = {.n = atoi(argv[3]),
                   .ci = atoi(argv[4]),
                   .co = atoi(argv[5]),
                   .h = atoi(argv[6]),
                   .k = atoi(argv[7]),
                   .stride = atoi(argv[8]),
                   .threads = atoi(argv[9])};
        char  impl[48];
        while (s.p < MATMUL && strcmp(argv[2], pass_name[s.p]) != 0)
            s.p++;
        return examine(&s, true, impl);
    }
    if (argc >= 2 && argc <= 4 && strcmp(argv[1], "sweep") == 0) {
        seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
        sweep(argc > 2 ? atoi(argv[2]) : 200);
        return 0;
    }
    fprintf(stderr, "usage: see the first lines of onednn_overrun.c\n");
    return 2;
}
