/* call.h - an opened model, the values of a walk over it, and what a node's function may ask.
 * Defined in call.c, table.c, walk.c and select.c.
 *
 * A value is known (its elements are on the host: constants, shapes, what is computed from them),
 * or a tensor of the device, or both. A node whose inputs are all known is computed at once on a
 * CPU device of the model's own, whatever is being recorded; its results are known. */
#ifndef WEIR_MODEL_ONNX_CALL_H
#define WEIR_MODEL_ONNX_CALL_H

#include "model/model.h"
#include "model/onnx/proto.h"

typedef struct weir_onnx_value {
    weir_tensor *t;                /* on the model's device; NULL: not made yet, or no such value */
    void        *known;            /* elements, row-major; NULL: not known */
    weir_desc    desc;             /* of known */
    bool         own_t, own_known; /* freed with the walk; else they belong to the model */
    bool         kept;             /* of the model: it stays from walk to walk */
    bool         sequence;         /* t in parts; known: axis, keepdims and the sizes */
} weir_onnx_value;

typedef struct weir_onnx_call weir_onnx_call;

/* A row of the table: an operator from one opset to another. */
typedef struct weir_onnx_row {
    const char *op;
    int         since, until; /* opsets, both included */
    uint32_t    known;        /* bit i: input i must be known */
    bool        body;         /* it runs subgraphs, and assigns its outputs itself */
    bool        draws;        /* never computed ahead */
    weir_status (*run)(weir_onnx_call *c);
} weir_onnx_row;

const weir_onnx_row *weir_onnx_find(const char *op, int64_t opset, bool *known_op);

struct weir_onnx {
    weir_device     *dev;    /* borrowed */
    weir_device     *folder; /* computes what is known; owned, NULL until it is needed */
    weir_model      *model;  /* owned */
    weir_onnx_proto  proto;
    weir_onnx_value *value;       /* [proto.names.n] */
    uint32_t        *last;        /* [names.n]: the last node of the graph that reads it + 1 */
    weir_tensor    **out, **temp; /* of one call */
    char            *dims, *values, *frozen; /* of the options; owned or NULL */
    size_t           turns;         /* of subgraphs since the call of the model began */
    weir_status (*run_graph)(struct weir_onnx *m, const weir_onnx_graph *g, bool top);
    char            *path;          /* of the file; owned, NULL: it was in memory */
    uint64_t         size;          /* of the file when it was opened */
    uint32_t        *selected;      /* slots of the values that are handed out; owned */
    size_t           n_selected;
    bool            *needed;        /* [nodes of the graph]: is it for them? owned */
};

/* The call of one node. */
struct weir_onnx_call {
    struct weir_onnx     *m;
    const weir_onnx_node *node;
    weir_device          *dev; /* where it is computed: the model's, or the folder */
    bool                  fold;
    bool                  broken;       /* an input is not there: that sentence stays */
    bool                  told; /* output 0 was given by weir_onnx_tell */
    int64_t               opset;
};

/* ---- for the functions of nodes ---- */

/* ERR_INVALID with a sentence: what of the operator Weir lacks. */
weir_status weir_onnx_refuse(const weir_onnx_call *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

const weir_onnx_attr *weir_onnx_attr_of(const weir_onnx_call *c, const char *name);
int64_t               weir_onnx_int(const weir_onnx_call *c, const char *name, int64_t otherwise);
double                weir_onnx_float(const weir_onnx_call *c, const char *name, double otherwise);
const char *weir_onnx_str(const weir_onnx_call *c, const char *name, const char *otherwise);
size_t      weir_onnx_ints(const weir_onnx_call *c, const char *name, const int64_t **at);

/* Whether input i is given; it as a tensor (NULL after a failure); whether output i is wanted. */
bool         weir_onnx_has(const weir_onnx_call *c, size_t i);
weir_tensor *weir_onnx_x(weir_onnx_call *c, size_t i);
bool         weir_onnx_wants(const weir_onnx_call *c, size_t i);
weir_desc    weir_onnx_desc_of(weir_onnx_call *c, size_t i);

/* The known input i: a list of at most `room` integers, one number. */
weir_status weir_onnx_list(weir_onnx_call *c, size_t i, int64_t *to, size_t room, size_t *n);
weir_status weir_onnx_number(weir_onnx_call *c, size_t i, double *v);

/* Element i of elements of a type on the host: as a double; of an integer type or bool as it is, of
 * u64 its bits. */
double  weir_onnx_element(weir_dtype t, const void *at, size_t i);
int64_t weir_onnx_integer(weir_dtype t, const void *at, size_t i);

/* The elements of the known input i and its shape; NULL after a failure: it must be known. */
const void *weir_onnx_known(weir_onnx_call *c, size_t i, weir_desc *d);

/* The integers of an attribute up to an opset, and of input i from there on; n 0: not given. */
weir_status weir_onnx_axes(weir_onnx_call *c, const char *name, size_t i, int64_t *to, size_t room,
                           size_t *n, bool *given);

/* An axis from -ndim to ndim - 1 as one from 0. */
weir_status weir_onnx_axis(const weir_onnx_call *c, int64_t axis, int ndim, int *to);

/* Output i is t; fails if t is NULL. */
weir_status weir_onnx_give(weir_onnx_call *c, size_t i, weir_tensor *t);

/* ERR_INVALID if the slot is an initializer's, which stays from call to call. */
weir_status weir_onnx_free_slot(const weir_onnx_call *c, uint32_t slot);

/* Output 0 is known: the elements are copied. */
weir_status weir_onnx_tell(weir_onnx_call *c, weir_desc d, const void *elements);

/* For nodes that have subgraphs: runs one; gives slot `to` the value of another, or a tensor. */
weir_status weir_onnx_run_body(weir_onnx_call *c, const weir_onnx_graph *g);
weir_status weir_onnx_assign(weir_onnx_call *c, uint32_t to, uint32_t from);
weir_status weir_onnx_set(weir_onnx_call *c, uint32_t to, weir_tensor *t);

/* A tensor with the elements of the host, on the device of the call, in its scope. */
weir_tensor *weir_onnx_constant(weir_onnx_call *c, weir_desc d, const void *elements);

/* ---- for the walk ---- */

size_t       weir_onnx_elements(const weir_desc *d);
weir_tensor *weir_onnx_to_tensor(weir_device *d, const weir_desc *desc, const void *elements);
void         weir_onnx_drop(weir_onnx_value *v);
bool         weir_onnx_must_know(const weir_onnx_row *r, size_t i);
bool         weir_onnx_listed(const char *names, const char *name);
weir_status  weir_onnx_run_graph(struct weir_onnx *m, const weir_onnx_graph *g, bool top);

/* ERR_INVALID for a name in the options that the model does not have. */
weir_status weir_onnx_check_names(const struct weir_onnx *m);

#endif
