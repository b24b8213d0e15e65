/* session.h - what the graph layer keeps per device: scopes, the tape switch, the graph being
 * recorded. */
#ifndef WEIR_GRAPH_IR_SESSION_H
#define WEIR_GRAPH_IR_SESSION_H

#include "core/phase.h"
#include "core/vec.h"
#include "device/memory/block.h"
#include "weir/graph.h"

struct weir_tape;
struct weir_segment;

typedef struct weir_evict weir_evict;

typedef struct weir_session {
    weir_ref     ref;               /* the device, and every tape node */
    weir_device *dev;               /* not referenced: the device owns the session */
    WEIR_VEC(weir_tensor *) held;   /* results of all open scopes, innermost last */
    WEIR_VEC(uint32_t)      mark;   /* where each open scope begins in held; the root has none */
    weir_graph             *recording; /* NULL: operations run at once */
    weir_graph             *anonymous; /* the graph of weir_device_set_buffering, owned */
    weir_graph             *last_run;  /* for the profile; not owned, cleared when it is freed */
    weir_step              *step;      /* running with the graph off: collects kept results */
    weir_phase              phase;
    int                     no_grad;     /* > 0: no tape */
    weir_dtype              autocast;    /* type of products: a half, or WEIR_F32: no open scope */
    WEIR_VEC(weir_dtype)    outer_casts; /* that of each scope around the innermost one */
    struct weir_segment    *segment; /* in its first run: notes what it reads, no tape */
    int                     recompute; /* > 0: a second run, which updates nothing and reads nothing
                                        * that was changed between these dev->changes */
    uint64_t                frozen_from, frozen_to;
    const struct weir_tape *differentiating; /* whose gradient is being recorded */
    uint32_t          replay, replays; /* the second run being recorded with its gradient (0: none),
                                        * and how many there were */
    uint32_t          region, regions; /* being recorded (0: none); how many there were */
    int               region_depth;
    uint64_t          tapes;  /* tape nodes made: their order */
    uint64_t          visits; /* traversals of the tape so far */
    uint64_t          graphs; /* recordings begun: their identity */
    struct weir_tape *dying;  /* tape nodes waiting to be freed (no deep recursion) */
    bool              draining;
    weir_tensor      *freed, *last_freed; /* handles of graphs that were freed, the oldest first;
                                           * referenced */
    uint32_t          nfreed;
    WEIR_VEC(weir_pair) pairs;           /* answer of the last weir_backward; handles borrowed */
    int                 verbosity, skip; /* of the profile */
    char                budget[32];      /* of graphs that name none; "": none */
    int                 rule;            /* weir_dtr_rule: what to evict with the graph off */
    weir_evict         *evict;           /* owned; NULL until a budget for the graph off is set, */
    void       (*evict_free)(weir_evict *e);            /* which brings its destructor */
    void       (*close)(struct weir_session *s);        /* breaks the graphs when the device
                                                         * closes; NULL: there was no graph */
} weir_session;

/* The device's session, made on first use. NULL when memory is short. */
weir_session *weir_session_of(weir_device *d);

/* Puts a handle into the innermost scope, which takes over the caller's reference, also on
 * failure. */
weir_status weir_scope_hold(weir_session *s, weir_tensor *t);

/* Takes over a graph's reference to a handle. If it is the only one, the handle becomes hollow and
 * says from now on what became of its value, in a sentence "the tensor GONE". s NULL: the device is
 * closed, and the reference is dropped. */
void weir_session_bury(weir_session *s, weir_tensor *t, const char *gone);

/* Closes scopes until `depth` are open. */
void weir_scope_unwind(weir_session *s, uint32_t depth);

#endif
