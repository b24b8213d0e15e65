/* thread.h - a pool of worker threads and a parallel loop over tasks. Two back ends, chosen at
 * build time: OpenMP (shares the threads of oneDNN and OpenBLAS) and POSIX threads (which
 * ThreadSanitizer understands).
 *
 * The division of work into tasks must depend on shapes only, never on the number of threads, so
 * that every thread count computes the same bits. */
#ifndef WEIR_CORE_THREAD_H
#define WEIR_CORE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/base.h"

typedef struct weir_threads weir_threads;

typedef void (*weir_task_fn)(void *ctx, int64_t task);

/* Creates a pool of n >= 1 workers, the calling thread included, and starts them. NULL, with
 * ERR_NOMEM remembered, if memory or threads run out. */
weir_threads *weir_threads_new(int n);

/* Bytes of address space for the stacks of n more threads. */
size_t weir_threads_stacks(int n);
void          weir_threads_free(weir_threads *t);
int           weir_threads_count(const weir_threads *t);

/* Calls fn(ctx, task) for each task 0..tasks-1, in contiguous ranges per worker, and returns when
 * all are done. With one task or one worker the caller runs them itself, and also where the workers
 * cannot be started. Not to be called from a task. */
void weir_parallel(weir_threads *t, int64_t tasks, weir_task_fn fn, void *ctx);

/* Sets the number of threads with which libraries that use OpenMP run when this thread calls them,
 * and makes sure that these threads exist. To be called before each call of such a library. Does
 * nothing for pools of POSIX threads. Fails with ERR_NOMEM if the system starts too few. */
weir_status weir_threads_lend(const weir_threads *t);

/* True in a process that was forked after a pool had been created: its worker threads exist in the
 * parent alone, and a loop would wait for them without end. The variable is thread.c's; it is no
 * atomic_bool because C++ files of the CUDA plugin include this header. */
extern bool weir_threads_forked;

static inline bool weir_threads_lost(void)
{
    return __atomic_load_n(&weir_threads_forked, __ATOMIC_RELAXED);
}

/* Index of the worker running the current task, 0 .. count-1, for per-worker scratch memory. */
int weir_thread_index(void);

/* "openmp" or "pthread". */
const char *weir_threads_backend(void);

#endif
