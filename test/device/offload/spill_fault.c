/* spill_fault.c - tests of failures of the offload store: a block changed in the file, no space, a
 * system that interrupts, fails or lacks memory, invalid slots. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "check.h"
#include "core/mem.h"
#include "device/device.h"
#include "device/offload/spill_slots.h"
#include "stores.h"

static weir_status put(weir_spill *s, size_t slot, const void *p, size_t n)
{
    uint64_t t;
    WEIR_TRY(weir_spill_out(s, slot, p, n, &t));
    return weir_spill_wait(s, t);
}

static weir_status get(weir_spill *s, size_t slot, void *p, size_t n)
{
    uint64_t t;
    WEIR_TRY(weir_spill_in(s, slot, p, n, &t));
    return weir_spill_wait(s, t);
}

/* ---- what is read is not what was written ---- */

static void corrupted(weir_spill_options o)
{
    enum { N = 3 * MIB + 100 };
    const off_t place[] = {0, 1, 256 << 10, MIB - 1, 3 * MIB, 3 * MIB + 99};
    char *const a = calloc(N, 1), *const b = malloc(N), wrong = 5;
    char        text[64];

    o.bytes = 4 * MIB;
    weir_spill *s = open_with(o);
    for (size_t i = 0; s && i < sizeof place / sizeof *place; i++) {
        CHECK_OK(put(s, SLOT, a, N));
        CHECK_OK(get(s, SLOT, b, N));
        CHECK(pwrite(weir_spill_file(s), &wrong, 1, SLOT + place[i]) == 1);
        CHECK_STATUS(get(s, SLOT, b, N), WEIR_ERR_IO);
        snprintf(text, sizeof text, "block at %lld is not what was written",
                 (long long)(SLOT + place[i] / (256 << 10) * (256 << 10)));
        CHECK_TEXT(weir_error(), text);
        CHECK_TEXT(weir_error(), "reading 3145828 bytes at 65536");
        CHECK_STATUS(get(s, SLOT, b, N), WEIR_ERR_IO);
    }
    CHECK_OK(put(s, SLOT, a, N));
    CHECK_OK(get(s, SLOT, b, N));
    CHECK_OK(weir_spill_settle(s, WEIR_OK));
    weir_spill_free(s);
    free(a);
    free(b);
}

CASE(a_changed_byte_is_seen)
{
    for (int m = 0; m < MOVERS; m++)
        corrupted((weir_spill_options){.mover = movers[m]});
}

CASE(a_cut_file_is_seen)
{
    char        a[1000] = "";
    for (int m = 0; m < MOVERS; m++) {
        weir_spill *s = open_with((weir_spill_options){.bytes = MIB, .mover = movers[m]});
        CHECK_OR_RETURN(s != NULL);
        CHECK_OK(put(s, 0, a, sizeof a));
        CHECK(ftruncate(weir_spill_file(s), 500) == 0);
        CHECK_STATUS(get(s, 0, a, sizeof a), WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), "reading 1000 bytes at 0: the file ends before");
        weir_spill_free(s);
    }
}

CASE(slots_that_are_none)
{
    char        a[3000] = "";
    uint64_t    t = 7;
    weir_spill *s = open_with((weir_spill_options){.bytes = 2 * SLOT});

    CHECK_OR_RETURN(s != NULL);
    CHECK_STATUS(weir_spill_out(s, 5, a, 1, &t), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "1 bytes at 5 are not a slot of the 131072 bytes");
    CHECK(t == 0);
    CHECK_STATUS(weir_spill_in(s, 2 * SLOT, a, 1, &t), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_spill_out(s, SLOT, a, SLOT + 1, &t), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_spill_out(s, (size_t)-SLOT, a, SLOT, &t), WEIR_ERR_INVALID);
    CHECK_OK(put(s, 2 * SLOT, a, 0));               /* 0 bytes store nothing */
    CHECK_STATUS(get(s, SLOT, a, 10), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "never written");
    CHECK_OK(put(s, SLOT, a, 1000));
    CHECK_STATUS(get(s, SLOT, a, 10), WEIR_ERR_IO); /* another number of bytes */
    CHECK_STATUS(get(s, SLOT, a, 3000), WEIR_ERR_IO);
    CHECK_OK(weir_spill_wait(s, 0));
    weir_spill_free(s);
}

/* ---- no space ---- */

CASE(a_limit_on_file_sizes)
{
    struct rlimit old, low = {.rlim_cur = MIB};
    weir_spill   *s = open_with((weir_spill_options){.bytes = MIB / 2});
    char         *a = calloc(MIB, 1);

    CHECK_OR_RETURN(s && a && getrlimit(RLIMIT_FSIZE, &old) == 0);
    low.rlim_max = old.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);      /* a SIGXFSZ would end this process */
    CHECK_STATUS(weir_spill_reserve(s, 2 * MIB), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "2097152 bytes wanted, this process may write files of 1048576");
    CHECK(weir_spill_bytes(s) == MIB / 2);
    CHECK_OK(put(s, 0, a, MIB / 2));
    CHECK_OK(weir_spill_reserve(s, MIB));
    weir_spill *t;
    CHECK_STATUS(weir_spill_new(&(weir_spill_options){.bytes = MIB + 1}, &t), WEIR_ERR_IO);
    CHECK(t == NULL);
    low.rlim_cur = MIB / 4;                         /* now writes fail as well */
    CHECK(setrlimit(RLIMIT_FSIZE, &low) == 0);
    for (int m = 0; m < 2; m++) {
        CHECK_STATUS(put(s, MIB / 2, a, MIB / 4), WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), "writing 262144 bytes at 524288: File too large");
        CHECK_STATUS(get(s, MIB / 2, a, MIB / 4), WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), "never written");
    }
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CHECK_OK(put(s, MIB / 2, a, MIB / 4));
    CHECK_OK(get(s, MIB / 2, a, MIB / 4));
    weir_spill_free(s);
    free(a);
}

/* More than the folder's disk has; allocated blocks are freed again. */
static void no_space_in(const char *dir)
{
    struct statvfs before, after;
    char           text[64];
    weir_spill    *s = open_with((weir_spill_options){.dir = dir, .bytes = SLOT});

    CHECK_OR_RETURN(s && fstatvfs(weir_spill_file(s), &before) == 0);
    const size_t available = before.f_bavail * before.f_frsize;
    const size_t want = (available + ((size_t)1 << 31)) / SLOT * SLOT;
    CHECK_STATUS(weir_spill_reserve(s, want), WEIR_ERR_IO);
    snprintf(text, sizeof text, "%zu bytes wanted", want);
    CHECK_TEXT(weir_error(), text);
    CHECK_TEXT(weir_error(), " free (No space left on device)");
    CHECK_TEXT(weir_error(), dir);
    CHECK(weir_spill_bytes(s) == SLOT);
    CHECK_OK(put(s, 0, text, sizeof text));
    CHECK_STATUS(weir_spill_reserve(s, SIZE_MAX - 5), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "bytes wanted");
    CHECK(fstatvfs(weir_spill_file(s), &after) == 0);
    CHECK(after.f_bavail * after.f_frsize + (64 << 20) > available);
    weir_spill_free(s);
}

/* More than any file may have. A disk is really filled only on a small file system that the test
 * mounts, where that is permitted: filling a larger one would affect others. */
CASE(a_full_disk)
{
    char        here[] = "/tmp/weir-test-XXXXXX";
    weir_spill *s = open_with((weir_spill_options){.bytes = SLOT});

    CHECK_STATUS(weir_spill_reserve(s, (size_t)1 << 62), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "4611686018427387904 bytes wanted, ");
    CHECK(weir_spill_bytes(s) == SLOT);
    weir_spill_free(s);
    CHECK_OR_RETURN(mkdtemp(here) != NULL);
    if (mount("none", here, "tmpfs", 0, "size=1m") == 0) {
        no_space_in(here);
        CHECK(umount(here) == 0);
    }
    CHECK(rmdir(here) == 0);
}

/* A device reports it when it plans, and continues to work without. */
CASE(a_device_without_room)
{
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.spill_dir = "/no/folder"});

    CHECK_STATUS(weir_device_spill(d, 10, 1), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "spill file in \"/no/folder\": cannot be created (No such file");
    CHECK(d->spill == NULL);
    weir_device_close(d);
}

/* ---- a system that fails ---- */

typedef struct moods {
    atomic_int calls, error;        /* every third call: EINTR or EAGAIN; later ones: error */
    int        from;
} moods;

static bool mood(moods *m, size_t *n)
{
    const int call = atomic_fetch_add(&m->calls, 1);

    errno = call % 3 ? EAGAIN : EINTR;
    if (call % 3 < 2)
        return false;
    errno = atomic_load(&m->error);
    if (errno && call >= m->from)
        return false;
    *n = *n > 7 ? *n / 2 : *n;      /* all others are short */
    return true;
}

static ssize_t moody_write(void *ctx, int fd, const void *p, size_t n, off_t at)
{
    return mood(ctx, &n) ? pwrite(fd, p, n, at) : -1;
}

static ssize_t moody_read(void *ctx, int fd, void *p, size_t n, off_t at)
{
    return mood(ctx, &n) ? pread(fd, p, n, at) : -1;
}

CASE(interrupted_and_short)
{
    enum { N = 2 * MIB + 3 };
    moods                   m = {0};
    const weir_spill_system y = {.ctx = &m, .write = moody_write, .read = moody_read};
    weir_spill *s = open_with((weir_spill_options){.bytes = N, .system = &y});
    char *const a = malloc(N), *const b = calloc(N, 1);

    for (size_t i = 0; i < N; i++)
        a[i] = (char)check_u64();
    CHECK_OK(put(s, 0, a, N));
    CHECK_OK(get(s, 0, b, N));
    CHECK_BITS(a, b, N);
    CHECK(atomic_load(&m.calls) > 100);
    weir_spill_free(s);
    free(a);
    free(b);
}

CASE(input_output_errors)
{
    enum { N = 2 * MIB };
    for (int from = 0; from < 200; from += 19) {
        moods                   m = {.from = from};
        const weir_spill_system y = {.ctx = &m, .write = moody_write, .read = moody_read};
        weir_spill *s = open_with((weir_spill_options){.bytes = 2 * N, .system = &y});
        char *const a = calloc(N, 1);

        CHECK_OK(put(s, N, a, SLOT));
        atomic_store(&m.calls, 0);
        atomic_store(&m.error, EIO);
        CHECK_STATUS(put(s, 0, a, N), WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), "writing 2097152 bytes at 0: Input/output error");
        CHECK_STATUS(get(s, 0, a, N), WEIR_ERR_IO);     /* half of it would be the old value */
        CHECK_TEXT(weir_error(), "never written there: writing them failed: Input/output error");
        CHECK_STATUS(get(s, N, a, SLOT), WEIR_ERR_IO);
        CHECK_TEXT(weir_error(), "reading 65536 bytes at 2097152: Input/output error");
        atomic_store(&m.error, 0);
        CHECK_OK(get(s, N, a, SLOT));
        CHECK_STATUS(get(s, 0, a, N), WEIR_ERR_IO);     /* still the first reason */
        CHECK_TEXT(weir_error(), "writing them failed: Input/output error");
        CHECK_OK(put(s, 0, a, N));
        CHECK_OK(get(s, 0, a, N));
        CHECK_OK(weir_spill_settle(s, WEIR_OK));
        weir_spill_free(s);
        free(a);
    }
}

/* A failure that no wait reports is reported by settle, or when its ring entry is needed. */
CASE(failures_are_not_lost)
{
    enum { MANY = 2000 };
    char        a[100] = "";
    uint64_t    t;
    int         told = 0, i = 0;
    weir_spill *s = open_with((weir_spill_options){.bytes = 4 * SLOT});

    CHECK_OR_RETURN(s != NULL);
    CHECK_OK(put(s, 0, a, sizeof a));
    CHECK_OK(weir_spill_in(s, SLOT, a, sizeof a, &t));  /* never written */
    CHECK_STATUS(weir_spill_settle(s, WEIR_OK), WEIR_ERR_IO);
    CHECK_TEXT(weir_error(), "reading 100 bytes at 65536, which were never written there");
    CHECK_OK(weir_spill_settle(s, WEIR_OK));
    CHECK_OK(weir_spill_in(s, SLOT, a, sizeof a, &t));
    weir_fail(WEIR_ERR_SHAPE, "the first mistake");
    CHECK_STATUS(weir_spill_settle(s, WEIR_ERR_SHAPE), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "the first mistake");
    CHECK_OK(weir_spill_in(s, SLOT, a, sizeof a, &t));
    for (; i < MANY && told == 0; i++)
        told += weir_spill_in(s, 0, a, sizeof a, &t) == WEIR_ERR_IO;
    CHECK(told == 1 && i > 100);
    CHECK_TEXT(weir_error(), "never written");
    for (i = 0; i < MANY; i++)
        CHECK_OK(weir_spill_in(s, 0, a, sizeof a, &t));
    CHECK_OK(weir_spill_wait(s, t));
    CHECK_OK(weir_spill_settle(s, WEIR_OK));
    weir_spill_free(s);
}

/* ---- memory ---- */

static weir_status lifecycle(void)
{
    char        a[100] = "", b[100];
    double      out, in;
    weir_device *d = weir_device_open("cpu", &(weir_device_options){.threads = 1,
                                                                    .spill_dir = "/tmp"});
    if (!d)
        return weir_error_status();
    weir_status status = weir_device_spill(d, SLOT, 3);
    if (status == WEIR_OK)
        status = weir_device_spill(d, MIB, 5);
    if (status == WEIR_OK)
        status = put(d->spill, SLOT, a, sizeof a);
    if (status == WEIR_OK)
        status = get(d->spill, SLOT, b, sizeof b);
    if (status == WEIR_OK)
        status = weir_device_spill_speed(d, &out, &in);
    weir_device_close(d);
    return status;
}

CASE(every_allocation_fails_in_turn)
{
    CHECK_OK(lifecycle());
    const uint64_t before = weir_mem_calls();
    CHECK_OK(lifecycle());
    const int64_t points = (int64_t)(weir_mem_calls() - before);
    CHECK(points > 10);
    for (int64_t n = 0; n < 2 * points; n++) {
        const int64_t alive = weir_mem_alive();
        weir_mem_fail_nth(n / 2, n % 2);
        CHECK_STATUS(lifecycle(), WEIR_ERR_NOMEM);
        CHECK(weir_mem_failed() && weir_mem_alive() == alive);
        weir_mem_fail_nth(-1, false);
    }
    CHECK_OK(lifecycle());
}
