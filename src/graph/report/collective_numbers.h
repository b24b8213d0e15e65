/* collective_numbers.h - a collective of a plan in the numbers that its reports share. */
#ifndef WEIR_GRAPH_REPORT_COLLECTIVE_NUMBERS_H
#define WEIR_GRAPH_REPORT_COLLECTIVE_NUMBERS_H

#include "graph/plan/plan.h"

/* Milliseconds; -1: not known. */
typedef struct weir_collective_numbers {
    uint32_t start, wait;       /* instructions */
    size_t   bytes;             /* of its operand */
    double   begin_ms;          /* after the start of the step, as predicted */
    double   wire_ms;           /* that it takes from there on, as predicted */
    double   exposed_ms;        /* for which computing waits until then, as predicted; longer than
                                 * wire_ms if it waits for those ahead of it on the wire too */
    double   measured_exposed_ms;       /* for which computing waited, mean of the profiled runs */
} weir_collective_numbers;

weir_collective_numbers weir_collective_numbers_of(const weir_plan *p, const weir_wire_span *w);

#endif
