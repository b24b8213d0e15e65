/* memory_format.h - which memory format the result of an operation has. */
#ifndef WEIR_GRAPH_FRONTEND_MEMORY_FORMAT_H
#define WEIR_GRAPH_FRONTEND_MEMORY_FORMAT_H

#include <stdbool.h>

#include "core/op.h"
#include "core/tensor.h"

/* Whether the call must be recorded with a fifth axis, so that its result of four axes is row-major
 * as its operands are. */
bool weir_format_is_row_major(const weir_opdef *def, weir_op op, int nin, weir_tensor *const *in,
                              const void *attr);

/* Records it so: as weir_record, or as weir_record_at_rng if rng is not NULL. out holds one
 * handle. */
weir_status weir_format_record(weir_op op, int nin, weir_tensor *const *in, const void *attr,
                               size_t attr_bytes, const uint64_t *rng, weir_tensor **out);

#endif
