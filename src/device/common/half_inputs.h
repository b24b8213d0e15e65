/* half_inputs.h - the operands that kernels in f32 read or write as f16 or bf16, too, on the CPU
 * and on cards: weir_device_ops.widens and rounds of both. */
#ifndef WEIR_DEVICE_COMMON_HALF_INPUTS_H
#define WEIR_DEVICE_COMMON_HALF_INPUTS_H

#include <stdint.h>

#include "core/op.h"

/* x of the statistics, dy and x of the gradient's sums, the gradient of updates. */
static const uint32_t weir_widens[WEIR_OP_COUNT] = {
    [WEIR_OP_BN_STATS] = 1,       [WEIR_OP_BN_GRAD_REDUCE] = 3, [WEIR_OP_SGD_UPDATE] = 2,
    [WEIR_OP_ADAM_UPDATE] = 2,    [WEIR_OP_ADAMW_UPDATE] = 2,   [WEIR_OP_ADAGRAD_UPDATE] = 2,
    [WEIR_OP_RMSPROP_UPDATE] = 2, [WEIR_OP_ACCUMULATE] = 2,     [WEIR_OP_LAYER_NORM] = 1,
    [WEIR_OP_LAYER_NORM_GRAD] = 3,
};

/* y, dx. */
static const uint32_t weir_rounds[WEIR_OP_COUNT] = {
    [WEIR_OP_LAYER_NORM] = 1,
    [WEIR_OP_LAYER_NORM_GRAD] = 1,
};

#endif
