/* pace.c - naps between tests, as long as the link needs to move something.
 *
 * A test costs some microseconds, and so does waking for it; while the device computes, both are
 * taken from it. So naps grow while nothing moves and shrink while something does: about every
 * second test then finds something, whatever the link's speed. A processor is never given up by
 * sched_yield: on Linux another thread that computes then keeps it for its whole slice of about 3
 * ms, in which a link of 1 Gbit/s could move 375 KB. */
#include "device/comm/pace.h"

#include <time.h>

#include "core/env.h"

/* Tests without a nap: while a caller waits, and while the device computes. */
enum { SPINS_WAITED = 2000, SPINS = 20 };

/* Bounds of naps, and the longest while a caller waits. */
enum { LEAST_NS = 20000, MOST_NS = 400000, WAITED_NS = 50000 };

void weir_nap(int64_t ns)
{
    const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    (void)weir_env_get()->nanosleep(&t, NULL);
}

static int64_t clamp(int64_t ns, int64_t most)
{
    return ns < LEAST_NS ? LEAST_NS : ns > most ? most : ns;
}

void weir_pace_next(weir_pace *p, uint64_t tests, uint64_t moved, bool waited)
{
    const bool some = moved != p->moved;

    p->moved = moved;
    if (tests < (waited ? SPINS_WAITED : SPINS))
        return;
    p->nap_ns = clamp(some ? p->nap_ns * 3 / 4 : p->nap_ns * 5 / 4, waited ? WAITED_NS : MOST_NS);
    weir_nap(p->nap_ns);
}
