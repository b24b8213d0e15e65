/* tape.h - tape nodes: what the gradient of a call needs to know about the call.
 *
 * A node keeps the elements of those operands alone that its op's gradient reads (opdef.reads_in,
 * reads_out). For the others it has hollow handles: layout and producer without elements. With the
 * graph off, a value therefore outlives its scope only if a gradient reads it. */
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
    uint64_t          graph; /* identity of the recording; 0: the call ran immediately */
    uint64_t      rng;              /* position of the call in the random stream */
    uint32_t      name;             /* recorded: its call in the graph's names */
    uint64_t      seed;             /* of the device at the call, to repeat its draws */
    uint64_t      since;            /* dev->changes at the call: later changes of operands are
                                     * errors */
    weir_tensor  *x[WEIR_MAX_IN];   /* inputs; x[i]->tape is the producer */
    uint32_t      lent;             /* bit i: x[i] is the user's handle of a trainable leaf */
    weir_tensor  *y[WEIR_MAX_OUT];  /* outputs, without a link to this node: no cycle */
    bool          used;             /* a traversal has released the elements that it kept */
    uint64_t      visit;            /* last traversal that visited it, and its position there */
    uint32_t      slot;
    struct weir_segment *segment;   /* referenced (checkpoint_function.h): a checkpoint, not a
                                     * call of op; else NULL */
    size_t        attr_bytes;
    max_align_t   attr[];
} weir_tape;

/* Adds a node for a call and links out[] to it. in[] and out[] are the op's actual operands, after
 * casts and dense copies; rng is the call's position in the random stream, name its number in the
 * names of the graph being recorded. Fails with ERR_NOMEM only. */
weir_status weir_tape_add(weir_session *s, const weir_call *c, uint64_t rng, uint32_t name,
                          weir_tensor *const *in, weir_tensor *const *out);

/* Adds a node for a checkpoint. `segment` is a weir_segment, whose reference the node takes over
 * (on failure the caller keeps it). The node keeps the elements of all of in[]. made: bit i: link
 * out[i]; the other results come from outside or appear earlier in out[]. */
weir_status weir_tape_add_segment(weir_session *s, void *segment, int nin, weir_tensor *const *in,
                                  int nout, weir_tensor *const *out, uint32_t made);

/* The name of the call, for messages. */
const char *weir_tape_name(const weir_tape *t);

/* Fails with ERR_STATE if the elements of `operand`, which the node kept, have changed since the
 * call: the gradient would be wrong. */
weir_status weir_tape_check_unchanged(const weir_tape *t, const weir_tensor *operand);

/* *when: dev->changes at the latest change of the tensor's elements that a call recorded or run now
 * would see; *by: name of the op that changed them. Fails with ERR_NOMEM only. */
weir_status weir_changed(weir_session *s, const weir_tensor *t, uint64_t *when, const char **by);

/* Fails with ERR_STATE if an earlier traversal has released the elements that the node kept. */
weir_status weir_tape_check_unused(const weir_tape *t);

/* Releases the elements that the node kept; its gradient has been recorded or is not needed. */
void weir_tape_consume(weir_tape *t);

/* Records the gradients dx[i] of the inputs with bit i in `want` (dx[i] NULL: zero), given dy[o] of
 * each output (NULL: zero). The innermost scope holds the results. */
weir_status weir_tape_grad(weir_tape *t, uint32_t want, weir_tensor **dy, weir_tensor **dx);

/* Bit i: a gradient flows to input i. */
uint32_t weir_tape_wants(const weir_tape *t);

#endif
