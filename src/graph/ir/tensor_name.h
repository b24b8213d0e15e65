/* tensor_name.h - names of tensors. */
#ifndef WEIR_GRAPH_IR_TENSOR_NAME_H
#define WEIR_GRAPH_IR_TENSOR_NAME_H

#include "core/tensor.h"

/* Does t view its whole block in dense order? Its name is then that of the block. */
bool weir_tensor_is_whole(const weir_tensor *t);

#endif
