/* index.c - checks of indices before kernels use them. */
#include "device/cpu/kernels/index.h"

#include "core/status.h"
#include "device/common/div.h"

enum { GROUP = 1024 };      /* indices that are checked without a branch */

static int64_t index_at(const void *at, bool wide, int64_t i)
{
    return wide ? ((const int64_t *)at)[i] : ((const int32_t *)at)[i];
}

/* Number of indices first .. end - 1 that are outside 0 .. limit - 1 or equal to `ignored`. */
static int64_t special(const void *at, bool wide, int64_t first, int64_t end, int64_t limit,
                       int64_t ignored)
{
    int64_t n = 0;

    if (wide) {
        const int64_t *const x = at;
        for (int64_t i = first; i < end; i++)
            n += (uint64_t)x[i] >= (uint64_t)limit || x[i] == ignored;
    } else {
        const int32_t *const x = at;
        for (int64_t i = first; i < end; i++)
            n += (uint64_t)x[i] >= (uint64_t)limit || x[i] == ignored;
    }
    return n;
}

/* Fails for the first index that is out of range; *counted: indices that are not ignored. */
static weir_status look(const weir_kargs *k, int input, const char *what, int64_t limit,
                        const int64_t *ignored, int64_t *counted)
{
    const weir_desc *const d = &k->call->in[input].desc;
    const bool             wide = d->dtype == WEIR_I64;
    const void *const      at = k->src[input];

    *counted = d->dim[0];
    for (int64_t first = 0; first < d->dim[0]; first += GROUP) {
        const int64_t end = min64(d->dim[0], first + GROUP);
        if (special(at, wide, first, end, limit, ignored ? *ignored : -1) == 0)
            continue;
        for (int64_t i = first; i < end; i++) {
            const int64_t x = index_at(at, wide, i);
            if (ignored && x == *ignored)
                --*counted;
            else if (x < 0 || x >= limit)
                return weir_call_fail(WEIR_ERR_INDEX, k->call, "%s %lld at position %lld is "
                                      "outside 0..%lld", what, (long long)x, (long long)i,
                                      (long long)limit - 1);
        }
    }
    return WEIR_OK;
}

weir_status weir_cpu_check_index(const weir_kargs *k, int input, const char *what, int64_t limit)
{
    int64_t counted;

    return look(k, input, what, limit, NULL, &counted);
}

weir_status weir_cpu_check_index_but(const weir_kargs *k, int input, const char *what,
                                     int64_t limit, int64_t ignored, int64_t *counted)
{
    return look(k, input, what, limit, &ignored, counted);
}
