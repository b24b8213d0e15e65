/* quantize.c - QUANTIZE, DEQUANTIZE: f32 values as a few bits each, and back to about the same.
 *
 * Made by a planner only, and only when it was asked to lose something: like PACK and UNPACK, but
 * numbers are rounded, at random and right on average. */
#include "graph/ops/define.h"

static weir_status quantize_infer(weir_call *c)
{
    return weir_call_fail(WEIR_ERR_STATE, c, "is inserted by planners only");
}

const weir_opdef weir_op_quantize = {
    .name = "quantize",
    .flags = WEIR_RANDOM,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = quantize_infer,
    .flops = weir_flops_input,
};

const weir_opdef weir_op_dequantize = {
    .name = "dequantize",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = quantize_infer,
};
