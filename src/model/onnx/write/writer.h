/* writer.h - a recorded step on its way to an ONNX graph: names, nodes, constants, views, calls.
 * Defined in writer.c, view.c and plan.c.
 *
 * A function of a call appends nodes by weir_put_node, each of which returns the name of its first
 * output. NULL stands for a failure (memory ran out) and flows through, so one check at the end is
 * enough. */
#ifndef WEIR_MODEL_ONNX_WRITE_WRITER_H
#define WEIR_MODEL_ONNX_WRITE_WRITER_H

#include "model/onnx/write/encode.h"
#include "model/onnx/write/recording.h"

enum { WEIR_WRITE_LEAST_OPSET = 9, WEIR_WRITE_LAST_OPSET = 28, WEIR_WRITE_OPSET = 18 };

typedef struct weir_onnx_writer weir_onnx_writer;
typedef struct weir_onnx_written weir_onnx_written;

/* A row of calls.def: a recorded operation and how it is written. */
typedef struct weir_onnx_way {
    const char *op;             /* recorded */
    int         since;          /* the first opset that it can be written to */
    uint32_t    results;        /* bit i: result i can be written */
    bool        moves;          /* elements of any type; else bf16 is widened to f32, u8 to i32 */
    const char *same;           /* the one operator that means the same; NULL: run writes it */
    void      (*run)(weir_onnx_writer *w, const weir_onnx_written *c);
} weir_onnx_way;

/* A recorded call on its way. */
struct weir_onnx_written {
    const weir_recording_call *call;
    const weir_onnx_way       *way;
    bool                       needed;
    bool                       whole;   /* a norm with its statistics: one operator (norm.c) */
    double                     eps;     /* of the whole */
    uint32_t                   uses;    /* inputs that are read */
    uint32_t                   in[WEIR_RECORDING_IN];   /* their values */
    const char                *out[WEIR_RECORDING_OUT]; /* names of results */
};

struct weir_onnx_writer {
    int                opset;
    weir_onnx_pool     pool;
    weir_onnx_recording     r;
    weir_onnx_written *call;            /* [r.calls] */
    const char       **storage_name, **value_name;      /* NULL: none yet */
    const bool        *needed;          /* [r.storages] */
    weir_message       nodes, constants; /* fields of the graph */
    const char        *node;            /* names of nodes: of the call that is being written */
    bool               wide;            /* that call computes in wider types than it has */
    weir_desc          desc[WEIR_RECORDING_IN + WEIR_RECORDING_OUT];    /* then of its operands */
    uint32_t           nodes_of_call, fresh;
    struct weir_onnx_constant *constant; /* those that were made, newest first */
    bool               failed;          /* memory ran out */
};

/* ---- nodes ---- */

typedef struct weir_onnx_set {
    const char    *name;
    char           kind;        /* i, f, s (text), l (list), t (element of type i, n bytes at s) */
    int64_t        i;
    double         f;
    const char    *s;
    const int64_t *list;
    size_t         n;
} weir_onnx_set;

#define WEIR_SET_INT(NAME, V)  {.name = NAME, .kind = 'i', .i = V}
#define WEIR_SET_FLOAT(NAME, V) {.name = NAME, .kind = 'f', .f = V}
#define WEIR_SET_TEXT(NAME, V) {.name = NAME, .kind = 's', .s = V}
#define WEIR_SET_LIST(NAME, V, N) {.name = NAME, .kind = 'l', .list = V, .n = N}

/* Appends a node. out NULL: the name is made up. An input "" is left out. */
const char *weir_put_node(weir_onnx_writer *w, const char *op, const char *out, size_t n,
                           const char *const *in, size_t sets, const weir_onnx_set *set);

/* The same with several outputs. */
void weir_put_node_of(weir_onnx_writer *w, const char *op, size_t outs, const char *const *out,
                       size_t n, const char *const *in, size_t sets, const weir_onnx_set *set);

/* Without attributes. */
const char *weir_put_node1(weir_onnx_writer *w, const char *op, const char *out, const char *a);
const char *weir_put_node2(weir_onnx_writer *w, const char *op, const char *out, const char *a,
                            const char *b);

/* A name that no other value has. */
const char *weir_onnx_fresh(weir_onnx_writer *w, const char *base);

/* ---- constants: initializers, each made once ---- */

const char *weir_onnx_scalar_of(weir_onnx_writer *w, weir_dtype t, double v);
const char *weir_onnx_int_of(weir_onnx_writer *w, int64_t v);
const char *weir_onnx_ints_of(weir_onnx_writer *w, const int64_t *v, size_t n);
const char *weir_onnx_elements_of(weir_onnx_writer *w, const weir_desc *d, const void *elements,
                                  size_t bytes);

/* ---- common nodes; out as in weir_put_node ---- */

const char *weir_onnx_reshaped(weir_onnx_writer *w, const char *out, const char *x,
                               const weir_desc *d);
const char *weir_onnx_transposed(weir_onnx_writer *w, const char *out, const char *x, int n,
                                 const int *axis);
const char *weir_onnx_expanded(weir_onnx_writer *w, const char *out, const char *x,
                               const weir_desc *d);
const char *weir_onnx_cast_to(weir_onnx_writer *w, const char *out, const char *x, weir_dtype t);
const char *weir_onnx_filled(weir_onnx_writer *w, const char *out, const weir_desc *d, double v);

/* x over the axes in dims by one of the reductions; n: axes of x. */
const char *weir_onnx_reduced(weir_onnx_writer *w, const char *op, const char *out, const char *x,
                              uint64_t dims, int n, bool keep);

/* Elements [begin, begin + dim) of each axis by steps, which may be negative. */
const char *weir_onnx_sliced(weir_onnx_writer *w, const char *out, const char *x, int n,
                             const int64_t *begin, const int64_t *dim, const int64_t *step);

/* ---- values ---- */

/* ONNX's number of a type. */
int64_t weir_onnx_type_of(weir_dtype t);

/* The name of a value of the recording, for which nodes of a view may be appended (view.c). */
const char *weir_onnx_value_name(weir_onnx_writer *w, uint32_t value);

/* The type in which a call computes elements of type t. */
weir_dtype weir_onnx_wide_type(weir_dtype t);

/* Of a call: the name of input i, its desc and that of result i; of wider types if it is wide. */
const char      *weir_onnx_in(weir_onnx_writer *w, const weir_onnx_written *c, uint32_t i);
const weir_desc *weir_onnx_in_desc(const weir_onnx_writer *w, const weir_onnx_written *c,
                                   uint32_t i);
const weir_desc *weir_onnx_out_desc(const weir_onnx_writer *w, const weir_onnx_written *c,
                                    uint32_t i);

/* ---- the whole ---- */

/* Names, nodes and constants of the graph; refuses it in one sentence. outputs: names; NULL: all
 * results of the forward part. */
weir_status weir_onnx_write_graph(weir_onnx_writer *w, weir_graph *g, const char *outputs);
void        weir_onnx_writer_free(weir_onnx_writer *w);

#endif
