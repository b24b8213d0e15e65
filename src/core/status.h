/* status.h - the calling thread's last failure: a status and one sentence. */
#ifndef WEIR_CORE_STATUS_H
#define WEIR_CORE_STATUS_H

#include "weir/base.h"

/* weir_fail for functions that return a pointer: WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "...", ...) is
 * NULL. */
#define WEIR_FAIL_NULL(...) ((void)weir_fail(__VA_ARGS__), NULL)

#endif
