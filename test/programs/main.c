/* main.c - runs random programs, seed by seed, each under eight modes that must agree to the bit.
 *
 * Usage: test_programs [-v] [-mMODE] [COUNT [FIRST]]
 *
 * COUNT seeds (200) from FIRST (1) on; $WEIR_SEED, if it is set, shifts them by as many times
 * 1,000,000. Seeds run in children of this process, SHARE at a time, so a crash is the failure of
 * one seed. The program of a seed that failed is printed, as small as it could be made. -v prints
 * programs and modes as they come, -m7 runs mode 7 alone (and 0 and 1, which it needs). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "programs/program.h"

enum { SHARE = 20, SECONDS = 300, TRIES = 400 };

/* The outcome of running a program under a mode. */
enum { SAME = 0, DIFFERS = 2, REFERENCE = 3, MESSAGE = 16 };

static bool loud;
static int  only = -1;      /* the one mode beside mode 1 that is run; -1: all */

/* ---- the library's allocations ---- */

static int64_t alive;

static void *counted_alloc(size_t bytes, void *user)
{
    (void)user;
    void *const p = malloc(bytes);
    if (p)
        __atomic_add_fetch(&alive, 1, __ATOMIC_RELAXED);
    return p;
}

static void counted_free(void *p, void *user)
{
    (void)user;
    if (p)
        __atomic_sub_fetch(&alive, 1, __ATOMIC_RELAXED);
    free(p);
}

/* ---- one seed ---- */

static void set_kernels(const mode *m)
{
    setenv("WEIR_CONV", kernel_set[m->kernels].conv, 1);
    setenv("WEIR_GEMM", kernel_set[m->kernels].gemm, 1);
    setenv("WEIR_ISA", isa_name[m->isa], 1);
}

/* A setting whose library is not in this build is replaced by Weir's own kernels. */
static void settle(mode *m)
{
    static int works[8];    /* 0: not tried, 1: yes, 2: no */
    int *const w = &works[m->kernels];
    if (*w == 0) {
        set_kernels(m);
        weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
        weir_tensor *const a = weir_fill(d, weir_2d(WEIR_F32, 8, 8), 1);
        weir_tensor *const x = weir_fill(d, weir_4d(WEIR_F32, 1, 2, 6, 6), 1);
        weir_tensor *const k = weir_fill(d, weir_4d(WEIR_F32, 2, 2, 3, 3), 1);
        *w = weir_matmul(a, a) && weir_conv2d(x, k, NULL, NULL) ? 1 : 2;
        weir_device_close(d);
    }
    if (*w == 2)
        m->kernels = 1;
}

static void run(const program *p, const mode *m, trace *t)
{
    const int64_t before = __atomic_load_n(&alive, __ATOMIC_RELAXED);
    set_kernels(m);
    play_program(p, m, t);
    const int64_t left = __atomic_load_n(&alive, __ATOMIC_RELAXED) - before;
    if (left != 0 && !t->bad) {
        snprintf(t->error, sizeof t->error, "%lld allocations are left", (long long)left);
        t->bad = true;
    }
}

/* The budget with the graph off; it grows by a tenth until every single call fits. */
static void run_eager(const program *p, mode *m, const trace *reference, trace *t)
{
    for (;; m->eager += 10) {
        m->eager_bytes = reference->live_peak / 100 * (size_t)m->eager;
        run(p, m, t);
        if (t->status != WEIR_ERR_BUDGET || m->eager >= 150)
            return;
        trace_free(t);
    }
}

/* Compares the mode's run with the reference's; text says how it failed. */
static int judge(const program *p, mode *m, const trace *reference, double tolerance, char *text,
                 size_t capacity, size_t *nodes)
{
    trace t;
    int   code = SAME;

    if (m->eager)
        run_eager(p, m, reference, &t);
    else
        run(p, m, &t);
    if (t.bad || t.status != WEIR_OK) {
        snprintf(text, capacity, "%s", t.bad ? t.error : weir_error());
        unsigned h = 0;
        for (const char *c = text; *c; c++)
            h = *c >= '0' && *c <= '9' ? h : h * 31 + (unsigned char)*c;
        code = MESSAGE + (int)(h % 200);
    } else if (!t.lossy && trace_differs(reference, &t, tolerance, text, capacity)) {
        code = DIFFERS;
    }
    *nodes = t.nodes;
    if (t.recomputed)
        count_add("note recomputes values (runs)", 1);
    if (t.refused)
        count_add("note share of the peak refused (runs)", 1);
    if (t.lossy)
        count_add("note lossy (runs)", 1);
    count_add("note measured graphs (runs)", t.measured);
    trace_free(&t);
    return code;
}

static bool reference_run(const program *p, const mode *m, trace *t)
{
    run(p, m, t);
    if (t->status == WEIR_OK && !t->bad)
        return true;
    printf("  the reference failed: %s\n", t->bad ? t->error : weir_error());
    return false;
}

static double tolerance_of(const program *p)
{
    return p->type == WEIR_F64 ? 1e-6 : 2e-3;
}

static void settle_all(const program *p, mode modes[MODES], mode *other)
{
    draw_modes(p, modes, other);
    for (int i = 0; i < MODES; i++)
        settle(&modes[i]);
    settle(other);
}

/* One mode, and with -v how long it took. */
static int look(const program *p, mode *m, const trace *reference, double tolerance, char *text,
                size_t capacity, size_t *nodes)
{
    struct timespec a, b;
    if (loud) {
        printf("  ");
        print_mode(m);
        fflush(stdout);
    }
    clock_gettime(CLOCK_MONOTONIC, &a);
    const int code = judge(p, m, reference, tolerance, text, capacity, nodes);
    clock_gettime(CLOCK_MONOTONIC, &b);
    if (loud)
        printf("    %zu nodes, %.1f ms\n", *nodes, (double)(b.tv_sec - a.tv_sec) * 1e3 +
               (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
    return code;
}

/* The index of the first mode that fails, -1 if none does; MODES: kernels differ. */
static int run_seed(program *p, char *text, size_t capacity)
{
    mode   modes[MODES], other;
    trace  reference;
    int    bad = -1;
    size_t nodes = 0;

    settle_all(p, modes, &other);
    if (loud)
        print_mode(&modes[0]);
    if (!reference_run(p, &modes[0], &reference)) {
        snprintf(text, capacity, "the reference failed");
        bad = 0;
    }
    count_mode(&modes[0], p->seed);
    for (int i = 1; i < MODES && bad < 0; i++) {
        if (only >= 0 && i > 1 && i != only)
            continue;
        if (look(p, &modes[i], &reference, 0, text, capacity, &nodes) != SAME)
            bad = i;
        count_mode(&modes[i], p->seed);
        if (i == 1) {
            p->nodes = nodes;
            settle_all(p, modes, &other);
        }
    }
    if (bad < 0 && p->smooth && other.kernels != modes[0].kernels) {
        count_add("note compared between kernels", 1);
        if (look(p, &other, &reference, tolerance_of(p), text, capacity, &nodes) != SAME)
            bad = MODES;
    }
    trace_free(&reference);
    return bad;
}

/* ---- shrinking, in children of the child: any try may crash ---- */

typedef struct quarry {
    int index, code, left;
} quarry;

static int try_once(const program *p, int index)
{
    char   text[512];
    mode   modes[MODES], other;
    trace  reference;
    size_t nodes;

    settle_all(p, modes, &other);
    mode *const m = index < MODES ? &modes[index] : &other;
    run(p, &modes[0], &reference);
    if (reference.bad || reference.status != WEIR_OK)
        return REFERENCE;
    return judge(p, m, &reference, index < MODES ? 0 : tolerance_of(p), text, sizeof text,
                 &nodes);
}

static int in_child(const program *p, int index)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS);
        if (!freopen("/dev/null", "w", stderr))
            _exit(1);
        _exit(try_once(p, index));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static bool still_fails(const program *p, void *ctx)
{
    quarry *const q = ctx;
    return q->left-- > 0 && in_child(p, q->index) == q->code;
}

/* Call in a process that has run nothing yet. */
static void shrink_and_print(uint64_t seed, int index, size_t nodes)
{
    static program p;
    quarry         q = {index, 0, TRIES};
    if (!make_program(&p, seed))
        return;
    p.nodes = nodes;
    q.code = in_child(&p, index);
    if (q.code != SAME && index > 0)
        shrink_program(&p, still_fails, &q);
    else
        printf("  (alone it does not fail, or is the reference: not shrunk)\n");
    mode modes[MODES], other;
    draw_modes(&p, modes, &other);
    printf("  ");
    print_mode(index < MODES ? &modes[index < 0 ? 0 : index] : &other);
    print_program(&p);
}

/* ---- children ---- */

static void child_run(int to, uint64_t first, uint64_t count)
{
    static program p;
    count_clear();
    for (uint64_t seed = first; seed < first + count; seed++) {
        char text[512] = "";
        dprintf(to, "begin %llu\n", (unsigned long long)seed);
        alarm(SECONDS);
        int bad = 0;
        if (!make_program(&p, seed))
            snprintf(text, sizeof text, "no program: %s", weir_error());
        else {
            if (loud)
                print_program(&p);
            bad = run_seed(&p, text, sizeof text);
        }
        count_send(to);
        if (bad >= 0)
            printf("FAILED seed %llu, mode %d: %s\n", (unsigned long long)seed, bad, text);
        fflush(stdout);
        dprintf(to, bad < 0 ? "pass %llu\n" : "fail %llu %d %zu\n", (unsigned long long)seed, bad,
                p.nodes);
    }
}

typedef struct tally {
    uint64_t passed, failed, next;
} tally;

/* In a child, so that this process has run nothing when it forks the next one. */
static void shrink_in_child(uint64_t seed, int index, size_t nodes)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        shrink_and_print(seed, index, nodes);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void hear(tally *t, const char *line)
{
    unsigned long long a;
    int                at = 0;
    size_t             nodes;
    if (sscanf(line, "count %llu %n", &a, &at) == 1 && at) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(line + at, "\n"), line + at);
        count_add(name, a);
    } else if (sscanf(line, "begin %llu", &a) == 1) {
        t->next = a + 1;
    } else if (strncmp(line, "pass", 4) == 0) {
        t->passed++;
    } else if (sscanf(line, "fail %llu %d %zu", &a, &at, &nodes) == 3) {
        t->failed++;
        shrink_in_child(a, at, nodes);
    }
}

/* Runs the seeds from t->next on; after a crash the remaining ones are left for the next call. */
static void run_share(tally *t, uint64_t count)
{
    int            ends[2];
    char           line[256];
    const uint64_t done = t->passed + t->failed, first = t->next;

    fflush(stdout);
    if (pipe(ends) != 0)
        exit(2);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        child_run(ends[1], first, count);
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    FILE *const from = fdopen(ends[0], "r");
    while (from && fgets(line, sizeof line, from))
        hear(t, line);
    fclose(from);
    int status = 0;
    waitpid(child, &status, 0);
    if (t->passed + t->failed - done < t->next - first) {
        printf("FAILED seed %llu: ended with %s %d\n", (unsigned long long)t->next - 1,
               WIFSIGNALED(status) ? "signal" : "code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        t->failed++;
        printf("  (test_programs -v 1 %llu shows in which mode)\n",
               (unsigned long long)t->next - 1);
    }
}

/* Reads the options; returns the index of COUNT. */
static int read_options(int argc, char **argv)
{
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++)
        if (strcmp(argv[at], "-v") == 0)
            loud = make_loud = true;
        else if (strncmp(argv[at], "-m", 2) == 0)
            only = atoi(argv[at] + 2);
    return at;
}

int main(int argc, char **argv)
{
    /* libgomp reads it when it is loaded: waiting threads must not spin where cores are few. */
    if (!getenv("OMP_WAIT_POLICY")) {
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execv("/proc/self/exe", argv);
    }
    const int         at = read_options(argc, argv);
    const char *const shift = getenv("WEIR_SEED");
    const uint64_t    count = at < argc ? strtoull(argv[at], NULL, 0) : 200;
    tally             t = {0, 0, at + 1 < argc ? strtoull(argv[at + 1], NULL, 0) : 1};

    t.next += shift ? strtoull(shift, NULL, 0) * 1000000 : 0;
    weir_set_allocator(counted_alloc, counted_free, NULL);
    for (const uint64_t end = t.next + count; t.next < end;)
        run_share(&t, end - t.next < SHARE ? end - t.next : SHARE);
    count_print(count);
    t.failed += only < 0 && !count_enough(count);
    printf("test_programs: %llu passed, %llu failed\n", (unsigned long long)t.passed,
           (unsigned long long)t.failed);
    return t.failed > 0;
}
