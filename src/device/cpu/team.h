/* team.h - sets the thread count of libraries that use OpenMP to that of the device.
 *
 * OpenMP keeps it per calling thread, so the program or another device may have changed it; the
 * results of the libraries depend on it. */
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
