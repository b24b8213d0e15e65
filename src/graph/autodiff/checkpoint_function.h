/* checkpoint_function.h - a part of the forward pass whose inner values are recomputed for the
 * gradient instead of kept. */
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
    void              *owned;       /* freed with the segment, or NULL */
    uint64_t           rng;         /* position in the random stream where the first run began */
    uint64_t           drawn;       /* by how much the first run advanced it */
    uint64_t           seed;        /* of the device in the first run */
    uint64_t           since;       /* dev->changes when the first run ended */
    uint32_t           first_call;  /* graph on: its first call in the names of the graph */
    int                no_grad;     /* of the session in the first run */
    weir_dtype         autocast;
    int                nin;
    weir_tensor *const *in;         /* valid during the first run only */
    WEIR_VEC(weir_tensor *) leaves; /* leaves that fn reads besides `in`; referenced */
} weir_segment;

/* Notes a call of the first run: if a gradient flows through it, adds the leaves that it reads and
 * marks its outputs. Fails with ERR_INVALID if it reads a result from outside that is no input. */
weir_status weir_segment_note(weir_segment *s, const weir_call *c, weir_tensor *const *in,
                              weir_tensor *const *out);

/* Returns the error for reading a result, computed outside by `maker`, that is no input. */
weir_status weir_segment_captured(const char *maker);

/* A second run: leaves in place of inputs that calls computed, and results on a tape of its own. */
typedef struct weir_recompute {
    struct weir_tape *t;            /* the checkpoint */
    int               nin;
    weir_tensor      *x[WEIR_MAX_IN], *y[WEIR_MAX_OUT];     /* referenced */
    uint64_t          order;        /* tape nodes with a larger order belong to the second run */
} weir_recompute;

weir_status weir_recompute_run(weir_recompute *a, weir_session *s);
void        weir_recompute_drop_results(weir_recompute *a);
void        weir_recompute_free(weir_recompute *a);

#endif
