/* saved.h - shared by the reader and the writer of a graph's text: roles and names of tensors.
 * Defined in bindings.c. */
#ifndef WEIR_GRAPH_SAVED_SAVED_H
#define WEIR_GRAPH_SAVED_SAVED_H

#include "graph/ir/graph.h"
#include "graph/ir/recorded_step.h"

enum { WEIR_BINDING_NAME = 255 };       /* bytes of the longest name */

/* The word of a role at the start of its line: "param". */
extern const char *const weir_role_word[];

/* Gives every tensor of the graph that has none a name, unique among all. ERR_NOMEM. */
weir_status weir_bindings_name(weir_graph *g);

/* Fails unless `name` is UTF-8 of 1 to WEIR_BINDING_NAME bytes. */
weir_status weir_binding_check_name(const char *who, const char *name);

#endif
