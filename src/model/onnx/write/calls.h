/* calls.h - the table of calls, and its functions, one for each CALL row of calls.def.
 * Defined in calls.c, attention.c, elementwise.c, matrix.c, move.c, norm.c and reduce.c. */
#ifndef WEIR_MODEL_ONNX_WRITE_CALLS_H
#define WEIR_MODEL_ONNX_WRITE_CALLS_H

#include "model/onnx/write/writer.h"

#define SAME(op, operator, since)
#define CALL(op, function, since, results, as)                                                     \
    void weir_onnx_write_##function(weir_onnx_writer *w, const weir_onnx_written *c);
#define MOVE(op, function, since, as) CALL(op, function, since, 1, as)
#include "model/onnx/write/calls.def"
#undef SAME
#undef CALL
#undef MOVE

/* NULL: no operator of ONNX. */
const weir_onnx_way *weir_onnx_way_of(const char *op);

/* Why an LSTM cannot be written: ONNX's gives the cells of its last step alone. NULL: it can. */
const char *weir_onnx_lstm_refused(const weir_onnx_writer *w, const weir_onnx_written *c);

/* Finds a normalisation whose statistics are its input's own: sets whole, eps, uses and in. */
void weir_onnx_find_norm(weir_onnx_writer *w, weir_onnx_written *c);

#endif
