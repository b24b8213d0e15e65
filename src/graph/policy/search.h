/* search.h - which pieces to drop and make anew so that a step fits a number of bytes at the least
 * extra time. */
#ifndef WEIR_GRAPH_POLICY_SEARCH_H
#define WEIR_GRAPH_POLICY_SEARCH_H

#include "graph/policy/walk.h"

typedef struct weir_search {
    const weir_problem *p;
    size_t         budget;      /* bytes of pieces and workspace */
    uint64_t       moves;       /* tried by annealing: a count, so that plans are reproducible */
    const char    *policy;      /* NULL or "auto": all of it; else one of mincut.h alone */
    weir_walk_room room;        /* holds the answer's walk afterwards */
    uint8_t       *best;        /* [gaps] the answer */
    size_t         best_peak;
    double         best_extra;  /* seconds */
} weir_search;

/* ERR_NOMEM, or WEIR_OK: then best_peak <= budget says whether a plan was found, else best is the
 * smallest one met. */
weir_status weir_search_run(weir_search *s);
void        weir_search_free(weir_search *s);

#endif
