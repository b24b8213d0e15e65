/* fuse.h - groups of element-wise nodes while fuse.c forms them: members, what goes in and out.
 * Defined in fuse.c, fuse_cast.c and fuse_group.c. */
#ifndef WEIR_GRAPH_PASSES_FUSE_H
#define WEIR_GRAPH_PASSES_FUSE_H

#include "core/dtype.h"
#include "graph/ir/graph.h"

/* Members of one node to be. */
typedef struct weir_group {
    uint32_t last;                          /* the youngest member */
    uint32_t n;                             /* members, oldest first */
    uint32_t member[WEIR_EW_MAX_STEPS];
    bool     widens;                        /* reads halves */
} weir_group;

typedef struct weir_fuser {
    weir_graph *g;
    uint32_t   *group_of; /* [nodes] index into groups, WEIR_NONE: not element-wise */
    weir_group *groups;                     /* [nodes] */
    uint32_t   *maker;                      /* [stores] node that makes it */
    uint32_t   *reader_first, *reader;      /* CSR: nodes that read a storage, in list order */
    uint32_t   *writer_first, *writer;      /* CSR: nodes that update a storage */
    uint32_t   *late;   /* [stores] the last group that reads it in place of its widened copy */
} weir_fuser;

static inline weir_dtype weir_fuse_type(const weir_graph *g, uint32_t value)
{
    return g->values.at[value].layout.desc.dtype;
}

/* Indexes of the graph; false: memory is short. */
bool weir_fuser_index(weir_fuser *f);
void weir_fuser_free(weir_fuser *f);

/* A group without members; one with a single one. */
extern const weir_group weir_group_empty;
weir_group weir_group_alone(uint32_t node);

/* The members of both, oldest first. */
weir_group weir_group_joined(const weir_group *a, const weir_group *b);

bool weir_group_has(const weir_group *a, uint32_t node);

/* Does a member of `a` or `b` make this storage? */
bool weir_group_makes(const weir_fuser *f, const weir_group *a, const weir_group *b,
                      uint32_t storage);

/* Is the result of node m, of one of the two, read or kept by others? */
bool weir_group_gives(const weir_fuser *f, const weir_group *a, const weir_group *b, uint32_t m);

/* Distinct views the two groups read from outside. */
uint32_t weir_group_inputs(const weir_fuser *f, const weir_group *a, const weir_group *b,
                           uint32_t in[2 * WEIR_EW_MAX_STEPS * WEIR_MAX_IN]);

/* Nodes between the last members of the two that are in neither. */
uint32_t weir_group_between(const weir_group *early, const weir_group *late);

/* ---- casts: fuse_cast.c ---- */

/* From a half to f32; from f32 to a half. */
bool weir_cast_widens(const weir_graph *g, const weir_node *n);
bool weir_cast_rounds(const weir_graph *g, const weir_node *n);

/* Is there a cast among the two, and do they hold more memory as one than apart? */
bool weir_fuse_swells(const weir_fuser *f, const weir_group *early, const weir_group *late);

/* Groups that read what node `cast` widens read the half itself where they may; it dies if all do.
 */
weir_status weir_fuse_widen(weir_fuser *f, uint32_t cast);

#endif
