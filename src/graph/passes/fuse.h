/* fuse.h - groups of element-wise nodes during fusion: members, inputs, outputs.
 * Defined in fuse.c, fuse_cast.c and fuse_group.c. */
#ifndef WEIR_GRAPH_PASSES_FUSE_H
#define WEIR_GRAPH_PASSES_FUSE_H

#include "core/dtype.h"
#include "graph/ir/graph.h"

/* Nodes that are to become one. */
typedef struct weir_group {
    uint32_t last;                          /* the last member in list order */
    uint32_t n;                             /* members, oldest first */
    uint32_t member[WEIR_EW_MAX_STEPS];
    bool     widens;                        /* reads half values in place of widened copies */
} weir_group;

typedef struct weir_fuser {
    weir_graph *g;
    uint32_t   *group_of; /* [nodes] index into groups, WEIR_NONE: not element-wise */
    weir_group *groups;                     /* [nodes] */
    uint32_t   *maker;                      /* [storages] node that computes it, or WEIR_NONE */
    uint32_t   *reader_first, *reader;      /* CSR: nodes that read a storage, in list order */
    uint32_t   *writer_first, *writer;      /* CSR: nodes that update a storage */
    uint32_t   *late;   /* [storages] position of the last group or node that reads it in place
                         * of its widened copy; 0: none */
} weir_fuser;

static inline weir_dtype weir_fuse_type(const weir_graph *g, uint32_t value)
{
    return g->values.at[value].layout.desc.dtype;
}

/* Builds maker, reader, writer and an empty late without dead nodes, in place of older ones; false
 * if memory is short. weir_fuser_free frees all arrays. */
bool weir_fuser_index(weir_fuser *f);
void weir_fuser_free(weir_fuser *f);

/* Is the storage overwritten after node `from` and before position `to`? */
bool weir_fuse_overwritten(const weir_fuser *f, uint32_t storage, uint32_t from, uint32_t to);

/* A group without members, and a group of one node. */
extern const weir_group weir_group_empty;
weir_group weir_group_alone(uint32_t node);

/* The members of both, oldest first. */
weir_group weir_group_joined(const weir_group *a, const weir_group *b);

bool weir_group_has(const weir_group *a, uint32_t node);

/* Does a member of `a` or `b` compute this storage? */
bool weir_group_makes(const weir_fuser *f, const weir_group *a, const weir_group *b,
                      uint32_t storage);

/* Is the output of node m, a member of `a` or `b`, read by a node outside both, or external? */
bool weir_group_gives(const weir_fuser *f, const weir_group *a, const weir_group *b, uint32_t m);

/* Lists in `in` the distinct values that the two groups read from outside; returns their number. */
uint32_t weir_group_inputs(const weir_fuser *f, const weir_group *a, const weir_group *b,
                           uint32_t in[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN]);

/* Are all nodes between the last members of the two members of `late`? */
bool weir_group_next(const weir_graph *g, const weir_group *early, const weir_group *late);

/* ---- casts: fuse_cast.c ---- */

/* Does the cast widen a half type to f32? Does it round f32 to a half type? */
bool weir_cast_widens(const weir_graph *g, const weir_node *n);
bool weir_cast_rounds(const weir_graph *g, const weir_node *n);

/* Can each member that computes in f32 either round its result or not? False if members read it
 * rounded while others, or nodes outside, read it as it is. */
bool weir_fuse_rounds_alike(const weir_fuser *f, const weir_group *a, const weir_group *b);

/* The half type to which the step of member n rounds its result; f32 if it does not. */
weir_dtype weir_fuse_rounds_to(const weir_fuser *f, const weir_group *a, const weir_node *n);

/* Do casts among the members make the merged group need more live bytes than the two apart? */
bool weir_fuse_swells(const weir_fuser *f, const weir_group *early, const weir_group *late);

/* Lets groups that read the output of the widening `cast` read its half input instead, where that
 * is valid and needs no more memory; marks the cast dead if no reader is left. */
weir_status weir_fuse_widen(weir_fuser *f, uint32_t cast);

/* Lets nodes whose kernels round f32 weights read the f32 input of the rounding `cast` of an
 * external tensor, if all its readers can; then marks the cast dead. */
weir_status weir_fuse_narrow(weir_fuser *f, uint32_t cast);

/* Lets the node whose result the rounding `cast` alone reads write the half value, if its kernel
 * rounds results; then marks the cast dead. */
weir_status weir_fuse_round(weir_fuser *f, uint32_t cast);

#endif
