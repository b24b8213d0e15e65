/* ahead.h - batches that worker threads prepare while the program computes.
 *
 * A ring of slots, filled in the order in which they were queued and taken in that order, whatever
 * the number of threads. The owner queues and takes, in one thread at a time. */
#ifndef WEIR_MODEL_DATA_AHEAD_H
#define WEIR_MODEL_DATA_AHEAD_H

#include "weir.h"

typedef struct weir_ahead weir_ahead;

/* A batch: n samples by their indices, in an epoch; x has n times `elements` numbers. */
typedef struct weir_ahead_batch {
    int64_t  epoch, n;
    int64_t *from;
    float   *x;
} weir_ahead_batch;

/* threads, slots >= 1; size: most samples of a batch. fill writes x of a batch; it runs in any of
 * the threads, on several batches at once, and must not fail. */
typedef struct weir_ahead_options {
    int     threads, slots;
    int64_t size, elements;
    void  (*fill)(const void *ctx, const weir_ahead_batch *b);
    const void *ctx;
} weir_ahead_options;

/* NULL with ERR_NOMEM if memory or a thread is not available. Owned by the caller, who frees it
 * before ctx; freeing waits for batches in work. */
weir_ahead *weir_ahead_new(const weir_ahead_options *options);
void        weir_ahead_free(weir_ahead *a);

/* True in the process that made the threads; a forked child has none. */
bool weir_ahead_lives(const weir_ahead *a);

/* The next free slot, whose epoch, n and from the owner sets before weir_ahead_queue; NULL: all are
 * queued. */
weir_ahead_batch *weir_ahead_slot(weir_ahead *a);
void              weir_ahead_queue(weir_ahead *a);

/* Waits for the oldest queued batch, of which there is one; it is the owner's until
 * weir_ahead_drop, which frees its slot. */
const weir_ahead_batch *weir_ahead_take(weir_ahead *a);
void                    weir_ahead_drop(weir_ahead *a);

/* Forgets all that is queued, once batches in work are done. */
void weir_ahead_clear(weir_ahead *a);

#endif
