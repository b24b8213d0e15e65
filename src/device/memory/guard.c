/* guard.c - guard zones: their size, their pattern, the check, and the sentence about damage. */
#include "device/memory/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"

enum {
    /* Bytes of a zone unless the alignment requires more: four of the widest vectors, which is how
     * far a kernel's own loops overrun. */
    ZONE = 256,
    /* The zone after a workspace is as large as the workspace, within these limits. oneDNN 2.6.3
     * overruns the scratchpad that it requests (weight gradients of 1x1 convolutions with stride 2
     * and few channels: 94 of 278 random ones on 2 to 4 threads) by 0 to 0.92 of its size; zones of
     * 256 bytes would detect half of these. */
    WORK_LEAST = 4096, WORK_MOST = 1 << 20,
    /* Few kernels write this byte. One that reads it gets 3.4e38 (f32) or NaN (f16), so the result
     * changes wherever it matters. */
    PATTERN = 0x7f
};

weir_status weir_guard_zone(const weir_device_ops *ops, int asked, size_t *zone)
{
    const char *const text = getenv("WEIR_GUARD");
    const bool        set = text && *text;

    *zone = 0;
    if (asked < -1 || asked > 1)
        return weir_fail(WEIR_ERR_INVALID, "weir_device_open: unknown guard %d (expected -1, 0 or "
                                           "1)", asked);
    if (asked < 0 || (asked == 0 && (!set || text[0] == '0')) || ops->unreal)
        return WEIR_OK;
    if (!ops->host)
        return weir_fail(WEIR_ERR_INVALID, "weir_device_open: guard zones (WEIR_GUARD) need a "
                         "device whose memory the host can read, and %s is not one", ops->name);
    return weir_size_align(ZONE, ops->align, zone) ? WEIR_OK : WEIR_ERR_NOMEM;
}

bool weir_guard_size(const weir_device *d, size_t bytes, size_t *taken)
{
    return weir_size_align(bytes, d->ops->align, taken) &&
           (bytes == 0 || weir_size_add(*taken, 2 * d->guard, taken));
}

size_t weir_guard_work(const weir_device *d, size_t work)
{
    const size_t more = work < WORK_LEAST ? WORK_LEAST : work > WORK_MOST ? WORK_MOST : work;
    size_t       bytes;

    if (d->guard == 0 || work == 0)
        return work;
    return weir_size_add(work, more, &bytes) ? bytes : SIZE_MAX;
}

/* Bytes of the range after its first `bytes`. */
static size_t behind(const weir_device *d, size_t bytes, size_t capacity)
{
    const size_t rest = capacity % d->ops->align;
    return capacity - bytes + (rest ? d->ops->align - rest : 0) + d->guard;
}

weir_status weir_guard_fill(weir_device *d, void *at, size_t bytes, size_t capacity)
{
    if (d->guard == 0 || bytes == 0)
        return WEIR_OK;
    WEIR_TRY(d->ops->fill(d, (char *)at - d->guard, PATTERN, d->guard));
    return d->ops->fill(d, (char *)at + bytes, PATTERN, behind(d, bytes, capacity));
}

/* Adds to w the changed bytes among n from offset `from` of the memory at `at`. */
static void count(weir_watch *w, const void *at, ptrdiff_t from, size_t n)
{
    const unsigned char *const zone = (const unsigned char *)at + from;

    for (size_t i = 0; i < n; i++) {
        if (zone[i] == PATTERN)
            continue;
        w->first = w->changed++ == 0 ? from + (ptrdiff_t)i : w->first;
        w->last = from + (ptrdiff_t)i;
    }
}

weir_status weir_guard_look(weir_watch *w, int i, void *at, size_t bytes, size_t capacity)
{
    weir_watch own = {.dev = w->dev, .operand = i, .bytes = bytes};

    if (!at || bytes == 0)
        return WEIR_OK;
    count(&own, at, -(ptrdiff_t)w->dev->guard, w->dev->guard);
    count(&own, at, (ptrdiff_t)bytes, behind(w->dev, bytes, capacity));
    if (own.changed == 0)
        return WEIR_OK;
    if (w->hit++ == 0) {
        w->operand = i;
        w->bytes = bytes;
        w->changed = own.changed;
        w->first = own.first;
        w->last = own.last;
    }
    return weir_guard_fill(w->dev, at, bytes, capacity);
}

/* Writes "output 0 f32(2,3)" to buf. */
static void name_operand(const weir_watch *w, char *buf, size_t capacity)
{
    const weir_call *const c = w->call;
    const int              i = w->operand, out = i - c->nin;
    char                   text[WEIR_DESC_TEXT];

    if (out >= c->nout)
        snprintf(buf, capacity, "its workspace");
    else
        snprintf(buf, capacity, "%s %d %s", out < 0 ? "input" : "output", out < 0 ? i : out,
                 weir_desc_text(out < 0 ? &c->in[i].desc : &c->out[out].desc, text));
}

/* "before", "after" or "before and after" the operand. */
static const char *side(const weir_watch *w)
{
    return w->first >= 0 ? "after" : w->last < 0 ? "before" : "before and after";
}

weir_status weir_guard_verdict(const weir_watch *w, weir_status so_far)
{
    char operand[WEIR_DESC_TEXT + 32], place[64] = "", more[48] = "";

    if (so_far != WEIR_OK || w->hit == 0)
        return so_far;
    name_operand(w, operand, sizeof operand);
    if (w->of > 0)
        snprintf(place, sizeof place, " (instruction %ld of %ld)", w->place, w->of);
    if (w->hit > 1)
        snprintf(more, sizeof more, ", and around %d more operands", w->hit - 1);
    return weir_fail(WEIR_ERR_DEVICE, "%s%s: %s: %zu %s changed %s %s of %zu bytes, at offsets "
                     "%td to %td%s", weir_op_name(w->call->op), place,
                     w->ran ? "the kernel wrote outside its operands"
                            : "something wrote around its operands before it ran",
                     w->changed, w->changed == 1 ? "byte" : "bytes", side(w), operand, w->bytes,
                     w->first, w->last, more);
}
