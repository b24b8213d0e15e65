/* highs.h - mixed-integer linear programmes, solved by HiGHS if that is installed.
 *
 * A programme is built column by column and row by row and solved once. One thread, a fixed seed
 * and a limit on branch-and-bound nodes make answers reproducible. WEIR_HIGHS_SECONDS of wall-clock
 * time are the last resort if the root node alone takes forever; only then can answers differ. */
#ifndef WEIR_GRAPH_MEMORY_BOUNDS_HIGHS_H
#define WEIR_GRAPH_MEMORY_BOUNDS_HIGHS_H

#include "core/vec.h"
#include "weir/base.h"

#define WEIR_NO_COLUMN UINT32_MAX

enum { WEIR_HIGHS_SECONDS = 600 };

typedef struct weir_milp {
    WEIR_VEC(double) cost, low, high;           /* [columns] objective (minimised) and bounds */
    WEIR_VEC(int32_t) whole;                    /* [columns] 1: integer */
    WEIR_VEC(double) row_low, row_high;
    /* compressed rows: entries of a row begin at first[row] */
    WEIR_VEC(int32_t) first, index;
    WEIR_VEC(double) value;
    WEIR_VEC(int32_t) start_index;              /* columns that have a start value */
    WEIR_VEC(double) start_value;
    /* an allocation failed while the programme was built */
    bool     short_of_memory;
    uint64_t nodes;                             /* limit of branch-and-bound nodes; 0: no limit */
    /* result: [columns] if found; owned by the programme */
    double  *x;
    /* result: lower bound of the objective; INFINITY: infeasible */
    double   proven;
    bool     found;
} weir_milp;

/* Adds a column and returns its number. If memory runs out, weir_milp_solve reports it. */
uint32_t weir_milp_column(weir_milp *m, double low, double high, double cost, bool whole);

/* Begins a row: low <= sum of value * column over the entries that follow <= high. */
void weir_milp_row(weir_milp *m, double low, double high);
void weir_milp_entry(weir_milp *m, uint32_t column, double value);
void weir_milp_start(weir_milp *m, uint32_t column, double value);

/* Solves the programme: see `found`, `x` and `proven`. Returns WEIR_OK; ERR_NOKERNEL, naming what
 * is missing; ERR_STATE if HiGHS fails; or ERR_NOMEM. */
weir_status weir_milp_solve(weir_milp *m);
void        weir_milp_free(weir_milp *m);

/* Returns WEIR_OK, or ERR_NOKERNEL, naming what is missing, if no solver is available. */
weir_status weir_highs_require(void);

#endif
