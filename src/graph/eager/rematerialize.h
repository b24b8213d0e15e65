/* rematerialize.h - values that are gone are made anew, when they are needed and all at once. */
#ifndef WEIR_GRAPH_EAGER_REMATERIALIZE_H
#define WEIR_GRAPH_EAGER_REMATERIALIZE_H

#include "graph/ir/session.h"
#include "graph/eager/lineage.h"

typedef struct weir_frame {         /* values that are needed at once */
    weir_recompute_record *m;       /* the call that reads them; NULL: the user's */
    int                    n, begun; /* begun: times that one of them had to be made */
    uint32_t               locked;   /* bit i: of[i] is, by this frame */
    weir_origin           *of[WEIR_MAX_IN];
} weir_frame;

struct weir_evict {
    weir_session *s;
    weir_lineage  lineage;
    WEIR_VEC(weir_frame) frames;
    WEIR_VEC(weir_origin *) fixed;  /* values to become constant */
    double                  now;    /* estimated seconds of all calls so far */
    uint64_t                recomputed; /* calls run again for the present one */
    bool                    late;       /* what is there is locked last */
    const char             *doing;      /* the call that memory is taken for; NULL: none */
};

/* The values are there and locked afterwards; what is there already is kept if that leaves room. */
weir_status weir_hold_all(weir_evict *e, const weir_frame *all);
weir_status weir_hold(weir_evict *e, weir_origin *o);

#endif
