/* status.h - the calling thread's last failure: a status and one sentence. */
#ifndef WEIR_CORE_STATUS_H
#define WEIR_CORE_STATUS_H

#include "weir/base.h"

/* Remembers status and sentence for this thread and returns the status. Never allocates. */
weir_status weir_fail(weir_status s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for functions that return a pointer: WEIR_FAIL_NULL(WEIR_ERR_SHAPE, "...", ...) is
 * NULL. */
#define WEIR_FAIL_NULL(...) ((void)weir_fail(__VA_ARGS__), NULL)

/* The status to return when an argument is NULL: the earlier mistake that made it so, or
 * ERR_INVALID naming `function` and `argument` when there was none. */
weir_status weir_fail_null(const char *function, const char *argument);

#endif
