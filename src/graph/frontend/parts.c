/* parts.c - moves the random stream on to a later part, at once or in every run of a graph. */
#include "graph/frontend/parts.h"

#include "graph/ir/graph.h"
#include "graph/ir/session.h"
#include "weir/op.h"

weir_status weir_random_advance(weir_device *d, int64_t parts)
{
    if (!d)
        return weir_fail_null("weir_random_advance", "device");
    if (parts < 1)
        return weir_fail(WEIR_ERR_INVALID, "weir_random_advance: %lld parts, must be 1 or more",
                         (long long)parts);
    WEIR_VISIT(d, "weir_random_advance", weir_error_status());
    weir_session *const s = weir_session_of(d);
    if (!s)
        return weir_error_status();
    uint64_t *const at = s->recording ? &s->recording->rng_total : &d->rng;
    *at = weir_part_of(*at, (uint64_t)parts);
    if (s->recording)
        s->recording->rng_parts = true;
    return WEIR_OK;
}
