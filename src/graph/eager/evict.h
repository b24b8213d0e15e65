/* evict.h - a budget with the graph off: values are dropped when memory is short and made anew when
 * somebody reads them. */
#ifndef WEIR_GRAPH_EAGER_EVICT_H
#define WEIR_GRAPH_EAGER_EVICT_H

#include "graph/ir/session.h"

/* The session's budget with the graph off; SIZE_MAX: none. */
weir_status weir_evict_limit(weir_session *s, size_t bytes);

/* weir_run_once under the budget: inputs that are gone are made anew, others may go for it. */
weir_status weir_evict_run(weir_evict *e, const weir_call *c, weir_tensor *const *in,
                           weir_tensor *const *out, uint64_t rng);

/* The value is there and stays until it is let go. */
weir_status weir_evict_hold(const weir_block *b);
void        weir_evict_release(const weir_block *b);

/* The value is there and is never dropped, from now on. */
weir_status weir_evict_fix(weir_block *b);

/* To be called before elements change in place: what somebody still holds and was made from the old
 * ones keeps its value. */
weir_status weir_evict_overwrite(weir_block *b);

#endif
