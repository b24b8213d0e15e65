/* team.h - libraries that use OpenMP take the device's number of threads.
 *
 * Their team size is a setting of the calling thread, which the program or another device may have
 * changed since; results of the libraries depend on it. */
#ifndef WEIR_CPU_TEAM_H
#define WEIR_CPU_TEAM_H

#include "core/thread.h"

#ifdef WEIR_OPENMP
#include <omp.h>
static inline void weir_cpu_team(const weir_threads *t)
{
    if (omp_get_max_threads() != weir_threads_count(t))
        omp_set_num_threads(weir_threads_count(t));
}
#else
static inline void weir_cpu_team(const weir_threads *t)
{
    (void)t;
}
#endif

#endif
