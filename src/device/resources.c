/* resources.c - reads the limits of control groups, /proc/meminfo and the thread's processors.
 *
 * Formats: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the Linux sources. */
#include "device/resources.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/env.h"

enum { TEXT = 4096 };       /* bytes that are read of a file; longer ones are cut */

static const char mounted[] = "/sys/fs/cgroup";

/* False if there is no such file. */
static bool read_text(const char *path, char text[TEXT])
{
    const weir_env *const env = weir_env_get();
    const int             fd = env->open(path, O_RDONLY | O_CLOEXEC, 0);
    size_t                n = 0;

    if (fd < 0)
        return false;
    while (n < TEXT - 1) {
        const ssize_t got = env->read(fd, text + n, TEXT - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    env->close(fd);
    text[n] = '\0';
    return n > 0;
}

/* The number at the start of a text; `none` for "max", a negative number and anything else. */
static uint64_t number(const char *text, uint64_t none)
{
    char                    *end;
    const unsigned long long value = strtoull(text, &end, 10);

    return end == text || strchr(text, '-') ? none : value;
}

/* The number behind a name at the start of a line ("MemAvailable:  123 kB"). */
static uint64_t number_of(const char *text, const char *name, uint64_t none)
{
    const size_t n = strlen(name);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0)
            return number(line + n, none);
    }
    return none;
}

/* ---- control groups ---- */

/* Where a hierarchy of groups is mounted, and the process's group in it: "/sys/fs/cgroup" and
 * "/sys/fs/cgroup/user.slice/app". */
typedef struct hierarchy {
    char   path[TEXT];
    size_t root;        /* length of the part that is the mount */
} hierarchy;

static bool lists(const char *names, size_t n, const char *name)
{
    const size_t length = strlen(name);

    for (const char *p = names; p < names + n; p += strcspn(p, ",:") + 1)
        if (strncmp(p, name, length) == 0 && (p[length] == ',' || p[length] == ':'))
            return true;
    return false;
}

/* Finds the hierarchy of a controller of version 1, or that of version 2 for NULL, in a line
 * "NUMBER:CONTROLLERS:PATH" of /proc/self/cgroup. */
static bool find_hierarchy(const char *controller, hierarchy *h)
{
    char  text[TEXT];
    char *next = text;

    if (!read_text("/proc/self/cgroup", text))
        return false;
    while (*next) {
        char *const line = next;
        next += strcspn(next, "\n");
        if (*next)
            *next++ = '\0';
        const char *const names = strchr(line, ':');
        const char *const path = names ? strchr(names + 1, ':') : NULL;
        const size_t      n = path ? (size_t)(path - names) : 0;
        if (!path || (controller ? !lists(names + 1, n, controller) : n != 1))
            continue;
        const int root = snprintf(h->path, sizeof h->path, "%s%s%s", mounted, controller ? "/" : "",
                                  controller ? controller : "");
        snprintf(h->path + root, sizeof h->path - (size_t)root, "%s", path + 1);
        h->root = (size_t)root;
        return true;
    }
    return false;
}

/* Reads a file of the group. */
static bool read_group(const hierarchy *h, const char *name, char text[TEXT])
{
    char path[TEXT + 64];

    snprintf(path, sizeof path, "%s/%s", h->path, name);
    return read_text(path, text);
}

/* Goes on to the group around it; false at the mount. */
static bool leave_group(hierarchy *h)
{
    char *const slash = strrchr(h->path, '/');

    if (!slash || slash < h->path + h->root)
        return false;
    *slash = '\0';
    return true;
}

/* Names of the files of a version. */
typedef struct memory_files {
    const char *controller, *limit, *used, *cache;
} memory_files;

/* The limits of one group. Its file caches count as used, but the kernel frees them first. */
static void limit_memory(const hierarchy *h, const memory_files *files, weir_memory_limits *m)
{
    char     text[TEXT];
    uint64_t limit, used = 0, cache = 0;

    if (!read_group(h, files->limit, text) || (limit = number(text, UINT64_MAX)) >= m->total)
        return;
    m->total = (size_t)limit;
    if (read_group(h, files->used, text))
        used = number(text, 0);
    if (read_group(h, "memory.stat", text))
        cache = number_of(text, files->cache, 0);
    used -= cache < used ? cache : used;
    const uint64_t unused = used < limit ? limit - used : 0;
    if (unused < m->unused) {
        m->unused = (size_t)unused;
        m->grouped = true;
    }
}

static void limit_by_groups(const memory_files *files, weir_memory_limits *m)
{
    hierarchy h;

    if (!find_hierarchy(files->controller, &h))
        return;
    do
        limit_memory(&h, files, m);
    while (leave_group(&h));
}

weir_memory_limits weir_limits_memory(void)
{
    static const memory_files versions[] = {
        {NULL, "memory.max", "memory.current", "inactive_file "},
        {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "}};
    const size_t       page = (size_t)sysconf(_SC_PAGESIZE);
    weir_memory_limits m = {.total = (size_t)sysconf(_SC_PHYS_PAGES) * page};
    char               text[TEXT];

    m.unused = m.total;
#ifdef _SC_AVPHYS_PAGES
    m.unused = (size_t)sysconf(_SC_AVPHYS_PAGES) * page;
#endif
    if (read_text("/proc/meminfo", text))
        m.unused = (size_t)number_of(text, "MemAvailable:", m.unused >> 10) << 10;
    for (int i = 0; i < 2; i++)
        limit_by_groups(&versions[i], &m);
    return m;
}

/* ---- processors ---- */

/* The quota of a group of a version in processors, rounded up; INT_MAX: none. */
static int quota(const hierarchy *h, int version)
{
    char     text[TEXT];
    uint64_t time = UINT64_MAX, period = 0;

    if (version == 2) {
        if (read_group(h, "cpu.max", text)) {           /* "200000 100000" or "max 100000" */
            const char *const space = strchr(text, ' ');
            time = number(text, UINT64_MAX);
            period = space ? number(space + 1, 0) : 0;
        }
    } else if (read_group(h, "cpu.cfs_quota_us", text)) {
        time = number(text, UINT64_MAX);
        period = read_group(h, "cpu.cfs_period_us", text) ? number(text, 0) : 0;
    }
    if (time == UINT64_MAX || period == 0)
        return INT_MAX;
    const uint64_t n = time / period + (time % period != 0);
    return n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
}

/* Processors that the thread may run on; all of them on a system without affinities. */
static int allowed_processors(void)
{
#if defined(__linux__) && !defined(WEIR_PORTABLE)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int weir_limits_processors(void)
{
    hierarchy h;
    int       n = allowed_processors();

    for (int version = 2; version >= 1; version--) {
        if (!find_hierarchy(version == 1 ? "cpu" : NULL, &h))
            continue;
        do {
            const int most = quota(&h, version);
            n = most < n ? most : n;
        } while (leave_group(&h));
    }
    return n < 1 ? 1 : n;
}

int weir_threads_default(void)
{
    enum { MOST = 1024 };       /* as env.def has it */
    const char *const text = getenv("WEIR_THREADS");
    char             *end;
    const long        asked = text ? strtol(text, &end, 10) : 0;

    if (asked >= 1 && asked <= MOST && *end == '\0')
        return (int)asked;
    const int n = weir_limits_processors();
    return n < MOST ? n : MOST;
}
