/* spill.h - which calls copy to and from the spill file, for those who plan, show or time them. */
#ifndef WEIR_GRAPH_OP_SPILL_H
#define WEIR_GRAPH_OP_SPILL_H

#include "core/attr.h"
#include "core/op.h"

/* The attributes of SPILL_OUT, SPILL_IN or SPILL_WAIT; NULL for any other op. */
static inline const weir_spill_attr *weir_spill_attr_of(weir_op op, const void *attr)
{
    return op == WEIR_OP_SPILL_OUT || op == WEIR_OP_SPILL_IN || op == WEIR_OP_SPILL_WAIT ? attr
                                                                                         : NULL;
}

#endif
