/* pace.h - how often the wire thread tests what is under way. */
#ifndef WEIR_DEVICE_COMM_PACE_H
#define WEIR_DEVICE_COMM_PACE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct weir_pace {
    uint64_t moved;             /* at the last test */
    int64_t  nap_ns;
} weir_pace;

/* Sleeps for that long. */
void weir_nap(int64_t ns);

/* Returns after as long as should pass between two tests. tests: those so far of what is under way;
 * moved: the link's count (comm.h); waited: the thread that computes waits for this one. */
void weir_pace_next(weir_pace *p, uint64_t tests, uint64_t moved, bool waited);

#endif
