/* highs.h - mixed-integer linear programmes, solved by HiGHS where that is installed.
 *
 * A programme is built column by column and row by row and solved once. One thread, a fixed seed
 * and a limit on nodes make answers reproducible; a limit of WEIR_HIGHS_SECONDS guards against a
 * root node that never ends, and only there a clock decides. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_HIGHS_H
#define WEIR_GRAPH_MEMORY_BOUNDS_HIGHS_H

#include "core/vec.h"
#include "weir/base.h"

#define WEIR_NO_COLUMN UINT32_MAX

enum { WEIR_HIGHS_SECONDS = 600 };

typedef struct weir_milp {
    WEIR_VEC(double) cost, low, high;           /* [columns] the sum of costs is minimised */
    WEIR_VEC(int32_t) whole;                    /* [columns] 1: a whole number */
    WEIR_VEC(double) row_low, row_high;
    WEIR_VEC(int32_t) first, index;             /* entries of a row begin at first[row] */
    WEIR_VEC(double) value;
    WEIR_VEC(int32_t) start_index;              /* columns with a start value */
    WEIR_VEC(double) start_value;
    bool     short_of_memory;                   /* when the programme was built */
    uint64_t nodes;                             /* limit of branch and bound; 0: none */
    double  *x;                                 /* the answer: [columns], if found */
    double   proven;                            /* no answer costs less; INFINITY: infeasible */
    bool     found;
} weir_milp;

/* Adds a column and returns its number. weir_milp_solve reports a shortage of memory. */
uint32_t weir_milp_column(weir_milp *m, double low, double high, double cost, bool whole);

/* Opens a row: low <= sum of the entries that follow <= high. */
void weir_milp_row(weir_milp *m, double low, double high);
void weir_milp_entry(weir_milp *m, uint32_t column, double value);
void weir_milp_start(weir_milp *m, uint32_t column, double value);

/* ERR_NOKERNEL, naming what is missing; ERR_NOMEM; or WEIR_OK: see `found` and `proven`. */
weir_status weir_milp_solve(weir_milp *m);
void        weir_milp_free(weir_milp *m);

/* ERR_NOKERNEL, naming what is missing, if no solver is available. */
weir_status weir_highs_require(void);

#endif
