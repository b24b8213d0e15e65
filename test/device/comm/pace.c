/* pace.c - naps follow the link. */
#include "device/comm/pace.h"

#include "check.h"
#include "core/env.h"

enum { MANY = 5000, STEPS = 100 };

static int64_t napped;      /* in the last test's pause; 0: none */

static int note_nap(const struct timespec *time, struct timespec *left)
{
    (void)left;
    napped = time->tv_sec * 1000000000LL + time->tv_nsec;
    return 0;
}

/* One pause after `tests` tests; the link has moved this much so far. Returns its nap. */
static int64_t pause_once(weir_pace *p, uint64_t tests, uint64_t moved, bool waited)
{
    napped = 0;
    weir_pace_next(p, tests, moved, waited);
    return napped;
}

CASE(naps_follow_the_link)
{
    weir_env  env = *weir_env_get();
    weir_pace p = {0};

    env.nanosleep = note_nap;
    weir_env_set(&env);
    CHECK(pause_once(&p, 0, 0, false) == 0);        /* small messages arrive at once */
    CHECK(pause_once(&p, 100, 0, true) == 0);       /* the device waits */
    int64_t last = pause_once(&p, 100, 0, false);
    CHECK(last > 0);
    for (int i = 0; i < STEPS; i++) {               /* nothing moves */
        const int64_t nap = pause_once(&p, MANY, 0, false);
        CHECK(nap >= last);
        last = nap;
    }
    CHECK(last == 400000);
    CHECK(pause_once(&p, MANY, 0, true) == 50000);  /* a caller waits */
    for (int i = 0; i < STEPS; i++)
        last = pause_once(&p, MANY, 0, false);
    for (uint64_t i = 1; i <= STEPS; i++) {         /* each test finds something */
        const int64_t nap = pause_once(&p, MANY, i, false);
        CHECK(nap <= last);
        last = nap;
    }
    CHECK(last == 20000);
    weir_env_set(NULL);
}
