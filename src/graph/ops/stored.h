/* stored.h - integer types that are stored, but that no kernel adds. */
#ifndef WEIR_GRAPH_OPS_STORED_H
#define WEIR_GRAPH_OPS_STORED_H

#include "graph/ops/define.h"

/* x as i64 if no kernel adds its type, the largest u64 being the largest i64 if `ordered`; x itself
 * if one does. The other way: to the type t of such an x. NULL gives NULL. */
weir_tensor *weir_widen_stored(weir_tensor *x, bool ordered);
weir_tensor *weir_narrow_stored(weir_tensor *y, weir_dtype t, bool ordered);

#endif
