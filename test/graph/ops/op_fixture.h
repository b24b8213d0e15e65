/* op_fixture.h - runs a row of the op table: device, tensors with values, expected answers. */
#ifndef WEIR_TEST_GRAPH_OPS_OP_FIXTURE_H
#define WEIR_TEST_GRAPH_OPS_OP_FIXTURE_H

#include "graph/ops/table.h"

/* An input as the text of a shape set describes it. */
typedef struct op_shape {
    weir_desc desc;         /* as the operation sees it */
    char      view;         /* 0, 't', 'b', 'l' */
} op_shape;

typedef struct op_fixture {
    const op_row *row;
    const op_set *set;
    weir_dtype    type;
    weir_device  *dev;
    bool          own;                      /* dev was opened for this trial */
    int           nin;                      /* shapes in the set */
    bool          given;                    /* the row has no inputs: shape[0] is the result's */
    op_shape      shape[OP_MAX_IN];
    ref_array     leaf[OP_MAX_IN];          /* values of the tensors below the views */
    weir_tensor  *tensor[OP_MAX_IN];
    ref_array     weight;                   /* the loss is sum(result * weight) */
    weir_tensor  *weights;                  /* NULL: the result is not differentiated */
} op_fixture;

typedef struct op_result {
    weir_tensor *y, *loss, *grad[OP_MAX_IN];    /* NULL for those that do not exist */
} op_result;

/* Bytes of several tensors in a row. */
typedef struct op_bytes {
    unsigned char *at;
    size_t         n;
} op_bytes;

/* Shapes of a set; the number of them, -1 if the text is malformed. */
int op_parse(const char *text, weir_dtype type, op_shape shape[OP_MAX_IN]);

/* Makes tensors with values for the row's inputs on d; an input whose types[i] is not -1 gets that
 * type (types may be NULL). False (and a failed check) if that does not work; close in any case. */
bool op_open_on(op_fixture *t, weir_device *d, const op_row *row, const op_set *set,
                weir_dtype type, const int *types);

/* The same on a device of its own, and loss weights, so that op_record works. */
bool op_open(op_fixture *t, const op_row *row, const op_set *set, weir_dtype type, int threads);

/* The same on the device of that name instead of the one under test. */
bool op_open_at(op_fixture *t, const char *device, const op_row *row, const op_set *set,
                weir_dtype type, int threads);
void op_close(op_fixture *t);

/* New values for all tensors (states: only if `states`). */
bool op_draw(op_fixture *t, bool states);

/* Writes leaf i as it is now. */
bool op_write(op_fixture *t, int i);

/* All inputs and loss weights get the values of another trial of the row. */
bool op_write_like(op_fixture *t, const op_fixture *like);

/* The result of the row's operation, through the views. */
weir_tensor *op_apply(const op_fixture *t);

/* Result, loss and gradients, recorded or computed; all are kept, the result only if `keep_y`. */
weir_status op_record(const op_fixture *t, bool keep_y, op_result *r);

/* The reference's answer for the values as they are; leaves of states move on. got: op_call's. */
ref_array op_expect(op_fixture *t, const double *got);

/* Reads result, loss, gradients and states, one after the other. at is freed by op_bytes_free. */
bool op_read_all(const op_fixture *t, const op_result *r, op_bytes *out);
void op_bytes_free(op_bytes *b);

/* The whole tensor as doubles; NULL after a failed check. */
double *op_read(const weir_tensor *t);

/* Is the input compared after a call, as the call may have written it? */
bool op_is_state(const op_fixture *t, int i);

/* Is the input differentiated? */
bool op_is_wrt(const op_fixture *t, int i);

#endif
