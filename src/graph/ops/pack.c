/* pack.c - definitions of PACK and UNPACK: lossless compression of a value.
 *
 * Inserted by the memory planner only, after all passes: x -> PACK -> bytes, then bytes -> UNPACK
 * -> a new storage with x's elements. Both process elements in memory order. */
#include "graph/ops/define.h"

/* Programs cannot record it: planners know the range of values from the op that computed them. */
static weir_status pack_infer(weir_call *c)
{
    return weir_call_fail(WEIR_ERR_STATE, c, "is inserted by planners only");
}

const weir_opdef weir_op_pack = {
    .name = "pack",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = pack_infer,
    .flops = weir_flops_none,
};

const weir_opdef weir_op_unpack = {
    .name = "unpack",
    .flags = WEIR_PURE,
    .nin_min = 1,
    .nin_max = 1,
    .nout = 1,
    .infer = pack_infer,
    .flops = weir_flops_none,
};
