/* resources.c - tests of what a container allows: made-up files of control groups. */
#include "device/resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/thread.h"
#include "fake_files.h"

static weir_memory_limits memory_with(const fake_file *system)
{
    weir_env e;

    fake_system(&e, system);
    const weir_memory_limits m = weir_limits_memory();
    weir_env_set(NULL);
    return m;
}

static int processors_with(const fake_file *system)
{
    weir_env e;

    fake_system(&e, system);
    const int n = weir_limits_processors();
    weir_env_set(NULL);
    return n;
}

CASE(a_machine_without_groups_has_its_memory)
{
    const fake_file system[] = {{"/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 77 kB\n"}, {0}};
    const weir_memory_limits m = memory_with(system), none = memory_with(&system[1]);

    CHECK(m.total == (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
    CHECK(m.unused == 77 << 10 && !m.grouped);
    CHECK(none.total == m.total && none.unused > 0 && none.unused <= none.total);
}

CASE(the_smallest_limit_of_all_groups_holds)
{
    const fake_file system[] = {
        {"/proc/meminfo", "MemAvailable: 900000 kB\n"},
        {"/proc/self/cgroup", "0::/outer/inner\n"},
        {"/sys/fs/cgroup/outer/inner/memory.max", "max\n"},
        {"/sys/fs/cgroup/outer/memory.max", "500000000\n"},
        {"/sys/fs/cgroup/outer/memory.current", "300000000\n"},
        {"/sys/fs/cgroup/outer/memory.stat", "anon 7\ninactive_file 100000000\nfile 3\n"},
        {0}};
    const weir_memory_limits m = memory_with(system);

    CHECK(m.total == 500000000 && m.unused == 300000000 && m.grouped);
}

CASE(free_memory_may_be_less_than_a_group_allows)
{
    const fake_file system[] = {{"/proc/meminfo", "MemAvailable: 1000 kB\n"},
                           {"/proc/self/cgroup", "0::/\n"},
                           {"/sys/fs/cgroup/memory.max", "500000000\n"},
                           {0}};
    const weir_memory_limits m = memory_with(system);

    CHECK(m.total == 500000000 && m.unused == 1000 << 10 && !m.grouped);
}

CASE(groups_of_version_1)
{
    const fake_file system[] = {
        {"/proc/meminfo", "MemAvailable: 900000 kB\n"},
        {"/proc/self/cgroup", "12:cpu,cpuacct:/a\n7:memory:/a/b\n3:memory_other:/x\n"},
        {"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"},
        {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "200000000\n"},
        {"/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "250000000\n"},
        {"/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 9\ntotal_inactive_file 60000000\n"},
        {"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"},
        {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
        {0}};
    const weir_memory_limits m = memory_with(system);

    CHECK(m.total == 200000000 && m.unused == 10000000 && m.grouped);
    CHECK(processors_with(system) == 1);
}

CASE(files_that_make_no_sense_limit_nothing)
{
    const fake_file system[] = {
        {"/proc/meminfo", "MemAvailable: 5 kB\n"},
        {"/proc/self/cgroup", "nothing\n\n0:\n:::\n0::/a\n"},
        {"/sys/fs/cgroup/a/memory.max", "lots\n"},
        {"/sys/fs/cgroup/memory.max", "-5\n"},
        {"/sys/fs/cgroup/a/cpu.max", "100000\n"},
        {"/sys/fs/cgroup/cpu.max", "100000 0\n"},
        {0}};
    const weir_memory_limits m = memory_with(system);
    const fake_file none = {0};

    CHECK(m.total == (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
    CHECK(processors_with(system) == processors_with(&none) && !m.grouped);
}

/* Quotas are rounded up, and affinity holds beside them. */
CASE(quotas_are_processors)
{
    const fake_file none = {0};
    const int  all = processors_with(&none);
    const fake_file half[] = {{"/proc/self/cgroup", "0::/a\n"},
                         {"/sys/fs/cgroup/a/cpu.max", "50000 100000\n"},
                         {0}},
               much[] = {{"/proc/self/cgroup", "0::/a\n"},
                         {"/sys/fs/cgroup/a/cpu.max", "9900000 100000\n"},
                         {"/sys/fs/cgroup/cpu.max", "max 100000\n"},
                         {0}},
               part[] = {{"/proc/self/cgroup", "0::/a\n"},
                         {"/sys/fs/cgroup/a/cpu.max", "100001 100000\n"},
                         {0}};

    CHECK(all >= 1 && processors_with(half) == 1 && processors_with(much) == (all < 99 ? all : 99));
    CHECK(processors_with(part) == (all < 2 ? all : 2));
}

CASE(the_default_number_of_threads_follows_the_quota)
{
    const fake_file half[] = {{"/proc/self/cgroup", "0::/a\n"},
                              {"/sys/fs/cgroup/a/cpu.max", "50000 100000\n"},
                              {0}};
    weir_env        e;
    char *const     before = getenv("WEIR_THREADS") ? strdup(getenv("WEIR_THREADS")) : NULL;

    fake_system(&e, half);
    unsetenv("WEIR_THREADS");
    CHECK(weir_threads_default() == 1);
    setenv("WEIR_THREADS", "3", 1);
    CHECK(weir_threads_default() == 3);
    setenv("WEIR_THREADS", "3x", 1);
    CHECK(weir_threads_default() == 1);
    setenv("WEIR_THREADS", "-2", 1);
    CHECK(weir_threads_default() == 1);
    weir_env_set(NULL);
    unsetenv("WEIR_THREADS");
    if (before)
        setenv("WEIR_THREADS", before, 1);
    free(before);
}
