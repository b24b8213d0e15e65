/* op_sums.h - flops, bytes and seconds of a plan by operation, for tables of cost and time. */
#ifndef WEIR_GRAPH_PLAN_OP_SUMS_H
#define WEIR_GRAPH_PLAN_OP_SUMS_H

#include "graph/plan/plan.h"

/* All instructions of one operation (if fused: one sequence of steps) with the same kernel. */
typedef struct weir_op_sum {
    uint32_t instr;             /* the first of them */
    uint32_t count;
    double   flops, bytes;      /* of one run */
    double   seconds;           /* of all profiled runs */
} weir_op_sum;

typedef WEIR_VEC(weir_op_sum) weir_op_sums;

/* Fills *sums, sorted by the qsort comparison `order`. Returns false if memory is short; the caller
 * frees the list in either case. */
bool weir_op_sums_of(const weir_plan *p, int (*order)(const void *, const void *),
                     weir_op_sums    *sums);

#endif
