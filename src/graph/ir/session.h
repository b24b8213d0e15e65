/* session.h - the graph layer's state per device: scopes, the tape switch, the graph being
 * recorded. */
#ifndef WEIR_GRAPH_IR_SESSION_H
#define WEIR_GRAPH_IR_SESSION_H

#include "core/phase.h"
#include "core/vec.h"
#include "device/memory/block.h"
#include "graph/ir/names.h"
#include "weir/graph.h"

struct weir_tape;
struct weir_segment;

typedef struct weir_evict weir_evict;

typedef struct weir_session {
    weir_ref     ref;               /* the device, and every tape node */
    weir_device *dev;               /* not referenced: the device owns the session */
    WEIR_VEC(weir_tensor *) held;   /* results of all open scopes, innermost last */
    WEIR_VEC(uint32_t)      mark;   /* where each open scope begins in held; the root has none */
    weir_graph             *recording; /* NULL: operations run immediately */
    weir_graph             *anonymous; /* the graph of weir_device_set_buffering, owned */
    weir_graph             *switched_off; /* the latest of the other graphs that are paused by
                                           * weir_device_set_buffering; not owned */
    weir_graph             *last_run;  /* for the profile; not owned, cleared when it is freed */
    weir_step              *step;      /* running with the graph off: owns kept results */
    weir_phase              phase;
    int                     no_grad;     /* depth of weir_no_grad_begin; > 0: no tape */
    int                     retain;      /* depth of weir_retain_begin; > 0: tapes are kept */
    weir_dtype              autocast;    /* of the innermost autocast scope; WEIR_F32: none */
    WEIR_VEC(weir_dtype)    outer_casts; /* of the scopes around the innermost one */
    struct weir_segment    *segment; /* checkpoint in its first run: notes leaves, tapes nothing */
    int                     recompute; /* > 0: in a second run, which performs no updates and must
                                        * not read what changed between these dev->changes */
    uint64_t                frozen_from, frozen_to;
    const struct weir_tape *differentiating; /* the call whose gradient is being recorded */
    weir_name_path          path;   /* the name scopes that are open */
    const struct weir_tape *naming; /* the call for which what is being recorded is named, as its
                                     * gradient; NULL: calls have names of their own */
    uint32_t          renames; /* in a second run: the call whose name the next one gets */
    uint32_t          replay, replays; /* number of the second run being recorded (0: none), and of
                                        * the latest one */
    uint32_t          region, regions; /* number of the region being recorded (0: none), and of the
                                        * latest one */
    int               region_depth;
    uint64_t          tapes;  /* tape nodes so far: the next one's order */
    uint64_t          visits; /* traversals of the tape so far */
    uint64_t          graphs; /* recordings so far: the next one's identity */
    struct weir_tape *dying;  /* queue of tape nodes to free: avoids deep recursion */
    bool              draining;
    weir_tensor      *freed, *last_freed; /* queue of handles of freed graphs, oldest first;
                                           * referenced */
    uint32_t          nfreed;
    WEIR_VEC(weir_pair) pairs;           /* result of the last weir_backward; handles borrowed */
    int                 verbosity, skip; /* of the profile: detail, and first runs not timed */
    weir_progress_fn    progress;        /* of planning; NULL: none */
    void               *progress_context;
    char                budget[32];      /* default budget of graphs; "": none */
    struct weir_shared_budget *shared;   /* list of the graphs that share a budget; not owned */
    int                 rule;            /* weir_dtr_rule: what to evict with the graph off */
    weir_evict         *evict;           /* owned; NULL until a budget for the graph off is set */
    void       (*evict_free)(weir_evict *e);            /* its destructor */
    void       (*close)(struct weir_session *s);        /* marks graphs broken when the device
                                                         * closes; NULL: no graph was begun */
} weir_session;

/* Returns the device's session, created on first use and owned by the device; NULL if memory is
 * short. */
weir_session *weir_session_of(weir_device *d);

/* Adds a handle to the innermost scope, which takes over the caller's reference; releases it on
 * ERR_NOMEM. */
weir_status weir_scope_hold(weir_session *s, weir_tensor *t);

/* Takes over a freed graph's reference to a handle. If it is the only reference, the handle loses
 * its elements and the session keeps it for a while, so that later uses fail with a message that
 * ends with `gone` (a string constant). If s is NULL (the device is closed), the handle is freed
 * instead. */
void weir_session_bury(weir_session *s, weir_tensor *t, const char *gone);

/* Closes scopes until `depth` are open. */
void weir_scope_unwind(weir_session *s, uint32_t depth);

#endif
