/* prompt.c - short slices and exact timers, as Linux offers them.
 *
 * Since Linux 6.12 a thread may ask for a slice of its own; one that wakes with a shorter slice
 * runs before one that has a longer slice (Documentation/scheduler/sched-eevdf.rst). By default
 * both have about 3 ms, and a thread that naps waits that long for a processor on which another
 * computes. A nap ends up to 50 us late unless the slack of timers is smaller. */
#include "device/comm/prompt.h"

#ifdef __linux__

#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLICE_NS = 100000, SLACK_NS = 1000 };    /* 100 us is the shortest slice there is */

/* struct sched_attr of the kernel, which C libraries lack, in its first version. */
typedef struct attributes {
    uint32_t size, policy;      /* policy 0: SCHED_OTHER */
    uint64_t flags;
    int32_t  nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;         /* runtime: the slice */
} attributes;

void weir_thread_be_prompt(void)
{
    attributes a = {.size = sizeof a};

#ifdef SYS_sched_setattr
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) == 0 && a.policy == 0) {
        a.runtime = SLICE_NS;
        (void)syscall(SYS_sched_setattr, 0, &a, 0);
    }
#endif
    (void)prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
}

#else

void weir_thread_be_prompt(void)
{
}

#endif
