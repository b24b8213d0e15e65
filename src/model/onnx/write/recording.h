/* recording.h - a recorded step as the text of weir_graph_recorded says it, in tables.
 * Defined in recording.c. docs/reference/graph-file.md describes the text. */
#ifndef WEIR_MODEL_ONNX_WRITE_RECORDING_H
#define WEIR_MODEL_ONNX_WRITE_RECORDING_H

#include "model/onnx/proto.h"

#define WEIR_RECORDING_NONE UINT32_MAX

enum { WEIR_RECORDING_IN = 8, WEIR_RECORDING_OUT = 4, WEIR_RECORDING_WORDS = 32 };

/* A shape, a type and strides in elements. */
typedef struct weir_recording_layout {
    weir_desc desc;
    int64_t   stride[WEIR_MAX_DIMS];
} weir_recording_layout;

/* Memory of its own: a tensor from outside, or a result. */
typedef struct weir_recording_storage {
    weir_recording_layout layout;   /* of all of it */
    const char           *name;     /* of the program; "" if none */
    uint32_t              call;     /* that makes it; NONE: it comes from outside */
    uint32_t              result;   /* which result of the call */
    uint32_t              changed;  /* the first call that overwrites it; NONE */
    weir_role             role;     /* if it comes from outside, as tensor */
    weir_tensor          *tensor;   /* borrowed from the graph */
} weir_recording_storage;

/* A view of a storage. */
typedef struct weir_recording_value {
    weir_recording_layout layout;
    int64_t               offset;   /* elements */
    uint32_t              storage;
} weir_recording_value;

typedef struct weir_recording_call {
    const char *op, *path;          /* path: of name scopes, "" if none */
    bool        forward;            /* not of a gradient or an update */
    uint32_t    number;             /* of the program's call, in its path */
    uint32_t    nin, nout, in[WEIR_RECORDING_IN], out[WEIR_RECORDING_OUT]; /* values */
    size_t      words;
    int64_t     attr[WEIR_RECORDING_WORDS];     /* doubles as their bits; core/attr.h */
} weir_recording_call;

typedef struct weir_recording_output {
    const char *name;
    uint32_t    value;
} weir_recording_output;

/* Everything lies in the pool of the caller. */
typedef struct weir_onnx_recording {
    weir_recording_storage *storage;
    weir_recording_value   *value;
    weir_recording_call    *call;
    weir_recording_output  *output;
    uint32_t                storages, values, calls, outputs;
} weir_onnx_recording;

/* Reads the recording of a planned graph. Tensors are borrowed from the graph. */
weir_status weir_recording_read(weir_onnx_recording *r, weir_onnx_pool *pool, weir_graph *g);

/* Attribute i as a double. */
double weir_recording_double(const weir_recording_call *c, size_t i);

int64_t weir_recording_count(const weir_desc *d);

/* Whether both are of one shape and type with the same strides, sizes of 1 apart. */
bool weir_recording_same(const weir_recording_layout *a, const weir_recording_layout *b);

#endif
