/* format.h - formats operations, storages and layouts for all texts about a graph.
 *
 * Each function appends to a string and only reads the graph. If memory is short, the string is
 * marked as failed (core/text.h). */
#ifndef WEIR_GRAPH_IR_FORMAT_H
#define WEIR_GRAPH_IR_FORMAT_H

#include "core/text.h"
#include "graph/ir/graph.h"

/* Appends the op's name; for a fused call the names of its steps, joined by `plus`:
 * "bn_apply+add+relu". */
void weir_format_op(weir_string *s, const weir_call *c, const char *plus);

/* Appends the name of node i (names.h), "" if it has none. */
void weir_format_name(weir_string *s, const weir_graph *g, uint32_t i);

/* Appends the name of node i where it says what the node runs, the operation where there is no
 * name, else both: "layer1/0/relu", "conv2d_grad_x conv1/conv2d:grad". escape: how a caller's
 * format writes text, as weir_string_add_json; NULL: as it is. */
void weir_format_node(weir_string *s, const weir_graph *g, uint32_t i,
                      void (*escape)(weir_string *s, const char *text));

/* Appends a letter for the kind, then the storage's number: p3 (parameter), s4 (state), i0 (input),
 * o7 (output), t45 (temporary). */
void weir_format_storage(weir_string *s, const weir_graph *g, uint32_t storage);

/* The same, and the name if the storage has one: "p3:conv1.weight". escape: see above. */
void weir_format_tensor(weir_string *s, const weir_graph *g, uint32_t storage,
                        void (*escape)(weir_string *s, const char *text));

/* Appends "f32(2,3)", and the strides in elements, in brackets, if the layout is not dense. */
void weir_format_layout(weir_string *s, const weir_layout *l);

/* Appends spaces until the text from position `start` is at least `width` bytes long. */
void weir_format_pad(weir_string *s, size_t start, int width);

/* Does the call, or a step of the fused call, draw random numbers? */
bool weir_call_draws(const weir_call *c);

/* a / b; 0 if b is 0. */
static inline double weir_format_ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

#endif
