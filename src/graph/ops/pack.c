/* pack.c - PACK, UNPACK: a value with fewer bits for each element, and back to the same bits.
 *
 * Made by a planner only, behind all passes: x -> PACK -> bytes, bytes -> UNPACK -> x again, in a
 * storage of its own. Both look at elements in the order in which they lie in memory. */
#include "graph/ops/define.h"

/* A program cannot say which values come: planners know from the operation that made them. */
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
