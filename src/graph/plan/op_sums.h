/* op_sums.h - what a plan computes, moves and takes by operation: for tables of cost and time. */
#ifndef WEIR_GRAPH_PLAN_OP_SUMS_H
#define WEIR_GRAPH_PLAN_OP_SUMS_H

#include "graph/plan/plan.h"

/* All instructions of one operation (one chain, if fused) that the same implementation runs. */
typedef struct weir_op_sum {
    uint32_t instr;             /* the first of them */
    uint32_t count;
    double   flops, bytes;      /* of one run */
    double   seconds;           /* of all profiled runs */
} weir_op_sum;

typedef WEIR_VEC(weir_op_sum) weir_op_sums;

/* False when memory is short; the caller owns the list either way. `order`: a qsort comparison. */
bool weir_op_sums_of(const weir_plan *p, int (*order)(const void *, const void *),
                     weir_op_sums    *sums);

#endif
