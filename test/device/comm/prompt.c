/* prompt.c - a thread that has asked for it has short slices and exact timers. */
#include "device/comm/prompt.h"

#include <pthread.h>

#include "check.h"

#ifdef __linux__
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The slice of the calling thread in ns; 0 where the kernel does not tell. */
static uint64_t slice(void)
{
    uint64_t words[6] = {0};    /* struct sched_attr: runtime is the word at byte 24 */

#ifdef SYS_sched_getattr
    if (syscall(SYS_sched_getattr, 0, words, sizeof words, 0) != 0)
        return 0;
#endif
    return words[3];
}

typedef struct seen {
    uint64_t before, after;
    int      slack;
} seen;

static void *look(void *arg)
{
    seen *const s = arg;

    s->before = slice();
    weir_thread_be_prompt();
    s->after = slice();
    s->slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    return NULL;
}

CASE(a_prompt_thread_has_short_slices_and_exact_timers)
{
    const uint64_t mine = slice();
    const int      slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    seen           s;
    pthread_t      t;

    CHECK_OR_RETURN(pthread_create(&t, NULL, look, &s) == 0);
    pthread_join(t, NULL);
    CHECK(s.slack == 1000);
    if (s.before > 0)                   /* Linux 6.12 and later */
        CHECK(s.after == 100000);
    CHECK(slice() == mine);             /* the other threads stay as they were */
    CHECK(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == slack);
}
#endif
