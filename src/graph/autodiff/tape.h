/* tape.h - what a gradient needs to know about one call that was made.
 *
 * A node keeps elements only of the operands its op's gradient reads (reads_in, reads_out); of
 * the others it keeps hollow handles: layout and producer. So with the graph off a value lives on
 * after its scope only if some gradient reads it. */
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
    uint64_t      seed;             /* of the device then: random calls are repeated by it */
    uint64_t      since;            /* dev->changes then: operands may not be younger */
    weir_tensor  *x[WEIR_MAX_IN];   /* x[i]->tape: the producer */
    uint32_t      lent;             /* bit i: x[i] is the caller's handle of a trainable leaf */
    weir_tensor  *y[WEIR_MAX_OUT];  /* never linked back to this node */
    bool          used;             /* a backward has consumed what it kept */
    uint64_t      visit;            /* the traversal that saw it last, and its place there */
    uint32_t      slot;
    struct weir_segment *segment;   /* referenced (checkpoint_function.h): a checkpoint, not a
                                     * call of op; else NULL */
    size_t        attr_bytes;
    max_align_t   attr[];
} weir_tape;

/* Tapes a call and links out[] to it. in[] and out[] as the op saw them. */
weir_status weir_tape_add(weir_session *s, const weir_call *c, uint64_t rng, weir_tensor *const *in,
                          weir_tensor *const *out);

/* The same for a checkpoint, a weir_segment, whose reference the node takes over (on failure it is
 * the caller's): all of in[] is kept. made: bits of the results that it made; others come from
 * outside, or stand in out[] earlier, and are linked already. */
weir_status weir_tape_add_segment(weir_session *s, void *segment, int nin, weir_tensor *const *in,
                                  int nout, weir_tensor *const *out, uint32_t made);

/* What was called, for messages. */
const char *weir_tape_name(const weir_tape *t);

/* An error if t is an operand that the node kept and whose elements have changed since the call: no
 * gradient may read them. */
weir_status weir_tape_check_unchanged(const weir_tape *t, const weir_tensor *operand);

/* dev->changes when the elements of the tensor changed last, as what is recorded or computed now
 * sees it, and by what. */
weir_status weir_changed(weir_session *s, const weir_tensor *t, uint64_t *when, const char **by);

/* An error if an earlier walk has consumed the node. */
weir_status weir_tape_check_unused(const weir_tape *t);

/* Drops the elements the node kept, once its gradient is recorded. */
void weir_tape_consume(weir_tape *t);

/* Records gradients of the node's inputs into dx (NULL where none), given dy per output. want: bits
 * of the inputs to do. Results are borrowed from the innermost scope. */
weir_status weir_tape_grad(weir_tape *t, uint32_t want, weir_tensor **dy, weir_tensor **dx);

/* Inputs of the node that a gradient flows to. */
uint32_t weir_tape_wants(const weir_tape *t);

#endif
