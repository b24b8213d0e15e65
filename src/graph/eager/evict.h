/* evict.h - a budget with the graph off: values are evicted when memory is short and recomputed
 * when they are read. Functions fail with ERR_BUDGET if not enough memory can be freed. */
#ifndef WEIR_GRAPH_EAGER_EVICT_H
#define WEIR_GRAPH_EAGER_EVICT_H

#include "graph/ir/session.h"

/* Sets the session's budget in bytes with the graph off; SIZE_MAX: none. */
weir_status weir_evict_limit(weir_session *s, size_t bytes);

/* Runs a call as weir_run_once does, within the budget: recomputes evicted inputs, evicts other
 * values where memory is short, and remembers the call. */
weir_status weir_evict_run(weir_evict *e, const weir_call *c, weir_tensor *const *in,
                           weir_tensor *const *out, uint64_t rng);

/* Recomputes the value if it is evicted, and locks it on the device until weir_evict_release. */
weir_status weir_evict_hold(const weir_block *b);
void        weir_evict_release(const weir_block *b);

/* Recomputes the value if it is evicted, and makes it unevictable permanently. */
weir_status weir_evict_fix(weir_block *b);

/* Call before the block's elements change in place: ensures that values computed from the old
 * elements can still be read. */
weir_status weir_evict_overwrite(weir_block *b);

#endif
