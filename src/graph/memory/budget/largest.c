/* largest.c - the largest batch whose step fits: doubles, then halves the interval. */
#include "core/status.h"
#include "weir/plan.h"

static bool too_large(weir_status s)
{
    return s == WEIR_ERR_BUDGET || s == WEIR_ERR_NOMEM;
}

weir_status weir_largest_batch(weir_batch_fn fits, void *ctx, int64_t first, int64_t most,
                               int64_t *batch)
{
    int64_t     low = 0, high = 0;      /* the largest that fits, the smallest that does not */
    weir_status s = WEIR_OK;

    if (!fits || !batch)
        return weir_fail_null("largest_batch", fits ? "batch" : "fits");
    if (first < 1 || most < first)
        return weir_fail(WEIR_ERR_INVALID, "largest_batch: first %lld must be 1 to most, %lld",
                         (long long)first, (long long)most);
    for (int64_t n = first; high - low != 1;) {
        s = fits(ctx, n);
        if (s != WEIR_OK && !too_large(s))
            return s;
        *(s == WEIR_OK ? &low : &high) = n;
        if (low == most || high == 1)
            break;
        n = high ? low + (high - low) / 2 : n > most / 2 ? most : 2 * n;
    }
    *batch = low;
    return low ? WEIR_OK : s;
}
