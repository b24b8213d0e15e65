/* proto.h - what an ONNX file says: nodes, attributes, tensors, inputs and outputs.
 * Defined in pool.c, tensor.c and proto.c.
 *
 * Everything lies in one pool and is freed with it. Names of values are numbers ("slots") of one
 * table, so a walk needs no look-up by text. Elements of tensors stay in the file.
 * Field numbers: github.com/onnx/onnx, onnx/onnx.proto. */
#ifndef WEIR_MODEL_ONNX_PROTO_H
#define WEIR_MODEL_ONNX_PROTO_H

#include "model/onnx/wire.h"

/* Chunks of host memory that are freed together. */
typedef struct weir_onnx_pool {
    struct weir_onnx_chunk *last;
    size_t                  used, room;
} weir_onnx_pool;

/* Zeroed memory for n elements of `size` bytes; NULL: memory ran out. Aligned for any type. */
void *weir_onnx_pool_get(weir_onnx_pool *p, uint64_t n, size_t size);
void  weir_onnx_pool_free(weir_onnx_pool *p);

/* Names and their numbers, which are their order. */
typedef struct weir_onnx_names {
    const char **name; /* [n]; in the pool */
    uint32_t    *next; /* [n]: another with that hash + 1, 0: none */
    uint32_t    *head; /* [1 << bits]: number + 1 */
    uint32_t     n, room;
    int          bits;
} weir_onnx_names;

/* The number of the name, which is added if it is new; the text must outlive the table. */
weir_status weir_onnx_names_add(weir_onnx_names *t, const char *name, uint32_t *number);
void        weir_onnx_names_free(weir_onnx_names *t);

/* ONNX's numbers of element types. */
typedef enum weir_onnx_type {
    WEIR_ONNX_NONE,
    WEIR_ONNX_FLOAT,
    WEIR_ONNX_UINT8,
    WEIR_ONNX_INT8,
    WEIR_ONNX_UINT16,
    WEIR_ONNX_INT16,
    WEIR_ONNX_INT32,
    WEIR_ONNX_INT64,
    WEIR_ONNX_STRING,
    WEIR_ONNX_BOOL,
    WEIR_ONNX_FLOAT16,
    WEIR_ONNX_DOUBLE,
    WEIR_ONNX_UINT32,
    WEIR_ONNX_UINT64,
    WEIR_ONNX_COMPLEX64,
    WEIR_ONNX_COMPLEX128,
    WEIR_ONNX_BFLOAT16
} weir_onnx_type;

/* Whether Weir has the type, and which it is; the name of any type ("int8"). */
bool        weir_onnx_dtype(int64_t type, weir_dtype *t);
const char *weir_onnx_type_name(int64_t type);

/* A TensorProto. */
typedef struct weir_onnx_tensor {
    const char     *name; /* "" if none */
    uint32_t        slot; /* of an initializer */
    int64_t         type;
    int             ndim;
    int64_t         dim[WEIR_MAX_DIMS];
    weir_wire_range message, raw;
    bool            has_raw, external;
    const char     *location;       /* of external data; NULL: none */
    uint64_t        offset, length; /* length 0: to the end */
    void           *bytes;          /* owned by the model: a constant's elements; or NULL */
} weir_onnx_tensor;

typedef struct weir_onnx_graph weir_onnx_graph;

/* An AttributeProto. */
typedef struct weir_onnx_attr {
    const char       *name;
    const char       *reference; /* the attribute of the function around it; NULL: none */
    double            f;
    int64_t           i;
    const char       *s; /* NULL: none; n_s bytes and a 0 */
    size_t            n_s;
    weir_onnx_tensor *t;
    weir_onnx_graph  *g;
    float            *floats;
    int64_t          *ints;
    const char      **strings;
    size_t            n_floats, n_ints, n_strings;
} weir_onnx_attr;

#define WEIR_ONNX_ABSENT UINT32_MAX /* the slot of an input that is left out */

struct weir_onnx_row;

typedef struct weir_onnx_node {
    const char                 *op, *domain, *name;
    uint32_t                   *in, *out; /* slots */
    size_t                      n_in, n_out;
    weir_onnx_attr             *attr;
    size_t                      n_attr;
    const struct weir_onnx_row *row; /* of the table, once it has been looked up */
} weir_onnx_node;

/* A graph's input or output. */
typedef struct weir_onnx_port {
    const char *name;
    uint32_t    slot;
    int64_t     type; /* WEIR_ONNX_NONE: not said, or no tensor */
    bool        shaped, tensor;
    int         ndim;
    int64_t     dim[WEIR_MAX_DIMS];   /* -1: not said */
    const char *param[WEIR_MAX_DIMS]; /* the name of a dim; NULL: none */
} weir_onnx_port;

struct weir_onnx_graph {
    weir_onnx_node   *node;
    weir_onnx_tensor *init;
    weir_onnx_port   *in, *out;
    size_t            n_node, n_init, n_in, n_out;
};

/* A ModelProto. */
typedef struct weir_onnx_proto {
    weir_wire_source source;
    weir_onnx_pool   pool;
    weir_onnx_names  names;
    int64_t          opset; /* of the default domain */
    size_t           n_functions;
    const char      *function; /* the name of the first local function; NULL: none */
    weir_onnx_graph  graph;
} weir_onnx_proto;

/* Reads all but elements. Free it even after a failure. */
weir_status weir_onnx_parse(weir_onnx_proto *p);
void        weir_onnx_proto_free(weir_onnx_proto *p);

/* Parts of a parse: a text of the pool, a tensor. */
weir_status weir_onnx_text(weir_onnx_proto *p, weir_wire_range r, const char **text, size_t *n);
weir_status weir_onnx_parse_tensor(weir_onnx_proto *p, weir_wire_range r, weir_onnx_tensor *t);
weir_status weir_onnx_count(weir_onnx_proto *p, weir_wire_range r, uint32_t number, uint64_t *n);
weir_status weir_onnx_slot(weir_onnx_proto *p, weir_wire_range r, uint32_t *slot,
                           const char **name);

/* The shape of t as a tensor of Weir; fails for a type or shape that it lacks. */
weir_status weir_onnx_desc(const weir_onnx_proto *p, const weir_onnx_tensor *t, weir_desc *d);

/* Reads the elements of t, row-major, `bytes` of them, into `to`. The length is checked first by
 * weir_onnx_tensor_check, before memory for them is allocated. */
weir_status weir_onnx_tensor_check(weir_onnx_proto *p, const weir_onnx_tensor *t, size_t *bytes);
weir_status weir_onnx_tensor_read(weir_onnx_proto *p, const weir_onnx_tensor *t, void *to,
                                  size_t bytes);

/* Takes elements `part` bytes at a time: n bytes that lie at byte `from` of the tensor. */
typedef struct weir_onnx_taker {
    void  *buffer, *context;            /* buffer: `part` bytes */
    size_t part;
    weir_status (*take)(void *context, const void *at, size_t from, size_t n);
} weir_onnx_taker;

/* Whether t's elements can be read in parts; reads them so. */
bool        weir_onnx_tensor_parts(const weir_onnx_proto *p, const weir_onnx_tensor *t);
weir_status weir_onnx_tensor_take(weir_onnx_proto *p, const weir_onnx_tensor *t, size_t bytes,
                                  const weir_onnx_taker *to);

#endif
