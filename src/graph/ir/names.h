/* names.h - names of recorded calls: the path of the name scopes around a call, its operation, and
 * a number from the second call of that operation in the same scope on: "layer1/0/relu2".
 *
 * A graph keeps each path once, a record for each call of the program, and for each node the list
 * of calls that it stands for. The nodes of a gradient stand for the call whose gradient they
 * compute, a fused node for several. No pass and no plan reads names. */
#ifndef WEIR_GRAPH_IR_NAMES_H
#define WEIR_GRAPH_IR_NAMES_H

#include "core/op.h"
#include "core/text.h"
#include "core/vec.h"

/* What a node does of the call that it stands for. */
typedef enum weir_name_mark {
    WEIR_NAME_CALL,         /* the call itself */
    WEIR_NAME_GRAD,         /* its gradient, or the sum of gradients that reach it */
    WEIR_NAME_RECOMPUTE     /* the call, recomputed in the second run of a checkpoint */
} weir_name_mark;

typedef struct weir_call_name {
    const weir_opdef *def;
    uint32_t          path;     /* position in text */
    uint32_t          number;   /* from 1 among the nodes of def in this path; 0: not numbered */
} weir_call_name;

typedef struct weir_names {
    WEIR_VEC(char)           text;  /* paths, each ended by a NUL; the first is "" */
    WEIR_VEC(weir_call_name) calls;
    WEIR_VEC(uint32_t)       uses;  /* of nodes: 4 times the number of a call, plus the mark */
    struct {                        /* path -> position in text, open addressing; 0: empty */
        uint32_t *slot;
        uint32_t  cap, n;
    } paths;
} weir_names;

/* The calls that a node stands for: uses[first], ..., uses[first + n - 1]. */
typedef struct weir_node_name {
    uint32_t first;
    uint32_t n;
} weir_node_name;

/* The name scopes that are open on a device. */
typedef struct weir_name_path {
    WEIR_VEC(char)     text;    /* "layer1/0/conv1", ended by a NUL; no element: "" */
    WEIR_VEC(uint32_t) mark;    /* length of the text before each open scope */
    uint32_t           known;   /* the path's position in the names of recording `graph` */
    uint64_t           graph;   /* 0: not known */
} weir_name_path;

/* Bytes of the longest path, the NUL included. */
enum { WEIR_PATH_BYTES = 512 };

/* The open path as text, "" outside any scope. */
static inline const char *weir_name_path_text(const weir_name_path *p)
{
    return p->text.n ? p->text.at : "";
}

/* Opens a scope. ERR_INVALID for a name that is empty, has control characters or makes the path too
 * long; ERR_NOMEM. */
weir_status weir_name_path_enter(weir_name_path *p, const char *name);

/* Closes scopes until `depth` are open. */
void weir_name_path_unwind(weir_name_path *p, uint32_t depth);
void weir_name_path_free(weir_name_path *p);

/* Sets *number to that of a new call of def in the open path, recorded in the graph with this
 * identity (not 0). ERR_NOMEM. */
weir_status weir_names_call(weir_names *n, weir_name_path *p, uint64_t graph, const weir_opdef *def,
                            uint32_t *number);

/* Position of the path in text, where it is added if it is new; UINT32_MAX if memory is short. */
uint32_t weir_names_path(weir_names *n, const char *path);

/* Returns the name of a node that stands for one call. *ok becomes false if memory is short. */
weir_node_name weir_names_use(weir_names *n, uint32_t call, weir_name_mark mark, bool *ok);

/* Adds the calls of `more` that *all does not have. `all` must be empty or end the list of uses.
 * Returns false if memory is short. */
bool weir_names_join(weir_names *n, weir_node_name *all, weir_node_name more);

/* Numbers the calls that became nodes (views do not), when recording has ended. ERR_NOMEM. */
weir_status weir_names_number(weir_names *n);
void        weir_names_free(weir_names *n);

/* Does the name leave out what a node of operation def runs? A name ends in the operation of the
 * call, which is not that of its gradient, or of a node that a pass added for its result. */
bool weir_names_leave_op(const weir_names *n, weir_node_name name, const weir_opdef *def);

/* Appends the name, "" for none: "layer1/0/relu:grad", and of several calls what their paths share
 * once: "layer1/0/{bn1/bn_apply+relu}". recomputed: by the memory planner. */
void weir_names_add(const weir_names *n, weir_node_name name, bool recomputed, weir_string *s);

#endif
