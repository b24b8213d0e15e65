/* kernel_table.c - kernels chosen by time: among equal bits, once, from a file that is not trusted.
 * The kernels here say how long they take, by a clock of their own. */
#include "device/kernel_table.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "core/attr.h"
#include "core/env.h"
#include "core/hash.h"
#include "core/mem.h"
#include "device/kernel.h"
#include "temp_folder.h"

enum { SIDE = 128, KERNELS = 1 + WEIR_KERNEL_OTHERS, MOST_FILE = 4096 };

/* Of kernel i: seconds of a run, the value it writes, its workspace; runs so far of all. */
static double seconds[KERNELS];
static float  value[KERNELS];
static size_t work[KERNELS];
static double now;
static int    runs, live;

static int fake_clock(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){(time_t)now, (long)((now - (double)(time_t)now) * 1e9)};
    return 0;
}

static void free_state(void *state)
{
    live--;
    weir_mem_free(state);
}

static weir_status run(const weir_kargs *k)
{
    const int i = *(const int *)k->state;

    runs++;
    now += seconds[i];
    for (int j = 0; j < SIDE * SIDE; j++)
        ((float *)k->dst[0])[j] = value[i];
    if (work[i] > 0)
        memset(k->work, 0xee, work[i]);
    return WEIR_OK;
}

static weir_status fake(int i, weir_kernel *out)
{
    static const char *const name[KERNELS] = {"zero", "one", "two", "three"};
    int *const               state = weir_mem_alloc(sizeof *state);

    if (!state)
        return WEIR_ERR_NOMEM;
    *state = i;
    live++;
    *out = (weir_kernel){.run = run, .work = work[i], .state = state, .destroy = free_state,
                         .impl = name[i]};
    return WEIR_OK;
}

static weir_status first(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d, (void)c;
    return fake(0, out);
}

static weir_status other(weir_device *d, const weir_call *c, int i, weir_kernel *out)
{
    (void)d, (void)c;
    return fake(i, out);
}

static double many_flops(const weir_call *c)
{
    (void)c;
    return 1e9;
}

static const weir_opdef product = {.flops = many_flops};

/* What the call got: its kernel's name, its workspace, and the runs that choosing took. */
typedef struct got {
    char   impl[16];
    size_t work;
    int    runs;
} got;

/* Opens a device with these kernels, asks twice for that of a product, runs it, closes. */
static got choose_in(const char *where)
{
    static const weir_choose_fn kernels[WEIR_OP_COUNT] = {[WEIR_OP_MATMUL] = first};
    const weir_matmul_attr attr = {0};
    weir_layout            l = {.desc = weir_2d(WEIR_F32, SIDE, SIDE)};
    got                    g = {.runs = runs};

    weir_shape_dense(&l);
    const weir_layout in[2] = {l, l};
    setenv("WEIR_KERNELS", where, 1);
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    unsetenv("WEIR_KERNELS");
    if (!CHECK(d != NULL))
        return g;
    weir_device_ops ops = *d->ops;
    ops.kernel = kernels;
    ops.other = other;
    const weir_device_ops *const before = d->ops;
    d->ops = &ops;
    const weir_call c = {.op = WEIR_OP_MATMUL, .def = &product, .nin = 2,
                         .nout = 1, .in = in, .out = &l, .attr = &attr, .attr_bytes = sizeof attr,
                         .alias = -1};
    const weir_kernel *k = NULL, *again = NULL;
    if (CHECK_OK(weir_kernel_of(d, &c, &k))) {
        snprintf(g.impl, sizeof g.impl, "%s", k->impl);
        g.work = k->work;
        g.runs = runs - g.runs;
        seconds[0] = -seconds[0];       /* frozen: later times change nothing */
        CHECK(weir_kernel_of(d, &c, &again) == WEIR_OK && again == k);
        seconds[0] = -seconds[0];
    }
    char *const text = weir_info_text(d);
    CHECK_TEXT(text, "kernels chosen by time among");
    weir_text_free(text);
    d->ops = before;
    weir_device_close(d);
    CHECK(live == 0);
    return g;
}

static bool is(got g, const char *impl)
{
    return strcmp(g.impl, impl) == 0;
}

/* Kernel 1 is the fastest but rounds differently; kernel 3 is the fastest of those that don't. */
static void begin(weir_env *env)
{
    for (int i = 0; i < KERNELS; i++) {
        seconds[i] = (double[KERNELS]){4, 1, 3, 2}[i];
        value[i] = (float[KERNELS]){5, 6, 5, 5}[i];
        work[i] = (size_t[KERNELS]){64, 4096, 1024, 0}[i];
    }
    now = 1;
    *env = *weir_env_get();
    env->clock_gettime = fake_clock;
    weir_env_set(env);
}

/* Finds the one file of the folder; false without one. */
static bool find_file(const char *where, char path[320])
{
    DIR *const     f = opendir(where);
    struct dirent *e = NULL;

    while (f && (e = readdir(f)) && e->d_name[0] == '.')
        ;
    if (e)
        snprintf(path, 320, "%s/%s", where, e->d_name);
    if (f)
        closedir(f);
    return e != NULL;
}

static void remove_file(const folder *f)
{
    char path[320];

    if (find_file(f->path, path))
        CHECK(unlink(path) == 0);
}

static void remove_all(const folder *f)
{
    remove_file(f);
    folder_remove(f);
}

static size_t read_only_file(const char *where, char path[320], unsigned char data[MOST_FILE])
{
    FILE  *file = NULL;
    size_t n = 0;

    if (CHECK(find_file(where, path)) && CHECK((file = fopen(path, "rb")) != NULL)) {
        n = fread(data, 1, MOST_FILE, file);
        fclose(file);
    }
    return n;
}

CASE(the_fastest_of_equal_bits_is_chosen_once)
{
    folder   f;
    weir_env env;
    begin(&env);
    if (!folder_make(&f))
        return;
    const got g = choose_in(f.path);
    CHECK(is(g, "three") && g.runs > 9 && g.work == 1024);
    for (int i = 0; i < KERNELS; i++)
        seconds[i] = 1 + i;             /* another time would choose another kernel */
    const got again = choose_in(f.path);
    CHECK(is(again, "three") && again.work == 1024);
    CHECK(again.runs <= 4);             /* its bits were probed, nothing was timed */
    remove_file(&f);
    const got other_folder = choose_in(f.path);
    CHECK(is(other_folder, "zero") && other_folder.work == 1024);
    remove_all(&f);
    weir_env_set(NULL);
}

CASE(kernels_with_other_bits_are_chosen_on_request)
{
    folder   f;
    weir_env env;
    begin(&env);
    if (!folder_make(&f))
        return;
    CHECK(is(choose_in(f.path), "three"));
    setenv("WEIR_KERNEL_BITS", "any", 1);
    const got g = choose_in(f.path);
    CHECK(is(g, "one") && g.work == 4096);
    unsetenv("WEIR_KERNEL_BITS");
    CHECK(is(choose_in(f.path), "three"));
    remove_all(&f);
    weir_env_set(NULL);
}

/* ---- files ---- */

static void write_file(const char *path, const unsigned char *data, size_t n)
{
    FILE *const file = fopen(path, "wb");

    if (CHECK(file != NULL)) {
        CHECK(fwrite(data, 1, n, file) == n);
        fclose(file);
    }
}

CASE(damaged_files_are_measured_again)
{
    folder        f;
    char          path[320];
    unsigned char data[MOST_FILE], bad[MOST_FILE];
    weir_env      env;
    begin(&env);
    if (!folder_make(&f))
        return;
    CHECK(is(choose_in(f.path), "three"));
    const size_t n = read_only_file(f.path, path, data);
    CHECK(n == 64);
    for (size_t i = 0; i < n; i++) {
        memcpy(bad, data, n);
        bad[i] ^= 0x10;
        write_file(path, bad, n);
        const got g = choose_in(f.path);
        CHECK(is(g, "three") && g.runs > 9);
    }
    for (size_t cut = 0; cut < n; cut += 7) {
        write_file(path, data, cut);
        CHECK(is(choose_in(f.path), "three"));
    }
    remove_all(&f);
    weir_env_set(NULL);
}

/* The checksum is right, but the record names a kernel with other bits, or none. */
CASE(forged_files_change_no_bit)
{
    folder        f;
    char          path[320];
    unsigned char data[MOST_FILE];
    weir_env      env;
    begin(&env);
    if (!folder_make(&f))
        return;
    CHECK(is(choose_in(f.path), "three"));
    const size_t   n = read_only_file(f.path, path, data);
    const uint32_t forged[][2] = {{1, 15}, {1, 3}, {7, 255}, {2, 1}, {0, 0}};
    for (size_t i = 0; i < ARRAY_LENGTH(forged); i++) {
        memcpy(data + n - 16, forged[i], sizeof forged[i]);
        const uint64_t sum = weir_hash_bytes(WEIR_HASH_SEED, data, n - sizeof sum);
        memcpy(data + n - sizeof sum, &sum, sizeof sum);
        write_file(path, data, n);
        const got g = choose_in(f.path);
        CHECK(is(g, "three") && g.work == 1024);
    }
    remove_all(&f);
    weir_env_set(NULL);
}

CASE(without_a_folder_to_write_to_choices_hold_all_the_same)
{
    weir_env env;
    begin(&env);
    CHECK(is(choose_in("/proc/no_such_folder"), "three"));
    weir_env_set(NULL);
}

/* A probe that finds no memory leaves the first kernel; none for anything is an error. */
CASE(short_memory_leaves_the_first_kernel)
{
    folder   f;
    weir_env env;
    begin(&env);
    if (!folder_make(&f))
        return;
    setenv("WEIR_KERNELS", f.path, 1);
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 1});
    unsetenv("WEIR_KERNELS");
    weir_layout    l = {.desc = weir_2d(WEIR_F32, SIDE, SIDE)};
    const uint64_t hash[2] = {1, 2};
    weir_shape_dense(&l);
    const weir_layout in[2] = {l, l};
    const weir_call   c = {.op = WEIR_OP_MATMUL, .def = &product, .nin = 2,
                           .nout = 1, .in = in, .out = &l, .alias = -1};
    if (CHECK(d != NULL)) {
        weir_device_ops              ops = *d->ops;
        const weir_device_ops *const before = d->ops;
        ops.other = other;
        d->ops = &ops;
        for (int n = 0; n < 12; n++) {
            weir_kernel k;
            CHECK_OK(fake(0, &k));
            weir_mem_fail_nth(n, true);
            const weir_status s = weir_kernel_table_choose(d, &c, hash, &k);
            weir_mem_fail_nth(-1, false);
            CHECK(s == WEIR_OK || s == WEIR_ERR_NOMEM);
            if (s == WEIR_OK)
                weir_kernel_drop(&k);
            CHECK(live == 0);
        }
        d->ops = before;
        weir_device_close(d);
    }
    remove_all(&f);
    weir_env_set(NULL);
}
