/* guard.h - zones of a known pattern before and after every piece of a device's memory that kernels
 * are given, so that one which writes outside is found out after its call, and named.
 *
 * A device has them or not, from the day it is opened (weir_device_options.guard, WEIR_GUARD). They
 * belong to what a block, storage or workspace takes: pool, planner and policies count
 * weir_guard_size and weir_guard_work, and nothing else knows of them. The zone behind begins at
 * the first byte that is not the piece's own, alignment included. */
#ifndef WEIR_DEVICE_MEMORY_GUARD_H
#define WEIR_DEVICE_MEMORY_GUARD_H

#include "core/op.h"
#include "device/device.h"

/* The zone that a device is opened with, in bytes, a multiple of its alignment: `asked` is the
 * option. ERR_INVALID where the environment says neither 0 nor 1. */
weir_status weir_guard_zone(const weir_device_ops *ops, int asked, size_t *zone);

/* What a piece of `bytes` takes: a multiple of the alignment, with a guard zone on either side if
 * the device has them; nothing takes nothing. False where that overflows. */
bool weir_guard_size(const weir_device *d, size_t bytes, size_t *taken);

/* The piece to ask for where a kernel needs a workspace: it ends in room that belongs to the zone
 * behind, because libraries overrun scratchpads, and by far. 0 for none. */
size_t weir_guard_work(const weir_device *d, size_t work);

/* Where its own bytes begin in what it takes. */
static inline size_t weir_guard_begin(const weir_device *d, size_t taken)
{
    return taken > 0 ? d->guard : 0;
}

/* Writes the pattern round the first `bytes` of a piece of `piece` bytes. */
weir_status weir_guard_fill(weir_device *d, void *at, size_t bytes, size_t capacity);

/* What is found round the operands of one call; all zero but for the first three. */
typedef struct weir_watch {
    weir_device     *dev;
    const weir_call *call;
    long             place, of;     /* instruction `place` of `of`; of 0: no plan */
    bool             ran;           /* or is it looked at before? */
    int              hit;           /* operands that were written round, the first of them: */
    int              operand;       /* inputs, outputs, then the workspace */
    size_t           bytes, changed;
    ptrdiff_t        first, last;   /* bytes changed, counted from the operand's memory */
} weir_watch;

/* Looks at the zones of operand i, the first `bytes` of a piece at `at` (NULL: it has no memory),
 * and mends them. Fails only where the device does. */
weir_status weir_guard_look(weir_watch *w, int i, void *at, size_t bytes, size_t capacity);

/* so_far if that is a failure, else ERR_DEVICE with a sentence if anything was found. */
weir_status weir_guard_verdict(const weir_watch *w, weir_status so_far);

#endif
