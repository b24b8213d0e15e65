/* resources.h - the memory and the processors that this process may use: those of the machine, or
 * fewer in a container. */
#ifndef WEIR_DEVICE_RESOURCES_H
#define WEIR_DEVICE_RESOURCES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct weir_memory_limits {
    size_t total;       /* bytes of the machine, or of the smallest limit of a control group */
    size_t unused;      /* bytes of them that are free or can be freed at once (file caches) */
    bool   grouped;     /* a control group limits `unused`, not the machine */
} weir_memory_limits;

/* Control groups (cgroups) version 2 and 1 are read where systems mount them, /sys/fs/cgroup, from
 * the process's own group to the outermost: the smallest limit holds. Files that are missing or
 * unreadable limit nothing. */
weir_memory_limits weir_limits_memory(void);

/* Processors that the thread may run on (sched_setaffinity), at most the CPU quota of the control
 * groups, rounded up; 1 and more. */
int weir_limits_processors(void);

/* Worker threads of a device that is opened without a number: WEIR_THREADS if it is set
 * (weir_env_check), else the processors. */
int weir_threads_default(void);

#endif
