/* status.h - the calling thread's last failure: a status and one sentence. */
#ifndef WEIR_CORE_STATUS_H
#define WEIR_CORE_STATUS_H

#include "weir/base.h"

/* weir_fail for functions that return a pointer: WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "...", ...) is
 * NULL. */
#define WEIR_FAIL_NULL(...) ((void)weir_fail(__VA_ARGS__), NULL)

/* How many failures spoiled a recording (weir_poison), in which thread. */
typedef struct weir_poison_mark {
    const void *thread;
    uint64_t    n;
} weir_poison_mark;

weir_poison_mark weir_poison_mark_now(void);

/* OK, or the status of one since then, whose sentence is the last failure's again. */
weir_status weir_poisoned_since(const weir_poison_mark *then);

#endif
