/* thread.h - worker threads: a parallel loop over tasks. Two back ends, chosen when building:
 * OpenMP (shares the pool of oneDNN and OpenBLAS) and POSIX threads (which ThreadSanitizer
 * understands).
 *
 * The division of work into tasks must depend on shapes only, never on the number of threads: then
 * every thread count computes the same bits. */
#ifndef WEIR_CORE_THREAD_H
#define WEIR_CORE_THREAD_H

#include <stddef.h>
#include <stdint.h>

typedef struct weir_threads weir_threads;

typedef void (*weir_task_fn)(void *ctx, int64_t task);

/* n >= 1 workers, the caller included. NULL when memory is short. */
weir_threads *weir_threads_new(int n);

/* Bytes of address space for the stacks of n threads more. */
size_t weir_threads_stacks(int n);
void          weir_threads_free(weir_threads *t);
int           weir_threads_count(const weir_threads *t);

/* Calls fn(ctx, 0..tasks-1), each exactly once, in contiguous runs per worker, and waits. With one
 * task or one worker the caller runs them itself. Must not be called from inside a task. */
void weir_parallel(weir_threads *t, int64_t tasks, weir_task_fn fn, void *ctx);

/* Index of the worker running the current task, 0 .. count-1 (for per-worker scratch). */
int weir_thread_index(void);

/* WEIR_THREADS if set and sane, else the cores this process may use. */
int weir_threads_default(void);

/* "openmp" or "pthread". */
const char *weir_threads_backend(void);

#endif
