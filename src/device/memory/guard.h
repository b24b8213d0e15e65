/* guard.h - zones of a known pattern around every operand and workspace of a kernel: a kernel that
 * writes outside its operands is detected after its call and named.
 *
 * A device is opened with or without zones (weir_device_options.guard, WEIR_GUARD). They count as
 * part of a block, storage or workspace: pool, planner and policies count weir_guard_size and
 * weir_guard_work, and no other code knows of them. The zone behind begins right after the last
 * byte of the operand, so it includes the padding for alignment. */
#ifndef WEIR_DEVICE_MEMORY_GUARD_H
#define WEIR_DEVICE_MEMORY_GUARD_H

#include "core/op.h"
#include "device/device.h"

/* The size of the device's zones in bytes, a multiple of its alignment; `asked` is the option.
 * weir_env_check has accepted WEIR_GUARD. */
weir_status weir_guard_zone(const weir_device_ops *ops, int asked, size_t *zone);

/* Bytes to allocate for `bytes`: a multiple of the alignment, with a guard zone on either side if
 * the device has them; 0 for 0. False on overflow. */
bool weir_guard_size(const weir_device *d, size_t bytes, size_t *taken);

/* Bytes to request for a kernel's workspace: more with guard zones, because libraries overrun their
 * scratchpads by much; the addition becomes part of the zone after it. 0 for 0. */
size_t weir_guard_work(const weir_device *d, size_t work);

/* Offset of the operand within its range of `taken` bytes. */
static inline size_t weir_guard_begin(const weir_device *d, size_t taken)
{
    return taken > 0 ? d->guard : 0;
}

/* Writes the pattern around the first `bytes` of a range of `capacity` bytes. */
weir_status weir_guard_fill(weir_device *d, void *at, size_t bytes, size_t capacity);

/* Damage found around the operands of one call. All zeros after the first three fields at first. */
typedef struct weir_watch {
    weir_device     *dev;
    const weir_call *call;
    long             place, of;     /* instruction `place` of `of`; of 0: no plan */
    bool             ran;           /* false: the check before the call */
    int              hit;           /* number of operands with a damaged zone */
    int              operand;       /* the first of them: inputs, outputs, then the workspace */
    size_t           bytes, changed;
    ptrdiff_t        first, last;   /* bytes changed, counted from the operand's memory */
} weir_watch;

/* Checks and restores the zones of operand i, the first `bytes` of a range of `capacity` bytes at
 * `at` (NULL: no memory). Fails only if the device fails. */
weir_status weir_guard_look(weir_watch *w, int i, void *at, size_t bytes, size_t capacity);

/* so_far if that is a failure, else ERR_DEVICE with a sentence if a zone was damaged. */
weir_status weir_guard_verdict(const weir_watch *w, weir_status so_far);

#endif
