/* tape.h - what a gradient needs to know about a call.
 *
 * A node keeps elements only of the operands that its op's gradient reads (reads_in, reads_out); of
 * the others it keeps hollow handles with layout and producer. So with the graph off a value
 * outlives its scope only if some gradient reads it. */
#ifndef WEIR_GRAPH_AUTODIFF_TAPE_H
#define WEIR_GRAPH_AUTODIFF_TAPE_H

#include "core/op.h"
#include "core/tensor.h"
#include "graph/ir/session.h"

typedef struct weir_tape {
    weir_ref      ref;
    weir_session *session;          /* referenced */
    struct weir_tape *next_dying;
    const weir_opdef *def;
    int           nin, nout;
    uint64_t      order;            /* later calls have larger numbers: a topological order */
    uint64_t          graph; /* identity of the recording it belongs to; 0: computed at once */
    uint64_t      rng;
    uint64_t      seed;             /* of the device at the call, to repeat random calls */
    uint64_t      since;            /* dev->changes at the call: operands must not be newer */
    weir_tensor  *x[WEIR_MAX_IN];   /* x[i]->tape: the producer */
    uint32_t      lent;             /* bit i: x[i] is the caller's handle of a trainable leaf */
    weir_tensor  *y[WEIR_MAX_OUT];  /* never link back to this node */
    bool          used;             /* a backward has consumed what it kept */
    uint64_t      visit;            /* the last traversal that met it, and its place there */
    uint32_t      slot;
    struct weir_segment *segment;   /* referenced (checkpoint_function.h): a checkpoint, not a
                                     * call of op; else NULL */
    size_t        attr_bytes;
    max_align_t   attr[];
} weir_tape;

/* Tapes a call and links out[] to it; in[] and out[] as the op saw them. ERR_NOMEM. */
weir_status weir_tape_add(weir_session *s, const weir_call *c, uint64_t rng, weir_tensor *const *in,
                          weir_tensor *const *out);

/* The same for a checkpoint, a weir_segment, whose reference the node takes over (on failure the
 * caller keeps it). All of in[] is kept. made: bits of the results that it made; others come from
 * outside, or appear earlier in out[], and are linked already. */
weir_status weir_tape_add_segment(weir_session *s, void *segment, int nin, weir_tensor *const *in,
                                  int nout, weir_tensor *const *out, uint32_t made);

/* The name of the call, for messages. */
const char *weir_tape_name(const weir_tape *t);

/* ERR_STATE if the node kept operand t and its elements have changed since the call: no gradient
 * may read them. */
weir_status weir_tape_check_unchanged(const weir_tape *t, const weir_tensor *operand);

/* *when: dev->changes when the tensor's elements changed last, as calls recorded or computed now
 * see them; *by: the op that changed them. */
weir_status weir_changed(weir_session *s, const weir_tensor *t, uint64_t *when, const char **by);

/* ERR_STATE if an earlier traversal has consumed the node. */
weir_status weir_tape_check_unused(const weir_tape *t);

/* Releases the elements that the node kept, once its gradient is recorded. */
void weir_tape_consume(weir_tape *t);

/* Records gradients of the node's inputs in dx (NULL: none), given dy per output. want: bits of the
 * inputs that need one. The innermost scope holds the results. */
weir_status weir_tape_grad(weir_tape *t, uint32_t want, weir_tensor **dy, weir_tensor **dx);

/* Bits of the node's inputs that a gradient flows to. */
uint32_t weir_tape_wants(const weir_tape *t);

#endif
