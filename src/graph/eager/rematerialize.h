/* rematerialize.h - recomputes evicted values when they are needed, all inputs of a call at
 * once. */
#ifndef WEIR_GRAPH_EAGER_REMATERIALIZE_H
#define WEIR_GRAPH_EAGER_REMATERIALIZE_H

#include "graph/ir/session.h"
#include "graph/eager/lineage.h"

typedef struct weir_frame {         /* values needed at the same time */
    weir_recompute_record *m;       /* the call that reads them; NULL: the user's */
    int                    n, begun; /* begun: times that one had to be recomputed */
    uint32_t               locked;   /* bit i: this frame has locked of[i] */
    weir_origin           *of[WEIR_MAX_IN];
} weir_frame;

struct weir_evict {
    weir_session *s;
    weir_lineage  lineage;
    WEIR_VEC(weir_frame) frames;
    WEIR_VEC(weir_origin *) fixed;  /* values to become constant */
    double                  now;    /* estimated seconds of all calls so far */
    uint64_t                recomputed; /* calls rerun for the current one */
    bool                    late;       /* lock last what is on the device */
    const char             *doing;      /* the call that needs memory; NULL: none */
};

/* Puts the values on the device and locks them; ERR_BUDGET if they do not fit together. */
weir_status weir_hold_all(weir_evict *e, const weir_frame *all);
weir_status weir_hold(weir_evict *e, weir_origin *o);

#endif
