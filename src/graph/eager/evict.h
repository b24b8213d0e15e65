/* evict.h - a budget with the graph off: values are evicted when memory is short and recomputed
 * when they are read. ERR_BUDGET: not enough memory can be freed. */
#ifndef WEIR_GRAPH_EAGER_EVICT_H
#define WEIR_GRAPH_EAGER_EVICT_H

#include "graph/ir/session.h"

/* Sets the session's budget in bytes with the graph off; SIZE_MAX: none. */
weir_status weir_evict_limit(weir_session *s, size_t bytes);

/* weir_run_once under the budget: recomputes evicted inputs, and evicts other values for it. */
weir_status weir_evict_run(weir_evict *e, const weir_call *c, weir_tensor *const *in,
                           weir_tensor *const *out, uint64_t rng);

/* Puts the value on the device and locks it there until weir_evict_release. */
weir_status weir_evict_hold(const weir_block *b);
void        weir_evict_release(const weir_block *b);

/* Puts the value on the device and never evicts it from now on. */
weir_status weir_evict_fix(weir_block *b);

/* Call it before elements change in place: values with a handle that were made from the old
 * elements keep their value. */
weir_status weir_evict_overwrite(weir_block *b);

#endif
