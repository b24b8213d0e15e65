/* rematerialize.h - recomputes evicted values when they are read, all inputs of a call together. */
#ifndef WEIR_GRAPH_EAGER_REMATERIALIZE_H
#define WEIR_GRAPH_EAGER_REMATERIALIZE_H

#include "graph/ir/session.h"
#include "graph/eager/lineage.h"

typedef struct weir_frame {         /* values needed at the same time */
    weir_recompute_record *m;       /* the call that reads them; NULL: a call of the user */
    int                    n, begun; /* begun: how often one of them had to be recomputed */
    uint32_t               locked;   /* bit i: this frame has locked of[i] */
    weir_origin           *of[WEIR_MAX_IN];
} weir_frame;

struct weir_evict {
    weir_session *s;
    weir_lineage  lineage;
    WEIR_VEC(weir_frame) frames;
    WEIR_VEC(weir_origin *) fixed;  /* values to become constant */
    double                  now;    /* the clock: estimated seconds of all calls so far */
    uint64_t                recomputed; /* number of calls run again for the current one */
    bool                    late;       /* lock values that are on the device last */
    const char             *doing;      /* name of the call that needs memory, or NULL */
};

/* Recomputes the evicted ones of the values and locks all on the device. Fails with ERR_BUDGET if
 * they do not fit together, or if too many calls would have to run again. */
weir_status weir_hold_all(weir_evict *e, const weir_frame *all);
weir_status weir_hold(weir_evict *e, weir_origin *o);

#endif
