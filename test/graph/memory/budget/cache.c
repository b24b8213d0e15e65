/* cache.c - plans in a folder are found again; whatever is wrong with a file or the folder, the
 * plan is the same. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/env.h"
#include "core/hash.h"
#include "core/mem.h"
#include "graph/memory/budget/cache.h"
#include "graph/memory/policies/table.h"
#include "graph/memory/problem/offsets.h"
#include "graph/memory/problem/lower.h"
#include "graph/fixture.h"
#include "temp_folder.h"
#include "graph/memory/problems.h"
#include "graph/train.h"

enum { ALIGN = 64, HEAD = 80, MOST_FILE = 1 << 20 };

static weir_status assign_offsets(void *ctx, const weir_schedule *s, size_t limit, size_t *height)
{
    (void)limit;
    weir_offsets *const   l = ctx;
    const weir_status status = weir_assign_offsets(s, ALIGN, NULL, l);
    *height = l->height;
    return status;
}

typedef struct plan {
    double         extra;
    size_t         height;
    weir_cache_use use;
} plan;

/* Plans the step within 60 % with the folder as cache. */
static weir_status plan_in(const char *path, const weir_mem_problem *p, plan *a)
{
    size_t whole = 0;

    for (uint32_t k = 0; k < p->tensors.n; k++)
        whole += p->tensors.at[k].bytes;
    const weir_cache_key key = {.align = ALIGN, .whole = whole, .times = true};
    weir_cache           cache = {0};
    weir_frontier        l = {.whole = whole};
    weir_offsets         offsets = {0};
    weir_fit             f = {.p = p,
                              .limit = whole * 3 / 5,
                              .align = ALIGN,
                              .moves = 600,
                              .place = assign_offsets,
                              .ctx = &offsets};
    weir_status status = weir_policy_find("auto", &f.policy, &f.variant);
    if (status == WEIR_OK)
        status = weir_cache_open(&cache, path, p, &key);
    if (status == WEIR_OK)
        status = weir_cache_build_frontier(&cache, &l, &f);
    if (status == WEIR_OK)
        status = weir_cache_fit(&cache, &l, &f);
    *a = (plan){status == WEIR_OK ? f.s.time - p->time : 0, f.height, cache.use};
    weir_cache_close(&cache);
    weir_frontier_free(&l);
    weir_fit_free(&f);
    weir_offsets_free(&offsets);
    return status;
}

static bool same(const plan *a, const plan *b)
{
    return a->extra == b->extra && a->height == b->height;
}

/* Finds the one file in the folder ("" if it is empty), its mode, and the number of files. */
static int one_file(const char *folder_path, char *path, size_t n, mode_t *mode)
{
    DIR *const d = opendir(folder_path);
    int        files = 0;

    path[0] = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        struct stat st;
        if (e->d_name[0] == '.')
            continue;
        files++;
        snprintf(path, n, "%s/%s", folder_path, e->d_name);
        if (CHECK(stat(path, &st) == 0))
            *mode = st.st_mode & 0777;
    }
    if (d)
        closedir(d);
    return files;
}

static size_t read_file(const char *path, unsigned char *at)
{
    FILE *const  f = fopen(path, "rb");
    const size_t n = f ? fread(at, 1, MOST_FILE, f) : 0;
    if (CHECK(f != NULL))
        fclose(f);
    return n;
}

static void write_file(const char *path, const unsigned char *at, size_t n)
{
    FILE *const f = fopen(path, "wb");
    if (CHECK(f != NULL))
        CHECK(fwrite(at, 1, n, f) == n && fclose(f) == 0);
}

/* Corrects the checksum of a changed file. */
static void seal(unsigned char *file, size_t n)
{
    const uint64_t sum = weir_hash_bytes(WEIR_HASH_SEED, file, n - sizeof sum);
    memcpy(file + n - sizeof sum, &sum, sizeof sum);
}

CASE(found_again)
{
    folder f;
    char   path[400];
    mode_t mode = 0;
    plan   none, first, second;
    CHECK_OR_RETURN(folder_make(&f));
    for (int i = 0; i < 6; i++) {
        weir_mem_problem p;
        make_problem(&p, 20);
        CHECK_OK(plan_in("", &p, &none));
        CHECK_OK(plan_in(f.path, &p, &first));
        CHECK_OK(plan_in(f.path, &p, &second));
        CHECK(none.use == WEIR_CACHE_OFF && first.use == WEIR_CACHE_NEW);
        CHECK(second.use == WEIR_CACHE_USED && same(&none, &first) && same(&first, &second));
        CHECK(one_file(f.path, path, sizeof path, &mode) == 1 && mode == 0600);
        p.ops.at[3].time *= 2;                /* another step has another file */
        CHECK_OK(plan_in(f.path, &p, &second));
        CHECK(second.use == WEIR_CACHE_NEW && one_file(f.path, path, sizeof path, &mode) == 2);
        while (one_file(f.path, path, sizeof path, &mode) > 0)
            CHECK(unlink(path) == 0);
        weir_mem_problem_free(&p);
    }
    folder_remove(&f);
}

/* A changed byte, a truncated file, another version, impossible decisions with a correct checksum:
 * the plan is the same as without a cache, and the file is valid again. */
CASE(wrong_files)
{
    static unsigned char file[MOST_FILE], bad[MOST_FILE];
    weir_mem_problem     p;
    folder               f;
    char                 path[400];
    mode_t               mode;
    plan                 first, second;
    CHECK_OR_RETURN(folder_make(&f));
    make_problem(&p, 20);
    CHECK_OK(plan_in(f.path, &p, &first));
    CHECK(one_file(f.path, path, sizeof path, &mode) == 1);
    const size_t n = read_file(path, file);
    CHECK(n > HEAD + 16 && n % 8 == 0);
    for (int way = 0; way < 60; way++) {
        size_t size = n;
        memcpy(bad, file, n);
        if (way < 20) {
            bad[below((uint32_t)n)] ^= (unsigned char)(1u << below(8));
        } else if (way < 40) {
            size = way == 20 ? 0 : below((uint32_t)n);
        } else if (way < 50) {
            bad[way < 45 ? 8 : 8 * below(7)]++;       /* version; any word of the header */
            seal(bad, n);
        } else {
            memset(bad + HEAD + 32, WEIR_KEEP_FOR_RECOMPUTE, 4); /* the first plan's decisions */
            seal(bad, n);
        }
        write_file(path, bad, size);
        CHECK_OK(plan_in(f.path, &p, &second));
        if (!CHECK(same(&first, &second) && second.use == WEIR_CACHE_NEW))
            printf("    way %d: use %d, extra %g, not %g\n", way, (int)second.use, second.extra,
                   first.extra);
        CHECK(read_file(path, bad) == n && memcmp(bad, file, n) == 0);
    }
    CHECK(unlink(path) == 0);
    weir_mem_problem_free(&p);
    folder_remove(&f);
}

/* If nothing can be written, planning continues without a cache. */
CASE(folders_that_are_none)
{
    weir_mem_problem p;
    folder           f;
    plan             none, here;
    char             path[200];
    CHECK_OR_RETURN(folder_make(&f));
    make_problem(&p, 20);
    CHECK_OK(plan_in("", &p, &none));
    CHECK_OK(plan_in(file_text(&f, 0, "no folder"), &p, &here));
    CHECK(here.use == WEIR_CACHE_FAILED && same(&none, &here));
    snprintf(path, sizeof path, "%s/a/b", f.path);      /* only one level of folders is created */
    CHECK_OK(plan_in(path, &p, &here));
    CHECK(here.use == WEIR_CACHE_FAILED && same(&none, &here));
    weir_mem_problem_free(&p);
    folder_remove(&f);
}

/* Several processes at once: each gets its plan, and one valid file is left. */
CASE(processes_at_once)
{
    enum { CHILDREN = 4 };
    weir_mem_problem p;
    folder           f;
    plan             none, second;
    pid_t            child[CHILDREN];
    char             path[400];
    mode_t           mode;
    CHECK_OR_RETURN(folder_make(&f));
    make_problem(&p, 24);
    CHECK_OK(plan_in("", &p, &none));
    fflush(stdout);
    for (int i = 0; i < CHILDREN; i++) {
        child[i] = fork();
        if (child[i] == 0)
            _exit(plan_in(f.path, &p, &second) == WEIR_OK && same(&none, &second) ? 0 : 1);
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        CHECK(child[i] > 0 && waitpid(child[i], &status, 0) == child[i] && status == 0);
    }
    CHECK_OK(plan_in(f.path, &p, &second));
    CHECK(second.use == WEIR_CACHE_USED && same(&none, &second));
    CHECK(one_file(f.path, path, sizeof path, &mode) == 1 && unlink(path) == 0);
    weir_mem_problem_free(&p);
    folder_remove(&f);
}

/* Each allocation fails once: the same plan or ERR_NOMEM, no leak, and the files in the folder stay
 * valid. */
static int writes;

/* Writes at most a hundred bytes at a time, and fails after the third write. */
static ssize_t disk_fills(int fd, const void *p, size_t n)
{
    if (writes++ < 3)
        return weir_env_system.write(fd, p, n < 100 ? n : 100);
    errno = ENOSPC;
    return -1;
}

static ssize_t small_writes(int fd, const void *p, size_t n)
{
    return weir_env_system.write(fd, p, n < 100 ? n : 100);
}

/* A plan that cannot be stored is still a plan; no partial file is left. */
CASE(disk_that_fills)
{
    weir_env         e = weir_env_system;
    folder           f;
    char             path[400];
    mode_t           mode = 0;
    plan             a, b;
    weir_mem_problem p;

    CHECK_OR_RETURN(folder_make(&f));
    make_problem(&p, 20);
    e.write = disk_fills;
    weir_env_set(&e);
    CHECK_OK(plan_in(f.path, &p, &a));
    CHECK(a.use == WEIR_CACHE_FAILED && one_file(f.path, path, sizeof path, &mode) == 0);
    e.write = small_writes;
    CHECK_OK(plan_in(f.path, &p, &b));
    weir_env_set(NULL);
    CHECK(b.use == WEIR_CACHE_NEW && same(&a, &b));
    CHECK_OK(plan_in(f.path, &p, &b));
    CHECK(b.use == WEIR_CACHE_USED && same(&a, &b));
    CHECK(one_file(f.path, path, sizeof path, &mode) == 1 && unlink(path) == 0);
    weir_mem_problem_free(&p);
    folder_remove(&f);
}

CASE(cache_failing_memory)
{
    weir_mem_problem p;
    folder           f;
    plan             none, a;
    char             path[400];
    mode_t           mode;
    bool             failed = true;
    CHECK_OR_RETURN(folder_make(&f));
    make_problem(&p, 8);
    CHECK_OK(plan_in("", &p, &none));
    for (int64_t n = 0; failed && n < 200000; n += 1 + n / 40) {
        const int64_t alive = weir_mem_alive();
        weir_mem_fail_nth(n, false);
        const weir_status status = plan_in(f.path, &p, &a);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(status == WEIR_OK ? same(&none, &a) : status == WEIR_ERR_NOMEM);
        CHECK(weir_mem_alive() == alive);
        if (n % 2 && one_file(f.path, path, sizeof path, &mode))
            CHECK(unlink(path) == 0);
    }
    CHECK(!failed);
    if (one_file(f.path, path, sizeof path, &mode))
        CHECK(unlink(path) == 0);
    weir_mem_problem_free(&p);
    folder_remove(&f);
}

/* Training with measured times: the second graph takes the times of the first, so it gets the same
 * plan; bits and budget hold. */
CASE(measured_times_are_kept)
{
    folder   f;
    char     path[400], *text[2] = {NULL, NULL};
    mode_t   mode;
    uint64_t bits = train_run(TRAIN_DIGITS, 16, 0, 3, &(weir_step_options){0});
    CHECK_OR_RETURN(folder_make(&f));
    for (int i = 0; i < 2; i++) {
        const weir_step_options how = {
            .graph = true, .plan = {.budget = "80%", .measure = true, .cache = f.path}};
        weir_graph_stats s;
        train            t;
        size_t           measured = 0;
        CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
        for (int k = 0; k < 3; k++)
            CHECK_OK(train_step(&t, k));
        CHECK(train_bits(&t) == bits);
        CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
        CHECK(s.cache == (i ? WEIR_CACHE_USED : WEIR_CACHE_NEW));
        CHECK(s.planned_peak_bytes <= s.budget_bytes && s.extra_ms > 0);
        text[i] = weir_graph_text(weir_step_graph(t.step), WEIR_TEXT_PLAN);
        CHECK_OK(weir_graph_measure(weir_step_graph(t.step), &measured));
        CHECK(measured == s.arena_bytes);
        train_close(&t);
    }
    CHECK(text[0] && text[1] && strcmp(text[0], text[1]) == 0);
    weir_text_free(text[0]);
    weir_text_free(text[1]);
    CHECK(one_file(f.path, path, sizeof path, &mode) == 1 && unlink(path) == 0);
    folder_remove(&f);
}
