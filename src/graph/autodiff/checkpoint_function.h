/* checkpoint_function.h - a part of the forward computation that is recomputed instead of kept. */
#ifndef WEIR_GRAPH_AUTODIFF_CHECKPOINT_FUNCTION_H
#define WEIR_GRAPH_AUTODIFF_CHECKPOINT_FUNCTION_H

#include "core/op.h"
#include "core/tensor.h"
#include "core/vec.h"
#include "graph/ir/session.h"

struct weir_tape;

typedef struct weir_segment {
    weir_ref           ref;
    weir_checkpoint_fn fn;
    void              *ctx;
    void              *owned;       /* freed with it, or NULL */
    uint64_t           rng;         /* position in the random stream where the first run began */
    uint64_t           drawn;       /* how far the first run moved it */
    uint64_t           seed;        /* of the device then */
    uint64_t           since;       /* dev->changes when the first run ended */
    int                no_grad;     /* of the session then */
    weir_dtype         autocast;
    int                nin;
    weir_tensor *const *in;         /* during the first run */
    WEIR_VEC(weir_tensor *) leaves; /* read besides `in`, for gradients; referenced */
} weir_segment;

/* Notes the leaves that a call of the first run reads, if a gradient flows through it, and marks
 * its outputs. */
weir_status weir_segment_note(weir_segment *s, const weir_call *c, weir_tensor *const *in,
                              weir_tensor *const *out);

/* The error of reading a result from outside that is not an input. */
weir_status weir_segment_captured(const char *maker);

/* The second run: own handles for inputs that calls made, and results on its own tape. */
typedef struct weir_recompute {
    struct weir_tape *t;            /* the checkpoint */
    int               nin;
    weir_tensor      *x[WEIR_MAX_IN], *y[WEIR_MAX_OUT];     /* referenced */
    uint64_t          order;        /* later calls on the tape are the second run's */
} weir_recompute;

weir_status weir_recompute_run(weir_recompute *a, weir_session *s);
void        weir_recompute_drop_results(weir_recompute *a);
void        weir_recompute_free(weir_recompute *a);

#endif
