/* status.h - the calling thread's last failure: a status and one sentence. */
#ifndef WEIR_CORE_STATUS_H
#define WEIR_CORE_STATUS_H

#include <stdbool.h>

#include "weir/base.h"

/* weir_fail for functions that return a pointer: evaluates to NULL. */
#define WEIR_FAIL_NULL(...) ((void)weir_fail(__VA_ARGS__), NULL)

/* Fails with ERR_INVALID and "WHAT 'name' (expected a, b or c)": name has n bytes; names are
 * separated by ", ". */
weir_status weir_fail_unknown(const char *what, const char *name, size_t n, const char *names);

/* Puts "PATH/" before the sentence of the last failure unless it begins so, or the path is "".
 * Returns s. */
weir_status weir_fail_inside(const char *path, weir_status s);

/* A thread's last failure, kept while something is tried whose own failure is of no consequence. */
typedef struct weir_failure {
    weir_status status;             /* WEIR_OK: none */
    bool        old;
    char        text[1024];
} weir_failure;

/* Copies the calling thread's last failure; makes a copy the last failure again. */
void weir_failure_get(weir_failure *f);
void weir_failure_set(const weir_failure *f);

/* How many failures have poisoned a recording (weir_poison), in which thread. */
typedef struct weir_poison_mark {
    const void *thread;
    uint64_t    n;
} weir_poison_mark;

weir_poison_mark weir_poison_mark_now(void);

/* A recording begins in this thread. If an argument is NULL in it, weir_fail_null names the
 * argument beside the last failure, which may have been handled. */
void weir_failures_are_old(void);

/* WEIR_OK, or the status of the last such failure since `then`; its sentence becomes the current
 * error again. */
weir_status weir_poisoned_since(const weir_poison_mark *then);

#endif
