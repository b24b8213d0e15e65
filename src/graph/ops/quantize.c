/* quantize.c - definitions of QUANTIZE and DEQUANTIZE: lossy compression of f32 values to a few
 * bits each (Chen et al., "ActNN", ICML 2021).
 *
 * Inserted by the memory planner only, and only if the user allows loss. Values are rounded
 * stochastically, so that the expected value is exact. */
#include "graph/ops/define.h"

const weir_opdef weir_op_quantize = {
    .name = "quantize",
    .flags = WEIR_RANDOM,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = weir_infer_planner_only,
    .flops = weir_flops_input,
};

const weir_opdef weir_op_dequantize = {
    .name = "dequantize",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = weir_infer_planner_only,
};
